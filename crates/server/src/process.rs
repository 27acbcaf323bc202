//! Processes of the program: messages between them, when one is restarted or killed, and what each gives up.

pub mod ipc;
pub mod privilege;
pub mod privileged_file;
pub mod sandbox;
pub mod supervisor;
