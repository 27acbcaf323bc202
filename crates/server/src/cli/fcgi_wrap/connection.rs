//! A connection from a server: it receives one request after the other, and sends the output of their scripts. It reads
//! no more than it can pass on.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use rustix::net::{Shutdown, shutdown};
use script::fastcgi::application::{Application, ApplicationError, Event, Limits, Parameters};
use script::fastcgi::{Persistence, RequestId, Role};
use site::model::{BackgroundJobs, Resources};
use taipan_http::status::Status;

use super::program::{Program, Rejection};
use super::script::{Output, ScriptExchange};
use super::{Shared, spawn, take};
use crate::process::ipc::Channel;
use crate::spawner::Exit;
use crate::spawner::groups::{self, Settings};
use crate::spawner::message;
use crate::terminal;

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const READ_SIZE: usize = 32 * 1024;
/// With so many bytes to be sent, no more output is read.
const OUT_LIMIT: usize = 64 * 1024;
/// How long a connection may be idle while another one waits to be accepted.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to read on after the last response. A reset could destroy its bytes on their way.
const LINGER: Duration = Duration::from_secs(2);

/// A request, with all its parameters.
struct Request {
    id: RequestId,
    role: Role,
    parameters: Parameters,
}

pub struct Connection<'a> {
    pub shared: &'a Shared,
    pub socket: OwnedFd,
    /// To the spawner of this connection.
    pub channel: Channel,
    pub application: Application,
    pub buffer: Box<[u8]>,
    /// To be sent.
    pub out: Vec<u8>,
    /// Bytes of `out`.
    sent: usize,
    /// A request that has been received and not started.
    next: Option<Request>,
    /// What the script has not taken yet. No more is received before.
    pub body: Vec<u8>,
    pub stage: Stage,
}

/// How far a request has been received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Body,
    /// The whole body has been received.
    Whole,
    /// The server needs no response.
    Aborted,
}

/// Why the connection ends early.
pub enum Disconnect {
    /// The server has closed it, or it has failed, or the program ends.
    Closed,
    /// The server has broken a rule of FastCGI.
    Broken,
}

/// Serves one connection, until it and all that it has started have ended.
pub fn serve(shared: &Shared, socket: OwnedFd) {
    let start = || -> io::Result<_> {
        let (ours, theirs) = Channel::pair()?;
        message::set_send_buffer(&ours)?;
        let (resources, spool) = (Resources::default(), std::env::temp_dir());
        let settings = Settings {
            resources,
            grace: GRACE,
            background_jobs: BackgroundJobs::Ended,
            spool,
            reports_starts: false,
        };
        // If it fails, it closes its end of the channel, which a script exchange takes for the end of the script.
        Ok((ours, spawn(Box::new(move || _ = groups::serve(theirs, settings, None, None)))?))
    };
    match start() {
        Ok((channel, spawner)) => {
            if let Err(Disconnect::Broken) = serve_requests(shared, socket, channel) {
                report(&"a connection", &"the server does not speak FastCGI as it should");
            }
            _ = spawner.join();
        }
        Err(error) => report(&"a connection", &error),
    }
}

fn report(subject: &dyn fmt::Display, error: &dyn fmt::Display) {
    terminal::err(format_args!("taipan: {subject}: {error}"));
}

fn serve_requests(shared: &Shared, socket: OwnedFd, channel: Channel) -> Result<(), Disconnect> {
    let limits = Limits { connections: shared.processes as u16, ..Limits::default() };
    let mut connection = Connection {
        shared,
        socket,
        channel,
        application: Application::new(limits),
        buffer: vec![0; READ_SIZE].into(),
        out: Vec::new(),
        sent: 0,
        next: None,
        body: Vec::new(),
        stage: Stage::Body,
    };
    let mut number = 0;
    while let Some(request) = connection.next_request()? {
        number += 1;
        let exit = connection.respond(number, &request)?;
        connection.body.clear();
        connection.application.finish(request.id, exit, &mut connection.out);
    }
    connection.linger();
    Ok(())
}

impl Connection<'_> {
    /// Sends the last response, and waits for a request. `None`: there will be none.
    fn next_request(&mut self) -> Result<Option<Request>, Disconnect> {
        let mut idle_timeout = Some(IDLE_TIMEOUT);
        loop {
            self.send()?;
            if let Some(request) = self.next.take() {
                return Ok(Some(request));
            }
            if self.application.persistence() == Persistence::Close && self.out.is_empty() {
                return Ok(None);
            }
            let mut fds = [
                PollFd::new(&self.socket, self.interest()),
                PollFd::new(&self.shared.shutdown, PollFlags::IN),
                PollFd::new(&self.shared.close_idle, PollFlags::IN),
            ];
            // A new connection, and one that has just had a response, need not close.
            let count = if idle_timeout.is_some() { 2 } else { 3 };
            if wait(&mut fds[..count], idle_timeout)? == 0 {
                idle_timeout = None;
            }
            let [socket, shutdown, close_idle] = fds.map(|fd| fd.revents());
            if !shutdown.is_empty()
                || socket.is_empty() && !close_idle.is_empty() && take(&self.shared.close_idle) > 0
            {
                return Err(Disconnect::Closed);
            }
            self.receive(socket)?;
        }
    }

    /// Runs a script. Gives its exit code.
    fn respond(&mut self, number: u64, request: &Request) -> Result<u32, Disconnect> {
        let &Request { id, role, ref parameters } = request;
        if self.stage == Stage::Aborted {
            return Ok(0);
        }
        let program = match self.shared.programs.find(role, parameters) {
            Ok(program) => program,
            Err(Rejection(status, error)) => {
                let mut named = parameters.iter().filter(|(name, _)| *name == b"SCRIPT_FILENAME");
                let name = named.next().map_or(&b"a request"[..], |(_, value)| value);
                report(&name.escape_ascii(), &error);
                return Ok(self.reject(id, status));
            }
        };
        let (exit, output) = match ScriptExchange::start(self, number, id, &program) {
            Ok(exchange) => exchange.run(self)?,
            Err(error) => {
                report(&program.name(), &error);
                return Ok(self.reject(id, Status::SERVICE_UNAVAILABLE));
            }
        };
        Ok(self.conclude(id, &program, exit, output))
    }

    /// Completes the response. Gives the exit code.
    fn conclude(&mut self, id: RequestId, program: &Program, exit: Exit, output: Output) -> u32 {
        match exit {
            Exit::Code(code) => code.into(),
            Exit::Signal(signal) => {
                if self.stage != Stage::Aborted {
                    report(&program.name(), &format_args!("ended by signal {signal}"));
                    if output == Output::Nothing {
                        self.reject(id, Status::BAD_GATEWAY);
                    }
                }
                128 + signal as u32
            }
            Exit::NotStarted(errno) => {
                report(&program.name(), &Errno::from_raw_os_error(errno));
                self.reject(id, Status::BAD_GATEWAY)
            }
            Exit::OutOfMemory | Exit::Lost => self.reject(id, Status::BAD_GATEWAY),
        }
    }

    /// Responds in place of a script.
    fn reject(&mut self, id: RequestId, status: Status) -> u32 {
        let (code, reason) = (status.code(), status.reason());
        let text = format!("Status: {code} {reason}\r\nContent-Type: text/plain\r\n\r\n{reason}\n");
        self.application.stdout(id, text.as_bytes(), &mut self.out);
        0
    }

    /// Sends as much as the kernel takes.
    pub fn send(&mut self) -> Result<(), Disconnect> {
        while self.sent < self.out.len() {
            match write(&self.socket, &self.out[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Disconnect::Closed),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    pub fn has_capacity(&self) -> bool {
        self.out.len() - self.sent < OUT_LIMIT
    }

    /// The events of the socket to wait for. Its end is one also while nothing is read.
    pub fn interest(&self) -> PollFlags {
        let read = if self.reads() { PollFlags::IN } else { PollFlags::RDHUP };
        if self.out.is_empty() { read } else { read | PollFlags::OUT }
    }

    fn reads(&self) -> bool {
        self.body.is_empty() && self.has_capacity()
    }

    /// Receives records, if there are any and they can be passed on.
    pub fn receive(&mut self, events: PollFlags) -> Result<(), Disconnect> {
        const END: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);
        if !self.reads() {
            return if events.intersects(END) { Err(Disconnect::Closed) } else { Ok(()) };
        }
        if !events.intersects(END.union(PollFlags::IN)) {
            return Ok(());
        }
        match read(&self.socket, &mut *self.buffer) {
            Ok(n @ 1..) => self.on_records(n).map_err(|_| Disconnect::Broken),
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Ok(_) | Err(_) => Err(Disconnect::Closed),
        }
    }

    /// So many bytes have been received.
    fn on_records(&mut self, count: usize) -> Result<(), ApplicationError> {
        let mut bytes = &self.buffer[..count];
        loop {
            let (used, event) = self.application.receive(bytes, &mut self.out)?;
            bytes = &bytes[used..];
            match event {
                Event::NeedMore => return Ok(()),
                Event::Request(id, role, parameters) => {
                    // An authorizer is sent no body (§6.3).
                    self.stage = if role == Role::Authorizer { Stage::Whole } else { Stage::Body };
                    self.next = Some(Request { id, role, parameters });
                }
                Event::Stdin(_, bytes) => self.body.extend_from_slice(bytes),
                Event::EndStdin(_) => self.stage = Stage::Whole,
                Event::Abort(_) => self.stage = Stage::Aborted,
                Event::OutputAppended => {}
            }
        }
    }

    /// Closes once the server has received everything.
    fn linger(&mut self) {
        _ = shutdown(&self.socket, Shutdown::Write);
        let until = Instant::now() + LINGER;
        let mut left = LINGER;
        while !left.is_zero() {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match wait(&mut fds, Some(left)) {
                Ok(1..) if matches!(read(&self.socket, &mut *self.buffer), Ok(1..)) => {}
                _ => break,
            }
            left = until.saturating_duration_since(Instant::now());
        }
    }
}

/// The number of descriptors with events. 0: the timeout has passed.
pub fn wait(fds: &mut [PollFd], timeout: Option<Duration>) -> Result<usize, Disconnect> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(fds, timeout.as_ref()) {
        // As an event that leads to nothing.
        Err(Errno::INTR) => Ok(1),
        result => result.map_err(|_| Disconnect::Closed),
    }
}
