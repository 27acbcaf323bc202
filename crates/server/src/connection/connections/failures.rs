//! The log lines about connections that fail, of each kind within a limit.

use std::rc::Rc;

use taipan_http::proxy_header::ProxyHeaderError;

use crate::connection::tls;
use crate::log::{self, LineLimit};
use crate::peer::Peer;
use crate::services::Services;

pub struct FailureLog {
    services: Rc<Services>,
    sessions: LineLimit,
    /// Connections that end with an error of the client.
    http2: LineLimit,
    /// Connections without a valid PROXY header.
    headers: LineLimit,
    /// Peers on addresses for proxies that are not trusted.
    untrusted: LineLimit,
}

impl FailureLog {
    pub fn new(services: Rc<Services>) -> FailureLog {
        FailureLog {
            services,
            sessions: LineLimit::default(),
            http2: LineLimit::default(),
            headers: LineLimit::default(),
            untrusted: LineLimit::default(),
        }
    }

    /// A session of TLS has failed.
    pub fn log_session(&self, peer: Peer, failure: &tls::Failure) {
        if let Some(omitted) = self.sessions.admit(self.services.clock.read()) {
            log::warn(format_args!("TLS with {peer} failed: {failure}{omitted}"));
        }
    }

    /// A client speaks TLS to a listener without it: the listener or an address of clients may be wrong. The limit is
    /// that of failed sessions.
    #[cold]
    pub fn log_unexpected_tls(&self, peer: Peer) {
        if let Some(omitted) = self.sessions.admit(self.services.clock.read()) {
            log::warn(format_args!(
                "{peer} speaks TLS (https) to an address without TLS; the word tls behind an address in \"listen\" turns \
                 it on{omitted}"
            ));
        }
    }

    /// A client breaks a rule of HTTP/2.
    #[cold]
    pub fn log_http2(&self, peer: Peer, why: &str) {
        if let Some(omitted) = self.http2.admit(self.services.clock.read()) {
            log::info(format_args!("HTTP/2 with {peer} ended with an error: {why}{omitted}"));
        }
    }

    pub fn log_header(&self, proxy: Peer, error: ProxyHeaderError) {
        if let Some(omitted) = self.headers.admit(self.services.clock.read()) {
            log::warn(format_args!(
                "{error}; the proxy {proxy} must send one to an address with the word proxy (HAProxy: \
                 send-proxy-v2, nginx: proxy_protocol on){omitted}"
            ));
        }
    }

    pub fn log_untrusted(&self, proxy: Peer) {
        if let Some(omitted) = self.untrusted.admit(self.services.clock.read()) {
            log::warn(format_args!(
                "{proxy} has connected to an address for proxies, and is not one of `trusted_proxies`; it was \
                 disconnected{omitted}"
            ));
        }
    }
}
