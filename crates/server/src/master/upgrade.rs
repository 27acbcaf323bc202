//! An upgrade: the master starts a new program and hands off its sockets, and when the new program serves, the
//! connections. The two may be different versions, so the format of their messages must not change.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use rustix::io::FdFlags;
use rustix::process::getppid;
use site::disconnect::{self, Selection};

use super::acts::Acts;
use super::change::reject_clients;
use super::end::exit_text;
use super::generations::ChannelState;
use super::signals::is_first_process;
use super::sockets::{SocketOrigin, Sockets};
use super::unsent::{Progress, Unsent};
use super::{GRACE, Master};
use crate::control::{Client, Control, Request};
use crate::process::ipc::{Channel, Decoder, Encoder, Message, Received, TOO_MANY_IN_FLIGHT};
use crate::stats::{CounterMemory, History};
use crate::tls::TicketSecrets;
use crate::{log, sys};

/// The environment variable with the number of the channel's descriptor in the new program.
const VARIABLE: &str = "TAIPAN_UPGRADE";
/// How long the new program may take until it serves, and the handoff of the sockets.
const TIMEOUT: Duration = Duration::from_secs(60);
const FIRST_PROCESS: &str = "this program is process 1, as in a container, and the new one would end with it; start \
                             another container in its place";
const BELOW_FIRST_PROCESS: &str = "this program was started by process 1 of a container, which ends with it, and the \
                                   new one as well; start another container in its place";
/// Programs that start a program again when it has ended, by the 15 characters that the kernel keeps of a name.
const SUPERVISORS: [&str; 11] = [
    "circusd",
    "dinit",
    "perpd",
    "pidproxy",
    "procd",
    "runsv",
    "s6-supervise",
    "service-manager",
    "supervise",
    "supervise-daemo",
    "supervisord",
];
const UNKNOWN_TO_SYSTEMD: &str = "systemd would end the service, and the new program with it; write Type=notify into \
                                  the unit, or restart the service";
/// The machine's own PID namespace, in every kernel (`PROC_PID_INIT_INO`).
const MACHINE: &str = "pid:[4026531836]";

/// Whether a running program has started this one to take over.
pub fn is_successor() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// From the old program to the new one.
pub(super) enum Handoff {
    /// A listening socket, with its configured address.
    Socket {
        wanted: String,
        origin: SocketOrigin,
        fd: Arc<OwnedFd>,
    },
    /// The control socket.
    Control(OwnedFd),
    /// A pipe with the secrets of session tickets.
    Tickets(OwnedFd),
    /// Memory that generations of the old program and of earlier ones count in.
    Counters(OwnedFd),
    /// The memory of the history.
    History(OwnedFd),
    /// What an administrator has switched: the line of a request to the control socket.
    Act(String),
    End,
}

/// From the new program to the old one.
#[derive(Debug)]
pub(super) enum SuccessorCommand {
    /// It serves, and receives connections through this channel.
    TakeOver(OwnedFd),
    /// End the selected connections, and then send `Disconnected`. The text of a `Selection`.
    Disconnect { number: u32, selection: String },
}

/// From the old program, when it only finishes requests, to the new one: it has carried out the `Disconnect` with
/// this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disconnected {
    pub(super) number: u32,
    pub(super) connections: u64,
    pub(super) streams: u64,
    /// Workers that do not respond.
    pub(super) silent: u32,
}

impl Disconnected {
    /// The response to a selection that this program cannot read, as one of another version: nothing has ended, and it
    /// may have more.
    const fn unreadable(number: u32) -> Disconnected {
        Disconnected { number, connections: 0, streams: 0, silent: 1 }
    }
}

impl Message<'_> for Handoff {
    const MAX_BYTES: usize = 4096;

    fn encode(&self) -> Encoder<'_> {
        match self {
            Handoff::Socket { wanted, origin, fd } => {
                let kind = match origin {
                    SocketOrigin::Configured => b'S',
                    SocketOrigin::Passed => b'P',
                };
                Encoder::new(kind).bytes(wanted.as_bytes()).fd(fd)
            }
            Handoff::Control(fd) => Encoder::new(b'C').fd(fd),
            Handoff::Tickets(fd) => Encoder::new(b'K').fd(fd),
            Handoff::Counters(fd) => Encoder::new(b'N').fd(fd),
            Handoff::History(fd) => Encoder::new(b'Y').fd(fd),
            Handoff::Act(line) => Encoder::new(b'A').bytes(line.as_bytes()),
            Handoff::End => Encoder::new(b'E'),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<Handoff> {
        let origin = match kind {
            b'S' => SocketOrigin::Configured,
            b'P' => SocketOrigin::Passed,
            b'C' => return Some(Handoff::Control(fields.fd()?)),
            b'K' => return Some(Handoff::Tickets(fields.fd()?)),
            b'N' => return Some(Handoff::Counters(fields.fd()?)),
            b'Y' => return Some(Handoff::History(fields.fd()?)),
            b'A' => return Some(Handoff::Act(String::from_utf8(fields.rest().to_vec()).ok()?)),
            b'E' => return Some(Handoff::End),
            _ => return None,
        };
        let wanted = String::from_utf8(fields.rest().to_vec()).ok()?;
        Some(Handoff::Socket { wanted, origin, fd: Arc::new(fields.fd()?) })
    }
}

impl Message<'_> for SuccessorCommand {
    const MAX_BYTES: usize = 64 + disconnect::LONGEST;

    fn encode(&self) -> Encoder<'_> {
        match self {
            SuccessorCommand::TakeOver(handoff) => Encoder::new(b'T').fd(handoff),
            SuccessorCommand::Disconnect { number, selection } => {
                Encoder::new(b'D').u32(*number).bytes(selection.as_bytes())
            }
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<SuccessorCommand> {
        Some(match kind {
            b'T' => SuccessorCommand::TakeOver(fields.fd()?),
            b'D' => SuccessorCommand::Disconnect {
                number: fields.u32()?,
                selection: String::from_utf8(fields.rest().to_vec()).ok()?,
            },
            _ => return None,
        })
    }
}

impl Message<'_> for Disconnected {
    fn encode(&self) -> Encoder<'_> {
        let Disconnected { number, connections, streams, silent } = *self;
        Encoder::new(b'D').u32(number).u64(connections).u64(streams).u32(silent)
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<Disconnected> {
        (kind == b'D').then_some(())?;
        let (number, connections) = (fields.u32()?, fields.u64()?);
        Some(Disconnected { number, connections, streams: fields.u64()?, silent: fields.u32()? })
    }
}

impl Master {
    pub(super) fn upgrade(&mut self, client: Option<Client>) {
        if !self.phase.is_serving() || self.successor.is_some() || self.change.is_some() {
            let why = "another change is in progress; try again when it is over";
            log::warn(format_args!("no upgrade: {why}"));
            return reject_clients(client, why);
        }
        if let Some(why) = self.end_of_successor() {
            log::warn(format_args!("no upgrade: {why}"));
            return reject_clients(client, &why);
        }
        match self.start_successor(client) {
            Ok(successor) => self.successor = Some(successor),
            Err((line, client)) => {
                log::error(format_args!("{line}; this program continues"));
                reject_clients(client, &line);
            }
        }
    }

    /// Why a new program would end when this one does. `None`: it would go on.
    fn end_of_successor(&self) -> Option<Cow<'static, str>> {
        if is_first_process() {
            return Some(FIRST_PROCESS.into());
        }
        // It learns which process is the main one.
        if self.notify.has_manager() {
            return None;
        }
        let started_by_systemd =
            std::env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == std::process::id().to_string());
        if started_by_systemd {
            return Some(UNKNOWN_TO_SYSTEMD.into());
        }
        if let Some(supervisor) = self.supervisor() {
            return Some(
                format!(
                    "{supervisor} started this program, and would start it again when it ends, beside the new one; \
                     restart the service"
                )
                .into(),
            );
        }
        // Such as tini, dumb-init or a shell. On a machine, process 1 never ends.
        let is_on_machine =
            || std::fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace == Path::new(MACHINE));
        (self.is_child_of_first_process && !is_on_machine()).then_some(BELOW_FIRST_PROCESS.into())
    }

    /// The name of the program that starts this one again when it has ended. `None`: there is none, or it is not known.
    fn supervisor(&self) -> Option<String> {
        let parent = getppid()?.as_raw_nonzero().get();
        // Process 1 also becomes the parent of what has lost its own.
        if parent == 1 && !self.is_child_of_first_process {
            return None;
        }
        let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).ok()?;
        let name = name.trim_end();
        SUPERVISORS.contains(&name).then(|| name.to_owned())
    }

    /// Starts this program's file with the same arguments, and hands off what it needs to take over.
    fn start_successor(&self, client: Option<Client>) -> Result<Successor, (String, Option<Client>)> {
        let until = Instant::now() + TIMEOUT;
        let started = self.handoffs().and_then(|unsent| Ok((unsent, Successor::start(&self.program)?)));
        match started {
            Ok((unsent, (program, channel))) => {
                let channel_state = ChannelState::Open;
                let unsent = Unsent::new(unsent);
                let mut successor = Successor { program, channel, channel_state, unsent, client, until };
                match successor.hand_off() {
                    Ok(()) => Ok(successor),
                    Err(why) => {
                        _ = successor.end();
                        Err((why, successor.client))
                    }
                }
            }
            Err(error) => {
                let program = self.program.display();
                Err((format!("cannot start {program}: {error}; install the new program there"), client))
            }
        }
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
        if let Some(tickets) = &self.tls.tickets {
            all.push_back(Handoff::Tickets(tickets.to_pipe()?));
        }
        all.extend(self.counters.files()?.into_iter().map(Handoff::Counters));
        if let Some(fd) = self.counters.history() {
            all.push_back(Handoff::History(fd?));
        }
        all.extend(self.acts.requests().into_iter().map(|request| Handoff::Act(request.text())));
        all.push_back(Handoff::End);
        Ok(all)
    }

    pub(super) fn on_successor(&mut self) {
        let Some(successor) = &mut self.successor else { return };
        if let Err(why) = successor.hand_off() {
            return self.abandon_upgrade(&why);
        }
        match successor.receive() {
            Ok(Some(SuccessorCommand::TakeOver(handoff))) => self.on_takeover(handoff),
            Ok(Some(SuccessorCommand::Disconnect { number, selection })) => match selection.parse() {
                Ok(selection) => self.disconnect_for_successor(number, selection),
                // It may have ended.
                Err(_) => _ = successor.channel.send(&Disconnected::unreadable(number)),
            },
            Ok(None) => {}
            // It may have been replaced itself.
            Err(_) if self.phase.is_replaced() => successor.channel_state = ChannelState::Closed,
            Err(_) => {
                let Some(mut successor) = self.successor.take() else { return };
                // Without the channel, it can never take over.
                let end = successor.end().map_or_else(|e| e.to_string(), exit_text);
                report_failed_upgrade(successor, &ended_before_serving(&end));
            }
        }
    }

    fn on_takeover(&mut self, handoff: OwnedFd) {
        let Some(successor) = &mut self.successor else { return };
        if let Some(process) = rustix::process::Pid::from_raw(successor.pid().as_raw()) {
            self.notify.main_process(process);
        }
        let client = successor.client.take();
        log::info(format_args!("process {} has taken over", successor.pid()));
        self.phase = self.phase.replace();
        self.pid_file = None;
        self.drop_change("another program has taken over");
        let patience = self.site.as_ref().map_or(Duration::ZERO, |site| site.timeouts.reload);
        self.retire_generations(None, Some(handoff), Instant::now() + patience + GRACE);
        self.respond_when_retired(client.into_iter().collect());
        self.sockets = Sockets::default();
        self.control = None;
        self.next_ping = None;
        self.restart = None;
    }

    /// After its takeover, the end of the new program does not concern this one.
    pub(super) fn on_program_exit(&mut self, pid: Pid, end: &str) {
        if self.phase.is_serving()
            && let Some(successor) = self.successor.take_if(|successor| successor.pid() == pid)
        {
            report_failed_upgrade(successor, &ended_before_serving(end));
        }
    }

    /// Ends the new program, which has not taken over, and reports why.
    pub(super) fn abandon_upgrade(&mut self, why: &str) {
        let Some(mut successor) = self.successor.take() else { return };
        _ = successor.end();
        report_failed_upgrade(successor, why);
    }

    /// Ends the new program because this one is ending.
    pub(super) fn cancel_upgrade(&mut self) {
        let Some(mut successor) = self.successor.take() else { return };
        _ = successor.end();
        reject_clients(successor.client, "the program is ending");
    }
}

fn report_failed_upgrade(successor: Successor, why: &str) {
    log::error(format_args!("{why}; this program continues"));
    reject_clients(successor.client, why);
}

fn ended_before_serving(end: &str) -> String {
    format!("the new program has ended before it served: {end}")
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
    pub(super) tickets: Option<TicketSecrets>,
    pub(super) counters: Vec<CounterMemory>,
    pub(super) history: Option<History>,
    pub(super) acts: Acts,
}

/// The old program, in the new one.
pub(super) struct Predecessor {
    channel: Channel,
    pub(super) unsent: Unsent<SuccessorCommand>,
}

impl Predecessor {
    /// The predecessor with what it hands off. `None`: this program was not started by an upgrade.
    pub(super) fn find() -> io::Result<Option<(Predecessor, Inherited)>> {
        let Some(number) = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()) else {
            return Ok(None);
        };
        let channel = Channel::from(sys::adopt(number)?);
        let mut inherited = Inherited::default();
        let until = Instant::now() + TIMEOUT;
        loop {
            match channel.receive_until::<Handoff>(until)? {
                Received::Message(Handoff::Socket { wanted, origin, fd }) => {
                    let wanted = site::address::Address::parse(&wanted, Path::new(""));
                    inherited.sockets.inherit(wanted.map_err(io::Error::other)?, origin, fd);
                }
                Received::Message(Handoff::Control(fd)) => inherited.control = Some(Control::inherit(fd)?),
                Received::Message(Handoff::Tickets(fd)) => inherited.tickets = TicketSecrets::from_pipe(fd),
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
                Received::Message(Handoff::End) => break,
                Received::End => return Err(io::Error::other("the old program has ended")),
            }
        }
        Ok(Some((Predecessor { channel, unsent: Unsent::default() }, inherited)))
    }

    /// Tells the predecessor that this program serves and receives its connections at the other end of `handoff`, now
    /// or as soon as the kernel takes the descriptor. Until then, both programs accept connections.
    pub(super) fn take_over(&mut self, handoff: OwnedFd) {
        // The first message: there is space.
        self.unsent.push(SuccessorCommand::TakeOver(handoff));
        self.send_unsent();
    }

    pub(super) fn send_unsent(&mut self) {
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
    pub(super) fn receive(&self) -> io::Result<Disconnected> {
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::process::ipc::tests::check_codec;

    #[test]
    fn messages_are_received_as_they_were_sent() {
        let selections = ["connection 1a2b", "client 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"];
        check_codec(
            selections.map(|text| SuccessorCommand::Disconnect { number: 7, selection: text.to_owned() }),
        );
        check_codec([SuccessorCommand::TakeOver(File::open("/dev/null").expect("it is there").into())]);
        check_codec([Disconnected { number: 7, connections: 1, streams: 2, silent: 3 }]);
    }
}
