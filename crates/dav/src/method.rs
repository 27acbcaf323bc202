//! The methods by which clients publish.

use taipan_http::head::Method as Known;

/// The methods of RFC 4918 §9, and those of RFC 9110 and RFC 5789 that it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    Options,
    Put,
    Delete,
    Patch,
    PropFind,
    PropPatch,
    MkCol,
    Copy,
    Move,
    Lock,
    Unlock,
}

impl Method {
    /// `None`: another method. Methods are case-sensitive (RFC 9110 §9.1).
    pub fn of(method: Known, token: &str) -> Option<Method> {
        Some(match (method, token) {
            (Known::Options, _) => Method::Options,
            (Known::Put, _) => Method::Put,
            (Known::Delete, _) => Method::Delete,
            (Known::Patch, _) => Method::Patch,
            (Known::Unknown, "PROPFIND") => Method::PropFind,
            (Known::Unknown, "PROPPATCH") => Method::PropPatch,
            (Known::Unknown, "MKCOL") => Method::MkCol,
            (Known::Unknown, "COPY") => Method::Copy,
            (Known::Unknown, "MOVE") => Method::Move,
            (Known::Unknown, "LOCK") => Method::Lock,
            (Known::Unknown, "UNLOCK") => Method::Unlock,
            _ => return None,
        })
    }
}
