//! `Cache-Control` of responses and of requests (RFC 9111 §5.2). Knows nothing of what the directives lead to.

use taipan_http::fields::{digits, is_name, is_token, list, trim_ows};

/// The directives of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directives {
    /// Seconds. A value that is not a number counts as 0 (RFC 9111 §4.2.1).
    pub max_age: Option<u64>,
    pub s_maxage: Option<u64>,
    /// RFC 5861 §3 and §4.
    pub stale_while_revalidate: Option<u64>,
    pub stale_if_error: Option<u64>,
    pub no_cache: Applies,
    pub private: Applies,
    pub no_store: bool,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
}

/// What a directive that may name fields applies to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Applies {
    #[default]
    Nowhere,
    /// To fields of the response, in lower case.
    Fields(Vec<String>),
    Everywhere,
}

/// The directives of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    pub max_age: Option<u64>,
    pub min_fresh: Option<u64>,
    /// `u64::MAX` without a number.
    pub max_stale: Option<u64>,
    pub no_cache: bool,
    pub no_store: bool,
    pub only_if_cached: bool,
}

/// A greater number counts as this one (RFC 9111 §1.2.2).
const GREATEST: u64 = 1 << 31;

impl Directives {
    /// Parses the values of all `Cache-Control` fields. What is unknown does not count.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Directives {
        let mut found = Directives::default();
        for member in list(lines) {
            let (name, argument) = split(member);
            found.add(name, argument);
        }
        found
    }

    /// The shortest of several times counts.
    pub(crate) fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let is = |known| is_name(name, known);
        let shortest = |old: Option<u64>| Some(seconds(argument).min(old.unwrap_or(GREATEST)));
        if is("max-age") {
            self.max_age = shortest(self.max_age);
        } else if is("s-maxage") {
            self.s_maxage = shortest(self.s_maxage);
        } else if is("stale-while-revalidate") {
            self.stale_while_revalidate = shortest(self.stale_while_revalidate);
        } else if is("stale-if-error") {
            self.stale_if_error = shortest(self.stale_if_error);
        } else if is("no-cache") {
            self.no_cache.add(argument);
        } else if is("private") {
            self.private.add(argument);
        } else if is("no-store") {
            self.no_store = true;
        } else if is("public") {
            self.public = true;
        } else if is("must-revalidate") {
            self.must_revalidate = true;
        } else if is("proxy-revalidate") {
            self.proxy_revalidate = true;
        } else if is("must-understand") {
            self.must_understand = true;
        }
    }
}

impl Applies {
    fn add(&mut self, argument: Option<&[u8]>) {
        let Some(argument) = argument else {
            *self = Applies::Everywhere;
            return;
        };
        let names: Vec<String> = list([unquoted(argument)])
            .filter(|name| is_token(name))
            .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
            .collect();
        match self {
            Applies::Everywhere => {}
            _ if names.is_empty() => *self = Applies::Everywhere,
            Applies::Nowhere => *self = Applies::Fields(names),
            Applies::Fields(known) => known.extend(names),
        }
    }

    /// Whether it applies to a field alone.
    pub fn names(&self, field: &str) -> bool {
        matches!(self, Applies::Fields(names) if names.iter().any(|name| name.eq_ignore_ascii_case(field)))
    }
}

impl RequestDirectives {
    /// `pragma` counts only without `cache_control` (RFC 9111 §5.4).
    pub fn parse<'a>(
        cache_control: impl Iterator<Item = &'a [u8]>,
        pragma: impl Iterator<Item = &'a [u8]>,
    ) -> RequestDirectives {
        let mut found = RequestDirectives::default();
        let mut lines = cache_control.peekable();
        if lines.peek().is_none() {
            found.no_cache = list(pragma).any(|member| is_name(member, "no-cache"));
            return found;
        }
        for member in list(lines) {
            let (name, argument) = split(member);
            let is = |known| is_name(name, known);
            if is("max-age") {
                found.max_age = Some(seconds(argument));
            } else if is("min-fresh") {
                found.min_fresh = Some(seconds(argument));
            } else if is("max-stale") {
                found.max_stale = Some(argument.map_or(u64::MAX, |argument| seconds(Some(argument))));
            } else if is("no-cache") {
                found.no_cache = true;
            } else if is("no-store") {
                found.no_store = true;
            } else if is("only-if-cached") {
                found.only_if_cached = true;
            }
        }
        found
    }
}

/// White space around `=` is an error that must not conceal what the directive says.
fn split(member: &[u8]) -> (&[u8], Option<&[u8]>) {
    match member.iter().position(|&byte| byte == b'=') {
        Some(at) => (trim_ows(&member[..at]), Some(trim_ows(&member[at + 1..]))),
        None => (member, None),
    }
}

/// A quoted number counts (RFC 9111 §5.2). What is not a number counts as 0.
fn seconds(argument: Option<&[u8]>) -> u64 {
    let Some(text) = argument.map(unquoted).filter(|text| text.iter().all(u8::is_ascii_digit)) else {
        return 0;
    };
    match text {
        [] => 0,
        text => digits(text).map_or(GREATEST, |number| number.min(GREATEST)),
    }
}

fn unquoted(argument: &[u8]) -> &[u8] {
    let inner = argument.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    trim_ows(inner.unwrap_or(argument))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Directives {
        Directives::parse(lines.iter().map(|line| line.as_bytes()))
    }

    fn max_age(line: &str) -> Option<u64> {
        of(&[line]).max_age
    }

    #[test]
    fn reads_times() {
        assert_eq!(max_age("max-age=3600"), Some(3600));
        assert_eq!(max_age("MaX-aGe=003600"), Some(3600));
        assert_eq!(max_age("max-age=\"3600\""), Some(3600));
        assert_eq!(max_age("max-age=99999999999999999999999"), Some(GREATEST));
        for stale in
            ["max-age=-1", "max-age='1'", "max-age=1.5", "max-age=", "max-age", "max-age=a1", "max-age=1a"]
        {
            assert_eq!(max_age(stale), Some(0), "{stale}");
        }
        assert_eq!(max_age("extension=\"max-age=1, max-age=2\""), None);
        assert_eq!(max_age("extension=\"a\\\", max-age=1\", max-age=5"), Some(5));
        assert_eq!(of(&["max-age=9", "s-maxage=1, max-age=5"]).max_age, Some(5));
    }

    #[test]
    fn a_directive_applies_to_fields_or_to_everything() {
        let fields = |names: &[&str]| Applies::Fields(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(of(&["no-cache"]).no_cache, Applies::Everywhere);
        assert_eq!(of(&["no-cache=\"Set-Cookie, b\""]).no_cache, fields(&["set-cookie", "b"]));
        assert_eq!(of(&["no-cache=a", "no-cache=\"b\""]).no_cache, fields(&["a", "b"]));
        assert_eq!(of(&["no-cache=a, No-Cache"]).no_cache, Applies::Everywhere);
        assert_eq!(of(&["no-cache, no-cache=a"]).no_cache, Applies::Everywhere);
        assert_eq!(of(&["private=\"\""]).private, Applies::Everywhere);
        assert_eq!(of(&["private = \"a\""]).private, fields(&["a"]));
        assert_eq!(of(&["x=\"private\""]).private, Applies::Nowhere);
    }

    #[test]
    fn reads_the_directives_of_a_request() {
        let of = |control: &[&str], pragma: &[&str]| {
            let lines =
                |lines: &[&str]| lines.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>();
            let (control, pragma) = (lines(control), lines(pragma));
            RequestDirectives::parse(control.iter().map(Vec::as_slice), pragma.iter().map(Vec::as_slice))
        };
        assert!(of(&[], &["no-cache"]).no_cache);
        assert!(!of(&["max-age=1"], &["no-cache"]).no_cache);
        let found = of(&["max-age=1, min-fresh=2", "max-stale, only-if-cached, no-store"], &[]);
        assert_eq!((found.max_age, found.min_fresh, found.max_stale), (Some(1), Some(2), Some(u64::MAX)));
        assert!(found.only_if_cached && found.no_store && !found.no_cache);
        assert_eq!(of(&["max-stale=5"], &[]).max_stale, Some(5));
    }
}
