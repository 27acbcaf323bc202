//! Hedging: a request that has no head of a response after a time is sent to a second endpoint, too. The first whole
//! head decides. The other attempt is aborted, and its connection closed. Knows nothing of retries.

use std::future::Future;
use std::pin::pin;

use site::balance::Hedging;
use tokio::time::{Instant, sleep_until};

use super::application::Application;
use super::attempt::Attempt;
use super::exchange::{BodySource, Failure, UpstreamExchange, UpstreamResponse};
use super::head::UpstreamHead;
use super::interim::Interims;
use super::request::Repeats;
use crate::log;
use crate::log::upstream::AttemptLog;
use crate::pool::hedging::{Hedge, NoHedge};
use crate::pool::message::{EndpointId, Fault};
use crate::stats::Count;

/// What a second attempt of a request needs.
pub struct Hedger<'a> {
    application: &'a Application<'a>,
    hedging: &'a Hedging,
    interims: &'a Interims<'a>,
}

impl<'a> Hedger<'a> {
    /// For a request without a body. `None`: only one endpoint may have it at a time. `interims`: those of the second
    /// endpoint.
    pub fn new(application: &'a Application<'a>, interims: &'a Interims<'a>) -> Option<Hedger<'a>> {
        let &Application { upstream, request, .. } = application;
        let hedging = upstream.hedging.as_ref()?;
        let is_repeatable = request.repeats == Repeats::AtOnce && request.info.upgrade.is_none();
        is_repeatable.then_some(Hedger { application, hedging, interims })
    }

    /// The head of the response to `first`, which `endpoint` has, or to a second attempt. Returns also the endpoint that
    /// has responded.
    pub async fn receive_head(
        &self,
        first: UpstreamExchange,
        endpoint: EndpointId,
    ) -> (EndpointId, Result<UpstreamResponse, Failure>) {
        let at = first.began.checked_add(self.hedging.after).unwrap_or(first.began);
        match self.race(&first, at, self.second(endpoint)).await {
            Winner::Second(endpoint, response) => {
                self.application.services.counts.add(Count::HedgesWon, 1);
                (endpoint, Ok(*response))
            }
            Winner::First(received) => {
                first.attempt().into_iter().for_each(AttemptLog::on_chosen);
                (
                    endpoint,
                    received.map(|(head, received)| UpstreamResponse { exchange: first, head, received }),
                )
            }
        }
    }

    /// The attempt that loses is dropped with its future.
    async fn race(
        &self,
        first: &UpstreamExchange,
        at: Instant,
        second: impl Future<Output = Option<(EndpointId, UpstreamResponse)>>,
    ) -> Winner {
        let mut of_first = pin!(first.receive_head(&self.application.interims));
        let mut of_second = pin!(async {
            sleep_until(at).await;
            second.await
        });
        let won = |(endpoint, response)| Winner::Second(endpoint, Box::new(response));
        tokio::select! {
            biased;
            received = &mut of_first => match received {
                // The second one may still respond.
                Err(failure) if at <= Instant::now() => match of_second.await {
                    Some(response) => {
                        note(&first.request.label, &first.request.upstream_name, &failure);
                        won(response)
                    }
                    None => Winner::First(Err(failure)),
                },
                received => Winner::First(received),
            },
            response = &mut of_second => match response {
                Some(response) => won(response),
                None => Winner::First(of_first.await),
            },
        }
    }

    /// The head of the response of another endpoint than `first`. `None`: there is none that is better than nothing.
    async fn second(&self, first: EndpointId) -> Option<(EndpointId, UpstreamResponse)> {
        let hedge = self.application.pool.hedge(first, self.hedging.budget);
        let hedge = hedge.inspect_err(|why| match why {
            NoHedge::OverBudget => self.application.services.counts.add(Count::HedgesOmitted, 1),
            NoHedge::NoEndpoint => {}
        });
        let hedge = hedge.ok()?;
        let (endpoint, exchange) = self.begin(&hedge).await?;
        let (label, upstream_name) = (exchange.request.label.clone(), exchange.request.upstream_name.clone());
        match exchange.receive_response(self.interims).await {
            Ok(response) => {
                let status = response.head.status;
                if self.application.upstream.health.failure_status.contains(status) {
                    response.exchange.report_failure(Fault::Other, &format!("status {}", status.code()));
                    return None;
                }
                Some((endpoint, response))
            }
            Err(failure) => {
                note(&label, &format!("{upstream_name}, asked as well,"), &failure);
                None
            }
        }
    }

    async fn begin(&self, hedge: &Hedge) -> Option<(EndpointId, UpstreamExchange)> {
        let &Application { services, upstream, pool, request, log, .. } = self.application;
        let log = log.begin(pool.name(), upstream.protocol);
        // The pool has logged why it cannot connect. The first endpoint may respond.
        let sharing = request.sharing();
        let checkout = hedge.check_out(sharing).await.ok()?;
        let attempt = Attempt::of(self.application, checkout, sharing, log).ok()?;
        services.counts.add(Count::Hedges, 1);
        Some(attempt.exchange(self.application, BodySource::Empty))
    }
}

/// Logs why an attempt has failed while the other one may respond.
fn note(label: &str, upstream_name: &str, failure: &Failure) {
    // The other kinds of failures have their line.
    if let Failure::NoResponse(failure) = failure {
        let why = &failure.why;
        log::warn(format_args!("{label}: {upstream_name} did not respond: {why}"));
    }
}

/// Which attempt has responded.
enum Winner {
    /// Or has failed as the last.
    First(Result<(UpstreamHead, Vec<u8>), Failure>),
    Second(EndpointId, Box<UpstreamResponse>),
}
