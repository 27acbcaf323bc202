//! What a certificate says, and what is wrong with a chain. Knows no files.

use std::ops::RangeInclusive;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertRevocationListError, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{AccessDescription, GeneralName};
use x509_parser::prelude::{CertificateRevocationList, FromDer, ParsedExtension, X509Extension, X509Version};
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

use super::crypto::provider;
use super::names::{covers, distinguished, host_names};

const DAY: i64 = 86_400;
/// Algorithms of keys.
const RSA: &str = "1.2.840.113549.1.1.1";
const EC: &str = "1.2.840.10045.2.1";
/// Others, most of which no client of TLS uses.
const OTHER_KEYS: [(&str, &str); 4] = [
    ("1.3.101.112", "Ed25519"),
    ("1.3.101.113", "Ed448"),
    ("1.2.840.113549.1.1.10", "RSA-PSS alone"),
    ("1.2.840.10040.4.1", "DSA"),
];
/// Of the places at which an authority has more: that of its own certificate.
const ISSUERS: &str = "1.3.6.1.5.5.7.48.2";
const CURVES: [(&str, &str); 4] = [
    ("1.2.840.10045.3.1.7", "P-256"),
    ("1.3.132.0.34", "P-384"),
    ("1.3.132.0.35", "P-521"),
    ("1.3.132.0.10", "secp256k1"),
];
/// Algorithms of signatures with their hash.
const WEAK_SIGNATURES: [(&str, &str); 3] =
    [("1.2.840.113549.1.1.4", "MD5"), ("1.2.840.113549.1.1.5", "SHA-1"), ("1.2.840.10045.4.1", "SHA-1")];

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Host names and addresses, in lower case.
    pub names: Vec<String>,
    pub subject: String,
    pub issuer: String,
    /// Seconds since 1970.
    pub not_before: i64,
    pub not_after: i64,
    /// `ECDSA P-256`, `RSA 2048`.
    pub key: String,
    /// The names as they are compared along a chain.
    raw_subject: Vec<u8>,
    raw_issuer: Vec<u8>,
    pub is_authority: bool,
    /// Whether servers may use it (RFC 5280 §4.2.1.12).
    is_for_servers: bool,
    /// The hash of the signature, if it is not secure.
    weak_hash: Option<&'static str>,
}

impl CertificateFacts {
    /// Its names, for a reader.
    pub fn names_text(&self) -> String {
        if self.names.is_empty() { "none".to_owned() } else { self.names.join(", ") }
    }

    /// Errors: the middle of a sentence whose subject is the certificate.
    pub fn read(der: &CertificateDer<'_>) -> Result<CertificateFacts, String> {
        let invalid = || "is not a valid X.509 certificate".to_owned();
        let (rest, parsed) = X509Certificate::from_der(der).map_err(|_| invalid())?;
        if !rest.is_empty() {
            return Err(invalid());
        }
        let signature = parsed.signature_algorithm.algorithm.to_id_string();
        let weak_hash = WEAK_SIGNATURES.iter().find(|(id, _)| *id == signature).map(|(_, hash)| *hash);
        Ok(CertificateFacts {
            names: host_names(&parsed),
            subject: distinguished(parsed.subject()),
            issuer: distinguished(parsed.issuer()),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            key: key_type(parsed.public_key()),
            raw_subject: parsed.subject().as_raw().to_vec(),
            raw_issuer: parsed.issuer().as_raw().to_vec(),
            is_authority: parsed.is_ca(),
            is_for_servers: is_for_servers(&parsed),
            weak_hash,
        })
    }

    fn is_self_issued(&self) -> bool {
        self.raw_subject == self.raw_issuer
    }

    pub fn covers(&self, host: &str) -> bool {
        self.names.iter().any(|name| covers(name, host))
    }

    /// When the certificate is valid, in seconds since 1970.
    pub fn period(&self) -> RangeInclusive<i64> {
        self.not_before..=self.not_after
    }

    /// The same for a reader: `2026-11-22 to 2027-02-20, 89 days left`.
    pub fn validity(&self, now: i64) -> String {
        let (from, to) = (date(self.not_before), date(self.not_after));
        match (self.not_after - now).div_euclid(DAY) {
            ..0 => format!("{from} to {to}: EXPIRED"),
            _ if now < self.not_before => format!("{from} to {to}: NOT VALID YET"),
            days => format!("{from} to {to}, {days} days left"),
        }
    }
}

/// When a certificate expires, in seconds since 1970. `None`: it is not valid X.509.
pub fn expiry(der: &CertificateDer<'_>) -> Option<u64> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    Some(seconds(parsed.validity().not_after.timestamp()))
}

/// The same of a list of revoked certificates.
pub fn list_expiry(der: &CertificateRevocationListDer<'_>) -> Option<u64> {
    let (_, parsed) = CertificateRevocationList::from_der(der).ok()?;
    parsed.next_update().map(|time| seconds(time.timestamp()))
}

/// Without the lists in whose place an authority has made newer ones. One that is not valid X.509 stays. Beside each list
/// is what the caller knows of it.
pub fn newest_lists<T>(
    lists: Vec<(T, CertificateRevocationListDer<'static>)>,
) -> Vec<(T, CertificateRevocationListDer<'static>)> {
    let parsed: Vec<_> = lists.iter().map(|(_, der)| CertificateRevocationList::from_der(der).ok()).collect();
    let parsed: Vec<_> = parsed.into_iter().map(|found| found.map(|(_, list)| list)).collect();
    let replaces = |new: &CertificateRevocationList<'_>, old: &CertificateRevocationList<'_>| {
        new.issuer().as_raw() == old.issuer().as_raw()
            && scope(new) == scope(old)
            && new.last_update().timestamp() > old.last_update().timestamp()
    };
    let is_replaced = |old| parsed.iter().flatten().any(|new| replaces(new, old));
    let stays: Vec<bool> = parsed.iter().map(|old| !old.as_ref().is_some_and(is_replaced)).collect();
    lists.into_iter().zip(stays).filter_map(|(list, stays)| stays.then_some(list)).collect()
}

/// Which certificates a list is for (RFC 5280 §5.2.5), in DER. `None`: all of its authority.
fn scope<'a>(list: &'a CertificateRevocationList<'_>) -> Option<&'a [u8]> {
    let is_scope = |extension: &&X509Extension<'_>| {
        matches!(extension.parsed_extension(), ParsedExtension::IssuingDistributionPoint(_))
    };
    list.extensions().iter().find(is_scope).map(|extension| extension.value)
}

/// The public key of a certificate of any version, in DER. `None`: it is not valid X.509.
pub fn public_key<'a>(der: &'a CertificateDer<'_>) -> Option<&'a [u8]> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    Some(parsed.tbs_certificate.subject_pki.raw)
}

fn seconds(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
}

fn is_for_servers(certificate: &X509Certificate<'_>) -> bool {
    match certificate.extended_key_usage() {
        Ok(Some(usage)) => usage.value.any || usage.value.server_auth,
        Ok(None) | Err(_) => true,
    }
}

fn key_type(key: &SubjectPublicKeyInfo<'_>) -> String {
    let algorithm = key.algorithm.algorithm.to_id_string();
    match algorithm.as_str() {
        RSA => format!("RSA {}", key.parsed().map_or(0, |key| key.key_size())),
        EC => {
            let curve = key.algorithm.parameters.as_ref().and_then(|any| any.as_oid().ok());
            let curve = curve.map(|curve| curve.to_id_string()).unwrap_or_default();
            let name = CURVES.iter().find(|(id, _)| *id == curve).map_or(curve.as_str(), |(_, name)| *name);
            format!("ECDSA {name}")
        }
        _ => OTHER_KEYS
            .iter()
            .find(|(id, _)| *id == algorithm)
            .map_or(algorithm, |(_, name)| (*name).to_owned()),
    }
}

/// What is wrong with a chain, but does not prevent serving: middles of sentences whose subject is the file. `now` is
/// in seconds since 1970.
pub fn problems(chain: &[CertificateFacts], now: i64) -> Vec<String> {
    let mut problems = Vec::new();
    let Some(first) = chain.first() else { return problems };
    for (at, certificate) in chain.iter().enumerate() {
        let which = match at {
            0 => "the certificate".to_owned(),
            _ => format!("certificate {} of the chain, {},", at + 1, certificate.subject),
        };
        if now < certificate.not_before {
            let from = date(certificate.not_before);
            problems.push(format!("{which} is not valid before {from}; is the clock right?"));
        }
        if now > certificate.not_after {
            problems.push(format!("{which} has expired on {}; renew it", date(certificate.not_after)));
        }
        // Clients do not verify the signature of a root that they know.
        if let Some(hash) = certificate.weak_hash.filter(|_| !certificate.is_self_issued()) {
            problems.push(format!("{which} is signed with {hash}, which clients reject; get a new one"));
        }
    }
    for (at, pair) in chain.windows(2).enumerate() {
        if pair[0].raw_issuer != pair[1].raw_subject {
            problems.push(format!(
                "certificate {} of the chain is not the issuer of the one before it: that is {}; \
                 put each certificate behind the one that it has signed",
                at + 2,
                pair[0].issuer
            ));
        }
    }
    if first.is_authority && !first.is_self_issued() {
        problems.push("the first certificate is that of an authority; put the host's own first".to_owned());
    }
    if !first.is_for_servers {
        problems
            .push("the certificate is not one for servers (extendedKeyUsage); clients reject it".to_owned());
    }
    if first.names.is_empty() {
        problems.push(format!(
            "the certificate has no host name (subjectAltName), only the subject {}; clients reject it",
            first.subject
        ));
    }
    problems
}

/// Why the library that verifies clients cannot use a list: the rest of a sentence whose subject is the list. The result
/// is the same for every authority; the library needs one.
pub fn why_unusable(
    list: &CertificateRevocationListDer<'static>,
    parsed: &CertificateRevocationList<'_>,
    authority: &CertificateDer<'static>,
) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone()).ok()?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .with_crls([list.clone()])
        .build();
    let error = verifier.err()?;
    Some(match &error {
        _ if parsed.version() != Some(X509Version::V2) || parsed.extensions().is_empty() => {
            "has no extensions (RFC 5280 §5.2); have its authority make one of version 2, with OpenSSL by crl_extensions \
             in its configuration"
                .to_owned()
        }
        _ if parsed.next_update().is_none() => {
            "does not say until when it is valid (nextUpdate); have its authority make one that does".to_owned()
        }
        VerifierBuilderError::InvalidCrl(CertRevocationListError::UnsupportedDeltaCrl) => {
            "has only what has changed since another one; name a whole one".to_owned()
        }
        VerifierBuilderError::InvalidCrl(reason) => format!("cannot be used: {reason:?}"),
        other => format!("cannot be used: {other}"),
    })
}

/// What is wrong with the lists of some authorities: one without a list, and lists that they have not signed.
pub fn problems_of_lists(
    authorities: &[CertificateDer<'_>],
    lists: &[CertificateRevocationListDer<'_>],
) -> Vec<String> {
    let parsed = |der| CertificateRevocationList::from_der(der).ok().map(|(_, list)| list);
    let lists: Vec<_> = lists.iter().filter_map(|list| parsed(list)).collect();
    let parsed = |der| X509Certificate::from_der(der).ok().map(|(_, authority)| authority);
    let mut problems = Vec::new();
    for authority in authorities.iter().filter_map(|der| parsed(der)).filter(|authority| authority.is_ca()) {
        let is_its =
            |list: &&CertificateRevocationList<'_>| list.issuer().as_raw() == authority.subject().as_raw();
        let mut own = lists.iter().filter(is_its).peekable();
        let subject = distinguished(authority.subject());
        if own.peek().is_none() {
            problems.push(format!(
                "the authority {subject} has no list, so that all of its certificates are rejected; add its list"
            ));
        } else if !own.any(|list| has_signed(authority.public_key(), list)) {
            problems.push(format!(
                "the authority {subject} has not signed its list, so that all of its certificates are rejected; get the \
                 right one"
            ));
        }
    }
    problems
}

/// Whether the signature of a list is that of a key.
fn has_signed(key: &SubjectPublicKeyInfo<'_>, list: &CertificateRevocationList<'_>) -> bool {
    let (key, signed) = (&key.subject_public_key.data, list.tbs_cert_list.as_ref());
    // An algorithm of another kind verifies nothing.
    let mut algorithms = provider().signature_verification_algorithms.all.iter();
    algorithms.any(|algorithm| algorithm.verify_signature(key, signed, &list.signature_value.data).is_ok())
}

/// What is wrong with the authorities of a chain, of which clients know none: those that have the right name and have not
/// issued the certificate before them, or may not. Middles of sentences whose subject is the file.
pub fn problems_of_issuers(chain: &[CertificateDer<'_>]) -> Vec<String> {
    let parsed = chain.iter().map(|der| X509Certificate::from_der(der).ok().map(|(_, parsed)| parsed));
    let parsed: Vec<_> = parsed.collect();
    let mut problems = Vec::new();
    for (at, pair) in parsed.windows(2).enumerate() {
        let [Some(issued), Some(issuer)] = pair else { continue };
        let name = issuer.subject().as_raw();
        // Clients have roots of their own.
        if issued.issuer().as_raw() != name || issuer.issuer().as_raw() == name {
            continue;
        }
        let which = format!("certificate {} of the chain, {},", at + 2, distinguished(issuer.subject()));
        if !issuer.is_ca() {
            problems.push(format!("{which} is not that of an authority, so that clients reject the chain"));
        } else if is_not_signed_by(issued, issuer.public_key()) {
            problems.push(format!(
                "{which} has a key by which clients cannot verify the one before it; get the chain again"
            ));
        }
    }
    problems
}

/// What to do about a certificate that is alone in its file, if its authority says where its own certificate is. A root
/// has no need to. The end of a sentence that says that the chain is missing.
pub fn advice_on_missing_issuer(alone: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(alone).ok()?;
    if parsed.issuer().as_raw() == parsed.subject().as_raw() {
        return None;
    }
    let url = parsed.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityInfoAccess(access) => access.iter().find_map(url_of_issuer),
        _ => None,
    })?;
    Some(format!(
        ": clients that do not know {} reject the certificate; put that of {0} behind it ({})",
        distinguished(parsed.issuer()),
        url.escape_debug()
    ))
}

/// Where the certificate of an issuer is (RFC 5280 §4.2.2.1).
fn url_of_issuer<'a>(access: &AccessDescription<'a>) -> Option<&'a str> {
    match access.access_location {
        GeneralName::URI(url)
            if access.access_method.to_id_string() == ISSUERS && url.starts_with("http://") =>
        {
            Some(url)
        }
        _ => None,
    }
}

/// `false`: also if the algorithm is not known here.
fn is_not_signed_by(certificate: &X509Certificate<'_>, key: &SubjectPublicKeyInfo<'_>) -> bool {
    let algorithms = provider().signature_verification_algorithms.all.iter().filter(|algorithm| {
        is_within(&certificate.signature_algorithm, &algorithm.signature_alg_id())
            && is_within(&key.algorithm, &algorithm.public_key_alg_id())
    });
    let (signed, signature) = (certificate.tbs_certificate.as_ref(), &certificate.signature_value.data);
    let mut verified = algorithms
        .map(|algorithm| algorithm.verify_signature(&key.subject_public_key.data, signed, signature))
        .peekable();
    verified.peek().is_some() && verified.all(|verified| verified.is_err())
}

/// Whether the identifier of an algorithm, in DER, has the name and the parameters of this one.
fn is_within(one: &AlgorithmIdentifier<'_>, identifier: &[u8]) -> bool {
    let parameters = one.parameters.as_ref().map_or(&[][..], |any| any.data);
    [one.algorithm.as_bytes(), parameters]
        .iter()
        .all(|part| part.is_empty() || identifier.windows(part.len()).any(|window| window == *part))
}

/// `2026-11-22`
pub fn date(time: i64) -> String {
    let text = site::text::rfc3339(time);
    String::from_utf8_lossy(&text[..10]).into_owned()
}
