//! Guards around output while it is sent, and around a request while its response is made: every request has its line
//! in the log, whatever ends it.

use std::ops::{Deref, DerefMut};

use taipan_http::head::Method;
use taipan_http::status::Status;

use super::output::{Output, why_dropped};
use crate::exchange;
use crate::log::access::{LoggedRequest, Records};
use crate::services::Services;

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
        self.services.access.write(&self.output.records, self.output.sent(), Some(why_dropped()));
    }
}

/// Logs a request of the fast path when it is dropped, which only a panic does.
pub struct PanicGuard<'a> {
    pub services: &'a Services,
    pub request: LoggedRequest<'a>,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        let response =
            exchange::error_response(self.services, Method::Unknown, Status::INTERNAL_SERVER_ERROR, None);
        let mut records = Records::default();
        self.services.access.record(&mut records, &self.request, response.logged(0));
        self.services.access.write(&records, 0, Some(why_dropped()));
    }
}
