use taipan_http::head::{FieldStore, Limits, parse};

use super::*;

const LIMITS: Limits = Limits { head: 100_000, fields: 100, target: 50_000 };

/// Begins to watch a request on `path` with further fields.
fn begin(watches: &Watches, path: &str, fields: &str) -> Option<Box<Watched>> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
    let mut store = FieldStore::new();
    let (head, _) = parse(request.as_bytes(), &mut store, &LIMITS).unwrap().unwrap();
    let client = Peer::Ip("192.0.2.7:1".parse().unwrap());
    watches.begin(&head, Arrival { client, server: None, host: 0, tls: None })
}

fn watch(filter: &str) -> (Watches, Arc<Watch>, Receiver<Event>) {
    let (watch, events) = Watch::new(filter.parse().unwrap());
    let watches = Watches::default();
    assert!(!watches.is_on());
    watches.add(watch.clone());
    (watches, watch, events)
}

fn ended(micros: u64, upstream: &str) -> WatchedEnd {
    let attempts = vec![WatchedAttempt::from(&Attempt::new(upstream.into()))];
    WatchedEnd { sent: 7, micros, why: None, rule: None, attempts }
}

/// The lines of all events.
fn shown(events: &mut Receiver<Event>) -> String {
    let site = site::model::Site::folder("/srv".into(), Vec::new());
    let mut lines = String::new();
    while let Ok(event) = events.try_recv() {
        lines.push_str(&text::lines(&event, &site));
    }
    lines
}

fn response(status: Status) -> WatchedResponse {
    let field = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let fields = vec![
        field("Content-Type", "text/html"),
        field("Set-Cookie", "id=secret"),
        field("Location", "https://b.example/a?b=secret#access_token=secret"),
    ];
    WatchedResponse { fields, ..WatchedResponse::new(status, None, Some("ann")) }
}

#[test]
fn shows_a_request_step_by_step_without_its_secrets() {
    let (watches, _watch, mut events) = watch("");
    let fields = "Authorization: Basic secret\r\nCookie: secret\r\nReferer: http://b.example/x?y=secret\r\n\
                  X-Access-Key: secret\r\nX-Auth: secret\r\nX: y\r\n";
    let mut watched = begin(&watches, "/a?token=secret&secret", fields).unwrap();
    let lines = shown(&mut events);
    for expected in [
        "192.0.2.7 GET /a?token=…&… HTTP/1.1\n",
        "> Host: a.example\n",
        "> Authorization: (12 bytes, not shown)\n",
        "> Cookie: (6 bytes, not shown)\n",
        "> X-Access-Key: (6 bytes, not shown)\n",
        "> Referer: http://b.example/x?y=…\n",
        "> X: y\n",
        "#1     host      the default host\n",
        "#1     route     /: files beneath /srv\n",
        "#1     file      /srv/a\n",
    ] {
        assert!(lines.contains(expected), "{expected} in {lines}");
    }
    watched.respond(response(Status::OK));
    watched.end(ended(1500, "10.0.0.1:80"));
    let more = shown(&mut events);
    for expected in [
        "user      ann\n",
        "response  200 OK\n",
        "< Content-Type: text/html\n",
        "< Set-Cookie: (9 bytes, not shown)\n",
        "< Location: https://b.example/a?b=…#…\n",
        "upstream  10.0.0.1:80: no response\n",
        "end       7 bytes in 0.001500 s\n",
    ] {
        assert!(more.contains(expected), "{expected} in {more}");
    }
    assert!(!lines.contains("secret") && !more.contains("secret"), "{lines}{more}");
}

#[test]
fn nothing_of_a_client_changes_the_terminal() {
    let (watches, _watch, mut events) = watch("");
    let long = "v".repeat(9000);
    let fields = format!("X: \u{9b}2J\u{202e}\r\nY: {long}\r\n");
    drop(begin(&watches, "/%1b%0a?a=%9b31m", &fields));
    let lines = shown(&mut events);
    let is_safe = |character: char| character == '\n' || character == '…' || (' '..='~').contains(&character);
    assert!(lines.chars().all(is_safe), "{lines:?}");
    assert!(lines.len() < 2000 && lines.contains("(9000 bytes)"), "{lines}");
    assert!(lines.contains("end       0 bytes in") && lines.contains("no response was sent"), "{lines}");
}

#[test]
fn filters_of_the_end_show_a_request_when_it_has_ended() {
    let (watches, _watch, mut events) = watch("status=5xx\0slower=1ms\0upstream=10.*");
    for (status, micros, upstream, is_shown) in [
        (Status::BAD_GATEWAY, 1001, "10.0.0.1:80", true),
        (Status::OK, 1001, "10.0.0.1:80", false),
        (Status::BAD_GATEWAY, 1000, "10.0.0.1:80", false),
        (Status::BAD_GATEWAY, 1001, "11.0.0.1:80", false),
    ] {
        let mut watched = begin(&watches, "/", "").unwrap();
        watched.respond(response(status));
        assert_eq!(shown(&mut events), "");
        watched.end(ended(micros, upstream));
        assert_eq!(shown(&mut events).contains("request"), is_shown, "{status} {micros} {upstream}");
    }
    // Without a response, no status matches.
    drop(begin(&watches, "/", ""));
    assert_eq!(shown(&mut events), "");
}

#[test]
fn other_requests_are_not_copied() {
    for filter in ["client=192.0.2.8", "host=b.example", "path=/b*", "client=unix"] {
        let (watches, _watch, mut events) = watch(filter);
        assert!(begin(&watches, "/a", "").is_none(), "{filter}");
        assert_eq!(shown(&mut events), "");
    }
}

#[test]
fn a_watcher_that_reads_nothing_loses_events_and_their_number_is_known() {
    let (watches, watch, mut events) = watch("rate=10000");
    for _ in 0..QUEUE + 5 {
        drop(begin(&watches, "/", ""));
    }
    // Each request has two events.
    assert_eq!(watch.left_out.load(Ordering::Relaxed), QUEUE as u64 + 10);
    assert_eq!(shown(&mut events).matches(" request ").count(), QUEUE / 2);
}

#[test]
fn no_more_requests_are_shown_than_the_rate_allows() {
    let (watches, watch, _events) = watch("rate=3");
    let all = 10_000;
    let begun = clock::micros() / 1_000_000;
    let shown = (0..all).filter(|_| begin(&watches, "/", "").is_some()).count() as u64;
    let seconds = clock::micros() / 1_000_000 - begun + 1;
    assert!((3..=3 * seconds).contains(&shown), "{shown} in {seconds} s");
    assert!(watch.left_out.load(Ordering::Relaxed) >= all - shown);
}

#[test]
fn nothing_is_on_when_the_watcher_has_gone() {
    let (watches, _watch, events) = watch("");
    drop(events);
    assert!(watches.is_on());
    assert!(begin(&watches, "/", "").is_none());
    assert!(!watches.is_on());
}

#[test]
fn watchers_that_have_gone_are_forgotten_without_requests() {
    let (watches, _watch, _events) = watch("");
    for _ in 0..3 {
        let (gone, events) = Watch::new("".parse().unwrap());
        drop(events);
        watches.add(gone);
    }
    assert_eq!(watches.all.borrow().len(), 2, "the one that reads, and the last");
}
