//! Shared code of the load tools: paths, response lengths and latencies. Knows nothing of epoll, which each binary
//! uses itself.

pub mod latency;
pub mod paths;
pub mod response;

use std::fmt::Display;
use std::process::ExitCode;

/// The exit code of every binary here. An error is one line with the program and the reason.
pub fn exit<E: Display>(program: &str, outcome: Result<(), E>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}
