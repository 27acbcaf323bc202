//! Everything can be changed while the server runs, without failing a request: by SIGHUP and `taipan reload`,
//! and after processes have died.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use e2e::{
    Client, Clients, Folder, Page, Persistence, Random, ReadError, Rows, Server, Signal, Site, TIMEOUT,
    command, free_port, has_open, is_root, output_of, own_user, raise_descriptor_limit, runs, signal_process,
    stop_process, tool, wait_until,
};

const LONG: usize = 16 * 1024 * 1024;
/// Long enough for immediate actions on a busy machine, and far less than any timeout that would end them.
const AT_ONCE: Duration = Duration::from_secs(10);
const RELOADS: usize = 100;

fn accepts(address: &str) -> bool {
    TcpStream::connect(address).is_ok()
}

/// Waits until no socket listens there.
fn wait_until_refused(address: &str) {
    assert!(wait_until(TIMEOUT, || !accepts(address)), "{address} still accepts");
}

fn answers(address: &str) -> bool {
    let address: SocketAddr = address.parse().expect("it is an address");
    Client::tcp(address).get("/a.txt").status == 200
}

/// Every response names the configuration of its request.
fn version(number: u32) -> String {
    format!("headers = {{ X-Version = \"{number}\" }}\n")
}

fn site(config: &str) -> Site {
    Site::new().file("a.txt", "a").config(config)
}

fn with_long_file(config: &str) -> (Site, Vec<u8>) {
    let content = Random::new(7).bytes(LONG);
    (site(config).file("long", &content), content)
}

/// A value of `/proc/PID/status`: the real, effective, saved and file system ids.
fn ids(pid: u32, name: &str) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
    line.trim_start_matches(':').split_whitespace().map(str::to_owned).collect()
}

fn worker_threads(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let is_worker = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("worker"))
    };
    tasks.flatten().filter(is_worker).count()
}

#[test]
fn reload_adds_removes_and_moves_listeners() {
    let (first, second) = (free_port(), free_port());
    let server = site(&format!("listen = [\"127.0.0.1:{first}\"]")).start();
    let socket = |name: &str| server.home().join(name);
    let listens = |addresses: &[String]| {
        server.configure(&format!("listen = {addresses:?}"));
        server.reload();
    };
    let (one, other) = (format!("127.0.0.1:{first}"), format!("127.0.0.1:{second}"));
    let everywhere = format!("127.0.0.9:{second}");
    assert!(answers(&one) && !accepts(&other));

    listens(&[other.clone(), "unix:one.sock".to_owned()]);
    assert!(answers(&other) && Client::unix(&socket("one.sock")).get("/a.txt").status == 200);
    wait_until_refused(&one);
    assert!(!accepts(&everywhere));

    let before = fs::metadata(socket("one.sock")).expect("it is there").ino();
    listens(&[format!("0.0.0.0:{second}"), "unix:one.sock".to_owned(), "unix:two.sock".to_owned()]);
    assert!(answers(&other) && answers(&everywhere));
    assert!(Client::unix(&socket("two.sock")).get("/a.txt").status == 200);
    assert_eq!(
        fs::metadata(socket("one.sock")).expect("it is there").ino(),
        before,
        "what stays is not touched"
    );

    // Something has cleaned up.
    fs::remove_file(socket("two.sock")).expect("it is there");
    listens(&[format!("0.0.0.0:{second}"), "unix:one.sock".to_owned(), "unix:two.sock".to_owned()]);
    assert!(Client::unix(&socket("two.sock")).get("/a.txt").status == 200);

    listens(&[other.clone(), "unix:two.sock".to_owned()]);
    assert!(answers(&other) && !socket("one.sock").exists() && socket("two.sock").exists());
    wait_until_refused(&everywhere);

    listens(&[other.clone(), format!("[::1]:{second}"), one.clone()]);
    assert!(answers(&other) && answers(&one) && answers(&format!("[::1]:{second}")));
    assert!(!socket("two.sock").exists());
}

#[test]
fn reload_can_open_a_port_below_1024() {
    let user = if is_root() { "user = \"nobody\"" } else { "" };
    let server = site(user).start();
    let port = (600..1024).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok() || !is_root());
    let address = format!("127.0.0.1:{}", port.expect("one of them is free"));
    server.configure(&format!("{user}\nlisten = [\"{address}\"]"));
    if is_root() {
        server.reload();
        assert!(answers(&address));
        assert_eq!(ids(server.serving_pid(), "Uid")[0], "65534");
    } else {
        let printed = server.reload_error();
        assert!(printed.contains("ports below 1024 need root or CAP_NET_BIND_SERVICE"), "{printed}");
    }
}

#[test]
fn reload_changes_hosts_routes_limits_and_types() {
    let server = site("").file("b/a.glb", "x").file("b/a.txt", "b").start();
    let long = format!("GET /a.txt?{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(100));
    let get = |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let a = get("/a.txt", "h");
    let rows = [
        ("", a.clone(), "200 text/plain; charset=utf-8 a"),
        ("charset = false", a.clone(), "200 text/plain a"),
        ("[[route]]\npath = \"/a.txt\"\nreturn = 410", a.clone(), "410"),
        ("types = { txt = \"text/x-other\" }", a.clone(), "200 text/x-other; charset=utf-8 a"),
        ("", get("/b/a.glb", "h"), "200 model/gltf-binary x"),
        ("types = { glb = \"x/y\" }", get("/b/a.glb", "h"), "200 x/y x"),
        ("root = \"www/b\"", a.clone(), "200 text/plain; charset=utf-8 b"),
        (
            "[[host]]\nnames = \"b.example\"\nroot = \"www/b\"",
            get("/a.txt", "b.example"),
            "200 text/plain; charset=utf-8 b",
        ),
        ("", get("/a.txt", "b.example"), "200 text/plain; charset=utf-8 a"),
        ("", long.clone(), "200 text/plain; charset=utf-8 a"),
        ("[limits]\ntarget = 64", long.clone(), "414"),
        ("[cache]\nentries = 0", a.clone(), "200 text/plain; charset=utf-8 a"),
    ];
    let mut table = Rows::new();
    for (config, request, expected) in rows {
        server.configure(config);
        server.reload();
        let response = server.request(&request);
        let kind = response.field("content-type").unwrap_or_default();
        let found = match response.status {
            200 => format!("200 {kind} {}", response.text()),
            status => status.to_string(),
        };
        table.check(config, found.as_str(), expected);
    }
}

#[test]
fn reload_changes_log_files() {
    let server = site("[log]\naccess = \"./a.log\"\nerror = \"./a.err\"\nlevel = \"info\"").start();
    let read = |name: &str| fs::read_to_string(server.home().join(name)).unwrap_or_default();
    assert_eq!(server.get("/a.txt?before").status, 200);
    server.configure("[log]\naccess = \"./b.log\"\nerror = \"./b.err\"\nlevel = \"info\"");
    server.reload();
    assert_eq!(server.get("/a.txt?after").status, 200);
    assert!(wait_until(TIMEOUT, || read("b.log").contains("?after")), "{}", read("b.log"));
    assert!(wait_until(TIMEOUT, || read("a.log").contains("?before")), "{}", read("a.log"));
    assert!(!read("a.log").contains("?after") && !read("b.log").contains("?before"));
    let is_logged = |what: &str| wait_until(TIMEOUT, || read("b.err").contains(what));
    assert!(is_logged("the configuration has been reloaded"), "{}", read("b.err"));
    // Errors go to the log of the configuration in force.
    server.configure("listen = 1");
    server.reload_error();
    assert!(is_logged("nothing was changed") && !read("a.err").contains("nothing was changed"));
}

#[test]
fn reload_changes_user_and_group() {
    let server = site("").start();
    let ids_after_reload = |user: &str, group: &str| {
        server.configure(&format!("user = \"{user}\"\n{group}"));
        server.reload();
        let pid = server.serving_pid();
        (ids(pid, "Uid"), ids(pid, "Gid"), ids(pid, "Groups"))
    };
    if is_root() {
        let all = |id: &str| vec![id.to_owned(); 4];
        let found = ids_after_reload("nobody", "");
        assert_eq!((found.0, found.1), (all("65534"), all("65534")));
        let found = ids_after_reload("daemon", "group = \"bin\"");
        assert_eq!((found.0, found.1), (all("1"), all("2")));
        assert!(!found.2.contains(&"0".to_owned()), "no group of root's is left");
        let found = ids_after_reload("root", "");
        assert_eq!((found.0, found.1), (all("0"), all("0")));
    } else {
        server.configure("user = \"root\"");
        assert!(server.reload_error().contains("only root can become user \"root\""));
    }
    assert_eq!(server.get("/a.txt").status, 200);
}

#[test]
fn reload_changes_the_number_of_workers() {
    let server = site("workers = 1").start();
    for workers in [3, 1, 2, 2, 1] {
        server.configure(&format!("workers = {workers}"));
        server.reload();
        let pid = server.serving_pid();
        assert_eq!(worker_threads(pid), workers);
        assert_eq!(server.stats()["workers"].as_array().map(Vec::len), Some(workers));
        // Enough that some connections reach every socket that ever existed.
        assert!((0..30).all(|_| server.get("/a.txt").status == 200));
    }
}

#[test]
fn reload_moves_the_pid_file() {
    let server = site("pid_file = \"a.pid\"").start();
    let pid = |name: &str| fs::read_to_string(server.home().join(name)).ok();
    let own = Some(format!("{}\n", server.pid()));
    assert_eq!(pid("a.pid"), own);
    server.configure("pid_file = \"b.pid\"");
    server.reload();
    assert_eq!((pid("a.pid"), pid("b.pid")), (None, own.clone()));
    server.reload();
    assert_eq!(pid("b.pid"), own);
    server.configure("");
    server.reload();
    assert_eq!((pid("a.pid"), pid("b.pid")), (None, None));
    assert_eq!(server.run_command(&["stats"]).status.code(), Some(0));
}

#[test]
fn a_second_program_leaves_the_pid_file_of_the_first_alone() {
    let server = site("pid_file = \"pid\"").start();
    let pid = || fs::read_to_string(server.home().join("pid")).unwrap_or_default();
    let first = format!("{}\n", server.pid());
    assert_eq!(pid(), first);
    let mut command = e2e::command();
    command.arg("-c").arg(server.home().join("site.toml")).args(["--listen", "127.0.0.1:0"]);
    let mut second = Server::start(command, 1, None);
    second.wait_for_line("pid stays that of the taipan that serves this already", TIMEOUT);
    second.wait_for_line(
        "commands such as taipan reload do not reach this program: they reach the one",
        TIMEOUT,
    );
    assert_eq!((second.get("/a.txt").status, pid()), (200, first.clone()));
    second.signal(Signal::TERM);
    assert_eq!((second.wait(AT_ONCE).code(), pid()), (Some(0), first));
}

#[test]
fn a_second_program_writes_a_pid_file_of_its_own() {
    let folder = Folder::new();
    folder.file("www/a.txt", "a");
    let start = |name: &str| {
        let mut command = e2e::command();
        command.args(["--thttpd", "-D", "-h", "127.0.0.1", "-p", "0", "-l", "/dev/null", "-d"]);
        command.arg(folder.path().join("www")).arg("-i").arg(folder.path().join(name));
        Server::start(command, 1, None)
    };
    let pid = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
    let (first, mut second) = (start("first.pid"), start("second.pid"));
    let own = |server: &Server| Some(format!("{}\n", server.pid()));
    assert_eq!((pid("first.pid"), pid("second.pid")), (own(&first), own(&second)));
    second.signal(Signal::TERM);
    assert_eq!(second.wait(AT_ONCE).code(), Some(0));
    assert_eq!((pid("first.pid"), pid("second.pid")), (own(&first), None));
}

#[test]
fn a_failed_reload_changes_nothing_and_says_why() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let taken = taken.local_addr().expect("it is bound");
    let server = site(&version(1)).start();
    let serving = server.serving_pid();
    let user = if is_root() { "user = \"nobody-at-all\"" } else { "user = \"root\"" };
    let no_user = if is_root() { "there is no user \"nobody-at-all\"" } else { "only root can become user" };
    let rows = [
        ("listen = [".to_owned(), "site.toml:"),
        ("lisen = 1".to_owned(), "unknown key \"lisen\"; did you mean \"listen\"?"),
        ("root = \"nothing\"".to_owned(), "nothing"),
        (
            "root = \"nothing\"\nworkers = 3\nlisten = [\"127.0.0.1:0\", \"unix:x.sock\"]".to_owned(),
            "nothing",
        ),
        (
            format!("listen = [\"unix:x.sock\", \"{taken}\"]"),
            "stop that, or choose another address in `listen`",
        ),
        (format!("listen = [\"unix:x.sock\"]\n{user}"), no_user),
        ("listen = [\"unix:nowhere/x.sock\"]".to_owned(), "its folder does not exist"),
        ("listen = [\"192.0.2.1:8080\"]".to_owned(), "this machine does not have that address"),
        ("listen = []".to_owned(), "there is no address to listen on"),
        ("listen = [\"unix:x.sock\"]\n[log]\naccess = \"nowhere/a.log\"".to_owned(), "nowhere/a.log"),
        ("listen = [\"unix:x.sock\"]\n[log]\nerror = \"nowhere/a.log\"".to_owned(), "nowhere/a.log"),
    ];
    let mut table = Rows::new();
    let mut same = server.connect();
    for (config, why) in rows {
        server.configure(&config);
        let printed = server.reload_error();
        table.holds(&config, &format!("{why:?} is printed by the command: {printed}"), printed.contains(why));
        let logged = |lines: &[String]| lines.iter().any(|line| line.contains(why)).then_some(());
        let is_logged = server.errors().wait_for(TIMEOUT, logged).is_some();
        table.holds(&config, &format!("{why:?} is in the error log: {}", server.stderr()), is_logged);
        table.holds(
            &config,
            &format!("the command says that the server continues: {printed}"),
            printed.contains("nothing was changed"),
        );
        table.check(&config, same.get("/a.txt").field("x-version"), Some("1"));
        table.check(&config, server.get("/a.txt").field("x-version"), Some("1"));
        table.check(&config, server.children(), vec![serving]);
        table.holds(&config, "no socket is left behind", !server.home().join("x.sock").exists());
    }
    // By a signal it is the same, and afterwards a good reload works.
    let before = server.stderr().matches("nothing was changed").count();
    server.signal(Signal::HUP);
    let logged = |lines: &[String]| {
        (lines.iter().filter(|line| line.contains("nothing was changed")).count() > before).then_some(())
    };
    assert!(server.errors().wait_for(TIMEOUT, logged).is_some(), "{}", server.stderr());
    assert_eq!(server.children(), [serving]);
    server.configure(&version(2));
    server.reload();
    assert_eq!(server.get("/a.txt").field("x-version"), Some("2"));
}

#[test]
fn running_requests_finish_under_their_old_configuration() {
    for workers in [1, 2] {
        let config = |number| format!("workers = {workers}\n{}", version(number));
        let (site, content) = with_long_file(&config(1));
        let server = site.start();
        let mut download = server.begin_download("/long");
        let (mut head, mut body) = (server.connect(), server.connect());
        for client in [&mut head, &mut body] {
            assert_eq!(client.get("/a.txt").field("x-version"), Some("1"));
        }
        head.send("GET /a.txt HTTP/1.1\r\nHo");
        body.send("GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc");
        // Until the worker of each has read the requests.
        assert!(wait_until(TIMEOUT, || server.count("active") == 3), "{}", server.stats());

        server.configure(&config(2));
        server.reload();
        assert_eq!(server.get("/a.txt").field("x-version"), Some("2"));
        head.send("st: h\r\n\r\n");
        body.send("def");
        let found = [(&mut head, 200), (&mut body, 200)];
        for (client, status) in found {
            let response = client.read_response();
            assert_eq!((response.status, response.field("x-version")), (status, Some("1")));
            assert_eq!(response.field("connection"), None, "the connection stays open");
            assert_eq!(client.get("/a.txt").field("x-version"), Some("2"), "under the new one");
        }
        let response = download.read_response();
        assert!(response.field("x-version") == Some("1") && response.body == content);
        assert_eq!(download.get("/a.txt").field("x-version"), Some("2"));
        assert!(wait_until(TIMEOUT, || server.children().len() == 1), "the one before has ended");
    }
}

#[test]
fn idle_connections_continue_under_the_new_configuration() {
    let config = |number| format!("workers = {}\n{}", 1 + number % 2, version(number));
    let server = site(&config(0)).start();
    raise_descriptor_limit();
    let mut clients: Vec<Client> = (0..1500).map(|_| server.connect()).collect();
    // Some clients have sent a request, the others have not.
    for number in 1..6 {
        for client in clients.iter_mut().skip(100) {
            assert_eq!(client.get("/a.txt").field("x-version"), Some((number - 1).to_string().as_str()));
        }
        server.configure(&config(number));
        server.reload();
    }
    for client in &mut clients {
        assert_eq!(client.get("/a.txt").field("x-version"), Some("5"));
    }
}

#[test]
fn a_reload_does_not_reset_the_request_count_of_a_connection() {
    let server = site("[limits]\nrequests = 3").start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").field("connection"), None);
    server.reload();
    assert_eq!(client.get("/a.txt").field("connection"), None);
    server.reload();
    assert_eq!(client.get("/a.txt").field("connection"), Some("close"));
}

#[test]
fn a_hundred_reloads_under_load_lose_no_request() {
    let contents: Vec<Arc<Vec<u8>>> = (0..2).map(|n| Arc::new(Random::new(n).bytes(3000))).collect();
    let server = site("").folder("0").folder("1").start();
    let large = Arc::new(Random::new(9).bytes(200_000));
    for (n, content) in contents.iter().enumerate() {
        server.files().file(&format!("www/{n}/page"), content.as_slice());
        server.files().file(&format!("www/{n}/large"), large.as_slice());
    }
    let config = |number: usize| {
        let (root, workers) = (number % 2, 1 + number / 2 % 2);
        format!("workers = {workers}\nroot = \"www/{root}\"")
    };
    server.configure(&config(0));
    server.reload();
    let page = Page { path: "/page".to_owned(), contents };
    let large = Page { path: "/large".to_owned(), contents: vec![large] };
    let group = |persistence, fields: &str| Clients {
        address: server.addr(),
        persistence,
        count: 24,
        pages: vec![page.clone(), page.clone(), page.clone(), large.clone()],
        fields: fields.to_owned(),
    };
    let (stays, leaves) =
        (group(Persistence::KeepAlive, ""), group(Persistence::Close, "Connection: close\r\n"));
    let over = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let tallies = thread::scope(|scope| {
        let run = |group: Clients| {
            let over = over.clone();
            scope.spawn(move || group.run(|_| over.load(Ordering::Relaxed)))
        };
        let groups = [run(stays), run(leaves)];
        let reloaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 1..=RELOADS {
                server.configure(&config(number));
                if number % 10 == 0 {
                    let serving = server.serving_pid();
                    server.signal(Signal::HUP);
                    assert!(wait_until(TIMEOUT, || server.children().last().is_some_and(|p| *p != serving)));
                }
                server.reload();
            }
        }));
        over.store(true, Ordering::Relaxed);
        let tallies = groups.map(|group| group.join().expect("it does not panic"));
        reloaded.map(|()| tallies)
    });
    let [stayed, left] = tallies.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    eprintln!("{RELOADS} reloads in {:?}\n  keep-alive: {stayed}\n  new: {left}", started.elapsed());
    for tally in [&stayed, &left] {
        assert!(tally.failed() == 0 && tally.responses.keys().eq([&200]), "{tally}\n{}", server.stderr());
        assert!(tally.completed() > RELOADS, "{tally}");
    }
    assert_eq!(stayed.connections, 24, "no connection was closed: {stayed}");
    assert!(wait_until(TIMEOUT, || server.children().len() == 1), "{:?}", server.children());
}

#[test]
fn moving_a_listener_under_load_loses_no_request() {
    let port = free_port();
    let config = |number: usize| {
        let address = ["127.0.0.1", "0.0.0.0"][number % 2];
        format!("workers = {}\nlisten = [\"{address}:{port}\"]", 1 + number / 2 % 2)
    };
    let server = site(&config(0)).start();
    let page = Page { path: "/a.txt".to_owned(), contents: vec![Arc::new(b"a".to_vec())] };
    let group = Clients {
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        persistence: Persistence::Close,
        count: 24,
        pages: vec![page],
        fields: "Connection: close\r\n".to_owned(),
    };
    let over = AtomicBool::new(false);
    let (tally, reloaded) = thread::scope(|scope| {
        let group = scope.spawn(|| group.run(|_| over.load(Ordering::Relaxed)));
        let reloaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 1..=RELOADS / 4 {
                server.configure(&config(number));
                server.reload();
            }
        }));
        over.store(true, Ordering::Relaxed);
        (group.join().expect("it does not panic"), reloaded)
    });
    reloaded.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    eprintln!("  moved: {tally}");
    assert!(tally.failed() == 0 && tally.responses.keys().eq([&200]), "{tally}\n{}", server.stderr());
}

#[test]
fn downloads_survive_reloads_up_to_the_limit_of_generations() {
    let config = |number| format!("{}[limits]\ngenerations = 3", version(number));
    let (site, content) = with_long_file(&config(0));
    let server = site.start();
    let mut downloads = Vec::new();
    for number in 0..2 {
        downloads.push((number, server.begin_download("/long")));
        server.configure(&config(number + 1));
        server.reload();
        assert_eq!(server.children().len(), number as usize + 2);
    }
    server.configure(&config(3));
    let printed = server.reload_error();
    assert!(printed.contains("generations") && printed.contains("nothing was changed"), "{printed}");
    assert_eq!(server.get("/a.txt").field("x-version"), Some("2"));
    // The first generation ends, so another one may start.
    for (number, mut download) in downloads {
        let response = download.read_response();
        assert_eq!(response.field("x-version"), Some(number.to_string().as_str()));
        assert!(response.body == content);
        drop(download);
        let left = 2 - number as usize;
        assert!(wait_until(TIMEOUT, || server.children().len() <= left), "{:?}", server.children());
    }
    server.reload();
    assert_eq!(server.get("/a.txt").field("x-version"), Some("3"));
}

#[test]
fn cuts_old_requests_after_the_shutdown_timeout() {
    let (site, _) = with_long_file("[timeouts]\nreload = \"3s\"");
    let server = site.start();
    let mut download = server.begin_download("/long");
    let (earlier, started) = (server.serving_pid(), Instant::now());
    // The timeout of its own configuration counts.
    server.configure("");
    server.reload();
    assert_eq!(server.children().len(), 2, "it may still run for a while");
    assert!(wait_until(TIMEOUT, || !server.children().contains(&earlier)));
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(2900), "{took:?}");
    assert!(matches!(download.try_read_response(), Err(ReadError::Closed { .. } | ReadError::Reset)));
    server.wait_for_line(
        "connections cut off after 3 s: 1; to let them finish, raise reload in [timeouts]",
        TIMEOUT,
    );
    assert_eq!(server.get("/a.txt").status, 200);
}

#[test]
fn a_stuck_process_delays_no_reload() {
    let server = site(&version(1)).start();
    let stuck = server.serving_pid();
    assert_eq!(server.get("/a.txt").status, 200);
    stop_process(stuck);
    server.configure(&version(2));
    server.reload();
    assert_ne!(server.serving_pid(), stuck);
    signal_process(stuck, Signal::CONT);
    assert!(wait_until(TIMEOUT, || server.get("/a.txt").field("x-version") == Some("2")));
    assert!(wait_until(TIMEOUT, || server.children().len() == 1));
}

#[test]
fn a_failed_start_leaves_nothing_behind() {
    for (wrong, why) in [
        ("root = \"nothing\"", "nothing"),
        ("pid_file = \"nowhere/pid\"", "cannot write the pid file"),
        ("[log]\naccess = \"nowhere/log\"", "nowhere/log"),
    ] {
        let site = site(&format!("listen = [\"unix:a.sock\", \"127.0.0.1:0\"]\n{wrong}"));
        let output = output_of(command().arg("-c").arg(site.write_config()).current_dir(site.home()));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && stderr.contains(why), "{wrong}: {stderr}");
        assert!(!site.home().join("a.sock").exists(), "{wrong}");
    }
}

#[test]
fn answers_several_reloads_at_once() {
    let server = site(&version(1)).start();
    server.configure(&version(2));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| server.reload());
        }
    });
    assert_eq!(server.get("/a.txt").field("x-version"), Some("2"));
    assert!(wait_until(TIMEOUT, || server.children().len() == 1));
}

#[test]
fn stops_when_signalled_during_a_reload() {
    for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 130)] {
        for delay in [0, 0, 1, 2, 5, 10, 20, 40] {
            let mut server = site("pid_file = \"pid\"\nlisten = [\"127.0.0.1:0\", \"unix:a.sock\"]").start();
            server.configure("pid_file = \"pid\"\nworkers = 3\nlisten = [\"127.0.0.1:0\", \"unix:b.sock\"]");
            server.signal(Signal::HUP);
            thread::sleep(Duration::from_millis(delay));
            server.signal(signal);
            assert_eq!(server.wait(AT_ONCE).code(), Some(code), "{delay} ms: {}", server.stderr());
            for name in ["pid", "a.sock", "b.sock"] {
                assert!(!server.home().join(name).exists(), "{name} is left behind after {delay} ms");
            }
        }
    }
}

#[test]
fn stops_all_generations() {
    for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 130)] {
        let (site, content) = with_long_file("");
        let mut server = site.start();
        let mut downloads = Vec::new();
        for _ in 0..2 {
            downloads.push(server.begin_download("/long"));
            server.reload();
        }
        downloads.push(server.begin_download("/long"));
        let (address, pids) = (server.addr().to_string(), server.children());
        assert_eq!(pids.len(), 3);
        server.signal(signal);
        wait_until_refused(&address);
        if signal == Signal::TERM {
            for mut download in downloads {
                assert!(download.read_response().body == content && download.is_closed());
            }
        }
        assert_eq!(server.wait(AT_ONCE).code(), Some(code));
        for pid in pids {
            assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left");
        }
    }
}

#[test]
fn all_generations_reopen_their_logs() {
    let config = "[log]\naccess = \"./access.log\"\nerror = \"./error.log\"";
    let (site, content) = with_long_file(config);
    let server = site.start();
    let (path, moved) = (server.home().join("access.log"), server.home().join("access.log.1"));
    let mut download = server.begin_download("/long");
    server.reload();
    fs::rename(&path, &moved).expect("it is there");
    server.signal(Signal::USR1);
    let pids = server.children();
    assert_eq!(pids.len(), 2);
    for pid in pids {
        assert!(wait_until(TIMEOUT, || has_open(pid, &path) && !has_open(pid, &moved)), "{pid}");
    }
    assert!(download.read_response().body == content);
    assert_eq!(server.get("/a.txt").status, 200);
    let read = || fs::read_to_string(&path).unwrap_or_default();
    assert!(
        wait_until(TIMEOUT, || read().contains("GET /long ") && read().contains("GET /a.txt ")),
        "{}",
        read()
    );
    assert_eq!(fs::read_to_string(&moved).ok().as_deref(), Some(""));
}

#[test]
fn replaces_a_killed_serving_process() {
    let server = site("pid_file = \"pid\"").start();
    let mut same = server.connect();
    assert_eq!(same.get("/a.txt").status, 200);
    let killed = server.serving_pid();
    signal_process(killed, Signal::KILL);
    assert!(same.is_closed());
    // New connections wait in the kernel until a serving process runs again.
    assert_eq!(server.get("/a.txt").status, 200);
    assert_ne!(server.serving_pid(), killed);
    server.wait_for_line("the serving process has ended: killed by SIGKILL", TIMEOUT);
    // A reload during the restart delay starts one process, not two.
    signal_process(server.serving_pid(), Signal::KILL);
    let logged = |lines: &[String]| {
        (lines.iter().filter(|line| line.contains("killed by SIGKILL")).count() == 2).then_some(())
    };
    assert!(server.errors().wait_for(TIMEOUT, logged).is_some(), "{}", server.stderr());
    server.reload();
    assert_eq!(server.get("/a.txt").status, 200);
    let pid = server.serving_pid();
    // Longer than the delay of the restart.
    thread::sleep(Duration::from_millis(1200));
    assert_eq!(server.children(), [pid]);
}

#[test]
fn a_killed_serving_process_is_reported_without_the_processes_that_end_with_it() {
    let server = site("[[route]]\npath = \"/bin/\"\ncgi = true\n").start();
    let serving = server.processes("worker")[0];
    let others = server.children().into_iter().filter(|pid| *pid != serving).collect::<Vec<_>>();
    assert!(!others.is_empty(), "there is a spawner");
    // So that all have ended before one of them is noticed.
    stop_process(server.pid());
    signal_process(serving, Signal::KILL);
    assert!(wait_until(TIMEOUT, || !others.iter().any(|pid| runs(*pid))));
    server.signal(Signal::CONT);
    server.wait_for_line("the serving process has ended: killed by SIGKILL; it is replaced at once", TIMEOUT);
    server.wait_for_line("a new serving process has taken over", TIMEOUT);
    assert!(!server.stderr().contains("the process that starts scripts"), "{}", server.stderr());
}

#[test]
fn a_serving_process_that_aborts_is_reported_with_the_probable_reason() {
    let server = site("").start();
    signal_process(server.processes("worker")[0], Signal::ABORT);
    let line = server.wait_for_line("the serving process has ended: killed by SIGABRT", TIMEOUT);
    assert!(
        line.contains("probably had no memory left") && line.ends_with("it is replaced at once"),
        "{line}"
    );
    server.wait_for_line("a new serving process has taken over", TIMEOUT);
}

#[test]
fn a_killed_spawner_is_replaced_without_loss_to_other_requests() {
    let (site, content) = with_long_file("[[route]]\npath = \"*.cgi\"\ncgi = true");
    let server = site.script("a.cgi", "#!/bin/sh\nprintf 'X-A: b\\n\\nscript'\n").start();
    assert_eq!(server.get("/a.cgi").text(), "script");
    let mut download = server.begin_download("/long");
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    signal_process(server.processes("spawner")[0], Signal::KILL);
    server.wait_for_line("error: the process that starts scripts has ended: killed by SIGKILL", TIMEOUT);
    assert_eq!(idle.get("/a.txt").status, 200);
    let has_scripts = || server.get("/a.cgi").status == 200;
    assert!(wait_until(TIMEOUT, has_scripts), "{}", server.stderr());
    server.wait_for_line("a new serving process has taken over", TIMEOUT);
    assert!(download.read_response().body == content, "{}", server.stderr());
    assert_eq!(idle.get("/a.txt").status, 200);
}

#[test]
fn a_script_that_meets_a_killed_spawner_has_a_line_that_says_so() {
    let (site, _) = with_long_file("[[route]]\npath = \"*.cgi\"\ncgi = true");
    let server = site.script("a.cgi", "#!/bin/sh\nprintf 'X-A: b\\n\\nscript'\n").start();
    assert_eq!(server.get("/a.cgi").text(), "script");
    let spawner = server.processes("spawner")[0];
    // So that the master does not replace it yet.
    stop_process(server.pid());
    signal_process(spawner, Signal::KILL);
    assert!(wait_until(TIMEOUT, || !runs(spawner)));
    let response = server.get("/a.cgi");
    server.signal(Signal::CONT);
    assert_eq!(response.status, 503);
    server.wait_for_line(
        "\"GET /a.cgi\": cannot start the script: the process that starts scripts has ended, and is about to be replaced",
        TIMEOUT,
    );
    assert!(wait_until(TIMEOUT, || server.get("/a.cgi").status == 200), "{}", server.stderr());
}

#[test]
fn a_reload_starts_an_application_again_whose_pool_has_just_ended() {
    let application = Folder::new();
    let address = format!("unix:{}", application.path().join("none").display());
    let config = format!(
        "[[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"{address}\"\n\
         [[route]]\npath = \"/app/\"\napplication = \"app\"\n[log]\nlevel = \"info\""
    );
    let server = site(&config).start();
    let known = [server.processes("worker"), server.processes("spawner")].concat();
    let pool = server.children().into_iter().find(|pid| !known.contains(pid)).expect("there is a pool");
    // So that the master learns of both at the same time.
    stop_process(server.pid());
    signal_process(pool, Signal::KILL);
    assert!(wait_until(TIMEOUT, || !runs(pool)));
    server.signal(Signal::HUP);
    server.signal(Signal::CONT);
    server.wait_for_line(
        "the process that manages the application \"app\" has ended: killed by SIGKILL",
        TIMEOUT,
    );
    server.wait_for_line("the configuration has been reloaded", TIMEOUT);
    assert!(!server.stderr().contains("nothing was changed"), "{}", server.stderr());
    // Nothing listens there: the new pool says so. The earlier process may still accept the first requests.
    let has_new_pool = || {
        assert!([502, 503].contains(&server.get("/app/").status), "{}", server.stderr());
        server.stderr().contains("application \"app\": cannot connect to unix:")
    };
    assert!(wait_until(TIMEOUT, has_new_pool), "{}", server.stderr());
}

#[test]
fn a_root_that_is_missing_does_not_stop_the_hosts_that_have_others() {
    let site = site("[[host]]\nnames = \"other\"\nroot = \"other\"\n").file_beside_root("other/a.txt", "b");
    let server = site.start();
    let get = |host: &str| {
        let response = server.request(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        (response.status, response.text())
    };
    assert_eq!(get("other"), (200, "b".to_owned()));
    let [root, away] = ["other", "away"].map(|name| server.home().join(name));
    fs::rename(&root, &away).expect("it is our folder");
    let error = server.reload_error();
    assert!(error.contains("other does not exist"), "{error}");
    server.replace_workers();
    assert_eq!(get("a"), (200, "a".to_owned()));
    assert_eq!(get("other").0, 500);
    let line = server.wait_for_line("until a reload, requests for its files get 500", TIMEOUT);
    assert!(line.contains("other does not exist; create it"), "{line}");
    fs::rename(&away, &root).expect("it is our folder");
    // Without Landlock, it is served.
    let denied = "other could not be opened at the start, and the sandbox denies it; reload, so that";
    let is_noticed = || get("other").0 == 200 || server.stderr().contains(denied);
    assert!(wait_until(TIMEOUT, is_noticed), "{}", server.stderr());
    server.reload();
    assert_eq!(get("other"), (200, "b".to_owned()));
}

#[test]
fn the_folder_of_a_command_line_is_served_again_when_it_is_there_again() {
    let home = Folder::new();
    home.file("www/a.txt", "a");
    let [folder, away] = ["www", "away"].map(|name| home.path().join(name));
    let server = Server::folder(&folder);
    assert_eq!(server.get("/a.txt").status, 200);
    fs::rename(&folder, &away).expect("it is our folder");
    signal_process(server.processes("worker")[0], Signal::KILL);
    server.wait_for_line("the serving process has ended: killed by SIGKILL; it is replaced at once", TIMEOUT);
    let line = server.wait_for_line("www: No such file or directory", TIMEOUT);
    let rest = "; clients wait, and it is tried again in 0.5 s";
    assert!(
        line.contains("a new serving process cannot take over: cannot open ") && line.ends_with(rest),
        "{line}"
    );
    let mut waiting = server.connect();
    waiting.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    fs::rename(&away, &folder).expect("it is our folder");
    assert_eq!(waiting.read_response().text(), "a", "{}", server.stderr());
}

#[test]
fn folders_of_logs_of_the_pid_file_and_of_the_cache_may_be_missing_after_a_crash() {
    let config = "pid_file = \"HOME/kept/pid\"\n[log]\naccess = \"HOME/kept/access.log\"\n\
                  [cache_files]\nfolder = \"HOME/kept/cache\"\nmin_free = 0\n";
    let site = site("");
    let home = site.home().display().to_string();
    fs::create_dir_all(site.home().join("kept/cache")).expect("it is our folder");
    let server = site.config(&config.replace("HOME", &home)).start();
    let get = || server.request("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").status;
    assert_eq!(get(), 200);
    let [kept, away] = ["kept", "away"].map(|name| server.home().join(name));
    fs::rename(&kept, &away).expect("it is our folder");
    let error = server.reload_error();
    assert!(error.contains("kept"), "{error}");
    server.replace_workers();
    assert_eq!(get(), 200);
    for end in ["are lost until the server opens its logs again", "responses are stored in memory alone"] {
        server.wait_for_line(end, TIMEOUT);
    }
    fs::rename(&away, &kept).expect("it is our folder");
    server.signal(Signal::USR1);
    let has_line = || {
        get() == 200 && fs::read_to_string(kept.join("access.log")).is_ok_and(|log| log.lines().count() > 1)
    };
    assert!(wait_until(TIMEOUT, has_line), "{}", server.stderr());
    server.reload();
    assert_eq!(get(), 200);
}

#[test]
fn replaces_a_serving_process_killed_during_a_reload() {
    let server = site(&version(0)).start();
    for number in 1..4 {
        server.configure(&version(number));
        let serving = server.serving_pid();
        server.signal(Signal::HUP);
        signal_process(serving, Signal::KILL);
        let expected = number.to_string();
        let is_new = || server.get("/a.txt").field("x-version") == Some(&expected);
        assert!(wait_until(TIMEOUT, is_new), "{}", server.stderr());
        assert!(wait_until(TIMEOUT, || server.children().len() == 1), "{:?}", server.children());
    }
}

#[test]
fn replaces_dying_serving_processes_with_growing_delays() {
    let mut server = site("pid_file = \"pid\"\nlisten = [\"127.0.0.1:0\", \"unix:a.sock\"]").start();
    for (number, pause) in ["at once", "in 0.5 s", "in 1 s", "in 2 s", "in 4 s", "in 4 s"].iter().enumerate()
    {
        signal_process(server.serving_pid(), Signal::KILL);
        let logged = |lines: &[String]| {
            let logged = lines
                .iter()
                .filter(|line| line.contains("killed by SIGKILL") && line.contains("it is replaced"));
            logged.clone().nth(number).cloned()
        };
        let line = server.errors().wait_for(TIMEOUT, logged);
        let line = line.unwrap_or_else(|| panic!("{number}: {}", server.stderr()));
        assert!(line.ends_with(pause), "{number}: {line}");
        // Until then, the client waits in the kernel.
        assert_eq!(server.get("/a.txt").status, 200);
        let replaced = |lines: &[String]| {
            let replaced =
                lines.iter().filter(|line| line.contains("a new serving process has taken over")).count();
            (replaced > number).then_some(())
        };
        assert!(server.errors().wait_for(TIMEOUT, replaced).is_some(), "{number}: {}", server.stderr());
    }
    assert_eq!(Client::unix(&server.home().join("a.sock")).get("/a.txt").status, 200);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(AT_ONCE).code(), Some(0));
    assert!(!server.home().join("pid").exists() && !server.home().join("a.sock").exists());
}

#[test]
fn serving_processes_end_when_the_master_dies() {
    let mut server = site(&format!("listen = [\"127.0.0.1:{}\"]\npid_file = \"pid\"", free_port())).start();
    let mut download = server.connect();
    assert_eq!(download.get("/a.txt").status, 200);
    let (address, serving) = (server.addr(), server.serving_pid());
    server.signal(Signal::KILL);
    assert_eq!(server.wait(AT_ONCE).code(), None);
    assert!(download.is_closed());
    assert!(wait_until(AT_ONCE, || !Path::new(&format!("/proc/{serving}")).exists()));
    let next = site(&format!("listen = [\"{address}\"]")).start();
    assert_eq!(next.get("/a.txt").status, 200);
}

/// Each problem used to hide those behind it, so that an administrator mended one after another.
#[test]
fn check_start_and_reload_say_all_that_is_wrong_once_and_in_the_order_of_the_file() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = other.local_addr().expect("it is bound");
    let user = own_user();
    let wrong = format!(
        "root = \"missing\"\n{user}listen = [\"127.0.0.1:0 tls\", \"{taken}\"]\npid_file = \"no/pid\"\n[log]\n\
         access = \"no/access.log\"\n[[host]]\nnames = \"a.example\"\nroot = \"gone\"\ncertificate = \"none.pem\"\n"
    );
    // The beginning of the line of the file, and what is said of it.
    let expected = [
        ("root = \"missing\"", "the root ", "missing"),
        ("listen", "cannot listen on ", "in use"),
        ("pid_file", "pid file ", "no/pid"),
        ("access", "cannot open the log ", "no/access.log"),
        ("root = \"gone\"", "the root ", "gone"),
        ("certificate", "", "none.pem"),
    ];
    let server = Site::new().file("a.txt", "a").start();
    server.files().file("site.toml", &wrong);
    let file = server.home().join("site.toml");
    let begin = |line: &str| {
        let at = wrong.lines().position(|own| own.starts_with(line)).expect("it has the line") + 1;
        format!("{}:{at}: ", file.display())
    };
    let check = |what: &str, lines: &[&str]| {
        assert_eq!(lines.len(), expected.len(), "{what}: {lines:#?}");
        for (line, (place, text, value)) in lines.iter().zip(expected) {
            let is_it = line.contains(&begin(place)) && line.contains(text) && line.contains(value);
            assert!(is_it, "{what}: {line}, not {}{text}…{value}", begin(place));
        }
    };
    let printed = server.reload_error();
    let lines: Vec<&str> = printed.lines().collect();
    let (last, lines) = lines.split_last().expect("it says something");
    assert_eq!(*last, "taipan: nothing was changed");
    check("reload", lines);
    let log = server.stderr();
    let logged: Vec<&str> = log.lines().filter(|line| line.contains("error: ")).collect();
    check("the log", &logged[..logged.len() - 1]);
    assert_eq!(server.get("/a.txt").text(), "a");
    let folder = output_of(command().arg(server.root()).args(["--listen", &taken.to_string()]));
    let text = String::from_utf8_lossy(&folder.stderr).into_owned();
    assert_eq!((folder.status.code(), text.lines().count()), (Some(2), 1), "{text}");
    // The same file, which nothing serves.
    let copy = Folder::new();
    let other_file = copy.file("site.toml", &wrong);
    for (what, words, code) in [("start", &["-c"][..], 2), ("check", &["check", "-c"], 1)] {
        let output = output_of(command().args(words).arg(&other_file));
        assert_eq!(output.status.code(), Some(code), "{what}");
        let text = String::from_utf8_lossy(&output.stderr)
            .replace(&other_file.display().to_string(), &file.display().to_string());
        check(what, &text.lines().collect::<Vec<_>>());
    }
}

/// A library that starts a thread before the program begins. An emulator of another processor has such a thread, too.
const LIBRARY_WITH_A_THREAD: &str = "#include <pthread.h>\n#include <signal.h>\n#include <unistd.h>\n\
     static void *stay(void *nothing) { for (;;) pause(); return nothing; }\n\
     __attribute__((constructor)) static void begin(void) {\n\
     sigset_t all, before; pthread_t thread; sigfillset(&all);\n\
     pthread_sigmask(SIG_SETMASK, &all, &before); pthread_create(&thread, 0, stay, 0);\n\
     pthread_sigmask(SIG_SETMASK, &before, 0); }\n";

#[test]
fn serves_and_reloads_beside_a_thread_that_is_older_than_the_program() {
    let site = site("").file_beside_root("a.c", LIBRARY_WITH_A_THREAD);
    let home = site.home().to_owned();
    let words = ["-shared", "-fPIC", "-pthread", "-o", "a.so", "a.c"];
    let compiled = output_of(tool("cc").args(words).current_dir(&home));
    assert!(compiled.status.success(), "{compiled:?}");
    let server = site.env("LD_PRELOAD", home.join("a.so")).start();
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs").count();
    assert_eq!(threads, 2, "the master has the thread of the library");
    assert_eq!(server.get("/a.txt").body, b"a");
    server.configure(&version(2));
    server.reload();
    assert_eq!(server.get("/a.txt").field("X-Version"), Some("2"));
}
