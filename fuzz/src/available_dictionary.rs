//! The field `Available-Dictionary`. Each hash has one form, and is read from it.

use site::compress::available_dictionary as parse;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A value of the field, and the bytes of a hash.
pub fn available_dictionary(data: &[u8]) {
    if let Some(hash) = parse(data) {
        // The two bits of padding may have any value.
        let (written, last) = (write(&hash), data.len() - 3);
        assert_eq!((&written[..last], &written[last + 1..]), (&data[..last], &data[last + 1..]));
    }
    let mut hash = [0; 32];
    let length = data.len().min(hash.len());
    hash[..length].copy_from_slice(&data[..length]);
    assert_eq!(parse(&write(&hash)), Some(hash));
}

/// RFC 4648 §4, between colons.
fn write(hash: &[u8; 32]) -> Vec<u8> {
    let mut out = vec![b':'];
    for three in hash.chunks(3) {
        let mut bits = [0; 4];
        bits[1..=three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes(bits);
        let digits = (0..=three.len()).map(|at| ALPHABET[(bits >> (18 - 6 * at)) as usize & 63]);
        out.extend(digits);
    }
    out.extend_from_slice(b"=:");
    out
}
