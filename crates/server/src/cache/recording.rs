//! A body that is stored while it is sent. It is stored when all of it is there, and only then.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::pending::Pace;
use crate::log::EndReason;
use crate::response::{BodyStream, NextChunk};
use crate::services::Services;

pub struct Recording {
    body: Box<dyn BodyStream>,
    /// Bytes of the whole body, if the upstream has announced them.
    length: Option<u64>,
    /// `None`: it is stored, or is not going to be.
    recorded: Option<Recorded>,
    is_stored: bool,
    pace: Pace,
}

struct Recorded {
    bytes: Vec<u8>,
    reserved: Reserved,
    store: Box<dyn FnOnce(Vec<u8>, Reserved)>,
    refuse: Box<dyn FnOnce()>,
}

/// A part of the memory for bodies that are being received, or written to files. Dropping it returns it.
pub struct Reserved {
    /// Bytes of all bodies.
    all: Rc<Cell<usize>>,
    most: usize,
    own: usize,
    largest: u64,
}

impl Reserved {
    pub fn new(all: Rc<Cell<usize>>, most: usize, largest: u64) -> Reserved {
        Reserved { all, most, own: 0, largest }
    }

    /// Whether this many bytes more may be kept.
    pub fn add(&mut self, bytes: usize) -> bool {
        let fits = (self.own + bytes) as u64 <= self.largest && self.all.get() + bytes <= self.most;
        if fits {
            self.own += bytes;
            self.all.update(|all| all + bytes);
        }
        fits
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.all.update(|all| all - self.own);
    }
}

impl Recording {
    /// `store` gets the whole body, and the memory that was reserved for it. `refuse` is called if it does not fit.
    pub fn new(
        body: Box<dyn BodyStream>,
        length: Option<u64>,
        reserved: Reserved,
        store: impl FnOnce(Vec<u8>, Reserved) + 'static,
        refuse: impl FnOnce() + 'static,
    ) -> Recording {
        let recorded =
            Recorded { bytes: Vec::new(), reserved, store: Box::new(store), refuse: Box::new(refuse) };
        Recording { body, length, recorded: Some(recorded), is_stored: false, pace: Pace::default() }
    }

    /// Tells others that wait for the response whether it waits for its client.
    pub fn with_pace(self, pace: Pace) -> Recording {
        pace.on_client();
        Recording { pace, ..self }
    }

    fn add(&mut self, chunk: &[u8]) {
        let Some(recorded) = &mut self.recorded else { return };
        let length = (recorded.bytes.len() + chunk.len()) as u64;
        if !recorded.reserved.add(chunk.len()) || self.length.is_some_and(|whole| length > whole) {
            if let Some(recorded) = self.recorded.take() {
                (recorded.refuse)();
            }
            return;
        }
        recorded.bytes.extend_from_slice(chunk);
        if self.length == Some(length) {
            self.store();
        }
    }

    fn store(&mut self) {
        if let Some(Recorded { bytes, reserved, store, .. }) = self.recorded.take() {
            store(bytes, reserved);
            self.is_stored = true;
        }
    }

    fn end(&mut self) {
        match self.length {
            None => self.store(),
            // It was stored with its last byte, or some are missing.
            Some(_) => self.recorded = None,
        }
    }

    /// Reads the rest, for which no client waits.
    pub async fn read_to_the_end(mut self, services: &Services) {
        self.take_buffered();
        while self.recorded.is_some() {
            let Ok(Some(_)) = self.next(services).await else { return };
        }
        // Behind its last byte, the end is read, so that the connection can have another request. What was too large is not
        // read on.
        if self.is_stored {
            _ = self.next(services).await;
        }
    }
}

impl BodyStream for Recording {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(async {
            self.pace.on_upstream();
            let chunk = self.body.next(services).await;
            self.pace.on_client();
            match &chunk {
                Ok(Some(bytes)) => self.add(bytes),
                Ok(None) => self.end(),
                Err(_) => self.recorded = None,
            }
            chunk
        })
    }

    fn abort_reason(&self) -> EndReason {
        self.body.abort_reason()
    }

    fn has_more(&mut self) -> bool {
        self.body.has_more()
    }

    fn take_buffered(&mut self) -> Vec<u8> {
        let bytes = self.body.take_buffered();
        self.add(&bytes);
        bytes
    }

    fn poll_request_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.body.poll_request_body(cx)
    }

    fn poll_read_ahead(&mut self, cx: &mut Context<'_>) {
        self.body.poll_read_ahead(cx);
    }
}
