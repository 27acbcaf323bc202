//! Tests that start the real program and connect to it over real sockets.
//!
//! A test makes a [`Site`], starts it, and sends requests to the [`Server`] through a [`Client`], byte by
//! byte where it matters. Nothing here knows how the server works: the parser of responses is a separate one,
//! which accepts only what RFC 9112 allows.

mod background;
mod certificates;
mod cgroup;
mod client;
mod clients;
mod control;
pub mod device;
pub mod dns;
mod download;
mod exchange;
mod folder;
mod gate;
pub mod http2;
mod in_flight;
mod output;
mod process;
mod program;
mod random;
pub mod records;
mod repeat;
mod response;
mod server;
mod site;
mod tls;
mod tools;
pub mod upstream;

use std::time::Duration;

pub use rustix::process::Signal;

pub use background::BackgroundProcess;
pub use certificates::{Authority, Certificate, authority};
pub use cgroup::ControlGroup;
pub use client::{Client, ReadError, Traffic};
pub use clients::{Clients, Page, Persistence, Tally};
pub use exchange::{Exchange, Rows, exchange};
pub use folder::{Folder, SmallDisk};
pub use gate::Gate;
pub use in_flight::OwnAccount;
pub use output::Lines;
pub use process::{children_of, group_of, parent_of, processor_time, runs, sleeps};
pub use program::{command, program, run};
pub use random::Random;
pub use response::{Malformed, Response, chunked};
pub use server::{Address, Server, signal_process, stop_process, wait_until};
pub use site::Site;
pub use tls::Tls;
pub use tools::{
    command_with_descriptors, command_without_privilege, debian_package, exclusive, free_port, gzip,
    has_open, is_root, npm_package, output_of, output_within, own_user, path_of, php_fpm, python_packages,
    python_source, raise_descriptor_limit, tool, without_privilege,
};

/// The longest time that anything immediate may take, even on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The beginning of a text, short enough for the message of a failed assertion.
pub fn shown(bytes: impl AsRef<[u8]>) -> String {
    const MOST: usize = 400;
    let bytes = bytes.as_ref();
    match bytes.len() {
        ..=MOST => format!("\"{}\"", bytes.escape_ascii()),
        len => format!("\"{}\"… ({len} bytes)", bytes[..MOST].escape_ascii()),
    }
}
