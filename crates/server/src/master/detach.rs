//! To go to the background, as old servers do: the process that was started ends as soon as another one serves, with 0,
//! or with the exit code of that one if it fails.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use site::model::{Sink, Site};

use crate::sys::{self, Fork};

const SERVES: u8 = b'!';

/// The end of a pipe to the process that was started, which waits.
pub struct Starter {
    pipe: Option<OwnedFd>,
    stderr: Stream,
}

/// What becomes of a standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    /// A log is written to it.
    Kept,
    Closed,
}

/// Returns in a process of its own session.
pub fn detach() -> io::Result<Starter> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    match sys::fork()? {
        Fork::Parent(pid) => {
            drop(theirs);
            std::process::exit(exit_code(ours, pid))
        }
        Fork::Child => {
            drop(ours);
            setsid()?;
            Ok(Starter { pipe: Some(theirs), stderr: Stream::Kept })
        }
    }
}

/// Waits until the other process serves or has ended.
fn exit_code(pipe: OwnedFd, pid: Pid) -> i32 {
    let mut byte = [0];
    if File::from(pipe).read(&mut byte).is_ok_and(|n| n == 1) {
        return 0;
    }
    match waitpid(pid, None) {
        Ok(WaitStatus::Exited(_, code)) => code,
        _ => 1,
    }
}

impl Starter {
    /// Closes the streams to which no log is written. Standard error stays open until the site is served.
    pub fn prepare(&mut self, site: &Site) {
        let keeps = |sink: &Sink| site.sinks().contains(&sink);
        self.stderr = if keeps(&Sink::Stderr) { Stream::Kept } else { Stream::Closed };
        let Some(nothing) = nothing() else { return };
        // If it fails, the streams stay open.
        _ = dup2_stdin(&nothing);
        if !keeps(&Sink::Stdout) {
            _ = dup2_stdout(&nothing);
        }
    }

    /// In a child, which reports by other ways.
    pub fn release(&mut self) {
        self.pipe = None;
        if let (Stream::Closed, Some(nothing)) = (self.stderr, nothing()) {
            _ = dup2_stderr(&nothing);
        }
    }

    /// The site is served: the process that was started may end.
    pub fn ready(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            // It may have been killed.
            _ = File::from(pipe).write_all(&[SERVES]);
            self.release();
        }
    }
}

fn nothing() -> Option<File> {
    File::options().read(true).write(true).open("/dev/null").ok()
}
