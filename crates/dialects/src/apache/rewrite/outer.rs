//! The rules of a folder around the root of files: their paths begin with the folders between both.

use super::{Rewrites, Rule};
use crate::apache::paths;
use crate::apache::rejections::{is_everything, rejection};
use crate::brackets::is_wildcard;
use crate::draft::Draft;
use crate::regex;
use crate::tree::Directive;

/// What an expression finds of the paths that begin with the folders between.
enum Found {
    /// The paths behind them that this expression finds.
    Behind(String),
    /// No path.
    Nothing,
    /// It depends on the folders.
    Unknown,
}

impl Rewrites {
    /// The rules for the paths behind `rest`, which ends with a slash. What cannot be said is reported.
    pub fn behind(&self, rest: &str, draft: &mut Draft) -> Rewrites {
        let mut own = self.clone();
        if rest.is_empty() {
            return own;
        }
        own.rules = self.rules().filter_map(|rule| behind(rule, rest, draft)).collect();
        own
    }
}

fn behind(own: &Rule, rest: &str, draft: &mut Draft) -> Option<Rule> {
    let Rule { rule, section: None, .. } = own else { return Some(own.clone()) };
    let (sign, expression) = match rule.argument(0).strip_prefix('!') {
        Some(expression) => ("!", expression),
        None => ("", rule.argument(0)),
    };
    // A target without a slash is one of the folder, which has no path here.
    let is_path = rule.argument(1) == "-" || rule.argument(1).starts_with('/');
    let is_whole = is_path || rule.argument(1).contains("://");
    let expression = match (found(expression, rest), sign) {
        (Found::Behind(text), _) if is_whole => format!("{sign}{text}"),
        (Found::Nothing, "") => return None,
        (Found::Nothing, _) if is_whole => "^".to_owned(),
        _ => {
            let what_to_do = "write it in the <Directory> of the files";
            match rejection(rule) {
                Some(_) => paths::left_open(rule, own.unconverted(), draft),
                None => draft.error(&rule.place, own.unconverted(), what_to_do),
            }
            return None;
        }
    };
    let arguments = std::iter::once(expression).chain(rule.arguments.iter().skip(1).cloned()).collect();
    Some(Rule { rule: Directive { arguments, ..rule.clone() }, ..own.clone() })
}

fn found(expression: &str, rest: &str) -> Found {
    if is_everything(expression) {
        return Found::Behind(expression.to_owned());
    }
    let mut all = Vec::new();
    for branch in regex::branches(expression) {
        match found_of_branch(branch, rest) {
            Found::Behind(text) => all.push(text),
            Found::Nothing => {}
            Found::Unknown => return Found::Unknown,
        }
    }
    if all.is_empty() { Found::Nothing } else { Found::Behind(all.join("|")) }
}

fn found_of_branch(expression: &str, rest: &str) -> Found {
    let Some(begin) = expression.strip_prefix('^') else { return unanchored(expression, rest) };
    let mut text = begin.chars();
    for expected in rest.chars() {
        let before = text.clone();
        let is_literal = match text.next() {
            Some('\\') => text.next() == Some(expected),
            Some(c) if c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | ' ') => c == expected,
            // An operator, or the end of the expression.
            _ => return Found::Unknown,
        };
        // What is behind a character may make it optional.
        let is_plain = text.clone().next().is_none_or(|c| !matches!(c, '?' | '*' | '{' | '+'));
        match (is_literal, is_plain && !is_class(before.as_str())) {
            (true, true) => {}
            (false, true) => return Found::Nothing,
            _ => return Found::Unknown,
        }
    }
    Found::Behind(format!("^{}", text.as_str()))
}

/// Whether a text begins with a class, such as `\d`.
fn is_class(text: &str) -> bool {
    text.strip_prefix('\\').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// An expression for any part of a path is for the parts behind the folders if nothing of it is in their names.
fn unanchored(expression: &str, rest: &str) -> Found {
    let patterns = regex::patterns(expression).unwrap_or_default();
    let begins = |pattern: &String| {
        let first = pattern.trim_start_matches("/**").split(is_wildcard).find(|part| !part.is_empty());
        first.is_some_and(|first| {
            let first = first.trim_matches('/');
            !first.is_empty() && !format!("/{rest}").contains(first)
        })
    };
    match !patterns.is_empty() && patterns.iter().all(begins) {
        true => match expression.strip_prefix('/') {
            // The folders end with a slash.
            Some(name) => Found::Behind(format!("(^|/){name}")),
            None => Found::Behind(expression.to_owned()),
        },
        false => Found::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_paths_behind_the_folders_of_a_root() {
        let shown = |expression: &str| match found(expression, "srv/www/") {
            Found::Behind(text) => text,
            Found::Nothing => "nothing".to_owned(),
            Found::Unknown => "unknown".to_owned(),
        };
        for (expression, expected) in [
            ("^srv/www/a", "^a"),
            ("^srv/www/(a|b)$", "^(a|b)$"),
            ("^a", "nothing"),
            ("^a|^srv/www/b", "^b"),
            ("^srv", "unknown"),
            ("^srv/.*/a", "unknown"),
            ("^srvx?/www/a", "unknown"),
            ("^\\w+/a", "unknown"),
            ("^", "^"),
            ("\\.php$", "\\.php$"),
            ("/\\.git", "(^|/)\\.git"),
            ("www", "unknown"),
            ("w$", "unknown"),
            ("[0-9]", "unknown"),
        ] {
            assert_eq!(shown(expression), expected, "{expression}");
        }
    }
}
