//! Messages between a worker and its signer, and from a signer to the master. All are the same program, so there is no
//! version.

use rustls::{SignatureAlgorithm, SignatureScheme};

use super::statement;
use crate::process::ipc::{Decoder, Encoder, Message};

/// From a worker to its signer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignRequest {
    /// The response has the same.
    pub number: u32,
    pub key: u32,
    pub scheme: SignatureScheme,
    pub message: Vec<u8>,
}

/// From a signer to its worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignResponse {
    pub number: u32,
    /// `None`: the request was refused, or signing has failed.
    pub signature: Option<Vec<u8>>,
}

/// From a signer to the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignerEvent {
    /// One for each key, in their order.
    Key(PublicKey),
    /// It signs.
    Ready,
    /// It has no keys: lines that say why.
    Failed(Vec<String>),
}

/// What is public of a private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    pub algorithm: SignatureAlgorithm,
    /// In order of preference.
    pub schemes: Vec<SignatureScheme>,
    /// A SubjectPublicKeyInfo (RFC 5280 §4.1.2.7) in DER.
    pub info: Vec<u8>,
}

impl Message<'_> for SignRequest {
    const MAX_BYTES: usize = 16 + statement::LONGEST;

    fn encode(&self) -> Encoder<'_> {
        let scheme = u32::from(u16::from(self.scheme));
        Encoder::new(b'S').u32(self.number).u32(self.key).u32(scheme).bytes(&self.message)
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<SignRequest> {
        (kind == b'S').then_some(())?;
        let (number, key) = (fields.u32()?, fields.u32()?);
        let scheme = u16::try_from(fields.u32()?).ok()?.into();
        Some(SignRequest { number, key, scheme, message: fields.rest().to_vec() })
    }
}

impl Message<'_> for SignResponse {
    /// Space for a signature of RSA with 16384 bits.
    const MAX_BYTES: usize = 16 + 2048;

    fn encode(&self) -> Encoder<'_> {
        match &self.signature {
            Some(signature) => Encoder::new(b'S').u32(self.number).bytes(signature),
            None => Encoder::new(b'F').u32(self.number),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<SignResponse> {
        let number = fields.u32()?;
        let signature = match kind {
            b'S' => Some(fields.rest().to_vec()),
            b'F' => None,
            _ => return None,
        };
        Some(SignResponse { number, signature })
    }
}

impl Message<'_> for SignerEvent {
    const MAX_BYTES: usize = 32 * 1024;

    fn encode(&self) -> Encoder<'_> {
        match self {
            SignerEvent::Key(key) => {
                let head =
                    Encoder::new(b'K').u32(u32::from(u8::from(key.algorithm))).u32(key.schemes.len() as u32);
                let schemes = key.schemes.iter().map(|scheme| u32::from(u16::from(*scheme)));
                schemes.fold(head, Encoder::u32).bytes(&key.info)
            }
            SignerEvent::Ready => Encoder::new(b'R'),
            SignerEvent::Failed(lines) => {
                let text = lines.join("\n").into_bytes();
                Encoder::new(b'F').bytes(&text[..text.len().min(Self::MAX_BYTES - 1)])
            }
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<SignerEvent> {
        Some(match kind {
            b'K' => {
                let algorithm = u8::try_from(fields.u32()?).ok()?.into();
                let count = fields.u32()?;
                let scheme = |_| Some(u16::try_from(fields.u32()?).ok()?.into());
                let schemes = (0..count).map(scheme).collect::<Option<_>>()?;
                SignerEvent::Key(PublicKey { algorithm, schemes, info: fields.rest().to_vec() })
            }
            b'R' => SignerEvent::Ready,
            b'F' => {
                let text = String::from_utf8_lossy(fields.rest());
                SignerEvent::Failed(text.split('\n').map(str::to_owned).collect())
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ipc::tests::check_codec;

    #[test]
    fn messages_are_received_as_they_were_sent() {
        let scheme = SignatureScheme::ECDSA_NISTP256_SHA256;
        check_codec([
            SignRequest { number: 0, key: 0, scheme, message: Vec::new() },
            SignRequest { number: u32::MAX, key: 7, scheme, message: vec![1; statement::LONGEST] },
        ]);
        check_codec([
            SignResponse { number: 1, signature: Some(vec![5; 2048]) },
            SignResponse { number: 2, signature: None },
        ]);
        let key = |schemes: &[SignatureScheme]| {
            let algorithm = SignatureAlgorithm::ECDSA;
            SignerEvent::Key(PublicKey { algorithm, schemes: schemes.to_vec(), info: vec![3; 91] })
        };
        check_codec([
            key(&[]),
            key(&[scheme, SignatureScheme::ED25519]),
            SignerEvent::Ready,
            SignerEvent::Failed(vec!["one".to_owned(), "two".to_owned()]),
        ]);
    }
}
