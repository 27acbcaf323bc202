//! `taipan fcgi-wrap`: scripts that know nothing but CGI, for a server that speaks FastCGI. A program of its
//! own: it takes connections, each with a thread and a spawner for its scripts, and ends when it is told to.
//! It has no loop of the runtime, which would cost more than all the rest of it.
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

/// After a failure to accept.
const ACCEPT_REST: Duration = Duration::from_secs(1);
/// Bytes, of each thread.
const STACK: usize = 256 * 1024;
/// Behind 0, 1 and 2.
const FIRST_OTHER: u32 = 3;

/// What the connections share.
struct Shared {
    programs: Programs,
    processes: usize,
    /// Its other end is closed when all are to leave.
    shutdown: OwnedFd,
    /// Has one for a connection that waits for room: whoever asks for nothing may take it, and leave.
    close_idle: OwnedFd,
    /// How many connections have ended.
    ended: OwnedFd,
}

/// Does somebody wait to be accepted for whom there is no room?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Capacity {
    No,
    Yes,
}

/// Runs until a signal ends it. Exits with 2 if it could not start.
pub fn wrap(asked: &Wrap) -> ExitCode {
    match prepare(asked) {
        Err(why) => fail(&why, 2),
        Ok((programs, listener, signals)) => match run(asked.processes, programs, &listener, &signals) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string(), 1),
        },
    }
}

fn fail(why: &str, code: u8) -> ExitCode {
    terminal::err(format_args!("taipan: {why}"));
    ExitCode::from(code)
}

fn prepare(asked: &Wrap) -> Result<(Programs, Listener, OwnedFd), String> {
    let programs = Programs::of(&asked.scripts)?;
    let listener = Listener::open(asked.socket.as_deref())?;
    let signals = take_signals().map_err(|error| error.to_string())?;
    // Of ours, none is; but whoever started the program may have left it some.
    _ = sys::keep_from_programs(FIRST_OTHER);
    start::raise_descriptor_limit();
    Ok((programs, listener, signals))
}

/// SIGTERM and SIGINT are read from a descriptor. SIGPIPE, which Rust ignores and scripts would, too, is
/// blocked in its place.
fn take_signals() -> io::Result<OwnedFd> {
    sys::reset_signal(libc::SIGPIPE);
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGINT);
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    set.add(Signal::SIGPIPE);
    set.thread_block()?;
    Ok(signals.into())
}

fn run(processes: usize, programs: Programs, listener: &Listener, signals: &OwnedFd) -> io::Result<()> {
    let (shutdown, stay) = pipe_with(PipeFlags::CLOEXEC)?;
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let (close_idle, ended) = (eventfd(0, flags | EventfdFlags::SEMAPHORE)?, eventfd(0, flags)?);
    let shared = Arc::new(Shared { programs, processes, shutdown, close_idle, ended });
    let mut running = 0;
    let mut capacity = Capacity::No;
    loop {
        let mut fds = [signals, &shared.ended, &listener.fd].map(|fd| PollFd::new(fd, PollFlags::IN));
        let count = if capacity == Capacity::Yes { 2 } else { 3 };
        wait(&mut fds[..count])?;
        let [told, ended, come] = fds.map(|fd| !fd.revents().is_empty());
        if told {
            break;
        }
        if ended {
            running -= take(&shared.ended);
            // There is room, whether somebody has made it or not.
            take(&shared.close_idle);
            capacity = Capacity::No;
        }
        if come && running < processes {
            running += shared.accept(&listener.fd);
        } else if come {
            add(&shared.close_idle);
            capacity = Capacity::Yes;
        }
    }
    drop(stay);
    while running > 0 {
        wait(&mut [PollFd::new(&shared.ended, PollFlags::IN)])?;
        running -= take(&shared.ended);
    }
    Ok(())
}

impl Shared {
    /// The next connection, if there still is one. Gives how many begin.
    fn accept(self: &Arc<Shared>, listener: &OwnedFd) -> usize {
        let errno = match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => {
                let place = ConnectionGuard(self.clone());
                // Where there can be no thread, the place is given back and the connection closed.
                if let Err(error) = spawn(Box::new(move || connection::serve(&place.0, socket))) {
                    fail(&error.to_string(), 1);
                }
                return 1;
            }
            Err(errno) => errno,
        };
        if !matches!(errno, Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) {
            fail(&errno.to_string(), 1);
            thread::sleep(ACCEPT_REST);
        }
        0
    }
}

/// A connection's, until it has ended.
struct ConnectionGuard(Arc<Shared>);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        add(&self.0.ended);
    }
}

/// A thread for work of any kind.
fn spawn(work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().stack_size(STACK).spawn(work)
}

/// Until something can be done about one of them.
fn wait(fds: &mut [PollFd]) -> io::Result<()> {
    match poll(fds, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// One more, of something that is counted by the kernel.
fn add(count: &OwnedFd) {
    // Never so many that it would fail.
    _ = write(count, &1u64.to_ne_bytes());
}

/// As many as there are, or one of a close_idle.
fn take(count: &OwnedFd) -> usize {
    let mut number = [0; 8];
    match read(count, &mut number) {
        Ok(_) => u64::from_ne_bytes(number) as usize,
        Err(_) => 0,
    }
}
