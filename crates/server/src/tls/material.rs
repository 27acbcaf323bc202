//! The certificates and keys of a site, as its master reads them, with what is wrong with them.
//!
//! A file that cannot be used is an error, and a site with one is not served, unless it has been served before. What
//! only some clients would reject is a warning.

mod reader;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use site::model::Site;

use self::reader::Reader;
pub use self::reader::read_file;
use super::crypto::{SigningKeys, signing_key};
use super::inspect::{self, CertificateFacts};
use super::pem::{self, PrivateKey};
use crate::file_stamps::FileStamps;
use crate::finding::{Finding, Severity, Unusable};

/// The middle of a sentence whose subject is the file of a key.
pub const UNSUPPORTED_KEY: &str = if cfg!(feature = "aws-lc") {
    "has a key that is not supported; use ECDSA with P-256, P-384 or P-521, RSA with 2048 to 8192 bits, or Ed25519"
} else {
    "has a key that is not supported; use ECDSA with P-256 or P-384, RSA with 2048 to 8192 bits, or Ed25519"
};

/// What TLS needs of a site. Private keys are overwritten in memory when it is dropped.
#[derive(Debug, Clone)]
pub struct Material {
    certificates: Vec<Certificate>,
    /// Those of `certificates`, in the same order. Empty if they were not read. `None`: it cannot be used.
    keys: Vec<Option<PrivateKey>>,
    /// Indices in `certificates`, for each host.
    hosts: Vec<Vec<usize>>,
    /// The distinct rules for the certificates of clients.
    clients: Vec<ClientRules>,
    /// An index in `clients`, for each host.
    host_clients: Vec<usize>,
    unusable: Unusable,
    /// What cannot be used, for the log.
    left_out: Vec<String>,
}

/// A certificate with its chain.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The file.
    pub source: PathBuf,
    pub facts: CertificateFacts,
    pub chain: Vec<CertificateDer<'static>>,
}

/// Whether private keys are read, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    Read,
    /// Another process reads them.
    Left,
}

/// Which certificates of clients are accepted, and whether clients need one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRules {
    pub demand: Demand,
    pub authorities: Vec<CertificateDer<'static>>,
    pub revoked: Vec<CertificateRevocationListDer<'static>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    Nothing,
    Optional,
    Required,
}

/// The result of reading all files of a site.
pub struct Reading {
    /// `None`: there are errors.
    pub material: Option<Material>,
    pub problems: Vec<Finding>,
    /// The states of all files, for a comparison later.
    pub stamps: FileStamps,
}

impl Certificate {
    /// Reads the text of a chain. Errors: the middle of a sentence whose subject is the file.
    pub fn parse(source: &Path, text: &[u8]) -> Result<Certificate, String> {
        let chain = pem::some_certificates(text, "name the file with the chain")?;
        let facts = CertificateFacts::read(&chain[0])?;
        Ok(Certificate { source: source.to_owned(), facts, chain })
    }

    /// Errors: the certificate is not that of `key`. The middle of a sentence whose subject is the file.
    pub fn check_key(&self, key: &dyn SigningKey) -> Result<(), String> {
        match self.chain.iter().position(|certificate| fits(key, certificate)) {
            Some(0) => Ok(()),
            Some(at) => Err(format!(
                "has the certificate of its key at position {}; put it first, and the others behind the one that they \
                 have signed",
                at + 1
            )),
            None => Err("does not fit its key, which belongs to another certificate; name the key that the certificate \
                         was requested with"
                .to_owned()),
        }
    }

    fn lines(&self, now: i64) -> Vec<String> {
        let mut lines = vec![
            format!("\nCertificate {}:", self.source.display()),
            format!("  names   {}", self.facts.names_text()),
            format!("  valid   {}", self.facts.validity(now)),
            format!("  key     {}", self.facts.key),
        ];
        let chain = self.chain_facts();
        let issuers = chain.iter().map(|certificate| certificate.issuer.as_str());
        lines.extend(issuers.map(|issuer| format!("  issuer  {issuer}")));
        lines
    }

    /// As [`inspect::problems`].
    pub fn problems(&self, now: i64) -> Vec<String> {
        inspect::problems(&self.chain_facts(), now)
    }

    fn chain_facts(&self) -> Vec<CertificateFacts> {
        self.chain.iter().filter_map(|certificate| CertificateFacts::read(certificate).ok()).collect()
    }
}

/// Whether a certificate has the public key of `key`. What only a client would reject, such as an old version of X.509,
/// says nothing about the key.
fn fits(key: &dyn SigningKey, certificate: &CertificateDer<'_>) -> bool {
    let own = inspect::public_key(certificate);
    own.is_some_and(|own| key.public_key().is_some_and(|public| own == public.as_ref()))
}

impl ClientRules {
    const NONE: ClientRules =
        ClientRules { demand: Demand::Nothing, authorities: Vec::new(), revoked: Vec::new() };
}

impl Material {
    /// Reads all files of a site. `now` is in seconds since 1970.
    pub fn read(site: &Site, keys: Keys, now: i64) -> Reading {
        Material::read_with(site, keys, now, Unusable::Rejected)
    }

    /// As `read`. With `Unusable::LeftOut`, there is material without the files that cannot be used.
    pub fn read_with(site: &Site, keys: Keys, now: i64, unusable: Unusable) -> Reading {
        let mut reader = Reader::new(keys, now, unusable, site.certificates.stand_ins.clone());
        let (mut hosts, mut host_clients, mut clients) = (Vec::new(), Vec::new(), Vec::new());
        for host in site.hosts.iter() {
            reader.host = host.names.first().cloned();
            let own: Vec<usize> =
                host.tls.certificates.iter().flat_map(|files| reader.certificates(files)).collect();
            reader.check_names(host, &own);
            hosts.push(own);
            let rules = reader.clients(&host.tls.clients);
            let known = clients.iter().position(|other| *other == rules);
            host_clients.push(known.unwrap_or(clients.len()));
            if known.is_none() {
                clients.push(rules);
            }
        }
        reader.check_redirected(site, &hosts);
        let Reader { certificates, keys, problems, stamps, left_out, .. } = reader;
        let has_errors = problems.iter().any(|problem| problem.severity == Severity::Error);
        let material = Material { certificates, keys, hosts, clients, host_clients, unusable, left_out };
        Reading { material: (!has_errors).then_some(material), problems, stamps }
    }

    /// What there is to know of each certificate, in lines for the user.
    pub fn lines(&self, now: i64) -> Vec<String> {
        self.certificates.iter().flat_map(|certificate| certificate.lines(now)).collect()
    }

    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    pub fn unusable(&self) -> Unusable {
        self.unusable
    }

    /// Leaves out the certificates without a key that can be used. `keys` are those of all. Returns what cannot be used,
    /// in lines for the log.
    pub fn leave_out_keyless(&mut self, site: &Site, keys: &mut SigningKeys) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.left_out);
        let first = |at: usize| self.hosts.iter().position(|own| own.contains(&at)).unwrap_or(0);
        let hosts: Vec<usize> = (0..self.certificates.len()).map(first).collect();
        let is_usable: Vec<bool> = keys.iter().map(|key| key.public_key().is_some()).collect();
        let is_at = |at: &usize| is_usable.get(*at).copied().unwrap_or(true);
        let all = std::mem::take(&mut self.certificates).into_iter().enumerate();
        let (usable, keyless): (Vec<_>, Vec<_>) = all.partition(|(at, _)| is_at(at));
        for own in &mut self.hosts {
            own.retain(is_at);
            own.iter_mut().for_each(|at| *at -= (0..*at).filter(|before| !is_at(before)).count());
        }
        self.certificates = usable.into_iter().map(|(_, certificate)| certificate).collect();
        keys.retain(|key| key.public_key().is_some());
        for (at, certificate) in keyless {
            let file = certificate.source.display().to_string();
            // The process that has read the key may have said why.
            if !lines.iter().any(|line| names(line, &file)) {
                let text = format!("the key of {file} cannot be used, as taipan check says in detail");
                lines.push(left_out(&text, site.hosts.at(hosts[at]).names.first()));
            }
        }
        lines
    }

    /// The certificates of a host, as indices.
    pub fn of_host(&self, host: usize) -> &[usize] {
        self.hosts.get(host).map_or(&[], Vec::as_slice)
    }

    /// The distinct rules for the certificates of clients.
    pub fn client_rules(&self) -> &[ClientRules] {
        &self.clients
    }

    /// An index in `client_rules`, for each host.
    pub fn rules_of_hosts(&self) -> &[usize] {
        &self.host_clients
    }
}

impl Reading {
    /// The material, and its keys, which sign in this process. Errors: lines that say what to do.
    pub fn with_keys(self) -> Result<(Material, SigningKeys), Vec<String>> {
        let is_error = |problem: &Finding| problem.severity == Severity::Error;
        let errors = self.problems.into_iter().filter(is_error).map(|problem| problem.text);
        let mut material = self.material.ok_or_else(|| errors.collect::<Vec<_>>())?;
        let invalid = |e| vec![format!("a private key cannot be used: {e}")];
        let keys = std::mem::take(&mut material.keys);
        let keys = keys.iter().map(key_or_none).collect::<Result<_, _>>().map_err(invalid)?;
        Ok((material, keys))
    }
}

fn key_or_none(key: &Option<PrivateKey>) -> Result<Arc<dyn SigningKey>, rustls::Error> {
    key.as_ref().map_or_else(|| Ok(Arc::new(NoKey) as _), |key| signing_key(&key.der()))
}

/// In the place of a key that cannot be used.
#[derive(Debug)]
struct NoKey;

impl SigningKey for NoKey {
    fn choose_scheme(&self, _: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        None
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::Anonymous
    }
}

/// Whether a line is about this file, and not about another one whose name begins so.
fn names(line: &str, file: &str) -> bool {
    let goes_on = |behind: &str| {
        behind.starts_with(|next: char| next.is_alphanumeric() || matches!(next, '.' | '-' | '_' | '~'))
    };
    line.match_indices(file).any(|(at, _)| !goes_on(&line[at + file.len()..]))
}

/// A line of the log. `host`: the name of the first host with the file.
fn left_out(text: &str, host: Option<&String>) -> String {
    let host = host.map_or("a host without names", String::as_str);
    format!("{text}; {host} goes on without it until a reload")
}
