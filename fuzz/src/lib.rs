//! One function for each parser. It takes any bytes, and panics if a property of the parser does not hold. The short
//! run in `tests/corpus.rs` and the long runs in `coverage-guided` call it.
//!
//! Knows nothing of where the bytes come from. The same bytes always have the same result.

#![forbid(unsafe_code)]

mod alternates;
mod available_dictionary;
mod cached;
mod chunked;
mod config;
mod credentials;
mod cuts;
mod dates;
mod dav;
mod dialects;
mod environment;
mod fastcgi;
mod field_file;
mod forwarded;
mod head;
mod hpack;
mod http2;
mod image_map;
mod listing;
mod log_line;
mod origins;
mod page;
mod password_file;
mod proxy_header;
mod range;
mod stored_file;
mod target_path;
mod throttle_file;
mod upstream_head;
mod web;
mod zone;

pub use self::dav::dav;
pub use alternates::alternates;
pub use available_dictionary::available_dictionary;
pub use cached::cached;
pub use chunked::chunked;
pub use config::config;
pub use credentials::credentials;
pub use dates::dates;
pub use dialects::dialects;
pub use environment::environment;
pub use fastcgi::fastcgi;
pub use field_file::field_file;
pub use forwarded::forwarded;
pub use head::head;
pub use hpack::hpack;
pub use http2::http2;
pub use image_map::image_map;
pub use listing::listing;
pub use log_line::log_line;
pub use origins::origins;
pub use page::page;
pub use password_file::password_file;
pub use proxy_header::proxy_header;
pub use range::range;
pub use stored_file::stored_file;
pub use target_path::target_path;
pub use throttle_file::throttle_file;
pub use upstream_head::upstream_head;
pub use web::{apache, caddyfile, lighttpd, nginx};
pub use zone::zone;

/// Takes any bytes. Panics if a property does not hold.
pub type Target = fn(&[u8]);

/// Every target by its name. Its folder in `corpus` has the same name.
pub const TARGETS: [(&str, Target); 33] = [
    ("head", head),
    ("target_path", target_path),
    ("forwarded", forwarded),
    ("proxy_header", proxy_header),
    ("chunked", chunked),
    ("range", range),
    ("dates", dates),
    ("config", config),
    ("dialects", dialects),
    ("listing", listing),
    ("log_line", log_line),
    ("environment", environment),
    ("fastcgi", fastcgi),
    ("upstream_head", upstream_head),
    ("http2", http2),
    ("hpack", hpack),
    ("credentials", credentials),
    ("password_file", password_file),
    ("throttle_file", throttle_file),
    ("origins", origins),
    ("available_dictionary", available_dictionary),
    ("cached", cached),
    ("stored_file", stored_file),
    ("page", page),
    ("dav", dav),
    ("nginx", nginx),
    ("lighttpd", lighttpd),
    ("caddyfile", caddyfile),
    ("apache", apache),
    ("zone", zone),
    ("alternates", alternates),
    ("field_file", field_file),
    ("image_map", image_map),
];
