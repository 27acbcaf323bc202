//! A worker and a signer, over a real channel.

use std::thread::{self, JoinHandle};

use rustls::pki_types::PrivateKeyDer;

use super::process::{public, serve};
use super::*;
use crate::tls::SigningKeys;
use crate::tls::crypto::rand::SystemRandom;
use crate::tls::crypto::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair,
    UnparsedPublicKey, VerificationAlgorithm,
};
use crate::tls::crypto::signing_key;

/// One of ECDSA, and one of Ed25519.
fn keys() -> SigningKeys {
    let random = SystemRandom::new();
    let ecdsa = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).expect("a key");
    let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
    let key = |pkcs8: &[u8]| {
        let key = PrivateKeyDer::try_from(pkcs8).expect("it is PKCS #8");
        signing_key(&key).expect("it is supported")
    };
    vec![key(ecdsa.as_ref()), key(ed25519.as_ref())]
}

/// The worker's end of keys, and a signer on a thread.
fn started() -> (Vec<RemoteKey>, SigningKeys, JoinHandle<()>) {
    let (ours, theirs) = Channel::pair().expect("a pair can be made");
    let (keys, signatures) = (keys(), Signatures::new(vec![ours]));
    let remote = |(number, key): (usize, &Arc<dyn SigningKey>)| RemoteKey {
        number: number as u32,
        public: public(&**key),
        signatures: signatures.clone(),
    };
    let remote = keys.iter().enumerate().map(remote).collect();
    let signing = keys.clone();
    (remote, keys, thread::spawn(move || serve(&theirs, &signing)))
}

fn handshake() -> Vec<u8> {
    [&[b' '; 64], &b"TLS 1.3, server CertificateVerify\0"[..], &[1; 32]].concat()
}

/// The bytes of the public key itself, at the end of its SubjectPublicKeyInfo.
fn raw(key: &RemoteKey, length: usize) -> Vec<u8> {
    let info = key.public_key().expect("it has one");
    info[info.len() - length..].to_vec()
}

/// What the signer responds, however late its thread gets a processor.
fn response<T, E: fmt::Display>(sign: impl Fn() -> Result<T, E>) -> Result<T, E> {
    const TRIES: usize = 10_000;
    let is_late = |response: &Result<T, E>| {
        let text = response.as_ref().err().map(ToString::to_string).unwrap_or_default();
        text.contains("timed out") || text.contains("does not respond")
    };
    (0..TRIES).map(|_| sign()).find(|response| !is_late(response)).expect("the signer responds")
}

#[test]
fn signs_with_the_key_that_is_asked_for() {
    let (remote, keys, signer) = started();
    let offered = [SignatureScheme::ED25519, SignatureScheme::ECDSA_NISTP256_SHA256];
    let algorithms: [&'static dyn VerificationAlgorithm; 2] = [&ECDSA_P256_SHA256_ASN1, &ED25519];
    for (at, length) in [(0, 65), (1, 32)] {
        assert_eq!(remote[at].algorithm(), keys[at].algorithm());
        assert_eq!(remote[at].public_key(), keys[at].public_key());
        let scheme = remote[at].choose_scheme(&offered).expect("it has one of them");
        assert_eq!(scheme.scheme(), offered[1 - at]);
        let signature = response(|| with_patience(|| scheme.sign(&handshake()))).expect("it is signed");
        let public = UnparsedPublicKey::new(algorithms[at], raw(&remote[at], length));
        public.verify(&handshake(), &signature).expect("the signature is of the handshake");
    }
    assert!(remote[0].choose_scheme(&[SignatureScheme::RSA_PSS_SHA256]).is_none());
    drop(remote);
    signer.join().expect("the signer ends with its worker");
}

#[test]
fn refuses_what_no_handshake_needs() {
    let (remote, _, _signer) = started();
    let signatures = &remote[0].signatures;
    let ecdsa = SignatureScheme::ECDSA_NISTP256_SHA256;
    for (key, scheme, message) in [
        (0, ecdsa, b"a request for a certificate".to_vec()),
        (0, ecdsa, Vec::new()),
        (0, ecdsa, vec![b' '; statement::LONGEST]),
        (0, SignatureScheme::ED25519, handshake()),
        (0, SignatureScheme::ECDSA_SHA1_Legacy, handshake()),
        (2, ecdsa, handshake()),
        (u32::MAX, ecdsa, handshake()),
    ] {
        let signed = response(|| signatures.sign(key, scheme, &message));
        assert!(matches!(signed, Ok(None)), "{key} {scheme:?}: {signed:?}");
    }
    let too_long = signatures.sign(0, ecdsa, &vec![b' '; 64 * 1024]);
    assert_eq!(too_long.map_err(|error| error.kind()), Err(io::ErrorKind::InvalidInput));
    assert!(matches!(response(|| signatures.sign(0, ecdsa, &handshake())), Ok(Some(_))), "it goes on");
}

/// The master keeps the other end open, so that the next signer receives what the last one has not.
#[test]
fn waits_for_another_signer_and_then_for_a_moment_only() {
    let (ours, theirs) = Channel::pair().expect("a pair can be made");
    let signatures = Signatures::new(vec![ours]);
    let sign = || signatures.sign(0, SignatureScheme::ECDSA_NISTP256_SHA256, &handshake());
    let timed = || {
        let began = Instant::now();
        let error = sign().expect_err("there is no signer").kind();
        (error, began.elapsed())
    };
    let (error, waited) = timed();
    assert_eq!(error, io::ErrorKind::TimedOut);
    assert!(waited >= TIMEOUT, "{waited:?}");
    let (error, waited) = timed();
    assert_eq!(error, io::ErrorKind::TimedOut);
    assert!(waited < TIMEOUT / 2, "{waited:?}");
    // It signs the two before, which do not wait any more.
    let keys = keys();
    let signer = thread::spawn(move || serve(&theirs, &keys));
    let signed = (0..500).find(|_| matches!(sign(), Ok(Some(_))));
    assert!(signed.is_some());
    drop(signatures);
    signer.join().expect("the signer ends with its worker");
}

#[test]
fn a_loop_waits_for_a_moment_and_then_not_at_all_until_the_signer_is_fast_again() {
    let (ours, theirs) = Channel::pair().expect("a pair can be made");
    let signatures = Signatures::new(vec![ours]);
    let sign = || signatures.sign_at_once(0, SignatureScheme::ECDSA_NISTP256_SHA256, &handshake());
    let began = Instant::now();
    assert_eq!(sign().expect_err("there is no signer").kind(), io::ErrorKind::TimedOut);
    assert!(began.elapsed() >= MOMENT);
    assert!(matches!(theirs.receive::<SignRequest>(), Ok(Received::Message(_))));
    assert_eq!(sign().expect_err("there is no signer").kind(), io::ErrorKind::TimedOut);
    assert!(theirs.receive::<SignRequest>().is_err(), "it is not asked");
    let keys = keys();
    let signer = thread::spawn(move || serve(&theirs, &keys));
    let patiently = || signatures.sign(0, SignatureScheme::ECDSA_NISTP256_SHA256, &handshake());
    let signed = (0..500).find(|_| matches!(patiently(), Ok(Some(_))) && matches!(sign(), Ok(Some(_))));
    assert!(signed.is_some());
    drop(signatures);
    signer.join().expect("the signer ends with its worker");
}

#[test]
fn a_signer_that_has_ended_is_an_error_at_once() {
    let (ours, _) = Channel::pair().expect("a pair can be made");
    let signatures = Signatures::new(vec![ours]);
    let signed = signatures.sign(0, SignatureScheme::ED25519, &handshake());
    assert_eq!(signed.map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
}
