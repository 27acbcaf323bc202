//! What a text is, or has, in place of the part that was looked for. The errors say how to make that part of it.

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::{BEGIN, find};

/// Parts of PEM by a part of their first line, with the command that makes something else of one.
const PARTS: [(&str, &str, Option<&str>); 9] = [
    ("BEGIN PKCS7", "a PKCS #7 file", Some("openssl pkcs7 -print_certs -in OLD -out NEW")),
    ("OPENSSH PRIVATE KEY", "a key of OpenSSH", Some("ssh-keygen -p -m PKCS8 -f COPY")),
    ("DSA PRIVATE KEY", "a key for DSA, with which no browser connects", None),
    ("CERTIFICATE REQUEST", "a request, for which the authority issues a certificate", None),
    ("BEGIN CERTIFICATE", "a certificate", None),
    ("PRIVATE KEY", "a private key", None),
    ("X509 CRL", "a list of revoked certificates", None),
    ("PUBLIC KEY", "a public key", None),
    ("PARAMETERS", "the parameters of keys", None),
];
/// The beginnings of identifiers of algorithms that encrypt a private key by a password (RFC 8018, RFC 7292).
const BY_PASSWORD: [&[u8]; 2] =
    [b"\x2a\x86\x48\x86\xf7\x0d\x01\x05", b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x01"];
/// Bytes of a file in DER in which such an identifier begins.
const IDENTIFIER: usize = 48;

/// Says that a text has no such part, and what it is or has in its place. The middle of a sentence whose subject is the
/// file.
pub fn missing(text: &[u8], part: &str, advice: &str) -> String {
    if let Some((what, command)) = der_contents(text) {
        return format!("is {what} in DER, not PEM; convert it with: openssl {command}");
    }
    if let Some(name) = wide_characters(text) {
        return format!(
            "is text in UTF-16, as some editors of Windows write it; convert it with: iconv -f {name} -t utf-8 OLD >NEW"
        );
    }
    if text.trim_ascii().is_empty() {
        return format!("has no {part}, since it is empty; {advice}");
    }
    if find(text, b"BEGIN ").is_some() && find(text, BEGIN).is_none() {
        return format!(
            "has no {part} in PEM, whose first line has five hyphens on each side, as in -----BEGIN CERTIFICATE-----; \
             copy the file again"
        );
    }
    let is_other = |(label, what, _): &&(&str, &str, _)| {
        what.strip_prefix("a ") != Some(part) && find(text, label.as_bytes()).is_some()
    };
    match PARTS.iter().find(is_other) {
        Some((_, what, Some(command))) => format!("has no {part}, but {what}; convert it with: {command}"),
        Some((_, what, None)) => format!("has no {part}, but {what}; {advice}"),
        None => format!("has no {part}; {advice}"),
    }
}

/// What a file in DER is, and the command that makes PEM of it. `None`: it is another file.
fn der_contents(text: &[u8]) -> Option<(&'static str, &'static str)> {
    let header = match text {
        [0x30, length @ 0x80..=0xff, ..] => 2 + usize::from(length & 0x7f),
        [0x30, ..] => 2,
        _ => return None,
    };
    let is_by_password = || {
        let begin = &text[..text.len().min(IDENTIFIER)];
        BY_PASSWORD.iter().any(|identifier| find(begin, identifier).is_some())
    };
    Some(match text.get(header..)? {
        [0x02, 1, 0 | 1, ..] => ("a private key", "pkey -inform der -in OLD -out NEW"),
        [0x02, 1, 3, ..] => ("a PKCS #12 store", "pkcs12 -nodes -in OLD -out NEW"),
        [0x06, ..] => ("a PKCS #7 file", "pkcs7 -inform der -print_certs -in OLD -out NEW"),
        _ if X509Certificate::from_der(text).is_ok() => {
            ("a certificate", "x509 -inform der -in OLD -out NEW")
        }
        _ if CertificateRevocationList::from_der(text).is_ok() => {
            ("a list of revoked certificates", "crl -inform der -in OLD -out NEW")
        }
        _ if is_by_password() => ("a private key with a password", "pkey -inform der -in OLD -out NEW"),
        _ => return None,
    })
}

/// The encoding of a text that has two bytes for each letter of ASCII. `None`: it is another text.
fn wide_characters(text: &[u8]) -> Option<&'static str> {
    match text {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("utf-16"),
        [one, 0, other, 0, ..] if *one != 0 && *other != 0 => Some("utf-16le"),
        [0, one, 0, other, ..] if *one != 0 && *other != 0 => Some("utf-16be"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(order).collect()
    }

    #[test]
    fn names_what_a_text_has_in_place_of_a_part() {
        let label =
            |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n").into_bytes();
        let cases: &[(Vec<u8>, &str, &str)] = &[
            (b" \n".to_vec(), "certificate", "has no certificate, since it is empty; ADVICE"),
            (b"words".to_vec(), "certificate", "has no certificate; ADVICE"),
            (label("PRIVATE KEY"), "certificate", "has no certificate, but a private key; ADVICE"),
            (label("CERTIFICATE"), "private key", "has no private key, but a certificate; ADVICE"),
            (label("PUBLIC KEY"), "private key", "has no private key, but a public key; ADVICE"),
            (
                label("NEW CERTIFICATE REQUEST"),
                "certificate",
                "has no certificate, but a request, for which ",
            ),
            (label("PKCS7"), "certificate", "a PKCS #7 file; convert it with: openssl pkcs7 -print_certs"),
            (label("OPENSSH PRIVATE KEY"), "private key", "a key of OpenSSH; convert it with: ssh-keygen"),
            (label("DSA PRIVATE KEY"), "private key", "has no private key, but a key for DSA, "),
            (b"---BEGIN CERTIFICATE---".to_vec(), "certificate", "five hyphens on each side"),
            (wide("-----BEGIN", u16::to_le_bytes), "certificate", "iconv -f utf-16le -t utf-8 OLD >NEW"),
            (wide("-----BEGIN", u16::to_be_bytes), "certificate", "iconv -f utf-16be -t"),
            (wide("\u{feff}-----BEGIN", u16::to_be_bytes), "certificate", "iconv -f utf-16 -t"),
            (wide("\u{feff}-----BEGIN", u16::to_le_bytes), "certificate", "iconv -f utf-16 -t"),
        ];
        for (text, part, expected) in cases {
            let said = missing(text, part, "ADVICE");
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}
