//! Upstreams by their names.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use e2e::dns::{Answer, CNAME, Dns, Record, SRV, ip, name};
use e2e::{Rows, Server, Site, TIMEOUT, wait_until};

fn srv(priority: u16, port: u16, target: &str) -> Record {
    weighted_srv(priority, 1, port, target)
}

fn weighted_srv(priority: u16, weight: u16, port: u16, target: &str) -> Record {
    let numbers =
        [priority, weight, port].iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    (SRV, 1, [numbers, name(target)].concat())
}

fn resolver(dns: &Dns) -> String {
    format!("[resolver]\nservers = \"{}\"\nmin_ttl = \"1s\"\ntimeout = \"100ms\"\n", dns.address)
}

/// Waits until a name has been asked for so many times more.
fn wait_asked(dns: &Dns, name: &str, times: usize) {
    let before = dns.asked(name);
    wait("it asks again", || dns.asked(name) >= before + times);
}

fn wait(what: &str, is: impl FnMut() -> bool) {
    assert!(wait_until(TIMEOUT, is), "not in time: {what}");
}

/// Upstreams on one port of several addresses of this machine, each of which responds with its address.
fn upstreams(ips: &[&str]) -> u16 {
    'port: loop {
        let first = TcpListener::bind((ips[0], 0)).expect("a free port");
        let port = first.local_addr().expect("it is bound").port();
        let mut listeners = vec![first];
        for ip in &ips[1..] {
            match TcpListener::bind((*ip, port)) {
                Ok(listener) => listeners.push(listener),
                Err(_) => continue 'port,
            }
        }
        listeners.into_iter().for_each(|listener| _ = thread::spawn(move || serve(&listener)));
        return port;
    }
}

fn serve(listener: &TcpListener) {
    let own = listener.local_addr().expect("it is bound").ip().to_string();
    for stream in listener.incoming() {
        let (mut stream, own) = (stream.expect("it listens"), own.clone());
        thread::spawn(move || {
            let mut head = Vec::new();
            let mut byte = [0];
            while stream.read(&mut byte).is_ok_and(|read| read > 0) {
                head.push(byte[0]);
                if head.ends_with(b"\r\n\r\n") {
                    head.clear();
                    let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{own}", own.len());
                    _ = stream.write_all(response.as_bytes());
                }
            }
        });
    }
}

/// Who responds, or the status.
fn by(server: &Server, path: &str) -> String {
    let response = server.get(path);
    if response.status == 200 { response.text() } else { response.status.to_string() }
}

fn route(path: &str, proxy: &str) -> String {
    format!("[[route]]\npath = \"{path}\"\nproxy = \"{proxy}\"\n")
}

/// Waits until only these respond. A kept connection may give all requests to one of them.
fn wait_for(server: &Server, path: &str, expected: &[&str]) {
    wait(&format!("{expected:?} respond"), || (0..8).all(|_| expected.contains(&by(server, path).as_str())));
}

#[test]
fn resolves_names_services_and_localhost() {
    let dns = Dns::start();
    let port = upstreams(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    let v6 = upstreams(&["::1"]);
    dns.set_ips("app.test", &["127.0.0.2"]);
    dns.set("alias.test", Answer::Records(vec![(CNAME, 60, name("real.test")), ip("127.0.0.2", 60)]));
    dns.set_ips("v6.test", &["::1"]);
    dns.set("_http._tcp.app.test", Answer::Records(vec![srv(9, 1, "app.test"), srv(1, port, "three.test")]));
    dns.set("_gone._tcp.app.test", Answer::Records(vec![srv(1, 1, ".")]));
    dns.set_ips("three.test", &["127.0.0.3"]);
    dns.set("_idn._tcp.app.test", Answer::Records(vec![srv(1, port, "xn--bcher-kva.test")]));
    dns.set_ips("xn--bcher-kva.test", &["127.0.0.3"]);
    dns.set("fails.test", Answer::Code(2));
    dns.set("silent.test", Answer::Silence);
    dns.set("garbage.test", Answer::Garbage);
    dns.set("other.test", Answer::Other);
    let mut config = String::from("workers = 1\n");
    let mut routes = vec![
        ("/app", format!("http://app.test:{port}"), "127.0.0.2"),
        ("/upper", format!("http://APP.test.:{port}"), "127.0.0.2"),
        ("/alias", format!("http://alias.test:{port}"), "127.0.0.2"),
        ("/v6", format!("http://v6.test:{v6}"), "::1"),
        ("/srv", "http://_http._tcp.app.test".to_owned(), "127.0.0.3"),
        ("/idn", format!("http://xn--bcher-kva.test:{port}"), "127.0.0.3"),
        ("/idn-srv", "http://_idn._tcp.app.test".to_owned(), "127.0.0.3"),
        ("/localhost", format!("http://localhost:{port}"), "127.0.0.1"),
        ("/localhost6", format!("http://localhost:{v6}"), "::1"),
        ("/sub", format!("http://a.localhost:{port}"), "127.0.0.1"),
    ];
    for bad in ["gone.test", "fails.test", "silent.test", "garbage.test", "other.test"] {
        routes.push((Box::leak(format!("/{bad}").into_boxed_str()), format!("http://{bad}:{port}"), "502"));
    }
    routes.push(("/no-srv", "http://_gone._tcp.app.test".to_owned(), "502"));
    for (path, url, _) in &routes {
        config += &route(path, url);
    }
    let server = Site::new().config(&(config + &resolver(&dns))).start();
    let mut rows = Rows::new();
    for (path, _, expected) in &routes {
        rows.check(path, by(&server, path).as_str(), expected);
    }
    for (name, why) in [
        ("gone.test", "there is no such name"),
        ("fails.test", "the DNS server has answered"),
        ("silent.test", "no DNS server has answered in time"),
    ] {
        let line = format!("cannot resolve {name}:{port}: {why}");
        rows.check(name, server.stderr().contains(&line), true);
        let line =
            format!("cannot forward to the upstream http://{name}:{port}: its name cannot be resolved");
        rows.check(name, server.stderr().contains(&line), true);
    }
}

#[test]
fn says_once_that_a_name_has_more_addresses_than_are_used() {
    let dns = Dns::start();
    let port = upstreams(&["127.0.0.1"]);
    // The first address is the best one.
    let many: Vec<String> = (1..=66).map(|last| format!("127.0.0.{last}")).collect();
    dns.set_ips("many.test", &many.iter().map(String::as_str).collect::<Vec<_>>());
    let config =
        format!("workers = 1\n{}{}", route("/", &format!("http://many.test:{port}")), resolver(&dns));
    let server = Site::new().config(&config).start();
    assert_eq!(by(&server, "/"), "127.0.0.1");
    let line = format!("of the addresses of many.test:{port}, 64 are used and 2 are not");
    server.wait_for_line(&line, TIMEOUT);
    wait_asked(&dns, "many.test", 2);
    assert_eq!(server.stderr().matches(&line).count(), 1, "{}", server.stderr());
}

/// The process of an application logs by the level that an administrator has chosen, as one does that begins later.
#[test]
fn a_changed_level_of_the_error_log_reaches_the_process_of_an_application() {
    let dns = Dns::start();
    let port = upstreams(&["127.0.0.1", "127.0.0.2"]);
    let config = |wait: &str| {
        format!(
            "workers = 1\n{}[log]\nlevel = \"error\"\n[[application]]\nname = \"app\"\nprotocol = \"http\"\n\
             address = \"app.test:{port}\"\nwait = \"{wait}\"\n[[route]]\npath = \"/\"\napplication = \"app\"\n",
            resolver(&dns)
        )
    };
    dns.set_ips("app.test", &["127.0.0.1"]);
    let server = Site::new().config(&config("1s")).start();
    let fail_and_return = |now: &str| {
        dns.set("app.test", Answer::Code(2));
        wait_asked(&dns, "app.test", 2);
        dns.set_ips("app.test", &[now]);
        wait_for(&server, "/", &[now]);
    };
    wait_for(&server, "/", &["127.0.0.1"]);
    let lines = || server.stderr().matches("is resolved again").count();
    fail_and_return("127.0.0.2");
    assert_eq!(lines(), 0, "{}", server.stderr());
    assert_eq!(server.run_command(&["log-level", "warn"]).status.code(), Some(0));
    fail_and_return("127.0.0.1");
    assert_eq!(lines(), 1, "{}", server.stderr());
    // Another process, because its application has changed.
    server.configure(&config("2s"));
    server.reload();
    fail_and_return("127.0.0.2");
    assert_eq!(lines(), 2, "{}", server.stderr());
    assert_eq!(server.run_command(&["log-level", "error"]).status.code(), Some(0));
    fail_and_return("127.0.0.1");
    assert_eq!(lines(), 2, "{}", server.stderr());
}

#[test]
fn a_reload_changes_the_level_of_the_error_log_of_a_process_that_it_keeps_too() {
    let dns = Dns::start();
    let port = upstreams(&["127.0.0.1", "127.0.0.2"]);
    let config = |level: &str| {
        let route = route("/", &format!("http://app.test:{port}"));
        format!("workers = 1\n{route}{}[log]\nlevel = \"{level}\"\n", resolver(&dns))
    };
    dns.set_ips("app.test", &["127.0.0.1"]);
    let server = Site::new().config(&config("error")).start();
    wait_for(&server, "/", &["127.0.0.1"]);
    let pool = server.children()[0];
    for (level, now, lines) in
        [("error", "127.0.0.2", 0), ("warn", "127.0.0.1", 1), ("error", "127.0.0.2", 1)]
    {
        server.configure(&config(level));
        server.reload();
        dns.set("app.test", Answer::Code(2));
        wait_asked(&dns, "app.test", 2);
        dns.set_ips("app.test", &[now]);
        wait_for(&server, "/", &[now]);
        let stderr = server.stderr();
        assert_eq!(stderr.matches("is resolved again").count(), lines, "{level}: {stderr}");
    }
    assert!(server.children().contains(&pool), "it is the same one");
}

#[test]
fn follows_a_name_whose_addresses_change_and_keeps_the_last_ones_when_it_fails() {
    let dns = Dns::start();
    let port = upstreams(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    dns.set_ips("app.test", &["127.0.0.1"]);
    let config = format!("workers = 1\n{}{}", route("/", &format!("http://app.test:{port}")), resolver(&dns));
    let server = Site::new().config(&config).start();
    wait_for(&server, "/", &["127.0.0.1"]);
    dns.set_ips("app.test", &["127.0.0.2", "127.0.0.3"]);
    wait_for(&server, "/", &["127.0.0.2", "127.0.0.3"]);
    for failure in [Answer::Code(2), Answer::Code(3), Answer::Silence, Answer::Records(Vec::new())] {
        dns.set("app.test", failure);
        wait_asked(&dns, "app.test", 2);
        wait_for(&server, "/", &["127.0.0.2", "127.0.0.3"]);
    }
    assert!(server.stderr().contains("its last addresses are used"), "{}", server.stderr());
    dns.set_ips("app.test", &["127.0.0.1"]);
    wait_for(&server, "/", &["127.0.0.1"]);
    assert!(server.stderr().contains("is resolved again"), "{}", server.stderr());
}

#[test]
fn a_question_for_ipv4_addresses_that_fails_moves_no_request_to_ipv6() {
    let dns = Dns::start();
    let port = upstreams(&["127.0.0.1", "::1"]);
    dns.set("only.test", Answer::WithoutIpv4(vec![ip("::1", 1)]));
    for (family, expected) in [("ipv4_first", &["127.0.0.1"][..]), ("both", &["127.0.0.1", "::1"])] {
        dns.set_ips("app.test", &["127.0.0.1", "::1"]);
        let route = |path: &str, name: &str| {
            route(path, &format!("http://{name}:{port}")) + "proxy_balance = \"round_robin\"\n"
        };
        let routes = route("/", "app.test") + &route("/only", "only.test");
        let config = format!("workers = 1\n{routes}{}family = \"{family}\"\n", resolver(&dns));
        let server = Site::new().config(&config).start();
        wait_for(&server, "/", expected);
        dns.set("app.test", Answer::WithoutIpv4(vec![ip("::1", 1)]));
        wait_asked(&dns, "app.test", 5);
        assert_eq!(shares(&server).into_keys().collect::<Vec<_>>(), expected, "{family}");
        assert_eq!(by(&server, "/only"), "::1", "{family}: a name without others");
    }
}

#[test]
fn a_drained_address_of_a_name_stays_so_when_it_comes_back_and_over_an_upgrade() {
    let dns = Dns::start();
    let port = upstreams(&["127.0.0.1", "127.0.0.2"]);
    dns.set_ips("app.test", &["127.0.0.1", "127.0.0.2"]);
    let config = format!("workers = 1\npid_file = \"pid\"\n{}{}", route("/", "http://app"), resolver(&dns));
    let config = format!(
        "{config}[[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = \"app.test:{port}\"\n\
         balance = \"round_robin\"\n"
    );
    let mut server = Site::new().config(&config).start();
    wait_for(&server, "/", &["127.0.0.1", "127.0.0.2"]);
    let drained = format!("127.0.0.2:{port}");
    let output = server.run_command(&["drain", "app", &drained]);
    assert!(output.status.success(), "{output:?}");
    let only_first = |server: &Server, when: &str| {
        let found = shares(server);
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["127.0.0.1"], "{when}");
    };
    only_first(&server, "drained");
    dns.set_ips("app.test", &["127.0.0.1"]);
    wait_asked(&dns, "app.test", 2);
    dns.set_ips("app.test", &["127.0.0.1", "127.0.0.2"]);
    wait_asked(&dns, "app.test", 2);
    only_first(&server, "it has come back");
    let (old, pid_file) = (server.pid(), server.home().join("pid"));
    let output = server.run_command(&["upgrade"]);
    assert!(output.status.success(), "{output:?}");
    let pid = || fs::read_to_string(&pid_file).ok().and_then(|pid| pid.trim().parse().ok());
    wait("the other program has its file", || pid().is_some_and(|pid: u32| pid != old));
    server.succeeded_by(pid().expect("it has one"));
    wait_asked(&dns, "app.test", 2);
    only_first(&server, "another program serves");
    let output = server.run_command(&["undrain", "app", &drained]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(shares(&server).len(), 2, "it has requests again");
}

#[test]
fn requests_wait_for_a_name_that_is_resolved_late_and_none_is_lost_when_it_changes() {
    let dns = Dns::start();
    let port = upstreams(&["127.0.0.1", "127.0.0.2"]);
    dns.set("app.test", Answer::Silence);
    let config = format!("{}{}", route("/", &format!("http://app.test:{port}")), resolver(&dns));
    let config = config.replace("100ms", "10s");
    let server = Site::new().config(&config).start();
    let server = &server;
    thread::scope(|scope| {
        let waits = scope.spawn(|| by(server, "/"));
        wait_asked(&dns, "app.test", 1);
        dns.set_ips("app.test", &["127.0.0.1"]);
        assert_eq!(waits.join().expect("no panic"), "127.0.0.1");
    });
    let clients = 4;
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                for at in 0..400 {
                    let found = by(server, "/");
                    assert!(found.starts_with("127.0.0."), "request {at}: {found}");
                }
            });
        }
        for _ in 0..3 {
            for ip in ["127.0.0.2", "127.0.0.1"] {
                dns.set_ips("app.test", &[ip]);
                wait_asked(&dns, "app.test", 1);
            }
        }
    });
}

#[test]
fn an_address_that_refuses_connections_has_its_name_resolved_sooner() {
    let dns = Dns::start();
    let port = upstreams(&["127.0.0.1"]);
    dns.set("app.test", Answer::Records(vec![ip("127.0.0.9", 3600)]));
    let config = format!("{}{}", route("/", &format!("http://app.test:{port}")), resolver(&dns));
    let server = Site::new().config(&config).start();
    assert_eq!(by(&server, "/"), "502");
    dns.set_ips("app.test", &["127.0.0.1"]);
    wait("it is resolved again", || by(&server, "/") == "127.0.0.1");
}

/// How many of 40 requests each address responds to.
fn shares(server: &Server) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    (0..40).for_each(|_| *shares.entry(by(server, "/")).or_default() += 1);
    shares
}

fn wait_for_shares(server: &Server, expected: &[(&str, usize)]) {
    let expected = expected.iter().map(|(ip, count)| ((*ip).to_owned(), *count)).collect();
    let mut found = BTreeMap::new();
    let is = wait_until(TIMEOUT, || {
        found = shares(server);
        found == expected
    });
    assert!(is, "{found:?}, not {expected:?}");
}

#[test]
fn a_service_has_priorities_and_weights() {
    let dns = Dns::start();
    let port = upstreams(&["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    for (name, ips) in [
        ("one.test", &["127.0.0.1"][..]),
        ("two.test", &["127.0.0.2"]),
        ("both.test", &["127.0.0.2", "127.0.0.3"]),
        ("spare.test", &["127.0.0.4"]),
        ("closed.test", &["127.0.0.9"]),
    ] {
        dns.set_ips(name, ips);
    }
    let set = |records: &[(u16, u16, &str)]| {
        let record =
            |(priority, weight, target): &(u16, u16, &str)| weighted_srv(*priority, *weight, port, target);
        dns.set("_http._tcp.app.test", Answer::Records(records.iter().map(record).collect()));
    };
    set(&[(20, 9, "spare.test"), (10, 1, "two.test"), (10, 3, "one.test")]);
    let config = format!(
        "workers = 1\n{}proxy_balance = \"round_robin\"\n{}",
        route("/", "http://_http._tcp.app.test"),
        resolver(&dns)
    );
    let server = Site::new().config(&config).start();
    wait_for_shares(&server, &[("127.0.0.1", 30), ("127.0.0.2", 10)]);
    // Other weights of the same addresses.
    set(&[(20, 9, "spare.test"), (10, 3, "two.test"), (10, 1, "one.test")]);
    wait_for_shares(&server, &[("127.0.0.1", 10), ("127.0.0.2", 30)]);
    // A target with two addresses.
    set(&[(10, 1, "one.test"), (10, 1, "both.test")]);
    wait_for_shares(&server, &[("127.0.0.1", 20), ("127.0.0.2", 10), ("127.0.0.3", 10)]);
    // Another priority of an address.
    set(&[(10, 1, "spare.test"), (11, 1, "one.test")]);
    wait_for_shares(&server, &[("127.0.0.4", 40)]);
    // A target that fails, and then the whole service.
    for failure in [Answer::Code(2), Answer::Code(3), Answer::Silence] {
        dns.set("spare.test", failure);
        wait_asked(&dns, "spare.test", 2);
        wait_for_shares(&server, &[("127.0.0.4", 40)]);
    }
    dns.set("_http._tcp.app.test", Answer::Code(2));
    wait_asked(&dns, "_http._tcp.app.test", 2);
    wait_for_shares(&server, &[("127.0.0.4", 40)]);
    // The best one does not respond, and later does.
    set(&[(1, 1, "closed.test"), (2, 1, "two.test"), (2, 0, "one.test")]);
    wait("the next priority is used", || {
        let shares = shares(&server);
        shares.len() <= 2 && shares.get("127.0.0.2").is_some_and(|count| *count >= 38)
    });
    dns.set_ips("closed.test", &["127.0.0.3"]);
    wait_for_shares(&server, &[("127.0.0.3", 40)]);
}

#[test]
fn names_are_resolved_within_a_chroot_as_root() {
    let dns = Dns::start();
    let port = upstreams(&["127.0.0.1", "127.0.0.2"]);
    dns.set_ips("app.test", &["127.0.0.1"]);
    dns.set("_http._tcp.app.test", Answer::Records(vec![srv(1, port, "app.test")]));
    let site = Site::new();
    fs::set_permissions(site.home(), Permissions::from_mode(0o755)).expect("it is ours");
    let routes = [
        route("/name", &format!("http://app.test:{port}")),
        route("/service", "http://_http._tcp.app.test"),
        route("/localhost", &format!("http://localhost:{port}")),
    ];
    let config =
        format!("chroot = \".\"\nuser = \"daemon\"\nworkers = 1\n{}{}", routes.concat(), resolver(&dns));
    let server = site.config(&config).start();
    let mut rows = Rows::new();
    for round in ["first", "after a reload"] {
        for path in ["/name", "/service", "/localhost"] {
            rows.check(format!("{round}: {path}"), by(&server, path).as_str(), "127.0.0.1");
        }
        server.reload();
    }
    dns.set_ips("app.test", &["127.0.0.2"]);
    for path in ["/name", "/service"] {
        wait_for(&server, path, &["127.0.0.2"]);
    }
}
