//! TLS, by rustls: certificates, keys, session tickets and their settings. Knows no connections.
//!
//! The master reads the [`Material`] of a site, without its private keys, and a generation makes a [`ServerTls`] of it.

pub mod crypto;

pub mod pem;

pub mod inspect;

pub mod material;

mod names;

mod resolver;

mod clients;

pub mod lifetime;

pub mod tickets;

pub mod kernel;

mod settings;

mod client;

pub mod reasons;

mod facts;

pub use client::{ClientReading, ClientTls, Offer, begin_unverified};
pub use crypto::{SigningKeys, provider};
pub use facts::facts;
pub use material::Material;
pub use resolver::{Challenges, take_asked_name};
pub use settings::{Choice, HTTP2, KeySource, ServerTls, TlsSetup, kernel_ciphers, offered_protocols};
pub use tickets::TicketSecrets;

#[cfg(all(test, feature = "aws-lc"))]
mod tests;
