//! Reads the upstreams of a configuration: its sections `[[application]]`.

use std::path::Path;

use super::account::account;
use super::error::Place;
use super::keys::Scope;
use super::section::{Given, Section};
use super::{health, proxies, scripts};
use crate::address::Address;
use crate::endpoint::{EndpointAddress, Family, Resolution, is_host_name};
use crate::health::Health;
use crate::upstream::{
    Endpoints, External, Managed, Protocol, SocketPassing, Upstream, UpstreamId, UpstreamTls, Verification,
};

/// Upstreams of a site.
const MAX: usize = 64;
/// DNS servers.
const MAX_SERVERS: usize = 8;
/// The port of DNS.
const DNS: u16 = 53;
/// Keys of an application by HTTPS.
const TLS: [&str; 5] = ["tls_ca", "tls_name", "tls_certificate", "tls_certificate_key", "tls_verify"];
/// Keys of an application that has a command, besides that.
pub(super) const MANAGED: [&str; 15] = [
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
    "new_privileges",
    "folder",
    "env",
];

/// All upstreams with a name. One with an error is among them, so that routes that name it are not reported as well.
pub fn upstreams(top: &Section) -> Vec<Upstream> {
    let sections = top.sections("application", Scope::Application);
    if let Some(section) = sections.get(MAX) {
        let what = format!("there are more than {MAX} applications");
        section.errors.add(section.place(), what, "merge applications that routes can share");
    }
    let mut upstreams: Vec<Upstream> = Vec::new();
    for section in sections.iter().take(MAX) {
        let Some(upstream) = upstream(section) else { continue };
        if upstreams.iter().any(|other| other.name == upstream.name) {
            let what = format!("there are two applications \"{}\"", upstream.name.escape_debug());
            section.errors.add(section.place_of("name"), what, "give one of them another name");
        } else {
            upstreams.push(upstream);
        }
    }
    proxies::add_upstreams(top, &mut upstreams, MAX);
    upstreams
}

/// The upstream with this name.
pub fn find(section: &Section, name: &str, place: &Place, upstreams: &[Upstream]) -> Option<UpstreamId> {
    let found = upstreams.iter().position(|upstream| upstream.name == name);
    if found.is_none() {
        let what = format!("there is no application \"{}\"", name.escape_debug());
        section.errors.add(place, what, "add an [[application]] of this name");
    }
    found
}

fn upstream(section: &Section) -> Option<Upstream> {
    let name = name(section)?;
    let spoken = section.choice("protocol");
    // The value has its own message: what depends on it has no other one.
    let is_misspelled = spoken.is_none() && !section.lacks("protocol");
    let (protocol, default_port) = match spoken {
        Some("scgi") => (Protocol::Scgi, None),
        Some("http") => (Protocol::Http, Some(80)),
        Some("https") => (Protocol::Http, Some(443)),
        _ if is_misspelled => (Protocol::Http, Some(80)),
        _ => (Protocol::FastCgi, None),
    };
    let endpoints = match (section.has("address"), section.has("command")) {
        (true, false) => external(section, default_port),
        (false, true) => managed(section),
        (true, true) => {
            let what = "\"address\" and \"command\" exclude each other";
            section.errors.add(section.place_of("command"), what, "keep one of them");
            None
        }
        (false, false) => {
            let what = "this application has neither an address nor a command";
            let what_to_do = "add the address of a running one, or the command that starts it";
            section.errors.add(section.place(), what, what_to_do);
            None
        }
    };
    let addresses = section.texts("address").map_or(0, |addresses| addresses.len());
    let weights = weights(section, addresses);
    let endpoints =
        endpoints.unwrap_or(Endpoints::External(External { addresses: Vec::new(), connections: 1 }));
    if let Endpoints::External(External { addresses, .. }) = &endpoints {
        proxies::check_choice(section, ["hedge_after", "balance"], addresses);
    }
    let tls = if is_misspelled { None } else { tls(section, &endpoints) };
    if protocol != Protocol::Http {
        section.reject_keys(&["http2"], "is for HTTP", "remove it, or set protocol = \"http\"");
    }
    if protocol != Protocol::FastCgi && !is_misspelled {
        section.reject_keys(&["multiplex"], "is for FastCGI", "remove it");
    }
    if section.has(proxies::BALANCE) {
        section.errors.mark(proxies::BALANCE, &name, section.place_of(proxies::BALANCE));
    }
    let defaults = Upstream::new(name, protocol, endpoints);
    let time = |name, default| section.duration(name).unwrap_or(default);
    Some(Upstream {
        tls,
        http2: section.flag("http2").unwrap_or(false),
        balance: proxies::balance(section, proxies::BALANCE),
        weights,
        health: Health {
            slow_start: section.duration("slow_start").unwrap_or_default(),
            ..health::health(section, "health", protocol)
        },
        breaker: health::breaker(section, "breaker"),
        hedging: proxies::hedging(section, ["hedge_after", "hedge_budget", "balance"]),
        required: section.flag("required").unwrap_or(defaults.required),
        retries: section.count("retries").unwrap_or(defaults.retries),
        multiplex: section.count("multiplex").unwrap_or(defaults.multiplex),
        queue: section.count("queue").unwrap_or(defaults.queue),
        wait: time("wait", defaults.wait),
        connect: time("connect", defaults.connect),
        first_byte: time("first_byte", defaults.first_byte),
        idle: time("idle", defaults.idle),
        total: time("total", defaults.total),
        keep: time("keep", defaults.keep),
        ..defaults
    })
}

/// `None`: connections are not encrypted.
fn tls(section: &Section, endpoints: &Endpoints) -> Option<Box<UpstreamTls>> {
    if section.choice("protocol") != Some("https") {
        section.reject_keys(&TLS, "is for HTTPS", "remove it, or set protocol = \"https\"");
        return None;
    }
    let certificate = section.path("tls_certificate");
    if certificate.is_none() {
        let what_to_do = "add \"tls_certificate\", the file with the chain of certificates";
        section.reject_keys(&["tls_certificate_key"], "has no certificate beside it", what_to_do);
    }
    let key = section.path("tls_certificate_key");
    if let (Some(certificate), None) = (&certificate, &key) {
        section.errors.mark("tls_certificate_key", certificate, section.place_of("tls_certificate"));
    }
    let verification = match section.flag("tls_verify") {
        Some(false) => Verification::Off,
        Some(true) | None => Verification::Required,
    };
    if verification == Verification::Off {
        section.reject_keys(&["tls_ca"], "has no effect without verification", "remove it, or tls_verify");
    }
    let name = tls_name(section);
    let is_unnamed = match endpoints {
        Endpoints::External(External { addresses, .. }) => {
            addresses.iter().any(|address| address.certified_name().is_none())
        }
        Endpoints::Managed(_) => true,
    };
    if name.is_none() && is_unnamed {
        let what = "a Unix socket has no name that a certificate could have";
        section.errors.add(
            section.place_of("protocol"),
            what,
            "add \"tls_name\", the name in the certificate",
        );
    }
    Some(Box::new(UpstreamTls {
        authorities: section.path("tls_ca"),
        name,
        certificate: certificate.map(|certificate| (certificate.clone(), key.unwrap_or(certificate))),
        verification,
    }))
}

fn tls_name(section: &Section) -> Option<String> {
    let given = section.text("tls_name")?;
    if !is_host_name(given.value) && given.value.parse::<std::net::IpAddr>().is_err() {
        let what = format!("\"tls_name\" cannot be \"{}\"", given.value.escape_debug());
        section.errors.add(given.place, what, "write the name of a host, or an IP address, without a port");
    }
    Some(given.value.trim_end_matches('.').to_owned())
}

/// How many names of clients a worker remembers.
const CLIENT_NAMES: usize = 10_000;

/// The section `[resolver]`.
pub fn resolution(top: &Section) -> Resolution {
    let defaults = Resolution::default();
    let Some(section) = top.section("resolver", Scope::Resolver) else { return defaults };
    let servers = section.texts("servers").unwrap_or_default();
    if servers.len() > MAX_SERVERS {
        let what = format!("\"servers\" has {} entries", servers.len());
        section.errors.add(section.place_of("servers"), what, format!("name at most {MAX_SERVERS}"));
    }
    let server = |given: &Given<&str>| {
        let found = EndpointAddress::parse(given.value, given.place.folder(), Some(DNS));
        match found.as_ref().map(EndpointAddress::socket) {
            Ok(Some(Address::Tcp(address))) => Some(*address),
            _ => {
                let what = format!("\"servers\" cannot have \"{}\"", given.value.escape_debug());
                section.errors.add(given.place, what, "write an IP address, with a port or without");
                None
            }
        }
    };
    let family = section.choice("family");
    let family = Family::ALL.iter().find(|(name, _)| Some(*name) == family);
    let min_ttl = section.duration("min_ttl").unwrap_or(defaults.min_ttl);
    let max_ttl = section.duration("max_ttl").unwrap_or(defaults.max_ttl.max(min_ttl));
    if max_ttl < min_ttl {
        section.errors.add(
            section.place_of("max_ttl"),
            "\"max_ttl\" is shorter than \"min_ttl\"",
            "raise it",
        );
    }
    let entries = section.count("client_name_entries");
    let has_client_names = section.flag("client_names") == Some(true);
    if entries.is_some() && !has_client_names {
        let what = "\"client_name_entries\" has no effect without \"client_names\"";
        section.errors.add(
            section.place_of("client_name_entries"),
            what,
            "set client_names = true, or remove it",
        );
    }
    Resolution {
        servers: servers.iter().filter_map(server).collect(),
        family: family.map_or(defaults.family, |(_, family)| *family),
        min_ttl,
        max_ttl,
        timeout: section.duration("timeout").unwrap_or(defaults.timeout),
        client_names: has_client_names.then(|| entries.unwrap_or(CLIENT_NAMES)),
    }
}

/// The weight of each of so many addresses.
fn weights(section: &Section, addresses: usize) -> Vec<u16> {
    section.counts("weights").map_or(Vec::new(), |given| {
        if given.value.len() != addresses {
            let what = format!("\"weights\" has {} entries, for {addresses} addresses", given.value.len());
            section.errors.add(given.place, what, "write one for each address, in their order");
        }
        given.value
    })
}

fn name(section: &Section) -> Option<String> {
    let Some(given) = section.text("name") else {
        if section.lacks("name") {
            section.errors.add(section.place(), "an application has no name", "add name = \"…\"");
        }
        return None;
    };
    if given.value.is_empty() || given.value.contains(['/', '\0', '\n']) {
        let what = format!("\"name\" cannot be \"{}\"", given.value.escape_debug());
        section.errors.add(given.place, what, "expected a name without a slash");
    }
    Some(given.value.to_owned())
}

fn external(section: &Section, default_port: Option<u16>) -> Option<Endpoints> {
    section.reject_keys(&MANAGED, "is for an application with a command", "remove it");
    let given = section.texts("address")?;
    if given.is_empty() {
        section.reject("address", section.place_of("address"), "is empty");
    }
    let mut addresses = Vec::new();
    for given in given {
        match EndpointAddress::parse(given.value, given.place.folder(), default_port) {
            Ok(address) if addresses.contains(&address) => {
                let what_to_do = "remove one of them; \"weights\" says which one gets more requests";
                section.errors.add(given.place, format!("{address} is given twice"), what_to_do);
            }
            Ok(address) => {
                section.mark_socket("address", &address, given.place);
                addresses.push(address);
            }
            Err(what_to_do) => {
                let what = format!("\"{}\" is not an address", given.value.escape_debug());
                let is_http = given.value.starts_with("http") && !section.has("protocol");
                let protocol = if is_http { ", and add protocol = \"http\"" } else { "" };
                section.errors.add(given.place, what, format!("{what_to_do}{protocol}"));
            }
        }
    }
    let connections = section.count("connections").unwrap_or(64);
    (!addresses.is_empty()).then_some(Endpoints::External(External { addresses, connections }))
}

fn managed(section: &Section) -> Option<Endpoints> {
    let what_to_do = "use \"concurrent\", or remove it";
    section.reject_keys(&["connections"], "is for an application with an address", what_to_do);
    let keys = ["balance", "weights", "hedge_after", "hedge_budget"];
    section.reject_keys(&keys, "is for an application with addresses", "remove it");
    let words = section.texts("command")?;
    let (program, place) =
        words.first().map_or(("", section.place_of("command")), |first| (first.value, first.place));
    if !Path::new(program).is_absolute() || words.iter().any(|word| word.value.contains('\0')) {
        let what = format!("\"command\" cannot begin with \"{}\"", program.escape_debug());
        section.errors.add(place, what, "write the whole path of the program, and its arguments behind it");
        return None;
    }
    section.errors.mark("command", program, place);
    let own_folder = || Path::new(program).parent().unwrap_or(Path::new("/")).to_owned();
    let folder = section.path("folder").unwrap_or_else(own_folder);
    let command = words.iter().map(|word| word.value.to_owned()).collect();
    let environment = scripts::environment(section, &scripts::default_environment());
    let defaults = Managed::new(command, environment, folder);
    let given_min = section.count("min_processes");
    let default_max = defaults.max_processes.max(given_min.unwrap_or(0));
    let max_processes = section.count("processes").unwrap_or(default_max);
    let min_processes = given_min.unwrap_or(defaults.min_processes);
    if min_processes > max_processes {
        let what = format!("\"min_processes\" is {min_processes}, and \"processes\" only {max_processes}");
        section.errors.add(section.place_of("min_processes"), what, "lower it, or allow more processes");
    }
    Some(Endpoints::Managed(Box::new(Managed {
        account: account(section),
        new_privileges: scripts::new_privileges(section),
        socket: match section.choice("socket") {
            Some("listen_fds") => SocketPassing::ListenFds,
            _ => SocketPassing::Stdin,
        },
        min_processes,
        max_processes,
        spare_processes: section.count("spare_processes").unwrap_or(defaults.spare_processes),
        concurrent: section.count("concurrent").unwrap_or(defaults.concurrent),
        unused: section.duration("unused").unwrap_or(defaults.unused),
        requests: section.count("requests").filter(|requests| *requests > 0),
        memory: section.size("memory"),
        start: section.duration("start").unwrap_or(defaults.start),
        grace: section.duration("grace").unwrap_or(defaults.grace),
        ..defaults
    })))
}

/// Reports paths of upstreams that are not beneath `chroot`.
pub fn check_chroot(top: &Section, folder: &Path, upstreams: &[Upstream], place: &Place) {
    for upstream in upstreams {
        let paths: Vec<&Path> = match &upstream.endpoints {
            Endpoints::External(external) => {
                external.addresses.iter().filter_map(|address| address.socket()?.unix_path()).collect()
            }
            Endpoints::Managed(managed) => {
                let program = managed.command.first().map(Path::new);
                program.into_iter().chain([managed.folder.as_path()]).collect()
            }
        };
        for path in paths.into_iter().filter(|path| !path.starts_with(folder)) {
            let (name, path) = (upstream.name.escape_debug(), path.display());
            let what = format!("{path}, of \"{name}\", is not beneath \"chroot\", {}", folder.display());
            top.errors.add(place, what, "move it there, or remove the chroot: applications run in it, too");
        }
    }
}
