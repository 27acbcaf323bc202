//! httpd of busybox: its flags and `httpd.conf`.

mod access;
mod convert;
mod flags;
mod folders;
mod lines;
mod text;

pub use convert::convert;
pub use flags::{Flags, LETTERS};
pub use lines::KINDS;
pub use text::decoded;
