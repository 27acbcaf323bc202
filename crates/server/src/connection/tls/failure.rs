//! Why a session has ended.

use std::fmt;

use rustls::Error;

use crate::tls::reasons;

/// Why a session has ended.
#[derive(Debug)]
pub enum Failure {
    /// The client has sent these bytes, which are not TLS.
    NotTls(Vec<u8>),
    UnknownName,
    /// The client has begun a handshake.
    TimedOut,
    /// The client has sent content on a connection that is there for a challenge.
    NoChallenge,
    Protocol(Error),
    /// The client offers these, of which the server speaks none.
    NoProtocol(String),
    /// The server has ended it within a response.
    Cut,
    /// Of a session in the kernel.
    Kernel(&'static str),
}

impl Failure {
    /// Whether the client has been sent an alert, as a rule.
    pub fn has_alert(&self) -> bool {
        matches!(self, Failure::UnknownName | Failure::Protocol(_) | Failure::NoProtocol(_))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NotTls(_) => out.write_str("the client does not speak TLS"),
            Failure::UnknownName => out.write_str("the client asks for a name that no host has"),
            Failure::TimedOut => out.write_str("the handshake is not complete in time"),
            Failure::NoChallenge => out.write_str("the client sends content behind a challenge of ACME"),
            Failure::Protocol(error) => out.write_str(&reasons::of_client(error)),
            Failure::NoProtocol(offered) => {
                write!(out, "the client offers no protocol that this server speaks (ALPN), but {offered}")
            }
            Failure::Cut => out.write_str("a response is incomplete"),
            Failure::Kernel(why) => out.write_str(why),
        }
    }
}
