//! Pages with server-side includes, as Apache's mod_include documents them, and with Edge Side Includes: bytes → nodes,
//! and nodes → steps that make the content.
//!
//! Knows nothing of files, requests and sockets: the caller includes what a step names.

#![forbid(unsafe_code)]

pub mod coding;
pub mod directive;
mod esi;
pub mod evaluate;
pub mod expression;
pub mod format;
pub mod mistake;
pub mod page;
pub mod reference;
pub mod scan;
pub mod template;
pub mod variables;
