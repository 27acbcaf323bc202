//! Lookups: what is at a path, opened, and read where it is small. A worker's loop makes a lookup with `Wait::Never`,
//! which succeeds if the kernel can respond from memory. If it cannot, a helper thread repeats the lookup.
//!
//! Knows nothing of requests and nothing of the cache.

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};
use site::alternates::{AlternateRules, Label, MAX_ALTERNATES};
use site::field_file::{MAX_AS_IS, MAX_FIELDS_SIZE};
use site::image_map;
use site::includes::{Includes, MAX_PARSED};
use site::memory;
use site::model::{EtagFrom, FileRules, MetaFiles, Special, SpecialFiles, Suffixes, Symlinks};
use site::plan::FilesPlan;
use taipan_http::negotiate::Coding;
use taipan_http::target::SafePath;

use super::beneath::{self, OpenError, Root, Wait};
use super::open::{Stamp, is_on_disk, read, stat};
use crate::clock;
use crate::disk::Device;

/// What to look up.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    pub root: Root,
    pub path: SafePath<'a>,
    pub index: Cow<'a, [String]>,
    pub suffixes: Cow<'a, Suffixes>,
    pub symlinks: Symlinks,
    pub precompressed: Cow<'a, [Coding]>,
    pub gunzip: bool,
    pub alternates: Arc<AlternateRules>,
    /// Paths that are no alternates, whatever their names are.
    pub private: Arc<[SafePath<'static>]>,
    pub special: SpecialFiles,
    pub includes: Arc<Includes>,
    pub meta: Option<Arc<MetaFiles>>,
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
    /// At least one. The others are the same file in other languages and charsets, in the order of preference.
    Files(Vec<Found>),
}

/// A file, with its precompressed files.
#[derive(Debug)]
pub struct Found {
    pub label: Label,
    pub name: String,
    /// At least one. The first is the plain file, if it exists.
    pub variants: Vec<Variant>,
    pub metafile: Option<Metafile>,
    precompressed: Precompressed,
}

/// Further fields of a file.
#[derive(Debug)]
pub struct Metafile {
    pub stamp: Stamp,
    /// `None`: it is too large.
    pub content: Option<Vec<u8>>,
}

impl Found {
    /// In the order in which they are compared.
    pub fn stamps(&self) -> impl Iterator<Item = Stamp> {
        self.variants.iter().map(|variant| variant.stamp).chain(self.metafile.iter().map(|meta| meta.stamp))
    }
}

/// How much is known of the precompressed files beside a plain file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precompressed {
    /// There are those among the variants, and no others.
    Known,
    /// There may be others: the kernel does not have their names in memory.
    Unknown,
}

/// A file: the plain one, or a precompressed one.
#[derive(Debug)]
pub struct Variant {
    pub stamp: Stamp,
    pub coding: Coding,
    /// The file had this stamp at this time, by `clock::micros`, or later.
    pub compared_at: u64,
    /// `None`: `body` suffices.
    pub fd: Option<OwnedFd>,
    /// The content, where it is small enough.
    pub body: Option<Vec<u8>>,
}

/// How often a file is read again that became shorter while it was read.
const REREADS: usize = 2;

impl<'a> Query<'a> {
    pub fn new(root: Root, path: SafePath<'a>, rules: &'a FileRules, keep_up_to: u64) -> Query<'a> {
        let FileRules {
            index,
            suffixes,
            symlinks,
            precompressed,
            gunzip,
            etag,
            alternates,
            private,
            special,
            meta,
            ..
        } = rules;
        let read_up_to =
            if *etag == EtagFrom::Content { memory::RESPONSE.max(keep_up_to) } else { keep_up_to };
        Query {
            root,
            path,
            index: Cow::Borrowed(index),
            suffixes: Cow::Borrowed(suffixes),
            symlinks: *symlinks,
            precompressed: Cow::Borrowed(precompressed),
            gunzip: *gunzip,
            alternates: alternates.clone(),
            private: private.clone(),
            special: *special,
            includes: rules.includes.clone(),
            meta: meta.clone(),
            keep_up_to,
            read_up_to,
        }
    }

    /// For the files of a plan.
    pub fn of_plan(root: Root, planned: &'a FilesPlan<'_, '_>, keep_up_to: u64) -> Query<'a> {
        Query {
            index: Cow::Borrowed(&*planned.index),
            suffixes: Cow::Borrowed(&*planned.suffixes),
            ..Query::new(root, planned.below(), planned.rules, keep_up_to)
        }
    }

    /// For another thread.
    pub fn into_owned(self) -> Query<'static> {
        Query {
            path: self.path.into_owned(),
            index: Cow::Owned(self.index.into_owned()),
            suffixes: Cow::Owned(self.suffixes.into_owned()),
            precompressed: Cow::Owned(self.precompressed.into_owned()),
            ..self
        }
    }

    /// With `Wait::Never`, a plain file is found before its precompressed files are known. Errors: `WouldWait` and
    /// `Local`.
    pub fn lookup(&self, wait: Wait) -> Result<Lookup, OpenError> {
        let opening = match wait {
            Wait::Never if is_on_disk(self.root.device) => Opening::ForReading,
            Wait::Never | Wait::Allowed => Opening::ForStat,
        };
        let run = Run::new(self, wait, opening);
        missing_or_denied(run.candidates().and_then(|candidates| run.load(candidates)))
    }

    /// As `lookup`, but never partial if there are stamps. `None`: the files still have the stamps of an earlier
    /// lookup.
    pub fn lookup_if_changed(&self, stamps: &[Stamp], wait: Wait) -> Result<Option<Lookup>, OpenError> {
        if stamps.is_empty() {
            return self.lookup(wait).map(Some);
        }
        let run = Run::new(self, wait, Opening::ForStat);
        match run.candidates() {
            Ok(candidates) if candidates.stamps().eq(stamps.iter().copied()) => Ok(None),
            candidates => missing_or_denied(candidates.and_then(|found| run.load(found))).map(Some),
        }
    }

    /// The device that a lookup waits for: that of the deepest folder on the path that the kernel has in memory.
    pub fn device(&self) -> Device {
        let run = Run::new(self, Wait::Never, Opening::ForStat);
        let folders = self.path.segments().count() + usize::from(self.path.is_folder());
        let in_memory = (0..folders).rev().find_map(|n| run.inspect(&self.path.first_segments(n)?).ok());
        in_memory.map_or(self.root.device, |folder| folder.stamp.device)
    }
}

impl Lookup {
    /// Whether there may be more variants than those that were found.
    pub fn is_partial(&self) -> bool {
        let Lookup::Files(all) = self else { return false };
        all.iter().any(|found| found.precompressed == Precompressed::Unknown)
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
    query: &'a Query<'a>,
    wait: Wait,
    opening: Opening,
    /// When it began, by `clock::micros`.
    began: u64,
}

/// What is at one path.
struct Inspected {
    kind: FileType,
    stamp: Stamp,
    /// Open for reading, with `Opening::ForReading`.
    fd: Option<OwnedFd>,
}

/// A regular file that a response may be made of.
struct Candidate<'a> {
    path: SafePath<'a>,
    coding: Coding,
    stamp: Stamp,
    fd: Option<OwnedFd>,
}

enum Candidates<'a> {
    Folder(Stamp),
    /// At least one, as in [`Lookup::Files`].
    Files(Vec<(Label, Group<'a>)>),
}

/// The files of a [`Found`].
struct Group<'a> {
    /// At least one.
    files: Vec<Candidate<'a>>,
    metafile: Option<Candidate<'a>>,
    precompressed: Precompressed,
}

impl Candidates<'_> {
    fn stamps(&self) -> impl Iterator<Item = Stamp> {
        let (folder, groups) = match self {
            Candidates::Folder(stamp) => (Some(*stamp), &[][..]),
            Candidates::Files(groups) => (None, &groups[..]),
        };
        let files = groups.iter().flat_map(|(_, group)| group.files.iter().chain(&group.metafile));
        folder.into_iter().chain(files.map(|file| file.stamp))
    }
}

impl<'a> Run<'a> {
    fn new(query: &'a Query<'a>, wait: Wait, opening: Opening) -> Run<'a> {
        Run { query, wait, opening, began: clock::micros() }
    }

    fn candidates(&self) -> Result<Candidates<'a>, OpenError> {
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

    fn inspect(&self, path: &SafePath<'_>) -> Result<Inspected, OpenError> {
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
                let found = self.stat(&fd);
                Some(found.map(|(kind, stamp)| Inspected { kind, stamp, fd: Some(fd) }))
            }
            Err(error @ (OpenError::Missing | OpenError::WouldWait)) => Some(Err(error)),
            Err(OpenError::Denied | OpenError::Local(_)) => None,
        }
    }

    fn inspect_by_path(&self, path: &SafePath<'_>) -> Result<Inspected, OpenError> {
        let Query { root, symlinks, .. } = self.query;
        let fd = beneath::open(root, path, *symlinks, OFlags::PATH, self.wait)?;
        let (kind, stamp) = self.stat(&fd)?;
        Ok(Inspected { kind, stamp, fd: None })
    }

    /// Errors: `Missing` for a file that is never served, whatever its name is here.
    fn stat(&self, fd: &OwnedFd) -> Result<(FileType, Stamp), OpenError> {
        let (kind, stamp) = stat(fd, self.wait)?;
        match self.query.root.hides(stamp.device, stamp.inode) {
            true => Err(OpenError::Missing),
            false => Ok((kind, stamp)),
        }
    }

    fn load(&self, candidates: Candidates<'_>) -> Result<Lookup, OpenError> {
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
        Ok(Variant { stamp, coding, compared_at: self.began, fd: (!suffices).then_some(fd), body })
    }

    fn stat_file(&self, fd: &OwnedFd) -> Result<Stamp, OpenError> {
        match self.stat(fd)? {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A folder with `page` and `page.gz`. Removed when dropped.
    struct Fixture(PathBuf);

    impl Fixture {
        fn new(name: &str) -> Fixture {
            let folder = std::env::temp_dir().join(format!("taipan-lookup-{name}-{}", std::process::id()));
            _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("page"), "page").unwrap();
            fs::write(folder.join("page.gz"), "gzip").unwrap();
            Fixture(folder)
        }

        /// The query for `page`, and for those precompressed files.
        fn query(&self, precompressed: &[Coding]) -> Query<'static> {
            // As on any disk, also where the folder for temporary files is in memory.
            let mut root = Root::open(&self.0).unwrap();
            root.device = (8, 0);
            let rules = FileRules { precompressed: precompressed.to_vec(), ..FileRules::default() };
            Query::new(root, SafePath::parse("/page").unwrap(), &rules, 0).into_owned()
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The codings that a lookup found, and whether it is partial.
    fn found(query: &Query, wait: Wait) -> (Vec<Coding>, bool) {
        let lookup = query.lookup(wait).unwrap();
        let is_partial = lookup.is_partial();
        let Lookup::Files(files) = lookup else { panic!("a file") };
        (files[0].variants.iter().map(|variant| variant.coding).collect(), is_partial)
    }

    #[test]
    fn finds_a_file_before_the_kernel_knows_whether_there_are_precompressed_ones() {
        let files = Fixture::new("partial");
        let query = files.query(&[Coding::Br, Coding::Gzip]);
        let all = vec![Coding::Identity, Coding::Gzip];
        // Nothing has looked for `page.br` yet.
        assert_eq!(found(&query, Wait::Never), (all.clone(), true));
        assert_eq!(found(&query, Wait::Allowed), (all.clone(), false));
        assert_eq!(found(&query, Wait::Never), (all, false), "now the kernel has its absence in memory");
    }

    #[test]
    fn finds_a_file_in_other_languages() {
        let files = Fixture::new("languages");
        for name in ["page.de", "page.de.gz", "page.en", "page.fr"] {
            fs::write(files.0.join(name), name).unwrap();
        }
        let languages = ["en", "de", "fr"].map(str::to_owned).to_vec();
        let rules = AlternateRules { languages, ..AlternateRules::default() };
        let private = SafePath::parse("/page.fr").unwrap().into_owned();
        let query = files.query(&[Coding::Gzip]);
        let query = Query { alternates: Arc::new(rules), private: [private].into(), ..query };
        let names = |lookup: Lookup| {
            let Lookup::Files(files) = lookup else { panic!("files") };
            let shown = |found: &Found| format!("{} {}", found.name, found.variants.len());
            files.iter().map(shown).collect::<Vec<_>>()
        };
        // The plain file would be in English, too, and the French one is private.
        assert_eq!(names(query.lookup(Wait::Allowed).unwrap()), ["page.en 1", "page.de 2"]);
        fs::remove_file(files.0.join("page.en")).unwrap();
        assert_eq!(names(query.lookup(Wait::Allowed).unwrap()), ["page 2", "page.de 2"]);
        let path = SafePath::parse("/page.de").unwrap();
        let query = Query { path, ..query };
        assert_eq!(names(query.lookup(Wait::Allowed).unwrap()), ["page.de 2"]);
    }

    #[test]
    fn does_not_compare_files_with_those_that_are_not_known() {
        let files = Fixture::new("changed");
        let known = files.query(&[]);
        let Lookup::Files(found) = known.lookup(Wait::Never).unwrap() else { panic!("a file") };
        let stamps: Vec<Stamp> = found[0].variants.iter().map(|variant| variant.stamp).collect();
        assert!(matches!(known.lookup_if_changed(&stamps, Wait::Never), Ok(None)));
        let unknown = files.query(&[Coding::Zstd]);
        assert!(matches!(unknown.lookup_if_changed(&stamps, Wait::Never), Err(OpenError::WouldWait)));
        assert!(matches!(unknown.lookup_if_changed(&stamps, Wait::Allowed), Ok(None)));
    }
}
