//! The language of a response by `Accept-Language` (RFC 9110 §12.5.4), and its charset by `Accept-Charset` (§12.5.2).
//! Knows nothing of files: the available languages and charsets are an argument.

use super::weighted;
use crate::fields::list;

/// Members of a field that count. A browser sends at most a dozen.
const MEMBERS: usize = 64;
/// Characters of a language tag: those that RFC 5646 §4.4.1 advises to support.
const MAX_TAG: usize = 35;

/// Whether `text` has the form of a language tag (RFC 5646 §2.1): subtags of one to eight letters and digits, of which
/// the first has letters only.
pub fn is_tag(text: &str) -> bool {
    let is_subtag = |subtag: &str| {
        (1..=8).contains(&subtag.len()) && subtag.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let first = text.split('-').next().unwrap_or_default();
    text.len() <= MAX_TAG
        && first.bytes().all(|byte| byte.is_ascii_alphabetic())
        && text.split('-').all(is_subtag)
}

/// The index of the language that the client prefers. `available` is in the order of the server's preference. `None`:
/// the client accepts none of them, or has not said.
///
/// A language has the weight of the longest range that is a prefix of it (RFC 4647 §3.3.1). Without one, it has that of
/// the longest range that it is a prefix of, so that `de` is for a client that asks for `de-CH` (lookup, §3.4); and
/// else that of `*`. The range that the client names first decides between equal weights.
pub fn choose_language<'a, 't>(
    accept_language: impl Iterator<Item = &'a [u8]>,
    available: impl Iterator<Item = &'t str>,
) -> Option<usize> {
    choose(accept_language, available, |range, tag| match (is_prefix(range, tag), is_prefix(tag, range)) {
        (true, _) => Some(Match::Filter(range.len())),
        (false, true) => Some(Match::Lookup(range.len())),
        (false, false) => None,
    })
}

/// As `choose_language`, for charsets.
pub fn choose_charset<'a, 't>(
    accept_charset: impl Iterator<Item = &'a [u8]>,
    available: impl Iterator<Item = &'t str>,
) -> Option<usize> {
    choose(accept_charset, available, |range, name| {
        range.eq_ignore_ascii_case(name).then_some(Match::Filter(range.len()))
    })
}

/// How a range matches. The greatest match counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    Any,
    /// The characters of the range.
    Lookup(usize),
    Filter(usize),
}

fn choose<'a, 't>(
    values: impl Iterator<Item = &'a [u8]>,
    available: impl Iterator<Item = &'t str>,
    compare: impl Fn(&[u8], &[u8]) -> Option<Match>,
) -> Option<usize> {
    let mut ranges = [(&b""[..], 0); MEMBERS];
    let mut count = 0;
    for (range, member) in ranges.iter_mut().zip(list(values).filter_map(weighted)) {
        *range = member;
        count += 1;
    }
    let ranges = &ranges[..count];
    let mut best: Option<(usize, u16, usize)> = None;
    for (index, name) in available.enumerate() {
        let found = |(position, (range, weight)): (usize, &(&[u8], u16))| {
            let found = match *range {
                b"*" => Some(Match::Any),
                range => compare(range, name.as_bytes()),
            };
            found.map(|found| (found, *weight, position))
        };
        // Of two that match alike, the first in the field.
        let first = |one: (Match, u16, usize), other: (Match, u16, usize)| {
            if other.0 > one.0 { other } else { one }
        };
        let Some((_, weight, position)) = ranges.iter().enumerate().filter_map(found).reduce(first) else {
            continue;
        };
        let is_better = best.is_none_or(|(_, most, at)| weight > most || (weight == most && position < at));
        if weight > 0 && is_better {
            best = Some((index, weight, position));
        }
    }
    best.map(|(index, ..)| index)
}

/// Whether `tag` is `prefix`, or begins with it and a hyphen.
fn is_prefix(prefix: &[u8], tag: &[u8]) -> bool {
    tag.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        && matches!(tag.get(prefix.len()), None | Some(b'-'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn language<'t>(field: &str, available: &[&'t str]) -> Option<&'t str> {
        let values = field.split('\n').map(str::as_bytes);
        choose_language(values, available.iter().copied()).map(|index| available[index])
    }

    #[test]
    fn chooses_a_language() {
        const ALL: &[&str] = &["en", "de", "pt-BR", "zh-Hant-TW"];
        for (field, available, expected) in [
            ("", ALL, None),
            ("de", ALL, Some("de")),
            ("DE", ALL, Some("de")),
            ("fr", ALL, None),
            ("*", ALL, Some("en")),
            ("fr, *;q=0.1", ALL, Some("en")),
            ("*, en;q=0", ALL, Some("de")),
            ("*;q=0, de", ALL, Some("de")),
            ("*;q=0", ALL, None),
            ("de;q=0", ALL, None),
            ("de, en", ALL, Some("de")),
            ("en, de", ALL, Some("en")),
            ("de;q=0.5, en;q=0.6", ALL, Some("en")),
            ("de;q=0.5\nen;q=0.6", ALL, Some("en")),
            ("en;q=0.001", ALL, Some("en")),
            // A range matches the tags that begin with it.
            ("pt", ALL, Some("pt-BR")),
            ("zh-Hant", ALL, Some("zh-Hant-TW")),
            ("p", ALL, None),
            ("pt-B", ALL, None),
            // A tag is for a client that asks for more than it says.
            ("de-CH", ALL, Some("de")),
            ("de-CH, en;q=0.9", ALL, Some("de")),
            ("de-CH;q=0.1, en;q=0.9", ALL, Some("en")),
            ("pt-PT", ALL, None),
            // The longest range counts.
            ("de, de-AT;q=0", &["de-AT", "de-CH"], Some("de-CH")),
            ("de-AT;q=0.1, de", &["de-AT", "de-CH"], Some("de-CH")),
            ("de;q=0, de-CH", ALL, None),
            ("de-CH, de;q=0", ALL, None),
            // What is malformed does not count.
            ("de;q=2, en;q=0.1", ALL, Some("en")),
            ("de;q=x", ALL, None),
            (",,;q=1,", ALL, None),
            ("de", &[], None),
        ] {
            assert_eq!(language(field, available), expected, "{field:?} {available:?}");
        }
    }

    #[test]
    fn ignores_what_follows_the_first_members() {
        let ignored = format!("{}de", "xx, ".repeat(MEMBERS));
        assert_eq!(language(&ignored, &["en", "de"]), None);
        let counted = format!("{}de", "xx, ".repeat(MEMBERS - 1));
        assert_eq!(language(&counted, &["en", "de"]), Some("de"));
    }

    #[test]
    fn chooses_a_charset() {
        let charset =
            |field: &str| choose_charset([field.as_bytes()].into_iter(), ["utf-8", "iso-8859-1"].into_iter());
        assert_eq!(charset("ISO-8859-1"), Some(1));
        assert_eq!(charset("iso-8859-1;q=0.5, *"), Some(0));
        assert_eq!(charset("iso-8859-1, utf-8;q=0.7"), Some(1));
        assert_eq!(charset("iso"), None);
        assert_eq!(charset("koi8-r"), None);
    }

    #[test]
    fn recognises_tags() {
        for (text, expected) in [
            ("de", true),
            ("zh-Hant-TW", true),
            ("x-klingon", true),
            ("de-1996", true),
            ("", false),
            ("de-", false),
            ("-de", false),
            ("de_CH", false),
            ("12", false),
            ("toolongtag", false),
            ("de.html", false),
            ("aa-bb-cc-dd-ee-ff-gg-hh-ii-jj-kk-ll-mm", false),
        ] {
            assert_eq!(is_tag(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_chooses_what_the_client_excludes(field in "[a-d*,;=q0.1 -]{0,60}") {
            let field = format!("aa;q=0, {field}");
            prop_assert_eq!(language(&field, &["aa"]), None);
        }
    }
}
