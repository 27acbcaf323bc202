//! Responses made of a stored one: the whole, 304, parts, and 416.

use cache::fields::only;
use cache::status::CacheStatus;
use site::model::Route;
use taipan_http::conditional::{self, Validators, Verdict};
use taipan_http::head::{Head, Method, Names};
use taipan_http::range::{self, ByteRange, Selection};
use taipan_http::status::Status;

use super::body::StoredBody;
use super::cached_response::{CachedResponse, dated, is_of_time};
use crate::content::{file, fixed};
use crate::response::{Body, FilePart, Response};
use crate::response_head::HeadWriter;
use crate::services::Services;

/// What makes a request ask for less than the whole response.
const SELECTING: Names = Names::CONDITIONAL.union(Names::RANGE);

/// A stored response that is sent to a client.
#[derive(Clone, Copy)]
pub struct Reuse<'a> {
    pub entry: &'a CachedResponse,
    pub services: &'a Services,
    /// `None`: it is of a URL of another server.
    pub route: Option<&'a Route>,
    /// What the cache did for the client.
    pub status: CacheStatus,
}

impl<'a> Reuse<'a> {
    /// The response to a request that selects the stored one.
    #[inline]
    pub fn respond(self, head: &Head<'_>) -> Response {
        if head.names.intersects(SELECTING) && self.entry.stored.status == Status::OK {
            return self.respond_in_part(head);
        }
        self.full()
    }

    /// The whole response.
    #[inline]
    pub fn full(self) -> Response {
        let body = match &self.entry.body {
            StoredBody::Bytes(_) => Body::Nothing,
            StoredBody::File { file, at, length } => {
                Body::File(FilePart { file: file.clone(), at: *at, left: *length })
            }
        };
        let head = self.entry.full_head(self.services, self.route, self.status);
        self.with_status(Response { body, ..Response::from_head(head) })
    }

    #[cold]
    fn respond_in_part(self, head: &Head<'_>) -> Response {
        let now = self.services.clock.now();
        if self.entry.is_unmodified_for(head, now) {
            return self.not_modified();
        }
        let wanted = head.only("range").filter(|_| head.method == Method::Get);
        let Some(wanted) = wanted.filter(|_| conditional::range_applies(head, &self.entry.validators(), now))
        else {
            return self.full();
        };
        match range::select(wanted, self.entry.body.length()) {
            Selection::Whole => self.full(),
            Selection::One(range) => self.range(range),
            Selection::Many(ranges) => self.ranges(&ranges),
            Selection::Unsatisfiable => self.unsatisfiable(),
        }
    }

    /// 304, with the fields that the 200 response has (RFC 9110 §15.4.5).
    pub fn not_modified(self) -> Response {
        let head = self.head(Status::NOT_MODIFIED, conditional::is_of_not_modified);
        self.with_status(Response::from_head(head.finish()))
    }

    /// 206 with the bytes of one range, as `content_range` says.
    pub fn part(self, content_range: &str, bytes: &[u8]) -> Response {
        let head = self.partial_head().field("Content-Range", content_range);
        self.with_status(Response::from_head(head.finish_whole(bytes)))
    }

    fn range(self, range: ByteRange) -> Response {
        let content_range = range::content_range(range, self.entry.body.length());
        let head = self.partial_head().field("Content-Range", content_range);
        self.with_status(self.entry.body.part(range).respond(head))
    }

    fn ranges(self, ranges: &[ByteRange]) -> Response {
        let CachedResponse { stored, body, .. } = self.entry;
        let content_type =
            only(&stored.fields, "content-type").and_then(|value| std::str::from_utf8(value).ok());
        let head = self.head(Status::PARTIAL_CONTENT, |name| {
            !is_of_time(name) && !name.eq_ignore_ascii_case("content-type")
        });
        let part = |range| body.part(range);
        let response = file::byteranges(self.services, head, content_type, body.length(), ranges, part);
        self.with_status(response)
    }

    fn unsatisfiable(self) -> Response {
        let fields = self.entry.last_fields(self.status, self.services.clock.now());
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let response = fixed::unsatisfiable(self.services, self.route, self.entry.body.length());
        self.with_status(response.with_fields(&fields))
    }

    fn partial_head(self) -> HeadWriter<'a> {
        self.head(Status::PARTIAL_CONTENT, |name| !is_of_time(name))
    }

    /// The head of a response with this status: the stored fields that pass, and what the cache adds.
    fn head(self, status: Status, passes: impl Fn(&str) -> bool) -> HeadWriter<'a> {
        let stored = &self.entry.stored;
        let mut head = dated(self.services, self.route, stored, status);
        for field in stored.fields.iter().filter(|field| passes(&field.name)) {
            head = head.field(&field.name, &field.value);
        }
        let last = self.entry.last_fields(self.status, self.services.clock.now());
        last.iter().fold(head, |head, (name, value)| head.field(name, value))
    }

    fn with_status(self, response: Response) -> Response {
        Response { cache: Some(self.status), ..response }
    }
}

impl CachedResponse {
    /// Whether the client has it. Without `Last-Modified`, the time of the response counts (RFC 9111 §4.3.2).
    pub fn is_unmodified_for(&self, head: &Head<'_>, now: i64) -> bool {
        let validators = self.validators();
        let modified = validators.modified.unwrap_or(self.stored.times.received);
        let current = Validators { modified: Some(modified), ..validators };
        self.stored.status == Status::OK
            && conditional::evaluate(head, Some(&current), now) == Verdict::NotModified
    }
}
