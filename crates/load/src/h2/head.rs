//! Writes the heads of requests, and reads the fields of responses that the load generator needs.

use taipan_h2::hpack::{
    Decoder, FIRST_DYNAMIC, Indexing, TABLE_SIZE, write_field, write_indexed, write_table_size, write_value,
};

use super::NotHttp2;

use crate::plan::request::USER_AGENT;
use crate::plan::{Request, Scheme, Target};

/// The fields of a response that matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// `None` in trailers.
    pub status: Option<u16>,
    pub length: Option<u64>,
    pub server: Option<String>,
    /// Bytes of all names and values.
    pub plain_bytes: u32,
}

/// Writes requests. It puts the fields that are the same in each request into the server's table once.
#[derive(Debug)]
pub enum Encoder {
    Fresh,
    /// The table has User-Agent, and then the authority.
    Filled,
    /// The server wants a small table: the next block empties it, and later ones do not use it.
    Emptied,
    Without,
}

impl Fields {
    /// Reads a whole field block.
    pub fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, NotHttp2> {
        let mut fields = Fields::default();
        decoder.decode(block, |name, value| fields.note(name, value))?;
        Ok(fields)
    }

    fn note(&mut self, name: &[u8], value: &[u8]) -> Result<(), NotHttp2> {
        self.plain_bytes += (name.len() + value.len()) as u32;
        let text = || std::str::from_utf8(value).map_err(|_| NotHttp2);
        match name {
            b":status" if value.len() == 3 => {
                self.status = Some(text()?.parse().ok().filter(|status| *status >= 100).ok_or(NotHttp2)?);
            }
            b":status" => return Err(NotHttp2),
            b"content-length" => {
                let length =
                    value.iter().all(u8::is_ascii_digit).then(|| text()?.parse().map_err(|_| NotHttp2));
                self.length = Some(length.ok_or(NotHttp2)??);
            }
            b"server" => self.server = Some(String::from_utf8_lossy(value).into_owned()),
            _ => {}
        }
        Ok(())
    }
}

impl Encoder {
    /// Appends the head of a request.
    pub fn encode(&mut self, request: &Request, target: &Target, out: &mut Vec<u8>) {
        if let Encoder::Emptied = self {
            write_table_size(out, 0);
            *self = Encoder::Without;
        }
        match request.method.as_str() {
            "GET" => write_indexed(out, 2),
            "POST" => write_indexed(out, 3),
            method => write_value(out, Indexing::Without, 2, method.as_bytes()),
        }
        write_indexed(out, if target.scheme == Scheme::Http { 6 } else { 7 });
        match request.path.as_str() {
            "/" => write_indexed(out, 4),
            path => write_value(out, Indexing::Without, 4, path.as_bytes()),
        }
        let host = own(request, "host");
        let agent = own(request, "user-agent");
        match (&self, host, agent) {
            (Encoder::Filled, None, None) => {
                write_indexed(out, FIRST_DYNAMIC + 1);
                write_indexed(out, FIRST_DYNAMIC);
            }
            (Encoder::Fresh, None, None) => {
                write_value(out, Indexing::Incremental, 1, target.authority.as_bytes());
                write_value(out, Indexing::Incremental, 58, USER_AGENT.as_bytes());
                *self = Encoder::Filled;
            }
            _ => {
                write_value(out, Indexing::Without, 1, host.unwrap_or(&target.authority).as_bytes());
                write_value(out, Indexing::Without, 58, agent.unwrap_or(USER_AGENT).as_bytes());
            }
        }
        if request.sends_length() && !request.has_field("content-length") {
            write_value(out, Indexing::Without, 28, request.body.len().to_string().as_bytes());
        }
        for (name, value) in &request.fields {
            let name = name.to_ascii_lowercase();
            // RFC 9113 §8.2.2: connection-specific fields are not allowed.
            if !matches!(
                name.as_str(),
                "host" | "user-agent" | "connection" | "transfer-encoding" | "keep-alive"
            ) {
                write_field(out, Indexing::Without, name.as_bytes(), value.as_bytes());
            }
        }
    }

    /// The server's SETTINGS_HEADER_TABLE_SIZE, in bytes.
    pub fn limit(&mut self, size: u32) {
        if (size as usize) < TABLE_SIZE {
            *self = Encoder::Emptied;
        }
    }
}

fn own<'a>(request: &'a Request, wanted: &str) -> Option<&'a str> {
    request.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_length_and_server_from_the_table() {
        let mut decoder = Decoder::new(TABLE_SIZE, usize::MAX);
        let mut block = vec![0x88];
        write_value(&mut block, Indexing::Incremental, 28, b"12");
        write_value(&mut block, Indexing::Incremental, 54, b"taipan");
        let expected = Fields {
            status: Some(200),
            length: Some(12),
            server: Some("taipan".to_owned()),
            plain_bytes: 7 + 3 + 14 + 2 + 6 + 6,
        };
        assert_eq!(Fields::read(&mut decoder, &block), Ok(expected.clone()));
        assert_eq!(Fields::read(&mut decoder, &[0x88, 0x80 | 63, 0x80 | 62]), Ok(expected));
    }

    #[test]
    fn rejects_a_status_or_a_length_that_is_not_a_number() {
        for value in [&b"2"[..], b"axx", b"099"] {
            let mut block = Vec::new();
            write_value(&mut block, Indexing::Without, 8, value);
            assert_eq!(
                Fields::read(&mut Decoder::new(TABLE_SIZE, usize::MAX), &block),
                Err(NotHttp2),
                "{value:?}"
            );
        }
        let mut block = Vec::new();
        write_value(&mut block, Indexing::Without, 28, b"-12");
        assert_eq!(Fields::read(&mut Decoder::new(TABLE_SIZE, usize::MAX), &block), Err(NotHttp2));
    }
}
