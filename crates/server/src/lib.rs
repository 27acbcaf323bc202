//! The server, as the way of a request: `listen` accepts a socket, `conn` turns its bytes into messages,
//! each message becomes an `exchange`, the `site` crate decides the answer, `serve` fetches it, `conn`
//! sends it, and `log` writes one line.
//!
//! Around it: the `keeper`, which was started and stays, has a `generation` of workers serve each
//! configuration.
//!
//! Effects only: what is answered is decided in `site`, what a message means in `http`.

mod refused_targets;

pub mod config;
pub mod flags;
pub mod served;
pub mod start;

pub mod keeper;

pub mod generation;

pub mod runner;

pub mod pool;

pub mod worker;

pub mod listen;

pub mod connection;

pub mod exchange;

pub mod request;
pub mod response;
pub mod response_head;

pub mod content;

pub mod upstream;

pub mod files;

pub mod disk;

pub mod log;

pub mod services;

pub mod bridge;

pub mod announce;
pub mod buffer;
pub mod channel;
pub mod check;
pub mod clock;
pub mod control;
pub mod crashes;
pub mod explain;
pub mod healthcheck;
pub mod load;
pub mod peer;
pub mod places;
pub mod privilege;
pub mod privileged_file;
pub mod sandbox;
pub mod stats;
pub mod sys;
pub mod terminal;
