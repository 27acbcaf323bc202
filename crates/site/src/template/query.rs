//! The queries of rewrites and fallbacks.

use super::{Template, TemplateError, Variable, encode_url};
use crate::route::Pattern;

/// Bytes of a query of a rewrite or a fallback.
pub const MAX_QUERY: usize = 32 * 1024;

/// The query of a rewrite or of a fallback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryTemplate {
    text: String,
    template: Template,
    rest: RestOfQuery,
}

/// Where the query of the request is in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestOfQuery {
    Behind,
    /// Nowhere, or where the template has it.
    AsWritten,
}

/// It has more than [`MAX_QUERY`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryTooLong;

impl QueryTemplate {
    /// `text` is what follows the question mark. Another one at its end leaves out the query of the request.
    pub(super) fn parse(text: &str) -> Result<QueryTemplate, TemplateError> {
        let own = text.strip_suffix('?').unwrap_or(text);
        // The mark is in front, so that the text is one of a query.
        let template = Template::parse(&["?", own].concat())?;
        if template.uses_origin() {
            return Err(TemplateError::InQuery);
        }
        if own.contains('#') {
            return Err(TemplateError::Hash);
        }
        if template.has_bare_percent() {
            return Err(TemplateError::Percent);
        }
        let is_behind = !text.is_empty() && own.len() == text.len() && !template.uses(Variable::Query);
        let rest = if is_behind { RestOfQuery::Behind } else { RestOfQuery::AsWritten };
        Ok(QueryTemplate { text: text.to_owned(), template, rest })
    }

    /// As it is written in the configuration.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// As [`Template::check`].
    pub fn check(&self, pattern: &Pattern) -> Result<(), String> {
        self.template.check(pattern)
    }

    /// The query for `path`, where `sent` is that of the request. The values of variables are percent-encoded.
    pub fn query(&self, path: &str, pattern: &Pattern, sent: Option<&str>) -> Result<Box<str>, QueryTooLong> {
        let mut query = String::with_capacity(self.text.len() + path.len());
        self.template.write(&self.template.values(path, pattern), sent, |_| "", &mut query);
        if let (RestOfQuery::Behind, Some(sent)) = (self.rest, sent.filter(|sent| !sent.is_empty())) {
            query.push('&');
            encode_url(sent, &mut query);
        }
        match query.len() > MAX_QUERY {
            true => Err(QueryTooLong),
            false => Ok(query[1..].into()),
        }
    }
}
