//! `RewriteRule` and `RewriteCond`, as far as routes can do the same.

use crate::draft::{Draft, Host, Scope};
use crate::regex;
use crate::tree::{Directive, Place};

use super::paths;

/// The rules of a section, in order.
#[derive(Debug, Clone, Default)]
pub struct Rewrites {
    is_off: bool,
    conditions: Vec<Directive>,
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    conditions: Vec<Directive>,
    rule: Directive,
}

/// What becomes of the conditions in front of a rule.
#[derive(Debug, PartialEq, Eq)]
enum Conditions {
    None,
    /// Nothing is there.
    Missing,
    /// The request had no TLS.
    Plain,
    /// The host has one of these names.
    Names(Vec<String>),
    Unknown,
}

impl Rewrites {
    pub fn add(&mut self, directive: &Directive, draft: &mut Draft) {
        match directive.name.as_str() {
            "rewriteengine" => self.is_off = directive.argument(0).eq_ignore_ascii_case("off"),
            "rewritecond" => self.conditions.push(directive.clone()),
            "rewriterule" => {
                let conditions = std::mem::take(&mut self.conditions);
                self.rules.push(Rule { conditions, rule: directive.clone() });
            }
            "rewriteoptions" => {
                draft.note(&directive.place, "RewriteOptions has no effect", "nothing to do");
            }
            _ => draft.error(&directive.place, unconverted(directive), "see rewrites and redirects"),
        }
    }

    /// Only the rules that reject requests. `base` as in `apply`.
    pub fn deny(&self, base: Option<&str>, host: &mut Host) {
        for Rule { conditions, rule } in self.rules.iter().filter(|_| !self.is_off) {
            let words = rule.argument(2).trim_matches(['[', ']']).split(',');
            let mut names = words.map(|flag| flag.trim().to_ascii_lowercase());
            if names.any(|name| matches!(name.as_str(), "f" | "forbidden" | "g" | "gone")) {
                _ = apply(rule, &meaning(conditions), base, host, &mut Draft::default());
            }
        }
    }

    /// `base` is the prefix of a folder, whose rules have paths without it. `None`: the rules of a server.
    pub fn apply(&self, base: Option<&str>, host: &mut Host, draft: &mut Draft) {
        for Rule { conditions, rule } in self.rules.iter().filter(|_| !self.is_off) {
            if apply(rule, &meaning(conditions), base, host, draft).is_none() {
                draft.error(&rule.place, unconverted(rule), "see rewrites, redirects, fallback and [[rule]]");
            }
        }
    }
}

fn unconverted(directive: &Directive) -> String {
    format!("\"{}\" cannot be converted", directive.text())
}

fn meaning(conditions: &[Directive]) -> Conditions {
    let missing = |one: &Directive| {
        matches!(one.argument(0), "%{REQUEST_FILENAME}" | "%{DOCUMENT_ROOT}%{REQUEST_URI}")
            && matches!(one.argument(1), "!-f" | "!-d" | "!-l")
    };
    let plain = |one: &Directive| {
        let (subject, test) = (one.argument(0), one.argument(1).to_ascii_lowercase());
        match subject {
            "%{HTTPS}" => matches!(test.as_str(), "off" | "!on" | "!=on" | "=off" | "^off$"),
            "%{SERVER_PORT}" => matches!(test.as_str(), "80" | "^80$" | "=80" | "!443" | "!^443$"),
            "%{REQUEST_SCHEME}" => {
                matches!(test.as_str(), "http" | "=http" | "!https" | "!=https" | "^http$")
            }
            _ => false,
        }
    };
    match conditions {
        [] => Conditions::None,
        all if all.iter().any(|one| one.argument(1) == "!-f") && all.iter().all(missing) => {
            Conditions::Missing
        }
        all if all.iter().all(plain) => Conditions::Plain,
        all => names(all).map_or(Conditions::Unknown, Conditions::Names),
    }
}

/// The names of conditions of which one is enough.
fn names(conditions: &[Directive]) -> Option<Vec<String>> {
    let (last, others) = conditions.split_last()?;
    let is_or =
        |one: &Directive| one.argument(2).trim_matches(['[', ']']).split(',').any(|flag| flag == "OR");
    if is_or(last) || !others.iter().all(is_or) {
        return None;
    }
    let name = |one: &Directive| {
        let test = one.argument(1);
        let is_name = matches!(one.argument(0), "%{SERVER_NAME}" | "%{HTTP_HOST}");
        let expression = || regex::literal(test.strip_prefix('^')?.strip_suffix('$')?);
        let name = test.strip_prefix('=').map(str::to_owned).or_else(expression).filter(|_| is_name);
        name.map(|name| name.to_lowercase())
    };
    conditions.iter().map(name).collect()
}

/// `None`: it cannot be converted.
fn apply(
    rule: &Directive,
    conditions: &Conditions,
    base: Option<&str>,
    host: &mut Host,
    draft: &mut Draft,
) -> Option<()> {
    let place = &rule.place;
    let (expression, target) = (rule.argument(0), rule.argument(1));
    let flags: Vec<&str> = rule.argument(2).trim_matches(['[', ']']).split(',').map(str::trim).collect();
    let flag = |short: &str, long: &str| {
        flags.iter().find_map(|flag| {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            (name.eq_ignore_ascii_case(short) || name.eq_ignore_ascii_case(long)).then_some(value)
        })
    };
    if target == "-" && flags.iter().any(|flag| flag.starts_with("E=HTTP_AUTHORIZATION")) {
        host.scope.set(place, "pass_authorization", true);
        return Some(());
    }
    if flag("F", "forbidden").is_some() || flag("G", "gone").is_some() {
        let status = if flag("G", "gone").is_some() { 410 } else { 403 };
        if *conditions != Conditions::None {
            return None;
        }
        for pattern in all(expression, base, flag("NC", "nocase").is_some())? {
            let route = host.route(&pattern, place);
            if !route.responds() {
                route.set(place, "return", status);
            }
        }
        return Some(());
    }
    let is_everything = matches!(
        expression,
        "^" | "^(.*)$"
            | "^(.*)"
            | "(.*)"
            | ".*"
            | "."
            | "^.*$"
            | "^/?(.*)"
            | "^/?(.*)$"
            | "^/(.*)$"
            | "^/(.*)"
            | "^/"
    );
    let to_https =
        ["https://%{HTTP_HOST}", "https://%{SERVER_NAME}"].iter().find_map(|host| target.strip_prefix(host));
    let is_for_all = match conditions {
        Conditions::None | Conditions::Plain => true,
        Conditions::Names(names) => {
            !host.names.is_empty() && host.names.iter().all(|name| names.contains(name))
        }
        Conditions::Missing | Conditions::Unknown => false,
    };
    if let Some("%{REQUEST_URI}" | "/$1" | "$1") = to_https
        && is_everything
        && is_for_all
    {
        let is_secure = host.listens.iter().any(|listen| listen.tls);
        match (conditions, is_secure) {
            (Conditions::None | Conditions::Names(_), true) => return None,
            (_, true) => host.scope.set(place, "https_redirect", true),
            (_, false) => host.is_to_https = true,
        }
        return Some(());
    }
    match conditions {
        Conditions::Missing if is_everything || expression == "!^index\\.php$" => {
            fallback(target, base, place, host)
        }
        // `RewriteRule ^index\.php$ - [L]` is in front of every front controller.
        Conditions::None
            if target == "-" && flags.iter().all(|flag| matches!(*flag, "" | "L" | "NC" | "QSA" | "END")) =>
        {
            draft.note(place, "rules behind this one are for other paths", "nothing to do");
            regex::exact(&unslashed(expression)).map(|_| ())
        }
        Conditions::None => plain(rule, base, &flag, host, draft),
        _ => None,
    }
}

/// An expression of a folder's rule, which begins behind the folder, as one of the whole path.
fn anchored(expression: &str, base: Option<&str>) -> String {
    match (base, expression.strip_prefix('^')) {
        (Some(base), Some(rest)) => format!("^{}{}", base.replace('.', "\\."), rest.trim_start_matches("/?")),
        (None, Some(rest)) => format!("^/{}", rest.trim_start_matches("/?").trim_start_matches('/')),
        (_, None) => expression.to_owned(),
    }
}

fn unslashed(expression: &str) -> String {
    format!("^/{}", expression.trim_start_matches('^').trim_start_matches('/'))
}

/// The patterns of an expression in a folder.
fn all(expression: &str, base: Option<&str>, any_case: bool) -> Option<Vec<String>> {
    let text = expression.replacen("(^|/)", "/", 1).replacen("(?:^|/)", "/", 1);
    let mut patterns = paths::expression(&anchored(&text, base))?;
    if let Some(base) = base.filter(|_| !text.starts_with('^')) {
        patterns = patterns.iter().map(|pattern| regex::within(base, pattern)).collect::<Option<_>>()?;
    }
    if any_case {
        let cases: Option<Vec<Vec<String>>> =
            patterns.iter().map(|pattern| regex::any_case(pattern)).collect();
        patterns = cases?.concat();
    }
    Some(patterns)
}

/// A front controller.
fn fallback(target: &str, base: Option<&str>, place: &Place, host: &mut Host) -> Option<()> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.trim_end_matches("/$1");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("{}{path}", base.unwrap_or("/")) };
    let query = query.replace("%{REQUEST_URI}", "$path").replace("$1", "$rest");
    let names = query.replace("$path", "").replace("$rest", "");
    if path.contains(['$', '%']) || names.contains(['$', '%']) {
        return None;
    }
    let fallback = if query.is_empty() { path } else { format!("{path}?{query}") };
    let set = |scope: &mut Scope| {
        scope.set(place, "fallback", fallback.as_str());
        scope.set(place, "fallback_for", "all");
    };
    match base.filter(|base| *base != "/") {
        Some(base) => set(host.route(base, place)),
        None => set(&mut host.scope),
    }
    Some(())
}

/// A redirect, a rewrite, or a proxy.
fn plain<'f>(
    rule: &Directive,
    base: Option<&str>,
    flag: &dyn Fn(&str, &str) -> Option<&'f str>,
    host: &mut Host,
    draft: &mut Draft,
) -> Option<()> {
    let place = &rule.place;
    let expression = anchored(rule.argument(0), base);
    let path = regex::prefix(&expression).or_else(|| paths::exact(&expression))?;
    let target = rule.argument(1);
    let is_url = target.starts_with("http://") || target.starts_with("https://");
    let whole = target.starts_with('/') || is_url;
    let target = if whole { target.to_owned() } else { format!("{}{target}", base.unwrap_or("/")) };
    let to =
        target.replace("$1", "${rest}").replace("%{HTTP_HOST}", "$host").replace("%{REQUEST_URI}", "$path");
    let rest = to.replace("${rest}", "").replace("$host", "").replace("$path", "");
    if rest.contains(['$', '%']) {
        return None;
    }
    if flag("P", "proxy").is_some() {
        let url = target.strip_suffix("$1").filter(|url| path.ends_with('/') && url.ends_with('/'))?;
        let route = host.route(&path, place);
        return super::proxy::pass(url, &[], place, route, draft);
    }
    let redirect = flag("R", "redirect");
    let route = host.route(&path, place);
    if redirect.is_some() || is_url {
        let status: i64 = match redirect.unwrap_or("302") {
            "" | "temp" => 302,
            "permanent" => 301,
            "seeother" => 303,
            text => text.parse().ok().filter(|status| matches!(status, 301 | 302 | 303 | 307 | 308))?,
        };
        let discards = flag("QSD", "qsdiscard").is_some() || to.contains('?');
        let to = to.trim_end_matches('?').to_owned() + if discards { "" } else { "$query" };
        route.set(place, "redirect", to);
        route.set(place, "status", status);
    } else if to.contains('?') {
        return None;
    } else {
        route.set(place, "rewrite", to);
    }
    Some(())
}
