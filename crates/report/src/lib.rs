//! What access logs say: lines of any usual format → entries → counts → a page of text or of HTML.
//!
//! Knows nothing of files and clocks: the caller passes lines.

#![forbid(unsafe_code)]

pub mod html;
pub mod text;

mod tables;

pub mod summary;

pub mod agent;
pub mod top;

pub mod entry;
