//! `taipan stats`: every count changes with its event, and only root and the owner may read it.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use e2e::{
    Client, Response, Rows, Server, Site, TIMEOUT, command, command_without_privilege, is_root, output_of,
    processor_time, wait_until,
};

const COUNTS: [&str; 101] = [
    "disconnected",
    "http_1_0",
    "http_1_1",
    "http_2",
    "unreadable",
    "method_get",
    "method_head",
    "method_post",
    "method_put",
    "method_delete",
    "method_options",
    "method_trace",
    "method_connect",
    "method_patch",
    "method_other",
    "incomplete",
    "received",
    "active",
    "idle",
    "parked",
    "delay_us",
    "accepted",
    "inherited",
    "handed_over",
    "rejected",
    "rejected_per_client",
    "accept_failed",
    "evicted",
    "evicted_slow",
    "panicked",
    "status_1xx",
    "status_2xx",
    "status_3xx",
    "status_4xx",
    "status_5xx",
    "bytes",
    "cache_hits",
    "cache_misses",
    "shed_cold",
    "shed_all",
    "handshakes",
    "handshakes_resumed",
    "tls_1_2",
    "tls_1_3",
    "saved_stored_bytes",
    "saved_sending_bytes",
    "handshakes_failed",
    "handshakes_per_client",
    "streams_refused",
    "timeout_handshake",
    "timeout_head",
    "timeout_body",
    "timeout_write",
    "timeout_idle",
    "timeout_disk",
    "abandoned",
    "scripts",
    "upstream_requests",
    "responses_buffered",
    "scripts_failed",
    "scripts_killed",
    "scripts_timeout",
    "parts",
    "publications",
    "publications_without_space",
    "scripts_rejected",
    "limited_requests",
    "limited_concurrent",
    "limited_share",
    "limited_dry_run",
    "limit_queued",
    "limit_abandoned",
    "throttle_pauses",
    "scripts_running",
    "scripts_waiting",
    "proxied",
    "proxy_failed",
    "upgraded",
    "upgraded_now",
    "upgrades_rejected",
    "timeout_upgraded",
    "wrong_passwords",
    "wrong_tokens",
    "logins_delayed",
    "logins_busy",
    "breakers_opened",
    "breakers_rejected",
    "forwarded",
    "hedges",
    "hedges_won",
    "hedges_omitted",
    "response_hits",
    "response_misses",
    "responses_awaited",
    "responses_refreshed",
    "responses_revalidated",
    "responses_stale",
    "responses_stored",
    "responses_purged",
    "response_parts_stored",
    "response_copies",
];

/// More than the backlog of the control socket.
const GROUP: usize = 20;
/// How long the test watches silent control clients: less than their timeout.
const WATCHED: Duration = Duration::from_secs(2);

fn site(config: &str) -> Site {
    Site::new().file("a.txt", "hello\n").config(config)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

fn len(response: &Response) -> u64 {
    (response.raw_head.len() + response.body.len()) as u64
}

#[test]
fn text_and_json_have_every_count_of_every_worker() {
    let server = site("workers = 3").start();
    for _ in 0..20 {
        assert_eq!(server.get("/a.txt").status, 200);
    }
    assert!(wait_until(TIMEOUT, || server.count("status_2xx") == 20));
    let json = server.stats();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&json["process"], &json["master"]), (&server.serving_pid().into(), &server.pid().into()));
    assert!(json["uptime_s"].is_u64() && json["log_lines_dropped"] == 0);
    let workers = json["workers"].as_array().expect("it is an array");
    assert_eq!(workers.len(), 3);
    for count in COUNTS.iter().filter(|count| **count != "delay_us") {
        assert!(json["all"][count].is_u64(), "{count}: {json}");
        let each: Option<u64> = workers.iter().map(|worker| worker[count].as_u64()).sum();
        assert_eq!(each, json["all"][count].as_u64(), "{count}: {json}");
    }
    assert_eq!(
        json["all"].as_object().map(|all| all.len()),
        Some(COUNTS.len() + 4),
        "and status codes, two kinds of durations, and the helpers: {json}"
    );

    let output = server.run_command(&["stats"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = |words: &str| {
        let line =
            text.lines().find(|line| line.starts_with(words)).unwrap_or_else(|| panic!("{words}: {text}"));
        line[words.len()..].split_whitespace().map(|n| n.parse().expect("a number")).collect::<Vec<u64>>()
    };
    let accepted = row("connections accepted");
    assert_eq!((accepted.len(), accepted[0]), (4, accepted[1..].iter().sum()), "all, and each: {text}");
    assert_eq!(row("responses 2xx")[0], 20);
    let (version, master, serving) = (env!("CARGO_PKG_VERSION"), server.pid(), server.serving_pid());
    let processes =
        format!("taipan {version}, process {master} takes signals, process {serving} serves, for ");
    assert!(text.starts_with(&processes), "{text}");
    // The kernel may not count descriptors.
    let rows = COUNTS.len() + 14..=COUNTS.len() + 15;
    assert!(rows.contains(&text.lines().count()), "a row for each, durations, and the processes: {text}");
}

#[test]
fn counts_responses_by_class_bytes_and_origin() {
    let config = "workers = 1\n[[route]]\npath = \"/moved\"\nredirect = \"/a.txt\"\n[[route]]\npath = \"/sorry\"\nreturn = 503\n[cache]\ncheck = \"1m\"\nmissing = \"1m\"";
    let server = site(config).start();
    let rows = [
        (get("/a.txt"), "status_2xx", 0, 1),
        (get("/a.txt"), "status_2xx", 1, 0),
        (get("/moved"), "status_3xx", 0, 0),
        (get("/missing"), "status_4xx", 0, 1),
        (get("/missing"), "status_4xx", 1, 0),
        ("nonsense\r\n\r\n".to_owned(), "status_4xx", 0, 0),
        (get("/sorry"), "status_5xx", 0, 0),
    ];
    let mut table = Rows::new();
    for (request, class, hits, misses) in rows {
        let before = server.stats();
        let response = server.request(&request);
        let keys = ["accepted", class, "bytes", "cache_hits", "cache_misses"];
        let expected = [1, 1, len(&response), hits, misses];
        let grown = || {
            let after = server.stats();
            keys.map(|key| after["all"][key].as_u64().unwrap_or(0) - before["all"][key].as_u64().unwrap_or(0))
        };
        // The server counts a response when it has been sent, which the client may see slightly earlier.
        _ = wait_until(TIMEOUT, || grown() == expected);
        table.check(&request, grown(), expected);
    }
}

#[test]
fn counts_connections_by_state() {
    let large = vec![b'x'; 32 * 1024 * 1024];
    let server = site("workers = 1").file("large", large).start();
    let is = |active: u64, resting: u64| {
        let is_so = || {
            let stats = server.stats();
            let count = |key: &str| stats["all"][key].as_u64().unwrap_or(99);
            (count("active"), count("idle") + count("parked")) == (active, resting)
        };
        assert!(wait_until(TIMEOUT, is_so), "not {active} and {resting}: {}", server.stats());
    };
    is(0, 0);
    let mut resting: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    is(0, 3);
    resting[0].get("/a.txt");
    is(0, 3);
    let download = server.begin_download("/large");
    resting[1].send("GET /a.txt HTTP/1.1\r\n");
    is(2, 2);
    drop(download);
    is(1, 2);
    drop(resting);
    is(0, 0);
}

#[test]
fn counts_timeouts_by_kind() {
    let large = vec![b'x'; 32 * 1024 * 1024];
    let config = |key: &str| {
        format!("workers = 1\n[timeouts]\n{key} = \"1s\"\nlinger = \"0s\"\n[limits]\nmin_rate = 1000")
    };
    type Begin = fn(&Server) -> Client;
    let rows: [(&str, &str, Begin); 4] = [
        ("head", "timeout_head", |server| {
            let mut client = server.connect();
            client.send("GET /a.txt HTTP/1.1\r\nHo");
            client
        }),
        ("body", "timeout_body", |server| {
            let mut client = server.connect();
            client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12");
            client
        }),
        ("write", "timeout_write", |server| server.begin_download("/large")),
        ("idle", "timeout_idle", |server| {
            let mut client = server.connect();
            assert_eq!(client.get("/a.txt").status, 200);
            client
        }),
    ];
    for (key, count, begin) in rows {
        let server = site(&config(key)).file("large", &large).start();
        let _client = begin(&server);
        assert!(wait_until(TIMEOUT, || server.count(count) == 1), "{count}: {}", server.stats());
        let stats = server.stats();
        for other in COUNTS.iter().filter(|name| name.starts_with("timeout_") && **name != count) {
            assert_eq!(stats["all"][other], 0, "{other}, not {count}");
        }
    }
}

#[test]
fn counts_accepted_and_refused_connections() {
    let config =
        "workers = 1\n[limits]\nconnections = 2\nconnections_per_client = 3\n[timeouts]\naccept = \"0s\"";
    let server = site(config).start();
    let mut clients: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/a.txt").status, 200);
        client.send("GET /");
    }
    assert!(wait_until(TIMEOUT, || server.count("active") == 2));
    let mut third = server.connect();
    assert_eq!((third.get("/a.txt").status, server.count("rejected")), (503, 1));
    for client in &mut clients {
        client.send("a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.read_response().status, 200);
    }
    drop((third, clients));
    assert!(
        wait_until(TIMEOUT, || server.count("active") + server.count("parked") + server.count("idle") == 0)
    );
    let mut idle: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    assert!(idle.iter_mut().all(|client| client.get("/a.txt").status == 200));
    // Until one of them has been idle long enough to be closed, further clients are rejected.
    assert!(wait_until(TIMEOUT, || server.get("/a.txt").status == 200));
    assert_eq!(server.count("evicted"), 1);
}

#[test]
fn counts_inherited_connections() {
    let server = site("").start();
    let mut clients: Vec<Client> = (0..7).map(|_| server.connect()).collect();
    assert!(clients.iter_mut().all(|client| client.get("/a.txt").status == 200));
    let before = server.stats();
    server.reload();
    assert!(wait_until(TIMEOUT, || server.count("inherited") == 7), "{}", server.stats());
    let after = server.stats();
    assert!(after["process"] != before["process"] && after["all"]["accepted"] == 7, "{after}");
    let workers = after["workers"].as_array().expect("it is an array");
    assert!(workers.iter().all(|worker| worker["accepted"] == 0), "{after}");
    assert_eq!(after["since"], before["since"]);
    assert!(clients.iter_mut().all(|client| client.get("/a.txt").status == 200));
}

#[test]
fn only_root_and_the_owner_may_read_statistics() {
    let server = site("").start();
    // The owner of the program could replace it.
    let words: &[&str] = if is_root() { &["stats", "reload", "upgrade"] } else { &["stats", "reload"] };
    for word in words {
        let mut asking = command_without_privilege(&server.home().join("www"));
        asking.args([*word, "-c"]).arg(server.home().join("site.toml"));
        let output = output_of(&mut asking);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if is_root() {
            assert_eq!(output.status.code(), Some(1), "{word}: {stderr}");
            assert!(
                stderr.contains("only root and the user that runs this program may do this"),
                "{word}: {stderr}"
            );
            assert!(output.stdout.is_empty());
        } else {
            assert_eq!(output.status.code(), Some(0), "{word}: {stderr}");
        }
        assert_eq!(server.get("/a.txt").status, 200);
    }
}

#[test]
fn stats_fails_with_advice_when_no_server_runs() {
    let quiet = site("");
    let config = quiet.write_config();
    for word in ["stats", "reload", "upgrade"] {
        let output = output_of(command().arg(word).arg("-c").arg(&config));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{word}: {stderr}");
        assert!(stderr.contains("no taipan serves"), "{word}: {stderr}");
    }
}

#[test]
fn answers_many_statistics_requests_at_once() {
    let server = site("workers = 2").start();
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert!(server.stats()["all"]["accepted"].is_u64()));
        }
    });
}

#[test]
fn a_silent_control_client_delays_others_without_using_the_processor() {
    let server = site("").start();
    let address = server.control_address();
    let connect = || UnixStream::connect_addr(&address).expect("it listens");
    let _silent: Vec<UnixStream> = (0..GROUP).map(|_| connect()).collect();
    let mut asking = connect();
    asking.write_all(b"stats\n").expect("it is connected");
    let before = processor_time(server.pid());
    // As long as no place is free, the server does not read from it.
    asking.set_read_timeout(Some(WATCHED)).expect("it is not zero");
    let received = loop {
        match asking.read(&mut [0; 1]).map_err(|e| e.kind()) {
            // By the end of a child of another test.
            Err(ErrorKind::Interrupted) => {}
            received => break received,
        }
    };
    assert_eq!(received, Err(ErrorKind::WouldBlock));
    let took = processor_time(server.pid()) - before;
    assert!(took < WATCHED / 10, "{took:?} of {WATCHED:?}");
    // The server stops waiting after a while.
    asking.set_read_timeout(Some(TIMEOUT)).expect("it is not zero");
    let mut response = String::new();
    asking.read_to_string(&mut response).expect("it is answered");
    assert!(response.starts_with("done\n"), "{response}");
}
