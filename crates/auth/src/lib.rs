//! Who a user is: hashes of passwords, password and group files, credentials in requests, and tokens.
//!
//! Pure: files come as bytes; the time, random bytes and keys are arguments. No message contains a password or a hash.
//!
//! The modules are listed in the order in which one should read them.

#![forbid(unsafe_code)]

pub mod basic;

pub mod digest;

pub mod nonce;

#[cfg(feature = "jwt")]
pub mod jwt;

#[cfg(feature = "jwt")]
pub mod keys;

#[cfg(feature = "jwt")]
mod json;

#[cfg(feature = "jwt")]
mod der;

pub mod users;

pub mod digest_users;

pub mod groups;

pub mod edit;

pub mod hash;

pub mod mistake;

mod crypt64;
