//! `taipan explain METHOD URL`: shows, step by step, how the server would respond. It runs the code that serves
//! requests, without a socket.

mod files;
mod plan;
mod upstream;

use std::cell::Cell;
use std::fmt::Arguments;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;

use cache::settings::Settings;
use dav::method::Method as DavMethod;
use site::access::{Facts, Tls};
use site::authorizer::Authorizer;
use site::compress::Codings;
use site::decide::{Offer, Resource};
use site::forward_proxy::Host as Destination;
use site::host::AddressGroup;
use site::model::{Host, Site};
use site::needs::Needs;
use site::plan::{Cause, PlannedAction, plan};
use site::proxies::Via;
use site::publishing::{MissingFolders, Mode, Publishing, upload_token};
use site::tls::{ClientCertificates, ConnectionRejection};
use site::tracing::Context;
use taipan_http::fields::host_and_port;
use taipan_http::head::{self, FieldStore, Head, Method};
use taipan_http::negotiate::Coding;
use taipan_http::path_text::is_utf8;
use taipan_http::target::{SafePath, Scheme, Target};
use taipan_http::trace_context::TRACEPARENT;

use self::plan::Responding;
use crate::exchange::{self, Responder};
use crate::files::roots::OpenRoots;
use crate::flags::Explain;
use crate::peer::Peer;
use crate::request::body::RequestBody;
use crate::request::{ConnectionInfo, Request};
use crate::response::{Body, Response};
use crate::services::Services;
use crate::steps::WIDTH;
use crate::trace::Trace;
use crate::{start, steps, terminal};

/// A request, and what the configuration has for it.
struct Explanation<'a> {
    responder: &'a Rc<Responder>,
    head: &'a Head<'a>,
    client: Peer,
    /// The address of the server that the request is sent to.
    to: Option<SocketAddr>,
    group: AddressGroup,
    host_index: usize,
    host: &'a Host,
}

pub fn explain(flags: &Explain) -> ExitCode {
    let site = match start::load(&flags.source) {
        Ok(site) => site,
        Err(lines) => return terminal::fail_all(lines, 2),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    let result = runtime.and_then(|runtime| {
        let roots = OpenRoots::of(&site);
        runtime.block_on(async {
            let is_plain = flags.url.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("http://"));
            // Authorizers are not called. Without a handshake, it is not known which certificate the client has.
            let needs = Needs::of(&site);
            let needs = Needs { authorizers: false, rejections: is_plain && needs.rejections, ..needs };
            let responder = Responder::without_upstreams(Services::new(site, None).0, roots);
            let (rejects, withheld) = (Cell::new(needs.rejections), Some(Cell::new(false)));
            let responder = Rc::new(Responder { needs, rejects, withheld, ..responder });
            let authority = flags.url.split('/').nth(2).unwrap_or_default();
            let authority = authority.split('?').next().unwrap_or_default();
            let client = Peer::from((flags.from, None));
            let forwards = is_plain && responder.forwards(authority.as_bytes(), client);
            let origin = if forwards { format!("http://{authority}") } else { String::new() };
            print_explanation(&responder, &request(flags, &origin), flags).await
        })
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => terminal::fail(error, 2),
    }
}

/// The bytes of the request. `origin` begins its target: that of a request for another server is a whole URL.
fn request(flags: &Explain, origin: &str) -> Vec<u8> {
    let Explain { method, url, fields, .. } = flags;
    let (authority, target) = match url.split_once("://") {
        Some((_, rest)) => rest.find(['/', '?']).map_or((rest, "/"), |at| rest.split_at(at)),
        None => ("localhost", url.as_str()),
    };
    let slash = if target.starts_with('?') { "/" } else { "" };
    let mut bytes = format!("{method} {origin}{slash}{target} HTTP/1.1\r\n").into_bytes();
    if !fields.iter().any(|f| f.to_ascii_lowercase().starts_with("host:")) {
        bytes.extend_from_slice(format!("Host: {authority}\r\n").as_bytes());
    }
    for field in fields {
        bytes.extend_from_slice(field.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// The scheme of the URL, as a proxy in front would report it.
fn scheme(flags: &Explain) -> Scheme {
    let named = flags.url.split_once("://").and_then(|(scheme, _)| Scheme::from_bytes(scheme.as_bytes()));
    named.unwrap_or(Scheme::Http)
}

async fn print_explanation(responder: &Rc<Responder>, bytes: &[u8], flags: &Explain) -> io::Result<()> {
    let escaped = head::escape_target(bytes).map(|(escaped, _)| escaped);
    let mut store = FieldStore::new();
    let (services, site) = (&responder.services, &responder.services.site);
    let head = match head::parse(escaped.as_deref().unwrap_or(bytes), &mut store, &site.limits.head) {
        Ok(Some((head, _))) => Head { scheme: scheme(flags), ..head },
        Ok(None) => return Err(io::Error::other("this is not a complete request")),
        Err(error) => {
            row("request", format_args!("rejected: {}", error.rule()));
            print_response(&exchange::error_response(
                services,
                Method::Unknown,
                error.status(),
                Some(error.rule()),
            ));
            return Ok(());
        }
    };
    let to = flags.to.map(|to| SocketAddr::new(to.ip, to.port.unwrap_or(head.scheme.default_port())));
    let group = site.hosts.group(to);
    let host_index = site.hosts.find_in(group, head.authority);
    let (host, client) = (site.hosts.at(host_index), Peer::from((flags.from, None)));
    Explanation { responder, head: &head, client, to, group, host_index, host }.print().await;
    Ok(())
}

impl Explanation<'_> {
    async fn print(&self) {
        let (head, hosts) = (self.head, &self.site().hosts);
        let authority = String::from_utf8_lossy(head.authority);
        row("request", format_args!("{} {} for host \"{authority}\"", head.token, head.raw_target));
        if self.print_elsewhere() {
            return;
        }
        print_steps(steps::host(self.site(), self.host_index, head.authority));
        if hosts.has_addresses() && self.group == AddressGroup::default() {
            row("", format_args!("on an address that no host has in `addresses`; --to names another one"));
        }
        if let Some(name) = hosts.canonical(self.host_index, head.authority) {
            row("", format_args!("which gives itself the name {name}"));
        }
        if self.redirects_to_https() {
            row("", format_args!("which redirects requests without TLS"));
            return print_response(&self.respond().await);
        }
        if let ClientCertificates::Required(_) = self.host.tls.clients {
            row("first", format_args!("a certificate of the client, which explain does not ask for"));
        }
        self.print_rules();
        self.print_trace();
        let responding = self.print_plan();
        self.print_authorizers();
        let response = self.respond().await;
        let is_withheld = self.responder.has_withheld();
        if is_withheld && self.print_publishing() {
            return;
        }
        match responding {
            Responding::Script if is_withheld => {
                row("response", format_args!("the output of the script, which explain does not run"));
            }
            Responding::Application if is_withheld => {
                row("response", format_args!("that of the application, which explain does not call"));
            }
            Responding::Server | Responding::Nothing if is_withheld => {
                row(
                    "response",
                    format_args!("the page, with the output of what it includes, which explain does not run"),
                );
            }
            // Rules or passwords may precede what would respond.
            Responding::Script | Responding::Application => print_response(&response),
            Responding::Server | Responding::Nothing => {
                self.print_compression();
                print_response(&response);
            }
        }
    }

    fn site(&self) -> &Site {
        &self.responder.services.site
    }

    /// Prints where a tunnel, or a request for a URL, would lead. `false`: the request is for this server.
    fn print_elsewhere(&self) -> bool {
        let site = self.site();
        let Some(rules) = &site.forward_proxy else { return false };
        let (word, authority) = match self.head.target {
            Target::Authority(authority) => ("tunnel", authority.to_owned()),
            Target::Absolute { authority, .. }
                if self.responder.forwards(self.head.authority, self.client) =>
            {
                let port = if host_and_port(authority).1.is_none() { ":80" } else { "" };
                ("forward", format!("{authority}{port}"))
            }
            _ => return false,
        };
        let (host, port) = match rules.check(self.client.ip(), &authority) {
            Ok(found) => found,
            Err(rejection) => {
                row(word, format_args!("no: 403 Forbidden; {rejection}"));
                return true;
            }
        };
        row(word, format_args!("to {host}, port {port}"));
        if let Destination::Name(_) = host {
            row("", format_args!("if its address is allowed, which explain does not resolve"));
        }
        if let Target::Absolute { path, query, .. } = self.head.target {
            let query = query.map_or(String::new(), |query| format!("?{query}"));
            row("as", format_args!("{} {path}{query}", self.head.token));
            row("", format_args!("Host: {}", String::from_utf8_lossy(self.head.authority)));
            if rules.stores_responses() {
                self.print_cache_for(&Settings::default());
            }
        }
        true
    }

    fn redirects_to_https(&self) -> bool {
        let Some(Ok(path)) = self.head.target.path().map(SafePath::parse) else { return false };
        let rejection = self.host.tls.rejection(self.head.scheme, path.as_str(), None);
        self.responder.needs.rejections && rejection == Some(ConnectionRejection::Redirect)
    }

    async fn respond(&self) -> Response {
        let connection = ConnectionInfo {
            id: None,
            client: self.client,
            group: self.group,
            via: Via::Nothing,
            local: self.to,
            tls: None,
        };
        let request = Request { head: self.head, connection, interim: None };
        self.responder.respond(request, RequestBody::None, None).await
    }

    /// Prints the rule of access that decides, and the limits of speed and of requests that apply.
    fn print_rules(&self) {
        let Some(Ok(path)) = self.head.target.path().map(SafePath::parse) else { return };
        if self.responder.needs.rules {
            print_steps(steps::access(self.host, &path, self.facts(), self.client));
        }
        print_steps(self.limits(&path));
    }

    /// Prints the limits of the path of a script or an application that the path of the request does not have.
    fn print_further_limits(&self, path: &SafePath<'_>) {
        let requested = self.head.target.path().map(SafePath::parse);
        let printed = requested.and_then(Result::ok).map_or(Vec::new(), |path| self.limits(&path));
        let mut lines = self.limits(path);
        lines.retain(|line| !printed.contains(line));
        print_steps(lines);
    }

    fn limits(&self, path: &SafePath<'_>) -> Vec<String> {
        steps::limits(self.site(), self.host, path, self.facts())
    }

    /// What rules may ask of the request.
    fn facts(&self) -> Facts<'_> {
        Facts {
            head: self.head,
            method: self.head.token,
            client: self.client.address(),
            server: self.to.map(|to| to.ip()),
            tls: Tls::Off,
            now: self.responder.services.clock.now(),
        }
    }

    /// Prints the trace that the request is part of.
    fn print_trace(&self) {
        let Some(tracer) = &self.responder.services.access.tracer else { return };
        let Trace { ids, parent, is_sampled, .. } = tracer.begin(self.head);
        let is_given = self.head.values(TRACEPARENT).next().is_some();
        let context = self.site().tracing.as_ref().map(|tracing| tracing.context);
        match (parent, context) {
            (Some(_), _) => {
                let sampled = if is_sampled { "sampled" } else { "not sampled" };
                row("trace", format_args!("{:032x}, of the client, {sampled}", ids.trace));
            }
            (None, Some(Context::Continue)) if is_given => {
                row("trace", format_args!("begins here, because the traceparent of the client is malformed"))
            }
            (None, _) => row("trace", format_args!("begins here")),
        }
    }

    /// Prints the authorizers of a request. The response is the one that follows when they permit the request.
    fn print_authorizers(&self) {
        let Some(Ok(path)) = self.head.target.path().map(SafePath::parse) else { return };
        let services = &self.responder.services;
        let routes = &self.host.routes;
        let own = routes.get(routes.find(&path));
        let planned = services.route(self.host_index, &path);
        for jwt in if own.jwts.is_empty() { &planned.jwts } else { &own.jwts } {
            let issuer = jwt.issuer.as_deref().unwrap_or("any issuer");
            row("first", format_args!("a token of {issuer}, which explain does not verify"));
        }
        for authorizer in exchange::authorizers(self.host, &path, planned) {
            let Authorizer { upstream, subrequest } = &*authorizer;
            let name = self.site().upstreams.get(*upstream).map_or("", |application| &application.name);
            let Some(subrequest) = subrequest else {
                row("first", format_args!("the authorizer \"{name}\", which explain does not call"));
                continue;
            };
            let (token, target) =
                (subrequest.token(self.head), subrequest.target.as_deref().unwrap_or(self.head.raw_target));
            row(
                "first",
                format_args!("the authorizer \"{name}\", by {token} {target}, which explain does not call"),
            );
            if !subrequest.fields.is_empty() {
                row("", format_args!("it sets {}", subrequest.fields.join(", ")));
            }
            if let Some(login) = &subrequest.login {
                row("", format_args!("in place of its 401, clients are redirected to {login}"));
            }
            if !subrequest.cache.is_zero() {
                let seconds = subrequest.cache.as_secs_f64();
                row("", format_args!("its permission counts for {seconds} s"));
            }
        }
    }

    /// Prints what a method that publishes would do: explain changes nothing. `false`: the request does not publish.
    fn print_publishing(&self) -> bool {
        let Some(Ok(path)) = self.head.target.path().map(SafePath::parse) else { return false };
        let found = plan(self.host, path.clone(), None);
        let publishing = &found.route.publishing;
        let method = DavMethod::of(self.head.method, self.head.token);
        let (Some(method), true) = (method, publishing.mode != Mode::Off) else { return false };
        if method == DavMethod::Options || method == DavMethod::PropFind {
            return false;
        }
        if let Err(status) = publishing.permits(method) {
            row("publish", format_args!("no: {status}; this route permits {}", publishing.allow()));
            return true;
        }
        let is_hidden = matches!(found.action, PlannedAction::Status(_, Cause::Dotfile | Cause::Private));
        let refusal = match method {
            _ if !is_utf8(path.as_str()) => Some("400 Bad Request; the names of what is published are UTF-8"),
            DavMethod::Patch if upload_token(&path).is_none() => {
                Some("405 Method Not Allowed; PATCH is for an upload, and the path is that of none")
            }
            DavMethod::Patch => None,
            _ if is_hidden => Some("403 Forbidden; nothing is published under a hidden name"),
            DavMethod::Put if path.is_folder() => {
                Some("405 Method Not Allowed; PUT stores a file, and the path is that of a folder")
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            row("publish", format_args!("no: {refusal}"));
            return true;
        }
        row("publish", format_args!("{}, which explain does not do", effect(method, publishing)));
        if method == DavMethod::Delete && !publishing.is_dav() {
            row("", format_args!("a folder gets 403: only files are deleted without WebDAV"));
        }
        if method == DavMethod::Put {
            row("", format_args!("a path where a folder is gets 405"));
            if publishing.missing_folders != MissingFolders::Made {
                row("", format_args!("a path whose folder is missing gets 409"));
            }
            let quota =
                publishing.quota.map_or("no quota".to_owned(), |quota| format!("a quota of {quota} bytes"));
            row("", format_args!("at most {} bytes, and {quota}", found.route.max_body));
            let mode = 0o666 & !publishing.umask;
            row("", format_args!("a new file has the mode {mode:04o}"));
        }
        true
    }

    /// Prints in which codings the file of a request is compressed.
    fn print_compression(&self) {
        let Some(Ok(path)) = self.head.target.path().map(SafePath::parse) else { return };
        let entry = self.responder.files.get(
            self.host_index.into(),
            path.as_str(),
            self.responder.services.clock.now(),
        );
        let Some(entry) = &entry else { return };
        let Resource::File(_, offer) = &entry.select(self.head).resource else { return };
        let names = |codings: &Codings| codings.iter().map(Coding::as_str).collect::<Vec<_>>().join(", ");
        match offer {
            Offer::Kept(codings) => row(
                "compress",
                format_args!(
                    "{}: once, in the background; until then the file is sent as it is",
                    names(codings)
                ),
            ),
            Offer::Streamed(codings) => {
                row("compress", format_args!("{}: while it is sent", names(codings)));
            }
            Offer::Nothing => {}
        }
    }
}

/// What a method that publishes does.
fn effect(method: DavMethod, publishing: &Publishing) -> &'static str {
    match method {
        DavMethod::Put => {
            "PUT stores a file beside the path, and puts it in place of what is there when it is whole"
        }
        DavMethod::Delete if publishing.is_dav() => {
            "DELETE removes the file, or the folder with everything in it"
        }
        DavMethod::Delete => "DELETE removes the file",
        DavMethod::Patch => "PATCH appends to an upload that was interrupted, and to nothing else",
        DavMethod::MkCol => "MKCOL makes a folder",
        DavMethod::Copy => "COPY copies it to the Destination, where rules decide as for PUT",
        DavMethod::Move => {
            "MOVE moves it to the Destination, where rules decide as for PUT, and here as for DELETE"
        }
        DavMethod::PropPatch => "PROPPATCH changes properties of the file or the folder",
        DavMethod::Lock => "LOCK locks the file or the folder",
        DavMethod::Unlock => "UNLOCK removes a lock",
        DavMethod::Options | DavMethod::PropFind => "it is only read",
    }
}

fn print_steps(lines: impl IntoIterator<Item = String>) {
    lines.into_iter().for_each(|line| terminal::out(format_args!("{line}")));
}

fn print_response(response: &Response) {
    let head = String::from_utf8_lossy(response.head.head());
    let mut text: String = head.trim_end().lines().map(|line| format!("          {line}\n")).collect();
    let content = match (&response.body, response.content_length()) {
        (Body::Stream(_), _) => "          (content made while it is sent)".to_owned(),
        (_, Some(bytes)) => format!("          ({bytes} bytes of content)"),
        (_, None) => String::new(),
    };
    text.push_str(&content);
    terminal::out(format_args!("response\n{text}"));
}

/// Prints a line: the step in its first columns, and what it does. A line without a step belongs to the one above.
fn row(step: &str, text: Arguments<'_>) {
    terminal::out(format_args!("{step:<WIDTH$}{text}"));
}
