//! The memory of a site, line by line: what it typically uses, and the worst case of all its limits.
//!
//! The typical figures are measured. The worst case is an upper bound, reached only if every connection does the most
//! expensive thing at the same time. Neither includes the socket buffers of the kernel.

mod descriptors;

use std::collections::BTreeSet;
use std::path::Path;

use auth::hash::MAX_MEMORY;

pub use self::descriptors::{JOB_READERS, descriptors, fit, least_descriptors};
use crate::alternates::MAX_ALTERNATES;
use crate::authentication::{FolderPasswords, Scheme};
use crate::authorizer::{MAX_ANSWER, MAX_ANSWERS};
use crate::compress::Kept;
use crate::field_file::MAX_AS_IS;
use crate::image_map;
use crate::limit::{By, Limit};
use crate::listener::Listener;
use crate::model::{Limits, Listing, ResponseBuffering, Route, Script, Sink, Site, SpecialFiles};
use crate::zones::Zones;

/// A worker's buffer for input from clients and scripts. It grows if two request heads of the largest size need more.
pub const BUFFER: u64 = 64 * 1024;
/// The smallest buffer for a client's input.
const INPUT: u64 = 32 * 1024;
/// Short responses that are gathered for one write.
pub const BATCH: u64 = 32 * 1024;
/// The most memory that a worker keeps of one response for the next.
pub const KEPT_RESPONSE: u64 = FRAMES;
/// The same, of the head of a request to an application.
pub const KEPT_REQUEST: u64 = 16 * 1024;
/// The same, of the fields of its response.
pub const KEPT_FIELDS: u64 = 16 * 1024;
/// The same, of the table of requests that applications have.
pub const KEPT_TABLE: u64 = 32 * 1024;
/// The most that one connection stores of a response behind a batch: part of a file or of a script's output, or a whole
/// small file.
pub const RESPONSE: u64 = 64 * 1024;
/// A response head, generously.
const HEAD: u64 = 1024;
/// A connection's task with its request.
pub const TASK: u64 = 8 * 1024;
/// Frames that an HTTP/2 connection gathers for one write: as much of a response as is read at once, with HEADERS before
/// it and the headers of its frames. One more write may wait.
pub const FRAMES: u64 = RESPONSE + 2 * HEAD;
/// The dynamic table of HPACK (RFC 7541 §4.1), and the states of streams.
const HTTP2_STATE: u64 = 32 * 1024;
/// The fields of a request, which a stream that waits stores beside their bytes.
const FIELDS: u64 = 16 * 1024;
/// Log records of one batch.
pub const LOG_RECORDS: u64 = 32;
/// A log record, without the bytes of the request head.
pub const LOG_RECORD: u64 = 320;
/// The file of a request that the error log has, too: its name, and where it is in the batch.
const LOGGED_FILE: u64 = 512;
/// A request that can be shown as one of the last.
pub const RECENT_REQUEST: u64 = 384;
/// The counts of a host, or of a route, in the memory of one worker.
pub const ZONE: u64 = 7224;
/// The state of a decompression (RFC 1951: a window of 32 KiB, and tables) and its output buffer.
const INFLATE: u64 = 112 * 1024;
/// The encoder of a response that is compressed while it is sent, and its output.
pub const ENCODER: u64 = 2560 * 1024;
/// A page that is assembled: the variables of the request and those that it sets, its beginning, and a directive whose
/// end is not there yet.
const PAGE: u64 = 256 * 1024;
/// A file that is compressed to be kept: its content, the encoder and the result.
pub const COMPRESSION: u64 = 40 * 1024 * 1024;
/// Dictionaries have this fraction of the bytes of the cache, beside the cache.
pub const DICTIONARIES: u64 = 8;
/// A file as it is, and in three codings.
const CODINGS: u64 = 4;
/// A cached file or miss, without its path.
pub const CACHE_ENTRY: u64 = 512;
/// A file of a stored response, in the index of all workers.
const CACHE_FILE: u64 = 150;
/// Responses that one worker writes into files at the same time.
pub const CACHE_WRITES: usize = 64;
/// A lookup that waits for a disk thread, without its path.
pub const LOOKUP: u64 = 512;
/// The stack of a disk thread.
pub const DISK_STACK: u64 = 256 * 1024;
/// An entry of a listing, with a name of 255 bytes.
pub const LISTING_ENTRY: u64 = 352;
/// The buffers of a running script: its output, and part of the request body.
pub const SCRIPT: u64 = 64 * 1024;
/// Bytes on their way in both directions of an upgraded connection.
const UPGRADED: u64 = 2 * BUFFER;
/// Bytes of a response that wait in memory for a slow client.
pub const READ_AHEAD: u64 = 64 * 1024;
/// The buffers of one request on a multiplexed connection: 256 KiB that its client has not received yet, one read more,
/// and part of the request body.
pub const MULTIPLEXED: u64 = 384 * 1024;
/// Bytes that the application may send on one stream of an HTTP/2 connection before the client has taken them.
pub const HTTP2_WINDOW: u64 = 64 * 1024;
/// Requests at a time on such a connection, even if the application allows more.
pub const HTTP2_STREAMS: u64 = 128;
/// The bytes of all streams. No stream waits for the client of another.
pub const HTTP2_CONNECTION: u64 = HTTP2_STREAMS * HTTP2_WINDOW;
/// The beginnings of request bodies that a worker keeps, to send a request to an application again.
pub const REPEATABLE_BODIES: u64 = 4 * 1024 * 1024;
/// A remembered answer of an authorizer, or what a token says, without its fields.
const ANSWER: usize = 256;
/// Bytes of the password files of folders that a worker keeps, unless one file is larger.
pub const FOLDER_USERS: usize = 4 << 20;
/// The users of the largest password file.
const LARGEST_USERS: u64 = 40 << 20;
/// Nonces of Digest whose uses are counted, with their part of the table.
pub const NONCES: usize = 8192;
const NONCE: u64 = 128;
/// Folders per worker whose members are listed or copied by WebDAV at the same time.
pub const PUBLISHED_FOLDERS: usize = 8;
/// What a process keeps in memory of the file with the locks of a root. A longer file is read each time.
pub const KEPT_LOCKS: u64 = 1024 * 1024;
/// A block of log lines.
pub const LOG_BLOCK: u64 = 32 * 1024;
/// Clients that one limit of speed or of requests counts.
pub const LIMITED_CLIENTS: u64 = 65_536;
/// What is counted of one of them, with its part of the table.
const LIMITED_CLIENT: u64 = 192;
/// An address of a client and a name of 253 bytes, with their part of the table.
const CLIENT_NAME: u64 = 352;

/// The processes at the start with their libraries, without workers.
const START: u64 = 4 * 1024 * 1024 + 512 * 1024;
/// A worker, before its first client.
const WORKER: u64 = 256 * 1024;
/// An idle connection.
const IDLE: u64 = 72;
/// A connection that receives a file: its task and the request head.
const BUSY: u64 = 16 * 1024;
/// Clients of a small site at the same time.
const FEW_CLIENTS: u64 = 100;

/// The memory in one situation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typical {
    pub when: String,
    pub bytes: u64,
}

/// `count` things, each of which takes `each` bytes or descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    pub what: &'static str,
    pub each: u64,
    pub count: u64,
}

impl Use {
    pub fn sum(&self) -> u64 {
        self.each.saturating_mul(self.count)
    }
}

pub fn total(uses: &[Use]) -> u64 {
    uses.iter().fold(0, |sum, line| sum.saturating_add(line.sum()))
}

/// The window of an HTTP/2 connection, unless it is a large one (RFC 9113 §6.9.2).
const SMALL_WINDOW: u64 = 65_535;

/// The buffer for a client's input, in bytes. It holds two request heads of the largest size.
pub fn input(limits: &Limits) -> u64 {
    INPUT.max((limits.head.head as u64).saturating_mul(2))
}

/// A worker's buffer, in bytes.
pub fn buffer(limits: &Limits) -> u64 {
    BUFFER.max(input(limits))
}

/// The most bytes that one connection may use, for any behaviour of its client.
pub fn connection(site: &Site) -> u64 {
    let of_http2 = if speaks_http2(site) { http2_connection(site) } else { 0 };
    http1_connection(site).max(of_http2)
}

fn http1_connection(site: &Site) -> u64 {
    // A request head is stored until its response begins.
    let unread = input(&site.limits).saturating_add(site.limits.head.head as u64);
    let unsent = BATCH + HEAD + RESPONSE.max(site.cache.file);
    (TASK + logged(site, LOG_RECORDS)).saturating_add(unread).saturating_add(unsent)
}

/// With one stream that waits.
fn http2_connection(site: &Site) -> u64 {
    // Frames that are not whole, or a field block. Then the bodies of requests.
    let unread = input(&site.limits).saturating_mul(2).saturating_add(SMALL_WINDOW);
    let unsent = 2 * (FRAMES + logged(site, LOG_RECORDS));
    (TASK + HTTP2_STATE).saturating_add(unread).saturating_add(unsent).saturating_add(stream(site))
}

/// The most bytes that one stream of HTTP/2 that waits may use, without the body of its request.
fn stream(site: &Site) -> u64 {
    let unsent = HEAD + RESPONSE.max(site.cache.file);
    (TASK + FIELDS + logged(site, 1)).saturating_add(site.limits.head.head as u64).saturating_add(unsent)
}

fn logged(site: &Site, records: u64) -> u64 {
    let file = if site.log.client_errors.is_some() { LOGGED_FILE } else { 0 };
    if logs_requests(site) { records * (LOG_RECORD + file) } else { 0 }
}

fn speaks_http2(site: &Site) -> bool {
    let speaks =
        |listener: &Listener| listener.protocols.http2 || listener.protocols.tls && site.http2.enabled;
    site.listeners.iter().any(speaks)
}

/// Memory in typical situations, from the start to a busy site, without scripts and applications.
pub fn typical(site: &Site, workers: usize) -> Vec<Typical> {
    let workers = workers as u64;
    let start = WORKER.saturating_mul(workers).saturating_add(START);
    let connections = (site.limits.connections as u64).saturating_mul(workers);
    let few = FEW_CLIENTS.min(connections);
    let idle = connections.saturating_mul(IDLE);
    let full = (site.cache.bytes as u64).saturating_mul(workers);
    let line = |when: String, more: u64| Typical { when, bytes: start.saturating_add(more) };
    let mut lines = vec![
        line("at the start".to_owned(), 0),
        line(format!("while {few} clients take files at the same time"), few * BUSY),
        line(format!("with all {connections} connections open and idle"), idle),
    ];
    if full > 0 {
        lines.push(line("the same, with a full cache".to_owned(), idle.saturating_add(full)));
    }
    lines
}

/// Memory at worst. Parts that no route of the site needs are left out.
pub fn worst_case(site: &Site, workers: usize) -> Vec<Use> {
    let rooms = [of_connections, of_content, of_files, of_upstreams, of_users, of_the_rest];
    let mut uses: Vec<Use> = rooms.iter().flat_map(|uses| uses(site, workers as u64)).collect();
    uses.retain(|line| line.sum() > 0);
    uses
}

/// Connections, and what of them is being received.
fn of_connections(site: &Site, workers: u64) -> Vec<Use> {
    let limits = &site.limits;
    let connections = of_each(workers, limits.connections.saturating_add(limits.rejections));
    vec![
        Use {
            what: "buffers of workers",
            each: buffer(&site.limits).saturating_add(KEPT_RESPONSE),
            count: workers,
        },
        Use {
            what: "connections: task, unread input, unsent response",
            each: connection(site),
            count: connections,
        },
        Use {
            what: "further requests of HTTP/2 that wait",
            each: stream(site),
            count: if speaks_http2(site) { of_each(workers, site.http2.waiting) } else { 0 },
        },
        Use {
            what: "larger windows of HTTP/2 connections",
            each: u64::from(site.http2.connection_window).saturating_sub(SMALL_WINDOW),
            count: if speaks_http2(site) {
                of_each(workers, site.http2.large_windows.min(limits.connections))
            } else {
                0
            },
        },
    ]
}

/// Content that is made while it is sent, or to be kept.
fn of_content(site: &Site, workers: u64) -> Vec<Use> {
    let limits = &site.limits;
    let connections = of_each(workers, limits.connections.saturating_add(limits.rejections));
    let lists = |route: &Route| route.files.listing == Listing::On || route.publishing.is_dav();
    let listing_entries = match any_route(site, lists) {
        true => limits.listing_entries as u64,
        false => 0,
    };
    let inflates = if any_route(site, |route| route.files.gunzip) { INFLATE } else { 0 };
    vec![
        Use {
            what: "bodies generated while they are sent",
            each: inflates.max(listing_entries.saturating_mul(LISTING_ENTRY)),
            count: of_each(workers, limits.body_streams),
        },
        Use {
            what: "pages: variables, and what is made before it is sent",
            each: PAGE,
            count: if any_route(site, |route| route.files.includes.are_on()) { connections } else { 0 },
        },
        Use {
            what: "responses compressed while they are sent",
            each: ENCODER,
            count: if compresses(site) { of_each(workers, limits.compressed_streams) } else { 0 },
        },
        Use {
            what: "files compressed to be kept",
            each: COMPRESSION,
            count: if any_route(site, keeps) { workers } else { 0 },
        },
        Use {
            what: "listings being read",
            each: listing_entries.saturating_mul(LISTING_ENTRY),
            count: of_each(workers, limits.disk_threads),
        },
    ]
}

/// The caches, and what is looked up on disks.
fn of_files(site: &Site, workers: u64) -> Vec<Use> {
    let limits = &site.limits;
    let cache = &site.cache;
    let path = limits.head.target as u64;
    vec![
        Use {
            what: "cache: entries and their paths",
            each: CACHE_ENTRY + path,
            count: of_each(workers, cache.entries),
        },
        Use { what: "cache: content", each: cache.bytes as u64, count: workers },
        // Those that are stored, and those that are being received.
        Use {
            what: "cache: responses of scripts and applications",
            each: (cache.responses as u64).saturating_add(site.received_responses() as u64),
            count: if site.stores_responses() { workers } else { 0 },
        },
        Use {
            what: "stored responses: the index of their files",
            each: CACHE_FILE,
            count: site.cache_files.as_ref().map_or(0, |files| files.entries as u64),
        },
        Use {
            what: "dictionaries: earlier versions of files",
            each: cache.bytes as u64 / DICTIONARIES,
            count: if any_route(site, |route| route.files.dictionary.is_some()) { workers } else { 0 },
        },
        Use {
            what: "files in other languages, as-is files and image maps being read",
            each: special_files(site),
            count: of_each(workers, limits.disk_threads),
        },
        Use {
            what: "stacks of disk threads",
            each: DISK_STACK,
            count: of_each(workers, limits.disk_threads),
        },
        Use {
            what: "lookups that wait for a disk",
            each: LOOKUP + path,
            count: of_each(workers, limits.disk_queue),
        },
    ]
}

/// Scripts and applications.
fn of_upstreams(site: &Site, workers: u64) -> Vec<Use> {
    let limits = &site.limits;
    vec![
        Use { what: "scripts that run", each: SCRIPT, count: scripts(site, workers) },
        Use {
            what: "buffers of workers for applications",
            each: KEPT_RESPONSE + KEPT_REQUEST + KEPT_FIELDS + KEPT_TABLE,
            count: if site.upstreams.is_empty() { 0 } else { workers },
        },
        Use {
            what: "request bodies for applications: what may be sent again",
            each: REPEATABLE_BODIES,
            count: if site.upstreams.is_empty() { 0 } else { workers },
        },
        Use { what: "connections to applications", each: SCRIPT, count: upstream_connections(site) },
        Use {
            what: "HTTP/2 connections to applications",
            each: HTTP2_CONNECTION,
            count: http2_connections(site),
        },
        Use {
            what: "responses read ahead of slow clients",
            each: READ_AHEAD,
            count: buffered_responses(site, workers),
        },
        Use {
            what: "upgraded connections: bytes on their way",
            each: UPGRADED,
            count: upgraded(site, workers),
        },
        Use {
            what: "requests on multiplexed connections",
            each: MULTIPLEXED,
            count: multiplexed_requests(site).min(of_each(workers, limits.connections)),
        },
    ]
}

/// What is known of users, and what their passwords take.
fn of_users(site: &Site, workers: u64) -> Vec<Use> {
    let limits = &site.limits;
    vec![
        Use {
            what: "remembered permissions of authorizers",
            each: (MAX_ANSWER + ANSWER) as u64,
            count: if any_route(site, remembers) { of_each(workers, MAX_ANSWERS) } else { 0 },
        },
        Use {
            what: "remembered tokens",
            each: (MAX_ANSWER + ANSWER) as u64,
            count: if any_route(site, |route| !route.jwts.is_empty()) {
                of_each(workers, MAX_ANSWERS)
            } else {
                0
            },
        },
        Use {
            what: "remembered passwords",
            each: ANSWER as u64,
            count: if any_route(site, Route::asks_for_users) { of_each(workers, MAX_ANSWERS) } else { 0 },
        },
        Use { what: "passwords being compared", each: comparison(site), count: workers },
        Use {
            what: "nonces of Digest",
            each: NONCE,
            count: if any_route(site, |route| route.authentication.scheme == Scheme::Digest) {
                NONCES as u64
            } else {
                0
            },
        },
        Use {
            what: "password files of folders: kept, and being read",
            each: LARGEST_USERS,
            count: match any_route(site, has_folder_passwords) {
                true => of_each(workers, limits.disk_threads.saturating_add(1)),
                false => 0,
            },
        },
    ]
}

/// Queues, and what is counted.
fn of_the_rest(site: &Site, workers: u64) -> Vec<Use> {
    let limits = &site.limits;
    vec![
        Use {
            what: "requests that wait for a script",
            each: limits.head.head as u64,
            count: if site.has_scripts() { site.scripts.queue as u64 } else { 0 },
        },
        Use {
            what: "clients that publish: members of folders",
            each: (limits.listing_entries as u64).saturating_mul(LISTING_ENTRY),
            count: if any_route(site, Route::publishes) { of_each(workers, PUBLISHED_FOLDERS) } else { 0 },
        },
        Use {
            what: "locks of clients that publish",
            each: KEPT_LOCKS,
            count: all_routes(site).filter(|route| route.publishing.is_dav()).count() as u64,
        },
        Use {
            what: "requests that can be shown as the last ones",
            each: RECENT_REQUEST,
            count: site.recent_requests() as u64,
        },
        Use {
            what: "counts of hosts and routes",
            each: ZONE,
            count: of_each(workers, Zones::of(site).map_or(0, |zones| zones.list().len())),
        },
        Use { what: "clients that limits count", each: LIMITED_CLIENT, count: limited_clients(site) },
        Use {
            what: "names of clients",
            each: CLIENT_NAME,
            count: of_each(workers, site.resolution.client_names.unwrap_or(0)),
        },
        Use {
            what: "blocks of log lines",
            each: LOG_BLOCK,
            count: (site.log.queue as u64)
                .saturating_mul(1 + readers(site))
                .saturating_add(workers.saturating_mul(logs(site).len() as u64)),
        },
    ]
}

/// As many in all workers as `count` in each.
fn of_each(workers: u64, count: usize) -> u64 {
    (count as u64).saturating_mul(workers)
}

/// Bytes that one lookup reads of files whose content it needs, besides the plain file.
fn special_files(site: &Site) -> u64 {
    let small = RESPONSE.max(site.cache.file);
    let alternates = match any_route(site, |route| !route.files.alternates.is_empty()) {
        true => small.saturating_mul(MAX_ALTERNATES as u64 * CODINGS),
        false => 0,
    };
    let special = |route: &Route| match route.files.special {
        SpecialFiles { as_is: true, .. } => MAX_AS_IS,
        SpecialFiles { image_maps: true, .. } => image_map::MAX_SIZE,
        SpecialFiles { .. } => 0,
    };
    let special = site.hosts.iter().flat_map(|host| host.routes.iter()).map(special).max().unwrap_or(0);
    alternates.max(special)
}

fn remembers(route: &Route) -> bool {
    let subrequests = route.authorizers.iter().filter_map(|own| own.subrequest.as_ref());
    subrequests.into_iter().any(|subrequest| !subrequest.cache.is_zero())
}

fn limited_clients(site: &Site) -> u64 {
    let is_of_clients = |limit: &&Limit| !matches!(limit.by, By::All | By::Host | By::Route | By::OwnRoute);
    LIMITED_CLIENTS.saturating_mul(site.traffic_limits.iter().filter(is_of_clients).count() as u64)
}

fn upstream_connections(site: &Site) -> u64 {
    site.upstreams.iter().fold(0, |sum, upstream| sum.saturating_add(upstream.connections() as u64))
}

fn http2_connections(site: &Site) -> u64 {
    let upstreams = site.upstreams.iter().filter(|upstream| upstream.http2);
    upstreams.fold(0, |sum, upstream| sum.saturating_add(upstream.connections() as u64))
}

/// Connections whose protocol may have been switched.
fn upgraded(site: &Site, workers: u64) -> u64 {
    let most = site.limits.upgraded.min(site.limits.connections) as u64;
    let has_any = site.forward_proxy.is_some() || any_route(site, Route::may_upgrade);
    if has_any { most.saturating_mul(workers) } else { 0 }
}

/// Responses of scripts, applications and authorizers that are read ahead.
fn buffered_responses(site: &Site, workers: u64) -> u64 {
    let is_buffered = |script: &Script| script.buffering == ResponseBuffering::On;
    let is_of_route = |route: &Route| match &route.script {
        Some(script) => is_buffered(script),
        None => !route.authorizers.is_empty(),
    };
    let has_any =
        any_route(site, |route| is_of_route(route) || route.lister.as_deref().is_some_and(is_buffered));
    if has_any { of_each(workers, site.limits.buffered_responses) } else { 0 }
}

/// Those of them that may wait in files, which the spawner makes.
fn responses_in_files(site: &Site, workers: u64) -> u64 {
    if site.has_scripts() { buffered_responses(site, workers) } else { 0 }
}

fn multiplexed_requests(site: &Site) -> u64 {
    site.upstreams.iter().fold(0, |sum, upstream| sum.saturating_add(upstream.multiplexed_requests() as u64))
}

/// Scripts that run at the same time. Each worker may run at least one.
fn scripts(site: &Site, workers: u64) -> u64 {
    if site.has_scripts() { workers.max(site.scripts.processes as u64) } else { 0 }
}

fn compresses(site: &Site) -> bool {
    any_route(site, |route| !route.files.compress.codings.is_empty())
}

/// Whether compressed copies of files are kept.
fn keeps(route: &Route) -> bool {
    let rules = &route.files.compress;
    !rules.codings.is_empty() && rules.kept != Kept::Nothing
}

fn any_route(site: &Site, wants: impl Fn(&Route) -> bool) -> bool {
    all_routes(site).any(wants)
}

fn all_routes(site: &Site) -> impl Iterator<Item = &Route> {
    site.hosts.iter().flat_map(|host| host.routes.iter())
}

fn has_folder_passwords(route: &Route) -> bool {
    route.authentication.folder != FolderPasswords::Off
}

/// Bytes of one comparison of a password, with the costliest hash.
fn comparison(site: &Site) -> u64 {
    let of_route = |route: &Route| match has_folder_passwords(route) {
        // Their files may change at any time.
        true => MAX_MEMORY,
        false => route.authentication.users.iter().map(|users| users.memory()).max().unwrap_or(0),
    };
    site.hosts.iter().flat_map(|host| host.routes.iter()).map(of_route).max().unwrap_or(0) as u64
}

fn logs_requests(site: &Site) -> bool {
    let sends_spans = site.tracing.as_ref().is_some_and(|tracing| tracing.export.is_some());
    let logs_errors = site.log.client_errors.is_some();
    sends_spans
        || logs_errors
        || site.log.access.is_some()
        || site.hosts.iter().any(|host| host.access_log.is_some())
}

/// Commands and peers that logs go to. Each has a queue.
fn readers(site: &Site) -> u64 {
    site.sinks()
        .into_iter()
        .filter(|sink| matches!(sink, Sink::Command(_) | Sink::Tcp(_) | Sink::Collector(_)))
        .count() as u64
}

/// The files that logs are written to.
pub fn logs(site: &Site) -> BTreeSet<&Path> {
    let files = site.sinks().into_iter().filter_map(|sink| match sink {
        Sink::File(path) => Some(path.as_path()),
        Sink::Stdout | Sink::Stderr | Sink::Syslog | Sink::Command(_) | Sink::Tcp(_) | Sink::Collector(_) => {
            None
        }
    });
    files.collect()
}

#[cfg(test)]
mod tests;
