//! The folders that names lead to: of each name of a host, and of each user. They are found when a request first needs
//! them, outside of the worker's loop, and compared with the disk from time to time, as roots are. Names without a
//! folder are remembered, too.
//!
//! A folder has a number, which is part of the key of its cached files: two names never share an entry. A folder that
//! was replaced gets another number.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use site::folder::{FolderName, HostFolder, UserFolders};
use site::model::{Site, Symlinks};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::accounts;
use super::beneath::{OpenError, Root};
use super::roots::Roots;
use super::table::{Cost, Limits, Table};
use super::{Files, HostKey};
use crate::disk::{Device, Work};
use crate::tasks::spawn_local;

/// Names without a folder that are remembered, for each folder that may be.
const MISSING: usize = 4;
/// Stands in front of a user's name. No name of a host begins with it.
const USER: char = '~';

pub struct Folders {
    found: RefCell<Table<Known>>,
    missing: RefCell<Table<Absent>>,
    /// Those in `found`, and those that a request still uses.
    numbered: RefCell<HashMap<u32, Weak<Folder>>>,
    limit: usize,
    next: Cell<u32>,
}

pub struct Folder {
    pub number: u32,
    pub root: Root,
    /// As the configuration and the name say it.
    pub path: Rc<Path>,
}

struct Known {
    folder: Rc<Folder>,
    checked_at: i64,
}

/// The second in which a name had no folder, and the status for it.
struct Absent {
    status: Status,
    checked_at: i64,
}

/// The host's name or the user that a folder belongs to.
#[derive(Clone, Copy)]
pub enum FolderOf<'a> {
    /// A name of a host.
    Host(&'a HostFolder, &'a FolderName<'a>),
    User(&'a Arc<UserFolders>, &'a str),
}

/// What is known of a name.
pub enum Found {
    Folder(Rc<Folder>),
    Missing(Status),
    /// It has to be looked up.
    Unknown,
}

/// The folder of a name, to be opened on another thread.
pub struct Wanted {
    host: HostKey,
    /// With `USER` in front of a user.
    name: String,
    symlinks: Symlinks,
    kind: Kind,
}

enum Kind {
    OfHost { base: Root, named: SafePath<'static>, tail: SafePath<'static>, path: PathBuf },
    OfUser { users: Arc<UserFolders>, bases: Vec<(PathBuf, Root)> },
}

impl Folders {
    /// `limit`: folders that are open at the same time.
    pub fn new(limit: usize) -> Folders {
        let table = |entries, descriptors| Limits { entries, descriptors, bytes: usize::MAX };
        Folders {
            found: RefCell::new(Table::new(table(limit, limit))),
            missing: RefCell::new(Table::new(table(limit.saturating_mul(MISSING), 0))),
            numbered: RefCell::default(),
            limit,
            next: Cell::new(1),
        }
    }

    /// The root of a numbered folder.
    pub fn root(&self, number: u32) -> Option<Root> {
        self.numbered.borrow().get(&number)?.upgrade().map(|folder| folder.root.clone())
    }

    /// The root of a user that was looked up before.
    pub fn of_user(&self, host: HostKey, user: &str) -> Option<Root> {
        let mut found = self.found.borrow_mut();
        found.get(host.with_folder(0), &user_key(user)).map(|known| known.folder.root.clone())
    }

    fn add(&self, host: HostKey, name: &str, root: Root, path: &Path, now: i64) -> Option<Rc<Folder>> {
        self.missing.borrow_mut().remove(host, name);
        let mut found = self.found.borrow_mut();
        if let Some(known) = found.get(host, name)
            && known.folder.root.is_same(&root)
            && *known.folder.path == *path
        {
            known.checked_at = now;
            return Some(known.folder.clone());
        }
        let number = self.next.get();
        self.next.set(number.checked_add(1)?);
        let folder = Rc::new(Folder { number, root, path: path.into() });
        let cost = Cost { bytes: 0, descriptors: 1 };
        found.insert(host, name, Known { folder: folder.clone(), checked_at: now }, cost);
        let mut numbered = self.numbered.borrow_mut();
        if numbered.len() >= 2 * self.limit {
            numbered.retain(|_, folder| folder.strong_count() > 0);
        }
        numbered.insert(number, Rc::downgrade(&folder));
        Some(folder)
    }

    fn add_missing(&self, host: HostKey, name: &str, status: Status, now: i64) {
        self.found.borrow_mut().remove(host, name);
        self.missing.borrow_mut().insert(host, name, Absent { status, checked_at: now }, Cost::default());
    }
}

fn user_key(user: &str) -> String {
    let mut key = String::with_capacity(user.len() + 1);
    key.push(USER);
    key.push_str(user);
    key
}

impl FolderOf<'_> {
    /// The key of its entries.
    fn key(&self, host: HostKey) -> (HostKey, Cow<'_, str>) {
        match self {
            FolderOf::Host(_, name) => (host, name.key()),
            FolderOf::User(_, user) => (host.with_folder(0), Cow::Owned(user_key(user))),
        }
    }
}

impl Files {
    /// A folder, as far as it is known.
    pub fn folder(self: &Rc<Files>, host: HostKey, of: FolderOf<'_>, symlinks: Symlinks, now: i64) -> Found {
        let (key, name) = of.key(host);
        if let Some(known) = self.folders.found.borrow_mut().get(key, &name) {
            let folder = known.folder.clone();
            if !(0..self.check_seconds.max(1)).contains(&(now - known.checked_at)) {
                if !folder.root.is_at(&folder.path) && !self.services.sheds_cold() {
                    return Found::Unknown;
                }
                // It stays in use until it is compared.
                known.checked_at = now;
                if let Ok(wanted) = self.wanted_folder(host, of, symlinks, now) {
                    let files = self.clone();
                    // The next one tries again.
                    spawn_local(async move { _ = files.find_folder(wanted).await });
                }
            }
            return Found::Folder(folder);
        }
        match self.folders.missing.borrow_mut().get(key, &name) {
            Some(absent) if (0..self.missing_seconds).contains(&(now - absent.checked_at)) => {
                Found::Missing(absent.status)
            }
            _ => Found::Unknown,
        }
    }

    /// A folder that has to be opened. Errors: the status of the response.
    pub fn wanted_folder(
        self: &Rc<Files>,
        host: HostKey,
        of: FolderOf<'_>,
        symlinks: Symlinks,
        now: i64,
    ) -> Result<Wanted, Status> {
        let kind = match of {
            FolderOf::Host(folder, name) => Kind::OfHost {
                base: Roots::get(self, &folder.base, now)?,
                named: folder.of(name).ok_or(Status::NOT_FOUND)?,
                tail: folder.tail.clone(),
                path: folder.path(name).ok_or(Status::NOT_FOUND)?,
            },
            FolderOf::User(users, _) => {
                // One that is missing has no homes.
                let open = |base: &PathBuf| Some((base.clone(), Roots::get(self, base, now).ok()?));
                let bases = users.homes.iter().filter_map(open).collect();
                Kind::OfUser { users: users.clone(), bases }
            }
        };
        let (host, name) = of.key(host);
        Ok(Wanted { host, name: name.into_owned(), symlinks, kind })
    }

    /// Looks a folder up, on another thread. Errors: the status of the response.
    pub async fn find_folder(self: &Rc<Files>, wanted: Wanted) -> Result<Rc<Folder>, Status> {
        if self.services.sheds_cold() {
            return Err(Status::SERVICE_UNAVAILABLE);
        }
        let (host, name, device) = (wanted.host, wanted.name.clone(), wanted.device());
        let opened = self.services.disk.run_for_request(device, Work::File, move || wanted.open()).await;
        let now = self.services.clock.read();
        match opened.map_err(|busy| self.report_busy(&name, busy))? {
            Ok((root, path)) => {
                self.folders.add(host, &name, root, &path, now).ok_or(Status::SERVICE_UNAVAILABLE)
            }
            Err(OpenError::Local(errno)) => Err(self.report_errno(&name, errno)),
            Err(error) => {
                let is_denied = matches!(error, OpenError::Denied);
                let status = if is_denied { Status::FORBIDDEN } else { Status::NOT_FOUND };
                self.folders.add_missing(host, &name, status, now);
                Err(status)
            }
        }
    }
}

impl Wanted {
    fn device(&self) -> Device {
        match &self.kind {
            Kind::OfHost { base, .. } => base.device,
            Kind::OfUser { bases, .. } => bases.first().map_or((0, 0), |(_, root)| root.device),
        }
    }

    /// The folder of a name, as the configuration says it. `None`: it is a user's.
    pub fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::OfHost { path, .. } => Some(path),
            Kind::OfUser { .. } => None,
        }
    }

    /// The folder, and its path with the links in it. Waits for disks.
    pub fn open(&self) -> Result<(Root, PathBuf), OpenError> {
        let (root, path) = match &self.kind {
            Kind::OfHost { base, named, tail, path } => {
                let own = base.beneath(named, self.symlinks)?;
                // A link in the folder of a name does not lead to that of another.
                let root = if tail.as_str().is_empty() { own } else { own.beneath(tail, self.symlinks)? };
                (root, path.clone())
            }
            Kind::OfUser { users, bases } => {
                let accounts = accounts::read(&users.passwd);
                let user = self.name.trim_start_matches(USER);
                let home = users.home(&accounts, user).ok_or(OpenError::Missing)?;
                let base = bases.iter().find(|(path, _)| path == home.base).ok_or(OpenError::Missing)?;
                let root =
                    base.1.beneath(&home.below, self.symlinks)?.beneath(&users.folder, self.symlinks)?;
                (root, users.folder.beneath(&home.below.beneath(home.base)))
            }
        };
        root.check_access().map_err(|_| OpenError::Denied)?;
        Ok((root, path))
    }
}

/// Reads the files with accounts while the process may: the sandbox may forbid it later.
pub fn read_accounts(site: &Site) {
    for users in site.hosts.iter().filter_map(|host| host.users.as_ref()) {
        accounts::read(&users.passwd);
    }
}
