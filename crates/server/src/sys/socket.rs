//! Options of sockets, and what only sockets of TLS and TCP have.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::c_int;

/// The bytes in a socket's send queue that the peer has not acknowledged (tcp(7), unix(7): SIOCOUTQ).
pub fn unsent(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as it is borrowed, and TIOCOUTQ writes one int.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(bytes.max(0) as u64) }
}

/// Limits the unsent bytes in a socket and in those accepted from it (tcp(7), TCP_NOTSENT_LOWAT). Bytes in flight do
/// not count.
pub fn limit_unsent(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_tcp_option(fd, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// The kernel holds a new connection back until the client has sent something, or for about so many seconds
/// (`tcp(7)`, TCP_DEFER_ACCEPT). 0: it does not.
pub fn defer_accept(fd: BorrowedFd<'_>, seconds: u32) -> io::Result<()> {
    set_tcp_option(fd, libc::TCP_DEFER_ACCEPT, seconds)
}

fn set_tcp_option(fd: BorrowedFd<'_>, option: c_int, value: u32) -> io::Result<()> {
    let size = size_of::<u32>() as libc::socklen_t;
    let value = (&raw const value).cast();
    // SAFETY: the descriptor is open for as long as it is borrowed, and the value is one int.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, option, value, size) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends a record of another type than content from a socket whose kernel encrypts (`TLS_SET_RECORD_TYPE` of the
/// kernel's TLS). Does not wait.
#[cfg(feature = "tls")]
pub fn send_tls_record(fd: BorrowedFd<'_>, kind: u8, content: &[u8]) -> io::Result<()> {
    /// A control message with one byte (cmsg(3)), as large as its alignment demands.
    #[repr(C)]
    struct Beside {
        header: libc::cmsghdr,
        kind: u8,
    }
    // SAFETY: zeros are valid in both structs, which consist of numbers and pointers.
    let (mut beside, mut message): (Beside, libc::msghdr) = unsafe { std::mem::zeroed() };
    (beside.header.cmsg_level, beside.header.cmsg_type) = (libc::SOL_TLS, libc::TLS_SET_RECORD_TYPE);
    beside.header.cmsg_len = (std::mem::offset_of!(Beside, kind) + 1) as _;
    beside.kind = kind;
    let mut part = libc::iovec { iov_base: content.as_ptr().cast_mut().cast(), iov_len: content.len() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = ((&raw mut beside).cast(), size_of::<Beside>() as _);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the message and what it points to live until the call returns, and the kernel only reads them.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, flags) };
    if sent == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
