//! A thread of a worker for work that takes long and that no response waits for. It runs one closure after the other,
//! with a low priority, so that a worker's loop on the same core hardly notices. It starts with the first of them.
//!
//! Knows nothing of what the closures do.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::sys;

/// Without a closure for so long, the thread returns the memory of those before.
const IDLE: Duration = Duration::from_secs(1);

/// Of the nice values: beside a busy loop on the same core, the thread gets a tenth of it.
const NICE: i32 = 10;

type Job = Box<dyn FnOnce() + Send>;

pub struct Background {
    /// Closures that may wait.
    limit: usize,
    /// `None`: there is no thread.
    queue: RefCell<Option<SyncSender<Job>>>,
}

impl Background {
    /// `limit`: closures that may wait.
    pub fn new(limit: usize) -> Background {
        Background { limit, queue: RefCell::default() }
    }

    /// Runs `work`, unless its result is not wanted any more, and sends the result. If it panics, the sender is
    /// dropped. `None`: too much work waits, or the system cannot start a thread.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<oneshot::Receiver<T>> {
        let (sender, result) = oneshot::channel();
        // The receiver is dropped when what waits for it is, or when the worker ends.
        let job = move || {
            if !sender.is_closed() {
                drop(sender.send(work()));
            }
        };
        self.send(Box::new(job))?;
        Some(result)
    }

    fn send(&self, job: Job) -> Option<()> {
        let mut queue = self.queue.borrow_mut();
        let sent = match queue.as_ref() {
            Some(queue) => queue.try_send(job),
            None => Err(TrySendError::Disconnected(job)),
        };
        let job = match sent {
            Ok(()) => return Some(()),
            Err(TrySendError::Full(_)) => return None,
            Err(TrySendError::Disconnected(job)) => job,
        };
        let (sender, jobs) = sync_channel(self.limit);
        sender.try_send(job).ok()?;
        std::thread::Builder::new().name("background".to_owned()).spawn(move || run(&jobs)).ok()?;
        *queue = Some(sender);
        Some(())
    }
}

/// Runs closures until the worker ends.
fn run(jobs: &Receiver<Job>) {
    // Without it, the thread only competes with the loop.
    _ = rustix::process::setpriority_process(None, NICE);
    loop {
        let job = match jobs.recv_timeout(IDLE) {
            Ok(job) => job,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                sys::trim_heap();
                let Ok(job) = jobs.recv() else { return };
                job
            }
        };
        // The panic is logged, and the receiver of the result learns of it.
        _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const QUEUE: usize = 64;

    #[test]
    fn runs_work_in_order_and_survives_a_panic() {
        let background = Background::new(QUEUE);
        let first = background.run(|| 1).expect("the queue is empty");
        let second = background.run(|| panic!("on purpose")).expect("the queue has space");
        let third = background.run(|| std::thread::current().name().map(str::to_owned)).expect("the same");
        assert_eq!(first.blocking_recv(), Ok(1));
        assert!(Result::<(), _>::is_err(&second.blocking_recv()));
        assert_eq!(third.blocking_recv(), Ok(Some("background".to_owned())));
    }

    #[test]
    fn leaves_out_work_whose_result_is_not_wanted() {
        let background = Background::new(QUEUE);
        let (release, wait) = channel::<()>();
        let first = background.run(move || wait.recv().is_err()).expect("the queue is empty");
        let (note, ran) = channel();
        drop(background.run(move || note.send(()).is_ok()));
        let last = background.run(|| ()).expect("the queue has space");
        drop(release);
        assert_eq!((first.blocking_recv(), last.blocking_recv()), (Ok(true), Ok(())));
        assert!(ran.recv().is_err(), "it was dropped without a run");
    }

    #[test]
    fn rejects_work_when_the_queue_is_full() {
        let background = Background::new(QUEUE);
        let (release, wait) = channel::<()>();
        let first = background.run(move || wait.recv().is_err());
        // The thread has taken the first one, or it is still in the queue.
        let accepted = (0..2 * QUEUE).filter(|_| background.run(|| ()).is_some()).count();
        assert!((QUEUE - 1..=QUEUE).contains(&accepted), "{accepted}");
        drop(release);
        assert_eq!(first.expect("the queue was empty").blocking_recv(), Ok(true));
    }
}
