//! A request that a script answers: its body is the script's, and what the script leads to becomes the
//! answer, or is asked in its place.

use std::net::SocketAddr;

use http::fields::is_name;
use http::head::{FieldStore, Method};
use http::status::Status;

use super::body::{Progress, Rest};
use super::{Body, Held, Http1, Made, parse_held};
use crate::exchange::{Led, Trust};
use crate::log;
use crate::serve::cgi::order::Order;
use crate::serve::cgi::{Ends, Outcome, Run};
use crate::worker::Worker;

/// How often scripts may lead elsewhere, one after the other (RFC 3875 leaves the number to the server).
const MAX_LED: usize = 10;

/// What a script's request has for a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    None,
    Sized(u64),
    /// Its length is known when it is through.
    Chunked,
}

/// Does the client wait to be told before it sends its body?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    Sends,
    Waits,
}

impl Http1 {
    /// What the request at hand, which a script answers, has for a body.
    pub fn content(&self) -> Content {
        match self.held.as_ref().map(|held| &held.body) {
            Some(Body::Wanted(Rest::Chunked { .. })) => Content::Chunked,
            Some(Body::Wanted(Rest::Sized(bytes))) => Content::Sized(*bytes),
            _ => Content::None,
        }
    }

    /// From now on it is the caller who takes a body of known length from `rest`, and counts what is left.
    pub fn pass_body(&mut self) {
        if let Some(Held { body, .. }) = &mut self.held
            && let Body::Wanted(Rest::Sized(bytes)) = body
        {
            self.left = *bytes;
            *body = Body::Passed;
        }
    }

    /// Moves what has come of a chunked body to `out`. Errors: the status of the answer to one that is
    /// malformed or too large; the rule is in `broken`.
    pub fn take_chunks(&mut self, out: &mut Vec<u8>) -> Result<Progress, Status> {
        let Some(Held { body: body @ Body::Wanted(_), limit, .. }) = &mut self.held else {
            return Ok(Progress::Through);
        };
        let Body::Wanted(rest) = body else { return Ok(Progress::Through) };
        let taken = rest.take(&self.rest, *limit, |data| out.extend_from_slice(data));
        let (used, progress) = taken.map_err(|(status, rule)| {
            self.broken = Some(rule);
            status
        })?;
        self.rest.drain(..used);
        if matches!(progress, Progress::Through) {
            *body = Body::Passed;
        }
        Ok(progress)
    }

    /// Does the client of the request at hand wait for leave to send its body? If so, that is given.
    pub fn sender(&self, worker: &Worker) -> Sender {
        let mut store = FieldStore::new();
        let head = self.held.as_ref().and_then(|held| parse_held(worker, self.peer, &held.head, &mut store));
        match head {
            // What has begun to come needs no leave.
            Some(head) if head.expects_continue && self.rest.is_empty() => Sender::Waits,
            _ => Sender::Sends,
        }
    }

    /// What a script is to be told of the request at hand.
    pub fn order(
        &self,
        worker: &Worker,
        run: &Run,
        local: Option<SocketAddr>,
        body: Option<u64>,
    ) -> Result<Order, Status> {
        let bytes = match (&self.made, &self.held) {
            (Some(Made::Led(Led::Elsewhere(head))), _) => head,
            (_, Some(held)) => &held.head,
            _ => return Err(Status::INTERNAL_SERVER_ERROR),
        };
        let mut store = FieldStore::new();
        let head = parse_held(worker, self.peer, bytes, &mut store).ok_or(Status::INTERNAL_SERVER_ERROR)?;
        let ends = Ends { client: self.client, via: self.via, local };
        run.order(worker, &head, ends, body, &self.known.variables)
    }

    /// Notes what a script has led to.
    pub fn lead(&mut self, worker: &Worker, run: &Run, outcome: Outcome) {
        let rule = self.broken;
        let failed = |status| Made::Led(Led::Failed { host: run.host, route: run.route, status, rule });
        // What was looked up was for what has led here.
        self.known.fetched.clear();
        self.made = Some(match outcome {
            // Whatever was to be answered is.
            Outcome::Allowed(id, variables) => {
                self.known.passed.push(id);
                for (name, value) in variables {
                    // What cannot be set, or is already, is left out.
                    _ = self.known.variables.add(&name, &value);
                }
                return;
            }
            Outcome::Reply(reply) => Made::Reply(reply, Trust::Kept),
            Outcome::Failed(status) | Outcome::Unanswered(status, _) | Outcome::Crowded(status, _) => {
                failed(status)
            }
            Outcome::Elsewhere(target) => match self.elsewhere(worker, &target) {
                Some(head) => Made::Led(Led::Elsewhere(head)),
                None => {
                    let (path, target) = (run.name(), target.escape_default());
                    log::error(format_args!("{path}: leads to {target}, and too often, or to no path"));
                    failed(Status::BAD_GATEWAY)
                }
            },
            Outcome::Sendfile(file) => Made::Led(Led::Sendfile(run.host, run.route, file)),
        });
    }

    /// The head of the request for another target that is answered in place of the one at hand. `None`:
    /// scripts have led elsewhere too often, or to nothing that can be asked.
    fn elsewhere(&mut self, worker: &Worker, target: &str) -> Option<Vec<u8>> {
        let peer = self.peer;
        let held = self.held.as_mut().filter(|held| held.led < MAX_LED)?;
        held.led += 1;
        let mut store = FieldStore::new();
        let head = parse_held(worker, peer, &held.head, &mut store)?;
        let method = if head.method == Method::Head { "HEAD" } else { "GET" };
        let mut other = format!("{method} {target} {}\r\n", head.version.as_str()).into_bytes();
        for field in head.fields {
            let of_the_body = ["content-length", "content-type", "transfer-encoding", "expect"];
            if !of_the_body.iter().any(|name| is_name(field.name, name)) {
                for part in [field.name, b": ", field.value, b"\r\n"] {
                    other.extend_from_slice(part);
                }
            }
        }
        other.extend_from_slice(b"\r\n");
        let is_head = parse_held(worker, peer, &other, &mut FieldStore::new()).is_some();
        is_head.then_some(other)
    }
}
