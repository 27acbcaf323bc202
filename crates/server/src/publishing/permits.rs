//! Permits of the requests of this process to change names in a root: one at a time, in the order in which they ask.
//! Only the request that has it waits on a helper thread for the lock of the root, which other processes may have.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::Failure;

use crate::mutex::locked;

/// How long a request waits for its permit.
const WAIT: Duration = Duration::from_secs(20);

/// One for each published root of the configuration.
static SEMAPHORES: Mutex<BTreeMap<PathBuf, Arc<Semaphore>>> = Mutex::new(BTreeMap::new());

/// Allows one request to change names, until this is dropped.
pub type Permit = OwnedSemaphorePermit;

/// Waits for the permit of a request. Errors: `Waiting`.
pub async fn take(root: &Arc<PathBuf>) -> Result<Permit, Failure> {
    let semaphore = {
        let mut all = locked(&SEMAPHORES);
        all.entry(root.to_path_buf()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    };
    let permit = tokio::time::timeout(WAIT, semaphore.acquire_owned()).await;
    permit.ok().and_then(Result::ok).ok_or(Failure::Waiting)
}
