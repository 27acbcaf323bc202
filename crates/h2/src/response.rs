//! The field block of a response head or of trailers, which does not use a dynamic table: it is the same on every
//! connection and can be kept. Knows nothing of frames.

use taipan_http::date;
use taipan_http::known::is_connection_specific;

use crate::hpack::{
    Indexing, static_index, write_indexed, write_name_index, write_short_string, write_string, write_value,
};

/// The index of `:status 200` in the static table, whose name serves for every status.
const STATUS: usize = 8;
/// Those at 8 to 14 in the static table.
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];

/// Appends the block of a response head. See `write_fields` for the fields and the result.
pub fn write_head<'a>(
    status: u16,
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) -> Option<usize> {
    match STATUSES.iter().position(|known| *known == status) {
        Some(at) => write_indexed(out, STATUS + at),
        None => {
            let digits = [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
            write_value(out, Indexing::Without, STATUS, &digits);
        }
    }
    write_fields(fields, out)
}

/// Appends fields. Names become lower-case (RFC 9113 §8.2), and fields that HTTP/2 does not allow are left out
/// (§8.2.2). Returns the position in `out` of the value of `Date`, if there is one: it is not compressed, so 29 other
/// bytes can replace it.
pub fn write_fields<'a>(
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) -> Option<usize> {
    let mut date = None;
    for (name, value) in fields {
        if is_connection_specific(name) {
            continue;
        }
        write_name(name, out);
        if name.eq_ignore_ascii_case(b"date") && value.len() == date::LEN {
            write_string(out, value);
            date = Some(out.len() - value.len());
        } else {
            write_short_string(out, value);
        }
    }
    date
}

fn write_name(name: &[u8], out: &mut Vec<u8>) {
    let indexing = if is_secret(name) { Indexing::Never } else { Indexing::Without };
    match static_index(name) {
        Some(index) => write_name_index(out, indexing, index),
        None => {
            write_name_index(out, indexing, 0);
            write_short_string(out, &name.to_ascii_lowercase());
        }
    }
}

/// Values that an attacker could guess bit by bit if they were in a table (RFC 7541 §7.1).
fn is_secret(name: &[u8]) -> bool {
    ["set-cookie", "authorization", "proxy-authorization", "authentication-info"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::HpackError;
    use crate::hpack::{Decoder, TABLE_SIZE};

    fn head(status: u16, fields: &[(&str, &str)]) -> (Vec<u8>, Option<usize>) {
        let mut out = Vec::new();
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let date = write_head(status, fields, &mut out);
        (out, date)
    }

    fn decoded(block: &[u8]) -> String {
        let (mut decoder, mut text) = (Decoder::new(TABLE_SIZE, usize::MAX), String::new());
        for _ in 0..2 {
            text.clear();
            let line = |name: &[u8], value: &[u8]| {
                text += &format!("{}: {}\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
                Ok::<_, HpackError>(())
            };
            // Twice: the block does not depend on what was sent before.
            decoder.decode(block, line).unwrap();
        }
        text
    }

    #[test]
    fn writes_what_a_decoder_reads() {
        let (block, date) = head(
            200,
            &[("Content-Type", "text/html; charset=utf-8"), ("X-Own", "\u{e9}{}"), ("Content-Length", "0")],
        );
        assert_eq!(
            decoded(&block),
            ":status: 200\ncontent-type: text/html; charset=utf-8\nx-own: \u{e9}{}\ncontent-length: 0\n"
        );
        assert_eq!(date, None);
        for status in (100..=104).chain(200..=599) {
            assert_eq!(decoded(&head(status, &[]).0), format!(":status: {status}\n"));
        }
    }

    #[test]
    fn the_date_can_be_replaced() {
        let (mut block, date) =
            head(404, &[("Server", "taipan"), ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("ETag", "\"a\"")]);
        block[date.unwrap()..][..date::LEN].copy_from_slice(b"Mon, 07 Nov 1994 08:49:37 GMT");
        let expected = ":status: 404\nserver: taipan\ndate: Mon, 07 Nov 1994 08:49:37 GMT\netag: \"a\"\n";
        assert_eq!(decoded(&block), expected);
    }

    #[test]
    fn leaves_out_what_http2_does_not_allow() {
        let (block, _) = head(
            200,
            &[("Connection", "close"), ("Transfer-Encoding", "chunked"), ("Vary", "*"), ("Keep-Alive", "x")],
        );
        assert_eq!(decoded(&block), ":status: 200\nvary: *\n");
    }

    #[test]
    fn no_table_keeps_a_secret() {
        let (block, _) = head(200, &[("Set-Cookie", "a=b")]);
        assert_eq!(block[1..3], [0x1f, 55 - 15], "never indexed, name 55");
        assert_eq!(decoded(&block), ":status: 200\nset-cookie: a=b\n");
    }

    #[test]
    fn the_huffman_code_is_used_where_it_is_shorter() {
        let block = |value| head(200, &[("vary", value)]).0;
        assert_eq!(block("accept-encoding").len(), 1 + 2 + 1 + 11);
        assert_eq!(block("\u{1}\u{2}").len(), 1 + 2 + 1 + 2);
    }
}
