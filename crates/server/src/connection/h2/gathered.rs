//! Frames that are gathered for one write, with the log lines of the responses that are complete in them.

use std::mem::take;

use site::memory;

use crate::connection::output::{Output, Persistence};
use crate::log::EndReason;
use crate::log::access::Records;
use crate::services::{OutputBuffers, Services};

/// Bytes that are gathered for one write.
const CAPACITY: usize = memory::FRAMES as usize;
/// Space for the HEADERS of a response, and for frame headers.
const HEAD: usize = 1024;
/// Less than this is not gathered of a response that has more.
const LEAST: usize = 1024;

pub struct Gathered<'a> {
    services: &'a Services,
    pub out: Vec<u8>,
    pub records: Records,
}

impl<'a> Gathered<'a> {
    /// With buffers lent by the services.
    #[inline]
    pub fn new(services: &'a Services, buffers: OutputBuffers) -> Gathered<'a> {
        let OutputBuffers { mut out, records } = buffers;
        if out.capacity() < CAPACITY {
            out.reserve_exact(CAPACITY);
        }
        Gathered { services, out, records }
    }

    /// Whether the response to another request can follow in the same write.
    #[inline]
    pub fn accepts_more(&self) -> bool {
        !self.records.are_full() && space(&self.out) > 0
    }

    /// Whether a response with so many bytes of content fits.
    #[inline]
    pub fn has_space(&self, content: usize) -> bool {
        content <= space(&self.out)
    }

    #[inline]
    pub fn finish(mut self) -> Output {
        let (out, records) = (take(&mut self.out), take(&mut self.records));
        Output::of_bytes(out, records, Persistence::KeepAlive)
    }
}

impl Drop for Gathered<'_> {
    /// Writes the log lines of responses that are not sent because the next one panics.
    fn drop(&mut self) {
        self.services.access.write_unsent(&self.services.counts, &self.records, EndReason::dropped());
    }
}

/// Bytes of content that still fit, with their HEADERS; 0 if few do.
#[inline]
pub fn space(out: &[u8]) -> usize {
    match CAPACITY.saturating_sub(out.len() + HEAD) {
        few if few < LEAST => 0,
        space => space,
    }
}
