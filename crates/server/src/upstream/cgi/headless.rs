//! A program whose output is content alone: a head goes before it. Without output there is no head either, so that a
//! program that fails at once is an error.

use std::cell::{Cell, RefCell};
use std::io;
use std::task::{Context, Poll, ready};

use taipan_http::head::Persistence;

use super::Script;
use crate::spawner::Exit;
use crate::upstream::transport::{ReadError, Transport};

pub struct Headless {
    script: Script,
    head: Cell<Option<Vec<u8>>>,
    /// The first output, while the head is read.
    first: RefCell<Option<Vec<u8>>>,
}

impl Headless {
    pub fn new(script: Script, content_type: &str) -> Headless {
        let head = format!("Content-Type: {content_type}\r\n\r\n").into_bytes();
        Headless { script, head: Cell::new(Some(head)), first: RefCell::default() }
    }
}

impl Transport for Headless {
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.script.poll_ready(cx)
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.script.poll_write(cx, bytes)
    }

    fn poll_end_body(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.script.poll_end_body(cx)
    }

    fn abandon_body(&self) {
        self.script.abandon_body();
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Ok(Some(first)));
        }
        let output = ready!(self.script.poll_read(cx));
        Poll::Ready(match (output, self.head.take()) {
            (Ok(Some(first)), Some(head)) => {
                self.first.replace(Some(first));
                Ok(Some(head))
            }
            (output, _) => output,
        })
    }

    fn poll_exit(&self, cx: &mut Context<'_>) -> Poll<Option<Exit>> {
        self.script.poll_exit(cx)
    }

    fn finish(&self, persistence: Persistence) {
        self.script.finish(persistence);
    }
}
