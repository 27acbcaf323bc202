//! What the cache did for a request: the field `Cache-Status` (RFC 9211), and the word in the log.

use std::fmt::Write as _;

/// What the cache did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus {
    /// It had a fresh response.
    Hit,
    /// It had a stale one, which was sent while a newer one was requested, or because the request allows it.
    Stale,
    /// It had a stale one, which was sent because the upstream failed.
    StaleIfError,
    /// The upstream has confirmed the stored response.
    Revalidated,
    /// The request was forwarded.
    Forwarded(Forwarded),
    /// The request may have only what is stored, and nothing is.
    OnlyIfCached,
}

/// Why a request was forwarded (RFC 9211 §2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarded {
    /// The route has a cache, and the request is not for it.
    Bypass,
    Method,
    UriMiss,
    VaryMiss,
    Stale,
    /// The request demands a newer response.
    Request,
}

/// Whether the answer is stored when all of it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Yes,
    No,
}

impl CacheStatus {
    /// The word in the log.
    pub const fn word(self) -> &'static str {
        match self {
            CacheStatus::Hit => "hit",
            CacheStatus::Stale => "stale",
            CacheStatus::StaleIfError => "stale-if-error",
            CacheStatus::Revalidated => "revalidated",
            CacheStatus::Forwarded(Forwarded::Bypass | Forwarded::Method) => "bypass",
            CacheStatus::Forwarded(Forwarded::UriMiss | Forwarded::VaryMiss) => "miss",
            CacheStatus::Forwarded(Forwarded::Stale | Forwarded::Request) => "expired",
            CacheStatus::OnlyIfCached => "miss",
        }
    }

    /// The value of `Cache-Status`. `left`: the seconds for which what is sent is still fresh.
    pub fn field(self, left: Option<i64>, kept: Kept) -> String {
        let mut value = String::from("taipan");
        match self {
            CacheStatus::Hit | CacheStatus::Stale => value.push_str("; hit"),
            CacheStatus::StaleIfError => value.push_str("; fwd=stale; detail=stale-if-error"),
            CacheStatus::Revalidated => value.push_str("; hit; fwd=stale; fwd-status=304"),
            CacheStatus::OnlyIfCached => value.push_str("; detail=only-if-cached"),
            CacheStatus::Forwarded(why) => {
                _ = write!(value, "; fwd={}", why.as_str());
            }
        }
        if let Some(left) = left {
            _ = write!(value, "; ttl={left}");
        }
        if kept == Kept::Yes {
            value.push_str("; stored");
        }
        value
    }
}

impl Forwarded {
    const fn as_str(self) -> &'static str {
        match self {
            Forwarded::Bypass => "bypass",
            Forwarded::Method => "method",
            Forwarded::UriMiss => "uri-miss",
            Forwarded::VaryMiss => "vary-miss",
            Forwarded::Stale => "stale",
            Forwarded::Request => "request",
        }
    }
}
