//! Tokens that routes ask for, each verified once for a request. `site` decides.

use std::sync::Arc;
use std::time::Duration;

use site::jwt::{Jwt, TokenRejection};
use site::model::Route;
use taipan_http::status::Status;

use super::Exchange;
use super::token_checks::Checked;
use crate::clock::in_seconds;
use crate::response::Response;
use crate::stats::Count;

impl Exchange<'_> {
    /// Verifies the tokens that a route asks for. Errors: the response to a request without a right one.
    pub(super) async fn verify_tokens(&mut self, route: &Route) -> Result<(), Response> {
        for jwt in &route.jwts {
            if !self.grants.verified.contains(jwt) {
                self.verify_token(route, jwt).await?;
            }
        }
        Ok(())
    }

    async fn verify_token(&mut self, route: &Route, jwt: &Arc<Jwt>) -> Result<(), Response> {
        let token = match jwt.token(self.head) {
            Ok(token) => token,
            Err(rejection) => return Err(self.reject_token(route, jwt, rejection).await),
        };
        let checks = &self.responder.token_checks;
        match checks.verify(jwt, token, self.client.ip(), self.now).await {
            Checked::Right(variables) => {
                self.grants.verified.push(jwt.clone());
                for (name, value) in &variables {
                    // A variable that is not allowed, or has been set already, is left out.
                    _ = self.grants.variables.add(name, value);
                }
                Ok(())
            }
            Checked::Rejected(rejection) => {
                self.services.counts.add(Count::WrongTokens, u64::from(rejection.is_forged()));
                Err(self.reject_token(route, jwt, rejection).await)
            }
            Checked::Wait(wait) => {
                self.services.counts.add(Count::LoginsDelayed, 1);
                Err(self.wait_for_login(route, wait).await)
            }
            Checked::Busy => {
                self.services.counts.add(Count::LoginsBusy, 1);
                Err(self.status(route, Status::SERVICE_UNAVAILABLE).await)
            }
        }
    }

    async fn reject_token(&self, route: &Route, jwt: &Jwt, rejection: TokenRejection) -> Response {
        let response = self.status(route, rejection.status()).await;
        response.with_fields(&[("WWW-Authenticate", &jwt.challenge(rejection))])
    }

    /// 429 to a client that may try again after `wait`.
    pub(super) async fn wait_for_login(&self, route: &Route, wait: Duration) -> Response {
        let response = self.status(route, Status::TOO_MANY_REQUESTS).await;
        response.with_fields(&[("Retry-After", in_seconds(wait).max(1).to_string())])
    }
}
