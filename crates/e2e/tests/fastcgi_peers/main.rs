//! FastCGI peers that are correct, faulty, slow or silent: the responses to clients, and the error log. The
//! peers are threads of the test, which send exactly the bytes of a row.

mod disconnects;
mod idle;
mod responses;
mod slow;
mod unreachable;
mod unread;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use e2e::{Client, Gate, ReadError, Rows, Server, Site, TIMEOUT, free_port, wait_until};
use rustix::net::{bind, connect};

const BEGIN: u8 = 1;
const ABORT: u8 = 2;
const END: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const UNKNOWN: u8 = 11;
const HEAD: &[u8] = b"Content-Type: text/plain\r\n\r\n";
const MIB: usize = 1 << 20;

// ---- Records of a peer.

fn record(kind: u8, id: u16, content: &[u8]) -> Vec<u8> {
    padded(kind, id, content, 0)
}

fn padded(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let len = u16::try_from(content.len()).expect("it fits into a record").to_be_bytes();
    let id = id.to_be_bytes();
    let head = [1, kind, id[0], id[1], len[0], len[1], padding, 0];
    [&head, content, &vec![0xaa; padding.into()]].concat()
}

fn out(id: u16, content: impl AsRef<[u8]>) -> Vec<u8> {
    content.as_ref().chunks(65535).flat_map(|piece| record(STDOUT, id, piece)).collect()
}

fn err(id: u16, content: &str) -> Vec<u8> {
    record(STDERR, id, content.as_bytes())
}

/// The end of a request, with its protocol status.
fn ends(id: u16, status: u8) -> Vec<u8> {
    record(END, id, &[0, 0, 0, 0, status, 0, 0, 0])
}

fn end(id: u16) -> Vec<u8> {
    [record(STDOUT, id, b""), ends(id, 0)].concat()
}

fn hello(id: u16) -> Vec<u8> {
    [out(id, HEAD), out(id, "hello"), end(id)].concat()
}

// ---- A peer.

trait Stream: Read + Write + Send {
    fn clone_stream(&self) -> Box<dyn Stream>;

    /// Whether the other side, on this machine, has read all that was sent.
    fn is_read(&self) -> bool;
}

impl Stream for UnixStream {
    fn clone_stream(&self) -> Box<dyn Stream> {
        Box::new(self.try_clone().expect("there is a descriptor left"))
    }

    fn is_read(&self) -> bool {
        panic!("only TCP says so")
    }
}

impl Stream for TcpStream {
    fn clone_stream(&self) -> Box<dyn Stream> {
        Box::new(self.try_clone().expect("there is a descriptor left"))
    }

    fn is_read(&self) -> bool {
        unread::unread(self) == 0
    }
}

/// A connection from the server, on the peer's side.
struct Connection(Box<dyn Stream>);

/// A request from the server, without its body.
#[derive(Debug, Clone, Default)]
struct Request {
    id: u16,
    role: u16,
    keep: bool,
    variables: Vec<(String, String)>,
}

impl Request {
    fn get(&self, name: &str) -> &str {
        let mut found = self.variables.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str());
        let first = found.next().unwrap_or("none");
        assert_eq!(found.next(), None, "{name} twice");
        first
    }

    /// The last segment of the path selects what the peer does.
    fn name(&self) -> &str {
        self.get("PATH_INFO").trim_start_matches('/')
    }
}

impl Connection {
    /// Fails when the other side has closed.
    fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.write_all(bytes.as_ref())
    }

    /// As `send`. The server reads these bytes alone.
    fn send_alone(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.send(bytes)?;
        assert!(wait_until(TIMEOUT, || self.0.is_read()), "the server does not read");
        Ok(())
    }

    fn record(&mut self) -> io::Result<(u8, u16, Vec<u8>)> {
        let mut head = [0; 8];
        self.0.read_exact(&mut head)?;
        assert_eq!(head[0], 1, "the version of FastCGI: {head:?}");
        let mut content = vec![0; u16::from_be_bytes([head[4], head[5]]).into()];
        self.0.read_exact(&mut content)?;
        self.0.read_exact(&mut vec![0; head[6].into()])?;
        Ok((head[1], u16::from_be_bytes([head[2], head[3]]), content))
    }

    /// The next request, up to its body.
    fn read_request(&mut self) -> io::Result<Request> {
        let (kind, id, content) = self.record()?;
        assert!(kind == BEGIN && id != 0 && content.len() == 8, "a request begins: {kind} {id} {content:?}");
        let role = u16::from_be_bytes([content[0], content[1]]);
        let mut received = Request { id, role, keep: content[2] & 1 == 1, variables: Vec::new() };
        let mut pairs = Vec::new();
        loop {
            let (kind, of, content) = self.record()?;
            assert_eq!((kind, of), (PARAMS, id));
            if content.is_empty() {
                break;
            }
            pairs.extend(content);
        }
        let mut rest = pairs.as_slice();
        while !rest.is_empty() {
            let lengths = [length(&mut rest), length(&mut rest)];
            let [name, value] = lengths.map(|len| {
                let (text, more) = rest.split_at(len);
                rest = more;
                String::from_utf8_lossy(text).into_owned()
            });
            received.variables.push((name, value));
        }
        Ok(received)
    }

    /// The body of a request.
    fn body(&mut self, id: u16) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let (kind, of, content) = self.record()?;
            if kind == ABORT {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            assert_eq!((kind, of), (STDIN, id));
            if content.is_empty() {
                return Ok(body);
            }
            body.extend(content);
        }
    }

    /// A request with its body.
    fn whole(&mut self) -> io::Result<(Request, Vec<u8>)> {
        let received = self.read_request()?;
        let body = self.body(received.id)?;
        Ok((received, body))
    }

    /// Waits until the server aborts the request: by a record, or by closing.
    fn is_left(&mut self) {
        while matches!(self.record(), Ok((kind, ..)) if kind != ABORT) {}
    }
}

fn length(rest: &mut &[u8]) -> usize {
    let size = if rest[0] < 128 { 1 } else { 4 };
    let (bytes, more) = rest.split_at(size);
    *rest = more;
    bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)) & 0x7fff_ffff
}

/// The peer's action on each connection, which gets the number of the connection; an error ends it.
type Part = Arc<dyn Fn(&mut Connection, usize) -> io::Result<()> + Send + Sync>;

fn part(part: impl Fn(&mut Connection, usize) -> io::Result<()> + Send + Sync + 'static) -> Part {
    Arc::new(part)
}

/// Runs the peer for as long as the test lasts.
fn play<S: Stream + 'static>(mut accept: impl FnMut() -> io::Result<S> + Send + 'static, part: &Part) {
    let part = part.clone();
    thread::spawn(move || {
        for number in 0.. {
            let mut connection = Connection(Box::new(accept().expect("it listens")));
            let part = part.clone();
            thread::spawn(move || _ = part(&mut connection, number));
        }
    });
}

/// Starts a peer at this path; returns its `address`.
fn at_path(path: &Path, part: &Part) -> String {
    let listener = UnixListener::bind(path).expect("it is our folder");
    play(move || Ok(listener.accept()?.0), part);
    format!("unix:{}", path.display())
}

/// Starts a peer on some port; returns its `address`.
fn at_port(part: &Part) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("it is bound");
    play(move || Ok(listener.accept()?.0), part);
    address.to_string()
}

/// A server that passes everything below `/app/` to the peers at these addresses.
fn server_for(site: Site, addresses: &[String], settings: &str) -> Server {
    let config = format!(
        "workers = 1\nmax_body = \"16MiB\"\n[[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         env = {{ OWN = \"of the route\" }}\n[[application]]\nname = \"app\"\naddress = {addresses:?}\n{settings}\n"
    );
    site.file("static", "still here").config(&config).start()
}

fn start(part: &Part, settings: &str) -> Server {
    let site = Site::new();
    let address = at_path(&site.home().join("peer.sock"), part);
    server_for(site, &[address], settings)
}

// ---- Clients of the server.

fn request(server: &Server, method: &str, name: &str) -> Client {
    let mut client = server.connect();
    let fields = if method == "GET" { "" } else { "Content-Length: 0\r\n" };
    client.send(format!("{method} /app/{name} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client
}

/// `200 body`, another status, or a note that the response was cut.
fn outcome(client: &mut Client) -> String {
    match client.try_read_response() {
        Ok(response) if response.status == 200 && response.body.len() < 40 => {
            format!("200 {}", response.text())
        }
        Ok(response) if response.status == 200 => format!("200 {} bytes", response.body.len()),
        Ok(response) if response.has("retry-after") => format!("{}, come again", response.status),
        Ok(response) => response.status.to_string(),
        Err(ReadError::Closed { after: 1.. } | ReadError::Reset) => "cut".to_owned(),
        Err(other) => other.to_string(),
    }
}

fn get(server: &Server, name: &str) -> String {
    outcome(&mut request(server, "GET", name))
}

/// Whether the error log has a line about this request with these words.
fn logs(server: &Server, name: &str, words: &str) -> bool {
    let path = format!("/app/{name}");
    let is = |line: &&String| line.contains(&path) && line.contains("127.0.0.1") && line.contains(words);
    server.errors().wait_for(TIMEOUT, |lines| lines.iter().find(is).map(drop)).is_some()
}

/// A channel from the peers to the test.
fn report_channel<T: Send>() -> (Arc<Mutex<Sender<T>>>, Receiver<T>) {
    let (sender, reports) = mpsc::channel();
    (Arc::new(Mutex::new(sender)), reports)
}

fn report<T>(to: &Arc<Mutex<Sender<T>>>, what: T) {
    // The test may have ended.
    _ = to.lock().expect("no thread panics").send(what);
}
