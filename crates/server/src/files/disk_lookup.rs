//! Lookups that wait for a disk. They run on helper threads, and the requests for one path share one lookup. A lookup
//! that completes a partial entry runs while the entry is already being sent.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taipan_http::status::Status;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::beneath::Wait;
use super::lookup::Query;
use super::roots::Roots;
use super::{Checked, Entry, Files, Key};
use crate::disk::{Busy, Device, Work};
use crate::semaphore::Permit;
use crate::tasks::spawn_local;

/// A lookup that may wait for a disk.
pub struct DiskLookup {
    pub(super) files: Rc<Files>,
    pub(super) key: Key,
    pub(super) query: Query<'static>,
    pub(super) cached: Option<Rc<Entry>>,
    /// The path of the root, if it may lead to another folder by now.
    pub(super) unsure_root: Option<PathBuf>,
}

/// A lookup for which requests wait.
#[derive(Default)]
pub(super) struct Pending {
    device: Device,
    /// A helper thread has begun with it: it may not see what has changed since.
    has_begun: Arc<AtomicBool>,
    result: RefCell<Option<Result<Rc<Entry>, Status>>>,
    done: Notify,
    /// The number of requests that wait. When the last of them is dropped, the lookup is cancelled.
    waiters: Cell<usize>,
    is_cancelled: Cell<bool>,
    task: RefCell<Option<AbortHandle>>,
}

impl DiskLookup {
    /// Errors: the status of the response.
    pub async fn find(mut self) -> Result<Rc<Entry>, Status> {
        let (files, path) = (self.files.clone(), self.key.1.clone());
        let busy = |busy| files.report_busy(path.as_str(), busy);
        if let Some(root) = self.unsure_root.take() {
            Roots::renew(&files, &root).await.map_err(busy)?;
            self.query.root = Roots::get(&files, &root, files.services.clock.read())?;
        }
        self.wait_for_earlier().await.map_err(busy)?;
        self.join_or_start().await.map_err(busy)?
    }

    /// Looks the file up again, with all precompressed files, while `partial` is sent. No request waits for it.
    pub(super) fn complete(self, partial: Rc<Entry>, permit: Permit) {
        if self.files.pending.borrow().contains_key(&self.key) {
            return;
        }
        spawn_local(async move {
            let _permit = permit;
            if self.find().await.is_err() {
                partial.expire();
            }
        });
    }

    /// Where each request is compared with the disk, waits for the end of a lookup that has begun before the request.
    async fn wait_for_earlier(&self) -> Result<(), Busy> {
        let Files { services, pending, check_seconds, .. } = &*self.files;
        let has_begun = |pending: &&Rc<Pending>| pending.has_begun.load(Ordering::SeqCst);
        let earlier = pending.borrow().get(&self.key).filter(has_begun).cloned();
        let Some(earlier) = earlier.filter(|_| *check_seconds == 0) else { return Ok(()) };
        let _admitted = services.disk.admit(earlier.device)?;
        let _waiter = Waiter::new(&earlier);
        services.disk.wait(earlier.result()).await.map(drop)
    }

    async fn join_or_start(self) -> Result<Result<Rc<Entry>, Status>, Busy> {
        let files = self.files.clone();
        let disk = &files.services.disk;
        let running = files.pending.borrow().get(&self.key).filter(|p| !p.is_cancelled.get()).cloned();
        let device = running.as_ref().map_or_else(|| self.query.device(), |pending| pending.device);
        let _admitted = disk.admit(device)?;
        let pending = running.unwrap_or_else(|| self.start(device));
        let _waiter = Waiter::new(&pending);
        disk.wait(pending.result()).await
    }

    fn start(self, device: Device) -> Rc<Pending> {
        let DiskLookup { files, key, query, cached, .. } = self;
        let pending = Rc::new(Pending { device, ..Pending::default() });
        files.pending.borrow_mut().insert(key.clone(), pending.clone());
        let guard = LookupGuard { files, key, pending: pending.clone() };
        let task = spawn_local(async move {
            let LookupGuard { files, key: (host, path), pending } = &guard;
            let now = files.services.clock.now();
            let stamps = cached.as_ref().map_or(Vec::new(), |entry| entry.stamps_at(now).to_vec());
            let has_begun = pending.has_begun.clone();
            let lookup = move || {
                has_begun.store(true, Ordering::SeqCst);
                query.lookup_if_changed(&stamps, Wait::Allowed)
            };
            let changes = files.changes.get();
            let result = match files.services.disk.run(device, Work::File, lookup).await {
                Ok(result) => {
                    let checked = Checked { second: files.services.clock.read(), changes };
                    files.update(*host, path, cached, result, checked)
                }
                Err(busy) => Err(files.report_busy(path.as_str(), busy)),
            };
            *pending.result.borrow_mut() = Some(result);
        });
        *pending.task.borrow_mut() = Some(task.abort_handle());
        pending
    }
}

impl Pending {
    async fn result(&self) -> Result<Rc<Entry>, Status> {
        loop {
            let done = self.done.notified();
            if let Some(result) = &*self.result.borrow() {
                return result.clone();
            }
            done.await;
        }
    }
}

/// Ends a pending lookup when its task completes, is aborted or panics.
struct LookupGuard {
    files: Rc<Files>,
    key: Key,
    pending: Rc<Pending>,
}

impl Drop for LookupGuard {
    fn drop(&mut self) {
        let mut all = self.files.pending.borrow_mut();
        // Another lookup of the same path may have started since this one was cancelled.
        if all.get(&self.key).is_some_and(|pending| Rc::ptr_eq(pending, &self.pending)) {
            all.remove(&self.key);
        }
        // Without a result, the task panicked, or no request waits.
        self.pending.result.borrow_mut().get_or_insert(Err(Status::INTERNAL_SERVER_ERROR));
        self.pending.done.notify_waiters();
    }
}

/// A request that waits for a lookup.
struct Waiter(Rc<Pending>);

impl Waiter {
    fn new(pending: &Rc<Pending>) -> Waiter {
        pending.waiters.update(|n| n + 1);
        Waiter(pending.clone())
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let pending = &self.0;
        pending.waiters.update(|n| n - 1);
        if pending.waiters.get() == 0
            && pending.result.borrow().is_none()
            && let Some(task) = &*pending.task.borrow()
        {
            pending.is_cancelled.set(true);
            task.abort();
        }
    }
}
