//! A gzip file for a client that does not accept gzip. A helper thread inflates the next chunk when the client has
//! taken the one before, so that no file costs more memory than one chunk.

use std::io::{self, BufReader, Read};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use crate::disk::{DevicePermit, Work};
use crate::files::Inflated;
use crate::gunzip::{Gunzip, Trailing};
use crate::log::EndReason;
use crate::response::{self, BodyStream, NextChunk};
use crate::services::Services;
use crate::sys::calls;

/// Bytes of a chunk.
const CHUNK: usize = 64 * 1024;

pub struct Inflate {
    gzip: Rc<Inflated>,
    state: State,
    _permit: DevicePermit,
}

enum State {
    New,
    Running(Box<Gunzip<BufReader<Reader>>>),
    Ended,
}

impl BodyStream for Inflate {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(self.next_chunk(services))
    }

    fn abort_reason(&self) -> EndReason {
        response::abort_reason(&self.gzip.file)
    }
}

impl Inflate {
    pub fn new(gzip: Rc<Inflated>, permit: DevicePermit) -> Inflate {
        Inflate { gzip, state: State::New, _permit: permit }
    }

    /// Errors: the file is not gzip, or cannot be read.
    async fn next_chunk(&mut self, services: &Services) -> io::Result<Option<Vec<u8>>> {
        let state = std::mem::replace(&mut self.state, State::Ended);
        let (fd, device) = (self.gzip.file.fd.clone(), self.gzip.file.stamp.device);
        let work = move || {
            // `new` reads the file, so it runs here.
            let mut decoder = match state {
                State::New => Box::new(Gunzip::new(BufReader::new(Reader { fd, at: 0 }), Trailing::Anything)),
                State::Running(decoder) => decoder,
                State::Ended => return Ok(None),
            };
            let mut chunk = Vec::with_capacity(CHUNK);
            (&mut *decoder).take(CHUNK as u64).read_to_end(&mut chunk)?;
            io::Result::Ok((!chunk.is_empty()).then_some((decoder, chunk)))
        };
        let done = services.disk.run(device, Work::File, work).await;
        let done = done.map_err(|_| io::Error::other("the disk is too slow"))?;
        let damage = |error: &io::Error| error.raw_os_error().is_none() && self.gzip.file.is_unchanged();
        if let Some(error) = done.as_ref().err().filter(|error| damage(error)) {
            services.report_damaged(&self.gzip.path, error);
        }
        let Some((decoder, chunk)) = done? else { return Ok(None) };
        self.state = State::Running(decoder);
        Ok(Some(chunk))
    }
}

/// Reads a descriptor at an offset of its own, for it is shared with other responses.
struct Reader {
    fd: Arc<OwnedFd>,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // The decoder fails if it is interrupted within a header.
        let n = rustix::io::retry_on_intr(|| calls::pread(&self.fd, &mut *buf, self.at))?;
        self.at += n as u64;
        Ok(n)
    }
}
