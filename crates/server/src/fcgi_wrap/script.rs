//! A script that answers a request: its input is written as the request's body comes, and what it writes is
//! sent as it is written, each only as fast as the other end takes it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use arrayvec::ArrayVec;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use script::fastcgi::RequestId;

use super::connection::{Connection, Disconnect, Stage, wait};
use super::program::Program;
use crate::ipc::{Channel, Received};
use crate::spawner::message::{self, Command, Event, MAX_EVENT};
use crate::spawner::{Exit, SpawnRequest, Streams};

/// How long a script that has ended is waited for, when others have its output open and write nothing.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// `None` for a pipe that is closed.
pub struct ScriptExchange {
    number: u64,
    id: RequestId,
    stdin: Option<OwnedFd>,
    /// Output, and errors.
    outputs: [Option<OwnedFd>; 2],
    ended: Option<Exit>,
    said: Output,
}

/// What of an answer has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Nothing,
    Something,
}

impl ScriptExchange {
    pub fn start(
        with: &Connection,
        number: u64,
        id: RequestId,
        program: &Program,
    ) -> io::Result<ScriptExchange> {
        let (theirs, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stdout, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, complains) = pipe_with(PipeFlags::CLOEXEC)?;
        // Our end of a pipe never waits. The script's does, as programs expect.
        for end in [&stdin, &stdout, &stderr] {
            fcntl_setfl(end, OFlags::NONBLOCK)?;
        }
        let arguments = message::block(program.arguments.iter().map(|argument| argument.as_c_str()));
        let request = SpawnRequest {
            program: &program.program,
            arguments: &arguments,
            environment: program.environment.block(),
            folder: &program.folder,
            account: c"",
        };
        let streams = Some(Streams { stdin: Some(theirs), stdout: writes, stderr: complains });
        with.channel.send(&Command::Start { number, request, streams })?;
        let outputs = [Some(stdout), Some(stderr)];
        Ok(ScriptExchange { number, id, stdin: Some(stdin), outputs, ended: None, said: Output::Nothing })
    }

    /// Passes on whatever can be, until all of the answer has been, or nobody wants it. Gives how the
    /// script has ended; whoever is left of its group is told to.
    pub fn run(mut self, with: &mut Connection) -> Result<(Exit, Output), Disconnect> {
        let talked = self.talk(with);
        self.stdin = None;
        // Of a group that is over, nobody hears it.
        _ = with.channel.send(&Command::Terminate(self.number));
        // Whoever tidies up may say so: nobody wants it, but it does not end them.
        while self.ended.is_none() {
            let mut fds = ArrayVec::<PollFd, 3>::new();
            fds.push(PollFd::new(&with.channel, PollFlags::IN));
            fds.extend(self.outputs.iter().flatten().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            wait(&mut fds, None)?;
            drop(fds);
            self.outputs.iter_mut().for_each(|pipe| _ = receive(pipe, &mut with.buffer));
            self.look(&with.channel);
        }
        talked.map(|()| (self.ended.unwrap_or(Exit::Lost), self.said))
    }

    fn talk(&mut self, with: &mut Connection) -> Result<(), Disconnect> {
        loop {
            with.send()?;
            let mut fds = ArrayVec::<PollFd, 6>::new();
            fds.push(PollFd::new(&with.socket, with.interest()));
            fds.push(PollFd::new(&with.shared.shutdown, PollFlags::IN));
            if self.ended.is_none() {
                fds.push(PollFd::new(&with.channel, PollFlags::IN));
            }
            let feed = self.stdin.iter().filter(|_| !with.body.is_empty());
            fds.extend(feed.map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
            let outputs = self.outputs.iter().flatten().filter(|_| with.has_room());
            fds.extend(outputs.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            let patience = self.ended.filter(|_| with.has_room()).map(|_| LAST_WORDS);
            let ready = wait(&mut fds, patience)?;
            let (socket, shutdown) = (fds[0].revents(), fds[1].revents());
            drop(fds);
            if !shutdown.is_empty() {
                return Err(Disconnect::Closed);
            }
            with.receive(socket)?;
            if ready == 0 || with.stage == Stage::Aborted {
                return Ok(());
            }
            self.feed(with);
            // Before its output is read: what it has written is there when it has ended.
            self.look(&with.channel);
            let errors = self.pass_on(with);
            if self.ended.is_some() && self.outputs[0].is_none() && errors == 0 && with.has_room() {
                return Ok(());
            }
        }
    }

    /// Writes what the pipe takes of the body, and closes the pipe behind its end. A body that the script does
    /// not want is dropped.
    fn feed(&mut self, from: &mut Connection) {
        if !from.body.is_empty() {
            match self.stdin.as_ref().map(|pipe| write(pipe, &from.body)) {
                Some(Ok(n)) => _ = from.body.drain(..n),
                Some(Err(Errno::AGAIN | Errno::INTR)) => {}
                Some(Err(_)) | None => {
                    self.stdin = None;
                    from.body.clear();
                }
            }
        }
        // At once: a script that has already written back all that it was given causes no further event.
        if from.body.is_empty() && from.stage == Stage::Whole {
            self.stdin = None;
        }
    }

    /// Some of what it has written, if there is room for it. Gives the bytes of its errors.
    fn pass_on(&mut self, to: &mut Connection) -> usize {
        let [stdout, stderr] = &mut self.outputs;
        if to.has_room() {
            let n = receive(stdout, &mut to.buffer);
            if n > 0 {
                self.said = Output::Something;
            }
            to.application.stdout(self.id, &to.buffer[..n], &mut to.out);
        }
        if !to.has_room() {
            return 0;
        }
        let n = receive(stderr, &mut to.buffer);
        to.application.stderr(self.id, &to.buffer[..n], &mut to.out);
        n
    }

    /// Whether it has ended.
    fn look(&mut self, channel: &Channel) {
        match channel.receive_in(&mut [0; MAX_EVENT]) {
            Ok(Received::Message(Event::Exited { number, exit, .. })) if number == self.number => {
                self.ended = Some(exit)
            }
            Ok(Received::Message(_)) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // A spawner that has gone has taken it along.
            Ok(Received::End) | Err(_) => self.ended = Some(self.ended.unwrap_or(Exit::Lost)),
        }
    }
}

/// How many bytes there are. A pipe that has ended is closed.
fn receive(pipe: &mut Option<OwnedFd>, buffer: &mut [u8]) -> usize {
    match pipe.as_ref().map(|open| read(open, buffer)) {
        Some(Ok(n @ 1..)) => n,
        None | Some(Err(Errno::AGAIN | Errno::INTR)) => 0,
        Some(Ok(_) | Err(_)) => {
            *pipe = None;
            0
        }
    }
}
