//! The program as users run it: exit codes, signals, files, workers.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use common::{Action, Server, answer, folder, ok};
use load::report::{Format, read};
use load::run::Fault;

fn program(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taipan-bench"));
    command.args(words.split_whitespace()).stdin(Stdio::null());
    command
}

fn output(words: &str) -> Output {
    program(words).output().unwrap()
}

fn check(words: &str, code: i32, in_error: &str) {
    let output = output(words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words}: {error}");
    assert!(error.contains(in_error), "{words}: {error}");
}

#[test]
fn exit_codes_tell_the_outcome() {
    let good = Server::start(|_| ok("hello"));
    let bad = Server::start(|request| match request.number % 10 {
        9 => Action::Send(answer("500 Oops", b"")),
        _ => ok("hello"),
    });
    check(&format!("-n 20 {}", good.url("/")), 0, "");
    check(&format!("-n 20 {}", bad.url("/")), 1, "");
    check(&format!("-n 20 -c 1 --min-availability 90 {}", bad.url("/")), 0, "");
    check("-n 20", 2, "give a URL");
    check("--nonsense", 2, "see taipan-bench --help");
    check("-n 1 http://127.0.0.1:1/", 2, "127.0.0.1:1 refuses connections; start the server");
    check("-c many http://127.0.0.1:1/", 2, "-c takes a number");
    check("--help", 0, "");
}

#[test]
fn writes_every_format_to_a_file() {
    let server = Server::start(|_| ok("hello"));
    let folder = folder("formats");
    for format in Format::ALL {
        let file = folder.join(format.name());
        let output =
            output(&format!("-n 20 --format {} -o {} {}", format.name(), file.display(), server.url("/")));
        assert!(output.status.success() && output.stdout.is_empty(), "{}", format.name());
        assert!(fs::metadata(&file).unwrap().len() > 100, "{}", format.name());
    }
}

#[test]
fn merges_reports() {
    let server = Server::start(|_| ok("hello"));
    let folder = folder("merge");
    let (a, b) = (folder.join("a.json"), folder.join("b.json"));
    for file in [&a, &b] {
        assert!(
            output(&format!("-n 20 --format json -o {} {}", file.display(), server.url("/")))
                .status
                .success()
        );
    }
    let merged = output(&format!("--merge {} {} --format json", a.display(), b.display()));
    let run = read::run(&merged.stdout).unwrap();
    assert_eq!((run.measured.done, run.generators), (40, 2));
    assert_eq!(run.measured.total.count(), 40);
    check(&format!("--merge {} /missing.json", a.display()), 2, "/missing.json");
}

#[test]
fn prints_the_report_so_far_when_interrupted() {
    let server = Server::start(|_| ok("hello"));
    let child = program(&format!("-z 1h --format json {}", server.url("/")))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while server.seen().len() < 20 {
        std::thread::yield_now();
    }
    let id = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(read::run(&output.stdout).unwrap().measured.done >= 10);
}

#[test]
fn a_lack_of_descriptors_is_the_clients_fault() {
    let server = Server::start(|_| ok("hello"));
    let line = format!(
        "ulimit -n 24; exec {} -t 1 -c 40 -n 100 --format json {}",
        env!("CARGO_BIN_EXE_taipan-bench"),
        server.url("/")
    );
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    let run = read::run(&output.stdout).unwrap();
    let measured = &run.measured;
    assert!(measured.faults.of(Fault::NoDescriptors) > 0);
    assert_eq!(measured.failed(), measured.faults.of(Fault::NoDescriptors));
    assert_eq!(measured.finished(), 100);
}

/// A worker, and its address.
fn worker(flags: &str) -> (Child, String) {
    let mut child =
        program(&format!("worker --listen 127.0.0.1:0 {flags}")).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    (child, address)
}

#[test]
fn workers_act_as_one_generator() {
    let folder = folder("workers");
    let (right, wrong) = (folder.join("right"), folder.join("wrong"));
    fs::write(&right, "a secret of enough length\n").unwrap();
    fs::write(&wrong, "another secret of enough length\n").unwrap();
    let server = Server::start(|request| ok(&String::from_utf8_lossy(&request.body)));
    let secret = format!("--secret {}", right.display());
    let (mut one, mut two) = (worker(&secret), worker(&secret));
    let command =
        format!("--workers {},{} -c 4 -n 101 -d body --format json {}", one.1, two.1, server.url("/{1..5}"));
    let both = output(&format!("{secret} {command}"));
    let run = read::run(&both.stdout);
    let refused = output(&format!("--secret {} {command}", wrong.display()));
    for (child, _) in [&mut one, &mut two] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let run = run.unwrap();
    assert_eq!((run.measured.done, run.generators, run.settings.concurrency), (101, 2, 4));
    assert_eq!(run.measured.body_bytes, 404);
    assert_eq!(server.seen().len(), 101);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("secret"));
}

#[test]
fn a_worker_without_a_secret_listens_on_loopback_only() {
    check("worker --listen 0.0.0.0:0", 2, "--secret FILE");
}

#[test]
fn a_worker_forwards_why_nothing_was_measured() {
    let mut worker = worker("");
    let run = output(&format!("--workers {} -n 4 http://127.0.0.1:1/", worker.1));
    worker.0.kill().unwrap();
    worker.0.wait().unwrap();
    assert_eq!(run.status.code(), Some(2));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("127.0.0.1:1 refuses connections"), "{said}");
}

#[test]
fn shows_the_time_left_on_a_terminal_only() {
    let server = Server::start(|_| ok("hello"));
    let words = format!("-z 2s -c 1 --format json {}", server.url("/"));
    let line = format!("{} {words}", env!("CARGO_BIN_EXE_taipan-bench"));
    // `script` of util-linux runs it on a terminal.
    let shown =
        Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("[                              ]   0 %"), "{shown:?}");
    assert!(shown.contains("[###############               ]  50 %  1 s left"), "{shown:?}");
    assert!(shown.contains("requests/s"), "{shown:?}");
    assert_eq!(String::from_utf8_lossy(&output(&words).stderr), "", "not on a terminal");
    let quiet = format!("{line} --quiet");
    let quiet =
        Command::new("script").args(["-qec", &quiet, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    assert!(!String::from_utf8_lossy(&quiet.stdout).contains("left"));
}
