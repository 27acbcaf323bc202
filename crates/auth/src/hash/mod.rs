//! A hash of a password, as a password file has it. The text is parsed once; its cost has a bound; every comparison
//! takes the same time wherever two hashes differ.
//!
//! Knows nothing of files and users.

mod write;

mod argon2id;

mod bcrypt;

mod sha_crypt;

mod yescrypt;

mod md5_crypt;

mod des_crypt;

mod sha1;

use std::fmt;

use subtle::ConstantTimeEq;

use argon2id::Argon2id;
use bcrypt::Bcrypt;
use des_crypt::DesCrypt;
use md5_crypt::Md5Crypt;
use sha_crypt::ShaCrypt;
use sha1::Sha1Hash;
use yescrypt::Yescrypt;

pub use write::{Bounds, NewHash};

/// Bytes of a password. The cost of some kinds grows with its length; libxcrypt has the same bound.
pub const MAX_PASSWORD: usize = 512;

/// Bytes of memory for one comparison.
pub const MAX_MEMORY: usize = 256 << 20;

/// Bytes of a field with a hash.
pub const MAX_FIELD: usize = 512;

/// A hash, and everything that is needed to compare a password with it. Its `Debug` shows the kind alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Hash(Inner);

#[derive(Clone, PartialEq, Eq)]
enum Inner {
    Argon2id(Argon2id),
    Bcrypt(Bcrypt),
    ShaCrypt(ShaCrypt),
    Yescrypt(Yescrypt),
    Md5Crypt(Md5Crypt),
    Sha1(Sha1Hash),
    DesCrypt(DesCrypt),
    Plain(Box<[u8]>),
}

/// The kinds of hashes, from strong to weak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Argon2id,
    Yescrypt,
    Bcrypt,
    Sha512Crypt,
    Sha256Crypt,
    /// `$apr1$` of Apache's htpasswd.
    Apr1,
    /// `$1$`.
    Md5Crypt,
    /// `{SSHA}`.
    SaltedSha1,
    /// `{SHA}`.
    Sha1,
    DesCrypt,
    Plain,
}

/// What a password file may have in place of a hash that is worth its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PlainText {
    #[default]
    Refuse,
    /// A hash of crypt(3) with DES, which any computer can guess today.
    Des,
    /// The password.
    Accept,
}

/// Why a field is not a hash that passwords are compared with. Says what to do, and nothing about the field's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashError {
    Empty,
    TooLong,
    /// It is not a hash of a known kind, and cannot be a password either.
    Unknown,
    /// The mark of an account for which no password is right.
    Locked,
    /// `$2x$`, which older programs wrote for passwords that they read wrongly.
    Bcrypt2x,
    Malformed(Kind),
    /// One comparison would take too much time or memory. The text says which parameter is how large at most.
    TooCostly(Kind, &'static str),
}

impl Kind {
    /// For messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Argon2id => "argon2id",
            Self::Yescrypt => "yescrypt",
            Self::Bcrypt => "bcrypt",
            Self::Sha512Crypt => "SHA-512-crypt",
            Self::Sha256Crypt => "SHA-256-crypt",
            Self::Apr1 => "apr1 (MD5)",
            Self::Md5Crypt => "MD5-crypt",
            Self::SaltedSha1 => "salted SHA-1",
            Self::Sha1 => "SHA-1",
            Self::DesCrypt => "DES-crypt",
            Self::Plain => "plain text",
        }
    }

    /// A stolen file of this kind gives away passwords of usual strength.
    pub const fn is_weak(self) -> bool {
        matches!(
            self,
            Self::Apr1 | Self::Md5Crypt | Self::SaltedSha1 | Self::Sha1 | Self::DesCrypt | Self::Plain
        )
    }
}

impl Hash {
    /// Parses the field of a password file.
    pub fn parse(field: &[u8], plain: PlainText) -> Result<Self, HashError> {
        if field.is_empty() {
            return Err(HashError::Empty);
        }
        if field.len() > MAX_FIELD {
            return Err(HashError::TooLong);
        }
        Ok(Self(match field {
            [b'$', rest @ ..] if rest.contains(&b'$') => Inner::crypt(field)?,
            [b'{', ..] if field.contains(&b'}') => match field.strip_prefix(b"{PLAIN}") {
                Some(password) => Inner::plain(password, plain)?,
                None => Inner::Sha1(Sha1Hash::parse(field)?),
            },
            _ if is_locked(field) => return Err(HashError::Locked),
            _ => Inner::plain(field, plain)?,
        }))
    }

    /// The algorithm.
    pub fn kind(&self) -> Kind {
        match &self.0 {
            Inner::Argon2id(_) => Kind::Argon2id,
            Inner::Bcrypt(_) => Kind::Bcrypt,
            Inner::ShaCrypt(hash) => hash.kind(),
            Inner::Yescrypt(_) => Kind::Yescrypt,
            Inner::Md5Crypt(hash) => hash.kind(),
            Inner::Sha1(hash) => hash.kind(),
            Inner::DesCrypt(_) => Kind::DesCrypt,
            Inner::Plain(_) => Kind::Plain,
        }
    }

    /// Bytes that one comparison needs meanwhile.
    pub fn memory(&self) -> usize {
        match &self.0 {
            Inner::Argon2id(hash) => hash.memory(),
            Inner::Yescrypt(hash) => hash.memory(),
            // The state of Blowfish is the largest of the others.
            _ => 8 << 10,
        }
    }

    /// Whether the password is the one that was hashed. Slow on purpose: seconds for the costliest hash that `parse`
    /// accepts. A password above `MAX_PASSWORD` is never right.
    pub fn verify(&self, password: &[u8]) -> bool {
        if password.len() > MAX_PASSWORD {
            return false;
        }
        match &self.0 {
            Inner::Argon2id(hash) => hash.verify(password),
            Inner::Bcrypt(hash) => hash.verify(password),
            Inner::ShaCrypt(hash) => hash.verify(password),
            Inner::Yescrypt(hash) => hash.verify(password),
            Inner::Md5Crypt(hash) => hash.verify(password),
            Inner::Sha1(hash) => hash.verify(password),
            Inner::DesCrypt(hash) => hash.verify(password),
            Inner::Plain(own) => same(own, password),
        }
    }
}

/// Whether this is the mark of a locked account, for which no password is right: `!` or `*`, alone or in front of a
/// hash (shadow(5)).
fn is_locked(field: &[u8]) -> bool {
    let marks = field.iter().take_while(|byte| matches!(byte, b'!' | b'*')).count();
    marks > 0 && matches!(field.get(marks), None | Some(b'$'))
}

impl Inner {
    /// The kinds that begin with `$`.
    fn crypt(field: &[u8]) -> Result<Self, HashError> {
        let id = field[1..].split(|&byte| byte == b'$').next().unwrap_or_default();
        Ok(match id {
            b"argon2id" => Self::Argon2id(Argon2id::parse(field)?),
            b"2a" | b"2b" | b"2y" => Self::Bcrypt(Bcrypt::parse(field)?),
            b"2x" => return Err(HashError::Bcrypt2x),
            b"5" | b"6" => Self::ShaCrypt(ShaCrypt::parse(field)?),
            b"y" => Self::Yescrypt(Yescrypt::parse(field)?),
            b"apr1" | b"1" => Self::Md5Crypt(Md5Crypt::parse(field)?),
            _ => return Err(HashError::Unknown),
        })
    }

    fn plain(password: &[u8], plain: PlainText) -> Result<Self, HashError> {
        match plain {
            PlainText::Accept if password.is_empty() => Err(HashError::Empty),
            PlainText::Accept => Ok(Self::Plain(password.into())),
            PlainText::Des => DesCrypt::parse(password).map(Self::DesCrypt),
            PlainText::Refuse => Err(HashError::Unknown),
        }
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Hash({})", self.kind().name())
    }
}

impl fmt::Display for HashError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is no hash behind the colon"),
            Self::TooLong => write!(f, "the hash has more than {MAX_FIELD} bytes"),
            Self::Unknown => f.write_str(
                "this is no hash of a known kind (argon2id, yescrypt, bcrypt, SHA-crypt, apr1, {SHA}); make one with \
                 taipan passwd, or see des_passwords for hashes of 13 characters",
            ),
            Self::Locked => f.write_str("the account is locked; make a hash with taipan passwd"),
            Self::Bcrypt2x => {
                f.write_str("$2x$ marks hashes of a faulty bcrypt; set the password again with taipan passwd")
            }
            Self::Malformed(kind) => {
                write!(f, "the {} hash is incomplete or damaged; set the password again", kind.name())
            }
            Self::TooCostly(kind, bound) => {
                write!(f, "the {} hash costs too much to compare: {bound}; set the password again", kind.name())
            }
        }
    }
}

impl std::error::Error for HashError {}

/// The time depends on the lengths alone, which are no secret.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

#[cfg(test)]
mod tests;
