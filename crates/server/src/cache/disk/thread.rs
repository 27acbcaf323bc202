//! The thread that looks after the files: it makes the index when the process begins, compares it with the folder from
//! time to time, and removes what is purged. No response waits for it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use cache::store::purge::{Epoch, Purge};
use tokio::sync::oneshot;

use super::store::{Purged, Store};

/// The predecessor may have written files while the index was made.
const SECOND_WALK: Duration = Duration::from_secs(60);
/// Other programs may change the folder.
const LATER_WALKS: Duration = Duration::from_secs(3600);
/// Of the nice values, as in `background`.
const NICE: i32 = 10;
const STACK: usize = 256 * 1024;

pub struct PurgeTask {
    pub purge: Purge,
    pub begun: Epoch,
    pub done: oneshot::Sender<Purged>,
}

/// The thread ends with the process.
pub fn start(store: Arc<Store>, purges: Receiver<PurgeTask>) -> io::Result<()> {
    let run = move || {
        // Without it, the thread only competes with the loops.
        _ = rustix::process::setpriority_process(None, NICE);
        // The panic is logged, and the next task may succeed.
        let guarded = |work: &dyn Fn()| _ = catch_unwind(AssertUnwindSafe(work));
        guarded(&|| store.walk());
        let mut pause = SECOND_WALK;
        loop {
            match purges.recv_timeout(pause) {
                Ok(PurgeTask { purge, begun, done }) => {
                    let purged = catch_unwind(AssertUnwindSafe(|| store.purge(&purge, begun)));
                    _ = purged.map(|purged| done.send(purged));
                }
                Err(RecvTimeoutError::Timeout) => {
                    guarded(&|| store.walk());
                    pause = LATER_WALKS;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    std::thread::Builder::new().name("cache".to_owned()).stack_size(STACK).spawn(run)?;
    Ok(())
}
