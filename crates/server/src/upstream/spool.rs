//! The body of a request that is spooled, because its length is not known before its end: a file without a name. All
//! workers of the process count their bytes together, because they share one disk.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::Errno;
use taipan_http::status::Status;
use tokio::time::timeout;

use super::Outcome;
use crate::buffer::append;
use crate::disk::{Busy, Work, device_of};
use crate::log;
use crate::process::privilege;
use crate::request::body::{BodyError, Length, ReadBody, RequestBody};
use crate::services::Services;
use crate::spawner::Spawner;
use crate::stats::Count;
use crate::sys::is_disk_full;

/// Bytes that are written at once. One more read brings a buffer to the size that a response may have at most, for
/// which there is no need yet.
const WRITE_SIZE: usize = 32 * 1024;
/// Bytes that are read at once.
const READ_SIZE: usize = site::memory::SCRIPT as usize;

/// A body that has been received to its end.
pub struct SpooledBody {
    pub file: File,
    pub length: u64,
    pub space: SpoolSpace,
}

/// Bytes of the process's spool files, given back when dropped.
#[derive(Debug)]
pub struct SpoolSpace {
    bytes: u64,
    taken: &'static AtomicU64,
}

/// Why a body has no space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoSpace {
    /// It is larger than all files may be together.
    TooLarge,
    /// Other bodies have it.
    Taken,
}

/// Bytes of all files of the process.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Receives a body of at most `limit` bytes. Errors: the status of the response, which the error log explains, or the
/// body is malformed.
pub async fn receive(
    services: &Services,
    spawner: &Spawner,
    body: &RequestBody,
    limit: u64,
) -> Result<SpooledBody, Outcome> {
    let folder = privilege::shown(&services.site.scripts.spool);
    let mut file = open(services, spawner).await?;
    let (mut space, spool_bytes) = (SpoolSpace::none(), services.site.scripts.spool_bytes);
    let mut is_whole = false;
    while !is_whole {
        let mut bytes = Vec::new();
        while bytes.len() < WRITE_SIZE && !is_whole {
            match body.read(limit).await? {
                Some(more) => append(&mut bytes, &more),
                None => is_whole = true,
            }
        }
        match space.grow(bytes.len() as u64, spool_bytes) {
            Ok(()) => {}
            Err(NoSpace::TooLarge) => return Err(Status::CONTENT_TOO_LARGE.into()),
            Err(NoSpace::Taken) => {
                services.report_spool(format_args!(
                    "no space in {folder} for the body of a request: other bodies use the {spool_bytes} bytes of all; raise \
                     `spool_bytes` in [scripts], or lower `max_body`"
                ));
                services.counts.add(Count::ScriptsRejected, 1);
                return Err(Status::SERVICE_UNAVAILABLE.into());
            }
        }
        file = write(services, file, bytes).await?;
    }
    Ok(SpooledBody { file: file.into(), length: space.bytes, space })
}

/// Errors: the status of the response, which the error log explains.
async fn open(services: &Services, spawner: &Spawner) -> Result<OwnedFd, Status> {
    match timeout(services.site.timeouts.disk, spawner.open_spool()).await {
        Ok(Ok(file)) => Ok(file),
        Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => Err(report_busy(services, Busy::Full)),
        Ok(Err(error)) => {
            let folder = privilege::shown(&services.site.scripts.spool);
            services.report_spool(format_args!(
                "cannot make a file in {folder} for the body of a request: {error}"
            ));
            services.counts.add(Count::ScriptsRejected, 1);
            Err(Status::SERVICE_UNAVAILABLE)
        }
        Err(_) => Err(report_busy(services, Busy::Late)),
    }
}

fn report_busy(services: &Services, busy: Busy) -> Status {
    let folder = privilege::shown(&services.site.scripts.spool);
    services.report_busy(format_args!("the body of a request in {folder}"), busy)
}

/// Writes on a helper thread, and returns to the start of the file, from which a script reads.
async fn write(services: &Services, file: OwnedFd, bytes: Vec<u8>) -> Result<OwnedFd, Status> {
    let device = fstat(&file).map_or((0, 0), |stat| device_of(&stat));
    let write = move || {
        seek(&file, SeekFrom::End(0))?;
        let mut left = &bytes[..];
        while !left.is_empty() {
            let n = rustix::io::retry_on_intr(|| rustix::io::write(&file, left))?;
            left = &left[n..];
        }
        seek(&file, SeekFrom::Start(0))?;
        rustix::io::Result::Ok(file)
    };
    let written = services.disk.run(device, Work::File, write).await;
    written.map_err(|busy| report_busy(services, busy))?.map_err(|errno| {
        let folder = privilege::shown(&services.site.scripts.spool);
        let is_full = is_disk_full(errno);
        let advice = match errno {
            _ if is_full => "; free space there, or set `spool` to a folder with more",
            Errno::FBIG => {
                "; raise the limit of the size of files, `ulimit -f` (LimitFSIZE), or lower `max_body` to it"
            }
            _ => "",
        };
        services
            .report_spool(format_args!("cannot write the body of a request in {folder}: {errno}{advice}"));
        if !is_full {
            return Status::INTERNAL_SERVER_ERROR;
        }
        services.counts.add(Count::ScriptsRejected, 1);
        Status::SERVICE_UNAVAILABLE
    })
}

/// Reads a spooled body from its start.
pub struct SpoolReader {
    services: Rc<Services>,
    body: Rc<SpooledBody>,
    at: Cell<u64>,
    read: RefCell<Option<Read>>,
}

/// On a helper thread.
type Read = Pin<Box<dyn Future<Output = Option<Vec<u8>>>>>;

impl SpoolReader {
    pub fn open(services: &Rc<Services>, body: &Rc<SpooledBody>) -> RequestBody {
        let (services, body) = (services.clone(), body.clone());
        RequestBody::Stream(Rc::new(SpoolReader {
            services,
            body,
            at: Cell::new(0),
            read: RefCell::default(),
        }))
    }

    fn read(&self) -> Read {
        let (services, at) = (self.services.clone(), self.at.get());
        let left = usize::try_from(self.body.length - at).unwrap_or(READ_SIZE);
        let file = self.body.file.try_clone();
        Box::pin(async move {
            let mut bytes = vec![0; left.min(READ_SIZE)];
            let read = move || file.and_then(|file| file.read_exact_at(&mut bytes, at)).map(|()| bytes);
            // The page cache most likely has it: this process has written it.
            services.disk.run((0, 0), Work::File, read).await.ok()?.ok()
        })
    }
}

impl ReadBody for SpoolReader {
    fn length(&self) -> Length {
        Length::Sized(self.body.length)
    }

    fn bytes_read(&self) -> u64 {
        self.at.get()
    }

    fn awaits_continue(&self) -> bool {
        false
    }

    fn poll_read(&self, cx: &mut Context<'_>, _: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
        if self.at.get() == self.body.length {
            return Poll::Ready(Ok(None));
        }
        let mut read = self.read.borrow_mut();
        let bytes = ready!(read.get_or_insert_with(|| self.read()).as_mut().poll(cx));
        *read = None;
        let Some(bytes) = bytes else {
            log::error(format_args!(
                "cannot read the body of a request in {}",
                privilege::shown(&self.services.site.scripts.spool)
            ));
            return Poll::Ready(Err(BodyError::Broken));
        };
        self.at.set(self.at.get() + bytes.len() as u64);
        Poll::Ready(Ok(Some(bytes)))
    }
}

impl SpoolSpace {
    /// Of an empty file.
    fn none() -> SpoolSpace {
        SpoolSpace { bytes: 0, taken: &TAKEN }
    }

    /// Takes more, of `limit` for all files.
    fn grow(&mut self, bytes: u64, limit: u64) -> Result<(), NoSpace> {
        if self.bytes.saturating_add(bytes) > limit {
            return Err(NoSpace::TooLarge);
        }
        let fits = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= limit);
        self.taken.try_update(Ordering::Relaxed, Ordering::Relaxed, fits).map_err(|_| NoSpace::Taken)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for SpoolSpace {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_the_bytes_of_all_files_together() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let none = || SpoolSpace { bytes: 0, taken: &OWN };
        let (mut one, mut other) = (none(), none());
        assert_eq!(one.grow(6, 10), Ok(()));
        assert_eq!(other.grow(4, 10), Ok(()));
        assert_eq!(other.grow(1, 10), Err(NoSpace::Taken));
        assert_eq!(other.grow(7, 10), Err(NoSpace::TooLarge));
        assert_eq!(one.grow(u64::MAX, 10), Err(NoSpace::TooLarge));
        drop(one);
        assert_eq!(other.grow(6, 10), Ok(()));
        drop(other);
        assert_eq!(none().grow(u64::MAX, u64::MAX), Ok(()));
        assert_eq!(OWN.load(Ordering::Relaxed), 0);
    }
}
