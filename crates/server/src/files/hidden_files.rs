//! The files that are never served, as they are now: the master replaces the set when a name leads to another file. All
//! workers of a generation read it.

use std::sync::{Arc, PoisonError, RwLock};

use site::named_files::FileIds;

use crate::disk::Device;

#[derive(Debug, Clone, Default)]
pub struct HiddenFiles(Arc<RwLock<FileIds>>);

impl HiddenFiles {
    pub fn new(files: FileIds) -> HiddenFiles {
        HiddenFiles(Arc::new(RwLock::new(files)))
    }

    pub fn has(&self, device: Device, inode: u64) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).has(device, inode)
    }

    /// From now on, these are hidden, in every worker.
    pub fn replace(&self, files: FileIds) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = files;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_hides_the_files_of_the_last_set() {
        let hidden = HiddenFiles::new(vec![(8, 1, 5), (8, 1, 4)].into());
        let copy = hidden.clone();
        hidden.replace(vec![(8, 1, 6), (8, 1, 4)].into());
        let of_copy = [4, 5, 6].map(|inode| copy.has((8, 1), inode));
        assert_eq!(of_copy, [true, false, true]);
    }
}
