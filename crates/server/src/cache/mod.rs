//! The cache of responses: what upstreams have sent, stored to be sent again. The crate `cache` decides what is stored
//! and when it is used.
//!
//! Knows nothing of upstreams.

mod body;
mod cached_response;
mod copies;
pub mod disk;
mod partial;
mod pending;
pub mod purges;
mod recording;
mod serve;
mod stamps;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use cache::key::Key;
use cache::policy::Policy;
use cache::settings::Settings;
use cache::store::head::Label;
use cache::store::purge::{Epoch, Purge};
use cache::stored::Stored;
use cache::vary::{self, Variant};
use site::memory;
use taipan_http::head::Field;

use crate::clock;
use crate::files::HostKey;
use crate::files::table::{Cost, Limits, Table};
use crate::semaphore::Semaphore;
use crate::services::Services;

pub use self::body::StoredBody;
pub use self::cached_response::{CachedResponse, Placement, stored_body, writer};
use self::disk::{DiskTier, FoundResponse};
pub use self::partial::PartialResponse;
use self::pending::PendingRequests;
pub use self::pending::{Leader, PendingKey, Role};
pub use self::recording::{Recording, Reserved};

/// The stored responses of one worker, in memory.
pub struct Cache {
    services: Rc<Services>,
    /// By the text of the key.
    table: RefCell<Table<Vec<Rc<CachedResponse>>>>,
    /// Of which only parts are there. By the text of the key, one for each.
    parts: RefCell<Table<Rc<PartialResponse>>>,
    pending: Rc<PendingRequests>,
    /// `None`: there are no files.
    disk: Option<DiskTier>,
    /// Compressed copies that are being made.
    copies: Semaphore,
    /// Responses that are refreshed in the background.
    pub refreshes: Semaphore,
    /// Bytes of bodies that are being received.
    received: Rc<Cell<usize>>,
    /// The most of them.
    most_received: usize,
    /// The text of a key, while it is looked up.
    text: RefCell<String>,
}

/// What is found for a request.
pub enum Found {
    Entry(Rc<CachedResponse>),
    /// There are responses for other variants.
    OtherVariant,
    Nothing,
}

/// Responses of one key. The oldest one makes place for another variant.
const MOST_VARIANTS: usize = 16;
/// Keys of one worker.
const MOST_KEYS: usize = 1_000_000;
/// Bytes of the smallest entry, about.
const SMALL: usize = 2048;
/// The one host of the table: the text of a key has the host.
const HOST: usize = 0;
/// The part of the memory that is for parts of responses: one by so many.
const PARTS: usize = 8;
/// Compressed copies that are made at the same time.
const MOST_COPIES: usize = 8;
/// The most responses that are refreshed in the background at the same time.
const MOST_REFRESHES: usize = 256;

impl Cache {
    pub fn new(services: Rc<Services>) -> Rc<Cache> {
        let limits = &services.site.cache;
        let bytes = limits.responses;
        let entries = (bytes / SMALL).min(MOST_KEYS);
        let descriptors = services.site.response_descriptors();
        let for_parts = bytes / PARTS;
        let table = RefCell::new(Table::new(Limits { entries, descriptors, bytes: bytes - for_parts }));
        let parts = RefCell::new(Table::new(Limits { entries, descriptors: 0, bytes: for_parts }));
        let copies = Semaphore::new(MOST_COPIES);
        let refreshes = Semaphore::new(MOST_REFRESHES);
        let disk = DiskTier::of_process(&services.disk, memory::RESPONSE);
        let (pending, text) = (Rc::default(), RefCell::default());
        let (received, most_received) = (Rc::default(), services.site.received_responses());
        Rc::new(Cache {
            services,
            table,
            parts,
            pending,
            disk,
            copies,
            refreshes,
            received,
            most_received,
            text,
        })
    }

    /// What a request with these fields selects.
    #[inline]
    pub fn find(&self, text: &str, fields: &[Field<'_>]) -> Found {
        let mut table = self.table.borrow_mut();
        let Some(entries) = table.get(HOST.into(), text) else { return Found::Nothing };
        match vary::selected(&*entries, |entry| &entry.stored.variant, fields) {
            Some(entry) if entry.is_valid() => {
                entry.is_used.set(true);
                Found::Entry(entry.clone())
            }
            Some(_) => Found::Nothing,
            None => Found::OtherVariant,
        }
    }

    /// The variant that a request with these fields probably selects: by the fields that select the newest response.
    pub fn probable_variant(&self, text: &str, fields: &[Field<'_>]) -> Variant {
        let mut table = self.table.borrow_mut();
        let newest = table.get(HOST.into(), text).and_then(|entries| entries.first());
        newest.map(|entry| entry.stored.variant.extended(Vec::new(), fields)).unwrap_or_default()
    }

    /// As `find`, for the key that `write` appends to a buffer.
    #[inline]
    pub fn find_written(&self, write: impl FnOnce(&mut String), fields: &[Field<'_>]) -> Found {
        let mut text = self.text.borrow_mut();
        text.clear();
        write(&mut text);
        self.find(&text, fields)
    }

    /// Takes what the files have for a request into memory, if there is nothing. Returns it, because memory may be too
    /// small for it.
    pub async fn load(
        &self,
        text: &str,
        fields: &[Field<'_>],
        settings: &Arc<Settings>,
    ) -> Option<Rc<CachedResponse>> {
        let disk = self.disk.as_ref()?;
        let key = Key::new(text);
        if !disk.may_have(&key) || matches!(self.find(text, fields), Found::Entry(_)) {
            return None;
        }
        // A purge that begins now may not find what is not in memory yet.
        let began = purges::now();
        let found = vary::selected(disk.find(&key).await, |found| &found.stored.variant, fields);
        let FoundResponse { stored, body, since } = found?;
        let policy = Policy::of(&stored, settings);
        // What was stored before the process began is older than all that was invalidated since.
        let placement = Placement { resource: key.resource(), requested: since.0.max(1) };
        let entry = CachedResponse::new(stored, policy, settings.clone(), body, placement);
        if is_purged(text, began, &tags(&entry)) {
            return None;
        }
        let entry = Rc::new(entry);
        self.insert(text, entry.clone());
        entry.is_valid().then_some(entry)
    }

    /// Stores a new response, in files, too. If the memory is too small for it, `held` stays until its file is written: its
    /// leader, because those that wait find it there, and the memory that it takes until then.
    pub fn store(&self, text: &str, entry: &Rc<CachedResponse>, held: impl Sized + 'static) {
        if is_purged(text, Epoch(entry.requested()), &tags(entry)) {
            return;
        }
        let key = Key::new(text);
        self.insert(text, entry.clone());
        self.pending.collapse(key.hash(), |identity| entry.policy.is_for(identity));
        if let Some(disk) = &self.disk {
            let held = (!self.has(text, entry)).then_some(held);
            disk.put(&key, entry, held);
        }
    }

    /// Whether it is in memory.
    fn has(&self, text: &str, entry: &Rc<CachedResponse>) -> bool {
        let mut table = self.table.borrow_mut();
        table.get(HOST.into(), text).is_some_and(|entries| entries.iter().any(|own| Rc::ptr_eq(own, entry)))
    }

    /// The parts of what a request with these fields selects.
    pub fn find_parts(&self, text: &str, fields: &[Field<'_>]) -> Option<Rc<PartialResponse>> {
        let mut parts = self.parts.borrow_mut();
        let found = parts.get(HOST.into(), text)?;
        (found.is_valid() && found.stored.variant.matches(fields)).then(|| found.clone())
    }

    /// Stores a part of a response, with those that are there. The whole response, if nothing is missing.
    pub fn store_part(&self, text: &str, part: PartialResponse) -> Option<Rc<CachedResponse>> {
        let tags = tags_of(&part.stored, &part.settings);
        if !part.is_valid() || is_purged(text, Epoch(part.placement.requested), &tags) {
            return None;
        }
        let known = self.parts.borrow_mut().get(HOST.into(), text).cloned();
        let known = known.filter(|known| known.stored.variant == part.stored.variant);
        let part = known.and_then(|known| known.with(&part)).unwrap_or(part);
        let Some(bytes) = part.whole() else {
            let cost = Cost::of_bytes(part.cost());
            self.parts.borrow_mut().insert(HOST.into(), text, Rc::new(part), cost);
            return None;
        };
        self.remove_parts(text);
        let PartialResponse { stored, policy, settings, placement, .. } = part;
        let body = stored_body(&self.services, bytes);
        let entry = Rc::new(CachedResponse::new(stored, policy, settings, body, placement));
        self.store(text, &entry, ());
        Some(entry)
    }

    pub fn remove_parts(&self, text: &str) {
        self.parts.borrow_mut().remove(HOST.into(), text);
    }

    /// Stores a response of which only the fields are new.
    pub fn update(&self, text: &str, entry: &Rc<CachedResponse>) {
        if is_purged(text, Epoch(entry.requested()), &tags(entry)) {
            return;
        }
        self.insert(text, entry.clone());
        if let Some(disk) = &self.disk {
            disk.update(&Key::new(text), entry);
        }
    }

    /// Stores a response in memory. It replaces the one of the same variant.
    fn insert(&self, text: &str, entry: Rc<CachedResponse>) {
        if !entry.is_valid() {
            return;
        }
        self.remove_parts(text);
        let mut table = self.table.borrow_mut();
        let known = table.get(HOST.into(), text).map(std::mem::take).unwrap_or_default();
        let mut entries = vec![entry];
        let is_other =
            |old: &Rc<CachedResponse>| old.is_valid() && old.stored.variant != entries[0].stored.variant;
        let others: Vec<_> = known.into_iter().filter(is_other).take(MOST_VARIANTS - 1).collect();
        entries.extend(others);
        insert(&mut table, text, entries);
    }

    /// Counts again what the variants of a key cost: some have been removed, or a compressed copy has been added to one.
    fn recount(&self, text: &str) {
        let mut table = self.table.borrow_mut();
        if let Some(entries) = table.get(HOST.into(), text).map(std::mem::take) {
            insert(&mut table, text, entries);
        }
    }

    /// Removes one variant, which has turned out to be wrong.
    pub fn remove(&self, text: &str, entry: &Rc<CachedResponse>) {
        let mut table = self.table.borrow_mut();
        if let Some(mut entries) = table.get(HOST.into(), text).map(std::mem::take) {
            entries.retain(|other| !Rc::ptr_eq(other, entry));
            match entries.is_empty() {
                true => table.remove(HOST.into(), text),
                false => insert(&mut table, text, entries),
            }
        }
        drop(table);
        if let Some(disk) = &self.disk {
            disk.remove_variant(&Key::new(text), &entry.stored.variant);
        }
    }

    /// Removes what a request has made wrong: all that is stored of the resource, in all workers.
    pub fn invalidate(&self, key: &Key) {
        stamps::invalidate(key.resource(), clock::micros());
        self.remove_parts(key.text());
        self.table.borrow_mut().remove(HOST.into(), key.text());
        if let Some(disk) = &self.disk {
            disk.remove(key);
        }
    }

    /// Removes what a purge matches from memory, and returns the number of responses.
    pub fn purge(&self, purge: &Purge) -> u64 {
        let (mut removed, mut fewer) = (0, Vec::new());
        self.table.borrow_mut().retain(|text, entries| {
            let before = entries.len();
            entries.retain(|entry| !purge.matches(&Label { key: text.as_bytes(), tags: &tags(entry) }));
            removed += before - entries.len();
            if (1..before).contains(&entries.len()) {
                fewer.push(text.to_owned());
            }
            !entries.is_empty()
        });
        fewer.iter().for_each(|text| self.recount(text));
        self.parts.borrow_mut().retain(|text, parts| {
            let tags = tags_of(&parts.stored, &parts.settings);
            let matches = purge.matches(&Label { key: text.as_bytes(), tags: &tags });
            removed += usize::from(matches);
            !matches
        });
        removed as u64
    }

    /// Closes files that have been deleted, of one of so many parts of the responses: until then they take space on the
    /// disk, which no limit counts. The files of responses that were found in memory count as used.
    pub fn sweep(&self, parts: usize) {
        self.table.borrow_mut().sweep(parts, |text, entries| {
            if let Some(disk) = &self.disk {
                let used = entries.iter().filter(|entry| entry.is_used.take() && entry.is_valid());
                used.for_each(|entry| disk.count_use(&Key::new(text), entry));
            }
            !entries.iter().any(|entry| entry.body.is_deleted())
        });
    }

    pub fn has_open_files(&self) -> bool {
        self.table.borrow().has_descriptors()
    }

    /// For a body that is to be stored: at most `largest` bytes.
    pub fn reserve(&self, largest: u64) -> Reserved {
        Reserved::new(self.received.clone(), self.most_received, largest)
    }

    /// Whether a body of this length can be received in order to store it.
    pub fn may_receive(&self, length: u64) -> bool {
        length <= self.most_received as u64
    }

    pub fn services(&self) -> &Rc<Services> {
        &self.services
    }

    /// Whether the request has to wait for the response that another one has asked for. `most`: requests that wait for
    /// one.
    pub fn join(&self, key: PendingKey, most: usize) -> Role {
        let resource = key.resource();
        self.pending.join(key, most, self.services.clock.now(), |began| stamps::is_valid(resource, began))
    }

    /// For a request in the background. `None`: another request asks for the same response.
    pub fn lead(&self, key: PendingKey) -> Option<Leader> {
        let resource = key.resource();
        self.pending.lead(key, |began| stamps::is_valid(resource, began))
    }

    /// Remembers that requests with this key do not wait for one another, because their responses are not stored.
    pub fn do_not_collapse(&self, key: &PendingKey) {
        self.pending.do_not_collapse(key, self.services.clock.now());
    }
}

/// The tags of a response, with spaces between them.
fn tags(entry: &CachedResponse) -> Vec<u8> {
    tags_of(&entry.stored, &entry.settings)
}

fn tags_of(stored: &Stored, settings: &Settings) -> Vec<u8> {
    stored.tags(settings).collect::<Vec<_>>().join(&b' ')
}

/// Whether a response, or a part of one, has been purged since it was requested.
fn is_purged(text: &str, since: Epoch, tags: &[u8]) -> bool {
    purges::shared().forbid_storing(since, &Label { key: text.as_bytes(), tags })
}

/// Inserts the variants of a key, with what all of them cost.
fn insert(table: &mut Table<Vec<Rc<CachedResponse>>>, text: &str, entries: Vec<Rc<CachedResponse>>) {
    let cost = entries.iter().map(|entry| entry.cost()).sum();
    table.insert(HostKey::from(HOST), text, entries, cost);
}
