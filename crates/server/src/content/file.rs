//! Responses made of files: a whole file, parts of one, 304, and error pages.
//!
//! Knows nothing of paths, nor of the conditions of a request: `site::decide` has decided.

use std::collections::VecDeque;

use site::decide::{Resource, Selected};
use site::model::Route;
use taipan_http::range::{self, ByteRange};
use taipan_http::status::Status;

use super::fixed;
use super::inflate::Inflate;
use crate::files::{Content, Entry, PreparedRepresentation};
use crate::response::{Body, FilePart, Part, Response};
use crate::response_head::HeadWriter;
use crate::services::Services;

/// The whole representation.
#[inline]
pub fn full(services: &Services, entry: &Entry, chosen: usize) -> Response {
    let prepared = &entry.prepared[chosen];
    let body = match &prepared.content {
        Content::Inline => Body::Nothing,
        Content::File(file) => Body::File(FilePart { file: file.clone(), at: 0, left: file.stamp.size }),
        Content::Damaged(damaged) => {
            services.report_damaged(&damaged.path, &damaged.why);
            return fixed::status(services, None, Status::INTERNAL_SERVER_ERROR);
        }
        Content::Inflated(_) if services.sheds_cold() => {
            return fixed::status(services, None, Status::SERVICE_UNAVAILABLE);
        }
        Content::Inflated(gzip) => match services.disk.admit_stream(gzip.file.stamp.device) {
            Some(permit) => Body::Stream(Box::new(Inflate::new(gzip.clone(), permit))),
            None => return fixed::status(services, None, Status::SERVICE_UNAVAILABLE),
        },
    };
    Response { body, ..Response::from_head(prepared.response.get(&services.clock)) }
}

/// 304, with those fields of the 200 response that caches need (RFC 9110 §15.4.5).
pub fn not_modified(services: &Services, route: &Route, entry: &Entry, selected: Selected) -> Response {
    let kept = ["last-modified", "cache-control", "expires", "vary", "content-location"];
    let head = HeadWriter::new(services, Some(route), Status::NOT_MODIFIED);
    let is_kept = |name: &str| kept.iter().any(|k| k.eq_ignore_ascii_case(name));
    let head = match selected {
        Selected::Ready(chosen) => copy_fields(head, &entry.prepared[chosen], |name| {
            is_kept(name) || name.eq_ignore_ascii_case("etag")
        }),
        Selected::Unmade(tag) => copy_fields(head.optional("ETag", tag), &entry.prepared[0], is_kept),
    };
    Response::from_head(head.finish())
}

/// 206 with one range.
pub fn part(services: &Services, route: &Route, entry: &Entry, chosen: usize, range: ByteRange) -> Response {
    let prepared = &entry.prepared[chosen];
    let head = HeadWriter::new(services, Some(route), Status::PARTIAL_CONTENT);
    let head = copy_fields(head, prepared, describes_file)
        .field("Content-Range", range::content_range(range, entry.size(chosen)));
    prepared.part(range).respond(head)
}

/// 206 with several ranges.
pub fn parts(
    services: &Services,
    route: &Route,
    entry: &Entry,
    chosen: usize,
    ranges: &[ByteRange],
) -> Response {
    let prepared = &entry.prepared[chosen];
    let full = prepared.response.head();
    let content_type = full.value("content-type").and_then(|value| std::str::from_utf8(value).ok());
    let head = HeadWriter::new(services, Some(route), Status::PARTIAL_CONTENT);
    let head = copy_fields(head, prepared, |name| {
        describes_file(name) && !name.eq_ignore_ascii_case("content-type")
    });
    byteranges(services, head, content_type, entry.size(chosen), ranges, |range| prepared.part(range))
}

/// A response with several ranges of a content, as `multipart/byteranges` (RFC 9110 §15.3.7.2). `head` has its other
/// fields. `content_type` and `size` are those of the whole.
pub fn byteranges(
    services: &Services,
    head: HeadWriter<'_>,
    content_type: Option<&str>,
    size: u64,
    ranges: &[ByteRange],
    part: impl Fn(ByteRange) -> Part,
) -> Response {
    let boundary = services.boundary();
    let mut parts = VecDeque::with_capacity(2 * ranges.len() + 1);
    for &range in ranges {
        parts.push_back(Part::Bytes(range::part_head(&boundary, content_type, range, size).into_bytes()));
        parts.push_back(part(range));
    }
    parts.push_back(Part::Bytes(range::closing(&boundary).into_bytes()));
    let length = parts.iter().map(Part::length).sum();
    let head =
        head.field("Content-Type", format!("multipart/byteranges; boundary={boundary}")).length(length);
    Response { body: Body::Parts(parts), ..Response::from_head(head.finish()) }
}

/// The file as an error page. The built-in page, if the size of the representation is not known.
pub fn error_page(
    services: &Services,
    route: &Route,
    status: Status,
    entry: &Entry,
    chosen: usize,
) -> Response {
    let Some(size) = entry.known_size(chosen) else { return fixed::status(services, Some(route), status) };
    let prepared = &entry.prepared[chosen];
    let head = fixed::error_head(services, Some(route), status);
    let kept = ["content-type", "content-language", "content-encoding", "vary"];
    let head = copy_fields(head, prepared, |name| kept.iter().any(|k| k.eq_ignore_ascii_case(name)));
    prepared.part(ByteRange { from: 0, len: size }).respond(head)
}

impl PreparedRepresentation {
    fn part(&self, range: ByteRange) -> Part {
        match &self.content {
            Content::File(file) => {
                Part::File(FilePart { file: file.clone(), at: range.from, left: range.len })
            }
            // Those that are inflated while they are sent have no parts, because their length is not known.
            Content::Inline | Content::Inflated(_) | Content::Damaged(_) => {
                let end = range.from + range.len;
                Part::Bytes(self.response.head().body()[range.from as usize..end as usize].to_vec())
            }
        }
    }
}

impl Entry {
    /// Bytes of a representation. 0 if the size is unknown.
    pub fn size(&self, chosen: usize) -> u64 {
        self.known_size(chosen).unwrap_or(0)
    }

    /// By how many bytes a representation is smaller than the file. 0 if one of them is unknown.
    pub fn saved(&self, chosen: usize) -> u64 {
        self.size(0).saturating_sub(self.known_size(chosen).unwrap_or(u64::MAX))
    }

    fn known_size(&self, chosen: usize) -> Option<u64> {
        match &self.resource {
            Resource::File(representations, _) => representations[chosen].size,
            _ => None,
        }
    }
}

/// Adds those fields of the 200 response that `keep` selects.
fn copy_fields<'a>(
    mut head: HeadWriter<'a>,
    prepared: &PreparedRepresentation,
    keep: impl Fn(&str) -> bool,
) -> HeadWriter<'a> {
    for (name, value) in prepared.response.head().fields() {
        if keep(name) {
            head = head.copied(name, value);
        }
    }
    head
}

/// Whether a field of the 200 response belongs into 206, too.
fn describes_file(name: &str) -> bool {
    let other = ["date", "server", "content-length", "accept-ranges"];
    !other.iter().any(|o| o.eq_ignore_ascii_case(name))
}
