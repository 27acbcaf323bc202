//! The open-file cache of a worker. It has an entry for each path: what was found there, the rendered response head,
//! and the whole body if it is small. An entry is compared with the disk at most once per configured interval. A
//! missing path is cached too. The least recently used entry is evicted first.
//!
//! Knows nothing of requests.

mod accounts;
pub mod beneath;
pub mod deltas;
mod disk_lookup;
pub mod encoded;
mod entry;
pub mod folders;
mod hidden_files;
mod host_key;
pub mod lookup;
pub mod open;
pub mod page;
pub mod roots;
pub mod script;
pub mod table;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;
use site::decide::Resource;
use site::memory;
use site::model::CacheLimits;
use site::plan::{FilesPlan, PlannedRoot};
use taipan_http::path_text;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use crate::clock::in_seconds;
use crate::disk::Busy;
use crate::log::{self, LineLimit};
use crate::process::supervisor::advice_on_descriptors;
use crate::response_head::DatedHead;
use crate::semaphore::Semaphore;
use crate::services::Services;
use beneath::{OpenError, Root, Wait};
use deltas::Dictionaries;
use disk_lookup::Pending;
use folders::Folders;
use lookup::Query;
use open::Stamp;
use roots::{OpenRoots, Roots};
use table::{Cost, Limits, Table};

pub use disk_lookup::DiskLookup;
use entry::Checked;
pub use entry::{Content, Entry, Inflated, PreparedRepresentation, stat_etag};
pub use host_key::HostKey;

/// A rendered listing. It is valid while its folder has this stamp, and for `LISTING_SECONDS`.
pub struct ListingPage {
    pub response: DatedHead,
    pub folder: Stamp,
    pub rendered_at: i64,
}

/// The sizes and times of the files in a folder may change without changing the stamp of the folder.
const LISTING_SECONDS: i64 = 10;

/// The result of a probe.
pub enum Probe {
    Hit(Rc<Entry>),
    /// The lookup may wait for a disk.
    WouldWait(Box<DiskLookup>),
    Failed(Status),
}

/// The host and the path of an entry.
type Key = (HostKey, SafePath<'static>);

enum Cached {
    Entry(Rc<Entry>),
    Listing(Rc<ListingPage>),
}

/// The cache of a worker, and the roots that it opens files beneath.
pub struct Files {
    pub services: Rc<Services>,
    table: RefCell<Table<Cached>>,
    roots: Roots,
    pub folders: Folders,
    pub dictionaries: Dictionaries,
    pending: RefCell<HashMap<Key, Rc<Pending>>>,
    /// Copies that are being made, each of which keeps its file open until it is added.
    pub copies: Semaphore,
    /// Lookups that complete partial entries, for which no request waits.
    completions: Semaphore,
    check_seconds: i64,
    missing_seconds: i64,
    keep_up_to: u64,
    /// How many changes of files the worker knows of.
    changes: Cell<u64>,
    /// Files that could not be opened for a reason of this machine.
    errors: LineLimit,
}

impl Files {
    pub fn new(services: Rc<Services>, roots: OpenRoots) -> Rc<Files> {
        let CacheLimits { entries, descriptors, bytes, file, check, missing, folders, .. } =
            services.site.cache;
        let copies = services.site.cache.waiting_copies();
        let of_responses = services.site.response_descriptors();
        let in_table = descriptors.saturating_sub(copies + of_responses);
        // Without the cache, each request is compared with the disk.
        let check_seconds = if entries == 0 { 0 } else { whole_seconds(check) };
        let completions = services.site.limits.disk_threads;
        let now = services.clock.now();
        Rc::new(Files {
            services,
            table: RefCell::new(Table::new(Limits { entries, descriptors: in_table, bytes })),
            roots: Roots::new(&roots, check_seconds, now),
            folders: Folders::new(folders),
            dictionaries: Dictionaries::new(bytes / memory::DICTIONARIES as usize),
            pending: RefCell::default(),
            copies: Semaphore::new(copies),
            completions: Semaphore::new(completions),
            check_seconds,
            missing_seconds: whole_seconds(missing),
            keep_up_to: file,
            changes: Cell::new(0),
            errors: LineLimit::default(),
        })
    }

    /// The entry of a path, if it need not be compared with the disk yet.
    #[inline]
    pub fn get(&self, host: HostKey, path: &str, now: i64) -> Option<Rc<Entry>> {
        match self.table.borrow_mut().get(host, path) {
            Some(Cached::Entry(entry)) if self.is_fresh(entry, now) => Some(entry.clone()),
            _ => None,
        }
    }

    /// Looks up `path` of `host` without waiting for a disk.
    pub fn probe(
        self: &Rc<Files>,
        host: HostKey,
        path: &SafePath<'_>,
        planned: &FilesPlan<'_, '_>,
        now: i64,
    ) -> Probe {
        let root = match self.root(host, planned, now) {
            Ok(root) => root,
            Err(status) => return Probe::Failed(status),
        };
        let query = Query::of_plan(root, planned, self.keep_up_to);
        let cached = self.cached(host, path.as_str());
        let key = || (host, path.clone().into_owned());
        if let Some(root) = self.unsure_root(planned, now) {
            let (files, query, unsure_root) = (self.clone(), query.into_owned(), Some(root));
            return Probe::WouldWait(Box::new(DiskLookup { files, key: key(), query, cached, unsure_root }));
        }
        let stamps = cached.as_ref().map_or(&[][..], |entry| entry.stamps_at(now));
        let checked = Checked { second: now, changes: self.changes.get() };
        let result = query.lookup_if_changed(stamps, Wait::Never);
        let (result, permit) = match result {
            Ok(Some(lookup)) if lookup.is_partial() => match self.completions.take() {
                Some(permit) => (Ok(Some(lookup)), Some(permit)),
                None => (Err(OpenError::WouldWait), None),
            },
            result => (result, None),
        };
        let disk_lookup = |cached| {
            let (files, query) = (self.clone(), query.into_owned());
            DiskLookup { files, key: key(), query, cached, unsure_root: None }
        };
        match result {
            Err(OpenError::WouldWait) if self.services.sheds_cold() => {
                Probe::Failed(Status::SERVICE_UNAVAILABLE)
            }
            Err(OpenError::WouldWait) => Probe::WouldWait(Box::new(disk_lookup(cached))),
            result => match self.update(host, path, cached, result, checked) {
                Ok(entry) => {
                    if let Some(permit) = permit {
                        disk_lookup(Some(entry.clone())).complete(entry.clone(), permit);
                    }
                    Probe::Hit(entry)
                }
                Err(status) => Probe::Failed(status),
            },
        }
    }

    /// The path of the root of planned files, if it has to be opened again before a file is looked up.
    fn unsure_root(self: &Rc<Files>, planned: &FilesPlan<'_, '_>, now: i64) -> Option<PathBuf> {
        let PlannedRoot::Path(path) = planned.root else { return None };
        let is_unsure = Roots::may_be_other(self, path, now) && !self.services.sheds_cold();
        is_unsure.then(|| path.to_owned())
    }

    /// The root of planned files, for a change: the folder that its path leads to now. Errors: the status of the response.
    pub async fn root_for_change(
        self: &Rc<Files>,
        host: HostKey,
        planned: &FilesPlan<'_, '_>,
        now: i64,
    ) -> Result<Root, Status> {
        if let PlannedRoot::Path(path) = planned.root {
            let renewed = Roots::renew_for_change(self, path).await;
            renewed.map_err(|busy| self.report_busy(planned.path.as_str(), busy))?;
        }
        self.root(host, planned, now)
    }

    /// Whether a folder is a root since the start. The sandbox lets clients change files in no other one.
    pub fn has_since_start(&self, root: &Root) -> bool {
        self.roots.has_since_start(root)
    }

    /// The root of planned files. Errors: the status of the response.
    pub fn root(
        self: &Rc<Files>,
        host: HostKey,
        planned: &FilesPlan<'_, '_>,
        now: i64,
    ) -> Result<Root, Status> {
        match planned.root {
            PlannedRoot::Path(path) => Roots::get(self, path, now),
            PlannedRoot::OfHost(_) => self.folders.root(host.folder).ok_or(Status::SERVICE_UNAVAILABLE),
            PlannedRoot::OfUser(users) => {
                let user = users.user(&planned.path).ok_or(Status::NOT_FOUND)?;
                self.folders.of_user(host, user).ok_or(Status::SERVICE_UNAVAILABLE)
            }
        }
    }

    /// The cached listing of a folder that has the stamp `folder`.
    pub fn listing(&self, host: HostKey, key: &str, folder: &Stamp, now: i64) -> Option<Rc<ListingPage>> {
        match self.table.borrow_mut().get(host, key) {
            Some(Cached::Listing(page))
                if page.folder == *folder && (0..LISTING_SECONDS).contains(&(now - page.rendered_at)) =>
            {
                Some(page.clone())
            }
            _ => None,
        }
    }

    pub fn insert_listing(&self, host: HostKey, key: &str, page: Rc<ListingPage>) {
        let cost = Cost::of_bytes(page.response.head().bytes().len());
        self.table.borrow_mut().insert(host, key, Cached::Listing(page), cost);
    }

    fn insert(&self, host: HostKey, path: &SafePath<'_>, entry: Rc<Entry>) {
        let cost = entry.cost();
        self.table.borrow_mut().insert(host, path.as_str(), Cached::Entry(entry), cost);
    }

    /// Has the next request for each entry compare it with the disk: files may have changed. A lookup that runs now may
    /// have seen them before.
    pub fn expire(&self) {
        self.changes.update(|changes| changes.wrapping_add(1));
        // Requests that wait for them began before the change. Others begin lookups of their own.
        self.pending.borrow_mut().clear();
    }

    /// Closes files that have been deleted, of one of so many parts of the entries: until then they take space on the disk.
    pub fn close_deleted(&self, parts: usize) {
        self.table.borrow_mut().sweep(parts, |_, cached| match cached {
            Cached::Entry(entry) => !entry.has_deleted(),
            Cached::Listing(_) => true,
        });
    }

    pub fn has_open_files(&self) -> bool {
        self.table.borrow().has_descriptors()
    }

    fn is_fresh(&self, entry: &Entry, now: i64) -> bool {
        let Checked { second, changes } = entry.checked.get();
        let age = now - second;
        changes == self.changes.get()
            && match entry.resource {
                Resource::Missing => (0..self.missing_seconds).contains(&age),
                _ => (0..self.check_seconds).contains(&age) && !entry.has_changed(),
            }
    }

    /// The entry of a path, fresh or not.
    fn cached(&self, host: HostKey, path: &str) -> Option<Rc<Entry>> {
        match self.table.borrow_mut().get(host, path) {
            Some(Cached::Entry(entry)) => Some(entry.clone()),
            _ => None,
        }
    }

    /// Logs an error that neither the client nor the file caused, and returns the status of the response.
    pub fn report_errno(&self, path: &str, errno: Errno) -> Status {
        // A disk that fails has an error for each request.
        if let Some(omitted) = self.errors.admit(self.services.clock.now()) {
            let advice = advice_on_descriptors(errno.raw_os_error());
            log::error(format_args!("cannot open /{}: {errno}{advice}{omitted}", path_text::escaped(path)));
        }
        if is_shortage(errno) { Status::SERVICE_UNAVAILABLE } else { Status::INTERNAL_SERVER_ERROR }
    }

    /// Logs and counts that the disk was busy, and returns the status of the response.
    fn report_busy(&self, path: &str, busy: Busy) -> Status {
        self.services.report_busy(format_args!("/{}", path_text::escaped(path)), busy)
    }
}

/// Whether the error ends when other programs or requests release what they use.
pub fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

fn whole_seconds(duration: Duration) -> i64 {
    in_seconds(duration).try_into().unwrap_or(i64::MAX)
}
