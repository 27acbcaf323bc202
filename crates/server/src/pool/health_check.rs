//! One health check: a connection to an endpoint, and over HTTP a request and the status of its response. Knows no state of
//! the endpoint.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{RecvFlags, SendFlags};
use site::health::Checks;
use site::upstream::Protocol;
use taipan_http::status::Status;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::sys;

/// Bytes of the response that are read: the status line is at their start.
const START: usize = 64;

/// Errors: why the endpoint is not healthy. `stream` is a connection that may still be in progress.
pub async fn check(stream: io::Result<OwnedFd>, checks: &Checks, protocol: Protocol) -> Result<(), String> {
    let checked = async {
        let stream = sys::watch(stream?, Interest::READABLE | Interest::WRITABLE)?;
        let path = checks.path.as_ref().filter(|_| protocol == Protocol::Http);
        let request = path.map(|path| {
            format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: taipan-health\r\nConnection: close\r\n\r\n"
            )
        });
        send(&stream, request.as_deref().unwrap_or_default().as_bytes()).await?;
        match request {
            Some(_) => status(&stream).await.map(Some),
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

/// Sends all of `bytes`. Without any, waits until the connection is there.
async fn send(stream: &AsyncFd<OwnedFd>, bytes: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        let written = stream.async_io(Interest::WRITABLE, |fd| {
            rustix::net::sockopt::socket_error(fd)??;
            // Fails with ENOTCONN as long as there is no connection.
            rustix::net::getpeername(fd)?;
            Ok(if sent < bytes.len() { rustix::net::send(fd, &bytes[sent..], flags)? } else { 0 })
        });
        sent += written.await?;
        if sent == bytes.len() {
            return Ok(());
        }
    }
}

async fn status(stream: &AsyncFd<OwnedFd>) -> io::Result<Status> {
    let mut start = [0; START];
    let mut length = 0;
    // `HTTP/1.1 200`
    while length < 12 {
        let receive = stream.async_io(Interest::READABLE, |fd| {
            Ok(rustix::net::recv(fd, &mut start[length..], RecvFlags::DONTWAIT)?.0)
        });
        match receive.await? {
            0 => return Err(io::Error::other("it has closed the connection")),
            received => length += received,
        }
    }
    let code = start.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    let code = code.and_then(|code| std::str::from_utf8(code).ok()).filter(|_| start[8] == b' ');
    let status = code.and_then(|code| Status::new(code.parse().ok()?));
    status.ok_or_else(|| io::Error::other("its response is not HTTP/1.1"))
}
