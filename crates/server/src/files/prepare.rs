//! Preparing what a look found so that it can be sent at once: its representations, and the heads of their full
//! responses.

use std::io::Read;
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use site::decide::Representation;
use site::memory;
use site::model::{EtagFrom, Route};
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::look::{Stamp, Variant};
use super::open::OpenFile;
use super::{Content, Form};
use crate::response_head::{DatedHead, HeadWriter};
use crate::services::Services;

/// Makes representations, and their full answers, of what was found. `path` is the request's.
pub fn prepare(
    services: &Services,
    host: usize,
    path: &SafePath<'_>,
    name: &str,
    variants: Vec<Variant>,
) -> Vec<(Representation, Form)> {
    let route = services.route(host, path);
    let types = &route.files.types;
    // An encoded file asked for by its own name is what its name says, with no coding.
    let only_gzip = variants.first().is_some_and(|v| v.coding != Coding::Identity);
    let shared = Shared {
        services,
        route,
        content_type: types.lookup(name),
        cache_control: services.cache_control(host, path),
        varies: variants.len() > 1 || only_gzip,
    };
    let mut ready = Vec::with_capacity(variants.len() + 1);
    for Variant { stamp, coding, fd, body } in variants {
        let file = fd.map(|fd| Rc::new(OpenFile::new(fd, stamp, services.disk.clone())));
        let found = Found { stamp, file, body };
        if only_gzip {
            ready.push(shared.inflated(&found));
        }
        ready.push(shared.form(found, coding));
    }
    ready
}

/// One of the files that were found.
struct Found {
    stamp: Stamp,
    file: Option<Rc<OpenFile>>,
    body: Option<Vec<u8>>,
}

/// What the representations of one file have in common.
struct Shared<'a> {
    services: &'a Services,
    route: &'a Route,
    content_type: &'a str,
    cache_control: Option<&'a str>,
    varies: bool,
}

impl Shared<'_> {
    fn form(&self, found: Found, coding: Coding) -> (Representation, Form) {
        let representation = self.representation(&found, coding, Some(found.stamp.size), "");
        let limit = self.services.site.cache.file;
        let kept = found.body.as_deref().filter(|body| body.len() as u64 <= limit);
        let content = match (kept, found.file) {
            (None, Some(file)) => Content::File(file),
            _ => Content::InBlock,
        };
        let form = self.finish(&representation, kept.unwrap_or_default(), content);
        (representation, form)
    }

    /// The plain form of a file of which only the gzip form is there.
    fn inflated(&self, gzip: &Found) -> (Representation, Form) {
        let limit = memory::RESPONSE.max(self.services.site.cache.file);
        let plain = gzip.body.as_ref().and_then(|body| small(body, limit));
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
        let head = HeadWriter::new(self.services, Some(self.route), Status::OK)
            .field("Content-Type", self.content_type)
            .optional(
                "Last-Modified",
                of.modified.map(|t| self.services.past(t)).map(taipan_http::date::format),
            )
            .optional("ETag", of.etag.as_deref())
            .optional("Cache-Control", self.cache_control)
            .optional("Content-Encoding", (of.coding != Coding::Identity).then(|| of.coding.as_str()))
            .optional("Vary", self.varies.then_some("Accept-Encoding"));
        let head = match of.size {
            Some(size) => head.field("Accept-Ranges", "bytes").length(size),
            None => head,
        };
        Form { answer: DatedHead::new(head.finish_with(body), &self.services.clock), content }
    }
}

/// All of a small gzip file, if it inflates to at most `limit` bytes.
pub fn small(gzip: &[u8], limit: u64) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(gzip).take(limit + 1).read_to_end(&mut plain);
    (read.is_ok() && plain.len() as u64 <= limit).then_some(plain)
}

/// 128 bits over the content, the same on every machine.
fn content_etag(body: &[u8], mark: &str) -> String {
    format!("\"{:032x}{mark}\"", twox_hash::XxHash3_128::oneshot(body))
}
