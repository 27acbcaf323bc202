//! The certificates and keys of a site, as its master reads them, with what is wrong with them.
//!
//! A file that cannot be used is an error, and a site with one is not served, unless it has been served before. What
//! only some clients would reject is a warning.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use site::model::{Host, Site};
use site::tls::{CertificateFiles, ClientAuthorities, ClientCertificates};
use zeroize::Zeroizing;

use super::crypto::{SigningKeys, signing_key};
use super::inspect::{CertificateFacts, date, problems, problems_of_lists};
use super::names::distinguished;
use super::pem::{self, PrivateKey};
use crate::file_stamps::FileStamps;
use crate::finding::{Finding, Severity, Unusable};
use crate::regular_file;

/// Bytes of a file.
const MAX_FILE: u64 = 1024 * 1024;
/// Certificates in one folder.
const MAX_IN_FOLDER: usize = 1000;
/// Keys of the configuration.
const CERTIFICATE: &[&str] = &["certificate"];
const CERTIFICATE_KEY: &[&str] = &["certificate_key"];
const CLIENT_CA: &[&str] = &["client_ca"];
const CLIENT_CRL: &[&str] = &["client_crl"];
/// The chain in the folders of ACME clients.
const CHAIN: &str = "fullchain.pem";

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
        let CertificateFacts { names, key, .. } = &self.facts;
        let mut lines = vec![
            format!("\nCertificate {}:", self.source.display()),
            format!("  names   {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") }),
            format!("  valid   {}", self.facts.validity(now)),
            format!("  key     {key}"),
        ];
        let chain = self.chain_facts();
        let issuers = chain.iter().map(|certificate| certificate.issuer.as_str());
        lines.extend(issuers.map(|issuer| format!("  issuer  {issuer}")));
        lines
    }

    fn chain_facts(&self) -> Vec<CertificateFacts> {
        self.chain.iter().filter_map(|certificate| CertificateFacts::read(certificate).ok()).collect()
    }
}

/// Whether a certificate has the public key of `key`.
fn fits(key: &dyn SigningKey, certificate: &CertificateDer<'_>) -> bool {
    let own = rustls::server::ParsedCertificate::try_from(certificate);
    own.is_ok_and(|own| key.public_key().is_some_and(|public| own.subject_public_key_info() == public))
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
        let mut reader = Reader::new(keys, now, unusable);
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

struct Reader {
    with_keys: Keys,
    now: i64,
    unusable: Unusable,
    /// The name of the host whose files are read. `None`: it has none.
    host: Option<String>,
    certificates: Vec<Certificate>,
    keys: Vec<Option<PrivateKey>>,
    /// The certificates that have been read, as indices.
    read: BTreeMap<CertificateFiles, Vec<usize>>,
    problems: Vec<Finding>,
    stamps: FileStamps,
    left_out: Vec<String>,
}

impl Reader {
    fn new(with_keys: Keys, now: i64, unusable: Unusable) -> Reader {
        Reader {
            with_keys,
            now,
            unusable,
            host: None,
            left_out: Vec::new(),
            certificates: Vec::new(),
            keys: Vec::new(),
            read: BTreeMap::new(),
            problems: Vec::new(),
            stamps: FileStamps::default(),
        }
    }

    fn problem(&mut self, severity: Severity, key: &'static [&'static str], value: &Path, text: String) {
        if severity == Severity::Error && self.unusable == Unusable::LeftOut {
            self.left_out.push(left_out(&text, self.host.as_ref()));
            return;
        }
        let problem = Finding { severity, keys: key, value: value.to_owned(), text };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// The certificates of one value of `certificate`, as indices.
    fn certificates(&mut self, files: &CertificateFiles) -> Vec<usize> {
        if let Some(known) = self.read.get(files) {
            return known.clone();
        }
        self.stamps.add(&files.certificate);
        let pairs = match files.certificate.is_dir() {
            false => Ok(vec![files.clone()]),
            true => self.pairs_in(&files.certificate),
        };
        let pairs = pairs.unwrap_or_else(|text| {
            self.problem(Severity::Error, CERTIFICATE, &files.certificate, text);
            Vec::new()
        });
        let mut own = Vec::new();
        for pair in pairs {
            let path = &pair.certificate;
            let read = self.file(path).and_then(|text| {
                let parsed = Certificate::parse(path, &text);
                parsed.map(|parsed| (parsed, text)).map_err(|why| format!("{} {why}", path.display()))
            });
            let (certificate, text) = match read {
                Ok(read) => read,
                Err(text) => {
                    self.problem(Severity::Error, CERTIFICATE, &files.certificate, text);
                    continue;
                }
            };
            let key = match self.key(&pair, &certificate, text) {
                Ok(key) => {
                    self.warn(&files.certificate, &certificate);
                    key
                }
                Err((key, text)) => {
                    let value = if key == CERTIFICATE_KEY { files.key.as_ref() } else { None };
                    let value = value.unwrap_or(&files.certificate).clone();
                    self.problem(Severity::Error, key, &value, text);
                    None
                }
            };
            own.push(self.certificates.len());
            self.certificates.push(certificate);
            if self.with_keys == Keys::Read {
                self.keys.push(key);
            }
        }
        self.read.insert(files.clone(), own.clone());
        own
    }

    /// The certificates in a folder, in the order of their names.
    fn pairs_in(&mut self, folder: &Path) -> Result<Vec<CertificateFiles>, String> {
        let shown = folder.display();
        let fail = |e: io::Error| format!("cannot read the folder {shown}: {e}");
        if folder.join(CHAIN).is_file() {
            return Ok(vec![CertificateFiles { certificate: folder.join(CHAIN), key: None }]);
        }
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(folder).map_err(fail)? {
            paths.push(entry.map_err(fail)?.path());
        }
        paths.sort();
        let mut pairs = Vec::new();
        for path in paths {
            if path.is_dir() {
                self.stamps.add(&path);
            }
            let chain = path.join(CHAIN);
            let extension = path.extension().and_then(|extension| extension.to_str());
            if chain.is_file() {
                pairs.push(CertificateFiles { certificate: chain, key: None });
            } else if matches!(extension, Some("pem" | "crt")) {
                match self.has_certificate(&path) {
                    Ok(true) => pairs.push(CertificateFiles { certificate: path, key: None }),
                    Ok(false) => {}
                    Err(text) if self.unusable == Unusable::LeftOut => {
                        self.problem(Severity::Error, CERTIFICATE, folder, text);
                    }
                    Err(text) => return Err(text),
                }
            }
        }
        match pairs.len() {
            0 => Err(format!(
                "the folder {shown} has no certificates: no file with the ending .pem or .crt that has one in PEM, and \
                 no folder with a {CHAIN}; name another, or put them there"
            )),
            1..=MAX_IN_FOLDER => Ok(pairs),
            more => {
                Err(format!("the folder {shown} has {more} certificates; expected at most {MAX_IN_FOLDER}"))
            }
        }
    }

    /// Whether a file of a folder has a certificate. Files with a key alone stand beside it.
    fn has_certificate(&mut self, path: &Path) -> Result<bool, String> {
        let text = self.file(path)?;
        pem::certificates(&text)
            .map(|found| !found.is_empty())
            .map_err(|why| format!("{} {why}", path.display()))
    }

    /// The key of a certificate, whose file has this text, if keys are read. Errors: the key of the configuration that
    /// is to blame, and why.
    fn key(
        &mut self,
        files: &CertificateFiles,
        certificate: &Certificate,
        text: Zeroizing<Vec<u8>>,
    ) -> Result<Option<PrivateKey>, (&'static [&'static str], String)> {
        let path = &files.certificate;
        let of_chain = |why: String| (CERTIFICATE, format!("{} {why}", path.display()));
        let is_inside = files.key.is_none() && pem::has_private_key(&text);
        let key_path = match &files.key {
            Some(key) => key.clone(),
            None if is_inside => path.clone(),
            None => key_beside(files).map_err(of_chain)?,
        };
        self.stamps.add(&key_path);
        let blame = if files.key.is_some() { CERTIFICATE_KEY } else { CERTIFICATE };
        self.check_mode(&key_path, blame, files.key.as_ref().unwrap_or(path));
        if self.with_keys == Keys::Left {
            return Ok(None);
        }
        let of_key = |why: String| (blame, format!("{} {why}", key_path.display()));
        let text = if is_inside { text } else { self.file(&key_path).map_err(|why| (blame, why))? };
        let key = pem::some_private_key(&text, "name the file that has it").map_err(of_key)?;
        let signing = signing_key(&key.der()).map_err(|_| {
            let why = "has a key that is not supported; use ECDSA with P-256 or P-384, RSA with 2048 to 8192 bits, or \
                       Ed25519";
            of_key(why.to_owned())
        })?;
        certificate.check_key(&*signing).map_err(|why| match key_path == *path {
            true => of_chain(why),
            false => of_chain(format!("{why} (the key is {})", key_path.display())),
        })?;
        Ok(Some(key))
    }

    /// Warns of a key that every user can read.
    fn check_mode(&mut self, path: &Path, key: &'static [&'static str], value: &Path) {
        if fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o004 != 0) {
            let path = path.display();
            let text = format!("every user can read the private key in {path}; run: chmod o-rwx {path}");
            self.problem(Severity::Warning, key, value, text);
        }
    }

    fn warn(&mut self, value: &Path, certificate: &Certificate) {
        let path = certificate.source.display().to_string();
        for problem in problems(&certificate.chain_facts(), self.now) {
            self.problem(Severity::Warning, CERTIFICATE, value, format!("{path}: {problem}"));
        }
        let is_alone = certificate.chain.len() == 1 && certificate.source.file_name() != Some(CHAIN.as_ref());
        if is_alone && certificate.source.with_file_name(CHAIN).is_file() {
            let text = format!("{path}: the chain is missing; name the {CHAIN} beside it");
            self.problem(Severity::Warning, CERTIFICATE, value, text);
        }
    }

    /// Warns of the names of a host that none of its certificates has.
    fn check_names(&mut self, host: &Host, own: &[usize]) {
        let Some(files) = host.tls.certificates.first().filter(|_| !own.is_empty()) else { return };
        for name in &host.names {
            let lower = name.trim_matches(['[', ']']).to_ascii_lowercase();
            if own.iter().any(|at| self.certificates[*at].facts.covers(&lower)) {
                continue;
            }
            let value = files.certificate.clone();
            let text =
                format!("no certificate of the host has its name {name}, so that clients reject it there");
            self.problem(Severity::Warning, CERTIFICATE, &value, text);
        }
    }

    fn clients(&mut self, rules: &ClientCertificates) -> ClientRules {
        let (demand, known) = match rules {
            ClientCertificates::Off => return ClientRules::NONE,
            ClientCertificates::Optional(known) => (Demand::Optional, known),
            ClientCertificates::Required(known) => (Demand::Required, known),
        };
        let ClientAuthorities { ca, crl } = known;
        // All are read, so that all problems are known.
        let authorities: Vec<Option<Vec<_>>> = ca.iter().map(|path| self.authorities(path)).collect();
        let revoked: Vec<Option<Vec<_>>> = crl.iter().map(|path| self.revoked(path)).collect();
        let (authorities, revoked) = (authorities.into_iter().collect(), revoked.into_iter().collect());
        match Option::<Vec<_>>::zip(authorities, revoked) {
            Some((authorities, revoked)) => {
                let revoked: Vec<Vec<_>> = revoked;
                let (authorities, revoked) = (authorities.concat(), revoked.concat());
                if let Some(path) = crl.first() {
                    for problem in problems_of_lists(&authorities, &revoked) {
                        self.problem(Severity::Warning, CLIENT_CRL, path, problem);
                    }
                }
                ClientRules { demand, authorities, revoked }
            }
            // Without one of the files, no certificate of a client is accepted.
            None => ClientRules { demand, ..ClientRules::NONE },
        }
    }

    /// `None`: they cannot be used.
    fn authorities(&mut self, path: &Path) -> Option<Vec<CertificateDer<'static>>> {
        let shown = path.display();
        let read = self.file(path).and_then(|text| {
            let found = pem::some_certificates(&text, "name a file with those of authorities");
            let found = found.map_err(|why| format!("{shown} {why}"))?;
            let mut facts = Vec::new();
            for certificate in &found {
                facts.push(
                    CertificateFacts::read(certificate)
                        .map_err(|why| format!("a certificate in {shown} {why}"))?,
                );
            }
            Ok((found, facts))
        });
        let (found, facts) = match read {
            Ok(read) => read,
            Err(text) => {
                self.problem(Severity::Error, CLIENT_CA, path, text);
                return None;
            }
        };
        let now = self.now;
        for authority in facts.iter().filter(|facts| facts.not_after < now) {
            let (subject, until) = (&authority.subject, date(authority.not_after));
            let text = format!(
                "{shown}: the authority {subject} has expired on {until}; all of its clients are rejected"
            );
            self.problem(Severity::Warning, CLIENT_CA, path, text);
        }
        for other in facts.iter().filter(|facts| !facts.is_authority) {
            let text = format!(
                "{shown}: {} is no authority, so that no client has a certificate of it; name the certificate of the \
                 authority that issues those of clients",
                other.subject
            );
            self.problem(Severity::Warning, CLIENT_CA, path, text);
        }
        Some(found)
    }

    /// `None`: they cannot be used.
    fn revoked(&mut self, path: &Path) -> Option<Vec<CertificateRevocationListDer<'static>>> {
        let shown = path.display();
        let read = self
            .file(path)
            .and_then(|text| pem::revocation_lists(&text).map_err(|why| format!("{shown} {why}")));
        let found = read.map_err(|text| self.problem(Severity::Error, CLIENT_CRL, path, text)).ok()?;
        // All, for their problems.
        let valid: Vec<bool> = found.iter().map(|list| self.check_list(list, path)).collect();
        (!valid.contains(&false)).then_some(found)
    }

    /// Returns whether it is one.
    fn check_list(&mut self, list: &CertificateRevocationListDer<'_>, path: &Path) -> bool {
        use x509_parser::prelude::{CertificateRevocationList, FromDer};
        let shown = path.display();
        let (severity, text) = match CertificateRevocationList::from_der(list) {
            Err(_) => (Severity::Error, format!("a list in {shown} is not a valid X.509 CRL")),
            Ok((_, list)) => match list.next_update().map(|time| time.timestamp()) {
                Some(until) if until < self.now => {
                    let (issuer, until) = (distinguished(list.issuer()), date(until));
                    let text = format!(
                        "{shown}: the list of {issuer} has expired on {until}, so that all of its certificates are \
                         rejected; get a new one"
                    );
                    (Severity::Warning, text)
                }
                _ => return true,
            },
        };
        self.problem(severity, CLIENT_CRL, path, text);
        severity == Severity::Warning
    }

    /// The text of a file. Errors: with its path.
    fn file(&mut self, path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        self.stamps.add(path);
        read_file(path)
    }
}

/// The text of a file of certificates or keys. Errors: with its path.
pub fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let shown = path.display();
    let read = || {
        // Without room to grow, so that no copy of a key stays behind.
        let mut text = Zeroizing::new(Vec::new());
        let file = regular_file::open(path)?;
        let length = file.metadata()?.len();
        text.reserve_exact(length.min(MAX_FILE) as usize + 2);
        file.take(MAX_FILE + 1).read_to_end(&mut text)?;
        Ok(text)
    };
    match read() {
        Ok(text) if text.len() as u64 <= MAX_FILE => Ok(text),
        Ok(_) => Err(format!("{shown} is larger than 1 MiB; name a file of PEM")),
        Err(e) => {
            let e: io::Error = e;
            Err(format!("cannot read {shown}: {e}"))
        }
    }
}

/// The file with the key of a certificate that has none inside. Errors: there is none.
fn key_beside(files: &CertificateFiles) -> Result<PathBuf, String> {
    let places = files.keys_beside();
    let shown: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
    let found = places.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| {
        format!("has no private key, and there is no {}; add certificate_key = \"…\"", shown.join(" or "))
    })
}
