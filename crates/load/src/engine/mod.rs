//! The engine: threads, each with its own epoll, connections, schedule and tally. While they run they share
//! only the reference bodies of the verifier and the stop flag.

pub mod response;

pub mod pick;

pub mod schedule;

pub mod tally;

pub mod socket;

pub mod transport;

pub mod thread_state;

pub mod connection;

mod sending;

mod reading;

mod event_loop;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use connection::Connection;
use tally::Tally;
use thread_state::{Share, ThreadState};

use crate::plan::{Arrivals, Check, Endpoint, Pace, Plan, Protocol, Reuse, Scheme};
use crate::run::{self, Measured, Point, Run, Server, Settings};
use crate::tls;
use crate::verify::Verifier;

/// What one thread finished in one second.
#[derive(Debug, Clone)]
pub struct SecondReport {
    pub second: u64,
    pub point: Point,
}

/// Where reports are sent while a run lasts.
pub type ReportSender = std::sync::mpsc::SyncSender<SecondReport>;

/// Runs the plan to its end, or until `stop` is true.
///
/// Errors: why nothing was measured.
pub fn run(plan: &Plan, stop: &AtomicBool, sender: Option<ReportSender>) -> Result<Run, String> {
    let verifier = Verifier::new(plan)?;
    let needs_tls = plan.targets.iter().any(|target| target.scheme == Scheme::Https);
    let tls = if needs_tls { Some(tls::config(plan)?) } else { None };
    socket::raise_descriptor_limit();
    let start = Instant::now();
    let began = SystemTime::now() + plan.warm_up;
    let shares: Vec<Share> = (0..plan.threads).map(|index| share(plan, index, start)).collect();
    let tallies: Result<Vec<Tally>, String> = thread::scope(|scope| {
        let threads: Vec<_> = shares
            .iter()
            .map(|&share| {
                let (verifier, tls, sender) = (&verifier, tls.clone(), sender.clone());
                scope.spawn(move || {
                    let state = ThreadState::new(plan, verifier, tls, share).map_err(of_epoll)?;
                    run_thread(state, share, stop, sender.as_ref())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread of the generator panicked".to_owned())?)
            .collect()
    });
    Ok(gather(plan, tallies?, start + plan.warm_up, began, stop))
}

fn run_thread(
    state: ThreadState<'_>,
    share: Share,
    stop: &AtomicBool,
    sender: Option<&ReportSender>,
) -> Result<Tally, String> {
    let connections = (0..share.connections)
        .map(|index| Connection::new(index, share.first + index, share.start))
        .collect();
    let starts = event_loop::starts(state.plan, share.first, share.connections, share.start);
    let mut state = event_loop::run(state, connections, &starts, stop, sender).map_err(of_epoll)?;
    if let thread_state::First::Refused(address) = state.first {
        // The server would refuse the other threads, too.
        stop.store(true, Ordering::Relaxed);
        return Err(format!("{address} refuses connections; start the server, or correct the URL"));
    }
    state.give_up_backlog(Instant::now());
    Ok(state.tally)
}

fn of_epoll(error: std::io::Error) -> String {
    format!("epoll: {error}")
}

/// Divides connections and requests as evenly as possible.
fn share(plan: &Plan, index: usize, start: Instant) -> Share {
    let part = |whole: usize| (whole * index / plan.threads, whole * (index + 1) / plan.threads);
    let (first, end) = part(plan.connections);
    let requests = plan.stop.requests.map(|requests| {
        let (threads, index) = (plan.threads as u64, index as u64);
        requests / threads + u64::from(index < requests % threads)
    });
    Share { index, first, connections: end - first, requests, start }
}

fn gather(plan: &Plan, tallies: Vec<Tally>, begin: Instant, began: SystemTime, stop: &AtomicBool) -> Run {
    let mut measured = Measured::default();
    let mut last = begin;
    let (mut name, mut length, mut tls) = (None, None, None);
    for tally in tallies {
        measured.merge(&tally.measured);
        last = last.max(tally.last);
        name = name.or(tally.server_name);
        length = length.or(tally.first_length);
        tls = tls.or(tally.tls);
    }
    // The whole time counts, or a server that stopped responding would get a better rate.
    let planned = plan.stop.time.filter(|_| plan.stop.requests.is_none()).unwrap_or(Duration::ZERO);
    let end = match stop.load(Ordering::Relaxed) {
        true => last.max(Instant::now()),
        false => last.max(begin + planned),
    };
    measured.micros = end.saturating_duration_since(begin).as_micros() as u64;
    measured.began_unix = began.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let server = server(plan, name.unwrap_or_default(), length.unwrap_or(0), tls);
    Run { settings: settings(plan), server, measured, generators: 1 }
}

fn server(plan: &Plan, name: String, length: u64, tls: Option<run::Tls>) -> Server {
    let Some((request, target)) =
        plan.requests.first().and_then(|request| Some((request, plan.targets.get(request.target)?)))
    else {
        return Server::default();
    };
    let protocol = match (plan.protocol, target.scheme) {
        (Protocol::Http10, _) => "http/1.0",
        (Protocol::Http11 { .. }, _) => "http/1.1",
        (Protocol::Http2 { .. }, Scheme::Https) => "h2",
        (Protocol::Http2 { .. }, Scheme::Http) => "h2c",
    };
    let host = match &target.endpoint {
        Endpoint::Tcp(_) => target.host.clone(),
        Endpoint::Unix(path) => format!("unix:{}", path.display()),
    };
    Server {
        name,
        host,
        port: target.port,
        path: request.path.clone(),
        length,
        protocol: protocol.to_owned(),
        tls,
    }
}

fn settings(plan: &Plan) -> Settings {
    let first = plan.requests.first();
    Settings {
        url: first.map_or(String::new(), |request| request.url.clone()),
        urls: plan.requests.len() as u64,
        command_line: std::env::args().collect::<Vec<_>>().join(" "),
        method: first.map_or(String::new(), |request| request.method.clone()),
        concurrency: plan.connections as u32,
        threads: plan.threads as u32,
        depth: plan.protocol.depth() as u32,
        reuse: match plan.reuse {
            Reuse::PerRequest => run::Reuse::PerRequest,
            Reuse::KeepAlive | Reuse::Session(_) => run::Reuse::KeepAlive,
        },
        pace: match &plan.pace {
            Pace::Closed => run::Pace::Closed,
            Pace::Open { per_second, arrivals: Arrivals::Even } => run::Pace::Even(*per_second),
            Pace::Open { per_second, arrivals: Arrivals::Poisson } => run::Pace::Poisson(*per_second),
            Pace::Replay(steps) => run::Pace::Even(rate_of(steps)),
        },
        check: match plan.check {
            Check::Nothing => run::Check::Status,
            Check::Length => run::Check::Length,
            Check::Checksum(_) => run::Check::Checksum,
        },
        stop_requests: plan.stop.requests,
        stop_micros: plan.stop.time.map(|time| time.as_micros() as u64),
        warm_up_micros: plan.warm_up.as_micros() as u64,
        timeout_micros: plan.timeout.as_micros() as u64,
        seed: plan.seed,
    }
}

/// The mean rate of a replayed log.
fn rate_of(steps: &[(Duration, u32)]) -> f64 {
    let lasted = steps.last().map_or(0.0, |(at, _)| at.as_secs_f64());
    steps.len() as f64 / lasted.max(1.0)
}
