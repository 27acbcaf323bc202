//! The paths of a location: the patterns of its routes.

use std::collections::BTreeSet;

use super::Outer;
use crate::draft::{Draft, denied_more};
use crate::nginx::missing::is_script_name;
use crate::pattern;
use crate::regex;
use crate::tree::{Directive, unconverted};

/// The patterns of a location, with whether the route can have an alias.
pub fn patterns(child: &Directive, outer: Option<&Outer>, draft: &mut Draft) -> Option<Vec<String>> {
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
        "=" => Some(vec![pattern::alone(text)]),
        "" | "^~" if text.starts_with('/') && !text.contains(['*', '?', '[', ']', '{', '}']) => {
            Some(prefix(text))
        }
        "~" | "~*" => {
            let found = of_expression(child, &with_slash(text), draft);
            let found = match outer {
                Some(outer) => found.and_then(|all| nested(outer, &all)),
                None => found,
            };
            match &found {
                Some(all) => {
                    let shown = |pattern: &String| match kind {
                        "~*" => pattern::ignoring_case(pattern).unwrap_or_else(|| pattern.clone()),
                        _ => pattern.clone(),
                    };
                    let all: Vec<String> = all.iter().map(shown).collect();
                    let what = format!("{} became {}", child.text(), all.join(" "));
                    draft.note(place, what, "patterns precede prefixes");
                }
                None => not_found(child, draft),
            }
            found
        }
        _ => {
            not_found(child, draft);
            None
        }
    }
}

/// Every path begins with a slash.
pub fn with_slash(expression: &str) -> String {
    let rest = ["(^|/)", "(?:^|/)"].iter().find_map(|begin| expression.strip_prefix(begin));
    rest.map_or_else(|| expression.to_owned(), |rest| format!("/{rest}"))
}

/// Whether a location only sets fields of responses, so that a path that it misses has no other response.
fn sets_only(child: &Directive) -> bool {
    const SETS: [&str; 6] = ["expires", "add_header", "access_log", "log_not_found", "etag", "gzip_static"];
    child.children().iter().all(|inner| SETS.contains(&inner.name.as_str()))
}

/// Whether a location only denies, so that what it finds has to be found exactly.
pub fn denies_only(child: &Directive) -> bool {
    let denies = |inner: &Directive| match inner.name.as_str() {
        "deny" => inner.arguments == ["all"],
        "return" => matches!(inner.argument(0), "403" | "404" | "410" | "444") && inner.arguments.len() == 1,
        _ => false,
    };
    let is_needless =
        |inner: &Directive| matches!(inner.name.as_str(), "access_log" | "log_not_found" | "internal");
    child.children().iter().any(denies)
        && child.children().iter().all(|inner| denies(inner) || is_needless(inner))
}

/// The patterns of an expression: of more than it finds, where that changes no response.
fn of_expression(child: &Directive, expression: &str, draft: &mut Draft) -> Option<Vec<String>> {
    let denies = denies_only(child);
    let loosely = || {
        let is_enough = sets_only(child) || regex::begins_names_with_dots(expression);
        is_enough.then(|| regex::patterns(&regex::with_any_character(expression))).flatten()
    };
    let denied = || {
        let runs = |inner: &Directive| matches!(inner.name.as_str(), "fastcgi_pass" | "scgi_pass");
        let is_enough = denies || child.children().iter().any(runs);
        is_enough.then(|| regex::patterns(&regex::with_any_character_or_slash(expression))).flatten()
    };
    let wider = || {
        let wider = denies.then(|| regex::wider_patterns(expression)).flatten()?;
        denied_more(&child.text(), &wider, &child.place, draft);
        Some(wider.patterns)
    };
    let found = regex::patterns(expression).or_else(loosely).or_else(denied).or_else(wider);
    match denies && regex::goes_on(expression) {
        true => found.map(with_below),
        false => found,
    }
}

/// The paths of expressions within a location.
fn nested(outer: &Outer, all: &[String]) -> Option<Vec<String>> {
    let prefix = outer.prefix?;
    let within = all.iter().map(|pattern| pattern::all_beginning(prefix, pattern));
    let within: Vec<Vec<String>> = within.collect();
    within.iter().all(|found| !found.is_empty()).then(|| within.concat())
}

/// A location whose paths no pattern can say. What it protects has the settings of its server without it.
fn not_found(child: &Directive, draft: &mut Draft) {
    let protects = |inner: &Directive| match inner.name.as_str() {
        "return" => matches!(inner.argument(0).parse(), Ok(400..=599)),
        "auth_basic" | "auth_request" => inner.argument(0) != "off",
        "allow" | "deny" | "internal" | "limit_req" | "limit_conn" => true,
        _ => false,
    };
    let how = match child.argument(0) {
        "~" | "~*" => "write prefixes, or patterns with *",
        _ => "write a prefix that begins with a slash, without * ? [ ] { }",
    };
    match child.children().iter().any(protects) {
        true => {
            let what = format!("{}, and what it protects would be open", unconverted(child));
            let what_to_do =
                format!("before you remove this, write a [[host.route]] or a [[host.rule]] for it: {how}");
            draft.error(&child.place, what, &what_to_do);
        }
        false => draft.error(&child.place, unconverted(child), how),
    }
}

/// What is below the paths of patterns, too: a script there has no path, but an upstream would get it.
fn with_below(mut all: Vec<String>) -> Vec<String> {
    let below: Vec<String> =
        all.iter().filter(|path| !path.ends_with('/')).map(|path| pattern::below_of(path)).collect();
    all.extend(below.into_iter().filter(|path| !path.ends_with("**/**")));
    let mut seen = BTreeSet::new();
    all.retain(|pattern| seen.insert(pattern.clone()));
    all
}

fn prefix(text: &str) -> Vec<String> {
    match text.ends_with('/') {
        true => vec![text.to_owned()],
        false => vec![format!("{text}/"), text.to_owned()],
    }
}

/// The scripts that `rewrite ^/(?!index|cron) /index.php$request_uri` leaves as they are, in a location of scripts.
/// `None`: it is another rewrite.
pub fn allowed_scripts(inner: &Directive, patterns: &[String]) -> Option<Vec<String>> {
    let [pattern] = patterns else { return None };
    let end = pattern.strip_prefix("*.").filter(|end| !end.contains(['*', '/']))?;
    let script = ["$request_uri", "$uri"].iter().find_map(|rest| inner.argument(1).strip_suffix(rest))?;
    if !is_script_name(script) || script.contains('$') || !matches!(inner.argument(2), "" | "last") {
        return None;
    }
    let inside = inner.argument(0).strip_prefix("^/(?!")?;
    let names = regex::group(inside)?;
    if inside.len() != names.len() + 1 {
        return None;
    }
    let mut all = Vec::new();
    for name in regex::branches(names) {
        // A character more makes no other script.
        let begins = regex::values(&format!("^/{}", name.replace(".+", ".*")))?;
        all.extend(
            begins.iter().map(|begin| format!("{}**.{end}", begin.trim_end_matches('*').replace('*', "**"))),
        );
    }
    // It has to leave the script that it leads to.
    all.iter().any(|begin| script.starts_with(begin.split('*').next().unwrap_or_default())).then_some(all)
}

/// The patterns of `~*`. A script has one for each case, because its ending says what runs it.
pub fn of_any_case(pattern: &str, is_script: bool, child: &Directive, draft: &mut Draft) -> Vec<String> {
    let single = || pattern::ignoring_case(pattern).map(|pattern| vec![pattern]);
    let all = match is_script {
        true => pattern::any_case(pattern).or_else(single),
        false => single().or_else(|| pattern::any_case(pattern)),
    };
    all.unwrap_or_else(|| {
        let what = format!("{} is for paths whatever their case", child.text());
        draft.error(&child.place, what, "write the paths in each case that there is");
        vec![pattern.to_owned()]
    })
}

/// The names that only begin with a prefix, which what protects it has in nginx, too.
pub fn longer_names(child: &Directive) -> Option<String> {
    match child.argument(0) {
        "~*" | "~" | "=" => None,
        _ => pattern::longer_names(child.arguments.last().map_or("", String::as_str)),
    }
}
