//! The entries of the cache: what a lookup has found, prepared so that it can be sent. A file has representations, each
//! with the head of its full response.

use std::cell::Cell;
use std::io::Read;
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use site::compress::{Codings, Kept, forbids_transform};
use site::decide::{Offer, Representation, Resource};
use site::memory;
use site::model::{EtagFrom, HeaderRule, Route};
use taipan_http::digits::write_hex;
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::HostKey;
use super::beneath::OpenError;
use super::deltas::Deltas;
use super::lookup::{Lookup, Variant};
use super::open::{OpenFile, Stamp};
use super::{Cached, Files, is_shortage};
use crate::encoder;
use crate::response_head::{DatedHead, HeadWriter};
use crate::services::Services;

/// What is at a path, ready to be sent.
pub struct Entry {
    pub resource: Resource,
    /// One for each representation of `resource`.
    pub prepared: Vec<PreparedRepresentation>,
    pub(super) stamps: Vec<Stamp>,
    /// The second of the last comparison with the disk.
    pub(super) checked_at: Cell<i64>,
    /// The codings that are being made.
    pub(super) making: Rc<Cell<Codings>>,
    /// `None`: the file is no dictionary for other files.
    pub deltas: Option<Rc<Deltas>>,
    pub(super) origin: Origin,
}

/// The files that stand for a path.
#[derive(Debug, Clone, Default)]
pub(super) struct Origin {
    /// The name of the index file. `None`: the path is that of the file itself.
    index: Option<Box<str>>,
    /// The codings of the precompressed files.
    precompressed: Vec<Coding>,
    /// Only a gzip file exists.
    is_gzip_only: bool,
}

#[derive(Clone)]
pub struct PreparedRepresentation {
    /// The head of the full response, followed by a small body.
    pub response: DatedHead,
    pub content: Content,
}

/// Where the body of a representation is.
#[derive(Clone)]
pub enum Content {
    /// Behind the head.
    Inline,
    File(Rc<OpenFile>),
    /// In a gzip file that is inflated while it is sent.
    Inflated(Rc<OpenFile>),
}

impl Files {
    /// Updates the cache by the result of a lookup. Errors: the status of the response.
    pub(super) fn update(
        &self,
        host: HostKey,
        path: &SafePath<'_>,
        cached: Option<Rc<Entry>>,
        result: Result<Option<Lookup>, OpenError>,
        now: i64,
    ) -> Result<Rc<Entry>, Status> {
        match (result, cached) {
            (Ok(Some(lookup)), _) => {
                let entry = Rc::new(Entry::new(&self.services, host, path, lookup, now));
                let (bytes, descriptors) = entry.cost();
                let cached = Cached::Entry(entry.clone());
                self.table.borrow_mut().insert(host, path.as_str(), cached, bytes, descriptors);
                Ok(entry)
            }
            (Ok(None), Some(entry)) => {
                entry.checked_at.set(now);
                Ok(entry)
            }
            // Sending the old entry needs neither a descriptor nor memory.
            (Err(OpenError::Local(errno)), Some(entry)) if is_shortage(errno) => {
                entry.checked_at.set(now);
                Ok(entry)
            }
            (Err(OpenError::Local(errno)), _) => Err(self.report_errno(path.as_str(), errno)),
            (Ok(None) | Err(_), _) => Err(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

impl Entry {
    fn new(services: &Services, host: HostKey, path: &SafePath<'_>, lookup: Lookup, now: i64) -> Entry {
        match lookup {
            Lookup::Missing => Entry::without_content(Resource::Missing, Vec::new(), now),
            Lookup::Denied => Entry::without_content(Resource::Denied, Vec::new(), now),
            Lookup::Folder(stamp) => Entry::without_content(Resource::Folder, vec![stamp], now),
            Lookup::File { name, variants, .. } => {
                let stamps = variants.iter().map(|variant| variant.stamp).collect();
                let codings = variants.iter().map(|variant| variant.coding);
                let origin = Origin {
                    index: path.is_folder().then(|| name.as_str().into()),
                    precompressed: codings.clone().filter(|coding| *coding != Coding::Identity).collect(),
                    is_gzip_only: codings.clone().next().is_some_and(|first| first != Coding::Identity),
                };
                let Prepared { all, offer, deltas } = prepare(services, host, path, &name, variants);
                let (representations, prepared) = all.into_iter().unzip();
                let resource = Resource::File(representations, offer);
                let checked_at = Cell::new(now);
                Entry { resource, prepared, stamps, checked_at, making: Rc::default(), deltas, origin }
            }
        }
    }

    fn without_content(resource: Resource, stamps: Vec<Stamp>, now: i64) -> Entry {
        let (prepared, checked_at) = (Vec::new(), Cell::new(now));
        let (making, origin) = (Rc::default(), Origin::default());
        Entry { resource, prepared, stamps, checked_at, making, deltas: None, origin }
    }

    /// The path of the file that stands for `path`: that of an index file, or of a precompressed file, whose
    /// representation is `chosen`. `None`: it is `path` itself.
    pub fn path_of_file(&self, path: &SafePath<'_>, chosen: Option<usize>) -> Option<SafePath<'static>> {
        let Origin { index, precompressed, is_gzip_only } = &self.origin;
        let index = index.as_ref().and_then(|name| path.join(name));
        let coding = match (&self.resource, chosen) {
            _ if *is_gzip_only => Some(Coding::Gzip),
            (Resource::File(representations, _), Some(chosen)) => {
                let chosen = representations.get(chosen).map(|representation| representation.coding);
                chosen.filter(|coding| precompressed.contains(coding))
            }
            _ => None,
        };
        match (index, coding) {
            (index, None) => index,
            (None, Some(coding)) => path.with_suffix(coding.extension()),
            (Some(index), Some(coding)) => index.with_suffix(coding.extension()),
        }
    }

    /// The next request compares it with the disk.
    pub(super) fn expire(&self) {
        // Not fresh: it is later than any second of the clock.
        self.checked_at.set(i64::MAX);
    }

    /// `None`: it is not a folder.
    pub fn folder_stamp(&self) -> Option<Stamp> {
        matches!(self.resource, Resource::Folder).then(|| self.stamps.first().copied()).flatten()
    }

    /// Its bytes and its descriptors.
    pub(super) fn cost(&self) -> (usize, usize) {
        let size = |one: &PreparedRepresentation| {
            let memory = if let Content::File(file) = &one.content { file.memory() } else { 0 };
            one.response.head().bytes().len() + size_of_val(one) + memory
        };
        let bytes = self.prepared.iter().map(size).sum::<usize>();
        let descriptors = self.prepared.iter().filter(|one| !matches!(one.content, Content::Inline)).count();
        let deltas = self.deltas.as_ref().map_or((0, 0), |deltas| deltas.cost());
        (bytes + size_of::<Entry>() + deltas.0, descriptors + deltas.1)
    }
}

/// The representations of a file.
struct Prepared {
    all: Vec<(Representation, PreparedRepresentation)>,
    offer: Offer,
    deltas: Option<Rc<Deltas>>,
}

/// `path` is the path of the request.
fn prepare(
    services: &Services,
    host: HostKey,
    path: &SafePath<'_>,
    name: &str,
    variants: Vec<Variant>,
) -> Prepared {
    let route = services.route(host.host(), path);
    let types = &route.files.types;
    let is_gzip_only = variants.first().is_some_and(|first| first.coding != Coding::Identity);
    let (content_type, cache_control) = (types.lookup(name), services.cache_control(host.host(), path));
    let offer = match &variants[..] {
        [plain] if plain.coding == Coding::Identity && !forbids(route, cache_control) => {
            offer(services, route, content_type, plain.stamp.size)
        }
        _ => Offer::Nothing,
    };
    let is_dictionary = matches!(offer, Offer::Kept(_)) && encoder::encodes(Coding::Dcz);
    let dictionary = route.files.dictionary.as_ref().filter(|_| is_dictionary);
    let vary = match dictionary {
        Some(_) => Some("Accept-Encoding, Available-Dictionary"),
        None if variants.len() > 1 || is_gzip_only || offer != Offer::Nothing => Some("Accept-Encoding"),
        None => None,
    };
    let matched = dictionary.map(|urls| format!("match=\"{urls}\""));
    let shared = Shared { services, route, content_type, cache_control, vary, dictionary: matched };
    let mut prepared = Vec::with_capacity(variants.len() + 1);
    for Variant { stamp, coding, fd, body } in variants {
        let file = fd.map(|fd| Rc::new(OpenFile::new(fd, stamp, services.disk.clone())));
        let source = Source { stamp, file, body };
        if is_gzip_only {
            prepared.push(shared.inflated(&source));
        }
        prepared.push(shared.unchanged(source, coding));
    }
    Prepared { all: prepared, offer, deltas: dictionary.map(|_| Rc::default()) }
}

/// The largest file of which compressed copies are kept: what a strong level makes of it takes a second.
const LARGEST_KEPT: u64 = 8 * 1024 * 1024;
/// Such a file takes at most this fraction of the cache.
const FRACTION_OF_CACHE: u64 = 8;

/// How a file is compressed.
fn offer(services: &Services, route: &Route, content_type: &str, size: u64) -> Offer {
    let rules = &route.files.compress;
    if !rules.gains(content_type.as_bytes(), Some(size)) {
        return Offer::Nothing;
    }
    let largest = LARGEST_KEPT.min(services.site.cache.bytes as u64 / FRACTION_OF_CACHE);
    let is_kept = rules.kept != Kept::Nothing && size <= largest && services.site.cache.entries > 0;
    let codings = if is_kept { rules.codings } else { rules.streamed }.only(encoder::encodes);
    match codings.is_empty() {
        true => Offer::Nothing,
        false if is_kept => Offer::Kept(codings),
        false => Offer::Streamed(codings),
    }
}

/// Whether the configuration forbids that the file is sent in another coding.
fn forbids(route: &Route, cache_control: Option<&str>) -> bool {
    let fields = route.headers.iter().filter_map(HeaderRule::field);
    let set = fields.filter(|(name, _)| name.eq_ignore_ascii_case("cache-control")).map(|(_, value)| value);
    set.chain(cache_control).any(|value| forbids_transform(value.as_bytes()))
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
    vary: Option<&'static str>,
    /// The value of `Use-As-Dictionary` (RFC 9842 §2.1).
    dictionary: Option<String>,
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
            (EtagFrom::Content, Some(body)) => Some(content_etag(body, suffix).into_bytes()),
            (EtagFrom::Stat | EtagFrom::Content, _) => Some(stat_etag(stamp, suffix)),
        };
        Representation {
            coding,
            size,
            etag: etag.map(Vec::into_boxed_slice),
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
            .optional("Vary", self.vary)
            .optional("Use-As-Dictionary", self.dictionary.as_deref());
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

fn stat_etag(stamp: &Stamp, suffix: &str) -> Vec<u8> {
    let mut tag = Vec::with_capacity(64);
    tag.push(b'"');
    write_hex(stamp.inode, &mut tag);
    tag.push(b'-');
    write_hex(stamp.size, &mut tag);
    tag.push(b'-');
    // All of the nanoseconds from 1970 to 2554.
    write_hex(stamp.modified as u64, &mut tag);
    tag.extend_from_slice(suffix.as_bytes());
    tag.push(b'"');
    tag
}

/// A hash of 128 bits, so that machines with the same files have the same entity tags.
fn content_etag(body: &[u8], suffix: &str) -> String {
    format!("\"{:032x}{suffix}\"", twox_hash::XxHash3_128::oneshot(body))
}
