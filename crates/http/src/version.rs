//! The version of a message.

/// The version in use. A request of version 1.2 to 1.9 counts as 1.1 (RFC 9110 §2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    Http10,
    Http11,
    Http2,
}

impl Version {
    /// As in a status line or a log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        }
    }

    /// As in `Via` (RFC 9110 §7.6.3).
    pub const fn number(self) -> &'static str {
        match self {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
            Version::Http2 => "2.0",
        }
    }
}
