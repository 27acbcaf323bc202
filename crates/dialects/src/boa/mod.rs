//! Boa: `boa.conf` and the flags of Boa 0.92 to 0.94.14rc21, and of the branch that GnuPG maintains.

mod aliases;
mod convert;
mod directives;
mod flags;
mod glob;
mod hosts;
mod types;
mod users;

pub use convert::convert;
pub use directives::names;
pub use flags::{Flags, LETTERS};
