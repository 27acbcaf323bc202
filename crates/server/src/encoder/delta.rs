//! Content that is encoded with other content as its dictionary (RFC 9842): `dcb` and `dcz`.

use std::io;

use sha2::{Digest, Sha256};
use taipan_http::negotiate::Coding;

use super::{Encode, br, zstd};

/// The SHA-256 of a dictionary, by which clients name it.
pub type Hash = [u8; 32];

/// RFC 9842 §4.
const DCB: &[u8] = b"\xffDCB";
/// A skippable frame of Zstandard with a content of 32 bytes (RFC 9842 §5).
const DCZ: &[u8] = b"\x5e\x2a\x4d\x18\x20\0\0\0";

pub fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// The content in `dcb` or `dcz`. `None`: it cannot be encoded with this dictionary.
pub fn encode(coding: Coding, dictionary: &[u8], content: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let size = content.len() as u64;
    let (magic, encoder): (_, Option<Box<dyn Encode>>) = match coding {
        Coding::Dcb => (DCB, br::Br::with_dictionary(dictionary, size).map(|br| Box::new(br) as _)),
        Coding::Dcz => (DCZ, zstd::Zstd::with_dictionary(dictionary, size)?.map(|zstd| Box::new(zstd) as _)),
        _ => return Ok(None),
    };
    let Some(mut encoder) = encoder else { return Ok(None) };
    let mut out = [magic, &hash(dictionary)].concat();
    encoder.write(content, &mut out)?;
    encoder.finish(&mut out)?;
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Two versions of a program: most lines are the same.
    fn versions(lines: u32) -> (Vec<u8>, Vec<u8>) {
        let line = |number: u32| format!("let v{number} = {:08x};\n", number.wrapping_mul(0x9e37_79b9));
        let old: String = (0..lines).map(line).collect();
        let new: String =
            (0..lines).map(|n| if n % 50 == 7 { format!("changed {n};\n") } else { line(n) }).collect();
        (old.into_bytes(), new.into_bytes())
    }

    fn decode(coding: Coding, dictionary: &[u8], bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        if coding == Coding::Dcb {
            let mut decoder = brotli::Decompressor::new(bytes, 4096);
            assert!(decoder.attach_dictionary(dictionary.to_vec().into()));
            decoder.read_to_end(&mut plain).expect("it is br");
        } else {
            plain.reserve(16 << 20);
            let mut context = zstd_safe::DCtx::create();
            context.ref_prefix(dictionary).expect("it is a dictionary");
            context.decompress(&mut plain, bytes).expect("it is zstd");
        }
        plain
    }

    #[test]
    fn a_delta_decodes_with_its_dictionary() {
        for lines in [0, 1, 300, 5000, 60_000] {
            let (old, new) = versions(lines);
            for (coding, header) in [(Coding::Dcb, 36), (Coding::Dcz, 40)] {
                for (dictionary, content) in [(&old, &new), (&new, &old), (&old, &Vec::new())] {
                    if dictionary.is_empty() {
                        continue;
                    }
                    let bytes =
                        encode(coding, dictionary, content).expect("memory suffices").expect("it fits");
                    assert_eq!(bytes[header - 32..header], hash(dictionary), "{coding:?} {lines}");
                    let body = &bytes[header..];
                    assert!(decode(coding, dictionary, body) == *content, "{coding:?} {lines}");
                    let most = content.len() / 10 + 100;
                    assert!(bytes.len() < most, "{coding:?} {lines}: {} of {}", bytes.len(), content.len());
                }
            }
        }
    }

    #[test]
    fn other_codings_have_no_dictionary() {
        assert!(matches!(encode(Coding::Gzip, b"dictionary", b"content"), Ok(None)));
    }
}
