//! What lies between a socket and the bytes of HTTP: nothing, or TLS. Knows nothing of HTTP.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

use rustls::ClientConnection;

use super::socket;
use crate::run::Fault;

/// What is between the socket and HTTP.
pub enum Transport {
    Plain,
    Tls(Box<ClientConnection>),
    /// The TLS state is borrowed by the reading code; sending waits until it is back.
    InUse,
}

/// Hands received bytes to TLS; `rest` is what it did not take yet. Call `plain` before the next call.
pub fn take(tls: &mut ClientConnection, rest: &mut &[u8]) -> Result<(), Fault> {
    let fault = if tls.is_handshaking() { Fault::Handshake } else { Fault::Malformed };
    match tls.read_tls(rest) {
        Ok(0) | Err(_) => return Err(fault),
        Ok(_) => {}
    }
    tls.process_new_packets().map(|_| ()).map_err(|_| fault)
}

/// Decrypted bytes, if there are any.
pub fn plain(tls: &mut ClientConnection, buffer: &mut [u8]) -> Result<usize, Fault> {
    match tls.reader().read(buffer) {
        Ok(count) => Ok(count),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        // Only the end of the socket counts; servers often close without close_notify.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
        Err(_) => Err(Fault::Malformed),
    }
}

/// Hands bytes to TLS, which takes a bounded amount until they are sent.
pub fn write(tls: &mut ClientConnection, bytes: &[u8]) -> Result<usize, Fault> {
    tls.writer().write(bytes).map_err(|_| Fault::Reset)
}

/// Sends what TLS has buffered. Returns whether the socket took everything.
pub fn push(tls: &mut ClientConnection, socket: &OwnedFd) -> Result<bool, Fault> {
    // Bounded by what TLS has buffered: every pass sends some, or ends.
    while tls.wants_write() {
        match tls.write_tls(&mut Sender(socket)) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => {
                return Err(error.raw_os_error().map_or(Fault::Reset, |code| {
                    socket::fault_of(rustix::io::Errno::from_raw_os_error(code))
                }));
            }
        }
    }
    Ok(true)
}

struct Sender<'s>(&'s OwnedFd);

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        rustix::net::send(self.0, bytes, rustix::net::SendFlags::NOSIGNAL).map_err(io::Error::from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
