//! The helper threads: whatever may wait for a disk is done there, never in a worker's loop.
//!
//! Knows nothing of files or requests: it runs closures, bounds how many wait, keeps threads free for
//! other devices when one does not answer, and gives up on what takes too long.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::places::Places;

/// Why a closure gave no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// As many wait already as may.
    Full,
    /// It took longer than it may; it goes on in its thread, and its result is dropped.
    Late,
    /// It panicked.
    Failed,
}

/// What a file system is on: major and minor number, as `stat(2)` has them.
pub type Device = (u32, u32);

/// Devices that are remembered; those where nothing is going on are forgotten then.
const DEVICES: usize = 64;

/// One worker's way to the helper threads, which are those of its runtime.
pub struct Disk {
    queue: Places,
    timeout: Duration,
    /// Threads that one device may keep.
    threads: usize,
    devices: RefCell<HashMap<Device, Arc<Semaphore>>>,
}

impl Disk {
    /// Half of `threads` are for one device, so that one that does not answer leaves the others room.
    pub fn new(queue: usize, threads: usize, timeout: Duration) -> Disk {
        let threads = (threads / 2).max(1);
        Disk { queue: Places::new(queue), timeout, threads, devices: RefCell::default() }
    }

    /// Runs `work`, which waits for `device`, on a helper thread. Dropping the future does not stop work
    /// that has begun.
    pub async fn run<T: Send + 'static>(
        &self,
        device: Device,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let _place = self.queue.take().ok_or(Busy::Full)?;
        let threads = self.threads_of(device);
        let done = async {
            let thread = threads.acquire_owned().await.map_err(|_| Busy::Failed)?;
            // The thread is taken until the work ends, however long nobody has been waiting for it.
            let kept = move || (work(), drop(thread)).0;
            tokio::task::spawn_blocking(kept).await.map_err(|_| Busy::Failed)
        };
        tokio::time::timeout(self.timeout, done).await.unwrap_or(Err(Busy::Late))
    }

    fn threads_of(&self, device: Device) -> Arc<Semaphore> {
        let mut devices = self.devices.borrow_mut();
        if devices.len() >= DEVICES {
            devices.retain(|_, threads| threads.available_permits() < self.threads);
        }
        devices.entry(device).or_insert_with(|| Arc::new(Semaphore::new(self.threads))).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const DEAD: Device = (1, 0);
    const FINE: Device = (2, 0);

    #[test]
    fn a_device_that_does_not_answer_leaves_the_others_room() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(4)
            .build_local(Default::default())
            .unwrap();
        runtime.block_on(async {
            let disk = Disk::new(100, 4, Duration::from_millis(100));
            let mut answers = Vec::new();
            for _ in 0..10 {
                let (answer, wait) = channel::<()>();
                answers.push(answer);
                assert_eq!(disk.run(DEAD, move || wait.recv().is_ok()).await, Err(Busy::Late));
                assert_eq!(disk.run(FINE, || 7).await, Ok(7));
            }
            // It answers again: so do those who ask it.
            drop(answers);
            assert_eq!(disk.run(DEAD, || 8).await, Ok(8));
        });
    }

    #[test]
    fn as_many_wait_as_may_and_a_panic_is_told() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build_local(Default::default());
        runtime.unwrap().block_on(async {
            let none = Disk::new(0, 4, Duration::from_secs(1));
            assert_eq!(none.run(FINE, || 1).await, Err(Busy::Full));
            let disk = Disk::new(1, 4, Duration::from_secs(10));
            assert_eq!(disk.run(FINE, || panic!("on purpose")).await, Err::<(), _>(Busy::Failed));
            assert_eq!(disk.run(FINE, || 1).await, Ok(1), "its place is free again");
        });
    }
}
