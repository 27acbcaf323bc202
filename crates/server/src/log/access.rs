//! The access log as a worker sees it: what a line needs is copied when a request is answered, and the
//! line is written when the answer has left or failed. Buffers are lent and returned; a line allocates
//! nothing once they have grown.

use std::cell::RefCell;
use std::ops::Range;

use site::log_line::{self, Client, Line, Request, TimeText};
use site::memory;
use site::model::{LogFormat, Site};
use taipan_http::fields::is_name;
use taipan_http::head::{Head, Version};
use taipan_http::rule::Rule;
use taipan_http::status::Status;
use tokio::sync::Notify;

use super::{Block, LOGS};
use crate::buffer::append;
use crate::clock;
use crate::peer::Peer;

/// Lines are handed over when there are this many bytes of them, or after `FLUSH_AFTER`.
const FULL: usize = 32 * 1024;
pub const FLUSH_AFTER: std::time::Duration = std::time::Duration::from_millis(100);

/// The access logs of one worker.
pub struct AccessLogs {
    logs: Vec<Option<RefCell<Lines>>>,
    /// Which of `logs` each host writes to.
    of_host: Vec<usize>,
    /// Told when the first line goes into empty buffers.
    begun: Notify,
}

struct Lines {
    sink: usize,
    format: LogFormat,
    bytes: Vec<u8>,
    count: u64,
    time: TimeText,
}

const _: () = assert!(size_of::<Item>() <= memory::RECORD as usize);

/// Requests that are being answered, for their lines.
#[derive(Default)]
pub struct Records {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

/// One request; texts are ranges of `Records::bytes`.
struct Item {
    log: usize,
    client: Client,
    time: i64,
    began: u64,
    request: Option<(Range<usize>, Range<usize>, Version)>,
    host: Range<usize>,
    referer: Option<Range<usize>>,
    user_agent: Option<Range<usize>>,
    status: Status,
    head: u64,
    length: Option<u64>,
    /// Why the request did not become whole.
    ended: Option<&'static str>,
    /// The rule that the request broke.
    why: Option<&'static Rule>,
}

impl AccessLogs {
    pub fn new(site: &Site) -> AccessLogs {
        let mut logs: Vec<Option<RefCell<Lines>>> = vec![None];
        let mut of_host = Vec::new();
        let sinks = LOGS.get().map_or(&[][..], |l| &l.sinks);
        for host in site.hosts.iter() {
            let wanted = host.access_log.as_ref().or(site.log.access.as_ref());
            let Some(sink) = wanted.and_then(|w| sinks.iter().position(|s| *s == w.sink)) else {
                of_host.push(0);
                continue;
            };
            let format = wanted.map_or(LogFormat::Combined, |w| w.format);
            let same = |l: &Option<RefCell<Lines>>| {
                l.as_ref().is_some_and(|l| l.borrow().sink == sink && l.borrow().format == format)
            };
            of_host.push(logs.iter().position(same).unwrap_or_else(|| {
                let lines = Lines { sink, format, bytes: Vec::new(), count: 0, time: TimeText::new(0) };
                logs.push(Some(RefCell::new(lines)));
                logs.len() - 1
            }));
        }
        AccessLogs { logs, of_host, begun: Notify::new() }
    }

    /// Takes down what the line of this response will need.
    #[inline]
    pub fn record(&self, records: &mut Records, asked: &Asked<'_>, answer: Answer) {
        let log = self.of_host.get(asked.host).copied().unwrap_or(0);
        if self.logs[log].is_none() {
            return;
        }
        records.take_down(log, asked, answer);
    }

    /// Writes the lines of `records`, of which `sent` bytes have left.
    #[inline]
    pub fn write(&self, records: &Records, mut sent: u64, ended: Option<&str>) {
        let now = if records.items.is_empty() { return } else { clock::micros() };
        for item in &records.items {
            let whole = item.length.map_or(sent, |l| (item.head + l).min(sent));
            sent -= whole;
            let body = whole.saturating_sub(item.head);
            let cut = item.length.is_none_or(|l| body < l);
            self.write_line(records, item, body, now, item.ended.or(ended.filter(|_| cut)));
        }
    }

    /// Is any line written at all?
    #[inline]
    pub fn is_on(&self) -> bool {
        self.logs.len() > 1
    }

    /// Waits until there is something to hand over before long.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    pub fn flush(&self) {
        for lines in self.logs.iter().flatten() {
            lines.borrow_mut().hand_over();
        }
    }

    fn write_line(&self, records: &Records, item: &Item, sent: u64, now: u64, ended: Option<&str>) {
        let Some(Some(lines)) = self.logs.get(item.log) else { return };
        let lines = &mut *lines.borrow_mut();
        if lines.bytes.is_empty() {
            self.begun.notify_one();
        }
        let request = item.request.as_ref().map(|(method, target, version)| Request {
            method: records.text(method),
            target: records.text(target),
            version: version.as_str(),
        });
        let line = Line {
            client: item.client,
            host: records.text(&item.host),
            user: None,
            time: item.time,
            request,
            status: item.status,
            sent,
            referer: item.referer.clone().map(|r| &records.bytes[r]),
            user_agent: item.user_agent.clone().map(|r| &records.bytes[r]),
            duration_micros: now.saturating_sub(item.began),
            ended,
            why: item.why,
        };
        log_line::write(lines.format, &line, &mut lines.time, &mut lines.bytes);
        lines.count += 1;
        if lines.bytes.len() >= FULL {
            lines.hand_over();
        }
    }
}

impl Lines {
    fn hand_over(&mut self) {
        let (Some(logs), false) = (LOGS.get(), self.bytes.is_empty()) else { return };
        let lines = std::mem::replace(&mut self.bytes, logs.spare());
        logs.send(Block { sink: self.sink, lines, count: std::mem::take(&mut self.count) });
    }
}

/// A response, as far as its line needs it.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    pub status: Status,
    /// Bytes of its head.
    pub head: u64,
    /// Bytes of its content; `None`: they are known when it has been sent.
    pub length: Option<u64>,
}

/// A request as far as it could be read.
pub struct Asked<'a> {
    /// Who has made it.
    pub client: Peer,
    pub head: Option<&'a Head<'a>>,
    /// Index of the host that answered.
    pub host: usize,
    pub time: i64,
    /// Of `clock::micros`.
    pub began: u64,
}

impl Records {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }

    /// Are they as many as one connection may have waiting?
    #[inline]
    pub fn are_full(&self) -> bool {
        self.items.len() >= memory::LOGGED as usize
    }

    /// Says of the last request why it did not become whole.
    pub fn end_early(&mut self, why: &'static str) {
        if let Some(item) = self.items.last_mut() {
            item.ended = Some(why);
        }
    }

    /// Says of the last request which rule it broke.
    pub fn name_rule(&mut self, rule: &'static Rule) {
        if let Some(item) = self.items.last_mut() {
            item.why = Some(rule);
        }
    }

    fn take_down(&mut self, log: usize, asked: &Asked<'_>, answer: Answer) {
        let client = asked.client.ip().map_or(Client::Unix, Client::Ip);
        let mut item = Item {
            log,
            client,
            time: asked.time,
            began: asked.began,
            request: None,
            host: 0..0,
            referer: None,
            user_agent: None,
            status: answer.status,
            head: answer.head,
            length: answer.length,
            ended: None,
            why: None,
        };
        if let Some(head) = asked.head {
            item.request =
                Some((self.keep(head.token.as_bytes()), self.keep(head.raw_target.as_bytes()), head.version));
            item.host = self.keep(head.authority);
            for field in head.fields {
                if is_name(field.name, "referer") {
                    item.referer = Some(self.keep(field.value));
                } else if is_name(field.name, "user-agent") {
                    item.user_agent = Some(self.keep(field.value));
                }
            }
        }
        self.items.push(item);
    }

    fn keep(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        append(&mut self.bytes, text);
        start..self.bytes.len()
    }

    /// Only what came in as text is asked for as text.
    fn text(&self, range: &Range<usize>) -> &str {
        std::str::from_utf8(&self.bytes[range.clone()]).unwrap_or_default()
    }
}
