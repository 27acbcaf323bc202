//! Credentials of users: those that were right not long ago, and the thread that compares the others.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::basic::Basic;
use auth::digest::Digest;
use site::authentication::Authentication;

use super::login_attempts::{Subject, attempts};
use super::remembered::{Key, Remembered};
use crate::background::Background;

/// Comparisons of a worker that may wait. Requests that need further ones get 503.
const QUEUE: usize = 64;
/// How long a comparison may wait and take. Then its request gets 503.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long a right password need not be compared again.
const REMEMBERED: Duration = Duration::from_mins(5);

pub struct Logins {
    /// Right credentials, by a keyed hash of users, name and password; and the nonces of right ones of Digest.
    known: Remembered,
    /// With a low priority: passwords that clients try do not delay other responses.
    comparisons: Background,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    Right,
    Wrong,
    /// The client, or the user, has to wait after wrong passwords.
    Wait(Duration),
    /// Too many comparisons wait.
    Busy,
}

impl Default for Logins {
    fn default() -> Logins {
        Logins { known: Remembered::default(), comparisons: Background::new(QUEUE) }
    }
}

impl Logins {
    /// Compares the password of a user, unless it was right not long ago. An unknown user costs what a known one costs.
    pub async fn verify(
        &self,
        authentication: &Arc<Authentication>,
        basic: Basic,
        client: Option<IpAddr>,
    ) -> Login {
        let key = self.key(authentication, &basic);
        if self.known.get(key, Instant::now()).is_some() {
            return Login::Right;
        }
        if let Some(wait) = wait(client, &basic.user) {
            return Login::Wait(wait);
        }
        let own = authentication.clone();
        // A client that disconnects meanwhile has its comparison left out.
        let Some(result) = self.comparisons.run(move || compare(&own, &basic, client)) else {
            return Login::Busy;
        };
        let Ok(Ok(login)) = tokio::time::timeout(TIMEOUT, result).await else { return Login::Busy };
        if login == Login::Right {
            self.known.insert(key, Vec::new(), Instant::now(), REMEMBERED);
        }
        login
    }

    /// Credentials of Digest that are compared here and now.
    pub fn digest_attempt<'a>(
        &'a self,
        authentication: &'a Authentication,
        digest: &'a Digest,
        client: Option<IpAddr>,
    ) -> DigestAttempt<'a> {
        let user = digest.user(authentication.digest_users.iter().map(|users| &**users));
        let parts = [authentication.realm.as_bytes(), user.as_bytes(), digest.nonce()];
        let bytes: Vec<u8> =
            parts.iter().flat_map(|part| [&part.len().to_ne_bytes()[..], part].concat()).collect();
        DigestAttempt { known: &self.known, key: self.known.key(&bytes), client, user }
    }

    fn key(&self, authentication: &Arc<Authentication>, Basic { user, password }: &Basic) -> Key {
        let mut bytes: Vec<u8> =
            authentication.users.iter().flat_map(|users| users.id().to_ne_bytes()).collect();
        for part in [user.as_bytes(), &password.0] {
            bytes.extend_from_slice(&part.len().to_ne_bytes());
            bytes.extend_from_slice(part);
        }
        self.known.key(&bytes)
    }
}

/// One request with credentials of Digest.
pub struct DigestAttempt<'a> {
    known: &'a Remembered,
    /// Finds the user and the nonce in `known`.
    key: Key,
    client: Option<IpAddr>,
    user: &'a str,
}

impl DigestAttempt<'_> {
    /// How long the client, or the user, has to wait. A nonce with which the password was right is known to that user
    /// alone.
    pub fn wait(&self) -> Option<Duration> {
        match self.known.get(self.key, Instant::now()) {
            Some(_) => None,
            None => wait(self.client, self.user),
        }
    }

    pub fn failed(&self) {
        subjects(self.client, self.user).for_each(|subject| attempts().failed(subject));
    }

    /// The wrong passwords of the address stay: its client has a new nonce at any time, and could try passwords of
    /// other users between two of its own.
    pub fn succeeded(&self) {
        if self.known.get(self.key, Instant::now()).is_none() {
            attempts().succeeded(Subject::User(self.user));
            self.known.insert(self.key, Vec::new(), Instant::now(), REMEMBERED);
        }
    }
}

/// Compares a password, and counts it if it is wrong: also if the client does not wait for the result. Others of the
/// same client may have failed while it was in the queue.
fn compare(own: &Authentication, Basic { user, password }: &Basic, client: Option<IpAddr>) -> Login {
    if let Some(wait) = wait(client, user) {
        return Login::Wait(wait);
    }
    let is_right = own.verify(user, &password.0);
    // A right one forgets those of its address, too: a device with an old password would keep all others behind the same
    // address from logging in. What another client gains is bounded, as one that was right is remembered, and by user.
    for subject in subjects(client, user) {
        match is_right {
            true => attempts().succeeded(subject),
            false => attempts().failed(subject),
        }
    }
    if is_right { Login::Right } else { Login::Wrong }
}

/// How long the client, or the user, has to wait.
fn wait(client: Option<IpAddr>, user: &str) -> Option<Duration> {
    subjects(client, user).filter_map(|subject| attempts().wait(subject)).max()
}

fn subjects(client: Option<IpAddr>, user: &str) -> impl Iterator<Item = Subject<'_>> {
    [client.map(Subject::Address), Some(Subject::User(user))].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use site::authentication::Scheme;

    use super::*;

    fn credentials(user: &str, nonce: &str) -> Digest {
        let text = format!(
            "username=\"{user}\", realm=\"Restricted\", nonce=\"{nonce}\", uri=\"/\", response=\"0\", qop=auth, \
             nc=00000001, cnonce=\"c\""
        );
        Digest::parse(text.as_bytes()).expect("they are credentials")
    }

    #[test]
    fn guesses_by_digest_do_not_lock_out_a_user_who_is_logged_in() {
        let logins = Logins::default();
        let own = Authentication { scheme: Scheme::Digest, ..Authentication::default() };
        let home = Some(IpAddr::from([192, 0, 2, 1]));
        let first = credentials("digest user", "first");
        logins.digest_attempt(&own, &first, home).succeeded();
        for client in 0..30 {
            let guess = credentials("digest user", "guess");
            logins.digest_attempt(&own, &guess, Some(IpAddr::from([198, 51, 100, client]))).failed();
        }
        let waits = |user: &str, nonce: &str, client: [u8; 4]| {
            logins.digest_attempt(&own, &credentials(user, nonce), Some(client.into())).wait().is_some()
        };
        assert!(waits("digest user", "other", [203, 0, 113, 1]), "the user has to wait");
        assert!(!waits("digest user", "first", [192, 0, 2, 1]), "but not with a nonce that was right");
        assert!(!waits("another digest user", "other", [203, 0, 113, 1]), "nor does another user");
        assert!(!waits("another digest user", "first", [203, 0, 113, 1]));
        for _ in 0..10 {
            logins.digest_attempt(&own, &credentials("another digest user", "first"), home).failed();
        }
        assert!(waits("a third digest user", "first", [192, 0, 2, 1]), "the address has to wait");
        logins.digest_attempt(&own, &credentials("a third digest user", "second"), home).succeeded();
        assert!(waits("a fourth digest user", "first", [192, 0, 2, 1]), "a right password does not end that");
    }
}
