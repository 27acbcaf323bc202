//! lighttpd.conf.

mod convert;
mod names;
mod order;
mod read;

pub use convert::convert;
pub use names::KNOWN;
