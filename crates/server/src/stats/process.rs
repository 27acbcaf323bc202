//! What a process uses of the machine: memory and descriptors. Its files in /proc are opened before the sandbox forbids
//! it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::fstat;
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};

/// Bytes of /proc/self/statm: seven numbers.
const STATM: usize = 7 * 21;

/// The files of this process in /proc.
pub struct ProcessFiles {
    statm: File,
    /// The folder of descriptors.
    descriptors: File,
    max_descriptors: Option<u64>,
}

/// What the process uses now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in memory, with those that other processes share (proc(5), statm).
    pub memory: u64,
    /// Open descriptors. `None`: the kernel does not count them (before Linux 6.2).
    pub descriptors: Option<u64>,
    /// `None`: there is no limit.
    pub max_descriptors: Option<u64>,
}

impl ProcessFiles {
    /// `None`: there is no /proc.
    pub fn open() -> Option<ProcessFiles> {
        let (statm, descriptors) = (File::open("/proc/self/statm"), File::open("/proc/self/fd"));
        let max_descriptors = getrlimit(Resource::Nofile).current;
        Some(ProcessFiles { statm: statm.ok()?, descriptors: descriptors.ok()?, max_descriptors })
    }

    pub fn usage(&self) -> Option<Usage> {
        let mut buffer = [0; STATM];
        let length = self.statm.read_at(&mut buffer, 0).ok()?;
        let text = std::str::from_utf8(&buffer[..length]).ok()?;
        let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
        let descriptors = fstat(&self.descriptors).ok().and_then(|stat| u64::try_from(stat.st_size).ok());
        Some(Usage {
            memory: pages.saturating_mul(page_size() as u64),
            descriptors: descriptors.filter(|count| *count > 0),
            max_descriptors: self.max_descriptors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_descriptors_in_use_are_counted() {
        const HELD: usize = 32 << 20;
        let files = ProcessFiles::open().expect("there is /proc");
        let held = (File::open("/dev/null"), vec![1u8; HELD]);
        let usage = files.usage().expect("it is readable");
        assert!(usage.memory >= HELD as u64, "{usage:?}");
        // Those of `files`, and one more.
        assert!(usage.descriptors.is_none_or(|count| count >= 3), "{usage:?}");
        assert!(usage.max_descriptors.is_none_or(|most| usage.descriptors.is_none_or(|now| now <= most)));
        drop(held);
    }
}
