//! A worker's access to the files: everything that may wait for the disk runs on its helper threads. What fails is a
//! miss, or is not stored.

use std::rc::Rc;
use std::sync::Arc;

use cache::key::Key;
use cache::store::name::Name;
use cache::store::purge::Epoch;
use cache::stored::Stored;
use cache::vary::Variant;
use site::memory::CACHE_WRITES;
use twox_hash::XxHash3_128;

use super::FILES;
use super::store::{FoundFile, NewEntry, NotStored, Store};
use crate::cache::body::BodySource;
use crate::cache::{CachedResponse, StoredBody, stamps, tags};
use crate::disk::{Disk, Work};
use crate::files::beneath::Wait;
use crate::files::open::{OpenFile, read};
use crate::semaphore::Semaphore;
use crate::tasks::spawn_local;

/// The files, as one worker uses them.
pub struct DiskTier {
    store: Arc<Store>,
    disk: Rc<Disk>,
    /// Responses that are being written. Further ones are not stored in files.
    writes: Semaphore,
    /// Bytes of the largest body that is read into memory.
    inline: u64,
}

/// A response that a file has.
pub struct FoundResponse {
    pub stored: Stored,
    pub body: StoredBody,
    /// When this process has requested it. The default: before the process began.
    pub since: Epoch,
}

impl DiskTier {
    /// `None`: the process has no files.
    pub fn of_process(disk: &Rc<Disk>, inline: u64) -> Option<DiskTier> {
        let store = FILES.get()?.store.clone();
        Some(DiskTier { store, disk: disk.clone(), writes: Semaphore::new(CACHE_WRITES), inline })
    }

    /// Whether there may be files of the key. Never waits.
    pub fn may_have(&self, key: &Key) -> bool {
        self.store.may_have(key.resource())
    }

    /// The responses with this key, newest first.
    pub async fn find(&self, key: &Key) -> Vec<FoundResponse> {
        if !self.may_have(key) {
            return Vec::new();
        }
        let (store, key, inline) = (self.store.clone(), key.clone(), self.inline);
        let find = move || {
            let with_body = |found: FoundFile| {
                let is_small = found.length <= inline;
                let bytes = match is_small {
                    true => Some(read(&found.fd, found.at, found.length as usize, Wait::Allowed).ok()??),
                    false => None,
                };
                Some((found, bytes))
            };
            store.find(&key).into_iter().filter_map(with_body).collect::<Vec<_>>()
        };
        let found = self.disk.run_for_request(self.store.folder().device, Work::File, find).await;
        let mut found: Vec<FoundResponse> =
            found.unwrap_or_default().into_iter().filter_map(|found| self.response(found)).collect();
        sort::by_key(&mut found, |found| std::cmp::Reverse(found.stored.times.received));
        found
    }

    fn response(&self, (found, bytes): (FoundFile, Option<Vec<u8>>)) -> Option<FoundResponse> {
        let FoundFile { metadata, fd, stamp, at, length, since } = found;
        let body = match bytes {
            Some(bytes) => StoredBody::Bytes(bytes.into()),
            None => {
                StoredBody::File { file: Rc::new(OpenFile::new(fd, stamp, self.disk.clone())), at, length }
            }
        };
        Some(FoundResponse { stored: Stored::decode(&metadata)?, body, since })
    }

    /// Writes a response, in place of another one of the same variant, and holds `held` until that is done.
    pub fn put(&self, key: &Key, entry: &CachedResponse, held: impl Sized + 'static) {
        // Before the body is copied, which may be in vain.
        let Some(permit) = self.writes.take() else { return };
        let (length, body) = (entry.body.length(), entry.body.source());
        self.write(key, entry, (permit, held), move |store, new| {
            let mut writing = store.write(new, Some(length))?;
            match body {
                BodySource::Bytes(bytes) => writing.write(&bytes)?,
                BodySource::File { fd, at, length } => writing.write_from(&fd, at, length)?,
            }
            writing.finish()
        });
    }

    /// Writes the metadata that a validation has changed.
    pub fn update(&self, key: &Key, entry: &CachedResponse) {
        if let Some(permit) = self.writes.take() {
            self.write(key, entry, permit, Store::update);
        }
    }

    /// `held`: the permit, and what else is held until that is done.
    fn write(
        &self,
        key: &Key,
        entry: &CachedResponse,
        held: impl Sized + 'static,
        work: impl FnOnce(&Arc<Store>, NewEntry) -> Result<(), NotStored> + Send + 'static,
    ) {
        let mut metadata = Vec::new();
        entry.stored.encode(&mut metadata);
        let (name, since) = (name(key, &entry.stored.variant), Epoch(entry.requested()));
        let new = NewEntry { name, key: key.clone(), tags: tags(entry), metadata, since };
        self.run(held, move |store| {
            // The store counts and logs what fails. Perhaps it was invalidated while it was written.
            if work(store, new).is_ok() && !stamps::is_valid(name.resource, since.0) {
                store.remove(name.resource);
            }
        });
    }

    /// The file of a response counts as used: the response was found in memory. If the file has made room for others, it
    /// is written again. Never waits.
    pub fn count_use(&self, key: &Key, entry: &CachedResponse) {
        let length = entry.body.length() + entry.stored.cost() as u64;
        if self.store.count_use(name(key, &entry.stored.variant), length) && entry.body.is_in_memory() {
            self.put(key, entry, ());
        }
    }

    /// Removes all variants of a resource.
    pub fn remove(&self, key: &Key) {
        let resource = key.resource();
        if self.may_have(key) {
            self.run((), move |store| store.remove(resource));
        }
    }

    /// Removes one variant of a key.
    pub fn remove_variant(&self, key: &Key, of: &Variant) {
        let name = name(key, of);
        if self.may_have(key) {
            self.run((), move |store| store.remove_variant(name));
        }
    }

    /// Runs `work` on a helper thread, and holds `held` meanwhile.
    fn run(&self, held: impl Sized + 'static, work: impl FnOnce(&Arc<Store>) + Send + 'static) {
        let (store, disk) = (self.store.clone(), self.disk.clone());
        let device = store.folder().device;
        spawn_local(async move {
            // Without a helper thread, the response is not stored.
            _ = disk.run(device, Work::File, move || work(&store)).await;
            drop(held);
        });
    }
}

fn name(key: &Key, variant: &Variant) -> Name {
    let mut text = key.hash().to_be_bytes().to_vec();
    for (name, value) in &variant.0 {
        // Neither a name nor a value has a NUL, or a line feed.
        text.extend_from_slice(name.as_bytes());
        text.push(if value.is_some() { b'\0' } else { b'\n' });
        text.extend_from_slice(value.as_deref().unwrap_or_default());
        text.push(b'\n');
    }
    Name { resource: key.resource(), variant: XxHash3_128::oneshot(&text) as u64 }
}
