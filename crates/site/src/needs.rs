//! What the hosts and routes of a site use. A request leaves out the steps for what none of them uses.
//!
//! Knows nothing of requests.

use crate::access::Action;
use crate::authentication::FolderPasswords;
use crate::model::{Host, LogFormat, Route, Site};

/// The steps that some request of the site needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// There are rules of access, or passwords.
    pub rules: bool,
    /// A rule names a limit of speed or of requests.
    pub limit_rules: bool,
    /// A rule asks for the address that a connection was made to.
    pub address_rules: bool,
    /// A rule asks for facts of the TLS connection, which the fast path does not have.
    pub tls_rules: bool,
    /// The entries of every folder may have other verdicts than the folder.
    pub path_rules: bool,
    /// Those of a folder may, if they have another route than the folder: see [`Host::may_differ_within`].
    pub route_rules: bool,
    /// Authorizers must let requests pass, or tokens.
    pub authorizers: bool,
    /// A host rejects some requests by the connection that they have come by.
    pub rejections: bool,
    /// Some routes allow something to other origins.
    pub cors: bool,
    /// A host has a folder for each of its names, or of its users.
    pub host_folders: bool,
    /// A host has a folder for each address of the server, or a log or a rule asks for the address that a connection
    /// was made to.
    pub addresses: bool,
    /// A host gives itself one name.
    pub canonical: bool,
    /// Upstreams get paths as they were sent.
    pub raw_paths: bool,
    /// The responses of some upstreams are stored.
    pub caches: bool,
    /// A client may ask for another protocol.
    pub upgrades: bool,
}

impl Needs {
    pub fn of(site: &Site) -> Needs {
        let routes = || site.hosts.iter().flat_map(|host| host.routes.iter());
        Needs {
            rules: site.rules().next().is_some() || routes().any(Route::asks_for_users),
            limit_rules: site.rules().any(|rule| matches!(rule.action, Action::Limit(_))),
            address_rules: site.rules().any(|rule| rule.asks_for_server_address()),
            tls_rules: site.rules().any(|rule| rule.asks_for_tls()),
            path_rules: site.rules().any(|rule| rule.asks_for_path())
                || routes().any(|route| route.authentication.folder != FolderPasswords::Off),
            route_rules: site.hosts.iter().any(routes_differ),
            authorizers: routes().any(|route| !route.authorizers.is_empty() || !route.jwts.is_empty()),
            rejections: site.hosts.iter().any(|host| host.tls.rejects()),
            cors: routes().any(|route| route.cors.is_some()),
            host_folders: site.has_host_folders(),
            addresses: has_address_folders(site)
                || logs_addresses(site)
                || site.rules().any(|rule| rule.asks_for_server_address()),
            canonical: site.hosts.iter().any(|host| host.canonical.is_some()),
            raw_paths: routes().any(Route::passes_raw_paths),
            caches: site.stores_responses(),
            upgrades: routes().any(Route::may_upgrade),
        }
    }
}

fn has_address_folders(site: &Site) -> bool {
    site.hosts.iter().any(|host| host.folder.as_ref().is_some_and(|folder| folder.has_address()))
}

/// Whether the lines of an access log have the address that a connection was made to.
fn logs_addresses(site: &Site) -> bool {
    let own = site.hosts.iter().filter_map(|host| host.access_log.as_deref());
    own.chain(site.log.access.as_ref()).any(|log| log.format == LogFormat::BoaAddress)
}

/// Whether the routes of a host ask for different things.
fn routes_differ(host: &Host) -> bool {
    let mut routes = host.routes.iter();
    routes.next().is_some_and(|first| routes.any(|other| !other.asks_as(first)))
}
