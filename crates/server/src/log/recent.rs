//! The last requests of a worker, and those that run now: who has asked for what, and how it has ended. The memory is fixed.
//! Fields of requests are not kept, and of a query only its names are shown.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::rc::Rc;

use site::text::{json_string, without_values};
use slab::Slab;
use taipan_http::status::Status;

use super::access::{LoggedRequest, LoggedResponse};
use crate::clock;
use crate::peer::Peer;
use crate::stats::{RecentText, live};

/// The longest texts that are kept.
const METHOD: usize = 12;
const HOST: usize = 48;
const TARGET: usize = 96;

/// The start of a text, in place.
#[derive(Clone, Copy)]
struct Short<const N: usize> {
    bytes: [u8; N],
    length: u8,
    is_cut: bool,
}

impl<const N: usize> Short<N> {
    #[inline]
    fn of(text: &[u8]) -> Short<N> {
        let mut bytes = [0; N];
        let length = text.len().min(N);
        bytes[..length].copy_from_slice(&text[..length]);
        Short { bytes, length: length as u8, is_cut: text.len() > N }
    }

    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes[..self.length as usize]);
        if self.is_cut { format!("{text}…") } else { text.into_owned() }
    }
}

/// A request.
#[derive(Clone)]
struct Asked {
    client: Peer,
    /// Seconds since 1970.
    time: i64,
    /// Of `clock::micros`.
    began: u64,
    method: Short<METHOD>,
    host: Short<HOST>,
    target: Short<TARGET>,
    version: &'static str,
}

impl Asked {
    #[inline]
    fn of(request: &LoggedRequest<'_>) -> Asked {
        let (method, host, target, version) = match request.head {
            Some(head) => {
                (head.token.as_bytes(), head.authority, head.raw_target.as_bytes(), head.version.as_str())
            }
            None => (&[][..], &[][..], &[][..], ""),
        };
        Asked {
            client: request.client,
            time: request.time,
            began: request.began,
            method: Short::of(method),
            host: Short::of(host),
            target: Short::of(target),
            version,
        }
    }
}

/// A request with its response.
struct Entry {
    asked: Asked,
    number: u64,
    status: Status,
    /// Bytes of the content, as far as they are sent.
    sent: u64,
    /// `None`: it is being sent.
    micros: Option<u64>,
    user: Option<Box<str>>,
    upstream: Option<Rc<str>>,
    /// Why it has ended early.
    ended: Option<Box<str>>,
}

pub struct Recent {
    entries: RefCell<Vec<Entry>>,
    /// Entries that are kept.
    capacity: usize,
    /// Of the next entry.
    next: Cell<u64>,
    running: RefCell<Slab<Asked>>,
}

/// A request that runs, until this is dropped.
pub struct Running {
    recent: Rc<Recent>,
    key: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.recent.running.borrow_mut().try_remove(self.key);
    }
}

/// The most requests of one worker that are shown as running.
const MAX_RUNNING: usize = 50;

impl Recent {
    /// Of the last `capacity` requests.
    pub fn new(capacity: usize) -> Recent {
        Recent {
            entries: RefCell::new(Vec::with_capacity(capacity)),
            capacity,
            next: Cell::new(0),
            running: RefCell::default(),
        }
    }

    /// Adds a request whose response is about to be sent. Returns its number.
    #[inline]
    pub fn push(&self, request: &LoggedRequest<'_>, response: &LoggedResponse<'_>) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        if self.capacity == 0 {
            return number;
        }
        let entry = Entry {
            asked: Asked::of(request),
            number,
            status: response.status,
            sent: 0,
            micros: None,
            user: response.user.map(Box::from),
            upstream: response
                .upstream
                .and_then(|log| log.with(|attempts| Some(attempts.last()?.address.clone()))),
            ended: None,
        };
        let entries = &mut *self.entries.borrow_mut();
        match entries.get_mut((number % self.capacity as u64) as usize) {
            Some(place) => *place = entry,
            None => entries.push(entry),
        }
        number
    }

    /// The response was sent, or has failed.
    #[inline]
    pub fn finish(&self, number: u64, sent: u64, micros: u64, ended: Option<&str>) {
        if self.capacity == 0 {
            return;
        }
        let entries = &mut *self.entries.borrow_mut();
        let entry = entries.get_mut((number % self.capacity as u64) as usize);
        if let Some(entry) = entry.filter(|entry| entry.number == number) {
            (entry.sent, entry.micros) = (sent, Some(micros));
            if let Some(why) = ended {
                entry.ended = Some(why.into());
            }
        }
    }

    pub fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// A response is being made for this request.
    pub fn run(self: &Rc<Recent>, request: &LoggedRequest<'_>) -> Running {
        Running { recent: self.clone(), key: self.running.borrow_mut().insert(Asked::of(request)) }
    }

    /// The requests from the one with the number `from` on, but at most the last `most` of them.
    pub fn text(&self, from: u64, most: u64) -> RecentText {
        let (next, now) = (self.next.get(), clock::micros());
        let kept = most.min(self.capacity as u64);
        let mut text = RecentText { next, ..RecentText::default() };
        let entries = self.entries.borrow();
        for number in from.max(next.saturating_sub(kept))..next {
            let entry = entries.get((number % self.capacity.max(1) as u64) as usize);
            if let Some(entry) = entry.filter(|entry| entry.number == number) {
                push_entry(entry, now, &mut text.last);
            }
        }
        for (_, asked) in self.running.borrow().iter().take(MAX_RUNNING) {
            push_object(asked, &mut text.running);
            _ = write!(text.running, ",\"phase\":\"respond\",\"age\":{}}}", now.saturating_sub(asked.began));
        }
        let is_sending = |entry: &&Entry| entry.micros.is_none();
        for entry in entries.iter().filter(is_sending).take(MAX_RUNNING) {
            push_object(&entry.asked, &mut text.running);
            let age = now.saturating_sub(entry.asked.began);
            _ = write!(
                text.running,
                ",\"phase\":\"send\",\"age\":{age},\"status\":{}}}",
                entry.status.code()
            );
        }
        text
    }
}

impl Recent {
    /// Lines for `taipan top`: requests that run, and the last ones, but at most so many of each. The fields are: what it waits for or
    /// why it has ended, microseconds, time, client, method, host, target, status and bytes.
    pub fn lines(&self, most: u64) -> String {
        let (next, now) = (self.next.get(), clock::micros());
        let mut out = String::new();
        let age = |asked: &Asked| now.saturating_sub(asked.began);
        for (_, asked) in self.running.borrow().iter().take(MAX_RUNNING) {
            push_line(&mut out, "running", "respond", asked, age(asked), None);
        }
        let entries = self.entries.borrow();
        for entry in entries.iter().filter(|entry| entry.micros.is_none()).take(MAX_RUNNING) {
            push_line(&mut out, "running", "send", &entry.asked, age(&entry.asked), Some(entry));
        }
        let first = next.saturating_sub(most.min(self.capacity as u64));
        for entry in entries.iter().filter(|entry| entry.number >= first) {
            let note = entry.ended.as_deref().or(entry.upstream.as_deref()).unwrap_or_default();
            let micros = entry.micros.unwrap_or_else(|| age(&entry.asked));
            push_line(&mut out, "last", note, &entry.asked, micros, Some(entry));
        }
        out
    }
}

/// `entry`: `None`, if there is no response yet.
fn push_line(out: &mut String, kind: &str, note: &str, asked: &Asked, micros: u64, entry: Option<&Entry>) {
    let (method, host) = (asked.method.text(), asked.host.text());
    let (client, target) = (client_text(asked), without_values(&asked.target.text()));
    let (status, sent) = entry.map_or((0, 0), |entry| (entry.status.code(), entry.sent));
    live::push(out, &[&kind, &note, &micros, &asked.time, &client, &method, &host, &target, &status, &sent]);
}

fn client_text(asked: &Asked) -> String {
    match asked.client {
        Peer::Ip(address) => address.ip().to_string(),
        Peer::Unix => "unix".to_owned(),
        Peer::Unknown => "unknown".to_owned(),
    }
}

fn push_entry(entry: &Entry, now: u64, out: &mut String) {
    let Entry { asked, status, sent, micros, user, upstream, ended, .. } = entry;
    push_object(asked, out);
    let micros = micros.unwrap_or_else(|| now.saturating_sub(asked.began));
    _ = write!(out, ",\"status\":{},\"sent\":{sent},\"micros\":{micros}", status.code());
    for (key, value) in
        [("user", user.as_deref()), ("upstream", upstream.as_deref()), ("ended", ended.as_deref())]
    {
        if let Some(value) = value {
            _ = write!(out, ",\"{key}\":{}", json_string(value));
        }
    }
    out.push('}');
}

/// Without the brace at the end.
fn push_object(asked: &Asked, out: &mut String) {
    if !out.is_empty() {
        out.push(',');
    }
    _ = write!(
        out,
        "{{\"time\":{},\"client\":{},\"method\":{},\"host\":{},\"target\":{},\"version\":{}",
        asked.time,
        json_string(&client_text(asked)),
        json_string(&asked.method.text()),
        json_string(&asked.host.text()),
        json_string(&without_values(&asked.target.text())),
        json_string(asked.version),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(recent: &Recent, time: i64) -> u64 {
        let request = LoggedRequest {
            client: Peer::Unix,
            head: None,
            host: 0,
            time,
            began: clock::micros(),
            tls: None,
        };
        let (status, user) = (Status::OK, Some("ann"));
        let response = LoggedResponse {
            status,
            head: 10,
            length: Some(5),
            user,
            upstream: None,
            cache: None,
            trace: None,
            fields: None,
            watched: None,
        };
        recent.push(&request, &response)
    }

    #[test]
    fn keeps_the_last_requests() {
        let recent = Rc::new(Recent::new(3));
        for time in 0..5 {
            let number = push(&recent, time);
            recent.finish(number, 5, 7, (time == 4).then_some("a \"reason\""));
        }
        let text = recent.text(0, 100);
        assert_eq!((text.next, text.last.matches("\"client\":\"unix\"").count()), (5, 3));
        assert!(!text.last.contains("\"time\":1,") && text.last.contains("\"time\":2,"), "{}", text.last);
        assert!(text.last.ends_with(",\"user\":\"ann\",\"ended\":\"a \\\"reason\\\"\"}"), "{}", text.last);
        assert_eq!(recent.text(4, 100).last.matches("\"time\"").count(), 1);
        assert_eq!(recent.text(0, 2).last.matches("\"time\"").count(), 2);
        recent.finish(0, 9, 9, None);
        assert!(!recent.text(0, 100).last.contains("\"sent\":9"), "its place is another's");
    }

    #[test]
    fn a_request_runs_until_its_response_is_sent() {
        let recent = Rc::new(Recent::new(3));
        let number = push(&recent, 1);
        assert!(recent.text(0, 0).running.contains("\"phase\":\"send\""));
        recent.finish(number, 5, 7, None);
        assert_eq!(recent.text(0, 0).running, "");
        let request = LoggedRequest { client: Peer::Unix, head: None, host: 0, time: 1, began: 0, tls: None };
        let running = recent.run(&request);
        assert!(recent.text(0, 0).running.contains("\"phase\":\"respond\""));
        drop(running);
        assert_eq!(recent.text(0, 0).running, "");
    }

    #[test]
    fn nothing_is_kept_without_capacity() {
        let recent = Recent::new(0);
        let number = push(&recent, 1);
        recent.finish(number, 5, 7, None);
        assert_eq!((recent.text(0, 100).last, number), (String::new(), 0));
    }
}
