//! JSON, with a bound on its depth. The caller bounds its length.

use serde_json::Value;

/// Arrays and objects within one another.
const MAX_DEPTH: usize = 16;

/// `None`: it is no JSON, or too deep. Of two members with one name, the last counts (RFC 7515 §4).
pub fn parse(text: &[u8]) -> Option<Value> {
    if is_too_deep(text) { None } else { serde_json::from_slice(text).ok() }
}

fn is_too_deep(text: &[u8]) -> bool {
    let (mut depth, mut is_in_string, mut bytes) = (0_usize, false, text.iter());
    while let Some(byte) = bytes.next() {
        match (byte, is_in_string) {
            (b'"', _) => is_in_string = !is_in_string,
            (b'\\', true) => _ = bytes.next(),
            (b'[' | b'{', false) => depth += 1,
            (b']' | b'}', false) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_bounded_in_depth() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_some());
        assert!(parse(nested(MAX_DEPTH + 1).as_bytes()).is_none());
        assert!(parse(nested(100_000).as_bytes()).is_none());
        let text = format!("[\"\\\"{}\", 1]", "[".repeat(50));
        assert!(parse(text.as_bytes()).is_some());
        assert!(parse(b"{\"a\":1").is_none() && parse(b"").is_none() && parse(b"\"\\").is_none());
    }
}
