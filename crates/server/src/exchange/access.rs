//! Rules of access: what a client may not have is neither sent, listed, nor shown as the page of an error. `site`
//! decides.

use std::rc::Rc;
use std::sync::Arc;

use site::access::{self, Facts, Tls, Verdict};
use site::authentication::{Authentication, Demand};
use site::decide::Decision;
use site::model::{Action, Route};
use site::plan;
use site::route::RouteId;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme};

use super::Exchange;
use crate::files::Entry;
use crate::tls_facts::TlsFacts;

/// Why a request may not have what is at a path.
pub(super) enum Rejected<'a> {
    /// The route whose error page the response has, and its status.
    Denied(&'a Route, Status),
    /// A rule leads it elsewhere: to this location.
    Redirected(&'a Route, Status, String),
    /// A user has to authenticate. The password file of the folder of this path may have the users.
    Unauthenticated(Arc<Authentication>, SafePath<'static>),
    /// Authorizers, or a token, have to let the request pass to this path, which stands for that of the request.
    Unauthorized(SafePath<'static>),
}

impl<'a> Exchange<'a> {
    /// Whether the client may have what is at `path`, and at the path that rewrites lead to.
    pub(super) fn check_access(&self, path: &SafePath<'_>) -> Result<(), Rejected<'a>> {
        self.check_access_in(path, self.host().routes.find(path))
    }

    /// As `check_access`, for a path whose route is known.
    #[cold]
    #[inline(never)]
    pub(super) fn check_access_in(&self, path: &SafePath<'_>, route: RouteId) -> Result<(), Rejected<'a>> {
        let route = self.host().routes.get(route);
        self.check_names(path, route, self.head.token)?;
        if let Some(segments) = self.raw.as_ref().and_then(|raw| raw.segments.as_ref()) {
            self.check_path(segments)?;
        }
        self.check_rewritten(path, route, self.head.token)
    }

    /// As `check_access`, for another method than that of the request.
    pub(super) fn check_access_by(&self, path: &SafePath<'_>, method: &str) -> Result<(), Rejected<'a>> {
        let route = self.route_of(path);
        self.check_names(path, route, method)?;
        self.check_rewritten(path, route, method)
    }

    fn check_rewritten(
        &self,
        path: &SafePath<'_>,
        route: &'a Route,
        method: &str,
    ) -> Result<(), Rejected<'a>> {
        if !matches!(route.action, Action::Rewrite { .. }) {
            return Ok(());
        }
        match plan::rewritten(self.host(), path) {
            Some(rewritten) => self.check_names(&rewritten, self.route_of(&rewritten), method),
            None => Ok(()),
        }
    }

    /// Whether the rules may decide otherwise about `path`, or what rewrites make of it, for another client or at
    /// another time.
    pub(super) fn depends_on_client(&self, path: &SafePath<'_>) -> bool {
        let of = |path: &SafePath<'_>| access::depends_on_client(self.host(), path);
        of(path) || plan::rewritten(self.host(), path).is_some_and(|path| of(&path))
    }

    /// Whether the client may have what is at a path without a further password, token or authorizer.
    pub(super) fn may_know(&self, path: &SafePath<'_>) -> bool {
        self.check_entry(path).is_ok()
    }

    /// As `check_access`, for an entry of a listing: it needs no further token or authorizer.
    pub(super) fn check_entry(&self, path: &SafePath<'_>) -> Result<(), Rejected<'a>> {
        let needs = &self.responder.needs;
        if needs.rules {
            self.check_access(path)?;
        }
        match needs.authorizers && self.lacks_authorization(path) {
            true => Err(Rejected::Unauthorized(path.clone().into_owned())),
            false => Ok(()),
        }
    }

    /// As `check_access`, for the file that stands for `path`: an index file, or a precompressed one.
    #[cold]
    #[inline(never)]
    pub(super) fn check_served(
        &self,
        path: &SafePath<'_>,
        entry: &Rc<Entry>,
        decision: &Decision,
    ) -> Result<(), Rejected<'a>> {
        let chosen = decision.representation();
        let Some(file) = entry.path_of_file(path, chosen) else { return Ok(()) };
        let rewritten = plan::rewritten(self.host(), path);
        let file = rewritten.and_then(|path| entry.path_of_file(&path, chosen)).unwrap_or(file);
        if self.responder.needs.rules {
            self.check_path(&file)?;
        }
        if self.responder.needs.authorizers && self.lacks_authorization(&file) {
            return Err(Rejected::Unauthorized(file));
        }
        Ok(())
    }

    /// As `check_access`, for one path and the other names of its file. Returns the route of the path.
    pub(super) fn check_path(&self, path: &SafePath<'_>) -> Result<&'a Route, Rejected<'a>> {
        let route = self.route_of(path);
        self.check_names(path, route, self.head.token)?;
        Ok(route)
    }

    fn check_names(&self, path: &SafePath<'_>, route: &'a Route, method: &str) -> Result<(), Rejected<'a>> {
        self.check_name(path, route, method)?;
        access::other_names(path, &route.files.alternates)
            .iter()
            .try_for_each(|name| self.check_name(name, self.route_of(name), method))
    }

    fn check_name(&self, path: &SafePath<'_>, route: &'a Route, method: &str) -> Result<(), Rejected<'a>> {
        access::demands(route, path, self.facts(method))
            .try_for_each(|(own, verdict)| self.check_demand(path, own, verdict))
    }

    /// The route of a path, before rewrites.
    fn route_of(&self, path: &SafePath<'_>) -> &'a Route {
        self.host().routes.get(self.host().routes.find(path))
    }

    fn check_demand(
        &self,
        path: &SafePath<'_>,
        own: &Arc<Authentication>,
        verdict: Verdict<'a>,
    ) -> Result<(), Rejected<'a>> {
        match own.demand(verdict) {
            Demand::Nothing => Ok(()),
            Demand::User | Demand::FolderUser if self.has_authenticated(own, path) => Ok(()),
            Demand::User | Demand::FolderUser => {
                Err(Rejected::Unauthenticated(own.clone(), path.clone().into_owned()))
            }
            Demand::Denied => Err(self.denial(self.route(path), verdict)),
        }
    }

    fn denial(&self, route: &'a Route, verdict: Verdict<'a>) -> Rejected<'a> {
        let Verdict::Deny(status, rule) = verdict else {
            return Rejected::Denied(route, Status::FORBIDDEN);
        };
        match &rule.action {
            access::Action::Redirect(redirect) => {
                Rejected::Redirected(route, status, redirect.to.location_for(self.host(), self.head))
            }
            _ => Rejected::Denied(route, status),
        }
    }

    /// What rules may ask of the request. `method`: its own, or one that would do a part of what it does.
    pub(super) fn facts<'f>(&'f self, method: &'f str) -> Facts<'f> {
        Facts {
            head: self.head,
            method,
            client: self.client.address(),
            server: self.responder.needs.address_rules.then(|| self.server_address()).flatten(),
            tls: tls(self.head.scheme, self.tls()),
            now: self.now,
        }
    }
}

/// TLS as rules see it. The scheme is `https` behind a proxy with TLS, too.
fn tls(scheme: Scheme, facts: Option<&TlsFacts>) -> Tls<'_> {
    match (scheme, facts) {
        (Scheme::Https, Some(facts)) => Tls::On {
            version: facts.protocol,
            subject: facts.client.as_ref().map(|client| client.subject.as_str()),
        },
        _ => Tls::Off,
    }
}
