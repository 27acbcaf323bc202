//! The tests: each starts processes in its own folder and compares their reports with the expected ones.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::thread::CapabilitySet;
use server::process::sandbox::{self, Active};

use crate::attempts::{Layer, MUST_FAIL, MUST_WORK, Needs};
use crate::inside;

pub const TESTS: &[(&str, fn())] = &[
    ("every_attempt_succeeds_without_a_sandbox", every_attempt_succeeds_without_a_sandbox),
    (
        "the_sandbox_stops_every_attempt_and_allows_serving",
        the_sandbox_stops_every_attempt_and_allows_serving,
    ),
    ("landlock_alone_stops_its_attempts", landlock_alone_stops_its_attempts),
    ("a_required_sandbox_applies_completely_or_fails", a_required_sandbox_applies_completely_or_fails),
    ("reports_or_refuses_missing_kernel_features", reports_or_refuses_missing_kernel_features),
    ("reports_threads_that_are_not_confined", reports_threads_that_are_not_confined),
    ("the_clock_is_read_without_a_system_call", the_clock_is_read_without_a_system_call),
    ("an_abort_ends_the_process", an_abort_ends_the_process),
];

/// Longer than a test takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(180);
const ABSENT: &str = "2";
const DENIED: &str = "13";
const NO_SUCH_CALL: &str = "38";
const REFUSED: &str = "1";
const OK: &str = "ok";

/// Results of a case that differ from the usual ones, by attempt.
type Differences<'a> = &'a [(&'static str, &'static str)];

fn every_attempt_succeeds_without_a_sandbox() {
    let report = Case::new("free").run();
    for (name, _, needs, _) in MUST_FAIL {
        match needs {
            _ if report.of(name) == OK => {}
            needs if has(*needs) => panic!("{name:?} fails without a sandbox, too: {}", report.of(name)),
            _ => println!("  cannot be shown as this user: {name} ({})", report.of(name)),
        }
    }
    assert_eq!(report.of("become a shell"), OK);
    report.all_works();
}

fn the_sandbox_stops_every_attempt_and_allows_serving() {
    let here = available();
    let reading: Differences = &[
        ("read a file outside", OK),
        ("read a file outside by a link in the root", OK),
        ("read a file outside from a folder in the root", OK),
        ("list a folder outside", OK),
        ("read one's own memory map", OK),
        // A process without capabilities can read what its user may.
        ("read /etc/shadow", if is_root() { OK } else { DENIED }),
    ];
    // The filter allows `bind`, for UDP; Landlock restricts ports since its fourth version.
    let bind = if here.landlock >= Some(4) { DENIED } else { NO_SUCH_CALL };
    let cases: &[(&str, Differences)] = &[
        ("confined", &[]),
        ("another user", &[]),
        ("unix", &[("connect to a Unix socket", OK)]),
        ("port", &[("connect over TCP", OK), ("send over UDP", OK), ("bind a new port", bind)]),
        (
            "other port",
            &[
                ("connect over TCP", if here.landlock >= Some(4) { DENIED } else { OK }),
                ("send over UDP", OK),
                ("bind a new port", bind),
            ],
        ),
        ("everywhere", reading),
        (
            "chroot",
            &[
                ("read /etc/shadow", ABSENT),
                ("read one's own memory map", ABSENT),
                ("write one's own memory by its file", ABSENT),
            ],
        ),
    ];
    for layer in [Layer::Landlock, Layer::Filter].iter().filter(|layer| !has_layer(&here, **layer)) {
        println!("  cannot be shown on this machine: what {layer:?} stops");
    }
    for (case, otherwise) in cases {
        if *case == "chroot" && !has(Needs::Capability(CapabilitySet::SYS_CHROOT)) {
            println!("  cannot be shown as this user: {case}");
            continue;
        }
        let report = Case::new(case).run();
        println!("  {case}: {}", report.active);
        for (name, layer, _, _) in MUST_FAIL {
            let other = otherwise.iter().find(|(other, _)| other == name).map(|(_, expected)| *expected);
            let expected = other.map_or_else(|| layer.error().to_string(), str::to_owned);
            if has_layer(&here, *layer) {
                assert_eq!(report.of(name), expected, "{case}: {name}");
            }
        }
        if here.seccomp {
            assert_ne!(report.of("become a shell"), OK, "{case}");
        }
        report.all_works();
    }
}

fn landlock_alone_stops_its_attempts() {
    // The first Landlock version that stops it, and the error.
    let stopped: &[(&str, u32, &str)] = &[
        ("read a file outside", 1, DENIED),
        ("write a document", 1, DENIED),
        ("make a file in the root", 1, DENIED),
        ("remove a file in the root", 1, DENIED),
        ("rename a file in the root", 1, DENIED),
        ("make a folder in the root", 1, DENIED),
        ("make a link in the root", 1, DENIED),
        ("make a second name in the root", 1, DENIED),
        ("run a shell", 1, DENIED),
        ("become a shell", 1, DENIED),
        ("trace another process", 1, REFUSED),
        ("mount a file system", 1, REFUSED),
        ("get capabilities back", 1, if has_any() { REFUSED } else { OK }),
        ("connect over TCP", 4, DENIED),
        ("bind a new port", 4, DENIED),
        ("signal another process", 6, REFUSED),
    ];
    let here = available();
    let report = Case::new(if here.seccomp { "Landlock alone" } else { "confined" }).run();
    for (name, version, expected) in stopped {
        match here.landlock >= Some(*version) {
            true => assert_eq!(report.of(name), *expected, "{name}"),
            false => println!("  cannot be shown on this machine: {name}"),
        }
    }
    report.all_works();
}

fn a_required_sandbox_applies_completely_or_fails() {
    let here = available();
    let report = Case::new("required").run();
    match here.missing.is_empty() {
        true => assert_eq!(report.active, here.to_string()),
        false => {
            assert_eq!(report.active, "", "it is refused");
            for missing in &here.missing {
                assert!(
                    report.of("refused").contains(missing),
                    "{missing} is reported: {}",
                    report.of("refused")
                );
            }
        }
    }
}

fn reports_or_refuses_missing_kernel_features() {
    for (case, part, todo) in [
        ("no Landlock", "no Landlock", "CONFIG_SECURITY_LANDLOCK"),
        ("no seccomp", "no seccomp", "system calls"),
    ] {
        let report = Case::new(case).run();
        if report.of("refused").contains("cannot be shown here") {
            println!("  {case}: {}", report.of("refused"));
            continue;
        }
        for text in ["no capabilities, no new privileges", part, todo] {
            assert!(report.of("preferred").contains(text), "{case}: {text:?} in {}", report.of("preferred"));
        }
        for text in ["the sandbox is required", todo, "`sandbox = \"on\"`"] {
            assert!(report.of("refused").contains(text), "{case}: {text:?} in {}", report.of("refused"));
        }
    }
}

fn reports_threads_that_are_not_confined() {
    let report = Case::new("threads").run();
    assert!(report.of("refused").contains("1 earlier threads stay outside"), "{}", report.of("refused"));
}

fn the_clock_is_read_without_a_system_call() {
    let report = Case::new("no clock").run();
    if report.of("refused").contains("cannot be shown here") {
        println!("  no clock: {}", report.of("refused"));
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_secs();
    let seconds: u64 = report.of("seconds").parse().expect("the time is reported");
    assert!(now.abs_diff(seconds) <= PATIENCE.as_secs(), "{seconds}, and not {now}");
}

fn an_abort_ends_the_process() {
    // musl sends the signal by a call that could signal other processes, too; without that call, it crashes.
    let ended = Case::new("abort").run().status.signal();
    assert!(matches!(ended, Some(libc::SIGABRT | libc::SIGSEGV)), "{ended:?}");
}

/// The features of this machine; printed, so that the log shows why some attempts were skipped.
fn available() -> Active {
    let here = sandbox::available();
    println!("  this machine: {here}");
    here
}

fn has_layer(here: &Active, layer: Layer) -> bool {
    match layer {
        Layer::Landlock => here.landlock.is_some(),
        Layer::Filter => here.seccomp,
    }
}

fn has(needs: Needs) -> bool {
    match needs {
        Needs::Nothing => true,
        Needs::Root => is_root(),
        Needs::Capability(one) => {
            rustix::thread::capabilities(None).is_ok_and(|own| own.effective.contains(one))
        }
    }
}

/// Without capabilities, there are none to get back, and the attempt works.
fn has_any() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|own| !own.permitted.is_empty())
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A running process of a case, with its folder.
struct Case {
    home: PathBuf,
    child: Child,
    victim: Child,
    /// A listener to connect to.
    _outside: (TcpListener, UnixListener),
}

/// The report of a process.
struct Report {
    active: String,
    outcomes: BTreeMap<String, String>,
    status: ExitStatus,
}

impl Case {
    fn new(case: &str) -> Case {
        let home = make_home(case);
        let outside = (
            TcpListener::bind("127.0.0.1:0").expect("a port is free"),
            UnixListener::bind(home.join("socket")).expect("a socket can be made"),
        );
        // So that another user may connect.
        fs::set_permissions(home.join("socket"), fs::Permissions::from_mode(0o666)).expect("it is ours");
        let port = outside.0.local_addr().expect("it is bound").port();
        let itself = std::env::current_exe().expect("it runs");
        let victim =
            Command::new(&itself).arg(inside::VICTIM).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut command = Command::new(&itself);
        command.args([inside::WORD, case]).arg(&home).args([port.to_string(), victim.id().to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        Case { home, child, victim, _outside: outside }
    }

    /// Waits for its end.
    fn run(mut self) -> Report {
        let mut lines = BufReader::new(self.child.stdout.take().expect("it is a pipe")).lines();
        let mut input = self.child.stdin.take().expect("it is a pipe");
        let home = self.home.clone();
        let (sender, receiver) = channel();
        // A thread, so that the wait has a timeout.
        thread::spawn(move || {
            let (mut active, mut outcomes) = (String::new(), BTreeMap::new());
            while let Some(Ok(line)) = lines.next() {
                let Some((name, what)) = line.split_once('\t') else { continue };
                match (name, what.split_once('\t')) {
                    ("confined", Some((port, text))) => {
                        active = text.to_owned();
                        release(&home);
                        ask(port.parse().expect("a port"), &mut input);
                    }
                    _ => _ = outcomes.insert(name.to_owned(), what.to_owned()),
                }
            }
            _ = sender.send((active, outcomes));
        });
        let report = receiver.recv_timeout(PATIENCE);
        if report.is_err() {
            _ = self.child.kill();
        }
        let status = self.child.wait().expect("it is our child");
        let (active, outcomes) = report.expect("it ends in time");
        Report { active, outcomes, status }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        _ = self.victim.kill();
        _ = self.victim.wait();
        _ = fs::remove_dir_all(&self.home);
    }
}

impl Report {
    fn of(&self, name: &str) -> &str {
        self.outcomes.get(name).map_or("", String::as_str)
    }

    fn all_works(&self) {
        for (name, _) in MUST_WORK {
            assert_eq!(self.of(name), OK, "{name}, with {}", self.active);
        }
    }
}

fn make_home(case: &str) -> PathBuf {
    let name = format!("taipan-sandbox-{}-{}", std::process::id(), case.replace(' ', "-"));
    let home = std::env::temp_dir().canonicalize().expect("it is there").join(name);
    for folder in ["www/folder", "app/releases/1", "app/releases/2", "mounted"] {
        fs::create_dir_all(home.join(folder)).expect("a folder can be made");
    }
    for (name, content) in [
        ("secret", "a secret"),
        ("www/document", "a document"),
        ("www/folder/page", "a page"),
        ("www/to-remove", "x"),
        ("www/to-rename", "x"),
        ("app/releases/1/which", "first"),
        ("app/releases/2/which", "next"),
    ] {
        fs::write(home.join(name), content).expect("a file can be written");
    }
    symlink("../secret", home.join("www/link-to-secret")).expect("a link can be made");
    symlink("releases/1", home.join("app/current")).expect("a link can be made");
    home
}

/// Continues with the next part.
fn release(home: &Path) {
    let next = home.join("app/next");
    symlink("releases/2", &next).expect("a link can be made");
    fs::rename(next, home.join("app/current")).expect("the links are exchanged");
}

/// Connects to a listener that is about to accept, and lets the process continue.
fn ask(port: u16, input: &mut impl Write) {
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    client.write_all(b"word").expect("it is connected");
    // A process that ends at once does not read it.
    _ = input.write_all(b"\n");
    thread::spawn(move || client.read_to_end(&mut Vec::new()));
}
