//! The syntax of expressions: their alternatives and groups, and texts with few operators.

use crate::pattern::alone;

/// An expression whose groups have no names: `(a)` for `(?<name>a)`.
pub fn unnamed(expression: &str) -> String {
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

/// An expression whose dots are no operators, and stand for a character of a name.
pub fn with_any_character(expression: &str) -> String {
    with_dots(expression, "[^/]")
}

/// An expression whose dots stand for any character: one of a name, or a slash.
pub fn with_any_character_or_slash(expression: &str) -> String {
    with_dots(expression, "([^/]|/)")
}

/// Whether dots that are operators stand behind a slash alone, so that they find no other one: `/.a`, or `/(a|.b)`.
pub fn begins_names_with_dots(expression: &str) -> bool {
    let (mut before, mut rest) = (' ', expression.chars().peekable());
    // What stands in front of each group that is open.
    let mut groups: Vec<char> = Vec::new();
    while let Some(c) = rest.next() {
        let is_any = c == '.' && !matches!(rest.peek(), Some('*' | '+' | '?' | '{'));
        if is_any && before != '/' {
            return false;
        }
        before = match c {
            '\\' => rest.next().filter(|c| *c == '/').unwrap_or(' '),
            '(' => {
                groups.push(before);
                if rest.next_if_eq(&'?').is_some() {
                    rest.next_if_eq(&':');
                }
                before
            }
            '|' => groups.last().copied().unwrap_or(' '),
            ')' => {
                groups.pop();
                ' '
            }
            c => c,
        };
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn finds_dots_behind_slashes() {
        for (expression, expected) in [
            ("^/.well-known/", true),
            ("^/(api|.well-known)/", true),
            ("^/(?:.a|b\\.c)$", true),
            ("^/((a|.b)|.c)", true),
            ("^/(a|b.c)", false),
            ("^(/a|.b)", false),
            ("^/(a|b).c", false),
        ] {
            assert_eq!(begins_names_with_dots(expression), expected, "{expression}");
        }
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
