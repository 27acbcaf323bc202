//! What a script is told of a request: a program with its arguments and its environment, the environment
//! alone, or the head of a request; as plain data. Starts nothing, and says nothing to anybody.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use script::arguments::arguments;
use script::environment::{Additions, CgiRequest, Claims, Credentials, Environment, Limits, environment};
use script::fastcgi::Role;
use site::model::{Account, Interpreter, QueryArguments, Script};
use site::proxies::Via;
use site::route::RouteId;
use site::upstream::{Protocol, UpstreamId};
use site::walk::{self, Step};
use taipan_http::digits::{write_ip, write_number};
use taipan_http::fields::{host_and_port, is_name, trim_ows};
use taipan_http::forwarded;
use taipan_http::framing::Framing;
use taipan_http::head::{Head, Method};
use taipan_http::status::Status;
use taipan_http::target::normalized;

use crate::log;
use crate::peer::Peer;
use crate::request::Ends;
use crate::services::Services;
use crate::spawner::SpawnRequest;

/// As RFC 3875 §4.1.17 wants it.
const SOFTWARE: &str = concat!("taipan/", env!("CARGO_PKG_VERSION"));
/// In `Via`.
const NAME: &str = "taipan";
/// Fields that are for the next hop alone, that the server writes itself, or that programs would take for
/// what they are not; beside those of `taipan_http::forwarded`.
const OWN_FIELDS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What a request has led to that answers it: a script that is there, or an application.
pub struct Handler {
    pub host: usize,
    pub route: RouteId,
    pub what: HandlerKind,
    /// What it is told as its query, in place of that of the request.
    pub query: Option<String>,
    /// Bytes of the request's body; more is 413.
    pub max_body: u64,
}

pub enum HandlerKind {
    Script(Step),
    /// The whole of a route.
    Application {
        /// SCRIPT_NAME, and PATH_INFO.
        name: String,
        path_info: String,
    },
    /// Says whether the request may pass.
    Authorizer(UpstreamId),
}

/// Does the client want the body of the reply?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    All,
    /// HEAD.
    Head,
}

/// May the request be made again when nobody knows what came of it (RFC 9110 §9.2.2)?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    Yes,
    No,
}

/// What is to be said, and who has asked for it.
pub struct UpstreamRequest {
    pub call: Call,
    /// With FastCGI.
    pub role: Role,
    pub wanted: Wanted,
    pub repeats: Repeats,
    /// `192.0.2.7 "GET /cgi-bin/a.cgi"`, for the error log.
    pub who: Rc<str>,
    /// What answers: `the script`, or `the application "app"`.
    pub what: Rc<str>,
}

pub enum Call {
    Program(Program),
    /// The environment of the request, to an application that speaks FastCGI.
    Records(Environment),
    /// To one that speaks SCGI, or HTTP: what comes before the body.
    Head(Vec<u8>),
}

/// A program to be started.
pub struct Program {
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<u8>,
    folder: CString,
    account: CString,
}

impl Handler {
    /// Whose permit it has to be: that of the route as it is written, however many it is part of.
    pub fn route(&self, services: &Services) -> (usize, RouteId) {
        (self.host, services.site.hosts.at(self.host).routes.configured(self.route))
    }

    /// The application that answers; `None`: a program is started.
    pub fn application(&self, services: &Services) -> Option<UpstreamId> {
        match self.what {
            HandlerKind::Authorizer(id) => Some(id),
            _ => services.site.hosts.at(self.host).routes.get(self.route).upstream(),
        }
    }

    pub fn is_authorizer(&self) -> bool {
        matches!(self.what, HandlerKind::Authorizer(_))
    }

    /// Scripts of the route that may run at one time, over all workers.
    pub fn processes(&self, services: &Services) -> usize {
        self.script(services).map_or(1, |script| script.processes)
    }

    /// SCRIPT_NAME.
    pub fn name(&self) -> String {
        match &self.what {
            HandlerKind::Script(step) => format!("/{}", step.script_name.as_str()),
            HandlerKind::Application { name, .. } => name.clone(),
            HandlerKind::Authorizer(_) => String::new(),
        }
    }

    fn query<'a>(&'a self, head: &Head<'a>) -> Option<&'a str> {
        self.query.as_deref().or(head.target.query())
    }

    fn path_info(&self) -> &str {
        match &self.what {
            HandlerKind::Script(step) => &step.path_info,
            HandlerKind::Application { path_info, .. } => path_info,
            HandlerKind::Authorizer(_) => "",
        }
    }

    fn script<'w>(&self, services: &'w Services) -> Option<&'w Script> {
        services.site.hosts.at(self.host).routes.get(self.route).script.as_ref()
    }

    /// What is to be said for `head`, whose body has `body` bytes. Errors: the status of the answer to a
    /// request that cannot be told to a script.
    pub fn request(
        &self,
        services: &Services,
        head: &Head<'_>,
        ends: Ends,
        body: Option<u64>,
        variables: &Additions,
    ) -> Result<UpstreamRequest, Status> {
        let own = self.script(services);
        let script = Script {
            interpreter: own.and_then(|own| own.interpreter.clone()),
            environment: additions(own, variables, self.application(services)),
            credentials: match self.what {
                HandlerKind::Authorizer(_) => Credentials::Passed,
                _ => own.map_or(Credentials::Withheld, |own| own.credentials),
            },
            processes: 1,
            account: own.and_then(|own| own.account.clone()),
        };
        let script = &script;
        // An empty body is one, too.
        let body = body.or((head.framing == Framing::Sized(0)).then_some(0));
        let who: Rc<str> = who(head, ends.client).into();
        let environment = || self.environment(services, head, ends, body, script, &who);
        let application = self.application(services).and_then(|id| services.site.upstreams.get(id));
        let call = match application {
            None => Call::Program(self.program(services, script, head, &environment()?)?),
            Some(application) => match application.protocol {
                Protocol::FastCgi => Call::Records(environment()?),
                Protocol::Scgi => {
                    let mut bytes = Vec::new();
                    script::scgi::encode(&environment()?, body.unwrap_or(0), &mut bytes);
                    Call::Head(bytes)
                }
                Protocol::Http => Call::Head(request(head, ends, body, !application.keep.is_zero())),
            },
        };
        let wanted = if head.method == Method::Head { Wanted::Head } else { Wanted::All };
        let repeats = match head.token {
            "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "PROPFIND" | "REPORT" => Repeats::Yes,
            _ => Repeats::No,
        };
        let role = if self.is_authorizer() { Role::Authorizer } else { Role::Responder };
        let what =
            application.map_or_else(|| "the script".into(), |application| application.to_string().into());
        Ok(UpstreamRequest { call, role, wanted, repeats, who, what })
    }

    fn environment(
        &self,
        services: &Services,
        head: &Head<'_>,
        ends: Ends,
        body: Option<u64>,
        script: &Script,
        who: &str,
    ) -> Result<Environment, Status> {
        let host = services.site.hosts.at(self.host);
        let authority = std::str::from_utf8(head.authority).unwrap_or_default();
        let (name, port) = host_and_port(authority);
        let own_name =
            host.names.iter().find(|name| !name.starts_with('*')).map_or("localhost", String::as_str);
        let server_port = match (ends.via, ends.local) {
            (Via::Nothing, Some(local)) => local.port(),
            // The port that the client knows is the proxy's, or is not known.
            _ => port.unwrap_or(head.scheme.default_port()),
        };
        let translated = walk::path_translated(host, self.path_info()).unwrap_or_default();
        let script_name = self.name();
        let (file, root) = match &self.what {
            HandlerKind::Script(step) => (step.file(), walk::document_root(host, &step.root)),
            HandlerKind::Application { name, .. } => {
                let root = walk::document_root(host, Path::new("/"));
                (root.join(name.trim_start_matches('/')), root)
            }
            HandlerKind::Authorizer(_) => {
                let root = walk::document_root(host, Path::new("/"));
                (root.to_owned(), root)
            }
        };
        let request = CgiRequest {
            method: head.token,
            protocol: head.version.as_str(),
            scheme: head.scheme,
            path: &normalized(head.target.path().unwrap_or("/")),
            query: head.target.query(),
            query_string: self.query(head),
            host: authority,
            server_name: if name.is_empty() { own_name } else { name },
            server_port,
            software: SOFTWARE,
            server: ends.local,
            remote: ends.client.ip(),
            remote_port: ends.client.port(),
            script_name: &script_name,
            path_info: self.path_info(),
            path_translated: translated.as_os_str().as_bytes(),
            script_filename: file.as_os_str().as_bytes(),
            document_root: root.as_os_str().as_bytes(),
            body,
            fields: head.fields,
            credentials: script.credentials,
            claims: match ends.via {
                Via::Nothing => Claims::Withheld,
                Via::TrustedProxy => Claims::Passed,
            },
        };
        environment(&request, &script.environment, Limits::default()).map_err(|error| {
            log::warn(format_args!("{who}: {error}"));
            error.status()
        })
    }

    fn program(
        &self,
        services: &Services,
        script: &Script,
        head: &Head<'_>,
        environment: &Environment,
    ) -> Result<Program, Status> {
        let HandlerKind::Script(step) = &self.what else { return Err(Status::NOT_FOUND) };
        let query = match services.site.scripts.query_arguments {
            QueryArguments::Passed => self.query(head),
            QueryArguments::Withheld => None,
        };
        Program::new(step.file(), script, query, environment.block()).ok_or(Status::BAD_REQUEST)
    }
}

impl Program {
    /// `None`: with a NUL in a path, which no file has.
    fn new(file: PathBuf, script: &Script, query: Option<&str>, environment: &[u8]) -> Option<Program> {
        let path = c_string(&file)?;
        let folder = c_string(file.parent()?)?;
        let (program, arguments) = match &script.interpreter {
            Some(Interpreter::Program(interpreter)) => {
                let program = c_string(interpreter)?;
                (program.clone(), vec![program, path])
            }
            Some(Interpreter::Upstream(_)) | None => {
                let words = query.and_then(arguments).unwrap_or_default();
                let words = words.into_iter().filter_map(|word| CString::new(word).ok());
                (path.clone(), [path].into_iter().chain(words).collect())
            }
        };
        let account = script.account.as_ref().map_or(String::new(), Account::to_string);
        let account = CString::new(account).ok()?;
        Some(Program { program, arguments, environment: environment.to_vec(), folder, account })
    }

    pub fn launch<'a>(&'a self, arguments: &'a [&'a CStr]) -> SpawnRequest<'a> {
        let Program { program, environment, folder, account, .. } = self;
        SpawnRequest { program, arguments, environment, folder, account }
    }

    pub fn arguments(&self) -> Vec<&CStr> {
        self.arguments.iter().map(CString::as_c_str).collect()
    }
}

/// What a script is told in addition: what its route says, and then what an authorizer has said. A program
/// is told no more of that than who asks, for nothing else is expected of what starts it.
fn additions(own: Option<&Script>, variables: &Additions, application: Option<UpstreamId>) -> Additions {
    let mut additions = own.map(|own| own.environment.clone()).unwrap_or_default();
    for (name, value) in variables.iter() {
        if application.is_some() || matches!(name, "REMOTE_USER" | "AUTH_TYPE") {
            // What the route says counts.
            _ = additions.add(name, value);
        }
    }
    additions
}

/// The head of the request as it is passed on by HTTP/1.1. The client is named by this server alone; a
/// name with an underscore would be mistaken for one with a dash.
fn request(head: &Head<'_>, ends: Ends, body: Option<u64>, persists: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let path = normalized(head.target.path().unwrap_or("*"));
    put(&mut out, &[head.token.as_bytes(), b" ", path.as_bytes()]);
    if let Some(query) = head.target.query() {
        put(&mut out, &[b"?", query.as_bytes()]);
    }
    put(&mut out, &[b" HTTP/1.1\r\nHost: ", head.authority, b"\r\n"]);
    let connection = || head.values("connection").flat_map(|value| value.split(|byte| *byte == b','));
    for field in head.fields {
        let is_named = || connection().any(|option| trim_ows(option).eq_ignore_ascii_case(field.name));
        let is_claim = match ends.via {
            Via::Nothing => forwarded::is_claim(field.name),
            Via::TrustedProxy => forwarded::is_interpreted(field.name),
        };
        let is_own = OWN_FIELDS.iter().any(|own| is_name(field.name, own));
        if !is_own && !is_claim && !field.name.contains(&b'_') && !is_named() {
            put(&mut out, &[field.name, b": ", field.value, b"\r\n"]);
        }
    }
    // RFC 9110 §7.6.3, behind what others have written there.
    let received = head.version.as_str().trim_start_matches("HTTP/");
    put(&mut out, &[b"Via: ", received.as_bytes(), b" ", NAME.as_bytes(), b"\r\n"]);
    if let Some(ip) = ends.client.ip() {
        out.extend_from_slice(b"X-Forwarded-For: ");
        write_ip(ip, &mut out);
        out.extend_from_slice(b"\r\n");
    }
    put(&mut out, &[b"X-Forwarded-Proto: ", head.scheme.as_str().as_bytes(), b"\r\n"]);
    put(&mut out, &[b"X-Forwarded-Host: ", head.authority, b"\r\n"]);
    if let Some(bytes) = body {
        out.extend_from_slice(b"Content-Length: ");
        write_number(bytes, &mut out);
        out.extend_from_slice(b"\r\n");
    }
    put(&mut out, &[if persists { b"\r\n" } else { b"Connection: close\r\n\r\n" }]);
    out
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Whom a line of the error log is about.
pub fn who(head: &Head<'_>, client: Peer) -> String {
    let mut who = Vec::with_capacity(128);
    match client.ip() {
        Some(ip) => write_ip(ip, &mut who),
        None => who.extend_from_slice(b"unix"),
    }
    for part in [" \"", head.token, " ", head.target.path().unwrap_or("*"), "\""] {
        who.extend_from_slice(part.as_bytes());
    }
    String::from_utf8(who).unwrap_or_default()
}

fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}
