//! The data from which the environment of a request is made. Knows nothing of its origin.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use taipan_http::head::Field;
use taipan_http::target::Scheme;

/// A request for a script. Values that are empty or `None` are not set in the environment, unless RFC 3875 §4.1
/// requires the variable.
#[derive(Debug, Clone)]
pub struct CgiRequest<'a> {
    /// The method as sent.
    pub method: &'a str,
    /// The version of the request: `HTTP/1.1`.
    pub protocol: &'a str,
    pub scheme: Scheme,
    /// It was sent before the TLS handshake was complete, whatever its fields say (RFC 8470 §5.1).
    pub is_early: bool,
    /// Names and values of what is known of TLS: `SSL_PROTOCOL` and others.
    pub tls: &'a [(&'static str, Cow<'a, str>)],
    /// The path of the target without empty and dot segments ([`taipan_http::target::normalized`]).
    pub path: &'a str,
    /// The raw query of the target, without its question mark.
    pub query: Option<&'a str>,
    /// The query of the script, which a rewrite may have changed.
    pub query_string: Option<&'a str>,
    /// Host and port of the request, as sent; empty if the request has none.
    pub host: &'a str,
    /// The host without port, or the server's name if the request has none.
    pub server_name: &'a str,
    pub server_port: u16,
    /// `taipan/0.1`.
    pub software: &'a str,
    /// The local address of the connection; `None` for a Unix socket.
    pub server: Option<SocketAddr>,
    /// The client's address, and its port if known.
    pub remote: Option<IpAddr>,
    pub remote_port: Option<u16>,
    /// The client's name, if it was looked up.
    pub remote_name: Option<&'a str>,
    /// The decoded path of the script: empty, or begins with a slash.
    pub script_name: &'a str,
    /// The decoded rest of the path: empty, or begins with a slash.
    pub path_info: &'a str,
    /// The file that `path_info` would name as a path of its own.
    pub path_translated: &'a [u8],
    pub script_filename: &'a [u8],
    pub document_root: &'a [u8],
    /// Bytes of the body; `None` if there is none or if its length is unknown.
    pub body: Option<u64>,
    pub fields: &'a [Field<'a>],
    pub credentials: Credentials,
    pub claims: Claims,
}

/// Whether a script receives the `Authorization` field. RFC 3875 §4.1.18 advises against it; a script that checks
/// passwords itself needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Credentials {
    #[default]
    Withheld,
    Passed,
}

/// Whether a script receives the fields of [`taipan_http::forwarded::is_claim`]: only those of a trusted proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Claims {
    #[default]
    Withheld,
    Passed,
}
