//! One request and its whole response over a blocking connection. Parses only the status and `Content-Length`:
//! every server measured here sends both for a file.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server may be silent before its response counts as late.
pub const TIMEOUT: Duration = Duration::from_secs(5);
const HEAD_MAX: usize = 16 * 1024;

/// Whether a connection is kept open after its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    KeepAlive,
    Close,
}

#[derive(Debug)]
pub enum ResponseError {
    Io(io::Error),
    CutShort,
    HeadTooLong,
    NotOk(String),
    NoLength,
    LongerThanPromised,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseError::Io(error) => write!(f, "{error}"),
            ResponseError::CutShort => write!(f, "the connection was closed within the response"),
            ResponseError::HeadTooLong => write!(f, "no end of the head within {HEAD_MAX} bytes"),
            ResponseError::NotOk(line) => write!(f, "expected status 200, got \"{line}\""),
            ResponseError::NoLength => write!(f, "the response has no Content-Length"),
            ResponseError::LongerThanPromised => write!(f, "more bytes than Content-Length announces"),
        }
    }
}

impl std::error::Error for ResponseError {}

impl From<io::Error> for ResponseError {
    fn from(error: io::Error) -> Self {
        ResponseError::Io(error)
    }
}

pub fn request(to: SocketAddr, path: &str, persistence: Persistence) -> Vec<u8> {
    let connection = match persistence {
        Persistence::KeepAlive => "",
        Persistence::Close => "Connection: close\r\n",
    };
    format!("GET {path} HTTP/1.1\r\nHost: {to}\r\n{connection}\r\n").into_bytes()
}

/// Opens a blocking connection whose reads and writes fail after [`TIMEOUT`].
pub fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Sends `request`, reads the whole response, and returns its bytes, head included.
///
/// Errors: anything but a complete 200 with a `Content-Length`.
pub fn measure(stream: &mut TcpStream, request: &[u8]) -> Result<usize, ResponseError> {
    stream.write_all(request)?;
    let mut head = [0; HEAD_MAX];
    let mut have = 0;
    while have < HEAD_MAX {
        have += match stream.read(&mut head[have..])? {
            0 => return Err(ResponseError::CutShort),
            n => n,
        };
        if let Some(length) = response_length(&head[..have])? {
            let missing = length.checked_sub(have).ok_or(ResponseError::LongerThanPromised)? as u64;
            return match io::copy(&mut stream.take(missing), &mut io::sink())? {
                n if n == missing => Ok(length),
                _ => Err(ResponseError::CutShort),
            };
        }
    }
    Err(ResponseError::HeadTooLong)
}

/// Length of the response that begins with `bytes`, head included; `None` while the head is incomplete.
fn response_length(bytes: &[u8]) -> Result<Option<usize>, ResponseError> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200") {
        return Err(ResponseError::NotOk(status.to_owned()));
    }
    lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok())
        .map(|body| Some(end + 4 + body))
        .ok_or(ResponseError::NoLength)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, expected: Result<Option<usize>, &str>) {
        let found = response_length(bytes.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{bytes:?}");
    }

    #[test]
    fn the_length_is_that_of_head_and_content_length() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", Ok(None));
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Ok(Some(43)));
        check("HTTP/1.1 200 OK\r\nDate: x\r\ncontent-length:5\r\n\r\nhel", Ok(Some(51)));
        check("HTTP/1.1 200 OK\r\nDate: x\r\n\r\n", Err("the response has no Content-Length"));
        check("HTTP/1.1 404 No\r\n\r\n", Err("expected status 200, got \"HTTP/1.1 404 No\""));
    }

    #[test]
    fn requests_connection_close_only_for_close() {
        let to = SocketAddr::from(([127, 0, 0, 1], 80));
        let text = |persistence| String::from_utf8(request(to, "/a", persistence)).unwrap();
        assert_eq!(text(Persistence::KeepAlive), "GET /a HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n");
        assert!(text(Persistence::Close).contains("\r\nConnection: close\r\n"));
    }
}
