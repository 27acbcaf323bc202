//! The tree of a configuration becomes a complete site.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::error::{Errors, Place};
use super::hosts::hosts;
use super::keys::Scope;
use super::scripts::scripts;
use super::section::{Given, Section};
use super::settings::account_name;
use super::toml::Table;
use super::upstreams::{check_chroot, upstreams};
use crate::address::Address;
use crate::host::Hosts;
use crate::model::{
    AccessLog, CacheLimits, Host, Interpreter, Level, Limits, Log, LogFormat, SERVER_HEADER, Sandbox,
    Scripts, Site, Timeouts,
};
use crate::proxies::{MAX_PROXIES, Proxies, Proxy};
use crate::upstream::Upstream;

/// Addresses to listen on.
const MAX_LISTENERS: usize = 64;

/// `None`, or errors: the tree makes no site.
pub fn site(tree: &Table, errors: &Errors) -> Option<Site> {
    let top = Section::open(Scope::Top, tree, errors);
    let listeners = listeners(&top);
    let limits = limits(&top);
    let (log, format) = log(&top);
    let scripts = scripts(&top);
    let upstreams = upstreams(&top);
    let hosts = hosts(&top, limits.body, &scripts, format, &upstreams);
    Some(Site {
        listeners,
        trusted_proxies: trusted_proxies(&top),
        workers: top.count("workers").and_then(|count| NonZeroUsize::new(to_usize(count))),
        user: account_name(&top, "user"),
        group: account_name(&top, "group"),
        pid_file: top.path("pid_file"),
        chroot: chroot(&top, hosts.as_ref(), &scripts, &upstreams),
        sandbox: match top.choice("sandbox") {
            Some("off") => Sandbox::Off,
            Some("required") => Sandbox::Required,
            _ => Sandbox::On,
        },
        server_header: server_header(&top),
        hosts: hosts?,
        upstreams,
        limits,
        timeouts: timeouts(&top),
        cache: cache(&top),
        scripts,
        log,
    })
}

/// `None`: concealed.
fn server_header(top: &Section) -> Option<String> {
    let Some(given) = top.text_or_false("server_header") else { return Some(SERVER_HEADER.to_owned()) };
    let name = given.value?;
    if name.trim() != name || name.is_empty() || !name.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        let what = format!("\"server_header\" cannot be \"{}\"", name.escape_debug());
        top.errors.add(given.place, what, "expected printable ASCII, or false to leave the field out");
    }
    Some(name.to_owned())
}

fn listeners(top: &Section) -> Vec<Address> {
    let Some(addresses) = top.texts("listen") else {
        if !top.has("listen") {
            let what_to_do = "add listen = [\"127.0.0.1:8080\"] before the first section";
            top.errors.add(top.place(), "no address to listen on", what_to_do);
        }
        return Vec::new();
    };
    let place = top.place_of("listen");
    if addresses.len() > MAX_LISTENERS {
        top.errors.add(place, "\"listen\" has too many addresses", "expected at most 64");
    }
    let mut listeners = Vec::new();
    for address in addresses.iter().take(MAX_LISTENERS) {
        let text = address.value.escape_debug();
        match Address::parse(address.value, address.place.folder()) {
            Ok(listener) if listeners.contains(&listener) => {
                top.errors.add(address.place, format!("\"{text}\" is given twice"), "remove one of them");
            }
            Ok(listener) => {
                refuse_overlap(top, &listener, &listeners, address.place);
                top.errors.mark("listen", listener.to_string(), address.place);
                listeners.push(listener);
            }
            Err(what_to_do) => {
                top.errors.add(address.place, format!("\"{text}\" is not an address"), what_to_do);
            }
        }
    }
    listeners
}

/// The kernel does not let one program listen on an address and on all addresses.
fn refuse_overlap(top: &Section, listener: &Address, others: &[Address], place: &Place) {
    let Some(other) = others.iter().find(|other| other.overlaps(listener)) else {
        return;
    };
    let (wide, narrow) = if other.covers(listener) { (other, listener) } else { (listener, other) };
    let what = format!("\"{listener}\" and \"{other}\" overlap: {wide} stands for every address of its kind");
    top.errors.add(place, what, format!("remove \"{narrow}\", or name each address in place of \"{wide}\""));
}

fn trusted_proxies(top: &Section) -> Proxies {
    let texts = top.texts("trusted_proxies").unwrap_or_default();
    if texts.len() > MAX_PROXIES {
        let what = "\"trusted_proxies\" has too many entries";
        let what_to_do = format!("expected at most {MAX_PROXIES}; put networks together");
        top.errors.add(top.place_of("trusted_proxies"), what, what_to_do);
    }
    let read = |text: &Given<&str>| match Proxy::parse(text.value) {
        Ok(proxy) => Some(proxy),
        Err(error) => {
            let what = format!("\"{}\" is not a network", text.value.escape_debug());
            top.errors.add(text.place, what, error.to_string());
            None
        }
    };
    Proxies::new(texts.iter().take(MAX_PROXIES).filter_map(read).collect())
}

/// Every root must be in it, or nobody could reach it.
fn chroot(
    top: &Section,
    hosts: Option<&Hosts>,
    scripts: &Scripts,
    upstreams: &[Upstream],
) -> Option<PathBuf> {
    let folder = top.path("chroot")?;
    let routes = || hosts.into_iter().flat_map(|hosts| hosts.iter()).flat_map(|host| host.routes.iter());
    let interpreters = routes().filter_map(|route| match &route.script.as_ref()?.interpreter {
        Some(Interpreter::Program(path)) => Some((path, "interpreter")),
        Some(Interpreter::Upstream(_)) | None => None,
    });
    check_chroot(top, &folder, upstreams, top.place_of("chroot"));
    let private = scripts.sendfile.iter().map(|folder| (folder, "sendfile"));
    // By default it is the one inside.
    let spool = (scripts.spool != Scripts::default().spool).then_some((&scripts.spool, "spool"));
    for (path, name) in interpreters.chain(private).chain(spool) {
        if !path.starts_with(&folder) {
            let what =
                format!("\"{name}\", {}, is not beneath \"chroot\", {}", path.display(), folder.display());
            let what_to_do = "put it there, or do without a chroot: scripts run in it, too";
            top.errors.add(top.place_of("chroot"), what, what_to_do);
        }
    }
    for root in hosts.into_iter().flat_map(|hosts| hosts.iter()).flat_map(Host::roots) {
        if !root.starts_with(&folder) {
            let what = format!("the root {} is not beneath \"chroot\", {}", root.display(), folder.display());
            top.errors.add(top.place_of("chroot"), what, "move it, or name a folder that has all roots");
        }
    }
    Some(folder)
}

fn limits(top: &Section) -> Limits {
    let mut limits = Limits::default();
    let Some(section) = top.section("limits", Scope::Limits) else { return limits };
    let set = |name, into: &mut usize| {
        if let Some(count) = section.count(name) {
            *into = to_usize(count);
        }
    };
    let set_size = |name, into: &mut usize| {
        if let Some(size) = section.size(name) {
            *into = to_usize(size);
        }
    };
    set("connections", &mut limits.connections);
    set("fields", &mut limits.head.fields);
    set("disk_threads", &mut limits.disk_threads);
    set("disk_queue", &mut limits.disk_queue);
    set("body_streams", &mut limits.body_streams);
    set("connections_per_client", &mut limits.connections_per_client);
    set("rejections", &mut limits.rejections);
    set("generations", &mut limits.generations);
    set("listing_entries", &mut limits.listing_entries);
    set_size("head", &mut limits.head.head);
    set_size("target", &mut limits.head.target);
    let requests = section.count("requests").and_then(|count| u32::try_from(count).ok());
    limits.requests = requests.unwrap_or(limits.requests);
    limits.unsent = section.size("unsent").unwrap_or(limits.unsent);
    limits.body = section.size("body").unwrap_or(limits.body);
    limits.min_rate = section.size("min_rate").unwrap_or(limits.min_rate);
    limits
}

fn timeouts(top: &Section) -> Timeouts {
    let mut timeouts = Timeouts::default();
    let Some(section) = top.section("timeouts", Scope::Timeouts) else { return timeouts };
    let set = |name, into: &mut Duration| *into = section.duration(name).unwrap_or(*into);
    set("head", &mut timeouts.head);
    set("body", &mut timeouts.body);
    set("write", &mut timeouts.write);
    set("idle", &mut timeouts.idle);
    set("linger", &mut timeouts.linger);
    set("disk", &mut timeouts.disk);
    set("shutdown", &mut timeouts.shutdown);
    set("reload", &mut timeouts.reload);
    set("accept", &mut timeouts.accept);
    set("defer_accept", &mut timeouts.defer_accept);
    set("delay", &mut timeouts.delay);
    timeouts
}

fn cache(top: &Section) -> CacheLimits {
    let defaults = CacheLimits::default();
    let Some(section) = top.section("cache", Scope::Cache) else { return defaults };
    CacheLimits {
        entries: section.count("entries").map_or(defaults.entries, to_usize),
        descriptors: section.count("descriptors").map_or(defaults.descriptors, to_usize),
        bytes: section.size("bytes").map_or(defaults.bytes, to_usize),
        file: section.size("file").unwrap_or(defaults.file),
        check: section.duration("check").unwrap_or(defaults.check),
        missing: section.duration("missing").unwrap_or(defaults.missing),
    }
}

/// Also the format that the logs of hosts have.
fn log(top: &Section) -> (Log, LogFormat) {
    let defaults = Log::default();
    let Some(section) = top.section("log", Scope::Log) else { return (defaults, LogFormat::Combined) };
    let level = section.choice("level").map(|word| match word {
        "error" => Level::Error,
        "info" => Level::Info,
        "debug" => Level::Debug,
        _ => Level::Warn,
    });
    let format = match section.choice("format") {
        Some("common") => LogFormat::Common,
        Some("json") => LogFormat::Json,
        _ => LogFormat::Combined,
    };
    let access = section.sink("access").map(|sink| sink.map(|sink| AccessLog { sink, format }));
    let log = Log {
        access: access.unwrap_or(defaults.access),
        error: section.sink("error").flatten().unwrap_or(defaults.error),
        level: level.unwrap_or(defaults.level),
        queue: section.count("queue").map_or(defaults.queue, to_usize),
    };
    (log, format)
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
