//! What a purge removes, and what it forbids: a response to a request that began before the purge is not stored after
//! it.
//!
//! Knows nothing of where responses are stored.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use taipan_http::digits::percent_decoded;
use taipan_http::target::Scheme;

use super::head::Label;
use crate::key::url;
use crate::settings::Settings;

/// Bytes of the text of a purge.
pub const LONGEST: usize = 4096;
/// Purges that are remembered one by one.
const REMEMBERED: usize = 256;

/// Which responses a purge removes. Its text is one line: `all`, `path`, `prefix` or `tag`, the host or `-`, and the
/// value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// In lower case; a host without a port stands for all of its ports. `None`: of every host.
    pub host: Option<String>,
    pub what: What,
    /// What routes may store of the query of a path: the part that counts. No part of the text.
    stored_queries: Vec<String>,
}

/// What the responses of a purge have in common, beside the host. A path is one in all spellings (RFC 9110 §4.2.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    All,
    /// The path with any query; with one, only with that.
    Path(String),
    Prefix(String),
    Tag(String),
}

/// Why a text is no purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidPurge;

impl Purge {
    pub fn new(host: Option<String>, what: What) -> Purge {
        Purge { host, what, stored_queries: Vec::new() }
    }

    /// The purge of every response.
    pub fn all() -> Purge {
        Purge::new(None, What::All)
    }

    /// Matches also what is stored with the part of the query that counts by the settings of a route.
    pub fn with_settings<'s>(mut self, settings: impl Iterator<Item = &'s Settings>) -> Purge {
        let What::Path(path) = &self.what else { return self };
        let Some((_, query)) = path.split_once('?') else { return self };
        for Settings { query: counting, .. } in settings {
            let mut stored = String::new();
            counting.write(query, &mut stored);
            if stored != query && !self.stored_queries.contains(&stored) {
                self.stored_queries.push(stored);
            }
        }
        self
    }

    /// Whether the response with this label is one of them.
    pub fn matches(&self, label: &Label<'_>) -> bool {
        let url = url(label.key);
        let (scheme, rest) = match url.windows(3).position(|at| at == b"://") {
            Some(at) => (Scheme::from_bytes(&url[..at]), &url[at + 3..]),
            None => (None, url),
        };
        let path = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let (authority, target) = rest.split_at(path);
        if self.host.as_ref().is_some_and(|host| !is_of_host(scheme, authority, host.as_bytes())) {
            return false;
        }
        match &self.what {
            What::All => true,
            What::Path(path) => {
                let (path, query) = path.split_once('?').map_or((&**path, None), |(path, q)| (path, Some(q)));
                let (target, of_target) = match target.iter().position(|byte| *byte == b'?') {
                    Some(at) => (&target[..at], Some(&target[at + 1..])),
                    None => (target, None),
                };
                let is_same = |a: &[u8], b: &[u8]| percent_decoded(a).eq(percent_decoded(b));
                let is_stored_as = |query: &String| is_same(of_target.unwrap_or_default(), query.as_bytes());
                is_same(target, path.as_bytes())
                    && query.is_none_or(|query| {
                        of_target.is_some_and(|own| is_same(own, query.as_bytes()))
                            || self.stored_queries.iter().any(is_stored_as)
                    })
            }
            What::Prefix(prefix) => {
                let mut target = percent_decoded(target);
                percent_decoded(prefix.as_bytes()).all(|byte| target.next() == Some(byte))
            }
            What::Tag(tag) => label.tags.split(|byte| *byte == b' ').any(|own| own == tag.as_bytes()),
        }
    }
}

/// Whether the authority of a key, which never has the default port, is that of the host.
fn is_of_host(scheme: Option<Scheme>, authority: &[u8], host: &[u8]) -> bool {
    let is_port = |rest: &[u8]| matches!(rest, [b':', port @ ..] if port.iter().all(u8::is_ascii_digit));
    authority == scheme.map_or(host, |scheme| scheme.without_default_port(host))
        || authority.strip_prefix(host).is_some_and(is_port)
}

impl fmt::Display for Purge {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, value) = match &self.what {
            What::All => ("all", "-"),
            What::Path(path) => ("path", &**path),
            What::Prefix(prefix) => ("prefix", &**prefix),
            What::Tag(tag) => ("tag", &**tag),
        };
        write!(out, "{kind} {} {value}", self.host.as_deref().unwrap_or("-"))
    }
}

impl FromStr for Purge {
    type Err = InvalidPurge;

    fn from_str(text: &str) -> Result<Purge, InvalidPurge> {
        let is_printable = |b: u8| matches!(b, b' '..=b'~');
        if text.len() > LONGEST || !text.bytes().all(is_printable) {
            return Err(InvalidPurge);
        }
        let mut parts = text.splitn(3, ' ');
        let (kind, host, value) = (parts.next(), parts.next(), parts.next().ok_or(InvalidPurge)?);
        let host = host.filter(|host| !host.is_empty()).ok_or(InvalidPurge)?;
        let is_word = !value.is_empty() && !value.contains(' ');
        let what = match kind {
            Some("all") if value == "-" => What::All,
            Some("path") if is_word && value.starts_with('/') => What::Path(value.to_owned()),
            Some("prefix") if is_word && value.starts_with('/') => What::Prefix(value.to_owned()),
            Some("tag") if is_word => What::Tag(value.to_owned()),
            _ => return Err(InvalidPurge),
        };
        Ok(Purge::new((host != "-").then(|| host.to_ascii_lowercase()), what))
    }
}

/// A time in the order of requests and purges: microseconds of a clock that never goes back. The default is before all
/// of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Epoch(pub u64);

/// The purges of a process.
#[derive(Debug, Default)]
pub struct Purges {
    last: Epoch,
    remembered: VecDeque<(Epoch, Purge)>,
    /// What began before this one is not stored at all, because purges since then are forgotten.
    forgotten: Option<Epoch>,
    /// Purges whose removal from the files has not ended.
    removing: Vec<(Epoch, Purge)>,
}

impl Purges {
    /// From now on, the purge forbids to store what began earlier, and to use files that it matches.
    pub fn begin(&mut self, purge: Purge, now: Epoch) -> Epoch {
        self.last = now.max(Epoch(self.last.0 + 1));
        self.removing.push((self.last, purge.clone()));
        self.remembered.push_back((self.last, purge));
        if self.remembered.len() > REMEMBERED
            && let Some((oldest, _)) = self.remembered.pop_front()
        {
            self.forgotten = Some(oldest);
        }
        self.last
    }

    /// The files that match the purge are removed.
    pub fn end(&mut self, purge: Epoch) {
        self.removing.retain(|(begun, _)| *begun != purge);
    }

    /// The number of purges whose files are being removed.
    pub fn removing(&self) -> usize {
        self.removing.len()
    }

    /// Whether a response to a request that began at `since` must not be stored.
    pub fn forbid_storing(&self, since: Epoch, label: &Label<'_>) -> bool {
        let later = self.remembered.iter().rev().take_while(|(begun, _)| *begun >= since);
        self.forgotten.is_some_and(|begun| since <= begun)
            || later.into_iter().any(|(_, purge)| purge.matches(label))
    }

    /// Whether a file that was stored at `since` must not be used, because its removal has begun.
    pub fn forbid_using(&self, since: Epoch, label: &Label<'_>) -> bool {
        self.removing.iter().any(|(begun, purge)| *begun >= since && purge.matches(label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Query;

    const LABEL: Label<'_> =
        Label { key: b"https://example.org:8443/a/b?x=1 http://app", tags: b"news sport" };

    fn purge(text: &str) -> Purge {
        text.parse().unwrap()
    }

    #[test]
    fn a_purge_matches_by_host_path_prefix_and_tag() {
        for (text, expected) in [
            ("all - -", true),
            ("all example.org -", true),
            ("all EXAMPLE.org:8443 -", true),
            ("all example.org:8444 -", false),
            ("all example.or -", false),
            ("all www.example.org -", false),
            ("path - /a/b", true),
            ("path - /a/b?x=1", true),
            ("path - /a/b?x=", false),
            ("path - /a/b?", false),
            ("path - /a/", false),
            ("path - /a/b/", false),
            ("path example.org /a/b", true),
            ("path other.org /a/b", false),
            ("prefix - /", true),
            ("prefix - /a/", true),
            ("prefix - /a/b?x=1", true),
            ("prefix - /b", false),
            ("tag - news", true),
            ("tag - sport", true),
            ("tag - new", false),
            ("tag other.org news", false),
        ] {
            assert_eq!(purge(text).matches(&LABEL), expected, "{text}");
        }
    }

    #[test]
    fn a_query_is_also_the_part_of_it_that_a_route_stores() {
        let [only, without] = [Query::Only(vec!["q".to_owned()]), Query::Without(vec!["utm_*".to_owned()])]
            .map(|query| Settings { query, ..Settings::default() });
        let settings = [Settings::default(), only, without];
        let check = |path: &str, stored: &str, expected| {
            let purge = purge(&format!("path - {path}")).with_settings(settings.iter());
            let key = format!("http://a{stored} up");
            assert_eq!(purge.matches(&Label { key: key.as_bytes(), tags: b"" }), expected, "{path} {stored}");
        };
        for stored in ["/x?q=1&utm_a=2&z=3", "/x?q=1", "/x?q=1&z=3"] {
            check("/x?q=1&utm_a=2&z=3", stored, true);
        }
        for stored in ["/x", "/x?q=2", "/x?z=3", "/y?q=1"] {
            check("/x?q=1&utm_a=2&z=3", stored, false);
        }
        // Nothing of it counts.
        check("/x?utm_a=2", "/x", true);
        check("/x?utm_a=2", "/x?z=3", false);
    }

    #[test]
    fn a_path_is_the_same_in_all_spellings() {
        let label = Label { key: b"http://example.org/%7Eu/a%2bb?q=%41 up", tags: b"" };
        for (text, expected) in [
            ("path - /~u/a+b", true),
            ("path - /%7eu/%61%2Bb", true),
            ("path - /~u/a+b?q=A", true),
            ("path - /~u/a+b?q=a", false),
            ("path - /~u/a%252bb", false),
            ("path - /~u/a", false),
            ("prefix - /~u/", true),
            ("prefix - /%7Eu/a", true),
            ("prefix - /~v/", false),
        ] {
            assert_eq!(purge(text).matches(&label), expected, "{text}");
        }
        // An encoded question mark begins no query.
        let label = Label { key: b"http://example.org/a%3fb up", tags: b"" };
        assert!(purge("path - /a%3Fb").matches(&label) && !purge("path - /a").matches(&label));
    }

    #[test]
    fn the_default_port_of_a_host_is_the_same_as_none() {
        let label = Label { key: b"https://example.org/a up", tags: b"" };
        for (text, expected) in
            [("all example.org -", true), ("all example.org:443 -", true), ("all example.org:80 -", false)]
        {
            assert_eq!(purge(text).matches(&label), expected, "{text}");
        }
        assert!(!purge("all example.org:443 -").matches(&LABEL));
    }

    #[test]
    fn hostile_labels_match_only_what_they_are() {
        for key in [&b""[..], b"://", b"http://", b"http:///", b"\xff\xfe://\0/", b" "] {
            let label = Label { key, tags: b"" };
            for text in ["path - /a", "prefix - /a", "tag - x", "tag - -", "all a -"] {
                assert!(!purge(text).matches(&label), "{text} {}", key.escape_ascii());
            }
            assert!(Purge::all().matches(&label));
        }
        // A client cannot move the end of the host.
        let label = Label { key: b"http://a.example/://b.example/x up", tags: b"" };
        assert!(purge("path a.example /://b.example/x").matches(&label));
        assert!(!purge("prefix b.example /").matches(&label));
    }

    #[test]
    fn a_purge_is_parsed_from_its_text() {
        for text in ["all - -", "path a.example /x?y", "prefix - /", "tag a.example:80 t"] {
            assert_eq!(purge(text).to_string(), text);
        }
        let long = format!("path - /{}", "x".repeat(LONGEST));
        for text in [
            "",
            "all",
            "all -",
            "all - x",
            "all  -",
            "path - x",
            "path - ",
            "path - /a b",
            "path - /a\n",
            "tag - a b",
            "tag - \u{e4}",
            "key - http://a/",
            "other - /",
            &long,
        ] {
            assert_eq!(text.parse::<Purge>(), Err(InvalidPurge), "{text:?}");
        }
    }

    #[test]
    fn what_began_before_a_purge_is_not_stored_after_it() {
        let mut purges = Purges::default();
        let (before, after) = (Epoch(9), Epoch(11));
        let running = purges.begin(purge("path - /a/b"), Epoch(10));
        assert!(purges.forbid_storing(before, &LABEL) && !purges.forbid_storing(after, &LABEL));
        assert!(purges.forbid_using(before, &LABEL) && !purges.forbid_using(after, &LABEL));
        assert!(purges.forbid_storing(running, &LABEL), "in the same microsecond");
        let other = Label { key: b"http://a/other up", tags: b"" };
        assert!(!purges.forbid_storing(before, &other) && !purges.forbid_using(before, &other));
        purges.end(running);
        assert!(!purges.forbid_using(before, &LABEL), "its file is gone");
        assert!(purges.forbid_storing(before, &LABEL), "but the request may still run");
    }

    #[test]
    fn more_purges_than_are_remembered_forbid_all_that_began_before() {
        let mut purges = Purges::default();
        let before = Epoch(9);
        for _ in 0..=REMEMBERED {
            let number = purges.begin(purge("path - /other"), Epoch(10));
            purges.end(number);
        }
        assert!(purges.forbid_storing(before, &LABEL));
        assert!(!purges.forbid_storing(Epoch(1000), &LABEL));
        assert!(!purges.forbid_using(before, &LABEL), "a file that is there may be used");
        assert_eq!(purges.remembered.len(), REMEMBERED);
    }
}
