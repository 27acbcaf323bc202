//! HTTP/2: its frames (RFC 9113 §4 and §6) and HPACK (RFC 7541), parsed and written, and the server's side of a
//! connection.
//!
//! Knows nothing of sockets, clocks and files. Bytes go in, and events and bytes come out.

#![forbid(unsafe_code)]

pub mod server;

pub mod fields;

pub mod error;

pub mod frame;

pub mod decoder;

pub mod priority;

pub mod response;

pub mod hpack;

mod huffman;
