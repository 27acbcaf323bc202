//! Regular expressions of paths, as far as patterns of routes can say the same.

use site::route::{ANY_CASE, Pattern};

/// Patterns that one expression becomes.
const MAX_ALTERNATIVES: usize = 64;
/// Groups within groups.
const MAX_DEPTH: usize = 8;

/// What stands for the end of a script's name, with or without more of the path behind it.
const SCRIPT_ENDS: [&str; 6] = ["(/|$)", "($|/)", "(?:/|$)", "(?:$|/)", "(/.*)?$", "(?:/.*)?$"];

/// The patterns of the paths that an expression finds. `None`: patterns cannot say it.
pub fn patterns(expression: &str) -> Option<Vec<String>> {
    let mut text = expression.to_owned();
    let mut may_go_on = false;
    for end in SCRIPT_ENDS {
        if let Some(before) = text.strip_suffix(end) {
            text = format!("{before}$");
            may_go_on = true;
        }
    }
    let (is_begun, rest) = text.strip_prefix('^').map_or((false, text.as_str()), |rest| (true, rest));
    let ends = rest.ends_with('$') && !rest.ends_with("\\$");
    let body = if ends { &rest[..rest.len() - 1] } else { rest };
    let mut parser = Parser { text: body.chars().collect(), at: 0 };
    let alternatives = parser.alternatives(0)?;
    if parser.at < parser.text.len() {
        return None;
    }
    let all = alternatives.into_iter().map(|middle| {
        let pattern = match (is_begun, middle.starts_with('/'), ends) {
            (true, _, true) => alone(&middle),
            (true, _, false) => format!("{middle}**"),
            (false, true, true) => format!("/**{middle}"),
            (false, true, false) => format!("/**{middle}**"),
            (false, false, true) if !middle.contains('/') => format!("*{middle}"),
            (false, false, true) => format!("/**{middle}"),
            (false, false, false) => format!("/**{middle}**"),
        };
        // `**` and more of them say the same.
        let mut pattern = pattern;
        while pattern.contains("***") {
            pattern = pattern.replace("***", "**");
        }
        // A prefix is what ends with a slash.
        pattern
            .strip_suffix("/**")
            .filter(|rest| !rest.contains(['*', '?']))
            .map_or(pattern.clone(), |rest| format!("{rest}/"))
    });
    let mut all: Vec<String> = all.collect();
    if may_go_on {
        // A folder, and not the name of a script.
        let folders: Vec<String> =
            all.iter().filter(|path| !path.contains(['*', '?'])).map(|path| folder_of(path)).collect();
        all.extend(folders);
    }
    all.iter().all(|pattern| is_usable(pattern)).then_some(all)
}

/// An expression whose dots are no operators, and stand for a character of a name.
pub fn with_any_character(expression: &str) -> String {
    let mut out = String::new();
    let mut rest = expression.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => out.extend(std::iter::once(c).chain(rest.next())),
            '.' if !matches!(rest.peek(), Some('*' | '+' | '?' | '{')) => out.push_str("[^/]"),
            c => out.push(c),
        }
    }
    out
}

/// The pattern of one path, without what is below it if it is a folder.
pub fn alone(path: &str) -> String {
    if path.ends_with('/') && !path.contains(['*', '?']) { format!("{path}.") } else { path.to_owned() }
}

/// The pattern of the folder of a path, and of what is below it.
fn folder_of(path: &str) -> String {
    format!("{}/", path.strip_suffix("/.").unwrap_or(path))
}

/// A pattern in all ways to write its letters. `None`: there are too many.
pub fn any_case(pattern: &str) -> Option<Vec<String>> {
    let mut all = vec![String::new()];
    for c in pattern.chars() {
        let mut cases = vec![c.to_ascii_lowercase(), c.to_ascii_uppercase()];
        cases.dedup();
        all = all.iter().flat_map(|before| cases.iter().map(move |c| format!("{before}{c}"))).collect();
        if all.len() > MAX_ALTERNATIVES {
            return None;
        }
    }
    Some(all)
}

/// A pattern for which case does not count. `None`: there is none for a folder alone.
pub fn ignoring_case(pattern: &str) -> Option<String> {
    if !pattern.contains(|c: char| c.is_ascii_alphabetic()) || pattern.starts_with(ANY_CASE) {
        return Some(pattern.to_owned());
    }
    let end = if pattern.ends_with('/') { "**" } else { "" };
    Some(format!("{ANY_CASE}{pattern}{end}")).filter(|pattern| Pattern::parse(pattern).is_ok())
}

/// The paths of a pattern that are below a prefix. `None`: no pattern can say it.
pub fn within(prefix: &str, pattern: &str) -> Option<String> {
    if let Some(pattern) = pattern.strip_prefix(ANY_CASE) {
        return ignoring_case(&within(prefix, pattern)?);
    }
    let folder = prefix.strip_suffix('/').filter(|folder| !folder.contains(['*', '?']))?;
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

/// The paths that only begin with this text, besides those below it as a folder: `/admin.php` for `/admin`. Other
/// servers compare texts, and here a prefix is whole segments.
pub fn longer_names(text: &str) -> Option<String> {
    (!text.ends_with('/')).then(|| format!("{text}?*/**"))
}

/// The prefix of `^/prefix/(.*)$`, whose rest is `$1`.
pub fn prefix(expression: &str) -> Option<String> {
    let rest = expression.strip_prefix('^').unwrap_or(expression);
    let rest = rest.strip_suffix('$').unwrap_or(rest);
    let prefix = rest.strip_suffix("(.*)").or_else(|| rest.strip_suffix("(.+)"))?;
    let prefix = literal(prefix).filter(|prefix| !prefix.is_empty())?;
    let prefix = if prefix.starts_with('/') { prefix } else { format!("/{prefix}") };
    prefix.ends_with('/').then_some(prefix)
}

/// The path that `^/path$` finds alone.
pub fn exact(expression: &str) -> Option<String> {
    let path = literal(expression.strip_prefix('^')?.strip_suffix('$')?)?;
    Some(alone(&if path.starts_with('/') { path } else { format!("/{path}") }))
}

/// A text without operators.
pub fn literal(expression: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = expression.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|c| c.is_ascii_punctuation())?),
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

fn is_usable(pattern: &str) -> bool {
    pattern != "*" && Pattern::parse(pattern).is_ok()
}

struct Parser {
    text: Vec<char>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let found = self.text[self.at..].iter().copied().take(wanted.len()).eq(wanted.chars());
        self.at += if found { wanted.len() } else { 0 };
        found
    }

    fn alternatives(&mut self, depth: usize) -> Option<Vec<String>> {
        let mut all = self.sequence(depth)?;
        while self.takes("|") {
            all.extend(self.sequence(depth)?);
        }
        (all.len() <= MAX_ALTERNATIVES).then_some(all)
    }

    fn sequence(&mut self, depth: usize) -> Option<Vec<String>> {
        let mut all = vec![String::new()];
        while let Some(c) = self.peek() {
            if c == '|' || c == ')' {
                break;
            }
            let one = self.atom(depth)?;
            all =
                all.iter().flat_map(|before| one.iter().map(move |part| format!("{before}{part}"))).collect();
            if all.len() > MAX_ALTERNATIVES {
                return None;
            }
        }
        Some(all)
    }

    fn atom(&mut self, depth: usize) -> Option<Vec<String>> {
        if self.takes(".*") || self.takes(".+") {
            _ = self.takes("?");
            return Some(vec!["**".to_owned()]);
        }
        for (expression, pattern) in [("[^/]*", "*"), ("[^/]+", "?*"), ("[^/]", "?")] {
            if self.takes(expression) {
                return Some(vec![pattern.to_owned()]);
            }
        }
        let c = self.peek()?;
        self.at += 1;
        let one = match c {
            '[' => self.class()?,
            '(' => {
                if depth == MAX_DEPTH || (self.peek() == Some('?') && !self.takes("?:")) {
                    return None;
                }
                let all = self.alternatives(depth + 1)?;
                if !self.takes(")") {
                    return None;
                }
                all
            }
            '\\' => {
                let c = self.peek().filter(|c| c.is_ascii_punctuation())?;
                self.at += 1;
                vec![c.to_string()]
            }
            '.' | '*' | '+' | '?' | ')' | ']' | '{' | '}' | '^' | '$' => return None,
            c => vec![c.to_string()],
        };
        match self.peek() {
            Some('*' | '+' | '{') => None,
            Some('?') => {
                self.at += 1;
                Some(std::iter::once(String::new()).chain(one).collect())
            }
            _ if one.iter().any(|part| part.contains(['*', '?']) && c == '\\') => None,
            _ => Some(one),
        }
    }

    /// `op]`: each of these characters. Ranges and their opposite are not known.
    fn class(&mut self) -> Option<Vec<String>> {
        let length = self.text[self.at..].iter().position(|c| *c == ']').filter(|length| *length > 0)?;
        let all = &self.text[self.at..self.at + length];
        self.at += length + 1;
        let is_plain = |c: &char| c.is_alphanumeric() || *c == '_';
        all.iter().all(is_plain).then(|| all.iter().map(char::to_string).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_with_patterns_what_expressions_find() {
        for (expression, expected) in [
            ("\\.php$", Some(vec!["*.php"])),
            ("[^/]\\.php(/|$)", Some(vec!["*?.php"])),
            ("\\.(jpe?g|png)$", Some(vec!["*.jpg", "*.jpeg", "*.png"])),
            ("^/(a|b)/", Some(vec!["/a/", "/b/"])),
            ("/\\.ht", Some(vec!["/**/.ht**"])),
            ("^/a/.*\\.php$", Some(vec!["/a/**.php"])),
            ("^/a($|/)", Some(vec!["/a", "/a/"])),
            ("^/exact$", Some(vec!["/exact"])),
            ("^/$", Some(vec!["/."])),
            ("^/(a/|b)?$", Some(vec!["/.", "/a/.", "/b"])),
            ("^/a/(/|$)", Some(vec!["/a/.", "/a/"])),
            ("^/", Some(vec!["/"])),
            ("^/a\\[b\\].*$", None),
            ("x/$", None),
            ("^/\\d+$", None),
            ("^/[0-9]{3}/", None),
            ("\\.sw[op]$", Some(vec!["*.swo", "*.swp"])),
            ("\\.php[57]?$", Some(vec!["*.php", "*.php5", "*.php7"])),
            ("\\.[^a]$", None),
            ("\\.[a-z]$", None),
            ("\\.[a", None),
            ("\\.[]$", None),
            ("(a", None),
            ("a)", None),
            ("(?<name>a)", None),
            ("", Some(vec!["/"])),
        ] {
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect());
            assert_eq!(patterns(expression), expected, "{expression}");
        }
    }

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
    fn finds_the_prefix_of_what_is_captured() {
        assert_eq!(prefix("^/a\\.b/(.*)$").as_deref(), Some("/a.b/"));
        assert_eq!(prefix("^(.*)$"), None);
        assert_eq!(prefix("^/(.*)$").as_deref(), Some("/"));
        assert_eq!(exact("^/old$").as_deref(), Some("/old"));
        assert_eq!(exact("^/$").as_deref(), Some("/."));
        assert_eq!(exact("^old/$").as_deref(), Some("/old/."));
        assert_eq!(exact("^/old"), None);
    }
}
