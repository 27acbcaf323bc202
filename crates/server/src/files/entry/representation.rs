//! The representations of one file: what its name says of them, and the heads of their full responses.

use std::io::{self, Read};
use std::rc::Rc;

use site::alternates::Label;
use site::decide::Representation;
use site::memory;
use site::mime;
use site::model::EtagFrom;
use taipan_http::digits::write_hex;
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;

use super::{Content, Damaged, Inflated, PreparedRepresentation, RoutedPath, file_at};
use crate::files::open::{OpenFile, Stamp};
use crate::gunzip::{Gunzip, Trailing};
use crate::response_head::{DatedHead, HeadWriter};

/// What the name of a file says.
pub(super) struct Description {
    pub(super) content_type: String,
    pub(super) content_language: Option<String>,
    /// The URL of an alternate, which is always the same one.
    pub(super) content_location: Option<String>,
    /// The fields of its metafile.
    pub(super) further: Vec<(String, Vec<u8>)>,
}

impl Description {
    /// `name` is that of the file that stands for `path`.
    pub(super) fn new(path: RoutedPath<'_>, name: &str, label: Label) -> Description {
        let files = &path.route.files;
        let content_language = files.alternates.language(label).map(str::to_owned);
        let Some((_, plain)) = files.alternates.parse(name) else {
            let content_type = files.types.lookup(name).to_owned();
            return Description {
                content_type,
                content_language,
                content_location: None,
                further: Vec::new(),
            };
        };
        let content_type = match files.alternates.charset(label) {
            Some(charset) => mime::with_charset(files.types.lookup(&plain), charset),
            None => files.types.lookup(&plain).to_owned(),
        };
        let rewritten = path.rewritten();
        let content_location =
            file_at(rewritten.as_ref().unwrap_or(path.path), name).map(|file| file.encoded());
        Description { content_type, content_language, content_location, further: Vec::new() }
    }

    /// With the type that the metafile says.
    pub(super) fn with_type(mut self) -> Description {
        let own =
            self.further("content-type").and_then(|value| std::str::from_utf8(value).ok()).map(str::to_owned);
        if let Some(own) = own {
            self.content_type = own;
        }
        self
    }

    /// The value of a field of the metafile.
    pub(super) fn further(&self, name: &str) -> Option<&[u8]> {
        self.further
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_slice())
    }

    /// A value that the metafile does not replace.
    fn own<'v>(&self, name: &str, value: Option<&'v str>) -> Option<&'v str> {
        value.filter(|_| self.further(name).is_none())
    }
}

/// The file of one or two representations.
pub(super) struct Source {
    pub(super) stamp: Stamp,
    pub(super) file: Option<Rc<OpenFile>>,
    pub(super) body: Option<Vec<u8>>,
}

/// What the representations of one file have in common.
pub(super) struct Shared<'a> {
    pub(super) path: RoutedPath<'a>,
    pub(super) described: &'a Description,
    pub(super) cache_control: Option<&'a str>,
    pub(super) vary: Option<String>,
    /// The value of `Use-As-Dictionary` (RFC 9842 §2.1).
    pub(super) dictionary: Option<String>,
}

impl Shared<'_> {
    /// The file as it is.
    pub(super) fn unchanged(
        &self,
        source: Source,
        coding: Coding,
    ) -> (Representation, PreparedRepresentation) {
        let representation = self.representation(&source, coding, Some(source.stamp.size), "");
        let limit = self.path.services.site.cache.file;
        let body = source.body.as_deref().filter(|body| body.len() as u64 <= limit);
        let content = match (body, source.file) {
            (None, Some(file)) => Content::File(file),
            _ => Content::Inline,
        };
        let prepared = self.finish(&representation, body.unwrap_or_default(), content);
        (representation, prepared)
    }

    /// The representation without coding of a file that exists only as gzip.
    pub(super) fn inflated(&self, gzip: &Source, path: String) -> (Representation, PreparedRepresentation) {
        let limit = memory::RESPONSE.max(self.path.services.site.cache.file);
        let inflated = gzip.body.as_ref().map_or(Ok(None), |body| inflate(body, limit));
        let (plain, content) = match (inflated, &gzip.file) {
            (Err(why), _) => (None, Content::Damaged(Rc::new(Damaged { path, why }))),
            (Ok(None), Some(file)) => {
                (None, Content::Inflated(Rc::new(Inflated { file: file.clone(), path })))
            }
            (Ok(plain), _) => (plain, Content::Inline),
        };
        let size = plain.as_ref().map(|body| body.len() as u64);
        let representation = self.representation(gzip, Coding::Identity, size, "-inflated");
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
        let by_stamp = stamp.makes_tag(&self.path.route.publishing);
        let etag = match (self.path.route.files.etag, &source.body) {
            (EtagFrom::Off, _) => None,
            (EtagFrom::Stat, _) if by_stamp => Some(stat_etag(stamp, suffix)),
            (_, Some(body)) => Some(content_etag(body, suffix).into_bytes()),
            (EtagFrom::Content, None) if by_stamp => Some(stat_etag(stamp, suffix)),
            (EtagFrom::Stat | EtagFrom::Content, None) => None,
        };
        Representation {
            coding,
            size,
            etag: etag.map(Vec::into_boxed_slice),
            modified: stamp.last_modified(),
        }
    }

    fn finish(
        &self,
        representation: &Representation,
        body: &[u8],
        content: Content,
    ) -> PreparedRepresentation {
        let Representation { coding, size, etag, modified } = representation;
        let Description { content_language, content_location, .. } = self.described;
        let (language, location) = (content_language.as_deref(), content_location.as_deref());
        let RoutedPath { services, route, .. } = self.path;
        let head = HeadWriter::new(services, Some(route), Status::OK)
            .field("Content-Type", &self.described.content_type)
            .optional("Content-Language", self.described.own("content-language", language))
            .optional("Content-Location", self.described.own("content-location", location))
            .optional("Last-Modified", modified.map(|t| services.past(t)).map(taipan_http::date::format))
            .optional("ETag", etag.as_deref())
            .optional("Cache-Control", self.cache_control)
            .optional("Content-Encoding", (*coding != Coding::Identity).then(|| coding.as_str()))
            .optional("Vary", self.vary.as_deref())
            .optional("Use-As-Dictionary", self.dictionary.as_deref());
        let is_applied =
            |name: &str| ["content-type", "cache-control"].iter().any(|a| a.eq_ignore_ascii_case(name));
        let further = self.described.further.iter().filter(|(name, _)| !is_applied(name));
        let head = further.fold(head, |head, (name, value)| head.field(name, value));
        let head = match *size {
            Some(size) => head.field("Accept-Ranges", "bytes").length(size),
            None => head,
        };
        let response = DatedHead::new(head.finish_with(body), &services.clock);
        PreparedRepresentation { response, content }
    }
}

/// `None`: it inflates to more than `limit` bytes. Errors: it is not gzip, or damaged.
fn inflate(gzip: &[u8], limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut plain = Vec::new();
    Gunzip::new(gzip, Trailing::Anything).take(limit + 1).read_to_end(&mut plain)?;
    Ok((plain.len() as u64 <= limit).then_some(plain))
}

/// The entity tag by the attributes of a file.
pub fn stat_etag(stamp: &Stamp, suffix: &str) -> Vec<u8> {
    let mut tag = Vec::with_capacity(64);
    tag.push(b'"');
    write_hex(stamp.inode, &mut tag);
    tag.push(b'-');
    write_hex(stamp.size, &mut tag);
    tag.push(b'-');
    // All of the nanoseconds from 1970 to 2554.
    write_hex(stamp.dated().unwrap_or(stamp.modified) as u64, &mut tag);
    tag.extend_from_slice(suffix.as_bytes());
    tag.push(b'"');
    tag
}

/// A hash of 128 bits, so that machines with the same files have the same entity tags.
fn content_etag(body: &[u8], suffix: &str) -> String {
    format!("\"{:032x}{suffix}\"", twox_hash::XxHash3_128::oneshot(body))
}
