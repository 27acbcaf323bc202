//! lighttpd.conf.

mod convert;
mod read;

pub use convert::convert;
