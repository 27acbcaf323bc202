//! Which bytes of files were found in memory in this second. Without the cache, a file is opened for each request, and
//! need not be tested for each.
//!
//! Knows nothing of paths. A file that takes the inode of a removed one within the second is taken for it; then at most
//! one call waits for the disk.

use std::cell::Cell;

use super::Device;

/// Files that are known at a time. Another file with the same slot replaces one.
const SLOTS: usize = 64;

/// The range of bytes that was found in memory in this second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InMemory {
    /// Seconds since 1970. 0: nothing was found.
    pub second: i64,
    pub from: u64,
    pub to: u64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    device: Device,
    inode: u64,
    range: InMemory,
}

/// The ranges of the files that were last sent.
pub struct Resident(Box<[Cell<Slot>; SLOTS]>);

impl Default for Resident {
    fn default() -> Resident {
        Resident(Box::new(std::array::from_fn(|_| Cell::default())))
    }
}

impl Resident {
    /// What was last noted of a file.
    pub fn get(&self, device: Device, inode: u64) -> InMemory {
        let slot = self.slot(device, inode).get();
        if (slot.device, slot.inode) == (device, inode) { slot.range } else { InMemory::default() }
    }

    pub fn set(&self, device: Device, inode: u64, range: InMemory) {
        self.slot(device, inode).set(Slot { device, inode, range });
    }

    fn slot(&self, device: Device, inode: u64) -> &Cell<Slot> {
        let minor = u64::from(device.1);
        // Inodes are often successive, so their last bits differ.
        &self.0[(inode ^ minor) as usize % SLOTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_files_that_were_last_sent() {
        let resident = Resident::default();
        let range = |from| InMemory { second: 1, from, to: 9 };
        for inode in 0..2 * SLOTS as u64 {
            resident.set((8, 1), inode, range(inode));
        }
        let last = 2 * SLOTS as u64 - 1;
        assert_eq!(resident.get((8, 1), last), range(last));
        assert_eq!(resident.get((8, 1), last - SLOTS as u64), InMemory::default(), "replaced");
        assert_eq!(resident.get((9, 1), last), InMemory::default(), "the inode of another device");
    }
}
