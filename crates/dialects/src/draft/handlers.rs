//! What runs the files of a pattern, where another pattern says it. The first one that matches a path counts here, and
//! other servers add up what all of them say.

use site::route::ANY_CASE;

use crate::brackets::{is_glob, is_wildcard_or_slash};
use crate::class::Class;
use crate::pattern;

use super::{Host, Scope, TOO_MANY_ROUTES};

/// Patterns that a pattern and an end become together, and steps to find them.
const MAX_ENDS: usize = 64;
const MAX_STEPS: usize = 500;

impl Host {
    /// The first pattern alone counts here, where the other server runs a file by one section and has the settings of
    /// another. So a pattern without a response takes what runs the files of later patterns such as `*.php`, or stands
    /// once more for those of its files that they run.
    pub fn share_handlers(&mut self) {
        let mut at = 0;
        while let Some(route) = self.routes.get(at).filter(|_| self.routes.len() <= TOO_MANY_ROUTES) {
            let path = route.text("path").filter(|_| !route.responds() && !route.runs()).map(str::to_owned);
            let Some(path) = path else {
                at += 1;
                continue;
            };
            for (both, handler) in self.handlers_of(&path, at) {
                let mut joined = self.routes[at].clone();
                joined.replace(&handler);
                joined.put(joined.line, "path", both.as_str().into(), None);
                let known = self.routes.iter().position(|route| route.text("path") == Some(&both));
                match known {
                    Some(known) if known == at => self.routes[at] = joined,
                    Some(known) if known < at || !is_glob(&both) => {}
                    Some(known) => at += self.put_in_front(at, known, &joined),
                    None => {
                        self.routes.insert(at, joined);
                        at += 1;
                    }
                }
            }
            at += 1;
        }
    }

    /// Puts the pattern at `known` in front of the one at `at`, with the settings of `joined`, and what decides in between
    /// in front of both. How many there are.
    fn put_in_front(&mut self, at: usize, known: usize, joined: &Scope) -> usize {
        let is_known = |route: &Scope| route.text("path") == joined.text("path");
        let decides =
            |route: &Scope| is_glob(route.path()) && (route.responds() || route.runs() || route.protects());
        let settings = self.routes[at].clone();
        let between: Vec<Scope> = self.routes.drain(at + 1..=known).collect();
        let (mut first, rest): (Vec<Scope>, Vec<Scope>) =
            between.into_iter().partition(|route| is_known(route) || decides(route));
        for route in &mut first {
            if is_known(route) {
                route.add(joined);
                if !route.responds() && !route.runs() {
                    route.replace(&joined.handler());
                }
            } else if settings.protects() {
                route.add(&settings);
            }
        }
        let count = first.len();
        self.routes.splice(at + 1..at + 1, rest);
        self.routes.splice(at..at, first);
        count
    }

    /// The paths of the pattern at this place that later patterns run, and what runs them: the first one that does.
    fn handlers_of(&self, path: &str, at: usize) -> Vec<(String, Scope)> {
        let is_exact = !is_glob(path) && !path.ends_with('/');
        let later = if is_exact { &self.routes[..] } else { &self.routes[at + 1..] };
        let mut all: Vec<(String, Scope)> = Vec::new();
        for other in later.iter().filter(|other| other.runs()) {
            for both in ends_of(path, other.path()) {
                if all.iter().all(|(own, _)| *own != both) {
                    all.push((both, other.handler()));
                }
            }
        }
        all
    }
}

/// The paths of a pattern that have this end, which has no slash. Several wildcards may have a part of it: `a.php` is one
/// of `*.ph*`, and so is `a.phx.php`.
pub fn with_ends(pattern: &str, end: &str) -> Vec<String> {
    // The names that begin with a text, and what is below them.
    let pattern =
        pattern.strip_suffix("?*/**").map_or_else(|| pattern.to_owned(), |text| format!("{text}**"));
    let (mut steps, mut all) = (MAX_STEPS, Vec::new());
    add_ended(&pattern, end, "", &mut steps, &mut all);
    all.into_iter().map(anywhere).collect()
}

/// A name without wildcards is one in every folder, as one with them.
fn anywhere(pattern: String) -> String {
    let (case, name) = pattern.strip_prefix(ANY_CASE).map_or(("", pattern.as_str()), |name| (ANY_CASE, name));
    if name.contains(is_wildcard_or_slash) { pattern } else { format!("{case}/**/{name}") }
}

/// Adds the paths of `pattern` that have the end `end`, with `rest` behind it.
fn add_ended(pattern: &str, end: &str, rest: &str, steps: &mut usize, all: &mut Vec<String>) {
    let Some(left) = steps.checked_sub(1).filter(|_| all.len() < MAX_ENDS) else { return };
    *steps = left;
    let mut add = |text: String| {
        if !all.contains(&text) {
            all.push(text);
        }
    };
    let (Some(own), Some(last)) = (pattern.chars().next_back(), end.chars().next_back()) else {
        return if end.is_empty() {
            add(format!("{pattern}{rest}"))
        };
    };
    if own == '*' {
        add(format!("{pattern}{end}{rest}"));
        // The wildcard has the last characters of the end, or nothing.
        let before = pattern.trim_end_matches('*');
        for (at, c) in end.char_indices() {
            let (first, behind) = end.split_at(at + c.len_utf8());
            add_ended(before, first, &format!("{behind}{rest}"), steps, all);
        }
        return;
    }
    let ignores_case = pattern.starts_with(ANY_CASE);
    let class = Class::of(own).map(|class| if ignores_case { class.in_any_case() } else { class });
    let finds = match class {
        Some(class) => class.has(last),
        None => own == last || own == '?' || ignores_case && own.eq_ignore_ascii_case(&last),
    };
    if finds {
        let (before, end) = (&pattern[..pattern.len() - own.len_utf8()], &end[..end.len() - last.len_utf8()]);
        let rest = format!("{last}{rest}");
        add_ended(before, end, &rest, steps, all);
        if class.is_some_and(Class::is_many) {
            add_ended(pattern, end, &rest, steps, all);
        }
    }
}

/// The paths of a pattern that are those of another one, which is `*.php` or `/a/**/*.php`.
fn ends_of(pattern: &str, other: &str) -> Vec<String> {
    let is_end = |end: &str| !end.contains(is_wildcard_or_slash);
    if let Some(end) = other.strip_prefix('*').filter(|end| is_end(end)) {
        return with_ends(pattern, end);
    }
    let Some((folder, end)) = other
        .split_once("**/*")
        .filter(|(folder, end)| is_end(end) && folder.ends_with('/') && !is_glob(folder))
    else {
        return Vec::new();
    };
    let all = with_ends(pattern, end).into_iter();
    let mut all: Vec<String> = all.flat_map(|pattern| pattern::all_beginning(folder, &pattern)).collect();
    all.truncate(MAX_ENDS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_paths_of_a_pattern_with_an_end() {
        for (pattern, end, expected) in [
            ("*.php*", ".php", &["*.php*.php", "*.php"][..]),
            ("*.ph*", ".php", &["*.ph*.php", "*.php"]),
            ("x*", ".sh", &["x*.sh"]),
            ("*", ".sh", &["*.sh"]),
            ("/a/x?*/**", ".sh", &["/a/x**.sh"]),
            ("*.s?", ".sh", &["*.sh"]),
            ("(?i)*.SH", ".sh", &["(?i)*.sh"]),
            ("/a/b.sh", ".sh", &["/a/b.sh"]),
            ("/a/", ".sh", &[]),
            ("*.txt", ".sh", &[]),
            (".*", ".sh", &[".*.sh", "/**/.sh"]),
            ("(?i)a*", "a", &["(?i)a*a", "(?i)/**/a"]),
            ("/x**p**", ".php", &["/x**p**.php", "/x**.php"]),
            ("/\u{F0401}", ".php", &[]),
            ("/\u{F0404}", "ab", &["/ab", "/\u{F0404}ab"]),
        ] {
            assert_eq!(with_ends(pattern, end), expected, "{pattern} {end}");
        }
        assert!(with_ends(&"?*".repeat(60), &"a".repeat(60)).len() <= MAX_ENDS);
    }
}
