//! Purges of the cache, from the request of a client to its response: every generation removes what matches, and the
//! purge has ended when all that live then have done it.

use std::time::{Duration, Instant};

use cache::store::purge::Purge;
use nix::unistd::Pid;

use super::generations::{ChannelState, Generation};
use super::{Master, NOT_SERVING};
use crate::control::Client;
use crate::process::ipc::MasterCommand;

/// Less than the client waits.
const TIMEOUT: Duration = Duration::from_secs(110);
/// Purges at the same time.
const MOST: usize = 64;

#[derive(Default)]
pub(super) struct Purges {
    running: Vec<RunningPurge>,
    /// The number of the last one.
    last: u32,
}

struct RunningPurge {
    number: u32,
    purge: Purge,
    client: Client,
    /// The generations that have been asked, and those that have not answered.
    asked: Vec<Pid>,
    waiting: Vec<Pid>,
    /// What they have removed: responses in memory, which each worker has, and files.
    in_memory: u64,
    files: u64,
    /// Files and folders that may still have responses.
    failed: u64,
    until: Instant,
}

impl Purges {
    /// In a forked child. The clients wait for the end of the stream, and so for each copy of its descriptor.
    pub(super) fn release(&mut self) {
        self.running.clear();
    }

    fn is_full(&self) -> bool {
        self.running.len() >= MOST
    }

    fn begin(&mut self, purge: Purge, client: Client) {
        self.last = self.last.wrapping_add(1);
        self.running.push(RunningPurge {
            number: self.last,
            purge,
            client,
            asked: Vec::new(),
            waiting: Vec::new(),
            in_memory: 0,
            files: 0,
            failed: 0,
            until: Instant::now() + TIMEOUT,
        });
    }

    /// A generation has carried out the purge with this number.
    pub(super) fn note(&mut self, generation: Pid, number: u32, in_memory: u64, files: u64, failed: u64) {
        if let Some(running) = self.running.iter_mut().find(|running| running.number == number) {
            running.waiting.retain(|pid| *pid != generation);
            running.in_memory += in_memory;
            running.files += files;
            running.failed += failed;
        }
    }

    /// Asks the generations that have begun since, and responds to the clients whose purges have ended.
    fn advance(&mut self, generations: &[Generation]) {
        let now = Instant::now();
        let is_open = |generation: &&Generation| generation.channel_state == ChannelState::Open;
        for mut running in std::mem::take(&mut self.running) {
            let living =
                |pid: &Pid| generations.iter().filter(is_open).any(|generation| generation.pid == *pid);
            // What has ended has no memory.
            running.waiting.retain(living);
            for generation in generations.iter().filter(is_open) {
                if !running.asked.contains(&generation.pid) {
                    let (number, purge) = (running.number, running.purge.to_string().into_bytes());
                    running.asked.push(generation.pid);
                    // If it fails, the generation has ended, which `reap` finds out.
                    if generation.channel.send(&MasterCommand::Purge { number, purge }).is_ok() {
                        running.waiting.push(generation.pid);
                    }
                }
            }
            match running.waiting.is_empty() {
                true => running.end(),
                false if running.until <= now => {
                    running.client.failed(["a process does not respond; see the error log, and try again"]);
                }
                false => self.running.push(running),
            }
        }
    }

    /// When a client is no longer kept waiting.
    pub(super) fn due(&self) -> Option<Instant> {
        self.running.iter().map(|running| running.until).min()
    }
}

impl Master {
    pub(super) fn purge(&mut self, purge: Purge, client: Client) {
        if self.children.serving().is_none() {
            client.failed([NOT_SERVING]);
        } else if self.purges.is_full() {
            client.failed(["too many purges are running; try again"]);
        } else {
            self.purges.begin(purge, client);
            self.advance_purges();
        }
    }

    pub(super) fn advance_purges(&mut self) {
        self.purges.advance(&self.children.generations);
    }
}

impl RunningPurge {
    fn end(self) {
        let RunningPurge { client, in_memory, files, failed, .. } = self;
        let removed = format!("removed: {in_memory} in the memory of workers, {files} in files");
        match failed {
            0 => client.done(&format!("{removed}\n")),
            _ => client.failed([
                &*removed,
                &*format!("not removed: {failed} files or folders; see the error log, and purge again"),
            ]),
        }
    }
}
