//! The server. A request passes through these modules: the acceptor accepts a connection, the `connection` parses a
//! request, the `exchange` finds its route and checks its permission, the crate `site` decides, `content` or an
//! `upstream` makes a response, the connection sends it, and the `log` writes one line.
//!
//! The `master` is the process that was started. For each configuration, it starts a `generation`: a process with
//! workers.
//!
//! This crate has only effects: the crate `site` decides how to respond, and the crate `http` knows what a message
//! means. A module uses only lower layers; `tests/layers.rs` has their order.
//!
//! Public is only what the program and the tests need, so that the compiler finds what nothing uses.

pub mod cli;

pub mod master;

pub mod config;
mod start;

mod generation;
pub mod worker;

mod connection;
mod listen;

mod exchange;

mod upstream;

#[cfg(feature = "acme")]
mod acme;
#[cfg(not(feature = "acme"))]
#[path = "acme/absent.rs"]
mod acme;

mod client_names;
mod forward_proxy;
mod logger;
mod name_lookup;
mod pool;
mod service_process;
#[cfg(feature = "tls")]
pub mod signer;
#[cfg(not(feature = "tls"))]
#[path = "signer/absent.rs"]
pub mod signer;
pub mod spawner;

mod cache;
mod content;
mod publishing;
mod request;
mod response;

pub mod files;
mod response_head;

mod resolver;

mod services;

mod limits;

mod destination;
mod signature;

mod steps;

#[cfg(feature = "tls")]
pub mod tls;
#[cfg(not(feature = "tls"))]
#[path = "tls/absent.rs"]
pub mod tls;

mod disk;
mod log;
pub mod main_thread;
mod overload;
pub mod stats;
mod trace;
mod watch;

pub mod control;
pub mod flags;

pub mod process;

mod admission;
mod background;
mod buffer;
mod clock;
mod encoder;
mod file_stamps;
mod finding;
mod gunzip;
mod mutex;
mod peer;
mod regular_file;
mod semaphore;
mod tasks;
pub mod terminal;
mod tls_facts;

pub mod sys;

mod unsupported_builds;
