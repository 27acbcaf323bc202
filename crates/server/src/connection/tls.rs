//! TLS on a connection: received records become plaintext, and plaintext becomes records to send. A session owns a buffer
//! only while a record is incomplete, or while the socket does not take one. What is used in passing is the worker's.
//!
//! Knows nothing of sockets: the caller passes functions that read and send.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use rustls::{Error, ServerConfig};

use crate::buffer::append;
use crate::log;
use crate::peer::Peer;

/// The largest record: header, content, and what TLS 1.2 may add (RFC 5246 §6.2.3).
const MAX_RECORD: usize = 5 + 16 * 1024 + 2048;
/// Bytes that are read from a socket at once, behind an incomplete record.
const READ: usize = 2 * MAX_RECORD;
/// Plaintext that is encrypted at once.
const MAX_PLAINTEXT: usize = 64 * 1024;
/// Records up to this size wait for what is known to follow them, and are sent with it.
const HELD: usize = 4 * 1024;
/// The first byte of a handshake record (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;

/// The buffers that all sessions of a worker use, one after the other.
#[derive(Default)]
pub struct Buffers {
    received: RefCell<Vec<u8>>,
    records: RefCell<Vec<u8>>,
    /// Bytes of a file, before they are encrypted.
    file: RefCell<Vec<u8>>,
}

/// What a worker needs to begin sessions.
pub struct Acceptor {
    config: Arc<ServerConfig>,
    buffers: Rc<Buffers>,
}

impl Acceptor {
    pub fn new(config: Arc<ServerConfig>) -> Acceptor {
        Acceptor { config, buffers: Rc::default() }
    }

    pub fn accept(&self) -> Result<Session, Error> {
        Session::new(self.config.clone(), self.buffers.clone())
    }
}

/// Why a session has ended.
#[derive(Debug)]
pub enum Failure {
    /// The client has sent these bytes, which are not TLS.
    NotTls(Vec<u8>),
    Protocol(Error),
}

pub struct Session {
    connection: UnbufferedServerConnection,
    buffers: Rc<Buffers>,
    /// An incomplete record.
    received: Vec<u8>,
    /// Plaintext that did not fit into the caller's buffer.
    plaintext: Vec<u8>,
    /// Records that are to be sent, from `sent` on.
    unsent: Vec<u8>,
    sent: usize,
    /// `unsent` waits for what follows it, and not for the socket.
    is_held: bool,
    phase: Phase,
    failure: Option<Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing is received.
    New,
    Open,
    /// The client sends no more: it has sent a `close_notify`.
    PeerClosed,
}

impl Session {
    /// Errors: the configuration is not usable.
    fn new(config: Arc<ServerConfig>, buffers: Rc<Buffers>) -> Result<Session, Error> {
        Ok(Session {
            connection: UnbufferedServerConnection::new(config)?,
            buffers,
            received: Vec::new(),
            plaintext: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            is_held: false,
            phase: Phase::New,
            failure: None,
        })
    }

    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Nothing has been received.
    pub fn is_new(&self) -> bool {
        self.phase == Phase::New && self.received.is_empty()
    }

    /// Why the session has failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    pub fn into_failure(self) -> Option<Failure> {
        self.failure
    }

    /// Whether plaintext can be received without reading from the socket.
    pub fn has_plaintext(&self) -> bool {
        !self.plaintext.is_empty()
    }

    /// Bytes of records that the socket has not taken.
    pub fn unsent(&self) -> usize {
        self.unsent.len() - self.sent
    }

    /// Copies received plaintext into `out`. Calls `read` until it has some, and `send` for what the protocol itself has to
    /// send. Returns 0 if the client sends no more. Errors: those of `read`, and `PROTO` if the session has failed.
    pub fn receive(
        &mut self,
        out: &mut [u8],
        mut read: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> Result<usize, Errno> {
        if self.has_plaintext() {
            let count = self.plaintext.len().min(out.len());
            out[..count].copy_from_slice(&self.plaintext[..count]);
            self.plaintext.drain(..count);
            if self.plaintext.is_empty() {
                self.plaintext = Vec::new();
            }
            return Ok(count);
        }
        let buffers = self.buffers.clone();
        let records = &mut *buffers.received.borrow_mut();
        // Done once for each worker.
        records.resize(READ, 0);
        loop {
            if self.phase == Phase::PeerClosed {
                return Ok(0);
            }
            let kept = self.received.len();
            records[..kept].copy_from_slice(&self.received);
            let count = read(&mut records[kept..])?;
            if count == 0 {
                return Ok(0);
            }
            let plaintext = self.process(&mut records[..kept + count], out);
            // Handshakes and alerts are sent as far as the socket takes them, whatever becomes of the session.
            let sent = self.flush(&mut send);
            let plaintext = plaintext.map_err(|failure| {
                self.failure = Some(failure);
                Errno::PROTO
            })?;
            match sent {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(Errno::CONNRESET),
                _ if plaintext > 0 => return Ok(plaintext),
                _ => {}
            }
        }
    }

    /// Processes received records, of which the last may be incomplete. Returns the bytes of plaintext in `out`.
    fn process(&mut self, records: &mut [u8], out: &mut [u8]) -> Result<usize, Failure> {
        if self.phase == Phase::New {
            self.phase = Phase::Open;
            if records.first() != Some(&HANDSHAKE) {
                return Err(Failure::NotTls(records.to_vec()));
            }
        }
        let (mut at, mut filled) = (0, 0);
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.connection.process_tls_records(&mut records[at..]);
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(Failure::Protocol)?;
                        discard += record.discard;
                        let fits = record.payload.len().min(out.len() - filled);
                        let (now, later) = record.payload.split_at(fits);
                        out[filled..filled + fits].copy_from_slice(now);
                        filled += fits;
                        append(&mut self.plaintext, later);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut self.unsent),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.phase = Phase::PeerClosed,
                Ok(_) => {
                    self.keep(&records[at + discard..]);
                    return Ok(filled);
                }
                Err(error) => {
                    self.encode_alert();
                    return Err(Failure::Protocol(error));
                }
            }
            at += discard;
        }
    }

    /// Keeps an incomplete record.
    fn keep(&mut self, rest: &[u8]) {
        self.received.clear();
        if rest.is_empty() {
            self.received = Vec::new();
        } else {
            self.received.reserve_exact(rest.len());
            self.received.extend_from_slice(rest);
        }
    }

    /// After an error, what is left to send is the alert that tells it.
    fn encode_alert(&mut self) {
        while let UnbufferedStatus { state: Ok(state), .. } = self.connection.process_tls_records(&mut []) {
            match state {
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, &mut self.unsent),
                ConnectionState::TransmitTlsData(data) => data.done(),
                _ => return,
            }
        }
    }

    /// Encrypts and sends from the beginning of `bytes`, and returns how many bytes it has taken. What the socket does not
    /// take of the records stays here. `follows`: the caller has more to send at once.
    pub fn send(
        &mut self,
        bytes: &[u8],
        follows: bool,
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if !self.is_held {
            self.flush(&mut send)?;
        }
        let bytes = &bytes[..bytes.len().min(MAX_PLAINTEXT)];
        let buffers = self.buffers.clone();
        let records = &mut *buffers.records.borrow_mut();
        let length = self.encrypt(records, |traffic, space| traffic.encrypt(bytes, space))?;
        let records = &records[..length];
        self.is_held = follows && records.len() <= HELD;
        let sent = match self.is_held {
            true => 0,
            false => match send(records) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                sent => sent?,
            },
        };
        self.unsent.clear();
        self.sent = 0;
        append(&mut self.unsent, &records[sent..]);
        self.release();
        Ok(bytes.len())
    }

    /// As `send`, for up to `count` bytes of a file that `read` reads. `None`: `read` has none without waiting.
    pub fn send_file(
        &mut self,
        count: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        if !self.is_held
            && let Err(error) = self.flush(&mut send)
        {
            return Some(Err(error));
        }
        let buffers = self.buffers.clone();
        let file = &mut *buffers.file.borrow_mut();
        file.resize(MAX_PLAINTEXT, 0);
        match read(&mut file[..count.min(MAX_PLAINTEXT)]) {
            Ok(0) => Some(Ok(0)),
            Ok(length) => Some(self.send(&file[..length], false, send)),
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => None,
            Err(errno) => Some(Err(errno.into())),
        }
    }

    /// Sends the records that the socket has not taken before. Errors: `WouldBlock` if it still does not.
    pub fn flush(&mut self, mut send: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        self.is_held = false;
        while self.sent < self.unsent.len() {
            match send(&self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.unsent.clear();
        self.sent = 0;
        self.release();
        Ok(())
    }

    /// Sends that no more follows, if the socket takes it (RFC 8446 §6.1).
    pub fn close(&mut self, mut send: impl FnMut(&[u8]) -> io::Result<usize>) {
        if self.failure.is_some() || self.is_handshaking() || self.flush(&mut send).is_err() {
            return;
        }
        let mut records = Vec::new();
        if let Ok(length) = self.encrypt(&mut records, |traffic, space| traffic.queue_close_notify(space)) {
            // The connection ends in any case.
            _ = send(&records[..length]);
        }
    }

    /// Writes what is unsent and then new records to the start of `out`, which grows as needed and never shrinks. Returns
    /// their length.
    fn encrypt(
        &mut self,
        out: &mut Vec<u8>,
        mut write: impl FnMut(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> io::Result<usize> {
        loop {
            // An incomplete record may begin a handshake message that the connection knows of.
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(&mut self.received);
            match state.map_err(io::Error::other)? {
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, &mut self.unsent),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.phase = Phase::PeerClosed,
                ConnectionState::WriteTraffic(mut traffic) => {
                    let before = &self.unsent[self.sent..];
                    out.resize(out.len().max(before.len()), 0);
                    out[..before.len()].copy_from_slice(before);
                    loop {
                        match write(&mut traffic, &mut out[before.len()..]) {
                            Ok(count) => return Ok(before.len() + count),
                            Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                                out.resize(before.len() + required_size, 0);
                            }
                            Err(error) => return Err(io::Error::other(error)),
                        }
                    }
                }
                _ => return Err(io::ErrorKind::NotConnected.into()),
            }
            self.received.drain(..discard);
        }
    }

    /// An idle session owns no buffer.
    fn release(&mut self) {
        if self.unsent.is_empty() && self.unsent.capacity() > 0 {
            self.unsent = Vec::new();
        }
    }
}

/// One line for a session that has failed.
pub fn log_tls_failure(peer: Peer, error: &Error) {
    log::warn(format_args!(
        "TLS with {} failed: {error}",
        peer.ip().map_or("a Unix socket".to_owned(), |ip| ip.to_string())
    ));
}

type Traffic<'c> = rustls::unbuffered::WriteTraffic<'c, rustls::server::ServerConnectionData>;

fn encode(data: &mut EncodeTlsData<'_, rustls::server::ServerConnectionData>, out: &mut Vec<u8>) {
    let length = out.len();
    if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) =
        data.encode(&mut out[length..])
    {
        out.resize(length + required_size, 0);
        let encoded = data.encode(&mut out[length..]);
        debug_assert_eq!(encoded.ok(), Some(required_size));
    }
}
