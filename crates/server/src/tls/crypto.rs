//! The cryptography: AWS-LC, or ring, which has the same interface. AWS-LC is joined by ring for records, on processors
//! whose instructions it does not use.

use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use rustls::{CipherSuite, NamedGroup};
use site::tls::{Cipher, Group, Tls};

#[cfg(all(test, feature = "aws-lc"))]
pub use aws_lc_rs::signature;
#[cfg(feature = "aws-lc")]
pub use aws_lc_rs::{aead, digest, hkdf, rand};
#[cfg(feature = "aws-lc")]
use rustls::crypto::aws_lc_rs as library;

#[cfg(all(test, not(feature = "aws-lc")))]
pub use ring::signature;
#[cfg(not(feature = "aws-lc"))]
pub use ring::{aead, digest, hkdf, rand};
#[cfg(not(feature = "aws-lc"))]
use rustls::crypto::ring as library;

/// The cryptography with all that it has.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(usual_provider())).clone()
}

fn usual_provider() -> CryptoProvider {
    #[cfg(all(feature = "aws-lc", target_arch = "x86_64"))]
    if is_ring_faster() {
        let cipher_suites = rustls::crypto::ring::DEFAULT_CIPHER_SUITES.to_vec();
        return CryptoProvider { cipher_suites, ..library::default_provider() };
    }
    library::default_provider()
}

/// Whether this processor has AES for two blocks at a time, which only ring uses, but not for four, which AWS-LC uses.
#[cfg(all(feature = "aws-lc", target_arch = "x86_64"))]
fn is_ring_faster() -> bool {
    let takes_two = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("vpclmulqdq");
    let takes_four = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    takes_two && !takes_four
}

/// The cryptography with the ciphers and groups of a configuration, in its order. Errors: none of the groups is
/// supported.
pub fn chosen_provider(tls: &Tls) -> Result<Arc<CryptoProvider>, String> {
    let mut chosen = usual_provider();
    if !tls.ciphers.is_empty() {
        let all = std::mem::take(&mut chosen.cipher_suites);
        for cipher in &tls.ciphers {
            chosen.cipher_suites.extend(all.iter().filter(|suite| is_of(*cipher, suite.suite())));
        }
    }
    let find = |group: &Group| library::ALL_KX_GROUPS.iter().find(|known| known.name() == name(*group));
    chosen.kx_groups = tls.groups.iter().filter_map(find).copied().collect();
    match chosen.kx_groups.is_empty() {
        true => Err("this build supports none of \"groups\" in [tls]; remove the key, or build with aws-lc"
            .to_owned()),
        false => Ok(Arc::new(chosen)),
    }
}

fn is_of(cipher: Cipher, suite: CipherSuite) -> bool {
    use CipherSuite::*;
    match cipher {
        Cipher::Aes128Gcm => matches!(
            suite,
            TLS13_AES_128_GCM_SHA256
                | TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        ),
        Cipher::Aes256Gcm => matches!(
            suite,
            TLS13_AES_256_GCM_SHA384
                | TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
                | TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
        ),
        Cipher::ChaCha20Poly1305 => matches!(
            suite,
            TLS13_CHACHA20_POLY1305_SHA256
                | TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
                | TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
        ),
    }
}

fn name(group: Group) -> NamedGroup {
    match group {
        Group::X25519MlKem768 => NamedGroup::X25519MLKEM768,
        Group::X25519 => NamedGroup::X25519,
        Group::P256 => NamedGroup::secp256r1,
        Group::P384 => NamedGroup::secp384r1,
    }
}

/// Private keys, which may sign in another process.
pub type SigningKeys = Vec<Arc<dyn SigningKey>>;

/// A key that signs in this process.
pub fn signing_key(key: &PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, rustls::Error> {
    library::sign::any_supported_type(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_same_ciphers_on_every_processor() {
        let names = |provider: &CryptoProvider| -> Vec<CipherSuite> {
            provider.cipher_suites.iter().map(|suite| suite.suite()).collect()
        };
        assert_eq!(names(&provider()), names(&library::default_provider()));
    }
}
