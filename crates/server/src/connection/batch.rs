//! The responses to pipelined requests, gathered in an output for one write.
//!
//! Knows nothing of sockets.

use site::memory;
use taipan_http::head::Version;

use super::log_guard::LogGuard;
use super::output::{Output, Persistence, TransferCoding};
use crate::log::access::Records;
use crate::response::{Body, Response};
use crate::services::{OutputBuffers, Services};

/// Bytes that a batch gathers for one write.
const GATHER: usize = memory::BATCH as usize;

pub struct Batch<'a> {
    /// Writes the log lines of responses that are not sent because the next one panics.
    output: LogGuard<'a>,
}

impl<'a> Batch<'a> {
    /// In an output that is empty, with buffers lent by the services.
    #[inline]
    pub fn new(services: &'a Services, buffers: OutputBuffers, output: &'a mut Output) -> Batch<'a> {
        debug_assert!(output.is_empty());
        (output.out, output.records) = (buffers.out, buffers.records);
        Batch { output: LogGuard::new(services, output) }
    }

    /// As `new`, while nothing else uses the worker's buffers.
    pub fn lent(services: &'a Services, output: &'a mut Output) -> Batch<'a> {
        Batch::new(services, services.scratch.borrow_mut().lend(), output)
    }

    /// The log lines of the responses.
    #[inline]
    pub fn records(&mut self) -> &mut Records {
        &mut self.output.records
    }

    /// Adds a response, with the `line` that `connection_line` gave for it. A single response without a line, the
    /// usual case, is sent without a copy; all others are copied.
    #[inline]
    pub fn push(&mut self, mut response: Response, persistence: Persistence, version: Version, line: &[u8]) {
        let output = &mut *self.output;
        if let Some(before) = output.response.take() {
            // One allocation for the whole batch.
            output.out.reserve_exact(GATHER.saturating_sub(output.out.len()));
            output.out.extend_from_slice(before.bytes());
        }
        output.free = output.out.len();
        output.persistence = persistence;
        output.coding = coding(&response, version);
        if !line.is_empty() {
            response.head.write_with(line, &mut output.out);
            response.start = response.head.head_len();
        }
        output.response = Some(response);
    }

    /// Whether another response can follow in the same write. All but the last are copied.
    #[inline]
    pub fn accepts_more(&self) -> bool {
        self.output.response.as_ref().is_none_or(|response| self.fits(response))
            && !self.output.persistence.closes()
            && !self.output.records.are_full()
    }

    /// Whether a response fits behind the bytes that are gathered.
    #[inline]
    fn fits(&self, response: &Response) -> bool {
        matches!(response.body, Body::Nothing)
            && response.throttle.is_none()
            && self.output.out.len() + response.bytes().len() <= GATHER
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.output.response.is_none()
    }

    /// The output can be sent.
    #[inline]
    pub fn finish(mut self) {
        // With anything gathered, a small response goes out in the same write.
        if !self.output.out.is_empty()
            && self.output.response.as_ref().is_some_and(|response| self.fits(response))
            && let Some(response) = self.output.response.take()
        {
            self.output.out.extend_from_slice(response.bytes());
        }
        self.output.disarm();
    }

    /// Empties the output, which is not sent. Returns its buffers.
    #[inline]
    pub fn cancel(mut self) -> OutputBuffers {
        let (buffers, _) = self.output.take_buffers();
        self.output.disarm();
        buffers
    }
}

/// The line that a response head still lacks: whether the connection stays open, and how the body ends.
#[inline]
pub fn connection_line(response: &Response, persistence: Persistence, version: Version) -> &'static [u8] {
    if response.switches() {
        return b"";
    }
    match (coding(response, version), persistence) {
        (TransferCoding::None, Persistence::KeepAlive) => b"",
        (TransferCoding::None, Persistence::KeepAliveHttp10) => b"Connection: keep-alive\r\n",
        (TransferCoding::None, Persistence::Close | Persistence::LingeringClose) => b"Connection: close\r\n",
        (TransferCoding::Chunked, Persistence::Close | Persistence::LingeringClose) => {
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n"
        }
        (TransferCoding::Chunked, _) => b"Transfer-Encoding: chunked\r\n",
    }
}

fn coding(response: &Response, version: Version) -> TransferCoding {
    match version {
        Version::Http11 if response.is_streamed() => TransferCoding::Chunked,
        _ => TransferCoding::None,
    }
}
