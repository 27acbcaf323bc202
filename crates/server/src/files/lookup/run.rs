//! One lookup: it finds the files that a response may be made of, and reads the small ones.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags};
use site::alternates::{Label, MAX_ALTERNATES};
use site::field_file::{MAX_AS_IS, MAX_FIELDS_SIZE};
use site::image_map;
use site::includes::MAX_PARSED;
use site::memory;
use site::model::{Executables, Special};
use taipan_http::negotiate::Coding;
use taipan_http::path_text;
use taipan_http::target::SafePath;

use super::{Found, Lookup, Metafile, Precompressed, Query, Variant};
use crate::clock;
use crate::files::beneath::{self, OpenError, Wait};
use crate::files::open::{Stamp, Stat, is_on_disk, read, stat};
use crate::log::{self, LineLimit};

/// How often a file is read again that became shorter while it was read.
const REREADS: usize = 2;

thread_local! {
    /// A client may ask for a program again and again.
    static UNSENT_PROGRAMS: LineLimit = LineLimit::default();
}

/// How a path is opened to inspect it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// With O_PATH, which has no effect on a device or a FIFO and sends its file system no request.
    ForStat,
    /// For reading if the kernel can do so from memory, which saves opening a small file twice; else as `ForStat`.
    ForReading,
}

/// One lookup.
pub struct Run<'a> {
    query: &'a Query<'a>,
    wait: Wait,
    opening: Opening,
    /// When it began, by `clock::micros`.
    began: u64,
}

/// What is at one path.
pub struct Inspected {
    kind: FileType,
    pub stamp: Stamp,
    /// Open for reading, with `Opening::ForReading`.
    fd: Option<OwnedFd>,
}

/// A regular file that a response may be made of.
pub struct Candidate<'a> {
    path: SafePath<'a>,
    coding: Coding,
    stamp: Stamp,
    fd: Option<OwnedFd>,
}

pub enum Candidates<'a> {
    Folder(Stamp),
    /// At least one, as in [`Lookup::Files`].
    Files(Vec<(Label, Group<'a>)>),
}

/// The files of a [`Found`].
pub struct Group<'a> {
    /// At least one.
    files: Vec<Candidate<'a>>,
    metafile: Option<Candidate<'a>>,
    precompressed: Precompressed,
}

impl Candidates<'_> {
    pub fn stamps(&self) -> impl Iterator<Item = Stamp> {
        let (folder, groups) = match self {
            Candidates::Folder(stamp) => (Some(*stamp), &[][..]),
            Candidates::Files(groups) => (None, &groups[..]),
        };
        let files = groups.iter().flat_map(|(_, group)| group.files.iter().chain(&group.metafile));
        folder.into_iter().chain(files.map(|file| file.stamp))
    }
}

impl<'a> Run<'a> {
    pub fn new(query: &'a Query<'a>, wait: Wait, opening: Opening) -> Run<'a> {
        Run { query, wait, opening, began: clock::micros() }
    }

    pub fn candidates(&self) -> Result<Candidates<'a>, OpenError> {
        let path = &self.query.path;
        let plain = match self.inspect(path) {
            Ok(found) => match (found.kind, path.is_folder()) {
                (FileType::RegularFile, false) => Some(found),
                (FileType::RegularFile, true) => return Err(OpenError::Missing),
                (FileType::Directory, true) => return self.index(found.stamp),
                (FileType::Directory, false) => {
                    let named = self.first_with(&self.query.suffixes.before_folder)?;
                    return Ok(named.unwrap_or(Candidates::Folder(found.stamp)));
                }
                _ => return Err(OpenError::Denied),
            },
            Err(OpenError::Missing) if !path.is_folder() => None,
            Err(error) => return Err(error),
        };
        match self.alternates(path.borrowed(), plain) {
            Err(OpenError::Missing) => self.first_with(self.query.suffixes.iter())?.ok_or(OpenError::Missing),
            found => found,
        }
    }

    fn index(&self, folder: Stamp) -> Result<Candidates<'a>, OpenError> {
        let files = self.query.index.iter().filter_map(|name| self.query.path.join(name));
        Ok(self.first_of(files)?.unwrap_or(Candidates::Folder(folder)))
    }

    /// The first file that the path with one of these suffixes leads to.
    fn first_with<'s>(
        &self,
        suffixes: impl IntoIterator<Item = &'s String>,
    ) -> Result<Option<Candidates<'a>>, OpenError> {
        self.first_of(suffixes.into_iter().filter_map(|suffix| self.query.path.with_suffix(suffix)))
    }

    /// The first of these files that exists.
    fn first_of(
        &self,
        paths: impl Iterator<Item = SafePath<'static>>,
    ) -> Result<Option<Candidates<'a>>, OpenError> {
        for path in paths {
            let plain = match self.inspect(&path) {
                Ok(found) if found.kind == FileType::RegularFile => Some(found),
                Ok(_) => continue,
                Err(OpenError::Missing) => None,
                Err(error) => return Err(error),
            };
            match self.alternates(path, plain) {
                Err(OpenError::Missing) => {}
                found => return found.map(Some),
            }
        }
        Ok(None)
    }

    /// The file at `path`, if it exists, and those that stand for it in other languages and charsets.
    fn alternates(&self, path: SafePath<'a>, plain: Option<Inspected>) -> Result<Candidates<'a>, OpenError> {
        let rules = &*self.query.alternates;
        if rules.is_empty() {
            return Ok(Candidates::Files(vec![(Label::default(), self.group(path, plain)?)]));
        }
        let mut groups = Vec::new();
        let names = rules.names(path.name());
        let label = rules.parse(path.name()).map_or(Label::default(), |(label, _)| label);
        match self.group(path.clone(), plain) {
            Ok(group) => groups.push((label, group)),
            Err(OpenError::Missing) => {}
            Err(error) => return Err(error),
        }
        for (label, name) in names {
            if groups.len() >= MAX_ALTERNATES || groups.iter().any(|(other, _)| *other == label) {
                continue;
            }
            let Some(path) = path.sibling(&name).filter(|path| !self.query.private.contains(path)) else {
                continue;
            };
            match self.inspect(&path) {
                Ok(found) if found.kind == FileType::RegularFile => {
                    groups.push((label, self.group(path, Some(found))?));
                }
                // The others suffice.
                Ok(_) | Err(OpenError::Missing | OpenError::Denied) => {}
                Err(error) => return Err(error),
            }
        }
        if groups.is_empty() {
            return Err(OpenError::Missing);
        }
        rules.arrange(&mut groups);
        Ok(Candidates::Files(groups))
    }

    /// The file at `path`, if it exists, and its precompressed files.
    fn group(&self, path: SafePath<'a>, plain: Option<Inspected>) -> Result<Group<'a>, OpenError> {
        let plain_name = self.query.alternates.plain_name(path.name());
        let codings: &[Coding] = match plain {
            _ if self.query.special.of(&plain_name).is_some() => &[],
            Some(_) => &self.query.precompressed,
            None if self.query.gunzip => &[Coding::Gzip],
            None => &[],
        };
        // A precompressed file that is older was made of another plain file. Only whole seconds are compared, because
        // some compressors do not copy the fraction.
        let oldest = plain.as_ref().map(|plain| plain.stamp.modified_seconds());
        let (mut files, mut precompressed) = (Vec::new(), Precompressed::Known);
        if let Some(Inspected { stamp, fd, .. }) = plain {
            let path = path.clone();
            files.push(Candidate { path, coding: Coding::Identity, stamp, fd });
        }
        for &coding in codings {
            let Some(path) = path.with_suffix(coding.extension()) else { continue };
            let inspected = match self.inspect_directly(&path) {
                Some(Err(OpenError::WouldWait)) if !files.is_empty() => {
                    precompressed = Precompressed::Unknown;
                    continue;
                }
                Some(inspected) => inspected,
                None => self.inspect_by_path(&path),
            };
            match inspected {
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
        if files.is_empty() {
            return Err(OpenError::Missing);
        }
        let metafile = self.metafile(&path)?;
        Ok(Group { files, metafile, precompressed })
    }

    fn metafile(&self, path: &SafePath<'_>) -> Result<Option<Candidate<'a>>, OpenError> {
        let Some(meta) = &self.query.meta else { return Ok(None) };
        let name = [path.name(), &meta.suffix].concat();
        let Some(path) = path.sibling(&meta.folder).and_then(|folder| folder.join(&name)) else {
            return Ok(None);
        };
        match self.inspect(&path) {
            Ok(Inspected { kind: FileType::RegularFile, stamp, fd }) => {
                Ok(Some(Candidate { path, coding: Coding::Identity, stamp, fd }))
            }
            Ok(_) | Err(OpenError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn inspect(&self, path: &SafePath<'_>) -> Result<Inspected, OpenError> {
        self.inspect_directly(path).unwrap_or_else(|| self.inspect_by_path(path))
    }

    /// Opens a file for reading. Errors: `Missing`, and `WouldWait` if the kernel does not have it in memory. `None`:
    /// it may not be a regular file, or on another device, or files are not opened in this way.
    fn inspect_directly(&self, path: &SafePath<'_>) -> Option<Result<Inspected, OpenError>> {
        if self.opening != Opening::ForReading {
            return None;
        }
        match beneath::open_on_device(&self.query.root, path, self.query.symlinks) {
            Ok(fd) => {
                let found = self.stat(path, &fd);
                Some(found.map(|(kind, stamp)| Inspected { kind, stamp, fd: Some(fd) }))
            }
            Err(error @ (OpenError::Missing | OpenError::WouldWait)) => Some(Err(error)),
            Err(OpenError::Denied | OpenError::Local(_)) => None,
        }
    }

    fn inspect_by_path(&self, path: &SafePath<'_>) -> Result<Inspected, OpenError> {
        let Query { root, symlinks, .. } = self.query;
        let fd = beneath::open(root, path, *symlinks, OFlags::PATH, self.wait)?;
        let (kind, stamp) = self.stat(path, &fd)?;
        Ok(Inspected { kind, stamp, fd: None })
    }

    /// Errors: `Missing` for a file that is never served, whatever its name is here; `Denied` for a program that is not
    /// sent.
    fn stat(&self, path: &SafePath<'_>, fd: &OwnedFd) -> Result<(FileType, Stamp), OpenError> {
        let Stat { kind, stamp, is_executable } = stat(fd, self.wait)?;
        if self.query.root.hides(stamp.device, stamp.inode) {
            return Err(OpenError::Missing);
        }
        let is_program = kind == FileType::RegularFile && is_executable;
        if is_program && self.query.executables == Executables::Deny {
            self.report_program(path);
            return Err(OpenError::Denied);
        }
        Ok((kind, stamp))
    }

    fn report_program(&self, path: &SafePath<'_>) {
        let second = (self.began / 1_000_000) as i64;
        if let Some(omitted) = UNSENT_PROGRAMS.with(|limit| limit.admit(second)) {
            let path = path_text::escaped(path.as_str());
            log::warn(format_args!(
                "/{path} leads to an executable file that no route runs, and is not sent; give the path a route with \
                 cgi = true, or chmod a-x the file{omitted}"
            ));
        }
    }

    pub fn load(&self, candidates: Candidates<'_>) -> Result<Lookup, OpenError> {
        let groups = match candidates {
            Candidates::Folder(stamp) => return Ok(Lookup::Folder(stamp)),
            Candidates::Files(groups) => groups,
        };
        let (mut found, mut refused) = (Vec::with_capacity(groups.len()), None);
        for (label, group) in groups {
            match self.load_group(label, group) {
                Ok(group) => found.push(group),
                // The other languages suffice.
                Err(error @ (OpenError::Denied | OpenError::Missing)) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        match refused {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(Lookup::Files(found)),
        }
    }

    fn load_group(&self, label: Label, group: Group<'_>) -> Result<Found, OpenError> {
        let Group { files, metafile, precompressed } = group;
        let Candidate { path, coding, .. } = &files[0];
        // The name without `.gz` has the media type, even where only the gzip file exists.
        let name = path.name();
        let name = name.strip_suffix(coding.extension()).unwrap_or(name).to_owned();
        // Without a plain file, the gzip file is inflated: into memory if it is small.
        let plain_name = self.query.alternates.plain_name(&name);
        let read_up_to = match (self.query.special.of(&plain_name), coding) {
            (Some(Special::AsIs), _) => MAX_AS_IS,
            (Some(Special::ImageMap), _) => image_map::MAX_SIZE,
            (None, Coding::Identity) if self.query.includes.cover_file(&plain_name) => MAX_PARSED,
            (None, Coding::Gzip) => memory::RESPONSE.max(self.query.read_up_to),
            (None, _) => self.query.read_up_to,
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
        let metafile = match metafile {
            None => None,
            Some(file) => {
                let Variant { stamp, body, .. } = self.load_file(file, MAX_FIELDS_SIZE)?;
                Some(Metafile { stamp, content: body })
            }
        };
        Ok(Found { label, name, variants, metafile, precompressed })
    }

    fn load_file(&self, file: Candidate<'_>, read_up_to: u64) -> Result<Variant, OpenError> {
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
                stamp = self.stat_file(&path, &fd)?;
                fd
            }
        };
        // Its entity tag is made of its content.
        let read_up_to = if stamp.dated().is_none() { memory::RESPONSE.max(read_up_to) } else { read_up_to };
        let mut body = self.read_small(&fd, &stamp, read_up_to)?;
        for _ in 0..REREADS {
            if body.is_some() || stamp.size > read_up_to {
                break;
            }
            stamp = self.stat_file(&path, &fd)?;
            body = self.read_small(&fd, &stamp, read_up_to)?;
        }
        // A small gzip file may inflate to a large one, which is sent from the descriptor.
        let suffices = body.is_some() && stamp.size <= self.query.keep_up_to && coding != Coding::Gzip;
        Ok(Variant { stamp, coding, compared_at: self.began, fd: (!suffices).then_some(fd), body })
    }

    fn stat_file(&self, path: &SafePath<'_>, fd: &OwnedFd) -> Result<Stamp, OpenError> {
        match self.stat(path, fd)? {
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
