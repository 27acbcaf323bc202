//! uhttpd of OpenWrt: its flags, `/etc/config/uhttpd`, and the `httpd.conf` that they name.

mod convert;
mod flags;
mod options;
mod protection;
mod types;
mod uci;

pub use convert::convert;
pub use flags::{Flags, LETTERS};
pub use options::names;
