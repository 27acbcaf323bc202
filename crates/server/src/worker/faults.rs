//! Every system call fails once, in every plausible way. Then a client receives a complete response, an error or a
//! closed connection, but never wrong bytes. Every descriptor and permit is released, each request has its log line,
//! nothing panics, and the request succeeds when it is sent again.
//!
//! The runs are in a child process, because the plan of faults and the number of descriptors belong to a whole process.
//! `TAIPAN_FAULT="tcp send 3 EPIPE"` repeats one case, `TAIPAN_FAULT_SEED` chooses among the many cases, and
//! `TAIPAN_FAULT=all` runs all of them.

mod cases;
mod check;
mod client;
mod fixture;
mod retention;

use std::cell::Cell;
use std::fmt;
use std::fs::{self, DirEntry};
use std::net::SocketAddr;
use std::process::Command as Program;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use site::address::Address;
use site::model::Site;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::spawn_local;

use super::{WorkerCommand, build, serve};
use crate::connection::Connections;
use crate::files::roots::OpenRoots;
use crate::finding::Unusable;
use crate::log;
use crate::master::sockets::Sockets;
use crate::services::Services;
use crate::stats::Block;
use crate::sys::faulty::plan::{self, CALLS, Call, Case, Which};
use cases::Choice;
use check::Harm;
use client::{Outcome, Outcomes, PLAIN, SCRIPT};
use fixture::{Fixture, descriptors};

/// Set in the child process.
const IN_CHILD: &str = "TAIPAN_FAULT_CHILD";
const CASE: &str = "TAIPAN_FAULT";
const SEED: &str = "TAIPAN_FAULT_SEED";

/// How long the end of the last connection may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The series stops after this many failures.
const MAX_FAILURES: usize = 20;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// The kind of socket that the server listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Unix,
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if *self == Transport::Unix { "unix" } else { "tcp" })
    }
}

/// The results of a run.
pub struct Run {
    outcomes: Outcomes,
    /// The requests that failed, sent again; and a plain request.
    again: Vec<(usize, usize, Outcome)>,
    plain: Outcome,
    /// Lines of the access log.
    lines: Vec<String>,
    errors: Vec<String>,
    /// How often the fault happened.
    struck: u64,
    counts: [u64; CALLS.len()],
    panics: usize,
    left: Left,
}

/// Resources that were not released.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    connections: usize,
    streams: usize,
    waiting_for_disk: usize,
    descriptors: usize,
}

#[test]
fn survives_the_failure_of_any_call() {
    if std::env::var_os(IN_CHILD).is_some() {
        return all_cases();
    }
    let program = std::env::current_exe().unwrap();
    let name = concat!(module_path!(), "::survives_the_failure_of_any_call");
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    let output = Program::new(program).args(["--exact", name, "--nocapture"]).env(IN_CHILD, "1").output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    print!("{text}");
    assert!(output.status.success() && text.contains("1 passed"), "see above");
}

fn all_cases() {
    let seed = std::env::var(SEED).map_or(1, |seed| seed.parse().expect("a seed is a number"));
    let only = std::env::var(CASE).ok();
    std::panic::set_hook(Box::new(|panic| {
        if !panic.payload().downcast_ref::<String>().is_some_and(|text| text.starts_with("on purpose")) {
            eprintln!("{panic}");
        }
        PANICS.fetch_add(1, Ordering::Relaxed);
    }));
    let fixture = Fixture::new();
    let site = fixture.site();
    log::start(
        &site.log,
        log::open(&site, Unusable::Rejected).unwrap(),
        Block::private().dropped_lines(),
        || {},
    )
    .unwrap();
    let began = Instant::now();
    // The first run opens descriptors that stay, such as those of the runtime.
    run(&fixture, &site, Transport::Tcp, None, &Vec::new());
    let reference = run(&fixture, &site, Transport::Tcp, None, &Vec::new());
    check::reference(&fixture, &reference);
    let counts = CALLS.iter().map(|(call, name)| format!("{name} {}", reference.counts[*call as usize]));
    println!("calls of a run: {}", counts.collect::<Vec<_>>().join(", "));
    retention::all(&site);
    let series = Series { fixture, site, reference, seed, lost: Cell::new(0), reported: Cell::new(0) };
    let runs = match only.as_deref() {
        None => series.all(Choice::Some),
        Some("all") => series.all(Choice::All),
        Some(case) => {
            let (over, case) = case.split_once(' ').expect("tcp or unix, and a case");
            let over = [Transport::Tcp, Transport::Unix].into_iter().find(|o| o.to_string() == over);
            let over = over.expect("tcp or unix");
            let (run, verdict) = series.one(over, case.parse().unwrap());
            for line in run.errors.iter().chain(&run.lines) {
                println!("{line}");
            }
            for (number, index, outcome) in &run.again {
                println!("sent again, {number}-{index}: {}", check::shown(outcome));
            }
            verdict.unwrap();
            1
        }
    };
    println!("{runs} runs in {:.1} s", began.elapsed().as_secs_f64());
}

struct Series {
    fixture: Fixture,
    site: Site,
    reference: Run,
    seed: u64,
    /// Log lines that were not written, and those of them that the log reports as dropped.
    lost: Cell<usize>,
    reported: Cell<usize>,
}

impl Series {
    /// Returns the number of runs.
    fn all(&self, choice: Choice) -> usize {
        let (mut runs, mut failures) = (0, Vec::new());
        let mut note = |over: Transport, case: Case| {
            let (run, verdict) = self.one(over, case);
            runs += 1;
            if let Err(what) = verdict {
                println!("{what}");
                failures.push(what);
            }
            assert!(failures.len() < MAX_FAILURES, "too many failures");
            run.struck
        };
        for case in cases::lasting() {
            note(Transport::Tcp, case);
            if cases::is_invisible(&case) {
                note(Transport::Unix, case);
            }
        }
        for (call, _) in CALLS {
            let usual = self.reference.counts[*call as usize];
            for (kind, fault) in cases::plausible(*call).into_iter().enumerate() {
                let mut n = 0;
                loop {
                    n += 1;
                    let is_chosen = cases::is_chosen(choice, self.seed, *call, kind, n, usual);
                    let case = Case { call: Some(*call), which: Which::Nth(n), fault };
                    if is_chosen && note(Transport::Tcp, case) == 0 {
                        break;
                    }
                }
            }
        }
        failures.extend(self.all_reported().err());
        assert!(failures.is_empty(), "{} of {runs} failed:\n{}", failures.len(), failures.join("\n"));
        runs
    }

    /// The log reports dropped lines at most once a second.
    fn all_reported(&self) -> Result<(), String> {
        let until = Instant::now() + TIMEOUT;
        while self.reported.get() < self.lost.get() && Instant::now() < until {
            log::flush();
            self.reported.update(|reported| reported + check::reported(&self.fixture.take_lines("error")));
            std::thread::sleep(Duration::from_millis(10));
        }
        match (self.lost.get(), self.reported.get()) {
            (lost, reported) if lost == reported => Ok(()),
            (lost, reported) => Err(format!("{lost} log lines are missing, but the log reports {reported}")),
        }
    }

    fn one(&self, over: Transport, case: Case) -> (Run, Result<(), String>) {
        let run = run(&self.fixture, &self.site, over, Some(case), &self.reference.outcomes);
        self.lost.update(|lost| lost + check::lost(&run));
        self.reported.update(|reported| reported + check::reported(&run.errors));
        let verdict = check::run(&case, &self.reference, &run).map_err(|what| {
            format!("{over} {case} (seed {}): {what}; to repeat it: {CASE}=\"{over} {case}\"", self.seed)
        });
        (run, verdict)
    }
}

/// Runs a worker from its start to its end, with clients that send the requests of the script. Requests whose outcome
/// differs from `expected` are sent again.
fn run(fixture: &Fixture, site: &Site, over: Transport, case: Option<Case>, expected: &Outcomes) -> Run {
    let panics = PANICS.load(Ordering::Relaxed);
    let before = descriptors();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build_local(Default::default())
        .unwrap();
    let mut run = runtime.block_on(async {
        let address = match over {
            Transport::Tcp => Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))),
            Transport::Unix => Address::Unix(fixture.socket()),
        };
        let bound = Sockets::default().changed_to(&[address.into()], 1).unwrap();
        let server = bound.iter().next().map(|bound| bound.actual.clone()).unwrap();
        let sockets = bound.per_worker(&[], 1).into_iter().flatten().collect();
        let (connections, closing) =
            build(Services::new(site.clone(), None), OpenRoots::of(site), None, Vec::new(), None).unwrap();
        let (tell, commands) = unbounded_channel();
        let living = spawn_local(serve(connections.clone(), sockets, closing, commands, || ()));
        plan::arm(case);
        let (done, finished) = tokio::sync::oneshot::channel();
        let expected = expected.clone();
        let lasting = lasting(case);
        let client = std::thread::spawn(move || _ = done.send(send_script(&server, &expected, lasting)));
        let (outcomes, again, plain) = finished.await.unwrap();
        client.join().unwrap();
        let left = unreleased(&connections).await;
        tell.send(WorkerCommand::Leave).unwrap();
        tokio::time::timeout(TIMEOUT, living).await.expect("it leaves").unwrap().unwrap();
        Run {
            outcomes,
            again,
            plain,
            left,
            lines: Vec::new(),
            errors: Vec::new(),
            struck: 0,
            counts: plan::counts(),
            panics: 0,
        }
    });
    drop(runtime);
    await_helpers();
    log::flush();
    run.struck = plan::disarm();
    run.counts[Call::Write as usize] = plan::counts()[Call::Write as usize];
    run.lines = fixture.take_lines("access");
    run.errors = fixture.take_lines("error");
    run.panics = PANICS.load(Ordering::Relaxed) - panics;
    run.left.descriptors = descriptors().saturating_sub(before);
    if case.is_some_and(|case| case.fault == plan::Fault::Truncated) {
        fixture.restore();
    }
    run
}

/// Waits until the helper threads of a worker that has ended have ended, too.
fn await_helpers() {
    let until = Instant::now() + TIMEOUT;
    let is_helper = |task: &DirEntry| fs::read(task.path().join("comm")).is_ok_and(|name| name == b"disk\n");
    while fs::read_dir("/proc/self/task").unwrap().flatten().any(|task| is_helper(&task)) {
        assert!(Instant::now() < until, "a helper thread hangs");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How long the fault is active: until the logs are written, or while the client sends the script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lasting {
    UntilTheEnd,
    DuringTheScript,
}

fn lasting(case: Option<Case>) -> Lasting {
    match case.and_then(|case| case.call) {
        Some(Call::Write) => Lasting::UntilTheEnd,
        _ => Lasting::DuringTheScript,
    }
}

fn send_script(
    server: &Address,
    expected: &Outcomes,
    lasting: Lasting,
) -> (Outcomes, Vec<(usize, usize, Outcome)>, Outcome) {
    let outcomes = client::run_script(server);
    if lasting == Lasting::DuringTheScript {
        plan::pause();
    }
    let mut again = Vec::new();
    for (number, (outcome, wanted)) in outcomes.iter().zip(expected).enumerate() {
        for (index, (outcome, wanted)) in outcome.iter().zip(wanted).enumerate() {
            if Harm::of(outcome, wanted) != Harm::None {
                again.push((
                    number,
                    index,
                    client::request_again(server, number, SCRIPT[number].requests, index),
                ));
            }
        }
    }
    let plain = client::request_again(server, SCRIPT.len(), PLAIN.requests, 0);
    (outcomes, again, plain)
}

/// Waits until the worker has released the resources of all clients.
async fn unreleased(of: &Connections) -> Left {
    let until = Instant::now() + TIMEOUT;
    loop {
        let left = Left {
            connections: of.connections(),
            streams: of.services.disk.streams(),
            waiting_for_disk: of.services.disk.waiting(),
            descriptors: 0,
        };
        if left == Left::default() || Instant::now() >= until {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
