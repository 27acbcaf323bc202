//! The access log of a worker. The fields of a line are copied when the response is made, and the line is written when
//! the response has been sent or has failed. Once the buffers have grown, a line allocates nothing.

mod client_errors;
mod records;

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::rc::Rc;

use site::disconnect::ConnectionId;
use site::log_line::{self, Client, Line, Step, TimeText, TraceIds};
use site::log_selection::LogSelection;
use site::model::{LogFormat, LoggedClients, LoggedHost, Site};
use site::route::RouteId;
use site::span;
use site::zones::{Zones, ZonesOf};
use taipan_http::head::Head;
use taipan_http::response::ResponseHead;
use taipan_http::rule::Rule;
use taipan_http::status::Status;
use tokio::sync::Notify;

use self::client_errors::ClientErrors;
pub use self::records::Records;
use self::records::{Delivered, Item, Kept, NewLine, PendingResponse};
use super::recent::Recent;
use super::upstream::UpstreamLog;
use super::{Block, EndReason, LOGS};
use crate::client_names::ClientNames;
use crate::clock;
use crate::destination::DestinationId;
use crate::peer::Peer;
use crate::stats::{Count, Counts, Exemplar, Exemplars};
use crate::tls_facts::TlsFacts;
use crate::trace::{Trace, Tracer};
use crate::watch::{Watched, Watches};

/// Lines are sent to the log thread when they have this many bytes, or after `FLUSH_AFTER`.
const BLOCK: usize = 32 * 1024;
pub const FLUSH_AFTER: std::time::Duration = std::time::Duration::from_millis(100);

/// The access logs of one worker.
pub struct AccessLogs {
    logs: Vec<Option<RefCell<Lines>>>,
    /// For each host, its index in `logs`.
    of_host: Vec<usize>,
    /// Notified when a line is added to an empty buffer.
    begun: Notify,
    selection: LogSelection,
    clients: LoggedClients,
    /// Requests that the selection does not name.
    others: Cell<u64>,
    names: Rc<ClientNames>,
    pub recent: Rc<Recent>,
    /// `None`: requests have no trace.
    pub tracer: Option<Tracer>,
    /// The spans of sampled requests. `None`: they are not sent.
    spans: Option<RefCell<Buffer>>,
    pub watches: Watches,
    /// `None`: metrics name no traces.
    exemplars: Option<RefCell<Exemplars>>,
    /// `None`: no host and no route is counted by itself.
    zones: Option<Zones>,
    /// `None`: only the access logs have what clients did wrong.
    client_errors: Option<ClientErrors>,
}

struct Lines {
    buffer: Buffer,
    format: LogFormat,
    /// How a line names the host.
    host: LoggedHost,
    time: TimeText,
}

/// Whole lines for a sink.
struct Buffer {
    sink: usize,
    bytes: Vec<u8>,
    count: u64,
}

impl AccessLogs {
    pub fn new(site: &Site, names: Rc<ClientNames>) -> AccessLogs {
        let mut logs: Vec<Option<RefCell<Lines>>> = vec![None];
        let mut of_host = Vec::new();
        let sinks = LOGS.get().map_or(&[][..], |l| &l.sinks);
        for host in site.hosts.iter() {
            let wanted = host.access_log.as_deref().or(site.log.access.as_ref());
            let Some(sink) = wanted.and_then(|w| sinks.iter().position(|s| *s == w.sink)) else {
                of_host.push(0);
                continue;
            };
            let format = wanted.map_or(LogFormat::Combined, |w| w.format.clone());
            let same = |l: &Option<RefCell<Lines>>| {
                l.as_ref().is_some_and(|l| l.borrow().buffer.sink == sink && l.borrow().format == format)
            };
            of_host.push(logs.iter().position(same).unwrap_or_else(|| {
                let host = match format {
                    LogFormat::BoaAddress => LoggedHost::Address,
                    _ => LoggedHost::Name,
                };
                let time = TimeText::new(0, site.log.errors.zone.clone());
                logs.push(Some(RefCell::new(Lines { buffer: Buffer::of(sink), format, host, time })));
                logs.len() - 1
            }));
        }
        let workers = site.workers.map_or(1, NonZeroUsize::get);
        let export = site.tracing.as_ref().and_then(|tracing| tracing.export.as_ref());
        let spans = export.and_then(|export| sinks.iter().position(|sink| sink == export));
        AccessLogs {
            logs,
            of_host,
            begun: Notify::new(),
            selection: site.log.selection,
            clients: site.log.clients,
            others: Cell::new(0),
            names,
            recent: Rc::new(Recent::new(site.recent_requests().div_ceil(workers))),
            tracer: site.tracing.as_ref().map(Tracer::new),
            spans: spans.map(|sink| RefCell::new(Buffer::of(sink))),
            watches: Watches::default(),
            exemplars: site.tracing.as_ref().filter(|tracing| tracing.exemplars).map(|_| RefCell::default()),
            zones: Zones::of(site),
            client_errors: ClientErrors::of(site),
        }
    }

    /// Records the fields of a line.
    #[inline]
    pub fn record(&self, records: &mut Records, request: &LoggedRequest<'_>, response: LoggedResponse<'_>) {
        let records = records.kept.get_or_insert_default();
        let number = self.recent.push(request, &response);
        let LoggedResponse { status, head, length, is_endless, .. } = response;
        let zones = match &self.zones {
            Some(zones) if !is_endless => zones.find(request.host, request.head, response.script),
            _ => ZonesOf::NOTHING,
        };
        let began = request.began;
        let item = None;
        records.pending.push(PendingResponse {
            began,
            number,
            head,
            length,
            is_endless,
            status,
            zones,
            item,
        });
        if self.watches.is_on() {
            records.watch(&self.watches, number, request, &response);
        }
        let log = self.of_host.get(request.host).copied().unwrap_or(0);
        let errors = self.client_errors.as_ref().filter(|_| status.is_client_error());
        let has_line = self.logs[log].is_some() || errors.is_some();
        if !has_line && self.spans.is_none() && self.exemplars.is_none() {
            return;
        }
        let trace = self.trace(request, &response);
        if !has_line && !trace.as_ref().is_some_and(|trace| trace.is_sampled) {
            return;
        }
        let host = match &self.logs[log] {
            Some(lines) => lines.borrow().host,
            None => errors.map_or(LoggedHost::Name, |errors| errors.host),
        };
        let error = errors.map(|errors| errors.file(request));
        records.push(NewLine { log, host, clients: self.clients, trace, error }, request, response);
    }

    /// The trace of a request. One that was sent to no upstream gets it here.
    fn trace(&self, request: &LoggedRequest<'_>, response: &LoggedResponse<'_>) -> Option<Box<Trace>> {
        let tracer = self.tracer.as_ref()?;
        let trace = match response.trace {
            Some(trace) => trace,
            None => tracer.begin(request.head?),
        };
        Some(Box::new(trace))
    }

    /// Counts how long the responses of `records` took, which have `sent` bytes together, and writes their lines.
    /// `first`: when the first byte was sent. `None`: all of it was sent at once.
    #[inline]
    pub fn write(
        &self,
        counts: &Counts,
        records: &Records,
        sent: u64,
        first: Option<u64>,
        ended: Option<EndReason>,
    ) {
        if let Some(kept) = records.kept.as_deref().filter(|kept| !kept.pending.is_empty()) {
            self.write_kept(counts, kept, sent, first, ended);
        }
    }

    /// As `write`, for responses of which nothing was sent.
    pub fn write_unsent(&self, counts: &Counts, records: &Records, why: EndReason) {
        self.write(counts, records, 0, None, Some(why));
    }

    fn write_kept(
        &self,
        counts: &Counts,
        records: &Kept,
        mut sent: u64,
        first: Option<u64>,
        ended: Option<EndReason>,
    ) {
        let now = clock::micros();
        let mut incomplete = 0;
        let is_watched = !records.watched.borrow().is_empty();
        for response in &records.pending {
            let &PendingResponse { began, number, is_endless, status, zones, .. } = response;
            if !is_endless {
                counts.add_durations(began, first, now);
            }
            let Delivered { whole, body, is_complete } = response.take_from(&mut sent);
            // The responses in front of one that has ended early are complete.
            let cut = ended.filter(|_| !is_complete);
            incomplete += u64::from(cut.is_some() && !is_endless);
            let micros = now.saturating_sub(began);
            self.recent.finish(number, body, micros, cut.map(EndReason::text));
            if zones != ZonesOf::NOTHING {
                counts.add_to_zones(zones, status, whole, micros);
            }
            if is_watched {
                records.end_watched(number, body, micros, cut);
            }
            if let Some(item) = records.item(response) {
                self.note_exemplar(item, micros);
                self.write_line(records, (response, item), body, now, item.ended.or(cut));
            }
        }
        if incomplete > 0 {
            counts.add(Count::Incomplete, incomplete);
        }
    }

    /// Whether anything but the list of the last requests has the upstreams of a request to this host.
    pub fn names_upstreams(&self, host: usize) -> bool {
        if self.spans.is_some() || self.watches.is_on() {
            return true;
        }
        let log = self.of_host.get(host).and_then(|log| self.logs[*log].as_ref());
        log.is_some_and(|lines| matches!(lines.borrow().format, LogFormat::Json | LogFormat::Fields(_)))
    }

    /// The request whose spans are sent. `None`: none are.
    pub fn sends_spans_of(&self, trace: Option<Trace>) -> Option<TraceIds> {
        trace.filter(|trace| trace.is_sampled && self.spans.is_some()).map(|trace| trace.ids)
    }

    pub fn sends_spans(&self) -> bool {
        self.spans.is_some()
    }

    /// The traces that metrics name.
    pub fn exemplars(&self) -> Exemplars {
        self.exemplars.as_ref().map_or_else(Exemplars::default, |exemplars| *exemplars.borrow())
    }

    fn note_exemplar(&self, item: &Item, micros: u64) {
        if let Some(exemplars) = &self.exemplars
            && let Some(trace) = item.trace.as_deref().filter(|trace| trace.is_sampled)
        {
            let (trace, time) = (trace.ids.trace, clock::wall_micros());
            exemplars.borrow_mut().note(Exemplar { trace, micros, time });
        }
    }

    /// The requests of these records came by this connection, which has a task now.
    pub fn connect(&self, records: &Records, connection: Option<ConnectionId>) {
        for pending in records.kept.iter().flat_map(|kept| &kept.pending) {
            self.recent.connect(pending.number, connection);
        }
    }

    /// The list of the last requests has no request of these records.
    pub fn forget(&self, records: &Records) {
        for pending in records.kept.iter().flat_map(|kept| &kept.pending) {
            self.recent.forget(pending.number);
        }
    }

    /// Waits until a buffer has a line.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    pub fn flush(&self) {
        for lines in self.logs.iter().flatten() {
            lines.borrow_mut().buffer.flush();
        }
        if let Some(spans) = &self.spans {
            spans.borrow_mut().flush();
        }
        if let Some(errors) = &self.client_errors {
            errors.lines.borrow_mut().0.flush();
        }
    }

    fn write_line(
        &self,
        records: &Kept,
        (response, item): (&PendingResponse, &Item),
        sent: u64,
        now: u64,
        ended: Option<EndReason>,
    ) {
        let duration_micros = now.saturating_sub(response.began);
        let lines = self.logs.get(item.log).and_then(Option::as_ref);
        let lines = lines.filter(|_| self.is_selected(response.status, duration_micros, ended));
        let spans = self.spans.as_ref().zip(item.trace.as_deref().filter(|trace| trace.is_sampled));
        if lines.is_none() && spans.is_none() && item.error.is_none() {
            return;
        }
        let name = match item.client {
            Client::Ip(address) => self.names.find(address),
            Client::Unix => None,
        };
        let line = Line {
            name: name.as_deref(),
            sent,
            duration_micros,
            ended: ended.map(EndReason::text),
            ..records.line(item, response.status)
        };
        if let (Some(errors), Some(file)) = (&self.client_errors, item.error.as_deref()) {
            // The client learnt of its error, whatever became of the connection.
            errors.write(&Line { ended: item.ended.map(EndReason::text), ..line }, file, &self.begun);
        }
        let write = |line: &Line<'_>, steps: &[Step]| {
            if let Some(lines) = lines {
                let Lines { format, time, buffer, .. } = &mut *lines.borrow_mut();
                buffer.add(&self.begun, |bytes| {
                    log_line::write(format, line, time, bytes);
                    1
                });
            }
            if let Some((spans, trace)) = spans {
                let facts = trace.span_facts(clock::wall_micros(), now, item.tls.is_some(), steps);
                spans.borrow_mut().add(&self.begun, |bytes| span::write(&facts, line, bytes));
            }
        };
        match &item.upstream {
            None => write(&line, &[]),
            Some(upstream) => {
                upstream.with_steps(|attempts, steps| write(&Line { upstream: attempts, ..line }, steps));
            }
        }
    }

    /// Whether the access log has a line of it.
    fn is_selected(&self, status: Status, duration_micros: u64, ended: Option<EndReason>) -> bool {
        let mut others = self.others.get();
        let has_line = self.selection.has_line(status, ended.is_none(), duration_micros, &mut others);
        self.others.set(others);
        has_line
    }
}

impl Buffer {
    fn of(sink: usize) -> Buffer {
        Buffer { sink, bytes: Vec::new(), count: 0 }
    }

    /// `begun` is notified of the first line. `write` returns how many lines it has written.
    fn add(&mut self, begun: &Notify, write: impl FnOnce(&mut Vec<u8>) -> u64) {
        if self.bytes.is_empty() {
            begun.notify_one();
        }
        self.count += write(&mut self.bytes);
        if self.bytes.len() >= BLOCK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let (Some(logs), false) = (LOGS.get(), self.bytes.is_empty()) else { return };
        let lines = std::mem::replace(&mut self.bytes, logs.spare());
        logs.send(Block { sink: self.sink, lines, count: std::mem::take(&mut self.count) });
    }
}

/// The response's part of a log line.
#[derive(Clone, Copy)]
pub struct LoggedResponse<'a> {
    pub status: Status,
    /// Bytes of its head.
    pub head: u64,
    /// Bytes of its content. `None`: they are known when it has been sent.
    pub length: Option<u64>,
    /// It is left out of durations, of responses that ended early, and of what hosts and routes count.
    pub is_endless: bool,
    /// The rule that the request has broken.
    pub broken_rule: Option<&'static Rule>,
    /// The authenticated user.
    pub user: Option<&'a str>,
    /// `None`: the request was sent to no application.
    pub upstream: Option<&'a Rc<UpstreamLog>>,
    /// The route of the script that has responded.
    pub script: Option<RouteId>,
    /// The endpoint that has responded, where the attempts are not logged.
    pub endpoint: Option<&'a Rc<str>>,
    /// What the cache of responses did, in a word.
    pub cache: Option<&'static str>,
    /// `None`: the request was sent to no upstream, or has no trace.
    pub trace: Option<Trace>,
    /// `None`: no head was made.
    pub fields: Option<&'a ResponseHead>,
    /// `None`: it has not begun to be watched.
    pub watched: Option<&'a Cell<Option<Box<Watched>>>>,
}

impl LoggedResponse<'_> {
    /// A response of which nothing else is known.
    pub const fn of(status: Status) -> LoggedResponse<'static> {
        LoggedResponse {
            status,
            head: 0,
            length: None,
            is_endless: false,
            broken_rule: None,
            user: None,
            upstream: None,
            script: None,
            endpoint: None,
            cache: None,
            trace: None,
            fields: None,
            watched: None,
        }
    }
}

/// The request's part of a log line.
pub struct LoggedRequest<'a> {
    pub client: Peer,
    /// `None`: the connection has no task, and the response is likely to be sent at once.
    pub connection: Option<ConnectionId>,
    /// `None`: no head could be parsed.
    pub head: Option<&'a Head<'a>>,
    /// The index of the host.
    pub host: usize,
    pub destination: DestinationId,
    pub time: i64,
    /// Of `clock::micros`.
    pub began: u64,
    /// `None`: the connection has no TLS.
    pub tls: Option<&'a Rc<TlsFacts>>,
}

impl LoggedRequest<'_> {
    /// The address that the connection was made to. `None`: a Unix socket, or it is not known.
    fn server(&self) -> Option<IpAddr> {
        self.destination.address().map(|address| address.ip())
    }
}

#[cfg(test)]
mod tests {
    use std::mem::take;

    use taipan_http::rule::PLAINTEXT;

    use super::*;

    /// The indices of hosts.
    const WITHOUT_LOG: usize = 0;
    const WITH_LOG: usize = 1;

    /// The log of a host, where another one has none.
    fn logs() -> AccessLogs {
        let site = Site::folder(std::env::temp_dir(), Vec::new());
        let lines = Lines {
            buffer: Buffer::of(0),
            format: LogFormat::Json,
            host: LoggedHost::Name,
            time: TimeText::new(0, None),
        };
        AccessLogs {
            logs: vec![None, Some(RefCell::new(lines))],
            of_host: vec![0, 1],
            ..AccessLogs::new(&site, Rc::new(ClientNames::new(0)))
        }
    }

    /// Records a request to each host. Each response has 10 bytes of head and 100 of content. `broken_rule`: the last
    /// request has broken it.
    fn record(logs: &AccessLogs, hosts: &[usize], broken_rule: Option<&'static Rule>) -> Records {
        let mut records = Records::default();
        for (at, host) in hosts.iter().enumerate() {
            let request = LoggedRequest {
                client: Peer::Unix,
                connection: None,
                head: None,
                host: *host,
                destination: DestinationId::default(),
                time: 0,
                began: clock::micros(),
                tls: None,
            };
            let response = LoggedResponse {
                head: 10,
                length: Some(100),
                broken_rule: broken_rule.filter(|_| at + 1 == hosts.len()),
                ..LoggedResponse::of(Status::OK)
            };
            logs.record(&mut records, &request, response);
        }
        records
    }

    /// The members `sent`, `ended` and `why` of the lines.
    fn written(
        logs: &AccessLogs,
        records: &Records,
        sent: u64,
        ended: Option<EndReason>,
    ) -> Vec<[String; 3]> {
        logs.write(&Counts::new(), records, sent, None, ended);
        let lines = logs.logs[1].as_ref().map(|lines| take(&mut lines.borrow_mut().buffer.bytes));
        let lines = String::from_utf8(lines.unwrap_or_default()).unwrap();
        let member = |line: &str, name: &str| {
            let value = line.split_once(&format!("\"{name}\":")).map_or("", |(_, behind)| behind);
            value.split([',', '}']).next().unwrap_or_default().to_owned()
        };
        lines.lines().map(|line| ["sent", "ended", "why"].map(|name| member(line, name))).collect()
    }

    #[test]
    fn a_response_without_a_line_has_bytes_of_its_own() {
        let cut = Some(EndReason::ClientClosed);
        for (hosts, sent, ended, expected) in [
            (&[WITHOUT_LOG, WITH_LOG][..], 220, None, &[["100", "null"]][..]),
            (&[WITHOUT_LOG, WITH_LOG], 160, cut, &[["40", "\"client closed\""]]),
            (&[WITH_LOG, WITHOUT_LOG, WITH_LOG], 220, cut, &[["100", "null"], ["0", "\"client closed\""]]),
            (&[WITH_LOG, WITHOUT_LOG], 160, cut, &[["100", "null"]]),
        ] {
            let logs = logs();
            let lines = written(&logs, &record(&logs, hosts, None), sent, ended);
            let found: Vec<_> = lines.iter().map(|[sent, ended, _]| [&**sent, &**ended]).collect();
            assert_eq!(found, expected, "{hosts:?}");
        }
    }

    #[test]
    fn the_rule_that_the_last_request_broke_is_in_no_other_line() {
        let logs = logs();
        for (hosts, expected) in [
            (&[WITH_LOG, WITHOUT_LOG][..], &["null"][..]),
            (&[WITH_LOG, WITH_LOG], &["null", "\"plaintext: "]),
        ] {
            let records = record(&logs, hosts, Some(PLAINTEXT));
            let lines = written(&logs, &records, 220, None);
            assert_eq!(lines.len(), expected.len());
            for ([.., why], expected) in lines.iter().zip(expected) {
                assert!(why.starts_with(expected), "{why}");
            }
        }
    }
}
