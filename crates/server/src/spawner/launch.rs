//! Starting a program, as fast as the kernel can: the new process shares the spawner's memory until it
//! executes, so that nothing is copied, and everything that it has to be is done in between.
//!
//! Knows nothing of workers, and nothing of what becomes of a process.

use std::os::fd::OwnedFd;
use std::time::Duration;

use arrayvec::ArrayVec;
use nix::sys::signal::SigSet;
use nix::unistd::Pid;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{
    Resource, Rlimit, Signal, chdir, getrlimit, nice, set_parent_process_death_signal, setpgid, setrlimit,
    umask,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use site::model::Resources;

use super::cgroup::Cgroup;
use super::message::{self, Wanted};
use crate::privilege::Credentials;
use crate::sys::{self, Strings};

/// Units of 16 bytes. What runs there makes a dozen system calls.
const STACK: usize = 32 * 1024 / 16;
/// From SIGXCPU, which a program can be ready for, to SIGKILL.
const CPU_GRACE: u64 = 1;
/// How long a process may take from another account to its program, in whole seconds; then it is killed. Scripts
/// of that account can stop it until it has the program, and the spawner, which waits for it, with it.
pub const EXECUTES: Duration = Duration::from_secs(2);
const MAX_LIMITS: usize = 4;

/// Starts programs, one at a time.
pub struct Launcher {
    stack: Box<[u128]>,
    limits: ArrayVec<(Resource, Rlimit), MAX_LIMITS>,
    umask: Option<Mode>,
    nice: i32,
}

/// A program that runs, the first of its group.
pub struct Process {
    pub pid: Pid,
    pub pidfd: OwnedFd,
}

/// What came of it.
pub enum Launched {
    Running(Process),
    /// The program could not be executed. The process that was to do it has ended, and is not yet buried.
    Failed(Process, Errno),
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
            limits: limits.collect(),
            umask: resources.umask.map(Mode::from_raw_mode),
            nice: resources.nice.into(),
        }
    }

    /// In `cgroup`, or where the spawner is; as the spawner's own account, or with `credentials`. Errors: there
    /// can be no more processes.
    pub fn start(
        &mut self,
        wanted: &Wanted<'_>,
        fds: &[OwnedFd; 3],
        cgroup: Option<&Cgroup>,
        credentials: Option<&Credentials>,
    ) -> std::io::Result<Launched> {
        let arguments: Strings = message::strings(wanted.arguments).collect();
        let environment: Strings = message::strings(wanted.environment).collect();
        let Launcher { stack, limits, umask: mask, nice: steps } = self;
        let mut failed = None;
        // Allocates nothing, takes no lock.
        let mut prepare = || {
            setpgid(None, None)?;
            cgroup.map_or(Ok(()), Cgroup::enter)?;
            let [stdin, stdout, stderr] = fds;
            dup2_stdin(stdin)?;
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
                sys::start_timer(sys::make_kill_timer()?, EXECUTES.as_secs() as libc::time_t)?;
                credentials.assume()?;
            }
            // A script has nobody who ends it when the spawner is killed. Other credentials take this away.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            chdir(wanted.folder)
        };
        let mut child = || {
            failed = match prepare() {
                Ok(()) => {
                    // Fails for a bad number only.
                    _ = SigSet::empty().thread_set_mask();
                    Some(sys::execute(wanted.program, &arguments, &environment))
                }
                Err(errno) => Some(errno),
            };
        };
        let (pid, pidfd) = sys::clone_until_exec(stack, &mut child)?;
        let process = Process { pid, pidfd };
        Ok(match failed {
            None => Launched::Running(process),
            Some(errno) => Launched::Failed(process, errno),
        })
    }
}

/// No limit is higher than the spawner's own: only root could raise it.
fn lower(resource: Resource, limit: Rlimit) -> Rlimit {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let lower = |value: Option<u64>| Some(value.unwrap_or(u64::MAX).min(most));
    Rlimit { current: lower(limit.current), maximum: lower(limit.maximum) }
}
