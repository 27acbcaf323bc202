//! In place of `delta`, in a build without its encoders.

use std::io;

use taipan_http::negotiate::Coding;

pub type Hash = [u8; 32];

pub fn hash(_: &[u8]) -> Hash {
    [0; 32]
}

pub fn encode(_: Coding, _: &[u8], _: &[u8]) -> io::Result<Option<Vec<u8>>> {
    Ok(None)
}
