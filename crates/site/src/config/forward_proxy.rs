//! Reads the section `[forward_proxy]`.

use std::net::IpAddr;
use std::sync::Arc;

use cache::settings::Settings;

use super::cache::caching;
use super::keys::Scope;
use super::section::{Given, Section};
use crate::forward_proxy::{CONNECT_TIMEOUT, ForwardProxy, HttpForwarding, MAX_ENTRIES, PORTS};
use crate::network::{Network, Networks};
use crate::wildcard::Wildcard;

enum Destination {
    Name(Wildcard),
    Network(Network),
}

/// `None`: there is no forward proxy.
pub fn forward_proxy(top: &Section) -> Option<ForwardProxy> {
    let section = top.section("forward_proxy", Scope::ForwardProxy)?;
    let clients = entries(&section, "clients", "clients = [\"10.0.0.0/8\"]", |text| {
        Network::parse(text).map_err(|error| error.to_string())
    });
    let example = "destinations = [\"*.example.org\"], or [\"*\"] for all of the internet";
    let (mut names, mut networks) = (Vec::new(), Vec::new());
    for destination in entries(&section, "destinations", example, destination) {
        match destination {
            Destination::Name(name) => names.push(name),
            Destination::Network(network) => networks.push(network),
        }
    }
    let is_everyone = |network: &Network| matches!(network, Network::Ip(_, 0));
    if clients.iter().any(is_everyone) && names.iter().any(|name| name.matches(b"any.example.org")) {
        let what = "this is an open proxy: every client can reach every server by it";
        section.errors.warn(section.place_of("clients"), what, "name the networks of your clients");
    }
    Some(ForwardProxy {
        clients: Networks::new(clients),
        names,
        networks: Networks::new(networks),
        ports: ports(&section),
        http: http(top, &section),
        connect_timeout: section.duration("connect_timeout").unwrap_or(CONNECT_TIMEOUT),
    })
}

/// Keys of requests that are forwarded.
const OF_HTTP: [&str; 5] = ["first_byte", "idle", "keep", "idle_connections", "store_responses"];

/// `None`: only tunnels are opened.
fn http(top: &Section, section: &Section) -> Option<HttpForwarding> {
    let is_on = section.flag("http");
    // A value that is none has its own message.
    if is_on == Some(false) || !section.has("http") {
        let what_to_do = "add http = true, or remove it";
        section.reject_keys(&OF_HTTP, "is for requests by plain HTTP", what_to_do);
    }
    if is_on != Some(true) {
        return None;
    }
    let defaults = HttpForwarding::default();
    let stores = section.flag("store_responses") == Some(true);
    Some(HttpForwarding {
        first_byte: section.duration("first_byte").unwrap_or(defaults.first_byte),
        idle: section.duration("idle").unwrap_or(defaults.idle),
        keep: section.duration("keep").unwrap_or(defaults.keep),
        idle_connections: section.count("idle_connections").unwrap_or(defaults.idle_connections),
        cache: stores.then(|| Arc::new(of_other_servers(&caching(top, &Arc::default())))),
    })
}

/// The settings of the site, without those that are about its own applications.
fn of_other_servers(own: &Settings) -> Settings {
    let Settings { heuristic, longest_heuristic, reload, largest, waiting, wait, report, .. } = *own;
    Settings {
        heuristic,
        longest_heuristic,
        reload,
        largest,
        waiting,
        wait,
        report,
        // They are for caches of the servers' own side.
        targets: Vec::new(),
        ..Settings::default()
    }
}

fn ports(section: &Section) -> Vec<u16> {
    let Some(given) = section.counts("ports") else { return PORTS.to_vec() };
    if given.value.is_empty() || given.value.len() > MAX_ENTRIES {
        let what = format!("\"ports\" has {} entries", given.value.len());
        section.errors.add(given.place, what, format!("name 1 to {MAX_ENTRIES}, or remove the key"));
    }
    given.value
}

fn entries<T>(
    section: &Section,
    key: &str,
    example: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Vec<T> {
    let Some(texts) = section.texts(key) else {
        if !section.has(key) {
            section.errors.add(
                section.place(),
                format!("a forward proxy has no \"{key}\""),
                format!("add {example}"),
            );
        }
        return Vec::new();
    };
    if texts.is_empty() || texts.len() > MAX_ENTRIES {
        let what = format!("\"{key}\" has {} entries", texts.len());
        section.errors.add(section.place_of(key), what, format!("name 1 to {MAX_ENTRIES}"));
    }
    let read = |text: &Given<&str>| {
        let what_to_do = match parse(text.value) {
            Ok(entry) => return Some(entry),
            Err(what_to_do) => what_to_do,
        };
        let what = format!("\"{key}\" cannot have \"{}\"", text.value.escape_debug());
        section.errors.add(text.place, what, what_to_do);
        None
    };
    texts.iter().take(MAX_ENTRIES).filter_map(read).collect()
}

fn destination(text: &str) -> Result<Destination, String> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"*?.-_".contains(&byte);
    match Network::parse(text) {
        Ok(Network::Unix) => Err("a destination is a name, or a network of IP addresses".to_owned()),
        Ok(network) => Ok(Destination::Network(network)),
        Err(_) if !text.is_empty() && text.bytes().all(is_of_name) => {
            Wildcard::new(text).map(Destination::Name).ok_or_else(|| "it is too long".to_owned())
        }
        Err(error) if text.split_once('/').is_some_and(|(ip, _)| ip.parse::<IpAddr>().is_ok()) => {
            Err(error.to_string())
        }
        Err(_) => {
            Err("write a name such as \"*.example.org\", or a network; see \"ports\" for ports".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_no_destination_says_what_to_write() {
        let check = |text, part: &str| {
            let why = destination(text).err().unwrap_or_default();
            assert!(why.contains(part), "{text}: {why}");
        };
        for text in ["*.example.org", "www.example.org", "*", "10.0.0.0/8", "2001:db8::7"] {
            assert!(destination(text).is_ok(), "{text}");
        }
        for text in ["", "http://www.example.org", "www.example.org/24", "www.example.org:443", "a b"] {
            check(text, "write a name such as \"*.example.org\", or a network");
        }
        check("10.0.0.0/33", "at most 32 for IPv4");
        check("unix", "a network of IP addresses");
    }
}
