//! Processes: starting and ending them, and what they inherit.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::unistd::{ForkResult, Pid};
use rustix::io::{Errno, FdFlags, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

use super::calls;

/// Bytes of the stack of a thread that only waits.
const WAITING_STACK: usize = 32 * 1024;

/// The process in which `fork` returns.
pub enum Fork {
    Parent(Pid),
    Child,
}

/// Threads that the process had when it began: an emulator of another processor (qemu-user) has one, and so may a library
/// that is preloaded.
static FIRST_THREADS: AtomicUsize = AtomicUsize::new(1);

/// Notes the threads that the process has before the program starts any.
pub fn note_first_threads() {
    if let Some(threads) = threads() {
        FIRST_THREADS.store(threads, Ordering::Relaxed);
    }
}

/// The threads of this process. `None`: there is no `/proc`, as in a chroot.
pub fn threads() -> Option<usize> {
    std::fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

/// Creates a child process that is a copy of this one (fork(2)). Errors: the program has other threads, whose locks
/// would stay locked in the child.
pub fn fork() -> io::Result<Fork> {
    if threads().is_some_and(|threads| threads > FIRST_THREADS.load(Ordering::Relaxed)) {
        return Err(io::Error::other("the process has more than one thread"));
    }
    // SAFETY: no other thread of the program could hold a lock or change memory. One from before it knows only locks of
    // its own and those of the C library, which frees them in the child.
    Ok(match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Fork::Parent(child),
        ForkResult::Child => Fork::Child,
    })
}

/// Loads a filter for the system calls of this thread and of those that it starts (seccomp(2):
/// SECCOMP_SET_MODE_FILTER). Linux before 3.17 takes it from prctl(2), without flags.
pub fn load_filter(instructions: &[libc::sock_filter], flags: libc::c_ulong) -> rustix::io::Result<()> {
    let len = libc::c_ushort::try_from(instructions.len()).map_err(|_| Errno::TOOBIG)?;
    let program = libc::sock_fprog { len, filter: instructions.as_ptr().cast_mut() };
    // SAFETY: the kernel copies `len` instructions, which are borrowed for the call.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &program) };
    let last_error = || Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO);
    if done == 0 {
        return Ok(());
    }
    match last_error() {
        Errno::NOSYS => {}
        errno => return Err(errno),
    }
    // SAFETY: as above.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

/// Starts a process that shares this one's memory until it executes a program or ends; the calling thread waits for
/// that (clone(2): CLONE_VM, CLONE_VFORK). It runs `child` on `stack` and ends when `child` returns.
///
/// `child` must do nothing but system calls: other threads continue meanwhile and may hold locks.
pub fn clone_until_exec<F: FnMut()>(stack: &mut [u128], child: &mut F) -> io::Result<Pid> {
    extern "C" fn begin<F: FnMut()>(child: *mut c_void) -> c_int {
        // SAFETY: it is the closure that `clone` receives below, and its owner waits.
        let child = unsafe { &mut *child.cast::<F>() };
        child();
        1
    }
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let (top, child) = (stack.as_mut_ptr_range().end, (&raw mut *child).cast());
    // SAFETY: stack and closure are borrowed, and the caller's thread is suspended, until the new process no longer
    // uses the memory. A panic of the closure cannot leave `begin`, which is `extern "C"`.
    let pid = unsafe { libc::clone(begin::<F>, top.cast(), flags, child) };
    if pid == -1 { Err(io::Error::last_os_error()) } else { Ok(Pid::from_raw(pid)) }
}

/// A descriptor that becomes readable when a child of this process has ended, which has not been waited for
/// (pidfd_open(2)). Before Linux 5.3, it is that of a pipe, whose other end a thread closes then.
pub fn end_of_child(child: Pid) -> io::Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(child.as_raw()).ok_or(io::ErrorKind::InvalidInput)?;
    match pidfd_open(pid, PidfdFlags::empty()) {
        // PERM is from the filter of a container that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return Ok(opened?),
    }
    let (end, held) = pipe_with(PipeFlags::CLOEXEC)?;
    calls::start_thread("child", WAITING_STACK, move || {
        // It fails only if the child has been waited for.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        _ = retry_on_intr(|| waitid(WaitId::Pid(pid), options));
        drop(held);
    })?;
    Ok(end)
}

/// A list of strings for `execve`.
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

/// Replaces this process by `program` (execve(2)). Returns only if that fails, with the reason.
pub fn execute(program: &CStr, arguments: &Strings, environment: &Strings) -> Errno {
    let (arguments, environment) = (arguments.pointers.as_ptr(), environment.pointers.as_ptr());
    // SAFETY: the strings end with NUL and the lists with a null pointer, and all are borrowed for the call.
    unsafe { libc::execve(program.as_ptr(), arguments, environment) };
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Creates a timer that sends SIGKILL to this process (timer_create(2)), and returns its number. An executed program
/// does not inherit it. Allocates nothing.
pub fn make_kill_timer() -> rustix::io::Result<c_int> {
    let event = SigevNotify::SigevSignal { signal: Signal::SIGKILL, si_value: 0 };
    let event = SigEvent::new(event).sigevent();
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

/// Starts a timer of this process (timer_settime(2)).
pub fn start_timer(timer: c_int, seconds: u16) -> rustix::io::Result<()> {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let then =
        libc::itimerspec { it_interval: never, it_value: libc::timespec { tv_sec: seconds.into(), ..never } };
    let before: *mut libc::itimerspec = ptr::null_mut();
    // SAFETY: the structure outlives the call, and the pointer for the previous value may be null.
    match unsafe { libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const then, before) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Signals the process group of its present or former leader (pidfd_send_signal(2): PIDFD_SIGNAL_PROCESS_GROUP). Signal
/// 0 only tests whether the group has members. Errors: `SRCH` for an empty group, `INVAL` before Linux 6.9, `NOSYS`
/// before 5.1, `BADF` for no pidfd.
pub fn signal_group(leader: BorrowedFd<'_>, signal: c_int) -> rustix::io::Result<()> {
    const GROUP: libc::c_uint = 1 << 2;
    let information: *const libc::siginfo_t = ptr::null();
    // SAFETY: the descriptor is open for as long as it is borrowed, and the pointer to information may be null.
    let done =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, leader.as_raw_fd(), signal, information, GROUP) };
    match done {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Marks this descriptor and all later ones as close-on-exec (close_range(2): CLOSE_RANGE_CLOEXEC).
pub fn keep_from_programs(first: RawFd) {
    let (last, flags) = (libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: nothing is closed, and numbers that are not open are skipped.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } == 0 {
        return;
    }
    // Linux before 5.11. Without /proc, those that programs usually inherit.
    const USUAL: RawFd = 256;
    let number = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let open: Vec<RawFd> = match std::fs::read_dir("/proc/self/fd") {
        Ok(entries) => entries.filter_map(number).filter(|number| *number >= first).collect(),
        Err(_) => (first..USUAL).collect(),
    };
    for number in open {
        // SAFETY: nothing is closed, and the call fails for numbers that are not open.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// Whether a signal is ignored, as after nohup(1).
pub fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: `action` is valid for writes, and the action of the signal stays as it is.
    let read = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: the call has succeeded, and has written it.
    read == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// A write beyond the limit of a file's size (RLIMIT_FSIZE) fails, and does not end the process.
pub fn survive_file_size_limit() {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Restores the default action of a signal.
pub fn reset_signal(signal: c_int) {
    // SAFETY: no handler is installed. Fails for SIGKILL and SIGSTOP, which always have their default, and for invalid
    // numbers.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Takes ownership of a descriptor that the program inherited at its start. It is closed on exec.
pub fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD changes nothing.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
        return Err(io::Error::other(format!("descriptor {number} was promised, but is not open")));
    }
    // SAFETY: it is open, and nothing else in this program owns it: only the environment names it, which is read once,
    // at the start.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}
