//! TLS, by rustls: certificates, keys, session tickets and their settings. Knows no connections.

pub mod crypto;
pub mod tickets;
