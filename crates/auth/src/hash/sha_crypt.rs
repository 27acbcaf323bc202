//! SHA-256-crypt and SHA-512-crypt: `$5$` or `$6$`, perhaps `rounds=N$`, SALT, `$`, HASH.

use sha_crypt::{Params, sha256_crypt, sha512_crypt};

use super::{HashError, Kind, same};
use crate::crypt64;

/// Rounds without the parameter.
const DEFAULT_ROUNDS: u32 = 5000;

/// It takes some 300 ms, for the longest password two or three seconds. Python's passlib writes 656000.
pub const MAX_ROUNDS: u32 = 700_000;

/// The fewest rounds that the algorithm has.
pub const MIN_ROUNDS: u32 = Params::ROUNDS_MIN;

const MAX_SALT: usize = 16;

/// A hash with its salt and its rounds.
#[derive(Clone, PartialEq, Eq)]
pub struct ShaCrypt {
    width: Width,
    params: Params,
    salt: Box<[u8]>,
    /// As text.
    hash: Box<[u8]>,
}

/// The variant: SHA-256 or SHA-512.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Width {
    Sha256,
    Sha512,
}

impl ShaCrypt {
    /// The cost has a bound, as for `Hash::parse`. Errors: those of `HashError`.
    pub fn parse(field: &[u8]) -> Result<Self, HashError> {
        let width = if field.starts_with(b"$6$") { Width::Sha512 } else { Width::Sha256 };
        let malformed = HashError::Malformed(width.kind());
        let mut parts = field.get(3..).ok_or(malformed)?.split(|&byte| byte == b'$');
        let mut salt = parts.next().ok_or(malformed)?;
        let mut rounds = DEFAULT_ROUNDS;
        if let Some(digits) = salt.strip_prefix(b"rounds=") {
            rounds = number(digits).ok_or(malformed)?;
            salt = parts.next().ok_or(malformed)?;
        }
        if rounds > MAX_ROUNDS {
            return Err(HashError::TooCostly(width.kind(), "there are at most 700000 rounds"));
        }
        let hash = parts.next().ok_or(malformed)?;
        let params = Params::new(rounds).map_err(|_| malformed)?;
        let is_whole = hash.len() == width.characters() && crypt64::is_text(hash) && parts.next().is_none();
        if !is_whole || salt.len() > MAX_SALT {
            return Err(malformed);
        }
        Ok(Self { width, params, salt: salt.into(), hash: hash.into() })
    }

    pub fn kind(&self) -> Kind {
        self.width.kind()
    }

    /// Whether the password is the one that was hashed. Takes as long as the cost says.
    pub fn verify(&self, password: &[u8]) -> bool {
        same(&self.hash, self.width.hash(self.params, &self.salt, password).as_bytes())
    }
}

impl Width {
    const fn kind(self) -> Kind {
        match self {
            Self::Sha256 => Kind::Sha256Crypt,
            Self::Sha512 => Kind::Sha512Crypt,
        }
    }

    const fn characters(self) -> usize {
        match self {
            Self::Sha256 => 43,
            Self::Sha512 => 86,
        }
    }

    /// The text of the hash. The specification writes the bytes in groups of three, with every third byte in turn
    /// first.
    fn hash(self, params: Params, salt: &[u8], password: &[u8]) -> String {
        let mut ordered = Vec::with_capacity(64);
        match self {
            Self::Sha256 => {
                let digest = sha256_crypt(password, salt, params);
                for at in 0..10 {
                    let turns = [[20, 10, 0], [11, 1, 21], [2, 22, 12]];
                    ordered.extend(turns[at % 3].map(|from| digest[from + at - at % 3]));
                }
                ordered.extend([digest[30], digest[31]]);
            }
            Self::Sha512 => {
                let digest = sha512_crypt(password, salt, params);
                for at in 0..21 {
                    let turns = [[42, 21, 0], [1, 43, 22], [23, 2, 44]];
                    ordered.extend(turns[at % 3].map(|from| digest[from + at - at % 3]));
                }
                ordered.push(digest[63]);
            }
        }
        crypt64::encode(&ordered)
    }
}

/// The text of a new hash. `rounds` is within the bounds.
pub fn write(width: Width, rounds: u32, password: &[u8], salt: &[u8; 16]) -> String {
    let mut salt = crypt64::encode(salt);
    salt.truncate(MAX_SALT);
    let params = Params::new(rounds.clamp(MIN_ROUNDS, MAX_ROUNDS)).unwrap_or_default();
    let id = match width {
        Width::Sha256 => 5,
        Width::Sha512 => 6,
    };
    let hash = width.hash(params, salt.as_bytes(), password);
    format!("${id}${params}${salt}${hash}")
}

fn number(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
    // A number that is too large for 32 bits costs too much, too.
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(u32::MAX))
}
