//! `taipan explain METHOD URL`: shows, step by step, how the server would respond. It runs the code that serves
//! requests, without a socket.

use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use cache::request::{self, ClientIdentity};
use cache::settings::{Cookies, Settings};
use site::access::{Facts, Tls};
use site::authorizer::Authorizer;
use site::compress::Codings;
use site::decide::{Offer, Resource};
use site::folder::{FolderName, HostFolder};
use site::forward_proxy::Host as Destination;
use site::forwarding::{RawReading, UNCHANGED};
use site::host::AddressGroup;
use site::includes::Includes;
use site::model::{Account, HeaderRule, Host, Interpreter, Listing, Route, Site};
use site::needs::Needs;
use site::plan::{
    Cause, FallbackPlan, FallbackVariables, FilesPlan, Plan, PlannedAction, PlannedRoot, plan, plan_fallback,
};
use site::proxies::Via;
use site::publishing::Mode;
use site::route::RouteId;
use site::tracing::Context;
use site::upstream::{Protocol, UpstreamId, UpstreamTls, Verification};
use site::walk::{Step, Verdict, Walk};
use taipan_http::fields::host_and_port;
use taipan_http::head::{self, FieldStore, Head, Method};
use taipan_http::negotiate::Coding;
use taipan_http::target::{SafePath, Scheme, Target};
use taipan_http::trace_context::TRACEPARENT;

use crate::config;
use crate::exchange::{self, Responder};
use crate::files::beneath::{Root, Wait};
use crate::files::folders::Wanted;
use crate::files::lookup::{Found, Lookup, Query};
use crate::files::roots::{OpenRoots, Roots};
use crate::files::script;
use crate::flags::Explain;
use crate::peer::Peer;
use crate::request::body::RequestBody;
use crate::request::{ConnectionInfo, Request};
use crate::response::{Body, Response};
use crate::services::Services;
use crate::trace::Trace;
use crate::{start, steps, terminal};

pub fn explain(flags: &Explain) -> ExitCode {
    let site = match start::load(&flags.source) {
        Ok(site) => site,
        Err(lines) => {
            lines.iter().for_each(|line| terminal::err(format_args!("taipan: {line}")));
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    let result = runtime.and_then(|runtime| {
        let roots = OpenRoots::of(&site);
        runtime.block_on(async {
            // Authorizers are not called, and the request has no connection.
            let needs = Needs { authorizers: false, refusals: false, ..Needs::of(&site) };
            let responder = Responder::without_upstreams(Services::new(site, None).0, roots);
            let responder = Rc::new(Responder { needs, refuses: Cell::new(false), ..responder });
            let is_plain = flags.url.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("http://"));
            let authority = flags.url.split('/').nth(2).unwrap_or_default();
            let authority = authority.split('?').next().unwrap_or_default();
            let client = Peer::from((flags.from, None));
            let forwards = is_plain && responder.forwards(authority.as_bytes(), client);
            print_explanation(&responder, &request(flags, forwards), flags).await
        })
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::err(format_args!("taipan: {error}"));
            ExitCode::from(2)
        }
    }
}

/// The bytes of the request. `forwards`: it may be for another server, and then has the whole URL.
fn request(flags: &Explain, forwards: bool) -> Vec<u8> {
    let Explain { method, url, fields, .. } = flags;
    let (authority, target) = match url.split_once("://") {
        Some((_, rest)) => rest.find(['/', '?']).map_or((rest, "/"), |at| rest.split_at(at)),
        None => ("localhost", url.as_str()),
    };
    let slash = if target.starts_with('?') { "/" } else { "" };
    let origin = if forwards { format!("http://{authority}") } else { String::new() };
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

/// Prints where a tunnel, or a request for a URL, would lead. `false`: the request is for this server.
fn print_elsewhere(responder: &Responder, head: &Head<'_>, client: Peer) -> bool {
    let site = &responder.services.site;
    let Some(rules) = &site.forward_proxy else { return false };
    let (word, authority) = match head.target {
        Target::Authority(authority) => ("tunnel ", authority.to_owned()),
        Target::Absolute { authority, .. } if responder.forwards(head.authority, client) => {
            let port = if host_and_port(authority).1.is_none() { ":80" } else { "" };
            ("forward", format!("{authority}{port}"))
        }
        _ => return false,
    };
    let (host, port) = match rules.check(client.ip(), &authority) {
        Ok(found) => found,
        Err(refusal) => {
            terminal::out(format_args!("{word}   no: 403 Forbidden; {refusal}"));
            return true;
        }
    };
    terminal::out(format_args!("{word}   to {host}, port {port}"));
    if let Destination::Name(_) = host {
        terminal::out(format_args!("          if its address is allowed, which explain does not resolve"));
    }
    if let Target::Absolute { path, query, .. } = head.target {
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        terminal::out(format_args!("as        {} {path}{query}", head.token));
        terminal::out(format_args!("          Host: {}", String::from_utf8_lossy(head.authority)));
        if rules.stores_responses() {
            print_cache_for(&Settings::default(), head);
        }
    }
    true
}

/// The scheme of the URL, as a proxy in front would report it.
fn scheme(flags: &Explain) -> Scheme {
    let named = flags.url.split_once("://").and_then(|(scheme, _)| Scheme::from_bytes(scheme.as_bytes()));
    named.unwrap_or(Scheme::Http)
}

async fn print_explanation(responder: &Rc<Responder>, bytes: &[u8], flags: &Explain) -> io::Result<()> {
    let escaped = head::escape_target(bytes).map(|(escaped, _)| escaped);
    let mut store = FieldStore::new();
    let head = match head::parse(
        escaped.as_deref().unwrap_or(bytes),
        &mut store,
        &responder.services.site.limits.head,
    ) {
        Ok(Some((head, _))) => Head { scheme: scheme(flags), ..head },
        Ok(None) => return Err(io::Error::other("this is not a complete request")),
        Err(error) => {
            terminal::out(format_args!("request   rejected: {}", error.rule()));
            terminal::out(format_args!(
                "response\n{}",
                indented(&exchange::error_response(
                    &responder.services,
                    Method::Unknown,
                    error.status(),
                    Some(error.rule())
                ))
            ));
            return Ok(());
        }
    };
    let authority = String::from_utf8_lossy(head.authority);
    terminal::out(format_args!("request   {} {} for host \"{authority}\"", head.token, head.raw_target));
    if print_elsewhere(responder, &head, Peer::from((flags.from, None))) {
        return Ok(());
    }
    let hosts = &responder.services.site.hosts;
    let to = flags.to.map(|to| SocketAddr::new(to.ip, to.port.unwrap_or(head.scheme.default_port())));
    let group = hosts.group(to);
    let asked = ExplainedRequest { head: &head, to: to.map(|to| to.ip()) };
    let host = hosts.find_in(group, head.authority);
    let site = &responder.services.site;
    print_steps(steps::host(site, host, head.authority));
    if site.hosts.has_addresses() && group == AddressGroup::default() {
        terminal::out(format_args!(
            "          on an address that no host has in `addresses`; --to names another one"
        ));
    }
    if let Some(name) = site.hosts.canonical(host, head.authority) {
        terminal::out(format_args!("          which gives itself the name {name}"));
    }
    let client = Peer::from((flags.from, None));
    print_rules(responder, host, asked, client);
    print_trace(responder, &head);
    let responding = print_plan(responder, host, asked);
    print_authorizers(responder, host, &head);
    match responding {
        Responding::Server | Responding::Nothing if print_publishing(responder, host, &head) => {}
        Responding::Server | Responding::Nothing => {
            let connection =
                ConnectionInfo { id: None, client, group, via: Via::Nothing, local: to, tls: None };
            let request = Request { head: &head, connection, interim: None };
            let response = responder.respond(request, RequestBody::None, None).await;
            print_compression(responder, host, &head);
            terminal::out(format_args!("response\n{}", indented(&response)));
        }
        Responding::Script => {
            terminal::out(format_args!("response  the output of the script, which explain does not run"))
        }
    }
    Ok(())
}

/// Prints what a method that publishes would do: explain changes nothing. `false`: the request does not publish.
fn print_publishing(responder: &Responder, host: usize, head: &Head<'_>) -> bool {
    let Some(Ok(path)) = head.target.path().map(SafePath::parse) else { return false };
    let found = plan(responder.services.site.hosts.at(host), path.clone());
    let publishing = &found.route.publishing;
    let method = dav::method::Method::of(head.method, head.token);
    let (Some(method), true) = (method, publishing.mode != Mode::Off) else { return false };
    if method == dav::method::Method::Options || method == dav::method::Method::PropFind {
        return false;
    }
    if let Err(status) = publishing.permits(method) {
        terminal::out(format_args!("publish   no: {status}; this route permits {}", publishing.allow()));
        return true;
    }
    if let PlannedAction::Status(_, Cause::Dotfile | Cause::Private) = found.action {
        terminal::out(format_args!("publish   no: 403 Forbidden; nothing is published under a hidden name"));
        return true;
    }
    terminal::out(format_args!("publish   {}, which explain does not do", effect(method)));
    if method == dav::method::Method::Put {
        let quota =
            publishing.quota.map_or("no quota".to_owned(), |quota| format!("a quota of {quota} bytes"));
        terminal::out(format_args!("          at most {} bytes, and {quota}", found.route.max_body));
        let mode = 0o666 & !publishing.umask;
        terminal::out(format_args!("          a new file has the mode {mode:04o}"));
    }
    true
}

/// What a method that publishes does.
fn effect(method: dav::method::Method) -> &'static str {
    use dav::method::Method;
    match method {
        Method::Put => {
            "PUT stores a file beside the path, and puts it in place of what is there when it is whole"
        }
        Method::Delete => "DELETE removes the file, or the folder with everything in it",
        Method::Patch => "PATCH appends to an upload that was interrupted, and to nothing else",
        Method::MkCol => "MKCOL makes a folder",
        Method::Copy => "COPY copies it to the Destination, where rules decide as for PUT",
        Method::Move => {
            "MOVE moves it to the Destination, where rules decide as for PUT, and here as for DELETE"
        }
        Method::PropPatch => "PROPPATCH changes properties of the file or the folder",
        Method::Lock => "LOCK locks the file or the folder",
        Method::Unlock => "UNLOCK removes a lock",
        Method::Options | Method::PropFind => "it is only read",
    }
}

fn print_steps(lines: impl IntoIterator<Item = String>) {
    lines.into_iter().for_each(|line| terminal::out(format_args!("{line}")));
}

/// Prints the rule of access that decides, and the limits of speed and of requests that apply.
fn print_rules(responder: &Responder, host: usize, asked: ExplainedRequest<'_>, client: Peer) {
    let ExplainedRequest { head, to } = asked;
    let Some(Ok(path)) = head.target.path().map(SafePath::parse) else { return };
    let services = &responder.services;
    let (client_ip, now) = (client.ip(), services.clock.now());
    let facts = Facts { head, method: head.token, client: client_ip, server: to, tls: Tls::Off, now };
    let found = services.site.hosts.at(host);
    if responder.needs.rules {
        print_steps(steps::access(found, &path, facts, client));
    }
    print_steps(steps::limits(&services.site, found, &path, facts));
}

/// The request, and the address of the server that it is sent to.
#[derive(Clone, Copy)]
struct ExplainedRequest<'a> {
    head: &'a Head<'a>,
    to: Option<IpAddr>,
}

/// The root of planned files. Prints which folder a name leads to. `None`: there is none.
fn root(
    responder: &Responder,
    host: usize,
    asked: ExplainedRequest<'_>,
    planned: &FilesPlan<'_, '_>,
) -> Option<Root> {
    let (files, now, symlinks) = (&responder.files, responder.services.clock.now(), planned.rules.symlinks);
    let users = responder.services.site.hosts.at(host).users.as_ref();
    let (name, wanted) = match planned.root {
        PlannedRoot::Path(path) => return Roots::get(files, path, now).ok(),
        PlannedRoot::OfHost(folder) => match host_folder(responder, host, asked, folder) {
            Some(found) => found,
            None => {
                print_no_folder(folder);
                return None;
            }
        },
        PlannedRoot::OfUser(_) => match users.zip(users?.user(&planned.path)) {
            Some((users, user)) => (
                format!("the user {user}"),
                files.wanted_of_user(host.into(), users, user, symlinks, now).ok()?,
            ),
            None => {
                terminal::out(format_args!("folder    none: no user with a folder has this name"));
                return None;
            }
        },
    };
    match wanted.open() {
        Ok(root) => {
            terminal::out(format_args!("folder    {}, of {name}", root.path.display()));
            Some(root)
        }
        Err(_) => {
            terminal::out(format_args!("folder    {name} has none that can be opened"));
            None
        }
    }
}

fn print_no_folder(folder: &HostFolder) {
    terminal::out(format_args!("folder    none for this name, and no default: {}", folder.missing));
}

/// The folder of the requested name or of the default one, and what it is of. `None`: there is none.
fn host_folder(
    responder: &Responder,
    host: usize,
    asked: ExplainedRequest<'_>,
    folder: &HostFolder,
) -> Option<(String, Wanted)> {
    let (files, now) = (&responder.files, responder.services.clock.now());
    let symlinks = responder.services.site.hosts.at(host).routes.get(RouteId::DEFAULT).files.symlinks;
    let open = |name: FolderName<'_>| {
        let wanted = files.wanted_of_host(host.into(), folder, &name, symlinks, now).ok()?;
        wanted.open().ok()?;
        Some((format!("the name {}", name.key()), wanted))
    };
    folder.names(asked.head.authority, asked.to).find_map(open)
}

/// Prints the trace that the request is part of.
fn print_trace(responder: &Responder, head: &Head<'_>) {
    let Some(tracer) = &responder.services.access.tracer else { return };
    let Trace { ids, parent, is_sampled, .. } = tracer.begin(head);
    let is_given = head.values(TRACEPARENT).next().is_some();
    let context = responder.services.site.tracing.as_ref().map(|tracing| tracing.context);
    match (parent, context) {
        (Some(_), _) => {
            let sampled = if is_sampled { "sampled" } else { "not sampled" };
            terminal::out(format_args!("trace     {:032x}, of the client, {sampled}", ids.trace));
        }
        (None, Some(Context::Continue)) if is_given => terminal::out(format_args!(
            "trace     begins here, because the traceparent of the client is malformed"
        )),
        (None, _) => terminal::out(format_args!("trace     begins here")),
    }
}

/// Prints the authorizers of a request. The response is the one that follows when they permit the request.
fn print_authorizers(responder: &Responder, host: usize, head: &Head<'_>) {
    let Some(Ok(path)) = head.target.path().map(SafePath::parse) else { return };
    let services = &responder.services;
    let found = services.site.hosts.at(host);
    let own = found.routes.get(found.routes.find(&path));
    if let Some(jwt) = own.jwt.as_ref().or(services.route(host, &path).jwt.as_ref()) {
        let issuer = jwt.issuer.as_deref().unwrap_or("any issuer");
        terminal::out(format_args!("first     a token of {issuer}, which explain does not verify"));
    }
    for authorizer in exchange::authorizers(services.site.hosts.at(host), &path, services.route(host, &path))
    {
        let Authorizer { upstream, subrequest } = &*authorizer;
        let name =
            responder.services.site.upstreams.get(*upstream).map_or("", |application| &application.name);
        let Some(subrequest) = subrequest else {
            terminal::out(format_args!("first     the authorizer \"{name}\", which explain does not call"));
            continue;
        };
        let (token, target) =
            (subrequest.token(head), subrequest.target.as_deref().unwrap_or(head.raw_target));
        terminal::out(format_args!(
            "first     the authorizer \"{name}\", by {token} {target}, which explain does not call"
        ));
        if !subrequest.fields.is_empty() {
            terminal::out(format_args!("          it sets {}", subrequest.fields.join(", ")));
        }
        if !subrequest.cache.is_zero() {
            let seconds = subrequest.cache.as_secs_f64();
            terminal::out(format_args!("          its permission counts for {seconds} s"));
        }
    }
}

/// Prints in which codings the file of a request is compressed.
fn print_compression(responder: &Responder, host: usize, head: &Head<'_>) {
    let Some(Ok(path)) = head.target.path().map(SafePath::parse) else { return };
    let entry = responder.files.get(host.into(), path.as_str(), responder.services.clock.now());
    let Some(entry) = &entry else { return };
    let Resource::File(_, offer) = &entry.select(head).resource else { return };
    let names = |codings: &Codings| codings.iter().map(Coding::as_str).collect::<Vec<_>>().join(", ");
    match offer {
        Offer::Kept(codings) => terminal::out(format_args!(
            "compress  {}: once, in the background; until then the file is sent as it is",
            names(codings)
        )),
        Offer::Streamed(codings) => {
            terminal::out(format_args!("compress  {}: while it is sent", names(codings)));
        }
        Offer::Nothing => {}
    }
}

/// The maker of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Responding {
    Server,
    Script,
    /// The path leads to nothing: the fallback responds, or else the server.
    Nothing,
}

fn print_plan(responder: &Responder, host: usize, asked: ExplainedRequest<'_>) -> Responding {
    let Some(path) = asked.head.target.path() else {
        terminal::out(format_args!("path      none: this is about the server itself"));
        return Responding::Server;
    };
    let found = responder.services.site.hosts.at(host);
    let reading = RawReading::of(&found.routes, path);
    let path = match (reading, SafePath::parse(path)) {
        (Ok(Some(reading)), _) => reading.path,
        (Ok(None), Ok(path)) => path,
        (Err(error), _) | (_, Err(error)) => {
            terminal::out(format_args!("path      rejected: {}", error.rule()));
            return Responding::Server;
        }
    };
    terminal::out(format_args!("path      /{}", path.as_str()));
    let plan = plan(found, path.clone());
    let route = plan.route;
    let responding = print_planned(responder, host, asked, &path, plan, None);
    if responding != Responding::Nothing {
        return responding;
    }
    let fallback = plan_fallback(found, route, &path, asked.head.target.query());
    let Some(mut fallback) = fallback else { return responding };
    loop {
        let next = fallback.next(found);
        let FallbackPlan { path, plan, variables, .. } = fallback;
        terminal::out(format_args!("fallback  {path}"));
        match (print_planned(responder, host, asked, &path, plan, Some(&variables)), next) {
            (Responding::Nothing, Some(next)) => fallback = next,
            (responding, _) => return responding,
        }
    }
}

/// `fallback`: the variables of a fallback, if the plan is one.
fn print_planned(
    responder: &Responder,
    host: usize,
    asked: ExplainedRequest<'_>,
    requested: &SafePath,
    plan: Plan<'_, '_>,
    fallback: Option<&FallbackVariables>,
) -> Responding {
    let Plan { route, walk, action } = plan;
    if let Some(walk) = walk {
        match print_walk(responder, host, asked, requested, &walk, fallback) {
            Some(Verdict::Run(_)) => return Responding::Script,
            Some(Verdict::NoScript) => {}
            Some(Verdict::Folder) => return Responding::Nothing,
            // The response says what is wrong.
            Some(Verdict::Denied(_) | Verdict::RedirectToFolder) | None => return Responding::Server,
        }
    }
    terminal::out(format_args!("{}", steps::route(&responder.services.site, asked.head, route, &action)));
    match action {
        PlannedAction::Upstream(planned) => {
            let site = &responder.services.site;
            print_application(site, planned.upstream);
            print_cache(site.hosts.at(host).routes.get(planned.route), asked.head);
            print_pages(&route.files.includes);
            match site.upstreams.get(planned.upstream) {
                Some(upstream) if upstream.protocol == Protocol::Http => print_forwarding(route, asked.head),
                _ => {
                    let (script_name, path_info) = planned.script_name_and_path_info();
                    terminal::out(format_args!("as        SCRIPT_NAME {script_name}"));
                    terminal::out(format_args!("          PATH_INFO {path_info}"));
                    print_query(fallback);
                }
            }
            Responding::Script
        }
        PlannedAction::Status(_, Cause::NoScript) => Responding::Nothing,
        PlannedAction::Redirect(_)
        | PlannedAction::Monitor(_)
        | PlannedAction::Publish(_)
        | PlannedAction::Status(..) => Responding::Server,
        PlannedAction::Files(planned) => {
            if planned.path != *requested {
                terminal::out(format_args!("rewritten {}", planned.path));
            }
            match root(responder, host, asked, &planned) {
                Some(root) => print_file(responder, root, requested, &planned, route),
                None => Responding::Server,
            }
        }
    }
}

/// Prints what is at the path of a plan, beneath its root.
fn print_file(
    responder: &Responder,
    root: Root,
    requested: &SafePath,
    planned: &FilesPlan<'_, '_>,
    route: &Route,
) -> Responding {
    let below = planned.below().into_owned();
    let shown = planned.root.path().unwrap_or(&root.path);
    terminal::out(format_args!("file      {}", shown.join(below.as_str()).display()));
    if is_named(responder, &root.path.join(below.as_str())) {
        terminal::out(format_args!("found     a file that the configuration names: never served"));
    }
    let query = Query {
        index: Cow::Borrowed(&*planned.index),
        ..Query::new(root, below, planned.rules, responder.services.site.cache.file)
    };
    let lookup = match query.lookup(Wait::Allowed) {
        Ok(lookup) => lookup,
        Err(error) => {
            terminal::out(format_args!("found     {error:?}"));
            return Responding::Server;
        }
    };
    print_lookup(&lookup);
    print_page(&lookup, &planned.rules.includes);
    match lookup {
        Lookup::Missing => Responding::Nothing,
        Lookup::Folder(_) if requested.is_folder() && planned.rules.listing == Listing::Off => {
            Responding::Nothing
        }
        Lookup::Folder(_) if requested.is_folder() => {
            let lister = route.lister.as_ref().and_then(|lister| lister.interpreter.as_ref());
            let Some(Interpreter::Program(program)) = lister else { return Responding::Server };
            terminal::out(format_args!("listing   made by {}", program.display()));
            Responding::Script
        }
        Lookup::Folder(_) | Lookup::Denied | Lookup::Files(_) => Responding::Server,
    }
}

/// Whether the configuration names what is at a path, perhaps by another name.
fn is_named(responder: &Responder, path: &Path) -> bool {
    let named = responder.services.site.named_files.files();
    config::file_id(path).is_some_and(|(major, minor, inode)| named.has((major, minor), inode))
}

/// The result of the walk for a script. `None`: a root or a folder is not available.
fn print_walk(
    responder: &Responder,
    host: usize,
    asked: ExplainedRequest<'_>,
    requested: &SafePath,
    walk: &Walk,
    fallback: Option<&FallbackVariables>,
) -> Option<Verdict> {
    let now = responder.services.clock.now();
    let folder = responder.services.site.hosts.at(host).folder.as_ref();
    let found = folder.and_then(|folder| host_folder(responder, host, asked, folder));
    if let (Some(folder), None) = (folder, &found) {
        print_no_folder(folder);
        return None;
    }
    let root = found.as_ref().and_then(|(_, wanted)| wanted.open().ok());
    let of_host = found.as_ref().and_then(|(_, wanted)| wanted.path());
    let host = responder.services.site.hosts.at(host);
    let query = script::Query::new(&responder.files, walk, root.as_ref(), now).ok()?;
    let verdict = query.verdict(Wait::Allowed).ok()?;
    if walk.path != *requested && verdict != Verdict::NoScript {
        terminal::out(format_args!("rewritten {}", walk.path));
    }
    if let (Some((name, _)), Some(of_host), false) = (&found, of_host, verdict == Verdict::NoScript) {
        terminal::out(format_args!("folder    {}, of {name}", of_host.display()));
    }
    match verdict {
        Verdict::Run(at) => {
            let step = &walk.steps[at];
            print_script(host, step, of_host);
            let fallback_step = fallback.map(|variables| step.with_path_info(&variables.path_info));
            let step = fallback_step.as_ref().unwrap_or(step);
            print_run(&responder.services.site, host, step, of_host);
            print_cache(host.routes.get(step.route), asked.head);
            print_pages(&host.routes.get(step.route).files.includes);
            print_query(fallback);
        }
        Verdict::Denied(at) => {
            let step = &walk.steps[at];
            print_script(host, step, of_host);
            terminal::out(format_args!("found     a file that may not be run: {}", step.denial()));
        }
        Verdict::Folder => terminal::out(format_args!("found     a folder without an index script")),
        Verdict::RedirectToFolder => terminal::out(format_args!("found     a folder with an index script")),
        Verdict::NoScript => {}
    }
    Some(verdict)
}

/// `of_host`: the folder of the host's name.
fn print_script(host: &Host, step: &Step, of_host: Option<&Path>) {
    let name = host.routes.get(step.route).name();
    let (Some(root), Some(file)) = (step.root(of_host), step.file(of_host)) else { return };
    terminal::out(format_args!("route     {name}: scripts beneath {}", root.display()));
    terminal::out(format_args!("script    {}", file.display()));
}

fn print_query(fallback: Option<&FallbackVariables>) {
    if let Some(query) = fallback.and_then(|variables| variables.query.as_ref()) {
        terminal::out(format_args!("          QUERY_STRING {query}"));
    }
}

fn print_application(site: &Site, id: UpstreamId) {
    if let Some(application) = site.upstreams.get(id) {
        terminal::out(format_args!("run by    {application}"));
        if let Some(managed) = application.managed() {
            print_account(site, managed.account.as_ref());
        }
        if let Some(tls) = &application.tls {
            print_tls(tls);
        }
        match (application.http2, &application.tls) {
            (true, Some(_)) => terminal::out(format_args!("by        HTTP/2 if it chooses so, or HTTP/1.1")),
            (true, None) => terminal::out(format_args!("by        HTTP/2")),
            (false, _) => {}
        }
        let addresses = application.addresses().len();
        if addresses > 1 {
            terminal::out(format_args!("balance   {} over {addresses} addresses", application.balance));
        }
        if let Some(hedging) = &application.hedging {
            let (after, budget) = (hedging.after.as_secs_f64(), hedging.budget);
            terminal::out(format_args!(
                "hedge     at a second endpoint after {after} s, {budget} % of the requests at most"
            ));
        }
        if let Some(checks) = &application.health.checks {
            let how = match &checks.path {
                Some(path) => format!("GET {path}, status {}", checks.status),
                None => "a connection".to_owned(),
            };
            let interval = checks.interval.as_secs_f64();
            terminal::out(format_args!("health    {how}, every {interval} s"));
        }
        if let Some(breaker) = &application.breaker {
            let (rate, least, window) =
                (breaker.failure_rate, breaker.requests, breaker.window.as_secs_f64());
            terminal::out(format_args!(
                "breaker   open after {rate} % failures of {least} requests in {window} s"
            ));
        }
    }
}

/// Whether the response would be a stored one, or be stored.
fn print_cache(route: &Route, head: &Head<'_>) {
    let Some(settings) = route.cache() else { return };
    if head.token == "PURGE" && route.purgers.is_some() {
        return terminal::out(format_args!(
            "cache     emptied of what is stored for the URL, if the client is within \"response_cache_purge\""
        ));
    }
    print_cache_for(settings, head);
}

fn print_cache_for(settings: &Settings, head: &Head<'_>) {
    if !request::is_eligible(head) {
        return terminal::out(format_args!(
            "cache     passed: only GET and HEAD without a body have stored responses"
        ));
    }
    let ClientIdentity { credentials, cookies } = ClientIdentity::of(head);
    let condition = match (credentials, cookies && settings.cookies == Cookies::IfPublic) {
        (true, _) => ", if it is for all users: the request has credentials",
        (_, true) => ", if it is for all users: the request has cookies",
        (false, false) => ", if it says so",
    };
    match head.method {
        Method::Head => terminal::out(format_args!("cache     looked up, and not stored: only GET is")),
        _ => terminal::out(format_args!("cache     looked up, and stored{condition}")),
    }
}

fn print_tls(tls: &UpstreamTls) {
    let name = tls.name.as_deref().unwrap_or("the name in its address");
    let verified = match (tls.verification, &tls.authorities) {
        (Verification::Off, _) => "not verified".to_owned(),
        (Verification::Required, Some(path)) => {
            format!("verified as {name} by the authorities in {}", path.display())
        }
        (Verification::Required, None) => format!("verified as {name} by the authorities of the system"),
    };
    terminal::out(format_args!("with TLS  {verified}"));
}

/// The request that an upstream gets by HTTP.
fn print_forwarding(route: &Route, head: &Head<'_>) {
    let forwarding = route.script.as_ref().map(|script| &script.forwarding);
    let forwarding = forwarding.unwrap_or(&UNCHANGED);
    let sent = head.target.path().unwrap_or("/");
    let path = forwarding.path(sent, forwarding.spelling);
    let query = head.target.query().map_or(String::new(), |query| format!("?{query}"));
    terminal::out(format_args!("as        {} {path}{query}", head.token));
    let requested = std::str::from_utf8(head.authority).unwrap_or_default();
    terminal::out(format_args!("          Host: {}", forwarding.host.as_deref().unwrap_or(requested)));
    for rule in &forwarding.fields {
        match rule {
            HeaderRule::Set(name, value) => terminal::out(format_args!("          {name}: {value}")),
            HeaderRule::Remove(name) => terminal::out(format_args!("          without {name}")),
            HeaderRule::Add(name, value) => terminal::out(format_args!("          also {name}: {value}")),
        }
    }
}

fn print_account(site: &Site, account: Option<&Account>) {
    match (account, &site.user) {
        (Some(account), _) => terminal::out(format_args!("account   {account}")),
        (None, Some(user)) => terminal::out(format_args!("account   {user}, which is the server's own")),
        (None, None) => terminal::out(format_args!("account   the one that starts the server")),
    }
}

/// `of_host`: the folder of the host's name.
fn print_run(site: &Site, host: &Host, step: &Step, of_host: Option<&Path>) {
    let Some((_, script)) = site::walk::script(host, step) else { return };
    match &script.interpreter {
        Some(Interpreter::Program(path)) => terminal::out(format_args!("run by    {}", path.display())),
        Some(Interpreter::Upstream(id)) => print_application(site, *id),
        None => {}
    }
    if !matches!(script.interpreter, Some(Interpreter::Upstream(_))) {
        print_account(site, script.account.as_ref());
    }
    terminal::out(format_args!("as        SCRIPT_NAME {}", step.script_name));
    if !step.path_info.is_empty() {
        terminal::out(format_args!("          PATH_INFO {}", step.path_info));
        if let Some(translated) = site::walk::path_translated(host, of_host, &step.path_info) {
            terminal::out(format_args!("          PATH_TRANSLATED {}", translated.display()));
        }
    }
}

/// Prints whether a file is a page.
fn print_page(lookup: &Lookup, includes: &Includes) {
    if let Lookup::Files(files) = lookup
        && files.iter().any(|found| includes.cover_file(&found.name))
    {
        terminal::out(format_args!("page      {includes}: the directives of the file are carried out"));
    }
}

/// Prints whether a response of a script or an upstream may be a page.
fn print_pages(includes: &Includes) {
    if includes.cover_responses() {
        terminal::out(format_args!("page      {includes}: if its media type is one of \"include_types\""));
    }
}

fn print_lookup(lookup: &Lookup) {
    match lookup {
        Lookup::Missing => terminal::out(format_args!("found     nothing")),
        Lookup::Denied => terminal::out(format_args!(
            "found     a file that may not be served: permissions, a link, or no regular file"
        )),
        Lookup::Folder(_) => terminal::out(format_args!("found     a folder without an index")),
        Lookup::Files(files) => {
            for Found { name, variants, .. } in files {
                for variant in variants {
                    terminal::out(format_args!(
                        "found     {name}: {} bytes, coding {}",
                        variant.stamp.size,
                        variant.coding.as_str()
                    ));
                }
            }
        }
    }
}

fn indented(response: &Response) -> String {
    let head = String::from_utf8_lossy(response.head.head());
    let mut text: String = head.trim_end().lines().map(|line| format!("          {line}\n")).collect();
    let content = match (&response.body, response.content_length()) {
        (Body::Stream(_), _) => "          (content made while it is sent)".to_owned(),
        (_, Some(bytes)) => format!("          ({bytes} bytes of content)"),
        (_, None) => String::new(),
    };
    text.push_str(&content);
    text
}
