//! `httpd -d` and `httpd -e`: texts for scripts, without a server.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// As in a URL: `+` is a space. What is no escape stays.
pub fn decoded(text: &OsStr) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let escaped = bytes.get(at + 1..at + 3).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
            u8::from_str_radix(digits, 16).ok()
        });
        match (bytes[at], escaped) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    out
}

/// For a page: everything but ASCII letters and digits by its number.
pub fn encoded(text: &OsStr) -> String {
    let encode = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("&#{byte};"),
    };
    text.as_bytes().iter().copied().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_and_encodes() {
        for (text, expected) in [
            ("Hello%20World", "Hello World"),
            ("a+b", "a b"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz%41", "%zzA"),
            ("%+1", "% 1"),
        ] {
            assert_eq!(decoded(text.as_ref()), expected.as_bytes());
        }
        assert_eq!(decoded("%ff%fe".as_ref()), b"\xff\xfe");
        assert_eq!(decoded(OsStr::from_bytes(b"\xe4%20")), b"\xe4 ");
        assert_eq!(encoded("<Hi 1>".as_ref()), "&#60;Hi&#32;1&#62;");
    }
}
