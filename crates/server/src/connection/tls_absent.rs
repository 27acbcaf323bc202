//! The same interface as `tls`, in a program that is built without TLS: no session ever begins.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::io::Errno;

use crate::connection::stream::More;
use crate::services::Services;
use crate::tls::ServerTls;
use crate::tls::kernel::Control;
use crate::tls_facts::TlsFacts;

pub struct Acceptor(Infallible);

pub struct Session(Infallible);

#[derive(Debug)]
pub enum Failure {
    NotTls(Vec<u8>),
    UnknownName,
    TimedOut,
    Cut,
}

impl Failure {
    pub fn has_alert(&self) -> bool {
        false
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("this program is built without TLS")
    }
}

impl Acceptor {
    pub fn new(tls: Arc<ServerTls>, _: Rc<Services>) -> Acceptor {
        match *tls {}
    }

    pub fn accept(&self) -> Session {
        match self.0 {}
    }
}

impl Session {
    pub fn is_handshaking(&self) -> bool {
        match self.0 {}
    }

    pub fn is_signing(&self) -> bool {
        match self.0 {}
    }

    pub fn poll_signed(
        &mut self,
        _: &mut Context<'_>,
        _: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> Poll<Result<(), Errno>> {
        match self.0 {}
    }

    pub fn has_negotiated_http2(&self) -> bool {
        match self.0 {}
    }

    pub fn is_within_record(&self) -> bool {
        match self.0 {}
    }

    pub fn is_new(&self) -> bool {
        match self.0 {}
    }

    pub fn facts(&self) -> Option<Rc<TlsFacts>> {
        match self.0 {}
    }

    pub fn logged_facts(&self) -> Option<Rc<TlsFacts>> {
        match self.0 {}
    }

    pub fn failure(&self) -> Option<&Failure> {
        match self.0 {}
    }

    pub fn into_failure(self) -> Option<Failure> {
        match self.0 {}
    }

    pub fn has_plaintext(&self) -> bool {
        match self.0 {}
    }

    pub fn is_in_kernel(&self) -> bool {
        match self.0 {}
    }

    pub fn can_move_to_kernel(&self, _: u64) -> bool {
        match self.0 {}
    }

    pub fn move_to_kernel(&mut self, _: impl FnOnce(&Infallible) -> io::Result<()>) -> io::Result<()> {
        match self.0 {}
    }

    pub fn receive_from_kernel(
        &mut self,
        _: &mut [u8],
        _: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
        _: impl FnOnce() -> Result<Control, Errno>,
    ) -> Result<usize, Errno> {
        match self.0 {}
    }

    pub fn send_by_kernel(&mut self, _: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        match self.0 {}
    }

    pub fn unsent(&self) -> usize {
        match self.0 {}
    }

    pub fn receive(
        &mut self,
        _: &mut [u8],
        _: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
        _: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> Result<usize, Errno> {
        match self.0 {}
    }

    pub fn send(
        &mut self,
        _: &[u8],
        _: More,
        _: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match self.0 {}
    }

    pub fn send_file(
        &mut self,
        _: usize,
        _: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
        _: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        match self.0 {}
    }

    pub fn flush(&mut self, _: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        match self.0 {}
    }

    pub fn close(&mut self, _: impl FnMut(&[u8]) -> io::Result<usize>) {
        match self.0 {}
    }

    pub fn cut(&mut self) {
        match self.0 {}
    }
}
