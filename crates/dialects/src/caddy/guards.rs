//! What a site asks before it responds, what it does not send, and what it sends instead.

use std::path::Path;

use crate::brackets::is_glob;
use crate::disk::Disk;
use crate::draft::{Host, Scope};
use crate::pattern;
use crate::tree::{Directive, unconverted};

use super::matchers::Matched;
use super::responses::{Seen, redirected};
use super::site::{Hidden, Site};
use super::upstreams::upstream;
use crate::within::covers;

/// Statuses that have a page, if there is one.
const STATUSES: [i64; 11] = [400, 401, 403, 404, 405, 410, 413, 500, 502, 503, 504];

/// What to do where clients have to be led to a login.
const LOGIN: &str = "name the page of the login in authorizer_login";

/// Whether the field of a request to an authorizer is one that it gets anyway.
fn is_sent(name: &str) -> bool {
    const FIELDS: [&str; 9] = [
        "x-real-ip",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-uri",
        "x-forwarded-method",
        "x-original-url",
        "x-original-uri",
        "x-original-method",
    ];
    FIELDS.contains(&name.to_ascii_lowercase().as_str())
}

/// The target of the redirect in place of a 401. `None`: it is for something else, or has other placeholders.
fn login(authorizer: &Directive, response: &Directive) -> Option<String> {
    let matcher = authorizer.children().iter().find(|inner| inner.name == response.argument(0))?;
    let is_denial = matcher.arguments == ["status", "401"]
        || matches!(matcher.children(), [only] if only.name == "status" && only.arguments == ["401"]);
    let redirect = response.children().first().filter(|_| is_denial)?;
    let arguments = redirect.arguments.strip_prefix(&["*".to_owned()][..]).unwrap_or(&redirect.arguments);
    redirected(arguments, &Seen::default()).map(|(target, _)| target)
}

/// The patterns as far as they are within these paths, if there are any. `is_whole`: all of a path is. `None`: a pattern
/// cannot be written for a path.
fn hidden_within(
    paths: &[String],
    patterns: &[String],
    is_whole: impl Fn(&str) -> bool,
) -> Option<Vec<String>> {
    if paths.is_empty() {
        return Some(patterns.to_vec());
    }
    let pairs = patterns.iter().flat_map(|pattern| paths.iter().map(move |path| (path, pattern)));
    pairs
        .map(|(path, pattern)| match is_whole(path) {
            true => Some(format!("{path}**")),
            false => pattern::within(path, pattern),
        })
        .collect()
}

impl Site<'_> {
    /// `forward_auth`.
    pub(super) fn authorizer(&mut self, matched: &Matched, host: &mut Host) {
        let Matched { directive: child, paths, arguments } = matched;
        let place = &child.place;
        let mut own = Scope::new(place.line);
        self.protect(child, paths, 403);
        for option in child.children() {
            match option.name.as_str() {
                "uri" if !option.argument(0).contains('{') => {
                    own.set(&option.place, "authorizer_path", option.argument(0));
                }
                "copy_headers" => {
                    let inner = option.children().iter().map(|inner| &inner.name);
                    let all: Vec<String> = option.arguments.iter().chain(inner).cloned().collect();
                    let fields = self.copied(option, &all);
                    own.set(&option.place, "authorizer_fields", fields);
                }
                "trusted_proxies" => {
                    self.draft.note(&option.place, "trusted_proxies has no effect here", "nothing to do");
                }
                "header_up" if is_sent(option.argument(0)) && option.argument(1).contains('{') => {
                    let what = format!("{} is sent to the authorizer in any case", option.argument(0));
                    self.draft.note(&option.place, what, "nothing to do");
                }
                // What it finds has an effect where a `handle_response` names it.
                matcher if matcher.starts_with('@') => {}
                "handle_response" if matches!(option.children(), [only] if only.name == "redir") => {
                    match login(child, option) {
                        Some(target) => own.set(&option.place, "authorizer_login", target),
                        None => {
                            let what =
                                "clients get the answer of the authorizer, and no redirect in its place";
                            self.draft.warn(&option.place, what, LOGIN);
                        }
                    }
                }
                _ => self.draft.error(&option.place, unconverted(option), "see authorizer"),
            }
        }
        match arguments.as_slice() {
            [target] if upstream(target).is_some() => {
                let mut keys = Scope::new(place.line);
                keys.set(place, "address", upstream(target).into_iter().collect::<Vec<_>>());
                keys.set(place, "protocol", if target.starts_with("https://") { "https" } else { "http" });
                let name = self.draft.application_of_keys("authorizer", keys);
                own.set(place, "authorizer", name);
                self.each(paths, place, host, |scope| scope.replace(&own));
            }
            _ => {
                self.draft.error(place, unconverted(child), "write one address and a port");
                let mut rule = Scope::new(place.line);
                rule.set(place, "then", "deny");
                self.each(paths, place, host, |scope| scope.rules.push(rule.clone()));
            }
        }
    }

    /// The fields of `copy_headers`. One with a new name, as `A>B`, is sent under the one that it has. No client can send
    /// either.
    fn copied(&mut self, option: &Directive, all: &[String]) -> Vec<String> {
        let mut fields = Vec::new();
        for text in all {
            let (own, renamed) = text.split_once('>').unwrap_or((text, ""));
            if text.contains('{') || own.is_empty() {
                self.draft.error(&option.place, unconverted(option), "see authorizer_fields");
                continue;
            }
            let names = [own, renamed].into_iter().filter(|name| !name.is_empty());
            fields.extend(names.map(str::to_owned));
            if !renamed.is_empty() {
                let what = format!("the application gets {own} in place of {renamed}, which is removed");
                self.draft.warn(&option.place, what, "let the application read that field");
            }
        }
        fields
    }

    /// Files that `file_server` does not send: those that it is told to hide, and the configuration itself.
    pub(super) fn hide(&mut self, file: &Path, host: &mut Host) {
        let root = host.scope.text("root").map(str::to_owned);
        let beneath = |path: &Path| {
            let rest = path.strip_prefix(Path::new(root.as_deref()?)).ok()?;
            Some(format!("/{}", rest.to_string_lossy())).filter(|path| path != "/")
        };
        for Hidden { paths, option, strips } in std::mem::take(&mut self.hidden) {
            for text in &option.arguments {
                let is_outside = |path: &Path| root.as_deref().is_some_and(|root| !path.starts_with(root));
                if text.contains('/') && !text.contains('{') && is_outside(&self.folder.join(text)) {
                    self.draft.note(
                        &option.place,
                        format!("{text} is not beneath the root"),
                        "nothing to do",
                    );
                    continue;
                }
                if root.as_deref().is_some_and(|root| has_segment(root, text)) {
                    let what =
                        format!("{}: it hides the root itself, so that nothing is sent", option.text());
                    self.draft.error(
                        &option.place,
                        what,
                        "name files beneath the root, with their whole path",
                    );
                    continue;
                }
                let patterns = match text.contains('/') {
                    _ if text.contains(['{', '[']) => None,
                    false => Some(vec![named(text), format!("/**/{text}/**")]),
                    true => {
                        beneath(&self.folder.join(text)).map(|path| vec![path.clone(), format!("{path}/")])
                    }
                };
                // All below a folder that is hidden itself is so, too.
                let is_whole = |path: &str| !strips && path.ends_with('/') && has_segment(path, text);
                match patterns.and_then(|patterns| hidden_within(&paths, &patterns, is_whole)) {
                    Some(all) => all.iter().for_each(|pattern| hidden(pattern, &option, host)),
                    None => self.draft.error(&option.place, unconverted(&option), "see return of [[route]]"),
                }
            }
        }
        let is_passed = host.routes.iter().any(|route| route.text("path") == Some("/") && route.responds());
        if let Some(path) = beneath(file).filter(|_| !is_passed) {
            let place = host.scope.place();
            let route = host.route(&path, &place);
            if !route.responds() {
                route.set(&place, "return", 404);
            }
        }
    }

    /// Each `handle_errors`, as far as it sends files of the root.
    pub(super) fn error_pages(&mut self, host: &mut Host, disk: &dyn Disk) {
        let root = host.scope.text("root").or_else(|| {
            host.routes
                .iter()
                .find(|route| route.text("path") == Some("/"))
                .and_then(|route| route.text("root"))
        });
        let root = root.map(str::to_owned);
        for errors in std::mem::take(&mut self.errors) {
            let Some((statuses, page)) = page_of(&errors) else {
                self.draft.error(&errors.place, unconverted(&errors), "see error_pages");
                continue;
            };
            if page.is_empty() {
                self.draft.warn(&errors.place, "errors have the pages of the server", "see error_pages");
                continue;
            }
            let mut is_there = false;
            for status in statuses {
                let path = page
                    .replace("{err.status_code}", &status.to_string())
                    .replace("{http.error.status_code}", &status.to_string());
                let file = root.as_deref().map(|root| format!("{root}{path}"));
                if file.is_some_and(|file| !path.contains('{') && disk.is_file(Path::new(&file))) {
                    host.scope.pair(&errors.place, "error_pages", &status.to_string(), path);
                    is_there = true;
                }
            }
            if !is_there {
                let what = format!("there is no page {page} beneath the root");
                self.draft.warn(&errors.place, what, "see error_pages");
            }
        }
    }

    pub(super) fn users(&mut self, matched: &Matched, host: &mut Host) {
        let Matched { directive: child, paths, arguments } = matched;
        let place = &child.place;
        for user in child.children() {
            if !user.argument(0).starts_with("$2") {
                let what = format!("{} has no hash of bcrypt", user.name);
                self.draft.error(&user.place, what, "see taipan passwd");
            }
            self.each(paths, place, host, |scope| {
                scope.pair(&user.place, "users", &user.name, user.argument(0))
            });
        }
        self.protect(child, paths, 403);
        self.each(paths, place, host, |scope| scope.set(place, "auth", "basic"));
        // That of Caddy.
        let realm = arguments.get(1).map_or("restricted", String::as_str);
        self.each(paths, place, host, |scope| scope.set(place, "realm", realm));
    }
}

/// Whether a name, perhaps with wildcards, is that of a folder in a path.
fn has_segment(path: &str, name: &str) -> bool {
    let is_named = |segment: &str| covers(&named(name), &format!("/{segment}"));
    !name.contains('/') && path.split('/').filter(|segment| !segment.is_empty()).any(is_named)
}

/// The pattern of a name at any depth.
fn named(name: &str) -> String {
    if is_glob(name) { name.to_owned() } else { format!("/**/{name}") }
}

/// What runs a file does not send its source.
fn hidden(pattern: &str, option: &Directive, host: &mut Host) {
    let runs = |route: &Scope| {
        let path = route.path();
        let end = path.strip_prefix('*').filter(|end| !is_glob(end));
        let name = pattern.trim_end_matches("/**");
        route.runs() && (path == name || end.is_some_and(|end| name.ends_with(end)))
    };
    if host.routes.iter().any(runs) {
        return;
    }
    let route = host.route(pattern, &option.place);
    if !route.responds() {
        route.set(&option.place, "return", 404);
    }
}

/// The statuses of a `handle_errors`, and the page that it sends. No page: the server's own ones are like it.
fn page_of(errors: &Directive) -> Option<(Vec<i64>, String)> {
    let is_of = |status: &i64, text: &String| match text.strip_suffix("xx") {
        Some(class) => status.to_string().starts_with(class),
        None => *text == status.to_string(),
    };
    let named: Vec<i64> = errors.arguments.iter().filter_map(|text| text.parse().ok()).collect();
    let all = STATUSES.iter().copied().chain(named);
    let mut statuses: Vec<i64> = all
        .filter(|status| {
            errors.arguments.is_empty() || errors.arguments.iter().any(|text| is_of(status, text))
        })
        .filter(|status| (400..600).contains(status))
        .collect();
    statuses.dedup();
    let mut page = None;
    for child in errors.children() {
        match child.name.as_str() {
            "file_server" if child.block.is_none() => {}
            "rewrite" if page.is_none() => page = child.arguments.last().cloned(),
            "respond" if page.is_none() => page = Some(String::new()),
            _ => return None,
        }
    }
    let is_for_all = |child: &Directive| {
        child.name == "respond" || child.arguments.iter().all(|text| text == "*" || text.starts_with('/'))
    };
    let page = page.filter(|page| page.is_empty() || page.starts_with('/'))?;
    errors.children().iter().all(is_for_all).then_some((statuses, page))
}
