//! The configurations of other servers. A dialect is a reader: it turns the file and the flags of another server into
//! the text of a configuration, with a finding for each thing that differs. The text is read as every configuration is,
//! so that there is one mechanism.
//!
//! Opens no file: see [`Disk`].

#![forbid(unsafe_code)]

mod input;

mod web;

pub mod boa;
pub mod busybox;
pub mod thttpd;
pub mod uhttpd;

#[cfg(feature = "web")]
mod apache;
#[cfg(feature = "web")]
mod caddy;
#[cfg(feature = "web")]
mod lighttpd;
#[cfg(feature = "web")]
mod nginx;

#[cfg(feature = "web")]
mod known;

#[cfg(feature = "web")]
mod within;

#[cfg(feature = "web")]
mod draft;
#[cfg(feature = "web")]
mod endpoints;
#[cfg(feature = "web")]
mod media;
#[cfg(feature = "web")]
mod pattern;
#[cfg(feature = "web")]
mod regex;
#[cfg(feature = "web")]
mod tree;

mod brackets;
// Only the expressions of web servers have classes.
#[cfg_attr(not(feature = "web"), expect(dead_code))]
mod class;
mod document;

mod getopt;
mod words;

mod everywhere;

mod scripts;

mod disk;
mod finding;

use std::path::PathBuf;

pub use disk::Disk;
pub use finding::{Finding, Severity};
pub use input::{Dialect, Input, Start};
pub use web::Web;

/// A configuration that has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// The file that was read. Without one, what the findings are called by.
    pub file: PathBuf,
    /// The text of the configuration, in TOML.
    pub text: String,
    /// For each line of `text`, the line of `file` that it comes from.
    pub lines: Vec<Option<u32>>,
    /// By line.
    pub findings: Vec<Finding>,
}

impl Conversion {
    /// Prevents an error that the server has to be started.
    pub fn is_refused(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// The line of the file that a line of the text comes from. The first is 1.
    pub fn origin(&self, line: u32) -> Option<u32> {
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        self.lines.get(at).copied().flatten()
    }
}

/// Reads what another server would have been started with.
pub fn convert(input: &Input, disk: &dyn Disk) -> Conversion {
    match input {
        Input::Boa(flags) => boa::convert(flags, disk),
        Input::Thttpd(flags) => thttpd::convert(flags, disk),
        Input::Busybox(flags) => busybox::convert(flags, disk),
        Input::Uhttpd(flags) => uhttpd::convert(flags, disk),
        Input::Web(web, file) => web.convert(file, disk),
    }
}
