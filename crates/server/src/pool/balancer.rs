//! Where all comes together in the process of a pool: workers that ask, endpoints that answer, and what is to
//! be done when.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use site::address::Address;
use site::model::Scripts;
use site::upstream::{Endpoints, Managed, Upstream};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::PoolError;
use super::application_process::{ApplicationProcess, ProcessStarter, connect_tcp, connect_unix};
use super::endpoints::{Endpoint, Standing, back_off, choose, lacking, next_try, superfluous};
use super::message::{EndpointId, Lease, LeaseOutcome, PoolEvent, PoolRequest};
use crate::ipc::{Channel, Received, SendQueue};
use crate::log::stderr::Errors;
use crate::spawner::Exit;
use crate::{log, sys};

/// How often it is looked whether a process accepts its first connection.
const START_LOOK: Duration = Duration::from_millis(20);
/// How long it is waited for whoever does not say whether he has something that he does not use.
const RECALL: Duration = Duration::from_millis(200);
/// How often it is asked for.
const RECALL_AGAIN: Duration = Duration::from_millis(20);
/// How long a process that has failed a request is left alone by who has made it: it may be about to end.
const AVOID: Duration = Duration::from_millis(100);
/// Failures in a row from which on requests are not kept waiting for a process.
const FAILING: u32 = 3;
/// How often the memory of processes is looked at.
const MEMORY_LOOK: Duration = Duration::from_secs(1);

/// A process that has run for so long can be started, and what happens to it later is another matter.
const SETTLED: Duration = Duration::from_secs(2);

pub struct Balancer {
    application: Upstream,
    limits: Scripts,
    starter: RefCell<Option<ProcessStarter>>,
    endpoints: RefCell<Vec<Endpoint>>,
    reach: RefCell<HashMap<EndpointId, Reach>>,
    members: RefCell<HashMap<u64, Rc<WorkerConnection>>>,
    waiting: RefCell<VecDeque<Asked>>,
    leases: RefCell<HashMap<u64, (EndpointId, u64)>>,
    /// In a row.
    failures: Cell<u32>,
    not_before: Cell<Option<Instant>>,
    looked_at_memory: Cell<Instant>,
    changed: Notify,
    next: Cell<u64>,
    master: Cell<Master>,
    me: Weak<Balancer>,
}

/// Is there anybody who may send more workers?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Master {
    There,
    Gone,
}

/// How a endpoint is reached.
enum Reach {
    At(Address),
    Process(Process),
}

struct Process {
    started: ApplicationProcess,
    accepts: Accepts,
    /// When it is killed if it has not ended.
    kill: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepts {
    /// Nobody has tried.
    Untried,
    /// Somebody has, and waits since then.
    Tried(Instant),
    Yes,
}

impl Process {
    /// Whoever has not taken a connection up has served nobody.
    fn has_accepted(&self) -> bool {
        match self.accepts {
            Accepts::Untried => false,
            Accepts::Tried(_) => !self.started.lets_wait(),
            Accepts::Yes => true,
        }
    }
}

/// A worker.
struct WorkerConnection {
    channel: AsyncFd<Channel>,
    /// No more than it has asked for, and recalls.
    send_queue: SendQueue<PoolEvent>,
}

struct Asked {
    member: u64,
    number: u64,
    avoid: Option<EndpointId>,
    tried: Vec<EndpointId>,
    since: Instant,
    /// When others were asked last to give back what they do not use, and who has not answered.
    recalled: Option<Instant>,
    hope: Vec<u64>,
}

impl Balancer {
    /// Within the runtime of the process. Errors: its processes cannot be started at all.
    pub fn new(application: Upstream, limits: Scripts) -> io::Result<Rc<Balancer>> {
        let starter = match &application.endpoints {
            Endpoints::Managed(managed) => {
                Some(ProcessStarter::new(managed, &limits.resources, &limits.spool)?)
            }
            Endpoints::External(_) => None,
        };
        let balancer = Rc::new_cyclic(|me| Balancer {
            application,
            limits,
            starter: RefCell::new(starter),
            endpoints: RefCell::default(),
            reach: RefCell::default(),
            members: RefCell::default(),
            waiting: RefCell::default(),
            leases: RefCell::default(),
            failures: Cell::new(0),
            not_before: Cell::new(None),
            looked_at_memory: Cell::new(Instant::now()),
            changed: Notify::new(),
            next: Cell::new(1),
            master: Cell::new(Master::There),
            me: me.clone(),
        });
        if let Endpoints::External(external) = &balancer.application.endpoints {
            for address in &external.addresses {
                balancer.add(Reach::At(address.clone()));
            }
        }
        Ok(balancer)
    }

    /// Waits until something is to be done, but not beyond `until`.
    pub async fn changed(&self, until: Option<Instant>) {
        match until {
            Some(until) => _ = tokio::time::timeout_at(until.into(), self.changed.notified()).await,
            None => self.changed.notified().await,
        }
    }

    pub fn master_has_gone(&self) {
        self.master.set(Master::Gone);
    }

    /// Nobody is there any more, and nothing that was started.
    pub fn is_over(&self) -> bool {
        self.is_left() && !self.reach.borrow().values().any(|reach| matches!(reach, Reach::Process(_)))
    }

    fn is_left(&self) -> bool {
        self.master.get() == Master::Gone && self.members.borrow().is_empty()
    }

    /// Takes a worker in.
    pub fn join(&self, channel: OwnedFd) {
        let watched = sys::watch(Channel::from(channel), Interest::READABLE | Interest::WRITABLE);
        let (Ok(channel), Some(balancer)) = (watched, self.me.upgrade()) else { return };
        let number = self.number();
        let member = Rc::new(WorkerConnection { channel, send_queue: SendQueue::default() });
        self.members.borrow_mut().insert(number, member.clone());
        spawn_local(async move {
            balancer.listen(number, &member).await;
            balancer.leave(number);
        });
    }

    async fn listen(&self, number: u64, member: &WorkerConnection) {
        loop {
            let heard = tokio::select! {
                heard = member.channel.async_io(Interest::READABLE, Channel::receive::<PoolRequest>) => heard,
                () = member.send_queue.send_queued(&member.channel) => continue,
            };
            match heard {
                Ok(Received::Message(request)) => self.hear(number, request),
                Ok(Received::End) | Err(_) => return,
            }
        }
    }

    fn hear(&self, member: u64, request: PoolRequest) {
        match request {
            PoolRequest::Acquire { number, avoid } => {
                let (tried, since) = (Vec::new(), Instant::now());
                let asked = Asked { member, number, avoid, tried, since, recalled: None, hope: Vec::new() };
                self.waiting.borrow_mut().push_back(asked);
                // At once, if it can be: whoever waits longer is seen to in turn.
                self.serve_waiting();
                let waits = self.waiting.borrow().len();
                if waits > self.application.queue
                    && let Some(last) = self.waiting.borrow_mut().pop_back()
                {
                    self.tell(
                        last.member,
                        PoolEvent::Rejected { number: last.number, why: PoolError::QueueFull },
                    );
                }
            }
            PoolRequest::Cancel { number } => {
                self.waiting.borrow_mut().retain(|asked| (asked.member, asked.number) != (member, number));
            }
            PoolRequest::NothingIdle => {
                if let Some(asked) = self.waiting.borrow_mut().front_mut() {
                    asked.hope.retain(|other| *other != member);
                }
            }
            PoolRequest::Return { lease, requests, idle, outcome } => {
                let since = Instant::now().checked_sub(idle).unwrap_or_else(Instant::now);
                self.take_back(lease, requests, since, outcome);
            }
        }
        self.changed.notify_one();
    }

    /// A worker has ended: with it its connections.
    fn leave(&self, member: u64) {
        self.members.borrow_mut().remove(&member);
        self.waiting.borrow_mut().retain(|asked| asked.member != member);
        let leases: Vec<u64> = self
            .leases
            .borrow()
            .iter()
            .filter(|(_, (_, of))| *of == member)
            .map(|(lease, _)| *lease)
            .collect();
        leases.into_iter().for_each(|lease| self.take_back(lease, 0, Instant::now(), LeaseOutcome::Served));
        self.changed.notify_one();
    }

    /// `since` then it was not in use.
    fn take_back(&self, lease: u64, requests: u64, since: Instant, outcome: LeaseOutcome) {
        let Some((id, _)) = self.leases.borrow_mut().remove(&lease) else { return };
        let now = Instant::now();
        let mut endpoints = self.endpoints.borrow_mut();
        let Some(endpoint) = endpoints.iter_mut().find(|endpoint| endpoint.id == id) else { return };
        endpoint.leases -= 1;
        endpoint.requests += requests;
        if endpoint.leases == 0 {
            endpoint.unused = since;
        }
        let most = self.application.managed().and_then(|managed| managed.requests);
        let retires = most.is_some_and(|most| endpoint.requests >= most);
        match outcome {
            LeaseOutcome::Failed => endpoint.fails(now),
            LeaseOutcome::Served if requests > 0 => self.failures.set(0),
            LeaseOutcome::Served => {}
        }
        drop(endpoints);
        if retires {
            self.retire_where(|endpoint| endpoint.id == id);
        }
    }

    /// Does what is due, and says when there will be more.
    pub fn tend(&self) -> Option<Instant> {
        let now = Instant::now();
        if self.is_left() {
            self.retire_where(|_| true);
        }
        let managed = self.application.managed().and_then(|managed| self.manage(managed, now));
        self.serve_waiting();
        let waits = (!self.waiting.borrow().is_empty()).then_some(now + RECALL_AGAIN);
        let full = next_try(&self.endpoints.borrow(), now).filter(|_| waits.is_some());
        [managed, full, waits].into_iter().flatten().min()
    }

    fn manage(&self, managed: &Managed, now: Instant) -> Option<Instant> {
        let lacking = match self.is_left() {
            true => 0,
            false => lacking(
                &self.endpoints.borrow(),
                (managed.min_processes, managed.max_processes),
                managed.spare_processes,
            ),
        };
        for _ in 0..lacking {
            if !self.start(now) {
                break;
            }
        }
        let superfluous = loop {
            let least = managed.min_processes;
            let found =
                superfluous(&self.endpoints.borrow(), least, managed.spare_processes, managed.unused, now);
            match found {
                Ok(at) => self.endpoints.borrow_mut()[at].standing = Standing::Retires,
                Err(next) => break next,
            }
        };
        let memory = managed.memory.and_then(|most| self.look_at_memory(most, now));
        let starting = self.look_at_starts(managed, now);
        let ending = self.end_retired(managed, now);
        let pause = self.not_before.get().filter(|at| lacking > 0 && *at > now);
        [superfluous, memory, starting, ending, pause].into_iter().flatten().min()
    }

    /// Gives connections to those who wait, as far as there are any.
    fn serve_waiting(&self) {
        // Bounded: each turn answers somebody, starts a process, marks a endpoint as tried or full, or ends it.
        loop {
            let now = Instant::now();
            let (avoid, tried) = match self.waiting.borrow().front() {
                Some(asked) => {
                    let early = self.application.managed().is_some() && now < asked.since + AVOID;
                    let avoided = asked.avoid.filter(|_| early);
                    (asked.avoid, asked.tried.iter().copied().chain(avoided).collect::<Vec<_>>())
                }
                None => return,
            };
            let at = choose(&self.endpoints.borrow(), self.most(), avoid, &tried, now);
            let Some(at) = at else {
                match self.has_no_server(&tried, now) {
                    true => continue,
                    false => return,
                }
            };
            let id = self.endpoints.borrow()[at].id;
            match self.connect(id) {
                Ok(stream) => self.lease(at, stream, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.endpoints.borrow_mut()[at].is_full(now);
                }
                Err(error) => {
                    self.endpoints.borrow_mut()[at].fails(now);
                    self.tell_unreachable(id, &error);
                    if let Some(asked) = self.waiting.borrow_mut().front_mut() {
                        asked.tried.push(id);
                    }
                }
            }
        }
    }

    /// Nobody can take the request that waits first. `true`: something was done about that.
    fn has_no_server(&self, tried: &[EndpointId], now: Instant) -> bool {
        let (serving, untried) = {
            let endpoints = self.endpoints.borrow();
            let serving = || endpoints.iter().filter(|endpoint| endpoint.serves());
            (serving().count(), serving().any(|endpoint| !tried.contains(&endpoint.id)))
        };
        match self.application.managed() {
            // What others keep and do not use is had sooner than another process.
            Some(_) if serving > 0 && self.recalls(now) => false,
            Some(managed) if serving < managed.max_processes && self.start(now) => true,
            Some(_) if serving == 0 && self.failures.get() >= FAILING => self.refuse(PoolError::Failing),
            Some(_) => false,
            None if !untried => self.refuse(PoolError::Unreachable),
            None => {
                self.recalls(now);
                false
            }
        }
    }

    fn refuse(&self, why: PoolError) -> bool {
        let Some(asked) = self.waiting.borrow_mut().pop_front() else { return false };
        self.tell(asked.member, PoolEvent::Rejected { number: asked.number, why });
        true
    }

    fn lease(&self, at: usize, stream: OwnedFd, now: Instant) {
        let Some(asked) = self.waiting.borrow_mut().pop_front() else { return };
        let number = self.number();
        let mut endpoints = self.endpoints.borrow_mut();
        let endpoint = &mut endpoints[at];
        endpoint.leases += 1;
        let most = self.application.managed().and_then(|managed| managed.requests).unwrap_or(u64::MAX);
        let left = most.saturating_sub(endpoint.requests).div_ceil(self.most() as u64).max(1);
        let lease = Lease { number, endpoint: endpoint.id, requests: left };
        if let Some(Reach::Process(process)) = self.reach.borrow_mut().get_mut(&endpoint.id)
            && process.accepts == Accepts::Untried
        {
            process.accepts = Accepts::Tried(now);
            self.changed.notify_one();
        }
        self.leases.borrow_mut().insert(number, (endpoint.id, asked.member));
        drop(endpoints);
        self.tell(asked.member, PoolEvent::Leased { number: asked.number, lease, stream });
    }

    /// Asks others to give back what they do not use. Is there any hope of that, so soon?
    fn recalls(&self, now: Instant) -> bool {
        let (member, since, again) = match self.waiting.borrow_mut().front_mut() {
            Some(asked) => {
                // What they get later, they may keep, too.
                let again = asked.recalled.is_none_or(|at| at + RECALL_AGAIN <= now);
                if again {
                    asked.recalled = Some(now);
                }
                (asked.member, asked.since, again)
            }
            None => return false,
        };
        let mut others: Vec<u64> = self.leases.borrow().values().map(|(_, of)| *of).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|other| *other != member);
        let mut waiting = self.waiting.borrow_mut();
        let Some(asked) = waiting.front_mut() else { return false };
        if again {
            others.iter().for_each(|other| self.tell(*other, PoolEvent::Recall { endpoint: None }));
            asked.hope = others;
        }
        !asked.hope.is_empty() && now < since + RECALL
    }

    /// Connections to one endpoint.
    fn most(&self) -> usize {
        match &self.application.endpoints {
            Endpoints::External(external) => external.connections,
            Endpoints::Managed(managed) => managed.concurrent,
        }
    }

    fn connect(&self, id: EndpointId) -> io::Result<OwnedFd> {
        match self.reach.borrow().get(&id) {
            Some(Reach::At(Address::Unix(path))) => connect_unix(path),
            Some(Reach::At(Address::Tcp(address))) => connect_tcp(*address),
            Some(Reach::Process(process)) => process.started.connect(),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn tell_unreachable(&self, id: EndpointId, error: &io::Error) {
        let name = &self.application.name;
        match self.reach.borrow().get(&id) {
            Some(Reach::At(Address::Unix(path))) => {
                log::error(format_args!(
                    "application \"{name}\": cannot connect to unix:{}: {error}",
                    path.display()
                ));
            }
            Some(Reach::At(Address::Tcp(address))) => {
                log::error(format_args!("application \"{name}\": cannot connect to {address}: {error}"));
            }
            Some(Reach::Process(process)) => {
                let pid = process.started.process.pid;
                log::error(format_args!("application \"{name}\": cannot connect to process {pid}: {error}"));
            }
            None => {}
        }
    }

    fn add(&self, reach: Reach) -> EndpointId {
        let id = self.number();
        self.reach.borrow_mut().insert(id, reach);
        self.endpoints.borrow_mut().push(Endpoint::new(id, Instant::now()));
        id
    }

    /// `false`: it could not, or not so soon after the last failure.
    fn start(&self, now: Instant) -> bool {
        if self.not_before.get().is_some_and(|at| now < at) {
            return false;
        }
        let started = self.starter.borrow_mut().as_mut().map(ProcessStarter::start);
        match started {
            None => false,
            Some(Ok((started, output))) => {
                let pid = started.process.pid;
                let who: Rc<str> = format!("application \"{}\", process {pid}", self.application.name).into();
                let Ok(ends) = started.process.pidfd.try_clone() else { return false };
                let id = self.add(Reach::Process(Process { started, accepts: Accepts::Untried, kill: None }));
                if let Some(balancer) = self.me.upgrade() {
                    let errors = Errors::new(output, who, &self.limits);
                    spawn_local(async move { balancer.watch(id, ends, errors).await });
                }
                self.changed.notify_one();
                true
            }
            Some(Err(error)) => {
                let program = self.application.managed().and_then(|managed| managed.command.first());
                let program = program.map_or("", String::as_str);
                self.has_failed(&format_args!("cannot start {program}: {error}"));
                false
            }
        }
    }

    /// Until the process has ended.
    async fn watch(&self, id: EndpointId, pidfd: OwnedFd, mut errors: Errors) {
        let Ok(pidfd) = sys::watch(pidfd, Interest::READABLE) else { return };
        loop {
            tokio::select! {
                ready = pidfd.readable() => {
                    if let Ok(mut ready) = ready {
                        ready.clear_ready();
                    }
                    if let Some(how) = self.ended(id) {
                        errors.take_all();
                        return self.bury(id, how);
                    }
                }
                () = errors.take() => {}
            }
        }
    }

    fn ended(&self, id: EndpointId) -> Option<Exit> {
        match self.reach.borrow().get(&id) {
            Some(Reach::Process(process)) => process.started.ended(),
            _ => Some(Exit::Lost),
        }
    }

    fn bury(&self, id: EndpointId, how: Exit) {
        let reach = self.reach.borrow_mut().remove(&id);
        let at = self.endpoints.borrow().iter().position(|endpoint| endpoint.id == id);
        let endpoint = at.map(|at| self.endpoints.borrow_mut().remove(at));
        // Connections to it are of no use, and not everybody has seen that.
        self.recall_of(id);
        self.leases.borrow_mut().retain(|_, (endpoint, _)| *endpoint != id);
        self.changed.notify_one();
        let (Some(Reach::Process(process)), Some(endpoint)) = (reach, endpoint) else { return };
        // Whoever it has left behind.
        process.started.signal(libc::SIGKILL);
        if !endpoint.serves() {
            return;
        }
        let (pid, age) = (process.started.process.pid, process.started.began.elapsed());
        let how = match how {
            // As some do after so many requests.
            Exit::Code(0) if age >= SETTLED || process.has_accepted() => return,
            Exit::Code(code) => format!("exit status {code}"),
            Exit::Signal(signal) => format!("signal {signal}"),
            Exit::OutOfMemory | Exit::NotStarted(_) | Exit::Lost => "the cause is unknown".to_owned(),
        };
        if age >= SETTLED {
            self.failures.set(0);
        }
        self.has_failed(&format_args!("process {pid} has ended after {:.1} s: {how}", age.as_secs_f64()));
    }

    /// Says so, and waits the longer before the next start the more often it happens in a row.
    fn has_failed(&self, what: &dyn std::fmt::Display) {
        self.failures.set(self.failures.get() + 1);
        let pause = back_off(self.failures.get());
        self.not_before.set(Some(Instant::now() + pause));
        let name = &self.application.name;
        log::error(format_args!(
            "application \"{name}\": {what}; nothing is started for {:.1} s",
            pause.as_secs_f64()
        ));
    }

    fn retire_where(&self, which: impl Fn(&Endpoint) -> bool) {
        let mut retired = Vec::new();
        for endpoint in
            self.endpoints.borrow_mut().iter_mut().filter(|endpoint| endpoint.serves() && which(endpoint))
        {
            endpoint.standing = Standing::Retires;
            retired.push(endpoint.id);
        }
        retired.into_iter().for_each(|id| self.recall_of(id));
    }

    /// Has connections to this endpoint given back when they are not in use.
    fn recall_of(&self, id: EndpointId) {
        let mut members: Vec<u64> = self
            .leases
            .borrow()
            .values()
            .filter(|(endpoint, _)| *endpoint == id)
            .map(|(_, member)| *member)
            .collect();
        members.sort_unstable();
        members.dedup();
        members.into_iter().for_each(|member| self.tell(member, PoolEvent::Recall { endpoint: Some(id) }));
    }

    fn look_at_memory(&self, most: u64, now: Instant) -> Option<Instant> {
        let next = self.looked_at_memory.get() + MEMORY_LOOK;
        if now < next {
            return Some(next);
        }
        self.looked_at_memory.set(now);
        let is_large = |reach: Option<&Reach>| match reach {
            Some(Reach::Process(process)) => process.started.memory().is_some_and(|memory| memory > most),
            _ => false,
        };
        let reach = self.reach.borrow();
        let large: Vec<EndpointId> = reach.keys().copied().filter(|id| is_large(reach.get(id))).collect();
        drop(reach);
        self.retire_where(|endpoint| large.contains(&endpoint.id));
        let runs = !self.reach.borrow().is_empty();
        runs.then_some(now + MEMORY_LOOK)
    }

    /// Kills who does not accept its first connection in time.
    fn look_at_starts(&self, managed: &Managed, now: Instant) -> Option<Instant> {
        let mut next = None;
        for reach in self.reach.borrow_mut().values_mut() {
            let Reach::Process(process) = reach else { continue };
            let Accepts::Tried(since) = process.accepts else { continue };
            if !process.started.lets_wait() {
                process.accepts = Accepts::Yes;
            } else if since + managed.start <= now {
                let (name, pid) = (&self.application.name, process.started.process.pid);
                let patience = managed.start.as_secs_f64();
                log::error(format_args!(
                    "application \"{name}\": process {pid} has not accepted a connection in {patience:.1} s, and is killed"
                ));
                process.accepts = Accepts::Yes;
                process.started.signal(libc::SIGKILL);
            } else {
                next = Some(now + START_LOOK);
            }
        }
        next
    }

    /// Tells those to end who are to, and have nothing more to do; kills who does not.
    fn end_retired(&self, managed: &Managed, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let mut reach = self.reach.borrow_mut();
        for endpoint in self.endpoints.borrow_mut().iter_mut() {
            let Some(Reach::Process(process)) = reach.get_mut(&endpoint.id) else { continue };
            if endpoint.standing == Standing::Retires && endpoint.leases == 0 {
                endpoint.standing = Standing::Ends;
                process.started.signal(libc::SIGTERM);
                process.kill = Some(now + managed.grace);
            }
            match process.kill {
                Some(at) if at <= now => {
                    process.started.signal(libc::SIGKILL);
                    process.kill = None;
                }
                Some(at) => next = Some(next.map_or(at, |next| next.min(at))),
                None => {}
            }
        }
        next
    }

    fn tell(&self, member: u64, answer: PoolEvent) {
        if let Some(member) = self.members.borrow().get(&member) {
            member.send_queue.send(&member.channel, answer);
        }
    }

    fn number(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        number
    }
}
