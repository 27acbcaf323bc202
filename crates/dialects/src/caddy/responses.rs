//! Directives that respond without a file: redirects, rewrites and texts.

use crate::draft::Host;
use crate::tree::{Directive, unconverted};

use super::site::Site;

impl Site<'_> {
    pub(super) fn redirect(
        &mut self,
        child: &Directive,
        paths: &[String],
        arguments: &[String],
        host: &mut Host,
    ) {
        let place = &child.place;
        let Some((target, status)) = redirected(arguments) else {
            return self.draft.error(place, unconverted(child), "see redirect");
        };
        self.in_other_cases(child, paths, |rule| {
            rule.set(place, "then", "redirect");
            rule.set(place, "to", target.as_str());
            rule.set(place, "status", status);
        });
        self.route(paths, place, host, |scope| {
            scope.set(place, "redirect", target.as_str());
            scope.set(place, "status", status);
        });
    }

    pub(super) fn rewrite(&mut self, child: &Directive, paths: &[String], to: &str, host: &mut Host) {
        let place = &child.place;
        match template(to).and_then(|target| rewritten(&target)) {
            Some(target) if !paths.is_empty() => {
                self.close_in_other_cases(child, paths);
                self.route(paths, place, host, |scope| scope.set(place, "rewrite", target.as_str()));
            }
            _ => self.draft.error(place, unconverted(child), "see rewrite and fallback"),
        }
    }

    pub(super) fn respond(
        &mut self,
        child: &Directive,
        paths: &[String],
        arguments: &[String],
        host: &mut Host,
    ) {
        let place = &child.place;
        match (status(child, arguments), text(child, arguments)) {
            (Some(status @ 400..=599), _) if ![401, 405, 407, 416, 426].contains(&status) => {
                self.protect(child, paths, status);
                self.route(paths, place, host, |scope| scope.set(place, "return", status));
            }
            (None | Some(200), Some(text)) => {
                self.close_in_other_cases(child, paths);
                self.route(paths, place, host, |scope| {
                    scope.set(place, "respond", text);
                    if text.starts_with(['{', '[']) && scope.get("default_type").is_none() {
                        scope.set(place, "default_type", "application/json");
                    }
                });
            }
            _ => {
                self.draft.error(place, unconverted(child), "see respond, or put a file there");
                self.protect(child, paths, 404);
                self.route(paths, place, host, |scope| scope.set(place, "return", 404));
            }
        }
    }
}

/// The target and the status of `redir`. `None`: it has placeholders that there are not.
pub(super) fn redirected(arguments: &[String]) -> Option<(String, i64)> {
    let target = template(arguments.first().map_or("", String::as_str))?;
    if !target.starts_with(['/', '$']) && !target.contains("://") {
        return None;
    }
    let status = match arguments.get(1).map(String::as_str) {
        Some("permanent") => 301,
        None | Some("temporary") => 302,
        Some(text) => text.parse().unwrap_or(302),
    };
    Some((target, status))
}

/// The status of a directive that responds.
pub(super) fn status(child: &Directive, arguments: &[String]) -> Option<i64> {
    match child.name.as_str() {
        "abort" => Some(403),
        "respond" | "error" => arguments.iter().find_map(|text| text.parse().ok()),
        _ => None,
    }
}

/// The text of `respond "text" 200`, without placeholders.
fn text<'d>(child: &Directive, arguments: &'d [String]) -> Option<&'d str> {
    let text = match arguments {
        _ if child.name != "respond" || child.block.is_some() => return None,
        [] => "",
        [one] if one.parse::<i64>().is_ok() => "",
        [text] => text,
        [text, status] if status.parse::<i64>().is_ok() => text,
        _ => return None,
    };
    let has_placeholder =
        text.split('{').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
    (!has_placeholder).then_some(text)
}

/// The target of a rewrite or a fallback. A query replaces that of the request, unless it names it. `None`: it has
/// variables that there are not.
pub(super) fn rewritten(target: &str) -> Option<String> {
    let target = target.strip_suffix("$query").filter(|path| !path.contains('?')).unwrap_or(target);
    match target.split_once('?') {
        None => (!target.contains("$query") && !target.contains("$host")).then(|| target.to_owned()),
        Some((path, query))
            if path.contains("$query") || query.contains("$host") || query.contains("$scheme") =>
        {
            None
        }
        Some((_, query)) if query.contains("$query") || query.is_empty() => Some(target.to_owned()),
        Some(_) => Some(format!("{target}?")),
    }
}

/// `{uri}` and the like. `None`: there is no such variable.
pub(super) fn template(text: &str) -> Option<String> {
    const VARIABLES: [(&str, &str); 11] = [
        ("{uri}", "$path$query"),
        ("{path}", "$path"),
        ("{host}", "$host"),
        ("{scheme}", "$scheme"),
        ("{http.request.uri.path}", "$path"),
        ("{http.request.uri.query}", "{query}"),
        ("?{query}&", "?$query&"),
        ("?{query}", "$query"),
        ("{http.request.uri}", "$path$query"),
        ("{http.request.host}", "$host"),
        ("{hostport}", "$hostport"),
    ];
    let mut out = text.replace('$', "$$");
    for (name, value) in VARIABLES {
        out = out.replace(name, value);
    }
    if out.contains('?') {
        out = out.replace("{query}", "$query");
    }
    (!out.contains(['{', '}']) && !out.is_empty()).then_some(out)
}
