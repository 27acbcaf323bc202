//! `return`, `rewrite` and `if`: responses without files, and the way to HTTPS.

use crate::brackets::is_glob;
use crate::draft::{Draft, Host, Scope};
use crate::regex::{self, Captured};
use crate::tree::{Directive, unconverted};
use crate::within::covers;

use super::settings::{self, Context, template};

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

/// Whether a server without TLS redirects all of its paths to the first page of one of its names with TLS.
fn is_to_its_page(child: &Directive, host: &mut Host, draft: &mut Draft) -> bool {
    let target = child.arguments.last().and_then(|target| target.strip_prefix("https://"));
    let name = target.map(|rest| rest.strip_suffix('/').unwrap_or(rest).to_lowercase());
    let Some(name) = name.filter(|name| !host.is_secure() && host.names.contains(name)) else { return false };
    draft.warn(&child.place, "the redirect to https keeps the path and the query", "nothing to do");
    host.is_to_https = true;
    host.https_status = status(child).filter(|status| *status != 301);
    host.https_name = (host.names.len() > 1).then_some(name);
    true
}

pub fn server_return(
    child: &Directive,
    server: &Directive,
    host: &mut Host,
    context: &Context,
    draft: &mut Draft,
) {
    // The other names of a server whose `if` knows those with HTTPS.
    if host.is_to_https || is_to_https(child, host, context) || is_to_its_page(child, host, draft) {
        return;
    }
    let mut response = Scope::new(child.place.line);
    respond(child, &[], &mut response, context, draft);
    if let Some(kind) = server.children().iter().find(|inner| is_type_of_text(inner, server)) {
        response.set(&kind.place, "default_type", kind.argument(1));
    }
    host.route("/", &child.place).inherit(&response);
}

/// The location of all paths of a server that has nothing besides it but files for authorities.
pub fn to_https<'d>(
    locations: &[&'d Directive],
    host: &mut Host,
    context: &Context,
) -> Option<&'d Directive> {
    let is_root = |child: &&&Directive| child.arguments == ["/"];
    const CHALLENGES: [&str; 2] = ["well-known/acme-challenge", "well-known/pki-validation"];
    let is_challenge = |child: &&Directive| {
        child.arguments.last().is_some_and(|text| CHALLENGES.iter().any(|path| text.contains(path)))
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

/// What `$1` and so on are in a location with an expression, for each of its patterns. Empty: no pattern can tell.
pub fn groups(location: &Directive, expression: &str, patterns: &[String]) -> Vec<Vec<String>> {
    let found = regex::captured(expression).unwrap_or_default();
    if !found.iter().map(|one| &one.pattern).eq(patterns) {
        return Vec::new();
    }
    let ignores_case = location.argument(0) == "~*";
    let all = found.into_iter().map(|one| if ignores_case { one.ignoring_case() } else { Some(one) });
    all.map(|one| Some(one?.groups)).collect::<Option<_>>().unwrap_or_default()
}

/// A target that is the same for all patterns of a location, which have these groups.
fn target_of(text: &str, groups: &[Vec<String>], context: &Context) -> Option<String> {
    let target = |groups: &[String]| settings::target(text, &context.server_name, groups);
    match groups {
        [] => target(&[]),
        [first, rest @ ..] => {
            target(first).filter(|to| rest.iter().all(|own| target(own).as_ref() == Some(to)))
        }
    }
}

/// `return`, for patterns with these groups.
pub fn respond(
    child: &Directive,
    groups: &[Vec<String>],
    route: &mut Scope,
    context: &Context,
    draft: &mut Draft,
) {
    let place = &child.place;
    let status = status(child).unwrap_or_default();
    let is_url = child.arguments.len() == 1 && child.argument(0).parse::<i64>().is_err();
    let target = child.argument(if is_url { 0 } else { 1 });
    match (status, target_of(target, groups, context)) {
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
pub fn is_last_of_rewrites(inner: &Directive, location: &Directive) -> bool {
    let later = location.children().iter().skip_while(|other| !std::ptr::eq(*other, inner));
    later.skip(1).all(|other| !matches!(other.name.as_str(), "rewrite" | "return" | "if" | "set"))
}

/// `add_header Content-Type` beside a text.
pub fn is_type_of_text(inner: &Directive, location: &Directive) -> bool {
    let has_text = |inner: &Directive| inner.name == "return" && inner.argument(0) == "200";
    inner.name == "add_header"
        && inner.argument(0).eq_ignore_ascii_case("content-type")
        && !inner.argument(1).contains('$')
        && location.children().iter().any(has_text)
}

/// `rewrite` of a server, or of a location with these patterns.
pub fn rewrite(
    child: &Directive,
    location: Option<&[String]>,
    host: &mut Host,
    context: &Context,
    draft: &mut Draft,
) {
    let place = &child.place;
    let flag = child.argument(2);
    let target = child.argument(1);
    let is_url = ["http://", "https://", "$scheme"].iter().any(|scheme| target.starts_with(scheme));
    let redirects = is_url || flag == "permanent" || flag == "redirect";
    let is_of_server = location.is_none() && redirects;
    let all = targets(child, context).or_else(|| at_any_depth(child, context).filter(|_| is_of_server));
    let Some(all) = all else {
        if redirects && is_unslashed(child) {
            return draft.warn(place, "a path with a slash at its end is not redirected", "nothing to do");
        }
        let what_to_do = "see redirects and rewrites; patterns have wildcards, and classes such as [0-9]+";
        return draft.error(place, unconverted(child), what_to_do);
    };
    let all = match location {
        Some(patterns) => match within_location(&all, patterns) {
            Some(all) => all,
            None => {
                return draft.error(
                    place,
                    unconverted(child),
                    "write it in the server, or a narrower location",
                );
            }
        },
        None => all,
    };
    if all.is_empty() {
        return draft.note(
            place,
            format!("\"{}\" finds no path of its location", child.text()),
            "it has no effect",
        );
    }
    // A server rewrites paths that have a location, too, such as those of scripts.
    let leads_back = |path: &str, to: &str| {
        let to = to.split(['?', '$']).next().unwrap_or_default();
        to.starts_with('/') && (path == "/" && location.is_none() || path == to)
    };
    if !redirects && all.iter().any(|(path, to)| leads_back(path, to)) {
        return draft.error(place, unconverted(child), "write it in location /, or see fallback");
    }
    if location.is_none() {
        host.first.extend(all.iter().map(|(path, _)| path.clone()));
    }
    for (path, to) in all {
        let route = host.route(&path, place);
        if route.get("rewrite").is_some() || route.get("redirect").is_some() {
            let what = format!("{}: {path} is rewritten already", unconverted(child));
            draft.error(place, what, "remove the one that has no effect");
            continue;
        }
        match redirects {
            true => {
                route.set(place, "redirect", redirected(&to));
                route.set(place, "status", if flag == "permanent" { 301 } else { 302 });
            }
            false => route.set(place, "rewrite", rewritten(&to)),
        }
    }
}

/// Whether it leads to the same path without the slash at its end.
fn is_unslashed(rewrite: &Directive) -> bool {
    matches!(
        (rewrite.argument(0), rewrite.argument(1)),
        ("^/(.*)/$" | "^/(.+)/$" | "^/(.*)/+$" | "^/(.+)/+$", "/$1")
            | ("^(.*)/$" | "^(.+)/$" | "^(.+)/+$", "$1")
    )
}

/// Those of the paths that a location is for. `None`: they cannot be told from the others.
fn within_location(all: &[(String, String)], location: &[String]) -> Option<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    for (path, to) in all {
        for own in location {
            let pair = match relation(path, own) {
                Relation::Within => (path.clone(), to.clone()),
                Relation::Around => (own.clone(), from_within(path, to, own)?),
                Relation::Apart => continue,
                Relation::Unknown => return None,
            };
            if !found.iter().any(|(known, _)| *known == pair.0) {
                found.push(pair);
            }
        }
    }
    Some(found)
}

/// Where a path of a rewrite is, seen from one of a location.
enum Relation {
    Within,
    Around,
    Apart,
    Unknown,
}

fn relation(path: &str, location: &str) -> Relation {
    let head = |path: &str| path.split(['*', '?']).next().unwrap_or_default().to_owned();
    let (of_path, of_location) = (head(path), head(location));
    let is_below = location.ends_with('/') && path.starts_with(location)
        || location == format!("{of_location}**") && path.starts_with(&of_location);
    let is_one = !is_glob(path) && !path.ends_with('/');
    let have_other_heads = of_location.starts_with('/')
        && of_path.starts_with('/')
        && !of_location.starts_with(&of_path)
        && !of_path.starts_with(&of_location);
    if is_below || location == path || is_one && covers(location, path) {
        Relation::Within
    } else if path.ends_with('/') && of_location.starts_with(path) {
        Relation::Around
    } else if have_other_heads || is_one {
        Relation::Apart
    } else {
        Relation::Unknown
    }
}

/// The target of a rewrite of a folder, for a location within: there, the rest of the path begins later. `None`: the
/// location is no folder, so that no rest is known.
fn from_within(folder: &str, to: &str, location: &str) -> Option<String> {
    if !to.contains("rest") {
        return Some(to.to_owned());
    }
    let rest = location.strip_prefix(folder).filter(|_| location.ends_with('/'))?;
    Some(to.replace("${rest}", "$rest").replace("$rest", &format!("{rest}${{rest}}")))
}

/// The paths of a `rewrite`, each with its target.
pub fn targets(child: &Directive, context: &Context) -> Option<Vec<(String, String)>> {
    let (expression, target) = (child.argument(0), child.argument(1));
    let path = regex::prefix(expression).or_else(|| regex::exact(expression));
    let path = path.or_else(|| matches!(expression, "^" | "^/" | "^.*" | ".*").then(|| "/".to_owned()));
    if let (Some(path), Some(to)) = (path, template(target, &context.server_name)) {
        // Without a group, there is no rest.
        let is_said = path.ends_with('/') || !to.contains("{rest}");
        return is_said.then(|| vec![(path, to)]);
    }
    if matches!(expression, "^(.*)$" | "^(.*)" | "(.*)") {
        return template(&target.replace("$1", "$uri"), &context.server_name)
            .map(|to| vec![("/".to_owned(), to)]);
    }
    let target = |one: &Captured| settings::target(target, &context.server_name, &one.groups);
    regex::captured(expression)?.iter().map(|one| Some((one.pattern.clone(), target(one)?))).collect()
}

/// As `targets`, for an expression such as `/a$`, whose groups are not in its target.
fn at_any_depth(child: &Directive, context: &Context) -> Option<Vec<(String, String)>> {
    let to = settings::target(child.argument(1), &context.server_name, &[])?;
    let patterns = regex::patterns(child.argument(0))?;
    // A prefix would not precede patterns of scripts.
    let are_patterns = patterns.iter().all(|pattern| is_glob(pattern) && !pattern.ends_with('/'));
    are_patterns.then(|| patterns.into_iter().map(|pattern| (pattern, to.clone())).collect())
}

/// The target of a redirect. nginx adds the query of the request, unless a question mark ends the target.
pub fn redirected(to: &str) -> String {
    match to.strip_suffix('?') {
        Some(to) => to.to_owned(),
        None if to.contains("$query") => to.to_owned(),
        None if to.contains('?') => format!("{to}&$query"),
        None => format!("{to}$query"),
    }
}

/// The target of a rewrite, to which the query of the request is added here, too.
pub fn rewritten(to: &str) -> &str {
    to.strip_suffix("$query").filter(|path| !path.contains('?')).unwrap_or(to)
}

/// `rewrite ^/a/(.*)$ /b/$1 break` in front of `proxy_pass`, which replaces the location by the path of a URL.
pub fn rewritten_url(child: &Directive, patterns: &[String], scope: &mut Scope, draft: &mut Draft) {
    let place = &child.place;
    if is_unslashed(child) && child.argument(2) == "permanent" {
        return draft.warn(place, "a path with a slash at its end is not redirected", "nothing to do");
    }
    // `^/a(/.*)$` to `$1` is `^/a/(.*)$` to `/$1`.
    let whole = child.argument(0).strip_suffix("(/.*)$").or_else(|| child.argument(0).strip_suffix("(/.*)"));
    if let Some(begin) =
        whole.filter(|_| child.argument(1).ends_with("$1") && !child.argument(1).ends_with("/$1"))
    {
        let mut same = child.clone();
        same.arguments[0] = format!("{begin}/(.*)$");
        same.arguments[1] = child.argument(1).replace("$1", "/$1");
        return rewritten_url(&same, patterns, scope, draft);
    }
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
        _ if scope.get("interpreter").is_some() => {
            draft.error(
                place,
                unconverted(child),
                "write return for scripts that are not to be run, or see rewrite",
            );
        }
        _ => draft.error(place, unconverted(child), "write the path in the URL of proxy_pass"),
    }
}

/// `if` of a server: the ways to HTTPS. Whether it is one.
pub fn is_condition_of_https(child: &Directive, server: &Directive, host: &mut Host) -> bool {
    let text = child.arguments.join(" ");
    let text = text.trim_start_matches('(').trim_end_matches(')').trim().to_owned();
    let returns = child.children().iter().find(|inner| inner.name == "return");
    let target = returns.and_then(|inner| inner.arguments.last()).map_or("", String::as_str);
    let is_plain = matches!(
        text.replace(['"', '\'', '^', '$'], "").as_str(),
        "scheme = http"
            | "scheme != https"
            | "server_port = 80"
            | "server_port != 443"
            | "server_port !~ 443"
    );
    if is_plain && (is_https_of_itself(target) || child.children().iter().any(is_rewrite_to_https)) {
        host.scope.set(&child.place, "https_redirect", true);
    } else if let Some(name) = text.strip_prefix("$host = ")
        && is_https_of_itself(target)
        && host.names.iter().any(|known| known == name)
        && has_all_names(server, host)
    {
        host.is_to_https |= !host.listens.iter().any(|listen| listen.tls);
    } else {
        return false;
    }
    true
}

/// `rewrite ^ https://$host$request_uri? permanent`, or with the path as a group.
fn is_rewrite_to_https(rewrite: &Directive) -> bool {
    let target = match (rewrite.argument(0), rewrite.argument(1)) {
        ("^" | "^/" | "^(.*)$" | "^(.*)" | "(.*)" | "^(/.*)$" | "^/(.*)$" | "^/(.*)", target) => {
            target.trim_end_matches('?').replace("/$1", "$1").replace("$1", "$request_uri")
        }
        _ => return false,
    };
    rewrite.name == "rewrite" && rewrite.argument(2) == "permanent" && is_https_of_itself(&target)
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
