//! The folders that files are served from, opened before anything is served and looked up again after a
//! while: releases are often switched by exchanging a link. Looking up is done beside the loop, for a root
//! may be on a disk that does not answer.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::process::geteuid;
use site::model::Site;
use taipan_http::status::Status;

use super::Files;
use super::beneath::Root;
use crate::disk::{Device, Work};
use crate::{log, privilege};

/// How long a root may take to be opened at the start; it is tried again when it is asked for.
const PATIENCE: Duration = Duration::from_secs(3);

/// All roots of a site, as they were at the start.
#[derive(Clone, Default)]
pub struct OpenRoots {
    all: Arc<HashMap<PathBuf, Opened>>,
    /// That of `taipan DIR`, which the master has opened: by its name it may be out of reach.
    given: Option<Root>,
}

/// What came of opening a root.
#[derive(Debug, Clone)]
enum Opened {
    Root(Root),
    Failed(String),
    /// Nobody could look: what is there is not known.
    Unknown(String),
    /// Its disk has not answered.
    Silent,
}

impl OpenRoots {
    /// Opens the roots of all routes, on threads of their own: a disk that does not answer keeps nobody
    /// from serving the others.
    pub fn of(site: &Site) -> OpenRoots {
        OpenRoots::with(site, None)
    }

    /// As `of`; `given` is open already.
    pub fn with(site: &Site, given: Option<Root>) -> OpenRoots {
        let mut left: VecDeque<PathBuf> = site.roots().into_iter().map(Path::to_owned).collect();
        let mut opened = HashMap::new();
        if let Some(root) = &given {
            left.retain(|path| *path != *root.path);
            let entered = root.enter().map(|()| root.clone());
            opened.insert(root.path.to_path_buf(), Opened::of(entered));
        }
        while !left.is_empty() {
            let (tell, told) = channel();
            let paths = left.clone();
            let open = move || {
                for path in paths {
                    // Nobody waits for more once one has taken too long.
                    let root = Root::open(&path).and_then(|root| root.enter().map(|()| root));
                    if tell.send(Opened::of(root)).is_err() {
                        return;
                    }
                }
            };
            // Without a thread, roots are opened when they are asked for.
            let thread = std::thread::Builder::new().name("roots".into()).stack_size(128 * 1024).spawn(open);
            let Ok(thread) = thread else {
                left.drain(..).for_each(|path| _ = opened.insert(path, Opened::Silent));
                break;
            };
            let mut all_answered = true;
            while all_answered && let Some(path) = left.pop_front() {
                let root = told.recv_timeout(PATIENCE).unwrap_or(Opened::Silent);
                all_answered = !matches!(root, Opened::Silent);
                opened.insert(path, root);
            }
            if all_answered {
                // Others may not want to find a second thread.
                _ = thread.join();
            }
        }
        OpenRoots { all: Arc::new(opened), given }
    }

    /// Roots that are not folders, or cannot be reached: an oversight that is told before the first
    /// request meets it.
    pub fn problems(&self) -> Vec<(&Path, String)> {
        let problem = |path: &Path, opened: &Opened| match (opened, &self.given) {
            (Opened::Failed(_) | Opened::Unknown(_), Some(root)) if *root.path == *path => {
                Some(closed(path, "serve it as another user, by --user"))
            }
            (Opened::Failed(why) | Opened::Unknown(why), _) => Some(
                obstacle(path).unwrap_or_else(|| format!("cannot open the root {}: {why}", path.display())),
            ),
            (Opened::Root(_) | Opened::Silent, _) => None,
        };
        let all = self.all.iter().map(|(path, opened)| (path.as_path(), opened));
        let mut problems: Vec<(&Path, String)> =
            all.filter_map(|(path, opened)| Some((path, problem(path, opened)?))).collect();
        problems.sort();
        problems
    }

    /// That is open, and cannot be reached by its name for certain.
    pub fn given(&self) -> Option<BorrowedFd<'_>> {
        self.given.as_ref().map(|root| root.fd.as_fd())
    }

    /// Roots whose disks have not answered.
    pub fn silent(&self) -> impl Iterator<Item = &Path> {
        self.all.iter().filter(|(_, opened)| matches!(opened, Opened::Silent)).map(|(path, _)| path.as_path())
    }
}

impl Opened {
    fn of(root: io::Result<Root>) -> Opened {
        match root {
            Ok(root) => Opened::Root(root),
            Err(error) if is_answer(&error) => Opened::Failed(error.to_string()),
            Err(error) => Opened::Unknown(error.to_string()),
        }
    }
}

/// What is in the way to a root, for the user of this process, in a sentence that says what to do. `None`:
/// nothing is that can be named.
fn obstacle(root: &Path) -> Option<String> {
    let shown = root.display();
    let mut steps: Vec<&Path> = root.ancestors().collect();
    steps.reverse();
    for step in steps {
        let here = step.display();
        let found = match step.metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound && step == root => {
                return Some(format!("the root {shown} does not exist; create it"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Some(format!("the root {shown} does not exist, for there is no {here}; create it"));
            }
            Err(_) => return None,
        };
        if !found.is_dir() && step == root {
            return Some(format!("the root {shown} is not a folder; name the folder that it is in"));
        }
        if !found.is_dir() {
            return Some(format!("the root {shown} does not exist, for {here} is not a folder"));
        }
        if accessat(CWD, step, Access::EXEC_OK, AtFlags::EACCESS) == Err(Errno::ACCESS) {
            let other = "move the site to where the user may go, such as /srv";
            return Some(format!("the root {shown} cannot be reached: {}", closed(step, other)));
        }
    }
    None
}

/// A folder that the user of this process may not enter; `other` is what else can be done about it.
fn closed(folder: &Path, other: &str) -> String {
    let user = privilege::user_text(geteuid().as_raw());
    let here = folder.display();
    let mode =
        folder.metadata().map_or(String::new(), |found| format!(" (mode {:04o})", found.mode() & 0o7777));
    format!("{user} may not enter {here}{mode}; run `chmod o+x {here}`, or {other}")
}

/// The roots of one worker.
pub struct Roots {
    held: RefCell<HashMap<PathBuf, Held>>,
    given: Option<Root>,
    /// Seconds after which a root is looked up again.
    check: i64,
}

struct Held {
    opened: Opened,
    looked: i64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Settled,
    /// It is being looked up; until then it is what it was.
    BeingLookedUp,
}

impl Roots {
    pub fn new(open: &OpenRoots, check: i64, now: i64) -> Roots {
        let held = open.all.iter().map(|(path, opened)| {
            let (opened, state) = (opened.clone(), State::Settled);
            (path.clone(), Held { opened, looked: now, state })
        });
        Roots { held: RefCell::new(held.collect()), given: open.given.clone(), check: check.max(1) }
    }

    /// Is it the one that has been opened by another user, and may be out of reach for this one?
    fn is_given(&self, path: &Path) -> bool {
        self.given.as_ref().is_some_and(|root| *root.path == *path)
    }

    /// Of a root as it was; roots that could not be opened share one that is none.
    fn device(&self, path: &Path) -> Device {
        match self.held.borrow().get(path).map(|held| &held.opened) {
            Some(Opened::Root(root)) => root.device,
            _ => (0, 0),
        }
    }

    /// As it was when it was last looked up. Errors: the status for those who ask for a file in it.
    pub fn get(files: &Rc<Files>, path: &Path, now: i64) -> Result<Root, Status> {
        let roots = &files.roots;
        let mut all = roots.held.borrow_mut();
        let Some(held) = all.get_mut(path) else { return Err(Status::INTERNAL_SERVER_ERROR) };
        let is_due = now - held.looked >= roots.check;
        if is_due && held.state == State::Settled {
            held.state = State::BeingLookedUp;
            tokio::task::spawn_local(look_up(files.clone(), path.to_owned()));
        }
        match &held.opened {
            Opened::Root(root) => Ok(root.clone()),
            Opened::Failed(_) => Err(Status::INTERNAL_SERVER_ERROR),
            Opened::Unknown(_) | Opened::Silent => Err(Status::SERVICE_UNAVAILABLE),
        }
    }
}

async fn look_up(files: Rc<Files>, path: PathBuf) {
    let device = files.roots.device(&path);
    let opened = {
        let path = path.clone();
        files.services.disk.run(device, Work::File, move || Root::open(&path)).await
    };
    let now = files.services.clock.read();
    let mut all = files.roots.held.borrow_mut();
    let Some(held) = all.get_mut(&path) else { return };
    (held.looked, held.state) = (now, State::Settled);
    // A disk that does not answer has not said that its folder is gone.
    let Ok(opened) = opened else { return };
    if let Err(error) = &opened
        && error.kind() == io::ErrorKind::PermissionDenied
        && files.roots.is_given(&path)
    {
        return;
    }
    let opened = Opened::of(opened);
    match (&held.opened, &opened) {
        // One descriptor for all workers, as long as it stays the same.
        (Opened::Root(before), Opened::Root(now)) if before.is(now) => return,
        (Opened::Root(_), Opened::Unknown(why)) => {
            return log::error(format_args!("cannot look up the root {} again: {why}", path.display()));
        }
        (_, Opened::Failed(why) | Opened::Unknown(why)) => {
            log::error(format_args!("cannot open the root {}: {why}", path.display()));
        }
        _ => {}
    }
    held.opened = opened;
}

/// Does the error say what is there now, rather than that nobody could look?
fn is_answer(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let is_loop = error.raw_os_error() == Some(libc::ELOOP);
    is_loop || matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}
