//! The turns of the requests of this process that change names in a root, in the order in which they ask. Only the one
//! whose turn it is waits on a helper thread for the lock of the root, which other processes may have.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::Failure;

/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// One for each published root of the configuration.
static TURNS: Mutex<BTreeMap<PathBuf, Arc<Semaphore>>> = Mutex::new(BTreeMap::new());

/// A request's turn, until this is dropped.
pub type Turn = OwnedSemaphorePermit;

/// Waits for the turn of a request. Errors: `Waiting`.
pub async fn turn(root: &Arc<PathBuf>) -> Result<Turn, Failure> {
    let semaphore = {
        let mut all = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(root.to_path_buf()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    };
    let turn = tokio::time::timeout(PATIENCE, semaphore.acquire_owned()).await;
    turn.ok().and_then(Result::ok).ok_or(Failure::Waiting)
}
