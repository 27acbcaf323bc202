//! `RewriteRule` and `RewriteCond`, as far as routes can do the same.

mod meaning;
mod outer;
mod targets;

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::regex;
use crate::tree::{Directive, Place, unconverted};
use crate::within::covers;

use self::meaning::{Conditions, meaning};
use self::targets::{Query, Targets, redirect_status, targets, whole};
use super::conditions::Finding;
use super::expressions;
use super::extensions::Extension;
use super::flags::Flags;
use super::paths;
use super::rejections::{
    anchored, conditional, denials, excepts, is_everything, reject, reject_more, rejection, unslashed,
};

/// The rules of a section, in order.
#[derive(Debug, Clone, Default)]
pub struct Rewrites {
    /// `RewriteEngine`. `None`: what is around says it.
    engine: Option<bool>,
    /// They stand in a section of a folder.
    is_of_folder: bool,
    conditions: Vec<Directive>,
    rules: Vec<Rule>,
    /// Variables that every request has, with their values.
    variables: Vec<(String, String)>,
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

/// The flags of a redirect.
const OF_REDIRECTS: [&str; 14] = [
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

/// The ends of compressed copies.
const COPIES: [(&str, &str); 2] = [(".gz", "gzip"), (".br", "br")];

impl Rewrites {
    pub fn add(&mut self, directive: &Directive, draft: &mut Draft) {
        match directive.name.as_str() {
            "rewriteengine" => self.engine = Some(directive.argument(0).eq_ignore_ascii_case("on")),
            "rewritecond" => self.conditions.push(self.with_variables(directive)),
            "rewriterule" => {
                let conditions = std::mem::take(&mut self.conditions);
                let rule = self.with_variables(directive);
                self.learn(&conditions, &rule);
                self.rules.push(Rule { conditions, rule, section: None });
            }
            "rewriteoptions" => {
                draft.note(&directive.place, "RewriteOptions has no effect", "nothing to do");
            }
            _ => draft.error(&directive.place, unconverted(directive), "see rewrites and redirects"),
        }
    }

    /// A directive with the values of known variables in place of `%{ENV:NAME}`.
    fn with_variables(&self, directive: &Directive) -> Directive {
        let fill = |text: &String| {
            let values = self.variables.iter();
            values.fold(text.clone(), |text, (name, value)| text.replace(&format!("%{{ENV:{name}}}"), value))
        };
        let arguments = directive.arguments.iter().map(fill).collect();
        Directive { arguments, ..directive.clone() }
    }

    /// Notes the variables that a rule sets. One that only some requests have is not known.
    fn learn(&mut self, conditions: &[Directive], rule: &Directive) {
        const MAX_VARIABLES: usize = 16;
        const MAX_VALUE: usize = 256;
        let is_for_all = conditions.is_empty() && is_everything(rule.argument(0));
        let of_rule = Flags::of(rule).pairs().filter(|(name, _)| matches!(*name, "E" | "env"));
        for (_, variable) in of_rule {
            let (name, value) = variable.split_once(':').unwrap_or((variable, ""));
            self.variables.retain(|(known, _)| known != name);
            let is_plain = !value.is_empty() && !value.contains(['%', '$']) && value.len() <= MAX_VALUE;
            if is_for_all && is_plain && self.variables.len() < MAX_VARIABLES {
                self.variables.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    /// An `<If>` that does what a rule with conditions does. `false`: it does something else.
    pub fn add_section(&mut self, section: &Directive) -> bool {
        let conditions = expressions::conditions(&section.arguments.join(" "), &section.place);
        let (Some(conditions), Some(rule)) = (conditions, expressions::rule(section)) else { return false };
        self.rules.push(Rule { conditions, rule, section: Some(section.clone()) });
        true
    }

    /// What `RewriteEngine` says here.
    pub fn engine(&self) -> Option<bool> {
        self.engine
    }

    /// Whether there are directives of rewriting, in place of all those around.
    pub fn are_there(&self) -> bool {
        self.is_of_folder || self.engine.is_some() || self.rules.iter().any(|rule| rule.section.is_none())
    }

    /// As `settle`, for the section of a folder.
    pub fn settle_in_folder(&mut self, around: Option<bool>) {
        self.is_of_folder = self.are_there();
        self.settle(around);
    }

    /// Whether Apache looks for rules of a folder. It denies all requests then, unless links are followed.
    pub fn need_links(&self) -> bool {
        self.is_of_folder && self.engine == Some(true)
    }

    /// Has the `RewriteEngine` of what is around, unless it says it itself. Without any, the rules do not count.
    pub fn settle(&mut self, around: Option<bool>) {
        self.engine = Some(self.engine.or(around).unwrap_or(false));
    }

    /// Those that count.
    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| self.engine != Some(false) || rule.section.is_some())
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
                None if conditions.is_empty() => {
                    // What is said about it comes with the others.
                    let more = |host| reject_more(rule, status, base, host, &mut Draft::default());
                    _ = reject(rule, status, base, host).or_else(|| more(host));
                }
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
        let idle = self.rules.iter().find(|rule| rule.section.is_none() && self.engine == Some(false));
        if let Some(Rule { rule, .. }) = idle {
            let what = "the rules have no effect, because RewriteEngine is not on";
            draft.note(&rule.place, what, "nothing to do");
        }
        let all: Vec<&Rule> = self.rules().collect();
        for (at, own @ Rule { conditions, rule, .. }) in all.iter().enumerate() {
            if conditions.is_empty() && skips_others(rule, &all[at + 1..]) {
                draft.note(&rule.place, "the rules behind are for these paths alone", "nothing to do");
                continue;
            }
            if leaves_files(conditions, rule) {
                is_missing = true;
                continue;
            }
            if let Some(coding) = precompressed(conditions, rule) {
                let scope = match base.filter(|base| *base != "/") {
                    Some(base) => host.route(base, &rule.place),
                    None => &mut host.scope,
                };
                let mut codings = scope.get("precompressed").map(Value::texts).unwrap_or_default().to_vec();
                if !codings.iter().any(|known| known == coding) {
                    codings.push(coding.to_owned());
                }
                scope.set(&rule.place, "precompressed", codings);
                let what = "each file has the compressed copy beside it";
                draft.note(&rule.place, what, "see precompressed");
                continue;
            }
            if conditions.is_empty() && is_of_copies(rule) {
                draft.note(&rule.place, "a compressed copy has the type of its file", "nothing to do");
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
                Some(status) => {
                    reject(rule, status, base, host).or_else(|| reject_more(rule, status, base, host, draft))
                }
                None if redirections(conditions, rule, base, host).is_some() => Some(()),
                None if is_missing && conditions.is_empty() => {
                    apply(rule, &Conditions::Missing(Vec::new(), None), base, host, draft)
                }
                None => apply(rule, &meaning(conditions), base, host, draft),
            };
            if is_done.is_none() && rejection(rule).is_some() {
                paths::left_open(rule, own.unconverted(), draft);
            } else if is_done.is_none() && !is_missing && hides_files(conditions, rule) {
                let what = format!("{}, and files of its paths would be sent", own.unconverted());
                let what_to_do =
                    "before you remove this, write a route with rewrite or return for these paths";
                draft.error(&rule.place, what, what_to_do);
            } else if is_done.is_none() {
                let what_to_do = "see rewrites, redirects, fallback and [[rule]]";
                draft.error(&rule.place, own.unconverted(), what_to_do);
            }
        }
    }
}

/// Whether a rule leads from files that are there to another path.
fn hides_files(conditions: &[Directive], rule: &Directive) -> bool {
    let is_missing = |one: &Directive| matches!(one.argument(1), "!-f" | "!-s" | "!-e");
    let flags = Flags::of(rule);
    let target = rule.argument(1);
    let leads = target != "-" && !target.contains("://") && !flags.has("R", "redirect");
    leads && !is_everything(rule.argument(0)) && !conditions.iter().any(is_missing)
}

/// Whether a rule ends the others where a file or a folder is there.
fn leaves_files(conditions: &[Directive], rule: &Directive) -> bool {
    let is_there = |one: &Directive| {
        one.argument(0) == "%{REQUEST_FILENAME}" && matches!(one.argument(1), "-f" | "-d" | "-l" | "-s")
    };
    let Some((last, others)) = conditions.split_last() else { return false };
    let ends = Flags::of(rule).all().any(|flag| matches!(flag, "L" | "END"));
    others.iter().all(|one| is_there(one) && Flags::of(one).has("OR", "ornext"))
        && is_there(last)
        && conditions.iter().any(|one| matches!(one.argument(1), "-f" | "-s"))
        && rule.argument(1) == "-"
        && is_everything(rule.argument(0))
        && ends
        && rejection(rule).is_none()
}

/// Whether a rule skips others that find none of its paths: `!^a/ - [S=1]` in front of `^a/b`.
fn skips_others(rule: &Directive, behind: &[&Rule]) -> bool {
    let flags = Flags::of(rule);
    let count = flags.value("S", "skip").and_then(|count| count.parse::<usize>().ok());
    let (Some(count), Some(begin)) = (count, rule.argument(0).strip_prefix("!^")) else { return false };
    let is_plain =
        |name: &str| ["s", "skip", "nc", "nocase", ""].contains(&name.to_ascii_lowercase().as_str());
    let is_within = |own: &&Rule| {
        let expression = own.rule.argument(0);
        let begins = expression.strip_prefix('^').is_some_and(|text| text.starts_with(begin));
        begins && regex::branches(expression).len() == 1
    };
    rule.argument(1) == "-"
        && regex::literal(begin).is_some()
        && flags.pairs().all(|(name, _)| is_plain(name))
        && behind.len() >= count
        && behind.iter().take(count).all(is_within)
}

/// The coding of a rule that sends the compressed copy beside a file.
fn precompressed(conditions: &[Directive], rule: &Directive) -> Option<&'static str> {
    let [accepts, exists] = conditions else { return None };
    let (end, coding) = COPIES.into_iter().find(|(end, _)| rule.argument(1).ends_with(end))?;
    let file = exists.argument(0).strip_suffix(end)?.trim_end_matches('\\');
    let is_there = matches!(file, "%{REQUEST_FILENAME}" | "%{SCRIPT_FILENAME}")
        && matches!(exists.argument(1), "-f" | "-s");
    let is_accepted = accepts.argument(0).eq_ignore_ascii_case("%{HTTP:Accept-Encoding}")
        && accepts.argument(1).replace("\\b", "") == coding;
    let is_or = |one: &Directive| Flags::of(one).has("OR", "ornext");
    (is_there && is_accepted && !conditions.iter().any(is_or)).then_some(coding)
}

/// Whether a rule only says what the type of compressed copies is.
fn is_of_copies(rule: &Directive) -> bool {
    let mut flags = Flags::of(rule).pairs();
    rule.argument(1) == "-"
        && COPIES.iter().any(|(end, _)| rule.argument(0).ends_with(&format!("\\{end}$")))
        && flags.all(|(name, _)| matches!(name, "T" | "E" | "L" | "NS" | "NC"))
}

/// Whether flags do more than to set a variable.
fn decides(flags: Flags<'_>) -> bool {
    const NEEDLESS: [&str; 9] = ["", "e", "env", "nc", "nocase", "ne", "noescape", "qsa", "qsappend"];
    !flags.pairs().all(|(name, _)| NEEDLESS.contains(&name.to_ascii_lowercase().as_str()))
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
    let flags = Flags::of(rule);
    if let Some(variable) = flags.value("E", "env").filter(|_| target == "-" && !decides(flags)) {
        match variable.split(':').next().unwrap_or(variable) {
            "HTTP_AUTHORIZATION" => host.scope.set(place, "pass_authorization", true),
            name => draft.warn(place, format!("the variable {name} is not set"), "see env"),
        }
        return Some(());
    }
    if leads_to_https(rule, conditions, host) {
        return to_https(conditions, place, host);
    }
    let (is_everything, redirects) = (is_everything(expression), flags.has("R", "redirect"));
    match conditions {
        Conditions::Missing(excepted, below) if is_everything || expression == "!^index\\.php$" => {
            let script = fallback(target, base, below.as_deref(), (place, Query::of(flags)), host)?;
            for path in excepted.iter().filter(|path| **path != script) {
                // A prefix would have nothing of the one around it, and a pattern has.
                let pattern = if path.ends_with('/') { format!("{path}**") } else { path.clone() };
                host.route(&pattern, place).set(place, "fallback", false);
            }
            Some(())
        }
        Conditions::Missing(excepted, None)
            if excepted.is_empty() && !redirects && !target.contains("://") =>
        {
            fallbacks(rule, base, host)
        }
        // `RewriteRule ^index\.php$ - [L]` is in front of every front controller.
        Conditions::None
            if target == "-" && flags.all().all(|flag| matches!(flag, "" | "L" | "NC" | "QSA" | "END")) =>
        {
            draft.note(place, "rules behind this one are for other paths", "nothing to do");
            regex::exact(&unslashed(expression)).map(|_| ())
        }
        Conditions::None => plain(rule, base, host, draft),
        Conditions::Www(_) | Conditions::Names(_) if is_everything && redirects => {
            canonical(rule, conditions, host)
        }
        Conditions::Upgrade if is_everything && flags.has("P", "proxy") => upgraded(rule, host, draft),
        Conditions::Slash if redirects && is_unslashed(expression, target) => {
            draft.warn(place, "a path with a slash at its end is not redirected", "the fallback responds");
            Some(())
        }
        Conditions::Asked if redirects && expression.starts_with("^index\\.php") => {
            draft.warn(place, "a path that names the script of all paths is not redirected", "see redirects");
            Some(())
        }
        // To the path without its extension.
        Conditions::Asked if redirects && matches!(target, "%1" | "/%1") && is_everything => {
            draft.warn(place, "a path with an extension is not redirected", "see redirects");
            Some(())
        }
        _ => None,
    }
}

/// A rule for paths where nothing is. `None`: it leads to paths that depend on the request.
fn fallbacks(rule: &Directive, base: Option<&str>, host: &mut Host) -> Option<()> {
    let all = targets(rule, &whole(rule.argument(1), base), base)?.all;
    if all.iter().any(|(_, to)| to.split('?').next().is_none_or(|path| path.contains('$'))) {
        return None;
    }
    let query = Query::of(Flags::of(rule));
    for (pattern, to) in all {
        let route = host.route(&pattern, &rule.place);
        route.set(&rule.place, "fallback", query.rewritten(to));
        route.set(&rule.place, "fallback_for", "all");
    }
    Some(())
}

/// A rule that `leads_to_https`. `None`: a host with TLS has it for some requests alone.
fn to_https(conditions: &Conditions, place: &Place, host: &mut Host) -> Option<()> {
    let is_secure = host.listens.iter().any(|listen| listen.tls);
    match (conditions, is_secure) {
        (Conditions::None | Conditions::Names(_), true) => return None,
        (_, true) => host.scope.set(place, "https_redirect", true),
        (_, false) => host.is_to_https = true,
    }
    Some(())
}

/// Whether a rule redirects all requests without TLS to the same path with it.
fn leads_to_https(rule: &Directive, conditions: &Conditions, host: &Host) -> bool {
    let only_name = match host.names.as_slice() {
        [name] => Some(format!("https://{name}")),
        _ => None,
    };
    let path = ["https://%{HTTP_HOST}", "https://%{SERVER_NAME}"]
        .into_iter()
        .chain(only_name.as_deref())
        .find_map(|host| rule.argument(1).strip_prefix(host));
    let is_for_all = match conditions {
        Conditions::None | Conditions::Plain => true,
        Conditions::Names(names) => {
            !host.names.is_empty() && host.names.iter().all(|name| names.contains(name))
        }
        _ => false,
    };
    matches!(path, Some("%{REQUEST_URI}" | "/$1" | "$1")) && is_everything(rule.argument(0)) && is_for_all
}

/// A redirect from a name with `www.` to the one without, or the other way round.
fn canonical(rule: &Directive, conditions: &Conditions, host: &mut Host) -> Option<()> {
    let ends = ["%{REQUEST_URI}", "/$1", "$1"];
    let target = ends.iter().find_map(|end| rule.argument(1).strip_suffix(end))?;
    let (scheme, name) = target.split_once("://")?;
    let is_own = matches!(
        (scheme, host.is_secure()),
        ("https", true) | ("http", false) | ("%{REQUEST_SCHEME}" | "%{ENV:PROTO}", _)
    );
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
fn plain(rule: &Directive, base: Option<&str>, host: &mut Host, draft: &mut Draft) -> Option<()> {
    let (place, flags) = (&rule.place, Flags::of(rule));
    let target = Some(rule.argument(1)).filter(|target| *target != "-")?;
    // The rules of a server may have files as their targets.
    let target = target.strip_prefix("%{DOCUMENT_ROOT}").filter(|_| base.is_none()).unwrap_or(target);
    let is_url = target.starts_with("http://") || target.starts_with("https://");
    let target = whole(target, base);
    let redirect = flags.value("R", "redirect");
    if flags.has("P", "proxy") {
        let expression = anchored(Some(rule.argument(0)).filter(|text| !text.starts_with('!'))?, base);
        let path = regex::prefix(&expression).or_else(|| paths::exact(&expression));
        let url = target.strip_suffix("$1").filter(|url| url.ends_with('/'))?;
        let route = host.route(&path.filter(|path| path.ends_with('/'))?, place);
        return super::proxy::pass(url, &[], place, route, draft);
    }
    let Targets { all, excepted } = targets(rule, &target, base)?;
    let query = Query::of(flags);
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
    let flags = Flags::of(rule);
    if !flags.pairs().all(|(name, _)| OF_REDIRECTS.contains(&name.to_ascii_lowercase().as_str())) {
        return None;
    }
    let status =
        redirect_status(flags.value("R", "redirect").or(rule.argument(1).contains("://").then_some(""))?)?;
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
    let all = conditional(conditions, rule, base, Finding::Exactly)?.into_iter().map(|mut own| {
        own.set(&rule.place, "then", "redirect");
        own.set(&rule.place, "to", Query::of(flags).redirected(&to));
        own.set(&rule.place, "status", status);
        own
    });
    Some(all.collect())
}
