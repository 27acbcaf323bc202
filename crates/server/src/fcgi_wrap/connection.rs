//! A connection from a server: requests in, one after the other, and what answers them out. Both directions
//! wait for one another: what cannot be passed on is not read.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use rustix::net::{Shutdown, shutdown};
use script::fastcgi::application::{Application, ApplicationError, Event, Limits, Parameters};
use script::fastcgi::{Persistence, RequestId, Role};
use site::model::Resources;
use taipan_http::status::Status;

use super::program::{Program, Rejection};
use super::script::{Output, ScriptExchange};
use super::{Shared, spawn, take};
use crate::ipc::Channel;
use crate::spawner::Exit;
use crate::spawner::groups::{self, Settings};
use crate::spawner::message;
use crate::terminal;

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const READ: usize = 32 * 1024;
/// Bytes that wait to be sent before no more is read.
const WAITING: usize = 64 * 1024;
/// How long a connection may ask for nothing while others wait for its place.
const SILENCE: Duration = Duration::from_secs(1);
/// How long it is read on after the last answer: a reset could destroy what is on its way.
const LINGER: Duration = Duration::from_secs(2);

/// A request, with all its parameters.
type Request = (RequestId, Role, Parameters);

pub struct Connection<'a> {
    pub shared: &'a Shared,
    pub socket: OwnedFd,
    /// To the spawner of this connection.
    pub channel: Channel,
    pub application: Application,
    pub buffer: Box<[u8]>,
    /// What waits to be sent.
    pub out: Vec<u8>,
    /// Bytes of it that have been.
    sent: usize,
    asked: Option<Request>,
    /// What the script has not yet taken. No more is read before it has.
    pub body: Vec<u8>,
    pub stage: Stage,
}

/// Of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Body,
    /// All of its body has come.
    Whole,
    /// Nobody wants its answer.
    Aborted,
}

/// Why nothing more can be said.
pub enum Disconnect {
    /// The server has closed, or the kernel has.
    Closed,
    /// What it has sent is no FastCGI.
    Broken,
}

/// One connection, until it has ended with all that it has started.
pub fn serve(shared: &Shared, socket: OwnedFd) {
    let begun = || -> io::Result<_> {
        let (ours, theirs) = Channel::pair()?;
        message::set_send_buffer(&ours)?;
        let settings =
            Settings { resources: Resources::default(), grace: GRACE, spool: std::env::temp_dir() };
        // Where it cannot go on, its end of the channel is closed, and that is heard.
        Ok((ours, spawn(Box::new(move || _ = groups::serve(theirs, settings, None, None)))?))
    };
    match begun() {
        Ok((channel, spawner)) => {
            if let Err(Disconnect::Broken) = talk(shared, socket, channel) {
                report(&"a connection", &"the server does not speak FastCGI as it should");
            }
            _ = spawner.join();
        }
        Err(error) => report(&"a connection", &error),
    }
}

fn report(who: &dyn fmt::Display, what: &dyn fmt::Display) {
    terminal::err(format_args!("taipan: {who}: {what}"));
}

fn talk(shared: &Shared, socket: OwnedFd, channel: Channel) -> Result<(), Disconnect> {
    let limits = Limits { connections: shared.processes as u16, ..Limits::default() };
    let mut connection = Connection {
        shared,
        socket,
        channel,
        application: Application::new(limits),
        buffer: vec![0; READ].into(),
        out: Vec::new(),
        sent: 0,
        asked: None,
        body: Vec::new(),
        stage: Stage::Body,
    };
    let mut number = 0;
    while let Some((id, role, parameters)) = connection.request()? {
        number += 1;
        let exit = connection.answer(number, id, role, &parameters)?;
        connection.body.clear();
        connection.application.finish(id, exit, &mut connection.out);
    }
    connection.linger();
    Ok(())
}

impl Connection<'_> {
    /// Sends what is to be sent, and waits for a request. `None`: it was the last.
    fn request(&mut self) -> Result<Option<Request>, Disconnect> {
        let mut patience = Some(SILENCE);
        loop {
            self.send()?;
            if let Some(asked) = self.asked.take() {
                return Ok(Some(asked));
            }
            if self.application.persistence() == Persistence::Close && self.out.is_empty() {
                return Ok(None);
            }
            let mut fds = [
                PollFd::new(&self.socket, self.interest()),
                PollFd::new(&self.shared.shutdown, PollFlags::IN),
                PollFd::new(&self.shared.close_idle, PollFlags::IN),
            ];
            // Whoever has just come, or has just been answered, is not asked to leave.
            let count = if patience.is_some() { 2 } else { 3 };
            if wait(&mut fds[..count], patience)? == 0 {
                patience = None;
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

    /// Has a script answer. Gives what it exits with.
    fn answer(
        &mut self,
        number: u64,
        id: RequestId,
        role: Role,
        parameters: &Parameters,
    ) -> Result<u32, Disconnect> {
        if self.stage == Stage::Aborted {
            return Ok(0);
        }
        let program = match self.shared.programs.find(role, parameters) {
            Ok(program) => program,
            Err(Rejection(status, why)) => {
                let mut named = parameters.iter().filter(|(name, _)| *name == b"SCRIPT_FILENAME");
                let name = named.next().map_or(&b"a request"[..], |(_, value)| value);
                report(&name.escape_ascii(), &why);
                return Ok(self.refuse(id, status));
            }
        };
        let (ended, said) = match ScriptExchange::start(self, number, id, &program) {
            Ok(exchange) => exchange.run(self)?,
            Err(error) => {
                report(&program.name(), &error);
                return Ok(self.refuse(id, Status::SERVICE_UNAVAILABLE));
            }
        };
        Ok(self.conclude(id, &program, ended, said))
    }

    /// What is said of a script's end.
    fn conclude(&mut self, id: RequestId, program: &Program, ended: Exit, said: Output) -> u32 {
        match ended {
            Exit::Code(code) => code.into(),
            Exit::Signal(signal) => {
                if self.stage != Stage::Aborted {
                    report(&program.name(), &format_args!("ended by signal {signal}"));
                    if said == Output::Nothing {
                        self.refuse(id, Status::BAD_GATEWAY);
                    }
                }
                128 + signal as u32
            }
            Exit::NotStarted(errno) => {
                report(&program.name(), &Errno::from_raw_os_error(errno));
                self.refuse(id, Status::BAD_GATEWAY)
            }
            Exit::OutOfMemory | Exit::Lost => self.refuse(id, Status::BAD_GATEWAY),
        }
    }

    /// Answers in the place of a script.
    fn refuse(&mut self, id: RequestId, status: Status) -> u32 {
        let (code, reason) = (status.code(), status.reason());
        let text = format!("Status: {code} {reason}\r\nContent-Type: text/plain\r\n\r\n{reason}\n");
        self.application.stdout(id, text.as_bytes(), &mut self.out);
        0
    }

    /// Sends what can be sent of all that waits.
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

    pub fn has_room(&self) -> bool {
        self.out.len() - self.sent < WAITING
    }

    /// What is waited for of the socket: its end, too, where nothing is read.
    pub fn interest(&self) -> PollFlags {
        let read = if self.reads() { PollFlags::IN } else { PollFlags::RDHUP };
        if self.out.is_empty() { read } else { read | PollFlags::OUT }
    }

    fn reads(&self) -> bool {
        self.body.is_empty() && self.has_room()
    }

    /// Reads some, if it can be taken, and something is there.
    pub fn receive(&mut self, what: PollFlags) -> Result<(), Disconnect> {
        const END: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);
        if !self.reads() {
            return if what.intersects(END) { Err(Disconnect::Closed) } else { Ok(()) };
        }
        if !what.intersects(END.union(PollFlags::IN)) {
            return Ok(());
        }
        match read(&self.socket, &mut *self.buffer) {
            Ok(n @ 1..) => self.on_records(n).map_err(|_| Disconnect::Broken),
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Ok(_) | Err(_) => Err(Disconnect::Closed),
        }
    }

    /// Of so many bytes.
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
                    self.asked = Some((id, role, parameters));
                }
                Event::Stdin(_, piece) => self.body.extend_from_slice(piece),
                Event::EndStdin(_) => self.stage = Stage::Whole,
                Event::Abort(_) => self.stage = Stage::Aborted,
                Event::OutputAppended => {}
            }
        }
    }

    /// All has been sent; and what still comes, nobody wants.
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

/// How many of them can be dealt with; 0 when the time is over.
pub fn wait(fds: &mut [PollFd], patience: Option<Duration>) -> Result<usize, Disconnect> {
    let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
    match poll(fds, patience.as_ref()) {
        // As if a descriptor had nothing to say after all.
        Err(Errno::INTR) => Ok(1),
        result => result.map_err(|_| Disconnect::Closed),
    }
}
