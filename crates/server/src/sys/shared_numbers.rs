//! Memory that processes share.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;

use super::random;

/// Folders whose files are usually in memory, in the order of preference.
const IN_MEMORY: [&str; 4] = ["/dev/shm", "/run", "/tmp", "/var/tmp"];

/// Numbers in a file in memory, which other processes may map, too (mmap(2): MAP_SHARED).
pub struct SharedNumbers {
    start: ptr::NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: atomics may be used from all threads, and the mapping belongs to no thread.
unsafe impl Send for SharedNumbers {}
// SAFETY: as above.
unsafe impl Sync for SharedNumbers {}

impl SharedNumbers {
    /// `count` zeros in a file in memory, and its descriptor, by which another process can map them. `name` is for
    /// `/proc`.
    pub fn create(name: &str, count: usize) -> io::Result<(SharedNumbers, OwnedFd)> {
        let bytes = (count * size_of::<u64>()) as u64;
        let fd = match memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING) {
            Ok(fd) => {
                ftruncate(&fd, bytes)?;
                fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
                fd
            }
            Err(Errno::NOSYS) => SharedNumbers::unsealed(bytes)?,
            Err(errno) => return Err(errno.into()),
        };
        Ok((SharedNumbers::map(fd.as_fd(), count)?, fd))
    }

    /// For Linux before 3.17: a file without a name. A later program does not adopt it.
    fn unsealed(bytes: u64) -> io::Result<OwnedFd> {
        let mut number = [0; 8];
        random(&mut number)?;
        let name = format!("taipan-{:016x}", u64::from_ne_bytes(number));
        let make = |folder: &&str| {
            let path = Path::new(folder).join(&name);
            let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            std::fs::remove_file(&path)?;
            file.set_len(bytes)?;
            Ok(file.into())
        };
        IN_MEMORY.iter().map(make).find(io::Result::is_ok).unwrap_or(Err(io::ErrorKind::NotFound.into()))
    }

    /// The numbers that another process has created. Errors: the file has more than `max` bytes, or could be cut while
    /// it is in use.
    pub fn adopt(fd: BorrowedFd<'_>, max: u64) -> io::Result<SharedNumbers> {
        let size = u64::try_from(fstat(fd)?.st_size).ok().filter(|size| *size <= max);
        match size {
            Some(size) if fcntl_get_seals(fd)?.contains(SealFlags::SHRINK) => {
                SharedNumbers::map(fd, size as usize / size_of::<u64>())
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The first `count` numbers of a file, which must be that long, and sealed against shrinking: access behind its
    /// end is a fatal signal.
    fn map(fd: BorrowedFd<'_>, count: usize) -> io::Result<SharedNumbers> {
        let bytes = count.checked_mul(size_of::<AtomicU64>()).ok_or(io::ErrorKind::InvalidInput)?;
        let (how, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the kernel chooses the address, so that no other memory changes.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, how, flags, fd.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = ptr::NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedNumbers { start, count })
    }

    pub fn get(&self) -> &[AtomicU64] {
        // SAFETY: so many are mapped until this is dropped; a page begins at a multiple of their alignment, any bits
        // are a number, and all processes access them as atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    /// They stay mapped for as long as the process lives.
    pub fn leak(self) -> &'static [AtomicU64] {
        let numbers = std::mem::ManuallyDrop::new(self);
        // SAFETY: as in `get`, and nothing unmaps them.
        unsafe { std::slice::from_raw_parts(numbers.start.as_ptr(), numbers.count) }
    }
}

impl Drop for SharedNumbers {
    fn drop(&mut self) {
        // SAFETY: this mapping, and all borrows of it have ended. It fails for no mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.count * size_of::<AtomicU64>()) };
    }
}
