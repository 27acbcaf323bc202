//! The master: the process that was started. It reads the configuration, binds addresses, opens logs, and
//! has a process of its own serve each configuration (`generation`). It serves nobody itself, so it can
//! keep what serving must not have: privilege, and the sockets through every change.
//!
//! It has one thread, and waits for signals, for the control socket, and for what its processes say.

mod process;

pub mod sockets;

mod change;

mod pools;

pub mod upgrade;

mod takeover;

mod end;

pub mod notify;
pub mod signals;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::CapabilitySet;
use site::model::{Log, Site};

use crate::control::{Client, Control, Request};
use crate::flags::Serve;
use crate::generation::INTERRUPTED;
use crate::ipc::{GenerationEvent, MasterCommand, Received};
use crate::log::{self, OpenSink};
use crate::supervisor::{KillTimer, RestartLimit};
use crate::{sandbox, start, terminal};
use change::{Change, Preparation, Why};
use notify::Notify;
use process::{ChannelState, Generation, PoolProcess, Retires, SpawnerProcess, State};
use signals::{SignalEvent, Signals};
use sockets::Sockets;
use upgrade::{Predecessor, Successor};

/// It could not start: the command line, the configuration, an address, a file.
const COULD_NOT_START: u8 = 2;
/// How long a new serving process may take until it serves.
const START_PATIENCE: Duration = Duration::from_secs(60);
const NO_ADDRESS: &str = "there is no address to listen on, and no socket was passed to this program; \
                          add addresses to `listen`, or have systemd start it by a socket unit";
/// What a process may take longer than it was told to, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// What the master needs of root's power (capabilities(7)): ports below 1024; another user, with a bounding
/// set of its own; another root; to end processes of that user; files of other users: the configuration,
/// logs, and what a new program reads.
const NEEDED: CapabilitySet = CapabilitySet::NET_BIND_SERVICE
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER);

/// `taipan [DIR]` and `taipan -c FILE`: serves until it is told to end.
pub fn serve(asked: &Serve) -> ExitCode {
    match Master::start(asked) {
        Ok(mut master) => loop {
            if let Some(code) = master.turn() {
                return code;
            }
        },
        Err(code) => code,
    }
}

fn could_not_start(lines: &[String]) -> ExitCode {
    for line in lines {
        terminal::err(format_args!("taipan: {line}"));
    }
    ExitCode::from(COULD_NOT_START)
}

struct Master {
    asked: Serve,
    /// What is started for an upgrade: this program's file, or what has taken its place.
    program: PathBuf,
    descriptors: u64,
    signals: Option<Signals>,
    control: Option<Control>,
    notify: Notify,
    /// What is served; `None` until the first process serves.
    site: Option<Site>,
    sockets: Sockets,
    generations: Vec<Generation>,
    /// That end what they have started: their generations have ended.
    spawners: Vec<(SpawnerProcess, KillTimer)>,
    pools: Vec<PoolProcess>,
    /// Folders in which scripts have had control groups.
    cgroups: BTreeSet<PathBuf>,
    /// What is being made ready for a change: here, where a new serving process can let go of it.
    preparation: Option<Preparation>,
    /// A configuration that is about to take over.
    change: Option<Change>,
    /// Another reload is wanted after this change, and by whom.
    again: Option<Vec<Client>>,
    predecessor: Option<Predecessor>,
    successor: Option<Successor>,
    restart_limit: RestartLimit,
    /// When the serving process that has ended is to be replaced.
    restart: Option<Instant>,
    next_ping: Option<Instant>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Keeping,
    /// The exit code then.
    Ending(u8),
    /// Another program keeps; this one ends when its processes have.
    Succeeded,
}

/// What there is to do.
enum Event {
    Signals,
    Control,
    Generation(Pid),
    Successor,
}

impl Master {
    /// Errors: the exit code, when what is wrong has been said.
    fn start(asked: &Serve) -> Result<Master, ExitCode> {
        let mut master = Master::new(asked).map_err(|lines| could_not_start(&lines))?;
        let begun = start::site(asked)
            .and_then(|site| master.begin_change(site, Why::Start).map_err(|(lines, _)| lines));
        match begun {
            Ok(()) => Ok(master),
            // The program that has started this one kills it when it is left.
            Err(lines) => Err(could_not_start(&lines)),
        }
    }

    fn new(asked: &Serve) -> Result<Master, Vec<String>> {
        let fail = |what: &'static str| move |e: io::Error| vec![format!("cannot {what}: {e}")];
        // First of all: what is not open though it was promised must not be taken for what is opened here.
        let found = Predecessor::find().map_err(fail("take over"))?;
        let (predecessor, sockets, control) = match found {
            Some((predecessor, sockets, control)) => (Some(predecessor), sockets, control),
            None => (None, upgrade::passed_sockets().map_err(fail("take up sockets"))?, None),
        };
        // Scripts may be the same user, and might trace it or read its memory: this process, and those that it
        // forks. A program that is executed begins as others do.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(|e| fail("be closed to scripts")(e.into()))?;
        let signals = Signals::take().map_err(fail("take signals"))?;
        sandbox::keep_only(NEEDED).map_err(|errno| fail("give up capabilities")(errno.into()))?;
        Ok(Master {
            program: std::env::current_exe().map_err(fail("find this program"))?,
            descriptors: start::raise_descriptor_limit(),
            signals: Some(signals),
            // A second program that serves the same, at other addresses, has no control socket.
            control: control.or_else(|| Control::open(&asked.source).ok()),
            notify: Notify::from_environment(),
            site: None,
            sockets,
            generations: Vec::new(),
            spawners: Vec::new(),
            pools: Vec::new(),
            cgroups: BTreeSet::new(),
            preparation: None,
            change: None,
            again: None,
            predecessor,
            successor: None,
            restart_limit: RestartLimit::of_servers(),
            restart: None,
            next_ping: None,
            phase: Phase::Keeping,
            asked: asked.clone(),
        })
    }

    /// Waits for something to happen, and does what it takes. `Some`: that was the last.
    fn turn(&mut self) -> Option<ExitCode> {
        for event in self.wait() {
            match event {
                Event::Signals => self.on_signals(),
                Event::Control => self.on_control(),
                Event::Generation(pid) => {
                    if let Some(code) = self.on_generation(pid) {
                        return Some(code);
                    }
                }
                Event::Successor => self.on_successor(),
            }
        }
        if let Some(code) = self.reap() {
            return Some(code);
        }
        self.look_at_clock();
        self.is_alone().then(|| self.end()).flatten()
    }

    fn wait(&self) -> Vec<Event> {
        let mut what = Vec::new();
        let mut fds = Vec::new();
        let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        if let Some(signals) = &self.signals {
            what.push(Event::Signals);
            fds.push(readable(signals.as_fd()));
        }
        for generation in self.generations.iter().filter(|g| g.channel_state == ChannelState::Open) {
            what.push(Event::Generation(generation.pid));
            fds.push(readable(generation.channel.as_fd()));
        }
        if let Some(control) = &self.control {
            if !control.is_at_capacity() {
                what.push(Event::Control);
                fds.push(readable(control.socket().as_fd()));
            }
            for client in control.clients() {
                what.push(Event::Control);
                fds.push(readable(client.as_fd()));
            }
        }
        if let (Some(successor), Phase::Keeping) = (&self.successor, self.phase) {
            what.push(Event::Successor);
            fds.push(readable(successor.channel.as_fd()));
        }
        let timeout = self.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        what.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty()).map(|(what, _)| what).collect()
    }

    /// When something is to be done though nothing happens.
    fn deadline(&self) -> Option<Instant> {
        let leaving = self.generations.iter().filter_map(|generation| match generation.state {
            State::Leaving(until) => Some(until),
            State::Killed(until) if self.phase != Phase::Keeping => Some(until),
            State::Starting | State::Serving | State::Killed(_) => None,
        });
        let retiring = self.generations.iter().filter_map(|generation| match generation.retires {
            Retires::Until(until) => Some(until),
            Retires::NotYet | Retires::Done => None,
        });
        let others = [
            self.change.as_ref().map(|change| change.kill.due()),
            self.successor.as_ref().filter(|_| self.phase == Phase::Keeping).map(|s| s.until),
            self.control.as_ref().and_then(Control::deadline),
            self.restart.filter(|_| self.change.is_none()),
            self.next_ping,
        ];
        let spawners = self.spawners.iter().map(|(_, kill)| kill.due());
        let pools = self.pools.iter().filter_map(|pool| pool.kill.map(|kill| kill.due()));
        leaving.chain(spawners).chain(pools).chain(retiring).chain(others.into_iter().flatten()).min()
    }

    fn on_signals(&mut self) {
        while let Some(told) = self.signals.as_ref().and_then(Signals::next) {
            match told {
                SignalEvent::Leave => self.end_all(&MasterCommand::Leave, 0),
                SignalEvent::Stop => self.end_all(&MasterCommand::Stop, INTERRUPTED),
                SignalEvent::Reload => self.reload(Vec::new()),
                SignalEvent::ReopenLogs => self.reopen_logs(),
                SignalEvent::Upgrade => self.upgrade(None),
                // The dead are buried in every turn.
                SignalEvent::ChildEnded => {}
            }
        }
    }

    fn on_control(&mut self) {
        let asked = self.control.as_mut().map(Control::receive).unwrap_or_default();
        for (client, request) in asked {
            match request {
                Request::Reload => self.reload(vec![client]),
                Request::Upgrade => self.upgrade(Some(client)),
                Request::Stats(form) => match self.serving() {
                    Some(generation) => {
                        let to = client.into_done_socket();
                        _ = generation.channel.send(&MasterCommand::Stats { form, to });
                    }
                    None => client.failed(["nothing is being served at this moment"]),
                },
            }
        }
    }

    fn on_generation(&mut self, pid: Pid) -> Option<ExitCode> {
        loop {
            let generation = self.generations.iter_mut().find(|g| g.pid == pid)?;
            match generation.channel.receive::<GenerationEvent>() {
                // One that is to leave stays so, whatever it has said before it heard of it.
                Ok(Received::Message(GenerationEvent::Ready)) if generation.state != State::Starting => {}
                Ok(Received::Message(GenerationEvent::Ready)) => {
                    generation.state = State::Serving;
                    if self.change.as_ref().is_some_and(|change| change.generation == pid)
                        && let Err(lines) = self.complete_change()
                    {
                        return Some(could_not_start(&lines));
                    }
                }
                Ok(Received::Message(GenerationEvent::Failed(lines))) => generation.failure = lines,
                Ok(Received::Message(GenerationEvent::Alive)) => self.notify.alive(),
                Ok(Received::Message(GenerationEvent::Retired)) => generation.answer_waiting(),
                // Its end is seen when it is buried.
                Ok(Received::End) => {
                    generation.channel_state = ChannelState::Closed;
                    return None;
                }
                Err(_) => return None,
            }
        }
    }

    fn serving(&self) -> Option<&Generation> {
        self.generations.iter().find(|generation| generation.state == State::Serving)
    }

    fn reopen_logs(&mut self) {
        for generation in &self.generations {
            for (number, sink) in generation.sinks.iter().enumerate() {
                match OpenSink::open(sink).map(OpenSink::into_file) {
                    Ok(Some(file)) => {
                        let order = MasterCommand::Log { sink: number as u32, file: file.into() };
                        _ = generation.channel.send(&order);
                    }
                    Ok(None) => {}
                    Err(why) => log::error(format_args!("{why}; the old one is still written")),
                }
            }
        }
        if let Some(Log { error, level, .. }) = self.site.as_ref().map(|site| &site.log)
            && let Ok(errors) = OpenSink::open(error)
        {
            log::write_to(errors, *level);
        }
        self.send_log_to_pools();
        if let Some(change) = &mut self.change {
            change.errors = OpenSink::open(&change.site.log.error).ok();
        }
    }
}
