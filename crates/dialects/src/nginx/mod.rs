//! nginx.conf. `read` makes directives of the file and of those that it includes. `convert` carries out those of the
//! main block, `server` makes a host of each server, and `location` makes its routes. `settings` has the directives that
//! may stand in all of them.

mod names;
mod read;

mod constants;

mod convert;

mod server;

mod location;

mod settings;

// Upstreams, and what they are told.
mod around;
mod cache;
mod passing;
mod upstreams;

// What responds without a file, or where there is none.
mod missing;
mod named;
mod returns;

// Conditions: before anything else, and by the answer of an authorizer.
mod answers;
mod early;
mod selected;

// Fields of responses.
mod cache_control;
mod cross_origin;
mod expires;

// What nginx and this server do differently for all routes of a host.
mod index_roots;
mod inherit;
mod order;
mod own_access;
mod preceded;

pub use convert::convert;
pub use names::KNOWN;
