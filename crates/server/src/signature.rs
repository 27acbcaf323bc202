//! Signatures of tokens, by AWS-LC or ring, which have the same interface. Knows nothing of tokens.

use auth::keys::PublicKey;
#[cfg(feature = "aws-lc")]
use aws_lc_rs::signature as library;
#[cfg(all(feature = "ring", not(feature = "aws-lc")))]
use ring::signature as library;

/// Whether `signature` is one of `message` by the key: for RSA and Ed25519 as it is, for P-256 as two numbers of 32
/// bytes.
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

#[cfg(all(test, any(feature = "aws-lc", feature = "ring")))]
mod tests {
    use auth::jwt::{JwtError, Rules, verify};
    use auth::keys::Keys;

    use super::*;

    macro_rules! data {
        ($name:literal) => {
            include_str!(concat!("../../auth/src/jwt/tests/", $name)).as_bytes()
        };
    }

    #[test]
    fn checks_the_signatures_of_all_three_algorithms() {
        let keys = Keys::parse(data!("keys.json")).expect("keys");
        for token in [data!("rs256.jwt"), data!("es256.jwt"), data!("eddsa.jwt")] {
            assert!(verify(token, &keys, &Rules::default(), 1_950_000_000, check).is_ok());
            let mut other = token.to_vec();
            let last = other.len() - 10;
            other[last] = if other[last] == b'A' { b'B' } else { b'A' };
            let result = verify(&other, &keys, &Rules::default(), 1_950_000_000, check);
            assert_eq!(result, Err(JwtError::Signature));
        }
    }
}
