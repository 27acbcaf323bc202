//! What to answer: pure policy. A request and facts about a file go in, a decision comes out.
//!
//! Knows nothing of sockets, of how a file is read, or of the time of day: all of that is handed in.
//!
//! The modules stand in the order in which one should read them.

#![forbid(unsafe_code)]

pub mod model;

pub mod address;

pub mod upstream;

pub mod proxies;

pub mod config;

pub mod host;

pub mod route;

pub mod walk;

pub mod template;

pub mod plan;

pub mod decide;

pub mod mime;

pub mod listing;

pub mod error_page;

pub mod log_line;

pub mod text;

pub mod memory;
