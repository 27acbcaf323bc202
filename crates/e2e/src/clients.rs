//! Many clients at once, in one thread: each sends a request, reads the response, and sends the next one. The
//! outcome of every request is counted, so that a test can say that no client was turned away.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with, sockopt,
};

use crate::TIMEOUT;
use crate::random::Random;
use crate::response::{Length, Response, find};

/// Events that one wait may return.
const EVENTS: usize = 512;
/// Bytes of one read; all clients share the buffer.
const READ: usize = 256 * 1024;

/// What a client does after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// It sends the next request on the same connection.
    KeepAlive,
    /// It sends the next request on a new connection.
    Close,
}

/// A path and its content. With more than one content, any of them is right.
#[derive(Debug, Clone)]
pub struct Page {
    pub path: String,
    pub contents: Vec<Arc<Vec<u8>>>,
}

/// A group of clients, and what they request.
#[derive(Debug, Clone)]
pub struct Clients {
    pub address: SocketAddr,
    pub persistence: Persistence,
    pub count: usize,
    /// Chosen at random; a page that is listed twice is requested twice as often.
    pub pages: Vec<Page>,
    /// Further field lines of every request, each with its CRLF.
    pub fields: String,
}

/// The outcomes of all requests.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// By status.
    pub responses: BTreeMap<u16, usize>,
    /// Connections that were refused.
    pub refused: usize,
    /// Requests whose connection was reset.
    pub reset: usize,
    /// Requests whose connection was closed before the end of the response.
    pub cut: usize,
    /// Responses with another status or another body than the page has.
    pub wrong: usize,
    /// Responses of 503 without `Retry-After` or `Connection: close`.
    pub invalid_503: usize,
    /// Clients that got no response in time.
    pub silent: usize,
    /// From the request, or from the connect, to the end of the response.
    pub times: Vec<Duration>,
    pub connections: usize,
    /// The first few things that went wrong.
    pub faults: Vec<String>,
}

impl Tally {
    pub fn with(&self, status: u16) -> usize {
        self.responses.get(&status).copied().unwrap_or(0)
    }

    pub fn completed(&self) -> usize {
        self.responses.values().sum()
    }

    /// All outcomes that are no response.
    pub fn failed(&self) -> usize {
        self.refused + self.reset + self.cut + self.wrong + self.invalid_503 + self.silent
    }

    pub fn longest(&self) -> Duration {
        self.times.iter().max().copied().unwrap_or_default()
    }

    /// The time within which so many of a thousand responses came.
    pub fn quantile(&self, per_mille: usize) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        let at = (times.len() * per_mille).div_ceil(1000).saturating_sub(1);
        times.get(at).copied().unwrap_or_default()
    }

    fn fault(&mut self, what: impl FnOnce() -> String) {
        const MOST: usize = 5;
        if self.faults.len() < MOST {
            self.faults.push(what());
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { responses, refused, reset, cut, wrong, invalid_503, silent, connections, faults, .. } =
            self;
        write!(
            out,
            "responses {responses:?}, refused {refused}, reset {reset}, cut {cut}, wrong {wrong}, \
             invalid 503 {invalid_503}, silent {silent}, connections {connections}, median {:?}, 99 % {:?}, longest {:?} {faults:?}",
            self.quantile(500),
            self.quantile(990),
            self.longest()
        )
    }
}

impl Clients {
    /// All clients send requests until `enough`, which gets the counts so far. Then the requests under way get
    /// their responses, and all clients close.
    pub fn run(&self, mut enough: impl FnMut(&Tally) -> bool) -> Tally {
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("there is a descriptor left");
        let mut tally = Tally::default();
        let mut random = Random::new(self.count as u64);
        let mut buffer = vec![0; READ];
        let mut clients: Vec<Option<Connection>> = (0..self.count).map(|_| None).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            *client = self.open(&epoll, number, &mut random, &mut tally);
        }
        let mut last_event = Instant::now();
        let mut stopping = false;
        while clients.iter().any(Option::is_some) {
            stopping |= enough(&tally);
            let mut events = Vec::with_capacity(EVENTS);
            let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let waited = epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait));
            match waited {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => panic!("cannot wait: {errno}"),
            }
            if !events.is_empty() {
                last_event = Instant::now();
            } else if last_event.elapsed() > TIMEOUT {
                for client in clients.iter_mut().filter_map(Option::take) {
                    tally.silent += 1;
                    tally.fault(|| format!("no response to {}: {:?}", client.page.path, client.state));
                }
            }
            for event in events {
                let number = event.data.u64() as usize;
                let Some(mut connection) = clients[number].take() else { continue };
                clients[number] = loop {
                    match connection.advance(&mut buffer, &mut tally) {
                        Next::Wait => break Some(connection),
                        _ if stopping => break None,
                        Next::Done if self.persistence == Persistence::KeepAlive => {
                            connection.send_request(random.one_of(&self.pages).clone(), &self.fields);
                        }
                        Next::Done | Next::Closed => {
                            drop(connection);
                            break self.open(&epoll, number, &mut random, &mut tally);
                        }
                    }
                };
            }
        }
        tally
    }

    /// A new connection with a first request to send. `None`: the connection was refused.
    fn open(
        &self,
        epoll: &OwnedFd,
        number: usize,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Option<Connection> {
        let family = if self.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = socket_with(family, SocketType::STREAM, flags, None).expect("there is a descriptor left");
        sockopt::set_tcp_nodelay(&fd, true).expect("it is a TCP socket");
        tally.connections += 1;
        match connect(&fd, &self.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => {
                tally.refused += 1;
                tally.fault(|| format!("cannot connect: {errno}"));
                return None;
            }
        }
        let what = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(epoll, &fd, EventData::new_u64(number as u64), what).expect("it is an epoll instance");
        let mut connection = Connection {
            fd,
            page: random.one_of(&self.pages).clone(),
            request: Vec::new(),
            state: State::Connecting,
            began: Instant::now(),
        };
        connection.send_request(connection.page.clone(), &self.fields);
        connection.state = State::Connecting;
        Some(connection)
    }
}

/// One client's connection.
struct Connection {
    fd: OwnedFd,
    page: Page,
    /// The unsent rest.
    request: Vec<u8>,
    state: State,
    began: Instant,
}

#[derive(Debug)]
enum State {
    Connecting,
    Head(Vec<u8>),
    Body { response: Box<Response>, len: usize, body: Vec<u8> },
}

/// What a client does next.
enum Next {
    Wait,
    /// The response is complete and the connection stays open.
    Done,
    /// The connection is closed.
    Closed,
}

impl Connection {
    fn send_request(&mut self, page: Page, fields: &str) {
        self.request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n", page.path).into_bytes();
        self.page = page;
        self.state = State::Head(Vec::new());
        self.began = Instant::now();
    }

    /// Sends and reads until one of them would block.
    fn advance(&mut self, buffer: &mut [u8], tally: &mut Tally) -> Next {
        if let State::Connecting = self.state {
            match sockopt::socket_error(&self.fd) {
                Ok(Ok(())) if rustix::net::getpeername(&self.fd).is_ok() => {
                    self.state = State::Head(Vec::new());
                }
                Ok(Ok(())) => return Next::Wait,
                Ok(Err(errno)) | Err(errno) => {
                    tally.refused += 1;
                    tally.fault(|| format!("cannot connect: {errno}"));
                    return Next::Closed;
                }
            }
        }
        while !self.request.is_empty() {
            match send(&self.fd, &self.request, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.request.drain(..sent)),
                Err(Errno::AGAIN) => break,
                // A response that came earlier can still be read.
                Err(_) => self.request.clear(),
            }
        }
        loop {
            match recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((_, 0)) => {
                    tally.cut += 1;
                    tally.fault(|| format!("closed: {}", self.shown()));
                    return Next::Closed;
                }
                Ok((_, n)) => match self.receive(&buffer[..n], tally) {
                    Some(next) => return next,
                    None => continue,
                },
                Err(Errno::AGAIN) => return Next::Wait,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    tally.reset += 1;
                    tally.fault(|| format!("{}: {}", io::Error::from(errno), self.shown()));
                    return Next::Closed;
                }
            }
        }
    }

    /// Parses the next bytes of the response. `Some`: the response is complete.
    fn receive(&mut self, bytes: &[u8], tally: &mut Tally) -> Option<Next> {
        match &mut self.state {
            State::Connecting => {}
            State::Head(head) => {
                head.extend_from_slice(bytes);
                let end = find(head, b"\r\n\r\n")? + 4;
                let parsed = Response::parse_head(&head[..end]);
                let sized =
                    parsed.and_then(|response| response.length(false).map(|length| (response, length)));
                match sized {
                    Ok((response, Length::Sized(len))) => {
                        let body = head[end..].to_vec();
                        self.state = State::Body { response: Box::new(response), len, body };
                    }
                    other => {
                        tally.wrong += 1;
                        tally.fault(|| format!("{}: {other:?}", self.page.path));
                        return Some(Next::Closed);
                    }
                }
            }
            State::Body { body, .. } => body.extend_from_slice(bytes),
        }
        let State::Body { response, len, body } = &mut self.state else { return None };
        if body.len() < *len {
            return None;
        }
        tally.times.push(self.began.elapsed());
        *tally.responses.entry(response.status).or_default() += 1;
        let closes = response.field("connection") == Some("close");
        let is_complete_503 = response.has("retry-after") && closes;
        let is_right = match response.status {
            200 => self.page.contents.iter().any(|content| **content == *body),
            503 => true,
            _ => false,
        };
        if !is_right {
            tally.wrong += 1;
            tally.fault(|| format!("{}: {} with {} bytes", self.page.path, response.status, body.len()));
        } else if response.status == 503 && !is_complete_503 {
            tally.invalid_503 += 1;
            tally.fault(|| format!("{}: {response}", self.page.path));
        }
        Some(if closes { Next::Closed } else { Next::Done })
    }

    fn shown(&self) -> String {
        let have = match &self.state {
            State::Connecting => "not connected".to_owned(),
            State::Head(head) => format!("{} bytes of the head", head.len()),
            State::Body { len, body, .. } => format!("{} of {len} bytes", body.len()),
        };
        format!("{} after {:?}: {have}", self.page.path, self.began.elapsed())
    }
}
