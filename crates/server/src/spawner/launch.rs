//! Starts a program, as fast as the kernel can: the new process shares the spawner's memory until it executes the
//! program, so that nothing is copied. It sets its own streams, limits, account and folder in between.
//!
//! Knows nothing of workers, and nothing of what becomes of a process.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use arrayvec::ArrayVec;
use nix::sys::signal::{SigSet, killpg};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Resource, Rlimit, Signal, chdir, getrlimit, nice, set_parent_process_death_signal, setpgid, setrlimit,
    umask,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use site::model::Resources;

use super::cgroup::Cgroup;
use super::{SpawnRequest, Streams, message};
use crate::process::privilege::Credentials;
use crate::process::supervisor::{TOO_MANY, advice_on_descriptors};
use crate::sys::{self, OwnsFd, Strings};

/// Units of 16 bytes, for a function that makes a dozen system calls.
const STACK: usize = 32 * 1024 / 16;
/// Seconds from SIGXCPU, which a program can handle, to SIGKILL.
const CPU_GRACE: u64 = 1;
/// Whole seconds from the change to another account to the execution of the program; then the process is killed.
/// Scripts of that account can stop the process in that time, and the spawner's thread, which waits for it, too.
pub const EXECUTES: Duration = Duration::from_secs(2);
const MAX_LIMITS: usize = 4;

/// Starts programs, one at a time.
pub struct Launcher {
    stack: Box<[u128]>,
    /// `/dev/null`, which a chroot may not have.
    null: Option<OwnedFd>,
    limits: ArrayVec<(Resource, Rlimit), MAX_LIMITS>,
    umask: Option<Mode>,
    nice: i32,
}

/// The leader of a process group. It has not been waited for.
pub struct Process {
    pub pid: Pid,
    /// Readable when it has ended: see `sys::end_of_child`.
    pub end: OwnedFd,
}

impl AsRawFd for Process {
    fn as_raw_fd(&self) -> RawFd {
        self.end.as_raw_fd()
    }
}

impl OwnsFd for Process {}

pub enum Launched {
    Running(Process),
    /// The program could not be executed. The process has ended, and has been waited for.
    Failed(Errno),
}

impl Launcher {
    pub fn new(resources: &Resources) -> Launcher {
        let equal = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
        let cpu = |limit| Rlimit { current: Some(limit), maximum: Some(limit + CPU_GRACE) };
        let wanted = [
            (Resource::As, resources.memory.map(equal)),
            (Resource::Cpu, resources.cpu.map(cpu)),
            (Resource::Nofile, resources.files.map(equal)),
            (Resource::Nproc, resources.tasks.map(equal)),
        ];
        let limits = wanted.into_iter().filter_map(|(what, limit)| Some((what, lower(what, limit?))));
        Launcher {
            stack: vec![0; STACK].into(),
            null: open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok(),
            limits: limits.collect(),
            umask: resources.umask.map(Mode::from_raw_mode),
            nice: resources.nice.into(),
        }
    }

    /// Starts a program in `cgroup`, or else in the spawner's own, with `credentials`, or else the spawner's. Errors:
    /// no process could be made.
    pub fn launch(
        &mut self,
        request: &SpawnRequest<'_>,
        streams: &Streams,
        cgroup: Option<&Cgroup>,
        credentials: Option<&Credentials>,
    ) -> std::io::Result<Launched> {
        let arguments: Strings = message::strings(request.arguments).collect();
        let environment: Strings = message::strings(request.environment).collect();
        let Launcher { stack, null, limits, umask: mask, nice: steps } = self;
        let Streams { stdin, stdout, stderr } = streams;
        let empty = match (&stdin, &null) {
            (None, None) => Some(pipe_with(PipeFlags::CLOEXEC)?.0),
            _ => None,
        };
        let stdin = stdin.as_ref().or(null.as_ref()).or(empty.as_ref());
        let mut failed = None;
        // This allocates nothing, and takes no lock.
        let mut prepare = || {
            setpgid(None, None)?;
            cgroup.map_or(Ok(()), Cgroup::enter)?;
            stdin.map_or(Ok(()), dup2_stdin)?;
            dup2_stdout(stdout)?;
            dup2_stderr(stderr)?;
            if let Some(mask) = mask {
                umask(*mask);
            }
            if *steps != 0 {
                nice(*steps)?;
            }
            for (resource, limit) in limits.iter() {
                setrlimit(*resource, *limit)?;
            }
            if let Some(credentials) = credentials {
                sys::start_timer(sys::make_kill_timer()?, EXECUTES.as_secs() as u16)?;
                credentials.assume()?;
            }
            // If the spawner is killed, nothing else ends a script. A change of credentials resets this.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            chdir(request.folder)
        };
        let mut child = || {
            failed = match prepare() {
                Ok(()) => {
                    // It fails only for an invalid argument.
                    _ = SigSet::empty().thread_set_mask();
                    Some(sys::execute(request.program, &arguments, &environment))
                }
                Err(errno) => Some(errno),
            };
        };
        let pid = sys::clone_until_exec(stack, &mut child)?;
        if let Some(errno) = failed {
            _ = waitpid(pid, None);
            return Ok(Launched::Failed(errno));
        }
        match sys::end_of_child(pid) {
            Ok(end) => Ok(Launched::Running(Process { pid, end })),
            Err(error) => {
                // Its end would not be noticed.
                kill(pid);
                Err(error)
            }
        }
    }
}

/// Kills a process group, and waits for the end of its leader.
pub fn kill(leader: Pid) {
    _ = killpg(leader, nix::sys::signal::SIGKILL);
    _ = waitpid(leader, None);
}

/// Only root can raise a limit above the spawner's own.
fn lower(resource: Resource, limit: Rlimit) -> Rlimit {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let lower = |value: Option<u64>| Some(value.unwrap_or(u64::MAX).min(most));
    Rlimit { current: lower(limit.current), maximum: lower(limit.maximum) }
}

/// What the kernel's reason for not starting a program leaves out.
pub fn how_to_start(errno: i32) -> &'static str {
    match errno {
        libc::ENOENT => {
            "; it, or the program that its first line names, or the loader of its libraries, does not exist; a line that \
             ends with CRLF names another program"
        }
        libc::ENOEXEC => {
            "; write the program that runs it in its first line, such as #!/bin/sh; a program must be one for this machine"
        }
        libc::EACCES => {
            "; its account may not execute it, or the program that its first line names, or may not enter a folder on the \
             way to them"
        }
        libc::EAGAIN => TOO_MANY,
        errno => advice_on_descriptors(errno),
    }
}
