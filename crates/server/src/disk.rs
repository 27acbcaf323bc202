//! Helper threads: a call that may wait for a disk runs there and never in a worker's loop.
//!
//! It runs closures, limits how many closures and requests wait, keeps threads free for other devices when one hangs,
//! and applies a timeout. Of files, it knows only what `resident` notes.

pub mod helpers;
pub mod resident;

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Stat, major, minor};
use site::model::Limits;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{self, Notify, OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::semaphore::{Permit, Semaphore};
use crate::tasks::spawn_local;
use helpers::Helpers;
use resident::Resident;

/// Why a closure gave no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// The queue is full.
    Full,
    /// The closure exceeded the timeout. It continues in its thread, and its result is dropped.
    Late,
    /// The worker is at capacity, and too many of its connections wait for disks.
    Shed,
    /// The closure panicked, or there is no thread, and the kernel has refused one.
    Failed,
}

/// A closure and its result without their types, so that the program has the code that runs them once, and not for each
/// closure.
type UntypedWork = Box<dyn FnOnce() -> Untyped + Send>;
type Untyped = Box<dyn Any + Send>;

fn untyped<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> UntypedWork {
    Box::new(move || Box::new(work()))
}

/// The result of an [`untyped`] closure, which returned a `T`.
fn typed<T: 'static>(result: Result<Untyped, Busy>) -> Result<T, Busy> {
    result?.downcast().map(|result| *result).map_err(|_| Busy::Failed)
}

/// The device of a file system: its major and minor number (stat(2)).
pub type Device = (u32, u32);

/// The device that a file is on.
pub fn device_of(file: &Stat) -> Device {
    (major(file.st_dev), minor(file.st_dev))
}

/// The kind of a closure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Waits only for its device.
    File,
    /// A listing shows the mount points in its folder, so it may wait for another device. Listings get half of the
    /// device's threads, so that files are still found and read.
    Listing,
}

/// The closures of a device.
#[derive(Debug, Clone)]
pub struct Queue {
    pub device: Device,
    pub running: u64,
    pub waiting: u64,
}

/// At capacity, a connection waits this long for a disk: less than new clients wait for capacity.
const SHED_AFTER: Duration = Duration::from_millis(750);

/// With more devices than this, those whose permits are all free are forgotten.
const DEVICES: usize = 64;

/// The queue of files to close.
pub type Closing = UnboundedReceiver<(Device, Arc<OwnedFd>)>;

/// One worker's access to its helper threads.
pub struct Disk {
    helpers: Helpers,
    queue: Semaphore,
    timeout: Duration,
    /// The limits of one device: threads, and closures that wait for them.
    threads: usize,
    waiting: usize,
    /// Requests that wait and whose response has not begun; several may wait for one closure. One device gets half of
    /// them.
    requests: Semaphore,
    requests_of_device: usize,
    /// Connections that wait; `shed` ends those that have waited for a while.
    connections: Semaphore,
    shed: Notify,
    /// Responses that are made while they are sent. One device gets half of them.
    streams: Semaphore,
    streams_of_device: usize,
    lanes: RefCell<HashMap<Device, Rc<Lane>>>,
    closing: UnboundedSender<(Device, Arc<OwnedFd>)>,
    /// Which bytes of files were found in memory.
    pub resident: Resident,
}

/// The threads of one device.
struct Lane {
    threads: Arc<sync::Semaphore>,
    listings: Arc<sync::Semaphore>,
    /// Closures that wait for a thread of this device, and those that a thread executes.
    places: Semaphore,
    waiting: Semaphore,
    requests: Semaphore,
    streams: Semaphore,
}

/// One of the permits of all devices, and one of those that a single device may have.
pub struct DevicePermit {
    _of_all: Permit,
    _of_device: Permit,
}

impl DevicePermit {
    fn take(all: &Semaphore, device: &Semaphore) -> Option<DevicePermit> {
        Some(DevicePermit { _of_device: device.take()?, _of_all: all.take()? })
    }
}

impl Lane {
    /// Whether a closure, a request or a response has a permit of it. `threads`: how many the device may have.
    fn is_in_use(&self, threads: usize) -> bool {
        self.threads.available_permits() < threads
            || [&self.places, &self.requests, &self.streams].iter().any(|permits| permits.taken() > 0)
    }
}

impl Disk {
    /// One device gets half of the threads and of the queue, so that a device that hangs does not block the others.
    /// Also returns the queue of files to close, for `close_files`.
    pub fn new(limits: &Limits, timeout: Duration) -> (Disk, Closing) {
        let (closing, files) = unbounded_channel();
        let disk = Disk {
            helpers: Helpers::new(limits.disk_threads),
            queue: Semaphore::new(limits.disk_queue),
            timeout,
            threads: (limits.disk_threads / 2).max(1),
            waiting: limits.disk_queue.div_ceil(2),
            requests: Semaphore::new(limits.waiting_for_disks()),
            connections: Semaphore::new(usize::MAX),
            shed: Notify::new(),
            requests_of_device: limits.waiting_for_disks().div_ceil(2),
            streams: Semaphore::new(limits.body_streams),
            streams_of_device: limits.body_streams.div_ceil(2),
            lanes: RefCell::default(),
            closing,
            resident: Resident::default(),
        };
        (disk, files)
    }

    /// A permit for a request that is about to wait for `device`, and whose response has not begun.
    pub fn admit(&self, device: Device) -> Result<DevicePermit, Busy> {
        DevicePermit::take(&self.requests, &self.lane(device).requests).ok_or(Busy::Full)
    }

    /// Waits for `done`, on which a connection depends. Errors: the connection has been shed.
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

    /// Called at capacity: if more than `limit` connections wait for disks, those that have waited for a while end.
    pub fn shed(&self, limit: usize) {
        if self.connections.taken() > limit {
            self.shed.notify_waiters();
        }
    }

    /// A permit for a response that is made from `device` while it is sent. `None`: all permits, or those of the
    /// device, are taken.
    pub fn admit_stream(&self, device: Device) -> Option<DevicePermit> {
        DevicePermit::take(&self.streams, &self.lane(device).streams)
    }

    /// The number of responses that are being made while they are sent.
    pub fn streams(&self) -> usize {
        self.streams.taken()
    }

    /// The number of closures that wait or run within their timeout.
    pub fn waiting(&self) -> usize {
        self.queue.taken()
    }

    /// Runs `work`, which waits for `device`, on a helper thread. Dropping the future removes `work` from the queue,
    /// but does not stop it once it runs.
    pub async fn run<T: Send + 'static>(
        &self,
        device: Device,
        what: Work,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        typed(self.run_untyped(device, what, untyped(work)).await)
    }

    async fn run_untyped(&self, device: Device, what: Work, work: UntypedWork) -> Result<Untyped, Busy> {
        let lane = self.lane(device);
        let _place = DevicePermit::take(&self.queue, &lane.places).ok_or(Busy::Full)?;
        let done = async {
            let waiting = lane.waiting.take();
            let listing = match what {
                Work::File => None,
                Work::Listing => Some(permit(&lane.listings).await?),
            };
            let thread = permit(&lane.threads).await?;
            drop(waiting);
            // The permit is held until the work ends, even after the timeout.
            let with_permit = move || (work(), drop((thread, listing))).0;
            let (sender, done) = oneshot::channel();
            let job = Box::new(move || _ = sender.send(with_permit()));
            self.helpers.run(job).map_err(|_| Busy::Failed)?;
            done.await.map_err(|_| Busy::Failed)
        };
        tokio::time::timeout(self.timeout, done).await.unwrap_or(Err(Busy::Late))
    }

    /// As `run`, for a request whose response has not begun: takes a permit, and may be shed.
    pub async fn run_for_request<T: Send + 'static>(
        &self,
        device: Device,
        what: Work,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        typed(self.run_untyped_for_request(device, what, untyped(work)).await)
    }

    async fn run_untyped_for_request(
        &self,
        device: Device,
        what: Work,
        work: UntypedWork,
    ) -> Result<Untyped, Busy> {
        let _admitted = self.admit(device)?;
        self.wait(self.run_untyped(device, what, work)).await.and_then(|result| result)
    }

    /// Closes a file on a helper thread. The queue is not bounded, because opening files is.
    pub fn close(&self, device: Device, file: Arc<OwnedFd>) {
        // Fails when the worker ends, which closes the file, too.
        _ = self.closing.send((device, file));
    }

    /// Closes queued files for as long as the worker lives.
    pub async fn close_files(self: Rc<Disk>, mut files: Closing) -> io::Result<()> {
        while let Some((device, file)) = files.recv().await {
            let (disk, lane) = (self.clone(), self.lane(device));
            spawn_local(async move {
                if let Ok(thread) = permit(&lane.threads).await {
                    // Without a thread, it is closed here.
                    _ = disk.helpers.run(Box::new(move || drop((file, thread))));
                }
            });
        }
        Ok(())
    }

    /// The closures of each device.
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
            lanes.retain(|_, lane| lane.is_in_use(self.threads));
        }
        let new = || Lane {
            threads: Arc::new(sync::Semaphore::new(self.threads)),
            listings: Arc::new(sync::Semaphore::new((self.threads / 2).max(1))),
            places: Semaphore::new(self.waiting),
            waiting: Semaphore::new(usize::MAX),
            requests: Semaphore::new(self.requests_of_device),
            streams: Semaphore::new(self.streams_of_device),
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
    fn admits_half_of_the_requests_for_one_device_and_releases_permits() {
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
    fn limits_the_streams_of_a_device_also_when_there_are_many_devices() {
        let (disk, _) = disk(4, 1);
        let streams: Vec<_> = (0..2).map(|_| disk.admit_stream(DEAD)).collect();
        assert!(streams.iter().all(Option::is_some));
        for minor in 0..2 * DEVICES as u32 {
            assert!(disk.admit((3, minor)).is_ok());
        }
        assert!(disk.admit_stream(DEAD).is_none());
        assert!(disk.lanes.borrow().len() <= DEVICES);
        drop(streams);
        assert!(disk.admit_stream(DEAD).is_some());
    }

    #[test]
    fn serves_other_devices_while_one_hangs() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
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
            // The device responds again.
            drop(answers);
            assert_eq!(disk.run(DEAD, Work::File, || 8).await, Ok(8));
        });
    }

    #[test]
    fn rejects_work_when_the_queue_is_full_and_reports_a_panic() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build_local(Default::default());
        runtime.unwrap().block_on(async {
            let (none, _) = disk(0, 1);
            assert_eq!(none.run(FINE, Work::File, || 1).await, Err(Busy::Full));
            let (disk, _) = disk(1, 10);
            assert_eq!(disk.run(FINE, Work::File, || panic!("on purpose")).await, Err::<(), _>(Busy::Failed));
            assert_eq!(disk.run(FINE, Work::File, || 1).await, Ok(1), "its permit is released");
        });
    }

    #[test]
    fn limits_one_device_to_half_of_the_queue() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build_local(Default::default());
        runtime.unwrap().block_on(async {
            let (disk, _) = disk(4, 10);
            let (answer, wait) = channel::<()>();
            let (other_answer, other_wait) = channel::<()>();
            let first = disk.run(DEAD, Work::File, move || wait.recv().is_ok());
            let second = disk.run(DEAD, Work::File, move || other_wait.recv().is_err());
            let others = async {
                assert_eq!(disk.run(DEAD, Work::File, || true).await, Err(Busy::Full));
                assert_eq!(disk.run(FINE, Work::File, || 7).await, Ok(7));
                drop((answer, other_answer));
            };
            assert_eq!(tokio::join!(first, second, others), (Ok(false), Ok(true), ()));
        });
    }
}
