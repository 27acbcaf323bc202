//! The helper threads: whatever may wait for a disk is done there, never in a worker's loop.
//!
//! Knows nothing of files: it runs closures, bounds how many of them and how many requests wait, keeps threads
//! free for other devices when one does not answer, and gives up on what takes too long.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use site::model::Limits;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{self, Notify, OwnedSemaphorePermit};
use tokio::time::Instant;

use crate::semaphore::{Permit, Semaphore};
use crate::sys::calls;

/// Why a closure gave no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// As many wait already as may.
    Full,
    /// It took longer than it may; it goes on in its thread, and its result is dropped.
    Late,
    /// There is no room for new connections, and too many of those that there are wait for disks.
    Shed,
    /// It panicked, or there is no thread for it.
    Failed,
}

/// What a file system is on: major and minor number, as `stat(2)` has them.
pub type Device = (u32, u32);

/// What the threads are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Waits for its device alone.
    File,
    /// A listing shows what is mounted in its folder, and so may wait for another device after all. It
    /// has half of the device's threads, so that files are still found and read.
    Listing,
}

/// What is going on on a device.
#[derive(Debug, Clone)]
pub struct Queue {
    pub device: Device,
    pub running: u64,
    pub waiting: u64,
}

/// Where there is no room, this long is a disk waited for: less than new clients wait for room.
const SHED_AFTER: Duration = Duration::from_millis(750);

/// Devices that are remembered; those where nothing is going on are forgotten then.
const DEVICES: usize = 64;

/// Files that are to be closed.
pub type Closing = UnboundedReceiver<(Device, Arc<OwnedFd>)>;

/// One worker's way to the helper threads, which are those of its runtime.
pub struct Disk {
    queue: Semaphore,
    timeout: Duration,
    /// Threads that one device may keep, and how many may wait for them.
    threads: usize,
    waiting: usize,
    /// Requests that wait before their answers have begun, also those that wait for one closure together;
    /// half of them for one device.
    requests: Semaphore,
    requests_of_device: usize,
    /// Connections that wait; those that have waited for a while may be told to end.
    connections: Semaphore,
    shed: Notify,
    /// Answers that are made while they are sent; half of them for one device.
    streams: Semaphore,
    half: usize,
    lanes: RefCell<HashMap<Device, Rc<Lane>>>,
    closing: UnboundedSender<(Device, Arc<OwnedFd>)>,
}

/// The threads of one device.
struct Lane {
    threads: Arc<sync::Semaphore>,
    listings: Arc<sync::Semaphore>,
    /// Of the queue, also those whom a thread is working for.
    places: Semaphore,
    waiting: Semaphore,
    requests: Semaphore,
    streams: Semaphore,
}

/// The place of a request that waits for a device before its answer has begun; given back when dropped.
pub struct Admitted {
    _of_all: Permit,
    _of_device: Permit,
}

/// The place of an answer that is made while it is sent; given back when dropped.
pub struct Stream {
    _of_all: Permit,
    _of_device: Permit,
}

impl Disk {
    /// Half of the threads, and of those who may wait, are for one device, so that one that does not answer
    /// leaves the others room.
    /// Also what is to be closed: for `close_files`.
    pub fn new(limits: &Limits, timeout: Duration) -> (Disk, Closing) {
        let (closing, files) = unbounded_channel();
        let disk = Disk {
            queue: Semaphore::new(limits.disk_queue),
            timeout,
            threads: (limits.disk_threads / 2).max(1),
            waiting: limits.disk_queue.div_ceil(2),
            requests: Semaphore::new(limits.waiting_for_disks()),
            connections: Semaphore::new(usize::MAX),
            shed: Notify::new(),
            requests_of_device: limits.waiting_for_disks().div_ceil(2),
            streams: Semaphore::new(limits.body_streams),
            half: limits.body_streams.div_ceil(2),
            lanes: RefCell::default(),
            closing,
        };
        (disk, files)
    }

    /// A place for a request that is going to wait for `device`, and whose answer has not begun.
    pub fn admit(&self, device: Device) -> Result<Admitted, Busy> {
        let of_device = self.lane(device).requests.take().ok_or(Busy::Full)?;
        Ok(Admitted { _of_all: self.requests.take().ok_or(Busy::Full)?, _of_device: of_device })
    }

    /// Waits for `done`, which keeps a connection. Errors: it has been shed.
    pub async fn wait<T>(&self, done: impl Future<Output = T>) -> Result<T, Busy> {
        let (since, _connection) = (Instant::now(), self.connections.take());
        let shed = async {
            loop {
                self.shed.notified().await;
                if since.elapsed() >= SHED_AFTER {
                    break;
                }
            }
        };
        tokio::select! {
            biased;
            done = done => Ok(done),
            () = shed => Err(Busy::Shed),
        }
    }

    /// There is no room for new connections: where more than `most` wait here, those that have waited for a
    /// while are over.
    pub fn shed(&self, most: usize) {
        if self.connections.taken() > most {
            self.shed.notify_waiters();
        }
    }

    /// A place for an answer that is made of what is on `device` while it is sent. `None`: all are taken, or
    /// all that one device may have.
    pub fn stream(&self, device: Device) -> Option<Stream> {
        let of_device = self.lane(device).streams.take()?;
        Some(Stream { _of_all: self.streams.take()?, _of_device: of_device })
    }

    /// Answers that are being made while they are sent.
    pub fn streams(&self) -> usize {
        self.streams.taken()
    }

    /// How many wait, or have not been given up on.
    pub fn waiting(&self) -> usize {
        self.queue.taken()
    }

    /// Runs `work`, which waits for `device`, on a helper thread. Dropping the future takes `work` out of
    /// the queue, but does not stop it when it has begun.
    pub async fn run<T: Send + 'static>(
        &self,
        device: Device,
        what: Work,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let lane = self.lane(device);
        let _places = (lane.places.take().ok_or(Busy::Full)?, self.queue.take().ok_or(Busy::Full)?);
        let done = async {
            let waiting = lane.waiting.take();
            let listing = match what {
                Work::File => None,
                Work::Listing => Some(permit(&lane.listings).await?),
            };
            let thread = permit(&lane.threads).await?;
            drop(waiting);
            // The thread is taken until the work ends, however long nobody has been waiting for it.
            let kept = move || (work(), drop((thread, listing))).0;
            // It panics where there is no helper thread, and the system has none to give.
            let helper = catch_unwind(AssertUnwindSafe(|| calls::spawn_blocking(kept)));
            helper.map_err(|_| Busy::Failed)?.await.map_err(|_| Busy::Failed)
        };
        tokio::time::timeout(self.timeout, done).await.unwrap_or(Err(Busy::Late))
    }

    /// Has a file closed on a helper thread, however long that takes. Not bounded: whoever has opened it
    /// was.
    pub fn close(&self, device: Device, file: Arc<OwnedFd>) {
        // Fails when the worker ends, and then nobody waits for it.
        _ = self.closing.send((device, file));
    }

    /// Closes what is to be closed, for as long as the worker lives.
    pub async fn close_files(self: Rc<Disk>, mut files: Closing) -> io::Result<()> {
        while let Some((device, file)) = files.recv().await {
            let lane = self.lane(device);
            tokio::task::spawn_local(async move {
                if let Ok(thread) = permit(&lane.threads).await {
                    tokio::task::spawn_blocking(move || drop((file, thread)));
                }
            });
        }
        Ok(())
    }

    /// What is going on, device by device.
    pub fn queues(&self) -> Vec<Queue> {
        let lanes = self.lanes.borrow();
        let queue = |(&device, lane): (&Device, &Rc<Lane>)| Queue {
            device,
            running: (self.threads - lane.threads.available_permits()) as u64,
            waiting: lane.waiting.taken() as u64,
        };
        lanes.iter().map(queue).filter(|q| q.running + q.waiting > 0).collect()
    }

    fn lane(&self, device: Device) -> Rc<Lane> {
        let mut lanes = self.lanes.borrow_mut();
        if lanes.len() >= DEVICES {
            lanes.retain(|_, lane| {
                let is_running = lane.threads.available_permits() < self.threads;
                is_running || lane.places.taken() > 0 || lane.requests.taken() > 0
            });
        }
        let new = || Lane {
            threads: Arc::new(sync::Semaphore::new(self.threads)),
            listings: Arc::new(sync::Semaphore::new((self.threads / 2).max(1))),
            places: Semaphore::new(self.waiting),
            waiting: Semaphore::new(usize::MAX),
            requests: Semaphore::new(self.requests_of_device),
            streams: Semaphore::new(self.half),
        };
        lanes.entry(device).or_insert_with(|| Rc::new(new())).clone()
    }
}

async fn permit(of: &Arc<sync::Semaphore>) -> Result<OwnedSemaphorePermit, Busy> {
    of.clone().acquire_owned().await.map_err(|_| Busy::Failed)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const DEAD: Device = (1, 0);
    const FINE: Device = (2, 0);

    fn disk(disk_queue: usize, timeout: u64) -> (Disk, Closing) {
        let limits = Limits { disk_queue, disk_threads: 4, body_streams: 4, ..Limits::default() };
        Disk::new(&limits, Duration::from_secs(timeout))
    }

    #[test]
    fn admits_half_of_the_requests_for_one_device_and_gives_places_back() {
        let (disk, _) = disk(4, 1);
        let waiting: Vec<_> = (0..2).map(|_| disk.admit(DEAD)).collect();
        assert!(waiting.iter().all(Result::is_ok));
        assert!(matches!(disk.admit(DEAD), Err(Busy::Full)));
        let others: Vec<_> = (0..2).map(|_| disk.admit(FINE)).collect();
        assert!(others.iter().all(Result::is_ok));
        drop((waiting, others));
        assert!(disk.admit(DEAD).is_ok());
        assert_eq!(disk.requests.taken(), 0);
    }

    #[test]
    fn a_device_that_does_not_answer_leaves_the_others_room() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(4)
            .build_local(Default::default())
            .unwrap();
        runtime.block_on(async {
            let (disk, _) = disk(100, 1);
            let mut answers = Vec::new();
            for _ in 0..6 {
                let (answer, wait) = channel::<()>();
                answers.push(answer);
                assert_eq!(disk.run(DEAD, Work::File, move || wait.recv().is_ok()).await, Err(Busy::Late));
                assert_eq!(disk.run(FINE, Work::File, || 7).await, Ok(7));
            }
            // It answers again: so do those who ask it.
            drop(answers);
            assert_eq!(disk.run(DEAD, Work::File, || 8).await, Ok(8));
        });
    }

    #[test]
    fn as_many_wait_as_may_and_a_panic_is_told() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build_local(Default::default());
        runtime.unwrap().block_on(async {
            let (none, _) = disk(0, 1);
            assert_eq!(none.run(FINE, Work::File, || 1).await, Err(Busy::Full));
            let (disk, _) = disk(1, 10);
            assert_eq!(disk.run(FINE, Work::File, || panic!("on purpose")).await, Err::<(), _>(Busy::Failed));
            assert_eq!(disk.run(FINE, Work::File, || 1).await, Ok(1), "its place is free again");
        });
    }

    #[test]
    fn one_device_has_half_of_the_queue() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build_local(Default::default());
        runtime.unwrap().block_on(async {
            let (disk, _) = disk(4, 10);
            let (answer, wait) = channel::<()>();
            let first = disk.run(DEAD, Work::File, move || wait.recv().is_ok());
            let second = disk.run(DEAD, Work::File, || true);
            let others = async {
                assert_eq!(disk.run(DEAD, Work::File, || true).await, Err(Busy::Full));
                assert_eq!(disk.run(FINE, Work::File, || 7).await, Ok(7));
                drop(answer);
            };
            assert_eq!(tokio::join!(first, second, others), (Ok(false), Ok(true), ()));
        });
    }
}
