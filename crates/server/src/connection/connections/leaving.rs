//! The end of a worker: its connections close, or go to the process that takes over.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::sync::oneshot;

use super::Connections;
use crate::process::ipc::{self, Channel};
use crate::services::Mode;
use crate::stats::Count;
use crate::{log, sys};

/// How long idle connections wait for another successor when theirs has ended.
const SUCCESSOR_TIMEOUT: Duration = Duration::from_secs(5);

impl Connections {
    /// Closes idle connections, and finishes the others.
    pub async fn leave(self: Rc<Connections>) {
        self.set_mode(Mode::Closing);
        for connection in self.idle.take_all() {
            self.keep(connection);
        }
        self.idle.close_all();
        self.table.park_idle();
        self.finish_within(self.services.site.timeouts.shutdown, "shutdown").await;
    }

    /// Hands idle connections off to the successor, and finishes the others. Sends `closed` when no listener is open.
    pub async fn hand_off(self: Rc<Connections>, closed: oneshot::Sender<()>) {
        self.set_mode(Mode::HandingOff);
        for mut connection in self.idle.take_all() {
            connection.note_responses(connection.requests, self.services.clock.ticks());
            self.keep(connection);
        }
        self.table.park_idle();
        let listeners = async {
            while self.acceptor.is_accepting() {
                self.table.ended().await;
            }
            // Fails only when the main thread no longer waits for it.
            _ = closed.send(());
        };
        let connections = async {
            tokio::select! {
                () = self.finish_within(self.services.site.timeouts.reload, "reload") => {}
                // Without a successor, idle connections are closed.
                () = self.serve_handoffs() => self.clone().leave().await,
            }
        };
        tokio::join!(listeners, connections);
    }

    fn set_mode(&self, mode: Mode) {
        self.services.mode.set(mode);
        self.acceptor.close();
    }

    fn has_connections(&self) -> bool {
        !self.table.is_empty() || !self.idle.is_empty() || !self.handoffs.is_empty()
    }

    /// `key` is that of the time in the configuration.
    async fn finish_within(&self, time: Duration, key: &str) {
        let all = async {
            while self.has_connections() || self.acceptor.is_accepting() {
                self.table.ended().await;
            }
        };
        let is_late = tokio::time::timeout(time, all).await.is_err();
        // An idle connection waits for nothing.
        if is_late && !self.table.is_empty() {
            log::warn(format_args!(
                "connections cut off after {} s: {}; to let them finish, raise {key} in [timeouts]",
                time.as_secs_f32(),
                self.table.len()
            ));
        }
    }

    /// Sends idle connections to the successor, or to the one that replaces it. Returns when there is none.
    async fn serve_handoffs(&self) {
        while tokio::time::timeout(SUCCESSOR_TIMEOUT, self.handoffs.wait_for_successor()).await.is_ok() {
            let Some(successor) = self.handoffs.take_successor() else { continue };
            tokio::select! {
                Err(error) = self.send_handoffs(successor) => {
                    // One that has ended may be replaced by the master.
                    if error.kind() != io::ErrorKind::BrokenPipe {
                        log::error(format_args!("the process that takes over gets no idle connections: {error}"));
                    }
                }
                () = self.handoffs.wait_for_successor() => {}
            }
        }
    }

    /// Returns only with an error.
    async fn send_handoffs(&self, successor: Channel) -> io::Result<Infallible> {
        let successor = sys::watch(successor, Interest::WRITABLE)?;
        let mut waits = false;
        loop {
            if self.handoffs.is_empty() {
                self.table.notify_ended();
                self.handoffs.added().await;
                continue;
            }
            // It stays in the queue until it is sent, so that the worker does not end before.
            let send = |successor: &Channel| self.handoffs.send_first(successor);
            match successor.async_io(Interest::WRITABLE, send).await {
                Err(error) if ipc::has_too_many_in_flight(&error) => {
                    if !std::mem::replace(&mut waits, true) {
                        log::warn(format_args!(
                            "idle connections wait to be handed off: {}",
                            ipc::TOO_MANY_IN_FLIGHT
                        ));
                    }
                    tokio::time::sleep(ipc::RETRY).await;
                    continue;
                }
                sent => sent?,
            }
            // An administrator may have ended it.
            let sent = self.handoffs.remove_first();
            self.services.counts.add(Count::HandedOver, u64::from(sent));
        }
    }
}
