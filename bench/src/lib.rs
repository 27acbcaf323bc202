//! What the load tools share: which paths to ask for, how long a response is, and how long it
//! took. Knows nothing of epoll; that is each binary's own.

pub mod latency;
pub mod paths;
pub mod response;

use std::fmt::Display;
use std::process::ExitCode;

/// The end of every binary here: silence, or one line that says who, what and where.
pub fn exit<E: Display>(program: &str, outcome: Result<(), E>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}
