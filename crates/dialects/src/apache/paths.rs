//! Paths of folders and of URLs, and the patterns of sections.

use crate::brackets::is_glob;
use crate::draft::{Draft, denied_more};
use crate::pattern;
use crate::regex;
use crate::tree::Directive;

/// A folder without a slash at its end.
pub fn folder(text: &str) -> &str {
    match text.trim_end_matches('/') {
        "" => "/",
        folder => folder,
    }
}

/// What is below a folder, or the folder itself: empty. Both without a slash at their ends.
pub fn below<'p>(path: &'p str, outer: &str) -> Option<&'p str> {
    if outer == "/" {
        return path.strip_prefix('/');
    }
    let rest = path.strip_prefix(outer)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// A prefix of URLs, with a slash at its end.
pub fn prefix(text: &str) -> String {
    format!("/{}/", text.trim_matches('/')).replace("//", "/")
}

/// The patterns of `<Files>`: names of files, or an expression of names.
pub fn files(arguments: &[String], is_expression: bool) -> Option<Vec<String>> {
    let (text, is_expression) = match arguments {
        [text] => (text, is_expression),
        [tilde, text] if tilde == "~" => (text, true),
        _ => return None,
    };
    if !is_expression {
        let is_usable = !text.is_empty() && !text.contains(['/', '[', '{']);
        return is_usable.then(|| vec![named(text)]);
    }
    let counted = text.replace("(?i)", "").replace("(?i:", "(?:");
    let whole = without_query(&counted);
    let all: Option<Vec<Vec<String>>> = regex::distributed(&whole).iter().map(|one| names(one)).collect();
    let all = all?.concat();
    match counted == *text {
        true => Some(all),
        false => all.iter().map(|pattern| pattern::ignoring_case(pattern)).collect(),
    }
}

/// An expression without `(\?v=.*)?` at its end: a name of a file has no query.
fn without_query(expression: &str) -> String {
    let is_last = |(_, query): &(&str, &str)| query.ends_with(")?$") && query.matches(')').count() == 1;
    let before = expression.split_once("(\\?").filter(is_last).map(|(before, _)| format!("{before}$"));
    before.unwrap_or_else(|| expression.to_owned())
}

fn names(expression: &str) -> Option<Vec<String>> {
    // The files in the folder are hidden, and not it itself.
    let text = one_character(&expression.replace("\\.(?!well-known)", "\\."));
    let expression = text.strip_prefix('^').map_or_else(|| text.clone(), |rest| format!("^/{rest}"));
    let all = regex::patterns(&expression)?;
    let names = all.iter().map(|pattern| {
        let pattern = pattern.strip_prefix("/**").map_or(pattern.clone(), |rest| format!("*{rest}"));
        pattern.trim_start_matches('/').replace("**", "*")
    });
    let names: Vec<String> = names.collect();
    let are_names = names.iter().all(|name| !matches!(name.as_str(), "" | "." | "*") && !name.contains('/'));
    are_names.then(|| names.iter().map(|name| named(name)).collect())
}

/// An expression of names, in which a dot is any character.
fn one_character(expression: &str) -> String {
    let (mut out, mut is_escaped) = (String::new(), false);
    let mut chars = expression.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '.' if !is_escaped && !matches!(chars.peek(), Some('*' | '+' | '?' | '{')) => {
                out.push_str("[^/]")
            }
            c => out.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    out
}

/// The pattern of the files of a name, at any depth.
fn named(name: &str) -> String {
    if is_glob(name) { name.to_owned() } else { format!("/**/{name}") }
}

/// The patterns of an expression of whole paths, such as that of `<LocationMatch>`.
pub fn expression(text: &str) -> Option<Vec<String>> {
    let text = text.replacen("(^|/)", "/", 1).replacen("(?:^|/)", "/", 1);
    exact(&text).map(|path| vec![path]).or_else(|| regex::patterns(&text))
}

/// As `expression`, with more paths than it finds, for a directive that denies them. It is reported.
pub fn wider(text: &str, directive: &Directive, draft: &mut Draft) -> Option<Vec<String>> {
    let wider = regex::wider_patterns(&text.replacen("(^|/)", "/", 1).replacen("(?:^|/)", "/", 1))?;
    denied_more(&directive.text(), &wider, &directive.place, draft);
    Some(wider.patterns)
}

/// Reports what denies paths that no pattern can say.
pub fn left_open(directive: &Directive, what: String, draft: &mut Draft) {
    let what = format!("{what}, and what it denies would be open");
    let what_to_do = "before you remove this, deny its paths by a [[host.rule]]; see [[rule]]";
    draft.error(&directive.place, what, what_to_do);
}

/// The pattern of the path that an expression finds alone.
pub fn exact(expression: &str) -> Option<String> {
    let expression = if matches!(expression, "^/?$" | "^/*$") { "^/$" } else { expression };
    regex::exact(expression)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brackets::shown;

    #[test]
    fn knows_what_is_below_a_folder() {
        for (path, outer, expected) in [
            ("/a/b", "/a", Some("b")),
            ("/a", "/a", Some("")),
            ("/ab", "/a", None),
            ("/a", "/", Some("a")),
            ("/", "/", Some("")),
        ] {
            assert_eq!(below(path, outer), expected, "{path} {outer}");
        }
        assert_eq!([prefix("/a"), prefix("/"), prefix("a/b/")], ["/a/", "/", "/a/b/"]);
    }

    #[test]
    fn says_with_patterns_which_files_a_section_has() {
        for (arguments, is_expression, expected) in [
            (vec!["a.txt"], false, Some(vec!["/**/a.txt"])),
            (vec!["^\\.ph(ar|p)$"], true, Some(vec!["/**/.phar", "/**/.php"])),
            (vec!["*.b?k"], false, Some(vec!["*.b?k"])),
            (vec!["~", "\\.(a|b)$"], false, Some(vec!["*.a", "*.b"])),
            (vec!["^\\.ht"], true, Some(vec![".ht*"])),
            (vec!["\\.inc"], true, Some(vec!["*.inc*"])),
            (vec![".+\\.ph(?:ar|p)$"], true, Some(vec!["*.phar", "*.php"])),
            (vec!["^(a|b)$|\\.c$|^d"], true, Some(vec!["/**/a", "/**/b", "*.c", "d*"])),
            (vec!["^([\\._]ht|README$)"], true, Some(vec![".ht*", "_ht*", "/**/README"])),
            (vec!["^wp.config\\.php$"], true, Some(vec!["wp?config.php"])),
            (vec!["^\\.(?!well-known).*"], true, Some(vec![".*"])),
            (vec!["\\.(?i:php|phar)$"], true, Some(vec!["(?i)*.php", "(?i)*.phar"])),
            (vec!["(?i)\\.bak$"], true, Some(vec!["(?i)*.bak"])),
            (vec!["\\.(js|css)(\\?v=.*)?$"], true, Some(vec!["*.js", "*.css"])),
            (vec!["[0-9]"], true, Some(vec!["*[0-9]*"])),
            (vec!["^\\d+\\.txt$"], true, Some(vec!["[0-9]+.txt"])),
            (vec!["[^0-9]"], true, None),
            (vec!["^$"], true, None),
            (vec!["a/b"], false, None),
        ] {
            let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect());
            let found = files(&arguments, is_expression);
            let found = found.map(|all| all.iter().map(|one| shown(one)).collect::<Vec<_>>());
            assert_eq!(found, expected, "{arguments:?}");
        }
        let folders = ["/**/.git", "/**/.git/**"].map(str::to_owned).to_vec();
        assert_eq!(expression("(^|/)\\.git(/|$)"), Some(folders));
        for (text, expected) in
            [("^/$", "/."), ("^/?$", "/."), ("^/a/$", "/a/."), ("^/a$", "/a"), ("^/a/", "/a/")]
        {
            assert_eq!(expression(text), Some(vec![expected.to_owned()]), "{text}");
        }
    }
}
