//! The client: asks a fixed script of requests, and takes down what it gets, byte for byte.
//!
//! Knows nothing of the server but its address, and nothing of faults.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use site::address::Address;

/// Longer than anything here takes; who waits so long waits for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// The status of a request that comes too late on its connection.
pub const UNANSWERED: u16 = 0;

/// One request, and the status it is answered with when nothing fails.
pub struct Ask {
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

pub struct Talk {
    pub sending: Sending,
    pub asks: &'static [Ask],
}

const fn ask(method: &'static str, rest_of_line: &'static str, status: u16) -> Ask {
    Ask { method, rest_of_line, fields: "", body: "", status }
}

const fn get(rest_of_line: &'static str, status: u16) -> Ask {
    ask("GET", rest_of_line, status)
}

const fn with(fields: &'static str, ask: Ask) -> Ask {
    Ask { fields, ..ask }
}

const fn body(body: &'static str, ask: Ask) -> Ask {
    Ask { body, ..ask }
}

/// The first connection stays open until all others are closed, and asks its last question then.
pub const SCRIPT: &[Talk] = &[
    Talk {
        sending: Sending::OneByOne,
        asks: &[get("/small HTTP/1.1", 200), with("Connection: close\r\n", get("/small HTTP/1.1", 200))],
    },
    Talk {
        sending: Sending::OneByOne,
        asks: &[
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
    Talk {
        sending: Sending::AllAtOnce,
        asks: &[
            get("/notes.txt HTTP/1.1", 200),
            get("/pages/ HTTP/1.1", 200),
            ask("HEAD", "/big HTTP/1.1", 200),
            get("/folder/ HTTP/1.1", 200),
            get("/folder/two HTTP/1.1", 200),
            get("/pages HTTP/1.1", 301),
        ],
    },
    Talk {
        sending: Sending::OneByOne,
        asks: &[
            with("Content-Length: 5\r\n", body("hello", get("/small HTTP/1.1", 200))),
            with(
                "Transfer-Encoding: chunked\r\n",
                body("5\r\nhello\r\n0\r\n\r\n", get("/small HTTP/1.1", 200)),
            ),
            ask("OPTIONS", "/small HTTP/1.1", 204),
        ],
    },
    Talk {
        sending: Sending::OneByOne,
        asks: &[
            get("/packed HTTP/1.1", 200),
            with("Accept-Encoding: gzip\r\n", get("/packed HTTP/1.1", 200)),
            with("Accept-Encoding: gzip\r\n", get("/notes.txt HTTP/1.1", 200)),
            get("/absolute HTTP/1.1", 200),
        ],
    },
    Talk {
        sending: Sending::OneByOne,
        asks: &[
            get("/folder/?format=json HTTP/1.1", 200),
            get("/folder/?format=json HTTP/1.1", 200),
            get("/../small HTTP/1.1", 400),
        ],
    },
    Talk { sending: Sending::OneByOne, asks: &[get("/big HTTP/1.0", 200)] },
    Talk { sending: Sending::OneByOne, asks: &[get("/packed HTTP/1.0", 200)] },
    Talk {
        sending: Sending::AllAtOnce,
        asks: &[get("/../small HTTP/1.1", 400), get("/small HTTP/1.1", UNANSWERED)],
    },
    Talk { sending: Sending::OneByOne, asks: &[ask("NONSENSE", "", 400)] },
];

/// What is asked when everything works again.
pub const PLAIN: Talk = Talk { sending: Sending::OneByOne, asks: &[get("/small HTTP/1.1", 200)] };

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// A whole answer, as it was sent.
    Answer(Vec<u8>),
    /// The connection ended within the answer, or before it.
    Cut(Vec<u8>),
    /// There was no connection left to ask on.
    Unasked,
    /// Nothing more came, and the connection did not end.
    Silence(Vec<u8>),
}

/// Of all talks, in order.
pub type Gained = Vec<Vec<Got>>;

/// Asks the whole script, one connection after the other. Each request names itself in `User-Agent`.
pub fn ask_all(server: &Address) -> Gained {
    let (first, others) = SCRIPT.split_first().expect("there is a script");
    let mut patient = Connection::open(server);
    let mut gained = vec![patient.talk(0, first.sending, first.asks, 0..1)];
    for (index, talk) in others.iter().enumerate() {
        let mut connection = Connection::open(server);
        gained.push(connection.talk(index + 1, talk.sending, talk.asks, 0..talk.asks.len()));
    }
    let last = patient.talk(0, first.sending, first.asks, 1..first.asks.len());
    gained[0].extend(last);
    gained
}

/// Asks some of the requests of a talk on a connection of their own.
pub fn ask_again(server: &Address, number: usize, asks: &'static [Ask], which: usize) -> Got {
    let mut got = Connection::open(server).talk(number, Sending::OneByOne, asks, which..which + 1);
    got.pop().unwrap_or(Got::Unasked)
}

/// The name of a request in the log.
pub fn name(talk: usize, index: usize) -> String {
    format!("{talk}-{index}")
}

trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

struct Connection {
    stream: Box<dyn Stream>,
    /// Read, and not yet part of an answer.
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
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_nodelay(true).unwrap();
                Box::new(stream)
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(stream)
            }
        };
        Connection { stream, input: Vec::new(), state: State::Open }
    }

    fn talk(
        &mut self,
        number: usize,
        sending: Sending,
        asks: &'static [Ask],
        which: std::ops::Range<usize>,
    ) -> Vec<Got> {
        if sending == Sending::AllAtOnce {
            let all: Vec<u8> = which.clone().flat_map(|i| request(&asks[i], &name(number, i))).collect();
            self.send(&all);
        }
        which.map(|i| self.ask(sending, &asks[i], &name(number, i))).collect()
    }

    fn ask(&mut self, sending: Sending, ask: &Ask, name: &str) -> Got {
        if self.state != State::Open {
            return Got::Unasked;
        }
        if sending == Sending::OneByOne {
            self.send(&request(ask, name));
        }
        let end = loop {
            if let Some(length) = length(&self.input, ask.method == "HEAD") {
                break length;
            }
            self.read();
            match self.state {
                State::Open => {}
                State::Silent => return Got::Silence(std::mem::take(&mut self.input)),
                State::Ended if ends_with_connection(&self.input) => break self.input.len(),
                State::Ended | State::Reset => return Got::Cut(std::mem::take(&mut self.input)),
            }
        };
        let rest = self.input.split_off(end);
        Got::Answer(std::mem::replace(&mut self.input, rest))
    }

    fn send(&mut self, bytes: &[u8]) {
        // Whether the server has closed is seen when its answer is read.
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

fn request(ask: &Ask, name: &str) -> Vec<u8> {
    let Ask { method, rest_of_line, fields, body, .. } = ask;
    format!("{method} {rest_of_line}\r\nHost: test\r\nUser-Agent: {name}\r\n{fields}\r\n{body}").into_bytes()
}

/// Of a head, with the empty line; `None`: it is not whole.
pub fn head_length(answer: &[u8]) -> Option<usize> {
    answer.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4)
}

pub fn status(answer: &[u8]) -> Option<u16> {
    std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()
}

/// The value of a field of the head.
pub fn field<'a>(answer: &'a [u8], name: &str) -> Option<&'a str> {
    let head = std::str::from_utf8(&answer[..head_length(answer)?]).ok()?;
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.into_iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Of the answer that `input` begins with; `None`: it is not whole, or only the connection's end will tell.
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

/// Is it whole where the connection ends?
fn ends_with_connection(input: &[u8]) -> bool {
    head_length(input).is_some()
        && field(input, "Content-Length").is_none()
        && field(input, "Transfer-Encoding").is_none()
}
