//! Credentials of users: those that were right not long ago, and the thread that compares the others.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::basic::Basic;
use site::authentication::Authentication;

use super::answers::{Answers, Key};
use super::attempts::{Subject, attempts};
use crate::background::Background;

/// Comparisons of a worker that may wait. Further ones get 503.
const QUEUE: usize = 64;
/// How long one may wait and take. Then it gets 503.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long a right password need not be compared again.
const REMEMBERED: Duration = Duration::from_mins(5);

pub struct Logins {
    /// Right credentials, by a keyed hash of users, name and password.
    known: Answers,
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
        Logins { known: Answers::default(), comparisons: Background::new(QUEUE) }
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

    /// How long an address has to wait after wrong credentials of Digest.
    pub fn wait(&self, client: Option<IpAddr>) -> Option<Duration> {
        attempts().wait(Subject::Address(client?))
    }

    pub fn failed(&self, client: Option<IpAddr>) {
        if let Some(client) = client {
            attempts().failed(Subject::Address(client));
        }
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

/// Compares a password, and counts it if it is wrong: also if the client does not wait for the result. Others of the
/// same client may have failed while it was in the queue.
fn compare(own: &Authentication, Basic { user, password }: &Basic, client: Option<IpAddr>) -> Login {
    if let Some(wait) = wait(client, user) {
        return Login::Wait(wait);
    }
    let is_right = own.verify(user, &password.0);
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
