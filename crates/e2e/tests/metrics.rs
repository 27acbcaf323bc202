//! Metrics and health: every request is counted once, also over a reload; Prometheus reads the metrics; and a load
//! balancer learns whether a process should get requests.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::thread;

use e2e::upstream::upstream;
use e2e::{BackgroundProcess, Client, Response, Server, Signal, Site, TIMEOUT, free_port, tool, wait_until};

/// Only this machine reads the metrics.
const ROUTE: &str = "[[route]]\npath = \"/-/metrics\"\nmonitor = \"metrics\"\n\
                     [[route.rule]]\naddress = \"127.0.0.0/8\"\nthen = \"allow\"\n\
                     [[route.rule]]\nthen = \"deny\"\n";

fn site(config: &str) -> Site {
    let moved = "[[route]]\npath = \"/moved\"\nredirect = \"/a.txt\"\n";
    Site::new().file("a.txt", "hello\n").config(&format!("{config}\n{moved}{ROUTE}"))
}

/// The samples of metrics: names with their labels, and values.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let split = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    lines.map(split).collect()
}

fn metrics(server: &Server) -> BTreeMap<String, f64> {
    let output = server.run_command(&["metrics"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    samples(&String::from_utf8_lossy(&output.stdout))
}

/// One request of each kind. Each has its protocol, its method and its status.
const KINDS: [(&str, &str, &str, u16); 16] = [
    ("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1", "GET", 200),
    ("GET /a.txt HTTP/1.0\r\n\r\n", "HTTP/1.0", "GET", 200),
    ("HEAD /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1", "HEAD", 200),
    ("GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=1-2\r\n\r\n", "HTTP/1.1", "GET", 206),
    ("GET /a.txt HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n", "HTTP/1.1", "GET", 304),
    ("GET /a.txt HTTP/1.1\r\nHost: h\r\nIf-Match: \"x\"\r\n\r\n", "HTTP/1.1", "GET", 412),
    ("GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=99-\r\n\r\n", "HTTP/1.1", "GET", 416),
    ("GET /moved HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1", "GET", 302),
    ("GET /missing HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1", "GET", 404),
    ("GET /sorry HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1", "GET", 503),
    ("POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1", "POST", 405),
    ("PUT /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na", "HTTP/1.1", "PUT", 405),
    ("DELETE /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1", "DELETE", 405),
    ("PATCH /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1", "PATCH", 405),
    ("BREW /a.txt HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1", "other", 501),
    ("nonsense\r\n\r\n", "unreadable", "", 400),
];
/// Together 10,240 requests.
const CLIENTS: usize = 4;
const ROUNDS: usize = 80;
const GENERATIONS: u64 = 2;

/// What one client has sent.
#[derive(Default)]
struct Sent {
    connections: u64,
    /// Bytes in each direction.
    sent: u64,
    received: u64,
}

/// Sends each kind so many times, on connections that are kept as long as the server allows.
fn send_every_kind(server: &Server) -> Sent {
    let (mut counted, mut kept) = (Sent::default(), None);
    for (request, _, _, status) in (0..ROUNDS).flat_map(|_| KINDS) {
        let mut client = kept.take().unwrap_or_else(|| {
            counted.connections += 1;
            server.connect()
        });
        let response = client.request(request);
        assert_eq!(response.status, status, "{request}");
        counted.sent += request.len() as u64;
        counted.received += (response.raw_head.len() + response.body.len()) as u64;
        if response.field("connection") != Some("close") && !request.contains("HTTP/1.0") {
            kept = Some(client);
        }
    }
    counted
}

#[test]
fn counts_every_request_once_over_workers_and_a_reload() {
    let sorry = "[[route]]\npath = \"/sorry\"\nreturn = 503\n";
    let config = format!(
        "workers = 2\n[statistics]\nhosts = 1\nroutes = 1\n[timeouts]\ndelay = 0\nhead = \"1m\"\n{sorry}"
    );
    let server = site(&config).start();
    let mut total = Sent::default();
    for generation in 1..=GENERATIONS {
        let all: Vec<Sent> = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| send_every_kind(&server))).collect();
            clients.into_iter().map(|client| client.join().expect("it does not panic")).collect()
        });
        for Sent { connections, sent, received } in all {
            total.connections += connections;
            total.sent += sent;
            total.received += received;
        }
        let each = generation * (CLIENTS * ROUNDS) as u64;
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        let mut add = |name: String| *expected.entry(name).or_default() += each;
        for (_, protocol, method, status) in KINDS {
            add(format!("taipan_requests_total{{protocol=\"{protocol}\"}}"));
            add(format!("taipan_responses_total{{code=\"{status}\"}}"));
            if !method.is_empty() {
                add(format!("taipan_requests_by_method_total{{method=\"{method}\"}}"));
            }
            for histogram in ["first_byte", "duration"] {
                add(format!("taipan_response_{histogram}_seconds_count"));
                add(format!("taipan_response_{histogram}_seconds_bucket{{le=\"+Inf\"}}"));
            }
            if protocol != "unreadable" {
                add(format!("taipan_host_responses_total{{host=\"*\",class=\"{}xx\"}}", status / 100));
                add("taipan_host_response_duration_seconds_count{host=\"*\"}".to_owned());
            }
        }
        expected.insert("taipan_accepted_total".to_owned(), total.connections);
        expected.insert("taipan_received_bytes_total".to_owned(), total.sent);
        expected.insert("taipan_sent_bytes_total".to_owned(), total.received);
        expected.insert("taipan_incomplete_total".to_owned(), 0);
        let found = || -> BTreeMap<String, u64> {
            let found = metrics(&server);
            expected
                .keys()
                .map(|name| (name.clone(), found.get(name).copied().unwrap_or(0.0) as u64))
                .collect()
        };
        // The last responses are counted when they have been sent, which their clients may see earlier.
        _ = wait_until(TIMEOUT, || found() == expected);
        assert_eq!(found(), expected, "generation {generation}");
        server.reload();
    }
}

/// `promtool check metrics`
fn check_with_promtool(text: &[u8]) {
    let mut promtool = tool("promtool")
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    promtool.stdin.take().expect("it is piped").write_all(text).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let complaints = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && complaints.is_empty(),
        "{}\n{}",
        String::from_utf8_lossy(&complaints),
        String::from_utf8_lossy(text)
    );
}

fn get_metrics(server: &Server, accept: &str) -> Response {
    server.connect().get_with("/-/metrics", &format!("Accept: {accept}\r\n"))
}

#[test]
fn metrics_are_valid_for_promtool_in_the_format_that_the_client_takes() {
    let backend = upstream(|mut stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    });
    let backend = backend.trim_start_matches("http://");
    let proxy = format!(
        "[[application]]\nname = \"my app\"\nprotocol = \"http\"\naddress = [\"{backend}\"]\n\
         [[route]]\npath = \"/app/\"\napplication = \"my app\"\n"
    );
    let server = site(&format!("workers = 2\n{proxy}")).start();
    assert_eq!(server.get("/app/x").status, 200);
    assert_eq!(server.get("/a.txt").status, 200);
    for (accept, media_type, is_open) in [
        (
            "application/openmetrics-text; version=1.0.0",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            true,
        ),
        ("text/plain", "text/plain; version=0.0.4; charset=utf-8", false),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8", false),
    ] {
        let response = get_metrics(&server, accept);
        assert_eq!((response.status, response.field("content-type")), (200, Some(media_type)));
        assert_eq!(response.field("cache-control"), Some("no-store"));
        assert_eq!(response.text().ends_with("# EOF\n"), is_open);
        let endpoint = format!("{{application=\"my app\",endpoint=\"{backend}\"}}");
        assert_eq!(samples(&response.text()).get(&format!("taipan_endpoint_up{endpoint}")), Some(&1.0));
        if !is_open {
            check_with_promtool(&response.body);
        }
    }
    let output = server.run_command(&["metrics", "--prometheus"]);
    check_with_promtool(&output.stdout);
    assert_eq!(
        server.request("POST /-/metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n").status,
        405
    );
}

#[test]
fn prometheus_scrapes_the_metrics() {
    let server = site("workers = 2").start();
    for _ in 0..10 {
        assert_eq!(server.get("/a.txt").status, 200);
    }
    let (port, folder) = (free_port(), server.home().join("prometheus"));
    fs::create_dir(&folder).expect("it is our folder");
    let config = folder.join("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\nscrape_configs:\n- job_name: taipan\n  \
         metrics_path: /-/metrics\n  static_configs:\n  - targets: ['{}']\n",
        server.addr()
    );
    fs::write(&config, text).expect("it is our folder");
    let mut command = tool("prometheus");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let _prometheus = BackgroundProcess::start(&mut command);
    let address = ([127, 0, 0, 1], port).into();
    let query = |expression: &str| {
        let Ok(probe) = std::net::TcpStream::connect(address) else { return String::new() };
        drop(probe);
        Client::tcp(address).get(&format!("/api/v1/query?query={expression}")).text()
    };
    for (expression, expected) in [
        ("taipan_responses_total%7Bcode%3D%22200%22%7D%3E%3D10", "\"code\":\"200\""),
        (
            "taipan_response_duration_seconds_count%3E%3D10",
            "\"__name__\":\"taipan_response_duration_seconds_count\"",
        ),
        ("up%3D%3D1", "\"job\":\"taipan\""),
    ] {
        let found = wait_until(TIMEOUT, || query(expression).contains(expected));
        assert!(found, "{expression}: {}", query(expression));
    }
}

#[test]
fn metrics_that_every_client_could_read_are_refused() {
    let route = "[[route]]\npath = \"/-/metrics\"\nmonitor = \"metrics\"\n";
    let rule = |rule: &str| format!("{route}[[route.rule]]\n{rule}\n");
    let rows = [
        (route.to_owned(), false),
        (route.replace("\"metrics\"", "\"status\""), false),
        (rule("address = \"192.0.2.1\"\nthen = \"deny\""), false),
        (rule("user_agent = \"curl*\"\nthen = \"deny\""), false),
        (rule("address = \"0.0.0.0/0\"\nthen = \"deny\""), false),
        (rule("address = \"::/0\"\nthen = \"deny\""), false),
        (rule("address = [\"0.0.0.0/0\", \"::/0\"]\nthen = \"deny\""), true),
        (rule("address = \"!127.0.0.1\"\nthen = \"deny\""), true),
        (rule("then = \"deny\""), true),
        (format!("[[rule]]\naddress = \"!127.0.0.1\"\nthen = \"deny\"\n{route}"), true),
        (route.replace("metrics\"\n", "healthy\"\n"), true),
    ];
    for (config, is_valid) in rows {
        let site = Site::new().config(&config);
        let output = e2e::run(["check".as_ref(), "-c".as_ref(), site.write_config().as_os_str()]);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert_eq!(output.status.code() == Some(0), is_valid, "{config}\n{text}");
        assert_eq!(text.contains("every client could read \""), !is_valid, "{config}\n{text}");
    }
}

#[test]
fn is_healthy_while_it_serves_and_ready_until_it_ends() {
    let routes = "[[route]]\npath = \"/-/healthy\"\nmonitor = \"healthy\"\n\
                  [[route]]\npath = \"/-/ready\"\nmonitor = \"ready\"\n";
    let server = site(&format!("workers = 1\n{routes}")).start();
    for path in ["/-/healthy", "/-/ready"] {
        let response = server.get(path);
        assert_eq!((response.status, response.text()), (200, "ok\n".to_owned()));
    }
    let clients = ["/-/healthy", "/-/ready"].map(|path| {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n"));
        client
    });
    assert!(wait_until(TIMEOUT, || server.count("active") == 2));
    server.signal(Signal::TERM);
    let statuses = clients.map(|mut client| {
        assert!(
            wait_until(TIMEOUT, || std::net::TcpStream::connect(server.addr()).is_err()),
            "it still accepts"
        );
        client.send("\r\n").read_response().status
    });
    assert_eq!(statuses, [200, 503]);
}

#[test]
fn is_not_ready_without_an_endpoint_of_an_application() {
    let application = format!(
        "[[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = [\"127.0.0.1:{}\"]\n\
         [application.health]\npath = \"/\"\ninterval = \"100ms\"\nfall = 1\n\
         [[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         [[route]]\npath = \"/-/ready\"\nmonitor = \"ready\"\n",
        free_port()
    );
    let server = site(&application).start();
    let is_unready = || {
        let response = server.get("/-/ready");
        (response.status, response.text())
            == (503, "no endpoint of the application \"app\" is up\n".to_owned())
    };
    assert!(wait_until(TIMEOUT, is_unready), "{}", server.get("/-/ready").text());
}

#[test]
fn readiness_does_not_show_the_address_of_an_upstream() {
    let route = format!(
        "[[route]]\npath = \"/app/\"\nproxy = \"http://127.0.0.1:{}/\"\n\
         proxy_health = {{ path = \"/\", interval = \"100ms\", fall = 1 }}\n\
         [[route]]\npath = \"/-/ready\"\nmonitor = \"ready\"\n",
        free_port()
    );
    let server = site(&route).start();
    let is_unready = || server.get("/-/ready").status == 503;
    assert!(wait_until(TIMEOUT, is_unready), "{}", server.get("/-/ready").text());
    assert_eq!(server.get("/-/ready").text(), "no endpoint of an application is up\n");
}

#[test]
fn an_application_whose_processes_end_at_once_has_no_endpoint() {
    let application = "[[application]]\nname = \"app\"\ncommand = \"/bin/false\"\nprocesses = 2\n\
                       [[route]]\npath = \"/app/\"\napplication = \"app\"\n\
                       [[route]]\npath = \"/-/ready\"\nmonitor = \"ready\"\n";
    let server = site(application).start();
    let is_unready = || {
        let response = server.get("/-/ready");
        (response.status, response.text())
            == (503, "no endpoint of the application \"app\" is up\n".to_owned())
    };
    assert!(wait_until(TIMEOUT, is_unready), "{}", server.get("/-/ready").text());
    let has_none = || server.stats()["endpoints"].as_array().is_some_and(Vec::is_empty);
    assert!(wait_until(TIMEOUT, has_none), "{}", server.stats());
}

#[test]
fn is_ready_without_an_application_that_is_not_required() {
    let application = |name: &str, required: bool| {
        format!(
            "[[application]]\nname = \"{name}\"\nprotocol = \"http\"\naddress = [\"127.0.0.1:{}\"]\n\
             required = {required}\n[application.health]\npath = \"/\"\ninterval = \"100ms\"\nfall = 1\n",
            free_port()
        )
    };
    let routes = "[[route]]\npath = \"/one/\"\napplication = \"one\"\n\
                  [[route]]\npath = \"/two/\"\napplication = \"two\"\n\
                  [[route]]\npath = \"/-/ready\"\nmonitor = \"ready\"\n";
    let config = |required| format!("{}{}{routes}", application("one", false), application("two", required));
    let server = site(&config(false)).start();
    let are_down = |server: &Server| {
        let endpoints = server.stats()["endpoints"].as_array().cloned().unwrap_or_default();
        endpoints.len() == 2 && endpoints.iter().all(|endpoint| endpoint["state"] == "down")
    };
    assert!(wait_until(TIMEOUT, || are_down(&server)), "{}", server.stats());
    assert_eq!((server.get("/-/ready").status, server.get("/-/ready").text()), (200, "ok\n".to_owned()));
    let server = site(&config(true)).start();
    let is_unready = || server.get("/-/ready").text() == "no endpoint of the application \"two\" is up\n";
    assert!(wait_until(TIMEOUT, is_unready), "{}", server.get("/-/ready").text());
}

/// Only this machine sees the page.
const PAGE: &str = "[[route]]\npath = \"/-/status\"\nmonitor = \"status\"\n\
                    [[route.rule]]\naddress = \"127.0.0.0/8\"\nthen = \"allow\"\n\
                    [[route.rule]]\nthen = \"deny\"\n";

#[test]
fn the_page_has_every_count_without_javascript_and_loads_only_its_own_parts() {
    let server = site(&format!("workers = 2\n{PAGE}")).start();
    let page = server.get("/-/status");
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.field("cache-control"), Some("no-store"));
    let policy = page.field("content-security-policy").unwrap_or_default();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    for part in ["data-count=\"accepted\">1</tr>", "<script src=\"?script\" defer>", "href=\"?style\""] {
        assert!(page.text().contains(part), "{part}\n{}", page.text());
    }
    for (query, status, media_type) in [
        ("script", 200, "text/javascript; charset=utf-8"),
        ("style", 200, "text/css; charset=utf-8"),
        ("history=0", 200, "application/json"),
        ("history=3", 404, "text/html; charset=utf-8"),
        ("other", 404, "text/html; charset=utf-8"),
    ] {
        let response = server.get(&format!("/-/status?{query}"));
        assert_eq!((response.status, response.field("content-type")), (status, Some(media_type)), "{query}");
    }
}

/// The requests of the last minute, as the history has them.
fn requests_of_the_minute(server: &Server) -> u64 {
    let text = server.get("/-/status?history=0").text();
    let history: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let points = history["points"].as_array().expect("it is an array");
    points.iter().filter_map(|point| point[1].as_u64()).sum()
}

#[test]
fn the_history_stays_over_a_reload() {
    let server = site(&format!("workers = 2\n{PAGE}")).start();
    for _ in 0..50 {
        assert_eq!(server.get("/a.txt").status, 200);
    }
    assert!(wait_until(TIMEOUT, || requests_of_the_minute(&server) >= 50));
    server.reload();
    assert!(requests_of_the_minute(&server) >= 50, "what was before the reload is still there");
}

#[test]
fn events_show_requests_without_the_values_of_their_queries() {
    let server = site(&format!("workers = 1\n{PAGE}")).start();
    assert_eq!(server.get("/missing?token=geheim&x").status, 404);
    let mut watching = server.connect();
    watching.send("GET /-/status?events HTTP/1.1\r\nHost: h\r\n\r\n");
    let head = watching.read_response_to_head();
    assert_eq!((head.status, head.field("content-type")), (200, Some("text/event-stream")));
    let mut text = String::new();
    while !text.contains("\n\n") {
        text.push_str(&String::from_utf8_lossy(&watching.read_some().expect("it sends events")));
    }
    let text = text.replace("\\u2026", "…");
    for part in ["\"target\":\"/missing?token=…&…\"", "\"status\":404", "data: {\"report\":{\"version\""]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("geheim"), "{text}");
    // The stream ends with its process, and the browser requests another of the one that serves now.
    server.reload();
    let mut rest = String::new();
    while !rest.ends_with("0\r\n\r\n") {
        rest.push_str(&String::from_utf8_lossy(&watching.read_some().expect("it ends")));
    }
    assert_eq!(watching.get("/a.txt").status, 200, "on the same connection");
}

#[test]
fn events_count_neither_in_durations_nor_as_responses_that_ended_early() {
    let server = site(&format!("workers = 1\n{PAGE}")).start();
    let mut watching = server.connect();
    watching.send("GET /-/status?events HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(watching.read_response_to_head().status, 200);
    watching.read_some().expect("it sends events");
    drop(watching);
    let is_over = || server.count("active") == 0;
    assert!(wait_until(TIMEOUT, is_over), "{}", server.stats());
    let all = &server.stats()["all"];
    let counts = ["status_2xx", "incomplete"].map(|key| all[key].as_u64());
    assert_eq!(counts, [Some(1), Some(0)], "{all}");
    assert_eq!(all["duration_us"]["count"].as_u64(), Some(0), "{all}");
}

#[test]
fn events_end_after_a_time() {
    let server = site(&format!("workers = 1\n[timeouts]\nevents = \"10ms\"\n{PAGE}")).start();
    let mut watching = server.connect();
    let events = watching.get("/-/status?events");
    assert!(events.text().starts_with("retry: 1000\ndata: {"), "{events}");
    assert_eq!(watching.get("/a.txt").status, 200, "on the same connection");
}

#[test]
fn clients_that_read_no_events_are_bounded_and_cost_nothing_else() {
    const MOST: usize = 32;
    let server = site(&format!("workers = 1\n{PAGE}")).start();
    let silent: Vec<Client> = (0..MOST)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /-/status?events HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(client.read_response_to_head().status, 200);
            client
        })
        .collect();
    assert_eq!(server.get("/-/status?events").status, 503);
    assert_eq!(server.get("/a.txt").status, 200);
    drop(silent);
    let is_free = || {
        let mut client = server.connect();
        client.send("GET /-/status?events HTTP/1.1\r\nHost: h\r\n\r\n");
        client.read_response_to_head().status == 200
    };
    assert!(wait_until(TIMEOUT, is_free));
}

/// Three hosts besides that of the top level, one of which has two routes besides the default.
const ZONES: &str = "workers = 2\n\
                     [statistics]\nhosts = 3\nroutes = 4\n\
                     [timeouts]\ndelay = \"0s\"\n\
                     [[host]]\nnames = [\"a.example\", \"www.a.example\"]\nroot = \"www\"\n\
                     [[host.route]]\npath = \"/x/\"\nreturn = 404\n\
                     [[host.route]]\npath = \"*.gone\"\nreturn = 410\n\
                     [[host]]\nnames = \"b.example\"\nroot = \"www\"\n\
                     [[host]]\nnames = \"c.example\"\nroot = \"www\"\n";

#[test]
fn counts_hosts_and_routes_by_themselves_over_workers_and_reloads() {
    let server = Site::new().file("a.txt", "hello\n").config(ZONES).start();
    let kinds = [
        ("a.example", "/a.txt", 200),
        ("WWW.a.example:80", "/a.txt?query", 200),
        ("a.example", "/x/y", 404),
        ("a.example", "/x/y.gone", 410),
        ("b.example", "/a.txt", 200),
        ("b.example", "/missing", 404),
        ("c.example", "/a.txt", 200),
    ];
    let rows = [
        ("hosts", "*", None, [0; 5], &[][..]),
        ("hosts", "a.example", None, [0, 2, 0, 2, 0], &[0, 1, 2, 3]),
        ("hosts", "b.example", None, [0, 1, 0, 1, 0], &[4, 5]),
        ("hosts", "(others)", None, [0, 1, 0, 0, 0], &[6]),
        ("routes", "*", Some("/"), [0; 5], &[]),
        ("routes", "a.example", Some("/"), [0, 2, 0, 0, 0], &[0, 1]),
        ("routes", "a.example", Some("/x/"), [0, 0, 0, 1, 0], &[2]),
        ("routes", "a.example", Some("*.gone"), [0, 0, 0, 1, 0], &[3]),
        ("routes", "(others)", Some("(others)"), [0, 2, 0, 1, 0], &[4, 5, 6]),
    ];
    let mut bytes = [0; 7];
    for round in 1..=3 {
        for (at, (host, path, status)) in kinds.into_iter().enumerate() {
            for _ in 0..10 {
                let response = server.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
                assert_eq!(response.status, status, "{host} {path}");
                bytes[at] += (response.raw_head.len() + response.body.len()) as u64;
            }
        }
        // It belongs to no host.
        assert_eq!(server.request("nonsense\r\n\r\n").status, 400);
        let expected = rows.map(|(kind, host, route, classes, of)| {
            let sent: u64 = of.iter().map(|at| bytes[*at]).sum();
            (kind, host.to_owned(), route.map(str::to_owned), classes.map(|n| n * 10 * round), sent)
        });
        let found = || {
            let stats = server.stats();
            let number = |zone: &serde_json::Value, key: &str| zone[key].as_u64().unwrap_or(0);
            let of_kind = |kind: &'static str| {
                let zones = stats[kind].as_array().cloned().unwrap_or_default();
                zones.into_iter().map(move |zone| {
                    let classes = [1, 2, 3, 4, 5].map(|class| number(&zone, &format!("status_{class}xx")));
                    assert_eq!(number(&zone["duration_us"], "count"), classes.iter().sum::<u64>());
                    let text = |key: &str| zone[key].as_str().map(str::to_owned);
                    let host = text("host").unwrap_or_default();
                    (kind, host, text("route"), classes, number(&zone, "bytes"))
                })
            };
            of_kind("hosts").chain(of_kind("routes")).collect::<Vec<_>>()
        };
        // The last response is counted when it has been sent, which its client may see earlier.
        _ = wait_until(TIMEOUT, || found() == expected);
        assert_eq!(found(), expected, "round {round}");
        server.reload();
    }
    let output = server.run_command(&["metrics", "--prometheus"]);
    check_with_promtool(&output.stdout);
    let found = samples(&String::from_utf8_lossy(&output.stdout));
    for (name, value) in [
        ("taipan_host_responses_total{host=\"a.example\",class=\"4xx\"}", 60.0),
        ("taipan_route_responses_total{host=\"a.example\",route=\"*.gone\",class=\"4xx\"}", 30.0),
        ("taipan_route_sent_bytes_total{host=\"a.example\",route=\"/x/\"}", bytes[2] as f64),
        ("taipan_host_response_duration_seconds_count{host=\"(others)\"}", 30.0),
        ("taipan_host_response_duration_seconds_bucket{host=\"(others)\",le=\"+Inf\"}", 30.0),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name}");
    }
    let text = String::from_utf8_lossy(&server.run_command(&["stats"]).stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("a.example *.gone ")).expect("it has the route");
    let numbers: Vec<&str> = line.split_whitespace().skip(2).take(6).collect();
    assert_eq!(numbers, ["30", "0", "0", "0", "30", "0"], "{line}");
}

/// By each of its names: with PATH_INFO, as an index file, and as a fallback.
#[test]
fn a_request_counts_for_the_route_of_the_script_that_responds() {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nscript'\n";
    let server = Site::new()
        .file("a.txt", "hello\n")
        .script("index.cgi", script)
        .config(
            "index = [\"index.cgi\"]\nfallback = \"/index.cgi\"\n[statistics]\nroutes = 9\n\
             [[route]]\npath = \"*.cgi\"\ncgi = true\n",
        )
        .start();
    for path in ["/index.cgi", "/index.cgi/a", "/", "/missing", "/a.txt"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let found = || {
        let output = server.run_command(&["metrics", "--prometheus"]);
        let found = samples(&String::from_utf8_lossy(&output.stdout));
        ["/", "*.cgi"].map(|route| {
            let labels = format!("host=\"*\",route=\"{route}\",class=\"2xx\"");
            found.get(format!("taipan_route_responses_total{{{labels}}}").as_str()).copied()
        })
    };
    // The last response is counted when it has been sent, which its client may see earlier.
    _ = wait_until(TIMEOUT, || found() == [Some(1.0), Some(4.0)]);
    assert_eq!(found(), [Some(1.0), Some(4.0)]);
}

#[test]
fn metrics_name_sampled_traces_only_by_key_and_as_openmetrics() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    for (key, is_named) in [("exemplars = true", true), ("", false)] {
        let server = site(&format!("[trace]\n{key}\n")).start();
        let fields = |flags: &str| format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-{flags}\r\n");
        let get = |flags: &str| server.connect().get_with("/a.txt", &fields(flags)).status;
        // Not sampled: an exemplar of its own could take the place of the other one.
        let own = format!("Traceparent: 00-{}-00f067aa0ba902b7-00\r\n", TRACE.replace('4', "5"));
        let traces = |accept: &str| {
            let fields = format!("Accept: {accept}\r\n{own}");
            server.connect().get_with("/-/metrics", &fields).text().matches(TRACE).count()
        };
        assert_eq!(get("00"), 200, "it is not sampled");
        assert_eq!(traces("application/openmetrics-text"), 0);
        assert_eq!(get("01"), 200);
        // It is noted and counted when it has been sent, which the client may see earlier.
        assert!(wait_until(TIMEOUT, || server.count("status_2xx") >= 3));
        let expected = usize::from(is_named);
        _ = wait_until(TIMEOUT, || traces("application/openmetrics-text") == expected);
        assert_eq!(traces("application/openmetrics-text"), expected, "{key}");
        assert_eq!(traces("text/plain"), 0);
    }
}

#[test]
fn counts_no_host_and_no_route_without_a_key() {
    let server = site("").start();
    assert_eq!(server.get("/a.txt").status, 200);
    let stats = server.stats();
    assert_eq!((&stats["hosts"], &stats["routes"]), (&serde_json::json!([]), &serde_json::json!([])));
    assert!(!metrics(&server).keys().any(|name| name.contains("taipan_host_")));
}
