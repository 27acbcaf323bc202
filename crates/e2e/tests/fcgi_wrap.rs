//! `taipan fcgi-wrap`: it runs plain CGI scripts for a server that sends FastCGI requests over real sockets.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use e2e::{
    Folder, Lines, Rows, Signal, TIMEOUT, command, output_of, program, shown, signal_process, sleeps, tool,
    wait_until,
};
use script::environment::{Environment, Limits};
use script::fastcgi::client::{Client, Event};
use script::fastcgi::{Capabilities, Multiplexing, Persistence, ProtocolStatus, RequestId, Role};

/// Longer than the grace of a script between SIGTERM and SIGKILL.
const LONG: Duration = Duration::from_secs(20);

/// The running wrapper, with a folder of scripts.
struct Wrapper {
    child: Child,
    home: Folder,
    errors: Lines,
}

impl Wrapper {
    /// With the folder `scripts` of `home`.
    fn start(home: Folder, flags: &[&str]) -> Wrapper {
        home.folder("scripts");
        let mut wrap = command();
        wrap.current_dir(home.path()).args(["fcgi-wrap", "--socket", "b.sock"]).args(flags);
        Wrapper::run(wrap, home)
    }

    fn of(script: &str) -> Wrapper {
        let home = Folder::new();
        home.script("scripts/s.cgi", script);
        Wrapper::start(home, &["--folder", "scripts"])
    }

    fn run(mut wrap: Command, home: Folder) -> Wrapper {
        let mut child = wrap.spawn().expect("the program starts");
        let errors = Lines::of(child.stderr.take().expect("it is a pipe"));
        let wrapper = Wrapper { child, home, errors };
        let connects = || UnixStream::connect(wrapper.socket()).is_ok();
        assert!(wait_until(TIMEOUT, connects), "{}", wrapper.errors.text());
        wrapper
    }

    fn socket(&self) -> PathBuf {
        self.home.path().join("b.sock")
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).into_os_string().into_string().expect("our own path")
    }

    fn connect(&self) -> Connection {
        Connection::new(UnixStream::connect(self.socket()).expect("the wrapper listens"))
    }

    /// A request for `scripts/s.cgi`, on a connection of its own.
    fn request(&self, body: &[u8]) -> Response {
        self.connect().request(&self.script(), body)
    }

    fn script(&self) -> String {
        self.path("scripts/s.cgi")
    }

    /// Ends it with a signal and returns its exit code.
    fn end(mut self, signal: Signal) -> Option<i32> {
        signal_process(self.child.id(), signal);
        assert!(wait_until(LONG, || self.child.try_wait().expect("it is our child").is_some()));
        assert!(!self.socket().exists(), "its socket is removed");
        self.child.wait().expect("it is our child").code()
    }
}

impl Drop for Wrapper {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            _ = self.child.kill();
            _ = self.child.wait();
        }
    }
}

/// One connection from a server.
struct Connection {
    stream: UnixStream,
    client: Client,
    /// Received bytes that are not parsed yet.
    input: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct Response {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    ending: ProtocolStatus,
    exit: u32,
}

impl Response {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("the scripts speak UTF-8")
    }

    /// The first line.
    fn first(&self) -> &str {
        self.text().split(['\r', '\n']).next().unwrap_or_default()
    }
}

impl Connection {
    fn new(stream: UnixStream) -> Connection {
        stream.set_read_timeout(Some(LONG)).expect("it is a socket");
        Connection { stream, client: Client::new(2), input: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the wrapper reads");
    }

    fn begin_as(&mut self, role: Role, keep: Persistence, pairs: &[(&str, &str)]) -> RequestId {
        let pairs = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let environment = Environment::received(pairs, Limits::default()).expect("it is small");
        let mut out = Vec::new();
        let id = self.client.begin(role, keep, &environment, &mut out).expect("it fits");
        self.send(&out);
        id
    }

    fn begin(&mut self, script: &str, keep: Persistence) -> RequestId {
        self.begin_as(Role::Responder, keep, &[("SCRIPT_FILENAME", script), ("REQUEST_METHOD", "POST")])
    }

    fn body(&mut self, id: RequestId, body: &[u8]) {
        let mut out = Vec::new();
        self.client.stdin(id, body, &mut out);
        self.client.end_stdin(id, &mut out);
        self.send(&out);
    }

    /// A whole request on a kept connection. The body is sent while the response is read.
    fn request(&mut self, script: &str, body: &[u8]) -> Response {
        let id = self.begin(script, Persistence::KeepAlive);
        let mut out = Vec::new();
        self.client.stdin(id, body, &mut out);
        self.client.end_stdin(id, &mut out);
        let mut stream = self.stream.try_clone().expect("a descriptor is free");
        let sends = thread::spawn(move || stream.write_all(&out).expect("it takes all"));
        let response = self.response(id);
        sends.join().expect("it does not panic");
        response
    }

    fn response(&mut self, id: RequestId) -> Response {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            let (used, event) = self.client.receive(&self.input).expect("it speaks FastCGI");
            match event {
                Event::NeedMore => {}
                Event::Stdout(of, bytes) if of == id => stdout.extend_from_slice(bytes),
                Event::Stderr(of, bytes) if of == id => stderr.extend_from_slice(bytes),
                Event::End(of, ending, exit) if of == id => {
                    self.input.drain(..used);
                    return Response { stdout, stderr, ending, exit };
                }
                other => panic!("{other:?}"),
            }
            let more = event == Event::NeedMore;
            self.input.drain(..used);
            if more {
                self.read_more();
            }
        }
    }

    /// The first bytes of the response.
    fn beginning(&mut self, id: RequestId) -> Vec<u8> {
        loop {
            let (used, event) = self.client.receive(&self.input).expect("it speaks FastCGI");
            let found = match event {
                Event::NeedMore => None,
                Event::Stdout(of, bytes) if of == id => Some(bytes.to_vec()),
                other => panic!("{other:?}"),
            };
            self.input.drain(..used);
            match found {
                Some(bytes) => return bytes,
                None => self.read_more(),
            }
        }
    }

    /// The line with its process id that a script prints behind an empty line, which may come alone.
    fn printed_pid(&mut self, id: RequestId) -> String {
        let mut first_output = self.beginning(id);
        if first_output == b"\n" {
            first_output = self.beginning(id);
        }
        String::from_utf8(first_output).expect("it is text")
    }

    fn read_more(&mut self) {
        let mut bytes = [0; 16 * 1024];
        let n = self.stream.read(&mut bytes).expect("something comes");
        assert_ne!(n, 0, "the response has not ended");
        self.input.extend_from_slice(&bytes[..n]);
    }

    /// True if the stream has ended.
    fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 64]), Ok(0) | Err(_))
    }
}

fn large(len: u32) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn is_there(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

#[test]
fn responds_with_the_output_of_a_script() {
    let wrapper = Wrapper::of(
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n\
         echo \"$QUERY_STRING|$FCGI_ROLE|$PATH|$HTTP_PROXY|$SECRET|$PWD\"\necho trouble >&2\nexit 7\n",
    );
    let mut connection = wrapper.connect();
    let script = wrapper.script();
    let pairs = [
        ("SCRIPT_FILENAME", script.as_str()),
        ("QUERY_STRING", "a=b"),
        ("HTTP_PROXY", "evil"),
        ("BAD-NAME", "x"),
    ];
    let id = connection.begin_as(Role::Responder, Persistence::Close, &pairs);
    connection.body(id, b"");
    let response = connection.response(id);
    let folder = wrapper.path("scripts");
    let expected =
        format!("Content-Type: text/plain\n\na=b|RESPONDER|/usr/local/bin:/usr/bin:/bin|||{folder}\n");
    assert_eq!(response.text(), expected);
    assert_eq!((response.stderr.as_slice(), response.exit), (&b"trouble\n"[..], 7));
    assert_eq!(response.ending, ProtocolStatus::Complete);
    assert!(connection.is_closed(), "the request said not to keep the connection");
    assert_eq!(fs::metadata(wrapper.socket()).expect("it is there").mode() & 0o777, 0o660);
}

#[test]
fn passes_none_of_its_environment_or_descriptors_to_a_script() {
    let home = Folder::new();
    home.script("scripts/s.cgi", "#!/bin/sh\necho\nenv | cut -d= -f1 | sort\nls /proc/$$/fd\n");
    let mut wrap = command();
    wrap.current_dir(home.path()).env("SECRET", "x");
    wrap.args(["fcgi-wrap", "--socket", "b.sock", "--folder", "scripts"]);
    let wrapper = Wrapper::run(wrap, home);
    let response = wrapper.request(b"");
    let own = ["PWD", "OLDPWD", "SHLVL", "_", "10", "255"];
    let found: Vec<&str> = response.text().lines().filter(|line| !own.contains(line)).collect();
    assert_eq!(found, ["", "FCGI_ROLE", "PATH", "REQUEST_METHOD", "SCRIPT_FILENAME", "0", "1", "2"]);
}

#[test]
fn passes_bodies_and_responses_of_any_size() {
    let wrapper = Wrapper::of("#!/bin/sh\necho\nexec cat\n");
    let mut rows = Rows::new();
    for len in [0, 1, 65_535, 65_536, 1 << 20, 8 << 20] {
        let body = large(len);
        let response = wrapper.request(&body);
        let right = response.stdout.split_first() == Some((&b'\n', &body));
        rows.check(len.to_string(), (right, response.exit, response.stderr.len()), (true, 0, 0));
    }
    let output = Wrapper::of("#!/bin/sh\necho\nexec head -c 9000000 /dev/zero\n");
    assert_eq!(output.request(b"").stdout.len(), 9_000_001);
}

#[test]
fn does_not_stall_when_a_script_reads_nothing() {
    let body = large(1 << 20);
    for script in ["#!/bin/sh\necho\necho done\n", "#!/bin/sh\nexec <&-\necho\nsleep 0.3\necho done\n"] {
        let wrapper = Wrapper::of(script);
        let mut connection = wrapper.connect();
        for _ in 0..2 {
            let response = connection.request(&wrapper.script(), &body);
            assert_eq!((response.text(), response.exit), ("\ndone\n", 0));
        }
    }
}

#[test]
fn streams_output_while_the_script_runs() {
    let wrapper = Wrapper::of("#!/bin/sh\necho\nwhile read -r line; do echo \"<$line>\"; done\n");
    let mut connection = wrapper.connect();
    let id = connection.begin(&wrapper.script(), Persistence::KeepAlive);
    assert_eq!(connection.beginning(id), b"\n");
    for word in ["one", "two"] {
        let mut out = Vec::new();
        connection.client.stdin(id, format!("{word}\n").as_bytes(), &mut out);
        connection.send(&out);
        assert_eq!(connection.beginning(id), format!("<{word}>\n").as_bytes());
    }
    connection.body(id, b"");
    assert_eq!(connection.response(id).exit, 0);
}

#[test]
fn stops_reading_a_script_when_the_server_does_not_read() {
    let script = "#!/bin/sh\necho $$ >\"$SCRIPT_FILENAME.pid\"\necho\nexec head -c 100000000 /dev/zero\n";
    let wrapper = Wrapper::of(script);
    let mut connection = wrapper.connect();
    let id = connection.begin(&wrapper.script(), Persistence::KeepAlive);
    let head = || {
        let pid = fs::read_to_string(wrapper.path("scripts/s.cgi.pid")).ok()?.trim().parse().ok()?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (name == "head\n").then_some(pid)
    };
    // It sleeps only while its pipe is full, and a wrapper that reads the pipe would be awake then.
    let is_stopped = || head().is_some_and(|head| [head, wrapper.child.id(), head].into_iter().all(sleeps));
    assert!(wait_until(TIMEOUT, is_stopped));
    let status = fs::read_to_string(format!("/proc/{}/status", wrapper.child.id())).expect("it runs");
    let memory = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it has memory");
    let memory: u32 = memory.trim().trim_end_matches(" kB").parse().expect("it is a number");
    assert!(memory < 40_000, "{memory} kB");
    assert_eq!(connection.response(id).stdout.len(), 100_000_001);
}

#[test]
fn answers_404_or_403_for_what_may_not_run() {
    let home = Folder::new();
    let hello = "#!/bin/sh\necho\necho hello\n";
    home.script("scripts/s.cgi", hello);
    home.script("scripts/below/s.cgi", hello);
    home.script("outside/s.cgi", hello);
    home.script("scripts-too/s.cgi", hello);
    home.file("scripts/plain.txt", "plain");
    home.script("scripts/lost", "#!/no/such/interpreter\n");
    home.symlink("scripts/out.cgi", "../outside/s.cgi");
    home.symlink("scripts/in.cgi", "below/s.cgi");
    home.symlink("scripts/folder", "../outside");
    home.symlink("scripts/nowhere", "nothing");
    home.symlink("link", "scripts");
    let wrapper = Wrapper::start(home, &["--folder", "link"]);
    let mut rows = Rows::new();
    for (name, expected) in [
        ("link/s.cgi", ""),
        ("link/below/s.cgi", ""),
        ("link/in.cgi", ""),
        ("scripts/s.cgi", ""),
        ("link/missing.cgi", "Status: 404 Not Found"),
        ("link/s.cgi/more", "Status: 404 Not Found"),
        ("link/nowhere", "Status: 404 Not Found"),
        ("link", "Status: 403 Forbidden"),
        ("link/below", "Status: 403 Forbidden"),
        ("link/plain.txt", "Status: 403 Forbidden"),
        ("link/out.cgi", "Status: 403 Forbidden"),
        ("link/folder/s.cgi", "Status: 403 Forbidden"),
        ("outside/s.cgi", "Status: 403 Forbidden"),
        ("outside/missing", "Status: 403 Forbidden"),
        ("scripts-too/s.cgi", "Status: 403 Forbidden"),
        ("link/../outside/s.cgi", "Status: 403 Forbidden"),
        ("link/../link/s.cgi", "Status: 403 Forbidden"),
        ("link//s.cgi", "Status: 403 Forbidden"),
        ("link/lost", "Status: 502 Bad Gateway"),
    ] {
        let response = wrapper.connect().request(&wrapper.path(name), b"body");
        rows.check(name, (response.first(), response.exit), (expected, 0));
    }
    for (name, expected) in [
        ("scripts/s.cgi", "Status: 403 Forbidden"),
        ("/etc/passwd", "Status: 403 Forbidden"),
        ("", "Status: 404 Not Found"),
    ] {
        let response = wrapper.connect().request(name, b"");
        rows.check(name, response.first(), expected);
        rows.holds(name, "a head", response.text().contains("\r\nContent-Type: text/plain\r\n\r\n"));
    }
    let errors = wrapper.errors.text();
    rows.holds("stderr", &errors, errors.lines().all(|line| line.starts_with("taipan: ")));
    rows.holds("stderr", &errors, errors.contains("out.cgi: the script is not beneath a --folder"));
}

#[test]
fn one_program_can_answer_every_request() {
    let wrapper = Wrapper::start(
        Folder::new(),
        &["sh", "-c", "echo; echo \"$0 $1 $SCRIPT_FILENAME $FCGI_ROLE\"; cat", "-x", "--help"],
    );
    let mut connection = wrapper.connect();
    let response = connection.request("/anything", b"body");
    assert_eq!(response.text(), "\n-x --help /anything RESPONDER\nbody");
    let id = connection.begin_as(Role::Authorizer, Persistence::KeepAlive, &[("REQUEST_METHOD", "GET")]);
    assert_eq!(connection.response(id).text(), "\n-x --help  AUTHORIZER\n", "no body is waited for");
}

#[test]
fn reports_a_script_killed_by_a_signal() {
    let wrapper = Wrapper::of("#!/bin/sh\nkill -9 $$\n");
    let response = wrapper.request(b"");
    assert_eq!((response.first(), response.exit), ("Status: 502 Bad Gateway", 128 + 9));
    let ended =
        |lines: &[String]| lines.iter().any(|line| line.ends_with("s.cgi: ended by signal 9")).then_some(());
    assert!(wrapper.errors.wait_for(TIMEOUT, ended).is_some(), "{}", wrapper.errors.text());
    let wrapper = Wrapper::of("#!/bin/sh\necho\necho begun\nkill -15 $$\n");
    let response = wrapper.request(b"");
    assert_eq!((response.text(), response.exit), ("\nbegun\n", 128 + 15));
}

const TIDY: &str =
    "#!/bin/sh\ntrap 'echo tidy >tidy; exit 3' TERM\necho\necho $$\nwhile :; do sleep 0.05; done\n";

#[test]
fn an_abort_ends_the_script() {
    for (script, expected) in
        [(TIDY, 3), ("#!/bin/sh\ntrap '' TERM\necho\necho $$\nwhile :; do sleep 0.05; done\n", 128 + 9)]
    {
        let wrapper = Wrapper::of(script);
        let mut connection = wrapper.connect();
        let id = connection.begin(&wrapper.script(), Persistence::KeepAlive);
        let pid = connection.printed_pid(id);
        assert!(is_there(&pid));
        let mut out = Vec::new();
        connection.client.abort(id, &mut out);
        connection.send(&out);
        let response = connection.response(id);
        assert_eq!((response.ending, response.exit), (ProtocolStatus::Complete, expected));
        assert!(!is_there(&pid));
        assert_eq!(wrapper.home.path().join("scripts/tidy").exists(), expected == 3);
        let missing = connection.request(&wrapper.path("scripts/none"), b"");
        assert_eq!(missing.first(), "Status: 404 Not Found", "the connection stays open");
    }
}

#[test]
fn ends_the_script_when_the_server_disconnects() {
    // Also when the body has not been read: then its end is not the next byte.
    for body in [0, 1 << 16, 1 << 18] {
        let wrapper = Wrapper::of(TIDY);
        let mut connection = wrapper.connect();
        let id = connection.begin(&wrapper.script(), Persistence::KeepAlive);
        let pid = connection.printed_pid(id);
        let mut out = Vec::new();
        connection.client.stdin(id, &large(body), &mut out);
        connection.stream.set_nonblocking(true).expect("it is a socket");
        _ = connection.stream.write(&out);
        assert!(is_there(&pid));
        drop(connection);
        assert!(wait_until(TIMEOUT, || !is_there(&pid)), "{body}");
        assert!(wrapper.home.path().join("scripts/tidy").exists());
    }
}

#[test]
fn keeps_the_connection_for_one_request_at_a_time() {
    let wrapper = Wrapper::of("#!/bin/sh\necho\ncat\n");
    let mut connection = wrapper.connect();
    for word in ["one", "two"] {
        assert_eq!(connection.request(&wrapper.script(), word.as_bytes()).text(), format!("\n{word}"));
    }
    let first = connection.begin(&wrapper.script(), Persistence::KeepAlive);
    assert_eq!(connection.beginning(first), b"\n");
    let second = connection.begin(&wrapper.script(), Persistence::KeepAlive);
    assert_eq!(connection.response(second).ending, ProtocolStatus::CannotMultiplex);
    connection.body(first, b"three");
    assert_eq!(connection.response(first).text(), "three");
}

#[test]
fn reports_its_capabilities() {
    let wrapper = Wrapper::start(Folder::new(), &["--processes", "5", "true"]);
    let mut connection = wrapper.connect();
    let mut out = Vec::new();
    connection.client.query_capabilities(&mut out);
    connection.send(&out);
    let expected =
        Capabilities { connections: Some(5), requests: Some(5), multiplexing: Some(Multiplexing::No) };
    loop {
        connection.read_more();
        if let (_, Event::Capabilities(found)) =
            connection.client.receive(&connection.input).expect("it speaks FastCGI")
        {
            assert_eq!(found, expected);
            break;
        }
        connection.input.clear();
    }
}

#[test]
fn invalid_fastcgi_closes_only_its_connection() {
    let wrapper = Wrapper::of("#!/bin/sh\necho\ncat\n");
    let mut other = wrapper.connect();
    let id = other.begin(&wrapper.script(), Persistence::KeepAlive);
    let mut rows = Rows::new();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], &[255; 64], b"\x01\x06\0\x01\0\0\0\0"] {
        let mut connection = wrapper.connect();
        connection.send(garbage);
        rows.holds(shown(garbage), "it is closed", connection.is_closed());
    }
    // Also in the middle of a request.
    let mut connection = wrapper.connect();
    let id_in_progress = connection.begin(&wrapper.script(), Persistence::KeepAlive);
    assert_eq!(connection.beginning(id_in_progress), b"\n");
    connection.send(b"garbage!");
    rows.holds("in a request", "it is closed", connection.is_closed());
    other.body(id, b"goes on");
    rows.check("another connection", other.response(id).text(), "\ngoes on");
    let errors = |lines: &[String]| (lines.len() >= 5).then_some(());
    rows.holds("stderr", "a line each", wrapper.errors.wait_for(TIMEOUT, errors).is_some());
}

#[test]
fn listens_on_an_inherited_socket() {
    let home = Folder::new();
    home.script("scripts/s.cgi", "#!/bin/sh\necho\ncat\n");
    let listener = || {
        _ = fs::remove_file(home.path().join("b.sock"));
        OwnedFd::from(UnixListener::bind(home.path().join("b.sock")).expect("it is our folder"))
    };
    let mut as_zero = command();
    as_zero.args(["fcgi-wrap", "--folder"]).arg(home.path()).stdin(Stdio::from(listener()));
    let mut child = as_zero.spawn().expect("the program starts");
    let request = || {
        let stream = UnixStream::connect(home.path().join("b.sock")).expect("it listens");
        let script = home.path().join("scripts/s.cgi");
        Connection::new(stream).request(script.to_str().expect("our own path"), b"body").text().to_owned()
    };
    assert_eq!(request(), "\nbody");
    signal_process(child.id(), Signal::INT);
    assert_eq!(child.wait().expect("it is our child").code(), Some(0));
    assert!(home.path().join("b.sock").exists(), "a foreign socket stays");
    // As systemd does: the descriptor after the standard streams.
    let mut shell = tool("sh");
    shell.args(["-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" fcgi-wrap --folder \"$1\" 3<&0 </dev/null"]);
    shell.arg(program()).arg(home.path()).stdin(Stdio::from(listener()));
    let mut child = shell.spawn().expect("the program starts");
    assert_eq!(request(), "\nbody");
    signal_process(child.id(), Signal::TERM);
    assert_eq!(child.wait().expect("it is our child").code(), Some(0));
}

#[test]
fn listens_on_tcp_addresses() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = free.local_addr().expect("it has one").to_string();
    drop(free);
    let mut wrap = command();
    wrap.args(["fcgi-wrap", "--socket", &address, "printf", "\\nhello"]);
    let mut child = wrap.spawn().expect("the program starts");
    let mut found = None;
    assert!(wait_until(TIMEOUT, || {
        found = std::net::TcpStream::connect(&address).ok();
        found.is_some()
    }));
    let mut stream = found.expect("it has been found");
    let mut client = Client::new(1);
    let mut out = Vec::new();
    let environment = Environment::default();
    let id =
        client.begin(Role::Responder, Persistence::Close, &environment, &mut out).expect("it is the first");
    client.end_stdin(id, &mut out);
    stream.write_all(&out).expect("it takes all");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("it closes in order");
    assert!(response.windows(6).any(|bytes| bytes == b"\nhello"), "{}", shown(&response));
    signal_process(child.id(), Signal::TERM);
    assert_eq!(child.wait().expect("it is our child").code(), Some(0));
}

#[test]
fn accepts_as_many_connections_as_processes() {
    let home = Folder::new();
    home.script("scripts/s.cgi", "#!/bin/sh\necho\necho $$\nread -r line\necho \"$line\"\n");
    let wrapper = Wrapper::start(home, &["--processes", "1", "--folder", "scripts"]);
    // The connection that tested the socket may still hold the place.
    let mut first = wrapper.connect();
    let id = first.begin(&wrapper.script(), Persistence::KeepAlive);
    assert_eq!(first.beginning(id)[0], b'\n');
    let mut second = wrapper.connect();
    let waits = second.begin(&wrapper.script(), Persistence::KeepAlive);
    second.body(waits, b"second\n");
    second.stream.set_read_timeout(Some(Duration::from_millis(1500))).expect("it is a socket");
    assert!(second.stream.read(&mut [0; 1]).is_err(), "it waits until the first request has ended");
    second.stream.set_read_timeout(Some(LONG)).expect("it is a socket");
    first.body(id, b"first\n");
    let response = first.response(id);
    assert!(response.text().ends_with("first\n"), "{response:?}");
    // The first connection is idle and gives up its place.
    assert!(second.response(waits).text().ends_with("second\n"));
    assert!(first.is_closed());
}

#[test]
fn runs_many_scripts_in_parallel() {
    let wrapper = Wrapper::of("#!/bin/sh\necho\nsleep 0.1\ncat\n");
    thread::scope(|scope| {
        for number in 0..40 {
            let wrapper = &wrapper;
            scope.spawn(move || {
                let body = large(100_000 + number);
                assert_eq!(wrapper.request(&body).stdout[1..], body);
            });
        }
    });
}

#[test]
fn ends_remaining_children_with_the_response() {
    let wrapper = Wrapper::of("#!/bin/sh\necho\nsleep 60 &\necho $!\n");
    let began = Instant::now();
    let response = wrapper.request(b"");
    assert_eq!(response.exit, 0);
    let took = began.elapsed();
    assert!(took < TIMEOUT, "{took:?}");
    assert!(wait_until(TIMEOUT, || !is_there(response.text())));
}

#[test]
fn a_place_is_free_as_soon_as_the_children_of_an_aborted_script_have_ended() {
    let home = Folder::new();
    // The leader ends at once, and its child a moment later.
    home.script(
        "scripts/s.cgi",
        "#!/bin/sh\n(trap 'sleep 0.2; exit' TERM; echo; echo $$; while :; do sleep 0.05; done) &\nwait\n",
    );
    home.script("scripts/other.cgi", "#!/bin/sh\necho\necho other\n");
    let wrapper = Wrapper::start(home, &["--processes", "1", "--folder", "scripts"]);
    let mut first = wrapper.connect();
    let id = first.begin(&wrapper.script(), Persistence::KeepAlive);
    first.printed_pid(id);
    drop(first);
    let began = Instant::now();
    let response = wrapper.connect().request(&wrapper.path("scripts/other.cgi"), b"");
    assert_eq!(response.text(), "\nother\n");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(4), "less than the grace: {took:?}");
}

#[test]
fn a_signal_ends_the_wrapper_with_all_its_scripts() {
    for signal in [Signal::TERM, Signal::INT] {
        let wrapper = Wrapper::of(TIDY);
        let mut connection = wrapper.connect();
        let id = connection.begin(&wrapper.script(), Persistence::KeepAlive);
        let pid = connection.printed_pid(id);
        let tidy = wrapper.home.path().join("scripts/tidy");
        assert!(is_there(&pid) && !tidy.exists());
        let home = fs::canonicalize(wrapper.home.path()).expect("it is there");
        assert_eq!(wrapper.end(signal), Some(0), "{}", home.display());
        assert!(!is_there(&pid));
        assert!(connection.is_closed());
    }
}

#[test]
fn replaces_a_stale_socket_but_not_one_in_use() {
    let home = Folder::new();
    drop(UnixListener::bind(home.path().join("b.sock")).expect("it is our folder"));
    let wrapper = Wrapper::start(home, &["cat"]);
    let mut second = command();
    second.current_dir(wrapper.home.path()).args(["fcgi-wrap", "--socket", "b.sock", "cat"]);
    let output = output_of(&mut second);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("unix:b.sock: it is in use") && errors.contains("--socket"), "{errors}");
    let found = fs::metadata(wrapper.socket()).expect("the first one still serves");
    assert!(found.file_type().is_socket());
    wrapper.connect().stream.shutdown(Shutdown::Both).expect("it is connected");
}

#[test]
fn reports_a_failed_start_in_one_line() {
    let home = Folder::new();
    home.file("plain", "plain");
    let table: &[(&[&str], &[&str])] = &[
        (&[], &["taipan fcgi-wrap --folder DIR"]),
        (&["--folder", "."], &["no socket", "--socket", "descriptor 0"]),
        (&["--folder", ".", "cat"], &["not both"]),
        (&["-s", "x.sock", "--folder", "missing"], &["missing", "create it"]),
        (&["-s", "x.sock", "--folder", "plain"], &["plain is not a folder"]),
        (&["-s", "x.sock", "no-such-program"], &["no program no-such-program"]),
        (&["-s", "x.sock", "./plain"], &["no program ./plain"]),
        (&["-s", "plain", "cat"], &["plain", "not a socket", "--socket"]),
        (&["-s", "missing/x.sock", "cat"], &["missing/x.sock", "folder does not exist"]),
        (&["-s", "localhost:9000", "cat"], &["localhost:9000 is not an address", "127.0.0.1:9000"]),
        (&["-s", "192.0.2.1:0", "cat"], &["192.0.2.1:0", "does not have that address"]),
        (&["--processes", "0", "cat"], &["--processes takes a number"]),
        (&["--listen", ":1", "cat"], &["--listen is not a flag of taipan fcgi-wrap"]),
    ];
    let mut rows = Rows::new();
    for (arguments, parts) in table {
        let what = arguments.join(" ");
        let mut wrap = command();
        let output = output_of(wrap.current_dir(home.path()).arg("fcgi-wrap").args(*arguments));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.check(&what, (output.status.code(), errors.lines().count()), (Some(2), 1));
        for part in *parts {
            rows.holds(&what, &format!("{part:?} is in {errors:?}"), errors.contains(part));
        }
    }
}
