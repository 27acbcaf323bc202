//! Asks for the names of many addresses at the same time, but of no more than a limit.

use std::collections::HashSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::names_file::Names;
use crate::flags::Resolve;
use crate::resolver::Resolver;

/// How long an address has no name, if no server has answered: only for this run and the next hour.
const FAILED: Duration = Duration::ZERO;
/// Questions that are waited for together, for each that is asked at the same time.
const ROUND: usize = 4;

/// So many questions at the same time have had no answer.
pub struct NoAnswers(pub usize);

/// Errors: no server answers, so that it asks no further ones.
pub async fn ask_all(
    resolver: &Resolver,
    addresses: HashSet<IpAddr>,
    flags: &Resolve,
    names: &mut Names,
) -> Result<(), NoAnswers> {
    let permits = Rc::new(Semaphore::new(flags.jobs));
    let ask = |address| {
        let permits = permits.clone();
        async move {
            // It is never closed.
            let _permit = permits.acquire().await;
            let found = match flags.confirm {
                true => resolver.confirmed_name(address).await,
                false => resolver.name_of(address).await,
            };
            (address, found)
        }
    };
    let mut questions: Vec<_> = addresses.into_iter().map(|address| Box::pin(ask(address))).collect();
    while !questions.is_empty() {
        let round = questions.split_off(questions.len().saturating_sub(ROUND * flags.jobs));
        let found = join_all(round).await;
        if found.len() == ROUND * flags.jobs && found.iter().all(|(_, found)| found.is_err()) {
            return Err(NoAnswers(found.len()));
        }
        for (address, found) in found {
            match found {
                Ok(Some((name, ttl))) => names.insert(address, Some(name), ttl),
                Ok(None) => names.insert(address, None, Duration::from_secs(24 * 3600)),
                Err(_) => names.insert(address, None, FAILED),
            }
        }
    }
    Ok(())
}

/// Polls all of these until each is ready.
async fn join_all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut outputs = Vec::with_capacity(futures.len());
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| match std::pin::Pin::new(future).poll(context) {
            std::task::Poll::Ready(output) => {
                outputs.push(output);
                false
            }
            std::task::Poll::Pending => true,
        });
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    outputs
}
