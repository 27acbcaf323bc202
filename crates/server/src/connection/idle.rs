//! The idle set: the connections that wait for nothing but their client, as descriptors in an epoll instance of their
//! own, which is itself one descriptor in the worker's loop, and as entries in a table. They have no task, no buffer
//! and no registration with the runtime.
//!
//! Most requests get their response here: the input is read into the worker's buffer, and the response of the fast path
//! is sent.
//! A connection that would have to wait gets a task (`task`) and comes back when it has answered. A connection that is
//! over stays here, too, while its client has yet to take the last response.

mod http2;
mod set;

use std::io;
use std::mem::take;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

pub use self::set::IdleSet;
use super::client::Client;
use super::h1::{Answered, Http1, Next};
use super::h2::{self, Http2};
use super::log_guard::LogGuard;
use super::output::{Output, Persistence, SendError, Sent};
use super::stream::{More, ReceivedBytes, SendStream, Socket};
use super::task::{Begin, Start};
use super::tls::Failure;
use super::{Deadline, Deadlines, Phase};
use crate::clock::Ticks;
use crate::connection::Connections;
use crate::services::ScratchInput;
use crate::stats::Count;

/// Full buffers that are read from a connection in one visit. Then it gets a task, and others have their turn.
const READS_PER_VISIT: usize = 4;

/// Bytes that the kernel may hold for a client whose connection is closed. It resets some of these connections when its
/// memory for sockets is short (`tcp(7)`, `tcp_mem`).
pub const KEPT: u64 = 128 * 1024;

pub struct IdleConnection {
    pub socket: Socket,
    pub requests: u32,
    state: State,
    /// When it was accepted, or last sent something.
    since: Ticks,
    /// Bytes of a response that the client had not taken when the deadline passed.
    unsent: Option<NonZeroU32>,
    pub client: Client,
    /// `None`: it speaks HTTP/1, as far as is known.
    pub http2: Option<Box<Http2>>,
}

/// The promise of 70 bytes per idle connection, with its part of the table.
const _: () = assert!(size_of::<IdleConnection>() <= 64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next request is awaited.
    Open,
    /// The kernel still sends the last response, and the server has closed its side.
    Draining,
}

/// A short read has emptied a TCP socket, and what comes later is a new edge. After these events it has to be read all
/// the same: the end that the peer has sent must be read now, and urgent data cuts a read short.
const MORE_TO_READ: EventFlags =
    EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR).union(EventFlags::PRI);

/// What becomes of a connection after a visit.
enum Visit {
    Stay,
    Close,
    NeedsTask(Box<Begin>),
    NeedsHttp2Task(Box<h2::task::Begin>),
}

impl Visit {
    fn needs_task(http: Http1, start: Start, input: Vec<u8>) -> Visit {
        Visit::NeedsTask(Box::new(Begin { http, start, input }))
    }
}

impl IdleConnection {
    /// It has had so many requests, and is idle since then.
    pub fn new(socket: Socket, client: Client, requests: u32, since: Ticks) -> IdleConnection {
        IdleConnection { socket, requests, state: State::Open, since, unsent: None, client, http2: None }
    }

    pub fn of_http2(socket: Socket, client: Client, http2: Box<Http2>, since: Ticks) -> IdleConnection {
        let requests = http2.requests();
        IdleConnection { http2: Some(http2), ..IdleConnection::new(socket, client, requests, since) }
    }

    /// How long it may wait, and what counts it when that has passed.
    fn deadline(&self, deadlines: &Deadlines) -> (Deadline, Count) {
        match (self.state, self.requests) {
            (State::Draining, _) => (deadlines.of(Phase::Write), Count::TimeoutWrite),
            (State::Open, 0) if self.socket.is_handshaking() => {
                (deadlines.handshake, Count::TimeoutHandshake)
            }
            (State::Open, 0) => (deadlines.of(Phase::Head), Count::TimeoutHead),
            (State::Open, _) => (deadlines.of(Phase::Idle), Count::TimeoutIdle),
        }
    }

    fn http1(&self) -> Http1 {
        Http1::new(&self.client, self.requests, self.socket.scheme())
    }

    /// The state of HTTP/2, if the client speaks that.
    #[inline]
    fn http2(&mut self, connections: &Connections, input: ScratchInput) -> Option<Box<Http2>> {
        match self.http2.take() {
            None if self.requests == 0 && self.socket.may_speak_http2() => {
                let begins = || h2::is_preface(connections.services.scratch.borrow().input(input));
                let is_http2 = self.socket.has_negotiated_http2() || begins();
                is_http2.then(|| Box::new(Http2::new(connections, &self.client, self.socket.scheme())))
            }
            http2 => http2,
        }
    }

    /// It has had so many requests, and is idle again.
    #[inline]
    pub fn note_responses(&mut self, requests: u32, now: Ticks) {
        self.requests = requests;
        self.since = now;
        self.unsent = None;
    }

    /// From now on it stays only until its client has taken all.
    fn drain(&mut self, now: Ticks) {
        self.socket.shut_down();
        self.state = State::Draining;
        self.since = now;
        self.unsent = None;
    }

    /// Tells the client that the connection ends, and one that speaks HTTP/2, which of its requests have been read.
    fn send_close_notice(&mut self) {
        if let Some(http2) = &mut self.http2 {
            let goaway = http2.last_goaway();
            _ = self.socket.try_send(&goaway, More::Nothing).and_then(|_| self.socket.try_flush());
        }
        self.socket.close_session();
    }

    /// As `send_close_notice`. What the client has not taken by now is dropped.
    fn disconnect(&mut self) {
        self.send_close_notice();
        if self.state == State::Draining {
            self.socket.reset_when_closed();
        }
    }

    /// True while the client takes what the kernel still has of a response, at the least rate or faster. Then the
    /// connection counts as idle only from now on.
    fn is_taking(&mut self, deadline: Deadline, now: Ticks) -> bool {
        // A send queue is counted in an `int` (`tcp(7)`, SIOCOUTQ). The smaller type saves eight bytes per connection.
        let unsent = u32::try_from(self.socket.unacknowledged()).unwrap_or(u32::MAX);
        let taken = self.unsent.map(|before| before.get().saturating_sub(unsent));
        self.since = now;
        self.unsent = NonZeroU32::new(unsent);
        unsent > 0 && taken.is_none_or(|taken| deadline.is_extended_by(taken.into()))
    }
}

/// Visits the connections of the idle set, for as long as the worker lives.
pub async fn serve(connections: Rc<Connections>) -> io::Result<()> {
    loop {
        connections.idle.poll_events().await?;
        connections.services.begin_turn();
        let events = std::mem::take(&mut *connections.idle.events.borrow_mut());
        for event in &events {
            let (key, flags) = (event.data.u64() as usize, event.flags);
            guard(&connections, key, || visit(&connections, key, flags));
        }
        *connections.idle.events.borrow_mut() = events;
    }
}

/// A panic ends the connection that caused it, and nothing else. The hook has logged it.
#[inline]
fn guard(connections: &Connections, key: usize, visit: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(visit)).is_err() {
        connections.services.counts.add(Count::Panicked, 1);
        connections.idle.entries.borrow_mut().try_remove(key);
    }
}

/// Visits a registered connection that has an event.
#[inline]
fn visit(connections: &Rc<Connections>, key: usize, flags: EventFlags) {
    let mut entries = connections.idle.entries.borrow_mut();
    let Some(connection) = entries.get_mut(key) else { return };
    match receive(connections, connection, flags) {
        Visit::Stay => {}
        Visit::Close => {
            entries.remove(key).socket.close_session();
            connections.on_closed();
        }
        Visit::NeedsTask(begin) => {
            let IdleConnection { socket, client, .. } = entries.remove(key);
            drop(entries);
            connections.idle.unregister(&socket);
            connections.give_task(socket, client, *begin);
        }
        Visit::NeedsHttp2Task(begin) => {
            let IdleConnection { socket, client, .. } = entries.remove(key);
            drop(entries);
            connections.idle.unregister(&socket);
            connections.give_http2_task(socket, client, *begin);
        }
    }
}

/// Visits a connection that was just accepted. It is registered only if it stays: one that closes behind its first
/// response never is.
pub fn visit_new(connections: &Rc<Connections>, socket: Socket, client: Client) {
    connections.services.begin_turn();
    let mut connection = IdleConnection::new(socket, client, 0, connections.services.clock.ticks());
    let visit = catch_unwind(AssertUnwindSafe(|| receive(connections, &mut connection, EventFlags::empty())));
    match visit {
        Ok(Visit::Stay) if connection.state == State::Draining => {
            connections.drain(connection.socket, connection.client);
        }
        Ok(Visit::Stay) => connections.keep(connection),
        Ok(Visit::Close) => connection.socket.close_session(),
        Ok(Visit::NeedsTask(begin)) => {
            connections.give_task(connection.socket, connection.client, *begin);
        }
        Ok(Visit::NeedsHttp2Task(begin)) => {
            connections.give_http2_task(connection.socket, connection.client, *begin);
        }
        Err(_) => connections.services.counts.add(Count::Panicked, 1),
    }
}

/// Reads the input, makes the responses, and sends them, as far as that does not block.
#[inline]
fn receive(connections: &Rc<Connections>, connection: &mut IdleConnection, flags: EventFlags) -> Visit {
    let mut output = Output::default();
    for read in 0..READS_PER_VISIT {
        if read > 0 {
            connections.services.begin_turn();
        }
        let received = {
            let scratch = &mut *connections.services.scratch.borrow_mut();
            let space = scratch.space_behind(&[]);
            connection.socket.receive(space)
        };
        let ReceivedBytes { bytes, is_drained } = match received {
            Ok(ReceivedBytes { bytes: 0, .. }) => return Visit::Close,
            Ok(received) => received,
            Err(Errno::AGAIN) if connection.socket.is_signing() => {
                return Visit::needs_task(connection.http1(), Start::Input, Vec::new());
            }
            Err(Errno::AGAIN) => return Visit::Stay,
            Err(Errno::INTR) => continue,
            Err(_) => return fail(connections, connection),
        };
        connections.services.counts.add(Count::Received, bytes as u64);
        if connection.state == State::Draining {
            // Unread bytes would have the connection reset when it is closed (RFC 9112 §9.6).
            continue;
        }
        let input = ScratchInput::first(bytes);
        if let Some(state) = connection.http2(connections, input) {
            match http2::answer(connections, connection, state, input) {
                Visit::Stay if is_drained && !flags.intersects(MORE_TO_READ) => return Visit::Stay,
                Visit::Stay => continue,
                other => return other,
            }
        }
        let mut http = connection.http1();
        http.tls = connection.socket.tls_state();
        http.began = connections.services.turn();
        let local = || connection.socket.local();
        let Answered { rest, next } = http.answer(connections, input, &local, &mut output);
        match next {
            Next::Send => match send(connections, connection, http, &mut output, rest) {
                Visit::Stay => {}
                other => return other,
            },
            next => return Visit::needs_task(http, Start::Next(next, output), copied(connections, rest)),
        }
        if is_drained && !flags.intersects(MORE_TO_READ) {
            return Visit::Stay;
        }
    }
    match connection.state {
        State::Open => match connection.http2.take() {
            None => Visit::needs_task(connection.http1(), Start::Input, Vec::new()),
            Some(http2) => Visit::NeedsHttp2Task(Box::new(h2::task::Begin::idle(*http2))),
        },
        State::Draining => Visit::Stay,
    }
}

/// Ends a connection that has failed. A client that speaks plain HTTP where TLS is expected is told so, and a client of
/// TLS gets an alert.
#[cold]
fn fail(connections: &Rc<Connections>, connection: &mut IdleConnection) -> Visit {
    match connection.socket.take_failure() {
        None => Visit::Close,
        Some(Failure::NotTls(input)) => {
            let mut http = connection.http1();
            let mut output = http.reject_plaintext(connections, &input);
            send(connections, connection, http, &mut output, ScratchInput::first(0))
        }
        Some(failure) => {
            connections.failures.log_session(connection.client.peer(), &failure);
            match failure.has_alert() {
                true => Visit::needs_task(connection.http1(), Start::Linger, Vec::new()),
                false => Visit::Close,
            }
        }
    }
}

/// A copy of the input, which a task can keep.
fn copied(connections: &Connections, input: ScratchInput) -> Vec<u8> {
    connections.services.scratch.borrow().input(input).to_vec()
}

/// The kernel keeps the last bytes of a connection back until its FIN, so that one packet carries both.
struct JoinedEnd {
    /// As the last bytes are those of a file.
    is_corked: bool,
}

impl JoinedEnd {
    /// `None`: the connection goes on, or the last bytes and the FIN cannot be sent together.
    fn begin(socket: &Socket, output: &mut Output) -> Option<JoinedEnd> {
        if output.persistence != Persistence::Close || !socket.joins_end() || !output.is_short() {
            return None;
        }
        let is_corked = output.has_file();
        if is_corked {
            socket.cork();
        }
        output.set_behind_last(More::Follows);
        Some(JoinedEnd { is_corked })
    }

    fn finish(self, socket: &Socket, output: &mut Output, is_sent: bool) {
        if is_sent {
            // Closing would not do: with unread input, the kernel would drop what it keeps back (RFC 9112 §9.6).
            socket.shut_down();
        } else if self.is_corked {
            socket.uncork();
        }
        output.set_behind_last(More::Nothing);
    }
}

/// Sends the responses. `rest`: the input behind the requests that they answer.
#[inline]
fn send(
    connections: &Rc<Connections>,
    connection: &mut IdleConnection,
    http: Http1,
    output: &mut Output,
    rest: ScratchInput,
) -> Visit {
    let joined = JoinedEnd::begin(&connection.socket, output);
    let mut guard = LogGuard::new(&connections.services, output);
    let sent = loop {
        match guard.send(&connection.socket, connections.services.clock.now()) {
            Ok(Sent::Slice) if guard.ends_soon() => {}
            Err(SendError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => break sent,
        }
    };
    guard.disarm();
    if let Some(joined) = joined {
        joined.finish(&connection.socket, output, matches!(sent, Ok(Sent::All)));
    }
    let why = match sent {
        Ok(Sent::All) => None,
        Err(SendError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            return send_on(connections, http, output, rest);
        }
        Ok(Sent::Slice | Sent::NeedsBody | Sent::NotInMemory | Sent::Throttled(_)) => {
            return send_on(connections, http, output, rest);
        }
        Err(error) => Some(error.reason()),
    };
    let (persistence, length) = (output.persistence, output.sent());
    connections.finish(output, why);
    match persistence {
        _ if why.is_some() => Visit::Close,
        Persistence::Close if length > KEPT && connection.socket.unacknowledged() > KEPT => {
            connection.drain(connections.services.clock.ticks());
            Visit::Stay
        }
        Persistence::Close => Visit::Close,
        Persistence::LingeringClose => Visit::needs_task(http, Start::Linger, Vec::new()),
        Persistence::KeepAlive | Persistence::KeepAliveHttp10 if !rest.is_empty() => {
            Visit::needs_task(http, Start::Input, copied(connections, rest))
        }
        Persistence::KeepAlive | Persistence::KeepAliveHttp10 => {
            connection.note_responses(http.requests, connections.services.clock.ticks());
            Visit::Stay
        }
    }
}

/// A task sends the rest of the output.
fn send_on(connections: &Connections, http: Http1, output: &mut Output, rest: ScratchInput) -> Visit {
    Visit::needs_task(http, Start::Next(Next::Send, take(output)), copied(connections, rest))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use site::listener::Protocols;
    use site::model::Site;

    use super::*;
    use crate::exchange::Responder;
    use crate::peer::{Family, Peer};
    use crate::services::Services;

    /// The client's side of a connection in the idle set.
    fn connection(connections: &Connections) -> UnixStream {
        let (client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let client_of = Client::known(Peer::Unix, Default::default());
        let socket = Socket::new(server.into(), Family::Unix, Protocols::default(), None);
        connections.idle.insert(IdleConnection::new(socket, client_of, 0, 0)).unwrap();
        client
    }

    #[test]
    fn a_panic_ends_one_connection() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        runtime.unwrap().block_on(async {
            let site = Site::folder(std::env::temp_dir(), Vec::new());
            let (services, _closing) = Services::new(site, None);
            let responder = Responder::without_upstreams(services, Default::default());
            let connections = Rc::new(Connections::new(responder).unwrap());
            let (mut one, mut other) = (connection(&connections), connection(&connections));
            // While it holds what visits borrow.
            guard(&connections, 0, || {
                let _entries = connections.idle.entries.borrow_mut();
                let _scratch = connections.services.scratch.borrow_mut();
                panic!("a panic of the test");
            });
            assert_eq!(one.read(&mut [0; 1]).unwrap(), 0, "closed");
            assert_eq!(connections.idle.len(), 1);
            other.write_all(b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            guard(&connections, 1, || visit(&connections, 1, EventFlags::IN));
            let mut response = [0; 12];
            other.read_exact(&mut response).unwrap();
            assert_eq!(&response, b"HTTP/1.1 204");
        });
    }
}
