//! FastCGI 1.0: the server's side of a connection (`client`) and the application's (`application`), over records and
//! name-value pairs. Section numbers are those of the FastCGI Specification of 29 April 1996.

pub mod record;

pub mod stream;

pub mod client;

pub mod application;

use std::fmt;

pub use taipan_http::head::Persistence;

/// The id of a request on its connection (§3.3). Not 0, which marks the management records of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(u16);

/// The role of the application (§6). The Filter role is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Responds, like a CGI program.
    Responder,
    /// Decides whether a request is authorized.
    Authorizer,
}

/// The protocolStatus of FCGI_END_REQUEST (§5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProtocolStatus {
    Complete,
    /// The application takes one request at a time on a connection.
    CannotMultiplex,
    /// The application is at capacity.
    Overloaded,
    UnknownRole,
}

/// What an application supports (§4.1); `None` for variables that it has not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities {
    /// Concurrent connections.
    pub connections: Option<u32>,
    /// Concurrent requests.
    pub requests: Option<u32>,
    /// Concurrent requests on one connection.
    pub multiplexing: Option<Multiplexing>,
}

/// Whether an application takes several requests at a time on one connection (§4.1, FCGI_MPXS_CONNS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Multiplexing {
    No,
    Yes,
}

/// The variables of §4.1.
const MAX_CONNECTIONS: &str = "FCGI_MAX_CONNS";
const MAX_REQUESTS: &str = "FCGI_MAX_REQS";
const MULTIPLEXES: &str = "FCGI_MPXS_CONNS";

impl RequestId {
    /// The request ID of records (§3.3).
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

/// For the log, if it is not `Complete`.
impl fmt::Display for ProtocolStatus {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            ProtocolStatus::Complete => "complete",
            ProtocolStatus::CannotMultiplex => "the application takes one request at a time on a connection",
            ProtocolStatus::Overloaded => "the application is overloaded",
            ProtocolStatus::UnknownRole => "the application does not support this role",
        })
    }
}

#[cfg(test)]
mod tests;
