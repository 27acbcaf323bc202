//! `taipan certificates -c FILE`: the certificates of each host, until when they are valid, and how those by ACME are
//! renewed.

use std::path::Path;
use std::process::ExitCode;

use site::certificates::Challenge;
use site::model::{Host, Site};
use site::text::rfc3339;

use crate::acme::{self, KnownAccount, Renewal};
use crate::finding::{Severity, Unusable};
use crate::tls::Material;
use crate::tls::inspect::CertificateFacts;
use crate::tls::material::Keys;
use crate::{clock, config, terminal};

/// Prints those that can be read, and says so where there are none. Fails if one of them cannot be read.
pub fn list(path: &Path) -> ExitCode {
    let mut site = match config::load(path) {
        Ok(site) => site,
        Err(errors) => {
            errors.iter().for_each(|error| terminal::err(format_args!("{error}")));
            return ExitCode::FAILURE;
        }
    };
    let has_any = |host: &Host| host.tls.acme || !host.tls.certificates.is_empty();
    if !site.hosts.iter().any(has_any) {
        terminal::err(format_args!("taipan: no host in {} has a certificate", path.display()));
        return ExitCode::SUCCESS;
    }
    let mut code = ExitCode::SUCCESS;
    for host in site.hosts.iter().filter(|host| host.tls.acme) {
        if let Err(why) = show_acme(&site, host) {
            terminal::err(format_args!("taipan: {}: {why}", names(host)));
            code = ExitCode::FAILURE;
        }
    }
    // The others come from files.
    site.hosts.tls_mut().filter(|tls| tls.acme).for_each(|tls| tls.certificates.clear());
    let reading = Material::read(&site, Keys::Left, clock::wall());
    for problem in reading.problems.iter().filter(|problem| problem.severity == Severity::Error) {
        terminal::err(format_args!("taipan: {}", problem.text));
        code = ExitCode::FAILURE;
    }
    let without = || Material::read_with(&site, Keys::Left, clock::wall(), Unusable::LeftOut).material;
    let Some(material) = reading.material.or_else(without) else { return code };
    for (at, host) in site.hosts.iter().enumerate() {
        for certificate in material.of_host(at).iter().map(|index| &material.certificates()[*index]) {
            terminal::out(format_args!("{}", names(host)));
            line("file", certificate.source.display());
            show_facts(&certificate.facts);
        }
    }
    code
}

fn show_acme(site: &Site, host: &Host) -> Result<(), String> {
    let Renewal { file, stored, report } = acme::renewal_of(&site.certificates, &host.names)?;
    terminal::out(format_args!("{}", names(host)));
    line("file", file.display());
    match &stored {
        Some(Ok(stored)) => show_facts(&stored.facts),
        Some(Err(why)) => line("issuer", format_args!("none: {why}; the next start replaces the file")),
        None => line("issuer", "none: the server has not been started yet"),
    }
    if stored.is_some_and(|stored| stored.is_ok_and(|stored| stored.is_self_made())) {
        line("self-made", "until an authority has issued one");
    }
    let Some(report) = report else { return Ok(()) };
    let now = clock::wall();
    match i64::try_from(report.due).unwrap_or(i64::MAX) {
        due if due <= now => line("next renewal", "at once"),
        due => line("next renewal", time(due)),
    }
    report.authority.iter().for_each(|authority| line("authority", authority));
    if let Some((at, why)) = &report.failure {
        line("last error", format_args!("{}  {why}", time(i64::try_from(*at).unwrap_or(0))));
    }
    if site.certificates.challenges.contains(&Challenge::DnsPersist) {
        match &report.account {
            Some(KnownAccount { url, issuer: Some(issuer) }) => {
                for name in &host.names {
                    line("DNS record", persistent_record(name, issuer, url));
                }
            }
            _ => line("DNS record", "known as soon as the server has an account"),
        }
    }
    Ok(())
}

/// The record that proves a name for good (draft-ietf-acme-dns-persist §3).
fn persistent_record(name: &str, issuer: &str, account: &str) -> String {
    let (base, policy) = match name.strip_prefix("*.") {
        Some(base) => (base, "; policy=wildcard"),
        None => (name, ""),
    };
    format!("_validation-persist.{base}. TXT \"{issuer}; accounturi={account}{policy}\"")
}

fn show_facts(facts: &CertificateFacts) {
    line("names", facts.names_text());
    line("issuer", &facts.issuer);
    line("valid", facts.validity(clock::wall()));
}

fn names(host: &Host) -> String {
    if host.names.is_empty() { "default host".to_owned() } else { host.names.join(", ") }
}

fn line(what: &str, value: impl std::fmt::Display) {
    terminal::out(format_args!("  {what:<13} {value}"));
}

fn time(time: i64) -> String {
    String::from_utf8_lossy(&rfc3339(time)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persistent_record_names_issuer_and_account() {
        for (name, expected) in [
            ("a.example", "_validation-persist.a.example. TXT \"ca.example; accounturi=https://x/1\""),
            (
                "*.a.example",
                "_validation-persist.a.example. TXT \"ca.example; accounturi=https://x/1; policy=wildcard\"",
            ),
        ] {
            assert_eq!(persistent_record(name, "ca.example", "https://x/1"), expected);
        }
    }
}
