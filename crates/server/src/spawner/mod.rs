//! The spawner: a process that starts scripts for the workers of one generation, which cannot execute programs. It has
//! the generation's account, and keeps the capabilities to start scripts as other accounts where the site names some.
//! It has one thread for each worker, and a channel between the two (`message`).
//!
//! Here is the worker's end. It knows of programs, process groups and descriptors, and nothing of CGI or requests. It
//! logs the processes, where a key asks for that.

pub mod message;

pub mod process;

pub mod allowlist;
pub mod cgroup;
pub mod groups;
pub mod launch;
mod spool;

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use site::log_line;
use site::model::ErrorFormat;
use tokio::sync::oneshot;

use crate::process::ipc::{self, AsyncChannel, Channel, Received};
use crate::{clock, log};
use message::{Command, Event};

/// How long processes may take to end after SIGKILL, before a spawner without a worker leaves them alone.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// Spool files that the spawner may have to open at the same time: more are asked for only while their disk does not
/// respond.
const OPENING: usize = 256;

/// A program to be started.
#[derive(Debug, Clone, Copy)]
pub struct SpawnRequest<'a> {
    /// An absolute path.
    pub program: &'a CStr,
    /// A block (`message::block`). The first argument is the program's own name.
    pub arguments: &'a [u8],
    /// A block of `NAME=VALUE`.
    pub environment: &'a [u8],
    /// The working directory.
    pub folder: &'a CStr,
    /// The account to run as, as the configuration names it. Empty: that of the spawner.
    pub account: &'a CStr,
}

/// The standard streams of a program.
#[derive(Debug)]
pub struct Streams {
    /// `None`: the program finds the end of its input at once.
    pub stdin: Option<OwnedFd>,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(u8),
    Signal(i32),
    /// The kernel killed it: its control group had no memory left.
    OutOfMemory,
    /// It was not started: the error of `execve(2)` or of a step before it, as in errno(3).
    NotStarted(i32),
    /// Unknown: the spawner has ended, which kills what it has started.
    Lost,
}

impl Exit {
    /// As wait(2) has it: an exit code in the second byte, or a signal in the first.
    fn wait_status(self) -> i32 {
        match self {
            Exit::Code(code) => i32::from(code) << 8,
            Exit::Signal(signal) => signal,
            Exit::OutOfMemory => libc::SIGKILL,
            Exit::NotStarted(_) | Exit::Lost => 0,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit status {code}"),
            Exit::Signal(signal) => write!(f, "ended by signal {signal}"),
            Exit::OutOfMemory => f.write_str("killed: it used more memory than `cgroup_memory`"),
            Exit::NotStarted(errno) => write!(f, "not started: {}", io::Error::from_raw_os_error(*errno)),
            Exit::Lost => f.write_str("the spawner has gone"),
        }
    }
}

/// The other processes of a group when its leader, the program that was started, has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descendants {
    None,
    Alive,
    /// They are alive, and are left alone: jobs in the background.
    Kept,
}

/// The worker's end. When it is dropped, the spawner ends everything that was started here.
pub struct Spawner {
    channel: AsyncChannel<Command<'static>>,
    pending: RefCell<HashMap<u64, Pending>>,
    /// How the error log says which processes were started, and have ended. `None`: it does not.
    reports: Option<ErrorFormat>,
    next: Cell<u64>,
    /// Spool files that have not been opened.
    opening: Cell<usize>,
}

/// An event that is waited for, by the number of its command.
enum Pending {
    Exit(oneshot::Sender<(Exit, Descendants)>, Option<Reported>),
    File(oneshot::Sender<io::Result<OwnedFd>>),
}

/// A program whose process the log has.
struct Reported {
    program: String,
    /// `None`: it is not known yet.
    pid: Option<u32>,
}

/// A process group: a program that was started, and all that it starts. Dropping this terminates the group.
pub struct Child {
    spawner: Rc<Spawner>,
    number: u64,
    exited: oneshot::Receiver<(Exit, Descendants)>,
    exit: Option<(Exit, Descendants)>,
    termination: Cell<Termination>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Termination {
    NotRequested,
    Requested,
}

impl Spawner {
    /// Within the worker's runtime, which has to run `receive_events`. The spawner terminates the groups of an earlier
    /// worker that had the same channel.
    pub fn new(channel: Channel, reports: Option<ErrorFormat>) -> io::Result<Rc<Spawner>> {
        message::set_send_buffer(&channel)?;
        // Higher than those of an earlier worker.
        let first = clock::micros() << 8;
        let channel = AsyncChannel::new(channel)?;
        channel.send(Command::Begin(first));
        let (pending, next, opening) = (RefCell::default(), Cell::new(first), Cell::new(0));
        Ok(Rc::new(Spawner { channel, pending, reports, next, opening }))
    }

    /// Starts a program in a process group of its own. `Child::wait` gives the error of a program that cannot be
    /// started. Errors: `InvalidInput` for a request that is too long, and `BrokenPipe` when the spawner has ended.
    pub async fn start(self: &Rc<Spawner>, request: SpawnRequest<'_>, streams: Streams) -> io::Result<Child> {
        let number = self.number();
        let reported = self.reports.map(|_| {
            let program = request.program.to_string_lossy().into_owned();
            Reported { program, pid: None }
        });
        self.channel.send_unqueued(&Command::Start { number, request, streams: Some(streams) }).await?;
        let (sender, exited) = oneshot::channel();
        self.pending.borrow_mut().insert(number, Pending::Exit(sender, reported));
        let termination = Cell::new(Termination::NotRequested);
        Ok(Child { spawner: self.clone(), number, exited, exit: None, termination })
    }

    /// An empty file without a name in the spool folder, to be written and read. Errors: of the spawner's
    /// `open`; `WouldBlock` where so many are waited for already.
    pub async fn open_spool(&self) -> io::Result<OwnedFd> {
        if self.opening.get() >= OPENING {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let number = self.number();
        self.channel.send_unqueued(&Command::OpenSpool(number)).await?;
        let (sender, file) = oneshot::channel();
        self.pending.borrow_mut().insert(number, Pending::File(sender));
        self.opening.update(|opening| opening + 1);
        file.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// Receives the spawner's events. Does not end: when the spawner has, the master replaces this process.
    pub async fn receive_events(self: Rc<Spawner>) -> io::Result<()> {
        let mut buffer = [0; message::MAX_EVENT];
        loop {
            match self.channel.receive_in(&mut buffer).await {
                Ok(Received::Message(event)) => self.on_event(event),
                Err(error) if ipc::lacks_descriptors(&error) => {}
                Ok(Received::End) | Err(_) => break,
            }
        }
        // Those that wait receive `Exit::Lost`, or an error.
        self.pending.borrow_mut().clear();
        std::future::pending().await
    }

    /// Programs that have not ended, and files that have not been opened.
    pub fn pending(&self) -> usize {
        self.pending.borrow().len()
    }

    fn on_event(&self, event: Event) {
        if let (Event::Started { number, pid }, Some(format)) = (&event, self.reports) {
            if let Some(Pending::Exit(_, Some(reported))) = self.pending.borrow_mut().get_mut(number) {
                let text = log_line::process_started(format, &reported.program, *pid);
                log::audit(format_args!("{text}"));
                reported.pid = Some(*pid);
            }
            return;
        }
        // Events for an earlier worker are dropped, and those for a receiver that is gone.
        let pending = self.pending.borrow_mut().remove(&event.number());
        match (event, pending) {
            (Event::Exited { exit, descendants, .. }, Some(Pending::Exit(sender, reported))) => {
                if let (Some(format), Some(pid)) = (self.reports, reported.and_then(|process| process.pid)) {
                    let text = log_line::process_ended(format, pid, exit.wait_status(), &exit.to_string());
                    log::audit(format_args!("{text}"));
                }
                _ = sender.send((exit, descendants));
            }
            (Event::SpoolOpened { file, .. }, Some(Pending::File(sender))) => {
                self.opening.update(|opening| opening - 1);
                _ = sender.send(file);
            }
            _ => {}
        }
    }

    fn number(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        number
    }
}

impl Child {
    /// How the program ended. Its descendants may live on until this is dropped.
    pub async fn wait(&mut self) -> Exit {
        let (exit, _) = match self.exit {
            Some(exit) => exit,
            None => *self.exit.insert((&mut self.exited).await.unwrap_or((Exit::Lost, Descendants::None))),
        };
        exit
    }

    /// Whether it has exited, and has left jobs in the background that live on.
    pub fn left_jobs(&self) -> bool {
        matches!(self.exit, Some((_, Descendants::Kept)))
    }

    /// Has the spawner send SIGTERM to the group, and SIGKILL after the grace.
    pub fn terminate(&self) {
        let is_first = self.termination.replace(Termination::Requested) == Termination::NotRequested;
        let ends_more = !matches!(self.exit, Some((_, Descendants::None | Descendants::Kept)));
        if is_first && ends_more {
            self.spawner.channel.send(Command::Terminate(self.number));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.exit = self.exited.try_recv().ok();
        }
        self.terminate();
    }
}
