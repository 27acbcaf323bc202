//! Requests that wait for the response to another, and stale responses that save a wait.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use e2e::http2::frame;

use super::*;

/// So many clients request what waits for the gate, and all get the response to the first of them.
fn get_the_first_response(app: &Fixture, gate: &Gate, clients: usize) {
    let mut clients: Vec<_> = (0..clients).map(|_| app.server.connect()).collect();
    for client in &mut clients {
        client.send("GET /app/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert!(wait_until(TIMEOUT, || app.requests() == 1));
    // The worker has read all requests when it answers one that came later.
    assert_eq!(app.get("other", "").text(), "number 2");
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read_response().text(), "number 1");
    }
}

#[test]
fn requests_for_the_same_wait_for_one_response() {
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let app = start(move |head, number| {
        if head.contains("slow") {
            of_upstream.wait();
        }
        ok(
            if head.contains("private") {
                "Cache-Control: private\r\n"
            } else {
                "Cache-Control: max-age=60\r\n"
            },
            number,
        )
    });
    get_the_first_response(&app, &gate, 20);
    assert_eq!(app.requests(), 2);
    // What is not stored is requested by each.
    for _ in 0..3 {
        app.get("private", "");
    }
    assert_eq!(app.requests(), 5);
}

#[test]
fn requests_that_have_waited_get_the_file_where_the_memory_is_too_small() {
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let folder = Folder::new();
    let top = format!(
        "[cache]\nresponses = 0\n[cache_files]\nfolder = \"{}\"\nmin_free = 0",
        folder.path().display()
    );
    let app = start_with("", &top, move |head, number| {
        if head.contains("slow") {
            of_upstream.wait();
        }
        ok("Cache-Control: max-age=60\r\n", number)
    });
    get_the_first_response(&app, &gate, 5);
}

#[test]
fn requests_that_validate_different_variants_do_not_wait_for_one_another() {
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let app = start(move |head, number| {
        let is_validation = head.contains("If-None-Match");
        if is_validation && head.contains("Accept-Language: de") {
            of_upstream.wait();
        }
        let age = if is_validation { "" } else { "Age: 100\r\n" };
        ok(&format!("Cache-Control: max-age=60\r\nVary: Accept-Language\r\nETag: \"a\"\r\n{age}"), number)
    });
    let languages = ["Accept-Language: de\r\n", "Accept-Language: en\r\n"];
    assert_eq!(languages.map(|language| app.get("", language).text()), ["number 1", "number 2"]);
    let mut first = app.server.connect();
    first.send(format!("GET /app/ HTTP/1.1\r\nHost: a\r\n{}\r\n", languages[0]));
    assert!(wait_until(TIMEOUT, || app.requests() == 3));
    assert_eq!(app.get("", languages[1]).text(), "number 4");
    assert_eq!(app.server.count("responses_awaited"), 0);
    gate.open();
    assert_eq!(first.read_response().text(), "number 3");
}

#[test]
fn requests_for_different_variants_do_not_wait_for_one_another_once_one_is_stored() {
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let app = start(move |head, number| {
        if head.contains("Accept-Language: de") {
            of_upstream.wait();
        }
        ok("Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", number)
    });
    assert_eq!(app.get("", "Accept-Language: fr\r\n").text(), "number 1");
    let mut german: Vec<_> = (0..2).map(|_| app.server.connect()).collect();
    for (client, awaited) in german.iter_mut().zip(0..) {
        client.send("GET /app/ HTTP/1.1\r\nHost: a\r\nAccept-Language: de\r\n\r\n");
        assert!(
            wait_until(TIMEOUT, || app.requests() == 2 && app.server.count("responses_awaited") == awaited)
        );
    }
    assert_eq!(app.get("", "Accept-Language: en\r\n").text(), "number 3");
    assert_eq!(app.server.count("responses_awaited"), 1);
    gate.open();
    for client in &mut german {
        assert_eq!(client.read_response().text(), "number 2");
    }
}

/// The upstream is the test itself: it sends the body so late that the response is stale.
#[test]
fn requests_that_have_waited_get_what_was_fresh_when_it_came() {
    let site = Site::new();
    let path = site.home().join("peer");
    let listener = UnixListener::bind(&path).expect("it is our folder");
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/\"\napplication = \"app\"\nresponse_cache = true\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"unix:{}\"\n",
        path.display()
    );
    let server = site.config(&config).start();
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    let (mut upstream, awaited) = (None, || server.count("responses_awaited"));
    for (client, number) in clients.iter_mut().zip(0..) {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        upstream.get_or_insert_with(|| {
            let (mut stream, _) = listener.accept().expect("it listens");
            read_request(&mut stream).expect("it is a request");
            stream
        });
        assert!(wait_until(TIMEOUT, || awaited() == number));
    }
    let mut upstream = upstream.expect("it is connected");
    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=2\r\nContent-Length: 1\r\n\r\n";
    upstream.write_all(head.as_bytes()).expect("it is connected");
    assert_eq!(clients[0].read_response_to_head().status, 200);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs();
    let began = now();
    assert!(wait_until(TIMEOUT, || now() > began + 2));
    upstream.write_all(b"a").expect("it is connected");
    for client in &mut clients[1..] {
        assert_eq!(client.read_response().text(), "a");
    }
}

/// Any client can send credentials, and the response to them is often not stored.
#[test]
fn requests_whose_responses_are_for_one_client_keep_no_others_from_waiting() {
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let app = start(move |head, number| {
        if head.contains("X-Bad: ") {
            return "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_owned();
        }
        if !head.contains("X-User: ") {
            of_upstream.wait();
        }
        ok("Cache-Control: max-age=60\r\n", number)
    });
    let own_fields = [
        "Authorization: Bearer a\r\n",
        "Cookie: a=b\r\n",
        "Cache-Control: no-store\r\n",
        "Connection: x-other\r\nX-Other: a\r\n",
    ];
    for (own, number) in own_fields.into_iter().zip(1..) {
        assert_eq!(app.get("", &format!("{own}X-User: a\r\n")).text(), format!("number {number}"));
    }
    assert_eq!(app.get("", "X-Bad: a\r\n").status, 400);
    let mut clients: Vec<_> = (0..20).map(|_| app.server.connect()).collect();
    for (client, awaited) in clients.iter_mut().zip(0..) {
        client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            wait_until(TIMEOUT, || app.requests() == 6 && app.server.count("responses_awaited") == awaited)
        );
    }
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read_response().text(), "number 6");
    }
    assert_eq!(app.requests(), 6);
}

/// Clients choose how long an address is.
#[test]
fn addresses_whose_responses_are_not_stored_take_little_memory() {
    let app = start(|_, number| ok("Cache-Control: private\r\n", number));
    let mut client = app.server.connect();
    let mut ask = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let query = "a".repeat(7000);
            let request = format!("GET /app/?{number}{query} HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.request(request).status, 200);
        }
    };
    let memory = || {
        let path = format!("/proc/{}/status", app.server.serving_pid());
        let status = fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("it is there");
        line.trim_matches(['\t', ' ', 'k', 'B']).parse::<u64>().expect("KiB")
    };
    ask(0..100);
    let before = memory();
    ask(100..2100);
    let grown = memory().saturating_sub(before);
    assert!(grown < 6 * 1024, "{grown} KiB for 2000 addresses of 7000 bytes");
}

/// An upstream that holds the response to its first request back, and the client that waits for it. `wait`: how long
/// other requests wait for that response, too.
fn start_with_a_held_response(wait: &str) -> (Fixture, Client, Gate) {
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let app = start_with(&format!("response_cache_wait = \"{wait}\""), "", move |_, number| {
        if number == 1 {
            of_upstream.wait();
        }
        ok("Cache-Control: max-age=60\r\n", number)
    });
    let mut first = app.server.connect();
    first.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(wait_until(TIMEOUT, || app.requests() == 1));
    (app, first, gate)
}

#[test]
fn one_request_takes_the_place_of_one_whose_client_disconnects() {
    let gate = Gate::default();
    let of_upstream = gate.clone();
    let app = start(move |_, number| {
        of_upstream.wait();
        ok("Cache-Control: max-age=60\r\n", number)
    });
    let mut clients: Vec<_> = (0..20).map(|_| app.server.connect()).collect();
    let mut first = app.server.connect();
    for (client, awaited) in std::iter::once(&mut first).chain(&mut clients).zip(0..) {
        client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            wait_until(TIMEOUT, || app.requests() == 1 && app.server.count("responses_awaited") == awaited)
        );
    }
    drop(first);
    assert!(wait_until(TIMEOUT, || app.requests() == 2));
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read_response().text(), "number 2");
    }
    assert_eq!(app.requests(), 2);
}

#[test]
fn no_request_waits_for_a_client_that_does_not_take_its_response() {
    let app = start_with("response_cache_wait = \"1h\"", "listen = \"127.0.0.1:0 http2\"", |_, number| {
        let body = "a".repeat(100_000);
        let fields = "Cache-Control: max-age=60\r\nContent-Length: 100000\r\n";
        format!("HTTP/1.1 200 OK\r\n{fields}X-Number: {number}\r\n\r\n{body}")
    });
    // SETTINGS_INITIAL_WINDOW_SIZE is 0: the client takes the head alone.
    let mut first = Http2::with(app.server.connect(), &[0, 4, 0, 0, 0, 0], &[]).expect("it accepts");
    let stream = first.open(&Http2Request::get("/app/")).expect("it is open");
    assert_eq!(first.next_frame_of(stream).kind, frame::HEADERS);
    let mut clients: Vec<_> = (0..20).map(|_| app.server.connect()).collect();
    for client in &mut clients {
        client.send("GET /app/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.read_response().field("X-Number"), Some("2"));
    }
    assert_eq!(app.requests(), 2);
}

#[test]
fn no_request_waits_for_a_response_that_a_change_has_invalidated() {
    let (app, mut first, gate) = start_with_a_held_response("1h");
    app.server.request("POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(app.get("", "").text(), "number 3");
    gate.open();
    assert_eq!(first.read_response().text(), "number 1");
    assert_eq!(app.get("", "").text(), "number 3", "the older response is not stored");
}

#[test]
fn a_response_is_no_older_because_its_request_waited_for_another() {
    let (app, mut first, gate) = start_with_a_held_response("3s");
    let second = app.get("", "");
    assert_eq!(second.text(), "number 2");
    assert!(["ttl=60", "ttl=59"].iter().any(|ttl| did(&second).contains(ttl)), "{}", did(&second));
    gate.open();
    assert_eq!(first.read_response().status, 200);
}

#[test]
fn sends_a_stale_response_while_a_newer_one_is_requested() {
    let app = start(|_, number| {
        let age = if number == 1 { "Age: 100\r\n" } else { "" };
        ok(&format!("Cache-Control: max-age=60, stale-while-revalidate=1000\r\n{age}"), number)
    });
    assert_eq!(app.get("", "").text(), "number 1");
    let stale = app.get("", "");
    assert_eq!(stale.text(), "number 1");
    assert!(did(&stale).starts_with("taipan; hit; ttl=-"), "{}", did(&stale));
    assert!(wait_until(TIMEOUT, || app.get("", "").text() == "number 2"));
    assert_eq!(app.requests(), 2);
}

#[test]
fn a_stale_response_is_renewed_also_where_an_earlier_one_was_not_stored() {
    let app = start(|_, number| match number {
        1 => "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
        2 => ok("Cache-Control: max-age=60, stale-while-revalidate=1000\r\nAge: 100\r\n", number),
        _ => ok("Cache-Control: max-age=60\r\n", number),
    });
    assert_eq!(app.get("", "").status, 500);
    assert_eq!([app.get("", "").text(), app.get("", "").text()], ["number 2", "number 2"]);
    assert!(wait_until(TIMEOUT, || app.get("", "").text() == "number 3"));
    assert_eq!(app.requests(), 3);
}

#[test]
fn a_response_for_one_client_alone_keeps_no_stale_one_from_being_renewed() {
    for own in ["Cache-Control: no-store\r\n", "Connection: x-other\r\nX-Other: a\r\n"] {
        let app = start(|_, number| {
            let age = if number == 1 { "Age: 100\r\n" } else { "" };
            ok(&format!("Cache-Control: max-age=60, stale-while-revalidate=1000\r\n{age}"), number)
        });
        assert_eq!([app.get("", "").text(), app.get("", own).text()], ["number 1", "number 1"], "{own}");
        assert!(wait_until(TIMEOUT, || app.get("", "").text() == "number 2"), "{own}");
        assert_eq!(app.requests(), 2, "{own}");
    }
}

#[test]
fn sends_a_stale_response_if_the_upstream_fails() {
    const FAILURES: [&str; 4] = [
        "",
        "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        "nonsense\r\n\r\n<cut>",
    ];
    let app = start(|head, number| match head.contains("If-None-Match") {
        false => ok("Cache-Control: max-age=60, stale-if-error=1000\r\nAge: 100\r\nETag: \"a\"\r\n", number),
        true => row(head, &FAILURES).to_owned(),
    });
    for (number, failure) in FAILURES.iter().enumerate() {
        let first = app.get(&number.to_string(), "").text();
        let failed = app.get(&number.to_string(), "");
        assert_eq!((failed.status, failed.text()), (200, first), "{failure:?}");
        assert!(did(&failed).contains("stale-if-error"), "{}", did(&failed));
    }
    let strict = start(|head, number| match head.contains("If-None-Match") {
        false => ok("Cache-Control: max-age=60, must-revalidate\r\nAge: 100\r\nETag: \"a\"\r\n", number),
        true => FAILURES[1].to_owned(),
    });
    assert_eq!([strict.get("", "").status, strict.get("", "").status], [200, 503]);
}

#[test]
fn only_if_cached_asks_for_what_is_stored_alone() {
    let app = start(|_, number| ok("Cache-Control: max-age=60\r\n", number));
    assert_eq!(app.get("", "Cache-Control: only-if-cached\r\n").status, 504);
    assert_eq!(app.get("", "").text(), "number 1");
    assert_eq!(app.get("", "Cache-Control: only-if-cached\r\n").text(), "number 1");
    for more in [
        "If-Match: \"a\"\r\n",
        "If-Unmodified-Since: Thu, 01 Jan 2015 00:00:00 GMT\r\n",
        "Connection: Upgrade\r\nUpgrade: x\r\n",
    ] {
        let response = app.get("", &format!("Cache-Control: only-if-cached\r\n{more}"));
        assert_eq!((response.status, did(&response)), (504, "taipan; detail=only-if-cached"), "{more}");
    }
    assert_eq!(app.requests(), 1);
    let reloaded = start_with("response_cache_reload = true", "", |_, number| {
        ok("Cache-Control: max-age=60\r\n", number)
    });
    assert_eq!(reloaded.get("", "").text(), "number 1");
    assert_eq!(reloaded.get("", "Cache-Control: no-cache\r\n").text(), "number 2");
    assert_eq!(reloaded.get("", "Pragma: no-cache\r\n").text(), "number 3");
    assert_eq!(reloaded.get("", "").text(), "number 3");
}
