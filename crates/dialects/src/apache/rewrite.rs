//! `RewriteRule` and `RewriteCond`, as far as routes can do the same.

mod fallbacks;
mod kinds;
mod meaning;
mod outer;
mod redirects;
mod targets;

use crate::document::Value;
use crate::draft::{Draft, Host, Scope};
use crate::regex;
use crate::tree::{Directive, Place, unconverted};
use crate::within::covers;

use self::fallbacks::{fallback, fallbacks};
use self::kinds::{
    decides, hides_files, is_of_copies, leaves_files, precompressed, skips_others, tell_of_names,
};
use self::meaning::{Conditions, meaning};
use self::redirects::{canonical, leads_to_https, redirections, to_https};
pub use self::targets::redirect_matches;
use self::targets::{Query, Targets, redirect_status, targets, whole};
use super::expressions;
use super::extensions::Extension;
use super::flags::Flags;
use super::paths;
use super::rejections::{
    anchored, denials, excepts, is_everything, reject, reject_more, rejection, unslashed,
};

/// The rules of a section, in order.
#[derive(Debug, Clone, Default)]
pub struct Rewrites {
    /// `RewriteEngine`. `None`: what is around says it.
    engine: Option<bool>,
    /// Where `RewriteEngine` stands.
    place: Option<Place>,
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
    /// Its expression has no `(?i)`, but the flag NC.
    rule: Directive,
    written: Directive,
    /// The `<If>` that it stands for, which counts whatever `RewriteEngine` says.
    section: Option<Directive>,
}

impl Rule {
    fn unconverted(&self) -> String {
        unconverted(self.section.as_ref().unwrap_or(&self.written))
    }
}

impl Rewrites {
    pub fn add(&mut self, directive: &Directive, draft: &mut Draft) {
        match directive.name.as_str() {
            "rewriteengine" => {
                self.engine = Some(directive.argument(0).eq_ignore_ascii_case("on"));
                self.place = Some(directive.place.clone());
            }
            "rewritecond" => self.conditions.push(self.with_variables(directive)),
            "rewriterule" => {
                let conditions = std::mem::take(&mut self.conditions);
                let rule = with_flag_for_case(self.with_variables(directive));
                self.learn(&conditions, &rule);
                self.rules.push(Rule { conditions, rule, written: directive.clone(), section: None });
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
        let written = rule.clone();
        self.rules.push(Rule { conditions, rule, written, section: Some(section.clone()) });
        true
    }

    /// What `RewriteEngine` says here.
    pub fn engine(&self) -> Option<bool> {
        self.engine
    }

    /// Where directives of rewriting begin, in place of all those around.
    pub fn place(&self) -> Option<&Place> {
        let rules = self.rules.iter().filter(|rule| rule.section.is_none());
        self.place.as_ref().or(rules.map(|rule| &rule.rule.place).next())
    }

    /// The rules whose targets are paths, each with its target, without the flag PT.
    pub fn files(&self) -> impl Iterator<Item = (&Directive, &str)> {
        let rules = self.rules().filter(|rule| rule.section.is_none()).map(|rule| &rule.rule);
        rules.map(|rule| (rule, rule.argument(1))).filter(|(rule, target)| {
            let flags = Flags::of(rule);
            let leads_elsewhere = flags.has("PT", "passthrough") || flags.has("R", "redirect");
            target.starts_with('/') && !leads_elsewhere && !flags.has("P", "proxy")
        })
    }

    /// Whether there are rules that count.
    pub fn has_rules(&self) -> bool {
        self.rules().next().is_some()
    }

    /// Whether there are directives of rewriting, in place of all those around.
    pub fn are_there(&self) -> bool {
        self.is_of_folder || self.engine.is_some() || self.rules.iter().any(|rule| rule.section.is_none())
    }

    /// As `settle`, for the section of a folder. One without directives of rewriting has those of what is around.
    pub fn settle_in_folder(&mut self, around: Option<bool>) {
        self.is_of_folder = self.are_there();
        if self.is_of_folder {
            self.settle(around);
        }
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
            if base.is_none() {
                tell_of_names(conditions, draft);
            }
            if leaves_files(conditions, rule) {
                is_missing = true;
                continue;
            }
            if let Some(coding) = precompressed(conditions, rule) {
                add_precompressed(coding, &rule.place, scope_of(base, &rule.place, host), draft);
                continue;
            }
            if conditions.is_empty() && is_of_copies(rule) {
                draft.note(&rule.place, "a compressed copy has the type of its file", "nothing to do");
                continue;
            }
            if let Some(extension) = Extension::of(conditions, rule) {
                extension.apply(scope_of(base, &rule.place, host), draft);
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
                let what_to_do = match meaning(conditions) {
                    Conditions::Www(_) => "give the host its names, with www. and without, and see canonical",
                    _ => "see rewrites, redirects, fallback and [[rule]]",
                };
                draft.error(&rule.place, own.unconverted(), what_to_do);
            }
        }
    }
}

/// The settings of the folder whose rules these are, or of the server.
fn scope_of<'h>(base: Option<&str>, place: &Place, host: &'h mut Host) -> &'h mut Scope {
    match base.filter(|base| *base != "/") {
        Some(base) => host.route(base, place),
        None => &mut host.scope,
    }
}

fn add_precompressed(coding: &str, place: &Place, scope: &mut Scope, draft: &mut Draft) {
    let mut codings = scope.get("precompressed").map(Value::texts).unwrap_or_default().to_vec();
    if !codings.iter().any(|known| known == coding) {
        codings.push(coding.to_owned());
    }
    scope.set(place, "precompressed", codings);
    draft.note(place, "each file has the compressed copy beside it", "see precompressed");
}

/// A rule with the flag NC in place of `(?i)`.
fn with_flag_for_case(mut rule: Directive) -> Directive {
    if let (expression, true) = regex::cased(rule.argument(0)) {
        rule.arguments[0] = expression;
        let flags: Vec<&str> = Flags::of(&rule).all().filter(|flag| !flag.is_empty()).chain(["NC"]).collect();
        let flags = format!("[{}]", flags.join(","));
        rule.arguments.truncate(2);
        rule.arguments.push(flags);
    }
    rule
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
        return to_https(rule, conditions, host);
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
        Conditions::None | Conditions::Missing(..) if redirects && is_unslashed(expression, target) => {
            without_slash(place, draft)
        }
        Conditions::None => plain(rule, base, host, draft),
        Conditions::Www(_) | Conditions::Names(_) if is_everything && redirects => {
            canonical(rule, conditions, host)
        }
        Conditions::Upgrade if is_everything && flags.has("P", "proxy") => upgraded(rule, host, draft),
        Conditions::Slash if redirects && is_unslashed(expression, target) => without_slash(place, draft),
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

fn without_slash(place: &Place, draft: &mut Draft) -> Option<()> {
    draft.warn(place, "a path with a slash at its end is not redirected", "the fallback responds");
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
