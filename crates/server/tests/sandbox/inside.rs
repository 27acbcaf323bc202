//! The confined process: it opens what a server opens, applies the sandbox of its case, reports that, waits
//! for a line, and runs every attempt. It prints one line per attempt: the name, and `ok` or an error.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use rustix::thread::CapabilitySet;
use rustix::time::{ClockId, clock_gettime};
use server::process::privilege;
use server::process::sandbox::{self, Active, Confinement, Connects, Pipes, Reads, Writes};
use server::sys;
use site::model::{Sandbox, Site};

use crate::attempts::{Attempt, Here, MUST_FAIL, MUST_WORK};

/// The first argument of such a process.
pub const WORD: &str = "--inside";
/// The first argument of a process that others attack.
pub const VICTIM: &str = "--victim";

pub fn wait_for_end() -> ExitCode {
    _ = io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}

pub fn run(arguments: &[String]) -> ExitCode {
    let [case, home, port, victim] = arguments else { return ExitCode::from(2) };
    let mut here = prepare(home, port, victim);
    let active = match case.as_str() {
        "free" => confine(&here, Connects::Nowhere, Sandbox::Off),
        "confined" | "abort" => confine(&here, Connects::Nowhere, Sandbox::On),
        "required" => confine(&here, Connects::Nowhere, Sandbox::Required),
        "unix" => confine(&here, Connects::Unix, Sandbox::On),
        "port" => {
            let ports = [here.port, 0, 0, 0, 0, 0, 0, 0, 0];
            confine(&here, Connects::Ports(ports), Sandbox::On)
        }
        "other port" => {
            let ports = [here.port ^ 1, 0, 0, 0, 0, 0, 0, 0, 0];
            confine(&here, Connects::Ports(ports), Sandbox::On)
        }
        "everywhere" => apply(Reads::Everywhere, Connects::Nowhere, Sandbox::On),
        "another user" => change_user(&here).and_then(|()| confine(&here, Connects::Nowhere, Sandbox::On)),
        "chroot" => privilege::chroot(&here.home, None).and_then(|()| {
            here.home = PathBuf::from("/");
            change_user(&here)?;
            confine(&here, Connects::Nowhere, Sandbox::On)
        }),
        "threads" => {
            let thread = std::thread::spawn(std::thread::park);
            let active = confine(&here, Connects::Nowhere, Sandbox::Required);
            thread.thread().unpark();
            active
        }
        "Landlock alone" => lack_filters().and_then(|()| confine(&here, Connects::Nowhere, Sandbox::On)),
        "no clock" => lack(libc::SYS_clock_gettime)
            .and_then(|()| confine(&here, Connects::Nowhere, Sandbox::On))
            .inspect(|_| report("seconds", &clock_gettime(ClockId::RealtimeCoarse).tv_sec.to_string())),
        "no Landlock" => lack(libc::SYS_landlock_create_ruleset).and_then(|()| both(&here)),
        "no seccomp" => lack_filters().and_then(|()| both(&here)),
        other => Err(format!("a case {other}")),
    };
    match active {
        Ok(active) => report("confined", &format!("{}\t{active}", port_of(&here.listener))),
        Err(text) => {
            report("refused", &text);
            return ExitCode::SUCCESS;
        }
    }
    // The parent prepares the next attempts now.
    _ = io::stdin().read_line(&mut String::new());
    if case == "abort" {
        std::process::abort();
    }
    attempt_all(&mut here);
    ExitCode::SUCCESS
}

fn prepare(home: &str, port: &str, victim: &str) -> Here {
    let home = PathBuf::from(home);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Here {
        www: rustix::fs::open(home.join("www"), flags, Mode::empty()).expect("the root is there"),
        listener: TcpListener::bind("127.0.0.1:0").expect("a port is free"),
        log: OpenOptions::new().append(true).create(true).open(home.join("log")).expect("a log can be made"),
        capabilities: rustix::thread::capabilities(None).expect("its own limit can be read"),
        victim: victim.parse().ok().and_then(Pid::from_raw).expect("the id of a process"),
        port: port.parse().expect("a port"),
        home,
    }
}

fn confine(here: &Here, connects: Connects, sandbox: Sandbox) -> Result<Active, String> {
    let roots = ["www", "app/current", "missing"].map(|root| here.home.join(root));
    apply(Reads::Beneath(roots.iter().map(PathBuf::as_path).collect()), connects, sandbox)
}

fn apply(reads: Reads<'_>, connects: Connects, sandbox: Sandbox) -> Result<Active, String> {
    let (pipes, writes) = (Pipes::None, Writes::Nowhere);
    sandbox::apply(
        &Confinement { reads, open: None, connects, pipes, writes, publishes: Vec::new() },
        sandbox,
    )
}

/// Changes the user, by numbers that need no account. Without permission, the user stays.
fn change_user(here: &Here) -> Result<(), String> {
    if !here.capabilities.effective.contains(CapabilitySet::SETUID | CapabilitySet::SETGID) {
        return Ok(());
    }
    let mut site = Site::folder(Path::new("/").to_owned(), Vec::new());
    (site.user, site.group) = (Some("65534".to_owned()), Some("65534".to_owned()));
    privilege::Identity::of(&site)?.ok_or("root stays root")?.assume()
}

/// Makes the kernel behave as one without `call`.
fn lack(call: libc::c_long) -> Result<(), String> {
    load(&[LOAD_CALL, unless(call as u32, 1), errno(libc::ENOSYS), ALLOW])
}

/// Makes the kernel behave as one that filters no system calls, by whatever call.
fn lack_filters() -> Result<(), String> {
    load(&[
        LOAD_CALL,
        unless(libc::SYS_seccomp as u32, 1),
        errno(libc::ENOSYS),
        unless(libc::SYS_prctl as u32, 3),
        LOAD_FIRST_ARGUMENT,
        unless(libc::PR_SET_SECCOMP as u32, 1),
        errno(libc::EINVAL),
        ALLOW,
    ])
}

fn load(filter: &[libc::sock_filter]) -> Result<(), String> {
    let loaded = rustix::thread::set_no_new_privs(true).and_then(|()| sys::load_filter(filter, 0));
    loaded.map_err(|error| format!("it cannot be shown here ({error})"))
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const VERDICT: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const LOAD_CALL: libc::sock_filter = libc::sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 };
/// The lower half, where that comes first.
const LOAD_FIRST_ARGUMENT: libc::sock_filter = libc::sock_filter { code: LOAD, jt: 0, jf: 0, k: 16 };
const ALLOW: libc::sock_filter =
    libc::sock_filter { code: VERDICT, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };

fn errno(errno: libc::c_int) -> libc::sock_filter {
    libc::sock_filter { code: VERDICT, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | errno as u32 }
}

/// Skips so many instructions unless the loaded value is this one.
fn unless(value: u32, skipped: u8) -> libc::sock_filter {
    let jump = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    libc::sock_filter { code: jump, jt: 0, jf: skipped, k: value }
}

/// Preferred: missing parts are reported. Required: the sandbox fails.
fn both(here: &Here) -> Result<Active, String> {
    let active = confine(here, Connects::Nowhere, Sandbox::On)?;
    report("preferred", &active.to_string());
    confine(here, Connects::Nowhere, Sandbox::Required)
}

fn attempt_all(here: &mut Here) {
    let failing = MUST_FAIL.iter().map(|(name, _, _, attempt)| (name, attempt));
    for (name, attempt) in failing.chain(MUST_WORK.iter().map(|(name, attempt)| (name, attempt))) {
        report(name, &outcome(*attempt, here));
    }
    execute();
}

fn outcome(attempt: Attempt, here: &mut Here) -> String {
    match attempt(here) {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.raw_os_error().map_or_else(|| error.to_string(), |number| number.to_string()),
    }
}

/// Replaces this process, if it works.
fn execute() {
    use std::os::unix::process::CommandExt;
    let error = Command::new("/bin/sh").args(["-c", "printf 'become a shell\\tok\\n'"]).exec();
    report("become a shell", &error.raw_os_error().unwrap_or_default().to_string());
}

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().map_or(0, |address| address.port())
}

fn report(name: &str, what: &str) {
    let mut out = io::stdout();
    // The parent may have ended.
    _ = writeln!(out, "{name}\t{what}").and_then(|()| out.flush());
}
