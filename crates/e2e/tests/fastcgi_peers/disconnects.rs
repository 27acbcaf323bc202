//! Clients that disconnect, and bodies that no peer reads.

use super::*;

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
