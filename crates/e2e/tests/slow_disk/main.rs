//! A slow or dead file system hurts only those who ask for it. Proved on one of our own, which is as slow
//! as a test wants it to be.

mod file_system;

mod fixture;

mod isolation;

mod timeouts;

mod transfers;

mod changes;

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// Those who ask for something slow, each for something else.
const CLIENTS: usize = 200;
/// Some more of everything is there.
const NUMBERS: usize = CLIENTS + 2;
