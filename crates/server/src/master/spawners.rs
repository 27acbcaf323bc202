//! The spawners: one for each generation with scripts. A generation without its spawner is replaced.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use site::model::{Level, Sink, Site};

use super::Master;
use super::change::Preparation;
use super::end::exit_text;
use super::lifecycle::State;
use crate::log::{self, OpenSink};
use crate::process::ipc::Channel;
use crate::spawner::{self, KILL_TIMEOUT, cgroup};
use crate::sys::Fork;

/// The process that starts scripts for a generation, and ends with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpawnerProcess {
    pub(super) pid: Pid,
    /// How long scripts may take to end after SIGTERM.
    pub(super) grace: Duration,
}

impl SpawnerProcess {
    /// How long the process may take to end.
    pub(super) fn patience(&self) -> Duration {
        self.grace + KILL_TIMEOUT
    }
}

impl Master {
    /// Starts the spawner if the site has scripts. Also returns a channel for each worker, and a warning if scripts
    /// have no control groups.
    pub(super) fn start_spawner(
        &mut self,
        preparation: &mut Preparation,
        place: Result<Option<PathBuf>, String>,
    ) -> io::Result<(Option<SpawnerProcess>, Vec<Channel>, Option<String>)> {
        let &mut Preparation { ref site, ref accounts, workers, .. } = preparation;
        if !site.has_scripts() {
            return Ok((None, Vec::new(), None));
        }
        let pairs = (0..workers).map(|_| Channel::pair()).collect::<io::Result<Vec<_>>>()?;
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let cgroups = place.and_then(|place| {
            let Some((place, wanted)) = place.zip(site.scripts.cgroups.as_ref()) else { return Ok(None) };
            // Twice as many as scripts: processes that an ended script leaves behind keep its group for a while.
            let each = 2 * (site.scripts.processes / workers).max(1);
            let made = cgroup::make(&place, wanted, each * workers)?;
            self.children.cgroups.insert(place);
            Ok(Some(made))
        });
        let complaint =
            cgroups.as_ref().err().map(|why| format!("scripts have no control groups of their own: {why}"));
        let cgroups = cgroups.ok().flatten();
        let setup = spawner::process::SpawnerSetup::of(site, theirs, accounts, cgroups);
        let grace = site.scripts.grace;
        match self.fork_child(Some(preparation))? {
            Fork::Parent(pid) => Ok((Some(SpawnerProcess { pid, grace }), ours, complaint)),
            Fork::Child => {
                drop(ours);
                // The spawner must not keep a rotated log file open.
                if let Ok(stderr) = OpenSink::open(&Sink::Stderr) {
                    log::write_to(stderr, Level::Error);
                }
                std::process::exit(spawner::process::run(setup).into())
            }
        }
    }

    /// A generation that serves is replaced with its spawner, and finishes the requests that need no script.
    pub(super) fn on_spawner_exit(&mut self, generation: Pid, status: WaitStatus) {
        let Some(generation) = self.children.generation_mut(generation) else { return };
        generation.spawner = None;
        // With this code, its workers have ended before it.
        if matches!(status, WaitStatus::Exited(_, 0)) {
            return;
        }
        let say =
            || log::error(format_args!("the process that starts scripts has ended: {}", exit_text(status)));
        match generation.state {
            State::Starting => {
                say();
                generation.kill();
            }
            State::Serving => {
                say();
                self.restart.schedule();
            }
            State::Leaving(_) | State::Killed(_) => {}
        }
    }
}

/// The folder for the control groups of scripts. `None`: the site has none. Errors: why there can be none.
pub(super) fn place_of_cgroups(site: &Site) -> Result<Option<PathBuf>, String> {
    let wanted = site.scripts.cgroups.as_ref().filter(|_| site.has_scripts());
    wanted.map(cgroup::place).transpose()
}
