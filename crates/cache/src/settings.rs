//! What the configuration of a route says about the cache.

use taipan_http::digits::percent_decoded;

/// Seconds.
type Seconds = u64;

/// The settings of a route for the responses of its upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The parts of a query that tell two resources apart.
    pub query: Query,
    /// Fields like `CDN-Cache-Control`, in lower case. The first one that a response has counts in place of
    /// `Cache-Control` and `Expires` (RFC 9213 §2.2).
    pub targets: Vec<String>,
    /// The name by which upstreams know the cache as a surrogate: it sends `Surrogate-Capability`. Empty: it has none.
    pub surrogate: String,
    /// The freshness of a response that names none and may be stored. `None`: a fraction of its age.
    pub lifetime: Option<Seconds>,
    /// Percent of the time since `Last-Modified` for which a response without an explicit freshness is fresh (RFC 9111
    /// §4.2.2).
    pub heuristic: u64,
    /// The longest freshness that is found that way.
    pub longest_heuristic: Seconds,
    /// For responses that do not name a time.
    pub stale_while_revalidate: Seconds,
    /// For responses that do not name a time.
    pub stale_if_error: Seconds,
    pub reload: Reload,
    pub cookies: Cookies,
    /// The name of the cookie by which the server itself keeps a client at an endpoint: it says nothing of who that is.
    pub endpoint_cookie: Option<String>,
    /// The fields that name the tags of a response, in lower case.
    pub tag_fields: Vec<String>,
    /// Bytes of the largest body that is stored.
    pub largest: u64,
    /// The most requests that wait for one response.
    pub waiting: usize,
    /// How long they wait, in milliseconds.
    pub wait: u64,
    pub report: Report,
}

/// The parts of a query that are part of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    All,
    /// The parameters whose names match one of the patterns.
    Only(Vec<String>),
    Without(Vec<String>),
}

/// Whether a request may demand a response that is fresher than what is stored (RFC 9111 §5.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    Refused,
    Allowed,
}

/// Whether requests and responses with cookies share stored responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cookies {
    /// Only if the response says `public` or `s-maxage`.
    IfPublic,
    /// The cookies of requests do not count, and those of responses are not stored.
    Ignored,
}

/// Whether responses say what the cache did, in `Cache-Status` (RFC 9211).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    Off,
    On,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            query: Query::All,
            targets: vec!["cdn-cache-control".to_owned()],
            surrogate: String::new(),
            lifetime: None,
            heuristic: 10,
            longest_heuristic: 86_400,
            stale_while_revalidate: 0,
            stale_if_error: 0,
            reload: Reload::Refused,
            cookies: Cookies::IfPublic,
            endpoint_cookie: None,
            tag_fields: vec!["cache-tag".to_owned(), "surrogate-key".to_owned()],
            largest: 1 << 20,
            waiting: 1000,
            wait: 5000,
            report: Report::On,
        }
    }
}

impl Query {
    /// The part of a query that counts.
    pub fn write(&self, query: &str, out: &mut String) {
        if *self == Query::All {
            return out.push_str(query);
        }
        let start = out.len();
        for part in query.split('&').filter(|part| self.counts(part)) {
            if out.len() > start {
                out.push('&');
            }
            out.push_str(part);
        }
    }

    /// A parameter is left out only if no program could take it, or what is behind a semicolon in it, for one that
    /// counts: else a client could have the answer to another query stored.
    fn counts(&self, part: &str) -> bool {
        let name = part.split('=').next().unwrap_or_default();
        match self {
            Query::All => true,
            Query::Only(patterns) if patterns.is_empty() => false,
            Query::Only(patterns) => {
                part.contains(';') || patterns.iter().any(|pattern| is_taken_for(pattern, name))
            }
            Query::Without(patterns) => {
                part.contains(';') || !patterns.iter().any(|pattern| matches(pattern, name))
            }
        }
    }
}

/// `*` at the end stands for any rest.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// Whether a program may take the name of a parameter for one that matches.
fn is_taken_for(pattern: &str, name: &str) -> bool {
    let (start, is_whole) = match pattern.strip_suffix('*') {
        Some(start) => (start, false),
        None => (pattern, true),
    };
    let mut name = folded(name);
    folded(start).all(|byte| name.next() == Some(byte)) && (!is_whole || name.next().is_none())
}

/// The bytes of a name as programs read it: decoded, up to a bracket, in lower case, and one byte for all that are
/// neither letters nor digits.
fn folded(name: &str) -> impl Iterator<Item = u8> {
    percent_decoded(name.as_bytes())
        .skip_while(|byte| matches!(byte, b' ' | b'+'))
        .take_while(|byte| !matches!(byte, b'[' | 0))
        .map(|byte| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'_' })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_counts_as_far_as_the_settings_say() {
        let check = |query: Query, sent: &str, expected: &str| {
            let mut out = String::new();
            query.write(sent, &mut out);
            assert_eq!(out, expected, "{query:?} {sent}");
        };
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        check(Query::All, "b=1&a=2", "b=1&a=2");
        check(Query::Only(names(&[])), "b=1&a=2", "");
        check(Query::Only(names(&["a"])), "b=1&a=2&a&aa=3", "a=2&a");
        check(Query::Without(names(&["utm_*", "b"])), "b=1&utm_source=x&a=2&utm=3", "a=2&utm=3");
        // What some programs read as a parameter that counts is part of the key.
        let some = || Query::Only(names(&["q", "user_id", "p*"]));
        for part in [
            "%71=2",
            "Q=2",
            "q[]=2",
            "q%5B0%5D=2",
            "+q=2",
            "%20q=2",
            "q%00x=2",
            "user.id=2",
            "user%2Did=2",
            "PAGE=2",
            "x=1;q=2",
            "x;q",
        ] {
            check(some(), &format!("z=1&{part}&y"), part);
        }
        check(some(), "qq=1&xq=2&user=3&userid=4&%=5&%7=6&%zz=7&", "");
        // A sign is no digit.
        check(Query::Only(names(&["a__b"])), "z=1&a%+b=2", "a%+b=2");
        check(Query::Only(names(&[])), "%71=1;b&a", "");
        check(
            Query::Without(names(&["utm_*", "b"])),
            "utm_x=1;q=2&b;q=2&b=3&%62=4",
            "utm_x=1;q=2&b;q=2&%62=4",
        );
    }
}
