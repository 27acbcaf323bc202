//! A stored response in memory, with its head as it is sent. `Age` changes each second, and so the head is rendered
//! once a second.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use cache::Field;
use cache::fields::only;
use cache::key::Key;
use cache::policy::Policy;
use cache::settings::{Report, Settings};
use cache::status::{CacheStatus, Kept};
use cache::stored::Stored;
use rustix::fs::{MemfdFlags, memfd_create};
use site::memory;
use site::model::Route;
use taipan_http::conditional::Validators;
use taipan_http::date;
use taipan_http::response::ResponseHead;
use taipan_http::status::Status;

use super::body::StoredBody;
use super::copies::Copies;
use super::serve::Reuse;
use super::stamps;
use crate::clock;
use crate::files::beneath::Wait;
use crate::files::open::{OpenFile, stat};
use crate::files::table::Cost;
use crate::response_head::HeadWriter;
use crate::services::Services;

pub struct CachedResponse {
    pub stored: Stored,
    pub policy: Policy,
    pub settings: Arc<Settings>,
    pub body: StoredBody,
    /// `Key::resource`.
    resource: u128,
    /// When it was requested or validated last, in microseconds of the monotonic clock.
    requested: u64,
    modified: Option<i64>,
    pub copies: Copies,
    /// Whether it was found since its file was last counted as used.
    pub is_used: Cell<bool>,
    head: RefCell<Option<AgedHead>>,
}

/// The head of a hit, and a small body.
struct AgedHead {
    response: Rc<ResponseHead>,
    /// Bytes before `Age`.
    constant: usize,
    second: Cell<i64>,
}

/// The largest body behind a head. A larger one is a file in memory, because the kernel sends files without a copy.
const INLINE: usize = memory::RESPONSE as usize;

/// Where a response is stored, and since when.
#[derive(Debug, Clone, Copy)]
pub struct Placement {
    /// `Key::resource`.
    pub resource: u128,
    /// When it was requested, in microseconds of the monotonic clock.
    pub requested: u64,
}

impl Placement {
    /// Of a response that is not in the cache.
    pub const NOWHERE: Placement = Placement { resource: 0, requested: u64::MAX };

    /// What is requested now.
    pub fn now(text: &str) -> Placement {
        Placement { resource: Key::new(text).resource(), requested: clock::micros() }
    }
}

impl CachedResponse {
    pub fn new(
        stored: Stored,
        policy: Policy,
        settings: Arc<Settings>,
        body: StoredBody,
        placement: Placement,
    ) -> CachedResponse {
        let modified =
            only(&stored.fields, "last-modified").and_then(|value| date::parse(value, stored.times.received));
        let Placement { resource, requested } = placement;
        CachedResponse {
            stored,
            policy,
            settings,
            body,
            resource,
            requested,
            modified,
            copies: Copies::default(),
            is_used: Cell::new(false),
            head: RefCell::new(None),
        }
    }

    /// When it was requested or validated last, in microseconds of the monotonic clock.
    pub fn requested(&self) -> u64 {
        self.requested
    }

    /// Whether it has not been invalidated, and its file is unchanged.
    #[inline]
    pub fn is_valid(&self) -> bool {
        stamps::is_valid(self.resource, self.requested) && self.body.is_unchanged()
    }

    pub fn cost(&self) -> Cost {
        let body = match &self.body {
            // Once more behind the head.
            StoredBody::Bytes(bytes) => Cost::of_bytes(2 * bytes.len()),
            StoredBody::File { file, .. } => Cost { bytes: file.memory(), descriptors: 1 },
        };
        Cost::of_bytes(2 * self.stored.cost() + size_of::<CachedResponse>()) + body + self.copies.cost()
    }

    /// The response to a client, for which the cache did what `status` says.
    #[inline]
    pub fn reuse<'a>(
        &'a self,
        services: &'a Services,
        route: Option<&'a Route>,
        status: CacheStatus,
    ) -> Reuse<'a> {
        Reuse { entry: self, services, route, status }
    }

    /// The head of the whole response.
    #[inline]
    pub fn full_head(
        &self,
        services: &Services,
        route: Option<&Route>,
        status: CacheStatus,
    ) -> Rc<ResponseHead> {
        let hit = self.hit(services, route);
        if status == CacheStatus::Hit {
            return hit;
        }
        let constant = self.head.borrow().as_ref().map_or(hit.fields_len(), |head| head.constant);
        Rc::new(self.aged(&hit, constant, status, services.clock.now()))
    }

    /// The head of a hit, with the current age.
    #[inline]
    fn hit(&self, services: &Services, route: Option<&Route>) -> Rc<ResponseHead> {
        let now = services.clock.now();
        if let Some(head) = &*self.head.borrow()
            && head.second.get() == now
        {
            return head.response.clone();
        }
        self.hit_of_second(services, route, now)
    }

    #[cold]
    fn hit_of_second(&self, services: &Services, route: Option<&Route>, now: i64) -> Rc<ResponseHead> {
        let known = self.head.borrow().as_ref().map(|head| (head.response.clone(), head.constant));
        let (before, constant) = known.unwrap_or_else(|| {
            let head = self.render(services, route);
            let constant = head.fields_len();
            (Rc::new(head), constant)
        });
        let response = Rc::new(self.aged(&before, constant, CacheStatus::Hit, now));
        let second = Cell::new(now);
        *self.head.borrow_mut() = Some(AgedHead { response: response.clone(), constant, second });
        response
    }

    /// The head with its age, and what the cache did.
    fn aged(&self, head: &ResponseHead, constant: usize, status: CacheStatus, now: i64) -> ResponseHead {
        let fields = self.last_fields(status, now);
        head.with_end(constant, fields.iter().map(|(name, value)| (*name, value.as_str())))
    }

    /// `Age`, and what the cache did.
    pub fn last_fields(&self, status: CacheStatus, now: i64) -> Vec<(&'static str, String)> {
        let freshness = &self.policy.freshness;
        let mut fields = Vec::with_capacity(2);
        let is_of_upstream = matches!(status, CacheStatus::Forwarded(_));
        if !is_of_upstream || only(&self.stored.fields, "age").is_some() {
            fields.push(("Age", freshness.age(now).to_string()));
        }
        if self.settings.report == Report::On {
            let kept = if is_of_upstream { Kept::Yes } else { Kept::No };
            fields.push(("Cache-Status", status.field(Some(freshness.left(now)), kept)));
        }
        fields
    }

    fn render(&self, services: &Services, route: Option<&Route>) -> ResponseHead {
        let writer = writer(services, route, &self.stored);
        let writer = match self.stored.status.allows_body() {
            true => writer.length(self.body.length()),
            false => writer,
        };
        match &self.body {
            StoredBody::Bytes(bytes) => writer.finish_with(bytes),
            StoredBody::File { .. } => writer.finish(),
        }
    }

    pub fn validators(&self) -> Validators<'_> {
        Validators { etag: only(&self.stored.fields, "etag"), modified: self.modified }
    }
}

/// The head of a stored response, with the fields of the route, if it has one, without those that depend on the time.
pub fn writer<'r>(services: &Services, route: Option<&'r Route>, stored: &Stored) -> HeadWriter<'r> {
    let mut writer = dated(services, route, stored, stored.status);
    for Field { name, value } in &stored.fields {
        if !is_of_time(name) {
            writer = writer.field(name, value);
        }
    }
    writer
}

/// The head of a response that is made of a stored one, with its `Date`: `Age` counts from then.
pub fn dated<'r>(
    services: &Services,
    route: Option<&'r Route>,
    stored: &Stored,
    status: Status,
) -> HeadWriter<'r> {
    let received = stored.times.received;
    let made =
        only(&stored.fields, "date").and_then(|value| date::parse(value, received)).unwrap_or(received);
    HeadWriter::dated(&services.site, &date::format(made), route, status)
}

/// Whether a field depends on the time at which a response is sent.
pub fn is_of_time(name: &str) -> bool {
    ["date", "age"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// A body as it is stored in memory.
pub fn stored_body(services: &Services, bytes: Vec<u8>) -> StoredBody {
    if bytes.len() > INLINE
        && let Some(file) = in_memory(services, &bytes)
    {
        return StoredBody::File { length: file.stamp.size, at: 0, file: Rc::new(file) };
    }
    StoredBody::Bytes(bytes.into())
}

/// `None`: there are no descriptors, or there is no memory.
fn in_memory(services: &Services, bytes: &[u8]) -> Option<OpenFile> {
    let mut file = File::from(memfd_create("response", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(bytes).ok()?;
    let fd = OwnedFd::from(file);
    let stamp = stat(&fd, Wait::Allowed).ok()?.stamp;
    Some(OpenFile::in_memory(fd, stamp, services.disk.clone()))
}
