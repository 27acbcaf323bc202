use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

use super::*;
use crate::keys::KeysError;

/// Keys and tokens that OpenSSL made.
const RSA: &str = include_str!("rsa.pub");
const RSA_PKCS1: &str = include_str!("rsa1.pub");
const EC: &str = include_str!("ec.pub");
const ED: &str = include_str!("ed.pub");
const SET: &str = include_str!("keys.json");
const RS256: &str = include_str!("rs256.jwt");
const ES256: &str = include_str!("es256.jwt");
const EDDSA: &str = include_str!("eddsa.jwt");
/// Signed with the text of the RSA key as the secret of a MAC.
const HS256: &str = include_str!("hs256.jwt");

const NOW: i64 = 1_950_000_000;

fn check(key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
    let result =
        match key {
            PublicKey::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            PublicKey::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            PublicKey::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
    result.is_ok()
}

fn keys(file: &str) -> Keys {
    Keys::parse(file.as_bytes()).unwrap_or_else(|error| panic!("{error}: {file}"))
}

fn verified(token: &str, keys: &Keys) -> Result<Claims, JwtError> {
    verify(token.as_bytes(), keys, &Rules::default(), NOW, check)
}

/// A token with this header and payload, and a signature that is checked by `always`.
fn unsigned(header: &str, payload: &str) -> String {
    [header, payload, "signature"].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part)).join(".")
}

fn always(_: &PublicKey, _: &[u8], _: &[u8]) -> bool {
    true
}

#[test]
fn passes_tokens_of_openssl() {
    let all = format!("{RSA}\nand\n{EC}{ED}");
    let table = [
        (RS256, RSA, [EC, ED]),
        (RS256, RSA_PKCS1, [EC, ED]),
        (ES256, EC, [RSA, ED]),
        (EDDSA, ED, [RSA, EC]),
    ];
    for (token, own, others) in table {
        for file in [own, &all, SET] {
            let claims = verified(token, &keys(file)).unwrap_or_else(|error| panic!("{error}: {file}"));
            assert_eq!(claims.values("sub"), ["ann"]);
        }
        for file in others {
            assert_eq!(verified(token, &keys(file)), Err(JwtError::Signature), "{file}");
        }
    }
}

#[test]
fn passes_no_token_that_was_changed() {
    for token in [RS256, ES256, EDDSA] {
        let keys = keys(SET);
        for at in 0..token.len() {
            let mut other = token.as_bytes().to_vec();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            assert!(verify(&other, &keys, &Rules::default(), NOW, check).is_err(), "{at}");
        }
        for end in (0..token.len()).step_by(7) {
            assert!(verified(&token[..end], &keys).is_err());
        }
    }
}

#[test]
fn passes_no_token_without_a_signature_or_with_that_of_a_secret() {
    let claims = r#"{"exp":2000000000}"#;
    let table = [
        (HS256.to_owned(), JwtError::Algorithm),
        (unsigned(r#"{"alg":"none"}"#, claims), JwtError::Algorithm),
        (unsigned(r#"{"alg":"None"}"#, claims), JwtError::Algorithm),
        (unsigned(r#"{"alg":"rs256"}"#, claims), JwtError::Algorithm),
        (unsigned(r#"{"alg":"RS512"}"#, claims), JwtError::Algorithm),
        (unsigned(r#"{"alg":"HS256"}"#, claims), JwtError::Algorithm),
        (unsigned(r#"{"alg":7}"#, claims), JwtError::Malformed),
        (unsigned("{}", claims), JwtError::Malformed),
        (unsigned("[]", claims), JwtError::Malformed),
        (unsigned(r#"{"alg":"ES256"}"#, claims), JwtError::Signature),
        (unsigned(r#"{"alg":"RS256","crit":["b64"],"b64":false}"#, claims), JwtError::Critical),
        (unsigned(r#"{"alg":"RS256"}"#, "[]"), JwtError::Malformed),
        (unsigned(r#"{"alg":"RS256"}"#, &"[".repeat(10_000)), JwtError::Malformed),
        (String::new(), JwtError::Malformed),
        ("..".into(), JwtError::Malformed),
        (format!("{RS256}."), JwtError::Malformed),
        (format!("{RS256}="), JwtError::Malformed),
        (RS256.replace('.', ".."), JwtError::Malformed),
        (format!("{RS256}{}", "A".repeat(MAX_TOKEN)), JwtError::TooLong),
    ];
    let keys = keys(RSA);
    for (token, expected) in table {
        assert_eq!(verify(token.as_bytes(), &keys, &Rules::default(), NOW, always), Err(expected), "{token}");
    }
}

#[test]
fn a_key_id_chooses_the_key_and_never_the_algorithm() {
    let keys = keys(SET);
    // The key with this ID is of another algorithm.
    let header = r#"{"alg":"RS256","kid":"es256"}"#;
    let token = unsigned(header, r#"{"exp":2000000000}"#);
    assert_eq!(verify(token.as_bytes(), &keys, &Rules::default(), NOW, always), Err(JwtError::Signature));
    // A key without that ID may be meant.
    let token = unsigned(r#"{"alg":"RS256","kid":"new"}"#, r#"{"exp":2000000000}"#);
    assert!(verify(token.as_bytes(), &keys, &Rules::default(), NOW, always).is_ok());
}

#[test]
fn checks_times_issuer_and_audience() {
    let rules = Rules { issuer: Some("i"), audience: Some("a"), leeway: 60 };
    let whole = r#"{"iss":"i","aud":"a","exp":1000,"nbf":500}"#;
    let table = [
        (whole.to_owned(), 700, Ok(())),
        (whole.to_owned(), 1059, Ok(())),
        (whole.to_owned(), 1060, Err(JwtError::Expired)),
        (whole.to_owned(), i64::MAX, Err(JwtError::Expired)),
        (whole.to_owned(), 440, Ok(())),
        (whole.to_owned(), 439, Err(JwtError::NotYet)),
        (whole.to_owned(), i64::MIN, Err(JwtError::NotYet)),
        (whole.replace(r#""exp":1000,"#, ""), 700, Err(JwtError::Missing("exp"))),
        (whole.replace("1000", "\"1000\""), 700, Err(JwtError::Missing("exp"))),
        (whole.replace("1000", "1e400"), 700, Err(JwtError::Malformed)),
        (whole.replace("1000", "1000.5"), 1060, Ok(())),
        (whole.replace("500", "null"), 700, Err(JwtError::Missing("nbf"))),
        (whole.replace(r#","nbf":500"#, ""), 0, Ok(())),
        (whole.replace(r#""i""#, r#""I""#), 700, Err(JwtError::Issuer)),
        (whole.replace(r#""i""#, r#"["i"]"#), 700, Err(JwtError::Issuer)),
        (whole.replace(r#""iss":"i","#, ""), 700, Err(JwtError::Issuer)),
        (whole.replace(r#""a","#, r#"["b","a"],"#), 700, Ok(())),
        (whole.replace(r#""a","#, r#"["b"],"#), 700, Err(JwtError::Audience)),
        (whole.replace(r#""aud":"a","#, ""), 700, Err(JwtError::Audience)),
    ];
    for (claims, now, expected) in table {
        let token = unsigned(r#"{"alg":"RS256"}"#, &claims);
        let result = verify(token.as_bytes(), &keys(RSA), &rules, now, always);
        assert_eq!(result.map(drop), expected, "{claims} at {now}");
    }
}

#[test]
fn finds_claims() {
    let claims = verified(RS256, &keys(SET)).expect("it is right");
    let table: [(&str, &[&str]); 9] = [
        ("sub", &["ann"]),
        ("aud", &["files", "mail"]),
        ("realm_access.roles", &["admin", "staff"]),
        ("https://example.com/team", &["blue"]),
        ("level", &["3"]),
        ("active", &["true"]),
        ("realm_access", &[]),
        ("none", &[]),
        ("sub.x", &[]),
    ];
    for (name, expected) in table {
        assert_eq!(claims.values(name), expected, "{name}");
    }
    assert!(claims.has("realm_access.roles", "admin") && !claims.has("realm_access.roles", "adm"));
    assert!(claims.has("scope", "write") && !claims.has("scope", "read write") && !claims.has("scope", ""));
}

#[test]
fn reads_keys_and_says_what_is_wrong_with_others() {
    assert_eq!(keys(SET).len(), 3, "the others are for other uses or algorithms");
    let one = SET.split_once("[\n").and_then(|(_, rest)| rest.split_once("},")).expect("the first key").0;
    assert_eq!(keys(&format!("{one}}}")).len(), 1);
    let table = [
        (String::new(), KeysError::NotKeys),
        ("keys".into(), KeysError::NotKeys),
        ("{\"keys\": 7}".into(), KeysError::NotKeys),
        ("{\"keys\": []}".into(), KeysError::None),
        ("{\"keys\": [{\"kty\":\"oct\",\"k\":\"AA\"}]}".into(), KeysError::None),
        ("{\"keys\": [{}]}".into(), KeysError::Damaged(1)),
        ("{\"keys\": [7]}".into(), KeysError::Damaged(1)),
        (SET.replace("\"e\": \"AQAB\"", "\"e\": \"AQAB\", \"d\": \"AA\""), KeysError::Private(1)),
        (SET.replace("\"AQAB\"", "\"AQAB=\""), KeysError::Damaged(1)),
        (SET.replace("\"y\": \"", "\"y\": \"AA"), KeysError::Damaged(2)),
        (format!("{RSA}{}", EC.replace("MFkw", "MFkx")), KeysError::Damaged(2)),
        (RSA.replace("-----END", "-----"), KeysError::Damaged(1)),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----".into(), KeysError::Private(1)),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----".into(), KeysError::Certificate(1)),
        ("-----BEGIN X-----\nAAAA\n-----END X-----".into(), KeysError::Unsupported(1)),
        // X25519, which does not sign.
        (ED.replace("K2Vw", "K2Vu"), KeysError::Unsupported(1)),
        (RSA.repeat(33), KeysError::TooMany),
        (" ".repeat(2 << 20), KeysError::TooLarge),
    ];
    for (file, expected) in table {
        let shown: String = file.chars().take(200).collect();
        assert_eq!(Keys::parse(file.as_bytes()), Err(expected), "{shown}");
    }
    for end in 0..RSA.trim_end().len() {
        assert!(Keys::parse(&RSA.as_bytes()[..end]).is_err());
    }
}
