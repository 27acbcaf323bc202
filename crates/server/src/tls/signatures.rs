//! Checks the signatures of tokens, by AWS-LC or ring.

#[cfg(feature = "aws-lc")]
use aws_lc_rs::signature as library;
#[cfg(not(feature = "aws-lc"))]
use ring::signature as library;

use auth::keys::PublicKey;
use library::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

/// For `auth::jwt::verify`.
pub fn check(key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
    let checked =
        match key {
            PublicKey::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            PublicKey::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            PublicKey::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
    checked.is_ok()
}

#[cfg(test)]
mod tests {
    use auth::jwt::{JwtError, Rules, verify};
    use auth::keys::Keys;

    use super::*;

    macro_rules! data {
        ($name:literal) => {
            include_str!(concat!("../../../auth/src/jwt/tests/", $name)).as_bytes()
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
