//! What a server signs in a handshake. The signer signs nothing else, so that a key cannot be used for other
//! statements, such as certificates or requests for them.
//!
//! Knows no keys.

use rustls::SignatureScheme;

/// RFC 8446 §4.4.3: 64 spaces, the context and a zero byte, and behind them the hash of the handshake.
const CONTEXT: &[u8] = b"TLS 1.3, server CertificateVerify\0";
const SPACES: usize = 64;
/// SHA-256 and SHA-384: the hashes of the cipher suites.
const HASHES: [usize; 2] = [32, 48];

/// RFC 8422 §5.4: the random bytes of the client and of the server, and behind them the parameters of the key exchange.
const RANDOMS: usize = 2 * 32;
const NAMED_CURVE: u8 = 3;
/// The groups of RFC 8422 §5.1.1, with the bytes of a public key: secp256r1, secp384r1, secp521r1, x25519 and x448.
const GROUPS: [(u16, usize); 5] = [(0x17, 65), (0x18, 97), (0x19, 133), (0x1d, 32), (0x1e, 56)];

/// Bytes of the longest statement.
pub const LONGEST: usize = RANDOMS + 4 + 133;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Tls12,
    Tls13,
}

/// The version in whose handshake a server makes this statement. `None`: in none.
pub fn version(message: &[u8]) -> Option<Version> {
    if is_certificate_verify(message) {
        return Some(Version::Tls13);
    }
    is_key_exchange(message).then_some(Version::Tls12)
}

impl Version {
    /// RFC 8446 §4.2.3: signatures by PKCS #1 v1.5 and with SHA-1 are of earlier versions.
    pub fn has(self, scheme: SignatureScheme) -> bool {
        use SignatureScheme::*;
        match scheme {
            RSA_PSS_SHA256 | RSA_PSS_SHA384 | RSA_PSS_SHA512 | ED25519 | ED448 => true,
            ECDSA_NISTP256_SHA256 | ECDSA_NISTP384_SHA384 | ECDSA_NISTP521_SHA512 => true,
            RSA_PKCS1_SHA256 | RSA_PKCS1_SHA384 | RSA_PKCS1_SHA512 => self == Version::Tls12,
            _ => false,
        }
    }
}

fn is_certificate_verify(message: &[u8]) -> bool {
    let Some((spaces, rest)) = message.split_at_checked(SPACES) else { return false };
    let hash = rest.strip_prefix(CONTEXT);
    spaces.iter().all(|byte| *byte == b' ') && hash.is_some_and(|hash| HASHES.contains(&hash.len()))
}

fn is_key_exchange(message: &[u8]) -> bool {
    match message.get(RANDOMS..) {
        Some([NAMED_CURVE, group @ .., _]) if group.len() > 3 => {
            let (group, length) = (u16::from_be_bytes([group[0], group[1]]), usize::from(group[2]));
            message.len() == RANDOMS + 4 + length && GROUPS.contains(&(group, length))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_signs_the_hash_of_a_handshake_or_a_key_exchange_and_nothing_else() {
        let verify = |spaces: usize, context: &[u8], hash: usize| {
            [&vec![b' '; spaces], context, &vec![9; hash]].concat()
        };
        let exchange = |parameters: &[u8], key: usize| [&[8; RANDOMS], parameters, &vec![4; key]].concat();
        let client = b"TLS 1.3, client CertificateVerify\0";
        for (message, expected) in [
            (verify(64, CONTEXT, 32), Some(Version::Tls13)),
            (verify(64, CONTEXT, 48), Some(Version::Tls13)),
            (verify(64, CONTEXT, 31), None),
            (verify(64, CONTEXT, 33), None),
            (verify(64, CONTEXT, 0), None),
            (verify(63, CONTEXT, 32), None),
            (verify(65, CONTEXT, 32), None),
            (verify(64, client, 32), None),
            (verify(64, &CONTEXT[..33], 32), None),
            (exchange(&[3, 0, 0x17, 65], 65), Some(Version::Tls12)),
            (exchange(&[3, 0, 0x18, 97], 97), Some(Version::Tls12)),
            (exchange(&[3, 0, 0x19, 133], 133), Some(Version::Tls12)),
            (exchange(&[3, 0, 0x1d, 32], 32), Some(Version::Tls12)),
            (exchange(&[3, 0, 0x1e, 56], 56), Some(Version::Tls12)),
            (exchange(&[3, 0, 0x1d, 32], 31), None),
            (exchange(&[3, 0, 0x1d, 32], 33), None),
            (exchange(&[3, 0, 0x1d, 0], 0), None),
            (exchange(&[3, 0, 0x17, 32], 32), None),
            (exchange(&[3, 1, 0x1d, 32], 32), None),
            (exchange(&[1, 0, 0x1d, 32], 32), None),
            (exchange(&[3, 0], 0), None),
            (exchange(&[], 0), None),
            (vec![], None),
            (vec![b' '; 64], None),
            // The certificate of another key, as DER begins.
            ([&[0x30, 0x82, 1, 0x0a][..], &[7; 400]].concat(), None),
        ] {
            assert_eq!(version(&message), expected, "{}", message.escape_ascii());
            assert!(expected.is_none() || message.len() <= LONGEST);
        }
    }

    #[test]
    fn schemes_of_tls_1_2_are_not_those_of_tls_1_3() {
        use SignatureScheme::*;
        for (scheme, in_1_2, in_1_3) in [
            (ECDSA_NISTP256_SHA256, true, true),
            (RSA_PSS_SHA256, true, true),
            (ED25519, true, true),
            (RSA_PKCS1_SHA256, true, false),
            (RSA_PKCS1_SHA1, false, false),
            (ECDSA_SHA1_Legacy, false, false),
            (Unknown(0x1234), false, false),
        ] {
            let has = (Version::Tls12.has(scheme), Version::Tls13.has(scheme));
            assert_eq!(has, (in_1_2, in_1_3), "{scheme:?}");
        }
    }
}
