//! argon2id (RFC 9106) in the PHC format: `$argon2id$v=19$m=KIB,t=PASSES,p=LANES$SALT$HASH`.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;

use super::{HashError, Kind, same};

/// Memory in KiB: 256 MiB.
const MAX_MEMORY: u32 = (super::MAX_MEMORY >> 10) as u32;

/// Memory times passes, in KiB: 512 MiB. It takes some 500 ms.
const MAX_WORK: u32 = 512 << 10;

const MAX_LANES: u32 = 64;

/// A hash with its salt and its costs.
#[derive(Clone, PartialEq, Eq)]
pub struct Argon2id {
    memory: u32,
    passes: u32,
    lanes: u32,
    salt: Box<[u8]>,
    hash: Box<[u8]>,
}

impl Argon2id {
    /// The cost has a bound, as for `Hash::parse`. Errors: those of `HashError`.
    pub fn parse(field: &[u8]) -> Result<Self, HashError> {
        let malformed = HashError::Malformed(Kind::Argon2id);
        let text = std::str::from_utf8(field).map_err(|_| malformed)?;
        let rest = text.strip_prefix("$argon2id$v=19$").ok_or(malformed)?;
        let [parameters, salt, hash] = parts(rest, '$').ok_or(malformed)?;
        let [memory, passes, lanes] = parts(parameters, ',').ok_or(malformed)?;
        let number = |text: &str, name: &str| -> Option<u32> { digits(text.strip_prefix(name)?) };
        let memory = number(memory, "m=").ok_or(malformed)?;
        let passes = number(passes, "t=").ok_or(malformed)?;
        let lanes = number(lanes, "p=").ok_or(malformed)?;
        if memory > MAX_MEMORY || lanes > MAX_LANES || memory.saturating_mul(passes) > MAX_WORK {
            let bound = "m is at most 262144 (256 MiB), m times t at most 524288, and p at most 64";
            return Err(HashError::TooCostly(Kind::Argon2id, bound));
        }
        let decoded = |text: &str| BASE64_STANDARD_NO_PAD.decode(text).map(Vec::into_boxed_slice);
        let (Ok(salt), Ok(hash)) = (decoded(salt), decoded(hash)) else { return Err(malformed) };
        if !(8..=64).contains(&salt.len()) || !(32..=64).contains(&hash.len()) {
            return Err(malformed);
        }
        Params::new(memory, passes, lanes, Some(hash.len())).map_err(|_| malformed)?;
        Ok(Self { memory, passes, lanes, salt, hash })
    }

    /// Bytes that one comparison needs.
    pub fn memory(&self) -> usize {
        self.memory as usize * 1024
    }

    /// Whether the password is the one that was hashed. Takes as long as the cost says.
    pub fn verify(&self, password: &[u8]) -> bool {
        let mut computed = vec![0; self.hash.len()];
        // Without the memory for it, no password is right.
        hash(self.memory, self.passes, self.lanes, password, &self.salt, &mut computed).is_some()
            && same(&self.hash, &computed)
    }
}

fn hash(memory: u32, passes: u32, lanes: u32, password: &[u8], salt: &[u8], hash: &mut [u8]) -> Option<()> {
    let params = Params::new(memory, passes, lanes, Some(hash.len())).ok()?;
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password_into(password, salt, hash).ok()
}

/// The text of a new hash with 19 MiB and two passes, the least that OWASP advises. `None`: there is no memory for it.
pub fn write(password: &[u8], salt: &[u8; 16]) -> Option<String> {
    const MEMORY: u32 = 19 << 10;
    let mut computed = [0; 32];
    hash(MEMORY, 2, 1, password, salt, &mut computed)?;
    let [salt, computed] = [&salt[..], &computed].map(|bytes| BASE64_STANDARD_NO_PAD.encode(bytes));
    Some(format!("$argon2id$v=19$m={MEMORY},t=2,p=1${salt}${computed}"))
}

fn parts<const N: usize>(text: &str, separator: char) -> Option<[&str; N]> {
    let parts: Vec<&str> = text.splitn(N + 1, separator).collect();
    parts.try_into().ok()
}

/// The PHC format has neither signs nor leading zeros.
fn digits(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_number)
}
