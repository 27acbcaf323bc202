//! Reads the hosts of a configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use taipan_http::status::Status;

use super::certificates::check_names;
use super::definitions::Definitions;
use super::error::Place;
use super::folders;
use super::keys::Scope;
use super::log::HostLogs;
use super::published::Texts;
use super::routes::{Inherited, routes};
use super::scripts;
use super::section::{Given, Section, table, text};
use super::tls;
use super::toml::{Entry, Value};
use super::value;
use crate::certificates::Certificates;
use crate::host::{Canonical, HostAddress, Hosts, HostsError};
use crate::model::{AccessLog, Action, Host, NamedRoot, Route};
use crate::route::Pattern;
use crate::tls::HostTls;

/// The keys of which a host needs at least one.
const SERVES: [&str; 4] = ["root", "route", "redirects", "rewrites"];
/// Files of access logs that are named by hosts. All of them are open.
const MAX_HOST_LOGS: usize = 1000;

/// The hosts, the default one first. `None`: there is no host, after an error.
pub fn hosts(
    top: &Section,
    max_body: u64,
    definitions: Definitions<'_>,
    log: &HostLogs,
    certificates: &Certificates,
) -> Option<Hosts> {
    let users = folders::users(top);
    let inherited = Inherited {
        route: Route { max_body, ..Route::new(Pattern::EVERYTHING, Action::Return(Status::NOT_FOUND)) },
        environment: scripts::default_environment(),
        users: None,
        definitions,
        tls: HostTls::default(),
        texts: Texts::default(),
    };
    let inherited = inherited.by_section(top, &users);
    let sections = top.sections("host", Scope::Host);
    check_top(top, &sections);
    let mut names = BTreeMap::new();
    let mut hosts: Vec<(Host, &Section)> = Vec::new();
    if serves(top) {
        hosts.push((host(top, &inherited, log, &mut names), top));
    }
    let default = default_section(&sections).map(|default| hosts.len() + default);
    for section in &sections {
        if SERVES.iter().all(|name| section.lacks(name)) {
            let what_to_do =
                "give it a root, redirects, rewrites, or routes by [[host.route]]; a root is not inherited";
            section.errors.add(section.place(), "this host has nothing to serve", what_to_do);
        }
        hosts.push((host(section, &inherited.by_section(section, &users), log, &mut names), section));
    }
    for (host, section) in &mut hosts {
        check_acme(host, section, certificates);
    }
    check_acme_files(&hosts);
    if let Some(default) = default {
        hosts[..=default].rotate_right(1);
    }
    check_logs(top, log, hosts.len());
    for (host, section) in hosts.iter().skip(1) {
        reject_unreachable(section);
        if host.names.is_empty() && host.folder.is_none() {
            tls::check_without_names(section, &host.tls, &hosts[0].0.tls);
        }
    }
    match Hosts::new(hosts.into_iter().map(|(host, _)| host).collect()) {
        Ok(hosts) => Some(hosts),
        Err(HostsError::None) => None,
        Err(HostsError::DuplicateName(name)) => {
            let what = format!("two hosts of the same address have the name \"{name}\"");
            top.errors.add(top.place(), what, "remove it from one of them");
            None
        }
    }
}

fn check_logs(top: &Section, log: &HostLogs, hosts: usize) {
    if log.by_host.is_some() && hosts > MAX_HOST_LOGS {
        let what = format!("{hosts} hosts would each have an access log");
        let what_to_do = format!(
            "{MAX_HOST_LOGS} are possible; remove $host from \"access\", and log the host in each line"
        );
        top.errors.add(top.place(), what, what_to_do);
    }
}

fn check_top(top: &Section, hosts: &[Section]) {
    let serves = serves(top);
    if hosts.is_empty() {
        // A host that could not be read has its own message.
        if SERVES.iter().all(|name| top.lacks(name)) && !top.has("host") {
            let what_to_do = "add root = \"/srv/www\" before the first section";
            top.errors.add(top.place(), "nothing to serve", what_to_do);
        }
        return;
    }
    if !serves && top.has("names") {
        let what_to_do = "add a root, or move the names into a [[host]]";
        top.errors.add(top.place_of("names"), "the top level has names but nothing to serve", what_to_do);
    }
    reject_stray_routes(top);
}

/// The section of the default host, if one says so.
fn default_section(sections: &[Section]) -> Option<usize> {
    let mut default = None;
    for (at, section) in
        sections.iter().enumerate().filter(|(_, section)| section.flag("default") == Some(true))
    {
        if default.replace(at).is_some() {
            let what = "another host is the default one already";
            section.errors.add(section.place_of("default"), what, "keep one \"default = true\"");
        }
    }
    default
}

/// Checks the names of a host with a certificate by ACME. A host without names gets none, which is an error unless it
/// inherits the key.
fn check_acme(host: &mut Host, section: &Section, certificates: &Certificates) {
    if !host.tls.acme {
        return;
    }
    if !host.names.is_empty() {
        return check_names(section, &host.names, certificates);
    }
    if section.has("names") {
        // They are none, which is a mistake of its own.
        return;
    }
    host.tls.acme = false;
    let is_inherited = !section.has("acme") || section.has("host");
    if !is_inherited {
        let what = "a certificate needs names";
        section.errors.add(section.place_of("acme"), what, "add names = [\"example.org\"]");
    }
}

/// Hosts of different addresses may have the same names, and then one certificate by ACME. Its file is called like the
/// first one: reports hosts that share this name alone.
fn check_acme_files(hosts: &[(Host, &Section)]) {
    let mut known = BTreeMap::new();
    for (host, section) in hosts.iter().filter(|(host, _)| host.tls.acme) {
        let names: BTreeSet<String> = host.names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let Some(first) = host.names.first() else { continue };
        if *known.entry(first.to_ascii_lowercase()).or_insert_with(|| names.clone()) != names {
            let what = format!(
                "another host with the first name \"{first}\" has a certificate by ACME with other names"
            );
            let what_to_do = "begin with another name, or give both hosts the same names";
            section.errors.add(section.place_of("names"), what, what_to_do);
        }
    }
}

/// `section`: of another host than the default one.
fn reject_unreachable(section: &Section) {
    if section.lacks("names") && section.lacks("addresses") {
        let what = "this host has no names, so that no request can reach it";
        let what_to_do = "give it names, or make it the default with default = true in its [[host]]";
        section.errors.add(section.place_of("root"), what, what_to_do);
    }
}

fn serves(section: &Section) -> bool {
    SERVES.iter().any(|name| section.has(name))
}

/// Reports `[[route]]` where `[[host.route]]` is meant: it belongs to the top level, and would make a host of it.
fn reject_stray_routes(top: &Section) {
    if SERVES.iter().any(|name| *name != "route" && top.has(name)) {
        return;
    }
    let Some(Entry { place, node, .. }) = top.table.get("route") else { return };
    let Value::Array(routes) = &node.value else { return };
    let mut paths = routes.iter().filter_map(table).filter_map(|route| text(&route.get("path")?.node));
    if !paths.any(|path| path == "/") {
        let what = "these routes belong to the top level, which has no root";
        let what_to_do = "write [[host.route]] behind their host, or add a root or a route for \"/\"";
        top.errors.add(place, what, what_to_do);
    }
}

/// `inherited` has the settings of the host.
fn host<'c>(
    section: &Section<'c>,
    inherited: &Inherited<'_>,
    log: &HostLogs,
    names: &mut BTreeMap<String, &'c Place>,
) -> Host {
    let root = section.path("root");
    let folder = folders::host_folder(section, root.as_deref());
    let action = match (&folder, root) {
        (Some(_), _) => Action::NamedFiles(NamedRoot::OfHost),
        (None, Some(root)) => Action::Files { root, strip: 0 },
        (None, None) => inherited.route.action.clone(),
    };
    let users = inherited.users.clone();
    let route = Route { action, ..inherited.route.clone() };
    let (environment, tls) = (inherited.environment.clone(), inherited.tls.clone());
    let texts = inherited.texts.clone();
    let inherited = Inherited { route, environment, tls, texts, users: users.clone(), ..*inherited };
    let upstreams = inherited.definitions.upstreams;
    // The top level has no such key.
    let sink = section.sink("access_log").flatten();
    let addresses = addresses(section);
    let names = host_names(section, &addresses, names);
    let own = sink.map(|sink| AccessLog { sink, format: log.format.clone() });
    let access_log = own.or_else(|| Some(log.by_host.as_ref()?.of_host(&names))).map(Box::new);
    Host {
        names,
        addresses,
        canonical: section.choice("canonical").map(|word| match word {
            "www" => Canonical::Www,
            "bare" => Canonical::Bare,
            _ => Canonical::First,
        }),
        tls: inherited.tls.clone(),
        routes: routes(section, inherited),
        folder: folder.map(Arc::new),
        users,
        access_log,
    }
    .with_mappings(upstreams)
}

/// The addresses of the server that the host is for.
fn addresses(section: &Section) -> Vec<HostAddress> {
    let read = |given: &Given<&str>| {
        let address = HostAddress::parse(given.value);
        if address.is_none() {
            let what = format!("\"{}\" is not an address of a host", given.value.escape_debug());
            section.errors.add(
                given.place,
                what,
                "write \"192.0.2.1\", \"192.0.2.1:8080\" or \"2001:db8::1\"",
            );
        }
        address
    };
    section.texts("addresses").unwrap_or_default().iter().filter_map(read).collect()
}

fn host_names<'c>(
    section: &Section<'c>,
    addresses: &[HostAddress],
    seen: &mut BTreeMap<String, &'c Place>,
) -> Vec<String> {
    let mut names = Vec::new();
    let Some(texts) = section.texts("names") else { return names };
    if texts.is_empty() {
        let what = "\"names\" is empty";
        section.errors.add(section.place_of("names"), what, "add a name, or remove the key");
    }
    for given in texts {
        let text = given.value.escape_debug();
        section.errors.mark("names", given.value, given.place);
        if let Err(what_to_do) = value::check_host_name(given.value) {
            section.errors.add(given.place, format!("\"{text}\" is not a host name"), what_to_do);
            continue;
        }
        // Hosts of different addresses may share a name.
        let key = format!("{} {addresses:?}", given.value.to_ascii_lowercase());
        match seen.insert(key, given.place) {
            Some(other) => {
                let what = format!("the name \"{text}\" is given twice: {other} has it too");
                section.errors.add(given.place, what, "remove one of them");
            }
            None => names.push(given.value.to_owned()),
        }
    }
    names
}
