//! The logger: a process that writes the logs which take more than appending to a file. It rotates files, keeps
//! commands running and connections open. The other processes send it lines by pipes.
//!
//! The logger of files keeps the rights of the master, and the one of commands and connections has the account that
//! serves. Neither reads more of a line than its end.

pub mod message;
pub mod process;

mod collector;
mod connection;
mod files;
mod finishing;
mod lines;
mod queue;
mod reader;
