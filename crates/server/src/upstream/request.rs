//! A request as an upstream receives it, as plain data: a program with its arguments and its environment, the
//! environment alone, or the bytes before the body. Starts nothing and sends nothing.

mod program;
mod trailers;
mod variables;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use script::environment::{Additions, Environment};
use script::fastcgi::Role;
use site::authorizer::{Authorizer, Subrequest, is_same_name, variable};
use site::forwarding::{Spelling, UNCHANGED};
use site::model::{QueryArguments, ResponseBuffering, Route, Script};
use site::route::RouteId;
use site::upstream::{Protocol, Upstream, UpstreamId};
use site::walk::Step;
use ssi::scan::Languages;
use taipan_http::digits::write_ip;
use taipan_http::fields::is_name;
use taipan_http::head::{Field, Head, Method, Persistence, Version, is_safe};
use taipan_http::known::KnownField;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Target, encode_path};

pub use self::variables::SOFTWARE;
use self::variables::additions;
use super::http_head::{Accepts, ConnectionOption, ForwardedHead, subrequest_head};
use super::http2::Http2Request;
use super::upgrade::{Upgrade, is_extended_connect};
use super::{Upstreams, scgi};
use crate::log;
use crate::peer::Peer;
use crate::pool::Sharing;
use crate::request::body::Length;
use crate::request::{ConnectionInfo, Request};
use crate::services::Services;
use crate::spawner::Spawner;
use crate::trace::ParentOf;

pub use self::program::Program;
pub use self::trailers::RequestTrailers;

/// What this server does with a response (Edge Architecture Specification §2.1): it has a cache that reads
/// `Surrogate-Control`, or carries out Edge Side Includes.
pub const SURROGATE_CAPABILITY: &str = "Surrogate-Capability";

/// A route of a host, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RouteOfHost {
    pub host: usize,
    pub route: RouteId,
}

/// The script or the application that answers a request.
#[derive(Clone)]
pub struct Handler {
    pub host: usize,
    /// The folder of the host's name, if it has one.
    pub folder: Option<Rc<Path>>,
    pub route: RouteId,
    pub kind: HandlerKind,
    /// In place of the query of the request.
    pub query: Option<Box<str>>,
    /// Bytes of the request's body. A larger one is rejected with 413.
    pub max_body: u64,
    /// How an upstream that speaks HTTP gets the path.
    pub spelling: Spelling,
    pub form: Form,
}

/// What its response is made into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The response to the client.
    Response,
    /// What a cache stores.
    Unrendered,
}

#[derive(Clone)]
pub enum HandlerKind {
    Script(Step),
    /// The whole of a route.
    Application {
        /// SCRIPT_NAME, and PATH_INFO.
        name: String,
        path_info: String,
    },
    /// Decides whether the request may pass.
    Authorizer(Arc<Authorizer>),
    /// A program that makes a listing of this folder.
    Lister {
        folder: PathBuf,
        /// The path of the request.
        path: SafePath<'static>,
    },
}

impl HandlerKind {
    /// The path of the script or the application that responds, whose limits count: the name of a script, without its
    /// PATH_INFO. `None`: the request is for something else.
    pub fn path(&self) -> Option<SafePath<'static>> {
        match self {
            HandlerKind::Script(step) => Some(step.script_name.clone()),
            HandlerKind::Application { name, path_info } => {
                SafePath::from_decoded(&[name.as_str(), path_info].concat()).ok()
            }
            HandlerKind::Authorizer(_) | HandlerKind::Lister { .. } => None,
        }
    }
}

/// The part of the response that the client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    All,
    /// HEAD.
    Head,
}

/// Whether a request can be sent again, by its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// It is safe (RFC 9110 §9.2.1): two endpoints may have it at the same time.
    AtOnce,
    /// It is idempotent (RFC 9110 §9.2.2): another endpoint may have it when there is no response.
    Later,
    No,
}

impl Repeats {
    fn of(method: &str) -> Repeats {
        match method {
            "PUT" | "DELETE" => Repeats::Later,
            _ if is_safe(method) => Repeats::AtOnce,
            _ => Repeats::No,
        }
    }
}

pub struct UpstreamRequest {
    pub message: Message,
    pub wanted: Wanted,
    pub repeats: Repeats,
    /// What the client reads of a response, as its request says.
    pub accepts: Accepts,
    /// Whether the upstream gets the body without its length.
    pub is_open_ended: bool,
    pub info: RequestInfo,
}

/// What an exchange has of its request.
#[derive(Clone, Default)]
pub struct RequestInfo {
    /// For the error log: `192.0.2.7 "GET /cgi-bin/a.cgi"`.
    pub label: Rc<str>,
    /// The upstream: `the script`, or `the application "app"`.
    pub upstream_name: Rc<str>,
    /// The requested host, of which the response may have fields.
    pub authority: Rc<str>,
    /// The protocol that the request asks for, and the permit for it.
    pub upgrade: Option<Upgrade>,
    /// The fields behind its body.
    pub trailers: RequestTrailers,
    /// The route whose client gets the fields behind the response. `None`: they are dropped.
    pub response_trailers: Option<RouteOfHost>,
    pub read_ahead: ReadAhead,
}

/// Where a response waits that is read ahead of its client.
#[derive(Clone, Default)]
pub enum ReadAhead {
    /// It is read as the client takes it.
    #[default]
    Nowhere,
    /// Without scripts, there is no spawner to make a file. The denials of authorizers are mostly short.
    InMemory,
    /// Behind what is in memory, in a file that the spawner makes.
    InFile(Rc<Spawner>),
}

impl ReadAhead {
    fn of(buffering: ResponseBuffering, spawner: Option<&Rc<Spawner>>) -> ReadAhead {
        match (buffering, spawner) {
            (ResponseBuffering::Off, _) => ReadAhead::Nowhere,
            (ResponseBuffering::On, None) => ReadAhead::InMemory,
            (ResponseBuffering::On, Some(spawner)) => ReadAhead::InFile(spawner.clone()),
        }
    }
}

/// All but the body, by protocol.
pub enum Message {
    Program(Program),
    FastCgi(Role, Environment),
    /// The bytes before the body.
    Scgi(Vec<u8>),
    Http(Vec<u8>),
}

impl Message {
    /// The same message, to which a part of the request is the parent.
    pub fn as_part(&self, parent: &ParentOf) -> Message {
        match self {
            Message::Program(program) => Message::Program(program.as_part(parent)),
            Message::FastCgi(role, environment) => {
                Message::FastCgi(*role, environment.changed(|pairs| parent.written(pairs)))
            }
            Message::Scgi(head) => Message::Scgi(parent.written(head)),
            Message::Http(head) => Message::Http(parent.written(head)),
        }
    }
}

/// What the message for an upstream is made of.
struct Parts<'a> {
    services: &'a Services,
    /// Without the fields that the upstream does not get.
    head: &'a Head<'a>,
    connection: ConnectionInfo<'a>,
    /// Of the body.
    length: Option<u64>,
    /// Of authorizers.
    variables: &'a Additions,
    /// The names of fields that only authorizers set.
    asserted: &'a [String],
    script: Option<&'a Script>,
    /// `None`: a program is started.
    upstream: Option<&'a Upstream>,
    /// For the error log.
    label: &'a str,
}

impl Handler {
    pub fn route<'s>(&self, services: &'s Services) -> &'s Route {
        services.site.hosts.at(self.host).routes.get(self.route)
    }

    /// The concurrency limit is that of the route as it is written, which may apply to many hosts.
    pub fn limited_route(&self, services: &Services) -> RouteOfHost {
        let routes = &services.site.hosts.at(self.host).routes;
        RouteOfHost { host: self.host, route: routes.configured(self.route) }
    }

    /// `None`: a program is started.
    pub fn upstream(&self, services: &Services) -> Option<UpstreamId> {
        match self.kind {
            HandlerKind::Authorizer(ref authorizer) => Some(authorizer.upstream),
            HandlerKind::Lister { .. } => None,
            _ => self.route(services).upstream(),
        }
    }

    pub fn is_authorizer(&self) -> bool {
        matches!(self.kind, HandlerKind::Authorizer(_))
    }

    /// The request for an authorizer that speaks HTTP.
    pub fn subrequest(&self) -> Option<&Subrequest> {
        match &self.kind {
            HandlerKind::Authorizer(authorizer) => authorizer.subrequest.as_deref(),
            _ => None,
        }
    }

    /// Scripts of the route that may run at one time, over all workers.
    pub fn processes(&self, services: &Services) -> usize {
        self.script(services).map_or(1, |script| script.processes)
    }

    /// SCRIPT_NAME.
    pub fn name(&self) -> Cow<'_, str> {
        match &self.kind {
            HandlerKind::Script(step) => format!("/{}", step.script_name.as_str()).into(),
            HandlerKind::Application { name, .. } => name.into(),
            HandlerKind::Authorizer(_) => Cow::Borrowed(""),
            HandlerKind::Lister { path, .. } => format!("/{}", path.as_str()).into(),
        }
    }

    fn query<'a>(&'a self, head: &Head<'a>) -> Option<&'a str> {
        self.query.as_deref().or(head.target.query())
    }

    fn path_info(&self) -> &str {
        match &self.kind {
            HandlerKind::Script(step) => &step.path_info,
            HandlerKind::Application { path_info, .. } => path_info,
            HandlerKind::Authorizer(_) | HandlerKind::Lister { .. } => "",
        }
    }

    fn script<'w>(&self, services: &'w Services) -> Option<&'w Script> {
        let route = self.route(services);
        match self.kind {
            HandlerKind::Lister { .. } => route.lister.as_deref(),
            _ => route.script.as_deref(),
        }
    }

    /// The request as the upstream gets it, without the fields that only authorizers set. `length`: that of its body.
    /// Errors: the status of the response, as the request has no form for the upstream.
    pub fn request(
        &self,
        upstreams: &Upstreams,
        Request { head, connection, .. }: Request<'_>,
        length: Length,
        variables: &Additions,
    ) -> Result<UpstreamRequest, Status> {
        let Upstreams { services, asserted, spawner, .. } = upstreams;
        let fields = self.fields(services, head, asserted);
        let head = &Head { fields: &fields, ..*head };
        let label: Rc<str> = label(head, connection.client).into();
        let script = self.script(services);
        let forwarding = script.map_or(&UNCHANGED, |script| &script.forwarding);
        // The route of an authorizer may have files alone.
        let buffering = script.map_or(ResponseBuffering::On, |script| script.buffering);
        let upstream = self.upstream(services).and_then(|id| services.site.upstreams.get(id));
        let upgrade = upstream.filter(|upstream| self.may_upgrade(upstream));
        let upgrade = upgrade.and_then(|_| Upgrade::requested(head, forwarding));
        if is_extended_connect(head) && upgrade.is_none() && !self.is_authorizer() {
            return Err(Status::NOT_IMPLEMENTED);
        }
        let is_open_ended = length == Length::Unknown;
        let length = match length {
            Length::Sized(bytes) => Some(bytes),
            Length::None | Length::Unknown => head.framing.empty_length(),
        };
        let parts = Parts {
            services,
            head,
            connection,
            length,
            variables,
            asserted,
            script,
            upstream,
            label: &label,
        };
        let message = self.message(&parts, upgrade.as_ref())?;
        let token = self.subrequest().map_or(head.token, |subrequest| subrequest.token(head));
        let wanted = if token == Method::Head.as_str() { Wanted::Head } else { Wanted::All };
        // A request to an authorizer changes nothing.
        let repeats = self.subrequest().map_or_else(|| Repeats::of(token), |_| Repeats::AtOnce);
        let upstream_name =
            upstream.map_or_else(|| "the script".into(), |upstream| upstream.to_string().into());
        let accepts = Accepts::of(head, forwarding);
        // By HTTP/2, fields that a client does not know cost it nothing.
        let reads_trailers = accepts == Accepts::Trailers || head.version == Version::Http2;
        let passes_trailers = reads_trailers && forwarding.trailers.pass_in_responses();
        let info = RequestInfo {
            label,
            upstream_name,
            authority: std::str::from_utf8(head.authority).unwrap_or_default().into(),
            upgrade,
            trailers: RequestTrailers::of(head, forwarding, asserted),
            response_trailers: passes_trailers.then_some(RouteOfHost { host: self.host, route: self.route }),
            read_ahead: ReadAhead::of(buffering, spawner.as_ref()),
        };
        Ok(UpstreamRequest { message, wanted, repeats, accepts, is_open_ended, info })
    }

    /// The client's fields that the upstream may get.
    fn fields<'h>(&self, services: &Services, head: &Head<'h>, asserted: &[String]) -> Cow<'h, [Field<'h>]> {
        let mut fields = Cow::Borrowed(head.fields);
        if !asserted.is_empty() {
            fields.to_mut().retain(|field| !asserted.iter().any(|name| is_same_name(field.name, name)));
        }
        let includes = &self.route(services).files.includes;
        if includes.cover_responses() && !self.is_authorizer() {
            fields = fields_for_page(&fields, includes.languages).into();
        }
        fields
    }

    /// Whether a connection to the upstream can switch its protocol. Only HTTP/1.1 has that, and TLS leaves the choice
    /// of the version to the handshake.
    fn may_upgrade(&self, upstream: &Upstream) -> bool {
        upstream.protocol == Protocol::Http
            && self.subrequest().is_none()
            && (!upstream.http2 || upstream.tls.is_some())
    }

    fn message(&self, parts: &Parts<'_>, upgrade: Option<&Upgrade>) -> Result<Message, Status> {
        let Some(upstream) = parts.upstream else { return self.program(parts).map(Message::Program) };
        Ok(match upstream.protocol {
            Protocol::FastCgi => {
                let role = if self.is_authorizer() { Role::Authorizer } else { Role::Responder };
                Message::FastCgi(role, self.variables(parts)?)
            }
            Protocol::Scgi => {
                Message::Scgi(scgi::request_head(&self.variables(parts)?, parts.length.unwrap_or(0)))
            }
            Protocol::Http => Message::Http(self.http_head(parts, upstream, upgrade)),
        })
    }

    fn program(&self, parts: &Parts<'_>) -> Result<Program, Status> {
        match (&self.kind, parts.script) {
            (HandlerKind::Lister { folder, path }, Some(script)) => {
                Program::lister(script, folder, path).ok_or(Status::INTERNAL_SERVER_ERROR)
            }
            (HandlerKind::Script(step), script) => {
                let query = match parts.services.site.scripts.query_arguments {
                    QueryArguments::Passed => self.query(parts.head),
                    QueryArguments::Withheld => None,
                };
                let file = step.file(self.folder.as_deref()).ok_or(Status::INTERNAL_SERVER_ERROR)?;
                Program::new(file, script, query, &self.variables(parts)?).ok_or(Status::BAD_REQUEST)
            }
            _ => Err(Status::NOT_FOUND),
        }
    }

    fn variables(&self, parts: &Parts<'_>) -> Result<Environment, Status> {
        let &Parts { services, head, connection, length, .. } = parts;
        let additions = additions(parts.script, parts.variables, parts.upstream);
        self.environment(services, head, connection, length, &additions).map_err(|error| {
            log::warn(format_args!("{}: {error}", parts.label));
            error.status()
        })
    }

    fn http_head(&self, parts: &Parts<'_>, upstream: &Upstream, upgrade: Option<&Upgrade>) -> Vec<u8> {
        let &Parts { head, connection, length, variables, asserted, script, .. } = parts;
        let path = self.replaced_path();
        let target = match &path {
            Some(path) => Target::Origin { path, query: self.query(head).filter(|query| !query.is_empty()) },
            None => head.target,
        };
        let persistence = if upstream.keep.is_zero() { Persistence::Close } else { Persistence::KeepAlive };
        if let Some(subrequest) = self.subrequest() {
            return subrequest_head(head, connection.client, subrequest, upstream, persistence);
        }
        let asserted: Vec<(&str, &[u8])> = asserted
            .iter()
            .filter_map(|name| Some((name.as_str(), variables.get(&variable(name))?)))
            .collect();
        let forwarding = script.map_or(&UNCHANGED, |script| &script.forwarding);
        let mut out = Vec::new();
        let forwarded = ForwardedHead {
            head: &Head { target, ..*head },
            client: connection.client,
            via: connection.via,
            length,
            upstream,
            forwarding,
            spelling: self.spelling,
            asserted: &asserted,
            connection: match upgrade {
                Some(upgrade) => ConnectionOption::Upgrade(upgrade.protocol.as_bytes(), upgrade.key()),
                None => ConnectionOption::of(persistence),
            },
        };
        forwarded.write(&mut out);
        out
    }

    /// The path that an upstream that speaks HTTP gets beside another query than that of the request: the one that
    /// rewrites have led to, or that of a fallback, which is the path of the request.
    fn replaced_path(&self) -> Option<String> {
        let (Some(_), HandlerKind::Application { name, path_info }) = (&self.query, &self.kind) else {
            return None;
        };
        let mut path = String::with_capacity(1 + name.len() + path_info.len());
        encode_path(&[name, path_info.as_str()].concat(), &mut path);
        Some(path)
    }

    /// The protocols that a 426 names (RFC 9110 §15.5.22) and that the route allows, as a list. `None`: there is none.
    pub fn named_upgrades(&self, services: &Services, status: Status, named: Option<&str>) -> Option<String> {
        let named = named.filter(|_| status == Status::UPGRADE_REQUIRED && !self.is_authorizer())?;
        let allowed = &self.script(services)?.forwarding.upgrades;
        let is_allowed = |name: &&str| allowed.iter().any(|own| own.eq_ignore_ascii_case(name));
        let names: Vec<&str> = named.split(',').map(str::trim).filter(is_allowed).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The path for the upstream, in one spelling for all that are the same to it. `None`: the request has none.
    pub fn canonical_path(&self, services: &Services, head: &Head<'_>) -> Option<String> {
        let replaced = self.replaced_path();
        let sent = replaced.as_deref().or(head.target.path())?;
        let script = self.script(services).filter(|_| !self.is_authorizer());
        let forwarding = script.map_or(&UNCHANGED, |script| &script.forwarding);
        Some(forwarding.canonical_path(sent, self.spelling))
    }

    /// What a field becomes in the response to a client that has requested `host`. `None`: it stays.
    pub fn response_field(
        &self,
        services: &Services,
        known: KnownField,
        value: &[u8],
        host: &str,
    ) -> Option<String> {
        let upstream = services.site.upstreams.get(self.upstream(services)?)?;
        let forwarding = &self.script(services)?.forwarding;
        let value = std::str::from_utf8(value).ok().filter(|_| upstream.protocol == Protocol::Http)?;
        forwarding.response_field(known, value, upstream, host)
    }
}

impl UpstreamRequest {
    /// What HTTP/2 needs, beside the head that HTTP/1.1 would have.
    pub fn http2<'a>(&'a self, head: &'a [u8], upstream: &Upstream) -> Http2Request<'a> {
        Http2Request {
            head,
            scheme: upstream.scheme(),
            accepts_trailers: self.accepts == Accepts::Trailers,
            is_open_ended: self.is_open_ended,
            trailer: self.info.trailers.announced.as_deref().filter(|_| self.is_open_ended),
        }
    }

    pub fn sharing(&self) -> Sharing {
        if self.info.upgrade.is_none() { Sharing::Allowed } else { Sharing::No }
    }
}

/// The fields of a request whose response may be a page: it is read here, and the upstream may write Edge Side
/// Includes.
fn fields_for_page<'f>(fields: &[Field<'f>], languages: Languages) -> Vec<Field<'f>> {
    let capability = Field { name: SURROGATE_CAPABILITY.as_bytes(), value: b"taipan=\"ESI/1.0\"" };
    let kept = fields.iter().filter(|field| !is_name(field.name, "accept-encoding")).copied();
    kept.chain(languages.esi.then_some(capability)).collect()
}

/// `192.0.2.7 "GET /cgi-bin/a.cgi"`.
pub fn label(head: &Head<'_>, client: Peer) -> String {
    let mut label = Vec::with_capacity(128);
    match client.ip() {
        Some(ip) => write_ip(ip, &mut label),
        None => label.extend_from_slice(b"unix"),
    }
    for part in [" \"", head.token, " ", head.target.path().unwrap_or("*"), "\""] {
        label.extend_from_slice(part.as_bytes());
    }
    String::from_utf8(label).unwrap_or_default()
}
