//! Sends spans to an OpenTelemetry collector (OTLP 1, by HTTP/1.1 in JSON, perhaps in TLS). Knows nothing of queues.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use site::sink::Collector;
use site::span;
use taipan_http::client::lines::Limits;
use taipan_http::client::{Parser, Step};
use taipan_http::framing::Framing;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::connect_peer;
use crate::finding::Unusable;
use crate::pool::{Session, Stream};
use crate::resolver::Resolver;
use crate::sys;
use crate::tls::{ClientReading, ClientTls, Offer};

/// How long the collector may take for a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a response that are read.
const MAX_RESPONSE: usize = 16 * 1024;
/// Bytes of one read.
const BUFFER: usize = 4 * 1024;
const NO_SETTINGS: &str = "its settings of TLS cannot be read";

/// Why spans were not taken.
pub enum Failure {
    /// They may be taken later.
    Retry(String),
    /// They never will be.
    Rejected(String),
}

/// The settings of encrypted connections to a collector. Errors: why there are none.
pub type Encryption = Result<Option<ClientTls>, String>;

/// Reads the files of authorities. To be called with the rights of the master.
pub fn encryption(collector: &Collector) -> Encryption {
    let Some(reading) = ClientReading::of_collector(collector) else { return Ok(None) };
    match reading.into_settings(Unusable::Rejected) {
        Ok((settings, _)) => match settings.into_iter().next().flatten() {
            Some(settings) => Ok(Some(settings)),
            None => Err(NO_SETTINGS.to_owned()),
        },
        Err(lines) => Err(lines.join("; ")),
    }
}

/// Sends the spans of `lines`. Returns how many of them the collector has rejected.
pub async fn send(
    collector: &Collector,
    encryption: &Encryption,
    resolver: Option<&Resolver>,
    lines: &[u8],
) -> Result<u64, Failure> {
    let tls = encryption.as_ref().map_err(|why| Failure::Retry(why.clone()))?;
    let stream = connect_peer(&collector.address, resolver).await.map_err(Failure::Retry)?;
    let stream = wrap(stream, tls.as_ref()).map_err(|error| Failure::Retry(error.to_string()))?;
    let body = span::export(collector, env!("CARGO_PKG_VERSION"), lines);
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         User-Agent: taipan\r\nConnection: close\r\n\r\n",
        collector.path,
        collector.authority,
        body.len()
    );
    let exchange = exchange(&stream, head.as_bytes(), &body);
    match timeout(TIMEOUT, exchange).await {
        Err(_) => Err(Failure::Retry("it does not respond in time".to_owned())),
        Ok(Err(error)) => Err(Failure::Retry(format!("no response: {error}"))),
        Ok(Ok(response)) => verdict(&response),
    }
}

/// The connection, with a session if it is to be encrypted.
fn wrap(stream: TcpStream, tls: Option<&ClientTls>) -> io::Result<Stream> {
    let session = match tls {
        None => None,
        Some(tls) => {
            let session = Session::new(tls, 0, Offer::Http1);
            Some(session.ok_or_else(|| io::Error::other(NO_SETTINGS))?)
        }
    };
    let socket = OwnedFd::from(stream.into_std()?);
    Ok(Stream::new(sys::watch(socket, Interest::READABLE | Interest::WRITABLE)?, session))
}

async fn exchange(stream: &Stream, head: &[u8], body: &[u8]) -> io::Result<Vec<u8>> {
    poll_fn(|cx| stream.poll_handshake(cx)).await?;
    let sent = match stream.send(head).await {
        Ok(()) => stream.send(body).await,
        failed => failed,
    };
    // One that takes no more may have said why. Some leave the connection open.
    let mut response = Vec::new();
    let mut buffer = [0; BUFFER];
    while !is_whole(&response) && response.len() < MAX_RESPONSE {
        match poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await {
            Ok(0) => break,
            Ok(count) => response.extend_from_slice(&buffer[..count]),
            Err(error) if response.is_empty() => return Err(sent.err().unwrap_or(error)),
            Err(_) => break,
        }
    }
    Ok(response)
}

fn is_whole(response: &[u8]) -> bool {
    match Parser::new(Limits::default()).receive(response) {
        Step::Head(head, used) => match head.framing {
            Framing::Sized(bytes) => (response.len() - used) as u64 >= bytes,
            Framing::Chunked => response.ends_with(b"0\r\n\r\n"),
            Framing::None => !head.status.allows_body(),
        },
        Step::Rejected(_) => true,
        Step::More(_) | Step::Interim(..) => false,
    }
}

fn verdict(response: &[u8]) -> Result<u64, Failure> {
    let status = response.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    let status = status.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u16>().ok());
    match status {
        Some(200..=299) => Ok(rejected(response)),
        // OTLP, "Failures": all others are final.
        Some(status @ (429 | 502 | 503 | 504)) => Err(Failure::Retry(format!("it responds with {status}"))),
        Some(status) => Err(Failure::Rejected(format!("it responds with {status}"))),
        None => Err(Failure::Retry("its response is not one of HTTP/1.1".to_owned())),
    }
}

/// The number in `partialSuccess`, which may be a string.
fn rejected(response: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(response);
    let Some((_, behind)) = text.split_once("\"rejectedSpans\"") else { return 0 };
    let digits = behind.trim_start_matches([':', ' ', '"']);
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_ends_by_its_framing() {
        for (response, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", false),
            ("HTTP/1.1 204 No Content\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\n\r\n{}", false),
            ("HTTP/1.1 200 OK\r\n", false),
            ("SSH-2.0\r\n\r\n", true),
            ("", false),
        ] {
            assert_eq!(is_whole(response.as_bytes()), expected, "{response}");
        }
    }

    #[test]
    fn a_response_says_what_becomes_of_the_spans() {
        let check = |response: &str, expected: Result<u64, bool>| {
            let found = verdict(response.as_bytes());
            let found = found.map_err(|failure| matches!(failure, Failure::Retry(_)));
            assert_eq!(found, expected, "{response}");
        };
        check("HTTP/1.1 200 OK\r\n\r\n{}", Ok(0));
        check("HTTP/1.0 202\r\n\r\n", Ok(0));
        check("HTTP/1.1 200 OK\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"7\"}}", Ok(7));
        check("HTTP/1.1 200 OK\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\": 12, \"x\":1}}", Ok(12));
        check("HTTP/1.1 200 OK\r\n\r\n{\"rejectedSpans\":\"x\"}", Ok(0));
        for status in [429, 502, 503, 504] {
            check(&format!("HTTP/1.1 {status} x\r\n\r\n"), Err(true));
        }
        check("HTTP/1.1 400 Bad Request\r\n\r\n", Err(false));
        check("HTTP/1.1 500 x\r\n\r\n", Err(false));
        for garbage in ["", "HTTP/1.1", "HTTP/2 200", "SSH-2.0", "HTTP/1.1 2\u{e4}"] {
            check(garbage, Err(true));
        }
    }
}
