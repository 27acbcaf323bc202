//! bcrypt: `$2b$COST$` and 53 characters, of which 22 are the salt. `$2a$` and `$2y$` mean the same for passwords
//! without NUL.

use base64::Engine;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

use super::{HashError, Kind, same};

/// One step more doubles the time. 14 takes one or two seconds.
pub const MAX_COST: u32 = 14;

/// The first cost that the algorithm has.
pub const MIN_COST: u32 = 4;

/// Bytes of a password that count. What is behind them is ignored, as every bcrypt does.
pub const COUNTED: usize = 72;

/// Other programs write any bits behind the last byte.
const BASE_64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::BCRYPT,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// A hash with its salt and its cost.
#[derive(Clone, PartialEq, Eq)]
pub struct Bcrypt {
    cost: u32,
    salt: [u8; 16],
    hash: [u8; 23],
}

impl Bcrypt {
    /// The cost has a bound, as for `Hash::parse`. Errors: those of `HashError`.
    pub fn parse(field: &[u8]) -> Result<Self, HashError> {
        let malformed = HashError::Malformed(Kind::Bcrypt);
        let (cost, salt, hash) = match field.get(4..) {
            Some([tens @ b'0'..=b'9', units @ b'0'..=b'9', b'$', rest @ ..]) if rest.len() == 53 => {
                (u32::from(tens - b'0') * 10 + u32::from(units - b'0'), &rest[..22], &rest[22..])
            }
            _ => return Err(malformed),
        };
        if cost < MIN_COST {
            return Err(malformed);
        }
        if cost > MAX_COST {
            return Err(HashError::TooCostly(Kind::Bcrypt, "the cost is at most 14"));
        }
        let salt = BASE_64.decode(salt).ok().and_then(|salt| salt.try_into().ok()).ok_or(malformed)?;
        let hash = BASE_64.decode(hash).ok().and_then(|hash| hash.try_into().ok()).ok_or(malformed)?;
        Ok(Self { cost, salt, hash })
    }

    /// Whether the password is the one that was hashed. Takes as long as the cost says.
    pub fn verify(&self, password: &[u8]) -> bool {
        same(&self.hash, &hash(self.cost, self.salt, password))
    }
}

/// The text of a new hash, with the mark that Apache knows.
pub fn write(cost: u32, password: &[u8], salt: &[u8; 16]) -> String {
    let [text, computed] = [&salt[..], &hash(cost, *salt, password)].map(|bytes| BASE_64.encode(bytes));
    format!("$2y${cost:02}${text}{computed}")
}

fn hash(cost: u32, salt: [u8; 16], password: &[u8]) -> [u8; 23] {
    // The NUL at the end belongs to the key.
    let mut key = [password, b"\0"].concat();
    key.truncate(COUNTED);
    let computed = bcrypt::bcrypt(cost, salt, &key);
    std::array::from_fn(|at| computed[at])
}
