//! The expressions of `<If>`, as the conditions of a rewrite that say the same.

use crate::tree::{Directive, Place};

/// What stands around an expression of `m#…#`.
const DELIMITERS: &str = "#$%^|?!'\",;:._-";
/// Negations within negations.
const MAX_DEPTH: usize = 8;

/// A comparison: what is compared, and with what, as in `RewriteCond`.
#[derive(Debug, PartialEq, Eq)]
struct Term {
    subject: String,
    is_not: bool,
    test: String,
    any_case: bool,
}

/// The conditions of an expression whose parts are all joined by `&&`, or all by `||`. `None`: conditions cannot say it.
pub fn conditions(text: &str, place: &Place) -> Option<Vec<Directive>> {
    let (first, mut rest) = term(text, MAX_DEPTH)?;
    let mut terms = vec![first];
    let join = ["&&", "||"].into_iter().find(|join| rest.starts_with(join));
    while let Some(join) = join.filter(|_| !rest.is_empty()) {
        let (next, behind) = term(rest.strip_prefix(join)?, MAX_DEPTH)?;
        terms.push(next);
        rest = behind;
    }
    let last = terms.len() - 1;
    let terms = terms.into_iter().enumerate();
    let is_or = join == Some("||");
    let all = terms.map(|(at, term)| term.condition(is_or && at < last, place));
    rest.is_empty().then(|| all.collect())
}

impl Term {
    fn condition(self, is_or: bool, place: &Place) -> Directive {
        let flags: Vec<&str> = [(self.any_case, "NC"), (is_or, "OR")]
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, flag)| flag)
            .collect();
        let sign = if self.is_not { "!" } else { "" };
        let arguments = vec![self.subject, format!("{sign}{}", self.test), format!("[{}]", flags.join(","))];
        Directive { name: "rewritecond".to_owned(), arguments, block: None, place: place.clone() }
    }
}

/// A comparison, and what follows it.
fn term(text: &str, depth: usize) -> Option<(Term, &str)> {
    let text = text.trim_start();
    let depth = depth.checked_sub(1)?;
    if let Some(rest) = text.strip_prefix('!') {
        let (term, rest) = term(rest, depth)?;
        return Some((Term { is_not: !term.is_not, ..term }, rest));
    }
    if let Some(rest) = text.strip_prefix('(') {
        let (term, rest) = term(rest, depth)?;
        return Some((term, rest.strip_prefix(')')?.trim_start()));
    }
    let (subject, operator, rest) = match text.strip_prefix("-R") {
        Some(rest) => ("%{REMOTE_ADDR}", "-ipmatch", rest.trim_start()),
        None => {
            let end = text.strip_prefix("%{")?.find('}')? + 3;
            let (subject, rest) = text.split_at(end);
            let (operator, rest) = operator(rest.trim_start())?;
            (subject, operator, rest.trim_start())
        }
    };
    let (test, any_case, rest) = match operator {
        "=~" | "!~" => {
            let (expression, any_case, rest) = expression(rest)?;
            (expression.to_owned(), any_case, rest)
        }
        _ => {
            let (string, rest) = string(rest)?;
            let sign = if operator == "-ipmatch" { "-ipmatch " } else { "=" };
            (format!("{sign}{string}"), false, rest)
        }
    };
    let term = Term { subject: subject.to_owned(), is_not: operator.starts_with('!'), test, any_case };
    Some((term, rest.trim_start()))
}

fn operator(text: &str) -> Option<(&str, &str)> {
    const OPERATORS: [&str; 6] = ["=~", "!~", "==", "!=", "-ipmatch", "="];
    OPERATORS.into_iter().find_map(|operator| Some((operator, text.strip_prefix(operator)?)))
}

/// A string without variables, and what follows it.
fn string(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (inner, rest) = text[1..].split_once(quote)?;
    (!inner.contains(['%', '$', '\\', '"', '\''])).then_some((inner, rest))
}

/// A regular expression, whether it is for any case, and what follows it.
fn expression(text: &str) -> Option<(&str, bool, &str)> {
    let (delimiter, inner) = match text.strip_prefix('m') {
        Some(rest) => {
            let delimiter = rest.chars().next().filter(|c| *c == '/' || DELIMITERS.contains(*c))?;
            (delimiter, &rest[1..])
        }
        None => ('/', text.strip_prefix('/')?),
    };
    let (inner, rest) = inner.split_once(delimiter)?;
    // A condition of a rewrite would be something else with such a beginning.
    let is_plain =
        !inner.is_empty() && !inner.starts_with(['!', '=', '<', '>', '-']) && !inner.ends_with('\\');
    let flags = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
    let any_case = match &rest[..flags] {
        "" => false,
        "i" => true,
        _ => return None,
    };
    is_plain.then_some((inner, any_case, &rest[flags..]))
}

/// The rule of a section, as one of a rewrite: it denies everything, or leads to HTTPS. `None`: it is another one.
pub fn rule(section: &Directive) -> Option<Directive> {
    let [only] = section.children() else { return None };
    let words: Vec<String> = only.arguments.iter().map(|word| word.to_ascii_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (target, flags) = match (only.name.as_str(), words.as_slice()) {
        ("require", ["all", "denied"]) => ("-".to_owned(), "[F]"),
        ("redirect", ["permanent" | "301", "/", url]) | ("redirectpermanent", ["/", url]) => {
            let name = url.strip_prefix("https://")?.strip_suffix('/')?;
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
            is_name.then(|| (format!("https://{name}%{{REQUEST_URI}}"), "[R=301,L]"))?
        }
        _ => return None,
    };
    let arguments = vec!["^".to_owned(), target, flags.to_owned()];
    Some(Directive { name: "rewriterule".to_owned(), arguments, block: None, place: section.place.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The conditions of an expression.
    fn said(text: &str) -> Option<Vec<String>> {
        let all = conditions(text, &Place::at(1))?;
        Some(all.iter().map(|condition| condition.arguments.join(" ")).collect())
    }

    #[test]
    fn an_expression_becomes_conditions() {
        for (text, expected) in [
            ("%{REQUEST_URI} =~ m#^/a/#", &["%{REQUEST_URI} ^/a/ []"][..]),
            ("%{HTTP_USER_AGENT} =~ /(bot|spider)/i", &["%{HTTP_USER_AGENT} (bot|spider) [NC]"]),
            ("-R '10.0.0.0/8'", &["%{REMOTE_ADDR} -ipmatch 10.0.0.0/8 []"]),
            ("!(-R \"10.0.0.0/8\")", &["%{REMOTE_ADDR} !-ipmatch 10.0.0.0/8 []"]),
            ("! %{REMOTE_ADDR} -ipmatch '::1'", &["%{REMOTE_ADDR} !-ipmatch ::1 []"]),
            ("%{HTTPS} != 'on'", &["%{HTTPS} !=on []"]),
            (
                "%{REQUEST_URI} =~ m|^/a| && ! -R '10.1'",
                &["%{REQUEST_URI} ^/a []", "%{REMOTE_ADDR} !-ipmatch 10.1 []"],
            ),
            (
                "%{REQUEST_METHOD} == 'TRACE' || %{HTTP_REFERER} !~ /a/i",
                &["%{REQUEST_METHOD} =TRACE [OR]", "%{HTTP_REFERER} !a [NC]"],
            ),
        ] {
            assert_eq!(said(text).unwrap_or_default(), expected, "{text}");
        }
    }

    #[test]
    fn what_conditions_cannot_say_is_left() {
        for text in [
            "",
            "%{HTTPS}",
            "%{HTTPS} == on",
            "%{HTTPS} == 'on' &&",
            "%{HTTPS} == 'on' x",
            "%{HTTPS} == '%{ENV:X}'",
            "-R '10.0.0.0/8' && %{HTTPS} == 'on' || -R '10.1'",
            "!(-R '10.0.0.0/8' && %{HTTPS} == 'on')",
            "-f '/a'",
            "%{TIME_HOUR} -gt 12",
            "%{REQUEST_URI} =~ m#a#g",
            "%{REQUEST_URI} =~ /!a/",
            "%{REQUEST_URI} =~ /a\\/b/",
            "tolower(%{HTTP_HOST}) == 'a'",
            "!!!!!!!!!!-R '10.1'",
        ] {
            assert_eq!(said(text), None, "{text}");
        }
    }
}
