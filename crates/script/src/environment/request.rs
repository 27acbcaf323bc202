//! What a script is told of a request, as plain data. Knows nothing of how it was found out.

use std::net::{IpAddr, SocketAddr};

use taipan_http::head::Field;
use taipan_http::target::Scheme;

/// One request for one script. What is empty or `None` is not set in the environment, except where
/// RFC 3875 §4.1 wants a variable in any case.
#[derive(Debug, Clone)]
pub struct CgiRequest<'a> {
    /// The method as sent.
    pub method: &'a str,
    /// `HTTP/1.1`, as the client speaks it.
    pub protocol: &'a str,
    pub scheme: Scheme,
    /// The path of the target without empty and dot segments ([`taipan_http::target::normalized`]), and the raw query
    /// without its question mark.
    pub path: &'a str,
    pub query: Option<&'a str>,
    /// The query for the script itself, which may be another one.
    pub query_string: Option<&'a str>,
    /// Host and port that are asked, as sent; empty if nobody said.
    pub host: &'a str,
    /// The host alone, or the server's own name where none was asked.
    pub server_name: &'a str,
    pub server_port: u16,
    /// `taipan/0.1`.
    pub software: &'a str,
    /// The server's end of the connection; none for one that has no addresses.
    pub server: Option<SocketAddr>,
    /// The client's address, and its port if that is known.
    pub remote: Option<IpAddr>,
    pub remote_port: Option<u16>,
    /// The decoded path that leads to the script: empty, or it begins with a slash.
    pub script_name: &'a str,
    /// What is behind it, decoded: empty, or it begins with a slash.
    pub path_info: &'a str,
    /// The file that `path_info` would be, were it a path of its own.
    pub path_translated: &'a [u8],
    pub script_filename: &'a [u8],
    pub document_root: &'a [u8],
    /// Bytes of the body; `None` if there is none, or nobody knows.
    pub body: Option<u64>,
    pub fields: &'a [Field<'a>],
    pub credentials: Credentials,
    pub claims: Claims,
}

/// Whether a script sees the `Authorization` field (RFC 3875 §4.1.18: it should not). One that asks for
/// passwords itself has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Credentials {
    #[default]
    Withheld,
    Passed,
}

/// Whether a script sees what the client says of where it is and what it has asked elsewhere
/// ([`taipan_http::forwarded::is_claim`]). A proxy that is trusted may say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Claims {
    #[default]
    Withheld,
    Passed,
}
