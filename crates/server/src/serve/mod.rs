//! Fetching the answer that was decided on. A `serve` knows nothing of its client and nothing of the
//! protocol: it gives a `Reply`, and whoever carries it asks for as much of it as can be sent.

pub mod cgi;
pub mod file;
pub mod fixed;
pub mod head;
pub mod inflate;
pub mod listing;

use std::cell::{Cell, Ref, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use http::reply::Block;
use http::rule::Rule;
use http::status::Status;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::files::look::{self, Stamp};
use crate::worker::Worker;

/// An answer: a head with, often, the whole body right behind it, and what follows.
pub struct Reply {
    pub block: Rc<Block>,
    /// How much of the block belongs to this answer: all of it, or for HEAD only the head.
    pub end: usize,
    pub body: Body,
    /// Where in the block it begins, for whoever has written the head in another way.
    pub start: usize,
    /// The rule that the request has broken. Its connection closes: where the next one begins is not sure.
    pub broken: Option<&'static Rule>,
}

/// What follows the block.
pub enum Body {
    Nothing,
    File(FilePart),
    Parts(VecDeque<Part>),
    /// Of unknown length, made while it is sent.
    Stream(Source),
    /// So many bytes, made while they are sent.
    Sized(Source, u64),
}

pub enum Part {
    Bytes(Vec<u8>),
    File(FilePart),
}

/// `left` bytes of a file from `at`.
#[derive(Clone)]
pub struct FilePart {
    pub file: Rc<OpenFile>,
    pub at: u64,
    pub left: u64,
}

/// A file that stays open for as long as somebody is being sent it.
pub struct OpenFile {
    pub fd: Arc<OwnedFd>,
    /// What it was when its head was written.
    pub stamp: Stamp,
    warm: Cell<Warm>,
    disk: Rc<Disk>,
}

/// A run of bytes that was found to be in memory in this second.
#[derive(Clone, Copy, Default)]
struct Warm {
    second: i64,
    from: u64,
    to: u64,
}

impl OpenFile {
    pub fn new(fd: OwnedFd, stamp: Stamp, disk: Rc<Disk>) -> OpenFile {
        OpenFile { fd: Arc::new(fd), stamp, warm: Cell::default(), disk }
    }

    /// Can the bytes from `at` to `end` be sent without waiting for a disk? The kernel is asked once a
    /// second, and about the first and the last byte: it reads ahead, and forgets, in long runs.
    pub fn is_in_memory(&self, at: u64, end: u64, now: i64) -> bool {
        let mut warm = self.warm.get();
        if warm.second != now || !(warm.from..=warm.to).contains(&at) {
            if !look::is_in_memory(&self.fd, at) {
                return false;
            }
            warm = Warm { second: now, from: at, to: at };
        }
        if end > warm.to {
            if !look::is_in_memory(&self.fd, end - 1) {
                return false;
            }
            warm.to = end;
        }
        self.warm.set(warm);
        true
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // Where there is no disk of this machine's behind a file, closing may wait for another machine, or
        // for a program.
        if self.stamp.device.0 == 0 {
            self.disk.close(self.stamp.device, self.fd.clone());
        }
    }
}

/// A block that is sent again and again, with the `Date` of the second.
pub struct Dated {
    block: RefCell<Rc<Block>>,
    second: Cell<i64>,
}

impl Dated {
    /// Of a block that was written in this second.
    pub fn new(block: Block, clock: &Clock) -> Dated {
        Dated { block: RefCell::new(Rc::new(block)), second: Cell::new(clock.now()) }
    }

    #[inline]
    pub fn at(&self, clock: &Clock) -> Rc<Block> {
        if self.second.get() != clock.now() {
            self.second.set(clock.now());
            // Copies only if an answer with the old date is still on its way.
            Rc::make_mut(&mut self.block.borrow_mut()).set_date(&clock.date());
        }
        self.block.borrow().clone()
    }

    /// With whatever date it has.
    pub fn block(&self) -> Ref<'_, Block> {
        Ref::map(self.block.borrow(), Rc::as_ref)
    }
}

/// Bodies that are made piece by piece, on demand.
pub enum Source {
    Inflate(Box<inflate::Inflate>),
    Listing(Box<listing::Pieces>),
    Script(Box<cgi::Content>),
}

impl Source {
    /// The next piece, never empty; `None` at the end. Errors: the body cannot be completed.
    pub async fn next(&mut self, worker: &Worker) -> io::Result<Option<Vec<u8>>> {
        match self {
            Source::Inflate(source) => source.next(worker).await,
            Source::Listing(source) => source.next(worker).await,
            Source::Script(source) => source.next().await,
        }
    }
}

impl Source {
    /// Why an answer ends before its body does, for the log.
    pub fn why_cut(&self) -> &'static str {
        match self {
            Source::Inflate(_) | Source::Listing(_) => "content could not be made",
            Source::Script(script) => script.cut(),
        }
    }
}

impl Body {
    /// What makes it, while it is sent.
    pub fn source(&mut self) -> Option<&mut Source> {
        match self {
            Body::Stream(source) | Body::Sized(source, _) => Some(source),
            Body::Nothing | Body::File(_) | Body::Parts(_) => None,
        }
    }
}

impl Reply {
    /// The whole block and nothing behind it.
    pub fn block(block: impl Into<Rc<Block>>) -> Reply {
        let block = block.into();
        Reply { end: block.bytes().len(), block, body: Body::Nothing, start: 0, broken: None }
    }

    pub fn status(&self) -> Status {
        self.block.status()
    }

    /// The same answer to HEAD.
    pub fn without_body(mut self) -> Reply {
        self.end = self.block.head_len();
        self.body = Body::Nothing;
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.block.bytes()[self.start..self.end]
    }

    pub fn is_streamed(&self) -> bool {
        matches!(self.body, Body::Stream(_))
    }

    /// Bytes of content; `None` where they are known only when they have been sent.
    #[inline]
    pub fn content_length(&self) -> Option<u64> {
        let behind = match &self.body {
            Body::Nothing => 0,
            Body::File(part) => part.left,
            Body::Parts(parts) => parts.iter().map(Part::length).sum(),
            Body::Stream(_) => return None,
            Body::Sized(_, length) => *length,
        };
        Some((self.end - self.block.head_len()) as u64 + behind)
    }
}

impl Part {
    pub fn length(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::File(part) => part.left,
        }
    }
}
