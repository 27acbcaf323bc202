//! FastCGI 1.0, both ends of it: the server that asks (`client`) and the application that answers
//! (`application`), over records and pairs of names and values. Numbers in comments are sections of the
//! FastCGI Specification of 29 April 1996.

pub mod record;

pub mod pairs;

pub mod stream;

pub mod client;

pub mod application;

use std::fmt;

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

/// What becomes of a connection when its last request has ended (§5.1, FCGI_KEEP_CONN).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// The application closes it.
    Close,
    /// It waits for the next request.
    Open,
}

/// How a request has ended (§5.5, protocolStatus).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    Complete,
    /// The application answers one request at a time on a connection.
    CannotMultiplex,
    /// It has no room for one more; ask elsewhere, or later.
    Overloaded,
    UnknownRole,
}

/// What an application can do (§4.1); `None` where it has not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Abilities {
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

impl Keep {
    /// The flags of FCGI_BEGIN_REQUEST; all other bits are reserved.
    const fn flags(self) -> u8 {
        match self {
            Keep::Close => 0,
            Keep::Open => 1,
        }
    }

    const fn of(flags: u8) -> Keep {
        if flags & 1 == 1 { Keep::Open } else { Keep::Close }
    }
}

impl Ending {
    const fn number(self) -> u8 {
        match self {
            Ending::Complete => 0,
            Ending::CannotMultiplex => 1,
            Ending::Overloaded => 2,
            Ending::UnknownRole => 3,
        }
    }

    const fn of(number: u8) -> Option<Ending> {
        match number {
            0 => Some(Ending::Complete),
            1 => Some(Ending::CannotMultiplex),
            2 => Some(Ending::Overloaded),
            3 => Some(Ending::UnknownRole),
            _ => None,
        }
    }
}

/// As an administrator reads it where it is no `Complete`.
impl fmt::Display for Ending {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Ending::Complete => "complete",
            Ending::CannotMultiplex => "the application answers one request at a time on a connection",
            Ending::Overloaded => "the application is overloaded",
            Ending::UnknownRole => "the application does not play this role",
        })
    }
}

#[cfg(test)]
mod tests;
