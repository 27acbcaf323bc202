//! What a server or a location denies or redirects by conditions, before anything else: `if` with a `return` or a
//! `rewrite`, and hidden files beside upstreams.

use crate::brackets::is_glob;
use crate::draft::{Draft, Host, Scope};
use crate::pattern;
use crate::regex;
use crate::tree::{Directive, Place, unconverted};

use super::returns::{redirected, status, targets};
use super::selected;
use super::settings::{Context, template};

/// What an `if` does.
enum Then {
    Deny(i64),
    /// To this target, for this path or for all.
    Redirect {
        path: Option<String>,
        to: String,
        status: i64,
    },
}

impl Then {
    fn of(child: &Directive, context: &Context) -> Option<Then> {
        let ends = |inner: &&Directive| inner.name == "break";
        let (only, rest) = child.children().split_first()?;
        if !rest.iter().all(|inner| ends(&inner)) {
            return None;
        }
        match only.name.as_str() {
            "return" => match status(only)? {
                status @ 400.. => Some(Then::Deny(status)),
                status @ (301 | 302 | 303 | 307 | 308) => {
                    let to = template(only.arguments.last()?, &context.server_name)?;
                    Some(to)
                        .filter(|to| to.starts_with(['/', '$']) || to.contains("://"))
                        .map(|to| Then::Redirect { path: None, to, status })
                }
                _ => None,
            },
            "rewrite" => {
                let is_url = only.argument(1).contains("://");
                let status = match only.argument(2) {
                    "permanent" => 301,
                    "redirect" => 302,
                    _ if is_url => 302,
                    _ => return None,
                };
                let all = targets(only, context)?;
                let [(path, to)] = all.as_slice() else { return None };
                // Of a part of the path, a rule knows nothing.
                let is_of_part = to.contains("${") || (1..10).any(|n| to.contains(&format!("${n}")));
                let path = (path != "/").then(|| path.clone());
                (!is_of_part).then(|| Then::Redirect { path, to: redirected(to), status })
            }
            _ => None,
        }
    }

    /// Says in a rule what is done.
    fn set(self, rule: &mut Scope, place: &Place, draft: &mut Draft) {
        match self {
            Then::Deny(status) => {
                rule.set(place, "then", "deny");
                match status {
                    403 => {}
                    404 | 410 | 429 | 503 => rule.set(place, "status", status),
                    _ => draft.warn(place, format!("the status is 403, and not {status}"), "nothing to do"),
                }
            }
            Then::Redirect { path, to, status } => {
                if let Some(path) = path {
                    rule.set(place, "path", vec![path]);
                }
                rule.set(place, "then", "redirect");
                rule.set(place, "to", to);
                rule.set(place, "status", status);
            }
        }
    }

    /// Whether it is the way to HTTPS of the host of this name.
    fn is_to_https(&self, name: &str) -> bool {
        match self {
            Then::Redirect { to, .. } => {
                to.starts_with("https://$host") || to.starts_with(&format!("https://{name}"))
            }
            Then::Deny(_) => false,
        }
    }
}

/// The rule that an `if` becomes. `None`: it is for something else.
pub fn rule(child: &Directive, context: &Context, draft: &mut Draft) -> Option<Scope> {
    let then = Then::of(child, context)?;
    let text = child.arguments.join(" ");
    let text = text.strip_prefix('(')?.strip_suffix(')')?.trim();
    let place = &child.place;
    let mut rule = Scope::new(place.line);
    // A variable alone: it is neither empty nor 0.
    let (variable, operator, value) = match text.split_once(' ') {
        Some((variable, rest)) => {
            let (operator, value) = rest.split_once(' ')?;
            (variable, operator, value)
        }
        None => (text, "", ""),
    };
    match (variable, operator) {
        ("$query_string" | "$args", "") => rule.set(place, "query", vec!["?*".to_owned()]),
        (variable, "") if variable.starts_with("$arg_") => {
            rule.set(place, "query", parameter(&variable["$arg_".len()..], "?*")?);
        }
        ("$request_method", _) => {
            let methods: Option<Vec<String>> = match operator {
                "=" | "!=" => Some(vec![value.to_owned()]),
                "~" | "!~" => words(value.strip_prefix('^')?.strip_suffix('$')?),
                _ => None,
            };
            let but = if operator.starts_with('!') { "!" } else { "" };
            let methods = methods?.into_iter().map(|method| format!("{but}{method}"));
            rule.set(place, "method", methods.collect::<Vec<_>>());
        }
        // A rule knows no case, so that it denies more than `~` does. So it is with queries.
        ("$http_user_agent", "~" | "~*") => {
            rule.set(place, "user_agent", regex::values(unquoted(value))?);
        }
        ("$host" | "$http_host", "=" | "!=") => {
            let name = plain_query(unquoted(value)).filter(|name| !name.contains(['$', ':']))?;
            if operator == "=" && then.is_to_https(&name) {
                return None;
            }
            let sign = if operator == "!=" { "!" } else { "" };
            rule.set(place, "host", vec![format!("{sign}{name}")]);
        }
        ("$query_string" | "$args", "~" | "~*" | "!~" | "!~*" | "=" | "!=") => {
            let found = match operator.contains('~') {
                true => regex::values(unquoted(value))?,
                false => vec![plain_query(unquoted(value))?],
            };
            rule.set(place, "query", with_sign(operator, found));
        }
        (variable, "=" | "!=") if variable.starts_with("$arg_") => {
            let name = &variable["$arg_".len()..];
            let value = plain_query(unquoted(value)).filter(|value| !value.is_empty())?;
            rule.set(place, "query", with_sign(operator, parameter(name, &value)?));
        }
        ("$uri" | "$document_uri", "~" | "~*") if matches!(then, Then::Deny(_)) => {
            let expression = unquoted(value);
            let all = regex::patterns(expression)
                .or_else(|| regex::wider_patterns(expression).map(|wider| wider.patterns))?;
            let in_case = |path: &String| match operator {
                "~*" => pattern::ignoring_case(path),
                _ => Some(path.clone()),
            };
            rule.set(place, "path", all.iter().map(in_case).collect::<Option<Vec<_>>>()?);
        }
        // A proxy in front says which requests have TLS.
        ("$http_x_forwarded_proto", "=" | "!=") => {
            selected::add(variable, operator, unquoted(value), context.maps, &mut rule)?;
        }
        // A target of a redirect may have what such a condition found.
        _ if matches!(then, Then::Deny(_)) => {
            selected::add(variable, operator, unquoted(value), context.maps, &mut rule)?;
        }
        _ => return None,
    }
    then.set(&mut rule, place, draft);
    Some(rule)
}

fn is_of_referer(child: &Directive) -> bool {
    child.name == "if" && child.arguments.join(" ").trim_matches(['(', ')', ' ']) == "$invalid_referer"
}

/// Whether each `if` of a block with `valid_referers` becomes a rule.
pub fn are_of_rules(block: &[&Directive], context: &Context) -> bool {
    let mut all = block.iter().filter(|child| is_of_referer(child)).peekable();
    all.peek().is_some()
        && all.all(|child| of_referer(child, block, context, &mut Draft::default()).is_some())
}

/// The rule that `if ($invalid_referer)` becomes, by the `valid_referers` of its block. `None`: it is something else.
pub fn of_referer(
    child: &Directive,
    block: &[&Directive],
    context: &Context,
    draft: &mut Draft,
) -> Option<Scope> {
    let valid = block.iter().find(|other| other.name == "valid_referers").filter(|_| is_of_referer(child))?;
    let then = Then::of(child, context)?;
    let mut excepted = Vec::new();
    for value in &valid.arguments {
        match value.as_str() {
            "none" => excepted.push("!".to_owned()),
            "blocked" => draft.note(&valid.place, "a Referer that is no URL is not valid", "nothing to do"),
            "server_names" => excepted.push("!self".to_owned()),
            expression if expression.starts_with('~') => {
                let all = regex::values(&expression[1..])?;
                excepted.extend(all.into_iter().map(|text| format!("!*://{text}")));
            }
            name if name.contains('/') => excepted.push(format!("!*://{name}*")),
            name => excepted.push(format!("!{name}")),
        }
    }
    let mut rule = Scope::new(child.place.line);
    rule.set(&child.place, "referer", excepted);
    then.set(&mut rule, &child.place, draft);
    Some(rule)
}

/// A condition that no rule can say. What it denies would be open without it.
pub fn unsaid(child: &Directive) -> String {
    let denies =
        |inner: &Directive| inner.name == "return" && status(inner).is_some_and(|status| status >= 400);
    let end = if child.children().iter().any(denies) { ", and what it denies would be open" } else { "" };
    format!("{}{end}", unconverted(child))
}

fn unquoted(text: &str) -> &str {
    text.trim_matches('"').trim_matches('\'')
}

/// A query without wildcards.
fn plain_query(text: &str) -> Option<String> {
    (!is_glob(text) && !text.starts_with('!')).then(|| text.to_owned())
}

/// The queries that have a parameter.
fn parameter(name: &str, value: &str) -> Option<Vec<String>> {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let all = [format!("{name}={value}"), format!("*&{name}={value}")];
    let longer = all.each_ref().map(|one| format!("{one}&*"));
    is_plain.then(|| all.into_iter().chain(longer).collect())
}

/// What is excepted has the case of its letters, if that counts.
fn with_sign(operator: &str, all: Vec<String>) -> Vec<String> {
    let signed = |one: String| match operator {
        "!~*" => format!("!{one}"),
        _ if operator.starts_with('!') => format!("!{}", regex::counting_case(&one)),
        _ => one,
    };
    all.into_iter().map(signed).collect()
}

/// `(a|b)` or `a|b`, each a text without operators.
fn words(expression: &str) -> Option<Vec<String>> {
    let inner = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(expression);
    let is_plain = |word: &String| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_ ./".contains(c))
    };
    inner.split('|').map(|word| regex::literal(word).filter(is_plain)).collect()
}

/// Hidden files but those of `/.well-known/`.
pub fn hidden(child: &Directive) -> [Scope; 2] {
    let place = &child.place;
    let returned = child.children().iter().find(|inner| inner.name == "return").and_then(status);
    [&["/.well-known/**/.**"][..], &["/**/.*/**", "/**/.*", "!/.well-known/"]].map(|paths| {
        let mut rule = Scope::new(place.line);
        rule.set(place, "path", paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        rule.set(place, "then", "deny");
        if let Some(status) = returned.filter(|status| *status != 403) {
            rule.set(place, "status", status);
        }
        rule
    })
}

/// Puts rules in front of those of a host and of each route.
pub fn apply(rules: &[Scope], conditions: &[&Directive], host: &mut Host, draft: &mut Draft) {
    if rules.is_empty() {
        return;
    }
    let is_any = |scope: &Scope| scope.text("satisfy") == Some("any");
    if host.routes.iter().chain([&host.scope, &draft.top]).any(is_any) {
        // A password would open what is denied.
        for child in conditions {
            draft.error(
                &child.place,
                unconverted(child),
                "a password would open what it denies, by satisfy any",
            );
        }
    }
    let own = host.routes.iter_mut().filter(|route| !route.rules.is_empty());
    for scope in own.chain([&mut host.scope]) {
        scope.rules.splice(0..0, rules.iter().cloned());
    }
}
