//! Log files as blocks of whole lines: plain ones, and those that a rotation has compressed.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use crate::gunzip::{Gunzip, Trailing};

/// Bytes of a block.
const BLOCK: usize = 4 << 20;
/// A longer line is cut in two.
const MAX_LINE: usize = 16 << 20;

/// The lines of one input.
pub struct LogInput {
    from: Box<dyn Read>,
    /// The first bytes are the beginning of a line whose end has not been read.
    buffer: Vec<u8>,
    filled: usize,
    is_over: bool,
    /// What has ended the input, if it is no end.
    error: Option<io::Error>,
}

impl LogInput {
    /// `-` is standard input. Errors: the sentence for the user.
    pub fn open(path: &Path) -> Result<LogInput, String> {
        let failed = |error: io::Error| format!("cannot read {}: {error}", path.display());
        match path.as_os_str() == "-" {
            true => LogInput::of(io::stdin().lock()).map_err(failed),
            false => match File::open(path) {
                Ok(file) => LogInput::of(file).map_err(failed),
                Err(error) => Err(failed(error) + "; check its path and its permissions"),
            },
        }
    }

    fn of(mut from: impl Read + 'static) -> io::Result<LogInput> {
        let mut magic = Vec::new();
        from.by_ref().take(4).read_to_end(&mut magic)?;
        let plain = Cursor::new(magic.clone()).chain(from);
        let from: Box<dyn Read> = match magic[..] {
            [0x1f, 0x8b, ..] => {
                Box::new(Gunzip::new(BufReader::with_capacity(1 << 17, plain), Trailing::Zeros))
            }
            [0x28, 0xb5, 0x2f, 0xfd] => zstd(plain)?,
            _ => Box::new(plain),
        };
        Ok(LogInput { from, buffer: vec![0; BLOCK], filled: 0, is_over: false, error: None })
    }

    /// Calls `take` with the next lines, with their ends. The last line may have none. `false`: there are no more.
    /// Errors: there are no more that can be read.
    pub fn next(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
        let is_end = |byte: &u8| *byte == b'\n';
        while !self.is_over {
            if self.filled == self.buffer.len() {
                self.buffer.resize(2 * self.filled, 0);
            }
            match self.from.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.is_over = true,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The lines in front of it come first. One that it has cut is none.
                Err(error) => {
                    self.filled = self.buffer[..self.filled].iter().rposition(is_end).map_or(0, |at| at + 1);
                    (self.is_over, self.error) = (true, Some(error));
                }
            }
            let whole = self.buffer[..self.filled].iter().rposition(is_end).map(|at| at + 1);
            let end = match whole {
                _ if self.is_over => self.filled,
                None if self.filled >= MAX_LINE => self.filled,
                // A block for each read would be small where the input is a pipe.
                Some(end) if self.filled == self.buffer.len() => end,
                _ => continue,
            };
            if end > 0 {
                take(&self.buffer[..end]);
                self.buffer.copy_within(end..self.filled, 0);
                self.filled -= end;
                return Ok(true);
            }
        }
        self.error.take().map_or(Ok(false), Err)
    }
}

#[cfg(feature = "compression")]
fn zstd(from: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let context = zstd_safe::DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
    Ok(Box::new(Zstd { from, context, input: vec![0; 1 << 17], at: 0, end: 0, is_open: false }))
}

#[cfg(not(feature = "compression"))]
fn zstd(_: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    Err(io::Error::other("this build cannot read zstd"))
}

#[cfg(feature = "compression")]
struct Zstd<R> {
    from: R,
    context: zstd_safe::DCtx<'static>,
    input: Vec<u8>,
    /// What of `input` is not decoded.
    at: usize,
    end: usize,
    /// A frame has begun, and not ended.
    is_open: bool,
}

#[cfg(feature = "compression")]
impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.at == self.end {
                (self.at, self.end) = (0, self.from.read(&mut self.input)?);
            }
            let is_over = self.end == 0;
            let mut input = zstd_safe::InBuffer::around(&self.input[self.at..self.end]);
            let mut output = zstd_safe::OutBuffer::around(&mut *out);
            let decoded = self.context.decompress_stream(&mut output, &mut input);
            let (read, written) = (input.pos(), output.pos());
            let left = decoded.map_err(|code| io::Error::other(zstd_safe::get_error_name(code)))?;
            self.at += read;
            if read > 0 || written > 0 {
                self.is_open = left > 0;
            }
            match written {
                0 if is_over && self.is_open => return Err(io::ErrorKind::UnexpectedEof.into()),
                0 if !is_over => {}
                _ => return Ok(written),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines(bytes: Vec<u8>) -> Vec<u8> {
        let mut input = LogInput::of(Cursor::new(bytes)).unwrap();
        let mut all = Vec::new();
        while input.next(|lines| all.extend_from_slice(lines)).unwrap() {}
        all
    }

    #[test]
    fn reads_plain_and_compressed_files() {
        let text: Vec<u8> =
            (0..300_000).flat_map(|number: u32| format!("line {number}\n").into_bytes()).collect();
        assert!(lines(text.clone()) == text);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let once = gzip.finish().unwrap();
        assert!(
            lines([&once[..], &once[..]].concat()) == [&text[..], &text[..]].concat(),
            "members follow one another"
        );
        assert_eq!(lines(b"one\ntwo".to_vec()), b"one\ntwo");
        assert_eq!(lines(Vec::new()), b"");
    }

    #[cfg(feature = "compression")]
    #[test]
    fn reads_zstd() {
        use crate::encoder::{Effort, encode};
        use taipan_http::negotiate::Coding;
        let text = b"some line\n".repeat(200_000);
        let whole = encode(Coding::Zstd, Effort::Quick, &text).unwrap();
        assert!(lines([&whole[..], &whole[..]].concat()) == [&text[..], &text[..]].concat());
        for length in 5..whole.len() {
            let mut input = LogInput::of(Cursor::new(whole[..length].to_vec())).unwrap();
            let error = std::iter::repeat_with(|| input.next(|_| {})).find_map(Result::err).unwrap();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{length} bytes");
        }
    }
}
