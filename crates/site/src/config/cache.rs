//! Reads how the responses of scripts and upstreams are stored.

use std::sync::Arc;

use cache::settings::{Cookies, Query, Reload, Report, Settings};
use taipan_http::fields::is_token;

use super::section::{Given, Section};
use crate::network::{Network, Networks};

const KEYS: [&str; 15] = [
    "response_cache_query",
    "response_cache_targets",
    "response_cache_surrogate",
    "response_cache_lifetime",
    "response_cache_heuristic",
    "response_cache_heuristic_max",
    "response_cache_stale_while_revalidate",
    "response_cache_stale_if_error",
    "response_cache_reload",
    "response_cache_cookies",
    "response_cache_tags",
    "response_cache_largest",
    "response_cache_waiting",
    "response_cache_wait",
    "response_cache_status",
];

/// Networks of one list.
const MOST_PURGERS: usize = 1024;

/// The settings of a section. Sections that set nothing share what they inherit.
pub fn caching(section: &Section, inherited: &Arc<Settings>) -> Arc<Settings> {
    if !KEYS.iter().any(|name| section.has(name)) {
        return inherited.clone();
    }
    let seconds = |name: &str| section.duration(name).map(|time| time.as_secs());
    let flag = |name: &str| section.flag(name);
    Arc::new(Settings {
        query: query(section).unwrap_or_else(|| inherited.query.clone()),
        targets: names(section, "response_cache_targets").unwrap_or_else(|| inherited.targets.clone()),
        surrogate: surrogate(section).unwrap_or_else(|| inherited.surrogate.clone()),
        lifetime: match seconds("response_cache_lifetime") {
            Some(0) => None,
            Some(seconds) => Some(seconds),
            None => inherited.lifetime,
        },
        heuristic: section.count("response_cache_heuristic").unwrap_or(inherited.heuristic),
        longest_heuristic: seconds("response_cache_heuristic_max").unwrap_or(inherited.longest_heuristic),
        stale_while_revalidate: seconds("response_cache_stale_while_revalidate")
            .unwrap_or(inherited.stale_while_revalidate),
        stale_if_error: seconds("response_cache_stale_if_error").unwrap_or(inherited.stale_if_error),
        reload: flag("response_cache_reload").map_or(inherited.reload, |allowed| match allowed {
            true => Reload::Allowed,
            false => Reload::Refused,
        }),
        cookies: section.choice("response_cache_cookies").map_or(inherited.cookies, |word| match word {
            "ignored" => Cookies::Ignored,
            _ => Cookies::IfPublic,
        }),
        // That of its upstream, which is known when the host is whole.
        endpoint_cookie: None,
        tag_fields: names(section, "response_cache_tags").unwrap_or_else(|| inherited.tag_fields.clone()),
        largest: section.size("response_cache_largest").unwrap_or(inherited.largest),
        waiting: section.count("response_cache_waiting").unwrap_or(inherited.waiting),
        wait: section
            .duration("response_cache_wait")
            .map_or(inherited.wait, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        report: flag("response_cache_status").map_or(inherited.report, |is_on| match is_on {
            true => Report::On,
            false => Report::Off,
        }),
    })
}

/// Names of parameters: all of them have a `!` in front, or none.
fn query(section: &Section) -> Option<Query> {
    let given = section.texts("response_cache_query")?;
    let excluded: Vec<&str> = given.iter().filter_map(|name| name.value.strip_prefix('!')).collect();
    let is_mixed = !excluded.is_empty() && excluded.len() < given.len();
    for name in &given {
        let pattern = name.value.strip_prefix('!').unwrap_or(name.value);
        let stem = pattern.strip_suffix('*').unwrap_or(pattern);
        if pattern.is_empty() || stem.contains(['*', '&', '=', '!']) || is_mixed {
            let what = format!("\"{}\" does not say which parameters count", name.value.escape_debug());
            let what_to_do = "list the parameters that count, or with a \"!\" in front of each those that do not: \
                              [\"page\"] or [\"!utm_*\"]";
            section.errors.add(name.place, what, what_to_do);
        }
    }
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    Some(match excluded.is_empty() {
        true => Query::Only(owned(given.iter().map(|name| name.value).collect())),
        false => Query::Without(owned(excluded)),
    })
}

/// A token, or nothing.
fn surrogate(section: &Section) -> Option<String> {
    let name = section.text("response_cache_surrogate")?;
    if !name.value.is_empty() && !is_token(name.value.as_bytes()) {
        section.reject(
            "response_cache_surrogate",
            name.place,
            "is not a name: a word without spaces and separators",
        );
    }
    Some(name.value.to_owned())
}

/// The clients that may remove stored responses.
pub fn purgers(section: &Section) -> Option<Arc<Networks>> {
    let given = section.texts("response_cache_purge")?;
    if given.len() > MOST_PURGERS {
        let what = "\"response_cache_purge\" has too many entries";
        let what_to_do = format!("expected at most {MOST_PURGERS}; merge networks");
        section.errors.add(section.place_of("response_cache_purge"), what, what_to_do);
    }
    let read = |text: &Given<&str>| match Network::parse(text.value) {
        Ok(network) => Some(network),
        Err(error) => {
            let what = format!("\"{}\" is not a network", text.value.escape_debug());
            section.errors.add(text.place, what, error.to_string());
            None
        }
    };
    Some(Arc::new(Networks::new(given.iter().take(MOST_PURGERS).filter_map(read))))
}

/// Names of fields, in lower case.
fn names(section: &Section, key: &str) -> Option<Vec<String>> {
    let given = section.texts(key)?;
    for name in &given {
        if !is_token(name.value.as_bytes()) {
            section.reject(key, name.place, "has a name that no field has");
        }
    }
    Some(given.iter().map(|name| name.value.to_ascii_lowercase()).collect())
}
