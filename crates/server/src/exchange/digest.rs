//! Digest authentication (RFC 7616): challenges, and credentials that answer them.
//!
//! All workers share the key of nonces and the counts of their uses. A reload begins with others, and clients answer a
//! new challenge without asking their users.

use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex};

use auth::digest::{Digest, DigestError, Expected, Passed, Reason, challenge};
use auth::nonce::{Nonce, Use, Uses};
use site::authentication::Authentication;
use site::memory::NONCES;
use taipan_http::head::Head;

use crate::mutex::locked;
use crate::sys;

/// Seconds of a nonce.
const LIFETIME: i64 = 300;

struct Nonces {
    key: [u8; 32],
    /// Makes nonces of the same second different.
    unique: Mutex<u64>,
    uses: Mutex<Uses>,
}

static NONCES_OF_PROCESS: LazyLock<Nonces> = LazyLock::new(|| Nonces {
    key: sys::random_key(),
    unique: Mutex::new(RandomState::new().hash_one(0)),
    uses: Mutex::new(Uses::new(NONCES)),
});

/// A user who has passed, and the value of `Authentication-Info`.
pub struct DigestUser {
    pub name: String,
    pub info: String,
}

/// The values of `WWW-Authenticate`.
pub fn challenges(authentication: &Authentication, reason: Reason, now: i64) -> Vec<String> {
    let nonces = &*NONCES_OF_PROCESS;
    let mut unique = locked(&nonces.unique);
    *unique = unique.wrapping_add(1);
    let nonce = Nonce { time: now, unique: *unique }.sign(&nonces.key);
    let offered =
        authentication.digest_users.iter().flat_map(|users| users.algorithms(&authentication.realm));
    let mut algorithms = Vec::new();
    for algorithm in offered {
        if !algorithms.contains(&algorithm) {
            algorithms.push(algorithm);
        }
    }
    algorithms.iter().map(|algorithm| challenge(&authentication.realm, *algorithm, &nonce, reason)).collect()
}

/// Whether the use of a nonce counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    Rejected,
    /// The credentials have passed for another path of the same request.
    SameRequest,
}

/// The user of these credentials. `head`: as the client has sent it.
pub fn verify(
    authentication: &Authentication,
    head: &Head<'_>,
    digest: &Digest,
    replay: Replay,
    now: i64,
) -> Result<DigestUser, DigestError> {
    let nonces = &*NONCES_OF_PROCESS;
    let expected = Expected {
        method: head.token.as_bytes(),
        target: head.raw_target.as_bytes(),
        realm: &authentication.realm,
        key: &nonces.key,
        now,
        lifetime: LIFETIME,
    };
    let mut result = Err(DigestError::Wrong);
    for users in &authentication.digest_users {
        result = digest.verify(users, &expected);
        if !matches!(result, Err(DigestError::Wrong)) {
            break;
        }
    }
    let Passed { user, nonce, count, info } = result?;
    let passed = DigestUser { name: user.to_owned(), info };
    if replay == Replay::SameRequest {
        return Ok(passed);
    }
    let last = *locked(&nonces.unique);
    let mut uses = locked(&nonces.uses);
    uses.expire(now, LIFETIME, last);
    match uses.note(nonce, count) {
        Use::First => Ok(passed),
        // The client repeats it with a new nonce, and another client cannot.
        Use::Again | Use::Forgotten => Err(DigestError::Stale),
    }
}
