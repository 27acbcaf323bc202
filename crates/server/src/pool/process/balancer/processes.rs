//! When a process of the application is started, and when one ends.

use std::time::{Duration, Instant};

use site::upstream::Managed;

use super::{Action, Balancer, FirstConnection, KillReason};
use crate::pool::message::{EndpointId, Share};
use crate::pool::process::endpoints::{Endpoint, EndpointState, Startup, lacking, superfluous};
use crate::process::supervisor::KillTimer;
use crate::spawner::Exit;

/// How often a new process is checked until it accepts its first connection.
const STARTUP_CHECK: Duration = Duration::from_millis(20);
const MEMORY_CHECK: Duration = Duration::from_secs(1);
/// A process that has run for so long has started, and its end is no failure to start.
const SETTLED: Duration = Duration::from_secs(2);

impl Balancer {
    pub fn on_started(&mut self, name: String, now: Instant) -> EndpointId {
        self.add_endpoint(name, Share::EQUAL, Startup::NotConnected, now)
    }

    /// Returns the pause before the next start.
    pub fn on_start_failed(&mut self, now: Instant) -> Duration {
        self.restarts.count(now)
    }

    pub fn on_startup_checked(&mut self, id: EndpointId, found: FirstConnection, now: Instant) {
        let Some(endpoint) = self.endpoints.iter_mut().find(|endpoint| endpoint.id == id) else { return };
        let Startup::Connected { since, .. } = endpoint.startup else { return };
        let timeout = self.upstream.managed().map_or(Duration::MAX, |managed| managed.start);
        match found {
            FirstConnection::Accepted => endpoint.startup = Startup::Accepted,
            FirstConnection::Waiting if now.duration_since(since) >= timeout => {
                endpoint.startup = Startup::Accepted;
                self.actions.push_back(Action::Kill(id, KillReason::NotAccepting));
            }
            FirstConnection::Waiting => {
                endpoint.startup = Startup::Connected { since, next_check: now + STARTUP_CHECK };
            }
        }
    }

    /// Bytes of a process in memory.
    pub fn on_memory(&mut self, id: EndpointId, bytes: u64) {
        let limit = self.upstream.managed().and_then(|managed| managed.memory);
        if limit.is_some_and(|limit| bytes > limit) {
            self.retire_where(|endpoint| endpoint.id == id);
        }
    }

    /// An endpoint has not responded to a request in time. A process that has done so as often as it can have requests
    /// at a time is taken for one that hangs: it may still be busy with all of them.
    pub(super) fn on_timeout(&mut self, id: EndpointId) {
        let Some(concurrent) = self.upstream.managed().map(|managed| managed.concurrent) else { return };
        let is_serving = |endpoint: &&mut Endpoint| endpoint.id == id && endpoint.is_serving();
        let Some(endpoint) = self.endpoints.iter_mut().find(is_serving) else { return };
        endpoint.timeouts += 1;
        if endpoint.timeouts >= concurrent {
            self.actions.push_back(Action::ReportHang(id));
            self.retire_where(|endpoint| endpoint.id == id);
        }
    }

    /// A process has ended. Returns the pause before the next start if that was a failure.
    pub fn on_exit(&mut self, id: EndpointId, exit: Exit, now: Instant) -> Option<Duration> {
        let at = self.endpoints.iter().position(|endpoint| endpoint.id == id)?;
        let endpoint = self.endpoints.remove(at);
        self.introduce();
        // Workers may have idle connections to it, and not know yet that it has ended.
        self.recall_endpoint(id);
        self.leases.retain(|_, leased| leased.endpoint != id);
        if !endpoint.is_serving() {
            return None;
        }
        let has_settled = now.duration_since(endpoint.began) >= SETTLED;
        if exit == Exit::Code(0) && (has_settled || endpoint.startup == Startup::Accepted) {
            // Some programs end by themselves after a number of requests.
            return None;
        }
        if has_settled {
            self.restarts.reset();
        }
        Some(self.restarts.count(now))
    }

    /// Starts and ends processes.
    pub(super) fn supervise(&mut self, now: Instant) {
        if self.is_abandoned() {
            self.retire_where(|_| true);
        }
        let upstream = self.upstream.clone();
        let Some(managed) = upstream.managed() else {
            return self.endpoints.retain(|endpoint| endpoint.is_serving() || endpoint.leases > 0);
        };
        if self.lacks(managed) && self.restarts.pause(now).is_none() {
            return self.actions.push_back(Action::Start);
        }
        while let Ok(at) = superfluous(&self.endpoints, managed, now) {
            self.endpoints[at].state = EndpointState::Retiring;
        }
        let checks_memory = managed.memory.is_some() && self.next_memory_check <= now;
        if checks_memory {
            self.next_memory_check = now + MEMORY_CHECK;
        }
        for endpoint in &mut self.endpoints {
            let id = endpoint.id;
            if checks_memory {
                self.actions.push_back(Action::CheckMemory(id));
            }
            if matches!(endpoint.startup, Startup::Connected { next_check, .. } if next_check <= now) {
                self.actions.push_back(Action::CheckStartup(id));
            }
            match &mut endpoint.state {
                EndpointState::Retiring if endpoint.leases == 0 => {
                    endpoint.state = EndpointState::Terminating(KillTimer::start(now, managed.grace));
                    self.actions.push_back(Action::Terminate(id));
                }
                EndpointState::Terminating(timer) => {
                    let kill = timer.expires(now).then_some(Action::Kill(id, KillReason::Grace));
                    self.actions.extend(kill);
                }
                EndpointState::Serving | EndpointState::Retiring => {}
            }
        }
    }

    pub(super) fn next_supervision(&self, managed: &Managed, now: Instant) -> Option<Instant> {
        let superfluous = superfluous(&self.endpoints, managed, now).err().flatten();
        let memory = managed.memory.filter(|_| !self.endpoints.is_empty()).map(|_| self.next_memory_check);
        let start = self.restarts.pause(now).filter(|_| self.lacks(managed));
        let of_endpoint = |endpoint: &Endpoint| {
            let startup = match endpoint.startup {
                Startup::Connected { next_check, .. } => Some(next_check),
                Startup::NotConnected | Startup::Accepted => None,
            };
            let kill = match endpoint.state {
                EndpointState::Terminating(timer) => Some(timer.due()),
                EndpointState::Serving | EndpointState::Retiring => None,
            };
            [startup, kill].into_iter().flatten()
        };
        let endpoints = self.endpoints.iter().flat_map(of_endpoint);
        [superfluous, memory, start].into_iter().flatten().chain(endpoints).min()
    }

    fn lacks(&self, managed: &Managed) -> bool {
        !self.is_abandoned() && lacking(&self.endpoints, managed) > 0
    }
}
