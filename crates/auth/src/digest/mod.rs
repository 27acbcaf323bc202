//! Digest (RFC 7616) with `qop=auth`: challenges, and the response of a client to one.
//!
//! Knows nothing of clocks and sockets: the time and the server's key are arguments.

mod parameters;

use std::fmt;

use subtle::ConstantTimeEq;

use crate::basic::quoted;
use crate::digest_users::{Algorithm, DigestUsers, Ha1};
use crate::nonce::Nonce;
use parameters::Parameters;

/// Bytes of the credentials. The target of the request is one part of them.
const MAX_CREDENTIALS: usize = 32 << 10;

/// Why the server asks for credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There are none, or they are wrong.
    Wrong,
    /// They are right, but for an old nonce. The client need not ask its user again.
    Stale,
}

/// The credentials of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    user: UserName,
    realm: String,
    nonce: Vec<u8>,
    uri: Vec<u8>,
    response: Vec<u8>,
    algorithm: Algorithm,
    cnonce: Vec<u8>,
    count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum UserName {
    Plain(String),
    /// The hash of `USER:REALM`.
    Hashed(String),
}

/// What the credentials have to fit.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    pub method: &'a [u8],
    /// As the client sent it.
    pub target: &'a [u8],
    pub realm: &'a str,
    pub key: &'a [u8; 32],
    /// In seconds.
    pub now: i64,
    /// Of a nonce, in seconds.
    pub lifetime: i64,
}

/// Right credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed<'a> {
    pub user: &'a str,
    /// With `count` for `nonce::Uses`: only the caller knows whether the request is a replay.
    pub nonce: Nonce,
    pub count: u32,
    /// The value of `Authentication-Info`, by which the server proves that it has the secret, too.
    pub info: String,
}

/// Why credentials do not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestError {
    TooLong,
    Malformed,
    /// This parameter is missing.
    Missing(&'static str),
    /// The server has not offered the value of this parameter.
    Unsupported(&'static str),
    NotUtf8,
    /// The credentials are for another realm.
    Realm,
    /// The credentials are for another target: RFC 7616 §3.4.6.
    Uri,
    /// The user is unknown, or the password is another one.
    Wrong,
    /// The response is right, but the nonce is an old one, or another server's.
    Stale,
}

/// The value of `WWW-Authenticate` for one algorithm.
pub fn challenge(realm: &str, algorithm: Algorithm, nonce: &str, reason: Reason) -> String {
    let realm = quoted(realm);
    let stale = match reason {
        Reason::Wrong => "",
        Reason::Stale => ", stale=true",
    };
    let algorithm = algorithm.name();
    format!(
        "Digest realm={realm}, qop=\"auth\", algorithm={algorithm}, nonce=\"{nonce}\", charset=UTF-8, userhash=true{stale}"
    )
}

impl Digest {
    /// Parses what is behind the scheme.
    pub fn parse(credentials: &[u8]) -> Result<Self, DigestError> {
        if credentials.len() > MAX_CREDENTIALS {
            return Err(DigestError::TooLong);
        }
        let mut parameters = Parameters::parse(credentials).ok_or(DigestError::Malformed)?;
        let mut take = |name| parameters.take(name).ok_or(DigestError::Missing(name));
        let realm = text(take("realm")?)?;
        let (nonce, uri, cnonce) = (take("nonce")?, take("uri")?, take("cnonce")?);
        let response = take("response")?.to_ascii_lowercase();
        if !take("qop")?.eq_ignore_ascii_case(b"auth") {
            return Err(DigestError::Unsupported("qop"));
        }
        let count = count(&take("nc")?).ok_or(DigestError::Malformed)?;
        // RFC 7616 §3.3: without the parameter, it is MD5.
        let algorithm = match parameters.take("algorithm") {
            None => Algorithm::Md5,
            Some(name) => Algorithm::ALL
                .into_iter()
                .find(|algorithm| name.eq_ignore_ascii_case(algorithm.name().as_bytes()))
                .ok_or(DigestError::Unsupported("algorithm"))?,
        };
        let user = UserName::of(&mut parameters)?;
        Ok(Self { user, realm, nonce, uri, response, algorithm, cnonce, count })
    }

    /// The name of the user: of one of `users`, or as the client has sent it.
    pub fn user<'a>(&'a self, mut users: impl Iterator<Item = &'a DigestUsers>) -> &'a str {
        match &self.user {
            UserName::Plain(name) => name,
            UserName::Hashed(hash) => users
                .find_map(|users| users.find_hashed(&self.realm, hash, self.algorithm))
                .map_or(hash.as_str(), |(name, _)| name),
        }
    }

    /// As the client has sent it.
    pub fn nonce(&self) -> &[u8] {
        &self.nonce
    }

    /// An unknown user costs what a known one costs.
    pub fn verify<'a>(&self, users: &'a DigestUsers, expected: &Expected) -> Result<Passed<'a>, DigestError> {
        if self.realm != expected.realm {
            return Err(DigestError::Realm);
        }
        if self.uri != expected.target {
            return Err(DigestError::Uri);
        }
        let known = match &self.user {
            UserName::Plain(name) => users.find(expected.realm, name, self.algorithm),
            UserName::Hashed(hash) => users.find_hashed(expected.realm, hash, self.algorithm),
        };
        // For an unknown user, any secret: the result is not used.
        let secret = known.map_or("d41d8cd98f00b204e9800998ecf8427e", |(_, secret)| secret.as_str());
        let is_right = bool::from(self.response(expected.method, secret).as_bytes().ct_eq(&self.response));
        let Some((user, secret)) = known.filter(|_| is_right) else { return Err(DigestError::Wrong) };
        let nonce = Nonce::verify(&self.nonce, expected.key)
            .filter(|nonce| nonce.is_fresh(expected.now, expected.lifetime))
            .ok_or(DigestError::Stale)?;
        Ok(Passed { user, nonce, count: self.count, info: self.info(secret) })
    }

    /// RFC 7616 §3.4.1. For `Authentication-Info` the method is empty (§3.5).
    fn response(&self, method: &[u8], secret: &str) -> String {
        let request = self.algorithm.hash(&[method, &self.uri]);
        let count = format!("{:08x}", self.count);
        let parts =
            [secret.as_bytes(), &self.nonce, count.as_bytes(), &self.cnonce, b"auth", request.as_bytes()];
        self.algorithm.hash(&parts)
    }

    fn info(&self, secret: &Ha1) -> String {
        let response = self.response(b"", secret.as_str());
        // A nonce of the client that is not text is its own mistake; it is in no quoted string.
        let cnonce = quoted(&String::from_utf8_lossy(&self.cnonce));
        format!("rspauth=\"{response}\", qop=auth, cnonce={cnonce}, nc={:08x}", self.count)
    }
}

impl UserName {
    fn of(parameters: &mut Parameters) -> Result<Self, DigestError> {
        let is_hashed = match parameters.take("userhash") {
            Some(value) if value.eq_ignore_ascii_case(b"true") => true,
            Some(value) if !value.eq_ignore_ascii_case(b"false") => return Err(DigestError::Malformed),
            _ => false,
        };
        match (parameters.take("username"), parameters.take("username*"), is_hashed) {
            (Some(hash), None, true) => Ok(Self::Hashed(text(hash)?.to_ascii_lowercase())),
            (Some(name), None, false) => Ok(Self::Plain(text(name)?)),
            (None, Some(name), false) => Ok(Self::Plain(extended(&name)?)),
            (None, None, _) => Err(DigestError::Missing("username")),
            // RFC 7616 §3.4: only one of them, and no hash of an extended one.
            _ => Err(DigestError::Malformed),
        }
    }
}

fn text(bytes: Vec<u8>) -> Result<String, DigestError> {
    String::from_utf8(bytes).map_err(|_| DigestError::NotUtf8)
}

/// Eight hexadecimal digits.
fn count(digits: &[u8]) -> Option<u32> {
    let is_count = digits.len() == 8 && digits.iter().all(u8::is_ascii_hexdigit);
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|_| is_count)
}

/// RFC 8187 §3.2.1: `UTF-8'LANGUAGE'` and percent-encoded text.
fn extended(value: &[u8]) -> Result<String, DigestError> {
    let mut parts = value.splitn(3, |&byte| byte == b'\'');
    let (charset, _, encoded) = (parts.next(), parts.next(), parts.next().ok_or(DigestError::Malformed)?);
    if !charset.is_some_and(|charset| charset.eq_ignore_ascii_case(b"utf-8")) {
        return Err(DigestError::NotUtf8);
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, behind) {
            (b'%', [high, low, behind @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).ok_or(DigestError::Malformed);
                bytes.push((digit(high)? * 16 + digit(low)?) as u8);
                rest = behind;
            }
            (b'%', _) => return Err(DigestError::Malformed),
            (plain, _) => bytes.push(*plain),
        }
    }
    text(bytes)
}

impl fmt::Display for DigestError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the credentials are too long",
            Self::Malformed => "the credentials are malformed",
            Self::Missing(name) => return write!(f, "the credentials have no {name}"),
            Self::Unsupported(name) => {
                return write!(f, "the credentials have a {name} that was not offered");
            }
            Self::NotUtf8 => "the credentials are not UTF-8",
            Self::Realm => "the credentials are for another realm",
            Self::Uri => "the credentials are for another target",
            Self::Wrong => "the user is unknown or the password is wrong",
            Self::Stale => "the nonce is stale",
        })
    }
}

impl std::error::Error for DigestError {}

#[cfg(test)]
mod tests;
