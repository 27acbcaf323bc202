//! nginx.conf.

mod around;
mod cache;
mod convert;
mod early;
mod inherit;
mod location;
mod named;
mod names;
mod read;
mod settings;
mod upstreams;

pub use convert::convert;
pub use names::KNOWN;
