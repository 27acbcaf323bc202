//! The logs while the program serves: they are opened again, and each process writes to the same ones.

use std::time::{Duration, Instant};

use site::model::{Level, Sink};

use super::Master;
use super::process::{ErrorLog, PoolProcess};
use crate::control::Client;
use crate::log::{self, OpenSink};
use crate::process::ipc::MasterCommand;

/// How often the error log is sent to a child that could not receive it.
const SEND_LOGS_EVERY: Duration = Duration::from_millis(500);

impl Master {
    /// Returns the logs that cannot be opened, and why, as far as no logger writes them.
    pub(super) fn reopen_logs(&mut self) -> Vec<String> {
        self.reopen_in_loggers();
        self.reopen(|_| true)
    }

    /// The client has its response when each process that writes logs has closed its copy: then it has the new files,
    /// and the old ones may be compressed.
    pub(super) fn respond_when_reopened(&self, client: Client) {
        let done = client.into_done_socket();
        for generation in &self.generations {
            // Without a copy, the client does not wait for this one.
            if let Ok(done) = done.try_clone() {
                generation.send_descriptor(MasterCommand::LogsSent(done));
            }
        }
        self.end_reopening(&done);
    }

    /// Opens those logs again that no logger writes and that are among the selected ones, for every process. Returns
    /// those that cannot be opened, and why.
    pub(super) fn reopen(&mut self, is_selected: impl Fn(&Sink) -> bool) -> Vec<String> {
        let mut problems = Vec::new();
        let is_own = |sink: &Sink| !self.has_logger(sink) && is_selected(sink);
        for generation in &self.generations {
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
        let is_served = self.site.as_ref().is_some_and(|site| is_own(&site.log.error));
        let is_next = self.change.as_ref().is_some_and(|change| is_own(&change.site.log.error));
        if is_served {
            self.take_error_log();
            self.send_log_to_children();
        }
        if is_next && let Some(change) = &mut self.change {
            change.new.errors = OpenSink::open(&change.site.log.error).ok();
        }
        problems
    }

    /// Opens the error log of the site that is served.
    pub(super) fn open_error_log(&self) -> Result<OpenSink, String> {
        let site = self.site.as_ref().ok_or("nothing is served")?;
        self.open_log(&site.log.error, &self.loggers.in_use)
    }

    /// The master's own messages go to standard error, because its log is not written.
    pub(super) fn write_to_stderr(&self) {
        let level = self.site.as_ref().map(|site| site.log.level);
        if let (Some(level), Ok(stderr)) = (level, OpenSink::open(&Sink::Stderr)) {
            log::write_to(stderr, level);
        }
    }

    /// The master's own messages go to the error log as it is opened now.
    pub(super) fn take_error_log(&self) {
        let level = self.site.as_ref().map(|site| site.log.level);
        if let (Some(level), Ok(errors)) = (level, self.open_error_log()) {
            log::write_to(errors, level);
        }
    }

    /// Sends the error log, as it is opened now, to the children that are no generation.
    pub(super) fn send_log_to_children(&mut self) {
        self.pools.iter_mut().for_each(|pool| pool.log = ErrorLog::Earlier);
        self.certificates.on_log();
        self.send_awaited_logs();
    }

    /// Sends it to those that have not received it. What a child cannot receive now, it gets later: it would otherwise
    /// write to a file that was rotated and perhaps removed, or to a logger that has ended.
    pub(super) fn send_awaited_logs(&mut self) {
        let awaits_log = |pool: &PoolProcess| pool.channel.is_some() && pool.log != ErrorLog::Current;
        self.next_log = None;
        if !self.certificates.awaits_log() && !self.pools.iter().any(awaits_log) {
            return;
        }
        // A log that cannot be opened is reported elsewhere.
        let Ok(Some(log)) = self.open_error_log().map(OpenSink::share) else { return };
        let level = self.site.as_ref().map_or(Level::Error, |site| site.log.level);
        self.certificates.send_log(&log, level);
        self.send_log_to_pools(&log, level);
        let is_awaited = self.certificates.awaits_log() || self.pools.iter().any(awaits_log);
        self.next_log = is_awaited.then(|| Instant::now() + SEND_LOGS_EVERY);
    }
}
