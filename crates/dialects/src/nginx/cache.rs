//! `proxy_cache` and `fastcgi_cache`: what is stored of the responses of upstreams.

use crate::document::Value;
use crate::draft::{Draft, Scope};
use crate::tree::{Directive, unconverted};

use super::upstreams::duration;

/// The protocols that have these directives.
const PROTOCOLS: [&str; 2] = ["proxy", "fastcgi"];
/// What a request is found by, written in other ways.
const KEYS: [&str; 8] = [
    "$scheme$proxy_host$request_uri",
    "$scheme$proxy_host$uri$is_args$args",
    "$scheme$host$request_uri",
    "$scheme$host$uri$is_args$args",
    "$scheme://$host$request_uri",
    "$scheme$request_method$host$request_uri",
    "$host$request_uri",
    "$request_uri",
];
/// Requests that get a response of their own in any case.
const PRIVATE: [&str; 4] = ["$http_authorization", "$cookie_", "$http_cookie", "$http_upgrade"];

/// A zone of `proxy_cache_path`, and how long what is not used stays in it.
pub struct Zone {
    name: String,
    inactive: String,
}

/// Of `proxy_cache_path`.
pub fn zone(directive: &Directive, draft: &mut Draft) -> Zone {
    let value = |name: &str| directive.arguments.iter().find_map(|argument| argument.strip_prefix(name));
    let name = value("keys_zone=").and_then(|zone| zone.split(':').next()).unwrap_or_default();
    let what = format!("what {name} stores is in memory, and not in {}", directive.argument(0));
    draft.warn(&directive.place, what, "see responses in [cache] for its size, and [cache_files]");
    Zone { name: name.to_owned(), inactive: value("inactive=").and_then(duration).unwrap_or("600s".into()) }
}

/// The directive of a cache without its protocol, such as `valid`, or nothing for `proxy_cache` itself.
pub fn part(directive: &Directive) -> Option<&str> {
    let (protocol, rest) = directive.name.split_once('_').filter(|(of, _)| PROTOCOLS.contains(of))?;
    match rest {
        "no_cache" if !protocol.is_empty() => Some("no_cache"),
        rest => rest.strip_prefix("cache").map(|rest| rest.trim_start_matches('_')),
    }
}

/// What the directives of a location say together. Without a zone, nothing is stored.
pub fn settings(all: &[&Directive], zones: &[Zone], scope: &mut Scope, draft: &mut Draft) {
    let parts = || all.iter().filter_map(|directive| Some((part(directive)?, *directive)));
    let Some((_, cache)) = parts().rfind(|(part, _)| part.is_empty()) else { return };
    if cache.argument(0) == "off" {
        return;
    }
    if let Some((_, unlike)) = parts().find(|(part, directive)| !keeps_apart(part, directive)) {
        let what = format!("nothing is stored: \"{}\" cannot be converted", unlike.text());
        return draft.warn(&unlike.place, what, "see response_cache");
    }
    let Some(zone) = zones.iter().find(|zone| zone.name == cache.argument(0)) else {
        return draft.error(&cache.place, unconverted(cache), "name a zone of proxy_cache_path");
    };
    scope.set(&cache.place, "response_cache", true);
    // nginx stores nothing for a time that neither the response nor a directive says.
    scope.set(&cache.place, "response_cache_heuristic", 0);
    let updates =
        parts().any(|(part, directive)| part == "background_update" && directive.argument(0) == "on");
    for (part, directive) in parts() {
        match part {
            "valid" => valid(directive, scope, draft),
            "use_stale" => {
                let says = |word: &str| directive.arguments.iter().any(|argument| argument == word);
                if says("updating") && updates {
                    let name = "response_cache_stale_while_revalidate";
                    scope.set(&directive.place, name, zone.inactive.as_str());
                }
                if says("error")
                    || says("timeout")
                    || directive.arguments.iter().any(|word| word.starts_with("http_5"))
                {
                    scope.set(&directive.place, "response_cache_stale_if_error", zone.inactive.as_str());
                }
            }
            "min_uses" | "methods" => {
                let what = format!("\"{}\" has no effect", directive.text());
                draft.warn(&directive.place, what, "GET is stored at its first use");
            }
            _ => {}
        }
    }
}

/// Whether the responses that nginx keeps apart, or does not store, are kept apart or not stored here, too.
fn keeps_apart(part: &str, directive: &Directive) -> bool {
    match part {
        "key" => KEYS.contains(&directive.argument(0)),
        "bypass" | "no_cache" => {
            directive.arguments.iter().all(|word| PRIVATE.iter().any(|private| word.starts_with(private)))
        }
        _ => true,
    }
}

/// How long a response is fresh that does not say it.
fn valid(directive: &Directive, scope: &mut Scope, draft: &mut Draft) {
    const NAME: &str = "response_cache_lifetime";
    let place = &directive.place;
    let Some((time, statuses)) = directive.arguments.split_last() else { return };
    let Some(time) = duration(time) else {
        return draft.warn(place, unconverted(directive), "write a time, such as 10m");
    };
    let is_of_pages = statuses.is_empty() || statuses.iter().any(|status| status == "200" || status == "any");
    match scope.get(NAME) {
        None if is_of_pages => {
            scope.set(place, NAME, time);
            if !statuses.iter().any(|status| status == "any" || status == "404") {
                let what = "404 and 410 are stored as long as 200, unless they say something else";
                draft.warn(place, what, "let the upstream send Cache-Control");
            }
        }
        Some(Value::Text(first)) if *first == time => {}
        _ => draft.warn(
            place,
            format!("\"{}\" has no effect", directive.text()),
            "one time counts for all statuses; let the upstream send Cache-Control",
        ),
    }
}
