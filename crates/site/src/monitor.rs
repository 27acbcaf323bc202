//! Routes that show how the server does: metrics, and whether it is alive and ready. Which of them may be open to all, and
//! which format of metrics a client gets.

use std::net::{IpAddr, Ipv4Addr};

use crate::access::{Action, Condition, Rules};
use crate::authentication::Scheme;
use crate::model::Route;

/// What such a route responds with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monitor {
    Metrics,
    /// 200 as long as the process serves.
    Healthy,
    /// 200 as long as new requests should be sent to this process.
    Ready,
}

impl Monitor {
    pub const NAMES: &'static [&'static str] = &["metrics", "healthy", "ready"];

    /// Of one of `NAMES`.
    pub fn from_name(name: &str) -> Option<Monitor> {
        Some(match name {
            "metrics" => Monitor::Metrics,
            "healthy" => Monitor::Healthy,
            "ready" => Monitor::Ready,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Monitor::Metrics => "metrics",
            Monitor::Healthy => "healthy",
            Monitor::Ready => "ready",
        }
    }

    /// Whether it tells more than a load balancer has to know.
    pub fn is_private(self) -> bool {
        match self {
            Monitor::Metrics => true,
            Monitor::Healthy | Monitor::Ready => false,
        }
    }
}

/// An address that no client has (RFC 1112 §4).
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(240, 0, 0, 1));

/// Whether a client of any address may have what is at a route, without credentials.
pub fn is_open(route: &Route) -> bool {
    route.access.iter().all(lets_strangers_pass)
        && route.authentication.scheme == Scheme::Off
        && route.authorizers.is_empty()
        && route.jwt.is_none()
}

/// Conditions other than addresses count for the worse.
fn lets_strangers_pass(rules: &Rules) -> bool {
    for rule in rules.iter() {
        let (mut may_match, mut must_match) = (true, true);
        for condition in &rule.conditions {
            let Condition::Address { within, except } = condition else {
                must_match = false;
                continue;
            };
            let is_within = within.as_ref().is_none_or(|within| within.contains(Some(STRANGER)));
            if !is_within || except.contains(Some(STRANGER)) {
                (may_match, must_match) = (false, false);
            }
        }
        match rule.action {
            Action::Deny(_) | Action::Authenticate if must_match => return false,
            Action::Allow | Action::Limit(_) if may_match => return true,
            _ => {}
        }
    }
    true
}

/// Whether a client with these values of `Accept` wants OpenMetrics: it names it, and nothing that it likes better.
pub fn prefers_openmetrics<'a>(accept: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut open, mut plain) = (0, 0);
    for element in accept.flat_map(|value| value.split(|byte| *byte == b',')) {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let quality = match parts.next().unwrap_or_default() {
            name if name.eq_ignore_ascii_case(b"application/openmetrics-text") => &mut open,
            name if name.eq_ignore_ascii_case(b"text/plain") => &mut plain,
            _ => continue,
        };
        let given = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
        *quality = thousandths(given).max(*quality);
    }
    open > 0 && open >= plain
}

/// A quality of RFC 9110 §12.4.2. One that is invalid is 0.
fn thousandths(quality: Option<&[u8]>) -> u32 {
    let Some(quality) = quality else { return 1000 };
    let text = std::str::from_utf8(quality).unwrap_or_default();
    text.parse::<f32>().map_or(0, |quality| (quality.clamp(0.0, 1.0) * 1000.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_format_that_it_likes_best() {
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("text/html,application/xhtml+xml", false),
            ("text/plain", false),
            ("application/openmetrics-text", true),
            ("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", true),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", false),
            ("application/openmetrics-text;q=0.5,text/plain;q=0.9", false),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                true,
            ),
        ] {
            assert_eq!(prefers_openmetrics([accept.as_bytes()].into_iter()), expected, "{accept}");
        }
    }
}
