//! A slow or dead file system delays only requests for its own files. Shown with a FUSE file system that is
//! as slow as each test wants.

mod file_system;

mod fixture;

mod isolation;

mod timeouts;

mod transfers;

mod changes;

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// Clients that request slow files, each another one.
const CLIENTS: usize = 200;
/// Number of files of each kind, with some to spare.
const NUMBERS: usize = CLIENTS + 2;
