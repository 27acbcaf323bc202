//! When an endpoint of an upstream counts as down, and how that is found out, as a configuration says it. Knows nothing
//! of connections.

use std::fmt;
use std::time::Duration;

use taipan_http::status::Status;

/// Statuses of one health check, or of failures.
const MAX_RANGES: usize = 16;

/// How endpoints are found to be out of service, and in service again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// So many failures of requests within `window` take an endpoint out of service. 0: none do.
    pub failures: u32,
    pub window: Duration,
    /// For how long, the first time. Each further time in a row it is twice as long, up to `longest_pause`.
    pub pause: Duration,
    pub longest_pause: Duration,
    /// Responses with these statuses are failures, too.
    pub failure_status: Statuses,
    /// `None`: endpoints are not checked.
    pub checks: Option<Checks>,
    /// How long an endpoint that is new or up again takes until it gets its whole share of requests.
    pub slow_start: Duration,
}

/// Health checks by requests of the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checks {
    /// `None`: that the endpoint accepts a connection is enough.
    pub path: Option<String>,
    pub status: Statuses,
    pub interval: Duration,
    pub timeout: Duration,
    /// Successes in a row after which an endpoint is up, and failures after which it is down.
    pub rise: u32,
    pub fall: u32,
}

/// When an application whose requests fail has none for a time. A failed request is one without a response, or with one
/// of the statuses that are failures of endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    /// So many of 100 requests within `window` open it, if there were at least `requests`.
    pub failure_rate: u32,
    pub requests: u32,
    pub window: Duration,
    /// For how long it is open, the first time. Each further time in a row it is twice as long, up to `longest_pause`.
    pub pause: Duration,
    pub longest_pause: Duration,
    /// Requests at the same time after a pause. So many successes in a row close it.
    pub probes: u32,
}

/// A set of statuses: inclusive ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statuses(Vec<(u16, u16)>);

impl Default for Health {
    fn default() -> Health {
        Health {
            failures: 1,
            window: Duration::from_secs(10),
            pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
            failure_status: Statuses::default(),
            checks: None,
            slow_start: Duration::ZERO,
        }
    }
}

impl Default for Checks {
    fn default() -> Checks {
        Checks {
            path: None,
            status: Statuses(vec![(200, 399)]),
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            rise: 2,
            fall: 3,
        }
    }
}

impl Default for Breaker {
    fn default() -> Breaker {
        Breaker {
            failure_rate: 50,
            requests: 20,
            window: Duration::from_secs(10),
            pause: Duration::from_secs(5),
            longest_pause: Duration::from_secs(60),
            probes: 1,
        }
    }
}

impl Statuses {
    /// Reads `200`, or `200-399`. `None`: this is no such text, or there are too many.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Statuses> {
        let mut ranges = Vec::new();
        for text in texts {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let number = |text: &str| {
                let is_status = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse::<u16>().ok().filter(|number| is_status && (100..=599).contains(number))
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last || ranges.len() == MAX_RANGES {
                return None;
            }
            ranges.push((first, last));
        }
        Some(Statuses(ranges))
    }

    pub fn contains(&self, status: Status) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&status.code()))
    }
}

/// As the configuration writes it.
impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_statuses_and_ranges() {
        let statuses = Statuses::parse(["200", "300-399"]).unwrap();
        assert_eq!(statuses.to_string(), "200, 300-399");
        for (code, expected) in [(200, true), (201, false), (300, true), (399, true), (400, false)] {
            assert_eq!(statuses.contains(Status::new(code).unwrap()), expected, "{code}");
        }
        for bad in ["", "20", "2xx", "399-300", "600", "99", "+20", "200-", "200-300-400"] {
            assert_eq!(Statuses::parse([bad]), None, "{bad}");
        }
        assert_eq!(Statuses::parse(["200"; MAX_RANGES + 1]), None);
    }
}
