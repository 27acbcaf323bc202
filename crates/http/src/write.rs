//! Writes text of several parts: most of the head of a request to an upstream.

/// Appends the parts.
// A copy of its own, as callers may be compiled for size.
#[inline(never)]
pub fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.reserve(parts.iter().map(|part| part.len()).sum());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Appends the line of a field.
#[inline]
pub fn field_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_all_parts() {
        let mut out = b"a".to_vec();
        put(&mut out, &[b"b", b"", b"cd"]);
        put(&mut out, &[]);
        assert_eq!(out, b"abcd");
    }
}
