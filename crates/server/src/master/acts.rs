//! What administrators do through the control socket, and what of it outlives a reload. Each act is in the error log,
//! with its user.

use std::collections::BTreeSet;
use std::time::Duration;

use site::maintenance::{self, DEFAULT_HOST, Maintenance};
use site::model::{Action, Level, Site};
use site::monitor::Monitor;

use super::Master;
use crate::control::{Client, Drain, DrainChange, MaintenanceAct, Request};
use crate::log;
use crate::process::ipc::MasterCommand;

/// Endpoints that are remembered.
const MAX_DRAINED: usize = 1000;

/// What has been switched.
#[derive(Default)]
pub(super) struct Acts {
    pub(super) maintenance: Maintenance,
    /// Endpoints that have been taken out of service, with the names of their applications.
    drained: BTreeSet<(String, String)>,
}

/// Whether a site has the form for acts.
pub(super) fn have_page(site: &Site) -> bool {
    let mut routes = site.hosts.iter().flat_map(|host| host.routes.iter());
    routes.any(|route| matches!(route.action, Action::Monitor(Monitor::Acts)))
}

impl Acts {
    /// Remembers what a request switches for later configurations.
    pub(super) fn note(&mut self, request: &Request) {
        match request {
            Request::Drain(Drain { application, endpoint, change }) => {
                let key = (application.clone(), endpoint.clone());
                match change {
                    DrainChange::Drain if self.drained.contains(&key) => {}
                    DrainChange::Drain if self.drained.len() < MAX_DRAINED => _ = self.drained.insert(key),
                    DrainChange::Drain => log::warn(format_args!(
                        "{endpoint} of application {application} gets requests again after a reload that changes \
                         it: {MAX_DRAINED} drained endpoints are remembered already"
                    )),
                    DrainChange::Undrain => _ = self.drained.remove(&key),
                }
            }
            Request::Maintenance(MaintenanceAct { host, retry_after }) => {
                _ = self.maintenance.set(host, *retry_after);
            }
            _ => {}
        }
    }

    /// The endpoints of an application that have been drained.
    pub(super) fn drained_in(&self, application: &str) -> impl Iterator<Item = &str> {
        self.drained.iter().filter(move |(name, _)| name == application).map(|(_, endpoint)| &**endpoint)
    }

    /// The requests that switch all of it.
    pub(super) fn requests(&self) -> Vec<Request> {
        let drain = |(application, endpoint): &(String, String)| {
            let (application, endpoint) = (application.clone(), endpoint.clone());
            Request::Drain(Drain { application, endpoint, change: DrainChange::Drain })
        };
        let maintenance = |(host, seconds): (&str, u32)| {
            Request::Maintenance(MaintenanceAct { host: host.to_owned(), retry_after: Some(seconds) })
        };
        self.drained.iter().map(drain).chain(self.maintenance.iter().map(maintenance)).collect()
    }
}

impl Master {
    /// Raises or lowers the level of the error log for a time.
    pub(super) fn change_level(&mut self, client: Client, level: Level, time: Duration) {
        log::change_level(level, time);
        for generation in &self.children.generations {
            _ = generation.channel.send(&MasterCommand::Level { level, time });
        }
        self.children.log_writers().for_each(|writer| writer.change_level(level, time));
        client.done("");
    }

    /// Switches a host to maintenance, or back.
    pub(super) fn switch_maintenance(&mut self, client: Client, act: &MaintenanceAct) {
        let MaintenanceAct { host, retry_after } = act;
        let is_known = self.site().is_some_and(|site| maintenance::host(site, host).is_some());
        if !is_known && retry_after.is_some() {
            let names =
                self.site().into_iter().flat_map(|site| site.hosts.iter()).flat_map(|host| &host.names);
            let names: Vec<&str> = names.map(String::as_str).take(20).chain([DEFAULT_HOST]).collect();
            let (host, names) = (host.escape_debug(), names.join(", "));
            return client.failed([&*format!("there is no host \"{host}\", but {names}")]);
        }
        if let Err(why) = self.acts.maintenance.set(host, *retry_after) {
            return client.failed([&*why]);
        }
        let hosts = self.acts.maintenance.to_text().into_bytes();
        // The client has its response when each process has closed its copy: no later request finds the host as it was.
        let done = client.into_done_socket();
        for generation in &self.children.generations {
            match done.try_clone() {
                Ok(done) => {
                    generation.send_descriptor(MasterCommand::Maintenance {
                        hosts: hosts.clone(),
                        done: Some(done),
                    });
                }
                Err(error) => log::error(format_args!(
                    "the process {} does not learn that hosts are switched to maintenance, or back: {error}; try again",
                    generation.pid
                )),
            }
        }
    }
}
