//! The exchange with a CGI script that runs: its input is written, its output and its errors are read, and its exit
//! ends both. Nothing here waits. The worker waits in its runtime, and `fcgi-wrap` in poll(2).

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::spawner::{Exit, Streams};

/// How long to wait for more output of a script that has exited, when other processes hold its output open.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Our ends. `None` for a pipe that is closed.
pub struct ScriptIo<Pipe> {
    pub stdin: Option<Pipe>,
    pub stdout: Option<Pipe>,
    pub stderr: Option<Pipe>,
    pub exit: Option<Exit>,
}

/// The end of a pipe that does not block.
pub trait PipeEnd {
    /// Errors: `WouldBlock` when there is nothing to read.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Errors: `WouldBlock` when the buffer of the kernel is full.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
}

impl PipeEnd for OwnedFd {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(self, &mut *buffer))?)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::write(self, bytes))?)
    }
}

/// Pipes for the output and the errors of a script. Its own ends block, as programs expect.
pub fn output_pipes() -> io::Result<(ScriptIo<OwnedFd>, Streams)> {
    let (stdout, their_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    set_nonblocking(&stdout)?;
    set_nonblocking(&stderr)?;
    let ours = ScriptIo { stdin: None, stdout: Some(stdout), stderr: Some(stderr), exit: None };
    Ok((ours, Streams { stdin: None, stdout: their_stdout, stderr: their_stderr }))
}

/// As `output_pipes`, and one for its input.
pub fn pipes() -> io::Result<(ScriptIo<OwnedFd>, Streams)> {
    let (mut ours, mut theirs) = output_pipes()?;
    let (their_stdin, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
    set_nonblocking(&stdin)?;
    (ours.stdin, theirs.stdin) = (Some(stdin), Some(their_stdin));
    Ok((ours, theirs))
}

fn set_nonblocking(end: &OwnedFd) -> io::Result<()> {
    // It is new, and has no other flag that this could remove.
    Ok(fcntl_setfl(end, OFlags::NONBLOCK)?)
}

impl<Pipe: PipeEnd> ScriptIo<Pipe> {
    /// Writes the start of `bytes`, which belong to the body of the request. Errors: `WouldBlock`, or the script reads
    /// no more of it; then its input is closed.
    pub fn write_stdin(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stdin = self.stdin.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        let written = stdin.write(bytes);
        if written.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
            self.stdin = None;
        }
        written
    }

    /// Reads output. 0: it has ended. Errors: `WouldBlock`, or it cannot be read; then it is closed, as at its end.
    pub fn read_stdout(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read(&mut self.stdout, buffer)
    }

    /// As `read_stdout`, of the error stream.
    pub fn read_stderr(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read(&mut self.stderr, buffer)
    }

    /// How long to wait for more output. `None`: as long as the script runs.
    pub fn output_timeout(&self) -> Option<Duration> {
        self.exit.map(|_| LAST_OUTPUT)
    }
}

fn read(pipe: &mut Option<impl PipeEnd>, buffer: &mut [u8]) -> io::Result<usize> {
    let Some(end) = pipe else { return Ok(0) };
    let result = end.read(buffer);
    let is_open = match &result {
        Ok(length) => *length > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    };
    if !is_open {
        *pipe = None;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_a_pipe_at_its_end() {
        let (mut ours, theirs) = pipes().unwrap();
        let mut buffer = [0; 8];
        let blocked = |result: io::Result<usize>| result.unwrap_err().kind() == io::ErrorKind::WouldBlock;
        assert!(blocked(ours.read_stdout(&mut buffer)));
        theirs.stdout.write(b"out").unwrap();
        assert_eq!(ours.read_stdout(&mut buffer).unwrap(), 3);
        assert!(blocked(ours.read_stdout(&mut buffer)) && ours.stdout.is_some());
        assert_eq!(ours.write_stdin(b"in").unwrap(), 2);
        drop(theirs);
        assert_eq!(ours.read_stdout(&mut buffer).unwrap(), 0);
        assert_eq!(ours.read_stderr(&mut buffer).unwrap(), 0);
        assert_eq!(ours.write_stdin(b"in").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(ours.stdin.is_none() && ours.stdout.is_none() && ours.stderr.is_none());
        assert_eq!(ours.read_stdout(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn reports_a_full_pipe() {
        let (mut ours, _theirs) = pipes().unwrap();
        let body = vec![0; 1 << 20];
        let written = ours.write_stdin(&body).unwrap();
        assert!(written < body.len() && ours.stdin.is_some());
        assert_eq!(ours.write_stdin(&body).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
