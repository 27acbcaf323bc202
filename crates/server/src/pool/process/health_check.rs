//! One health check: a connection to an endpoint, and over HTTP a request and the status of its response, by the
//! protocol that requests would have. Knows no state of the endpoint.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;

use site::health::Checks;
use site::upstream::{Protocol, Upstream};
use taipan_http::client::lines::Limits;
use taipan_http::client::{Parser, Step};
use taipan_http::status::Status;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::pool::http2;
use crate::pool::session::Session;
use crate::pool::stream::Stream;
use crate::sys;
use crate::tls::{ClientTls, Offer};

/// Bytes that are read at once.
const PART: usize = 512;
/// The host that is asked for, where no certificate says a name.
const HOST: &str = "localhost";

/// What is checked: the endpoint of this address of an upstream. `tls`: `None` if connections are not encrypted.
pub struct Subject<'a> {
    pub upstream: &'a Upstream,
    pub address: usize,
    pub tls: Option<&'a ClientTls>,
}

impl Subject<'_> {
    /// Errors: why the endpoint is not healthy. `socket` is a connection that may still be in progress.
    pub async fn check(&self, socket: io::Result<OwnedFd>, checks: &Checks) -> Result<(), String> {
        let checked = async {
            let socket = sys::watch(socket?, Interest::READABLE | Interest::WRITABLE)?;
            connected(&socket).await?;
            match checks.path.as_ref().filter(|_| self.upstream.protocol == Protocol::Http) {
                Some(path) => self.ask(socket, path).await.map(Some),
                None => Ok(None),
            }
        };
        match timeout(checks.timeout, checked).await {
            Err(_) => Err("health check: it has not responded in time".to_owned()),
            Ok(Err(error)) => Err(format!("health check: {error}")),
            Ok(Ok(Some(status))) if !checks.status.contains(status) => {
                Err(format!("health check: status {}", status.code()))
            }
            Ok(Ok(_)) => Ok(()),
        }
    }

    async fn ask(&self, socket: AsyncFd<OwnedFd>, path: &str) -> io::Result<Status> {
        let stream = Stream::new(socket, self.session()?);
        poll_fn(|cx| stream.poll_handshake(cx)).await?;
        let host = self.host();
        if self.upstream.http2 && stream.is_encrypted() == stream.is_http2() {
            return http2::status(stream, self.upstream.scheme(), &host, path).await;
        }
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {}\r\nConnection: close\r\n\r\n",
            http2::HEALTH_AGENT
        );
        stream.send(request.as_bytes()).await?;
        status(&stream).await
    }

    fn session(&self) -> io::Result<Option<Session>> {
        let offer = if self.upstream.http2 { Offer::Http2 } else { Offer::Http1 };
        match (self.tls, &self.upstream.tls) {
            (None, None) => Ok(None),
            (Some(tls), _) => Session::new(tls, self.address, offer).map(Some).ok_or_else(no_settings),
            (None, Some(_)) => Err(no_settings()),
        }
    }

    /// The name that its certificate is for.
    fn host(&self) -> String {
        let Some(tls) = &self.upstream.tls else { return HOST.to_owned() };
        let of_address = || self.upstream.addresses().get(self.address)?.certified_name();
        match tls.name.clone().or_else(of_address) {
            Some(ip) if ip.contains(':') => format!("[{ip}]"),
            Some(name) => name,
            None => HOST.to_owned(),
        }
    }
}

fn no_settings() -> io::Error {
    io::Error::other("its settings of TLS cannot be read")
}

/// Ready when the connection is there.
async fn connected(socket: &AsyncFd<OwnedFd>) -> io::Result<()> {
    let connected = socket.async_io(Interest::WRITABLE, |fd| {
        rustix::net::sockopt::socket_error(fd)??;
        // Fails with ENOTCONN as long as there is no connection.
        rustix::net::getpeername(fd)?;
        Ok(())
    });
    connected.await
}

/// The status of the final response.
async fn status(stream: &Stream) -> io::Result<Status> {
    let mut parser = Parser::new(Limits::default());
    // Bounded by the limits of the parser, and by the timeout of the check.
    loop {
        let mut part = [0; PART];
        let length = poll_fn(|cx| stream.poll_read(cx, &mut part)).await?;
        if length == 0 {
            return Err(io::Error::other("it has closed the connection"));
        }
        let mut rest = &part[..length];
        let mut step = parser.receive(rest);
        while let Step::Interim(more, _, used) = step {
            rest = &rest[used..];
            step = more.receive(rest);
        }
        match step {
            Step::More(more) | Step::Interim(more, ..) => parser = more,
            Step::Head(head, _) => return Ok(head.status),
            Step::Rejected(error) => {
                return Err(io::Error::other(format!("its response cannot be read: {error}")));
            }
        }
    }
}
