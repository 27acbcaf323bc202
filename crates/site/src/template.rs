//! Templates: the targets of redirects and rewrites, and the queries of fallbacks. Variables stand for parts of the
//! request: `$path`, `$rest`, `$query`, `$host`, `$scheme`.
//!
//! Knows nothing of which route a template belongs to.

use std::fmt;

use taipan_http::target::{SafePath, Scheme, encode_path, percent_encode};

use crate::host::name_of;
use crate::model::Host;
use crate::route::Pattern;

/// Variables in one template.
pub const MAX_VARIABLES: usize = 8;
/// Bytes of a path after a rewrite.
const MAX_REWRITTEN: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Variable(Variable),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// The whole path, with its leading slash.
    Path,
    /// What follows the pattern's prefix, without a leading slash.
    Rest,
    /// The query with a `?` in front. Empty if there is none.
    Query,
    /// The name of the host in the request, without the port.
    Host,
    Scheme,
}

impl Variable {
    const ALL: [(&str, Variable); 5] = [
        ("path", Variable::Path),
        ("rest", Variable::Rest),
        ("query", Variable::Query),
        ("host", Variable::Host),
        ("scheme", Variable::Scheme),
    ];
}

/// What is wrong with a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateError {
    /// Neither a path nor an `http` or `https` URL.
    RedirectStart,
    RewriteStart,
    FallbackStart,
    FallbackPath,
    FallbackQuery,
    Control,
    Percent,
    UnknownVariable,
    /// A variable that a rewrite does not have.
    OnlyInRedirect,
    TooManyVariables,
    /// The request could choose the host of the redirect.
    RestInAuthority,
    /// `..` leads above the root.
    NoPath,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TemplateError::RedirectStart => {
                "begin it with \"/\", \"$path\", \"http://\", \"https://\" or \"$scheme://\" and a host"
            }
            TemplateError::RewriteStart => "begin it with \"/\" or \"$path\": a rewrite stays in its host",
            TemplateError::FallbackStart => "begin it with \"/\": it is a path of the same host",
            TemplateError::FallbackPath => {
                "variables can only stand in its query, behind a question mark; a dollar sign is $$"
            }
            TemplateError::FallbackQuery => {
                "its query knows only $path and $rest; that of the request follows"
            }
            TemplateError::Control => "leave out the control character",
            TemplateError::Percent => "write a percent sign as %25",
            TemplateError::UnknownVariable => {
                "the variables are $path, $rest, $query, $host and $scheme; a dollar sign is $$"
            }
            TemplateError::OnlyInRedirect => "a rewrite knows only $path and $rest",
            TemplateError::TooManyVariables => "use at most eight variables",
            TemplateError::RestInAuthority => {
                "put a slash before $rest, or a client could redirect to another host"
            }
            TemplateError::NoPath => "the path must not lead above the root",
        })
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// A URL, or a path with a query, for `Location`. Characters that no URL has are percent-encoded.
    pub fn redirect(text: &str) -> Result<Template, TemplateError> {
        let template = Template::parse(text)?;
        if template.has_bare_percent() {
            return Err(TemplateError::Percent);
        }
        if !template.starts_as_path() {
            template.check_authority()?;
        }
        Ok(template)
    }

    /// A decoded path of the same host.
    pub fn rewrite(text: &str) -> Result<Template, TemplateError> {
        let template = Template::parse(text)?;
        if !template.starts_as_path() {
            return Err(TemplateError::RewriteStart);
        }
        if [Variable::Query, Variable::Host, Variable::Scheme].iter().any(|name| template.uses(*name)) {
            return Err(TemplateError::OnlyInRedirect);
        }
        match template.path("x", &Pattern::EVERYTHING) {
            Some(_) => Ok(template),
            None => Err(TemplateError::NoPath),
        }
    }

    /// A decoded path of the same host without variables, and the template of a query, if there is one.
    pub fn fallback(text: &str) -> Result<(SafePath<'static>, Option<Template>), TemplateError> {
        let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
        let path = Template::parse(path)?;
        if !path.is_constant() {
            return Err(TemplateError::FallbackPath);
        }
        if !path.starts_as_path() {
            return Err(TemplateError::FallbackStart);
        }
        let path = path.path("", &Pattern::EVERYTHING).ok_or(TemplateError::NoPath)?;
        let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok((path, None)) };
        let query = Template::parse(query)?;
        if [Variable::Query, Variable::Host, Variable::Scheme].iter().any(|name| query.uses(*name)) {
            return Err(TemplateError::FallbackQuery);
        }
        if query.has_bare_percent() {
            return Err(TemplateError::Percent);
        }
        Ok((path, Some(query)))
    }

    /// The query of a fallback for `path`. The values of variables are percent-encoded.
    pub fn query(&self, path: &str, pattern: &Pattern) -> String {
        let mut query = String::with_capacity(self.text.len() + path.len());
        for part in &self.parts {
            match part {
                Part::Literal(text) => encode_url(text, &mut query),
                Part::Variable(Variable::Path) => encode_value(&["/", path].concat(), &mut query),
                Part::Variable(Variable::Rest) => encode_value(pattern.rest(path), &mut query),
                Part::Variable(Variable::Query | Variable::Host | Variable::Scheme) => {}
            }
        }
        query
    }

    fn has_bare_percent(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Literal(text) if !is_encoded(text)))
    }

    pub fn uses(&self, variable: Variable) -> bool {
        self.parts.contains(&Part::Variable(variable))
    }

    /// Whether it has no variables.
    pub fn is_constant(&self) -> bool {
        !self.parts.iter().any(|part| matches!(part, Part::Variable(_)))
    }

    /// The path that replaces `path` in a rewrite. `None`: it is invalid.
    pub fn path(&self, path: &str, pattern: &Pattern) -> Option<SafePath<'static>> {
        let mut decoded = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => decoded.push_str(text),
                Part::Variable(Variable::Path) => decoded.extend(["/", path]),
                Part::Variable(Variable::Rest) => decoded.push_str(pattern.rest(path)),
                Part::Variable(Variable::Query | Variable::Host | Variable::Scheme) => {}
            }
        }
        if decoded.len() > MAX_REWRITTEN {
            return None;
        }
        SafePath::from_decoded(&decoded).ok()
    }

    /// The value of `Location`.
    pub fn location(&self, values: &Variables) -> String {
        let mut location = String::with_capacity(self.text.len() + values.path.len() + 16);
        for part in &self.parts {
            match part {
                Part::Literal(text) => encode_url(text, &mut location),
                Part::Variable(variable) => values.write(*variable, &mut location),
            }
        }
        // Two slashes in front would make the first segment a host (RFC 3986 §4.2).
        if self.starts_as_path() {
            let path = location.trim_start_matches('/').len();
            location.drain(..location.len() - path);
            location.insert(0, '/');
        }
        location
    }

    fn parse(text: &str) -> Result<Template, TemplateError> {
        if text.chars().any(char::is_control) {
            return Err(TemplateError::Control);
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once('$') {
            push_literal(&mut parts, literal);
            rest = match after.strip_prefix('$') {
                Some(after) => {
                    push_literal(&mut parts, "$");
                    after
                }
                None => {
                    let (variable, after) = variable(after).ok_or(TemplateError::UnknownVariable)?;
                    parts.push(Part::Variable(variable));
                    after
                }
            };
        }
        push_literal(&mut parts, rest);
        let variables = parts.iter().filter(|part| matches!(part, Part::Variable(_))).count();
        if variables > MAX_VARIABLES {
            return Err(TemplateError::TooManyVariables);
        }
        Ok(Template { text: text.to_owned(), parts })
    }

    fn starts_as_path(&self) -> bool {
        match self.parts.first() {
            Some(Part::Literal(text)) => text.starts_with('/') && !text.starts_with("//"),
            Some(Part::Variable(variable)) => *variable == Variable::Path,
            None => false,
        }
    }

    /// Checks for a scheme and a host that the request cannot choose, except by its own host.
    fn check_authority(&self) -> Result<(), TemplateError> {
        let after_scheme = match &self.parts[..] {
            [Part::Literal(text), ..] => text.strip_prefix("http://").or(text.strip_prefix("https://")),
            [Part::Variable(Variable::Scheme), Part::Literal(text), ..] => text.strip_prefix("://"),
            _ => None,
        };
        let first = after_scheme.ok_or(TemplateError::RedirectStart)?;
        let skip = 1 + usize::from(matches!(self.parts[0], Part::Variable(_)));
        let mut has_host = !first.is_empty();
        if first.starts_with(['/', '?', '#', '\\']) {
            return Err(TemplateError::RedirectStart);
        }
        if first.contains(['/', '?', '#']) {
            return Ok(());
        }
        for part in &self.parts[skip..] {
            match part {
                Part::Literal(text) if text.starts_with(['/', '?', '#']) && !has_host => break,
                Part::Literal(text) if text.contains(['/', '?', '#']) => return Ok(()),
                Part::Literal(_) | Part::Variable(Variable::Host) => has_host = true,
                Part::Variable(Variable::Path | Variable::Query) => break,
                Part::Variable(Variable::Rest | Variable::Scheme) => {
                    return Err(TemplateError::RestInAuthority);
                }
            }
        }
        if has_host { Ok(()) } else { Err(TemplateError::RedirectStart) }
    }
}

/// As it is written in a configuration.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn push_literal(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Literal(before)) => before.push_str(text),
        _ => parts.push(Part::Literal(text.to_owned())),
    }
}

/// `name` or `{name}` at the start, and what follows.
fn variable(text: &str) -> Option<(Variable, &str)> {
    let (name, after) = match text.strip_prefix('{') {
        Some(braced) => braced.split_once('}')?,
        None => {
            text.split_at(text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len()))
        }
    };
    Variable::ALL.iter().find(|(own, _)| *own == name).map(|(_, variable)| (*variable, after))
}

/// Whether each percent sign begins an encoded byte.
fn is_encoded(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|after| after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

/// Percent signs stay: they begin encoded bytes.
fn encode_url(text: &str, out: &mut String) {
    percent_encode(text, |byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte), out);
}

/// For a value in a query.
fn encode_value(text: &str, out: &mut String) {
    percent_encode(text, |byte| byte.is_ascii_alphanumeric() || b"-./:_~".contains(&byte), out);
}

/// The values of the variables in a redirect.
pub struct Variables<'a> {
    pub host: &'a Host,
    pub authority: &'a [u8],
    pub scheme: Scheme,
    pub query: Option<&'a str>,
    /// Decoded, without the leading slash.
    pub path: &'a str,
    pub pattern: &'a Pattern,
}

impl Variables<'_> {
    fn write(&self, variable: Variable, out: &mut String) {
        match variable {
            Variable::Path => {
                out.push('/');
                encode_path(self.path, out);
            }
            Variable::Rest => encode_path(self.pattern.rest(self.path), out),
            Variable::Query => {
                if let Some(query) = self.query.filter(|query| !query.is_empty()) {
                    out.push('?');
                    encode_url(query, out);
                }
            }
            Variable::Host => out.push_str(self.host_name()),
            Variable::Scheme => out.push_str(self.scheme.as_str()),
        }
    }

    /// The name in the request, or else the first of the host: HTTP/1.0 does not need to send one.
    fn host_name(&self) -> &str {
        let sent = std::str::from_utf8(name_of(self.authority)).unwrap_or_default();
        if !sent.is_empty() && sent.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~:[]".contains(&b)) {
            return sent;
        }
        let plain = self.host.names.iter().find(|name| !name.starts_with('*'));
        plain.map_or("localhost", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_templates_that_could_leave_the_host() {
        fn check(parsed: Result<Template, TemplateError>, expected: TemplateError) {
            assert_eq!(parsed, Err(expected));
        }
        use TemplateError::*;
        for to in
            ["", "x", "//x", "ftp://x/", "$host/", "http://", "http:///x", "https://$path", "https://$query"]
        {
            check(Template::redirect(to), RedirectStart);
        }
        check(Template::redirect("/a\r\nSet-Cookie: b"), Control);
        check(Template::redirect("/100%"), Percent);
        check(Template::redirect("/%2"), Percent);
        for to in ["/$", "/$x", "/$pathx", "/${path", "/$ rest"] {
            check(Template::redirect(to), UnknownVariable);
        }
        check(Template::redirect("https://example.org$rest"), RestInAuthority);
        check(Template::redirect("https://$rest/"), RestInAuthority);
        check(Template::redirect(&"/$path".repeat(9)), TooManyVariables);
        check(Template::rewrite("x"), RewriteStart);
        check(Template::rewrite("https://x/"), RewriteStart);
        check(Template::rewrite("/x$query"), OnlyInRedirect);
        check(Template::rewrite("/$host/x"), OnlyInRedirect);
        check(Template::rewrite("/../x"), NoPath);
        let fallback = |text: &str| Template::fallback(text).map(|_| Template::rewrite("/").unwrap());
        check(fallback("index.php"), FallbackStart);
        check(fallback("https://x/"), FallbackStart);
        check(fallback("//x"), FallbackStart);
        check(fallback("/$rest"), FallbackPath);
        check(fallback("/x?$query"), FallbackQuery);
        check(fallback("/x?$host"), FallbackQuery);
        check(fallback("/x?%"), Percent);
        check(fallback("/x?$nothing"), UnknownVariable);
        check(fallback("/x?a\n"), Control);
        check(fallback("/../x"), NoPath);
        for to in
            ["https://$host/$rest", "https://a.example$path", "http://$host", "$scheme://a.example/$rest"]
        {
            assert!(Template::redirect(to).is_ok(), "{to}");
        }
    }
}
