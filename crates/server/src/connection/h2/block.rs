//! Response heads as field blocks of HTTP/2, which a head stores.

use taipan_h2::response::write_head;
use taipan_http::response::{Block, ResponseHead};

/// `:status: 100` (RFC 7541 §6.2.2).
pub const CONTINUE: &[u8] = b"\x08\x03100";

pub fn encode(head: &ResponseHead) -> Block {
    let mut bytes = Vec::with_capacity(head.head_len());
    let fields = head.fields().map(|(name, value)| (name.as_bytes(), value));
    let date_at = write_head(head.status().code(), fields, &mut bytes);
    bytes.shrink_to_fit();
    Block { bytes, date_at }
}
