//! Files: preparing what a look found so that it can be sent at once, and sending as much of it as was
//! decided.

use std::collections::VecDeque;
use std::rc::Rc;

use http::negotiate::Coding;
use http::range::{self, ByteRange};
use http::status::Status;
use http::target::SafePath;
use site::decide::{Representation, Resource};
use site::model::{EtagFrom, Route};

use super::fixed;
use super::head::HeadWriter;
use super::inflate::Inflate;
use super::{Body, Dated, FilePart, OpenFile, Part, Reply, Source};
use crate::files::look::{Stamp, Variant};
use crate::files::{Content, Entry, Form};
use crate::worker::Worker;

/// Makes representations, and their full answers, of what was found. `path` is the request's.
pub fn prepare(
    worker: &Worker,
    host: usize,
    path: &SafePath<'_>,
    name: &str,
    variants: Vec<Variant>,
) -> Vec<(Representation, Form)> {
    let route = worker.route(host, path);
    let types = &route.files.types;
    // An encoded file asked for by its own name is what its name says, with no coding.
    let only_gzip = variants.first().is_some_and(|v| v.coding != Coding::Identity);
    let shared = Shared {
        worker,
        route,
        content_type: types.lookup(name),
        cache_control: worker.cache_control(host, path),
        varies: variants.len() > 1 || only_gzip,
    };
    let mut ready = Vec::with_capacity(variants.len() + 1);
    for Variant { stamp, coding, fd, body } in variants {
        let file = fd.map(|fd| Rc::new(OpenFile::new(fd, stamp, worker.disk.clone())));
        let found = Found { stamp, file, body };
        if only_gzip {
            ready.push(shared.inflated(&found));
        }
        ready.push(shared.form(found, coding));
    }
    ready
}

/// The whole representation.
#[inline]
pub fn full(worker: &Worker, entry: &Entry, chosen: usize) -> Reply {
    let form = &entry.forms[chosen];
    let block = form.answer.at(&worker.clock);
    let body = match &form.content {
        Content::InBlock => Body::Nothing,
        Content::File(file) => Body::File(FilePart { file: file.clone(), at: 0, left: file.stamp.size }),
        Content::Inflated(_) if worker.sheds_cold() => {
            return fixed::status(worker, None, Status::SERVICE_UNAVAILABLE);
        }
        Content::Inflated(file) => match worker.disk.stream(file.stamp.device) {
            Some(place) => Body::Stream(Source::Inflate(Box::new(Inflate::new(file.clone(), place)))),
            None => return fixed::status(worker, None, Status::SERVICE_UNAVAILABLE),
        },
    };
    Reply { body, ..Reply::block(block) }
}

/// 304, with the fields that a 200 would have had and that caches keep (RFC 9110 §15.4.5).
pub fn not_modified(worker: &Worker, route: &Route, entry: &Entry, chosen: usize) -> Reply {
    let kept = ["etag", "last-modified", "cache-control", "expires", "vary", "content-location"];
    let head = copy_fields(
        HeadWriter::new(worker, Some(route), Status::NOT_MODIFIED),
        &entry.forms[chosen],
        |name| kept.iter().any(|k| k.eq_ignore_ascii_case(name)),
    );
    Reply::block(head.finish())
}

/// 206 with one range.
pub fn part(worker: &Worker, route: &Route, entry: &Entry, chosen: usize, wanted: ByteRange) -> Reply {
    let form = &entry.forms[chosen];
    let size = entry.size(chosen);
    let head =
        copy_fields(HeadWriter::new(worker, Some(route), Status::PARTIAL_CONTENT), form, is_of_the_file);
    let head = head.field("Content-Range", range::content_range(wanted, size)).length(wanted.len);
    match form.part(wanted) {
        Part::Bytes(bytes) => Reply::block(head.finish_with(&bytes)),
        Part::File(file) => Reply { body: Body::File(file), ..Reply::block(head.finish()) },
    }
}

/// 206 with several ranges, as `multipart/byteranges` (RFC 9110 §15.3.7.2).
pub fn parts(worker: &Worker, route: &Route, entry: &Entry, chosen: usize, wanted: &[ByteRange]) -> Reply {
    let form = &entry.forms[chosen];
    let size = entry.size(chosen);
    let boundary = worker.boundary();
    let block = form.answer.block();
    let content_type = block.fields().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let content_type = content_type.and_then(|(_, value)| std::str::from_utf8(value).ok());
    let mut pieces = VecDeque::with_capacity(2 * wanted.len() + 1);
    for &one in wanted {
        pieces.push_back(Part::Bytes(range::part_head(&boundary, content_type, one, size).into_bytes()));
        pieces.push_back(form.part(one));
    }
    pieces.push_back(Part::Bytes(range::closing(&boundary).into_bytes()));
    let length = pieces.iter().map(Part::length).sum();
    let head = HeadWriter::new(worker, Some(route), Status::PARTIAL_CONTENT);
    let head =
        copy_fields(head, form, |name| is_of_the_file(name) && !name.eq_ignore_ascii_case("content-type"));
    let head =
        head.field("Content-Type", format!("multipart/byteranges; boundary={boundary}")).length(length);
    Reply { body: Body::Parts(pieces), ..Reply::block(head.finish()) }
}

/// The file as the page of an error: its content under another status.
pub fn as_page_of(worker: &Worker, route: &Route, status: Status, entry: &Entry, chosen: usize) -> Reply {
    let form = &entry.forms[chosen];
    let whole = ByteRange { from: 0, len: entry.size(chosen) };
    let head = HeadWriter::new(worker, Some(route), status);
    let head = match status {
        Status::METHOD_NOT_ALLOWED => head.field("Allow", site::decide::ALLOW),
        Status::SERVICE_UNAVAILABLE => head.field("Retry-After", "1"),
        _ => head,
    };
    let head = copy_fields(head, form, |name| name.eq_ignore_ascii_case("content-type")).length(whole.len);
    match form.part(whole) {
        Part::Bytes(bytes) => Reply::block(head.finish_with(&bytes)),
        Part::File(file) => Reply { body: Body::File(file), ..Reply::block(head.finish()) },
    }
}

/// One of the files that were found.
struct Found {
    stamp: Stamp,
    file: Option<Rc<OpenFile>>,
    body: Option<Vec<u8>>,
}

/// What the representations of one file have in common.
struct Shared<'a> {
    worker: &'a Worker,
    route: &'a Route,
    content_type: &'a str,
    cache_control: Option<&'a str>,
    varies: bool,
}

impl Shared<'_> {
    fn form(&self, found: Found, coding: Coding) -> (Representation, Form) {
        let representation = self.representation(&found, coding, Some(found.stamp.size), "");
        let content = match (&found.body, found.file) {
            (None, Some(file)) => Content::File(file),
            _ => Content::InBlock,
        };
        let form = self.finish(&representation, found.body.as_deref().unwrap_or_default(), content);
        (representation, form)
    }

    /// The plain form of a file of which only the gzip form is there.
    fn inflated(&self, gzip: &Found) -> (Representation, Form) {
        let limit = self.worker.site.cache.file;
        let plain = gzip.body.as_ref().and_then(|body| super::inflate::small(body, limit));
        let size = plain.as_ref().map(|body| body.len() as u64);
        let representation = self.representation(gzip, Coding::Identity, size, "-inflated");
        let content = match (&plain, &gzip.file) {
            (None, Some(file)) => Content::Inflated(file.clone()),
            _ => Content::InBlock,
        };
        let form = self.finish(&representation, &plain.unwrap_or_default(), content);
        (representation, form)
    }

    fn representation(&self, found: &Found, coding: Coding, size: Option<u64>, mark: &str) -> Representation {
        let stamp = &found.stamp;
        let etag = match (self.route.files.etag, &found.body) {
            (EtagFrom::Off, _) => None,
            (EtagFrom::Content, Some(body)) => Some(content_etag(body, mark)),
            (EtagFrom::Stat | EtagFrom::Content, _) => {
                Some(format!("\"{:x}-{:x}-{:x}{mark}\"", stamp.inode, stamp.size, stamp.modified))
            }
        };
        Representation {
            coding,
            size,
            etag: etag.map(|e| e.into_bytes().into_boxed_slice()),
            modified: Some(stamp.modified_seconds()),
        }
    }

    fn finish(&self, of: &Representation, body: &[u8], content: Content) -> Form {
        let head = HeadWriter::new(self.worker, Some(self.route), Status::OK)
            .field("Content-Type", self.content_type)
            .optional("Last-Modified", of.modified.map(|t| self.worker.past(t)).map(http::date::format))
            .optional("ETag", of.etag.as_deref())
            .optional("Cache-Control", self.cache_control)
            .optional("Content-Encoding", (of.coding != Coding::Identity).then(|| of.coding.as_str()))
            .optional("Vary", self.varies.then_some("Accept-Encoding"));
        let head = match of.size {
            Some(size) => head.field("Accept-Ranges", "bytes").length(size),
            None => head,
        };
        Form { answer: Dated::new(head.finish_with(body), &self.worker.clock), content }
    }
}

impl Form {
    fn part(&self, wanted: ByteRange) -> Part {
        match &self.content {
            Content::File(file) | Content::Inflated(file) => {
                Part::File(FilePart { file: file.clone(), at: wanted.from, left: wanted.len })
            }
            Content::InBlock => {
                let block = self.answer.block();
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
    for (name, value) in form.answer.block().fields() {
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

/// 128 bits over the content, the same on every machine.
fn content_etag(body: &[u8], mark: &str) -> String {
    format!("\"{:032x}{mark}\"", twox_hash::XxHash3_128::oneshot(body))
}
