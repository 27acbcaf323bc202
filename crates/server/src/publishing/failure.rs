//! Why files cannot be changed.

use std::fmt;

use dav::locks::{MAX_LOCKS, MAX_OF_USER, MAX_ON_RESOURCE};
use dav::properties::{MAX_BYTES, MAX_COUNT};
use rustix::io::Errno;
use taipan_http::status::Status;

use super::tree::{MAX_SNAPSHOT, Member};
use super::uploads::MAX_UPLOADS;
use crate::files::beneath::OpenError;
use crate::files::is_shortage;
use crate::sys::is_disk_full;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// There is nothing at the path.
    Missing,
    /// The folder that it would be in is missing.
    NoFolder,
    /// There is something at the path already.
    Exists,
    /// A link or another file system lies on the way.
    Denied,
    /// The user of the process may not.
    Permission(Errno),
    /// A precondition does not hold, or the resource has changed meanwhile.
    Precondition,
    /// Another client has a lock on this.
    Locked(Member),
    /// The file system or the quota is full.
    NoSpace,
    /// There are more than there may be.
    TooMany(Excess),
    /// Another request changes the same files or upload.
    Busy,
    /// Too many requests wait to change names.
    Waiting,
    /// The path, or that of something beneath it, is longer than the system takes.
    TooLong,
    /// Caused neither by the client nor by the path.
    Local(Errno),
}

/// What there is too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    Members,
    /// Beneath a folder that is moved to another root.
    Moved,
    Locks,
    Properties,
    Uploads,
}

impl fmt::Display for Excess {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excess::Members => {
                out.write_str("the folder has more members than \"listing_entries\" in [limits] allows")
            }
            Excess::Moved => {
                write!(
                    out,
                    "more than {MAX_SNAPSHOT} files and folders cannot be moved to another root in one request"
                )
            }
            Excess::Locks => write!(
                out,
                "no more locks: a root has at most {MAX_LOCKS}, a user {MAX_OF_USER}, and a resource {MAX_ON_RESOURCE}"
            ),
            Excess::Properties => write!(
                out,
                "no more properties: a resource has at most {MAX_COUNT} of {MAX_BYTES} bytes together"
            ),
            Excess::Uploads => {
                write!(out, "no more uploads that can be resumed: a root has at most {MAX_UPLOADS}")
            }
        }
    }
}

impl Failure {
    pub fn status(&self) -> Status {
        match self {
            Failure::Missing => Status::NOT_FOUND,
            Failure::NoFolder => Status::CONFLICT,
            Failure::Exists => Status::METHOD_NOT_ALLOWED,
            Failure::Denied | Failure::Permission(_) => Status::FORBIDDEN,
            Failure::Precondition => Status::PRECONDITION_FAILED,
            Failure::Locked(_) => Status::LOCKED,
            Failure::NoSpace | Failure::TooMany(_) => Status::INSUFFICIENT_STORAGE,
            Failure::Busy => Status::CONFLICT,
            Failure::Waiting => Status::SERVICE_UNAVAILABLE,
            Failure::TooLong => Status::URI_TOO_LONG,
            Failure::Local(errno) if is_shortage(*errno) => Status::SERVICE_UNAVAILABLE,
            Failure::Local(_) => Status::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Failure::Missing | Failure::NoFolder => "a file or a folder is missing",
            Failure::Exists => "there is something in its place",
            Failure::Denied => "a link or another file system lies on the way",
            Failure::Precondition | Failure::Locked(_) | Failure::Busy => "another request changes it",
            Failure::NoSpace => "the file system or the quota is full",
            Failure::Waiting => "too many requests wait to change names",
            Failure::TooLong => "a path is longer than the system takes",
            Failure::TooMany(excess) => return excess.fmt(out),
            Failure::Permission(errno) | Failure::Local(errno) => return errno.fmt(out),
        })
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Failure {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Failure::Missing,
            Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR => Failure::Exists,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Failure::Permission(errno),
            Errno::LOOP | Errno::XDEV => Failure::Denied,
            Errno::NAMETOOLONG => Failure::TooLong,
            Errno::FBIG => Failure::NoSpace,
            errno if is_disk_full(errno) => Failure::NoSpace,
            errno => Failure::Local(errno),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        match error {
            OpenError::Missing => Failure::Missing,
            OpenError::Denied | OpenError::WouldWait => Failure::Denied,
            OpenError::Local(errno) => errno.into(),
        }
    }
}
