//! One look at the disk: what stands under a path, opened. Runs in the loop as long as the kernel answers
//! from memory, and once more on a helper thread when it would have to wait.
//!
//! Knows nothing of requests: it finds, it does not decide.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use site::memory;
use site::model::{EtagFrom, FileRules, Symlinks};
use taipan_http::negotiate::Coding;
use taipan_http::target::SafePath;

use super::beneath::{self, OpenError, Root, Wait};
use crate::disk::Device;
use crate::sys::calls;

/// What tells two states of a file apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub device: Device,
    pub inode: u64,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified: i128,
    /// Of the inode: permissions, owner, links.
    pub changed: i128,
}

impl Stamp {
    pub fn modified_seconds(&self) -> i64 {
        self.modified.div_euclid(1_000_000_000) as i64
    }
}

/// What to look for, and where.
#[derive(Debug, Clone)]
pub struct Query {
    pub root: Root,
    pub path: SafePath<'static>,
    pub index: Vec<String>,
    pub symlinks: Symlinks,
    pub precompressed: Vec<Coding>,
    pub gunzip: bool,
    /// Files up to this size are kept in memory. Larger ones are sent from their descriptor.
    pub keep_up_to: u64,
    /// Files up to this size are read even so, because their content is needed.
    pub read_up_to: u64,
}

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
}

#[derive(Debug)]
pub enum Found {
    Missing,
    /// No permission, a link that leads outside, or something that is neither file nor folder.
    Denied,
    /// A folder, and no index in it. The stamp is the folder's.
    Folder(Stamp),
    /// At least one representation; the first is the plain one if there is one.
    File {
        name: String,
        variants: Vec<Variant>,
    },
}

/// One representation of a file: as it is, or a precompressed neighbour.
#[derive(Debug)]
pub struct Variant {
    pub stamp: Stamp,
    pub coding: Coding,
    /// `None` where it is not needed any more: closing may wait for a disk, too.
    pub fd: Option<OwnedFd>,
    /// The content, when it is small enough to keep.
    pub body: Option<Vec<u8>>,
}

/// How often a file is looked at again that has become shorter while it was read.
const CHANGES: usize = 2;

/// Looks. `known` are the stamps of what was found before: if nothing has changed, `Ok(None)`.
pub fn look(query: &Query, known: &[Stamp], wait: Wait) -> Result<Option<Found>, OpenError> {
    // Nothing is known yet: what is in memory, on a disk of this machine, is opened for reading straight away. A file
    // system without a disk (major number 0) may be on another machine, or a program, and even opening may wait for it.
    let opening = match known.is_empty() && wait == Wait::Never && query.root.device.0 != 0 {
        true => Opening::ForReading,
        false => Opening::ForStat,
    };
    let seen = match see(query, wait, opening) {
        Ok(seen) => seen,
        Err(OpenError::Missing) => return Ok(Some(Found::Missing)),
        Err(OpenError::Denied) => return Ok(Some(Found::Denied)),
        Err(error) => return Err(error),
    };
    if !known.is_empty() && seen.stamps().eq(known.iter().copied()) {
        return Ok(None);
    }
    match seen {
        Seen::Folder(stamp) => Ok(Some(Found::Folder(stamp))),
        Seen::Files(files) => match load(query, files, wait) {
            Ok(found) => Ok(Some(found)),
            Err(OpenError::Missing) => Ok(Some(Found::Missing)),
            Err(OpenError::Denied) => Ok(Some(Found::Denied)),
            Err(error) => Err(error),
        },
    }
}

/// The device that a look will wait for: that of the last folder on the way that the kernel knows.
pub fn device(query: &Query) -> Device {
    let mut folders = query.path.segments().count() + usize::from(query.path.is_folder());
    // A path has fewer segments than bytes, and those are limited.
    while folders > 0 {
        folders -= 1;
        let known = query.path.first_segments(folders).and_then(|path| stat(query, &path, Wait::Never).ok());
        if let Some((_, stamp)) = known {
            return stamp.device;
        }
    }
    query.root.device
}

/// Is `fd` still what `stamp` says, as far as its first `stamp.size` bytes go? A file that only grew is.
pub fn unchanged(fd: &OwnedFd, stamp: &Stamp) -> bool {
    // As far as the kernel knows: this is asked in the loop, and a disk may not answer.
    stat_opened(fd, Wait::Never).is_ok_and(|(_, now)| {
        now.size > stamp.size || (now.size == stamp.size && now.modified == stamp.modified)
    })
}

/// Can the byte at `at` be sent without waiting for a disk? Where the file system cannot say, it may have
/// to wait.
pub fn is_in_memory(fd: &OwnedFd, at: u64) -> bool {
    let mut byte = [0; 1];
    let read = retry_on_intr(|| calls::preadv2(fd, &mut byte, at, ReadWriteFlags::NOWAIT));
    !matches!(read, Err(Errno::AGAIN | Errno::OPNOTSUPP))
}

/// `length` bytes from `at`; `None` when there are fewer, because the file is being changed.
pub fn read(fd: &OwnedFd, at: u64, length: usize, wait: Wait) -> Result<Option<Vec<u8>>, OpenError> {
    let flags = if wait == Wait::Never { ReadWriteFlags::NOWAIT } else { ReadWriteFlags::empty() };
    let mut bytes = vec![0; length];
    let mut have = 0;
    while have < length {
        match calls::preadv2(fd, &mut bytes[have..], at + have as u64, flags) {
            Ok(0) => return Ok(None),
            Ok(n) => have += n,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::OPNOTSUPP) if wait == Wait::Never => return Err(OpenError::WouldWait),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(Some(bytes))
}

/// What a look sees before anything is opened for reading.
enum Seen {
    Folder(Stamp),
    Files(Vec<Sight>),
}

struct Sight {
    path: SafePath<'static>,
    coding: Coding,
    stamp: Stamp,
    /// Open for reading, where that has been tried.
    fd: Option<OwnedFd>,
}

/// How a file is opened to see what it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// With O_PATH, which has no effect on it, and does not ask its file system.
    ForStat,
    ForReading,
}

/// What stands under one path.
struct Examined {
    kind: FileType,
    stamp: Stamp,
    fd: Option<OwnedFd>,
}

impl Seen {
    fn stamps(&self) -> impl Iterator<Item = Stamp> {
        let (folder, files) = match self {
            Seen::Folder(stamp) => (Some(*stamp), &[][..]),
            Seen::Files(files) => (None, &files[..]),
        };
        folder.into_iter().chain(files.iter().map(|f| f.stamp))
    }
}

fn see(query: &Query, wait: Wait, opening: Opening) -> Result<Seen, OpenError> {
    let is_folder = query.path.is_folder();
    match examine(query, &query.path, wait, opening) {
        Err(OpenError::Missing) if !is_folder => {
            see_files(query, &query.path, None, wait, opening)?.ok_or(OpenError::Missing)
        }
        Err(error) => Err(error),
        Ok(examined) => match examined.kind {
            FileType::RegularFile if is_folder => Err(OpenError::Missing),
            FileType::RegularFile => {
                see_files(query, &query.path, Some(examined), wait, opening)?.ok_or(OpenError::Missing)
            }
            FileType::Directory if is_folder => see_index(query, examined.stamp, wait, opening),
            FileType::Directory => Ok(Seen::Folder(examined.stamp)),
            _ => Err(OpenError::Denied),
        },
    }
}

fn see_index(query: &Query, folder: Stamp, wait: Wait, opening: Opening) -> Result<Seen, OpenError> {
    for name in &query.index {
        let Some(path) = query.path.join(name) else { continue };
        let plain = match examine(query, &path, wait, opening) {
            Ok(examined) if examined.kind == FileType::RegularFile => Some(examined),
            Ok(_) => continue,
            Err(OpenError::Missing) => None,
            Err(error) => return Err(error),
        };
        if let Some(seen) = see_files(query, &path, plain, wait, opening)? {
            return Ok(seen);
        }
    }
    Ok(Seen::Folder(folder))
}

/// `path` itself, if it is there, and the compressed files beside it.
fn see_files(
    query: &Query,
    path: &SafePath<'static>,
    plain: Option<Examined>,
    wait: Wait,
    opening: Opening,
) -> Result<Option<Seen>, OpenError> {
    let wanted: &[Coding] = match plain {
        Some(_) => &query.precompressed,
        None if query.gunzip => &[Coding::Gzip],
        None => &[],
    };
    let plain_stamp = plain.as_ref().map(|plain| plain.stamp);
    let mut files = Vec::new();
    if let Some(Examined { stamp, fd, .. }) = plain {
        files.push(Sight { path: path.clone(), coding: Coding::Identity, stamp, fd });
    }
    for &coding in wanted {
        let Some(beside) = path.with_suffix(coding.extension()) else { continue };
        match examine(query, &beside, wait, opening) {
            Ok(Examined { kind: FileType::RegularFile, stamp, fd })
                if plain_stamp.is_none_or(|plain| is_of(&stamp, &plain)) =>
            {
                files.push(Sight { path: beside, coding, stamp, fd });
            }
            // The plain file is right without a precompressed one that cannot be used.
            Ok(_) | Err(OpenError::Missing | OpenError::Denied) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((!files.is_empty()).then_some(Seen::Files(files)))
}

fn examine(query: &Query, path: &SafePath<'_>, wait: Wait, opening: Opening) -> Result<Examined, OpenError> {
    if opening == Opening::ForReading {
        match beneath::open_on_device(&query.root, path, query.symlinks) {
            Ok(fd) => {
                let (kind, stamp) = stat_opened(&fd, wait)?;
                return Ok(Examined { kind, stamp, fd: Some(fd) });
            }
            Err(error @ (OpenError::Missing | OpenError::WouldWait)) => return Err(error),
            // It may not be a file, or lie on another device.
            Err(OpenError::Denied | OpenError::Local(_)) => {}
        }
    }
    let (kind, stamp) = stat(query, path, wait)?;
    Ok(Examined { kind, stamp, fd: None })
}

/// A neighbour that is older than the plain file was made of another one. In whole seconds: not every
/// compressor copies the fraction of the time.
fn is_of(neighbour: &Stamp, plain: &Stamp) -> bool {
    neighbour.modified_seconds() >= plain.modified_seconds()
}

fn stat(query: &Query, path: &SafePath<'_>, wait: Wait) -> Result<(FileType, Stamp), OpenError> {
    let fd = beneath::open(&query.root, path, query.symlinks, OFlags::PATH, wait)?;
    stat_opened(&fd, wait)
}

fn stat_opened(fd: &OwnedFd, wait: Wait) -> Result<(FileType, Stamp), OpenError> {
    let sync = if wait == Wait::Never { AtFlags::STATX_DONT_SYNC } else { AtFlags::empty() };
    let st = retry_on_intr(|| calls::statx(fd, "", AtFlags::EMPTY_PATH | sync))?;
    let stamp = Stamp {
        device: (st.stx_dev_major, st.stx_dev_minor),
        inode: st.stx_ino,
        size: st.stx_size,
        modified: nanoseconds(st.stx_mtime.tv_sec, st.stx_mtime.tv_nsec),
        changed: nanoseconds(st.stx_ctime.tv_sec, st.stx_ctime.tv_nsec),
    };
    Ok((FileType::from_raw_mode(st.stx_mode.into()), stamp))
}

fn load(query: &Query, files: Vec<Sight>, wait: Wait) -> Result<Found, OpenError> {
    let name = query_name(&files[0]);
    // Without a plain file the gzip file is inflated, to memory where it is small.
    let inflates = files[0].coding == Coding::Gzip;
    let limit = if inflates { memory::RESPONSE.max(query.read_up_to) } else { query.read_up_to };
    let mut variants = Vec::with_capacity(files.len());
    for sight in files {
        match load_one(query, sight, limit, wait) {
            Ok(variant) => variants.push(variant),
            // As above: without its neighbour the plain file is still right.
            Err(OpenError::Denied | OpenError::Missing) if !variants.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Found::File { name, variants })
}

/// The name that gives the type: without `.gz` where only that is there.
fn query_name(first: &Sight) -> String {
    let name = first.path.name();
    name.strip_suffix(first.coding.extension()).unwrap_or(name).to_owned()
}

fn load_one(query: &Query, sight: Sight, limit: u64, wait: Wait) -> Result<Variant, OpenError> {
    let Sight { path, coding, stamp, fd } = sight;
    let (fd, (mut stamp, mut body)) = match fd {
        Some(fd) => {
            let body = read_small(&fd, &stamp, limit, wait)?;
            (fd, (stamp, body))
        }
        // Opening asks the file system, whatever the kernel has in memory of it.
        None if wait == Wait::Never && stamp.device.0 == 0 => return Err(OpenError::WouldWait),
        None => {
            let fd = beneath::open(&query.root, &path, query.symlinks, beneath::READ, wait)?;
            let loaded = load_opened(&fd, limit, wait)?;
            (fd, loaded)
        }
    };
    for _ in 0..CHANGES {
        if body.is_some() || stamp.size > limit {
            break;
        }
        (stamp, body) = load_opened(&fd, limit, wait)?;
    }
    // A small gzip file may still be inflated to a large one, from its descriptor.
    let is_kept = body.is_some() && stamp.size <= query.keep_up_to && coding != Coding::Gzip;
    Ok(Variant { stamp, coding, fd: (!is_kept).then_some(fd), body })
}

/// The body is `None` where it is larger than `limit`, or has become shorter meanwhile.
fn load_opened(fd: &OwnedFd, limit: u64, wait: Wait) -> Result<(Stamp, Option<Vec<u8>>), OpenError> {
    let (kind, stamp) = stat_opened(fd, wait)?;
    if kind != FileType::RegularFile {
        return Err(OpenError::Denied);
    }
    Ok((stamp, read_small(fd, &stamp, limit, wait)?))
}

fn read_small(fd: &OwnedFd, stamp: &Stamp, limit: u64, wait: Wait) -> Result<Option<Vec<u8>>, OpenError> {
    if stamp.size <= limit { read(fd, 0, stamp.size as usize, wait) } else { Ok(None) }
}

fn nanoseconds(seconds: i64, nanos: u32) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}
