//! The cryptography: AWS-LC, or ring, which has the same interface.

#[cfg(feature = "aws-lc")]
pub use aws_lc_rs::{aead, hkdf, rand};
#[cfg(not(feature = "aws-lc"))]
pub use ring::{aead, hkdf, rand};

#[cfg(feature = "aws-lc")]
pub use rustls::crypto::aws_lc_rs as provider;
#[cfg(not(feature = "aws-lc"))]
pub use rustls::crypto::ring as provider;

#[cfg(all(test, feature = "aws-lc"))]
pub use aws_lc_rs::signature;
#[cfg(all(test, not(feature = "aws-lc")))]
pub use ring::signature;
