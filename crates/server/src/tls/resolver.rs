//! Which certificate a client gets: by the name that it asks for, and by the algorithms that it can use.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, SignatureAlgorithm};
use site::host::Names;
use site::tls::UnknownName;

use super::material::Material;
use crate::clock;

/// The protocol of a handshake that proves to an ACME authority which server has a name (RFC 8737 §6.2).
pub const ACME: &[u8] = b"acme-tls/1";

/// The certificates that answer challenges of ACME authorities.
pub trait Challenges: Send + Sync {
    /// The certificate for a name in lower case. `None`: there is no challenge for it.
    fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>>;
}

/// Knows all certificates of a site.
pub struct Resolver {
    names: Names,
    /// One for each host.
    hosts: Vec<Arc<Choices>>,
    unknown: UnknownName,
    challenges: Option<Arc<dyn Challenges>>,
}

/// The certificates of a host.
struct Choices {
    keys: Vec<Arc<CertifiedKey>>,
    /// When each is valid, in seconds since 1970.
    valid: Vec<RangeInclusive<i64>>,
    /// Indices in `keys` by a name of the certificate; a wildcard without its `*.`.
    exact: HashMap<String, Vec<usize>>,
    wildcards: HashMap<String, Vec<usize>>,
    /// Indices of all.
    all: Vec<usize>,
}

/// What is known of a name that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The host has the name, or one of its certificates.
    Host(usize),
    Unknown,
}

/// Whether an authority asks for the proof of a name.
enum Challenge {
    No,
    /// Of a name without an open challenge.
    Unknown,
    Open(Arc<CertifiedKey>),
}

impl Resolver {
    /// `keys` are those of the material's certificates.
    pub fn new(
        names: Names,
        material: &Material,
        keys: &[Arc<CertifiedKey>],
        unknown: UnknownName,
        challenges: Option<Arc<dyn Challenges>>,
    ) -> Resolver {
        let count = material.rules_of_hosts().len();
        // A host without a certificate has those of the first host that has one.
        let first = (0..count).map(|host| material.of_host(host)).find(|own| !own.is_empty()).unwrap_or(&[]);
        let mut made: Vec<(&[usize], Arc<Choices>)> = Vec::new();
        let mut choices = |host: usize| {
            let own = Some(material.of_host(host)).filter(|own| !own.is_empty()).unwrap_or(first);
            match made.iter().find(|(other, _)| *other == own) {
                Some((_, choices)) => choices.clone(),
                None => {
                    let choices = Arc::new(Choices::new(own, material, keys));
                    made.push((own, choices.clone()));
                    choices
                }
            }
        };
        let hosts = (0..count).map(&mut choices).collect();
        Resolver { names, hosts, unknown, challenges }
    }

    /// What is known of the name that a client asks for.
    pub fn find(&self, name: Option<&str>) -> Known {
        let Some(name) = name.map(normalized) else { return Known::Unknown };
        if let Some(host) = self.names.find(name.as_bytes()) {
            return Known::Host(host);
        }
        match self.hosts.first().is_some_and(|default| default.has_name(&name)) {
            true => Known::Host(0),
            false => Known::Unknown,
        }
    }

    /// Whether a client that asks for this name is rejected.
    pub fn rejects(&self, name: Option<&str>) -> bool {
        self.unknown == UnknownName::Reject && self.find(name) == Known::Unknown
    }

    fn challenge(&self, hello: &ClientHello<'_>) -> Challenge {
        match &self.challenges {
            Some(challenges) if is_for_challenge(hello) => {
                let key = hello.server_name().and_then(|name| challenges.certificate(&normalized(name)));
                key.map_or(Challenge::Unknown, Challenge::Open)
            }
            _ => Challenge::No,
        }
    }
}

/// Whether an authority examines a challenge: it offers this protocol alone (RFC 8737 §3).
pub fn is_for_challenge(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|offered| offered.eq([ACME]))
}

thread_local! {
    /// The name of the last client. The library shows it to the resolver, and not on connections without buffers.
    static ASKED: Cell<Option<Box<str>>> = const { Cell::new(None) };
}

/// The name that the client has asked for whose handshake was just processed in this thread.
pub fn take_asked_name() -> Option<Box<str>> {
    ASKED.take()
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        ASKED.set(hello.server_name().map(Into::into));
        match self.challenge(&hello) {
            Challenge::No => {}
            Challenge::Unknown => return None,
            Challenge::Open(key) => return Some(key),
        }
        let host = match self.find(hello.server_name()) {
            Known::Host(host) => host,
            Known::Unknown if self.unknown == UnknownName::Reject => return None,
            Known::Unknown => 0,
        };
        self.hosts.get(host)?.choose(&hello)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("hosts", &self.hosts.len()).finish_non_exhaustive()
    }
}

impl Choices {
    fn new(own: &[usize], material: &Material, keys: &[Arc<CertifiedKey>]) -> Choices {
        let mut sorted: Vec<usize> = own.to_vec();
        sort::by_key(&mut sorted, |at| rank(keys[*at].key.algorithm()));
        let mut choices = Choices {
            keys: sorted.iter().map(|at| keys[*at].clone()).collect(),
            valid: sorted.iter().map(|at| material.certificates()[*at].facts.period()).collect(),
            exact: HashMap::new(),
            wildcards: HashMap::new(),
            all: (0..sorted.len()).collect(),
        };
        for (index, at) in sorted.iter().enumerate() {
            for name in &material.certificates()[*at].facts.names {
                let (table, name) = match name.strip_prefix("*.") {
                    Some(rest) => (&mut choices.wildcards, rest),
                    None => (&mut choices.exact, name.as_str()),
                };
                table.entry(name.to_owned()).or_default().push(index);
            }
        }
        choices
    }

    /// The certificates with a name, and behind them those with a wildcard for it, as indices.
    fn with_name(&self, name: &str) -> impl Iterator<Item = usize> {
        let wildcards = name.split_once('.').and_then(|(_, rest)| self.wildcards.get(rest));
        self.exact.get(name).into_iter().chain(wildcards).flatten().copied()
    }

    fn has_name(&self, name: &str) -> bool {
        self.with_name(name).next().is_some()
    }

    /// One that the client can use. Of several, one that is valid now: an old one may lie beside its successor.
    fn choose(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(normalized);
        let named: Vec<usize> = name.iter().flat_map(|name| self.with_name(name)).collect();
        let candidates = if named.is_empty() { &self.all } else { &named };
        let usable = || candidates.iter().filter(|at| can_use(hello, &self.keys[**at]));
        let now = clock::wall();
        let chosen = usable().find(|at| self.valid[**at].contains(&now)).or_else(|| usable().next());
        // Without one, the handshake fails with the reason.
        chosen.or(candidates.first()).map(|at| self.keys[*at].clone())
    }
}

/// ECDSA first: it is the fastest for the server, and the shortest.
fn rank(algorithm: SignatureAlgorithm) -> u8 {
    match algorithm {
        SignatureAlgorithm::ECDSA => 0,
        SignatureAlgorithm::ED25519 => 1,
        _ => 2,
    }
}

/// Whether a client can verify a signature of the key, and in TLS 1.2 also has a cipher suite for it.
fn can_use(hello: &ClientHello<'_>, certified: &CertifiedKey) -> bool {
    let is_rsa = certified.key.algorithm() == SignatureAlgorithm::RSA;
    let fits = |suite: &CipherSuite| match suite_key(*suite) {
        SuiteKey::Any => true,
        SuiteKey::Rsa => is_rsa,
        SuiteKey::Ecdsa => !is_rsa,
        SuiteKey::Unsupported => false,
    };
    certified.key.choose_scheme(hello.signature_schemes()).is_some() && hello.cipher_suites().iter().any(fits)
}

/// The key that a cipher suite needs.
enum SuiteKey {
    /// TLS 1.3.
    Any,
    Rsa,
    Ecdsa,
    Unsupported,
}

fn suite_key(suite: CipherSuite) -> SuiteKey {
    use CipherSuite::*;
    match suite {
        TLS13_AES_128_GCM_SHA256 | TLS13_AES_256_GCM_SHA384 | TLS13_CHACHA20_POLY1305_SHA256 => SuiteKey::Any,
        TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        | TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
        | TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => SuiteKey::Rsa,
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => SuiteKey::Ecdsa,
        _ => SuiteKey::Unsupported,
    }
}

/// In lower case, without a last dot.
fn normalized(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}
