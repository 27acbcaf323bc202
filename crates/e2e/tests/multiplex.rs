//! Several concurrent requests on one FastCGI connection, against an application in the test that responds as
//! each test defines.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use e2e::{Client, Random, Server, Site, TIMEOUT, wait_until};
use script::fastcgi::RequestId;
use script::fastcgi::application::{Application, Event, Limits};

/// How long the application waits for input before it checks for other work.
const TICK: Duration = Duration::from_millis(5);
const HEAD: &str = "Content-Type: text/plain\n\n";

/// Events of the application, one connection after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// A request with its whole body.
    Request(RequestId),
    Abort(RequestId),
    /// No further input for now.
    Nothing,
}

/// One connection from the server.
struct Connection {
    /// The first one is 1.
    number: usize,
    application: Application,
    socket: TcpStream,
    out: Vec<u8>,
    requests: Vec<Request>,
    peer: Arc<Seen>,
}

struct Request {
    id: RequestId,
    path: String,
    body: Vec<u8>,
    is_whole: bool,
}

/// Counts of what the server has done.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    /// Those that have ended.
    ended: AtomicUsize,
    /// The most concurrent requests on one connection.
    most: AtomicUsize,
    questions: AtomicUsize,
    refusals: AtomicUsize,
    aborted: Mutex<Vec<String>>,
    /// Set by the test for the application.
    go: AtomicUsize,
}

/// What the application reports about multiplexing, and does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Support {
    Multiplex,
    /// Reports that it can.
    Not,
    /// Reports that it cannot.
    ReportedOnly,
    /// Reports that it can, and then closes the connection, as PHP does.
    NotAsked,
}

fn peer(
    can: Support,
    act: impl Fn(&mut Connection, Input) + Clone + Send + 'static,
) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port left");
    let address = listener.local_addr().expect("it is bound");
    let seen = Arc::new(Seen::default());
    let peer = seen.clone();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.expect("it accepts");
            let number = peer.connections.fetch_add(1, Ordering::SeqCst) + 1;
            let (act, peer) = (act.clone(), peer.clone());
            thread::spawn(move || {
                socket.set_read_timeout(Some(TICK)).expect("it is not zero");
                socket.set_nodelay(true).expect("it is a TCP socket");
                let requests = if can == Support::Multiplex { 8 } else { 1 };
                let application = Application::new(Limits { requests, ..Limits::default() });
                let (out, requests) = (Vec::new(), Vec::new());
                let seen = peer.clone();
                Connection { number, application, socket, out, requests, peer }.serve(can, act);
                seen.ended.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    (address, seen)
}

impl Connection {
    /// Until the server or the test closes the connection.
    fn serve(mut self, can: Support, act: impl Fn(&mut Connection, Input)) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = match self.socket.read(&mut buffer) {
                Ok(0) => return,
                Ok(n) => n,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
                Err(_) => return,
            };
            let mut rest = &buffer[..read];
            let mut input = Vec::new();
            loop {
                let before = self.out.len();
                let (used, event) = self.application.receive(rest, &mut self.out).expect("it is FastCGI");
                rest = &rest[used..];
                match event {
                    Event::NeedMore => break,
                    Event::Request(id, _, parameters) => {
                        let of = |name: &[u8]| parameters.iter().find(|(own, _)| *own == name);
                        let path = of(b"PATH_INFO").map_or(&b""[..], |(_, value)| value);
                        let path = String::from_utf8_lossy(path).into_owned();
                        self.requests.push(Request { id, path, body: Vec::new(), is_whole: false });
                        self.peer.most.fetch_max(self.requests.len(), Ordering::SeqCst);
                    }
                    Event::Stdin(id, bytes) => self.request(id).body.extend_from_slice(bytes),
                    Event::EndStdin(id) => {
                        self.request(id).is_whole = true;
                        input.push(Input::Request(id));
                    }
                    Event::Abort(id) => {
                        let path = self.request(id).path.clone();
                        self.peer.aborted.lock().unwrap().push(path);
                        input.push(Input::Abort(id));
                    }
                    Event::OutputAppended => {
                        let name = b"FCGI_MPXS_CONNS";
                        let response = &mut self.out[before..];
                        match response.windows(name.len()).position(|bytes| bytes == name) {
                            Some(_) if can == Support::NotAsked => {
                                _ = self.flush();
                                return;
                            }
                            Some(at) => {
                                self.peer.questions.fetch_add(1, Ordering::SeqCst);
                                if can == Support::ReportedOnly {
                                    response[at + name.len()] = b'1';
                                    let most =
                                        response.windows(14).position(|bytes| bytes == b"FCGI_MAX_REQS1");
                                    response[most.expect("the request names it") + 13] = b'9';
                                }
                            }
                            None => _ = self.peer.refusals.fetch_add(1, Ordering::SeqCst),
                        }
                    }
                }
            }
            input.into_iter().chain([Input::Nothing]).for_each(|input| act(&mut self, input));
            if self.flush().is_err() {
                return;
            }
        }
    }

    fn request(&mut self, id: RequestId) -> &mut Request {
        self.requests.iter_mut().find(|request| request.id == id).expect("it is under way")
    }

    /// The complete requests, if there are at least so many.
    fn whole(&self, count: usize) -> Option<Vec<RequestId>> {
        let whole: Vec<_> =
            self.requests.iter().filter(|request| request.is_whole).map(|request| request.id).collect();
        (whole.len() == count).then_some(whole)
    }

    fn path(&mut self, id: RequestId) -> String {
        self.request(id).path.clone()
    }

    fn by_path(&self, path: &str) -> Option<RequestId> {
        self.requests
            .iter()
            .find(|request| request.path == path && request.is_whole)
            .map(|request| request.id)
    }

    fn send(&mut self, id: RequestId, text: impl AsRef<[u8]>) {
        self.application.stdout(id, text.as_ref(), &mut self.out);
    }

    fn finish(&mut self, id: RequestId) {
        self.application.finish(id, 0, &mut self.out);
        self.requests.retain(|request| request.id != id);
    }

    fn respond(&mut self, id: RequestId, text: &str) {
        self.send(id, format!("{HEAD}{text}"));
        self.finish(id);
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let out = std::mem::take(&mut self.out);
        self.socket.write_all(&out)
    }

    /// So that the server reads what was sent before it reads what follows.
    fn pause(&mut self) {
        self.flush().expect("the server is there");
        thread::sleep(2 * TICK);
    }
}

fn server(address: SocketAddr, more: &str) -> Server {
    server_with(1, address, more)
}

fn server_with(workers: usize, address: SocketAddr, more: &str) -> Server {
    let config = format!(
        "workers = {workers}\n[[route]]\npath = \"/app/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\n\
         address = \"{address}\"\nmultiplex = 8\n{more}"
    );
    Site::new().config(&config).start()
}

fn get(client: &mut Client, path: &str) {
    client.send(format!("GET /app{path} HTTP/1.1\r\nHost: a\r\n\r\n"));
}

/// Sends a request, in an order that the application sees.
fn send_request(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    get(&mut client, path);
    client
}

/// Waits until the server knows that the application can multiplex, and so many requests are active.
fn warm(server: &Server) {
    assert_eq!(server.get("/app/warm").text(), "warm");
}

fn until(what: &str, is: impl FnMut() -> bool) {
    assert!(wait_until(TIMEOUT, is), "{what}");
}

#[test]
fn multiplexes_slow_requests_and_their_interleaved_responses() {
    let (address, seen) = peer(Support::Multiplex, |connection, _| {
        let Some(six) = connection.whole(6) else { return };
        connection.application.stderr(six[2], b"a complaint\n", &mut connection.out);
        six.iter().for_each(|id| connection.send(*id, HEAD));
        for piece in ["a", "b", "c"] {
            for id in six.iter().rev() {
                let path = connection.path(*id);
                connection.send(*id, format!("{piece}{path}\n"));
            }
            connection.pause();
        }
        six.iter().for_each(|id| connection.finish(*id));
    });
    let server = server(address, "connections = 1\n");
    for _ in 0..3 {
        let mut clients: Vec<Client> = (0..6).map(|at| send_request(&server, &format!("/{at}"))).collect();
        for (at, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.read_response().text(), format!("a/{at}\nb/{at}\nc/{at}\n"));
        }
    }
    server.wait_for_line("/2\": a complaint", TIMEOUT);
    let found = [&seen.connections, &seen.most, &seen.questions].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(found, [1, 6, 1], "connections, requests at a time, questions");
}

#[test]
fn multiplexes_at_most_the_configured_number_of_requests() {
    for workers in [1, 2] {
        let (address, seen) = peer(Support::Multiplex, |connection, input| {
            if let Input::Request(id) = input {
                connection.pause();
                let path = connection.path(id);
                connection.respond(id, &path);
            }
        });
        let server = server_with(workers, address, "connections = 1\n");
        thread::scope(|scope| {
            for at in 0..24 {
                let server = &server;
                scope.spawn(move || {
                    for _ in 0..10 {
                        assert_eq!(server.get(&format!("/app/{at}")).text(), format!("/{at}"));
                    }
                });
            }
        });
        assert!((2..=8).contains(&seen.most.load(Ordering::SeqCst)));
        // Another worker needs the connection.
        let connections = seen.connections.load(Ordering::SeqCst);
        assert!(connections == 1 || workers > 1, "{connections}");
    }
}

#[test]
fn sends_one_request_at_a_time_to_a_peer_without_multiplexing() {
    for can in [Support::Not, Support::NotAsked] {
        let (address, seen) = peer(can, |connection, input| {
            if let Input::Request(id) = input {
                connection.pause();
                let path = connection.path(id);
                connection.respond(id, &path);
            }
        });
        let server = server(address, "connections = 3\n");
        thread::scope(|scope| {
            for at in 0..6 {
                let server = &server;
                scope.spawn(move || {
                    for _ in 0..5 {
                        let response = server.get(&format!("/app/{at}"));
                        assert_eq!(response.text(), format!("/{at}"), "{response}");
                    }
                });
            }
        });
        assert_eq!(seen.most.load(Ordering::SeqCst), 1);
        assert!(seen.questions.load(Ordering::SeqCst) <= 3);
        assert_eq!(seen.refusals.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn falls_back_to_one_request_at_a_time_when_the_peer_rejects_a_second() {
    let (address, seen) = peer(Support::ReportedOnly, |connection, _| {
        while let Some(request) = connection.requests.iter().find(|request| request.is_whole) {
            let (id, path) = (request.id, request.path.clone());
            if path == "/held" && connection.peer.go.load(Ordering::SeqCst) == 0 {
                return;
            }
            connection.respond(id, path.trim_start_matches('/'));
        }
    });
    let server = server(address, "");
    let mut held = send_request(&server, "/held");
    until("the query is answered", || seen.questions.load(Ordering::SeqCst) == 1);
    // Time for the server to read the answer.
    thread::sleep(2 * TICK);
    // The application has not read the request, so that any method can be retried.
    let post = "POST /app/post HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let response = server.request(post);
    assert_eq!(response.text(), "post", "{response}");
    assert_eq!(seen.refusals.load(Ordering::SeqCst), 1);
    for _ in 0..3 {
        warm(&server);
    }
    seen.go.store(1, Ordering::SeqCst);
    assert_eq!(held.read_response().text(), "held");
    warm(&server);
    assert_eq!(seen.refusals.load(Ordering::SeqCst), 1, "and never again");
    assert!(seen.connections.load(Ordering::SeqCst) <= 3);
}

#[test]
fn aborts_only_the_request_of_a_client_that_disconnects() {
    let (address, seen) = peer(Support::Multiplex, |connection, input| match input {
        Input::Abort(id) => {
            // The application may send more, which the server discards.
            connection.send(id, vec![b'x'; 1 << 20]);
            connection.finish(id);
        }
        Input::Request(id) => {
            let path = connection.path(id);
            connection.send(id, HEAD);
            match path.as_str() {
                "/warm" => {
                    connection.send(id, "warm");
                    connection.finish(id);
                }
                _ => connection.send(id, "begin "),
            }
        }
        Input::Nothing if connection.peer.go.load(Ordering::SeqCst) == 1 => {
            while let Some(request) = connection.requests.first() {
                let id = request.id;
                connection.send(id, "end");
                connection.finish(id);
            }
        }
        Input::Nothing => {}
    });
    let server = server(address, "connections = 1\n");
    warm(&server);
    let mut clients: Vec<Client> =
        ["/a", "/b", "/c"].iter().map(|path| send_request(&server, path)).collect();
    for client in &mut clients {
        let seen = client.read_some().expect("it begins");
        assert!(!seen.is_empty());
    }
    drop(clients.remove(1));
    until("it is aborted", || *seen.aborted.lock().unwrap() == ["/b"]);
    warm(&server);
    seen.go.store(1, Ordering::SeqCst);
    for client in &mut clients {
        let mut rest = Vec::new();
        while !rest.ends_with(b"0\r\n\r\n") {
            rest.extend(client.read_some().expect("the other request continues"));
        }
        assert!(String::from_utf8_lossy(&rest).contains("end"), "{}", String::from_utf8_lossy(&rest));
    }
    warm(&server);
    assert_eq!(seen.connections.load(Ordering::SeqCst), 1);
    assert_eq!(seen.aborted.lock().unwrap().len(), 1);
}

#[test]
fn retries_unanswered_requests_once_when_the_connection_breaks() {
    let (address, seen) = peer(Support::Multiplex, |connection, input| {
        if connection.number > 1 || connection.by_path("/warm").is_some() {
            if let Input::Request(id) = input {
                let path = connection.path(id);
                connection.respond(id, path.trim_start_matches('/'));
            }
        } else if connection.whole(4).is_some() {
            let begun = connection.by_path("/begun").expect("it is one of them");
            connection.send(begun, format!("{HEAD}begin "));
            connection.flush().expect("the server is there");
            until("the client has the beginning", || connection.peer.go.load(Ordering::SeqCst) == 1);
            // In the middle of a record.
            connection.send(begun, "more");
            connection.out.truncate(10);
            connection.flush().expect("the server is there");
            connection.socket.shutdown(Shutdown::Both).expect("it is open");
        }
    });
    let server = server(address, "connections = 2\n");
    warm(&server);
    let mut begun = send_request(&server, "/begun");
    let (mut get, mut other) = (send_request(&server, "/get"), send_request(&server, "/other"));
    let mut post = server.connect();
    post.send("POST /app/post HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(begun.read_response_to_head().status, 200);
    seen.go.store(1, Ordering::SeqCst);
    let body = begun.read_to_end();
    assert!(!body.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&body));
    assert_eq!(get.read_response().text(), "get");
    assert_eq!(other.read_response().text(), "other");
    assert_eq!(post.read_response().status, 502);
    assert_eq!(seen.most.load(Ordering::SeqCst), 4);
    warm(&server);
}

#[test]
fn sends_two_large_bodies_over_one_connection_in_parallel() {
    let (address, seen) = peer(Support::Multiplex, |connection, input| {
        if let Input::Request(id) = input {
            // Slow, so that the server has to buffer.
            connection.pause();
            let body = std::mem::take(&mut connection.request(id).body);
            connection.send(id, HEAD);
            connection.send(id, &body);
            connection.finish(id);
        }
    });
    let server = server(address, "connections = 1\nkeep = \"1s\"\n");
    assert_eq!(server.get("/app/warm").text(), "");
    let mut random = Random::new(11);
    let bodies = [random.bytes(1 << 20), random.bytes(1 << 20)];
    let mut clients: Vec<Client> = bodies
        .iter()
        .map(|body| {
            let mut client = server.connect();
            client.send(format!("POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
            client.send(&body[..body.len() / 2]);
            client
        })
        .collect();
    until("both are under way", || seen.most.load(Ordering::SeqCst) == 2);
    for (client, body) in clients.iter_mut().zip(&bodies) {
        client.send(&body[body.len() / 2..]);
    }
    for (client, body) in clients.iter_mut().zip(&bodies) {
        assert!(client.read_response().body == *body);
    }
    // A chunked body is spooled first, and sent from its file.
    let mut chunked = server.connect();
    chunked.send("POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for piece in bodies[0].chunks(100_000) {
        chunked.send(format!("{:x}\r\n", piece.len())).send(piece).send("\r\n");
    }
    chunked.send("0\r\n\r\n");
    assert!(chunked.read_response().body == bodies[0]);
    assert_eq!(seen.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn a_client_that_does_not_read_delays_others_only_beyond_a_limit() {
    const LITTLE: usize = 200 * 1024;
    const MUCH: usize = 48 * 1024 * 1024;
    let (address, seen) = peer(Support::Multiplex, |connection, _| {
        let Some(after) = connection.by_path("/after").or(connection.by_path("/later")) else { return };
        let large = connection.by_path("/large").expect("the request came earlier");
        match connection.path(after).as_str() {
            "/after" => {
                connection.send(large, format!("Content-Length: {}\n{HEAD}", LITTLE + MUCH));
                connection.send(large, vec![b'l'; LITTLE]);
            }
            _ => {
                connection.send(large, vec![b'm'; MUCH]);
                connection.finish(large);
            }
        }
        connection.respond(after, "after");
    });
    let server = server(address, "connections = 1\n");
    let mut slow = server.connect();
    slow.set_receive_buffer(256 * 1024);
    get(&mut slow, "/large");
    until("the request arrives", || seen.most.load(Ordering::SeqCst) == 1);
    assert_eq!(server.get("/app/after").text(), "after");
    let mut later = send_request(&server, "/later");
    // Time for the server to read as much as it may keep for the slow client.
    thread::sleep(50 * TICK);
    // Once the client reads, both are complete.
    let body = slow.read_response().body;
    assert_eq!((body.len(), body[0], body[LITTLE]), (LITTLE + MUCH, b'l', b'm'));
    assert_eq!(later.read_response().text(), "after");
    assert_eq!(seen.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn a_request_is_not_sent_on_a_connection_that_waits_for_a_client() {
    const MUCH: usize = 48 * 1024 * 1024;
    let (address, seen) = peer(Support::Multiplex, |connection, input| {
        let Input::Request(id) = input else { return };
        if connection.path(id) != "/large" {
            return connection.respond(id, "short");
        }
        connection.send(id, format!("X-Accel-Buffering: no\nContent-Length: {MUCH}\n{HEAD}"));
        connection.send(id, vec![b'l'; MUCH]);
        connection.finish(id);
    });
    let server = server(address, "connections = 2\n");
    assert_eq!(server.get("/app/warm").text(), "short");
    let mut slow = server.connect();
    slow.set_receive_buffer(256 * 1024);
    get(&mut slow, "/large");
    // Fewer than one connection takes. The first ones may come before it waits for the client.
    let mut earlier = Vec::new();
    let is_answered = (0..5).any(|_| {
        let mut client = send_request(&server, "/short");
        client.set_timeout(Duration::from_secs(2));
        let is_answered = client.try_read_response().is_ok_and(|response| response.text() == "short");
        earlier.push(client);
        is_answered
    });
    assert!(is_answered, "all wait for the client");
    assert_eq!(seen.connections.load(Ordering::SeqCst), 2);
    assert_eq!(slow.read_response().body.len(), MUCH);
}

#[test]
fn keeps_and_recalls_a_multiplexed_connection_like_any_other() {
    let response = |connection: &mut Connection, input| {
        if let Input::Request(id) = input {
            connection.respond(id, "warm");
        }
    };
    for (keep, requests) in [("keep = \"0s\"", 3), ("keep = \"100ms\"", 1)] {
        let (address, seen) = peer(Support::Multiplex, response);
        let server = server(address, &format!("connections = 1\n{keep}\n"));
        for _ in 0..3 {
            warm(&server);
        }
        assert_eq!(seen.connections.load(Ordering::SeqCst), requests, "{keep}");
        until("it is closed when it is not used", || seen.ended.load(Ordering::SeqCst) == requests);
        warm(&server);
        assert_eq!(seen.connections.load(Ordering::SeqCst), requests + 1, "{keep}");
    }
}

#[test]
fn a_request_whose_output_has_ended_is_whole_although_its_connection_stays_open() {
    let (address, _) = peer(Support::Multiplex, |connection, _| {
        if let Some(warm) = connection.by_path("/warm") {
            return connection.respond(warm, "warm");
        }
        for path in ["/ended", "/open"] {
            let Some(id) = connection.by_path(path) else { continue };
            connection.send(id, format!("{HEAD}whole"));
            if path == "/ended" {
                connection.finish(id);
                // Without FCGI_END_REQUEST.
                connection.out.truncate(connection.out.len() - 16);
            } else {
                // It has its response, as far as that goes.
                connection.request(id).is_whole = false;
            }
        }
    });
    let server = server(address, "idle = \"300ms\"\n");
    warm(&server);
    let (mut ended, mut open) = (send_request(&server, "/ended"), send_request(&server, "/open"));
    let response = ended.read_response();
    assert_eq!((response.status, response.text().as_str()), (200, "whole"));
    assert!(open.try_read_response().is_err(), "it may lack a part");
    server.wait_for_line("has ended its output, and not the request", TIMEOUT);
}

/// The other one may lack a part.
#[test]
fn a_request_whose_output_has_ended_survives_the_end_of_its_connection() {
    let (address, _) = peer(Support::Multiplex, |connection, _| {
        if let Some(warm) = connection.by_path("/warm") {
            return connection.respond(warm, "warm");
        }
        let Some(two) = connection.whole(2) else { return };
        for id in two {
            let has_ended = connection.path(id) == "/ended";
            connection.send(id, format!("{HEAD}whole"));
            if has_ended {
                connection.finish(id);
                // Without FCGI_END_REQUEST.
                connection.out.truncate(connection.out.len() - 16);
            }
        }
        connection.flush().expect("the server is there");
        connection.socket.shutdown(Shutdown::Both).expect("it is open");
    });
    let server = server(address, "connections = 1\n");
    warm(&server);
    let (mut ended, mut open) = (send_request(&server, "/ended"), send_request(&server, "/open"));
    let response = ended.read_response();
    assert_eq!((response.status, response.text().as_str()), (200, "whole"));
    assert!(open.try_read_response().map_or(true, |response| response.status == 502));
}
