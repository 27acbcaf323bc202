//! The command line. Every command is defined once, in `commands`, and every flag in `table`. The parser, `--help`, the
//! manual page and the shell completions are made from them.

mod commands;
mod completions;
mod help;
mod manual_page;
mod parse;
mod table;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use auth::digest_users::Algorithm;
use auth::hash::NewHash;
use dialects::Input;
use site::host::HostAddress;
use site::watch::Filter;

use crate::control::{ConfigSource, Request, SiteSource};

pub use self::commands::CommandKey;
pub use self::help::{help, reference};
pub use self::parse::{advice, parse, parse_line};

/// The parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Serve(Serve),
    Check {
        source: ConfigSource,
    },
    /// Prints the configuration of another server as one of this program.
    Convert {
        input: Input,
    },
    /// What another server would print, and its exit code.
    Print(Vec<u8>, u8),
    Certificates {
        config: PathBuf,
    },
    /// Sends a request to a running program.
    Control {
        source: SiteSource,
        request: Request,
    },
    Watch {
        source: SiteSource,
        filter: Filter,
    },
    /// Shows what a running program does.
    Top {
        source: SiteSource,
        mode: TopMode,
    },
    Explain(Explain),
    Healthcheck {
        url: String,
        timeout: Duration,
    },
    Wrap(Wrap),
    Passwd(Passwd),
    Resolve(Resolve),
    Report(Report),
    Generate(Document),
    Help(CommandKey),
    Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopMode {
    /// Until a key or a signal ends it, if there is a terminal.
    Live,
    /// One table.
    Once,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serve {
    pub source: SiteSource,
    /// Addresses that replace those of the site. Empty: the flag is not given.
    pub listen: Vec<String>,
    pub workers: Option<usize>,
    pub access_log: Option<String>,
    pub user: Option<String>,
    /// Names for which the folder is served by TLS.
    pub tls: Vec<String>,
    pub presence: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Foreground,
    /// The process that was started ends as soon as another one serves.
    Background,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explain {
    pub source: SiteSource,
    pub method: String,
    pub url: String,
    pub fields: Vec<String>,
    /// The address of the client.
    pub from: IpAddr,
    /// The address of the server. `None`: one that no host names.
    pub to: Option<HostAddress>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrap {
    /// `None`: the socket that the program inherits.
    pub socket: Option<String>,
    pub processes: usize,
    pub scripts: Scripts,
}

/// The scripts that `fcgi-wrap` runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scripts {
    /// One program with its arguments, for every request.
    Program(OsString, Vec<OsString>),
    /// The file that the request names, beneath one of these folders.
    Beneath(Vec<PathBuf>),
}

/// Which names `resolve` writes, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolve {
    /// `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The file that keeps names between runs.
    pub names: Option<PathBuf>,
    /// The folder for a file of each host. `None`: all lines go to standard output.
    pub split: Option<PathBuf>,
    /// Only names that lead back to their address.
    pub confirm: bool,
    /// Questions at the same time.
    pub jobs: usize,
    pub timeout: Duration,
    /// `None`: those of the system.
    pub server: Option<SocketAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// `-` is standard input.
    pub files: Vec<PathBuf>,
    /// `None`: it is printed as text.
    pub html: Option<PathBuf>,
}

/// What `passwd` does, and for which user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passwd {
    pub user: String,
    pub task: PasswdTask,
    pub password: PasswordFrom,
    pub kind: PasswdKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswdTask {
    /// In place of the file that is there, if one is.
    Create(PathBuf),
    Set(PathBuf),
    Delete(PathBuf),
    Verify(PathBuf),
    /// Prints the line.
    Print,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordFrom {
    Terminal,
    Stdin,
    Argument(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswdKind {
    Hash(NewHash),
    /// Lines for Digest.
    Digest(String, &'static [Algorithm]),
}

/// The documents of `taipan generate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    Man,
    Bash,
    Zsh,
    Fish,
}

impl Document {
    pub fn text(self) -> String {
        match self {
            Document::Man => manual_page::man(),
            Document::Bash => completions::bash(),
            Document::Zsh => completions::zsh(),
            Document::Fish => completions::fish(),
        }
    }
}

/// A mistake in the command line: one line, with what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(pub String);
