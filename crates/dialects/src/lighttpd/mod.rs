//! lighttpd.conf.

mod conditions;
mod convert;
mod names;
mod order;
mod paths;
mod read;
mod settings;
mod upstreams;

pub use convert::convert;
pub use names::KNOWN;
