//! The heads of all responses, with the fields that the configuration demands: `Server`, those that a route sets or
//! removes, and those that it sets where nothing else does.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use site::model::{Route, Site};
use taipan_http::client::section::FieldSection;
use taipan_http::date::LEN;
use taipan_http::head::Field;
use taipan_http::known::KnownFields;
use taipan_http::response::{Builder, ResponseHead};
use taipan_http::status::Status;

use crate::clock::Clock;
use crate::services::Services;

pub struct HeadWriter<'a> {
    builder: Builder,
    route: Option<&'a Route>,
    origin: PageOrigin,
}

/// The origin of the body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageOrigin {
    Site,
    /// A built-in page has a policy of its own. That of the site may forbid its style.
    BuiltIn,
}

const VARY: &str = "Vary";
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
        HeadWriter::dated(site, &clock.date(), route, status)
    }

    /// As `new`, for a response that was made at another time.
    pub fn dated(site: &Site, date: &[u8; LEN], route: Option<&'a Route>, status: Status) -> HeadWriter<'a> {
        HeadWriter::begin(site, Builder::new(status, date), route)
    }

    /// As `dated`, in the memory of an empty buffer.
    pub fn over(
        buffer: Vec<u8>,
        site: &Site,
        date: &[u8; LEN],
        route: Option<&'a Route>,
        status: Status,
    ) -> HeadWriter<'a> {
        HeadWriter::begin(site, Builder::over(buffer, status, date), route)
    }

    fn begin(site: &Site, builder: Builder, route: Option<&'a Route>) -> HeadWriter<'a> {
        // No route sets or removes it, and the configuration has only printable characters.
        let builder = match &site.server_header {
            Some(name) => builder.checked("Server", name),
            None => builder,
        };
        HeadWriter { builder, route, origin: PageOrigin::Site }
    }

    /// Adds a field, unless the route sets or removes it.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> HeadWriter<'a> {
        if self.passes(name.as_bytes()) {
            self.builder = self.builder.field(name, value);
        }
        self
    }

    /// As `field`, with a field of another response of this route. One that the route adds is left out, because it
    /// comes at the end, and would be there twice.
    pub fn copied(self, name: &str, value: &[u8]) -> HeadWriter<'a> {
        let rules = self.route.map_or(&[][..], |route| &route.headers);
        let mut added = rules.iter().filter_map(|rule| rule.field());
        match added.any(|(own, text)| own.eq_ignore_ascii_case(name) && text.as_bytes() == value) {
            true => self,
            false => self.field(name, value),
        }
    }

    /// As `received`, of all fields of a section but those of `without`.
    pub fn received_section(mut self, section: &FieldSection, without: KnownFields) -> HeadWriter<'a> {
        if self.route.is_none_or(|route| route.headers.is_empty()) {
            self.builder = self.builder.received_lines(|out| section.write(without, out));
            return self;
        }
        let lines = section.lines_without(without);
        lines.fold(self, |writer, line| writer.received(line.field()))
    }

    /// As `field`, with a field that has been parsed.
    pub fn received(mut self, field: Field) -> HeadWriter<'a> {
        if self.passes(field.name) {
            self.builder = self.builder.received(field);
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
        let HeadWriter { mut builder, route, origin } = self.with_defaults();
        for rule in route.map_or(&[][..], |route| &route.headers) {
            if let Some((name, value)) = rule.field()
                && !is_fixed(name.as_bytes())
                && !(origin == PageOrigin::BuiltIn && name.eq_ignore_ascii_case(POLICY))
            {
                builder = builder.field(name, value);
            }
        }
        builder.finish_with(body)
    }

    /// As `finish_with`, of all content: with its length.
    pub fn finish_whole(self, content: &[u8]) -> ResponseHead {
        self.length(content.len() as u64).finish_with(content)
    }

    pub fn finish(self) -> ResponseHead {
        self.finish_with(&[])
    }

    /// Adds the fields that the route has where nothing else sets them.
    fn with_defaults(mut self) -> HeadWriter<'a> {
        let Some(route) = self.route else { return self };
        let constant = route.cors.iter().flat_map(|cors| &cors.constant);
        let constant = constant.map(|(name, value)| (*name, value.as_str()));
        for (name, value) in constant.chain(route.security_headers.fields().iter().copied()) {
            let is_set = match name {
                // A list: other values remain.
                VARY => self.builder.has_line(name, value.as_bytes()),
                _ => self.builder.has(name) || self.is_ruled(name.as_bytes()),
            };
            if !is_set {
                self.builder = self.builder.field(name, value);
            }
        }
        self
    }

    /// Whether a field with this name is added, as the route neither sets nor removes it.
    fn passes(&self, name: &[u8]) -> bool {
        !self.is_ruled(name) || is_fixed(name)
    }

    /// Whether the route sets or removes this field.
    fn is_ruled(&self, name: &[u8]) -> bool {
        let rules = self.route.map_or(&[][..], |route| &route.headers);
        rules.iter().any(|rule| rule.replaces(name))
    }
}

fn is_fixed(name: &[u8]) -> bool {
    FIXED.iter().any(|fixed| fixed.as_bytes().eq_ignore_ascii_case(name))
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
