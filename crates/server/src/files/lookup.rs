//! Lookups: what is at a path, opened, and read where it is small. A worker's loop makes a lookup with `Wait::Never`,
//! which succeeds if the kernel can respond from memory. If it cannot, a helper thread repeats the lookup.
//!
//! Knows nothing of requests and nothing of the cache.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags};
use site::memory;
use site::model::{EtagFrom, FileRules, Symlinks};
use taipan_http::negotiate::Coding;
use taipan_http::target::SafePath;

use super::beneath::{self, OpenError, Root, Wait};
use super::open::{Stamp, is_on_disk, read, stat};
use crate::disk::Device;

/// What to look up.
#[derive(Debug, Clone)]
pub struct Query {
    pub root: Root,
    pub path: SafePath<'static>,
    pub index: Vec<String>,
    pub symlinks: Symlinks,
    pub precompressed: Vec<Coding>,
    pub gunzip: bool,
    /// Files up to this size are cached in memory. Larger ones are sent from their descriptor.
    pub keep_up_to: u64,
    /// Files up to this size are read, because their entity tag needs their content.
    pub read_up_to: u64,
}

/// The result of a lookup.
#[derive(Debug)]
pub enum Lookup {
    Missing,
    /// No permission, a link that leads outside the root, or neither a regular file nor a folder.
    Denied,
    /// A folder without an index file. The stamp is the folder's.
    Folder(Stamp),
    /// At least one variant. The first is the plain file, if it exists.
    File {
        name: String,
        variants: Vec<Variant>,
    },
}

/// A file: the plain one, or a precompressed one.
#[derive(Debug)]
pub struct Variant {
    pub stamp: Stamp,
    pub coding: Coding,
    /// `None`: `body` suffices.
    pub fd: Option<OwnedFd>,
    /// The content, where it is small enough.
    pub body: Option<Vec<u8>>,
}

/// How often a file is read again that became shorter while it was read.
const REREADS: usize = 2;

impl Query {
    pub fn new(root: Root, path: SafePath<'static>, rules: &FileRules, keep_up_to: u64) -> Query {
        let FileRules { index, symlinks, precompressed, gunzip, etag, .. } = rules;
        let read_up_to =
            if *etag == EtagFrom::Content { memory::RESPONSE.max(keep_up_to) } else { keep_up_to };
        Query {
            root,
            path,
            index: index.clone(),
            symlinks: *symlinks,
            precompressed: precompressed.clone(),
            gunzip: *gunzip,
            keep_up_to,
            read_up_to,
        }
    }

    /// Errors: `WouldWait` and `Local`.
    pub fn lookup(&self, wait: Wait) -> Result<Lookup, OpenError> {
        let opening = match wait {
            Wait::Never if is_on_disk(self.root.device) => Opening::ForReading,
            Wait::Never | Wait::Allowed => Opening::ForStat,
        };
        let run = Run { query: self, wait, opening };
        missing_or_denied(run.candidates().and_then(|candidates| run.load(candidates)))
    }

    /// As `lookup`. `None`: the files still have the stamps of an earlier lookup.
    pub fn lookup_if_changed(&self, stamps: &[Stamp], wait: Wait) -> Result<Option<Lookup>, OpenError> {
        if stamps.is_empty() {
            return self.lookup(wait).map(Some);
        }
        let run = Run { query: self, wait, opening: Opening::ForStat };
        match run.candidates() {
            Ok(candidates) if candidates.stamps().eq(stamps.iter().copied()) => Ok(None),
            candidates => missing_or_denied(candidates.and_then(|found| run.load(found))).map(Some),
        }
    }

    /// The device that a lookup waits for: that of the deepest folder on the path that the kernel has in memory.
    pub fn device(&self) -> Device {
        let run = Run { query: self, wait: Wait::Never, opening: Opening::ForStat };
        let folders = self.path.segments().count() + usize::from(self.path.is_folder());
        let in_memory = (0..folders).rev().find_map(|n| run.inspect(&self.path.first_segments(n)?).ok());
        in_memory.map_or(self.root.device, |folder| folder.stamp.device)
    }
}

fn missing_or_denied(result: Result<Lookup, OpenError>) -> Result<Lookup, OpenError> {
    match result {
        Err(OpenError::Missing) => Ok(Lookup::Missing),
        Err(OpenError::Denied) => Ok(Lookup::Denied),
        result => result,
    }
}

/// How a path is opened to inspect it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// With O_PATH, which has no effect on a device or a FIFO and sends its file system no request.
    ForStat,
    /// For reading if the kernel can do so from memory, which saves opening a small file twice; else as `ForStat`.
    ForReading,
}

/// One lookup.
struct Run<'a> {
    query: &'a Query,
    wait: Wait,
    opening: Opening,
}

/// What is at one path.
struct Inspected {
    kind: FileType,
    stamp: Stamp,
    /// Open for reading, with `Opening::ForReading`.
    fd: Option<OwnedFd>,
}

/// A regular file that a response may be made of.
struct Candidate {
    path: SafePath<'static>,
    coding: Coding,
    stamp: Stamp,
    fd: Option<OwnedFd>,
}

enum Candidates {
    Folder(Stamp),
    Files(Vec<Candidate>),
}

impl Candidates {
    fn stamps(&self) -> impl Iterator<Item = Stamp> {
        let (folder, files) = match self {
            Candidates::Folder(stamp) => (Some(*stamp), &[][..]),
            Candidates::Files(files) => (None, &files[..]),
        };
        folder.into_iter().chain(files.iter().map(|file| file.stamp))
    }
}

impl Run<'_> {
    fn candidates(&self) -> Result<Candidates, OpenError> {
        let path = &self.query.path;
        let plain = match self.inspect(path) {
            Ok(found) => match (found.kind, path.is_folder()) {
                (FileType::RegularFile, false) => Some(found),
                (FileType::RegularFile, true) => return Err(OpenError::Missing),
                (FileType::Directory, true) => return self.index(found.stamp),
                (FileType::Directory, false) => return Ok(Candidates::Folder(found.stamp)),
                _ => return Err(OpenError::Denied),
            },
            Err(OpenError::Missing) if !path.is_folder() => None,
            Err(error) => return Err(error),
        };
        let files = self.files(path, plain)?;
        if files.is_empty() { Err(OpenError::Missing) } else { Ok(Candidates::Files(files)) }
    }

    fn index(&self, folder: Stamp) -> Result<Candidates, OpenError> {
        for name in &self.query.index {
            let Some(path) = self.query.path.join(name) else { continue };
            let plain = match self.inspect(&path) {
                Ok(found) if found.kind == FileType::RegularFile => Some(found),
                Ok(_) => continue,
                Err(OpenError::Missing) => None,
                Err(error) => return Err(error),
            };
            let files = self.files(&path, plain)?;
            if !files.is_empty() {
                return Ok(Candidates::Files(files));
            }
        }
        Ok(Candidates::Folder(folder))
    }

    /// The file at `path`, if it exists, and its precompressed files.
    fn files(&self, path: &SafePath<'static>, plain: Option<Inspected>) -> Result<Vec<Candidate>, OpenError> {
        let codings: &[Coding] = match plain {
            Some(_) => &self.query.precompressed,
            None if self.query.gunzip => &[Coding::Gzip],
            None => &[],
        };
        // A precompressed file that is older was made of another plain file. Only whole seconds are compared, because
        // some compressors do not copy the fraction.
        let oldest = plain.as_ref().map(|plain| plain.stamp.modified_seconds());
        let mut files = Vec::new();
        if let Some(Inspected { stamp, fd, .. }) = plain {
            files.push(Candidate { path: path.clone(), coding: Coding::Identity, stamp, fd });
        }
        for &coding in codings {
            let Some(path) = path.with_suffix(coding.extension()) else { continue };
            match self.inspect(&path) {
                Ok(Inspected { kind: FileType::RegularFile, stamp, fd })
                    if oldest.is_none_or(|oldest| stamp.modified_seconds() >= oldest) =>
                {
                    files.push(Candidate { path, coding, stamp, fd });
                }
                // The plain file suffices.
                Ok(_) | Err(OpenError::Missing | OpenError::Denied) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    fn inspect(&self, path: &SafePath<'_>) -> Result<Inspected, OpenError> {
        let Query { root, symlinks, .. } = self.query;
        if self.opening == Opening::ForReading {
            match beneath::open_on_device(root, path, *symlinks) {
                Ok(fd) => {
                    let (kind, stamp) = stat(&fd, self.wait)?;
                    return Ok(Inspected { kind, stamp, fd: Some(fd) });
                }
                Err(error @ (OpenError::Missing | OpenError::WouldWait)) => return Err(error),
                // It may not be a regular file, or it is on another device.
                Err(OpenError::Denied | OpenError::Local(_)) => {}
            }
        }
        let fd = beneath::open(root, path, *symlinks, OFlags::PATH, self.wait)?;
        let (kind, stamp) = stat(&fd, self.wait)?;
        Ok(Inspected { kind, stamp, fd: None })
    }

    fn load(&self, candidates: Candidates) -> Result<Lookup, OpenError> {
        let files = match candidates {
            Candidates::Folder(stamp) => return Ok(Lookup::Folder(stamp)),
            Candidates::Files(files) => files,
        };
        let Candidate { path, coding, .. } = &files[0];
        // The name without `.gz` has the media type, even where only the gzip file exists.
        let name = path.name();
        let name = name.strip_suffix(coding.extension()).unwrap_or(name).to_owned();
        // Without a plain file, the gzip file is inflated: into memory if it is small.
        let read_up_to = match coding {
            Coding::Gzip => memory::RESPONSE.max(self.query.read_up_to),
            _ => self.query.read_up_to,
        };
        let mut variants = Vec::with_capacity(files.len());
        for file in files {
            match self.load_file(file, read_up_to) {
                Ok(variant) => variants.push(variant),
                // The plain file suffices.
                Err(OpenError::Denied | OpenError::Missing) if !variants.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Lookup::File { name, variants })
    }

    fn load_file(&self, file: Candidate, read_up_to: u64) -> Result<Variant, OpenError> {
        let Candidate { path, coding, mut stamp, fd } = file;
        let fd = match fd {
            Some(fd) => fd,
            // Opening for reading sends the file system a request even if the kernel has the file in memory.
            None if self.wait == Wait::Never && !is_on_disk(stamp.device) => {
                return Err(OpenError::WouldWait);
            }
            None => {
                let fd =
                    beneath::open(&self.query.root, &path, self.query.symlinks, beneath::READ, self.wait)?;
                stamp = self.stat_file(&fd)?;
                fd
            }
        };
        let mut body = self.read_small(&fd, &stamp, read_up_to)?;
        for _ in 0..REREADS {
            if body.is_some() || stamp.size > read_up_to {
                break;
            }
            stamp = self.stat_file(&fd)?;
            body = self.read_small(&fd, &stamp, read_up_to)?;
        }
        // A small gzip file may inflate to a large one, which is sent from the descriptor.
        let suffices = body.is_some() && stamp.size <= self.query.keep_up_to && coding != Coding::Gzip;
        Ok(Variant { stamp, coding, fd: (!suffices).then_some(fd), body })
    }

    fn stat_file(&self, fd: &OwnedFd) -> Result<Stamp, OpenError> {
        match stat(fd, self.wait)? {
            (FileType::RegularFile, stamp) => Ok(stamp),
            _ => Err(OpenError::Denied),
        }
    }

    /// `None`: the file is larger than `read_up_to`, or has become shorter.
    fn read_small(&self, fd: &OwnedFd, stamp: &Stamp, read_up_to: u64) -> Result<Option<Vec<u8>>, OpenError> {
        if stamp.size > read_up_to {
            return Ok(None);
        }
        read(fd, 0, stamp.size as usize, self.wait)
    }
}
