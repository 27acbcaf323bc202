//! Resolves a name of an upstream again and again, and reports its addresses. Knows nothing of endpoints.

use std::time::Duration;

use site::endpoint::{EndpointAddress, Resolution};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::resolver::{LastAddresses, Resolved, Resolver};

/// The longest pause before a name that cannot be resolved is tried again, unless `min_ttl` is longer.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The addresses of a name, or why it has none.
pub type Found = Result<Resolved, String>;

/// Reports until `report` returns `false`. `doubt` has the name resolved sooner, because an address does not respond.
pub async fn watch(
    address: &EndpointAddress,
    resolution: &Resolution,
    resolver: &Result<Resolver, String>,
    doubt: &Notify,
    report: impl AsyncFn(Found) -> bool,
) {
    let (mut failures, mut last) = (0, LastAddresses::new());
    loop {
        let found = match resolver {
            Ok(resolver) => resolver.resolve(address, &mut last).await,
            Err(why) => Err(why.clone()),
        };
        let pause = match &found {
            Ok(resolved) => {
                failures = 0;
                resolved.ttl
            }
            Err(_) => {
                failures += 1;
                pause(resolution.min_ttl, failures)
            }
        };
        if !report(found).await {
            return;
        }
        let in_doubt = async {
            sleep(resolution.min_ttl).await;
            doubt.notified().await;
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = in_doubt => {}
        }
    }
}

/// Twice as long after each failure in a row.
fn pause(min_ttl: Duration, failures: u32) -> Duration {
    let longer = 2u32.saturating_pow(failures.saturating_sub(1));
    min_ttl.saturating_mul(longer).min(MAX_PAUSE.max(min_ttl))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_fails_is_tried_again_after_growing_pauses() {
        let seconds = |min_ttl, failures| pause(Duration::from_secs(min_ttl), failures).as_secs();
        let found: Vec<u64> = (1..=6).map(|failures| seconds(5, failures)).collect();
        assert_eq!(found, [5, 10, 20, 40, 60, 60]);
        assert_eq!((seconds(300, 1), seconds(300, 9), seconds(1, u32::MAX)), (300, 300, 60));
    }
}
