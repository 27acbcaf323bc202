//! The body of a request that is spooled in a file without a name, and the room that such files take. All workers
//! of the process count in one place, for they share one disk: it is looked at for each piece that is written.
//!
//! Knows nothing of who writes the file, and where it is.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// A body that has come to its end.
pub struct SpooledBody {
    pub file: File,
    pub length: u64,
    pub room: SpoolSpace,
}

/// Bytes of the process's files, given back when dropped.
#[derive(Debug)]
pub struct SpoolSpace {
    bytes: u64,
    of: &'static AtomicU64,
}

/// Why a body has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSpace {
    /// It would be too long if it were the only one.
    TooLong,
    /// Others have it.
    Taken,
}

/// Bytes of all files of the process.
static TAKEN: AtomicU64 = AtomicU64::new(0);

impl SpooledBody {
    pub fn new(file: OwnedFd, room: SpoolSpace) -> SpooledBody {
        SpooledBody { file: file.into(), length: room.bytes, room }
    }
}

impl SpoolSpace {
    /// Of a file that has nothing in it.
    pub fn none() -> SpoolSpace {
        SpoolSpace { bytes: 0, of: &TAKEN }
    }

    /// So many bytes more, of `limit` that all files may have.
    pub fn grow(&mut self, bytes: u64, limit: u64) -> Result<(), NoSpace> {
        if self.bytes.saturating_add(bytes) > limit {
            return Err(NoSpace::TooLong);
        }
        let fits = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= limit);
        self.of.try_update(Ordering::Relaxed, Ordering::Relaxed, fits).map_err(|_| NoSpace::Taken)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for SpoolSpace {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_over_all_and_given_back() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let none = || SpoolSpace { bytes: 0, of: &OWN };
        let (mut one, mut other) = (none(), none());
        assert_eq!(one.grow(6, 10), Ok(()));
        assert_eq!(other.grow(4, 10), Ok(()));
        assert_eq!(other.grow(1, 10), Err(NoSpace::Taken));
        assert_eq!(other.grow(7, 10), Err(NoSpace::TooLong));
        assert_eq!(one.grow(u64::MAX, 10), Err(NoSpace::TooLong));
        drop(one);
        assert_eq!(other.grow(6, 10), Ok(()));
        drop(other);
        assert_eq!(none().grow(u64::MAX, u64::MAX), Ok(()));
        assert_eq!(OWN.load(Ordering::Relaxed), 0);
    }
}
