//! lighttpd.conf.

mod convert;
mod names;
mod read;

pub use convert::convert;
pub use names::KNOWN;
