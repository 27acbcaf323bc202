//! Hedging: a request that one endpoint is silent about goes to a second one, too. The test answers as each endpoint,
//! byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use e2e::upstream::read_head;
use e2e::{Client, Rows, Server, Site, TIMEOUT, wait_until};

/// An endpoint whose requests the test answers.
struct Peer {
    address: SocketAddr,
    arrivals: Receiver<Arrival>,
}

/// A connection whose first request has been received.
struct Arrival {
    head: String,
    stream: TcpStream,
}

impl Peer {
    fn start() -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (sender, arrivals) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, sender) = (stream.expect("it listens"), sender.clone());
                thread::spawn(move || {
                    let head = read_head(&mut stream)?;
                    // Fails only at the end of the test.
                    _ = sender.send(Arrival { head, stream });
                    std::io::Result::Ok(())
                });
            }
        });
        Peer { address, arrivals }
    }

    fn next(&self) -> Arrival {
        let arrival = self.arrivals.recv_timeout(TIMEOUT).expect("a request");
        arrival.stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        arrival
    }

    fn is_idle(&self) -> bool {
        self.arrivals.try_recv().is_err()
    }
}

impl Arrival {
    /// Fails if the server has closed the connection.
    fn send(&mut self, bytes: &str) {
        _ = self.stream.write_all(bytes.as_bytes());
    }

    /// Whether the server closes the connection.
    fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

fn response(by: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{by}.")
}

/// All requests go to the first of two endpoints, and after a time to the second one, too.
fn start(settings: &str) -> (Peer, Peer, Server) {
    let (first, second) = (Peer::start(), Peer::start());
    let config = format!(
        "workers = 1\n[log]\naccess = \"stdout\"\nformat = \"json\"\n[timeouts]\ndelay = 0\n[[route]]\npath = \"/\"\n\
         proxy = \"http://app\"\n[[application]]\nname = \"app\"\nprotocol = \"http\"\n\
         address = [\"{}\", \"{}\"]\nbalance = \"round_robin\"\nweights = [1000, 1]\nhedge_after = \"20ms\"\n{settings}\n",
        first.address, second.address
    );
    (first, second, Site::new().config(&config).start())
}

fn send(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client
}

/// The addresses of the attempts and their statuses, in the log line of `path`.
fn attempts(server: &Server, path: &str) -> Vec<(String, String)> {
    let line = server.wait_for_output(&format!("\"target\":\"{path}\""), TIMEOUT);
    let (_, upstream) = line.split_once("\"upstream\":").expect("it has upstreams");
    let value = |attempt: &str, name: &str| {
        let (_, value) = attempt.split_once(name).expect("it has the member");
        value.split([',', '"']).next().unwrap_or_default().to_owned()
    };
    let objects = upstream.split('{').skip(1);
    objects.map(|attempt| (value(attempt, "\"address\":\""), value(attempt, "\"status\":"))).collect()
}

#[test]
fn a_second_endpoint_responds_for_a_silent_one() {
    let (first, second, server) = start("");
    let mut client = send(&server, "/silent");
    let (mut at_first, mut at_second) = (first.next(), second.next());
    let mut rows = Rows::new();
    rows.check("the same request", &*at_second.head, &*at_first.head);
    at_second.send(&response("b"));
    rows.check("the response", client.read_response().text().as_str(), "b.");
    rows.check("the silent connection is closed", at_first.is_closed(), true);
    let names = [(first.address, "null"), (second.address, "200")];
    let expected = names.map(|(address, status)| (address.to_string(), status.to_owned()));
    rows.check("the log", attempts(&server, "/silent"), expected.to_vec());
    rows.check("hedges", server.count("hedges"), 1);
    rows.check("won", server.count("hedges_won"), 1);
    // Late bytes of the first endpoint are for nothing.
    at_first.send(&response("x"));
    client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut next = first.next();
    next.send(&response("n"));
    rows.check("the next response", client.read_response().text().as_str(), "n.");
}

#[test]
fn the_first_endpoint_may_still_respond_first() {
    let (first, second, server) = start("keep = \"0s\"");
    let mut client = send(&server, "/slow");
    let (mut at_first, mut at_second) = (first.next(), second.next());
    let mut rows = Rows::new();
    // A part of a head decides nothing.
    at_second.send("HTTP/1.1 200 OK\r\nContent-Le");
    at_first.send(&response("a"));
    rows.check("the response", client.read_response().text().as_str(), "a.");
    rows.check("the second connection is closed", at_second.is_closed(), true);
    let names = [(second.address, "null"), (first.address, "200")];
    let expected = names.map(|(address, status)| (address.to_string(), status.to_owned()));
    rows.check("the one that has responded is the last", attempts(&server, "/slow"), expected.to_vec());
    rows.check("hedges", (server.count("hedges"), server.count("hedges_won")), (1, 0));
}

#[test]
fn one_endpoint_that_breaks_off_at_any_byte_costs_nothing() {
    let (first, second, server) = start("keep = \"0s\"\nretries = 0\n[application.health]\nfailures = 0");
    let mut rows = Rows::new();
    let head = response("x");
    let head = &head[..head.len() - 2];
    for cut in 0..head.len() {
        for is_first in [true, false] {
            let mut client = send(&server, &format!("/{cut}"));
            let (at_first, at_second) = (first.next(), second.next());
            let (mut broken, mut whole) =
                if is_first { (at_first, at_second) } else { (at_second, at_first) };
            broken.send(&head[..cut]);
            drop(broken);
            // Its response ends after the other one, or before it: both are right.
            whole.send(&response("w"));
            rows.check(format!("{cut} {is_first}"), client.read_response().text().as_str(), "w.");
        }
    }
    rows.check("each has had one hedge", server.count("hedges"), 2 * head.len() as u64);
}

#[test]
fn both_may_respond_at_the_same_time_and_the_client_gets_one_response() {
    let (first, second, server) = start("");
    let mut client = server.connect();
    for number in 0..20 {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        // The connection of the winner may be used again.
        let mut at_first = first.next();
        let mut at_second = second.next();
        at_first.send(&format!(
            "HTTP/1.1 200 OK\r\nX-Of: {number}\r\nConnection: close\r\nContent-Length: 2\r\n\r\na."
        ));
        at_second.send(&format!(
            "HTTP/1.1 200 OK\r\nX-Of: {number}\r\nConnection: close\r\nContent-Length: 2\r\n\r\nb."
        ));
        let response = client.read_response();
        assert_eq!(response.field("x-of"), Some(&*number.to_string()));
        assert!(["a.", "b."].contains(&response.text().as_str()));
    }
}

#[test]
fn a_failed_response_of_the_second_endpoint_does_not_win() {
    let (first, second, server) =
        start("keep = \"0s\"\n[application.health]\nfailure_status = [\"500-599\"]");
    let mut client = send(&server, "/");
    let (mut at_first, mut at_second) = (first.next(), second.next());
    at_second.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    assert!(at_second.is_closed());
    at_first.send(&response("a"));
    assert_eq!(client.read_response().text(), "a.");
    assert_eq!((server.count("hedges"), server.count("hedges_won")), (1, 0));
}

#[test]
fn both_may_fail() {
    let (first, second, server) = start("keep = \"0s\"\nretries = 0");
    let mut client = send(&server, "/");
    let (at_first, at_second) = (first.next(), second.next());
    drop(at_second);
    server.wait_for_line("asked as well, did not respond", TIMEOUT);
    drop(at_first);
    assert_eq!(client.read_response().status, 502);
}

#[test]
fn the_log_says_why_the_first_endpoint_failed_although_the_second_one_responded() {
    let (first, second, server) = start("keep = \"0s\"\n[application.health]\nfailures = 5");
    let mut client = send(&server, "/");
    let (at_first, mut at_second) = (first.next(), second.next());
    drop(at_first);
    let has_failed = || server.stats()["endpoints"].to_string().contains("\"failures\":1");
    assert!(wait_until(TIMEOUT, has_failed), "{}", server.stats());
    at_second.send(&response("b"));
    assert_eq!(client.read_response().text(), "b.");
    let line = server.wait_for_line("\"GET /\"", TIMEOUT);
    assert!(line.contains("did not respond: it ended without writing anything"), "{line}");
    assert!(line.contains(&first.address.to_string()), "{line}");
}

#[test]
fn a_route_with_urls_has_hedges_too() {
    let (first, second) = (Peer::start(), Peer::start());
    let config = format!(
        "workers = 1\n[timeouts]\ndelay = 0\n[[route]]\npath = \"/\"\nproxy = [\"http://{}\", \"http://{}\"]\n\
         proxy_balance = \"round_robin\"\nproxy_hedge_after = \"20ms\"\nproxy_hedge_budget = 100\n",
        first.address, second.address
    );
    let server = Site::new().config(&config).start();
    let mut client = send(&server, "/hedged");
    let (at_first, mut at_second) = (first.next(), second.next());
    assert_eq!(at_first.head, at_second.head);
    at_second.send(&response("b"));
    assert_eq!(client.read_response().text(), "b.");
    assert_eq!((server.count("hedges"), server.count("hedges_won")), (1, 1));
}

#[test]
fn only_safe_requests_without_a_body_have_a_second_endpoint() {
    let (first, second, server) = start("keep = \"0s\"\nhedge_budget = 100");
    let mut rows = Rows::new();
    for request in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ] {
        let mut client = server.connect();
        client.send(request);
        let mut own = first.next();
        // A later request has its hedge: the time of the one before is over, too.
        let mut later = send(&server, "/later");
        let (at_first, mut at_second) = (first.next(), second.next());
        rows.check(request, at_second.head.starts_with("GET /later "), true);
        rows.check(request, at_first.head.starts_with("GET /later "), true);
        at_second.send(&response("b"));
        later.read_response();
        rows.check(request, second.is_idle(), true);
        own.send(&response("a"));
        rows.check(request, client.read_response().text().as_str(), "a.");
    }
    for method in ["HEAD", "OPTIONS"] {
        let mut client = server.connect();
        client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (_at_first, mut at_second) = (first.next(), second.next());
        rows.check(method, at_second.head.starts_with(method), true);
        at_second.send("HTTP/1.1 204 No Content\r\n\r\n");
        rows.check(method, client.read_response_to_head().status, 204);
    }
}

#[test]
fn few_requests_have_two_endpoints_at_a_time() {
    let (first, second, server) = start("keep = \"0s\"");
    let mut one = send(&server, "/one");
    let (_at_first, mut at_second) = (first.next(), second.next());
    let mut other = send(&server, "/other");
    let mut of_other = first.next();
    let is_omitted = || server.count("hedges_omitted") == 1;
    assert!(wait_until(TIMEOUT, is_omitted));
    at_second.send(&response("b"));
    assert_eq!(one.read_response().text(), "b.");
    of_other.send(&response("a"));
    assert_eq!(other.read_response().text(), "a.");
    assert!(second.is_idle());
    assert_eq!(server.count("hedges"), 1);
}

#[test]
fn an_endpoint_that_is_down_gets_no_hedge() {
    let (first, second, server) =
        start("keep = \"0s\"\n[application.health]\npause = \"1h\"\nlongest_pause = \"1h\"");
    let mut client = send(&server, "/");
    let (mut at_first, at_second) = (first.next(), second.next());
    drop(at_second);
    server.wait_for_line("asked as well, did not respond", TIMEOUT);
    at_first.send(&response("a"));
    assert_eq!(client.read_response().text(), "a.");
    let mut client = send(&server, "/again");
    let mut at_first = first.next();
    // The time of the hedge has passed when that of this one has, too.
    let mut later = send(&server, "/later");
    let mut of_later = first.next();
    of_later.send(&response("c"));
    assert_eq!(later.read_response().text(), "c.");
    at_first.send(&response("d"));
    assert_eq!(client.read_response().text(), "d.");
    assert!(second.is_idle());
    assert_eq!(server.count("hedges"), 1);
}

#[test]
fn a_request_on_an_idle_connection_has_a_hedge_too() {
    let peers = [Peer::start(), Peer::start()];
    let config = format!(
        "workers = 1\n[timeouts]\ndelay = 0\n[[route]]\npath = \"/\"\nproxy = \"http://app\"\n[[application]]\n\
         name = \"app\"\nprotocol = \"http\"\naddress = [\"{}\", \"{}\"]\nkeep = \"1m\"\nhedge_after = \"500ms\"\n",
        peers[0].address, peers[1].address
    );
    let server = Site::new().config(&config).start();
    let mut client = send(&server, "/a");
    let mut arrived = None;
    let is_there = || {
        arrived = peers.iter().enumerate().find_map(|(at, peer)| Some((at, peer.arrivals.try_recv().ok()?)));
        arrived.is_some()
    };
    assert!(wait_until(TIMEOUT, is_there));
    let (at, mut own) = arrived.expect("it is there");
    own.send(&response("a"));
    assert_eq!(client.read_response().text(), "a.");
    // The next request is sent at once, on the same connection.
    client.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    own.stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    assert!(read_head(&mut own.stream).expect("a request").starts_with("GET /b "));
    let mut other = peers[1 - at].next();
    while !other.head.starts_with("GET /b ") {
        // That of a slow machine, for the first request.
        other = peers[1 - at].next();
    }
    other.send(&response("b"));
    assert_eq!(client.read_response().text(), "b.");
    assert!(own.is_closed());
}
