//! The helper threads of a worker. They start when there is work, and end when there has been none for a while. If the
//! kernel refuses to start a thread, the job waits for one that runs; if none runs, the caller gets the job back.
//!
//! Knows nothing of disks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::mutex::locked;
use crate::sys::calls;

/// Idle threads end after this.
const IDLE: Duration = Duration::from_secs(10);
/// Bytes of a thread's stack.
const STACK: usize = 256 * 1024;

pub type Job = Box<dyn FnOnce() + Send>;

/// When this is dropped, jobs that have not begun are dropped, too.
pub struct Helpers(Arc<Shared>);

struct Shared {
    /// The most threads.
    limit: usize,
    state: Mutex<State>,
    added: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
    is_closed: bool,
}

thread_local! {
    /// The helpers of the worker whose loop this thread runs.
    static OWN: RefCell<Weak<Shared>> = const { RefCell::new(Weak::new()) };
}

/// Runs a job for which nothing waits: a worker's loop gives it to its helpers, and every other thread runs it at once.
/// So does the loop if there is no thread for it.
pub fn run_aside(job: Job) {
    let own = OWN.try_with(|own| own.borrow().upgrade()).ok().flatten();
    let left = match own {
        Some(shared) => shared.run(job).err(),
        None => Some(job),
    };
    if let Some(job) = left {
        job();
    }
}

impl Helpers {
    /// For the worker whose loop this thread runs. `limit`: the most threads.
    pub fn new(limit: usize) -> Helpers {
        let (state, added) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { limit: limit.max(1), state, added });
        OWN.set(Arc::downgrade(&shared));
        Helpers(shared)
    }

    /// Runs a job on a thread. Jobs begin in their order. Errors: there is no thread, and the kernel has refused one.
    pub fn run(&self, job: Job) -> Result<(), Job> {
        self.0.run(job)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        let left = std::mem::take(&mut state.jobs);
        drop(state);
        self.0.added.notify_all();
        drop(left);
    }
}

impl Shared {
    fn run(self: &Arc<Shared>, job: Job) -> Result<(), Job> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(job);
        }
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() {
            // The thread that wakes up needs the lock.
            drop(state);
            self.added.notify_one();
            return Ok(());
        }
        if state.threads >= self.limit {
            return Ok(());
        }
        let shared = self.clone();
        let started = calls::start_thread("disk", STACK, move || shared.work());
        state.threads += usize::from(started.is_ok());
        match state.threads {
            // Without a thread, there was no other job.
            0 => state.jobs.pop_back().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    /// Does the work of a thread.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            while let Some(job) = state.jobs.pop_front() {
                drop(state);
                // What waits for the result notices that it never comes.
                _ = catch_unwind(AssertUnwindSafe(job));
                state = self.lock();
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let (after, waited) =
                self.added.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = after;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{ThreadId, current};

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    fn note_thread(to: &Sender<ThreadId>) -> Job {
        let to = to.clone();
        Box::new(move || _ = to.send(current().id()))
    }

    #[test]
    fn an_idle_thread_does_the_next_job() {
        let helpers = Helpers::new(4);
        let (to, threads) = channel();
        let mut seen = Vec::new();
        for _ in 0..10 {
            assert!(helpers.run(note_thread(&to)).is_ok());
            seen.push(threads.recv_timeout(LONG).expect("it runs"));
            while helpers.0.lock().idle == 0 {
                std::thread::yield_now();
            }
        }
        seen.dedup();
        assert_eq!(seen.len(), 1);
    }

    #[test]
    fn queues_jobs_at_the_limit_and_keeps_the_thread_after_a_panic() {
        let helpers = Helpers::new(2);
        let (to, threads) = channel();
        let (release, held) = channel::<()>();
        assert!(helpers.run(Box::new(move || _ = held.recv())).is_ok());
        assert!(helpers.run(Box::new(|| panic!("on purpose"))).is_ok());
        for _ in 0..5 {
            assert!(helpers.run(note_thread(&to)).is_ok());
        }
        let seen: Vec<ThreadId> = (0..5).map(|_| threads.recv_timeout(LONG).expect("it runs")).collect();
        assert!(seen.iter().all(|thread| *thread == seen[0]), "one of two threads is held");
        drop(release);
    }

    #[test]
    fn drops_jobs_that_have_not_begun() {
        let helpers = Helpers::new(1);
        let (to, threads) = channel();
        let (release, held) = channel::<()>();
        assert!(helpers.run(Box::new(move || _ = held.recv())).is_ok());
        assert!(helpers.run(note_thread(&to)).is_ok());
        drop((helpers, to));
        drop(release);
        assert!(threads.recv_timeout(LONG).is_err(), "the sender is gone");
    }

    #[test]
    fn only_a_loop_gives_a_job_to_its_helpers() {
        let (to, threads) = channel();
        run_aside(note_thread(&to));
        assert_eq!(threads.recv_timeout(LONG), Ok(current().id()));
        let helpers = Helpers::new(1);
        run_aside(note_thread(&to));
        assert_ne!(threads.recv_timeout(LONG), Ok(current().id()));
        drop(helpers);
        run_aside(note_thread(&to));
        assert_eq!(threads.recv_timeout(LONG), Ok(current().id()));
    }
}
