//! The load generator: flags and URLs become a plan, the engine sends its requests, and reports show the result.
//!
//! Uses `http` for the grammar that client and server share, and never `site` or `server`: it measures them from
//! outside. The modules stand in the order in which a run uses them.

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
