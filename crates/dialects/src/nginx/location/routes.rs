//! The routes of a location: what its settings come to for each of its paths.

use crate::draft::{Draft, Host, Scope};
use crate::nginx::inherit::{has_any, is_plain};
use crate::nginx::missing::{is_missing_script, is_script_name};
use crate::nginx::named;
use crate::nginx::order::{Order, prefix_of};
use crate::nginx::passing::{FRONT, RUNS_FILES, alias_of_file, fields, leads_to_file, replaced};
use crate::nginx::settings::Context;
use crate::tree::{Directive, Place, unconverted};

/// Gives the routes of these patterns what their location has.
pub fn finish(patterns: &[String], mut scope: Scope, first: &[Scope], host: &mut Host, draft: &mut Draft) {
    let place = scope.place();
    let inherits = !host.scope.rules.is_empty();
    if !scope.rules.is_empty() && inherits && scope.rules.iter().all(|rule| rule.get("address").is_some()) {
        let mut rule = Scope::new(place.line);
        rule.set(&place, "then", rest_of_rules([&scope, &host.scope, &draft.top]));
        scope.rules.push(rule);
    }
    scope = with_first(&scope, first);
    fields(&mut scope, host, draft);
    if has_any(&scope, &["redirect", "return", "respond"]) {
        BEHIND_RETURN.iter().for_each(|name| scope.remove(name));
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
        if has_alias && !is_prefix && !alias_of_file(path, &mut own) && !leads_to_file(&mut own, host) {
            let what = format!("an alias of one file needs a file with the name of the path, {path}");
            draft.error(&place, what, "give a link to the file that name, and write root for its folder");
            continue;
        }
        if !runs_script(path, runs_files) {
            run_application(&mut own);
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
        // What follows the name of a script is a path for it, and no folder.
        let behind = (is_prefix && is_script_name(path) && own.get("interpreter").is_some())
            .then(|| format!("{path}**"));
        host.route(behind.as_deref().unwrap_or(path), &place).inherit(&own);
    }
}

/// What becomes of clients that no `allow` or `deny` names. With `satisfy any`, they need a password.
pub fn rest_of_rules(scopes: [&Scope; 3]) -> &'static str {
    let first = |name: &str| scopes.iter().find_map(|scope| scope.text(name));
    let asks = first("auth").is_some_and(|auth| auth != "off");
    if first("satisfy") == Some("any") && asks { "authenticate" } else { "allow" }
}

/// The names that only begin with a prefix, unless that would take another location its paths. What protects is for them
/// in any case.
pub fn begun(
    pattern: &str,
    child: &Directive,
    scope: &Scope,
    host: &mut Host,
    context: &Context,
    draft: &mut Draft,
) {
    let (text, place) = (child.arguments.last().map_or("", String::as_str), &child.place);
    let has_rest = |name: &&str| scope.text(name).is_some_and(|to| to.contains("rest"));
    let runs = |child: &Directive| child.argument(0).starts_with('~') && named::passes(child);
    let is_unsaid = scope.get("interpreter").is_some()
        || ["redirect", "rewrite"].iter().any(has_rest)
        || context.server.iter().any(runs);
    match (scope.protects(), longer_location(text, context.server)) {
        (true, Some(longer)) => {
            let what = format!("location {text} protects {longer}, too");
            draft.warn(place, what, "write a slash at its end, if it is meant for a folder");
        }
        (false, Some(_)) => return only_segments(text, place, draft),
        (false, None) if is_unsaid => return only_segments(text, place, draft),
        (false, None) if is_mapped(scope) && scope.get("proxy").is_some() => {
            only_segments(text, place, draft)
        }
        _ => {}
    }
    guarded(pattern, child, scope, host, draft);
}

fn only_segments(text: &str, place: &Place, draft: &mut Draft) {
    let what = format!("location {text} matches whole segments, and not {text}x");
    draft.warn(place, what, "nothing to do, unless such paths are needed");
}

/// A location whose prefix is this text and more, without a slash behind it.
fn longer_location<'d>(text: &str, block: &'d [Directive]) -> Option<&'d str> {
    let is_longer =
        |own: &&str| own.strip_prefix(text).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    block.iter().filter(|child| child.name == "location").find_map(|child| {
        prefix_of(child).filter(is_longer).or_else(|| longer_location(text, child.children()))
    })
}

/// Whether a part of the path is replaced.
fn is_mapped(scope: &Scope) -> bool {
    scope.get("alias").is_some() || scope.text("proxy").is_some_and(|url| url.matches('/').count() > 2)
}

/// The route of the names that only begin with a prefix. With `^~` it precedes expressions.
fn guarded(pattern: &str, child: &Directive, scope: &Scope, host: &mut Host, draft: &mut Draft) {
    let place = &child.place;
    let mut own = scope.clone();
    fields(&mut own, host, draft);
    [FRONT, RUNS_FILES].iter().for_each(|name| own.remove(name));
    if is_mapped(&own) {
        [
            "alias",
            "proxy",
            "proxy_path",
            "proxy_host",
            "proxy_headers",
            "fallback",
            "fallback_for",
            "try_suffixes",
        ]
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

/// What would respond if no `return` preceded it.
const BEHIND_RETURN: [&str; 10] = [
    "monitor",
    "proxy",
    "proxy_path",
    "interpreter",
    "alias",
    "root",
    "fallback",
    "fallback_for",
    "try_suffixes",
    FRONT,
];

/// A scope with rules that precede `allow` and `deny`.
pub fn with_first(scope: &Scope, rules: &[Scope]) -> Scope {
    let mut own = scope.clone();
    own.rules.splice(0..0, rules.iter().cloned());
    own
}

/// Whether the upstream of a path runs the file there. Otherwise one application responds for all paths.
fn runs_script(path: &str, runs_files: bool) -> bool {
    path.contains('*') || is_script_name(path) || (runs_files && path != "/")
}

/// `try_files` beside what passes a request on, or an `if` for scripts that are missing: only the files that are run are
/// looked up.
pub fn files_before_upstream(child: &Directive, patterns: &[String], scope: &Scope, draft: &mut Draft) {
    let runs_files = scope.get(RUNS_FILES).is_some();
    let is_script = scope.get(FRONT).is_none() && patterns.iter().all(|path| runs_script(path, runs_files));
    let is_run = scope.get("interpreter").is_some();
    if let Some(condition) = child.children().iter().find(|inner| is_missing_script(inner))
        && !(is_run && is_script)
    {
        draft.error(&condition.place, unconverted(condition), "see try_files, and fallback");
    }
    let Some(files) = child.children().iter().find(|inner| inner.name == "try_files") else { return };
    if has_any(scope, &["return", "redirect"]) {
        return;
    }
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

/// Every path of a location leads to one script, whose upstream runs it.
fn front_script(front: &str, patterns: &[String], scope: &Scope, host: &mut Host, draft: &mut Draft) {
    let place = scope.place();
    let mut own = scope.clone();
    ["interpreter", "env", "root", "alias", "fallback", "fallback_for", "try_suffixes"]
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
    ["alias", "fallback", "fallback_for", "try_suffixes"].iter().for_each(|name| own.remove(name));
    script.inherit(&own);
}

/// Makes an interpreter of scripts the application of a route.
fn run_application(scope: &mut Scope) {
    if let Some(name) = scope.text("interpreter").map(str::to_owned) {
        ["interpreter", "root"].iter().for_each(|name| scope.remove(name));
        scope.set(&scope.place(), "application", name);
    }
}

fn is_settings(scope: &Scope) -> bool {
    is_plain(scope) && scope.get("root").is_none()
}
