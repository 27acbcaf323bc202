//! The site: a configuration as plain data, complete and valid. Every default is filled in, and every route has all of
//! its settings.
//!
//! Knows nothing of TOML, files on disk or sockets.

mod limits;
mod logging;
mod route;
mod scripts;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cache::key::Mapping;
use taipan_http::target::SafePath;

use crate::access::Rule;
use crate::authentication::USER_FIELD;
use crate::authorizer::is_same_name;
use crate::balance::Balance;
use crate::certificates::{Certificates, Challenge};
use crate::endpoint::Resolution;
use crate::folder::{HostFolder, UserFolders};
use crate::forward_proxy::ForwardProxy;
use crate::host::{Canonical, HostAddress, Hosts, name_of};
use crate::limit::Limit;
use crate::listener::Listener;
use crate::monitor::Monitor;
use crate::named_files::NamedFiles;
use crate::proxies::Proxies;
use crate::route::{Pattern, Routes};
use crate::tls::{HostTls, Tls};
use crate::tracing::Tracing;
use crate::upstream::Upstream;

pub use crate::sink::Sink;
pub use limits::{CacheFiles, CacheLimits, Http2, Limits, Timeouts};
pub use logging::{AccessLog, ErrorFormat, ErrorLines, Level, Log, LogFormat, LoggedClients, LoggedHost};
pub use route::{
    Action, Dotfiles, Enclosing, EtagFrom, Executables, Fallback, FallbackFor, FileRules, HeaderRule,
    Interpreter, LanguageFallback, Listing, MetaFiles, NamedRoot, RemoteHost, ResponseBuffering, Route,
    Script, Selector, Special, SpecialFiles, Suffixes, Symlinks,
};
pub use scripts::{
    Account, BackgroundJobs, ControlGroups, DEFAULT_SPOOL, KilledOutput, LocalRedirects, NewPrivileges,
    QueryArguments, Resources, Scripts,
};

/// The whole configuration, complete and valid.
#[derive(Debug, Clone)]
pub struct Site {
    pub listeners: Vec<Listener>,
    pub trusted_proxies: Proxies,
    /// `None`: one worker per core that the process may use.
    pub workers: Option<NonZeroUsize>,
    /// The user that root becomes after the addresses are bound.
    pub user: Option<String>,
    pub group: Option<String>,
    pub pid_file: Option<PathBuf>,
    /// A folder that the serving process cannot leave.
    pub chroot: Option<PathBuf>,
    pub sandbox: Sandbox,
    pub signals: SignalSet,
    /// The value of `Server`. `None`: no such field.
    pub server_header: Option<String>,
    /// The first one is the default host, for every name that no other host has.
    pub hosts: Hosts,
    /// The files that the configuration names. They are never served.
    pub named_files: NamedFiles,
    /// Limits of speed and of requests, by their numbers.
    pub traffic_limits: Vec<Limit>,
    pub upstreams: Vec<Upstream>,
    /// Of the names of upstreams, and of the destinations of the forward proxy.
    pub resolution: Resolution,
    /// `None`: the server is no forward proxy.
    pub forward_proxy: Option<ForwardProxy>,
    pub tls: Tls,
    pub certificates: Certificates,
    pub limits: Limits,
    pub statistics: Statistics,
    pub timeouts: Timeouts,
    pub cache: CacheLimits,
    /// `None`: responses are stored in memory only.
    pub cache_files: Option<CacheFiles>,
    pub http2: Http2,
    pub scripts: Scripts,
    pub log: Log,
    /// `None`: requests have no trace.
    pub tracing: Option<Tracing>,
}

/// The program whose signals the master understands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SignalSet {
    #[default]
    Taipan,
    Boa,
    Thttpd,
    Busybox,
}

/// Whether processes give up what they do not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    Off,
    /// As far as the kernel supports it. The log names what is missing.
    On,
    /// The server does not start if the kernel lacks a part of it.
    Required,
}

/// A virtual host.
#[derive(Debug, Clone)]
pub struct Host {
    /// Without port. `*.example.org` stands for every name below `example.org`.
    pub names: Vec<String>,
    /// The addresses of the server at which it responds. Empty: all that no host names.
    pub addresses: Vec<HostAddress>,
    /// `None`: all of its names are equal.
    pub canonical: Option<Canonical>,
    pub routes: Routes,
    /// The folders of [`NamedRoot::OfHost`].
    pub folder: Option<Arc<HostFolder>>,
    /// The folders of [`NamedRoot::OfUser`].
    pub users: Option<Arc<UserFolders>>,
    /// `None`: the access log of the site.
    pub access_log: Option<Box<AccessLog>>,
    pub tls: HostTls,
}

/// There may be thousands of hosts, so that what few of them have is behind a pointer.
const _: () = assert!(size_of::<Host>() <= 800);

impl Site {
    /// Of programs whose own setting is `own`: without a sandbox, nothing is taken from any program.
    pub fn new_privileges(&self, own: NewPrivileges) -> NewPrivileges {
        match self.sandbox {
            Sandbox::Off => NewPrivileges::AsUsual,
            Sandbox::On | Sandbox::Required => own,
        }
    }

    /// Whether a request for `authority`, which comes to the host at this index, may be that of an authority which
    /// examines an HTTP-01 challenge of this server. One for another host is for the program that gets its certificate.
    pub fn answers_challenges(&self, host: usize, authority: &[u8]) -> bool {
        // A host of another address may have the name.
        let named = self.hosts.names().find(name_of(authority));
        let has_acme = named.into_iter().chain([host]).any(|host| self.hosts.at(host).tls.acme);
        has_acme && self.certificates.challenges.contains(&Challenge::Http)
    }

    /// The last requests that are kept to be shown, over all workers: many for a page, and else those of `taipan top`.
    pub fn recent_requests(&self) -> usize {
        let mut routes = self.hosts.iter().flat_map(|host| host.routes.iter());
        let default = match routes.any(|route| matches!(route.action, Action::Monitor(Monitor::Status))) {
            true => 1000,
            false => 256,
        };
        self.limits.recent_requests.unwrap_or(default)
    }

    /// Where the logs go, each place once, and the error log first.
    pub fn sinks(&self) -> Vec<&Sink> {
        let mut sinks = vec![&self.log.error];
        let own = self.hosts.iter().filter_map(|host| host.access_log.as_deref());
        let of_all = self.log.access.as_ref().filter(|access| !access.is_by_host());
        for access in own.chain(of_all) {
            if !sinks.contains(&&access.sink) {
                sinks.push(&access.sink);
            }
        }
        sinks.extend(self.log.scripts.iter().filter(|scripts| !sinks.contains(scripts)).collect::<Vec<_>>());
        sinks.extend(self.tracing.iter().filter_map(|tracing| tracing.export.as_ref()));
        sinks
    }

    /// Of the files that a worker keeps open: those that are stored responses.
    pub fn response_descriptors(&self) -> usize {
        if self.stores_responses() { self.cache.descriptors / 4 } else { 0 }
    }

    /// Whether the responses of any script or upstream are stored.
    pub fn stores_responses(&self) -> bool {
        self.hosts.iter().any(|host| host.routes.iter().any(|route| route.stores))
            || self.forward_proxy.as_ref().is_some_and(ForwardProxy::stores_responses)
    }

    /// Bytes of the responses that a worker receives at the same time in order to store them: as many as it keeps, and
    /// with files at least those of the largest body that a file may have.
    pub fn received_responses(&self) -> usize {
        let Some(files) = &self.cache_files else { return self.cache.responses };
        let of_routes = self.hosts.iter().flat_map(|host| host.routes.iter()).filter_map(Route::cache);
        let of_proxy = self.forward_proxy.iter().filter_map(|proxy| proxy.http.as_ref()?.cache.as_ref());
        let largest = of_routes.chain(of_proxy).map(|settings| settings.largest).max().unwrap_or(0);
        self.cache.responses.max(usize::try_from(largest.min(files.largest)).unwrap_or(usize::MAX))
    }

    /// The site of `taipan DIR`: one folder with listings, and otherwise default settings.
    pub fn folder(root: PathBuf, listeners: Vec<Listener>) -> Site {
        let files = FileRules { listing: Listing::On, ..FileRules::default() };
        let files = Arc::new(files);
        let route = Route { files, ..Route::new(Pattern::EVERYTHING, Action::Files { root, strip: 0 }) };
        let host = Host {
            names: Vec::new(),
            addresses: Vec::new(),
            canonical: None,
            routes: Routes::only(route),
            folder: None,
            users: None,
            access_log: None,
            tls: HostTls::default(),
        };
        Site {
            listeners,
            trusted_proxies: Proxies::default(),
            workers: None,
            user: None,
            group: None,
            pid_file: None,
            chroot: None,
            sandbox: Sandbox::On,
            signals: SignalSet::Taipan,
            server_header: Some(SERVER_HEADER.to_owned()),
            hosts: Hosts::only(host),
            named_files: NamedFiles::default(),
            traffic_limits: Vec::new(),
            upstreams: Vec::new(),
            resolution: Resolution::default(),
            forward_proxy: None,
            tls: Tls::default(),
            certificates: Certificates::default(),
            limits: Limits::default(),
            statistics: Statistics::default(),
            timeouts: Timeouts::default(),
            cache: CacheLimits::default(),
            cache_files: None,
            http2: Http2::default(),
            scripts: Scripts::default(),
            log: Log::default(),
            tracing: None,
        }
    }

    /// Makes relative paths absolute, because a script has another working folder. They begin in `folder`.
    pub fn anchor(&mut self, folder: &Path) {
        // Without segments `.`, because scripts and messages have these paths.
        let anchor = |path: &mut PathBuf| *path = folder.join(&*path).components().collect();
        self.paths_mut().for_each(anchor);
        let ticket_keys = self.tls.tickets.iter_mut().filter_map(|tickets| tickets.key_file.as_mut());
        let of_tls = self.hosts.tls_mut().flat_map(HostTls::paths_mut).chain(ticket_keys);
        let of_upstreams = self.upstreams.iter_mut().flat_map(Upstream::tls_paths_mut);
        of_tls.chain(of_upstreams).for_each(anchor);
        self.certificates.paths_mut().for_each(anchor);
        self.chroot.iter_mut().for_each(anchor);
    }

    fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let scripts = self.scripts.sendfile.iter_mut().chain([&mut self.scripts.spool]);
        let upstreams = self.upstreams.iter_mut().flat_map(Upstream::paths_mut);
        let cache = self.cache_files.iter_mut().map(|files| &mut files.folder);
        self.hosts.paths_mut().chain(scripts).chain(upstreams).chain(cache)
    }

    /// Removes every account, so that all processes and scripts have that of the master.
    pub fn keep_account(&mut self) {
        (self.user, self.group, self.scripts.account) = (None, None, None);
        for route in self.hosts.routes_mut().flat_map(Routes::iter_mut) {
            let scripts = route.script.iter_mut().chain(&mut route.lister);
            scripts.for_each(|script| script.account = None);
        }
    }

    /// Changes every path to the one within the chroot `folder`.
    pub fn enter(&mut self, folder: &Path) {
        for path in self.paths_mut() {
            if let Ok(inside) = path.strip_prefix(folder) {
                *path = Path::new("/").join(inside);
            }
        }
        self.upstreams.iter_mut().for_each(|upstream| upstream.enter(folder));
    }

    /// The folders with files to serve, each once.
    pub fn roots(&self) -> BTreeSet<&Path> {
        let sendfile = self.scripts.sendfile.iter().map(PathBuf::as_path);
        self.hosts.iter().flat_map(Host::roots).chain(sendfile).collect()
    }

    /// The roots of the routes in which clients publish, each once.
    pub fn published_roots(&self) -> BTreeSet<&Path> {
        let routes = self.hosts.iter().flat_map(|host| host.routes.iter());
        let roots = routes.filter(|route| route.publishes()).filter_map(|route| match &route.action {
            Action::Files { root, .. } => Some(root.as_path()),
            _ => None,
        });
        roots.collect()
    }

    /// Whether a host has a folder for each of its names.
    pub fn has_host_folders(&self) -> bool {
        self.hosts.iter().any(|host| host.folder.is_some())
    }

    /// Whether a host has folders for names or for users.
    pub fn has_named_folders(&self) -> bool {
        self.has_host_folders() || self.hosts.iter().any(|host| host.users.is_some())
    }

    /// Whether any route has scripts or an upstream.
    pub fn has_scripts(&self) -> bool {
        self.hosts.iter().any(|host| host.routes.has_scripts() || host.lister_routes().next().is_some())
    }

    /// Routes whose files run as CGI programs.
    pub fn program_routes(&self) -> impl Iterator<Item = (&Route, &Script)> {
        self.hosts.iter().flat_map(Host::program_routes)
    }

    /// Whether any route asks for a token.
    pub fn has_tokens(&self) -> bool {
        let mut routes = self.hosts.iter().flat_map(|host| host.routes.iter());
        routes.any(|route| !route.jwts.is_empty())
    }

    /// The fields that only passwords, authorizers and tokens set: a client's own are removed from every request, so
    /// that a script or an application can rely on them on any route.
    pub fn asserted_fields(&self) -> Vec<String> {
        let routes = self.hosts.iter().flat_map(|host| host.routes.iter());
        let subrequests =
            routes.flat_map(|route| &route.authorizers).filter_map(|own| own.subrequest.as_ref());
        let mut names: Vec<String> = Vec::new();
        let tokens = self.hosts.iter().flat_map(|host| host.routes.iter()).flat_map(|route| &route.jwts);
        let of_tokens = tokens.flat_map(|jwt| &jwt.fields).map(|(name, _)| name);
        let user = self
            .hosts
            .iter()
            .flat_map(|host| host.routes.iter())
            .any(Route::asks_for_users)
            .then(|| USER_FIELD.to_owned());
        for name in subrequests.flat_map(|subrequest| &subrequest.fields).chain(of_tokens).chain(&user) {
            if !names.iter().any(|known| is_same_name(known.as_bytes(), name)) {
                names.push(name.clone());
            }
        }
        names
    }

    /// The files of users, of groups, and of the keys of tokens, each perhaps several times.
    pub fn user_files(&self) -> impl Iterator<Item = &Path> {
        let routes = || self.hosts.iter().flat_map(|host| host.routes.iter());
        let used = routes().flat_map(Route::authentications).filter(|own| own.is_on());
        let of_users = used.flat_map(|own| own.user_files.iter().chain(&own.group_files));
        let of_keys = routes().flat_map(|route| &route.jwts).map(|jwt| &jwt.key_file);
        of_users.chain(of_keys).map(PathBuf::as_path)
    }

    /// The rules of access of all routes.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let routes = self.hosts.iter().flat_map(|host| host.routes.iter());
        routes.flat_map(|route| route.access.iter().flat_map(|rules| rules.iter().map(|rule| &**rule)))
    }
}

/// The default value of the field `Server`.
pub const SERVER_HEADER: &str = "taipan";

impl Host {
    /// The first of its names that is whole.
    pub fn name(&self) -> Option<&str> {
        self.names.iter().find(|name| !name.starts_with('*')).map(String::as_str)
    }

    /// Whether entries of a folder may have other rules, users, authorizers or tokens than the folder, because they
    /// have another route, are another file by a rewrite, or have other names (`;`).
    pub fn may_differ_within(&self, folder: &SafePath<'_>) -> bool {
        let own = self.routes.get(self.routes.find(folder));
        let differs = |route: &Route| matches!(route.action, Action::Rewrite { .. }) || !route.asks_as(own);
        folder.as_str().contains(';') || differs(own) || self.routes.of_entries(folder.as_str()).any(differs)
    }

    /// With the mapping of each route that stores responses, and the cookie of its upstream. Hosts of different addresses
    /// may share a name, so that the URL does not tell their routes apart. Further names change nothing.
    pub fn with_mappings(mut self, upstreams: &[Upstream]) -> Host {
        if !self.routes.iter().any(|route| route.stores) {
            return self;
        }
        let detours = self.detours();
        let Host { names, addresses, routes, folder, users, .. } = &mut self;
        let of_host = format!("{:?} {addresses:?} {folder:?} {users:?} {detours}", names.first());
        for route in routes.iter_mut().filter(|route| route.stores) {
            let upstream = route.upstream().and_then(|id| upstreams.get(id));
            if let Some(Balance::Sticky(cookie)) = upstream.map(|upstream| &upstream.balance) {
                Arc::make_mut(&mut route.caching).endpoint_cookie = Some(cookie.clone());
            }
            let of_upstream = upstream.map(Upstream::mapping_text).unwrap_or_default();
            let of_route = route.mapping_text();
            route.mapping = Mapping::of(&format!("{of_host} {of_route} {of_upstream}"));
        }
        self
    }

    /// The rewrites and fallbacks, which lead from any path to a route of another one. The order of rewrites counts;
    /// routes share the fallback that they inherit.
    fn detours(&self) -> String {
        let mut detours = String::new();
        let mut fallbacks = BTreeSet::new();
        for route in self.routes.iter() {
            if let Action::Rewrite { to } = &route.action {
                detours.push_str(&format!("{:?} {:?} {to:?} ", route.pattern, route.within));
            }
            fallbacks.insert(format!("{:?} {:?}", route.fallback, route.language_fallback));
        }
        detours + &format!("{fallbacks:?}")
    }

    /// The folders with files that its routes serve, or with the folders of names.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        let of_routes = self.routes.iter().filter_map(|route| match &route.action {
            Action::Files { root, .. } => Some(root.as_path()),
            _ => None,
        });
        let of_names = self.folder.iter().map(|folder| folder.base.as_path());
        let homes = self.users.iter().flat_map(|users| users.homes.iter().map(PathBuf::as_path));
        of_routes.chain(of_names).chain(homes)
    }

    /// Routes that start programs.
    pub fn program_routes(&self) -> impl Iterator<Item = (&Route, &Script)> {
        self.script_routes().chain(self.lister_routes())
    }

    /// Routes with a program that makes listings.
    pub fn lister_routes(&self) -> impl Iterator<Item = (&Route, &Script)> {
        let has_files = |route: &&Route| matches!(route.action, Action::Files { .. });
        self.routes.iter().filter(has_files).filter_map(|route| Some((route, route.lister.as_deref()?)))
    }

    /// Routes whose files run as CGI programs.
    pub fn script_routes(&self) -> impl Iterator<Item = (&Route, &Script)> {
        let runs = |route: &&Route| route.action.may_have_scripts() && route.upstream().is_none();
        self.routes.iter().filter(runs).filter_map(|route| Some((route, route.script.as_deref()?)))
    }

    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let of_names = self.folder.iter_mut().flat_map(|folder| Arc::make_mut(folder).paths_mut());
        let of_users = self.users.iter_mut().flat_map(|users| Arc::make_mut(users).paths_mut());
        self.routes.folders_mut().chain(of_names).chain(of_users)
    }
}

/// The most hosts, and the most routes, that are counted each by itself. 0: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    pub hosts: usize,
    pub routes: usize,
}
