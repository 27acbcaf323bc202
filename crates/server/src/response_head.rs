//! The heads of all responses, with the fields that the configuration demands: `Server`, and those that a route sets or
//! removes.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use site::model::{HeaderRule, Route, Site};
use taipan_http::response::{Builder, ResponseHead};
use taipan_http::status::Status;

use crate::clock::Clock;
use crate::services::Services;

pub struct HeadWriter<'a> {
    builder: Builder,
    rules: &'a [HeaderRule],
    origin: PageOrigin,
}

/// The origin of the body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageOrigin {
    Site,
    /// A built-in page has a policy of its own. That of the site may forbid its style.
    BuiltIn,
}

const POLICY: &str = "Content-Security-Policy";

/// Fields that no configuration changes: a wrong value would break the connection or the caches.
const FIXED: [&str; 5] = ["content-length", "transfer-encoding", "connection", "date", "content-range"];

impl<'a> HeadWriter<'a> {
    /// `route`: `None` if the request was rejected before its route was known.
    pub fn new(services: &Services, route: Option<&'a Route>, status: Status) -> HeadWriter<'a> {
        HeadWriter::for_site(&services.site, &services.clock, route, status)
    }

    /// As `new`, before there are services.
    pub fn for_site(site: &Site, clock: &Clock, route: Option<&'a Route>, status: Status) -> HeadWriter<'a> {
        let rules = route.map_or(&[][..], |r| &r.headers);
        let head =
            HeadWriter { builder: Builder::new(status, &clock.date()), rules, origin: PageOrigin::Site };
        match &site.server_header {
            Some(name) => head.field("Server", name),
            None => head,
        }
    }

    /// Adds a field, unless the route sets or removes it.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> HeadWriter<'a> {
        let ruled = |rule: &HeaderRule| match rule {
            HeaderRule::Set(ruled, _) | HeaderRule::Remove(ruled) => ruled.eq_ignore_ascii_case(name),
        };
        if self.rules.is_empty() || is_fixed(name) || !self.rules.iter().any(ruled) {
            self.builder = self.builder.field(name, value);
        }
        self
    }

    /// The `Content-Security-Policy` of a built-in page.
    pub fn policy(mut self, value: &str) -> HeadWriter<'a> {
        self.builder = self.builder.field(POLICY, value);
        self.origin = PageOrigin::BuiltIn;
        self
    }

    pub fn optional(self, name: &str, value: Option<impl AsRef<[u8]>>) -> HeadWriter<'a> {
        match value {
            Some(value) => self.field(name, value),
            None => self,
        }
    }

    pub fn length(mut self, bytes: u64) -> HeadWriter<'a> {
        self.builder = self.builder.number("Content-Length", bytes);
        self
    }

    /// The head, followed by `body`.
    pub fn finish_with(self, body: &[u8]) -> ResponseHead {
        let mut builder = self.builder;
        for rule in self.rules {
            if let HeaderRule::Set(name, value) = rule
                && !is_fixed(name)
                && !(self.origin == PageOrigin::BuiltIn && name.eq_ignore_ascii_case(POLICY))
            {
                builder = builder.field(name, value);
            }
        }
        builder.finish_with(body)
    }

    pub fn finish(self) -> ResponseHead {
        self.finish_with(&[])
    }
}

fn is_fixed(name: &str) -> bool {
    FIXED.iter().any(|f| f.eq_ignore_ascii_case(name))
}

/// A head that is sent many times, with the current `Date`.
#[derive(Clone)]
pub struct DatedHead {
    head: RefCell<Rc<ResponseHead>>,
    second: Cell<i64>,
}

impl DatedHead {
    /// `head` has been written in this second.
    pub fn new(head: ResponseHead, clock: &Clock) -> DatedHead {
        DatedHead { head: RefCell::new(Rc::new(head)), second: Cell::new(clock.now()) }
    }

    #[inline]
    pub fn get(&self, clock: &Clock) -> Rc<ResponseHead> {
        if self.second.get() != clock.now() {
            self.second.set(clock.now());
            // Copies only if a response with the old date is still being sent.
            Rc::make_mut(&mut self.head.borrow_mut()).set_date(&clock.date());
        }
        self.head.borrow().clone()
    }

    /// With the date of an earlier second, perhaps.
    pub fn head(&self) -> Ref<'_, ResponseHead> {
        Ref::map(self.head.borrow(), Rc::as_ref)
    }
}
