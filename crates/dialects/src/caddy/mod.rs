//! Caddyfile.

mod convert;
mod fields;
mod files;
mod finish;
mod guards;
mod listens;
mod matchers;
mod missing;
mod names;
mod options;
mod read;
mod responses;
mod site;
mod tried;
mod upstreams;

pub use convert::convert;
pub use names::KNOWN;
