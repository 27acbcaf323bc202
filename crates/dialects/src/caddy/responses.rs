//! Directives that respond without a file: redirects, rewrites and texts.

use site::template::Template;

use crate::draft::Host;
use crate::tree::{Directive, unconverted};

use super::matchers::Matched;
use super::site::{Site, Way};

impl Site<'_> {
    pub(super) fn redirect(&mut self, matched: &Matched, way: &Way, host: &mut Host) {
        let Matched { directive: child, arguments, .. } = matched;
        let place = &child.place;
        for (paths, seen) in self.seen(matched, way) {
            let Some((target, status)) = redirected(arguments, &seen) else {
                return self.draft.error(place, unconverted(child), "see redirect");
            };
            // A rule knows nothing of prefixes.
            match way.strips && target.contains("${rest}") {
                true => self.close_in_other_cases(child, &paths),
                false => self.in_other_cases(child, &paths, |rule| {
                    rule.set(place, "then", "redirect");
                    rule.set(place, "to", target.as_str());
                    rule.set(place, "status", status);
                }),
            }
            self.route(&paths, place, host, |scope| {
                scope.set(place, "redirect", target.as_str());
                scope.set(place, "status", status);
            });
        }
    }

    pub(super) fn rewrite(&mut self, matched: &Matched, way: &Way, host: &mut Host) {
        let child = matched.directive;
        let place = &child.place;
        for (paths, seen) in self.seen(matched, way) {
            match template(matched.argument(), &seen).and_then(|target| rewritten(&target)) {
                Some(target) if !paths.is_empty() => {
                    self.close_in_other_cases(child, &paths);
                    self.route(&paths, place, host, |scope| scope.set(place, "rewrite", target.as_str()));
                }
                _ => return self.draft.error(place, unconverted(child), "see rewrite and fallback"),
            }
        }
    }

    /// The paths of a directive with what its placeholders stand for: each alone, if an expression found them.
    fn seen(&self, matched: &Matched, way: &Way) -> Vec<(Vec<String>, Seen)> {
        let Matched { directive: child, paths, .. } = matched;
        let own = self.matchers.iter().find(|matcher| matcher.name == child.argument(0));
        let captured = own.map(|own| own.captured.as_slice()).unwrap_or_default();
        let strips = way.strips;
        if captured.is_empty() {
            return vec![(paths.clone(), Seen { strips, groups: Vec::new() })];
        }
        let groups = |path: &String| {
            let own = captured.iter().find(|one| one.pattern == *path);
            Seen { strips, groups: own.map(|own| own.groups.clone()).unwrap_or_default() }
        };
        paths.iter().map(|path| (vec![path.clone()], groups(path))).collect()
    }

    pub(super) fn respond(&mut self, matched: &Matched, host: &mut Host) {
        let Matched { directive: child, paths, arguments } = matched;
        let place = &child.place;
        match (status(child, arguments), text(child, arguments)) {
            (Some(status @ 400..=599), _) if ![401, 405, 407, 416, 426].contains(&status) => {
                if child.block.is_some() || arguments.iter().any(|text| text.parse::<i64>().is_err()) {
                    self.draft.warn(place, "the response has no text of its own", "see error_pages");
                }
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
pub(super) fn redirected(arguments: &[String], seen: &Seen) -> Option<(String, i64)> {
    let target = template(arguments.first().map_or("", String::as_str), seen)?;
    if target.starts_with("//") || Template::redirect(&target).is_err() {
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

/// What the placeholders of a target stand for, besides those that are the same everywhere.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The path lacks the prefix of its block.
    pub(super) strips: bool,
    /// The groups of the expression that found the path.
    pub(super) groups: Vec<String>,
}

impl Seen {
    fn path(&self) -> &'static str {
        if self.strips { "/${rest}" } else { "$path" }
    }

    /// The value of a placeholder, besides that of the query. `None`: there is no such variable.
    fn value(&self, name: &str) -> Option<String> {
        let group = || {
            let name = name.strip_prefix("re.").or_else(|| name.strip_prefix("http.regexp."))?;
            let number: usize = name.rsplit('.').next()?.parse().ok()?;
            self.groups.get(number.checked_sub(1)?).cloned()
        };
        Some(match name {
            "uri" | "http.request.uri" => format!("{}$query", self.path()),
            "path" | "http.request.uri.path" => self.path().to_owned(),
            "http.request.orig_uri" => "$path$query".to_owned(),
            "http.request.orig_uri.path" => "$path".to_owned(),
            "host" | "http.request.host" => "$host".to_owned(),
            "hostport" | "http.request.hostport" => "$hostport".to_owned(),
            "scheme" | "http.request.scheme" => "$scheme".to_owned(),
            _ => return group(),
        })
    }
}

/// A target with the values of its placeholders. `None`: there is no such variable.
pub(super) fn template(text: &str, seen: &Seen) -> Option<String> {
    let text = text.replace('$', "$$");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, after) = behind.split_once('}').filter(|_| !before.contains('}'))?;
        out.push_str(before);
        match name {
            "query" | "http.request.uri.query" | "http.request.orig_uri.query" => {
                if out.ends_with('?') && !after.starts_with('&') {
                    out.pop();
                } else if !out.contains('?') {
                    return None;
                }
                out.push_str("$query");
            }
            name => out.push_str(&seen.value(name)?),
        }
        rest = after;
    }
    out.push_str(Some(rest).filter(|rest| !rest.contains('}'))?);
    Some(out).filter(|out| !out.is_empty())
}
