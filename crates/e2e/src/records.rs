//! Records of TLS, byte by byte: a client that sends what no proper client sends.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::{ClientConnection, ConnectionTrafficSecrets};

use crate::tls::Tls;
use crate::{TIMEOUT, shown};

/// Types of records (RFC 8446 §5.1).
pub const CHANGE_CIPHER_SPEC: u8 = 20;
pub const ALERT: u8 = 21;
pub const HANDSHAKE: u8 = 22;
pub const DATA: u8 = 23;

/// The most content of a record (§5.1).
pub const MAX_CONTENT: usize = 16 * 1024;
const HEADER: usize = 5;

/// A connection that carries records.
pub struct Raw {
    pub socket: TcpStream,
    input: Vec<u8>,
}

/// What comes next on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    Record {
        kind: u8,
        content: Vec<u8>,
    },
    /// The server has closed, with or without a reset.
    Closed,
    Silent,
}

impl Raw {
    pub fn connect(address: SocketAddr) -> Raw {
        let socket = TcpStream::connect(address).expect("it listens");
        socket.set_nodelay(true).expect("it is a TCP socket");
        socket.set_read_timeout(Some(TIMEOUT)).expect("it is a time");
        socket.set_write_timeout(Some(TIMEOUT)).expect("it is a time");
        Raw { socket, input: Vec::new() }
    }

    /// Sends all that the server takes.
    pub fn send(&mut self, bytes: &[u8]) {
        // A server that has rejected the beginning need not read the rest.
        _ = self.socket.write_all(bytes);
    }

    /// The next record.
    pub fn read(&mut self) -> Incoming {
        loop {
            if let Some((record, length)) = first_record(&self.input) {
                self.input.drain(..length);
                return record;
            }
            let mut space = [0; 4096];
            match self.socket.read(&mut space) {
                Ok(0) => return Incoming::Closed,
                Ok(count) => self.input.extend_from_slice(&space[..count]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Incoming::Silent;
                }
                Err(_) => return Incoming::Closed,
            }
        }
    }

    /// How the server responds to what was sent: `ServerHello`, `alert 70`, `closed`, `silent`, or else the record.
    pub fn outcome(&mut self) -> String {
        match self.read() {
            Incoming::Record { kind: ALERT, content } if content.len() == 2 => {
                format!("alert {}", content[1])
            }
            Incoming::Record { kind: HANDSHAKE, content } if content.first() == Some(&2) => {
                "ServerHello".to_owned()
            }
            Incoming::Record { kind, content } => format!("record {kind}: {}", shown(content)),
            Incoming::Closed => "closed".to_owned(),
            Incoming::Silent => "silent".to_owned(),
        }
    }

    /// Handshakes. What the client sends at once goes through `change`.
    pub fn handshake(
        &mut self,
        tls: &Tls,
        mut change: impl FnMut(Vec<u8>) -> Vec<u8>,
    ) -> Result<ClientConnection, String> {
        let mut connection = tls.connection();
        while connection.is_handshaking() {
            let bytes = change(outgoing(&mut connection));
            self.send(&bytes);
            if connection.is_handshaking() {
                self.feed(&mut connection)?;
            }
        }
        let bytes = change(outgoing(&mut connection));
        self.send(&bytes);
        Ok(connection)
    }

    /// Handshakes with TLS 1.3, and takes the keys.
    pub fn keys(&mut self, tls: &Tls) -> Keys {
        let connection = self.handshake(tls, |bytes| bytes).expect("the server accepts it");
        let secrets = connection.dangerous_extract_secrets().expect("the settings allow it");
        Keys { sealing: Traffic::of(secrets.tx), opening: Traffic::of(secrets.rx) }
    }

    /// The next content under these keys. Tickets are skipped.
    pub fn read_sealed(&mut self, keys: &mut Keys) -> Incoming {
        loop {
            match self.read() {
                Incoming::Record { kind: DATA, content } => match keys.opening.open(content) {
                    (HANDSHAKE, _) => {}
                    (kind, content) => return Incoming::Record { kind, content },
                },
                other => return other,
            }
        }
    }

    /// As `outcome`, under these keys.
    pub fn sealed_outcome(&mut self, keys: &mut Keys) -> String {
        match self.read_sealed(keys) {
            Incoming::Record { kind: ALERT, content } if content.len() == 2 => {
                format!("alert {}", content[1])
            }
            Incoming::Record { kind: DATA, content } => {
                let line = content.split(|byte| *byte == b'\r').next().unwrap_or_default();
                String::from_utf8_lossy(line).into_owned()
            }
            Incoming::Record { kind, content } => format!("record {kind}: {}", shown(content)),
            Incoming::Closed => "closed".to_owned(),
            Incoming::Silent => "silent".to_owned(),
        }
    }

    /// Gives the next record to the client. Errors: why there is none, or what the client makes of it.
    pub fn feed(&mut self, connection: &mut ClientConnection) -> Result<(), String> {
        let record = match self.read() {
            Incoming::Record { kind, content } => record(kind, &content),
            other => return Err(format!("{other:?}")),
        };
        connection.read_tls(&mut &record[..]).map_err(|e| e.to_string())?;
        connection.process_new_packets().map_err(|e| e.to_string())?;
        Ok(())
    }
}

/// The keys of both directions.
pub struct Keys {
    pub sealing: Traffic,
    opening: Traffic,
}

/// The keys of one direction, in TLS 1.3.
pub struct Traffic {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Traffic {
    fn of((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Traffic {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => panic!("another algorithm"),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).expect("the length is that of the algorithm");
        let iv = iv.as_ref().try_into().expect("twelve bytes");
        Traffic { key: LessSafeKey::new(key), iv, sequence }
    }

    /// A record with this content, and with so many zeros behind it (§5.2 and §5.4).
    pub fn seal(&mut self, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        let mut inner = [content, &[kind], &vec![0; padding][..]].concat();
        let header = header(DATA, inner.len() + self.key.algorithm().tag_len());
        let nonce = self.nonce();
        let sealed = self.key.seal_in_place_append_tag(nonce, Aad::from(header), &mut inner);
        sealed.expect("it is short enough");
        [&header[..], &inner].concat()
    }

    /// Type and content of a record.
    fn open(&mut self, mut sealed: Vec<u8>) -> (u8, Vec<u8>) {
        let header = header(DATA, sealed.len());
        let nonce = self.nonce();
        let inner = self.key.open_in_place(nonce, Aad::from(header), &mut sealed).expect("it is authentic");
        let end = inner.iter().rposition(|byte| *byte != 0).expect("it has a type");
        (inner[end], inner[..end].to_vec())
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// All that the client has to send now.
pub fn outgoing(connection: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes).expect("a Vec takes all");
    }
    bytes
}

/// A record that is not encrypted.
pub fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    [&header(kind, content.len())[..], content].concat()
}

fn header(kind: u8, length: usize) -> [u8; HEADER] {
    let [high, low] = u16::try_from(length).expect("a record is shorter").to_be_bytes();
    [kind, 3, 3, high, low]
}

/// The first record, and its length with the header.
fn first_record(bytes: &[u8]) -> Option<(Incoming, usize)> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    let content = rest.get(..length)?.to_vec();
    Some((Incoming::Record { kind: header[0], content }, HEADER + length))
}

/// The same records, with the content of those that are not encrypted in pieces of this size: in TLS 1.2, those before
/// the change of the cipher.
pub fn fragmented(bytes: Vec<u8>, size: usize) -> Vec<u8> {
    let mut rest = &bytes[..];
    let mut out = Vec::new();
    let mut is_encrypted = false;
    while let Some((Incoming::Record { kind, content }, length)) = first_record(rest) {
        is_encrypted |= kind == CHANGE_CIPHER_SPEC;
        match kind {
            HANDSHAKE if !is_encrypted => {
                out.extend(content.chunks(size).flat_map(|piece| record(kind, piece)))
            }
            _ => out.extend_from_slice(&rest[..length]),
        }
        rest = &rest[length..];
    }
    assert!(rest.is_empty(), "a client sends whole records");
    out
}

/// A ClientHello in one record (RFC 5246 §7.4.1.2), with the extensions that servers need.
pub fn client_hello(version: [u8; 2], suites: &[u16], compressions: &[u8]) -> Vec<u8> {
    let extension = |kind: u16, content: &[u8]| [&kind.to_be_bytes()[..], &sized16(content)].concat();
    let host = [&[0][..], &sized16(b"localhost")].concat();
    // Signatures: ECDSA with P-256, and RSA-PSS. Clients of older versions do not send them (RFC 5246 §7.4.1.4.1).
    let signatures = match version >= [3, 3] {
        true => extension(13, &sized16(&[4, 3, 8, 4, 4, 1])),
        false => Vec::new(),
    };
    let extensions = [
        extension(0, &sized16(&host)),
        // Groups: X25519 and P-256. Points: uncompressed.
        extension(10, &sized16(&[0, 29, 0, 23])),
        extension(11, &[1, 0]),
        signatures,
        // RFC 5746: no renegotiation so far.
        extension(0xff01, &[0]),
    ];
    let suites: Vec<u8> = suites.iter().flat_map(|suite| suite.to_be_bytes()).collect();
    let body = [
        &version[..],
        &[7; 32],
        &[0],
        &sized16(&suites),
        &[compressions.len() as u8],
        compressions,
        &sized16(&extensions.concat()),
    ]
    .concat();
    let [_, a, b, c] = (body.len() as u32).to_be_bytes();
    let mut hello = record(HANDSHAKE, &[&[1, a, b, c][..], &body].concat());
    // The version of the first record is an older one (RFC 8446 §5.1).
    hello[2] = version[1].min(1);
    hello
}

fn sized16(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u16).to_be_bytes()[..], content].concat()
}
