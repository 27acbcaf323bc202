//! RFC 8878. Its window is at most 8 MiB, which is the most that a client must accept (RFC 9659).

use std::io;

use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use super::{Effort, Encode};

/// Bytes that one step appends at most.
const STEP: usize = 16 * 1024;
/// The window of a stream, as a power of two: it bounds the memory of a response.
const STREAM_WINDOW: u32 = 17;
const LARGEST_WINDOW: u32 = 23;

pub struct Zstd(CCtx<'static>);

impl Zstd {
    pub fn new(effort: Effort, size: Option<u64>) -> io::Result<Zstd> {
        let mut context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        let (level, window) = match (effort, size.unwrap_or(u64::MAX)) {
            (Effort::Quick, _) => (3, STREAM_WINDOW),
            (Effort::Strong, 0..=0x4_0000) => (19, 0),
            (Effort::Strong, 0..=0x10_0000) => (16, 0),
            (Effort::Strong, _) => (11, LARGEST_WINDOW),
        };
        set(&mut context, CParameter::CompressionLevel(level))?;
        if window > 0 {
            set(&mut context, CParameter::WindowLog(window))?;
        }
        context.set_pledged_src_size(size).map_err(failed)?;
        Ok(Zstd(context))
    }

    /// For content of `size` bytes. `None`: the dictionary and the content do not fit into a window.
    #[cfg(feature = "brotli")]
    pub fn with_dictionary(dictionary: &[u8], size: u64) -> io::Result<Option<Zstd>> {
        let window = (dictionary.len() as u64 + size).max(1024).ilog2() + 1;
        // With this magic number, it would not be taken for a raw one.
        let is_formatted = dictionary.starts_with(&zstd_safe::MAGIC_DICTIONARY.to_le_bytes());
        if window > LARGEST_WINDOW || is_formatted {
            return Ok(None);
        }
        let mut context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        set(&mut context, CParameter::CompressionLevel(if size <= 0x10_0000 { 15 } else { 9 }))?;
        set(&mut context, CParameter::WindowLog(window))?;
        // Without the header of a dictionary of zstd, all of it counts as content that went before.
        context.load_dictionary(dictionary).map_err(failed)?;
        context.set_pledged_src_size(Some(size)).map_err(failed)?;
        Ok(Some(Zstd(context)))
    }

    fn step(&mut self, input: &[u8], out: &mut Vec<u8>, what: ZSTD_EndDirective) -> io::Result<()> {
        let mut input = InBuffer::around(input);
        loop {
            let at = out.len();
            out.reserve(STEP);
            let mut buffer = OutBuffer::around_pos(out, at);
            let left = self.0.compress_stream2(&mut buffer, &mut input, what).map_err(failed)?;
            let is_done = match what {
                ZSTD_EndDirective::ZSTD_e_continue => input.pos() == input.src.len(),
                ZSTD_EndDirective::ZSTD_e_flush | ZSTD_EndDirective::ZSTD_e_end => left == 0,
            };
            if is_done {
                return Ok(());
            }
        }
    }
}

impl Encode for Zstd {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.step(input, out, ZSTD_EndDirective::ZSTD_e_continue)
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.step(&[], out, ZSTD_EndDirective::ZSTD_e_flush)
    }

    fn finish(mut self: Box<Self>, out: &mut Vec<u8>) -> io::Result<()> {
        self.step(&[], out, ZSTD_EndDirective::ZSTD_e_end)
    }
}

fn set(context: &mut CCtx<'_>, parameter: CParameter) -> io::Result<()> {
    context.set_parameter(parameter).map(drop).map_err(failed)
}

fn failed(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}
