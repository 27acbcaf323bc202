//! Field blocks. A decoder never gives more than its limit, whatever it has read before. A block that is written is
//! read back.

use taipan_h2::error::HpackError;
use taipan_h2::hpack::Decoder;
use taipan_h2::response::{write_fields, write_head};

use crate::cuts::{first_line, unescaped};

const MAX_LIST: usize = 500;
const TABLE: usize = 200;

/// Blocks in lines, with `%` and two hexadecimal digits for a byte. The bytes are a value, too.
pub fn hpack(data: &[u8]) {
    let mut decoder = Decoder::new(TABLE, MAX_LIST);
    let mut rest = data;
    while !rest.is_empty() {
        let (line, after) = first_line(rest);
        rest = after;
        let fields = match decode(&mut decoder, &unescaped(line)) {
            Ok(fields) => fields,
            Err(HpackError::ListTooLarge) => continue,
            Err(HpackError::Malformed | HpackError::Incomplete) => break,
        };
        check_written(&fields);
    }
    let value = unescaped(data);
    check_written(&[(b"x-value".to_vec(), value.clone()), (b"date".to_vec(), value)]);
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, HpackError> {
    let (mut fields, mut size) = (Vec::new(), 0);
    let result = decoder.decode(block, |name, value| {
        size += name.len() + value.len() + 32;
        fields.push((name.to_vec(), value.to_vec()));
        Ok(())
    });
    assert!(size <= MAX_LIST, "{size} bytes");
    result.map(|()| fields)
}

/// Writes the fields, with their names in lower case and without those that HTTP/2 does not allow.
fn check_written(fields: &[(Vec<u8>, Vec<u8>)]) {
    let mut block = Vec::new();
    let pairs = || fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
    let date = write_head(200, pairs(), &mut block);
    let mut found = Vec::new();
    let mut decoder = Decoder::new(TABLE, usize::MAX);
    let read = decoder.decode(&block, |name, value| {
        found.push((name.to_vec(), value.to_vec()));
        Ok::<_, HpackError>(())
    });
    assert_eq!(read, Ok(()));
    let mut written = vec![(b":status".to_vec(), b"200".to_vec())];
    let left_out: [&[u8]; 5] =
        [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];
    for (name, value) in fields {
        let name = name.to_ascii_lowercase();
        if !left_out.contains(&name.as_slice()) {
            written.push((name, value.clone()));
        }
    }
    assert_eq!(found, written);
    if let Some(at) = date {
        let value =
            fields.iter().rfind(|(name, value)| name.eq_ignore_ascii_case(b"date") && value.len() == 29);
        assert_eq!(Some(&block[at..at + 29]), value.map(|(_, value)| value.as_slice()));
    }
    let mut again = Vec::new();
    write_fields(pairs(), &mut again);
    assert!(block.ends_with(&again));
}
