//! TLS on a connection: received records become plaintext, and plaintext becomes records to send. A session owns a
//! buffer only while a record is incomplete, or while the socket does not take one. What is used in passing is the
//! worker's.
//!
//! Knows nothing of sockets: the caller passes functions that read and send.

mod failure;
mod in_kernel;
mod sending;
mod signing;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::{io, mem};

use rustix::io::Errno;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    AppDataRecord, ConnectionState, EncodeError, EncodeTlsData, InsufficientSizeError, UnbufferedStatus,
};
use rustls::{Error, HandshakeKind, InvalidMessage, PeerIncompatible};
use site::memory;
use site::tls::PrivateKeys;

use crate::background::Background;
use crate::buffer::append;
use crate::services::Services;
use crate::signer;
use crate::stats::Count;
use crate::tls::lifetime::with_end;
use crate::tls::{Choice, HTTP2, ServerTls, facts, offered_protocols, take_asked_name};
use crate::tls_facts::TlsFacts;
pub use failure::Failure;
use in_kernel::{KernelSession, Peer};
use signing::{Beginning, Signing};

/// The largest record: header, content, and what TLS 1.2 may add (RFC 5246 §6.2.3).
const MAX_RECORD: usize = 5 + 16 * 1024 + 2048;
/// Bytes that are read from a socket at once, behind an incomplete record.
const READ: usize = 2 * MAX_RECORD;
/// Reads in one call that bring no plaintext. Records may have no content.
const READS: usize = 4;
/// Plaintext that is encrypted at once: the frames of one write.
const MAX_PLAINTEXT: usize = memory::FRAMES as usize;
/// The first byte of a handshake record (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;
/// The first byte of an alert, and of a record that is encrypted in TLS 1.3.
const ALERT: u8 = 21;
const ENCRYPTED: u8 = 23;
/// The alert `decode_error` in a record (RFC 8446 §5.1 and §6).
const DECODE_ERROR: &[u8] = &[ALERT, 3, 3, 0, 2, 2, 50];
/// `protocol_version`, as `DECODE_ERROR`.
const PROTOCOL_VERSION: &[u8] = &[ALERT, 3, 3, 0, 2, 2, 70];
/// Where the version of a client is in its first record (RFC 8446 §4.1.2).
const CLIENT_VERSION: usize = 9;
/// The version of TLS 1.2 in messages.
const TLS_1_2: [u8; 2] = [3, 3];

/// Begins sessions.
pub struct Acceptor(Rc<Shared>);

/// What all sessions of a worker use, one after the other.
struct Shared {
    tls: Arc<ServerTls>,
    services: Rc<Services>,
    received: RefCell<Vec<u8>>,
    records: RefCell<Vec<u8>>,
    /// Bytes of a file, before they are encrypted.
    file: RefCell<Vec<u8>>,
    /// The thread of handshakes that wait for a signature.
    signing: Background,
}

impl Acceptor {
    pub fn new(tls: Arc<ServerTls>, services: Rc<Services>) -> Acceptor {
        let (received, records, file) = Default::default();
        let signing = Background::new(signing::QUEUE);
        Acceptor(Rc::new(Shared { tls, services, received, records, file, signing }))
    }

    pub fn accept(&self) -> Session {
        Session {
            state: State::Hello,
            shared: self.0.clone(),
            facts: None,
            received: Vec::new(),
            plaintext: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            is_held: false,
        }
    }
}

pub struct Session {
    state: State,
    shared: Rc<Shared>,
    /// Since the handshake, or since early data.
    facts: Option<Rc<TlsFacts>>,
    /// An incomplete record, or the incomplete beginning of a handshake.
    received: Vec<u8>,
    /// Plaintext that did not fit into the caller's buffer.
    plaintext: Vec<u8>,
    /// Records that are to be sent, from `sent` on.
    unsent: Vec<u8>,
    sent: usize,
    /// `unsent` waits for what follows it, and not for the socket.
    is_held: bool,
}

enum State {
    /// The beginning of the handshake decides on the settings.
    Hello,
    Handshake(Connection),
    /// The handshake waits for its signature.
    Signing(Signing),
    Open(Connection),
    /// The client has sent `close_notify`, and sends no more.
    PeerClosed(Connection),
    /// The kernel has the keys, and the socket encrypts.
    Kernel(Box<KernelSession>),
    Failed(Failure),
}

struct Connection {
    rustls: UnbufferedServerConnection,
    /// The index of the host that the client asks for by its name.
    host: usize,
    /// What the client asks for, until the facts have it.
    name: Option<Box<str>>,
    purpose: Purpose,
    /// When the session of the handshake ends, as far as it is known.
    end: Option<u64>,
    /// `None`: nothing waits for the signature, or it is there.
    beginning: Option<Box<Beginning>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Requests,
    /// The handshake alone. It follows the rules of no host.
    Challenge,
}

impl Session {
    pub fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Hello | State::Handshake(_) | State::Signing(_))
    }

    /// The handshake waits for its signature, and for nothing of the client. `poll_signed` waits for it.
    pub fn is_signing(&self) -> bool {
        matches!(self.state, State::Signing(_))
    }

    /// Nothing has been received.
    pub fn is_new(&self) -> bool {
        matches!(self.state, State::Hello) && self.received.is_empty()
    }

    /// Whether the rest of a record is awaited.
    pub fn is_within_record(&self) -> bool {
        !self.received.is_empty()
    }

    /// By ALPN (RFC 7301).
    pub fn has_negotiated_http2(&self) -> bool {
        self.connection().is_some_and(|connection| connection.rustls.alpn_protocol() == Some(HTTP2))
    }

    /// `None`: the handshake is not complete, and there is no early data, whose session has the same facts.
    pub fn facts(&self) -> Option<Rc<TlsFacts>> {
        match &self.state {
            State::Failed(_) => None,
            _ => self.facts.clone(),
        }
    }

    /// What the log has of it, also while the handshake of a request with early data is not complete.
    pub fn logged_facts(&self) -> Option<Rc<TlsFacts>> {
        self.facts.clone()
    }

    /// Why the session has failed.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.state {
            State::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    pub fn into_failure(self) -> Option<Failure> {
        match self.state {
            State::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether plaintext, or its end, can be received without reading from the socket.
    pub fn has_plaintext(&self) -> bool {
        !self.plaintext.is_empty() || self.has_peer_closed()
    }

    fn has_peer_closed(&self) -> bool {
        match &self.state {
            State::PeerClosed(_) => true,
            State::Kernel(session) => session.peer == Peer::Closed,
            State::Hello | State::Handshake(_) | State::Signing(_) | State::Open(_) | State::Failed(_) => {
                false
            }
        }
    }

    /// Bytes of records that the socket has not taken.
    pub fn unsent(&self) -> usize {
        self.unsent.len() - self.sent
    }

    /// Copies received plaintext into `out`. Calls `read` until it has some, and `send` for what the protocol itself
    /// has to send. Returns 0 if the client sends no more. Errors: those of `read`, `INTR` if it is to be called again,
    /// and `PROTO` if the session has failed.
    pub fn receive(
        &mut self,
        out: &mut [u8],
        mut read: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> Result<usize, Errno> {
        if self.has_plaintext() {
            return Ok(self.take_plaintext(out));
        }
        if self.is_signing() {
            return Err(Errno::AGAIN);
        }
        let shared = self.shared.clone();
        let records = &mut *shared.received.borrow_mut();
        for _ in 0..READS {
            if self.has_peer_closed() {
                return Ok(0);
            }
            let kept = self.received.len();
            // More than once only for the long messages of some handshakes, which the library limits.
            records.resize(records.len().max(kept + READ), 0);
            records[..kept].copy_from_slice(&self.received);
            let count = match read(&mut records[kept..]) {
                Ok(0) => {
                    self.note_broken_handshake();
                    return Ok(0);
                }
                Ok(count) => count,
                Err(errno) => {
                    if !matches!(errno, Errno::AGAIN | Errno::INTR) {
                        self.note_broken_handshake();
                    }
                    return Err(errno);
                }
            };
            let plaintext = self.process(&mut records[..kept + count], out);
            // Handshakes and alerts are sent as far as the socket takes them, whatever becomes of the session.
            let sent = self.flush(&mut send);
            let plaintext = plaintext.map_err(|failure| self.fail(failure))?;
            match sent {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(Errno::CONNRESET),
                _ if plaintext > 0 => return Ok(plaintext),
                _ if self.is_signing() => return Err(Errno::AGAIN),
                _ => {}
            }
        }
        Err(Errno::INTR)
    }

    fn fail(&mut self, failure: Failure) -> Errno {
        self.shared.services.counts.add(Count::HandshakesFailed, u64::from(self.is_handshaking()));
        self.state = State::Failed(failure);
        Errno::PROTO
    }

    fn take_plaintext(&mut self, out: &mut [u8]) -> usize {
        let count = self.plaintext.len().min(out.len());
        out[..count].copy_from_slice(&self.plaintext[..count]);
        self.plaintext.drain(..count);
        if self.plaintext.is_empty() {
            self.plaintext = Vec::new();
        }
        count
    }

    /// Processes received records, of which the last may be incomplete. Returns the bytes of plaintext in `out`.
    fn process(&mut self, records: &mut [u8], out: &mut [u8]) -> Result<usize, Failure> {
        if let State::Hello = self.state {
            match self.choose(records)? {
                Some(connection) => self.state = State::Handshake(connection),
                None => {
                    self.keep(records);
                    return Ok(0);
                }
            }
        }
        self.process_records(records, out)
    }

    /// As `process`, for a session whose settings are chosen.
    fn process_records(&mut self, records: &mut [u8], out: &mut [u8]) -> Result<usize, Failure> {
        // The library may change the records.
        let version = records.get(CLIENT_VERSION..).and_then(<[u8]>::first_chunk).copied();
        let hello = self.state.connection_mut().and_then(|connection| connection.beginning.as_ref());
        let hello = hello.map(|_| records.to_vec());
        let unsent = self.unsent.len();
        let (mut at, mut filled) = (0, 0);
        loop {
            let is_handshaking = self.is_handshaking();
            let Some(connection) = self.state.connection_mut() else { return Ok(filled) };
            let purpose = connection.purpose;
            let UnbufferedStatus { mut discard, state } = match is_handshaking {
                true => connection.handshake(&mut records[at..]),
                false => connection.rustls.process_tls_records(&mut records[at..]),
            };
            let mut take = |record: Result<AppDataRecord<'_>, Error>| -> Result<usize, Failure> {
                let record = record.map_err(Failure::Protocol)?;
                filled += copy(record.payload, &mut out[filled..], &mut self.plaintext);
                Ok(record.discard)
            };
            match state {
                Ok(ConnectionState::ReadTraffic(_)) if purpose == Purpose::Challenge => {
                    return Err(Failure::NoChallenge);
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        discard += take(record)?;
                    }
                }
                Ok(ConnectionState::ReadEarlyData(mut early)) => {
                    while let Some(record) = early.next_record() {
                        discard += take(record)?;
                    }
                    drop(early);
                    let name = connection.name.clone();
                    self.facts = Some(Rc::new(facts(&connection.rustls, connection.host, name)));
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut self.unsent),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => {
                    self.note_handshake();
                    self.state.on_peer_closed();
                }
                Ok(_) => {
                    if let (Some(beginning), Some(hello)) = (&mut connection.beginning, hello) {
                        beginning.note(&hello[..at + discard], self.unsent.len() - unsent);
                    }
                    self.keep(&records[at + discard..]);
                    self.note_handshake();
                    return Ok(filled);
                }
                Err(_) if signer::take_unanswered() => {
                    self.unsent.truncate(unsent);
                    return self.sign(&hello.unwrap_or_default()).map(|()| filled);
                }
                Err(error) => {
                    let error = with_version(error, version);
                    return Err(self.on_error(error, &mut records[at..], discard));
                }
            }
            at += discard;
        }
    }

    /// The first of these records breaks a rule. `discard`: bytes of them that are processed.
    fn on_error(&mut self, error: Error, records: &mut [u8], discard: usize) -> Failure {
        let failure = match error {
            Error::NoApplicationProtocol => Failure::NoProtocol(offered_protocols(records)),
            _ => Failure::Protocol(error.clone()),
        };
        if let Some(Connection { rustls, .. }) = self.state.connection_mut() {
            encode_alert(&error, rustls, &mut records[discard..], &mut self.unsent);
        }
        self.note_handshake();
        failure
    }

    /// Chooses the settings by the beginning of a handshake. `None`: it is incomplete.
    fn choose(&mut self, records: &[u8]) -> Result<Option<Connection>, Failure> {
        if records.first() != Some(&HANDSHAKE) {
            return Err(Failure::NotTls(records.to_vec()));
        }
        let (config, host, purpose) = match self.shared.tls.choose(records) {
            Choice::Incomplete => return Ok(None),
            Choice::Settings { config, host } => (config, host, Purpose::Requests),
            Choice::Challenge(config) => (config, 0, Purpose::Challenge),
            Choice::Rejected(alert) => {
                self.unsent.extend_from_slice(alert);
                return Err(Failure::UnknownName);
            }
        };
        let has_signer = self.shared.services.site.tls.private_keys == PrivateKeys::InSigner;
        let beginning = has_signer.then(|| Box::new(Beginning::new(config.clone())));
        let rustls = UnbufferedServerConnection::new(config).map_err(Failure::Protocol)?;
        Ok(Some(Connection { rustls, host, name: None, purpose, end: None, beginning }))
    }

    fn note_handshake(&mut self) {
        if let State::Handshake(connection) = &mut self.state
            && !connection.rustls.is_handshaking()
        {
            let name = connection.name.take();
            let facts = facts(&connection.rustls, connection.host, name);
            let version = if facts.protocol == "TLSv1.3" { Count::Tls13 } else { Count::Tls12 };
            self.facts = Some(Rc::new(facts));
            let counts = &self.shared.services.counts;
            let is_resumed = connection.rustls.handshake_kind() == Some(HandshakeKind::Resumed);
            counts.add(Count::Handshakes, 1);
            counts.add(version, 1);
            counts.add(Count::HandshakesResumed, u64::from(is_resumed));
            self.state.on_handshake();
        }
    }

    /// The client has closed. One that has sent nothing has not begun a handshake.
    fn note_broken_handshake(&self) {
        let is_broken = self.is_handshaking() && !self.is_new();
        self.shared.services.counts.add(Count::HandshakesFailed, u64::from(is_broken));
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

    /// Ends the session without saying so: a client must not take what it has received for all.
    pub fn cut(&mut self) {
        if !matches!(self.state, State::Failed(_)) {
            self.state = State::Failed(Failure::Cut);
        }
    }

    fn connection(&self) -> Option<&Connection> {
        match &self.state {
            State::Handshake(connection) | State::Open(connection) | State::PeerClosed(connection) => {
                Some(connection)
            }
            State::Hello | State::Signing(_) | State::Kernel(_) | State::Failed(_) => None,
        }
    }

    /// An idle session owns no buffer.
    fn release(&mut self) {
        if self.unsent.is_empty() && self.unsent.capacity() > 0 {
            self.unsent = Vec::new();
        }
    }
}

impl Connection {
    /// Processes records of the handshake, up to what they call for.
    fn handshake<'r>(&mut self, records: &'r mut [u8]) -> UnbufferedStatus<'_, 'r, ServerConnectionData> {
        let Connection { rustls, name, end, .. } = self;
        let status = with_end(end, || rustls.process_tls_records(records));
        *name = take_asked_name().or(name.take());
        status
    }
}

impl State {
    fn connection_mut(&mut self) -> Option<&mut Connection> {
        match self {
            State::Handshake(connection) | State::Open(connection) | State::PeerClosed(connection) => {
                Some(connection)
            }
            State::Hello | State::Signing(_) | State::Kernel(_) | State::Failed(_) => None,
        }
    }

    fn on_handshake(&mut self) {
        *self = match mem::replace(self, State::Hello) {
            State::Handshake(connection) => State::Open(Connection { beginning: None, ..connection }),
            other => other,
        };
    }

    fn on_peer_closed(&mut self) {
        *self = match mem::replace(self, State::Hello) {
            State::Handshake(connection) | State::Open(connection) => State::PeerClosed(connection),
            other => other,
        };
    }
}

/// Copies what fits into `out`, and appends the rest to `later`. Returns the bytes in `out`.
fn copy(plaintext: &[u8], out: &mut [u8], later: &mut Vec<u8>) -> usize {
    let (now, rest) = plaintext.split_at(plaintext.len().min(out.len()));
    out[..now.len()].copy_from_slice(now);
    append(later, rest);
    now.len()
}

/// Appends a record of the protocol itself.
fn encode(data: &mut EncodeTlsData<'_, ServerConnectionData>, out: &mut Vec<u8>) {
    let length = out.len();
    if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) =
        data.encode(&mut out[length..])
    {
        out.resize(length + required_size, 0);
        let encoded = data.encode(&mut out[length..]);
        debug_assert_eq!(encoded.ok(), Some(required_size));
    }
}

/// The library looks for an extension first that clients of older versions do not send (RFC 5246 §7.4.1.4.1).
fn with_version(error: Error, version: Option<[u8; 2]>) -> Error {
    match error {
        Error::PeerIncompatible(PeerIncompatible::SignatureAlgorithmsExtensionRequired)
            if version.is_some_and(|version| version < TLS_1_2) =>
        {
            PeerIncompatible::Tls12NotOffered.into()
        }
        other => other,
    }
}

/// After an error, what is left to send is the alert that tells it. `records` is the rest of those that led to it. Then
/// the library is not called again: it would process what follows the error, and panics if it has to send a second
/// alert.
fn encode_alert(
    error: &Error,
    rustls: &mut UnbufferedServerConnection,
    records: &mut [u8],
    out: &mut Vec<u8>,
) {
    // The library has no alert for this, and a client that begins so has no keys yet.
    if matches!(error, Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge))
        && rustls.protocol_version().is_none()
    {
        return out.extend_from_slice(DECODE_ERROR);
    }
    if matches!(error, Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered)) {
        return out.extend_from_slice(PROTOCOL_VERSION);
    }
    while let UnbufferedStatus { state: Ok(state), .. } = rustls.process_tls_records(records) {
        let ConnectionState::EncodeTlsData(mut data) = state else { return };
        let start = out.len();
        encode(&mut data, out);
        if matches!(out.get(start), Some(&(ALERT | ENCRYPTED))) {
            return;
        }
    }
}
