//! One walk for a script: what stands at each of its steps. As every look, it is made in the loop as long
//! as the kernel answers from memory, and once more on a helper thread when it would have to wait.
//!
//! Knows nothing of requests, and opens nothing for reading: whoever runs a script opens it.

use std::rc::Rc;

use http::status::Status;
use rustix::fs::{self, AtFlags, FileType, OFlags, StatxFlags};
use script::walk::Stands;
use site::walk::{Step, Verdict, Walk};

use super::beneath::{self, OpenError, Root, Wait};
use super::roots::Roots;
use super::{Fetch, Fetched};
use crate::disk::{Admitted, Device, Work};
use crate::worker::Worker;

/// What a walk gives.
pub enum Lookup {
    Ended(Verdict),
    /// The disk has to be asked, and may wait.
    Fetch(Fetch),
    Failed(Status),
}

/// A walk that may wait for a disk.
pub struct Walking {
    worker: Rc<Worker>,
    host: usize,
    query: Query,
    device: Device,
    _admitted: Admitted,
}

/// A walk, and the root of each step.
#[derive(Debug, Clone)]
pub struct Query {
    walk: Walk,
    roots: Vec<Root>,
}

/// Where `walk`, in `host`, ends. `fetched` is what came of earlier look-ups for the same request.
pub fn find(worker: &Rc<Worker>, host: usize, walk: &Walk, fetched: &[Fetched], now: i64) -> Lookup {
    if let Some(ended) = fetched.iter().find_map(|fetched| fetched.walk(host, &walk.path)) {
        return match ended {
            Ok(verdict) => Lookup::Ended(verdict),
            Err(status) => Lookup::Failed(status),
        };
    }
    let query = match Query::new(worker, walk, now) {
        Ok(query) => query,
        Err(status) => return Lookup::Failed(status),
    };
    match query.look(Wait::Never) {
        Ok(verdict) => Lookup::Ended(verdict),
        Err(OpenError::Local(errno)) => Lookup::Failed(worker.files.trouble(walk.path.as_str(), errno)),
        Err(_) if worker.sheds_cold() => Lookup::Failed(Status::SERVICE_UNAVAILABLE),
        Err(_) => {
            let device = query.roots.first().map_or((0, 0), |root| root.device);
            match worker.disk.admit(device) {
                Ok(_admitted) => {
                    let worker = worker.clone();
                    Lookup::Fetch(Fetch::Walk(Walking { worker, host, query, device, _admitted }))
                }
                Err(busy) => Lookup::Failed(worker.files.busy(worker, walk.path.as_str(), busy)),
            }
        }
    }
}

impl Walking {
    pub(super) async fn wait(self) -> Fetched {
        let Walking { worker, host, query, device, _admitted } = self;
        let path = query.walk.path.clone();
        let looked = worker.disk.run(device, Work::File, move || query.look(Wait::Allowed)).await;
        let result = match looked {
            Ok(Ok(verdict)) => Ok(verdict),
            Ok(Err(OpenError::Local(errno))) => Err(worker.files.trouble(path.as_str(), errno)),
            Ok(Err(_)) => Err(Status::INTERNAL_SERVER_ERROR),
            Err(busy) => Err(worker.files.busy(&worker, path.as_str(), busy)),
        };
        Fetched::Walk { host, path, result }
    }
}

impl Query {
    /// Errors: the status where a root is not to be had.
    pub fn new(worker: &Rc<Worker>, walk: &Walk, now: i64) -> Result<Query, Status> {
        let roots = walk.steps.iter().map(|step| Roots::get(worker, &step.root, now));
        Ok(Query { walk: walk.clone(), roots: roots.collect::<Result<_, _>>()? })
    }

    pub fn look(&self, wait: Wait) -> Result<Verdict, OpenError> {
        let root = |step: &Step| {
            let at = self.walk.steps.iter().position(|other| other.root == step.root);
            at.and_then(|at| self.roots.get(at))
        };
        self.walk.end(|step| match root(step).map(|root| stands(root, step, wait)) {
            None | Some(Err(OpenError::Missing)) => Ok(Stands::Nothing),
            Some(Err(OpenError::Denied)) => Ok(Stands::Other),
            Some(result) => result,
        })
    }
}

fn stands(root: &Root, step: &Step, wait: Wait) -> Result<Stands, OpenError> {
    let fd = beneath::open(root, &step.below, step.symlinks, OFlags::PATH, wait)?;
    let sync = if wait == Wait::Never { AtFlags::STATX_DONT_SYNC } else { AtFlags::empty() };
    let seen = fs::statx(&fd, "", AtFlags::EMPTY_PATH | sync, StatxFlags::TYPE | StatxFlags::MODE)?;
    let mode = u32::from(seen.stx_mode);
    Ok(match FileType::from_raw_mode(mode) {
        FileType::RegularFile if mode & step.mode() != 0 => Stands::Script,
        FileType::RegularFile => Stands::Locked,
        FileType::Directory => Stands::Folder,
        _ => Stands::Other,
    })
}
