//! The system calls that a serving process may make. All others fail with ENOSYS, as on a kernel without them. So a C
//! library that tries a newer call first falls back to the older one, and a call that is missing here breaks one
//! feature and not the server.
//!
//! For calls that are allowed with any arguments, the kernel looks into a bitmap and does not run the filter (since
//! Linux 5.11). Serving a request makes no other calls.

use std::collections::BTreeMap;

use libc::c_long;
use rustix::io::Errno;
use rustix::process::getpid;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::{Confinement, Connects, Pipes, Writes};
use crate::sys;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: TargetArch = TargetArch::riscv64;

/// Allowed with any arguments.
const ALWAYS: &[&[c_long]] = &[FILES, SOCKETS, EVENTS, MEMORY, THREADS, SIGNALS, TIME, OLDER];

/// To read files, and to write to open ones. Landlock decides which files can be opened.
const FILES: &[c_long] = &[
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    // For copies of compressed files. Nothing can execute such a file.
    libc::SYS_memfd_create,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readahead,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_sendfile,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
];

/// To accept connections, to use open ones, and to pass descriptors (`sendmsg`).
const SOCKETS: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

const EVENTS: &[c_long] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
];

/// `mmap` and `mprotect` are in `with_arguments`: no memory becomes executable.
const MEMORY: &[c_long] = &[libc::SYS_brk, libc::SYS_madvise, libc::SYS_mremap, libc::SYS_munmap];

/// `clone` is in `with_arguments`: it creates only threads.
const THREADS: &[c_long] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// `tgkill` is in `with_arguments`: a process signals only itself.
const SIGNALS: &[c_long] = &[
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
];

/// For machines on which the vDSO has no clock.
const TIME: &[c_long] = &[
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
];

/// Calls that only x86-64 has beside their successors; glibc, musl or rustix use them there.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// `ppoll` is in `CHANNELS`.
#[cfg(target_arch = "x86_64")]
const POLL: &[c_long] = &[libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const POLL: &[c_long] = &[];

/// To open connections, beside `socket`.
const TO_CONNECT: &[c_long] =
    &[libc::SYS_bind, libc::SYS_connect, libc::SYS_pipe2, libc::SYS_recvmmsg, libc::SYS_splice];

/// To create pipes to scripts.
const TO_PIPE: &[c_long] = &[libc::SYS_pipe2];

/// To write the files of a cache. Landlock decides where.
const TO_WRITE: &[c_long] = &[
    libc::SYS_mkdirat,
    #[cfg(not(target_arch = "riscv64"))]
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
];

/// To publish files, beside `TO_WRITE`.
const TO_PUBLISH: &[c_long] = &[libc::SYS_flock, libc::SYS_fsync, libc::SYS_ftruncate];

/// For an argument of which the kernel uses 32 bits.
const SHORT: SeccompCmpArgLen = SeccompCmpArgLen::Dword;
const LONG: SeccompCmpArgLen = SeccompCmpArgLen::Qword;

/// Bytes that wait in a socket, whether a descriptor is a terminal, and non-blocking mode.
const IOCTLS: &[libc::Ioctl] =
    &[libc::FIONBIO, libc::FIONREAD, libc::TCGETS, libc::TIOCGWINSZ, libc::TIOCOUTQ];
/// The name of a thread.
const PRCTLS: &[i32] = &[libc::PR_GET_NAME, libc::PR_SET_NAME];
/// The flags of a new thread.
const THREAD: i32 = libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND;
const NAMESPACES: i32 = libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS;

/// To exchange messages over open sockets.
const CHANNELS: &[c_long] =
    &[libc::SYS_close, libc::SYS_fcntl, libc::SYS_ppoll, libc::SYS_recvmsg, libc::SYS_sendmsg];

/// Loads the filter of a process that serves. Errors: the reason, with what to do.
pub fn restrict(confinement: &Confinement<'_>) -> Result<(), String> {
    let publishing = if confinement.publishes.is_empty() { Publishing::No } else { Publishing::Yes };
    load(program(confinement.connects, confinement.pipes, confinement.writes, publishing))
}

/// Loads the filter of a process that only computes, and exchanges messages over open sockets. Errors: as of
/// `restrict`.
pub fn restrict_to_channels() -> Result<(), String> {
    load(program_of_channels())
}

fn load(program: Result<BpfProgram, BackendError>) -> Result<(), String> {
    let program = program.map_err(|error| format!("the filter of system calls cannot be built ({error})"))?;
    let instructions = program.iter().map(|i| libc::sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k });
    let instructions: Vec<_> = instructions.collect();
    // Without the flag, a kernel before 5.16 disables speculative store bypass for the process. That protects scripts
    // in one process from one another; this process runs none.
    let loaded = match sys::load_filter(&instructions, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW) {
        Err(Errno::INVAL) => sys::load_filter(&instructions, 0),
        result => result,
    };
    loaded.map_err(|error| {
        format!("system calls cannot be filtered ({error}); it needs a kernel with CONFIG_SECCOMP_FILTER")
    })
}

/// Whether clients publish files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Publishing {
    No,
    Yes,
}

fn program(
    connects: Connects,
    pipes: Pipes,
    writes: Writes<'_>,
    publishing: Publishing,
) -> Result<BpfProgram, BackendError> {
    let connecting = if connects == Connects::Nowhere { &[] } else { TO_CONNECT };
    let piping = if pipes == Pipes::None { &[] } else { TO_PIPE };
    let mut calls = of_every_process()?;
    calls.extend(of_serving(connects)?);
    let (writing, publishing): (&[c_long], &[c_long]) = match (writes, publishing) {
        (_, Publishing::Yes) => (TO_WRITE, TO_PUBLISH),
        (Writes::Beneath(_), Publishing::No) => (TO_WRITE, &[]),
        (Writes::Nowhere, Publishing::No) => (&[], &[]),
    };
    build(ALWAYS.iter().copied().chain([connecting, piping, writing, publishing]), calls)
}

fn program_of_channels() -> Result<BpfProgram, BackendError> {
    let mut calls = of_every_process()?;
    // Standard error, for the text of a panic.
    calls.push((libc::SYS_write, vec![equal(0, 2)?]));
    build([CHANNELS, MEMORY, THREADS, SIGNALS, TIME, POLL].into_iter(), calls)
}

fn build<'a>(
    with_any_arguments: impl Iterator<Item = &'a [c_long]>,
    with_arguments: WithArguments,
) -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in with_any_arguments.flatten() {
        rules.insert(*call, Vec::new());
    }
    for (call, conditions) in with_arguments {
        rules.entry(call).or_default().push(SeccompRule::new(conditions)?);
    }
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, absent, SeccompAction::Allow, ARCHITECTURE)?.try_into()
}

/// Calls that are allowed only with these arguments. A call that is listed twice is allowed with either.
type WithArguments = Vec<(c_long, Vec<SeccompCondition>)>;

/// Memory and threads.
fn of_every_process() -> Result<WithArguments, BackendError> {
    let masked = |argument, mask: i32, value: i32| {
        SeccompCondition::new(argument, SHORT, SeccompCmpOp::MaskedEq(mask as u32 as u64), value as u64)
    };
    let own = getpid().as_raw_nonzero().get() as u64;
    let mut calls = vec![
        (libc::SYS_clone, vec![masked(0, THREAD | NAMESPACES, THREAD)?]),
        (libc::SYS_mmap, vec![masked(2, libc::PROT_EXEC, 0)?]),
        (libc::SYS_mprotect, vec![masked(2, libc::PROT_EXEC, 0)?]),
        // The process may read its own limits, not set them.
        (libc::SYS_prlimit64, vec![equal(0, 0)?, SeccompCondition::new(2, LONG, SeccompCmpOp::Eq, 0)?]),
        (libc::SYS_tgkill, vec![equal(0, own)?]),
    ];
    for prctl in PRCTLS {
        calls.push((libc::SYS_prctl, vec![equal(0, *prctl as u64)?]));
    }
    Ok(calls)
}

/// Sockets.
fn of_serving(connects: Connects) -> Result<WithArguments, BackendError> {
    let mut calls = vec![
        (libc::SYS_socketpair, vec![equal(0, libc::AF_UNIX as u64)?]),
        // A thread lowers its own priority.
        (libc::SYS_setpriority, vec![equal(0, libc::PRIO_PROCESS as u64)?, equal(1, 0)?]),
    ];
    for ioctl in IOCTLS {
        calls.push((libc::SYS_ioctl, vec![equal(1, u64::from(*ioctl as u32))?]));
    }
    let families: &[i32] = match connects {
        Connects::Nowhere => &[],
        Connects::Unix => &[libc::AF_UNIX],
        Connects::Ports(_) => &[libc::AF_INET, libc::AF_INET6],
    };
    for family in families {
        calls.push((libc::SYS_socket, vec![equal(0, *family as u64)?]));
    }
    Ok(calls)
}

fn equal(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SHORT, SeccompCmpOp::Eq, value)
}

#[cfg(test)]
mod tests;
