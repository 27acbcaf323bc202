//! The method of a request.

/// The methods of RFC 9110 §9.3 and RFC 5789. `Unknown` is every other token; `Head::token` is the method as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Trace,
    Connect,
    Patch,
    Unknown,
}

/// Whether a request with this method only reads (RFC 9110 §9.2.1), also one that an extension defines (RFC 3253, 4918,
/// 5323, and the registry of methods of IANA).
pub fn is_safe(token: &str) -> bool {
    matches!(token, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PROPFIND" | "QUERY" | "REPORT" | "SEARCH")
}

impl Method {
    /// Methods are case-sensitive (RFC 9110 §9.1).
    pub(crate) const fn from_bytes(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            b"PATCH" => Method::Patch,
            _ => Method::Unknown,
        }
    }

    /// Empty for `Unknown`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Patch => "PATCH",
            Method::Unknown => "",
        }
    }
}
