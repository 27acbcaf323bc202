//! What a worker responds with: its files, upstreams, caches and limits.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use site::memory::PUBLISHED_FOLDERS;
use site::needs::Needs;
use taipan_http::head::Head;
use tokio::sync;

use super::folder_passwords::FolderPasswordFiles;
use super::logins::Logins;
use super::remembered::Remembered;
use super::token_checks::TokenChecks;
use crate::cache::Cache;
use crate::content::compress;
use crate::files::Files;
use crate::files::roots::OpenRoots;
use crate::forward_proxy::ForwardProxy;
use crate::limits::{self, LimitTable};
use crate::log::LineLimit;
use crate::pool::Pool;
use crate::response::Response;
use crate::semaphore::Semaphore;
use crate::services::Services;
use crate::spawner::Spawner;
use crate::upstream::concurrency::ConcurrencyLimit;
use crate::upstream::idle_connections::IdleConnections;
use crate::upstream::immediate::{RoutedResponse, SentRequests};
use crate::upstream::{KeptBytes, Upstreams};

/// A worker's means to respond to requests.
pub struct Responder {
    pub services: Rc<Services>,
    pub files: Rc<Files>,
    pub upstreams: Rc<Upstreams>,
    /// `Some`: no script is run, no application called and no file changed, and this says whether a request would have
    /// led to it.
    pub withheld: Option<Cell<bool>>,
    /// `None`: the site has no forward proxy.
    pub forward_proxy: Option<Rc<ForwardProxy>>,
    /// Idle connections to the servers of URLs.
    pub idle_connections: Rc<IdleConnections>,
    /// Limits the lines about requests that get no tunnel.
    pub rejected_tunnels: LineLimit,
    /// The stored responses of upstreams.
    pub cache: Rc<Cache>,
    pub needs: Needs,
    /// Whether some requests are rejected because of their host: by `needs`, or because it is in maintenance.
    pub rejects: Cell<bool>,
    /// The hosts in maintenance, with the seconds after which clients may try again.
    pub maintenance: RefCell<Vec<(usize, u32)>>,
    /// The answers of authorizers that count for further requests.
    pub answers: Remembered,
    /// `None`: there are no limits of speed and of requests.
    pub limits: Option<&'static LimitTable>,
    /// Limits the lines about requests that a limit would reject.
    pub dry_runs: LineLimit,
    /// Limits the lines about directives that cannot be carried out.
    pub mistakes: LineLimit,
    /// Limits the lines about what clients cannot publish, because there is no space.
    pub no_space: LineLimit,
    /// Limits the lines about requests that exceed a limit of publishing.
    pub excesses: LineLimit,
    /// Limits the lines about changes that fail, because the system refuses them.
    pub failed_changes: LineLimit,
    pub logins: Logins,
    pub token_checks: TokenChecks,
    pub folder_passwords: FolderPasswordFiles,
    /// Folders whose members are listed or copied by WebDAV.
    pub published_folders: sync::Semaphore,
}

impl Responder {
    /// Without a spawner and pools: responds to requests for scripts and applications with an error.
    pub fn without_upstreams(services: Rc<Services>, roots: OpenRoots) -> Responder {
        Responder::new(services, roots, None, Vec::new(), None)
    }

    /// Whether a request would have run a script, called an application or changed a file.
    pub fn has_withheld(&self) -> bool {
        self.withheld.as_ref().is_some_and(Cell::get)
    }

    /// With a spawner for scripts, pools for applications, and a forward proxy, as far as the site has them.
    pub fn new(
        services: Rc<Services>,
        roots: OpenRoots,
        spawner: Option<Rc<Spawner>>,
        pools: Vec<Rc<Pool>>,
        forward_proxy: Option<Rc<ForwardProxy>>,
    ) -> Responder {
        let files = Files::new(services.clone(), roots);
        let concurrency = ConcurrencyLimit::new(&services.site);
        let asserted = services.site.asserted_fields();
        let upgrades = Semaphore::new(services.site.limits.upgraded);
        let upstreams = Upstreams {
            kept: KeptBytes::default(),
            services: services.clone(),
            concurrency,
            spawner,
            pools,
            upgrades,
            asserted,
            outgoing: Cell::default(),
            sent: SentRequests::default(),
        };
        let (upstreams, cache) = (Rc::new(upstreams), Cache::new(services.clone()));
        let (needs, answers) = (Needs::of(&services.site), Remembered::default());
        let rules = services.site.forward_proxy.as_ref();
        let (keep, most) = rules.map_or((Duration::ZERO, 0), |rules| {
            (rules.http.as_ref().map_or(Duration::ZERO, |http| http.keep), rules.idle_connections())
        });
        let (logins, folder_passwords) = (Logins::default(), FolderPasswordFiles::default());
        Responder {
            services,
            files,
            upstreams,
            withheld: None,
            forward_proxy,
            idle_connections: IdleConnections::new(keep, most),
            rejected_tunnels: LineLimit::default(),
            no_space: LineLimit::default(),
            excesses: LineLimit::default(),
            failed_changes: LineLimit::default(),
            cache,
            rejects: Cell::new(needs.rejections),
            maintenance: RefCell::default(),
            needs,
            answers,
            limits: limits::of_process(),
            dry_runs: LineLimit::default(),
            mistakes: LineLimit::default(),
            logins,
            token_checks: TokenChecks::default(),
            folder_passwords,
            published_folders: sync::Semaphore::new(PUBLISHED_FOLDERS),
        }
    }

    /// The response to a request that the fast path has sent to an application.
    pub fn complete(&self, head: &Head<'_>, routed: RoutedResponse) -> Response {
        let RoutedResponse { host, route, response } = routed;
        let route = self.services.site.hosts.at(host).routes.get(route);
        compress::of_upstream(&self.services, &route.files.compress, head, response)
    }

    /// From now on, requests for these hosts get 503.
    pub fn set_maintenance(&self, hosts: Vec<(usize, u32)>) {
        self.rejects.set(self.needs.rejections || !hosts.is_empty());
        self.maintenance.replace(hosts);
    }

    /// Closes what the caches have open of files that have been deleted, and counts the files of stored responses that were
    /// used, in one of so many parts of each.
    pub fn sweep_caches(&self, parts: usize) {
        self.files.close_deleted(parts);
        self.cache.sweep(parts);
    }

    pub fn has_open_files(&self) -> bool {
        self.files.has_open_files() || self.cache.has_open_files()
    }
}
