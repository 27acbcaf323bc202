//! The log lines of requests: of those with a response, and of those without one.

use std::rc::Rc;

use taipan_http::head::{FieldStore, Head};
use taipan_http::status::Status;

use super::{Http2, PendingRequest};
use crate::connection::client;
use crate::destination::DestinationId;
use crate::log::EndReason;
use crate::log::access::{LoggedRequest, LoggedResponse, Records};
use crate::peer::Peer;
use crate::response::Response;
use crate::services::Services;
use crate::stats::Count;
use crate::tls_facts::TlsFacts;

/// A request for the log: its head, and who sent it when.
#[derive(Clone, Copy)]
pub struct Received<'a> {
    /// `None`: it could not be read.
    pub head: Option<&'a Head<'a>>,
    pub client: Peer,
    pub destination: DestinationId,
    /// By `clock::micros`.
    pub began: u64,
}

impl Http2 {
    /// Writes the log line of a response that is not sent, as too many streams wait. The client may request it again.
    #[cold]
    pub(super) fn log_refused(&self, request: Received<'_>, response: &Response) {
        let (mut records, why) = (Records::default(), EndReason::TooManyStreams);
        self.record(request, response, 0, &mut records);
        records.end_early(why);
        self.services.access.write_unsent(&self.services.counts, &records, why);
    }

    /// Writes the log line of a request whose stream ended before it had a task.
    pub(super) fn log_unstarted(&self, request: &PendingRequest, why: EndReason) {
        let services = &self.services;
        services.counts.add(Count::Abandoned, 1);
        let mut store = FieldStore::new();
        let mut head = request.fields.head(&mut store, &services.site.limits.head).ok();
        let origin = head.as_mut().map(|head| client::origin(&services.site, self.peer, head));
        let client = origin.map_or(self.peer, |(client, _)| client);
        let received = Received { head: head.as_ref(), client, ..self.unread(request.began) };
        log_unanswered(services, received, self.tls.logged.as_ref(), Status::BAD_REQUEST, why);
    }

    /// A request whose head could not be read. It is the peer's, as far as is known.
    pub(super) fn unread(&self, began: u64) -> Received<'static> {
        Received { head: None, client: self.peer, destination: self.destination, began }
    }

    /// Notes the log line of a response. `added`: bytes of its head and of frame headers.
    #[inline]
    pub(super) fn record(
        &self,
        Received { head, client, destination, began }: Received<'_>,
        response: &Response,
        added: usize,
        records: &mut Records,
    ) {
        let services = &self.services;
        let request = LoggedRequest {
            connection: self.connection,
            tls: self.tls.logged.as_ref(),
            ..services.logged_request(head, client, destination, began)
        };
        services.record(records, &request, LoggedResponse { head: added as u64, ..response.logged(0) });
    }
}

/// Writes the log line of a request that got no response.
pub fn log_unanswered(
    services: &Services,
    Received { head, client, destination, began }: Received<'_>,
    tls: Option<&Rc<TlsFacts>>,
    status: Status,
    why: EndReason,
) {
    let request = LoggedRequest { tls, ..services.logged_request(head, client, destination, began) };
    let mut records = Records::default();
    services.record(&mut records, &request, LoggedResponse::of(status));
    records.end_early(why);
    services.access.write_unsent(&services.counts, &records, why);
}
