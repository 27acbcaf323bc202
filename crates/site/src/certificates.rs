//! How the server gets certificates by ACME (RFC 8555): from which authorities, by which challenges, and where it keeps
//! them.
//!
//! Knows no protocol: which hosts have certificates by ACME is in `model`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::address::without_brackets;
use crate::tls::CHALLENGES;

/// The URL of the directory of the authority that is asked by default (RFC 8555 §7.1.1).
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The settings of `[certificates]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificates {
    /// The folder of certificates, keys and the account. `None`: the state folder of the server.
    pub folder: Option<PathBuf>,
    /// Where an authority can reach a person.
    pub email: Option<String>,
    /// The URLs of directories (RFC 8555 §7.1.1), in the order in which they are tried.
    pub authorities: Vec<String>,
    /// In the order in which they are tried.
    pub challenges: Vec<Challenge>,
    /// The program that sets and removes DNS records, with its arguments. Empty: there is none.
    pub dns_command: Vec<String>,
    /// How long the program may take.
    pub dns_timeout: Duration,
    /// How long it takes until every server of the zone has a new record.
    pub dns_wait: Duration,
    /// The kind of certificate, of those that the authority offers.
    pub profile: Option<String>,
    pub key: KeyType,
    pub external_account: Option<ExternalAccount>,
    /// Certificates of authorities, in PEM, that the connection to an ACME server may be verified by. `None`: those of
    /// the system.
    pub ca: Option<PathBuf>,
    /// For one request to an authority.
    pub timeout: Duration,
    /// For one certificate, from the order to its download.
    pub order_timeout: Duration,
    /// The first pause after a failure; it doubles with each further one.
    pub retry: Duration,
    pub max_retry: Duration,
    /// Of the account's key, by which HTTP-01 challenges are answered. The master knows it: it is in no configuration.
    pub thumbprint: Option<String>,
    /// What is served in place of files that could not be stored. The master makes it.
    pub stand_ins: BTreeMap<PathBuf, StandIn>,
}

/// The text of a self-made certificate and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct StandIn(pub Vec<u8>);

impl fmt::Debug for StandIn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("StandIn")
    }
}

/// A way to prove that a name leads to this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Challenge {
    /// A certificate in a TLS handshake on port 443 (RFC 8737).
    TlsAlpn,
    /// A response on port 80 (RFC 8555 §8.3).
    Http,
    /// A DNS record for each order (RFC 8555 §8.4).
    Dns,
    /// A DNS record that stays (draft-ietf-acme-dns-persist).
    DnsPersist,
}

/// The type of the key of a new certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    EcdsaP256,
    EcdsaP384,
    Rsa2048,
    Rsa4096,
}

/// An account that an authority knows already (RFC 8555 §7.3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    pub key_id: String,
    /// Contains the MAC key in base64url.
    pub key_file: PathBuf,
}

impl Certificates {
    /// The paths that the master opens.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let key_file = self.external_account.as_mut().map(|account| &mut account.key_file);
        self.folder.iter_mut().chain(&mut self.ca).chain(key_file)
    }
}

impl Challenge {
    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Challenge::TlsAlpn => "tls-alpn-01",
            Challenge::Http => "http-01",
            Challenge::Dns => "dns-01",
            Challenge::DnsPersist => "dns-persist-01",
        }
    }

    /// Authorities issue a wildcard only after a challenge by DNS, and an address never after one (RFC 8738 §7).
    pub fn proves(self, name: &str) -> bool {
        let is_by_dns = matches!(self, Challenge::Dns | Challenge::DnsPersist);
        let is_address = without_brackets(name).parse::<IpAddr>().is_ok();
        if is_by_dns { !is_address } else { !name.starts_with("*.") }
    }
}

/// Authorities that are open to the public. Each issues only for public names.
const PUBLIC_AUTHORITIES: [&str; 6] =
    ["letsencrypt.org", "zerossl.com", "pki.goog", "ssl.com", "buypass.com", "actalis.com"];
/// Top-level names that lead to different machines on different networks, or to none (RFC 2606, 6761, 6762 and 8375; the
/// root zone has none of them).
const PRIVATE_NAMES: [&str; 8] =
    ["localhost", "local", "internal", "home.arpa", "lan", "intranet", "test", "invalid"];

/// Whether the directory at this URL is one of an authority that issues only for public names.
pub fn is_public_authority(url: &str) -> bool {
    let host = url.strip_prefix("https://").and_then(|rest| rest.split(['/', ':']).next()).unwrap_or("");
    PUBLIC_AUTHORITIES.iter().any(|name| is_within(host, name))
}

/// Whether no public authority issues a certificate for this name or address (Baseline Requirements of the CA/Browser
/// Forum, 4.2.2).
pub fn is_private(name: &str) -> bool {
    match without_brackets(name).parse() {
        Ok(IpAddr::V4(address)) => {
            address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_unspecified()
        }
        Ok(IpAddr::V6(address)) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local()
        }
        Err(_) => {
            let name = name.trim_start_matches("*.").to_ascii_lowercase();
            !name.contains('.') || PRIVATE_NAMES.iter().any(|private| is_within(&name, private))
        }
    }
}

fn is_within(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

impl Default for Certificates {
    fn default() -> Certificates {
        Certificates {
            folder: None,
            email: None,
            authorities: vec![LETS_ENCRYPT.to_owned()],
            challenges: vec![Challenge::TlsAlpn, Challenge::Http],
            dns_command: Vec::new(),
            dns_timeout: Duration::from_secs(60),
            dns_wait: Duration::from_secs(10),
            profile: None,
            key: KeyType::EcdsaP256,
            external_account: None,
            ca: None,
            timeout: Duration::from_secs(30),
            order_timeout: Duration::from_secs(300),
            retry: Duration::from_secs(300),
            max_retry: Duration::from_secs(24 * 3600),
            thumbprint: None,
            stand_ins: BTreeMap::new(),
        }
    }
}

/// A token has at least 128 bits of entropy (RFC 8555 §8.1); those of authorities have some 43 bytes.
const TOKEN: std::ops::RangeInclusive<usize> = 20..=128;

/// The answer to an HTTP-01 challenge (RFC 8555 §8.3), for every token of every order of the account with this
/// thumbprint: another server that has the same account can answer, too. `None`: the path is no challenge.
pub fn key_authorization(path: &str, thumbprint: &str) -> Option<String> {
    let token = path.strip_prefix(CHALLENGES)?;
    let is_of_base64url = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !TOKEN.contains(&token.len()) || !token.bytes().all(is_of_base64url) {
        return None;
    }
    Some(format!("{token}.{thumbprint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_a_challenge_with_its_token_and_the_thumbprint() {
        let token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA";
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(key_authorization(path, "thumb").as_deref(), expected, "{path}");
        };
        let path = format!("/.well-known/acme-challenge/{token}");
        check(&path, Some(&format!("{token}.thumb")));
        check(&format!("{path}/"), None);
        check(&format!("{path}?x"), None);
        check(&format!("{path}%41"), None);
        check(&format!("{path}<b>"), None);
        check(&format!("/x{path}"), None);
        check("/.well-known/acme-challenge/", None);
        check("/.well-known/acme-challenge/short", None);
        check("/.well-known/acme-challenge/../../etc/passwd", None);
        check(
            &format!("/.well-known/acme-challenge/{}", "a".repeat(128)),
            Some(&format!("{}.thumb", "a".repeat(128))),
        );
        check(&format!("/.well-known/acme-challenge/{}", "a".repeat(129)), None);
    }

    #[test]
    fn public_authorities_issue_nothing_for_private_names() {
        for name in
            ["localhost", "a.LOCALHOST", "nas", "nas.local", "*.lan", "x.home.arpa", "10.0.0.1", "[::1]"]
        {
            assert!(is_private(name), "{name}");
        }
        for name in
            ["example.org", "*.example.org", "a.notlocal", "lan.example.org", "192.0.2.1", "2001:db8::1"]
        {
            assert!(!is_private(name), "{name}");
        }
        for url in
            [LETS_ENCRYPT, "https://acme.zerossl.com/v2/DV90", "https://dv.acme-v02.api.pki.goog/directory"]
        {
            assert!(is_public_authority(url), "{url}");
        }
        for url in
            ["https://ca.example.org/dir", "https://localhost:14000/dir", "https://notletsencrypt.org/"]
        {
            assert!(!is_public_authority(url), "{url}");
        }
    }

    #[test]
    fn no_challenge_by_dns_proves_an_address_and_no_other_one_a_wildcard() {
        let proved = |challenge: Challenge| {
            ["a.example", "*.a.example", "192.0.2.1", "[2001:db8::1]"].map(|name| challenge.proves(name))
        };
        for challenge in [Challenge::Http, Challenge::TlsAlpn] {
            assert_eq!(proved(challenge), [true, false, true, true], "{challenge:?}");
        }
        for challenge in [Challenge::Dns, Challenge::DnsPersist] {
            assert_eq!(proved(challenge), [true, true, false, false], "{challenge:?}");
        }
    }
}
