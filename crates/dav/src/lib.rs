//! WebDAV (RFC 4918) and resumable uploads (draft-ietf-httpbis-resumable-upload) as messages: the bodies and fields of
//! requests, multistatus responses, and the texts in which locks, properties and uploads are stored.
//!
//! Knows nothing of sockets, clocks, files or configuration. A function that needs the time takes it as an argument, in
//! seconds since 1970.

#![forbid(unsafe_code)]

pub mod method;

pub mod request;

pub mod fields;

pub mod condition;

pub mod multistatus;

pub mod properties;

pub mod locks;

pub mod upload;

pub mod xml;

mod lines;
