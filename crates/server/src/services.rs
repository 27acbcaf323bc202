//! The services of a worker that all its modules use: the site, the clock, the helper threads, the logs, the counters
//! and the overload detection. Each worker has its own. ARCHITECTURE.md lists what workers share of it, such as the
//! settings of TLS and the counters.

mod mode;
mod scratch;

use std::cell::{Cell, RefCell};
use std::fmt::Arguments;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use site::memory;
use site::model::{Route, Site};
use taipan_http::head::Head;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

pub use self::mode::{Mode, PresentMode};
pub use self::scratch::{OutputBuffers, ResponseBuffers, Scratch, ScratchInput, SpareHead};
use crate::background::Background;
use crate::client_names::ClientNames;
use crate::clock::{self, Clock};
use crate::destination::DestinationId;
use crate::disk::{Busy, Closing, Disk};
use crate::log::access::{AccessLogs, LoggedRequest, LoggedResponse, Records};
use crate::log::{self, LineLimit};
use crate::main_thread::MainThreadHandle;
use crate::overload::{Overload, Shedding};
use crate::peer::Peer;
use crate::semaphore::Semaphore;
use crate::stats::{Count, Counts};
use crate::tls::ServerTls;

/// Clients of one worker that receive events at the same time.
const EVENT_STREAMS: usize = 32;

pub struct Services {
    pub site: Site,
    /// `None`: the site has no TLS.
    pub tls: Option<Arc<ServerTls>>,
    pub clock: Clock,
    pub disk: Rc<Disk>,
    pub background: Background,
    /// Responses that are compressed while they are sent.
    pub encoders: Semaphore,
    pub access: AccessLogs,
    /// Opened when the worker has the channel to ask.
    pub client_names: Rc<ClientNames>,
    pub counts: Counts,
    pub overload: Overload,
    pub scratch: RefCell<Scratch>,
    /// `None`: there is no main thread.
    pub main_thread: Option<MainThreadHandle>,
    /// Clients of the page that receive events.
    pub events: Semaphore,
    /// Readers of what jobs in the background write.
    pub job_readers: Semaphore,
    /// Permits of responses that are read ahead of slow clients.
    pub buffered_responses: Semaphore,
    /// What disks that are too slow write into the log.
    busy_disks: LineLimit,
    damaged_files: LineLimit,
    spool_errors: LineLimit,
    pub mode: PresentMode,
    /// When the present turn of the loop began, of `clock::micros`.
    turn: Cell<u64>,
    boundaries: Cell<u64>,
}

impl Services {
    /// Must be called within the worker's runtime. Also returns the queue of files to close, for `Disk::close_files`.
    pub fn new(site: Site, tls: Option<Arc<ServerTls>>) -> (Rc<Services>, Closing) {
        Services::counting(site, tls, Counts::new(), None)
    }

    /// With counters that other processes may read.
    pub fn counting(
        site: Site,
        tls: Option<Arc<ServerTls>>,
        counts: Counts,
        main_thread: Option<MainThreadHandle>,
    ) -> (Rc<Services>, Closing) {
        let clock = Clock::start();
        let (disk, closing) = Disk::new(&site.limits, site.timeouts.disk);
        let client_names = Rc::new(ClientNames::new(site.resolution.client_names.unwrap_or(0)));
        let services = Services {
            clock,
            disk: Rc::new(disk),
            background: Background::new(site.cache.waiting_copies()),
            encoders: Semaphore::new(site.limits.compressed_streams),
            access: AccessLogs::new(&site, client_names.clone()),
            client_names,
            counts,
            main_thread,
            events: Semaphore::new(EVENT_STREAMS),
            job_readers: Semaphore::new(memory::JOB_READERS),
            buffered_responses: Semaphore::new(site.limits.buffered_responses),
            busy_disks: LineLimit::default(),
            damaged_files: LineLimit::default(),
            spool_errors: LineLimit::default(),
            mode: PresentMode::new(),
            turn: Cell::new(clock::micros()),
            overload: Overload::new(site.timeouts.delay),
            scratch: RefCell::new(Scratch::new(&site.limits)),
            boundaries: Cell::new(clock::micros()),
            site,
            tls,
        };
        (Rc::new(services), closing)
    }

    /// The route of a path, after rewrites.
    pub fn route(&self, host: usize, path: &SafePath<'_>) -> &Route {
        site::plan::planned_route(self.site.hosts.at(host), path.clone())
    }

    /// The value of `Cache-Control` for what is at a path, with this `Content-Type`.
    pub fn cache_control(&self, host: usize, path: &SafePath<'_>, content_type: &str) -> Option<&str> {
        self.route(host, path).cache_control(path, content_type)
    }

    /// The earlier of `time` and now: `Last-Modified` must not be in the future (RFC 9110 §8.8.2.1).
    pub fn past(&self, time: i64) -> i64 {
        time.min(self.clock.now())
    }

    /// A new multipart boundary.
    pub fn boundary(&self) -> String {
        let n = self.boundaries.get().wrapping_add(1);
        self.boundaries.set(n);
        format!("taipan-{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A turn of the loop begins: requests have come that nothing has looked at yet.
    #[inline]
    pub fn begin_turn(&self) {
        self.turn.set(clock::micros());
    }

    /// When requests that were found in this turn of the loop began. So that the clock is read once for all of them,
    /// and the time for which they have waited for one another counts.
    #[inline]
    pub fn turn(&self) -> u64 {
        self.turn.get()
    }

    /// A request for the log, which began at `began` of `clock::micros`: by a connection without TLS and without a
    /// task.
    #[inline]
    pub fn logged_request<'a>(
        &self,
        head: Option<&'a Head<'a>>,
        client: Peer,
        destination: DestinationId,
        began: u64,
    ) -> LoggedRequest<'a> {
        let host = head.map_or(0, |head| self.site.hosts.find_in(destination.group, head.authority));
        let time = self.clock.now();
        LoggedRequest { client, connection: None, head, host, destination, time, began, tls: None }
    }

    /// Counts a response, and records the fields of its log line.
    #[inline]
    pub fn record(&self, records: &mut Records, request: &LoggedRequest<'_>, response: LoggedResponse<'_>) {
        self.counts.add_response(response.status, request.head);
        self.access.record(records, request, response);
    }

    /// Logs that a gzip file cannot be inflated for a client without gzip.
    pub fn report_damaged(&self, path: &str, why: &io::Error) {
        // Each request has this error.
        if let Some(omitted) = self.damaged_files.admit(self.clock.now()) {
            log::error(format_args!(
                "{path} is damaged: {why}; make it again, or clients without gzip do not get all of it{omitted}"
            ));
        }
    }

    /// Logs that the body of a request cannot be stored.
    pub fn report_spool(&self, what: Arguments<'_>) {
        // On a full disk, each request has this error.
        if let Some(omitted) = self.spool_errors.admit(self.clock.now()) {
            log::error(format_args!("{what}{omitted}"));
        }
    }

    /// Logs and counts that a disk was busy, and returns the status of the response. `what` was to be found, read or
    /// written there.
    pub fn report_busy(&self, what: Arguments<'_>, busy: Busy) -> Status {
        self.counts.add(Count::TimeoutDisk, u64::from(matches!(busy, Busy::Late | Busy::Shed)));
        match busy {
            Busy::Late => log::warn(format_args!("{what}: the disk did not respond in time")),
            Busy::Failed => log::warn(format_args!("{what}: the lookup failed")),
            // Thousands of requests may wait.
            Busy::Full | Busy::Shed => {
                if let Some(omitted) = self.busy_disks.admit(self.clock.now()) {
                    log::warn(format_args!("{what}: too many requests wait for its disk{omitted}"));
                }
            }
        }
        Status::SERVICE_UNAVAILABLE
    }

    /// Whether a request that may wait would be shed.
    pub fn is_overloaded(&self) -> bool {
        self.overload.shedding() >= Shedding::Cold
    }

    /// Must a request that may wait for a disk be shed? Counts it if so.
    pub fn sheds_cold(&self) -> bool {
        let sheds = self.is_overloaded();
        self.counts.add(Count::ShedCold, u64::from(sheds));
        sheds
    }

    /// Must every request be shed? Counts it if so.
    #[inline]
    pub fn sheds_everything(&self) -> bool {
        let sheds = self.overload.shedding() == Shedding::Everything;
        if sheds {
            self.counts.add(Count::ShedAll, 1);
        }
        sheds
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        self.access.flush();
    }
}
