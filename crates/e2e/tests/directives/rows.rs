//! What runs the rows. The real program serves a configuration of another server, and each row looks at the effect of
//! one directive or flag. The same look at a configuration without directives has to find something else.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use dialects::Dialect;
use e2e::upstream::upstream;
use e2e::{
    Address, BackgroundProcess, Client, Rows, Server, Site, TIMEOUT, Tls, command, is_root, wait_until,
};

/// What a user looks at.
#[derive(Debug, Clone, Copy)]
pub enum Look {
    /// The status, with the body or the Location of a redirect.
    Get(&'static str),
    /// The status and the body of a whole request.
    Ask(&'static str),
    /// As `Get`, the second time.
    Again(&'static str),
    /// A field of the response to this path.
    Field(&'static str, &'static str),
    /// A field of the response to a whole request.
    FieldOf(&'static str, &'static str),
    /// A line of the body at this path, which a script or an upstream makes of its request.
    Told(&'static str),
    /// Whether the body at this path has a part.
    Part(&'static str),
    /// The status of `/` by TLS.
    Secure,
    /// A part of a file beside the root.
    File(&'static str),
    /// Whether there is a file beside the root.
    Exists(&'static str),
    /// A part of the standard error stream.
    Logged,
    /// A line that `taipan convert` prints.
    Line,
    /// The beginning of a line that `taipan convert` does not print.
    NoLine,
    /// A part of what `taipan convert` says.
    Says,
}

/// The directive, what is looked at, and what is there.
pub type Row = (&'static str, Look, &'static str);

/// One process. In its texts, `HOME` is the folder of the test, `UPSTREAM` the address of an upstream, and `PID` the ID
/// of the process.
pub struct Case {
    pub flags: &'static [&'static str],
    pub conf: &'static str,
    pub rows: &'static [Row],
}

/// Directives that are accepted without an effect: names between two texts, each with an argument.
pub struct Needless {
    pub before: &'static str,
    pub names: &'static [&'static str],
    pub argument: &'static str,
    pub behind: &'static str,
}

/// The rows of one server.
pub struct Table {
    pub dialect: Dialect,
    /// The name of its file.
    pub file: &'static str,
    /// What serves without any of the effects.
    pub plain: Case,
    pub cases: &'static [Case],
    /// Those whose directives take the effect of another one away, or have none, so that nothing differs from `plain`.
    pub neutral: &'static [Case],
    pub needless: &'static [Needless],
    /// A flag, all arguments, and a part of what is printed before the program ends.
    pub printed: &'static [(&'static str, &'static [&'static str], &'static str)],
}

/// A password of `ann`: `myPassword`.
pub const HASH: &str = "ann:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n";
const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\necho \"umask=$(umask)\"\necho \"nice=$(( $(nice) - OWN ))\"\n\
                      ulimit -t | sed s/^/cpu=/\nulimit -v | sed s/^/memory=/\necho \"account=$(id -un)\"\necho a message >&2\n";

fn site() -> Site {
    // The tests may run at another niceness than 0.
    let own = rustix::process::getpriority_process(None).expect("it is this process");
    let script = SCRIPT.replace("OWN", &own.to_string());
    Site::new()
        .certificate()
        .file("index.html", "page")
        .file("other.html", "other")
        .file("missing.html", "not here")
        .file("plain", "plain")
        .file("a.own", "own")
        .file("a.two", "two")
        .file("i.png", "png")
        .file("big.txt", "all work and no play ".repeat(200))
        .file("copy.txt", "plain text")
        .file("copy.txt.gz", "compressed")
        .file(".hidden", "hidden")
        .file("sub/page.html", "sub")
        .file("empty/.keep", "")
        .file("private/x", "secret")
        .file("near/x", "near")
        .file("locked/.htpasswd", HASH)
        .file("locked/x", "locked")
        .file("LOCKED.txt", "locked, too")
        .file("open/.htaccess", "Header set X-Access file\n")
        .file("open/x", "open")
        .script("run.cgi", &script)
        .script("cgi-bin/env", &script)
        .script("cgi-bin/slow", "#!/bin/sh\nsleep 3\n")
        .symlink("out", "../icons/i.png")
        .file_beside_root("icons/i.png", "icon")
        .file_beside_root("docs/one.html", "one")
        .file_beside_root("names/a.example/index.html", "by name")
        .file_beside_root("names/default/index.html", "by default")
        .file_beside_root("names/127.0.0.1/index.html", "by address")
        .file_beside_root("names/192.0.2.1/index.html", "by another address")
        .file_beside_root("hosts/127.0.0.1/a.example/htdocs/index.html", "by host")
        .file_beside_root("hosts/127.0.0.1/other/htdocs/index.html", "by other host")
        .script_beside_root("scripts/env.sh", &script)
        .script_beside_root("maker", "#!/bin/sh\necho \"made of $2\"\n")
        .file_beside_root("mime.types", "image/x-own own\n")
        .file_beside_root("throttles", "**.own 100000000\n")
        .file_beside_root("users", HASH)
        .file_beside_root("paths.users", "/locked:ann:open sesame\n")
        .file_beside_root("plain.users", "ann:open sesame\n")
        .file_beside_root("groups", "staff: ann\n")
}

/// A configuration that is served, and what its conversion is.
struct Run {
    server: Option<Server>,
    text: String,
    said: String,
    /// What its upstreams are, apart from threads.
    _wrapper: Option<BackgroundProcess>,
}

impl Run {
    fn new(table: &Table, flags: &[&str], conf: &str, is_served: bool) -> Run {
        let site = site();
        let home = site.home().display().to_string();
        let own = |text: &str| text.replace("HOME", &home);
        let conf = own(conf).replace("UPSTREAM", upstream_address());
        let site = site.file_beside_root(table.file, &conf);
        let output = command()
            .args(["convert", table.file, "--from", table.dialect.name()])
            .current_dir(site.home())
            .output()
            .expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let wrapper = conf.contains("fcgi.sock").then(|| wrapper(site.home()));
        if conf.contains("scgi.sock") {
            serve_scgi(&site.home().join("scgi.sock"));
        }
        // Without flags, the conversion is served.
        let is_file = flags.is_empty();
        if is_file && is_served {
            assert!(output.status.success(), "{} is refused:\n{said}\n{conf}", table.file);
            // Caddy's configuration names no account, and the upstreams are for that of the test.
            let is_caddy = table.dialect.name() == "caddy";
            let text = if is_caddy { text.replace("user = \"nobody\"\n", "") } else { text.clone() };
            let user = if is_root() && !text.contains("\nuser = ") { "user = \"root\"\n" } else { "" };
            fs::write(site.home().join("site.toml"), format!("{user}{text}")).expect("it is our folder");
        }
        let listeners = text.lines().find(|line| line.starts_with("listen = ")).filter(|_| is_file);
        let listeners = listeners.map_or(1, |line| line.matches('"').count() / 2);
        let server = is_served.then(|| {
            site.start_with(listeners, |site| {
                let mut taipan = command();
                taipan.current_dir(site.home());
                match is_file {
                    true => taipan.args(["-c", "site.toml"]),
                    false => taipan.args(flags.iter().map(|flag| own(flag))),
                };
                taipan
            })
        });
        Run { server, text, said, _wrapper: wrapper }
    }

    /// What is found. Of a text that is looked for, `expected` is a part.
    fn found(&self, look: Look, expected: &str, waits: bool) -> String {
        let part = |text: &str| match text.contains(expected) {
            true => expected.to_owned(),
            false => format!("not in: {text}"),
        };
        let server = || self.server.as_ref().expect("the case is served");
        match look {
            Look::Line => match self.text.lines().any(|line| line == expected) {
                true => expected.to_owned(),
                false => format!("no such line in:\n{}", self.text),
            },
            Look::Logged => {
                let is_there =
                    |lines: &[String]| lines.iter().any(|line| line.contains(expected)).then_some(());
                let timeout = if waits { TIMEOUT } else { Duration::ZERO };
                match server().errors().wait_for(timeout, is_there) {
                    Some(()) => expected.to_owned(),
                    None => format!("not in: {}", server().stderr()),
                }
            }
            Look::NoLine => match self.text.lines().find(|line| line.starts_with(expected)) {
                None => expected.to_owned(),
                Some(line) => line.to_owned(),
            },
            Look::Says => part(&self.said),
            Look::Get(path) => answer(&server().get(path)),
            Look::Ask(request) => answer(&server().request(request)),
            Look::Again(path) => {
                server().get(path);
                answer(&server().get(path))
            }
            Look::Field(path, name) => server().get(path).field(name).unwrap_or("none").to_owned(),
            Look::FieldOf(request, name) => {
                let mut found = String::new();
                let mut look = || {
                    found = server().request(request).field(name).unwrap_or("none").to_owned();
                    found == expected
                };
                // A file is compressed in the background.
                wait_until(if waits { TIMEOUT } else { Duration::ZERO }, &mut look);
                found
            }
            Look::Exists(name) => match server().home().join(name).exists() {
                true => "there".to_owned(),
                false => "not there".to_owned(),
            },
            Look::Told(path) => {
                let text = server().get(path).text();
                match text.lines().any(|line| line.eq_ignore_ascii_case(expected)) {
                    true => expected.to_owned(),
                    false => format!("no such line in: {text}"),
                }
            }
            Look::Part(path) => part(&server().get(path).text()),
            Look::Secure => {
                let Some(Address::Tcp(address)) = server().addresses().pop() else {
                    return "no address of TCP".to_owned();
                };
                let mut client = Client::tls(address, &Tls::new());
                match client.handshake() {
                    Ok(()) => client.get("/").status.to_string(),
                    Err(_) => "no TLS".to_owned(),
                }
            }
            Look::File(name) => {
                let path = server().home().join(name);
                let read = || fs::read_to_string(&path).unwrap_or_default();
                if waits {
                    wait_until(TIMEOUT, || read().contains(expected));
                }
                part(&read())
            }
        }
    }
}

/// The status, with the body or the Location of a redirect. Pages of the server itself are left out.
fn answer(response: &e2e::Response) -> String {
    let text = response.field("location").map_or_else(|| response.text(), str::to_owned);
    match text.contains("<!DOCTYPE") {
        true => response.status.to_string(),
        false => format!("{} {}", response.status, text.trim()),
    }
}

/// The address of an upstream that sends the head of a request back.
fn upstream_address() -> &'static str {
    static ADDRESS: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    ADDRESS.get_or_init(|| {
        let url = upstream(|mut stream, head| {
            let fields = "X-Secret: 1\r\nContent-Type: text/plain\r\nConnection: close";
            let length = head.len();
            stream.write_all(
                format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{head}").as_bytes(),
            )
        });
        url.trim_start_matches("http://").to_owned()
    })
}

/// A server of FastCGI, which runs scripts.
fn wrapper(home: &Path) -> BackgroundProcess {
    let mut wrap = command();
    wrap.current_dir(home).args(["fcgi-wrap", "--socket", "fcgi.sock", "--folder", "www"]);
    BackgroundProcess::listening(&mut wrap, &home.join("fcgi.sock"))
}

/// A server of SCGI, which sends the variables of a request back.
fn serve_scgi(socket: &Path) {
    let listener = UnixListener::bind(socket).expect("the folder is ours");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(&stream);
            let mut length = Vec::new();
            // A client that says nothing gets nothing.
            _ = reader.read_until(b':', &mut length);
            length.pop();
            // With the comma at their end.
            let length = String::from_utf8_lossy(&length).parse().map_or(0, |length: usize| length + 1);
            let mut pairs = vec![0; length];
            if reader.read_exact(&mut pairs).is_err() {
                continue;
            }
            pairs.pop();
            let words: Vec<String> = pairs
                .split(|byte| *byte == 0)
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            let lines: String = words.chunks(2).map(|pair| format!("{}\n", pair.join("="))).collect();
            // A client that has disconnected needs no response.
            _ = stream
                .write_all(format!("Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n{lines}").as_bytes());
        }
    });
}

/// Each directive and flag of the server has a row, and each row is true.
pub fn check(table: &Table) {
    let mut rows = Rows::new();
    covers(table, &mut rows);
    let plain = Run::new(table, table.plain.flags, table.plain.conf, true);
    check_case(&table.plain, &plain, &mut rows);
    for case in table.cases {
        let run = started(table, case);
        for (name, look, expected) in check_case(case, &run, &mut rows) {
            let is_without = expected == plain.found(look, &expected, false);
            rows.holds(format!("{name} {look:?}"), "it differs without the directive", !is_without);
        }
    }
    for case in table.neutral {
        check_case(case, &started(table, case), &mut rows);
    }
    for needless in table.needless {
        let lines: String =
            needless.names.iter().map(|name| format!("{name}{}\n", needless.argument)).collect();
        let conf = format!("{}{lines}{}", needless.before, needless.behind);
        let run = Run::new(table, &[], &conf, true);
        let input = format!("{}…", needless.names[0]);
        rows.check(input, run.found(Look::Get("/"), "", false).as_str(), "200 page");
    }
    for (name, arguments, expected) in table.printed {
        let site = site();
        let output = command().args(*arguments).current_dir(site.home()).output().expect("it starts");
        let text = [output.stdout, output.stderr].concat();
        rows.holds(name, expected, String::from_utf8_lossy(&text).contains(expected));
    }
}

fn started(table: &Table, case: &Case) -> Run {
    let is_served =
        case.rows.iter().any(|(_, look, _)| !matches!(look, Look::Line | Look::NoLine | Look::Says));
    Run::new(table, case.flags, case.conf, is_served)
}

/// The rows as they are for this run.
fn check_case(case: &Case, run: &Run, rows: &mut Rows) -> Vec<(&'static str, Look, String)> {
    let pid = run.server.as_ref().map_or(0, Server::pid).to_string();
    let home = run.server.as_ref().map_or(String::new(), |server| server.home().display().to_string());
    let mut checked = Vec::new();
    for (name, look, expected) in case.rows {
        let expected =
            expected.replace("PID", &pid).replace("UPSTREAM", upstream_address()).replace("HOME", &home);
        let found = run.found(*look, &expected, true);
        rows.check(format!("{name} {look:?}"), found.as_str(), expected.as_str());
        checked.push((*name, *look, expected));
    }
    checked
}

/// The rows are those of the directives and flags that the program knows.
fn covers(table: &Table, rows: &mut Rows) {
    let mut known = table.dialect.directives();
    known.extend(table.dialect.flags());
    let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    let mut named = BTreeSet::new();
    for case in table.cases.iter().chain(table.neutral).chain([&table.plain]) {
        for (name, look, _) in case.rows {
            let word = name.rsplit(' ').next().unwrap_or(name);
            let is_flag = word.starts_with('-') && case.flags.contains(&word);
            let is_there = is_flag || case.conf.to_lowercase().contains(&word.to_lowercase());
            rows.holds(format!("{name} {look:?}"), "its case has the directive", is_there);
            named.insert(*name);
        }
    }
    named.extend(table.needless.iter().flat_map(|needless| needless.names));
    named.extend(table.printed.iter().map(|(name, ..)| name));
    rows.check("without a row", known.difference(&named).collect::<Vec<_>>(), Vec::new());
    rows.check("with a row, and not known", named.difference(&known).collect::<Vec<_>>(), Vec::new());
}
