//! HTTP semantics (RFC 9110) and HTTP/1.1 messages (RFC 9112), parsed and written.
//!
//! Knows nothing of sockets, clocks, files or configuration. A function that needs the time takes it as an argument,
//! in seconds since 1970. The parsers reject an ambiguous request and never repair one.
//!
//! The modules are listed in the order in which a request passes them.

#![forbid(unsafe_code)]

pub mod proxy_header;

pub mod head;

mod method;

pub mod target;

pub mod path_text;

mod version;

pub mod forwarded;

pub mod framing;

pub mod chunked;

pub mod trailers;

pub mod trace_context;

pub mod rule;

pub mod write;

pub mod response;

pub mod client;

pub mod status;

pub mod date;

pub mod digits;

pub mod etag;

pub mod fields;

pub mod known;

pub mod conditional;

pub mod range;

pub mod negotiate;
