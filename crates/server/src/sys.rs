//! System calls. This file has those that no safe crate offers, one per function. `calls` has those that can fail while
//! requests are served: tests replace them by failing ones.
#![allow(unsafe_code)]

pub mod direct;
#[cfg(test)]
pub mod faulty;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::unistd::{ForkResult, Pid};
use rustix::fs::{
    FileType, MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::{Errno, FdFlags, retry_on_intr};
use rustix::net::RecvFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

#[cfg(not(test))]
pub use direct as calls;
#[cfg(test)]
pub use faulty as calls;

/// Folders whose files are usually in memory, in the order of preference.
const IN_MEMORY: [&str; 4] = ["/dev/shm", "/run", "/tmp", "/var/tmp"];
/// Bytes of the stack of a thread that only waits.
const WAITING_STACK: usize = 32 * 1024;

/// The status of a file (stat(2)). Times are seconds since 1970, and nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct FileStatus {
    pub mode: u32,
    /// The major and the minor number.
    pub device: (u32, u32),
    pub inode: u64,
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

/// The bytes in a socket's send queue that the peer has not acknowledged (tcp(7), unix(7): SIOCOUTQ).
pub fn unsent(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as it is borrowed, and TIOCOUTQ writes one int.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(bytes.max(0) as u64) }
}

/// Limits the unsent bytes in a socket and in those accepted from it (tcp(7), TCP_NOTSENT_LOWAT). Bytes in flight do
/// not count.
pub fn limit_unsent(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_tcp_option(fd, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// The kernel holds a new connection back until the client has sent something, or for about so many seconds
/// (`tcp(7)`, TCP_DEFER_ACCEPT). 0: it does not.
pub fn defer_accept(fd: BorrowedFd<'_>, seconds: u32) -> io::Result<()> {
    set_tcp_option(fd, libc::TCP_DEFER_ACCEPT, seconds)
}

fn set_tcp_option(fd: BorrowedFd<'_>, option: c_int, value: u32) -> io::Result<()> {
    let size = size_of::<u32>() as libc::socklen_t;
    let value = (&raw const value).cast();
    // SAFETY: the descriptor is open for as long as it is borrowed, and the value is one int.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, option, value, size) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends a record of another type than content from a socket whose kernel encrypts (`TLS_SET_RECORD_TYPE` of the
/// kernel's TLS). Does not wait.
#[cfg(feature = "tls")]
pub fn send_tls_record(fd: BorrowedFd<'_>, kind: u8, content: &[u8]) -> io::Result<()> {
    /// A control message with one byte (cmsg(3)), as large as its alignment demands.
    #[repr(C)]
    struct Beside {
        header: libc::cmsghdr,
        kind: u8,
    }
    // SAFETY: zeros are valid in both structs, which consist of numbers and pointers.
    let (mut beside, mut message): (Beside, libc::msghdr) = unsafe { std::mem::zeroed() };
    (beside.header.cmsg_level, beside.header.cmsg_type) = (libc::SOL_TLS, libc::TLS_SET_RECORD_TYPE);
    beside.header.cmsg_len = (std::mem::offset_of!(Beside, kind) + 1) as _;
    beside.kind = kind;
    let mut part = libc::iovec { iov_base: content.as_ptr().cast_mut().cast(), iov_len: content.len() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = ((&raw mut beside).cast(), size_of::<Beside>() as _);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the message and what it points to live until the call returns, and the kernel only reads them.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, flags) };
    if sent == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets the allocator keep this many unused bytes (mallopt(3)), so that memory moves from one response to the next
/// without a system call.
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

/// Returns unused pages of the allocator to the kernel (malloc_trim(3)).
#[cfg(target_env = "gnu")]
pub fn trim_heap() {
    // SAFETY: touches nothing but the allocator's own free lists, under its own lock.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub fn trim_heap() {}

/// How long after its start a process calls [`release_start`]: by then, the start has no further effects.
pub const RELEASE_AFTER: Duration = Duration::from_millis(250);

/// Returns to the kernel what the start of a process needed and what follows does not: free pages of the heap, of the
/// stack of the main thread, which must be the one that calls, and the program's pages in memory.
pub fn release_start() {
    trim_heap();
    release_stack();
    unmap_program();
}

/// Drops the content of the stack below what is in use. The kernel gives zeroed pages when it is used again.
// A frame of its own: within that of a caller, `IN_USE` could end above what that has alive.
#[inline(never)]
fn release_stack() {
    /// Bytes that the start may have used: less than what the kernel keeps free below the main thread's stack.
    const USED: usize = 512 * 1024;
    /// Bytes for this call.
    const IN_USE: usize = 16 * 1024;
    let here = 0u8;
    let end = ((&raw const here).addr() - IN_USE) & !(rustix::param::page_size() - 1);
    // SAFETY: below the frame of this function, nothing on the stack is alive; `IN_USE` is enough for the call. Pages
    // that are not mapped are skipped, and nothing else is mapped so near: the kernel keeps 1 MiB free below a stack
    // that grows (stack_guard_gap).
    unsafe { libc::madvise(ptr::without_provenance_mut(end - USED), USED, libc::MADV_DONTNEED) };
}

/// Unmaps the pages of the program's file (madvise(2), MADV_DONTNEED), of which a start uses far more than what
/// follows. The kernel maps again what is used, from its page cache. A breakpoint of a debugger is forgotten.
fn unmap_program() {
    // SAFETY: the linker defines both symbols, around the segments that are only read and executed.
    unsafe extern "C" {
        safe static __executable_start: u8;
        safe static etext: u8;
    }
    let (start, end) = (&raw const __executable_start, &raw const etext);
    let bytes = (end.addr() - start.addr()) & !(rustix::param::page_size() - 1);
    // SAFETY: the program never writes to these pages, so that the file has the same bytes. The first one is aligned.
    unsafe { libc::madvise(start.cast_mut().cast(), bytes, libc::MADV_DONTNEED) };
}

/// Registers `fd` with the current runtime.
pub fn watch<T: OwnsFd>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: a value that `OwnsFd` has the same open descriptor for as long as it lives.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}

/// Waits until `fd` can be read. Only one task may wait for it: `AsyncFd::readable` would add the task to a list of
/// waiters each time.
pub async fn readable<T: AsRawFd>(fd: &AsyncFd<T>) -> io::Result<AsyncFdReadyGuard<'_, T>> {
    poll_fn(|cx| fd.poll_read_ready(cx)).await
}

/// Calls `receive` when there may be something to read, and again while it is interrupted or finds nothing. `receive` does
/// not wait. Returns the bytes, and the guard by which the caller tells that it has read all there was.
#[inline]
pub fn poll_receive<'a, S: AsRawFd>(
    socket: &'a AsyncFd<S>,
    cx: &mut Context<'_>,
    mut receive: impl FnMut(&S) -> io::Result<usize>,
) -> Poll<io::Result<(usize, AsyncFdReadyGuard<'a, S>)>> {
    loop {
        let mut ready = ready!(socket.poll_read_ready(cx))?;
        match ready.try_io(|socket| receive(socket.get_ref())) {
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(received) => return Poll::Ready(received.map(|bytes| (bytes, ready))),
            Err(_would_block) => {}
        }
    }
}

/// Reads the received bytes that fit into `buffer`. 0: the end.
#[inline]
pub fn poll_read<S: AsRawFd + AsFd>(
    socket: &AsyncFd<S>,
    cx: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    let receive = |socket: &S| Ok(rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT)?.0);
    let (bytes, mut ready) = ready!(poll_receive(socket, cx, receive))?;
    if (1..buffer.len()).contains(&bytes) {
        // That was all there is. The arrival of more is an event of its own.
        ready.clear_ready();
    }
    Poll::Ready(Ok(bytes))
}

/// A value that owns one descriptor for all its life.
pub trait OwnsFd: AsRawFd {}

impl OwnsFd for OwnedFd {}

impl<T: OwnsFd> OwnsFd for Arc<T> {}

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

/// The process in which `fork` returns.
pub enum Fork {
    Parent(Pid),
    Child,
}

/// Creates a child process that is a copy of this one (fork(2)). Errors: there are other threads, whose locks would
/// stay locked in the child.
pub fn fork() -> io::Result<Fork> {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() != 1) {
        return Err(io::Error::other("the process has more than one thread"));
    }
    // SAFETY: there is no other thread that could hold a lock or change memory.
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
