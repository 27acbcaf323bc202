//! nginx.conf.

mod convert;
mod location;
mod read;
mod settings;
mod upstreams;

pub use convert::convert;
