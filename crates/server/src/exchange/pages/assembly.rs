//! One response that is assembled of pages: what they share, where each of them stands, and the requests for what they
//! include.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use ::script::environment::{
    Additions, CgiRequest, Claims, Credentials, Environment, Limits as EnvironmentLimits, environment,
};
use site::decide::{Decision, Resource};
use site::includes::is_for_client;
use site::proxies::Via;
use ssi::coding::percent_decode;
use ssi::page::is_stable;
use ssi::reference::{Reference, Unresolved};
use ssi::variables::{Request as PageRequest, Variables};
use taipan_http::conditional::is_condition;
use taipan_http::fields::{host_and_port, is_name};
use taipan_http::head::{Field, Head, OwnedHead};
use taipan_http::path_text;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme};

use super::super::authentication::Passed;
use super::super::{Exchange, Way};
use super::problem::Problem;
use crate::exchange::Responder;
use crate::limits::Applied;
use crate::request::Request;
use crate::request::owned::OwnedConnection;
use crate::response::Response;
use crate::stats::Count;
use crate::upstream::request::SOFTWARE;

/// Fields of the client's request that are not those of a request for a part, apart from conditions: they are about its
/// body, its coding, the dictionaries of the client, or the connection.
const OTHER: [&str; 13] = [
    "accept-encoding",
    "available-dictionary",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "dictionary-id",
    "expect",
    "http2-settings",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Variables of scripts that say nothing of a page.
const OF_SCRIPTS: [&str; 7] = [
    "GATEWAY_INTERFACE",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "REDIRECT_STATUS",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "DOCUMENT_ROOT",
];
/// Variables that tell who the user is, and which the login of the page has set: a part has a login of its own.
const OF_USER: [&str; 3] = ["REMOTE_USER", "HTTP_REMOTE_USER", "AUTH_TYPE"];

/// What the pages of one response share.
pub struct Assembly {
    responder: Rc<Responder>,
    host: usize,
    head: OwnedHead,
    /// The method of the client's request. In `head`, it is GET.
    method: String,
    connection: OwnedConnection,
    passed: Vec<Passed>,
    additions: Additions,
    document: Document,
    /// Made when a page asks for the first of its variables.
    environment: OnceCell<Environment>,
    pub variables: RefCell<Variables>,
    /// What may still be included, and how many bytes may still be made.
    left: Cell<usize>,
    bytes_left: Cell<u64>,
    audience: Cell<Audience>,
}

/// Whom the content that was made so far is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// As far as is known, all clients get the same.
    All,
    /// Others may get something else.
    Client,
}

/// The page that the client has asked for.
pub struct Document {
    /// Its path, decoded.
    pub uri: String,
    pub name: String,
    /// `None`: it is not a file.
    pub modified: Option<i64>,
}

/// Where a page stands among those that include one another.
pub struct Place {
    /// Its path, encoded: references are relative to it.
    pub path: String,
    /// The path that was requested, decoded, and its query.
    key: String,
    depth: usize,
    above: Option<Rc<Place>>,
    /// The limits in which its request counts.
    counted: Vec<Applied>,
}

/// The page that includes something.
#[derive(Clone)]
pub struct Inclusion {
    pub assembly: Rc<Assembly>,
    pub place: Rc<Place>,
}

/// The size and the time of a file.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    pub size: u64,
    pub modified: i64,
}

impl Document {
    /// `path`: encoded.
    pub fn of_path(path: &str) -> Document {
        let name = percent_decode(path.rsplit('/').next().unwrap_or_default());
        Document { uri: percent_decode(path), name, modified: None }
    }
}

impl Place {
    /// The place of the page that a client has requested, whose request counts in the limits `counted`.
    pub fn first(head: &Head<'_>, path: String, counted: Vec<Applied>) -> Place {
        let key = key(head.target.path().unwrap_or("/"), head.target.query()).unwrap_or_default();
        Place { path, key, depth: 0, above: None, counted }
    }

    /// The same place, of a page with another path than the one that was requested, whose request counts in the limits
    /// `counted`.
    pub fn at(&self, path: String, counted: Vec<Applied>) -> Place {
        let Place { key, depth, above, .. } = self;
        Place { path, key: key.clone(), depth: *depth, above: above.clone(), counted }
    }

    /// Whether it is the page of the client's request.
    pub fn is_first(&self) -> bool {
        self.above.is_none()
    }

    /// The place of what this page includes. `target`: a path, perhaps with a query.
    fn of_part(self: &Rc<Place>, target: &str, limit: usize) -> Result<Place, Problem> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let key = key(path, query).ok_or(Problem::Path)?;
        let mut above = Some(self);
        while let Some(place) = above {
            if place.key == key {
                return Err(Problem::Recursion);
            }
            above = place.above.as_ref();
        }
        if self.depth >= limit {
            return Err(Problem::TooDeep(limit));
        }
        let (depth, above, counted) = (self.depth + 1, Some(self.clone()), Vec::new());
        Ok(Place { path: path.to_owned(), key, depth, above, counted })
    }

    /// Whether its request, or that of a page around it, counts in a limit.
    pub fn is_counted(&self, limit: &Applied) -> bool {
        let own = self.counted.iter().any(|own| own.counts_with(limit));
        own || self.above.as_ref().is_some_and(|above| above.is_counted(limit))
    }
}

/// A path with its query, the same for each spelling of the path.
fn key(path: &str, query: Option<&str>) -> Option<String> {
    let path = SafePath::parse(path).ok()?;
    Some(match query {
        Some(query) => format!("{}?{query}", path.as_str()),
        None => path.as_str().to_owned(),
    })
}

impl Assembly {
    /// `None`: the exchange is that of the fast path, which assembles no page.
    pub(in crate::exchange) fn new(exchange: &Exchange<'_>, document: Document) -> Option<Assembly> {
        let Way::Driver(connection) = &exchange.way else { return None };
        let is_other = |name: &[u8]| is_condition(name) || OTHER.iter().any(|other| is_name(name, other));
        let is_kept = |field: &&Field<'_>| !is_other(field.name);
        let fields: Vec<Field<'_>> = exchange.head.fields.iter().filter(is_kept).copied().collect();
        let mut additions = Additions::default();
        for (name, value) in exchange.grants.variables.iter().filter(|(name, _)| OF_USER.contains(name)) {
            // Cannot fail: the page has the same variables.
            _ = additions.add(name, value);
        }
        let limits = exchange.services.site.limits.includes;
        Some(Assembly {
            responder: exchange.responder.clone(),
            host: exchange.host,
            head: OwnedHead::from(&exchange.head.as_get(&fields)),
            method: exchange.head.token.to_owned(),
            connection: OwnedConnection::of(connection),
            passed: exchange.grants.passed.clone(),
            additions,
            document,
            environment: OnceCell::new(),
            variables: RefCell::default(),
            left: Cell::new(limits.count),
            bytes_left: Cell::new(limits.bytes),
            audience: Cell::new(Audience::All),
        })
    }

    pub fn responder(&self) -> &Rc<Responder> {
        &self.responder
    }

    pub fn audience(&self) -> Audience {
        self.audience.get()
    }

    /// Counts what was made or included. `false`: it is too much.
    pub fn count_bytes(&self, bytes: usize) -> bool {
        let left = self.bytes_left.get().checked_sub(bytes as u64);
        self.bytes_left.set(left.unwrap_or(0));
        left.is_some()
    }

    fn environment(&self) -> &Environment {
        self.environment.get_or_init(|| self.make_environment().unwrap_or_default())
    }

    /// `None`: the request has too many fields.
    fn make_environment(&self) -> Option<Environment> {
        let fields: Vec<Field<'_>> = self.head.fields().collect();
        let head = self.head.head(&fields)?;
        let site = &self.responder.services.site;
        let connection = self.connection.info();
        let authority = std::str::from_utf8(head.authority).unwrap_or_default();
        let (name, _) = host_and_port(authority);
        let own_name = site.hosts.at(self.host).name();
        let names = &self.responder.services.client_names;
        let remote_name = connection.client.ip().and_then(|address| names.find(address));
        let request = CgiRequest {
            method: &self.method,
            protocol: head.version.as_str(),
            scheme: head.scheme,
            is_early: false,
            tls: &[],
            path: head.target.path().unwrap_or("/"),
            query: head.target.query(),
            query_string: head.target.query(),
            host: authority,
            server_name: if name.is_empty() { own_name.unwrap_or("localhost") } else { name },
            server_port: connection.server_port(&head),
            software: SOFTWARE,
            server: connection.local,
            remote: connection.client.ip(),
            remote_port: connection.client.port(),
            remote_name: remote_name.as_deref(),
            script_name: &self.document.uri,
            path_info: "",
            path_translated: b"",
            script_filename: b"",
            document_root: b"",
            body: None,
            fields: &fields,
            credentials: Credentials::Withheld,
            claims: match connection.via {
                Via::Nothing => Claims::Withheld,
                Via::TrustedProxy => Claims::Passed,
            },
        };
        environment(&request, &self.additions, EnvironmentLimits::default()).ok()
    }
}

impl PageRequest for Assembly {
    fn variable(&self, name: &str) -> Option<String> {
        if !is_stable(name) {
            self.audience.set(Audience::Client);
        }
        match name {
            "DOCUMENT_URI" => Some(self.document.uri.clone()),
            "DOCUMENT_NAME" => Some(self.document.name.clone()),
            "DOCUMENT_PATH_INFO" => Some(String::new()),
            _ if OF_SCRIPTS.contains(&name) => None,
            _ => {
                let value = self.environment().value(name)?;
                Some(path_text::of_bytes(value).into_owned())
            }
        }
    }

    fn names(&self) -> Vec<String> {
        let of_document = ["DOCUMENT_URI", "DOCUMENT_NAME"].map(str::to_owned);
        let name = |(name, _): (&[u8], &[u8])| String::from_utf8_lossy(name).into_owned();
        let of_request = self.environment().iter().map(name);
        of_document
            .into_iter()
            .chain(of_request)
            .filter(|name| !OF_SCRIPTS.contains(&name.as_str()))
            .collect()
    }

    fn now(&self) -> i64 {
        self.responder.services.clock.now()
    }

    fn modified(&self) -> Option<i64> {
        self.document.modified
    }
}

impl Inclusion {
    /// Takes the place of what a reference names. Errors: it is not included.
    pub fn enter(&self, reference: &Reference) -> Result<(Inclusion, String), Problem> {
        let limits = self.assembly.responder.services.site.limits.includes;
        let left = self.assembly.left.get().checked_sub(1).ok_or(Problem::TooMany(limits.count))?;
        self.assembly.left.set(left);
        let target = match reference.resolve(&self.place.path) {
            Err(Unresolved::OtherHost) => self.own_target(reference.text()),
            target => target,
        };
        let target = target.map_err(Problem::Reference)?;
        let place = self.place.of_part(&target, limits.depth)?;
        Ok((Inclusion { assembly: self.assembly.clone(), place: Rc::new(place) }, target))
    }

    /// The path of a URL of this host.
    fn own_target(&self, url: &str) -> Result<String, Unresolved> {
        let authority = std::str::from_utf8(self.assembly.head.authority()).unwrap_or_default();
        let behind = [Scheme::Http, Scheme::Https].iter().find_map(|scheme| {
            url.strip_prefix(scheme.as_str())?.strip_prefix("://")?.strip_prefix(authority)
        });
        match behind.filter(|path| path.starts_with('/') && !authority.is_empty()) {
            Some(path) => Reference::Virtual(path.to_owned()).resolve("/"),
            None => Err(Unresolved::OtherHost),
        }
    }

    /// The logins of the page.
    pub fn logins(&self) -> &[Passed] {
        &self.assembly.passed
    }

    /// The response that the client would get for `target`, but for the whole of it, and without a coding.
    pub async fn request(self, target: String) -> Result<Response, Problem> {
        let assembly = self.assembly.clone();
        let result = assembly.request(self, &target).await;
        if !matches!(result, Ok((_, Audience::All))) {
            assembly.audience.set(Audience::Client);
        }
        result.map(|(response, _)| response)
    }

    /// The size and the time of the file that the client would get for `target`.
    pub async fn facts(self, target: String) -> Result<Facts, Problem> {
        let assembly = self.assembly.clone();
        let fields: Vec<Field<'_>> = assembly.head.fields().collect();
        let head = assembly.part_head(&target, &fields)?;
        let request = Request { head: &head, connection: assembly.connection.info(), interim: None };
        let mut exchange = assembly.exchange(self, &head);
        let facts = exchange.file_facts(request).await;
        // Another client may get another result.
        if facts.is_err() || exchange.is_for_client() {
            assembly.audience.set(Audience::Client);
        }
        facts.map_err(|response| match response {
            Some(response) => Problem::Status(response.status()),
            None => Problem::NoFile,
        })
    }
}

impl Assembly {
    async fn request(&self, inclusion: Inclusion, target: &str) -> Result<(Response, Audience), Problem> {
        let fields: Vec<Field<'_>> = self.head.fields().collect();
        let head = self.part_head(target, &fields)?;
        let request = Request { head: &head, connection: self.connection.info(), interim: None };
        let mut exchange = self.exchange(inclusion, &head);
        exchange.services.counts.add(Count::Parts, 1);
        let throttle = match self.responder.limits {
            Some(limits) => exchange.admit(limits).await,
            None => Ok(None),
        };
        let throttle = throttle.map_err(|response| Problem::Status(response.status()))?;
        let response = exchange.respond(request).await.throttled(throttle);
        match response.status() {
            Status::OK | Status::NO_CONTENT => {
                let audience = exchange.audience(&response);
                Ok((response, audience))
            }
            status => Err(Problem::Status(status)),
        }
    }

    fn part_head<'h>(&'h self, target: &'h str, fields: &'h [Field<'h>]) -> Result<Head<'h>, Problem> {
        let limit = self.responder.services.site.limits.head.target;
        let head = self.head.head(fields).filter(|_| target.len() <= limit);
        head.and_then(|head| head.with_target(target)).ok_or(Problem::Path)
    }

    /// An exchange for a part.
    fn exchange<'e>(&'e self, inclusion: Inclusion, head: &'e Head<'e>) -> Exchange<'e> {
        let connection = self.connection.info();
        let way = Way::Driver(connection);
        Exchange {
            inclusion: Some(inclusion),
            ..Exchange::new(&self.responder, self.host, head, connection.client, way)
        }
    }
}

impl Exchange<'_> {
    /// Whether other clients may get another response.
    fn audience(&self, response: &Response) -> Audience {
        let is_for_client =
            self.is_for_client() || response.head.fields().any(|(name, value)| is_for_client(name, value));
        if is_for_client { Audience::Client } else { Audience::All }
    }

    /// Whether the client, or what is known of it, may decide about the response.
    fn is_for_client(&self) -> bool {
        let path = self.path().ok();
        let has_rules = path.is_none_or(|path| self.depends_on_client(&path));
        self.is_known() || (self.responder.needs.rules && has_rules)
    }

    /// Errors: the response to a client that may not have the file; or `None`: there is no file.
    async fn file_facts(&mut self, request: Request<'_>) -> Result<Facts, Option<Response>> {
        let path = self.path().map_err(Some)?;
        if let Some(response) = self.rejected_by_connection(&path) {
            return Err(Some(response));
        }
        if self.responder.needs.host_folders {
            self.choose_folder().await.map_err(Some)?;
        }
        self.enforce(request, |exchange| exchange.check_access(&path)).await.map_err(Some)?;
        let plan = self.plan(path.clone());
        self.authorize(request, &path, plan.route).await.map_err(Some)?;
        if let Some(walk) = &plan.walk
            && self.walk(&path, plan.route, walk, None).await.is_some()
        {
            return Err(None);
        }
        let planned = plan.files().ok_or(None)?;
        self.user_status(&planned).await.map_err(|_| None)?;
        let entry = self.find(&path, &planned).await.map_err(|_| None)?;
        if !matches!(entry.resource, Resource::File(..) | Resource::Page) {
            return Err(None);
        }
        self.enforce(request, |exchange| exchange.check_served(&path, &entry, &Decision::Full(0)))
            .await
            .map_err(Some)?;
        let stamp = entry.stamp().ok_or(None)?;
        Ok(Facts { size: stamp.size, modified: stamp.modified_seconds() })
    }
}
