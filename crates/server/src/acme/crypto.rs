//! The cryptography of accounts: AWS-LC, or ring, which has nearly the same interface.

#[cfg(feature = "aws-lc")]
use aws_lc_rs as library;
#[cfg(not(feature = "aws-lc"))]
use ring as library;

use library::rand::SystemRandom;
use library::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use library::{digest, hmac};
use rustls::pki_types::PrivatePkcs8KeyDer;

#[cfg(feature = "aws-lc")]
fn key_pair(key: &PrivatePkcs8KeyDer<'_>) -> Option<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.secret_pkcs8_der()).ok()
}

#[cfg(not(feature = "aws-lc"))]
fn key_pair(key: &PrivatePkcs8KeyDer<'_>) -> Option<EcdsaKeyPair> {
    let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    EcdsaKeyPair::from_pkcs8(algorithm, key.secret_pkcs8_der(), &random).ok()
}

/// An ES256 signature (RFC 7518 §3.4). `None`: it is not a key for P-256.
pub fn sign(key: &PrivatePkcs8KeyDer<'_>, message: &[u8]) -> Option<Vec<u8>> {
    let signature = key_pair(key)?.sign(&SystemRandom::new(), message).ok()?;
    Some(signature.as_ref().to_vec())
}

/// HS256 (RFC 7518 §3.2).
pub fn authenticate(key: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref().to_vec()
}

pub fn sha256(message: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, message).as_ref());
    hash
}
