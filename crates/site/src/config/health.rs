//! Reads when an endpoint of an application counts as down, and when the application has no requests for a time: the
//! sections `[application.health]` and `[application.breaker]`, and those of routes.

use super::keys::Scope;
use super::section::Section;
use crate::health::{Breaker, Checks, Health, Statuses};
use crate::upstream::Protocol;

/// The section `name` of an upstream of this protocol.
pub fn health(section: &Section, name: &str, protocol: Protocol) -> Health {
    let defaults = Health::default();
    let Some(section) = section.section(name, Scope::Health) else { return defaults };
    if protocol != Protocol::Http {
        let keys = ["path", "status", "failure_status"];
        section.reject_keys(&keys, "is for HTTP", "remove it, or set protocol = \"http\"");
    }
    let pause = section.duration("pause").unwrap_or(defaults.pause);
    Health {
        failures: section.count("failures").unwrap_or(defaults.failures),
        window: section.duration("window").unwrap_or(defaults.window),
        pause,
        longest_pause: section.duration("longest_pause").unwrap_or(defaults.longest_pause).max(pause),
        failure_status: statuses(&section, "failure_status").unwrap_or_default(),
        checks: checks(&section),
        ..defaults
    }
}

/// The section `name` of an upstream.
pub fn breaker(section: &Section, name: &str) -> Option<Breaker> {
    let section = section.section(name, Scope::Breaker)?;
    let defaults = Breaker::default();
    let pause = section.duration("pause").unwrap_or(defaults.pause);
    Some(Breaker {
        failure_rate: section.count("failure_rate").unwrap_or(defaults.failure_rate),
        requests: section.count("requests").unwrap_or(defaults.requests),
        window: section.duration("window").unwrap_or(defaults.window),
        pause,
        longest_pause: section.duration("longest_pause").unwrap_or(defaults.longest_pause).max(pause),
        probes: section.count("probes").unwrap_or(defaults.probes),
    })
}

/// `None`: neither a path nor an interval is given.
fn checks(section: &Section) -> Option<Checks> {
    if !section.has("path") && !section.has("interval") {
        let keys = ["status", "timeout", "rise", "fall"];
        section.reject_keys(&keys, "is for health checks", "add \"path\" or \"interval\", or remove it");
        return None;
    }
    let defaults = Checks::default();
    if section.has("status") && !section.has("path") {
        section.reject_keys(&["status"], "is that of a response", "add \"path\", or remove it");
    }
    Some(Checks {
        path: path(section),
        status: statuses(section, "status").unwrap_or(defaults.status),
        interval: section.duration("interval").unwrap_or(defaults.interval),
        timeout: section.duration("timeout").unwrap_or(defaults.timeout),
        rise: section.count("rise").unwrap_or(defaults.rise),
        fall: section.count("fall").unwrap_or(defaults.fall),
    })
}

/// As it stands in a request.
fn path(section: &Section) -> Option<String> {
    let given = section.text("path")?;
    let what_to_do = if !given.value.starts_with('/') {
        "write a path that begins with a slash, such as \"/health\""
    } else if given.value.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'#') {
        "write spaces, \"#\" and what is not ASCII percent-encoded, as in \"/health%20check\""
    } else {
        return Some(given.value.to_owned());
    };
    let what = format!("\"path\" cannot be \"{}\"", given.value.escape_debug());
    section.errors.add(given.place, what, what_to_do);
    Some(given.value.to_owned())
}

fn statuses(section: &Section, name: &str) -> Option<Statuses> {
    let given = section.texts(name)?;
    let statuses = Statuses::parse(given.iter().map(|given| given.value));
    if statuses.is_none() {
        let what = format!("\"{name}\" has an entry that is no status");
        section.errors.add(section.place_of(name), what, "write statuses and ranges: [\"200\", \"300-399\"]");
    }
    statuses
}
