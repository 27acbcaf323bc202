//! Caddyfile.

mod convert;
mod guards;
mod matchers;
mod names;
mod read;
mod responses;
mod tried;
mod upstreams;

pub use convert::convert;
pub use names::KNOWN;
