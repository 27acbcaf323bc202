//! Peers that are unreachable, or close: which requests are sent again, and by how many connections.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

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
