//! Texts of files, and where one of them is not UTF-8.

use std::fmt;

/// The first character that is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotUtf8 {
    /// The first is 1.
    pub line: u32,
    /// In characters. The first is 1.
    pub column: usize,
}

/// What to do about it.
pub const WHAT_TO_DO: &str = "save the file as UTF-8";

/// The bytes as a text. Errors: the place of the first character that is not UTF-8.
pub fn text(bytes: &[u8]) -> Result<&str, NotUtf8> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        NotUtf8 { line: u32::try_from(line).unwrap_or(u32::MAX), column }
    })
}

/// Without the line, which a message has in front.
impl fmt::Display for NotUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the character in column {} is not UTF-8", self.column)
    }
}

impl std::error::Error for NotUtf8 {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_character_that_is_not_utf8() {
        for (bytes, line, column) in [
            (&b"\xff"[..], 1, 1),
            (b"a\n\xe9", 2, 1),
            (b"a\r\nroot = \"/caf\xe9\"\n\xff", 2, 13),
            // A character of two bytes is one column.
            ("é = ".as_bytes().iter().chain(b"\xe9").copied().collect::<Vec<u8>>().leak(), 1, 5),
            // The text ends within a character.
            (b"ab\xc3", 1, 3),
        ] {
            assert_eq!(text(bytes), Err(NotUtf8 { line, column }), "{}", bytes.escape_ascii());
        }
        assert_eq!(text("é\n".as_bytes()), Ok("é\n"));
    }
}
