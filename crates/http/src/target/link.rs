//! Paths as they are written in links, in `Location` and in the targets of requests.

use crate::path_text;

/// Appends a decoded path in the form of a link or of `Location`: percent-encodes all but unreserved characters,
/// sub-delims, `:`, `@` and `/` (RFC 3986 §3.3). Several leading slashes become one, or none if `out` ends with one,
/// because `//host` is a link to another host.
pub fn encode_path(decoded: &str, out: &mut String) {
    let path = decoded.trim_start_matches('/');
    if path.len() < decoded.len() && !out.ends_with('/') {
        out.push('/');
    }
    percent_encode(path, |byte| byte == b'/' || is_pchar(byte), out);
}

/// A path below `/`, as in a target: `/a%20b` for `a b`.
pub fn encoded_path(below: &str) -> String {
    let mut path = String::from("/");
    encode_path(below, &mut path);
    path
}

/// A path of a target, with its query behind it.
pub fn with_query(mut path: String, query: Option<&str>) -> String {
    if let Some(query) = query {
        path.push('?');
        path.push_str(query);
    }
    path
}

/// Appends one segment, for the link of a page: as `encode_path`, and encodes `/`, too. It also encodes `&` and `'`, so
/// that the link has no entity of HTML: lftp takes `x&#39;y` for `x&` and a fragment.
pub fn encode_segment(decoded: &str, out: &mut String) {
    percent_encode(decoded, |byte| is_pchar(byte) && !matches!(byte, b'&' | b'\''), out);
}

/// RFC 3986 §3.3, without the escapes.
fn is_pchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

/// Appends `text`, with all bytes encoded but those that stay. It may be a text of `path_text`.
pub fn percent_encode(text: &str, stays: impl Fn(u8) -> bool, out: &mut String) {
    for &byte in &*path_text::bytes(text) {
        if stays(byte) {
            out.push(char::from(byte));
        } else {
            out.extend(escape(byte).map(char::from));
        }
    }
}

/// `%20`
pub(crate) fn escape(byte: u8) -> [u8; 3] {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]
}
