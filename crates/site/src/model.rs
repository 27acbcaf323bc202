//! The site: the one thing that every way of configuring the server becomes. Plain data, complete and
//! valid: every default is filled in, every route carries all of its settings, so that nothing that
//! answers a request ever asks where a setting came from.
//!
//! Knows nothing of TOML, files on disk or sockets.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use script::environment::{Additions, Credentials};
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use crate::address::Address;
use crate::host::Hosts;
use crate::mime::MediaTypes;
use crate::proxies::Proxies;
use crate::route::{Pattern, Routes};
use crate::template::Template;
use crate::upstream::{Upstream, UpstreamId};

/// Everything the server does, in one value.
#[derive(Debug, Clone)]
pub struct Site {
    pub listeners: Vec<Address>,
    /// Of them it is believed on whose behalf they ask.
    pub trusted_proxies: Proxies,
    /// `None`: one worker per core that the process may use.
    pub workers: Option<NonZeroUsize>,
    /// Given up to after the listeners are bound, when started as root.
    pub user: Option<String>,
    pub group: Option<String>,
    pub pid_file: Option<PathBuf>,
    /// The serving process cannot leave it.
    pub chroot: Option<PathBuf>,
    pub sandbox: Sandbox,
    /// The value of `Server`; `None` conceals it.
    pub server_header: Option<String>,
    /// The first is the default host: it answers for every name that no other host has.
    pub hosts: Hosts,
    /// What answers in place of files.
    pub upstreams: Vec<Upstream>,
    pub limits: Limits,
    pub timeouts: Timeouts,
    pub cache: CacheLimits,
    pub scripts: Scripts,
    pub log: Log,
}

/// Is what the serving process does not need taken from it?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    Off,
    /// As far as the kernel can.
    On,
    /// Or nothing is served.
    Required,
}

/// A name of its own with its own root, routes and settings.
#[derive(Debug, Clone)]
pub struct Host {
    /// Without port. `*.example.org` stands for every name below `example.org`.
    pub names: Vec<String>,
    pub routes: Routes,
    /// An access log of its own; `None`: the one of the site.
    pub access_log: Option<AccessLog>,
}

/// What is done for the paths that a pattern matches: complete in itself.
#[derive(Debug, Clone)]
pub struct Route {
    pub pattern: Pattern,
    /// The prefix whose action it has, where that is another route's: of a glob, or of one path, that has none
    /// of its own.
    pub within: Option<Pattern>,
    pub action: Action,
    pub files: FileRules,
    pub headers: Vec<HeaderRule>,
    /// `Cache-Control` by pattern of the path, the first that matches.
    pub cache_control: Vec<(Pattern, String)>,
    /// Paths, inside the same host, of pages to show in place of the built-in ones. Each status once.
    pub error_pages: Vec<(Status, SafePath<'static>)>,
    /// Answers where nothing stands under a path.
    pub fallback: Option<Fallback>,
    pub fallback_for: FallbackFor,
    /// Bytes of a request body that are read: handed to a script, or else thrown away; more is 413.
    pub max_body: u64,
    /// The files are not sent but run, or an application answers: only where the action is
    /// [`Action::Files`] or [`Action::Application`].
    pub script: Option<Script>,
    /// Asked by FastCGI, one after the other, whether a request may pass, before anything else is done for it.
    pub authorizers: Vec<UpstreamId>,
}

/// An account of the system: a user by name or number, and a group in place of the user's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Account {
    pub user: String,
    pub group: Option<String>,
}

/// `user`, or `user:group`.
impl fmt::Display for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.user)?;
        self.group.iter().try_for_each(|group| write!(out, ":{group}"))
    }
}

/// A path of the same host that answers for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    pub path: SafePath<'static>,
    /// What a script is told as its query, before the query of the request.
    pub query: Option<Template>,
    /// The pattern that it is written for.
    pub base: Pattern,
}

/// Which paths a fallback answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FallbackFor {
    /// Those that are not the path of an asset by their extension: a script or a style sheet of a page, an image,
    /// a font and so on.
    Pages,
    All,
}

/// How the scripts of a route are run, or what its application is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// `None`: the script itself is run.
    pub interpreter: Option<Interpreter>,
    /// A `PATH` is always among them.
    pub environment: Additions,
    /// Whether the script is told the field `Authorization`.
    pub credentials: Credentials,
    /// Scripts of this route that run at one time, over all workers.
    pub processes: usize,
    /// That programs run as. `None`: the server's own. An application has one of its own.
    pub account: Option<Account>,
}

/// What runs a file that is no program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interpreter {
    /// It gets the path of the file as its only argument.
    Program(PathBuf),
    /// It is told the path of the file as SCRIPT_FILENAME.
    Upstream(UpstreamId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The request's path beneath `root`, after `strip` leading segments of it are taken away
    /// (`alias` in the configuration).
    Files { root: PathBuf, strip: usize },
    /// It answers for every path, whatever stands on the disk.
    Upstream(UpstreamId),
    /// 301, 302, 303, 307 or 308 to another place.
    Redirect { status: Status, to: Template },
    /// Another path of the same host, looked up again (at most [`crate::plan::MAX_REWRITES`] times).
    Rewrite { to: Template },
    /// Nothing but a status and its error page.
    Return(Status),
}

#[derive(Debug, Clone)]
pub struct FileRules {
    pub index: Vec<String>,
    pub listing: Listing,
    pub dotfiles: Dotfiles,
    pub symlinks: Symlinks,
    /// Precompressed neighbours that are looked for, in order of preference.
    pub precompressed: Vec<Coding>,
    /// Serve `X` from `X.gz` when there is no `X`.
    pub gunzip: bool,
    pub etag: EtagFrom,
    pub types: Arc<MediaTypes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dotfiles {
    /// 404, except below `/.well-known/`.
    Deny,
    Allow,
}

/// What a symbolic link may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    /// Anything beneath the root.
    Beneath,
    /// Anywhere, if link and target have the same owner.
    Owner,
    /// Nothing: a path with a link in it is 403.
    Never,
    /// Anywhere.
    Follow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtagFrom {
    /// Size, modification time with nanoseconds, and inode.
    Stat,
    /// A hash of the content, for files that fit the cache's file limit; `Stat` for larger ones.
    Content,
    Off,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderRule {
    /// Set the field, in place of any the server would send by itself.
    Set(String, String),
    Remove(String),
}

/// Counts and bytes. Each has a safe default and a key of its own in the configuration.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections per worker.
    pub connections: usize,
    /// Connections of one client address, over all workers. 0: no limit.
    pub connections_per_client: usize,
    /// Connections per worker that are being told that there is no room.
    pub rejections: usize,
    /// Requests on one connection; then it is closed. 0: no limit.
    pub requests: u32,
    pub head: taipan_http::head::Limits,
    /// Bytes of a request body that are read and thrown away where nobody wants them.
    pub body: u64,
    /// Bytes per second that a client must send, or take, after the timeout of that phase. 0: any.
    pub min_rate: u64,
    /// Threads per worker for what can wait for a disk.
    pub disk_threads: usize,
    /// Requests that may wait for a disk, per worker; more are 503. See also `waiting_for_disks`.
    pub disk_queue: usize,
    /// Answers per worker that are made while they are sent: huge listings, and inflated files.
    pub body_streams: usize,
    /// Bytes that may wait in the kernel for one client beside those on their way (`tcp(7)`,
    /// TCP_NOTSENT_LOWAT). 0: as many as the kernel likes.
    pub unsent: u64,
    /// Serving processes at one time.
    pub generations: usize,
    /// Entries in one listing; more are left out, and the page says so.
    pub listing_entries: usize,
}

#[derive(Debug, Clone)]
pub struct Timeouts {
    pub head: Duration,
    pub body: Duration,
    pub write: Duration,
    pub idle: Duration,
    pub linger: Duration,
    /// A look-up on a disk: 503 when it takes longer.
    pub disk: Duration,
    /// For what runs when SIGTERM comes.
    pub shutdown: Duration,
    /// For what runs when another configuration or program takes over.
    pub reload: Duration,
    /// For a new connection when all are taken: 503 then.
    pub accept: Duration,
    /// How long the kernel holds a new connection back until its client has sent something. Zero: it does not.
    pub defer_accept: Duration,
    /// How late a worker's loop may be before it sheds requests. Zero: it never does.
    pub delay: Duration,
}

/// The open-file cache of one worker.
#[derive(Debug, Clone)]
pub struct CacheLimits {
    pub entries: usize,
    pub descriptors: usize,
    pub bytes: usize,
    /// Larger files are sent from their descriptor.
    pub file: u64,
    /// A cached file is compared with the disk at most this often.
    pub check: Duration,
    /// How long a miss is remembered.
    pub missing: Duration,
}

/// What holds for all scripts.
#[derive(Debug, Clone)]
pub struct Scripts {
    /// That run at one time, over all workers.
    pub processes: usize,
    /// Requests that wait until a script may run, over all workers. More are 503.
    pub queue: usize,
    /// How long they wait: 503 then.
    pub wait: Duration,
    /// From the start to the end of the head.
    pub first_byte: Duration,
    /// Without output, while the client takes all there is.
    pub idle: Duration,
    /// From the start to the end.
    pub total: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    pub resources: Resources,
    /// `None`: a script is in no group of its own.
    pub cgroups: Option<ControlGroups>,
    /// Of the scripts of every route that names none. `None`: the server's own.
    pub account: Option<Account>,
    /// The folder of files without a name, for bodies whose length is not known before their end.
    pub spool: PathBuf,
    /// Bytes of all such files together.
    pub spool_bytes: u64,
    /// Whether a query without `=` becomes the script's arguments.
    pub query_arguments: QueryArguments,
    /// Lines of a script's error stream per second that are logged.
    pub stderr_lines: u32,
    /// Bytes of such a line.
    pub stderr_line: usize,
    /// Folders whose files a script may name in `X-Sendfile` and `X-Accel-Redirect`.
    pub sendfile: Vec<PathBuf>,
}

/// What one process of a script may use. `None`: as much as the server may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Bytes of address space (RLIMIT_AS).
    pub memory: Option<u64>,
    /// Seconds (RLIMIT_CPU).
    pub cpu: Option<u64>,
    /// Descriptors (RLIMIT_NOFILE).
    pub files: Option<u64>,
    /// Processes and threads of the user, the server's own among them (RLIMIT_NPROC).
    pub tasks: Option<u64>,
    /// Bits of a mode that a file of theirs does not get. `None`: those of the server.
    pub umask: Option<u32>,
    /// Added to the server's own.
    pub nice: u8,
}

/// A control group for each script that runs (cgroups(7), version 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroups {
    /// That is delegated to the server. `None`: its own.
    pub folder: Option<PathBuf>,
    /// Bytes of all processes in one (memory.max).
    pub memory: Option<u64>,
    /// Processes and threads in one (pids.max).
    pub tasks: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryArguments {
    Passed,
    Withheld,
}

#[derive(Debug, Clone)]
pub struct Log {
    pub access: Option<AccessLog>,
    pub error: Sink,
    pub level: Level,
    /// Blocks of lines that may wait for the writer; more are dropped and counted.
    pub queue: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    pub sink: Sink,
    pub format: LogFormat,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sink {
    Stdout,
    Stderr,
    Syslog,
    File(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Common,
    Combined,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Site {
    /// One folder for every name, with listings: what `taipan DIR` serves. Everything else has its
    /// default.
    pub fn folder(root: PathBuf, listeners: Vec<Address>) -> Site {
        let files = FileRules { listing: Listing::On, ..FileRules::default() };
        let route = Route { files, ..Route::new(Pattern::EVERYTHING, Action::Files { root, strip: 0 }) };
        let host = Host { names: Vec::new(), routes: Routes::only(route), access_log: None };
        Site {
            listeners,
            trusted_proxies: Proxies::default(),
            workers: None,
            user: None,
            group: None,
            pid_file: None,
            chroot: None,
            sandbox: Sandbox::On,
            server_header: Some(SERVER_HEADER.to_owned()),
            hosts: Hosts::only(host),
            upstreams: Vec::new(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            cache: CacheLimits::default(),
            scripts: Scripts::default(),
            log: Log::default(),
        }
    }

    /// Makes every root and folder of scripts absolute, which begins in `folder` otherwise: a script has a
    /// working folder of its own.
    pub fn anchor(&mut self, folder: &Path) {
        self.paths_mut().for_each(|path| *path = folder.join(&*path));
    }

    fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let scripts = self.scripts.sendfile.iter_mut().chain([&mut self.scripts.spool]);
        let upstreams = self.upstreams.iter_mut().flat_map(Upstream::paths_mut);
        self.hosts.routes_mut().flat_map(Routes::folders_mut).chain(scripts).chain(upstreams)
    }

    /// Makes every root, interpreter and folder of scripts what it is called once `folder` is the top of all paths.
    pub fn enter(&mut self, folder: &Path) {
        for path in self.paths_mut() {
            if let Ok(inside) = path.strip_prefix(folder) {
                *path = Path::new("/").join(inside);
            }
        }
        self.upstreams.iter_mut().for_each(|upstream| upstream.enter(folder));
    }

    /// The folders that files are served from, each once.
    pub fn roots(&self) -> BTreeSet<&Path> {
        let sendfile = self.scripts.sendfile.iter().map(PathBuf::as_path);
        self.hosts.iter().flat_map(Host::roots).chain(sendfile).collect()
    }

    /// Whether any route runs its files, or leaves them to an application.
    pub fn has_scripts(&self) -> bool {
        self.hosts.iter().any(|host| host.routes.has_scripts())
    }

    /// Routes whose files are run as programs, by CGI.
    pub fn program_routes(&self) -> impl Iterator<Item = (&Route, &Script)> {
        let routes = self.hosts.iter().flat_map(|host| host.routes.iter());
        let runs = |route: &Route| matches!(route.action, Action::Files { .. }) && route.upstream().is_none();
        routes.filter(move |route| runs(route)).filter_map(|route| Some((route, route.script.as_ref()?)))
    }

    /// Whether any route asks an application who may pass.
    pub fn has_authorizers(&self) -> bool {
        let mut routes = self.hosts.iter().flat_map(|host| host.routes.iter());
        routes.any(|route| !route.authorizers.is_empty())
    }

    /// The place in `hosts` of the one that answers for `authority`.
    pub fn host(&self, authority: &[u8]) -> usize {
        self.hosts.find(authority)
    }
}

/// What `Server` says unless the configuration names something else.
pub const SERVER_HEADER: &str = "taipan";

impl Host {
    /// The folders that its routes serve files from.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.routes.iter().filter_map(|route| match &route.action {
            Action::Files { root, .. } => Some(root.as_path()),
            Action::Upstream(_) | Action::Redirect { .. } | Action::Rewrite { .. } | Action::Return(_) => {
                None
            }
        })
    }
}

impl Route {
    /// With the default of every setting.
    pub fn new(pattern: Pattern, action: Action) -> Route {
        Route {
            pattern,
            within: None,
            action,
            files: FileRules::default(),
            headers: Vec::new(),
            cache_control: Vec::new(),
            error_pages: Vec::new(),
            fallback: None,
            fallback_for: FallbackFor::Pages,
            max_body: Limits::default().body,
            script: None,
            authorizers: Vec::new(),
        }
    }

    /// Whatever runs its files, or answers in their place, and keeps on.
    pub fn upstream(&self) -> Option<UpstreamId> {
        match self.script.as_ref()?.interpreter {
            Some(Interpreter::Upstream(id)) => Some(id),
            Some(Interpreter::Program(_)) | None => None,
        }
    }

    /// The pattern, and the prefix that it is combined with.
    pub fn name(&self) -> String {
        match &self.within {
            Some(prefix) => format!("{} within {prefix}", self.pattern),
            None => self.pattern.to_string(),
        }
    }

    /// The pattern that its action was written for.
    pub fn base(&self) -> &Pattern {
        self.within.as_ref().unwrap_or(&self.pattern)
    }
}

impl HeaderRule {
    /// The name of the field.
    pub fn name(&self) -> &str {
        match self {
            HeaderRule::Set(name, _) | HeaderRule::Remove(name) => name,
        }
    }
}

impl Default for FileRules {
    fn default() -> FileRules {
        FileRules {
            index: vec!["index.html".to_owned()],
            listing: Listing::Off,
            dotfiles: Dotfiles::Deny,
            symlinks: Symlinks::Beneath,
            precompressed: vec![Coding::Br, Coding::Zstd, Coding::Gzip],
            gunzip: true,
            etag: EtagFrom::Stat,
            types: Arc::default(),
        }
    }
}

/// So many requests may wait for disks in any case, where `connections` is small: with its share alone, a few
/// clients that ask for something cold would be refused.
const LEAST_WAITING: usize = 32;

impl Limits {
    /// Requests of one worker that may wait for disks before their answers have begun: a quarter of the
    /// connections stays free for others.
    pub fn waiting_for_disks(&self) -> usize {
        self.disk_queue.min((self.connections - self.connections / 4).max(LEAST_WAITING))
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16_384,
            connections_per_client: 0,
            rejections: 64,
            requests: 0,
            head: taipan_http::head::Limits::default(),
            body: 1024 * 1024,
            min_rate: 500,
            disk_threads: 8,
            disk_queue: 1024,
            body_streams: 64,
            unsent: 0,
            generations: 16,
            listing_entries: 10_000,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            head: Duration::from_secs(20),
            body: Duration::from_secs(20),
            write: Duration::from_secs(20),
            idle: Duration::from_secs(60),
            linger: Duration::from_secs(5),
            disk: Duration::from_secs(30),
            shutdown: Duration::from_secs(30),
            reload: Duration::from_secs(3600),
            accept: Duration::from_secs(1),
            defer_accept: Duration::from_secs(1),
            delay: Duration::from_millis(100),
        }
    }
}

impl Default for CacheLimits {
    fn default() -> CacheLimits {
        CacheLimits {
            entries: 4096,
            descriptors: 1024,
            bytes: 32 * 1024 * 1024,
            // Measured: up to here copying costs less than sendfile does, on one connection as on many.
            file: 8 * 1024,
            check: Duration::from_secs(1),
            missing: Duration::from_secs(1),
        }
    }
}

impl Default for Scripts {
    fn default() -> Scripts {
        Scripts {
            processes: 64,
            queue: 256,
            wait: Duration::from_secs(10),
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(3600),
            grace: Duration::from_secs(5),
            resources: Resources::default(),
            cgroups: None,
            account: None,
            spool: "/var/tmp".into(),
            spool_bytes: 256 * 1024 * 1024,
            query_arguments: QueryArguments::Withheld,
            stderr_lines: 10,
            stderr_line: 1024,
            sendfile: Vec::new(),
        }
    }
}

impl Default for Resources {
    fn default() -> Resources {
        Resources {
            // Go, Java and node ask for far more address space than they use.
            memory: None,
            // What takes too long is ended by the clock; what a script has sent into the background is
            // nobody's business.
            cpu: None,
            // The server may have raised its own; programs that close all descriptors, or use select(2),
            // cannot bear more.
            files: Some(1024),
            // The kernel counts per user, whoever else runs as that one.
            tasks: None,
            umask: None,
            nice: 0,
        }
    }
}

impl Default for Log {
    fn default() -> Log {
        Log { access: None, error: Sink::Stderr, level: Level::Warn, queue: 256 }
    }
}
