//! Applications that the server starts itself: the number and the start of their processes, what each process
//! gets, and requests while processes start and end.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use e2e::{
    Authority, Client, Clients, Page, Persistence, ReadError, Response, Rows, Server, Signal, Site, TIMEOUT,
    Tls, children_of, has_open, is_root, parent_of, path_of, runs, signal_process, tool, wait_until,
};

const APP: &str = include_str!("programs/app.py");
const HTTP_APP: &str = include_str!("programs/http_app.py");
const WRAPPER: &str = include_str!("../../../contrib/python/taipan.py");
/// The status of a response with `Retry-After`.
const RETRY_LATER: (u16, bool) = (503, true);

/// Everything below `/app/` goes to the program `app.py` with the arguments `words`; `top` is added to the
/// top level, and `settings` to the application.
fn config(home: &Path, words: &str, top: &str, settings: &str) -> String {
    let home = home.display();
    let words: String = words.split_whitespace().map(|word| format!(", \"{word}\"")).collect();
    format!(
        "workers = 2\n{top}\n[[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         [[application]]\nname = \"app\"\nfolder = \"{home}\"\n\
         command = [\"{}\", \"-B\", \"{home}/app.py\"{words}]\n{settings}\n",
        path_of("python3")
    )
}

fn site(words: &str, settings: &str) -> Site {
    site_with("", words, settings)
}

fn site_with(top: &str, words: &str, settings: &str) -> Site {
    let site = Site::new()
        .file("static", "still here")
        .file_beside_root("app.py", APP)
        .file_beside_root("taipan.py", WRAPPER);
    // So that tests work without root, too.
    fs::set_permissions(site.home(), Permissions::from_mode(0o777)).expect("it is our folder");
    let config = config(site.home(), words, top, settings);
    site.config(&config)
}

fn start(settings: &str) -> Server {
    site("", settings).start()
}

#[test]
fn a_pool_that_a_reload_keeps_writes_to_the_error_log_of_the_new_configuration() {
    const FILE: &str = "[log]\nerror = \"logs/error.log\"\n";
    let site = site("", "").file_beside_root("logs/x", "");
    fs::set_permissions(site.home(), Permissions::from_mode(0o755)).expect("it is our folder");
    let server = site.start();
    let log = server.home().join("logs/error.log");
    let text = || fs::read_to_string(&log).unwrap_or_default();
    let pool = server.children()[0];
    let end = || {
        let ended = pid(&server);
        signal_process(ended, Signal::KILL);
        format!("process {ended} has ended")
    };
    server.configure(&config(server.home(), "", FILE, ""));
    server.reload();
    let line = end();
    assert!(wait_until(TIMEOUT, || text().contains(&line)), "{}", server.stderr());
    server.configure(&config(server.home(), "", "", ""));
    server.reload();
    server.wait_for_line(&end(), TIMEOUT);
    assert!(server.children().contains(&pool), "it is the same one");
}

#[test]
fn a_pool_that_reads_no_commands_gets_the_reopened_log_later() {
    let site = site_with("[log]\nerror = \"logs/error.log\"\n", "", "").file_beside_root("logs/x", "");
    fs::set_permissions(site.home(), Permissions::from_mode(0o755)).expect("it is our folder");
    let server = site.start();
    pid(&server);
    let pool = server.children()[0];
    let log = server.home().join("logs/error.log");
    let text = || fs::read_to_string(&log).unwrap_or_default();
    signal_process(pool, Signal::STOP);
    // Until its channel is full.
    let is_reported = || {
        server.signal(Signal::USR1);
        text().contains("the process that manages the application \"app\" still writes its messages")
    };
    assert!(wait_until(3 * TIMEOUT, is_reported), "{}", text());
    assert!(text().contains("it reads no commands; it is tried again"), "{}", text());
    fs::rename(&log, server.home().join("logs/old.log")).expect("it is our folder");
    assert_eq!(server.run_command(&["reopen"]).status.code(), Some(0));
    // The client of a command learns it at once.
    let drained = server.run_command(&["drain", "app", "x"]);
    let why = String::from_utf8_lossy(&drained.stderr).into_owned();
    assert!(why.contains("does not take the command") && why.contains("try again"), "{drained:?}");
    signal_process(pool, Signal::CONT);
    assert!(wait_until(TIMEOUT, || has_open(pool, &log)), "it has the old one");
}

/// The number of the process that responds. Panics without a response.
fn pid(server: &Server) -> u32 {
    number(&server.get("/app/pid"))
}

fn number(response: &Response) -> u32 {
    assert_eq!(response.status, 200, "{response}");
    response.text().parse().expect("it responds with its number")
}

/// The numbers of all processes that were started, and the times of their starts in seconds.
fn starts(server: &Server) -> Vec<(u32, f64)> {
    let text = fs::read_to_string(server.home().join("starts")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(pid, time)| (pid.parse().expect("a number"), time.parse().expect("a time"))).collect()
}

/// Those processes that still run.
fn alive(server: &Server) -> Vec<u32> {
    starts(server).into_iter().map(|(pid, _)| pid).filter(|pid| runs(*pid)).collect()
}

#[track_caller]
fn wait_for(server: &Server, what: &str, holds: impl FnMut() -> bool) {
    assert!(
        wait_until(TIMEOUT, holds),
        "{what}: not in time; of {:?} run {:?}",
        starts(server),
        alive(server)
    );
}

/// Sends a request that is answered once the file `go` exists; returns when it has begun.
fn begin(server: &Server, name: &str) -> Client {
    let client = request(server, &format!("wait?{name}"));
    wait_for(server, name, || began(server, name).is_some());
    client
}

/// The process that handles a request that was begun.
fn began(server: &Server, name: &str) -> Option<u32> {
    fs::read_to_string(server.home().join(format!("began-{name}"))).ok()?.parse().ok()
}

fn request(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("GET /app/{path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client
}

fn go(server: &Server) {
    server.files().file("go", "");
}

fn status_and_whether_to_retry(response: &Response) -> (u16, bool) {
    (response.status, response.has("retry-after"))
}

#[test]
fn wrappers_respond_like_the_same_programs_by_cgi() {
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    let read = |name: &str| fs::read(contrib.join(name)).expect("it is there");
    let site = Site::new()
        .script("hello.py", read("python/hello.py"))
        .file("taipan.py", WRAPPER)
        .script("hello.pl", read("perl/hello.pl"))
        .file("Taipan.pm", read("perl/Taipan.pm"));
    let root = site.root();
    let compiled =
        tool("cc").arg("-o").arg(root.join("hello.c")).arg(contrib.join("c/hello.c")).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let names = ["c", "py", "pl"];
    let sections = names.map(|name| {
        format!(
            "[[route]]\npath = \"/{name}/\"\napplication = \"{name}\"\n[[route]]\npath = \"/hello.{name}\"\ncgi = true\n\
             [[application]]\nname = \"{name}\"\nprocesses = 1\ncommand = \"{}/hello.{name}\"\n\
             env = {{ PATH = \"/usr/bin:/bin\", PYTHONDONTWRITEBYTECODE = \"1\" }}\n",
            root.display()
        )
    });
    let server = site.config(&sections.concat()).start();
    let mut rows = Rows::new();
    for name in names {
        let mut client = server.connect();
        let by_cgi = client.get(&format!("/hello.{name}?a=b"));
        rows.check(name, by_cgi.text().as_str(), "Hello!\nThis is request 1, with the query \"a=b\".\n");
        let first = client.get(&format!("/{name}/?a=b"));
        rows.check(name, (first.status, first.text()), (by_cgi.status, by_cgi.text()));
        // The framing depends on timing.
        let fields = |of: &Response| of.fields_but(&["date", "content-length", "transfer-encoding"]);
        rows.check(name, fields(&first), fields(&by_cgi));
        let second = client.get(&format!("/{name}/?c"));
        rows.check(name, second.text().as_str(), "Hello!\nThis is request 2, with the query \"c\".\n");
    }
}

#[test]
fn passes_the_variables_of_a_script_to_an_application() {
    let program = format!("#!{} -B\n{APP}", path_of("python3"));
    let site = Site::new().script("run.py", program).file("taipan.py", WRAPPER);
    let site = site.file("a b/x.one", "").file("a b/x.two", "").file("static", "still here");
    let run = site.root().join("run.py").display().to_string();
    let server = site
        .config(&format!(
            "env = {{ OWN = \"of the site\" }}\n\
             [[route]]\npath = \"*.one\"\ninterpreter = \"{run}\"\nenv = {{ MORE = \"of the route\" }}\n\
             [[route]]\npath = \"*.two\"\ninterpreter = \"app\"\nenv = {{ MORE = \"of the route\" }}\n\
             [[application]]\nname = \"app\"\ncommand = \"{run}\"\n"
        ))
        .start();
    let variables = |name: &str| {
        let mut client = server.connect();
        let response = client.request(format!(
            "POST /a%20b/x.{name}/variables?q=%20&r HTTP/1.1\r\nHost: www.example:81\r\nContent-Type: text/x\r\n\
             Content-Length: 4\r\nX-A: b\r\nX-A: c\r\nX_B: no\r\nProxy: no\r\nCookie: d=e\r\n\r\nbody"
        ));
        assert_eq!(response.status, 200, "{response}");
        let all = response.text().replace(&format!("x.{name}"), "x.NAME");
        // Each request has its own connection.
        let lines = all.lines().filter(|line| !line.starts_with("REMOTE_PORT="));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (by_cgi, by_application) = (variables("one"), variables("two"));
    assert_eq!(by_application, by_cgi);
    for expected in ["PATH_INFO=/variables", "SCRIPT_NAME=/a b/x.NAME", "MORE=of the route", "HTTP_X_A=b, c"]
    {
        assert!(by_application.iter().any(|line| line == expected), "{expected}: {by_application:?}");
    }
    let mut rows = Rows::new();
    for (path, status) in [("/a%20b/x.two/pid", 200), ("/a%20b/none.two", 404), ("/static/x.two", 404)] {
        rows.check(path, server.get(path).status, status);
    }
}

/// By a connection to the application that is new, and by one that was kept.
#[test]
fn an_application_knows_what_the_handshake_has_established() {
    let listen = "listen = \"127.0.0.1:0 tls\"\ncertificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n\
                  client_certificates = \"optional\"\nclient_ca = \"clients.pem\"\n";
    let clients = Authority::new("the clients");
    let site = site_with(listen, "", "processes = 1").certificate();
    let server = site.file_beside_root("clients.pem", clients.pem()).start();
    let alice = Tls::with_certificate(&clients.client("Alice"));
    let mut rows = Rows::new();
    for (tls, verified) in
        [(Tls::new(), "NONE"), (Tls::new(), "NONE"), (alice, "SUCCESS"), (Tls::new(), "NONE")]
    {
        let request = "GET /app/variables HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let said = Client::tls(server.tcp(0), &tls).request(request).text();
        let value = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        let found = (value("HTTPS="), value("SSL_PROTOCOL="), value("SSL_CLIENT_VERIFY="));
        rows.check(verified, found, ("on", "TLSv1.3", verified));
    }
}

#[test]
fn reads_application_output_like_script_output() {
    let server = site("", "")
        .file_beside_root("private/a", "a private file")
        .config("[scripts]\nsendfile = [\"private\"]")
        .start();
    let private = server.home().join("private/a").display().to_string();
    let mut rows = Rows::new();
    let sent = format!("/app/sent?{private}");
    for (path, status, text) in [
        ("/app/missing", 404, "not there"),
        ("/app/within", 200, "still here"),
        (&sent, 200, "a private file"),
        ("/app/away", 302, ""),
    ] {
        let response = server.get(path);
        rows.check(path, response.status, status);
        rows.holds(path, text, response.text().contains(text));
    }
    rows.check("away", server.get("/app/away").field("location"), Some("https://example.org/"));
    let head = server.request("HEAD /app/same HTTP/1.1\r\nHost: a\r\n\r\n");
    rows.check("HEAD", (head.status, head.field("content-length"), head.body.len()), (200, Some("16"), 0));
    for path in ["/app/nothing", "/app/no-head"] {
        rows.check(path, server.get(path).status, 502);
        server.wait_for_line(path, TIMEOUT);
    }
    rows.check("and continues", server.get("/app/same").text().as_str(), "the same for all");
}

#[test]
fn passes_bodies_of_every_framing_completely() {
    let server = site_with("max_body = \"16MiB\"", "", "processes = 1").start();
    let body: Vec<u8> = (0..5u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut client = server.connect();
    let mut rows = Rows::new();
    for len in [0, 1, 65535, 65536, 5 << 20] {
        let head = format!("POST /app/echo HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n");
        let response = client.request([head.as_bytes(), &body[..len]].concat());
        let reported = response.field("x-told").map(str::to_owned);
        rows.check(format!("{len} bytes"), (response.status, reported), (200, Some(len.to_string())));
        rows.holds(format!("{len} bytes"), "they come back", response.body == body[..len]);
    }
    client.send("POST /app/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for piece in body[..1 << 20].chunks(10_000) {
        client.send(format!("{:x}\r\n", piece.len())).send(piece).send("\r\n");
    }
    let response = client.send("0\r\n\r\n").read_response();
    rows.check("chunked", response.field("x-told"), Some("1048576"));
    rows.holds("chunked", "they come back", response.body == body[..1 << 20]);
}

#[test]
fn starts_no_process_before_the_first_request() {
    let server = start("min_processes = 0");
    assert_eq!(server.get("/static").text(), "still here");
    assert_eq!(starts(&server), []);
    let first = pid(&server);
    assert!((0..5).all(|_| pid(&server) == first));
    assert_eq!(starts(&server).len(), 1);
}

#[test]
fn starts_the_minimum_number_of_processes_at_once() {
    let server = start("min_processes = 3\nprocesses = 3");
    wait_for(&server, "three run", || alive(&server).len() == 3);
    assert!(alive(&server).contains(&pid(&server)));
}

#[test]
fn starts_processes_on_demand_up_to_the_maximum() {
    let server = start("min_processes = 0\nprocesses = 3");
    let mut clients: Vec<Client> = Vec::new();
    for name in ["0", "1", "2"] {
        clients.push(begin(&server, name));
        assert_eq!(alive(&server).len(), clients.len());
    }
    clients.extend((3..6).map(|name| request(&server, &format!("wait?{name}"))));
    go(&server);
    let pids: BTreeSet<u32> = clients.iter_mut().map(|client| number(&client.read_response())).collect();
    assert_eq!(pids.len(), 3);
    assert_eq!(starts(&server).len(), 3);
}

#[test]
fn keeps_spare_processes_besides_busy_ones() {
    let server = start("min_processes = 0\nspare_processes = 2\nprocesses = 4");
    let mut clients = Vec::new();
    // One busy and two spare; and so on, up to four.
    for expected in [2, 3, 4, 4, 4] {
        wait_for(&server, &format!("{expected} run"), || alive(&server).len() == expected);
        if clients.len() < 4 {
            clients.push(begin(&server, &clients.len().to_string()));
        }
    }
    go(&server);
    assert!(clients.iter_mut().all(|client| client.read_response().status == 200));
    assert_eq!(starts(&server).len(), 4, "there were never more");
}

#[test]
fn ends_idle_processes_down_to_the_minimum() {
    let server = start("min_processes = 1\nprocesses = 3\nunused = \"200ms\"");
    let mut clients: Vec<Client> = (0..3).map(|name| begin(&server, &name.to_string())).collect();
    go(&server);
    clients.iter_mut().for_each(|client| drop(client.read_response()));
    wait_for(&server, "one is left", || alive(&server).len() == 1);
    assert_eq!(alive(&server), [pid(&server)]);

    let server = start("min_processes = 0\nunused = \"200ms\"");
    pid(&server);
    wait_for(&server, "no process is left", || alive(&server).is_empty());
    wait_for(&server, "no process is shown", || {
        server.stats()["endpoints"].as_array().is_some_and(Vec::is_empty)
    });
    pid(&server);
}

#[test]
fn replaces_a_process_after_its_maximum_of_requests() {
    let server = start("processes = 1\nrequests = 3");
    let mut client = server.connect();
    let answered: Vec<u32> = (0..9).map(|_| number(&client.get("/app/pid"))).collect();
    let of_three: Vec<&[u32]> = answered.chunks(3).collect();
    assert!(of_three.iter().all(|same| same.iter().all(|pid| *pid == same[0])), "{answered:?}");
    assert_eq!(answered.iter().collect::<BTreeSet<_>>().len(), 3, "{answered:?}");
    wait_for(&server, "the earlier processes have ended", || !answered[..6].iter().any(|pid| runs(*pid)));
}

#[test]
fn replaces_a_process_with_too_much_memory_without_failing_a_request() {
    let server = start("processes = 1\nmemory = \"64MiB\"");
    let mut client = server.connect();
    let small = number(&client.get("/app/leak?1"));
    let large = number(&client.get("/app/leak?150"));
    assert_eq!(small, large);
    wait_for(&server, "it has ended", || number(&client.get("/app/pid")) != large && !runs(large));
    // Small processes stay.
    let next = pid(&server);
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(pid(&server), next);
}

/// All clients get the same response, until `enough` is done.
fn under_load(server: &Server, persistence: Persistence, enough: impl FnOnce() + Send) {
    let page = Page { path: "/app/same".into(), contents: vec![Arc::new(b"the same for all".to_vec())] };
    let fields = if persistence == Persistence::Close { "Connection: close\r\n" } else { "" };
    let group =
        Clients { address: server.addr(), persistence, count: 8, pages: vec![page], fields: fields.into() };
    let over = AtomicBool::new(false);
    let (tally, done) = thread::scope(|scope| {
        let group = scope.spawn(|| group.run(|_| over.load(Ordering::Relaxed)));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(enough));
        over.store(true, Ordering::Relaxed);
        (group.join().expect("it does not panic"), done)
    });
    eprintln!("{persistence:?}: {tally}");
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert!(tally.failed() == 0 && tally.responses.keys().eq([&200]), "{tally}\n{}", server.stderr());
}

#[test]
fn replaces_processes_under_load_without_failing_a_request() {
    for persistence in [Persistence::KeepAlive, Persistence::Close] {
        let server = start("processes = 2\nrequests = 20");
        // Starting Python takes a while.
        under_load(&server, persistence, || assert!(wait_until(6 * TIMEOUT, || starts(&server).len() >= 12)));
    }
}

#[test]
fn retries_an_idempotent_request_when_its_process_dies() {
    // The request; the status; how many processes it has cost.
    let table = [
        ("GET", "die-once?a", "", 200, 1),
        ("DELETE", "die-once?a", "", 200, 1),
        ("PUT", "die-once?a", "Content-Length: 0\r\n", 200, 1),
        ("POST", "die-once?a", "Content-Length: 0\r\n", 502, 1),
        ("GET", "die", "", 502, 2),
        ("POST", "die", "Content-Length: 0\r\n", 502, 1),
    ];
    let mut rows = Rows::new();
    for (method, path, fields, status, deaths) in table {
        let row = format!("{method} {path}");
        let server = start("min_processes = 3\nprocesses = 3");
        wait_for(&server, &row, || alive(&server).len() == 3);
        let before = alive(&server);
        let mut client = server.connect();
        let response = client.request(format!("{method} /app/{path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        rows.check(&row, response.status, status);
        let died = || before.iter().filter(|pid| !runs(**pid)).count();
        // A process that has closed its descriptors may still be about to exit.
        wait_for(&server, &row, || died() >= deaths);
        rows.check(&row, died(), deaths);
        rows.check(&row, client.get("/static").text().as_str(), "still here");
        wait_for(&server, &row, || alive(&server).len() == 3);
        rows.check(&row, client.get("/app/same").text().as_str(), "the same for all");
    }
}

#[test]
fn cuts_the_response_when_its_process_dies() {
    let server = start("");
    let mut rows = Rows::new();
    for path in ["half", "short"] {
        let cut = request(&server, path).try_read_response();
        rows.holds(
            path,
            &format!("expected a cut response, found {cut:?}"),
            matches!(cut, Err(ReadError::Closed { after: 1.. })),
        );
        server.wait_for_line(&format!("/app/{path}"), TIMEOUT);
        rows.check(path, server.get("/app/same").text().as_str(), "the same for all");
    }
}

#[test]
fn loses_no_request_when_an_idle_process_is_killed() {
    let server = start("processes = 1");
    let mut rows = Rows::new();
    for method in ["GET", "POST"] {
        let killed = pid(&server);
        signal_process(killed, Signal::KILL);
        wait_for(&server, "it has ended", || !runs(killed));
        let request = format!("{method} /app/pid HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        rows.holds(method, "another process responds", number(&server.request(request)) != killed);
    }
}

#[test]
fn delays_restarts_of_a_crashing_program_until_it_works() {
    let server = site("fails", "wait = \"5s\"").start();
    wait_for(&server, "six starts", || starts(&server).len() >= 6);
    let times: Vec<f64> = starts(&server).iter().map(|(_, time)| *time).collect();
    let pauses: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[4] > 0.5, "it is exponential: {pauses:?}");
    assert_eq!(status_and_whether_to_retry(&server.get("/app/pid")), RETRY_LATER);
    assert_eq!(server.get("/static").text(), "still here");
    let reported = server.wait_for_line("exit status 3", TIMEOUT);
    assert!(reported.contains("\"app\""), "{reported}");
    server.files().file("works", "");
    wait_for(&server, "it works", || server.get("/app/same").status == 200);
}

#[test]
fn reports_a_missing_program() {
    let site = Site::new().file("static", "still here").config(
        "[[route]]\npath = \"/app/\"\napplication = \"app\"\n\
         [[application]]\nname = \"app\"\ncommand = \"/no/such/program\"\nfolder = \"/\"\nwait = \"5s\"\n",
    );
    let output = e2e::run(["check".as_ref(), "-c".as_ref(), site.write_config().as_os_str()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && stderr.contains("/no/such/program"), "{stderr}");
    let server = site.start();
    assert_eq!(status_and_whether_to_retry(&server.get("/app/")), RETRY_LATER);
    server.wait_for_line("/no/such/program", TIMEOUT);
    assert_eq!(server.get("/static").text(), "still here");
}

#[test]
fn kills_a_process_that_accepts_no_connection() {
    let server = site("hangs", "start = \"300ms\"\nprocesses = 1\nwait = \"5s\"").start();
    let response = server.get("/app/pid");
    assert!(matches!(response.status, 502..=504), "{response}");
    server.wait_for_line("has not accepted a connection", TIMEOUT);
    wait_for(&server, "it has ended", || alive(&server).len() <= 1);
    server.files().file("works", "");
    wait_for(&server, "another works", || server.get("/app/same").status == 200);
}

#[test]
fn replaces_a_process_that_does_not_respond_in_time() {
    let settings = "first_byte = \"300ms\"\ngrace = \"200ms\"\nprocesses = 1";
    let server = site("deaf", settings).start();
    let mut rows = Rows::new();
    for method in ["GET", "POST"] {
        let request = format!("{method} /app/hang HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        rows.check(method, server.request(request).status, 504);
        let hanging = began(&server, "hang").expect("a process has the request");
        rows.holds(method, "another process responds", pid(&server) != hanging);
        server.wait_for_line(&format!("process {hanging} has not responded in time"), TIMEOUT);
        wait_for(&server, "it has ended", || !runs(hanging));
    }
}

#[test]
fn a_client_that_uploads_slowly_makes_no_process_one_that_hangs() {
    let server = start("total = \"300ms\"\nprocesses = 1");
    let before = pid(&server);
    let mut client = server.connect();
    client.send("POST /app/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
    assert!(matches!(client.read_response().status, 408 | 504));
    assert_eq!(pid(&server), before, "{}", server.stderr());
    assert!(!server.stderr().contains("has not responded in time"), "{}", server.stderr());
}

#[test]
fn waits_for_a_process_that_starts_slowly() {
    let server = site("hangs", "processes = 1").start();
    let mut client = request(&server, "pid");
    wait_for(&server, "it is started", || starts(&server).len() == 1);
    server.files().file("works", "");
    assert_eq!(number(&client.read_response()), starts(&server)[0].0);
}

#[test]
fn reload_replaces_only_processes_whose_settings_changed() {
    let server = start("");
    let mut rows = Rows::new();
    let mut present = pid(&server);
    // The changed setting; whether the same process still responds.
    for (what, words, top, settings, stays) in [
        ("nothing", "", "", "", true),
        ("the server", "", "headers = { X-New = \"1\" }", "", true),
        ("the environment", "", "", "env = { NEW = \"1\" }", false),
        ("a word of the command", "other", "", "env = { NEW = \"1\" }", false),
        ("the maximum of requests", "other", "", "env = { NEW = \"1\" }\nrequests = 1000", false),
    ] {
        let serving = server.serving_pid();
        server.configure(&config(server.home(), words, top, settings));
        server.reload();
        rows.holds(
            what,
            "another process serves",
            !server.children().is_empty() && server.serving_pid() != serving,
        );
        let next = pid(&server);
        rows.check(what, next == present, stays);
        wait_for(&server, what, || runs(present) == stays && alive(&server) == [next]);
        present = next;
    }
    server.configure("");
    server.reload();
    wait_for(&server, "it has ended with its section", || alive(&server).is_empty());
    assert_eq!(server.get("/app/pid").status, 404);
    server.configure(&config(server.home(), "", "", ""));
    server.signal(Signal::HUP);
    wait_for(&server, "the process is started again", || server.get("/app/pid").status == 200);
}

#[test]
fn reload_lets_the_old_process_finish_its_request() {
    let server = start("env = { VERSION = \"1\" }");
    let mut client = begin(&server, "1");
    let earlier = began(&server, "1").expect("it has begun");
    server.configure(&config(server.home(), "", "", "env = { VERSION = \"2\" }"));
    server.reload();
    let next = pid(&server);
    assert!(next != earlier && runs(earlier));
    go(&server);
    assert_eq!(number(&client.read_response()), earlier);
    wait_for(&server, "it has ended", || alive(&server) == [next]);
}

#[test]
fn reloads_under_load_fail_no_request() {
    let server = start("processes = 2");
    under_load(&server, Persistence::KeepAlive, || {
        for number in 0..10 {
            let settings = format!("processes = 2\nenv = {{ VERSION = \"{}\" }}", number / 2);
            server.configure(&config(server.home(), "", "", &settings));
            server.reload();
            wait_for(&server, "a process has begun", || server.get("/app/same").status == 200);
        }
    });
    wait_for(&server, "none of the earlier processes is left", || alive(&server).len() <= 2);
}

#[test]
fn kills_a_process_that_ignores_sigterm_with_all_its_children() {
    let server = site("deaf child", "grace = \"200ms\"").start();
    let deaf = pid(&server);
    let child = children_of(deaf)[0];
    assert!(runs(deaf) && runs(child));
    server.configure("");
    server.reload();
    wait_for(&server, "both have ended", || !runs(deaf) && !runs(child));
}

#[test]
fn gives_a_process_only_its_socket_folder_and_environment() {
    let first_of = |server: &Server| {
        let response = server.get("/app/own");
        assert_eq!(response.status, 200, "{response}");
        response.text().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut rows = Rows::new();
    let user = rustix::process::geteuid().as_raw().to_string();
    for (settings, environment) in [
        ("", &["PATH=/usr/local/bin:/usr/bin:/bin"][..]),
        ("env = { A = \"b c\", PATH = \"/bin\" }", &["A=b c", "PATH=/bin"]),
    ] {
        let server = site("", settings).env("SECRET", "of the server").start();
        let found = first_of(&server);
        rows.check(settings, &found[0], &server.home().display().to_string());
        rows.check(settings, &found[1], &user);
        // Its listener and what replaces it, output, errors, the connection, and nothing else.
        rows.holds(
            settings,
            &format!("few descriptors: {}", found[4]),
            found[4].parse::<u32>().is_ok_and(|n| n <= 6),
        );
        rows.check(settings, &found[5], &"1".to_owned());
        rows.check(
            settings,
            &found[6..],
            environment.iter().map(|s| s.to_string()).collect::<Vec<_>>().as_slice(),
        );
    }
    if is_root() {
        for top in ["", "user = \"daemon\""] {
            let server = site_with(top, "", "user = \"nobody\"").start();
            let found = first_of(&server);
            rows.check(top, (found[1].as_str(), found[3].as_str()), ("65534", "0"));
            rows.holds(top, "not in the group of root", found[2] != "0");
        }
    }
}

#[test]
fn can_pass_the_socket_as_systemd_does() {
    let site = Site::new().file_beside_root("http_app.py", HTTP_APP);
    let home = site.home().display().to_string();
    let server = site
        .config(&format!(
            "[[route]]\npath = \"/app/\"\napplication = \"app\"\n[[application]]\nname = \"app\"\nprotocol = \"http\"\n\
             socket = \"listen_fds\"\ncommand = [\"{}\", \"-B\", \"{home}/http_app.py\"]\nfolder = \"{home}\"\n\
             processes = 1\nconcurrent = 4\nenv = {{ A = \"b\" }}\n",
            path_of("python3")
        ))
        .start();
    // The program reads `LISTEN_PID` itself; `LISTEN_FDNAMES` comes with it.
    let found = server.get("/app/environment").text();
    let own: Vec<&str> = found.lines().filter(|line| !line.starts_with("LISTEN_")).collect();
    assert_eq!(own, ["A=b", "PATH=/usr/local/bin:/usr/bin:/bin"], "{found}");
    assert!(found.contains("LISTEN_FDS=1") && found.contains("LISTEN_PID="), "{found}");
    // Four concurrent requests in one process.
    let mut clients: Vec<Client> = (0..4).map(|name| begin(&server, &name.to_string())).collect();
    let pids: BTreeSet<Option<u32>> = (0..4).map(|name| began(&server, &name.to_string())).collect();
    assert_eq!(pids.len(), 1);
    go(&server);
    assert!(clients.iter_mut().all(|client| client.read_response().status == 200));
}

#[test]
fn runs_ten_slow_requests_on_ten_processes_in_parallel() {
    for settings in
        ["processes = 10", "processes = 10\nmin_processes = 10", "processes = 10\nmin_processes = 0"]
    {
        let server = start(settings);
        let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        let mut clients: Vec<Client> =
            names.iter().map(|name| request(&server, &format!("wait?{name}"))).collect();
        wait_for(&server, settings, || names.iter().all(|name| began(&server, name).is_some()));
        let pids: BTreeSet<Option<u32>> = names.iter().map(|name| began(&server, name)).collect();
        assert_eq!(pids.len(), 10, "{settings}");
        go(&server);
        assert!(clients.iter_mut().all(|client| client.read_response().status == 200));
    }
}

#[test]
fn queues_requests_at_capacity_and_then_answers_503() {
    let server = start("processes = 1\nqueue = 1\nwait = \"500ms\"");
    let mut first = begin(&server, "1");
    // One of these two waits until its timeout; the other finds the queue full.
    let (mut second, mut third) = (request(&server, "wait?2"), request(&server, "wait?3"));
    for client in [&mut second, &mut third] {
        let response = client.read_response();
        assert_eq!(status_and_whether_to_retry(&response), RETRY_LATER, "{response}");
    }
    // A request whose client has disconnected leaves the queue.
    drop(request(&server, "wait?4"));
    go(&server);
    assert_eq!(first.read_response().status, 200);
    wait_for(&server, "the queue has capacity again", || {
        request(&server, "wait?5").read_response().status == 200
    });
    assert!(["2", "3"].iter().all(|name| began(&server, name).is_none()));
}

#[test]
fn the_log_has_a_line_a_second_of_requests_that_the_queue_has_no_space_for() {
    let server = start("processes = 1\nqueue = 0");
    let mut first = begin(&server, "1");
    // Each worker has its lines.
    let mut client = server.connect();
    server.expect_a_line_a_second("too many requests wait for it", || {
        assert_eq!(client.get("/app/wait?2").status, 503);
    });
    go(&server);
    assert_eq!(first.read_response().status, 200);
}

#[test]
fn answers_queued_requests_first_in_first_out() {
    let server = start("processes = 1\nqueue = 10");
    let mut first = begin(&server, "0");
    let mut clients: Vec<Client> = (1..10).map(|name| request(&server, &format!("wait?{name}"))).collect();
    assert_eq!(server.get("/static").text(), "still here");
    go(&server);
    assert_eq!(first.read_response().status, 200);
    assert!(clients.iter_mut().all(|client| client.read_response().status == 200));
    assert_eq!(starts(&server).len(), 1);

    let server = start("processes = 1\nqueue = 0");
    let _first = begin(&server, "0");
    assert_eq!(status_and_whether_to_retry(&server.get("/app/pid")), RETRY_LATER);
}

#[test]
fn aborts_a_request_when_its_client_disconnects() {
    for path in ["endless", "silent"] {
        let server = start("processes = 1");
        let mut client = request(&server, path);
        match path {
            "endless" => assert!(!client.read_some().expect("it begins").is_empty()),
            _ => wait_for(&server, path, || began(&server, path).is_some()),
        }
        drop(client);
        wait_for(&server, path, || server.home().join("left").exists());
        assert_eq!(server.get("/app/same").status, 200);
    }
}

#[test]
fn logs_one_access_line_per_request_and_program_output_as_errors() {
    let server = site("says", "").config("[log]\naccess = \"stdout\"\nformat = \"common\"").start();
    let line = server.wait_for_line("written before any request", TIMEOUT);
    assert!(line.contains("app"), "the line names the process: {line}");
    server.get("/app/error?words-for-the-log");
    let line = server.wait_for_line("words-for-the-log", TIMEOUT);
    assert!(line.contains("127.0.0.1") && line.contains("GET") && line.contains("/app/error"), "{line}");
    let line = server.wait_for_output("/app/error", TIMEOUT);
    assert!(line.contains("\"GET /app/error?words-for-the-log HTTP/1.1\" 200 "), "{line}");
    assert_eq!(server.stdout().lines().count(), 1);
}

/// The process to kill, of the server or of the application.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Told(Signal),
    Process,
    /// The parent of the application's process.
    Pool,
    Master,
}

#[test]
fn leaves_no_process_behind_when_any_process_is_killed() {
    for end in [End::Told(Signal::TERM), End::Told(Signal::INT), End::Process, End::Pool, End::Master] {
        // When the pool is killed, no process knows of any others than those that the kernel ends.
        let words = if end == End::Pool { "" } else { "child" };
        let mut server = site(words, "min_processes = 2\ngrace = \"500ms\"").start();
        wait_for(&server, "two run", || alive(&server).len() == 2);
        let process = pid(&server);
        let with_child = |pid: u32| {
            wait_for(&server, "it has a child", || children_of(pid).len() == 1);
            [pid, children_of(pid)[0]]
        };
        let doomed: Vec<u32> = match end {
            End::Process => with_child(process).to_vec(),
            End::Pool => alive(&server),
            _ => alive(&server).into_iter().flat_map(with_child).collect(),
        };
        match end {
            End::Told(signal) => server.signal(signal),
            End::Process => signal_process(process, Signal::KILL),
            End::Pool => signal_process(parent_of(process), Signal::KILL),
            End::Master => server.signal(Signal::KILL),
        }
        wait_for(&server, &format!("{end:?}"), || !doomed.iter().any(|pid| runs(*pid)));
        if matches!(end, End::Told(_) | End::Master) {
            server.wait(TIMEOUT);
        } else {
            let responses = || {
                let mut client = server.connect();
                client.try_send("GET /app/same HTTP/1.1\r\nHost: a\r\n\r\n").is_ok()
                    && client.try_read_response().is_ok_and(|response| response.status == 200)
            };
            wait_for(&server, &format!("{end:?}: the server still serves"), responses);
        }
    }
}
