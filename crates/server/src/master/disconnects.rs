//! Ends of connections, from the request of an administrator to its response. The generations carry it out one after
//! the other, the oldest first: they hand connections off in this order, so that none is missed on its way.

use std::time::{Duration, Instant};

use nix::unistd::Pid;
use site::disconnect::Selection;

use super::Master;
use super::lifecycle::State;
use super::process::{ChannelState, Generation};
use crate::control::Client;
use crate::ipc::MasterCommand;
use crate::log;

/// How long a generation may take: more than its workers may.
const TIMEOUT: Duration = Duration::from_secs(5);
/// At the same time.
const MOST: usize = 64;

pub(super) struct RunningDisconnect {
    number: u32,
    selection: Selection,
    client: Client,
    /// The generations that have been asked.
    asked: Vec<Pid>,
    /// The one that has not answered, until this time.
    waiting: Option<Pid>,
    pub(super) until: Instant,
    connections: u64,
    streams: u64,
    /// Workers and generations that do not respond.
    silent: u32,
}

impl Master {
    pub(super) fn disconnect(&mut self, selection: Selection, client: Client) {
        if self.serving().is_none() {
            return client.failed([super::NOT_SERVING]);
        }
        if self.disconnects.len() >= MOST {
            return client.failed(["too many connections are being ended; try again"]);
        }
        self.disconnect_number = self.disconnect_number.wrapping_add(1);
        self.disconnects.push(RunningDisconnect {
            number: self.disconnect_number,
            selection,
            client,
            asked: Vec::new(),
            waiting: None,
            until: Instant::now(),
            connections: 0,
            streams: 0,
            silent: 0,
        });
        self.advance_disconnects();
    }

    /// A generation has carried it out.
    pub(super) fn on_disconnected(
        &mut self,
        generation: Pid,
        number: u32,
        (connections, streams): (u64, u64),
        silent: u32,
    ) {
        if let Some(running) = self.disconnects.iter_mut().find(|running| running.number == number) {
            running.connections += connections;
            running.streams += streams;
            // One that was late has been counted.
            if running.waiting == Some(generation) {
                running.waiting = None;
                running.silent += silent;
            }
        }
        self.advance_disconnects();
    }

    /// Asks the next generation of each, and responds to those that have asked all.
    pub(super) fn advance_disconnects(&mut self) {
        let now = Instant::now();
        for mut running in std::mem::take(&mut self.disconnects) {
            match running.advance(&self.generations, now) {
                true => running.end(),
                false => self.disconnects.push(running),
            }
        }
    }
}

impl RunningDisconnect {
    /// `true`: all have been asked, and none is awaited.
    fn advance(&mut self, generations: &[Generation], now: Instant) -> bool {
        // One that is starting has no connections, and gets none that another has not selected from.
        let living = |generation: &&Generation| {
            generation.channel_state == ChannelState::Open && generation.state != State::Starting
        };
        // What has ended has no connections.
        self.waiting = self.waiting.filter(|pid| generations.iter().filter(living).any(|g| g.pid == *pid));
        if self.waiting.is_some() && self.until <= now {
            self.waiting = None;
            self.silent += 1;
        }
        while self.waiting.is_none() {
            let is_next = |generation: &&Generation| !self.asked.contains(&generation.pid);
            let Some(next) = generations.iter().filter(living).find(is_next) else { return true };
            self.asked.push(next.pid);
            let (number, selection) = (self.number, self.selection.to_string().into_bytes());
            match next.channel.send(&MasterCommand::Disconnect { number, selection }) {
                Ok(()) => (self.waiting, self.until) = (Some(next.pid), now + TIMEOUT),
                // If it has not ended, it does not read what the master sends.
                Err(_) => self.silent += 1,
            }
        }
        false
    }

    fn end(self) {
        let RunningDisconnect { selection, client, connections, streams, silent, .. } = self;
        let mut ended = format!("ended: {connections} connections");
        if streams > 0 {
            ended.push_str(&format!(", {streams} streams of connections of proxies"));
        }
        if silent > 0 {
            ended.push_str(&format!("; {silent} workers do not respond, and may have more; try again"));
        }
        log::audit(format_args!("control: disconnect {selection}: {ended}"));
        match selection {
            Selection::Connection(id) if connections == 0 && silent == 0 => client
                .failed([&*format!("there is no connection {id}: it has ended, or the ID is another one")]),
            _ if silent > 0 => client.failed([&*ended]),
            _ => client.done(&format!("{ended}\n")),
        }
    }
}
