//! A load generator that is cheaper than the servers it loads, so that with one processor each the server is the
//! limit and not the client. It requests every path once to learn the length of its response. From then on it only
//! counts bytes, which the kernel discards (MSG_TRUNC). It never parses a status again: a response of another length
//! is a failure.

use std::error::Error;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::{self, ExitCode};
use std::time::{Duration, Instant};
use std::{fs, io};

use bench::latency::Latency;
use bench::paths::{self, Picker};
use bench::response::{self, Persistence, TIMEOUT};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::time::Timespec;

const USAGE: &str = "\
usage: blast [OPTION]... ADDRESS:PORT
Load a web server on this machine or a private network; print one line of JSON.

  --path PATH        Request PATH; repeat it, or write a range as /{0..999}.html; default /
  --list FILE        Request the paths in FILE, one on each line; default none
  --seed NUMBER      Pick among many paths in the order of this seed; default 1
  --connections N    Keep N connections busy; default 64
  --seconds S        Start no request after S seconds, 600 at most; default 2
  --count N          Start no more than N requests; default no bound but time
  --close            Open a new connection for every request; default keep-alive
";
const SECONDS_MAX: f64 = 600.0;
const EVENTS_PER_TURN: usize = 512;
/// How often late responses are detected and failed connections reopened.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
const CHECK_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: CHECK_INTERVAL.as_nanos() as i64 };
/// How much is discarded at once. The buffer is never written to, so its pages are never allocated.
const DISCARD_BUFFER: usize = 1 << 20;

struct Options {
    to: SocketAddr,
    paths: Vec<String>,
    seed: u64,
    connections: usize,
    duration: Duration,
    count: u64,
    persistence: Persistence,
}

struct Target {
    request: Vec<u8>,
    /// Bytes of its response, head included.
    length: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No socket; the next check opens one.
    Down,
    /// The request is sent as soon as the socket is writable.
    Connecting,
    Response,
    /// The response is complete; the client waits for the server's FIN.
    End,
    Finished,
}

struct Connection {
    socket: Option<OwnedFd>,
    stage: Stage,
    target: usize,
    /// Bytes of the response still to come.
    missing: usize,
    since: Instant,
}

#[derive(Clone, Copy)]
enum Failure {
    Refused,
    CutShort,
    WrongLength,
    Late,
}

struct Tally {
    requests: u64,
    failures: [u64; 4],
    latency: Latency,
}

struct Load<'a> {
    options: &'a Options,
    targets: &'a [Target],
    epoll: OwnedFd,
    connections: Vec<Connection>,
    unfinished: usize,
    picker: Picker,
    started: u64,
    deadline: Instant,
    discard: Vec<u8>,
    tally: Tally,
}

fn main() -> ExitCode {
    bench::exit("blast", run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = arguments()?;
    let targets = measure_targets(&options)?;
    let cpu = cpu_time()?;
    let start = Instant::now();
    let tally = Load::new(&options, &targets, start)?.run(start)?;
    print(&tally, start.elapsed(), cpu_time()? - cpu);
    Ok(())
}

fn arguments() -> Result<Options, Box<dyn Error>> {
    use lexopt::prelude::*;
    let mut to = None;
    let mut options = Options {
        to: SocketAddr::from(([127, 0, 0, 1], 0)),
        paths: Vec::new(),
        seed: 1,
        connections: 64,
        duration: Duration::from_secs(2),
        count: u64::MAX,
        persistence: Persistence::KeepAlive,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("path") => options.paths.extend(paths::expand(&parser.value()?.string()?)?),
            Long("list") => {
                for line in fs::read_to_string(parser.value()?)?.lines() {
                    options.paths.extend(paths::expand(line)?);
                }
            }
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("connections") => options.connections = parser.value()?.parse()?,
            Long("seconds") => {
                let seconds = parser.value()?.parse::<f64>()?;
                options.duration = Duration::try_from_secs_f64(seconds.min(SECONDS_MAX))?;
            }
            Long("count") => options.count = parser.value()?.parse()?,
            Long("close") => options.persistence = Persistence::Close,
            Value(address) if to.is_none() => to = Some(address.parse::<SocketAddr>()?),
            Long("help") => {
                print!("{USAGE}");
                process::exit(0);
            }
            _ => return Err(format!("{}\n{USAGE}", argument.unexpected()).into()),
        }
    }
    options.to = to.ok_or(USAGE)?;
    if !is_private(options.to) {
        return Err(format!("{} is neither this machine nor a private network", options.to).into());
    }
    if options.paths.is_empty() {
        options.paths.push("/".to_owned());
    }
    Ok(options)
}

fn is_private(to: SocketAddr) -> bool {
    match to {
        SocketAddr::V4(to) => to.ip().is_loopback() || to.ip().is_private(),
        SocketAddr::V6(to) => to.ip().is_loopback() || to.ip().is_unique_local(),
    }
}

/// Requests every path once and measures the length of its response.
fn measure_targets(options: &Options) -> Result<Vec<Target>, Box<dyn Error>> {
    let mut reusable = None;
    let mut targets = Vec::with_capacity(options.paths.len());
    for path in &options.paths {
        let request = response::request(options.to, path, options.persistence);
        let mut stream = match reusable.take() {
            Some(stream) => stream,
            None => response::connect(options.to)?,
        };
        let length = response::measure(&mut stream, &request).map_err(|error| format!("{path}: {error}"))?;
        reusable = (options.persistence == Persistence::KeepAlive).then_some(stream);
        targets.push(Target { request, length });
    }
    Ok(targets)
}

impl<'a> Load<'a> {
    fn new(options: &'a Options, targets: &'a [Target], now: Instant) -> io::Result<Load<'a>> {
        let silent = || Connection { socket: None, stage: Stage::Down, target: 0, missing: 0, since: now };
        Ok(Load {
            options,
            targets,
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            connections: (0..options.connections).map(|_| silent()).collect(),
            unfinished: options.connections,
            picker: Picker::new(options.seed, targets.len()),
            started: 0,
            deadline: now + options.duration,
            discard: vec![0; DISCARD_BUFFER],
            tally: Tally { requests: 0, failures: [0; 4], latency: Latency::new() },
        })
    }

    /// Ends one timeout after the deadline at the latest: by then every response is complete or late.
    fn run(mut self, start: Instant) -> io::Result<Tally> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_PER_TURN);
        let mut next_check = start;
        while self.unfinished > 0 {
            let now = Instant::now();
            if now >= next_check {
                self.check_timeouts(now);
                next_check = now + CHECK_INTERVAL;
            }
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&CHECK_TIMEOUT))
            {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let now = Instant::now();
            for event in &events {
                self.on_event(event.data.u64() as usize, event.flags, now);
            }
        }
        Ok(self.tally)
    }

    fn check_timeouts(&mut self, now: Instant) {
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            match connection.stage {
                Stage::Down => self.open(index, now),
                Stage::Connecting | Stage::Response | Stage::End if now - connection.since > TIMEOUT => {
                    self.fail(index, Failure::Late, now);
                }
                Stage::Connecting | Stage::Response | Stage::End | Stage::Finished => {}
            }
        }
    }

    fn on_event(&mut self, index: usize, ready: EventFlags, now: Instant) {
        let gone = ready.intersects(EventFlags::ERR | EventFlags::HUP);
        match self.connections[index].stage {
            Stage::Connecting if gone => self.fail(index, Failure::Refused, now),
            Stage::Connecting => self.send(index, now),
            Stage::Response => self.receive(index, ready, now),
            Stage::End if gone || ready.contains(EventFlags::RDHUP) => self.on_response(index, now),
            Stage::End | Stage::Down | Stage::Finished => {}
        }
    }

    /// Starts a request: picks a target and the start time, unless the load has ended.
    fn begin(&mut self, index: usize, now: Instant) -> bool {
        let connection = &mut self.connections[index];
        if now >= self.deadline || self.started == self.options.count {
            connection.socket = None;
            connection.stage = Stage::Finished;
            self.unfinished -= 1;
            return false;
        }
        self.started += 1;
        connection.since = now;
        connection.target = self.picker.pick();
        connection.missing = self.targets[connection.target].length;
        true
    }

    fn open(&mut self, index: usize, now: Instant) {
        if !self.begin(index, now) {
            return;
        }
        match connect(&self.epoll, self.options.to, index) {
            Ok((socket, stage)) => {
                self.connections[index].socket = Some(socket);
                self.connections[index].stage = stage;
                if stage == Stage::Response {
                    self.send(index, now);
                }
            }
            Err(_) => self.fail(index, Failure::Refused, now),
        }
    }

    fn send(&mut self, index: usize, now: Instant) {
        let connection = &mut self.connections[index];
        let Some(socket) = &connection.socket else { return };
        let request = &self.targets[connection.target].request;
        connection.stage = Stage::Response;
        if net::send(socket, request, SendFlags::NOSIGNAL) != Ok(request.len()) {
            self.fail(index, Failure::CutShort, now);
        }
    }

    fn receive(&mut self, index: usize, ready: EventFlags, now: Instant) {
        let connection = &mut self.connections[index];
        let Some(socket) = &connection.socket else { return };
        // Bounded by the response: every pass subtracts from `missing`.
        while connection.missing > 0 {
            match net::recv(socket, &mut self.discard[..], RecvFlags::TRUNC) {
                Ok((_, 0)) => return self.fail(index, Failure::CutShort, now),
                Ok((_, n)) if n > connection.missing => return self.fail(index, Failure::WrongLength, now),
                Ok((_, n)) => {
                    connection.missing -= n;
                    // A short read has emptied the socket, and more data is a new edge. But a FIN that came
                    // with these bytes was part of this edge and must still be read.
                    if n < DISCARD_BUFFER && !ready.contains(EventFlags::RDHUP) {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(_) => return self.fail(index, Failure::CutShort, now),
            }
        }
        match (connection.missing, self.options.persistence) {
            (0, Persistence::KeepAlive) => self.on_response(index, now),
            (0, Persistence::Close) => {
                connection.stage = Stage::End;
                self.on_event(index, ready, now);
            }
            _ => {}
        }
    }

    fn on_response(&mut self, index: usize, now: Instant) {
        self.tally.requests += 1;
        self.tally.latency.record(now - self.connections[index].since);
        match self.options.persistence {
            Persistence::KeepAlive => {
                if self.begin(index, now) {
                    self.send(index, now);
                }
            }
            Persistence::Close => {
                self.connections[index].socket = None;
                self.open(index, now);
            }
        }
    }

    /// The connection stays down until the next check, so that a refusing server is not flooded.
    fn fail(&mut self, index: usize, failure: Failure, now: Instant) {
        let connection = &mut self.connections[index];
        self.tally.failures[failure as usize] += 1;
        self.tally.latency.record_longest(now - connection.since);
        connection.socket = None;
        connection.stage = Stage::Down;
    }
}

/// On loopback a connection is usually established at once; otherwise epoll reports it as writable.
fn connect(epoll: &OwnedFd, to: SocketAddr, index: usize) -> Result<(OwnedFd, Stage), Errno> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    let incoming = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    let (stage, interest) = match net::connect(&socket, &to) {
        Ok(()) => (Stage::Response, incoming),
        Err(Errno::INPROGRESS) => (Stage::Connecting, incoming | EventFlags::OUT),
        Err(error) => return Err(error),
    };
    epoll::add(epoll, &socket, EventData::new_u64(index as u64), interest)?;
    Ok((socket, stage))
}

/// CPU time of this thread, the only one, by the scheduler.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(Duration::from_nanos(nanoseconds))
}

fn print(tally: &Tally, took: Duration, cpu: Duration) {
    let count = |failure: Failure| tally.failures[failure as usize];
    println!(
        "{{\"requests\": {}, \"seconds\": {:.6}, \"failures\": {}, \"refused\": {}, \"cut_short\": {}, \
         \"wrong_length\": {}, \"late\": {}, \"p50_us\": {}, \"p99_us\": {}, \"max_us\": {}, \
         \"client_cpu_seconds\": {:.6}}}",
        tally.requests,
        took.as_secs_f64(),
        tally.failures.iter().sum::<u64>(),
        count(Failure::Refused),
        count(Failure::CutShort),
        count(Failure::WrongLength),
        count(Failure::Late),
        tally.latency.percentile(0.5),
        tally.latency.percentile(0.99),
        tally.latency.longest().as_micros(),
        cpu.as_secs_f64(),
    );
}
