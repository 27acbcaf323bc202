//! The responses of the workers to commands, and what becomes of them.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::Interest;
use tokio::sync::oneshot;

use super::MainThread;
use super::workers::WorkerHandle;
use crate::process::ipc::GenerationEvent;
use crate::worker::WorkerCommand;
use crate::{sys, tasks};

/// How long a worker may take to respond to a command.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

impl MainThread {
    /// Sends a command with a place for the response to every worker, in their order.
    pub(super) fn request<T>(
        &self,
        mut command: impl FnMut(oneshot::Sender<T>) -> WorkerCommand,
    ) -> Vec<oneshot::Receiver<T>> {
        let request = |worker: &WorkerHandle| {
            let (sender, response) = oneshot::channel();
            _ = worker.commands.send(command(sender));
            response
        };
        self.workers.iter().map(request).collect()
    }

    /// Sends the event that `event` makes of the workers' responses, when all have responded or the time has passed.
    pub(super) fn report_to_master(
        &self,
        responses: Vec<oneshot::Receiver<()>>,
        event: impl FnOnce(Vec<Option<()>>) -> Option<GenerationEvent> + Send + 'static,
    ) {
        let Ok(master) = self.master.try_clone() else { return };
        tasks::spawn(async move {
            if let Some(event) = event(in_time(responses).await) {
                // The master may have ended.
                _ = master.send(&event);
            }
        });
    }
}

/// Writes a response to a client of the control socket, which has `RESPONSE_TIMEOUT` to read it, or may have closed it.
pub(super) async fn send_text(to: OwnedFd, text: String) {
    let Ok(to) = sys::watch(to, Interest::WRITABLE) else { return };
    let write = async {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let written = to.async_io(Interest::WRITABLE, |to| Ok(rustix::io::write(to, rest)?)).await?;
            rest = &rest[written..];
        }
        io::Result::Ok(())
    };
    _ = tokio::time::timeout(RESPONSE_TIMEOUT, write).await;
}

/// `None` for a worker that does not respond.
pub(super) async fn in_time<T>(responses: Vec<oneshot::Receiver<T>>) -> Vec<Option<T>> {
    let until = tokio::time::Instant::now() + RESPONSE_TIMEOUT;
    let mut all = Vec::with_capacity(responses.len());
    for response in responses {
        all.push(tokio::time::timeout_at(until, response).await.ok().and_then(Result::ok));
    }
    all
}
