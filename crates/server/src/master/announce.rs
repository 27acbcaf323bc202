//! The lines on standard error when the program begins to serve: what it serves, at which addresses, and which clients
//! can reach them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use site::address::Address;
use site::listener::{Listener, Protocols};
use site::model::{Action, Site};

use crate::acme::local;
use crate::resolver::own_addresses;
use crate::terminal;

pub fn announce(site: &Site, listeners: &[Listener]) {
    let root = site.hosts.at(0).routes.get(site::route::RouteId::DEFAULT);
    let what = match &root.action {
        Action::Files { root, .. } => {
            std::path::absolute(root).unwrap_or_else(|_| root.clone()).display().to_string()
        }
        _ => "a configuration".to_owned(),
    };
    let user = site.user.as_ref().map_or(String::new(), |user| format!(", as user {user}"));
    terminal::err(format_args!("taipan {} serves {what}{user}", env!("CARGO_PKG_VERSION")));
    // Certificates are for names.
    let name = site.hosts.at(0).name();
    let mut named = None;
    for &Listener { ref address, protocols, .. } in listeners {
        match address {
            Address::Unix(path) => {
                let by = through(protocols);
                terminal::err(format_args!("  unix:{}  from this machine{by}", path.display()))
            }
            &Address::Tcp(address) => match url_by_name(address, protocols, name) {
                // The same by IPv4 and by IPv6.
                Some(url) if named.as_ref() == Some(&url) => {}
                Some(url) => {
                    let from = reach(address.ip());
                    terminal::err(format_args!("  {url}  {from}{}", through(protocols)));
                    named = Some(url);
                }
                None => announce_tcp(address, protocols),
            },
        }
    }
}

/// The end of a line, for an address that not every client may use.
fn through(protocols: Protocols) -> &'static str {
    if protocols.proxy { ", through a trusted proxy" } else { "" }
}

/// The URL of a site with a certificate. `None`: clients use the address.
fn url_by_name(address: SocketAddr, protocols: Protocols, name: Option<&str>) -> Option<String> {
    let name = name.filter(|name| protocols.tls && name.parse::<IpAddr>().is_err())?;
    let is_reached = match local::is_local(name) {
        // Names of this machine lead to no other of its loopback addresses (RFC 6761 §6.3).
        true => [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address.ip()),
        false => address.ip().is_unspecified(),
    };
    is_reached.then(|| match address.port() {
        443 => format!("https://{name}/"),
        port => format!("https://{name}:{port}/"),
    })
}

/// From where clients reach an address that was named.
fn reach(ip: IpAddr) -> &'static str {
    match ip {
        _ if ip.is_unspecified() => "from every network that reaches it",
        _ if ip.is_loopback() => "from this machine only",
        _ => "from the networks of that address",
    }
}

fn announce_tcp(address: SocketAddr, protocols: Protocols) {
    let (scheme, default_port) = if protocols.tls { ("https", 443) } else { ("http", 80) };
    let url = |ip: IpAddr| match (ip, address.port()) {
        (IpAddr::V4(v4), port) if port == default_port => format!("{scheme}://{v4}/"),
        (IpAddr::V6(v6), port) if port == default_port => format!("{scheme}://[{v6}]/"),
        (ip, port) => format!("{scheme}://{}/", SocketAddr::new(ip, port)),
    };
    let by = through(protocols);
    if !address.ip().is_unspecified() {
        terminal::err(format_args!("  {}  {}{by}", url(address.ip()), reach(address.ip())));
        return;
    }
    for ip in own_addresses().into_iter().filter(|ip| ip.is_ipv4() == address.is_ipv4()) {
        let from = if ip.is_loopback() { "from this machine" } else { reach(address.ip()) };
        terminal::err(format_args!("  {}  {from}{by}", url(ip)));
    }
}
