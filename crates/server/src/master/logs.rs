//! The logs while the program serves: they are opened again, and each process writes to the same ones.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use site::model::{Level, Sink};

use super::Master;
use super::children::Children;
use crate::control::Client;
use crate::log::{self, LogCommand, OpenSink, SharedLog};
use crate::process::ipc::{self, Channel, MasterCommand, TOO_MANY_IN_FLIGHT};

/// How often the error log is sent to a child that could not receive it.
const SEND_LOGS_EVERY: Duration = Duration::from_millis(500);

/// Whether a child writes its messages to the error log as it is opened now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorLog {
    Current,
    /// It writes to the one before, until the new one can be sent.
    Earlier,
    /// As `Earlier`, and an administrator has been told.
    Missed,
}

impl ErrorLog {
    /// What is true after an attempt to send the log to the child `what`.
    fn after(self, sent: io::Result<()>, what: &dyn fmt::Display) -> ErrorLog {
        match sent {
            Ok(()) => ErrorLog::Current,
            // It has ended, which `reap` finds out.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ErrorLog::Current,
            Err(_) if self == ErrorLog::Missed => self,
            Err(error) => {
                let why = match ipc::has_too_many_in_flight(&error) {
                    true => TOO_MANY_IN_FLIGHT.to_owned(),
                    false if error.kind() == io::ErrorKind::WouldBlock => "it reads no commands".to_owned(),
                    false => error.to_string(),
                };
                log::warn(format_args!(
                    "{what} still writes its messages to the error log as it was opened before: {why}; it is tried again"
                ));
                ErrorLog::Missed
            }
        }
    }
}

/// A child that writes its messages to the error log, and is no generation and no logger.
pub(super) struct LogWriter<'c> {
    /// Its name in messages.
    pub(super) what: Cow<'static, str>,
    pub(super) channel: &'c Channel,
    pub(super) log: &'c mut ErrorLog,
    /// Sends it a command as one of its own messages.
    pub(super) send: fn(&Channel, LogCommand) -> io::Result<()>,
}

impl LogWriter<'_> {
    /// Sends the error log, as it is opened now.
    fn send_log(self, log: &SharedLog, level: Level) {
        let command = log.try_clone().map(|log| LogCommand::MoveTo { log, level });
        let sent = command.and_then(|command| (self.send)(self.channel, command));
        *self.log = self.log.after(sent, &self.what);
    }

    pub(super) fn change_level(&self, level: Level, time: Duration) {
        // If it has not ended, it reads nothing.
        _ = (self.send)(self.channel, LogCommand::ChangeLevel { level, time });
    }
}

impl Children {
    pub(super) fn log_writers(&mut self) -> impl Iterator<Item = LogWriter<'_>> {
        self.pools.log_writers().chain(self.certificates.log_writers())
    }

    /// Those that write to the error log as it was opened before.
    fn late_log_writers(&mut self) -> impl Iterator<Item = LogWriter<'_>> {
        self.log_writers().filter(|writer| *writer.log != ErrorLog::Current)
    }
}

impl Master {
    /// Returns the logs that cannot be opened, and why, as far as no logger writes them.
    pub(super) fn reopen_logs(&mut self) -> Vec<String> {
        self.children.loggers.reopen();
        self.reopen(|_| true)
    }

    /// The client has its response when each process that writes logs has closed its copy: then it has the new files,
    /// and the old ones may be compressed.
    pub(super) fn respond_when_reopened(&self, client: Client) {
        let done = client.into_done_socket();
        for generation in &self.children.generations {
            // Without a copy, the client does not wait for this one.
            if let Ok(done) = done.try_clone() {
                generation.send_descriptor(MasterCommand::LogsSent(done));
            }
        }
        self.children.loggers.end_reopening(&done);
    }

    /// Opens those logs again that no logger writes and that are among the selected ones, for every process. Returns
    /// those that cannot be opened, and why.
    pub(super) fn reopen(&mut self, is_selected: impl Fn(&Sink) -> bool) -> Vec<String> {
        let mut problems = Vec::new();
        let is_own = |sink: &Sink| !self.has_logger(sink) && is_selected(sink);
        for generation in &self.children.generations {
            for (number, sink) in generation.sinks.iter().enumerate().filter(|(_, sink)| is_own(sink)) {
                match OpenSink::open(sink).map(OpenSink::into_fd) {
                    Ok(Some(file)) => {
                        generation.send_descriptor(MasterCommand::Log { sink: number as u32, file });
                    }
                    Ok(None) => {}
                    Err(why) => {
                        problems.push(format!("{why}; the server continues to write to the old file"))
                    }
                }
            }
        }
        // Each generation has them.
        problems.sort_unstable();
        problems.dedup();
        problems.iter().for_each(|why| log::error(format_args!("{why}")));
        let is_served = self.site().is_some_and(|site| is_own(&site.log.error));
        let is_next = self.changes.running.as_ref().is_some_and(|change| is_own(&change.site.log.error));
        if is_served {
            self.take_error_log();
            self.send_log_to_children();
        }
        if is_next && let Some(change) = &mut self.changes.running {
            change.new.errors = OpenSink::open(&change.site.log.error).ok();
        }
        problems
    }

    /// Opens the error log of the site that is served.
    pub(super) fn open_error_log(&self) -> Result<OpenSink, String> {
        let site = self.site().ok_or("nothing is served")?;
        self.children.loggers.open(&site.log.error, &self.children.loggers.in_use)
    }

    /// The master's own messages go to standard error, because its log is not written.
    pub(super) fn write_to_stderr(&self) {
        let level = self.site().map(|site| site.log.level);
        if let (Some(level), Ok(stderr)) = (level, OpenSink::open(&Sink::Stderr)) {
            log::write_to(stderr, level);
        }
    }

    /// The master's own messages go to the error log as it is opened now.
    pub(super) fn take_error_log(&self) {
        let level = self.site().map(|site| site.log.level);
        if let (Some(level), Ok(errors)) = (level, self.open_error_log()) {
            log::write_to(errors, level);
        }
    }

    /// Sends the error log, as it is opened now, to the children that are no generation.
    pub(super) fn send_log_to_children(&mut self) {
        self.children.log_writers().for_each(|writer| *writer.log = ErrorLog::Earlier);
        self.send_awaited_logs();
    }

    /// Sends it to those that have not received it. What a child cannot receive now, it gets later: it would otherwise
    /// write to a file that was rotated and perhaps removed, or to a logger that has ended.
    pub(super) fn send_awaited_logs(&mut self) {
        self.children.next_log = None;
        if self.children.late_log_writers().next().is_none() {
            return;
        }
        // A log that cannot be opened is reported elsewhere.
        let Ok(Some(log)) = self.open_error_log().map(OpenSink::share) else { return };
        let level = self.site().map_or(Level::Error, |site| site.log.level);
        self.children.late_log_writers().for_each(|writer| writer.send_log(&log, level));
        let is_awaited = self.children.late_log_writers().next().is_some();
        self.children.next_log = is_awaited.then(|| Instant::now() + SEND_LOGS_EVERY);
    }
}
