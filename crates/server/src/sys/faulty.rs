//! The functions of `direct`, which fail as the plan says. For tests only.
//!
//! The faults are those of a real kernel. After a short read or EAGAIN, the remaining bytes seem to arrive just then;
//! an aborted connection is closed; a truncated file is really shorter.

pub mod plan;

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Mutex;
use std::task::{Context, Poll};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fs::{AtFlags, Dir, DirEntry, OFlags, ResolveFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, SocketFlags, sockopt};
use rustix::path::Arg;
use tokio::io::unix::AsyncFd;

pub use super::direct::{create_with, lock_file, make_folder_with, remove_folder, rename_between, sync};
use super::{FileStatus, OwnsFd, direct};
use plan::{Call, Fault, strike};

use crate::mutex::locked;

/// The epoll registration of each descriptor.
static WATCHED: Mutex<Option<HashMap<RawFd, Watched>>> = Mutex::new(None);

#[derive(Clone, Copy)]
struct Watched {
    epoll: RawFd,
    data: u64,
    what: EventFlags,
}

/// The number of bytes that the call may transfer.
fn bytes_of(call: Call) -> Result<usize, Errno> {
    match strike(call) {
        None | Some(Fault::Truncated) => Ok(usize::MAX),
        Some(Fault::Short(most) | Fault::Fills(most)) => Ok(most),
        Some(Fault::Errno(errno)) => Err(errno),
        Some(Fault::Panic) => panic!("on purpose, in {call}"),
    }
}

/// Like `bytes_of`, for a file, which may be truncated.
fn bytes_of_file(call: Call, file: BorrowedFd<'_>) -> Result<usize, Errno> {
    match strike(call) {
        Some(Fault::Truncated) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
            Ok(usize::MAX)
        }
        Some(Fault::Short(most) | Fault::Fills(most)) => Ok(most),
        Some(Fault::Errno(errno)) => Err(errno),
        Some(Fault::Panic) => panic!("on purpose, in {call}"),
        None => Ok(usize::MAX),
    }
}

/// For a call that transfers no bytes.
fn whole(call: Call) -> Result<(), Errno> {
    bytes_of(call).map(|_| ())
}

/// Makes epoll report `fd` to the idle set again, as if more bytes had arrived.
fn report_again(fd: BorrowedFd<'_>) {
    let watched = locked(&WATCHED);
    let Some(watched) = watched.as_ref().and_then(|all| all.get(&fd.as_raw_fd())) else { return };
    // SAFETY: the idle set's epoll instance is open for as long as connections are read in it.
    let epoll = unsafe { BorrowedFd::borrow_raw(watched.epoll) };
    _ = epoll::modify(epoll, fd, EventData::new_u64(watched.data), watched.what);
}

/// Makes the kernel report that `fd` is writable, which setting the size of its buffer does.
fn report_writable(fd: BorrowedFd<'_>) {
    let size = sockopt::socket_send_buffer_size(fd).unwrap();
    sockopt::set_socket_send_buffer_size(fd, size / 2).unwrap();
}

pub fn accept(listener: impl AsFd, flags: SocketFlags) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
    match whole(Call::Accept) {
        Err(errno @ (Errno::AGAIN | Errno::CONNABORTED)) => {
            drop(direct::accept(listener, flags));
            Err(errno)
        }
        Err(errno) => Err(errno),
        Ok(()) => direct::accept(listener, flags),
    }
}

pub fn recv(fd: impl AsFd, buffer: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
    let fd = fd.as_fd();
    match bytes_of(Call::Recv) {
        Ok(most) if most < buffer.len() => {
            let read = direct::recv(fd, &mut buffer[..most], flags);
            report_again(fd);
            read
        }
        Ok(_) => direct::recv(fd, buffer, flags),
        Err(errno) => {
            report_again(fd);
            Err(errno)
        }
    }
}

pub fn poll_read<S: AsRawFd + AsFd>(
    socket: &AsyncFd<S>,
    cx: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    match bytes_of(Call::PollRead) {
        Ok(most) => {
            let most = most.min(buffer.len());
            direct::poll_read(socket, cx, &mut buffer[..most])
        }
        // It reads again by itself.
        Err(Errno::INTR) => poll_read(socket, cx, buffer),
        Err(Errno::AGAIN) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        Err(errno) => Poll::Ready(Err(errno.into())),
    }
}

pub fn send(fd: impl AsFd, bytes: &[u8], flags: SendFlags) -> Result<usize, Errno> {
    match bytes_of(Call::Send) {
        Ok(most) => direct::send(fd, &bytes[..most.min(bytes.len())], flags),
        Err(errno) => {
            report_writable(fd.as_fd());
            Err(errno)
        }
    }
}

pub fn sendfile(to: impl AsFd, from: impl AsFd, at: &mut u64, count: usize) -> Result<usize, Errno> {
    match bytes_of_file(Call::Sendfile, from.as_fd()) {
        Ok(most) => direct::sendfile(to, from, at, count.min(most)),
        Err(errno) => {
            report_writable(to.as_fd());
            Err(errno)
        }
    }
}

pub fn watch<S: OwnsFd>(socket: S) -> io::Result<AsyncFd<S>> {
    whole(Call::Watch)?;
    direct::watch(socket)
}

pub fn epoll_add(epoll: impl AsFd, fd: impl AsFd, data: EventData, what: EventFlags) -> Result<(), Errno> {
    whole(Call::EpollAdd)?;
    let watched = Watched { epoll: epoll.as_fd().as_raw_fd(), data: data.u64(), what };
    let mut all = locked(&WATCHED);
    all.get_or_insert_default().insert(fd.as_fd().as_raw_fd(), watched);
    direct::epoll_add(epoll, fd, data, what)
}

pub fn epoll_wait(epoll: impl AsFd, events: &mut Vec<Event>, timeout: &Timespec) -> Result<usize, Errno> {
    whole(Call::EpollWait)?;
    direct::epoll_wait(epoll, events, timeout)
}

pub fn open(path: impl Arg, flags: OFlags) -> Result<OwnedFd, Errno> {
    whole(Call::Open)?;
    direct::open(path, flags)
}

pub fn openat(folder: impl AsFd, path: impl Arg, flags: OFlags) -> Result<OwnedFd, Errno> {
    whole(Call::Openat)?;
    direct::openat(folder, path, flags)
}

pub fn openat2(
    folder: impl AsFd,
    path: impl Arg,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    whole(Call::Openat2)?;
    direct::openat2(folder, path, flags, resolve)
}

pub fn create(folder: impl AsFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    whole(Call::Create)?;
    direct::create(folder, name)
}

pub fn make_folder(folder: impl AsFd, name: impl Arg) -> Result<(), Errno> {
    whole(Call::MakeFolder)?;
    direct::make_folder(folder, name)
}

pub fn rename(folder: impl AsFd, from: impl Arg, to: impl Arg) -> Result<(), Errno> {
    whole(Call::Rename)?;
    direct::rename(folder, from, to)
}

pub fn unlink(folder: impl AsFd, name: impl Arg) -> Result<(), Errno> {
    whole(Call::Unlink)?;
    direct::unlink(folder, name)
}

pub fn pwrite(fd: impl AsFd, bytes: &[u8], at: u64) -> Result<usize, Errno> {
    let most = bytes_of(Call::Pwrite)?.min(bytes.len());
    direct::pwrite(fd, &bytes[..most], at)
}

pub fn free_space(fd: impl AsFd) -> Result<u64, Errno> {
    match strike(Call::FreeSpace) {
        Some(Fault::Short(most)) => Ok(most as u64),
        Some(Fault::Errno(errno)) => Err(errno),
        _ => direct::free_space(fd),
    }
}

pub fn duplicate(fd: &OwnedFd) -> Result<OwnedFd, Errno> {
    whole(Call::Duplicate)?;
    direct::duplicate(fd)
}

pub fn fstat(fd: impl AsFd) -> Result<Stat, Errno> {
    whole(Call::Fstat)?;
    direct::fstat(fd)
}

pub fn statx(folder: impl AsFd, path: impl Arg, flags: AtFlags) -> Result<FileStatus, Errno> {
    whole(Call::Statx)?;
    direct::statx(folder, path, flags)
}

pub fn readlink(fd: impl AsFd) -> Result<Vec<u8>, Errno> {
    whole(Call::Readlink)?;
    direct::readlink(fd)
}

pub fn preadv2(fd: impl AsFd, buffer: &mut [u8], at: u64, flags: ReadWriteFlags) -> Result<usize, Errno> {
    match bytes_of_file(Call::Preadv2, fd.as_fd()) {
        // The kernel returns these errors only with RWF_NOWAIT.
        Err(Errno::AGAIN | Errno::OPNOTSUPP) if !flags.contains(ReadWriteFlags::NOWAIT) => {
            direct::preadv2(fd, buffer, at, flags)
        }
        Err(errno) => Err(errno),
        Ok(most) => {
            let most = most.min(buffer.len());
            direct::preadv2(fd, &mut buffer[..most], at, flags)
        }
    }
}

pub fn pread(fd: impl AsFd, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    let most = bytes_of_file(Call::Pread, fd.as_fd())?.min(buffer.len());
    direct::pread(fd, &mut buffer[..most], at)
}

pub fn open_folder(fd: impl AsFd) -> Result<Dir, Errno> {
    whole(Call::OpenFolder)?;
    direct::open_folder(fd)
}

pub fn next_entry(folder: &mut Dir) -> Option<Result<DirEntry, Errno>> {
    match whole(Call::NextEntry) {
        Ok(()) => direct::next_entry(folder),
        Err(errno) => Some(Err(errno)),
    }
}

pub fn start_thread(name: &str, stack: usize, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    whole(Call::Spawn)?;
    direct::start_thread(name, stack, run)
}

pub fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    let most = bytes_of(Call::Write)?.min(bytes.len());
    direct::write(to, &bytes[..most])
}
