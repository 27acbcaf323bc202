//! The body of an upstream's response. It is not longer than the head announces. It is incomplete where it is shorter,
//! or where a script is ended before it exits.

use std::io;
use std::task::{Context, Poll};

use taipan_http::chunked::{ChunkLimits, Decoder, Event};
use taipan_http::framing::Framing;
use taipan_http::head::Persistence;
use taipan_http::trailers::{self, Trailers};

use super::exchange::{Kind, UpstreamExchange};
use super::head::UpstreamHead;
use super::transport::ReadError;
use crate::log::{self, EndReason};
use crate::pool::message::Fault;
use crate::response::{BodyStream, NextChunk};
use crate::services::Services;
use crate::spawner::Exit;
use crate::stats::Count;

/// The rest of a body.
pub struct UpstreamBody {
    exchange: UpstreamExchange,
    /// Received with the head, in its framing.
    received: Vec<u8>,
    /// Read ahead, behind `received`.
    ahead: Option<Result<Option<Vec<u8>>, ReadError>>,
    framed: Framed,
    /// Whether the connection can have another request after this response.
    persistence: Persistence,
}

/// Finds the end of a body.
struct Framed {
    rest: Rest,
    /// Bytes follow the end.
    has_excess: bool,
    /// The lines of the trailer section of a chunked body.
    trailers: Vec<u8>,
}

enum Rest {
    /// So many bytes.
    Sized(u64),
    /// All until the output ends.
    Open,
    /// Also scripts may write chunks.
    Chunked(Box<Decoder>),
    Done,
}

pub(super) const TOO_LONG: &str = "wrote more than its Content-Length; the excess is dropped";

impl BodyStream for UpstreamBody {
    fn next<'a>(&'a mut self, _: &'a Services) -> NextChunk<'a> {
        Box::pin(self.next_bytes())
    }

    fn abort_reason(&self) -> EndReason {
        match self.exchange.kind {
            _ if self.exchange.lacks_body() => EndReason::ClientClosed,
            Kind::Application => EndReason::ApplicationEnded,
            Kind::Script => EndReason::ScriptEnded,
        }
    }

    fn has_more(&mut self) -> bool {
        if !self.received.is_empty() || matches!(self.framed.rest, Rest::Done | Rest::Sized(0)) {
            return true;
        }
        if self.ahead.is_none() {
            self.ahead = self.exchange.read_ready();
        }
        self.ahead.is_some()
    }

    fn take_buffered(&mut self) -> Vec<u8> {
        match self.framed.rest {
            Rest::Sized(_) | Rest::Open => {
                let raw = std::mem::take(&mut self.received);
                self.framed.take(raw).unwrap_or_default()
            }
            Rest::Chunked(_) | Rest::Done => Vec::new(),
        }
    }

    /// A field that the route sets or removes is that of the head.
    fn take_trailers(&mut self) -> Trailers {
        let Some((host, route)) = self.exchange.response_trailers else { return Trailers::new() };
        let route = self.exchange.services.site.hosts.at(host).routes.get(route);
        let is_of_route = |name: &[u8]| route.headers.iter().any(|rule| rule.replaces(name));
        let of_http1 = std::mem::take(&mut self.framed.trailers);
        let mut passed = trailers::passed(trailers::lines(&of_http1), is_of_route);
        let of_http2 = self.exchange.trailers();
        passed.extend(of_http2.into_iter().filter(|(name, _)| !is_of_route(name.as_bytes())));
        passed
    }

    fn poll_request_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.exchange.poll_send(cx)
    }
}

impl UpstreamBody {
    pub fn new(exchange: UpstreamExchange, head: &UpstreamHead, received: Vec<u8>) -> UpstreamBody {
        let framed = Framed::new(head.framing);
        UpstreamBody { exchange, received, ahead: None, framed, persistence: head.persistence }
    }

    /// With the end, if it has been read. A socket has an error only once: a later read finds its end.
    pub fn ending(self, end: Option<Result<(), ReadError>>) -> UpstreamBody {
        UpstreamBody { ahead: end.map(|end| end.map(|()| None)), ..self }
    }

    /// Errors: the body cannot be completed. The error log has the reason.
    async fn next_bytes(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let raw = match (std::mem::take(&mut self.received), &self.framed.rest) {
                (_, Rest::Done | Rest::Sized(0)) => return self.finish(),
                (received, _) if !received.is_empty() => received,
                _ => match self.read().await {
                    Ok(Some(raw)) => raw,
                    Ok(None) => return self.end().await,
                    Err(error @ ReadError::Timeout(_)) if self.is_whole() => {
                        return self.finish_without_end(&error);
                    }
                    Err(error) => return Err(self.fail(error.fault(), &error.to_string())),
                },
            };
            let bytes = self.framed.take(raw).map_err(|why| self.fail(Fault::Other, why))?;
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
    }

    async fn read(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        match self.ahead.take() {
            Some(read) => read,
            None => self.exchange.read_body().await,
        }
    }

    /// The output has ended.
    async fn end(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.framed.rest {
            Rest::Open => match self.exchange.exit().await {
                Some(Exit::Signal(_)) if self.exchange.takes_killed_output() => self.finish(),
                Some(Exit::Signal(_)) => Err(self.fail(Fault::Other, "it was ended by a signal")),
                Some(Exit::OutOfMemory) => {
                    Err(self.fail(Fault::Other, "it used more memory than `cgroup_memory`"))
                }
                Some(Exit::Lost) => Err(self.fail(Fault::Other, "it broke off")),
                Some(Exit::Code(_) | Exit::NotStarted(_)) | None => self.finish(),
            },
            Rest::Sized(_) => Err(self.fail(Fault::Other, "it wrote less than its Content-Length")),
            Rest::Chunked(_) => Err(self.fail(Fault::Other, "its last chunk is missing")),
            Rest::Done => self.finish(),
        }
    }

    /// Whether nothing is missing but the end of the request.
    fn is_whole(&self) -> bool {
        matches!(self.framed.rest, Rest::Open) && self.exchange.has_whole_output()
    }

    /// The end of the request would have told nothing that the client gets.
    fn finish_without_end(&mut self, error: &ReadError) -> io::Result<Option<Vec<u8>>> {
        let UpstreamExchange { label, upstream_name, .. } = &self.exchange;
        log::warn(format_args!(
            "{label}: {upstream_name} has ended its output, and not the request (FCGI_END_REQUEST): {error}"
        ));
        self.finish()
    }

    fn finish(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.framed.rest = Rest::Done;
        self.exchange.finish(if self.framed.has_excess { Persistence::Close } else { self.persistence });
        Ok(None)
    }

    fn fail(&self, fault: Fault, why: &str) -> io::Error {
        // The upstream has done nothing wrong.
        if self.exchange.lacks_body() {
            self.exchange.warn_of_body();
            return io::Error::other(self.abort_reason().text());
        }
        self.exchange.services.counts.add(Count::ScriptsFailed, 1);
        self.exchange.report_failure(fault, why);
        let UpstreamExchange { label, upstream_name, .. } = &self.exchange;
        log::error(format_args!("{label}: the response of {upstream_name} is incomplete: {why}"));
        io::Error::other(self.abort_reason().text())
    }
}

impl Framed {
    fn new(framing: Framing) -> Framed {
        let rest = match framing {
            Framing::Sized(bytes) => Rest::Sized(bytes),
            Framing::None => Rest::Open,
            Framing::Chunked => Rest::Chunked(Box::new(Decoder::keeping_trailers(ChunkLimits::default()))),
        };
        Framed { rest, has_excess: false, trailers: Vec::new() }
    }

    /// The bytes of the body that `raw` has. Errors: the broken rule.
    fn take(&mut self, mut raw: Vec<u8>) -> Result<Vec<u8>, &'static str> {
        match &mut self.rest {
            Rest::Open => Ok(raw),
            Rest::Done => Ok(Vec::new()),
            Rest::Sized(left) => {
                self.has_excess |= raw.len() as u64 > *left;
                raw.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= raw.len() as u64;
                Ok(raw)
            }
            Rest::Chunked(decoder) => {
                let (mut body, mut used) = (Vec::new(), 0);
                // Every turn uses up bytes, or ends.
                loop {
                    let (n, event) = decoder.next(&raw[used..]).map_err(|_| "its chunks cannot be read")?;
                    used += n;
                    match event {
                        Event::NeedMore => return Ok(body),
                        Event::Data(data) => body.extend_from_slice(data),
                        Event::End => {
                            self.has_excess = used < raw.len();
                            self.trailers = decoder.take_trailers();
                            self.rest = Rest::Done;
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

    /// The body in these parts of output. `.` follows where its end is found, and `+` where bytes follow that.
    fn check(framing: Framing, parts: &[&str], expected: Result<&str, &str>) {
        let mut framed = Framed::new(framing);
        let taken: Result<Vec<Vec<u8>>, _> =
            parts.iter().map(|part| framed.take(part.as_bytes().to_vec())).collect();
        let end = if matches!(framed.rest, Rest::Done | Rest::Sized(0)) { "." } else { "" };
        let excess = if framed.has_excess { "+" } else { "" };
        let found = taken.map(|taken| String::from_utf8(taken.concat()).unwrap() + end + excess);
        assert_eq!(found.as_deref().map_err(|why| *why), expected, "{framing:?} {parts:?}");
    }

    #[test]
    fn a_body_ends_where_its_length_says() {
        check(Framing::Sized(5), &["he", "llo"], Ok("hello."));
        check(Framing::Sized(5), &["he", "llo, you"], Ok("hello.+"));
        check(Framing::Sized(5), &["hell"], Ok("hell"));
        check(Framing::Sized(0), &["x"], Ok(".+"));
        check(Framing::None, &["a", "b"], Ok("ab"));
    }

    #[test]
    fn a_chunked_body_ends_with_its_last_chunk() {
        check(Framing::Chunked, &["2\r\nab\r", "\n1\r\nc\r\n0\r\n\r\n"], Ok("abc."));
        check(Framing::Chunked, &["2\r\nab\r", "\n1\r\nc\r\n0\r\n\r\nmore"], Ok("abc.+"));
        check(Framing::Chunked, &["2\r\nab"], Ok("ab"));
        check(Framing::Chunked, &["2\r\nabc"], Err("its chunks cannot be read"));
    }
}
