//! FastCGI peers that are correct, faulty, slow or silent: the responses to clients, and the error log. The
//! peers are threads of the test, which send exactly the bytes of a row.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use e2e::{Client, Gate, Random, ReadError, Rows, Server, Site, TIMEOUT, free_port, wait_until};
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

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
        let [ours, theirs] =
            [self.local_addr(), self.peer_addr()].map(|address| address.expect("it is open").port());
        let sockets = std::fs::read_to_string("/proc/net/tcp").expect("it is there");
        // `sl local_address rem_address st tx_queue:rx_queue …`, in hexadecimal digits (proc_net_tcp(5)).
        let unread = sockets.lines().find_map(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let mut is_of =
                |port: u16| columns.next().is_some_and(|end| end.ends_with(&format!(":{port:04X}")));
            (is_of(theirs) && is_of(ours)).then(|| columns.nth(1).unwrap_or_default().to_owned())
        });
        unread.is_none_or(|queues| queues.ends_with(":00000000"))
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

// ---- Responses of a peer.

/// The action of a peer after its records.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Afterwards {
    /// Waits for the next request.
    Stays,
    Closes,
}
use Afterwards::{Closes, Stays};

struct Row {
    what: String,
    records: Box<dyn Fn(u16) -> Vec<u8> + Send + Sync>,
    /// Sent when the client has the earlier bytes: a head and `part`.
    later: Option<fn(u16) -> Vec<u8>>,
    then: Afterwards,
    expected: String,
    /// Words of the error log line for the request; `None`: a line is not required.
    logged: Option<&'static str>,
}

fn row(
    what: impl Into<String>,
    records: impl Fn(u16) -> Vec<u8> + Send + Sync + 'static,
    then: Afterwards,
    expected: impl Into<String>,
    logged: Option<&'static str>,
) -> Row {
    Row {
        what: what.into(),
        records: Box::new(records),
        later: None,
        then,
        expected: expected.into(),
        logged,
    }
}

/// A response that has begun, followed by an error.
fn broken_by(what: &str, later: fn(u16) -> Vec<u8>, then: Afterwards) -> Row {
    let begins = |id| out(id, [HEAD, b"part"].concat());
    Row { later: Some(later), ..row(format!("{what}, later"), begins, then, "cut", Some("")) }
}

/// A peer sends the bytes of each row.
fn check(rows: Vec<Row>) {
    let rows = Arc::new(rows);
    let of_peer = rows.clone();
    let (go_on, goes_on) = report_channel();
    let goes_on = Mutex::new(goes_on);
    let server = start(
        &part(move |connection, _| {
            loop {
                let (received, _) = connection.whole()?;
                let Some(at) = received.name().strip_prefix("row-") else {
                    connection.send(hello(received.id))?;
                    continue;
                };
                let row = &of_peer[at.parse::<usize>().expect("a number")];
                connection.send((row.records)(received.id))?;
                if let Some(later) = row.later {
                    _ = goes_on.lock().expect("no thread panics").recv_timeout(TIMEOUT);
                    connection.send(later(received.id))?;
                }
                if row.then == Closes {
                    return Ok(());
                }
            }
        }),
        "",
    );
    let received = |row: &Row, name: &str| {
        let mut client = request(&server, "GET", name);
        if row.later.is_none() {
            return outcome(&mut client);
        }
        let mut seen = Vec::new();
        while !seen.ends_with(b"part\r\n") {
            match client.read_some() {
                Ok(more) if !more.is_empty() => seen.extend(more),
                _ => return format!("no beginning: {:?}", String::from_utf8_lossy(&seen)),
            }
        }
        report(&go_on, ());
        // A reset also shows that the response is incomplete.
        while let Ok(more) = client.read_some()
            && !more.is_empty()
        {
            seen.extend(more);
        }
        if seen.ends_with(b"\r\n0\r\n\r\n") { "whole".to_owned() } else { "cut".to_owned() }
    };
    let mut found = Rows::new();
    for (at, row) in rows.iter().enumerate() {
        let name = format!("row-{at}");
        found.check(&row.what, received(row, &name), row.expected.clone());
        found.check(format!("behind {}", row.what), get(&server, "hello"), "200 hello".to_owned());
        if let Some(words) = row.logged {
            found.holds(&row.what, &format!("the log reports it: {words:?}"), logs(&server, &name, words));
        }
    }
}

#[test]
fn a_response_does_not_depend_on_its_record_boundaries() {
    let body: Arc<Vec<u8>> = Arc::new(Random::new(3).bytes(3 * 65535));
    let bytewise = |id, text: &[u8]| text.iter().flat_map(|byte| out(id, [*byte])).collect::<Vec<u8>>();
    let large = body.clone();
    check(vec![
        row(
            "one record",
            |id| [out(id, [HEAD, b"hello"].concat()), end(id)].concat(),
            Stays,
            "200 hello",
            None,
        ),
        row("head and body", hello, Stays, "200 hello", None),
        row(
            "single bytes",
            move |id| [bytewise(id, HEAD), bytewise(id, b"hello"), end(id)].concat(),
            Stays,
            "200 hello",
            None,
        ),
        row(
            "padding of 255",
            |id| {
                let text = [HEAD, b"hello"].concat();
                let out: Vec<u8> = text.chunks(3).flat_map(|piece| padded(STDOUT, id, piece, 255)).collect();
                [out, padded(STDOUT, id, b"", 255), padded(END, id, &[0; 8], 255)].concat()
            },
            Stays,
            "200 hello",
            None,
        ),
        row(
            "padding of every length",
            |id| {
                let out: Vec<u8> = (0..=255).flat_map(|padding| padded(STDOUT, id, b"x", padding)).collect();
                [record(STDOUT, id, HEAD), out, end(id)].concat()
            },
            Stays,
            "200 256 bytes",
            None,
        ),
        row("a body of one byte", |id| [out(id, HEAD), out(id, "x"), end(id)].concat(), Stays, "200 x", None),
        row("no body", |id| [out(id, HEAD), end(id)].concat(), Stays, "200 ", None),
        row(
            "records of 65535 bytes",
            move |id| {
                let out: Vec<u8> =
                    large.chunks(65535).flat_map(|piece| padded(STDOUT, id, piece, 1)).collect();
                [record(STDOUT, id, HEAD), out, end(id)].concat()
            },
            Stays,
            "200 196605 bytes",
            None,
        ),
        row(
            "a number that a program exits with",
            |id| {
                [
                    out(id, HEAD),
                    out(id, "hello"),
                    record(STDOUT, id, b""),
                    record(END, id, &[0, 0, 0, 7, 0, 0, 0, 0]),
                ]
                .concat()
            },
            Stays,
            "200 hello",
            None,
        ),
        row(
            "output that is ended twice",
            |id| [out(id, HEAD), out(id, "hello"), record(STDOUT, id, b""), end(id)].concat(),
            Stays,
            "200 hello",
            None,
        ),
        row(
            "output that is not ended",
            |id| [out(id, HEAD), out(id, "hello"), ends(id, 0)].concat(),
            Stays,
            "200 hello",
            None,
        ),
        row(
            "errors that are ended",
            |id| [record(STDERR, id, b""), hello(id)].concat(),
            Stays,
            "200 hello",
            None,
        ),
        row(
            "errors before and between",
            |id| {
                [
                    err(id, "first words\n"),
                    out(id, HEAD),
                    err(id, "second"),
                    out(id, "hello"),
                    err(id, " words\n"),
                    end(id),
                ]
                .concat()
            },
            Stays,
            "200 hello",
            Some("second words"),
        ),
        row("errors alone", |id| [err(id, "the reason"), end(id)].concat(), Stays, "502", Some("the reason")),
        row("a closed connection behind the end", hello, Closes, "200 hello", None),
        row(
            "a further record behind the end",
            |id| [hello(id), out(id, "more")].concat(),
            Stays,
            "200 hello",
            None,
        ),
        row("another answer behind the end", |id| [hello(id), hello(id)].concat(), Stays, "200 hello", None),
        row(
            "what is no record behind the end",
            |id| [hello(id), b"HTTP/1.1 200 OK".to_vec()].concat(),
            Stays,
            "200 hello",
            None,
        ),
        row(
            "a record of others behind the end",
            |id| [hello(id), hello(id + 1)].concat(),
            Stays,
            "200 hello",
            None,
        ),
    ]);
    assert_eq!(body.len(), 196_605);
}

#[test]
fn a_protocol_error_is_502_or_cuts_the_response() {
    type Lie = (&'static str, fn(u16) -> Vec<u8>);
    let lies: [Lie; 21] = [
        ("version 0", |id| [vec![0], out(id, HEAD)[1..].to_vec()].concat()),
        ("version 2", |id| [vec![2], hello(id)[1..].to_vec()].concat()),
        ("another protocol", |_| b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
        ("output of an unknown request", |id| out(id + 7, HEAD)),
        ("output of a large number", |_| out(65535, HEAD)),
        ("output of the connection", |_| out(0, HEAD)),
        ("the end of an unknown request", |id| ends(id + 7, 0)),
        ("an end of 7 bytes", |id| record(END, id, &[0; 7])),
        ("an end of 9 bytes", |id| record(END, id, &[0; 9])),
        ("an end of no kind", |id| ends(id, 9)),
        ("a request", |id| record(BEGIN, id, &[0, 1, 0, 0, 0, 0, 0, 0])),
        ("an abort", |id| record(ABORT, id, b"")),
        ("variables", |id| record(PARAMS, id, b"")),
        ("input", |id| record(STDIN, id, b"hello")),
        ("data", |id| record(8, id, b"hello")),
        ("a question", |_| record(9, 0, b"")),
        ("a response to no question", |_| record(10, 0, b"")),
        ("an unknown type that was not sent", |_| record(UNKNOWN, 0, &[0; 8])),
        ("a type that there is not", |id| record(99, id, b"hello")),
        ("type 0", |id| record(0, id, b"hello")),
        ("output behind its end", |id| [record(STDOUT, id, b""), out(id, HEAD)].concat()),
    ];
    let at_once = lies.iter().map(|&(what, records)| row(what, records, Stays, "502", Some("")));
    let later = lies.iter().map(|&(what, records)| broken_by(what, records, Stays));
    check(at_once.chain(later).collect());
}

#[test]
fn answers_502_with_a_log_line_to_an_invalid_response() {
    let rows = [
        ("nothing", ""),
        ("no header", "no header at all\n\n"),
        ("half a header", "Content-Type: text/plain"),
        ("no empty line", "Content-Type: text/plain\r\n"),
        ("a folded line", "X-A: 1\n folded\n\n"),
        ("a NUL", "X-A: a\0b\n\n"),
        ("no status", "Status: 99\n\n"),
        ("two statuses", "Status: 200\nStatus: 404\n\n"),
        ("two lengths", "Content-Length: 1\nContent-Length: 2\n\nab"),
        ("a length below zero", "Content-Length: -1\n\nab"),
        ("both kinds of length", "Content-Length: 1\nTransfer-Encoding: chunked\n\nab"),
    ];
    let listed = rows
        .map(|(what, text)| row(what, move |id| [out(id, text), end(id)].concat(), Stays, "502", Some("")));
    let large = format!("X-A: {}\n\n", "x".repeat(MIB));
    let mut many = String::new();
    (0..1000).for_each(|number| writeln!(many, "X-{number}: x").expect("a string takes all"));
    many.push('\n');
    let endless = "x".repeat(MIB);
    let too_large =
        [("a line of 1 MiB", large), ("a thousand fields", many), ("1 MiB without a line", endless)];
    let too_large = too_large
        .map(|(what, text)| row(what, move |id| [out(id, &text), end(id)].concat(), Stays, "502", Some("")));
    let ending =
        [(1, "502"), (2, "503, come again"), (3, "502")].into_iter().flat_map(|(status, expected)| {
            [
                row(format!("status {status}"), move |id| ends(id, status), Stays, expected, Some("")),
                row(
                    format!("status {status}, closed"),
                    move |id| ends(id, status),
                    Closes,
                    expected,
                    Some(""),
                ),
            ]
        });
    let sized = |len: usize| format!("Content-Length: {len}\r\n\r\nhello");
    let cut = [
        broken_by("status 1", |id| ends(id, 1), Stays),
        broken_by("status 2", |id| ends(id, 2), Stays),
        broken_by("status 3", |id| ends(id, 3), Stays),
        broken_by("no end", |_| Vec::new(), Closes),
        broken_by("no end but that of the output", |id| record(STDOUT, id, b""), Closes),
        broken_by("half of a record", |id| out(id, "more")[..9].to_vec(), Closes),
        row("less than it says", move |id| [out(id, sized(9)), end(id)].concat(), Stays, "cut", Some("")),
        row("less than it says, closed", move |id| out(id, sized(9)), Closes, "cut", Some("")),
        row(
            "more than it says",
            move |id| [out(id, sized(5)), out(id, "more"), end(id)].concat(),
            Stays,
            "200 hello",
            None,
        ),
        row("as much as it says, closed", move |id| out(id, sized(5)), Closes, "200 hello", None),
    ];
    check(listed.into_iter().chain(too_large).chain(ending).chain(cut).collect());
}

#[test]
fn a_response_cut_anywhere_is_never_complete() {
    let whole = hello(1).len();
    let server = start(
        &part(|connection, _| {
            let (received, _) = connection.whole()?;
            let response = hello(received.id);
            let len: usize = received.name().parse().expect("a length");
            connection.send(&response[..len])
        }),
        "",
    );
    let mut rows = Rows::new();
    for len in 0..=whole {
        let found = get(&server, &len.to_string());
        let is_right = match len {
            // The head is incomplete.
            ..36 => found == "502",
            // The server may or may not have sent a part of the response.
            _ if len < whole => found == "502" || found == "cut",
            _ => found == "200 hello",
        };
        rows.holds(format!("{len} of {whole} bytes: {found}"), "it must not be complete", is_right);
    }
}

#[test]
fn reads_a_response_byte_by_byte() {
    let address = at_port(&part(|connection, _| {
        let (received, _) = connection.whole()?;
        hello(received.id).iter().try_for_each(|byte| connection.send_alone([*byte]))
    }));
    let server = server_for(Site::new(), &[address], "");
    assert_eq!(get(&server, "hello"), "200 hello");
}

#[test]
fn passes_the_whole_request_to_a_peer() {
    let (to, reports) = report_channel();
    let peer = part(move |connection, number| {
        loop {
            let (received, body) = connection.whole()?;
            connection.send(hello(received.id))?;
            report(&to, (number, received, body));
        }
    });
    for address in ["unix", "tcp"] {
        let site = Site::new();
        let address = if address == "unix" { at_path(&site.home().join("p"), &peer) } else { at_port(&peer) };
        let server = server_for(site, &[address], "");
        let (long, longer) = ("l".repeat(127), "l".repeat(128));
        let mut client = server.connect();
        let mut rows = Rows::new();
        let mut connections = Vec::new();
        for (method, body) in [("POST", &b"the body"[..]), ("PUT", b""), ("POST", &vec![b'x'; 200_000])] {
            client.send(format!(
                "{method} /app/a%20b/c?d=%20e HTTP/1.1\r\nHost: www.example:81\r\nX-Long: {long}\r\nX-Longer: {longer}\r\n\
                 Proxy: evil\r\nX_Under: no\r\nAuthorization: Basic YTpi\r\nContent-Type: text/x\r\n\
                 Content-Length: {}\r\n\r\n",
                body.len()
            ));
            client.send(body);
            rows.check(method, outcome(&mut client), "200 hello".to_owned());
            let (number, received, received_body) =
                reports.recv_timeout(TIMEOUT).expect("it received a request");
            connections.push(number);
            rows.check(method, (received.role, received.keep), (1, true));
            rows.holds(method, "the body is whole", received_body == body);
            for (name, expected) in [
                ("REQUEST_METHOD", method),
                ("GATEWAY_INTERFACE", "CGI/1.1"),
                ("SERVER_PROTOCOL", "HTTP/1.1"),
                ("SCRIPT_NAME", "/app"),
                ("PATH_INFO", "/a b/c"),
                ("QUERY_STRING", "d=%20e"),
                ("REQUEST_URI", "/app/a%20b/c?d=%20e"),
                ("CONTENT_LENGTH", &body.len().to_string()),
                ("CONTENT_TYPE", "text/x"),
                ("SERVER_NAME", "www.example"),
                ("REMOTE_ADDR", "127.0.0.1"),
                ("HTTP_HOST", "www.example:81"),
                ("HTTP_X_LONG", &long),
                ("HTTP_X_LONGER", &longer),
                ("HTTP_PROXY", "none"),
                ("HTTP_X_UNDER", "none"),
                ("HTTP_AUTHORIZATION", "none"),
                ("OWN", "of the route"),
            ] {
                rows.check(format!("{method} {name}"), received.get(name), expected);
            }
        }
        rows.check("its connection is kept", connections, vec![0, 0, 0]);
    }
}

// ---- A GET that the server sends at once, by a connection that is idle.

/// Variables as lines.
fn listed(variables: &[(String, String)]) -> String {
    variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

#[test]
fn variables_are_the_same_by_a_new_connection_and_by_an_idle_one() {
    let peer = part(|connection, _| {
        for _ in 0..2 {
            let (received, _) = connection.whole()?;
            let text = [HEAD, listed(&received.variables).as_bytes()].concat();
            connection.send([out(received.id, text), end(received.id)].concat())?;
        }
        Ok(())
    });
    let requests = [
        "GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /app HTTP/1.1\r\nHost: a:80\r\n\r\n",
        "GET /app/a%20b//c/../d?e=%20f&g HTTP/1.1\r\nHost: www.example:81\r\nCookie: a=b\r\nCookie: c=d\r\n\r\n",
        "GET /app/static? HTTP/1.1\r\nHost: [::1]:8\r\nX-A: 1\r\nX-B: 2\r\nx-a: 3\r\nX_B: 4\r\nProxy: evil\r\n\r\n",
        "GET /app/a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Type: text/x\r\nTE: trailers\r\n\r\n",
        "GET /app/a HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n",
        "GET /app/a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "GET http://b:7/app/a?b HTTP/1.1\r\nHost: a\r\nOwn: c\r\nConnection: Own\r\n\r\n",
        "GET /app/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ];
    let mut rows = Rows::new();
    for top in ["", "trusted_proxies = [\"127.0.0.1\"]"] {
        for address in ["unix", "tcp"] {
            let site = Site::new();
            let address =
                if address == "unix" { at_path(&site.home().join("p"), &peer) } else { at_port(&peer) };
            let site = site.config(top);
            let server = server_for(site, std::slice::from_ref(&address), "");
            let mut client = server.connect();
            for request in requests {
                let mut get = || {
                    client.send(request);
                    client.read_response().text()
                };
                let (new, idle) = (get(), get());
                rows.holds(request, "it has variables", new.contains("\nREMOTE_ADDR="));
                rows.check(format!("{top} {address} {request}"), idle, new);
            }
        }
    }
}

#[test]
fn responses_are_the_same_by_a_task_and_by_an_idle_connection() {
    let texts = [
        "Content-Type: text/plain\n\n",
        "Content-Type: text/plain\n\nhello",
        "Content-Type: text/plain\nContent-Length: 5\n\nhello",
        "Content-Type: text/plain\nContent-Length: 5\n\nhello, and more",
        "Status: 404 Nowhere\r\nX-A: b\r\nX-A: c\r\n\r\nhello",
        "Status: 204\nX-A: b\n\n",
        "Status: 204\n\nmore",
        "Status: 304\nETag: \"x\"\n\n",
        "Status: 304\nContent-Length: 5\n\n",
        "Status: 101\nUpgrade: x\n\n",
        "Status: 503\nRetry-After: 7\n\nlater",
        "HTTP/1.1 201 Made\r\nX-A: b\r\n\r\nhello",
        "Content-Type: text/plain\nTransfer-Encoding: chunked\n\n5\r\nhello\r\n0\r\n\r\n",
        "Date: x\nServer: y\nConnection: close, X-A\nKeep-Alive: 1\nX-A: b\nContent-Type: a/b\n\nx",
        "Set-Cookie: a=b; Domain=c; Path=/app\nSet-Cookie: d\nContent-Type: a/b\n\nx",
        "Location: /static\n\n",
        "Location: http://a.example/b\n\n",
        "Location: /static\nX-A: b\n\nx",
        "Status: 201\nLocation: /app/x\n\nx",
        "Refresh: 0; url=/x\nContent-Type: text/html\n\nx",
        "X-Sendfile: /nowhere\nContent-Type: text/plain\n\nx",
        "no header\n\nx",
    ];
    let large = format!("Content-Type: text/plain\n\n{}", "x".repeat(60_000));
    let larger = format!("Content-Type: text/plain\n\n{}", "x".repeat(200_000));
    let texts: Vec<String> = texts.map(str::to_owned).into_iter().chain([large, larger]).collect();
    let of_peer = texts.clone();
    let server = start(
        &part(move |connection, _| {
            loop {
                let (received, _) = connection.whole()?;
                let text = &of_peer[received.name().parse::<usize>().expect("a number")];
                connection.send([out(received.id, text), end(received.id)].concat())?;
            }
        }),
        "",
    );
    let mut rows = Rows::new();
    for (at, text) in texts.iter().enumerate() {
        let what = &text[..text.len().min(80)];
        // Only a GET is sent by an idle connection at once.
        let [post, get] = ["POST", "GET"].map(|method| {
            // So that it is idle, whatever the response before has done to it.
            request(&server, "POST", "1").read_response();
            match request(&server, method, &at.to_string()).try_read_response() {
                Ok(response) => {
                    format!("{} {:?} {}", response.status, response.fields_but(&["date"]), response.text())
                }
                Err(error) => error.to_string(),
            }
        });
        rows.check(what, get, post);
    }
}

#[test]
fn a_response_by_an_idle_connection_may_come_in_two_parts() {
    let whole = [out(1, [HEAD, b"hello"].concat()), end(1)].concat().len();
    let address = at_port(&part(|connection, _| {
        loop {
            let (received, _) = connection.whole()?;
            let id = received.id;
            let response = [out(id, [HEAD, b"hello"].concat()), end(id)].concat();
            let (first, second) = response.split_at(received.name().parse().expect("a length"));
            connection.send_alone(first)?;
            connection.send(second)?;
        }
    }));
    let server = server_for(Site::new(), &[address], "");
    let mut rows = Rows::new();
    for length in 0..=whole {
        let length = length.to_string();
        rows.check(&length, get(&server, &length), "200 hello".to_owned());
    }
}

#[test]
fn late_records_are_no_response_to_the_next_request_by_an_idle_connection() {
    let late = |id: u16| [hello(3 - id), out(3 - id, "of another")].concat();
    let server = start(
        &part(move |connection, _| {
            loop {
                let (received, _) = connection.whole()?;
                let id = received.id;
                let before = if received.name() == "late" { late(id) } else { Vec::new() };
                let text = [HEAD, b"own"].concat();
                connection.send([before, out(id, text), end(id)].concat())?;
            }
        }),
        "",
    );
    for _ in 0..3 {
        assert_eq!(get(&server, "x"), "200 own");
        assert_eq!(get(&server, "x"), "200 own");
        // The peer has broken a rule of the protocol.
        assert_eq!(get(&server, "late"), "502");
        assert!(logs(&server, "late", "FCGI_END_REQUEST"));
    }
}

#[test]
fn a_get_by_an_idle_connection_times_out_and_is_aborted() {
    let (to, reports) = report_channel();
    let server = start(
        &part(move |connection, _| {
            loop {
                let (received, _) = connection.whole()?;
                if received.name() == "hello" {
                    connection.send(hello(received.id))?;
                    continue;
                }
                report(&to, "begun");
                let (kind, ..) = connection.record()?;
                assert_eq!(kind, ABORT);
                report(&to, "aborted");
                return Ok(());
            }
        }),
        "first_byte = \"300ms\"",
    );
    assert_eq!(get(&server, "hello"), "200 hello");
    assert_eq!(get(&server, "silent"), "504");
    assert!(logs(&server, "silent", "it has taken too long"));
    let next = || reports.recv_timeout(TIMEOUT).expect("the peer reports");
    assert_eq!([next(), next()], ["begun", "aborted"]);

    assert_eq!(get(&server, "hello"), "200 hello");
    let client = request(&server, "GET", "left");
    assert_eq!(next(), "begun");
    drop(client);
    assert_eq!(next(), "aborted");
    assert_eq!(get(&server, "hello"), "200 hello");
}

// ---- Peers that are unreachable, or close.

/// The first connection of all is handled by `first`; each later one gets a response. The channel receives
/// the address of each request.
fn two(
    first: impl Fn(&mut Connection) -> io::Result<()> + Send + Sync + 'static,
    settings: &str,
) -> (Server, Receiver<char>) {
    let (to, reports) = report_channel();
    let (first, count) = (Arc::new(first), Arc::new(AtomicUsize::new(0)));
    let site = Site::new();
    let addresses = ['a', 'b'].map(|name| {
        let (to, first, count) = (to.clone(), first.clone(), count.clone());
        let peer = part(move |connection, _| {
            report(&to, name);
            if count.fetch_add(1, Ordering::SeqCst) == 0 {
                return first(connection);
            }
            let (received, _) = connection.whole()?;
            connection.send(hello(received.id))
        });
        at_path(&site.home().join(name.to_string()), &peer)
    });
    (server_for(site, &addresses, settings), reports)
}

#[test]
fn retries_an_idempotent_request_elsewhere_when_a_peer_closes() {
    type First = fn(&mut Connection) -> io::Result<()>;
    let firsts: [(&str, First); 4] = [
        ("closes at once", |_| Ok(())),
        ("closes after the request", |connection| connection.read_request().map(drop)),
        ("closes after the body", |connection| connection.whole().map(drop)),
        ("resets", |connection| connection.record().map(drop)),
    ];
    let mut rows = Rows::new();
    for (what, first) in firsts {
        for (method, expected, received) in [
            ("GET", "200 hello", 2),
            ("PUT", "200 hello", 2),
            ("DELETE", "200 hello", 2),
            ("POST", "502", 1),
            ("PATCH", "502", 1),
        ] {
            let (server, reports) = two(first, "keep = \"0s\"");
            let row = format!("{method}: {what}");
            let outcome = outcome(&mut request(&server, method, "x"));
            let addresses_used: Vec<char> = reports.try_iter().collect();
            // A connection that ended before a byte was sent on it has had no request, whatever its method.
            let is_unsent = what == "closes at once" && addresses_used.len() == 2;
            let (expected, received) = if is_unsent { ("200 hello", 2) } else { (expected, received) };
            rows.check(&row, outcome, expected.to_owned());
            rows.check(&row, addresses_used.len(), received);
            rows.holds(
                &row,
                &format!("not the same: {addresses_used:?}"),
                received == 1 || addresses_used[0] != addresses_used[1],
            );
        }
    }
}

#[test]
fn limits_the_number_of_retries() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let peer = part(move |connection, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        connection.whole().map(drop)
    });
    let server = start(&peer, "");
    assert_eq!(get(&server, "x"), "502");
    assert!(count.load(Ordering::SeqCst) <= 2);
    assert!(logs(&server, "x", ""));
    assert_eq!(server.get("/static").text(), "still here");
}

#[test]
fn skips_an_unreachable_peer() {
    let peer = part(|connection, _| {
        let (received, _) = connection.whole()?;
        connection.send(hello(received.id))
    });
    let mut rows = Rows::new();
    for what in ["no file", "a socket without a listener", "a file that is no socket", "a closed port"] {
        for others in [0, 1] {
            let site = Site::new();
            let path = site.home().join("dead");
            match what {
                "a socket without a listener" => drop(UnixListener::bind(&path).expect("it is our folder")),
                "a file that is no socket" => std::fs::write(&path, "").expect("it is our folder"),
                _ => {}
            }
            let dead = if what == "a closed port" {
                format!("127.0.0.1:{}", free_port())
            } else {
                format!("unix:{}", path.display())
            };
            let mut addresses = vec![dead];
            (0..others).for_each(|_| addresses.push(at_path(&site.home().join("alive"), &peer)));
            let server = server_for(site, &addresses, "keep = \"0s\"");
            let expected = if others == 0 { "502" } else { "200 hello" };
            for number in 0..4 {
                rows.check(
                    format!("{what}, and {others}"),
                    get(&server, &number.to_string()),
                    expected.to_owned(),
                );
            }
            if others == 0 {
                rows.holds(what, "the log reports it", logs(&server, "0", ""));
            }
        }
    }
}

#[test]
fn a_closed_idle_connection_fails_no_request() {
    let mut rows = Rows::new();
    for method in ["GET", "POST"] {
        let (gate, (to, reports)) = (Gate::default(), report_channel());
        let closing = gate.clone();
        let server = start(
            &part(move |connection, number| {
                let (received, _) = connection.whole()?;
                connection.send(hello(received.id))?;
                if number == 0 {
                    closing.wait();
                    // No other handle is left.
                    connection.0 = Box::new(UnixStream::pair()?.0);
                    report(&to, ());
                }
                Ok(())
            }),
            "",
        );
        rows.check(method, get(&server, "x"), "200 hello".to_owned());
        gate.open();
        reports.recv_timeout(TIMEOUT).expect("it is closed");
        rows.check(method, outcome(&mut request(&server, method, "x")), "200 hello".to_owned());
    }
}

#[test]
fn a_connection_closed_on_its_next_request_fails_no_get() {
    let mut rows = Rows::new();
    for (method, expected) in [("GET", "200 hello"), ("DELETE", "200 hello"), ("POST", "502")] {
        let server = start(
            &part(|connection, _| {
                let (received, _) = connection.whole()?;
                connection.send(hello(received.id))?;
                connection.whole().map(drop)
            }),
            "",
        );
        rows.check(method, get(&server, "x"), "200 hello".to_owned());
        rows.check(method, outcome(&mut request(&server, method, "x")), expected.to_owned());
    }
}

#[test]
fn opens_one_connection_per_request_without_keep() {
    let (to, reports) = report_channel();
    let server = start(
        &part(move |connection, number| {
            loop {
                let (received, _) = connection.whole()?;
                report(&to, (number, received.keep));
                // The peer stays open, against the request's flag.
                connection.send(hello(received.id))?;
            }
        }),
        "keep = \"0s\"",
    );
    let mut client = server.connect();
    for _ in 0..3 {
        client.send("GET /app/x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(outcome(&mut client), "200 hello");
    }
    assert_eq!(reports.try_iter().collect::<Vec<_>>(), [(0, false), (1, false), (2, false)]);
}

#[test]
fn limits_the_connections_to_each_address_and_queues_the_rest() {
    let (gate, (to, reports)) = (Gate::default(), report_channel());
    let site = Site::new();
    let addresses = ['a', 'b'].map(|name| {
        let (gate, to) = (gate.clone(), to.clone());
        let peer = part(move |connection, _| {
            loop {
                let (received, _) = connection.whole()?;
                report(&to, name);
                gate.wait();
                connection.send(hello(received.id))?;
            }
        });
        at_path(&site.home().join(name.to_string()), &peer)
    });
    let server = server_for(site, &addresses, "connections = 2\nqueue = 3");
    let mut clients: Vec<Client> = (0..4).map(|_| request(&server, "GET", "x")).collect();
    let mut received: Vec<char> =
        (0..4).map(|_| reports.recv_timeout(TIMEOUT).expect("it receives a request")).collect();
    received.sort_unstable();
    assert_eq!(received, ['a', 'a', 'b', 'b']);
    clients.extend((0..4).map(|_| request(&server, "GET", "x")));
    // Three wait, and one finds the queue full.
    let refused = clients.split_off(4).into_iter().map(|client| {
        thread::spawn(move || {
            let mut client = client;
            outcome(&mut client)
        })
    });
    let refused: Vec<_> = refused.collect();
    assert!(e2e::wait_until(TIMEOUT, || refused.iter().any(|one| one.is_finished())));
    assert!(reports.try_recv().is_err(), "there are never more");
    gate.open();
    assert!(clients.iter_mut().all(|client| outcome(client) == "200 hello"));
    let mut late: Vec<String> =
        refused.into_iter().map(|one| one.join().expect("it does not panic")).collect();
    late.sort();
    assert_eq!(late, ["200 hello", "200 hello", "200 hello", "503, come again"]);
}

// ---- Slow peers.

#[test]
fn gives_up_a_silent_peer_after_the_timeout() {
    // Bytes sent first; the outcome for the client.
    type Before = fn(u16) -> Vec<u8>;
    let table: [(&str, Before, &str); 6] = [
        ("nothing", |_| Vec::new(), "504"),
        ("half of a record", |id| out(id, HEAD)[..5].to_vec(), "504"),
        ("half of a head", |id| out(id, "Content-Type: "), "504"),
        ("errors", |id| err(id, "still at it\n"), "504"),
        ("a head and a part", |id| out(id, [HEAD, b"part"].concat()), "cut"),
        ("part of its output", |id| out(id, "Content-Length: 9\r\n\r\npart"), "cut"),
    ];
    let (to, reports) = report_channel();
    let server = start(
        &part(move |connection, _| {
            let (received, _) = connection.whole()?;
            let at: usize = received.name().parse().expect("a number");
            connection.send(table[at].1(received.id))?;
            connection.is_left();
            report(&to, at);
            Ok(())
        }),
        "first_byte = \"300ms\"\nidle = \"300ms\"",
    );
    let mut rows = Rows::new();
    for (at, (what, _, expected)) in table.iter().enumerate() {
        rows.check(what, get(&server, &at.to_string()), (*expected).to_owned());
        rows.check(what, reports.recv_timeout(TIMEOUT).ok(), Some(at));
        rows.holds(what, "the log reports it", logs(&server, &at.to_string(), ""));
    }
}

#[test]
fn a_slow_response_may_take_up_to_the_total_timeout() {
    let trickle = part(|connection, _| {
        let (received, _) = connection.whole()?;
        connection.send(out(received.id, HEAD))?;
        let many = if received.name() == "short" { 20 } else { usize::MAX };
        for _ in 0..many {
            thread::sleep(Duration::from_millis(50));
            connection.send(out(received.id, "x"))?;
        }
        connection.send(end(received.id))
    });
    // One second in total, with short pauses only.
    let server = start(&trickle, "first_byte = \"3s\"\nidle = \"3s\"");
    assert_eq!(get(&server, "short"), format!("200 {}", "x".repeat(20)));
    let server = start(&trickle, "total = \"1s\"");
    assert_eq!(get(&server, "endless"), "cut");
    assert!(logs(&server, "endless", ""));
}

#[test]
fn a_peer_that_waits_for_the_client_is_not_timed_out() {
    let server = start(
        &part(|connection, _| {
            let (received, body) = connection.whole()?;
            connection.send(out(received.id, HEAD))?;
            // Far more than sockets can hold.
            (0..16).try_for_each(|_| connection.send(out(received.id, vec![b'x'; MIB])))?;
            connection.send([out(received.id, body), end(received.id)].concat())
        }),
        "first_byte = \"500ms\"\nidle = \"500ms\"",
    );
    let mut client = server.connect();
    client.send("POST /app/x HTTP/1.0\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo");
    // Twice the peer's timeout.
    thread::sleep(Duration::from_secs(1));
    client.send("dy");
    thread::sleep(Duration::from_secs(1));
    let response = client.read_response();
    assert_eq!((response.status, response.body.len()), (200, 16 * MIB + 4));
    assert!(response.body.ends_with(b"body"));
}

/// Listens and never accepts: a connection waits in the kernel.
fn full(
    server_at: impl Fn() -> OwnedFd,
    reach: impl Fn(&OwnedFd) -> rustix::io::Result<()>,
    family: AddressFamily,
) -> Vec<OwnedFd> {
    let listener = server_at();
    listen(&listener, 0).expect("it is bound");
    let mut all = vec![listener];
    for _ in 0..4 {
        let client = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK, None).expect("a socket");
        // Further connections do not get into the full backlog.
        _ = reach(&client);
        all.push(client);
    }
    all
}

#[test]
fn gives_up_a_peer_that_accepts_no_connection() {
    let site = Site::new();
    let path = site.home().join("full");
    let unix = SocketAddrUnix::new(&path).expect("it is short");
    let bound =
        |family| socket_with(family, SocketType::STREAM, SocketFlags::empty(), None).expect("a socket");
    let at_path = || {
        let socket = bound(AddressFamily::UNIX);
        bind(&socket, &unix).expect("it is our folder");
        socket
    };
    let _by_path = full(at_path, |client| connect(client, &unix), AddressFamily::UNIX);
    let tcp = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let at_port = || {
        let socket = bound(AddressFamily::INET);
        bind(&socket, &tcp).expect("it was free a moment ago");
        socket
    };
    let _by_port = full(at_port, |client| connect(client, &tcp), AddressFamily::INET);
    let mut rows = Rows::new();
    for address in [tcp.to_string(), format!("unix:{}", path.display())] {
        let server =
            server_for(Site::new(), std::slice::from_ref(&address), "connect = \"300ms\"\nwait = \"2s\"");
        let found = get(&server, "x");
        // At a path, the full backlog is known at once.
        let is_right = found == "504" || (address.starts_with("unix:") && found == "503, come again");
        rows.holds(&address, &format!("it is given up: {found}"), is_right);
        rows.holds(&address, "the log reports it", logs(&server, "x", ""));
        rows.check(&address, server.get("/static").text().as_str(), "still here");
    }
}

// ---- Clients that disconnect, and bodies that no peer reads.

#[test]
fn tells_the_peer_when_its_client_disconnects() {
    // The peer's actions before, and what it reports until it is aborted.
    let (to, reports) = report_channel();
    let begun = to.clone();
    let server = start(
        &part(move |connection, _| {
            let received = connection.read_request()?;
            match received.name() {
                "body" => report(&begun, "begun"),
                "silent" => report(&begun, "begun"),
                "part" => connection.send(out(received.id, [HEAD, b"part"].concat()))?,
                "endless" => {
                    connection.send(out(received.id, HEAD))?;
                    let mut writer = Connection(connection.0.clone_stream());
                    thread::spawn(move || while writer.send(out(received.id, [b'x'; 60000])).is_ok() {});
                }
                _ => {
                    connection.body(received.id)?;
                    return connection.send(hello(received.id));
                }
            }
            connection.is_left();
            report(&to, "left");
            Ok(())
        }),
        // The peer has one request per connection.
        "first_byte = \"60s\"\nidle = \"60s\"\nkeep = \"0s\"",
    );
    for name in ["body", "silent", "part", "endless"] {
        let mut client = server.connect();
        let length = if name == "body" { 1000 } else { 0 };
        client.send(format!("POST /app/{name} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
        match name {
            "body" | "silent" => assert_eq!(reports.recv_timeout(TIMEOUT), Ok("begun"), "{name}"),
            _ => assert!(!client.read_some().expect("it begins").is_empty()),
        }
        drop(client);
        assert_eq!(reports.recv_timeout(TIMEOUT), Ok("left"), "{name}");
        assert_eq!(get(&server, "hello"), "200 hello", "behind {name}");
    }
}

#[test]
fn does_not_deadlock_when_a_response_precedes_the_end_of_the_body() {
    let (to, reports) = report_channel();
    let gate = Gate::default();
    let over = gate.clone();
    let server = start(
        &part(move |connection, _| {
            let received = connection.read_request()?;
            match received.name() {
                "never-reads" => {
                    connection.send(hello(received.id))?;
                    over.wait();
                }
                "closes" => connection.send(hello(received.id))?,
                "reads-then" => {
                    connection.send(out(received.id, HEAD))?;
                    connection.send(out(received.id, vec![b'x'; 8 * MIB]))?;
                    let body = connection.body(received.id)?;
                    report(&to, body.len());
                    connection.send(end(received.id))?;
                }
                "echoes" => {
                    connection.send(out(received.id, HEAD))?;
                    // Twice as much as it reads, record by record.
                    loop {
                        let (_, _, content) = connection.record()?;
                        if content.is_empty() {
                            break connection.send(end(received.id))?;
                        }
                        connection.send(out(received.id, [&content[..], &content].concat()))?;
                    }
                }
                _ => {
                    connection.body(received.id)?;
                    connection.send(hello(received.id))?;
                }
            }
            Ok(())
        }),
        "keep = \"0s\"",
    );
    let mut rows = Rows::new();
    for (name, expected) in [
        ("never-reads", "200 hello".to_owned()),
        ("closes", "200 hello".to_owned()),
        ("reads-then", format!("200 {} bytes", 8 * MIB)),
        ("echoes", format!("200 {} bytes", 16 * MIB)),
    ] {
        let mut client = server.connect();
        let mut sender = client.another_handle();
        let sending = thread::spawn(move || {
            let head = format!("POST /app/{name} HTTP/1.0\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 8 * MIB);
            // The server may close before it has taken everything.
            _ = sender.try_send(head).and_then(|()| sender.try_send(vec![b'y'; 8 * MIB]));
        });
        rows.check(name, outcome(&mut client), expected);
        drop(client);
        sending.join().expect("it does not panic");
        rows.check(format!("behind {name}"), get(&server, "hello"), "200 hello".to_owned());
    }
    rows.check("the body that was read in the end", reports.try_recv().ok(), Some(8 * MIB));
    gate.open();
}
