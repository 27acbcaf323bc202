//! Tokens: those that were right not long ago, and the thread that verifies the others.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use site::jwt::{Jwt, TokenRejection, Verified};

use super::login_attempts::{Subject, attempts};
use super::remembered::{Key, Remembered};
use crate::background::Background;
use crate::signature;

/// Tokens of a worker that may wait. Requests with further ones get 503.
const QUEUE: usize = 64;
/// How long a token may wait. Then its request gets 503.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long a right token need not be verified again, unless it ends before.
const REMEMBERED: Duration = Duration::from_mins(5);

type Variables = Vec<(String, Vec<u8>)>;

pub struct TokenChecks {
    /// What right tokens say, by a keyed hash of the rules and the token.
    known: Remembered,
    /// With a low priority: tokens that clients try do not delay other responses.
    checks: Background,
}

/// The result for a token.
#[derive(Debug, PartialEq, Eq)]
pub enum Checked {
    /// What scripts and applications learn.
    Right(Variables),
    Rejected(TokenRejection),
    /// The client has to wait after tokens that the issuer has not made.
    Wait(Duration),
    /// Too many tokens wait.
    Busy,
}

impl Default for TokenChecks {
    fn default() -> TokenChecks {
        TokenChecks { known: Remembered::default(), checks: Background::new(QUEUE) }
    }
}

impl TokenChecks {
    /// Verifies a token, unless it was right not long ago. `now` is in seconds since 1970.
    pub async fn verify(&self, jwt: &Arc<Jwt>, token: &[u8], client: Option<IpAddr>, now: i64) -> Checked {
        let key = self.key(jwt, token);
        if let Some(variables) = self.known.get(key, Instant::now()) {
            return Checked::Right(variables);
        }
        if let Some(wait) = wait(client) {
            return Checked::Wait(wait);
        }
        let (own, token) = (jwt.clone(), token.to_vec());
        // A client that disconnects meanwhile has its check left out.
        let Some(result) = self.checks.run(move || check(&own, &token, client, now)) else {
            return Checked::Busy;
        };
        match tokio::time::timeout(TIMEOUT, result).await {
            Ok(Ok(Ok(Verified { variables, until }))) => {
                let left = Duration::from_secs(until.saturating_sub(now).try_into().unwrap_or_default());
                self.known.insert(key, variables.clone(), Instant::now(), left.min(REMEMBERED));
                Checked::Right(variables)
            }
            Ok(Ok(Err(rejected))) => rejected,
            Ok(Err(_)) | Err(_) => Checked::Busy,
        }
    }

    fn key(&self, jwt: &Arc<Jwt>, token: &[u8]) -> Key {
        // The rules stay where they are as long as the worker serves them.
        let rules = Arc::as_ptr(jwt).addr().to_ne_bytes();
        self.known.key(&[&rules, token].concat())
    }
}

/// Verifies a token, and counts it if its issuer has not made it: also if the client does not wait for the result.
/// Others of the same client may have failed while it was in the queue.
fn check(jwt: &Jwt, token: &[u8], client: Option<IpAddr>, now: i64) -> Result<Verified, Checked> {
    if let Some(wait) = wait(client) {
        return Err(Checked::Wait(wait));
    }
    let result = jwt.verify(token, now, signature::check);
    let subject = client.map(Subject::Tokens);
    match (&result, subject) {
        (Err(rejection), Some(subject)) if rejection.is_forged() => attempts().failed(subject),
        (Ok(_), Some(subject)) => attempts().succeeded(subject),
        _ => {}
    }
    result.map_err(Checked::Rejected)
}

fn wait(client: Option<IpAddr>) -> Option<Duration> {
    attempts().wait(Subject::Tokens(client?))
}
