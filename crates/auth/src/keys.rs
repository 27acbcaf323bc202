//! Public keys that verify tokens, from a PEM file or a JWK set (RFC 7517).
//!
//! A key has one algorithm. So no token can choose another one for it: neither `none`, nor a MAC with the key as its
//! secret.

use std::fmt;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;

use crate::der::{self, Reader};
use crate::json;

/// Bytes of a file.
const MAX_FILE: usize = 1 << 20;

/// Keys of a file. A token may have to be tried with all of them.
const MAX_KEYS: usize = 32;

/// Bytes of a modulus of RSA: 2048 to 8192 bits.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=1024;

/// How a token is signed (RFC 7518 §3.1, RFC 8037 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Es256,
    /// With Ed25519.
    EdDsa,
}

/// Numbers and points are as in their DER, in network byte order.
#[derive(Clone, PartialEq, Eq)]
pub enum PublicKey {
    /// Modulus and exponent, without leading zeros.
    Rsa {
        modulus: Box<[u8]>,
        exponent: Box<[u8]>,
    },
    /// An uncompressed point: 4, x, y.
    P256([u8; 65]),
    Ed25519([u8; 32]),
}

/// The keys of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    keys: Vec<(Option<Box<str>>, PublicKey)>,
}

/// Why a file has no usable keys. Says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysError {
    TooLarge,
    TooMany,
    NotKeys,
    /// The key with this number, from 1, is damaged.
    Damaged(usize),
    /// It is of a kind that no algorithm here uses.
    Unsupported(usize),
    Private(usize),
    Certificate(usize),
    /// None of the set is for signatures by these algorithms.
    None,
}

impl Algorithm {
    pub const ALL: [Self; 3] = [Self::Rs256, Self::Es256, Self::EdDsa];

    /// The value of `alg`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

impl PublicKey {
    /// The only one that the key is for.
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
            Self::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let [modulus, exponent] = [modulus, exponent].map(without_zeros);
        let is_usable = MODULUS.contains(&modulus.len()) && (1..=4).contains(&exponent.len());
        is_usable.then(|| Self::Rsa { modulus: modulus.into(), exponent: exponent.into() })
    }

    fn p256(point: &[u8]) -> Option<Self> {
        point.try_into().ok().filter(|point: &[u8; 65]| point[0] == 4).map(Self::P256)
    }
}

impl Keys {
    /// Parses PEM, or JSON: a JWK set, or one JWK.
    pub fn parse(file: &[u8]) -> Result<Self, KeysError> {
        if file.len() > MAX_FILE {
            return Err(KeysError::TooLarge);
        }
        let keys = match file.trim_ascii_start() {
            [b'{', ..] => set(file)?,
            _ => pem(file)?,
        };
        match keys.keys.len() {
            0 => Err(KeysError::None),
            1..=MAX_KEYS => Ok(keys),
            _ => Err(KeysError::TooMany),
        }
    }

    /// The keys that may have signed a token: those with its key ID, if there are any; of those, the ones of its
    /// algorithm.
    pub(crate) fn candidates(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &PublicKey> {
        let is_named = move |own: &Option<Box<str>>| id.is_some() && own.as_deref() == id;
        let any = self.keys.iter().any(|(own, _)| is_named(own));
        let keys = self.keys.iter().filter(move |(own, _)| !any || is_named(own)).map(|(_, key)| key);
        keys.filter(move |key| key.algorithm() == algorithm)
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Blocks of PEM (RFC 7468). Text around them is ignored.
fn pem(file: &[u8]) -> Result<Keys, KeysError> {
    let mut keys = Keys { keys: Vec::new() };
    let mut rest = std::str::from_utf8(file).map_err(|_| KeysError::NotKeys)?;
    while let Some((_, behind)) = rest.split_once("-----BEGIN ") {
        let at = keys.keys.len() + 1;
        if at > MAX_KEYS {
            return Err(KeysError::TooMany);
        }
        let damaged = KeysError::Damaged(at);
        let (label, behind) = behind.split_once("-----").ok_or(damaged)?;
        let (text, behind) = behind.split_once(&format!("-----END {label}-----")).ok_or(damaged)?;
        rest = behind;
        let text: String = text.split_ascii_whitespace().collect();
        let bytes = BASE64_STANDARD.decode(text).map_err(|_| damaged)?;
        let key = match label {
            "PUBLIC KEY" => spki(&bytes).ok_or(damaged)?.ok_or(KeysError::Unsupported(at))?,
            "RSA PUBLIC KEY" => pkcs1(&bytes).ok_or(damaged)?,
            "CERTIFICATE" => return Err(KeysError::Certificate(at)),
            label if label.ends_with("PRIVATE KEY") => return Err(KeysError::Private(at)),
            _ => return Err(KeysError::Unsupported(at)),
        };
        keys.keys.push((None, key));
    }
    if keys.keys.is_empty() { Err(KeysError::NotKeys) } else { Ok(keys) }
}

/// A SubjectPublicKeyInfo (RFC 5280 §4.1, RFC 5480, RFC 8410). `Some(None)`: it is of another kind.
fn spki(bytes: &[u8]) -> Option<Option<PublicKey>> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
    const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
    const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
    let mut info = Reader::only(bytes, der::SEQUENCE)?;
    let mut kind = info.sequence()?;
    // The first byte says how many bits of the last byte do not count.
    let key = info.take(der::BIT_STRING)?.strip_prefix(&[0])?;
    if !info.is_empty() {
        return None;
    }
    match kind.take(der::OBJECT)? {
        RSA => pkcs1(key).map(Some),
        EC if kind.take(der::OBJECT) == Some(P256) => PublicKey::p256(key).map(Some),
        ED25519 if kind.is_empty() => key.try_into().ok().map(PublicKey::Ed25519).map(Some),
        _ => Some(None),
    }
}

/// An RSAPublicKey (RFC 8017 §A.1.1).
fn pkcs1(bytes: &[u8]) -> Option<PublicKey> {
    let mut key = Reader::only(bytes, der::SEQUENCE)?;
    let (modulus, exponent) = (key.positive()?, key.positive()?);
    if key.is_empty() { PublicKey::rsa(modulus, exponent) } else { None }
}

/// Keys for other uses or algorithms are ignored.
fn set(file: &[u8]) -> Result<Keys, KeysError> {
    let value = json::parse(file).ok_or(KeysError::NotKeys)?;
    let mut keys = Keys { keys: Vec::new() };
    let one = std::slice::from_ref(&value);
    let all = value.get("keys").map_or(Some(one), |keys| keys.as_array().map(Vec::as_slice));
    for (at, value) in (1..).zip(all.ok_or(KeysError::NotKeys)?) {
        if value.get("d").is_some() {
            return Err(KeysError::Private(at));
        }
        if !is_for_signatures(value) {
            continue;
        }
        let key = jwk(value).ok_or(KeysError::Damaged(at))?;
        let id = value.get("kid").and_then(Value::as_str).map(Box::from);
        let has_algorithm =
            |key: &PublicKey| value.get("alg").is_none_or(|alg| alg == key.algorithm().name());
        keys.keys.extend(key.filter(has_algorithm).map(|key| (id, key)));
    }
    Ok(keys)
}

fn is_for_signatures(key: &Value) -> bool {
    let verifies =
        |operations: &Value| operations.as_array().is_some_and(|all| all.iter().any(|one| one == "verify"));
    key.get("use").is_none_or(|usage| usage == "sig") && key.get("key_ops").is_none_or(verifies)
}

/// RFC 7518 §6.2 and §6.3, RFC 8037 §2. `Some(None)`: it is of another kind.
fn jwk(key: &Value) -> Option<Option<PublicKey>> {
    let text = |name| key.get(name).and_then(Value::as_str);
    let bytes = |name| BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok();
    match (text("kty")?, text("crv")) {
        ("RSA", _) => PublicKey::rsa(&bytes("n")?, &bytes("e")?).map(Some),
        ("EC", Some("P-256")) => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            let is_point = x.len() == 32 && y.len() == 32;
            PublicKey::p256(&[&[4][..], &x, &y].concat()).filter(|_| is_point).map(Some)
        }
        ("OKP", Some("Ed25519")) => bytes("x")?.try_into().ok().map(PublicKey::Ed25519).map(Some),
        _ => Some(None),
    }
}

fn without_zeros(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|&&byte| byte == 0).count()..]
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PublicKey({})", self.algorithm().name())
    }
}

impl fmt::Display for KeysError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the file has more than {} KiB", MAX_FILE >> 10),
            Self::TooMany => write!(f, "the file has more than {MAX_KEYS} keys"),
            Self::NotKeys => {
                f.write_str("the file is neither PEM (-----BEGIN PUBLIC KEY-----) nor a JWK set")
            }
            Self::Damaged(at) => {
                write!(f, "key {at} is damaged, or of RSA with fewer than 2048 or more than 8192 bits")
            }
            Self::Unsupported(at) => write!(f, "key {at} is none of RSA, P-256 and Ed25519"),
            Self::Private(at) => write!(
                f,
                "key {at} is a private key, which belongs to the issuer of tokens alone; write its public key: openssl \
                 pkey -in FILE -pubout"
            ),
            Self::Certificate(at) => write!(
                f,
                "block {at} is a certificate; write its public key: openssl x509 -in FILE -pubkey -noout"
            ),
            Self::None => f.write_str("no key of the file is for signatures by RS256, ES256 or EdDSA"),
        }
    }
}

impl std::error::Error for KeysError {}
