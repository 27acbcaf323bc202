//! Connections that the predecessor hands off: each goes to a worker, or on to the successor.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use site::model::Site;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::workers::WorkerState;
use super::{MainThread, receive};
use crate::process::ipc::{self, Channel, InheritedConnection, Received};
use crate::worker::WorkerCommand;
use crate::{clock, log};

/// Inherited connections that no worker has taken over yet, of all workers: one for so many that a worker may have. Each
/// has a descriptor, which no limit of a worker counts.
const CONNECTIONS_FOR_UNPLACED: usize = 16;
/// The bounds of that number. A busy worker takes over the connections that wait, and then serves hundreds of others: the
/// fewer wait, the longer the clients of the last ones do.
const UNPLACED: RangeInclusive<usize> = 8..=256;
/// The most connections that the socket between two generations holds: fewer than its bytes.
const HANDOFFS_IN_CHANNEL: usize = 4096;

/// How many inherited connections may wait for a worker of this site.
pub fn unplaced(site: &Site) -> usize {
    (site.limits.connections / CONNECTIONS_FOR_UNPLACED).clamp(*UNPLACED.start(), *UNPLACED.end())
}

impl MainThread {
    /// Places the inherited connections that have arrived, without a wait for the workers to take others over.
    pub(super) async fn place_all(&mut self, predecessor: Option<&AsyncFd<Channel>>) {
        for _ in 0..HANDOFFS_IN_CHANNEL {
            let received = predecessor.map(|channel| channel.get_ref().receive());
            let Some(Ok(Received::Message(connection))) = received else { return };
            let permit = self.unplaced.clone().try_acquire_owned().ok();
            self.place(connection, permit).await;
        }
    }

    /// Returns whether others follow from the predecessor.
    pub(super) async fn on_inherited(
        &mut self,
        received: io::Result<Received<InheritedConnection>>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> bool {
        match received {
            Ok(Received::Message(connection)) => {
                self.place(connection, permit).await;
                true
            }
            Ok(Received::End) => false,
            Err(error) => {
                self.note_lost(&error);
                // Others follow one that came without its descriptor.
                ipc::lacks_descriptors(&error)
            }
        }
    }

    /// Gives an inherited connection to the next worker, or to the successor.
    pub(super) async fn place(
        &mut self,
        connection: InheritedConnection,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        self.last_placed = self.next_serving(self.last_placed);
        let worker = self.last_placed;
        let Some(successor) = &self.successor else {
            _ = self.workers[worker].commands.send(WorkerCommand::Admit(connection, permit));
            return;
        };
        let sent = successor.async_io(Interest::WRITABLE, |successor| successor.send(&connection)).await;
        match sent {
            // A worker sends it as soon as the kernel takes it.
            Err(error) if ipc::has_too_many_in_flight(&error) => {
                if self.workers[worker].commands.send(WorkerCommand::Admit(connection, permit)).is_err() {
                    self.note_lost(&error);
                }
            }
            // If the successor has ended, the connection is closed.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => self.note_lost(&error),
            Err(_) | Ok(()) => {}
        }
    }

    /// Logs that an inherited connection has been lost.
    fn note_lost(&self, error: &io::Error) {
        let Some(omitted) = self.lost_handoffs.admit(clock::wall()) else { return };
        match error.kind() {
            io::ErrorKind::InvalidData => log::warn(format_args!(
                "a connection of the earlier process is lost: no descriptor was free for it; raise `ulimit -Hn` \
                 (LimitNOFILE in a unit){omitted}"
            )),
            _ => log::warn(format_args!("a connection of the earlier process is lost: {error}{omitted}")),
        }
    }

    /// The next serving worker, round robin.
    fn next_serving(&self, last: usize) -> usize {
        let count = self.workers.len();
        let mut others = (1..=count).map(|step| (last + step) % count);
        others.find(|at| self.workers[*at].state == WorkerState::Serving).unwrap_or(last)
    }
}

/// As `receive`, when there is a permit for another connection. The descriptors of the others wait in the kernel.
pub async fn receive_inherited(
    from: Option<&AsyncFd<Channel>>,
    unplaced: &Arc<Semaphore>,
) -> (io::Result<Received<InheritedConnection>>, Option<OwnedSemaphorePermit>) {
    // It is never closed.
    let permit = unplaced.clone().acquire_owned().await.ok();
    (receive(from).await, permit)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use site::listener::Protocols;

    use super::*;
    use crate::generation::Phase;
    use crate::generation::tests::with_failing_worker;
    use crate::sys;

    fn connection() -> InheritedConnection {
        InheritedConnection {
            fd: File::open("/dev/null").unwrap().into(),
            protocols: Protocols::default(),
            client: None,
            destination: None,
            requests: 0,
        }
    }

    #[test]
    fn a_connection_that_the_successor_cannot_have_is_passed_to_a_worker_or_noted_as_lost() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut main, _far_end) = with_failing_worker(Phase::Leaving);
            let (successor, theirs) = Channel::pair().unwrap();
            main.successor = Some(sys::watch(successor, Interest::WRITABLE).unwrap());
            main.place(connection(), None).await;
            assert!(matches!(theirs.receive::<InheritedConnection>(), Ok(Received::Message(_))));
            // It has ended, and the connection with it.
            drop(theirs);
            main.place(connection(), None).await;
            assert_eq!(main.lost_handoffs.admit(1).map(|omitted| omitted.to_string()), Some(String::new()));
            // A pipe takes no descriptors.
            let (_output, input) = rustix::pipe::pipe().unwrap();
            rustix::io::ioctl_fionbio(&input, true).unwrap();
            main.successor = Some(sys::watch(Channel::from(input), Interest::WRITABLE).unwrap());
            // The limit of lines tells one that was written in this second.
            let now = clock::wall();
            main.place(connection(), None).await;
            let is_noted = (now..=clock::wall()).any(|second| main.lost_handoffs.admit(second).is_none());
            assert!(is_noted, "it is lost, and the log says so");
        });
    }

    #[test]
    fn receives_no_more_inherited_connections_than_workers_have_taken_over() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            const UNPLACED: usize = 8;
            let (sender, receiver) = Channel::pair().unwrap();
            for _ in 0..=UNPLACED {
                sender.send(&connection()).unwrap();
            }
            let channel = sys::watch(receiver, Interest::READABLE).unwrap();
            let unplaced = Arc::new(Semaphore::new(UNPLACED));
            let mut received = Vec::new();
            for _ in 0..UNPLACED {
                received.push(receive_inherited(Some(&channel), &unplaced).await);
            }
            let mut next = std::pin::pin!(receive_inherited(Some(&channel), &unplaced));
            assert!(poll_once(next.as_mut()).is_pending(), "it waits for a worker");
            received.pop();
            assert!(matches!(next.await, (Ok(Received::Message(_)), Some(_))));
        });
    }

    #[test]
    fn few_connections_wait_for_a_worker_where_few_are_allowed() {
        let mut site = Site::folder("/".into(), Vec::new());
        for (allowed, expected) in [(1, 8), (128, 8), (1600, 100), (1_000_000, 256)] {
            site.limits.connections = allowed;
            assert_eq!(unplaced(&site), expected, "{allowed}");
        }
    }

    fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}
