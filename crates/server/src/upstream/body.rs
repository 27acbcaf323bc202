//! The body of an upstream's response. It is not longer than the head announces. It is incomplete where it is shorter,
//! or where a script is ended before it exits.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use taipan_http::chunked::{Decoder, Event};
use taipan_http::framing::Framing;
use taipan_http::head::Persistence;
use taipan_http::trailers::{self, Trailers};

use super::exchange::UpstreamExchange;
use super::head::UpstreamHead;
use super::request::{RequestInfo, RouteOfHost};
use super::transport::ReadError;
use crate::log::{self, EndReason};
use crate::pool::message::Fault;
use crate::response::{BodyStream, NextChunk};
use crate::services::Services;
use crate::spawner::Exit;
use crate::stats::Count;

/// The rest of a body.
pub struct UpstreamBody {
    pub exchange: Rc<UpstreamExchange>,
    /// Received with the head, in its framing.
    received: Vec<u8>,
    /// Content that has been read ahead.
    content: Vec<u8>,
    /// The end of the output that has been read ahead, behind `received`.
    end: Option<Result<(), ReadError>>,
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
    /// The broken rule.
    Broken(&'static str),
}

pub(super) const TOO_LONG: &str = "wrote more than its Content-Length; the excess is dropped";

impl BodyStream for UpstreamBody {
    fn next<'a>(&'a mut self, _: &'a Services) -> NextChunk<'a> {
        Box::pin(self.next_bytes())
    }

    fn abort_reason(&self) -> EndReason {
        self.exchange.abort_reason()
    }

    /// Bytes of the framing are none: the content behind them may be long in coming.
    fn has_more(&mut self) -> bool {
        loop {
            if !self.content.is_empty() || self.end.is_some() || self.framed.has_ended() {
                return true;
            }
            let mut raw = std::mem::take(&mut self.received);
            if raw.is_empty() {
                match self.exchange.read_ready() {
                    Some(Ok(Some(read))) => raw = read,
                    Some(end) => self.end = Some(end.map(drop)),
                    None => return false,
                }
            }
            self.content = self.framed.take(raw);
        }
    }

    fn take_buffered(&mut self) -> Vec<u8> {
        match self.framed.rest {
            Rest::Sized(_) | Rest::Open => {
                if self.content.is_empty() {
                    self.content = self.framed.take(std::mem::take(&mut self.received));
                }
                std::mem::take(&mut self.content)
            }
            Rest::Chunked(_) | Rest::Done | Rest::Broken(_) => Vec::new(),
        }
    }

    /// A field that the route sets or removes is that of the head.
    fn take_trailers(&mut self) -> Trailers {
        let Some(RouteOfHost { host, route }) = self.exchange.request.response_trailers else {
            return Trailers::new();
        };
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
        let (content, persistence) = (Vec::new(), head.persistence);
        UpstreamBody { exchange: Rc::new(exchange), received, content, end: None, framed, persistence }
    }

    /// With the end, if it has been read. A socket has an error only once: a later read finds its end.
    pub fn ending(self, end: Option<Result<(), ReadError>>) -> UpstreamBody {
        UpstreamBody { end, ..self }
    }

    /// Bytes of content that have not been read. `None`: their number is not known.
    pub fn left(&self) -> Option<u64> {
        match self.framed.rest {
            Rest::Sized(left) => Some(left),
            Rest::Open | Rest::Chunked(_) | Rest::Done | Rest::Broken(_) => None,
        }
    }

    /// Errors: the body cannot be completed. The error log has the reason.
    pub async fn next_bytes(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if !self.content.is_empty() {
                return Ok(Some(std::mem::take(&mut self.content)));
            }
            let raw = match (std::mem::take(&mut self.received), &self.framed.rest) {
                (_, Rest::Done | Rest::Sized(0)) => return self.finish(),
                (_, Rest::Broken(why)) => return Err(self.fail(Fault::Other, why)),
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
            self.content = self.framed.take(raw);
        }
    }

    async fn read(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        match self.end.take() {
            Some(end) => end.map(|()| None),
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
            Rest::Broken(why) => Err(self.fail(Fault::Other, why)),
            Rest::Done => self.finish(),
        }
    }

    /// Whether nothing is missing but the end of the request.
    fn is_whole(&self) -> bool {
        matches!(self.framed.rest, Rest::Open) && self.exchange.has_whole_output()
    }

    /// The end of the request would have told nothing that the client gets.
    fn finish_without_end(&mut self, error: &ReadError) -> io::Result<Option<Vec<u8>>> {
        let RequestInfo { label, upstream_name, .. } = &self.exchange.request;
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
        let RequestInfo { label, upstream_name, .. } = &self.exchange.request;
        log::error(format_args!("{label}: the response of {upstream_name} is incomplete: {why}"));
        io::Error::other(self.abort_reason().text())
    }
}

impl Framed {
    fn new(framing: Framing) -> Framed {
        let rest = match framing {
            Framing::Sized(bytes) => Rest::Sized(bytes),
            Framing::None => Rest::Open,
            Framing::Chunked => Rest::Chunked(Box::new(Decoder::of_response())),
        };
        Framed { rest, has_excess: false, trailers: Vec::new() }
    }

    /// Whether no content follows.
    fn has_ended(&self) -> bool {
        matches!(self.rest, Rest::Done | Rest::Sized(0) | Rest::Broken(_))
    }

    /// The bytes of the body that `raw` has, in front of those that break a rule.
    fn take(&mut self, mut raw: Vec<u8>) -> Vec<u8> {
        match &mut self.rest {
            Rest::Open => raw,
            Rest::Done | Rest::Broken(_) => Vec::new(),
            Rest::Sized(left) => {
                self.has_excess |= raw.len() as u64 > *left;
                raw.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= raw.len() as u64;
                raw
            }
            Rest::Chunked(decoder) => {
                let (mut body, mut used) = (Vec::new(), 0);
                // Every turn uses up bytes, or ends.
                loop {
                    let Ok((n, event)) = decoder.next(&raw[used..]) else {
                        self.rest = Rest::Broken("its chunks cannot be read");
                        return body;
                    };
                    used += n;
                    match event {
                        Event::NeedMore => return body,
                        Event::Data(data) => body.extend_from_slice(data),
                        Event::End => {
                            self.has_excess = used < raw.len();
                            self.trailers = decoder.take_trailers();
                            self.rest = Rest::Done;
                            return body;
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;
    use std::time::Duration;

    use site::model::Site;
    use taipan_http::status::Status;
    use tokio::time::Instant;

    use super::super::exchange::{BodySource, Opened, Timeouts};
    use super::super::head::Excess;
    use super::super::transport::Transport;
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// The body in these parts of output. `.` follows where its end is found, `+` where bytes follow that, and `!` where a
    /// rule is broken.
    fn check(framing: Framing, parts: &[&str], expected: &str) {
        let mut framed = Framed::new(framing);
        let taken: Vec<Vec<u8>> = parts.iter().map(|part| framed.take(part.as_bytes().to_vec())).collect();
        let end = match framed.rest {
            Rest::Done | Rest::Sized(0) => ".",
            Rest::Broken(_) => "!",
            Rest::Sized(_) | Rest::Open | Rest::Chunked(_) => "",
        };
        let excess = if framed.has_excess { "+" } else { "" };
        let found = String::from_utf8(taken.concat()).unwrap() + end + excess;
        assert_eq!(found, expected, "{framing:?} {parts:?}");
    }

    #[test]
    fn a_body_ends_where_its_length_says() {
        check(Framing::Sized(5), &["he", "llo"], "hello.");
        check(Framing::Sized(5), &["he", "llo, you"], "hello.+");
        check(Framing::Sized(5), &["hell"], "hell");
        check(Framing::Sized(0), &["x"], ".+");
        check(Framing::None, &["a", "b"], "ab");
    }

    #[test]
    fn a_chunked_body_ends_with_its_last_chunk() {
        check(Framing::Chunked, &["2\r\nab\r", "\n1\r\nc\r\n0\r\n\r\n"], "abc.");
        check(Framing::Chunked, &["2\r\nab\r", "\n1\r\nc\r\n0\r\n\r\nmore"], "abc.+");
        check(Framing::Chunked, &["2\r\nab"], "ab");
        check(Framing::Chunked, &["2\r\nabc"], "ab!");
        check(Framing::Chunked, &["2\r\nabc", "\r\n2\r\nde\r\n"], "ab!");
        check(Framing::Chunked, &["2  \r\nab\r\n0\r\n\r\n"], "ab.");
    }

    /// What can be read of the output, without its end.
    #[derive(Clone, Default)]
    struct Output(Rc<RefCell<VecDeque<Vec<u8>>>>);

    impl Output {
        fn write(&self, parts: &[&str]) {
            self.0.borrow_mut().extend(parts.iter().map(|part| part.as_bytes().to_vec()));
        }
    }

    impl Transport for Output {
        fn poll_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_write(&self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_read(&self, _: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
            self.0.borrow_mut().pop_front().map_or(Poll::Pending, |part| Poll::Ready(Ok(Some(part))))
        }

        fn finish(&self, _: Persistence) {}
    }

    /// A chunked body, of which `received` has come with the head.
    fn chunked(services: &Rc<Services>, output: &Output, received: &str) -> UpstreamBody {
        let request = RequestInfo::default();
        let transport = Box::new(output.clone());
        let opened = Opened { transport, source: BodySource::Empty, began: Instant::now() };
        let timeouts = Timeouts { connect: TIMEOUT, first_byte: TIMEOUT, idle: TIMEOUT, total: TIMEOUT };
        let exchange = UpstreamExchange::with_application(services, &request, opened, timeouts, None);
        let head = UpstreamHead {
            status: Status::OK,
            framing: Framing::Chunked,
            persistence: Persistence::KeepAlive,
            fields: Default::default(),
            is_local_redirect: false,
            excess: Excess::Malformed,
            upgrade: None,
            trailer: None,
            repeats_type: false,
        };
        UpstreamBody::new(exchange, &head, received.as_bytes().to_vec())
    }

    /// Runs a test with the services of a worker.
    fn with_services<F: Future<Output = ()>>(test: impl FnOnce(Rc<Services>) -> F) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        runtime.unwrap().block_on(async {
            let (services, _closing) = Services::new(Site::folder(std::env::temp_dir(), Vec::new()), None);
            test(services).await;
        });
    }

    #[test]
    fn more_is_content_or_an_end() {
        with_services(async |services| {
            let output = Output::default();
            let mut body = chunked(&services, &output, "2\r\nab");
            let next = async |body: &mut UpstreamBody| {
                body.next_bytes().await.map(|bytes| bytes.map(|bytes| String::from_utf8(bytes).unwrap()))
            };
            assert_eq!(next(&mut body).await.unwrap().as_deref(), Some("ab"));
            for framing in ["\r\n", "1", "\r"] {
                output.write(&[framing]);
                assert!(!body.has_more(), "{framing:?}");
            }
            output.write(&["\n", "c", "\r\n"]);
            assert!(body.has_more());
            assert_eq!(next(&mut body).await.unwrap().as_deref(), Some("c"));
            assert!(!body.has_more());
            output.write(&["0\r\n\r\n"]);
            assert!(body.has_more());
            assert_eq!(next(&mut body).await.unwrap(), None);
        });
    }
}
