//! Writes the head of a response (RFC 9112 §4 and §5). A small body can follow in the same buffer, so that one write
//! sends both. Knows nothing of connections: the caller adds the `Connection` field when it sends the head. A head can
//! store its field block of another protocol, and knows nothing of that but the place of `Date`.

use std::cell::OnceCell;

use crate::date;
use crate::digits::write_number;
use crate::fields::{is_token, text_len};
use crate::head::Field;
use crate::status::Status;
use crate::write::field_line;

/// The interim response to `Expect: 100-continue` (RFC 9110 §10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

const CRLF: &[u8] = b"\r\n";

/// Writes the head of another interim response (RFC 9110 §15.2), whose fields have been parsed.
pub fn write_interim(status: Status, fields: &[Field<'_>], out: &mut Vec<u8>) {
    write_status_line(status, out);
    for field in fields {
        field_line(field.name, field.value, out);
    }
    out.extend_from_slice(CRLF);
}

fn write_status_line(status: Status, out: &mut Vec<u8>) {
    if status == Status::OK {
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    write_number(u64::from(status.code()), out);
    out.push(b' ');
    out.extend_from_slice(status.reason().as_bytes());
    out.extend_from_slice(CRLF);
}

/// The rendered head of a response, and its body if that is small.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    bytes: Vec<u8>,
    head: usize,
    date_at: usize,
    status: Status,
    block: OnceCell<Box<Block>>,
}

/// The fields of a head as another protocol encodes them.
#[derive(Debug, Clone)]
pub struct Block {
    pub bytes: Vec<u8>,
    /// Where the value of `Date` begins, if it is there. It has the bytes of the text.
    pub date_at: Option<usize>,
}

/// Bytes of most heads.
const USUAL: usize = 320;

/// Renders a head line by line.
#[derive(Debug, Clone)]
pub struct Builder {
    bytes: Vec<u8>,
    date_at: usize,
    status: Status,
}

impl Builder {
    /// Writes the status line and `Date` (RFC 9110 §6.6.1).
    pub fn new(status: Status, date: &[u8; date::LEN]) -> Builder {
        Builder::over(Vec::with_capacity(USUAL), status, date)
    }

    /// As `new`, in the memory of an empty buffer.
    pub fn over(mut bytes: Vec<u8>, status: Status, date: &[u8; date::LEN]) -> Builder {
        write_status_line(status, &mut bytes);
        bytes.extend_from_slice(b"Date: ");
        let date_at = bytes.len();
        bytes.extend_from_slice(date);
        bytes.extend_from_slice(CRLF);
        Builder { bytes, date_at, status }
    }

    /// Appends a field line. CR, LF and NUL in the value become spaces (RFC 9110 §5.5), and bytes of the name that
    /// are not token characters become `-`, so that no field can add a line.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Builder {
        self.push_name(name);
        self.push_value(value.as_ref());
        self
    }

    /// As `field`, with a name that is a token.
    pub fn received(mut self, field: Field) -> Builder {
        self.bytes.extend_from_slice(field.name);
        self.bytes.extend_from_slice(b": ");
        self.push_value(field.value);
        self
    }

    /// Appends the field lines that `write` appends. They have been parsed, and each ends with CRLF.
    pub fn received_lines(mut self, write: impl FnOnce(&mut Vec<u8>)) -> Builder {
        write(&mut self.bytes);
        self
    }

    /// As `field`. `name` is a token, and the value has no control characters.
    pub fn checked(mut self, name: &'static str, value: &str) -> Builder {
        field_line(name.as_bytes(), value.as_bytes(), &mut self.bytes);
        self
    }

    /// As `field`. `name` is a token.
    pub fn number(mut self, name: &'static str, value: u64) -> Builder {
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b": ");
        write_number(value, &mut self.bytes);
        self.bytes.extend_from_slice(CRLF);
        self
    }

    /// Whether the head has this field so far.
    pub fn has(&self, name: &str) -> bool {
        fields(&self.bytes).any(|(own, _)| own.eq_ignore_ascii_case(name))
    }

    /// Whether the head has a line with this field and this value so far.
    pub fn has_line(&self, name: &str, value: &[u8]) -> bool {
        fields(&self.bytes).any(|(own, other)| own.eq_ignore_ascii_case(name) && other == value)
    }

    /// Ends the head, without a body.
    pub fn finish(self) -> ResponseHead {
        self.finish_with(b"")
    }

    /// Ends the head and appends the body. The caller has set `Content-Length`.
    pub fn finish_with(mut self, body: &[u8]) -> ResponseHead {
        self.bytes.reserve_exact(CRLF.len() + body.len());
        self.bytes.extend_from_slice(CRLF);
        let head = self.bytes.len();
        self.bytes.extend_from_slice(body);
        let Builder { bytes, date_at, status } = self;
        ResponseHead { bytes, head, date_at, status, block: OnceCell::new() }
    }

    fn push_value(&mut self, value: &[u8]) {
        let is_control = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let clean = text_len(value);
        self.bytes[start + clean..].iter_mut().filter(|byte| is_control(byte)).for_each(|byte| *byte = b' ');
        self.bytes.extend_from_slice(CRLF);
    }

    fn push_name(&mut self, name: &str) {
        match is_token(name.as_bytes()) {
            true => self.bytes.extend_from_slice(name.as_bytes()),
            false => {
                self.bytes.extend(name.bytes().map(|byte| if is_token(&[byte]) { byte } else { b'-' }));
            }
        }
        self.bytes.extend_from_slice(b": ");
    }
}

impl ResponseHead {
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The status line, the fields and the empty line.
    pub fn head(&self) -> &[u8] {
        &self.bytes[..self.head]
    }

    /// Bytes of `head`.
    pub const fn head_len(&self) -> usize {
        self.head
    }

    /// Empty if the body is not in this buffer.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    /// Empties it. The buffer is for another head.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.bytes);
        buffer.clear();
        self.head = 0;
        buffer
    }

    /// The bytes for which it has memory.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Head and body.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Replaces the value of `Date`, before a cached head is sent again.
    pub fn set_date(&mut self, date: &[u8; date::LEN]) {
        self.bytes[self.date_at..self.date_at + date::LEN].copy_from_slice(date);
        if let Some(Block { bytes, date_at: Some(at) }) = self.block.get_mut().map(Box::as_mut) {
            bytes[*at..*at + date::LEN].copy_from_slice(date);
        }
    }

    /// The fields as another protocol encodes them. `encode` does that the first time.
    #[inline]
    pub fn block(&self, encode: impl FnOnce(&ResponseHead) -> Block) -> &[u8] {
        &self.block.get_or_init(|| Box::new(encode(self))).bytes
    }

    /// Names and values of the fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        fields(&self.bytes[..self.head])
    }

    /// Whether there is a field of this name, in any case of letters.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// The value of the first field of this name, in any case of letters.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The value of `Date`, for another head.
    pub fn date(&self) -> [u8; date::LEN] {
        self.value("date").and_then(|date| date.try_into().ok()).unwrap_or([b' '; date::LEN])
    }

    /// The same head with further fields, and the same body.
    pub fn with_fields<'f, V: AsRef<[u8]>>(
        &self,
        more: impl IntoIterator<Item = (&'f str, V)>,
    ) -> ResponseHead {
        let bytes = self.bytes[..self.head - CRLF.len()].to_vec();
        let mut builder = Builder { bytes, date_at: self.date_at, status: self.status };
        for (name, value) in more {
            builder = builder.field(name, value);
        }
        builder.finish_with(self.body())
    }

    /// The same head with this field in place of others of its name, and the same body.
    pub fn with_replaced(&self, name: &str, value: &str) -> ResponseHead {
        self.builder_without(name).field(name, value).finish_with(self.body())
    }

    /// The same head without the fields of this name, and the same body.
    pub fn without(&self, name: &str) -> ResponseHead {
        self.builder_without(name).finish_with(self.body())
    }

    fn builder_without(&self, name: &str) -> Builder {
        let is_of_name = |line: &[u8]| {
            let (own, rest) = line.split_at_checked(name.len()).unwrap_or((b"", b""));
            own.eq_ignore_ascii_case(name.as_bytes()) && rest.starts_with(b":")
        };
        let (mut bytes, mut date_at) = (Vec::with_capacity(self.head), self.date_at);
        for line in self.bytes[..self.head - CRLF.len()].split_inclusive(|byte| *byte == b'\n') {
            match is_of_name(line) {
                true if bytes.len() < date_at => date_at -= line.len(),
                true => {}
                false => bytes.extend_from_slice(line),
            }
        }
        Builder { bytes, date_at, status: self.status }
    }

    /// The same head up to the first `kept` bytes, which end a line, with these fields behind them, and the same body.
    pub fn with_end<'f>(
        &self,
        kept: usize,
        more: impl IntoIterator<Item = (&'f str, &'f str)>,
    ) -> ResponseHead {
        let kept = kept.min(self.head - CRLF.len());
        let mut bytes = Vec::with_capacity(self.bytes.len() + 64);
        bytes.extend_from_slice(&self.bytes[..kept]);
        let mut builder = Builder { bytes, date_at: self.date_at, status: self.status };
        for (name, value) in more {
            builder = builder.field(name, value);
        }
        builder.finish_with(self.body())
    }

    /// Bytes of the status line and the fields, without the empty line.
    pub const fn fields_len(&self) -> usize {
        self.head - CRLF.len()
    }

    /// Appends the head, without the body, to `out`. `line` is one more field line with its CRLF, or empty.
    pub fn write_with(&self, line: &[u8], out: &mut Vec<u8>) {
        let (fields, empty_line) = self.head().split_at(self.head - CRLF.len());
        out.reserve_exact(self.head + line.len());
        out.extend_from_slice(fields);
        out.extend_from_slice(line);
        out.extend_from_slice(empty_line);
    }
}

/// The fields behind the status line.
fn fields(head: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    let lines = head.split(|&byte| byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let line = line.strip_suffix(b"\r")?;
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((std::str::from_utf8(&line[..colon]).ok()?, line.get(colon + 2..)?))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DATE: &[u8; date::LEN] = b"Sun, 06 Nov 1994 08:49:37 GMT";

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn renders_status_line_fields_and_body() {
        let response = Builder::new(Status::OK, DATE)
            .field("Content-Type", "text/plain")
            .number("Content-Length", 5)
            .finish_with(b"hello");
        let head = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(text(response.head()), head);
        assert_eq!(response.head_len(), head.len());
        assert_eq!(text(response.body()), "hello");
        assert_eq!(text(response.bytes()), format!("{head}hello"));
        assert_eq!(response.status(), Status::OK);
    }

    #[test]
    fn adds_a_field_line_when_the_head_is_written() {
        let head = Builder::new(Status::NOT_FOUND, DATE).finish_with(b"gone");
        let mut out = b"before ".to_vec();
        head.write_with(b"Connection: close\r\n", &mut out);
        assert_eq!(
            text(&out),
            "before HTTP/1.1 404 Not Found\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Connection: close\r\n\r\n"
        );
        out.clear();
        head.write_with(b"", &mut out);
        assert_eq!(out, head.head());
    }

    #[test]
    fn adds_fields_to_a_finished_head() {
        let builder = Builder::new(Status::OK, DATE).field("A", "b");
        assert!(builder.has("a") && !builder.has("b"));
        assert!(builder.has_line("a", b"b") && !builder.has_line("a", b"c"));
        let head = builder.finish_with(b"B: c\r\n");
        let mut more = head.with_fields([("C", "d"), ("A", "e")]);
        let expected = Builder::new(Status::OK, DATE).field("A", "b").field("C", "d").field("A", "e");
        assert_eq!(text(more.bytes()), text(expected.finish_with(b"B: c\r\n").bytes()));
        assert!(more.has("c") && !more.has("B"));
        more.set_date(b"Mon, 07 Nov 1994 00:00:00 GMT");
        assert!(text(more.bytes()).contains("Date: Mon, 07"));
    }

    #[test]
    fn replaces_the_last_fields_of_a_finished_head() {
        let head = Builder::new(Status::OK, DATE).field("A", "b").finish_with(b"body");
        let kept = head.fields_len();
        let first = head.with_end(kept, [("Age", "9"), ("C", "d")]);
        let again = first.with_end(kept, [("Age", "10")]);
        let expected = Builder::new(Status::OK, DATE).field("A", "b").field("Age", "10").finish_with(b"body");
        assert_eq!(text(again.bytes()), text(expected.bytes()));
        assert_eq!(text(again.with_end(kept, []).bytes()), text(head.bytes()));
        assert_eq!(text(head.with_end(usize::MAX, []).bytes()), text(head.bytes()));
    }

    #[test]
    fn replaces_and_removes_a_field() {
        let head =
            Builder::new(Status::OK, DATE).field("Retry-After", "1").field("A", "b").finish_with(b"body");
        let found = head.with_replaced("retry-after", "90");
        let expected =
            Builder::new(Status::OK, DATE).field("A", "b").field("retry-after", "90").finish_with(b"body");
        assert_eq!(text(found.bytes()), text(expected.bytes()));
        let expected = Builder::new(Status::OK, DATE).field("A", "b").finish_with(b"body");
        assert_eq!(text(head.without("retry-after").bytes()), text(expected.bytes()));
        let mut found = found.with_replaced("A", "c");
        let other = b"Mon, 07 Nov 1994 00:00:00 GMT";
        found.set_date(other);
        let expected =
            Builder::new(Status::OK, other).field("retry-after", "90").field("A", "c").finish_with(b"body");
        assert_eq!(text(found.bytes()), text(expected.bytes()));
    }

    #[test]
    fn replaces_the_date() {
        let mut head = Builder::new(Status::PARTIAL_CONTENT, DATE).field("A", "b").finish();
        let other = b"Mon, 07 Nov 1994 00:00:00 GMT";
        head.set_date(other);
        let expected = Builder::new(Status::PARTIAL_CONTENT, other).field("A", "b").finish();
        assert_eq!(text(head.bytes()), text(expected.bytes()));
    }

    #[test]
    fn replaces_the_date_of_the_block_that_it_stores() {
        let mut head = Builder::new(Status::OK, DATE).finish();
        let encode = |_: &ResponseHead| Block { bytes: [b"d=", &DATE[..], b";"].concat(), date_at: Some(2) };
        assert_eq!(text(head.block(encode)), "d=Sun, 06 Nov 1994 08:49:37 GMT;");
        head.set_date(b"Mon, 07 Nov 1994 00:00:00 GMT");
        let once = |_: &ResponseHead| -> Block { panic!("it is encoded once") };
        assert_eq!(text(head.block(once)), "d=Mon, 07 Nov 1994 00:00:00 GMT;");
    }

    #[test]
    fn no_field_adds_a_line() {
        let head = Builder::new(Status::OK, DATE).field("A\r\nB: c", "d\r\nSet-Cookie: e\0").finish();
        let fields: Vec<_> = head.fields().skip(1).collect();
        assert_eq!(fields, [("A--B--c", &b"d  Set-Cookie: e "[..])]);
    }

    #[test]
    fn a_status_without_a_name_has_an_empty_reason() {
        let head = Builder::new(Status::new(599).unwrap(), DATE).finish();
        assert!(head.head().starts_with(b"HTTP/1.1 599 \r\nDate: "));
    }

    proptest! {
        #[test]
        fn fields_and_body_are_read_as_written(
            fields in prop::collection::vec(("[A-Za-z-]{1,9}", "[ -~\u{a0}-\u{ff}]{0,9}"), 0..5),
            body: Vec<u8>,
        ) {
            let builder = fields
                .iter()
                .fold(Builder::new(Status::OK, DATE), |builder, (name, value)| builder.field(name, value));
            let head = builder.finish_with(&body);
            let owned = |(name, value): (&str, &[u8])| (name.to_owned(), text(value).to_owned());
            let found: Vec<_> = head.fields().skip(1).map(owned).collect();
            prop_assert_eq!(found, fields);
            prop_assert_eq!(head.body(), body);
        }

        #[test]
        fn each_field_is_one_line(name: String, value: Vec<u8>) {
            let head = Builder::new(Status::OK, DATE).field(&name, value).finish();
            prop_assert_eq!(head.head().iter().filter(|byte| **byte == b'\n').count(), 4);
            prop_assert_eq!(head.head().iter().filter(|byte| **byte == b'\r').count(), 4);
        }
    }
}
