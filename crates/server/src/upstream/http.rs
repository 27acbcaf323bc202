//! A request by HTTP/1.1 (RFC 9112): the client's side. The response decides whether the connection can have another
//! request.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use taipan_http::chunked::write_chunk;
use taipan_http::head::Persistence;
use taipan_http::trailers::{self, Trailers};
use taipan_http::write::put;

use super::head::HeadParser;
use super::idle_connections::OriginConnection;
use super::transport::{Connection, ReadError, Retry, Transport};
use crate::pool::PooledConnection;
use crate::pool::message::Fault;
use crate::request::body::Length;
use crate::services::Services;

pub struct Http {
    connection: Connection,
    head_parser: fn() -> HeadParser,
    body_ended: Cell<bool>,
    coding: TransferCoding,
    trailers: RefCell<Trailers>,
}

/// How the end of the body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransferCoding {
    /// By `Content-Length`, or there is none.
    Length,
    Chunked,
}

impl Http {
    /// `head`: of the request, as `http_head` writes it.
    pub fn new(
        services: &Rc<Services>,
        connection: Box<PooledConnection>,
        head: &[u8],
        head_parser: fn() -> HeadParser,
    ) -> Http {
        let connection = Connection::new(services, connection, head.to_vec());
        let trailers = RefCell::default();
        Http {
            connection,
            head_parser,
            body_ended: Cell::new(false),
            coding: TransferCoding::Length,
            trailers,
        }
    }

    /// Of a request without a body that the connection has.
    pub fn begun(connection: Connection) -> Http {
        let (body_ended, coding, trailers) = (Cell::new(true), TransferCoding::Length, RefCell::default());
        Http { connection, head_parser: HeadParser::http, body_ended, coding, trailers }
    }

    /// A request of the forward proxy, whose body has this length. `head`: as `direct_head` writes it.
    pub fn direct(
        services: &Rc<Services>,
        connection: Box<OriginConnection>,
        head: Vec<u8>,
        length: Length,
    ) -> Http {
        let coding = match length {
            Length::Unknown => TransferCoding::Chunked,
            Length::None | Length::Sized(_) => TransferCoding::Length,
        };
        let connection = Connection::new(services, connection, head);
        let (body_ended, trailers) = (Cell::new(false), RefCell::default());
        Http { connection, head_parser: HeadParser::http, body_ended, coding, trailers }
    }

    /// As `new`, with a body of unknown length, behind which there may be fields of these names.
    pub fn chunked(
        services: &Rc<Services>,
        connection: Box<PooledConnection>,
        head: &[u8],
        trailer: Option<&str>,
    ) -> Http {
        let fields = head.strip_suffix(b"\r\n").unwrap_or(head);
        let mut head = [fields, b"Transfer-Encoding: chunked\r\n"].concat();
        if let Some(names) = trailer {
            put(&mut head, &[b"Trailer: ", names.as_bytes(), b"\r\n"]);
        }
        put(&mut head, &[b"\r\n"]);
        Http { coding: TransferCoding::Chunked, ..Http::new(services, connection, &head, HeadParser::http) }
    }
}

impl Transport for Http {
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.poll_flush(cx)
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.coding {
            TransferCoding::Length => self.connection.poll_write(cx, bytes),
            TransferCoding::Chunked => {
                self.connection.poll_append(cx, |out| write_chunk(bytes, out)).map_ok(|()| bytes.len())
            }
        }
    }

    fn poll_end_body(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.coding == TransferCoding::Chunked && !self.body_ended.get() {
            let write = |out: &mut Vec<u8>| trailers::write_last_chunk(&self.trailers.take(), out);
            ready!(self.connection.poll_append(cx, write))?;
        }
        self.body_ended.set(true);
        self.connection.poll_flush(cx)
    }

    fn put_trailers(&self, trailers: Trailers) {
        self.trailers.replace(trailers);
    }

    fn is_connected(&self) -> bool {
        self.connection.is_connected()
    }

    fn head_parser(&self) -> HeadParser {
        (self.head_parser)()
    }

    fn take_connection(&self) -> Option<Box<PooledConnection>> {
        self.connection.take()
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        self.connection.poll_read(cx)
    }

    fn retry(&self) -> Retry {
        self.connection.retry()
    }

    fn report_failure(&self, fault: Fault, reason: &str) {
        self.connection.report_failure(fault, reason);
    }

    fn finish(&self, persistence: Persistence) {
        self.connection.finish(match self.body_ended.get() {
            true => persistence,
            // The endpoint would take the next request for the rest of the body.
            false => Persistence::Close,
        });
    }
}
