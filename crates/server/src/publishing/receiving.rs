//! The requests of this process that receive a part of an upload which can be resumed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::mutex::locked;

/// These requests, by the token of the upload. A later request ends an earlier one: its client has given it up. A later
/// one that would begin at bytes which the earlier one has received does not.
static ALL: Mutex<Option<HashMap<String, Arc<Receipt>>>> = Mutex::new(None);

/// A request that receives a part of an upload, until this is dropped.
pub struct Receiving {
    token: String,
    receipt: Arc<Receipt>,
}

/// How far a request has received its part.
struct Receipt {
    progress: Mutex<Progress>,
    ended: Notify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// So many bytes are received of the whole, or are being written.
    At(u64),
    /// A later request goes on.
    Ended,
}

impl Receiving {
    /// The upload has `at` bytes.
    pub fn begin(token: &str, at: u64) -> Receiving {
        let receipt = Arc::new(Receipt { progress: Mutex::new(Progress::At(at)), ended: Notify::new() });
        let mut all = locked(&ALL);
        all.get_or_insert_default().insert(token.to_owned(), receipt.clone());
        Receiving { token: token.to_owned(), receipt }
    }

    /// Ends the request that receives a part of the upload now, for one that begins at `from`. `None`: it only asks.
    /// Errors: the other one is beyond that, with so many bytes, and goes on.
    pub fn end(token: &str, from: Option<u64>) -> Result<(), u64> {
        let all = locked(&ALL);
        let Some(receipt) = all.as_ref().and_then(|all| all.get(token)) else { return Ok(()) };
        let mut progress = locked(&receipt.progress);
        match (*progress, from) {
            (Progress::At(bytes), Some(from)) if from < bytes => return Err(bytes),
            _ => *progress = Progress::Ended,
        }
        receipt.ended.notify_one();
        Ok(())
    }

    /// The request goes on to write, so that the upload has `bytes`. `false`: a later one goes on.
    pub fn go_on_to(&self, bytes: u64) -> bool {
        let mut progress = locked(&self.receipt.progress);
        if *progress == Progress::Ended {
            return false;
        }
        *progress = Progress::At(bytes);
        true
    }

    /// Waits until a later request goes on.
    pub async fn ended(&self) {
        self.receipt.ended.notified().await;
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let mut all = locked(&ALL);
        let Some(all) = all.as_mut() else { return };
        if all.get(&self.token).is_some_and(|own| Arc::ptr_eq(own, &self.receipt)) {
            all.remove(&self.token);
        }
    }
}
