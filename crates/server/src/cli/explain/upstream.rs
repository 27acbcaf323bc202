//! What makes the response of a script or an application, and whether the response is stored.

use std::path::Path;

use cache::request::{self, ClientIdentity};
use cache::settings::{Cookies, Settings};
use site::forwarding::{Spelling, UNCHANGED};
use site::includes::Includes;
use site::model::{Account, HeaderRule, Interpreter, Route};
use site::upstream::{UpstreamId, UpstreamTls, Verification};
use site::walk::Step;
use taipan_http::head::Method;
use taipan_http::path_text::escaped;

use super::{Explanation, row};

impl Explanation<'_> {
    /// `of_host`: the folder of the host's name.
    pub(super) fn print_run(&self, step: &Step, of_host: Option<&Path>) {
        let Some((_, script)) = site::walk::script(self.host, step) else { return };
        match &script.interpreter {
            Some(Interpreter::Program(path)) => row("run by", format_args!("{}", path.display())),
            Some(Interpreter::Upstream(id)) => self.print_application(*id),
            None => {}
        }
        if !matches!(script.interpreter, Some(Interpreter::Upstream(_))) {
            self.print_account(script.account.as_ref());
        }
        row("as", format_args!("SCRIPT_NAME {}", step.script_name));
        if !step.path_info.is_empty() {
            row("", format_args!("PATH_INFO {}", escaped(&step.path_info)));
            if script.interpreter.is_none()
                && let Some(translated) = site::walk::path_translated(self.host, of_host, &step.path_info)
            {
                row("", format_args!("PATH_TRANSLATED {}", translated.display()));
            }
        }
    }

    pub(super) fn print_application(&self, id: UpstreamId) {
        if let Some(application) = self.site().upstreams.get(id) {
            row("run by", format_args!("{application}"));
            if let Some(managed) = application.managed() {
                self.print_account(managed.account.as_ref());
            }
            if let Some(tls) = &application.tls {
                print_tls(tls);
            }
            match (application.http2, &application.tls) {
                (true, Some(_)) => row("by", format_args!("HTTP/2 if it chooses so, or HTTP/1.1")),
                (true, None) => row("by", format_args!("HTTP/2")),
                (false, _) => {}
            }
            let addresses = application.addresses().len();
            if addresses > 1 {
                row("balance", format_args!("{} over {addresses} addresses", application.balance));
            }
            if let Some(hedging) = &application.hedging {
                let (after, budget) = (hedging.after.as_secs_f64(), hedging.budget);
                row(
                    "hedge",
                    format_args!("at a second endpoint after {after} s, {budget} % of the requests at most"),
                );
            }
            if let Some(checks) = &application.health.checks {
                let how = match &checks.path {
                    Some(path) => format!("GET {path}, status {}", checks.status),
                    None => "a connection".to_owned(),
                };
                let interval = checks.interval.as_secs_f64();
                row("health", format_args!("{how}, every {interval} s"));
            }
            if let Some(breaker) = &application.breaker {
                let (rate, least, window) =
                    (breaker.failure_rate, breaker.requests, breaker.window.as_secs_f64());
                row(
                    "breaker",
                    format_args!("open after {rate} % failures of {least} requests in {window} s"),
                );
            }
        }
    }

    /// Whether the response would be a stored one, or be stored.
    pub(super) fn print_cache(&self, route: &Route) {
        let Some(settings) = route.cache() else { return };
        if self.head.token == "PURGE" && route.purgers.is_some() {
            return row(
                "cache",
                format_args!(
                    "emptied of what is stored for the URL, if the client is within \"response_cache_purge\""
                ),
            );
        }
        self.print_cache_for(settings);
    }

    pub(super) fn print_cache_for(&self, settings: &Settings) {
        if !request::is_eligible(self.head) {
            return row(
                "cache",
                format_args!("passed: only GET and HEAD without a body have stored responses"),
            );
        }
        let ClientIdentity { credentials, cookies } = ClientIdentity::of(self.head, settings);
        let condition = match (credentials, cookies && settings.cookies == Cookies::IfPublic) {
            (true, _) => ", if the response is for all users: the request has credentials",
            (_, true) => ", if the response is for all users: the request has cookies",
            (false, false) => ", if the response allows it",
        };
        match self.head.method {
            Method::Head => row("cache", format_args!("looked up, and not stored: only GET is")),
            _ => row("cache", format_args!("looked up, and stored{condition}")),
        }
    }

    /// The request that an upstream gets by HTTP.
    /// `replaced`: the path and the query in place of those of the request.
    pub(super) fn print_forwarding(&self, route: &Route, replaced: Option<(String, Box<str>)>) {
        let forwarding = route.script.as_ref().map(|script| &script.forwarding);
        let forwarding = forwarding.unwrap_or(&UNCHANGED);
        let (path, query) = match &replaced {
            Some((path, query)) => (
                forwarding.path(path, Spelling::Normalized),
                Some(&**query).filter(|query| !query.is_empty()),
            ),
            None => {
                let sent = self.head.target.path().unwrap_or("/");
                (forwarding.path(sent, forwarding.spelling), self.head.target.query())
            }
        };
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        row("as", format_args!("{} {path}{query}", self.head.token));
        let requested = std::str::from_utf8(self.head.authority).unwrap_or_default();
        row("", format_args!("Host: {}", forwarding.host.as_deref().unwrap_or(requested)));
        for rule in &forwarding.fields {
            match rule {
                HeaderRule::Set(name, value) => row("", format_args!("{name}: {value}")),
                HeaderRule::Remove(name) => row("", format_args!("without {name}")),
                HeaderRule::Add(name, value) => row("", format_args!("also {name}: {value}")),
            }
        }
    }

    fn print_account(&self, account: Option<&Account>) {
        match (account, &self.site().user) {
            (Some(account), _) => row("account", format_args!("{account}")),
            (None, Some(user)) => row("account", format_args!("{user}, which is the server's own")),
            (None, None) => row("account", format_args!("the one that starts the server")),
        }
    }
}

fn print_tls(tls: &UpstreamTls) {
    let name = tls.name.as_deref().unwrap_or("the name in its address");
    let verified = match (tls.verification, &tls.authorities) {
        (Verification::Off, _) => "not verified".to_owned(),
        (Verification::Required, Some(path)) => {
            format!("verified as {name} by the authorities in {}", path.display())
        }
        (Verification::Required, None) => format!("verified as {name} by the authorities of the system"),
    };
    row("with TLS", format_args!("{verified}"));
}

/// The query that a script gets in place of that of the request.
pub(super) fn print_query(query: Option<&str>) {
    if let Some(query) = query {
        row("", format_args!("QUERY_STRING {query}"));
    }
}

/// Prints whether a response of a script or an upstream may be a page.
pub(super) fn print_pages(includes: &Includes) {
    if includes.cover_responses() {
        row("page", format_args!("{includes}: if its media type is one of \"include_types\""));
    }
}
