//! The chunked coding. The result does not depend on how the bytes are cut. A reader that looks for lines finds the
//! same body. An encoded body decodes to itself.

use taipan_http::chunked::{CRLF, ChunkError, ChunkLimits, Decoder, Event, LAST_CHUNK, write_chunk};
use taipan_http::fields::unquoted;

use crate::cuts::cuts;

/// Small, so that short inputs reach them.
const SMALL: ChunkLimits = ChunkLimits { line: 20, extensions: 30, trailers: 30 };

/// The bytes follow a request head. They are the data of a body, too.
pub fn chunked(data: &[u8]) {
    for limits in [SMALL, ChunkLimits::default()] {
        let whole = read([data], limits);
        assert_eq!(read(data.chunks(1), limits), whole, "byte by byte");
        let [a, b, c, d] = cuts(data);
        let parts = [&data[..a], &data[a..b], &data[b..c], &data[c..d], &data[d..]];
        assert_eq!(read(parts, limits), whole, "cut at {a}, {b}, {c}, {d}");
        if let (body, Outcome::Ended(used)) = whole {
            assert_eq!(by_lines(data), Some((body, used)));
        }
    }
    let [a, b, c, d] = cuts(data);
    let mut coded = Vec::new();
    for part in [&data[..a], &data[a..b], &data[b..c], &data[c..d], &data[d..]] {
        write_chunk(part, &mut coded);
    }
    coded.extend_from_slice(LAST_CHUNK);
    let len = coded.len();
    coded.extend_from_slice(data);
    assert_eq!(read([&*coded], ChunkLimits::default()), (data.to_vec(), Outcome::Ended(len)));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unfinished,
    /// The length of the encoded body.
    Ended(usize),
    Refused(ChunkError),
}

/// The data and the outcome.
fn read<'a>(parts: impl IntoIterator<Item = &'a [u8]>, limits: ChunkLimits) -> (Vec<u8>, Outcome) {
    let mut decoder = Decoder::new(limits);
    let (mut body, mut used) = (Vec::new(), 0);
    for mut part in parts {
        // Bounded: `Data` consumes at least one byte, and every other event returns or breaks.
        loop {
            let pending = decoder.pending();
            match decoder.next(part) {
                Ok((taken, Event::Data(data))) => {
                    let len = data.len() as u64;
                    assert!(
                        pending == 0 || pending == len + decoder.pending(),
                        "a size is the number of bytes"
                    );
                    assert!(!data.is_empty() && part[..taken].ends_with(data));
                    body.extend_from_slice(data);
                    used += taken;
                    part = &part[taken..];
                }
                Ok((taken, Event::NeedMore)) => {
                    assert_eq!(taken, part.len());
                    used += taken;
                    break;
                }
                Ok((taken, Event::End)) => {
                    assert_eq!(decoder.next(b"0\r\n"), Ok((0, Event::End)), "the end is final");
                    return (body, Outcome::Ended(used + taken));
                }
                Err(error) => {
                    assert!(error.status().is_error());
                    assert_eq!(decoder.next(b"0\r\n\r\n"), Err(error), "an error is final");
                    return (body, Outcome::Refused(error));
                }
            }
        }
    }
    (body, Outcome::Unfinished)
}

/// The valid body at the start of `bytes`, and its encoded length. Reads line by line.
fn by_lines(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut rest = bytes;
    let mut body = Vec::new();
    loop {
        let line = line(&mut rest)?;
        let ends_outside_quotes = unquoted(&[line, CRLF].concat(), b'\r') == Some(line.len());
        assert!(ends_outside_quotes, "an extension ends with its line");
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = std::str::from_utf8(&line[..digits]).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            break;
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(CRLF)?;
    }
    while !line(&mut rest)?.is_empty() {}
    Some((body, bytes.len() - rest.len()))
}

fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|pair| pair == CRLF)?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    Some(line)
}
