//! Where a site listens, by which names, and with which certificates.

use crate::draft::{Draft, Host, Listen};
use crate::tree::{Directive, Place, unconverted};

use super::site::Site;

pub(super) fn address_of(text: &str, place: &Place, host: &mut Host, draft: &mut Draft) {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let (rest, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !path.is_empty() || text.contains(['{', '}', '[']) {
        return draft.error(
            place,
            format!("the address {text} cannot be converted"),
            "write a name and a port",
        );
    }
    let (name, port) = match rest.rsplit_once(':') {
        Some((name, port)) => match port.parse::<u16>() {
            Ok(port) => (name, Some(port)),
            Err(_) => return draft.error(place, format!("the address {text} has no port"), "write a number"),
        },
        None => (rest, None),
    };
    let is_local = name == "localhost" || name.ends_with(".localhost");
    if name.parse::<std::net::IpAddr>().is_err() && !name.is_empty() && name != "*" {
        host.names.push(name.to_lowercase());
    }
    let tls = match (scheme, port) {
        (Some("http"), _) | (None, Some(80)) => false,
        (Some("https"), _) | (None, Some(443)) => true,
        _ => !name.is_empty(),
    };
    if tls && is_local {
        draft.warn(
            place,
            format!("{text} has no certificate of a local authority"),
            "clients do not trust its own one",
        );
    }
    let ports = match (tls, port) {
        (false, port) => vec![(port.unwrap_or(80), false)],
        (true, Some(port)) => vec![(port, true)],
        (true, None) => vec![(443, true), (80, false)],
    };
    for (port, tls) in ports {
        for any in ["0.0.0.0", "[::]"] {
            let listen = Listen { address: format!("{any}:{port}"), tls, proxy: false };
            if !host.listens.contains(&listen) {
                host.listens.push(listen);
            }
        }
    }
}

/// All that is not the usual port without TLS has it.
fn secure(host: &mut Host) {
    for listen in host.listens.iter_mut().filter(|listen| !listen.address.ends_with(":80")) {
        listen.tls = true;
    }
}

impl Site<'_> {
    pub(super) fn tls(&mut self, child: &Directive, host: &mut Host) {
        let place = &child.place;
        match child.arguments.as_slice() {
            [one] if one == "internal" => {
                self.draft.warn(
                    place,
                    "there is no local authority",
                    "the server makes a certificate that clients do not trust",
                );
                secure(host);
            }
            [email] if email.contains('@') => self.draft.certificates.set(place, "email", email.as_str()),
            [certificate, key] => {
                host.scope.remove("acme");
                for (name, file) in [("certificate", certificate), ("certificate_key", key)] {
                    host.scope.set(place, name, self.folder.join(file).to_string_lossy().into_owned());
                }
                secure(host);
            }
            [] => {}
            _ => self.draft.error(place, unconverted(child), "see certificate"),
        }
        for inner in child.children() {
            let what_to_do = match inner.name.as_str() {
                "dns" => "write a program that sets the record, and name it in dns_command of [certificates]",
                _ => "see [tls] and [certificates]",
            };
            self.draft.error(&inner.place, unconverted(inner), what_to_do);
        }
    }

    pub(super) fn bind(&mut self, child: &Directive, host: &mut Host) {
        let mut listens: Vec<Listen> = Vec::new();
        for listen in &host.listens {
            let Some((_, port)) = listen.address.rsplit_once(':') else { continue };
            for address in &child.arguments {
                let Ok(ip) = address.parse::<std::net::IpAddr>() else {
                    return self.draft.error(&child.place, unconverted(child), "write IP addresses");
                };
                let address = std::net::SocketAddr::new(ip, port.parse().unwrap_or(80)).to_string();
                if !listens.iter().any(|other| other.address == address) {
                    listens.push(Listen { address, ..listen.clone() });
                }
            }
        }
        host.listens = listens;
    }
}
