//! A build without TLS: there are no sessions.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;

use crate::tls::{ClientTls, Offer};

pub enum Session {}

impl Session {
    pub fn new(tls: &ClientTls, _: usize, _: Offer) -> Option<Session> {
        match *tls {}
    }

    pub fn is_http2(&self) -> bool {
        match *self {}
    }

    pub fn poll_handshake(&mut self, _: &mut Context<'_>, _: &AsyncFd<OwnedFd>) -> Poll<io::Result<()>> {
        match *self {}
    }

    pub fn poll_read(
        &mut self,
        _: &mut Context<'_>,
        _: &AsyncFd<OwnedFd>,
        _: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match *self {}
    }

    pub fn poll_write(
        &mut self,
        _: &mut Context<'_>,
        _: &AsyncFd<OwnedFd>,
        _: &[u8],
    ) -> Poll<io::Result<usize>> {
        match *self {}
    }

    pub fn poll_flush(&mut self, _: &mut Context<'_>, _: &AsyncFd<OwnedFd>) -> Poll<io::Result<()>> {
        match *self {}
    }

    pub fn is_open(&mut self, _: &OwnedFd) -> bool {
        match *self {}
    }

    pub fn close(&mut self, _: &OwnedFd) {
        match *self {}
    }
}
