//! Pages: files, and responses of scripts and upstreams, whose directives are carried out while they are sent. What
//! they include are requests of the same client, which go through the exchange like any other.
//!
//! Knows nothing of the languages of pages.

mod assembly;
mod file_stream;
mod parts;
mod problem;
mod stream;

use std::rc::Rc;

use site::includes::private;
use site::model::Route;
use taipan_http::conditional::{self, Validators, Verdict};
use taipan_http::date;
use taipan_http::head::{Method, Names};
use taipan_http::response::{Builder, ResponseHead};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use self::assembly::{Assembly, Audience, Document};
pub(super) use self::assembly::{Inclusion, Place};
use self::file_stream::FileStream;
use self::stream::{FirstContent, PageStream, Source};
use super::Exchange;
use crate::content::compress;
use crate::files::Entry;
use crate::files::page::PageContent;
use crate::log;
use crate::request::Request;
use crate::response::{Body, BodyStream, FilePart, Response, Whole};
use crate::response_head::HeadWriter;
use crate::services::Services;
use crate::tasks::spawn_local;
use crate::upstream::Handler;

/// Fields that describe the bytes before directives were carried out, or what follows them, or that are for this server.
const OTHER: [&str; 13] = [
    "accept-ranges",
    "cdn-cache-control",
    "content-digest",
    "content-length",
    "content-md5",
    "content-range",
    "date",
    "digest",
    "etag",
    "last-modified",
    "repr-digest",
    "surrogate-control",
    "trailer",
];

/// The most bytes of a body that no client gets that are read so that its connection can have another request.
const DISCARDED: usize = 64 * 1024;

impl Exchange<'_> {
    /// The response to GET or HEAD with a page.
    pub(super) async fn assemble(&self, path: &SafePath<'_>, entry: &Rc<Entry>) -> Response {
        let route = self.route(path);
        let Some(page) = &entry.page else { return self.status(route, Status::NOT_FOUND).await };
        let parts = match (&page.content, &self.inclusion) {
            (PageContent::Parsed(_), None) => self.parts(path, entry).await,
            _ => None,
        };
        let etag = parts.as_ref().and_then(|parts| parts.etag(route.files.etag));
        let modified = parts.as_ref().map(|parts| parts.modified);
        let validators = Validators { etag: etag.as_deref(), modified };
        let rules = &route.files.compress;
        let is_compressed = self.inclusion.is_none() && (parts.is_some() || rules.scripts);
        let head = |status| {
            HeadWriter::new(self.services, Some(route), status)
                .optional("ETag", etag.as_deref())
                .optional("Last-Modified", modified.map(|at| self.services.past(at)).map(date::format))
        };
        let content_type = route.files.types.lookup(&page.name);
        let cache_control = self.services.cache_control(self.host, path, content_type);
        let cache_control = |audience| cache_control.map(|own| caching(own, audience));
        // What is not known yet may be for this client alone.
        let audience = parts.as_ref().map_or(Audience::Client, |parts| parts.audience);
        match conditional::evaluate(self.head, Some(&validators), self.now) {
            Verdict::Proceed => {}
            Verdict::NotModified => {
                let head = head(Status::NOT_MODIFIED).optional("Cache-Control", cache_control(audience));
                let response = Response::from_head(head.finish());
                return match is_compressed && rules.cover(content_type.as_bytes()) {
                    true => compress::without_whole(self.head, response),
                    false => response,
                };
            }
            Verdict::PreconditionFailed => return self.status(route, Status::PRECONDITION_FAILED).await,
        }
        let head = head(Status::OK).field("Content-Type", content_type);
        let processed = |response| match is_compressed {
            true => compress::negotiated(self.services, rules, self.head, response),
            false => response,
        };
        // Nothing is run for HEAD: whom the content is for, and how it is sent, is known only when it is made.
        if self.head.method == Method::Head && parts.is_none() {
            return processed(Response::from_head(head.finish()));
        }
        let Some(inclusion) = self.inclusion(path.encoded(), Some(document(path, entry, &page.name))) else {
            return self.status(route, Status::INTERNAL_SERVER_ERROR).await;
        };
        let source = match &page.content {
            PageContent::Parsed(_) => Source::parsed(page.clone()),
            PageContent::File(file) => {
                let part = FilePart { file: file.clone(), at: 0, left: file.stamp.size };
                Source::scanned(Box::new(FileStream::new(part)), route.files.includes.languages)
            }
        };
        let mut stream = PageStream::new(inclusion, source);
        // If all of the content can be made without waiting, its length is known, and whom it is for.
        let response = match stream.begin(self.services).await {
            FirstContent::All(content) => {
                let audience = if parts.is_some() { audience } else { stream.audience() };
                let head = head.optional("Cache-Control", cache_control(audience));
                Response::from_head(head.finish_whole(&content))
            }
            FirstContent::Part => {
                let head = head.optional("Cache-Control", cache_control(audience)).finish();
                Response { body: Body::Stream(Box::new(stream)), ..Response::from_head(head) }
            }
            FirstContent::Failed => return self.status(route, Status::BAD_GATEWAY).await,
        };
        processed(response)
    }

    /// Whether an upstream has responded with a part of a page, in which directives may be cut. A request that
    /// changes something is not made again for the whole.
    pub(super) fn is_part_of_page(&self, route: &Route, response: &Response) -> bool {
        let mut fields = response.head.fields();
        response.status() == Status::PARTIAL_CONTENT
            && self.head.is_safe()
            && self.head.names.contains(Names::RANGE)
            && fields.any(|(name, value)| {
                name.eq_ignore_ascii_case("content-type")
                    && (route.files.includes.cover_type(value)
                        || route.files.includes.cover_responses() && value.starts_with(b"multipart/"))
            })
    }

    /// Asks the upstream for the whole.
    pub(super) async fn forward_for_whole(&mut self, request: Request<'_>) -> Response {
        let fields = self.head.fields_without(&["range", "if-range"]);
        let head = self.head.with_fields(&fields);
        self.go_on_as(Request { head: &head, ..request }).await
    }

    /// Whether an upstream might answer the conditions of the request by the template of a page, whose parts it does not
    /// know.
    pub(super) fn may_mean_template(&self, route: &Route) -> bool {
        route.files.includes.cover_responses()
            && self.is_get_or_head()
            && self.head.names.intersects(Names::IF_NONE_MATCH | Names::IF_MODIFIED_SINCE)
    }

    /// The response of the upstream to the request without these conditions. `assemble_response` answers them.
    pub(super) async fn forward_without_conditions(
        &mut self,
        request: Request<'_>,
        handler: &Handler,
    ) -> Response {
        let fields = request.head.fields_without(&["if-none-match", "if-modified-since"]);
        let head = request.head.with_fields(&fields);
        self.forward_as_it_is(Request { head: &head, ..request }, handler).await
    }

    /// The response of an upstream that is no page, or a 304, if the client has it.
    fn unless_not_modified(&self, mut response: Response) -> Response {
        let modified = response.head.value("last-modified").and_then(|value| date::parse(value, self.now));
        let validators = Validators { etag: response.head.value("etag"), modified };
        // Without validators, the upstream cannot have meant that a client knows it.
        let is_selected =
            response.status() == Status::OK && self.is_get_or_head() && validators != Validators::default();
        if !is_selected
            || conditional::evaluate(self.head, Some(&validators), self.now) != Verdict::NotModified
        {
            return response;
        }
        let mut head = Builder::new(Status::NOT_MODIFIED, &response.head.date());
        for (name, value) in response.head.fields().filter(|(name, _)| conditional::is_of_not_modified(name))
        {
            head = head.field(name, value);
        }
        let head = head.finish();
        discard(&self.responder.services, std::mem::replace(&mut response.body, Body::Nothing));
        Response { start: 0, end: head.bytes().len(), head: head.into(), ..response }
    }

    /// The response of a script or an upstream, if it is a page; or as it is.
    pub(super) fn assemble_response(&self, route: &Route, response: Response) -> Response {
        let includes = &route.files.includes;
        if !has_page_type(route, response.status(), response.head.fields()) {
            return self.unless_not_modified(response);
        }
        if is_encoded(response.head.fields()) {
            if let Some(omitted) = self.responder.mistakes.admit(self.now) {
                let path = self.head.raw_target.escape_debug();
                log::warn(format_args!(
                    "{path}: an encoded response is not searched for directives{omitted}"
                ));
            }
            return self.unless_not_modified(response);
        }
        let base = self.head.target.path().unwrap_or("/").to_owned();
        let Some(inclusion) = self.inclusion(base, None) else { return response };
        let head = rewritten(&response.head);
        let content = response.small_body().to_vec();
        let inner: Box<dyn BodyStream> = match response.body {
            Body::Nothing if content.is_empty() => {
                let head = match self.head.method {
                    Method::Head => head,
                    _ => head.number("Content-Length", 0),
                };
                return Response { cache: response.cache, ..Response::from_head(head.finish()) };
            }
            Body::Nothing => Box::new(Whole::new(content)),
            Body::Stream(inner) | Body::Sized(inner, _) => inner,
            Body::File(part) => Box::new(FileStream::new(part)),
            Body::Parts(_) | Body::Tunnel(_) => return response,
        };
        let stream = PageStream::new(inclusion, Source::scanned(inner, includes.languages));
        let body = Body::Stream(Box::new(stream));
        let Response { broken_rule, cache, .. } = response;
        Response { body, broken_rule, cache, ..Response::from_head(head.finish()) }
    }

    /// What the pages of this response share, and the place of this one, whose encoded path is `base`. `document`: of
    /// the page, if it is a file. `None`: the request has no connection.
    fn inclusion(&self, base: String, document: Option<Document>) -> Option<Inclusion> {
        let counted = self.grants.counted.clone();
        match &self.inclusion {
            Some(Inclusion { assembly, place }) => {
                Some(Inclusion { assembly: assembly.clone(), place: Rc::new(place.at(base, counted)) })
            }
            None => {
                let document = document.unwrap_or_else(|| Document::of_path(&base));
                let assembly = Rc::new(Assembly::new(self, document)?);
                Some(Inclusion { assembly, place: Rc::new(Place::first(self.head, base, counted)) })
            }
        }
    }
}

/// Reads a body that no client gets, if it is not too much, so that its connection can have another request.
fn discard(services: &Rc<Services>, body: Body) {
    let (Body::Stream(mut stream) | Body::Sized(mut stream, _)) = body else { return };
    let services = services.clone();
    spawn_local(async move {
        let mut left = DISCARDED;
        while let Ok(Some(bytes)) = stream.next(&services).await
            && bytes.len() < left
        {
            left -= bytes.len();
        }
    });
}

/// Whether the directives of a response with these fields are carried out. Then its validators and its length are not
/// those of what the client gets, and its parts are not parts of that.
pub(super) fn is_page<'f, F: Iterator<Item = (&'f str, &'f [u8])>>(
    route: &Route,
    status: Status,
    fields: impl Fn() -> F,
) -> bool {
    has_page_type(route, status, fields()) && !is_encoded(fields())
}

fn has_page_type<'f>(
    route: &Route,
    status: Status,
    mut fields: impl Iterator<Item = (&'f str, &'f [u8])>,
) -> bool {
    let includes = &route.files.includes;
    includes.cover_responses()
        && status.allows_body()
        && status != Status::PARTIAL_CONTENT
        && fields
            .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            .is_some_and(|(_, value)| includes.cover_type(value))
}

fn is_encoded<'f>(mut fields: impl Iterator<Item = (&'f str, &'f [u8])>) -> bool {
    fields.any(|(name, _)| name.eq_ignore_ascii_case("content-encoding"))
}

fn document(path: &SafePath<'_>, entry: &Entry, name: &str) -> Document {
    Document {
        uri: format!("/{}", path.as_str()),
        name: name.to_owned(),
        modified: entry.stamp().map(|stamp| stamp.modified_seconds()),
    }
}

/// The value of `Cache-Control` for content that is for these.
fn caching(cache_control: &str, audience: Audience) -> String {
    match audience {
        Audience::All => cache_control.to_owned(),
        Audience::Client => private(cache_control),
    }
}

/// The head, without the fields of its content. Its parts are not known yet: they may be for one client.
fn rewritten(head: &ResponseHead) -> Builder {
    let mut builder = Builder::new(head.status(), &head.date());
    let mut cache_control: Vec<String> = Vec::new();
    let mut may_be_stored = false;
    for (name, value) in head.fields() {
        if name.eq_ignore_ascii_case("cache-control") {
            cache_control.push(String::from_utf8_lossy(value).into_owned());
        } else if !OTHER.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            may_be_stored |= name.eq_ignore_ascii_case("expires");
            builder = builder.field(name, value);
        }
    }
    if may_be_stored || !cache_control.is_empty() {
        builder = builder.field("Cache-Control", private(&cache_control.join(", ")));
    }
    builder
}
