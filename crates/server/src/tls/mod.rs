//! TLS, by rustls: certificates, keys, session tickets and their settings. Knows no connections.
//!
//! The master reads the [`Material`] of a site, and a generation makes a [`ServerTls`] of it.

pub mod crypto;

mod pem;

pub mod inspect;

pub mod material;

mod names;

mod resolver;

mod clients;

pub mod tickets;

mod settings;

pub use crypto::provider;
pub use material::Material;
pub use resolver::Challenges;
pub use settings::{Choice, HTTP2, ServerTls};

#[cfg(all(test, feature = "aws-lc"))]
mod tests;
