//! A file in content codings that the server itself makes, because it has no precompressed copies. Each is made once, and
//! kept in the entry of the file.
//!
//! Knows nothing of encoders.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use site::compress::{Codings, tag_suffix};
use site::decide::{Offer, Representation, Resource};
use site::model::Route;
use taipan_http::etag;
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::Files;
use super::HostKey;
use super::beneath::{OpenError, Wait};
use super::entry::{Content, Entry, PreparedRepresentation};
use super::open::{OpenFile, Stamp, read, stat};
use crate::response_head::{DatedHead, HeadWriter};

/// The content of a file, to be read on another thread.
pub enum Source {
    Bytes(Vec<u8>),
    File(Arc<OwnedFd>, Stamp),
}

/// The content in a coding.
pub enum Encoded {
    Bytes(Vec<u8>),
    /// A file that exists only in memory.
    File(OwnedFd, Stamp),
}

/// A coding of an entry that is being made. Dropping it says that it is not any more.
pub struct Making {
    making: Rc<Cell<Codings>>,
    coding: Coding,
}

impl Drop for Making {
    fn drop(&mut self) {
        self.making.update(|codings| codings.only(|coding| coding != self.coding));
    }
}

impl Source {
    /// `None`: the file has changed.
    pub fn read(self) -> Result<Option<Vec<u8>>, OpenError> {
        match self {
            Source::Bytes(bytes) => Ok(Some(bytes)),
            Source::File(fd, stamp) => {
                let bytes = read(&fd, 0, stamp.size as usize, Wait::Allowed)?;
                let is_unchanged = stat(&fd, Wait::Allowed)?.stamp == stamp;
                Ok(bytes.filter(|_| is_unchanged))
            }
        }
    }
}

impl Entry {
    /// The content without a coding.
    pub fn source(&self) -> Option<Source> {
        let plain = self.prepared.first()?;
        match &plain.content {
            Content::Inline => Some(Source::Bytes(plain.response.head().body().to_vec())),
            Content::File(file) => Some(Source::File(file.fd.clone(), file.stamp)),
            Content::Inflated(_) | Content::Damaged(_) => None,
        }
    }

    /// The same file, with other representations.
    fn with(&self, resource: Resource, prepared: Vec<PreparedRepresentation>) -> Entry {
        Entry { resource, prepared, ..self.clone() }
    }

    /// `None`: it is being made.
    pub fn begin(&self, coding: Coding) -> Option<Making> {
        let codings = self.making.get();
        if codings.contains(coding) {
            return None;
        }
        self.making.set(Codings::new(codings.iter().chain([coding])));
        Some(Making { making: self.making.clone(), coding })
    }
}

impl Files {
    /// Adds what was made of `entry`. `None`: it does not gain, and is not offered any more. Nothing happens if the
    /// file has changed, or its entry was evicted.
    pub fn add_encoded(
        &self,
        host: HostKey,
        path: &SafePath<'_>,
        entry: &Entry,
        coding: Coding,
        encoded: Option<Encoded>,
    ) {
        let Some(now) = self.cached(host, path.as_str()) else { return };
        let route = self.services.route(host.host(), path);
        let entry = match now.alternates.as_ref() {
            _ if now.stamps == entry.stamps => self.with_encoded(route, &now, coding, encoded),
            Some(alternates) => {
                let replaced =
                    alternates.replaced(entry, |entry| self.with_encoded(route, entry, coding, encoded));
                replaced.map(|alternates| Entry {
                    alternates: Some(alternates),
                    ..now.with(now.resource.clone(), now.prepared.clone())
                })
            }
            None => None,
        };
        let Some(entry) = entry else { return };
        self.insert(host, path, Rc::new(entry));
    }

    /// The same file, with what was made of it.
    fn with_encoded(
        &self,
        route: &Route,
        now: &Entry,
        coding: Coding,
        encoded: Option<Encoded>,
    ) -> Option<Entry> {
        let Resource::File(representations, Offer::Kept(codings)) = &now.resource else { return None };
        let (mut representations, mut prepared) = (representations.clone(), now.prepared.clone());
        let offer = match encoded {
            Some(encoded) => {
                let tag = |plain: &[u8]| etag::with_suffix(plain, tag_suffix(coding));
                let encoded = self.prepare_encoded(route, now, coding, tag, encoded);
                representations.push(encoded.0);
                prepared.push(encoded.1);
                Offer::Kept(*codings)
            }
            None => Offer::Kept(codings.only(|other| other != coding)),
        };
        Some(now.with(Resource::File(representations, offer), prepared))
    }

    /// An entry with what was made of `entry` as its only representation. Its tag is weak: a client that has the
    /// content by way of a delta gets 304 as if it had the file, because another dictionary would be the best one then.
    pub(super) fn only_encoded(
        &self,
        route: &Route,
        entry: &Entry,
        coding: Coding,
        encoded: Encoded,
    ) -> Entry {
        let (representation, prepared) = self.prepare_encoded(route, entry, coding, etag::weak, encoded);
        let resource = Resource::File(vec![representation], Offer::Nothing);
        Entry { deltas: None, ..entry.with(resource, vec![prepared]) }
    }

    /// `tag` makes the entity tag of that of the file.
    fn prepare_encoded(
        &self,
        route: &Route,
        entry: &Entry,
        coding: Coding,
        tag: impl Fn(&[u8]) -> Vec<u8>,
        encoded: Encoded,
    ) -> (Representation, PreparedRepresentation) {
        let services = &self.services;
        let (size, body, content) = match encoded {
            Encoded::Bytes(bytes) => (bytes.len() as u64, bytes, Content::Inline),
            Encoded::File(fd, stamp) => {
                let file = OpenFile::in_memory(fd, stamp, services.disk.clone());
                (stamp.size, Vec::new(), Content::File(Rc::new(file)))
            }
        };
        let (etag, modified) = match &entry.resource {
            Resource::File(all, _) => (all[0].etag.as_deref(), all[0].modified),
            _ => (None, None),
        };
        let etag = etag.map(|plain| tag(plain).into_boxed_slice());
        let mut head = HeadWriter::new(services, Some(route), Status::OK);
        for (name, value) in entry.prepared[0].response.head().fields() {
            if !OTHER.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                head = head.copied(name, value);
            }
        }
        let head = head
            .optional("ETag", etag.as_deref())
            .field("Content-Encoding", coding.as_str())
            .length(size)
            .finish_with(&body);
        let representation = Representation { coding, size: Some(size), etag, modified };
        let response = DatedHead::new(head, &services.clock);
        (representation, PreparedRepresentation { response, content })
    }
}

/// Fields that are not those of the file without a coding. Parts of what is made are not sent: it may be made anew,
/// with other bytes.
const OTHER: [&str; 5] = ["date", "server", "content-length", "accept-ranges", "etag"];
