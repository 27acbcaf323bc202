//! The section `[trace]`: what upstreams, scripts and logs learn of the trace of a request, and what a collector gets.
//! The upstreams and the collectors are threads of the test.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use e2e::upstream::{read_head, upstream};
use e2e::{Certificate, Client, Rows, Server, Signal, Site, TIMEOUT, authority, free_port, run, wait_until};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// An upstream that sends the head of each request back. Its URL.
fn echo() -> String {
    upstream(|mut stream, head| {
        let mut head = head;
        loop {
            let length = head.len();
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{head}");
            stream.write_all(response.as_bytes())?;
            head = read_head(&mut stream)?;
        }
    })
}

/// The values of a field in a head, or of a variable in an environment.
fn values(text: &str, name: &str) -> Vec<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(": ").or_else(|| line.split_once('=')));
    pairs.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).collect()
}

fn valid() -> String {
    format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n")
}

fn request(server: &Server, path: &str, fields: &str) -> String {
    let response = server.request(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    assert_eq!(response.status, 200, "{path} {fields}");
    response.text().to_owned()
}

const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\n";

#[test]
fn upstreams_and_scripts_get_the_trace() {
    let site = |trace: &str| {
        let proxy = format!("[[route]]\npath = \"/app\"\nproxy = \"{}\"\n", echo());
        let stored =
            format!("[[route]]\npath = \"/stored\"\nproxy = \"{}\"\nresponse_cache = true\n", echo());
        let script = "[[route]]\npath = \"/cgi-bin/\"\ncgi = true\n";
        Site::new()
            .script("cgi-bin/env", SCRIPT)
            .config(&format!("{trace}\n[timeouts]\ndelay = 0\n{proxy}{stored}{script}"))
            .start()
    };
    let mut rows = Rows::new();
    let with = site("[trace]");
    let begins = |value: &[String], start: &str| {
        value.len() == 1 && value[0].starts_with(start) && value[0].len() == 55 && !value[0].contains(PARENT)
    };
    for (at, path) in ["/app", "/app", "/stored?a", "/cgi-bin/env"].into_iter().enumerate() {
        let (parent, state) = match path.starts_with("/cgi") {
            true => ("HTTP_TRACEPARENT", "HTTP_TRACESTATE"),
            false => ("traceparent", "tracestate"),
        };
        let found = request(&with, path, &format!("{}Tracestate: a=1\r\nTRACESTATE: b=2,\r\n", valid()));
        let (parents, states) = (values(&found, parent), values(&found, state));
        rows.holds(path, &format!("{at} continues: {parents:?}"), begins(&parents, &format!("00-{TRACE}-")));
        rows.holds(path, &format!("is sampled: {parents:?}"), parents[0].ends_with("-01"));
        rows.holds(path, &format!("has the state: {states:?}"), states == ["a=1,b=2"]);
        // Another path, so that the cache has no response.
        let path = path.replace("?a", "?b");
        for malformed in [
            String::new(),
            format!("traceparent: 00-{}-{PARENT}-01\r\n", "0".repeat(32)),
            format!("traceparent: 00-{TRACE}-{PARENT}-01x\r\n"),
            format!("{0}{0}", valid()),
            format!("traceparent: {}\r\n", "4".repeat(7000)),
        ] {
            let found = request(&with, &path, &format!("{malformed}tracestate: a=1\r\n"));
            let (parents, states) = (values(&found, parent), values(&found, state));
            let is_new = begins(&parents, "00-") && !parents[0].contains(TRACE) && states.is_empty();
            rows.holds(&path, &format!("{malformed:.80} begins a trace: {parents:?} {states:?}"), is_new);
            if path.starts_with("/stored") {
                break;
            }
        }
    }
    let found = request(&with, "/app", &format!("{}tracestate: not a list\r\n", valid()));
    let (parents, states) = (values(&found, "traceparent"), values(&found, "tracestate"));
    rows.holds("a malformed state", "leaves the trace", begins(&parents, &format!("00-{TRACE}-")));
    rows.holds("a malformed state", "is dropped", states.is_empty());

    let restarting = site("[trace]\ncontext = \"restart\"\nsample = 2");
    let sent = || {
        let found = request(&restarting, "/app", &format!("{}tracestate: a=1\r\n", valid()));
        assert!(!found.contains(TRACE) && values(&found, "tracestate").is_empty(), "{found}");
        values(&found, "traceparent")[0].clone()
    };
    let flags: BTreeSet<String> = (0..16).map(|_| sent()[53..].to_owned()).collect();
    rows.holds("context = restart", &format!("samples some: {flags:?}"), flags.len() == 2);

    let without = site("");
    let found = request(&without, "/app", &format!("{}tracestate: x\r\n", valid()));
    let passed = (values(&found, "traceparent"), values(&found, "tracestate"));
    let as_sent = (vec![format!("00-{TRACE}-{PARENT}-01")], vec!["x".to_owned()]);
    rows.holds("no section", &format!("leaves the fields: {passed:?}"), passed == as_sent);
}

#[test]
fn the_log_has_the_trace() {
    let config = format!(
        "workers = 1\n[log]\naccess = \"stdout\"\nformat = \"json\"\n[trace]\n[[route]]\npath = \"/app\"\nproxy = \"{}\"\n",
        echo()
    );
    let server = Site::new().file("a.txt", "a").config(&config).start();
    let mut sent = Vec::new();
    for (path, fields) in [("/app", ""), ("/app", &*valid()), ("/a.txt", &*valid()), ("/a.txt", "")] {
        let found = request(&server, path, fields);
        sent.push(values(&found, "traceparent").pop());
    }
    let lines = server.output().wait_for(TIMEOUT, |lines| (lines.len() >= 4).then(|| lines.to_vec()));
    let lines = lines.unwrap_or_else(|| panic!("four lines: {}", server.stdout()));
    let mut rows = Rows::new();
    for (at, line) in lines.iter().enumerate() {
        let row = format!("line {at}");
        let line: Value = serde_json::from_str(line).expect("it is JSON");
        let (trace, span) = (line["trace_id"].as_str().unwrap_or(""), line["span_id"].as_str().unwrap_or(""));
        let is_clients = at == 1 || at == 2;
        rows.holds(&row, &format!("has the trace of its client: {trace}"), (trace == TRACE) == is_clients);
        rows.holds(&row, &format!("has identifiers: {trace} {span}"), trace.len() == 32 && span.len() == 16);
        if let Some(parent) = &sent[at] {
            rows.holds(
                &row,
                &format!("is the parent of {parent}"),
                parent[3..52] == format!("{trace}-{span}"),
            );
        }
    }
}

/// A collector that answers each request by `responses`, and passes their bodies on.
fn collector(responses: &'static [&'static str]) -> (SocketAddr, Receiver<Value>) {
    collector_by(responses, |stream| Box::new(stream))
}

/// The same by TLS, with a certificate for `localhost`.
fn secure_collector() -> (SocketAddr, Receiver<Value>) {
    let Certificate { certificate, key, .. } = authority().server(&["localhost"]);
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("it is PEM");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the versions are known")
        .with_no_client_auth()
        .with_single_cert(chain.expect("it is PEM"), key)
        .expect("the key is that of the certificate");
    let config = Arc::new(config);
    collector_by(&[TAKEN], move |stream| {
        let connection = ServerConnection::new(config.clone()).expect("the settings are valid");
        Box::new(StreamOwned::new(connection, stream))
    })
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

fn collector_by(
    responses: &'static [&'static str],
    wrap: impl Fn(TcpStream) -> Box<dyn ReadWrite> + Send + 'static,
) -> (SocketAddr, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (sender, bodies) = channel();
    thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let body = answer(wrap(stream.expect("it listens")), responses[at.min(responses.len() - 1)]);
            // The last ones may be cut off by the end of the test.
            if let Ok(body) = body {
                _ = sender.send(body);
            }
        }
    });
    (address, bodies)
}

fn answer(mut stream: Box<dyn ReadWrite>, response: &str) -> io::Result<Value> {
    let head = read_head(&mut stream)?;
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert_eq!(values(&head, "content-type"), ["application/json"]);
    let length = values(&head, "content-length")[0].parse().expect("it is a number");
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    stream.write_all(response.as_bytes())?;
    Ok(serde_json::from_slice(&body).expect("it is JSON"))
}

const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

fn spans(body: &Value) -> Vec<Value> {
    let resource = &body["resourceSpans"][0];
    assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "shop", "{body}");
    resource["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
}

fn attribute<'v>(span: &'v Value, key: &str) -> Option<&'v str> {
    let all = span["attributes"].as_array()?;
    let value = &all.iter().find(|attribute| attribute["key"] == key)?["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str())
}

fn exporting(address: SocketAddr, more: &str) -> Site {
    let trace = format!("[trace]\nexport = \"http://{address}\"\nservice = \"shop\"\n");
    Site::new().file("a.txt", "0123456789").config(&format!("{more}\n[timeouts]\ndelay = 0\n{trace}"))
}

#[test]
fn a_collector_gets_a_span_for_each_sampled_request() {
    let (address, bodies) = collector(&[TAKEN]);
    let app = format!("[[route]]\npath = \"/app\"\nproxy = \"{}\"\n", echo());
    let mut server = exporting(address, "workers = 2").config(&app).start();
    let mut client = server.connect();
    let not_sampled = format!("traceparent: 00-{TRACE}-{PARENT}-00\r\n");
    for number in 0..50 {
        let fields = match number % 5 {
            0 => valid(),
            1 => not_sampled.clone(),
            _ => String::new(),
        };
        let path = if number % 2 == 0 { "app" } else { "a.txt" };
        client.request(format!("GET /{path}?secret={number} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    }
    client.request("GET /\u{1b}missing HTTP/1.1\r\nHost: a\r\n\r\n");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
    let mut all = Vec::new();
    while let Ok(body) = bodies.recv_timeout(Duration::from_millis(10)) {
        assert!(!body.to_string().contains("secret"), "{body}");
        all.extend(spans(&body));
    }
    let (found, attempts): (Vec<Value>, Vec<Value>) = all.into_iter().partition(|span| span["kind"] == 2);
    // 10 of 50 are not sampled; the last request is malformed, and has no head.
    assert_eq!(found.len(), 40, "{found:#?}");
    assert_eq!(attempts.len(), 20, "{attempts:#?}");
    let of_client: Vec<&Value> = found.iter().filter(|span| span["traceId"] == TRACE).collect();
    assert_eq!(of_client.len(), 10);
    assert!(of_client.iter().all(|span| span["parentSpanId"] == PARENT));
    let identifiers: BTreeSet<&str> = found.iter().filter_map(|span| span["spanId"].as_str()).collect();
    assert_eq!(identifiers.len(), 40, "each has its own");
    let mut rows = Rows::new();
    for span in &found {
        let path = attribute(span, "url.path").unwrap_or_default();
        let is_app = path == "/app";
        rows.holds(path, "is known", is_app || path == "/a.txt");
        rows.holds(path, "has its status", attribute(span, "http.response.status_code") == Some("200"));
        rows.holds(path, "has its client", attribute(span, "client.address") == Some("127.0.0.1"));
        let attempts = attempts.iter().filter(|attempt| attempt["parentSpanId"] == span["spanId"]).count();
        rows.holds(path, &format!("its attempts {attempts}"), attempts == usize::from(is_app));
        let time = |key: &str| span[key].as_str().and_then(|nanos| nanos.parse::<u128>().ok()).unwrap_or(0);
        let (start, end) = (time("startTimeUnixNano"), time("endTimeUnixNano"));
        rows.holds(
            path,
            &format!("lasts from {start} to {end}"),
            start <= end && end - start < TIMEOUT.as_nanos(),
        );
    }
}

#[test]
fn a_collector_that_fails_gets_them_again_and_one_that_refuses_loses_them() {
    let failing = &["HTTP/1.1 503 x\r\n\r\n", "nonsense", TAKEN];
    let (address, bodies) = collector(failing);
    let server = exporting(address, "").start();
    assert_eq!(server.get("/a.txt").status, 200);
    let bodies: Vec<Value> = (0..3).map(|_| bodies.recv_timeout(TIMEOUT).expect("a request")).collect();
    assert_eq!(spans(&bodies[0])[0]["spanId"], spans(&bodies[2])[0]["spanId"], "the same span");
    let line = server.wait_for_line("it responds with 503; it is tried again", TIMEOUT);
    assert!(line.contains("error: collector http://"), "{line}");

    let (address, _bodies) = collector(&["HTTP/1.1 400 x\r\n\r\n"]);
    let server = exporting(address, "").start();
    assert_eq!(server.get("/a.txt").status, 200);
    server.wait_for_line("1 span was dropped", TIMEOUT);
}

/// A collector that takes connections and reads nothing costs no request, and what does not fit the queue is counted.
#[test]
fn requests_do_not_wait_for_a_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let server = exporting(address, "[log]\nqueue = 1").start();
    let mut client = server.connect();
    let long = format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nUser-Agent: {}\r\n\r\n", "u".repeat(900));
    let is_dropped = || server.stderr().contains(" dropped: ");
    for _ in 0..20_000 {
        assert_eq!(client.request(&long).status, 200);
        if is_dropped() {
            break;
        }
    }
    assert!(wait_until(TIMEOUT, is_dropped), "{}", server.stderr());
    drop(listener);
}

#[test]
fn check_and_explain_speak_of_traces() {
    let config = Site::new().config("[trace]\nsample = 7\nexport = \"http://127.0.0.1:1\"");
    let file = config.write_config();
    let checked = run([Path::new("check"), Path::new("-c"), &file]);
    let text = String::from_utf8_lossy(&checked.stdout);
    let expected = "Traces: the traces of clients are continued; one in 7 new ones is sampled; spans are sent to http://127.0.0.1:1/v1/traces";
    assert!(text.contains(expected), "{text}");
    let explain = |field: &str| {
        let mut words: Vec<&Path> = ["explain", "GET", "/", "-c"].map(Path::new).to_vec();
        words.push(&file);
        if !field.is_empty() {
            words.extend(["-H", field].map(Path::new));
        }
        String::from_utf8_lossy(&run(words).stdout).into_owned()
    };
    let continued = explain(&format!("traceparent: 00-{TRACE}-{PARENT}-01"));
    assert!(continued.contains(&format!("trace     {TRACE}, of the client, sampled")), "{continued}");
    let begun = explain("traceparent: 00-x");
    assert!(
        begun.contains("trace     begins here, because the traceparent of the client is malformed"),
        "{begun}"
    );
    assert!(explain("").contains("trace     begins here\n"));
    let refused = Site::new().config("[trace]\nexport = \"ftp://a.example\"").write_config();
    let refused = run([Path::new("check"), Path::new("-c"), &refused]);
    assert_eq!(refused.status.code(), Some(1));
}

/// The spans that a collector has got of one server, up to its end.
fn spans_of(mut server: Server, bodies: &Receiver<Value>) -> Vec<Value> {
    server.signal(Signal::TERM);
    assert_eq!(server.wait(TIMEOUT).code(), Some(0));
    let mut all = Vec::new();
    while let Ok(body) = bodies.recv_timeout(Duration::from_millis(10)) {
        all.extend(spans(&body));
    }
    all
}

#[test]
fn what_a_request_waits_for_has_spans_below_its_own() {
    let (address, bodies) = collector(&[TAKEN]);
    let stored = upstream(|mut stream, head| {
        let length = head.len();
        let fields = format!("Content-Length: {length}\r\nCache-Control: max-age=60\r\nConnection: close");
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{head}").as_bytes())
    });
    let down = format!("127.0.0.1:{}", free_port());
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/app\"\nproxy = \"{}\"\n\
         [[route]]\npath = \"/stored\"\nproxy = \"{stored}\"\nresponse_cache = true\n\
         [[route]]\npath = \"/down\"\nproxy = \"http://{down}\"\n\
         [[route]]\npath = \"/cgi-bin/\"\ncgi = true\n",
        echo()
    );
    let server = exporting(address, &config).script("cgi-bin/env", SCRIPT).start();
    let mut client = server.connect();
    let get = |client: &mut Client, path: &str| {
        client.request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    };
    let mut parents = Vec::new();
    for (path, name, status) in [
        ("/app", "traceparent", 200),
        // An idle connection has it at once.
        ("/app", "traceparent", 200),
        ("/cgi-bin/env", "HTTP_TRACEPARENT", 200),
        ("/stored", "traceparent", 200),
        ("/stored", "", 200),
        ("/down", "", 502),
    ] {
        let response = get(&mut client, path);
        assert_eq!(response.status, status, "{path}");
        parents.extend(values(&response.text(), name).iter().map(|value| value[36..52].to_owned()));
    }
    drop(client);
    let all = spans_of(server, &bodies);
    let (requests, parts): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|span| span["kind"] == 2);
    let mut rows = Rows::new();
    let expected: [&[&str]; 6] =
        [&["GET"], &["GET"], &["script"], &["GET", "cache lookup"], &["cache lookup"], &["GET"]];
    assert_eq!(requests.len(), expected.len(), "{all:#?}");
    let time = |span: &Value, key: &str| span[key].as_str().and_then(|n| n.parse::<u128>().ok()).unwrap_or(0);
    let mut learnt = Vec::new();
    for (at, request) in requests.iter().enumerate() {
        let own: Vec<&&Value> =
            parts.iter().filter(|part| part["parentSpanId"] == request["spanId"]).collect();
        let mut names: Vec<&str> = own.iter().filter_map(|part| part["name"].as_str()).collect();
        names.sort_unstable();
        rows.check(format!("request {at}"), names.as_slice(), expected[at]);
        for part in own {
            rows.holds(format!("request {at}"), "one trace", part["traceId"] == request["traceId"]);
            let within = time(part, "startTimeUnixNano") >= time(request, "startTimeUnixNano")
                && time(part, "endTimeUnixNano") <= time(request, "endTimeUnixNano")
                && time(part, "startTimeUnixNano") <= time(part, "endTimeUnixNano");
            rows.holds(format!("request {at}"), &format!("lies within it: {part}"), within);
            if part["name"] != "cache lookup" && at < 4 {
                learnt.push(part["spanId"].as_str().unwrap_or_default().to_owned());
            }
        }
    }
    // What an upstream does is a part of the attempt.
    rows.check("the parents", &learnt[..], &parents[..]);
    let of = |at: usize| parts.iter().find(|part| part["parentSpanId"] == requests[at]["spanId"]);
    let failed = of(5).expect("it has an attempt");
    rows.check("failed", failed["status"]["code"].as_u64(), Some(2));
    rows.check("why", attribute(failed, "error.type"), Some("no_response"));
    let hit = of(4).expect("it has a lookup");
    rows.check("a hit", attribute(hit, "taipan.cache"), Some("hit"));
    let script = of(2).expect("it has a script");
    rows.check("the script", attribute(script, "taipan.script"), Some("/cgi-bin/env"));
    rows.check("its status", attribute(script, "http.response.status_code"), Some("200"));
}

#[test]
fn spans_are_sent_by_tls_to_a_collector_that_is_verified() {
    let (address, bodies) = secure_collector();
    let port = address.port();
    let site = |host: &str, ca: &str| {
        let trace = format!("[trace]\nexport = \"https://{host}:{port}\"\nservice = \"shop\"\n{ca}\n");
        Site::new()
            .file("a.txt", "0123456789")
            .file_beside_root("ca.pem", authority().pem())
            .config(&format!("[timeouts]\ndelay = 0\n{trace}"))
    };
    let server = site("localhost", "tls_ca = \"ca.pem\"").start();
    assert_eq!(server.get("/a.txt").status, 200);
    let body = bodies.recv_timeout(TIMEOUT).expect("a request");
    assert_eq!(attribute(&spans(&body)[0], "url.path"), Some("/a.txt"));

    // Its certificate is for another name, or of an authority that is not trusted.
    for (host, ca, why) in [
        ("127.0.0.1", "tls_ca = \"ca.pem\"", "not for the name"),
        ("localhost", "", "of an unknown authority"),
    ] {
        let server = site(host, ca).start();
        assert_eq!(server.get("/a.txt").status, 200);
        server.wait_for_line(why, TIMEOUT);
    }
    assert!(bodies.try_recv().is_err(), "it has got nothing");
    let missing = site("localhost", "tls_ca = \"missing.pem\"");
    let refused = run([Path::new("check"), Path::new("-c"), &missing.write_config()]);
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
    assert!(text.contains("missing.pem"), "{text}");
}
