//! Certificates by ACME: the process that gets them, what it asks the master for, and the generation that serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use site::certificates::{Certificates, Challenge};
use site::model::{Level, Sandbox, Sink, Site};

use super::change::Cause;
use super::children::ChildProcess;
use super::lifecycle::{Phase, State};
use super::logs::{ErrorLog, LogWriter};
use super::{GRACE, Master};
use crate::acme::AcmeFiles;
use crate::acme::message::{AcmeCommand, AcmeRequest, Reply, Wish};
use crate::acme::process::{self, AcmeSetup};
use crate::clock;
use crate::log::{self, OpenSink};
use crate::process::ipc::{Channel, MasterCommand, Received};
use crate::process::privilege::Identity;
use crate::process::supervisor::{RestartLimit, text, what_to_do};
use crate::sys::Fork;

/// Requests of the process that are carried out before other events.
const REQUESTS_PER_TURN: usize = 16;

pub(super) struct AcmeProcesses {
    processes: Vec<AcmeProcess>,
    restart_limit: RestartLimit,
    /// When a process that has ended is replaced.
    restart: Option<Instant>,
    /// When a stored certificate is to be served. `None`: there is none that waits for it.
    renewed: Option<Instant>,
    /// Until when the process finishes orders that run. It begins no others.
    finish: Option<Instant>,
}

struct AcmeProcess {
    process: ChildProcess,
    files: Rc<AcmeFiles>,
    circumstances: Circumstances,
    log: ErrorLog,
    /// The certificates for TLS-ALPN-01 challenges that are open, by name.
    challenges: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The certificates that it has locked, as when it orders them.
    locked: BTreeSet<u32>,
}

impl AcmeProcess {
    fn log_writer(&mut self) -> Option<LogWriter<'_>> {
        Some(LogWriter {
            what: "the process that gets certificates".into(),
            channel: self.process.channel()?,
            log: &mut self.log,
            send: |channel, command| channel.send(&AcmeCommand::Log(command)),
        })
    }

    /// How long it may take to end: it removes the records of the orders that run.
    fn patience(&self) -> Duration {
        match self.circumstances.settings.dns_command.is_empty() {
            true => GRACE,
            false => process::LONGEST_END + GRACE,
        }
    }
}

/// The process is replaced when one of these changes.
#[derive(PartialEq, Eq)]
struct Circumstances {
    settings: Certificates,
    identity: Option<Identity>,
    sandbox: Sandbox,
}

impl Circumstances {
    /// Those of a site that is served by this account.
    fn of(site: &Site, account: Option<&Identity>) -> Circumstances {
        // The process serves nothing.
        let settings = Certificates { stand_ins: BTreeMap::new(), ..site.certificates.clone() };
        Circumstances { settings, identity: account.cloned(), sandbox: site.sandbox }
    }

    /// Whether an order that was begun under these can end under others: what the generations answer is what the
    /// authority looks for, and the process has no other rights.
    fn can_end_under(&self, others: &Circumstances) -> bool {
        let Circumstances { settings, identity, sandbox } = self;
        let by_generations =
            |challenge: &&Challenge| matches!(challenge, Challenge::TlsAlpn | Challenge::Http);
        let mut asked = settings.challenges.iter().filter(by_generations);
        asked.all(|challenge| others.settings.challenges.contains(challenge))
            && settings.thumbprint == others.settings.thumbprint
            && *identity == others.identity
            && *sandbox == others.sandbox
    }
}

/// What becomes of the process when the site that is served may be another one.
enum Transition {
    Stays,
    /// It ends when its orders have, and another one follows.
    AfterOrders,
    AtOnce,
}

impl AcmeProcesses {
    pub(super) fn new() -> AcmeProcesses {
        AcmeProcesses {
            processes: Vec::new(),
            restart_limit: RestartLimit::of_certificates(),
            restart: None,
            renewed: None,
            finish: None,
        }
    }

    pub(super) fn clear(&mut self) {
        self.processes.clear();
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &ChildProcess> {
        self.processes.iter().map(|acme| &acme.process)
    }

    pub(super) fn processes_mut(&mut self) -> impl Iterator<Item = &mut ChildProcess> {
        self.processes.iter_mut().map(|acme| &mut acme.process)
    }

    pub(super) fn log_writers(&mut self) -> impl Iterator<Item = LogWriter<'_>> {
        self.processes.iter_mut().filter_map(AcmeProcess::log_writer)
    }

    fn channel(&self) -> Option<&Channel> {
        self.running()?.process.channel()
    }

    fn running(&self) -> Option<&AcmeProcess> {
        self.processes.iter().find(|acme| acme.process.channel().is_some())
    }

    /// When a process is started again, what is stored is served, or orders are broken off.
    pub(super) fn deadline(&self) -> Option<Instant> {
        // One that is due already waits for the end of another change.
        let renewed = self.renewed.filter(|at| *at > Instant::now());
        let finish = self.finish.filter(|at| *at > Instant::now());
        self.restart.into_iter().chain(renewed).chain(finish).min()
    }

    /// A process that has ended is started again at once: an administrator may have mended the cause.
    pub(super) fn end_pause(&mut self) {
        self.restart = None;
        self.restart_limit.reset();
    }

    /// Has the process finish its orders, because another one follows. An order that was broken off would cost a failed
    /// validation, and the next one could replace what the authority is about to ask for.
    pub(super) fn finish_orders(&mut self, now: Instant) {
        let end = self.running().map(|acme| now + acme.circumstances.settings.order_timeout);
        self.finish = self.finish.or(end);
    }

    /// `wanted`: the certificates of what is served. `None`: another program serves.
    fn is_finishing(&self, wanted: Option<&AcmeFiles>, now: Instant) -> bool {
        let has_orders = |acme: &AcmeProcess| {
            let mut orders = acme.locked.iter();
            orders.any(|order| wanted.is_none_or(|wanted| wanted.has(&acme.files, *order)))
        };
        self.finish.is_some_and(|until| now < until) && self.running().is_some_and(has_orders)
    }

    /// What becomes of the process that runs, when these circumstances and certificates are those of the site.
    fn transition(&self, circumstances: &Circumstances, wanted: &AcmeFiles) -> Transition {
        let Some(AcmeProcess { circumstances: own, files, .. }) = self.running() else {
            return Transition::AtOnce;
        };
        // One that finishes its orders waits for a reply that says that it may begin another one.
        if self.finish.is_none() && own == circumstances && files.is_same(wanted) {
            Transition::Stays
        } else if own.can_end_under(circumstances) && files.is_in_folder_of(wanted) {
            Transition::AfterOrders
        } else {
            Transition::AtOnce
        }
    }

    fn end_running(&mut self, now: Instant) {
        self.finish = None;
        for acme in &mut self.processes {
            acme.process.end_within(acme.patience(), now);
        }
    }

    /// How long the processes may take to end.
    pub(super) fn patience(&self) -> Duration {
        self.processes.iter().map(AcmeProcess::patience).max().unwrap_or_default()
    }
}

impl Master {
    /// Starts the process that the configuration needs, and ends the one that it does not need.
    pub(super) fn look_after_certificates(&mut self) {
        let now = Instant::now();
        if self.phase == Phase::Replaced(None) && self.children.certificates.is_finishing(None, now) {
            return;
        }
        let served = self.served.as_ref().filter(|_| self.phase.is_serving());
        let served = served.and_then(|served| Some((served, served.tls.acme.as_ref()?)));
        let certificates = &mut self.children.certificates;
        let Some((served, files)) = served else { return certificates.end_running(now) };
        let site = &served.site;
        if site.certificates.thumbprint.is_none() {
            let (files, retry) = (files.clone(), site.certificates.retry);
            certificates.end_running(now);
            return self.make_account_key(&files, retry, now);
        }
        let circumstances = Circumstances::of(site, served.accounts.own.as_ref());
        match certificates.transition(&circumstances, files) {
            Transition::Stays => return,
            Transition::AfterOrders => {
                certificates.finish_orders(now);
                if certificates.is_finishing(Some(files), now) {
                    return;
                }
            }
            Transition::AtOnce => {}
        }
        certificates.end_running(now);
        if certificates.restart.is_some_and(|at| now < at) {
            return;
        }
        certificates.restart = None;
        let (level, files) = (site.log.level, files.clone());
        if let Err(why) = self.start_acme(circumstances, files, level) {
            let pause = self.children.certificates.restart_limit.count(now);
            self.children.certificates.restart = Some(now + pause);
            log::error(format_args!(
                "cannot start the process that gets certificates: {why}{}",
                what_to_do(&why)
            ));
        }
    }

    /// The disk has not taken the key of the account. A generation that knows the account takes over when it does.
    fn make_account_key(&mut self, files: &AcmeFiles, retry: Duration, now: Instant) {
        let is_waiting = self.children.certificates.restart.is_some_and(|at| now < at);
        if is_waiting || self.changes.running.is_some() || self.children.certificates.renewed.is_some() {
            return;
        }
        self.children.certificates.restart = None;
        match files.make_account_key() {
            Ok(()) => self.children.certificates.renewed = Some(now),
            Err(why) => {
                self.children.certificates.restart = Some(now + retry);
                log::error(format_args!(
                    "no certificates are ordered: {why}; it is tried again {}",
                    text(retry)
                ));
            }
        }
    }

    fn start_acme(
        &mut self,
        circumstances: Circumstances,
        files: Rc<AcmeFiles>,
        level: Level,
    ) -> io::Result<()> {
        let (ours, theirs) = Channel::pair()?;
        let errors = self.open_error_log().or_else(|_| OpenSink::open(&Sink::Stderr));
        match self.fork_child(None)? {
            Fork::Parent(pid) => {
                self.children.certificates.processes.push(AcmeProcess {
                    process: ChildProcess::new(pid, ours),
                    files,
                    circumstances,
                    log: ErrorLog::Current,
                    challenges: BTreeMap::new(),
                    locked: BTreeSet::new(),
                });
                Ok(())
            }
            Fork::Child => {
                drop(ours);
                if let Ok(errors) = errors {
                    log::write_to(errors, level.max(Level::Error));
                }
                let Circumstances { settings, identity, sandbox } = circumstances;
                let secrets = files.secrets(&settings);
                let certificates = files.wanted();
                drop(files);
                let setup = AcmeSetup { certificates, settings, master: theirs, identity, sandbox };
                std::process::exit(process::run(setup, secrets).into())
            }
        }
    }

    /// `None`: there is no process. Or a new program starts, and must not miss a challenge: it knows those that were open
    /// before.
    pub(super) fn acme_channel(&self) -> Option<&Channel> {
        let is_starting = self.phase.is_serving() && self.upgrade.successor().is_some();
        self.children.certificates.channel().filter(|_| !is_starting)
    }

    /// Carries out what the process asks for.
    pub(super) fn on_acme(&mut self) {
        for _ in 0..REQUESTS_PER_TURN {
            let Some(channel) = self.acme_channel() else { return };
            match channel.receive::<AcmeRequest>() {
                Ok(Received::Message(request)) => self.on_acme_request(request),
                Ok(Received::End) => return self.children.certificates.end_running(Instant::now()),
                // There is no message, or it is none.
                Err(_) => return,
            }
        }
    }

    fn on_acme_request(&mut self, request: AcmeRequest) {
        let AcmeRequest { number, certificate, what } = request;
        let is_finishing = self.children.certificates.finish.is_some();
        let mut processes = self.children.certificates.processes.iter_mut();
        let Some(acme) = processes.find(|acme| acme.process.channel().is_some()) else { return };
        let now = u64::try_from(clock::wall()).unwrap_or(0);
        let reply = match what {
            Wish::Challenge { .. } if self.phase.is_replaced() => {
                Reply::Failed("another program has taken over, and orders it".to_owned())
            }
            // Without a reply, it waits for its end.
            Wish::Lock(_) if is_finishing && !acme.locked.contains(&certificate) => return,
            Wish::Challenge { name, pem } => {
                acme.challenges.insert(name.clone(), pem.clone());
                // The generation responds.
                return self.send_challenge(number, name, pem);
            }
            Wish::Withdraw { name } => {
                acme.challenges.remove(&name);
                return self.send_challenge(number, name, Vec::new());
            }
            wish => {
                let reply = acme.files.perform(certificate, &wish, now);
                let reply = reply.unwrap_or_else(|| Reply::Failed("there is no such certificate".to_owned()));
                match (&wish, &reply) {
                    (Wish::Lock(_), Reply::Done) => _ = acme.locked.insert(certificate),
                    (Wish::Unlock, _) => _ = acme.locked.remove(&certificate),
                    (wish, Reply::Done) if wish.changes_what_is_served() => {
                        self.children.certificates.renewed = Some(Instant::now());
                    }
                    _ => {}
                }
                reply
            }
        };
        self.reply_to_acme(number, reply);
    }

    fn reply_to_acme(&self, number: u32, reply: Reply) {
        if let Some(channel) = self.children.certificates.channel() {
            // If the process does not receive it, its order ends when its time is over.
            _ = channel.send_until(&AcmeCommand::Reply { number, reply }, Instant::now() + GRACE);
        }
    }

    /// An empty `pem` withdraws the challenge.
    fn send_challenge(&self, number: u32, name: Vec<u8>, pem: Vec<u8>) {
        let command = |number| MasterCommand::Challenge { number, name: name.clone(), pem: pem.clone() };
        for starting in self.children.generations.iter().filter(|g| g.state == State::Starting) {
            // Fails only if it has ended, or reads nothing.
            _ = starting.channel.send(&command(0));
        }
        let sent = match self.children.serving() {
            Some(generation) => generation.channel.send(&command(number)),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        if let Err(error) = sent {
            self.reply_to_acme(number, Reply::Failed(format!("no process serves: {error}")));
        }
    }

    /// A generation answers the challenge with this number.
    pub(super) fn on_challenge_set(&self, number: u32) {
        // Those that are sent to a generation that starts have no number.
        if number != 0 {
            self.reply_to_acme(number, Reply::Done);
        }
    }

    /// The certificates of the challenges that are open, by name: a new generation, or a new program, answers them, too.
    pub(super) fn open_challenges(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut open = self.upgrade.challenges();
        open.extend(self.children.certificates.running().iter().flat_map(|acme| acme.challenges.clone()));
        open
    }

    /// Starts a generation with the certificates that have been stored, as soon as there is no other change.
    pub(super) fn serve_renewed(&mut self) {
        let is_due = self.children.certificates.renewed.is_some_and(|at| at <= Instant::now());
        let Some(site) = self.site().filter(|_| is_due).cloned() else { return };
        let is_busy = self.is_changing() || self.restart.due().is_some();
        if !self.phase.is_serving() || is_busy || self.children.generations.len() >= site.limits.generations {
            return;
        }
        self.children.certificates.renewed = None;
        let files = self.served.as_ref().and_then(|served| served.tls.acme.as_ref());
        let is_account_known = site.certificates.thumbprint.is_some();
        if is_account_known && files.is_some_and(|files| !files.have_changed()) {
            // Another change has them.
            return;
        }
        if let Err((lines, cause)) = self.begin_change(site, Cause::Renewal) {
            self.on_failed_change(&lines, cause);
        }
    }

    /// The certificates that have been stored could not be served. Without another attempt, those that are served would
    /// expire.
    pub(super) fn serve_renewed_later(&mut self) {
        let Some(pause) = self.site().map(|site| site.certificates.retry) else { return };
        self.children.certificates.renewed = Some(Instant::now() + pause);
        log::error(format_args!("new certificates are not served yet; it is tried again {}", text(pause)));
    }

    pub(super) fn on_acme_exit(&mut self, pid: Pid, end: &str) {
        let processes = &mut self.children.certificates.processes;
        let Some(at) = processes.iter().position(|acme| acme.process.pid == pid) else { return };
        let acme = processes.remove(at);
        acme.files.release_locks();
        if self.phase.is_serving() && acme.process.channel().is_some() {
            let now = Instant::now();
            let pause = self.children.certificates.restart_limit.count(now);
            log::error(format_args!(
                "the process that gets certificates has ended: {end}; it is started again {}",
                text(pause)
            ));
            self.children.certificates.restart = Some(now + pause);
        }
    }
}
