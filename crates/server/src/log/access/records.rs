//! What is kept of requests while their responses are sent, for their log lines.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use site::log_line::{Client, Line, Request, Tls};
use site::memory;
use site::model::{LoggedClients, LoggedHost};
use site::zones::ZonesOf;
use taipan_http::digits::write_ip;
use taipan_http::fields::is_name;
use taipan_http::head::{Head, Version};
use taipan_http::rule::Rule;
use taipan_http::status::Status;

use super::{LoggedRequest, LoggedResponse};
use crate::buffer::append;
use crate::destination::DestinationId;
use crate::log::EndReason;
use crate::log::upstream::UpstreamLog;
use crate::tls_facts::TlsFacts;
use crate::trace::Trace;
use crate::watch::{Arrival, Watched, WatchedEnd, WatchedResponse, Watches};

/// The log fields of requests whose responses are being sent.
#[derive(Default)]
pub struct Records {
    /// `None`: there are none yet. Boxed, because it moves with its output.
    pub(super) kept: Option<Box<Kept>>,
}

#[derive(Default)]
pub(super) struct Kept {
    /// Each response, also one without a line.
    pub(super) pending: Vec<PendingResponse>,
    pub(super) bytes: Vec<u8>,
    pub(super) items: Vec<Item>,
    pub(super) watched: RefCell<Vec<WatchedItem>>,
}

/// A request whose response is being sent.
pub(super) struct PendingResponse {
    /// Of `clock::micros`.
    pub(super) began: u64,
    /// In `Recent`.
    pub(super) number: u64,
    /// Bytes of the response's head, and of its content. `None`: they are known when it has been sent.
    pub(super) head: u64,
    pub(super) length: Option<u64>,
    pub(super) is_endless: bool,
    pub(super) status: Status,
    pub(super) zones: ZonesOf,
    /// Its index in `Kept::items`. `None`: it has no line.
    pub(super) item: Option<u32>,
}

/// What was sent of a response.
pub(super) struct Delivered {
    /// Bytes of its head and of its content.
    pub(super) whole: u64,
    /// Bytes of its content.
    pub(super) body: u64,
    pub(super) is_complete: bool,
}

const _: () = assert!(size_of::<PendingResponse>() + size_of::<Item>() <= memory::LOG_RECORD as usize);

/// A request that is watched.
pub(super) struct WatchedItem {
    /// In `Recent`.
    pub(super) number: u64,
    pub(super) watched: Box<Watched>,
    pub(super) rule: Option<&'static Rule>,
    pub(super) upstream: Option<Rc<UpstreamLog>>,
}

/// What a line has of a request, apart from its `PendingResponse`. Texts are ranges of `Kept::bytes`.
pub(super) struct Item {
    pub(super) log: usize,
    pub(super) client: Client,
    pub(super) time: i64,
    pub(super) request: Option<(Range<usize>, Range<usize>, Version)>,
    pub(super) host: Range<usize>,
    /// The bytes behind the host that are the field `X-Forwarded-For`. `None`: the log does not have it.
    pub(super) forwarded_for: Option<u16>,
    pub(super) user: Option<Range<usize>>,
    pub(super) referer: Option<Range<usize>>,
    pub(super) user_agent: Option<Range<usize>>,
    /// Why the request stayed incomplete.
    pub(super) ended: Option<EndReason>,
    /// The rule that the request broke.
    pub(super) why: Option<&'static Rule>,
    pub(super) tls: Option<Rc<TlsFacts>>,
    /// Whether the request came before the end of the handshake.
    pub(super) is_early: bool,
    /// `None`: the request was sent to no application.
    pub(super) upstream: Option<Rc<UpstreamLog>>,
    pub(super) cache: Option<&'static str>,
    /// `None`: requests have no trace.
    pub(super) trace: Option<Box<Trace>>,
    /// The file that the request was for, or nothing. `None`: the error log has no line of it.
    pub(super) error: Option<Box<[u8]>>,
}

/// What is known of a line beside its request and its response.
pub(super) struct NewLine {
    pub(super) log: usize,
    pub(super) host: LoggedHost,
    pub(super) clients: LoggedClients,
    pub(super) trace: Option<Box<Trace>>,
    /// See `Item`.
    pub(super) error: Option<Box<[u8]>>,
}

impl Records {
    #[inline]
    pub fn clear(&mut self) {
        if let Some(kept) = self.kept.as_mut().filter(|kept| !kept.pending.is_empty()) {
            kept.pending.clear();
            kept.bytes.clear();
            kept.items.clear();
            kept.watched.get_mut().clear();
        }
    }

    /// Whether they have reached the limit of one connection.
    #[inline]
    pub fn are_full(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.pending.len() >= memory::LOG_RECORDS as usize)
    }

    /// Sets why the last request stayed incomplete.
    pub fn end_early(&mut self, why: EndReason) {
        if let Some(item) = self.kept.as_mut().and_then(|kept| kept.last_item()) {
            item.ended = Some(why);
        }
    }
}

impl PendingResponse {
    /// Takes its bytes from those that are `left` of a batch.
    pub(super) fn take_from(&self, left: &mut u64) -> Delivered {
        // An upstream may announce any length.
        let end = self.length.map(|length| self.head.saturating_add(length));
        let whole = end.map_or(*left, |end| end.min(*left));
        *left -= whole;
        let is_complete = end == Some(whole);
        Delivered { whole, body: whole.saturating_sub(self.head), is_complete }
    }
}

impl Kept {
    pub(super) fn item(&self, response: &PendingResponse) -> Option<&Item> {
        self.items.get(response.item? as usize)
    }

    /// The one of the last response.
    fn last_item(&mut self) -> Option<&mut Item> {
        self.items.get_mut(self.pending.last()?.item? as usize)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn watch(
        &mut self,
        watches: &Watches,
        number: u64,
        request: &LoggedRequest<'_>,
        response: &LoggedResponse<'_>,
    ) {
        let begun = response.watched.and_then(Cell::take);
        let arrival = || Arrival {
            client: request.client,
            server: request.server(),
            host: request.host,
            tls: request.tls.map(|tls| &**tls),
        };
        let begin = |head| watches.begin(head, arrival());
        let Some(mut watched) = begun.or_else(|| request.head.and_then(begin)) else { return };
        let LoggedResponse { status, fields, user, cache, upstream, broken_rule: rule, .. } = *response;
        watched.respond(WatchedResponse { cache, ..WatchedResponse::new(status, fields, user) });
        let item = WatchedItem { number, watched, rule, upstream: upstream.cloned() };
        self.watched.get_mut().push(item);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn end_watched(&self, number: u64, sent: u64, micros: u64, why: Option<EndReason>) {
        let mut all = self.watched.borrow_mut();
        let Some(item) = all.iter_mut().find(|item| item.number == number) else { return };
        let attempts =
            item.upstream.as_ref().map(|log| log.with(|attempts| attempts.iter().map(Into::into).collect()));
        let (attempts, why) = (attempts.unwrap_or_default(), why.map(|why| why.text().to_owned()));
        item.watched.end(WatchedEnd { sent, micros, why, rule: item.rule, attempts });
    }

    /// Adds the line of the last response.
    pub(super) fn push(&mut self, new: NewLine, request: &LoggedRequest<'_>, response: LoggedResponse<'_>) {
        let NewLine { log, host, clients, trace, error } = new;
        let client = request.client.ip().map_or(Client::Unix, Client::Ip);
        let mut item = Item {
            log,
            client,
            time: request.time,
            request: None,
            host: 0..0,
            forwarded_for: None,
            user: response.user.map(|user| self.keep(user.as_bytes())),
            referer: None,
            user_agent: None,
            ended: None,
            why: response.broken_rule,
            tls: request.tls.cloned(),
            is_early: request.head.is_some_and(|head| head.is_early),
            upstream: response.upstream.cloned(),
            cache: response.cache,
            trace,
            error,
        };
        if let Some(head) = request.head {
            item.request =
                Some((self.keep(head.token.as_bytes()), self.keep(head.raw_target.as_bytes()), head.version));
            item.host = match host {
                LoggedHost::Name | LoggedHost::Nothing => self.keep(head.authority),
                LoggedHost::Address => self.keep_address(request.destination),
            };
            if clients == LoggedClients::ForwardedFor {
                item.forwarded_for = Some(self.keep_forwarded_for(head));
            }
            for field in head.fields {
                if is_name(field.name, "referer") {
                    item.referer = Some(self.keep(field.value));
                } else if is_name(field.name, "user-agent") {
                    item.user_agent = Some(self.keep(field.value));
                }
            }
        }
        if let Some(response) = self.pending.last_mut() {
            response.item = Some(self.items.len() as u32);
        }
        self.items.push(item);
    }

    #[cold]
    fn keep_address(&mut self, destination: DestinationId) -> Range<usize> {
        let start = self.bytes.len();
        if let Some(address) = destination.address() {
            write_ip(address.ip().to_canonical(), &mut self.bytes);
        }
        start..self.bytes.len()
    }

    /// The last field, and its length.
    #[cold]
    fn keep_forwarded_for(&mut self, head: &Head<'_>) -> u16 {
        let mut fields = head.fields.iter().filter(|field| is_name(field.name, "x-forwarded-for"));
        let value = fields.next_back().map_or(&[][..], |field| field.value);
        let value = &value[..value.len().min(u16::MAX.into())];
        append(&mut self.bytes, value);
        value.len() as u16
    }

    fn keep(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        append(&mut self.bytes, text);
        start..self.bytes.len()
    }

    /// The line of a request, apart from the name of its client and from what is known only when the response has
    /// ended.
    #[inline]
    pub(super) fn line<'a>(&'a self, item: &'a Item, status: Status) -> Line<'a> {
        Line {
            client: item.client,
            name: None,
            forwarded_for: item.forwarded_for.map(|length| &self.bytes[item.host.end..][..length.into()]),
            host: self.text(&item.host),
            user: item.user.as_ref().map(|user| self.text(user)),
            time: item.time,
            request: item.request.as_ref().map(|(method, target, version)| Request {
                method: self.text(method),
                target: self.text(target),
                version: version.as_str(),
            }),
            status,
            sent: 0,
            referer: item.referer.as_ref().map(|value| self.text(value)),
            user_agent: item.user_agent.as_ref().map(|value| self.text(value)),
            duration_micros: 0,
            ended: None,
            why: item.why,
            tls: item.tls.as_ref().map(|facts| Tls {
                protocol: facts.protocol,
                cipher: facts.cipher,
                name: facts.name.as_deref(),
                client: facts.client.as_ref().map(|client| client.subject.as_str()),
                is_resumed: facts.is_resumed,
                is_early: item.is_early,
            }),
            upstream: &[],
            cache: item.cache,
            trace: item.trace.as_ref().map(|trace| trace.ids),
        }
    }

    fn text(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.clone()]
    }
}
