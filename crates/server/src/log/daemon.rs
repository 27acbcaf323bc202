//! The system's log daemon (syslog(3)). Its socket takes datagrams, or, of some daemons, a stream.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// The socket of the daemon.
pub const PATH: &str = "/dev/log";
/// Facility daemon, severity info (RFC 3164 §4.1.1).
const PRIORITY: u8 = 3 * 8 + 6;

/// `None`: it could not be reached.
pub struct Daemon(Option<Connection>);

struct Connection {
    socket: OwnedFd,
    /// What ends a message: nothing in a datagram, and a zero byte in a stream, as the C library has it.
    end: &'static [u8],
}

impl Daemon {
    /// Tries to reach it.
    pub fn connect() -> Daemon {
        Daemon(Connection::open().ok())
    }

    /// By a socket that another process has connected.
    pub fn of(socket: OwnedFd) -> Daemon {
        Daemon(Some(Connection::of(socket)))
    }

    pub fn is_reached(&self) -> bool {
        self.0.is_some()
    }

    /// From now on messages go to this socket.
    pub fn replace(&mut self, socket: OwnedFd) {
        self.0 = Some(Connection::of(socket));
    }

    pub fn into_socket(self) -> Option<OwnedFd> {
        self.0.map(|connection| connection.socket)
    }

    /// Sends one message per line, and reconnects to a restarted daemon. Returns the lines that could not be sent.
    pub fn send_lines<'a>(&mut self, lines: &'a [u8], flags: SendFlags) -> &'a [u8] {
        let process = std::process::id();
        let mut left = lines;
        for line in lines.split_inclusive(|&b| b == b'\n') {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let message = [format!("<{PRIORITY}>taipan[{process}]: ").as_bytes(), text].concat();
            if !text.is_empty() && self.send(&message, flags).is_err() {
                return left;
            }
            left = &left[line.len()..];
        }
        left
    }

    fn send(&mut self, message: &[u8], flags: SendFlags) -> io::Result<()> {
        match self.0.as_ref().map(|connection| connection.send(message, flags)) {
            Some(Ok(())) => Ok(()),
            // The daemon is slow, and another connection would not be faster.
            Some(Err(Errno::AGAIN)) => Err(Errno::AGAIN.into()),
            Some(Err(_)) | None => {
                self.0 = None;
                let new = Connection::open()?;
                new.send(message, flags)?;
                self.0 = Some(new);
                Ok(())
            }
        }
    }
}

impl Connection {
    fn open() -> io::Result<Connection> {
        let socket = match connected(SocketType::DGRAM) {
            Err(Errno::PROTOTYPE) => connected(SocketType::STREAM),
            socket => socket,
        };
        Ok(Connection::of(socket?))
    }

    fn of(socket: OwnedFd) -> Connection {
        let is_stream = sockopt::socket_type(&socket).is_ok_and(|of| of == SocketType::STREAM);
        Connection { socket, end: if is_stream { b"\0" } else { b"" } }
    }

    /// Errors: `AGAIN` if the daemon takes nothing now, and it is not waited for.
    fn send(&self, message: &[u8], flags: SendFlags) -> Result<(), Errno> {
        let message = [message, self.end].concat();
        let mut left = &message[..];
        while !left.is_empty() {
            match rustix::net::send(&self.socket, left, flags | SendFlags::NOSIGNAL) {
                Ok(sent) => left = &left[sent..],
                Err(Errno::INTR) => {}
                // The daemon has a part of the message, and would join the next one to it.
                Err(Errno::AGAIN) if left.len() < message.len() => return Err(Errno::PIPE),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A daemon that accepts no connection now is not waited for.
fn connected(of: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, of, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(PATH)?)?;
    ioctl_fionbio(&socket, false)?;
    Ok(socket)
}
