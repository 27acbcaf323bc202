//! Tokens: JSON Web Tokens (RFC 7519), signed (RFC 7515). The caller checks signatures, with the cryptography that it
//! has.
//!
//! A token that is not signed, encrypted, or signed with a shared secret does not pass.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::json;
use crate::keys::{Algorithm, Keys, PublicKey};

/// Bytes of a token.
pub const MAX_TOKEN: usize = 16 << 10;

/// What a token has to fit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules<'a> {
    /// `iss` is this.
    pub issuer: Option<&'a str>,
    /// `aud` has this.
    pub audience: Option<&'a str>,
    /// Seconds by which the clocks of the issuer and the server may differ.
    pub leeway: i64,
}

/// What a token says.
#[derive(Debug, Clone, PartialEq)]
pub struct Claims(Value);

/// Why a token does not pass. No message has a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtError {
    TooLong,
    Malformed,
    /// `alg` is not supported.
    Algorithm,
    /// The token has an extension that has to be understood (RFC 7515 §4.1.11).
    Critical,
    /// No key of its algorithm made the signature.
    Signature,
    /// This claim is missing, or of another type.
    Missing(&'static str),
    Expired,
    NotYet,
    Issuer,
    Audience,
}

/// Verifies a token. `check` says whether a signature of a message is one of a key: for RS256 and EdDSA as it is, for
/// ES256 as two numbers of 32 bytes each. The time is in seconds.
pub fn verify(
    token: &[u8],
    keys: &Keys,
    rules: &Rules,
    now: i64,
    check: impl Fn(&PublicKey, &[u8], &[u8]) -> bool,
) -> Result<Claims, JwtError> {
    if token.len() > MAX_TOKEN {
        return Err(JwtError::TooLong);
    }
    let mut parts = token.split(|&byte| byte == b'.');
    let (Some(header), Some(payload), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(JwtError::Malformed);
    };
    let (algorithm, id) = read_header(&decoded(header)?)?;
    let message = &token[..header.len() + 1 + payload.len()];
    let signature = decoded(signature)?;
    let mut candidates = keys.candidates(id.as_deref(), algorithm);
    if !candidates.any(|key| check(key, message, &signature)) {
        return Err(JwtError::Signature);
    }
    let claims = json::parse(&decoded(payload)?).filter(Value::is_object).ok_or(JwtError::Malformed)?;
    let claims = Claims(claims);
    claims.fit(rules, now)?;
    Ok(claims)
}

/// The algorithm, and the ID of the key.
fn read_header(header: &[u8]) -> Result<(Algorithm, Option<String>), JwtError> {
    let header = json::parse(header).filter(Value::is_object).ok_or(JwtError::Malformed)?;
    if header.get("crit").is_some() {
        return Err(JwtError::Critical);
    }
    let name = header.get("alg").and_then(Value::as_str).ok_or(JwtError::Malformed)?;
    let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    let id = header.get("kid").and_then(Value::as_str).map(str::to_owned);
    Ok((algorithm.ok_or(JwtError::Algorithm)?, id))
}

fn decoded(part: &[u8]) -> Result<Vec<u8>, JwtError> {
    BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtError::Malformed)
}

impl Claims {
    fn fit(&self, rules: &Rules, now: i64) -> Result<(), JwtError> {
        // A token that never expires would be a password that cannot be changed.
        let expiry = self.time("exp")?.ok_or(JwtError::Missing("exp"))?;
        if now.saturating_sub(rules.leeway) as f64 >= expiry {
            return Err(JwtError::Expired);
        }
        let begin = self.time("nbf")?;
        if begin.is_some_and(|begin| (now.saturating_add(rules.leeway) as f64) < begin) {
            return Err(JwtError::NotYet);
        }
        if rules.issuer.is_some_and(|issuer| self.0.get("iss").is_none_or(|own| own != issuer)) {
            return Err(JwtError::Issuer);
        }
        if rules.audience.is_some_and(|audience| !self.has("aud", audience)) {
            return Err(JwtError::Audience);
        }
        Ok(())
    }

    /// When the token ends, in whole seconds since 1970.
    pub fn expiry(&self) -> i64 {
        // A float beyond the range of the integers becomes the last of them.
        self.time("exp").ok().flatten().map_or(0, |time| time as i64)
    }

    /// Seconds since 1970, perhaps with a fraction.
    fn time(&self, name: &'static str) -> Result<Option<f64>, JwtError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(time) => time.as_f64().map(Some).ok_or(JwtError::Missing(name)),
        }
    }

    /// The values of a claim, as text: of a list, all members that are text, numbers or truth values. A claim within
    /// another one is named with a dot, as in `realm_access.roles`. Text may have any character, control characters
    /// too.
    pub fn values(&self, name: &str) -> Vec<String> {
        let texts = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(is_true) => Some(is_true.to_string()),
            _ => None,
        };
        match self.find(name) {
            Some(Value::Array(members)) => members.iter().filter_map(texts).collect(),
            Some(value) => texts(value).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Whether one of the claim's values is this. `scope` is a list with spaces (RFC 8693 §4.2).
    pub fn has(&self, name: &str, value: &str) -> bool {
        let values = self.values(name);
        match name {
            "scope" => values.iter().any(|all| all.split(' ').any(|one| one == value)),
            _ => values.iter().any(|one| one == value),
        }
    }

    /// A name with dots may be a claim's own name, such as a URL.
    fn find(&self, name: &str) -> Option<&Value> {
        let whole = self.0.get(name);
        whole.or_else(|| name.split('.').try_fold(&self.0, |value, part| value.get(part)))
    }
}

impl JwtError {
    /// Whether a signature was compared, and none of the keys has made it: the client may be guessing.
    pub const fn is_forged(self) -> bool {
        matches!(self, Self::Signature)
    }
}

impl fmt::Display for JwtError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the token is too long",
            Self::Malformed => "the token is malformed",
            Self::Algorithm => "the token is not signed by RS256, ES256 or EdDSA",
            Self::Critical => "the token has an extension that is not supported",
            Self::Signature => "the signature of the token is of none of the keys",
            Self::Missing(name) => return write!(f, "the token has no {name}, or not in the right form"),
            Self::Expired => "the token has expired",
            Self::NotYet => "the token is not valid yet",
            Self::Issuer => "the token is of another issuer",
            Self::Audience => "the token is for another audience",
        })
    }
}

impl std::error::Error for JwtError {}

#[cfg(test)]
mod tests;
