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
