//! Files without a name, for what waits in them. Knows nothing of requests and scripts.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, open, openat, unlinkat};
use rustix::io::Errno;

use super::message::Event;
use crate::clock;
use crate::process::ipc::Channel;

/// Bytes of the thread's stack.
const STACK: usize = 64 * 1024;

/// How many names are tried on a file system that cannot make files without a name.
const ATTEMPTS: u64 = 8;

/// Opens files for the worker at the other end of a channel, on a thread of its own: a disk that does not respond holds
/// no script. The thread starts with the first file.
pub struct SpoolOpener {
    folder: PathBuf,
    channel: Channel,
    /// No longer than what the worker allows to be opened at the same time.
    numbers: Option<Sender<u64>>,
}

impl SpoolOpener {
    pub fn new(channel: &Channel, folder: &Path) -> io::Result<SpoolOpener> {
        Ok(SpoolOpener { folder: folder.to_owned(), channel: channel.try_clone()?, numbers: None })
    }

    /// Has the file of this number opened, and the event sent. Errors: there is no thread.
    pub fn open(&mut self, number: u64) -> io::Result<()> {
        if self.numbers.is_none() {
            let (sender, numbers) = channel();
            let (folder, to) = (self.folder.clone(), self.channel.try_clone()?);
            let opener = thread::Builder::new().name("spool".into()).stack_size(STACK);
            opener.spawn(move || open_all(&folder, &to, &numbers))?;
            self.numbers = Some(sender);
        }
        let sent = self.numbers.as_ref().map_or(Ok(()), |numbers| numbers.send(number));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Until there is no worker, or no further file can follow.
fn open_all(folder: &Path, to: &Channel, numbers: &Receiver<u64>) {
    for number in numbers {
        let sent = send(to, &Event::SpoolOpened { number, file: open_unnamed(folder) });
        // The file cannot pass now, such as for the number of those in flight, and the request is not to wait for it.
        let sent = sent.or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Err(error),
            _ => send(to, &Event::SpoolOpened { number, file: Err(error) }),
        });
        if sent.is_err() {
            break;
        }
    }
}

/// Waits while the channel is full.
fn send(to: &Channel, event: &Event) -> io::Result<()> {
    loop {
        match to.send(event) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                _ = poll(&mut [PollFd::new(to, PollFlags::OUT)], None);
            }
            sent => return sent,
        }
    }
}

/// Makes an empty file, which the kernel removes when it is closed. Errors: of `open`.
fn open_unnamed(folder: &Path) -> io::Result<OwnedFd> {
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    match open(folder, flags | OFlags::TMPFILE, mode) {
        // Not every file system has O_TMPFILE (open(2)). A kernel without it fails as for writing to a folder.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        opened => return Ok(opened?),
    }
    for attempt in 0..ATTEMPTS {
        let number = clock::micros().wrapping_mul(ATTEMPTS).wrapping_add(attempt);
        let path = folder.join(OsString::from(format!("taipan-{}-{number:x}", std::process::id())));
        match openat(CWD, &path, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
            Ok(file) => {
                unlinkat(CWD, &path, AtFlags::empty())?;
                return Ok(file);
            }
        }
    }
    Err(Errno::EXIST.into())
}
