//! A route: how a request beneath its path is responded to.

use std::path::PathBuf;
use std::sync::Arc;

use cache::key::Mapping;
use script::environment::{Additions, Credentials};
use taipan_http::negotiate::Coding;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::limits::Limits;
use super::scripts::Account;
use crate::access::Rules;
use crate::alternates::AlternateRules;
use crate::authentication::Authentication;
use crate::authorizer::{Authorizer, Subrequest};
use crate::compress::{CompressRules, TypePattern};
use crate::cors::{self, Cors};
use crate::forwarding::{Forwarding, Spelling};
use crate::includes::Includes;
use crate::jwt::Jwt;
use crate::limit::LimitId;
use crate::mime::MediaTypes;
use crate::monitor::Monitor;
use crate::network::Networks;
use crate::published::Text;
use crate::publishing::Publishing;
use crate::route::Pattern;
use crate::security_headers::Preset;
use crate::template::{QueryTemplate, Rewrite, Template};
use crate::upstream::UpstreamId;

/// The users of a prefix, for a glob within it.
#[derive(Debug, Clone)]
pub struct Enclosing {
    /// It is that of the glob, too, if the glob has no users of its own.
    pub authentication: Arc<Authentication>,
    /// The rules that may let a request pass without one of these users. Those of the glob may not.
    pub access: Vec<Rules>,
}

/// The files that a value of `Cache-Control` is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    Path(Pattern),
    Type(TypePattern),
}

/// The action and all settings of the paths that a pattern matches.
#[derive(Debug, Clone)]
pub struct Route {
    pub pattern: Pattern,
    /// The prefix from which a glob, or a route for one path, has inherited its action.
    pub within: Option<Box<Pattern>>,
    pub action: Action,
    pub files: Arc<FileRules>,
    pub headers: Vec<HeaderRule>,
    /// `Cache-Control` by the first entry that matches the file.
    pub cache_control: Vec<(Selector, String)>,
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
    /// The tokens that it asks for: of a glob, also those of the prefix that it is within.
    pub jwts: Vec<Arc<Jwt>>,
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
    /// Of a glob with users or rules of its own: what the prefix asks for that it is within. Both count.
    pub enclosing: Option<Enclosing>,
    /// Whether the responses of its script or upstream are stored.
    pub stores: bool,
    /// How they are stored, for routes that inherit it, too.
    pub caching: Arc<cache::settings::Settings>,
    /// What tells its stored responses apart from those of other routes: see `with_mappings` of [`super::Host`].
    pub mapping: Mapping,
    /// The clients that may remove what is stored, by PURGE. `None`: it is a method like others.
    pub purgers: Option<Arc<Networks>>,
}

/// A path of the same host that responds where nothing exists for the requested path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    pub path: SafePath<'static>,
    /// `None`: the query of the request stays.
    pub query: Option<QueryTemplate>,
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
    pub remote_host: RemoteHost,
    /// Scripts of this route that run at the same time, over all workers.
    pub processes: usize,
    /// The account of the programs. `None`: the server's. An upstream has its own.
    pub account: Option<Account>,
    /// For an upstream that speaks HTTP.
    pub forwarding: Forwarding,
    pub buffering: ResponseBuffering,
}

/// Whether a response is read ahead of a slow client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResponseBuffering {
    #[default]
    On,
    Off,
}

/// What a script gets as REMOTE_HOST where the name of the client is not known (RFC 3875 §4.1.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RemoteHost {
    #[default]
    Absent,
    Address,
}

/// What runs a file that is not a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interpreter {
    /// Receives the path of the file as its only argument.
    Program(PathBuf),
    /// Receives the path of the file as SCRIPT_FILENAME.
    Upstream(UpstreamId),
}

/// What responds, where no script does.
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
    Rewrite { to: Box<Rewrite> },
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

/// Which files beneath a root are served, and how.
#[derive(Debug, Clone)]
pub struct FileRules {
    pub index: Vec<String>,
    pub suffixes: Suffixes,
    pub listing: Listing,
    pub dotfiles: Dotfiles,
    pub symlinks: Symlinks,
    pub executables: Executables,
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

/// Ends of names that are tried behind a path without a slash at its end, where it names no file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Suffixes {
    /// They precede the folder of the path.
    pub before_folder: Vec<String>,
    /// They are for paths without a folder.
    pub without_folder: Vec<String>,
}

impl Suffixes {
    pub fn is_empty(&self) -> bool {
        self.before_folder.is_empty() && self.without_folder.is_empty()
    }

    /// In the order in which they are tried.
    pub fn iter(&self) -> impl Iterator<Item = &String> {
        self.before_folder.iter().chain(&self.without_folder)
    }

    pub fn retain(&mut self, is_kept: impl Fn(&String) -> bool) {
        self.before_folder.retain(&is_kept);
        self.without_folder.retain(is_kept);
    }
}

/// Which files are more than their content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpecialFiles {
    /// `*.asis` is a whole response.
    pub as_is: bool,
    /// `*.map` says where a click on an image leads.
    pub image_maps: bool,
}

/// What a file is that is not sent as it is.
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
    /// Whether the file at a path beneath the root is never served. Nor is what is in a folder that is not.
    pub fn hides(&self, below: &SafePath<'_>) -> bool {
        // A slash at its end names the same file where clients publish.
        let name = below.as_str().trim_end_matches('/');
        let is_within = |own: &SafePath| {
            name.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.private.iter().any(is_within)
            || below.segments().any(|segment| self.meta_folders.iter().any(|folder| folder == segment))
    }

    /// Whether some files are never served.
    pub fn has_hidden(&self) -> bool {
        !self.private.is_empty() || !self.meta_folders.is_empty()
    }
}

/// Whether a folder without an index file is listed. Off: 403.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    On,
    Off,
}

/// Whether files and folders are served whose names begin with a dot. The strictest is the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dotfiles {
    /// 404, except below `/.well-known/`.
    Deny,
    /// Listings leave them out.
    Unlisted,
    Allow,
}

/// What becomes of a file that may be executed, and that no route runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executables {
    Send,
    /// 403: it may be a script that is reached by another path, as by a link.
    Deny,
}

/// The targets that a symbolic link may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    /// Anything beneath the root.
    Beneath,
    /// As `Beneath`, but for files that another folder has a password file for (`folder_passwords`): access was decided
    /// by the folder of the link.
    Guarded,
    /// As `Beneath`, but for what is beneath another folder whose password file counts for the folders below, too.
    GuardedTree,
    /// Anywhere, if link and target have the same owner.
    Owner,
    /// Nothing: a path with a link in it is 403.
    Never,
    /// Anywhere.
    Follow,
}

/// What an entity tag is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtagFrom {
    /// Size, modification time with nanoseconds, and inode.
    Stat,
    /// A hash of the content, for files that fit the cache's file limit; `Stat` for larger ones.
    Content,
    Off,
}

/// What is done to the fields of a response: names and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderRule {
    /// Replaces a field that the server would send itself.
    Set(String, String),
    Remove(String),
    /// Adds a line to the fields of this name.
    Add(String, String),
}

impl Action {
    /// Whether its files can be scripts. Those of users cannot.
    pub fn may_have_scripts(&self) -> bool {
        matches!(self, Action::Files { .. } | Action::NamedFiles(NamedRoot::OfHost))
    }
}

impl Route {
    /// Whether it has single files, and something else than they responds: a status, a text, or an upstream.
    pub fn replaces_files(&self) -> bool {
        let is_pattern = !matches!(self.pattern, Pattern::Prefix(_));
        is_pattern && matches!(self.action, Action::Return(_) | Action::Upstream(_) | Action::Publish(_))
    }

    /// Its settings of authentication, and those of the prefix that it is within.
    pub fn authentications(&self) -> impl Iterator<Item = &Arc<Authentication>> {
        let enclosing = self.enclosing.as_ref().map(|enclosing| &enclosing.authentication);
        std::iter::once(&self.authentication).chain(enclosing)
    }

    /// Whether users have to authenticate.
    pub fn asks_for_users(&self) -> bool {
        self.authentication.is_on() || self.enclosing.is_some()
    }

    /// Whether both have the same rules, users, authorizers and tokens.
    pub fn asks_as(&self, other: &Route) -> bool {
        self.access == other.access
            && Arc::ptr_eq(&self.authentication, &other.authentication)
            && self.authorizers == other.authorizers
            && self.jwts == other.jwts
            && self.enclosing.is_none()
            && other.enclosing.is_none()
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
            jwts: Vec::new(),
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
            mapping: Mapping::NONE,
            purgers: None,
            lister: None,
        }
    }

    /// The value of `Cache-Control` for a file at `path`, with this `Content-Type`.
    pub fn cache_control(&self, path: &SafePath<'_>, content_type: &str) -> Option<&str> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim_end();
        let matches = |selector: &Selector| match selector {
            Selector::Path(pattern) => pattern.matches(path),
            Selector::Type(pattern) => pattern.matches(media_type.as_bytes()),
        };
        self.cache_control.iter().find(|(selector, _)| matches(selector)).map(|(_, value)| value.as_str())
    }

    /// How the responses of its script or upstream are stored. `None`: they are not.
    pub fn cache(&self) -> Option<&Arc<cache::settings::Settings>> {
        self.stores.then_some(&self.caching)
    }

    /// What decides, beside the host and the upstream, which request is sent for a path that leads to it.
    pub fn mapping_text(&self) -> String {
        let root = match &self.action {
            Action::Files { root, strip } => Some((root, strip)),
            _ => None,
        };
        let script = self.script.as_deref().map(|script| {
            // The number of an upstream changes with the others, and its name is in the key of a response.
            let Script {
                interpreter,
                environment,
                credentials,
                remote_host,
                processes: _,
                account,
                forwarding,
                buffering: _,
            } = script;
            let program = match interpreter {
                Some(Interpreter::Program(path)) => Some(path),
                Some(Interpreter::Upstream(_)) | None => None,
            };
            (program, environment, credentials, remote_host, account, forwarding)
        });
        format!("{:?} {:?} {root:?} {script:?}", self.pattern, self.within)
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
            suffixes: Suffixes::default(),
            listing: Listing::Off,
            dotfiles: Dotfiles::Deny,
            symlinks: Symlinks::Beneath,
            executables: Executables::Send,
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
