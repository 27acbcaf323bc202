//! Values of `Authorization`. Basic is written back to the same text; Digest passes only users that there are, with
//! nonces of the server; a token passes only before it expires.

use auth::basic::{Authorization, Basic};
use auth::digest::{Digest, Expected};
use auth::digest_users::DigestUsers;
use auth::jwt;
use auth::keys::Keys;

use crate::cuts::first_line;

const KEY: [u8; 32] = *b"0123456789abcdef0123456789abcdef";

/// A public key, so that tokens have one that may have signed them.
const PUBLIC_KEY: &[u8] = b"-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAhXiRE58GkGGZ6KjdsoCEtXycSoMqwAlUj1c0ug0IiAY=\n\
    -----END PUBLIC KEY-----\n";

/// The first line is the value, the rest a file of users for Digest, all in the realm `r`.
pub fn credentials(data: &[u8]) {
    let (value, file) = first_line(data);
    match Authorization::parse(value) {
        Authorization::Basic(token) => basic(token),
        Authorization::Digest(text) => digest(text, file),
        Authorization::Bearer(text) => token(text),
        Authorization::Other => {}
    }
    // Another scheme may have the same credentials.
    let behind = value.splitn(2, |&byte| byte == b' ').nth(1).unwrap_or_default();
    basic(behind);
    digest(behind, file);
    token(behind);
}

fn basic(token: &[u8]) {
    let Ok(basic) = Basic::parse(token) else { return };
    assert!(!basic.user.contains(':') && !basic.user.chars().any(char::is_control));
    assert!(!basic.password.0.iter().any(u8::is_ascii_control));
    let text = [basic.user.as_bytes(), b":", &basic.password.0].concat();
    let length = token.iter().filter(|&&byte| byte != b'=').count();
    assert_eq!(text.len(), length * 3 / 4);
    assert!(!format!("{basic:?}").contains("Password("));
}

fn digest(text: &[u8], file: &[u8]) {
    let (Ok(digest), Ok(users)) = (Digest::parse(text), DigestUsers::parse(file)) else { return };
    for target in [&b"/"[..], b"/a?b"] {
        let expected = Expected { method: b"GET", target, realm: "r", key: &KEY, now: 1000, lifetime: 300 };
        let Ok(passed) = digest.verify(&users, &expected) else { continue };
        assert!(users.contains("r", passed.user));
        assert!((700..=1000).contains(&passed.nonce.time));
        assert!(!passed.info.contains(['\r', '\n']));
        for other in [
            Expected { method: b"POST", ..expected },
            Expected { target: b"/other", ..expected },
            Expected { realm: "other", ..expected },
            Expected { key: &[0; 32], ..expected },
            Expected { now: 2000, ..expected },
        ] {
            assert!(digest.verify(&users, &other).is_err(), "{other:?}");
        }
    }
}

fn token(text: &[u8]) {
    let keys = Keys::parse(PUBLIC_KEY).expect("a key");
    let rules = jwt::Rules::default();
    assert!(jwt::verify(text, &keys, &rules, 1000, |_, _, _| false).is_err());
    let Ok(claims) = jwt::verify(text, &keys, &rules, 1000, |_, _, _| true) else { return };
    let expiry: f64 = claims.values("exp").first().and_then(|time| time.parse().ok()).expect("a time");
    assert!(expiry > 1000.0);
    let later = jwt::verify(text, &keys, &rules, i64::MAX, |_, _, _| true);
    assert!(later.is_err() || expiry >= i64::MAX as f64);
}
