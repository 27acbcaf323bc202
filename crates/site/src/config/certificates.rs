//! Reads `[certificates]`, and checks that the names of hosts can have certificates by it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::keys::Scope;
use super::section::{Given, Section};
use crate::certificates::{
    Certificates, Challenge, ExternalAccount, KeyType, is_private, is_public_authority,
};

/// Authorities of a site.
const MAX_AUTHORITIES: usize = 8;
/// Arguments of `dns_command`.
const MAX_ARGUMENTS: usize = 32;
/// Names of one certificate (the limit of Let's Encrypt).
const MAX_NAMES: usize = 100;

pub fn certificates(top: &Section) -> Certificates {
    let defaults = Certificates::default();
    let Some(section) = top.section("certificates", Scope::Certificates) else { return defaults };
    let time = |name, default| section.duration(name).unwrap_or(default);
    let dns_command = dns_command(&section);
    Certificates {
        folder: folder(&section),
        email: email(&section),
        authorities: authorities(&section).unwrap_or(defaults.authorities),
        challenges: challenges(&section, &dns_command),
        dns_command,
        dns_timeout: time("dns_timeout", defaults.dns_timeout),
        dns_wait: time("dns_wait", defaults.dns_wait),
        profile: section.text("profile").map(|given| given.value.to_owned()),
        key: match section.choice("key") {
            Some("ecdsa-p384") => KeyType::EcdsaP384,
            Some("rsa-2048") => KeyType::Rsa2048,
            Some("rsa-4096") => KeyType::Rsa4096,
            _ => defaults.key,
        },
        external_account: external_account(&section),
        ca: section.path("ca"),
        timeout: time("timeout", defaults.timeout),
        order_timeout: time("order_timeout", defaults.order_timeout),
        retry: time("retry", defaults.retry),
        max_retry: time("max_retry", defaults.max_retry),
        thumbprint: None,
        stand_ins: BTreeMap::new(),
    }
}

/// It has the keys of the certificates.
fn folder(section: &Section) -> Option<PathBuf> {
    let folder = section.path("folder")?;
    section.errors.mark("certificate_key", &folder, section.place_of("folder"));
    Some(folder)
}

fn email(section: &Section) -> Option<String> {
    let given = section.text("email")?;
    let is_address = given.value.contains('@') && !given.value.contains([' ', ',', ':']);
    if !is_address || !given.value.is_ascii() {
        section.reject("email", given.place, "is not an address such as \"admin@example.org\"");
    }
    Some(given.value.to_owned())
}

fn authorities(section: &Section) -> Option<Vec<String>> {
    let given = section.texts("authorities")?;
    if given.is_empty() || given.len() > MAX_AUTHORITIES {
        let what = format!("\"authorities\" has {} entries", given.len());
        section.errors.add(section.place_of("authorities"), what, format!("expected 1 to {MAX_AUTHORITIES}"));
    }
    for Given { place, value } in &given {
        let is_url = value.strip_prefix("https://").is_some_and(|rest| !rest.is_empty())
            && value.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_url {
            let what = format!("\"{}\" is no directory of an authority", value.escape_debug());
            let what_to_do = "write its URL, such as \"https://acme-v02.api.letsencrypt.org/directory\"";
            section.errors.add(place, what, what_to_do);
        }
    }
    Some(given.iter().map(|given| given.value.to_owned()).collect())
}

fn dns_command(section: &Section) -> Vec<String> {
    let Some(given) = section.texts("dns_command") else { return Vec::new() };
    let place = section.place_of("dns_command");
    match given.first() {
        None => section.errors.add(place, "\"dns_command\" is empty", "name a program, or remove the key"),
        Some(program) if !program.value.starts_with('/') => {
            let what = format!("\"{}\" is not the whole path of a program", program.value.escape_debug());
            section.errors.add(program.place, what, "write it from the root, such as \"/usr/local/bin/dns\"");
        }
        Some(program) => section.errors.mark("dns_command", program.value, program.place),
    }
    if given.len() > MAX_ARGUMENTS || given.iter().any(|given| given.value.contains('\0')) {
        section.reject("dns_command", place, "has too many arguments, or a NUL in one of them");
    }
    given.iter().map(|given| given.value.to_owned()).collect()
}

fn challenges(section: &Section, dns_command: &[String]) -> Vec<Challenge> {
    let Some(words) = section.choices("challenges") else {
        let by_dns = (!dns_command.is_empty()).then_some(Challenge::Dns);
        return Certificates::default().challenges.into_iter().chain(by_dns).collect();
    };
    let place = section.place_of("challenges");
    if words.is_empty() {
        section.errors.add(place, "\"challenges\" is empty", "name at least one, or remove the key");
    }
    if words.contains(&"dns-01") && dns_command.is_empty() {
        let what = "\"dns-01\" needs a program that sets records";
        section.errors.add(place, what, "add \"dns_command\", or use \"dns-persist-01\"");
    }
    let all = [Challenge::TlsAlpn, Challenge::Http, Challenge::Dns, Challenge::DnsPersist];
    let challenge = |word: &&str| all.into_iter().find(|challenge| challenge.name() == *word);
    words.iter().filter_map(challenge).collect()
}

fn external_account(section: &Section) -> Option<ExternalAccount> {
    let (key_id, key_file) = (section.text("eab_key_id"), section.path("eab_key_file"));
    for (name, other) in [("eab_key_id", "eab_key_file"), ("eab_key_file", "eab_key_id")] {
        if !section.has(other) {
            let what_to_do = format!("add \"{other}\"; the authority gives you both");
            section.reject_keys(&[name], "alone names no account", &what_to_do);
        }
    }
    Some(ExternalAccount { key_id: key_id?.value.to_owned(), key_file: key_file? })
}

/// Whether a host has its certificate by ACME. `own` is its section.
pub fn acme(own: &Section, inherited: bool) -> bool {
    if own.has("certificate") {
        if own.flag("acme") == Some(true) {
            let what = "a host has its certificate by ACME or from a file";
            own.errors.add(own.place_of("acme"), what, "remove \"acme\" or \"certificate\"");
        }
        return false;
    }
    own.flag("acme").unwrap_or(inherited)
}

/// Reports names that can have no certificate by ACME.
pub fn check_names(own: &Section, names: &[String], certificates: &Certificates) {
    let place = if own.has("acme") { own.place_of("acme") } else { own.place_of("names") };
    if names.len() > MAX_NAMES {
        let what = format!("a certificate by ACME has at most {MAX_NAMES} names");
        own.errors.add(place, what, "move some of them to another [[host]], or set acme = false");
    }
    let challenges = &certificates.challenges;
    if challenges.is_empty() {
        // That is a mistake of its own.
    } else if let Some(name) =
        names.iter().find(|name| !challenges.iter().any(|challenge| challenge.proves(name)))
    {
        let what = format!("no challenge of \"challenges\" can prove \"{name}\"");
        let what_to_do = match name.starts_with("*.") {
            true => "add \"dns-01\" with a \"dns_command\", or \"dns-persist-01\", in [certificates]",
            false => "an address needs \"tls-alpn-01\" or \"http-01\" in [certificates]",
        };
        own.errors.add(place, what, what_to_do);
    } else if !challenges.iter().any(|challenge| names.iter().all(|name| challenge.proves(name))) {
        let what = "no challenge of \"challenges\" can prove all names of the host: a wildcard needs one by DNS, and \
                    an address another one";
        own.errors.add(place, what, "move the addresses to another [[host]]");
    }
    let is_public = certificates.authorities.iter().all(|url| is_public_authority(url));
    if let Some(name) = names.iter().find(|name| is_public && is_private(name)) {
        let what = format!("no public authority issues a certificate for \"{name}\"");
        let what_to_do = "remove the name, set acme = false, or name a private authority in \"authorities\" of \
                          [certificates]; on this machine alone, `taipan --tls localhost` needs no authority";
        own.errors.warn(place, what, what_to_do);
    }
}
