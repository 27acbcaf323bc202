//! A request by FastCGI: records on a connection of its own, or a stream of a multiplexed connection. The response is
//! that of a CGI script. What the application writes to its error stream goes to the error log.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use script::environment::Environment;
use script::fastcgi::client::{Client, Event};
use script::fastcgi::record::MAX_CONTENT;
use script::fastcgi::{self, ProtocolStatus, RequestId, Role};
use site::upstream::Upstream;
use taipan_http::head::Persistence;
use taipan_http::status::Status;
use tokio::time::{Instant, timeout};

use super::transport::{Connection, ReadError, Retry, Sent, Transport};
use crate::log;
use crate::log::stderr::Lines;
use crate::pool::Checkout;
use crate::pool::message::Fault;
use crate::pool::multiplexed::{FastCgiStream, StreamData, StreamEnd};
use crate::services::Services;
use crate::spawner::Exit;
use crate::tasks::spawn_local;

/// Reads at a time: an application that writes only errors does not delay others.
const READS: usize = 16;
/// How long to read behind a response on a multiplexed connection, for the log and the end of the request.
const END_TIMEOUT: Duration = Duration::from_secs(1);

pub struct FastCgi {
    path: Path,
    response: Rc<RefCell<Response>>,
}

enum Path {
    Exclusive(Box<Connection>, Option<RequestId>),
    /// `None` behind the end of the exchange.
    Multiplexed(RefCell<Option<FastCgiStream>>),
}

/// What has been received.
struct Response {
    label: Rc<str>,
    /// `None`: the response has not ended.
    exit: Option<Exit>,
    status: ProtocolStatus,
    errors: Lines,
    output: OutputState,
    /// The connection has ended, or bytes follow the end of the response, which belong to no request.
    is_spent: bool,
    /// Of the request.
    body_ended: bool,
}

/// How much of its output the application has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OutputState {
    Nothing,
    Something,
    /// The response is whole, although the end of the request may be missing.
    Whole,
}

impl FastCgi {
    /// Buffers the records before the body.
    pub fn new(
        services: &Rc<Services>,
        upstream: &Upstream,
        checkout: Checkout,
        role: Role,
        environment: &Environment,
        label: &Rc<str>,
    ) -> FastCgi {
        let mut response = Response::new(services, label);
        let path = match checkout.share(services) {
            Checkout::Exclusive(mut connection) => {
                let client = connection.fastcgi.get_or_insert_with(|| Box::new(Client::new(1)));
                let persistence = match upstream.keep.is_zero() {
                    true => fastcgi::Persistence::Close,
                    false => fastcgi::Persistence::KeepAlive,
                };
                let mut out = Vec::new();
                let id = client.begin(role, persistence, environment, &mut out);
                if id.is_none() {
                    response.exit = Some(Exit::Lost);
                }
                Path::Exclusive(Box::new(Connection::new(services, connection, out)), id)
            }
            // It speaks another protocol.
            Checkout::Http2(_) => {
                response.exit = Some(Exit::Lost);
                Path::Multiplexed(RefCell::new(None))
            }
            Checkout::Multiplexed(mut stream) => {
                stream.begin(role, environment);
                Path::Multiplexed(RefCell::new(Some(stream)))
            }
        };
        FastCgi { path, response: Rc::new(RefCell::new(response)) }
    }

    /// As `Http::begun`. `id`: of the request on its connection.
    pub fn begun(services: &Rc<Services>, connection: Connection, id: RequestId, label: &Rc<str>) -> FastCgi {
        let response = Response { body_ended: true, ..Response::new(services, label) };
        let path = Path::Exclusive(Box::new(connection), Some(id));
        FastCgi { path, response: Rc::new(RefCell::new(response)) }
    }

    fn poll_data(&self, cx: &mut Context<'_>) -> Poll<Result<StreamData, ReadError>> {
        match &self.path {
            Path::Multiplexed(stream) => match &*stream.borrow() {
                Some(stream) => stream.poll_receive(cx).map(Ok),
                None => Poll::Ready(Ok(StreamData::broken())),
            },
            Path::Exclusive(connection, id) => {
                let received =
                    ready!(connection.poll_receive(cx, |bytes, client| decode(bytes, client, *id)));
                let mut response = self.response.borrow_mut();
                let (data, is_spent) = match received {
                    // An application that closes the connection before it has read the whole request resets it.
                    Err(_) if response.output == OutputState::Whole => (StreamData::broken(), true),
                    received => received?,
                };
                response.is_spent |= is_spent;
                match data.end {
                    Some(StreamEnd::Broken(Some(error))) => {
                        log::error(format_args!("{}: {error}", response.label));
                        response.exit = Some(Exit::Lost);
                        Poll::Ready(Err(ReadError::Failed(io::ErrorKind::InvalidData)))
                    }
                    _ => Poll::Ready(Ok(data)),
                }
            }
        }
    }
}

/// The data of the only request of a connection, and whether the connection has ended, or bytes follow the end of the
/// request. No bytes: the connection has ended.
fn decode(bytes: &[u8], client: Option<&mut Client>, id: Option<RequestId>) -> (StreamData, bool) {
    let Some(client) = client.filter(|_| !bytes.is_empty()) else { return (StreamData::broken(), true) };
    let mut data = StreamData::default();
    let mut rest = bytes;
    loop {
        let (used, event) = match client.receive(rest) {
            Ok(received) => received,
            Err(error) => {
                data.end = Some(StreamEnd::Broken(Some(error)));
                return (data, false);
            }
        };
        rest = &rest[used..];
        match event {
            Event::NeedMore => {
                data.is_output_whole = id.is_some_and(|id| client.has_whole_output(id));
                return (data, false);
            }
            Event::Stdout(_, bytes) => {
                // Once for all that has been received.
                data.stdout.reserve(bytes.len() + rest.len());
                data.stdout.extend_from_slice(bytes);
            }
            Event::Stderr(_, bytes) => data.stderr.extend_from_slice(bytes),
            Event::End(_, status, code) => {
                data.end = Some(StreamEnd::Whole(status, code));
                return (data, !rest.is_empty());
            }
            Event::Capabilities(_) | Event::Unknown(_) => {}
        }
    }
}

impl Response {
    fn new(services: &Services, label: &Rc<str>) -> Response {
        let limits = &services.site.scripts;
        Response {
            label: label.clone(),
            exit: None,
            status: ProtocolStatus::Complete,
            errors: Lines::new(limits.stderr_line, limits.stderr_lines),
            output: OutputState::Nothing,
            is_spent: false,
            body_ended: false,
        }
    }

    /// Logs errors, and gives the bytes of the response.
    fn on_data(&mut self, data: StreamData) -> Vec<u8> {
        let Response { label, errors, .. } = self;
        let log = |line: &str| log::script(format_args!("{label}: {line}"));
        if !data.stderr.is_empty() {
            errors.receive(&data.stderr, Instant::now(), log);
        }
        let has_ended = matches!(data.end, Some(StreamEnd::Whole(..)));
        let has_begun = has_ended || !data.stdout.is_empty() || !data.stderr.is_empty();
        self.output = self.output.max(match data.is_output_whole {
            true => OutputState::Whole,
            false if has_begun => OutputState::Something,
            false => OutputState::Nothing,
        });
        match data.end {
            Some(StreamEnd::Whole(status, code)) => {
                self.status = status;
                self.exit = Some(match status {
                    ProtocolStatus::Complete => Exit::Code(code as u8),
                    _ => Exit::Lost,
                });
                errors.finish(log);
            }
            // FCGI_END_REQUEST would have told nothing that the client gets.
            Some(StreamEnd::Broken(None)) if self.output == OutputState::Whole => {
                self.exit = Some(Exit::Code(0));
                errors.finish(log);
            }
            Some(StreamEnd::Broken(error)) => {
                error.iter().for_each(|error| log(&error.to_string()));
                self.exit = Some(Exit::Lost);
            }
            None => {}
        }
        data.stdout
    }
}

impl Transport for FastCgi {
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.response.borrow().exit.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        match &self.path {
            Path::Exclusive(connection, _) => connection.poll_flush(cx),
            Path::Multiplexed(stream) => match &*stream.borrow() {
                Some(stream) => stream.poll_writable(cx),
                None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            },
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(cx))?;
        let taken = &bytes[..bytes.len().min(MAX_CONTENT)];
        match &self.path {
            Path::Exclusive(connection, Some(id)) => {
                connection.push_records(|client, out| client.stdin(*id, taken, out))
            }
            Path::Exclusive(_, None) => {}
            Path::Multiplexed(stream) => stream.borrow().iter().for_each(|stream| stream.stdin(taken)),
        }
        _ = self.poll_ready(cx)?;
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_end_body(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_first = !std::mem::replace(&mut self.response.borrow_mut().body_ended, true);
        if is_first {
            match &self.path {
                Path::Exclusive(connection, Some(id)) => {
                    connection.push_records(|client, out| client.end_stdin(*id, out))
                }
                Path::Exclusive(_, None) => {}
                Path::Multiplexed(stream) => stream.borrow().iter().for_each(FastCgiStream::end_stdin),
            }
        }
        match &self.path {
            Path::Exclusive(connection, _) => connection.poll_flush(cx),
            Path::Multiplexed(_) => self.poll_ready(cx),
        }
    }

    fn is_connected(&self) -> bool {
        match &self.path {
            Path::Exclusive(connection, _) => connection.is_connected(),
            Path::Multiplexed(stream) => stream.borrow().as_ref().is_none_or(FastCgiStream::is_connected),
        }
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        for _ in 0..READS {
            if self.response.borrow().exit.is_some() {
                return Poll::Ready(Ok(None));
            }
            let data = ready!(self.poll_data(cx))?;
            let bytes = self.response.borrow_mut().on_data(data);
            if !bytes.is_empty() {
                return Poll::Ready(Ok(Some(bytes)));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn has_whole_output(&self) -> bool {
        match &self.path {
            Path::Exclusive(..) => self.response.borrow().output == OutputState::Whole,
            Path::Multiplexed(stream) => {
                stream.borrow().as_ref().is_some_and(FastCgiStream::has_whole_output)
            }
        }
    }

    fn poll_exit(&self, _: &mut Context<'_>) -> Poll<Option<Exit>> {
        Poll::Ready(self.response.borrow().exit)
    }

    fn rejection(&self) -> Option<(Status, String)> {
        let status = self.response.borrow().status;
        let code = match status {
            ProtocolStatus::Complete => return None,
            ProtocolStatus::Overloaded => Status::SERVICE_UNAVAILABLE,
            _ => Status::BAD_GATEWAY,
        };
        Some((code, status.to_string()))
    }

    fn retry(&self) -> Retry {
        let Response { status, output, .. } = *self.response.borrow();
        let mut has_begun = output > OutputState::Nothing;
        if let Path::Exclusive(connection, _) = &self.path {
            has_begun |= connection.has_response.get();
        }
        let retry = match &self.path {
            Path::Multiplexed(_) if status == ProtocolStatus::CannotMultiplex => Retry::Alone,
            _ if has_begun && status != ProtocolStatus::Overloaded => Retry::Never,
            Path::Exclusive(connection, _) => connection.at_another(),
            // The task of the connection reports its failure to the pool.
            Path::Multiplexed(stream) => stream.borrow().as_ref().map_or(Retry::Never, |stream| {
                let (endpoint, connection) = (stream.endpoint(), stream.reuse());
                Retry::AtAnother { endpoint, connection, sent: Sent::Something }
            }),
        };
        match retry {
            // It has rejected the request (FastCGI 1.0, section 5.5).
            Retry::AtAnother { endpoint, connection, .. } if status == ProtocolStatus::Overloaded => {
                Retry::AtAnother { endpoint, connection, sent: Sent::Nothing }
            }
            retry => retry,
        }
    }

    fn report_failure(&self, fault: Fault, reason: &str) {
        match &self.path {
            Path::Exclusive(connection, _) => connection.report_failure(fault, reason),
            // The task of the connection reports its end.
            Path::Multiplexed(_) => {}
        }
    }

    fn finish(&self, _: Persistence) {
        let Response { exit, is_spent, body_ended, .. } = *self.response.borrow();
        match &self.path {
            Path::Exclusive(connection, _) => {
                let is_whole = matches!(exit, Some(Exit::Code(_))) && body_ended && !is_spent;
                connection.finish(if is_whole { Persistence::KeepAlive } else { Persistence::Close });
            }
            Path::Multiplexed(stream) => {
                let stream = stream.take();
                if let Some(stream) = stream.filter(|_| exit.is_none()) {
                    spawn_local(read_to_end(stream, self.response.clone()));
                }
            }
        }
    }
}

impl Drop for FastCgi {
    fn drop(&mut self) {
        // Within a record nothing else can be sent. The end of the connection has the same effect.
        if let Path::Exclusive(connection, Some(id)) = &self.path
            && connection.is_connected()
            && connection.is_flushed()
        {
            connection.push_records(|client, out| client.abort(*id, out));
            _ = connection.poll_flush(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Reads what follows a response on a multiplexed connection.
async fn read_to_end(stream: FastCgiStream, response: Rc<RefCell<Response>>) {
    let end = async {
        while response.borrow().exit.is_none() {
            let data = poll_fn(|cx| stream.poll_receive(cx)).await;
            response.borrow_mut().on_data(data);
        }
    };
    _ = timeout(END_TIMEOUT, end).await;
}
