//! The spawner's end of one channel: process groups that were started for a worker, until each has ended.
//! One thread, which waits for what the worker asks, for processes that end, and for the time to kill
//! those that do not.
//!
//! Knows nothing of why something is started or ended.

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
use site::model::Scripts;

use super::allowlist::Allowlist;
use super::cgroup::Cgroup;
use super::launch::{EXECUTES, Launched, Launcher, Process};
use super::message::{self, Answer, Heard, MAX_REQUEST, Request, Wanted};
use super::{Descendants, Exit, spool};
use crate::ipc::{Channel, MAX_DESCRIPTORS};
use crate::sys;

/// What happens at once before the time is looked at.
const EVENTS: usize = 64;
const REQUESTS_PER_TURN: usize = 16;
/// How long no program is started as an account after one was not executed in time.
const HELD: Duration = Duration::from_secs(10);
/// In place of a group's number; theirs are counted from the time.
const CHANNEL: u64 = u64::MAX;
/// What holds for all that is started.
#[derive(Debug, Clone)]
pub struct Settings {
    pub resources: site::model::Resources,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    pub spool: PathBuf,
}

impl Settings {
    pub fn of(scripts: &Scripts) -> Settings {
        Settings { resources: scripts.resources, grace: scripts.grace, spool: scripts.spool.clone() }
    }
}

/// Does what the worker at the other end of the channel asks; when that is closed, ends every group, and
/// returns. Errors: it cannot go on, and what it has started is left to its fate.
pub fn serve(channel: Channel, settings: Settings) -> io::Result<()> {
    serve_allowed(channel, settings, None, None)
}

/// As `serve`, but starts only what is permitted, and each in a control group.
pub fn serve_allowed(
    channel: Channel,
    settings: Settings,
    allowlist: Option<Arc<Allowlist>>,
    cgroups: Option<Vec<Cgroup>>,
) -> io::Result<()> {
    message::make_room(&channel)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &channel, EventData::new_u64(CHANNEL), EventFlags::IN)?;
    let groups = Groups {
        channel,
        allowlist,
        cgroups,
        epoll,
        launcher: Launcher::new(&settings.resources),
        settings,
        groups: HashMap::new(),
        kills: VecDeque::new(),
        answers: VecDeque::new(),
        held: HashMap::new(),
    };
    groups.until_the_channel_ends()
}

struct Groups {
    channel: Channel,
    /// `None`: everything.
    allowlist: Option<Arc<Allowlist>>,
    /// That nobody is in. `None`: there are none at all.
    cgroups: Option<Vec<Cgroup>>,
    epoll: OwnedFd,
    launcher: Launcher,
    settings: Settings,
    groups: HashMap<u64, Group>,
    /// Who is to be killed, and when; the first is the next.
    kills: VecDeque<(Instant, u64)>,
    /// For which the channel had no room.
    answers: VecDeque<Answer>,
    /// Accounts whose processes are stopped before they execute a program, and until when none is started.
    held: HashMap<Vec<u8>, Instant>,
}

struct Group {
    leader: Process,
    state: State,
    cgroup: Option<Cgroup>,
}

/// Of a group. Its leader is the program that was started; the others are what that has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The leader, and perhaps others.
    Running,
    /// The leader has ended, others have not.
    LeftBehind,
    /// The leader, after SIGTERM.
    Ending,
    /// Others, after SIGTERM.
    EndingBehind,
    /// The leader, after SIGKILL.
    Killed,
    Over,
}

/// What happens to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Its worker wants it to end.
    Ask,
    /// The leader has ended.
    LeaderEnded(Descendants),
    /// The grace is over.
    Grace,
}

impl State {
    const fn next(self, step: Step) -> State {
        use State::*;
        match (self, step) {
            (Running, Step::Ask) => Ending,
            (LeftBehind, Step::Ask) => EndingBehind,
            (Running, Step::LeaderEnded(Descendants::Alive)) => LeftBehind,
            (Ending, Step::LeaderEnded(Descendants::Alive)) => EndingBehind,
            // With SIGKILL sent to all, nobody stays.
            (Running | Ending | Killed, Step::LeaderEnded(_)) => Over,
            (Ending, Step::Grace) => Killed,
            (EndingBehind, Step::Grace) => Over,
            (state, _) => state,
        }
    }
}

enum Turn {
    Again,
    ChannelEnded,
}

impl Groups {
    fn until_the_channel_ends(mut self) -> io::Result<()> {
        let mut buffer = vec![0; MAX_REQUEST];
        while let Turn::Again = self.turn(&mut buffer, None)? {}
        epoll::delete(&self.epoll, &self.channel)?;
        self.end_where(|_| true);
        let until = Instant::now() + self.settings.grace + super::KILL_TIMEOUT;
        while !self.groups.is_empty() && Instant::now() < until {
            self.turn(&mut buffer, Some(until))?;
        }
        Ok(())
    }

    fn turn(&mut self, buffer: &mut [u8], until: Option<Instant>) -> io::Result<Turn> {
        let mut events = Vec::with_capacity(EVENTS);
        let until = self.kills.front().map(|(at, _)| *at).into_iter().chain(until).min();
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
                        self.send_answers()?;
                    }
                    if let Turn::ChannelEnded = self.hear(buffer)? {
                        return Ok(Turn::ChannelEnded);
                    }
                }
                number => self.leader_ended(number),
            }
        }
        self.kill_due();
        Ok(Turn::Again)
    }

    fn hear(&mut self, buffer: &mut [u8]) -> io::Result<Turn> {
        for _ in 0..REQUESTS_PER_TURN {
            match message::receive_request(&self.channel, buffer) {
                Ok(Some(Heard::Start { number, wanted, fds })) => self.start(number, &wanted, fds),
                Ok(Some(Heard::Bare(number))) => self.not_started(number, Errno::MFILE.raw_os_error()),
                Ok(Some(Heard::Request(Request::Begin(first)))) => self.end_where(|number| number < first),
                Ok(Some(Heard::Request(Request::End(number)))) => self.end(number),
                Ok(Some(Heard::Request(Request::Spool(number)))) => {
                    let file = spool::open_unnamed(&self.settings.spool);
                    self.answer(Answer::Spooled { number, file });
                }
                Ok(None) => return Ok(Turn::ChannelEnded),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Turn::Again)
    }

    fn start(&mut self, number: u64, wanted: &Wanted<'_>, fds: [OwnedFd; MAX_DESCRIPTORS]) {
        let allowlist = self.allowlist.clone();
        let Some(credentials) =
            allowlist.as_ref().map_or(Some(None), |allowlist| allowlist.credentials_for(wanted))
        else {
            return self.not_started(number, Errno::PERM.raw_os_error());
        };
        let (account, began) = (wanted.account.to_bytes(), Instant::now());
        if self.held.get(account).is_some_and(|until| began < *until) {
            return self.not_started(number, Errno::AGAIN.raw_os_error());
        }
        match self.free_cgroup() {
            Ok(cgroup) => {
                if credentials.is_some() {
                    open_to_others(&fds);
                }
                let outcome = self.launcher.start(wanted, &fds, cgroup.as_ref(), credentials);
                // The program has them, or nobody.
                drop(fds);
                self.take_in(number, cgroup, outcome);
                if credentials.is_some() && began.elapsed() >= EXECUTES {
                    // Others wait for this thread meanwhile. There are as many as the site names.
                    self.held.insert(account.to_vec(), Instant::now() + HELD);
                }
            }
            Err(errno) => self.not_started(number, errno.raw_os_error()),
        }
    }

    fn take_in(&mut self, number: u64, cgroup: Option<Cgroup>, outcome: io::Result<Launched>) {
        match outcome {
            Ok(Launched::Running(leader)) => {
                let data = EventData::new_u64(number);
                if let Err(errno) = epoll::add(&self.epoll, &leader.pidfd, data, EventFlags::IN) {
                    // Nobody would see it end.
                    _ = signal(&leader, libc::SIGKILL);
                    _ = wait(&leader);
                    self.let_go(cgroup);
                    return self.not_started(number, errno.raw_os_error());
                }
                self.groups.insert(number, Group { leader, state: State::Running, cgroup });
            }
            Ok(Launched::Failed(process, errno)) => {
                _ = wait(&process);
                self.let_go(cgroup);
                self.not_started(number, errno.raw_os_error());
            }
            Err(error) => {
                self.let_go(cgroup);
                self.not_started(number, error.raw_os_error().unwrap_or(libc::EIO));
            }
        }
    }

    /// For the next program; `None`: there are none at all. Errors: all are taken.
    fn free_cgroup(&mut self) -> rustix::io::Result<Option<Cgroup>> {
        while self.cgroups.as_ref().is_some_and(Vec::is_empty) {
            // Of those that are ending, this one has had the most time.
            let (_, number) = self.kills.pop_front().ok_or(Errno::AGAIN)?;
            self.kill(number);
        }
        Ok(self.cgroups.as_mut().and_then(Vec::pop))
    }

    /// Nobody is left in it then.
    fn let_go(&mut self, cgroup: Option<Cgroup>) {
        if let (Some(mut cgroup), Some(free)) = (cgroup, &mut self.cgroups) {
            cgroup.kill();
            // The next one is not to be blamed.
            cgroup.was_full();
            free.push(cgroup);
        }
    }

    fn remove(&mut self, number: u64) {
        let group = self.groups.remove(&number);
        self.let_go(group.and_then(|group| group.cgroup));
    }

    fn not_started(&mut self, number: u64, error: i32) {
        self.answer(Answer::Ended { number, how: Exit::NotStarted(error), rest: Descendants::None });
    }

    fn leader_ended(&mut self, number: u64) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        let Some(mut how) = wait(&group.leader) else { return };
        let rest = match signal(&group.leader, 0) {
            Err(Errno::SRCH) if !group.cgroup.as_ref().is_some_and(Cgroup::has_processes) => {
                Descendants::None
            }
            _ => Descendants::Alive,
        };
        if how == Exit::Signal(libc::SIGKILL) && group.cgroup.as_mut().is_some_and(Cgroup::was_full) {
            how = Exit::OutOfMemory;
        }
        _ = epoll::delete(&self.epoll, &group.leader.pidfd);
        group.state = group.state.next(Step::LeaderEnded(rest));
        let rest = if group.state == State::Over { Descendants::None } else { rest };
        if group.state == State::Over {
            self.remove(number);
        }
        self.answer(Answer::Ended { number, how, rest });
    }

    fn end(&mut self, number: u64) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        let before = group.state;
        group.state = before.next(Step::Ask);
        if group.state == before {
            return;
        }
        match signal(&group.leader, libc::SIGTERM) {
            // The others have ended since.
            Err(Errno::SRCH) if group.state == State::EndingBehind => self.remove(number),
            _ => self.kills.push_back((Instant::now() + self.settings.grace, number)),
        }
    }

    fn end_where(&mut self, which: impl Fn(u64) -> bool) {
        let numbers: Vec<u64> = self.groups.keys().copied().filter(|number| which(*number)).collect();
        numbers.into_iter().for_each(|number| self.end(number));
    }

    fn kill_due(&mut self) {
        let now = Instant::now();
        while let Some((_, number)) = self.kills.pop_front_if(|(at, _)| *at <= now) {
            self.kill(number);
        }
    }

    fn kill(&mut self, number: u64) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        _ = signal(&group.leader, libc::SIGKILL);
        group.state = group.state.next(Step::Grace);
        let (over, cgroup) = (group.state == State::Over, group.cgroup.take());
        self.let_go(cgroup);
        if over {
            self.groups.remove(&number);
        }
    }

    fn answer(&mut self, answer: Answer) {
        if self.answers.is_empty() {
            match self.channel.send(&answer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.watch_channel(EventFlags::IN | EventFlags::OUT);
                }
                // Whoever is not there is not told.
                Ok(()) | Err(_) => return,
            }
        }
        // No more than there are groups, and files that were asked for.
        self.answers.push_back(answer);
    }

    fn send_answers(&mut self) -> io::Result<()> {
        while let Some(answer) = self.answers.front() {
            match self.channel.send(answer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Ok(()) | Err(_) => _ = self.answers.pop_front(),
            }
        }
        self.watch_channel(EventFlags::IN);
        Ok(())
    }

    fn watch_channel(&self, what: EventFlags) {
        // It is there already, so it cannot fail for want of memory.
        _ = epoll::modify(&self.epoll, &self.channel, EventData::new_u64(CHANNEL), what);
    }
}

/// A program of another account opens its streams by their names, too (`/dev/stdin`, `/dev/stderr`). Nobody
/// else gets at them: pipes and files without a name are reached through the processes that have them.
fn open_to_others(streams: &[OwnedFd; MAX_DESCRIPTORS]) {
    for (stream, mode) in streams.iter().zip([0o644, 0o666, 0o666]) {
        let has_no_name = fstat(stream).is_ok_and(|stat| match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => true,
            FileType::RegularFile => stat.st_nlink == 0,
            _ => false,
        });
        if has_no_name {
            // The program has it open in any case.
            _ = fchmod(stream, Mode::from_raw_mode(mode));
        }
    }
}

/// Every process of the group.
pub fn signal(leader: &Process, signal: c_int) -> rustix::io::Result<()> {
    match sys::signal_group(leader.pidfd.as_fd(), signal) {
        // Before Linux 6.9 by number: another group could have it only after the last of this one has
        // ended, and all numbers were given once.
        Err(Errno::INVAL) => by_number(leader.pid, signal),
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

/// Buries a process that has ended. `None`: it has not.
pub fn wait(process: &Process) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    match waitid(WaitId::PidFd(process.pidfd.as_fd()), options) {
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
    fn a_group_is_over_when_nobody_is_left_or_all_were_killed() {
        use State::*;
        let alone = Step::LeaderEnded(Descendants::None);
        let behind = Step::LeaderEnded(Descendants::Alive);
        for (steps, expected) in [
            (&[alone] as &[Step], Over),
            (&[behind], LeftBehind),
            (&[Step::Ask], Ending),
            (&[Step::Ask, Step::Ask], Ending),
            (&[Step::Ask, alone], Over),
            (&[Step::Ask, behind], EndingBehind),
            (&[Step::Ask, behind, Step::Ask], EndingBehind),
            (&[Step::Ask, behind, Step::Grace], Over),
            (&[Step::Ask, Step::Grace], Killed),
            (&[Step::Ask, Step::Grace, behind], Over),
            (&[behind, Step::Ask], EndingBehind),
            (&[behind, Step::Ask, Step::Grace], Over),
            (&[behind, Step::Grace], LeftBehind),
        ] {
            assert_eq!(steps.iter().fold(Running, |state, step| state.next(*step)), expected, "{steps:?}");
        }
    }
}
