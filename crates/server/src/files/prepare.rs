//! Prepares the result of a lookup: the representations of a file, and the heads of their full responses.

use std::io::Read;
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use site::decide::Representation;
use site::memory;
use site::model::{EtagFrom, Route};
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::lookup::Variant;
use super::open::{OpenFile, Stamp};
use super::{Content, PreparedRepresentation};
use crate::response_head::{DatedHead, HeadWriter};
use crate::services::Services;

/// `path` is the path of the request.
pub fn prepare(
    services: &Services,
    host: usize,
    path: &SafePath<'_>,
    name: &str,
    variants: Vec<Variant>,
) -> Vec<(Representation, PreparedRepresentation)> {
    let route = services.route(host, path);
    let types = &route.files.types;
    let is_gzip_only = variants.first().is_some_and(|first| first.coding != Coding::Identity);
    let shared = Shared {
        services,
        route,
        content_type: types.lookup(name),
        cache_control: services.cache_control(host, path),
        varies: variants.len() > 1 || is_gzip_only,
    };
    let mut prepared = Vec::with_capacity(variants.len() + 1);
    for Variant { stamp, coding, fd, body } in variants {
        let file = fd.map(|fd| Rc::new(OpenFile::new(fd, stamp, services.disk.clone())));
        let source = Source { stamp, file, body };
        if is_gzip_only {
            prepared.push(shared.inflated(&source));
        }
        prepared.push(shared.unchanged(source, coding));
    }
    prepared
}

/// The file of one or two representations.
struct Source {
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
    /// The file as it is.
    fn unchanged(&self, source: Source, coding: Coding) -> (Representation, PreparedRepresentation) {
        let representation = self.representation(&source, coding, Some(source.stamp.size), "");
        let limit = self.services.site.cache.file;
        let body = source.body.as_deref().filter(|body| body.len() as u64 <= limit);
        let content = match (body, source.file) {
            (None, Some(file)) => Content::File(file),
            _ => Content::Inline,
        };
        let prepared = self.finish(&representation, body.unwrap_or_default(), content);
        (representation, prepared)
    }

    /// The representation without coding of a file that exists only as gzip.
    fn inflated(&self, gzip: &Source) -> (Representation, PreparedRepresentation) {
        let limit = memory::RESPONSE.max(self.services.site.cache.file);
        let plain = gzip.body.as_ref().and_then(|body| inflate(body, limit));
        let size = plain.as_ref().map(|body| body.len() as u64);
        let representation = self.representation(gzip, Coding::Identity, size, "-inflated");
        let content = match (&plain, &gzip.file) {
            (None, Some(file)) => Content::Inflated(file.clone()),
            _ => Content::Inline,
        };
        let prepared = self.finish(&representation, &plain.unwrap_or_default(), content);
        (representation, prepared)
    }

    /// `suffix` ends the entity tag.
    fn representation(
        &self,
        source: &Source,
        coding: Coding,
        size: Option<u64>,
        suffix: &str,
    ) -> Representation {
        let stamp = &source.stamp;
        let etag = match (self.route.files.etag, &source.body) {
            (EtagFrom::Off, _) => None,
            (EtagFrom::Content, Some(body)) => Some(content_etag(body, suffix)),
            (EtagFrom::Stat | EtagFrom::Content, _) => {
                Some(format!("\"{:x}-{:x}-{:x}{suffix}\"", stamp.inode, stamp.size, stamp.modified))
            }
        };
        Representation {
            coding,
            size,
            etag: etag.map(|e| e.into_bytes().into_boxed_slice()),
            modified: Some(stamp.modified_seconds()),
        }
    }

    fn finish(
        &self,
        representation: &Representation,
        body: &[u8],
        content: Content,
    ) -> PreparedRepresentation {
        let Representation { coding, size, etag, modified } = representation;
        let head = HeadWriter::new(self.services, Some(self.route), Status::OK)
            .field("Content-Type", self.content_type)
            .optional("Last-Modified", modified.map(|t| self.services.past(t)).map(taipan_http::date::format))
            .optional("ETag", etag.as_deref())
            .optional("Cache-Control", self.cache_control)
            .optional("Content-Encoding", (*coding != Coding::Identity).then(|| coding.as_str()))
            .optional("Vary", self.varies.then_some("Accept-Encoding"));
        let head = match *size {
            Some(size) => head.field("Accept-Ranges", "bytes").length(size),
            None => head,
        };
        let response = DatedHead::new(head.finish_with(body), &self.services.clock);
        PreparedRepresentation { response, content }
    }
}

/// `None`: it inflates to more than `limit` bytes, or is not gzip.
fn inflate(gzip: &[u8], limit: u64) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(gzip).take(limit + 1).read_to_end(&mut plain);
    (read.is_ok() && plain.len() as u64 <= limit).then_some(plain)
}

/// A hash of 128 bits, so that machines with the same files have the same entity tags.
fn content_etag(body: &[u8], suffix: &str) -> String {
    format!("\"{:032x}{suffix}\"", twox_hash::XxHash3_128::oneshot(body))
}
