//! The body of a request that is received to its end before its upstream gets it, because its length is not known
//! before.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use taipan_http::status::Status;

use super::Outcome;
use super::spool::{self, SpoolError, SpoolFile};
use crate::buffer::append;
use crate::request::body::{BodyError, Length, ReadBody, RequestBody};
use crate::services::Services;
use crate::spawner::Spawner;
use crate::stats::Count;
use crate::sys::is_disk_full;

/// Bytes that are written at once. One more read brings a buffer to the size that a response may have at most, for
/// which there is no need yet.
const WRITE_SIZE: usize = 32 * 1024;
/// What waits in a file, for the error log.
const A_BODY: &str = "the body of a request";
/// Bytes that are read at once.
const READ_SIZE: usize = site::memory::SCRIPT as usize;

/// Receives a body of at most `limit` bytes. Errors: the status of the response, which the error log explains, or the
/// body is malformed.
pub async fn receive(
    services: &Services,
    spawner: &Spawner,
    body: &RequestBody,
    limit: u64,
) -> Result<SpoolFile, Outcome> {
    let failed = |error| Outcome::Failed(on_error(services, &error));
    let file = SpoolFile::open(services, spawner).await.map_err(failed)?;
    let mut is_whole = false;
    while !is_whole {
        let mut bytes = Vec::new();
        while bytes.len() < WRITE_SIZE && !is_whole {
            match body.read(limit).await? {
                Some(more) => append(&mut bytes, &more),
                None => is_whole = true,
            }
        }
        let (at, most) = (file.length(), services.site.scripts.spool_bytes);
        file.reserve(at.saturating_add(bytes.len() as u64), most).map_err(failed)?;
        file.write(Arc::new(bytes), at).await.map_err(failed)?;
    }
    Ok(file)
}

/// Reports why a body is not stored, and gives the status of the response.
fn on_error(services: &Services, error: &SpoolError) -> Status {
    spool::report(services, A_BODY, error);
    match error {
        SpoolError::Busy(_) => return Status::SERVICE_UNAVAILABLE,
        SpoolError::TooLarge => return Status::CONTENT_TOO_LARGE,
        SpoolError::NotWritten(errno) if !is_disk_full(*errno) => return Status::INTERNAL_SERVER_ERROR,
        SpoolError::NoSpace(_) | SpoolError::NotOpened(_) | SpoolError::NotWritten(_) => {}
    }
    services.counts.add(Count::ScriptsRejected, 1);
    Status::SERVICE_UNAVAILABLE
}

/// Reads a body from its start.
pub struct SpoolReader {
    services: Rc<Services>,
    file: Rc<SpoolFile>,
    at: Cell<u64>,
    read: RefCell<Option<Read>>,
}

/// On a helper thread.
type Read = Pin<Box<dyn Future<Output = Option<Vec<u8>>>>>;

impl SpoolReader {
    pub fn open(services: &Rc<Services>, file: &Rc<SpoolFile>) -> RequestBody {
        let (services, file) = (services.clone(), file.clone());
        let (at, read) = (Cell::new(0), RefCell::default());
        RequestBody::Stream(Rc::new(SpoolReader { services, file, at, read }))
    }

    fn read(&self) -> Read {
        let left = usize::try_from(self.file.length() - self.at.get()).unwrap_or(READ_SIZE);
        Box::pin(self.file.read(self.at.get(), left.min(READ_SIZE)))
    }
}

impl ReadBody for SpoolReader {
    fn length(&self) -> Length {
        Length::Sized(self.file.length())
    }

    fn bytes_read(&self) -> u64 {
        self.at.get()
    }

    fn awaits_continue(&self) -> bool {
        false
    }

    fn poll_read(&self, cx: &mut Context<'_>, _: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
        if self.at.get() == self.file.length() {
            return Poll::Ready(Ok(None));
        }
        let mut read = self.read.borrow_mut();
        let bytes = ready!(read.get_or_insert_with(|| self.read()).as_mut().poll(cx));
        *read = None;
        let Some(bytes) = bytes else {
            spool::report_unreadable(&self.services, A_BODY);
            return Poll::Ready(Err(BodyError::Broken));
        };
        self.at.set(self.at.get() + bytes.len() as u64);
        Poll::Ready(Ok(Some(bytes)))
    }
}
