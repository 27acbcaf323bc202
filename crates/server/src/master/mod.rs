//! The master: the process that was started. It reads the configuration, binds addresses, opens logs, and starts a
//! generation for each configuration: a process that serves it. The master serves no client, so it can keep privileges,
//! and it keeps the listening sockets through every change.
//!
//! It has one thread, which waits for signals, for clients of the control socket, and for events of its children.

mod lifecycle;
mod unsent;

pub mod sockets;

mod acts;
mod announce;
mod change;
mod detach;
pub mod examine;
mod files;
mod served;
mod tls;

mod children;
mod fork;
mod generations;
mod loggers;
mod pools;
mod restart;
mod signers;
mod spawners;

mod counters;
mod disconnects;
mod logs;
mod oom;
mod purges;

#[cfg(feature = "acme")]
mod certificates;
#[cfg(not(feature = "acme"))]
#[path = "certificates/absent.rs"]
mod certificates;

pub mod upgrade;

mod end;
mod timers;

pub mod notify;
pub mod signals;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::CapabilitySet;
use site::model::{Sink, Site};

use crate::control::{Client, Control, DrainChange, Request};
use crate::flags::{Presence, Serve};
use crate::log;
use crate::process::ipc::{GenerationEvent, MasterCommand, Received};
use crate::process::privileged_file::PidFile;
use crate::process::sandbox;
use crate::{start, sys, terminal};
use acts::Acts;
use change::{Cause, Changes};
use children::Children;
use counters::Counters;
use detach::Starter;
use disconnects::{Disconnects, Process};
use generations::{ChannelState, Generation};
use lifecycle::{Action, Phase};
use notify::Notify;
use oom::OomKills;
use purges::Purges;
use restart::Restart;
use served::Served;
use signals::{SignalEvent, Signals};
use sockets::Sockets;
use upgrade::{Disconnected, Inherited, Predecessor, Upgrade};

/// The exit code if the command line, the configuration, an address or a file prevents the start.
const COULD_NOT_START: u8 = 2;
/// How long a new generation may take until it serves.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Before a wait of so long, the pages of the program that were used since the last one are given back.
const LONG_WAIT: Duration = Duration::from_secs(1);
const NO_ADDRESS: &str = "there is no address to listen on, and no socket was passed to this program; \
                          add addresses to `listen`, or have systemd start it by a socket unit";
const UPGRADING: &str = "an upgrade is in progress, or the program is ending; try again when it is over";
const NOT_SERVING: &str = "no process serves at this moment; try again";
/// A child that exceeds its time by this much is killed.
const GRACE: Duration = Duration::from_secs(2);

/// The capabilities that the master keeps (capabilities(7)): for ports below 1024; for children with another user,
/// bounding set and root; to kill children of another user; and for files of other users: the configuration, logs, and
/// the program file of an upgrade.
const NEEDED: CapabilitySet = CapabilitySet::NET_BIND_SERVICE
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER);

/// `taipan [DIR]` and `taipan -c FILE`: serves until a signal ends the program.
pub fn serve(options: &Serve) -> ExitCode {
    sys::note_first_threads();
    sys::survive_file_size_limit();
    // A program that ignores it starts others that do: the kernel would then not tell the end of children.
    sys::reset_signal(libc::SIGCHLD);
    let starter = match (options.presence, upgrade::is_successor()) {
        (Presence::Background, false) => match detach::detach() {
            Ok(starter) => Some(starter),
            Err(error) => return could_not_start(&[format!("cannot go to the background: {error}")]),
        },
        _ => None,
    };
    match Master::start(options, starter) {
        Ok(mut master) => loop {
            if let Some(code) = master.wait_and_handle() {
                master.upgrade.keep_channel_until_exit();
                return code;
            }
        },
        Err(code) => code,
    }
}

fn could_not_start(lines: &[String]) -> ExitCode {
    terminal::fail_all(lines, COULD_NOT_START)
}

struct Master {
    options: Serve,
    descriptors: u64,
    signals: Option<Signals>,
    control: Option<Control>,
    notify: Notify,
    /// The process that was started, if this one is to go to the background.
    starter: Option<Starter>,
    /// `None` until the first generation serves.
    served: Option<Served>,
    /// The pid file that this program has written.
    pid_file: Option<PidFile>,
    sockets: Sockets,
    children: Children,
    changes: Changes,
    counters: Counters,
    acts: Acts,
    purges: Purges,
    disconnects: Disconnects,
    upgrade: Upgrade,
    restart: Restart,
    oom: OomKills,
    phase: Phase,
}

/// A descriptor that is readable.
enum Source {
    Signals,
    Control,
    Generation(Pid),
    Pool(Pid),
    Successor,
    Predecessor,
    Certificates,
}

impl Master {
    /// Errors: the exit code; the mistakes have been printed.
    fn start(options: &Serve, starter: Option<Starter>) -> Result<Master, ExitCode> {
        let mut master = Master::new(options, starter).map_err(|lines| could_not_start(&lines))?;
        let begun = start::site(options).and_then(|site| {
            let begun = master.begin_change(site, Cause::Start);
            begun.map_err(|(lines, mut cause)| master.all_problems(lines, &mut cause))
        });
        match begun {
            Ok(()) => Ok(master),
            Err(lines) => {
                let code = could_not_start(&lines);
                master.upgrade.keep_channel_until_exit();
                Err(code)
            }
        }
    }

    fn new(options: &Serve, starter: Option<Starter>) -> Result<Master, Vec<String>> {
        let fail = |what: &'static str| move |e: io::Error| vec![format!("cannot {what}: {e}")];
        // First: the number of a missing inherited descriptor must not be given to a new one.
        let found = Predecessor::find().map_err(fail("take over from the running program"))?;
        let (predecessor, inherited) = match found {
            Some((predecessor, inherited)) => (Some(predecessor), inherited),
            None => {
                let sockets = sockets::inherited_sockets().map_err(fail("use the inherited sockets"))?;
                (None, Inherited { sockets, ..Inherited::default() })
            }
        };
        let Inherited { sockets, control, counters, history, acts } = inherited;
        // Scripts may have the same user, and could trace this process and its forked children or read their memory.
        // Exec resets the attribute.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|e| fail("forbid tracing")(e.into()))?;
        let signals = Signals::take().map_err(fail("receive signals"))?;
        sandbox::keep_only(NEEDED).map_err(|errno| fail("give up capabilities")(errno.into()))?;
        let is_child_of_first_process = starter.is_none() && signals::is_child_of_first_process();
        let upgrade = Upgrade::new(predecessor, is_child_of_first_process);
        let upgrade = upgrade.map_err(fail("find this program's file"))?;
        Ok(Master {
            descriptors: start::raise_descriptor_limit(),
            signals: Some(signals),
            // A second program that serves the same site, at other addresses, has no control socket.
            control: control.or_else(|| Control::open(&options.source).ok()),
            notify: Notify::from_environment(),
            starter,
            served: None,
            pid_file: None,
            sockets,
            children: Children::new(),
            changes: Changes::default(),
            counters: Counters::new(counters, history),
            acts,
            purges: Purges::default(),
            disconnects: Disconnects::default(),
            upgrade,
            restart: Restart::new(),
            oom: OomKills::now(),
            phase: Phase::Serving,
            options: options.clone(),
        })
    }

    /// Waits for events and handles them. Returns the exit code when the program ends.
    fn wait_and_handle(&mut self) -> Option<ExitCode> {
        let sources = self.wait();
        // First, so that no change is based on a child that has ended.
        if let Some(code) = self.reap() {
            return Some(code);
        }
        for source in sources {
            match source {
                Source::Signals => self.on_signals(),
                Source::Control => self.on_control(),
                Source::Generation(pid) => {
                    if let Some(code) = self.on_generation(pid) {
                        return Some(code);
                    }
                }
                Source::Pool(pid) => self.on_pool_closed(pid),
                Source::Successor => self.on_successor(),
                Source::Predecessor => self.on_predecessor(),
                Source::Certificates => self.on_acme(),
            }
        }
        // Again: the signal of a child that has ended meanwhile may have been read.
        if let Some(code) = self.reap() {
            return Some(code);
        }
        self.on_timers();
        self.exit_code()
    }

    fn wait(&mut self) -> Vec<Source> {
        let must_release = self.changes.must_release();
        let mut sources = Vec::new();
        let mut fds = Vec::new();
        let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let also_writable = |fd, is_awaited| match is_awaited {
            true => PollFd::from_borrowed_fd(fd, PollFlags::IN | PollFlags::OUT),
            false => readable(fd),
        };
        if let Some(signals) = &self.signals {
            sources.push(Source::Signals);
            fds.push(readable(signals.as_fd()));
        }
        for generation in self.children.generations.iter().filter(|g| g.channel_state == ChannelState::Open) {
            sources.push(Source::Generation(generation.pid));
            fds.push(also_writable(generation.channel.as_fd(), generation.waits_for_space()));
        }
        for (pid, channel) in self.children.pools.open_channels() {
            sources.push(Source::Pool(pid));
            // A pool sends nothing: only the end of the channel is an event.
            fds.push(PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::empty()));
        }
        if let Some(control) = &self.control {
            if !control.is_at_capacity() {
                sources.push(Source::Control);
                fds.push(readable(control.socket().as_fd()));
            }
            for client in control.clients() {
                sources.push(Source::Control);
                fds.push(readable(client.as_fd()));
            }
        }
        if let Some(successor) = self.upgrade.successor().filter(|s| s.channel_state == ChannelState::Open) {
            sources.push(Source::Successor);
            fds.push(also_writable(successor.channel.as_fd(), successor.unsent.waits_for_space()));
        }
        if let Some(predecessor) = self.upgrade.leaving_predecessor() {
            sources.push(Source::Predecessor);
            fds.push(also_writable(predecessor.as_fd(), predecessor.unsent.waits_for_space()));
        }
        if let Some(channel) = self.acme_channel() {
            sources.push(Source::Certificates);
            fds.push(readable(channel.as_fd()));
        }
        let deadline = self.timers().into_iter().map(|(at, _)| at).min();
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if must_release {
            sys::release_start();
        } else if timeout.is_none_or(|left| left >= LONG_WAIT) {
            sys::unmap_program();
        }
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = sources.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        ready.map(|(source, _)| source).collect()
    }

    fn site(&self) -> Option<&Site> {
        self.served.as_ref().map(|served| &served.site)
    }

    /// Whether a change or an upgrade is in progress. An upgrade is, too, when the new program has taken over.
    fn is_changing(&self) -> bool {
        self.changes.running.is_some() || self.upgrade.successor().is_some()
    }

    fn on_signals(&mut self) {
        let set = self.site().map(|site| site.signals).unwrap_or_default();
        while let Some(event) = self.signals.as_ref().and_then(|signals| signals.next(set)) {
            match event {
                SignalEvent::Leave => self.end_all(&MasterCommand::Leave, 0),
                SignalEvent::Stop(code) => self.end_all(&MasterCommand::Stop, code),
                SignalEvent::Reload => self.reload(Vec::new()),
                SignalEvent::ReopenLogs => _ = self.reopen_logs(),
                SignalEvent::Upgrade => self.begin_upgrade(None),
                SignalEvent::LogStats => {
                    if let Some(generation) = self.children.serving() {
                        _ = generation.channel.send(&MasterCommand::LogStats);
                    }
                }
                // `wait_and_handle` always reaps.
                SignalEvent::ChildEnded => {}
            }
        }
    }

    fn on_control(&mut self) {
        while let Some((client, request)) = self.control.as_mut().and_then(Control::receive) {
            let who = client.name();
            self.carry_out(client, request, &who);
        }
        if let Some(error) = self.control.as_mut().and_then(Control::take_failure) {
            log::error(format_args!("cannot accept a command: {error}; raise `ulimit -Hn` (LimitNOFILE)"));
        }
    }

    /// A user of the page asks for something.
    fn on_act(&mut self, text: &[u8], to: OwnedFd) {
        let client = Client::of(to);
        let Some((who, line)) = std::str::from_utf8(text).ok().and_then(|text| text.split_once('\n')) else {
            return;
        };
        let is_allowed = self.site().is_some_and(acts::have_page);
        match Request::parse(line.as_bytes()).filter(|request| is_allowed && request.is_for_page()) {
            Some(request) => self.carry_out(client, request, &format!("page, {}", who.escape_debug())),
            None => client.failed(["there is no such act here, or one of its values is wrong"]),
        }
    }

    fn carry_out(&mut self, client: Client, request: Request, who: &str) {
        if let Some(act) = request.act() {
            log::audit(format_args!("control: {who}: {act}"));
        }
        match request {
            // The new program knows only of earlier acts.
            Request::Drain(_) | Request::Maintenance(_) if self.upgrade.successor().is_some() => {
                client.failed([UPGRADING]);
            }
            Request::Reload => self.reload(vec![client]),
            Request::Upgrade => self.begin_upgrade(Some(client)),
            Request::Purge(purge) => self.purge(purge, client),
            Request::Drain(drain) => {
                // A mistake is not kept for later configurations.
                if drain.change == DrainChange::Undrain
                    || self.children.pools.has_application(&drain.application)
                {
                    self.acts.note(&Request::Drain(drain.clone()));
                }
                self.children.pools.drain(client, drain);
            }
            Request::Reopen => {
                let problems = self.reopen_logs();
                match problems.is_empty() {
                    true => self.respond_when_reopened(client),
                    false => client.failed(problems.iter().map(String::as_str)),
                }
            }
            Request::Level(level, time) => self.change_level(client, level, time),
            Request::Disconnect(selection) => self.disconnect(selection, client),
            Request::Maintenance(act) => self.switch_maintenance(client, &act),
            Request::Watch(filter) => match self.children.serving() {
                Some(generation) => {
                    let (filter, to) = (filter.to_string().into_bytes(), client.into_socket());
                    generation.send_descriptor(MasterCommand::Watch { filter, to });
                }
                None => client.failed([NOT_SERVING]),
            },
            Request::Stats(form) => match self.children.serving() {
                Some(generation) => {
                    let to = client.into_done_socket();
                    generation.send_descriptor(MasterCommand::Stats { form, to });
                }
                None => client.failed([NOT_SERVING]),
            },
        }
    }

    fn on_generation(&mut self, pid: Pid) -> Option<ExitCode> {
        self.children.generation(pid).into_iter().for_each(Generation::send_unsent);
        loop {
            let generation = self.children.generation_mut(pid)?;
            match generation.channel.receive::<GenerationEvent>() {
                Ok(Received::Message(GenerationEvent::Ready)) => {
                    let action = generation.on_event(lifecycle::Event::Ready, Instant::now());
                    if action == Action::TakeOver
                        && self.changes.starts(pid)
                        && let Err(lines) = self.complete_change()
                    {
                        return Some(could_not_start(&lines));
                    }
                }
                Ok(Received::Message(GenerationEvent::Failed(lines))) => generation.failure = lines,
                Ok(Received::Message(GenerationEvent::Alive)) => self.notify.alive(),
                Ok(Received::Message(GenerationEvent::ChallengeSet(number))) => {
                    self.on_challenge_set(number);
                }
                Ok(Received::Message(GenerationEvent::Retired)) => generation.on_retired(),
                Ok(Received::Message(GenerationEvent::LostLogDaemon)) => {
                    self.reopen(|sink| *sink == Sink::Syslog);
                }
                Ok(Received::Message(GenerationEvent::Purged { number, in_memory, files, failed })) => {
                    self.purges.note(pid, number, in_memory, files, failed);
                    self.advance_purges();
                }
                Ok(Received::Message(GenerationEvent::Disconnected {
                    number,
                    connections,
                    streams,
                    silent,
                })) => {
                    let ended = Disconnected { number, connections, streams, silent };
                    self.on_disconnected(Process::Generation(pid), ended);
                }
                Ok(Received::Message(GenerationEvent::Act { text, to })) => self.on_act(&text, to),
                // `reap` handles the end of the process.
                Ok(Received::End) => {
                    generation.channel_state = ChannelState::Closed;
                    return None;
                }
                Err(_) => return None,
            }
        }
    }
}
