//! A copy of this process that answers a question with a text, and ends: it may take on another account or root, load
//! libraries, or hang on a disk, and this process does not. Does not know the questions.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::sys::{self, Fork};

/// Behind the text of `answer_within`.
const END: u8 = 0;

/// Runs `work` in a child process, and returns the child and the resulting text. The caller reaps the child. Errors: no
/// child could be started.
pub fn answer(work: impl FnOnce() -> String) -> io::Result<(Pid, String)> {
    let (mut reader, mut writer) = io::pipe()?;
    match sys::fork()? {
        Fork::Child => {
            drop(reader);
            let written = writer.write_all(work().as_bytes());
            // Closed before the end, which a thread that waits for a disk may delay.
            drop(writer);
            std::process::exit(i32::from(written.is_err()))
        }
        Fork::Parent(child) => {
            drop(writer);
            let mut text = String::new();
            match reader.read_to_string(&mut text) {
                Ok(_) => Ok((child, text)),
                Err(error) => {
                    _ = waitpid(child, None);
                    Err(error)
                }
            }
        }
    }
}

/// As `answer`, but waits no longer than `time`, and not for children of the child, which have copies of the pipe.
/// Kills and reaps the child. Errors: also that the time is over.
pub fn answer_within(time: Duration, work: impl FnOnce() -> String) -> io::Result<String> {
    let (mut reader, mut writer) = io::pipe()?;
    let child = match sys::fork()? {
        Fork::Child => {
            drop(reader);
            let text = [work().into_bytes(), vec![END]].concat();
            std::process::exit(i32::from(writer.write_all(&text).is_err()))
        }
        Fork::Parent(child) => child,
    };
    drop(writer);
    let until = Instant::now() + time;
    let mut text = Vec::new();
    let mut receive = || -> io::Result<()> {
        while text.last() != Some(&END) {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            if poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&left))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut buffer = [0; 4096];
            match reader.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => text.extend_from_slice(&buffer[..n]),
            }
        }
        Ok(())
    };
    let received = receive();
    // One that waits for a disk ends when that responds, and is reaped later.
    _ = kill(child, Signal::SIGKILL);
    _ = waitpid(child, received.is_err().then_some(WaitPidFlag::WNOHANG));
    received?;
    text.pop();
    String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
}
