//! The services of a worker that all its modules use: the site, the clock, the helper threads, the logs, the counters and
//! the overload detection. Nothing here is shared with other workers.

mod scratch;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use site::model::{Route, Site};
use taipan_http::target::SafePath;

pub use self::scratch::Scratch;
use crate::background::Background;
use crate::clock::{self, Clock};
use crate::disk::{Closing, Disk};
use crate::log::access::AccessLogs;
use crate::overload::{Overload, Shedding};
use crate::semaphore::Semaphore;
use crate::stats::{Count, Counts};
use crate::tls::ServerTls;

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
    pub counts: Counts,
    pub overload: Overload,
    pub scratch: RefCell<Scratch>,
    boundaries: Cell<u64>,
}

impl Services {
    /// Must be called within the worker's runtime. Also returns the queue of files to close, for `Disk::close_files`.
    pub fn new(site: Site, tls: Option<Arc<ServerTls>>) -> (Rc<Services>, Closing) {
        let clock = Clock::start();
        let (disk, closing) = Disk::new(&site.limits, site.timeouts.disk);
        let services = Services {
            clock,
            disk: Rc::new(disk),
            background: Background::new(site.cache.waiting_copies()),
            encoders: Semaphore::new(site.limits.compressed_streams),
            access: AccessLogs::new(&site),
            counts: Counts::new(),
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

    /// The value of `Cache-Control` for a path.
    pub fn cache_control(&self, host: usize, path: &SafePath<'_>) -> Option<&str> {
        let rules = &self.route(host, path).cache_control;
        rules.iter().find(|(pattern, _)| pattern.matches(path)).map(|(_, value)| value.as_str())
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

    /// The time for the log at which a request begins. Without a log, the clock is not read.
    #[inline]
    pub fn access_time(&self) -> u64 {
        if self.access.is_on() { clock::micros() } else { 0 }
    }

    /// Must a request that may wait for a disk be shed? Counts it if so.
    pub fn sheds_cold(&self) -> bool {
        let sheds = self.overload.shedding() >= Shedding::Cold;
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
