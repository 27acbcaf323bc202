//! SCGI applications: a program with Python's standard library only, started by the test or by the server.

use std::collections::BTreeMap;
use std::thread;

use e2e::{
    BackgroundProcess, Client, Random, ReadError, Rows, Server, Site, TIMEOUT, path_of, tool, wait_until,
};

const APP: &str = include_str!("programs/scgi_app.py");
const MIB: usize = 1 << 20;

/// The address of the application.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Path,
    Port,
    /// Started by the server.
    Here,
}

struct Running {
    server: Server,
    _application: Option<BackgroundProcess>,
}

fn start(place: Place, settings: &str) -> Running {
    let site = Site::new().file_beside_root("scgi_app.py", APP).file("static", "still here");
    let home = site.home().to_owned();
    let (program, path) = (home.join("scgi_app.py"), home.join("socket"));
    let at = |word: &str| {
        let mut python = tool("python3");
        let application =
            BackgroundProcess::start(python.arg("-B").arg(&program).arg(word).current_dir(&home));
        let printed = application.output().wait_for(TIMEOUT, |lines| lines.first().cloned());
        let address =
            printed.unwrap_or_else(|| panic!("it does not begin:\n{}", application.errors().text()));
        (format!("address = \"{address}\""), Some(application))
    };
    let (servers, application) = match place {
        Place::Path => at(path.to_str().expect("it is text")),
        Place::Port => at("port"),
        Place::Here => {
            let command = [path_of("python3"), "-B".to_owned(), program.display().to_string()];
            let folder = home.display();
            (format!("command = {command:?}\nfolder = \"{folder}\"\nprocesses = 1\nconcurrent = 8"), None)
        }
    };
    let server = site
        .config(&format!(
            "max_body = \"16MiB\"\n[[route]]\npath = \"/app/\"\napplication = \"app\"\nenv = {{ OWN = \"of the route\" }}\n\
             [[application]]\nname = \"app\"\nprotocol = \"scgi\"\n{servers}\n{settings}\n"
        ))
        .start();
    Running { server, _application: application }
}

#[test]
fn exchanges_requests_with_an_application_at_every_kind_of_address() {
    let body = Random::new(5).bytes(MIB);
    for place in [Place::Path, Place::Port, Place::Here] {
        let running = start(place, "");
        let mut client = running.server.connect();
        let mut rows = Rows::new();
        let row = |name: &str| format!("{place:?}: {name}");

        let response = client.get("/app/variables?a=%20b");
        let text = response.text();
        let found: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
        for (name, expected) in [
            ("CONTENT_LENGTH", Some("0")),
            ("SCGI", Some("1")),
            ("REQUEST_METHOD", Some("GET")),
            ("REQUEST_URI", Some("/app/variables?a=%20b")),
            ("SCRIPT_NAME", Some("/app")),
            ("PATH_INFO", Some("/variables")),
            ("QUERY_STRING", Some("a=%20b")),
            ("HTTP_HOST", Some("localhost")),
            ("OWN", Some("of the route")),
            ("HTTP_PROXY", None),
        ] {
            rows.check(row(name), found.get(name).copied(), expected);
        }

        for len in [0, 1, MIB] {
            let head = format!("POST /app/echo HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n");
            let response = client.request([head.as_bytes(), &body[..len]].concat());
            rows.check(
                row("POST"),
                (response.status, response.field("x-told")),
                (200, Some(&*len.to_string())),
            );
            rows.holds(row("POST"), &format!("{len} bytes come back"), response.body == body[..len]);
        }
        client.send("POST /app/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(10_000) {
            client.send(format!("{:x}\r\n", piece.len())).send(piece).send("\r\n");
        }
        let response = client.send("0\r\n\r\n").read_response();
        rows.check(row("chunked"), (response.status, response.field("x-told")), (200, Some("1048576")));
        rows.holds(row("chunked"), "the body comes back", response.body == body);

        let response = running.server.request("GET /app/big?66 HTTP/1.0\r\nHost: a\r\n\r\n");
        rows.check(row("big"), response.body.len(), 66 * MIB);
        let in_order = (0..66).all(|at| response.body.get(at * MIB) == Some(&(b'A' + (at % 26) as u8)));
        rows.holds(row("big"), "in order", in_order);
        let head = running.server.request("HEAD /app/echo HTTP/1.1\r\nHost: a\r\n\r\n");
        rows.check(
            row("HEAD"),
            (head.status, head.field("content-length"), head.body.len()),
            (200, Some("0"), 0),
        );
    }
}

#[test]
fn a_client_sees_an_invalid_response() {
    let running = start(Place::Path, "");
    let mut rows = Rows::new();
    for (name, status) in [("missing", 404), ("none", 502), ("no-head", 502)] {
        let path = format!("/app/{name}");
        rows.check(name, running.server.get(&path).status, status);
        if status == 502 {
            running.server.wait_for_line(&path, TIMEOUT);
        }
    }
    let mut client = running.server.connect();
    client.send("GET /app/short HTTP/1.1\r\nHost: a\r\n\r\n");
    let cut = client.try_read_response();
    rows.holds(
        "short",
        &format!("expected a cut response, found {cut:?}"),
        matches!(cut, Err(ReadError::Closed { after: 1.. })),
    );
    // Unread parts of a body do no harm.
    let mut client = running.server.connect();
    let mut sender = client.another_handle();
    let sending = thread::spawn(move || {
        let head = format!("POST /app/early HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 8 * MIB);
        // The server may close before it has taken everything.
        _ = sender.try_send(head).and_then(|()| sender.try_send(vec![b'x'; 8 * MIB]));
    });
    rows.check("early", client.read_response().text().as_str(), "early");
    drop(client);
    sending.join().expect("it does not panic");
    rows.check("static", running.server.get("/static").text().as_str(), "still here");
}

#[test]
fn answers_several_requests_in_parallel() {
    for place in [Place::Port, Place::Here] {
        let running = start(place, "");
        let server = &running.server;
        let mut clients: Vec<Client> = (0..8)
            .map(|name| {
                let mut client = server.connect();
                client.send(format!("GET /app/wait?{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
                client
            })
            .collect();
        let began = || (0..8).all(|name| server.home().join(format!("began-{name}")).exists());
        assert!(wait_until(TIMEOUT, began), "{place:?}: {}", server.stderr());
        server.files().file("go", "");
        assert!(clients.iter_mut().all(|client| client.read_response().text() == "done"));
    }
}
