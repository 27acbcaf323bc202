//! Reads the addresses to listen on, and the proxies that are trusted there.

use super::error::Place;
use super::section::{Given, Section};
use super::toml::{Entry, Value};
use crate::address::{Address, suggestion};
use crate::listener::Listener;
use crate::network::Network;
use crate::proxies::{MAX_PROXIES, Proxies};

/// Addresses that a site listens on.
const MAX_LISTENERS: usize = 64;

pub fn listeners(top: &Section) -> Vec<Listener> {
    if let Some(Entry { place, node, .. }) = top.table.get("listen")
        && let Value::Integer(port) = &node.value
    {
        let what = format!("\"listen\" cannot be the number {port}");
        top.errors.add(place, what, suggestion(&port.to_string()));
        return Vec::new();
    }
    let Some(addresses) = top.texts("listen") else {
        if top.lacks("listen") {
            let what_to_do = "add listen = [\"127.0.0.1:8080\"] before the first section";
            top.errors.add(top.place(), "no address to listen on", what_to_do);
        }
        return Vec::new();
    };
    let place = top.place_of("listen");
    if addresses.len() > MAX_LISTENERS {
        top.errors.add(place, "\"listen\" has too many addresses", "expected at most 64");
    }
    let mut listeners: Vec<Listener> = Vec::new();
    for address in addresses.iter().take(MAX_LISTENERS) {
        let text = address.value.escape_debug();
        match Listener::parse(address.value, address.place.folder()) {
            Ok(listener) if listeners.iter().any(|other| other.address == listener.address) => {
                top.errors.add(address.place, format!("\"{text}\" is given twice"), "remove one of them");
            }
            Ok(listener) => {
                reject_overlap(top, &listener.address, &listeners, address.place);
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

/// Reports two addresses that the kernel does not let one program listen on.
fn reject_overlap(top: &Section, listener: &Address, others: &[Listener], place: &Place) {
    let mut others = others.iter().map(|other| &other.address);
    let Some(other) = others.find(|other| other.overlaps(listener)) else {
        return;
    };
    let (wide, narrow) = if other.covers(listener) { (other, listener) } else { (listener, other) };
    let what = format!("\"{listener}\" and \"{other}\" overlap: {wide} includes every address of its family");
    top.errors.add(place, what, format!("remove \"{narrow}\", or name each address in place of \"{wide}\""));
}

pub fn trusted_proxies(top: &Section) -> Proxies {
    let texts = top.texts("trusted_proxies").unwrap_or_default();
    if texts.len() > MAX_PROXIES {
        let what = "\"trusted_proxies\" has too many entries";
        let what_to_do = format!("expected at most {MAX_PROXIES}; merge networks");
        top.errors.add(top.place_of("trusted_proxies"), what, what_to_do);
    }
    let read = |text: &Given<&str>| match Network::parse(text.value) {
        Ok(proxy) => Some(proxy),
        Err(error) => {
            let what = format!("\"{}\" is not a network", text.value.escape_debug());
            top.errors.add(text.place, what, error.to_string());
            None
        }
    };
    Proxies::new(texts.iter().take(MAX_PROXIES).filter_map(read))
}

/// Reports a listener for proxies that nothing may connect to.
pub fn check_proxies(top: &Section, listeners: &[Listener], proxies: &Proxies) {
    let Some(listener) = listeners.iter().find(|listener| listener.protocols.proxy) else { return };
    if proxies.is_empty() {
        let what = format!("\"{listener}\" is for proxies, and no proxy is trusted");
        let what_to_do = "add trusted_proxies = [\"10.0.0.1\"], or remove the word proxy";
        top.errors.add(top.place_of("listen"), what, what_to_do);
    }
}
