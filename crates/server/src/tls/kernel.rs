//! TLS of the kernel (kTLS): which ciphers it has, and how a socket gets the keys of a session. From then on, what is
//! read from the socket and sent to it is plaintext.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::socket::sockopt::{TcpTlsRx, TcpTlsTx, TcpUlp, TlsCryptoInfo};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, TlsGetRecordType, recvmsg, setsockopt};
use rustix::io::Errno;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::{CipherSuite, ConnectionTrafficSecrets, ExtractedSecrets};
use zeroize::Zeroize;

use crate::sys;

/// Types of records (RFC 8446 §5.1).
const ALERT: u8 = 21;
/// Alerts (RFC 8446 §6).
const CLOSE_NOTIFY: u8 = 0;
const USER_CANCELED: u8 = 90;
/// The level that is sent with `CLOSE_NOTIFY`.
const WARNING: u8 = 1;
/// A message of a handshake (RFC 8446 §4).
const KEY_UPDATE: u8 = 24;

/// The ciphers of TLS 1.3 that the kernel has.
#[derive(Debug, Clone, Default)]
pub struct KernelCiphers(Vec<CipherSuite>);

/// What a record that is no content means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// The client sends no more.
    CloseNotify,
    /// It has no meaning.
    Ignored,
    /// The session ends, for this reason.
    Fatal(&'static str),
}

impl KernelCiphers {
    /// Tries each cipher with a connection of its own. With the rights of root, the kernel loads its module for it.
    /// Errors: what to do.
    pub fn probe() -> Result<KernelCiphers, String> {
        let first = CipherSuite::TLS13_AES_128_GCM_SHA256;
        probe(first).map_err(|error| {
            format!(
                "the kernel does not encrypt TLS ({error}), so this program does, as without `kernel`; load the kernel's \
                 module tls, use a kernel with CONFIG_TLS, or remove kernel = true in [tls]"
            )
        })?;
        let others = [CipherSuite::TLS13_AES_256_GCM_SHA384, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256];
        let others = others.into_iter().filter(|suite| probe(*suite).is_ok());
        Ok(KernelCiphers([first].into_iter().chain(others).collect()))
    }

    pub fn has(&self, suite: CipherSuite) -> bool {
        self.0.contains(&suite)
    }
}

fn probe(suite: CipherSuite) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let socket = TcpStream::connect(listener.local_addr()?)?;
    attach(socket.as_fd())?;
    let secrets = || {
        let (key, iv) = (AeadKey::from([0; 32]), Iv::from([0; 12]));
        match suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => ConnectionTrafficSecrets::Aes128Gcm { key, iv },
            CipherSuite::TLS13_AES_256_GCM_SHA384 => ConnectionTrafficSecrets::Aes256Gcm { key, iv },
            _ => ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
        }
    };
    set_keys(socket.as_fd(), &ExtractedSecrets { tx: (0, secrets()), rx: (0, secrets()) })
}

/// Prepares an established connection. It works as before until it has keys.
pub fn attach(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(setsockopt(&socket, TcpUlp::default(), b"tls")?)
}

/// Gives the keys of a session of TLS 1.3 to an attached socket. After an error, the session cannot continue.
pub fn set_keys(socket: BorrowedFd<'_>, secrets: &ExtractedSecrets) -> io::Result<()> {
    let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
    for (direction, (sequence, secrets)) in
        [(Direction::Send, &secrets.tx), (Direction::Receive, &secrets.rx)]
    {
        let mut info = crypto_info(*sequence, secrets).ok_or_else(unsupported)?;
        let set = match direction {
            Direction::Send => setsockopt(&socket, TcpTlsTx, &info),
            Direction::Receive => setsockopt(&socket, TcpTlsRx, &info),
        };
        wipe(&mut info);
        set?;
    }
    Ok(())
}

enum Direction {
    Send,
    Receive,
}

/// As `linux/tls.h` has it. The nonce of TLS 1.3 (RFC 8446 §5.3) is salt and iv, one behind the other. `sequence`: of
/// the next record.
fn crypto_info(sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<TlsCryptoInfo> {
    let rec_seq = sequence.to_be_bytes();
    let info = |cipher_type| libc::tls_crypto_info { version: libc::TLS_1_3_VERSION, cipher_type };
    Some(match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => {
            let (salt, iv) = split(iv)?;
            let info = info(libc::TLS_CIPHER_AES_GCM_128);
            let key = first(key)?;
            TlsCryptoInfo::Aes128Gcm(libc::tls12_crypto_info_aes_gcm_128 { info, iv, key, salt, rec_seq })
        }
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => {
            let (salt, iv) = split(iv)?;
            let info = info(libc::TLS_CIPHER_AES_GCM_256);
            let key = first(key)?;
            TlsCryptoInfo::Aes256Gcm(libc::tls12_crypto_info_aes_gcm_256 { info, iv, key, salt, rec_seq })
        }
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            let info = info(libc::TLS_CIPHER_CHACHA20_POLY1305);
            let (iv, key, salt) = (iv.as_ref().try_into().ok()?, first(key)?, []);
            TlsCryptoInfo::Chacha20Poly1305(libc::tls12_crypto_info_chacha20_poly1305 {
                info,
                iv,
                key,
                salt,
                rec_seq,
            })
        }
        _ => return None,
    })
}

fn split(iv: &Iv) -> Option<([u8; 4], [u8; 8])> {
    let (salt, iv) = iv.as_ref().split_first_chunk()?;
    Some((*salt, iv.try_into().ok()?))
}

fn first<const N: usize>(key: &AeadKey) -> Option<[u8; N]> {
    key.as_ref().first_chunk().copied()
}

fn wipe(info: &mut TlsCryptoInfo) {
    match info {
        TlsCryptoInfo::Aes128Gcm(info) => info.key.zeroize(),
        TlsCryptoInfo::Aes256Gcm(info) => info.key.zeroize(),
        TlsCryptoInfo::Chacha20Poly1305(info) => info.key.zeroize(),
    }
}

/// Receives the record for which the kernel has refused to receive content, with EIO.
pub fn receive_control(socket: BorrowedFd<'_>) -> Result<Control, Errno> {
    let mut content = [0; 256];
    let mut beside = nix::cmsg_space!(u8);
    let (bytes, kind) = {
        let mut parts = [IoSliceMut::new(&mut content)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let message =
            recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut beside), flags).map_err(errno)?;
        let kind = message.cmsgs().map_err(errno)?.find_map(|beside| match beside {
            ControlMessageOwned::TlsGetRecordType(kind) => Some(kind),
            _ => None,
        });
        (message.bytes, kind)
    };
    Ok(meaning(kind, &content[..bytes]))
}

/// Of a record after the handshake.
fn meaning(kind: Option<TlsGetRecordType>, content: &[u8]) -> Control {
    match (kind, content) {
        (Some(TlsGetRecordType::Alert), [_, CLOSE_NOTIFY]) => Control::CloseNotify,
        (Some(TlsGetRecordType::Alert), [_, USER_CANCELED]) => Control::Ignored,
        (Some(TlsGetRecordType::Alert), _) => Control::Fatal("the client has ended it with an alert"),
        (Some(TlsGetRecordType::Handshake), [KEY_UPDATE, ..]) => {
            Control::Fatal("the client changes its keys, which the kernel cannot; see `kernel` in [tls]")
        }
        _ => Control::Fatal("the client has sent a record of another type than content"),
    }
}

fn errno(error: nix::Error) -> Errno {
    Errno::from_raw_os_error(error as i32)
}

/// Sends that no more follows (RFC 8446 §6.1).
pub fn send_close_notify(socket: BorrowedFd<'_>) -> io::Result<()> {
    sys::send_tls_record(socket, ALERT, &[WARNING, CLOSE_NOTIFY])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key and an iv whose bytes all differ.
    fn key() -> AeadKey {
        AeadKey::from(std::array::from_fn::<u8, 32, _>(|at| at as u8))
    }

    fn iv() -> Iv {
        Iv::from(std::array::from_fn::<u8, 12, _>(|at| 100 + at as u8))
    }

    #[test]
    fn splits_nonces_as_the_kernel_joins_them() {
        let sequence = 0x0102_0304_0506_0708;
        let secrets = ConnectionTrafficSecrets::Aes128Gcm { key: key(), iv: iv() };
        let Some(TlsCryptoInfo::Aes128Gcm(info)) = crypto_info(sequence, &secrets) else {
            panic!("no AES-128")
        };
        assert_eq!((info.info.version, info.info.cipher_type), (0x0304, 51));
        assert_eq!(info.key, std::array::from_fn(|at| at as u8));
        assert_eq!((info.salt, info.iv), ([100, 101, 102, 103], [104, 105, 106, 107, 108, 109, 110, 111]));
        assert_eq!(info.rec_seq, [1, 2, 3, 4, 5, 6, 7, 8]);

        let secrets = ConnectionTrafficSecrets::Aes256Gcm { key: key(), iv: iv() };
        let Some(TlsCryptoInfo::Aes256Gcm(info)) = crypto_info(sequence, &secrets) else {
            panic!("no AES-256")
        };
        assert_eq!((info.info.version, info.info.cipher_type), (0x0304, 52));
        assert_eq!(info.key, std::array::from_fn(|at| at as u8));
        assert_eq!((info.salt, info.iv), ([100, 101, 102, 103], [104, 105, 106, 107, 108, 109, 110, 111]));

        let secrets = ConnectionTrafficSecrets::Chacha20Poly1305 { key: key(), iv: iv() };
        let Some(TlsCryptoInfo::Chacha20Poly1305(mut info)) = crypto_info(sequence, &secrets) else {
            panic!("no ChaCha20")
        };
        assert_eq!((info.info.version, info.info.cipher_type), (0x0304, 54));
        assert_eq!(info.iv, std::array::from_fn(|at| 100 + at as u8));
        let mut wiped = TlsCryptoInfo::Chacha20Poly1305(info);
        wipe(&mut wiped);
        let TlsCryptoInfo::Chacha20Poly1305(wiped) = wiped else { panic!("it is another") };
        info.key = [0; 32];
        assert_eq!(wiped.key, info.key);
    }

    #[test]
    fn knows_what_a_record_means() {
        use Control::*;
        use TlsGetRecordType::*;
        for (kind, content, ends) in [
            (Some(Alert), &[1, 0][..], false),
            (Some(Alert), &[1, 90], false),
            (Some(Alert), &[2, 20], true),
            (Some(Alert), &[], true),
            (Some(Handshake), &[24, 0, 0, 1, 0], true),
            (Some(Handshake), &[4, 0, 0, 0], true),
            (Some(ChangeCipherSpec), &[1], true),
            (Some(ApplicationData), b"content", true),
            (None, b"", true),
        ] {
            assert_eq!(matches!(meaning(kind, content), Fatal(_)), ends, "{kind:?} {content:?}");
        }
        assert_eq!(meaning(Some(Alert), &[1, 0]), CloseNotify);
        assert_eq!(meaning(Some(Alert), &[2, 0]), CloseNotify);
    }

    /// On a kernel without TLS, the sentence says what to do. On one that has it, a socket takes the keys of each
    /// cipher.
    #[test]
    fn asks_the_kernel() {
        match KernelCiphers::probe() {
            Ok(ciphers) => assert!(ciphers.has(CipherSuite::TLS13_AES_128_GCM_SHA256)),
            Err(line) => {
                assert!(line.starts_with("the kernel does not encrypt TLS ("), "{line}");
                assert!(line.ends_with("or remove kernel = true in [tls]"), "{line}");
            }
        }
    }
}
