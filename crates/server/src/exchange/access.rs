//! Rules of access: what a client may not have is neither sent, listed, nor shown as the page of an error. `site` decides.

use std::rc::Rc;

use site::access::{self, Facts, Tls, Verdict};
use site::decide::Decision;
use site::model::{Route, Site};
use site::plan;
use taipan_http::status::Status;
use taipan_http::target::{SafePath, Scheme};

use super::Exchange;
use crate::files::Entry;
use crate::handshake::TlsFacts;

/// What the rules of a site ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// There are rules.
    pub rules: bool,
    /// A rule asks for facts of the TLS connection, which the fast path does not have.
    pub tls: bool,
    /// The entries of a folder may have other verdicts than the folder.
    pub paths: bool,
}

impl Needs {
    pub fn of(site: &Site) -> Needs {
        let differ = |host: &site::model::Host| {
            let mut lists = host.routes.iter().map(|route| &route.access);
            lists.next().is_some_and(|first| lists.any(|other| other != first))
        };
        Needs {
            rules: site.rules().next().is_some(),
            tls: site.rules().any(|rule| rule.asks_for_tls()),
            paths: site.rules().any(|rule| rule.asks_for_path()) || site.hosts.iter().any(differ),
        }
    }
}

/// The rules do not let a request pass: the route whose error page the response has, and its status.
pub(super) struct Denied<'a>(pub &'a Route, pub Status);

impl<'a> Exchange<'a> {
    /// Whether the client may have what is at `path`, and at the path that rewrites lead to.
    #[cold]
    #[inline(never)]
    pub(super) fn check_access(&self, path: &SafePath<'_>) -> Result<(), Denied<'a>> {
        self.check_path(path)?;
        match plan::rewritten(self.host(), path) {
            Some(rewritten) => self.check_path(&rewritten),
            None => Ok(()),
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
    ) -> Result<(), Denied<'a>> {
        let rewritten = plan::rewritten(self.host(), path);
        let path = rewritten.as_ref().unwrap_or(path);
        match entry.path_of_file(path, decision.representation()) {
            // The check of `X.gz` is one of `X`, too.
            Some(file) => self.check_path(&file),
            None => Ok(()),
        }
    }

    pub(super) fn check_path(&self, path: &SafePath<'_>) -> Result<(), Denied<'a>> {
        match self.verdict(path) {
            Verdict::Allow(_) => Ok(()),
            Verdict::Deny(status, _) => Err(Denied(self.route(path), status)),
            Verdict::Authenticate(_) => Err(Denied(self.route(path), Status::FORBIDDEN)),
        }
    }

    /// The verdict of the rules on one path.
    pub(super) fn verdict(&self, path: &SafePath<'_>) -> Verdict<'a> {
        access::check(self.host(), path, self.facts())
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            head: self.head,
            client: self.client.ip(),
            tls: tls(self.head.scheme, self.tls),
            now: self.now,
        }
    }
}

/// As rules see it. The scheme is `https` behind a proxy with TLS, too.
fn tls(scheme: Scheme, facts: Option<&TlsFacts>) -> Tls<'_> {
    match (scheme, facts) {
        (Scheme::Https, Some(facts)) => Tls::On {
            version: facts.protocol,
            subject: facts.client.as_ref().map(|client| client.subject.as_str()),
        },
        _ => Tls::Off,
    }
}
