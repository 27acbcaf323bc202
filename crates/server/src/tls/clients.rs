//! The verification of the certificates of clients, by the rules of a host.

use std::sync::{Arc, Mutex};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};

use super::crypto::digest;
use super::inspect::{expiry, list_expiry};
use super::lifetime;
use super::material::{ClientRules, Demand};

use crate::mutex::locked;

/// Bytes of the names of authorities that a client is told. The length of their list has two bytes (RFC 8446 §4.2.4),
/// which the library does not check.
const MAX_HINTS: usize = 60_000;

/// Verifies as the library does, by the authorities that have not expired: the library does not look at their dates. A
/// session ends when a certificate of its client does, or an authority or a list, so that a resumption is not accepted
/// where a full handshake would not be.
#[derive(Debug)]
struct Verifier {
    rules: ClientRules,
    provider: Arc<CryptoProvider>,
    /// The names of all authorities. Empty: also if they are too long, so that a client shows what it has.
    hints: Vec<DistinguishedName>,
    present: Mutex<Present>,
}

#[derive(Debug, Clone)]
struct Present {
    /// `None`: there are no authorities, or all have expired.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// When the next authority or list expires, in seconds since 1970.
    until: u64,
}

/// Errors: an authority or a list that cannot be used, in a sentence.
pub fn verifier(
    rules: &ClientRules,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    if rules.demand == Demand::Nothing {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    // Without authorities, no certificate is accepted.
    let hints = match rules.authorities.is_empty() {
        true => Vec::new(),
        false => {
            let all = with_authorities(rules, rules.authorities.iter(), provider)?;
            let names = all.root_hint_subjects();
            let length: usize = names.iter().map(|name| size_of::<u16>() + name.as_ref().len()).sum();
            if length > MAX_HINTS { Vec::new() } else { names.to_vec() }
        }
    };
    let present = Mutex::new(Present { verifier: None, until: 0 });
    Ok(Arc::new(Verifier { rules: rules.clone(), provider: provider.clone(), hints, present }))
}

/// The library's verifier with some of the authorities.
fn with_authorities<'a>(
    rules: &ClientRules,
    authorities: impl Iterator<Item = &'a CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let added = roots.add(authority.clone());
        added.map_err(|e| format!("an authority of \"client_ca\" cannot be used: {e}"))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let builder = match rules.revoked.is_empty() {
        true => builder,
        false => builder.with_crls(rules.revoked.iter().cloned()).enforce_revocation_expiration(),
    };
    let builder = match rules.demand {
        Demand::Optional => builder.allow_unauthenticated(),
        Demand::Nothing | Demand::Required => builder,
    };
    builder.build().map_err(|e| format!("a list of \"client_crl\" cannot be used: {e}"))
}

impl Verifier {
    fn at(&self, now: u64) -> Present {
        // Nothing panics in between.
        let mut present = locked(&self.present);
        if present.until <= now {
            let is_valid = |der: &&CertificateDer<'_>| expiry(der).is_some_and(|end| now < end);
            let valid = self.rules.authorities.iter().filter(is_valid);
            let ends = valid.clone().filter_map(|der| expiry(der));
            let ends = ends.chain(self.rules.revoked.iter().filter_map(|list| list_expiry(list)));
            let until = ends.filter(|end| now < *end).min().unwrap_or(u64::MAX);
            *present = Present { verifier: with_authorities(&self.rules, valid, &self.provider).ok(), until };
        }
        present.clone()
    }

    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        self.rules.demand == Demand::Required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let Present { verifier, until } = self.at(now.as_secs());
        let verifier = verifier.ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let verified = verifier.verify_client_cert(own, between, now)?;
        let ends = between.iter().chain([own]).filter_map(|der| expiry(der));
        lifetime::limit(ends.chain([until]).min().unwrap_or(until));
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, self.algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, self.algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}

/// A short text that is another one for other rules, so that a session is resumed only under those that it began with.
pub fn fingerprint(rules: &ClientRules) -> Vec<u8> {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(&[rules.demand as u8]);
    let authorities = rules.authorities.iter().map(|der| &der[..]);
    for der in authorities.chain(rules.revoked.iter().map(|der| &der[..])) {
        hash.update(&(der.len() as u64).to_be_bytes());
        hash.update(der);
    }
    hash.finish().as_ref().to_vec()
}
