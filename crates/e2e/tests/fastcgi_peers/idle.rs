//! A GET that the server sends at once, by a connection that is idle.

use super::*;

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
        // Whether a long response has a length or chunks depends on how many parts it arrives in.
        let but: &[&str] = match text.len() {
            0..10_000 => &["date"],
            _ => &["date", "content-length", "transfer-encoding"],
        };
        // Only a GET is sent by an idle connection at once.
        let [post, get] = ["POST", "GET"].map(|method| {
            // So that it is idle, whatever the response before has done to it.
            request(&server, "POST", "1").read_response();
            match request(&server, method, &at.to_string()).try_read_response() {
                Ok(response) => {
                    format!("{} {:?} {}", response.status, response.fields_but(but), response.text())
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
    assert!(logs(&server, "silent", "it has taken too long (`first_byte`)"));
    let next = || reports.recv_timeout(TIMEOUT).expect("the peer reports");
    assert_eq!([next(), next()], ["begun", "aborted"]);

    assert_eq!(get(&server, "hello"), "200 hello");
    let client = request(&server, "GET", "left");
    assert_eq!(next(), "begun");
    drop(client);
    assert_eq!(next(), "aborted");
    assert_eq!(get(&server, "hello"), "200 hello");
}
