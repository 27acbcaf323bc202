//! `{SHA}` of Apache's htpasswd and `{SSHA}` of LDAP: one SHA-1, in base 64, for the latter with the salt behind it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest, Sha1};

use super::{HashError, Kind, same};

const MAX_SALT: usize = 64;

/// A hash with its salt.
#[derive(Clone, PartialEq, Eq)]
pub struct Sha1Hash {
    hash: [u8; 20],
    /// Empty for `{SHA}`.
    salt: Box<[u8]>,
}

impl Sha1Hash {
    /// Errors: those of `HashError`.
    pub fn parse(field: &[u8]) -> Result<Self, HashError> {
        let (kind, text) = match field {
            [b'{', b'S', b'H', b'A', b'}', text @ ..] => (Kind::Sha1, text),
            [b'{', b'S', b'S', b'H', b'A', b'}', text @ ..] => (Kind::SaltedSha1, text),
            _ => return Err(HashError::Unknown),
        };
        let malformed = HashError::Malformed(kind);
        let bytes = BASE64_STANDARD.decode(text).map_err(|_| malformed)?;
        let (hash, salt) = bytes.split_first_chunk().ok_or(malformed)?;
        if salt.len() > MAX_SALT || salt.is_empty() != (kind == Kind::Sha1) {
            return Err(malformed);
        }
        Ok(Self { hash: *hash, salt: salt.into() })
    }

    pub fn kind(&self) -> Kind {
        if self.salt.is_empty() { Kind::Sha1 } else { Kind::SaltedSha1 }
    }

    /// Whether the password is the one that was hashed.
    pub fn verify(&self, password: &[u8]) -> bool {
        same(&self.hash, &hash(password, &self.salt))
    }
}

fn hash(password: &[u8], salt: &[u8]) -> [u8; 20] {
    Sha1::new().chain_update(password).chain_update(salt).finalize().into()
}

/// The text of a new hash, as Apache's htpasswd writes it.
pub fn write(password: &[u8]) -> String {
    format!("{{SHA}}{}", BASE64_STANDARD.encode(hash(password, b"")))
}
