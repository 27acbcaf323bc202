//! The body of a request to an application that is sent on while it is received. Its beginning is kept until there is a
//! response, so that the request can be sent again. Knows nothing of attempts.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use site::memory;
use taipan_http::trailers::Trailers;

use crate::request::body::{BodyError, Length, ReadBody, RequestBody};

/// Bytes of one body. An endpoint of HTTP/2 takes 64 KiB before it has said anything (RFC 9113 §6.9.2), and what was read
/// at once behind them waits.
const MOST: usize = 128 * 1024;
/// Bytes of all bodies of a worker.
const MOST_OF_ALL: usize = memory::REPEATABLE_BODIES as usize;

/// The bytes that the requests of a worker keep.
#[derive(Default)]
pub struct KeptBytes(Rc<Cell<usize>>);

/// Dropping it ends the keeping.
pub struct RepeatableBody(Rc<RefCell<Kept>>);

struct Kept {
    body: Rc<dyn ReadBody>,
    keeping: Keeping,
    /// What was read of the body, or the part of it that the present reader has not had.
    bytes: Vec<u8>,
    /// The bytes that the present reader has had.
    position: usize,
    has_ended: bool,
    /// `None`: they have not been read.
    trailers: Option<Trailers>,
    all: Rc<Cell<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    On,
    /// Some of the body is gone, or it is not sent again.
    Off,
}

/// The body for one attempt.
struct Reader(Rc<RefCell<Kept>>);

impl RepeatableBody {
    pub fn new(body: Rc<dyn ReadBody>, all: &KeptBytes) -> RepeatableBody {
        let keeping = if body.bytes_read() == 0 { Keeping::On } else { Keeping::Off };
        RepeatableBody(Rc::new(RefCell::new(Kept {
            body,
            keeping,
            bytes: Vec::new(),
            position: 0,
            has_ended: false,
            trailers: None,
            all: all.0.clone(),
        })))
    }

    /// The body from its beginning. Readers that were made before are not used any more.
    pub fn reader(&self) -> RequestBody {
        self.0.borrow_mut().position = 0;
        RequestBody::Stream(Rc::new(Reader(self.0.clone())))
    }

    /// Whether a further reader has all of it.
    pub fn is_whole(&self) -> bool {
        self.0.borrow().keeping == Keeping::On
    }
}

impl Drop for RepeatableBody {
    fn drop(&mut self) {
        self.0.borrow_mut().end();
    }
}

impl Kept {
    /// Keeps only what the present reader has not had.
    fn end(&mut self) {
        self.keeping = Keeping::Off;
        self.release(self.position);
    }

    /// Forgets the first bytes.
    fn release(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.bytes.shrink_to_fit();
        self.position = 0;
        self.all.update(|all| all - count);
    }

    /// The reader has had a chunk that was not kept.
    fn add(&mut self, chunk: &[u8]) {
        if self.keeping == Keeping::Off {
            return;
        }
        if self.bytes.len() + chunk.len() > MOST || self.all.get() + chunk.len() > MOST_OF_ALL {
            return self.end();
        }
        self.bytes.extend_from_slice(chunk);
        self.position += chunk.len();
        self.all.update(|all| all + chunk.len());
    }

    /// What the present reader has not had of the bytes.
    fn take_rest(&mut self) -> Option<Vec<u8>> {
        let rest = self.bytes.get(self.position..).filter(|rest| !rest.is_empty())?.to_vec();
        match self.keeping {
            Keeping::On => self.position = self.bytes.len(),
            Keeping::Off => self.release(self.bytes.len()),
        }
        Some(rest)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.release(self.bytes.len());
    }
}

impl ReadBody for Reader {
    fn length(&self) -> Length {
        self.0.borrow().body.length()
    }

    fn bytes_read(&self) -> u64 {
        self.0.borrow().body.bytes_read()
    }

    fn awaits_continue(&self) -> bool {
        self.0.borrow().body.awaits_continue()
    }

    fn take_trailers(&self) -> Trailers {
        let kept = &mut *self.0.borrow_mut();
        kept.trailers.get_or_insert_with(|| kept.body.take_trailers()).clone()
    }

    fn converse(&self) {
        self.0.borrow().body.converse();
    }

    fn poll_read(&self, cx: &mut Context<'_>, limit: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
        let kept = &mut *self.0.borrow_mut();
        if let Some(rest) = kept.take_rest() {
            return Poll::Ready(Ok(Some(rest)));
        }
        if kept.has_ended {
            return Poll::Ready(Ok(None));
        }
        let chunk = ready!(kept.body.poll_read(cx, limit))?;
        match &chunk {
            Some(chunk) => kept.add(chunk),
            None => kept.has_ended = true,
        }
        Poll::Ready(Ok(chunk))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use super::*;

    /// A client that has sent these chunks.
    #[derive(Default)]
    struct Sent(RefCell<VecDeque<Vec<u8>>>, Cell<u64>);

    impl Sent {
        fn send(&self, size: usize, byte: u8) {
            self.0.borrow_mut().push_back(vec![byte; size]);
        }
    }

    impl ReadBody for Sent {
        fn length(&self) -> Length {
            Length::Unknown
        }

        fn bytes_read(&self) -> u64 {
            self.1.get()
        }

        fn awaits_continue(&self) -> bool {
            false
        }

        fn take_trailers(&self) -> Trailers {
            vec![("a".into(), b"b".to_vec())]
        }

        fn poll_read(&self, _: &mut Context<'_>, _: u64) -> Poll<Result<Option<Vec<u8>>, BodyError>> {
            match self.0.borrow_mut().pop_front() {
                None => Poll::Pending,
                Some(chunk) if chunk.is_empty() => Poll::Ready(Ok(None)),
                Some(chunk) => {
                    self.1.update(|read| read + chunk.len() as u64);
                    Poll::Ready(Ok(Some(chunk)))
                }
            }
        }
    }

    /// Reads what is there: the bytes, and a dot at the end.
    fn read(body: &RequestBody) -> String {
        let mut text = String::new();
        loop {
            match body.poll_read(&mut Context::from_waker(Waker::noop()), u64::MAX) {
                Poll::Ready(Ok(Some(chunk))) => text.push_str(std::str::from_utf8(&chunk).unwrap()),
                Poll::Ready(Ok(None)) => return text + ".",
                Poll::Ready(Err(_)) | Poll::Pending => return text,
            }
        }
    }

    #[test]
    fn each_reader_has_the_body_from_its_beginning() {
        let (sent, all) = (Rc::new(Sent::default()), KeptBytes::default());
        let body = RepeatableBody::new(sent.clone(), &all);
        let first = body.reader();
        sent.send(2, b'a');
        assert_eq!(read(&first), "aa");
        sent.send(1, b'b');
        assert_eq!(read(&first), "b");
        let second = body.reader();
        sent.send(1, b'c');
        sent.send(0, 0);
        assert_eq!(read(&second), "aabc.");
        assert_eq!(second.take_trailers().len(), 1);
        let third = body.reader();
        assert_eq!((read(&third).as_str(), body.is_whole(), all.0.get()), ("aabc.", true, 4));
        assert_eq!(third.take_trailers().len(), 1);
        drop(body);
        assert_eq!((read(&third).as_str(), all.0.get()), (".", 0));
    }

    #[test]
    fn a_reader_has_the_rest_when_nothing_is_kept_any_more() {
        let (sent, all) = (Rc::new(Sent::default()), KeptBytes::default());
        let body = RepeatableBody::new(sent.clone(), &all);
        sent.send(2, b'a');
        read(&body.reader());
        let second = body.reader();
        drop(body);
        sent.send(1, b'b');
        sent.send(0, 0);
        assert_eq!((all.0.get(), read(&second).as_str(), all.0.get()), (2, "aab.", 0));
    }

    #[test]
    fn keeps_a_bounded_part() {
        let (sent, all) = (Rc::new(Sent::default()), KeptBytes::default());
        let body = RepeatableBody::new(sent.clone(), &all);
        sent.send(MOST, b'a');
        assert_eq!(read(&body.reader()).len(), MOST);
        assert!(body.is_whole());
        let second = body.reader();
        sent.send(1, b'b');
        assert_eq!((read(&second).len(), body.is_whole(), all.0.get()), (MOST + 1, false, 0));
        let bodies: Vec<_> = (0..2 * MOST_OF_ALL / MOST)
            .map(|_| {
                let sent = Rc::new(Sent::default());
                sent.send(MOST, b'a');
                let body = RepeatableBody::new(sent, &all);
                read(&body.reader());
                body
            })
            .collect();
        assert_eq!(bodies.iter().filter(|body| body.is_whole()).count(), MOST_OF_ALL / MOST);
        drop(bodies);
        assert_eq!(all.0.get(), 0);
    }
}
