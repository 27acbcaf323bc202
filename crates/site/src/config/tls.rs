//! Reads the settings of TLS: those of a host, and `[tls]`.

use std::path::PathBuf;

use super::certificates::acme;
use super::keys::Scope;
use super::section::Section;
use crate::host::Hosts;
use crate::listener::Listener;
use crate::model::HeaderRule;
use crate::proxies::Proxies;
use crate::tls::{
    CertificateFiles, Cipher, ClientAuthorities, ClientCertificates, EarlyData, Encryption, Group, HSTS,
    HostTls, PlainRequests, PrivateKeys, Tickets, Tls, UnknownName, Versions,
};

/// Certificates of one host.
const MAX_CERTIFICATES: usize = 100;
/// The keys by which a host names the clients that it serves. One of them replaces all that are inherited.
const CLIENTS: [&str; 3] = ["client_certificates", "client_ca", "client_crl"];

/// The section `[tls]`.
pub fn tls(top: &Section) -> Tls {
    let defaults = Tls::default();
    let Some(section) = top.section("tls", Scope::Tls) else { return defaults };
    let (versions, early_data) = (versions(&section), early_data(&section));
    let files = match section.flag("kernel") {
        Some(true) => Encryption::Kernel,
        Some(false) | None => defaults.files,
    };
    if versions == Versions::Tls12 {
        let reject =
            |name| section.reject_keys(&[name], "has no effect without TLS 1.3", "remove it, or versions");
        if early_data == EarlyData::Accepted {
            reject("early_data");
        }
        if files == Encryption::Kernel {
            reject("kernel");
        }
    }
    Tls {
        versions,
        unknown_name: match section.choice("unknown_name") {
            Some("reject") => UnknownName::Reject,
            _ => UnknownName::Default,
        },
        handshake_timeout: section.duration("handshake_timeout").unwrap_or(defaults.handshake_timeout),
        handshakes_per_client: section.count("handshakes_per_client").unwrap_or(0),
        early_data,
        watch: section.duration("watch").filter(|every| !every.is_zero()),
        ciphers: named(&section, "ciphers", &Cipher::ALL).unwrap_or(defaults.ciphers),
        export_client_certificate: section.flag("export_client_certificate").unwrap_or(false),
        groups: named(&section, "groups", &Group::ALL).unwrap_or(defaults.groups),
        tickets: tickets(&section, early_data),
        private_keys: match section.flag("signer") {
            Some(true) => PrivateKeys::InSigner,
            Some(false) | None => defaults.private_keys,
        },
        files,
    }
}

fn early_data(section: &Section) -> EarlyData {
    match section.flag("early_data") {
        Some(true) => EarlyData::Accepted,
        Some(false) | None => EarlyData::Rejected,
    }
}

/// The keys that say how tickets are encrypted.
const TICKET_KEYS: [&str; 2] = ["ticket_rotation", "ticket_key_file"];

fn tickets(section: &Section, early_data: EarlyData) -> Option<Tickets> {
    let defaults = Tickets::default();
    let is_accepted = early_data == EarlyData::Accepted;
    if section.flag("tickets") == Some(false) {
        let (what, what_to_do) = ("has no effect without tickets", "remove it, or tickets = false");
        section.reject_keys(&TICKET_KEYS, what, what_to_do);
        if is_accepted {
            section.reject_keys(&["early_data"], what, what_to_do);
        }
        return None;
    }
    if is_accepted {
        let what = "has no effect with early_data, for which each process stores the sessions";
        section.reject_keys(&TICKET_KEYS, what, "remove it, or early_data");
    }
    let rotation = section.duration("ticket_rotation").unwrap_or(defaults.rotation);
    Some(Tickets { rotation, key_file: section.path("ticket_key_file") })
}

fn versions(section: &Section) -> Versions {
    let Some(versions) = section.choices("versions") else { return Versions::Both };
    match (versions.contains(&"1.2"), versions.contains(&"1.3")) {
        (true, true) => Versions::Both,
        (true, false) => Versions::Tls12,
        (false, true) => Versions::Tls13,
        (false, false) => {
            reject_empty(section, "versions");
            Versions::Both
        }
    }
}

/// The values whose names a key has. `None`: the section has no such key.
fn named<T: Copy>(section: &Section, name: &str, all: &[(&str, T)]) -> Option<Vec<T>> {
    let words = section.choices(name)?;
    if words.is_empty() {
        reject_empty(section, name);
    }
    let value = |word: &&str| all.iter().find(|(name, _)| name == word).map(|(_, value)| *value);
    Some(words.iter().filter_map(value).collect())
}

fn reject_empty(section: &Section, name: &str) {
    let what = format!("\"{name}\" is empty");
    section.errors.add(section.place_of(name), what, "name at least one, or remove the key");
}

/// TLS of a host, with the settings of `inherited` that it does not have itself.
pub fn host_tls(section: &Section, inherited: &HostTls) -> HostTls {
    let acme = acme(section, inherited.acme);
    let clients = clients(section).unwrap_or_else(|| inherited.clients.clone());
    HostTls {
        certificates: match acme {
            true => Vec::new(),
            false => certificates(section).unwrap_or_else(|| inherited.certificates.clone()),
        },
        acme,
        plain: plain_requests(section, &clients, inherited.plain),
        clients,
    }
}

/// Reports what has no effect on a host that only an address leads to: a handshake knows a host by its name, and follows
/// the rules of the default host otherwise.
pub fn check_without_names(section: &Section, own: &HostTls, default: &HostTls) {
    if !own.clients.are_off() && own.clients != default.clients {
        let what = "a host without names cannot demand certificates of clients: a handshake follows the rules of the \
                    name that its client asks for";
        let what_to_do = "add \"names\", or give the default host the same \"client_certificates\"";
        section.errors.add(section.place_of("client_certificates"), what, what_to_do);
    }
    if section.has("certificate") {
        let what = "no client gets the certificate of a host without names: it is chosen by the name that the client \
                    asks for";
        let what_to_do = "add \"names\", or give the default host the certificate";
        section.errors.warn(section.place_of("certificate"), what, what_to_do);
    }
}

/// `None`: the host has no certificate of its own.
fn certificates(section: &Section) -> Option<Vec<CertificateFiles>> {
    let Some(certificates) = section.paths("certificate") else {
        let what_to_do = "add \"certificate\", the file with the chain of certificates";
        section.reject_keys(&["certificate_key"], "has no certificate beside it", what_to_do);
        return None;
    };
    let place = section.place_of("certificate");
    if certificates.is_empty() || certificates.len() > MAX_CERTIFICATES {
        let what = format!("\"certificate\" has {} entries", certificates.len());
        let what_to_do = format!("expected 1 to {MAX_CERTIFICATES}; name a folder for more");
        section.errors.add(place, what, what_to_do);
    }
    let keys = certificate_keys(section, &certificates).into_iter().map(Some).chain(std::iter::repeat(None));
    let files = |(certificate, key): (PathBuf, Option<PathBuf>)| CertificateFiles { certificate, key };
    Some(certificates.into_iter().zip(keys).map(files).collect())
}

/// The key of each certificate, or none at all: then each key is inside the file of its certificate, or beside it.
fn certificate_keys(section: &Section, certificates: &[PathBuf]) -> Vec<PathBuf> {
    let Some(keys) = section.paths("certificate_key") else {
        for certificate in certificates {
            section.errors.mark("certificate_key", certificate, section.place_of("certificate"));
        }
        return Vec::new();
    };
    if keys.len() != certificates.len() {
        let (keys, certificates) = (keys.len(), certificates.len());
        let what = format!("the number of keys, {keys}, is not that of certificates, {certificates}");
        let what_to_do = "give each certificate its key, in the same order; or leave out \"certificate_key\" if each \
                          file has its key inside, or privkey.pem beside it";
        section.errors.add(section.place_of("certificate_key"), what, what_to_do);
        return Vec::new();
    }
    keys
}

/// `None`: the host has no rule of its own.
fn clients(section: &Section) -> Option<ClientCertificates> {
    if !CLIENTS.iter().any(|name| section.has(name)) {
        return None;
    }
    let ca = section.paths("client_ca").unwrap_or_default();
    let known = ClientAuthorities { ca, crl: section.paths("client_crl").unwrap_or_default() };
    let choice = section.choice("client_certificates").unwrap_or("off");
    if choice == "off" {
        let unused = ["client_ca", "client_crl"].into_iter().find(|name| section.has(name));
        if let Some(name) = unused.filter(|_| !section.has("client_certificates")) {
            let what_to_do = "add client_certificates = \"optional\" or \"required\", or remove it";
            section.errors.warn(section.place_of(name), format!("\"{name}\" has no effect"), what_to_do);
        }
        return Some(ClientCertificates::Off);
    }
    if known.ca.is_empty() {
        let what = format!("\"client_certificates\" is \"{choice}\" without an authority");
        let what_to_do = "add client_ca = \"/etc/ssl/clients.pem\", the certificates of the authorities that issue those of clients";
        section.errors.add(section.place_of("client_certificates"), what, what_to_do);
    }
    Some(match choice {
        "required" => ClientCertificates::Required(known),
        _ => ClientCertificates::Optional(known),
    })
}

/// HSTS and required certificates of clients need the redirect: the one because it must not be sent without TLS (RFC
/// 6797 §7.2), the other because a client has no certificate there.
fn plain_requests(
    section: &Section,
    clients: &ClientCertificates,
    inherited: PlainRequests,
) -> PlainRequests {
    let needed_by = match clients {
        ClientCertificates::Required(_) => Some("client_certificates"),
        _ => section.has("hsts").then_some("hsts"),
    };
    match (section.flag("https_redirect"), needed_by) {
        (Some(false), Some(name)) => {
            let what = format!("\"{name}\" protects nothing while requests without TLS are served");
            let place = section.place_of("https_redirect");
            section.errors.add(place, what, format!("remove https_redirect = false, or \"{name}\""));
            PlainRequests::Served
        }
        (Some(true), _) | (None, Some(_)) => PlainRequests::Redirected,
        (Some(false), None) => PlainRequests::Served,
        (None, None) => inherited,
    }
}

/// The field that tells clients to use TLS from now on. `None`: the section sets none.
pub fn hsts(section: &Section) -> Option<HeaderRule> {
    let Some(age) = section.duration("hsts") else {
        let what_to_do = "add hsts = \"1y\", or remove it";
        section.reject_keys(
            &["hsts_subdomains", "hsts_preload"],
            "has no effect without \"hsts\"",
            what_to_do,
        );
        return None;
    };
    let seconds = age.as_secs();
    let (subdomains, preload) =
        (section.flag("hsts_subdomains") == Some(true), section.flag("hsts_preload") == Some(true));
    // The rules of hstspreload.org.
    if preload && (!subdomains || seconds < 31_536_000) {
        let what = "browsers preload only names whose HSTS lasts a year and includes subdomains";
        let what_to_do = "add hsts = \"1y\" and hsts_subdomains = true, or remove \"hsts_preload\"";
        section.errors.add(section.place_of("hsts_preload"), what, what_to_do);
    }
    let mut value = format!("max-age={seconds}");
    value.push_str(if subdomains { "; includeSubDomains" } else { "" });
    value.push_str(if preload { "; preload" } else { "" });
    Some(HeaderRule::Set(HSTS.to_owned(), value))
}

/// Whether a rule sets that field.
pub fn is_hsts(rule: &HeaderRule) -> bool {
    matches!(rule, HeaderRule::Set(name, _) if name.eq_ignore_ascii_case(HSTS))
}

/// Reports listeners and hosts that cannot do without each other. Without listeners, sockets are passed to the program.
pub fn check_listeners(top: &Section, listeners: &[Listener], hosts: Option<&Hosts>, proxies: &Proxies) {
    let Some(hosts) = hosts.filter(|_| !listeners.is_empty()) else { return };
    let with_tls = listeners.iter().find(|listener| listener.protocols.tls);
    let has_certificates = hosts.iter().any(|host| host.tls.acme || !host.tls.certificates.is_empty());
    let is_redirected = hosts.iter().any(|host| host.tls.plain == PlainRequests::Redirected);
    let place = top.place_of("listen");
    // With `acme`, there would be one but for another mistake.
    let is_explained = ["acme", "certificate"]
        .into_iter()
        .any(|name| top.has(name) && top.errors.is_reported(top.place_of(name)));
    if let Some(listener) = with_tls.filter(|_| !has_certificates && !is_explained) {
        let what = format!("\"{listener}\" needs a certificate, and no host has one");
        let what_to_do = "add certificate = \"/etc/letsencrypt/live/NAME/fullchain.pem\", or acme = true, or remove the word tls";
        top.errors.add(place, what, what_to_do);
    }
    if with_tls.is_none() && has_certificates {
        let what = "there is a certificate, but no address is marked with tls";
        top.errors.warn(place, what, "add an address such as \"0.0.0.0:443 tls\"");
    }
    if with_tls.is_none() && is_redirected && proxies.is_empty() {
        let what = "requests are redirected to https, but no address is marked with tls";
        let what_to_do = "add an address such as \"0.0.0.0:443 tls\", or name the proxy that has TLS in \
                          \"trusted_proxies\"; the keys https_redirect, hsts and client_certificates redirect";
        top.errors.add(place, what, what_to_do);
    }
}
