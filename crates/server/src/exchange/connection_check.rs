//! Requests that a host does not serve, because of the connection that they have come by: without TLS, or with one that
//! was made for another host. `site` decides.

use std::time::Duration;

use site::host::name_of;
use site::model::{Route, Site};
use site::plan::PlannedAction;
use site::tls::{ConnectionRejection, HSTS};
use taipan_http::fields::host_and_port;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, with_query};

use super::fast::Stop;
use super::{Exchange, Responder};
use crate::content::fixed;
use crate::response::Response;
use crate::tls_facts::TlsFacts;

const HTTPS_PORT: u16 = 443;

impl Responder {
    /// The facts of a connection without the certificate of its client, if the handshake has verified that for a host
    /// with other authorities, or where this host asks for none. `None`: nothing has to be left out.
    pub(super) fn without_foreign_client(&self, host: usize, facts: Option<&TlsFacts>) -> Option<TlsFacts> {
        let facts = facts.filter(|facts| facts.client.is_some())?;
        let clients = |host: usize| &self.services.site.hosts.at(host).tls.clients;
        let is_foreign = clients(host) != clients(facts.host);
        is_foreign.then(|| TlsFacts { client: None, ..facts.clone() })
    }
}

impl<'a> Exchange<'a> {
    #[cold]
    #[inline(never)]
    pub(super) fn check_connection_fast(&self, path: &SafePath<'_>) -> Result<(), Stop> {
        let tls = &self.host().tls;
        if !tls.clients.are_off() || self.maintenance(path).is_some() {
            return Err(Stop::WAIT);
        }
        match tls.rejection(self.head.scheme, path.as_str(), None) {
            Some(rejection) => Err(self.reject_by_connection(rejection, path).into()),
            // The head of a cached file may have the field, and this is rare.
            None if tls.withholds_hsts(self.head.scheme) => Err(Stop::WAIT),
            None => Ok(()),
        }
    }

    /// The response as the scheme of the request allows it.
    pub(super) fn without_hsts(&self, response: Response) -> Response {
        let may_withhold = self.responder.rejects.get();
        match may_withhold && self.host().tls.withholds_hsts(self.head.scheme) {
            true => response.without(HSTS),
            false => response,
        }
    }

    /// Whether the host is in maintenance: the route of the request, and after which time clients may try again. What
    /// shows how the server does goes on.
    pub(super) fn maintenance(&self, path: &SafePath<'_>) -> Option<(&'a Route, Duration)> {
        let hosts = self.responder.maintenance.borrow();
        let (_, seconds) = hosts.iter().find(|(host, _)| *host == self.host)?;
        let plan = self.plan(path.clone());
        match plan.action {
            PlannedAction::Monitor(_) => None,
            _ => Some((plan.route, Duration::from_secs((*seconds).into()))),
        }
    }

    /// The response to a request that the host does not serve.
    pub(super) fn rejected_by_connection(&self, path: &SafePath<'_>) -> Option<Response> {
        let handshake = self.tls().map(|facts| &self.services.site.hosts.at(facts.host).tls);
        let rejection = self.host().tls.rejection(self.head.scheme, path.as_str(), handshake)?;
        Some(self.reject_by_connection(rejection, path))
    }

    fn reject_by_connection(&self, rejection: ConnectionRejection, path: &SafePath<'_>) -> Response {
        let status = match rejection {
            ConnectionRejection::Redirect => return self.redirect_to_https(path),
            ConnectionRejection::Misdirected => Status::MISDIRECTED_REQUEST,
            ConnectionRejection::NoCertificate => Status::FORBIDDEN,
        };
        fixed::status(self.services, None, status)
    }

    fn redirect_to_https(&self, path: &SafePath<'_>) -> Response {
        let name = match (name_of(self.head.authority), self.host().name()) {
            (b"", Some(own)) => own.as_bytes(),
            // HTTP/1.0 without Host.
            (b"", None) => return fixed::status(self.services, None, Status::BAD_REQUEST),
            (name, _) => name,
        };
        let mut origin = format!("https://{}", String::from_utf8_lossy(name));
        if let Some(port) = port(&self.services.site) {
            origin.push_str(&format!(":{port}"));
        }
        self.redirect_to_host(origin, path)
    }

    /// The redirect of a request to the name that its host gives itself. `None`: it has that name.
    #[cold]
    #[inline(never)]
    pub(super) fn redirect_to_canonical(&self, path: &SafePath<'_>) -> Option<Response> {
        let authority = self.head.authority;
        let name = self.services.site.hosts.canonical(self.host, authority)?;
        let mut origin = format!("{}://{name}", self.head.scheme.as_str());
        let authority = std::str::from_utf8(authority).unwrap_or_default();
        if let (_, Some(port)) = host_and_port(authority) {
            origin.push_str(&format!(":{port}"));
        }
        Some(self.redirect_to_host(origin, path))
    }

    /// `origin`: the scheme, the host and its port.
    fn redirect_to_host(&self, origin: String, path: &SafePath<'_>) -> Response {
        let location = with_query(origin + &path.encoded(), self.head.target.query());
        // Only 308 keeps the method and the body.
        let status = match self.is_get_or_head() {
            true => Status::MOVED_PERMANENTLY,
            false => Status::PERMANENT_REDIRECT,
        };
        fixed::redirect(self.services, None, status, &location)
    }
}

/// The port of TLS, unless it is the usual one, or only a proxy knows it.
fn port(site: &Site) -> Option<u16> {
    let with_tls = site.listeners.iter().filter(|listener| listener.protocols.tls);
    let ports: Vec<u16> = with_tls.filter_map(|listener| listener.address.port()).collect();
    ports.first().copied().filter(|first| *first != 0 && !ports.contains(&HTTPS_PORT))
}
