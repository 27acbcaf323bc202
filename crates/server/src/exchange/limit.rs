//! Limits of speed and of requests: which of them admit a request, and what slows its body and its response. `site`
//! says which apply, and `limits` counts.

use std::rc::Rc;

use site::applying::named_by_rules;
use site::limit::{Limit, LimitId};
use site::route::RouteId;
use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::fast::{Sending, Stop};
use super::{Exchange, Unfinished, Way};
use crate::clock::in_seconds;
use crate::content::fixed;
use crate::limits::{Applied, AppliedLimits, Direction, Excess, LimitTable, Remaining, Subject, Throttle};
use crate::request::body::RequestBody;
use crate::request::throttled::ThrottledBody;
use crate::response::Response;
use crate::services::Services;
use crate::stats::Count;
use crate::upstream::HandlerKind;
use crate::{limits, log};

/// A request in a queue. If it is dropped there, its client has left.
struct Waiting<'a>(&'a Services);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.counts.add(Count::LimitAbandoned, 1);
    }
}

impl Exchange<'_> {
    /// Responds from the fast path within the limits.
    #[cold]
    #[inline(never)]
    pub(super) fn fast_within_limits(
        &mut self,
        table: &'static LimitTable,
        path: &SafePath<'_>,
    ) -> Result<Response, Unfinished> {
        let route = self.host().routes.find(path);
        let applied = self.applying(table, path, route);
        if applied.is_empty() {
            return self.fast_at(path, Some(route));
        }
        // The driver counts what an application responds.
        if let Way::Fast(_, sending) = &mut self.way {
            *sending = Sending::No;
        }
        let throttle = match self.admit_fast(path, &applied) {
            Ok(throttle) => throttle,
            Err(Stop::Respond(response)) => return Ok(self.without_hsts(response)),
            Err(stop) => return stop.result(),
        };
        match self.fast_at(path, Some(route)) {
            Ok(response) => Ok(Response { throttle, ..response }.with_fields(&self.grants.added)),
            Err(unfinished) => {
                // The driver counts the request again.
                return_requests(&applied);
                Err(unfinished)
            }
        }
    }

    /// What slows the response. `None`: nothing does.
    fn admit_fast(
        &mut self,
        path: &SafePath<'_>,
        applied: &[Applied],
    ) -> Result<Option<Box<Throttle>>, Stop> {
        self.count(path, applied)?;
        let mut throttle = Throttle::default();
        for limit in applied {
            let Some((permits, concurrent)) = limit.concurrency() else { continue };
            match permits.clone().try_acquire_owned() {
                Ok(permit) => throttle.hold(permit),
                Err(_) if !limit.state.is_enforced() => self.note_dry_run(limit, Excess::Concurrent),
                Err(_) => {
                    return_requests(applied);
                    return Err(match concurrent.queue {
                        0 => self.reject_excess(path, limit, Excess::Concurrent).into(),
                        // Other requests have to end first.
                        _ => Stop::WAIT,
                    });
                }
            }
        }
        self.add_shares(path, applied, &mut throttle)?;
        Ok(throttle.is_needed().then(|| Box::new(throttle)))
    }

    /// As `admit_fast`, for the driver: the request may wait in a queue, and its body is slowed.
    pub(super) async fn admit(
        &mut self,
        table: &'static LimitTable,
    ) -> Result<Option<Box<Throttle>>, Response> {
        // A request without a path gets an error.
        let Ok(path) = self.path() else { return Ok(None) };
        self.admit_by_path(table, &path, self.host().routes.find(&path)).await
    }

    /// As `admit`, for the script or the application that responds, whose route and path may be others than those of
    /// the request.
    pub(super) async fn admit_handler(
        &mut self,
        table: &'static LimitTable,
        route: RouteId,
        kind: &HandlerKind,
    ) -> Result<Option<Box<Throttle>>, Response> {
        let Some(path) = kind.path() else { return Ok(None) };
        let admitted = self.admit_by_path(table, &path, route).await;
        if admitted.is_err() {
            return_requests(&self.grants.counted);
        }
        admitted
    }

    /// Counts the request in the limits of a path in which neither it nor a page around it counts.
    async fn admit_by_path(
        &mut self,
        table: &'static LimitTable,
        path: &SafePath<'_>,
        route: RouteId,
    ) -> Result<Option<Box<Throttle>>, Response> {
        let mut applied = Box::new(self.applying(table, path, route));
        applied.retain(|limit| !self.is_counted(limit));
        if applied.is_empty() {
            return Ok(None);
        }
        self.count(path, &applied)?;
        let mut throttle = Throttle::default();
        self.take_permits(path, &applied, &mut throttle).await?;
        self.add_shares(path, &applied, &mut throttle)?;
        self.throttle_body(&applied);
        self.grants.counted.extend(*applied);
        Ok(throttle.is_needed().then(|| Box::new(throttle)))
    }

    fn is_counted(&self, limit: &Applied) -> bool {
        let is_of_page =
            || self.inclusion.as_ref().is_some_and(|inclusion| inclusion.place.is_counted(limit));
        self.grants.counted.iter().any(|own| own.counts_with(limit)) || is_of_page()
    }

    /// Waits for the permits of limits of concurrency. Errors: the response to a request that gets none.
    async fn take_permits(
        &self,
        path: &SafePath<'_>,
        applied: &[Applied],
        throttle: &mut Throttle,
    ) -> Result<(), Response> {
        for limit in applied {
            let Some((permits, concurrent)) = limit.concurrency() else { continue };
            if let Ok(permit) = permits.clone().try_acquire_owned() {
                throttle.hold(permit);
                continue;
            }
            if !limit.state.is_enforced() {
                self.note_dry_run(limit, Excess::Concurrent);
                continue;
            }
            let permit = match limit.queue() {
                None => None,
                Some(_queued) => {
                    self.services.counts.add(Count::LimitQueued, 1);
                    let waiting = Waiting(self.services);
                    let permit = tokio::time::timeout(concurrent.wait, permits.clone().acquire_owned()).await;
                    std::mem::forget(waiting);
                    permit.ok().and_then(Result::ok)
                }
            };
            match permit {
                Some(permit) => throttle.hold(permit),
                None => {
                    return_requests(applied);
                    return Err(self.reject_excess(path, limit, Excess::Concurrent));
                }
            }
        }
        Ok(())
    }

    fn applying(&self, table: &'static LimitTable, path: &SafePath<'_>, route: RouteId) -> AppliedLimits {
        let named = self.named(path);
        let subject = Subject { client: self.client, host: self.host, route, head: self.head };
        table.applying(&self.services.site.traffic_limits, self.host(), path, subject, &named)
    }

    /// The limits that rules of access name.
    fn named(&self, path: &SafePath<'_>) -> Vec<LimitId> {
        if !self.responder.needs.limit_rules {
            return Vec::new();
        }
        let limits = &self.services.site.traffic_limits;
        named_by_rules(limits, self.host(), path, self.facts(self.head.token))
    }

    /// Counts the request in these limits, and tells the client what remains.
    fn count(&mut self, path: &SafePath<'_>, applied: &[Applied]) -> Result<(), Response> {
        let (now, mut fields) = (limits::now(), Vec::new());
        for (at, limit) in applied.iter().enumerate() {
            match limit.take_request(now) {
                Ok(None) => {}
                Ok(Some(Remaining { requests, reset })) => {
                    let of_quota = quota_fields(&limit.state.limit, requests, in_seconds(reset));
                    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
                    fields.extend(of_quota.into_iter().flatten().map(owned));
                }
                Err(excess) if !limit.state.is_enforced() => self.note_dry_run(limit, excess),
                Err(excess) => {
                    return_requests(&applied[..at]);
                    return Err(self.reject_excess(path, limit, excess));
                }
            }
        }
        if !fields.is_empty() {
            self.grants.added.extend(fields);
        }
        Ok(())
    }

    /// Counts the response among those that share a rate. A request that waits for its permits is none of them yet, and
    /// the bytes of a part are those of its page.
    fn add_shares(
        &self,
        path: &SafePath<'_>,
        applied: &[Applied],
        throttle: &mut Throttle,
    ) -> Result<(), Response> {
        if self.inclusion.is_some() {
            return Ok(());
        }
        for limit in applied {
            if let Err(excess) = throttle.add(limit, Direction::Download) {
                return_requests(applied);
                return Err(self.reject_excess(path, limit, excess));
            }
        }
        Ok(())
    }

    fn throttle_body(&mut self, applied: &[Applied]) {
        let RequestBody::Stream(body) = &self.body else { return };
        let mut throttle = Throttle::default();
        for limit in applied {
            // Only responses have a least share.
            _ = throttle.add(limit, Direction::Upload);
        }
        if throttle.is_needed() {
            let services = self.responder.services.clone();
            self.body = RequestBody::Stream(Rc::new(ThrottledBody::new(body.clone(), throttle, services)));
        }
    }

    #[cold]
    fn reject_excess(&self, path: &SafePath<'_>, applied: &Applied, excess: Excess) -> Response {
        let limit = &applied.state.limit;
        let (count, status) = match excess {
            Excess::Requests(_) => (Count::LimitedRequests, limit.status),
            Excess::Concurrent => (Count::LimitedConcurrent, limit.status),
            Excess::Share => (Count::LimitedShare, Status::SERVICE_UNAVAILABLE),
        };
        self.services.counts.add(count, 1);
        let (seconds, of_quota) = match excess {
            Excess::Requests(wait) => {
                let seconds = in_seconds(wait).max(1);
                (seconds, quota_fields(limit, 0, seconds))
            }
            Excess::Concurrent | Excess::Share => (1, None),
        };
        let mut fields = vec![("Retry-After", seconds.to_string())];
        fields.extend(of_quota.into_iter().flatten());
        let route = self.route(path);
        match self.status_fast(route, status) {
            // A 503 has it already, for one second.
            Ok(page) => page.without("Retry-After").with_fields(&fields),
            // The error page has to wait for the disk.
            Err(_) => fixed::limited(self.services, route, status, &fields),
        }
    }

    #[cold]
    fn note_dry_run(&self, applied: &Applied, excess: Excess) {
        self.services.counts.add(Count::LimitedDryRun, 1);
        let what = match excess {
            Excess::Requests(_) => "too many requests in a time",
            Excess::Concurrent => "too many requests at once",
            Excess::Share => "its share would be too small",
        };
        if let Some(omitted) = self.responder.dry_runs.admit(self.services.clock.now()) {
            let (client, limit) = (self.client, &applied.state.limit);
            log::warn(format_args!(
                "limit {} ({}), dry run: a request of {client} would be rejected, {what}{omitted}",
                limit.label(),
                limit.place
            ));
        }
    }
}

/// The fields of draft-ietf-httpapi-ratelimit-headers: the quota of a limit, what is left of it, and in how many seconds
/// there is more. `None`: the limit does not count requests in a time.
#[cold]
fn quota_fields(limit: &Limit, left: u64, seconds: u64) -> Option<[(&'static str, String); 2]> {
    let (name, (quota, window)) = (limit.label(), limit.requests?.policy());
    let policy = format!("\"{name}\";q={quota};w={window}");
    Some([("RateLimit-Policy", policy), ("RateLimit", format!("\"{name}\";r={left};t={seconds}"))])
}

/// Takes back that a request was counted.
fn return_requests(applied: &[Applied]) {
    applied.iter().for_each(Applied::return_request);
}
