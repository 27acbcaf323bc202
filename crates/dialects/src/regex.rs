//! Regular expressions of paths, as far as patterns of routes can say the same.

use std::collections::BTreeSet;

use site::route::{ANY_CASE, Pattern};
use site::wildcard::COUNTS_CASE;

/// Patterns that one expression becomes.
const MAX_ALTERNATIVES: usize = 128;
/// Patterns that one becomes in all ways to write its letters.
const MAX_CASES: usize = 64;
/// Places of a text at which a pattern may begin.
const MAX_OVERLAPS: usize = 64;
/// Characters of a class, such as `[op]`.
const MAX_CLASS: usize = 8;
/// Stands in front of the wildcard of `.+`, until it is known what precedes it.
const ONE_OR_MORE: char = '\u{1}';
/// Groups within groups.
const MAX_DEPTH: usize = 8;
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

/// An expression whose groups have no names: `(a)` for `(?<name>a)`.
fn unnamed(expression: &str) -> String {
    let (mut out, mut rest, mut is_escaped) = (String::new(), expression, false);
    while let Some(c) = rest.chars().next() {
        let behind = behind_name(rest).filter(|_| !is_escaped);
        is_escaped = c == '\\' && !is_escaped;
        out.push(c);
        rest = behind.unwrap_or(&rest[c.len_utf8()..]);
    }
    out
}

/// What follows the name of a group that begins here.
fn behind_name(text: &str) -> Option<&str> {
    let inside = ["(?<", "(?P<"].iter().find_map(|begin| text.strip_prefix(begin))?;
    let (name, behind) = inside.split_once('>')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(behind)
}

/// The alternatives of an expression outside of groups. `^` and `$` belong to one of them.
pub fn branches(expression: &str) -> Vec<&str> {
    let (mut all, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut is_class, mut is_escaped) = (false, false);
    for (at, c) in expression.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ']' => is_class = false,
            _ if is_class => {}
            '[' => is_class = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                all.push(&expression[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    all.push(&expression[begin..]);
    all
}

/// The alternatives, also those of a group at the beginning if `^`, `$` or `(?!` stands in one of them.
pub fn distributed(expression: &str) -> Vec<String> {
    let split = |branch: &str| -> Option<Vec<String>> {
        let (begin, rest) = branch.strip_prefix('^').map_or(("", branch), |rest| ("^", rest));
        let inner = rest.strip_prefix("(?:").or_else(|| rest.strip_prefix('('))?;
        let whole = group(inner).filter(|whole| whole.contains(['^', '$']) || whole.contains("(?!"))?;
        let behind = &inner[whole.len() + 1..];
        Some(branches(whole).into_iter().map(|one| format!("{begin}{one}{behind}")).collect())
    };
    let all = branches(expression).into_iter();
    all.flat_map(|branch| split(branch).unwrap_or_else(|| vec![branch.to_owned()])).collect()
}

/// What stands in front of the `)` that ends a group. `None`: nothing ends it.
pub fn group(text: &str) -> Option<&str> {
    let (mut depth, mut is_escaped) = (1_usize, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' => depth += 1,
            ')' if depth == 1 => return Some(&text[..at]),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
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
    let all = Parser::parse(body, Reading::Exact)?.into_iter();
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
            .filter(|rest| !rest.contains(['*', '?']))
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

/// An expression whose dots are no operators, and stand for a character of a name.
pub fn with_any_character(expression: &str) -> String {
    with_dots(expression, "[^/]")
}

/// An expression whose dots stand for any character: one of a name, or a slash.
pub fn with_any_character_or_slash(expression: &str) -> String {
    with_dots(expression, "([^/]|/)")
}

/// Whether dots that are operators stand behind a slash alone, so that they find no other one.
pub fn begins_names_with_dots(expression: &str) -> bool {
    let (mut before, mut rest) = (' ', expression.chars().peekable());
    while let Some(c) = rest.next() {
        let is_any = c == '.' && !matches!(rest.peek(), Some('*' | '+' | '?' | '{'));
        if is_any && before != '/' {
            return false;
        }
        before = if c == '\\' { rest.next().filter(|c| *c == '/').unwrap_or(' ') } else { c };
    }
    true
}

fn with_dots(expression: &str, dot: &str) -> String {
    let mut out = String::new();
    let mut rest = expression.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => out.extend(std::iter::once(c).chain(rest.next())),
            '.' if !matches!(rest.peek(), Some('*' | '+' | '?' | '{')) => out.push_str(dot),
            c => out.push(c),
        }
    }
    out
}

/// The pattern of one path, without what is below it if it is a folder.
pub fn alone(path: &str) -> String {
    if path.ends_with('/') && !path.contains(['*', '?']) { format!("{path}.") } else { path.to_owned() }
}

/// The pattern of what is below the paths of a pattern. That of one path is the folder itself, too.
pub fn below_of(pattern: &str) -> String {
    let pattern = pattern.strip_suffix("/.").unwrap_or(pattern);
    match pattern.contains(['*', '?']) {
        false => format!("{pattern}/"),
        true if pattern.starts_with('/') => format!("{pattern}/**"),
        // The last segment, at any depth.
        true => format!("/**/{pattern}/**"),
    }
}

/// Whether a pattern is for the ends of scripts, such as `*.php`: what is below them is a path for the script. Others,
/// such as `*.git`, are those of folders, too.
fn is_of_scripts(pattern: &str) -> bool {
    let name = pattern.rsplit('/').next().unwrap_or(pattern);
    name.rsplit_once('.').is_some_and(|(before, end)| {
        let end = end.to_ascii_lowercase();
        before.contains(['*', '?']) && (end.starts_with("ph") || SCRIPTS.contains(&end.as_str()))
    })
}

/// Whether an expression finds what is below its paths, too.
pub fn goes_on(expression: &str) -> bool {
    SCRIPT_ENDS.iter().any(|end| expression.ends_with(end))
}

/// A pattern in all ways to write its letters. `None`: there are too many.
pub fn any_case(pattern: &str) -> Option<Vec<String>> {
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

/// As `beginning`, also where the text itself has a part of what the pattern finds: `/a/b/**.php` for `/a/b/` and
/// `/**/b/**.php`. Nothing: no pattern can say it.
pub fn all_beginning(text: &str, pattern: &str) -> Vec<String> {
    if let Some(pattern) = pattern.strip_prefix(ANY_CASE) {
        let all = all_beginning(&text.to_ascii_lowercase(), &pattern.to_ascii_lowercase());
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
}

/// A part of an expression for which there is one of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Char(char),
    Wildcard(&'static str),
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
    let all = groups.sequence(0)?;
    if groups.at < groups.text.len() {
        return None;
    }
    let mut found: Vec<Captured> = Vec::new();
    for mut units in all {
        if !ends
            && !matches!(units.iter().rfind(|unit| !matches!(unit, Unit::End(_))), Some(Unit::Wildcard("**")))
        {
            units.push(Unit::Wildcard("**"));
        }
        let one = of_units(&units, groups.count)?;
        if !found.iter().any(|other| other.pattern == one.pattern) {
            found.push(one);
        }
    }
    Some(found)
}

fn of_units(units: &[Unit], count: usize) -> Option<Captured> {
    let plain: Vec<Unit> =
        units.iter().copied().filter(|unit| matches!(unit, Unit::Char(_) | Unit::Wildcard(_))).collect();
    let wildcards = plain.iter().filter(|unit| matches!(unit, Unit::Wildcard(_))).count();
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
            if all.len() > MAX_CLASS {
                return None;
            }
        }
        done.append(&mut all);
        (done.len() <= MAX_CLASS).then_some(done)
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
            '.' if !matches!(self.text.get(self.at), Some('*' | '+' | '{')) => {
                return Some(vec![vec![Unit::Wildcard("?")]]);
            }
            '.' | '*' | '+' | '?' | '[' | ']' | '{' | '}' | '^' | '$' => return None,
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

fn is_usable(pattern: &str) -> bool {
    pattern != "*" && Pattern::parse(pattern).is_ok()
}

struct Parser {
    text: Vec<char>,
    at: usize,
    reading: Reading,
}

impl Parser {
    /// The patterns of an expression without anchors. `None`: patterns cannot say it.
    fn parse(expression: &str, reading: Reading) -> Option<Vec<String>> {
        let mut parser = Parser { text: expression.chars().collect(), at: 0, reading };
        let all = parser.alternatives(0)?;
        (parser.at == parser.text.len()).then_some(all)
    }

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

    /// The characters behind `[`.
    fn class(&mut self) -> Option<Vec<String>> {
        let begin = self.at;
        let listed = self.listed_class();
        if listed.is_some() || self.reading == Reading::Exact {
            return listed;
        }
        self.at = begin;
        let is_negated = self.takes("^");
        let mut may_be_slash = is_negated;
        let mut is_first = true;
        loop {
            let c = self.peek()?;
            self.at += 1;
            match c {
                ']' if !is_first => return Some(any_character(may_be_slash)),
                '\\' => {
                    let escaped = self.peek()?;
                    self.at += 1;
                    may_be_slash |= !matches!(escaped, 'd' | 'w' | 's' | '-' | '_' | '.' | '[' | ']');
                }
                // A range may begin before the slash, and a class of POSIX may have it.
                '[' | ' '..='/' if c != '-' && self.peek() == Some('-') || matches!(c, '[' | '/') => {
                    may_be_slash = true;
                }
                _ => {}
            }
            is_first = false;
        }
    }

    fn listed_class(&mut self) -> Option<Vec<String>> {
        let mut all = Vec::new();
        loop {
            let mut c = self.peek()?;
            self.at += 1;
            match c {
                ']' if !all.is_empty() => return (all.len() <= MAX_CLASS).then_some(all),
                '\\' => {
                    c = self.peek().filter(|c| c.is_ascii_punctuation())?;
                    self.at += 1;
                }
                '^' | '-' | '[' | ']' => return None,
                _ => {}
            }
            if matches!(c, '*' | '?' | '/') {
                return None;
            }
            all.push(c.to_string());
        }
    }

    fn atom(&mut self, depth: usize) -> Option<Vec<String>> {
        for (expression, pattern) in [(".*", "**".to_owned()), (".+", format!("{ONE_OR_MORE}**"))] {
            if self.takes(expression) {
                _ = self.takes("?");
                return Some(vec![pattern]);
            }
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
            '(' if self.reading == Reading::Wider && self.takes_assertion() => {
                let rest: String = self.text[self.at..].iter().collect();
                self.at += group(&rest)?.chars().count() + 1;
                return Some(vec![String::new()]);
            }
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
                let c = self.peek()?;
                self.at += 1;
                self.escaped(c)?
            }
            // They find no character.
            '^' | '$' if self.reading == Reading::Wider => return Some(vec![String::new()]),
            '.' if self.reading == Reading::Wider => any_character(true),
            '.' | '*' | '+' | '?' | ')' | ']' | '{' | '}' | '^' | '$' => return None,
            c => vec![c.to_string()],
        };
        match self.peek() {
            Some('*' | '+' | '{') => self.repeated(&one),
            Some('?') => {
                self.at += 1;
                if self.reading == Reading::Wider {
                    _ = self.takes("?") || self.takes("+");
                }
                Some(std::iter::once(String::new()).chain(one).collect())
            }
            _ if one.iter().any(|part| part.contains(['*', '?']) && c == '\\')
                && self.reading == Reading::Exact =>
            {
                None
            }
            _ => Some(one),
        }
    }

    /// What stands in front of or behind a place, and is no part of what is found.
    fn takes_assertion(&mut self) -> bool {
        ["?!", "?=", "?<!", "?<="].iter().any(|begin| self.takes(begin))
    }

    /// The character behind a backslash, or what it stands for.
    fn escaped(&self, c: char) -> Option<Vec<String>> {
        match (c, self.reading) {
            // A pattern has no other way to say these.
            ('*' | '?', Reading::Wider) => Some(vec!["?".to_owned()]),
            (c, _) if c.is_ascii_punctuation() => Some(vec![c.to_string()]),
            ('d' | 'w' | 's', Reading::Wider) => Some(any_character(false)),
            ('D' | 'W' | 'S', Reading::Wider) => Some(any_character(true)),
            ('b' | 'B' | 'A' | 'z' | 'Z', Reading::Wider) => Some(vec![String::new()]),
            _ => None,
        }
    }

    /// A part that is there several times.
    fn repeated(&mut self, one: &[String]) -> Option<Vec<String>> {
        if self.reading == Reading::Exact {
            return None;
        }
        let is_once = self.takes("+");
        if !is_once && !self.takes("*") {
            let length = self.text[self.at..].iter().position(|c| *c == '}')?;
            self.at += length + 1;
        }
        _ = self.takes("?") || self.takes("+");
        let has_slash = one.iter().any(|part| part.contains('/') || part.contains("**"));
        let any = if has_slash { "**" } else { "*" };
        Some(match is_once {
            true => one.iter().map(|part| format!("{part}{any}")).collect(),
            false => vec![any.to_owned()],
        })
    }
}

/// Any character, with or without the slash, which `?` does not find.
fn any_character(may_be_slash: bool) -> Vec<String> {
    if may_be_slash { vec!["?".to_owned(), "/".to_owned()] } else { vec!["?".to_owned()] }
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
            ("^/a(?:/(.*))?$", "/a/ [${rest}] /a []"),
            ("^/a/?$", "/a/. [] /a []"),
            ("^/a$", "/a []"),
            ("^/a/b", "/a/b** []"),
            ("^/a.php$", "/a?php []"),
            ("^/a.b/(.*)$", "/a?b/** [$2]"),
            ("^/([^?/]+/[^?]*)?$", "/?*/** [$1$2/$3] /. []"),
            ("^/(.*)$", "/ [${rest}]"),
            ("^/a/(?<name>.*)$", "/a/ [${rest}]"),
            ("^/a/(?P<name>[^/]+)$", "/a/?* [$1$2]"),
            ("^/a\\$b/(.*)\\.php$", "/a$b/**.php [$1]"),
        ] {
            let found = captured(expression).map(|all| {
                let one = |one: &Captured| {
                    format!("{} [{}]", one.pattern, one.groups.join(", ")).replace("[, ", "[")
                };
                all.iter().map(one).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(found.as_deref(), Some(expected), "{expression}");
        }
        for expression in [
            "/a/(.*)",
            "^/a/([0-9]+)$",
            "^/a/(\\d+)$",
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
            "^/(a|b|c|d|e|f|g|h|i)/(.*)$",
        ] {
            assert_eq!(captured(expression), None, "{expression}");
        }
    }

    #[test]
    fn writes_groups_into_a_target() {
        let one = &captured("^/a/([^/]+)/(.*)$").unwrap()[0];
        assert_eq!(one.target("/b/$2?c=$1&$args").as_deref(), Some("/b/$3?c=$1$2&$args"));
        assert_eq!(one.target("/b/$3"), None);
        assert_eq!(one.target("/b/$0"), None);
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
            assert_eq!(patterns(expression), expected, "{expression}");
        }
    }

    #[test]
    fn finds_alternatives_with_anchors_of_their_own() {
        for (expression, expected) in [
            ("^a|b$", vec!["^a", "b$"]),
            ("^(a|b)$", vec!["^(a|b)$"]),
            ("^(a|b$)", vec!["^a", "^b$"]),
            ("^(?:\\.(?!b)|c).*", vec!["^\\.(?!b).*", "^c.*"]),
            ("(^a|b)$", vec!["^a$", "b$"]),
            ("a\\|[|]|(b|c)", vec!["a\\|[|]", "(b|c)"]),
            ("(a", vec!["(a"]),
        ] {
            assert_eq!(distributed(expression), expected, "{expression}");
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
