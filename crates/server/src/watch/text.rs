//! Events as lines for people. Each line begins with the number of its request. Secrets are not shown, and no text of a
//! client changes the terminal.

use std::fmt::Write;

use site::access::{Facts, Tls};
use site::model::Site;
use site::needs::Needs;
use site::plan::plan;
use site::text;
use site::watch::is_secret;
use taipan_http::framing::Framing;
use taipan_http::head::{Field, Head, Names, Persistence};
use taipan_http::target::{SafePath, Scheme, Target};

use super::{Event, WatchedAttempt, WatchedEnd, WatchedRequest, WatchedResponse};
use crate::steps;

/// Bytes of a value that are shown.
const MAX_VALUE: usize = 512;

/// The lines of an event, each with its end. The steps are those of `site`.
pub fn lines(event: &Event, site: &Site) -> String {
    let mut lines = Lines { number: event.number(), text: String::new() };
    match event {
        Event::Request(_, request) => lines.request(request, site),
        Event::Response(_, response) => lines.response(response),
        Event::End(_, end) => lines.end(end),
        Event::Whole(_, request, response, end) => {
            lines.request(request, site);
            lines.response(response);
            lines.end(end);
        }
    }
    lines.text
}

impl Event {
    fn number(&self) -> u64 {
        match self {
            Event::Request(number, _)
            | Event::Response(number, _)
            | Event::End(number, _)
            | Event::Whole(number, ..) => *number,
        }
    }
}

struct Lines {
    number: u64,
    text: String,
}

impl Lines {
    fn add(&mut self, step: &str, what: &str) {
        let mut line = Vec::new();
        text::line(what, &mut line);
        let line = String::from_utf8_lossy(&line);
        _ = writeln!(self.text, "#{:<5} {step:<9} {line}", self.number);
    }

    /// Lines of `explain`, which have their step in front.
    fn add_steps(&mut self, steps: impl IntoIterator<Item = String>) {
        for step in steps {
            let (step, what) = step.split_at_checked(steps::WIDTH).unwrap_or(("", &step));
            self.add(step.trim_end(), &text::without_values(what));
        }
    }

    fn request(&mut self, request: &WatchedRequest, site: &Site) {
        let WatchedRequest { client, token, raw_target, version, .. } = request;
        let target = shown_target(raw_target);
        let time = text::rfc3339((request.time / 1_000_000) as i64);
        let (time, version) = (String::from_utf8_lossy(&time), version.as_str());
        self.add("request", &format!("{time} {client} {token} {target} {version}"));
        if let Some(tls) = &request.tls {
            self.add("", &format!("by {} with {}", tls.protocol, tls.cipher));
        }
        for (name, value) in &request.fields {
            self.field(">", name, value);
        }
        let fields: Vec<Field<'_>> =
            request.fields.iter().map(|(name, value)| Field { name, value }).collect();
        if let Some(head) = head(request, &fields) {
            self.steps(request, &head, site);
        }
    }

    /// What the site decides before it opens a file.
    fn steps(&mut self, request: &WatchedRequest, head: &Head<'_>, site: &Site) {
        self.add_steps(steps::host(site, request.host, head.authority));
        let Some(path) = head.target.path() else {
            return self.add("path", "none: this is about the server itself");
        };
        let path = match SafePath::parse(path) {
            Ok(path) => path,
            Err(error) => return self.add("path", &format!("rejected: {}", error.rule())),
        };
        let tls = match (&request.tls, request.scheme) {
            (Some(facts), Scheme::Https) => Tls::On {
                version: facts.protocol,
                subject: facts.client.as_ref().map(|client| client.subject.as_str()),
            },
            _ => Tls::Off,
        };
        let now = (request.time / 1_000_000) as i64;
        let (client, server) = (request.client.address(), request.server);
        let facts = Facts { head, method: head.token, client, server, tls, now };
        let host = site.hosts.at(request.host);
        if Needs::of(site).rules {
            self.add_steps(steps::access(host, &path, facts, request.client));
        }
        self.add_steps(steps::limits(site, host, &path, facts));
        let found = plan(host, path.clone(), head.target.query());
        self.add_steps([steps::route(site, head, found.route, &found.action)]);
        self.add_steps(steps::target(site, &found));
    }

    fn response(&mut self, response: &WatchedResponse) {
        let WatchedResponse { status, fields, user, cache } = response;
        if let Some(user) = user {
            self.add("user", user);
        }
        if let Some(cache) = cache {
            self.add("cache", cache);
        }
        self.add("response", &status.to_string());
        for (name, value) in fields {
            self.field("<", name.as_bytes(), value);
        }
    }

    fn end(&mut self, end: &WatchedEnd) {
        for sent in &end.attempts {
            self.add("upstream", &attempt(sent));
        }
        if let Some(rule) = end.rule {
            self.add("rejected", &rule.to_string());
        }
        let WatchedEnd { sent, micros, why, .. } = end;
        let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
        self.add("end", &format!("{sent} bytes in {}{why}", seconds(*micros)));
    }

    fn field(&mut self, direction: &str, name: &[u8], value: &[u8]) {
        let shown = String::from_utf8_lossy(name);
        let value = match is_secret(name) {
            true => format!("({} bytes, not shown)", value.len()),
            false => shown_value(value),
        };
        self.add("", &format!("{direction} {shown}: {value}"));
    }
}

fn attempt(attempt: &WatchedAttempt) -> String {
    let WatchedAttempt { address, status, connect, first_byte, total } = attempt;
    let mut text = match status {
        Some(status) => format!("{address}: {status}"),
        None => format!("{address}: no response"),
    };
    for (what, micros) in [("connected", connect), ("first byte", first_byte), ("ended", total)] {
        if let Some(micros) = micros {
            _ = write!(text, ", {what} after {}", seconds(*micros));
        }
    }
    text
}

fn seconds(micros: u64) -> String {
    let mut text = Vec::new();
    text::seconds(micros, &mut text);
    format!("{} s", String::from_utf8_lossy(&text))
}

/// Without the values of a query, which may be secrets.
fn shown_target(target: &str) -> String {
    cut(&text::without_values(target))
}

fn shown_value(value: &[u8]) -> String {
    let value = String::from_utf8_lossy(value);
    let is_url = value.starts_with(['/', '?', '#']) || value.contains("://");
    if !is_url {
        return cut(&value);
    }
    // Some logins pass tokens to the browser behind a `#` (RFC 6749 §4.2.2).
    match value.split_once('#') {
        Some((url, _)) => cut(&format!("{}#…", text::without_values(url))),
        None => cut(&text::without_values(&value)),
    }
}

fn cut(value: &str) -> String {
    match value.len() > MAX_VALUE {
        true => format!("{}… ({} bytes)", &value[..value.floor_char_boundary(MAX_VALUE)], value.len()),
        false => value.to_owned(),
    }
}

/// `None`: the target is that of no request.
fn head<'h>(request: &'h WatchedRequest, fields: &'h [Field<'h>]) -> Option<Head<'h>> {
    Some(Head {
        method: request.method,
        token: &request.token,
        raw_target: &request.raw_target,
        target: Target::parse(request.method, &request.raw_target).ok()?,
        scheme: request.scheme,
        is_early: false,
        version: request.version,
        fields,
        names: Names::of_fields(fields),
        authority: &request.authority,
        persistence: Persistence::KeepAlive,
        framing: Framing::None,
        expects_continue: false,
    })
}
