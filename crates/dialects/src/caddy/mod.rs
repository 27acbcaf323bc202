//! Caddyfile. `read` makes blocks of the file, its snippets and imports, and `convert` carries out each block. `site`
//! finds the paths and conditions that a directive is for, and `finish` makes the routes of all of them.

mod by_host;
mod names;
mod read;

mod convert;

mod site;

mod matchers;

// Directives.
mod fields;
mod files;
mod guards;
mod missing;
mod responses;
mod tried;
mod upstreams;

mod listens;
mod options;

mod finish;

pub use convert::convert;
pub use names::KNOWN;
