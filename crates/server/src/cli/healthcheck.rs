//! `taipan healthcheck URL`: sends one request, for containers that have no curl.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use site::address::without_brackets;
use taipan_http::fields::{host_and_port, is_authority};
use taipan_http::target::Scheme;

use crate::terminal;
use crate::tls;

/// Bytes of the response that are read; a status line is shorter.
const READ: u64 = 256;

/// Exits with 0 if the response to GET is 2xx or 3xx, with 1 otherwise.
pub fn healthcheck(url: &str, timeout: Duration) -> ExitCode {
    match status(url, timeout) {
        Ok(status) if (200..400).contains(&status) => {
            terminal::out(format_args!("{url}: {status}"));
            ExitCode::SUCCESS
        }
        Ok(status) => terminal::fail(format_args!("{url}: {status}"), 1),
        Err(error) => terminal::fail(format_args!("{url}: {error}"), 1),
    }
}

/// Requests `http[s]://host[:port]/path` or `unix:/path/of/socket[:/path]` and returns the status. A certificate is not
/// verified: it need not be for the address by which a container reaches itself.
fn status(url: &str, timeout: Duration) -> io::Result<u16> {
    let until = Instant::now() + timeout;
    if let Some(rest) = url.strip_prefix("unix:") {
        let (socket, path) = rest.split_once(":/").map_or((rest, String::new()), |(s, p)| (s, p.to_owned()));
        let stream = UnixStream::connect(socket)?;
        return get(Deadline::new(stream, until), "localhost", &format!("/{path}"));
    }
    let scheme = [Scheme::Http, Scheme::Https]
        .into_iter()
        .find_map(|scheme| Some((scheme, url.strip_prefix(scheme.as_str())?.strip_prefix("://")?)));
    let (scheme, rest) = scheme.ok_or_else(|| {
        io::Error::other(
            "not a URL that can be checked; write http://127.0.0.1:8080/, https://127.0.0.1:8443/ or unix:/path",
        )
    })?;
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    if !is_authority(authority.as_bytes()) {
        return Err(io::Error::other(format!("{authority} is not a host and a port up to 65535")));
    }
    let (host, port) = host_and_port(authority);
    let name = without_brackets(host);
    let address = (name, port.unwrap_or(scheme.default_port()))
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::other("no such host"))?;
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    let stream = Deadline::new(stream, until);
    match scheme {
        Scheme::Http => get(stream, authority, path),
        Scheme::Https => get(tls::begin_unverified(stream, name)?, authority, path),
    }
}

fn get(mut stream: impl Read + Write, authority: &str, path: &str) -> io::Result<u16> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: taipan-healthcheck\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    // A reset after the status line does not matter.
    let read = stream.take(READ).read_to_end(&mut response);
    let line = String::from_utf8_lossy(&response);
    let code = line.strip_prefix("HTTP/1.").and_then(|l| l.get(2..5)).and_then(|c| c.parse().ok());
    code.ok_or_else(|| read.err().unwrap_or_else(|| io::Error::other("the response is not HTTP")))
}

/// A socket with one deadline for all of its reads and writes together.
struct Deadline {
    socket: File,
    until: Instant,
}

impl Deadline {
    fn new(socket: impl Into<OwnedFd>, until: Instant) -> Deadline {
        Deadline { socket: File::from(socket.into()), until }
    }

    fn set_timeout(&self, which: Timeout) -> io::Result<()> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(late()),
            left => Ok(set_socket_timeout(&self.socket, which, Some(left))?),
        }
    }
}

/// The timeout of a socket is EAGAIN (socket(7), SO_RCVTIMEO).
fn in_time(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { late() } else { error }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no response in time")
}

impl Read for Deadline {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.set_timeout(Timeout::Recv)?;
        self.socket.read(buf).map_err(in_time)
    }
}

impl Write for Deadline {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.set_timeout(Timeout::Send)?;
        self.socket.write(buf).map_err(in_time)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
