//! The folders that files are served from, opened once and looked up again after a while: releases are
//! often switched by exchanging a link. Looking up is done beside the loop, for a root may be on a disk
//! that does not answer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use site::model::{Action, Site};

use super::beneath::Root;
use crate::disk::Device;
use crate::log;
use crate::worker::Worker;

pub struct Roots {
    held: RefCell<HashMap<PathBuf, Held>>,
    /// Seconds after which a root is looked up again.
    check: i64,
}

struct Held {
    /// `None`: it could not be opened.
    root: Option<Root>,
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
    /// Opens the roots of all routes, however long that takes: nobody is being served yet.
    pub fn open(site: &Site, check: i64, now: i64) -> Roots {
        let mut held = HashMap::new();
        for route in site.hosts.iter().flat_map(|host| host.routes.iter()) {
            if let Action::Files { root, .. } = &route.action {
                held.entry(root.clone()).or_insert_with(|| Held::of(root, Root::open(root), now));
            }
        }
        Roots { held: RefCell::new(held), check: check.max(1) }
    }

    /// Of a root as it was; roots that could not be opened share one that is none.
    fn device(&self, path: &Path) -> Device {
        let held = self.held.borrow();
        held.get(path).and_then(|held| held.root.as_ref()).map_or((0, 0), |root| root.device)
    }

    /// `None`: it could not be opened when that was last tried.
    pub fn get(worker: &Rc<Worker>, path: &Path, now: i64) -> Option<Root> {
        let roots = &worker.files.roots;
        let mut all = roots.held.borrow_mut();
        let held = all.get_mut(path)?;
        let is_due = now - held.looked >= roots.check;
        if is_due && held.state == State::Settled {
            held.state = State::BeingLookedUp;
            tokio::task::spawn_local(look_up(worker.clone(), path.to_owned()));
        }
        held.root.clone()
    }
}

impl Held {
    fn of(path: &Path, opened: io::Result<Root>, now: i64) -> Held {
        if let Err(error) = &opened {
            log::error(format_args!("cannot open the root {}: {error}", path.display()));
        }
        Held { root: opened.ok(), looked: now, state: State::Settled }
    }
}

async fn look_up(worker: Rc<Worker>, path: PathBuf) {
    let device = worker.files.roots.device(&path);
    let opened = {
        let path = path.clone();
        worker.disk.run(device, move || Root::open(&path)).await
    };
    let now = worker.clock.read();
    let mut all = worker.files.roots.held.borrow_mut();
    match (opened, all.get_mut(&path)) {
        (Ok(opened), Some(held)) => *held = Held::of(&path, opened, now),
        // A disk that does not answer has not said that its folder is gone.
        (Err(_), Some(held)) => (held.looked, held.state) = (now, State::Settled),
        (_, None) => {}
    }
}
