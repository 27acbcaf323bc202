//! What a command names: what is to be served, or is.

use std::path::PathBuf;

/// A folder, or a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Folder(PathBuf),
    Config(PathBuf),
}
