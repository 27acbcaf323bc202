//! Certificates that the server gets by ACME (RFC 8555), or makes itself. A process of its own speaks with authorities;
//! the master stores what it gets, and starts a generation that serves it.

mod account;
mod challenges;
mod crypto;
mod dns;
mod files;
mod https;
pub mod issue;
pub mod local;
pub mod message;
mod order;
pub mod process;
mod report;
mod schedule;
pub mod storage;
mod stored;
mod window;

pub use challenges::OpenChallenges;
pub use files::{AcmeFiles, Renewal, Wanted, problems, renewal_of};
pub use report::KnownAccount;
