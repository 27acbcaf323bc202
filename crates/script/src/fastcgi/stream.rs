//! Writes streams (§3.3): content of any length as records, and the empty record at the end.

use super::RequestId;
use super::record::{HEADER_LEN, Header, Kind, MAX_CONTENT};

/// Appends `bytes` as records. Appends nothing for no bytes: an empty record would end the stream.
pub(super) fn write(kind: Kind, id: RequestId, bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + bytes.len().div_ceil(MAX_CONTENT) * HEADER_LEN);
    for content in bytes.chunks(MAX_CONTENT) {
        out.extend(Header::new(kind, id.0, content.len() as u16).to_bytes());
        out.extend_from_slice(content);
    }
}

pub(super) fn end(kind: Kind, id: RequestId, out: &mut Vec<u8>) {
    out.extend(Header::new(kind, id.0, 0).to_bytes());
}

/// Appends the content that `make` writes as a whole stream, in as few records as possible.
pub(super) fn write_whole(kind: Kind, id: RequestId, out: &mut Vec<u8>, make: impl FnOnce(&mut Vec<u8>)) {
    let header = out.len();
    end(kind, id, out);
    make(out);
    match out.len() - header - HEADER_LEN {
        // The first header is the end of the stream.
        0 => return,
        len @ 1..=MAX_CONTENT => {
            let header = &mut out[header..header + HEADER_LEN];
            header.copy_from_slice(&Header::new(kind, id.0, len as u16).to_bytes());
        }
        _ => {
            let content = out.split_off(header);
            write(kind, id, &content[HEADER_LEN..], out);
        }
    }
    end(kind, id, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: RequestId = RequestId(7);

    fn lengths(mut bytes: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        while let Some((header, rest)) = bytes.split_at_checked(HEADER_LEN) {
            let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
            lengths.push(len);
            bytes = &rest[len..];
        }
        lengths
    }

    #[test]
    fn writes_streams_in_few_records() {
        let check = |pieces: &[usize], expected: &[usize]| {
            let mut out = b"before".to_vec();
            write_whole(Kind::Params, ID, &mut out, |out| {
                pieces.iter().for_each(|len| out.extend_from_slice(&vec![b'x'; *len]));
            });
            assert_eq!(lengths(&out[6..]), expected, "{pieces:?}");
        };
        check(&[], &[0]);
        check(&[0, 0], &[0]);
        check(&[1, 0, 2], &[3, 0]);
        check(&[MAX_CONTENT], &[MAX_CONTENT, 0]);
        check(&[MAX_CONTENT, 1], &[MAX_CONTENT, 1, 0]);
        check(&[10, MAX_CONTENT], &[MAX_CONTENT, 10, 0]);
        check(&[3 * MAX_CONTENT + 5], &[MAX_CONTENT, MAX_CONTENT, MAX_CONTENT, 5, 0]);

        let mut out = Vec::new();
        write(Kind::Stdin, ID, b"", &mut out);
        assert_eq!(out, b"");
        write(Kind::Stdin, ID, &[b'x'; MAX_CONTENT + 1], &mut out);
        assert_eq!(lengths(&out), [MAX_CONTENT, 1]);
    }
}
