//! The rules of a pool: which waiting request gets a connection to which endpoint, when a process is started, and when
//! one ends. Pure: events and the time go in, and actions come out. Knows neither sockets nor processes.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use site::health::Health;
use site::upstream::{Endpoints, Managed, Upstream};

use super::PoolError;
use super::endpoints::{Endpoint, EndpointState, Startup, Wish, choose, lacking, next_retry, superfluous};
use super::message::{Availability, EndpointId, EndpointNotice, Lease, PoolRequest, Share, Tried};
use super::selection::Choice;
use crate::admission::AdmissionQueue;
use crate::process::supervisor::{KillTimer, RestartLimit};
use crate::spawner::Exit;

/// How often a new process is checked until it accepts its first connection.
const STARTUP_CHECK: Duration = Duration::from_millis(20);
/// How long a request waits for an idle connection of another worker, before a process is started for it.
const RECALL_TIMEOUT: Duration = Duration::from_millis(200);
/// How often idle connections are recalled from the other workers.
const RECALL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a request is kept away from the process that has just failed it: the process may be about to end.
const AVOID: Duration = Duration::from_millis(100);
/// After this many failures in a row, no request waits for a process to start.
const FAILING: usize = 3;
const MEMORY_CHECK: Duration = Duration::from_secs(1);
/// A process that has run for so long has started, and its end is no failure to start.
const SETTLED: Duration = Duration::from_secs(2);

pub type WorkerId = u64;

/// What the caller does next. The result, where there is one, is reported before the next action is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Connect to the endpoint of this lease, for the request `number` of a worker. Reported by `on_connected` or
    /// `on_connect_failed`.
    Connect {
        worker: WorkerId,
        number: u64,
        lease: Lease,
    },
    Reject {
        worker: WorkerId,
        number: u64,
        why: PoolError,
    },
    /// Recall an idle connection from a worker: any, or one to this endpoint.
    Recall {
        worker: WorkerId,
        endpoint: Option<EndpointId>,
    },
    /// Recall all idle connections to an endpoint that takes no more requests.
    Retire {
        worker: WorkerId,
        endpoint: EndpointId,
    },
    /// Tell all workers how an endpoint is now.
    Announce(EndpointId),
    /// Tell a new worker which endpoints there are. Or, because some have been added or have left, all workers.
    Introduce(Option<WorkerId>),
    /// Reported by `on_checked`.
    CheckHealth(EndpointId),
    /// Reported by `on_started` or `on_start_failed`.
    Start,
    /// Reported by `on_startup_checked`.
    CheckStartup(EndpointId),
    /// Reported by `on_memory`.
    CheckMemory(EndpointId),
    Terminate(EndpointId),
    Kill(EndpointId, KillReason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// The grace after SIGTERM has passed.
    Grace,
    /// The process has not accepted its first connection in time.
    NotAccepting,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// Its queue of connections is full.
    Busy,
    /// For this reason.
    Unreachable(String),
}

/// What becomes of a request that waits.
enum Verdict {
    /// It gets a connection to the endpoint with this index.
    Serve(usize),
    Reject(PoolError),
}

/// What a process does with its first connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstConnection {
    Accepted,
    Waiting,
}

pub struct Balancer {
    upstream: Rc<Upstream>,
    endpoints: Vec<Endpoint>,
    queue: AdmissionQueue<Waiter>,
    /// By their number.
    leases: HashMap<u64, Leased>,
    workers: BTreeSet<WorkerId>,
    master: Master,
    restarts: RestartLimit,
    next_memory_check: Instant,
    /// Names whose addresses are not known yet.
    unresolved: usize,
    actions: VecDeque<Action>,
    next_id: u64,
}

/// May the master still add workers?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Master {
    Connected,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leased {
    endpoint: EndpointId,
    worker: WorkerId,
    /// A request on it has failed.
    has_failed: bool,
    is_upgraded: bool,
}

struct Waiter {
    worker: WorkerId,
    number: u64,
    choice: Choice,
    /// Endpoints that have failed it in the worker.
    tried: Tried,
    /// Endpoints that could not be reached for it.
    unreachable: Vec<EndpointId>,
    since: Instant,
    recalled: Option<Instant>,
    /// Workers that may have an idle connection: a recall was sent to them, and they have not sent `NothingIdle`.
    recalled_from: Vec<WorkerId>,
}

impl Balancer {
    pub fn new(upstream: Rc<Upstream>, now: Instant) -> Balancer {
        Balancer {
            endpoints: Vec::new(),
            queue: AdmissionQueue::new(upstream.queue),
            leases: HashMap::new(),
            workers: BTreeSet::new(),
            master: Master::Connected,
            restarts: RestartLimit::of_applications(),
            next_memory_check: now,
            unresolved: 0,
            actions: VecDeque::new(),
            // 0 stands for no endpoint in a message.
            next_id: 1,
            upstream,
        }
    }

    pub fn add_address(&mut self, name: String, share: Share, now: Instant) -> EndpointId {
        self.add_endpoint(name, share, Startup::Accepted, now)
    }

    /// The share of an address has changed, perhaps.
    pub fn set_share(&mut self, id: EndpointId, share: Share) {
        let endpoint = self.endpoints.iter_mut().find(|endpoint| endpoint.id == id);
        if let Some(endpoint) = endpoint.filter(|endpoint| endpoint.share != share) {
            endpoint.share = share;
            self.actions.push_back(Action::Announce(id));
        }
    }

    /// An address that is not one of a name any more. Requests on connections to it go on.
    pub fn remove_address(&mut self, id: EndpointId) {
        self.retire_where(|endpoint| endpoint.id == id);
        self.introduce();
    }

    /// Requests wait while there is no endpoint, but a name that may have some.
    pub fn set_unresolved(&mut self, names: usize) {
        self.unresolved = names;
    }

    pub fn add_worker(&mut self) -> WorkerId {
        let id = self.new_id();
        self.workers.insert(id);
        self.actions.push_back(Action::Introduce(Some(id)));
        id
    }

    pub fn on_master_gone(&mut self) {
        self.master = Master::Gone;
    }

    pub fn on_request(&mut self, worker: WorkerId, request: PoolRequest, now: Instant) {
        match request {
            PoolRequest::Acquire { number, choice, tried } => {
                _ = self.queue.push(Waiter {
                    worker,
                    number,
                    choice,
                    tried,
                    unreachable: Vec::new(),
                    since: now,
                    recalled: None,
                    recalled_from: Vec::new(),
                });
            }
            PoolRequest::Cancel { number } => {
                self.queue.retain(|waiter| (waiter.worker, waiter.number) != (worker, number));
            }
            PoolRequest::NothingIdle => {
                if let Some(first) = self.queue.first_mut() {
                    first.recalled_from.retain(|other| *other != worker);
                }
            }
            PoolRequest::Return { lease, requests, idle } => {
                let unused = now.checked_sub(idle).unwrap_or(now);
                self.return_lease(lease, requests, unused);
            }
            PoolRequest::Upgraded { lease } => self.on_upgraded(lease, now),
            PoolRequest::Failed { lease, reason } => {
                let Some(leased) = self.leases.get_mut(&lease) else { return };
                leased.has_failed = true;
                let id = leased.endpoint;
                self.on_failure(id, &reason, now);
            }
        }
    }

    /// Its connections have ended with it.
    pub fn on_worker_gone(&mut self, worker: WorkerId, now: Instant) {
        self.workers.remove(&worker);
        self.queue.retain(|waiter| waiter.worker != worker);
        let of_worker = self.leases.iter().filter(|(_, leased)| leased.worker == worker);
        let leases: Vec<u64> = of_worker.map(|(lease, _)| *lease).collect();
        leases.into_iter().for_each(|lease| self.return_lease(lease, 0, now));
    }

    pub fn on_connected(&mut self, (worker, number): (WorkerId, u64), lease: Lease, now: Instant) {
        let waiter = self.queue.take(|_, waiter| (waiter.worker, waiter.number) == (worker, number));
        let endpoint = self.endpoints.iter_mut().find(|endpoint| endpoint.id == lease.endpoint);
        let (Some(_), Some(endpoint)) = (waiter, endpoint) else { return };
        endpoint.leases += 1;
        if endpoint.startup == Startup::NotConnected {
            endpoint.startup = Startup::Connected { since: now, next_check: now };
        }
        let leased = Leased { endpoint: lease.endpoint, worker, has_failed: false, is_upgraded: false };
        self.leases.insert(lease.number, leased);
    }

    pub fn on_connect_failed(
        &mut self,
        (worker, number): (WorkerId, u64),
        id: EndpointId,
        error: &ConnectError,
        now: Instant,
    ) {
        match error {
            ConnectError::Busy => {
                let endpoint = self.endpoints.iter_mut().find(|endpoint| endpoint.id == id);
                endpoint.into_iter().for_each(|endpoint| endpoint.mark_busy(now));
            }
            ConnectError::Unreachable(reason) => {
                self.on_failure(id, reason, now);
                let is_own = |waiter: &&mut Waiter| (waiter.worker, waiter.number) == (worker, number);
                let waiter = self.queue.iter_mut().find(is_own);
                waiter.into_iter().for_each(|waiter| waiter.unreachable.push(id));
            }
        }
    }

    /// A health check of an endpoint has ended. Errors: why it has failed.
    pub fn on_checked(&mut self, id: EndpointId, found: Result<(), &str>, now: Instant) {
        let upstream = self.upstream.clone();
        let endpoint = self.endpoints.iter_mut().find(|endpoint| endpoint.id == id);
        if let (Some(endpoint), Some(checks)) = (endpoint, &upstream.health.checks) {
            endpoint.health.on_checked(checks, found, now);
        }
    }

    /// Takes the endpoints of this name, or of this address of a name, out of service, or puts them back. `false`:
    /// there is none.
    pub fn set_draining(&mut self, name: &str, is_draining: bool, now: Instant) -> bool {
        let mut found = false;
        let is_named = |endpoint: &&mut Endpoint| match endpoint.name.split_once(" (") {
            Some((configured, resolved)) => configured == name || resolved.strip_suffix(')') == Some(name),
            None => endpoint.name == name,
        };
        for endpoint in self.endpoints.iter_mut().filter(is_named) {
            found = true;
            endpoint.health.set_draining(is_draining);
            if endpoint.health.update(now) {
                self.actions.push_back(Action::Announce(endpoint.id));
            }
        }
        found
    }

    fn on_upgraded(&mut self, lease: u64, now: Instant) {
        let Some(leased) = self.leases.get_mut(&lease).filter(|leased| !leased.is_upgraded) else { return };
        leased.is_upgraded = true;
        let id = leased.endpoint;
        if let Some(endpoint) = self.endpoints.iter_mut().find(|endpoint| endpoint.id == id) {
            endpoint.upgraded += 1;
            endpoint.leases -= 1;
            endpoint.unused = now;
        }
    }

    fn on_failure(&mut self, id: EndpointId, reason: &str, now: Instant) {
        let has_others = self.endpoints.iter().filter(|endpoint| endpoint.is_serving()).count() > 1;
        let settings = &self.upstream.health;
        // The only endpoint has its requests in any case, and keeps its connections.
        let failures = if has_others { settings.failures } else { 0 };
        let settings = Health { failures, ..settings.clone() };
        if let Some(endpoint) = self.endpoints.iter_mut().find(|endpoint| endpoint.id == id) {
            endpoint.health.on_failure(&settings, reason, now);
            endpoint.health.update(now);
            self.actions.push_back(Action::Announce(id));
        }
    }

    /// The endpoints as workers are told.
    pub fn notices(&self, now: Instant) -> impl Iterator<Item = EndpointNotice> {
        self.endpoints.iter().filter(|endpoint| endpoint.is_serving()).map(move |endpoint| EndpointNotice {
            id: endpoint.id,
            name: endpoint.name.clone(),
            share: endpoint.share,
            state: endpoint.health.state(),
            age: now.saturating_duration_since(endpoint.health.since),
            failures: endpoint.health.failures,
            reason: endpoint.health.reason.clone(),
        })
    }

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

    /// A process has ended. Returns the pause before the next start if that was a failure.
    pub fn on_exit(&mut self, id: EndpointId, exit: Exit, now: Instant) -> Option<Duration> {
        let at = self.endpoints.iter().position(|endpoint| endpoint.id == id)?;
        let endpoint = self.endpoints.remove(at);
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

    /// What is to be done now. `None`: nothing before `deadline`, or the next event.
    pub fn next(&mut self, now: Instant) -> Option<Action> {
        for rule in [Balancer::watch_health, Balancer::supervise, Balancer::serve, Balancer::reject_excess] {
            if self.actions.is_empty() {
                rule(self, now);
            }
        }
        self.actions.pop_front()
    }

    /// When there will be something to do without an event.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let supervision = self.upstream.managed().and_then(|managed| self.next_supervision(managed, now));
        let waiting = (!self.queue.is_empty()).then_some(now + RECALL_INTERVAL);
        let retry = waiting.and_then(|_| next_retry(&self.endpoints, now));
        let checks = self.upstream.health.checks.as_ref();
        let health = self.endpoints.iter().filter_map(|endpoint| endpoint.health.deadline(checks, now)).min();
        [supervision, waiting, retry, health].into_iter().flatten().min()
    }

    /// Neither a worker nor the master needs the pool, and its processes have ended.
    pub fn is_over(&self) -> bool {
        let has_processes = self.upstream.managed().is_some() && !self.endpoints.is_empty();
        self.is_abandoned() && !has_processes
    }

    fn is_abandoned(&self) -> bool {
        self.master == Master::Gone && self.workers.is_empty()
    }

    /// Begins the checks that are due, and announces what has changed.
    fn watch_health(&mut self, now: Instant) {
        let upstream = self.upstream.clone();
        for endpoint in &mut self.endpoints {
            if let Some(checks) = &upstream.health.checks
                && endpoint.health.begin_check(checks, now)
            {
                self.actions.push_back(Action::CheckHealth(endpoint.id));
            }
            if endpoint.health.update(now) {
                self.actions.push_back(Action::Announce(endpoint.id));
            }
        }
    }

    /// Starts and ends processes.
    fn supervise(&mut self, now: Instant) {
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
        let (min, spare, unused) = (managed.min_processes, managed.spare_processes, managed.unused);
        while let Ok(at) = superfluous(&self.endpoints, min, spare, unused, now) {
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

    fn next_supervision(&self, managed: &Managed, now: Instant) -> Option<Instant> {
        let (min, spare) = (managed.min_processes, managed.spare_processes);
        let superfluous = superfluous(&self.endpoints, min, spare, managed.unused, now).err().flatten();
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
        let limits = (managed.min_processes, managed.max_processes);
        !self.is_abandoned() && lacking(&self.endpoints, limits, managed.spare_processes) > 0
    }

    /// Serves the first request that an endpoint can serve, or rejects one that none ever can.
    fn serve(&mut self, now: Instant) {
        if self.queue.is_empty() {
            return;
        }
        let verdict = self.queue.iter().find_map(|(_, waiter)| {
            let excluded = self.excluded(waiter, now);
            let verdict = self.verdict(waiter, &excluded, now)?;
            Some((waiter.worker, waiter.number, verdict))
        });
        match verdict {
            None => self.provide(now),
            Some((worker, number, Verdict::Reject(why))) => {
                let waiter = self.queue.take(|_, waiter| (waiter.worker, waiter.number) == (worker, number));
                self.reject(waiter, why);
            }
            Some((worker, number, Verdict::Serve(at))) => self.lease(worker, number, at),
        }
    }

    /// `None`: it waits.
    fn verdict(&self, waiter: &Waiter, excluded: &[EndpointId], now: Instant) -> Option<Verdict> {
        let Waiter { choice, ref tried, .. } = *waiter;
        let slow_start = self.upstream.health.slow_start;
        let wish = Wish { choice, tried, excluded, slow_start };
        if let Some(at) = choose(&self.endpoints, self.capacity(), &wish, now) {
            return Some(Verdict::Serve(at));
        }
        let is_hopeless = self.upstream.managed().is_none()
            && self.endpoints.iter().any(Endpoint::is_serving)
            && !self.endpoints.iter().any(|endpoint| endpoint.is_eligible(choice, excluded));
        is_hopeless.then(|| {
            let was_down = |endpoint: &Endpoint| {
                endpoint.health.state() != Availability::Up && endpoint.health.since < waiter.since
            };
            let were_down = self.endpoints.len() > 1 && self.endpoints.iter().all(was_down);
            Verdict::Reject(if were_down { PoolError::AllDown } else { PoolError::Unreachable })
        })
    }

    /// Endpoints that a request cannot have.
    fn excluded(&self, waiter: &Waiter, now: Instant) -> Vec<EndpointId> {
        let is_avoiding = self.upstream.managed().is_some() && now < waiter.since + AVOID;
        let tried = if is_avoiding { &waiter.tried[..] } else { &[] };
        waiter.unreachable.iter().chain(tried).copied().collect()
    }

    fn lease(&mut self, worker: WorkerId, number: u64, at: usize) {
        let lease_number = self.new_id();
        let endpoint = &self.endpoints[at];
        let limit = self.upstream.managed().and_then(|managed| managed.requests).unwrap_or(u64::MAX);
        let left = limit.saturating_sub(endpoint.requests).div_ceil(self.capacity() as u64).max(1);
        let lease = Lease { number: lease_number, endpoint: endpoint.id, requests: left };
        self.actions.push_back(Action::Connect { worker, number, lease });
    }

    /// No endpoint can serve a request now.
    fn provide(&mut self, now: Instant) {
        let count = self.endpoints.iter().filter(|endpoint| endpoint.is_serving()).count();
        let max = self.upstream.managed().map(|managed| managed.max_processes);
        match max {
            // An idle connection of another worker is there sooner than another process.
            Some(_) if count > 0 && self.recall_idle(now) => {}
            Some(max) if count < max && self.restarts.pause(now).is_none() => {
                self.actions.push_back(Action::Start);
            }
            Some(_) if count == 0 && self.restarts.ends() >= FAILING => self.reject_first(PoolError::Failing),
            Some(_) => {}
            None if count == 0 && self.unresolved > 0 => {}
            None if count == 0 => self.reject_first(PoolError::Unresolved),
            None => _ = self.recall_idle(now),
        }
    }

    /// Recalls idle connections from the other workers. Returns whether one may still come in time.
    fn recall_idle(&mut self, now: Instant) -> bool {
        let Some(first) = self.queue.first_mut() else { return false };
        if first.recalled.is_none_or(|at| at + RECALL_INTERVAL <= now) {
            let others: BTreeSet<WorkerId> = self.leases.values().map(|leased| leased.worker).collect();
            first.recalled = Some(now);
            first.recalled_from = others.into_iter().filter(|other| *other != first.worker).collect();
            let endpoint = match first.choice {
                Choice::Only(endpoint) => Some(endpoint),
                Choice::Any | Choice::Prefer(_) => None,
            };
            let recall = |worker: &WorkerId| Action::Recall { worker: *worker, endpoint };
            self.actions.extend(first.recalled_from.iter().map(recall));
        }
        !first.recalled_from.is_empty() && now < first.since + RECALL_TIMEOUT
    }

    fn reject_first(&mut self, why: PoolError) {
        let first = self.queue.take(|_, _| true);
        self.reject(first, why);
    }

    fn reject_excess(&mut self, _: Instant) {
        let last = self.queue.take_excess();
        self.reject(last, PoolError::QueueFull);
    }

    fn reject(&mut self, waiter: Option<Waiter>, why: PoolError) {
        let reject = |Waiter { worker, number, .. }| Action::Reject { worker, number, why };
        self.actions.extend(waiter.map(reject));
    }

    fn return_lease(&mut self, lease: u64, requests: u64, unused: Instant) {
        let Some(Leased { endpoint: id, has_failed, is_upgraded, .. }) = self.leases.remove(&lease) else {
            return;
        };
        let Some(endpoint) = self.endpoints.iter_mut().find(|endpoint| endpoint.id == id) else { return };
        match is_upgraded {
            true => endpoint.upgraded -= 1,
            false => endpoint.leases -= 1,
        }
        endpoint.requests += requests;
        if endpoint.leases == 0 {
            endpoint.unused = unused;
        }
        if requests > 0 && !has_failed {
            self.restarts.reset();
        }
        let limit = self.upstream.managed().and_then(|managed| managed.requests);
        if limit.is_some_and(|limit| endpoint.requests >= limit) {
            self.retire_where(|endpoint| endpoint.id == id);
        }
    }

    fn retire_where(&mut self, which: impl Fn(&Endpoint) -> bool) {
        let mut retired = Vec::new();
        for endpoint in self.endpoints.iter_mut().filter(|endpoint| endpoint.is_serving() && which(endpoint))
        {
            endpoint.state = EndpointState::Retiring;
            retired.push(endpoint.id);
        }
        retired.into_iter().for_each(|id| self.recall_endpoint(id));
    }

    /// Recalls all idle connections to an endpoint that takes no more requests.
    fn recall_endpoint(&mut self, id: EndpointId) {
        let of_endpoint = self.leases.values().filter(|leased| leased.endpoint == id);
        let workers: BTreeSet<WorkerId> = of_endpoint.map(|leased| leased.worker).collect();
        let retire = |worker| Action::Retire { worker, endpoint: id };
        self.actions.extend(workers.into_iter().map(retire));
    }

    /// The most connections to one endpoint.
    fn capacity(&self) -> usize {
        match &self.upstream.endpoints {
            Endpoints::External(external) => external.connections,
            Endpoints::Managed(managed) => managed.concurrent,
        }
    }

    fn add_endpoint(&mut self, name: String, share: Share, startup: Startup, now: Instant) -> EndpointId {
        let id = self.new_id();
        self.endpoints.push(Endpoint::new(id, name, share, startup, now));
        self.introduce();
        id
    }

    fn introduce(&mut self) {
        let all = Action::Introduce(None);
        if !self.workers.is_empty() && !self.actions.contains(&all) {
            self.actions.push_back(all);
        }
    }

    fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }
}

#[cfg(test)]
mod tests {
    use site::address::Address;
    use site::health::Checks;
    use site::upstream::{External, Protocol};

    use super::*;

    /// What happens to a pool of two workers, 1 and 2. Endpoints are called a, b, c in the order in which they come.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        /// A worker acquires a connection for its request of this number.
        Acquire(usize, u64),
        /// The same, but not to this endpoint.
        Avoid(usize, u64, char),
        /// The same, to this endpoint alone.
        Only(usize, u64, char),
        /// A health check of an endpoint succeeds, or fails.
        Checked(char, bool),
        /// The administrator takes an endpoint out of service, or puts it back.
        Drain(char, bool),
        Cancel(usize, u64),
        NothingIdle(usize),
        /// A worker returns the lease of its request, which has had so many requests.
        Return(usize, u64, u64),
        Fail(usize, u64),
        WorkerGone(usize),
        MasterGone,
        /// A process exits with this code.
        Exit(char, u8),
        /// From now on, connections to this endpoint fail, or processes do not start.
        Unreachable(char),
        Busy(char),
        NoStart,
        /// Processes do not accept, or need so much memory.
        NotAccepting,
        Memory(u64),
        Tick,
    }
    use Event::*;

    struct Fixture {
        balancer: Balancer,
        began: Instant,
        workers: [WorkerId; 2],
        endpoints: Vec<EndpointId>,
        leases: HashMap<(usize, u64), u64>,
        failing: HashMap<EndpointId, ConnectError>,
        starts: bool,
        first_connection: FirstConnection,
        memory: u64,
    }

    impl Fixture {
        fn new(upstream: &Upstream) -> Fixture {
            let began = Instant::now();
            let mut balancer = Balancer::new(Rc::new(upstream.clone()), began);
            let addresses = match &upstream.endpoints {
                Endpoints::External(external) => external.addresses.len(),
                Endpoints::Managed(_) => 0,
            };
            let endpoints =
                (0..addresses).map(|at| balancer.add_address(at.to_string(), Share::EQUAL, began)).collect();
            let workers = [balancer.add_worker(), balancer.add_worker()];
            let (leases, failing) = (HashMap::new(), HashMap::new());
            let first_connection = FirstConnection::Accepted;
            let (starts, memory) = (true, 0);
            Fixture { balancer, began, workers, endpoints, leases, failing, starts, first_connection, memory }
        }

        fn id(&self, endpoint: char) -> EndpointId {
            self.endpoints[endpoint as usize - 'a' as usize]
        }

        fn name(&self, id: EndpointId) -> char {
            let at = self.endpoints.iter().position(|endpoint| *endpoint == id).unwrap();
            (b'a' + at as u8) as char
        }

        fn worker(&self, id: WorkerId) -> usize {
            self.workers.iter().position(|worker| *worker == id).unwrap() + 1
        }

        fn request(&mut self, worker: usize, request: PoolRequest, now: Instant) {
            self.balancer.on_request(self.workers[worker - 1], request, now);
        }

        fn give_back(&mut self, of: (usize, u64), requests: u64, now: Instant) {
            let lease = self.leases.remove(&of).unwrap();
            self.request(of.0, PoolRequest::Return { lease, requests, idle: Duration::ZERO }, now);
        }

        fn acquire(&mut self, of: (usize, u64), choice: Choice, tried: Option<char>, now: Instant) {
            let tried = tried.map(|endpoint| self.id(endpoint)).into_iter().collect();
            self.request(of.0, PoolRequest::Acquire { number: of.1, choice, tried }, now);
        }

        /// What the balancer does about an event, in words.
        fn on(&mut self, ms: u64, event: Event) -> Vec<String> {
            let now = self.began + Duration::from_millis(ms);
            match event {
                Acquire(worker, number) => self.acquire((worker, number), Choice::Any, None, now),
                Avoid(worker, number, tried) => {
                    self.acquire((worker, number), Choice::Any, Some(tried), now);
                }
                Only(worker, number, endpoint) => {
                    self.acquire((worker, number), Choice::Only(self.id(endpoint)), None, now);
                }
                Checked(endpoint, succeeds) => {
                    let found = if succeeds { Ok(()) } else { Err("refused") };
                    self.balancer.on_checked(self.id(endpoint), found, now);
                }
                Drain(endpoint, drains) => {
                    let name = self.balancer.endpoints[endpoint as usize - 'a' as usize].name.clone();
                    assert!(self.balancer.set_draining(&name, drains, now));
                }
                Cancel(worker, number) => self.request(worker, PoolRequest::Cancel { number }, now),
                NothingIdle(worker) => self.request(worker, PoolRequest::NothingIdle, now),
                Return(worker, number, requests) => {
                    self.give_back((worker, number), requests, now);
                }
                Fail(worker, number) => {
                    let (lease, reason) = (self.leases[&(worker, number)], "reset".to_owned());
                    self.request(worker, PoolRequest::Failed { lease, reason }, now);
                    self.give_back((worker, number), 1, now);
                }
                WorkerGone(worker) => self.balancer.on_worker_gone(self.workers[worker - 1], now),
                MasterGone => self.balancer.on_master_gone(),
                Exit(endpoint, code) => {
                    let pause = self.balancer.on_exit(self.id(endpoint), super::Exit::Code(code), now);
                    let mut actions = self.actions(now);
                    actions.extend(pause.map(|pause| format!("pause {}", pause.as_millis())));
                    return actions;
                }
                Unreachable(endpoint) => {
                    let error = ConnectError::Unreachable("refused".to_owned());
                    _ = self.failing.insert(self.id(endpoint), error);
                }
                Busy(endpoint) => _ = self.failing.insert(self.id(endpoint), ConnectError::Busy),
                NoStart => self.starts = false,
                NotAccepting => self.first_connection = FirstConnection::Waiting,
                Memory(bytes) => self.memory = bytes,
                Tick => {}
            }
            self.actions(now)
        }

        fn actions(&mut self, now: Instant) -> Vec<String> {
            let mut found = Vec::new();
            while let Some(action) = self.balancer.next(now) {
                assert!(found.len() < 20, "it does not end: {found:?}");
                found.extend(self.perform(action, now));
            }
            found
        }

        fn perform(&mut self, action: Action, now: Instant) -> Option<String> {
            Some(match action {
                Action::Connect { worker, number, lease } => {
                    let (of, endpoint) = ((worker, number), self.name(lease.endpoint));
                    if let Some(error) = self.failing.get(&lease.endpoint) {
                        self.balancer.on_connect_failed(of, lease.endpoint, error, now);
                        return Some(format!("{endpoint} fails"));
                    }
                    self.balancer.on_connected(of, lease, now);
                    let worker = self.worker(worker);
                    self.leases.insert((worker, number), lease.number);
                    format!("{endpoint} to {worker}.{number}")
                }
                Action::Reject { worker, number, why } => {
                    format!("{why:?} to {}.{number}", self.worker(worker))
                }
                Action::Recall { worker, endpoint: None } => format!("recall from {}", self.worker(worker)),
                Action::Recall { worker, endpoint: Some(endpoint) } => {
                    format!("recall one of {} from {}", self.name(endpoint), self.worker(worker))
                }
                Action::Retire { worker, endpoint } => {
                    format!("recall {} from {}", self.name(endpoint), self.worker(worker))
                }
                Action::CheckHealth(id) => format!("check {}", self.name(id)),
                Action::Announce(_) | Action::Introduce(_) => return None,
                Action::Start if self.starts => {
                    self.endpoints.push(self.balancer.on_started(String::new(), now));
                    "start".to_owned()
                }
                Action::Start => {
                    format!("no start, pause {}", self.balancer.on_start_failed(now).as_millis())
                }
                Action::CheckStartup(id) => {
                    self.balancer.on_startup_checked(id, self.first_connection, now);
                    return None;
                }
                Action::CheckMemory(id) => {
                    self.balancer.on_memory(id, self.memory);
                    return None;
                }
                Action::Terminate(id) => format!("terminate {}", self.name(id)),
                Action::Kill(id, why) => format!("kill {}: {why:?}", self.name(id)),
            })
        }
    }

    /// Each event with its time in milliseconds, and what the balancer does then.
    fn check(upstream: &Upstream, steps: &[(u64, Event, &[&str])]) {
        let mut fixture = Fixture::new(upstream);
        for (at, (ms, event, expected)) in steps.iter().enumerate() {
            assert_eq!(fixture.on(*ms, *event), *expected, "step {at}: {event:?} at {ms} ms");
        }
    }

    fn external(addresses: usize, connections: usize) -> Upstream {
        let addresses = vec![Address::Unix("/run/app".into()).into(); addresses];
        let endpoints = Endpoints::External(External { addresses, connections });
        Upstream::new("app".to_owned(), Protocol::FastCgi, endpoints)
    }

    fn managed(processes: (usize, usize), set: impl Fn(&mut Managed)) -> Upstream {
        let mut managed = Managed::new(Vec::new(), Default::default(), "/".into());
        (managed.min_processes, managed.max_processes) = processes;
        set(&mut managed);
        Upstream::new("app".to_owned(), Protocol::FastCgi, Endpoints::Managed(Box::new(managed)))
    }

    #[test]
    fn serves_requests_in_turn_and_rejects_those_beyond_the_queue() {
        let upstream = Upstream { queue: 2, ..external(1, 1) };
        check(
            &upstream,
            &[
                (0, Acquire(1, 1), &["a to 1.1"]),
                (0, Acquire(2, 1), &["recall from 1"]),
                (0, Acquire(1, 2), &[]),
                (0, Acquire(2, 2), &["QueueFull to 2.2"]),
                (5, Cancel(2, 1), &[]),
                (5, Acquire(2, 3), &[]),
                (9, Return(1, 1, 1), &["a to 1.2", "recall from 1"]),
                (9, WorkerGone(1), &["a to 2.3"]),
            ],
        );
        let none = Upstream { queue: 0, ..external(1, 1) };
        check(&none, &[(0, Acquire(1, 1), &["a to 1.1"]), (0, Acquire(1, 2), &["QueueFull to 1.2"])]);
    }

    #[test]
    fn tries_each_address_and_rejects_a_request_when_none_is_reachable() {
        check(
            &external(2, 9),
            &[
                (0, Acquire(1, 1), &["a to 1.1"]),
                (0, Acquire(1, 2), &["b to 1.2"]),
                (0, Avoid(1, 3, 'b'), &["a to 1.3"]),
                (0, Unreachable('a'), &[]),
                (0, Return(1, 1, 1), &[]),
                (0, Return(1, 3, 1), &[]),
                (0, Acquire(1, 4), &["a fails", "b to 1.4"]),
                (0, Acquire(1, 5), &["b to 1.5"]),
                (0, Unreachable('b'), &[]),
                (999, Acquire(1, 6), &["b fails", "a fails", "Unreachable to 1.6"]),
                // An address with a full queue of connections is tried again.
                (1000, Busy('b'), &[]),
                (1000, Acquire(1, 7), &["a fails", "b fails"]),
                (1009, Tick, &[]),
                (1010, Tick, &["b fails"]),
            ],
        );
    }

    #[test]
    fn a_request_for_one_endpoint_keeps_no_other_waiting() {
        check(
            &external(2, 1),
            &[
                (0, Only(1, 1, 'a'), &["a to 1.1"]),
                (0, Only(2, 1, 'a'), &["recall one of a from 1"]),
                (0, Only(2, 2, 'b'), &["b to 2.2"]),
                (1, Return(1, 1, 1), &["a to 2.1"]),
                (2, Unreachable('a'), &[]),
                (2, Return(2, 1, 1), &[]),
                // The worker then chooses another one.
                (2, Only(1, 2, 'a'), &["a fails", "Unreachable to 1.2"]),
            ],
        );
    }

    #[test]
    fn a_drained_endpoint_gets_no_request() {
        check(
            &external(2, 1),
            &[
                (0, Drain('a', true), &[]),
                (0, Acquire(1, 1), &["b to 1.1"]),
                (0, Acquire(2, 1), &["recall from 1"]),
                (1, Drain('a', false), &["a to 2.1"]),
                (2, Drain('a', true), &[]),
                (3, Drain('b', true), &[]),
                (4, Acquire(1, 2), &["AllDown to 1.2"]),
            ],
        );
    }

    #[test]
    fn checks_endpoints_and_prefers_those_that_are_up() {
        let health = Health { checks: Some(Checks { fall: 1, ..Checks::default() }), ..Health::default() };
        let upstream = Upstream { health, ..external(2, 9) };
        check(
            &upstream,
            &[
                (0, Tick, &["check a", "check b"]),
                (1, Checked('a', false), &[]),
                (1, Acquire(1, 1), &["b to 1.1"]),
                (1, Acquire(1, 2), &["b to 1.2"]),
                (2, Checked('b', true), &[]),
                (4999, Tick, &[]),
                (5001, Tick, &["check a"]),
                (5002, Tick, &["check b"]),
                (5003, Checked('a', true), &[]),
                (5003, Acquire(1, 3), &["b to 1.3"]),
                (10_003, Checked('a', true), &[]),
                (10_003, Acquire(1, 4), &["a to 1.4"]),
            ],
        );
    }

    #[test]
    fn avoids_the_endpoint_that_has_failed_if_there_is_another() {
        check(&external(1, 2), &[(0, Avoid(1, 1, 'a'), &["a to 1.1"])]);
        check(
            &external(2, 1),
            &[
                (0, Avoid(1, 1, 'a'), &["b to 1.1"]),
                (0, Fail(1, 1), &[]),
                (0, Acquire(1, 2), &["a to 1.2"]),
                (0, Acquire(1, 3), &["b to 1.3"]),
            ],
        );
        // A process that has failed may be about to end.
        check(
            &managed((1, 1), |_| {}),
            &[(0, Tick, &["start"]), (0, Avoid(1, 1, 'a'), &[]), (99, Tick, &[]), (100, Tick, &["a to 1.1"])],
        );
    }

    #[test]
    fn recalls_idle_connections_of_other_workers_before_it_starts_a_process() {
        check(
            &managed((1, 2), |_| {}),
            &[
                (0, Tick, &["start"]),
                (0, Acquire(1, 1), &["a to 1.1"]),
                (0, Acquire(2, 1), &["recall from 1"]),
                (19, Tick, &[]),
                (20, Tick, &["recall from 1"]),
                (21, NothingIdle(1), &["start", "b to 2.1"]),
                (22, Acquire(2, 2), &["recall from 1"]),
                (23, Return(1, 1, 1), &["a to 2.2"]),
            ],
        );
        check(
            &managed((1, 2), |_| {}),
            &[
                (0, Tick, &["start"]),
                (0, Acquire(1, 1), &["a to 1.1"]),
                (0, Acquire(2, 1), &["recall from 1"]),
                (200, Tick, &["recall from 1", "start", "b to 2.1"]),
            ],
        );
    }

    #[test]
    fn replaces_a_process_that_has_had_its_requests_or_too_much_memory() {
        let upstream = managed((1, 2), |managed| {
            (managed.requests, managed.memory) = (Some(2), Some(1000));
        });
        check(
            &upstream,
            &[
                (0, Tick, &["start"]),
                (0, Acquire(1, 1), &["a to 1.1"]),
                (0, Return(1, 1, 2), &["start", "terminate a"]),
                (0, Acquire(1, 2), &["b to 1.2"]),
                (100, Memory(1001), &[]),
                (1000, Tick, &["recall b from 1", "start"]),
                (1001, Acquire(1, 3), &["c to 1.3"]),
                (1002, Return(1, 2, 1), &["terminate b"]),
                (1003, Exit('b', 0), &[]),
                (4999, Tick, &["recall c from 1", "start"]),
                (5000, Tick, &["kill a: Grace"]),
            ],
        );
    }

    #[test]
    fn ends_a_process_that_is_unused_beyond_the_minimum() {
        check(
            &managed((0, 1), |_| {}),
            &[
                (0, Acquire(1, 1), &["start", "a to 1.1"]),
                (60_000, Tick, &[]),
                (60_001, Return(1, 1, 1), &[]),
                (120_000, Tick, &[]),
                (120_001, Tick, &["terminate a"]),
                (125_001, Tick, &["kill a: Grace"]),
                (125_001, Exit('a', 9), &[]),
            ],
        );
    }

    #[test]
    fn kills_a_process_that_does_not_accept_its_first_connection_in_time() {
        check(
            &managed((1, 1), |_| {}),
            &[
                (0, Tick, &["start"]),
                (0, NotAccepting, &[]),
                (0, Acquire(1, 1), &["a to 1.1"]),
                (9999, Tick, &[]),
                (10_020, Tick, &["kill a: NotAccepting"]),
                (10_021, Exit('a', 0), &["recall a from 1", "start"]),
            ],
        );
    }

    #[test]
    fn starts_a_process_that_ends_again_and_again_after_growing_pauses() {
        check(
            &managed((1, 1), |_| {}),
            &[
                (0, Tick, &["start"]),
                (0, Exit('a', 1), &["start", "pause 0"]),
                (1, Exit('b', 1), &["pause 100"]),
                (1, Acquire(1, 1), &[]),
                (100, Tick, &[]),
                (101, Tick, &["start", "c to 1.1"]),
                (102, Exit('c', 1), &["recall c from 1", "pause 200"]),
                (102, Acquire(1, 2), &["Failing to 1.2"]),
                (302, Tick, &["start"]),
                // One that has served counts from the beginning.
                (303, Acquire(1, 3), &["d to 1.3"]),
                (304, Return(1, 3, 1), &[]),
                (305, Exit('d', 1), &["start", "pause 0"]),
            ],
        );
        check(
            &managed((1, 1), |_| {}),
            &[
                (0, NoStart, &["no start, pause 0", "no start, pause 100"]),
                (100, Acquire(1, 1), &["no start, pause 200", "Failing to 1.1"]),
            ],
        );
    }

    #[test]
    fn ends_its_processes_when_neither_a_worker_nor_the_master_needs_it() {
        let upstream = managed((1, 1), |_| {});
        let mut fixture = Fixture::new(&upstream);
        let steps: [(Event, &[&str]); 6] = [
            (Tick, &["start"]),
            (Acquire(2, 1), &["a to 2.1"]),
            (WorkerGone(1), &[]),
            (MasterGone, &[]),
            (WorkerGone(2), &["terminate a"]),
            (Tick, &[]),
        ];
        for (event, expected) in steps {
            assert_eq!(fixture.on(0, event), expected, "{event:?}");
        }
        assert!(!fixture.balancer.is_over());
        assert_eq!(fixture.on(1, Exit('a', 0)), [""; 0]);
        assert!(fixture.balancer.is_over());
    }
}
