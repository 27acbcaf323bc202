//! nginx.conf.

mod answers;
mod around;
mod cache;
mod cache_control;
mod constants;
mod convert;
mod cross_origin;
mod early;
mod expires;
mod inherit;
mod location;
mod missing;
mod named;
mod names;
mod order;
mod passing;
mod read;
mod returns;
mod server;
mod settings;
mod upstreams;

pub use convert::convert;
pub use names::KNOWN;
