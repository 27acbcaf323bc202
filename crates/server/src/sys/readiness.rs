//! Descriptors in the loop of a runtime: waiting until they are ready, and receiving.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// Registers `fd` with the current runtime.
pub fn watch<T: OwnsFd>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: a value that `OwnsFd` has the same open descriptor for as long as it lives.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}

/// Waits until `fd` can be read. Only one task may wait for it: `AsyncFd::readable` would add the task to a list of
/// waiters each time.
pub async fn readable<T: AsRawFd>(fd: &AsyncFd<T>) -> io::Result<AsyncFdReadyGuard<'_, T>> {
    poll_fn(|cx| fd.poll_read_ready(cx)).await
}

/// Calls `receive` when there may be something to read, and again while it is interrupted or finds nothing. `receive`
/// does not wait. Returns the bytes, and the guard by which the caller tells that it has read all there was.
#[inline]
pub fn poll_receive<'a, S: AsRawFd>(
    socket: &'a AsyncFd<S>,
    cx: &mut Context<'_>,
    mut receive: impl FnMut(&S) -> io::Result<usize>,
) -> Poll<io::Result<(usize, AsyncFdReadyGuard<'a, S>)>> {
    loop {
        let mut ready = ready!(socket.poll_read_ready(cx))?;
        match ready.try_io(|socket| receive(socket.get_ref())) {
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(received) => return Poll::Ready(received.map(|bytes| (bytes, ready))),
            Err(_would_block) => {}
        }
    }
}

/// Reads the received bytes that fit into `buffer`. 0: the end.
#[inline]
pub fn poll_read<S: AsRawFd + AsFd>(
    socket: &AsyncFd<S>,
    cx: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    let receive = |socket: &S| Ok(rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT)?.0);
    let (bytes, mut ready) = ready!(poll_receive(socket, cx, receive))?;
    if (1..buffer.len()).contains(&bytes) {
        // That was all there is. The arrival of more is an event of its own.
        ready.clear_ready();
    }
    Poll::Ready(Ok(bytes))
}

/// A value that owns one descriptor for all its life.
pub trait OwnsFd: AsRawFd {}

impl OwnsFd for OwnedFd {}

impl<T: OwnsFd> OwnsFd for Arc<T> {}

impl<T: OwnsFd> OwnsFd for Rc<T> {}
