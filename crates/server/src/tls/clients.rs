//! The verification of the certificates of clients, by the rules of a host.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::crypto::digest;
use super::material::{ClientRules, Demand};

/// Errors: an authority or a list that cannot be used, in a sentence.
pub fn verifier(
    rules: &ClientRules,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    if rules.demand == Demand::Nothing {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    let mut roots = RootCertStore::empty();
    for authority in &rules.authorities {
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
