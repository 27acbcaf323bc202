//! The rules of a pool: which waiting request gets a connection to which endpoint, when a process is started, and when
//! one ends. Pure: events and the time go in, and actions come out. Knows neither sockets nor processes.

mod processes;
mod requests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Instant;

use site::health::Health;
use site::upstream::{Endpoints, Upstream};

use self::requests::RECALL_INTERVAL;
use super::endpoints::{Endpoint, EndpointState, Startup, next_retry};
use crate::admission::AdmissionQueue;
use crate::pool::PoolError;
use crate::pool::message::{EndpointId, EndpointNotice, Fault, Lease, PoolRequest, Share, Tried};
use crate::pool::selection::Choice;
use crate::process::supervisor::RestartLimit;

pub type WorkerId = u64;

/// A request for a connection, by the number that its worker has given it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestId {
    pub worker: WorkerId,
    pub number: u64,
}

/// What is out of service is remembered so often for the addresses that names have later.
const MAX_DRAINED: usize = 1000;

/// What the caller does next. The result, where there is one, is reported before the next action is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Connect to the endpoint of this lease. Reported by `on_connected` or `on_connect_failed`.
    Connect {
        request: RequestId,
        lease: Lease,
    },
    Reject {
        request: RequestId,
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
    /// Tell the administrator that a process hangs. It is terminated when its last lease is returned.
    ReportHang(EndpointId),
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
    /// The connection has failed, for this reason.
    Unreachable(String),
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
    master: MasterConnection,
    restarts: RestartLimit,
    next_memory_check: Instant,
    /// Names whose addresses are not known yet.
    unresolved: usize,
    /// What is out of service, as it was named: an address of a name may come, or come back, later.
    drained: BTreeSet<String>,
    actions: VecDeque<Action>,
    next_id: u64,
}

/// Whether the master may still add workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MasterConnection {
    Open,
    Closed,
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
    request: RequestId,
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
            master: MasterConnection::Open,
            restarts: RestartLimit::of_applications(),
            next_memory_check: now,
            unresolved: 0,
            drained: BTreeSet::new(),
            actions: VecDeque::new(),
            // 0 stands for no endpoint in a message.
            next_id: 1,
            upstream,
        }
    }

    pub fn add_address(&mut self, name: String, share: Share, now: Instant) -> EndpointId {
        let id = self.add_endpoint(name, share, Startup::Accepted, now);
        let (drained, added) = (&self.drained, self.endpoints.last_mut());
        if let Some(endpoint) = added.filter(|added| drained.iter().any(|own| is_named(added, own))) {
            endpoint.health.set_draining(true);
            endpoint.health.update(now);
        }
        id
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
        self.master = MasterConnection::Closed;
    }

    pub fn on_request(&mut self, worker: WorkerId, request: PoolRequest, now: Instant) {
        match request {
            PoolRequest::Acquire { number, choice, tried } => {
                _ = self.queue.push(Waiter {
                    request: RequestId { worker, number },
                    choice,
                    tried,
                    unreachable: Vec::new(),
                    since: now,
                    recalled: None,
                    recalled_from: Vec::new(),
                });
            }
            PoolRequest::Cancel { number } => {
                self.queue.retain(|waiter| waiter.request != RequestId { worker, number });
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
            PoolRequest::Failed { lease, fault, reason } => {
                let Some(leased) = self.leases.get_mut(&lease) else { return };
                leased.has_failed = true;
                let id = leased.endpoint;
                self.on_failure(id, &reason, now);
                if fault == Fault::Timeout {
                    self.on_timeout(id);
                }
            }
        }
    }

    /// Its connections have ended with it.
    pub fn on_worker_gone(&mut self, worker: WorkerId, now: Instant) {
        self.workers.remove(&worker);
        self.queue.retain(|waiter| waiter.request.worker != worker);
        let of_worker = self.leases.iter().filter(|(_, leased)| leased.worker == worker);
        let leases: Vec<u64> = of_worker.map(|(lease, _)| *lease).collect();
        leases.into_iter().for_each(|lease| self.return_lease(lease, 0, now));
    }

    pub fn on_connected(&mut self, request: RequestId, lease: Lease, now: Instant) {
        let waiter = self.queue.take(|_, waiter| waiter.request == request);
        let endpoint = self.endpoints.iter_mut().find(|endpoint| endpoint.id == lease.endpoint);
        let (Some(_), Some(endpoint)) = (waiter, endpoint) else { return };
        endpoint.leases += 1;
        if endpoint.startup == Startup::NotConnected {
            endpoint.startup = Startup::Connected { since: now, next_check: now };
        }
        let (endpoint, worker) = (lease.endpoint, request.worker);
        let leased = Leased { endpoint, worker, has_failed: false, is_upgraded: false };
        self.leases.insert(lease.number, leased);
    }

    pub fn on_connect_failed(
        &mut self,
        request: RequestId,
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
                let waiter = self.queue.iter_mut().find(|waiter| waiter.request == request);
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
            // The statistics have each failure, also of an endpoint that stays as it is.
            if endpoint.health.update(now) || found.is_err() {
                self.actions.push_back(Action::Announce(id));
            }
        }
    }

    /// Takes the endpoints of this name, or of this address of a name, out of service, or puts them back. Those that a
    /// name has later follow. `false`: there is none.
    pub fn set_draining(&mut self, name: &str, is_draining: bool, now: Instant) -> bool {
        // What it is the name of may be known later.
        let mut found = is_draining && self.unresolved > 0;
        for endpoint in self.endpoints.iter_mut().filter(|endpoint| is_named(endpoint, name)) {
            found = true;
            endpoint.health.set_draining(is_draining);
            if endpoint.health.update(now) {
                self.actions.push_back(Action::Announce(endpoint.id));
            }
        }
        match is_draining {
            true if found && self.drained.len() < MAX_DRAINED => _ = self.drained.insert(name.to_owned()),
            true => {}
            false => found |= self.drained.remove(name),
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

    /// What is to be done now. `None`: nothing before `deadline`, or the next event.
    pub fn next(&mut self, now: Instant) -> Option<Action> {
        for rule in [Balancer::watch_health, Balancer::supervise, Balancer::serve] {
            if self.actions.is_empty() {
                rule(self, now);
            }
        }
        if self.actions.is_empty() {
            self.reject_excess();
        }
        self.actions.pop_front()
    }

    /// When there will be something to do without an event.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let supervision = self.upstream.managed().and_then(|managed| self.next_supervision(managed, now));
        let waiting = (!self.queue.is_empty()).then_some(now + RECALL_INTERVAL);
        let retry = waiting.and_then(|_| next_retry(&self.endpoints, now));
        let checks = self.upstream.health.checks.as_ref();
        let health = self.endpoints.iter().filter_map(|endpoint| endpoint.health.deadline(checks)).min();
        [supervision, waiting, retry, health].into_iter().flatten().min()
    }

    /// Neither a worker nor the master needs the pool, and its processes have ended.
    pub fn is_over(&self) -> bool {
        let has_processes = self.upstream.managed().is_some() && !self.endpoints.is_empty();
        self.is_abandoned() && !has_processes
    }

    fn is_abandoned(&self) -> bool {
        self.master == MasterConnection::Closed && self.workers.is_empty()
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
            endpoint.timeouts = 0;
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

/// Whether a name that an administrator writes stands for this endpoint: that of the configuration, or its address.
fn is_named(endpoint: &Endpoint, name: &str) -> bool {
    match endpoint.name.split_once(" (") {
        Some((configured, resolved)) => configured == name || resolved.strip_suffix(')') == Some(name),
        None => endpoint.name == name,
    }
}

#[cfg(test)]
mod tests;
