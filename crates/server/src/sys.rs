//! The system calls that no safe crate offers, one per function.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes in a socket's send queue that the peer has not acknowledged (`tcp(7)`, `unix(7)`: SIOCOUTQ).
pub fn unsent(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as it is borrowed, and TIOCOUTQ writes one int.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(bytes.max(0) as u64) }
}

/// Gives pages that the allocator holds but does not use back to the kernel (`malloc_trim(3)`).
#[cfg(target_env = "gnu")]
pub fn trim_heap() {
    // SAFETY: touches nothing but the allocator's own free lists, under its own lock.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub fn trim_heap() {}

/// Has the present runtime tell when `fd` can be read.
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is the same open descriptor for as long as the `AsyncFd` has it.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}
