//! The task that looks after one certificate: it orders it when that is due, also where other servers order the same
//! one.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use site::certificates::Challenge;
use zeroize::Zeroizing;

use super::Shared;
use crate::acme::crypto::sha256;
use crate::acme::dns::{self, Change, Record};
use crate::acme::issue::Pair;
use crate::acme::message::{Reply, Wish};
use crate::acme::order::{self, Finished, OrderError, Responder};
use crate::acme::report::Report;
use crate::acme::schedule::{Attempt, Event, Failure, Rules, Schedule, Step, Time, Validity};
use crate::acme::stored::Stored;
use crate::acme::{Wanted, window};
use crate::{clock, log, sys};

/// How long a lock lasts if this process does not prolong it, and how often it does.
const LOCK: Time = 30;
const PROLONG_EVERY: Duration = Duration::from_secs(10);
/// How soon it is tried again, because the other server may be quick.
const TRY_LOCK_EVERY: Time = 5;
/// How often a certificate is compared with the stored one, which another server may have replaced.
const CHECK_EVERY: Duration = Duration::from_secs(600);
/// Bytes of an error that the log shows: some are the words of an authority.
const MAX_ERROR: usize = 1000;
const CLOCK: &str = "check the clock of this machine";

/// Looks after one certificate.
pub struct CertificateTask {
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
    report: RefCell<Report>,
    /// What this process has stored.
    reported: Option<Time>,
    /// The log says that another server has the lock.
    has_reported_lock: bool,
    shared: Rc<Shared>,
}

impl CertificateTask {
    pub fn new(number: u32, wanted: Wanted, shared: Rc<Shared>) -> CertificateTask {
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
            report: RefCell::new(wanted.report.clone()),
            reported: None,
            has_reported_lock: false,
            wanted,
            shared,
        }
    }

    pub async fn run(mut self) {
        self.check_stored().await;
        self.remove_left_records().await;
        loop {
            let now = now();
            match self.schedule.step(now) {
                Step::WaitUntil(until) => {
                    self.publish().await;
                    let wait = Duration::from_secs(until.saturating_sub(now)).min(CHECK_EVERY);
                    // What has come before used far more than what is left to do.
                    sys::release_when_parked();
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
        while !self.report.borrow().records.is_empty() && !shared.ending.has_begun.get() {
            let Ok(permit) = shared.orders.acquire().await else { return };
            match self.request(Wish::Lock(now() + LOCK)).await {
                // They may be those of another server, which uses them.
                Reply::Busy(until) => {
                    drop(permit);
                    self.report_lock(until.saturating_sub(now()));
                    tokio::time::sleep(Duration::from_secs(TRY_LOCK_EVERY)).await;
                    continue;
                }
                Reply::Failed(_) => return,
                Reply::Done | Reply::Content(_) => {}
            }
            // Another server may have removed them, or ordered meanwhile.
            self.read_report().await;
            let left = self.report.borrow().records.clone();
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
        self.report.replace(Report::parse(&String::from_utf8_lossy(&text)));
    }

    fn take(&mut self, chain: &[u8]) {
        let stored = Stored::read(chain).ok();
        self.validity = stored.as_ref().and_then(|stored| stored.validity_for(&self.wanted.names));
        self.identifier = stored.and_then(|stored| stored.identifier);
        self.schedule.on(Event::Found(self.validity), now());
    }

    async fn window(&self) -> Event {
        let authorities = &self.shared.client.settings.authorities;
        let issuer = self.report.borrow().authority.clone();
        if let Some(issuer) = issuer.as_ref().filter(|issuer| !authorities.contains(issuer)) {
            let names = self.wanted.names.join(", ");
            log::info(format_args!(
                "the certificate for {names} is replaced: `authorities` has no {issuer} any more"
            ));
            return Event::Window(window::AT_ONCE, window::AGAIN);
        }
        match issuer.as_ref().or(authorities.first()).zip(self.identifier.as_ref()) {
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
        let locked = self.request(Wish::Lock(now() + LOCK)).await;
        if shared.ending.has_begun.get() {
            drop(permit);
            return std::future::pending().await;
        }
        match locked {
            Reply::Busy(until) => {
                let now = now();
                self.report_lock(until.saturating_sub(now));
                self.schedule.on(Event::Busy(until.min(now + TRY_LOCK_EVERY)), now);
                return;
            }
            Reply::Failed(why) => {
                let text = format!("the certificate cannot be locked: {why}");
                return self.fail(attempt, OrderError { failure: Failure::Here, text, account: None });
            }
            Reply::Done | Reply::Content(_) => {}
        }
        self.has_reported_lock = false;
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

    /// Another server has the lock for so many seconds, if it does not prolong it. It is tried again and again, and said
    /// once.
    fn report_lock(&mut self, seconds: Time) {
        if !std::mem::replace(&mut self.has_reported_lock, true) {
            log::info(format_args!(
                "the certificate for {} waits for the lock of another server, or of one that was killed, which ends in \
                 {seconds} s if it is not prolonged",
                self.wanted.names.join(", ")
            ));
        }
    }

    async fn order_with_lock(&self, attempt: Attempt) -> Result<Finished, OrderError> {
        let shared = self.shared.clone();
        let authority = shared.client.settings.authorities[attempt.authority].as_str();
        let own = self.report.borrow().authority.as_deref() == Some(authority);
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
        let Finished { authority, account, .. } = finished;
        let Report { records, failure, .. } = self.report.take();
        let issued = format!("{authority} has issued a certificate for {}", self.wanted.names.join(", "));
        match (self.validity, failure) {
            (Some(_), None) => log::info(format_args!("{issued}")),
            // A warning or an error before has said that there is none.
            _ => log::warn(format_args!("{issued}")),
        }
        let (authority, account) = (Some(authority), Some(account));
        self.report.replace(Report { authority, account, records, ..Report::default() });
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
        if account.is_some() {
            self.report.get_mut().account = account;
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
        // What could not be requested is named already where it is the authority's own URL.
        let why = text.strip_prefix(&format!("{authority}: ")).unwrap_or(&text);
        log::error(format_args!("no certificate for {names} from {authority}: {why}; {then}; {present}"));
        self.report.get_mut().failure = Some((now, text));
    }

    async fn write_report(&self) {
        let text = self.report.borrow().write();
        if let Reply::Failed(why) = self.request(Wish::Report(text.into_bytes())).await {
            let names = self.wanted.names.join(", ");
            log::warn(format_args!(
                "the state of the certificate for {names} cannot be stored: {why}; until it can, other servers with this \
                 folder, and this one when it starts again, do not know of it"
            ));
        }
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
        let due = self.schedule.due();
        self.report.get_mut().due = due;
        self.write_report().await;
        self.reported = Some(due);
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
        self.report.borrow_mut().records.push(record.clone());
        self.write_report().await;
    }

    async fn forget(&self, record: &Record) {
        self.report.borrow_mut().records.retain(|own| own != record);
        self.write_report().await;
    }
}

fn now() -> Time {
    u64::try_from(clock::wall()).unwrap_or(0)
}
