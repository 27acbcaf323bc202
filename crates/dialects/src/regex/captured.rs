//! Expressions with groups, whose parts a target names: `$1`.

use super::parser::{MAX_DEPTH, classes, listed};
use super::syntax::unnamed;
use crate::class::Class;
use crate::pattern::{alone, ignoring_case, is_usable};

/// Patterns that one expression becomes.
const MAX_BRANCHES: usize = 32;

/// A pattern, and what a target has in place of each group of an expression: `$1`, `${rest}`, or a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    pub pattern: String,
    pub groups: Vec<String>,
}

impl Captured {
    /// A target in which `$1` is the first group. `None`: there is no such group.
    pub fn target(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out.push_str(before);
            match after.chars().next().and_then(|digit| digit.to_digit(10)) {
                Some(number) => {
                    out.push_str(self.groups.get((number as usize).checked_sub(1)?)?);
                    rest = &after[1..];
                }
                None => {
                    out.push('$');
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        Some(out)
    }

    /// The same, where the case of letters does not count. `None`: there is no such pattern for a folder alone.
    pub fn ignoring_case(self) -> Option<Captured> {
        let pattern = ignoring_case(&self.pattern)?;
        // One without letters stays, and `**` stands for the rest of a prefix that has some.
        if pattern == self.pattern {
            return Some(self);
        }
        let groups = self.groups.iter().map(|group| group.replace("${rest}", "$1")).collect();
        Some(Captured { pattern, groups })
    }
}

/// A part of an expression for which there is one of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Char(char),
    Wildcard(&'static str),
    Class(Class),
    Begin(usize),
    End(usize),
}

/// The patterns of the paths that an expression finds from their beginnings, with its groups. `None`: patterns cannot
/// say it.
pub fn captured(expression: &str) -> Option<Vec<Captured>> {
    let expression = unnamed(expression);
    let body = expression.strip_prefix('^')?;
    let (body, ends) = match body.strip_suffix('$').filter(|body| !body.ends_with('\\')) {
        Some(body) => (body, true),
        None => (body, false),
    };
    let mut groups = Groups { text: body.chars().collect(), at: 0, count: 0 };
    let mut all = groups.sequence(0)?;
    if groups.at < groups.text.len() {
        return None;
    }
    for units in &mut all {
        if !ends
            && !matches!(units.iter().rfind(|unit| !matches!(unit, Unit::End(_))), Some(Unit::Wildcard("**")))
        {
            units.push(Unit::Wildcard("**"));
        }
    }
    let plain: Vec<Vec<Unit>> = all.iter().map(|units| plain(units)).collect();
    if !end_alike(&plain) || !choose_alike(&plain) {
        return None;
    }
    let mut found: Vec<Captured> = Vec::new();
    for units in all {
        let one = of_units(&units, groups.count)?;
        if !found.iter().any(|other| other.pattern == one.pattern) {
            found.push(one);
        }
    }
    Some(found)
}

fn of_units(units: &[Unit], count: usize) -> Option<Captured> {
    let plain = plain(units);
    let wildcards = plain.iter().filter(|unit| is_variable(unit)).count();
    let is_prefix = wildcards == 1 && matches!(plain[..], [.., Unit::Char('/'), Unit::Wildcard("**")]);
    let (mut pattern, mut number) = (String::new(), 0);
    let mut groups = vec![String::new(); count];
    let mut open = Vec::new();
    for unit in units {
        let (text, value) = match unit {
            Unit::Begin(group) => {
                open.push(*group);
                continue;
            }
            Unit::End(group) => {
                open.retain(|other| other != group);
                continue;
            }
            Unit::Char('$') => ("$".to_owned(), "$$".to_owned()),
            Unit::Char(c) => (c.to_string(), c.to_string()),
            Unit::Class(class) => {
                number += 1;
                (class.character().to_string(), format!("${number}"))
            }
            Unit::Wildcard(text) => {
                number += 1;
                ((*text).to_owned(), if is_prefix { "${rest}".to_owned() } else { format!("${number}") })
            }
        };
        pattern.push_str(&text);
        open.iter().for_each(|group| groups[*group].push_str(&value));
    }
    // This finds no folder as well, and what is between two slashes has no slash at its end.
    if number > 9 || pattern.contains("***") || pattern.contains("/**/") {
        return None;
    }
    let pattern = match wildcards {
        0 => alone(&pattern),
        _ if is_prefix => pattern.trim_end_matches("**").to_owned(),
        _ => pattern.trim_end_matches('/').to_owned(),
    };
    is_usable(&pattern).then_some(Captured { pattern, groups })
}

/// The units without the marks of groups.
fn plain(units: &[Unit]) -> Vec<Unit> {
    units.iter().copied().filter(|unit| !matches!(unit, Unit::Begin(_) | Unit::End(_))).collect()
}

/// Whether the first pattern that finds a path has the text of each group as the expression has it.
fn choose_alike(all: &[Vec<Unit>]) -> bool {
    let chooses = |one: &[Unit], other: &[Unit]| {
        // One pattern is for a path with and without its last slash.
        let are_one = without_slash(one) == without_slash(other);
        are_one || differ_early(one, other) || differ_at_the_end(one, other)
    };
    all.iter().enumerate().all(|(at, one)| all[at + 1..].iter().all(|other| chooses(one, other)))
}

/// Whether no pattern finds a path only because one with wildcards is for the path without its last slash, too: where a
/// part is missing, that path may be another one.
fn end_alike(all: &[Vec<Unit>]) -> bool {
    let is_folder = |units: &&Vec<Unit>| units.len() > without_slash(units).len();
    let mut folders = all.iter().filter(is_folder).filter(|units| units.iter().any(is_variable));
    all.iter().all(|units| is_folder(&units))
        || folders.all(|folder| all.iter().any(|other| other == without_slash(folder)))
}

fn is_variable(unit: &Unit) -> bool {
    matches!(unit, Unit::Wildcard(_) | Unit::Class(_))
}

fn without_slash(units: &[Unit]) -> &[Unit] {
    units.strip_suffix(&[Unit::Char('/')]).unwrap_or(units)
}

/// Whether no part in front of the first difference takes more of a path in one pattern than in the other.
fn differ_early(one: &[Unit], other: &[Unit]) -> bool {
    let varies = |unit: &Unit| match unit {
        Unit::Wildcard(text) => *text != "?",
        Unit::Class(class) => class.is_many(),
        _ => false,
    };
    let alike = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let before = &one[..alike];
    // Only `**` has slashes.
    let begins_segment = before.last() == Some(&Unit::Char('/')) && !before.contains(&Unit::Wildcard("**"));
    begins_segment || !before.iter().any(varies)
}

/// Whether no path has the last characters of both.
fn differ_at_the_end(one: &[Unit], other: &[Unit]) -> bool {
    let mut last = one.iter().rev().zip(other.iter().rev());
    last.find_map(|last| match last {
        (Unit::Char(one), Unit::Char(other)) if one == other => None,
        (Unit::Char(_), Unit::Char(_)) => Some(true),
        _ => Some(false),
    })
    .unwrap_or(false)
}

/// Reads an expression with its groups.
struct Groups {
    text: Vec<char>,
    at: usize,
    count: usize,
}

impl Groups {
    fn takes(&mut self, wanted: &str) -> bool {
        let found = self.text[self.at..].iter().copied().take(wanted.chars().count()).eq(wanted.chars());
        self.at += if found { wanted.chars().count() } else { 0 };
        found
    }

    /// The alternatives up to the end of a group.
    fn sequence(&mut self, depth: usize) -> Option<Vec<Vec<Unit>>> {
        let mut done = Vec::new();
        let mut all = vec![Vec::new()];
        while let Some(c) = self.text.get(self.at).copied().filter(|c| *c != ')') {
            if c == '|' {
                if depth == 0 {
                    return None;
                }
                self.at += 1;
                done.append(&mut all);
                all.push(Vec::new());
                continue;
            }
            let mut one = self.atom(depth)?;
            if self.takes("?") {
                one.push(Vec::new());
            }
            all = all
                .iter()
                .flat_map(|before| one.iter().map(move |units| [before.as_slice(), units].concat()))
                .collect();
            if all.len() > MAX_BRANCHES {
                return None;
            }
        }
        done.append(&mut all);
        (done.len() <= MAX_BRANCHES).then_some(done)
    }

    fn atom(&mut self, depth: usize) -> Option<Vec<Vec<Unit>>> {
        const WILDCARDS: [(&str, &[&str]); 8] = [
            (".*", &["**"]),
            ("[^?]*", &["**"]),
            ("[^/]*", &["*"]),
            ("[^/?]*", &["*"]),
            ("[^?/]*", &["*"]),
            ("[^/]+", &["?", "*"]),
            ("[^/?]+", &["?", "*"]),
            ("[^?/]+", &["?", "*"]),
        ];
        for (expression, wildcards) in WILDCARDS {
            if self.takes(expression) {
                // A lazy one matches another part.
                let is_lazy = self.text.get(self.at) == Some(&'?');
                return (!is_lazy).then(|| vec![wildcards.iter().map(|text| Unit::Wildcard(text)).collect()]);
            }
        }
        // `?` is no slash, which no segment begins with.
        let begins = self.text[..self.at].iter().rfind(|c| **c != '(') == Some(&'/');
        if begins && (self.takes(".+") || self.takes("[^?]+")) {
            let is_lazy = self.text.get(self.at) == Some(&'?');
            return (!is_lazy).then(|| vec![vec![Unit::Wildcard("?"), Unit::Wildcard("**")]]);
        }
        if let Some((all, length)) = classes(&self.text[self.at..]) {
            self.at += length;
            let units = |one: Vec<Class>| one.into_iter().map(Unit::Class).collect();
            return Some(all.into_iter().map(units).collect());
        }
        let c = *self.text.get(self.at)?;
        self.at += 1;
        let group = match c {
            '(' if depth == MAX_DEPTH => return None,
            '(' if self.takes("?:") => None,
            '(' => {
                self.count += 1;
                Some(self.count - 1)
            }
            '\\' => {
                let c = self
                    .text
                    .get(self.at)
                    .copied()
                    .filter(|c| c.is_ascii_punctuation() && !"*?".contains(*c))?;
                self.at += 1;
                return Some(vec![vec![Unit::Char(c)]]);
            }
            '[' => {
                let all = listed(&self.text, &mut self.at)?;
                return Some(all.into_iter().map(|c| vec![Unit::Char(c)]).collect());
            }
            '.' if !matches!(self.text.get(self.at), Some('*' | '+' | '{')) => {
                return Some(vec![vec![Unit::Wildcard("?")]]);
            }
            '.' | '*' | '+' | '?' | ']' | '{' | '}' | '^' | '$' => return None,
            c => return Some(vec![vec![Unit::Char(c)]]),
        };
        let mut all = self.sequence(depth + 1)?;
        if !self.takes(")") {
            return None;
        }
        if let Some(group) = group {
            for units in &mut all {
                units.insert(0, Unit::Begin(group));
                units.push(Unit::End(group));
            }
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_groups_of_an_expression() {
        for (expression, expected) in [
            ("^/_media/(.*)$", "/_media/ [${rest}]"),
            ("^/_media/(.*)", "/_media/ [${rest}]"),
            ("^/_export/([^/]+)/(.*)", "/_export/?*/** [$1$2, $3]"),
            ("^/([^/]+)/([^/]+)$", "/?*/?* [$1$2, $3$4]"),
            ("^/a/(.+)$", "/a/?** [$1$2]"),
            ("^/a(.*)$", "/a** [$1]"),
            ("^/a/(x.*)-([^/]*)\\.html$", "/a/x**-*.html [x$1, $2]"),
            ("^/a/(b|c)/(.*)$", "/a/b/ [b, ${rest}] /a/c/ [c, ${rest}]"),
            ("^/([ab])/(.*)$", "/a/ [a, ${rest}] /b/ [b, ${rest}]"),
            ("^/a[.b]?/(.*)$", "/a./ [${rest}] /ab/ [${rest}] /a/ [${rest}]"),
            ("^/a(?:/(.*))?$", "/a/ [${rest}] /a []"),
            ("^/a/?$", "/a/. [] /a []"),
            ("^/a$", "/a []"),
            ("^/a/x(.*)\\.(gif|jpe?g)$", "/a/x**.gif [$1, gif] /a/x**.jpeg [$1, jpeg] /a/x**.jpg [$1, jpg]"),
            ("^/([^/]+)/(a|b)(.*)$", "/?*/a** [$1$2, a, $3] /?*/b** [$1$2, b, $3]"),
            ("^/a/b", "/a/b** []"),
            ("^/a.php$", "/a?php []"),
            ("^/a.b/(.*)$", "/a?b/** [$2]"),
            ("^/([^?/]+/[^?]*)?$", "/?*/** [$1$2/$3] /. []"),
            ("^/(.*)$", "/ [${rest}]"),
            ("^/a/(?<name>.*)$", "/a/ [${rest}]"),
            ("^/a/(?P<name>[^/]+)$", "/a/?* [$1$2]"),
            ("^/a\\$b/(.*)\\.php$", "/a$b/**.php [$1]"),
            ("^/a/([0-9]+)$", "/a/[0-9]+ [$1]"),
            ("^/(\\d{4})/(\\d+)/?$", "/[0-9][0-9][0-9][0-9]/[0-9]+ [$1$2$3$4, $5]"),
            ("^/([a-z_-]+)-([0-9]+)\\.html$", "/[a-z_-]+-[0-9]+.html [$1, $2]"),
            ("^/a/([a-z]*)$", "/a/[a-z]+ [$1] /a/. []"),
            ("^/x(\\w)?\\.css$", "/x[0-9A-Za-z_].css [$1] /x.css []"),
        ] {
            let found = captured(expression).map(|all| {
                let one = |one: &Captured| {
                    let pattern = crate::brackets::shown(&one.pattern);
                    format!("{pattern} [{}]", one.groups.join(", ")).replace("[, ", "[")
                };
                all.iter().map(one).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(found.as_deref(), Some(expected), "{expression}");
        }
        for expression in [
            "/a/(.*)",
            "^/a/(.*?)/b$",
            "^/(.*)/b$",
            "^/a/(?<=/)(.*)$",
            "^/a/(?<!/)(.*)$",
            "^/a/(?<na me>.*)$",
            "^/a|^/b",
            "^/a/(.*",
            "^/a/.*)",
            "^/a\\?b",
            "^(.+)$",
            "^/a/([0-9]+?)$",
            "^/(.*)([0-9]*)$",
            "^/([a-z-]+)([a-z]{0,2})$",
            "^/([0-9]{10})$",
            "^/([^/]+)/([0-9]*)$",
            "^/([0-9]+)/(b)?$",
            "^/([a-z0-9]+)([0-9])?$",
            "^/a/x(.*)(?:b|([0-9]+))(.*)$",
            "^/([^/]*)(a|ba)$",
            "^/([^/]+)(a)?-([^/]+)$",
            "^/a/x(.*)\\.(gif|png)",
            "^/[a-c]/(.*)$",
            "^/[ab]+/(.*)$",
            "^/[^a]/(.*)$",
            "^/(a|b|c|d|e|f)/(a|b|c|d|e|f)/(.*)$",
        ] {
            assert_eq!(captured(expression), None, "{expression}");
        }
    }

    #[test]
    fn names_the_rest_of_a_prefix_by_its_wildcard_where_case_does_not_count() {
        for (expression, expected) in [
            ("^/a/(.*)$", Some(("(?i)/a/**", "/b/$1"))),
            ("^/a(.*)$", Some(("(?i)/a**", "/b/$1"))),
            ("^/1/(.*)$", Some(("/1/", "/b/${rest}"))),
            ("^/(.*)$", Some(("/", "/b/${rest}"))),
            ("^/a/()$", None),
        ] {
            let one = captured(expression).expect("patterns can say it").swap_remove(0).ignoring_case();
            let found = one.map(|one| (one.pattern.clone(), one.target("/b/$1").expect("a group")));
            let expected = expected.map(|(pattern, to)| (pattern.to_owned(), to.to_owned()));
            assert_eq!(found, expected, "{expression}");
        }
    }

    #[test]
    fn writes_groups_into_a_target() {
        let one = &captured("^/a/([^/]+)/(.*)$").unwrap()[0];
        assert_eq!(one.target("/b/$2?c=$1&$args").as_deref(), Some("/b/$3?c=$1$2&$args"));
        assert_eq!(one.target("/b/$3"), None);
        assert_eq!(one.target("/b/$0"), None);
    }
}
