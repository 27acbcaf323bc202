//! A handshake whose signature takes long: it begins again on a thread, which may wait, with the same bytes of the client.
//! The worker goes on with other connections.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{io, mem};

use rustix::io::Errno;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{Error, ServerConfig};
use tokio::sync::oneshot;

use super::{Connection, Failure, Session, State, encode, encode_alert};
use crate::background::Background;
use crate::signer;

/// Handshakes that wait for the thread.
pub const QUEUE: usize = 1024;

/// What a handshake needs to begin again, until it is signed.
pub struct Beginning {
    config: Arc<ServerConfig>,
    /// The client's bytes that have been processed.
    received: Vec<u8>,
    /// Bytes that it has been sent for them: a HelloRetryRequest (RFC 8446 §4.1.4).
    sent: usize,
}

/// What has become of it on the thread.
pub struct Signed {
    pub connection: Connection,
    /// Records that are to be sent.
    pub unsent: Vec<u8>,
    /// Received bytes that are not processed yet.
    pub rest: Vec<u8>,
    pub result: Result<(), Error>,
}

pub type Signing = oneshot::Receiver<Box<Signed>>;

impl Beginning {
    pub fn new(config: Arc<ServerConfig>) -> Beginning {
        Beginning { config, received: Vec::new(), sent: 0 }
    }

    /// Notes bytes that have been processed, and the number of those that are the response.
    pub fn note(&mut self, received: &[u8], sent: usize) {
        self.received.extend_from_slice(received);
        self.sent += sent;
    }

    /// Begins again, with these bytes behind the others. `None`: too many wait for the thread, or there is none.
    pub fn sign(self, received: &[u8], connection: Connection, thread: &Background) -> Option<Signing> {
        let Beginning { config, received: mut records, sent } = self;
        records.extend_from_slice(received);
        thread.run(move || {
            let fresh = UnbufferedServerConnection::new(config);
            signer::with_patience(|| Box::new(handshake(fresh, records, sent, connection)))
        })
    }
}

impl Session {
    /// Waits for the signature, if the handshake does. Errors: as of `receive`.
    pub fn poll_signed(
        &mut self,
        cx: &mut Context<'_>,
        send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> Poll<Result<(), Errno>> {
        let State::Signing(signing) = &mut self.state else { return Poll::Ready(Ok(())) };
        let Ok(signed) = ready!(Pin::new(signing).poll(cx)) else {
            return Poll::Ready(Err(self.fail(not_signed())));
        };
        let Signed { connection, unsent, rest, result } = *signed;
        self.state = State::Handshake(connection);
        self.unsent.extend_from_slice(&unsent);
        self.keep(&rest);
        // What the socket does not take is sent later, or lost with the failure.
        let sent = self.flush(send);
        Poll::Ready(match (result, sent) {
            (Err(error), _) => Err(self.fail(Failure::Protocol(error))),
            (Ok(()), Err(error)) if error.kind() != io::ErrorKind::WouldBlock => Err(Errno::CONNRESET),
            (Ok(()), _) => Ok(()),
        })
    }

    /// Has the thread sign the handshake. `records`: the last that were received.
    pub(super) fn sign(&mut self, records: &[u8]) -> Result<(), Failure> {
        let State::Handshake(mut connection) = mem::replace(&mut self.state, State::Hello) else {
            return Err(not_signed());
        };
        self.received = Vec::new();
        let beginning = connection.beginning.take().ok_or_else(not_signed)?;
        let signing = beginning.sign(records, connection, &self.shared.signing).ok_or_else(not_signed)?;
        self.state = State::Signing(signing);
        Ok(())
    }
}

/// `sent`: bytes of the output that the client has already.
fn handshake(
    fresh: Result<UnbufferedServerConnection, Error>,
    mut records: Vec<u8>,
    sent: usize,
    mut connection: Connection,
) -> Signed {
    let (mut at, mut unsent) = (0, Vec::new());
    let mut result = fresh.map(|fresh| connection.rustls = fresh);
    while result.is_ok() {
        let UnbufferedStatus { discard, state } = connection.handshake(&mut records[at..]);
        match state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut unsent),
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(_) => {
                at += discard;
                break;
            }
            Err(error) => {
                encode_alert(&error, &mut connection.rustls, &mut records[at + discard..], &mut unsent);
                result = Err(error);
            }
        }
        at += discard;
    }
    unsent.drain(..sent.min(unsent.len()));
    Signed { connection, unsent, rest: records.split_off(at), result }
}

/// There is no thread that could wait for the signature.
fn not_signed() -> Failure {
    Failure::Protocol(Error::General("too many handshakes wait for the process that signs".to_owned()))
}
