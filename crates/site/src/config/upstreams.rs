//! What a configuration says of applications: what answers, and which routes leave their answers to it.

use std::path::{Path, PathBuf};

use super::error::Place;
use super::keys::Scope;
use super::section::Section;
use super::{scripts, settings};
use crate::address::Address;
use crate::upstream::{Endpoints, External, Managed, Protocol, Socket, Upstream, UpstreamId};

/// Applications of a site.
const MAX: usize = 64;
/// Keys for what is run elsewhere, and for what is started here.
const ELSEWHERE: [&str; 1] = ["connections"];
const MANAGED: [&str; 14] = [
    "socket",
    "processes",
    "min_processes",
    "spare_processes",
    "concurrent",
    "unused",
    "requests",
    "memory",
    "start",
    "grace",
    "user",
    "group",
    "folder",
    "env",
];

/// All that have a name. One with an error is there too, so that what uses it is not reported as well.
pub fn upstreams(top: &Section) -> Vec<Upstream> {
    let sections = top.sections("application", Scope::Application);
    if let Some(section) = sections.get(MAX) {
        let what = format!("there are more than {MAX} applications");
        section.errors.add(section.place(), what, "put routes together that can have the same");
    }
    let mut upstreams: Vec<Upstream> = Vec::new();
    for section in sections.iter().take(MAX) {
        let Some(upstream) = upstream(section) else { continue };
        match upstreams.iter().any(|other| other.name == upstream.name) {
            true => {
                let what = format!("there are two applications \"{}\"", upstream.name.escape_debug());
                section.errors.add(section.place_of("name"), what, "give one of them another name");
            }
            false => upstreams.push(upstream),
        }
    }
    upstreams
}

/// The application of this name.
pub fn named(section: &Section, name: &str, place: &Place, upstreams: &[Upstream]) -> Option<UpstreamId> {
    let found = upstreams.iter().position(|upstream| upstream.name == name);
    if found.is_none() {
        let what = format!("there is no application \"{}\"", name.escape_debug());
        section.errors.add(place, what, "add an [[application]] of this name");
    }
    found
}

fn upstream(section: &Section) -> Option<Upstream> {
    let name = name(section)?;
    let nowhere = || Endpoints::External(External { addresses: Vec::new(), connections: 1 });
    let endpoints = match (section.has("address"), section.has("command")) {
        (true, false) => elsewhere(section),
        (false, true) => managed(section),
        (true, true) => {
            let what = "\"address\" and \"command\" exclude each other";
            section.errors.add(section.place_of("command"), what, "keep one of them");
            None
        }
        (false, false) => {
            let what_to_do = "add an address, if it is run elsewhere, or the command that starts it";
            section.errors.add(section.place(), "this application has nothing to answer with", what_to_do);
            None
        }
    };
    let protocol = match section.choice("protocol") {
        Some("scgi") => Protocol::Scgi,
        Some("http") => Protocol::Http,
        _ => Protocol::FastCgi,
    };
    if protocol != Protocol::FastCgi {
        refuse(section, &["multiplex"], "is for FastCGI", "remove it");
    }
    let defaults = Upstream::new(name, protocol, endpoints.unwrap_or_else(nowhere));
    let to_requests = |count| u16::try_from(count).unwrap_or(u16::MAX);
    Some(Upstream {
        multiplex: section.count("multiplex").map_or(defaults.multiplex, to_requests),
        queue: section.count("queue").map_or(defaults.queue, to_usize),
        wait: section.duration("wait").unwrap_or(defaults.wait),
        connect: section.duration("connect").unwrap_or(defaults.connect),
        first_byte: section.duration("first_byte").unwrap_or(defaults.first_byte),
        idle: section.duration("idle").unwrap_or(defaults.idle),
        total: section.duration("total").unwrap_or(defaults.total),
        keep: section.duration("keep").unwrap_or(defaults.keep),
        ..defaults
    })
}

fn name(section: &Section) -> Option<String> {
    let Some(given) = section.text("name") else {
        if !section.has("name") {
            section.errors.add(section.place(), "an application has no name", "add name = \"…\"");
        }
        return None;
    };
    if given.value.is_empty() || given.value.contains(['/', '\0', '\n']) {
        let what = format!("\"name\" cannot be \"{}\"", given.value.escape_debug());
        section.errors.add(given.place, what, "expected a word without a slash");
    }
    Some(given.value.to_owned())
}

fn elsewhere(section: &Section) -> Option<Endpoints> {
    refuse(section, &MANAGED, "is for an application with a command", "remove it");
    let mut addresses = Vec::new();
    for given in section.texts("address")? {
        match Address::parse(given.value, given.place.folder()) {
            Ok(address) => addresses.push(address),
            Err(what_to_do) => {
                let what = format!("\"{}\" is not an address", given.value.escape_debug());
                let speaks_http = given.value.starts_with("http") && !section.has("protocol");
                let protocol = if speaks_http { ", and add protocol = \"http\"" } else { "" };
                section.errors.add(given.place, what, format!("{what_to_do}{protocol}"));
            }
        }
    }
    if addresses.is_empty() {
        if section.texts("address").is_some_and(|texts| texts.is_empty()) {
            section.refuse("address", section.place_of("address"), "is empty");
        }
        return None;
    }
    let connections = section.count("connections").map_or(64, to_usize);
    Some(Endpoints::External(External { addresses, connections }))
}

fn managed(section: &Section) -> Option<Endpoints> {
    refuse(section, &ELSEWHERE, "is for an application with an address", "use \"concurrent\", or remove it");
    let command = section.texts("command")?;
    let program = command.first().map_or("", |first| first.value);
    let place = command.first().map_or_else(|| section.place_of("command"), |first| first.place);
    if !Path::new(program).is_absolute() || command.iter().any(|word| word.value.contains('\0')) {
        let what = format!("\"command\" cannot begin with \"{}\"", program.escape_debug());
        section.errors.add(place, what, "write the whole path of the program, and its arguments behind it");
        return None;
    }
    section.errors.mark("command", program, place);
    let folder = section.path("folder").unwrap_or_else(|| folder_of(program));
    let words = command.iter().map(|word| word.value.to_owned()).collect();
    let environment = scripts::environment(section, &scripts::first_environment());
    let defaults = Managed::new(words, environment, folder);
    let (least, most) = (defaults.min_processes, defaults.max_processes);
    let most = section.count("processes").map_or(most.max(minimum(section).unwrap_or(0)), to_usize);
    let least = minimum(section).unwrap_or(least);
    if least > most {
        let what = format!("\"min_processes\" is {least}, and \"processes\" only {most}");
        section.errors.add(section.place_of("min_processes"), what, "lower it, or allow more processes");
    }
    Some(Endpoints::Managed(Box::new(Managed {
        account: settings::account(section),
        socket: match section.choice("socket") {
            Some("listen_fds") => Socket::ListenFds,
            _ => Socket::Stdin,
        },
        min_processes: least,
        max_processes: most,
        spare_processes: section.count("spare_processes").map_or(defaults.spare_processes, to_usize),
        concurrent: section.count("concurrent").map_or(defaults.concurrent, to_usize),
        unused: section.duration("unused").unwrap_or(defaults.unused),
        requests: section.count("requests").filter(|requests| *requests > 0),
        memory: section.size("memory"),
        start: section.duration("start").unwrap_or(defaults.start),
        grace: section.duration("grace").unwrap_or(defaults.grace),
        ..defaults
    })))
}

fn minimum(section: &Section) -> Option<usize> {
    section.count("min_processes").map(to_usize)
}

fn folder_of(program: &str) -> PathBuf {
    Path::new(program).parent().unwrap_or(Path::new("/")).to_owned()
}

fn refuse(section: &Section, names: &[&str], what: &str, what_to_do: &str) {
    for name in names.iter().filter(|name| section.has(name)) {
        section.errors.add(section.place_of(name), format!("\"{name}\" {what}"), what_to_do);
    }
}

/// Reports what in `chroot` nobody could reach.
pub fn check_chroot(top: &Section, folder: &Path, upstreams: &[Upstream], place: &Place) {
    for upstream in upstreams {
        let paths: Vec<&Path> = match &upstream.endpoints {
            Endpoints::External(elsewhere) => elsewhere
                .addresses
                .iter()
                .filter_map(|address| match address {
                    Address::Unix(path) => Some(path.as_path()),
                    Address::Tcp(_) => None,
                })
                .collect(),
            Endpoints::Managed(managed) => {
                let program = managed.command.first().map(Path::new);
                program.into_iter().chain([managed.folder.as_path()]).collect()
            }
        };
        for path in paths.into_iter().filter(|path| !path.starts_with(folder)) {
            let (name, path) = (upstream.name.escape_debug(), path.display());
            let what = format!("{path}, of \"{name}\", is not beneath \"chroot\", {}", folder.display());
            top.errors.add(place, what, "put it there, or do without a chroot: applications run in it, too");
        }
    }
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
