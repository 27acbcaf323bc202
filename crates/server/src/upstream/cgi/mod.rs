//! A request by CGI (RFC 3875): one program for one request, which the spawner starts. Its standard input is the body,
//! and its standard output is the response.
//!
//! A monitor runs beside the exchange, and goes on when that has ended. It logs what the script writes to its error
//! stream, ends a script that takes too long or that no exchange needs, and learns how it has exited.

pub mod headless;
pub mod script_io;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use site::model::BackgroundJobs;
use taipan_http::head::Persistence;
use taipan_http::status::Status;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use self::script_io::{PipeEnd, ScriptIo, output_pipes, pipes};
use super::concurrency::ScriptPermit;
use super::request::{Program, UpstreamRequest};
use super::spool::SpoolFile;
use super::transport::{ReadError, Transport};
use crate::log::stderr::Errors;
use crate::process::supervisor::advice_on_descriptors;
use crate::services::Services;
use crate::spawner::{Child, Exit, Spawner};
use crate::stats::Count;
use crate::tasks::spawn_local;
use crate::{log, sys};

/// How long to wait for the exit of a script behind the end of its output: the output of a script that was killed is
/// incomplete.
const EXIT_TIMEOUT: Duration = Duration::from_millis(100);
/// The parts of this time. In each of them, a worker that is late receives what has come meanwhile, such as the exit.
const EXIT_PARTS: u32 = 10;
/// Bytes of a read whose output nothing needs.
const DISCARDED: usize = 4096;

/// The source of a script's standard input.
pub enum Stdin {
    Empty,
    /// The body, as it is received.
    Pipe,
    Spooled(SpoolFile),
}

pub struct Script {
    services: Rc<Services>,
    shared: Rc<Shared>,
    /// For the last output, or for a part of the time until the exit.
    timer: RefCell<Option<Pin<Box<Sleep>>>>,
    /// Parts of that time that have passed.
    exit_parts: Cell<u32>,
}

/// What the exchange and the monitor share.
struct Shared {
    io: RefCell<ScriptIo<AsyncFd<OwnedFd>>>,
    goal: Cell<Goal>,
    /// The goal has changed.
    changed: Notify,
    /// The exchange, which waits for output or for the exit.
    reader: Cell<Option<Waker>>,
}

/// Why no script can be started for a moment.
const SPAWNER_ENDED: &str = "the process that starts scripts has ended, and is about to be replaced";

/// What a script is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    Respond,
    /// No more output is needed. The script may go on.
    Finish,
    /// The exchange was aborted.
    End,
    /// The script has run for as long as it may, and is to end.
    Expire,
}

impl PipeEnd for AsyncFd<OwnedFd> {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_io(Interest::READABLE, |fd| fd.read(buffer))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, |fd| fd.write(bytes))
    }
}

/// Starts a script. Errors: the status of the response.
pub async fn start(
    services: &Rc<Services>,
    spawner: &Rc<Spawner>,
    request: &UpstreamRequest,
    program: &Program,
    stdin: Stdin,
    permit: ScriptPermit,
) -> Result<Script, Status> {
    let failed = |error: io::Error| {
        services.counts.add(Count::ScriptsFailed, 1);
        let why = match error.kind() {
            io::ErrorKind::BrokenPipe => SPAWNER_ENDED.to_owned(),
            _ => format!("{error}{}", error.raw_os_error().map_or("", advice_on_descriptors)),
        };
        log::error(format_args!("{}: cannot start the script: {why}", request.info.label));
        match error.kind() {
            io::ErrorKind::InvalidInput => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => Status::SERVICE_UNAVAILABLE,
        }
    };
    let made = if matches!(stdin, Stdin::Pipe) { pipes() } else { output_pipes() };
    let (mut ours, mut theirs) = made.map_err(failed)?;
    let spooled = match stdin {
        Stdin::Spooled(file) => Some(file),
        Stdin::Empty | Stdin::Pipe => None,
    };
    if let Some(file) = &spooled {
        theirs.stdin = Some(file.try_clone().map_err(failed)?);
    }
    let watch = |end: Option<OwnedFd>, interest| end.map(|end| sys::watch(end, interest)).transpose();
    let stderr = ours.stderr.take();
    let io = ScriptIo {
        stdin: watch(ours.stdin, Interest::WRITABLE).map_err(failed)?,
        stdout: watch(ours.stdout, Interest::READABLE).map_err(failed)?,
        stderr: None,
        exit: None,
    };
    let child = spawner.start(program.spawn_request(), theirs).await.map_err(failed)?;
    services.counts.add(Count::Scripts, 1);
    let shared = Rc::new(Shared {
        io: RefCell::new(io),
        goal: Cell::new(Goal::Respond),
        changed: Notify::new(),
        reader: Cell::new(None),
    });
    let label = request.info.label.clone();
    if let Some(stderr) = stderr {
        let errors = Errors::new(stderr, label.clone(), &services.site.scripts);
        let held = Some((permit, spooled));
        let monitor =
            Monitor { services: services.clone(), shared: shared.clone(), child, errors, label, held };
        spawn_local(monitor.run());
    }
    Ok(Script { services: services.clone(), shared, timer: RefCell::default(), exit_parts: Cell::new(0) })
}

impl Shared {
    fn exit(&self) -> Option<Exit> {
        self.io.borrow().exit
    }

    /// A goal other than `Respond` does not change.
    fn set_goal(&self, goal: Goal) {
        if self.goal.get() == Goal::Respond {
            self.goal.set(goal);
            self.changed.notify_waiters();
        }
    }

    fn wake_reader(&self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Script {
    /// Ready: `timeout` has passed since the first call.
    fn poll_timer(&self, cx: &mut Context<'_>, timeout: Duration) -> Poll<()> {
        self.timer.borrow_mut().get_or_insert_with(|| Box::pin(sleep(timeout))).as_mut().poll(cx)
    }

    /// Output that is there.
    fn poll_output(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        // Bounded by the runtime's budget, which every wait for a descriptor uses.
        loop {
            let io = &mut *self.shared.io.borrow_mut();
            let scratch = &mut *self.services.scratch.borrow_mut();
            let space = scratch.space();
            match io.read_stdout(space) {
                Ok(0) => return Poll::Ready(Ok(None)),
                Ok(length) => return Poll::Ready(Ok(Some(space[..length].to_vec()))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
            if let Some(stdout) = &io.stdout {
                drop(ready!(stdout.poll_read_ready(cx))?);
            }
        }
    }
}

impl Transport for Script {
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.shared.io.borrow().stdin {
            Some(stdin) => stdin.poll_write_ready(cx).map_ok(|_| ()),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.shared.io.borrow_mut().write_stdin(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
            ready!(self.poll_ready(cx))?;
        }
    }

    fn poll_end_body(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.abandon_body();
        Poll::Ready(Ok(()))
    }

    fn abandon_body(&self) {
        self.shared.io.borrow_mut().stdin = None;
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        if self.shared.goal.get() == Goal::Expire {
            return Poll::Ready(Err(ReadError::Expired));
        }
        if let Poll::Ready(output) = self.poll_output(cx) {
            self.timer.take();
            return Poll::Ready(output);
        }
        self.shared.reader.set(Some(cx.waker().clone()));
        let timeout = self.shared.io.borrow().output_timeout();
        let Some(timeout) = timeout else { return Poll::Pending };
        let scripts = &self.services.site.scripts;
        ready!(self.poll_timer(cx, timeout.min(scripts.first_byte).min(scripts.idle)));
        Poll::Ready(Ok(None))
    }

    fn poll_exit(&self, cx: &mut Context<'_>) -> Poll<Option<Exit>> {
        let exit = self.shared.exit();
        if exit.is_none() {
            self.shared.reader.set(Some(cx.waker().clone()));
            while self.exit_parts.get() < EXIT_PARTS {
                ready!(self.poll_timer(cx, EXIT_TIMEOUT / EXIT_PARTS));
                self.timer.take();
                self.exit_parts.update(|parts| parts + 1);
            }
        }
        Poll::Ready(exit)
    }

    fn finish(&self, _: Persistence) {
        self.shared.set_goal(Goal::Finish);
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.shared.set_goal(Goal::End);
        let mut io = self.shared.io.borrow_mut();
        // For jobs that the script leaves in the background, or will leave, the monitor reads on.
        let may_leave_jobs = io.exit.is_some() || self.shared.goal.get() == Goal::Finish;
        if !(may_leave_jobs && keeps_jobs(&self.services)) {
            io.stdout = None;
        }
        // A script that is terminated would take the end of its input for that of a body that was cut. The monitor has
        // its input until it has exited.
        if self.shared.goal.get() == Goal::Finish {
            io.stdin = None;
        }
    }
}

/// Watches a script until it has exited and its exchange has ended.
struct Monitor {
    services: Rc<Services>,
    shared: Rc<Shared>,
    child: Child,
    errors: Errors,
    label: Rc<str>,
    /// Until the script has exited: it runs, and reads the file of its body.
    held: Option<(ScriptPermit, Option<SpoolFile>)>,
}

impl Monitor {
    async fn run(mut self) {
        let Monitor { services, shared, child, errors, label, held } = &mut self;
        let mut expiry = pin!(sleep_until(Instant::now() + services.site.scripts.total));
        // Output that the exchange does not need.
        let mut rest = None;
        loop {
            let change = shared.changed.notified();
            let (goal, runs) = (shared.goal.get(), shared.exit().is_none());
            if goal != Goal::Respond && !runs {
                break;
            }
            if matches!(goal, Goal::End | Goal::Expire) {
                child.terminate();
            }
            if goal == Goal::Finish && keeps_jobs(services) {
                rest = rest.or_else(|| shared.io.borrow_mut().stdout.take());
            }
            tokio::select! {
                exit = child.wait(), if runs => {
                    errors.take_all();
                    held.take();
                    let was_killed = matches!(exit, Exit::Signal(_) | Exit::OutOfMemory);
                    services.counts.add(Count::ScriptsKilled, u64::from(was_killed));
                    shared.io.borrow_mut().exit = Some(exit);
                    shared.wake_reader();
                }
                () = errors.take() => {}
                output = discard(&rest) => if output == Output::Ended { rest = None },
                () = change => {}
                () = &mut expiry, if matches!(goal, Goal::Respond | Goal::Finish) => {
                    services.counts.add(Count::ScriptsTimeout, 1);
                    let total = services.site.scripts.total;
                    log::warn(format_args!(
                        "{label}: the script has run for {total:?}, the `total` of [scripts], and is terminated"
                    ));
                    shared.goal.set(Goal::Expire);
                    shared.wake_reader();
                }
            }
        }
        let rest = rest.or_else(|| shared.io.borrow_mut().stdout.take());
        if child.left_jobs()
            && let Some(_permit) = services.job_readers.take()
        {
            drain(rest, errors, expiry).await;
        }
    }
}

fn keeps_jobs(services: &Services) -> bool {
    services.site.scripts.background_jobs == BackgroundJobs::Kept
}

/// Reads what jobs in the background still write, which the end of a reader would end. Their errors are logged.
async fn drain(mut stdout: Option<AsyncFd<OwnedFd>>, errors: &mut Errors, mut expiry: Pin<&mut Sleep>) {
    while stdout.is_some() || errors.is_open() {
        tokio::select! {
            output = discard(&stdout) => if output == Output::Ended { stdout = None },
            () = errors.take() => {}
            () = &mut expiry => return,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    More,
    Ended,
}

/// Waits for output, and drops it. Without a pipe, the future is pending for ever.
async fn discard(stdout: &Option<AsyncFd<OwnedFd>>) -> Output {
    let Some(stdout) = stdout else { return std::future::pending().await };
    let Ok(mut ready) = stdout.readable().await else { return Output::Ended };
    match ready.try_io(|stdout| stdout.get_ref().read(&mut [0; DISCARDED])) {
        Ok(Ok(0) | Err(_)) => Output::Ended,
        Ok(Ok(_)) | Err(_) => Output::More,
    }
}
