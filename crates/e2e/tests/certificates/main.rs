//! Certificates by ACME, from pebble: a test authority, which checks challenges as others do. All of it is on loopback.

mod faults;
mod upgrades;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use e2e::{
    BackgroundProcess, Folder, Server, Signal, Site, SmallDisk, TIMEOUT, authority, command, free_port,
    is_root, output_of, output_within, program, runs, signal_process, tool, wait_until,
};

/// For an order, with all that waits in it.
const ORDER: Duration = Duration::from_secs(60);
const ISSUED: &str = "new certificates are served";

/// The authority, and the name server by which it looks names up: each leads to this machine.
struct Pebble {
    home: Folder,
    process: BackgroundProcess,
    _names: BackgroundProcess,
    port: u16,
    management: u16,
    dns: u16,
    dns_management: u16,
    /// Where it looks for answers to challenges.
    http: u16,
    tls: u16,
}

/// How a pebble differs from the usual one.
struct Options {
    /// Further members of its configuration, in JSON.
    config: &'static str,
    env: &'static [(&'static str, &'static str)],
    /// Seconds of a certificate.
    lifetime: u32,
}

const USUAL: Options = Options { config: "", env: &[], lifetime: 90 * 24 * 3600 };

impl Pebble {
    fn start(options: &Options) -> Pebble {
        let home = Folder::new();
        let own = authority().server(&["localhost", "127.0.0.1"]);
        home.file("own.pem", own.certificate);
        home.file("own.key", own.key);
        home.file("ca.pem", authority().pem());
        let [port, management, http, tls, dns, dns_management] = [(); 6].map(|()| free_port());
        let Options { config, env, lifetime } = options;
        let config = format!(
            r#"{{"pebble": {{"listenAddress": "127.0.0.1:{port}", "managementListenAddress": "127.0.0.1:{management}",
            "certificate": "own.pem", "privateKey": "own.key", "httpPort": {http}, "tlsPort": {tls}, {config}
            "retryAfter": {{"authz": 1, "order": 1}},
            "profiles": {{"default": {{"description": "usual", "validityPeriod": {lifetime}}}}}}}}}"#
        );
        home.file("pebble.json", config);
        let mut names = tool("pebble-challtestsrv");
        names.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", "", "-https01", ""]);
        names.args(["-tlsalpn01", "", "-doh", "", "-dnsserver", &format!("127.0.0.1:{dns}")]);
        names.args(["-management", &format!("127.0.0.1:{dns_management}")]);
        let names = BackgroundProcess::start(&mut names);
        let process = Pebble::process(&home, dns, env);
        let pebble =
            Pebble { home, process, _names: names, port, management, dns, dns_management, http, tls };
        pebble.wait();
        pebble
    }

    fn process(home: &Folder, dns: u16, env: &[(&str, &str)]) -> BackgroundProcess {
        let mut pebble = tool("pebble");
        pebble.args(["-config", "pebble.json", "-dnsserver", &format!("127.0.0.1:{dns}")]);
        pebble.current_dir(home.path()).env("PEBBLE_VA_NOSLEEP", "1").envs(env.iter().copied());
        BackgroundProcess::start(&mut pebble)
    }

    fn wait(&self) {
        let listens = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        let is_ready = || [self.port, self.management, self.dns_management].into_iter().all(listens);
        assert!(wait_until(TIMEOUT, is_ready), "pebble does not listen:\n{}", self.log());
    }

    /// It forgets accounts, orders and certificates.
    fn restart(&mut self) {
        self.process.end();
        self.process = Pebble::process(&self.home, self.dns, &[]);
        self.wait();
    }

    fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.port)
    }

    fn ca(&self) -> PathBuf {
        self.home.path().join("ca.pem")
    }

    /// What clients trust: the certificate of its root.
    fn root(&self) -> PathBuf {
        let url = format!("https://localhost:{}/roots/0", self.management);
        let mut curl = tool("curl");
        let output = output_of(curl.args(["-sS", "--cacert"]).arg(self.ca()).arg(url));
        assert!(output.status.success(), "{output:?}");
        self.home.file("root.pem", output.stdout)
    }

    fn log(&self) -> String {
        self.process.output().text() + &self.process.errors().text()
    }

    /// Certificates that it has issued.
    fn issued(&self) -> usize {
        self.log().matches("Issued certificate serial").count()
    }

    /// The lines of a site for `a.example` and `b.example`, without addresses; `more` is of `[certificates]`.
    fn settings(&self, more: &str) -> String {
        let (directory, ca) = (self.directory(), self.ca());
        let authorities = match more.contains("authorities") {
            true => String::new(),
            false => format!("authorities = \"{directory}\"\n"),
        };
        format!(
            "names = [\"a.example\", \"b.example\"]\nacme = true\n[certificates]\nca = \"{}\"\n{authorities}{more}\n\
             [log]\nlevel = \"info\"\n",
            ca.display()
        )
    }

    /// A site on the ports at which this authority looks for answers.
    fn site(&self, more: &str) -> Site {
        let retry = if more.contains("retry") { "" } else { "retry = \"1s\"\n" };
        let more = format!("folder = \"certificates\"\n{retry}{more}");
        Site::new().file("hello", "hello").config(&format!(
            "listen = [\"127.0.0.1:{}\", \"127.0.0.1:{} tls\"]\n{}",
            self.http,
            self.tls,
            self.settings(&more)
        ))
    }

    /// The response to a client that trusts this authority alone.
    fn get(&self, name: &str, port: u16) -> Output {
        let mut curl = tool("curl");
        curl.args(["-sS", "--cacert"]).arg(self.root());
        curl.arg("--connect-to").arg(format!("{name}:443:127.0.0.1:{port}"));
        output_of(curl.arg(format!("https://{name}/hello")))
    }

    #[track_caller]
    fn check_trusted(&self, port: u16) {
        for name in ["a.example", "b.example"] {
            let output = self.get(name, port);
            assert_eq!(output.stdout, b"hello", "{name}: {output:?}\n{}", self.log());
        }
    }
}

#[track_caller]
fn check_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

fn listed(server: &Server) -> String {
    let mut list = command();
    let output = output_of(list.arg("certificates").arg("-c").arg(server.home().join("site.toml")));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

fn stored(server: &Server) -> PathBuf {
    server.home().join("certificates")
}

#[test]
fn pebble_issues_by_http_01() {
    let pebble = Pebble::start(&USUAL);
    let server = pebble.site("challenges = [\"http-01\"]").start();
    // At once there is another certificate.
    let before = pebble.get("a.example", pebble.tls);
    assert!(pebble.issued() > 0 || before.status.code() == Some(60), "{before:?}");
    server.wait_for_line(ISSUED, ORDER);
    pebble.check_trusted(pebble.tls);
    for entry in fs::read_dir(stored(&server)).unwrap() {
        let mode = entry.as_ref().unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{entry:?}");
    }
    assert_eq!(fs::metadata(stored(&server)).unwrap().permissions().mode() & 0o777, 0o700);
    // The authority is asked for it when the certificate is there.
    assert!(wait_until(ORDER, || listed(&server).contains("next renewal")), "{}", listed(&server));
    let list = listed(&server);
    check_has(&list, &["a.example", "b.example", "Pebble Intermediate", "days left"]);
    // Answers to challenges are only for tokens.
    let token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA";
    let answer = server.get(&format!("/.well-known/acme-challenge/{token}"));
    assert!(answer.text().starts_with(&format!("{token}.")), "{answer:?}");
    assert_eq!(server.get("/.well-known/acme-challenge/short").status, 404);
}

#[test]
fn pebble_issues_by_tls_alpn_01_after_http_01_has_failed() {
    let pebble = Pebble::start(&USUAL);
    let elsewhere = free_port();
    let site = Site::new().file("hello", "hello").config(&format!(
        "listen = [\"127.0.0.1:{elsewhere}\", \"127.0.0.1:{} tls\"]\n{}",
        pebble.tls,
        pebble.settings("folder = \"certificates\"\nchallenges = [\"http-01\", \"tls-alpn-01\"]")
    ));
    let server = site.start();
    let failed = server.wait_for_line("error: no certificate for a.example, b.example", ORDER);
    check_has(&failed, &["the challenge http-01 has failed: ", "a.example: ", "is tried at once"]);
    assert_eq!(server.get("/hello").text(), "hello", "the site is served all the same");
    server.wait_for_line(ISSUED, ORDER);
    pebble.check_trusted(pebble.tls);
}

#[test]
fn pebble_issues_a_wildcard_by_dns_01() {
    let pebble = Pebble::start(&USUAL);
    let home = Folder::new();
    let program = home.script(
        "dns",
        format!(
            "#!/bin/sh\nset -e\necho \"$@\" >>{}/log\ncase $1 in\n\
             set) curl -sSf -d \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" http://127.0.0.1:{1}/set-txt;;\n\
             unset) curl -sSf -d \"{{\\\"host\\\":\\\"$2.\\\"}}\" http://127.0.0.1:{1}/clear-txt;;\nesac\n",
            home.path().display(),
            pebble.dns_management
        ),
    );
    let settings = pebble.settings(&format!(
        "folder = \"certificates\"\nchallenges = [\"dns-01\"]\ndns_command = \"{}\"\ndns_wait = 0",
        program.display()
    ));
    let settings = settings.replace("\"b.example\"", "\"*.b.example\"");
    let site = Site::new().file("hello", "hello");
    let server = site.config(&format!("listen = \"127.0.0.1:{} tls\"\n{settings}", pebble.tls)).start();
    server.wait_for_line(ISSUED, ORDER);
    let output = pebble.get("x.b.example", pebble.tls);
    assert_eq!(output.stdout, b"hello", "{output:?}");
    let log = fs::read_to_string(home.path().join("log")).unwrap();
    let count = |what: &str| log.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!(
        (count("set _acme-challenge.a.example "), count("set _acme-challenge.b.example ")),
        (1, 1),
        "{log}"
    );
    assert_eq!(count("unset "), 2, "what was set is removed: {log}");
}

#[test]
fn pebble_rejects_nonces_and_the_certificate_comes_all_the_same() {
    let pebble = Pebble::start(&Options { env: &[("PEBBLE_WFE_NONCEREJECT", "20")], ..USUAL });
    let server = pebble.site("").start();
    server.wait_for_line(ISSUED, ORDER);
    pebble.check_trusted(pebble.tls);
    assert!(pebble.log().contains("badNonce") || pebble.log().contains("reject"), "{}", pebble.log());
}

#[test]
fn pebble_is_the_second_authority_when_the_first_is_dead() {
    let pebble = Pebble::start(&USUAL);
    let dead = format!("https://localhost:{}/dir", free_port());
    let server = pebble.site(&format!("authorities = [\"{dead}\", \"{}\"]", pebble.directory())).start();
    let failed = server.wait_for_line("error: no certificate", ORDER);
    assert!(failed.contains("is tried at once"), "{failed}");
    assert_eq!(failed.matches(&dead).count(), 1, "{failed}");
    // Also without `level`: a warning has said that there was none.
    server.wait_for_line(&format!("warn: {} has issued a certificate", pebble.directory()), ORDER);
    server.wait_for_line(ISSUED, ORDER);
    pebble.check_trusted(pebble.tls);
}

#[test]
fn pebble_needs_an_account_that_it_knows() {
    const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let config = "\"externalAccountBindingRequired\": true, \"externalAccountMACKeys\": \
                  {\"kid-1\": \"zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\"},";
    let pebble = Pebble::start(&Options { config, ..USUAL });
    let server = pebble.site("").start();
    let failed = server.wait_for_line("the authority opens no account", ORDER);
    assert!(failed.contains("xternal"), "{failed}");
    drop(server);
    let site = pebble.site("eab_key_id = \"kid-1\"\neab_key_file = \"eab\"").file_beside_root("eab", KEY);
    let server = site.start();
    server.wait_for_line(ISSUED, ORDER);
    pebble.check_trusted(pebble.tls);
}

#[test]
fn pebble_renews_before_the_end() {
    let pebble = Pebble::start(&Options { lifetime: 20, ..USUAL });
    let server = pebble.site("").start();
    server.wait_for_line(ISSUED, ORDER);
    let file = stored(&server).join("a.example.pem");
    let first = fs::read(&file).unwrap();
    let renewed = wait_until(ORDER, || server.errors().text().matches(ISSUED).count() >= 2);
    assert!(renewed, "{}", server.stderr());
    assert_ne!(fs::read(&file).unwrap(), first);
    pebble.check_trusted(pebble.tls);
}

/// A site with another host, and the folder of that host.
fn with_other_host(pebble: &Pebble, certificates: &str) -> (Server, PathBuf) {
    let host = "[[host]]\nnames = \"other\"\nroot = \"other\"\nacme = false\ncertificate = \"certificate.pem\"\n\
                certificate_key = \"key.pem\"\n";
    let site = pebble.site(certificates).certificate().file_beside_root("other/a.txt", "a").config(host);
    let server = site.start();
    let root = server.home().join("other");
    (server, root)
}

#[test]
fn a_certificate_of_pebble_that_cannot_be_served_is_served_later() {
    let pebble = Pebble::start(&USUAL);
    let (server, root) = with_other_host(&pebble, "");
    let away = server.home().join("away");
    fs::rename(&root, &away).expect("it is our folder");
    server.wait_for_line("new certificates are not served yet; it is tried again in 1 s", ORDER);
    assert!(server.stderr().contains("other does not exist"), "{}", server.stderr());
    fs::rename(&away, &root).expect("it is our folder");
    server.wait_for_line(ISSUED, ORDER);
}

#[test]
fn a_certificate_of_pebble_that_a_reload_has_served_costs_no_other_change() {
    let pebble = Pebble::start(&USUAL);
    let (server, root) = with_other_host(&pebble, "retry = \"3s\"");
    let away = server.home().join("away");
    fs::rename(&root, &away).expect("it is our folder");
    server.wait_for_line("new certificates are not served yet; it is tried again in 3 s", ORDER);
    fs::rename(&away, &root).expect("it is our folder");
    server.reload();
    pebble.check_trusted(pebble.tls);
    let is_served_again = || server.stderr().contains(ISSUED);
    assert!(!wait_until(Duration::from_secs(5), is_served_again), "{}", server.stderr());
}

#[test]
fn pebble_gets_one_order_of_two_servers_with_one_folder() {
    let pebble =
        Pebble::start(&Options { env: &[("PEBBLE_VA_NOSLEEP", "0"), ("PEBBLE_VA_SLEEPTIME", "2")], ..USUAL });
    let shared = Folder::new();
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let settings =
        pebble.settings(&format!("folder = \"{}\"\nchallenges = [\"http-01\"]", shared.path().display()));
    let other = free_port();
    let site = |http: u16, tls: u16| {
        let listen = format!("listen = [\"127.0.0.1:{http}\", \"127.0.0.1:{tls} tls\"]\n");
        Site::new().file("hello", "hello").config(&format!("{listen}{settings}"))
    };
    // Only the first one is where the authority looks: the other one must not need to be asked.
    let servers = [site(pebble.http, pebble.tls).start(), site(free_port(), other).start()];
    for server in &servers {
        server.wait_for_line(ISSUED, ORDER);
    }
    pebble.check_trusted(pebble.tls);
    pebble.check_trusted(other);
    assert_eq!(pebble.issued(), 1, "{}", pebble.log());
    // Each of them asks when to renew it, and reports that beside what the other one has reported.
    let asked = || pebble.log().matches("/renewalInfo/").count() >= servers.len();
    assert!(wait_until(ORDER, asked), "{}", pebble.log());
    let report = || fs::read_to_string(shared.path().join("a.example.status")).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
    let due = || report().lines().find_map(|line| line.strip_prefix("due ")?.parse::<u64>().ok());
    assert!(wait_until(ORDER, || due().is_some_and(|due| due > now + 3600)), "{}", report());
    let authority = format!("authority {}\n", pebble.directory());
    for _ in 0..200 {
        assert!(report().contains(&authority), "{}", report());
        std::thread::yield_now();
    }
}

#[test]
fn pebble_gets_one_order_for_hosts_of_two_addresses_with_the_same_names() {
    let pebble = Pebble::start(&USUAL);
    let host = "[[host]]\naddresses = \"127.0.0.2\"\nnames = [\"A.example\", \"b.example\"]\nroot = \"b\"\n";
    let server = pebble.site("").file_beside_root("b/hello", "other").config(host).start();
    server.wait_for_line(ISSUED, ORDER);
    pebble.check_trusted(pebble.tls);
    assert!(!wait_until(Duration::from_secs(3), || pebble.issued() > 1), "{}", pebble.log());
}

#[test]
fn a_server_with_a_shared_folder_keeps_the_records_of_another_one() {
    let pebble = Pebble::start(&USUAL);
    let shared = Folder::new();
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let log = shared.path().join("log");
    let program = shared.script("dns", format!("#!/bin/sh\necho \"$*\" >>{}\n", log.display()));
    let settings = pebble.settings(&format!(
        "folder = \"{}\"\nchallenges = [\"dns-01\"]\ndns_command = \"{}\"\ndns_wait = \"1000s\"",
        shared.path().display(),
        program.display()
    ));
    let site = || {
        let listen = format!("listen = [\"127.0.0.1:{}\"]\n", free_port());
        Site::new().file("hello", "hello").config(&format!("{listen}{settings}"))
    };
    // Both begin without a report. One of them orders, and the other one waits for it.
    let servers = [site().start(), site().start()];
    let lines = |path: &Path, word: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(word)).count()
    };
    assert!(wait_until(ORDER, || lines(&log, "set ") == 2), "{}", servers[0].stderr());
    let report = shared.path().join("a.example.status");
    assert!(wait_until(TIMEOUT, || lines(&report, "record ") == 2), "{}", servers[0].stderr());
    // The one that waits tries again every five seconds.
    let are_lost = wait_until(Duration::from_secs(12), || lines(&report, "record ") != 2);
    assert!(!are_lost, "{}", fs::read_to_string(&report).unwrap_or_default());
}

#[test]
fn pebble_issues_after_the_server_was_killed_during_an_order() {
    let pebble =
        Pebble::start(&Options { env: &[("PEBBLE_VA_NOSLEEP", "0"), ("PEBBLE_VA_SLEEPTIME", "5")], ..USUAL });
    let folder = Folder::new();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let site = || {
        let settings = pebble.settings(&format!("folder = \"{}\"", folder.path().display()));
        let listen = format!("listen = [\"127.0.0.1:{}\", \"127.0.0.1:{} tls\"]\n", pebble.http, pebble.tls);
        Site::new().file("hello", "hello").config(&format!("{listen}{settings}"))
    };
    let server = site().start();
    assert!(wait_until(ORDER, || pebble.log().contains("/order-plz")), "{}", pebble.log());
    let children = server.children();
    signal_process(server.pid(), Signal::KILL);
    let all_end = || children.iter().all(|pid| !runs(*pid));
    assert!(wait_until(TIMEOUT, all_end), "its processes end with it");
    drop(server);
    let server = site().start();
    server.wait_for_line("a.example, b.example waits for the lock of another server", TIMEOUT);
    server.wait_for_line(ISSUED, ORDER * 2);
    pebble.check_trusted(pebble.tls);
}

#[test]
fn a_certificate_that_a_mounted_disk_does_not_take_is_not_ordered_again() {
    let mut pebble = Pebble::start(&USUAL);
    let site = pebble.site("");
    let folder = site.home().join("certificates");
    fs::create_dir(&folder).unwrap();
    let _disk = SmallDisk::mount(&folder, "size=128k,mode=700");
    // No order ends before the disk is full.
    pebble.process.end();
    let server = site.start();
    server.wait_for_line("error: no certificate", ORDER);
    let ballast = folder.join("ballast");
    // The last bytes do not fit.
    _ = fs::write(&ballast, vec![0; 256 * 1024]);
    pebble.restart();
    let line = server.wait_for_line("the certificate cannot be stored, and will be once more", ORDER);
    check_has(
        &line,
        &["a.example.pem: No space left on device; make room on its disk; it is tried again in "],
    );
    // A reload makes a stand-in, which does not concern the order.
    fs::remove_file(folder.join("a.example.pem")).unwrap();
    _ = fs::OpenOptions::new().append(true).open(&ballast).unwrap().write_all(&vec![0; 256 * 1024]);
    server.reload();
    assert_eq!(server.get("/hello").text(), "hello");
    fs::remove_file(&ballast).unwrap();
    server.wait_for_line(ISSUED, ORDER);
    assert_eq!(pebble.issued(), 1);
    pebble.check_trusted(pebble.tls);
}

/// The end of the program that was started with these lines.
fn rejected(site: &Site) -> String {
    let mut serve = command();
    let output = output_within(serve.arg("-c").arg(site.write_config()).current_dir(site.home()), TIMEOUT);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).expect("it is text")
}

#[test]
fn a_folder_that_others_can_read_or_that_is_none_prevents_the_start() {
    let site = |folder: &str| {
        let lines = format!(
            "listen = \"127.0.0.1:0 tls\"\nnames = \"a.example\"\nacme = true\n[certificates]\nfolder = \"{folder}\"\n"
        );
        Site::new().file_beside_root("file", "").config(&lines)
    };
    let text = rejected(&site("file/x"));
    assert!(text.contains("cannot create the folder of certificates"), "{text}");
    let open = site("open");
    fs::create_dir(open.home().join("open")).unwrap();
    fs::set_permissions(open.home().join("open"), fs::Permissions::from_mode(0o755)).unwrap();
    let text = rejected(&open);
    assert!(text.contains("chmod 700"), "{text}");
}

#[test]
fn of_several_folders_for_the_state_of_a_service_the_first_has_the_certificates() {
    let site = Site::new().config("listen = \"127.0.0.1:0 tls\"\nnames = \"a.example\"\nacme = true\n");
    let [first, second] = ["first", "second"].map(|name| site.home().join(name));
    // A folder that is refused is named.
    let certificates = first.join("certificates");
    fs::create_dir_all(&certificates).unwrap();
    fs::set_permissions(&certificates, fs::Permissions::from_mode(0o755)).unwrap();
    let mut serve = command();
    serve.arg("-c").arg(site.write_config());
    serve.env("STATE_DIRECTORY", format!("{}:{}", first.display(), second.display()));
    let output = output_within(&mut serve, TIMEOUT);
    let text = String::from_utf8(output.stderr).expect("it is text");
    assert!(text.contains(&format!("chmod 700 {}\n", certificates.display())), "{text}");
}

/// A process that ends is replaced while the folder cannot be used.
#[test]
fn a_folder_that_others_can_read_does_not_stop_what_is_served() {
    let (dead, plain) = (free_port(), free_port());
    let server = Site::new()
        .file("hello", "hello")
        .file_beside_root("ca.pem", authority().pem())
        .config(&format!(
            "listen = [\"127.0.0.1:{plain}\", \"127.0.0.1:0 tls\"]\nnames = \"a.example\"\nacme = true\n\
             [certificates]\nfolder = \"certificates\"\nca = \"ca.pem\"\n\
             authorities = \"https://localhost:{dead}/dir\"\nretry = \"1h\"\n"
        ))
        .start();
    let mode = |bits| {
        let folder = server.home().join("certificates");
        fs::set_permissions(folder, fs::Permissions::from_mode(bits)).expect("it is our folder");
    };
    mode(0o755);
    let error = server.reload_error();
    assert!(error.contains("chmod 700"), "{error}");
    server.replace_workers();
    server.wait_for_line("the hosts keep their certificates until a reload", TIMEOUT);
    assert_eq!(server.get("/hello").text(), "hello");
    mode(0o700);
    server.reload();
    assert_eq!(server.get("/hello").text(), "hello");
}

#[test]
fn a_check_names_what_would_prevent_an_order() {
    let site = Site::new().file_beside_root("eab", "no base64!").config(
        "listen = \"127.0.0.1:0 tls\"\nnames = \"a.example\"\nacme = true\n[certificates]\n\
         folder = \"certificates\"\nca = \"missing.pem\"\neab_key_id = \"1\"\neab_key_file = \"eab\"\n\
         dns_command = \"/no/such/program\"",
    );
    let mut check = command();
    let output = output_of(check.arg("check").arg("-c").arg(site.write_config()));
    let text = String::from_utf8(output.stderr).expect("it is text");
    check_has(&text, &["missing.pem", "it is not base64url", "/no/such/program cannot be executed"]);
    assert!(!site.home().join("certificates").exists(), "a check creates nothing");
}

#[test]
fn a_check_waits_for_no_named_pipe_in_place_of_a_file() {
    let site = Site::new().config(
        "listen = \"127.0.0.1:0 tls\"\nnames = \"a.example\"\nacme = true\n[certificates]\n\
         folder = \"certificates\"\nca = \"pipe\"\neab_key_id = \"1\"\neab_key_file = \"pipe\"",
    );
    assert!(output_of(tool("mkfifo").arg(site.home().join("pipe"))).status.success());
    let output = output_within(command().arg("check").arg("-c").arg(site.write_config()), TIMEOUT);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.matches("pipe: it is not a regular file").count(), 2, "{text}");
}

#[test]
fn a_check_names_what_lies_in_the_place_of_a_certificate() {
    let site = Site::new().file_beside_root("ca.pem", authority().pem()).config(
        "listen = \"127.0.0.1:0 tls\"\nnames = \"a.example\"\nacme = true\n[certificates]\n\
         folder = \"certificates\"\nca = \"ca.pem\"",
    );
    let folder = site.home().join("certificates");
    fs::create_dir_all(folder.join("a.example.pem")).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let output = output_of(command().arg("check").arg("-c").arg(site.write_config()));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("certificates/a.example.pem: Is a directory"), "{text}");
    assert_eq!(output.status.success(), !is_root(), "without root it is a warning: {text}");
}

#[test]
fn challenges_of_other_hosts_are_for_the_programs_that_get_their_certificates() {
    let token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA";
    let path = format!("/.well-known/acme-challenge/{token}");
    for (challenges, of_own) in [("", Some(format!("{token}."))), ("challenges = [\"tls-alpn-01\"]\n", None)]
    {
        let config = format!(
            "listen = [\"127.0.0.1:{}\", \"127.0.0.1:{} tls\"]\nnames = \"a.example\"\nacme = true\n\
             [certificates]\nfolder = \"certificates\"\nauthorities = \"https://127.0.0.1:{}/dir\"\nca = \"ca.pem\"\n{challenges}\
             [[host]]\nnames = \"b.example\"\nroot = \"b\"\nacme = false\n",
            free_port(),
            free_port(),
            free_port()
        );
        let site = Site::new().file_beside_root("ca.pem", authority().pem());
        let server = site.file_beside_root(&format!("b{path}"), "of certbot").config(&config).start();
        let get = |host: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            server.connect().request(request)
        };
        assert_eq!(get("b.example").text(), "of certbot", "{challenges}");
        let response = get("a.example");
        match &of_own {
            Some(begin) => assert!(response.text().starts_with(begin), "{response:?}"),
            None => assert_eq!(response.status, 404, "{response:?}"),
        }
    }
}

#[test]
fn a_dead_authority_costs_no_request() {
    let (dead, plain) = (free_port(), free_port());
    let ca = authority().pem();
    let server = Site::new()
        .file("hello", "hello")
        .file_beside_root("ca.pem", ca)
        .config(&format!(
            "listen = [\"127.0.0.1:{plain}\", \"127.0.0.1:0 tls\"]\nnames = \"a.example\"\nacme = true\n[certificates]\n\
             folder = \"certificates\"\nca = \"ca.pem\"\nauthorities = \"https://localhost:{dead}/dir\"\nretry = \"1h\"\n"
        ))
        .start();
    let line = server.wait_for_line("error: no certificate for a.example", ORDER);
    assert!(line.contains("a self-made certificate is served"), "{line}");
    assert_eq!(server.get("/hello").text(), "hello");
    let is_listed =
        || ["self-made", "last error", "refused"].iter().all(|part| listed(&server).contains(part));
    assert!(wait_until(TIMEOUT, is_listed), "{}", listed(&server));
}

#[test]
fn the_process_that_orders_has_the_account_of_a_reload_as_root() {
    let [dead, tls] = [(); 2].map(|()| free_port());
    let config = |account: u32| {
        format!(
            "listen = \"127.0.0.1:{tls} tls\"\nnames = \"a.example\"\nacme = true\nuser = \"{account}\"\n\
             group = \"{account}\"\n[certificates]\nfolder = \"certificates\"\nca = \"ca.pem\"\n\
             authorities = \"https://localhost:{dead}/dir\"\nretry = \"1h\"\n"
        )
    };
    let accounts = [3_800_000_000 + std::process::id(), 3_810_000_000 + std::process::id()];
    let site = Site::new().file_beside_root("ca.pem", authority().pem());
    let server = site.config(&config(accounts[0])).start();
    let have_all = |account: u32| {
        let line = format!("\nUid:\t{account}\t");
        let status = |pid: u32| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let children = server.children();
        children.len() == 2 && children.into_iter().all(|pid| status(pid).contains(&line))
    };
    assert!(wait_until(TIMEOUT, || have_all(accounts[0])), "{}", server.stderr());
    server.configure(&config(accounts[1]));
    server.reload();
    assert!(wait_until(TIMEOUT, || have_all(accounts[1])), "{}", server.stderr());
}

#[test]
fn a_check_names_a_folder_in_which_nothing_can_be_made_as_root() {
    let site = Site::new().file_beside_root("ca.pem", authority().pem()).config(
        "listen = \"127.0.0.1:0 tls\"\nnames = \"a.example\"\nacme = true\n[certificates]\n\
         folder = \"certificates/new\"\nca = \"ca.pem\"",
    );
    let (outer, file, account) = (site.home().join("certificates"), site.write_config(), 3_800_000_000);
    let folder = outer.join("new");
    let check = || {
        let mut check = tool("setpriv");
        check.args([format!("--reuid={account}"), "--clear-groups".to_owned()]);
        let output = output_of(check.arg(program()).arg("check").arg("-c").arg(&file));
        String::from_utf8(output.stderr).expect("it is text")
    };
    fs::create_dir(&outer).expect("it is our folder");
    let text = check();
    assert!(text.contains("certificates/new: Permission denied; make it"), "{text}");
    fs::create_dir(&folder).expect("it is our folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).expect("it is our folder");
    std::os::unix::fs::chown(&folder, Some(account), None).expect("we are root");
    let text = check();
    assert!(text.contains("certificates/new, cannot be written (Permission denied"), "{text}");
}

#[test]
fn a_user_without_the_rights_to_what_is_stored_learns_what_to_do_as_root() {
    let site = Site::new().file_beside_root("ca.pem", authority().pem()).config(
        "listen = \"127.0.0.1:0 tls\"\nnames = \"a.example\"\nacme = true\n[certificates]\n\
         folder = \"certificates\"\nca = \"ca.pem\"",
    );
    let (folder, config, account) = (site.home().join("certificates"), site.write_config(), 3_800_000_000);
    fs::create_dir(&folder).expect("it is our folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("it is our folder");
    for name in ["a.example.pem", "account.key"] {
        fs::write(folder.join(name), "").expect("it is our folder");
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o600)).expect("it is our file");
    }
    let run = |word: &str| {
        let mut run = tool("setpriv");
        run.args([format!("--reuid={account}"), "--clear-groups".to_owned()]);
        let output = output_of(run.arg(program()).arg(word).arg("-c").arg(&config));
        String::from_utf8(output.stderr).expect("it is text")
    };
    check_has(&run("certificates"), &["/certificates: Permission denied; run this as root, or as the user"]);
    let command = format!("run: chown -R {account} {}", folder.display());
    check_has(&run("check"), &[&format!("/certificates: Permission denied; {command}")]);
    std::os::unix::fs::chown(&folder, Some(account), None).expect("we are root");
    check_has(&run("certificates"), &["a.example.pem: Permission denied; run this as root, or as the user"]);
    let checked = run("check");
    for name in ["a.example.pem", "account.key"] {
        let path = folder.join(name);
        check_has(
            &checked,
            &[&format!("{name}: Permission denied; run: chown {account} {}", path.display())],
        );
    }
}

#[test]
fn root_lists_what_the_server_of_another_user_has_as_root() {
    let site = Site::new().config(
        "listen = \"127.0.0.1:0 tls\"\nnames = \"a.example\"\nacme = true\n[certificates]\nfolder = \"certificates\"",
    );
    let folder = site.home().join("certificates");
    fs::create_dir(&folder).expect("it is our folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("it is our folder");
    fs::write(folder.join("a.example.pem"), "no certificate").expect("it is our folder");
    std::os::unix::fs::chown(&folder, Some(3_800_000_000), None).expect("we are root");
    let output = output_of(command().arg("certificates").arg("-c").arg(site.write_config()));
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = "none: it contains no certificate; the next start replaces the file";
    assert!(output.status.success() && text.contains(expected), "{output:?}");
}

#[test]
fn a_full_disk_that_is_mounted_is_waited_for_while_a_self_made_certificate_is_served() {
    let pebble = Pebble::start(&USUAL);
    let site = pebble.site("challenges = [\"http-01\"]");
    let folder = site.home().join("certificates");
    fs::create_dir(&folder).unwrap();
    let _disk = SmallDisk::mount(&folder, "size=64k,mode=700");
    let fill = folder.join("fill");
    assert!(fs::write(&fill, vec![0; 1 << 20]).is_err(), "it is full");
    let file = site.write_config();
    let checked = output_of(command().arg("check").arg("-c").arg(file));
    let warnings = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && warnings.contains("warning: the disk of the folder"), "{warnings}");
    let server = site.start();
    let line = server.wait_for_line("no certificates are ordered: ", TIMEOUT);
    check_has(
        &line,
        &["account.key", "No space left on device", "make room on its disk; it is tried again in 1 s"],
    );
    let mut curl = tool("curl");
    curl.args(["-sSk", "--connect-to"]).arg(format!("a.example:443:127.0.0.1:{}", pebble.tls));
    assert_eq!(output_of(curl.arg("https://a.example/hello")).stdout, b"hello");
    // The account is known to the challenges, too.
    fs::remove_file(&fill).unwrap();
    let is_trusted = || pebble.get("a.example", pebble.tls).stdout == b"hello";
    assert!(wait_until(ORDER, is_trusted), "{}", server.stderr());
    pebble.check_trusted(pebble.tls);
}

/// `taipan --tls localhost`, with its data in `home`.
fn local(home: &Folder) -> Server {
    local_for("localhost", home)
}

fn local_for(name: &str, home: &Folder) -> Server {
    let mut serve = command();
    serve.arg(home.folder("www")).args(["--tls", name, "--listen", "127.0.0.1:0"]);
    serve.env("XDG_DATA_HOME", home.path()).env("HOME", home.path());
    if is_root() {
        serve.args(["--user", "root"]);
    }
    Server::start(serve, 1, None)
}

/// The response to a client that trusts this authority.
fn get_locally(server: &Server, name: &str, authority: &Path) -> Output {
    let mut curl = tool("curl");
    curl.args(["-sS", "--noproxy", "*", "--cacert"]).arg(authority);
    curl.arg("--connect-to").arg(format!("{name}:443:{}", server.addr()));
    output_of(curl.arg(format!("https://{name}/hello")))
}

#[test]
fn a_local_authority_is_made_once_and_trusted_by_its_file() {
    let home = Folder::new();
    home.file("www/hello", "hello");
    let authority = home.path().join("taipan/authority.pem");
    let get = |server: &Server, name: &str| get_locally(server, name, &authority);
    let first = local(&home);
    first.wait_for_line("  https://localhost:", TIMEOUT);
    let port = first.addr().port();
    let advice = format!("curl --cacert {} https://localhost:{port}/", authority.display());
    first.wait_for_line(&advice, TIMEOUT);
    for name in ["localhost", "127.0.0.1"] {
        let output = get(&first, name);
        assert_eq!(output.stdout, b"hello", "{name}: {output:?}");
    }
    let other = get(&first, "example.org");
    assert_eq!(other.status.code(), Some(60), "another name is not in the certificate: {other:?}");
    let made = fs::read(&authority).unwrap();
    let key = home.path().join("taipan/authority.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    drop(first);
    let second = local(&home);
    assert_eq!(get(&second, "localhost").stdout, b"hello");
    assert_eq!(fs::read(&authority).unwrap(), made, "it is the same authority");
}

/// Such as one that was made when the clock began at 1970.
#[test]
fn a_local_authority_that_has_expired_is_replaced() {
    let home = Folder::new();
    home.file("www/hello", "hello");
    drop(local(&home));
    let folder = home.path().join("taipan");
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "taipan on test");
    (params.not_before, params.not_after) =
        (rcgen::date_time_ymd(1970, 1, 1), rcgen::date_time_ymd(1979, 12, 30));
    let key = rcgen::KeyPair::generate().expect("there is randomness");
    let old = params.self_signed(&key).expect("it is a certificate").pem();
    fs::write(folder.join("authority.key"), [old.as_str(), &key.serialize_pem()].concat()).unwrap();
    fs::write(folder.join("authority.pem"), &old).unwrap();
    let server = local(&home);
    let line = server.wait_for_line("the authority ", TIMEOUT);
    check_has(&line, &["taipan/authority.pem", "1970-01-01 to 1979-12-30"]);
    let authority = folder.join("authority.pem");
    assert_ne!(fs::read_to_string(&authority).unwrap(), old);
    assert_eq!(get_locally(&server, "localhost", &authority).stdout, b"hello");
}

#[test]
fn a_local_authority_whose_key_is_gone_is_replaced_with_a_warning() {
    let home = Folder::new();
    home.file("www/hello", "hello");
    drop(local(&home));
    let (authority, key) =
        (home.path().join("taipan/authority.pem"), home.path().join("taipan/authority.key"));
    let old = fs::read(&authority).unwrap();
    fs::remove_file(&key).unwrap();
    let server = local(&home);
    let line = server.wait_for_line("warn: the key of the authority", TIMEOUT);
    assert!(line.contains(&key.display().to_string()) && line.contains("told to trust"), "{line}");
    assert_ne!(fs::read(&authority).unwrap(), old);
    assert_eq!(get_locally(&server, "localhost", &authority).stdout, b"hello");
}

/// A serving process that is replaced reads its certificate again.
#[test]
fn programs_for_other_local_names_leave_each_other_their_certificates() {
    let home = Folder::new();
    home.file("www/hello", "hello");
    let first = local_for("127.0.0.2", &home);
    let second = local_for("127.0.0.3", &home);
    let authority = home.path().join("taipan/authority.pem");
    // It listens at another address, which its certificate has, too.
    first.wait_for_line(&format!("authority.pem https://{}/", first.addr()), TIMEOUT);
    for (server, name) in [(&first, "127.0.0.2"), (&second, "127.0.0.3")] {
        signal_process(server.serving_pid(), Signal::KILL);
        server.wait_for_line("a new serving process has taken over", TIMEOUT);
        let output = get_locally(server, name, &authority);
        assert_eq!(output.stdout, b"hello", "{name}: {output:?}");
    }
}

#[test]
fn a_home_without_room_for_the_local_authority_is_explained() {
    let home = Folder::new();
    let file = home.file("file", "");
    let mut serve = command();
    serve.arg(home.path()).args(["--tls", "localhost"]).env("HOME", &file).current_dir(home.path());
    if is_root() {
        serve.args(["--user", "root"]);
    }
    // A relative path counts for none.
    let output = output_within(serve.env("XDG_DATA_HOME", "relative"), TIMEOUT);
    let text = String::from_utf8(output.stderr).expect("it is text");
    let folder = file.join(".local/share/taipan");
    assert!(text.contains(&folder.display().to_string()) && text.contains("set XDG_DATA_HOME"), "{text}");
    assert!(!home.path().join("relative").exists());
}

#[test]
fn the_names_of_one_command_line_are_local_or_public() {
    let home = Folder::new();
    for (names, why) in [
        (&["--tls", "localhost", "--tls", "example.org"][..], "not both"),
        (
            &["--tls", "192.168.1.5"][..],
            "no public authority issues a certificate for it; write --tls localhost",
        ),
        (&["--tls", "example.org", "--tls", "nas.local"][..], "--tls nas.local: no public authority"),
    ] {
        let mut serve = command();
        serve.arg(home.path()).args(names);
        let output = output_within(serve.env("XDG_DATA_HOME", home.path()), TIMEOUT);
        let text = String::from_utf8(output.stderr).expect("it is text");
        assert!(output.status.code() == Some(2) && text.contains(why), "{names:?}: {text}");
    }
}
