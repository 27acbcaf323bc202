//! Scripts by CGI: one program for one request. It is started by the runner, told of the request by its
//! environment, and heard: the head that it writes becomes that of the reply, and what follows is its body,
//! read only as fast as the client takes it.
//!
//! Knows nothing of the connection. The request's body is written into `Started::stdin` by whoever reads
//! it.

mod content;
mod course;
mod errors;
pub mod order;
mod reply;
pub mod turn;

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use http::status::Status;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use script::reply::{Limits, Parser, Step};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use self::course::{Course, State, Watch};
use self::order::Order;
use self::turn::Turn;
use super::Reply;
use crate::runner::{Ended, Runner};
use crate::stats::Count;
use crate::worker::Worker;
use crate::{log, sys};

pub use content::{CUT, Content};
pub use order::{Ends, Run};
pub use reply::Sendfile;

/// How long the end of a script's output is held back until it is known how the script has ended: one
/// that is killed has not said all.
const END_PATIENCE: Duration = Duration::from_millis(100);
/// How long its last words are waited for, when it has ended and others have its output open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Where a script's standard input comes from.
pub enum Input {
    Nothing,
    /// From a body, as it comes.
    Pipe,
    /// From a file that has it already.
    File(OwnedFd),
}

/// A script that is asked.
pub struct Conversation {
    worker: Rc<Worker>,
    course: Rc<Course>,
    stdout: AsyncFd<OwnedFd>,
    who: Rc<str>,
    began: Instant,
}

/// The way to a script's standard input.
pub struct Feed {
    pub pipe: AsyncFd<OwnedFd>,
    course: Rc<Course>,
}

impl Feed {
    /// The client has to send more, and the script need not hurry.
    pub fn pause(&self) {
        self.course.pause();
    }

    pub fn resume(&self) {
        self.course.resume();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.course.resume();
    }
}

/// What a script's head leads to.
pub enum Outcome {
    Reply(Reply),
    /// As if this had been asked with GET: a path, and perhaps a query.
    Elsewhere(String),
    /// A file, with the other fields of the head.
    Sendfile(Box<reply::Sendfile>),
    /// It has not answered. The error log says why.
    Failed(Status),
}

/// Does the client want the body of the reply?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    All,
    /// HEAD.
    Head,
}

/// Why there is no more output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It has taken too long.
    Late,
    /// It could not be read.
    Failed,
}

/// Starts a script. Also the end of the pipe that its input is written to. Errors: the status to answer
/// with.
pub async fn start(
    worker: &Rc<Worker>,
    runner: &Rc<Runner>,
    order: &Order,
    input: Input,
    turn: Turn,
) -> Result<(Conversation, Option<Feed>), Status> {
    let failed = |error: io::Error| {
        worker.counts.add(Count::ScriptsFailed, 1);
        log::error(format_args!("{}: cannot start the script: {error}", order.who));
        match error.kind() {
            io::ErrorKind::InvalidInput => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => Status::SERVICE_UNAVAILABLE,
        }
    };
    let pipes = || -> io::Result<_> {
        let (stdin, feed) = match input {
            Input::File(file) => (file, None),
            // Whoever reads from it finds its end at once.
            Input::Nothing => (pipe_with(PipeFlags::CLOEXEC)?.0, None),
            Input::Pipe => {
                let (stdin, feed) = pipe_with(PipeFlags::CLOEXEC)?;
                (stdin, Some(sys::watch(unblocked(feed)?, Interest::WRITABLE)?))
            }
        };
        let (stdout, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, complains) = pipe_with(PipeFlags::CLOEXEC)?;
        let stdout = sys::watch(unblocked(stdout)?, Interest::READABLE)?;
        Ok((stdin, feed, stdout, writes, unblocked(stderr)?, complains))
    };
    let (stdin, feed, stdout, writes, stderr, complains) = pipes().map_err(failed)?;
    let arguments = order.arguments();
    let launched = runner.start(&order.launch(&arguments), stdin, writes, complains).await;
    let started = launched.map_err(failed)?;
    worker.counts.add(Count::Scripts, 1);
    let who: Rc<str> = order.who.as_str().into();
    let course = Course::new();
    let watch =
        Watch { worker: worker.clone(), course: course.clone(), started, stderr, who: who.clone(), turn };
    tokio::task::spawn_local(watch.run());
    let began = Instant::now();
    let feed = feed.map(|pipe| Feed { pipe, course: course.clone() });
    Ok((Conversation { worker: worker.clone(), course, stdout, who, began }, feed))
}

/// Our end of a pipe never waits. The script's does, as programs expect.
fn unblocked(end: OwnedFd) -> io::Result<OwnedFd> {
    // It is new, and has no other flag that this could take away.
    fcntl_setfl(&end, OFlags::NONBLOCK)?;
    Ok(end)
}

impl Conversation {
    /// Hears the script's head, and makes the reply of it. Dropping this ends the script.
    pub async fn outcome(self, run: &Run, wanted: Wanted) -> Outcome {
        let mut parser = Parser::new(Limits::default());
        loop {
            let bytes = match self.read(self.began, self.worker.site.scripts.first_byte).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return self.no_head(&parser.end()).await,
                Err(cut) => return self.fail_cut(cut),
            };
            match parser.receive(&bytes) {
                Step::More(more) => parser = more,
                Step::Head(head, used) => return reply::of(self, run, wanted, &head, &bytes[used..]).await,
                Step::Refused(error) => {
                    log::error(format_args!("{}: the script's answer cannot be read: {error}", self.who));
                    return self.fail(Status::BAD_GATEWAY);
                }
            }
        }
    }

    /// Some of its output, when there is some, within `patience` of `from`; `None` at the end.
    async fn read(&self, from: Instant, patience: Duration) -> Result<Option<Vec<u8>>, Cut> {
        let until = self.course.until(from, patience);
        // Others may have the output open when the script itself has ended.
        let last_words = match self.course.ended() {
            Some(_) => (Instant::now() + LAST_WORDS).min(until),
            None => until,
        };
        let mut over = std::pin::pin!(tokio::time::sleep_until(last_words));
        loop {
            let change = self.course.change();
            if self.course.state() == State::Late {
                return Err(Cut::Late);
            }
            tokio::select! {
                biased;
                read = self.stdout.async_io(Interest::READABLE, |pipe| self.receive(pipe)) => match read {
                    Ok(bytes) if bytes.is_empty() => return Ok(None),
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_) => return Err(Cut::Failed),
                },
                () = change => {
                    let last_words = (Instant::now() + LAST_WORDS).min(until);
                    over.as_mut().reset(last_words);
                }
                () = &mut over => match self.course.ended() {
                    Some(_) => return Ok(None),
                    None if self.course.until(from, patience) > Instant::now() => {
                        over.as_mut().reset(self.course.until(from, patience));
                    }
                    None => {
                        self.worker.counts.add(Count::ScriptsLate, 1);
                        return Err(Cut::Late);
                    }
                },
            }
        }
    }

    /// As `read`, what is there at once. `None`: nothing.
    fn read_at_once(&self) -> Option<Vec<u8>> {
        self.stdout.try_io(Interest::READABLE, |pipe| self.receive(pipe)).ok()
    }

    /// By way of the worker's buffer: nothing is held by those who wait.
    fn receive(&self, pipe: &OwnedFd) -> io::Result<Vec<u8>> {
        let desk = &mut *self.worker.desk.borrow_mut();
        let space = desk.space_behind(&[]);
        let n = rustix::io::read(pipe, &mut *space)?;
        Ok(space[..n].to_vec())
    }

    /// How the script has ended, once its output has.
    async fn end(&self) -> Option<Ended> {
        self.course.end(END_PATIENCE).await
    }

    /// It has ended, or closed its output, before its head was whole.
    async fn no_head(self, error: &script::reply::ReplyError) -> Outcome {
        let status = match self.end().await {
            Some(Ended::NotStarted(errno)) => {
                let reason = io::Error::from_raw_os_error(errno);
                log::error(format_args!("{}: cannot start the script: {reason}", self.who));
                match errno {
                    libc::EACCES | libc::EPERM => Status::FORBIDDEN,
                    libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE => Status::SERVICE_UNAVAILABLE,
                    _ => Status::BAD_GATEWAY,
                }
            }
            ended => {
                let who = &self.who;
                log::error(format_args!("{who}: the script did not answer: {error}{}", told(ended)));
                Status::BAD_GATEWAY
            }
        };
        self.fail(status)
    }

    fn fail_cut(self, cut: Cut) -> Outcome {
        let why = match cut {
            Cut::Late => "it has taken too long",
            Cut::Failed => "its output cannot be read",
        };
        log::error(format_args!("{}: the script did not answer: {why}", self.who));
        match cut {
            Cut::Late => Outcome::Failed(Status::GATEWAY_TIMEOUT),
            Cut::Failed => self.fail(Status::BAD_GATEWAY),
        }
    }

    fn fail(self, status: Status) -> Outcome {
        self.worker.counts.add(Count::ScriptsFailed, 1);
        Outcome::Failed(status)
    }

    /// Nothing more is wanted of it; it may finish what it does, and write what nobody reads.
    fn let_go(self) {
        self.course.becomes(State::Through);
        tokio::task::spawn_local(async move {
            let mut bytes = [0; 4096];
            loop {
                let change = self.course.change();
                // The watch sees to it that it does end.
                if self.course.ended().is_some() {
                    break;
                }
                let read = |pipe: &OwnedFd| Ok(rustix::io::read(pipe, &mut bytes)?);
                tokio::select! {
                    read = self.stdout.async_io(Interest::READABLE, read) => match read {
                        Ok(n) if n > 0 => {}
                        _ => break,
                    },
                    () = change => {}
                }
            }
        });
    }

    /// All its output that anybody wants has been read.
    fn through(self) {
        self.course.becomes(State::Through);
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // Nothing changes where all has been heard.
        self.course.becomes(State::Unwanted);
    }
}

/// `, exit status 3`, where that says anything.
fn told(ended: Option<Ended>) -> String {
    match ended {
        Some(Ended::Exited(0)) | None => String::new(),
        Some(Ended::Exited(code)) => format!(", exit status {code}"),
        Some(Ended::Killed(signal)) => format!(", ended by signal {signal}"),
        Some(Ended::NotStarted(_)) => String::new(),
        Some(Ended::Lost) => ", and the runner has gone".to_owned(),
    }
}

#[cfg(test)]
mod tests;
