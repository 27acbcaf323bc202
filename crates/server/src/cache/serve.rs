//! Responses made of a stored one: the whole, 304, parts, and 416.

use cache::fields::only;
use cache::status::CacheStatus;
use site::model::Route;
use taipan_http::conditional::{self, Validators, Verdict};
use taipan_http::head::{Head, Method, Names};
use taipan_http::range::{self, ByteRange, Selection};
use taipan_http::status::Status;

use super::body::StoredBody;
use super::cached_response::{CachedResponse, dated, writer};
use crate::content::{file, fixed};
use crate::response::{FilePart, Part, Response};
use crate::response_head::HeadWriter;
use crate::services::Services;

/// What makes a request ask for less than the whole response.
const SELECTING: Names = Names::CONDITIONAL.union(Names::RANGE);

impl CachedResponse {
    /// The response to a request that selects this one. `route`: `None` for a URL of another server.
    #[inline]
    pub fn respond(
        &self,
        services: &Services,
        route: Option<&Route>,
        head: &Head<'_>,
        status: CacheStatus,
    ) -> Response {
        if head.names.intersects(SELECTING) && self.stored.status == Status::OK {
            return self.respond_in_part(services, route, head, status);
        }
        self.full(services, route, status)
    }

    #[cold]
    fn respond_in_part(
        &self,
        services: &Services,
        route: Option<&Route>,
        head: &Head<'_>,
        status: CacheStatus,
    ) -> Response {
        let now = services.clock.now();
        if self.is_unmodified_for(head, now) {
            return self.not_modified(services, route, status);
        }
        let wanted = head.only("range").filter(|_| head.method == Method::Get);
        let Some(wanted) = wanted.filter(|_| conditional::range_applies(head, &self.validators(), now))
        else {
            return self.full(services, route, status);
        };
        let size = self.body.length();
        let response = match range::select(wanted, size) {
            Selection::Whole => return self.full(services, route, status),
            Selection::One(range) => self.part_response(services, route, range, status),
            Selection::Many(ranges) => self.parts_response(services, route, &ranges, status),
            Selection::Unsatisfiable => {
                let fields = self.last_fields(status, now);
                let fields: Vec<(&str, &str)> =
                    fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
                fixed::unsatisfiable(services, route, size).with_fields(&fields)
            }
        };
        Response { cache: Some(status), ..response }
    }

    /// Whether the client has it. Without `Last-Modified`, the time of the response counts (RFC 9111 §4.3.2).
    pub fn is_unmodified_for(&self, head: &Head<'_>, now: i64) -> bool {
        let validators = self.validators();
        let modified = validators.modified.unwrap_or(self.stored.times.received);
        let current = Validators { modified: Some(modified), ..validators };
        self.stored.status == Status::OK
            && conditional::evaluate(head, Some(&current), now) == Verdict::NotModified
    }

    /// 304, with the fields that the 200 response has (RFC 9110 §15.4.5).
    pub fn not_modified(&self, services: &Services, route: Option<&Route>, status: CacheStatus) -> Response {
        let mut head = dated(services, route, &self.stored, Status::NOT_MODIFIED);
        for field in self.stored.fields.iter().filter(|field| is_of_not_modified(&field.name)) {
            head = head.field(&field.name, &field.value);
        }
        let head = self.with_last_fields(services, head, status);
        Response { cache: Some(status), ..Response::from_head(head.finish()) }
    }

    fn with_last_fields<'r>(
        &self,
        services: &Services,
        head: HeadWriter<'r>,
        status: CacheStatus,
    ) -> HeadWriter<'r> {
        let fields = self.last_fields(status, services.clock.now());
        fields.iter().fold(head, |head, (name, value)| head.field(name, value))
    }

    fn partial_head<'r>(
        &self,
        services: &Services,
        route: Option<&'r Route>,
        status: CacheStatus,
    ) -> HeadWriter<'r> {
        let partial = cache::stored::Stored { status: Status::PARTIAL_CONTENT, ..self.stored.clone() };
        self.with_last_fields(services, writer(services, route, &partial), status)
    }

    /// `bytes` are those of the range that `content_range` says.
    pub fn part_of(
        &self,
        services: &Services,
        route: Option<&Route>,
        status: CacheStatus,
        content_range: &str,
        bytes: &[u8],
    ) -> Response {
        let head = self.partial_head(services, route, status);
        let head = head.field("Content-Range", content_range).finish_whole(bytes);
        Response { cache: Some(status), ..Response::from_head(head) }
    }

    fn part_response(
        &self,
        services: &Services,
        route: Option<&Route>,
        range: ByteRange,
        status: CacheStatus,
    ) -> Response {
        let head = self
            .partial_head(services, route, status)
            .field("Content-Range", range::content_range(range, self.body.length()));
        self.part(range).respond(head)
    }

    fn parts_response(
        &self,
        services: &Services,
        route: Option<&Route>,
        ranges: &[ByteRange],
        status: CacheStatus,
    ) -> Response {
        let content_type =
            only(&self.stored.fields, "content-type").and_then(|value| std::str::from_utf8(value).ok());
        let mut partial = self.stored.clone();
        partial.status = Status::PARTIAL_CONTENT;
        partial.fields.retain(|field| !field.name.eq_ignore_ascii_case("content-type"));
        let head = self.with_last_fields(services, writer(services, route, &partial), status);
        let size = self.body.length();
        file::byteranges(services, head, content_type, size, ranges, |range| self.part(range))
    }

    fn part(&self, ByteRange { from, len }: ByteRange) -> Part {
        match &self.body {
            StoredBody::Bytes(bytes) => Part::Bytes(bytes[from as usize..(from + len) as usize].to_vec()),
            StoredBody::File { file, at, .. } => {
                Part::File(FilePart { file: file.clone(), at: at + from, left: len })
            }
        }
    }
}

/// Whether a 304 has this field of the 200 response.
pub fn is_of_not_modified(name: &str) -> bool {
    let other = [
        "content-length",
        "content-encoding",
        "content-type",
        "content-range",
        "content-md5",
        "age",
        "date",
        "trailer",
    ];
    !other.iter().any(|known| name.eq_ignore_ascii_case(known))
}
