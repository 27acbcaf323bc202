//! The commands of the program, apart from serving: each module is one command, or what several commands use.

#[cfg(feature = "acme")]
pub mod certificates;
#[cfg(not(feature = "acme"))]
#[path = "cli/certificates/absent.rs"]
pub mod certificates;
pub mod check;
pub mod convert;
pub mod explain;
pub mod fcgi_wrap;
pub mod healthcheck;
pub mod passwd;
pub mod report;
pub mod resolve;
pub mod top;

mod first_line;
mod jail;
mod log_input;
mod output_file;
mod oversights;
