//! The messages between a worker and the process that looks up names. Both run the same program, so that messages have
//! no version.

use std::net::IpAddr;
use std::time::Duration;

use crate::process::ipc::{Decoder, Encoder, Message};

/// Bytes of a name (RFC 1035 §2.3.4).
const MAX_NAME: usize = 255;

/// From a worker, which wants the name of this address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameQuestion(pub IpAddr);

/// To a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameEvent {
    pub address: IpAddr,
    /// `None`: it has none.
    pub name: Option<String>,
    /// For how long. In whole seconds.
    pub ttl: Duration,
}

impl Message<'_> for NameQuestion {
    const MAX_BYTES: usize = 64;

    fn encode(&self) -> Encoder<'_> {
        Encoder::new(b'Q').bytes(self.0.to_string().as_bytes())
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<NameQuestion> {
        let text = std::str::from_utf8(fields.rest()).ok().filter(|_| kind == b'Q')?;
        Some(NameQuestion(text.parse().ok()?))
    }
}

impl Message<'_> for NameEvent {
    const MAX_BYTES: usize = 384;

    fn encode(&self) -> Encoder<'_> {
        let seconds = u32::try_from(self.ttl.as_secs()).unwrap_or(u32::MAX);
        let name = self.name.as_deref().filter(|name| name.len() <= MAX_NAME).unwrap_or_default();
        Encoder::new(b'N').u32(seconds).bytes(format!("{} {name}", self.address).as_bytes())
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<NameEvent> {
        let seconds = fields.u32().filter(|_| kind == b'N')?;
        let (address, name) = std::str::from_utf8(fields.rest()).ok()?.split_once(' ')?;
        if name.len() > MAX_NAME {
            return None;
        }
        Some(NameEvent {
            address: address.parse().ok()?,
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            ttl: Duration::from_secs(seconds.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ipc::tests::check_codec;

    #[test]
    fn messages_are_received_as_they_were_sent() {
        let addresses: [IpAddr; 2] = [[192, 0, 2, 1].into(), [0xffff; 8].into()];
        check_codec(addresses.map(NameQuestion));
        let names = [None, Some("a.example".to_owned()), Some("a".repeat(MAX_NAME))];
        check_codec(names.map(|name| NameEvent { address: addresses[1], name, ttl: Duration::from_secs(7) }));
    }
}
