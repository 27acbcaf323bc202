//! TLS, by rustls: certificates, keys, session tickets and their settings. Knows no connections.

mod crypto;
pub mod tickets;
