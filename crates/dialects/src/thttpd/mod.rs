//! thttpd: its flags and `thttpd.conf`, of 2.25 to 2.29. A keyword of the file is a flag by another name.

mod convert;
mod flags;
mod options;

pub use convert::convert;
pub use flags::{Flags, letters};
pub use options::names;
