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
    /// The request was forwarded, and the upstream has confirmed the stored response.
    Revalidated(Forwarded),
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
            CacheStatus::Revalidated(_) => "revalidated",
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
            CacheStatus::OnlyIfCached => value.push_str("; detail=only-if-cached"),
            CacheStatus::Forwarded(why) => {
                _ = write!(value, "; fwd={}", why.as_str());
            }
            CacheStatus::Revalidated(why) => {
                _ = write!(value, "; fwd={}; fwd-status=304", why.as_str());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_whether_a_request_was_answered_or_forwarded() {
        let check = |status: CacheStatus, left, kept, expected: &str| {
            let value = status.field(left, kept);
            assert_eq!(value, expected);
            // RFC 9211 §2.1.
            assert!(!(value.contains("; hit") && value.contains("; fwd")), "{value}");
        };
        check(CacheStatus::Hit, Some(42), Kept::No, "taipan; hit; ttl=42");
        check(CacheStatus::Stale, Some(-1), Kept::No, "taipan; hit; ttl=-1");
        let if_error = "taipan; fwd=stale; detail=stale-if-error; ttl=-1";
        check(CacheStatus::StaleIfError, Some(-1), Kept::No, if_error);
        for (why, expected) in [
            (Forwarded::Stale, "taipan; fwd=stale; fwd-status=304; ttl=9"),
            (Forwarded::Request, "taipan; fwd=request; fwd-status=304; ttl=9"),
        ] {
            check(CacheStatus::Revalidated(why), Some(9), Kept::No, expected);
        }
        let stored = "taipan; fwd=uri-miss; ttl=9; stored";
        check(CacheStatus::Forwarded(Forwarded::UriMiss), Some(9), Kept::Yes, stored);
        check(CacheStatus::Forwarded(Forwarded::Method), None, Kept::No, "taipan; fwd=method");
        check(CacheStatus::OnlyIfCached, None, Kept::No, "taipan; detail=only-if-cached");
    }
}
