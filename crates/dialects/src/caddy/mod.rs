//! Caddyfile.

mod convert;
mod guards;
mod names;
mod read;

pub use convert::convert;
pub use names::KNOWN;
