//! Listening sockets: bound by the main thread, one per worker for TCP, and accepted from in the worker's
//! loop. Everything that can be wrong with an address is found here, before anything is served.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind, listen, socket_with,
    sockopt,
};
use site::model::Listener as Address;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::conn::Peer;
use crate::conn::stream::Family;
use crate::sys;

/// Connections that may wait in the kernel; it takes no more than net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// A bound socket on its way to its worker.
pub enum Socket {
    Tcp(OwnedFd),
    Unix(OwnedFd),
}

/// A socket in a worker's loop.
pub struct Listener {
    fd: AsyncFd<OwnedFd>,
    family: Family,
}

/// An address that cannot be listened on: what is wrong, and what to do.
#[derive(Debug)]
pub struct ListenError {
    address: Address,
    errno: Errno,
}

/// Sockets for all workers, and the addresses as they are: a port 0 is the one that was found.
pub struct Bound {
    pub per_worker: Vec<Vec<Socket>>,
    pub addresses: Vec<Address>,
}

/// Binds every address once for each worker.
pub fn bind_all(addresses: &[Address], workers: usize) -> Result<Bound, ListenError> {
    let mut bound = Bound { per_worker: (0..workers).map(|_| Vec::new()).collect(), addresses: Vec::new() };
    for address in addresses {
        let fail = |errno| ListenError { address: address.clone(), errno };
        let actual = match address {
            Address::Tcp(wanted) => Address::Tcp(bind_tcp(*wanted, &mut bound.per_worker).map_err(fail)?),
            Address::Unix(path) => {
                bind_unix(path, &mut bound.per_worker).map_err(fail)?;
                address.clone()
            }
        };
        bound.addresses.push(actual);
    }
    Ok(bound)
}

/// Removes what Unix listeners leave behind.
pub fn remove_sockets(addresses: &[Address]) {
    for address in addresses {
        if let Address::Unix(path) = address {
            _ = std::fs::remove_file(path);
        }
    }
}

impl Socket {
    /// Within the worker's runtime.
    pub fn listen(self) -> io::Result<Listener> {
        let (fd, family) = match self {
            Socket::Tcp(fd) => (fd, Family::Tcp),
            Socket::Unix(fd) => (fd, Family::Unix),
        };
        Ok(Listener { fd: sys::watch(fd)?, family })
    }
}

impl Listener {
    /// The next connection, as a socket that does not block and is not inherited by children.
    pub async fn accept(&self) -> io::Result<(OwnedFd, Peer)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accept = |fd: &OwnedFd| Ok(acceptfrom_with(fd, flags)?);
        let (fd, address) = self.fd.async_io(Interest::READABLE, accept).await?;
        let ip = address.and_then(|a| SocketAddr::try_from(a).ok());
        Ok((fd, ip.map_or(Peer::Unix, Peer::Ip)))
    }

    pub fn family(&self) -> Family {
        self.family
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListenError { address, errno } = self;
        write!(out, "cannot listen on {}: ", text(address))?;
        match (*errno, address) {
            (Errno::ADDRINUSE, _) => {
                out.write_str("it is in use; stop the program that has it, or choose another with --listen")
            }
            (Errno::ACCESS, Address::Tcp(a)) if a.port() < 1024 => out.write_str(
                "no permission; ports below 1024 need root or CAP_NET_BIND_SERVICE; a port from 1024 up does not",
            ),
            (Errno::ADDRNOTAVAIL, _) => out.write_str("this machine does not have that address"),
            (Errno::NOENT, Address::Unix(_)) => out.write_str("its folder does not exist; create it first"),
            (errno, _) => write!(out, "{errno}"),
        }
    }
}

/// As it is written in the configuration.
pub fn text(address: &Address) -> String {
    match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn bind_tcp(wanted: SocketAddr, per_worker: &mut [Vec<Socket>]) -> Result<SocketAddr, Errno> {
    // Without SO_REUSEPORT first: with it, a second server would take half of the first one's clients.
    drop(tcp_socket(wanted, Sharing::No)?);
    let mut actual = wanted;
    for sockets in per_worker {
        let fd = tcp_socket(actual, Sharing::WithOtherWorkers)?;
        listen(&fd, BACKLOG)?;
        actual = rustix::net::getsockname(&fd)?.try_into().map_err(|_| Errno::AFNOSUPPORT)?;
        sockets.push(Socket::Tcp(fd));
    }
    Ok(actual)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    No,
    WithOtherWorkers,
}

fn tcp_socket(address: SocketAddr, sharing: Sharing) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if sharing == Sharing::WithOtherWorkers {
        sockopt::set_socket_reuseport(&fd, true)?;
    }
    // Accepted sockets inherit it, which saves a system call for each.
    sockopt::set_tcp_nodelay(&fd, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    bind(&fd, &address)?;
    Ok(fd)
}

/// One socket that all workers accept from: the kernel does not share out Unix connections.
fn bind_unix(path: &Path, per_worker: &mut [Vec<Socket>]) -> Result<(), Errno> {
    remove_stale(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&fd, &SocketAddrUnix::new(path)?)?;
    // Whoever may reach the folder may connect; the folder's mode decides who that is.
    rustix::fs::chmod(path, Mode::from_raw_mode(0o666))?;
    listen(&fd, BACKLOG)?;
    for sockets in per_worker {
        sockets.push(Socket::Unix(fd.try_clone().map_err(|_| Errno::MFILE)?));
    }
    Ok(())
}

/// Takes away a socket that a server left behind. One that answers, or anything that is no socket, stays.
fn remove_stale(path: &Path) -> Result<(), Errno> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() || std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(Errno::ADDRINUSE);
    }
    rustix::fs::unlink(path)
}
