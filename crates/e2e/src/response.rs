//! A response, parsed as strictly as RFC 9112 allows: what a lenient client would accept is an error here.

use std::collections::BTreeMap;
use std::fmt;

/// One response, as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// `HTTP/1.1`
    pub version: String,
    pub status: u16,
    pub reason: String,
    /// Names as sent, in order.
    pub fields: Vec<(String, String)>,
    /// Without its transfer coding.
    pub body: Vec<u8>,
    /// From the first byte to the empty line.
    pub raw_head: Vec<u8>,
    /// Field lines behind a chunked body.
    pub trailers: Vec<(String, String)>,
}

/// Why a response is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

/// The framing of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Sized(usize),
    Chunked,
    UntilClose,
}

impl Response {
    /// The only value of a field; `None` if the field is missing. Panics if it is there twice.
    pub fn field(&self, name: &str) -> Option<&str> {
        let values = self.values(name);
        assert!(values.len() < 2, "{name} twice:\n{self}");
        values.first().copied()
    }

    /// All values of a field, in order.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let named = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        !self.values(name).is_empty()
    }

    /// The body as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The variables that a script has printed, as `env` does.
    pub fn variables(&self) -> BTreeMap<String, String> {
        assert_eq!(self.status, 200, "{self}");
        let text = self.text();
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// All fields but those named, for comparison.
    pub fn fields_but(&self, names: &[&str]) -> Vec<(String, String)> {
        let left_out = |name: &str| names.iter().any(|n| n.eq_ignore_ascii_case(name));
        self.fields.iter().filter(|(name, _)| !left_out(name)).cloned().collect()
    }

    /// Parses a head that ends with its empty line. The body is still empty.
    pub fn parse_head(raw: &[u8]) -> Result<Response, Malformed> {
        let bad = |what: &str| Malformed(format!("{what}: {}", crate::shown(raw)));
        let text = std::str::from_utf8(raw).map_err(|_| bad("not UTF-8"))?;
        let text = text.strip_suffix("\r\n\r\n").ok_or_else(|| bad("no empty line"))?;
        let (line, rest) = text.split_once("\r\n").unwrap_or((text, ""));
        let (version, rest_of_line) = line.split_once(' ').ok_or_else(|| bad("status line"))?;
        let (status, reason) = rest_of_line.split_once(' ').ok_or_else(|| bad("status line"))?;
        let digits = status.len() == 3 && status.bytes().all(|b| b.is_ascii_digit());
        if !matches!(version, "HTTP/1.0" | "HTTP/1.1") || !digits || reason.contains(is_control) {
            return Err(bad("status line"));
        }
        let status = status.parse().map_err(|_| bad("status"))?;
        let fields = fields(rest).map_err(|e| bad(&e.0))?;
        let response = Response {
            version: version.to_owned(),
            status,
            reason: reason.to_owned(),
            fields,
            body: Vec::new(),
            raw_head: raw.to_owned(),
            trailers: Vec::new(),
        };
        Ok(response)
    }

    /// The framing of the body (RFC 9112 §6.3), for a client.
    pub(crate) fn length(&self, to_head: bool) -> Result<Length, Malformed> {
        let bad = |what: &str| Malformed(format!("{what}:\n{self}"));
        let (lengths, codings) = (self.values("content-length"), self.values("transfer-encoding"));
        let length = match (&lengths[..], &codings[..]) {
            ([], []) => Length::UntilClose,
            ([length], []) if !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit()) => {
                Length::Sized(length.parse().map_err(|_| bad("Content-Length"))?)
            }
            ([], ["chunked"]) if self.version == "HTTP/1.1" => Length::Chunked,
            _ => return Err(bad("no sure framing")),
        };
        let bodyless = matches!(self.status, 100..=199 | 204);
        if bodyless && length != Length::UntilClose {
            return Err(bad("framing of no body"));
        }
        let nothing = to_head || bodyless || self.status == 304;
        Ok(if nothing { Length::Sized(0) } else { length })
    }
}

/// As on the wire, with the body shortened.
impl fmt::Display for Response {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", String::from_utf8_lossy(&self.raw_head), crate::shown(&self.body))
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Parses a chunked body at the start of `input`: the data, the trailers, and how many bytes they took.
/// `Ok(None)`: incomplete.
#[expect(clippy::type_complexity, reason = "read in one place")]
pub fn chunked(input: &[u8]) -> Result<Option<(Vec<u8>, Vec<(String, String)>, usize)>, Malformed> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Some(end) = find(&input[at..], b"\r\n") else { return Ok(None) };
        let line = &input[at..at + end];
        let hex = !line.is_empty() && line.len() <= 8 && line.iter().all(u8::is_ascii_hexdigit);
        let size = std::str::from_utf8(line).ok().filter(|_| hex);
        let size = size.and_then(|line| usize::from_str_radix(line, 16).ok());
        let size = size.ok_or_else(|| Malformed(format!("size of a chunk: {}", crate::shown(line))))?;
        at += end + 2;
        if size == 0 {
            break;
        }
        let Some(data) = input.get(at..at + size + 2) else { return Ok(None) };
        if !data.ends_with(b"\r\n") {
            return Err(Malformed("a chunk does not end with CRLF".to_owned()));
        }
        body.extend_from_slice(&data[..size]);
        at += size + 2;
    }
    if input[at..].starts_with(b"\r\n") {
        return Ok(Some((body, Vec::new(), at + 2)));
    }
    let Some(end) = find(&input[at..], b"\r\n\r\n") else { return Ok(None) };
    let trailers = std::str::from_utf8(&input[at..at + end]).map_err(|_| Malformed("trailers".to_owned()))?;
    Ok(Some((body, fields(trailers)?, at + end + 4)))
}

/// The position of the first `needle`.
pub(crate) fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

fn fields(text: &str) -> Result<Vec<(String, String)>, Malformed> {
    let bad = |line: &str| Malformed(format!("field line {line:?}"));
    let lines = text.split("\r\n").filter(|_| !text.is_empty());
    lines
        .map(|line| {
            let (name, value) = line.split_once(':').ok_or_else(|| bad(line))?;
            if name.is_empty() || !name.bytes().all(is_token) || value.contains(is_control) {
                return Err(bad(line));
            }
            Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
        })
        .collect()
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_control(c: char) -> bool {
    c != '\t' && c.is_control()
}
