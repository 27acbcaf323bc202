//! Limits of speed and of requests: what they bound, and what is counted together.
//!
//! `bucket` has the arithmetic, and `throttle_file` reads the files of thttpd. Knows nothing of clocks and of what has
//! been counted: the caller passes the time, and stores the states.

pub mod bucket;
pub mod throttle_file;

use std::fmt;
use std::time::Duration;

use taipan_http::head::Head;
use taipan_http::path_text;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use self::throttle_file::ThrottlePattern;
use crate::route::Pattern;

/// Limits of a site, with the lines of its throttle files.
pub const MAX_LIMITS: usize = 1000;
/// Limits in tables that stand in one route, in its host or at the top level. More apply to a request if its path is
/// rewritten to another route, or has a language that is taken away.
pub const MAX_OF_ROUTE: usize = 16;
/// Lines of one throttle file that apply to a path: the first ones (thttpd(8), THROTTLING).
pub const MAX_MATCHES: usize = 10;

/// The number of a limit in its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitId(pub u16);

/// A limit of speed, of requests, or of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// With a name, it applies only where an access rule names it.
    pub name: Option<String>,
    /// Where the configuration has it, such as `site.toml:14`.
    pub place: String,
    /// A hash that is the same in another configuration with the same limit.
    pub identity: u64,
    pub paths: Paths,
    pub by: By,
    /// Of content and heads that clients receive.
    pub download: Option<ByteRate>,
    /// Of request bodies.
    pub upload: Option<ByteRate>,
    /// Bytes per second. A response that would leave each of those that share `download` less than this gets 503.
    pub min_download: u64,
    pub requests: Option<RequestRate>,
    pub concurrent: Option<Concurrency>,
    /// Of the response to a request above `requests` or `concurrent`.
    pub status: Status,
    /// Every response that `requests` has counted says what remains.
    pub announced: bool,
    pub enforcement: Enforcement,
}

/// The paths that a limit is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Paths {
    All,
    /// Those that one of the patterns matches.
    Patterns(Vec<Pattern>),
    /// Those that a line of the throttle file with this number matches.
    Throttle(ThrottlePattern, u16),
}

/// What is counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// The address and the port of a client.
    Connection,
    /// The address of a client; of IPv6, the first 64 bits.
    Client,
    Route,
    /// The route that the limit belongs to, with the globs in it.
    OwnRoute,
    Host,
    All,
    /// The value of a field of the request. A request without it is not limited.
    Field(String),
    /// The value of a cookie. A request without it is not limited.
    Cookie(String),
}

/// Bytes per second, and bytes that may be sent at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRate {
    pub rate: u64,
    /// `None`: as many as a tenth of a second allows.
    pub burst: Option<u64>,
}

/// Requests per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRate {
    pub count: u64,
    pub period: Duration,
    /// Requests that may come at once, at least 1.
    pub burst: u64,
}

/// Requests at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    pub most: usize,
    /// Further ones that wait.
    pub queue: usize,
    /// For how long.
    pub wait: Duration,
}

/// Whether a limit has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    Enforced,
    /// What would be rejected is logged and counted, and nothing is slowed.
    DryRun,
}

impl Limit {
    /// Its name for clients, logs and `taipan explain`.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.by.to_string().replace(':', "-"))
    }

    /// Whether the limit is for this path.
    pub fn matches(&self, path: &SafePath<'_>) -> bool {
        match &self.paths {
            Paths::All => true,
            Paths::Patterns(patterns) => patterns.iter().any(|pattern| pattern.matches(path)),
            Paths::Throttle(pattern, _) => pattern.matches(&path_text::bytes(path.as_str())),
        }
    }

    /// Whether it delays responses or bodies.
    pub fn has_rates(&self) -> bool {
        self.download.is_some() || self.upload.is_some()
    }
}

impl By {
    /// The value of the field or of the cookie that requests are counted by. Requests with several of them are counted
    /// together: it depends on the application which one it takes. `None`: the request has none, or they are counted by
    /// something else.
    pub fn value<'a>(&self, head: &Head<'a>) -> Option<&'a [u8]> {
        let named = |name: &'a [u8], own: &str| name.eq_ignore_ascii_case(own.as_bytes());
        match self {
            By::Field(own) => {
                let fields = head.fields.iter().filter(|field| named(field.name, own));
                only(fields.map(|field| field.value))
            }
            By::Cookie(own) => {
                let cookies = head.values("cookie").flat_map(|value| value.split(|byte| *byte == b';'));
                only(cookies.filter_map(|cookie| {
                    let (name, value) = cookie.trim_ascii().split_at_checked(own.len())?;
                    (name == own.as_bytes()).then(|| value.strip_prefix(b"="))?
                }))
            }
            By::Connection | By::Client | By::Route | By::OwnRoute | By::Host | By::All => None,
        }
    }
}

/// The only value. Several are as an empty one.
fn only<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let first = values.next()?;
    Some(values.next().map_or(first, |_| b""))
}

/// The limit that an access rule names.
pub fn named(limits: &[Limit], name: &str) -> Option<LimitId> {
    let at = limits.iter().position(|limit| limit.name.as_deref() == Some(name))?;
    u16::try_from(at).ok().map(LimitId)
}

/// As a configuration writes it.
impl fmt::Display for By {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            By::Connection => out.write_str("connection"),
            By::Client => out.write_str("client"),
            By::Route | By::OwnRoute => out.write_str("route"),
            By::Host => out.write_str("host"),
            By::All => out.write_str("all"),
            By::Field(name) => write!(out, "field:{name}"),
            By::Cookie(name) => write!(out, "cookie:{name}"),
        }
    }
}

/// In words, for `taipan explain`: `100 kB/s for each client (site.toml:14)`.
impl fmt::Display for Limit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(out, "\"{name}\": ")?;
        }
        let mut separator = "";
        let mut part = |out: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            write!(out, "{separator}{text}")?;
            separator = ", ";
            Ok(())
        };
        if let Some(ByteRate { rate, .. }) = self.download {
            part(out, format_args!("download {rate} B/s"))?;
        }
        if self.min_download > 0 {
            part(out, format_args!("at least {} B/s each", self.min_download))?;
        }
        if let Some(ByteRate { rate, .. }) = self.upload {
            part(out, format_args!("upload {rate} B/s"))?;
        }
        if let Some(RequestRate { count, period, burst }) = self.requests {
            part(out, format_args!("requests {count} per {period:?}, {burst} at once"))?;
        }
        if let Some(Concurrency { most, queue, .. }) = self.concurrent {
            part(out, format_args!("concurrent {most}, {queue} more wait"))?;
        }
        match &self.by {
            By::All => write!(out, " in all")?,
            by => write!(out, " for each {by}")?,
        }
        let dry_run = if self.enforcement == Enforcement::DryRun { ", dry run" } else { "" };
        write!(out, "{dry_run} ({})", self.place)
    }
}

#[cfg(test)]
mod tests {
    use taipan_http::head::{FieldStore, Limits, parse};

    use super::*;

    #[test]
    fn requests_are_counted_by_a_field_or_a_cookie() {
        let bytes =
            b"GET / HTTP/1.1\r\nHost: h\r\nX-Key: 5\r\ntwo: 6\r\nTwo: 7\r\nCookie: a=1; sid=2;b=;c=1\r\n\
                      Cookie: other=3; c=2\r\n\r\n";
        let mut store = FieldStore::new();
        let (head, _) = parse(bytes, &mut store, &Limits::default()).unwrap().unwrap();
        let cookie = |name: &str| By::Cookie(name.to_owned());
        for (by, expected) in [
            (By::Field("x-key".to_owned()), Some("5")),
            (By::Field("X-KEY".to_owned()), Some("5")),
            (By::Field("x-ke".to_owned()), None),
            (By::Field("two".to_owned()), Some("")),
            (cookie("c"), Some("")),
            (cookie("a"), Some("1")),
            (cookie("sid"), Some("2")),
            (cookie("si"), None),
            (cookie("SID"), None),
            (cookie("b"), Some("")),
            (cookie("other"), Some("3")),
            (By::Client, None),
        ] {
            assert_eq!(by.value(&head), expected.map(str::as_bytes), "{by}");
        }
    }
}
