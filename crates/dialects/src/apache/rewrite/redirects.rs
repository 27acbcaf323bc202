//! Rules that redirect: to HTTPS, to the other name of a host, and by conditions.

use super::meaning::{Conditions, meaning};
use super::targets::{Query, redirect_status, whole};
use crate::apache::conditions::Finding;
use crate::apache::flags::Flags;
use crate::apache::rejections::{conditional, is_everything};
use crate::draft::{Host, Scope};
use crate::tree::Directive;

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

/// Whether a rule redirects all requests without TLS to the same path with it.
pub(super) fn leads_to_https(rule: &Directive, conditions: &Conditions, host: &Host) -> bool {
    let target = rule.argument(1);
    let own = host.names.iter().map(|name| format!("https://{name}"));
    let same = ["https://%{HTTP_HOST}", "https://%{SERVER_NAME}"].map(str::to_owned);
    let path = same.into_iter().chain(own).find_map(|host| target.strip_prefix(&host));
    let is_for_all = match conditions {
        Conditions::None | Conditions::Plain => true,
        Conditions::Names(names) => {
            !host.names.is_empty() && host.names.iter().all(|name| names.contains(name))
        }
        _ => false,
    };
    // With TLS as well, one of several names would be another host.
    let is_same = !host.is_secure() || one_of_several(rule, host).is_none();
    matches!(path, Some("%{REQUEST_URI}" | "/$1" | "$1"))
        && is_everything(rule.argument(0))
        && is_for_all
        && is_same
}

/// The name that a rule leads to, if the host has others.
fn one_of_several(rule: &Directive, host: &Host) -> Option<String> {
    let to = rule.argument(1).strip_prefix("https://")?;
    let name = host.names.iter().find(|name| {
        to.strip_prefix(name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '%', '$']))
    });
    name.filter(|_| host.names.len() > 1).cloned()
}

/// A rule that `leads_to_https`. `None`: a host with TLS has it for some requests alone.
pub(super) fn to_https(rule: &Directive, conditions: &Conditions, host: &mut Host) -> Option<()> {
    match (conditions, host.is_secure()) {
        (Conditions::None | Conditions::Names(_), true) => return None,
        (_, true) => host.scope.set(&rule.place, "https_redirect", true),
        (_, false) => {
            let flags = Flags::of(rule);
            host.is_to_https = true;
            host.https_name = one_of_several(rule, host);
            let status = redirect_status(flags.value("R", "redirect").unwrap_or_default());
            host.https_status = status.filter(|status| *status != 301);
        }
    }
    Some(())
}

/// A redirect from a name with `www.` to the one without, or the other way round.
pub(super) fn canonical(rule: &Directive, conditions: &Conditions, host: &mut Host) -> Option<()> {
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

/// Whether a condition is on a field in which a proxy in front says that a request has no TLS.
fn is_of_proxy(one: &Directive) -> bool {
    let subject = one.argument(0).to_ascii_lowercase();
    ["%{http:x-forwarded-", "%{http:x-scheme", "%{http:cf-visitor"]
        .iter()
        .any(|begin| subject.starts_with(begin))
}

/// Redirects by conditions on what is in the request, as rules of access. `None`: it is something else, or rules cannot
/// say it.
pub(super) fn redirections(
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
        all @ Conditions::Plain => !leads_to_https(rule, &all, host),
        _ => false,
    };
    // To the same name it is the way to HTTPS, unless a proxy in front says which requests have it.
    let is_own = |name: &String| rule.argument(1).starts_with(&format!("https://{name}"));
    let is_to_https = ["%{HTTP_HOST}", "%{SERVER_NAME}"].map(str::to_owned).iter().any(is_own);
    let is_said_in_front = conditions.iter().any(is_of_proxy);
    if !is_said_in_front && (is_to_https || host.names.iter().any(is_own) && !host.is_secure()) {
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
    let to = whole(&target, base).replace("%{HTTP_HOST}", "$hostport").replace("%{REQUEST_URI}", "$path");
    let to = to.replace("%{REQUEST_SCHEME}", "$scheme").replace("?%{QUERY_STRING}", "$query");
    let known = ["$hostport", "$path", "${rest}", "$scheme", "$query"];
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
