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
        let address = client.map(Subject::Address);
        let subjects = [address, Some(Subject::User(&basic.user))].into_iter().flatten();
        if let Some(wait) = subjects.clone().filter_map(|subject| attempts().wait(subject)).max() {
            return Login::Wait(wait);
        }
        let (own, compared) = (authentication.clone(), basic.clone());
        let compare = move || own.verify(&compared.user, &compared.password.0);
        let Some(result) = self.comparisons.run(compare) else { return Login::Busy };
        let Ok(Ok(is_right)) = tokio::time::timeout(TIMEOUT, result).await else { return Login::Busy };
        for subject in subjects {
            match is_right {
                true => attempts().succeeded(subject),
                false => attempts().failed(subject),
            }
        }
        if !is_right {
            return Login::Wrong;
        }
        self.known.insert(key, Vec::new(), Instant::now(), REMEMBERED);
        Login::Right
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
