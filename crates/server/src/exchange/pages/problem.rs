//! Why a page does not get what a directive names, for the error log.

use std::fmt;

use ssi::reference::Unresolved;
use taipan_http::status::Status;

/// Why something is not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    Reference(Unresolved),
    /// It is no path of this server.
    Path,
    TooMany(usize),
    TooDeep(usize),
    /// A page would include itself.
    Recursion,
    Status(Status),
    /// Its content cannot be read to the end.
    Cut,
    /// It has no size or time: it is no file.
    NoFile,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Reference(Unresolved::Malformed) | Problem::Path => write!(out, "this is not a path"),
            Problem::Reference(Unresolved::OtherHost) => {
                write!(out, "it is on another host; a route of this one can lead there")
            }
            Problem::Reference(Unresolved::Outside) => {
                write!(out, "\"file\" stays in the folder of its page; use \"virtual\"")
            }
            Problem::TooMany(limit) => {
                write!(out, "the response has included {limit} times; see \"includes\"")
            }
            Problem::TooDeep(limit) => {
                write!(out, "it is more than {limit} pages deep; see \"include_depth\"")
            }
            Problem::Recursion => write!(out, "the page would include itself"),
            Problem::Status(status) => write!(out, "the response is {status}"),
            Problem::Cut => write!(out, "it is not complete"),
            Problem::NoFile => write!(out, "there is no file"),
        }
    }
}
