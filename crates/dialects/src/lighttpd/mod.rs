//! lighttpd.conf. `read` makes assignments and conditions of the file, `convert` makes its hosts, and `conditions`
//! their routes. `settings` carries out an assignment.

mod names;
mod read;

mod convert;

mod lists;

mod conditions;

mod settings;
mod upstreams;

mod order;
mod paths;

pub use convert::convert;
pub use names::KNOWN;
