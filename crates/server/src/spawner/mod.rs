//! The spawner: a process that starts scripts for the workers of one serving process, which is in a sandbox
//! and can execute nothing. It has the same account, and keeps what it takes to start scripts as others where the
//! site names some. It has one thread for each worker, with a channel between the two (`message`).
//!
//! Here is the worker's end. It knows of programs, groups and descriptors, and nothing of CGI or requests.

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
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::ipc::{Channel, Received, SendQueue};
use crate::{clock, sys};
use message::{Answer, Request};

/// How long processes that were killed may take to end, when nobody is there any more to be told.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// What is to be started. The block of the environment is `NAME=VALUE` and a NUL, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct SpawnRequest<'a> {
    /// An absolute path.
    pub program: &'a CStr,
    /// The program's own name is the first of them.
    pub arguments: &'a [&'a CStr],
    pub environment: &'a [u8],
    /// Where it begins to work.
    pub folder: &'a CStr,
    /// That it runs as, in the words of the configuration. Empty: the server's own.
    pub account: &'a CStr,
}

/// How a program has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(u8),
    /// By this signal.
    Signal(i32),
    /// The kernel has killed it: its control group had no memory left.
    OutOfMemory,
    /// It was never there: the error of `execve` or of what comes before, as `errno(3)` counts them.
    NotStarted(i32),
    /// Nobody can say: the spawner has gone, and takes what it has started with it.
    Lost,
}

/// The worker's end. Dropping it ends everything that was started here.
pub struct Spawner {
    channel: AsyncFd<Channel>,
    waiting: RefCell<HashMap<u64, Waiting>>,
    /// Each program that was started is told to end once.
    send_queue: SendQueue<Request>,
    next: Cell<u64>,
}

/// Who waits for an answer, by the number of what was asked.
enum Waiting {
    End(oneshot::Sender<(Exit, Descendants)>),
    File(oneshot::Sender<io::Result<OwnedFd>>),
}

/// What is left of a group when the program that was started has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descendants {
    None,
    /// Processes that it has started, and that have not left the group.
    Alive,
}

/// A program on its way, and all that it starts: one process group. Dropping it ends whoever is left of
/// the group.
pub struct Started {
    spawner: Rc<Spawner>,
    number: u64,
    end: oneshot::Receiver<(Exit, Descendants)>,
    ended: Option<(Exit, Descendants)>,
    asked: Cell<Asked>,
}

/// Has the group been told to end?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    No,
    Yes,
}

impl Spawner {
    /// Within the worker's runtime, which has to run `listen`. The other end begins anew: what a worker
    /// before has started over the same channel is ended.
    pub fn new(channel: Channel) -> io::Result<Rc<Spawner>> {
        message::make_room(&channel)?;
        // Numbers of a worker before are not given again.
        let first = clock::micros() << 8;
        let spawner = Spawner {
            channel: sys::watch(channel, Interest::READABLE | Interest::WRITABLE)?,
            waiting: RefCell::default(),
            send_queue: SendQueue::default(),
            next: Cell::new(first),
        };
        spawner.send_queue.send(&spawner.channel, Request::Begin(first));
        Ok(Rc::new(spawner))
    }

    /// Starts a program in a process group of its own, with these descriptors as 0, 1 and 2. What keeps
    /// it from starting is told by `Started::ended`. Errors: `InvalidInput` for more than a message
    /// holds, and `BrokenPipe` when the spawner has gone.
    pub async fn start(
        self: &Rc<Spawner>,
        launch: &SpawnRequest<'_>,
        stdin: OwnedFd,
        stdout: OwnedFd,
        stderr: OwnedFd,
    ) -> io::Result<Started> {
        let number = self.number();
        let message = message::start(number, launch)?;
        let fds = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let (tell, end) = oneshot::channel();
        let sent = |channel: &Channel| channel.send_bytes(&message, &fds);
        self.channel.async_io(Interest::WRITABLE, sent).await?;
        self.waiting.borrow_mut().insert(number, Waiting::End(tell));
        Ok(Started { spawner: self.clone(), number, end, ended: None, asked: Cell::new(Asked::No) })
    }

    /// An empty file without a name in the spool folder, to be written and read. Errors: of the spawner's
    /// `open`.
    pub async fn spool(&self) -> io::Result<OwnedFd> {
        let number = self.number();
        let (tell, file) = oneshot::channel();
        let sent = |channel: &Channel| channel.send(&Request::Spool(number));
        self.channel.async_io(Interest::WRITABLE, sent).await?;
        self.waiting.borrow_mut().insert(number, Waiting::File(tell));
        file.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// Hears what the spawner says, for as long as it is there. Does not end: without a spawner the master
    /// replaces this process.
    pub async fn listen(self: Rc<Spawner>) -> io::Result<()> {
        let mut buffer = [0; message::MAX_ANSWER];
        loop {
            let hear = |channel: &Channel| channel.receive_in(&mut buffer);
            let answer = tokio::select! {
                answer = self.channel.async_io(Interest::READABLE, hear) => answer,
                () = self.send_queue.send_queued(&self.channel) => continue,
            };
            match answer {
                Ok(Received::Message(answer)) => self.pass_on(answer),
                Ok(Received::End) | Err(_) => break,
            }
        }
        // Whoever waits learns that nobody will answer.
        self.waiting.borrow_mut().clear();
        std::future::pending().await
    }

    /// Programs that have not ended, and files that have not come.
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    fn pass_on(&self, answer: Answer) {
        // Nobody waits for what a worker before has asked, and whoever has asked may have left.
        let waiting = self.waiting.borrow_mut().remove(&answer.number());
        match (answer, waiting) {
            (Answer::Ended { how, rest, .. }, Some(Waiting::End(tell))) => _ = tell.send((how, rest)),
            (Answer::Spooled { file, .. }, Some(Waiting::File(tell))) => _ = tell.send(file),
            _ => {}
        }
    }

    fn number(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        number
    }
}

impl Started {
    /// How the program that was started has ended. Others of its group may live on, until this is
    /// dropped.
    pub async fn ended(&mut self) -> Exit {
        if self.ended.is_none() {
            let lost = (Exit::Lost, Descendants::None);
            self.ended = Some((&mut self.end).await.unwrap_or(lost));
        }
        self.ended.map_or(Exit::Lost, |(how, _)| how)
    }

    /// Ends the group: SIGTERM, and SIGKILL to whoever is left of it after the grace. The spawner sees to
    /// it, also when nobody asks again.
    pub fn end(&self) {
        if self.asked.replace(Asked::Yes) == Asked::No && !matches!(self.ended, Some((_, Descendants::None)))
        {
            self.spawner.send_queue.send(&self.spawner.channel, Request::End(self.number));
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.ended = self.end.try_recv().ok();
        }
        self.end();
    }
}
