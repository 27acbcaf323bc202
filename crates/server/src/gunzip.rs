//! What is in a gzip file, read as `gunzip` reads it: members follow one another, and other bytes may follow the last.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::bufread::GzDecoder;

/// The first byte of each member.
const MAGIC: u8 = 0x1f;

/// What may follow the last member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trailing {
    /// As on tapes, and in files with space for more.
    Zeros,
    Anything,
}

pub struct Gunzip<R> {
    /// `None`: there is no other member.
    member: Option<GzDecoder<R>>,
    trailing: Trailing,
}

impl<R: BufRead> Gunzip<R> {
    pub fn new(from: R, trailing: Trailing) -> Gunzip<R> {
        Gunzip { member: Some(GzDecoder::new(from)), trailing }
    }
}

/// Whether another member follows one that has ended.
fn has_member(from: &mut impl BufRead, trailing: Trailing) -> io::Result<bool> {
    if from.fill_buf()?.first() == Some(&MAGIC) {
        return Ok(true);
    }
    if trailing == Trailing::Anything {
        return Ok(false);
    }
    loop {
        let bytes = from.fill_buf()?;
        if bytes.iter().any(|byte| *byte != 0) {
            let why = "bytes that are not gzip follow; what was before them has been read";
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        match bytes.len() {
            0 => return Ok(false),
            count => from.consume(count),
        }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(out)?;
            if count > 0 || out.is_empty() {
                return Ok(count);
            }
            // An error leaves the member as it is: after an interruption, the caller reads again.
            let has_member = has_member(member.get_mut(), self.trailing)?;
            let ended = self.member.take().filter(|_| has_member);
            self.member = ended.map(|ended| GzDecoder::new(ended.into_inner()));
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gunzip(bytes: &[u8], trailing: Trailing) -> Result<String, ErrorKind> {
        let mut text = String::new();
        // Where the reader has one byte at a time, too.
        for capacity in [1, 1 << 12] {
            text.clear();
            let from = io::BufReader::with_capacity(capacity, bytes);
            Gunzip::new(from, trailing).read_to_string(&mut text).map_err(|error| error.kind())?;
        }
        Ok(text)
    }

    #[test]
    fn reads_members_and_stops_at_what_is_none() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"text").unwrap();
        let gzip = gzip.finish().unwrap();
        let followed = |by: &[u8]| [&gzip[..], by].concat();
        use Trailing::{Anything, Zeros};
        for (bytes, trailing, expected) in [
            (followed(b""), Zeros, Ok("text")),
            (followed(&gzip), Anything, Ok("texttext")),
            (followed(&[0; 9000]), Zeros, Ok("text")),
            (followed(b"\0\0more"), Zeros, Err(ErrorKind::InvalidData)),
            (followed(b"more"), Anything, Ok("text")),
            (followed(&gzip[..12]), Anything, Err(ErrorKind::UnexpectedEof)),
            (gzip[..gzip.len() - 1].to_vec(), Anything, Err(ErrorKind::UnexpectedEof)),
            (b"more than a header".to_vec(), Anything, Err(ErrorKind::InvalidInput)),
        ] {
            assert_eq!(gunzip(&bytes, trailing), expected.map(str::to_owned), "{bytes:?}");
        }
    }
}
