//! Reads PEM (RFC 7468): the certificates, the private key and the revocation lists of a text. Errors are the middle of
//! a sentence whose subject is the file: "has no certificate; …". And writes a section of it.

mod missing;

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer,
    PrivateSec1KeyDer,
};
use zeroize::Zeroizing;

use self::missing::missing;

/// Bytes of a line of base64 (RFC 7468 §2).
const LINE: usize = 64;
/// What a section begins with, behind which is its label.
const BEGIN: &[u8] = b"-----BEGIN ";
/// A certificate with what openssl trusts it for.
const TRUSTED: &[u8] = b"-----BEGIN TRUSTED CERTIFICATE-----";

/// A private key. Its memory is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey {
    der: Zeroizing<Vec<u8>>,
    format: KeyFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyFormat {
    Pkcs1,
    Sec1,
    Pkcs8,
}

impl PrivateKey {
    pub fn der(&self) -> PrivateKeyDer<'_> {
        let bytes = &self.der[..];
        match self.format {
            KeyFormat::Pkcs1 => PrivatePkcs1KeyDer::from(bytes).into(),
            KeyFormat::Sec1 => PrivateSec1KeyDer::from(bytes).into(),
            KeyFormat::Pkcs8 => PrivatePkcs8KeyDer::from(bytes).into(),
        }
    }
}

/// Shows nothing of the key.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("format", &self.format).finish_non_exhaustive()
    }
}

/// The certificates of a text, in order, perhaps none. No copy is made of a key in the same text.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    if find(text, TRUSTED).is_some() {
        return Err(
            "has a certificate with settings of openssl's own (TRUSTED CERTIFICATE); make a usual one of it with: \
             openssl x509 -in OLD -out NEW"
                .to_owned(),
        );
    }
    each_certificate(text).collect()
}

/// As `certificates`, also those behind one that cannot be read.
pub fn each_certificate(text: &[u8]) -> impl Iterator<Item = Result<CertificateDer<'static>, String>> {
    sections(text).map(|section| CertificateDer::from_pem_slice(&section).map_err(invalid))
}

/// As `certificates`, and at least one. Errors: also that there is none, with `advice`.
pub fn some_certificates(text: &[u8], advice: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = certificates(text)?;
    if found.is_empty() { Err(missing(text, "certificate", advice)) } else { Ok(found) }
}

/// The sections of certificates. Each lasts until the next one of any kind.
fn sections(text: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = text;
    let all = std::iter::from_fn(move || {
        let (_, section) = rest.split_at(find(rest, BEGIN)?);
        let inside = &section[BEGIN.len()..];
        let (section, behind) = section.split_at(BEGIN.len() + find(inside, BEGIN).unwrap_or(inside.len()));
        rest = behind;
        Some(section)
    });
    all.filter_map(with_usual_label)
}

/// A section of a certificate. `None`: it has another label.
fn with_usual_label(section: &[u8]) -> Option<Cow<'_, [u8]>> {
    let label = section.strip_prefix(BEGIN)?;
    if label.starts_with(b"CERTIFICATE-----") {
        return Some(Cow::Borrowed(section));
    }
    // From before RFC 7468 (§5.1).
    let content = label.strip_prefix(b"X509 CERTIFICATE-----")?;
    let mut usual = [BEGIN, b"CERTIFICATE-----"].concat();
    match find(content, b"-----END X509 CERTIFICATE-----") {
        Some(end) => usual.extend([&content[..end], b"-----END CERTIFICATE-----"].concat()),
        None => usual.extend(content),
    }
    Some(Cow::Owned(usual))
}

fn find(text: &[u8], words: &[u8]) -> Option<usize> {
    text.windows(words.len()).position(|window| window == words)
}

/// Whether a text has a private key, of which no copy is made.
pub fn has_private_key(text: &[u8]) -> bool {
    find(text, b"PRIVATE KEY-----").is_some()
}

/// The lists of revoked certificates of a text, in order, at least one.
pub fn revocation_lists(text: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let found =
        CertificateRevocationListDer::pem_slice_iter(behind_mark(text)).collect::<Result<Vec<_>, _>>();
    let missing = || missing(text, "list of revoked certificates", "name a file with one (X509 CRL)");
    found.map_err(invalid).and_then(|found| if found.is_empty() { Err(missing()) } else { Ok(found) })
}

/// The private key of a text. Errors: it has several, or one with a password; also that there is none, with `advice`.
pub fn some_private_key(text: &[u8], advice: &str) -> Result<PrivateKey, String> {
    private_key(text)?.ok_or_else(|| missing(text, "private key", advice))
}

const WITH_PASSWORD: &str =
    "has a key with a password, which the server cannot know; remove it with: openssl pkey -in OLD -out NEW";
/// A line of a key with a password in the form that is older than PKCS #8 (RFC 1421 §4.6.1.1).
const OLD_ENCRYPTED: &[u8] = b"Proc-Type: 4,ENCRYPTED";

/// The text behind the byte order mark with which some editors begin a file. The library would not find what the first
/// line begins.
fn behind_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text)
}

/// `None`: it has none.
fn private_key(text: &[u8]) -> Result<Option<PrivateKey>, String> {
    let text = behind_mark(text);
    let mut found = None;
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        let (kind, der) = section.map_err(|error| match find(text, OLD_ENCRYPTED) {
            Some(_) => WITH_PASSWORD.to_owned(),
            None => invalid(error),
        })?;
        let der = Zeroizing::new(der);
        let format = match kind {
            SectionKind::RsaPrivateKey => KeyFormat::Pkcs1,
            SectionKind::EcPrivateKey => KeyFormat::Sec1,
            SectionKind::PrivateKey => KeyFormat::Pkcs8,
            _ => continue,
        };
        if found.replace(PrivateKey { der, format }).is_some() {
            return Err("has two private keys; keep the one of the certificate".to_owned());
        }
    }
    match found {
        None if find(text, b"BEGIN ENCRYPTED PRIVATE KEY").is_some() => Err(WITH_PASSWORD.to_owned()),
        found => Ok(found),
    }
}

/// A section with this label.
pub fn section(label: &str, der: &[u8]) -> String {
    let encoded = Zeroizing::new(BASE64_STANDARD.encode(der));
    // Its whole length at once: a key must not stay in memory that a growing string has left.
    let lines = encoded.len().div_ceil(LINE);
    let mut text = String::with_capacity(encoded.len() + lines + 2 * label.len() + 32);
    text.extend(["-----BEGIN ", label, "-----\n"]);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE));
        text.extend([line, "\n"]);
        rest = behind;
    }
    text.extend(["-----END ", label, "-----\n"]);
    text
}

fn invalid(error: rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error;
    match error {
        Error::Base64Decode(_) => {
            "has text that is not base64 between the lines of PEM; copy the whole file again".to_owned()
        }
        Error::MissingSectionEnd { end_marker } if is_label(&end_marker) => format!(
            "has no line -----END {0}----- behind -----BEGIN {0}-----; copy the whole file again, with each of these on a \
             line of its own",
            end_marker.escape_ascii()
        ),
        // The line may have the beginning of a key.
        Error::MissingSectionEnd { .. } | Error::IllegalSectionStart { .. } => {
            "has a line with -----BEGIN that goes on behind its label; copy the whole file again, with that on a line of \
             its own"
                .to_owned()
        }
        _ => "is not valid PEM; copy the whole file again".to_owned(),
    }
}

fn is_label(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_lines_as_openssl_does() {
        let lengths = |der: &[u8]| section("CERTIFICATE", der).lines().map(str::len).collect::<Vec<_>>();
        assert_eq!(lengths(&[0; 49]), [27, 64, 4, 25]);
        assert_eq!(lengths(&[0; 48]), [27, 64, 25]);
    }

    #[test]
    fn reads_certificates_between_other_sections() {
        let section =
            |kind: &str, text: &str| format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n");
        let key = section("PRIVATE KEY", "!");
        let text =
            [&key, &section("CERTIFICATE", "AAAA"), "words", &key, &section("CERTIFICATE", "BBBB"), &key];
        let found = certificates(text.concat().as_bytes()).unwrap();
        assert_eq!(found, [vec![0, 0, 0].into(), vec![4, 16, 65].into()] as [CertificateDer<'_>; 2]);
        assert!(
            has_private_key(key.as_bytes()) && !has_private_key(section("CERTIFICATE", "AAAA").as_bytes())
        );
        assert_eq!(certificates(key.as_bytes()), Ok(Vec::new()));
        let old = section("X509 CERTIFICATE", "AAAA") + &section("CERTIFICATE", "BBBB");
        assert_eq!(certificates(old.as_bytes()).unwrap(), found);
        let cut = format!("-----BEGIN CERTIFICATE-----\nAAAA\n{key}-----END CERTIFICATE-----\n");
        let no_end = "has no line -----END CERTIFICATE----- behind";
        for (text, expected) in [
            (section("CERTIFICATE", "!"), "not base64"),
            (cut, no_end),
            ("-----BEGIN CERTIFICATE-----\nAAAA".to_owned(), no_end),
            ("-----BEGIN X509 CERTIFICATE-----\nAAAA".to_owned(), no_end),
            (section("TRUSTED CERTIFICATE", "AAAA"), "openssl x509 -in OLD -out NEW"),
        ] {
            let error = certificates(text.as_bytes()).expect_err(&text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn reads_keys_of_three_formats_and_rejects_others() {
        let section = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
        let read = |text: &str| private_key(text.as_bytes());
        for (label, format) in [
            ("PRIVATE KEY", KeyFormat::Pkcs8),
            ("RSA PRIVATE KEY", KeyFormat::Pkcs1),
            ("EC PRIVATE KEY", KeyFormat::Sec1),
        ] {
            // As `openssl ecparam -genkey` writes it.
            let parameters = section("EC PARAMETERS");
            let text = format!("words in front\n{parameters}{}", section(label));
            // As Windows writes it.
            let from_windows = format!("\u{feff}{}", section(label).replace('\n', "\r\n"));
            for text in [text, from_windows] {
                let key = read(&text).unwrap().expect(label);
                assert_eq!((key.format, &key.der[..]), (format, &[0; 3][..]), "{text}");
                assert!(!format!("{key:?}").contains('0'), "{key:?}");
            }
        }
        assert_eq!(read(&section("CERTIFICATE")), Ok(None));
        assert_eq!(read(""), Ok(None));
        let two = section("PRIVATE KEY").repeat(2);
        for (text, expected) in [
            (two.as_str(), "two private keys"),
            (&section("ENCRYPTED PRIVATE KEY"), "openssl pkey"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
                "openssl pkey",
            ),
            ("-----BEGIN PRIVATE KEY-----\n:\n-----END PRIVATE KEY-----\n", "not base64"),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n", "has no line -----END PRIVATE KEY----- behind"),
            ("-----BEGIN PRIVATE", "goes on behind its label"),
            (
                "-----BEGIN PRIVATE KEY-----MIGH-----END PRIVATE KEY-----",
                "has a line with -----BEGIN that goes on",
            ),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
