//! Names in certificates: those of hosts, and the distinguished names of subjects and issuers.

use std::fmt::Write;
use std::net::IpAddr;

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// The short names of attributes (RFC 4514 §3, and as OpenSSL writes them).
const ATTRIBUTES: [(&str, &str); 14] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.42", "GN"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// The host names and addresses for which a certificate is valid, in lower case: `example.org`, `*.example.org`,
/// `192.0.2.1`. The common name does not count (RFC 9525 §2).
pub fn host_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.trim_end_matches('.').to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name).collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// Whether a name of a certificate is that of a host, or has it by its wildcard: `*.example.org` has names with one
/// more label (RFC 9525 §6.3). Both are in lower case. The name of a host may be a wildcard, too.
pub fn covers(of_certificate: &str, host: &str) -> bool {
    let below = |wildcard: &str| host.split_once('.').is_some_and(|(_, rest)| rest == wildcard);
    of_certificate == host || of_certificate.strip_prefix("*.").is_some_and(below)
}

/// A distinguished name as RFC 4514 writes it: `CN=Alice,O=Example`, the most specific part first.
pub fn distinguished(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    let parts: Vec<_> = name.iter().collect();
    for part in parts.iter().rev() {
        for (at, attribute) in part.iter().enumerate() {
            if at > 0 {
                text.push('+');
            } else if !text.is_empty() {
                text.push(',');
            }
            write_attribute(attribute, &mut text);
        }
    }
    text
}

fn write_attribute(attribute: &AttributeTypeAndValue<'_>, out: &mut String) {
    let kind = attribute.attr_type().to_id_string();
    let short = ATTRIBUTES.iter().find(|(id, _)| *id == kind);
    let value = attribute.as_str().ok().filter(|_| short.is_some());
    match (short, value) {
        (Some((_, short)), Some(value)) => {
            let _ = write!(out, "{short}=");
            write_value(value, out);
        }
        (short, _) => {
            let _ = write!(out, "{}=#", short.map_or(kind.as_str(), |(_, short)| short));
            attribute.as_slice().iter().for_each(|byte| _ = write!(out, "{byte:02x}"));
        }
    }
}

/// RFC 4514 §2.4. Controls are escaped, too, so that the name stays on its line.
fn write_value(value: &str, out: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (at, character) in value.chars().enumerate() {
        match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => out.extend(['\\', character]),
            ' ' | '#' if at == 0 => out.extend(['\\', character]),
            ' ' if at == last => out.push_str("\\ "),
            _ if character.is_control() => {
                let mut bytes = [0; 4];
                character.encode_utf8(&mut bytes).bytes().for_each(|byte| _ = write!(out, "\\{byte:02x}"));
            }
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_has_names_with_one_more_label() {
        for (of_certificate, host, expected) in [
            ("example.org", "example.org", true),
            ("example.org", "www.example.org", false),
            ("*.example.org", "www.example.org", true),
            ("*.example.org", "example.org", false),
            ("*.example.org", "a.b.example.org", false),
            ("*.example.org", "*.example.org", true),
            ("*.example.org", "*.a.example.org", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("*", "org", false),
        ] {
            assert_eq!(covers(of_certificate, host), expected, "{of_certificate} {host}");
        }
    }

    #[test]
    fn escapes_what_has_a_meaning() {
        for (value, expected) in [
            ("Alice Smith", "Alice Smith"),
            ("Smith, Alice", "Smith\\, Alice"),
            (" a ", "\\ a\\ "),
            ("#1", "\\#1"),
            ("a\"b\\c", "a\\\"b\\\\c"),
            ("a\nb", "a\\0ab"),
            ("Zoë", "Zoë"),
        ] {
            let mut text = String::new();
            write_value(value, &mut text);
            assert_eq!(text, expected);
        }
    }
}
