//! System calls. The modules here have those that no safe crate offers, one per function. `calls` has those that can
//! fail while requests are served: tests replace them by failing ones.
#![allow(unsafe_code)]

pub mod direct;
#[cfg(test)]
pub mod faulty;
mod memory;
mod process;
mod readiness;
mod shared_numbers;
mod socket;

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;

use rustix::fs::FileType;
use rustix::io::{Errno, retry_on_intr};
use rustix::rand::{GetRandomFlags, getrandom};

#[cfg(not(test))]
pub use direct as calls;
#[cfg(test)]
pub use faulty as calls;
pub use memory::{
    RELEASE_AFTER, keep_heap, release_if_due, release_start, release_when_parked, trim_heap, unmap_program,
};
pub use process::{
    Fork, Strings, adopt, clone_until_exec, end_of_child, execute, fork, is_ignored, keep_from_programs,
    load_filter, make_kill_timer, note_first_threads, reset_signal, signal_group, start_timer,
    survive_file_size_limit, threads,
};
pub use readiness::{OwnsFd, poll_read, poll_receive, readable, watch};
pub use shared_numbers::SharedNumbers;
#[cfg(feature = "tls")]
pub use socket::send_tls_record;
pub use socket::{defer_accept, limit_unsent, unsent};

/// The status of a file (stat(2)). Times are seconds since 1970, and nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct FileStatus {
    pub mode: u32,
    /// The major and the minor number.
    pub device: (u32, u32),
    pub inode: u64,
    /// 0: it has been deleted.
    pub links: u32,
    pub size: u64,
    pub accessed: (i64, u32),
    pub modified: (i64, u32),
    /// When the inode changed.
    pub changed: (i64, u32),
}

impl FileStatus {
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }
}

/// Whether a write has failed because the disk is full, or the quota of the user is.
pub fn is_disk_full(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}

/// Writes all of `bytes` at `at`. Errors: a part may have been written.
pub fn write_all_at(file: impl AsFd, mut bytes: &[u8], mut at: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match retry_on_intr(|| calls::pwrite(&file, bytes, at))? {
            0 => return Err(Errno::NOSPC),
            n => (bytes, at) = (&bytes[n..], at + n as u64),
        }
    }
    Ok(())
}

/// Fills `bytes` with random ones, and does not wait: shortly after the start of a machine that has few sources of
/// randomness, the kernel may have only weak ones. Errors: there are none.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    for flags in [GetRandomFlags::NONBLOCK, GetRandomFlags::INSECURE] {
        // The kernel fills up to 256 bytes at once.
        if retry_on_intr(|| getrandom(&mut *bytes, flags)) == Ok(bytes.len()) {
            return Ok(());
        }
    }
    // Linux before 3.17 has no such call, and before 5.6 none that does not wait.
    io::Read::read_exact(&mut File::open("/dev/urandom")?, bytes)
}

/// A key of this process. If the kernel gives no random bytes, as an old one in a chroot without /dev/urandom, it is made
/// of those by which tables are seeded.
pub fn random_key() -> [u8; 32] {
    let mut key = [0; 32];
    if random(&mut key).is_err() {
        let state = RandomState::new();
        for (part, number) in key.chunks_mut(size_of::<u64>()).zip(0..) {
            part.copy_from_slice(&state.hash_one::<u64>(number).to_ne_bytes());
        }
    }
    key
}
