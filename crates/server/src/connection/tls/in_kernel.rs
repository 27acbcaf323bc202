//! Sessions whose keys the kernel has: the socket encrypts and decrypts, and the session counts records.

use std::{io, mem};

use rustix::io::Errno;
use rustls::ExtractedSecrets;

use super::{Connection, Failure, Session, State};
use crate::tls::HTTP2;
use crate::tls::kernel::Control;

/// Content of a record.
const CONTENT: u64 = 16 * 1024;
/// What is left of the largest file for which the kernel gets the keys. They suffice for eight times as much.
const MAX_FILE: u64 = 16 << 30;

/// A session whose keys are in the kernel.
pub(super) struct KernelSession {
    pub(super) peer: Peer,
    /// Records that were sent, and how many may be sent with the same keys (RFC 8446 §5.5).
    records: u64,
    limit: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Open,
    Closed,
}

impl Session {
    /// The socket encrypts and decrypts. Then what is sent and received is given to the functions for such a session.
    pub fn is_in_kernel(&self) -> bool {
        matches!(self.state, State::Kernel(_))
    }

    /// Whether the kernel may get the keys now, to send `left` bytes of a file. HTTP/2 has many small frames in turn,
    /// and stays here; so does a session that has received a part of a record, or has so much to send that its keys
    /// might have to change.
    pub fn can_move_to_kernel(&self, left: u64) -> bool {
        let State::Open(Connection { rustls, .. }) = &self.state else { return false };
        let suite = rustls.negotiated_cipher_suite().map(|suite| suite.suite());
        suite.is_some_and(|suite| self.shared.tls.kernel().has(suite))
            && rustls.alpn_protocol() != Some(HTTP2)
            && self.received.is_empty()
            && left < MAX_FILE
    }

    /// Gives the keys to `set_keys`. If that fails, the session has failed, because nothing else has them.
    pub fn move_to_kernel(
        &mut self,
        set_keys: impl FnOnce(&ExtractedSecrets) -> io::Result<()>,
    ) -> io::Result<()> {
        let failed = State::Failed(Failure::Kernel("the kernel has not taken its keys"));
        let connection = match mem::replace(&mut self.state, failed) {
            State::Open(Connection { rustls, .. }) => rustls,
            other => {
                self.state = other;
                return Ok(());
            }
        };
        let limit = connection.negotiated_cipher_suite().and_then(|suite| suite.tls13());
        let limit = limit.map_or(0, |suite| suite.common.confidentiality_limit);
        let (secrets, _) = connection.dangerous_into_kernel_connection().map_err(io::Error::other)?;
        set_keys(&secrets)?;
        let session = KernelSession { peer: Peer::Open, records: secrets.tx.0, limit };
        self.state = State::Kernel(Box::new(session));
        Ok(())
    }

    /// As `receive`, of a session in the kernel. `control` receives a record that is no content. Returns 0 also when
    /// the keys have sent so much that the connection should not continue.
    pub fn receive_from_kernel(
        &mut self,
        out: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
        control: impl FnOnce() -> Result<Control, Errno>,
    ) -> Result<usize, Errno> {
        if self.has_plaintext() {
            return Ok(self.take_plaintext(out));
        }
        let State::Kernel(session) = &mut self.state else { return Err(Errno::PROTO) };
        if session.records > session.limit / 2 {
            return Ok(0);
        }
        let failed = match read(out) {
            // The next record is no content.
            Err(Errno::IO) => match control()? {
                Control::Ignored => return Err(Errno::INTR),
                Control::CloseNotify => {
                    session.peer = Peer::Closed;
                    return Ok(0);
                }
                Control::Fatal(why) => why,
            },
            Err(Errno::BADMSG) => "the kernel cannot decrypt a record",
            Err(Errno::MSGSIZE) => "the client has sent a record that is too large",
            received => return received,
        };
        self.state = State::Failed(Failure::Kernel(failed));
        Err(Errno::PROTO)
    }

    /// As `send`, of a session in the kernel.
    pub fn send_by_kernel(&mut self, send: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        let State::Kernel(session) = &mut self.state else { return Err(io::ErrorKind::NotConnected.into()) };
        if session.records >= session.limit {
            return Err(Errno::KEYEXPIRED.into());
        }
        let sent = send()?;
        session.records += 1 + sent as u64 / CONTENT;
        Ok(sent)
    }
}
