//! What the task of a connection shares with the tasks of its streams.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Waker;

use super::Http2;
use crate::connection::Connections;
use crate::connection::stream::Stream;
use crate::tls_facts::TlsFacts;

pub struct Shared {
    pub connections: Rc<Connections>,
    pub http2: RefCell<Http2>,
    /// The server's address.
    pub local: Option<SocketAddr>,
    /// `None`: it has no TLS.
    pub tls: Option<Rc<TlsFacts>>,
    /// Wakes the connection's task.
    waker: RefCell<Option<Waker>>,
}

impl Shared {
    /// For a connection with this stream.
    pub fn new(connections: Rc<Connections>, http2: Http2, stream: &Stream) -> Shared {
        let local = http2.destination.address().or_else(|| stream.local());
        let (http2, tls) = (RefCell::new(http2), stream.tls_facts());
        Shared { connections, http2, local, tls, waker: RefCell::default() }
    }

    /// `None`: a stream's task still has it.
    pub fn into_http2(shared: Rc<Shared>) -> Option<Http2> {
        Rc::into_inner(shared).map(|shared| shared.http2.into_inner())
    }

    /// From now on `wake` wakes this task.
    pub fn set_waker(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// Wakes the connection's task, because there is something to send.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}
