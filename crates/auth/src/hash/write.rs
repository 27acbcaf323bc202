//! New hashes, for password files. The random bytes are an argument.

use std::ops::RangeInclusive;

use super::sha_crypt::Width;
use super::{Kind, argon2id, bcrypt, md5_crypt, sha_crypt, sha1, yescrypt};

/// A kind of hash with its cost. All others have the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewHash {
    Argon2id,
    Yescrypt,
    Bcrypt { cost: u32 },
    Sha512Crypt { rounds: u32 },
    Sha256Crypt { rounds: u32 },
    Apr1,
    Sha1,
    Plain,
}

/// The costs that new hashes may have, which are those that `Hash::parse` accepts.
pub struct Bounds;

impl Bounds {
    /// Of bcrypt: each step doubles the time.
    pub const COST: RangeInclusive<usize> = bcrypt::MIN_COST as usize..=bcrypt::MAX_COST as usize;

    /// Of SHA-crypt.
    pub const ROUNDS: RangeInclusive<usize> = sha_crypt::MIN_ROUNDS as usize..=sha_crypt::MAX_ROUNDS as usize;
}

impl NewHash {
    /// The field of a password file. `None`: there is not enough memory.
    pub fn write(self, password: &str, salt: &[u8; 16]) -> Option<String> {
        let bytes = password.as_bytes();
        match self {
            Self::Argon2id => argon2id::write(bytes, salt),
            Self::Yescrypt => yescrypt::write(bytes, salt),
            Self::Bcrypt { cost } => Some(bcrypt::write(cost, bytes, salt)),
            Self::Sha512Crypt { rounds } => Some(sha_crypt::write(Width::Sha512, rounds, bytes, salt)),
            Self::Sha256Crypt { rounds } => Some(sha_crypt::write(Width::Sha256, rounds, bytes, salt)),
            Self::Apr1 => Some(md5_crypt::write_apr1(bytes, salt)),
            Self::Sha1 => Some(sha1::write(bytes)),
            Self::Plain => Some(password.to_owned()),
        }
    }

    /// The kind, without its cost.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Argon2id => Kind::Argon2id,
            Self::Yescrypt => Kind::Yescrypt,
            Self::Bcrypt { .. } => Kind::Bcrypt,
            Self::Sha512Crypt { .. } => Kind::Sha512Crypt,
            Self::Sha256Crypt { .. } => Kind::Sha256Crypt,
            Self::Apr1 => Kind::Apr1,
            Self::Sha1 => Kind::Sha1,
            Self::Plain => Kind::Plain,
        }
    }

    /// How many bytes of a password count. More are ignored.
    pub const fn counted(self) -> usize {
        match self {
            Self::Bcrypt { .. } => bcrypt::COUNTED,
            _ => super::MAX_PASSWORD,
        }
    }
}
