//! The open-file cache of one worker: under each path what was found there, with its head ready to be
//! sent, and the whole body when it is small. An entry is compared with the disk at most once per
//! configured interval, a miss is remembered briefly, and what was used longest ago is forgotten first.
//!
//! Knows nothing of requests.

pub mod beneath;
pub mod look;
pub mod open;
mod prepare;
pub mod roots;
pub mod script;
pub mod table;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;
use site::decide::Resource;
use site::model::CacheLimits;
use taipan_http::status::Status;
use taipan_http::target::SafePath;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::disk::{Busy, Device, Work};
use crate::log;
use crate::response_head::DatedHead;
use crate::services::Services;
use crate::stats::Count;
use beneath::{OpenError, Wait};
use look::{Found, Query, Stamp, look};
use open::OpenFile;
use roots::{OpenRoots, Roots};
use table::{Cost, Table};

/// What stands under a path, ready to be served.
pub struct Entry {
    pub resource: Resource,
    /// How each representation of `resource` is served.
    pub forms: Vec<Form>,
    stamps: Vec<Stamp>,
    /// The second in which the disk was last asked.
    checked: Cell<i64>,
}

/// A representation, ready to be served.
pub struct Form {
    /// The head of the full answer, with a small body behind it.
    pub answer: DatedHead,
    pub content: Content,
}

/// Where the body of a representation comes from.
pub enum Content {
    /// It stands in the block.
    InBlock,
    File(Rc<OpenFile>),
    /// A gzip file that is inflated while it is sent.
    Inflated(Rc<OpenFile>),
}

/// A rendered listing, valid while its folder has this stamp.
pub struct ListingPage {
    pub answer: DatedHead,
    pub folder: Stamp,
    pub made: i64,
}

enum Cached {
    Entry(Rc<Entry>),
    Listing(Rc<ListingPage>),
}

/// What a probe gives.
pub enum Lookup {
    Hit(Rc<Entry>),
    /// The disk has to be asked, and may wait.
    WouldWait(DiskLookup),
    Failed(Status),
}

/// A lookup that has to ask the disk.
pub struct DiskLookup {
    files: Rc<Files>,
    key: (usize, SafePath<'static>),
    query: Query,
    known: Option<Rc<Entry>>,
}

struct Pending {
    device: Device,
    result: RefCell<Option<Result<Rc<Entry>, Status>>>,
    done: Notify,
    /// How many wait for it. When the last of them does not want it any more, it is given up.
    waiting: Cell<usize>,
    given_up: Cell<bool>,
    looking: RefCell<Option<AbortHandle>>,
}

impl Pending {
    fn new(device: Device) -> Pending {
        Pending {
            device,
            result: RefCell::default(),
            done: Notify::new(),
            waiting: Cell::default(),
            given_up: Cell::default(),
            looking: RefCell::default(),
        }
    }
}

/// A look-up from its beginning to its end, whichever that is.
struct UnderWay {
    files: Rc<Files>,
    key: (usize, SafePath<'static>),
    pending: Rc<Pending>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut all = self.files.pending.borrow_mut();
        // One that was given up may have been begun anew.
        if all.get(&self.key).is_some_and(|look| Rc::ptr_eq(look, &self.pending)) {
            all.remove(&self.key);
        }
        // Without a result it has failed, or nobody waits.
        self.pending.result.borrow_mut().get_or_insert(Err(Status::INTERNAL_SERVER_ERROR));
        self.pending.done.notify_waiters();
    }
}

pub struct Files {
    pub services: Rc<Services>,
    table: RefCell<Table<Cached>>,
    roots: Roots,
    pending: RefCell<HashMap<(usize, SafePath<'static>), Rc<Pending>>>,
    check: i64,
    missing: i64,
    keep_up_to: u64,
    /// The second in which it was last said that too many requests wait.
    complained: Cell<i64>,
}

impl Files {
    pub fn new(services: Rc<Services>, roots: OpenRoots) -> Rc<Files> {
        let CacheLimits { entries, descriptors, bytes, file, check, missing } = services.site.cache;
        let check = whole_seconds(check);
        let now = services.clock.now();
        Rc::new(Files {
            services,
            table: RefCell::new(Table::new(Cost { entries, descriptors, bytes })),
            roots: Roots::new(&roots, check, now),
            pending: RefCell::default(),
            check,
            missing: whole_seconds(missing),
            keep_up_to: file,
            complained: Cell::new(0),
        })
    }

    /// What is known about a path and need not be compared with the disk yet.
    #[inline]
    pub fn get(&self, host: usize, path: &str, now: i64) -> Option<Rc<Entry>> {
        match self.table.borrow_mut().get(host as u32, path) {
            Some(Cached::Entry(entry)) if self.is_fresh(entry, now) => Some(entry.clone()),
            _ => None,
        }
    }

    /// What stands under `path` of `host`, as far as the kernel has it in memory.
    pub fn probe(
        self: &Rc<Files>,
        host: usize,
        path: &SafePath<'_>,
        wanted: &Wanted<'_>,
        now: i64,
    ) -> Lookup {
        let root = match Roots::get(self, wanted.root, now) {
            Ok(root) => root,
            Err(status) => return Lookup::Failed(status),
        };
        let index = wanted.index.to_vec();
        let below = wanted.below.clone().into_owned();
        let query = Query { index, ..Query::new(root, below, wanted.rules, self.keep_up_to) };
        let known = self.known(host, path.as_str());
        let stamps = known.as_ref().map_or(&[][..], |e| &e.stamps);
        match look(&query, stamps, Wait::Never) {
            Ok(found) => Lookup::Hit(self.settle(host, path, known, found, now)),
            Err(OpenError::Local(errno)) => match self.make_do(path.as_str(), known, errno, now) {
                Ok(entry) => Lookup::Hit(entry),
                Err(status) => Lookup::Failed(status),
            },
            Err(_) if self.services.sheds_cold() => Lookup::Failed(Status::SERVICE_UNAVAILABLE),
            Err(_) => {
                let key = (host, path.clone().into_owned());
                Lookup::WouldWait(DiskLookup { files: self.clone(), key, query, known })
            }
        }
    }

    /// A rendered listing of the folder as `folder` shows it.
    pub fn listing(&self, host: usize, key: &str, folder: &Stamp, now: i64) -> Option<Rc<ListingPage>> {
        match self.table.borrow_mut().get(host as u32, key) {
            Some(Cached::Listing(page)) if page.folder == *folder && now - page.made < LISTING_AGE => {
                Some(page.clone())
            }
            _ => None,
        }
    }

    pub fn keep_listing(&self, host: usize, key: &str, page: Rc<ListingPage>) {
        let bytes = page.answer.head().bytes().len();
        self.table.borrow_mut().insert(host as u32, key, Cached::Listing(page), bytes, 0);
    }

    fn is_fresh(&self, entry: &Entry, now: i64) -> bool {
        let age = now - entry.checked.get();
        match entry.resource {
            Resource::Missing => (0..self.missing).contains(&age),
            _ => (0..self.check).contains(&age),
        }
    }

    fn known(&self, host: usize, path: &str) -> Option<Rc<Entry>> {
        match self.table.borrow_mut().get(host as u32, path) {
            Some(Cached::Entry(entry)) => Some(entry.clone()),
            _ => None,
        }
    }

    /// Takes what a look found into the table.
    fn settle(
        &self,
        host: usize,
        path: &SafePath<'_>,
        known: Option<Rc<Entry>>,
        found: Option<Found>,
        now: i64,
    ) -> Rc<Entry> {
        let Some(found) = found else {
            // Nothing has changed, so there is something known.
            let entry = known.unwrap_or_else(|| Rc::new(Entry::empty(Resource::Missing, now)));
            entry.checked.set(now);
            return entry;
        };
        let entry = Rc::new(Entry::of(&self.services, host, path, found, now));
        let (bytes, descriptors) = entry.cost();
        self.table.borrow_mut().insert(
            host as u32,
            path.as_str(),
            Cached::Entry(entry.clone()),
            bytes,
            descriptors,
        );
        entry
    }

    /// What was known is served on where there is no descriptor or no memory to look at it again: it costs
    /// neither.
    fn make_do(
        &self,
        path: &str,
        known: Option<Rc<Entry>>,
        errno: Errno,
        now: i64,
    ) -> Result<Rc<Entry>, Status> {
        match known {
            Some(entry) if is_shortage(errno) => {
                entry.checked.set(now);
                Ok(entry)
            }
            _ => Err(self.trouble(path, errno)),
        }
    }

    /// Tells of an error that is neither the client's nor the file's, and says what the client is told.
    pub fn trouble(&self, path: &str, errno: Errno) -> Status {
        log::error(format_args!("cannot open /{path}: {errno}"));
        if is_shortage(errno) { Status::SERVICE_UNAVAILABLE } else { Status::INTERNAL_SERVER_ERROR }
    }

    fn busy(&self, path: &str, busy: Busy) -> Status {
        self.services.counts.add(Count::LateDisk, u64::from(matches!(busy, Busy::Late | Busy::Shed)));
        // Once a second at most: there may be thousands.
        let now = self.services.clock.now();
        if matches!(busy, Busy::Full | Busy::Shed) && self.complained.replace(now) == now {
            return Status::SERVICE_UNAVAILABLE;
        }
        let why = match busy {
            Busy::Full | Busy::Shed => "too many requests wait for its disk",
            Busy::Late => "the disk did not answer in time",
            Busy::Failed => "the look-up failed",
        };
        log::warn(format_args!("/{path}: {why}"));
        Status::SERVICE_UNAVAILABLE
    }
}

/// Where to look for a path.
pub struct Wanted<'a> {
    pub root: &'a Path,
    pub below: SafePath<'a>,
    pub rules: &'a site::model::FileRules,
    /// In place of those of the rules.
    pub index: &'a [String],
}

/// Seconds after which a listing is made anew even if its folder has not changed: the sizes and times
/// of the files in it may have.
const LISTING_AGE: i64 = 10;

impl DiskLookup {
    /// Asks the disk on a helper thread; all that look for the same path wait for one lookup. Errors: the
    /// status to answer with.
    pub async fn find(self) -> Result<Rc<Entry>, Status> {
        let (files, path) = (self.files.clone(), self.key.1.clone());
        let found = self.find_or_leave().await;
        found.unwrap_or_else(|busy| Err(files.busy(path.as_str(), busy)))
    }

    async fn find_or_leave(self) -> Result<Result<Rc<Entry>, Status>, Busy> {
        let files = self.files.clone();
        let disk = &files.services.disk;
        let under_way = files.pending.borrow().get(&self.key).filter(|p| !p.given_up.get()).cloned();
        let device = under_way.as_ref().map_or_else(|| look::device(&self.query), |pending| pending.device);
        let _admitted = disk.admit(device)?;
        let pending = under_way.unwrap_or_else(|| self.begin(device));
        let _waiting = Waiting::of(&pending);
        let result = async {
            loop {
                let done = pending.done.notified();
                if let Some(result) = &*pending.result.borrow() {
                    return result.clone();
                }
                done.await;
            }
        };
        disk.wait(result).await
    }

    /// Begins a lookup that others may join.
    fn begin(self, device: Device) -> Rc<Pending> {
        let DiskLookup { files, key, query, known } = self;
        let pending = Rc::new(Pending::new(device));
        files.pending.borrow_mut().insert(key.clone(), pending.clone());
        let under_way = UnderWay { files: files.clone(), key, pending: pending.clone() };
        let looking = tokio::task::spawn_local(async move {
            let UnderWay { files, key: (host, path), pending } = &under_way;
            let stamps = known.as_ref().map_or(Vec::new(), |e| e.stamps.clone());
            let look = move || look(&query, &stamps, Wait::Allowed);
            let looked = files.services.disk.run(device, Work::File, look).await;
            let now = files.services.clock.read();
            let result = match looked {
                Ok(Ok(found)) => Ok(files.settle(*host, path, known, found, now)),
                Ok(Err(OpenError::Local(errno))) => files.make_do(path.as_str(), known, errno, now),
                Ok(Err(_)) => Err(Status::INTERNAL_SERVER_ERROR),
                Err(busy) => Err(files.busy(path.as_str(), busy)),
            };
            *pending.result.borrow_mut() = Some(result);
        });
        *pending.looking.borrow_mut() = Some(looking.abort_handle());
        pending
    }
}

/// A request that waits for a lookup.
struct Waiting(Rc<Pending>);

impl Waiting {
    fn of(look: &Rc<Pending>) -> Waiting {
        look.waiting.set(look.waiting.get() + 1);
        Waiting(look.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let look = &self.0;
        look.waiting.set(look.waiting.get() - 1);
        if look.waiting.get() == 0
            && look.result.borrow().is_none()
            && let Some(looking) = &*look.looking.borrow()
        {
            look.given_up.set(true);
            looking.abort();
        }
    }
}

impl Entry {
    /// What a look found, made ready to be served.
    fn of(services: &Services, host: usize, path: &SafePath<'_>, found: Found, now: i64) -> Entry {
        match found {
            Found::Missing => Entry::empty(Resource::Missing, now),
            Found::Denied => Entry::empty(Resource::Denied, now),
            Found::Folder(stamp) => Entry { stamps: vec![stamp], ..Entry::empty(Resource::Folder, now) },
            Found::File { name, variants } => {
                let stamps = variants.iter().map(|v| v.stamp).collect();
                let ready = prepare::prepare(services, host, path, &name, variants);
                let (representations, forms) = ready.into_iter().unzip();
                Entry { resource: Resource::File(representations), forms, stamps, checked: Cell::new(now) }
            }
        }
    }

    fn empty(resource: Resource, now: i64) -> Entry {
        Entry { resource, forms: Vec::new(), stamps: Vec::new(), checked: Cell::new(now) }
    }

    /// The folder's own stamp, if it is one.
    pub fn folder_stamp(&self) -> Option<Stamp> {
        matches!(self.resource, Resource::Folder).then(|| self.stamps.first().copied()).flatten()
    }

    /// Bytes and descriptors that keeping it costs.
    fn cost(&self) -> (usize, usize) {
        let bytes =
            self.forms.iter().map(|f| f.answer.head().bytes().len() + size_of::<Form>()).sum::<usize>();
        let descriptors = self.forms.iter().filter(|f| !matches!(f.content, Content::InBlock)).count();
        (bytes + size_of::<Entry>(), descriptors)
    }
}

/// Does it pass when others have what they need?
fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

fn whole_seconds(duration: Duration) -> i64 {
    duration.as_millis().div_ceil(1000).try_into().unwrap_or(i64::MAX)
}
