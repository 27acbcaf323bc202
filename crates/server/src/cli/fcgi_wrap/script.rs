//! One request to a script. The body goes to the script as it is received, and output goes to the server as it is
//! written. Each is read only as fast as the other end takes it.

use std::io;
use std::os::fd::OwnedFd;

use arrayvec::ArrayVec;
use rustix::event::{PollFd, PollFlags};
use script::fastcgi::RequestId;

use super::connection::{Connection, Disconnect, Stage, wait};
use super::program::Program;
use crate::process::ipc::{Channel, Received};
use crate::spawner::message::{self, Command, Event, MAX_EVENT};
use crate::spawner::{Exit, SpawnRequest};
use crate::upstream::cgi::script_io::{ScriptIo, pipes};

pub struct ScriptExchange {
    /// The spawner's number of the script.
    number: u64,
    id: RequestId,
    io: ScriptIo<OwnedFd>,
    output: Output,
}

/// The part of the response that has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Nothing,
    Something,
}

impl ScriptExchange {
    pub fn start(
        connection: &Connection,
        number: u64,
        id: RequestId,
        program: &Program,
    ) -> io::Result<ScriptExchange> {
        let (io, theirs) = pipes()?;
        let arguments = message::block(program.arguments.iter().map(|argument| argument.as_c_str()));
        let request = SpawnRequest {
            program: &program.program,
            arguments: &arguments,
            environment: &program.environment.block(),
            folder: &program.folder,
            account: c"",
        };
        connection.channel.send(&Command::Start { number, request, streams: Some(theirs) })?;
        Ok(ScriptExchange { number, id, io, output: Output::Nothing })
    }

    /// Runs until the whole response is sent, or the server has aborted the request. Then the spawner ends what is
    /// left of the script's process group.
    pub fn run(mut self, connection: &mut Connection) -> Result<(Exit, Output), Disconnect> {
        let exchanged = self.exchange(connection);
        // Its input stays open until it has exited: the end of one that was cut would look like that of a whole body.
        // If the group has ended, the spawner ignores it.
        _ = connection.channel.send(&Command::Terminate(self.number));
        // A script that handles SIGTERM may write. Its output is discarded, so that it does not block.
        while self.io.exit.is_none() {
            let mut fds = ArrayVec::<PollFd, 3>::new();
            fds.push(PollFd::new(&connection.channel, PollFlags::IN));
            fds.extend(self.outputs().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            wait(&mut fds, None)?;
            drop(fds);
            _ = self.io.read_stdout(&mut connection.buffer);
            _ = self.io.read_stderr(&mut connection.buffer);
            self.poll_exit(&connection.channel);
        }
        exchanged.map(|()| (self.io.exit.unwrap_or(Exit::Lost), self.output))
    }

    fn exchange(&mut self, connection: &mut Connection) -> Result<(), Disconnect> {
        loop {
            connection.send()?;
            let mut fds = ArrayVec::<PollFd, 6>::new();
            fds.push(PollFd::new(&connection.socket, connection.interest()));
            fds.push(PollFd::new(&connection.shared.shutdown, PollFlags::IN));
            if self.io.exit.is_none() {
                fds.push(PollFd::new(&connection.channel, PollFlags::IN));
            }
            let stdin = self.io.stdin.iter().filter(|_| !connection.body.is_empty());
            fds.extend(stdin.map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
            let outputs = self.outputs().filter(|_| connection.has_capacity());
            fds.extend(outputs.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            let timeout = self.io.output_timeout().filter(|_| connection.has_capacity());
            let ready = wait(&mut fds, timeout)?;
            let (socket, shutdown) = (fds[0].revents(), fds[1].revents());
            drop(fds);
            if !shutdown.is_empty() {
                return Err(Disconnect::Closed);
            }
            connection.receive(socket)?;
            if ready == 0 || connection.stage == Stage::Aborted {
                return Ok(());
            }
            self.send_body(connection);
            // Before the output is read: a script that has exited has written all of its output.
            self.poll_exit(&connection.channel);
            let errors = self.send_output(connection);
            if self.io.exit.is_some() && self.io.stdout.is_none() && errors == 0 && connection.has_capacity()
            {
                return Ok(());
            }
        }
    }

    /// The open pipes for output and errors.
    fn outputs(&self) -> impl Iterator<Item = &OwnedFd> {
        [&self.io.stdout, &self.io.stderr].into_iter().flatten()
    }

    /// Writes what the script takes of the body, and closes its input behind the end. A body that the script does not
    /// read is discarded.
    fn send_body(&mut self, connection: &mut Connection) {
        if !connection.body.is_empty() {
            match self.io.write_stdin(&connection.body) {
                Ok(n) => _ = connection.body.drain(..n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => connection.body.clear(),
            }
        }
        // At once: a script that has already written back all of its input causes no further event.
        if connection.body.is_empty() && connection.stage == Stage::Whole {
            self.io.stdin = None;
        }
    }

    /// Sends some output, if the buffer has space for it. Returns the bytes of errors.
    fn send_output(&mut self, connection: &mut Connection) -> usize {
        if connection.has_capacity() {
            let Connection { application, buffer, out, .. } = connection;
            let n = self.io.read_stdout(buffer).unwrap_or(0);
            if n > 0 {
                self.output = Output::Something;
            }
            application.stdout(self.id, &buffer[..n], out);
        }
        if !connection.has_capacity() {
            return 0;
        }
        let Connection { application, buffer, out, .. } = connection;
        let n = self.io.read_stderr(buffer).unwrap_or(0);
        application.stderr(self.id, &buffer[..n], out);
        n
    }

    /// Receives the exit of the script, if it has exited.
    fn poll_exit(&mut self, channel: &Channel) {
        match channel.receive_in(&mut [0; MAX_EVENT]) {
            Ok(Received::Message(Event::Exited { number, exit, .. })) if number == self.number => {
                self.io.exit = Some(exit);
            }
            Ok(Received::Message(_)) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // A spawner that has ended has ended its scripts.
            Ok(Received::End) | Err(_) => self.io.exit = Some(self.io.exit.unwrap_or(Exit::Lost)),
        }
    }
}
