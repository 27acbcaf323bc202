//! One request of a plan, with its HTTP/1 bytes. Knows nothing of connections.

use super::{Protocol, Reuse, Target};

/// A request that is ready to be sent any number of times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The URL in full, for reports.
    pub url: String,
    /// The index of its target in the plan.
    pub target: usize,
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Fields beyond those that every request has; names as the user wrote them.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// How often it is picked, relative to the others.
    pub weight: u32,
    /// Head and body for HTTP/1. For HTTP/2 the head is encoded from the parts above.
    pub bytes: Vec<u8>,
    /// Length of the head in `bytes`, with its empty line.
    pub head_length: usize,
}

/// The field `User-Agent`, unless a flag sets it.
pub const USER_AGENT: &str = concat!("taipan-bench/", env!("CARGO_PKG_VERSION"));

impl Request {
    /// Whether the user gave this field. It then replaces the generated one.
    pub fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Makes `bytes` from the other parts.
    pub fn with_bytes(mut self, target: &Target, protocol: Protocol, reuse: Reuse) -> Request {
        let version = match protocol {
            Protocol::Http10 => "1.0",
            Protocol::Http11 { .. } | Protocol::Http2 { .. } => "1.1",
        };
        let mut head = format!("{} {} HTTP/{version}\r\n", self.method, self.path);
        let mut push = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        if !self.has_field("host") {
            push("Host", &target.authority);
        }
        if !self.has_field("user-agent") {
            push("User-Agent", USER_AGENT);
        }
        match (protocol, reuse) {
            _ if self.has_field("connection") => {}
            (Protocol::Http10, Reuse::PerRequest) => {}
            (Protocol::Http10, Reuse::KeepAlive | Reuse::Session(_)) => push("Connection", "keep-alive"),
            (_, Reuse::PerRequest) => push("Connection", "close"),
            (_, Reuse::KeepAlive | Reuse::Session(_)) => {}
        }
        if self.sends_length() && !self.has_field("content-length") {
            push("Content-Length", &self.body.len().to_string());
        }
        for (name, value) in &self.fields {
            push(name, value);
        }
        head.push_str("\r\n");
        self.head_length = head.len();
        self.bytes = head.into_bytes();
        self.bytes.extend_from_slice(&self.body);
        self
    }

    /// A method that anticipates a body sends Content-Length even for an empty one (RFC 9110 §8.6).
    pub fn sends_length(&self) -> bool {
        !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }
}
