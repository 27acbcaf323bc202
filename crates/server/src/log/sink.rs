//! The destination of a log: a file, a standard stream, or the system's log daemon.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Stat, flock, fstat};
use rustix::net::SendFlags;
use site::model::Sink;

use super::daemon::Daemon;
use crate::process::privileged_file;
use crate::sys::calls;

pub struct OpenSink {
    sink: Sink,
    to: To,
    /// Lines that could not be written, and are not reported yet.
    lost: u64,
    /// Why the last ones of them could not be written. `None`: there is nothing to write to, or the daemon did not take
    /// them.
    failure: Option<io::Error>,
    /// Whether the output ends within a line.
    torn: bool,
    /// Lines for a logger that has ended. The one in its place gets them.
    kept: Vec<u8>,
}

/// Bytes of lines that wait for another logger.
const MOST_KEPT: usize = 1024 * 1024;

enum To {
    Stdout,
    Stderr,
    File(File),
    /// A file, or a pipe to the logger, that `replace` gives. `None`: it has not come yet.
    Given(Option<File>),
    Daemon(Daemon),
}

/// What another process can write to in the place of this one.
pub enum SharedLog {
    /// A file, a standard stream, or a pipe to the logger.
    File(OwnedFd),
    /// A socket of the log daemon.
    Daemon(OwnedFd),
}

impl SharedLog {
    pub fn try_clone(&self) -> io::Result<SharedLog> {
        Ok(match self {
            SharedLog::File(file) => SharedLog::File(file.try_clone()?),
            SharedLog::Daemon(socket) => SharedLog::Daemon(socket.try_clone()?),
        })
    }
}

impl OpenSink {
    pub fn open(sink: &Sink) -> Result<OpenSink, String> {
        let to = match sink {
            Sink::Stdout => To::Stdout,
            Sink::Stderr => To::Stderr,
            Sink::Syslog => To::Daemon(Daemon::connect()),
            Sink::File(path) => {
                let file = privileged_file::open_log(path)?;
                // Says to a logger that the file is still written, if a later configuration rotates it.
                _ = flock(&file, FlockOperation::NonBlockingLockShared);
                To::File(file)
            }
            Sink::Command(_) | Sink::Tcp(_) | Sink::Collector(_) => To::Given(None),
        };
        Ok(OpenSink::new(sink, to))
    }

    /// Lines are lost until `replace` gives it a file, or a pipe to the logger.
    pub fn unopened(sink: &Sink) -> OpenSink {
        OpenSink::new(sink, To::Given(None))
    }

    fn new(sink: &Sink, to: To) -> OpenSink {
        OpenSink { sink: sink.clone(), to, lost: 0, failure: None, torn: false, kept: Vec::new() }
    }

    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    /// Writes to this file, pipe or socket of the daemon from now on.
    pub fn replace(&mut self, to: OwnedFd) {
        match &mut self.to {
            To::File(old) | To::Given(Some(old)) => {
                let file = |fd: &dyn AsFd| fstat(fd.as_fd()).map(|stat| (stat.st_dev, stat.st_ino));
                self.torn &= file(old) == file(&to);
                *old = to.into();
            }
            To::Given(old) => *old = Some(to.into()),
            To::Daemon(daemon) => daemon.replace(to),
            To::Stdout | To::Stderr => {}
        }
        if !self.kept.is_empty() {
            let kept = std::mem::take(&mut self.kept);
            self.write(&kept);
        }
    }

    /// Writes there from now on, whatever it was before.
    pub fn move_to(&mut self, log: SharedLog) {
        self.to = match log {
            SharedLog::File(file) => To::Given(Some(file.into())),
            SharedLog::Daemon(socket) => To::Daemon(Daemon::of(socket)),
        };
    }

    /// For a process that may have had another log. `None`: there is nothing to write to, such as no daemon.
    pub fn share(self) -> Option<SharedLog> {
        match self.to {
            To::Stdout => io::stdout().as_fd().try_clone_to_owned().ok().map(SharedLog::File),
            To::Stderr => io::stderr().as_fd().try_clone_to_owned().ok().map(SharedLog::File),
            To::File(file) => Some(SharedLog::File(file.into())),
            To::Given(file) => file.map(OwnedFd::from).map(SharedLog::File),
            To::Daemon(daemon) => daemon.into_socket().map(SharedLog::Daemon),
        }
    }

    /// The descriptor of a log, for a process that has the same one.
    pub fn into_fd(self) -> Option<OwnedFd> {
        match self.to {
            To::File(file) => Some(file.into()),
            To::Given(file) => file.map(OwnedFd::from),
            To::Daemon(daemon) => daemon.into_socket(),
            To::Stdout | To::Stderr => None,
        }
    }

    /// Whether both are standard streams to the same file, such as one pipe.
    pub fn has_stream_of(&self, other: &OpenSink) -> bool {
        let is_standard = |sink: &OpenSink| matches!(sink.to, To::Stdout | To::Stderr);
        let file = |stat: Stat| (stat.st_dev, stat.st_ino);
        is_standard(self)
            && is_standard(other)
            && matches!((fstat(io::stdout()), fstat(io::stderr())), (Ok(one), Ok(two)) if file(one) == file(two))
    }

    /// Whether the daemon could not be reached by the last line.
    pub fn lacks_daemon(&self) -> bool {
        matches!(&self.to, To::Daemon(daemon) if !daemon.is_reached())
    }

    /// Like `write`, but drops the lines instead of waiting for the reader.
    pub fn write_unless_full(&mut self, lines: &[u8]) {
        let has_capacity = match &mut self.to {
            To::Stdout => takes_bytes(io::stdout()),
            To::Stderr => takes_bytes(io::stderr()),
            To::File(file) | To::Given(Some(file)) => takes_bytes(file),
            To::Given(None) => false,
            To::Daemon(daemon) => {
                daemon.send_lines(lines, SendFlags::DONTWAIT);
                return;
            }
        };
        if has_capacity {
            self.write(lines);
        }
    }

    pub fn write(&mut self, lines: &[u8]) {
        let written = match &mut self.to {
            To::Stdout => whole(&mut io::stdout().lock(), lines, &mut self.torn),
            To::Stderr => whole(&mut io::stderr().lock(), lines, &mut self.torn),
            To::File(file) | To::Given(Some(file)) => whole(file, lines, &mut self.torn),
            To::Given(None) => Err((lines, None)),
            To::Daemon(daemon) => match daemon.send_lines(lines, SendFlags::empty()) {
                [] => Ok(()),
                left => Err((left, None)),
            },
        };
        let Err((left, why)) = written else { return };
        // The logger has ended within a line: the next one gets all of it.
        let of_line = lines[..lines.len() - left.len()].iter().rev().take_while(|&&b| b != b'\n').count();
        let whole = &lines[lines.len() - left.len() - of_line..];
        let is_broken = why.as_ref().is_some_and(|why| why.kind() == io::ErrorKind::BrokenPipe);
        if is_broken && self.has_logger() && self.kept.len() + whole.len() <= MOST_KEPT {
            self.kept.extend_from_slice(whole);
            self.torn = false;
            return;
        }
        self.lost += count_lines(left);
        self.failure = why;
    }

    /// Whether another process may have its end of the pipe, and be replaced.
    fn has_logger(&self) -> bool {
        let is_stream = matches!(self.sink, Sink::Stdout | Sink::Stderr | Sink::Syslog);
        matches!(self.to, To::Given(Some(_))) && !is_stream
    }

    /// No other logger will get what is kept for one.
    pub fn lose_kept(&mut self) {
        if !self.kept.is_empty() {
            self.lost += count_lines(&std::mem::take(&mut self.kept));
            self.failure = Some(io::ErrorKind::BrokenPipe.into());
        }
    }

    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The log, and why its last lines were lost.
    pub fn why_lost(&self) -> String {
        match (&self.failure, &self.to) {
            (Some(why), _) => format!("{} cannot be written: {why}", self.sink),
            (None, To::Daemon(_)) => "the log daemon does not take them (syslog)".to_owned(),
            (None, To::Given(None)) => format!("{} is not open", self.sink),
            (None, _) => format!("{} takes no bytes", self.sink),
        }
    }

    /// Called when this many have been reported.
    pub fn subtract_lost(&mut self, lost: u64) {
        self.lost -= lost.min(self.lost);
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&b| b == b'\n').count() as u64
}

/// Whether a message can be written without waiting.
fn takes_bytes(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Lines that were not written, and why.
type Unwritten<'a> = (&'a [u8], Option<io::Error>);

/// Writes as much as possible. `torn`, before and after the call: whether the output ends within a line. Errors: the
/// rest.
fn whole<'a>(to: &mut impl Write, lines: &'a [u8], torn: &mut bool) -> Result<(), Unwritten<'a>> {
    if *torn {
        write_all(to, b"\n").map_err(|(_, why)| (lines, why))?;
    }
    *torn = false;
    write_all(to, lines).inspect_err(|(left, _)| {
        *torn = lines[..lines.len() - left.len()].last().is_some_and(|&b| b != b'\n');
    })
}

/// Errors: the bytes that were not written.
fn write_all<'a>(to: &mut impl Write, bytes: &'a [u8]) -> Result<(), Unwritten<'a>> {
    let mut left = bytes;
    while !left.is_empty() {
        match calls::write(to, left) {
            Ok(0) => return Err((left, None)),
            Ok(n) => left = &left[n..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((left, Some(error))),
        }
    }
    to.flush().map_err(|error| (bytes, Some(error)))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn lines_for_a_logger_that_has_ended_wait_for_the_next_one() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
        let mut sink = OpenSink::unopened(&Sink::Command(vec!["/bin/cat".into()]));
        sink.replace(writer);
        drop(reader);
        sink.write(b"a\nb\n");
        sink.write(b"c\n");
        assert_eq!(sink.lost(), 0);
        let (next, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
        sink.replace(writer);
        sink.write(b"d\n");
        let mut bytes = [0; 20];
        let count = File::from(next).read(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes[..count]), "a\nb\nc\nd\n");
        sink.write(b"e\nf\n");
        sink.write(&vec![b'\n'; MOST_KEPT]);
        assert_eq!(sink.lost(), MOST_KEPT as u64, "no more than so much is kept");
        sink.lose_kept();
        assert_eq!(sink.lost(), MOST_KEPT as u64 + 2);
    }

    #[test]
    fn a_cut_line_is_ended_where_it_is_and_in_no_other_file() {
        let full = || {
            // It takes 64 KiB, and is not waited for.
            let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
            let mut sink = OpenSink::unopened(&Sink::Stdout);
            sink.replace(writer.try_clone().unwrap());
            sink.write(&[&[b'x'; 100_000][..], b"\n"].concat());
            assert_eq!(sink.lost(), 1);
            let mut rest = Vec::new();
            _ = File::from(reader.try_clone().unwrap()).read_to_end(&mut rest);
            (sink, reader, writer)
        };
        for (is_same, expected) in [(true, "\na\n"), (false, "a\n")] {
            let (mut sink, old, old_writer) = full();
            let (new, new_writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
            sink.replace(if is_same { old_writer } else { new_writer });
            sink.write(b"a\n");
            let mut bytes = [0; 10];
            let count = File::from(if is_same { old } else { new }).read(&mut bytes).unwrap();
            assert_eq!(String::from_utf8_lossy(&bytes[..count]), expected, "the same file: {is_same}");
        }
    }
}
