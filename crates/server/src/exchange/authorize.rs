//! Authorizers: applications that decide whether a request may pass (the Authorizer role of FastCGI).

use site::model::{Host, Route};
use site::route::RouteId;
use site::upstream::UpstreamId;
use taipan_http::target::SafePath;

use super::Exchange;
use crate::request::Request;
use crate::request::body::RequestBody;
use crate::response::Response;
use crate::upstream::{self, Handler, HandlerKind, Outcome};

/// The authorizers of a path: those of its route, and those of `planned`, the route that its plan leads to.
pub fn authorizers(host: &Host, path: &SafePath<'_>, planned: &Route) -> Vec<UpstreamId> {
    let route = host.routes.get(host.routes.find(path));
    let mut found = Vec::new();
    for &id in route.authorizers.iter().chain(&planned.authorizers) {
        if !found.contains(&id) {
            found.push(id);
        }
    }
    found
}

impl Exchange<'_> {
    pub(super) fn must_authorize(&self, path: &SafePath<'_>, planned: &Route) -> bool {
        !authorizers(self.host(), path, planned).is_empty()
    }

    /// Calls the authorizers of a path. Errors: the response of the one that does not let the request pass.
    pub(super) async fn authorize(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'_>,
        planned: &Route,
    ) -> Result<(), Response> {
        if self.responder.has_authorizers {
            let route = self.host().routes.find(path);
            for id in authorizers(self.host(), path, planned) {
                self.call_authorizer(request, route, id).await?;
            }
        }
        Ok(())
    }

    /// Calls an authorizer, once for each request. Errors: its response, if it does not let the request pass.
    pub(super) async fn call_authorizer(
        &mut self,
        request: Request<'_>,
        route: RouteId,
        id: UpstreamId,
    ) -> Result<(), Response> {
        if self.authorized_by.contains(&id) {
            return Ok(());
        }
        let kind = HandlerKind::Authorizer(id);
        let handler = Handler { host: self.host, route, kind, query: None, max_body: self.max_body };
        // The body is for the upstream that responds.
        let body = RequestBody::None;
        match upstream::forward(&self.responder.upstreams, request, &handler, &self.variables, body).await {
            Outcome::Authorized(id, variables) => {
                self.authorized_by.push(id);
                for (name, value) in variables {
                    // A variable that is not allowed, or has been set already, is left out.
                    _ = self.variables.add(&name, &value);
                }
                Ok(())
            }
            outcome => Err(self.on_outcome(request, &handler, outcome).await),
        }
    }
}
