//! Templates: the targets of redirects and rewrites, and the queries of fallbacks. Variables stand for parts of the
//! request: `$path`, `$rest`, `$1` to `$9`, `$query`, `$host`, `$hostport`, `$scheme`.
//!
//! Knows nothing of which route a template belongs to.

mod query;

use std::fmt;

use taipan_http::head::Head;
use taipan_http::target::{SafePath, Scheme, encode_path, percent_encode};

use crate::host::name_of;
use crate::model::Host;
use crate::route::Pattern;
pub use query::{MAX_QUERY, QueryTemplate, QueryTooLong};

/// Variables in one template.
pub const MAX_VARIABLES: usize = 8;
/// Bytes of a path after a rewrite.
const MAX_REWRITTEN: usize = 16 * 1024;

/// A text with variables of the request: a location, a path, or a query.
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

impl Part {
    /// Whether it stands for a part of a path.
    fn is_of_path(&self) -> bool {
        matches!(self, Part::Variable(Variable::Path | Variable::Rest | Variable::Capture(_)))
    }
}

/// What stands for a part of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// The whole path, with its leading slash.
    Path,
    /// What follows the pattern's prefix, without a leading slash.
    Rest,
    /// What the wildcard of this number matches. The first is 1.
    Capture(u8),
    /// The query, with the `?` or `&` that joins it to what is before it. Empty if there is none. In another query,
    /// directly behind a part of a path, it belongs to the same value.
    Query,
    /// The name of the host in the request, without the port.
    Host,
    /// As `Host`, with the port, if the request has one.
    HostPort,
    Scheme,
}

impl Variable {
    const ALL: [(&str, Variable); 6] = [
        ("path", Variable::Path),
        ("rest", Variable::Rest),
        ("query", Variable::Query),
        ("host", Variable::Host),
        ("hostport", Variable::HostPort),
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
    /// A variable that the query of a rewrite or a fallback does not have.
    InQuery,
    /// `#`, which would end the query.
    Hash,
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
            TemplateError::InQuery => "its query knows only $path, $rest, $1 to $9 and $query",
            TemplateError::Hash => "write a number sign as %23",
            TemplateError::Control => "leave out the control character",
            TemplateError::Percent => "write a percent sign as %25",
            TemplateError::UnknownVariable => {
                "the variables are $path, $rest, $1 to $9, $query, $host, $hostport and $scheme; a dollar sign is $$"
            }
            TemplateError::OnlyInRedirect => {
                "a rewrite knows only $path, $rest and $1 to $9, and $query behind a question mark"
            }
            TemplateError::TooManyVariables => "use at most eight variables",
            TemplateError::RestInAuthority => {
                "put a slash before the variable, or a client could redirect to another host"
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
    fn rewritten_path(text: &str) -> Result<Template, TemplateError> {
        let template = Template::parse(text)?;
        if !template.starts_as_path() {
            return Err(TemplateError::RewriteStart);
        }
        if template.uses(Variable::Query) || template.uses_origin() {
            return Err(TemplateError::OnlyInRedirect);
        }
        match template.path("x", &Pattern::EVERYTHING) {
            Some(_) => Ok(template),
            None => Err(TemplateError::NoPath),
        }
    }

    /// A decoded path of the same host without variables, and the template of a query, if there is one.
    pub fn fallback(text: &str) -> Result<(SafePath<'static>, Option<QueryTemplate>), TemplateError> {
        let (path, query) = path_and_query(text);
        let path = Template::parse(path)?;
        if !path.is_constant() {
            return Err(TemplateError::FallbackPath);
        }
        if !path.starts_as_path() {
            return Err(TemplateError::FallbackStart);
        }
        let path = path.path("", &Pattern::EVERYTHING).ok_or(TemplateError::NoPath)?;
        Ok((path, query.map(QueryTemplate::parse).transpose()?))
    }

    /// Checks that the paths of a pattern have what the variables stand for. Errors say what to do.
    pub fn check(&self, pattern: &Pattern) -> Result<(), String> {
        if self.uses(Variable::Rest) && !matches!(pattern, Pattern::Prefix(_)) {
            return Err("$rest needs a prefix as pattern; use $path".to_owned());
        }
        let wildcards = pattern.wildcards();
        match self.captures().max() {
            Some(last) if wildcards == 0 => {
                Err(format!("${last} needs a pattern with wildcards; a prefix has $rest"))
            }
            Some(last) if usize::from(last) > wildcards => {
                Err(format!("${last} stands for nothing: the wildcards of \"{pattern}\" are {wildcards}"))
            }
            _ => Ok(()),
        }
    }

    /// The numbers of the wildcards that it uses.
    fn captures(&self) -> impl Iterator<Item = u8> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(Variable::Capture(number)) => Some(*number),
            _ => None,
        })
    }

    /// What its variables for parts of a path stand for.
    fn values<'v>(&self, path: &'v str, pattern: &'v Pattern) -> PathValues<'v> {
        let captures = match self.captures().next() {
            Some(_) => pattern.captures(path),
            None => Vec::new(),
        };
        PathValues { path, rest: pattern.rest(path), captures }
    }

    fn has_bare_percent(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Literal(text) if !is_encoded(text)))
    }

    pub fn uses(&self, variable: Variable) -> bool {
        self.parts.contains(&Part::Variable(variable))
    }

    /// Whether it uses what only a redirect has.
    fn uses_origin(&self) -> bool {
        [Variable::Host, Variable::HostPort, Variable::Scheme].iter().any(|name| self.uses(*name))
    }

    /// Whether it has no variables.
    pub fn is_constant(&self) -> bool {
        !self.parts.iter().any(|part| matches!(part, Part::Variable(_)))
    }

    /// The path that replaces `path` in a rewrite. `None`: it is invalid.
    fn path(&self, path: &str, pattern: &Pattern) -> Option<SafePath<'static>> {
        let values = self.values(path, pattern);
        let mut decoded = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => decoded.push_str(text),
                Part::Variable(variable) => decoded.extend(values.of(*variable)),
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
        let of_path = self.values(values.path, values.pattern);
        self.write(&of_path, values.query, |variable| values.of_origin(variable), &mut location);
        // Two slashes in front would make the first segment a host (RFC 3986 §4.2).
        if self.starts_as_path() {
            let path = location.trim_start_matches('/').len();
            location.drain(..location.len() - path);
            location.insert(0, '/');
        }
        location
    }

    /// The value of `Location` of a redirect for this request, whatever leads to it: its variables stand for the whole
    /// path, and so on.
    pub fn location_for(&self, host: &Host, head: &Head<'_>) -> String {
        let path = head.target.path().and_then(|path| SafePath::parse(path).ok());
        self.location(&Variables {
            host,
            authority: head.authority,
            scheme: head.scheme,
            query: head.target.query(),
            path: path.as_ref().map_or("", SafePath::as_str),
            pattern: &Pattern::EVERYTHING,
        })
    }

    /// Appends the text with the values of its variables, percent-encoded: behind a question mark so that none of them
    /// can end a parameter. `query` is that of the request, as it was sent.
    fn write<'o>(
        &self,
        values: &PathValues<'_>,
        query: Option<&str>,
        of_origin: impl Fn(Variable) -> &'o str,
        out: &mut String,
    ) {
        let query = query.filter(|query| !query.is_empty());
        let mut previous = None;
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            let is_query = is_in_query(out);
            match part {
                // An ampersand that joins something to an empty query.
                Part::Literal(text) if is_query && out.ends_with(['?', '&']) => {
                    encode_url(text.strip_prefix('&').unwrap_or(text), out);
                }
                Part::Literal(text) => encode_url(text, out),
                Part::Variable(Variable::Query) => match query {
                    Some(query) if is_query && previous.is_some_and(Part::is_of_path) => {
                        encode_value("?", out);
                        encode_value(query, out);
                    }
                    Some(query) => {
                        match (is_query, out.ends_with(['?', '&'])) {
                            (true, true) => {}
                            (true, false) => out.push('&'),
                            (false, _) => out.push('?'),
                        }
                        encode_url(query, out);
                    }
                    None if is_query && out.ends_with('&') => _ = out.pop(),
                    None => {}
                },
                Part::Variable(variable @ (Variable::Host | Variable::HostPort | Variable::Scheme)) => {
                    out.push_str(of_origin(*variable));
                }
                // Together they are the value: a URL, in which the path is encoded.
                Part::Variable(variable)
                    if is_query && parts.peek() == Some(&&Part::Variable(Variable::Query)) =>
                {
                    let mut url = String::new();
                    values.of(*variable).into_iter().for_each(|text| encode_path(text, &mut url));
                    encode_value(&url, out);
                }
                Part::Variable(variable) if is_query => {
                    values.of(*variable).into_iter().for_each(|text| encode_value(text, out));
                }
                Part::Variable(Variable::Path) => {
                    out.push('/');
                    encode_path(values.path, out);
                }
                Part::Variable(variable) => {
                    values.of(*variable).into_iter().for_each(|text| encode_path(text, out));
                }
            }
            previous = Some(part);
        }
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
                Part::Literal(_) | Part::Variable(Variable::Host | Variable::HostPort) => has_host = true,
                Part::Variable(Variable::Path | Variable::Query) => break,
                Part::Variable(Variable::Rest | Variable::Capture(_) | Variable::Scheme) => {
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

/// The target of a rewrite: a decoded path of the same host, perhaps with a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    path: Template,
    /// `None`: that of the request stays.
    pub query: Option<QueryTemplate>,
}

impl Rewrite {
    pub fn parse(text: &str) -> Result<Rewrite, TemplateError> {
        let (path, query) = path_and_query(text);
        let path = Template::rewritten_path(path)?;
        Ok(Rewrite { path, query: query.map(QueryTemplate::parse).transpose()? })
    }

    /// As [`Template::check`].
    pub fn check(&self, pattern: &Pattern) -> Result<(), String> {
        self.path.check(pattern)?;
        self.query.as_ref().map_or(Ok(()), |query| query.check(pattern))
    }

    /// The path that replaces `path`. `None`: it is invalid.
    pub fn path(&self, path: &str, pattern: &Pattern) -> Option<SafePath<'static>> {
        self.path.path(path, pattern)
    }

    /// Whether its path has no variables.
    pub fn is_constant(&self) -> bool {
        self.path.is_constant()
    }
}

/// As it is written in a configuration.
impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.query {
            Some(query) => write!(f, "{}?{}", self.path, query.text()),
            None => write!(f, "{}", self.path),
        }
    }
}

/// The query is what follows the first question mark, if there is one.
fn path_and_query(text: &str) -> (&str, Option<&str>) {
    text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)))
}

/// Whether what is appended to a URL belongs to its query.
fn is_in_query(url: &str) -> bool {
    url.find(['?', '#']).is_some_and(|at| url[at..].starts_with('?')) && !url.contains('#')
}

/// The values of the variables for parts of a path.
struct PathValues<'a> {
    path: &'a str,
    rest: &'a str,
    captures: Vec<&'a str>,
}

impl<'a> PathValues<'a> {
    fn of(&self, variable: Variable) -> [&'a str; 2] {
        match variable {
            Variable::Path => ["/", self.path],
            Variable::Rest => [self.rest, ""],
            Variable::Capture(number) => {
                let found = self.captures.get(usize::from(number).wrapping_sub(1));
                [found.copied().unwrap_or_default(), ""]
            }
            Variable::Query | Variable::Host | Variable::HostPort | Variable::Scheme => ["", ""],
        }
    }
}

fn push_literal(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Literal(before)) => before.push_str(text),
        _ => parts.push(Part::Literal(text.to_owned())),
    }
}

/// `name`, `{name}` or the digit of a wildcard at the start, and what follows.
fn variable(text: &str) -> Option<(Variable, &str)> {
    let digit = |text: &str| text.chars().next()?.to_digit(10).filter(|digit| *digit > 0);
    if let Some(number) = digit(text) {
        return Some((Variable::Capture(number as u8), &text[1..]));
    }
    let (name, after) = match text.strip_prefix('{') {
        Some(braced) => braced.split_once('}')?,
        None => {
            text.split_at(text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len()))
        }
    };
    if let Some(number) = digit(name).filter(|_| name.len() == 1) {
        return Some((Variable::Capture(number as u8), after));
    }
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
    fn of_origin(&self, variable: Variable) -> &str {
        match variable {
            Variable::Host => self.sent_or_first(name_of(self.authority)),
            Variable::HostPort => self.sent_or_first(self.authority),
            Variable::Scheme => self.scheme.as_str(),
            Variable::Path | Variable::Rest | Variable::Capture(_) | Variable::Query => "",
        }
    }

    /// What the request has sent, or else the first name of the host: HTTP/1.0 does not need to send one.
    fn sent_or_first<'v>(&'v self, sent: &'v [u8]) -> &'v str {
        let sent = std::str::from_utf8(sent).unwrap_or_default();
        if !sent.is_empty()
            && !sent.starts_with(':')
            && sent.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~:[]".contains(&b))
        {
            return sent;
        }
        self.host.name().unwrap_or("localhost")
    }
}

#[cfg(test)]
mod tests;
