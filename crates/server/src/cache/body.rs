//! The body of a stored response.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use taipan_http::range::ByteRange;

use crate::files::open::OpenFile;
use crate::response::{FilePart, Part};

/// A whole body.
#[derive(Clone)]
pub enum StoredBody {
    Bytes(Rc<[u8]>),
    /// `length` bytes of a file from `at`. The file may exist only in memory.
    File {
        file: Rc<OpenFile>,
        at: u64,
        length: u64,
    },
}

/// The bytes of a body, for another thread.
pub enum BodySource {
    Bytes(Vec<u8>),
    /// `length` bytes of a file from `at`.
    File {
        fd: Arc<OwnedFd>,
        at: u64,
        length: u64,
    },
}

impl StoredBody {
    pub fn length(&self) -> u64 {
        match self {
            StoredBody::Bytes(bytes) => bytes.len() as u64,
            StoredBody::File { length, .. } => *length,
        }
    }

    pub fn source(&self) -> BodySource {
        match self {
            StoredBody::Bytes(bytes) => BodySource::Bytes(bytes.to_vec()),
            StoredBody::File { file, at, length } => {
                BodySource::File { fd: file.fd.clone(), at: *at, length: *length }
            }
        }
    }

    /// A range that is within it.
    pub fn part(&self, ByteRange { from, len }: ByteRange) -> Part {
        match self {
            StoredBody::Bytes(bytes) => Part::Bytes(bytes[from as usize..(from + len) as usize].to_vec()),
            StoredBody::File { file, at, .. } => {
                Part::File(FilePart { file: file.clone(), at: at + from, left: len })
            }
        }
    }

    /// Whether it is not in a file of a disk.
    pub fn is_in_memory(&self) -> bool {
        match self {
            StoredBody::Bytes(_) => true,
            StoredBody::File { file, .. } => file.memory() > 0,
        }
    }

    /// Whether its file has been deleted.
    pub fn is_deleted(&self) -> bool {
        match self {
            StoredBody::Bytes(_) => false,
            StoredBody::File { file, .. } => file.is_deleted(),
        }
    }

    /// Whether the body still is what was stored. Another program may have changed its file.
    pub fn is_unchanged(&self) -> bool {
        match self {
            StoredBody::Bytes(_) => true,
            StoredBody::File { file, .. } => file.is_unchanged_lately(),
        }
    }
}
