//! Programs that run besides the server, such as its upstreams.

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
