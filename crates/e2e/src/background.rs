//! Programs that run besides the server, such as its upstreams, and facts about any process by its number.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::TIMEOUT;
use crate::output::Lines;
use crate::server::wait_until;

/// A program that runs for as long as the test, with all its children.
#[derive(Debug)]
pub struct BackgroundProcess {
    child: Child,
    errors: Lines,
    output: Lines,
}

impl BackgroundProcess {
    /// Starts it in its own process group. Panics if it cannot be started.
    pub fn start(command: &mut Command) -> BackgroundProcess {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = command.process_group(0).spawn();
        let mut child = started.unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let errors = Lines::of(child.stderr.take().expect("it is a pipe"));
        let output = Lines::of(child.stdout.take().expect("it is a pipe"));
        BackgroundProcess { child, errors, output }
    }

    /// As `start`, and waits until a socket listens at this path.
    pub fn listening(command: &mut Command, socket: &Path) -> BackgroundProcess {
        let process = BackgroundProcess::start(command);
        let listens = || std::os::unix::net::UnixStream::connect(socket).is_ok();
        assert!(wait_until(TIMEOUT, listens), "{command:?} does not listen:\n{}", process.errors.text());
        process
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The lines of its standard error.
    pub fn errors(&self) -> &Lines {
        &self.errors
    }

    /// The lines of its standard output.
    pub fn output(&self) -> &Lines {
        &self.output
    }

    /// Kills it and all its children.
    pub fn end(&mut self) {
        // Fails only if all of them have ended. The wait comes later, so that the process group still exists.
        _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        _ = self.child.wait();
    }
}

impl Drop for BackgroundProcess {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.end();
        }
        if std::thread::panicking() {
            eprintln!("a background program wrote:\n{}", self.errors.text());
        }
    }
}

/// Whether a process runs: it exists and is no zombie. Descriptors stay open until its last thread has ended, which may
/// be another one than the first.
pub fn runs(pid: u32) -> bool {
    /// `num_threads` of proc_pid_stat(5).
    const THREADS: usize = 17;
    let stat = stat(pid);
    let has_threads =
        || stat.get(THREADS).and_then(|count| count.parse().ok()).is_some_and(|count: u32| count > 1);
    stat.first().is_some_and(|state| !matches!(state.as_str(), "Z" | "X") || has_threads())
}

/// The parent of a process.
pub fn parent_of(pid: u32) -> u32 {
    let parent = stat(pid).get(1).and_then(|pid| pid.parse().ok());
    parent.unwrap_or_else(|| panic!("{pid} does not run"))
}

/// The children of a process that it has not waited for.
pub fn children_of(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// `/proc/PID/stat` from its third field on; empty if there is no such process.
fn stat(pid: u32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split_whitespace().map(str::to_owned).collect()
}
