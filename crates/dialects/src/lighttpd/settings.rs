//! Settings outside of conditions, and within those on paths.

use site::config::own_field;

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::regex::{self, Captured};
use crate::tree::Place;
use crate::within::covers;
use crate::words;

use super::convert::unconverted;
use super::names::{KNOWN, NEEDLESS};
use super::paths::{begun, narrowed, url_patterns, within};
use super::read::Datum;
use super::upstreams::upstreams;

/// `NAME = VALUE`, for the host, or for some paths of it.
pub(super) struct Setting<'s> {
    pub(super) name: &'s str,
    pub(super) value: &'s Datum,
    pub(super) place: &'s Place,
    pub(super) paths: &'s [String],
}

/// Converts a setting to keys. A setting that needs more than a line or two has a function of its own.
pub(super) fn apply_setting(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths } = *setting;
    let text = value.text();
    let seconds = || number(value).clamp(1, 86_400);
    match name {
        name if !KNOWN.names().any(|known| known == name) => {
            draft.error(place, unconverted(name), &KNOWN.what_to_do(name));
        }
        "server.port" | "server.bind" | "ssl.engine" | "server.dir-listing.encoding" => {}
        "auth.backend" if matches!(text, "htpasswd" | "htdigest" | "plain") => {}
        "auth.backend" => {
            draft.error(place, unconverted(&format!("auth.backend \"{text}\"")), "see authorizer")
        }
        name if name.starts_with("auth.backend.") && !paths.is_empty() => {
            let what = format!("{} for some paths", unconverted(name));
            draft.error(place, what, "write it outside of the condition");
        }
        "server.document-root" => setting.set(host, "root", text.trim_end_matches('/')),
        "server.username" => draft.top.set(place, "user", text),
        "server.groupname" => draft.top.set(place, "group", text),
        "server.pid-file" => draft.top.set(place, "pid_file", text),
        "server.chroot" => draft.top.set(place, "chroot", text),
        "server.errorlog-use-syslog" if value.is_on() => draft.log.set(place, "error", "syslog"),
        "server.errorlog" => draft.log.set(place, "error", log_target(text)),
        "accesslog.filename" => draft.log.set(place, "access", log_target(text)),
        "accesslog.use-syslog" if value.is_on() => draft.log.set(place, "access", "syslog"),
        "accesslog.format" => {
            let has_agent = text.to_ascii_lowercase().contains("user-agent");
            draft.log.set(place, "format", if has_agent { "combined" } else { "common" });
            draft.warn(place, "accesslog.format: a format of the server is nearest", "see format of [log]");
        }
        "server.breakagelog" => {
            draft.warn(place, "what scripts say goes to the error log", "see stderr_lines of [scripts]");
        }
        name if name.starts_with("status.") => {
            draft.warn(place, format!("{name}: there is no such page"), "see taipan stats");
        }
        "server.tag" if text.is_empty() => draft.top.set(place, "server_header", false),
        "server.tag" => draft.top.set(place, "server_header", text),
        "server.max-connections" => draft.limits.set(place, "connections", number(value).clamp(1, 1_000_000)),
        "server.max-keep-alive-requests" => {
            draft.limits.set(place, "requests", number(value).clamp(0, 1_000_000))
        }
        "server.max-keep-alive-idle" => draft.timeouts.set(place, "idle", seconds()),
        "server.max-read-idle" => {
            draft.timeouts.set(place, "head", seconds());
            draft.timeouts.set(place, "body", seconds());
        }
        "server.max-write-idle" => draft.timeouts.set(place, "write", seconds()),
        "server.max-request-size" => match text.parse::<i64>() {
            Ok(..=0) => setting.set(host, "max_body", 1 << 40),
            Ok(kibibytes) => setting.set(host, "max_body", kibibytes.min(1 << 30) << 10),
            Err(_) => draft.error(place, unconverted(name), "write a number"),
        },
        "index-file.names" | "server.indexfiles" => setting.set(host, "index", value.texts()),
        "dir-listing.activate" | "server.dir-listing" => setting.set(host, "listing", value.is_on()),
        "server.follow-symlink" if !value.is_on() => setting.set(host, "symlinks", "never"),
        "server.follow-symlink" => {}
        "server.error-handler-404" | "server.error-handler" => {
            setting.set(host, "fallback", text);
            setting.set(host, "fallback_for", "all");
            draft.warn(place, format!("{name}: the status is that of the file"), "see error_pages");
        }
        "connection.kbytes-per-second" | "server.kbytes-per-second" if text == "0" => {}
        "connection.kbytes-per-second" if number(value) > 0 => speed(setting, "connection", host),
        "server.kbytes-per-second" if number(value) > 0 => speed(setting, "all", host),
        "mimetype.assign" => media_types(setting, host),
        "url.access-deny" => deny_endings(setting, host, draft),
        "static-file.exclude-extensions" => exclude_endings(setting, host, draft),
        "deflate.mimetypes" | "compress.filetype" => compression(setting, host, draft),
        "deflate.allowed-encodings" => {
            let mut codings = value.texts();
            codings.retain(|name| matches!(name.as_str(), "gzip" | "br" | "zstd"));
            setting.set(host, "compress", codings);
        }
        "ssl.pemfile" => setting.set(host, "certificate", text),
        "ssl.privkey" => setting.set(host, "certificate_key", text),
        "ssl.ca-file" | "ssl.cipher-list" | "ssl.openssl.ssl-conf-cmd" | "ssl.honor-cipher-order" => {
            draft.note(place, format!("{name} has no effect"), "see [tls]");
        }
        "alias.url" => aliases(setting, host, draft),
        "setenv.add-response-header" | "setenv.set-response-header" => response_fields(setting, host, draft),
        "setenv.add-environment" | "setenv.set-environment" => setting.set_pairs(host, "env"),
        "expire.url" => expiry(setting, host, draft),
        "userdir.path" => host.scope.set(place, "user_folders", text),
        "auth.backend.htpasswd.userfile" | "auth.backend.htdigest.userfile" => {
            host.scope.set(place, "user_files", text);
        }
        "auth.backend.plain.userfile" => {
            host.scope.set(place, "user_files", text);
            host.scope.set(place, "plain_passwords", true);
        }
        "auth.require" => auth(setting, host, draft),
        "url.redirect" => redirects(setting, host, draft),
        "url.redirect-code" => {
            for route in host.routes.iter_mut().filter(|route| route.get("redirect").is_some()) {
                route.set(place, "status", number(value));
            }
        }
        "url.rewrite-once" | "url.rewrite" | "url.rewrite-repeat" => rewrites(setting, host, draft),
        "url.rewrite-if-not-file" => fallback(setting, host, draft),
        "cgi.assign" | "fastcgi.server" | "scgi.server" | "proxy.server"
            if value.pairs().is_empty() && !paths.is_empty() =>
        {
            let what = "nothing runs the files of these paths, which a route cannot say";
            draft.error(place, format!("{name}: {what}"), "add url.access-deny for these files to the block");
        }
        "cgi.assign" => scripts(setting, host, draft),
        "fastcgi.server" => upstreams(value, "fastcgi", paths, place, host, draft),
        "scgi.server" => upstreams(value, "scgi", paths, place, host, draft),
        "proxy.server" => upstreams(value, "http", paths, place, host, draft),
        "proxy.balance" | "fastcgi.balance" => {
            draft.warn(place, format!("{name} is not converted"), "see balance")
        }
        "extforward.forwarder" => trusted(value, place, draft),
        "extforward.headers" | "extforward.params" | "extforward.hap-PROXY" => {
            draft.note(place, format!("{name} has no effect"), "see trusted_proxies");
        }
        "proxy.header" | "proxy.forwarded" => {
            let what = format!("{name}: upstreams have X-Forwarded-For and may upgrade to WebSocket");
            draft.note(place, what, "see the manual on proxies");
        }
        "simple-vhost.server-root" => {
            host.scope.set(place, "root", format!("{}/$host", text.trim_end_matches('/')))
        }
        "simple-vhost.document-root" => match host.scope.text("root").map(str::to_owned) {
            Some(root) => host.scope.set(place, "root", format!("{root}/{}", text.trim_matches('/'))),
            None => draft.error(place, unconverted(name), "write it behind simple-vhost.server-root"),
        },
        "simple-vhost.default-host" => host.scope.set(place, "default_folder", text),
        name if NEEDLESS.contains(&name) => {}
        _ => draft.error(place, unconverted(name), "remove it, or find its like in the manual"),
    }
}

impl Setting<'_> {
    /// For the host, or for the routes of the paths.
    fn each(&self, host: &mut Host, act: impl Fn(&mut Scope)) {
        if self.paths.is_empty() {
            act(&mut host.scope);
        }
        for path in self.paths {
            act(host.route(path, self.place));
        }
    }

    fn set(&self, host: &mut Host, key: &str, value: impl Into<Value>) {
        let value = value.into();
        self.each(host, |scope| scope.set(self.place, key, value.clone()));
    }

    /// The pairs of the value become pairs of a table.
    fn set_pairs(&self, host: &mut Host, table: &str) {
        for (name, value) in self.value.pairs() {
            self.each(host, |scope| scope.pair(self.place, table, name, value.text()));
        }
    }
}

/// The target of a log. lighttpd runs a command by `/bin/sh`, which `|$` means here.
fn log_target(text: &str) -> String {
    text.strip_prefix('|').map_or_else(|| text.to_owned(), |command| format!("|${}", command.trim_start()))
}

fn speed(setting: &Setting, by: &str, host: &mut Host) {
    let mut limit = Scope::new(setting.place.line);
    limit.set(setting.place, "by", by);
    limit.set(setting.place, "download", number(setting.value).clamp(1, 1 << 30) << 10);
    setting.each(host, |scope| scope.limits.push(limit.clone()));
}

fn media_types(setting: &Setting, host: &mut Host) {
    for (extension, kind) in setting.value.pairs() {
        setting.each(host, |scope| match extension.trim_start_matches('.') {
            "" => scope.set(setting.place, "default_type", kind.text()),
            extension => scope.pair(setting.place, "types", extension, kind.text()),
        });
    }
}

/// lighttpd compares the beginnings of types.
fn compression(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let texts = setting.value.texts();
    let types = texts.iter().map(|text| text.split(';').next().unwrap_or(text).trim());
    let types: Vec<String> =
        types.map(|text| if text.ends_with('/') { format!("{text}*") } else { text.to_owned() }).collect();
    if types.iter().any(|text| !text.contains('/')) {
        return draft.error(
            setting.place,
            unconverted(setting.name),
            "write types, such as text/html or text/",
        );
    }
    setting.set(host, "compress", true);
    setting.set(host, "compress_types", types);
}

fn response_fields(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    for (name, value) in setting.value.pairs() {
        let text = value.text();
        match name.to_ascii_lowercase().as_str() {
            "server" if setting.paths.is_empty() && host.is_default => match text {
                "" => draft.top.set(setting.place, "server_header", false),
                text => draft.top.set(setting.place, "server_header", text),
            },
            "server" => {
                draft.warn(setting.place, "Server is the same for all hosts and paths", "see server_header");
            }
            lower if own_field(lower).is_some() => {
                let what = unconverted(&format!("the field {name}"));
                draft.error(setting.place, what, "the server sets it; see types, redirects and compress");
            }
            _ if text.is_empty() => {
                setting.each(host, |scope| scope.pair(setting.place, "headers", name, false))
            }
            _ => setting.each(host, |scope| scope.pair(setting.place, "headers", name, text)),
        }
    }
}

fn deny_endings(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths } = *setting;
    let mut deny = |path: &str| host.route(path, place).set(place, "return", 403);
    for ending in value.texts() {
        match (ending.as_str(), paths) {
            ("", []) => deny("/"),
            ("", paths) => paths.iter().for_each(|path| deny(path)),
            (ending, paths) if !ending.contains(['/', '*', '?']) => match within(paths, ending) {
                Some(patterns) => patterns.iter().for_each(|pattern| deny(pattern)),
                None => draft.error(place, unconverted(name), "see [[rule]]"),
            },
            _ => draft.error(place, unconverted(name), "see [[rule]]"),
        }
    }
}

fn exclude_endings(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    for ending in setting.value.texts() {
        match within(setting.paths, &ending) {
            Some(patterns) => {
                host.unsent.extend(patterns.into_iter().map(|pattern| (pattern, setting.place.clone())))
            }
            None => draft.error(setting.place, unconverted(setting.name), "see return of [[route]]"),
        }
    }
}

fn aliases(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    let is_within = |path: &str| paths.is_empty() || paths.iter().any(|outer| covers(outer, path));
    // The aliases of a block take the place of others.
    for route in host.routes.iter_mut().filter(|_| !paths.is_empty()) {
        if route.text("path").is_some_and(is_within) {
            route.remove("alias");
        }
    }
    for (from, to) in value.pairs() {
        let path = format!("{}/", from.trim_end_matches('/'));
        if is_within(&path) {
            host.route(&path, place).set(place, "alias", to.text().trim_end_matches('/'));
        } else {
            let what = unconverted(&format!("alias.url \"{from}\""));
            draft.error(place, what, "write it outside of the condition");
        }
    }
}

fn expiry(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths } = *setting;
    for (begin, time) in value.pairs() {
        let Some(seconds) = seconds(time.text()) else {
            draft.error(place, unconverted(name), "see cache_control");
            continue;
        };
        let own = begun(begin);
        let scopes = if paths.is_empty() { vec![None] } else { paths.iter().map(Some).collect() };
        for path in scopes {
            let within = path.map(std::slice::from_ref).unwrap_or_default();
            let Some(patterns) = narrowed(within, &own) else {
                draft.error(place, unconverted(name), "see cache_control");
                continue;
            };
            for pattern in patterns {
                let scope = match path {
                    Some(path) => host.route(path, place),
                    None => &mut host.scope,
                };
                scope.pair(place, "cache_control", &pattern, format!("max-age={seconds}"));
            }
        }
    }
}

fn scripts(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { name, value, place, paths } = *setting;
    for (ending, program) in value.pairs() {
        let patterns = match ending {
            "" => Some(paths.to_vec()),
            ending => within(paths, ending),
        };
        let Some(patterns) = patterns else {
            draft.error(place, unconverted(name), "write the folders whose files are scripts");
            continue;
        };
        for pattern in patterns {
            let route = host.route(&pattern, place);
            route.set(place, "cgi", true);
            if !program.text().is_empty() {
                route.set(place, "interpreter", program.text());
            }
        }
    }
}

/// Seconds of `access plus 7 days`.
fn seconds(text: &str) -> Option<u64> {
    words::seconds(text.trim_start_matches("access").split_whitespace().filter(|word| *word != "plus"))
}

/// `extforward.forwarder = ("10.0.0.1" => "trust")`.
fn trusted(value: &Datum, place: &Place, draft: &mut Draft) {
    let all: Vec<String> = value.pairs().iter().map(|(address, _)| (*address).to_owned()).collect();
    let is_known = |(address, trust): &(&str, &Datum)| *address != "all" && trust.text() == "trust";
    match value.pairs().iter().all(is_known) && !all.is_empty() {
        true => draft.top.set(place, "trusted_proxies", all),
        false => {
            draft.error(place, unconverted("extforward.forwarder"), "write the addresses of the proxies")
        }
    }
}

fn auth(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    for (path, options) in value.pairs() {
        let option = |wanted: &str| {
            options
                .pairs()
                .iter()
                .find(|(name, _)| *name == wanted)
                .map_or(String::new(), |(_, datum)| datum.text().to_owned())
        };
        let mut required = Vec::new();
        for one in option("require").split('|') {
            match one.split_once('=') {
                Some(("user", name)) => required.push(format!("user:{name}")),
                Some(("group", name)) => required.push(format!("group:{name}")),
                None if matches!(one, "" | "valid-user") => {}
                _ => {
                    let what = format!("auth.require: \"{}\" cannot be converted", one.escape_debug());
                    draft.error(place, what, "write user=NAME, group=NAME or valid-user");
                }
            }
        }
        let method = option("method");
        if !matches!(method.as_str(), "basic" | "digest") {
            draft.error(
                place,
                format!("auth.require: there is no method \"{}\"", method.escape_debug()),
                "write basic or digest",
            );
        }
        let Some(patterns) = narrowed(paths, &begun(path)) else {
            draft.error(
                place,
                unconverted(&format!("auth.require \"{path}\"")),
                "write it outside of the condition",
            );
            continue;
        };
        for path in patterns {
            let scope = if path == "/" { &mut host.scope } else { host.route(&path, place) };
            scope.set(place, "auth", if method == "digest" { "digest" } else { "basic" });
            scope.set(place, "realm", option("realm"));
            if !required.is_empty() {
                scope.set(place, "require", required.clone());
            }
        }
    }
}

/// `$1` and the query, as targets of redirects and rewrites have them. `rest` is `$1`.
fn target(text: &str, rest: &str) -> Option<String> {
    let text =
        text.replace("${url.path}", "$path").replace("${qsa}", "$query").replace("${url.query}", "$query");
    let text = text
        .replace("?$query", "$query")
        .replace("$1", rest)
        .replace("$query$query", "$query")
        .replace("%0", "$host")
        .replace("${url.authority}", "$host");
    let rest = text.replace("$path", "").replace("$query", "").replace("${rest}", "").replace("$host", "");
    (!rest.contains(['$', '%']) && !text.is_empty()).then_some(text)
}

/// The paths of an expression within a block, for a target. `None`: patterns cannot say it.
fn targeted(paths: &[String], path: Option<String>, to: &str) -> Option<Vec<String>> {
    let path = path?;
    let all = narrowed(paths, std::slice::from_ref(&path))?;
    // `$1` begins behind the expression, and not behind the prefix of the block.
    (!to.contains("${rest}") || all.iter().all(|own| *own == path)).then_some(all)
}

fn redirects(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    for (expression, to) in value.pairs() {
        let path = regex::prefix(expression).or_else(|| regex::exact(expression));
        let path = path.or_else(|| matches!(expression, "" | "^" | "^/").then(|| "/".to_owned()));
        // The expression finds the query, too.
        let to = target(to.text(), "${rest}$query");
        // What is not captured has no place in the target.
        let others =
            |to: &str| narrowed(paths, &regex::patterns(expression)?).filter(|_| !to.contains("${rest}"));
        let patterns = to.as_deref().and_then(|to| targeted(paths, path, to).or_else(|| others(to)));
        match (patterns, to) {
            (Some(patterns), Some(to)) => {
                for pattern in patterns {
                    let route = host.route(&pattern, place);
                    route.set(place, "redirect", to.as_str());
                    route.set(place, "status", 301);
                }
            }
            _ => draft.error(
                place,
                format!("url.redirect \"{}\" cannot be converted", expression.escape_debug()),
                "see redirects",
            ),
        }
    }
}

fn rewrites(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    for (expression, to) in value.pairs() {
        let all = rewritten(expression, to.text()).and_then(|rewritten| {
            let one = |(path, to): (String, String)| {
                // Everything would be the scripts of other routes, too.
                let path = Some(path).filter(|path| path != "/");
                Some((targeted(paths, path, &to)?, to))
            };
            let all: Option<Vec<_>> = rewritten.all.into_iter().map(one).collect();
            Some((all?, rewritten.takes_query))
        });
        let Some((all, takes_query)) = all else {
            let what_to_do = match rewritten(expression, to.text()) {
                Some(all) if all.all.iter().any(|(path, _)| path == "/") => {
                    "write url.rewrite-if-not-file, or a prefix: scripts that are named themselves would still run"
                }
                _ => "see rewrites and fallback; patterns have wildcards, and no classes of characters",
            };
            let what = format!("url.rewrite \"{}\" cannot be converted", expression.escape_debug());
            draft.error(place, what, what_to_do);
            continue;
        };
        if takes_query {
            warn_of_query(expression, place, draft);
        }
        for (patterns, to) in all {
            for pattern in patterns {
                host.route(&pattern, place).set(place, "rewrite", to.as_str());
            }
        }
    }
}

fn warn_of_query(expression: &str, place: &Place, draft: &mut Draft) {
    let what = format!("\"{}\" finds the query of the request, too", expression.escape_debug());
    draft.warn(place, what, "here it follows as parameters of its own");
}

/// What an expression and a target say.
struct Rewritten {
    /// Patterns, each with its target.
    all: Vec<(String, String)>,
    /// A group at the end finds a path with its query.
    takes_query: bool,
}

/// The ends of expressions that find the query of a URL, with what their groups are.
const QUERY_ENDS: [(&str, &[&str]); 8] = [
    ("(?:\\?(.*))?$", &["&$query"]),
    ("(?:\\?(.*))?", &["&$query"]),
    ("(\\?(.*))?$", &["$query", "&$query"]),
    ("(\\?.*)?$", &["$query"]),
    ("(\\?.*)?", &["$query"]),
    ("(\\?.*|)$", &["$query"]),
    ("\\??(.*)$", &["&$query"]),
    ("\\?(.*)$", &["&$query"]),
];

/// `None`: patterns or targets cannot say it.
fn rewritten(expression: &str, to: &str) -> Option<Rewritten> {
    let end = QUERY_ENDS.iter().find(|(end, _)| expression.ends_with(end));
    let (path, of_query) = match end {
        Some((end, groups)) => (format!("{}$", expression.strip_suffix(end)?), *groups),
        None => (expression.to_owned(), &[][..]),
    };
    let prefixed = regex::prefix(&path).map(|path| (path, vec!["${rest}".to_owned()]));
    let alone = || regex::exact(&path).map(|path| (path, Vec::new()));
    let whole = || {
        matches!(path.as_str(), "" | "^" | "^/" | "^/.*$" | ".*" | "/").then(|| ("/".to_owned(), Vec::new()))
    };
    let rest = || {
        matches!(path.as_str(), "^(.*)$" | "(.*)" | "/(.*)")
            .then(|| ("/".to_owned(), vec!["${rest}".to_owned()]))
    };
    let one = prefixed.or_else(alone).or_else(whole).or_else(rest);
    let all = match one {
        Some((pattern, groups)) => vec![Captured { pattern, groups }],
        None => regex::captured(&path)?,
    };
    let to =
        to.replace("${url.path}", "$path").replace("${qsa}", "&$query").replace("${url.query}", "&$query");
    let target = |mut one: Captured| {
        one.groups.extend(of_query.iter().map(|group| (*group).to_owned()));
        Some((one.pattern.clone(), with_query(&one.target(&to)?)?))
    };
    let is_open =
        of_query.is_empty() && ["(.*)", "(.*)$", "(.+)", "(.+)$"].iter().any(|end| path.ends_with(end));
    let last = all.iter().map(|one| one.groups.len()).max().unwrap_or(0).max(1);
    let takes_query = is_open && to.contains(&format!("${last}"));
    let finished = |(pattern, to): (String, String)| {
        let keeps = takes_query || to.contains("$query") || !to.contains('?');
        (pattern, if keeps || to.ends_with('?') { to } else { to + "?" })
    };
    let all: Option<Vec<_>> = all.into_iter().map(target).collect();
    let all: Vec<_> = all?.into_iter().map(finished).collect();
    let has_own_query = all.iter().any(|(_, to)| to.contains('?'));
    Some(Rewritten { all, takes_query: takes_query && has_own_query })
}

/// A target in which `&$query` is joined to a query of its own, or left out: that of the request stays then. `None`: it
/// has variables that there are not.
fn with_query(to: &str) -> Option<String> {
    let to = to.replace("&&$query", "&$query").replace("?&$query", "?$query").replace("%0", "$host");
    let (path, query) = to.split_once('?').map_or((to.as_str(), None), |(path, query)| (path, Some(query)));
    let path = path.replace("&$query", "").replace("$query", "");
    let known = |text: &str| {
        let bare =
            ["$path", "$query", "${rest}"].iter().fold(text.to_owned(), |text, name| text.replace(name, ""));
        let bare = (1..=9).fold(bare, |text, number| text.replace(&format!("${number}"), ""));
        !bare.contains(['$', '%'])
    };
    if !path.starts_with('/') || !known(&path) || !query.is_none_or(known) {
        return None;
    }
    Some(match query {
        None | Some("$query") => path,
        Some(query) => format!("{path}?{query}"),
    })
}

/// `url.rewrite-if-not-file`, for a front controller.
fn fallback(setting: &Setting, host: &mut Host, draft: &mut Draft) {
    let Setting { value, place, paths, .. } = *setting;
    for (expression, to) in value.pairs() {
        // What is excepted is not there.
        if to.text() == "$0"
            && let Some(patterns) = url_patterns("=~", expression.trim_end_matches("/?"))
            && paths.is_empty()
        {
            for pattern in patterns {
                host.route(&pattern, place).set(place, "fallback", false);
            }
            continue;
        }
        if set_fallbacks(setting, expression, to.text(), host, draft).is_none() {
            draft.error(
                place,
                format!("url.rewrite-if-not-file \"{}\" cannot be converted", expression.escape_debug()),
                "see fallback; patterns have wildcards, and no classes of characters",
            );
        }
    }
}

/// `None`: it cannot be converted.
fn set_fallbacks(
    setting: &Setting,
    expression: &str,
    to: &str,
    host: &mut Host,
    draft: &mut Draft,
) -> Option<()> {
    let Setting { place, paths, .. } = *setting;
    // `[^?]*` is the path. `$0` behind the script is what it has in PATH_INFO.
    let expression = match expression {
        "^/[^?]*(\\?.*)?$" | "^/[^?]*(\\?.*)?" => "^/(\\?.*)?$",
        expression => expression,
    };
    let is_path_info = |to: &str| to.ends_with(".php/$1") || to.ends_with(".php$1") || to.ends_with(".php$0");
    let bare = match is_path_info(to) {
        true => to.trim_end_matches("$1").trim_end_matches("$0").trim_end_matches('/').to_owned(),
        false => to.to_owned(),
    };
    let bare = if expression == "^/(\\?.*)?$" { bare.replace("$1", "${qsa}") } else { bare };
    let expression = if expression == "^/(\\?.*)?$" { "" } else { expression };
    let Rewritten { all, takes_query } = rewritten(expression, &bare)?;
    let is_usable =
        |to: &str| to.split('?').next().is_some_and(|path| path.starts_with('/') && !path.contains('$'));
    if !all.iter().all(|(_, to)| is_usable(to)) {
        return None;
    }
    if takes_query {
        warn_of_query(expression, place, draft);
    }
    for (pattern, to) in all {
        let set = |scope: &mut Scope| {
            scope.set(place, "fallback", to.as_str());
            scope.set(place, "fallback_for", "all");
        };
        // In a block, `$rest` begins behind the prefix of the block.
        match (pattern.as_str(), paths) {
            ("/", paths) if paths.is_empty() || !to.contains("${rest}") => setting.each(host, set),
            (_, []) => set(host.route(&pattern, place)),
            _ => narrowed(paths, std::slice::from_ref(&pattern))
                .filter(|all| *all == [pattern.clone()])
                .map(|_| set(host.route(&pattern, place)))?,
        }
    }
    Some(())
}

fn number(value: &Datum) -> i64 {
    value.text().parse().unwrap_or(0)
}
