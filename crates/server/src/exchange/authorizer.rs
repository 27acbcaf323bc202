//! Authorizers: which ones a path has, and calling each once for a request, after tokens have been verified.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use site::access;
use site::authorizer::{Authorizer, key};
use site::forwarding::Spelling;
use site::model::{Host, Route};
use site::plan::rewritten;
use site::route::RouteId;
use taipan_http::status::Status;
use taipan_http::target::{PathError, SafePath, has_overlong_escapes};

use super::Exchange;
use super::remembered::Key;
use crate::content::fixed;
use crate::request::Request;
use crate::request::body::RequestBody;
use crate::response::Response;
use crate::upstream::{self, Form, ForwardedRequest, Handler, HandlerKind, Outcome};

/// The authorizers of a path: those of its route, of `planned`, the route that its plan leads to, and of the other
/// names of the path and of what rewrites make of it.
pub fn authorizers(host: &Host, path: &SafePath<'_>, planned: &Route) -> Vec<Arc<Authorizer>> {
    let mut found = Vec::new();
    for authorizer in routes(host, path, planned).iter().flat_map(|route| &route.authorizers) {
        if !found.contains(authorizer) {
            found.push(authorizer.clone());
        }
    }
    found
}

fn routes<'r>(host: &'r Host, path: &SafePath<'_>, planned: &'r Route) -> Vec<&'r Route> {
    let of = |path: &SafePath<'_>| host.routes.get(host.routes.find(path));
    let mut routes = vec![of(path), planned];
    let mut add_others = |path: &SafePath<'_>| {
        routes.extend(access::other_names(path, &of(path).files.alternates).iter().map(of));
    };
    add_others(path);
    if let Some(rewritten) = rewritten(host, path) {
        add_others(&rewritten);
    }
    routes
}

impl Exchange<'_> {
    #[cold]
    pub(super) fn must_authorize(&self, path: &SafePath<'_>, planned: &Route) -> bool {
        let asks = |route: &Route| !route.jwts.is_empty() || !route.authorizers.is_empty();
        routes(self.host(), path, planned).into_iter().any(asks)
    }

    /// Whether a token has to be verified for what is at `path`, or an authorizer to be called.
    pub(super) fn lacks_authorization(&self, path: &SafePath<'_>) -> bool {
        let lacks = |route: &Route| {
            route.jwts.iter().any(|jwt| !self.grants.verified.contains(jwt))
                || route.authorizers.iter().any(|own| !self.grants.authorized_by.contains(own))
        };
        routes(self.host(), path, self.route(path)).into_iter().any(lacks)
    }

    /// Verifies tokens, and calls authorizers. Errors: the response to a request that may not pass.
    pub(super) async fn call_authorizers(
        &mut self,
        request: Request<'_>,
        path: &SafePath<'_>,
        planned: &Route,
    ) -> Result<(), Response> {
        let route = self.host().routes.find(path);
        for route in routes(self.host(), path, planned) {
            self.verify_tokens(route).await?;
        }
        for authorizer in authorizers(self.host(), path, planned) {
            self.call_authorizer(request, route, &authorizer).await?;
        }
        Ok(())
    }

    /// Calls an authorizer, once for each request. Errors: its response, if it does not let the request pass.
    pub(super) async fn call_authorizer(
        &mut self,
        request: Request<'_>,
        route: RouteId,
        authorizer: &Arc<Authorizer>,
    ) -> Result<(), Response> {
        if self.grants.authorized_by.contains(authorizer) {
            return Ok(());
        }
        if request.head.target.path().is_some_and(has_overlong_escapes) {
            return Err(self.reject_path(PathError::Overlong));
        }
        let key = self.answer_key(request, authorizer);
        if let Some(variables) = key.and_then(|key| self.responder.answers.get(key, Instant::now())) {
            self.grants.pass(authorizer, &variables);
            return Ok(());
        }
        let kind = HandlerKind::Authorizer(authorizer.clone());
        let (host, folder, max_body) = (self.host, self.folder_path(), self.max_body);
        let (spelling, form) = (Spelling::Normalized, Form::Response);
        let handler = Handler { host, folder, route, kind, query: None, max_body, spelling, form };
        // The body is for the upstream that responds.
        let body = RequestBody::None;
        let upstreams = &self.responder.upstreams;
        // The line of the request does not name them.
        let log = Rc::default();
        let variables = &self.grants.variables;
        let forwarded =
            ForwardedRequest { request, handler: &handler, variables, body, log: &log, sent: None };
        match upstream::forward(upstreams, forwarded).await {
            Outcome::Authorized(permission) => {
                self.grants.pass(authorizer, &permission.variables);
                // It may have been asked before, about the path of a script that redirects to this one.
                for field in permission.response_fields {
                    if !self.grants.added.contains(&field) {
                        self.grants.added.push(field);
                    }
                }
                if let (Some(key), Some(subrequest), true) =
                    (key, &authorizer.subrequest, permission.may_be_remembered)
                {
                    let (variables, time) = (permission.variables, subrequest.cache);
                    self.responder.answers.insert(key, variables, Instant::now(), time);
                }
                Ok(())
            }
            outcome => {
                let response = self.on_outcome(request, &handler, outcome).await;
                Err(self.redirected_to_login(route, authorizer, response))
            }
        }
    }

    /// The response of an authorizer, or a redirect to the login in place of a 401, with the cookies that it sets.
    fn redirected_to_login(&self, route: RouteId, authorizer: &Authorizer, response: Response) -> Response {
        let login = authorizer.subrequest.as_ref().and_then(|subrequest| subrequest.login.as_ref());
        let Some(login) = login.filter(|_| response.status() == Status::UNAUTHORIZED) else {
            return response;
        };
        let location = login.location_for(self.host(), self.head);
        let cookies: Vec<(&str, &str)> = response
            .head
            .fields()
            .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
            .filter_map(|(_, value)| Some(("Set-Cookie", str::from_utf8(value).ok()?)))
            .collect();
        fixed::redirect(self.services, Some(self.route_at(route)), Status::FOUND, &location)
            .with_fields(&cookies)
    }

    /// `None`: the answer counts only once.
    fn answer_key(&self, request: Request<'_>, authorizer: &Authorizer) -> Option<Key> {
        authorizer.subrequest.as_ref().filter(|subrequest| !subrequest.cache.is_zero())?;
        let key = key(authorizer, request.head, request.connection.client.ip())?;
        Some(self.responder.answers.key(&key))
    }
}
