//! The head of a file of the cache: no bytes are taken for another head than the one that was written, and what was
//! written is read again until one of its bytes changes.

use cache::store::head::{BodyHasher, Label, read, write};

use crate::cuts::first_line;

/// As a file, and as a key, tags, metadata and a body, each in a line.
pub fn stored_file(data: &[u8]) {
    if let Ok(head) = read(data) {
        assert_eq!(write(head.label, head.metadata, head.seal).as_deref(), data.get(..head.length));
    }
    let (key, rest) = first_line(data);
    let (tags, rest) = first_line(rest);
    let (metadata, body) = first_line(rest);
    let mut hasher = BodyHasher::default();
    hasher.write(body);
    let seal = hasher.seal();
    let Some(mut file) = write(Label { key, tags }, metadata, seal) else { return };
    let length = file.len();
    file.extend_from_slice(body);
    let head = read(&file).expect("it was written");
    assert_eq!((head.label, head.metadata), (Label { key, tags }, metadata));
    assert_eq!((head.seal, head.length), (seal, length));
    let at = body.len() % length;
    file[at] ^= 1 << (key.len() % 8);
    assert!(read(&file).is_err(), "byte {at}");
}
