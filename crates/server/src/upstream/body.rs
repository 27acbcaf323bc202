//! The body that a script writes behind its head, piece by piece: not longer than the head says, and
//! known to be incomplete where it is shorter, or where the script has not ended by itself.

use std::io;
use std::task::{Context, Poll};

use taipan_http::chunked::{ChunkLimits, Decoder, Event};
use taipan_http::framing::Framing;
use taipan_http::head::Persistence;
use tokio::time::Instant;

use super::UpstreamExchange;
use super::head::UpstreamHead;
use crate::log;
use crate::response::{BodyStream, NextPiece};
use crate::services::Services;
use crate::spawner::Exit;
use crate::stats::Count;

/// What is still to come.
pub struct UpstreamBody {
    exchange: UpstreamExchange,
    /// What has come with the head, as it was written.
    ready: Vec<u8>,
    framed: Framed,
    /// With HTTP: whether the connection can have another request behind this.
    stays: bool,
}

/// How the end of the body is found.
enum Framed {
    /// So many bytes are to come.
    Sized(u64),
    /// Where the output ends.
    Open,
    /// The script writes chunks itself, as one that speaks HTTP may.
    Chunked(Box<Decoder>),
    Done,
}

/// Why a body cannot be completed: what the access log says of it.
const SCRIPT_CUT: &str = "script ended early";
const APPLICATION_CUT: &str = "application ended early";
/// Behind what has done so.
pub(super) const TOO_LONG: &str = "wrote more than its Content-Length says; that is left out";

impl BodyStream for UpstreamBody {
    fn next<'a>(&'a mut self, _: &'a Services) -> NextPiece<'a> {
        Box::pin(self.next_piece())
    }

    fn why_cut(&self) -> &'static str {
        match self.exchange.application() {
            Some(_) => APPLICATION_CUT,
            None => SCRIPT_CUT,
        }
    }

    fn ready(&mut self) -> Vec<u8> {
        match self.framed {
            Framed::Sized(_) | Framed::Open => {
                let raw = std::mem::take(&mut self.ready);
                self.framed.take(raw).unwrap_or_default()
            }
            Framed::Chunked(_) | Framed::Done => Vec::new(),
        }
    }

    fn poll_request_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.exchange.poll_request_body(cx)
    }
}

impl UpstreamBody {
    pub fn new(exchange: UpstreamExchange, head: &UpstreamHead, ready: Vec<u8>) -> UpstreamBody {
        let framed = match head.framing {
            Framing::Sized(bytes) => Framed::Sized(bytes),
            Framing::None => Framed::Open,
            Framing::Chunked => Framed::Chunked(Box::new(Decoder::new(ChunkLimits::default()))),
        };
        UpstreamBody { exchange, ready, framed, stays: head.persistence == Persistence::KeepAlive }
    }

    /// Errors: the body cannot be completed. The error log says why.
    async fn next_piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let raw = match (std::mem::take(&mut self.ready), &self.framed) {
                (_, Framed::Done | Framed::Sized(0)) => return self.through(),
                (ready, _) if !ready.is_empty() => ready,
                _ => match self.read().await? {
                    Some(raw) => raw,
                    None => return self.at_end().await,
                },
            };
            let came = raw.len() as u64;
            let before = self.framed.left();
            let piece = self.framed.take(raw).map_err(|why| self.fail(why))?;
            self.stays &= before.is_none_or(|before| came <= before);
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }

    async fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let idle = self.exchange.timeouts.idle;
        let read = self.exchange.read(Instant::now(), idle).await;
        read.map_err(|cut| self.fail(&cut.to_string()))
    }

    /// The output has ended.
    async fn at_end(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.framed {
            Framed::Open => match self.exchange.end().await {
                Some(Exit::Signal(_)) => Err(self.fail("it was ended by a signal")),
                Some(Exit::OutOfMemory) => Err(self.fail("it took more memory than `cgroup_memory`")),
                Some(Exit::Lost) => Err(self.fail("it has broken off")),
                Some(Exit::Code(_) | Exit::NotStarted(_)) | None => self.through(),
            },
            Framed::Sized(_) => Err(self.fail("it wrote less than its Content-Length says")),
            Framed::Chunked(_) => Err(self.fail("its last chunk is missing")),
            Framed::Done => self.through(),
        }
    }

    fn through(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.framed = Framed::Done;
        self.exchange.through(self.stays);
        Ok(None)
    }

    fn fail(&self, why: &str) -> io::Error {
        self.exchange.services.counts.add(Count::ScriptsFailed, 1);
        let UpstreamExchange { who, what, .. } = &self.exchange;
        log::error(format_args!("{who}: the answer of {what} is incomplete: {why}"));
        io::Error::other(self.why_cut())
    }
}

impl Framed {
    fn left(&self) -> Option<u64> {
        match self {
            Framed::Sized(left) => Some(*left),
            Framed::Open | Framed::Chunked(_) | Framed::Done => None,
        }
    }

    /// What of the output belongs to the body. Errors: what is wrong with it.
    fn take(&mut self, mut raw: Vec<u8>) -> Result<Vec<u8>, &'static str> {
        match self {
            Framed::Open => Ok(raw),
            Framed::Done => Ok(Vec::new()),
            Framed::Sized(left) => {
                raw.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= raw.len() as u64;
                Ok(raw)
            }
            Framed::Chunked(decoder) => {
                let (mut body, mut used) = (Vec::new(), 0);
                loop {
                    let (n, event) = decoder.next(&raw[used..]).map_err(|_| "its chunks cannot be read")?;
                    used += n;
                    match event {
                        Event::NeedMore => return Ok(body),
                        Event::Data(data) => body.extend_from_slice(data),
                        Event::End => {
                            *self = Framed::Done;
                            return Ok(body);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent of these pieces of output, and whether the end has been found.
    fn check(framing: Framing, pieces: &[&str], expected: Result<(&str, bool), &str>) {
        let mut framed = match framing {
            Framing::Sized(bytes) => Framed::Sized(bytes),
            Framing::None => Framed::Open,
            Framing::Chunked => Framed::Chunked(Box::new(Decoder::new(ChunkLimits::default()))),
        };
        let taken: Result<Vec<Vec<u8>>, _> =
            pieces.iter().map(|piece| framed.take(piece.as_bytes().to_vec())).collect();
        let found = taken.map(|taken| taken.concat());
        let has_end = matches!(framed, Framed::Done | Framed::Sized(0));
        let found = found.as_deref().map(|found| (std::str::from_utf8(found).unwrap(), has_end));
        assert_eq!(found.map_err(|why| *why), expected, "{framing:?} {pieces:?}");
    }

    #[test]
    fn a_body_is_as_long_as_its_head_says() {
        check(Framing::Sized(5), &["he", "llo"], Ok(("hello", true)));
        check(Framing::Sized(5), &["he", "llo, you"], Ok(("hello", true)));
        check(Framing::Sized(5), &["hell"], Ok(("hell", false)));
        check(Framing::Sized(0), &["x"], Ok(("", true)));
        check(Framing::None, &["a", "b"], Ok(("ab", false)));
    }

    #[test]
    fn a_script_may_write_chunks_itself() {
        check(Framing::Chunked, &["2\r\nab\r", "\n1\r\nc\r\n0\r\n\r\nmore"], Ok(("abc", true)));
        check(Framing::Chunked, &["2\r\nab"], Ok(("ab", false)));
        check(Framing::Chunked, &["2\r\nabc"], Err("its chunks cannot be read"));
    }
}
