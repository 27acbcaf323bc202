//! Several endpoints of an upstream: which one a request goes to, and what becomes of one that fails. The endpoints are
//! threads of the test.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use e2e::{
    Gate, Response, Rows, Server, Signal, Site, TIMEOUT, path_of, runs, signal_process, stop_process, tool,
    wait_until,
};

/// An endpoint, which responds with its name. It can die, and live again at the same address.
struct Endpoint {
    address: SocketAddr,
    is_dead: Arc<AtomicBool>,
    requests: Arc<AtomicUsize>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Endpoint {
    fn start(name: &'static str) -> Endpoint {
        Endpoint::with(move |path| {
            let status = if path == "/unhealthy" { "503 Service Unavailable" } else { "200 OK" };
            format!("HTTP/1.1 {status}\r\nX-By: {name}\r\nContent-Length: 0\r\n\r\n")
        })
    }

    /// Responds to `/slow` when the gate is open.
    fn gated(name: &'static str, gate: &Gate) -> Endpoint {
        let gate = gate.clone();
        Endpoint::with(move |path| {
            if path == "/slow" {
                gate.wait();
            }
            format!("HTTP/1.1 200 OK\r\nX-By: {name}\r\nContent-Length: 0\r\n\r\n")
        })
    }

    /// Sends `response` for each path. An empty one closes the connection.
    fn with(response: impl Fn(&str) -> String + Send + Sync + 'static) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (is_dead, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let streams = Arc::new(Mutex::new(Vec::<TcpStream>::new()));
        let endpoint = Endpoint { address, is_dead, requests, streams };
        let response = Arc::new(response);
        let (is_dead, requests, streams) =
            (endpoint.is_dead.clone(), endpoint.requests.clone(), endpoint.streams.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("it listens");
                if is_dead.load(Ordering::SeqCst) {
                    continue;
                }
                streams.lock().expect("no panic").push(stream.try_clone().expect("a descriptor"));
                let (response, requests) = (response.clone(), requests.clone());
                thread::spawn(move || serve(stream, &*response, &requests));
            }
        });
        endpoint
    }

    /// From now on each connection ends at once.
    fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        for stream in self.streams.lock().expect("no panic").drain(..) {
            _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn live(&self) {
        self.is_dead.store(false, Ordering::SeqCst);
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, response: &dyn Fn(&str) -> String, requests: &AtomicUsize) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line)?;
            let value = line.strip_prefix("Content-Length: ").map(str::trim_end);
            length = value.map_or(length, |value| value.parse().expect("a number"));
        }
        reader.read_exact(&mut vec![0; length])?;
        requests.fetch_add(1, Ordering::SeqCst);
        let response = response(first.split(' ').nth(1).unwrap_or_default());
        if response.is_empty() {
            return stream.shutdown(Shutdown::Both);
        }
        (&stream).write_all(response.as_bytes())?;
    }
}

fn by(response: &Response) -> String {
    match response.status {
        200 => response.field("x-by").unwrap_or("?").to_owned(),
        status => status.to_string(),
    }
}

/// Everything goes to `endpoints`, as `settings` of the application say.
fn start(endpoints: &[&Endpoint], workers: usize, settings: &str) -> Server {
    let addresses: Vec<SocketAddr> = endpoints.iter().map(|endpoint| endpoint.address).collect();
    start_at(&addresses, workers, settings)
}

fn start_at(addresses: &[SocketAddr], workers: usize, settings: &str) -> Server {
    let addresses: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    let config = format!(
        "workers = {workers}\n[[route]]\npath = \"/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\n\
         protocol = \"http\"\naddress = [{}]\n{settings}\n",
        addresses.join(", ")
    );
    Site::new().config(&config).start()
}

/// How many of so many requests each endpoint has, each over a connection of its own.
fn shares(server: &Server, count: usize, fields: impl Fn(usize) -> String) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    for number in 0..count {
        let request = format!("GET /{number} HTTP/1.1\r\nHost: a\r\n{}\r\n", fields(number));
        *shares.entry(by(&server.request(request))).or_default() += 1;
    }
    shares
}

#[test]
fn takes_turns_by_weight() {
    let [a, b, c] = ["a", "b", "c"].map(Endpoint::start);
    let server = start(&[&a, &b, &c], 1, "balance = \"round_robin\"\nweights = [1, 2, 3]");
    let found = shares(&server, 60, |_| String::new());
    let expected = [("a", 10), ("b", 20), ("c", 30)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn random_uses_every_endpoint() {
    let [a, b, c] = ["a", "b", "c"].map(Endpoint::start);
    let server = start(&[&a, &b, &c], 2, "balance = \"random\"");
    let found = shares(&server, 300, |_| String::new());
    assert!(found.len() == 3 && found.values().all(|count| (50..150).contains(count)), "{found:?}");
}

#[test]
fn the_same_key_leads_to_the_same_endpoint_in_every_worker() {
    let [a, b, c] = ["a", "b", "c"].map(Endpoint::start);
    let server = start(&[&a, &b, &c], 2, "balance = \"hash field X-User\"");
    let get =
        |user: usize| by(&server.request(format!("GET / HTTP/1.1\r\nHost: a\r\nX-User: {user}\r\n\r\n")));
    let before: Vec<String> = (0..40).map(get).collect();
    for _ in 0..4 {
        assert_eq!((0..40).map(get).collect::<Vec<_>>(), before);
    }
    for name in ["a", "b", "c"] {
        assert!(before.iter().any(|by| by == name), "{name}: {before:?}");
    }
    b.die();
    for (user, before) in before.iter().enumerate() {
        let now = get(user);
        assert!(if before == "b" { now != "b" && now != "502" } else { now == *before }, "{user}: {now}");
    }
    b.live();
    let back = wait_until(TIMEOUT, || (0..40).map(get).collect::<Vec<_>>() == before);
    assert!(back, "its keys return to it");
}

#[test]
fn all_spellings_of_a_path_lead_to_the_same_endpoint() {
    let [a, b, c] = ["a", "b", "c"].map(Endpoint::start);
    let server = start(&[&a, &b, &c], 1, "balance = \"hash path\"");
    let mut rows = Rows::new();
    for number in 0..8 {
        let plain = by(&server.get(&format!("/p{number}")));
        for sent in [format!("//p{number}"), format!("/x/../p{number}"), format!("/%70{number}")] {
            rows.check(&sent, by(&server.get(&sent)), plain.clone());
        }
    }
}

#[test]
fn a_cookie_of_the_application_or_the_client_leads_to_the_same_endpoint() {
    let [a, b, c] = ["a", "b", "c"].map(Endpoint::start);
    let server = start(&[&a, &b, &c], 2, "balance = \"hash cookie session\"");
    let of = |cookie: &str| by(&server.request(format!("GET / HTTP/1.1\r\nHost: a\r\n{cookie}\r\n")));
    let sessions =
        || (0..40).map(|id| of(&format!("Cookie: x=1; session={id}; y=2\r\n"))).collect::<Vec<_>>();
    let before = sessions();
    for name in ["a", "b", "c"] {
        assert!(before.iter().any(|by| by == name), "{name}: {before:?}");
    }
    assert_eq!(sessions(), before);
    // Without the cookie, the address of the client decides.
    let without = of("");
    for cookie in ["Cookie: sessions=1\r\n", "Cookie: x=session=1\r\n", "X: session=1\r\n"] {
        assert_eq!(of(cookie), without, "{cookie}");
    }
}

#[test]
fn an_endpoint_that_is_up_again_starts_slowly() {
    const SLOW_START: Duration = Duration::from_secs(4);
    let [a, b] = ["a", "b"].map(Endpoint::start);
    let server = start(
        &[&a, &b],
        1,
        "balance = \"round_robin\"\nslow_start = \"4s\"\n[application.health]\ninterval = \"100ms\"\npath = \"/\"\n\
         rise = 1\nfall = 1\n",
    );
    let of_a = || shares(&server, 60, |_| String::new()).get("a").copied().unwrap_or_default();
    assert!((28..=32).contains(&of_a()), "both have started at the same time");
    let line = |what: &str| {
        let line = format!("app {}: {what}", a.address);
        wait_until(TIMEOUT, || command(&server, &["stats"]).1.contains(&line))
    };
    // Both have all of their weight again.
    thread::sleep(SLOW_START);
    let starts_slowly = || {
        a.die();
        assert!(line("down"), "the check finds it");
        let began = Instant::now();
        a.live();
        assert!(line("up"), "the check finds it, too");
        let found = of_a();
        // The share of its weight beside the full weight of the other one, and a little more.
        let weight = (began.elapsed().as_secs_f64() / SLOW_START.as_secs_f64()).max(0.1);
        let most = 60.0 * weight / (1.0 + weight) + 2.0;
        assert!((1.0..=most).contains(&(found as f64)) || weight >= 1.0, "{found} of 60, weight {weight}");
        weight < 0.5
    };
    assert!((0..10).any(|_| starts_slowly()), "the machine is too slow");
    assert!(wait_until(TIMEOUT, || of_a() == 30), "in the end it has all");
    server.wait_for_line(&format!("{} is down: health check: ", a.address), TIMEOUT);
    server.wait_for_line(&format!("{} is used again", a.address), TIMEOUT);
}

#[test]
fn an_endpoint_that_is_up_again_has_its_share_and_makes_up_for_nothing() {
    // A new connection for each request, so that the pool chooses, too.
    let closing = |name: &'static str| {
        Endpoint::with(move |_| {
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\nX-By: {name}\r\nContent-Length: 0\r\n\r\n")
        })
    };
    for balance in ["least", "sticky", "random"] {
        let [a, b, c] = ["a", "b", "c"].map(closing);
        let settings = format!("balance = \"{balance}\"\n[application.health]\npause = \"100ms\"\n");
        let server = start(&[&a, &b, &c], 1, &settings);
        let line = |what: &str| {
            let line = format!("app {}: {what}", a.address);
            wait_until(TIMEOUT, || command(&server, &["stats"]).1.contains(&line))
        };
        a.die();
        assert!(wait_until(TIMEOUT, || shares(&server, 10, |_| String::new()).len() == 2), "{balance}");
        shares(&server, 300, |_| String::new());
        a.live();
        assert!(line("up"), "{balance}");
        let found = shares(&server, 60, |_| String::new());
        let share = if balance == "random" { 5..=35 } else { 10..=22 };
        assert!(share.contains(&found["a"]), "{balance}: {found:?}");
    }
}

#[test]
fn a_cookie_keeps_a_client_at_its_endpoint_until_that_dies() {
    let [a, b, c] = ["a", "b", "c"].map(Endpoint::start);
    let server = start(&[&a, &b, &c], 2, "balance = \"sticky node\"");
    let get = |cookie: &str| {
        server.request(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: x=1; node={cookie}; y=2\r\n\r\n"))
    };
    let first = server.get("/");
    let set = first.field("set-cookie").expect("a cookie").to_owned();
    let (value, attributes) = set.strip_prefix("node=").and_then(|set| set.split_once(';')).expect(&set);
    assert_eq!((value.len(), attributes), (4, " Path=/; HttpOnly; SameSite=Lax"));
    for _ in 0..20 {
        let response = get(value);
        assert_eq!((by(&response), response.field("set-cookie")), (by(&first), None));
    }
    let forged = get("zzzz");
    assert!(forged.status == 200 && forged.field("set-cookie").is_some(), "it gets a good one");
    let own = [&a, &b, &c].into_iter().zip(["a", "b", "c"]).find(|(_, name)| by(&first) == *name);
    own.expect("one of them").0.die();
    let moved = get(value);
    assert_ne!(by(&moved), by(&first));
    assert_eq!(moved.status, 200);
    assert_ne!(moved.field("set-cookie"), Some(&*set));
}

#[test]
fn what_is_stored_has_no_cookie_of_the_client_that_it_was_fetched_for() {
    let [a, b] = [(); 2].map(|()| {
        Endpoint::with(|path| {
            let control = if path == "/private" { "private" } else { "max-age=60" };
            format!("HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nContent-Length: 4\r\n\r\nbody")
        })
    });
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/\"\napplication = \"app\"\nresponse_cache = true\n[[application]]\n\
         name = \"app\"\nprotocol = \"http\"\naddress = [\"{}\", \"{}\"]\nbalance = \"sticky\"\n",
        a.address, b.address
    );
    let server = Site::new().config(&config).start();
    let mut rows = Rows::new();
    for (path, expected) in [("/private", true), ("/private", true), ("/public", true), ("/public", false)] {
        let response = server.get(path);
        assert_eq!((response.status, &response.body[..]), (200, &b"body"[..]), "{path}");
        let cookies = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        rows.check(path, cookies.count(), usize::from(expected));
    }
}

#[test]
fn clients_that_are_kept_at_an_endpoint_share_what_is_stored() {
    let [a, b] = [(); 2].map(|()| {
        Endpoint::with(|_| {
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nbody".to_owned()
        })
    });
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/\"\nproxy = [\"http://{}\", \"http://{}\"]\nproxy_balance = \"sticky\"\n\
         response_cache = true\n",
        a.address, b.address
    );
    let server = Site::new().config(&config).start();
    let first = server.get("/stored");
    let cookie = first.field("set-cookie").expect("it is kept at an endpoint").split(';').next();
    let cookie = cookie.expect("a cookie");
    let mut rows = Rows::new();
    let mut row = |path: &str, cookies: &str, expected: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookies}\r\n\r\n");
        let response = server.request(request);
        let status = response.field("cache-status").unwrap_or_default();
        rows.check(cookies, status.split(';').nth(1), Some(expected));
    };
    row("/stored", cookie, " hit");
    row("/stored", &format!("{cookie}; session=1"), " fwd=bypass");
    row("/stored", "session=1", " fwd=bypass");
    row("/stored", "endpoint=of-the-application", " fwd=bypass");
    // It is stored for the others, too.
    row("/other", cookie, " fwd=uri-miss");
    row("/other", cookie, " hit");
    let response = server.get("/other");
    assert!(response.field("cache-status").is_some_and(|status| status.contains("hit")));
}

#[test]
fn a_dead_endpoint_costs_no_request_and_is_used_again_when_it_lives() {
    for balance in ["least", "round_robin", "random", "hash path", "sticky"] {
        let [a, b] = ["a", "b"].map(Endpoint::start);
        let server = start(&[&a, &b], 2, &format!("balance = \"{balance}\""));
        shares(&server, 10, |_| String::new());
        a.die();
        let found = shares(&server, 40, |_| String::new());
        assert_eq!(found.get("b"), Some(&40), "{balance}: {found:?}");
        a.live();
        // Least has no reason to open a connection to another endpoint as long as one is idle.
        if balance != "least" {
            let back = wait_until(TIMEOUT, || shares(&server, 8, |_| String::new()).contains_key("a"));
            assert!(back, "{balance}");
        }
    }
}

#[test]
fn says_503_when_all_endpoints_are_down_and_tries_the_least_bad_one() {
    let [a, b] = ["a", "b"].map(Endpoint::start);
    let server = start(&[&a, &b], 1, "balance = \"round_robin\"");
    a.die();
    b.die();
    let mut rows = Rows::new();
    rows.check("both fail", server.get("/").status, 502);
    let is_503 = || server.get("/").status == 503;
    rows.check("both are down", wait_until(TIMEOUT, is_503), true);
    let line = server.wait_for_line("all of its endpoints are down", TIMEOUT);
    rows.check(&line, line.contains("\"GET /\": the application \"app\" at 127.0.0.1:"), true);
    b.live();
    rows.check("the least bad one is tried", wait_until(TIMEOUT, || by(&server.get("/")) == "b"), true);
}

#[test]
fn sends_a_request_to_so_many_further_endpoints() {
    let close = || Endpoint::with(|_| String::new());
    for (retries, expected) in [(0, "502"), (1, "502"), (2, "c"), (8, "c")] {
        let (a, b, c) = (close(), close(), Endpoint::start("c"));
        // The first in turn are those with the greater weights.
        let settings = format!(
            "balance = \"round_robin\"\nweights = [3, 2, 1]\nretries = {retries}\n\
             [application.health]\nfailures = 0"
        );
        let server = start(&[&a, &b, &c], 1, &settings);
        assert_eq!(by(&server.get("/")), expected, "{retries}");
        assert_eq!(a.requests() + b.requests(), (retries + 1).min(2), "{retries}");
        // It may have been processed.
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
        let before = a.requests() + b.requests() + c.requests();
        server.request(post);
        assert_eq!(a.requests() + b.requests() + c.requests(), before + 1, "{retries}");
    }
}

#[test]
fn a_request_of_which_nothing_was_sent_goes_to_another_endpoint_whatever_its_method() {
    let a = Endpoint::start("a");
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\n\
         protocol = \"http\"\naddress = [\"127.0.0.1:1\", \"{}\"]\nbalance = \"round_robin\"\n\
         [application.health]\nfailures = 0\n",
        a.address
    );
    let server = Site::new().config(&config).start();
    for _ in 0..6 {
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(by(&server.request(post)), "a");
    }
    assert_eq!(a.requests(), 6);
}

/// An application that ends each request by FastCGI with this status, and `output`.
fn fastcgi(status: u8, output: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let serve = move |mut stream: TcpStream| -> io::Result<()> {
        loop {
            let mut head = [0; 8];
            stream.read_exact(&mut head)?;
            let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
            stream.read_exact(&mut vec![0; length + usize::from(head[6])])?;
            let record = |kind: u8, content: &[u8]| {
                [&[1, kind, head[2], head[3], 0, content.len() as u8, 0, 0], content].concat()
            };
            // The end of the request's body.
            if head[1] == 5 && length == 0 {
                let end = record(3, &[0, 0, 0, 0, status, 0, 0, 0]);
                stream.write_all(&[record(6, output), end].concat())?;
            }
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("it listens");
            thread::spawn(move || serve(stream));
        }
    });
    address
}

#[test]
fn a_request_that_an_overloaded_application_rejects_goes_to_another_one_whatever_its_method() {
    const OVERLOADED: u8 = 2;
    let (overloaded, other) = (fastcgi(OVERLOADED, b""), fastcgi(0, b"X-By: other\r\n\r\n"));
    let mut rows = Rows::new();
    for method in ["GET", "POST"] {
        let config = format!(
            "workers = 1\n[[route]]\npath = \"/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\n\
             address = [\"{overloaded}\", \"{other}\"]\nbalance = \"round_robin\"\n"
        );
        let server = Site::new().config(&config).start();
        for number in 1..=4 {
            let request = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            let response = server.request(request);
            rows.check(format!("{method} {number}"), (response.status, by(&response)), (200, "other".into()));
        }
    }
}

#[test]
fn checks_take_an_endpoint_out_of_service_and_back() {
    let is_healthy = Arc::new(AtomicBool::new(true));
    let health = is_healthy.clone();
    let a = Endpoint::with(move |path| {
        let is_bad = path == "/health" && !health.load(Ordering::SeqCst);
        let status = if is_bad { "500 Internal Server Error" } else { "200 OK" };
        // The first one is not the response.
        let hints = if path == "/health" { "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" } else { "" };
        format!("{hints}HTTP/1.1 {status}\r\nX-By: a\r\nContent-Length: 0\r\n\r\n")
    });
    let b = Endpoint::start("b");
    let server = start(
        &[&a, &b],
        2,
        "balance = \"round_robin\"\n[application.health]\npath = \"/health\"\ninterval = \"100ms\"\nrise = 2\nfall = 2",
    );
    let uses_a = || shares(&server, 8, |_| String::new()).contains_key("a");
    for _ in 0..3 {
        assert!(wait_until(TIMEOUT, uses_a));
        is_healthy.store(false, Ordering::SeqCst);
        assert!(wait_until(TIMEOUT, || !uses_a()));
        assert!(!uses_a(), "it stays out of service");
        is_healthy.store(true, Ordering::SeqCst);
    }
    assert!(wait_until(TIMEOUT, uses_a));
    // One that does not accept connections at all.
    a.die();
    assert!(wait_until(Duration::from_secs(5), || !uses_a()));
}

#[test]
fn a_request_waits_for_an_endpoint_that_is_up_rather_than_go_to_one_that_is_down() {
    for balance in ["least", "round_robin", "sticky"] {
        let gate = Gate::default();
        let a = Endpoint::gated("a", &gate);
        let b = Endpoint::with(|path| {
            let status = if path == "/health" { "500 Internal Server Error" } else { "200 OK" };
            format!("HTTP/1.1 {status}\r\nX-By: b\r\nContent-Length: 0\r\n\r\n")
        });
        let settings = format!(
            "connections = 1\nbalance = \"{balance}\"\n[application.health]\npath = \"/health\"\ninterval = \"10s\""
        );
        let server = start(&[&a, &b], 1, &settings);
        let is_down = || server.stderr().contains("is down: health check: status 500");
        assert!(wait_until(TIMEOUT, is_down), "{balance}");
        thread::scope(|scope| {
            let requests: Vec<_> = (0..4).map(|_| scope.spawn(|| by(&server.get("/slow")))).collect();
            let all_are_there = wait_until(TIMEOUT, || server.count("active") == 4);
            gate.open();
            let found: Vec<String> =
                requests.into_iter().map(|request| request.join().expect("it ends")).collect();
            assert!(all_are_there && found == ["a"; 4], "{balance}: {found:?}");
        });
    }
}

/// A command about the running server: whether it succeeded, and what it printed.
fn command(server: &Server, arguments: &[&str]) -> (bool, String) {
    let output = server.run_command(arguments);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

#[test]
fn a_drained_endpoint_gets_no_requests_until_it_is_put_back() {
    let [a, b] = ["a", "b"].map(Endpoint::start);
    let server = start(&[&a, &b], 2, "balance = \"round_robin\"");
    assert_eq!(shares(&server, 8, |_| String::new()).len(), 2);
    let address = a.address.to_string();
    let (is_done, text) = command(&server, &["drain", "app", &address]);
    assert!(is_done && text.contains("gets no more requests"), "{text}");
    let has_a = || shares(&server, 8, |_| String::new()).contains_key("a");
    assert!(wait_until(TIMEOUT, || !has_a()));
    let before = a.requests();
    shares(&server, 40, |_| String::new());
    assert_eq!(a.requests(), before);
    let (_, stats) = command(&server, &["stats"]);
    assert!(stats.contains(&format!("app {address}: draining for 0 s, 0 in flight, ")), "{stats}");
    let (is_done, text) = command(&server, &["undrain", "app", &address]);
    assert!(is_done && text.contains("gets requests again"), "{text}");
    assert!(wait_until(TIMEOUT, has_a));
    for (arguments, expected) in [
        (["drain", "other", &*address], "there is no application \"other\""),
        (["drain", "app", "10.0.0.1:80"], "has no endpoint \"10.0.0.1:80\", but 127.0.0.1:"),
    ] {
        let (is_done, text) = command(&server, &arguments);
        assert!(!is_done && text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn the_statistics_say_what_has_become_of_an_endpoint() {
    let [a, b] = ["a", "b"].map(Endpoint::start);
    let settings = "balance = \"round_robin\"\n[application.health]\nfailure_status = \"503\"\npause = \"1m\"\nfailures = 2";
    let server = start(&[&a, &b], 1, settings);
    // Two of each.
    let found: Vec<String> = (0..4).map(|_| by(&server.get("/unhealthy"))).collect();
    assert_eq!(found, ["503"; 4]);
    let is_down = || command(&server, &["stats"]).1.matches(": down for ").count() == 2;
    assert!(wait_until(TIMEOUT, is_down));
    let (_, stats) = command(&server, &["stats"]);
    for endpoint in [&a, &b] {
        let lines = stats.lines().filter(|line| line.contains(&endpoint.address.to_string()));
        let line: String = lines.collect();
        assert!(line.ends_with(" 0 in flight, 2 requests, 2 failures, the last: status 503"), "{line}");
    }
    let (_, json) = command(&server, &["stats", "--json"]);
    assert!(json.contains("\"state\":\"down\"") && json.contains("\"reason\":\"status 503\""), "{json}");
    // The least bad one is tried all the same.
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn the_statistics_say_why_the_last_check_of_an_endpoint_has_failed() {
    let status = Arc::new(Mutex::new("404 Not Found"));
    let shown = status.clone();
    let a = Endpoint::with(move |_| {
        let status = *shown.lock().expect("it does not panic");
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
    });
    let server = start(&[&a], 1, "[application.health]\npath = \"/health\"\ninterval = \"100ms\"");
    for (status_line, reason) in [("404 Not Found", "404"), ("500 Failed", "500"), ("503 Full", "503")] {
        *status.lock().expect("it does not panic") = status_line;
        let end = format!(" failures, the last: health check: status {reason}");
        let says_so = || command(&server, &["stats"]).1.lines().any(|line| line.ends_with(&end));
        assert!(wait_until(TIMEOUT, says_so), "{}", command(&server, &["stats"]).1);
    }
}

#[test]
fn a_reload_adds_and_removes_endpoints_without_a_lost_request() {
    let [a, b, c] = ["a", "b", "c"].map(Endpoint::start);
    let config = |endpoints: &[&Endpoint]| {
        let addresses: Vec<String> = endpoints.iter().map(|one| format!("\"{}\"", one.address)).collect();
        format!(
            "workers = 2\n[[route]]\npath = \"/\"\napplication = \"app\"\n\
             [[application]]\nname = \"app\"\nprotocol = \"http\"\nbalance = \"round_robin\"\naddress = [{}]\n",
            addresses.join(", ")
        )
    };
    let server = Site::new().config(&config(&[&a, &b])).start();
    let is_over = Arc::new(AtomicBool::new(false));
    let address = server.addr();
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let is_over = is_over.clone();
            thread::spawn(move || {
                let (mut count, mut others) = (0, Vec::new());
                while !is_over.load(Ordering::SeqCst) {
                    let mut client = e2e::Client::tcp(address);
                    match client.get("/").status {
                        200 => count += 1,
                        status => others.push(status),
                    }
                }
                (count, others)
            })
        })
        .collect();
    for endpoints in [&[&a, &b, &c][..], &[&c], &[&b, &c], &[&a]] {
        let before = endpoints.iter().map(|one| one.requests()).collect::<Vec<_>>();
        server.configure(&config(endpoints));
        server.reload();
        let all_serve = || endpoints.iter().zip(&before).all(|(one, before)| one.requests() > before + 4);
        assert!(wait_until(TIMEOUT, all_serve));
    }
    is_over.store(true, Ordering::SeqCst);
    for client in clients {
        let (count, others) = client.join().expect("no panic");
        assert!(count > 0 && others.is_empty(), "{count}, then {others:?}");
    }
}

/// Of the worst worker.
fn breaker_state(server: &Server) -> String {
    server.stats()["breakers"][0]["state"].as_str().expect("a state").to_owned()
}

const BREAKER: &str = "[application.health]\nfailures = 0\nfailure_status = \"503\"\n[application.breaker]\nrequests = 4\n\
                       probes = 1\n";

#[test]
fn a_breaker_rejects_at_once_and_closes_after_a_request_that_succeeds() {
    let a = Endpoint::start("a");
    let server = start(&[&a], 1, &format!("{BREAKER}pause = \"2s\""));
    assert_eq!(breaker_state(&server), "closed");
    // Half of four.
    for path in ["/", "/unhealthy", "/", "/unhealthy"] {
        assert_eq!(breaker_state(&server), "closed");
        assert_eq!(server.get(path).field("x-by"), Some("a"), "{path}");
    }
    let rejected = server.get("/");
    assert_eq!((rejected.status, rejected.field("x-by")), (503, None));
    let seconds: u64 = rejected.field("retry-after").expect("when").parse().expect("seconds");
    assert!((1..=2).contains(&seconds), "{seconds}");
    assert_eq!((breaker_state(&server).as_str(), a.requests()), ("open", 4));
    let line = "worker 0: the circuit breaker of the application \"app\" is open for 2 s: 2 of 4";
    server.wait_for_line(line, TIMEOUT);
    assert_eq!((server.count("breakers_opened"), server.count("breakers_rejected")), (1, 1));
    assert!(wait_until(TIMEOUT, || breaker_state(&server) == "half-open"));
    assert_eq!(server.get("/").status, 200);
    server.wait_for_line("worker 0: the circuit breaker of the application \"app\" is closed again", TIMEOUT);
    assert_eq!(breaker_state(&server), "closed");
    let (_, text) = command(&server, &["stats"]);
    assert!(text.contains("app: the circuit breaker is closed"), "{text}");
}

#[test]
fn a_route_with_urls_has_checks_and_a_breaker_of_its_own() {
    let [a, b] = ["a", "b"].map(Endpoint::start);
    let urls = format!("[\"http://{}\", \"http://{}\"]", a.address, b.address);
    let health = "[route.proxy_health]\nfailures = 0\nfailure_status = \"503\"\n";
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/\"\nproxy = {urls}\n{health}[route.proxy_breaker]\nrequests = 2\n\
         pause = \"1h\"\nlongest_pause = \"1h\"\n[[route]]\npath = \"/other/\"\nproxy = {urls}\n"
    );
    let server = Site::new().config(&config).start();
    for _ in 0..2 {
        assert_eq!(server.get("/unhealthy").status, 503);
    }
    let rejected = server.get("/");
    assert_eq!((rejected.status, rejected.field("x-by")), (503, None));
    assert!(rejected.has("retry-after"));
    let line =
        format!("the circuit breaker of the upstream http://{}, http://{} is open", a.address, b.address);
    server.wait_for_line(&line, TIMEOUT);
    assert_eq!(server.get("/other/").status, 200, "another breaker, or none");
    // Checks, too.
    let config = format!(
        "workers = 1\n[[route]]\npath = \"/\"\nproxy = {urls}\nproxy_balance = \"round_robin\"\n\
         [route.proxy_health]\npath = \"/unhealthy\"\ninterval = \"100ms\"\nfall = 1\n"
    );
    let server = Site::new().config(&config).start();
    let are_down = || {
        let endpoints = server.stats()["endpoints"].clone();
        endpoints.as_array().is_some_and(|all| all.iter().all(|endpoint| endpoint["state"] == "down"))
    };
    assert!(wait_until(TIMEOUT, are_down));
}

#[test]
fn a_breaker_opens_for_longer_when_its_probe_fails() {
    let a = Endpoint::start("a");
    let server = start(&[&a], 1, &format!("{BREAKER}pause = \"100ms\"\nlongest_pause = \"1h\""));
    a.die();
    for _ in 0..4 {
        assert_eq!(server.get("/").status, 502);
    }
    server.wait_for_line("is open for 0.1 s: 4 of 4 requests have failed", TIMEOUT);
    for pause in ["0.2", "0.4", "0.8"] {
        assert!(wait_until(TIMEOUT, || server.get("/").status == 502), "a probe is let through");
        server.wait_for_line(&format!("is open for {pause} s: 1 of 1"), TIMEOUT);
    }
    a.live();
    assert!(wait_until(TIMEOUT, || server.get("/").status == 200));
    assert_eq!(breaker_state(&server), "closed");
}

#[test]
fn a_client_that_breaks_off_its_body_does_not_open_a_breaker_nor_harm_an_endpoint() {
    let [a, b] = ["a", "b"].map(Endpoint::start);
    let settings = "balance = \"round_robin\"\n[application.breaker]\nrequests = 1\nfailure_rate = 1\n";
    let server = start(&[&a, &b], 1, settings);
    for _ in 0..40 {
        let mut client = TcpStream::connect(server.addr()).expect("it listens");
        client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").expect("sent");
        client.shutdown(Shutdown::Write).expect("connected");
        // What the server says of it does not matter here.
        _ = client.read_to_end(&mut Vec::new());
    }
    let stats = server.stats();
    assert_eq!(breaker_state(&server), "closed", "{stats}");
    for endpoint in stats["endpoints"].as_array().expect("endpoints") {
        assert_eq!((&endpoint["state"], &endpoint["failures"]), (&"up".into(), &0.into()), "{stats}");
    }
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn requests_for_which_the_queue_is_full_do_not_open_a_breaker() {
    let gate = Gate::default();
    let slow = Endpoint::gated("slow", &gate);
    let settings = "connections = 1\nqueue = 0\n[application.breaker]\nrequests = 1\nfailure_rate = 1\n";
    let server = start(&[&slow], 1, settings);
    thread::scope(|scope| {
        let running = scope.spawn(|| server.get("/slow").status);
        assert!(wait_until(TIMEOUT, || slow.requests() == 1));
        for _ in 0..4 {
            assert_eq!(server.get("/").status, 503);
        }
        assert_eq!(breaker_state(&server), "closed");
        gate.open();
        assert_eq!(running.join().expect("no panic"), 200);
    });
    assert_eq!((server.get("/").status, server.count("breakers_rejected")), (200, 0));
}

#[test]
fn a_breaker_that_cannot_be_is_refused() {
    let a = Endpoint::start("a");
    for (key, what) in [
        ("failure_rate = 0", "failure_rate"),
        ("failure_rate = 101", "failure_rate"),
        ("requests = 0", "requests"),
        ("probes = 0", "probes"),
        ("pause = \"1ms\"", "pause"),
        ("window = \"1ms\"", "window"),
        ("status = \"500\"", "status"),
    ] {
        let server = start(&[&a], 1, "");
        let config = server.home().join("site.toml");
        let text = std::fs::read_to_string(&config).expect("a site");
        std::fs::write(&config, format!("{text}[application.breaker]\n{key}\n")).expect("written");
        let error = server.reload_error();
        assert!(error.contains(what), "{key}: {error}");
    }
}

/// Sends the first `N` bytes of a response to `/N`, and closes the connection.
fn dying(response: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.expect("it listens"));
            let mut lines = Vec::new();
            while lines.last().is_none_or(|line| line != "\r\n") {
                let mut line = String::new();
                // A connection without a request has no line.
                if reader.read_line(&mut line).is_ok_and(|bytes| bytes == 0) {
                    break;
                }
                lines.push(line);
            }
            let path = lines.first().and_then(|line| line.split(' ').nth(1));
            let length = path.and_then(|path| path.strip_prefix('/')).and_then(|path| path.parse().ok());
            let part = &response[..length.unwrap_or(0)];
            _ = reader.get_mut().write_all(part);
        }
    });
    address
}

/// What was sent of a body by its framing, and whether that is all of it.
fn unframed(head: &str, body: &[u8]) -> (Vec<u8>, bool) {
    if let Some((_, rest)) = head.split_once("Content-Length: ") {
        let length: usize = rest.split("\r\n").next().and_then(|value| value.parse().ok()).expect("a number");
        return (body.to_vec(), body.len() == length);
    }
    let (mut content, mut rest) = (Vec::new(), body);
    loop {
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return (content, false) };
        let length =
            std::str::from_utf8(&rest[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let (length, data) = (length.expect("a size"), &rest[end + 2..]);
        if length == 0 {
            return (content, data == b"\r\n");
        }
        content.extend_from_slice(&data[..length.min(data.len())]);
        match data.get(length..length + 2) {
            Some(b"\r\n") => rest = &data[length + 2..],
            _ => return (content, false),
        }
    }
}

#[test]
fn an_endpoint_that_dies_at_any_byte_gives_no_wrong_byte() {
    const SIZED: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\nConnection: close\r\n\r\n0123456789";
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\
                             Connection: close\r\n\r\n4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n";
    let mut rows = Rows::new();
    for (name, response) in [("sized", SIZED), ("chunked", CHUNKED)] {
        let bad = dying(response);
        let good = Endpoint::with(|_| String::from_utf8_lossy(SIZED).replace("Connection: close\r\n", ""));
        let settings = "balance = \"round_robin\"\n[application.health]\nfailures = 0";
        let server = start_at(&[bad, good.address], 1, settings);
        let (mut whole, mut cut) = (0, 0);
        // Both endpoints have each path.
        for number in 0..2 * response.len() {
            let row = format!("{name}, {} bytes", number / 2);
            let mut client = TcpStream::connect(server.addr()).expect("it listens");
            let request = format!("GET /{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", number / 2);
            client.write_all(request.as_bytes()).expect("sent");
            let mut received = Vec::new();
            // A reset is an end that can be seen.
            let is_reset = client.read_to_end(&mut received).is_err();
            let end = received.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
            let head = String::from_utf8_lossy(&received[..end]).into_owned();
            if head.starts_with("HTTP/1.1 502 ") {
                continue;
            }
            rows.holds(&row, "200", head.starts_with("HTTP/1.1 200 "));
            let (content, is_whole) = unframed(&head, &received[end..]);
            rows.holds(&row, "no wrong byte", b"0123456789".starts_with(&content[..]));
            if is_whole {
                rows.check(&row, content.len(), 10);
                rows.holds(&row, "no reset", !is_reset);
                whole += 1;
            } else {
                cut += 1;
            }
        }
        rows.holds(name, "half of them at least are whole", whole >= response.len());
        rows.holds(name, "some are cut", cut > 0);
    }
}

#[test]
fn the_death_of_one_of_two_real_servers_fails_no_get() {
    const PROGRAM: &str = "import http.server, sys\n\
        class H(http.server.BaseHTTPRequestHandler):\n    \
            protocol_version = 'HTTP/1.1'\n    \
            def do_GET(self):\n        \
                self.send_response(200)\n        \
                self.send_header('X-By', sys.argv[1])\n        \
                self.send_header('Content-Length', '5')\n        \
                self.end_headers()\n        \
                self.wfile.write(b'whole')\n    \
            def log_message(self, *a): pass\n\
        s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)\n\
        print(s.server_address[1], flush=True)\n\
        s.serve_forever()\n";
    let mut servers = ["a", "b"].map(|name| {
        let mut command = Command::new(path_of("python3"));
        let mut server =
            command.args(["-c", PROGRAM, name]).stdout(Stdio::piped()).spawn().expect("python starts");
        let mut line = String::new();
        BufReader::new(server.stdout.take().expect("piped")).read_line(&mut line).expect("its port");
        (server, line.trim().parse::<u16>().expect("a port"))
    });
    let addresses = [0, 1].map(|at| SocketAddr::from(([127, 0, 0, 1], servers[at].1)));
    let server = start_at(&addresses, 2, "balance = \"round_robin\"");
    let (answered, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let answers = thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut answers = Vec::new();
                    while !is_over.load(Ordering::SeqCst) {
                        let response = server.get("/");
                        answers.push((by(&response), response.body));
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                    answers
                })
            })
            .collect();
        let wait_for = |count| wait_until(TIMEOUT, || answered.load(Ordering::SeqCst) >= count);
        let before = wait_for(100);
        servers[0].0.kill().expect("it runs");
        let after = wait_for(answered.load(Ordering::SeqCst) + 100);
        is_over.store(true, Ordering::SeqCst);
        assert!(before && after, "too few requests in time");
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect::<Vec<_>>()
    });
    for (server, _) in &mut servers {
        _ = server.kill();
        server.wait().expect("it has ended");
    }
    for name in ["a", "b"] {
        assert!(answers.iter().any(|(by, _)| by == name), "{name} had requests");
    }
    let bad: Vec<_> = answers
        .iter()
        .filter(|(by, body)| !matches!(by.as_str(), "a" | "b") || body.as_slice() != b"whole")
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn curl_stays_at_its_endpoint_with_a_cookie_jar() {
    let [a, b, c] = ["a", "b", "c"].map(Endpoint::start);
    let server = start(&[&a, &b, &c], 2, "balance = \"sticky\"");
    let jar = server.home().join("jar");
    let get = |with_jar: bool| {
        let mut curl = tool("curl");
        curl.args(["--silent", "--show-error", "--output", "/dev/null", "--write-out", "%header{x-by}"]);
        if with_jar {
            curl.arg("--cookie").arg(&jar).arg("--cookie-jar").arg(&jar);
        }
        let output = curl.arg(server.url("/")).output().expect("curl starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let first = get(true);
    for _ in 0..8 {
        assert_eq!(get(true), first);
    }
    assert!((0..20).any(|_| get(false) != first), "without the cookie, others have requests");
    let own = [&a, &b, &c].into_iter().zip(["a", "b", "c"]).find(|(_, name)| first == *name);
    own.expect("one of them").0.die();
    let second = get(true);
    assert!(second != first && !second.is_empty(), "{second}");
    assert_eq!(get(true), second, "the jar has the cookie of the new one");
}

#[test]
fn takes_any_open_connection_when_the_process_that_manages_them_is_killed() {
    let mut rows = Rows::new();
    for balance in ["least", "round_robin", "random", "hash path", "sticky"] {
        let endpoints = [Endpoint::start("a"), Endpoint::start("b")];
        let server = start(&endpoints.each_ref(), 1, &format!("balance = \"{balance}\""));
        let mut client = server.connect();
        let first = by(&client.get("/"));
        // A master that is stopped replaces nothing.
        stop_process(server.pid());
        let pool = server.children()[0];
        signal_process(pool, Signal::KILL);
        assert!(wait_until(TIMEOUT, || !runs(pool)), "process {pool} still runs");
        for number in 0..8 {
            rows.check(format!("{balance} {number}"), by(&client.get(&format!("/{number}"))), first.clone());
        }
        server.signal(Signal::CONT);
    }
}
