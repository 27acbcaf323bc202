//! Carries out the commands of the master: sends them to the workers, and gathers the responses.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use cache::store::purge::Purge;
use rustix::io::Errno;
use rustix::process::getppid;
use site::maintenance::Maintenance;
use site::model::SignalSet;
use tokio::io::Interest;

use super::MainThread;
use super::responses::{RESPONSE_TIMEOUT, in_time, send_text};
use crate::cache::disk::store::Purged;
use crate::cache::{disk, purges};
use crate::log;
use crate::process::ipc::{Channel, Form, GenerationEvent, MasterCommand};
use crate::process::supervisor::what_to_do;
use crate::stats::{ProcessFiles, Report};
use crate::watch::{self, MAX_WATCHERS, Watch};
use crate::worker::WorkerCommand;
use crate::{clock, control, limits, sys, tasks};

impl MainThread {
    pub(super) fn on_command(&mut self, command: MasterCommand) {
        match command {
            MasterCommand::Leave => {
                disk::retire();
                self.close_sockets();
                self.successor = None;
                self.send_to_all(|| WorkerCommand::Leave);
            }
            MasterCommand::HandOver(successor) => self.hand_over(successor.map(Channel::from)),
            MasterCommand::Log { sink, file } => log::replace(sink as usize, file),
            MasterCommand::LogsSent(done) => log::close_when_replaced(done),
            MasterCommand::Stats { form: Form::Live, to } => self.report_live(to),
            MasterCommand::Stats { form, to } => self.report_stats(move |report| {
                tasks::spawn(send_text(to, report.write(form)));
            }),
            MasterCommand::LogStats => self.log_stats(),
            MasterCommand::Challenge { number, name, pem } => {
                self.challenges.set(&name, &pem);
                // The master may have ended.
                _ = self.master.send(&GenerationEvent::ChallengeSet(number));
            }
            MasterCommand::Rates { follows, rates } => {
                self.rates.extend(rates);
                if !follows {
                    limits::change_rates(&std::mem::take(&mut self.rates));
                }
            }
            MasterCommand::NamedFiles { follows, files } => {
                self.named_files.extend(files);
                if !follows {
                    self.roots.hidden_files().replace(std::mem::take(&mut self.named_files).into());
                    self.send_to_all(|| WorkerCommand::ExpireFiles);
                    self.release_later();
                }
            }
            MasterCommand::Purge { number, purge } => {
                let purge = std::str::from_utf8(&purge).ok().and_then(|text| text.parse::<Purge>().ok());
                if let Some(purge) = purge {
                    let routes = self.site.hosts.iter().flat_map(|host| host.routes.iter());
                    let settings = routes.filter_map(|route| route.cache()).map(Arc::as_ref);
                    self.purge(number, purge.with_settings(settings));
                }
            }
            MasterCommand::Level { level, time } => log::change_level(level, time),
            MasterCommand::Maintenance { hosts, done } => {
                self.set_maintenance(Maintenance::from_text(&String::from_utf8_lossy(&hosts)), done);
            }
            // `work` has carried them out.
            MasterCommand::Stop | MasterCommand::Disconnect { .. } => {}
            MasterCommand::Watch { filter, to } => self.watch(&filter, to),
            MasterCommand::Ping => self.ping(),
        }
    }

    /// Has the workers hand their idle connections to another generation, and end.
    fn hand_over(&mut self, successor: Option<Channel>) {
        disk::retire();
        self.close_sockets();
        let no_number = || io::Error::from(Errno::MFILE);
        let responses = self.request(|closed| {
            let successor = successor.as_ref().ok_or_else(no_number);
            match successor.and_then(Channel::try_clone) {
                Ok(successor) => WorkerCommand::HandOver { successor, closed },
                Err(error) => {
                    log::error(format_args!("cannot hand connections off: {error}{}", what_to_do(&error)));
                    WorkerCommand::Leave
                }
            }
        });
        // Without this watch, inherited connections go to the workers, which pass them on.
        self.successor = successor.and_then(|successor| sys::watch(successor, Interest::WRITABLE).ok());
        self.report_to_master(responses, |_| Some(GenerationEvent::Retired));
    }

    /// `done` is closed when all workers know the hosts in maintenance.
    fn set_maintenance(&mut self, maintenance: Maintenance, done: Option<OwnedFd>) {
        let hosts = Arc::new(maintenance.of(&self.site));
        self.maintenance = maintenance;
        let switched = self.request(|switched| WorkerCommand::Maintenance(hosts.clone(), switched));
        tasks::spawn(async move {
            in_time(switched).await;
            drop(done);
        });
    }

    fn log_stats(&self) {
        let signals = self.site.signals;
        self.report_stats(move |report| match signals {
            SignalSet::Boa => log::info(format_args!("{}", report.boa_line())),
            _ => report.write(Form::Text).lines().for_each(|line| log::info(format_args!("{line}"))),
        });
    }

    pub(super) fn report_stats(&self, write: impl FnOnce(Report) + Send + 'static) {
        let responses = self.request(WorkerCommand::Count);
        let uptime = self.began.elapsed();
        let ledger = self.ledger.clone();
        let usage = self.process.as_ref().and_then(ProcessFiles::usage);
        let validities = self.tls.as_ref().map_or_else(Vec::new, |tls| tls.validities().to_vec());
        tasks::spawn(async move {
            let workers = in_time(responses).await;
            let report = Report {
                since: ledger.since,
                counts: ledger.sum(),
                process: std::process::id(),
                master: getppid().map(|master| master.as_raw_nonzero().get().unsigned_abs()),
                uptime,
                files: disk::stats(),
                workers,
                zones: ledger.zones(),
                earlier: ledger.running(),
                usage,
                validities,
                now: clock::wall(),
            };
            write(report);
        });
    }

    /// The statistics with the requests of now, for `taipan top`.
    fn report_live(&self, to: OwnedFd) {
        let requests = self.request(WorkerCommand::RecentLines);
        self.report_stats(move |report| {
            tasks::spawn(async move { send_text(to, report.live(&in_time(requests).await)).await });
        });
    }

    /// Removes what matches from the memory of the workers, and from the files.
    fn purge(&self, number: u32, purge: Purge) {
        let Ok(master) = self.master.try_clone() else { return };
        // First: what was requested before is not stored from now on.
        let begun = purges::shared().begin(purge.clone());
        let workers = self.request(|removed| WorkerCommand::Purge(purge.clone(), removed));
        let files = disk::purge(purge, begun);
        tasks::spawn(async move {
            let in_memory = in_time(workers).await.into_iter().flatten().sum();
            // Dropped if there are too many at once: then there is no response, and the client tries again.
            if let Ok(Purged { removed: files, failed }) = files.await {
                // The master may have ended.
                _ = master.send(&GenerationEvent::Purged { number, in_memory, files, failed });
            }
        });
    }

    /// Ends the selected connections.
    pub(super) fn disconnect(&mut self, number: u32, selection: &[u8]) {
        let Ok(master) = self.master.try_clone() else { return };
        let selection = std::str::from_utf8(selection).ok().and_then(|text| text.parse().ok());
        let Some(selection) = selection.map(Arc::new) else {
            // The master waits no longer than it has to. It may have ended.
            _ = master.send(&GenerationEvent::Disconnected { number, connections: 0, streams: 0, silent: 1 });
            return;
        };
        let responses = self.request(|ended| WorkerCommand::Disconnect(Arc::clone(&selection), ended));
        while self.disconnecting.try_join_next().is_some() {}
        self.disconnecting.spawn(async move {
            let until = tokio::time::Instant::now() + RESPONSE_TIMEOUT;
            let (mut connections, mut streams, mut silent) = (0, 0, 0);
            for response in responses {
                match tokio::time::timeout_at(until, response).await {
                    Ok(Ok(ended)) => {
                        connections += ended.connections;
                        streams += ended.streams;
                    }
                    // The worker has ended, with its connections.
                    Ok(Err(_)) => {}
                    Err(_) => silent += 1,
                }
            }
            // The master may have ended.
            _ = master.send(&GenerationEvent::Disconnected { number, connections, streams, silent });
        });
    }

    /// Shows requests to a watcher. It is refused if there are too many.
    fn watch(&mut self, filter: &[u8], to: OwnedFd) {
        self.watches.retain(|watch| watch.is_open());
        let filter = std::str::from_utf8(filter).map_err(|error| error.to_string());
        let filter = filter.and_then(str::parse).and_then(|filter| match self.watches.len() {
            MAX_WATCHERS.. => Err(format!("there are {MAX_WATCHERS} watchers already; end one of them")),
            _ => Ok(filter),
        });
        let to = UnixStream::from(to);
        // The text is smaller than the socket's buffer; the watcher may have closed it.
        let respond = move |response: Result<String, String>| {
            _ = io::Write::write_all(&mut &to, control::response_text(response).as_bytes());
            to
        };
        let filter = match filter {
            Ok(filter) => filter,
            Err(why) => return drop(respond(Err(why))),
        };
        let (watch, events) = Watch::new(filter);
        let begun = self.request(|begun| WorkerCommand::Watch(watch.clone(), begun));
        self.watches.push(watch.clone());
        let site = self.site.clone();
        tasks::spawn(async move {
            in_time(begun).await;
            let to = respond(Ok(format!("# watching process {}", std::process::id())));
            watch::stream::run(to, watch, events, site).await;
        });
    }

    /// Has the watchers go to the process that serves now.
    pub(super) fn end_watches(&mut self) {
        self.watches.drain(..).for_each(|watch| watch.end());
    }

    fn ping(&self) {
        let responses = self.request(WorkerCommand::Ping);
        self.report_to_master(responses, |responses| {
            responses.iter().all(Option::is_some).then_some(GenerationEvent::Alive)
        });
    }
}
