//! HTTP/2 frames (RFC 9113 §4 and §6) and HPACK (RFC 7541), parsed and written.
//!
//! Knows nothing of sockets, clocks, streams and windows. The only state is that of the parsers: a partial frame, a
//! field block, and the dynamic table of HPACK.

#![forbid(unsafe_code)]

pub mod error;

pub mod frame;

pub mod decoder;

pub mod hpack;

mod huffman;
