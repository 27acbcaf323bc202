//! RFC 7932.

use std::io::{self, Write};

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;

use super::{Effort, Encode};

/// The window of a stream, as a power of two: it bounds the memory of a response.
const STREAM_WINDOW: i32 = 17;
const WINDOW: i32 = 22;
const LEAST_WINDOW: i32 = 12;
/// Bytes between the encoder and its output.
const BUFFER: usize = 4096;

pub struct Br(CompressorWriter<Vec<u8>>);

impl Br {
    pub fn new(effort: Effort, size: Option<u64>) -> Br {
        let (quality, window) = match (effort, size.unwrap_or(u64::MAX)) {
            (Effort::Quick, _) => (4, STREAM_WINDOW),
            (Effort::Strong, 0..=0x4_0000) => (11, WINDOW),
            (Effort::Strong, 0..=0x10_0000) => (7, WINDOW),
            (Effort::Strong, _) => (5, WINDOW),
        };
        // A window that is larger than the content only takes memory.
        let needed = size.map_or(WINDOW, |size| (size.max(1).ilog2() + 1).cast_signed());
        let lgwin = window.min(needed.max(LEAST_WINDOW));
        let size_hint = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let params = BrotliEncoderParams { quality, lgwin, size_hint, ..BrotliEncoderParams::default() };
        Br(CompressorWriter::with_params(Vec::new(), BUFFER, &params))
    }
}

impl Encode for Br {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.0.write_all(input)?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.0.flush()?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn finish(self: Box<Self>, out: &mut Vec<u8>) -> io::Result<()> {
        out.append(&mut self.0.into_inner());
        Ok(())
    }
}
