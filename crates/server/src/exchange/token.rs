//! Tokens that routes ask for, each verified once for a request. `site` decides.

use site::model::Route;

use super::Exchange;
use crate::response::Response;
use crate::signature;

impl Exchange<'_> {
    /// Verifies the token that a route asks for. Errors: the response to a request without a right one.
    pub(super) async fn verify_token(&mut self, route: &Route) -> Result<(), Response> {
        let Some(jwt) = route.jwt.as_ref().filter(|jwt| !self.verified.contains(jwt)) else { return Ok(()) };
        match jwt.verify(self.head, self.now, signature::check) {
            Ok(variables) => {
                self.verified.push(jwt.clone());
                for (name, value) in &variables {
                    // A variable that is not allowed, or has been set already, is left out.
                    _ = self.variables.add(name, value);
                }
                Ok(())
            }
            Err(refusal) => {
                let response = self.status(route, refusal.status()).await;
                Err(response.with_fields(&[("WWW-Authenticate", &jwt.challenge(refusal))]))
            }
        }
    }
}
