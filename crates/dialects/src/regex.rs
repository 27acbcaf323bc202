//! Regular expressions of paths, as far as patterns of routes can say the same.

mod captured;
mod parser;
mod syntax;

use std::collections::BTreeSet;

use crate::brackets::{has_class, is_glob};
use site::wildcard::COUNTS_CASE;

pub use captured::{Captured, captured};
pub use syntax::{
    begins_names_with_dots, branches, distributed, exact, group, literal, prefix, with_any_character,
    with_any_character_or_slash,
};

use crate::pattern::{alone, below_of, is_usable};
use parser::{ONE_OR_MORE, Parser};
use syntax::unnamed;

/// Patterns that one expression becomes.
const MAX_ALTERNATIVES: usize = 128;
/// Characters besides slashes that a pattern must have that finds more than its expression. With fewer it would find
/// nearly everything.
const MIN_LITERALS: usize = 3;

/// What stands for the end of a script's name, with or without more of the path behind it.
const SCRIPT_ENDS: [&str; 6] = ["(/|$)", "($|/)", "(?:/|$)", "(?:$|/)", "(/.*)?$", "(?:/.*)?$"];

/// The ends of scripts, besides those of PHP.
const SCRIPTS: [&str; 13] =
    ["cgi", "fcgi", "pl", "py", "rb", "sh", "lua", "tcl", "asp", "aspx", "jsp", "cfm", "hh"];

/// The patterns of the paths that an expression finds. `None`: patterns cannot say it.
pub fn patterns(expression: &str) -> Option<Vec<String>> {
    read(expression, Reading::Exact)
}

/// Patterns of all paths that an expression finds, and of more: for what denies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wider {
    pub patterns: Vec<String>,
    /// They find what the expression excepts, too.
    pub excepts: bool,
}

/// `None`: the patterns would find nearly everything.
pub fn wider_patterns(expression: &str) -> Option<Wider> {
    const EXCEPTIONS: [&str; 2] = ["(?!", "(?<!"];
    let is_usable = |pattern: &String| {
        let literals = pattern.chars().filter(|c| !matches!(c, '*' | '?' | '/'));
        literals.count() >= MIN_LITERALS
    };
    let patterns = read(expression, Reading::Wider).filter(|all| all.iter().all(is_usable))?;
    let excepts = EXCEPTIONS.iter().any(|begin| expression.contains(begin));
    (!patterns.is_empty()).then_some(Wider { patterns, excepts })
}

/// What an expression is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The paths that it finds.
    Exact,
    /// These, and perhaps more.
    Wider,
}

fn read(expression: &str, reading: Reading) -> Option<Vec<String>> {
    let expression = unnamed(expression);
    let mut found = branches(&expression);
    // Every path begins with a slash.
    if found.iter().any(|one| !never_begins(one)) {
        found.retain(|one| !never_begins(one));
    }
    let all: Option<Vec<Vec<String>>> = found.into_iter().map(|one| branch(one, reading)).collect();
    let mut all = all?.concat();
    let mut seen = BTreeSet::new();
    all.retain(|pattern| seen.insert(pattern.clone()));
    (all.len() <= MAX_ALTERNATIVES).then_some(all)
}

/// Whether `^` stands in front of what no path begins with: `^(\\.a|b)$` is meant for names.
fn never_begins(branch: &str) -> bool {
    let Some(rest) = branch.strip_prefix('^') else { return false };
    let inner = rest.strip_prefix("(?:").or_else(|| rest.strip_prefix('('));
    let all = match inner.and_then(group) {
        Some(inner) => branches(inner),
        None => vec![rest],
    };
    all.iter().all(|one| {
        let mut chars = one.chars();
        match (chars.next(), chars.next()) {
            (Some('\\'), Some(c)) => c.is_ascii_punctuation() && c != '/',
            (Some(c), next) => c.is_ascii_alphanumeric() && !matches!(next, Some('?' | '*' | '{')),
            (None, _) => false,
        }
    })
}

/// An expression without `(?i)` in front, and whether it had it.
pub fn cased(expression: &str) -> (String, bool) {
    let begins = [("(?i)^", "^"), ("^(?i)", "^"), ("(?i)", "")];
    let rest = begins
        .iter()
        .find_map(|(begin, instead)| expression.strip_prefix(begin).map(|rest| format!("{instead}{rest}")));
    rest.map_or_else(|| (expression.to_owned(), false), |rest| (rest, true))
}

/// The values of a field that an expression finds, with `*` and `?`. `None`: wildcards cannot say it.
pub fn values(expression: &str) -> Option<Vec<String>> {
    let all: Option<Vec<Vec<String>>> = branches(expression).into_iter().map(value).collect();
    let all = all?.concat();
    let is_usable = |value: &String| !value.starts_with('!') && value.chars().all(|c| !c.is_control());
    (all.len() <= MAX_ALTERNATIVES && all.iter().all(is_usable)).then_some(all)
}

/// A value of a field for which case counts.
pub fn counting_case(value: &str) -> String {
    match value.contains(|c: char| c.is_ascii_alphabetic()) {
        true => format!("{COUNTS_CASE}{value}"),
        false => value.to_owned(),
    }
}

/// As `values`, with more than the expression finds: for what denies. `None`: it would be nearly everything.
pub fn wider_values(expression: &str) -> Option<Vec<String>> {
    let mut found = BTreeSet::new();
    for branch in branches(expression) {
        let begins = branch.starts_with('^');
        let ends = branch.ends_with('$') && !branch.ends_with("\\$");
        let body = &branch[usize::from(begins)..branch.len() - usize::from(ends)];
        for middle in Parser::parse(body, Reading::Wider)? {
            let (begin, end) = (if begins { "" } else { "*" }, if ends { "" } else { "*" });
            let mut value = format!("{begin}{}{end}", middle.replace(ONE_OR_MORE, ""));
            while value.contains("**") {
                value = value.replace("**", "*");
            }
            found.insert(value);
        }
    }
    let is_usable = |value: &String| {
        let literals = value.chars().filter(|c| !matches!(c, '*' | '?'));
        literals.count() >= MIN_LITERALS
            && !value.starts_with(['!', '('])
            && value.chars().all(|c| !c.is_control())
    };
    let all: Vec<String> = found.into_iter().collect();
    (all.len() <= MAX_ALTERNATIVES && all.iter().all(is_usable)).then_some(all)
}

fn value(expression: &str) -> Option<Vec<String>> {
    if matches!(expression, "." | ".+" | "^.+$" | "^." | "^.+" | "^.*.") {
        return Some(vec!["?*".to_owned()]);
    }
    let (begin, rest) = expression.strip_prefix('^').map_or(("*", expression), |rest| ("", rest));
    let (end, body) = match rest.strip_suffix('$').filter(|body| !body.ends_with('\\')) {
        Some(body) => ("", body),
        None => ("*", rest),
    };
    // These are about paths, or want one character at least.
    if body.contains("[^/") || body.contains(".+") {
        return None;
    }
    // A field has wildcards without classes.
    let all =
        Parser::parse(body, Reading::Exact).filter(|all| !all.iter().any(|one| has_class(one)))?.into_iter();
    let all = all.map(|middle| format!("{begin}{}{end}", middle.replace("**", "*")).replace("**", "*"));
    Some(all.collect())
}

fn branch(expression: &str, reading: Reading) -> Option<Vec<String>> {
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
    let all = Parser::parse(body, reading)?.into_iter().map(|middle| {
        let pattern = match (is_begun, middle.starts_with('/'), ends) {
            (true, _, true) => alone(&middle),
            (true, _, false) => format!("{middle}**"),
            (false, true, true) => format!("/**{middle}"),
            (false, true, false) => format!("/**{middle}**"),
            (false, false, true) if !middle.contains('/') => format!("*{middle}"),
            (false, false, true) => format!("/**{middle}"),
            (false, false, false) => format!("/**{middle}**"),
        };
        // No path has an empty segment. Elsewhere `.+` may begin with a slash, which `?` does not find.
        let mut pattern = pattern.replace(&format!("/{ONE_OR_MORE}"), "/?").replace(ONE_OR_MORE, "");
        // `**` and more of them say the same.
        while pattern.contains("***") {
            pattern = pattern.replace("***", "**");
        }
        // A prefix is what ends with a slash.
        pattern
            .strip_suffix("/**")
            .filter(|rest| !is_glob(rest))
            .map_or(pattern.clone(), |rest| format!("{rest}/"))
    });
    let mut all: Vec<String> = all.collect();
    if reading == Reading::Wider {
        // No path has an empty segment.
        all.retain(|pattern| !pattern.contains("//"));
    }
    if may_go_on {
        let folders: Vec<String> =
            all.iter().filter(|path| !is_of_scripts(path)).map(|path| below_of(path)).collect();
        all.extend(folders);
    }
    all.iter().all(|pattern| is_usable(pattern)).then_some(all)
}

/// Whether a pattern is for the ends of scripts, such as `*.php`: what is below them is a path for the script. Others,
/// such as `*.git`, are those of folders, too.
fn is_of_scripts(pattern: &str) -> bool {
    let name = pattern.rsplit('/').next().unwrap_or(pattern);
    name.rsplit_once('.').is_some_and(|(before, end)| {
        let end = end.to_ascii_lowercase();
        is_glob(before) && (end.starts_with("ph") || SCRIPTS.contains(&end.as_str()))
    })
}

/// Whether an expression finds what is below its paths, too.
pub fn goes_on(expression: &str) -> bool {
    SCRIPT_ENDS.iter().any(|end| expression.ends_with(end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use site::route::Pattern;

    use super::*;
    use crate::brackets::{parse, shown};

    /// Parts of expressions.
    const PARTS: &[&str] = &[
        "a",
        "-",
        "/",
        "/",
        "([0-9]+)",
        "(\\d)",
        "([a-z]*)",
        "([a-z-]{1,2})",
        "(\\w{2,})",
        "([0-9])?",
        "(?:a|([0-9]+))",
        "(a|ba)",
        "(b)?",
        "([^/]+)",
        "-(.*)",
    ];

    fn matches(pattern: &Pattern, path: &str) -> bool {
        pattern.matches(&Pattern::parse(path).unwrap().example().unwrap())
    }

    /// The route that responds for a path: that of an exact path, then the first glob, then a prefix.
    fn first_of(all: &[Captured], path: &str) -> Option<(Pattern, Captured)> {
        let mut found: Vec<(Pattern, Captured)> = all
            .iter()
            .filter_map(|one| Some((parse(&one.pattern).ok()?, one.clone())))
            .filter(|(pattern, _)| matches(pattern, path))
            .collect();
        found.sort_by_key(|(pattern, _)| match pattern {
            Pattern::Exact(_) => 0,
            Pattern::Glob(_) => 1,
            Pattern::Prefix(_) => 2,
        });
        (!found.is_empty()).then(|| found.swap_remove(0))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn patterns_find_what_expressions_with_classes_find(
            parts in prop::collection::vec(prop::sample::select(PARTS), 1..6),
            path in "/([ab0-]{1,2}/){0,2}[ab0-]{1,4}",
        ) {
            // Patterns with wildcards are for a path with and without its last slash.
            let expression = format!("^/{}$", parts.concat().trim_end_matches('/'));
            let wanted = regex_lite::Regex::new(&expression).unwrap().captures(&path);
            if let Some(all) = patterns(&expression) {
                let found = all.iter().any(|one| matches(&parse(one).unwrap(), &path));
                prop_assert_eq!(found, wanted.is_some(), "{} {:?}", expression, all);
            }
            let Some(all) = captured(&expression) else { return Ok(()) };
            let found = first_of(&all, &path);
            prop_assert_eq!(found.is_some(), wanted.is_some(), "{} {:?}", expression, all);
            let Some((wanted, (pattern, one))) = wanted.zip(found) else { return Ok(()) };
            for at in 1..wanted.len() {
                let mut group = one.target(&format!("${at}")).unwrap();
                for (number, text) in pattern.captures(&path[1..]).iter().enumerate() {
                    group = group.replace(&format!("${}", number + 1), text);
                }
                let group = group.replace("${rest}", pattern.rest(&path[1..]));
                let wanted = wanted.get(at).map_or("", |found| found.as_str());
                prop_assert_eq!(group, wanted, "{} {} {:?}", expression, at, one);
            }
        }
    }

    #[test]
    fn says_with_patterns_what_expressions_find() {
        for (expression, expected) in [
            ("\\.php$", Some(vec!["*.php"])),
            ("[^/]\\.php(/|$)", Some(vec!["*?.php"])),
            ("/\\.(git|svn)(/|$)", Some(vec!["/**/.git", "/**/.svn", "/**/.git/**", "/**/.svn/**"])),
            ("\\.(git|svn)(/|$)", Some(vec!["*.git", "*.svn", "/**/*.git/**", "/**/*.svn/**"])),
            ("/x[^/]*(?:/|$)", Some(vec!["/**/x*", "/**/x*/**"])),
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
            ("^/a\\[b\\].*$", Some(vec!["/a[b]**"])),
            ("x/$", None),
            ("^/\\d+$", Some(vec!["/[0-9]+"])),
            ("^/[0-9]{3}/", Some(vec!["/[0-9][0-9][0-9]/**"])),
            ("^/post-[a-z0-9-]*\\.html$", Some(vec!["/post-[0-9a-z-]+.html", "/post-.html"])),
            ("/v[0-9]+(/|$)", Some(vec!["/**/v[0-9]+", "/**/v[0-9]+/**"])),
            ("\\.[0-9]?x$", Some(vec!["*.[0-9]x", "*.x"])),
            ("^/\\d+?$", None),
            ("^/[0-9]{9}$", None),
            ("\\.sw[op]$", Some(vec!["*.swo", "*.swp"])),
            ("\\.php[57]?$", Some(vec!["*.php", "*.php5", "*.php7"])),
            ("\\.[^a]$", None),
            ("\\.[a-z]$", Some(vec!["*.[a-z]"])),
            ("\\.[a", None),
            ("\\.[]$", None),
            ("(a", None),
            ("a)", None),
            ("^/(?<name>a|b)$", Some(vec!["/a", "/b"])),
            ("^/\\(?<name>a$", Some(vec!["/<name>a", "/(<name>a"])),
            ("(?<!a)b", None),
            ("(?<a", None),
            ("", Some(vec!["/"])),
            ("^/(.+/.*|a)\\.php$", Some(vec!["/?**/**.php", "/a.php"])),
            ("\\.php.+", Some(vec!["/**.php**"])),
            ("\\.inc$|^(\\.x.*|Root|y\\.z)$", Some(vec!["*.inc"])),
            ("^(a?|b)$|\\.c$", None),
            ("^/a/|/b$|\\.c$", Some(vec!["/a/", "/**/b", "*.c"])),
            ("^/(a|b)$|^/a$", Some(vec!["/a", "/b"])),
            ("^/a[bC]$", Some(vec!["/ab", "/aC"])),
            ("\\.[hH]t$", Some(vec!["*.ht", "*.Ht"])),
            ("^/a[b-d]$", None),
            ("^/a[^b]$", None),
            ("^/a[.*]$", None),
            ("^/a[b", None),
        ] {
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect());
            let found = patterns(expression).map(|all| all.iter().map(|one| shown(one)).collect::<Vec<_>>());
            assert_eq!(found, expected, "{expression}");
        }
    }

    #[test]
    fn says_with_wildcards_which_values_expressions_find() {
        for (expression, expected) in [
            ("bot", Some(vec!["*bot*"])),
            ("^(wget|curl)", Some(vec!["wget*", "curl*"])),
            (
                "^https?://(www\\.)?a\\.b/",
                Some(vec!["http://a.b/*", "http://www.a.b/*", "https://a.b/*", "https://www.a.b/*"]),
            ),
            ("^$", Some(vec![""])),
            ("^-?$", Some(vec!["", "-"])),
            (".", Some(vec!["?*"])),
            ("a.*b$", Some(vec!["*a*b"])),
            ("^!", None),
            ("a.b", None),
            ("^[0-9]", None),
            ("a.+b", None),
            ("[^/]*", None),
        ] {
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect());
            assert_eq!(values(expression), expected, "{expression}");
        }
    }

    #[test]
    fn finds_at_least_the_values_that_an_expression_finds() {
        for (expression, expected) in [
            ("base64_encode[^(]*\\([^)]*\\)", Some(vec!["*base64_encode*(*)*"])),
            ("GLOBALS(=|\\[|\\%[0-9A-Z]{0,2})", Some(vec!["*GLOBALS%*", "*GLOBALS=*", "*GLOBALS[*"])),
            ("^id=\\d+$", Some(vec!["id=?*"])),
            ("[0-9]", None),
            ("a|bcd", None),
            ("(abc", None),
        ] {
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect());
            assert_eq!(wider_values(expression), expected, "{expression}");
        }
    }

    #[test]
    fn finds_at_least_what_an_expression_finds() {
        for (expression, expected) in [
            ("^/secret[0-9]+/", &["/secret?*/**"][..]),
            ("^/(backup|dump)-\\d{4}$", &["/backup-*", "/dump-*"]),
            ("/priv[a-z]*$", &["/**/priv*"]),
            ("\\.(?:sql|bak)[~.\\d]*$", &["*.sql*", "*.bak*"]),
            ("^/a/[^x]secret$", &["/a/?secret"]),
            ("/(inc|(?<!ext/)phpbb(?!\\w+))", &["/**/inc**", "/**/phpbb**"]),
            ("^/setup/(?!pub/).", &["/setup/?**"]),
            ("(^|/)vendor($|/)", &["*vendor", "/**/vendor", "/**/*vendor/**", "/**/vendor/**"]),
            ("^/data\\*", &["/data?**"]),
            ("^/data(/x){2}y", &["/data**y**"]),
            ("^/data[^a]+y", &["/data?**y**", "/data/**y**"]),
            ("^/data[+-9]y$", &["/data?y", "/data/y"]),
            ("^/data.{3}\\bz$", &["/data**z"]),
        ] {
            let found = wider_patterns(expression).map(|wider| wider.patterns).unwrap_or_default();
            assert_eq!(found, expected, "{expression}");
        }
        for expression in
            ["^/x{3}$", "/\\.(?!well-known)", "^/(.*)$", "[0-9]", "^/abc(", "\\1secret", "^/a{secret"]
        {
            assert_eq!(wider_patterns(expression), None, "{expression}");
        }
        for (expression, excepts) in
            [("^/secret(?!/x)", true), ("(?<!a)secret", true), ("^/secret(?=/)", false)]
        {
            assert_eq!(wider_patterns(expression).map(|wider| wider.excepts), Some(excepts), "{expression}");
        }
    }
}
