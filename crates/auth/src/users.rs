//! A password file as Apache's htpasswd and thttpd write it: `USER:HASH` on each line.
//!
//! An unknown user costs what a user of the file costs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hash::{Hash, HashError, PlainText};
use crate::mistake::{self, Fault, FileError, Mistakes};

/// Bytes of a line.
const MAX_LINE: usize = 8 << 10;

/// Users of one file.
pub(crate) const MAX_USERS: usize = 200_000;

/// Users and the hashes of their passwords.
#[derive(Debug, Clone, Default)]
pub struct Users {
    /// The line, and the index of the hash.
    by_name: HashMap<Box<str>, (usize, usize)>,
    hashes: Vec<Hash>,
    mistakes: Mistakes,
    decoys: RandomState,
    id: Id,
}

/// The number of a list of users, which no other list of the process has.
#[derive(Debug, Clone, Copy)]
struct Id(u64);

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl Default for Id {
    fn default() -> Self {
        Self(NEXT_ID.fetch_add(1, Ordering::Relaxed))
    }
}

impl Users {
    /// Of several lines with one name, the first counts. What is behind a second colon is ignored. Both are as in
    /// Apache.
    pub fn parse(file: &[u8], plain: PlainText) -> Result<Self, FileError> {
        let mut users = Self::default();
        for (line, text) in mistake::lines(file)? {
            if users.hashes.len() == MAX_USERS {
                return Err(FileError::TooMany);
            }
            match users.read(line, text, plain) {
                // Most accounts of a system are locked.
                Ok(()) | Err(Fault::Hash(HashError::Locked)) => {}
                Err(fault) => users.mistakes.add(line, fault),
            }
        }
        Ok(users)
    }

    fn read(&mut self, line: usize, text: &[u8], plain: PlainText) -> Result<(), Fault> {
        if text.len() > MAX_LINE {
            return Err(Fault::TooLong);
        }
        let mut fields = text.split(|&byte| byte == b':');
        match (fields.next(), fields.next()) {
            (Some(name), Some(field)) => self.insert(line, name, field, plain),
            _ => Err(Fault::Form("USER:HASH")),
        }
    }

    /// Adds a user who is not in a file. The number is for messages: the line, or the position in a list.
    pub fn insert(&mut self, line: usize, name: &[u8], field: &[u8], plain: PlainText) -> Result<(), Fault> {
        let name = mistake::name(name)?;
        match self.by_name.entry(name.into()) {
            Entry::Occupied(first) => Err(Fault::Again(first.get().0)),
            Entry::Vacant(place) => {
                let hash = Hash::parse(field, plain)?;
                place.insert((line, self.hashes.len()));
                self.hashes.push(hash);
                Ok(())
            }
        }
    }

    /// Whether there is this user with this password. It takes as long as the user's hash is costly, perhaps seconds,
    /// so it belongs on a thread of its own.
    pub fn verify(&self, name: &str, password: &[u8]) -> bool {
        let known = self.by_name.get(name).map(|&(_, at)| at);
        match self.hashes.get(known.unwrap_or_else(|| self.decoy(name))) {
            Some(hash) => hash.verify(password) & known.is_some(),
            None => false,
        }
    }

    /// The hash that an unknown name is compared with: always the same one for a name, as if it were a user's.
    fn decoy(&self, name: &str) -> usize {
        (self.decoys.hash_one(name) % self.hashes.len().max(1) as u64) as usize
    }

    /// Whether there is such a user.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// How many users have a weak hash.
    pub fn weak(&self) -> usize {
        self.hashes.iter().filter(|hash| hash.kind().is_weak()).count()
    }

    /// Bytes that one comparison needs at most.
    pub fn memory(&self) -> usize {
        self.hashes.iter().map(Hash::memory).max().unwrap_or(0)
    }

    /// Whether both have the same users with the same hashes.
    pub fn is_same(&self, other: &Self) -> bool {
        self.by_name == other.by_name && self.hashes == other.hashes
    }

    /// A number that no other list of this process has, so that a result of `verify` can be remembered.
    pub fn id(&self) -> u64 {
        self.id.0
    }

    /// The lines that do not count.
    pub fn mistakes(&self) -> &Mistakes {
        &self.mistakes
    }
}

#[cfg(test)]
mod tests;
