//! `server` and `location`: hosts and routes.

use crate::document::Value;
use crate::draft::{Draft, Host, Listen, Scope, TOO_MANY_ROUTES};
use crate::regex;
use crate::tree::{Directive, Place};
use crate::within::is_glob;
use site::config::own_field;

use super::around::{all, around, is_for_locations};
use super::cache;
use super::early;
use super::inherit::{has_any, has_field, is_closed, is_plain, without_fields};
use super::named;
use super::settings::{Context, setting, template};
use super::upstreams::{application, duration, unconverted};

/// What proxies are told in any case.
const OWN_FIELDS: [&str; 7] = [
    "host",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "connection",
    "upgrade",
    "forwarded",
];
/// What FastCGI is told in any case, with the values that nginx has for it. `*`: any value.
const OWN_VARIABLES: [(&str, &[&str]); 25] = [
    ("SCRIPT_FILENAME", &["*"]),
    ("SCRIPT_NAME", &["$fastcgi_script_name", "$uri", "$document_uri", ""]),
    ("QUERY_STRING", &["$query_string", "$args"]),
    ("REQUEST_METHOD", &["$request_method"]),
    ("CONTENT_TYPE", &["$content_type", "$http_content_type"]),
    ("CONTENT_LENGTH", &["*"]),
    ("REQUEST_URI", &["$request_uri"]),
    ("DOCUMENT_URI", &["$document_uri", "$uri"]),
    ("DOCUMENT_ROOT", &["$document_root", "$realpath_root"]),
    ("SERVER_PROTOCOL", &["$server_protocol"]),
    ("REQUEST_SCHEME", &["$scheme"]),
    ("HTTPS", &["$https"]),
    ("GATEWAY_INTERFACE", &["*"]),
    ("SERVER_SOFTWARE", &["*"]),
    ("REMOTE_ADDR", &["$remote_addr"]),
    ("REMOTE_PORT", &["$remote_port"]),
    ("REMOTE_USER", &["$remote_user"]),
    ("SERVER_ADDR", &["$server_addr"]),
    ("SERVER_PORT", &["$server_port"]),
    ("SERVER_NAME", &["$server_name", "$host", "$http_host"]),
    ("REDIRECT_STATUS", &["*"]),
    ("PATH_INFO", &["$fastcgi_path_info", "$path_info", "$fastcgi_script_name", "$uri"]),
    ("PATH_TRANSLATED", &["*"]),
    ("HTTP_PROXY", &["*"]),
    ("HTTP_HOST", &["$host", "$http_host"]),
];

/// A `server`.
pub fn server(directive: &Directive, context: &Context, draft: &mut Draft) {
    let mut host = Host { scope: Scope::new(directive.place.line), ..Host::default() };
    for child in directive.children() {
        match child.name.as_str() {
            "listen" => listen(child, &mut host, draft),
            "server_name" => names(child, &mut host, draft),
            _ => {}
        }
    }
    if host.listens.is_empty() {
        host.listens.push(Listen { address: "0.0.0.0:80".into(), tls: false, proxy: false });
    }
    let server_name = host.names.first().cloned().unwrap_or_default();
    let context = Context {
        server_name,
        fallbacks: fallbacks(directive),
        root: context.root.clone(),
        around: around(directive.children(), &context.around),
        ..*context
    };
    let named: Vec<&Directive> =
        directive.children().iter().filter(|child| child.argument(0).starts_with('@')).collect();
    let mut locations = Vec::new();
    // A server's `try_files` is for paths without a location.
    let mut without_location = Scope::new(directive.place.line);
    let mut returns = false;
    // What is denied before locations count.
    let (mut rules, mut conditions) = (Vec::new(), Vec::new());
    for child in directive.children() {
        match child.name.as_str() {
            "listen" | "server_name" => {}
            "location" => locations.push(child),
            "return" | "rewrite" | "if" if returns => {
                draft.note(&child.place, "a return precedes it", "it has no effect");
            }
            "return" => {
                returns = true;
                server_return(child, &mut host, &context, draft);
            }
            "rewrite" => rewrite(child, &mut host, &context, draft),
            "if" => match early::rule(child, draft) {
                Some(rule) => {
                    rules.push(rule);
                    conditions.push(child);
                }
                None => condition(child, directive, &mut host, draft),
            },
            "access_log" => host_log(child, &mut host, &context, draft),
            "http2" | "error_log" | "ssl" | "ssl_reject_handshake" => {
                draft.note(
                    &child.place,
                    format!("{}: it is set for all hosts", child.text()),
                    "see [http2], [log] and [tls]",
                );
            }
            "try_files" => try_files(child, directive, &mut without_location, &named, draft),
            "error_page" if named::leads_to(child).is_some() => {
                missing(child, directive, &mut without_location, &named, draft);
            }
            _ if is_for_locations(child) => {}
            "proxy_hide_header" | "fastcgi_hide_header" => hide(child, &mut host.scope, draft),
            _ if setting(child, &mut host.scope, &context, draft) => {}
            _ => draft.error(&child.place, unconverted(child), "remove it, or find its like in the manual"),
        }
    }
    hidden_fields(&mut host.scope);
    if returns {
        for child in locations.drain(..) {
            draft.note(&child.place, "the server returns before its locations", "it has no effect");
        }
    }
    if !returns && let Some(root) = to_https(&locations, &mut host, &context) {
        locations.retain(|child| !std::ptr::eq(*child, root));
    }
    let is_of_all = |child: &&Directive| {
        child.arguments.last().is_some_and(|path| path == "/") && child.argument(0) != "="
    };
    if !returns && !without_location.is_empty() && !locations.iter().any(is_of_all) {
        host.route("/", &directive.place).inherit(&without_location);
    }
    let (hiding, locations): (Vec<_>, Vec<_>) =
        locations.into_iter().partition(|child| denies_hidden_files(child));
    for child in &locations {
        location(child, &mut host, &context, &named, None, draft);
    }
    let is_closed = context.is_closed || named::has_access(directive.children());
    for target in named::targets(directive, &named, is_closed, draft) {
        location(&target, &mut host, &context, &named, None, draft);
    }
    for child in hiding {
        if hide_files(child, &mut host, draft) {
            rules.extend(early::hidden(child));
            conditions.push(child);
        }
    }
    early::apply(&rules, &conditions, &mut host, draft);
    files_of_server(&mut host, &context);
    leave_out_expressions(&locations, &mut host);
    keep_first_expressions(&mut host);
    if host.is_to_https {
        own_roots(&mut host);
    }
    order(&mut host);
    draft.hosts.push(host);
}

/// Gives the routes of a server that becomes a part of another one its root.
fn own_roots(host: &mut Host) {
    let Some(root) = host.scope.text("root").map(str::to_owned) else { return };
    for route in &mut host.routes {
        if !route.responds() && !has_any(route, &["root", "alias"]) {
            let place = route.place();
            route.set(&place, "root", root.as_str());
        }
    }
}

/// The key of a route with its place among the patterns of its host. It is no key of a route.
const ORDER: &str = "order";

/// nginx tries the expressions of a server between those within the longest prefix, and prefixes themselves. A pattern
/// of a longer prefix precedes that of a shorter one.
#[derive(Clone, Copy)]
enum Order<'t> {
    /// An expression within the location of this prefix.
    Within(&'t str),
    /// What `^~` of this prefix keeps from the expressions of the server.
    Instead(&'t str),
    /// The names that only begin with this prefix.
    Behind(&'t str),
}

impl Order<'_> {
    fn set(self, route: &mut Scope, place: &Place) {
        let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX / 4);
        let order = match self {
            Order::Within(text) => -2 * length(text) - 1,
            Order::Instead(text) => -2 * length(text),
            Order::Behind(text) => i64::MAX - length(text),
        };
        route.set(place, ORDER, order);
    }
}

fn order(host: &mut Host) {
    host.routes.sort_by_key(|route| match route.get(ORDER) {
        Some(Value::Integer(order)) => *order,
        _ => 0,
    });
    host.routes.iter_mut().for_each(|route| [ORDER, EXPRESSION].iter().for_each(|name| route.remove(name)));
}

/// An expression of the server does not precede a location with `^~`, and one within a prefix is not for a longer prefix.
/// What they would send or run there has the response of the location. So it has below a location that returns a status.
fn leave_out_expressions(locations: &[&Directive], host: &mut Host) {
    let is_nested = |route: &Scope| route.get(ORDER).is_some();
    let server_runs =
        host.routes.iter().any(|route| route.runs() && has_wildcards(route) && !is_nested(route));
    for child in locations.iter().filter(|child| prefix_of(child).is_some()) {
        let Some(text) = prefix_of(child) else { continue };
        let folder = format!("{}/", text.trim_end_matches('/'));
        let Some(own) = host.routes.iter().find(|route| route.text("path") == Some(&folder)) else {
            continue;
        };
        let precedes = child.argument(0) == "^~" || own.get("return").is_some();
        if !precedes && server_runs {
            continue;
        }
        let has_files = |route: &Scope| has_wildcards(route) && route.get("root").is_some();
        let run = host.routes.iter().filter(|route| match precedes {
            true => route.runs() || has_files(route),
            false => route.runs() && is_nested(route),
        });
        // What only begins with the text has the files of the server here, and no other response.
        let start = if own.responds() || has_any(own, &["root", "alias"]) { &*folder } else { text };
        let run: Vec<String> = run.filter_map(|route| regex::beginning(start, route.text("path")?)).collect();
        for path in run.into_iter().take(TOO_MANY_ROUTES.saturating_sub(host.routes.len())) {
            if host.routes.iter().all(|route| route.text("path") != Some(&path)) {
                Order::Instead(text).set(host.route(&path, &child.place), &child.place);
            }
        }
    }
}

/// A key of a route that was an expression. It is no key of a route.
const EXPRESSION: &str = "expression";

/// An expression such as `^/a/` is a prefix here, and nginx asks no expression behind it. What they would run there has
/// the response of the first.
fn keep_first_expressions(host: &mut Host) {
    let mut at = 0;
    while let Some(route) = host.routes.get(at) {
        at += 1;
        let Some(folder) =
            route.text("path").filter(|path| route.get(EXPRESSION).is_some() && path.ends_with('/'))
        else {
            continue;
        };
        let place = route.place();
        let later = host.routes[at..].iter().filter(|route| route.get(EXPRESSION).is_some());
        let run = later.filter(|route| (route.runs() || route.get("root").is_some()) && has_wildcards(route));
        let run: Vec<String> = run.filter_map(|route| regex::within(folder, route.text("path")?)).collect();
        for path in run.into_iter().take(TOO_MANY_ROUTES.saturating_sub(host.routes.len())) {
            if host.routes.iter().all(|route| route.text("path") != Some(&path)) {
                let mut blank = Scope::new(place.line);
                blank.set(&place, "path", path);
                host.routes.insert(at, blank);
                at += 1;
            }
        }
    }
}

/// An expression has the files of the server, also below a prefix that has others or none: a script among uploaded files
/// that have a folder of their own is not run.
fn files_of_server(host: &mut Host, context: &Context) {
    let Some(root) = host.scope.text("root").or(context.root.as_deref()).map(str::to_owned) else { return };
    let has_others = |route: &Scope| {
        route.text("path").is_some_and(|path| path.ends_with('/') && path != "/")
            && has_any(route, &["root", "alias", "proxy", "application"])
    };
    if !host.routes.iter().any(has_others) {
        return;
    }
    let has_files =
        |route: &Scope| !route.responds() && !has_any(route, &["root", "alias"]) && !is_closed(route);
    for route in &mut host.routes {
        if route.get(EXPRESSION).is_some() && has_wildcards(route) && has_files(route) {
            let place = route.place();
            route.set(&place, "root", root.as_str());
        }
    }
}

/// Every path begins with a slash.
fn with_slash(expression: &str) -> String {
    let rest = ["(^|/)", "(?:^|/)"].iter().find_map(|begin| expression.strip_prefix(begin));
    rest.map_or_else(|| expression.to_owned(), |rest| format!("/{rest}"))
}

/// Whether a location only sets fields of responses, so that a path that it misses has no other response.
fn sets_only(child: &Directive) -> bool {
    const SETS: [&str; 6] = ["expires", "add_header", "access_log", "log_not_found", "etag", "gzip_static"];
    child.children().iter().all(|inner| SETS.contains(&inner.name.as_str()))
}

/// Whether a location denies all hidden files but those of `/.well-known/`.
fn denies_hidden_files(child: &Directive) -> bool {
    const EXPRESSIONS: [&str; 7] = [
        "/\\.(?!well-known(?:/|$))",
        "/\\.(?!well-known/|$)",
        "/\\.(?!well-known).*",
        "/\\.(?!well-known)",
        "/\\.(?!well-known\\/)",
        "/\\.(?!well-known/)",
        "/\\.(?!well-known\\/).*",
    ];
    let denies = |inner: &Directive| match inner.name.as_str() {
        "deny" => inner.arguments == ["all"],
        "return" => inner.arguments == ["403"] || inner.arguments == ["404"],
        _ => false,
    };
    let is_needless = |inner: &Directive| matches!(inner.name.as_str(), "access_log" | "log_not_found");
    child.argument(0).starts_with('~')
        && EXPRESSIONS.contains(&&*with_slash(child.argument(1)))
        && child.children().iter().any(denies)
        && child.children().iter().all(|inner| denies(inner) || is_needless(inner))
}

/// Hidden files are never sent or run. Whether there are other upstreams than those of scripts, which would still have
/// their paths.
fn hide_files(child: &Directive, host: &mut Host, draft: &mut Draft) -> bool {
    host.scope.set(&child.place, "dotfiles", "deny");
    let is_passed = host.routes.iter().any(|route| has_any(route, &["proxy", "application"]));
    let (rules, response) =
        if is_passed { (" and rules", "nothing to do") } else { ("", "the response is 404") };
    let what = format!("{} became dotfiles = \"deny\"{rules}", child.text());
    draft.note(&child.place, what, response);
    is_passed
}

fn has_wildcards(route: &Scope) -> bool {
    route.text("path").is_some_and(is_glob)
}

/// The text of a location that is a prefix.
fn prefix_of(location: &Directive) -> Option<&str> {
    let [.., text] = location.arguments.as_slice() else { return None };
    let is_prefix = matches!(location.arguments.as_slice(), [_]) || location.argument(0) == "^~";
    (is_prefix && text.starts_with('/')).then_some(text)
}

/// The files that `try_files` names, here and in locations.
fn fallbacks(directive: &Directive) -> Vec<String> {
    let own = directive.children().iter().filter(|child| child.name == "try_files");
    let last = own.filter_map(|child| child.arguments.last());
    let path = last.map(|last| last.split(['?', '$']).next().unwrap_or_default().to_owned());
    path.chain(directive.children().iter().flat_map(fallbacks)).collect()
}

fn listen(child: &Directive, host: &mut Host, draft: &mut Draft) {
    let first = child.argument(0);
    let address = if let Some(path) = first.strip_prefix("unix:") {
        format!("unix:{path}")
    } else if first.parse::<u16>().is_ok() {
        format!("0.0.0.0:{first}")
    } else if let Some(port) = first.strip_prefix("*:") {
        format!("0.0.0.0:{port}")
    } else if let Some(port) = first.strip_prefix("localhost:") {
        format!("127.0.0.1:{port}")
    } else if first.parse::<std::net::SocketAddr>().is_ok() {
        first.to_owned()
    } else if let Ok(ip) = first.trim_matches(['[', ']']).parse::<std::net::IpAddr>() {
        std::net::SocketAddr::new(ip, 80).to_string()
    } else {
        return draft.error(&child.place, unconverted(child), "write an IP address and a port");
    };
    let has = |word: &str| child.arguments.iter().any(|argument| argument == word);
    if has("quic") {
        return draft.warn(&child.place, "there is no HTTP/3", "clients use HTTP/2");
    }
    host.is_default |= has("default_server") || has("default");
    host.listens.push(Listen { address, tls: has("ssl"), proxy: has("proxy_protocol") });
}

fn names(child: &Directive, host: &mut Host, draft: &mut Draft) {
    for name in &child.arguments {
        match name.as_str() {
            "_" | "" => {}
            name if name.starts_with('~') || name.ends_with(".*") || name.contains('$') => {
                draft.error(
                    &child.place,
                    format!("server_name {name} cannot be converted"),
                    "write the names",
                );
            }
            name => match name.strip_prefix('.') {
                Some(bare) => host.names.extend([bare.to_owned(), format!("*.{bare}")]),
                None => host.names.push(name.to_lowercase()),
            },
        }
    }
}

fn host_log(child: &Directive, host: &mut Host, context: &Context, draft: &mut Draft) {
    match child.argument(0) {
        "off" => draft.warn(&child.place, "the access log cannot be off for one host", "see [log]"),
        target => match log_target(target, context) {
            Some(target) => host.scope.set(&child.place, "access_log", target),
            None => draft.error(&child.place, unconverted(child), REMOTE_LOG),
        },
    }
}

/// What to do with a log that is sent elsewhere, or whose name has a variable.
pub const REMOTE_LOG: &str = "name a file or the syslog of the machine; see tcp:// in [log]";

pub fn log_target(target: &str, context: &Context) -> Option<String> {
    match target {
        "/dev/stdout" => Some("stdout".into()),
        "/dev/stderr" | "stderr" => Some("stderr".into()),
        target if target.starts_with("syslog:server=unix:") => Some("syslog".into()),
        target if target.starts_with("syslog:") => None,
        target => (!target.contains('$')).then(|| (context.path)(target)),
    }
}

/// The host of a URL that has `https`, and the path and the query of the request. `None`: it is another URL.
fn https_host<'t>(target: &'t str, server_name: &'t str) -> Option<&'t str> {
    let rest = target.strip_prefix("https://")?;
    let name = rest.strip_suffix("$request_uri").or_else(|| rest.strip_suffix("$uri$is_args$args"))?;
    match name {
        "$host" | "$http_host" => Some("$host"),
        "$server_name" => Some(server_name).filter(|name| !name.is_empty()),
        name => (!name.is_empty() && !name.contains(['$', '/', ':'])).then_some(name),
    }
}

/// Whether the target is the same URL with `https`.
fn is_https_of_itself(target: &str) -> bool {
    https_host(target, "$host") == Some("$host")
}

/// Notes that a server without TLS does nothing but redirect to `https`. Whether it does.
fn is_to_https(child: &Directive, host: &mut Host, context: &Context) -> bool {
    let target = child.arguments.last().map_or("", String::as_str);
    let Some(name) = https_host(target, &context.server_name) else { return false };
    let is_only_name = matches!(host.names.as_slice(), [only] if only == name);
    host.is_to_https = !host.is_secure();
    host.https_status = status(child).filter(|status| *status != 301);
    host.https_name = (name != "$host" && !is_only_name).then(|| name.to_lowercase());
    host.is_to_https
}

fn server_return(child: &Directive, host: &mut Host, context: &Context, draft: &mut Draft) {
    // The other names of a server whose `if` knows those with HTTPS.
    if host.is_to_https || is_to_https(child, host, context) {
        return;
    }
    let mut response = Scope::new(child.place.line);
    respond(child, &mut response, context, draft);
    host.route("/", &child.place).inherit(&response);
}

/// The location of all paths of a server that has nothing besides it but files for authorities.
fn to_https<'d>(locations: &[&'d Directive], host: &mut Host, context: &Context) -> Option<&'d Directive> {
    let is_root = |child: &&&Directive| child.arguments == ["/"];
    let is_challenge = |child: &&Directive| {
        child.arguments.last().is_some_and(|text| text.contains("well-known/acme-challenge"))
    };
    let root = *locations.iter().find(is_root)?;
    let [only] = root.children() else { return None };
    let is_rest_challenges = locations.iter().filter(|child| child.arguments != ["/"]).all(is_challenge);
    (only.name == "return" && is_rest_challenges && is_to_https(only, host, context)).then_some(root)
}

/// The status of a `return`.
pub fn status(child: &Directive) -> Option<i64> {
    match child.argument(0).parse() {
        Ok(status) => Some(status),
        Err(_) => (!child.arguments.is_empty()).then_some(302),
    }
}

/// The text of a `return`, with its line ends. `None`: it has variables.
fn text(given: &str) -> Option<String> {
    let text = given.replace("\\\"", "\"").replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t");
    (!text.contains('$')).then_some(text)
}

/// `return`.
fn respond(child: &Directive, route: &mut Scope, context: &Context, draft: &mut Draft) {
    let place = &child.place;
    let status = status(child).unwrap_or_default();
    let is_url = child.arguments.len() == 1 && child.argument(0).parse::<i64>().is_err();
    let target = child.argument(if is_url { 0 } else { 1 });
    match (status, template(target, &context.server_name)) {
        (444, _) => {
            draft.warn(place, "a connection is not closed without a response", "the response is 403");
            route.set(place, "return", 403);
        }
        (301 | 302 | 303 | 307 | 308, Some(target)) if !target.is_empty() => {
            route.set(place, "redirect", target);
            route.set(place, "status", status);
        }
        (401 | 405 | 407 | 416 | 426, _) => {
            draft.warn(place, format!("{status} needs fields of its own"), "the response is 403");
            route.set(place, "return", 403);
        }
        (200 | 204, _) if text(target).is_some() => {
            if status == 204 {
                draft.warn(place, "the status is 200, with an empty text, and not 204", "nothing to do");
            }
            route.set(place, "respond", text(target).filter(|_| status == 200).unwrap_or_default());
        }
        (400..=599, _) => {
            if !target.is_empty() {
                draft.warn(place, "the response has no text of its own", "see error_pages");
            }
            route.set(place, "return", status);
        }
        _ => {
            draft.error(place, unconverted(child), "see respond, or put a file there");
            route.set(place, "return", 404);
        }
    }
}

/// Whether no directive follows that `break` would keep from having an effect.
fn is_last_of_rewrites(inner: &Directive, location: &Directive) -> bool {
    let later = location.children().iter().skip_while(|other| !std::ptr::eq(*other, inner));
    later.skip(1).all(|other| !matches!(other.name.as_str(), "rewrite" | "return" | "if" | "set"))
}

/// `add_header Content-Type` beside a text.
fn is_type_of_text(inner: &Directive, location: &Directive) -> bool {
    let has_text = |inner: &Directive| inner.name == "return" && inner.argument(0) == "200";
    inner.argument(0).eq_ignore_ascii_case("content-type")
        && !inner.argument(1).contains('$')
        && location.children().iter().any(has_text)
}

fn rewrite(child: &Directive, host: &mut Host, context: &Context, draft: &mut Draft) {
    let place = &child.place;
    let (expression, target) = (child.argument(0), child.argument(1));
    let path = regex::prefix(expression).or_else(|| regex::exact(expression));
    let path = path.or_else(|| (expression == "^" || expression == "^/").then(|| "/".to_owned()));
    let path = path.or_else(|| (expression == "^(.*)$" || expression == "^(.*)").then(|| "/".to_owned()));
    let target =
        if expression.starts_with("^(.*)") { target.replace("$1", "$uri") } else { target.to_owned() };
    let (Some(path), Some(to)) = (path, template(&target, &context.server_name)) else {
        return draft.error(place, unconverted(child), "see redirects and rewrites");
    };
    let is_url = ["http://", "https://", "$scheme"].iter().any(|scheme| target.starts_with(scheme));
    let flag = child.argument(2);
    let route = host.route(&path, place);
    if is_url || flag == "permanent" || flag == "redirect" {
        let has_query = to.contains('?') || to.contains("$query");
        route.set(
            place,
            "redirect",
            if has_query { to.trim_end_matches('?').to_owned() } else { format!("{to}$query") },
        );
        route.set(place, "status", if flag == "permanent" { 301 } else { 302 });
    } else if to.contains('?') || to.contains("$query") || path == "/" {
        draft.error(place, unconverted(child), "see fallback, which can have a query");
    } else {
        route.set(place, "rewrite", to);
    }
}

/// `rewrite ^/a/(.*)$ /b/$1 break` in front of `proxy_pass`, which replaces the location by the path of a URL.
fn rewritten_url(child: &Directive, patterns: &[String], scope: &mut Scope, draft: &mut Draft) {
    let place = &child.place;
    let path =
        child.argument(1).strip_suffix("$1").filter(|path| path.starts_with('/') && path.ends_with('/'));
    // The rewritten prefix may be one around the location.
    let rest = regex::prefix(child.argument(0)).and_then(|prefix| {
        patterns.first().filter(|pattern| pattern.ends_with('/'))?.strip_prefix(&prefix).map(str::to_owned)
    });
    let url = scope.text("proxy").filter(|_| scope.get("proxy_path").is_some()).map(str::to_owned);
    match (path, url, rest) {
        (Some(path), Some(url), Some(rest)) if child.argument(2) == "break" && !path.contains('$') => {
            scope.remove("proxy_path");
            scope.set(place, "proxy", format!("{url}{path}{rest}"));
        }
        _ => draft.error(place, unconverted(child), "write the path in the URL of proxy_pass"),
    }
}

/// `if` of a server: the ways to one name and to HTTPS.
fn condition(child: &Directive, server: &Directive, host: &mut Host, draft: &mut Draft) {
    let text = child.arguments.join(" ");
    let text = text.trim_start_matches('(').trim_end_matches(')').trim().to_owned();
    let returns = child.children().iter().find(|inner| inner.name == "return");
    let target = returns.and_then(|inner| inner.arguments.last()).map_or("", String::as_str);
    if matches!(text.as_str(), "$scheme = http" | "$scheme != https" | "$scheme = \"http\"")
        && is_https_of_itself(target)
    {
        host.scope.set(&child.place, "https_redirect", true);
    } else if let Some(name) = text.strip_prefix("$host = ")
        && is_https_of_itself(target)
        && host.names.iter().any(|known| known == name)
        && has_all_names(server, host)
    {
        host.is_to_https |= !host.listens.iter().any(|listen| listen.tls);
    } else {
        let what = format!("\"if ({text})\" cannot be converted");
        draft.error(&child.place, what, "see [[rule]], redirects and canonical");
    }
}

/// Whether conditions of a server name all its names, or it returns for the others.
fn has_all_names(server: &Directive, host: &Host) -> bool {
    let conditions = || server.children().iter().filter(|child| child.name == "if");
    let is_named = |name: &String| {
        conditions()
            .any(|child| child.arguments.join(" ").trim_matches(['(', ')', ' ']) == format!("$host = {name}"))
    };
    server.children().iter().any(|child| child.name == "return") || host.names.iter().all(is_named)
}

/// The location around another one.
struct Outer<'o> {
    /// `None`: it is an expression, or one path.
    prefix: Option<&'o str>,
    scope: &'o Scope,
}

/// The paths of expressions within a location.
fn nested(outer: &Outer, all: &[String]) -> Option<Vec<String>> {
    let prefix = outer.prefix?;
    all.iter().map(|pattern| regex::beginning(prefix, pattern)).collect()
}

/// The patterns of a location, with whether the route can have an alias.
fn patterns(child: &Directive, outer: Option<&Outer>, draft: &mut Draft) -> Option<Vec<String>> {
    let place = &child.place;
    let (kind, text) = match child.arguments.as_slice() {
        [text] => ("", text.as_str()),
        [kind, text] => (kind.as_str(), text.as_str()),
        _ => ("?", ""),
    };
    if text.contains("//") && !kind.starts_with('~') {
        draft.note(place, format!("{} is for no path", child.text()), "nginx reads several slashes as one");
        return None;
    }
    match kind {
        "=" => Some(vec![regex::alone(text)]),
        "" | "^~" if text.starts_with('/') && !text.contains(['*', '?', '[', ']', '{', '}']) => {
            Some(prefix(text, place, draft))
        }
        "~" | "~*" => {
            let text = with_slash(text);
            let loosely = || {
                let text = regex::with_any_character(&text);
                sets_only(child).then(|| regex::patterns(&text)).flatten()
            };
            let found = regex::patterns(&text).or_else(loosely);
            let found = match outer {
                Some(outer) => found.and_then(|all| nested(outer, &all)),
                None => found,
            };
            match &found {
                Some(all) => {
                    let shown = |pattern: &String| match kind {
                        "~*" => regex::ignoring_case(pattern).unwrap_or_else(|| pattern.clone()),
                        _ => pattern.clone(),
                    };
                    let all: Vec<String> = all.iter().map(shown).collect();
                    let what = format!("{} became {}", child.text(), all.join(" "));
                    draft.note(place, what, "patterns precede prefixes");
                }
                None => draft.error(place, unconverted(child), "write prefixes, or patterns with *"),
            }
            found
        }
        _ => {
            draft.error(
                place,
                unconverted(child),
                "write a prefix that begins with a slash, without * ? [ ] { }",
            );
            None
        }
    }
}

fn prefix(text: &str, place: &Place, draft: &mut Draft) -> Vec<String> {
    if text.ends_with('/') {
        return vec![text.to_owned()];
    }
    draft.note(
        place,
        format!("location {text} matches whole segments"),
        "it does not match what only begins with it",
    );
    vec![format!("{text}/"), text.to_owned()]
}

fn location(
    child: &Directive,
    host: &mut Host,
    context: &Context,
    named: &[&Directive],
    outer: Option<&Outer>,
    draft: &mut Draft,
) {
    if child.argument(0).starts_with('@') {
        return;
    }
    let Some(mut patterns) = patterns(child, outer, draft) else { return };
    let mut scope = Scope::new(child.place.line);
    let (mut inner_locations, mut rewrites) = (Vec::new(), Vec::new());
    let mut is_internal = false;
    let directives = all(child, &context.around);
    for inner in &directives {
        let place = &inner.place;
        let first = inner.argument(0);
        match inner.name.as_str() {
            "location" => inner_locations.push(inner),
            "alias" => match alias(first, child, &patterns) {
                Some(folder) => scope.set(place, "alias", (context.path)(folder)),
                None => {
                    draft.error(place, unconverted(inner), "write a folder without variables");
                    scope.set(place, "return", 404);
                }
            },
            "try_files" => try_files(inner, child, &mut scope, named, draft),
            "error_page" if named::leads_to(inner).is_some() => {
                missing(inner, child, &mut scope, named, draft);
            }
            "return" => respond(inner, &mut scope, context, draft),
            "rewrite" => rewrites.push(inner),
            "proxy_pass" => proxy_pass(inner, &mut scope, context, draft),
            "grpc_pass" => upstream(inner, "http", &mut scope, context, draft),
            "fastcgi_pass" => upstream(inner, "fastcgi", &mut scope, context, draft),
            "scgi_pass" => upstream(inner, "scgi", &mut scope, context, draft),
            "proxy_set_header" => proxy_header(inner, &mut scope, draft),
            "fastcgi_param" if first == "SCRIPT_FILENAME" => script_file(inner, &mut scope, context),
            "fastcgi_param" | "scgi_param" => variable(inner, &mut scope, draft),
            "internal" => is_internal = true,
            "break" if is_last_of_rewrites(inner, child) => {}
            "stub_status" => scope.set(place, "monitor", "metrics"),
            "add_header" if is_type_of_text(inner, child) => {
                scope.set(place, "default_type", inner.argument(1));
            }
            "proxy_hide_header" | "fastcgi_hide_header" => hide(inner, &mut scope, draft),
            "proxy_redirect"
            | "proxy_cookie_path"
            | "proxy_cookie_domain"
            | "proxy_pass_header"
            | "proxy_intercept_errors"
            | "proxy_cookie_flags"
            | "proxy_next_upstream"
            | "proxy_next_upstream_tries"
            | "proxy_ignore_headers"
            | "fastcgi_ignore_headers"
            | "fastcgi_intercept_errors" => {
                draft.warn(place, format!("\"{}\" has no effect", inner.text()), "see the manual on proxies");
            }
            "proxy_connect_timeout"
            | "proxy_read_timeout"
            | "proxy_send_timeout"
            | "fastcgi_read_timeout"
            | "fastcgi_send_timeout"
            | "fastcgi_connect_timeout" => upstream_timeout(inner, &scope, draft),
            "access_log" | "error_log" => {
                draft.warn(
                    place,
                    format!("\"{}\" cannot be converted", inner.text()),
                    "a location has no log of its own",
                );
            }
            _ if cache::part(inner).is_some_and(|part| part != "path") => {}
            _ if setting(inner, &mut scope, context, draft) => {}
            _ => draft.error(place, unconverted(inner), "remove it, or find its like in the manual"),
        }
    }
    if named::passes(child) {
        cache::settings(&directives, context.caches, &mut scope, draft);
    }
    for inner in rewrites {
        match scope.responds() || scope.get("interpreter").is_some() {
            true => rewritten_url(inner, &patterns, &mut scope, draft),
            false => rewrite(inner, host, context, draft),
        }
    }
    if is_internal {
        let is_page = |path: &String| {
            host.scope.pairs("error_pages").iter().any(|(_, page)| *page == path.as_str().into())
        };
        let is_fallback = |path: &String| context.fallbacks.contains(path);
        if patterns.iter().all(is_page) {
            draft.note(&child.place, "a client can request an error page, too", "nothing to do");
        } else if scope.get("interpreter").is_some() && patterns.iter().any(is_fallback) {
            let what = format!("a client can request {}, too", patterns[0]);
            draft.warn(&child.place, what, "the script of try_files has all other paths, too");
        } else {
            draft.error(
                &child.place,
                "an internal location cannot be converted",
                "see sendfile in [scripts]",
            );
            scope.set(&child.place, "return", 404);
            ["root", "alias", "proxy", "application"].iter().for_each(|name| scope.remove(name));
        }
    }
    if scope.get("monitor").is_some() && scope.get("return").is_none() {
        show_to_few(&mut scope, host, draft);
    }
    files_before_upstream(child, &patterns, &scope, draft);
    if child.argument(0).starts_with('~') && outer.is_none() {
        scope.set(&child.place, EXPRESSION, true);
    }
    if let Some(outer) = outer {
        inherit(&mut scope, outer.scope);
        if let Some(prefix) = outer.prefix.filter(|_| child.argument(0).starts_with('~')) {
            Order::Within(prefix).set(&mut scope, &child.place);
        }
        if outer.scope.get("alias").is_some() && !scope.responds() && scope.get("interpreter").is_none() {
            draft.error(
                &child.place,
                "a location within one with an alias cannot be converted",
                "write its whole path",
            );
        }
    }
    if child.argument(0) == "~*" {
        let is_script = scope.get("interpreter").is_some();
        patterns =
            patterns.iter().flat_map(|pattern| of_any_case(pattern, is_script, child, draft)).collect();
    }
    if let Some(pattern) = longer_names(child).filter(|_| scope.protects()) {
        guarded(&pattern, child, &scope, host, draft);
    }
    // An alias of one file.
    if let [folder, path] = patterns.as_slice()
        && *folder == format!("{path}/")
        && scope.text("alias").is_some_and(context.is_file)
    {
        patterns.remove(0);
    }
    let within = Context {
        server_name: context.server_name.clone(),
        fallbacks: context.fallbacks.clone(),
        root: context.root.clone(),
        around: around(child.children(), &context.around),
        ..*context
    };
    for inner in inner_locations {
        let outer = Outer { prefix: prefix_of(child), scope: &scope };
        location(inner, host, &within, named, Some(&outer), draft);
    }
    finish(&patterns, scope, host, draft);
}

/// Leaves the counts of the server to the clients that rules allow, or else to this machine.
fn show_to_few(scope: &mut Scope, host: &Host, draft: &mut Draft) {
    let place = scope.place();
    let asks = scope.get("auth").or(host.scope.get("auth")).is_some_and(|auth| *auth != "off".into());
    let is_any = scope.text("satisfy").or(host.scope.text("satisfy")) == Some("any");
    let what = "stub_status became monitor = \"metrics\", which has other names";
    draft.warn(&place, what, "see monitor = \"status\" for a page, and Watching in the manual");
    let is_all = |rule: &Scope| matches!(rule.text("address"), None | Some("0.0.0.0/0" | "::/0"));
    let rules = if scope.rules.is_empty() { &host.scope.rules } else { &scope.rules };
    let first = rules.iter().find(|rule| is_all(rule)).and_then(|rule| rule.text("then"));
    if first == Some("deny") || (asks && !is_any) {
        return;
    }
    let mut own: Vec<Scope> = rules.iter().filter(|rule| !is_all(rule)).cloned().collect();
    let allows = own.iter().any(|rule| rule.text("then") == Some("allow"));
    let this_machine = ["127.0.0.0/8", "::1"].map(|address| ("allow", Some(address)));
    for (then, address) in this_machine.into_iter().filter(|_| !allows).chain([("deny", None)]) {
        let mut rule = Scope::new(place.line);
        if let Some(address) = address {
            rule.set(&place, "address", address);
        }
        rule.set(&place, "then", then);
        own.push(rule);
    }
    scope.rules = own;
    let what = "stub_status was open to all clients, and is denied to all but those of the rules";
    draft.warn(&place, what, "add rules for those that read it");
}

/// The folder of an alias, also that of `/a/$1` for `^/b/(.*)$`. `None`: it has other variables.
fn alias<'t>(target: &'t str, location: &Directive, patterns: &[String]) -> Option<&'t str> {
    let is_rest = |folder: &&str| {
        folder.ends_with('/')
            && !folder.contains('$')
            && regex::prefix(location.argument(1)).is_some_and(|prefix| *patterns == [prefix])
    };
    match target.contains('$') {
        true => target.strip_suffix("$1").filter(is_rest),
        false => Some(target),
    }
}

/// What a location has from the one around it, unless it has its own.
fn inherit(scope: &mut Scope, outer: &Scope) {
    const OWN: [&str; 16] = [
        ORDER,
        "path",
        "alias",
        "proxy",
        "proxy_path",
        "proxy_host",
        "proxy_headers",
        "env",
        "application",
        "interpreter",
        "redirect",
        "status",
        "rewrite",
        "return",
        "fallback",
        "fallback_for",
    ];
    let mut rest = outer.clone();
    OWN.iter().for_each(|name| rest.remove(name));
    // Rules of limit_except do not replace the others.
    if scope.rules.iter().any(|rule| rule.get("method").is_none()) {
        rest.rules.clear();
    }
    if !scope.limits.is_empty() {
        rest.limits.clear();
    }
    scope.inherit(&rest);
}

/// The patterns of `~*`. A script has one for each case, because its ending says what runs it.
fn of_any_case(pattern: &str, is_script: bool, child: &Directive, draft: &mut Draft) -> Vec<String> {
    let single = || regex::ignoring_case(pattern).map(|pattern| vec![pattern]);
    let all = match is_script {
        true => regex::any_case(pattern).or_else(single),
        false => single().or_else(|| regex::any_case(pattern)),
    };
    all.unwrap_or_else(|| {
        let what = format!("{} is for paths whatever their case", child.text());
        draft.error(&child.place, what, "write the paths in each case that there is");
        vec![pattern.to_owned()]
    })
}

/// The names that only begin with a prefix, which what protects it has in nginx, too.
fn longer_names(child: &Directive) -> Option<String> {
    match child.argument(0) {
        "~*" | "~" | "=" => None,
        _ => regex::longer_names(child.arguments.last().map_or("", String::as_str)),
    }
}

/// The route of the names that only begin with a prefix. With `^~` it precedes expressions.
fn guarded(pattern: &str, child: &Directive, scope: &Scope, host: &mut Host, draft: &mut Draft) {
    let place = &child.place;
    let mut own = scope.clone();
    fields(&mut own, host, draft);
    [FRONT, RUNS_FILES].iter().for_each(|name| own.remove(name));
    let maps =
        own.get("alias").is_some() || own.text("proxy").is_some_and(|url| url.matches('/').count() > 2);
    if maps {
        ["alias", "proxy", "proxy_path", "proxy_host", "proxy_headers", "fallback", "fallback_for"]
            .iter()
            .for_each(|name| own.remove(name));
        own.set(place, "return", 404);
    }
    let text = child.arguments.last().map_or("", String::as_str);
    match child.argument(0) {
        "^~" => Order::Instead(text).set(&mut own, place),
        _ => Order::Behind(text).set(&mut own, place),
    }
    host.route(pattern, place).inherit(&own);
}

/// Gives the routes of these patterns what their location has.
fn finish(patterns: &[String], mut scope: Scope, host: &mut Host, draft: &mut Draft) {
    let place = scope.place();
    let inherits = !host.scope.rules.is_empty();
    if !scope.rules.is_empty() && inherits && scope.rules.iter().all(|rule| rule.get("address").is_some()) {
        let mut rule = Scope::new(place.line);
        rule.set(&place, "then", "allow");
        scope.rules.push(rule);
    }
    fields(&mut scope, host, draft);
    if has_any(&scope, &["redirect", "return", "respond"]) {
        // A return precedes what would respond otherwise.
        const OTHERS: [&str; 9] = [
            "monitor",
            "proxy",
            "proxy_path",
            "interpreter",
            "alias",
            "root",
            "fallback",
            "fallback_for",
            FRONT,
        ];
        OTHERS.iter().for_each(|name| scope.remove(name));
    }
    let front = scope.text(FRONT).map(str::to_owned);
    let runs_files = scope.get(RUNS_FILES).is_some();
    [FRONT, RUNS_FILES].iter().for_each(|name| scope.remove(name));
    if let Some(front) = front.as_deref().filter(|_| scope.get("interpreter").is_some()) {
        return front_script(front, patterns, &scope, host, draft);
    }
    let is_begun = matches!(patterns, [folder, path] if *folder == format!("{path}/"));
    let has_alias = scope.get("alias").is_some();
    for (at, path) in patterns.iter().enumerate() {
        if path == "/" && scope.is_empty() {
            continue;
        }
        let is_prefix = path.ends_with('/');
        let needs_file = scope.get("root").is_some() || has_alias || is_settings(&scope);
        if at > 0 && needs_file && is_begun {
            continue;
        }
        let mut own = scope.clone();
        if has_alias && !is_prefix && !alias_of_file(path, &mut own) {
            let what = "an alias of one file has the name of the file, in the root of the host";
            draft.error(&place, what, "write a location that is a folder, with a slash at its end");
            continue;
        }
        let runs = runs_script(path, runs_files);
        if let Some(name) = own.text("interpreter").filter(|_| !runs).map(str::to_owned) {
            ["interpreter", "root"].iter().for_each(|name| own.remove(name));
            own.set(&place, "application", name);
        }
        if own.get("interpreter").is_some() {
            own.remove("fallback");
        }
        if let Some(url) = own.text("proxy").map(str::to_owned) {
            match replaced(&url, path, is_begun, &place, draft) {
                Some(url) => own.set(&place, "proxy", url),
                None => {
                    own.remove("proxy");
                    own.set(&place, "return", 502);
                }
            }
        }
        host.route(path, &place).inherit(&own);
    }
}

/// Whether the upstream of a path runs the file there. Otherwise one application responds for all paths.
fn runs_script(path: &str, runs_files: bool) -> bool {
    path.contains('*') || is_script_name(path) || (runs_files && path != "/")
}

/// `try_files` beside what passes a request on: only the files that are run are looked up.
fn files_before_upstream(child: &Directive, patterns: &[String], scope: &Scope, draft: &mut Draft) {
    let Some(files) = child.children().iter().find(|inner| inner.name == "try_files") else { return };
    if has_any(scope, &["return", "redirect"]) {
        return;
    }
    let runs_files = scope.get(RUNS_FILES).is_some();
    let is_script = scope.get(FRONT).is_none() && patterns.iter().all(|path| runs_script(path, runs_files));
    let is_run = scope.get("interpreter").is_some();
    if scope.get("proxy").is_some() || (is_run && !is_script) {
        let what = format!("\"{}\" has no effect where an upstream responds", files.text());
        let what_to_do =
            "give the files a location of their own, or let the upstream respond for what is missing";
        draft.error(&files.place, what, what_to_do);
    } else if let Some(fallback) = scope.text("fallback").filter(|_| is_run) {
        let what =
            format!("a script that does not exist has the status 404, and not the response of {fallback}");
        draft.warn(
            &files.place,
            what,
            "nothing to do, or write the script of a front controller in location /",
        );
    }
}

/// `/index.php`, also as a folder.
fn is_script_name(path: &str) -> bool {
    path.trim_end_matches('/').ends_with(".php")
}

/// Replaces the alias of one file with the root that the file is in. Whether it can.
fn alias_of_file(path: &str, own: &mut Scope) -> bool {
    let Some(root) = own.text("alias").and_then(|alias| alias.strip_suffix(path)).map(str::to_owned) else {
        return false;
    };
    let place = own.place();
    own.remove("alias");
    own.set(&place, "root", if root.is_empty() { "/".to_owned() } else { root });
    true
}

/// The URL for a pattern of a location: nginx replaces the text of the location with the path of the URL. `is_begun`: the
/// text has no slash at its end.
fn replaced(url: &str, pattern: &str, is_begun: bool, place: &Place, draft: &mut Draft) -> Option<String> {
    let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
    match path {
        Some(path) if pattern.ends_with('/') => {
            if is_begun && path.ends_with('/') {
                let what = format!("{pattern}x becomes {path}x, and not {path}/x");
                draft.warn(place, what, "nothing to do, or end both with a slash");
            }
            if !is_begun && !path.ends_with('/') {
                let what = format!("{path} would be written against what follows {pattern}");
                draft.error(place, what, "end the URL of proxy_pass with a slash");
                return None;
            }
            Some(if path.ends_with('/') { url.to_owned() } else { format!("{url}/") })
        }
        Some(_) if pattern.contains(['*', '?']) => {
            draft.error(place, format!("{url} has a path, and {pattern} is no prefix"), "leave the path out");
            None
        }
        _ => Some(url.to_owned()),
    }
}

/// Every path of a location leads to one script, whose upstream runs it.
fn front_script(front: &str, patterns: &[String], scope: &Scope, host: &mut Host, draft: &mut Draft) {
    let place = scope.place();
    let mut own = scope.clone();
    ["interpreter", "env", "root", "alias", "fallback", "fallback_for"]
        .iter()
        .for_each(|name| own.remove(name));
    own.set(&place, "rewrite", front);
    for path in patterns.iter().filter(|path| *path != front) {
        host.route(path, &place).inherit(&own);
    }
    let script = host.route(front, &place);
    if script.responds()
        || script.text("interpreter").is_some_and(|name| scope.text("interpreter") != Some(name))
    {
        return draft.error(&place, format!("{front} has a location of its own"), "let both be the same");
    }
    let mut own = scope.clone();
    ["alias", "fallback", "fallback_for"].iter().for_each(|name| own.remove(name));
    script.inherit(&own);
}

fn is_settings(scope: &Scope) -> bool {
    is_plain(scope) && scope.get("root").is_none()
}

/// A key of a location with the fields of an upstream that clients do not get. It is no key of a route.
const HIDDEN: &str = "hidden fields";

fn hide(child: &Directive, scope: &mut Scope, draft: &mut Draft) {
    let name = child.argument(0);
    match own_field(name) {
        None => scope.pair(&child.place, HIDDEN, name, false),
        Some(_) if ["server", "date"].iter().any(|own| name.eq_ignore_ascii_case(own)) => {
            draft.note(
                &child.place,
                format!("the field {name} of an upstream is never passed"),
                "nothing to do",
            );
        }
        Some(instead) => draft.error(&child.place, unconverted(child), instead),
    }
}

/// Removes the fields of upstreams that a server hides, unless it adds them itself.
fn hidden_fields(scope: &mut Scope) {
    let place = scope.place();
    let hidden = scope.pairs(HIDDEN).to_vec();
    scope.remove(HIDDEN);
    for (name, value) in hidden {
        if !has_field(scope, &name) {
            scope.pair(&place, "headers", &name, value);
        }
    }
}

/// A location with `add_header` has none of the fields of its server. Hidden fields do not count.
fn fields(scope: &mut Scope, host: &Host, draft: &mut Draft) {
    let place = scope.place();
    let hidden = scope.pairs(HIDDEN).to_vec();
    scope.remove(HIDDEN);
    if !scope.pairs("headers").is_empty() {
        without_fields(scope, &host.scope, draft);
    }
    for (name, value) in hidden {
        // What is added in nginx is added behind what is hidden.
        let is_added =
            has_field(scope, &name) || (scope.pairs("headers").is_empty() && has_field(&host.scope, &name));
        if !is_added {
            scope.pair(&place, HIDDEN, &name, value);
        }
    }
    let hidden = scope.pairs(HIDDEN).to_vec();
    scope.remove(HIDDEN);
    for (name, value) in hidden {
        scope.pair(&place, "headers", &name, value);
    }
}

fn try_files(
    child: &Directive,
    owner: &Directive,
    scope: &mut Scope,
    named: &[&Directive],
    draft: &mut Draft,
) {
    let place = &child.place;
    let Some((last, before)) = child.arguments.split_last() else { return };
    let location = named.iter().find(|location| location.argument(0) == last);
    let is_passed = location.is_some_and(|location| named::passes(location));
    for part in before {
        match part.as_str() {
            "$uri" | "$uri/" | "$document_root$fastcgi_script_name" | "$fastcgi_script_name" => {}
            part if index_file(part).is_some() => {}
            "$uri.html" if is_passed => {
                draft.warn(place, "$uri.html is not looked for", "the upstream responds in its place");
            }
            _ => {
                let what_to_do = "only $uri, $uri/ and $uri/index.html can come before the last one";
                return draft.error(place, unconverted(child), what_to_do);
            }
        }
    }
    if let Some(status) = last.strip_prefix('=') {
        if status != "404" {
            draft.warn(place, format!("a missing file has the status 404, not {status}"), "nothing to do");
        }
        return no_folders(before, place, scope);
    }
    let target = if last.starts_with('@') {
        let inner =
            location.and_then(|location| location.children().iter().find(|inner| inner.name == "rewrite"));
        match inner.map(|inner| (inner.argument(0), inner.argument(1))) {
            _ if is_passed => {
                scope.set(place, "fallback", named::path(owner, last));
                scope.set(place, "fallback_for", "all");
                return no_folders(before, place, scope);
            }
            Some(("^(.*)$" | "^(.*)", target)) => target.replace("$1", "$uri"),
            Some(("^/(.*)$", target)) => with_rest(target),
            Some(("^" | ".*", target)) => target.to_owned(),
            _ => {
                let what = format!("{}: {last} passes no requests on", child.text());
                return draft.error(place, what, "name a file, or a location with proxy_pass");
            }
        }
    } else {
        last.clone()
    };
    let (path, query) = target.split_once('?').map_or((target.as_str(), ""), |(path, query)| (path, query));
    let path = path.trim_end_matches("$is_args$args");
    // A script has the requested path in PATH_INFO in any case.
    let path = ["$request_uri", "$uri"]
        .iter()
        .find_map(|rest| path.strip_suffix(rest).filter(|script| is_script_name(script)))
        .unwrap_or(path);
    let query = query.replace("$query_string", "").replace("$is_args", "").replace("$args", "");
    let query = query.replace("$uri", "$path").replace("$request_uri", "$path");
    let query = query.trim_matches('&').to_owned();
    if path.contains('$')
        || !path.starts_with('/')
        || query.replace("$path", "").replace("$rest", "").contains('$')
    {
        return draft.error(place, unconverted(child), "see fallback");
    }
    let fallback = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    scope.set(place, "fallback", fallback);
    scope.set(place, "fallback_for", "all");
    no_folders(before, place, scope);
}

/// Of `^/(.*)$`, the query can have what a fallback knows as `$rest`.
fn with_rest(target: &str) -> String {
    match target.split_once('?') {
        Some((path, query)) => format!("{}?{}", path.replace("$1", "$uri"), query.replace("$1", "$rest")),
        None => target.replace("/$1", "$uri"),
    }
}

/// The name in `$uri/index.html`.
fn index_file(part: &str) -> Option<&str> {
    part.strip_prefix("$uri/").filter(|name| !name.is_empty() && !name.contains(['$', '/']))
}

/// `error_page 404 = @app` where files are sent.
fn missing(child: &Directive, owner: &Directive, scope: &mut Scope, named: &[&Directive], draft: &mut Draft) {
    let place = &child.place;
    let name = child.arguments.last().map_or("", String::as_str);
    let location = named.iter().find(|location| location.argument(0) == name);
    if named::passes(owner) || !location.is_some_and(|location| named::passes(location)) {
        return draft.error(place, unconverted(child), "name a file of the host by its path");
    }
    if scope.get("fallback").is_none() {
        scope.set(place, "fallback", named::path(owner, name));
        scope.set(place, "fallback_for", "all");
    }
}

/// Without `$uri/`, a folder is no file: it has neither a listing nor an index file but those that are named.
fn no_folders(before: &[String], place: &Place, scope: &mut Scope) {
    if !before.iter().any(|part| part == "$uri/") {
        let named: Vec<String> =
            before.iter().filter_map(|part| index_file(part)).map(str::to_owned).collect();
        scope.set(place, "index", named);
        scope.set(place, "listing", false);
    }
}

fn proxy_pass(child: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) {
    let place = &child.place;
    let url = child.argument(0);
    let found =
        url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https") && !url.contains('$'));
    let Some((scheme, rest)) = found else {
        scope.set(place, "return", 502);
        return draft.error(place, unconverted(child), "write a URL without variables");
    };
    let (authority, path) = match rest.strip_prefix("unix:") {
        Some(unix) => {
            let (socket, path) = unix.split_once(':').unwrap_or((unix, ""));
            (format!("unix:{socket}"), path)
        }
        None => {
            let end = rest.find('/').unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        }
    };
    let Some(name) = application(&authority, scheme, context.upstreams, place, draft) else {
        return draft.error(place, unconverted(child), "write an address and a port");
    };
    scope.set(place, "proxy", format!("{scheme}://{name}{path}"));
    // Without a path in the URL, nginx passes the path as the client has sent it.
    match path {
        "" => scope.set(place, "proxy_path", "raw"),
        _ => scope.remove("proxy_path"),
    }
    // Without proxy_set_header, nginx sends the host of the URL.
    if scope.get("proxy_host").is_none() && !authority.starts_with("unix:") {
        scope.set(place, "proxy_host", authority);
    }
}

fn upstream(child: &Directive, protocol: &str, scope: &mut Scope, context: &Context, draft: &mut Draft) {
    let place = &child.place;
    let target = child.argument(0).trim_start_matches("grpc://");
    match application(target, protocol, context.upstreams, place, draft) {
        Some(name) if protocol == "http" => {
            for keys in draft.applications.iter_mut().filter(|keys| keys.text("name") == Some(&name)) {
                keys.set(place, "http2", true);
            }
            scope.set(place, "proxy", format!("http://{name}"));
        }
        Some(name) => scope.set(place, "interpreter", name),
        None => draft.error(place, unconverted(child), "write an address and a port"),
    }
}

fn proxy_header(child: &Directive, scope: &mut Scope, draft: &mut Draft) {
    let place = &child.place;
    let (name, value) = (child.argument(0), child.argument(1));
    let lower = name.to_ascii_lowercase();
    match value {
        "$host" | "$http_host" | "$host:$server_port" | "$server_name" if lower == "host" => {
            scope.remove("proxy_host");
            scope.set(place, "proxy_host", "");
        }
        "$proxy_host" if lower == "host" => {}
        value if lower == "host" && !value.contains('$') => scope.set(place, "proxy_host", value),
        _ if OWN_FIELDS.contains(&lower.as_str()) && (value.contains('$') || is_of_connection(&lower)) => {}
        "" => scope.pair(place, "proxy_headers", name, false),
        value if !value.contains('$') => scope.pair(place, "proxy_headers", name, value),
        value if value.strip_prefix("$http_") == Some(lower.replace('-', "_").as_str()) => {}
        _ => {
            // The client could otherwise say what nginx said.
            scope.pair(place, "proxy_headers", name, false);
            let what = format!("{name} is removed: its value has a variable");
            draft.warn(place, what, "upstreams have X-Forwarded-For, -Proto and -Host");
        }
    }
}

/// A field that no directive can replace.
fn is_of_connection(name: &str) -> bool {
    matches!(name, "host" | "connection" | "upgrade")
}

/// A key that marks a location whose upstream runs files. It is no key of a route.
const RUNS_FILES: &str = "runs files";

/// A key with the path of the script that a location leads to. It is no key of a route.
const FRONT: &str = "front script";

/// The name of a file tells that the upstream runs it. Other values are for an application.
fn script_file(child: &Directive, scope: &mut Scope, context: &Context) {
    let value = child.argument(1);
    let names = ["$fastcgi_script_name", "$uri", "$request_uri"];
    let root = names.iter().find_map(|name| value.strip_suffix(name));
    match root {
        Some("$document_root" | "$realpath_root") => scope.set(&child.place, RUNS_FILES, true),
        Some(root) if root.starts_with('/') && !root.contains('$') => {
            scope.set(&child.place, RUNS_FILES, true);
            scope.set(&child.place, "root", (context.path)(root));
        }
        _ if value == "$request_filename" => scope.set(&child.place, RUNS_FILES, true),
        _ => front(child, value, scope),
    }
}

/// One file, whatever is requested.
fn front(child: &Directive, value: &str, scope: &mut Scope) {
    let of_root = value.strip_prefix("$document_root").or_else(|| value.strip_prefix("$realpath_root"));
    let (root, name) = match of_root {
        Some(path) => (None, path),
        None => value.rfind('/').map_or((None, ""), |at| (Some(&value[..at]), &value[at..])),
    };
    if !name.starts_with('/') || name.len() == 1 || of_root.unwrap_or(value).contains('$') {
        return;
    }
    scope.set(&child.place, FRONT, name);
    if let Some(root) = root {
        scope.set(&child.place, "root", if root.is_empty() { "/" } else { root });
    }
}

fn variable(child: &Directive, scope: &mut Scope, draft: &mut Draft) {
    let (name, value) = (child.argument(0), child.argument(1));
    let own = OWN_VARIABLES.iter().find(|(own, _)| *own == name);
    if own.is_some_and(|(_, values)| values.contains(&"*") || values.contains(&value)) {
        return;
    }
    if value.contains('$') {
        return draft.error(&child.place, unconverted(child), "env has no variables; write a value");
    }
    scope.pair(&child.place, "env", name, value);
}

fn upstream_timeout(child: &Directive, scope: &Scope, draft: &mut Draft) {
    let key = match child.name.as_str() {
        name if name.ends_with("connect_timeout") => "connect",
        name if name.ends_with("read_timeout") => "first_byte",
        _ => return draft.note(&child.place, format!("{} has no effect", child.name), "nothing to do"),
    };
    let url = scope.text("proxy").and_then(|url| url.split_once("://"));
    let name =
        url.map(|(_, rest)| rest.split('/').next().unwrap_or(rest)).or_else(|| scope.text("interpreter"));
    let keys = draft.applications.iter().position(|keys| name.is_some() && keys.text("name") == name);
    match (keys, duration(child.argument(0))) {
        (Some(at), Some(time)) => {
            let keys = &mut draft.applications[at];
            keys.set(&child.place, key, time.as_str());
            if key == "first_byte" {
                keys.set(&child.place, "idle", time);
            }
        }
        _ => draft.warn(
            &child.place,
            format!("\"{}\" has no effect", child.text()),
            "see first_byte of [[application]]",
        ),
    }
}
