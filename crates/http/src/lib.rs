//! HTTP as RFC 9110 and RFC 9112 write it: bytes become messages, and messages become bytes.
//!
//! Knows nothing of sockets, clocks, files or configuration. Whoever needs the time hands it in as
//! seconds since 1970. A request that can be read in two ways is refused and never repaired.
//!
//! The modules stand in the order in which a request meets them.

#![forbid(unsafe_code)]

pub mod head;

pub mod target;

pub mod forwarded;

pub mod framing;

pub mod chunked;

pub mod rule;

pub mod response;

pub mod status;

pub mod date;

pub mod digits;

pub mod etag;

pub mod fields;

pub mod conditional;

pub mod range;

pub mod negotiate;
