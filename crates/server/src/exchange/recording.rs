//! What traces, watchers and the log record of a request that the driver responds to.

use std::cell::Cell;

use taipan_http::head::Head;

use super::{Exchange, Responder};
use crate::response::{RequestOrigin, Response};
use crate::tls_facts::TlsFacts;
use crate::trace::Trace;
use crate::upstream::immediate::SentRequest;
use crate::watch::{Arrival, Watched};

impl Responder {
    /// The trace of a request. `sent`: the fast path has sent it to an application, perhaps in a trace.
    pub(super) fn trace(&self, head: &Head<'_>, sent: Option<&SentRequest>) -> Option<Trace> {
        let tracer = self.services.access.tracer.as_ref()?;
        Some(sent.and_then(SentRequest::trace).unwrap_or_else(|| tracer.begin(head)))
    }
}

impl Exchange<'_> {
    /// Shows the request to its watchers, if it has any.
    pub(super) fn begin_watch(&self, tls: Option<&TlsFacts>) -> Option<Box<Watched>> {
        let watches = &self.services.access.watches;
        let (client, server, host) = (self.client, self.server_address(), self.host);
        let begin = || watches.begin(self.head, Arrival { client, server, host, tls });
        watches.is_on().then(begin).flatten()
    }

    /// With what is recorded of the request when the response is sent.
    pub(super) fn with_origin(
        &mut self,
        response: Response,
        trace: Option<Trace>,
        watched: Option<Box<Watched>>,
    ) -> Response {
        match (self.grants.user(), self.upstream.take()) {
            (None, None) if trace.is_none() && watched.is_none() && self.script.is_none() => response,
            (user, upstream) => {
                let (script, watched) = (self.script, Cell::new(watched));
                let origin = RequestOrigin { user, upstream, script, trace, watched };
                Response { origin: Some(Box::new(origin)), ..response }
            }
        }
    }
}
