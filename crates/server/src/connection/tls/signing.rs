//! A handshake whose signature takes long: it begins again on a thread, which may wait, with the same bytes of the client.
//! The worker goes on with other connections.

use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{Error, ServerConfig};
use tokio::sync::oneshot;

use super::{Connection, encode, encode_alert};
use crate::background::Background;
use crate::signer;
use crate::tls::lifetime::with_end;
use crate::tls::take_asked_name;

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
        let Connection { rustls, name, end, .. } = &mut connection;
        let UnbufferedStatus { discard, state } =
            with_end(end, || rustls.process_tls_records(&mut records[at..]));
        *name = take_asked_name().or(name.take());
        match state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut unsent),
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(_) => {
                at += discard;
                break;
            }
            Err(error) => {
                encode_alert(&error, rustls, &mut records[at + discard..], &mut unsent);
                result = Err(error);
            }
        }
        at += discard;
    }
    unsent.drain(..sent.min(unsent.len()));
    Signed { connection, unsent, rest: records.split_off(at), result }
}
