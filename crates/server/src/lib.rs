//! The server, as the way of a request: `listen` accepts a socket, `conn` turns its bytes into messages,
//! each message becomes an `exchange`, the `site` crate decides the answer, `serve` fetches it, `conn`
//! sends it, and `log` writes one line.
//!
//! Effects only: what is answered is decided in `site`, what a message means in `http`.

pub mod config;
pub mod flags;
pub mod start;

pub mod worker;

pub mod listen;

pub mod conn;

pub mod exchange;

pub mod serve;

pub mod files;

pub mod disk;

pub mod log;

pub mod clock;
pub mod explain;
pub mod healthcheck;
pub mod places;
pub mod privilege;
pub mod sys;
pub mod terminal;
