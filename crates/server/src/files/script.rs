//! Finds the script of a path: inspects each step of a walk. As a lookup, it runs in the worker's loop if the kernel
//! can respond from memory, and else on a helper thread.
//!
//! Knows nothing of requests and opens nothing for reading.

use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, OFlags};
use script::walk::FileKind;
use site::walk::{Step, StepRoot, Verdict, Walk};
use taipan_http::status::Status;

use super::Files;
use super::beneath::{self, OpenError, Root, Wait};
use super::open::sync_flag;
use super::roots::Roots;
use crate::disk::Work;
use crate::sys::calls;

/// A walk, with the root of each step.
#[derive(Debug, Clone)]
pub struct Query {
    walk: Walk,
    roots: Vec<Root>,
}

/// `of_host`: the folder of the host's name. Errors: the status of the response.
pub async fn find(
    files: &Rc<Files>,
    walk: &Walk,
    of_host: Option<&Root>,
    now: i64,
) -> Result<Verdict, Status> {
    let path = walk.path.as_str();
    for step in &walk.steps {
        if let StepRoot::Path(root) = &step.root {
            let renewed = Roots::renew_if_other(files, root, now).await;
            renewed.map_err(|busy| files.report_busy(path, busy))?;
        }
    }
    let query = Query::new(files, walk, of_host, now)?;
    let result = match query.verdict(Wait::Never) {
        Err(OpenError::WouldWait) if files.services.sheds_cold() => return Err(Status::SERVICE_UNAVAILABLE),
        Err(OpenError::WouldWait) => {
            let disk = &files.services.disk;
            let device = query.roots.first().map_or((0, 0), |root| root.device);
            let result = disk.run_for_request(device, Work::File, move || query.verdict(Wait::Allowed)).await;
            result.map_err(|busy| files.report_busy(path, busy))?
        }
        result => result,
    };
    result.map_err(|error| match error {
        OpenError::Local(errno) => files.report_errno(path, errno),
        _ => Status::INTERNAL_SERVER_ERROR,
    })
}

impl Query {
    /// Errors: the status of the response if a root is not open.
    pub fn new(files: &Rc<Files>, walk: &Walk, of_host: Option<&Root>, now: i64) -> Result<Query, Status> {
        let roots = walk.steps.iter().map(|step| match &step.root {
            StepRoot::Path(path) => Roots::get(files, path, now),
            StepRoot::OfHost => of_host.cloned().ok_or(Status::SERVICE_UNAVAILABLE),
        });
        Ok(Query { walk: walk.clone(), roots: roots.collect::<Result<_, _>>()? })
    }

    pub fn verdict(&self, wait: Wait) -> Result<Verdict, OpenError> {
        let root = |step: &Step| {
            let at = self.walk.steps.iter().position(|other| other.root == step.root);
            at.and_then(|at| self.roots.get(at))
        };
        self.walk.verdict(|step| match root(step).map(|root| inspect(root, step, wait)) {
            None | Some(Err(OpenError::Missing)) => Ok(FileKind::Missing),
            Some(Err(OpenError::Denied)) => Ok(FileKind::Other),
            Some(result) => result,
        })
    }
}

fn inspect(root: &Root, step: &Step, wait: Wait) -> Result<FileKind, OpenError> {
    let fd = beneath::open(root, &step.below, step.symlinks, OFlags::PATH, wait)?;
    let flags = AtFlags::EMPTY_PATH | sync_flag(wait);
    let mode = calls::statx(&fd, "", flags)?.mode;
    Ok(match FileType::from_raw_mode(mode) {
        FileType::RegularFile if mode & step.permission_bits() != 0 => FileKind::Script,
        FileType::RegularFile => FileKind::NotExecutable,
        FileType::Directory => FileKind::Folder,
        _ => FileKind::Other,
    })
}
