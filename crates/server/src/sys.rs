//! System calls: here those that no safe crate offers, one per function; under `calls` those that can fail
//! while requests are served.
#![allow(unsafe_code)]

pub mod direct;
#[cfg(test)]
pub mod faulty;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use nix::unistd::{ForkResult, Pid};
use rustix::io::{Errno, FdFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::ipc::Channel;

#[cfg(not(test))]
pub use direct as calls;
#[cfg(test)]
pub use faulty as calls;

/// Bytes in a socket's send queue that the peer has not acknowledged (`tcp(7)`, `unix(7)`: SIOCOUTQ).
pub fn unsent(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as it is borrowed, and TIOCOUTQ writes one int.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(bytes.max(0) as u64) }
}

/// Bounds what waits in a socket, and in those accepted from it, beside what is on its way (`tcp(7)`,
/// TCP_NOTSENT_LOWAT).
pub fn limit_unsent(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    let size = size_of::<u32>() as libc::socklen_t;
    let value = (&raw const bytes).cast();
    // SAFETY: the descriptor is open for as long as it is borrowed, and the value is one int.
    let done =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, value, size) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the allocator keep so many bytes that are not used (`mallopt(3)`): what one answer has given back, the
/// next one takes, and nobody asks the kernel in between.
#[cfg(target_env = "gnu")]
pub fn keep_heap(bytes: c_int) {
    // SAFETY: changes nothing but two numbers of the allocator.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, bytes);
        libc::mallopt(libc::M_MMAP_THRESHOLD, bytes);
    }
}

#[cfg(not(target_env = "gnu"))]
pub fn keep_heap(_: std::ffi::c_int) {}

/// Gives pages that the allocator holds but does not use back to the kernel (`malloc_trim(3)`).
#[cfg(target_env = "gnu")]
pub fn trim_heap() {
    // SAFETY: touches nothing but the allocator's own free lists, under its own lock.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub fn trim_heap() {}

/// Has the present runtime tell when `fd` is ready for what one is interested in.
pub fn watch<T: OwnsFd>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: what owns its descriptor has the same open one for as long as the `AsyncFd` has it.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}

/// What is one descriptor from its making to its end.
pub trait OwnsFd: AsRawFd {}

impl OwnsFd for OwnedFd {}
impl OwnsFd for Channel {}

/// Takes possession of a descriptor that the program was started with. Programs that this one starts do not
/// get it.
pub fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only asked whether it is open.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
        return Err(io::Error::other(format!("descriptor {number} was promised, but is not open")));
    }
    // SAFETY: it is open, and nobody in this program has it: it is named in the environment alone, which
    // is read once, at the start.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// Where a process goes on after it has been doubled.
pub enum Fork {
    Parent(Pid),
    Child,
}

/// A second process that is a copy of this one (`fork(2)`). Errors: there are other threads, whose locks
/// would stay taken in the copy.
pub fn fork() -> io::Result<Fork> {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() != 1) {
        return Err(io::Error::other("the process has more than one thread"));
    }
    // SAFETY: there is no other thread, so that nothing is in the middle of anything.
    Ok(match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Fork::Parent(child),
        ForkResult::Child => Fork::Child,
    })
}

/// Has the kernel run `instructions` for every system call of this thread, and of those it starts
/// (`seccomp(2)`: SECCOMP_SET_MODE_FILTER).
pub fn load_filter(instructions: &[libc::sock_filter], flags: libc::c_ulong) -> rustix::io::Result<()> {
    let len = libc::c_ushort::try_from(instructions.len()).map_err(|_| Errno::TOOBIG)?;
    let program = libc::sock_fprog { len, filter: instructions.as_ptr().cast_mut() };
    // SAFETY: the kernel reads `len` instructions, which are borrowed for the call, and copies them.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &program) };
    match done {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// A process that shares this one's memory until it has executed a program or ended, which is what the
/// calling thread waits for (`clone(2)`: CLONE_VM, CLONE_VFORK). It runs `child` on `stack`, and ends when
/// that returns. Also a descriptor of the process.
///
/// `child` does nothing but system calls: locks may be held by other threads, which go on meanwhile.
pub fn clone_until_exec<F: FnMut()>(stack: &mut [u128], child: &mut F) -> io::Result<(Pid, OwnedFd)> {
    extern "C" fn begin<F: FnMut()>(child: *mut c_void) -> c_int {
        // SAFETY: it is the closure that `clone` was given below; who has lent it waits.
        let child = unsafe { &mut *child.cast::<F>() };
        child();
        1
    }
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    let mut pidfd: c_int = -1;
    let (top, child) = (stack.as_mut_ptr_range().end, (&raw mut *child).cast());
    // SAFETY: stack and closure are borrowed, and the caller's thread is stopped, until the new process
    // lets go of the memory. A panic of the closure cannot leave `begin`, which is `extern "C"`.
    let pid = unsafe { libc::clone(begin::<F>, top.cast(), flags, child, &raw mut pidfd) };
    if pid == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for this process, and nobody else knows of it.
    Ok((Pid::from_raw(pid), unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// Strings as `execve` takes them.
pub struct Strings<'a> {
    pointers: Vec<*const c_char>,
    borrowed: PhantomData<&'a CStr>,
}

impl<'a> FromIterator<&'a CStr> for Strings<'a> {
    fn from_iter<I: IntoIterator<Item = &'a CStr>>(strings: I) -> Strings<'a> {
        let pointers = strings.into_iter().map(CStr::as_ptr).chain([ptr::null()]).collect();
        Strings { pointers, borrowed: PhantomData }
    }
}

/// Becomes `program` (`execve(2)`). Returns only if that cannot be, with the reason.
pub fn execute(program: &CStr, arguments: &Strings, environment: &Strings) -> Errno {
    let (arguments, environment) = (arguments.pointers.as_ptr(), environment.pointers.as_ptr());
    // SAFETY: strings that end, in lists that end with a null pointer, all borrowed for the call.
    unsafe { libc::execve(program.as_ptr(), arguments, environment) };
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// A timer of this process, by its number, which has the kernel kill it (`timer_create(2)`); a program that the
/// process executes does not have it. Allocates nothing.
pub fn make_deadly_timer() -> rustix::io::Result<c_int> {
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_SIGNAL, libc::SIGKILL);
    let mut timer: c_int = 0;
    // SAFETY: both outlive the call, and the kernel's number of a timer is an `int`.
    let made = unsafe {
        libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw const event, &raw mut timer)
    };
    match made {
        0 => Ok(timer),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Has a timer of this process go off after so many seconds (`timer_settime(2)`).
pub fn start_timer(timer: c_int, seconds: libc::time_t) -> rustix::io::Result<()> {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let then = libc::itimerspec { it_interval: never, it_value: libc::timespec { tv_sec: seconds, ..never } };
    let before: *mut libc::itimerspec = ptr::null_mut();
    // SAFETY: the structure outlives the call, and where to put the time before need not be said.
    match unsafe { libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const then, before) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Signals the process group that this process is, or was, the leader of; 0 only asks whether there is
/// anybody in it (`pidfd_send_signal(2)`: PIDFD_SIGNAL_PROCESS_GROUP). Errors: `SRCH` for nobody, `INVAL`
/// before Linux 6.9.
pub fn signal_group(leader: BorrowedFd<'_>, signal: c_int) -> rustix::io::Result<()> {
    const GROUP: libc::c_uint = 1 << 2;
    let information: *const libc::siginfo_t = ptr::null();
    // SAFETY: the descriptor is open for as long as it is borrowed, and there is no information.
    let done =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, leader.as_raw_fd(), signal, information, GROUP) };
    match done {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Descriptors from this one on are not for programs to come (`close_range(2)`: CLOSE_RANGE_CLOEXEC).
/// Errors: Linux before 5.11.
pub fn keep_from_programs(first: libc::c_uint) -> io::Result<()> {
    let (last, flags) = (libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: nothing is closed, and numbers that are not open are passed over.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has a signal do what it does by default.
pub fn reset_signal(signal: c_int) {
    // SAFETY: the default is no function, so nothing is run that may not be. Fails for two signals that
    // have nothing but their default, and for numbers that are none.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
