//! The wrappers in `contrib`, from outside: each starts the same program either with a listening socket as
//! descriptor 0, and sends it FastCGI requests, or without a socket, as a CGI program.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use script::environment::{self, Environment};
use script::fastcgi::client::{Client, Event};
use script::fastcgi::{Capabilities, Multiplexing, Persistence, ProtocolStatus, RequestId, Role};
use script::response::{self, Parser, Step};

/// Longer than any program takes.
const TIMEOUT: Duration = Duration::from_secs(30);

const BIG: usize = 8 << 20;

/// Runs every test for every program. Differences between languages are noted in the tests.
macro_rules! programs {
    ($($program:ident)*) => {
        $(mod $program {
            #[test]
            fn is_plain_cgi_without_a_socket() {
                crate::is_plain_cgi_without_a_socket(crate::programs::$program());
            }

            #[test]
            fn answers_many_requests_on_one_connection() {
                crate::answers_many_requests_on_one_connection(crate::programs::$program());
            }

            #[test]
            fn answers_several_connections_in_turn() {
                crate::answers_several_connections_in_turn(crate::programs::$program());
            }

            #[test]
            fn passes_bodies_of_every_size_both_ways() {
                crate::passes_bodies_of_every_size_both_ways(crate::programs::$program());
            }

            #[test]
            fn keeps_the_next_request_apart_from_an_unread_body() {
                crate::keeps_the_next_request_apart_from_an_unread_body(crate::programs::$program());
            }

            #[test]
            fn sends_flushed_output_at_once() {
                crate::sends_flushed_output_at_once(crate::programs::$program());
            }

            #[test]
            fn each_request_has_its_own_environment() {
                crate::each_request_has_its_own_environment(crate::programs::$program());
            }

            #[test]
            fn sends_stderr_to_the_server() {
                crate::sends_stderr_to_the_server(crate::programs::$program());
            }

            #[test]
            fn ends_an_aborted_request() {
                crate::ends_an_aborted_request(crate::programs::$program());
            }

            #[test]
            fn an_exit_ends_the_request() {
                crate::an_exit_ends_the_request(crate::programs::$program());
            }

            #[test]
            fn closes_the_connection_after_a_protocol_error_or_a_disconnect() {
                crate::closes_the_connection_after_a_protocol_error_or_a_disconnect(crate::programs::$program());
            }

            #[test]
            fn answers_protocol_records() {
                crate::answers_protocol_records(crate::programs::$program());
            }
        })*
    };
}

programs! { c c_with_macros python perl }

fn is_plain_cgi_without_a_socket(command: Command) {
    let check = |query: &str, body: &[u8], expected: &[u8]| {
        let mut command = copy(&command);
        command.env("QUERY_STRING", query).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program");
        let mut input = child.stdin.take().expect("a pipe");
        let output = std::thread::scope(|scope| {
            scope.spawn(move || input.write_all(body));
            child.wait_with_output().expect("an end")
        });
        assert_eq!(body_of(&output.stdout), expected, "{query}");
        assert!(output.status.success());
    };
    check("hello", b"", b"Hello!\n");
    check("echo", b"", b"");
    check("echo", b"a", b"a");
    check("lines", b"a\nb\n", b"2 b\n");
    check("environment", b"", b"base none none none");
    check("echo", big(), big());

    // A closed descriptor is no socket, either.
    let output = copy(&command).stdin(Stdio::null()).stdout(Stdio::piped()).output().expect("an end");
    assert_eq!(body_of(&output.stdout), b"Hello!\n");
}

fn answers_many_requests_on_one_connection(command: Command) {
    let application = Application::start(command);
    let mut connection = application.connect();
    for _ in 0..50 {
        connection.check("hello", b"", b"Hello!\n");
    }
    let response = connection.request(&[("QUERY_STRING", "hello")], b"", Persistence::Close);
    assert_eq!(body_of(&response.stdout), b"Hello!\n");
    connection.is_closed();
    application.connect().check("hello", b"", b"Hello!\n");
}

fn answers_several_connections_in_turn(command: Command) {
    let application = Application::start(command);
    let mut connections: Vec<_> = (0..5).map(|_| application.connect()).collect();
    for turn in 0..3 {
        for connection in &mut connections {
            let body = format!("turn {turn}");
            connection.check("echo", body.as_bytes(), body.as_bytes());
        }
    }
    drop(connections.remove(2));
    connections.iter_mut().rev().for_each(|connection| connection.check("hello", b"", b"Hello!\n"));
}

fn passes_bodies_of_every_size_both_ways(command: Command) {
    let application = Application::start(command);
    let mut connection = application.connect();
    connection.check("echo", b"", b"");
    connection.check("echo", b"a", b"a");
    connection.check("lines", b"one\ntwo\nthree", b"3 three");
    connection.check("lines", b"", b"0 ");
    for len in [65535, 65536, 100_001] {
        connection.check("echo", &big()[..len], &big()[..len]);
    }
    connection.check("big", b"", &[b'x'; BIG]);
    connection.check("echo", big(), big());
    connection.check("echo", b"z", b"z");
}

fn keeps_the_next_request_apart_from_an_unread_body(command: Command) {
    let application = Application::start(command);
    let mut connection = application.connect();
    connection.check("hello", big(), b"Hello!\n");
    connection.check("echo", b"mine", b"mine");
    // The program reads a part of it.
    connection.check("step", b"abc", b"1a2");
    connection.check("echo", b"", b"");
}

fn sends_flushed_output_at_once(command: Command) {
    let application = Application::start(command);
    let mut connection = application.connect();
    let id = connection.begin(&[("QUERY_STRING", "step")], Persistence::KeepAlive);
    let mut response = Response::default();
    while !response.stdout.ends_with(b"\r\n\r\n1") {
        assert!(connection.receive(&mut response), "the end comes after the requested byte");
    }
    let mut out = Vec::new();
    connection.client.stdin(id, b"x", &mut out);
    connection.client.end_stdin(id, &mut out);
    connection.stream.write_all(&out).expect("a connection");
    while connection.receive(&mut response) {}
    assert_eq!(body_of(&response.stdout), b"1x2");
}

fn each_request_has_its_own_environment(command: Command) {
    let application = Application::start(command);
    let mut connection = application.connect();
    let mut check = |variables: &[(&str, &str)], expected: &str| {
        let variables = [&[("QUERY_STRING", "environment")], variables].concat();
        let response = connection.request(&variables, b"", Persistence::KeepAlive);
        assert_eq!(String::from_utf8_lossy(body_of(&response.stdout)), expected);
    };
    let long = "long".repeat(10_000);
    check(&[], "base none none none");
    check(&[("ONCE", "1=2"), ("BASE", "other")], "other 1=2 none none");
    check(&[], "base none none none");
    check(&[("LONG", &long), ("ONCE", "")], &format!("base  none {long}"));
    check(&[], "base none none none");

    // A variable that another server may pass.
    let mut out = Vec::new();
    let id = connection.begin_without(&mut out);
    let mut content = b"\x0a\x01HTTP_PROXYx\x0c\x0bQUERY_STRINGenvironment".to_vec();
    let header = [1, 4, 0, id.number() as u8, 0, content.len() as u8, 0, 0];
    out.extend(header);
    out.append(&mut content);
    out.extend([1, 4, 0, id.number() as u8, 0, 0, 0, 0]);
    connection.client.end_stdin(id, &mut out);
    connection.stream.write_all(&out).expect("a connection");
    let mut response = Response::default();
    while connection.receive(&mut response) {}
    assert_eq!(body_of(&response.stdout), b"base none none none");
}

fn sends_stderr_to_the_server(command: Command) {
    let application = Application::start(command);
    let mut connection = application.connect();
    let response = connection.request(&[("QUERY_STRING", "stderr")], b"", Persistence::KeepAlive);
    assert_eq!(body_of(&response.stdout), b"Hello!\n");
    assert_eq!(response.stderr, b"oops\n");
    connection.check("hello", b"", b"Hello!\n");
}

fn ends_an_aborted_request(command: Command) {
    let application = Application::start(command);
    let mut connection = application.connect();
    let id = connection.begin(&[("QUERY_STRING", "endless")], Persistence::KeepAlive);
    let mut out = Vec::new();
    connection.client.end_stdin(id, &mut out);
    connection.stream.write_all(&out).expect("a connection");
    let mut response = Response::default();
    while response.stdout.len() < 100_000 {
        assert!(connection.receive(&mut response));
    }
    let mut out = Vec::new();
    connection.client.abort(id, &mut out);
    connection.stream.write_all(&out).expect("a connection");
    while connection.receive(&mut response) {}
    assert_eq!(response.ending, Some(ProtocolStatus::Complete));
    connection.check("hello", b"", b"Hello!\n");

    // A program that waits for its body sees the end.
    let id = connection.begin(&[("QUERY_STRING", "echo")], Persistence::KeepAlive);
    let mut out = Vec::new();
    connection.client.stdin(id, b"a part", &mut out);
    connection.client.abort(id, &mut out);
    connection.stream.write_all(&out).expect("a connection");
    let mut response = Response::default();
    while connection.receive(&mut response) {}
    assert_eq!((response.ending, response.stdout.len()), (Some(ProtocolStatus::Complete), 0));
    connection.check("hello", b"", b"Hello!\n");
}

fn an_exit_ends_the_request(command: Command) {
    // Without an exit status from the language, it is 0 or 1.
    let mut application = Application::start(command);
    let mut connection = application.connect();
    connection.check("hello", b"", b"Hello!\n");
    let response = connection.request(&[("QUERY_STRING", "exit")], b"", Persistence::KeepAlive);
    assert_eq!(body_of(&response.stdout), b"partial");
    assert_eq!(response.ending, Some(ProtocolStatus::Complete));
    assert!(matches!(response.exit, 1 | 3), "{}", response.exit);
    connection.is_closed();
    drop(connection);
    assert_eq!(application.end().code(), Some(response.exit as i32));
}

fn closes_the_connection_after_a_protocol_error_or_a_disconnect(command: Command) {
    let application = Application::start(command);
    let begin = [&b"\x01\x01\0\x01\0\x08\0\0\0\x01\x01\0\0\0\0\0"[..]];
    let violations: [&[&[u8]]; 6] = [
        &[b"GET / HTTP/1.1\r\n\r\n"],
        &[b"\x02\x01\0\x01\0\x08\0\0"],
        &[b"\x01\x01\0\x01\0\x07\0\x01\0\x01\x01\0\0\0\0\0"],
        &[begin[0], begin[0]],
        &[begin[0], b"\x01\x04\0\x01\0\x01\0\0\x05", b"\x01\x04\0\x01\0\0\0\0"],
        &[begin[0], b"\x01\x04\0\x01\0\x05\0\0\xff\xff\xff\xff\x01", b"\x01\x04\0\x01\0\0\0\0"],
    ];
    for violation in violations {
        let mut stream = application.connect().stream;
        stream.write_all(&violation.concat()).expect("a connection");
        let mut nothing = Vec::new();
        // A reset counts as the end.
        let _ = stream.read_to_end(&mut nothing);
        drop(stream);
        assert_eq!(nothing, b"", "{violation:?}");
        application.connect().check("hello", b"", b"Hello!\n");
    }
    // At any byte of a request.
    let mut connection = application.connect();
    let mut whole = Vec::new();
    let id = connection.client.begin(
        Role::Responder,
        Persistence::KeepAlive,
        &variables(&[("QUERY_STRING", "echo")]),
        &mut whole,
    );
    connection.client.stdin(id.expect("an id"), b"hi", &mut whole);
    for len in 1..=whole.len() {
        application.connect().stream.write_all(&whole[..len]).expect("a connection");
    }
    application.connect().check("echo", b"hi", b"hi");
}

fn answers_protocol_records(command: Command) {
    let application = Application::start(command);
    let mut connection = application.connect();
    let mut out = Vec::new();
    connection.client.query_capabilities(&mut out);
    connection.stream.write_all(&out).expect("a connection");
    let mut response = Response::default();
    while response.abilities.is_none() {
        connection.receive(&mut response);
    }
    let abilities =
        Capabilities { connections: Some(1), requests: Some(1), multiplexing: Some(Multiplexing::No) };
    assert_eq!(response.abilities, Some(abilities));
    connection.check("hello", b"", b"Hello!\n");

    // A second concurrent request is rejected, and the first continues. Padding and small records are read
    // like any others.
    let mut connection = Connection { client: Client::new(2), ..application.connect() };
    let first = connection.begin(&[("QUERY_STRING", "echo")], Persistence::KeepAlive);
    connection.begin(&[("QUERY_STRING", "echo")], Persistence::KeepAlive);
    let mut response = Response::default();
    while connection.receive(&mut response) {}
    assert_eq!(response.ending, Some(ProtocolStatus::CannotMultiplex));
    let padded = [&[1, 5, 0, first.number() as u8, 0, 2, 255, 0], &b"hi"[..], &[7; 255]].concat();
    for byte in padded {
        connection.stream.write_all(&[byte]).expect("a connection");
    }
    let mut out = Vec::new();
    connection.client.end_stdin(first, &mut out);
    connection.stream.write_all(&out).expect("a connection");
    // The head of the first response may precede the end of the second request.
    response.ending = None;
    while connection.receive(&mut response) {}
    assert_eq!(body_of(&response.stdout), b"hi");

    // An authorizer has no body, and no record that ends it.
    let id = connection.client.begin(
        Role::Authorizer,
        Persistence::KeepAlive,
        &variables(&[("QUERY_STRING", "echo")]),
        &mut out,
    );
    let from = out.len() - 8;
    assert!(id.is_some() && from > 8);
    connection.stream.write_all(&out[8..]).expect("a connection");
    let mut response = Response::default();
    while connection.receive(&mut response) {}
    assert_eq!(body_of(&response.stdout), b"");

    // An unknown role, and an unknown type of record.
    let mut stream = application.connect().stream;
    stream.write_all(b"\x01\x01\0\x01\0\x08\0\0\0\x03\0\0\0\0\0\0").expect("a connection");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("an end");
    drop(stream);
    assert_eq!(all, b"\x01\x03\0\x01\0\x08\0\0\0\0\0\0\x03\0\0\0");
    let mut stream = application.connect().stream;
    stream.write_all(b"\x01\x4d\0\0\0\0\0\0").expect("a connection");
    let mut unknown = [0; 16];
    stream.read_exact(&mut unknown).expect("a response");
    assert_eq!(&unknown, b"\x01\x0b\0\0\0\x08\0\0\x4d\0\0\0\0\0\0\0");
}

#[test]
fn perl_keeps_the_encoding_layer_of_its_output() {
    let mut command = programs::perl();
    let application = Application::start({
        command.env("TEXT", "1");
        command
    });
    let mut connection = application.connect();
    connection.check("text", b"", "é€".as_bytes());
    connection.check("text", b"", "é€".as_bytes());
}

#[test]
fn the_examples_are_cgi_programs() {
    let contrib = contrib();
    let mut python = tool("python3");
    python.arg(contrib.join("python/hello.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut perl = tool("perl");
    perl.arg(contrib.join("perl/hello.pl"));
    let mut shell = tool("sh");
    shell.arg(contrib.join("shell/hello.sh"));
    let c = Command::new(compile(&contrib.join("c/hello.c"), "hello", &["-std=c99", "-pedantic"]));
    for mut command in [c, python, perl, shell] {
        let output = command.env("QUERY_STRING", "a=b").stdin(Stdio::null()).output().expect("an end");
        let text = String::from_utf8_lossy(body_of(&output.stdout)).into_owned();
        assert_eq!(text, "Hello!\nThis is request 1, with the query \"a=b\".\n", "{command:?}");
    }
}

/// How to start the program of a language.
mod programs {
    use super::*;

    pub fn c() -> Command {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let source = || compile(&folder().join("echo.c"), "echo", &["-std=c99", "-pedantic"]);
        with_base(Command::new(PROGRAM.get_or_init(source)))
    }

    /// Compiled as where stdin and stdout cannot be assigned.
    pub fn c_with_macros() -> Command {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let source = || compile(&folder().join("echo.c"), "echo-macros", &["-DTAIPAN_MACROS"]);
        with_base(Command::new(PROGRAM.get_or_init(source)))
    }

    pub fn python() -> Command {
        let mut command = with_base(tool("python3"));
        command.env("PYTHONPATH", contrib().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(folder().join("echo.py"));
        command
    }

    pub fn perl() -> Command {
        let mut command = with_base(tool("perl"));
        command.arg("-I").arg(contrib().join("perl")).arg(folder().join("echo.pl"));
        command
    }

    fn with_base(mut command: Command) -> Command {
        command.env("BASE", "base");
        command
    }

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contrib")
    }
}

fn contrib() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib")
}

/// A program of the system.
fn tool(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    Command::new(found.unwrap_or_else(|| panic!("{name} is not installed; this test needs it")))
}

fn compile(source: &Path, name: &str, options: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = tool("cc");
    command.args(["-O1", "-Wall", "-Wextra", "-Werror"]).args(options);
    command.arg("-I").arg(contrib().join("c")).arg("-o").arg(&program).arg(source);
    let output = command.output().expect("a compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// A copy of the command.
fn copy(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    copy.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    copy
}

/// Varied bytes.
fn big() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| (0..BIG as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect())
}

fn variables(pairs: &[(&str, &str)]) -> Environment {
    let pairs = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    Environment::received(pairs, environment::Limits::default()).expect("an environment")
}

/// The output after the head.
#[track_caller]
fn body_of(output: &[u8]) -> &[u8] {
    match Parser::new(response::Limits::default()).receive(output) {
        Step::Head(head, used) => {
            assert_eq!(head.fields.value("content-type"), Some(&b"text/plain"[..]));
            &output[used..]
        }
        other => panic!("{other:?} of {:?}", String::from_utf8_lossy(output)),
    }
}

/// A program with a listening socket as descriptor 0.
struct Application {
    child: Child,
    address: SocketAddr,
}

impl Application {
    fn start(mut command: Command) -> Application {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("taipan-contrib-{}-{number}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).expect("a name");
        let listener = UnixListener::bind_addr(&address).expect("a listener");
        command.stdin(Stdio::from(OwnedFd::from(listener))).stdout(Stdio::null()).stderr(Stdio::null());
        Application { child: command.spawn().expect("a program"), address }
    }

    fn connect(&self) -> Connection {
        let stream = UnixStream::connect_addr(&self.address).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a limit");
        stream.set_write_timeout(Some(TIMEOUT)).expect("a limit");
        Connection { stream, client: Client::new(1), received: Vec::new() }
    }

    fn end(&mut self) -> ExitStatus {
        self.child.wait().expect("an end")
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Connection {
    stream: UnixStream,
    client: Client,
    received: Vec<u8>,
}

/// The result of a request.
#[derive(Debug, Default)]
struct Response {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    ending: Option<ProtocolStatus>,
    exit: u32,
    abilities: Option<Capabilities>,
}

impl Connection {
    #[track_caller]
    fn check(&mut self, query: &str, body: &[u8], expected: &[u8]) {
        let response = self.request(&[("QUERY_STRING", query)], body, Persistence::KeepAlive);
        let found = body_of(&response.stdout);
        // Not `assert_eq`, which would print megabytes.
        assert!(found == expected, "{query}: {} bytes, expected {}", found.len(), expected.len());
        assert_eq!((response.ending, response.exit), (Some(ProtocolStatus::Complete), 0));
        assert_eq!(response.stderr, b"");
    }

    /// Sends while it reads, as a server does.
    fn request(&mut self, variables: &[(&str, &str)], body: &[u8], keep: Persistence) -> Response {
        let id = self.begin(variables, keep);
        let mut out = Vec::new();
        self.client.stdin(id, body, &mut out);
        self.client.end_stdin(id, &mut out);
        let mut response = Response::default();
        let mut sender = self.stream.try_clone().expect("a descriptor");
        std::thread::scope(|scope| {
            scope.spawn(move || sender.write_all(&out));
            while self.receive(&mut response) {}
        });
        response
    }

    fn begin(&mut self, pairs: &[(&str, &str)], keep: Persistence) -> RequestId {
        let mut out = Vec::new();
        let id = self.client.begin(Role::Responder, keep, &variables(pairs), &mut out).expect("an id");
        self.stream.write_all(&out).expect("a connection");
        id
    }

    /// The beginning of a request whose parameters are incomplete.
    fn begin_without(&mut self, out: &mut Vec<u8>) -> RequestId {
        let id = self
            .client
            .begin(Role::Responder, Persistence::KeepAlive, &Environment::default(), out)
            .expect("an id");
        out.truncate(out.len() - 8);
        id
    }

    /// Reads once; false when the request has ended.
    #[track_caller]
    fn receive(&mut self, response: &mut Response) -> bool {
        loop {
            let (used, event) = self.client.receive(&self.received).expect("a valid record");
            match event {
                Event::NeedMore => {
                    let mut bytes = [0; 65536];
                    let len = self.stream.read(&mut bytes).expect("bytes in time");
                    assert!(len > 0, "{:?}, after {response:?}", self.client.closed());
                    self.received = bytes[..len].to_vec();
                    continue;
                }
                Event::Stdout(_, bytes) => response.stdout.extend_from_slice(bytes),
                Event::Stderr(_, bytes) => response.stderr.extend_from_slice(bytes),
                Event::Capabilities(found) => response.abilities = Some(found),
                Event::Unknown(kind) => panic!("{kind} is unknown"),
                Event::End(_, ending, exit) => (response.ending, response.exit) = (Some(ending), exit),
            }
            self.received.drain(..used);
            return response.ending.is_none();
        }
    }

    #[track_caller]
    fn is_closed(&mut self) {
        assert_eq!(self.received, b"");
        assert_eq!(self.stream.read(&mut [0]).expect("an end in time"), 0);
        assert_eq!(self.client.closed(), Ok(()));
    }
}
