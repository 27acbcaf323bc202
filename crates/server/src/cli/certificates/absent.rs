//! A build without ACME: there is no list of certificates.

use std::path::Path;
use std::process::ExitCode;

use crate::terminal;

pub fn list(_: &Path) -> ExitCode {
    terminal::fail("this program has been built without the feature acme", 1)
}
