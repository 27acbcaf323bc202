//! What a worker counts, and where each number is in its block. Counting needs no lock, and no operation that other
//! cores take part in: a block has one writer.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use site::zones::ZonesOf;
use taipan_http::head::{Head, Method, Version};
use taipan_http::status::Status;

use super::histogram::{self, BUCKETS};

macro_rules! counts {
    ($($name:ident $key:literal $text:literal,)*) => {
        /// The counters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Count { $($name,)* }

        /// The key in JSON, and the words in text, in the order of `Count`.
        pub const NAMES: &[(&str, &str)] = &[$(($key, $text),)*];
    };
}

counts! {
    Accepted "accepted" "connections accepted",
    Inherited "inherited" "connections taken over from an earlier process",
    HandedOver "handed_over" "connections handed over to a later process",
    Rejected "rejected" "connections rejected with 503: at capacity",
    PerClient "rejected_per_client" "connections rejected with 503: too many of a client",
    AcceptFailed "accept_failed" "accepting failed: no descriptors or no memory",
    Evicted "evicted" "idle connections closed to make room",
    EvictedSlow "evicted_slow" "slow connections closed to make room",
    Disconnected "disconnected" "connections and streams ended by an administrator",
    Panicked "panicked" "connections ended by a panic",
    Http10 "http_1_0" "requests by HTTP/1.0",
    Http11 "http_1_1" "requests by HTTP/1.1",
    Http2 "http_2" "requests by HTTP/2",
    Unreadable "unreadable" "requests without a valid head",
    MethodGet "method_get" "requests with GET",
    MethodHead "method_head" "requests with HEAD",
    MethodPost "method_post" "requests with POST",
    MethodPut "method_put" "requests with PUT",
    MethodDelete "method_delete" "requests with DELETE",
    MethodOptions "method_options" "requests with OPTIONS",
    MethodTrace "method_trace" "requests with TRACE",
    MethodConnect "method_connect" "requests with CONNECT",
    MethodPatch "method_patch" "requests with PATCH",
    MethodOther "method_other" "requests with another method",
    Incomplete "incomplete" "responses that ended early",
    Status1xx "status_1xx" "responses 1xx",
    Status2xx "status_2xx" "responses 2xx",
    Status3xx "status_3xx" "responses 3xx",
    Status4xx "status_4xx" "responses 4xx",
    Status5xx "status_5xx" "responses 5xx",
    Bytes "bytes" "bytes sent",
    Received "received" "bytes received",
    CacheHits "cache_hits" "cache hits",
    CacheMisses "cache_misses" "cache misses",
    ResponseHits "response_hits" "stored responses sent: fresh",
    ResponsesStale "responses_stale" "stored responses sent: stale",
    ResponsesRevalidated "responses_revalidated" "stored responses sent: confirmed by the upstream",
    ResponseMisses "response_misses" "requests that no stored response could answer",
    ResponsesAwaited "responses_awaited" "requests that waited for the response to another one",
    ResponsesStored "responses_stored" "responses stored",
    ResponsePartsStored "response_parts_stored" "parts of responses stored",
    ResponseCopies "response_copies" "compressed copies of stored responses made",
    ResponsesPurged "responses_purged" "requests with PURGE that removed what was stored",
    ResponsesRefreshed "responses_refreshed" "stored responses refreshed in the background",
    ShedCold "shed_cold" "requests shed: late loop, and they may need a disk",
    ShedAll "shed_all" "requests shed: very late loop",
    Proxied "proxied" "PROXY headers read",
    ProxyFailed "proxy_failed" "connections closed: no PROXY header, or not from a trusted proxy",
    WrongPasswords "wrong_passwords" "wrong passwords",
    WrongTokens "wrong_tokens" "tokens that no key of the issuer has signed",
    LoginsDelayed "logins_delayed" "requests rejected with 429: they have to wait after wrong passwords or tokens",
    LoginsBusy "logins_busy" "requests rejected with 503: too many passwords or tokens to verify",
    Handshakes "handshakes" "TLS handshakes",
    HandshakesResumed "handshakes_resumed" "TLS handshakes that resumed a session",
    Tls12 "tls_1_2" "TLS handshakes with TLS 1.2",
    Tls13 "tls_1_3" "TLS handshakes with TLS 1.3",
    HandshakesFailed "handshakes_failed" "TLS handshakes that failed, or that the client broke off",
    HandshakesPerClient "handshakes_per_client" "TLS connections closed before the handshake: too many of a client",
    StreamsRefused "streams_refused" "HTTP/2 requests refused: too many at the same time",
    TimeoutHandshake "timeout_handshake" "timed out: TLS handshake",
    TimeoutHead "timeout_head" "timed out: request head",
    TimeoutBody "timeout_body" "timed out: request body",
    TimeoutWrite "timeout_write" "timed out: client did not read its response",
    TimeoutIdle "timeout_idle" "timed out: idle",
    TimeoutDisk "timeout_disk" "timed out: disk",
    TimeoutUpgraded "timeout_upgraded" "timed out: upgraded connection",
    Abandoned "abandoned" "lookups and scripts abandoned: client disconnected",
    Scripts "scripts" "scripts started",
    UpstreamRequests "upstream_requests" "requests to applications",
    ResponsesBuffered "responses_buffered" "responses read ahead of slow clients",
    Upgraded "upgraded" "connections upgraded to another protocol",
    UpgradesRejected "upgrades_rejected" "requests rejected with 503: too many upgraded connections",
    ScriptsFailed "scripts_failed" "scripts and applications that failed: not reached, or invalid response",
    ScriptsTimeout "scripts_timeout" "scripts and applications that took too long",
    ScriptsKilled "scripts_killed" "scripts that ended by a signal",
    LimitedRequests "limited_requests" "requests rejected by a limit: too many in a time",
    LimitedConcurrent "limited_concurrent" "requests rejected by a limit: too many at once",
    LimitedShare "limited_share" "requests rejected with 503: shares too small",
    LimitedDryRun "limited_dry_run" "requests that a limit would reject: dry run",
    LimitQueued "limit_queued" "requests that waited for others to end",
    LimitAbandoned "limit_abandoned" "requests that left the queue: client disconnected",
    ThrottlePauses "throttle_pauses" "pauses of throttled responses and bodies",
    BreakersOpened "breakers_opened" "circuit breakers opened",
    BreakersRejected "breakers_rejected" "requests rejected with 503: circuit breaker open",
    Forwarded "forwarded" "requests forwarded to other servers, as their proxy",
    Hedges "hedges" "requests that a second endpoint got, too",
    HedgesWon "hedges_won" "requests that the second endpoint responded to first",
    HedgesOmitted "hedges_omitted" "requests without a second endpoint: too many have one",
    Parts "parts" "requests for parts of pages",
    Publications "publications" "requests to publish, or by WebDAV",
    PublicationsWithoutSpace "publications_without_space" "requests rejected with 507: no space, or above a quota",
    SavedStored "saved_stored_bytes" "bytes saved by precompressed and compressed files",
    SavedSending "saved_sending_bytes" "bytes saved by compression while responses are sent",
    ScriptsRejected "scripts_rejected" "requests rejected with 503: no script or application takes more",
}

/// Status codes.
const FIRST_CODE: usize = 100;
const CODES: usize = 500;
/// Durations until the first byte was sent, and until the last one was. Responses that were sent at once are counted
/// once, for both.
const AT_ONCE: usize = NAMES.len() + CODES;
const FIRST_BYTE: usize = AT_ONCE + BUCKETS;
const WHOLE: usize = FIRST_BYTE + BUCKETS;
/// Their sums in microseconds, in the same order.
const SUMS: usize = WHOLE + BUCKETS;
/// Connections with a request, and without one, as of the last tick.
const PRESENT: usize = SUMS + 3;
/// In the first block of a process: 1, 1 when it has ended, and when it began, in seconds since 1970. The sums of the
/// first two over all processes are the processes that were started, and those that have ended.
const GENERATION: usize = PRESENT + 2;
/// In the first block of a process: the log lines that it has dropped. Any of its threads counts them.
const DROPPED_LINES: usize = GENERATION + 3;
/// Numbers of a block.
pub const BLOCK: usize = DROPPED_LINES + 1;

/// What is counted of a zone: its responses by the first digit of their status, their bytes, and their durations until
/// the last byte, with the sum in microseconds.
const ZONE_BYTES: usize = 5;
const ZONE_MICROS: usize = 6;
const ZONE_DURATIONS: usize = 7;
/// Numbers of a zone.
pub const ZONE: usize = ZONE_DURATIONS + BUCKETS;
const _: () = assert!(ZONE as u64 * 8 == site::memory::ZONE);

/// The parts of a block, in its order: each has a name and so many numbers.
pub fn parts() -> impl Iterator<Item = (&'static str, usize)> {
    let behind = [
        ("codes", CODES),
        ("at_once", BUCKETS),
        ("first_byte", BUCKETS),
        ("whole", BUCKETS),
        ("micros", 3),
        ("present", 2),
        ("generation", 3),
        ("dropped_lines", 1),
    ];
    NAMES.iter().map(|(key, _)| (*key, 1)).chain(behind)
}

/// The memory that a worker counts in.
#[derive(Clone, Copy)]
pub struct Block {
    pub counts: &'static [AtomicU64; BLOCK],
    /// `ZONE` numbers for each zone of the site.
    pub zones: &'static [AtomicU64],
}

impl Block {
    /// That no other process reads.
    pub fn private() -> Block {
        let counts = Box::leak(Box::new([const { AtomicU64::new(0) }; BLOCK]));
        Block { counts, zones: &[] }
    }

    /// The log lines that the process with this first block has dropped.
    pub fn dropped_lines(self) -> &'static AtomicU64 {
        &self.counts[DROPPED_LINES]
    }
}

/// The counters of one worker. Others only read them.
pub struct Counts {
    block: &'static [AtomicU64; BLOCK],
    zones: &'static [AtomicU64],
    /// One thread counts.
    not_sync: PhantomData<Cell<u64>>,
}

impl Counts {
    /// Counters that no other process reads.
    pub fn new() -> Counts {
        Counts::over(Block::private())
    }

    /// Those in this memory, which has no other writer.
    pub fn over(block: Block) -> Counts {
        Counts { block: block.counts, zones: block.zones, not_sync: PhantomData }
    }

    #[inline]
    pub fn add(&self, what: Count, n: u64) {
        self.add_at(what as usize, n);
    }

    pub fn get(&self, what: Count) -> u64 {
        self.block[what as usize].load(Ordering::Relaxed)
    }

    /// Counts a response and its request. `head`: that of the request, if it could be read.
    #[inline]
    pub fn add_response(&self, status: Status, head: Option<&Head<'_>>) {
        let code = usize::from(status.code());
        self.add_at(Count::Status1xx as usize + class(status), 1);
        self.add_at(NAMES.len() + code.saturating_sub(FIRST_CODE).min(CODES - 1), 1);
        match head {
            Some(head) => {
                self.add(of_version(head.version), 1);
                self.add(of_method(head.method), 1);
            }
            None => self.add(Count::Unreadable, 1),
        }
    }

    /// Counts how long a response took that began and ended at these times of `clock::micros`. `first`: when its first
    /// byte was sent. `None`: all of it was sent at once.
    #[inline]
    pub fn add_durations(&self, began: u64, first: Option<u64>, ended: u64) {
        let whole = ended.saturating_sub(began);
        match first {
            None => self.add_duration(AT_ONCE, whole),
            Some(first) => {
                self.add_duration(FIRST_BYTE, first.saturating_sub(began));
                self.add_duration(WHOLE, whole);
            }
        }
    }

    /// Counts a response for its zones.
    #[inline]
    pub fn add_to_zones(&self, zones: ZonesOf, status: Status, bytes: u64, micros: u64) {
        for zone in zones.indices() {
            // Without memory for it, nothing is counted.
            let Some(numbers) = self.zones.get(zone * ZONE..).and_then(<[_]>::first_chunk::<ZONE>) else {
                continue;
            };
            add(&numbers[class(status)], 1);
            add(&numbers[ZONE_BYTES], bytes);
            add(&numbers[ZONE_MICROS], micros);
            add(&numbers[ZONE_DURATIONS + histogram::bucket(micros)], 1);
        }
    }

    #[inline]
    fn add_duration(&self, part: usize, micros: u64) {
        self.add_at(part + histogram::bucket(micros), 1);
        self.add_at(SUMS + (part - AT_ONCE) / BUCKETS, micros);
    }

    /// Sets the connections of now.
    pub fn set_present(&self, active: u64, idle: u64) {
        self.block[PRESENT].store(active, Ordering::Relaxed);
        self.block[PRESENT + 1].store(idle, Ordering::Relaxed);
    }

    #[inline]
    fn add_at(&self, at: usize, n: u64) {
        add(&self.block[at], n);
    }

    pub fn values(&self) -> Values {
        Values::of(self.block)
    }
}

#[inline]
fn add(number: &AtomicU64, n: u64) {
    // `bench/counting` measures what counting costs by a program that does not.
    if cfg!(taipan_uncounted) {
        return;
    }
    // Not `fetch_add`, which makes the core wait for its own stores.
    number.store(number.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// 0 for 1xx, to 4 for 5xx.
#[inline]
fn class(status: Status) -> usize {
    usize::from(status.code() / 100).clamp(1, 5) - 1
}

impl Default for Counts {
    fn default() -> Counts {
        Counts::new()
    }
}

/// The connections of a worker, with a request and without one.
pub fn present(block: &[AtomicU64; BLOCK]) -> (u64, u64) {
    (block[PRESENT].load(Ordering::Relaxed), block[PRESENT + 1].load(Ordering::Relaxed))
}

/// A process began to count in its first block, at this time in seconds since 1970.
pub fn begin_generation(block: &[AtomicU64], now: i64) {
    for (number, value) in block.iter().skip(GENERATION).zip([1, 0, now as u64]) {
        number.store(value, Ordering::Relaxed);
    }
}

/// The process of this first block has ended.
pub fn end_generation(block: &[AtomicU64]) {
    if let Some(ended) = block.get(GENERATION + 1) {
        ended.store(1, Ordering::Relaxed);
    }
}

const fn of_version(version: Version) -> Count {
    match version {
        Version::Http10 => Count::Http10,
        Version::Http11 => Count::Http11,
        Version::Http2 => Count::Http2,
    }
}

const fn of_method(method: Method) -> Count {
    match method {
        Method::Get => Count::MethodGet,
        Method::Head => Count::MethodHead,
        Method::Post => Count::MethodPost,
        Method::Put => Count::MethodPut,
        Method::Delete => Count::MethodDelete,
        Method::Options => Count::MethodOptions,
        Method::Trace => Count::MethodTrace,
        Method::Connect => Count::MethodConnect,
        Method::Patch => Count::MethodPatch,
        Method::Unknown => Count::MethodOther,
    }
}

/// A value for each number of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values(Box<[u64]>);

impl Default for Values {
    fn default() -> Values {
        Values(vec![0; BLOCK].into())
    }
}

impl Values {
    pub fn of(block: &[AtomicU64; BLOCK]) -> Values {
        Values(block.iter().map(|number| number.load(Ordering::Relaxed)).collect())
    }

    pub fn get(&self, what: Count) -> u64 {
        self.0[what as usize]
    }

    pub fn all(&self) -> &[u64] {
        &self.0
    }

    pub fn add(&mut self, other: &Values) {
        for (at, n) in other.0.iter().enumerate() {
            self.add_at(at, *n);
        }
    }

    pub fn add_at(&mut self, at: usize, n: u64) {
        self.0[at] = self.0[at].wrapping_add(n);
    }

    /// The processes that were started, and those of them that have ended.
    pub fn generations(&self) -> (u64, u64) {
        (self.0[GENERATION], self.0[GENERATION + 1])
    }

    pub fn dropped_lines(&self) -> u64 {
        self.0[DROPPED_LINES]
    }

    /// When the process began whose numbers these are. `None`: they are sums, or it has ended.
    pub fn began(&self) -> Option<i64> {
        (self.generations() == (1, 0)).then_some(self.0[GENERATION + 2] as i64)
    }

    /// The counters, in the order of `NAMES`.
    pub fn counts(&self) -> &[u64] {
        &self.0[..NAMES.len()]
    }

    /// The status codes of responses, each with their number.
    pub fn codes(&self) -> impl Iterator<Item = (usize, u64)> {
        let codes = self.0[NAMES.len()..][..CODES].iter().enumerate();
        codes.filter(|(_, n)| **n > 0).map(|(at, n)| (FIRST_CODE + at, *n))
    }

    /// The durations until the first byte was sent, and their sum in microseconds.
    pub fn first_byte(&self) -> (Vec<u64>, u64) {
        (self.with_at_once(FIRST_BYTE), self.0[SUMS].wrapping_add(self.0[SUMS + 1]))
    }

    /// The durations until the last byte was sent, and their sum in microseconds.
    pub fn durations(&self) -> (Vec<u64>, u64) {
        (self.with_at_once(WHOLE), self.0[SUMS].wrapping_add(self.0[SUMS + 2]))
    }

    fn with_at_once(&self, part: usize) -> Vec<u64> {
        let at_once = &self.0[AT_ONCE..][..BUCKETS];
        self.0[part..][..BUCKETS].iter().zip(at_once).map(|(n, more)| n.wrapping_add(*more)).collect()
    }
}

/// What was counted for a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneValues(Box<[u64]>);

impl Default for ZoneValues {
    fn default() -> ZoneValues {
        ZoneValues(vec![0; ZONE].into())
    }
}

impl ZoneValues {
    /// Adds the numbers of one worker. Without a response, the others are zeros: reading them would take memory.
    pub fn add(&mut self, numbers: &[AtomicU64]) {
        let Some(numbers) = numbers.first_chunk::<ZONE>() else { return };
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        if numbers[..ZONE_BYTES].iter().any(|number| read(number) > 0) {
            self.0.iter_mut().zip(numbers).for_each(|(sum, number)| *sum = sum.wrapping_add(read(number)));
        }
    }

    pub fn add_values(&mut self, other: &ZoneValues) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, number)| *sum = sum.wrapping_add(*number));
    }

    pub fn all(&self) -> &[u64] {
        &self.0
    }

    /// The responses 1xx, 2xx, 3xx, 4xx and 5xx.
    pub fn classes(&self) -> &[u64] {
        &self.0[..ZONE_BYTES]
    }

    pub fn responses(&self) -> u64 {
        self.classes().iter().sum()
    }

    pub fn bytes(&self) -> u64 {
        self.0[ZONE_BYTES]
    }

    /// The durations until the last byte was sent, and their sum in microseconds.
    pub fn durations(&self) -> (&[u64], u64) {
        (&self.0[ZONE_DURATIONS..], self.0[ZONE_MICROS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_a_place_for_each_part() {
        assert_eq!(parts().map(|(_, length)| length).sum::<usize>(), BLOCK);
        assert!(parts().all(|(name, _)| !name.contains([' ', '\n'])));
    }

    #[test]
    fn a_response_is_counted_by_its_status_and_its_durations() {
        let counts = Counts::new();
        counts.add_response(Status::NOT_FOUND, None);
        counts.add_durations(1_000, None, 1_500);
        counts.add_durations(1_000, Some(2_000), 9_000);
        let values = counts.values();
        assert_eq!((values.get(Count::Status4xx), values.get(Count::Unreadable)), (1, 1));
        assert_eq!(values.codes().collect::<Vec<_>>(), [(404, 1)]);
        for ((buckets, sum), [one, other]) in
            [(values.first_byte(), [500, 1_000]), (values.durations(), [500, 8_000])]
        {
            assert_eq!(sum, one + other);
            assert_eq!(buckets.iter().sum::<u64>(), 2);
            assert!(buckets[histogram::bucket(one)] == 1 && buckets[histogram::bucket(other)] == 1);
        }
    }
}
