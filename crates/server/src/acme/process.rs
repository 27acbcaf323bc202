//! The process that gets certificates. It has the key of the account, and connects to authorities. It has neither the
//! folder of certificates nor clients: what it gets, it gives to the master.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::SigSet;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, setsid};
use rustix::thread::CapabilitySet;
use rustls::RootCertStore;
use site::certificates::{Certificates, Challenge};
use site::model::Sandbox;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::JoinSet;
use zeroize::Zeroizing;

use super::account::{AccountKey, Binding, uri};
use super::crypto::sha256;
use super::dns::{self, Change, Record};
use super::https::Client;
use super::issue::Pair;
use super::message::{AcmeCommand, AcmeRequest, Reply, Wish};
use super::order::{self, AcmeClient, Finished, OrderError, Responder};
use super::report::Report;
use super::schedule::{Attempt, Event, Failure, Rules, Schedule, Step, Time, Validity};
use super::stored::Stored;
use super::{Wanted, window};
use crate::log;
use crate::process::ipc::{AsyncChannel, Channel, Received};
use crate::process::privilege::Identity;
use crate::process::sandbox::{self, Confinement, Connects, MAX_PORTS, Pipes, Reads, Writes};
use crate::tasks::spawn_into;

const FAILED: u8 = 1;
/// Certificates that are ordered at the same time.
const ORDERS: usize = 4;
/// How long a lock lasts if this process does not prolong it, and how often it does.
const LOCK: Time = 30;
const PROLONG_EVERY: Duration = Duration::from_secs(10);
/// How soon it is tried again, because the other server may be quick.
const TRY_LOCK_EVERY: Time = 5;
/// How often a certificate is compared with the stored one, which another server may have replaced.
const CHECK_EVERY: Duration = Duration::from_secs(600);
/// How long the end of this process waits for programs that remove records.
pub const LONGEST_END: Duration = Duration::from_secs(5);
/// Bytes of an error that the log shows: some are the words of an authority.
const MAX_ERROR: usize = 1000;
const CLOCK: &str = "check the clock of this machine";
const DNS: u16 = 53;
const HTTPS: u16 = 443;
/// The files by which names are looked up (nsswitch.conf(5), resolv.conf(5), gai.conf(5)).
const RESOLVER: [&str; 6] = [
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/run/systemd/resolve",
];

/// What the process starts with.
pub struct AcmeSetup {
    pub certificates: Vec<Wanted>,
    pub settings: Certificates,
    pub master: Channel,
    /// `None`: it keeps the account of the master.
    pub identity: Option<Identity>,
    pub sandbox: Sandbox,
}

/// What it reads with the rights of the master.
pub struct Secrets {
    pub key: AccountKey,
    pub binding: Option<Binding>,
    /// The authorities that servers are verified by.
    pub roots: RootCertStore,
}

/// Gets certificates until the master ends the process, and returns the exit code. The process must have one thread.
pub fn run(setup: AcmeSetup, secrets: Result<Secrets, String>) -> u8 {
    match secrets.and_then(|secrets| serve(setup, secrets)) {
        Ok(never) => match never {},
        Err(why) => {
            log::error(format_args!("no certificates are ordered: {why}"));
            FAILED
        }
    }
}

/// Errors: why the process ends. The end of the master ends it, too.
fn serve(setup: AcmeSetup, secrets: Secrets) -> Result<Infallible, String> {
    let AcmeSetup { certificates, settings, master, identity, sandbox } = setup;
    give_up(&settings, identity, sandbox)?;
    let Secrets { key, binding, roots } = secrets;
    let https = Client::new(roots, settings.timeout)?;
    let client = AcmeClient { settings, key, binding, https };
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build_local(Default::default());
    let runtime = runtime.map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let link = Link::new(master).map_err(|e| e.to_string())?;
        let orders = Semaphore::new(ORDERS);
        let shared = Rc::new(Shared { client, link, orders, ending: Ending::default() });
        let mut tasks = JoinSet::new();
        for (number, wanted) in certificates.into_iter().enumerate() {
            let task = CertificateTask::new(number as u32, wanted, shared.clone());
            spawn_into(&mut tasks, task.run());
        }
        let ended = tokio::select! {
            ended = shared.link.receive() => ended,
            // Without its task, a certificate would expire in silence. The master starts this process again.
            _ = tasks.join_next(), if !tasks.is_empty() => Err("a panic has ended a task".to_owned()),
        };
        shared.end_orders().await;
        // Programs that still run end with their tasks.
        tasks.shutdown().await;
        match ended {
            // At once: a lookup of a name may take long.
            Ok(()) => std::process::exit(0),
            Err(why) => Err(why),
        }
    })
}

/// A process that executes the program for DNS-01 has no filter of system calls: the program needs all of them.
fn give_up(settings: &Certificates, identity: Option<Identity>, sandbox: Sandbox) -> Result<(), String> {
    let cannot = |what: &'static str| move |e: rustix::io::Errno| format!("cannot {what}: {e}");
    // Without a controlling terminal, no terminal sends signals to this process.
    setsid().map_err(cannot("begin a session"))?;
    identity.map_or(Ok(()), |identity| identity.assume())?;
    // Other processes of the same user could otherwise read the key.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(cannot("forbid tracing"))?;
    if !settings.dns_command.is_empty() {
        return match sandbox {
            Sandbox::Off => Ok(()),
            Sandbox::On | Sandbox::Required => {
                let given_up = sandbox::forbid_new_privileges()
                    .and_then(|()| sandbox::hold_only(CapabilitySet::empty()));
                given_up.map_err(cannot("give up privileges"))
            }
        };
    }
    // The master ends this process by leaving it.
    SigSet::all().thread_block().map_err(|errno| format!("cannot block signals: {errno}"))?;
    let reads = Reads::Beneath(RESOLVER.iter().map(Path::new).collect());
    let connects = Connects::Ports(ports(&settings.authorities));
    let confinement = Confinement {
        reads,
        open: None,
        connects,
        pipes: Pipes::None,
        writes: Writes::Nowhere,
        publishes: Vec::new(),
    };
    // The generation reports what is missing on this machine.
    sandbox::apply(&confinement, sandbox).map(drop)
}

/// Those of the authorities, and of name servers.
fn ports(authorities: &[String]) -> [u16; MAX_PORTS] {
    let mut ports = [0; MAX_PORTS];
    let of_authority = |url: &String| uri(url).ok().map(|uri| uri.port_u16().unwrap_or(HTTPS));
    let all = [DNS].into_iter().chain(authorities.iter().filter_map(of_authority));
    ports.iter_mut().zip(all).for_each(|(slot, port)| *slot = port);
    ports
}

struct Shared {
    client: AcmeClient,
    link: Link,
    orders: Semaphore,
    ending: Ending,
}

impl Shared {
    /// Has the orders that run take back their challenges, and waits until they have.
    async fn end_orders(&self) {
        self.link.end();
        self.ending.begin();
        let all = self.orders.acquire_many(ORDERS as u32);
        if tokio::time::timeout(LONGEST_END, all).await.is_err() {
            log::warn(format_args!(
                "a record of dns-01 may stay: dns_command has not removed it within {} s, and is ended",
                LONGEST_END.as_secs()
            ));
        }
    }
}

/// Whether this process is to end.
#[derive(Default)]
struct Ending {
    has_begun: Cell<bool>,
    begun: Notify,
}

impl Ending {
    fn begin(&self) {
        self.has_begun.set(true);
        self.begun.notify_waiters();
    }

    async fn wait(&self) {
        let begun = self.begun.notified();
        if !self.has_begun.get() {
            begun.await;
        }
    }
}

/// Sends requests to the master, and waits for the replies.
struct Link {
    channel: AsyncChannel<AcmeRequest>,
    /// `None`: the master receives no more.
    waiting: RefCell<Option<HashMap<u32, oneshot::Sender<Reply>>>>,
    last: Cell<u32>,
}

impl Link {
    /// Within a runtime.
    fn new(master: Channel) -> io::Result<Link> {
        let channel = AsyncChannel::new(master)?;
        Ok(Link { channel, waiting: RefCell::new(Some(HashMap::new())), last: Cell::new(0) })
    }

    async fn request(&self, certificate: u32, what: Wish) -> Reply {
        let number = self.last.get().wrapping_add(1);
        self.last.set(number);
        let reply = self.waiting.borrow_mut().as_mut().map(|waiting| {
            let (sender, reply) = oneshot::channel();
            waiting.insert(number, sender);
            self.channel.send(AcmeRequest { number, certificate, what });
            reply
        });
        let reply = match reply {
            Some(reply) => reply.await.ok(),
            None => None,
        };
        reply.unwrap_or_else(|| Reply::Failed("the master does not respond".to_owned()))
    }

    /// Every request fails from now on, also those that wait.
    fn end(&self) {
        *self.waiting.borrow_mut() = None;
    }

    /// Receives replies, until the master has ended or needs this process no more. Errors: why there are no more.
    async fn receive(&self) -> Result<(), String> {
        loop {
            match self.channel.receive::<AcmeCommand>().await {
                Ok(Received::Message(AcmeCommand::Reply { number, reply })) => {
                    let waiting = self.waiting.borrow_mut().as_mut().and_then(|all| all.remove(&number));
                    // The task may have given up.
                    waiting.map(|waiting| waiting.send(reply));
                }
                Ok(Received::Message(AcmeCommand::Log(command))) => command.carry_out(),
                Ok(Received::End) => return Ok(()),
                Err(error) => return Err(format!("cannot receive: {error}")),
            }
        }
    }
}

/// Looks after one certificate.
struct CertificateTask {
    number: u32,
    wanted: Wanted,
    challenges: Vec<Challenge>,
    schedule: Schedule,
    /// Of the chain that is served.
    served: [u8; 32],
    validity: Option<Validity>,
    identifier: Option<String>,
    /// One that could not be stored: it is not ordered again.
    unsaved: Option<Finished>,
    /// As it was stored last, by this server or another one, with what an order has changed since then.
    report: Report,
    /// What this process has stored.
    reported: Option<Time>,
    /// As in `report`, while an order changes them.
    records: RefCell<Vec<Record>>,
    shared: Rc<Shared>,
}

impl CertificateTask {
    fn new(number: u32, wanted: Wanted, shared: Rc<Shared>) -> CertificateTask {
        let settings = &shared.client.settings;
        let proves_all = |challenge: &Challenge| wanted.names.iter().all(|name| challenge.proves(name));
        let challenges: Vec<Challenge> = settings.challenges.iter().copied().filter(proves_all).collect();
        let rules = Rules {
            authorities: settings.authorities.len(),
            challenges: challenges.len(),
            retry: settings.retry,
            max_retry: settings.max_retry,
        };
        let share = RandomState::new().build_hasher().finish() as u16;
        CertificateTask {
            number,
            challenges,
            schedule: Schedule::new(rules, share),
            served: wanted.served,
            validity: None,
            identifier: None,
            unsaved: None,
            report: wanted.report.clone(),
            reported: None,
            records: RefCell::new(wanted.report.records.clone()),
            wanted,
            shared,
        }
    }

    async fn run(mut self) {
        self.check_stored().await;
        self.remove_left_records().await;
        loop {
            let now = now();
            match self.schedule.step(now) {
                Step::WaitUntil(until) => {
                    self.publish().await;
                    let wait = Duration::from_secs(until.saturating_sub(now)).min(CHECK_EVERY);
                    tokio::time::sleep(wait).await;
                    self.check_stored().await;
                }
                Step::AskForWindow => {
                    let event = self.window().await;
                    self.schedule.on(event, now);
                }
                Step::Order(attempt) => self.order(attempt).await,
            }
        }
    }

    async fn request(&self, what: Wish) -> Reply {
        self.shared.link.request(self.number, what).await
    }

    /// Removes the records that a process before this one has set, and not removed, as when it was killed.
    async fn remove_left_records(&mut self) {
        let shared = self.shared.clone();
        while !self.records.borrow().is_empty() && !shared.ending.has_begun.get() {
            let Ok(permit) = shared.orders.acquire().await else { return };
            match self.request(Wish::Lock(now() + LOCK)).await {
                // They may be those of another server, which uses them.
                Reply::Busy(_) => {
                    drop(permit);
                    tokio::time::sleep(Duration::from_secs(TRY_LOCK_EVERY)).await;
                    continue;
                }
                Reply::Failed(_) => return,
                Reply::Done | Reply::Content(_) => {}
            }
            // Another server may have removed them, or ordered meanwhile.
            self.read_report().await;
            let left = self.records.borrow().clone();
            for record in left {
                match dns::run(&shared.client.settings, Change::Unset, &record).await {
                    Ok(()) => log::info(format_args!("the record {} was left, and is removed", record.name)),
                    Err(why) => log::warn(format_args!(
                        "the record {} may have been left by an order that was broken off: {why}",
                        record.name
                    )),
                }
                self.forget(&record).await;
            }
            self.request(Wish::Unlock).await;
        }
    }

    /// Reads the stored certificate, and has the master serve it if it is another one.
    async fn check_stored(&mut self) {
        let Reply::Content(chain) = self.request(Wish::Read).await else { return };
        let hash = sha256(&chain);
        self.take(&chain);
        if hash != self.served && self.validity.is_some() {
            self.served = hash;
            self.read_report().await;
            self.request(Wish::Serve).await;
        }
    }

    /// Takes over what another server has reported: which authority has issued the certificate, why the last attempt has
    /// failed, and which records are set.
    async fn read_report(&mut self) {
        let Reply::Content(text) = self.request(Wish::ReadReport).await else { return };
        self.report = Report::parse(&String::from_utf8_lossy(&text));
        self.records.replace(self.report.records.clone());
    }

    fn take(&mut self, chain: &[u8]) {
        let stored = Stored::read(chain).ok();
        self.validity = stored.as_ref().and_then(|stored| stored.validity_for(&self.wanted.names));
        self.identifier = stored.and_then(|stored| stored.identifier);
        self.schedule.on(Event::Found(self.validity), now());
    }

    async fn window(&self) -> Event {
        let authority = self.report.authority.as_ref();
        let authority = authority.or(self.shared.client.settings.authorities.first());
        match authority.zip(self.identifier.as_ref()) {
            Some((authority, identifier)) => {
                window::ask(&self.shared.client.https, authority, identifier).await
            }
            None => Event::NoWindow,
        }
    }

    async fn order(&mut self, attempt: Attempt) {
        let shared = self.shared.clone();
        // Without a lock: it would end while this task waits.
        let Ok(permit) = shared.orders.acquire().await else { return };
        if shared.ending.has_begun.get() {
            drop(permit);
            return std::future::pending().await;
        }
        match self.request(Wish::Lock(now() + LOCK)).await {
            Reply::Busy(until) => {
                let now = now();
                self.schedule.on(Event::Busy(until.min(now + TRY_LOCK_EVERY)), now);
                return;
            }
            Reply::Failed(why) => {
                let text = format!("the certificate cannot be locked: {why}");
                return self.fail(attempt, OrderError { failure: Failure::Here, text, account: None });
            }
            Reply::Done | Reply::Content(_) => {}
        }
        // Another server may have ordered before this one has got the lock.
        self.read_report().await;
        self.check_stored().await;
        if let Step::Order(attempt) = self.schedule.step(now()) {
            let ordered = match self.unsaved.take() {
                Some(finished) => Ok(finished),
                None => self.order_with_lock(attempt).await,
            };
            if shared.ending.has_begun.get() {
                return;
            }
            match ordered.and_then(|finished| self.check_end(finished)) {
                Ok(finished) => self.store(attempt, finished).await,
                Err(error) => self.fail(attempt, error),
            }
            self.store_report().await;
        }
        self.request(Wish::Unlock).await;
    }

    async fn order_with_lock(&self, attempt: Attempt) -> Result<Finished, OrderError> {
        let shared = self.shared.clone();
        let authority = shared.client.settings.authorities[attempt.authority].as_str();
        let own = self.report.authority.as_deref() == Some(authority);
        let request = order::Request {
            names: &self.wanted.names,
            authority,
            challenge: self.challenges[attempt.challenge],
            replaces: self.identifier.as_deref().filter(|_| own && self.validity.is_some()),
        };
        let mut ordering = pin!(order::order(&shared.client, &request, self, shared.ending.wait()));
        loop {
            tokio::select! {
                ordered = &mut ordering => return ordered,
                () = tokio::time::sleep(PROLONG_EVERY) => drop(self.request(Wish::Lock(now() + LOCK)).await),
            }
        }
    }

    /// A certificate that has expired does not replace one that has not. It replaces another one, because the clock may
    /// be wrong.
    fn check_end(&self, finished: Finished) -> Result<Finished, OrderError> {
        let now = now();
        let validity = Stored::read(finished.pem.as_bytes())
            .ok()
            .and_then(|stored| stored.validity_for(&self.wanted.names));
        let has_ended = |validity: &Validity| validity.not_after <= now;
        if validity.is_some_and(|new| has_ended(&new)) && self.validity.is_some_and(|old| !has_ended(&old)) {
            let text = format!("it sent a certificate that has expired; {CLOCK}");
            return Err(OrderError { failure: Failure::Authority, text, account: None });
        }
        Ok(finished)
    }

    async fn store(&mut self, attempt: Attempt, finished: Finished) {
        let stored = self.request(Wish::Store(Zeroizing::new(finished.pem.as_bytes().to_vec()))).await;
        if let Reply::Failed(why) = stored {
            let text = format!("the certificate cannot be stored, and will be once more: {why}");
            self.fail(attempt, OrderError { failure: Failure::Here, text, account: None });
            self.unsaved = Some(finished);
            return;
        }
        let Finished { authority, account, issuer, .. } = finished;
        log::info(format_args!("{authority} has issued a certificate for {}", self.wanted.names.join(", ")));
        self.report =
            Report { authority: Some(authority), account: Some(account), issuer, ..Report::default() };
        // Before another server finds the certificate.
        self.store_report().await;
        if let Reply::Content(chain) = self.request(Wish::Read).await {
            self.served = sha256(&chain);
            self.take(&chain);
        }
        let (now, names) = (now(), self.wanted.names.join(", "));
        match self.validity {
            Some(Validity { not_after, .. }) if not_after <= now => {
                log::warn(format_args!("the new certificate for {names} has expired already; {CLOCK}"));
            }
            Some(Validity { not_before, .. }) if not_before > now => {
                log::warn(format_args!("the new certificate for {names} is not valid yet; {CLOCK}"));
            }
            _ => {}
        }
    }

    fn fail(&mut self, attempt: Attempt, error: OrderError) {
        let now = now();
        let OrderError { failure, mut text, account } = error;
        text.truncate(text.floor_char_boundary(MAX_ERROR));
        if let Some((account, issuer)) = account {
            (self.report.account, self.report.issuer) = (Some(account), issuer);
        }
        self.schedule.on(Event::Failed(failure), now);
        let authority = &self.shared.client.settings.authorities[attempt.authority];
        let names = self.wanted.names.join(", ");
        let then = match self.schedule.due().saturating_sub(now) {
            0 => "the next challenge or authority is tried at once".to_owned(),
            seconds => format!("it is tried again in {seconds} s"),
        };
        let present = match self.validity {
            None => "a self-made certificate is served",
            Some(validity) if validity.not_after <= now => {
                "the present one has EXPIRED, and is served all the same"
            }
            Some(_) => "the present one is served",
        };
        log::error(format_args!("no certificate for {names} from {authority}: {text}; {then}; {present}"));
        self.report.failure = Some((now, text));
    }

    /// Without it, a record that is left stays.
    async fn report_records(&self) {
        let report = Report { records: self.records.borrow().clone(), ..self.report.clone() };
        self.request(Wish::Report(report.write().into_bytes())).await;
    }

    /// Reports when the next order begins. Another server that orders reports that itself.
    async fn publish(&mut self) {
        if self.reported == Some(self.schedule.due()) {
            return;
        }
        if self.request(Wish::Lock(now() + LOCK)).await == Reply::Done {
            self.read_report().await;
            self.store_report().await;
            self.request(Wish::Unlock).await;
        }
    }

    /// With the lock.
    async fn store_report(&mut self) {
        self.report.due = self.schedule.due();
        self.report.records = self.records.borrow().clone();
        self.request(Wish::Report(self.report.write().into_bytes())).await;
        self.reported = Some(self.report.due);
    }
}

impl Responder for CertificateTask {
    async fn respond(&self, name: &str, pair: &Pair) -> Result<(), String> {
        let (name, pem) = (name.as_bytes().to_vec(), pair.pem().as_bytes().to_vec());
        match self.request(Wish::Challenge { name, pem }).await {
            Reply::Failed(why) => Err(why),
            Reply::Done | Reply::Busy(_) | Reply::Content(_) => Ok(()),
        }
    }

    async fn withdraw(&self, name: &str) {
        self.request(Wish::Withdraw { name: name.as_bytes().to_vec() }).await;
    }

    async fn remember(&self, record: &Record) {
        self.records.borrow_mut().push(record.clone());
        self.report_records().await;
    }

    async fn forget(&self, record: &Record) {
        self.records.borrow_mut().retain(|own| own != record);
        self.report_records().await;
    }
}

fn now() -> Time {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
