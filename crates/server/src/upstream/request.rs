//! A request as an upstream receives it, as plain data: a program with its arguments and its environment, the
//! environment alone, or the bytes before the body. Starts nothing and sends nothing.

use std::borrow::Cow;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use script::arguments::arguments;
use script::environment::{
    Additions, CgiRequest, Claims, Credentials, Environment, EnvironmentError, Limits, environment,
};
use script::fastcgi::Role;
use site::authorizer::{Authorizer, Subrequest, is_same_name, variable};
use site::forwarding::{Forwarding, Spelling, UNCHANGED};
use site::model::{Account, HeaderRule, Interpreter, QueryArguments, Script};
use site::proxies::Via;
use site::route::RouteId;
use site::upstream::{Protocol, Upstream, UpstreamId};
use site::walk::{self, Step};
use ssi::scan::Languages;
use taipan_http::digits::write_ip;
use taipan_http::fields::{host_and_port, is_name};
use taipan_http::framing::Framing;
use taipan_http::head::{Field, Head, Method, Persistence, Version};
use taipan_http::known::KnownField;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, normalized};
use taipan_http::trailers::{Trailers, announced};

use super::http::{Accepts, is_plain_name};
use super::http2::Http2Request;
use super::upgrade::{Upgrade, is_extended_connect};
use super::{http, scgi};
use crate::handshake::Export;
use crate::log;
use crate::peer::Peer;
use crate::pool::Sharing;
use crate::request::ConnectionInfo;
use crate::services::Services;
use crate::spawner::SpawnRequest;
use crate::spawner::message::block;
use crate::trace::ParentOf;

/// Edge Architecture Specification §2.1: what this server does with a response.
const CAPABILITY: &str = "Surrogate-Capability";
/// SERVER_SOFTWARE (RFC 3875 §4.1.17).
const SOFTWARE: &str = concat!("taipan/", env!("CARGO_PKG_VERSION"));

/// The script or the application that answers a request.
#[derive(Clone)]
pub struct Handler {
    pub host: usize,
    /// The folder of the host's name, if it has one.
    pub folder: Option<Rc<Path>>,
    pub route: RouteId,
    pub kind: HandlerKind,
    /// In place of the query of the request.
    pub query: Option<String>,
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

pub struct UpstreamRequest {
    pub message: Message,
    pub wanted: Wanted,
    pub repeats: Repeats,
    /// For the error log: `192.0.2.7 "GET /cgi-bin/a.cgi"`.
    pub label: Rc<str>,
    pub upgrade: Option<Upgrade>,
    /// What the client reads of a response, as its request says.
    pub accepts: Accepts,
    /// The fields behind its body.
    pub trailers: RequestTrailers,
    /// The route whose client gets the fields behind the response. `None`: they are dropped.
    pub response_trailers: Option<(usize, RouteId)>,
    /// Whether the upstream gets the body without its length.
    pub is_open_ended: bool,
    /// The requested host.
    pub authority: Rc<str>,
    /// The upstream: `the script`, or `the application "app"`.
    pub upstream_name: Rc<str>,
}

/// Which fields behind the body of a request are sent on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestTrailers {
    /// Names that this server or the route sets. `None`: no field is sent on.
    withheld: Option<Rc<[String]>>,
    /// The names that the client has announced.
    pub announced: Option<Rc<str>>,
}

impl RequestTrailers {
    fn of(head: &Head<'_>, forwarding: &Forwarding, asserted: &[String]) -> RequestTrailers {
        if !head.framing.has_body() || !forwarding.trailers.pass_in_requests() {
            return RequestTrailers::default();
        }
        let of_route = forwarding.fields.iter().map(HeaderRule::name);
        let withheld: Rc<[String]> =
            of_route.chain(asserted.iter().map(String::as_str)).map(str::to_owned).collect();
        let is_withheld =
            |name: &[u8]| !is_plain_name(name) || withheld.iter().any(|own| is_same_name(name, own));
        let announced = announced(head.values("trailer"), is_withheld).map(Rc::from);
        RequestTrailers { withheld: Some(withheld), announced }
    }

    /// Those of `trailers` that are sent on.
    pub fn passed(&self, mut trailers: Trailers) -> Trailers {
        let Some(withheld) = &self.withheld else { return Trailers::new() };
        trailers.retain(|(name, _)| {
            let name = name.as_bytes();
            is_plain_name(name) && !withheld.iter().any(|own| is_same_name(name, own))
        });
        trailers
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

/// A program to start.
#[derive(Clone)]
pub struct Program {
    program: CString,
    arguments: Vec<u8>,
    environment: Vec<u8>,
    folder: CString,
    account: CString,
}

impl Handler {
    /// The concurrency limit is that of the route as it is written, which may apply to many hosts.
    pub fn route(&self, services: &Services) -> (usize, RouteId) {
        (self.host, services.site.hosts.at(self.host).routes.configured(self.route))
    }

    /// `None`: a program is started.
    pub fn upstream(&self, services: &Services) -> Option<UpstreamId> {
        match self.kind {
            HandlerKind::Authorizer(ref authorizer) => Some(authorizer.upstream),
            HandlerKind::Lister { .. } => None,
            _ => services.site.hosts.at(self.host).routes.get(self.route).upstream(),
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
        let route = services.site.hosts.at(self.host).routes.get(self.route);
        match self.kind {
            HandlerKind::Lister { .. } => route.lister.as_deref(),
            _ => route.script.as_deref(),
        }
    }

    /// The request of `head`, whose body has `length` bytes, without the client's own fields of the names in
    /// `asserted`. Errors: the status of the response, as the request has no form for the upstream.
    pub fn request<'a>(
        &self,
        services: &Services,
        head: &Head<'_>,
        connection: ConnectionInfo,
        length: Option<u64>,
        variables: &Additions,
        asserted: &'a [String],
    ) -> Result<UpstreamRequest, Status> {
        let kept: Vec<Field<'_>>;
        let mut head = *head;
        if !asserted.is_empty() {
            let is_asserted = |field: &Field<'_>| asserted.iter().any(|name| is_same_name(field.name, name));
            kept = head.fields.iter().filter(|field| !is_asserted(field)).copied().collect();
            head.fields = &kept;
        }
        let for_page: Vec<Field<'_>>;
        let includes = &services.site.hosts.at(self.host).routes.get(self.route).files.includes;
        if includes.cover_responses() && !self.is_authorizer() {
            for_page = fields_for_page(head.fields, includes.languages);
            head.fields = &for_page;
        }
        let head = &head;
        let own = self.script(services);
        // The client has announced an empty body.
        let length = length.or((head.framing == Framing::Sized(0)).then_some(0));
        let label: Rc<str> = label(head, connection.client).into();
        let environment = || {
            let additions = additions(own, variables, self.upstream(services));
            self.environment(services, head, connection, length, &additions).map_err(|error| {
                log::warn(format_args!("{label}: {error}"));
                error.status()
            })
        };
        let upstream = self.upstream(services).and_then(|id| services.site.upstreams.get(id));
        let mut upgrade = None;
        let message = match upstream.map(|upstream| upstream.protocol) {
            None => Message::Program(match (&self.kind, own) {
                (HandlerKind::Lister { folder, path }, Some(own)) => {
                    Program::lister(own, folder, path).ok_or(Status::INTERNAL_SERVER_ERROR)?
                }
                _ => self.program(services, own, head, &environment()?)?,
            }),
            Some(Protocol::FastCgi) => {
                let role = if self.is_authorizer() { Role::Authorizer } else { Role::Responder };
                Message::FastCgi(role, environment()?)
            }
            Some(Protocol::Scgi) => Message::Scgi(scgi::request_head(&environment()?, length.unwrap_or(0))),
            Some(Protocol::Http) => {
                let closes = upstream.is_some_and(|upstream| upstream.keep.is_zero());
                let persistence = if closes { Persistence::Close } else { Persistence::KeepAlive };
                Message::Http(match self.subrequest() {
                    Some(subrequest) => {
                        http::subrequest_head(head, connection.client, subrequest, persistence)
                    }
                    None => {
                        let set = |name: &'a String| Some((name.as_str(), variables.get(&variable(name))?));
                        let asserted: Vec<(&str, &[u8])> = asserted.iter().filter_map(set).collect();
                        let forwarding = own.map_or(&UNCHANGED, |own| &own.forwarding);
                        // Only HTTP/1.1 has it, which is chosen in the TLS handshake.
                        let can_upgrade =
                            upstream.is_some_and(|upstream| !upstream.http2 || upstream.tls.is_some());
                        upgrade = Upgrade::requested(head, forwarding).filter(|_| can_upgrade);
                        let next = match &upgrade {
                            Some(upgrade) => http::Next::Upgrade(upgrade.protocol.as_bytes(), upgrade.key()),
                            None => http::Next::of(persistence),
                        };
                        http::request_head(
                            head,
                            (connection.client, connection.via),
                            length,
                            (forwarding, self.spelling),
                            &asserted,
                            next,
                        )
                    }
                })
            }
        };
        if is_extended_connect(head) && upgrade.is_none() && !self.is_authorizer() {
            return Err(Status::NOT_IMPLEMENTED);
        }
        let token = self.subrequest().map_or(head.token, |subrequest| subrequest.token(head));
        let wanted = if token == Method::Head.as_str() { Wanted::Head } else { Wanted::All };
        let repeats = match token {
            // A question changes nothing.
            _ if self.subrequest().is_some() => Repeats::AtOnce,
            "GET" | "HEAD" | "OPTIONS" | "PROPFIND" | "REPORT" => Repeats::AtOnce,
            "PUT" | "DELETE" => Repeats::Later,
            _ => Repeats::No,
        };
        let upstream_name =
            upstream.map_or_else(|| "the script".into(), |upstream| upstream.to_string().into());
        let authority = std::str::from_utf8(head.authority).unwrap_or_default().into();
        let forwarding = own.map_or(&UNCHANGED, |own| &own.forwarding);
        let accepts = Accepts::of(head, forwarding);
        // By HTTP/2, fields that a client does not know cost it nothing.
        let reads_trailers = accepts == Accepts::Trailers || head.version == Version::Http2;
        let passes_trailers = reads_trailers && forwarding.trailers.pass_in_responses();
        let trailers = RequestTrailers::of(head, forwarding, asserted);
        Ok(UpstreamRequest {
            message,
            wanted,
            repeats,
            label,
            upgrade,
            accepts,
            trailers,
            response_trailers: passes_trailers.then_some((self.host, self.route)),
            is_open_ended: false,
            authority,
            upstream_name,
        })
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

    /// The variables of a request. `additions` replace those of the same name. Errors: the request cannot be written as
    /// variables.
    pub fn environment(
        &self,
        services: &Services,
        head: &Head<'_>,
        connection: ConnectionInfo,
        body: Option<u64>,
        additions: &Additions,
    ) -> Result<Environment, EnvironmentError> {
        let host = services.site.hosts.at(self.host);
        let authority = std::str::from_utf8(head.authority).unwrap_or_default();
        let (name, port) = host_and_port(authority);
        let own_name =
            host.names.iter().find(|name| !name.starts_with('*')).map_or("localhost", String::as_str);
        let server_port = match (connection.via, connection.local) {
            (Via::Nothing, Some(local)) => local.port(),
            // The port that the client knows is the proxy's, or is not known.
            _ => port.unwrap_or(head.scheme.default_port()),
        };
        let of_host = self.folder.as_deref();
        let translated = walk::path_translated(host, of_host, self.path_info()).unwrap_or_default();
        let script_name = self.name();
        let (file, root) = match &self.kind {
            HandlerKind::Script(step) => {
                // No script is found without its folder.
                let file = step.file(of_host).unwrap_or_default();
                let root = step.root(of_host).unwrap_or(Path::new("/"));
                (file, walk::document_root(host, of_host, root))
            }
            HandlerKind::Application { name, .. } => {
                let root = walk::document_root(host, of_host, Path::new("/"));
                (root.join(name.trim_start_matches('/')), root)
            }
            HandlerKind::Authorizer(_) | HandlerKind::Lister { .. } => {
                let root = walk::document_root(host, of_host, Path::new("/"));
                (root.to_owned(), root)
            }
        };
        let export = match services.site.tls.export_client_certificate {
            true => Export::Certificate,
            false => Export::Facts,
        };
        let tls = connection.tls.map(|facts| facts.variables(export)).unwrap_or_default();
        let remote_name = connection.client.ip().and_then(|address| services.client_names.find(address));
        let request = CgiRequest {
            method: head.token,
            protocol: head.version.as_str(),
            scheme: head.scheme,
            is_early: head.needs_early_data(),
            tls: &tls,
            path: &normalized(head.target.path().unwrap_or("/")),
            query: head.target.query(),
            query_string: self.query(head),
            host: authority,
            server_name: if name.is_empty() { own_name } else { name },
            server_port,
            software: SOFTWARE,
            server: connection.local,
            remote: connection.client.ip(),
            remote_port: connection.client.port(),
            remote_name: remote_name.as_deref(),
            script_name: &script_name,
            path_info: self.path_info(),
            path_translated: translated.as_os_str().as_bytes(),
            script_filename: file.as_os_str().as_bytes(),
            document_root: root.as_os_str().as_bytes(),
            body,
            fields: head.fields,
            credentials: match self.kind {
                HandlerKind::Authorizer(_) => Credentials::Passed,
                _ => self.script(services).map_or(Credentials::Withheld, |own| own.credentials),
            },
            claims: match connection.via {
                Via::Nothing => Claims::Withheld,
                Via::TrustedProxy => Claims::Passed,
            },
        };
        environment(&request, additions, Limits::default())
    }

    fn program(
        &self,
        services: &Services,
        script: Option<&Script>,
        head: &Head<'_>,
        environment: &Environment,
    ) -> Result<Program, Status> {
        let HandlerKind::Script(step) = &self.kind else { return Err(Status::NOT_FOUND) };
        let query = match services.site.scripts.query_arguments {
            QueryArguments::Passed => self.query(head),
            QueryArguments::Withheld => None,
        };
        let file = step.file(self.folder.as_deref()).ok_or(Status::INTERNAL_SERVER_ERROR)?;
        Program::new(file, script, query, environment).ok_or(Status::BAD_REQUEST)
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
            trailer: self.trailers.announced.as_deref().filter(|_| self.is_open_ended),
        }
    }

    pub fn sharing(&self) -> Sharing {
        if self.upgrade.is_none() { Sharing::Allowed } else { Sharing::No }
    }
}

impl Program {
    /// `None`: a path has a NUL, which no file has.
    fn new(
        file: PathBuf,
        script: Option<&Script>,
        query: Option<&str>,
        environment: &Environment,
    ) -> Option<Program> {
        let path = c_string(&file)?;
        let folder = c_string(file.parent()?)?;
        let (program, arguments) = match script.and_then(|script| script.interpreter.as_ref()) {
            Some(Interpreter::Program(interpreter)) => {
                let program = c_string(interpreter)?;
                let arguments = block([&*program, &path]);
                (program, arguments)
            }
            Some(Interpreter::Upstream(_)) | None => {
                let words = query.and_then(arguments).unwrap_or_default();
                let words = words.into_iter().filter_map(|word| CString::new(word).ok());
                let arguments: Vec<CString> = [path.clone()].into_iter().chain(words).collect();
                (path, block(arguments.iter().map(CString::as_c_str)))
            }
        };
        let account =
            script.and_then(|script| script.account.as_ref()).map_or(String::new(), Account::to_string);
        let account = CString::new(account).ok()?;
        Some(Program { program, arguments, environment: environment.block(), folder, account })
    }

    /// A program with the arguments of Boa's DirectoryMaker: a folder, and the path of the request. `None`: a path has
    /// a NUL.
    fn lister(script: &Script, folder: &Path, path: &SafePath<'_>) -> Option<Program> {
        let Some(Interpreter::Program(program)) = &script.interpreter else { return None };
        let (program, folder) = (c_string(program)?, c_string(folder)?);
        let title = CString::new(format!("/{}", path.as_str())).ok()?;
        let variables =
            script.environment.iter().map(|(name, value)| [name.as_bytes(), b"=", value].concat());
        let variables: Vec<CString> = variables.filter_map(|variable| CString::new(variable).ok()).collect();
        let account = CString::new(script.account.as_ref().map_or(String::new(), Account::to_string)).ok()?;
        let (arguments, environment) =
            (block([&*program, &folder, &title]), block(variables.iter().map(CString::as_c_str)));
        Some(Program { program, arguments, environment, folder, account })
    }

    /// As [`Message::as_part`].
    pub fn as_part(&self, parent: &ParentOf) -> Program {
        Program { environment: parent.written(&self.environment), ..self.clone() }
    }

    pub fn spawn_request(&self) -> SpawnRequest<'_> {
        let Program { program, arguments, environment, folder, account } = self;
        SpawnRequest { program, arguments, environment, folder, account }
    }
}

/// The additional variables: those of the route, then those of an authorizer. A program gets only the user and the
/// fields of the latter: others might change how it starts.
fn additions(own: Option<&Script>, variables: &Additions, upstream: Option<UpstreamId>) -> Additions {
    let mut additions = own.map(|own| own.environment.clone()).unwrap_or_default();
    for (name, value) in variables.iter() {
        let is_of_request = matches!(name, "REMOTE_USER" | "AUTH_TYPE") || name.starts_with("HTTP_");
        if upstream.is_some() || is_of_request {
            // The variables of the route take precedence.
            _ = additions.add(name, value);
        }
    }
    additions
}

/// The fields of a request whose response may be a page: it is read here, and the upstream may write Edge Side
/// Includes.
fn fields_for_page<'f>(fields: &[Field<'f>], languages: Languages) -> Vec<Field<'f>> {
    let capability = Field { name: CAPABILITY.as_bytes(), value: b"taipan=\"ESI/1.0\"" };
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

fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_have_names_that_no_program_takes_for_others() {
        let withheld: Option<Rc<[String]>> = Some(Rc::from(vec!["remote-user".to_owned()]));
        let own = RequestTrailers { withheld, announced: None };
        let names = ["x-sum", "Remote-User", "remote_user", "remote.user", "remote!user", "sum2"];
        let sent: Trailers = names.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
        let passed: Vec<String> = own.passed(sent).into_iter().map(|(name, _)| name).collect();
        assert_eq!(passed, ["x-sum", "sum2"]);
    }
}
