//! Certificates that the server gets by ACME (RFC 8555), or makes itself. A process of its own speaks with authorities; the
//! master stores what it gets, and starts a generation that serves it.

pub mod https;
pub mod issue;
pub mod schedule;
pub mod storage;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// The cryptography of connections to authorities.
fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "aws-lc")]
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(not(feature = "aws-lc"))]
    let provider = rustls::crypto::ring::default_provider();
    Arc::new(provider)
}
