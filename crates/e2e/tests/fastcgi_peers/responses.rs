//! What a peer sends, row by row: its bytes, and the responses that clients get.

use std::fmt::Write as _;

use e2e::Random;

use super::*;

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

/// A peer that says `hello` and waits for the next request.
fn greeting(what: &str, records: impl Fn(u16) -> Vec<u8> + Send + Sync + 'static) -> Row {
    row(what, records, Stays, "200 hello", None)
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
        greeting("one record", |id| [out(id, [HEAD, b"hello"].concat()), end(id)].concat()),
        greeting("head and body", hello),
        greeting("single bytes", move |id| [bytewise(id, HEAD), bytewise(id, b"hello"), end(id)].concat()),
        greeting("padding of 255", |id| {
            let text = [HEAD, b"hello"].concat();
            let out: Vec<u8> = text.chunks(3).flat_map(|piece| padded(STDOUT, id, piece, 255)).collect();
            [out, padded(STDOUT, id, b"", 255), padded(END, id, &[0; 8], 255)].concat()
        }),
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
    ]);
    assert_eq!(body.len(), 196_605);
}

#[test]
fn output_and_errors_may_end_or_not_before_the_request_does() {
    check(vec![
        greeting("a number that a program exits with", |id| {
            let exit = record(END, id, &[0, 0, 0, 7, 0, 0, 0, 0]);
            [out(id, HEAD), out(id, "hello"), record(STDOUT, id, b""), exit].concat()
        }),
        greeting("output that is ended twice", |id| {
            [out(id, HEAD), out(id, "hello"), record(STDOUT, id, b""), end(id)].concat()
        }),
        greeting("output that is not ended", |id| [out(id, HEAD), out(id, "hello"), ends(id, 0)].concat()),
        greeting("errors that are ended", |id| [record(STDERR, id, b""), hello(id)].concat()),
        row(
            "errors before and between",
            |id| {
                let (first, second, third) =
                    (err(id, "first words\n"), err(id, "second"), err(id, " words\n"));
                [first, out(id, HEAD), second, out(id, "hello"), third, end(id)].concat()
            },
            Stays,
            "200 hello",
            Some("second words"),
        ),
        row("errors alone", |id| [err(id, "the reason"), end(id)].concat(), Stays, "502", Some("the reason")),
    ]);
}

#[test]
fn what_stands_behind_the_end_of_a_request_is_no_part_of_the_response() {
    check(vec![
        row("a closed connection", hello, Closes, "200 hello", None),
        greeting("a further record", |id| [hello(id), out(id, "more")].concat()),
        greeting("another answer", |id| [hello(id), hello(id)].concat()),
        greeting("what is no record", |id| [hello(id), b"HTTP/1.1 200 OK".to_vec()].concat()),
        greeting("a record of others", |id| [hello(id), hello(id + 1)].concat()),
    ]);
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
        ("a folded first line", " folded\n\n"),
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

/// FastCGI 1.0, section 5.5 wants FCGI_END_REQUEST, which tells nothing of the response.
#[test]
fn a_response_whose_output_has_ended_is_whole_without_the_end_of_the_request() {
    let ended = |id, text: &[u8]| [out(id, text), record(STDOUT, id, b"")].concat();
    let large = |id| [out(id, HEAD), out(id, vec![b'x'; MIB]), record(STDOUT, id, b"")].concat();
    let begun = broken_by("the end of the output", |id| record(STDOUT, id, b""), Closes);
    check(vec![
        row("a head", move |id| ended(id, HEAD), Closes, "200 ", None),
        row("a head and a body", move |id| ended(id, &[HEAD, b"hello"].concat()), Closes, "200 hello", None),
        row("a large body", large, Closes, format!("200 {MIB} bytes"), None),
        row("half of the end", move |id| [&hello(id)[..60]].concat(), Closes, "200 hello", None),
        row("no output", |id| record(STDOUT, id, b""), Closes, "502", Some("")),
        row("half a head", move |id| ended(id, &HEAD[..9]), Closes, "502", Some("")),
        row(
            "less than it says",
            move |id| ended(id, b"Content-Length: 9\r\n\r\nhello"),
            Closes,
            "cut",
            Some(""),
        ),
        Row { expected: "whole".to_owned(), logged: None, ..begun },
    ]);
}

/// A socket that is closed with bytes that were not read is reset.
#[test]
fn a_response_is_whole_where_the_application_resets_the_connection_behind_it() {
    let server = start(
        &part(|connection, _| {
            let received = connection.read_request()?;
            connection.send([out(received.id, HEAD), out(received.id, "hello")].concat())?;
            match received.name() {
                "ended" => connection.send(record(STDOUT, received.id, b"")),
                _ => Ok(()),
            }
        }),
        "",
    );
    let post = |name: &str| {
        let mut client = server.connect();
        client.send(format!("POST /app/{name} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"));
        outcome(&mut client)
    };
    for _ in 0..20 {
        assert_eq!(post("ended"), "200 hello");
        assert!(["502", "cut"].contains(&&*post("open")));
    }
}

#[test]
fn a_response_cut_anywhere_is_never_complete() {
    let whole = hello(1).len();
    // Behind it, only the end of the request follows.
    let output = whole - ends(1, 0).len();
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
            _ if len < output => found == "502" || found == "cut",
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
