//! Files without names for what waits in them. All workers of the process count their bytes together, because they
//! share one disk.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::fstat;
use rustix::io::Errno;
use tokio::time::timeout;

use crate::disk::{Busy, Device, Disk, Work, device_of};
use crate::files::beneath::Wait;
use crate::files::open::{self, LARGE, is_on_disk};
use crate::log;
use crate::process::privilege;
use crate::services::Services;
use crate::spawner::Spawner;
use crate::sys::{is_disk_full, write_all_at};

pub struct SpoolFile {
    fd: Arc<OwnedFd>,
    device: Device,
    space: SpoolSpace,
    disk: Rc<Disk>,
}

/// Why bytes are not in a file.
#[derive(Debug)]
pub enum SpoolError {
    Busy(Busy),
    /// The file would be larger than all files may be together.
    TooLarge,
    /// Other files have the space, which is so many bytes.
    NoSpace(u64),
    /// There is no file.
    NotOpened(io::Error),
    /// A part of them may have been written.
    NotWritten(Errno),
}

/// Bytes of the process's files, given back when dropped.
#[derive(Debug)]
struct SpoolSpace {
    bytes: Cell<u64>,
    taken: &'static AtomicU64,
}

/// Bytes of all files of the process.
static TAKEN: AtomicU64 = AtomicU64::new(0);

impl SpoolFile {
    /// An empty file.
    pub async fn open(services: &Services, spawner: &Spawner) -> Result<SpoolFile, SpoolError> {
        let opened = timeout(services.site.timeouts.disk, spawner.open_spool()).await;
        let fd = opened.map_err(|_| SpoolError::Busy(Busy::Late))?.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => SpoolError::Busy(Busy::Full),
            _ => SpoolError::NotOpened(error),
        })?;
        let device = fstat(&fd).map_or((0, 0), |stat| device_of(&stat));
        let space = SpoolSpace { bytes: Cell::new(0), taken: &TAKEN };
        Ok(SpoolFile { fd: Arc::new(fd), device, space, disk: services.disk.clone() })
    }

    /// Its bytes, with those that are reserved for it.
    pub fn length(&self) -> u64 {
        self.space.bytes.get()
    }

    /// Reserves space for a file of so many bytes, within `most` of all files together.
    pub fn reserve(&self, bytes: u64, most: u64) -> Result<(), SpoolError> {
        self.space.grow_to(bytes, 0, most)
    }

    /// As `reserve`, for a file that may grow without end: as much of `most` has to be left for others.
    pub fn reserve_and_leave(&self, bytes: u64, most: u64) -> Result<(), SpoolError> {
        self.space.grow_to(bytes, bytes, most)
    }

    /// Writes into space that is reserved, on a helper thread. After an error of the disk, the thread may still be writing.
    pub async fn write(&self, bytes: Arc<Vec<u8>>, at: u64) -> Result<(), SpoolError> {
        let fd = self.fd.clone();
        let written = self.disk.run(self.device, Work::File, move || write_all_at(&fd, &bytes, at)).await;
        written.map_err(SpoolError::Busy)?.map_err(SpoolError::NotWritten)
    }

    /// Reads at most so many bytes: at once those that the kernel has in memory, as it most likely does, or else on a
    /// helper thread. `None`: they cannot be read.
    pub fn read(&self, at: u64, length: usize) -> impl Future<Output = Option<Vec<u8>>> + use<> {
        let (fd, disk) = (self.fd.clone(), self.disk.clone());
        async move {
            let mut bytes = vec![0; length];
            let cached = open::read_cached(&fd, at, &mut bytes);
            if let Some(cached) = cached.filter(|cached| *cached > 0) {
                bytes.truncate(cached);
                return Some(bytes);
            }
            let read = move || open::read(&fd, at, length, Wait::Allowed);
            // Not of the device, whose threads may all be writing: some file systems do not say what is in memory.
            disk.run((0, 0), Work::File, read).await.ok()?.ok()?
        }
    }

    /// For a process that reads it from its start.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        // The kernel frees its space meanwhile.
        if !is_on_disk(self.device) || self.length() >= LARGE {
            self.disk.close(self.device, self.fd.clone());
        }
    }
}

impl SpoolSpace {
    /// Takes more, of `most` for all files, of which so many bytes have to be `left`.
    fn grow_to(&self, bytes: u64, left: u64, most: u64) -> Result<(), SpoolError> {
        if bytes.saturating_add(left) > most {
            return Err(SpoolError::TooLarge);
        }
        let more = bytes.saturating_sub(self.bytes.get());
        if more == 0 {
            return Ok(());
        }
        let fits = |taken: u64| taken.checked_add(more).filter(|taken| *taken <= most - left);
        let taken = self.taken.try_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.map_err(|_| SpoolError::NoSpace(most))?;
        self.bytes.update(|own| own + more);
        Ok(())
    }
}

impl Drop for SpoolSpace {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes.get(), Ordering::Relaxed);
    }
}

/// Logs why `what` is not in a file, unless it is too large for one.
pub fn report(services: &Services, what: &str, error: &SpoolError) {
    let folder = privilege::shown(&services.site.scripts.spool);
    match error {
        SpoolError::Busy(busy) => _ = services.report_busy(format_args!("{what} in {folder}"), *busy),
        SpoolError::TooLarge => {}
        SpoolError::NoSpace(most) => services.report_spool(format_args!(
            "no space in {folder} for {what}: others use too much of the {most} bytes of all; raise `spool_bytes` in [scripts]"
        )),
        SpoolError::NotOpened(error) => {
            services.report_spool(format_args!("cannot make a file in {folder} for {what}: {error}"));
        }
        SpoolError::NotWritten(errno) => {
            let advice = match *errno {
                errno if is_disk_full(errno) => {
                    "; free space there, or set `spool` in [scripts] to a folder with more"
                }
                Errno::FBIG => "; raise the limit of the size of files, `ulimit -f` (LimitFSIZE)",
                _ => "",
            };
            services.report_spool(format_args!("cannot write {what} in {folder}: {errno}{advice}"));
        }
    }
}

pub fn report_unreadable(services: &Services, what: &str) {
    log::error(format_args!("cannot read {what} in {}", privilege::shown(&services.site.scripts.spool)));
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::time::Duration;

    use site::model::Limits;

    use super::*;

    #[test]
    fn what_the_kernel_has_in_memory_is_read_although_too_much_waits_for_the_disk() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let runtime = tokio::runtime::Builder::new_current_thread().build_local(Default::default());
        runtime.unwrap().block_on(async {
            let path = std::env::temp_dir().join(format!("taipan-spool-{}", std::process::id()));
            let mut written = File::create_new(&path).unwrap();
            written.write_all(b"0123456789").unwrap();
            let fd = Arc::new(File::open(&path).unwrap().into());
            std::fs::remove_file(&path).unwrap();
            let limits = Limits { disk_queue: 0, ..Limits::default() };
            let (disk, _closing) = Disk::new(&limits, Duration::from_secs(1));
            let space = SpoolSpace { bytes: Cell::new(10), taken: &OWN };
            OWN.store(10, Ordering::Relaxed);
            let file = SpoolFile { fd, device: (8, 0), space, disk: Rc::new(disk) };
            assert_eq!(file.read(0, 10).await, Some(b"0123456789".to_vec()));
            assert_eq!(file.read(4, 3).await, Some(b"456".to_vec()));
        });
    }

    #[test]
    fn bounds_the_bytes_of_all_files_together() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let none = || SpoolSpace { bytes: Cell::new(0), taken: &OWN };
        let grow = |space: &SpoolSpace, bytes, most| word(space.grow_to(bytes, 0, most));
        let (one, other) = (none(), none());
        assert_eq!(grow(&one, 6, 10), "fits");
        assert_eq!(grow(&other, 4, 10), "fits");
        assert_eq!(grow(&other, 5, 10), "others have it");
        assert_eq!(grow(&other, 11, 10), "too large");
        assert_eq!(grow(&one, u64::MAX, 10), "too large");
        // What it has already is enough, although others may have less now.
        assert_eq!(grow(&one, 2, 5), "fits");
        assert_eq!(one.bytes.get(), 6);
        drop(one);
        assert_eq!(grow(&other, 10, 10), "fits");
        drop(other);
        assert_eq!(grow(&none(), u64::MAX, u64::MAX), "fits");
        assert_eq!(OWN.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_file_that_may_grow_without_end_leaves_as_much_to_others() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let none = || SpoolSpace { bytes: Cell::new(0), taken: &OWN };
        let grow = |space: &SpoolSpace, bytes| word(space.grow_to(bytes, bytes, 16));
        let (one, other, third) = (none(), none(), none());
        assert_eq!(grow(&one, 4), "fits");
        assert_eq!(grow(&one, 8), "fits");
        assert_eq!(grow(&one, 9), "too large");
        assert_eq!(grow(&other, 4), "fits");
        assert_eq!(grow(&other, 5), "others have it");
        assert_eq!(grow(&other, u64::MAX), "too large");
        assert_eq!(word(third.grow_to(4, 0, 16)), "fits", "the rest is for a file whose length is known");
        drop(one);
        assert_eq!(grow(&other, 6), "fits");
        assert_eq!(grow(&other, 7), "others have it");
    }

    fn word(grown: Result<(), SpoolError>) -> &'static str {
        match grown {
            Ok(()) => "fits",
            Err(SpoolError::NoSpace(_)) => "others have it",
            Err(SpoolError::TooLarge) => "too large",
            Err(error) => panic!("{error:?}"),
        }
    }
}
