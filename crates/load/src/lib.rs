//! The load generator: what is asked of a server, how it is asked, and what came of it.
//!
//! Uses `http` for what both sides must agree upon, and never `site` or `server`: it judges them from
//! outside. The modules stand in the order in which a run meets them.

pub mod flags;

pub mod plan;

pub mod urls;

pub mod engine;

pub mod verify;

pub mod shape;

pub mod tls;

pub mod h2;

pub mod run;

pub mod report;

pub mod worker;

pub mod progress;
