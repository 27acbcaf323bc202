//! Publishing: what changes the files of a site at the request of clients. Everything that may wait for a disk is a
//! function for a helper thread.
//!
//! A file is written beside its place, in a folder of the server's own in the root (`site::publishing::STATE_FOLDER`),
//! and takes its name when it is whole. The same folder has the locks, the dead properties, and the uploads that can be
//! resumed. A lock on a file there orders the changes of all workers and processes.
//!
//! Knows nothing of requests. Paths are ones beneath the root, without a slash at their ends.

pub mod changes;
pub mod failure;
pub mod new_file;
pub mod permits;
pub mod receiving;
pub mod removal;
pub mod store;
pub mod tree;
pub mod uploads;
pub mod usage;

use site::model::{Action, Site};

use crate::files::roots::OpenRoots;
use crate::log;
use crate::process::privilege;
use failure::Failure;
use store::Store;

/// Removes what a crash has left behind, on a thread of its own: a disk may not respond.
pub fn clean_up(site: &Site, roots: &OpenRoots) {
    let mut stores: Vec<Store> = Vec::new();
    for route in site.hosts.iter().flat_map(|host| host.routes.iter()).filter(|route| route.publishes()) {
        if let Action::Files { root, .. } = &route.action
            && let Some(root) = roots.opened(root)
            && !stores.iter().any(|store| store.root.is_same(&root))
        {
            stores.push(Store { root, settings: route.publishing.clone() });
        }
    }
    let clean = move || {
        for store in stores {
            let root = privilege::shown(&store.root.path);
            let cleaned = removal::clean(&store);
            match cleaned.and(uploads::sweep(&store, crate::clock::wall())) {
                Ok(_) => {}
                Err(Failure::Permission(errno)) => log::error(format_args!(
                    "clients cannot publish in {root}: {errno}; give {} the right to write there",
                    privilege::user_text(rustix::process::geteuid().as_raw())
                )),
                Err(failure) => log::warn(format_args!("cannot clean up in {root}: {failure}")),
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("publishing".into()).spawn(clean) {
        log::warn(format_args!("cannot remove what a crash may have left in published folders: {error}"));
    }
}

#[cfg(test)]
mod tests;
