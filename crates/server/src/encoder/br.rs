//! RFC 7932. With a raw dictionary: RFC 9841.

use std::io;

use brotli::enc::StandardAlloc;
use brotli::enc::backward_references::BrotliEncoderParams;
use brotli::enc::encode::{
    BrotliEncoderDestroyInstance, BrotliEncoderOperation as Operation, BrotliEncoderStateStruct,
};

use super::{Effort, Encode};

/// The window of a stream, as a power of two: it bounds the memory of a response.
const STREAM_WINDOW: i32 = 17;
const WINDOW: i32 = 22;
/// The largest (RFC 7932 §9.1).
const LARGEST_WINDOW: i32 = 24;
const LEAST_WINDOW: i32 = 12;
/// Bytes that one step appends at most.
const STEP: usize = 16 * 1024;

pub struct Br(BrotliEncoderStateStruct<StandardAlloc>);

impl Br {
    pub fn new(effort: Effort, size: Option<u64>) -> Br {
        let (quality, window) = match (effort, size.unwrap_or(u64::MAX)) {
            (Effort::Quick, _) => (4, STREAM_WINDOW),
            (Effort::Strong, 0..=0x4_0000) => (11, WINDOW),
            (Effort::Strong, 0..=0x10_0000) => (7, WINDOW),
            (Effort::Strong, _) => (5, WINDOW),
        };
        // A window that is larger than the content only takes memory.
        Br::with(quality, window.min(size.map_or(WINDOW, window_of)), size)
    }

    /// For content of `size` bytes. `None`: the dictionary and the content do not fit into a window, and the encoder
    /// knows a dictionary only within it.
    pub fn with_dictionary(dictionary: &[u8], size: u64) -> Option<Br> {
        let window = window_of(dictionary.len() as u64 + size + 16);
        if window > LARGEST_WINDOW {
            return None;
        }
        let quality = if size <= 0x4_0000 { 9 } else { 5 };
        let mut br = Br::with(quality, window, Some(size));
        br.0.set_custom_dictionary(dictionary.len(), dictionary);
        Some(br)
    }

    fn with(quality: i32, lgwin: i32, size: Option<u64>) -> Br {
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        let size_hint = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        state.params = BrotliEncoderParams { quality, lgwin, size_hint, ..BrotliEncoderParams::default() };
        Br(state)
    }

    fn step(&mut self, operation: Operation, input: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let (mut left, mut from) = (input.len(), 0);
        loop {
            let start = out.len();
            out.resize(start + STEP, 0);
            let (mut space, mut written) = (STEP, 0);
            let is_done = self.0.compress_stream(
                operation,
                &mut left,
                input,
                &mut from,
                &mut space,
                &mut out[start..],
                &mut written,
                &mut None,
                &mut |_, _, _, _| (),
            );
            out.truncate(start + written);
            if !is_done {
                return Err(io::Error::other("the encoder of br failed"));
            }
            let ends = match operation {
                Operation::BROTLI_OPERATION_FINISH => self.0.is_finished(),
                _ => left == 0 && !self.0.has_more_output(),
            };
            if ends {
                return Ok(());
            }
        }
    }
}

/// The smallest window that has so many bytes, as a power of two.
fn window_of(size: u64) -> i32 {
    (size.max(1).ilog2() + 1).cast_signed().max(LEAST_WINDOW)
}

impl Encode for Br {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.step(Operation::BROTLI_OPERATION_PROCESS, input, out)
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.step(Operation::BROTLI_OPERATION_FLUSH, &[], out)
    }

    fn finish(mut self: Box<Self>, out: &mut Vec<u8>) -> io::Result<()> {
        self.step(Operation::BROTLI_OPERATION_FINISH, &[], out)
    }
}

impl Drop for Br {
    fn drop(&mut self) {
        BrotliEncoderDestroyInstance(&mut self.0);
    }
}
