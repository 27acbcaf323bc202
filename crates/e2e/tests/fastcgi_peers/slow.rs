//! Slow peers, and those that are silent.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, listen, socket_with};

use super::*;

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
        let key = if *expected == "504" { "(`first_byte`)" } else { "(`idle`)" };
        rows.holds(what, "the log names the key", logs(&server, &at.to_string(), key));
    }
}

#[test]
fn a_response_whose_output_has_ended_is_whole_after_the_timeout() {
    let table = [
        ("a head and a body", HEAD, "hello", "200 hello"),
        ("a head", HEAD, "", "200 "),
        ("less than it says", b"Content-Length: 9\r\n\r\n", "hello", "cut"),
    ];
    let (to, reports) = report_channel();
    let server = start(
        &part(move |connection, _| {
            let (received, _) = connection.whole()?;
            let at: usize = received.name().parse().expect("a number");
            let (_, head, body, _) = table[at];
            connection.send(out(received.id, [head, body.as_bytes()].concat()))?;
            connection.send(record(STDOUT, received.id, b""))?;
            connection.is_left();
            report(&to, at);
            Ok(())
        }),
        "idle = \"300ms\"",
    );
    let mut rows = Rows::new();
    for (at, (what, _, _, expected)) in table.iter().enumerate() {
        rows.check(what, get(&server, &at.to_string()), (*expected).to_owned());
        rows.check(what, reports.recv_timeout(TIMEOUT).ok(), Some(at));
        let ended = if *expected == "cut" { "is incomplete" } else { "FCGI_END_REQUEST" };
        rows.holds(what, "the log says what is missing", logs(&server, &at.to_string(), ended));
        rows.holds(what, "the log names the key", logs(&server, &at.to_string(), "(`idle`)"));
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
    assert!(logs(&server, "endless", "(`total`)"));
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
        // A peer is a thread, which a busy machine may leave waiting.
        "first_byte = \"1s\"\nidle = \"1s\"",
    );
    let mut client = server.connect();
    client.send("POST /app/x HTTP/1.0\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo");
    // Twice the peer's timeout.
    thread::sleep(Duration::from_secs(2));
    client.send("dy");
    thread::sleep(Duration::from_secs(2));
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
