//! Decodes and encodes the Huffman code of HPACK (RFC 7541 §5.2 and appendix B). The code is canonical: the lengths
//! determine the codes.

use crate::error::HpackError;

/// Bits of the code of each byte.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8,
    7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7,
    7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23,
    24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22,
    23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25,
    26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24,
    20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27,
    27, 27, 27, 26,
];

const LONGEST: usize = 30;
/// Codes of at most this many bits are found in one table. Most text has only such codes.
const SHORT: usize = 9;

struct Tables {
    /// Byte and length by the first `SHORT` bits. A length of 0 marks a longer code.
    short: [(u8, u8); 1 << SHORT],
    /// By length: the first code, the number of codes, and the position of their bytes in `bytes`.
    first: [u32; LONGEST + 1],
    count: [u16; LONGEST + 1],
    start: [u16; LONGEST + 1],
    bytes: [u8; 256],
    /// By byte.
    codes: [u32; 256],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables {
        short: [(0, 0); 1 << SHORT],
        first: [0; LONGEST + 1],
        count: [0; LONGEST + 1],
        start: [0; LONGEST + 1],
        bytes: [0; 256],
        codes: [0; 256],
    };
    let (mut length, mut code, mut placed) = (1, 0u32, 0usize);
    while length <= LONGEST {
        tables.first[length] = code;
        tables.start[length] = placed as u16;
        let mut byte = 0;
        while byte < 256 {
            if LENGTHS[byte] as usize == length {
                tables.bytes[placed] = byte as u8;
                tables.codes[byte] = code;
                placed += 1;
                if length <= SHORT {
                    let rest = SHORT - length;
                    let mut index = (code as usize) << rest;
                    while index < (code as usize + 1) << rest {
                        tables.short[index] = (byte as u8, length as u8);
                        index += 1;
                    }
                }
                code += 1;
            }
            byte += 1;
        }
        tables.count[length] = placed as u16 - tables.start[length];
        code <<= 1;
        length += 1;
    }
    tables
}

/// Appends the decoded bytes to `out`.
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    // No code is shorter than five bits.
    out.reserve(input.len() * 8 / 5);
    let (mut bits, mut have) = (0u64, 0usize);
    let mut rest = input;
    // Bounded: each pass takes at least a code, or is the last.
    loop {
        (bits, have, rest) = refill(bits, have, rest);
        // After this, there are at least `LONGEST` bits, or all of the rest.
        while have >= LONGEST {
            let (byte, length) = TABLES.short[(bits >> (64 - SHORT)) as usize];
            if length == 0 {
                break;
            }
            out.push(byte);
            bits <<= length;
            have -= usize::from(length);
        }
        let (byte, length) = code(bits);
        if length <= have {
            out.push(byte);
            bits <<= length;
            have -= length;
        } else if rest.is_empty() {
            // RFC 7541 §5.2: the padding has fewer than eight bits, all ones.
            let is_padding = have < 8 && bits == !(u64::MAX >> have);
            return if is_padding { Ok(()) } else { Err(HpackError::Malformed) };
        } else if length > LONGEST {
            return Err(HpackError::Malformed);
        }
    }
}

/// Takes as many bytes as fit behind the first `have` bits of `bits`. The bits behind them are 0.
#[inline]
fn refill(bits: u64, have: usize, rest: &[u8]) -> (u64, usize, &[u8]) {
    if let Some((eight, _)) = rest.split_first_chunk() {
        let taken = (64 - have) / 8;
        let have_then = have + 8 * taken;
        let bits = bits | u64::from_be_bytes(*eight) >> have;
        return (bits & !(u64::MAX.checked_shr(have_then as u32).unwrap_or(0)), have_then, &rest[taken..]);
    }
    let (mut bits, mut have, mut rest) = (bits, have, rest);
    while have <= 56
        && let Some((&byte, after)) = rest.split_first()
    {
        bits |= u64::from(byte) << (56 - have);
        have += 8;
        rest = after;
    }
    (bits, have, rest)
}

/// The byte of the first code and its length in bits; more than there can be if there is none.
fn code(bits: u64) -> (u8, usize) {
    let (byte, length) = TABLES.short[(bits >> (64 - SHORT)) as usize];
    if length > 0 { (byte, length.into()) } else { long(bits).unwrap_or((0, usize::MAX)) }
}

/// Bytes of the encoded input.
pub fn coded_len(input: &[u8]) -> usize {
    let bits: usize = input.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the encoded bytes.
pub fn encode(input: &[u8], out: &mut Vec<u8>) {
    // The lowest `have` bits are still to be written.
    let (mut bits, mut have) = (0u64, 0u32);
    for &byte in input {
        let length = LENGTHS[usize::from(byte)];
        bits = bits << length | u64::from(TABLES.codes[usize::from(byte)]);
        have += u32::from(length);
        while have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    if have > 0 {
        // The padding is the start of the code of EOS, all ones.
        out.push((bits << (8 - have)) as u8 | (0xff >> have));
    }
}

fn long(bits: u64) -> Option<(u8, usize)> {
    (SHORT + 1..=LONGEST).find_map(|length| {
        let code = (bits >> (64 - length)) as u32;
        let index = code.checked_sub(TABLES.first[length])?;
        let byte = TABLES.bytes.get(usize::from(TABLES.start[length]) + index as usize)?;
        (index < u32::from(TABLES.count[length])).then_some((*byte, length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], expected: Result<&[u8], HpackError>) {
        let mut out = Vec::new();
        let found = decode(input, &mut out).map(|()| out.as_slice());
        assert_eq!(found, expected, "{input:02x?}");
        if let Ok(plain) = expected {
            let mut again = Vec::new();
            encode(plain, &mut again);
            assert_eq!((again.as_slice(), coded_len(plain)), (input, input.len()));
        }
    }

    #[test]
    fn decodes_the_examples_of_the_rfc() {
        check(
            &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff],
            Ok(b"www.example.com"),
        );
        check(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], Ok(b"no-cache"));
        check(&[0x64, 0x02], Ok(b"302"));
        check(
            &[
                0x94, 0xe7, 0x82, 0x1d, 0xd7, 0xf2, 0xe6, 0xc7, 0xb3, 0x35, 0xdf, 0xdf, 0xcd, 0x5b, 0x39,
                0x60, 0xd5, 0xaf, 0x27, 0x08, 0x7f, 0x36, 0x72, 0xc1, 0xab, 0x27, 0x0f, 0xb5, 0x29, 0x1f,
                0x95, 0x87, 0x31, 0x60, 0x65, 0xc0, 0x03, 0xed, 0x4e, 0xe5, 0xb1, 0x06, 0x3d, 0x50, 0x07,
            ],
            Ok(b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
        );
        check(&[], Ok(b""));
    }

    #[test]
    fn rejects_wrong_padding() {
        check(&[0x00], Err(HpackError::Malformed));
        check(&[0x64], Err(HpackError::Malformed));
        check(&[0xff], Err(HpackError::Malformed));
        for length in 4..20 {
            check(&vec![0xff; length], Err(HpackError::Malformed));
            check(&[vec![0x07], vec![0xff; length]].concat(), Err(HpackError::Malformed));
        }
        check(&[0x07], Ok(b"0"));
    }

    #[test]
    fn decodes_the_code_of_every_byte() {
        for byte in 0..=255u8 {
            let length = usize::from(LENGTHS[usize::from(byte)]);
            let index = (usize::from(TABLES.start[length])..).find(|&at| TABLES.bytes[at] == byte).unwrap();
            let code = TABLES.first[length] + (index - usize::from(TABLES.start[length])) as u32;
            let bits = (u64::from(code) << (64 - length)) | (u64::MAX >> length);
            check(&bits.to_be_bytes()[..length.div_ceil(8)], Ok(&[byte]));
        }
    }
}
