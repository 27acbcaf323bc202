//! The master's end of the control socket: it accepts clients, and reads one request of each. No function waits.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::{DONE, FAILED, MAX_REQUEST, Request, SiteSource, address, is_trusted, peer};
use crate::terminal;

/// How long the master waits for a client's request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_CLIENTS: usize = 16;
/// How long no client is accepted after one could not be, as without a free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The master's end of the control socket.
pub struct Control {
    listener: UnixListener,
    clients: Vec<Client>,
    /// A client could not be accepted, and none is until then.
    pause: Option<Instant>,
    /// Why it could not be accepted.
    failure: Option<io::Error>,
}

pub struct Client {
    stream: UnixStream,
    received: Vec<u8>,
    deadline: Instant,
}

/// What a client has sent so far.
enum ReadRequest {
    Incomplete,
    Request(Request),
    Unknown,
}

impl Control {
    /// Errors: another program serves the same site.
    pub fn open(source: &SiteSource) -> io::Result<Control> {
        Control::with(UnixListener::bind_addr(&address(source)?)?)
    }

    /// Takes the socket that the predecessor hands off.
    pub fn inherit(fd: OwnedFd) -> io::Result<Control> {
        Control::with(UnixListener::from(fd))
    }

    fn with(listener: UnixListener) -> io::Result<Control> {
        listener.set_nonblocking(true)?;
        Ok(Control { listener, clients: Vec::new(), pause: None, failure: None })
    }

    pub fn socket(&self) -> &UnixListener {
        &self.listener
    }

    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// Whether no client is accepted now.
    pub fn is_at_capacity(&self) -> bool {
        self.clients.len() >= MAX_CLIENTS || self.pause.is_some()
    }

    /// Why a client could not be accepted since the last call.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// The earliest deadline of a client that has not sent its request, or the end of a pause.
    pub fn deadline(&self) -> Option<Instant> {
        self.clients.iter().map(|client| client.deadline).chain(self.pause).min()
    }

    /// Accepts clients, reads what they have sent, and returns the next complete request. The other clients stay here,
    /// where a forked child finds and closes them: a client waits until all copies of its socket are closed.
    pub fn receive(&mut self) -> Option<(Client, Request)> {
        self.pause.take_if(|until| *until <= Instant::now());
        while !self.is_at_capacity() {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.failure = Some(error);
                    self.pause = Some(Instant::now() + ACCEPT_PAUSE);
                    break;
                }
            };
            let client = Client { stream, received: Vec::new(), deadline: Instant::now() + REQUEST_TIMEOUT };
            match client.stream.set_nonblocking(true) {
                Ok(()) if is_trusted(&client.stream) => self.clients.push(client),
                _ => client.failed(["only root and the user that runs this program may do this"]),
            }
        }
        let now = Instant::now();
        let mut at = 0;
        while let Some(client) = self.clients.get_mut(at) {
            match client.receive() {
                ReadRequest::Request(request) => return Some((self.clients.remove(at), request)),
                ReadRequest::Incomplete if now < client.deadline => at += 1,
                ReadRequest::Incomplete => drop(self.clients.remove(at)),
                ReadRequest::Unknown => {
                    self.clients.remove(at).failed(["this version does not know that request"])
                }
            }
        }
        None
    }
}

impl Client {
    /// For a request that was not received by the control socket.
    pub fn of(to: OwnedFd) -> Client {
        Client { stream: to.into(), received: Vec::new(), deadline: Instant::now() }
    }

    fn receive(&mut self) -> ReadRequest {
        let mut buffer = [0; MAX_REQUEST];
        let Ok(n) = self.stream.read(&mut buffer) else { return ReadRequest::Incomplete };
        self.received.extend_from_slice(&buffer[..n]);
        match self.received.strip_suffix(b"\n") {
            _ if n == 0 => ReadRequest::Unknown,
            None if self.received.len() < MAX_REQUEST => ReadRequest::Incomplete,
            None => ReadRequest::Unknown,
            Some(line) => Request::parse(line).map_or(ReadRequest::Unknown, ReadRequest::Request),
        }
    }

    /// Who it is, for the error log.
    pub fn name(&self) -> String {
        match peer(&self.stream) {
            Ok(peer) if peer.pid() == 0 => format!("uid {}, a process outside of this container", peer.uid()),
            Ok(peer) => format!("uid {}, process {}", peer.uid(), peer.pid()),
            Err(_) => "unknown".to_owned(),
        }
    }

    pub fn done(mut self, text: &str) {
        self.respond(DONE, text);
    }

    pub fn failed<'a>(mut self, lines: impl IntoIterator<Item = &'a str>) {
        let text: String = lines.into_iter().map(|line| format!("{}\n", terminal::plain(line))).collect();
        self.respond(FAILED, &text);
    }

    /// Sends the first line; another process writes the rest of the response to the returned socket.
    pub fn into_done_socket(mut self) -> OwnedFd {
        self.respond(DONE, "");
        self.stream.into()
    }

    /// Another process writes the whole response to it: see `response_text`.
    pub fn into_socket(self) -> OwnedFd {
        self.stream.into()
    }

    /// A response is smaller than the socket's buffer.
    fn respond(&mut self, first: &str, text: &str) {
        // The client may have given up waiting.
        _ = self.stream.write_all(format!("{first}{text}").as_bytes());
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
