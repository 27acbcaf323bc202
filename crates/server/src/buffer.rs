//! Appending to a buffer without wasting memory: a `Vec` that grows by doubling may allocate twice what it holds.

/// Bytes by which a buffer grows.
const STEP: usize = 4 * 1024;

/// Appends `bytes`. The capacity exceeds the length by less than one step.
#[inline]
pub fn append(to: &mut Vec<u8>, bytes: &[u8]) {
    if to.capacity() - to.len() < bytes.len() {
        grow(to, bytes.len());
    }
    to.extend_from_slice(bytes);
}

#[cold]
fn grow(to: &mut Vec<u8>, more: usize) {
    let needed = (to.len() + more).next_multiple_of(STEP);
    to.reserve_exact(needed - to.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn append_grows_a_buffer_by_steps() {
        let mut buffer = Vec::new();
        for _ in 0..10_000 {
            append(&mut buffer, b"abc");
            assert!(buffer.capacity() < buffer.len() + STEP, "{} {}", buffer.capacity(), buffer.len());
        }
        assert_eq!(buffer, b"abc".repeat(10_000));
    }
}
