//! Patterns of routes: those of what is below others, within a prefix, or written in any case.

use site::route::ANY_CASE;

use crate::brackets::{self, has_class, is_glob, is_wildcard, lowered};
use crate::class::Class;

/// Patterns that one becomes in all ways to write its letters.
const MAX_CASES: usize = 64;
/// Parts of a path that a target can name.
const MAX_WILDCARDS: usize = 9;
/// Places of a text at which a pattern may begin.
const MAX_OVERLAPS: usize = 64;

/// The pattern of one path, without what is below it if it is a folder.
pub fn alone(path: &str) -> String {
    if path.ends_with('/') && !is_glob(path) { format!("{path}.") } else { path.to_owned() }
}

/// The pattern of what is below the paths of a pattern. That of one path is the folder itself, too.
pub fn below_of(pattern: &str) -> String {
    let pattern = pattern.strip_suffix("/.").unwrap_or(pattern);
    match is_glob(pattern) {
        false => format!("{pattern}/"),
        true if pattern.starts_with('/') => format!("{pattern}/**"),
        // The last segment, at any depth.
        true => format!("/**/{pattern}/**"),
    }
}

/// A pattern in all ways to write its letters. `None`: there are too many.
pub fn any_case(pattern: &str) -> Option<Vec<String>> {
    if has_class(pattern) {
        return None;
    }
    let mut all = vec![String::new()];
    for c in pattern.chars() {
        let mut cases = vec![c.to_ascii_lowercase(), c.to_ascii_uppercase()];
        cases.dedup();
        all = all.iter().flat_map(|before| cases.iter().map(move |c| format!("{before}{c}"))).collect();
        if all.len() > MAX_CASES {
            return None;
        }
    }
    Some(all)
}

/// A pattern for which case does not count. `None`: there is none for a folder alone.
pub fn ignoring_case(pattern: &str) -> Option<String> {
    let has_case = |c: char| c.is_ascii_alphabetic() || Class::of(c).is_some_and(Class::has_case);
    if !pattern.contains(has_case) || pattern.starts_with(ANY_CASE) {
        return Some(pattern.to_owned());
    }
    let end = if pattern.ends_with('/') { "**" } else { "" };
    Some(format!("{ANY_CASE}{pattern}{end}")).filter(|pattern| brackets::parse(pattern).is_ok())
}

/// The paths of a pattern that are below a prefix. `None`: no pattern can say it.
pub fn within(prefix: &str, pattern: &str) -> Option<String> {
    if let Some(pattern) = pattern.strip_prefix(ANY_CASE) {
        return ignoring_case(&within(prefix, pattern)?);
    }
    let folder = prefix.strip_suffix('/').filter(|folder| !is_glob(folder))?;
    if pattern.starts_with(prefix) {
        return Some(pattern.to_owned());
    }
    match pattern.strip_prefix("/**") {
        Some(rest) => Some(format!("{folder}/**{rest}")),
        // The last segment, at any depth.
        None if !pattern.starts_with('/') => Some(format!("{folder}/**/{pattern}")),
        None => below(prefix, pattern),
    }
}

/// The paths of a pattern that begin with a longer text than it does itself.
fn below(text: &str, pattern: &str) -> Option<String> {
    let at = pattern.find("**").filter(|at| text.starts_with(&pattern[..*at]))?;
    Some(format!("{text}{}", &pattern[at..]))
}

/// The paths of a pattern that begin with a text, such as `/a.php` for `/a`. `None`: no pattern can say it.
pub fn beginning(text: &str, pattern: &str) -> Option<String> {
    if let Some(pattern) = pattern.strip_prefix(ANY_CASE) {
        return ignoring_case(&beginning(text, pattern)?);
    }
    if text.ends_with('/') {
        return within(text, pattern);
    }
    match pattern.strip_prefix("/**") {
        _ if pattern.starts_with(text) => Some(pattern.to_owned()),
        Some(rest) => Some(format!("{text}**{rest}")),
        None => match pattern.strip_prefix('*') {
            Some(end) => Some(format!("{text}**{}", end.trim_start_matches('*'))),
            None => below(text, pattern),
        },
    }
}

/// As `beginning`, also where the text itself has a part of what the pattern finds: `/a/b/**.php` for `/a/b/` and
/// `/**/b/**.php`. Nothing: no pattern can say it.
pub fn all_beginning(text: &str, pattern: &str) -> Vec<String> {
    if let Some(pattern) = pattern.strip_prefix(ANY_CASE) {
        let all = all_beginning(&text.to_ascii_lowercase(), &lowered(pattern));
        return all.iter().filter_map(|pattern| ignoring_case(pattern)).collect();
    }
    let mut all: Vec<String> = beginning(text, pattern).into_iter().collect();
    let Some(rest) = pattern.strip_prefix("/**") else { return all };
    let may_begin = |(_, c): &(usize, char)| rest.starts_with(*c);
    for (at, _) in text.char_indices().filter(may_begin).take(MAX_OVERLAPS) {
        let (before, end) = text.split_at(at);
        let found = match rest.starts_with(end) {
            true if end == "/" => None,
            true => Some(rest.to_owned()),
            false => below(end, rest),
        };
        let found = found.map(|found| format!("{before}{found}"));
        all.extend(found.filter(|found| !all.contains(found)));
    }
    all
}

/// The paths that only begin with this text, besides those below it as a folder: `/admin.php` for `/admin`. Other
/// servers compare texts, and here a prefix is whole segments.
pub fn longer_names(text: &str) -> Option<String> {
    (!text.ends_with('/')).then(|| format!("{text}?*/**"))
}

/// A target that is what the pattern finds: `/a/${1}.css` for `/a/*.css`. `None`: it has too many wildcards.
pub fn numbered(pattern: &str) -> Option<String> {
    let (mut to, mut count, mut follows_star) = (String::new(), 0, false);
    for c in pattern.chars() {
        match c {
            '*' if follows_star => {
                follows_star = false;
                continue;
            }
            c if is_wildcard(c) => {
                count += 1;
                to.push_str(&format!("${{{count}}}"));
            }
            '$' => to.push_str("$$"),
            c => to.push(c),
        }
        follows_star = c == '*';
    }
    (count <= MAX_WILDCARDS).then_some(to)
}

/// Whether it is a pattern, and not the one of every file.
pub fn is_usable(pattern: &str) -> bool {
    pattern != "*" && brackets::parse(pattern).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widens_and_narrows_patterns() {
        assert_eq!(any_case("*.b").unwrap(), ["*.b", "*.B"]);
        assert_eq!(any_case("/administrator"), None);
        for (pattern, expected) in [
            ("*.b", Some("(?i)*.b")),
            ("/a/", Some("(?i)/a/**")),
            ("/a/.", None),
            ("/*", Some("/*")),
            ("(?i)/a", Some("(?i)/a")),
        ] {
            assert_eq!(ignoring_case(pattern).as_deref(), expected, "{pattern}");
        }
        assert_eq!(within("/a/", "(?i)*.b").as_deref(), Some("(?i)/a/**/*.b"));
        assert_eq!(beginning("/a", "(?i)*.b").as_deref(), Some("(?i)/a**.b"));
        for (prefix, pattern, expected) in [
            ("/a/", "*.php", Some("/a/**/*.php")),
            ("/a/", "/**/.ht**", Some("/a/**/.ht**")),
            ("/a/", "/a/b", Some("/a/b")),
            ("/a/", "/b", None),
            ("/a", "*.php", None),
            ("/", "*.php", Some("/**/*.php")),
            ("/a/b/", "/a/**/*.php", Some("/a/b/**/*.php")),
            ("/a/b/", "/c/**/*.php", None),
        ] {
            assert_eq!(within(prefix, pattern).as_deref(), expected, "{prefix} {pattern}");
        }
        for (text, pattern, expected) in [
            ("/a/", "*.php", Some("/a/**/*.php")),
            ("/a", "*.php", Some("/a**.php")),
            ("/a", "/**/.ht**", Some("/a**/.ht**")),
            ("/a", "/b", None),
            ("/a/b", "/a/**/*.php", Some("/a/b**/*.php")),
        ] {
            assert_eq!(beginning(text, pattern).as_deref(), expected, "{text} {pattern}");
        }
        assert_eq!(longer_names("/a").as_deref(), Some("/a?*/**"));
        assert_eq!(longer_names("/a/"), None);
    }

    #[test]
    fn finds_what_a_text_has_of_a_pattern_itself() {
        for (text, pattern, expected) in [
            ("/b/", "/**/b/?**.php", &["/b/**/b/?**.php", "/b/?**.php"][..]),
            ("/a/b/", "/**/b/**.php", &["/a/b/**/b/**.php", "/a/b/**.php"]),
            ("/a/b/c/", "/**/b/**.php", &["/a/b/c/**/b/**.php", "/a/b/c/**.php"]),
            ("/.well-known/x/", "/**/.**", &["/.well-known/x/**/.**", "/.well-known/x/**"]),
            ("/a.b/", "/**.**/**.php", &["/a.b/**.**/**.php", "/a.b/**/**.php"]),
            ("/B/", "(?i)/**/b/**.php", &["(?i)/b/**/b/**.php", "(?i)/b/**.php"]),
            ("/a/", "*.php", &["/a/**/*.php"]),
            ("/a/", "/b/", &[]),
        ] {
            assert_eq!(all_beginning(text, pattern), expected, "{text} {pattern}");
        }
    }
}
