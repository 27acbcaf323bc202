//! Purges of the cache, from the request of a client to its response: every generation removes what matches, and the
//! purge has ended when all that live then have done it.

use std::time::{Duration, Instant};

use cache::store::purge::Purge;
use nix::unistd::Pid;

use super::Master;
use super::generations::ChannelState;
use crate::control::Client;
use crate::process::ipc::MasterCommand;

/// Less than the client waits.
const TIMEOUT: Duration = Duration::from_secs(110);
/// Purges at the same time.
const MOST: usize = 64;

#[derive(Default)]
pub(super) struct Purges {
    pub(super) running: Vec<RunningPurge>,
    /// The number of the last one.
    last: u32,
}

pub(super) struct RunningPurge {
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
    pub(super) until: Instant,
}

impl Master {
    pub(super) fn purge(&mut self, purge: Purge, client: Client) {
        if self.children.serving().is_none() {
            client.failed(["no process serves at this moment; try again"]);
        } else if self.purges.running.len() >= MOST {
            client.failed(["too many purges are running; try again"]);
        } else {
            self.purges.last = self.purges.last.wrapping_add(1);
            self.purges.running.push(RunningPurge {
                number: self.purges.last,
                purge,
                client,
                asked: Vec::new(),
                waiting: Vec::new(),
                in_memory: 0,
                files: 0,
                failed: 0,
                until: Instant::now() + TIMEOUT,
            });
            self.advance_purges();
        }
    }

    pub(super) fn on_purged(
        &mut self,
        generation: Pid,
        number: u32,
        in_memory: u64,
        files: u64,
        failed: u64,
    ) {
        if let Some(running) = self.purges.running.iter_mut().find(|running| running.number == number) {
            running.waiting.retain(|pid| *pid != generation);
            running.in_memory += in_memory;
            running.files += files;
            running.failed += failed;
        }
        self.advance_purges();
    }

    /// Asks the generations that have begun since, and responds to the clients whose purges have ended.
    pub(super) fn advance_purges(&mut self) {
        let now = Instant::now();
        for mut running in std::mem::take(&mut self.purges.running) {
            let living = |pid: &Pid| {
                self.children
                    .generations
                    .iter()
                    .any(|g| g.pid == *pid && g.channel_state == ChannelState::Open)
            };
            // What has ended has no memory.
            running.waiting.retain(living);
            for generation in
                self.children.generations.iter().filter(|g| g.channel_state == ChannelState::Open)
            {
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
                false => self.purges.running.push(running),
            }
        }
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
