//! HTTP/2 on the wire: frames (RFC 9113 §4 and §6) and compressed heads (RFC 7541), read and written. Pure: no
//! socket, no clock, no connection state beyond the table that HPACK has.

pub mod frame;

pub mod hpack;

pub mod huffman;
