//! A guard around output while it is sent: every request has its line in the log, whatever ends it.

use std::ops::{Deref, DerefMut};

use super::output::Output;
use crate::log::EndReason;
use crate::services::Services;
use crate::stats::Count;

/// Writes the log lines of `output` when it is dropped, which only a panic or the end of the server does.
pub struct LogGuard<'a> {
    services: &'a Services,
    output: &'a mut Output,
}

impl<'a> LogGuard<'a> {
    pub fn new(services: &'a Services, output: &'a mut Output) -> LogGuard<'a> {
        LogGuard { services, output }
    }

    /// The caller writes the log lines.
    pub fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Deref for LogGuard<'_> {
    type Target = Output;

    fn deref(&self) -> &Output {
        self.output
    }
}

impl DerefMut for LogGuard<'_> {
    fn deref_mut(&mut self) -> &mut Output {
        self.output
    }
}

impl Drop for LogGuard<'_> {
    fn drop(&mut self) {
        let Services { counts, access, .. } = self.services;
        let (sent, first) = (self.output.sent(), self.output.first());
        counts.add(Count::Bytes, sent);
        access.write(counts, &self.output.records, sent, first, Some(EndReason::dropped()));
    }
}
