//! Files that several sections are for: what the later one says goes over what the earlier one says, and the first
//! pattern of a route counts, so that the patterns of such files come in front.

use std::collections::{BTreeMap, BTreeSet};

use site::route::ANY_CASE;

use crate::apache::context::Context;
use crate::brackets::{has_class, is_wildcard, shown};
use crate::draft::{Draft, TOO_MANY_ROUTES};
use crate::tree::Place;

/// Patterns that the common files of two others become.
const MAX_COMMON: usize = 8;
/// Sections that are compared by what they set.
const MAX_REPORTED: usize = 50;
/// Steps through two patterns.
const MAX_STEPS: usize = 65_536;

/// A pattern, what is said about its files, and where.
pub(super) type Section = (String, Context, Place);

/// A pattern, and how many sections are for its files.
struct Known {
    section: Section,
    count: usize,
}

/// Adds the patterns of files that several of these sections are for, and puts all in order. Later sections go over
/// earlier ones.
pub(super) fn merged(all: Vec<Section>, draft: &mut Draft) -> Vec<Section> {
    report_fields(&all, draft);
    let mut known: Vec<Known> = Vec::new();
    let mut is_sure = true;
    for mut section in all {
        let found = common_with(&section, &known);
        if found.is_none() || known.len() > TOO_MANY_ROUTES {
            is_sure = false;
            let what = "these files cannot be told from those of earlier sections, so that they are denied";
            let hides = known.iter().any(|old| hide_folders(&section.1, &old.section.1));
            if section.1.has_access() && !section.1.is_denied() || hides {
                draft.error(&section.2, what, "write one section for them");
                section.1.close();
            }
        }
        add(&mut known, section, found.unwrap_or_default());
    }
    // What denies comes first, if files of others may be among those of a pattern.
    let is_open = |context: &Context| !context.has_access() || context.is_granted();
    sort::by_key(&mut known, |one| {
        let is_open = is_open(&one.section.1);
        (!is_sure && is_open, usize::MAX - one.count, is_open)
    });
    known.into_iter().map(|one| one.section).collect()
}

/// Reports files that two sections set something for: here they have what the first one of their patterns sets.
fn report_fields(all: &[Section], draft: &mut Draft) {
    let sets = |(_, context, _): &&Section| !context.keys().is_empty() && !context.has_access();
    let setting: Vec<&Section> = all.iter().filter(sets).take(MAX_REPORTED).collect();
    for (at, (pattern, context, place)) in setting.iter().enumerate() {
        let is_other = |(other, before, _): &&&Section| {
            let differs = other != pattern && before.keys().differs_from(&context.keys(), &[]).is_some();
            differs && common(other, pattern).is_none_or(|both| !both.is_empty())
        };
        if let Some((other, ..)) = setting[..at].iter().find(is_other) {
            let (other, own) = (shown(other), shown(pattern));
            let what = format!("files of {other} that are files of {own}, too, have what one of them sets");
            draft.warn(place, what, "nothing to do, unless there are such files: write a section for them");
        }
    }
}

/// The patterns that a section has together with known ones, each with what is said about it by then. `None`: they
/// cannot be said.
fn common_with((pattern, context, place): &Section, known: &[Known]) -> Option<BTreeMap<String, Known>> {
    let mut found: BTreeMap<String, Known> = BTreeMap::new();
    for old in known {
        let (earlier, before, at) = &old.section;
        let has_both = context.has_access() && before.has_access();
        let is_decided = before.is_denied() && context.is_denied() || !has_both;
        let is_needless = at == place || is_decided && !hide_folders(context, before);
        let patterns = match earlier == pattern {
            true => vec![pattern.clone()],
            false if is_needless => continue,
            false => common(earlier, pattern)?,
        };
        for both in patterns {
            let both = if whole(&both) == whole(earlier) { earlier.clone() } else { both };
            let both = if whole(&both) == whole(pattern) { pattern.clone() } else { both };
            if found.get(&both).is_none_or(|other| other.count <= old.count) {
                let section = (both.clone(), context.over(before), place.clone());
                found.insert(both, Known { section, count: old.count + 1 });
            }
        }
    }
    Some(found)
}

/// Whether one of two sections says that folders are not listed, which the route of the other one would not.
fn hide_folders(one: &Context, other: &Context) -> bool {
    one.lists_nothing() != other.lists_nothing() && !(one.is_denied() || other.is_denied())
}

fn add(known: &mut Vec<Known>, section: Section, mut found: BTreeMap<String, Known>) {
    found.entry(section.0.clone()).or_insert(Known { section, count: 1 });
    for (pattern, mut new) in found {
        match known.iter_mut().find(|old| old.section.0 == pattern) {
            Some(old) => {
                // Programs and fields of the section remain.
                new.section.2 = old.section.2.clone();
                *old = new;
            }
            None => known.push(new),
        }
    }
}

/// A pattern that begins with a slash.
fn whole(pattern: &str) -> String {
    let (case, text) = pattern.strip_prefix(ANY_CASE).map_or(("", pattern), |text| (ANY_CASE, text));
    if text.starts_with('/') { pattern.to_owned() } else { format!("{case}/**/{text}") }
}

/// The patterns of the paths that two patterns have in common. `None`: no few patterns can say it.
pub(super) fn common(one: &str, other: &str) -> Option<Vec<String>> {
    let (one, other) = (whole(one), whole(other));
    if one != other && (has_class(&one) || has_class(&other)) {
        return are_apart(&one, &other).then(Vec::new);
    }
    let (small, large) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
    match (one.strip_prefix(ANY_CASE), other.strip_prefix(ANY_CASE)) {
        (None, None) => common_of_whole(&one, &other),
        (Some(_), Some(_)) => {
            let all = common_of_whole(&small[ANY_CASE.len()..], &large[ANY_CASE.len()..])?;
            Some(all.into_iter().map(|pattern| format!("{ANY_CASE}{pattern}")).collect())
        }
        (any_case, _) => {
            let (any, exact) = if any_case.is_some() { (small, other) } else { (large, one) };
            let found = common_of_whole(&any[ANY_CASE.len()..], &exact.to_ascii_lowercase())?;
            match found.is_empty() {
                true => Some(Vec::new()),
                // Only then the letters are those of the pattern that counts them.
                false => (found == [exact.to_ascii_lowercase()]).then(|| vec![exact]),
            }
        }
    }
}

/// Whether texts at the beginnings or the ends of two patterns say that no path is one of both.
fn are_apart(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|pattern| {
        let pattern = pattern.to_ascii_lowercase();
        pattern.strip_prefix(ANY_CASE).map(str::to_owned).unwrap_or(pattern)
    });
    let begin = |pattern: &str| pattern.split(is_wildcard).next().unwrap_or_default().to_owned();
    let end = |pattern: &str| pattern.rsplit(is_wildcard).next().unwrap_or_default().to_owned();
    let (begins, ends) = ([begin(&one), begin(&other)], [end(&one), end(&other)]);
    // That of a folder says nothing about what is below it.
    let is_folder = |end: &String| end.ends_with('/') || end.ends_with("/.");
    let differ_first = !begins[0].starts_with(&begins[1]) && !begins[1].starts_with(&begins[0]);
    let differ_last = !ends[0].ends_with(&ends[1]) && !ends[1].ends_with(&ends[0]);
    differ_first || differ_last && !ends.iter().any(is_folder)
}

fn common_of_whole(one: &str, other: &str) -> Option<Vec<String>> {
    let mut steps = 0;
    let mut all = BTreeSet::new();
    for first in tokens(one) {
        for second in tokens(other) {
            let mut seen = BTreeMap::new();
            all.extend(Common { first: &first, second: &second }.from(0, 0, &mut seen, &mut steps)?);
        }
    }
    // `/**/` is no folder, too.
    let is_within = |text: &String| {
        let slashes = text.match_indices('/');
        let wider = slashes.map(|(at, _)| format!("{}/**{}", &text[..at], &text[at..]));
        wider.into_iter().any(|wider| all.contains(&wider))
    };
    let kept: Vec<String> = all.iter().filter(|text| !is_within(text)).cloned().collect();
    (kept.len() <= MAX_COMMON).then_some(kept)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`
    One,
    /// `*`
    Some,
    /// `**`
    Deep,
}

impl Token {
    fn is_many(self) -> bool {
        matches!(self, Token::Some | Token::Deep)
    }

    /// Whether wildcards match what this one does once.
    fn is_in(self, many: Token) -> bool {
        self != Token::Char('/') || many == Token::Deep
    }

    fn write(self, out: &mut String) {
        match self {
            Token::Char(c) => out.push(c),
            Token::One => out.push('?'),
            Token::Some => out.push('*'),
            Token::Deep => out.push_str("**"),
        }
    }
}

/// A pattern in parts. `/**/` is a slash, or some folders between two.
fn tokens(pattern: &str) -> Vec<Vec<Token>> {
    let mut all = vec![Vec::new()];
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("/**/") && all.len() < 4 {
            let deep = all.iter().cloned().map(|mut one: Vec<Token>| {
                one.extend([Token::Char('/'), Token::Deep]);
                one
            });
            all = all.iter().cloned().chain(deep).collect();
            rest = &rest[3..];
            continue;
        }
        let (token, length) = match c {
            '*' if rest.starts_with("**") => (Token::Deep, 2),
            '*' => (Token::Some, 1),
            '?' => (Token::One, 1),
            c => (Token::Char(c), c.len_utf8()),
        };
        all.iter_mut().for_each(|one| one.push(token));
        rest = &rest[length..];
    }
    all
}

struct Common<'t> {
    first: &'t [Token],
    second: &'t [Token],
}

type Seen = BTreeMap<(usize, usize), BTreeSet<String>>;

impl Common<'_> {
    /// What both patterns find from these tokens on.
    fn from(&self, i: usize, j: usize, seen: &mut Seen, steps: &mut usize) -> Option<BTreeSet<String>> {
        if let Some(found) = seen.get(&(i, j)) {
            return Some(found.clone());
        }
        *steps += 1;
        if *steps > MAX_STEPS {
            return None;
        }
        let mut all = BTreeSet::new();
        let mut add = |token: Option<Token>, i: usize, j: usize| {
            let rest = self.from(i, j, seen, steps)?;
            all.extend(rest.into_iter().map(|rest| {
                let mut text = String::new();
                if let Some(token) = token {
                    token.write(&mut text);
                }
                text + &rest
            }));
            Some(())
        };
        match (self.first.get(i).copied(), self.second.get(j).copied()) {
            (None, None) => _ = all.insert(String::new()),
            (Some(one), Some(other)) if one.is_many() && other.is_many() => {
                let narrower = if one == Token::Some { one } else { other };
                add(Some(narrower), i + 1, j)?;
                add(Some(narrower), i, j + 1)?;
            }
            (Some(many), other) if many.is_many() => {
                add(None, i + 1, j)?;
                if let Some(other) = other.filter(|other| other.is_in(many)) {
                    add(Some(other), i, j + 1)?;
                }
            }
            (one, Some(many)) if many.is_many() => {
                add(None, i, j + 1)?;
                if let Some(one) = one.filter(|one| one.is_in(many)) {
                    add(Some(one), i + 1, j)?;
                }
            }
            (Some(Token::One), Some(other)) if other != Token::Char('/') => add(Some(other), i + 1, j + 1)?,
            (Some(one), Some(Token::One)) if one != Token::Char('/') => add(Some(one), i + 1, j + 1)?,
            (Some(one), Some(other)) if one == other => add(Some(one), i + 1, j + 1)?,
            _ => {}
        }
        if all.len() > 4 * MAX_COMMON {
            return None;
        }
        seen.insert((i, j), all.clone());
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_common_paths_of_patterns() {
        for (one, other, expected) in [
            ("*.inc", "/**/data.inc", Some(vec!["/**/data.inc"])),
            ("*.txt", "s*", Some(vec!["/**/s*.txt"])),
            ("*.txt", "*.inc", Some(vec![])),
            ("*a*", "*.txt", Some(vec!["/**/*a*.txt"])),
            ("/priv/**/*.txt", "/**/a.*", Some(vec!["/priv/**/a.*.txt", "/priv/**/a.txt"])),
            ("/priv/**/*.txt", "/pub/**", Some(vec![])),
            ("/priv/**", "/**/deep/**", Some(vec!["/priv/**/deep/**"])),
            ("/a/*/c", "/**/b/c", Some(vec!["/a/b/c"])),
            ("a?", "?b", Some(vec!["/**/ab"])),
            ("(?i)*.A", "(?i)b*", Some(vec!["(?i)/**/b*.a"])),
            ("(?i)*.inc", "/**/Data.Inc", Some(vec!["/**/Data.Inc"])),
            ("(?i)*.inc", "/**/a.txt", Some(vec![])),
            ("(?i)*.inc", "a*", None),
        ] {
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(common(one, other), expected, "{one} {other}");
            assert_eq!(common(other, one), expected, "{other} {one}");
        }
    }
}
