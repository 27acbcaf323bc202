//! Files without a name, for request bodies that are read to their end before a script starts. Knows nothing of
//! requests and scripts.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, open, openat, unlinkat};
use rustix::io::Errno;

use crate::clock;

/// How many names are tried on a file system that cannot make files without a name.
const ATTEMPTS: u64 = 8;

/// Makes an empty file, which the kernel removes when it is closed. Errors: of `open`.
pub fn open_unnamed(folder: &Path) -> io::Result<OwnedFd> {
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    match open(folder, flags | OFlags::TMPFILE, mode) {
        // Not every file system has O_TMPFILE (open(2)). A kernel without it fails as for writing to a folder.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        opened => return Ok(opened?),
    }
    for attempt in 0..ATTEMPTS {
        let number = clock::micros().wrapping_mul(ATTEMPTS).wrapping_add(attempt);
        let path = folder.join(OsString::from(format!("taipan-{}-{number:x}", std::process::id())));
        match openat(CWD, &path, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
            Ok(file) => {
                unlinkat(CWD, &path, AtFlags::empty())?;
                return Ok(file);
            }
        }
    }
    Err(Errno::EXIST.into())
}
