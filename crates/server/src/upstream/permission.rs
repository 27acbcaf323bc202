//! Whether the circuit breaker of an application lets a request through, and what the request has told it. Knows
//! nothing of endpoints.

use std::cell::Cell;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use crate::log;
use crate::pool::Pool;
use crate::pool::breaker::{Admitted, Change, Verdict};
use crate::services::Services;
use crate::stats::Count;

/// A request that the breaker has let through. When this is dropped, the breaker knows how it has ended.
pub struct BreakerPermit {
    services: Rc<Services>,
    pool: Rc<Pool>,
    /// `None`: there is no breaker.
    admitted: Option<Admitted>,
    verdict: Cell<Verdict>,
}

impl BreakerPermit {
    /// Errors: how long the breaker is open at least.
    pub fn take(services: &Rc<Services>, pool: &Rc<Pool>) -> Result<BreakerPermit, Duration> {
        let admitted = pool.breaker().map(|breaker| breaker.borrow_mut().admit(Instant::now())).transpose();
        let admitted = admitted.inspect_err(|_| services.counts.add(Count::BreakersRejected, 1))?;
        let verdict = Cell::new(Verdict::Unknown);
        Ok(BreakerPermit { services: services.clone(), pool: pool.clone(), admitted, verdict })
    }

    /// The last verdict counts.
    pub fn set(&self, verdict: Verdict) {
        self.verdict.set(verdict);
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        let (Some(breaker), Some(admitted)) = (self.pool.breaker(), self.admitted) else { return };
        let change = breaker.borrow_mut().on_end(admitted, self.verdict.get(), Instant::now());
        let upstream = self.pool.upstream();
        match change {
            None => {}
            Some(Change::Opened { failures, requests, pause }) => {
                self.services.counts.add(Count::BreakersOpened, 1);
                log::error(format_args!(
                    "{}: the circuit breaker of {upstream} is open for {} s: {failures} of {requests} \
                     requests have failed",
                    worker(),
                    pause.as_secs_f64()
                ));
            }
            Some(Change::Closed) => {
                log::warn(format_args!("{}: the circuit breaker of {upstream} is closed again", worker()));
            }
        }
    }
}

/// The name of this worker's thread, as the statistics have it. Others have breakers of their own.
fn worker() -> String {
    thread::current().name().unwrap_or("a worker").to_owned()
}
