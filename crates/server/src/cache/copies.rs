//! Compressed copies of stored responses, which are made once, in the background, and kept with the response.
//!
//! Knows nothing of the request for which a copy is made.

use std::cell::RefCell;
use std::rc::Rc;

use cache::Field;
use cache::fields::values;
use cache::stored::Stored;
use site::compress::Kept;
use taipan_http::etag;
use taipan_http::fields::list;
use taipan_http::negotiate::Coding;

use super::Cache;
use super::body::{BodySource, StoredBody};
use super::cached_response::{CachedResponse, Placement, stored_body};
use crate::encoder::{self, Effort};
use crate::files::beneath::Wait;
use crate::files::open::read;
use crate::files::table::Cost;
use crate::stats::Count;
use crate::tasks::spawn_local;

/// Bytes of the largest body that gets a copy. A larger one is compressed while it is sent.
const LARGEST: u64 = 1 << 20;
/// Percent of the body. A copy that is not smaller does not gain.
const GAIN: usize = 95;

/// The copies of one response.
#[derive(Default)]
pub struct Copies(RefCell<Vec<(Coding, Copy)>>);

#[derive(Clone)]
enum Copy {
    BeingMade,
    NoGain,
    Made(Rc<CachedResponse>),
}

impl Copies {
    pub fn get(&self, coding: Coding) -> Option<Rc<CachedResponse>> {
        self.0.borrow().iter().find_map(|(own, copy)| match copy {
            Copy::Made(copy) if *own == coding => Some(copy.clone()),
            Copy::Made(_) | Copy::BeingMade | Copy::NoGain => None,
        })
    }

    fn begin(&self, coding: Coding) -> bool {
        let mut copies = self.0.borrow_mut();
        let is_new = copies.iter().all(|(own, _)| *own != coding);
        if is_new {
            copies.push((coding, Copy::BeingMade));
        }
        is_new
    }

    fn end(&self, coding: Coding, copy: Copy) {
        let mut copies = self.0.borrow_mut();
        copies.retain(|(own, _)| *own != coding);
        copies.push((coding, copy));
    }

    fn made(&self) -> Vec<(Coding, Rc<CachedResponse>)> {
        let copies = self.0.borrow();
        let made = copies.iter().filter_map(|(coding, copy)| match copy {
            Copy::Made(copy) => Some((*coding, copy.clone())),
            Copy::BeingMade | Copy::NoGain => None,
        });
        made.collect()
    }

    pub fn cost(&self) -> Cost {
        self.made().iter().map(|(_, copy)| copy.cost()).sum()
    }
}

impl CachedResponse {
    /// With the copies of a response that has the same body, and other fields.
    pub fn with_copies_of(self, old: &CachedResponse) -> CachedResponse {
        for (coding, copy) in old.copies.made() {
            let copy = Rc::new(self.encoded(coding, copy.body.clone()));
            self.copies.end(coding, Copy::Made(copy));
        }
        self
    }

    fn encoded(&self, coding: Coding, body: StoredBody) -> CachedResponse {
        let placement = Placement { requested: self.requested(), ..Placement::NOWHERE };
        CachedResponse::new(
            encoded(&self.stored, coding),
            self.policy.clone(),
            self.settings.clone(),
            body,
            placement,
        )
    }
}

impl Cache {
    /// Makes the copy in the background. Does nothing if it is being made, if too many others are, or if it does not
    /// gain.
    pub fn make_copy(self: &Rc<Cache>, text: &str, entry: &Rc<CachedResponse>, coding: Coding, kept: Kept) {
        let effort = match kept {
            Kept::Strong => Effort::Strong,
            Kept::Quick => Effort::Quick,
            Kept::Nothing => return,
        };
        if entry.body.length() > LARGEST {
            return;
        }
        let Some(permit) = self.copies.take() else { return };
        if !entry.copies.begin(coding) {
            return;
        }
        let body = entry.body.source();
        let Some(result) = self.services.background.run(move || encode(body, coding, effort)) else {
            // Too much work waits. It is tried again.
            entry.copies.0.borrow_mut().retain(|(own, _)| *own != coding);
            return;
        };
        let (cache, entry, text) = (self.clone(), entry.clone(), text.to_owned());
        spawn_local(async move {
            let _permit = permit;
            let Ok(Some(bytes)) = result.await else { return entry.copies.end(coding, Copy::NoGain) };
            let copy = entry.encoded(coding, stored_body(&cache.services, bytes));
            entry.copies.end(coding, Copy::Made(Rc::new(copy)));
            cache.services.counts.add(Count::ResponseCopies, 1);
            cache.recount(&text);
        });
    }
}

/// `None`: it does not gain, or it fails, and would fail again.
fn encode(body: BodySource, coding: Coding, effort: Effort) -> Option<Vec<u8>> {
    let content = match body {
        BodySource::Bytes(bytes) => bytes,
        BodySource::File { fd, at, length } => read(&fd, at, length as usize, Wait::Allowed).ok()??,
    };
    let bytes = encoder::encode(coding, effort, &content).ok()?;
    (bytes.len() <= content.len() * GAIN / 100).then_some(bytes)
}

/// The fields of a response in this coding.
fn encoded(stored: &Stored, coding: Coding) -> Stored {
    let mut copy = stored.clone();
    copy.fields.retain(|field| !field.name.eq_ignore_ascii_case("accept-ranges"));
    for field in copy.fields.iter_mut().filter(|field| field.name.eq_ignore_ascii_case("etag")) {
        // The same bytes need not come again (RFC 9110 §8.8.1).
        field.value = etag::weak(&field.value).into();
    }
    let add = |name: &str, value: &str| Field { name: name.into(), value: value.as_bytes().into() };
    copy.fields.push(add("Content-Encoding", coding.as_str()));
    let varies =
        list(values(&stored.fields, "vary")).any(|name| name.eq_ignore_ascii_case(b"accept-encoding"));
    if !varies {
        copy.fields.push(add("Vary", "Accept-Encoding"));
    }
    copy
}
