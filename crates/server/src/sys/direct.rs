//! The system calls that can fail while requests are served, one per function. The server makes them only through this
//! module, which tests replace by `faulty`.
//!
//! Knows nothing of the callers, and retries nothing but `poll_read`.

use std::io::{self, IoSliceMut, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fs::{
    AtFlags, Dir, DirEntry, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Statx, StatxFlags,
};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, SocketFlags};
use rustix::path::Arg;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub use super::poll_read;

use super::{FileStatus, OwnsFd};

#[inline]
pub fn accept(listener: impl AsFd, flags: SocketFlags) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
    rustix::net::acceptfrom_with(listener, flags)
}

#[inline]
pub fn recv(fd: impl AsFd, buffer: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
    rustix::net::recv(fd, buffer, flags).map(|(_, n)| n)
}

#[inline]
pub fn send(fd: impl AsFd, bytes: &[u8], flags: SendFlags) -> Result<usize, Errno> {
    rustix::net::send(fd, bytes, flags)
}

#[inline]
pub fn sendfile(to: impl AsFd, from: impl AsFd, at: &mut u64, count: usize) -> Result<usize, Errno> {
    rustix::fs::sendfile(to, from, Some(at), count)
}

/// Registers a socket with the runtime.
#[inline]
pub fn watch<S: OwnsFd>(socket: S) -> io::Result<AsyncFd<S>> {
    super::watch(socket, Interest::READABLE | Interest::WRITABLE)
}

#[inline]
pub fn epoll_add(epoll: impl AsFd, fd: impl AsFd, data: EventData, what: EventFlags) -> Result<(), Errno> {
    epoll::add(epoll, fd, data, what)
}

/// Appends to `events`, within their capacity.
#[inline]
pub fn epoll_wait(epoll: impl AsFd, events: &mut Vec<Event>, timeout: &Timespec) -> Result<usize, Errno> {
    epoll::wait(epoll, rustix::buffer::spare_capacity(events), Some(timeout))
}

#[inline]
pub fn open(path: impl Arg, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, flags, Mode::empty())
}

#[inline]
pub fn openat(folder: impl AsFd, path: impl Arg, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(folder, path, flags, Mode::empty())
}

#[inline]
pub fn openat2(
    folder: impl AsFd,
    path: impl Arg,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve)
}

/// Makes a file that only this user may read, for reading and writing. Errors: `EXIST`, even for a link.
#[inline]
pub fn create(folder: impl AsFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)
}

/// Makes a folder that only this user may enter.
#[inline]
pub fn make_folder(folder: impl AsFd, name: impl Arg) -> Result<(), Errno> {
    rustix::fs::mkdirat(folder, name, Mode::RWXU)
}

/// Gives a file of the folder another name there. A file of that name is replaced.
#[inline]
pub fn rename(folder: impl AsFd, from: impl Arg, to: impl Arg) -> Result<(), Errno> {
    rustix::fs::renameat(&folder, from, &folder, to)
}

#[inline]
pub fn unlink(folder: impl AsFd, name: impl Arg) -> Result<(), Errno> {
    rustix::fs::unlinkat(folder, name, AtFlags::empty())
}

/// As `create`, with these flags and this mode.
#[inline]
pub fn create_with(folder: impl AsFd, name: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(folder, name, flags, mode)
}

/// As `make_folder`, with this mode.
#[inline]
pub fn make_folder_with(folder: impl AsFd, name: impl Arg, mode: Mode) -> Result<(), Errno> {
    rustix::fs::mkdirat(folder, name, mode)
}

/// Gives what is at a name another name, perhaps in another folder. Where RENAME_NOREPLACE is unknown, to Linux before
/// 3.15 and to some file systems such as NFS, the new name is looked up first, which another process can outrun.
pub fn rename_between(
    from: impl AsFd,
    name: impl Arg + Copy,
    to: impl AsFd,
    new: impl Arg + Copy,
    flags: RenameFlags,
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(&from, name, &to, new, flags) {
        Err(Errno::NOSYS | Errno::INVAL) if flags == RenameFlags::NOREPLACE => {
            match statx(&to, new, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => rustix::fs::renameat(&from, name, &to, new),
                Err(errno) => Err(errno),
            }
        }
        Err(Errno::NOSYS) if flags.is_empty() => rustix::fs::renameat(&from, name, &to, new),
        result => result,
    }
}

#[inline]
pub fn remove_folder(folder: impl AsFd, name: impl Arg) -> Result<(), Errno> {
    rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)
}

/// Waits until the disk has what was written to a file or a folder.
#[inline]
pub fn sync(fd: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fsync(fd)
}

#[inline]
pub fn lock_file(fd: impl AsFd, operation: FlockOperation) -> Result<(), Errno> {
    rustix::fs::flock(fd, operation)
}

#[inline]
pub fn pwrite(fd: impl AsFd, bytes: &[u8], at: u64) -> Result<usize, Errno> {
    rustix::io::pwrite(fd, bytes, at)
}

/// The bytes of the file system of an open file that this user may still fill.
#[inline]
pub fn free_space(fd: impl AsFd) -> Result<u64, Errno> {
    let found = rustix::fs::fstatvfs(fd)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Duplicates the descriptor of an open file.
#[inline]
pub fn duplicate(fd: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3)
}

#[inline]
pub fn fstat(fd: impl AsFd) -> Result<Stat, Errno> {
    rustix::fs::fstat(fd)
}

/// The status of a file, with the flags of statx(2).
#[inline]
pub fn statx(folder: impl AsFd, path: impl Arg, flags: AtFlags) -> Result<FileStatus, Errno> {
    path.into_with_c_str(|path| match rustix::fs::statx(&folder, path, flags, StatxFlags::BASIC_STATS) {
        Ok(found) => Ok(of_statx(&found)),
        // Linux before 4.11.
        Err(Errno::NOSYS) => {
            let flags = flags.difference(AtFlags::STATX_DONT_SYNC | AtFlags::STATX_FORCE_SYNC);
            Ok(of_stat(&rustix::fs::statat(&folder, path, flags)?))
        }
        Err(errno) => Err(errno),
    })
}

#[inline]
fn of_statx(found: &Statx) -> FileStatus {
    FileStatus {
        mode: found.stx_mode.into(),
        device: (found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        links: found.stx_nlink,
        size: found.stx_size,
        accessed: (found.stx_atime.tv_sec, found.stx_atime.tv_nsec),
        modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
        changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
    }
}

// The types of the fields depend on the processor.
#[allow(clippy::unnecessary_cast)]
fn of_stat(found: &Stat) -> FileStatus {
    FileStatus {
        mode: found.st_mode as u32,
        device: (rustix::fs::major(found.st_dev), rustix::fs::minor(found.st_dev)),
        inode: found.st_ino as u64,
        links: found.st_nlink as u32,
        size: found.st_size as u64,
        accessed: (found.st_atime as i64, found.st_atime_nsec as u32),
        modified: (found.st_mtime as i64, found.st_mtime_nsec as u32),
        changed: (found.st_ctime as i64, found.st_ctime_nsec as u32),
    }
}

/// The target of the link `fd`.
#[inline]
pub fn readlink(fd: impl AsFd) -> Result<Vec<u8>, Errno> {
    rustix::fs::readlinkat(fd, "", Vec::new()).map(|target| target.into_bytes())
}

/// Errors: `OPNOTSUPP` where the kernel or the file system does not know a flag. RWF_NOWAIT needs Linux 4.14.
#[inline]
pub fn preadv2(fd: impl AsFd, buffer: &mut [u8], at: u64, flags: ReadWriteFlags) -> Result<usize, Errno> {
    match rustix::io::preadv2(&fd, &mut [IoSliceMut::new(buffer)], at, flags) {
        // Linux before 4.6 has no such call, and before 4.13 it says EINVAL of a flag that it does not know.
        Err(Errno::NOSYS) if flags.is_empty() => rustix::io::pread(&fd, buffer, at),
        Err(Errno::NOSYS | Errno::INVAL) if !flags.is_empty() => Err(Errno::OPNOTSUPP),
        result => result,
    }
}

#[inline]
pub fn pread(fd: impl AsFd, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    rustix::io::pread(fd, buffer, at)
}

#[inline]
pub fn open_folder(fd: impl AsFd) -> Result<Dir, Errno> {
    Dir::read_from(fd)
}

#[inline]
pub fn next_entry(folder: &mut Dir) -> Option<Result<DirEntry, Errno>> {
    folder.read()
}

/// Starts a thread with a stack of so many bytes.
#[inline]
pub fn start_thread(name: &str, stack: usize, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(run).map(|_| ())
}

/// Writes log lines.
#[inline]
pub fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    to.write(bytes)
}
