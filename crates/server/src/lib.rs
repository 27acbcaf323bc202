//! The server, as the way of a request: the acceptor takes a connection, the `connection` turns bytes into a request,
//! the `exchange` finds its route and whether it may pass, the `site` crate decides, `content` or an `upstream` makes
//! a response, the connection sends it, and the `log` writes one line.
//!
//! Around it: the `master`, which was started and stays, has a `generation` of workers serve each
//! configuration.
//!
//! Effects only: what is answered is decided in `site`, what a message means in `http`. Each room uses only those below
//! it; `tests/layers.rs` holds the order.

pub mod check;
pub mod explain;
pub mod healthcheck;

pub mod fcgi_wrap;

pub mod master;

pub mod config;
pub mod start;

pub mod generation;
pub mod worker;

pub mod connection;
pub mod listen;

pub mod exchange;

pub mod upstream;

pub mod pool;
pub mod spawner;

pub mod content;
pub mod request;
pub mod response;

pub mod files;
pub mod response_head;

pub mod services;

pub mod disk;
pub mod log;
pub mod overload;
pub mod stats;

pub mod privilege;
pub mod privileged_file;
pub mod sandbox;

pub mod control;
pub mod flags;
pub mod ipc;
pub mod supervisor;

pub mod admission;
pub mod announce;
pub mod buffer;
pub mod clock;
pub mod peer;
pub mod semaphore;
pub mod terminal;

pub mod sys;
