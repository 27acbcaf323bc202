//! Many clients at once, in one thread: each asks, reads, and asks again, and what becomes of every request
//! is counted. What a test needs to say that nobody was turned away.

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

use crate::PATIENCE;
use crate::random::Random;
use crate::response::{Length, Response, find};

/// Connections for which somebody waits in one turn.
const EVENTS: usize = 512;
/// Bytes that are read at once, by all of them.
const READ: usize = 256 * 1024;

/// What a client does after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// It asks again on the same connection.
    KeepsAlive,
    /// It asks again on a new one.
    Reconnects,
}

/// A path, and what stands there. With more than one content, any of them is right.
#[derive(Debug, Clone)]
pub struct Page {
    pub path: String,
    pub contents: Vec<Arc<Vec<u8>>>,
}

/// How often which page is asked for, and by whom.
#[derive(Debug, Clone)]
pub struct Crowd {
    pub address: SocketAddr,
    pub habit: Habit,
    pub clients: usize,
    /// As often as they stand here.
    pub pages: Vec<Page>,
    /// What a request has besides its line and Host, each line with CRLF.
    pub fields: String,
}

/// What became of all requests.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// By status.
    pub answers: BTreeMap<u16, usize>,
    /// Connections that were refused.
    pub refused: usize,
    /// Requests whose connection was reset.
    pub reset: usize,
    /// Requests whose connection was closed before the end of the answer.
    pub cut: usize,
    /// Answers that are not what stands there.
    pub wrong: usize,
    /// 503 that does not say when to come again, or that it is the last.
    pub rude: usize,
    /// Clients that nobody answered in time.
    pub silent: usize,
    /// From asking, or from connecting, to the end of the answer.
    pub times: Vec<Duration>,
    pub connections: usize,
    /// The first few things that went wrong.
    pub faults: Vec<String>,
}

impl Tally {
    pub fn with(&self, status: u16) -> usize {
        self.answers.get(&status).copied().unwrap_or(0)
    }

    pub fn answered(&self) -> usize {
        self.answers.values().sum()
    }

    /// Everything besides answers.
    pub fn failed(&self) -> usize {
        self.refused + self.reset + self.cut + self.wrong + self.rude + self.silent
    }

    pub fn longest(&self) -> Duration {
        self.times.iter().max().copied().unwrap_or_default()
    }

    /// The time that so many of a thousand answers took at most.
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
        let Tally { answers, refused, reset, cut, wrong, rude, silent, connections, faults, .. } = self;
        write!(
            out,
            "answers {answers:?}, refused {refused}, reset {reset}, cut {cut}, wrong {wrong}, rude {rude}, \
             silent {silent}, connections {connections}, median {:?}, 99 % {:?}, longest {:?} {faults:?}",
            self.quantile(500),
            self.quantile(990),
            self.longest()
        )
    }
}

impl Crowd {
    /// Has everybody ask until `enough`, which is told what has happened so far; then those under way
    /// get their answers, and everybody leaves.
    pub fn run(&self, mut enough: impl FnMut(&Tally) -> bool) -> Tally {
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("there is a descriptor left");
        let mut tally = Tally::default();
        let mut random = Random::new(self.clients as u64);
        let mut buffer = vec![0; READ];
        let mut clients: Vec<Option<Visitor>> = (0..self.clients).map(|_| None).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            *client = self.come(&epoll, number, &mut random, &mut tally);
        }
        let mut last_news = Instant::now();
        let mut leaving = false;
        while clients.iter().any(Option::is_some) {
            leaving |= enough(&tally);
            let mut events = Vec::with_capacity(EVENTS);
            let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let waited = epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait));
            match waited {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => panic!("cannot wait: {errno}"),
            }
            if !events.is_empty() {
                last_news = Instant::now();
            } else if last_news.elapsed() > PATIENCE {
                for client in clients.iter_mut().filter_map(Option::take) {
                    tally.silent += 1;
                    tally.fault(|| format!("no answer to {}: {:?}", client.page.path, client.state));
                }
            }
            for event in events {
                let number = event.data.u64() as usize;
                let Some(mut visitor) = clients[number].take() else { continue };
                clients[number] = loop {
                    match visitor.go_on(&mut buffer, &mut tally) {
                        Next::Wait => break Some(visitor),
                        _ if leaving => break None,
                        Next::Again if self.habit == Habit::KeepsAlive => {
                            visitor.ask(random.one_of(&self.pages).clone(), &self.fields);
                        }
                        Next::Again | Next::Gone => {
                            drop(visitor);
                            break self.come(&epoll, number, &mut random, &mut tally);
                        }
                    }
                };
            }
        }
        tally
    }

    /// A new connection, with a request on its way. `None`: it was refused.
    fn come(
        &self,
        epoll: &OwnedFd,
        number: usize,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Option<Visitor> {
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
        let mut visitor = Visitor {
            fd,
            page: random.one_of(&self.pages).clone(),
            request: Vec::new(),
            state: State::Connecting,
            began: Instant::now(),
        };
        visitor.ask(visitor.page.clone(), &self.fields);
        visitor.state = State::Connecting;
        Some(visitor)
    }
}

/// One client.
struct Visitor {
    fd: OwnedFd,
    page: Page,
    /// What is still to be sent.
    request: Vec<u8>,
    state: State,
    began: Instant,
}

#[derive(Debug)]
enum State {
    Connecting,
    Head(Vec<u8>),
    Body { answer: Box<Response>, len: usize, body: Vec<u8> },
}

/// What a client does next.
enum Next {
    Wait,
    /// It has its answer, and the connection stays.
    Again,
    /// The connection is over.
    Gone,
}

impl Visitor {
    fn ask(&mut self, page: Page, fields: &str) {
        self.request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n", page.path).into_bytes();
        self.page = page;
        self.state = State::Head(Vec::new());
        self.began = Instant::now();
    }

    /// Does what can be done without waiting.
    fn go_on(&mut self, buffer: &mut [u8], tally: &mut Tally) -> Next {
        if let State::Connecting = self.state {
            match sockopt::socket_error(&self.fd) {
                Ok(Ok(())) if rustix::net::getpeername(&self.fd).is_ok() => {
                    self.state = State::Head(Vec::new());
                }
                Ok(Ok(())) => return Next::Wait,
                Ok(Err(errno)) | Err(errno) => {
                    tally.refused += 1;
                    tally.fault(|| format!("cannot connect: {errno}"));
                    return Next::Gone;
                }
            }
        }
        while !self.request.is_empty() {
            match send(&self.fd, &self.request, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.request.drain(..sent)),
                Err(Errno::AGAIN) => break,
                // What was answered before can still be read.
                Err(_) => self.request.clear(),
            }
        }
        loop {
            match recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((_, 0)) => {
                    tally.cut += 1;
                    tally.fault(|| format!("closed: {}", self.shown()));
                    return Next::Gone;
                }
                Ok((_, n)) => match self.take(&buffer[..n], tally) {
                    Some(next) => return next,
                    None => continue,
                },
                Err(Errno::AGAIN) => return Next::Wait,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    tally.reset += 1;
                    tally.fault(|| format!("{}: {}", io::Error::from(errno), self.shown()));
                    return Next::Gone;
                }
            }
        }
    }

    /// Reads on in an answer. `Some`: that was the end of it.
    fn take(&mut self, bytes: &[u8], tally: &mut Tally) -> Option<Next> {
        match &mut self.state {
            State::Connecting => {}
            State::Head(head) => {
                head.extend_from_slice(bytes);
                let end = find(head, b"\r\n\r\n")? + 4;
                let parsed = Response::parse_head(&head[..end]);
                let sized = parsed.and_then(|answer| answer.length(false).map(|length| (answer, length)));
                match sized {
                    Ok((answer, Length::Sized(len))) => {
                        let body = head[end..].to_vec();
                        self.state = State::Body { answer: Box::new(answer), len, body };
                    }
                    other => {
                        tally.wrong += 1;
                        tally.fault(|| format!("{}: {other:?}", self.page.path));
                        return Some(Next::Gone);
                    }
                }
            }
            State::Body { body, .. } => body.extend_from_slice(bytes),
        }
        let State::Body { answer, len, body } = &mut self.state else { return None };
        if body.len() < *len {
            return None;
        }
        tally.times.push(self.began.elapsed());
        *tally.answers.entry(answer.status).or_default() += 1;
        let closes = answer.field("connection") == Some("close");
        let polite = answer.has("retry-after") && closes;
        let is_right = match answer.status {
            200 => self.page.contents.iter().any(|content| **content == *body),
            503 => true,
            _ => false,
        };
        if !is_right {
            tally.wrong += 1;
            tally.fault(|| format!("{}: {} with {} bytes", self.page.path, answer.status, body.len()));
        } else if answer.status == 503 && !polite {
            tally.rude += 1;
            tally.fault(|| format!("{}: {answer}", self.page.path));
        }
        Some(if closes { Next::Gone } else { Next::Again })
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
