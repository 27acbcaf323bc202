//! Publishing: whether the clients of a route may change its files, by which methods, and within which limits.
//!
//! Knows nothing of requests, nor of what is on the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use taipan_http::status::Status;
use taipan_http::target::SafePath;

use crate::access::Rule;
use crate::authentication::Satisfy;
use crate::model::{Action, Route};
use crate::monitor::Monitor;
use crate::route::Pattern;

/// What clients may do with the files of a route, apart from reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    #[default]
    Off,
    /// Read them by WebDAV.
    ReadOnly,
    /// Upload and delete single files, without WebDAV.
    Files,
    /// Everything that WebDAV has.
    WebDav,
}

/// Who may publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Publishers {
    /// Those whom passwords, tokens, authorizers or rules of access let pass.
    #[default]
    Known,
    Everyone,
}

/// When a file counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// The disk has it.
    #[default]
    Disk,
    /// The kernel has it. A power failure may lose it.
    Kernel,
}

/// What happens to a file whose folder is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingFolders {
    /// It is rejected.
    #[default]
    Rejected,
    Made,
}

/// Whether `PROPFIND` may ask for everything beneath a folder at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeepListing {
    #[default]
    Rejected,
    Allowed,
}

/// How clients may change the files of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publishing {
    pub mode: Mode,
    pub publishers: Publishers,
    /// Bytes of all files beneath the root. `None`: no limit.
    pub quota: Option<u64>,
    /// Bytes of the file system that stay free.
    pub min_free: u64,
    pub sync: Sync,
    pub missing_folders: MissingFolders,
    pub deep_listing: DeepListing,
    /// The file mode creation mask of new files and folders.
    pub umask: u32,
    /// How long an incomplete upload can be resumed. Zero: uploads cannot be resumed.
    pub resumable: Duration,
    /// The longest time of a lock, until the client renews it.
    pub lock: Duration,
}

impl Default for Publishing {
    fn default() -> Publishing {
        Publishing {
            mode: Mode::Off,
            publishers: Publishers::Known,
            quota: None,
            min_free: 16 * 1024 * 1024,
            sync: Sync::Disk,
            missing_folders: MissingFolders::Rejected,
            deep_listing: DeepListing::Rejected,
            umask: 0o022,
            resumable: Duration::from_secs(86_400),
            lock: Duration::from_secs(3600),
        }
    }
}

/// The methods of files that clients only read, as the value of `Allow`.
pub const READING: &str = "GET, HEAD, OPTIONS";
/// The start of the names of the server's own files in a folder that is published. They are never served.
const OWN_NAMES: &str = ".taipan-";
/// The folder of the server's own files, in the root of a route that is published.
pub const STATE_FOLDER: &str = ".taipan-publish";
/// The name of an upload that can be resumed, in the URL, is this and its token.
pub const UPLOAD_NAME: &str = ".taipan-upload-";

/// The token of the upload at a path. `None`: it is not the URL of one.
pub fn upload_token<'p>(path: &'p SafePath<'_>) -> Option<&'p str> {
    path.name().strip_prefix(UPLOAD_NAME)
}

/// Whether a segment of a path is a name of the server's own.
pub fn is_own_name(segment: &str) -> bool {
    segment.get(..OWN_NAMES.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN_NAMES))
}

impl Publishing {
    /// Whether clients may change files.
    pub fn writes(&self) -> bool {
        matches!(self.mode, Mode::Files | Mode::WebDav)
    }

    /// Whether the server speaks WebDAV.
    pub fn is_dav(&self) -> bool {
        matches!(self.mode, Mode::ReadOnly | Mode::WebDav)
    }

    /// Whether `method` is one for the files of the route. Errors: the status of the response.
    pub fn permits(&self, method: dav::method::Method) -> Result<(), Status> {
        use dav::method::Method;
        let is_permitted = match method {
            Method::Options => true,
            Method::PropFind => self.is_dav(),
            Method::Put | Method::Delete | Method::Patch => self.writes(),
            Method::MkCol
            | Method::Copy
            | Method::Move
            | Method::PropPatch
            | Method::Lock
            | Method::Unlock => self.mode == Mode::WebDav,
        };
        if is_permitted { Ok(()) } else { Err(Status::METHOD_NOT_ALLOWED) }
    }

    /// The value of `Allow`.
    pub fn allow(&self) -> &'static str {
        match self.mode {
            Mode::Off => READING,
            Mode::ReadOnly => "GET, HEAD, OPTIONS, PROPFIND",
            Mode::Files => "GET, HEAD, OPTIONS, PUT, DELETE",
            Mode::WebDav => {
                "GET, HEAD, OPTIONS, PUT, DELETE, MKCOL, COPY, MOVE, PROPFIND, PROPPATCH, LOCK, UNLOCK"
            }
        }
    }

    /// The value of `DAV` (RFC 4918 §10.1). `None`: the server does not speak it.
    pub fn classes(&self) -> Option<&'static str> {
        match self.mode {
            Mode::Off | Mode::Files => None,
            Mode::ReadOnly => Some("1, 3"),
            Mode::WebDav => Some("1, 2, 3"),
        }
    }
}

impl Route {
    /// The value of `Allow`.
    pub fn allow(&self) -> &'static str {
        match self.action {
            Action::Monitor(Monitor::Acts) => "GET, HEAD, OPTIONS, POST",
            _ => self.publishing.allow(),
        }
    }

    /// Whether clients publish in a folder of this route.
    pub fn publishes(&self) -> bool {
        self.publishing.writes() && matches!(self.action, Action::Files { .. })
    }

    /// Whether something may keep a client from uploading a file.
    pub(crate) fn knows_publishers(&self) -> bool {
        let file = match self.base() {
            Pattern::Prefix(prefix) => SafePath::from_decoded(&format!("/{prefix}a new file")).ok(),
            pattern => pattern.example(),
        };
        let denies = |rule: &Arc<Rule>| file.as_ref().is_some_and(|file| rule.may_deny("PUT", file));
        let asks_for_users = self.authentications().any(|own| own.is_on() && own.satisfy != Satisfy::Rules);
        asks_for_users
            || !self.jwts.is_empty()
            || !self.authorizers.is_empty()
            || self.access.iter().any(|rules| rules.iter().any(denies))
    }

    /// `None`: the route serves no files.
    pub(crate) fn root(&self) -> Option<&Path> {
        let Action::Files { root, .. } = &self.action else { return None };
        Some(root)
    }

    /// The folder, or the file, that the paths of the route lead to. `None`: it serves no files.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let Action::Files { root, strip } = &self.action else { return None };
        Some(self.folder_in(root, *strip))
    }

    /// As [`Route::folder`], in a root. `strip`: the segments of the path that are not in it.
    pub(crate) fn folder_in(&self, root: &Path, strip: usize) -> PathBuf {
        let path = match self.base() {
            Pattern::Prefix(path) | Pattern::Exact(path) => path.as_str(),
            Pattern::Glob(_) => "",
        };
        let segments = path.split('/').filter(|segment| !segment.is_empty()).skip(strip);
        segments.fold(root.to_owned(), |folder, segment| folder.join(segment))
    }
}

#[cfg(test)]
mod tests {
    use dav::method::Method;

    use super::*;

    #[test]
    fn modes_permit_methods() {
        let permits = |mode, method| Publishing { mode, ..Publishing::default() }.permits(method).is_ok();
        for (method, permitted) in [
            (Method::Options, [true; 4]),
            (Method::PropFind, [false, true, false, true]),
            (Method::Put, [false, false, true, true]),
            (Method::Delete, [false, false, true, true]),
            (Method::MkCol, [false, false, false, true]),
            (Method::Lock, [false, false, false, true]),
        ] {
            let found =
                [Mode::Off, Mode::ReadOnly, Mode::Files, Mode::WebDav].map(|mode| permits(mode, method));
            assert_eq!(found, permitted, "{method:?}");
        }
    }

    #[test]
    fn own_names_are_not_served() {
        for (name, is_own) in
            [(STATE_FOLDER, true), (".TAIPAN-x", true), (".taipan", false), ("a.taipan-x", false)]
        {
            assert_eq!(is_own_name(name), is_own, "{name}");
        }
    }

    #[test]
    fn routes_lead_to_folders() {
        let folder = |pattern: &str, strip| {
            let action = Action::Files { root: "/srv".into(), strip };
            Route::new(Pattern::parse(pattern).unwrap(), action).folder()
        };
        assert_eq!(folder("/", 0), Some("/srv".into()));
        assert_eq!(folder("/a/b/", 0), Some("/srv/a/b".into()));
        assert_eq!(folder("/a/b/", 1), Some("/srv/b".into()));
        assert_eq!(folder("*.php", 0), Some("/srv".into()));
        assert_eq!(folder("/a/x", 0), Some("/srv/a/x".into()));
    }
}
