//! Parses the HTTP/1.x responses of one connection. Bytes go in, events come out, and cutting the same bytes
//! differently never changes the events. It rejects what would be miscounted and reads only the fields that
//! frame a response. Knows nothing of sockets.

use taipan_http::chunked::{self, ChunkLimits, Decoder};

use crate::plan::Request;

/// Bytes of the longest head, interim responses included.
pub const HEAD_MAX: usize = 64 * 1024;

/// A head like the last one is compared and not parsed. A longer head than this is parsed each time.
const CACHED_MAX: usize = 2048;

/// A parsed response head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub framing: Framing,
    pub persistence: Persistence,
}

/// Where the body ends (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Whether the server keeps the connection open after the response (RFC 9112 §9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    KeepAlive,
    Close,
}

/// Whether the response can have a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Whole,
    /// The request was HEAD.
    HeadOnly,
}

impl Expected {
    /// The response to HEAD has no body, whatever its head contains (RFC 9110 §9.3.2).
    pub fn of(request: &Request) -> Expected {
        if request.method == "HEAD" { Expected::HeadOnly } else { Expected::Whole }
    }
}

/// What the parser found.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// All input is used up and more is needed.
    More,
    /// A final head, and its length in bytes with all interim heads before it.
    Head(Head, usize),
    /// Bytes of the body.
    Body(&'a [u8]),
    /// The response is complete; the next byte belongs to the next response.
    End,
}

/// The bytes are not an HTTP response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotHttp;

/// Where in a response the connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eof {
    /// Between responses.
    Between,
    /// The end of the connection completes the body.
    End,
    InHead,
    InBody,
}

/// The last response head of one request, as bytes. It mostly changes once a second, with its Date.
#[derive(Debug, Default, Clone)]
pub struct CachedHead {
    bytes: Vec<u8>,
    head: Option<Head>,
}

/// The position in the responses of one connection.
#[derive(Debug)]
pub struct ResponseReader {
    state: State,
    /// The beginning of an incomplete head.
    partial: Vec<u8>,
    /// Bytes of the interim heads before the head that is being read.
    interim: usize,
}

#[derive(Debug)]
enum State {
    Head,
    Length(u64),
    Chunked(Box<Decoder>),
    UntilClose,
}

impl Default for ResponseReader {
    fn default() -> ResponseReader {
        ResponseReader::new()
    }
}

impl ResponseReader {
    pub const fn new() -> ResponseReader {
        ResponseReader { state: State::Head, partial: Vec::new(), interim: 0 }
    }

    /// Reads up to the next event. Returns how many bytes of `input` are used up, and the event.
    pub fn next<'a>(
        &mut self,
        input: &'a [u8],
        expected: Expected,
        cached_head: &mut CachedHead,
    ) -> Result<(usize, Event<'a>), NotHttp> {
        match &mut self.state {
            State::Head => self.head(input, expected, cached_head),
            State::Length(0) => {
                self.state = State::Head;
                Ok((0, Event::End))
            }
            _ if input.is_empty() => Ok((0, Event::More)),
            State::Length(left) => {
                let taken = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= taken as u64;
                Ok((taken, Event::Body(&input[..taken])))
            }
            State::UntilClose => Ok((input.len(), Event::Body(input))),
            State::Chunked(decoder) => match decoder.next(input).map_err(|_| NotHttp)? {
                (used, chunked::Event::NeedMore) => Ok((used, Event::More)),
                (used, chunked::Event::Data(data)) => Ok((used, Event::Body(data))),
                (used, chunked::Event::End) => {
                    self.state = State::Head;
                    Ok((used, Event::End))
                }
            },
        }
    }

    /// How many of the next bytes are certainly body and may be discarded unread.
    pub fn discardable(&self) -> u64 {
        match self.state {
            State::Length(left) => left,
            State::UntilClose => u64::MAX,
            State::Head | State::Chunked(_) => 0,
        }
    }

    /// The caller discarded this many bytes, no more than `discardable`.
    pub fn discarded(&mut self, bytes: u64) {
        if let State::Length(left) = &mut self.state {
            *left = left.saturating_sub(bytes);
        }
    }

    /// What it means that the connection ends here.
    pub fn on_eof(&mut self) -> Eof {
        match self.state {
            State::Head if self.partial.is_empty() && self.interim == 0 => Eof::Between,
            State::Head => Eof::InHead,
            State::UntilClose => {
                self.state = State::Head;
                Eof::End
            }
            State::Length(_) | State::Chunked(_) => Eof::InBody,
        }
    }

    fn head<'a>(
        &mut self,
        input: &'a [u8],
        expected: Expected,
        cached_head: &mut CachedHead,
    ) -> Result<(usize, Event<'a>), NotHttp> {
        if self.partial.is_empty() {
            if let (Some(head), true) = (cached_head.head, input.starts_with(&cached_head.bytes)) {
                return Ok((cached_head.bytes.len(), self.begin(head, cached_head.bytes.len(), expected)));
            }
            let Some(length) = end_of_head(input, 0) else { return self.keep(input) };
            let head = parse(&input[..length])?;
            if head.status >= 200 && length <= CACHED_MAX {
                cached_head.bytes.clear();
                cached_head.bytes.extend_from_slice(&input[..length]);
                cached_head.head = Some(head);
            }
            return Ok((length, self.begin(head, length, expected)));
        }
        let had = self.partial.len();
        let taken = input.len().min(HEAD_MAX.saturating_sub(had) + 1);
        self.partial.extend_from_slice(&input[..taken]);
        let Some(length) = end_of_head(&self.partial, had.saturating_sub(3)) else {
            return if self.partial.len() > HEAD_MAX { Err(NotHttp) } else { Ok((taken, Event::More)) };
        };
        let head = parse(&self.partial[..length])?;
        self.partial.clear();
        Ok((length - had, self.begin(head, length, expected)))
    }

    fn keep<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), NotHttp> {
        if input.len() > HEAD_MAX || !could_begin(input) {
            return Err(NotHttp);
        }
        self.partial.extend_from_slice(input);
        Ok((input.len(), Event::More))
    }

    fn begin(&mut self, head: Head, length: usize, expected: Expected) -> Event<'static> {
        if head.status < 200 {
            self.interim += length;
            return Event::More;
        }
        let length = length + std::mem::take(&mut self.interim);
        self.state = match (expected, head.status, head.framing) {
            (Expected::HeadOnly, ..) | (_, 204 | 304, _) => State::Length(0),
            (_, _, Framing::Length(length)) => State::Length(length),
            (_, _, Framing::Chunked) => State::Chunked(Box::new(Decoder::new(ChunkLimits::default()))),
            (_, _, Framing::UntilClose) => State::UntilClose,
        };
        Event::Head(head, length)
    }
}

/// The value of the first field of this name in a complete head.
pub fn field<'a>(head: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    lines(head).skip(1).find_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        line[..colon].eq_ignore_ascii_case(wanted.as_bytes()).then(|| line[colon + 1..].trim_ascii())
    })
}

/// The length of the head that `bytes` begin with. It does not end before `from`.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // Bounded by the bytes: every pass moves past one line feed.
    while let Some(found) = bytes[at..].iter().position(|&byte| byte == b'\n') {
        at += found + 1;
        if bytes[..at].ends_with(b"\r\n\r\n") {
            return Some(at);
        }
    }
    None
}

/// Whether the bytes can begin a response. Otherwise the client would wait for a line that never ends.
fn could_begin(bytes: &[u8]) -> bool {
    let start = b"HTTP/1.";
    let common = bytes.len().min(start.len());
    bytes[..common] == start[..common]
}

/// Errors: anything that two parsers could read differently.
fn parse(bytes: &[u8]) -> Result<Head, NotHttp> {
    let mut lines = lines(bytes);
    let (status, minor) = status_line(lines.next().ok_or(NotHttp)?)?;
    let mut length = None;
    let mut chunked = false;
    let mut other_coding = false;
    let mut persistence = if minor == b'0' { Persistence::Close } else { Persistence::KeepAlive };
    for line in lines {
        let colon = line.iter().position(|&byte| byte == b':').ok_or(NotHttp)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || name.iter().any(|byte| !byte.is_ascii_graphic()) {
            return Err(NotHttp);
        }
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let this = decimal(value).ok_or(NotHttp)?;
                if length.is_some_and(|cached_head| cached_head != this) {
                    return Err(NotHttp);
                }
                length = Some(this);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                chunked = value.eq_ignore_ascii_case(b"chunked") && !chunked;
                other_coding = !chunked;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    if option.eq_ignore_ascii_case(b"close") {
                        persistence = Persistence::Close;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") && minor == b'0' {
                        persistence = Persistence::KeepAlive;
                    }
                }
            }
            _ => {}
        }
    }
    let framing = match (chunked, length) {
        _ if other_coding => return Err(NotHttp),
        // RFC 9112 §6.3: a response with both is a smuggling attempt.
        (true, Some(_)) => return Err(NotHttp),
        (true, None) => Framing::Chunked,
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::UntilClose,
    };
    let persistence = if framing == Framing::UntilClose && !matches!(status, 204 | 304) && status >= 200 {
        Persistence::Close
    } else {
        persistence
    };
    Ok(Head { status, framing, persistence })
}

/// `HTTP/1.1 200 OK`. The reason phrase and the space before it may be missing.
fn status_line(line: &[u8]) -> Result<(u16, u8), NotHttp> {
    let rest = line.strip_prefix(b"HTTP/1.").ok_or(NotHttp)?;
    let [minor @ (b'0' | b'1'), b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', words @ ..] = rest
    else {
        return Err(NotHttp);
    };
    if !words.is_empty() && words[0] != b' ' {
        return Err(NotHttp);
    }
    let digit = |byte: &u8| u16::from(byte - b'0');
    Ok((digit(a) * 100 + digit(b) * 10 + digit(c), *minor))
}

/// Lines without their CRLF, up to the empty one. A bare CR or LF stays in its line, where the parser rejects it.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = head;
    std::iter::from_fn(move || {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        (!line.is_empty()).then_some(line)
    })
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events, as text, of `bytes` that arrive in chunks of `size`.
    fn read(bytes: &[u8], size: usize, expected: Expected) -> String {
        let (mut reader, mut cached_head, mut out) =
            (ResponseReader::new(), CachedHead::default(), String::new());
        for piece in bytes.chunks(size) {
            let mut rest = piece;
            loop {
                match reader.next(rest, expected, &mut cached_head) {
                    Err(NotHttp) => return out + "!",
                    Ok((used, event)) => {
                        rest = &rest[used..];
                        match event {
                            Event::More if rest.is_empty() => break,
                            Event::More => {}
                            Event::Head(head, length) => out += &format!("[{} {length}", head.status),
                            Event::Body(data) => out += &String::from_utf8_lossy(data),
                            Event::End => out += "]",
                        }
                    }
                }
            }
        }
        out + match reader.on_eof() {
            Eof::Between => "",
            Eof::End => "]eof",
            Eof::InHead => "..head",
            Eof::InBody => "..body",
        }
    }

    fn check(bytes: &str, expected: &str) {
        for size in 1..=bytes.len() {
            let found = read(bytes.as_bytes(), size, Expected::Whole);
            assert_eq!(found, expected, "{bytes:?} in pieces of {size}");
        }
    }

    #[test]
    fn frames_responses_by_their_heads() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "[200 38ab]");
        check(
            "HTTP/1.1 200\r\ncontent-length:0\r\n\r\nHTTP/1.0 404 \r\nContent-Length: 1\r\n\r\nx",
            "[200 34][404 36x]",
        );
        check("HTTP/1.1 200 OK\r\n\r\nto the end", "[200 19to the end]eof");
        check("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "[304 48]");
        check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", "[204 44]");
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\nHTTP/1.1 204 N\r\n\r\n",
            "[200 47abc][204 18]",
        );
    }

    #[test]
    fn reports_a_connection_that_ends_within_a_response() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "[200 38ab..body");
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "[200 47ab..body");
        check("HTTP/1.1 200 OK\r\nContent-Le", "..head");
        check("HTTP/1.1 100 Continue\r\n\r\n", "..head");
    }

    #[test]
    fn rejects_ambiguous_heads() {
        for head in [
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "SSH-2.0-server\r\n\r\n",
        ] {
            check(head, "!");
        }
        assert_eq!(read(&[b'x'; 10], 10, Expected::Whole), "!");
        let endless = ["HTTP/1.1 200 OK\r\nA: ", &"x".repeat(HEAD_MAX)].concat();
        assert_eq!(read(endless.as_bytes(), 5000, Expected::Whole), "!");
    }

    #[test]
    fn keeps_the_connection_unless_the_head_closes_it() {
        use Persistence::{Close, KeepAlive};
        for (head, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", KeepAlive),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", Close),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, close\r\n\r\n", Close),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", Close),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", KeepAlive),
            ("HTTP/1.1 200 OK\r\n\r\n", Close),
            ("HTTP/1.1 304 Not Modified\r\n\r\n", KeepAlive),
        ] {
            assert_eq!(parse(head.as_bytes()).map(|head| head.persistence), Ok(expected), "{head}");
        }
    }

    #[test]
    fn a_response_to_head_has_no_body() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(read(bytes, 7, Expected::HeadOnly), "[200 38]");
    }

    #[test]
    fn reuses_a_cached_head_only_for_the_same_bytes() {
        let (mut reader, mut cached_head) = (ResponseReader::new(), CachedHead::default());
        for (bytes, length) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 1),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 1),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxy", 2),
        ] {
            let (used, event) = reader.next(bytes.as_bytes(), Expected::Whole, &mut cached_head).unwrap();
            assert!(
                matches!(event, Event::Head(head, 38) if head.framing == Framing::Length(length)),
                "{bytes}"
            );
            assert_eq!(reader.discardable(), length);
            reader.discarded(length);
            assert_eq!(used, 38);
            assert_eq!(reader.next(b"", Expected::Whole, &mut cached_head), Ok((0, Event::End)));
        }
    }

    #[test]
    fn finds_a_field_by_name() {
        let head = b"HTTP/1.1 200 OK\r\nServer: taipan \r\n\r\n";
        assert_eq!(field(head, "server"), Some(&b"taipan"[..]));
        assert_eq!(field(head, "date"), None);
    }
}
