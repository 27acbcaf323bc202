//! The options for all sites, and the logs of sites.

use crate::draft::{Draft, Scope};
use crate::tree::{Directive, unconverted};

pub(super) fn global(options: &Directive, draft: &mut Draft) {
    for option in options.children() {
        let place = &option.place;
        match option.name.as_str() {
            "email" => draft.certificates.set(place, "email", option.argument(0)),
            "acme_ca" => draft.certificates.set(place, "authorities", option.argument(0)),
            "debug" => draft.log.set(place, "level", "debug"),
            "servers" => servers(option, draft),
            "admin" | "order" | "persist_config" | "grace_period" | "storage" | "default_sni" => {
                draft.note(place, format!("{} has no effect", option.name), "nothing to do");
            }
            "auto_https" if option.argument(0) == "disable_redirects" || option.argument(0) == "off" => {
                for host in &mut draft.hosts {
                    host.scope.remove("https_redirect");
                    if option.argument(0) == "off" {
                        host.scope.remove("acme");
                    }
                }
            }
            "log" => log(option, &mut None, draft),
            _ => draft.error(place, unconverted(option), "remove it, or find its like in the manual"),
        }
    }
}

/// `trusted_proxies static`, without which all clients of a proxy would have its address.
fn servers(option: &Directive, draft: &mut Draft) {
    for inner in option.children() {
        match (inner.name.as_str(), inner.argument(0)) {
            ("trusted_proxies", "static") => {
                let all = inner.arguments[1..].iter().flat_map(|text| networks(text));
                draft.top.set(&inner.place, "trusted_proxies", all.map(str::to_owned).collect::<Vec<_>>());
            }
            ("protocols" | "metrics" | "keepalive_interval" | "timeouts" | "trusted_proxies_strict", _) => {
                draft.note(
                    &inner.place,
                    format!("{} has no effect", inner.name),
                    "see [http2] and [timeouts]",
                );
            }
            _ => draft.error(&inner.place, unconverted(inner), "remove it, or find its like in the manual"),
        }
    }
}

/// The networks of a word.
pub(super) fn networks(text: &str) -> Vec<&str> {
    match text {
        "private_ranges" => {
            vec!["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"]
        }
        address => vec![address],
    }
}

pub(super) fn log(directive: &Directive, host: &mut Option<&mut Scope>, draft: &mut Draft) {
    let place = &directive.place;
    let mut target = "stderr".to_owned();
    let mut format = "json";
    for option in directive.children() {
        match (option.name.as_str(), option.argument(0)) {
            ("output", "stdout") => "stdout".clone_into(&mut target),
            ("output", "stderr") => {}
            ("output", "file") => option.argument(1).clone_into(&mut target),
            ("output", "discard") if host.is_none() => return draft.log.set(place, "access", false),
            ("format", "console") => format = "combined",
            ("format", "json") => {}
            ("level", _) => {}
            _ => draft.warn(&option.place, unconverted(option), "see [log]"),
        }
    }
    if target.contains('{') || !(target.contains('/') || target.starts_with("std")) {
        return draft.error(place, unconverted(directive), "name a file by its whole path");
    }
    draft.log.set(place, "format", format);
    match host {
        Some(scope) => scope.set(place, "access_log", target),
        None => draft.log.set(place, "access", target),
    }
}
