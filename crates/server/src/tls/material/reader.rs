//! Reads the files of a site, and notes what is wrong with them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use site::address::without_brackets;
use site::certificates::StandIn;
use site::model::{Host, Site};
use site::tls::{CertificateFiles, ClientAuthorities, ClientCertificates, PlainRequests};
use zeroize::Zeroizing;

use super::{Certificate, ClientRules, Demand, Keys, UNSUPPORTED_KEY, left_out};
use crate::file_stamps::FileStamps;
use crate::finding::{Finding, Severity, Unusable};
use crate::regular_file;
use crate::tls::crypto::signing_key;
use crate::tls::inspect::{
    CertificateFacts, advice_on_missing_issuer, date, newest_lists, problems_of_issuers, problems_of_lists,
    why_unusable,
};
use crate::tls::names::distinguished;
use crate::tls::pem::{self, PrivateKey};

/// Bytes of a file.
const MAX_FILE: u64 = 1024 * 1024;
/// Certificates in one folder.
const MAX_IN_FOLDER: usize = 1000;
/// Keys of the configuration.
const CERTIFICATE: &[&str] = &["certificate"];
const NAMES: &[&str] = &["names"];
const CERTIFICATE_KEY: &[&str] = &["certificate_key"];
const CLIENT_CA: &[&str] = &["client_ca"];
const CLIENT_CRL: &[&str] = &["client_crl"];
/// The chain in the folders of ACME clients.
const CHAIN: &str = "fullchain.pem";

pub(super) struct Reader {
    with_keys: Keys,
    now: i64,
    unusable: Unusable,
    /// The name of the host whose files are read. `None`: it has none.
    pub(super) host: Option<String>,
    pub(super) certificates: Vec<Certificate>,
    pub(super) keys: Vec<Option<PrivateKey>>,
    /// The certificates that have been read, as indices.
    read: BTreeMap<CertificateFiles, Vec<usize>>,
    pub(super) problems: Vec<Finding>,
    pub(super) stamps: FileStamps,
    pub(super) left_out: Vec<String>,
    stand_ins: BTreeMap<PathBuf, StandIn>,
}

impl Reader {
    pub(super) fn new(
        with_keys: Keys,
        now: i64,
        unusable: Unusable,
        stand_ins: BTreeMap<PathBuf, StandIn>,
    ) -> Reader {
        Reader {
            with_keys,
            now,
            unusable,
            host: None,
            left_out: Vec::new(),
            stand_ins,
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
    pub(super) fn certificates(&mut self, files: &CertificateFiles) -> Vec<usize> {
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
        let own: Vec<usize> = pairs.iter().filter_map(|pair| self.certificate(pair, files)).collect();
        self.read.insert(files.clone(), own.clone());
        own
    }

    /// The index of the certificate in these files. `configured`: as the configuration names them. `None`: it cannot be
    /// used.
    fn certificate(&mut self, files: &CertificateFiles, configured: &CertificateFiles) -> Option<usize> {
        let path = &files.certificate;
        let read = self.file(path).and_then(|text| {
            let parsed = Certificate::parse(path, &text);
            parsed.map(|parsed| (parsed, text)).map_err(|why| format!("{} {why}", path.display()))
        });
        let (certificate, text) = match read {
            Ok(read) => read,
            Err(text) => {
                self.problem(Severity::Error, CERTIFICATE, &configured.certificate, text);
                return None;
            }
        };
        let key = match self.key(files, &certificate, text) {
            Ok(key) => {
                self.warn(&configured.certificate, &certificate);
                key
            }
            Err((key, text)) => {
                let value = configured.key.as_ref().filter(|_| key == CERTIFICATE_KEY);
                self.problem(Severity::Error, key, value.unwrap_or(&configured.certificate), text);
                None
            }
        };
        self.certificates.push(certificate);
        if self.with_keys == Keys::Read {
            self.keys.push(key);
        }
        Some(self.certificates.len() - 1)
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
        let value = files.key.as_ref().unwrap_or(path);
        if self.with_keys == Keys::Left {
            self.check_mode(&key_path, blame, value);
            return Ok(None);
        }
        let of_key = |why: String| (blame, format!("{} {why}", key_path.display()));
        let text = if is_inside { text } else { self.file(&key_path).map_err(|why| (blame, why))? };
        let key = pem::some_private_key(&text, "name the file that has it").map_err(of_key)?;
        self.check_mode(&key_path, blame, value);
        let unsupported = || format!("{UNSUPPORTED_KEY} (the certificate is for {})", certificate.facts.key);
        let signing = signing_key(&key.der()).map_err(|_| of_key(unsupported()))?;
        certificate.check_key(&*signing).map_err(|why| match key_path == *path {
            true => of_chain(why),
            false => of_chain(format!("{why} (the key is {})", key_path.display())),
        })?;
        Ok(Some(key))
    }

    /// Warns of a key that every user can read.
    fn check_mode(&mut self, path: &Path, key: &'static [&'static str], value: &Path) {
        let is_open = |found: fs::Metadata| found.is_file() && found.permissions().mode() & 0o004 != 0;
        if fs::metadata(path).is_ok_and(is_open) {
            let path = path.display();
            let text = format!("every user can read the private key in {path}; run: chmod o-rwx {path}");
            self.problem(Severity::Warning, key, value, text);
        }
    }

    fn warn(&mut self, value: &Path, certificate: &Certificate) {
        let path = certificate.source.display().to_string();
        for (at, one) in certificate.chain.iter().enumerate() {
            if let Err(why) = CertificateFacts::read(one) {
                let text =
                    format!("{path}: certificate {} of the chain {why}; remove it, or get it again", at + 1);
                self.problem(Severity::Warning, CERTIFICATE, value, text);
            }
        }
        let of_issuers = problems_of_issuers(&certificate.chain);
        for problem in certificate.problems(self.now).into_iter().chain(of_issuers) {
            self.problem(Severity::Warning, CERTIFICATE, value, format!("{path}: {problem}"));
        }
        if let [alone] = &certificate.chain[..] {
            let is_beside = certificate.source.file_name() != Some(CHAIN.as_ref())
                && certificate.source.with_file_name(CHAIN).is_file();
            let advice = match is_beside {
                true => Some(format!("; name the {CHAIN} beside it")),
                false => advice_on_missing_issuer(alone),
            };
            if let Some(advice) = advice {
                let text = format!("{path}: the chain is missing{advice}");
                self.problem(Severity::Warning, CERTIFICATE, value, text);
            }
        }
    }

    /// Warns of the names of a host that none of its certificates has.
    pub(super) fn check_names(&mut self, host: &Host, own: &[usize]) {
        let Some(files) = host.tls.certificates.first().filter(|_| !own.is_empty()) else { return };
        for name in &host.names {
            let lower = without_brackets(name).to_ascii_lowercase();
            if own.iter().any(|at| self.certificates[*at].facts.covers(&lower)) {
                continue;
            }
            let value = files.certificate.clone();
            let text =
                format!("no certificate of the host has its name {name}, so that clients reject it there");
            self.problem(Severity::Warning, CERTIFICATE, &value, text);
        }
    }

    /// Warns of the names whose requests are redirected to HTTPS, where a host without a certificate has that of the first
    /// host with one. `own`: the certificates of each host.
    pub(super) fn check_redirected(&mut self, site: &Site, own: &[Vec<usize>]) {
        // A proxy may have the certificate.
        let first = own.iter().find(|own| !own.is_empty()).filter(|_| site.trusted_proxies.is_empty());
        let Some(first) = first else { return };
        let is_redirected =
            |host: &&Host| host.tls.certificates.is_empty() && host.tls.plain == PlainRequests::Redirected;
        for name in site.hosts.iter().filter(is_redirected).flat_map(|host| &host.names) {
            let lower = without_brackets(name).to_ascii_lowercase();
            if !first.iter().any(|at| self.certificates[*at].facts.covers(&lower)) {
                let text = format!(
                    "requests for {name} are redirected to https, where no certificate has that name; give its host a \
                     `certificate`, or acme = true"
                );
                self.problem(Severity::Warning, NAMES, Path::new(name), text);
            }
        }
    }

    pub(super) fn clients(&mut self, rules: &ClientCertificates) -> ClientRules {
        let (demand, known) = match rules {
            ClientCertificates::Off => return ClientRules::NONE,
            ClientCertificates::Optional(known) => (Demand::Optional, known),
            ClientCertificates::Required(known) => (Demand::Required, known),
        };
        let ClientAuthorities { ca, crl } = known;
        // All are read, so that all problems are known.
        let authorities: Vec<Option<Vec<_>>> = ca.iter().map(|path| self.authorities(path)).collect();
        let any = authorities.iter().flatten().flatten().next();
        let revoked = self.revoked(crl, any);
        let authorities: Option<Vec<_>> = authorities.into_iter().collect();
        match Option::zip(authorities, revoked) {
            Some((authorities, revoked)) => {
                let authorities = authorities.concat();
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
                let usable = RootCertStore::empty().add(certificate.clone());
                usable
                    .map_err(|e| format!("a certificate in {shown} cannot be that of an authority: {e}"))?;
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

    /// The newest lists of all files. `authority`: any. `None`: they cannot be used.
    fn revoked(
        &mut self,
        paths: &[PathBuf],
        authority: Option<&CertificateDer<'static>>,
    ) -> Option<Vec<CertificateRevocationListDer<'static>>> {
        let read: Vec<Option<Vec<_>>> = paths.iter().map(|path| self.lists(path)).collect();
        let is_complete = read.iter().all(Option::is_some);
        let lists = read.into_iter().zip(paths);
        let lists = lists.flat_map(|(found, path)| found.into_iter().flatten().map(move |list| (path, list)));
        let newest = newest_lists(lists.collect());
        // All, for their problems.
        let valid: Vec<bool> =
            newest.iter().map(|(path, list)| self.check_list(list, path, authority)).collect();
        let is_usable = is_complete && !valid.contains(&false);
        is_usable.then(|| newest.into_iter().map(|(_, list)| list).collect())
    }

    /// The lists in a file. `None`: it cannot be used.
    fn lists(&mut self, path: &Path) -> Option<Vec<CertificateRevocationListDer<'static>>> {
        let shown = path.display();
        let read = self
            .file(path)
            .and_then(|text| pem::revocation_lists(&text).map_err(|why| format!("{shown} {why}")));
        read.map_err(|text| self.problem(Severity::Error, CLIENT_CRL, path, text)).ok()
    }

    /// Returns whether it can be used.
    fn check_list(
        &mut self,
        list: &CertificateRevocationListDer<'static>,
        path: &Path,
        authority: Option<&CertificateDer<'static>>,
    ) -> bool {
        use x509_parser::prelude::{CertificateRevocationList, FromDer};
        let shown = path.display();
        let (severity, text) = match CertificateRevocationList::from_der(list) {
            Err(_) => (Severity::Error, format!("a list in {shown} is not a valid X.509 CRL")),
            Ok((_, parsed)) if let Some(why) = authority.and_then(|any| why_unusable(list, &parsed, any)) => {
                let issuer = distinguished(parsed.issuer());
                (Severity::Error, format!("{shown}: the list of {issuer} {why}"))
            }
            Ok((_, parsed)) => match parsed.next_update().map(|time| time.timestamp()) {
                Some(until) if until < self.now => {
                    let (issuer, until) = (distinguished(parsed.issuer()), date(until));
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
        match self.stand_ins.get(path) {
            Some(StandIn(text)) => Ok(Zeroizing::new(text.clone())),
            None => read_file(path),
        }
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
            Err(format!("cannot read {shown}: {e}; check its path and its permissions"))
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
