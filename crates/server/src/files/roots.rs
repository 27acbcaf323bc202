//! Roots: the folders that files are served from. They are opened at the start, and opened again by name from time to
//! time, because a release is often switched by replacing a link. A root may be on a disk that does not respond, so it
//! is opened outside of the worker's loop.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use foldhash::fast::RandomState;
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};
use rustix::io::Errno;
use rustix::process::geteuid;
use site::model::Site;
use taipan_http::status::Status;
use tokio::sync::Notify;

use super::Files;
use super::beneath::Root;
use super::hidden_files::HiddenFiles;
use crate::disk::{Busy, Device, Work};
use crate::log;
use crate::process::privilege;
use crate::sys::calls;
use crate::tasks::spawn_local;

/// The timeout of opening a root at the start. A later request opens it again.
const OPEN_TIMEOUT: Duration = Duration::from_secs(3);

/// All roots of a site at the start.
#[derive(Clone, Default)]
pub struct OpenRoots {
    all: Arc<HashMap<PathBuf, Opened>>,
    /// The root of `taipan DIR`. The master has opened it, because the user of this process may not reach it by name.
    preopened: Option<Root>,
    hidden: HiddenFiles,
}

/// The result of opening a root.
#[derive(Debug, Clone)]
enum Opened {
    Root(Root),
    /// The root is not a folder, or this user may not open it.
    Failed(String),
    /// The error is not about the root: no descriptors, no memory, a broken disk.
    Unknown(String),
    /// The disk does not respond.
    Unresponsive,
}

impl OpenRoots {
    /// Opens the roots of all routes.
    pub fn of(site: &Site) -> OpenRoots {
        OpenRoots::with(site, None)
    }

    /// As `of`, except for the root that is open already.
    pub fn with(site: &Site, preopened: Option<Root>) -> OpenRoots {
        let mut paths: VecDeque<PathBuf> = site.roots().into_iter().map(Path::to_owned).collect();
        let hidden = HiddenFiles::new(site.named_files.files().clone());
        let mut all = HashMap::new();
        if let Some(root) = &preopened {
            paths.retain(|path| *path != *root.path);
            let result = root.check_access().map(|()| root.clone());
            all.insert(root.path.to_path_buf(), Opened::new(result));
        }
        while !paths.is_empty() {
            open_on_thread(&mut paths, &mut all, &hidden);
        }
        OpenRoots { all: Arc::new(all), preopened, hidden }
    }

    /// Roots that are not folders or cannot be reached, each with a message.
    pub fn problems(&self) -> Vec<(&Path, String)> {
        let problem = |path: &Path, opened: &Opened| match (opened, &self.preopened) {
            (Opened::Failed(_) | Opened::Unknown(_), Some(root)) if *root.path == *path => {
                Some(no_access(path, "serve it as another user, by --user"))
            }
            (Opened::Failed(why) | Opened::Unknown(why), _) => Some(
                obstacle(path)
                    .unwrap_or_else(|| format!("cannot open the root {}: {why}", privilege::shown(path))),
            ),
            (Opened::Root(_) | Opened::Unresponsive, _) => None,
        };
        let all = self.all.iter().map(|(path, opened)| (path.as_path(), opened));
        let mut problems: Vec<(&Path, String)> =
            all.filter_map(|(path, opened)| Some((path, problem(path, opened)?))).collect();
        sort::by(&mut problems, Ord::cmp);
        problems
    }

    /// The files beneath them that are never served.
    pub const fn hidden_files(&self) -> &HiddenFiles {
        &self.hidden
    }

    /// The root that this process may not be able to open by name.
    pub fn preopened(&self) -> Option<BorrowedFd<'_>> {
        self.preopened.as_ref().map(|root| root.fd.as_fd())
    }

    /// A root that could be opened.
    pub fn opened(&self, path: &Path) -> Option<Root> {
        match self.all.get(path) {
            Some(Opened::Root(root)) => Some(root.clone()),
            _ => None,
        }
    }

    /// Roots whose disks do not respond.
    pub fn unresponsive(&self) -> impl Iterator<Item = &Path> {
        let unresponsive = self.all.iter().filter(|(_, opened)| matches!(opened, Opened::Unresponsive));
        unresponsive.map(|(path, _)| path.as_path())
    }
}

/// Opens roots on a new thread, in order, until one exceeds the timeout. That one is unresponsive, and so are all if no
/// thread can be started.
fn open_on_thread(paths: &mut VecDeque<PathBuf>, all: &mut HashMap<PathBuf, Opened>, hidden: &HiddenFiles) {
    let (sender, results) = channel();
    let (to_open, hidden) = (paths.clone(), hidden.clone());
    let open = move || {
        for path in to_open {
            let root = Root::open(&path).map(|root| root.hiding(&hidden));
            let root = root.and_then(|root| root.check_access().map(|()| root));
            // Fails after a timeout.
            if sender.send(Opened::new(root)).is_err() {
                return;
            }
        }
    };
    let Ok(thread) = std::thread::Builder::new().name("roots".into()).stack_size(128 * 1024).spawn(open)
    else {
        return all.extend(paths.drain(..).map(|path| (path, Opened::Unresponsive)));
    };
    while let Some(path) = paths.pop_front() {
        let Ok(opened) = results.recv_timeout(OPEN_TIMEOUT) else {
            all.insert(path, Opened::Unresponsive);
            return;
        };
        all.insert(path, opened);
    }
    // The sandbox does not affect a thread that started before it.
    _ = thread.join();
}

impl Opened {
    fn new(result: io::Result<Root>) -> Opened {
        match result {
            Ok(root) => Opened::Root(root),
            Err(error) if is_about_path(&error) => Opened::Failed(error.to_string()),
            Err(error) => Opened::Unknown(error.to_string()),
        }
    }
}

/// A message with the reason why the user of this process cannot open a root, and what to do. `None`: the reason is not
/// known.
fn obstacle(root: &Path) -> Option<String> {
    let shown = privilege::shown(root);
    let mut folders: Vec<&Path> = root.ancestors().collect();
    folders.reverse();
    for folder in folders {
        let here = privilege::shown(folder);
        let metadata = match folder.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder == root => {
                return Some(format!("the root {shown} does not exist; create it"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Some(format!("the root {shown} does not exist, for there is no {here}; create it"));
            }
            Err(_) => return None,
        };
        if !metadata.is_dir() && folder == root {
            return Some(format!("the root {shown} is not a folder; name the folder that it is in"));
        }
        if !metadata.is_dir() {
            return Some(format!("the root {shown} does not exist, for {here} is not a folder"));
        }
        if accessat(CWD, folder, Access::EXEC_OK, AtFlags::EACCESS) == Err(Errno::ACCESS) {
            let alternative = "move the site to where the user may go, such as /srv";
            return Some(format!("the root {shown} cannot be reached: {}", no_access(folder, alternative)));
        }
    }
    None
}

/// A message that the user of this process may not enter `folder`; `alternative` is the second thing to do.
fn no_access(folder: &Path, alternative: &str) -> String {
    let user = privilege::user_text(geteuid().as_raw());
    let here = privilege::shown(folder);
    let mode =
        folder.metadata().map_or(String::new(), |found| format!(" (mode {:04o})", found.mode() & 0o7777));
    format!("{user} may not enter {here}{mode}; run `chmod o+x {here}`, or {alternative}")
}

/// The roots of one worker.
pub struct Roots {
    /// By the bytes of their paths: a `Path` is hashed and compared by its components, which takes longer.
    all: RefCell<HashMap<OsString, RootState, RandomState>>,
    at_start: OpenRoots,
    /// Seconds after which a root is opened again.
    check_seconds: i64,
}

struct RootState {
    opened: Opened,
    opened_at: i64,
    reopening: Reopening,
    /// Notified when it has been opened again.
    reopened: Rc<Notify>,
    /// Why it could not be opened again.
    busy: Option<Busy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reopening {
    Idle,
    /// Until it completes, `opened` stays in use.
    Running,
}

impl Roots {
    pub fn new(roots: &OpenRoots, check_seconds: i64, now: i64) -> Roots {
        let all = roots.all.iter().map(|(path, opened)| {
            let (reopening, reopened) = (Reopening::Idle, Rc::default());
            let opened = opened.clone();
            (path.clone().into(), RootState { opened, opened_at: now, reopening, reopened, busy: None })
        });
        let all = RefCell::new(all.collect());
        Roots { all, at_start: roots.clone(), check_seconds: check_seconds.max(1) }
    }

    fn is_preopened(&self, path: &Path) -> bool {
        self.at_start.preopened.as_ref().is_some_and(|root| *root.path == *path)
    }

    /// The device of a root. All roots that are not open share the device (0, 0).
    fn device(&self, path: &Path) -> Device {
        match self.all.borrow().get(path.as_os_str()).map(|state| &state.opened) {
            Some(Opened::Root(root)) => root.device,
            _ => (0, 0),
        }
    }

    /// The root as it was last opened. Errors: the status of the response.
    pub fn get(files: &Rc<Files>, path: &Path, now: i64) -> Result<Root, Status> {
        let roots = &files.roots;
        let mut all = roots.all.borrow_mut();
        let Some(state) = all.get_mut(path.as_os_str()) else { return Err(Status::INTERNAL_SERVER_ERROR) };
        if roots.is_due(state, now) {
            state.reopen(files, path);
        }
        match &state.opened {
            Opened::Root(root) => Ok(root.clone()),
            Opened::Failed(_) => Err(Status::INTERNAL_SERVER_ERROR),
            Opened::Unknown(_) | Opened::Unresponsive => Err(Status::SERVICE_UNAVAILABLE),
        }
    }

    /// Also after the clock was set back.
    fn is_due(&self, state: &RootState, now: i64) -> bool {
        !(0..self.check_seconds).contains(&(now - state.opened_at))
    }

    /// Whether the path of a root may lead to another folder by now: the link has been switched, or the kernel would
    /// have to wait to tell. Where there was no root, the next request learns of one.
    pub fn may_be_other(files: &Rc<Files>, path: &Path, now: i64) -> bool {
        let roots = &files.roots;
        let is_due = roots.all.borrow().get(path.as_os_str()).is_some_and(|state| roots.is_due(state, now));
        is_due && roots.is_other(path)
    }

    fn is_other(&self, path: &Path) -> bool {
        self.all.borrow().get(path.as_os_str()).is_some_and(|state| match &state.opened {
            Opened::Root(root) => !self.is_preopened(path) && !root.is_at(path),
            _ => false,
        })
    }

    /// What a root was at the start, for a message about one whose folder is not that of the start.
    fn change_since_start(&self, path: &Path) -> &'static str {
        match self.at_start.opened(path) {
            Some(_) => "is another folder than at the start",
            None => "could not be opened at the start",
        }
    }

    /// Whether a folder is a root since the start.
    pub fn has_since_start(&self, root: &Root) -> bool {
        self.at_start.all.values().any(|opened| matches!(opened, Opened::Root(other) if other.is_same(root)))
    }

    /// Opens a root again if its path may lead to another folder by now. Errors: the disk does not respond.
    pub async fn renew_if_other(files: &Rc<Files>, path: &Path, now: i64) -> Result<(), Busy> {
        match Roots::may_be_other(files, path, now) {
            true => Roots::renew(files, path).await,
            false => Ok(()),
        }
    }

    /// As `renew_if_other`, also within the time for which a root counts as it was opened: what a client changes would be
    /// lost in a folder that no longer has the name.
    pub async fn renew_for_change(files: &Rc<Files>, path: &Path) -> Result<(), Busy> {
        if files.roots.is_other(path) { Roots::renew(files, path).await } else { Ok(()) }
    }

    /// Opens a root again for a request, which may wait for a disk. Errors: the disk does not respond.
    pub async fn renew(files: &Rc<Files>, path: &Path) -> Result<(), Busy> {
        let disk = &files.services.disk;
        let _admitted = disk.admit(files.roots.device(path))?;
        let reopened = files.roots.all.borrow_mut().get_mut(path.as_os_str()).map(|state| {
            state.reopen(files, path);
            state.reopened.clone()
        });
        let Some(reopened) = reopened else { return Ok(()) };
        disk.wait(reopened.notified()).await?;
        match files.roots.all.borrow().get(path.as_os_str()).and_then(|state| state.busy) {
            Some(busy) => Err(busy),
            None => Ok(()),
        }
    }
}

impl RootState {
    /// Opens the root again, unless that runs already.
    fn reopen(&mut self, files: &Rc<Files>, path: &Path) {
        if self.reopening == Reopening::Idle {
            self.reopening = Reopening::Running;
            spawn_local(reopen(files.clone(), path.to_owned()));
        }
    }
}

async fn reopen(files: Rc<Files>, path: PathBuf) {
    let device = files.roots.device(&path);
    let result = {
        let (path, hidden) = (path.clone(), files.roots.at_start.hidden.clone());
        let before = match files.roots.all.borrow().get(path.as_os_str()).map(|state| &state.opened) {
            Some(Opened::Root(root)) => Some(root.clone()),
            _ => None,
        };
        let open = move || {
            let root = Root::open(&path)?.hiding(&hidden);
            let is_other = before.is_none_or(|before| !before.is_same(&root));
            let is_denied = is_other && is_denied(&root.fd);
            Ok((root, is_denied))
        };
        files.services.disk.run(device, Work::File, open).await
    };
    let now = files.services.clock.read();
    let mut all = files.roots.all.borrow_mut();
    let Some(state) = all.get_mut(path.as_os_str()) else { return };
    (state.opened_at, state.reopening) = (now, Reopening::Idle);
    // Those that wait run when this has ended.
    state.reopened.notify_waiters();
    state.busy = result.as_ref().err().copied();
    // If the disk does not respond, the folder may still be there.
    let Ok(result) = result else { return };
    let is_denied = result.as_ref().is_ok_and(|(_, is_denied)| *is_denied);
    let result: io::Result<Root> = result.map(|(root, _)| root);
    if let Err(error) = &result
        && error.kind() == io::ErrorKind::PermissionDenied
        && files.roots.is_preopened(&path)
    {
        return;
    }
    let opened = Opened::new(result);
    match (&state.opened, &opened) {
        // All workers keep the descriptor that they share.
        (Opened::Root(before), Opened::Root(now)) if before.is_same(now) => return,
        (Opened::Root(_), Opened::Unknown(why)) => {
            return log::error(format_args!("cannot open the root {} again: {why}", privilege::shown(&path)));
        }
        (_, Opened::Root(_)) if is_denied => {
            log::error(format_args!(
                "the root {} {}, and the sandbox denies it; reload, so that the sandbox allows it",
                privilege::shown(&path),
                files.roots.change_since_start(&path)
            ));
        }
        (_, Opened::Failed(why) | Opened::Unknown(why)) => {
            log::error(format_args!("cannot open the root {}: {why}", privilege::shown(&path)));
        }
        _ => {}
    }
    state.opened = opened;
}

/// Whether a folder that everyone may read cannot be read: the sandbox allows the folders of the start.
fn is_denied(folder: &OwnedFd) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = calls::openat(folder, ".", flags);
    let may_all_read = || calls::fstat(folder).is_ok_and(|stat| stat.st_mode & libc::S_IROTH != 0);
    opened.is_err_and(|error| error == Errno::ACCESS) && may_all_read()
}

/// Whether the error is about the path, rather than about this process or the disk.
fn is_about_path(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let is_loop = error.raw_os_error() == Some(libc::ELOOP);
    is_loop || matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}
