//! The listening socket of `fcgi-wrap`: one of its own, or one that it was started with.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::{fcntl_dupfd_cloexec, ioctl_fionbio};
use rustix::net::sockopt;
use site::address::Address;

use super::FIRST_OTHER;
use crate::master::sockets;

/// Dropping it removes the file that was made for it.
pub struct Listener {
    pub fd: OwnedFd,
    file: Option<PathBuf>,
}

impl Listener {
    /// Errors: a line that says what to do.
    pub fn open(address: Option<&str>) -> Result<Listener, String> {
        let Some(text) = address else { return passed().map(|fd| Listener { fd, file: None }) };
        let address = match text.contains('/') || !text.contains(':') {
            true => Address::parse(&["unix:", text.trim_start_matches("unix:")].concat(), Path::new("")),
            false => Address::parse(text, Path::new("")),
        };
        let address =
            address.map_err(|advice| ["--socket ", text, " is not an address; ", &advice].concat())?;
        let fd = sockets::listen_alone(&address, "--socket").map_err(|error| error.to_string())?;
        let file = match address {
            Address::Unix(path) => Some(path),
            Address::Tcp(_) => None,
        };
        Ok(Listener { fd, file })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.file {
            _ = std::fs::remove_file(path);
        }
    }
}

/// FCGI_LISTENSOCK_FILENO, which is 0 (§2.2), or the socket of `sd_listen_fds(3)`.
fn passed() -> Result<OwnedFd, String> {
    let mut passed = sockets::inherited_descriptors().map_err(|error| error.to_string())?;
    let fd = match passed.pop() {
        Some(_) if !passed.is_empty() => {
            return Err("more than one socket was passed; expected one".to_owned());
        }
        Some(fd) => Some(fd),
        None => fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_OTHER).ok(),
    };
    let fd = fd.filter(|fd| sockopt::socket_acceptconn(fd).unwrap_or(false));
    let fd = fd
        .ok_or("there is no socket to listen on; give its address by --socket, or pass it as descriptor 0")?;
    // accept(2) on a blocking socket would stop the program when another one is quicker.
    _ = ioctl_fionbio(&fd, true);
    // Fails for a Unix socket.
    _ = sockopt::set_tcp_nodelay(&fd, true);
    Ok(fd)
}
