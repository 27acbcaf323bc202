//! How long a session can be resumed: until a certificate of its client, an authority or a list of revoked certificates
//! expires, and not longer than RFC 8446 §4.6.1 recommends. With every resumption, the library makes a new session, which
//! has its end from the one before.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

/// The longest time from a full handshake on, in seconds; also the longest lifetime of a ticket.
pub const LONGEST: u64 = 7 * 24 * 60 * 60;
/// Bytes of an end, in seconds since 1970.
pub const END: usize = size_of::<u64>();

thread_local! {
    /// The end of the session whose handshake is processed in this thread. The library has no place for it.
    static PRESENT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Processes a part of a handshake. `end`: that of its session, as far as it is known from the parts before.
pub fn with_end<T>(end: &mut Option<u64>, process: impl FnOnce() -> T) -> T {
    PRESENT.set(*end);
    let result = process();
    *end = PRESENT.get();
    result
}

/// The present session ends at this time, in seconds since 1970, if not before.
pub fn limit(end: u64) {
    PRESENT.set(Some(PRESENT.get().map_or(end, |known| known.min(end))));
}

/// The end of the present session.
pub fn end(now: u64) -> u64 {
    PRESENT.get().unwrap_or(u64::MAX).min(now + LONGEST)
}

/// A session with its end.
pub fn with_prefix(session: &[u8], now: u64) -> Vec<u8> {
    [&end(now).to_be_bytes(), session].concat()
}

/// A session that has not ended. From now on it is the present one.
pub fn without_prefix(bytes: &[u8], now: u64) -> Option<Vec<u8>> {
    let (end, session) = bytes.split_first_chunk::<END>()?;
    let end = Some(u64::from_be_bytes(*end)).filter(|end| now < *end)?;
    limit(end);
    Some(session.to_vec())
}

/// Seconds since 1970. All machines agree on it, more or less.
pub fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Stores sessions in this process.
pub struct Sessions(Arc<ServerSessionMemoryCache>);

impl Sessions {
    pub fn new(most: usize) -> Arc<Sessions> {
        Arc::new(Sessions(ServerSessionMemoryCache::new(most)))
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.0.put(key, with_prefix(&value, now()))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        without_prefix(&self.0.get(key)?, now())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        without_prefix(&self.0.take(key)?, now())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Sessions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    #[test]
    fn a_session_that_is_resumed_again_and_again_has_the_end_of_the_first() {
        for (known, expected) in
            [(None, NOW + LONGEST), (Some(NOW + 100), NOW + 100), (Some(u64::MAX), NOW + LONGEST)]
        {
            let mut bytes = with_end(&mut known.clone(), || with_prefix(b"a session", NOW));
            for now in [NOW + 10, NOW + 50, NOW + 99] {
                let mut end = None;
                let session = with_end(&mut end, || without_prefix(&bytes, now));
                assert_eq!((session.as_deref(), end), (Some(&b"a session"[..]), Some(expected)));
                bytes = with_end(&mut end, || with_prefix(b"a session", now));
            }
            let at = |now| with_end(&mut None, || without_prefix(&bytes, now)).is_some();
            assert_eq!((at(expected - 1), at(expected)), (true, false));
        }
        assert_eq!(without_prefix(b"short", NOW), None);
    }

    #[test]
    fn the_earliest_end_counts() {
        let mut end = None;
        for (limited, expected) in [(30, 30), (20, 20), (40, 20)] {
            with_end(&mut end, || limit(limited));
            assert_eq!(end, Some(expected));
        }
    }
}
