//! `taipan fcgi-wrap`: CGI scripts for a server that speaks FastCGI. It is a program of its own. Each connection has a
//! thread, and a spawner for its scripts. A runtime would need more memory than all the rest.
//!
//! Knows nothing of HTTP, and of a site.

mod connection;
mod listener;
mod program;
mod script;

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::net::{SocketFlags, accept_with};
use rustix::pipe::{PipeFlags, pipe_with};

use self::listener::Listener;
use self::program::Programs;
use crate::flags::Wrap;
use crate::{start, sys, terminal};

/// A pause after a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Bytes of each thread.
const STACK_SIZE: usize = 256 * 1024;
/// The first descriptor behind the standard streams.
const FIRST_OTHER: i32 = 3;

/// What all connections share.
struct Shared {
    programs: Programs,
    processes: usize,
    /// The other end is closed when the program is to end.
    shutdown: OwnedFd,
    /// Has 1 while a connection waits to be accepted: one idle connection takes it, and closes.
    close_idle: OwnedFd,
    /// How many connections have ended.
    ended: OwnedFd,
}

/// Whether another connection can be accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Capacity {
    Free,
    /// One waits until another has ended.
    Full,
}

/// Runs until a signal ends it. Exits with 2 if it could not start.
pub fn wrap(options: &Wrap) -> ExitCode {
    match prepare(options) {
        Err(why) => terminal::fail(why, 2),
        Ok((programs, listener, signals)) => match run(options.processes, programs, &listener, &signals) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => terminal::fail(error, 1),
        },
    }
}

fn prepare(options: &Wrap) -> Result<(Programs, Listener, OwnedFd), String> {
    let programs = Programs::new(&options.scripts)?;
    let listener = Listener::open(options.socket.as_deref())?;
    let signals = take_signals().map_err(|error| error.to_string())?;
    // The parent process may have left descriptors open.
    sys::keep_from_programs(FIRST_OTHER);
    start::raise_descriptor_limit();
    Ok((programs, listener, signals))
}

/// SIGTERM and SIGINT are read from a descriptor. SIGPIPE is blocked. Rust ignores it, and scripts would inherit that.
fn take_signals() -> io::Result<OwnedFd> {
    sys::reset_signal(libc::SIGPIPE);
    sys::reset_signal(libc::SIGCHLD);
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGINT);
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    set.add(Signal::SIGPIPE);
    set.thread_block()?;
    Ok(signals.into())
}

fn run(processes: usize, programs: Programs, listener: &Listener, signals: &OwnedFd) -> io::Result<()> {
    let (shutdown, shutdown_sender) = pipe_with(PipeFlags::CLOEXEC)?;
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let (close_idle, ended) = (eventfd(0, flags | EventfdFlags::SEMAPHORE)?, eventfd(0, flags)?);
    let shared = Arc::new(Shared { programs, processes, shutdown, close_idle, ended });
    let mut running = 0;
    let mut capacity = Capacity::Free;
    loop {
        let mut fds = [signals, &shared.ended, &listener.fd].map(|fd| PollFd::new(fd, PollFlags::IN));
        let count = if capacity == Capacity::Full { 2 } else { 3 };
        wait(&mut fds[..count])?;
        let [signalled, ended, connecting] = fds.map(|fd| !fd.revents().is_empty());
        if signalled {
            break;
        }
        if ended {
            running -= take(&shared.ended);
            // An idle connection need not close any more.
            take(&shared.close_idle);
            capacity = Capacity::Free;
        }
        if connecting && running < processes {
            running += shared.accept(&listener.fd);
        } else if connecting {
            add(&shared.close_idle);
            capacity = Capacity::Full;
        }
    }
    drop(shutdown_sender);
    while running > 0 {
        wait(&mut [PollFd::new(&shared.ended, PollFlags::IN)])?;
        running -= take(&shared.ended);
    }
    Ok(())
}

impl Shared {
    /// Accepts the next connection, unless it has gone. Gives the number of new connections.
    fn accept(self: &Arc<Shared>, listener: &OwnedFd) -> usize {
        let errno = match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => {
                let guard = ConnectionGuard(self.clone());
                // Without a thread, the guard and the connection are dropped.
                if let Err(error) = spawn(Box::new(move || connection::serve(&guard.0, socket))) {
                    terminal::err(format_args!("taipan: {error}"));
                }
                return 1;
            }
            Err(errno) => errno,
        };
        if !matches!(errno, Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) {
            terminal::err(format_args!("taipan: {errno}"));
            thread::sleep(ACCEPT_PAUSE);
        }
        0
    }
}

/// Counts the end of a connection.
struct ConnectionGuard(Arc<Shared>);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        add(&self.0.ended);
    }
}

/// Starts a thread.
fn spawn(work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().stack_size(STACK_SIZE).spawn(work)
}

/// Waits for an event of one of them.
fn wait(fds: &mut [PollFd]) -> io::Result<()> {
    match poll(fds, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Adds 1 to an eventfd(2).
fn add(count: &OwnedFd) {
    // It never overflows.
    _ = write(count, &1u64.to_ne_bytes());
}

/// Takes the count of an eventfd(2), or 1 of a semaphore.
fn take(count: &OwnedFd) -> usize {
    let mut number = [0; 8];
    match read(count, &mut number) {
        Ok(_) => u64::from_ne_bytes(number) as usize,
        Err(_) => 0,
    }
}
