//! The files of the cache of responses: one folder, which all workers of a process share, and with them those of other
//! processes. It is found again after a restart.

pub mod folder;
pub mod store;
mod thread;
mod tier;

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use cache::store::purge::{Epoch, Purge};
use site::model::CacheFiles;
use tokio::sync::oneshot;

use self::folder::Folder;
use self::store::{Purged, Store};
use self::thread::PurgeTask;
pub use self::tier::{DiskTier, FoundResponse};
use super::purges;
use crate::stats::StoredFiles;

/// Purges that may wait for the thread.
const PURGES: usize = 64;

/// The files of this process. Not set: it has none.
static FILES: OnceLock<Files> = OnceLock::new();

struct Files {
    store: Arc<Store>,
    purges: SyncSender<PurgeTask>,
}

/// Opens the folder: before the sandbox, as the user that serves. Errors: the reason, with what to do.
pub fn open(files: &CacheFiles) -> Result<Store, String> {
    Ok(Store::new(Folder::open(&files.folder)?, files.clone(), purges::shared().clone()))
}

/// Starts the thread that looks after the files. Once in a process. Errors: it cannot be started.
pub fn begin(store: Store) -> io::Result<()> {
    let (purges, tasks) = sync_channel(PURGES);
    let store = Arc::new(store);
    thread::start(store.clone(), tasks)?;
    _ = FILES.set(Files { store, purges });
    Ok(())
}

/// The process has a successor, or ends: it writes no more files.
pub fn retire() {
    if let Some(files) = FILES.get() {
        files.store.retire();
    }
}

/// `None`: there are no files.
pub fn stats() -> Option<StoredFiles> {
    FILES.get().map(|files| files.store.stats())
}

/// Removes the files that a purge matches, which has begun, and sends how many. The sender is dropped if there are too
/// many purges at the same time.
pub fn purge(purge: Purge, begun: Epoch) -> oneshot::Receiver<Purged> {
    let (done, purged) = oneshot::channel();
    match FILES.get() {
        Some(files) => {
            if files.purges.try_send(PurgeTask { purge, begun, done }).is_err() {
                purges::shared().end(begun);
            }
        }
        None => {
            purges::shared().end(begun);
            _ = done.send(Purged::default());
        }
    }
    purged
}
