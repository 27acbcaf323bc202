//! The spawner's end of one channel: the process groups that were started for one worker, until each has ended. One
//! thread waits for commands, for leaders that exit, and for the time to kill those that do not.
//!
//! Knows nothing of why a program is started or terminated.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::c_int;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{FileType, Mode, fchmod, fstat};
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use site::model::{BackgroundJobs, Log, Scripts};

use super::allowlist::{Allowlist, Forbidden};
use super::cgroup::Cgroup;
use super::launch::{EXECUTES, Launched, Launcher, Process};
use super::message::{self, Command, Event, MAX_COMMAND};
use super::spool::SpoolOpener;
use super::{Descendants, Exit, SpawnRequest, Streams};
use crate::process::ipc::{Channel, Received};
use crate::sys;

/// How many events are handled before the time is checked.
const EVENTS: usize = 64;
const COMMANDS_PER_TURN: usize = 16;
/// How often groups are checked whose leader has exited and whose descendants were terminated: their end is no event.
const DESCENDANTS_CHECK: Duration = Duration::from_millis(50);
/// How long no program is started as an account after one was not executed in time.
const SUSPENSION: Duration = Duration::from_secs(10);
/// In place of a group's number. Numbers begin at the time of day, far below it.
const CHANNEL: u64 = u64::MAX;

/// Reported once. After that, closing the descriptor is enough to remove it.
const EXITED: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

/// What holds for all programs.
#[derive(Debug, Clone)]
pub struct Settings {
    pub resources: site::model::Resources,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    pub background_jobs: BackgroundJobs,
    pub spool: PathBuf,
    /// Whether the worker learns of the process of each program.
    pub reports_starts: bool,
}

impl Settings {
    pub fn of(scripts: &Scripts, log: &Log) -> Settings {
        Settings {
            resources: scripts.resources,
            grace: scripts.grace,
            background_jobs: scripts.background_jobs,
            spool: scripts.spool.clone(),
            reports_starts: log.script_starts,
        }
    }
}

/// Carries out the commands of the worker at the other end of the channel. When that is closed, terminates every group,
/// and returns. Starts only programs on the allowlist, if there is one, and each in a control group, if there are any.
/// Errors: it cannot go on, and leaves groups alone.
pub fn serve(
    channel: Channel,
    settings: Settings,
    allowlist: Option<Arc<Allowlist>>,
    cgroups: Option<Vec<Cgroup>>,
) -> io::Result<()> {
    message::set_send_buffer(&channel)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &channel, EventData::new_u64(CHANNEL), EventFlags::IN)?;
    let groups = Groups {
        spool: SpoolOpener::new(&channel, &settings.spool)?,
        channel,
        allowlist,
        cgroups,
        epoll,
        launcher: Launcher::new(&settings.resources),
        settings,
        groups: HashMap::new(),
        kills: VecDeque::new(),
        events: VecDeque::new(),
        suspended: HashMap::new(),
    };
    groups.run()
}

struct Groups {
    spool: SpoolOpener,
    channel: Channel,
    allowlist: Option<Arc<Allowlist>>,
    /// The free control groups. `None`: there are no control groups.
    cgroups: Option<Vec<Cgroup>>,
    epoll: OwnedFd,
    launcher: Launcher,
    settings: Settings,
    groups: HashMap<u64, Group>,
    /// When to kill which group, in the order of time.
    kills: VecDeque<(Instant, u64)>,
    /// Events that found the channel full: at most two for each group.
    events: VecDeque<Event>,
    /// Until when no program is started as an account.
    suspended: HashMap<Vec<u8>, Instant>,
}

struct Group {
    leader: Process,
    state: State,
    cgroup: Option<Cgroup>,
}

impl Group {
    /// Whether no process of it is left, when its leader has been reaped.
    fn is_empty(&self) -> bool {
        signal(&self.leader, 0) == Err(Errno::SRCH)
            && !self.cgroup.as_ref().is_some_and(Cgroup::has_processes)
    }
}

/// The state of a group. Its leader is the program that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The leader runs.
    Running,
    /// The leader has exited, descendants have not.
    LeaderExited,
    /// The leader runs, after SIGTERM.
    Terminating,
    /// Descendants run, after SIGTERM.
    DescendantsTerminating,
    /// The leader runs, after SIGKILL.
    Killed,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Terminate,
    LeaderExited(Descendants),
    GraceOver,
}

impl State {
    const fn next(self, step: Step) -> State {
        use State::*;
        match (self, step) {
            (Running, Step::Terminate) => Terminating,
            (LeaderExited, Step::Terminate) => DescendantsTerminating,
            (Running, Step::LeaderExited(Descendants::Alive)) => LeaderExited,
            (Terminating, Step::LeaderExited(Descendants::Alive)) => DescendantsTerminating,
            // SIGKILL was sent to the whole group, so no descendant is left.
            (Running | Terminating | Killed, Step::LeaderExited(_)) => Over,
            (Terminating, Step::GraceOver) => Killed,
            (DescendantsTerminating, Step::GraceOver) => Over,
            (state, _) => state,
        }
    }
}

enum Turn {
    Again,
    ChannelClosed,
}

impl Groups {
    fn run(mut self) -> io::Result<()> {
        let mut buffer = vec![0; MAX_COMMAND];
        while let Turn::Again = self.turn(&mut buffer, None)? {}
        epoll::delete(&self.epoll, &self.channel)?;
        self.terminate_where(|_| true);
        let until = Instant::now() + self.settings.grace + super::KILL_TIMEOUT;
        while !self.groups.is_empty() && Instant::now() < until {
            self.turn(&mut buffer, Some(until))?;
        }
        Ok(())
    }

    fn turn(&mut self, buffer: &mut [u8], until: Option<Instant>) -> io::Result<Turn> {
        let mut events = Vec::with_capacity(EVENTS);
        let check = self.has_terminating_descendants().then(|| Instant::now() + DESCENDANTS_CHECK);
        let kill = self.kills.front().map(|(at, _)| *at);
        let until = [kill, check, until].into_iter().flatten().min();
        let left = until.map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match epoll::wait(&self.epoll, spare_capacity(&mut events), left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for epoll::Event { flags, data } in events {
            match data.u64() {
                CHANNEL => {
                    if flags.contains(EventFlags::OUT) {
                        self.send_events()?;
                    }
                    if let Turn::ChannelClosed = self.receive_commands(buffer)? {
                        return Ok(Turn::ChannelClosed);
                    }
                }
                number => self.on_exit(number),
            }
        }
        self.kill_due();
        self.remove_ended();
        Ok(Turn::Again)
    }

    fn has_terminating_descendants(&self) -> bool {
        // Each of them is to be killed.
        !self.kills.is_empty()
            && self.groups.values().any(|group| group.state == State::DescendantsTerminating)
    }

    /// Removes the groups whose descendants have ended after SIGTERM.
    fn remove_ended(&mut self) {
        if !self.has_terminating_descendants() {
            return;
        }
        let has_ended = |group: &Group| group.state == State::DescendantsTerminating && group.is_empty();
        let ended = self.groups.iter().filter(|(_, group)| has_ended(group)).map(|(number, _)| *number);
        ended.collect::<Vec<_>>().into_iter().for_each(|number| self.remove(number));
    }

    fn receive_commands(&mut self, buffer: &mut [u8]) -> io::Result<Turn> {
        for _ in 0..COMMANDS_PER_TURN {
            match self.channel.receive_in(buffer) {
                Ok(Received::Message(command)) => self.on_command(command),
                Ok(Received::End) => return Ok(Turn::ChannelClosed),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Turn::Again)
    }

    fn on_command(&mut self, command: Command<'_>) {
        match command {
            Command::Begin(first) => self.terminate_where(|number| number < first),
            Command::Start { number, request, streams } => {
                let started = match streams {
                    Some(streams) => self.start(number, &request, &streams),
                    None => Err(Errno::MFILE),
                };
                if let Err(errno) = started {
                    let exit = Exit::NotStarted(errno.raw_os_error());
                    self.send(Event::Exited { number, exit, descendants: Descendants::None });
                }
            }
            Command::Terminate(number) => self.terminate(number),
            Command::OpenSpool(number) => {
                if let Err(error) = self.spool.open(number) {
                    self.send(Event::SpoolOpened { number, file: Err(error) });
                }
            }
        }
    }

    fn start(
        &mut self,
        number: u64,
        request: &SpawnRequest<'_>,
        streams: &Streams,
    ) -> rustix::io::Result<()> {
        let allowlist = self.allowlist.clone();
        let credentials = match &allowlist {
            Some(allowlist) => allowlist.credentials_for(request).map_err(|Forbidden| Errno::PERM)?,
            None => None,
        };
        let (account, began) = (request.account.to_bytes(), Instant::now());
        if self.suspended.get(account).is_some_and(|until| began < *until) {
            return Err(Errno::AGAIN);
        }
        let cgroup = self.free_cgroup()?;
        if credentials.is_some() {
            open_to_others(streams);
        }
        let launched = self.launcher.launch(request, streams, cgroup.as_ref(), credentials);
        if credentials.is_some() && began.elapsed() >= EXECUTES {
            // Each attempt blocks this thread, which the site's other scripts need.
            self.suspended.insert(account.to_vec(), Instant::now() + SUSPENSION);
        }
        match launched {
            Ok(Launched::Running(leader)) => {
                let data = EventData::new_u64(number);
                if let Err(errno) = epoll::add(&self.epoll, &leader.end, data, EXITED) {
                    // Its exit would not be noticed.
                    _ = signal(&leader, libc::SIGKILL);
                    _ = wait(&leader);
                    self.release(cgroup);
                    return Err(errno);
                }
                if self.settings.reports_starts {
                    let pid = leader.pid.as_raw().unsigned_abs();
                    self.send(Event::Started { number, pid });
                }
                self.groups.insert(number, Group { leader, state: State::Running, cgroup });
                Ok(())
            }
            Ok(Launched::Failed(errno)) => {
                self.release(cgroup);
                Err(errno)
            }
            Err(error) => {
                self.release(cgroup);
                Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
            }
        }
    }

    /// `None`: there are no control groups. Errors: none is free.
    fn free_cgroup(&mut self) -> rustix::io::Result<Option<Cgroup>> {
        while self.cgroups.as_ref().is_some_and(Vec::is_empty) {
            // Of the terminating groups, this one has had the most time.
            let (_, number) = self.kills.pop_front().ok_or(Errno::AGAIN)?;
            self.kill(number);
        }
        Ok(self.cgroups.as_mut().and_then(Vec::pop))
    }

    /// Kills what is left in the control group, and makes it free.
    fn release(&mut self, cgroup: Option<Cgroup>) {
        if let (Some(mut cgroup), Some(free)) = (cgroup, &mut self.cgroups) {
            cgroup.kill();
            // Resets the count, so that the next program is not blamed.
            cgroup.was_full();
            free.push(cgroup);
        }
    }

    fn remove(&mut self, number: u64) {
        let group = self.groups.remove(&number);
        self.release(group.and_then(|group| group.cgroup));
    }

    fn on_exit(&mut self, number: u64) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        let Some(mut exit) = wait(&group.leader) else {
            _ = epoll::modify(&self.epoll, &group.leader.end, EventData::new_u64(number), EXITED);
            return;
        };
        let descendants = match (self.settings.background_jobs, group.state) {
            _ if group.is_empty() => Descendants::None,
            (BackgroundJobs::Kept, State::Running) => Descendants::Kept,
            _ => Descendants::Alive,
        };
        if exit == Exit::Signal(libc::SIGKILL) && group.cgroup.as_mut().is_some_and(Cgroup::was_full) {
            exit = Exit::OutOfMemory;
        }
        group.state = group.state.next(Step::LeaderExited(descendants));
        let is_over = group.state == State::Over;
        if is_over {
            self.remove(number);
        }
        let descendants = match descendants {
            Descendants::Alive if is_over => Descendants::None,
            descendants => descendants,
        };
        self.send(Event::Exited { number, exit, descendants });
    }

    fn terminate(&mut self, number: u64) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        let before = group.state;
        group.state = before.next(Step::Terminate);
        if group.state == before {
            return;
        }
        match signal(&group.leader, libc::SIGTERM) {
            // The descendants have ended since.
            Err(Errno::SRCH) if group.state == State::DescendantsTerminating => self.remove(number),
            _ => self.kills.push_back((Instant::now() + self.settings.grace, number)),
        }
    }

    fn terminate_where(&mut self, which: impl Fn(u64) -> bool) {
        let numbers: Vec<u64> = self.groups.keys().copied().filter(|number| which(*number)).collect();
        numbers.into_iter().for_each(|number| self.terminate(number));
    }

    fn kill_due(&mut self) {
        if self.kills.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((_, number)) = self.kills.pop_front_if(|(at, _)| *at <= now) {
            self.kill(number);
        }
    }

    fn kill(&mut self, number: u64) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        _ = signal(&group.leader, libc::SIGKILL);
        group.state = group.state.next(Step::GraceOver);
        let (is_over, cgroup) = (group.state == State::Over, group.cgroup.take());
        self.release(cgroup);
        if is_over {
            self.groups.remove(&number);
        }
    }

    fn send(&mut self, event: Event) {
        if self.events.is_empty() {
            match self.channel.send(&event) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.watch_channel(EventFlags::IN | EventFlags::OUT);
                }
                // A closed channel is noticed when commands are received.
                Ok(()) | Err(_) => return,
            }
        }
        self.events.push_back(event);
    }

    fn send_events(&mut self) -> io::Result<()> {
        while let Some(event) = self.events.front() {
            match self.channel.send(event) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Ok(()) | Err(_) => _ = self.events.pop_front(),
            }
        }
        self.watch_channel(EventFlags::IN);
        Ok(())
    }

    fn watch_channel(&self, events: EventFlags) {
        // A change of what was added before needs no memory, so it cannot fail.
        _ = epoll::modify(&self.epoll, &self.channel, EventData::new_u64(CHANNEL), events);
    }
}

/// Lets a program of another account open its streams by name, too (`/dev/stdin`, `/dev/stderr`). Other processes
/// cannot: pipes and files without a name are reached only through a process that has them open.
fn open_to_others(streams: &Streams) {
    let outputs = [(&streams.stdout, 0o666), (&streams.stderr, 0o666)];
    for (stream, mode) in streams.stdin.iter().map(|stdin| (stdin, 0o644)).chain(outputs) {
        let has_no_name = fstat(stream).is_ok_and(|stat| match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => true,
            FileType::RegularFile => stat.st_nlink == 0,
            _ => false,
        });
        if has_no_name {
            // If this fails, the program can still use the stream that it has.
            _ = fchmod(stream, Mode::from_raw_mode(mode));
        }
    }
}

/// Signals every process of the group.
pub fn signal(leader: &Process, signal: c_int) -> rustix::io::Result<()> {
    match sys::signal_group(leader.end.as_fd(), signal) {
        // Before Linux 6.9 by number. Another group gets the same number only after the last process of this one
        // has ended, and the kernel has used all other numbers.
        Err(Errno::INVAL | Errno::NOSYS | Errno::BADF) => by_number(leader.pid, signal),
        result => result,
    }
}

fn by_number(group: Pid, signal: c_int) -> rustix::io::Result<()> {
    let sent = match signal {
        0 => killpg(group, None),
        signal => Signal::try_from(signal).and_then(|signal| killpg(group, signal)),
    };
    sent.map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

/// Reaps a process. `None`: it has not ended.
pub fn wait(process: &Process) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    // Its number is not reused before it is reaped. P_PIDFD needs Linux 5.4.
    let Some(pid) = rustix::process::Pid::from_raw(process.pid.as_raw()) else { return Some(Exit::Lost) };
    match waitid(WaitId::Pid(pid), options) {
        Ok(None) => None,
        Ok(Some(status)) => Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code as u8),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Lost,
        }),
        Err(_) => Some(Exit::Lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_over_when_it_is_empty_or_was_killed() {
        use State::*;
        let alone = Step::LeaderExited(Descendants::None);
        let behind = Step::LeaderExited(Descendants::Alive);
        let kept = Step::LeaderExited(Descendants::Kept);
        for (steps, expected) in [
            (&[alone] as &[Step], Over),
            (&[behind], LeaderExited),
            (&[kept], Over),
            (&[Step::Terminate], Terminating),
            (&[Step::Terminate, Step::Terminate], Terminating),
            (&[Step::Terminate, alone], Over),
            (&[Step::Terminate, behind], DescendantsTerminating),
            (&[Step::Terminate, behind, Step::Terminate], DescendantsTerminating),
            (&[Step::Terminate, behind, Step::GraceOver], Over),
            (&[Step::Terminate, Step::GraceOver], Killed),
            (&[Step::Terminate, Step::GraceOver, behind], Over),
            (&[behind, Step::Terminate], DescendantsTerminating),
            (&[behind, Step::Terminate, Step::GraceOver], Over),
            (&[behind, Step::GraceOver], LeaderExited),
        ] {
            assert_eq!(steps.iter().fold(Running, |state, step| state.next(*step)), expected, "{steps:?}");
        }
    }
}
