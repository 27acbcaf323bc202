//! The signer as a process: it reads the keys with the rights of the master, gives up everything but its channels, and
//! signs, with a thread for each channel.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;
use rustls::SignatureScheme;
use rustls::sign::SigningKey;
use site::model::Sandbox;

use super::message::{PublicKey, SignRequest, SignResponse, SignerEvent};
use super::statement;
use crate::process::child;
use crate::process::ipc::{Channel, Received};
use crate::process::privilege::Identity;
use crate::process::sandbox;
use crate::process::supervisor::what_to_do;
use crate::tls::SigningKeys;

/// Bytes of a thread's stack. RSA needs the most.
const STACK: usize = 128 * 1024;
/// How long the master may take to receive an event.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a thread waits at once. Nothing happens when the time is over.
const WAIT: Duration = Duration::from_secs(3600);
const FAILED: u8 = 1;

/// Every scheme that a key can have, those that the server prefers first.
const SCHEMES: [SignatureScheme; 10] = [
    SignatureScheme::ED25519,
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

pub struct SignerSetup {
    pub master: Channel,
    /// One to each worker.
    pub workers: Vec<Channel>,
    /// `None`: it keeps the account of the master.
    pub identity: Option<Identity>,
    pub sandbox: Sandbox,
}

/// Reads the keys and signs until every worker's channel is closed, and returns the exit code. The process must have
/// only one thread.
pub fn run(setup: SignerSetup, read: impl FnOnce() -> Result<SigningKeys, Vec<String>>) -> u8 {
    let SignerSetup { master, workers, identity, sandbox } = setup;
    let begun = read().and_then(|keys| {
        give_up(identity, sandbox).map_err(|line| vec![line])?;
        report(&master, &keys).map_err(|error| vec![format!("cannot report the keys: {error}")])?;
        start(workers, keys)
            .map_err(|error| vec![format!("cannot start a thread: {error}{}", what_to_do(&error))])
    });
    match begun {
        Ok(threads) => {
            drop(master);
            threads.into_iter().for_each(|thread| _ = thread.join());
            0
        }
        Err(lines) => {
            // The master may have ended.
            _ = master.send_until(&SignerEvent::Failed(lines), Instant::now() + TIMEOUT);
            FAILED
        }
    }
}

/// Keeps nothing but open descriptors. Errors: what could not be given up.
fn give_up(identity: Option<Identity>, sandbox: Sandbox) -> Result<(), String> {
    // Other processes of the same user could otherwise read the keys.
    child::detach(identity)?;
    // The workers end this process by leaving it.
    SigSet::all().thread_block().map_err(|errno| format!("cannot block signals: {errno}"))?;
    // The generation reports what is missing on this machine.
    sandbox::keep_only_channels(sandbox).map(drop)
}

fn report(master: &Channel, keys: &SigningKeys) -> io::Result<()> {
    let until = Instant::now() + TIMEOUT;
    for key in keys {
        master.send_until(&SignerEvent::Key(public(&**key)), until)?;
    }
    master.send_until(&SignerEvent::Ready, until)
}

pub(super) fn public(key: &dyn SigningKey) -> PublicKey {
    let has = |scheme: &SignatureScheme| key.choose_scheme(&[*scheme]).is_some();
    PublicKey {
        algorithm: key.algorithm(),
        schemes: SCHEMES.into_iter().filter(has).collect(),
        info: key.public_key().map(|info| info.to_vec()).unwrap_or_default(),
    }
}

fn start(workers: Vec<Channel>, keys: SigningKeys) -> io::Result<Vec<thread::JoinHandle<()>>> {
    let keys: Arc<[_]> = keys.into();
    let start = |(number, channel)| {
        let keys = keys.clone();
        let thread = thread::Builder::new().name(format!("signer {number}")).stack_size(STACK);
        thread.spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| serve(&channel, &keys))).is_err() {
                // The master replaces this process. Otherwise the worker would have no signer.
                std::process::exit(FAILED.into());
            }
        })
    };
    workers.into_iter().enumerate().map(start).collect()
}

/// Signs until the worker closes the channel.
pub(super) fn serve(worker: &Channel, keys: &[Arc<dyn SigningKey>]) {
    loop {
        match worker.receive_until::<SignRequest>(Instant::now() + WAIT) {
            Ok(Received::Message(request)) => {
                let response = SignResponse { number: request.number, signature: sign(keys, &request) };
                // A worker that does not receive does not wait for it any more.
                _ = worker.send(&response);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::InvalidData) => {}
            Ok(Received::End) | Err(_) => return,
        }
    }
}

/// `None`: the key does not exist, cannot sign so, or the message is none of a handshake.
fn sign(keys: &[Arc<dyn SigningKey>], request: &SignRequest) -> Option<Vec<u8>> {
    let version = statement::version(&request.message)?;
    let key = keys.get(usize::try_from(request.key).ok()?).filter(|_| version.has(request.scheme))?;
    key.choose_scheme(&[request.scheme])?.sign(&request.message).ok()
}
