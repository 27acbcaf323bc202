//! The client: sends the requests of a fixed script, and records the outcome of each, byte for byte.
//!
//! Knows nothing of the server but its address, and nothing of faults.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use site::address::Address;

/// Longer than any response takes.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The status of a request behind the last one that the server serves on the connection.
pub const NO_RESPONSE: u16 = 0;

/// One request, and the status of its response when nothing fails.
pub struct Request {
    pub method: &'static str,
    pub rest_of_line: &'static str,
    pub fields: &'static str,
    pub body: &'static str,
    pub status: u16,
}

/// How the requests of a connection are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    OneByOne,
    AllAtOnce,
}

pub struct Session {
    pub sending: Sending,
    pub requests: &'static [Request],
}

const fn ask(method: &'static str, rest_of_line: &'static str, status: u16) -> Request {
    Request { method, rest_of_line, fields: "", body: "", status }
}

const fn get(rest_of_line: &'static str, status: u16) -> Request {
    ask("GET", rest_of_line, status)
}

const fn with(fields: &'static str, ask: Request) -> Request {
    Request { fields, ..ask }
}

const fn body(body: &'static str, ask: Request) -> Request {
    Request { body, ..ask }
}

/// The first connection stays open until all others are closed, and then sends its last request.
pub const SCRIPT: &[Session] = &[
    Session {
        sending: Sending::OneByOne,
        requests: &[get("/small HTTP/1.1", 200), with("Connection: close\r\n", get("/small HTTP/1.1", 200))],
    },
    Session {
        sending: Sending::OneByOne,
        requests: &[
            get("/small HTTP/1.1", 200),
            ask("HEAD", "/small HTTP/1.1", 200),
            with("If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT\r\n", get("/small HTTP/1.1", 304)),
            get("/big HTTP/1.1", 200),
            with("Range: bytes=100000-101999\r\n", get("/big HTTP/1.1", 206)),
            with("Range: bytes=0-99,5000-5999,-300\r\n", get("/big HTTP/1.1", 206)),
            with("Range: bytes=10-19,30-39\r\n", get("/small HTTP/1.1", 206)),
            with("Range: bytes=9999999-\r\n", get("/big HTTP/1.1", 416)),
            get("/missing HTTP/1.1", 404),
            with("Connection: close\r\n", get("/small HTTP/1.1", 200)),
        ],
    },
    Session {
        sending: Sending::AllAtOnce,
        requests: &[
            get("/notes.txt HTTP/1.1", 200),
            get("/pages/ HTTP/1.1", 200),
            ask("HEAD", "/big HTTP/1.1", 200),
            get("/folder/ HTTP/1.1", 200),
            get("/folder/two HTTP/1.1", 200),
            get("/pages HTTP/1.1", 301),
        ],
    },
    Session {
        sending: Sending::OneByOne,
        requests: &[
            with("Content-Length: 5\r\n", body("hello", get("/small HTTP/1.1", 200))),
            with(
                "Transfer-Encoding: chunked\r\n",
                body("5\r\nhello\r\n0\r\n\r\n", get("/small HTTP/1.1", 200)),
            ),
            ask("OPTIONS", "/small HTTP/1.1", 204),
        ],
    },
    Session {
        sending: Sending::OneByOne,
        requests: &[
            get("/packed HTTP/1.1", 200),
            with("Accept-Encoding: gzip\r\n", get("/packed HTTP/1.1", 200)),
            with("Accept-Encoding: gzip\r\n", get("/notes.txt HTTP/1.1", 200)),
            get("/absolute HTTP/1.1", 200),
        ],
    },
    Session {
        sending: Sending::OneByOne,
        requests: &[
            get("/folder/?format=json HTTP/1.1", 200),
            get("/folder/?format=json HTTP/1.1", 200),
            get("/../small HTTP/1.1", 400),
        ],
    },
    Session { sending: Sending::OneByOne, requests: &[get("/big HTTP/1.0", 200)] },
    Session { sending: Sending::OneByOne, requests: &[get("/packed HTTP/1.0", 200)] },
    Session {
        sending: Sending::AllAtOnce,
        requests: &[get("/../small HTTP/1.1", 400), get("/small HTTP/1.1", NO_RESPONSE)],
    },
    Session { sending: Sending::OneByOne, requests: &[ask("NONSENSE", "", 400)] },
];

/// Sent after the fault.
pub const PLAIN: Session = Session { sending: Sending::OneByOne, requests: &[get("/small HTTP/1.1", 200)] };

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The bytes of a complete response.
    Response(Vec<u8>),
    /// The connection ended within the response, or before it.
    Cut(Vec<u8>),
    /// The connection had ended before the request was sent.
    Unsent,
    /// A timeout: the server sent no more bytes and kept the connection open.
    Silence(Vec<u8>),
}

/// The outcomes of all sessions, in order.
pub type Outcomes = Vec<Vec<Outcome>>;

/// Runs the script, one connection after the other. Each request has its name in `User-Agent`.
pub fn run_script(server: &Address) -> Outcomes {
    let (first, others) = SCRIPT.split_first().expect("there is a script");
    let mut patient = Connection::open(server);
    let mut outcomes = vec![patient.talk(0, first.sending, first.requests, 0..1)];
    for (index, talk) in others.iter().enumerate() {
        let mut connection = Connection::open(server);
        outcomes.push(connection.talk(index + 1, talk.sending, talk.requests, 0..talk.requests.len()));
    }
    let last = patient.talk(0, first.sending, first.requests, 1..first.requests.len());
    outcomes[0].extend(last);
    outcomes
}

/// Sends one request of a session on a new connection.
pub fn request_again(server: &Address, number: usize, requests: &'static [Request], which: usize) -> Outcome {
    let mut outcome = Connection::open(server).talk(number, Sending::OneByOne, requests, which..which + 1);
    outcome.pop().unwrap_or(Outcome::Unsent)
}

/// The name of a request in the log.
pub fn name(talk: usize, index: usize) -> String {
    format!("{talk}-{index}")
}

trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

struct Connection {
    stream: Box<dyn Stream>,
    /// Bytes that were read behind the last complete response.
    input: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The server has closed it.
    Ended,
    Reset,
    Silent,
}

impl Connection {
    fn open(server: &Address) -> Connection {
        let stream: Box<dyn Stream> = match server {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                stream.set_nodelay(true).unwrap();
                Box::new(stream)
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                Box::new(stream)
            }
        };
        Connection { stream, input: Vec::new(), state: State::Open }
    }

    fn talk(
        &mut self,
        number: usize,
        sending: Sending,
        requests: &'static [Request],
        which: std::ops::Range<usize>,
    ) -> Vec<Outcome> {
        if sending == Sending::AllAtOnce {
            let all: Vec<u8> = which.clone().flat_map(|i| request(&requests[i], &name(number, i))).collect();
            self.send(&all);
        }
        which.map(|i| self.ask(sending, &requests[i], &name(number, i))).collect()
    }

    fn ask(&mut self, sending: Sending, asked: &Request, name: &str) -> Outcome {
        if self.state != State::Open {
            return Outcome::Unsent;
        }
        if sending == Sending::OneByOne {
            self.send(&request(asked, name));
        }
        let end = loop {
            if let Some(length) = length(&self.input, asked.method == "HEAD") {
                break length;
            }
            self.read();
            match self.state {
                State::Open => {}
                State::Silent => return Outcome::Silence(std::mem::take(&mut self.input)),
                State::Ended if ends_with_connection(&self.input) => break self.input.len(),
                State::Ended | State::Reset => return Outcome::Cut(std::mem::take(&mut self.input)),
            }
        };
        let rest = self.input.split_off(end);
        Outcome::Response(std::mem::replace(&mut self.input, rest))
    }

    fn send(&mut self, bytes: &[u8]) {
        // A closed connection is noticed when the response is read.
        _ = self.stream.write_all(bytes);
    }

    fn read(&mut self) {
        let mut buffer = [0; 64 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.state = State::Ended,
            Ok(n) => self.input.extend_from_slice(&buffer[..n]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                self.state = State::Silent;
            }
            Err(_) => self.state = State::Reset,
        }
    }
}

fn request(asked: &Request, name: &str) -> Vec<u8> {
    let Request { method, rest_of_line, fields, body, .. } = asked;
    format!("{method} {rest_of_line}\r\nHost: test\r\nUser-Agent: {name}\r\n{fields}\r\n{body}").into_bytes()
}

/// The length of a head, with the empty line. `None`: it is incomplete.
pub fn head_length(response: &[u8]) -> Option<usize> {
    response.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4)
}

pub fn status(response: &[u8]) -> Option<u16> {
    std::str::from_utf8(response.get(9..12)?).ok()?.parse().ok()
}

/// The value of a field of the head.
pub fn field<'a>(response: &'a [u8], name: &str) -> Option<&'a str> {
    let head = std::str::from_utf8(&response[..head_length(response)?]).ok()?;
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.into_iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// The length of the response at the start of `input`. `None`: it is incomplete, or the end of the connection delimits
/// it.
fn length(input: &[u8], is_head: bool) -> Option<usize> {
    let head = head_length(input)?;
    if is_head || matches!(status(input), Some(204 | 304)) {
        return Some(head);
    }
    if field(input, "Transfer-Encoding").is_some() {
        return chunked_length(&input[head..]).map(|n| head + n);
    }
    let whole = head + field(input, "Content-Length")?.parse::<usize>().ok()?;
    (input.len() >= whole).then_some(whole)
}

fn chunked_length(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = body[at..].windows(2).position(|w| w == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&body[at..at + line]).ok()?, 16).ok()?;
        at += line + 2 + size + 2;
        if at > body.len() {
            return None;
        }
        if size == 0 {
            return Some(at);
        }
    }
}

/// Whether the end of the connection delimits the response.
fn ends_with_connection(input: &[u8]) -> bool {
    head_length(input).is_some()
        && field(input, "Content-Length").is_none()
        && field(input, "Transfer-Encoding").is_none()
}
