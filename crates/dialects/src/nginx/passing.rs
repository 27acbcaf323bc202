//! Upstreams of a location: where they are, and what they are told.

use crate::brackets::is_glob;
use crate::draft::{Draft, Host, Scope};
use crate::tree::{Directive, Place, unconverted};
use site::config::own_field;

use super::answers::Answers;
use super::inherit::{has_field, without_fields};
use super::settings::Context;
use super::upstreams::{Tls, application, duration};

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
    ("HTTP_HOST", &["$host", "$http_host", "$server_name"]),
];

/// Replaces the alias of one file with its path, if it is beneath the root of the host. The route of the path then decides
/// who may have it. Returns whether it could be replaced.
pub fn leads_to_file(own: &mut Scope, host: &Host) -> bool {
    let is_plain = |path: &&str| path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let root = host.scope.text("root").map(|root| root.trim_end_matches('/'));
    let path = own.text("alias").zip(root).and_then(|(alias, root)| alias.strip_prefix(root));
    let path = path.filter(|path| path.starts_with('/')).filter(is_plain).map(str::to_owned);
    let Some(path) = path.filter(|_| !own.protects()) else { return false };
    let place = own.place();
    own.remove("alias");
    own.set(&place, "rewrite", path);
    true
}

/// Replaces the alias of one file with the root that the file is in. Returns whether it could be replaced.
pub fn alias_of_file(path: &str, own: &mut Scope) -> bool {
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
pub fn replaced(
    url: &str,
    pattern: &str,
    is_begun: bool,
    place: &Place,
    draft: &mut Draft,
) -> Option<String> {
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
        Some(_) if is_glob(pattern) => {
            draft.error(place, format!("{url} has a path, and {pattern} is no prefix"), "leave the path out");
            None
        }
        _ => Some(url.to_owned()),
    }
}

/// A key of a location with the fields of an upstream that clients do not get. It is no key of a route.
const HIDDEN: &str = "hidden fields";

pub fn hide(child: &Directive, scope: &mut Scope, draft: &mut Draft) {
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
pub fn hidden_fields(scope: &mut Scope) {
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
pub fn fields(scope: &mut Scope, host: &Host, draft: &mut Draft) {
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

/// `proxy_pass`. `tls` is what stands beside it.
pub fn proxy_pass(child: &Directive, tls: &Tls, scope: &mut Scope, context: &Context, draft: &mut Draft) {
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
    let Some(name) = application(&authority, scheme, tls, context, place, draft) else {
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

pub fn upstream(child: &Directive, protocol: &str, scope: &mut Scope, context: &Context, draft: &mut Draft) {
    let place = &child.place;
    let target = child.argument(0).trim_start_matches("grpc://");
    match application(target, protocol, &Tls::default(), context, place, draft) {
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

/// What a variable is for all requests of a server, if everything that it listens on agrees.
fn constant(variable: &str, server: &[Directive]) -> Option<String> {
    let listens = || server.iter().filter(|child| child.name == "listen");
    let has_tls = |listen: &Directive| listen.arguments.iter().any(|word| word == "ssl");
    let port = |listen: &Directive| {
        let address = listen.argument(0);
        let port = address.rsplit_once(':').map_or(address, |(_, port)| port);
        port.parse::<u16>().is_ok().then(|| port.to_owned())
    };
    let all: Option<Vec<String>> = match variable {
        "$server_port" => listens().map(port).collect(),
        "$scheme" => {
            let is_old = server.iter().any(|child| child.name == "ssl");
            let scheme = |listen| Some(if has_tls(listen) { "https" } else { "http" }.to_owned());
            listens().map(scheme).collect::<Option<_>>().filter(|_| !is_old)
        }
        _ => None,
    };
    let all = all?;
    let first = all.first()?;
    all.iter().all(|one| one == first).then(|| first.clone())
}

/// `server` has the directives around.
pub fn proxy_header(
    child: &Directive,
    answers: &Answers,
    server: &[Directive],
    scope: &mut Scope,
    draft: &mut Draft,
) {
    let place = &child.place;
    if answers.proxy_header(child, scope, draft) {
        return;
    }
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
        "$remote_addr" if lower == "x-real-ip" => {}
        // Without a body, which is passed here, they would not be there.
        "" if matches!(lower.as_str(), "content-length" | "content-type") => {}
        "" => scope.pair(place, "proxy_headers", name, false),
        value if !value.contains('$') => scope.pair(place, "proxy_headers", name, value),
        value if value.strip_prefix("$http_") == Some(lower.replace('-', "_").as_str()) => {}
        variable if let Some(value) = constant(variable, server) => {
            scope.pair(place, "proxy_headers", name, value);
        }
        _ => {
            // The client could otherwise say what nginx said.
            scope.pair(place, "proxy_headers", name, false);
            let what = format!("{name} is removed: its value has a variable");
            draft.warn(place, what, "upstreams have X-Real-IP, and X-Forwarded-For, -Proto and -Host");
        }
    }
}

/// A field that no directive can replace.
fn is_of_connection(name: &str) -> bool {
    matches!(name, "host" | "connection" | "upgrade")
}

/// A key that marks a location whose upstream runs files. It is no key of a route.
pub const RUNS_FILES: &str = "runs files";

/// A key with the path of the script that a location leads to. It is no key of a route.
pub const FRONT: &str = "front script";

/// The name of a file tells that the upstream runs it. Other values are for an application.
pub fn script_file(child: &Directive, scope: &mut Scope, context: &Context) {
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

pub fn variable(child: &Directive, answers: &Answers, scope: &mut Scope, draft: &mut Draft) {
    let (name, value) = (child.argument(0), child.argument(1));
    if answers.variable(child, scope) {
        return;
    }
    let own = OWN_VARIABLES.iter().find(|(own, _)| *own == name);
    if own.is_some_and(|(_, values)| values.contains(&"*") || values.contains(&value)) {
        return;
    }
    if value.contains('$') {
        return draft.error(&child.place, unconverted(child), "env has no variables; write a value");
    }
    scope.pair(&child.place, "env", name, value);
}

pub fn upstream_timeout(child: &Directive, scope: &Scope, draft: &mut Draft) {
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
