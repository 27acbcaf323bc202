//! httpd of busybox: its flags and `httpd.conf`.

mod access;
mod convert;
mod flags;
mod folders;
mod text;

pub use convert::{KINDS, convert};
pub use flags::{Flags, LETTERS};
pub use text::decoded;
