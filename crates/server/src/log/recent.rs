//! The last requests of a worker, and those that run now: who has requested what, and how it has ended. The memory is
//! fixed. Fields of requests are not kept, and of a query only its names are shown.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::rc::Rc;

use site::disconnect::ConnectionId;
use site::text::{json_string, without_values};
use slab::Slab;
use taipan_http::status::Status;

use super::access::{LoggedRequest, LoggedResponse};
use crate::clock;
use crate::peer::Peer;
use crate::stats::{RecentText, live};

/// The number of an entry that was no request.
const FORGOTTEN: u64 = u64::MAX;
/// The longest texts that are kept.
const METHOD: usize = 12;
const HOST: usize = 48;
const TARGET: usize = 96;
/// The most requests of one worker that are shown as running.
const MAX_RUNNING: usize = 50;
/// The most responses that are shown while they are sent, beyond the last requests.
const MAX_OUTLASTING: usize = 1000;

/// The start of a text, in place.
#[derive(Clone, Copy)]
struct Short<const N: usize> {
    bytes: [u8; N],
    length: u8,
    is_cut: bool,
}

impl<const N: usize> Short<N> {
    const EMPTY: Short<N> = Short { bytes: [0; N], length: 0, is_cut: false };

    #[inline]
    fn set(&mut self, text: &[u8]) {
        let length = text.len().min(N);
        self.bytes[..length].copy_from_slice(&text[..length]);
        (self.length, self.is_cut) = (length as u8, text.len() > N);
    }

    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes[..self.length as usize]);
        if self.is_cut { format!("{text}…") } else { text.into_owned() }
    }
}

/// A request.
#[derive(Clone)]
struct RecentRequest {
    client: Peer,
    /// `None`: not known.
    connection: Option<ConnectionId>,
    /// Seconds since 1970.
    time: i64,
    /// Of `clock::micros`.
    began: u64,
    method: Short<METHOD>,
    host: Short<HOST>,
    target: Short<TARGET>,
    version: &'static str,
}

impl RecentRequest {
    const NONE: RecentRequest = RecentRequest {
        client: Peer::Unknown,
        connection: None,
        time: 0,
        began: 0,
        method: Short::EMPTY,
        host: Short::EMPTY,
        target: Short::EMPTY,
        version: "",
    };

    /// Takes the place of the request that this has been: in place, as a request is large.
    #[inline]
    fn set(&mut self, request: &LoggedRequest<'_>) {
        let (method, host, target, version) = match request.head {
            Some(head) => {
                (head.token.as_bytes(), head.authority, head.raw_target.as_bytes(), head.version.as_str())
            }
            None => (&[][..], &[][..], &[][..], ""),
        };
        (self.client, self.connection) = (request.client, request.connection);
        (self.time, self.began, self.version) = (request.time, request.began, version);
        self.method.set(method);
        self.host.set(host);
        self.target.set(target);
    }
}

/// A request with its response.
struct Entry {
    request: RecentRequest,
    number: u64,
    status: Status,
    /// Bytes of the content, as far as they are sent.
    sent: u64,
    /// `None`: it is being sent.
    end: Option<End>,
    user: Option<Box<str>>,
    upstream: Option<Rc<str>>,
    /// Why it has ended early.
    ended: Option<Box<str>>,
}

/// The end of a response.
#[derive(Clone, Copy)]
struct End {
    /// What the request took.
    micros: u64,
    /// How many requests had ended before.
    order: u64,
}

impl Entry {
    const NONE: Entry = Entry {
        request: RecentRequest::NONE,
        number: FORGOTTEN,
        status: Status::OK,
        sent: 0,
        end: None,
        user: None,
        upstream: None,
        ended: None,
    };
}

pub struct Recent {
    entries: RefCell<Vec<Entry>>,
    /// Entries that are kept.
    capacity: usize,
    /// The number of the next entry.
    next: Cell<u64>,
    /// How many requests have ended.
    ended: Cell<u64>,
    running: RefCell<RunningRequests>,
    /// Entries whose places later ones have taken, and whose responses are still being sent.
    outlasting: RefCell<HashMap<u64, Entry>>,
}

/// The requests that run. Each has a key, and is in the place of that number.
#[derive(Default)]
struct RunningRequests {
    keys: Slab<()>,
    places: Vec<RecentRequest>,
}

impl RunningRequests {
    fn insert(&mut self, request: &LoggedRequest<'_>) -> usize {
        let key = self.keys.insert(());
        if key >= self.places.len() {
            self.places.resize_with(key + 1, || RecentRequest::NONE);
        }
        self.places[key].set(request);
        key
    }

    fn iter(&self) -> impl Iterator<Item = &RecentRequest> {
        self.keys.iter().map(|(key, ())| &self.places[key])
    }
}

/// A request that runs, until this is dropped.
pub struct Running {
    recent: Rc<Recent>,
    key: usize,
}

impl Running {
    /// The request came by this connection.
    pub fn connect(&self, connection: Option<ConnectionId>) {
        self.recent.running.borrow_mut().places[self.key].connection = connection;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.recent.running.borrow_mut().keys.try_remove(self.key);
    }
}

impl Recent {
    /// A list of the last `capacity` requests.
    pub fn new(capacity: usize) -> Recent {
        Recent {
            entries: RefCell::new(Vec::with_capacity(capacity)),
            capacity,
            next: Cell::new(0),
            ended: Cell::new(0),
            running: RefCell::default(),
            outlasting: RefCell::default(),
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
        let entries = &mut *self.entries.borrow_mut();
        let at = (number % self.capacity as u64) as usize;
        match entries.get_mut(at) {
            None => entries.push(Entry::NONE),
            Some(entry) if entry.end.is_none() => self.outlast(std::mem::replace(entry, Entry::NONE)),
            Some(_) => {}
        }
        let entry = &mut entries[at];
        entry.request.set(request);
        (entry.number, entry.status, entry.sent, entry.end) = (number, response.status, 0, None);
        entry.user = response.user.map(Box::from);
        entry.upstream = response
            .endpoint
            .cloned()
            .or_else(|| response.upstream?.with(|attempts| Some(attempts.last()?.address.clone())));
        entry.ended = None;
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
        match entry.filter(|entry| entry.number == number) {
            Some(entry) => {
                let order = self.ended.get();
                self.ended.set(order + 1);
                (entry.sent, entry.end) = (sent, Some(End { micros, order }));
                if let Some(why) = ended {
                    entry.ended = Some(why.into());
                }
            }
            None => _ = self.outlasting.borrow_mut().remove(&number),
        }
    }

    /// Keeps an entry whose response is still being sent.
    #[cold]
    fn outlast(&self, entry: Entry) {
        let mut outlasting = self.outlasting.borrow_mut();
        if outlasting.len() < MAX_OUTLASTING && entry.number != FORGOTTEN {
            outlasting.insert(entry.number, entry);
        }
    }

    /// The request came by this connection.
    pub fn connect(&self, number: u64, connection: Option<ConnectionId>) {
        self.with_entry(number, |entry| entry.request.connection = connection);
    }

    /// The entry was no request after all, and is not shown.
    pub fn forget(&self, number: u64) {
        self.with_entry(number, |entry| entry.number = FORGOTTEN);
    }

    fn with_entry(&self, number: u64, change: impl FnOnce(&mut Entry)) {
        if self.capacity > 0 {
            let entries = &mut *self.entries.borrow_mut();
            let entry = entries.get_mut((number % self.capacity as u64) as usize);
            entry.filter(|entry| entry.number == number).map(change);
        }
    }

    pub fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// A response is being made for this request.
    pub fn run(self: &Rc<Recent>, request: &LoggedRequest<'_>) -> Running {
        Running { recent: self.clone(), key: self.running.borrow_mut().insert(request) }
    }

    /// The requests that have ended, from the end with the number `from` on, but at most the last `most` of them. A
    /// request that takes long is among them when it has ended, and among those that run until then.
    pub fn text(&self, from: u64, most: u64) -> RecentText {
        let (next, now) = (self.ended.get(), clock::micros());
        let mut text = RecentText { next, ..RecentText::default() };
        let entries = self.entries.borrow();
        for (entry, end) in ended(&entries, from.max(next.saturating_sub(most))) {
            push_entry(entry, end.micros, &mut text.last);
        }
        self.for_each_running(&entries, |request, entry| {
            push_object(request, &mut text.running);
            let age = now.saturating_sub(request.began);
            _ = match entry {
                None => write!(text.running, ",\"phase\":\"respond\",\"age\":{age}}}"),
                Some(Entry { status, .. }) => {
                    write!(text.running, ",\"phase\":\"send\",\"age\":{age},\"status\":{}}}", status.code())
                }
            };
        });
        text
    }

    /// Calls `show` for the oldest requests that run. Those whose response is being sent have an entry.
    fn for_each_running(&self, entries: &[Entry], mut show: impl FnMut(&RecentRequest, Option<&Entry>)) {
        let running = self.running.borrow();
        let outlasting = self.outlasting.borrow();
        let is_sending = |entry: &&Entry| entry.end.is_none() && entry.number != FORGOTTEN;
        let sending = entries.iter().chain(outlasting.values()).filter(is_sending);
        let mut all: Vec<(&RecentRequest, Option<&Entry>)> = running
            .iter()
            .map(|request| (request, None))
            .chain(sending.map(|entry| (&entry.request, Some(entry))))
            .collect();
        sort::by_key(&mut all, |(request, _)| request.began);
        all.into_iter().take(MAX_RUNNING).for_each(|(request, entry)| show(request, entry));
    }

    /// Lines for `taipan top`: requests that run, and the last ones, but at most so many, the newest first. The fields
    /// are: what it waits for or why it has ended, microseconds, time, client, method, host, target, status, bytes and
    /// connection.
    pub fn lines(&self, most: u64) -> String {
        let now = clock::micros();
        let mut out = String::new();
        let age = |request: &RecentRequest| now.saturating_sub(request.began);
        let entries = self.entries.borrow();
        self.for_each_running(&entries, |request, entry| {
            let phase = if entry.is_some() { "send" } else { "respond" };
            out.push_str(&line("running", phase, request, age(request), entry));
        });
        for (entry, end) in ended(&entries, self.ended.get().saturating_sub(most)).into_iter().rev() {
            let note = entry.ended.as_deref().or(entry.upstream.as_deref()).unwrap_or_default();
            out.push_str(&line("last", note, &entry.request, end.micros, Some(entry)));
        }
        out
    }
}

/// The requests that have ended, from the end with the number `first` on. The oldest is the first.
fn ended(entries: &[Entry], first: u64) -> Vec<(&Entry, End)> {
    let mut ended: Vec<(&Entry, End)> = entries
        .iter()
        .filter_map(|entry| Some((entry, entry.end?)))
        .filter(|(entry, end)| end.order >= first && entry.number != FORGOTTEN)
        .collect();
    sort::by_key(&mut ended, |(_, end)| end.order);
    ended
}

/// `entry`: `None`, if there is no response yet.
fn line(kind: &str, note: &str, request: &RecentRequest, micros: u64, entry: Option<&Entry>) -> String {
    let (method, host) = (request.method.text(), request.host.text());
    let (client, target) = (client_text(request), without_values(&request.target.text()));
    let (status, sent) = entry.map_or((0, 0), |entry| (entry.status.code(), entry.sent));
    let id = id_text(request);
    let fields: [&dyn Display; 11] =
        [&kind, &note, &micros, &request.time, &client, &method, &host, &target, &status, &sent, &id];
    let mut out = String::new();
    live::push(&mut out, &fields);
    out
}

/// Empty: it is not known.
fn id_text(request: &RecentRequest) -> String {
    request.connection.map_or_else(String::new, |id| id.to_string())
}

fn client_text(request: &RecentRequest) -> String {
    match request.client {
        Peer::Ip(address) => address.ip().to_string(),
        Peer::Unix => "unix".to_owned(),
        Peer::Unknown => "unknown".to_owned(),
    }
}

fn push_entry(entry: &Entry, micros: u64, out: &mut String) {
    let Entry { request, status, sent, user, upstream, ended, .. } = entry;
    push_object(request, out);
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
fn push_object(request: &RecentRequest, out: &mut String) {
    if !out.is_empty() {
        out.push(',');
    }
    _ = write!(
        out,
        "{{\"time\":{},\"connection\":\"{}\",\"client\":{},\"method\":{},\"host\":{},\"target\":{},\"version\":{}",
        request.time,
        id_text(request),
        json_string(&client_text(request)),
        json_string(&request.method.text()),
        json_string(&request.host.text()),
        json_string(&without_values(&request.target.text())),
        json_string(request.version),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::DestinationId;

    fn push(recent: &Recent, time: i64) -> u64 {
        let request = LoggedRequest {
            client: Peer::Unix,
            connection: ConnectionId::new(0x1a),
            head: None,
            host: 0,
            destination: DestinationId::default(),
            time,
            began: clock::micros(),
            tls: None,
        };
        let user = Some("ann");
        let response = LoggedResponse { head: 10, length: Some(5), user, ..LoggedResponse::of(Status::OK) };
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
        let lines = recent.lines(2);
        let times: Vec<&str> = lines.lines().filter_map(|line| line.split('\t').nth(3)).collect();
        assert_eq!(times, ["4", "3"], "the newest first");
        recent.finish(0, 9, 9, None);
        assert!(!recent.text(0, 100).last.contains("\"sent\":9"), "its place is another's");
    }

    #[test]
    fn a_request_is_among_the_last_once_and_when_it_has_ended() {
        let recent = Rc::new(Recent::new(5));
        let (long, short) = (push(&recent, 1), push(&recent, 2));
        recent.finish(short, 5, 7, None);
        let text = recent.text(0, 100);
        assert!(text.last.contains("\"time\":2,") && !text.last.contains("\"time\":1,"), "{}", text.last);
        assert_eq!(recent.text(text.next, 100).last, "");
        recent.finish(long, 999, 7_000_000, None);
        let text = recent.text(text.next, 100);
        assert_eq!(text.last.matches("\"time\"").count(), 1, "{}", text.last);
        assert!(text.last.contains("\"sent\":999,\"micros\":7000000"), "{}", text.last);
        assert_eq!(recent.lines(1).lines().count(), 1, "{}", recent.lines(1));
    }

    #[test]
    fn a_request_runs_until_its_response_is_sent() {
        let recent = Rc::new(Recent::new(3));
        let number = push(&recent, 1);
        assert!(recent.text(0, 0).running.contains("\"phase\":\"send\""));
        recent.finish(number, 5, 7, None);
        assert_eq!(recent.text(0, 0).running, "");
        let began = 0;
        let request = LoggedRequest {
            client: Peer::Unix,
            connection: None,
            head: None,
            host: 0,
            destination: DestinationId::default(),
            time: 1,
            began,
            tls: None,
        };
        let running = recent.run(&request);
        assert!(recent.text(0, 0).running.contains("\"phase\":\"respond\""));
        running.connect(ConnectionId::new(0x2b));
        assert!(recent.text(0, 0).running.contains("\"connection\":\"2b\""));
        drop(running);
        assert_eq!(recent.text(0, 0).running, "");
    }

    #[test]
    fn a_response_is_shown_for_as_long_as_it_is_sent() {
        let recent = Rc::new(Recent::new(2));
        let long = push(&recent, 1);
        for time in 2..10 {
            let number = push(&recent, time);
            recent.finish(number, 5, 7, None);
        }
        let text = recent.text(0, 100);
        assert!(text.running.contains("\"time\":1,\"connection\":\"1a\""), "{}", text.running);
        assert!(!text.last.contains("\"time\":1,"), "{}", text.last);
        assert!(
            recent.lines(5).lines().any(|line| line.starts_with("running\tsend\t") && line.ends_with("\t1a"))
        );
        recent.finish(long, 5, 7, None);
        assert_eq!((recent.text(0, 100).running, recent.outlasting.borrow().len()), (String::new(), 0));
        let number = push(&recent, 10);
        recent.forget(number);
        assert_eq!(recent.text(0, 100).running, "");
        (11..15).for_each(|time| _ = push(&recent, time));
        assert_eq!(recent.outlasting.borrow().len(), 2, "what was no request is not kept");
        for time in 0..3000 {
            push(&recent, time);
        }
        assert_eq!(recent.outlasting.borrow().len(), MAX_OUTLASTING);
    }

    #[test]
    fn nothing_is_kept_without_capacity() {
        let recent = Recent::new(0);
        let number = push(&recent, 1);
        recent.finish(number, 5, 7, None);
        assert_eq!((recent.text(0, 100).last, number), (String::new(), 0));
    }
}
