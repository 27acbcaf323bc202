//! A guard around a request of the fast path: it has its line in the log, even if its response panics.

use taipan_http::head::Method;
use taipan_http::status::Status;

use super::finish::error_response;
use crate::log::EndReason;
use crate::log::access::{LoggedRequest, Records};
use crate::services::Services;

/// Logs the request when it is dropped, which only a panic does.
pub(super) struct PanicGuard<'a> {
    pub(super) services: &'a Services,
    pub(super) request: LoggedRequest<'a>,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        let response = error_response(self.services, Method::Unknown, Status::INTERNAL_SERVER_ERROR, None);
        let mut records = Records::default();
        self.services.access.record(&mut records, &self.request, response.logged(0));
        self.services.access.write_unsent(&self.services.counts, &records, EndReason::dropped());
    }
}
