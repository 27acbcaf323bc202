//! A gzip file for those who do not accept gzip: inflated piece by piece on a helper thread, as the
//! client takes it, so that neither a huge file nor a bomb costs more than a piece.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use crate::disk::{Stream, Work};
use crate::files::open::OpenFile;
use crate::response::{BodyStream, NextChunk};
use crate::services::Services;
use crate::sys::calls;

const PIECE: usize = 64 * 1024;

pub struct Inflate {
    file: Rc<OpenFile>,
    state: State,
    _place: Stream,
}

enum State {
    New,
    Running(Box<MultiGzDecoder<Reader>>),
    Ended,
}

impl BodyStream for Inflate {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(self.next_piece(services))
    }
}

impl Inflate {
    pub fn new(file: Rc<OpenFile>, place: Stream) -> Inflate {
        Inflate { file, state: State::New, _place: place }
    }

    /// Errors: the file is not gzip, or cannot be read.
    async fn next_piece(&mut self, services: &Services) -> io::Result<Option<Vec<u8>>> {
        let state = std::mem::replace(&mut self.state, State::Ended);
        let (fd, device) = (self.file.fd.clone(), self.file.stamp.device);
        let work = move || {
            // A decoder reads the head of its file as soon as it is made.
            let mut decoder = match state {
                State::New => Box::new(MultiGzDecoder::new(Reader { fd, at: 0 })),
                State::Running(decoder) => decoder,
                State::Ended => return Ok(None),
            };
            let mut piece = Vec::with_capacity(PIECE);
            (&mut *decoder).take(PIECE as u64).read_to_end(&mut piece)?;
            io::Result::Ok((!piece.is_empty()).then_some((decoder, piece)))
        };
        let made = services.disk.run(device, Work::File, work).await;
        let made = made.map_err(|_| io::Error::other("the disk is too slow"))??;
        let Some((decoder, piece)) = made else { return Ok(None) };
        self.state = State::Running(decoder);
        Ok(Some(piece))
    }
}

/// Reads a descriptor from a place of its own: others read the same file.
struct Reader {
    fd: Arc<OwnedFd>,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // The decoder gives up where it is interrupted in a head.
        let n = rustix::io::retry_on_intr(|| calls::pread(&self.fd, &mut *buf, self.at))?;
        self.at += n as u64;
        Ok(n)
    }
}
