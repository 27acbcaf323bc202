//! What a stored certificate is: its names and dates, its name at its authority (RFC 9773 §4.1), and whether this
//! server has made it itself.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, ParsedExtension, X509Certificate};

use super::account::encode;
use super::issue;
use super::schedule::{Time, Validity};
use super::storage::MAX_FILE;
use crate::tls::inspect::CertificateFacts;
use crate::tls::provider;

pub struct Stored {
    pub facts: CertificateFacts,
    /// `None`: the certificate does not name its authority.
    pub identifier: Option<String>,
}

impl Stored {
    /// Errors: `pem` does not begin with a certificate.
    pub fn read(pem: &[u8]) -> Result<Stored, String> {
        let first =
            CertificateDer::from_pem_slice(pem).map_err(|_| "it contains no certificate".to_owned())?;
        let facts = CertificateFacts::read(&first).map_err(|why| format!("the certificate {why}"))?;
        Ok(Stored { facts, identifier: identifier(&first) })
    }

    pub fn is_self_made(&self) -> bool {
        self.facts.issuer == self.facts.subject && self.facts.subject.contains(issue::SELF_SIGNED_NAME)
    }

    /// `None`: the certificate is not what an authority has issued for these names.
    pub fn validity_for(&self, names: &[String]) -> Option<Validity> {
        let is_for_all = names.iter().all(|name| self.facts.covers(&name.to_ascii_lowercase()));
        (is_for_all && !self.is_self_made()).then(|| Validity {
            not_before: seconds(self.facts.not_before),
            not_after: seconds(self.facts.not_after),
        })
    }
}

fn seconds(time: i64) -> Time {
    Time::try_from(time).unwrap_or(0)
}

/// The identifier of the authority's key, and the serial number.
fn identifier(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let key = parsed.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(authority) => authority.key_identifier.as_ref(),
        _ => None,
    })?;
    Some(format!("{}.{}", encode(key.0), encode(parsed.raw_serial())))
}

/// Errors: `pem` is not a chain for these names with its key behind it, or is too long to be stored.
pub fn check(pem: &[u8], names: &[String]) -> Result<(), String> {
    if pem.len() as u64 > MAX_FILE {
        return Err(format!("the chain has more than {MAX_FILE} bytes"));
    }
    let stored = Stored::read(pem)?;
    stored
        .validity_for(names)
        .ok_or_else(|| "the certificate is not for the names of the host".to_owned())?;
    certified(pem).map(drop)
}

/// The chain with its key. Errors: they do not fit together.
pub fn certified(pem: &[u8]) -> Result<CertifiedKey, String> {
    let certified = unchecked(pem)?;
    certified.keys_match().map_err(|_| "the key is not that of the certificate".to_owned())?;
    Ok(certified)
}

/// The chain with its key. Errors: one of them is missing.
pub fn unchecked(pem: &[u8]) -> Result<CertifiedKey, String> {
    let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|_| "its chain cannot be read".to_owned())?;
    if chain.is_empty() {
        return Err("it contains no certificate".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| "it contains no whole key".to_owned())?;
    let key = provider().key_provider.load_private_key(key).map_err(|e| e.to_string())?;
    Ok(CertifiedKey::new(chain, key))
}

#[cfg(test)]
mod tests {
    use super::super::issue::{Authority, Pair, self_signed};
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_certificate_counts_if_an_authority_has_issued_it_for_all_names() {
        let authority = Authority::generate("taipan test").unwrap();
        let issued = authority.issue(&names(&["a.example", "*.b.example"])).unwrap().pem();
        let stored = Stored::read(issued.as_bytes()).unwrap();
        let check = |wanted: &[&str], expected: bool| {
            assert_eq!(stored.validity_for(&names(wanted)).is_some(), expected, "{wanted:?}");
        };
        check(&["a.example"], true);
        check(&["A.example", "x.b.example", "*.b.example"], true);
        check(&["a.example", "c.example"], false);
        check(&["b.example"], false);
        let own = self_signed(&names(&["a.example"])).unwrap().pem();
        let own = Stored::read(own.as_bytes()).unwrap();
        assert!(own.is_self_made() && own.validity_for(&names(&["a.example"])).is_none());
    }

    #[test]
    fn a_chain_is_stored_only_with_its_key() {
        let authority = Authority::generate("taipan test").unwrap();
        let issue = || authority.issue(&names(&["a.example"])).unwrap();
        let (one, other) = (issue(), issue());
        assert_eq!(check(one.pem().as_bytes(), &names(&["a.example"])), Ok(()));
        let mixed = Pair { chain: one.chain.clone(), key: other.key };
        assert!(check(mixed.pem().as_bytes(), &names(&["a.example"])).is_err());
        assert!(check(issue::certificate_pem(&one.chain[0]).as_bytes(), &names(&["a.example"])).is_err());
        assert!(check(one.pem().as_bytes(), &names(&["c.example"])).is_err());
        assert!(check(b"", &[]).is_err());
    }

    #[test]
    fn the_identifier_has_the_authority_and_the_serial_number() {
        let authority = Authority::generate("taipan test").unwrap();
        let issued = authority.issue(&names(&["a.example"])).unwrap();
        let found = Stored::read(issued.pem().as_bytes()).unwrap().identifier.unwrap();
        let (key, serial) = found.split_once('.').unwrap();
        assert!(!key.is_empty() && !serial.is_empty());
        let own = self_signed(&names(&["a.example"])).unwrap();
        assert_eq!(Stored::read(own.pem().as_bytes()).unwrap().identifier, None);
    }
}
