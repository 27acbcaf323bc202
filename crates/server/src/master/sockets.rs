//! Listening sockets. The master binds them and keeps them through every reload and upgrade, so that no waiting
//! connection is lost. Every problem with an address is found here, before the configuration is served.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, bind, getsockname, listen,
    socket_with, sockopt,
};
use rustix::process::umask;
use site::address::Address;
use site::listener::{Listener, Protocols};
use site::model::Site;

use crate::listen::{BACKLOG, Socket};
use crate::log;
use crate::peer::Family;
use crate::process::privileged_file::{self, Location, Refusal};
use crate::sys;

/// The mode of a socket for clients. The mode of its folder decides which users can connect.
const FOR_CLIENTS: Mode = Mode::from_raw_mode(0o666);
/// The mode of a socket for servers. A user that can connect can run the programs behind it.
const FOR_SERVERS: Mode = Mode::from_raw_mode(0o660);

/// An address with its listening sockets.
#[derive(Clone)]
pub struct Bound {
    /// The configured address.
    pub wanted: Address,
    /// The bound address: in place of port 0, it has the port that the kernel has chosen.
    pub actual: Address,
    /// For TCP at least one per worker, unless the program inherits it.
    pub fds: Vec<Arc<OwnedFd>>,
    pub origin: SocketOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketOrigin {
    Configured,
    /// Inherited at the start (sd_listen_fds(3)). It stays open whatever the configuration says.
    Passed,
}

/// All listening sockets. Clones share them.
#[derive(Clone, Default)]
pub struct Sockets(Vec<Bound>);

/// Why the server cannot listen on an address, and what to do.
#[derive(Debug)]
pub struct ListenError {
    address: Address,
    why: Refusal,
    /// The flag or the key that has the address, for the message.
    setting: &'static str,
}

impl Sockets {
    /// The sockets for these addresses. Existing sockets are reused; the others stay open as long as `self` or a clone
    /// of it lives.
    pub fn changed_to(&self, wanted: &[Listener], workers: usize) -> Result<Sockets, ListenError> {
        let mut before: Vec<Bound> = self.0.clone();
        let mut next = Sockets::default();
        for listener in wanted {
            let Listener { address, freebind, .. } = listener;
            // Two addresses may be equal if the kernel chooses their ports.
            let found = before.iter().position(|b| b.is(address)).map(|place| before.remove(place));
            let found = match found.filter(|bound| !bound.is_lost()) {
                Some(bound) => Ok(bound),
                None => self.bind(listener),
            };
            let shared_out =
                found.and_then(|mut bound| Ok(bound.share_out(workers, *freebind).map(|()| bound)?));
            match shared_out {
                Ok(bound) => next.0.push(bound),
                Err(why) => {
                    let error = ListenError { address: address.clone(), why, setting: "--listen" };
                    if error.leaves_it_out(wanted) {
                        log::warn(format_args!("{address} is left out: this machine has no IPv6"));
                        continue;
                    }
                    next.remove_files(self);
                    return Err(error);
                }
            }
        }
        // A socket whose address is covered by another one stays open, too: clients may wait in it, and the kernel
        // still gives it new ones.
        before.retain(|bound| {
            bound.origin == SocketOrigin::Passed || wanted.iter().any(|w| w.address.covers(&bound.actual))
        });
        next.0.extend(before);
        Ok(next)
    }

    /// Adopts inherited descriptors; those that are no listening sockets are ignored.
    pub fn passed(fds: Vec<OwnedFd>) -> Sockets {
        let mut sockets = Sockets::default();
        for fd in fds {
            if let Some(address) = address_of(&fd) {
                sockets.take_up(address.clone(), Arc::new(fd), SocketOrigin::Passed);
            }
        }
        sockets
    }

    /// Adopts a socket of the predecessor, with its configured address.
    pub fn inherit(&mut self, wanted: Address, origin: SocketOrigin, fd: Arc<OwnedFd>) {
        self.take_up(wanted, fd, origin);
    }

    fn take_up(&mut self, wanted: Address, fd: Arc<OwnedFd>, origin: SocketOrigin) {
        let Some(actual) = address_of(&fd) else { return };
        // With a blocking socket, a worker would block when another worker accepts the connection first.
        _ = rustix::io::ioctl_fionbio(&fd, true);
        if let Address::Tcp(_) = &actual {
            _ = sockopt::set_tcp_nodelay(&fd, true);
        }
        match self.0.iter_mut().find(|b| b.wanted == wanted && b.actual == actual) {
            Some(bound) => bound.fds.push(fd),
            None => self.0.push(Bound { wanted, actual, fds: vec![fd], origin }),
        }
    }

    /// Sets what the site wants of listening sockets: how much may wait in the kernel for one client, which accepted
    /// sockets inherit, and how long a silent client waits there. A kernel that lacks an option goes without it.
    pub fn set_options(&self, site: &Site) {
        let unsent = match site.limits.unsent {
            0 => u32::MAX,
            bytes => u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        let seconds = site.timeouts.defer_accept.as_secs_f64().ceil() as u32;
        let tcp = self.0.iter().filter(|bound| matches!(bound.actual, Address::Tcp(_)));
        for fd in tcp.flat_map(|bound| &bound.fds) {
            _ = sys::limit_unsent(fd.as_fd(), unsent);
            _ = sys::defer_accept(fd.as_fd(), seconds);
        }
    }

    /// Closes the sockets, but keeps the addresses.
    pub fn close(&mut self) {
        self.0.iter_mut().for_each(|bound| bound.fds.clear());
    }

    pub fn iter(&self) -> impl Iterator<Item = &Bound> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sockets of each worker, with the protocols of these listeners. Every socket has a worker, or its clients
    /// would be lost.
    pub fn per_worker(&self, listeners: &[Listener], workers: usize) -> Vec<Vec<Socket>> {
        let mut shares: Vec<Vec<Socket>> = (0..workers).map(|_| Vec::new()).collect();
        for bound in &self.0 {
            let protocols = bound.protocols(listeners);
            for turn in 0..workers.max(bound.fds.len()) {
                let fd = bound.fds[turn % bound.fds.len()].clone();
                let family = match bound.actual {
                    Address::Tcp(_) => Family::Tcp,
                    Address::Unix(_) => Family::Unix,
                };
                shares[turn % workers].push(Socket { fd, family, protocols });
            }
        }
        shares
    }

    /// Removes the files of Unix sockets, except for those that `kept` has, too.
    pub fn remove_files(&self, kept: &Sockets) {
        for bound in self.0.iter().filter(|b| b.origin == SocketOrigin::Configured) {
            if let Address::Unix(path) = &bound.actual
                && !kept.0.iter().any(|b| b.actual == bound.actual)
            {
                privileged_file::remove(path);
            }
        }
    }

    fn bind(&self, listener: &Listener) -> Result<Bound, Refusal> {
        let Listener { address, freebind, .. } = listener;
        let (actual, fd) = match address {
            Address::Tcp(wanted) => {
                // First without SO_REUSEPORT: with it, a second server would get half of the clients of the first. If
                // this program has the port, no other program can have it; that socket must not listen yet, so that
                // no client waits in it before it is served.
                let fd = if self.has_port(*wanted) {
                    tcp_socket(*wanted, *freebind, Sharing::WithOtherWorkers)?
                } else {
                    drop(tcp_socket(*wanted, *freebind, Sharing::No)?);
                    tcp_listener(*wanted, *freebind)?
                };
                (Address::Tcp(getsockname(&fd)?.try_into().map_err(|_| Errno::AFNOSUPPORT)?), fd)
            }
            Address::Unix(path) => (address.clone(), unix_listener(path, FOR_CLIENTS)?),
        };
        let fds = vec![Arc::new(fd)];
        Ok(Bound { wanted: address.clone(), actual, fds, origin: SocketOrigin::Configured })
    }

    /// Whether this program listens there already, so that no other program can.
    pub fn holds(&self, address: &Address) -> bool {
        match address {
            Address::Tcp(wanted) => self.has_port(*wanted),
            Address::Unix(_) => self.0.iter().any(|bound| bound.is(address)),
        }
    }

    fn has_port(&self, wanted: SocketAddr) -> bool {
        let is_it = |b: &Bound| matches!(b.actual, Address::Tcp(a) if a.port() == wanted.port());
        self.0.iter().any(is_it)
    }
}

/// The listening sockets that the program inherits (sd_listen_fds(3)).
pub fn inherited_sockets() -> io::Result<Sockets> {
    inherited_descriptors().map(Sockets::passed)
}

/// Every descriptor that the program inherits (sd_listen_fds(3)).
pub fn inherited_descriptors() -> io::Result<Vec<OwnedFd>> {
    const FIRST: i32 = 3;
    const MOST: i32 = 1000;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    if number("LISTEN_PID") != Some(std::process::id() as i32) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST);
    (FIRST..FIRST + count).map(sys::adopt).collect()
}

impl Bound {
    fn is(&self, address: &Address) -> bool {
        self.wanted == *address || self.actual == *address
    }

    /// Whether the file of a Unix socket has gone, so that no client can reach it.
    fn is_lost(&self) -> bool {
        let is_missing =
            |path: &Path| path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        self.origin == SocketOrigin::Configured
            && matches!(&self.actual, Address::Unix(path) if is_missing(path))
    }

    /// The bound address, with what else these listeners say of it.
    pub fn listener(&self, listeners: &[Listener]) -> Listener {
        let address = self.actual.clone();
        match self.listener_in(listeners) {
            Some(Listener { protocols, freebind, .. }) => {
                Listener { address, protocols: *protocols, freebind: *freebind }
            }
            None => address.into(),
        }
    }

    /// The protocols of the listener that these sockets belong to.
    fn protocols(&self, listeners: &[Listener]) -> Protocols {
        self.listener_in(listeners).map_or(Protocols::default(), |listener| listener.protocols)
    }

    fn listener_in<'l>(&self, listeners: &'l [Listener]) -> Option<&'l Listener> {
        let own = listeners.iter().find(|listener| self.is(&listener.address));
        own.or_else(|| listeners.iter().find(|listener| listener.address.covers(&self.actual)))
    }

    /// Binds a TCP socket for each worker, so that the kernel distributes connections. Workers share one Unix socket.
    /// The new sockets listen only when the generation is about to serve, because clients of a socket that is closed
    /// again would be lost.
    fn share_out(&mut self, workers: usize, freebind: bool) -> Result<(), Errno> {
        if let (Address::Tcp(actual), SocketOrigin::Configured) = (&self.actual, self.origin) {
            while self.fds.len() < workers {
                match tcp_socket(*actual, freebind, Sharing::WithOtherWorkers) {
                    Ok(fd) => self.fds.push(Arc::new(fd)),
                    // Linux before 3.9: the workers share one socket.
                    Err(Errno::NOPROTOOPT) => break,
                    Err(errno) => return Err(errno),
                }
            }
        }
        Ok(())
    }
}

impl ListenError {
    /// Whether the problem depends on the user of the program.
    pub fn is_denied(&self) -> bool {
        self.why == Refusal::Errno(Errno::ACCESS)
    }

    /// Whether the machine has no IPv6, so that these addresses are served without `[::]`.
    pub fn leaves_it_out(&self, wanted: &[Listener]) -> bool {
        let is_every_ipv6 = matches!(self.address, Address::Tcp(address) if address.is_ipv6() && address.ip().is_unspecified());
        let is_ipv6 = |address: &Address| matches!(address, Address::Tcp(address) if address.is_ipv6());
        self.why == Refusal::Errno(Errno::AFNOSUPPORT)
            && is_every_ipv6
            && wanted.iter().any(|other| !is_ipv6(&other.address))
    }

    pub fn is_in_use(&self) -> bool {
        self.why == Refusal::Errno(Errno::ADDRINUSE)
    }

    /// Of an address that this flag or key has, in place of `--listen`.
    pub fn of_setting(self, setting: &'static str) -> ListenError {
        ListenError { setting, ..self }
    }

    /// The address as the configuration writes it.
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListenError { address, why, setting } = self;
        write!(out, "cannot listen on {address}: ")?;
        let Refusal::Errno(errno) = why else { return write!(out, "{why}") };
        match (*errno, address) {
            (Errno::ADDRINUSE, _) => {
                write!(out, "it is in use by another program; stop that, or choose another address in {setting}")
            }
            (Errno::EXIST, _) => {
                write!(out, "there is a file that is not a socket; remove it, or choose another path in {setting}")
            }
            (Errno::ACCESS, Address::Tcp(a)) if a.port() < 1024 => out.write_str(
                "no permission; ports below 1024 need root or CAP_NET_BIND_SERVICE; a port from 1024 up does not",
            ),
            (Errno::ACCESS, Address::Unix(_)) => {
                out.write_str("no permission; change the owner or the mode of its folder")
            }
            (Errno::AFNOSUPPORT, Address::Tcp(a)) if a.is_ipv6() => {
                write!(out, "this machine has no IPv6; remove it from {setting}")
            }
            (Errno::ADDRNOTAVAIL, _) => {
                write!(out, "this machine does not have that address; choose one that it has in {setting}")
            }
            (Errno::NOENT, Address::Unix(_)) => out.write_str("its folder does not exist; create it first"),
            (errno, _) => write!(out, "{errno}"),
        }
    }
}

/// The address of a listening socket. `None`: the descriptor is none.
fn address_of(fd: &OwnedFd) -> Option<Address> {
    if !sockopt::socket_acceptconn(fd).ok()? {
        return None;
    }
    let any: SocketAddrAny = getsockname(fd).ok()?;
    match SocketAddr::try_from(any.clone()) {
        Ok(address) => Some(Address::Tcp(address)),
        Err(_) => {
            let unix = SocketAddrUnix::try_from(any).ok()?;
            let path = unix.path()?.to_string_lossy().into_owned();
            Some(Address::Unix(path.into()))
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    No,
    WithOtherWorkers,
}

/// Why the server cannot listen there at this moment. `None`: it can. Changes nothing.
pub fn listen_problem(listener: &Listener) -> Option<ListenError> {
    let Listener { address, freebind, .. } = listener;
    let probed = match address {
        Address::Tcp(address) => {
            tcp_socket(*address, *freebind, Sharing::No).map(drop).map_err(Refusal::from)
        }
        Address::Unix(path) => Location::of(path).and_then(|location| match location.kind() {
            Ok(FileType::Socket) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                Err(Refusal::Errno(Errno::ADDRINUSE))
            }
            Ok(FileType::Socket) | Err(_) => location.could_make(),
            Ok(_) => Err(Refusal::Errno(Errno::EXIST)),
        }),
    };
    probed.err().map(|why| ListenError { address: address.clone(), why, setting: "`listen`" })
}

/// A listening socket without SO_REUSEPORT, for servers whose user is in the group of this program.
/// `setting`: the flag that has the address.
pub fn listen_alone(address: &Address, setting: &'static str) -> Result<OwnedFd, ListenError> {
    let opened = match address {
        Address::Tcp(address) => {
            let opened =
                tcp_socket(*address, false, Sharing::No).and_then(|fd| listen(&fd, BACKLOG).map(|()| fd));
            opened.map_err(Refusal::from)
        }
        Address::Unix(path) => unix_listener(path, FOR_SERVERS),
    };
    opened.map_err(|why| ListenError { address: address.clone(), why, setting })
}

fn tcp_listener(address: SocketAddr, freebind: bool) -> Result<OwnedFd, Errno> {
    let fd = match tcp_socket(address, freebind, Sharing::WithOtherWorkers) {
        Err(Errno::NOPROTOOPT) => tcp_socket(address, freebind, Sharing::No)?,
        opened => opened?,
    };
    listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// `freebind`: the machine may not have the address yet.
fn tcp_socket(address: SocketAddr, freebind: bool, sharing: Sharing) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if sharing == Sharing::WithOtherWorkers {
        sockopt::set_socket_reuseport(&fd, true)?;
    }
    // Accepted sockets inherit the option, which saves a system call for each.
    sockopt::set_tcp_nodelay(&fd, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    if freebind {
        // For IPv6, too: the option of that name is younger (Linux 4.15).
        sockopt::set_ip_freebind(&fd, true)?;
    }
    bind(&fd, &address)?;
    Ok(fd)
}

fn unix_listener(path: &Path, mode: Mode) -> Result<OwnedFd, Refusal> {
    let location = Location::of(path)?;
    location.with_rights(|| remove_stale(&location, path)).map_err(|errno| location.refused(errno))?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    // The umask sets the mode. A later chmod by name could change another file.
    let before = umask(Mode::from_raw_mode(0o777).difference(mode));
    let bound = location.with_rights(|| bind(&fd, &address));
    umask(before);
    bound.map_err(|errno| location.refused(errno))?;
    listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// Removes the socket of a server that has ended. Errors: a server accepts on it, or the file is no socket.
fn remove_stale(location: &Location, path: &Path) -> Result<(), Errno> {
    match location.kind() {
        Ok(FileType::Socket) if std::os::unix::net::UnixStream::connect(path).is_err() => location.remove(),
        Ok(FileType::Socket) => Err(Errno::ADDRINUSE),
        Ok(_) => Err(Errno::EXIST),
        Err(_) => Ok(()),
    }
}
