//! Responses that are compressed while they are sent: large files, listings, and what scripts and applications make.
//! Memory is bounded: an encoder keeps a window and what its client has not received yet.
//!
//! Knows nothing of encoders' formats, nor of how a file's kept copies are made.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use site::compress::{CompressRules, forbids_transform};
use taipan_http::etag;
use taipan_http::fields::list;
use taipan_http::head::{Head, Method, Names};
use taipan_http::negotiate::{self, Coding};
use taipan_http::response::{Builder, ResponseHead};
use taipan_http::status::Status;

use crate::disk::{DevicePermit, Work};
use crate::encoder::{self, Effort, Encode};
use crate::files::beneath::Wait;
use crate::files::open;
use crate::log::EndReason;
use crate::response::{self, Body, BodyStream, FilePart, NextChunk, Response, Whole};
use crate::semaphore::Permit;
use crate::services::Services;
use crate::stats::Count;

/// Bytes that are encoded in one turn of the worker's loop, which takes less than a millisecond.
const SLICE: usize = 16 * 1024;
/// Bytes of a file that a helper thread encodes at once.
const FILE_SLICE: u64 = 256 * 1024;
/// From so many bytes on, what is encoded is sent. Less is sent when there is no more input for now.
const ENOUGH: usize = 16 * 1024;

/// Fields that describe the bytes before they are encoded, or what follows them.
const OTHER: [&str; 5] = ["date", "content-length", "accept-ranges", "etag", "trailer"];
/// A response with one of these is left alone: it is encoded, or a digest would not match (RFC 9530).
const FINAL: [&str; 6] =
    ["content-encoding", "content-range", "content-digest", "repr-digest", "digest", "content-md5"];

/// The response in the coding that the client prefers, if its content gains by that.
pub fn negotiated(
    services: &Services,
    rules: &CompressRules,
    head: &Head<'_>,
    response: Response,
) -> Response {
    if !may_vary(rules, &response) {
        return response;
    }
    let length = length(&response.head);
    let coding = if rules.is_enough(length) { chosen(rules, head) } else { Coding::Identity };
    match (coding, head.method) {
        (Coding::Identity, _) => varying(response),
        (_, Method::Head) if is_of_unknown_length(&response) => {
            varying(response.without("ETag").without("Accept-Ranges"))
        }
        (coding, method) => encoded(services, method, response, coding),
    }
}

/// Whether it is the response to HEAD of an upstream that has not said how much content there would be: what is too
/// small is not compressed. RFC 9110 §9.3.2 allows to leave out the fields that depend on it.
fn is_of_unknown_length(response: &Response) -> bool {
    matches!(response.body, Body::Nothing) && length(&response.head).is_none()
}

/// As `negotiated`, for the response of a script or an application, where the rules cover these.
pub fn of_upstream(
    services: &Services,
    rules: &CompressRules,
    head: &Head<'_>,
    response: Response,
) -> Response {
    match response.status() {
        _ if !rules.scripts => response,
        // The content of the whole, which is not known, may be one that gains.
        Status::NOT_MODIFIED if !rules.codings.is_empty() && !response.head.fields().any(forbids) => {
            without_whole(head, response)
        }
        Status::PARTIAL_CONTENT if whole_may_gain(rules, &response.head) => varying(response),
        _ => negotiated(services, rules, head, response),
    }
}

/// A 304, or a part, of a response whose content may be encoded, with the fields that both have in common (RFC 9110
/// §15.4.5): the tag is weak if that of the client is.
pub fn without_whole(head: &Head<'_>, response: Response) -> Response {
    let response = varying(response);
    let weak = response.head.value("etag").map(etag::weak).filter(|weak| {
        response.status() == Status::NOT_MODIFIED && list(head.values("if-none-match")).any(|tag| tag == weak)
    });
    match weak.map(String::from_utf8) {
        Some(Ok(weak)) => response.with_replaced("ETag", &weak),
        Some(Err(_)) | None => response,
    }
}

/// Whether content with these fields could be sent in another coding, if there is enough of it.
pub fn may_gain<'f>(rules: &CompressRules, fields: impl Iterator<Item = (&'f str, &'f [u8])>) -> bool {
    let mut gains = None;
    for (name, value) in fields {
        if forbids((name, value)) {
            return false;
        }
        if name.eq_ignore_ascii_case("content-type") {
            gains.get_or_insert_with(|| rules.cover(value));
        }
    }
    gains == Some(true)
}

/// Whether the content that this is a part of could be sent in another coding. Several parts do not say what they are
/// parts of.
fn whole_may_gain(rules: &CompressRules, part: &ResponseHead) -> bool {
    let mut fields = part.fields().filter(|(name, _)| !name.eq_ignore_ascii_case("content-range"));
    match part.has("content-range") {
        true => may_gain(rules, fields),
        false => !rules.codings.is_empty() && !fields.any(forbids),
    }
}

/// The coding that `negotiated` would use. `None`: it would leave the content as it is.
pub fn wanted(rules: &CompressRules, head: &Head<'_>, response: &Response) -> Option<Coding> {
    let gains = may_vary(rules, response) && rules.is_enough(length(&response.head));
    let coding = if gains { chosen(rules, head) } else { Coding::Identity };
    (coding != Coding::Identity).then_some(coding)
}

/// The coding for content that the server makes. `None`: content of this type is not compressed.
pub fn coding(rules: &CompressRules, head: &Head<'_>, content_type: &str) -> Option<Coding> {
    rules.cover(content_type.as_bytes()).then(|| chosen(rules, head))
}

fn chosen(rules: &CompressRules, head: &Head<'_>) -> Coding {
    // Of content that is compressed while it is sent, there are no parts.
    if head.method == Method::Get && head.names.contains(Names::RANGE) {
        return Coding::Identity;
    }
    let codings = rules.streamed.only(encoder::encodes);
    negotiate::choose(head.values("accept-encoding"), codings.as_slice())
}

/// The response to a request with `method` in `coding`, or as it is, if too many others are being encoded.
pub fn encoded(services: &Services, method: Method, response: Response, coding: Coding) -> Response {
    let plain = response.small_body().len();
    let is_small = matches!(response.body, Body::Nothing) && plain <= SLICE;
    if is_small && plain > 0 {
        let response = small(response, coding);
        let length = response.small_body().len();
        // The response to HEAD is sent without the content.
        if method != Method::Head {
            services.counts.add(Count::SavedSending, plain.saturating_sub(length) as u64);
        }
        return response;
    }
    let Some(permit) = services.encoders.take() else { return varying(response) };
    let head = rewritten(&response.head, coding).finish();
    let stream = |inner: Box<dyn BodyStream>, permit| -> Box<dyn BodyStream> {
        let (state, saved) = (State::New, 0);
        Box::new(CompressedStream { inner, coding, state, holds: false, saved, _permit: permit })
    };
    let body = match response.body {
        // The response to HEAD.
        Body::Nothing if plain == 0 => Body::Nothing,
        Body::Nothing => Body::Stream(stream(Box::new(Whole::new(response.head.body().to_vec())), permit)),
        Body::Stream(inner) | Body::Sized(inner, _) => Body::Stream(stream(inner, permit)),
        Body::File(part) => match services.disk.admit_stream(part.file.stamp.device) {
            Some(stream) => {
                let state = State::New;
                Body::Stream(Box::new(CompressedFile {
                    part,
                    coding,
                    state,
                    saved: 0,
                    _permit: permit,
                    _stream: stream,
                }))
            }
            None => return varying(Response { body: Body::File(part), ..response }),
        },
        Body::Parts(_) | Body::Tunnel(_) => return varying(response),
    };
    Response { end: head.bytes().len(), head: head.into(), start: 0, body, ..response }
}

/// A body behind its head, at once. Also one that gains nothing: the response to HEAD, which has the same fields, does
/// not know the content.
fn small(response: Response, coding: Coding) -> Response {
    match encoder::encode(coding, Effort::Quick, response.head.body()) {
        Ok(bytes) => {
            let head = rewritten(&response.head, coding).number("Content-Length", bytes.len() as u64);
            let head = head.finish_with(&bytes);
            Response { end: head.bytes().len(), head: head.into(), start: 0, body: Body::Nothing, ..response }
        }
        Err(_) => varying(response),
    }
}

/// Whether another response to the same request could be sent in another coding.
fn may_vary(rules: &CompressRules, response: &Response) -> bool {
    response.status() != Status::PARTIAL_CONTENT
        && response.status().allows_body()
        && may_gain(rules, response.head.fields())
}

fn length(head: &ResponseHead) -> Option<u64> {
    std::str::from_utf8(head.value("content-length")?).ok()?.parse().ok()
}

/// Whether a response with this field is left alone.
fn forbids((name, value): (&str, &[u8])) -> bool {
    FINAL.iter().any(|other| other.eq_ignore_ascii_case(name))
        || (name.eq_ignore_ascii_case("cache-control") && forbids_transform(value))
}

/// The response as it is, with `Vary`.
fn varying(response: Response) -> Response {
    if varies(&response.head) { response } else { response.with_fields(&[("Vary", "Accept-Encoding")]) }
}

/// The head, without the fields of its content.
fn rewritten(head: &ResponseHead, coding: Coding) -> Builder {
    let mut builder = Builder::new(head.status(), &head.date());
    for (name, value) in head.fields() {
        if name.eq_ignore_ascii_case("etag") {
            // The same bytes need not come again (RFC 9110 §8.8.1).
            builder = builder.field(name, etag::weak(value));
        } else if !OTHER.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            builder = builder.field(name, value);
        }
    }
    builder = builder.field("Content-Encoding", coding.as_str());
    if varies(head) { builder } else { builder.field("Vary", "Accept-Encoding") }
}

fn varies(head: &ResponseHead) -> bool {
    let values = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("vary")).map(|(_, value)| value);
    list(values).any(|member| member == b"*" || member.eq_ignore_ascii_case(b"accept-encoding"))
}

/// An encoder for one body.
enum State {
    /// It has no memory yet: the response may be one to HEAD.
    New,
    Running(Box<dyn Encode>),
    Ended,
}

impl State {
    /// `None`: the body has ended.
    fn take(&mut self, coding: Coding) -> io::Result<Option<Box<dyn Encode>>> {
        match std::mem::replace(self, State::Ended) {
            State::New => encoder::new(coding, Effort::Quick, None).map(Some),
            State::Running(encoder) => Ok(Some(encoder)),
            State::Ended => Ok(None),
        }
    }
}

/// The chunks of another stream, encoded.
struct CompressedStream {
    inner: Box<dyn BodyStream>,
    coding: Coding,
    state: State,
    /// Whether the encoder has bytes that the client should get if no others follow soon.
    holds: bool,
    /// Bytes that were read more than made.
    saved: i64,
    _permit: Permit,
}

impl CompressedStream {
    /// Errors: the inner body cannot be completed.
    async fn next_chunk(&mut self, services: &Services) -> io::Result<Option<Vec<u8>>> {
        let Some(mut encoder) = self.state.take(self.coding)? else { return Ok(None) };
        let mut out = Vec::new();
        while out.len() < ENOUGH {
            if self.holds && !self.inner.has_more() {
                self.holds = false;
                encoder.flush(&mut out)?;
                break;
            }
            let Some(chunk) = self.inner.next(services).await? else {
                encoder.finish(&mut out)?;
                self.saved -= out.len() as i64;
                services.counts.add(Count::SavedSending, self.saved.max(0) as u64);
                return Ok((!out.is_empty()).then_some(out));
            };
            self.saved += chunk.len() as i64;
            for (number, slice) in chunk.chunks(SLICE).enumerate() {
                if number > 0 {
                    tokio::task::yield_now().await;
                }
                encoder.write(slice, &mut out)?;
            }
            self.holds = true;
        }
        self.saved -= out.len() as i64;
        self.state = State::Running(encoder);
        Ok(Some(out))
    }
}

impl BodyStream for CompressedStream {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(self.next_chunk(services))
    }

    fn abort_reason(&self) -> EndReason {
        self.inner.abort_reason()
    }

    fn is_endless(&self) -> bool {
        self.inner.is_endless()
    }

    fn poll_request_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.poll_request_body(cx)
    }

    fn poll_read_ahead(&mut self, cx: &mut Context<'_>) {
        self.inner.poll_read_ahead(cx);
    }
}

/// A file, which helper threads read and encode.
struct CompressedFile {
    part: FilePart,
    coding: Coding,
    state: State,
    /// Bytes that were read more than made.
    saved: i64,
    _permit: Permit,
    _stream: DevicePermit,
}

impl CompressedFile {
    /// Errors: the file cannot be read, or has changed.
    async fn next_chunk(&mut self, services: &Services) -> io::Result<Option<Vec<u8>>> {
        while let Some(encoder) = self.state.take(self.coding)? {
            let FilePart { file, at, left } = &mut self.part;
            let (fd, from, length) = (file.fd.clone(), *at, (*left).min(FILE_SLICE));
            let is_last = length == *left;
            let work = move || -> io::Result<Slice> {
                let mut encoder = encoder;
                let mut out = encode_slice(&mut *encoder, &fd, from, length)?;
                if is_last {
                    encoder.finish(&mut out)?;
                    return Ok((None, out));
                }
                Ok((Some(encoder), out))
            };
            let done = services.disk.run(file.stamp.device, Work::File, work).await;
            let (encoder, out) = done.map_err(|_| io::Error::other("the disk is too slow"))??;
            (*at, *left) = (*at + length, *left - length);
            if is_last && !file.is_unchanged() {
                return Err(io::Error::other("the file has changed"));
            }
            self.saved += length as i64 - out.len() as i64;
            if is_last {
                services.counts.add(Count::SavedSending, self.saved.max(0) as u64);
            }
            self.state = encoder.map_or(State::Ended, State::Running);
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
        Ok(None)
    }
}

/// The encoder for the next slice, and what is encoded.
type Slice = (Option<Box<dyn Encode>>, Vec<u8>);

/// Errors: the file cannot be read, or is shorter.
fn encode_slice(encoder: &mut dyn Encode, fd: &OwnedFd, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let unreadable = || io::Error::other("the file cannot be read");
    let bytes = open::read(fd, at, length as usize, Wait::Allowed).map_err(|_| unreadable())?;
    let mut out = Vec::new();
    encoder.write(&bytes.ok_or_else(unreadable)?, &mut out)?;
    Ok(out)
}

impl BodyStream for CompressedFile {
    fn next<'a>(&'a mut self, services: &'a Services) -> NextChunk<'a> {
        Box::pin(self.next_chunk(services))
    }

    fn abort_reason(&self) -> EndReason {
        response::abort_reason(&self.part.file)
    }
}
