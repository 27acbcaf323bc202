//! The cryptography: AWS-LC, or ring, which has the same interface.

#[cfg(feature = "aws-lc")]
pub use aws_lc_rs::{aead, hkdf, rand};
#[cfg(not(feature = "aws-lc"))]
pub use ring::{aead, hkdf, rand};
