//! The paths that `RewriteRule` finds, and those that it rejects.

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::pattern;
use crate::regex;
use crate::tree::Directive;

use super::conditions::{self, Finding};
use super::flags::Flags;
use super::paths;

/// The status of a rule that rejects requests.
pub fn rejection(rule: &Directive) -> Option<i64> {
    let status = |(name, value): (&str, &str)| match (name.to_ascii_lowercase().as_str(), value) {
        ("f" | "forbidden", "") => Some(403),
        ("g" | "gone", "") => Some(410),
        ("r" | "redirect", status) => status.parse().ok().filter(|status| (400..600).contains(status)),
        _ => None,
    };
    let status = Flags::of(rule).pairs().find_map(status)?;
    // Some have fields of their own, which only the server sets.
    Some(if [401, 405, 407, 416, 426].contains(&status) { 403 } else { status })
}

/// Rejects what an expression finds.
pub fn reject(rule: &Directive, status: i64, base: Option<&str>, host: &mut Host) -> Option<()> {
    let place = &rule.place;
    for pattern in all(rule.argument(0), base, Flags::of(rule).has("NC", "nocase"))? {
        let route = host.route(&pattern, place);
        if !route.responds() {
            route.set(place, "return", status);
        }
    }
    Some(())
}

/// Rejects what an expression finds that no patterns can say, and more.
pub fn reject_more(
    rule: &Directive,
    status: i64,
    base: Option<&str>,
    host: &mut Host,
    draft: &mut Draft,
) -> Option<()> {
    let text = anchored(rule.argument(0), base);
    if text.starts_with('!') || base.is_some_and(|base| base != "/" && !text.starts_with('^')) {
        return None;
    }
    let mut found = paths::wider(&text, rule, draft)?;
    if Flags::of(rule).has("NC", "nocase") {
        found = found.iter().map(|pattern| pattern::ignoring_case(pattern)).collect::<Option<_>>()?;
    }
    for pattern in found {
        let route = host.route(&pattern, &rule.place);
        if !route.responds() {
            route.set(&rule.place, "return", status);
        }
    }
    Some(())
}

/// Rejections with conditions, or of an expression that excepts paths, as rules of access. `None`: they have neither,
/// or rules cannot say it.
pub fn denials(
    conditions: &[Directive],
    rule: &Directive,
    status: i64,
    base: Option<&str>,
) -> Option<Vec<Scope>> {
    if conditions.is_empty() && !excepts(rule.argument(0)) {
        return None;
    }
    let all = conditional(conditions, rule, base, Finding::AtLeast)?.into_iter().map(|mut own| {
        own.set(&rule.place, "then", "deny");
        own.set(&rule.place, "status", status);
        own
    });
    Some(all.collect())
}

/// The conditions of rules for what a rule with conditions finds.
pub fn conditional(
    conditions: &[Directive],
    rule: &Directive,
    base: Option<&str>,
    finding: Finding,
) -> Option<Vec<Scope>> {
    let place = &rule.place;
    let expression = rule.argument(0);
    let any_case = Flags::of(rule).has("NC", "nocase");
    let every = is_everything(expression);
    let paths = match base.filter(|base| *base != "/") {
        Some(base) if every => vec![vec![base.to_owned()]],
        _ if every => vec![Vec::new()],
        base if expression.starts_with('!') => {
            let found = all(&expression[1..], base, any_case)?;
            let except = found.into_iter().map(|path| format!("!{path}"));
            vec![base.map(str::to_owned).into_iter().chain(except).collect()]
        }
        _ => excepting(expression).iter().map(|one| one.patterns(base, any_case)).collect::<Option<_>>()?,
    };
    let mut out = Vec::new();
    for mut rule in conditions::rules(conditions, place, finding)? {
        let own = match rule.get("path") {
            Some(Value::Texts(own)) => own.clone(),
            _ => Vec::new(),
        };
        for paths in &paths {
            let has_both = |all: &[String]| all.iter().any(|path| !path.starts_with('!'));
            match (has_both(&own), has_both(paths)) {
                // Both would have to find the path.
                (true, true) => return None,
                _ if own.is_empty() && paths.is_empty() => {}
                _ => rule.set(place, "path", [own.as_slice(), paths].concat()),
            }
            out.push(rule.clone());
        }
    }
    Some(out)
}

/// Whether an expression says which paths it is not for.
pub fn excepts(expression: &str) -> bool {
    expression.starts_with('!') || expression.contains("(?!")
}

/// An expression, and one that finds what it excepts by `(?!…)`.
pub struct Excepting {
    pub text: String,
    pub except: Option<String>,
}

impl Excepting {
    fn patterns(&self, base: Option<&str>, any_case: bool) -> Option<Vec<String>> {
        let except = match &self.except {
            Some(except) => all(except, base, any_case)?,
            None => Vec::new(),
        };
        let found = all(&self.text, base, any_case)?;
        Some(found.into_iter().chain(except.into_iter().map(|path| format!("!{path}"))).collect())
    }
}

/// The branches of an expression. One that is `^(?:a(?!b)|c)d` is two of them.
pub fn excepting(expression: &str) -> Vec<Excepting> {
    let one = |text: String| {
        let found = text.split_once("(?!").and_then(|(before, behind)| {
            let inner = regex::group(behind)?;
            let after = &behind[inner.len() + 1..];
            Some(Excepting { text: format!("{before}{after}"), except: Some(format!("{before}(?:{inner})")) })
        });
        found.unwrap_or(Excepting { text, except: None })
    };
    regex::distributed(expression).into_iter().map(one).collect()
}

pub fn is_everything(expression: &str) -> bool {
    matches!(
        expression,
        "^" | "^(.*)$"
            | "^(.*)"
            | "(.*)"
            | ".*"
            | "."
            | ".?"
            | "^.*"
            | "^.*$"
            | "/(.*)"
            | "/(.*)$"
            | "/?(.*)"
            | "^/?(.*)"
            | "^/?(.*)$"
            | "^/(.*)$"
            | "^/(.*)"
            | "^/"
            | "^([\\s\\S]*)$"
    )
}

/// An expression of a folder's rule, which begins behind the folder, as one of the whole path.
pub fn anchored(expression: &str, base: Option<&str>) -> String {
    match (base, expression.strip_prefix('^')) {
        (Some(base), Some(rest)) => format!("^{}{}", base.replace('.', "\\."), rest.trim_start_matches("/?")),
        (None, Some(rest)) if rest.starts_with("(/") || rest.starts_with("(?:/") => expression.to_owned(),
        (None, Some(rest)) => format!("^/{}", rest.trim_start_matches("/?").trim_start_matches('/')),
        (_, None) => expression.to_owned(),
    }
}

pub fn unslashed(expression: &str) -> String {
    format!("^/{}", expression.trim_start_matches('^').trim_start_matches('/'))
}

/// The patterns of an expression in a folder.
pub fn all(expression: &str, base: Option<&str>, any_case: bool) -> Option<Vec<String>> {
    // What an expression does not find is no pattern.
    if expression.starts_with('!') {
        return None;
    }
    let branches = regex::branches(expression).into_iter();
    let all: Option<Vec<_>> = branches.map(|branch| all_of_branch(branch, base, any_case)).collect();
    Some(all?.concat())
}

fn all_of_branch(expression: &str, base: Option<&str>, any_case: bool) -> Option<Vec<String>> {
    let text = expression.replacen("(^|/)", "/", 1).replacen("(?:^|/)", "/", 1);
    let mut patterns = paths::expression(&anchored(&text, base))?;
    if let Some(base) = base.filter(|_| !text.starts_with('^')) {
        patterns = patterns.iter().map(|pattern| pattern::within(base, pattern)).collect::<Option<_>>()?;
        // The path of a folder's rule begins without a slash.
        if expression.starts_with('/') {
            let begin = format!("{base}**/");
            for pattern in &mut patterns {
                *pattern = pattern.replacen(&begin, &format!("{base}*/**/"), 1);
            }
        }
    }
    if any_case {
        let in_any_case = |pattern: &String| {
            let all = pattern::any_case(pattern);
            all.or_else(|| pattern::ignoring_case(pattern).map(|pattern| vec![pattern]))
        };
        let cases: Option<Vec<Vec<String>>> = patterns.iter().map(in_any_case).collect();
        patterns = cases?.concat();
    }
    Some(patterns)
}
