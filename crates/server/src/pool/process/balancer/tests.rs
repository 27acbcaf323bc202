use std::time::Duration;

use site::address::Address;
use site::health::Checks;
use site::upstream::{External, Managed, Protocol};

use super::*;
use crate::pool::message::Availability;
use crate::spawner;

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
    /// An endpoint does not respond in time to the request of a worker, which returns the lease.
    TimeOut(usize, u64),
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

    fn fail(&mut self, of: (usize, u64), fault: Fault, now: Instant) {
        let (lease, reason) = (self.leases[&of], "it does not work".to_owned());
        self.request(of.0, PoolRequest::Failed { lease, fault, reason }, now);
        self.give_back(of, 1, now);
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
            Fail(worker, number) => self.fail((worker, number), Fault::Other, now),
            TimeOut(worker, number) => self.fail((worker, number), Fault::Timeout, now),
            WorkerGone(worker) => self.balancer.on_worker_gone(self.workers[worker - 1], now),
            MasterGone => self.balancer.on_master_gone(),
            Exit(endpoint, code) => {
                let pause = self.balancer.on_exit(self.id(endpoint), spawner::Exit::Code(code), now);
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
            Action::Connect { request, lease } => {
                let endpoint = self.name(lease.endpoint);
                if let Some(error) = self.failing.get(&lease.endpoint) {
                    self.balancer.on_connect_failed(request, lease.endpoint, error, now);
                    return Some(format!("{endpoint} fails"));
                }
                self.balancer.on_connected(request, lease, now);
                let (worker, number) = (self.worker(request.worker), request.number);
                self.leases.insert((worker, number), lease.number);
                format!("{endpoint} to {worker}.{number}")
            }
            Action::Reject { request: RequestId { worker, number }, why } => {
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
            Action::ReportHang(id) => format!("{} hangs", self.name(id)),
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
fn a_request_for_one_endpoint_keeps_no_other_from_an_idle_connection() {
    check(
        &external(2, 1),
        &[
            (0, Only(1, 1, 'a'), &["a to 1.1"]),
            (0, Only(1, 2, 'b'), &["b to 1.2"]),
            (0, Only(2, 1, 'a'), &["recall one of a from 1"]),
            (1, Only(2, 2, 'b'), &["recall one of b from 1"]),
            (2, Only(2, 3, 'b'), &[]),
            (20, Tick, &["recall one of a from 1"]),
            (21, Return(1, 2, 1), &["b to 2.2", "recall one of b from 1"]),
        ],
    );
}

#[test]
fn a_drained_address_of_a_name_stays_so_when_it_comes_later_or_comes_back() {
    let now = Instant::now();
    let mut balancer = Balancer::new(Rc::new(external(1, 1)), now);
    let add = |balancer: &mut Balancer, ip: &str| {
        let id = balancer.add_address(format!("app:80 ({ip}:80)"), Share::EQUAL, now);
        let state = balancer.notices(now).find(|notice| notice.id == id).map(|notice| notice.state);
        (id, state)
    };
    balancer.set_unresolved(1);
    assert!(balancer.set_draining("10.0.0.1:80", true, now));
    let (first, state) = add(&mut balancer, "10.0.0.1");
    assert_eq!(state, Some(Availability::Draining), "it comes later");
    assert_eq!(add(&mut balancer, "10.0.0.2").1, Some(Availability::Up));
    balancer.set_unresolved(0);
    balancer.remove_address(first);
    let (second, state) = add(&mut balancer, "10.0.0.1");
    assert_eq!(state, Some(Availability::Draining), "it comes back");
    assert!(balancer.set_draining("10.0.0.1:80", false, now));
    balancer.remove_address(second);
    assert_eq!(add(&mut balancer, "10.0.0.1").1, Some(Availability::Up));
    assert!(!balancer.set_draining("10.0.0.9:80", true, now));
    assert_eq!(add(&mut balancer, "10.0.0.9").1, Some(Availability::Up), "there was none");
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
            // It waits rather than go to one that is down.
            (0, Acquire(1, 3), &[]),
            (1, Return(1, 2, 1), &["a to 1.3"]),
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
fn replaces_a_process_that_hangs_with_all_its_requests() {
    check(
        &managed((1, 1), |_| {}),
        &[
            (0, Tick, &["start"]),
            (0, Acquire(1, 1), &["a to 1.1"]),
            (1, Acquire(2, 1), &["recall from 1"]),
            (60_000, TimeOut(1, 1), &["a hangs", "recall a from 1", "start", "terminate a", "b to 2.1"]),
            (65_000, Tick, &["kill a: Grace"]),
        ],
    );
    check(
        &managed((1, 1), |managed| managed.concurrent = 2),
        &[
            (0, Tick, &["start"]),
            (0, Acquire(1, 1), &["a to 1.1"]),
            (0, Acquire(1, 2), &["a to 1.2"]),
            (60_000, TimeOut(1, 1), &[]),
            (60_000, Return(1, 2, 1), &[]),
            (60_001, Acquire(1, 3), &["a to 1.3"]),
            (60_001, Acquire(2, 1), &["a to 2.1"]),
            (120_001, TimeOut(1, 3), &[]),
            (120_001, TimeOut(2, 1), &["a hangs", "recall a from 2", "start", "terminate a"]),
        ],
    );
    let external = external(1, 1);
    check(&external, &[(0, Acquire(1, 1), &["a to 1.1"]), (60_000, TimeOut(1, 1), &[])]);
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
