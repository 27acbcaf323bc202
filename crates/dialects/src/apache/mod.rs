//! Apache's httpd.conf, and the `.htaccess` files beneath its roots.

mod convert;
mod host;
mod proxy;
mod rewrite;

mod extensions;
mod flags;

mod context;

mod rejections;

mod cache_control;
mod choices;
mod conditions;
mod expressions;

mod access;
mod names;
mod options;
mod paths;

mod read;

pub use convert::convert;
pub use names::KNOWN;
