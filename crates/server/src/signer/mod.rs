//! The signer: a process that has the private keys of a generation's certificates, and nothing else. It signs what the
//! workers need in handshakes. A worker reads bytes from clients and has no key that it could lose.
//!
//! Here is the worker's end. It knows of keys and messages, and nothing of certificates or connections.

pub mod message;

mod supervised;

pub mod process;
mod statement;

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

use crate::mutex::locked;
use crate::process::ipc::{Channel, Received};
use message::{PublicKey, SignRequest, SignResponse};
pub use supervised::SignerProcess;

/// How long a worker's loop waits for a signature, and with it all of its connections. Most need a tenth of it.
const MOMENT: Duration = Duration::from_millis(5);
/// How long a handshake waits for its signature, on a thread of its own. A signer that has ended is replaced within this
/// time.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The same while the signer does not respond: the worker's other handshakes wait, too.
const SHORT_TIMEOUT: Duration = Duration::from_millis(10);

thread_local! {
    /// Whether handshakes of this thread wait longer than a moment.
    static IS_PATIENT: Cell<bool> = const { Cell::new(false) };
    static UNANSWERED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a handshake that may wait for its signature.
pub fn with_patience<T>(handshake: impl FnOnce() -> T) -> T {
    IS_PATIENT.set(true);
    let result = handshake();
    IS_PATIENT.set(false);
    result
}

/// Whether the handshake that was just processed in this thread has failed because its signature takes longer than a
/// moment.
pub fn take_unanswered() -> bool {
    UNANSWERED.take()
}

/// The channels of a generation to its signer, of which each worker uses one at a time.
struct Signatures {
    /// As many as there are workers, so that one is free.
    links: Box<[Mutex<Link>]>,
}

struct Link {
    channel: Channel,
    last: u32,
    timeout: Duration,
    /// The last response has taken longer than a moment.
    is_slow: bool,
}

/// A private key that the signer has.
struct RemoteKey {
    number: u32,
    public: PublicKey,
    signatures: Arc<Signatures>,
}

/// A key with the scheme of a handshake.
struct RemoteSigner {
    key: u32,
    scheme: SignatureScheme,
    signatures: Arc<Signatures>,
}

impl Signatures {
    fn new(channels: Vec<Channel>) -> Arc<Signatures> {
        let link = |channel| Mutex::new(Link { channel, last: 0, timeout: TIMEOUT, is_slow: false });
        Arc::new(Signatures { links: channels.into_iter().map(link).collect() })
    }

    /// `None`: the signer has refused. Errors: also `TimedOut`.
    fn sign(&self, key: u32, scheme: SignatureScheme, message: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let first = || self.links.first().map(locked);
        let mut link = self.free().next().or_else(first).ok_or(io::ErrorKind::NotConnected)?;
        let timeout = link.timeout;
        let response = link.sign(key, scheme, message, timeout);
        link.timeout = if is_late(&response) { SHORT_TIMEOUT } else { TIMEOUT };
        response
    }

    /// As `sign`, but waits a moment only, and not at all for a signer that has taken longer before.
    fn sign_at_once(&self, key: u32, scheme: SignatureScheme, message: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut link = self.free().find(|link| !link.is_slow).ok_or(io::ErrorKind::TimedOut)?;
        link.sign(key, scheme, message, MOMENT)
    }

    /// The channels that no handshake uses.
    fn free(&self) -> impl Iterator<Item = MutexGuard<'_, Link>> {
        self.links.iter().filter_map(|link| match link.try_lock() {
            Ok(link) => Some(link),
            Err(TryLockError::Poisoned(link)) => Some(link.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }
}

fn is_late(response: &io::Result<Option<Vec<u8>>>) -> bool {
    response.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
}

impl Link {
    fn sign(
        &mut self,
        key: u32,
        scheme: SignatureScheme,
        message: &[u8],
        timeout: Duration,
    ) -> io::Result<Option<Vec<u8>>> {
        self.last = self.last.wrapping_add(1);
        let request = SignRequest { number: self.last, key, scheme, message: message.to_vec() };
        let began = Instant::now();
        let response = self.request(&request, began + timeout);
        self.is_slow = began.elapsed() >= MOMENT;
        response
    }

    fn request(&self, request: &SignRequest, until: Instant) -> io::Result<Option<Vec<u8>>> {
        self.channel.send_until(request, until)?;
        loop {
            match self.channel.receive_until::<SignResponse>(until)? {
                Received::Message(response) if response.number == request.number => {
                    return Ok(response.signature);
                }
                // To an earlier request, which has not waited for it.
                Received::Message(_) => {}
                Received::End => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }
}

impl RemoteKey {
    /// The signer's key with this number.
    fn remote(number: usize, public: PublicKey, signatures: &Arc<Signatures>) -> Arc<dyn SigningKey> {
        Arc::new(RemoteKey { number: number as u32, public, signatures: signatures.clone() })
    }
}

impl SigningKey for RemoteKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *self.public.schemes.iter().find(|scheme| offered.contains(scheme))?;
        Some(Box::new(RemoteSigner { key: self.number, scheme, signatures: self.signatures.clone() }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        // The signer may have none.
        (!self.public.info.is_empty()).then(|| self.public.info.as_slice().into())
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.public.algorithm
    }
}

impl Signer for RemoteSigner {
    /// Errors: the handshake fails with this text.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = |why: String| Error::General(format!("the process that signs {why}"));
        let response = match IS_PATIENT.get() {
            true => self.signatures.sign(self.key, self.scheme, message),
            false => self.signatures.sign_at_once(self.key, self.scheme, message),
        };
        UNANSWERED.set(!IS_PATIENT.get() && is_late(&response));
        match response {
            Ok(Some(signature)) => Ok(signature),
            Ok(None) => Err(failed("has refused the handshake".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(failed("does not respond".to_owned()))
            }
            Err(error) => Err(failed(format!("cannot be reached: {error}"))),
        }
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

impl fmt::Debug for RemoteKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RemoteKey({})", self.number)
    }
}

impl fmt::Debug for RemoteSigner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RemoteSigner({}, {:?})", self.key, self.scheme)
    }
}

#[cfg(test)]
mod tests;
