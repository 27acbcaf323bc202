//! The base 64 of crypt(3): groups of three bytes, of which the first has the lowest bits.

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// One byte as two characters, two as three, three as four.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut bits = group.iter().rev().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
        for _ in 0..=group.len() {
            text.push(char::from(ALPHABET[(bits & 63) as usize]));
            bits >>= 6;
        }
    }
    text
}

/// `None`: another character, a lone character, or bits behind the last byte.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut bits = 0_u32;
        for &character in group.iter().rev() {
            let digit = ALPHABET.iter().position(|&known| known == character)?;
            bits = bits << 6 | digit as u32;
        }
        let whole = group.len() - 1;
        if whole == 0 || bits >> (8 * whole) != 0 {
            return None;
        }
        bytes.extend_from_slice(&bits.to_le_bytes()[..whole]);
    }
    Some(bytes)
}

/// Six bits of a character. `None`: another character.
pub fn digit(character: u8) -> Option<u32> {
    ALPHABET.iter().position(|&known| known == character).map(|digit| digit as u32)
}

/// The character of the lowest six bits.
pub fn character(bits: u32) -> u8 {
    ALPHABET[(bits & 63) as usize]
}

/// Only characters of the alphabet.
pub fn is_text(text: &[u8]) -> bool {
    text.iter().all(|character| ALPHABET.contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let table: [(&[u8], &str); 5] =
            [(b"", ""), (b"\0", ".."), (b"\x01", "/."), (b"\xff\xff", "zzD"), (b"abc", "V7qM")];
        for (bytes, text) in table {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes));
        }
        for wrong in ["a", "..../", "zz", "a\u{e9}", "=...", "zzE"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
