//! Password files of folders that are served (`.htpasswd`). They are read on helper threads, and cached for a second.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use auth::hash::PlainText;
use auth::mistake::{MAX_FILE, Mistakes};
use auth::users::Users;
use site::authentication::{Authentication, FOLDER_FILE, FolderPasswords};
use site::memory::FOLDER_USERS;
use site::model::{Action, Route, Symlinks};
use site::plan;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::Exchange;
use crate::disk::Work;
use crate::files::HostKey;
use crate::files::beneath::{self, OpenError, READ, Root, Wait};
use crate::files::roots::Roots;
use crate::log;

/// Folders of which a worker knows the users. With more, or with more than `FOLDER_USERS`, all are looked up again.
const FOLDERS: usize = 1024;

#[derive(Default)]
pub struct FolderPasswordFiles {
    known: RefCell<HashMap<Key, Known>>,
}

/// Root, folder beneath it, and the settings of the route.
type Key = (RootKey, String, usize);

#[derive(Clone, PartialEq, Eq, Hash)]
enum RootKey {
    Path(PathBuf),
    /// The root of a host's name, or of the user whom the path names.
    Named(HostKey),
}

#[derive(Clone)]
struct Known {
    /// The second of the last lookup.
    checked_at: i64,
    /// Keeps the settings in memory: the key has their address, which nothing else may get.
    _settings: Arc<Authentication>,
    /// Of the file.
    bytes: usize,
    /// `None`: the folder has no file. Errors: the file cannot be used.
    users: Result<Option<Arc<Authentication>>, Status>,
}

impl Known {
    /// Whether the file has the same users as before.
    fn has(&self, users: &Users) -> bool {
        let earlier = self.users.as_ref().ok().and_then(Option::as_ref);
        earlier.is_some_and(|earlier| earlier.users.iter().any(|earlier| earlier.is_same(users)))
    }
}

impl FolderPasswordFiles {
    /// Keeps the users of a folder in place of those that were known. If there is no space, forgets all other folders.
    fn keep(&self, key: Key, known: Known) {
        let mut all = self.known.borrow_mut();
        all.remove(&key);
        let kept: usize = all.values().map(|known| known.bytes).sum();
        if all.len() >= FOLDERS || kept + known.bytes > FOLDER_USERS {
            all.clear();
        }
        all.insert(key, known);
    }
}

impl Exchange<'_> {
    /// The users of the file that protects `folder`. `None`: there is no such file. Errors: the status of the response.
    pub(super) async fn folder_users(
        &self,
        own: &Arc<Authentication>,
        folder: &SafePath<'static>,
    ) -> Result<Option<Arc<Authentication>>, Status> {
        let planned = plan::rewritten(self.host(), folder);
        let folder = planned.as_ref().unwrap_or(folder);
        let route = self.route_at(self.host().routes.find(folder));
        let Some((root, below)) = self.root_and_path(route, folder) else { return Ok(None) };
        let key = (root, below.as_str().to_owned(), Arc::as_ptr(own) as usize);
        let files = &self.responder.folder_passwords;
        let known = files.known.borrow().get(&key).cloned();
        if let Some(known) = &known
            && known.checked_at == self.now
        {
            return known.users.clone();
        }
        let (root, below) = match &key.0 {
            RootKey::Path(root) => (Roots::get(&self.responder.files, root, self.now)?, below),
            RootKey::Named(_) => match self.named_root(below).await? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let device = root.device;
        // The password file itself may be a link to that of another folder.
        let symlinks = match route.files.symlinks {
            Symlinks::Guarded | Symlinks::GuardedTree => Symlinks::Beneath,
            symlinks => symlinks,
        };
        let search = Search { root, folder: below, symlinks, plain: own.plain };
        let mode = own.folder;
        let found = self.services.disk.run_for_request(device, Work::File, move || search.find(mode)).await;
        let found = found
            .map_err(|busy| self.services.report_busy(format_args!("the password file of {folder}"), busy))?;
        let bytes = if let Found::Users { bytes, .. } = &found { *bytes } else { 0 };
        let users = match found {
            Found::Nothing => Ok(None),
            Found::Unusable(what) => {
                if known.is_none_or(|known| known.users.is_ok()) {
                    log::error(format_args!("the password file of {folder}: {what}; requests get 403"));
                }
                Err(Status::FORBIDDEN)
            }
            Found::Users { users, folder, .. } => match known.filter(|known| known.has(&users)) {
                Some(known) => known.users,
                None => {
                    warn(&folder, users.mistakes());
                    Ok(Some(Arc::new(Authentication {
                        realm: folder,
                        users: vec![Arc::new(users)],
                        user_files: Vec::new(),
                        folder: FolderPasswords::Off,
                        ..(**own).clone()
                    })))
                }
            },
        };
        let known = Known { checked_at: self.now, _settings: own.clone(), bytes, users: users.clone() };
        files.keep(key, known);
        users
    }

    /// The root that has a folder, and the path of the folder beneath it. `None`: its route serves no files.
    fn root_and_path(&self, route: &Route, folder: &SafePath<'_>) -> Option<(RootKey, SafePath<'static>)> {
        match &route.action {
            Action::Files { root, strip } => {
                let below = folder.skip_segments(*strip).unwrap_or_else(|| folder.clone());
                Some((RootKey::Path(root.clone()), below.into_owned()))
            }
            Action::NamedFiles(_) => Some((RootKey::Named(self.key), folder.clone().into_owned())),
            _ => None,
        }
    }

    /// The root of a name or a user, and the path beneath it. `None`: nothing is served there. Errors: the status of
    /// the response.
    async fn named_root(
        &self,
        folder: SafePath<'static>,
    ) -> Result<Option<(Root, SafePath<'static>)>, Status> {
        let Some(planned) = self.plan(folder).files() else { return Ok(None) };
        match self.user_status(&planned).await {
            Ok(()) => {}
            // Nothing is served, so that nothing has to be protected.
            Err(Status::NOT_FOUND | Status::FORBIDDEN) => return Ok(None),
            Err(status) => return Err(status),
        }
        let root = self.responder.files.root(self.key, &planned, self.now)?;
        Ok(Some((root, planned.below().into_owned())))
    }
}

/// Logs one line about the lines of a password file that do not count.
fn warn(folder: &str, mistakes: &Mistakes) {
    if let Some(first) = mistakes.listed.first() {
        let count = mistakes.listed.len() + mistakes.more;
        log::warn(format_args!(
            "the password file of {folder} has lines that do not count ({count}): {first}"
        ));
    }
}

/// The work of a helper thread.
struct Search {
    root: Root,
    folder: SafePath<'static>,
    symlinks: Symlinks,
    plain: PlainText,
}

enum Found {
    Nothing,
    /// The users, the size of their file in bytes, and the folder that has the file.
    Users {
        users: Users,
        bytes: usize,
        folder: String,
    },
    Unusable(String),
}

impl Search {
    /// From the folder up to the root, if folders inherit the file.
    fn find(&self, mode: FolderPasswords) -> Found {
        let most = self.folder.segments().count();
        let least = if mode == FolderPasswords::Inherited { 0 } else { most };
        for count in (least..=most).rev() {
            let Some(folder) = self.folder.first_segments(count) else { continue };
            let Some(path) = folder.join(FOLDER_FILE) else { continue };
            match beneath::open(&self.root, &path, self.symlinks, READ, Wait::Allowed) {
                Err(OpenError::Missing)
                    if beneath::may_have_password_file(&self.root, &folder, self.symlinks) =>
                {
                    return Found::Unusable("it is a link that leads to nothing".to_owned());
                }
                Err(OpenError::Missing) => {}
                Err(OpenError::Denied) => return Found::Unusable("it may not be read".to_owned()),
                Err(OpenError::Local(errno)) => return Found::Unusable(errno.to_string()),
                Err(OpenError::WouldWait) => return Found::Unusable("it has to wait".to_owned()),
                Ok(fd) => return self.read(std::fs::File::from(fd), &folder),
            }
        }
        Found::Nothing
    }

    fn read(&self, file: std::fs::File, folder: &SafePath<'_>) -> Found {
        let mut bytes = Vec::new();
        if let Err(error) = file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes) {
            return Found::Unusable(error.to_string());
        }
        match Users::parse(&bytes, self.plain) {
            Ok(users) => Found::Users { users, bytes: bytes.len(), folder: folder.to_string() },
            Err(error) => Found::Unusable(error.to_string()),
        }
    }
}
