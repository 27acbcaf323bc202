//! Every call fails once, in every plausible way, and the server must not mind: whoever asks gets a whole
//! answer, an error, or a closed connection, but never wrong bytes; every descriptor and place is given back;
//! each request has its line in the log; nothing panics; and what failed works when it is asked for again.
//!
//! The runs have a process of their own, for the plan of faults and the descriptors are counted for all of it.
//! `TAIPAN_FAULT="tcp send 3 EPIPE"` repeats one case, `TAIPAN_FAULT_SEED` chooses among those that would take too
//! long together, and `TAIPAN_FAULT=all` runs them all.

mod cases;
mod check;
mod client;
mod ground;
mod kept;

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::process::Command as Program;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use site::address::Address;
use site::model::Site;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::spawn_local;

use super::{WorkerCommand, build, live};
use crate::connection::Connections;
use crate::files::roots::OpenRoots;
use crate::log;
use crate::master::sockets::Sockets;
use crate::sys::faulty::plan::{self, CALLS, Call, Case, Which};
use cases::Choice;
use check::Harm;
use client::{Gained, Got, PLAIN, SCRIPT};
use ground::{Ground, descriptors};

/// Says to the process of the runs that it is that.
const ALONE: &str = "TAIPAN_FAULT_ALONE";
const ONLY: &str = "TAIPAN_FAULT";
const SEED: &str = "TAIPAN_FAULT_SEED";

/// Until the last connection is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Failures after which nothing more is learnt.
const MANY: usize = 20;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// What sort of socket the server listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Tcp,
    Unix,
}

impl fmt::Display for Over {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if *self == Over::Unix { "unix" } else { "tcp" })
    }
}

/// All that a run left behind.
pub struct Run {
    gained: Gained,
    /// What was harmed, asked again; and a plain request.
    again: Vec<(usize, usize, Got)>,
    plain: Got,
    /// Of the access log.
    lines: Vec<String>,
    errors: Vec<String>,
    /// How often the fault happened.
    struck: u64,
    counts: [u64; CALLS.len()],
    panics: usize,
    left: Left,
}

/// What was not given back.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    connections: usize,
    streams: usize,
    waiting_for_disk: usize,
    descriptors: usize,
}

#[test]
fn every_call_may_fail() {
    if std::env::var_os(ALONE).is_some() {
        return all_cases();
    }
    let program = std::env::current_exe().unwrap();
    let name = concat!(module_path!(), "::every_call_may_fail");
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    let output = Program::new(program).args(["--exact", name, "--nocapture"]).env(ALONE, "1").output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    print!("{text}");
    assert!(output.status.success() && text.contains("1 passed"), "see above");
}

fn all_cases() {
    let seed = std::env::var(SEED).map_or(1, |seed| seed.parse().expect("a seed is a number"));
    let only = std::env::var(ONLY).ok();
    std::panic::set_hook(Box::new(|panic| {
        if !panic.payload().downcast_ref::<String>().is_some_and(|text| text.starts_with("on purpose")) {
            eprintln!("{panic}");
        }
        PANICS.fetch_add(1, Ordering::Relaxed);
    }));
    let ground = Ground::new();
    let site = ground.site();
    log::start(&site.log, log::open(&site).unwrap()).unwrap();
    let began = Instant::now();
    // The first has costs of its own, such as descriptors of the runtime's.
    run(&ground, &site, Over::Tcp, None, &Vec::new());
    let reference = run(&ground, &site, Over::Tcp, None, &Vec::new());
    check::reference(&ground, &reference);
    let counts = CALLS.iter().map(|(call, name)| format!("{name} {}", reference.counts[*call as usize]));
    println!("a run has: {}", counts.collect::<Vec<_>>().join(", "));
    kept::all(&site);
    let series = Series { ground, site, reference, seed, lost: Cell::new(0), told: Cell::new(0) };
    let runs = match only.as_deref() {
        None => series.all(Choice::Some),
        Some("all") => series.all(Choice::All),
        Some(case) => {
            let (over, case) = case.split_once(' ').expect("tcp or unix, and a case");
            let over = [Over::Tcp, Over::Unix].into_iter().find(|o| o.to_string() == over);
            let over = over.expect("tcp or unix");
            let (run, verdict) = series.one(over, case.parse().unwrap());
            for line in run.errors.iter().chain(&run.lines) {
                println!("{line}");
            }
            for (number, index, got) in &run.again {
                println!("asked again, {number}-{index} got {}", check::shown(got));
            }
            verdict.unwrap();
            1
        }
    };
    println!("{runs} runs in {:.1} s", began.elapsed().as_secs_f64());
}

struct Series {
    ground: Ground,
    site: Site,
    reference: Run,
    seed: u64,
    /// Log lines that were not written, and those of them that were told of.
    lost: Cell<usize>,
    told: Cell<usize>,
}

impl Series {
    /// How many runs there were.
    fn all(&self, choice: Choice) -> usize {
        let (mut runs, mut failures) = (0, Vec::new());
        let mut note = |over: Over, case: Case| {
            let (run, verdict) = self.one(over, case);
            runs += 1;
            if let Err(what) = verdict {
                println!("{what}");
                failures.push(what);
            }
            assert!(failures.len() < MANY, "so many fail that no more are tried");
            run.struck
        };
        for case in cases::lasting() {
            note(Over::Tcp, case);
            if cases::is_invisible(&case) {
                note(Over::Unix, case);
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
                    if is_chosen && note(Over::Tcp, case) == 0 {
                        break;
                    }
                }
            }
        }
        failures.extend(self.is_all_told().err());
        assert!(failures.is_empty(), "{} of {runs} failed:\n{}", failures.len(), failures.join("\n"));
        runs
    }

    /// What is lost is told of once a second at most.
    fn is_all_told(&self) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while self.told.get() < self.lost.get() && Instant::now() < until {
            log::flush();
            self.told.update(|told| told + check::told(&self.ground.take_lines("error")));
            std::thread::sleep(Duration::from_millis(10));
        }
        match (self.lost.get(), self.told.get()) {
            (lost, told) if lost == told => Ok(()),
            (lost, told) => Err(format!("{lost} log lines are not there, but the log says {told}")),
        }
    }

    fn one(&self, over: Over, case: Case) -> (Run, Result<(), String>) {
        let run = run(&self.ground, &self.site, over, Some(case), &self.reference.gained);
        self.lost.update(|lost| lost + check::lost(&run));
        self.told.update(|told| told + check::told(&run.errors));
        let verdict = check::run(&case, &self.reference, &run).map_err(|what| {
            format!("{over} {case} (seed {}): {what}; to repeat it: {ONLY}=\"{over} {case}\"", self.seed)
        });
        (run, verdict)
    }
}

/// A worker from its beginning to its end, with clients that ask the script. What they get otherwise than
/// `expected` is asked for again.
fn run(ground: &Ground, site: &Site, over: Over, case: Option<Case>, expected: &Gained) -> Run {
    let panics = PANICS.load(Ordering::Relaxed);
    let before = descriptors();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(4)
        .build_local(Default::default())
        .unwrap();
    let mut run = runtime.block_on(async {
        let address = match over {
            Over::Tcp => Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))),
            Over::Unix => Address::Unix(ground.socket()),
        };
        let bound = Sockets::default().changed_to(&[address], 1).unwrap();
        let server = bound.iter().next().map(|bound| bound.actual.clone()).unwrap();
        let sockets = bound.per_worker(1).unwrap().into_iter().flatten().collect();
        let (connections, closing) = build(site.clone(), OpenRoots::of(site), None, Vec::new()).unwrap();
        let (tell, commands) = unbounded_channel();
        let living = spawn_local(live(connections.clone(), sockets, closing, commands, || ()));
        plan::arm(case);
        let (done, asked) = tokio::sync::oneshot::channel();
        let expected = expected.clone();
        let lasting = lasting(case);
        let client = std::thread::spawn(move || _ = done.send(ask(&server, &expected, lasting)));
        let (gained, again, plain) = asked.await.unwrap();
        client.join().unwrap();
        let left = what_is_left(&connections).await;
        tell.send(WorkerCommand::Leave).unwrap();
        tokio::time::timeout(PATIENCE, living).await.expect("it leaves").unwrap().unwrap();
        Run {
            gained,
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
    log::flush();
    run.struck = plan::disarm();
    run.counts[Call::Write as usize] = plan::counts()[Call::Write as usize];
    run.lines = ground.take_lines("access");
    run.errors = ground.take_lines("error");
    run.panics = PANICS.load(Ordering::Relaxed) - panics;
    run.left.descriptors = descriptors().saturating_sub(before);
    if case.is_some_and(|case| case.fault == plan::Fault::Truncated) {
        ground.restore();
    }
    run
}

/// Does the fault go on until the logs are written?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lasting {
    UntilTheEnd,
    WhileAsked,
}

fn lasting(case: Option<Case>) -> Lasting {
    match case.and_then(|case| case.call) {
        Some(Call::Write) => Lasting::UntilTheEnd,
        _ => Lasting::WhileAsked,
    }
}

fn ask(server: &Address, expected: &Gained, lasting: Lasting) -> (Gained, Vec<(usize, usize, Got)>, Got) {
    let gained = client::ask_all(server);
    if lasting == Lasting::WhileAsked {
        plan::pause();
    }
    let mut again = Vec::new();
    for (number, (got, wanted)) in gained.iter().zip(expected).enumerate() {
        for (index, (got, wanted)) in got.iter().zip(wanted).enumerate() {
            if Harm::of(got, wanted) != Harm::None {
                again.push((number, index, client::ask_again(server, number, SCRIPT[number].asks, index)));
            }
        }
    }
    let plain = client::ask_again(server, SCRIPT.len(), PLAIN.asks, 0);
    (gained, again, plain)
}

/// Looks when every client has gone, or at least should have been noticed to have.
async fn what_is_left(of: &Connections) -> Left {
    let until = Instant::now() + PATIENCE;
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
