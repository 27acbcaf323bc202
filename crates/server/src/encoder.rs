//! The encoders of content codings: gzip, zstd and brotli, each as one stream of bytes. A build without them encodes
//! nothing.
//!
//! Knows nothing of responses.

#[cfg(feature = "brotli")]
mod br;
#[cfg_attr(not(feature = "brotli"), path = "encoder/delta_absent.rs")]
pub mod delta;
#[cfg(feature = "compression")]
mod gzip;
#[cfg(feature = "compression")]
mod zstd;

use std::io;

use taipan_http::negotiate::Coding;

/// How much time a byte may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// For what is sent once: 60 to 150 MB per second.
    Quick,
    /// For what is kept. The larger the content, the less time each byte of it gets: a second or two for all of it.
    Strong,
}

/// One stream. What is encoded is appended to `out`.
pub trait Encode: Send {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<()>;

    /// Everything that was written can be decoded from what is in `out`.
    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()>;

    /// Ends the stream.
    fn finish(self: Box<Self>, out: &mut Vec<u8>) -> io::Result<()>;
}

/// Whether this build has the encoder.
pub const fn encodes(coding: Coding) -> bool {
    match coding {
        Coding::Identity => false,
        Coding::Gzip | Coding::Zstd => cfg!(feature = "compression"),
        Coding::Br | Coding::Dcb | Coding::Dcz => cfg!(feature = "brotli"),
    }
}

/// `size`: bytes of the content, if they are known. Errors: this build has no such encoder, or memory is short.
pub fn new(coding: Coding, effort: Effort, size: Option<u64>) -> io::Result<Box<dyn Encode>> {
    match coding {
        #[cfg(feature = "compression")]
        Coding::Gzip => Ok(Box::new(gzip::Gzip::new(effort))),
        #[cfg(feature = "compression")]
        Coding::Zstd => Ok(Box::new(zstd::Zstd::new(effort, size)?)),
        #[cfg(feature = "brotli")]
        Coding::Br => Ok(Box::new(br::Br::new(effort, size))),
        _ => Err(io::Error::other(format!("no encoder for {}, {effort:?}, {size:?}", coding.as_str()))),
    }
}

/// The whole content at once.
pub fn encode(coding: Coding, effort: Effort, content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = new(coding, effort, Some(content.len() as u64))?;
    let mut out = Vec::new();
    encoder.write(content, &mut out)?;
    encoder.finish(&mut out)?;
    Ok(out)
}

#[cfg(all(test, feature = "brotli"))]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    const CODINGS: [Coding; 3] = [Coding::Gzip, Coding::Zstd, Coding::Br];

    fn decode(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match coding {
            Coding::Identity | Coding::Dcb | Coding::Dcz => plain.extend_from_slice(bytes),
            Coding::Gzip => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain)),
            Coding::Br => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain)),
            Coding::Zstd => decode_zstd(bytes, &mut plain),
        }
        plain
    }

    /// Decodes as far as the bytes go.
    fn decode_zstd(bytes: &[u8], plain: &mut Vec<u8>) {
        let mut context = zstd_safe::DCtx::create();
        let mut input = zstd_safe::InBuffer::around(bytes);
        loop {
            let at = plain.len();
            plain.reserve(1 << 16);
            let mut out = zstd_safe::OutBuffer::around_pos(plain, at);
            context.decompress_stream(&mut out, &mut input).expect("it is zstd");
            if input.pos() == bytes.len() && plain.len() == at {
                return;
            }
        }
    }

    fn efforts() -> impl Strategy<Value = Effort> {
        prop_oneof![Just(Effort::Quick), Just(Effort::Strong)]
    }

    fn codings() -> impl Strategy<Value = Coding> {
        prop::sample::select(&CODINGS[..])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn decoding_gives_the_content(
            coding in codings(),
            effort in efforts(),
            content in prop::collection::vec("[a-f ]{0,40}|\\PC{0,9}", 0..200),
        ) {
            let content = content.concat().into_bytes();
            let bytes = encode(coding, effort, &content).expect("memory suffices");
            prop_assert_eq!(decode(coding, &bytes), content);
        }

        #[test]
        fn what_is_flushed_can_be_decoded(
            coding in codings(),
            effort in efforts(),
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..6),
        ) {
            let mut encoder = new(coding, effort, None).expect("memory suffices");
            let (mut out, mut written) = (Vec::new(), Vec::new());
            for chunk in chunks {
                encoder.write(&chunk, &mut out).expect("it cannot fail");
                encoder.flush(&mut out).expect("it cannot fail");
                written.extend(chunk);
                prop_assert_eq!(decode(coding, &out), &written[..]);
            }
            encoder.finish(&mut out).expect("it cannot fail");
            prop_assert_eq!(decode(coding, &out), written);
        }
    }

    #[test]
    fn encodes_large_content() {
        let line = |number: u32| format!("{number}: {:08x}\n", number.wrapping_mul(0x9e37_79b9));
        let content: String = (0..100_000).map(line).collect();
        for coding in CODINGS {
            for effort in [Effort::Quick, Effort::Strong] {
                let bytes = encode(coding, effort, content.as_bytes()).expect("memory suffices");
                assert!(bytes.len() < content.len() / 3 * 2, "{coding:?} {effort:?}: {}", bytes.len());
                assert!(decode(coding, &bytes) == content.as_bytes(), "{coding:?} {effort:?}");
            }
        }
    }

    #[test]
    fn every_coding_but_identity_has_an_encoder() {
        assert!(CODINGS.into_iter().all(encodes));
        assert!(!encodes(Coding::Identity) && new(Coding::Identity, Effort::Quick, None).is_err());
    }
}
