//! A request by SCGI: a netstring of its environment, then its body. The response is that of a CGI script, and ends
//! with the connection.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use script::environment::Environment;
use taipan_http::head::Persistence;

use super::transport::{Connection, ReadError, Retry, Transport};
use crate::pool::PooledConnection;
use crate::pool::message::Fault;
use crate::services::Services;

pub struct Scgi(Connection);

impl Scgi {
    /// `head` is that of `request_head`.
    pub fn new(services: &Rc<Services>, connection: Box<PooledConnection>, head: &[u8]) -> Scgi {
        Scgi(Connection::new(services, connection, head.to_vec()))
    }
}

/// The request up to its body, which has `length` bytes.
pub fn request_head(environment: &Environment, length: u64) -> Vec<u8> {
    let mut head = Vec::new();
    script::scgi::encode(environment, length, &mut head);
    head
}

impl Transport for Scgi {
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx)
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bytes)
    }

    fn is_connected(&self) -> bool {
        self.0.is_connected()
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        self.0.poll_read(cx)
    }

    fn retry(&self) -> Retry {
        self.0.retry()
    }

    fn report_failure(&self, fault: Fault, reason: &str) {
        self.0.report_failure(fault, reason);
    }

    fn finish(&self, _: Persistence) {
        self.0.finish(Persistence::Close);
    }
}
