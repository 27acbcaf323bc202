//! Paths as text. The path of a file is bytes, and not all of them are UTF-8: old archives have names in Latin-1, EUC
//! or Shift-JIS. In the text, each byte that is not part of UTF-8 is a private character, from U+10FE80 for 0x80 to
//! U+10FEFF for 0xFF.
//!
//! Different bytes have different texts: where UTF-8 has one of these characters, its four bytes become four of them.
//! No text gains a slash, a dot or a control character, because ASCII stays as it is.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The character of the byte 0x80, less 0x80.
const BASE: u32 = 0x10_FE00;
/// The first byte of the UTF-8 of each of the characters. All others that have it are private, too.
const LEAD: u8 = 0xF4;

/// The text of a path.
pub fn of_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_utf8(text) => Cow::Borrowed(text),
        _ => Cow::Owned(with_characters(bytes)),
    }
}

/// As `of_bytes`.
pub fn of_vec(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) if is_utf8(&text) => text,
        Ok(text) => with_characters(text.as_bytes()),
        Err(error) => with_characters(error.as_bytes()),
    }
}

/// The bytes of a path, as they are on a disk.
pub fn bytes(text: &str) -> Cow<'_, [u8]> {
    if is_utf8(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// As `bytes`.
pub fn to_path(text: &str) -> Cow<'_, Path> {
    match bytes(text) {
        Cow::Borrowed(bytes) => Cow::Borrowed(Path::new(OsStr::from_bytes(bytes))),
        Cow::Owned(bytes) => Cow::Owned(PathBuf::from(OsString::from_vec(bytes))),
    }
}

/// For readers of a page: U+FFFD stands for each byte that is not UTF-8.
pub fn shown(text: &str) -> Cow<'_, str> {
    match is_utf8(text) {
        true => Cow::Borrowed(text),
        false => text.chars().map(|one| byte_of(one).map_or(one, |_| char::REPLACEMENT_CHARACTER)).collect(),
    }
}

/// For administrators: each byte that is not UTF-8 is written as `\xFC`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if is_utf8(text) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => _ = write!(escaped, "\\x{byte:02X}"),
            None => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

/// Whether the bytes of the text are UTF-8, and the same as those of the path.
pub fn is_utf8(text: &str) -> bool {
    !text.as_bytes().contains(&LEAD) || !text.chars().any(|character| byte_of(character).is_some())
}

/// Whether the path has an overlong form of an ASCII character, such as `C0 AF` for a slash. Some programs decode it.
/// Others take it for two letters of another encoding.
pub fn is_overlong(text: &str) -> bool {
    !is_utf8(text) && bytes(text).windows(2).any(|pair| begins_overlong(pair[0], pair[1]))
}

/// Whether an overlong form of an ASCII character begins with these bytes.
pub(crate) fn begins_overlong(first: u8, second: u8) -> bool {
    match first {
        0xC0 | 0xC1 => matches!(second, 0x80..=0xBF),
        0xE0 | 0xF0 | 0xF8 | 0xFC => matches!(second, 0x80 | 0x81),
        _ => false,
    }
}

fn with_characters(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match byte_of(character) {
                None => text.push(character),
                Some(_) => push_bytes(character.encode_utf8(&mut [0; 4]).as_bytes(), &mut text),
            }
        }
        push_bytes(chunk.invalid(), &mut text);
    }
    text
}

/// `bytes` are not ASCII.
fn push_bytes(bytes: &[u8], text: &mut String) {
    text.extend(bytes.iter().filter_map(|byte| char::from_u32(BASE + u32::from(*byte))));
}

fn byte_of(character: char) -> Option<u8> {
    u8::try_from(u32::from(character).checked_sub(BASE)?).ok().filter(|byte| *byte >= 0x80)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_that_are_no_utf8_are_characters() {
        fn check(path: &[u8], text: &str, seen: &str) {
            assert_eq!(of_bytes(path), text);
            assert_eq!(of_vec(path.to_vec()), text);
            assert_eq!(*bytes(text), *path, "{text}");
            assert_eq!(shown(text), seen);
            assert_eq!(is_utf8(text), text.as_bytes() == path, "{text}");
        }
        check(b"", "", "");
        check(b"a/b", "a/b", "a/b");
        check("ä€\u{1F600}".as_bytes(), "ä€\u{1F600}", "ä€\u{1F600}");
        check(b"B\xFCcher", "B\u{10FEFC}cher", "B\u{FFFD}cher");
        check(b"\xC3\xA4\xC3", "ä\u{10FEC3}", "ä\u{FFFD}");
        check(b"\x80\xFF", "\u{10FE80}\u{10FEFF}", "\u{FFFD}\u{FFFD}");
        check(b"\xC0\xAF", "\u{10FEC0}\u{10FEAF}", "\u{FFFD}\u{FFFD}");
        check(b"\xED\xA0\x80", "\u{10FEED}\u{10FEA0}\u{10FE80}", "\u{FFFD}\u{FFFD}\u{FFFD}");
        // Those around the characters stay.
        let others = "\u{10FE7F}\u{10FF00}\u{10FFFF}\u{EFFC}";
        check(others.as_bytes(), others, others);
        assert_eq!(escaped("B\u{10FEFC}cher/ä"), "B\\xFCcher/ä");
        // The characters themselves.
        let own = "\u{10FEF4}\u{10FE8F}\u{10FEBB}\u{10FEBC}";
        check("\u{10FEFC}".as_bytes(), own, "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}");
    }

    #[test]
    fn finds_overlong_forms_of_ascii() {
        fn check(path: &[u8], expected: bool) {
            assert_eq!(is_overlong(&of_bytes(path)), expected, "{}", path.escape_ascii());
        }
        for path in [
            &b"a\xC0\xAF"[..],
            b"\xC0\xAE\xC0\xAE",
            b"\xC1\xB0rivate",
            b"\xE0\x80\xAF",
            b"\xE0\x81\x9C",
            b"\xF0\x80\x80\xAF",
            b"\xF8\x80\x80\x80\xAF",
            b"\xFC\x80\x80\x80\x80\xAF",
            // Of a name in EUC.
            b"\xC0\xA4\xB3\xA6",
        ] {
            check(path, true);
        }
        for path in
            [&b"a/b"[..], "äà€".as_bytes(), b"B\xFCcher", b"\xC0", b"\xC0/\xAF", b"\xE0\xA4", b"\x81\xC1"]
        {
            check(path, false);
        }
    }

    proptest! {
        #[test]
        fn all_bytes_have_a_text_of_their_own(path: Vec<u8>, other: Vec<u8>) {
            let text = of_bytes(&path);
            prop_assert_eq!(&*bytes(&text), &path);
            prop_assert_eq!(of_bytes(&other) == text, other == path);
            prop_assert_eq!(is_utf8(&text), text.as_bytes() == path);
            let ascii = |bytes: &[u8]| bytes.iter().copied().filter(u8::is_ascii).collect::<Vec<u8>>();
            prop_assert_eq!(ascii(text.as_bytes()), ascii(&path));
            prop_assert!(is_utf8(&shown(&text)));
        }

        #[test]
        fn characters_of_bytes_are_seen(path in "[a\u{10FE7F}-\u{10FE82}\u{10FEFE}-\u{10FF01}\u{e9}]{0,6}") {
            let text = of_vec(path.clone().into_bytes());
            prop_assert_eq!(&*bytes(&text), path.as_bytes());
        }
    }
}
