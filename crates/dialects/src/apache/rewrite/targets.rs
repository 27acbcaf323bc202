//! What a rule leads to: the patterns of paths, each with its target, and what becomes of the query.

use crate::brackets::is_glob;
use site::template::Template;

use crate::apache::flags::Flags;
use crate::apache::paths;
use crate::apache::rejections::{all, anchored, excepting, is_everything};
use crate::regex::{self, Captured};
use crate::tree::Directive;

/// What becomes of the query of a request, where a target has one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// It is replaced, or stays if there is no other one.
    Replaced,
    /// QSA.
    Added,
    /// QSD.
    Discarded,
}

impl Query {
    pub fn of(flags: Flags<'_>) -> Query {
        match (flags.has("QSD", "qsdiscard"), flags.has("QSA", "qsappend")) {
            (true, _) => Query::Discarded,
            (false, true) => Query::Added,
            (false, false) => Query::Replaced,
        }
    }

    /// The target of a redirect, to which nothing is added here.
    pub fn redirected(self, to: &str) -> String {
        let bare = to.trim_end_matches('?');
        match (to.contains('?'), self) {
            (true, Query::Added) if bare.contains('?') => format!("{bare}&$query"),
            (_, Query::Added) | (false, Query::Replaced) => format!("{bare}$query"),
            (true, Query::Replaced) | (_, Query::Discarded) => bare.to_owned(),
        }
    }

    /// The target of a rewrite or a fallback, to which the query of the request is added unless `?` ends it.
    pub fn rewritten(self, to: String) -> String {
        match (to.contains('?'), self) {
            (false, Query::Discarded) => to + "?",
            (true, Query::Replaced | Query::Discarded) if !to.ends_with('?') && !to.contains("$query") => {
                to + "?"
            }
            _ => to,
        }
    }
}

/// What a rule leads to.
pub struct Targets {
    /// Patterns, each with its target.
    pub all: Vec<(String, String)>,
    /// Folders that it excepts.
    pub excepted: Vec<String>,
}

impl Targets {
    fn of(all: Vec<(String, String)>) -> Targets {
        Targets { all, excepted: Vec::new() }
    }
}

/// `None`: patterns or targets cannot say it.
pub fn targets(rule: &Directive, target: &str, base: Option<&str>) -> Option<Targets> {
    let to = target.replace("%{HTTP_HOST}", "$hostport").replace("%{REQUEST_URI}", "$path");
    let to = match to.split_once('?') {
        Some((path, query)) => format!("{path}?{}", query.replace("%{QUERY_STRING}", "$query")),
        None => to,
    };
    let names = to.replace("$hostport", "").replace("$path", "").replace("$query", "");
    let has_groups = names.contains('$');
    if names.contains('%') {
        return None;
    }
    let expression = Some(rule.argument(0)).filter(|text| !text.starts_with('!'))?;
    leading(expression, Flags::of(rule).has("NC", "nocase"), &to, base, has_groups)
}

/// `RedirectMatch`: the patterns, each with its target. `None`: patterns or targets cannot say it.
pub fn redirect_matches(expression: &str, to: &str) -> Option<Vec<(String, String)>> {
    let (expression, any_case) = regex::cased(expression);
    let is_variable = |behind: &str| !behind.starts_with(|c: char| c.is_ascii_digit());
    if to.contains("%{") || to.split('$').skip(1).any(is_variable) {
        return None;
    }
    if is_everything(&expression) {
        // What a group finds begins with the slash that every path begins with.
        let group = if expression.contains('/') { "${rest}" } else { "$path" };
        let one = Captured { pattern: "/".to_owned(), groups: vec![group.to_owned()] };
        return Some(vec![(one.pattern.clone(), one.target(to)?)]);
    }
    let begun = ["^(.*)", "(.*)", "/(.*)"].iter().find_map(|begin| {
        let rest = expression.strip_prefix(begin)?;
        Some(if begin.starts_with('/') { format!("^/(.*){rest}") } else { format!("^(/.*){rest}") })
    });
    let Targets { all, excepted } =
        leading(&begun.unwrap_or(expression), any_case, to, None, to.contains('$'))?;
    // What is captured cannot be a host.
    let is_usable = |(_, to): &(String, String)| Template::redirect(to).is_ok();
    (excepted.is_empty() && all.iter().all(is_usable)).then_some(all)
}

/// What an expression leads to a target.
fn leading(
    expression: &str,
    any_case: bool,
    to: &str,
    base: Option<&str>,
    has_groups: bool,
) -> Option<Targets> {
    let text = expression;
    let expression = anchored(text, base);
    let path = regex::prefix(&expression).or_else(|| paths::exact(&expression));
    let one = |path: String| Captured { pattern: path, groups: vec!["${rest}".to_owned()] };
    // A path alone has no rest.
    let is_said = |path: &String| !any_case && (path.ends_with('/') || !has_groups);
    let of_path = path.filter(is_said).and_then(|path| {
        let one = one(path);
        Some((one.pattern.clone(), one.target(to)?))
    });
    if let Some(pair) = of_path {
        return Some(Targets::of(vec![pair]));
    }
    // What is not captured has no place in the target.
    if let Some((patterns, excepted)) = found(text, base, any_case).filter(|_| !has_groups) {
        let all = patterns.into_iter().map(|pattern| (pattern, to.to_owned())).collect();
        return Some(Targets { all, excepted });
    }
    let pair = |one: Captured| {
        let one = if any_case { one.ignoring_case()? } else { one };
        Some((one.pattern.clone(), one.target(to)?))
    };
    let all: Option<Vec<_>> = regex::captured(&expression)?.into_iter().map(pair).collect();
    all.map(Targets::of)
}

/// The patterns of an expression without a capture, and the folders that it excepts.
fn found(expression: &str, base: Option<&str>, any_case: bool) -> Option<(Vec<String>, Vec<String>)> {
    let (mut patterns, mut excepted) = (Vec::new(), Vec::new());
    for one in excepting(expression) {
        patterns.extend(all(&one.text, base, any_case)?);
        for path in one.except.map_or(Some(Vec::new()), |except| all(&except, base, any_case))? {
            let folder = path.strip_suffix("**").unwrap_or(&path).trim_end_matches('/');
            if is_glob(folder) {
                return None;
            }
            excepted.push(format!("{folder}/"));
        }
    }
    Some((patterns, excepted))
}

/// The whole path of a target.
pub fn whole(target: &str, base: Option<&str>) -> String {
    match target.starts_with('/') || target.starts_with("http://") || target.starts_with("https://") {
        true => target.to_owned(),
        false => format!("{}{target}", base.unwrap_or("/")),
    }
}

/// The status of `[R=301]`.
pub fn redirect_status(value: &str) -> Option<i64> {
    match value {
        "" | "temp" => Some(302),
        "permanent" => Some(301),
        "seeother" => Some(303),
        text => text.parse().ok().filter(|status| matches!(status, 301 | 302 | 303 | 307 | 308)),
    }
}
