//! Files: preparing what a look found so that it can be sent at once, and sending as much of it as was
//! decided.

use std::collections::VecDeque;

use site::decide::Resource;
use site::model::Route;
use taipan_http::negotiate::Coding;
use taipan_http::range::{self, ByteRange};
use taipan_http::status::Status;

use super::fixed;
use super::inflate::Inflate;
use crate::files::{Content, Entry, Form};
use crate::response::{Body, FilePart, Part, Response};
use crate::response_head::HeadWriter;
use crate::services::Services;

/// The whole representation.
#[inline]
pub fn full(services: &Services, entry: &Entry, chosen: usize) -> Response {
    let form = &entry.forms[chosen];
    let block = form.answer.get(&services.clock);
    let body = match &form.content {
        Content::InBlock => Body::Nothing,
        Content::File(file) => Body::File(FilePart { file: file.clone(), at: 0, left: file.stamp.size }),
        Content::Inflated(_) if services.sheds_cold() => {
            return fixed::status(services, None, Status::SERVICE_UNAVAILABLE);
        }
        Content::Inflated(file) => match services.disk.stream(file.stamp.device) {
            Some(place) => Body::Stream(Box::new(Inflate::new(file.clone(), place))),
            None => return fixed::status(services, None, Status::SERVICE_UNAVAILABLE),
        },
    };
    Response { body, ..Response::from_head(block) }
}

/// 304, with the fields that a 200 would have had and that caches keep (RFC 9110 §15.4.5).
pub fn not_modified(services: &Services, route: &Route, entry: &Entry, chosen: usize) -> Response {
    let kept = ["etag", "last-modified", "cache-control", "expires", "vary", "content-location"];
    let head = copy_fields(
        HeadWriter::new(services, Some(route), Status::NOT_MODIFIED),
        &entry.forms[chosen],
        |name| kept.iter().any(|k| k.eq_ignore_ascii_case(name)),
    );
    Response::from_head(head.finish())
}

/// 206 with one range.
pub fn part(services: &Services, route: &Route, entry: &Entry, chosen: usize, wanted: ByteRange) -> Response {
    let form = &entry.forms[chosen];
    let size = entry.size(chosen);
    let head =
        copy_fields(HeadWriter::new(services, Some(route), Status::PARTIAL_CONTENT), form, is_of_the_file);
    let head = head.field("Content-Range", range::content_range(wanted, size)).length(wanted.len);
    match form.part(wanted) {
        Part::Bytes(bytes) => Response::from_head(head.finish_with(&bytes)),
        Part::File(file) => Response { body: Body::File(file), ..Response::from_head(head.finish()) },
    }
}

/// 206 with several ranges, as `multipart/byteranges` (RFC 9110 §15.3.7.2).
pub fn parts(
    services: &Services,
    route: &Route,
    entry: &Entry,
    chosen: usize,
    wanted: &[ByteRange],
) -> Response {
    let form = &entry.forms[chosen];
    let size = entry.size(chosen);
    let boundary = services.boundary();
    let block = form.answer.head();
    let content_type = block.fields().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let content_type = content_type.and_then(|(_, value)| std::str::from_utf8(value).ok());
    let mut pieces = VecDeque::with_capacity(2 * wanted.len() + 1);
    for &one in wanted {
        pieces.push_back(Part::Bytes(range::part_head(&boundary, content_type, one, size).into_bytes()));
        pieces.push_back(form.part(one));
    }
    pieces.push_back(Part::Bytes(range::closing(&boundary).into_bytes()));
    let length = pieces.iter().map(Part::length).sum();
    let head = HeadWriter::new(services, Some(route), Status::PARTIAL_CONTENT);
    let head =
        copy_fields(head, form, |name| is_of_the_file(name) && !name.eq_ignore_ascii_case("content-type"));
    let head =
        head.field("Content-Type", format!("multipart/byteranges; boundary={boundary}")).length(length);
    Response { body: Body::Parts(pieces), ..Response::from_head(head.finish()) }
}

/// The file as the page of an error: its content under another status.
pub fn error_page(
    services: &Services,
    route: &Route,
    status: Status,
    entry: &Entry,
    chosen: usize,
) -> Response {
    let form = &entry.forms[chosen];
    let whole = ByteRange { from: 0, len: entry.size(chosen) };
    let head = HeadWriter::new(services, Some(route), status);
    let head = match status {
        Status::METHOD_NOT_ALLOWED => head.field("Allow", site::decide::ALLOW),
        Status::SERVICE_UNAVAILABLE => head.field("Retry-After", "1"),
        _ => head,
    };
    let head = copy_fields(head, form, |name| name.eq_ignore_ascii_case("content-type")).length(whole.len);
    match form.part(whole) {
        Part::Bytes(bytes) => Response::from_head(head.finish_with(&bytes)),
        Part::File(file) => Response { body: Body::File(file), ..Response::from_head(head.finish()) },
    }
}

impl Form {
    fn part(&self, wanted: ByteRange) -> Part {
        match &self.content {
            Content::File(file) | Content::Inflated(file) => {
                Part::File(FilePart { file: file.clone(), at: wanted.from, left: wanted.len })
            }
            Content::InBlock => {
                let block = self.answer.head();
                let end = wanted.from + wanted.len;
                Part::Bytes(block.body()[wanted.from as usize..end as usize].to_vec())
            }
        }
    }
}

impl Entry {
    /// Bytes of a representation; 0 where they are not known.
    pub fn size(&self, chosen: usize) -> u64 {
        match &self.resource {
            Resource::File(forms) => forms[chosen].size.unwrap_or(0),
            _ => 0,
        }
    }

    /// The representation without coding, of known size.
    pub fn plain(&self) -> Option<usize> {
        match &self.resource {
            Resource::File(forms) => {
                forms.iter().position(|f| f.coding == Coding::Identity && f.size.is_some())
            }
            _ => None,
        }
    }
}

/// The fields of the full answer that `keep` names.
fn copy_fields<'a>(mut head: HeadWriter<'a>, form: &Form, keep: impl Fn(&str) -> bool) -> HeadWriter<'a> {
    for (name, value) in form.answer.head().fields() {
        if keep(name) {
            head = head.field(name, value);
        }
    }
    head
}

fn is_of_the_file(name: &str) -> bool {
    let other = ["date", "server", "content-length", "accept-ranges"];
    !other.iter().any(|o| o.eq_ignore_ascii_case(name))
}
