//! `RewriteRule` and `RewriteCond`, as far as routes can do the same.

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::regex::{self, Captured};
use crate::tree::{Directive, Place};
use crate::within::covers;

use super::conditions;
use super::expressions;
use super::extensions::Extension;
use super::paths;
use super::rejections::{
    all, anchored, conditional, denials, excepting, excepts, is_everything, reject, rejection, unslashed,
};

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
    /// The `<If>` that it stands for, which counts whatever `RewriteEngine` says.
    section: Option<Directive>,
}

impl Rule {
    fn unconverted(&self) -> String {
        unconverted(self.section.as_ref().unwrap_or(&self.rule))
    }
}

/// What becomes of the conditions in front of a rule.
#[derive(Debug, PartialEq, Eq)]
enum Conditions {
    None,
    /// Nothing is there, the path is none of these, and it is below this prefix.
    Missing(Vec<String>, Option<String>),
    /// The request had no TLS.
    Plain,
    /// The host has one of these names.
    Names(Vec<String>),
    /// The name of the host begins with `www.`, or it does not.
    Www(bool),
    /// The client asks for WebSocket.
    Upgrade,
    /// Nothing is there, and the path ends with a slash.
    Slash,
    /// The path is that of the client, and no other rule has led to it.
    Asked,
    Unknown,
}

/// What names that begin with `www.` are tested for.
const WWW: [&str; 4] = ["^www\\.", "^www\\.(.+)$", "^www\\.(.*)$", "^www\\.(.*)"];

impl Rewrites {
    pub fn add(&mut self, directive: &Directive, draft: &mut Draft) {
        match directive.name.as_str() {
            "rewriteengine" => self.is_off = directive.argument(0).eq_ignore_ascii_case("off"),
            "rewritecond" => self.conditions.push(directive.clone()),
            "rewriterule" => {
                let conditions = std::mem::take(&mut self.conditions);
                self.rules.push(Rule { conditions, rule: directive.clone(), section: None });
            }
            "rewriteoptions" => {
                draft.note(&directive.place, "RewriteOptions has no effect", "nothing to do");
            }
            _ => draft.error(&directive.place, unconverted(directive), "see rewrites and redirects"),
        }
    }

    /// An `<If>` that does what a rule with conditions does. `false`: it does something else.
    pub fn add_section(&mut self, section: &Directive) -> bool {
        let conditions = expressions::conditions(&section.arguments.join(" "), &section.place);
        let (Some(conditions), Some(rule)) = (conditions, expressions::rule(section)) else { return false };
        self.rules.push(Rule { conditions, rule, section: Some(section.clone()) });
        true
    }

    /// Those that count.
    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| !self.is_off || rule.section.is_some())
    }

    /// Only the rules that reject requests, and those that redirect them by conditions. `base` as in `apply`. Those with
    /// conditions become rules of access.
    pub fn deny(&self, base: Option<&str>, host: &mut Host) -> Vec<Scope> {
        let mut all = Vec::new();
        for Rule { conditions, rule, .. } in self.rules() {
            let Some(status) = rejection(rule) else {
                all.extend(redirections(conditions, rule, base, host).unwrap_or_default());
                continue;
            };
            match denials(conditions, rule, status, base) {
                Some(rules) => all.extend(rules),
                None if conditions.is_empty() => _ = reject(rule, status, base, host),
                None => {}
            }
        }
        all
    }

    /// Reports the rules of a section in which none count here, unless they reject everything. Whether one rejects
    /// something: the section is closed then.
    pub fn reject(&self, draft: &mut Draft) -> bool {
        for own @ Rule { conditions, rule, .. } in self.rules() {
            let is_everything = conditions.is_empty() && is_everything(rule.argument(0));
            if !is_everything || rejection(rule) != Some(403) {
                draft.error(&rule.place, own.unconverted(), "write it in the server, or in <Directory>");
            }
        }
        self.rules().any(|Rule { rule, .. }| rejection(rule).is_some())
    }

    /// `base` is the prefix of a folder, whose rules have paths without it. `None`: the rules of a server.
    pub fn apply(&self, base: Option<&str>, host: &mut Host, draft: &mut Draft) {
        // `-f [OR]`, `-d`, and `^ - [L]`: the rules behind are for what is missing.
        let mut is_missing = false;
        for own @ Rule { conditions, rule, .. } in self.rules() {
            if leaves_files(conditions, rule) {
                is_missing = true;
                continue;
            }
            if let Some(extension) = Extension::of(conditions, rule) {
                let scope = match base.filter(|base| *base != "/") {
                    Some(base) => host.route(base, &rule.place),
                    None => &mut host.scope,
                };
                extension.apply(scope, draft);
                continue;
            }
            let is_done = match rejection(rule) {
                Some(status) if !conditions.is_empty() || excepts(rule.argument(0)) => {
                    denials(conditions, rule, status, base).map(|_| ())
                }
                Some(status) => reject(rule, status, base, host),
                None if redirections(conditions, rule, base, host).is_some() => Some(()),
                None if is_missing && conditions.is_empty() => {
                    apply(rule, &Conditions::Missing(Vec::new(), None), base, host, draft)
                }
                None => apply(rule, &meaning(conditions), base, host, draft),
            };
            if is_done.is_none() {
                let what_to_do = "see rewrites, redirects, fallback and [[rule]]";
                draft.error(&rule.place, own.unconverted(), what_to_do);
            }
        }
    }
}

fn unconverted(directive: &Directive) -> String {
    format!("\"{}\" cannot be converted", directive.text())
}

/// Whether a rule ends the others where a file or a folder is there.
fn leaves_files(conditions: &[Directive], rule: &Directive) -> bool {
    let is_there = |one: &Directive| {
        one.argument(0) == "%{REQUEST_FILENAME}" && matches!(one.argument(1), "-f" | "-d" | "-l" | "-s")
    };
    let Some((last, others)) = conditions.split_last() else { return false };
    let ends =
        rule.argument(2).trim_matches(['[', ']']).split(',').any(|flag| matches!(flag.trim(), "L" | "END"));
    others.iter().all(|one| is_there(one) && conditions::has_flag(one, "OR", "ornext"))
        && is_there(last)
        && conditions.iter().any(|one| matches!(one.argument(1), "-f" | "-s"))
        && rule.argument(1) == "-"
        && is_everything(rule.argument(0))
        && ends
        && rejection(rule).is_none()
}

fn meaning(conditions: &[Directive]) -> Conditions {
    let missing = |one: &Directive| {
        matches!(one.argument(0), "%{REQUEST_FILENAME}" | "%{DOCUMENT_ROOT}%{REQUEST_URI}")
            && matches!(one.argument(1), "!-f" | "!-d" | "!-l")
    };
    let upgrade = |one: &Directive| {
        let subject = one.argument(0).to_ascii_lowercase();
        matches!(subject.as_str(), "%{http:upgrade}" | "%{http:connection}")
            && !one.argument(1).starts_with('!')
    };
    let is_slash = |one: &Directive| {
        one.argument(0) == "%{REQUEST_URI}" && matches!(one.argument(1), "(.+)/$" | "^(.+)/$" | "/$" | ".+/$")
    };
    // `%{REQUEST_URI} !=/favicon.ico`, or `!^/index\.php`.
    let excepted = |one: &Directive| {
        let test = one.argument(1).strip_prefix('!').filter(|_| one.argument(0) == "%{REQUEST_URI}")?;
        let path = match test.strip_prefix('^') {
            Some(expression) => regex::literal(expression.strip_suffix('$').unwrap_or(expression))
                .filter(|path| path.ends_with(".php") || test.ends_with('$')),
            None => test.strip_prefix('=').map(str::to_owned),
        };
        path.filter(|path| path.starts_with('/') && !path.ends_with('/') && !path.contains(['*', '?']))
    };
    // `%{REQUEST_URI} ^/api/`
    let below = |one: &Directive| {
        let expression = one.argument(1).strip_prefix('^').filter(|_| one.argument(0) == "%{REQUEST_URI}")?;
        regex::literal(expression).filter(|path| path.starts_with('/') && path.ends_with('/'))
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
        all if all.iter().any(|one| one.argument(1) == "!-f")
            && all.iter().all(|one| missing(one) || excepted(one).is_some() || below(one).is_some())
            && all.iter().filter_map(below).count() < 2 =>
        {
            Conditions::Missing(all.iter().filter_map(excepted).collect(), all.iter().find_map(below))
        }
        all if all.iter().all(plain) => Conditions::Plain,
        [one] if one.argument(0) == "%{HTTP_HOST}" && one.argument(1) == "!^www\\." => Conditions::Www(false),
        [one] if one.argument(0) == "%{HTTP_HOST}" && WWW.contains(&one.argument(1)) => Conditions::Www(true),
        all if all.iter().all(upgrade) => Conditions::Upgrade,
        all if all.iter().all(|one| missing(one) || is_slash(one)) => Conditions::Slash,
        all if all.iter().all(|one| one.argument(0) == "%{ENV:REDIRECT_STATUS}") => Conditions::Asked,
        // `^[A-Z]{3,}\s([^.]+)\.php`
        [one]
            if one.argument(0) == "%{THE_REQUEST}"
                && !one.argument(1).starts_with('!')
                && ["\\.php", ".php", "\\.html", ".html"].iter().any(|end| {
                    one.argument(1).trim_end_matches(['$', ' ']).trim_end_matches("\\s").ends_with(end)
                }) =>
        {
            Conditions::Asked
        }
        all => names(all).map_or(Conditions::Unknown, Conditions::Names),
    }
}

/// Whether flags do more than to set a variable.
fn decides(flags: &[&str]) -> bool {
    let is_needless = |flag: &&str| {
        let name = flag.split_once('=').map_or(*flag, |(name, _)| name).to_ascii_lowercase();
        matches!(name.as_str(), "" | "e" | "env" | "nc" | "nocase" | "ne" | "noescape" | "qsa" | "qsappend")
    };
    !flags.iter().all(is_needless)
}

/// The names of conditions of which one is enough.
fn names(conditions: &[Directive]) -> Option<Vec<String>> {
    let (last, others) = conditions.split_last()?;
    let is_or = |one: &Directive| conditions::has_flag(one, "OR", "ornext");
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
    if let Some(variable) = flag("E", "env").filter(|_| target == "-" && !decides(&flags)) {
        match variable.split(':').next().unwrap_or(variable) {
            "HTTP_AUTHORIZATION" => host.scope.set(place, "pass_authorization", true),
            name => draft.warn(place, format!("the variable {name} is not set"), "see env"),
        }
        return Some(());
    }
    let is_everything = is_everything(expression);
    let only_name = match host.names.as_slice() {
        [name] => Some(format!("https://{name}")),
        _ => None,
    };
    let to_https = ["https://%{HTTP_HOST}", "https://%{SERVER_NAME}"]
        .into_iter()
        .chain(only_name.as_deref())
        .find_map(|host| target.strip_prefix(host));
    let is_for_all = match conditions {
        Conditions::None | Conditions::Plain => true,
        Conditions::Names(names) => {
            !host.names.is_empty() && host.names.iter().all(|name| names.contains(name))
        }
        _ => false,
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
        Conditions::Missing(excepted, below) if is_everything || expression == "!^index\\.php$" => {
            let script = fallback(target, base, below.as_deref(), (place, Query::of(&flag)), host)?;
            for path in excepted.iter().filter(|path| **path != script) {
                host.route(path, place).set(place, "fallback", false);
            }
            Some(())
        }
        Conditions::Missing(excepted, None) if excepted.is_empty() && flag("R", "redirect").is_none() => {
            let all = targets(rule, &whole(target, base), base)?.all;
            if all.iter().any(|(_, to)| to.split('?').next().is_none_or(|path| path.contains('$'))) {
                return None;
            }
            for (pattern, to) in all {
                let route = host.route(&pattern, place);
                route.set(place, "fallback", Query::of(&flag).rewritten(to));
                route.set(place, "fallback_for", "all");
            }
            Some(())
        }
        // `RewriteRule ^index\.php$ - [L]` is in front of every front controller.
        Conditions::None
            if target == "-" && flags.iter().all(|flag| matches!(*flag, "" | "L" | "NC" | "QSA" | "END")) =>
        {
            draft.note(place, "rules behind this one are for other paths", "nothing to do");
            regex::exact(&unslashed(expression)).map(|_| ())
        }
        Conditions::None => plain(rule, base, &flag, host, draft),
        Conditions::Www(_) | Conditions::Names(_) if is_everything && flag("R", "redirect").is_some() => {
            canonical(rule, conditions, host)
        }
        Conditions::Upgrade if is_everything && flag("P", "proxy").is_some() => upgraded(rule, host, draft),
        Conditions::Slash if flag("R", "redirect").is_some() && is_unslashed(expression, target) => {
            draft.warn(place, "a path with a slash at its end is not redirected", "the fallback responds");
            Some(())
        }
        Conditions::Asked if flag("R", "redirect").is_some() && expression.starts_with("^index\\.php") => {
            draft.warn(place, "a path that names the script of all paths is not redirected", "see redirects");
            Some(())
        }
        // To the path without its extension.
        Conditions::Asked
            if flag("R", "redirect").is_some() && matches!(target, "%1" | "/%1") && is_everything =>
        {
            draft.warn(place, "a path with an extension is not redirected", "see redirects");
            Some(())
        }
        _ => None,
    }
}

/// A redirect from a name with `www.` to the one without, or the other way round.
fn canonical(rule: &Directive, conditions: &Conditions, host: &mut Host) -> Option<()> {
    let ends = ["%{REQUEST_URI}", "/$1", "$1"];
    let target = ends.iter().find_map(|end| rule.argument(1).strip_suffix(end))?;
    let (scheme, name) = target.split_once("://")?;
    let is_own =
        matches!((scheme, host.is_secure()), ("https", true) | ("http", false) | ("%{REQUEST_SCHEME}", _));
    let has = |name: &str| host.names.iter().any(|own| own == name);
    let other = |name: &str| match name.strip_prefix("www.") {
        Some(bare) => bare.to_owned(),
        None => format!("www.{name}"),
    };
    // Every name is one of a pair.
    if !is_own || host.names.is_empty() || !host.names.iter().all(|name| has(&other(name))) {
        return None;
    }
    let word = match (conditions, name) {
        (Conditions::Www(true), "%1") => "bare",
        (Conditions::Www(false), "www.%{HTTP_HOST}") => "www",
        (conditions, name) if host.names.len() == 2 && has(name) => {
            let is_www = name.starts_with("www.");
            let is_other = match conditions {
                Conditions::Www(has_www) => *has_www != is_www,
                Conditions::Names(names) => *names == [other(name)],
                _ => false,
            };
            is_other.then_some(if is_www { "www" } else { "bare" })?
        }
        _ => return None,
    };
    host.scope.set(&rule.place, "canonical", word);
    Some(())
}

/// Whether a rule leads to the same path without the slash at its end.
fn is_unslashed(expression: &str, target: &str) -> bool {
    matches!((expression, target), ("^", "%1") | ("^(.*)/$" | "^(.+)/$", "/$1" | "$1"))
}

/// WebSocket goes to the upstream of all other requests, which may upgrade.
fn upgraded(rule: &Directive, host: &Host, draft: &mut Draft) -> Option<()> {
    let target = rule.argument(1);
    let rest = target.strip_prefix("ws://").or_else(|| target.strip_prefix("wss://"))?;
    let address = ["/$1", "$1", "%{REQUEST_URI}"].iter().find_map(|end| rest.strip_suffix(end))?;
    let route = host.routes.iter().find(|route| route.text("path") == Some("/"))?;
    let (_, name) = route.text("proxy")?.split_once("://")?;
    let name = name.trim_end_matches('/');
    let upstream = draft.applications.iter().find(|keys| keys.text("name") == Some(name))?;
    let is_same = upstream.get("address") == Some(&Value::Texts(vec![address.to_owned()]));
    is_same.then(|| draft.note(&rule.place, "an upstream may upgrade to WebSocket", "nothing to do"))
}

/// A front controller, for a folder or for what is below a prefix. Its path.
fn fallback(
    target: &str,
    base: Option<&str>,
    below: Option<&str>,
    (place, of_request): (&Place, Query),
    host: &mut Host,
) -> Option<String> {
    let target = target.strip_prefix("%{ENV:BASE}/").unwrap_or(target);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.trim_end_matches("/$1");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("{}{path}", base.unwrap_or("/")) };
    let query = query.replace("%{REQUEST_URI}", "$path").replace("$1", "$rest");
    let query = query.replace("%{QUERY_STRING}", "$query");
    let names = query.replace("$path", "").replace("$rest", "").replace("$query", "");
    if path.contains(['$', '%']) || names.contains(['$', '%']) {
        return None;
    }
    let fallback = if target.contains('?') { format!("{path}?{query}") } else { path.clone() };
    let fallback = of_request.rewritten(fallback);
    let set = |scope: &mut Scope| {
        scope.set(place, "fallback", fallback.as_str());
        scope.set(place, "fallback_for", "all");
    };
    match below.or(base).filter(|base| *base != "/") {
        Some(base) => set(host.route(base, place)),
        None => set(&mut host.scope),
    }
    Some(path)
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
    let target = rule.argument(1);
    // The rules of a server may have files as their targets.
    let target = target.strip_prefix("%{DOCUMENT_ROOT}").filter(|_| base.is_none()).unwrap_or(target);
    let is_url = target.starts_with("http://") || target.starts_with("https://");
    let target = whole(target, base);
    let redirect = flag("R", "redirect");
    if flag("P", "proxy").is_some() {
        let expression = anchored(Some(rule.argument(0)).filter(|text| !text.starts_with('!'))?, base);
        let path = regex::prefix(&expression).or_else(|| paths::exact(&expression));
        let url = target.strip_suffix("$1").filter(|url| url.ends_with('/'))?;
        let route = host.route(&path.filter(|path| path.ends_with('/'))?, place);
        return super::proxy::pass(url, &[], place, route, draft);
    }
    let Targets { all, excepted } = targets(rule, &target, base)?;
    let query = Query::of(flag);
    let redirects = redirect.is_some() || is_url;
    let status = redirect_status(redirect.unwrap_or("302"));
    let status = status.or_else(|| (!redirects).then_some(302))?;
    let path = |to: &str| to.split('?').next().unwrap_or_default().to_owned();
    // It would lead to itself.
    if !redirects && all.iter().any(|(pattern, to)| covers(pattern, &path(to))) {
        return None;
    }
    for (pattern, to) in all {
        let route = host.route(&pattern, place);
        match redirects {
            true => {
                route.set(place, "redirect", query.redirected(&to));
                route.set(place, "status", status);
            }
            false => route.set(place, "rewrite", query.rewritten(to)),
        }
    }
    for folder in excepted {
        host.route(&folder, place);
    }
    Some(())
}

/// The whole path of a target.
fn whole(target: &str, base: Option<&str>) -> String {
    match target.starts_with('/') || target.starts_with("http://") || target.starts_with("https://") {
        true => target.to_owned(),
        false => format!("{}{target}", base.unwrap_or("/")),
    }
}

/// Redirects by conditions on what is in the request, as rules of access. `None`: it is something else, or rules cannot
/// say it.
fn redirections(
    conditions: &[Directive],
    rule: &Directive,
    base: Option<&str>,
    host: &Host,
) -> Option<Vec<Scope>> {
    let is_of_rules = match meaning(conditions) {
        Conditions::Unknown => true,
        // To another name than that of the host.
        all @ (Conditions::Www(_) | Conditions::Names(_)) => {
            canonical(rule, &all, &mut host.clone()).is_none()
        }
        _ => false,
    };
    // To the same name it is the way to HTTPS.
    let is_own = |name: &String| rule.argument(1).starts_with(&format!("https://{name}"));
    let is_to_https = ["%{HTTP_HOST}", "%{SERVER_NAME}"].map(str::to_owned).iter().any(is_own);
    if is_to_https || host.names.iter().any(is_own) && !host.is_secure() {
        return None;
    }
    // A rule knows nothing of files, and would redirect more.
    let is_of_files = |one: &Directive| one.argument(1).trim_start_matches('!').starts_with('-');
    if !is_of_rules || conditions.iter().any(is_of_files) {
        return None;
    }
    let flags: Vec<&str> = rule.argument(2).trim_matches(['[', ']']).split(',').map(str::trim).collect();
    let known = [
        "",
        "r",
        "redirect",
        "l",
        "last",
        "end",
        "nc",
        "nocase",
        "ne",
        "noescape",
        "qsa",
        "qsappend",
        "qsd",
        "qsdiscard",
    ];
    let name = |flag: &str| flag.split_once('=').map_or(flag, |(name, _)| name).to_ascii_lowercase();
    if !flags.iter().all(|flag| known.contains(&name(flag).as_str())) {
        return None;
    }
    let flag = |short: &str, long: &str| {
        let given =
            flags.iter().find(|flag| [short, long].iter().any(|own| name(flag).eq_ignore_ascii_case(own)));
        given.map(|flag| flag.split_once('=').map_or("", |(_, value)| value))
    };
    let status = redirect_status(flag("R", "redirect").or(rule.argument(1).contains("://").then_some(""))?)?;
    let expression = rule.argument(0);
    let target = match is_everything(expression) {
        // `$1` of a server's rule begins with a slash, where its expression has none.
        true if base.is_none() && !expression.starts_with("^/") => {
            rule.argument(1).replace("/$1", "$1").replace("$1", "%{REQUEST_URI}")
        }
        true if base.is_none_or(|base| base == "/") => rule.argument(1).replace("$1", "${rest}"),
        _ => rule.argument(1).to_owned(),
    };
    let to = whole(&target, base).replace("%{HTTP_HOST}", "$host").replace("%{REQUEST_URI}", "$path");
    let to = to.replace("%{REQUEST_SCHEME}", "$scheme").replace("?%{QUERY_STRING}", "$query");
    let known = ["$host", "$path", "${rest}", "$scheme", "$query"];
    if known.iter().fold(to.clone(), |text, name| text.replace(name, "")).contains(['$', '%']) {
        return None;
    }
    let all = conditional(conditions, rule, base)?.into_iter().map(|mut own| {
        own.set(&rule.place, "then", "redirect");
        own.set(&rule.place, "to", Query::of(&flag).redirected(&to));
        own.set(&rule.place, "status", status);
        own
    });
    Some(all.collect())
}

/// The status of `[R=301]`.
fn redirect_status(value: &str) -> Option<i64> {
    match value {
        "" | "temp" => Some(302),
        "permanent" => Some(301),
        "seeother" => Some(303),
        text => text.parse().ok().filter(|status| matches!(status, 301 | 302 | 303 | 307 | 308)),
    }
}

/// What becomes of the query of a request, where a target has one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Query {
    /// It is replaced, or stays if there is no other one.
    Replaced,
    /// QSA.
    Added,
    /// QSD.
    Discarded,
}

impl Query {
    fn of<'f>(flag: &dyn Fn(&str, &str) -> Option<&'f str>) -> Query {
        match (flag("QSD", "qsdiscard"), flag("QSA", "qsappend")) {
            (Some(_), _) => Query::Discarded,
            (None, Some(_)) => Query::Added,
            (None, None) => Query::Replaced,
        }
    }

    /// The target of a redirect, to which nothing is added here.
    fn redirected(self, to: &str) -> String {
        let bare = to.trim_end_matches('?');
        match (to.contains('?'), self) {
            (true, Query::Added) if bare.contains('?') => format!("{bare}&$query"),
            (_, Query::Added) | (false, Query::Replaced) => format!("{bare}$query"),
            (true, Query::Replaced) | (_, Query::Discarded) => bare.to_owned(),
        }
    }

    /// The target of a rewrite or a fallback, to which the query of the request is added unless `?` ends it.
    fn rewritten(self, to: String) -> String {
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
struct Targets {
    /// Patterns, each with its target.
    all: Vec<(String, String)>,
    /// Folders that it excepts.
    excepted: Vec<String>,
}

impl Targets {
    fn of(all: Vec<(String, String)>) -> Targets {
        Targets { all, excepted: Vec::new() }
    }
}

/// `None`: patterns or targets cannot say it.
fn targets(rule: &Directive, target: &str, base: Option<&str>) -> Option<Targets> {
    let to = target.replace("%{HTTP_HOST}", "$host").replace("%{REQUEST_URI}", "$path");
    let to = match to.split_once('?') {
        Some((path, query)) => format!("{path}?{}", query.replace("%{QUERY_STRING}", "$query")),
        None => to,
    };
    let names = to.replace("$host", "").replace("$path", "").replace("$query", "");
    let has_groups = names.contains('$');
    if names.contains('%') {
        return None;
    }
    let expression = Some(rule.argument(0)).filter(|text| !text.starts_with('!'))?;
    let expression = anchored(expression, base);
    let path = regex::prefix(&expression).or_else(|| paths::exact(&expression));
    let one = |path: String| Captured { pattern: path, groups: vec!["${rest}".to_owned()] };
    let of_path = path.and_then(|path| {
        let one = one(path);
        Some((one.pattern.clone(), one.target(&to)?))
    });
    if let Some(pair) = of_path {
        return Some(Targets::of(vec![pair]));
    }
    // What is not captured has no place in the target.
    if let Some((patterns, excepted)) = found(rule, base).filter(|_| !has_groups) {
        let all = patterns.into_iter().map(|pattern| (pattern, to.clone())).collect();
        return Some(Targets { all, excepted });
    }
    let any_case = conditions::has_flag(rule, "NC", "nocase");
    let pair = |one: &Captured| {
        let is_glob = one.pattern.contains(['*', '?']);
        let pattern = match any_case && is_glob {
            true => regex::ignoring_case(&one.pattern)?,
            false => one.pattern.clone(),
        };
        Some((pattern, one.target(&to)?))
    };
    let all: Option<Vec<_>> = regex::captured(&expression)?.iter().map(pair).collect();
    all.map(Targets::of)
}

/// The patterns of an expression without a capture, and the folders that it excepts.
fn found(rule: &Directive, base: Option<&str>) -> Option<(Vec<String>, Vec<String>)> {
    let any_case = conditions::has_flag(rule, "NC", "nocase");
    let (mut patterns, mut excepted) = (Vec::new(), Vec::new());
    for one in excepting(rule.argument(0)) {
        patterns.extend(all(&one.text, base, any_case)?);
        for path in one.except.map_or(Some(Vec::new()), |except| all(&except, base, any_case))? {
            let folder = path.strip_suffix("**").unwrap_or(&path).trim_end_matches('/');
            if folder.contains(['*', '?']) {
                return None;
            }
            excepted.push(format!("{folder}/"));
        }
    }
    Some((patterns, excepted))
}
