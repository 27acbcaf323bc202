//! Plaintext becomes records, which the socket takes now or later.

use std::io;

use rustix::io::Errno;
use rustls::server::ServerConnectionData;
use rustls::unbuffered::{
    ConnectionState, EncryptError, InsufficientSizeError, UnbufferedStatus, WriteTraffic,
};

use super::{Connection, MAX_PLAINTEXT, Session, State, encode};
use crate::buffer::append;
use crate::connection::stream::More;

/// Records up to this size wait for what is known to follow them, and are sent with it.
const HELD: usize = 4 * 1024;
/// What is read of a file at once: whole records.
const FILE: usize = 64 * 1024;

impl Session {
    /// Encrypts and sends from the beginning of `bytes`, and returns how many bytes it has taken. What the socket does
    /// not take of the records stays here.
    pub fn send(
        &mut self,
        bytes: &[u8],
        more: More,
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if !self.is_held {
            self.flush(&mut send)?;
        }
        let bytes = &bytes[..bytes.len().min(MAX_PLAINTEXT)];
        let shared = self.shared.clone();
        let records = &mut *shared.records.borrow_mut();
        let length = self.encrypt(records, |traffic, space| traffic.encrypt(bytes, space))?;
        let records = &records[..length];
        self.is_held = more == More::Follows && records.len() <= HELD;
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
        let shared = self.shared.clone();
        let file = &mut *shared.file.borrow_mut();
        file.resize(FILE, 0);
        match read(&mut file[..count.min(FILE)]) {
            Ok(0) => Some(Ok(0)),
            Ok(length) => Some(self.send(&file[..length], More::Nothing, send)),
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
        let is_open = match self.state {
            State::Open(_) | State::PeerClosed(_) => true,
            // Behind the response to early data.
            State::Handshake(_) => self.facts.is_some(),
            State::Hello | State::Signing(_) | State::Kernel(_) | State::Failed(_) => false,
        };
        if !is_open || self.flush(&mut send).is_err() {
            return;
        }
        let mut records = Vec::new();
        if let Ok(length) = self.encrypt(&mut records, |traffic, space| traffic.queue_close_notify(space)) {
            // The connection ends in any case.
            _ = send(&records[..length]);
        }
    }

    /// Writes what is unsent and then new records to the start of `out`, which grows as needed and never shrinks.
    /// Returns their length.
    fn encrypt(
        &mut self,
        out: &mut Vec<u8>,
        mut write: impl FnMut(
            &mut WriteTraffic<'_, ServerConnectionData>,
            &mut [u8],
        ) -> Result<usize, EncryptError>,
    ) -> io::Result<usize> {
        while let Some(Connection { rustls, .. }) = self.state.connection_mut() {
            // An incomplete record may begin a handshake message that the library has seen.
            let UnbufferedStatus { discard, state } = rustls.process_tls_records(&mut self.received);
            match state.map_err(io::Error::other)? {
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, &mut self.unsent),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.state.on_peer_closed(),
                ConnectionState::WriteTraffic(mut traffic) => {
                    let before = &self.unsent[self.sent..];
                    out.resize(out.len().max(before.len()), 0);
                    out[..before.len()].copy_from_slice(before);
                    return write_behind(before.len(), out, |space| write(&mut traffic, space));
                }
                _ => break,
            }
            self.received.drain(..discard);
        }
        Err(io::ErrorKind::NotConnected.into())
    }
}

/// Writes records behind the first bytes of `out`, which grows as needed. Returns where they end.
fn write_behind(
    start: usize,
    out: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> io::Result<usize> {
    // The second time, there is space.
    loop {
        match write(&mut out[start..]) {
            Ok(count) => return Ok(start + count),
            Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                out.resize(start + required_size, 0);
            }
            // As the kernel's keys.
            Err(EncryptError::EncryptExhausted) => return Err(Errno::KEYEXPIRED.into()),
        }
    }
}
