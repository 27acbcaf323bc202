//! The loggers: the processes that write logs which take more than appending to a file. A logger outlives a
//! configuration if the next one has the same logs; one that has crashed is replaced, and the others go on.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use site::endpoint::Resolution;
use site::model::{Level, NewPrivileges, Sink, Site};

use super::Master;
use super::change::Preparation;
use crate::log::{self, OpenSink};
use crate::logger::message::LoggerCommand;
use crate::logger::process::{DELIVERY, LoggerSetup, Targets, run};
use crate::process::ipc::{Channel, MasterCommand};
use crate::process::privilege::Identity;
use crate::process::supervisor::{self, KillTimer, RestartLimit, what_to_do};
use crate::sys::{self, Fork};

/// Bytes of a pipe to a logger: a few blocks of lines. The kernel may give less.
const PIPE: usize = 256 * 1024;
/// Bytes of a block of lines.
const BLOCK: usize = 32 * 1024;

/// What a logger is started with. One with the same plan need not be started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoggerPlan {
    targets: Targets,
    queue: usize,
    resolution: Resolution,
    identity: Option<Identity>,
    new_privileges: NewPrivileges,
    errors: Sink,
    level: Level,
}

pub(super) struct Loggers {
    pub(super) running: Vec<LoggerProcess>,
    /// Of the site that is served.
    pub(super) in_use: Vec<LoggerPlan>,
    /// They have crashed, and are replaced at `restart`: each with how it ended, for the log that it wrote.
    lost: Vec<(LoggerPlan, String)>,
    limit: RestartLimit,
    pub(super) restart: Option<Instant>,
}

impl Loggers {
    pub(super) fn new() -> Loggers {
        Loggers {
            running: Vec::new(),
            in_use: Vec::new(),
            lost: Vec::new(),
            limit: RestartLimit::of_servers(),
            restart: None,
        }
    }
}

pub(super) struct LoggerProcess {
    pid: Pid,
    plan: LoggerPlan,
    /// `None`: the process ends when its writers have left.
    channel: Option<Channel>,
    /// When it is killed, if it has not ended.
    pub(super) kill: Option<KillTimer>,
}

impl LoggerProcess {
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }
}

impl LoggerPlan {
    /// The loggers of a site. The one that writes the error log is the first.
    fn of(site: &Site, identity: Option<&Identity>) -> Vec<LoggerPlan> {
        let sinks = site.sinks().into_iter().filter(|sink| site.log.has_logger(sink)).cloned();
        let (files, readers): (Vec<Sink>, Vec<Sink>) = sinks.partition(|sink| matches!(sink, Sink::File(_)));
        let files = site.log.rotation.clone().map(|rotation| Targets::Files(files, rotation));
        let plan = |targets| LoggerPlan {
            targets,
            queue: site.log.queue.saturating_mul(BLOCK),
            resolution: site.resolution.clone(),
            identity: identity.cloned(),
            new_privileges: site.new_privileges(NewPrivileges::None),
            errors: site.log.error.clone(),
            level: site.log.level.max(Level::Error),
        };
        let mut plans: Vec<LoggerPlan> =
            files.into_iter().chain([Targets::Readers(readers)]).map(plan).collect();
        plans.retain(|plan| !plan.targets.sinks().is_empty());
        sort::by_key(&mut plans, |plan| plan.index(&site.log.error).is_none());
        plans
    }

    /// The index of a target.
    fn index(&self, sink: &Sink) -> Option<u32> {
        self.targets.sinks().iter().position(|target| target == sink).map(|index| index as u32)
    }
}

impl Master {
    /// Starts the loggers of the site that is being prepared, as far as they do not run. Errors: of `fork`.
    pub(super) fn start_loggers(&mut self, preparation: &mut Preparation) -> io::Result<Vec<LoggerPlan>> {
        let plans = LoggerPlan::of(&preparation.site, preparation.accounts.own.as_ref());
        for plan in &plans {
            if !self.loggers.running.iter().any(|logger| logger.channel.is_some() && logger.plan == *plan) {
                self.start_logger(plan, &plans, Some(preparation))?;
            }
        }
        Ok(plans)
    }

    fn start_logger(
        &mut self,
        plan: &LoggerPlan,
        plans: &[LoggerPlan],
        preparation: Option<&mut Preparation>,
    ) -> io::Result<()> {
        let (ours, theirs) = Channel::pair()?;
        let dropped = self.counters.dropped_by_loggers();
        let mut own = None;
        let errors = match plan.index(&plan.errors) {
            Some(index) => {
                let (output, input) = pipe()?;
                own = Some((index, output));
                let mut errors = OpenSink::unopened(&plan.errors);
                errors.replace(input);
                Ok(errors)
            }
            None => self.open_log(&plan.errors, plans),
        };
        match sys::fork()? {
            Fork::Parent(pid) => {
                self.loggers.running.push(LoggerProcess {
                    pid,
                    plan: plan.clone(),
                    channel: Some(ours),
                    kill: None,
                });
                Ok(())
            }
            Fork::Child => {
                drop(ours);
                let LoggerPlan { targets, queue, resolution, identity, new_privileges, level, .. } =
                    plan.clone();
                self.release_in_child(preparation);
                if let Ok(errors) = errors.or_else(|_| OpenSink::open(&Sink::Stderr)) {
                    log::write_to(errors, level);
                }
                let master = theirs;
                let setup = LoggerSetup {
                    targets,
                    queue,
                    resolution,
                    identity,
                    new_privileges,
                    master,
                    own,
                    dropped,
                };
                std::process::exit(run(setup).into())
            }
        }
    }

    /// Opens a log directly, or by the logger of one of these plans.
    pub(super) fn open_log(&self, sink: &Sink, plans: &[LoggerPlan]) -> Result<OpenSink, String> {
        let has_logger = plans.iter().any(|plan| plan.index(sink).is_some());
        if !has_logger {
            return OpenSink::open(sink);
        }
        let mut opened = OpenSink::unopened(sink);
        let pipe =
            self.pipe_to(sink, plans).map_err(|error| format!("cannot use the log {sink}: {error}"))?;
        opened.replace(pipe);
        Ok(opened)
    }

    /// Connects those of the logs that a logger writes.
    pub(super) fn connect_logs(&self, sinks: &mut [OpenSink], plans: &[LoggerPlan]) -> io::Result<()> {
        for sink in sinks {
            if plans.iter().any(|plan| plan.index(sink.sink()).is_some()) {
                let pipe = self.pipe_to(sink.sink(), plans)?;
                sink.replace(pipe);
            }
        }
        Ok(())
    }

    /// The end of a pipe to a logger that lines are written into.
    fn pipe_to(&self, sink: &Sink, plans: &[LoggerPlan]) -> io::Result<OwnedFd> {
        let of_plan = |logger: &LoggerProcess| {
            let target = plans.contains(&logger.plan).then(|| logger.plan.index(sink)).flatten()?;
            Some((logger.channel.as_ref()?.try_clone().ok()?, target))
        };
        let (channel, target) =
            self.loggers.running.iter().rev().find_map(of_plan).ok_or(io::ErrorKind::NotConnected)?;
        let (output, input) = pipe()?;
        channel.send_until(&LoggerCommand::Writer { target, pipe: output }, Instant::now() + super::GRACE)?;
        Ok(input)
    }

    /// Leaves the loggers that no configuration needs. Each ends when its writers have ended.
    pub(super) fn release_loggers(&mut self) {
        let next = self.change.as_ref().map_or(&[][..], |change| &change.new.loggers);
        for logger in &mut self.loggers.running {
            if !self.loggers.in_use.contains(&logger.plan) && !next.contains(&logger.plan) {
                logger.channel = None;
            }
        }
    }

    /// Whether a running logger writes there.
    pub(super) fn has_logger(&self, sink: &Sink) -> bool {
        let next = self.change.iter().flat_map(|change| &change.new.loggers);
        self.loggers.in_use.iter().chain(next).any(|plan| plan.index(sink).is_some())
    }

    /// Another program has renamed files.
    pub(super) fn reopen_in_loggers(&self) {
        for channel in self.loggers.running.iter().filter_map(|logger| logger.channel.as_ref()) {
            // Fails only if the logger has ended, and then the next one opens the files.
            _ = channel.send(&LoggerCommand::Reopen);
        }
    }

    /// Has the loggers close a copy when they have opened their files.
    pub(super) fn end_reopening(&self, done: &OwnedFd) {
        for channel in self.loggers.running.iter().filter_map(|logger| logger.channel.as_ref()) {
            if let Ok(done) = done.try_clone() {
                // If the logger does not receive it, the client does not wait for it.
                _ = channel.send(&LoggerCommand::Done(done));
            }
        }
    }

    /// `false`: the process was no logger.
    pub(super) fn on_logger_exit(&mut self, pid: Pid, end: &str) -> bool {
        let Some(at) = self.loggers.running.iter().position(|logger| logger.pid == pid) else { return false };
        let logger = self.loggers.running.remove(at);
        if logger.channel.is_none() || !self.phase.is_serving() {
            return true;
        }
        let now = Instant::now();
        let pause = self.loggers.limit.count(now);
        let line = format!(
            "the process that writes logs has ended: {end}; it is replaced {}",
            supervisor::text(pause)
        );
        let errors = self.site.as_ref().map(|site| &site.log.error);
        if errors.is_some_and(|errors| logger.plan.index(errors).is_some()) {
            self.write_to_stderr();
        }
        log::error(format_args!("{line}"));
        self.loggers.lost.push((logger.plan, line));
        self.loggers.restart = Some(now + pause);
        true
    }

    /// Replaces the loggers that have crashed, and gives their logs to the processes that write them.
    pub(super) fn replace_loggers(&mut self) {
        self.loggers.restart = None;
        let mut plans = self.loggers.in_use.clone();
        plans.extend(self.change.iter().flat_map(|change| change.new.loggers.clone()));
        let mut lines = Vec::new();
        for (plan, line) in std::mem::take(&mut self.loggers.lost) {
            if !plans.contains(&plan) {
                continue;
            }
            if let Err(error) = self.start_logger(&plan, &plans, None) {
                log::error(format_args!(
                    "cannot start the process that writes logs: {error}{}",
                    what_to_do(&error)
                ));
                self.loggers.restart = Some(Instant::now() + self.loggers.limit.count(Instant::now()));
                self.loggers.lost.push((plan, line));
                continue;
            }
            for generation in &self.generations {
                for (number, sink) in generation.sinks.iter().enumerate() {
                    if plan.index(sink).is_some()
                        && let Ok(pipe) = self.pipe_to(sink, &plans)
                    {
                        generation.send_descriptor(MasterCommand::Log { sink: number as u32, file: pipe });
                    }
                }
            }
            lines.push((plan, line));
        }
        let is_back = |errors: &Sink| lines.iter().any(|(plan, _)| plan.index(errors).is_some());
        let has_error_log = self.site.as_ref().is_some_and(|site| is_back(&site.log.error));
        self.take_error_log();
        self.send_log_to_children();
        for (_, line) in lines.iter().filter(|_| has_error_log) {
            log::error(format_args!("{line}"));
        }
    }

    /// Ends the loggers when every other child has ended and there will be no other.
    pub(super) fn end_loggers(&mut self, now: Instant) {
        let has_writers = !self.generations.is_empty()
            || !self.helpers.is_empty()
            || !self.pools.is_empty()
            || !self.certificates.is_empty();
        if self.phase.is_serving() || has_writers || self.loggers.running.is_empty() {
            return;
        }
        for logger in &mut self.loggers.running {
            if logger.channel.take().is_some()
                && let Ok(stderr) = OpenSink::open(&Sink::Stderr)
            {
                // The master itself is a writer.
                log::write_to(stderr, Level::Error);
            }
            let timer = logger.kill.get_or_insert_with(|| KillTimer::start(now, 4 * DELIVERY));
            if timer.expires(now) {
                // Fails only if it has ended.
                _ = kill(logger.pid, Signal::SIGKILL);
            }
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (output, input) = pipe_with(PipeFlags::CLOEXEC)?;
    // If the user has too many pipes, it stays smaller.
    _ = fcntl_setpipe_size(&input, PIPE);
    Ok((output, input))
}
