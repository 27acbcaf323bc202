//! MD5-crypt, by Poul-Henning Kamp: `$1$`, or `$apr1$` of Apache's htpasswd, SALT, `$`, HASH. A thousand rounds, which
//! is little today.

use md5::{Digest, Md5};

use super::{HashError, Kind, same};
use crate::crypt64;

const ROUNDS: usize = 1000;

const MAX_SALT: usize = 8;

const CHARACTERS: usize = 22;

/// A hash with its salt.
#[derive(Clone, PartialEq, Eq)]
pub struct Md5Crypt {
    flavor: Flavor,
    salt: Box<[u8]>,
    /// As text.
    hash: Box<[u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flavor {
    Apr1,
    Unix,
}

impl Md5Crypt {
    /// Errors: those of `HashError`.
    pub fn parse(field: &[u8]) -> Result<Self, HashError> {
        let flavor = if field.starts_with(b"$apr1$") { Flavor::Apr1 } else { Flavor::Unix };
        let malformed = HashError::Malformed(flavor.kind());
        let rest = field.strip_prefix(flavor.mark()).ok_or(malformed)?;
        let parts: Vec<&[u8]> = rest.split(|&byte| byte == b'$').collect();
        match parts.as_slice() {
            &[salt, hash] if salt.len() <= MAX_SALT && hash.len() == CHARACTERS && crypt64::is_text(hash) => {
                Ok(Self { flavor, salt: salt.into(), hash: hash.into() })
            }
            _ => Err(malformed),
        }
    }

    pub fn kind(&self) -> Kind {
        self.flavor.kind()
    }

    /// Whether the password is the one that was hashed.
    pub fn verify(&self, password: &[u8]) -> bool {
        same(&self.hash, self.flavor.hash(&self.salt, password).as_bytes())
    }
}

impl Flavor {
    const fn kind(self) -> Kind {
        match self {
            Self::Apr1 => Kind::Apr1,
            Self::Unix => Kind::Md5Crypt,
        }
    }

    const fn mark(self) -> &'static [u8] {
        match self {
            Self::Apr1 => b"$apr1$",
            Self::Unix => b"$1$",
        }
    }

    /// The text of the hash.
    fn hash(self, salt: &[u8], password: &[u8]) -> String {
        let mut digest = self.first(salt, password);
        for round in 0..ROUNDS {
            let mut next = Md5::new();
            let by_turns: [&[u8]; 2] = if round % 2 == 1 { [password, &digest] } else { [&digest, password] };
            next.update(by_turns[0]);
            if round % 3 != 0 {
                next.update(salt);
            }
            if round % 7 != 0 {
                next.update(password);
            }
            next.update(by_turns[1]);
            digest = next.finalize().into();
        }
        let order = [12, 6, 0, 13, 7, 1, 14, 8, 2, 15, 9, 3, 5, 10, 4, 11];
        crypt64::encode(&order.map(|at: usize| digest[at]))
    }

    fn first(self, salt: &[u8], password: &[u8]) -> [u8; 16] {
        let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
        let mut first = Md5::new().chain_update(password).chain_update(self.mark()).chain_update(salt);
        for part in password.chunks(16) {
            first.update(&inner[..part.len()]);
        }
        let mut length = password.len();
        while length > 0 {
            first.update(if length % 2 == 1 { &b"\0"[..] } else { &password[..1] });
            length /= 2;
        }
        first.finalize().into()
    }
}

/// The text of a new hash, as Apache's htpasswd writes it.
pub fn write_apr1(password: &[u8], salt: &[u8; 16]) -> String {
    let mut salt = crypt64::encode(salt);
    salt.truncate(MAX_SALT);
    let hash = Flavor::Apr1.hash(salt.as_bytes(), password);
    format!("$apr1${salt}${hash}")
}
