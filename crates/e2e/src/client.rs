//! A client that sends exactly the bytes that the test gives it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustls::ClientConnection;

use crate::TIMEOUT;
use crate::repeat::Repeater;
use crate::response::{Length, Malformed, Response, chunked, find};
use crate::tls::{self, Tls};

/// One connection, and the bytes that were read from it but not used yet.
#[derive(Debug)]
pub struct Client {
    socket: Socket,
    buffer: Vec<u8>,
    repeater: Option<Arc<Mutex<Repeater>>>,
    traffic: Traffic,
}

/// Bytes above TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// That the server had to read.
    pub sent: u64,
    /// That the server has sent.
    pub received: u64,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<tls::Stream>),
}

/// Why there is no response.
#[derive(Debug)]
pub enum ReadError {
    /// Closed after so many bytes of a response.
    Closed {
        after: usize,
    },
    Reset,
    /// Nothing came within the timeout.
    Silent,
    Malformed(Malformed),
    Failed(io::Error),
}

impl Client {
    /// Panics if no socket listens there.
    pub fn tcp(address: SocketAddr) -> Client {
        Client::of(Socket::Tcp(connected(address)))
    }

    /// As `tcp`, with TLS. The handshake begins with the first bytes that are sent or read, or with
    /// [`Client::handshake`]. Panics if no socket listens there.
    pub fn tls(address: SocketAddr, tls: &Tls) -> Client {
        Client::of(Socket::Tls(Box::new(tls.connect(connected(address)))))
    }

    /// As `tcp`, from this address of the machine. Panics if no socket listens there.
    pub fn tcp_from(source: IpAddr, address: SocketAddr) -> Client {
        Client::of(Socket::Tcp(connected_from(source, address)))
    }

    /// As `tls`, from this address of the machine.
    pub fn tls_from(source: IpAddr, address: SocketAddr, tls: &Tls) -> Client {
        Client::of(Socket::Tls(Box::new(tls.connect(connected_from(source, address)))))
    }

    /// Panics if no socket listens there.
    pub fn unix(path: &Path) -> Client {
        let stream = UnixStream::connect(path);
        Client::of(Socket::Unix(
            stream.unwrap_or_else(|e| panic!("cannot connect to {}: {e}", path.display())),
        ))
    }

    fn of(socket: Socket) -> Client {
        let mut client = Client { socket, buffer: Vec::new(), repeater: None, traffic: Traffic::default() };
        client.set_timeout(TIMEOUT);
        client
    }

    /// With what repeats its requests over other protocols.
    pub(crate) fn repeated_by(self, repeater: Option<Arc<Mutex<Repeater>>>) -> Client {
        Client { repeater, ..self }
    }

    /// A second handle of the same connection, so that one thread can send while another reads. Unused bytes
    /// stay with the first handle.
    pub fn another_handle(&self) -> Client {
        let socket = match &self.socket {
            Socket::Tcp(s) => s.try_clone().map(Socket::Tcp),
            Socket::Unix(s) => s.try_clone().map(Socket::Unix),
            Socket::Tls(_) => panic!("the state of TLS belongs to one handle"),
        };
        let socket = socket.expect("there is a descriptor left");
        Client { socket, buffer: Vec::new(), repeater: None, traffic: Traffic::default() }
    }

    /// The timeout of reads and writes; 10 s at first.
    pub fn set_timeout(&mut self, timeout: Duration) {
        let timeout = Some(timeout);
        let set = match &self.socket {
            Socket::Tcp(s) => s.set_read_timeout(timeout).and_then(|()| s.set_write_timeout(timeout)),
            Socket::Unix(s) => s.set_read_timeout(timeout).and_then(|()| s.set_write_timeout(timeout)),
            Socket::Tls(s) => {
                s.sock.set_read_timeout(timeout).and_then(|()| s.sock.set_write_timeout(timeout))
            }
        };
        set.expect("the duration is not zero");
    }

    /// Sends all bytes. Panics if the server does not take them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Client {
        self.try_send(bytes).expect("the server reads");
        self
    }

    /// What has been sent and received so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Sends all bytes, to a server that may have closed.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.traffic.sent += bytes.as_ref().len() as u64;
        match &mut self.socket {
            Socket::Tcp(s) => s.write_all(bytes.as_ref()),
            Socket::Unix(s) => s.write_all(bytes.as_ref()),
            Socket::Tls(s) => match s.conn.early_data() {
                Some(mut early) if bytes.as_ref().len() <= early.bytes_left() => {
                    early.write_all(bytes.as_ref())
                }
                _ => s.write_all(bytes.as_ref()),
            }
            .and_then(|()| s.flush()),
        }
    }

    /// Completes the handshake of TLS. Errors: why there is none, such as an alert of the server.
    pub fn handshake(&mut self) -> io::Result<()> {
        let Socket::Tls(s) = &mut self.socket else { panic!("a connection without TLS") };
        let result = s.conn.complete_io(&mut s.sock);
        result.map(|_| ())
    }

    /// What TLS has negotiated.
    pub fn tls_state(&self) -> &ClientConnection {
        let Socket::Tls(s) = &self.socket else { panic!("a connection without TLS") };
        &s.conn
    }

    /// Sends bytes below TLS, as they are.
    pub fn send_beneath_tls(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Socket::Tls(s) = &mut self.socket else { panic!("a connection without TLS") };
        s.sock.write_all(bytes)
    }

    /// Sends the bytes one by one, each in its own packet.
    pub fn dribble(&mut self, bytes: impl AsRef<[u8]>) -> &mut Client {
        for byte in bytes.as_ref() {
            self.send([*byte]);
        }
        self
    }

    /// Shuts down the sending side, in TLS by a `close_notify`; the response can still be read.
    pub fn half_close(&mut self) {
        let shut = match &mut self.socket {
            Socket::Tcp(s) => s.shutdown(Shutdown::Write),
            Socket::Unix(s) => s.shutdown(Shutdown::Write),
            Socket::Tls(s) => {
                s.conn.send_close_notify();
                s.flush()
            }
        };
        shut.expect("the server is still there");
    }

    /// Closes with a reset, as when a program is killed in the middle of a response.
    pub fn reset(self) {
        let now = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(self.as_fd(), now).expect("it is a socket");
    }

    /// `GET path` as HTTP/1.1 for the host `localhost`, and its response.
    pub fn get(&mut self, path: &str) -> Response {
        self.request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// As `get`, with further field lines, each with its CRLF.
    pub fn get_with(&mut self, path: &str, fields: &str) -> Response {
        self.request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    }

    /// Sends a request and reads its response; the response to a `HEAD ` has no body.
    pub fn request(&mut self, request: impl AsRef<[u8]>) -> Response {
        let request = request.as_ref();
        self.send(request);
        let is_head = request.starts_with(b"HEAD ");
        let response = if is_head { self.read_response_to_head() } else { self.read_response() };
        if let Some(repeater) = &self.repeater {
            repeater.lock().expect("no request panics").repeat(request, &response);
        }
        response
    }

    /// The next response. Panics if there is none.
    pub fn read_response(&mut self) -> Response {
        self.try_read_response().unwrap_or_else(|e| panic!("no response: {e}"))
    }

    /// The next response, which is to a HEAD.
    pub fn read_response_to_head(&mut self) -> Response {
        self.try_read(true).unwrap_or_else(|e| panic!("no response: {e}"))
    }

    /// The next response, if there is one.
    pub fn try_read_response(&mut self) -> Result<Response, ReadError> {
        self.try_read(false)
    }

    /// The next response, which is to a HEAD, if there is one.
    pub fn try_read_response_to_head(&mut self) -> Result<Response, ReadError> {
        self.try_read(true)
    }

    fn try_read(&mut self, to_head: bool) -> Result<Response, ReadError> {
        let mut seen = 0;
        let end = loop {
            // The empty line may have begun in bytes that were already searched.
            let from = usize::saturating_sub(seen, 3);
            if let Some(at) = find(&self.buffer[from..], b"\r\n\r\n") {
                break from + at + 4;
            }
            seen = self.buffer.len();
            self.read_more()?;
        };
        let mut response = Response::parse_head(&self.buffer[..end]).map_err(ReadError::Malformed)?;
        let used = match response.length(to_head).map_err(ReadError::Malformed)? {
            Length::Sized(len) => {
                while self.buffer.len() - end < len {
                    self.read_more()?;
                }
                response.body = self.buffer[end..end + len].to_vec();
                end + len
            }
            Length::Chunked => loop {
                if let Some((body, trailers, len)) =
                    chunked(&self.buffer[end..]).map_err(ReadError::Malformed)?
                {
                    (response.body, response.trailers) = (body, trailers);
                    break end + len;
                }
                self.read_more()?;
            },
            Length::UntilClose => {
                while self.fill().map_err(ReadError::of)? > 0 {}
                response.body = self.buffer[end..].to_vec();
                self.buffer.len()
            }
        };
        self.buffer.drain(..used);
        Ok(response)
    }

    /// All bytes until the server closes. Panics if it does not close, or if the connection is reset.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        while self.fill().expect("the server closes") > 0 {}
        std::mem::take(&mut self.buffer)
    }

    /// The bytes of one read, without waiting for more.
    pub fn read_some(&mut self) -> io::Result<Vec<u8>> {
        if self.buffer.is_empty() {
            self.fill()?;
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    /// The next response in words: `200 body`, another status, or `cut`; perhaps behind interim responses.
    pub fn outcome(&mut self) -> String {
        match self.try_read_response() {
            Ok(response) if response.status < 200 => format!("{}, {}", response.status, self.outcome()),
            Ok(response) if response.status == 200 => format!("200 {}", response.text()),
            Ok(response) => response.status.to_string(),
            Err(ReadError::Closed { after: 1.. } | ReadError::Reset) => "cut".to_owned(),
            Err(other) => other.to_string(),
        }
    }

    /// So many bytes.
    pub fn read_exactly(&mut self, count: usize) -> Result<Vec<u8>, ReadError> {
        while self.buffer.len() < count {
            self.read_more()?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// Waits for the server to close. True if it sent no further byte; a reset counts as a close.
    pub fn is_closed(&mut self) -> bool {
        if !self.buffer.is_empty() {
            return false;
        }
        match self.fill() {
            Ok(n) => n == 0,
            Err(e) => e.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// As `is_closed`, but a reset does not count: it may destroy bytes that were sent before.
    pub fn is_finished(&mut self) -> bool {
        self.buffer.is_empty() && matches!(self.fill(), Ok(0))
    }

    /// Sets the kernel's receive buffer in bytes; a small one makes a slow reader visible to the server.
    pub fn set_receive_buffer(&mut self, bytes: usize) {
        rustix::net::sockopt::set_socket_recv_buffer_size(self.as_fd(), bytes).expect("it is a socket");
    }

    /// Reads at least one more byte. Errors: why there is none.
    fn read_more(&mut self) -> Result<(), ReadError> {
        match self.fill() {
            Ok(0) => Err(ReadError::Closed { after: self.buffer.len() }),
            Ok(_) => Ok(()),
            Err(e) => Err(ReadError::of(e)),
        }
    }

    /// One read, appended to the buffer.
    fn fill(&mut self) -> io::Result<usize> {
        const MOST: usize = 32 * 1024;
        let len = self.buffer.len();
        self.buffer.resize(len + MOST, 0);
        let read = loop {
            let space = &mut self.buffer[len..];
            let read = match &mut self.socket {
                Socket::Tcp(s) => s.read(space),
                Socket::Unix(s) => s.read(space),
                Socket::Tls(s) => s.read(space),
            };
            match read {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let count = *read.as_ref().unwrap_or(&0);
        self.traffic.received += count as u64;
        self.buffer.truncate(len + count);
        read
    }
}

fn connected_from(source: IpAddr, address: SocketAddr) -> TcpStream {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("there is a descriptor left");
    bind(&fd, &SocketAddr::new(source, 0)).unwrap_or_else(|e| panic!("no address {source}: {e}"));
    connect(&fd, &address).unwrap_or_else(|e| panic!("cannot connect to {address}: {e}"));
    fd.into()
}

fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap_or_else(|e| panic!("cannot connect to {address}: {e}"));
    // Bytes that are sent alone must arrive alone.
    stream.set_nodelay(true).expect("it is a TCP socket");
    stream
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(s) => s.as_fd(),
            Socket::Unix(s) => s.as_fd(),
            Socket::Tls(s) => s.sock.as_fd(),
        }
    }
}

impl ReadError {
    pub(crate) fn of(error: io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ReadError::Silent,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ReadError::Reset,
            _ => ReadError::Failed(error),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Closed { after } => write!(out, "closed after {after} bytes"),
            ReadError::Reset => out.write_str("reset"),
            ReadError::Silent => out.write_str("nothing comes"),
            ReadError::Malformed(what) => what.fmt(out),
            ReadError::Failed(error) => error.fmt(out),
        }
    }
}
