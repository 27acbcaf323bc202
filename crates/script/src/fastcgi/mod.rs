//! FastCGI 1.0, both ends of it: the server that asks (`client`) and the application that answers
//! (`application`), over records and pairs of names and values. Numbers in comments are sections of the
//! FastCGI Specification of 29 April 1996.

pub mod record;

pub mod pairs;

pub mod stream;

pub mod client;

pub mod application;

use std::fmt;

pub use taipan_http::head::Persistence;

/// Which request of a connection a record belongs to; never 0, which is the connection itself (§3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(u16);

/// What is asked of an application (§6). There is no filter: nobody has a use for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// To answer, as a CGI program does.
    Responder,
    /// To say whether a request may pass.
    Authorizer,
}

/// How a request has ended (§5.5, protocolStatus).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProtocolStatus {
    Complete,
    /// The application answers one request at a time on a connection.
    CannotMultiplex,
    /// It has no room for one more; ask elsewhere, or later.
    Overloaded,
    UnknownRole,
}

/// What an application can do (§4.1); `None` where it has not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities {
    /// Connections at a time.
    pub connections: Option<u32>,
    /// Requests at a time.
    pub requests: Option<u32>,
    /// Several requests at a time on one connection.
    pub multiplexing: Option<Multiplexing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Multiplexing {
    No,
    Yes,
}

/// Names of §4.1.
const MAX_CONNECTIONS: &str = "FCGI_MAX_CONNS";
const MAX_REQUESTS: &str = "FCGI_MAX_REQS";
const MULTIPLEXES: &str = "FCGI_MPXS_CONNS";

impl RequestId {
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl Role {
    const fn number(self) -> u16 {
        match self {
            Role::Responder => 1,
            Role::Authorizer => 2,
        }
    }

    const fn of(number: u16) -> Option<Role> {
        match number {
            1 => Some(Role::Responder),
            2 => Some(Role::Authorizer),
            _ => None,
        }
    }
}

/// The flags of FCGI_BEGIN_REQUEST (§5.1); all bits but FCGI_KEEP_CONN are reserved.
const fn flags(persistence: Persistence) -> u8 {
    match persistence {
        Persistence::Close => 0,
        Persistence::KeepAlive => 1,
    }
}

const fn persistence(flags: u8) -> Persistence {
    if flags & 1 == 1 { Persistence::KeepAlive } else { Persistence::Close }
}

impl ProtocolStatus {
    const fn number(self) -> u8 {
        match self {
            ProtocolStatus::Complete => 0,
            ProtocolStatus::CannotMultiplex => 1,
            ProtocolStatus::Overloaded => 2,
            ProtocolStatus::UnknownRole => 3,
        }
    }

    const fn of(number: u8) -> Option<ProtocolStatus> {
        match number {
            0 => Some(ProtocolStatus::Complete),
            1 => Some(ProtocolStatus::CannotMultiplex),
            2 => Some(ProtocolStatus::Overloaded),
            3 => Some(ProtocolStatus::UnknownRole),
            _ => None,
        }
    }
}

/// As an administrator reads it where it is no `Complete`.
impl fmt::Display for ProtocolStatus {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            ProtocolStatus::Complete => "complete",
            ProtocolStatus::CannotMultiplex => {
                "the application answers one request at a time on a connection"
            }
            ProtocolStatus::Overloaded => "the application is overloaded",
            ProtocolStatus::UnknownRole => "the application does not play this role",
        })
    }
}

#[cfg(test)]
mod tests;
