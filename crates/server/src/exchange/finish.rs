//! The end of an exchange: a body that nothing has read is discarded, and the response gets what it has whatever made it.

use taipan_http::head::Method;
use taipan_http::rule::Rule;
use taipan_http::status::Status;

use super::Exchange;
use crate::content::fixed;
use crate::request::body::Discard;
use crate::response::Response;
use crate::services::Services;

impl Exchange<'_> {
    /// Discards a body that nothing has read. The response is `response`, or that to a body that breaks a rule.
    pub(super) async fn discard_body(&mut self, response: Response) -> Response {
        let discard = match self.head.method {
            Method::Get | Method::Head | Method::Options => Discard::ToTheEnd,
            // The method alone is likely to be the error. The client need not send the rest of the body to learn of it.
            _ if response.status().is_error() => Discard::Received,
            _ => Discard::ToTheEnd,
        };
        match self.body.discard(self.max_body, discard).await {
            Ok(()) => response,
            Err((status, rule)) => fixed::rejection(self.services, None, status, Some(rule)),
        }
    }

    /// With the fields that the exchange has for any response: of other origins, of authorizers, of limits, and of
    /// credentials. Without the one that its scheme forbids.
    pub(super) fn with_own_fields(&self, response: Response) -> Response {
        let response = self.without_hsts(response);
        let response = if self.names_origin() { self.share(self.cors, response) } else { response };
        let response = response.with_fields(&self.grants.added);
        match &self.grants.authentication_info {
            Some(info) => response.with_fields(&[("Authentication-Info", info)]),
            None => response,
        }
    }
}

/// The response to a request whose head could not be read, with the rule that it breaks.
pub fn error_response(
    services: &Services,
    method: Method,
    status: Status,
    rule: Option<&'static Rule>,
) -> Response {
    omit_content_for_head(method, fixed::rejection(services, None, status, rule))
}

/// The response to HEAD is that to GET, without the content (RFC 9110 §9.3.2).
#[inline]
pub(super) fn omit_content_for_head(method: Method, response: Response) -> Response {
    if method == Method::Head { response.without_body() } else { response }
}
