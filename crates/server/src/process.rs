//! What the processes of the program share: messages, when a child is restarted or killed, what each gives up, children
//! that answer a question, and the files that root writes.

pub mod child;
pub mod forked;
pub mod ipc;
pub mod privilege;
pub mod privileged_file;
pub mod sandbox;
pub mod supervisor;
