//! One walk for a script: what stands at each of its steps. As every look, it is made in the loop as long
//! as the kernel answers from memory, and once more on a helper thread when it would have to wait.
//!
//! Knows nothing of requests, and opens nothing for reading: whoever runs a script opens it.

use std::rc::Rc;

use rustix::fs::{self, AtFlags, FileType, OFlags, StatxFlags};
use script::walk::FileKind;
use site::walk::{Step, Verdict, Walk};
use taipan_http::status::Status;

use super::Files;
use super::beneath::{self, OpenError, Root, Wait};
use super::roots::Roots;
use crate::disk::Work;

/// A walk, and the root of each step.
#[derive(Debug, Clone)]
pub struct Query {
    walk: Walk,
    roots: Vec<Root>,
}

/// Where `walk` ends. Errors: the status to answer with.
pub async fn find(files: &Rc<Files>, walk: &Walk, now: i64) -> Result<Verdict, Status> {
    let path = walk.path.as_str();
    let query = Query::new(files, walk, now)?;
    let found = match query.look(Wait::Never) {
        Err(OpenError::Local(errno)) => return Err(files.trouble(path, errno)),
        Err(_) if files.services.sheds_cold() => return Err(Status::SERVICE_UNAVAILABLE),
        Err(_) => {
            let device = query.roots.first().map_or((0, 0), |root| root.device);
            let look = files.services.disk.run(device, Work::File, move || query.look(Wait::Allowed));
            match files.services.disk.admit(device) {
                Ok(_admitted) => files.services.disk.wait(look).await.and_then(|looked| looked),
                Err(busy) => Err(busy),
            }
        }
        Ok(verdict) => return Ok(verdict),
    };
    match found {
        Ok(Ok(verdict)) => Ok(verdict),
        Ok(Err(OpenError::Local(errno))) => Err(files.trouble(path, errno)),
        Ok(Err(_)) => Err(Status::INTERNAL_SERVER_ERROR),
        Err(busy) => Err(files.busy(path, busy)),
    }
}

impl Query {
    /// Errors: the status where a root is not to be had.
    pub fn new(files: &Rc<Files>, walk: &Walk, now: i64) -> Result<Query, Status> {
        let roots = walk.steps.iter().map(|step| Roots::get(files, &step.root, now));
        Ok(Query { walk: walk.clone(), roots: roots.collect::<Result<_, _>>()? })
    }

    pub fn look(&self, wait: Wait) -> Result<Verdict, OpenError> {
        let root = |step: &Step| {
            let at = self.walk.steps.iter().position(|other| other.root == step.root);
            at.and_then(|at| self.roots.get(at))
        };
        self.walk.verdict(|step| match root(step).map(|root| stands(root, step, wait)) {
            None | Some(Err(OpenError::Missing)) => Ok(FileKind::Missing),
            Some(Err(OpenError::Denied)) => Ok(FileKind::Other),
            Some(result) => result,
        })
    }
}

fn stands(root: &Root, step: &Step, wait: Wait) -> Result<FileKind, OpenError> {
    let fd = beneath::open(root, &step.below, step.symlinks, OFlags::PATH, wait)?;
    let sync = if wait == Wait::Never { AtFlags::STATX_DONT_SYNC } else { AtFlags::empty() };
    let seen = fs::statx(&fd, "", AtFlags::EMPTY_PATH | sync, StatxFlags::TYPE | StatxFlags::MODE)?;
    let mode = u32::from(seen.stx_mode);
    Ok(match FileType::from_raw_mode(mode) {
        FileType::RegularFile if mode & step.permission_bits() != 0 => FileKind::Script,
        FileType::RegularFile => FileKind::NotExecutable,
        FileType::Directory => FileKind::Folder,
        _ => FileKind::Other,
    })
}
