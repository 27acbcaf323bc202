//! The way of an answer out, from its first byte to its last: whatever ends it, its requests have their lines
//! in the log.

use std::ops::{Deref, DerefMut};

use super::output::{Output, why_dropped};
use crate::services::Services;

/// An answer on its way, whose log lines are written whatever becomes of it.
pub struct LogGuard<'a> {
    services: &'a Services,
    output: &'a mut Output,
}

impl<'a> LogGuard<'a> {
    pub fn new(services: &'a Services, output: &'a mut Output) -> LogGuard<'a> {
        LogGuard { services, output }
    }

    /// It is no longer on its way: whoever has it writes its lines.
    pub fn arrive(self) {
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
        self.services.access.write(&self.output.records, self.output.sent(), Some(why_dropped()));
    }
}
