//! nginx.conf.

mod convert;
mod inherit;
mod location;
mod names;
mod read;
mod settings;
mod upstreams;

pub use convert::convert;
pub use names::KNOWN;
