//! Ends of connections, from the request of an administrator to its response. The program before an upgrade and the
//! generations carry it out one after the other, the oldest first: they hand connections off in this order, so that
//! none is missed on its way.

use std::time::{Duration, Instant};

use nix::unistd::Pid;
use site::disconnect::Selection;
use site::text::counted;

use super::Master;
use super::generations::{ChannelState, Generation};
use super::lifecycle::State;
use super::upgrade::{Disconnected, Predecessor, Successor, Upgrade};
use crate::control::Client;
use crate::log;
use crate::process::ipc::MasterCommand;

/// How long a generation may take: more than its workers may.
const TIMEOUT: Duration = Duration::from_secs(5);
/// At the same time.
const MOST: usize = 64;

/// What ends connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    /// The program before an upgrade, with its generations.
    Predecessor,
    Generation(Pid),
}

/// The receiver of the response.
enum Requester {
    Client(Client),
    /// The program behind an upgrade, with the number that it has given.
    Successor(u32),
}

#[derive(Default)]
pub(super) struct Disconnects {
    running: Vec<RunningDisconnect>,
    /// The number of the last one.
    last: u32,
}

struct RunningDisconnect {
    number: u32,
    selection: Selection,
    requester: Requester,
    /// Those that have been asked.
    asked: Vec<Process>,
    /// The one that has not answered, until this time.
    waiting: Option<Process>,
    until: Instant,
    connections: u64,
    streams: u64,
    /// Workers and generations that do not respond.
    silent: u32,
}

impl Disconnects {
    /// In a forked child. The clients wait for the end of the stream, and so for each copy of its descriptor.
    pub(super) fn release(&mut self) {
        self.running.clear();
    }

    fn is_full(&self) -> bool {
        self.running.len() >= MOST
    }

    fn begin(&mut self, selection: Selection, requester: Requester) {
        self.last = self.last.wrapping_add(1);
        self.running.push(RunningDisconnect {
            number: self.last,
            selection,
            requester,
            asked: Vec::new(),
            waiting: None,
            until: Instant::now(),
            connections: 0,
            streams: 0,
            silent: 0,
        });
    }

    fn note(&mut self, process: Process, ended: Disconnected) {
        let Disconnected { number, connections, streams, silent } = ended;
        if let Some(running) = self.running.iter_mut().find(|running| running.number == number) {
            running.connections += connections;
            running.streams += streams;
            // One that was late has been counted.
            if running.waiting == Some(process) {
                running.waiting = None;
                running.silent += silent;
            }
        }
    }

    /// Asks the next generation of each, and responds to those that have asked all.
    fn advance(&mut self, upgrade: &Upgrade, generations: &[Generation]) {
        let now = Instant::now();
        for mut running in std::mem::take(&mut self.running) {
            match running.advance(upgrade.leaving_predecessor(), generations, now) {
                true => running.end(upgrade.successor()),
                false => self.running.push(running),
            }
        }
    }

    /// When a generation that has not answered is no longer waited for.
    pub(super) fn due(&self) -> Option<Instant> {
        self.running.iter().map(|running| running.until).min()
    }
}

impl Master {
    pub(super) fn disconnect(&mut self, selection: Selection, client: Client) {
        if self.children.serving().is_none() {
            return client.failed([super::NOT_SERVING]);
        }
        if self.disconnects.is_full() {
            return client.failed(["too many connections are being ended; try again"]);
        }
        self.disconnects.begin(selection, Requester::Client(client));
        self.advance_disconnects();
    }

    /// This program has been replaced, and finishes its requests.
    pub(super) fn disconnect_for_successor(&mut self, number: u32, selection: Selection) {
        self.disconnects.begin(selection, Requester::Successor(number));
        self.advance_disconnects();
    }

    /// A generation, or the program before an upgrade, has carried it out.
    pub(super) fn on_disconnected(&mut self, process: Process, ended: Disconnected) {
        self.disconnects.note(process, ended);
        self.advance_disconnects();
    }

    pub(super) fn advance_disconnects(&mut self) {
        self.disconnects.advance(&self.upgrade, &self.children.generations);
    }
}

impl RunningDisconnect {
    /// `true`: all have been asked, and none is awaited.
    fn advance(
        &mut self,
        predecessor: Option<&Predecessor>,
        generations: &[Generation],
        now: Instant,
    ) -> bool {
        // One that is starting has no connections, and gets none that another has not selected from.
        let living = |generation: &&Generation| {
            generation.channel_state == ChannelState::Open && generation.state != State::Starting
        };
        let generations: Vec<&Generation> = generations.iter().filter(living).collect();
        // What has ended has no connections.
        self.waiting = self.waiting.filter(|process| match process {
            Process::Predecessor => predecessor.is_some(),
            Process::Generation(pid) => generations.iter().any(|generation| generation.pid == *pid),
        });
        if self.waiting.is_some() && self.until <= now {
            self.waiting = None;
            self.silent += 1;
        }
        while self.waiting.is_none() {
            let is_next = |process: &Process| !self.asked.contains(process);
            let all = generations.iter().map(|generation| Process::Generation(generation.pid));
            let mut all = predecessor.map(|_| Process::Predecessor).into_iter().chain(all);
            let Some(next) = all.find(is_next) else { return true };
            drop(all);
            self.asked.push(next);
            let number = self.number;
            let sent = match (next, predecessor) {
                (Process::Predecessor, Some(predecessor)) => predecessor.disconnect(number, &self.selection),
                (Process::Predecessor, None) => Ok(()),
                (Process::Generation(pid), _) => {
                    let selection = self.selection.to_string().into_bytes();
                    let command = MasterCommand::Disconnect { number, selection };
                    let generation = generations.iter().find(|generation| generation.pid == pid);
                    generation.map_or(Ok(()), |generation| generation.channel.send(&command))
                }
            };
            match sent {
                Ok(()) => {
                    let timeout = if next == Process::Predecessor { 2 * TIMEOUT } else { TIMEOUT };
                    (self.waiting, self.until) = (Some(next), now + timeout);
                }
                // If it has not ended, it does not read what the master sends.
                Err(_) => self.silent += 1,
            }
        }
        false
    }

    fn end(self, successor: Option<&Successor>) {
        let RunningDisconnect { selection, requester, connections, streams, silent, .. } = self;
        let client = match requester {
            Requester::Client(client) => client,
            Requester::Successor(number) => {
                let ended = Disconnected { number, connections, streams, silent };
                // It may have ended.
                _ = successor.map(|successor| successor.channel.send(&ended));
                return;
            }
        };
        let ended = result(connections, streams, silent);
        log::audit(format_args!("control: disconnect {selection}: {ended}"));
        match selection {
            Selection::Connection(id) if connections == 0 && silent == 0 => client
                .failed([&*format!("there is no connection {id}: it has ended, or the ID is another one")]),
            _ if silent > 0 => client.failed([&*ended]),
            _ => client.done(&format!("{ended}\n")),
        }
    }
}

/// What the administrator reads, and the log.
fn result(connections: u64, streams: u64, silent: u32) -> String {
    let mut result = format!("ended: {}", counted(connections, "connection"));
    if streams > 0 {
        result.push_str(&format!(", {} of connections of proxies", counted(streams, "stream")));
    }
    match silent {
        0 => {}
        1 => result.push_str("; 1 worker does not respond, and may have more; try again"),
        _ => result.push_str(&format!("; {silent} workers do not respond, and may have more; try again")),
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_has_ended_in_singular_and_plural() {
        for (connections, streams, silent, expected) in [
            (0, 0, 0, "ended: 0 connections"),
            (1, 0, 0, "ended: 1 connection"),
            (2, 1, 0, "ended: 2 connections, 1 stream of connections of proxies"),
            (1, 2, 0, "ended: 1 connection, 2 streams of connections of proxies"),
            (1, 0, 1, "ended: 1 connection; 1 worker does not respond, and may have more; try again"),
            (0, 0, 2, "ended: 0 connections; 2 workers do not respond, and may have more; try again"),
        ] {
            assert_eq!(result(connections, streams, silent), expected);
        }
    }
}
