//! A small HTTPS client for the requests to an authority: HTTP/1.1, one connection for each request, and limits for
//! time and size. Requests of an order are few, and TLS sessions are resumed.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Collected};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use site::address::without_brackets;
use taipan_http::chunked::{ChunkLimits, Decoder, Event};
use taipan_http::client::lines::Limits;
use taipan_http::client::{Head, Parser, Step};
use taipan_http::date;
use taipan_http::framing::Framing;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::mutex::locked;
use crate::tasks::spawn_into;
use crate::tls::{pem, provider, reasons};

/// Bytes of the body of a response. A chain of certificates has some 8 KiB.
const MAX_BODY: usize = 256 * 1024;
const BUFFER: usize = 8 * 1024;
/// Seconds that `Retry-After` may name. The library adds them to the present time.
const MAX_RETRY_AFTER: u64 = 365 * 24 * 3600;
/// Addresses of an authority that are tried.
const MAX_ADDRESSES: usize = 8;
/// How long an address may take until the next one is tried beside it (RFC 8305 §8).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
const PORT: u16 = 443;
const USER_AGENT: &str = concat!("taipan/", env!("CARGO_PKG_VERSION"));

#[derive(Clone)]
pub struct Client {
    tls: Arc<ClientConfig>,
    timeout: Duration,
    /// Until when the authority accepts no more requests, as the response to the last one says. The library does not pass
    /// it on.
    retry_after: Arc<Mutex<Option<SystemTime>>>,
}

/// The authorities of a text in PEM, by which servers are verified. Errors: there are none. The middle of a sentence
/// whose subject is the file.
pub fn roots(text: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    // Some of the system's may be damaged.
    roots.add_parsable_certificates(pem::each_certificate(text).filter_map(Result::ok));
    if roots.is_empty() {
        pem::some_certificates(text, "name a file with those of authorities")?;
        return Err("has no certificate that can be that of an authority; name another file".to_owned());
    }
    Ok(roots)
}

impl Client {
    /// Errors: of the cryptography.
    pub fn new(roots: RootCertStore, timeout: Duration) -> Result<Client, String> {
        let tls = ClientConfig::builder_with_provider(provider());
        let tls = tls.with_safe_default_protocol_versions().map_err(|e| e.to_string())?;
        let tls = Arc::new(tls.with_root_certificates(roots).with_no_client_auth());
        Ok(Client { tls, timeout, retry_after: Arc::default() })
    }

    /// For one order: what an authority says to another one does not count for it. Where a limit is that of the account
    /// (RFC 8555 §6.6), each order learns it by its own request.
    pub fn for_order(&self) -> Client {
        Client { retry_after: Arc::default(), ..self.clone() }
    }

    /// Until when the authority accepts no more requests. `None`: the last response was no error, or names no time.
    pub fn retry_after(&self) -> Option<SystemTime> {
        *locked(&self.retry_after)
    }

    /// Sends a request, and receives the whole response.
    pub async fn send(
        &self,
        method: &Method,
        uri: &Uri,
        fields: &HeaderMap,
        body: &[u8],
    ) -> io::Result<Response<String>> {
        *locked(&self.retry_after) = None;
        let exchange = self.exchange(method, uri, fields, body);
        let response = tokio::time::timeout(self.timeout, exchange).await.map_err(|_| {
            let seconds = self.timeout.as_secs_f32();
            io::Error::new(io::ErrorKind::TimedOut, format!("{uri} did not respond within {seconds} s"))
        })?;
        response.map_err(|error| io::Error::new(error.kind(), format!("{uri}: {error}")))
    }

    async fn exchange(
        &self,
        method: &Method,
        uri: &Uri,
        fields: &HeaderMap,
        body: &[u8],
    ) -> io::Result<Response<String>> {
        let host = match (uri.scheme_str(), uri.host()) {
            (Some("https"), Some(host)) => without_brackets(host).to_owned(),
            _ => return Err(invalid("the URL of an authority begins with https://")),
        };
        let name = ServerName::try_from(host.clone()).map_err(|_| invalid("it names no server"))?;
        let tcp = connect(&host, uri.port_u16().unwrap_or(PORT)).await?;
        let mut stream = TlsConnector::from(self.tls.clone()).connect(name, tcp).await.map_err(explained)?;
        stream.write_all(&request(method, uri, fields, body)).await?;
        stream.flush().await?;
        let response = receive(&mut stream, method).await?;
        // Errors: all that is needed has been received.
        _ = stream.shutdown().await;
        let is_error = response.status().is_client_error() || response.status().is_server_error();
        *locked(&self.retry_after) = retry_after(response.headers()).filter(|_| is_error);
        Ok(response)
    }
}

/// An error of a session with its reason in words.
fn explained(error: io::Error) -> io::Error {
    let reason = error.get_ref().and_then(|inner| inner.downcast_ref()).map(reasons::of_authority);
    match reason {
        Some(reason) => io::Error::new(error.kind(), reason),
        None => error,
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let Ok(body) = body.collect().await.map(Collected::to_bytes);
            let sent = client.send(&parts.method, &parts.uri, &parts.headers, &body).await;
            let sent = sent.and_then(|response| check(&parts.uri, response));
            sent.map(BytesResponse::from).map_err(|error| Error::Other(error.into()))
        })
    }
}

/// Errors: it is no response of an ACME authority, as when a proxy responds in its place. The library would only say
/// that it is not JSON.
fn check(uri: &Uri, response: Response<String>) -> io::Result<Response<String>> {
    let (status, body) = (response.status(), response.body());
    let is_json = || serde_json::from_str::<serde_json::Value>(body).is_ok_and(|value| value.is_object());
    let is_certificate = || body.trim_start().starts_with("-----BEGIN");
    let is_right = match status.is_success() {
        true => body.is_empty() || is_certificate() || is_json(),
        false => is_json(),
    };
    match is_right {
        true => Ok(response),
        false => Err(invalid(&format!("{uri} responds with {status} and no message of an ACME authority"))),
    }
}

/// The first connection with an address of a host.
async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    connect_one(tokio::net::lookup_host((host, port)).await?.take(MAX_ADDRESSES).collect()).await
}

/// The first connection with one of several addresses, which are tried in this order. One that does not respond, as by
/// IPv6 where that leads nowhere, delays the others for a moment only (RFC 8305).
async fn connect_one(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut rest = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    loop {
        if let Some(address) = rest.next() {
            spawn_into(&mut attempts, async move {
                let connected = TcpStream::connect(address).await;
                connected.map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
            });
        }
        let ended = match rest.len() {
            0 => attempts.join_next().await,
            _ => match tokio::time::timeout(NEXT_ADDRESS, attempts.join_next()).await {
                Ok(ended) => ended,
                Err(_) => continue,
            },
        };
        match ended {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => last = error,
            Some(Err(panic)) => last = io::Error::other(panic),
            None => return Err(last),
        }
    }
}

fn request(method: &Method, uri: &Uri, fields: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let length = body.len();
    let mut out = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {USER_AGENT}\r\nConnection: close\r\n\
         Content-Length: {length}\r\n"
    )
    .into_bytes();
    for (name, value) in fields.iter().filter(|(name, _)| *name != http::header::USER_AGENT) {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out
}

async fn receive(stream: &mut (impl AsyncRead + Unpin), method: &Method) -> io::Result<Response<String>> {
    let mut parser = Parser::new(Limits::default());
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = &buffer[..read];
        // Every turn takes an interim response, or is the last.
        parser = loop {
            match parser.receive(rest) {
                Step::More(more) => break more,
                Step::Interim(more, _, used) => (parser, rest) = (more, &rest[used..]),
                Step::Rejected(error) => return Err(invalid(&error.to_string())),
                Step::Head(head, used) => {
                    let body = match *method == Method::HEAD {
                        true => Vec::new(),
                        false => receive_body(stream, head.framing, rest[used..].to_vec()).await?,
                    };
                    return response(&head, body);
                }
            }
        };
    }
}

async fn receive_body(
    stream: &mut (impl AsyncRead + Unpin),
    framing: Framing,
    begun: Vec<u8>,
) -> io::Result<Vec<u8>> {
    let mut body = Body { framing, decoder: Decoder::new(ChunkLimits::default()), bytes: Vec::new() };
    let mut is_whole = body.take(&begun)?;
    let mut buffer = vec![0; BUFFER];
    while !is_whole {
        let read = stream.read(&mut buffer).await?;
        match (read, body.framing) {
            (0, Framing::None) => break,
            (0, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => is_whole = body.take(&buffer[..read])?,
        }
    }
    Ok(body.bytes)
}

struct Body {
    framing: Framing,
    decoder: Decoder,
    bytes: Vec<u8>,
}

impl Body {
    /// Takes more input. Returns whether the body is complete.
    fn take(&mut self, mut input: &[u8]) -> io::Result<bool> {
        if self.bytes.len() + input.len() > MAX_BODY {
            return Err(invalid("the response is too long"));
        }
        match self.framing {
            Framing::Sized(length) => {
                self.bytes.extend_from_slice(input);
                self.bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
                Ok(self.bytes.len() as u64 == length)
            }
            // It ends with the connection.
            Framing::None => {
                self.bytes.extend_from_slice(input);
                Ok(false)
            }
            Framing::Chunked => loop {
                let (used, event) =
                    self.decoder.next(input).map_err(|error| invalid(&format!("{error:?}")))?;
                match event {
                    Event::NeedMore => return Ok(false),
                    Event::End => return Ok(true),
                    Event::Data(data) => self.bytes.extend_from_slice(data),
                }
                input = &input[used..];
            },
        }
    }
}

fn response(head: &Head, body: Vec<u8>) -> io::Result<Response<String>> {
    let text = String::from_utf8(body).map_err(|_| invalid("the response is no text"))?;
    let mut response = Response::builder().status(head.status.code());
    for field in head.fields.iter() {
        let value = match field.name.eq_ignore_ascii_case(b"retry-after") {
            true => HeaderValue::from_str(&bounded(&String::from_utf8_lossy(field.value))),
            false => HeaderValue::from_bytes(field.value),
        };
        response = response.header(field.name, value.map_err(|_| invalid("a field has a bad value"))?);
    }
    response.body(text).map_err(|error| invalid(&error.to_string()))
}

/// `Retry-After` without numbers that are too large.
fn bounded(value: &str) -> String {
    let value = value.trim();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match value.parse::<u64>() {
        Ok(0..=MAX_RETRY_AFTER) => value.to_owned(),
        _ if is_number => MAX_RETRY_AFTER.to_string(),
        _ => value.to_owned(),
    }
}

/// `Retry-After` (RFC 9110 §10.2.3).
pub fn retry_after(fields: &HeaderMap) -> Option<SystemTime> {
    let value = fields.get(http::header::RETRY_AFTER)?.to_str().ok()?;
    match value.parse() {
        Ok(seconds) => SystemTime::now().checked_add(Duration::from_secs(seconds)),
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
            let until = date::parse(value.as_bytes(), i64::try_from(now).ok()?)?;
            UNIX_EPOCH.checked_add(Duration::from_secs(until.try_into().ok()?))
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn an_address_that_does_not_respond_delays_the_next_one_for_a_moment() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(Default::default()).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(any).unwrap();
            let silent = socket.listen(1).unwrap();
            let silent = (silent.local_addr().unwrap(), silent);
            // When its queue is full, the kernel does not respond any more.
            let mut waiting = Vec::new();
            for _ in 0..10 {
                waiting.extend(timeout(Duration::from_millis(50), TcpStream::connect(silent.0)).await.ok());
            }
            let accepting = TcpListener::bind(any).await.unwrap();
            let accepting = (accepting.local_addr().unwrap(), accepting);
            let refusing = TcpListener::bind(any).await.unwrap().local_addr().unwrap();
            for first in [silent.0, refusing] {
                let connected = connect_one(vec![first, accepting.0]);
                let stream =
                    timeout(Duration::from_secs(20), connected).await.expect("it is in time").unwrap();
                assert_eq!(stream.peer_addr().unwrap(), accepting.0);
            }
            let error = connect_one(vec![refusing]).await.unwrap_err().to_string();
            assert!(error.starts_with(&format!("{refusing}: ")), "{error}");
            assert!(connect_one(Vec::new()).await.is_err());
        });
    }
}
