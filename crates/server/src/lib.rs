//! The server. A request passes through these modules: the acceptor accepts a connection, the `connection` parses a
//! request, the `exchange` finds its route and checks its permission, the crate `site` decides, `content` or an
//! `upstream` makes a response, the connection sends it, and the `log` writes one line.
//!
//! The `master` is the process that was started. For each configuration, it starts a `generation`: a process with
//! workers.
//!
//! This crate has only effects: the crate `site` decides how to respond, and the crate `http` knows what a message
//! means. A module uses only lower layers; `tests/layers.rs` has their order.

pub mod cli;

pub mod master;

pub mod config;
pub mod start;

pub mod generation;
pub mod worker;

pub mod connection;
pub mod listen;

pub mod exchange;

pub mod upstream;

#[cfg(feature = "acme")]
pub mod acme;
#[cfg(not(feature = "acme"))]
#[path = "acme/absent.rs"]
pub mod acme;

pub mod client_names;
pub mod forward_proxy;
pub mod logger;
pub mod name_lookup;
pub mod pool;
pub mod service_process;
#[cfg(feature = "tls")]
pub mod signer;
#[cfg(not(feature = "tls"))]
#[path = "signer/absent.rs"]
pub mod signer;
pub mod spawner;

pub mod cache;
pub mod content;
pub mod publishing;
pub mod request;
pub mod response;

pub mod files;
pub mod response_head;

pub mod names;

pub mod services;

pub mod limits;

mod destination;
mod signature;

pub mod steps;

#[cfg(feature = "tls")]
pub mod tls;
#[cfg(not(feature = "tls"))]
#[path = "tls/absent.rs"]
pub mod tls;

pub mod disk;
pub mod log;
pub mod overload;
pub mod stats;
pub mod trace;
pub mod watch;

pub mod control;
pub mod flags;

pub mod process;

pub mod admission;
pub mod background;
pub mod buffer;
pub mod clock;
pub mod encoder;
pub mod file_stamps;
pub mod finding;
pub mod handshake;
pub mod peer;
pub mod regular_file;
pub mod semaphore;
pub mod tasks;
pub mod terminal;

pub mod sys;

mod unsupported_builds;
