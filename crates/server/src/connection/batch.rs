//! The responses to pipelined requests, gathered for one write.
//!
//! Knows nothing of sockets.

use std::mem::take;

use site::memory;
use taipan_http::head::Version;

use super::output::{Coding, Output, Persistence};
use crate::log::EndReason;
use crate::log::access::Records;
use crate::response::{Body, Response};
use crate::services::Services;

/// Bytes that a batch gathers for one write.
const GATHER: usize = memory::BATCH as usize;

pub struct Batch<'a> {
    services: &'a Services,
    out: Vec<u8>,
    /// The last response, behind those in `out`.
    response: Option<Response>,
    coding: Coding,
    pub records: Records,
    persistence: Persistence,
}

impl<'a> Batch<'a> {
    /// With buffers lent by the services.
    pub fn new(services: &'a Services, (out, records): (Vec<u8>, Records)) -> Batch<'a> {
        Batch {
            services,
            out,
            response: None,
            coding: Coding::None,
            records,
            persistence: Persistence::KeepAlive,
        }
    }

    /// As `new`, while nothing else uses the worker's buffers.
    pub fn lent(services: &'a Services) -> Batch<'a> {
        Batch::new(services, services.scratch.borrow_mut().lend())
    }

    /// Adds a response, with the `line` that `connection_line` gave for it. A single response without a line, the
    /// usual case, is sent without a copy; all others are copied.
    #[inline]
    pub fn push(&mut self, mut response: Response, persistence: Persistence, version: Version, line: &[u8]) {
        if let Some(before) = self.response.take() {
            // One allocation for the whole batch.
            self.out.reserve_exact(GATHER.saturating_sub(self.out.len()));
            self.out.extend_from_slice(before.bytes());
        }
        self.persistence = persistence;
        self.coding = coding(&response, version);
        if !line.is_empty() {
            response.head.write_with(line, &mut self.out);
            response.start = response.head.head_len();
        }
        self.response = Some(response);
    }

    /// Whether another response can follow in the same write. All but the last are copied.
    #[inline]
    pub fn accepts_more(&self) -> bool {
        self.response.as_ref().is_none_or(|response| self.fits(response))
            && !self.persistence.closes()
            && !self.records.are_full()
    }

    /// Whether a response fits behind the bytes that are gathered.
    #[inline]
    fn fits(&self, response: &Response) -> bool {
        matches!(response.body, Body::Nothing)
            && response.throttle.is_none()
            && self.out.len() + response.bytes().len() <= GATHER
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.response.is_none()
    }

    #[inline]
    pub fn finish(mut self) -> Output {
        // With anything gathered, a small response goes out in the same write.
        if !self.out.is_empty()
            && let Some(response) = &self.response
            && self.fits(response)
        {
            self.out.extend_from_slice(response.bytes());
            self.response = None;
        }
        let (out, records) = (take(&mut self.out), take(&mut self.records));
        Output::new(out, self.response.take(), self.coding, records, self.persistence)
    }

    /// The buffers of a batch that is not sent.
    pub fn into_buffers(mut self) -> (Vec<u8>, Records) {
        (take(&mut self.out), take(&mut self.records))
    }
}

impl Drop for Batch<'_> {
    /// Writes the log lines of responses that are not sent because the next one panics.
    #[inline]
    fn drop(&mut self) {
        self.services.access.write(&self.services.counts, &self.records, 0, None, Some(EndReason::dropped()));
    }
}

/// The line that a response head still lacks: whether the connection stays open, and how the body ends.
#[inline]
pub fn connection_line(response: &Response, persistence: Persistence, version: Version) -> &'static [u8] {
    if response.switches() {
        return b"";
    }
    match (coding(response, version), persistence) {
        (Coding::None, Persistence::KeepAlive) => b"",
        (Coding::None, Persistence::KeepAliveHttp10) => b"Connection: keep-alive\r\n",
        (Coding::None, Persistence::Close | Persistence::LingeringClose) => b"Connection: close\r\n",
        (Coding::Chunked, Persistence::Close | Persistence::LingeringClose) => {
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n"
        }
        (Coding::Chunked, _) => b"Transfer-Encoding: chunked\r\n",
    }
}

fn coding(response: &Response, version: Version) -> Coding {
    match version {
        Version::Http11 if response.is_streamed() => Coding::Chunked,
        _ => Coding::None,
    }
}
