//! Entity tags (RFC 9110 §8.8.3) in the form of the field: `"x"` and `W/"x"`. Knows nothing of how a tag is made.

use crate::fields::trim_ows;

/// The comparison functions (RFC 9110 §8.8.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Equal, and neither is weak.
    Strong,
    /// Equal without regard to `W/`.
    Weak,
}

/// `[ "W/" ] DQUOTE *etagc DQUOTE`. A backslash is not an escape, unlike in a quoted string.
pub fn is_entity_tag(bytes: &[u8]) -> bool {
    match opaque(bytes) {
        [b'"', inner @ .., b'"'] => inner.iter().all(|byte| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)),
        _ => false,
    }
}

/// Whether it begins with `W/`: it may be that of a representation with the same meaning, but other bytes.
pub fn is_weak(tag: &[u8]) -> bool {
    tag.starts_with(b"W/")
}

/// The strong comparison (RFC 9110 §8.8.3.2).
pub fn strong_eq(a: &[u8], b: &[u8]) -> bool {
    !is_weak(a) && a == b
}

fn weak_eq(a: &[u8], b: &[u8]) -> bool {
    opaque(a) == opaque(b)
}

/// Whether the values of `If-Match` or `If-None-Match`, which are `*` or a list of tags, match the current tag.
/// `current` is `None` if there is no representation, and `Some(b"")` if it has no tag: then only `*` matches.
/// Returns `None` for a malformed or empty field.
pub fn list_matches<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    current: Option<&[u8]>,
    compare: Compare,
) -> Option<bool> {
    let equal = match compare {
        Compare::Strong => strong_eq,
        Compare::Weak => weak_eq,
    };
    let (mut stars, mut tags, mut found) = (0u32, 0u32, false);
    for mut line in values {
        // Bounded: each pass takes at least a byte.
        while let Some(start) = line.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b',')) {
            let (member, behind) = split_member(&line[start..])?;
            line = behind;
            match member {
                b"*" => stars += 1,
                tag => {
                    tags += 1;
                    found |= current.is_some_and(|current| equal(tag, current));
                }
            }
        }
    }
    match (stars, tags) {
        (0, 1..) => Some(found),
        (1, 0) => Some(current.is_some()),
        _ => None,
    }
}

/// Splits `line` after its first member and the comma. `None`: the member is neither a tag nor `*`, or no comma
/// follows. `fields::list` would take a backslash in a tag for an escape.
fn split_member(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = match opaque(line) {
        [b'"', inner @ ..] => line.len() - inner.len() + inner.iter().position(|&byte| byte == b'"')? + 1,
        _ => 1,
    };
    let (member, behind) = line.split_at_checked(len)?;
    if member != b"*" && !is_entity_tag(member) {
        return None;
    }
    match trim_ows(behind) {
        [] => Some((member, b"")),
        [b',', rest @ ..] => Some((member, rest)),
        _ => None,
    }
}

/// The tag of another representation of the same resource: `suffix` is added to the opaque part.
pub fn with_suffix(tag: &[u8], suffix: &str) -> Vec<u8> {
    let inner = tag.strip_suffix(b"\"").unwrap_or(tag);
    [inner, suffix.as_bytes(), b"\""].concat()
}

/// The weak tag with the same opaque part.
pub fn weak(tag: &[u8]) -> Vec<u8> {
    [b"W/", opaque(tag)].concat()
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn adds_a_suffix_inside_the_quotes() {
        assert_eq!(with_suffix(b"\"a-1\"", "-br"), b"\"a-1-br\"");
        assert_eq!(with_suffix(b"W/\"\"", "-zstd"), b"W/\"-zstd\"");
    }

    #[test]
    fn recognizes_entity_tags() {
        let rows: &[(&[u8], bool)] = &[
            (b"\"\"", true),
            (b"\"x\"", true),
            (b"W/\"x\"", true),
            (b"\"a,b\"", true),
            (b"\"a\\\"", true),
            (b"\"\xff\x80\"", true),
            (b"", false),
            (b"x", false),
            (b"\"", false),
            (b"\"x", false),
            (b"x\"", false),
            (b"w/\"x\"", false),
            (b"W\"x\"", false),
            (b"W/x", false),
            (b"\"a b\"", false),
            (b"\"a\"b\"", false),
            (b"\"a\x7f\"", false),
            (b"\"a\x00\"", false),
            (b"W/W/\"x\"", false),
            (b"*", false),
        ];
        for (tag, valid) in rows {
            assert_eq!(is_entity_tag(tag), *valid, "{}", tag.escape_ascii());
        }
    }

    #[test]
    fn compares_as_the_table_of_the_rfc() {
        let rows: [(&[u8], &[u8], bool, bool); 5] = [
            (b"W/\"1\"", b"W/\"1\"", false, true),
            (b"W/\"1\"", b"W/\"2\"", false, false),
            (b"W/\"1\"", b"\"1\"", false, true),
            (b"\"1\"", b"\"1\"", true, true),
            (b"\"1\"", b"\"2\"", false, false),
        ];
        for (a, b, strong, weak) in rows {
            assert_eq!((strong_eq(a, b), weak_eq(a, b)), (strong, weak));
            assert_eq!((strong_eq(b, a), weak_eq(b, a)), (strong, weak));
        }
    }

    #[test]
    fn matches_lists() {
        // The lines, and whether `"a"` is among them: strongly, weakly.
        let check = |lines: &[&str], strong: Option<bool>, weak: Option<bool>| {
            let values = || lines.iter().map(|line| line.as_bytes());
            let current = Some(&b"\"a\""[..]);
            assert_eq!(list_matches(values(), current, Compare::Strong), strong, "{lines:?}");
            assert_eq!(list_matches(values(), current, Compare::Weak), weak, "{lines:?}");
        };
        let (yes, no) = (Some(true), Some(false));
        check(&["\"a\""], yes, yes);
        check(&["W/\"a\""], no, yes);
        check(&["\"b\", \"a\""], yes, yes);
        check(&["\"b\"", "\"a\""], yes, yes);
        check(&["\"b\",W/\"a\"\t,\"c\""], no, yes);
        check(&[" , \"a\" ,,"], yes, yes);
        check(&["\"b\\\", \"a\""], yes, yes);
        check(&["\"b,\\\",\"a\""], yes, yes);
        check(&["\"b, \\\"a\\\"\""], None, None);
        check(&["\"A\""], no, no);
        check(&["\", \""], None, None);
        check(&["\",\""], no, no);
        check(&["*"], yes, yes);
        check(&[" * , "], yes, yes);
        for malformed in [
            &[""][..],
            &[],
            &[","],
            &["a"],
            &["\"a\" \"b\""],
            &["\"a\"x"],
            &["\"a\", b"],
            &["\"a\", *"],
            &["*, \"a\""],
            &["*", "*"],
            &["**"],
            &["*x"],
            &["\"a"],
            &["W/"],
            &["W/ \"a\""],
            &["w/\"a\""],
            &["\"a\"", "\"b"],
            &["\"a\";q=1"],
            &["é"],
        ] {
            check(malformed, None, None);
        }
    }

    #[test]
    fn a_star_matches_any_representation() {
        let star = || [&b"*"[..]].into_iter();
        let tags = || [&b"\"a\", \"\""[..]].into_iter();
        assert_eq!(list_matches(star(), None, Compare::Strong), Some(false));
        assert_eq!(list_matches(star(), Some(b""), Compare::Strong), Some(true));
        assert_eq!(list_matches(tags(), Some(b""), Compare::Weak), Some(false));
        assert_eq!(list_matches(tags(), None, Compare::Weak), Some(false));
    }

    proptest! {
        #[test]
        fn a_list_matches_its_members(
            tags in prop::collection::vec(("(W/)?", "[!#-~\u{80}-\u{ff}]{0,3}"), 1..6),
            current in "[!#-~]{0,3}",
            pick in any::<prop::sample::Index>(),
            cut in 0..6usize,
        ) {
            let quoted = |(weak, inner): (String, String)| format!("{weak}\"{inner}\"");
            let mut tags: Vec<String> = tags.into_iter().map(quoted).collect();
            let current = format!("\"{current}\"");
            let at = pick.index(tags.len());
            tags[at] = current.clone();
            let (first, second) = tags.split_at(cut.min(tags.len()));
            let lines = [first.join(", "), second.join(" ,\t")];
            let values = lines.iter().map(|line| line.as_bytes());
            let current = Some(current.as_bytes());
            prop_assert_eq!(list_matches(values.clone(), current, Compare::Strong), Some(true));
            let other = Some(&b"\"abcd\""[..]);
            prop_assert_eq!(list_matches(values, other, Compare::Weak), Some(false));
        }

        #[test]
        fn a_strong_match_is_a_weak_match(lines in prop::collection::vec(prop::collection::vec(
            prop::sample::select(b"\"W/*,a \\\t\xff".to_vec()), 0..12), 0..3))
        {
            let values = || lines.iter().map(Vec::as_slice);
            let current = Some(&b"\"a\""[..]);
            let strong = list_matches(values(), current, Compare::Strong);
            let weak = list_matches(values(), current, Compare::Weak);
            prop_assert!(strong <= weak);
            prop_assert_eq!(strong.is_none(), weak.is_none());
        }
    }
}
