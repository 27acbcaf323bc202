//! Which requests `taipan watch` shows, and what of them is hidden. Knows nothing of watchers.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use taipan_http::fields::host_and_port;
use taipan_http::status::Status;

use crate::network::{Network, Networks};
use crate::wildcard::Wildcard;

/// Bytes of the text of a filter.
pub const LONGEST: usize = 2048;
/// Between the parts of the text: no part has one.
const SEPARATOR: char = '\0';
/// Requests of one watcher in a second, unless it says another number.
const RATE: u32 = 100;
const MAX_RATE: u32 = 10_000;

/// Parts of the names of fields whose values are secrets.
const SECRETS: [&str; 16] = [
    "authorization",
    "x-auth",
    "cookie",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "api-key",
    "apikey",
    "access-key",
    "subscription-key",
    "credential",
    "signature",
    "session",
    "jwt",
];

/// A request is shown if all parts match. The text has the parts as `name=value`, each by the name of its flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    parts: Vec<(Part, String)>,
    client: Option<Networks>,
    host: Option<Wildcard>,
    path: Option<Wildcard>,
    status: Option<StatusRange>,
    /// Microseconds.
    slower: Option<u64>,
    upstream: Option<Wildcard>,
    rate: u32,
}

/// What a filter compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Client,
    Host,
    Path,
    Status,
    Slower,
    Upstream,
    Rate,
}

impl Part {
    pub const ALL: [(&str, Part); 7] = [
        ("client", Part::Client),
        ("host", Part::Host),
        ("path", Part::Path),
        ("status", Part::Status),
        ("slower", Part::Slower),
        ("upstream", Part::Upstream),
        ("rate", Part::Rate),
    ];

    fn name(self) -> &'static str {
        Part::ALL.iter().find(|(_, part)| *part == self).map_or("", |(name, _)| name)
    }
}

/// `404`, or `5xx` for all that begin so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StatusRange {
    from: u16,
    to: u16,
}

impl StatusRange {
    fn parse(text: &str) -> Option<StatusRange> {
        let (digit, rest) = text.split_at_checked(1)?;
        let class = digit.parse::<u16>().ok().filter(|class| (1..=5).contains(class))?;
        match rest {
            "xx" => Some(StatusRange { from: class * 100, to: class * 100 + 99 }),
            _ if rest.len() == 2 && rest.bytes().all(|byte| byte.is_ascii_digit()) => {
                let code = text.parse().ok()?;
                Some(StatusRange { from: code, to: code })
            }
            _ => None,
        }
    }
}

impl Default for Filter {
    fn default() -> Filter {
        Filter {
            parts: Vec::new(),
            client: None,
            host: None,
            path: None,
            status: None,
            slower: None,
            upstream: None,
            rate: RATE,
        }
    }
}

impl Filter {
    /// Adds a part. Errors: what is wrong with the value, and what to write.
    pub fn add(&mut self, part: Part, value: &str) -> Result<(), String> {
        let length = value.len() + part.name().len() + 2;
        if value.contains(['\0', '\n']) || self.to_string().len() + length > LONGEST {
            return Err(format!("the value of --{} is too long, or has a control character", part.name()));
        }
        let wildcard = || Wildcard::new(value).ok_or_else(|| format!("\"{value}\" is too long"));
        match part {
            Part::Client => {
                let network = Network::parse(value).map_err(|error| format!("--client {value}: {error}"))?;
                self.client = Some(Networks::new([network]));
            }
            Part::Host => self.host = Some(wildcard()?),
            Part::Path => self.path = Some(wildcard()?),
            Part::Upstream => self.upstream = Some(wildcard()?),
            Part::Status => {
                let range = StatusRange::parse(value);
                self.status = Some(
                    range.ok_or_else(|| format!("--status {value}: write a status such as 404, or 5xx"))?,
                );
            }
            Part::Slower => {
                let duration = crate::config::duration(value);
                let duration =
                    duration.ok_or_else(|| format!("--slower {value}: write a time such as 500ms or 2s"))?;
                self.slower = Some(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
            }
            Part::Rate => {
                let rate = value.parse().ok().filter(|rate| (1..=MAX_RATE).contains(rate));
                self.rate =
                    rate.ok_or_else(|| format!("--rate {value}: write a number from 1 to {MAX_RATE}"))?;
            }
        }
        self.parts.retain(|(other, _)| *other != part);
        self.parts.push((part, value.to_owned()));
        Ok(())
    }

    /// Requests that are shown in a second.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Whether it has to wait for the end of a request.
    pub fn is_of_end(&self) -> bool {
        self.status.is_some() || self.slower.is_some() || self.upstream.is_some()
    }

    /// As far as the head of a request tells. `target` is as it was sent.
    pub fn matches_request(&self, client: Option<IpAddr>, authority: &[u8], target: &str) -> bool {
        let authority = std::str::from_utf8(authority).unwrap_or_default();
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        self.client.as_ref().is_none_or(|networks| networks.contains(client))
            && self.host.as_ref().is_none_or(|host| host.matches(host_and_port(authority).0.as_bytes()))
            && self.path.as_ref().is_none_or(|pattern| pattern.matches(path.as_bytes()))
    }

    /// As far as the end of the exchange tells. `upstreams`: the addresses that it was sent to.
    pub fn matches_end<'u>(
        &self,
        status: Status,
        micros: u64,
        mut upstreams: impl Iterator<Item = &'u str>,
    ) -> bool {
        self.status.is_none_or(|range| (range.from..=range.to).contains(&status.code()))
            && self.slower.is_none_or(|slower| micros > slower)
            && self
                .upstream
                .as_ref()
                .is_none_or(|upstream| upstreams.any(|address| upstream.matches(address.as_bytes())))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (part, value)) in self.parts.iter().enumerate() {
            let separator = if at > 0 { "\0" } else { "" };
            write!(out, "{separator}{}={value}", part.name())?;
        }
        Ok(())
    }
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Filter, String> {
        let mut filter = Filter::default();
        for part in text.split(SEPARATOR).filter(|part| !part.is_empty()) {
            let known = part.split_once('=').and_then(|(name, value)| {
                let (_, part) = Part::ALL.iter().find(|(known, _)| *known == name)?;
                Some((*part, value))
            });
            let (part, value) = known.ok_or("this version does not know a part of the filter")?;
            filter.add(part, value)?;
        }
        Ok(filter)
    }
}

/// Whether the value of a field is a secret.
pub fn is_secret(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let has = |part: &&str| name.windows(part.len()).any(|window| window == part.as_bytes());
    SECRETS.iter().any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(parts: &[(Part, &str)]) -> Filter {
        let mut filter = Filter::default();
        for (part, value) in parts {
            filter.add(*part, value).unwrap();
        }
        assert_eq!(filter.to_string().parse(), Ok(filter.clone()), "{parts:?}");
        filter
    }

    #[test]
    fn all_parts_have_to_match() {
        let all = filter(&[
            (Part::Client, "192.0.2.0/24"),
            (Part::Host, "*.Example.org"),
            (Part::Path, "/a*"),
            (Part::Status, "5xx"),
            (Part::Slower, "2ms"),
            (Part::Upstream, "10.0.0.1:*"),
            (Part::Rate, "7"),
        ]);
        let client = "192.0.2.7".parse().ok();
        let matches = |client, host: &str, target| all.matches_request(client, host.as_bytes(), target);
        assert!(matches(client, "www.example.org:80", "/a?b"));
        assert!(!matches(None, "www.example.org", "/a"));
        assert!(!matches("192.0.3.7".parse().ok(), "www.example.org", "/a"));
        assert!(!matches(client, "example.org", "/a"));
        assert!(!matches(client, "www.example.org", "/b?/a"));
        let matches = |code, micros, address: &'static str| {
            all.matches_end(Status::new(code).unwrap(), micros, [address].into_iter())
        };
        assert!(matches(502, 2001, "10.0.0.1:80"));
        assert!(!matches(404, 2001, "10.0.0.1:80"));
        assert!(!matches(502, 2000, "10.0.0.1:80"));
        assert!(!matches(502, 2001, "10.0.0.2:80"));
        assert!(!all.matches_end(Status::BAD_GATEWAY, 9999, [].into_iter()));
        assert!(all.is_of_end() && all.rate() == 7);
    }

    #[test]
    fn an_empty_filter_matches_everything() {
        let empty = filter(&[]);
        assert!(empty.matches_request(None, b"\xff", "*") && !empty.is_of_end());
        assert!(empty.matches_end(Status::OK, 0, [].into_iter()));
        let exact = filter(&[(Part::Status, "404")]);
        assert!(exact.matches_end(Status::NOT_FOUND, 0, [].into_iter()));
        assert!(!exact.matches_end(Status::OK, 0, [].into_iter()));
    }

    #[test]
    fn rejects_what_is_no_filter() {
        let mut filter = Filter::default();
        for (part, value) in [
            (Part::Client, "192.0.2.1/24"),
            (Part::Client, "x"),
            (Part::Status, "6xx"),
            (Part::Status, "40"),
            (Part::Status, "4x4"),
            (Part::Status, ""),
            (Part::Status, "\u{e4}xx"),
            (Part::Slower, "fast"),
            (Part::Rate, "0"),
            (Part::Rate, "10001"),
            (Part::Path, "a\nb"),
            (Part::Path, "a\0b"),
        ] {
            assert!(filter.add(part, value).is_err(), "{value}");
        }
        assert!(filter.add(Part::Path, &"x".repeat(257)).is_err());
        for text in ["x=1", "status", "status=9", "=", "client=1.2.3.4\0x=y"] {
            assert!(text.parse::<Filter>().is_err(), "{text}");
        }
        assert_eq!(filter, Filter::default());
    }

    #[test]
    fn knows_the_fields_with_secrets() {
        for name in [
            "Authorization",
            "proxy-authorization",
            "Cookie",
            "Set-Cookie",
            "X-Api-Key",
            "X-CSRF-Token",
            "X-Auth",
        ] {
            assert!(is_secret(name.as_bytes()), "{name}");
        }
        for name in [
            "Host",
            "User-Agent",
            "Accept",
            "X-Forwarded-For",
            "Content-Type",
            "ETag",
            "WWW-Authenticate",
            "",
        ] {
            assert!(!is_secret(name.as_bytes()), "{name}");
        }
    }
}
