//! Signatures of tokens, by AWS-LC or ring, which have the same interface. Knows nothing of tokens.

use auth::keys::PublicKey;
#[cfg(feature = "aws-lc")]
use aws_lc_rs::signature as library;
#[cfg(all(feature = "ring", not(feature = "aws-lc")))]
use ring::signature as library;

/// Whether `signature` is one of `message` by the key: for RSA and Ed25519 as it is, for P-256 as two numbers of 32 bytes.
#[cfg(any(feature = "aws-lc", feature = "ring"))]
pub fn check(key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
    use library::{ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256};
    use library::{RsaPublicKeyComponents, UnparsedPublicKey};
    let result = match key {
        PublicKey::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: &**modulus, e: &**exponent }
            .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
        PublicKey::P256(point) => {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
        }
        PublicKey::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
    };
    result.is_ok()
}

/// Without cryptography no token passes.
#[cfg(not(any(feature = "aws-lc", feature = "ring")))]
pub fn check(_: &PublicKey, _: &[u8], _: &[u8]) -> bool {
    false
}

/// Whether this build can check signatures.
pub const IS_SUPPORTED: bool = cfg!(any(feature = "aws-lc", feature = "ring"));
