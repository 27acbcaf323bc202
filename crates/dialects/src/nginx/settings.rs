//! Directives that stand in `http`, `server` and `location` alike.

use site::config::own_field;

use crate::document::Value;
use crate::draft::{Draft, Scope};
use crate::tree::Directive;

use super::cache;
use super::inherit::NEVER_EXPIRES;
use super::names::NEEDLESS;
use super::upstreams::{Upstream, duration, size, unconverted};

/// A zone of `limit_req_zone` or `limit_conn_zone`.
pub struct Zone {
    pub name: String,
    by: Option<String>,
    rate: Option<String>,
}

/// What a directive can refer to.
pub struct Context<'c> {
    pub upstreams: &'c [Upstream],
    pub zones: &'c [Zone],
    /// Whether `http` says who may have something.
    pub is_closed: bool,
    /// Whether there is `set_real_ip_from`.
    pub trusts: bool,
    pub caches: &'c [cache::Zone],
    /// Those of `http`.
    pub maps: &'c [&'c Directive],
    /// Makes a path absolute.
    pub path: &'c dyn Fn(&str) -> String,
    /// Whether a path is that of a file.
    pub is_file: &'c dyn Fn(&str) -> bool,
    /// The first name of the server.
    pub server_name: String,
    /// That of `http`.
    pub root: Option<String>,
    /// The files that `try_files` of the server names.
    pub fallbacks: Vec<String>,
    /// What stands around, for the locations that pass requests on.
    pub around: Vec<&'c Directive>,
}

/// The directive, if it is one of these.
pub fn setting(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) -> bool {
    let place = &directive.place;
    let first = directive.argument(0);
    let is_on = first == "on";
    match directive.name.as_str() {
        "root" if first.contains('$') => draft.error(place, unconverted(directive), "see $host in root"),
        "root" => scope.set(place, "root", (context.path)(first)),
        "index" => index(directive, scope, draft),
        "autoindex" => scope.set(place, "listing", is_on),
        "gzip" => {
            scope.set(place, "compress", is_on);
            if is_on {
                draft.note(
                    place,
                    "gzip compresses what upstreams send, too",
                    "see compress_scripts and BREACH in the manual",
                );
            }
        }
        "gzip_types" => {
            const ALL: [&str; 7] =
                ["text/*", "application/*", "image/*", "font/*", "audio/*", "video/*", "model/*"];
            let given: Vec<String> = match directive.arguments.iter().any(|kind| kind == "*") {
                true => ALL.map(str::to_owned).to_vec(),
                false => std::iter::once("text/html")
                    .chain(directive.arguments.iter().map(String::as_str))
                    .map(str::to_owned)
                    .collect(),
            };
            scope.set(place, "compress_types", given);
        }
        "gzip_min_length" => bytes(directive, "compress_from", scope, draft),
        "gzip_static" => {
            scope.set(place, "precompressed", if is_on { vec!["gzip".to_owned()] } else { Vec::new() })
        }
        "gunzip" => scope.set(place, "gunzip", is_on),
        "charset" if first == "off" => scope.set(place, "charset", false),
        "charset" => scope.set(place, "charset", first),
        "default_type" => scope.set(place, "default_type", first),
        "types" if directive.children().is_empty() => {
            draft.error(place, "files have their types by their names, also with empty types", "remove it")
        }
        "types" => {
            for kind in directive.children() {
                for extension in &kind.arguments {
                    scope.pair(place, "types", extension, kind.name.as_str());
                }
            }
        }
        "etag" if !is_on => scope.set(place, "etag", "off"),
        "etag" => {}
        "disable_symlinks" => match first {
            "on" => scope.set(place, "symlinks", "never"),
            "if_not_owner" => scope.set(place, "symlinks", "owner"),
            _ => scope.set(place, "symlinks", "follow"),
        },
        "client_max_body_size" if first == "0" => scope.set(place, "max_body", "1TiB"),
        "client_max_body_size" => bytes(directive, "max_body", scope, draft),
        "auth_basic" if first == "off" => scope.set(place, "auth", "off"),
        "auth_basic" => {
            scope.set(place, "auth", "basic");
            scope.set(place, "realm", first);
        }
        "auth_basic_user_file" => scope.set(place, "user_files", (context.path)(first)),
        "satisfy" => scope.set(place, "satisfy", if first == "any" { "any" } else { "all" }),
        "allow" | "deny" => {
            let mut rule = Scope::new(place.line);
            if first != "all" {
                rule.set(place, "address", first.trim_end_matches(':'));
            }
            rule.set(place, "then", directive.name.as_str());
            scope.rules.push(rule);
        }
        "limit_except" => limit_except(directive, scope, draft),
        "auth_request" if first == "off" => scope.set(place, "authorizer", false),
        "auth_request" => {
            draft.error(place, unconverted(directive), "see authorizer; until then, all clients are denied");
            let mut rule = Scope::new(place.line);
            rule.set(place, "then", "deny");
            scope.rules.insert(0, rule);
        }
        "valid_referers" => draft.error(place, unconverted(directive), "see referer of [[rule]]"),
        "limit_rate" => rate(directive, scope, draft),
        "limit_rate_after" => {
            match (size(first), scope.limits.iter_mut().find(|limit| limit.get("download").is_some())) {
                (Some(bytes), Some(limit)) => limit.set(place, "burst", bytes),
                _ => draft.warn(place, unconverted(directive), "write it behind limit_rate"),
            }
        }
        "limit_req" | "limit_conn" => limit(directive, scope, context, draft),
        "limit_req_status" | "limit_conn_status" => {
            let name = if directive.name == "limit_req_status" { "requests" } else { "concurrent" };
            for limit in scope.limits.iter_mut().filter(|limit| limit.get(name).is_some()) {
                limit.set(place, "status", first.parse::<i64>().unwrap_or(503));
            }
        }
        "add_header" => add_header(directive, scope, draft),
        "expires" => expires(directive, scope, draft),
        "error_page" => error_page(directive, scope, draft),
        "ssl_certificate" | "ssl_certificate_key" => {
            let key = if directive.name == "ssl_certificate" { "certificate" } else { "certificate_key" };
            let mut files = match scope.get(key) {
                Some(Value::Texts(files)) => files.clone(),
                _ => Vec::new(),
            };
            files.push((context.path)(first));
            scope.set(place, key, files);
        }
        "ssl_client_certificate" => scope.set(place, "client_ca", (context.path)(first)),
        "ssl_crl" => scope.set(place, "client_crl", (context.path)(first)),
        "ssl_verify_client" => match first {
            "on" => scope.set(place, "client_certificates", "required"),
            "optional" => scope.set(place, "client_certificates", "optional"),
            "off" => scope.set(place, "client_certificates", "off"),
            _ => draft.error(place, unconverted(directive), "write on or optional"),
        },
        "ssl_protocols" => {
            let all = directive.arguments.iter().filter_map(|version| version.strip_prefix("TLSv"));
            let versions: Vec<String> =
                all.filter(|version| matches!(*version, "1.2" | "1.3")).map(str::to_owned).collect();
            if directive.arguments.len() > versions.len() {
                draft.warn(place, "versions of TLS before 1.2 are not supported", "nothing to do");
            }
            if !versions.is_empty() {
                draft.tls.set(place, "versions", versions);
            }
        }
        "keepalive_timeout" => timeout(directive, "idle", draft),
        "client_header_timeout" => timeout(directive, "head", draft),
        "client_body_timeout" => timeout(directive, "body", draft),
        "send_timeout" => timeout(directive, "write", draft),
        "keepalive_requests" => draft.limits.set(place, "requests", first.parse::<i64>().unwrap_or(1000)),
        "large_client_header_buffers" => match size(directive.argument(1)) {
            Some(bytes) => {
                let all = bytes.saturating_mul(first.parse().unwrap_or(4)).clamp(256, 1 << 20);
                draft.limits.set(place, "head", all);
            }
            None => draft.error(place, unconverted(directive), "write a number and a size"),
        },
        "real_ip_header" if !is_read(first) && context.trusts => {
            let what = format!("the address of a client is not read from {first}");
            draft.error(place, what, TRUSTED);
        }
        "real_ip_header" | "real_ip_recursive" => {}
        "set" if directive.argument(1) == "$fastcgi_path_info" => {
            draft.note(place, "PATH_INFO is set in any case", "nothing to do");
        }
        "set" => draft.error(place, unconverted(directive), "write the value where the variable is used"),
        "set_real_ip_from" => trusted(directive, draft),
        name if NEEDLESS.contains(&name) => {}
        _ => return false,
    }
    true
}

fn index(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    if directive.arguments.iter().any(|name| name.contains(['$', '/'])) {
        return draft.error(&directive.place, unconverted(directive), "write names of files");
    }
    scope.set(&directive.place, "index", directive.arguments.clone());
}

fn bytes(directive: &Directive, key: &str, scope: &mut Scope, draft: &mut Draft) {
    match size(directive.argument(0)) {
        Some(bytes) => scope.set(&directive.place, key, bytes),
        None => draft.error(&directive.place, unconverted(directive), "write a size, such as 8m"),
    }
}

fn timeout(directive: &Directive, key: &str, draft: &mut Draft) {
    match duration(directive.argument(0)) {
        Some(time) if time != "0s" => draft.timeouts.set(&directive.place, key, time),
        Some(_) => draft.limits.set(&directive.place, "requests", 1),
        None => draft.error(&directive.place, unconverted(directive), "write a time, such as 30s"),
    }
}

/// What to do where a proxy names the client in another field.
pub const TRUSTED: &str = "let the proxy send X-Forwarded-For, and write real_ip_header X-Forwarded-For";

/// Whether the address of a client can be read from there.
fn is_read(header: &str) -> bool {
    header.eq_ignore_ascii_case("x-forwarded-for") || header == "proxy_protocol"
}

fn trusted(directive: &Directive, draft: &mut Draft) {
    let mut all = match draft.top.get("trusted_proxies") {
        Some(Value::Texts(all)) => all.clone(),
        _ => Vec::new(),
    };
    all.push(directive.argument(0).trim_end_matches(':').to_owned());
    draft.top.set(&directive.place, "trusted_proxies", all);
}

/// What is denied to other methods.
fn limit_except(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    let mut methods = directive.arguments.clone();
    if methods.iter().any(|method| method == "GET") {
        methods.push("HEAD".to_owned());
    }
    let excepted: Vec<String> = methods.iter().map(|method| format!("!{method}")).collect();
    for child in directive.children() {
        if !matches!(child.name.as_str(), "allow" | "deny") || excepted.is_empty() {
            draft.error(&child.place, unconverted(child), "see method of [[rule]]");
            continue;
        }
        let place = &child.place;
        let mut rule = Scope::new(place.line);
        rule.set(place, "method", excepted.clone());
        if child.argument(0) != "all" {
            rule.set(place, "address", child.argument(0).trim_end_matches(':'));
        }
        rule.set(place, "then", child.name.as_str());
        scope.rules.push(rule);
    }
}

fn rate(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    match size(directive.argument(0)) {
        Some(0) => scope.limits.retain(|limit| limit.get("download").is_none()),
        Some(bytes) => {
            let mut limit = Scope::new(directive.place.line);
            limit.set(&directive.place, "by", "connection");
            limit.set(&directive.place, "download", bytes);
            scope.limits.push(limit);
        }
        None => draft.error(&directive.place, unconverted(directive), "see [[limit]]"),
    }
}

/// `$binary_remote_addr` and the like, as in `by`.
fn counted(key: &str) -> Option<String> {
    Some(match key {
        "$binary_remote_addr" | "$remote_addr" => "client".into(),
        "$server_name" | "$host" => "host".into(),
        key => match (key.strip_prefix("$cookie_"), key.strip_prefix("$http_")) {
            (Some(name), _) => format!("cookie:{name}"),
            (_, Some(name)) => format!("field:{}", name.replace('_', "-")),
            _ => return None,
        },
    })
}

pub fn zone(directive: &Directive) -> Zone {
    let value = |name: &str| directive.arguments.iter().find_map(|argument| argument.strip_prefix(name));
    let name = value("zone=").and_then(|zone| zone.split(':').next()).unwrap_or_default();
    let rate = value("rate=").map(|rate| {
        rate.trim_end_matches(['s', 'm']).trim_end_matches("r/").to_owned()
            + if rate.ends_with('m') { "/m" } else { "/s" }
    });
    Zone { name: name.to_owned(), by: counted(directive.argument(0)), rate }
}

fn limit(directive: &Directive, scope: &mut Scope, context: &Context, draft: &mut Draft) {
    let place = &directive.place;
    let is_requests = directive.name == "limit_req";
    let zone = if is_requests {
        directive.arguments.iter().find_map(|argument| argument.strip_prefix("zone=")).unwrap_or_default()
    } else {
        directive.argument(0)
    };
    let Some(zone) = context.zones.iter().find(|known| known.name == zone) else {
        return draft.error(
            place,
            format!("{}: there is no such zone", directive.text()),
            "define it in http",
        );
    };
    let Some(by) = &zone.by else {
        return draft.error(
            place,
            unconverted(directive),
            "count by client, host, field or cookie; see [[limit]]",
        );
    };
    let mut limit = Scope::new(place.line);
    limit.set(place, "by", by.as_str());
    if is_requests {
        let burst = directive.arguments.iter().find_map(|argument| argument.strip_prefix("burst="));
        limit.set(place, "requests", zone.rate.clone().unwrap_or_default());
        let burst = burst.and_then(|burst| burst.parse::<i64>().ok()).unwrap_or(0);
        limit.set(place, "requests_burst", burst.saturating_add(1).clamp(1, 1_000_000));
        if burst > 0 && !directive.arguments.iter().any(|argument| argument == "nodelay") {
            draft.warn(
                place,
                "requests within the burst are not delayed",
                "nothing to do, or lower the burst",
            );
        }
    } else {
        limit.set(place, "concurrent", directive.argument(1).parse::<i64>().unwrap_or(1));
    }
    limit.set(place, "status", 503);
    scope.limits.push(limit);
}

fn add_header(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    let (name, value) = (directive.argument(0), directive.argument(1));
    if value == "$upstream_cache_status" {
        return draft.note(&directive.place, format!("{name} is not added"), "Cache-Status says it");
    }
    if value.contains('$') {
        return draft.error(
            &directive.place,
            unconverted(directive),
            "headers have no variables; write a value",
        );
    }
    if value.is_empty() {
        return;
    }
    match own_field(name) {
        Some(instead) if ["server", "date"].iter().any(|own| name.eq_ignore_ascii_case(own)) => {
            return draft.warn(&directive.place, format!("the field {name} is not added"), instead);
        }
        Some(instead) => return draft.error(&directive.place, unconverted(directive), instead),
        None => {}
    }
    let is_second = scope.pairs("headers").iter().any(|(old, _)| old.eq_ignore_ascii_case(name));
    let name = if is_second { format!("+{name}") } else { name.to_owned() };
    scope.pair(&directive.place, "headers", &name, value);
    if directive.argument(2) != "always" {
        draft.note(&directive.place, format!("{name} is added to error responses, too"), "nothing to do");
    }
}

fn expires(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    let place = &directive.place;
    let value = match directive.argument(0) {
        "off" => {
            scope.remove("cache_control");
            return scope.set(place, NEVER_EXPIRES, true);
        }
        "epoch" => "no-cache".to_owned(),
        "max" => "max-age=315360000".to_owned(),
        text if text.starts_with('-') => "no-cache".to_owned(),
        text => match duration(text).and_then(|time| time.strip_suffix('s').map(str::to_owned)) {
            Some(seconds) if !seconds.ends_with('m') => format!("max-age={seconds}"),
            _ => {
                return draft.error(
                    place,
                    unconverted(directive),
                    "see cache_control, which has patterns of paths",
                );
            }
        },
    };
    scope.remove(NEVER_EXPIRES);
    scope.set(place, "cache_control", value);
}

fn error_page(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    let place = &directive.place;
    let Some((target, statuses)) = directive.arguments.split_last() else { return };
    if !target.starts_with('/') || target.contains('$') {
        return draft.error(place, unconverted(directive), "name a file of the host by its path");
    }
    for status in statuses {
        match status.parse::<u16>() {
            Ok(number @ 400..=599) => scope.pair(place, "error_pages", &number.to_string(), target.as_str()),
            Ok(_) => draft.warn(place, format!("there is no error page for {status}"), "it has no effect"),
            Err(_) => draft.warn(place, "the status of an error remains as it is", "see fallback"),
        }
    }
}

/// A target with `$path` and the like, where `$1` is the rest of a path. `None`: it has variables that there are not.
pub fn template(text: &str, server_name: &str) -> Option<String> {
    target(text, server_name, &["${rest}".to_owned()])
}

/// As `template`, with these values of `$1` and so on.
pub fn target(text: &str, server_name: &str, groups: &[String]) -> Option<String> {
    const VARIABLES: [(&str, &str); 12] = [
        ("$is_args$args", "$query"),
        ("$query_string", "?"),
        ("$args", "?"),
        ("$request_uri", "$path$query"),
        ("$document_uri", "$path"),
        ("$uri", "$path"),
        ("$http_host", "$host"),
        ("$hostname", ""),
        ("$host", "$host"),
        ("$scheme", "$scheme"),
        ("$server_name", ""),
        ("$is_args", ""),
    ];
    let mut out = String::new();
    let text = text.replace("${", "\u{1}{");
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        let digit = rest[c.len_utf8()..].chars().next().and_then(|digit| digit.to_digit(10));
        if let (Some(number), '$') = (digit, c) {
            out.push_str(groups.get((number as usize).checked_sub(1)?)?);
            rest = &rest[2..];
            continue;
        }
        let found = VARIABLES.iter().find(|(name, _)| rest.starts_with(name));
        match (found, c) {
            // The query of the request is a part of one.
            (Some((name, "?")), _) if !out.contains('?') || is_longer(&rest[name.len()..]) => return None,
            (Some((name, "?")), _) => {
                rest = &rest[name.len()..];
                if rest.is_empty() && out.ends_with('?') {
                    out.pop();
                }
                out.push_str("$query");
            }
            (Some(("$server_name", _)), _) if !server_name.is_empty() => {
                out.push_str(server_name);
                rest = &rest["$server_name".len()..];
            }
            (Some((_, "")), _) | (None, '$' | '\u{1}') => return None,
            (Some((name, value)), _) => {
                rest = &rest[name.len()..];
                if is_longer(rest) {
                    return None;
                }
                out.push_str(value);
            }
            (None, c) => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    Some(out)
}

/// Whether a variable has a longer name.
fn is_longer(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}
