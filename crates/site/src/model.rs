//! The site: a configuration as plain data, complete and valid. Every default is filled in, and every route has all of
//! its settings.
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

use crate::access::{Rule, Rules};
use crate::alternates::AlternateRules;
use crate::authentication::{Authentication, USER_FIELD};
use crate::authorizer::{Authorizer, Subrequest, is_same_name};
use crate::certificates::Certificates;
use crate::compress::CompressRules;
use crate::cors::{self, Cors};
use crate::endpoint::Resolution;
use crate::folder::{HostFolder, UserFolders};
use crate::forward_proxy::ForwardProxy;
use crate::forwarding::{Forwarding, Spelling};
use crate::host::{Canonical, HostAddress, Hosts};
use crate::includes::{IncludeLimits, Includes};
use crate::jwt::Jwt;
use crate::limit::{Limit, LimitId};
use crate::listener::Listener;
use crate::log_fields;
use crate::log_selection::LogSelection;
use crate::mime::MediaTypes;
use crate::monitor::Monitor;
use crate::named_files::NamedFiles;
use crate::network::Networks;
use crate::proxies::Proxies;
use crate::published::Text;
use crate::publishing::Publishing;
use crate::rotation::Rotation;
use crate::route::{Pattern, Routes};
use crate::security_headers::Preset;
pub use crate::sink::Sink;
use crate::template::Template;
use crate::timezone::TimeZone;
use crate::tls::{HostTls, Tls};
use crate::tracing::Tracing;
use crate::upstream::{Upstream, UpstreamId};

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

/// Whether the serving process gives up what it does not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    Off,
    /// As far as the kernel supports it.
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

/// There may be thousands. What few of them have is elsewhere.
const _: () = assert!(size_of::<Host>() <= 800);

/// The action and all settings of the paths that a pattern matches.
#[derive(Debug, Clone)]
pub struct Route {
    pub pattern: Pattern,
    /// The prefix from which a glob, or a route for one path, has inherited its action.
    pub within: Option<Box<Pattern>>,
    pub action: Action,
    pub files: Arc<FileRules>,
    pub headers: Vec<HeaderRule>,
    /// `Cache-Control` by the first pattern that matches the path.
    pub cache_control: Vec<(Pattern, String)>,
    /// Paths of pages, in the same host, that replace the built-in ones. Each status once.
    pub error_pages: Vec<(Status, SafePath<'static>)>,
    /// Responds where nothing exists for a path.
    pub fallback: Option<Box<Fallback>>,
    pub fallback_for: FallbackFor,
    pub language_fallback: LanguageFallback,
    /// The largest request body, in bytes. A longer one gets 413.
    pub max_body: u64,
    /// How files are run, or what an upstream receives: only with [`Action::Upstream`], or files of no user.
    pub script: Option<Box<Script>>,
    /// The program that makes listings. Its interpreter is always a program. `None`: the server makes them.
    pub lister: Option<Box<Script>>,
    /// The authorizers of a request, in the order in which they are called.
    pub authorizers: Vec<Arc<Authorizer>>,
    /// The settings of authorizers that speak HTTP.
    pub subrequest: Arc<Subrequest>,
    /// The tokens that it asks for.
    pub jwt: Option<Arc<Jwt>>,
    /// How clients may change its files.
    pub publishing: Arc<Publishing>,
    /// What `cors` is made of, for routes that inherit it.
    pub sharing: Arc<cors::Settings>,
    /// `None`: pages of other origins may read nothing.
    pub cors: Option<Arc<Cors>>,
    pub security_headers: Preset,
    /// Rules of access. Each list has a say, so that a glob cannot allow what the prefix around it denies.
    pub access: Vec<Rules>,
    /// Limits of speed and of requests: those of the top level, of the host and of the route.
    pub limits: Vec<LimitId>,
    pub authentication: Arc<Authentication>,
    /// That of the prefix which a glob with settings of its own is within: both count.
    pub enclosing: Option<Arc<Authentication>>,
    /// Whether the responses of its script or upstream are stored.
    pub stores: bool,
    /// How they are stored, for routes that inherit it, too.
    pub caching: Arc<cache::settings::Settings>,
    /// The clients that may remove what is stored, by PURGE. `None`: it is a method like others.
    pub purgers: Option<Arc<Networks>>,
}

/// An account of the system. User and group are names or numbers. `None`: the first group of the user.
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

/// A path of the same host that responds where nothing exists for the requested path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    pub path: SafePath<'static>,
    /// The query for a script, in front of the query of the request.
    pub query: Option<Template>,
    /// The pattern of the route that sets it.
    pub base: Pattern,
}

/// The paths without a language that respond where nothing exists for a path with one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LanguageFallback {
    /// `/a.html` for `/a.de.html`.
    pub suffix: bool,
    /// `/a` for `/(de)/a`.
    pub folder: bool,
}

/// The paths for which a fallback responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FallbackFor {
    /// Paths without the extension of an asset: a script, a style sheet, an image, a font and so on.
    Pages,
    All,
}

/// How the scripts of a route run, or what its upstream receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// `None`: the script is a program.
    pub interpreter: Option<Interpreter>,
    /// It always has a `PATH`.
    pub environment: Additions,
    /// Whether the script receives the field `Authorization`.
    pub credentials: Credentials,
    /// Scripts of this route that run at the same time, over all workers.
    pub processes: usize,
    /// The account of the programs. `None`: the server's. An upstream has its own.
    pub account: Option<Account>,
    /// For an upstream that speaks HTTP.
    pub forwarding: Forwarding,
}

/// What runs a file that is not a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interpreter {
    /// Receives the path of the file as its only argument.
    Program(PathBuf),
    /// Receives the path of the file as SCRIPT_FILENAME.
    Upstream(UpstreamId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The file at the request's path beneath `root`, without the first `strip` segments of the path (`alias`).
    Files { root: PathBuf, strip: usize },
    /// The file at the request's path beneath a folder that a name in the request leads to.
    NamedFiles(NamedRoot),
    /// The upstream responds for every path, even where a file exists.
    Upstream(UpstreamId),
    /// `status` is 301, 302, 303, 307 or 308.
    Redirect { status: Status, to: Template },
    /// Another path of the same host, at most [`crate::plan::MAX_REWRITES`] times.
    Rewrite { to: Template },
    /// A status with its error page.
    Return(Status),
    /// A text of the configuration.
    Publish(Arc<Text>),
    /// How the server does.
    Monitor(Monitor),
}

/// What leads to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedRoot {
    /// The name of the host: see `folder` of [`Host`].
    OfHost,
    /// The first segment of the path, `~user`: see `users` of [`Host`].
    OfUser,
}

#[derive(Debug, Clone)]
pub struct FileRules {
    pub index: Vec<String>,
    pub listing: Listing,
    pub dotfiles: Dotfiles,
    pub symlinks: Symlinks,
    /// Codings of precompressed files, in order of preference.
    pub precompressed: Vec<Coding>,
    /// Whether `X.gz` serves `X` where `X` does not exist.
    pub gunzip: bool,
    pub etag: EtagFrom,
    pub types: Arc<MediaTypes>,
    /// The languages and charsets of files, by their names.
    pub alternates: Arc<AlternateRules>,
    pub special: SpecialFiles,
    /// `None`: there are no metafiles.
    pub meta: Option<Arc<MetaFiles>>,
    pub compress: Arc<CompressRules>,
    pub includes: Arc<Includes>,
    /// The URLs for which files are dictionaries, as the value of `match` in `Use-As-Dictionary`.
    pub dictionary: Option<String>,
    /// Files beneath the root that the configuration reads. They are never served.
    pub private: Arc<[SafePath<'static>]>,
    /// The names of folders with metafiles. Nothing in them is served.
    pub meta_folders: Arc<[String]>,
}

/// Which files are more than their content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpecialFiles {
    /// `*.asis` is a whole response.
    pub as_is: bool,
    /// `*.map` says where a click on an image leads.
    pub image_maps: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    AsIs,
    ImageMap,
}

impl SpecialFiles {
    /// What the file of this name is.
    pub fn of(self, name: &str) -> Option<Special> {
        match name.rsplit_once('.') {
            Some((_, "asis")) if self.as_is => Some(Special::AsIs),
            Some((_, "map")) if self.image_maps => Some(Special::ImageMap),
            _ => None,
        }
    }
}

/// Where the further fields of a file are: in the file `FOLDER/NAME` and the suffix, beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaFiles {
    pub folder: String,
    pub suffix: String,
}

impl Default for MetaFiles {
    fn default() -> MetaFiles {
        MetaFiles { folder: ".web".to_owned(), suffix: ".meta".to_owned() }
    }
}

impl FileRules {
    /// Whether the file at a path beneath the root is never served.
    pub fn hides(&self, below: &SafePath<'_>) -> bool {
        // A slash at its end names the same file where clients publish.
        let name = below.as_str().trim_end_matches('/');
        self.private.iter().any(|own| own.as_str() == name)
            || below.segments().any(|segment| self.meta_folders.iter().any(|folder| folder == segment))
    }

    /// Whether some files are never served.
    pub fn has_hidden(&self) -> bool {
        !self.private.is_empty() || !self.meta_folders.is_empty()
    }
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

/// The targets that a symbolic link may have.
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
    /// Replaces a field that the server would send itself.
    Set(String, String),
    Remove(String),
    /// Adds a line to the fields of this name.
    Add(String, String),
}

/// Counts and bytes.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections per worker.
    pub connections: usize,
    /// Connections that may wait in the kernel to be accepted, for each socket. At most 65535.
    pub backlog: u16,
    /// Connections of one client address, over all workers. 0: no limit.
    pub connections_per_client: usize,
    /// Connections per worker, above `connections`, that are receiving their 503.
    pub rejections: usize,
    /// Requests on one connection. 0: no limit.
    pub requests: u32,
    pub head: taipan_http::head::Limits,
    /// The default of `max_body`.
    pub body: u64,
    /// Bytes per second that a client must send or receive after the timeout of that phase. 0: no limit.
    pub min_rate: u64,
    /// Threads per worker for operations that may wait for a disk.
    pub disk_threads: usize,
    /// Requests per worker that may wait for a disk. Further ones get 503. See also `waiting_for_disks`.
    pub disk_queue: usize,
    /// The last requests that are kept to be shown, over all workers.
    pub recent_requests: usize,
    /// Responses per worker whose body is generated while it is sent: huge listings and decompressed files.
    pub body_streams: usize,
    /// Connections per worker whose protocol was switched, as to WebSocket. Further requests for that get 503.
    pub upgraded: usize,
    /// Responses per worker that are compressed while they are sent. Further ones are not compressed.
    pub compressed_streams: usize,
    /// Bytes that may wait unsent in the kernel for one client (tcp(7), TCP_NOTSENT_LOWAT). 0: the kernel's default.
    pub unsent: u64,
    /// Serving processes at the same time.
    pub generations: usize,
    /// Entries in one listing.
    pub listing_entries: usize,
    pub includes: IncludeLimits,
}

#[derive(Debug, Clone)]
pub struct Timeouts {
    pub head: Duration,
    pub body: Duration,
    pub write: Duration,
    pub idle: Duration,
    pub linger: Duration,
    /// For a connection whose protocol was switched, and on which nothing passes.
    pub upgraded: Duration,
    /// For a response with the events of a status page.
    pub events: Duration,
    /// For a lookup on a disk. Then the response is 503.
    pub disk: Duration,
    /// For responses in progress at SIGTERM.
    pub shutdown: Duration,
    /// For responses in progress when another configuration or program takes over.
    pub reload: Duration,
    /// For a new connection while the worker is at capacity. Then it gets 503.
    pub accept: Duration,
    /// How long the kernel holds a new connection back until its client has sent something. Zero: it does not.
    pub defer_accept: Duration,
    /// How late a worker's loop may be before it sheds requests. Zero: never.
    pub delay: Duration,
}

/// HTTP/2 (RFC 9113).
#[derive(Debug, Clone)]
pub struct Http2 {
    /// Whether it is offered to clients of TLS.
    pub enabled: bool,
    /// Streams of one connection at the same time.
    pub streams: u32,
    /// Streams per worker that wait, beyond the first of each connection. Further ones are refused.
    pub waiting: usize,
    /// Bytes of a stream that a client may send before the server has consumed them.
    pub window: u32,
    /// The same for all streams of a connection together. At least 65535 (RFC 9113 §6.9.2).
    pub connection_window: u32,
    /// Connections per worker that may have so much. Further ones have 65535.
    pub large_windows: usize,
}

/// The open-file cache of one worker.
#[derive(Debug, Clone)]
pub struct CacheLimits {
    pub entries: usize,
    pub descriptors: usize,
    pub bytes: usize,
    /// Larger files are sent from their descriptor.
    pub file: u64,
    /// How long a cached file is not compared with the disk.
    pub check: Duration,
    /// How long the cache remembers that a file does not exist.
    pub missing: Duration,
    /// Folders of names and users that are open.
    pub folders: usize,
    /// Bytes of stored responses of upstreams.
    pub responses: usize,
}

/// The files in which responses of upstreams are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFiles {
    pub folder: PathBuf,
    /// Of all files, in blocks of 4 KiB.
    pub bytes: u64,
    pub entries: usize,
    /// Bytes of the largest body.
    pub largest: u64,
    /// Bytes of the file system that stay free.
    pub min_free: u64,
}

impl CacheFiles {
    /// With the default limits.
    pub fn new(folder: PathBuf) -> CacheFiles {
        CacheFiles { folder, bytes: 1 << 30, entries: 100_000, largest: 64 << 20, min_free: 256 << 20 }
    }
}

/// Settings of all scripts.
#[derive(Debug, Clone)]
pub struct Scripts {
    /// Scripts that run at the same time, over all workers.
    pub processes: usize,
    /// Requests that wait until a script may run, over all workers. Further ones get 503.
    pub queue: usize,
    /// How long such a request waits. Then it gets 503.
    pub wait: Duration,
    /// From the start to the end of the head.
    pub first_byte: Duration,
    /// Without output, while the client receives all of it.
    pub idle: Duration,
    /// From the start to the end.
    pub total: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    pub resources: Resources,
    /// `None`: scripts have no control groups of their own.
    pub cgroups: Option<ControlGroups>,
    /// The account of scripts whose route names none. `None`: the server's.
    pub account: Option<Account>,
    /// The folder that stores request bodies of unknown length, in files without names.
    pub spool: PathBuf,
    /// Bytes of all stored bodies together.
    pub spool_bytes: u64,
    /// Whether the words of a query without `=` become arguments (RFC 3875 §4.4).
    pub query_arguments: QueryArguments,
    /// Lines per second of a script's standard error that are logged.
    pub stderr_lines: u32,
    /// Bytes of such a line.
    pub stderr_line: usize,
    /// Folders whose files a script may name in `X-Sendfile` and `X-Accel-Redirect`.
    pub sendfile: Vec<PathBuf>,
}

/// Limits of one process of a script. `None`: the server's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Bytes of address space (RLIMIT_AS).
    pub memory: Option<u64>,
    /// Seconds (RLIMIT_CPU).
    pub cpu: Option<u64>,
    /// Descriptors (RLIMIT_NOFILE).
    pub files: Option<u64>,
    /// Processes and threads of the user, also the server's own (RLIMIT_NPROC).
    pub tasks: Option<u64>,
    /// The file mode creation mask. `None`: the server's.
    pub umask: Option<u32>,
    /// Added to the nice value of the server.
    pub nice: u8,
}

/// A control group for each running script (cgroups(7), version 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroups {
    /// A folder that is delegated to the server. `None`: the server's own group.
    pub folder: Option<PathBuf>,
    /// Bytes of all processes of a script (memory.max).
    pub memory: Option<u64>,
    /// Processes and threads of a script (pids.max).
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
    /// Blocks of lines that may wait for the writer. Further ones are dropped and counted.
    pub queue: usize,
    /// `None`: files grow until another program rotates them.
    pub rotation: Option<Rotation>,
    /// Which requests have a line in the access logs.
    pub selection: LogSelection,
    /// What scripts write to standard error. `None`: it is in the error log.
    pub scripts: Option<Sink>,
    pub errors: ErrorLines,
    pub clients: LoggedClients,
    /// How the error log names the host of a request with a status from 400 to 499. `None`: it has no such lines.
    pub client_errors: Option<LoggedHost>,
    /// Whether the error log says when a script was started, and when it has ended.
    pub script_starts: bool,
}

/// What stands in front of the client, in a line as Boa writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedHost {
    Nothing,
    /// The name of the host.
    Name,
    /// The local address.
    Address,
}

/// How lines of the error log are written, and the time in lines that have that of a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorLines {
    pub format: ErrorFormat,
    /// `None`: UTC.
    pub zone: Option<Arc<TimeZone>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ErrorFormat {
    #[default]
    Taipan,
    /// As Boa: the time as in its access log, and no level.
    Boa,
}

/// What a line of an access log says that the client is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LoggedClients {
    /// The address, or the name that belongs to it.
    #[default]
    Addresses,
    /// The field `X-Forwarded-For`, which any client can send.
    ForwardedFor,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    pub sink: Sink,
    pub format: LogFormat,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    Common,
    Combined,
    /// As Boa: no field beyond those of the Combined Log Format.
    Boa,
    /// As Boa with hosts: the name of the host comes first.
    BoaHost,
    /// As Boa with a host for each address: the local address comes first.
    BoaAddress,
    /// As thttpd: an absent field is empty.
    Thttpd,
    /// As thttpd with hosts: the name of the host begins the target.
    ThttpdHost,
    Json,
    Fields(log_fields::Format),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    pub const NAMES: [(&str, Level); 4] =
        [("error", Level::Error), ("warn", Level::Warn), ("info", Level::Info), ("debug", Level::Debug)];

    pub fn from_name(name: &str) -> Option<Level> {
        Level::NAMES.iter().find(|(own, _)| *own == name).map(|(_, level)| *level)
    }

    pub fn name(self) -> &'static str {
        Level::NAMES.iter().find(|(_, level)| *level == self).map_or("", |(name, _)| name)
    }
}

/// Stands for the name of a host in the path of an access log.
const HOST: &str = "$host";

impl AccessLog {
    /// Whether each host has a file of its own.
    pub fn is_by_host(&self) -> bool {
        matches!(&self.sink, Sink::File(path) if path.to_string_lossy().contains(HOST))
    }

    /// The file of the host with these names: by its first name, or `default`. Only names of the configuration are
    /// used, never what a client sends.
    pub fn of_host(&self, names: &[String]) -> AccessLog {
        let name = names.first().map_or("default", String::as_str);
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
        let name: String = name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
        let sink = match &self.sink {
            Sink::File(path) => Sink::File(path.to_string_lossy().replace(HOST, &name).into()),
            other => other.clone(),
        };
        AccessLog { sink, format: self.format.clone() }
    }
}

impl Log {
    /// Whether the logger writes there: a process that rotates files, starts commands and connects.
    pub fn has_logger(&self, sink: &Sink) -> bool {
        match sink {
            Sink::File(_) => self.rotation.is_some(),
            Sink::Command(_) | Sink::Tcp(_) | Sink::Collector(_) => true,
            Sink::Stdout | Sink::Stderr | Sink::Syslog => false,
        }
    }
}

impl Site {
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
        self.paths_mut().for_each(|path| *path = folder.join(&*path));
        let ticket_keys = self.tls.tickets.iter_mut().filter_map(|tickets| tickets.key_file.as_mut());
        let of_tls = self.hosts.tls_mut().flat_map(HostTls::paths_mut).chain(ticket_keys);
        let of_upstreams = self.upstreams.iter_mut().flat_map(Upstream::tls_paths_mut);
        of_tls.chain(of_upstreams).for_each(|path| *path = folder.join(&*path));
        self.certificates.paths_mut().for_each(|path| *path = folder.join(&*path));
    }

    fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let scripts = self.scripts.sendfile.iter_mut().chain([&mut self.scripts.spool]);
        let upstreams = self.upstreams.iter_mut().flat_map(Upstream::paths_mut);
        let cache = self.cache_files.iter_mut().map(|files| &mut files.folder);
        self.hosts.paths_mut().chain(scripts).chain(upstreams).chain(cache)
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
        routes.any(|route| route.jwt.is_some())
    }

    /// The fields that only passwords, authorizers and tokens set: a client's own are removed from every request, so
    /// that a script or an application can rely on them on any route.
    pub fn asserted_fields(&self) -> Vec<String> {
        let routes = self.hosts.iter().flat_map(|host| host.routes.iter());
        let subrequests =
            routes.flat_map(|route| &route.authorizers).filter_map(|own| own.subrequest.as_ref());
        let mut names: Vec<String> = Vec::new();
        let tokens =
            self.hosts.iter().flat_map(|host| host.routes.iter()).filter_map(|route| route.jwt.as_ref());
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
        let all = routes().flat_map(|route| [Some(&route.authentication), route.enclosing.as_ref()]);
        let used = all.flatten().filter(|own| own.is_on());
        let of_users = used.flat_map(|own| own.user_files.iter().chain(&own.group_files));
        let of_keys = routes().filter_map(|route| route.jwt.as_ref()).map(|jwt| &jwt.key_file);
        of_users.chain(of_keys).map(PathBuf::as_path)
    }

    /// The rules of access of all routes.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let routes = self.hosts.iter().flat_map(|host| host.routes.iter());
        routes.flat_map(|route| route.access.iter().flat_map(|rules| rules.iter().map(|rule| &**rule)))
    }

    /// The index in `hosts` of the host with the name `authority`.
    pub fn host(&self, authority: &[u8]) -> usize {
        self.hosts.find(authority)
    }
}

/// The default value of the field `Server`.
pub const SERVER_HEADER: &str = "taipan";

impl Host {
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

impl Action {
    /// Whether its files can be scripts. Those of users cannot.
    pub fn may_have_scripts(&self) -> bool {
        matches!(self, Action::Files { .. } | Action::NamedFiles(NamedRoot::OfHost))
    }
}

impl Route {
    /// Whether users have to authenticate.
    pub fn asks_for_users(&self) -> bool {
        self.authentication.is_on() || self.enclosing.is_some()
    }

    /// Whether its upstream gets paths as they were sent.
    pub fn passes_raw_paths(&self) -> bool {
        let spelling = self.script.as_ref().map(|script| script.forwarding.spelling);
        matches!(self.action, Action::Upstream(_)) && spelling == Some(Spelling::Raw)
    }

    /// Whether a client may ask its upstream for another protocol.
    pub fn may_upgrade(&self) -> bool {
        self.script.as_ref().is_some_and(|script| !script.forwarding.upgrades.is_empty())
    }

    /// A route with default settings.
    pub fn new(pattern: Pattern, action: Action) -> Route {
        Route {
            pattern,
            within: None,
            action,
            files: Arc::default(),
            headers: Vec::new(),
            cache_control: Vec::new(),
            error_pages: Vec::new(),
            fallback: None,
            fallback_for: FallbackFor::Pages,
            language_fallback: LanguageFallback::default(),
            max_body: Limits::default().body,
            script: None,
            authorizers: Vec::new(),
            subrequest: Arc::default(),
            jwt: None,
            publishing: Arc::default(),
            sharing: Arc::default(),
            cors: None,
            security_headers: Preset::Off,
            access: Vec::new(),
            limits: Vec::new(),
            authentication: Arc::default(),
            enclosing: None,
            stores: false,
            caching: Arc::default(),
            purgers: None,
            lister: None,
        }
    }

    /// How the responses of its script or upstream are stored. `None`: they are not.
    pub fn cache(&self) -> Option<&Arc<cache::settings::Settings>> {
        self.stores.then_some(&self.caching)
    }

    /// The upstream that runs its files, or responds in their place.
    pub fn upstream(&self) -> Option<UpstreamId> {
        match self.script.as_ref()?.interpreter {
            Some(Interpreter::Upstream(id)) => Some(id),
            Some(Interpreter::Program(_)) | None => None,
        }
    }

    /// The pattern, and the prefix within which it applies.
    pub fn name(&self) -> String {
        match &self.within {
            Some(prefix) => format!("{} within {prefix}", self.pattern),
            None => self.pattern.to_string(),
        }
    }

    /// The pattern of the route that sets its action.
    pub fn base(&self) -> &Pattern {
        self.within.as_deref().unwrap_or(&self.pattern)
    }
}

impl HeaderRule {
    /// The name of the field.
    pub fn name(&self) -> &str {
        match self {
            HeaderRule::Set(name, _) | HeaderRule::Remove(name) | HeaderRule::Add(name, _) => name,
        }
    }

    /// Whether a field of this name is left out where it would be sent otherwise.
    pub fn replaces(&self, field: &[u8]) -> bool {
        match self {
            HeaderRule::Set(name, _) | HeaderRule::Remove(name) => {
                field.eq_ignore_ascii_case(name.as_bytes())
            }
            HeaderRule::Add(..) => false,
        }
    }

    /// The field that it adds.
    pub fn field(&self) -> Option<(&str, &str)> {
        match self {
            HeaderRule::Set(name, value) | HeaderRule::Add(name, value) => Some((name, value)),
            HeaderRule::Remove(_) => None,
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
            alternates: Arc::default(),
            special: SpecialFiles::default(),
            meta: None,
            compress: Arc::default(),
            includes: Arc::default(),
            dictionary: None,
            private: Arc::default(),
            meta_folders: Arc::default(),
        }
    }
}

/// Requests that may always wait for disks. With a small `connections`, a share of it would reject a few clients that
/// request files outside of the cache.
const MIN_WAITING: usize = 32;

/// The most hosts, and the most routes, that are counted each by itself. 0: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    pub hosts: usize,
    pub routes: usize,
}

impl Limits {
    /// Requests of one worker that may wait for disks before their response. A quarter of the connections stays free
    /// for other requests.
    pub fn waiting_for_disks(&self) -> usize {
        self.disk_queue.min((self.connections - self.connections / 4).max(MIN_WAITING))
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16_384,
            backlog: 4096,
            connections_per_client: 0,
            rejections: 64,
            requests: 0,
            head: taipan_http::head::Limits::default(),
            body: 1024 * 1024,
            min_rate: 500,
            disk_threads: 8,
            disk_queue: 1024,
            recent_requests: 1000,
            body_streams: 64,
            upgraded: 1024,
            compressed_streams: 64,
            unsent: 0,
            generations: 16,
            listing_entries: 10_000,
            includes: IncludeLimits::default(),
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
            upgraded: Duration::from_secs(600),
            events: Duration::from_secs(3600),
            disk: Duration::from_secs(30),
            shutdown: Duration::from_secs(30),
            reload: Duration::from_secs(3600),
            accept: Duration::from_millis(1500),
            defer_accept: Duration::from_secs(1),
            delay: Duration::from_millis(100),
        }
    }
}

impl Default for Http2 {
    fn default() -> Http2 {
        Http2 {
            enabled: true,
            streams: 128,
            waiting: 1024,
            window: 64 * 1024,
            connection_window: 256 * 1024,
            large_windows: 256,
        }
    }
}

impl CacheLimits {
    /// Files that may wait to be compressed. Each is open, and counts as one that the cache keeps open.
    pub fn waiting_copies(&self) -> usize {
        (self.descriptors / 16).clamp(1, 64)
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
            folders: 1024,
            responses: 32 * 1024 * 1024,
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
            // Go, Java and Node reserve far more address space than they use.
            memory: None,
            // Timeouts end scripts that run too long.
            cpu: None,
            // The server may have raised its own limit. Programs that close all descriptors, or use select(2), need a
            // small one.
            files: Some(1024),
            // The kernel counts all processes of the user, not only those of scripts.
            tasks: None,
            umask: None,
            nice: 0,
        }
    }
}

impl Default for Log {
    fn default() -> Log {
        Log {
            access: None,
            error: Sink::Stderr,
            level: Level::Warn,
            queue: 256,
            rotation: None,
            selection: LogSelection::default(),
            scripts: None,
            errors: ErrorLines::default(),
            clients: LoggedClients::default(),
            client_errors: None,
            script_starts: false,
        }
    }
}
