//! Hosts of one name that listen with TLS and without. In other servers they are two, and here one host has both.

use crate::finding::Findings;
use crate::tree::Place;

use super::{Host, Scope};

/// What a host with `https_redirect` serves without TLS.
const CHALLENGES: &str = ".well-known/acme-challenge";

/// Merges each host without TLS with that of the same name with TLS.
pub fn merge(hosts: &mut Vec<Host>, findings: &mut Findings) {
    merge_redirects(hosts, findings);
    merge_same(hosts, findings);
}

/// A host that only redirects to `https` becomes a key of the one with TLS.
fn merge_redirects(hosts: &mut Vec<Host>, findings: &mut Findings) {
    let (plain, mut others): (Vec<Host>, Vec<Host>) =
        std::mem::take(hosts).into_iter().partition(|host| host.is_to_https && !host.is_secure());
    for mut redirecting in plain {
        let line = redirecting.scope.line;
        let place = Place::at(line.unwrap_or(1));
        let mut found = Vec::new();
        let is_of_all = redirecting.names.is_empty();
        for host in others.iter_mut().filter(|host| host.is_secure()) {
            let mut shared = redirecting.names.iter().filter(|name| covers(host, name)).cloned().peekable();
            let takes_rest = is_of_all && host.listens.iter().all(|listen| listen.tls);
            if !takes_rest && shared.peek().is_none() {
                continue;
            }
            let shared: Vec<String> = shared.collect();
            challenges(&redirecting, host, findings);
            host.scope.set(&place, "https_redirect", true);
            if let Some(status) = redirecting.https_status {
                let what = format!(
                    "the redirect to https has the status 301, which browsers remember, not {status}"
                );
                findings.warn(line, what, "nothing to do if https stays");
            }
            if let Some(to) = &redirecting.https_name
                && let Some(name) = shared.iter().find(|name| *name != to)
                && !host.routes.iter().any(|route| route.text("path") == Some("/") && route.responds())
            {
                let what = format!("{name} without TLS is redirected to https://{name}, not to https://{to}");
                findings.warn(line, what, "nothing to do, or see canonical");
            }
            found.push((shared, host.names.clone()));
            host.listens.extend(redirecting.listens.iter().cloned());
        }
        redirecting.names.retain(|name| !found.iter().any(|(shared, _)| shared.contains(name)));
        let is_done = match (is_of_all, &redirecting.https_name) {
            (true, None) => !found.is_empty(),
            // The names that no host has.
            (true, Some(_)) => false,
            (false, _) => redirecting.names.is_empty(),
        };
        if !is_done {
            let to = redirecting.https_name.as_deref().unwrap_or("$host");
            let redirect = format!("https://{to}$path$query");
            let status = redirecting.https_status.unwrap_or(301);
            let route = redirecting.route("/", &place);
            route.set(&place, "redirect", redirect);
            route.set(&place, "status", status);
            others.push(redirecting);
        }
    }
    *hosts = others;
}

/// Whether a host is found by a name.
fn covers(host: &Host, name: &str) -> bool {
    host.names.iter().any(|own| match own.strip_prefix('*') {
        Some(end) => own == name || (end.starts_with('.') && name.ends_with(end)),
        None => own == name,
    })
}

/// The files for authorities that the host without TLS has.
fn challenges(plain: &Host, host: &mut Host, findings: &mut Findings) {
    let is_challenge = |route: &&Scope| route.text("path").is_some_and(|path| path.contains(CHALLENGES));
    for route in plain.routes.iter().filter(is_challenge) {
        let path = route.text("path");
        match host.routes.iter().find(|own| own.text("path") == path) {
            None if path.is_some_and(|path| path.contains('*')) => host.routes.insert(0, route.clone()),
            None => host.routes.push(route.clone()),
            Some(own) if own.differs_from(route, &[]).is_none() => {}
            Some(_) => {
                let what = format!("{} is another one without TLS than with it", path.unwrap_or_default());
                findings.error(route.line, what, "let both be the same");
            }
        }
    }
}

/// A host has the same content with TLS and without.
fn merge_same(hosts: &mut Vec<Host>, findings: &mut Findings) {
    let mut at = 0;
    while let Some(plain) = hosts.get(at) {
        let is_other = |host: &Host| {
            host.is_secure()
                && host.is_on_all_addresses()
                && match plain.names.is_empty() {
                    true => host.names.is_empty(),
                    false => plain.names.iter().any(|name| host.names.contains(name)),
                }
        };
        let other = match !plain.is_secure() && plain.is_on_all_addresses() {
            true => hosts.iter().position(is_other),
            false => None,
        };
        let Some(other) = other else {
            at += 1;
            continue;
        };
        let plain = hosts.remove(at);
        let host = &mut hosts[if other > at { other - 1 } else { other }];
        if let Some(difference) = difference(&plain, host) {
            let name = plain.names.first().map_or("a host without a name", String::as_str);
            let what = format!("{name} is another host without TLS than with it: {difference}");
            findings.error(
                plain.scope.line,
                what,
                "let both have the same content, or one redirect to https",
            );
        }
        host.listens.extend(plain.listens);
        host.is_default |= plain.is_default;
    }
}

/// What differs first between a host without TLS and one with it.
fn difference(plain: &Host, host: &Host) -> Option<String> {
    const OF_TLS: [&str; 2] = ["certificate", "certificate_key"];
    let differs_in_names =
        |one: &Host, other: &Host| one.names.iter().any(|name| !other.names.contains(name));
    if differs_in_names(plain, host) || differs_in_names(host, plain) {
        return Some("their names differ".to_owned());
    }
    if let Some(key) = host.scope.differs_from(&plain.scope, &OF_TLS) {
        return Some(format!("{key} differs"));
    }
    let path = |host: &Host, at: usize| {
        host.routes.get(at).and_then(|route| route.text("path")).unwrap_or_default().to_owned()
    };
    let count = plain.routes.len().max(host.routes.len());
    let differs = |at: &usize| match (plain.routes.get(*at), host.routes.get(*at)) {
        (Some(one), Some(other)) => one.differs_from(other, &[]).is_some(),
        _ => true,
    };
    let at = (0..count).find(differs)?;
    let path = if at < plain.routes.len() { path(plain, at) } else { path(host, at) };
    Some(format!("the location {path} differs"))
}
