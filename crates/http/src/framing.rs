//! The length of a message body (RFC 9112 §6.3). This module alone prevents request smuggling (§11.2): it rejects
//! every message that two parsers could give two lengths. Knows nothing of the bytes of the body.

use crate::fields::{digits, exact_digits, is_token, trim_ows};
use crate::rule::rules;
use crate::status::Status;
use crate::version::Version;

/// The body that follows a request head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Neither `Content-Length` nor `Transfer-Encoding`. A request ends with its head.
    None,
    /// The bytes of `Content-Length`, which may be 0.
    Sized(u64),
    /// A length that only the end of the body tells: the chunked transfer coding, or the DATA frames of HTTP/2.
    Chunked,
}

/// The broken rule of RFC 9112 §6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FramingError {
    /// Both `Content-Length` and `Transfer-Encoding`.
    LengthAndCoding,
    /// More than one `Content-Length` field, or a list in it, even of equal values.
    LengthTwice,
    /// Something other than digits.
    LengthSyntax,
    /// A leading zero: some parsers read `010` as octal.
    LengthZeros,
    /// More than 2^64 - 1.
    LengthTooLarge,
    /// HTTP/1.0 has no transfer codings (RFC 9112 §6.1).
    CodingOnHttp10,
    /// Not a list of tokens, or a parameter for chunked, or an empty member.
    CodingSyntax,
    /// Chunked more than once.
    ChunkedTwice,
    /// Chunked is not the last coding, or is missing: the end of the body is unknown.
    ChunkedNotLast,
    /// Another coding precedes the final chunked.
    CodingUnknown,
}

impl Framing {
    /// Whether the body has a byte, or may have one.
    pub const fn has_body(self) -> bool {
        !matches!(self, Framing::None | Framing::Sized(0))
    }

    /// The length to pass on with a request that has no body: 0 if its client has announced an empty one.
    pub fn empty_length(self) -> Option<u64> {
        (self == Framing::Sized(0)).then_some(0)
    }
}

/// Evaluates the values of all `Content-Length` and all `Transfer-Encoding` lines.
pub fn of<'a>(
    version: Version,
    content_length: impl IntoIterator<Item = &'a [u8]>,
    transfer_encoding: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Framing, FramingError> {
    let mut lengths = content_length.into_iter();
    let mut codings = transfer_encoding.into_iter().peekable();
    match (lengths.next(), codings.peek()) {
        (None, None) => Ok(Framing::None),
        // RFC 9112 §6.3 allows a server to use the coding and close. §11.2 describes the attack behind such a
        // request.
        (Some(_), Some(_)) => Err(FramingError::LengthAndCoding),
        (Some(_), None) if lengths.next().is_some() => Err(FramingError::LengthTwice),
        (Some(length), None) => sized(length),
        // RFC 9112 §6.1: the recipient must treat the framing of such a message as faulty.
        (None, Some(_)) if version == Version::Http10 => Err(FramingError::CodingOnHttp10),
        (None, Some(_)) => chunked(codings),
    }
}

impl FramingError {
    /// 501 for an unknown coding before chunked (RFC 9112 §6.1), else 400.
    pub const fn status(self) -> Status {
        match self {
            FramingError::CodingUnknown => Status::NOT_IMPLEMENTED,
            _ => Status::BAD_REQUEST,
        }
    }
}

rules! {
    FramingError {
        FramingError::LengthAndCoding => "length-and-coding"
            "there are both a Content-Length and a Transfer-Encoding field",
        FramingError::LengthTwice => "length-twice" "there is more than one Content-Length",
        FramingError::LengthSyntax => "length-syntax" "Content-Length is not a number",
        FramingError::LengthZeros => "length-zeros" "Content-Length begins with a superfluous zero",
        FramingError::LengthTooLarge => "length-too-large" "Content-Length does not fit into 64 bits",
        FramingError::CodingOnHttp10 => "coding-on-http10" "HTTP/1.0 has no Transfer-Encoding",
        FramingError::CodingSyntax => "coding-syntax" "Transfer-Encoding is not a list of codings",
        FramingError::ChunkedTwice => "chunked-twice" "Transfer-Encoding has chunked more than once",
        FramingError::ChunkedNotLast => "chunked-not-last" "Transfer-Encoding does not end with chunked",
        FramingError::CodingUnknown => "coding-unknown" "Transfer-Encoding has a coding other than chunked",
    }
}

fn sized(length: &[u8]) -> Result<Framing, FramingError> {
    match exact_digits(length) {
        _ if matches!(length, [b'0', _, ..]) && digits(length).is_some() => Err(FramingError::LengthZeros),
        Some(length) => Ok(Framing::Sized(length)),
        None if digits(length).is_some() => Err(FramingError::LengthTooLarge),
        // RFC 9112 §6.3 allows a recipient to repair "5, 5". Parsers that do so disagree about "5, 6".
        None if length.contains(&b',') => Err(FramingError::LengthTwice),
        None => Err(FramingError::LengthSyntax),
    }
}

/// Rejects empty list members, which RFC 9110 §5.6.1 allows: only an attack sends `, chunked`.
fn chunked<'a>(values: impl Iterator<Item = &'a [u8]>) -> Result<Framing, FramingError> {
    let (mut chunks, mut others, mut chunked_is_last) = (0u32, 0u32, false);
    for coding in values.flat_map(|line| line.split(|&byte| byte == b',')).map(trim_ows) {
        chunked_is_last = coding.eq_ignore_ascii_case(b"chunked");
        match coding {
            _ if chunked_is_last => chunks += 1,
            coding if is_coding(coding) => others += 1,
            _ => return Err(FramingError::CodingSyntax),
        }
    }
    match (chunks, others) {
        (2.., _) => Err(FramingError::ChunkedTwice),
        _ if !chunked_is_last => Err(FramingError::ChunkedNotLast),
        (_, 1..) => Err(FramingError::CodingUnknown),
        _ => Ok(Framing::Chunked),
    }
}

/// `token *( ";" parameter )`. Chunked takes no parameters (RFC 9112 §7.1).
fn is_coding(coding: &[u8]) -> bool {
    let mut parts = coding.splitn(2, |&byte| byte == b';');
    let name = trim_ows(parts.next().unwrap_or_default());
    let has_parameters = parts.next().is_some();
    is_token(name) && !(has_parameters && name.eq_ignore_ascii_case(b"chunked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_every_ambiguous_length() {
        use Framing::*;
        use FramingError::*;
        let check = |lengths: &[&str], codings: &[&str], expected: Result<Framing, FramingError>| {
            let lengths = lengths.iter().map(|value| value.as_bytes());
            let codings = codings.iter().map(|value| value.as_bytes());
            let found = of(Version::Http11, lengths.clone(), codings.clone());
            assert_eq!(found, expected, "{lengths:?} {codings:?}");
            // RFC 9112 §6.1: no coding has ever been part of HTTP/1.0.
            let on_http10 = match found {
                found if codings.len() == 0 || lengths.len() > 0 => found,
                _ => Err(CodingOnHttp10),
            };
            assert_eq!(of(Version::Http10, lengths, codings), on_http10);
        };

        check(&[], &[], Ok(None));

        check(&["0"], &[], Ok(Sized(0)));
        check(&["5"], &[], Ok(Sized(5)));
        check(&["05"], &[], Err(LengthZeros));
        check(&["00"], &[], Err(LengthZeros));
        check(&["18446744073709551615"], &[], Ok(Sized(u64::MAX)));
        check(&["18446744073709551616"], &[], Err(LengthTooLarge));
        check(&["99999999999999999999"], &[], Err(LengthTooLarge));
        for malformed in
            ["", "+1", "-1", "0x1", "1 1", "1.0", "1e3", "five", "5;", "\u{0b}5", "5\u{a0}", "\u{665}"]
        {
            check(&[malformed], &[], Err(LengthSyntax));
        }
        check(&["5", "5"], &[], Err(LengthTwice));
        check(&["5", "6"], &[], Err(LengthTwice));
        check(&["5", ""], &[], Err(LengthTwice));
        check(&["5, 5"], &[], Err(LengthTwice));
        check(&["5,6"], &[], Err(LengthTwice));
        check(&["5,"], &[], Err(LengthTwice));

        check(&[], &["chunked"], Ok(Chunked));
        check(&[], &["Chunked"], Ok(Chunked));
        check(&[], &["CHUNKED"], Ok(Chunked));
        check(&[], &["chunked, chunked"], Err(ChunkedTwice));
        check(&[], &["chunked", "chunked"], Err(ChunkedTwice));
        check(&[], &["chunked, gzip, chunked"], Err(ChunkedTwice));
        check(&[], &["chunked, gzip"], Err(ChunkedNotLast));
        check(&[], &["chunked", "identity"], Err(ChunkedNotLast));
        check(&[], &["gzip"], Err(ChunkedNotLast));
        check(&[], &["identity"], Err(ChunkedNotLast));
        check(&[], &["xchunked"], Err(ChunkedNotLast));
        check(&[], &["chunkedx"], Err(ChunkedNotLast));
        check(&[], &["gzip, chunked"], Err(CodingUnknown));
        check(&[], &["gzip", "chunked"], Err(CodingUnknown));
        check(&[], &["identity, chunked"], Err(CodingUnknown));
        check(&[], &["gzip;level=9, chunked"], Err(CodingUnknown));
        for malformed in [
            "",
            ",",
            "chunked,",
            ", chunked",
            "gzip,,chunked",
            "chunked;a=b",
            "chunked ;",
            "\"chunked\"",
            "'chunked\"",
            "chun ked",
            "chunked\u{0b}",
            "\u{0b}chunked",
            "chunked\0",
            "gzip chunked",
            "chunkéd",
            "=chunked",
        ] {
            check(&[], &[malformed], Err(CodingSyntax));
        }

        check(&["5"], &["chunked"], Err(LengthAndCoding));
        check(&["0"], &["identity"], Err(LengthAndCoding));
        check(&["x"], &["x"], Err(LengthAndCoding));
        check(&["5", "5"], &["chunked"], Err(LengthAndCoding));
        check(&[""], &[""], Err(LengthAndCoding));
    }

    #[test]
    fn only_an_unknown_coding_is_a_501() {
        assert_eq!(FramingError::CodingUnknown.status(), Status::NOT_IMPLEMENTED);
        for error in [FramingError::LengthAndCoding, FramingError::LengthTwice, FramingError::ChunkedNotLast]
        {
            assert_eq!(error.status(), Status::BAD_REQUEST);
        }
    }

    #[test]
    fn a_body_of_length_0_has_no_bytes() {
        let rows = [
            (Framing::None, false),
            (Framing::Sized(0), false),
            (Framing::Sized(1), true),
            (Framing::Chunked, true),
        ];
        for (framing, has_body) in rows {
            assert_eq!(framing.has_body(), has_body, "{framing:?}");
        }
    }
}
