//! Lookups: what is at a path, opened, and read where it is small. A worker's loop makes a lookup with `Wait::Never`,
//! which succeeds if the kernel can respond from memory. If it cannot, a helper thread repeats the lookup.
//!
//! Knows nothing of requests and nothing of the cache.

mod run;

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use site::alternates::{AlternateRules, Label};
use site::includes::Includes;
use site::memory;
use site::model::{EtagFrom, Executables, FileRules, MetaFiles, SpecialFiles, Suffixes, Symlinks};
use site::plan::FilesPlan;
use taipan_http::negotiate::Coding;
use taipan_http::target::SafePath;

use super::beneath::{OpenError, Root, Wait};
use super::open::{Stamp, is_on_disk};
use crate::disk::Device;
use run::{Opening, Run};

/// What to look up.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    pub root: Root,
    pub path: SafePath<'a>,
    pub index: Cow<'a, [String]>,
    pub suffixes: Cow<'a, Suffixes>,
    pub symlinks: Symlinks,
    pub executables: Executables,
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
    /// No permission, a link that leads outside the root, a program that is not sent, or neither a regular file nor a
    /// folder.
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
    pub fn stamps(&self) -> Vec<Stamp> {
        let mut stamps = Vec::with_capacity(self.variants.len() + usize::from(self.metafile.is_some()));
        stamps.extend(self.variants.iter().map(|variant| variant.stamp));
        stamps.extend(self.metafile.iter().map(|metafile| metafile.stamp));
        stamps
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

impl<'a> Query<'a> {
    pub fn new(root: Root, path: SafePath<'a>, rules: &'a FileRules, keep_up_to: u64) -> Query<'a> {
        let FileRules {
            index,
            suffixes,
            symlinks,
            executables,
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
            executables: *executables,
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
