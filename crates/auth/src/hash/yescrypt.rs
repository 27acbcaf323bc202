//! yescrypt: `$y$`, three characters of parameters, `$`, SALT, `$`, HASH, as libxcrypt writes it.

use yescrypt::Params;

use super::{HashError, Kind, same};
use crate::crypt64;

/// Memory in bytes. With N = 2^18 and r = 32 it would be 1 GiB.
const MAX_MEMORY: u64 = super::MAX_MEMORY as u64;

const MAX_SALT: usize = 64;

/// A hash with its salt and its costs.
#[derive(Clone, PartialEq, Eq)]
pub struct Yescrypt {
    params: Params,
    salt: Box<[u8]>,
    hash: [u8; 32],
}

impl Yescrypt {
    /// The cost has a bound, as for `Hash::parse`. Errors: those of `HashError`.
    pub fn parse(field: &[u8]) -> Result<Self, HashError> {
        let malformed = HashError::Malformed(Kind::Yescrypt);
        let parts: Vec<&[u8]> = field.get(3..).unwrap_or_default().split(|&byte| byte == b'$').collect();
        let &[parameters, salt, hash] = parts.as_slice() else { return Err(malformed) };
        // The first is the usual flavour. More than three would be parallelism, time and tables in ROM, which libxcrypt
        // does not write.
        if !matches!(parameters, [b'j', _, _]) {
            return Err(malformed);
        }
        let parameters = std::str::from_utf8(parameters).map_err(|_| malformed)?;
        let params: Params = parameters.parse().map_err(|_| malformed)?;
        if params.n() < 1024 || params.r() < 8 {
            return Err(malformed);
        }
        if memory(&params) > MAX_MEMORY {
            return Err(HashError::TooCostly(Kind::Yescrypt, "it takes at most 256 MiB"));
        }
        let salt = crypt64::decode(salt).filter(|salt| salt.len() <= MAX_SALT).ok_or(malformed)?;
        let hash = crypt64::decode(hash).and_then(|hash| hash.try_into().ok()).ok_or(malformed)?;
        Ok(Self { params, salt: salt.into(), hash })
    }

    /// Bytes that one comparison needs.
    pub fn memory(&self) -> usize {
        memory(&self.params) as usize
    }

    /// Whether the password is the one that was hashed. Takes as long as the cost says.
    pub fn verify(&self, password: &[u8]) -> bool {
        hash(&self.params, &self.salt, password).is_some_and(|computed| same(&self.hash, &computed))
    }
}

/// The text of a new hash with the parameters of libxcrypt: 16 MiB. `None`: it cannot be computed.
pub fn write(password: &[u8], salt: &[u8; 16]) -> Option<String> {
    let params = Params::default();
    let computed = crypt64::encode(&hash(&params, salt, password)?);
    Some(format!("$y${params}${}${computed}", crypt64::encode(salt)))
}

fn memory(params: &Params) -> u64 {
    params.n().saturating_mul(u64::from(params.r()) * 128)
}

fn hash(params: &Params, salt: &[u8], password: &[u8]) -> Option<[u8; 32]> {
    let mut computed = [0; 32];
    yescrypt::yescrypt(password, salt, params, &mut computed).ok().map(|()| computed)
}
