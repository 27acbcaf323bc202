//! The header of the PROXY protocol. It is the same however it is cut, and ends within its limit.

use taipan_http::proxy_header::{MAX_HEADER, parse};

use crate::cuts::unescaped;

/// Bytes of a connection. Each `%` with two hexadecimal digits is one byte.
pub fn proxy_header(data: &[u8]) {
    let data = unescaped(data);
    let whole = parse(&data);
    if data.len() >= MAX_HEADER {
        assert_ne!(whole, Ok(None), "a header has an end");
    }
    let mut is_over = false;
    for end in 0..=data.len().min(MAX_HEADER + 1) {
        let part = parse(&data[..end]);
        match part {
            Ok(None) => assert!(!is_over, "what is complete or wrong stays so"),
            Ok(Some(header)) => {
                assert_eq!(part, whole);
                assert!(header.length <= end && header.length <= MAX_HEADER);
            }
            Err(_) => assert_eq!(part, whole),
        }
        is_over |= part != Ok(None);
    }
}
