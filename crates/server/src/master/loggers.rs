//! The loggers: the processes that write logs which take more than appending to a file. A logger outlives a
//! configuration if the next one has the same logs; one that has crashed is replaced, and the others go on.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use nix::unistd::Pid;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use site::endpoint::Resolution;
use site::model::{Level, NewPrivileges, Sink, Site};

use super::change::Preparation;
use super::children::ChildProcess;
use super::{GRACE, Master};
use crate::log::{self, OpenSink};
use crate::logger::message::LoggerCommand;
use crate::logger::process::{DELIVERY, LoggerSetup, Targets, run};
use crate::process::ipc::{Channel, MasterCommand};
use crate::process::privilege::Identity;
use crate::process::supervisor::{self, RestartLimit, what_to_do};
use crate::sys::Fork;

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
    running: Vec<LoggerProcess>,
    /// Of the site that is served.
    pub(super) in_use: Vec<LoggerPlan>,
    /// They have crashed, and are replaced at `restart`: each with how it ended, for the log that it wrote.
    lost: Vec<(LoggerPlan, String)>,
    limit: RestartLimit,
    pub(super) restart: Option<Instant>,
}

struct LoggerProcess {
    /// Without the master, it ends when its writers have left.
    process: ChildProcess,
    plan: LoggerPlan,
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

    pub(super) fn clear(&mut self) {
        self.running.clear();
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &ChildProcess> {
        self.running.iter().map(|logger| &logger.process)
    }

    pub(super) fn processes_mut(&mut self) -> impl Iterator<Item = &mut ChildProcess> {
        self.running.iter_mut().map(|logger| &mut logger.process)
    }

    /// To those that the master has not left.
    fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.processes().filter_map(ChildProcess::channel)
    }

    fn has(&self, plan: &LoggerPlan) -> bool {
        self.running.iter().any(|logger| logger.process.channel().is_some() && logger.plan == *plan)
    }

    /// Opens a log directly, or by the logger of one of these plans.
    pub(super) fn open(&self, sink: &Sink, plans: &[LoggerPlan]) -> Result<OpenSink, String> {
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
    pub(super) fn connect(&self, sinks: &mut [OpenSink], plans: &[LoggerPlan]) -> io::Result<()> {
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
            Some((logger.process.channel()?.try_clone().ok()?, target))
        };
        let (channel, target) =
            self.running.iter().rev().find_map(of_plan).ok_or(io::ErrorKind::NotConnected)?;
        let (output, input) = pipe()?;
        channel.send_until(&LoggerCommand::Writer { target, pipe: output }, Instant::now() + GRACE)?;
        Ok(input)
    }

    /// Leaves the loggers that neither the site that is served needs nor the next one. Each ends when its writers have
    /// ended.
    fn release(&mut self, next: &[LoggerPlan]) {
        for logger in &mut self.running {
            if !self.in_use.contains(&logger.plan) && !next.contains(&logger.plan) {
                logger.process.leave();
            }
        }
    }

    /// Another program has renamed files.
    pub(super) fn reopen(&self) {
        for channel in self.channels() {
            // Fails only if the logger has ended, and then the next one opens the files.
            _ = channel.send(&LoggerCommand::Reopen);
        }
    }

    /// Has the loggers close a copy when they have opened their files.
    pub(super) fn end_reopening(&self, done: &OwnedFd) {
        for channel in self.channels() {
            if let Ok(done) = done.try_clone() {
                // If the logger does not receive it, the client does not wait for it.
                _ = channel.send(&LoggerCommand::Done(done));
            }
        }
    }
}

impl Master {
    /// Starts the loggers of the site that is being prepared, as far as they do not run. Errors: of `fork`.
    pub(super) fn start_loggers(&mut self, preparation: &mut Preparation) -> io::Result<Vec<LoggerPlan>> {
        let plans = LoggerPlan::of(&preparation.site, preparation.accounts.own.as_ref());
        for plan in &plans {
            if !self.children.loggers.has(plan) {
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
            None => self.children.loggers.open(&plan.errors, plans),
        };
        match self.fork_child(preparation)? {
            Fork::Parent(pid) => {
                let process = ChildProcess::new(pid, ours);
                self.children.loggers.running.push(LoggerProcess { process, plan: plan.clone() });
                Ok(())
            }
            Fork::Child => {
                drop(ours);
                let LoggerPlan { targets, queue, resolution, identity, new_privileges, level, .. } =
                    plan.clone();
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

    /// Leaves the loggers that no configuration needs.
    pub(super) fn release_loggers(&mut self) {
        self.children.loggers.release(self.changes.loggers());
    }

    /// Whether a running logger writes there.
    pub(super) fn has_logger(&self, sink: &Sink) -> bool {
        let mut plans = self.children.loggers.in_use.iter().chain(self.changes.loggers());
        plans.any(|plan| plan.index(sink).is_some())
    }

    pub(super) fn on_logger_exit(&mut self, pid: Pid, end: &str) {
        let loggers = &mut self.children.loggers;
        let Some(at) = loggers.running.iter().position(|logger| logger.process.pid == pid) else { return };
        let logger = loggers.running.remove(at);
        if logger.process.channel().is_none() || !self.phase.is_serving() {
            return;
        }
        let now = Instant::now();
        let pause = loggers.limit.count(now);
        let line = format!(
            "the process that writes logs has ended: {end}; it is replaced {}",
            supervisor::text(pause)
        );
        let errors = self.site().map(|site| &site.log.error);
        if errors.is_some_and(|errors| logger.plan.index(errors).is_some()) {
            self.write_to_stderr();
        }
        log::error(format_args!("{line}"));
        self.children.loggers.lost.push((logger.plan, line));
        self.children.loggers.restart = Some(now + pause);
    }

    /// Replaces the loggers that have crashed, and gives their logs to the processes that write them.
    pub(super) fn replace_loggers(&mut self) {
        self.children.loggers.restart = None;
        let mut plans = self.children.loggers.in_use.clone();
        plans.extend_from_slice(self.changes.loggers());
        let mut lines = Vec::new();
        for (plan, line) in std::mem::take(&mut self.children.loggers.lost) {
            if !plans.contains(&plan) {
                continue;
            }
            if let Err(error) = self.start_logger(&plan, &plans, None) {
                log::error(format_args!(
                    "cannot start the process that writes logs: {error}{}",
                    what_to_do(&error)
                ));
                let loggers = &mut self.children.loggers;
                loggers.restart = Some(Instant::now() + loggers.limit.count(Instant::now()));
                loggers.lost.push((plan, line));
                continue;
            }
            for generation in &self.children.generations {
                for (number, sink) in generation.sinks.iter().enumerate() {
                    if plan.index(sink).is_some()
                        && let Ok(pipe) = self.children.loggers.pipe_to(sink, &plans)
                    {
                        generation.send_descriptor(MasterCommand::Log { sink: number as u32, file: pipe });
                    }
                }
            }
            lines.push((plan, line));
        }
        let is_back = |errors: &Sink| lines.iter().any(|(plan, _)| plan.index(errors).is_some());
        let has_error_log = self.site().is_some_and(|site| is_back(&site.log.error));
        self.take_error_log();
        self.send_log_to_children();
        for (_, line) in lines.iter().filter(|_| has_error_log) {
            log::error(format_args!("{line}"));
        }
    }

    /// Ends the loggers when every other child has ended and there will be no other.
    pub(super) fn end_loggers(&mut self, now: Instant) {
        if self.phase.is_serving() || self.children.have_writers() {
            return;
        }
        for process in self.children.loggers.processes_mut() {
            if process.channel().is_some()
                && let Ok(stderr) = OpenSink::open(&Sink::Stderr)
            {
                // The master itself is a writer.
                log::write_to(stderr, Level::Error);
            }
            process.end_within(4 * DELIVERY, now);
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (output, input) = pipe_with(PipeFlags::CLOEXEC)?;
    // If the user has too many pipes, it stays smaller.
    _ = fcntl_setpipe_size(&input, PIPE);
    Ok((output, input))
}
