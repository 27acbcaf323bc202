//! An upgrade: the master starts a new program and hands off its sockets, and when the new program serves, the
//! connections.

mod message;
mod obstacle;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use rustix::io::FdFlags;
use site::disconnect::Selection;

use super::acts::Acts;
use super::change::reject_clients;
use super::disconnects::Process;
use super::end::exit_text;
use super::generations::ChannelState;
use super::sockets::Sockets;
use super::unsent::{Progress, Unsent};
use super::{GRACE, Master};
use crate::control::{Client, Control, Request};
use crate::process::ipc::{Channel, Received, TOO_MANY_IN_FLIGHT};
use crate::stats::{CounterMemory, History};
use crate::tls::TicketSecrets;
use crate::{log, sys};
pub(super) use message::Disconnected;
use message::{Handoff, SuccessorCommand, Unknown};
use obstacle::obstacle;

/// The environment variable with the number of the channel's descriptor in the new program.
const VARIABLE: &str = "TAIPAN_UPGRADE";
/// How long the new program may take until it serves, and the handoff of the sockets.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Whether a running program has started this one to take over.
pub fn is_successor() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// The programs before and behind this one.
pub(super) struct Upgrade {
    /// The file that an upgrade executes: this program's, which may have been replaced.
    program: PathBuf,
    /// As it was at the start: process 1 also becomes the parent of what has lost its own.
    is_child_of_first_process: bool,
    predecessor: Option<Predecessor>,
    successor: Option<Successor>,
}

impl Upgrade {
    /// Errors: the file of this program is not known.
    pub(super) fn new(
        predecessor: Option<Predecessor>,
        is_child_of_first_process: bool,
    ) -> io::Result<Upgrade> {
        // Without /proc, as it was called.
        let as_called = |error| std::env::args_os().next().map(PathBuf::from).ok_or(error);
        let program = std::env::current_exe().or_else(as_called)?;
        Ok(Upgrade { program, is_child_of_first_process, predecessor, successor: None })
    }

    /// In a forked child.
    pub(super) fn release(&mut self) {
        (self.predecessor, self.successor) = (None, None);
    }

    /// Leaves it to the kernel to close the channel to the predecessor at the exit. The predecessor kills this program
    /// when the channel closes, and would then report a signal in place of the exit code.
    pub(super) fn keep_channel_until_exit(&mut self) {
        std::mem::forget(self.predecessor.take());
    }

    /// Whether this program has taken nothing over yet from one that serves.
    pub(super) fn has_serving_predecessor(&self) -> bool {
        self.predecessor.as_ref().is_some_and(|predecessor| predecessor.state == PredecessorState::Serving)
    }

    /// The predecessor that finishes its requests.
    pub(super) fn leaving_predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref().filter(|predecessor| predecessor.state == PredecessorState::Leaving)
    }

    /// The keys of session tickets of the predecessor.
    pub(super) fn tickets(&self) -> Option<&TicketSecrets> {
        self.predecessor.as_ref()?.tickets.as_ref()
    }

    /// The certificates of the challenges for which the predecessor finishes its orders, by name.
    pub(super) fn challenges(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.predecessor.as_ref().map(|predecessor| predecessor.challenges.clone()).unwrap_or_default()
    }

    /// Tells the predecessor that this program serves and receives its connections at the other end of `handoff`.
    pub(super) fn take_over(&mut self, handoff: OwnedFd) {
        if let Some(predecessor) = &mut self.predecessor {
            predecessor.take_over(handoff);
        }
    }

    pub(super) fn successor(&self) -> Option<&Successor> {
        self.successor.as_ref()
    }

    /// Starts this program's file with the same arguments, and hands off what it needs to take over. If that fails, the
    /// client learns why.
    fn start(&mut self, handoffs: io::Result<VecDeque<Handoff>>, client: Option<Client>) {
        let until = Instant::now() + TIMEOUT;
        let started = handoffs.and_then(|unsent| Ok((unsent, Successor::start(&self.program)?)));
        let (why, client) = match started {
            Ok((unsent, (program, channel))) => {
                let channel_state = ChannelState::Open;
                let unsent = Unsent::new(unsent);
                let mut successor = Successor { program, channel, channel_state, unsent, client, until };
                match successor.hand_off() {
                    Ok(()) => {
                        self.successor = Some(successor);
                        return;
                    }
                    Err(why) => {
                        _ = successor.end();
                        (why, successor.client)
                    }
                }
            }
            Err(error) => {
                let program = self.program.display();
                (format!("cannot start {program}: {error}; install the new program there"), client)
            }
        };
        report_failure(&why, client);
    }

    /// The new program has ended before it served.
    fn on_end(&mut self, end: &str) {
        let Some(successor) = self.successor.take() else { return };
        report_failure(&format!("the new program has ended before it served: {end}"), successor.client);
    }

    /// Ends the new program, which has not taken over, and reports why.
    pub(super) fn abandon(&mut self, why: &str) {
        let Some(mut successor) = self.successor.take() else { return };
        _ = successor.end();
        report_failure(why, successor.client);
    }

    /// Ends the new program because this one is ending.
    pub(super) fn cancel(&mut self) {
        let Some(mut successor) = self.successor.take() else { return };
        _ = successor.end();
        reject_clients(successor.client, "the program is ending");
    }
}

/// An upgrade has failed.
fn report_failure(why: &str, client: Option<Client>) {
    log::error(format_args!("{why}; this program continues"));
    reject_clients(client, why);
}

impl Master {
    pub(super) fn begin_upgrade(&mut self, client: Option<Client>) {
        if !self.phase.is_serving() || self.is_changing() {
            let why = "another change is in progress; try again when it is over";
            log::warn(format_args!("no upgrade: {why}"));
            return reject_clients(client, why);
        }
        if let Some(why) = obstacle(&self.notify, self.upgrade.is_child_of_first_process) {
            log::warn(format_args!("no upgrade: {why}"));
            return reject_clients(client, &why);
        }
        let handoffs = self.handoffs();
        self.upgrade.start(handoffs, client);
    }

    /// What a new program needs to take over, in the order in which it is sent.
    fn handoffs(&self) -> io::Result<VecDeque<Handoff>> {
        let mut all = VecDeque::new();
        for bound in self.sockets.iter() {
            for fd in &bound.fds {
                let (wanted, fd) = (bound.wanted.to_string(), fd.clone());
                all.push_back(Handoff::Socket { wanted, origin: bound.origin, fd });
            }
        }
        if let Some(control) = &self.control {
            all.push_back(Handoff::Control(control.socket().try_clone()?.into()));
        }
        if let Some(tickets) = self.served.as_ref().and_then(|served| served.tls.tickets.as_ref()) {
            all.push_back(Handoff::Tickets(tickets.to_pipe()?));
        }
        all.extend(self.counters.files()?.into_iter().map(Handoff::Counters));
        if let Some(fd) = self.counters.history() {
            all.push_back(Handoff::History(fd?));
        }
        all.extend(self.acts.requests().into_iter().map(|request| Handoff::Act(request.text())));
        let challenges = self.open_challenges().into_iter();
        all.extend(challenges.map(|(name, pem)| Handoff::Challenge { name, pem }));
        all.push_back(Handoff::End);
        Ok(all)
    }

    pub(super) fn on_successor(&mut self) {
        let Some(successor) = &mut self.upgrade.successor else { return };
        if let Err(why) = successor.hand_off() {
            return self.upgrade.abandon(&why);
        }
        match successor.receive() {
            Ok(Some(SuccessorCommand::TakeOver(handoff))) => self.on_takeover(handoff),
            Ok(Some(SuccessorCommand::Disconnect { number, selection })) => match selection.parse() {
                Ok(selection) => self.disconnect_for_successor(number, selection),
                // It may have ended.
                Err(_) => _ = successor.channel.send(&Disconnected::unreadable(number)),
            },
            Ok(Some(SuccessorCommand::Unknown(Unknown { kind, .. }))) => log::warn(format_args!(
                "the new program asks for what this version does not know (kind {}); it is ignored",
                kind.escape_ascii()
            )),
            Ok(None) => {}
            // It may have been replaced itself.
            Err(_) if self.phase.is_replaced() => successor.channel_state = ChannelState::Closed,
            Err(_) => {
                // Without the channel, it can never take over.
                let end = successor.end().map_or_else(|e| e.to_string(), exit_text);
                self.upgrade.on_end(&end);
            }
        }
    }

    fn on_takeover(&mut self, handoff: OwnedFd) {
        let Some(successor) = &mut self.upgrade.successor else { return };
        if let Some(process) = rustix::process::Pid::from_raw(successor.pid().as_raw()) {
            self.notify.main_process(process);
        }
        let client = successor.client.take();
        log::info(format_args!("process {} has taken over", successor.pid()));
        self.phase = self.phase.replace();
        self.pid_file = None;
        self.drop_change("another program has taken over");
        self.children.certificates.finish_orders(Instant::now());
        let patience = self.site().map_or(Duration::ZERO, |site| site.timeouts.reload);
        self.retire_generations(None, Some(handoff), Instant::now() + patience + GRACE);
        self.respond_when_retired(client.into_iter().collect());
        self.sockets = Sockets::default();
        self.control = None;
        self.notify.end_pings();
        self.restart.cancel();
    }

    /// After its takeover, the end of the new program does not concern this one.
    pub(super) fn on_program_exit(&mut self, pid: Pid, end: &str) {
        let is_it = self.upgrade.successor.as_ref().is_some_and(|successor| successor.pid() == pid);
        if self.phase.is_serving() && is_it {
            self.upgrade.on_end(end);
        }
    }

    /// The predecessor, which finishes its requests, has sent something or has ended.
    pub(super) fn on_predecessor(&mut self) {
        let Some(predecessor) = &mut self.upgrade.predecessor else { return };
        predecessor.send_unsent();
        match predecessor.receive() {
            Ok(ended) => self.on_disconnected(Process::Predecessor, ended),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                self.upgrade.predecessor = None;
                if let Some(pid_file) = &self.pid_file {
                    pid_file.take_over();
                }
                self.advance_disconnects();
            }
        }
    }
}

/// The new program, in the old one.
pub(super) struct Successor {
    program: Child,
    pub(super) channel: Channel,
    pub(super) channel_state: ChannelState,
    /// What the channel has not taken yet. A program that hangs reads nothing.
    pub(super) unsent: Unsent<Handoff>,
    client: Option<Client>,
    pub(super) until: Instant,
}

impl Successor {
    fn start(program: &Path) -> io::Result<(Child, Channel)> {
        let (ours, theirs) = Channel::pair()?;
        rustix::io::fcntl_setfd(&theirs, FdFlags::empty())?;
        let mut command = Command::new(program);
        // The name may decide what the arguments mean.
        if let Some(name) = std::env::args_os().next() {
            command.arg0(name);
        }
        command.args(std::env::args_os().skip(1)).env(VARIABLE, theirs.as_raw_fd().to_string());
        for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(variable);
        }
        Ok((command.spawn()?, ours))
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_raw(self.program.id() as i32)
    }

    /// Why it does not serve, when its time is over.
    pub(super) fn why_not_in_time(&self) -> String {
        match self.unsent.due() {
            Some(_) => format!("the new program cannot be sent what it needs: {TOO_MANY_IN_FLIGHT}"),
            None => "the new program does not serve in time".to_owned(),
        }
    }

    /// Sends as much of the handoff as the channel takes. Errors: why the rest can never be sent.
    fn hand_off(&mut self) -> Result<(), String> {
        match self.unsent.send(Instant::now(), |handoff| self.channel.send(handoff)) {
            Ok(Progress::AllSent | Progress::Waits) => {}
            Ok(Progress::Delayed) => {
                log::warn(format_args!("the new program waits for what it needs: {TOO_MANY_IN_FLIGHT}"));
            }
            // The program has ended, and `receive` reports that.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.unsent.clear(),
            Err(error) => return Err(format!("the new program cannot be sent what it needs: {error}")),
        }
        Ok(())
    }

    /// Kills and reaps the program.
    fn end(&mut self) -> io::Result<WaitStatus> {
        // Fails only if it has ended.
        _ = self.program.kill();
        let status = self.program.wait()?;
        Ok(WaitStatus::from_raw(self.pid(), status.into_raw())?)
    }

    /// The next command. Errors: the program has ended.
    fn receive(&self) -> io::Result<Option<SuccessorCommand>> {
        match self.channel.receive::<SuccessorCommand>() {
            Ok(Received::Message(command)) => Ok(Some(command)),
            Ok(Received::End) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What a program takes over from the one before.
#[derive(Default)]
pub(super) struct Inherited {
    pub(super) sockets: Sockets,
    pub(super) control: Option<Control>,
    pub(super) counters: Vec<CounterMemory>,
    pub(super) history: Option<History>,
    pub(super) acts: Acts,
}

/// The old program, in the new one.
pub(super) struct Predecessor {
    channel: Channel,
    state: PredecessorState,
    /// The keys of its session tickets. `None`: it has none.
    tickets: Option<TicketSecrets>,
    /// The certificates of its open challenges, by name.
    challenges: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) unsent: Unsent<SuccessorCommand>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PredecessorState {
    Serving,
    /// It has been told that this program serves, and finishes its requests.
    Leaving,
}

impl Predecessor {
    /// The predecessor with what it hands off. `None`: this program was not started by an upgrade.
    pub(super) fn find() -> io::Result<Option<(Predecessor, Inherited)>> {
        let Some(number) = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()) else {
            return Ok(None);
        };
        let channel = Channel::from(sys::adopt(number)?);
        let (mut inherited, mut tickets, mut challenges) = (Inherited::default(), None, BTreeMap::new());
        let until = Instant::now() + TIMEOUT;
        loop {
            match channel.receive_until::<Handoff>(until)? {
                Received::Message(Handoff::Socket { wanted, origin, fd }) => {
                    let wanted = site::address::Address::parse(&wanted, Path::new(""));
                    inherited.sockets.inherit(wanted.map_err(io::Error::other)?, origin, fd);
                }
                Received::Message(Handoff::Control(fd)) => inherited.control = Some(Control::inherit(fd)?),
                Received::Message(Handoff::Tickets(fd)) => tickets = TicketSecrets::from_pipe(fd),
                // What cannot be read is not counted.
                Received::Message(Handoff::Counters(fd)) => {
                    inherited.counters.extend(CounterMemory::adopt(fd))
                }
                // Another version may have other points.
                Received::Message(Handoff::History(fd)) => inherited.history = History::adopt(fd).ok(),
                // Another version may have other acts.
                Received::Message(Handoff::Act(line)) => {
                    let request = Request::parse(line.trim_end().as_bytes());
                    request.into_iter().for_each(|request| inherited.acts.note(&request));
                }
                Received::Message(Handoff::Challenge { name, pem }) => _ = challenges.insert(name, pem),
                Received::Message(Handoff::Unknown(Unknown { kind, .. })) => log::warn(format_args!(
                    "the running program is of another version, and hands over what this one does not know (kind {}); \
                     it is left out",
                    kind.escape_ascii()
                )),
                Received::Message(Handoff::End) => break,
                Received::End => return Err(io::Error::other("the old program has ended")),
            }
        }
        let state = PredecessorState::Serving;
        let unsent = Unsent::default();
        Ok(Some((Predecessor { channel, state, tickets, challenges, unsent }, inherited)))
    }

    /// Tells the predecessor that this program serves and receives its connections at the other end of `handoff`, now
    /// or as soon as the kernel takes the descriptor. Until then, both programs accept connections.
    fn take_over(&mut self, handoff: OwnedFd) {
        self.state = PredecessorState::Leaving;
        // The configuration that serves has them.
        self.tickets = None;
        // The first message: there is space.
        self.unsent.push(SuccessorCommand::TakeOver(handoff));
        self.send_unsent();
    }

    fn send_unsent(&mut self) {
        match self.unsent.send(Instant::now(), |command| self.channel.send(command)) {
            Ok(Progress::AllSent | Progress::Waits) => {}
            Ok(Progress::Delayed) => log::warn(format_args!(
                "the old program waits for the command to hand off its connections: {TOO_MANY_IN_FLIGHT}"
            )),
            Err(error) => log::error(format_args!("cannot notify the old program: {error}")),
        }
    }

    /// Has the predecessor end the connections that it still has.
    pub(super) fn disconnect(&self, number: u32, selection: &Selection) -> io::Result<()> {
        self.channel.send(&SuccessorCommand::Disconnect { number, selection: selection.to_string() })
    }

    /// What the predecessor has ended. Errors: `WouldBlock` if it has sent nothing; otherwise it has ended itself.
    fn receive(&self) -> io::Result<Disconnected> {
        match self.channel.receive::<Disconnected>()? {
            Received::Message(disconnected) => Ok(disconnected),
            Received::End => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl AsFd for Predecessor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
