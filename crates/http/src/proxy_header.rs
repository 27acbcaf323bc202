//! The header of the PROXY protocol, versions 1 and 2, which a proxy sends before the first byte of a connection that
//! it forwards (haproxy.org, `doc/proxy-protocol.txt`). It has the addresses of the client's own connection.
//!
//! Knows nothing of which proxies are trusted.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Bytes of the longest header that is accepted, with its extensions.
pub const MAX_HEADER: usize = FIXED + MAX_REST;

const BEGIN_1: &[u8] = b"PROXY ";
/// With its CRLF.
const MAX_LINE: usize = 107;

const BEGIN_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of version 2 up to its length, and with it.
const FIXED: usize = 16;
/// The extensions of some load balancers are names and certificates.
const MAX_REST: usize = 4096;
const IPV4: usize = 12;
const IPV6: usize = 36;
const UNIX: usize = 216;
/// The extension with a checksum (§2.2.4).
const CRC32C: u8 = 0x03;

/// A complete header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Bytes of the header. The client's bytes begin behind it.
    pub length: usize,
    pub origin: ConnectionOrigin,
}

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionOrigin {
    /// The proxy's own, as for a health check.
    Proxy,
    /// A client's without an IP address, or with one that the proxy does not tell.
    Unknown,
    Client {
        source: SocketAddr,
        destination: SocketAddr,
    },
}

/// The rule of the protocol that a header breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyHeaderError {
    /// The connection begins with something else.
    Missing,
    /// A line of version 1 that is longer than 107 bytes, or a header of version 2 with more than 4096 bytes behind its
    /// length.
    TooLong,
    /// A line of version 1 that is malformed.
    Line,
    /// A version, a command or an address family that does not exist, or one of datagrams.
    Kind,
    /// A header of version 2 that is too short for its addresses or its extensions.
    Length,
    Checksum,
}

impl fmt::Display for ProxyHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProxyHeaderError::Missing => "the connection does not begin with a PROXY header",
            ProxyHeaderError::TooLong => "the PROXY header is too long",
            ProxyHeaderError::Line => "the line of the PROXY header is malformed",
            ProxyHeaderError::Kind => "the PROXY header has an unknown version, command or family",
            ProxyHeaderError::Length => "the length of the PROXY header is wrong",
            ProxyHeaderError::Checksum => "the checksum of the PROXY header is wrong",
        })
    }
}

impl std::error::Error for ProxyHeaderError {}

/// Reads the header at the beginning of `bytes`. `None`: it is incomplete.
pub fn parse(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    if begins_with(bytes, BEGIN_2) {
        return parse_version_2(bytes);
    }
    match begins_with(bytes, BEGIN_1) {
        true => parse_line(bytes),
        false => Err(ProxyHeaderError::Missing),
    }
}

/// Whether `bytes` begin with `begin`, as far as there are any.
fn begins_with(bytes: &[u8], begin: &[u8]) -> bool {
    bytes.iter().zip(begin).all(|(one, other)| one == other)
}

/// Version 1 (§2.1).
fn parse_line(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let line = &bytes[..bytes.len().min(MAX_LINE)];
    let Some(end) = line.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return if bytes.len() < MAX_LINE { Ok(None) } else { Err(ProxyHeaderError::TooLong) };
    };
    match &line[end..] {
        [b'\r', b'\n', ..] => {}
        [b'\r'] if bytes.len() < MAX_LINE => return Ok(None),
        [b'\r'] => return Err(ProxyHeaderError::TooLong),
        _ => return Err(ProxyHeaderError::Line),
    }
    let words = line.get(BEGIN_1.len()..end).ok_or(ProxyHeaderError::Line)?;
    let origin = match words.strip_prefix(b"UNKNOWN") {
        // What follows has no meaning.
        Some([] | [b' ', ..]) => ConnectionOrigin::Unknown,
        _ => client_of_line(words).ok_or(ProxyHeaderError::Line)?,
    };
    Ok(Some(ProxyHeader { length: end + 2, origin }))
}

fn client_of_line(words: &[u8]) -> Option<ConnectionOrigin> {
    let mut words = std::str::from_utf8(words).ok()?.split(' ');
    let family = words.next()?;
    let (source, destination) = (words.next()?, words.next()?);
    let (source_port, destination_port) = (words.next()?, words.next()?);
    let (source, destination) = match family {
        "TCP4" => (IpAddr::V4(parsed(source)?), IpAddr::V4(parsed(destination)?)),
        "TCP6" => (IpAddr::V6(parsed(source)?), IpAddr::V6(parsed(destination)?)),
        _ => return None,
    };
    let origin = client((source, port(source_port)?), (destination, port(destination_port)?));
    words.next().is_none().then_some(origin)
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// A decimal number without leading zeros.
fn port(text: &str) -> Option<u16> {
    let is_canonical =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_canonical)
}

fn client(source: (IpAddr, u16), destination: (IpAddr, u16)) -> ConnectionOrigin {
    // The rest of the server has an IPv4 address in this form alone.
    let address = |(ip, port): (IpAddr, u16)| SocketAddr::new(ip.to_canonical(), port);
    ConnectionOrigin::Client { source: address(source), destination: address(destination) }
}

/// Version 2 (§2.2).
fn parse_version_2(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let (is_local, family) = match (bytes.get(BEGIN_2.len()), bytes.get(BEGIN_2.len() + 1)) {
        (Some(0x20), family) => (true, family),
        (Some(0x21), family) => (false, family),
        (Some(_), _) => return Err(ProxyHeaderError::Kind),
        (None, _) => return Ok(None),
    };
    let addresses = match family {
        Some(0x00) => 0,
        Some(0x11) => IPV4,
        Some(0x21) => IPV6,
        Some(0x31) => UNIX,
        // A connection is no datagram. Health checks may say anything.
        Some(_) if !is_local => return Err(ProxyHeaderError::Kind),
        Some(_) => 0,
        None => return Ok(None),
    };
    let &[high, low] = bytes.get(FIXED - 2..FIXED).unwrap_or_default() else { return Ok(None) };
    let rest = usize::from(u16::from_be_bytes([high, low]));
    if rest > MAX_REST {
        return Err(ProxyHeaderError::TooLong);
    }
    let length = FIXED + rest;
    let Some(header) = bytes.get(..length) else { return Ok(None) };
    let rest = &header[FIXED..];
    let origin = match (is_local, rest.split_at_checked(addresses)) {
        // What follows has no meaning.
        (true, _) => ConnectionOrigin::Proxy,
        (false, None) => return Err(ProxyHeaderError::Length),
        (false, Some((addresses, extensions))) => {
            check_extensions(header, extensions)?;
            origin_of(addresses)
        }
    };
    Ok(Some(ProxyHeader { length, origin }))
}

fn origin_of(addresses: &[u8]) -> ConnectionOrigin {
    if let Some((source, rest)) = addresses.split_first_chunk::<4>()
        && let Some((destination, &[a, b, c, d])) = rest.split_first_chunk::<4>()
    {
        let (source, destination) = (Ipv4Addr::from(*source), Ipv4Addr::from(*destination));
        return client(
            (source.into(), u16::from_be_bytes([a, b])),
            (destination.into(), u16::from_be_bytes([c, d])),
        );
    }
    if let Some((source, rest)) = addresses.split_first_chunk::<16>()
        && let Some((destination, &[a, b, c, d])) = rest.split_first_chunk::<16>()
    {
        let (source, destination) = (Ipv6Addr::from(*source), Ipv6Addr::from(*destination));
        return client(
            (source.into(), u16::from_be_bytes([a, b])),
            (destination.into(), u16::from_be_bytes([c, d])),
        );
    }
    // No address, or two paths of Unix sockets.
    ConnectionOrigin::Unknown
}

/// Checks that the extensions fill `rest`, the end of `header`, and that a checksum is right.
fn check_extensions(header: &[u8], mut rest: &[u8]) -> Result<(), ProxyHeaderError> {
    while !rest.is_empty() {
        let &[kind, high, low, ref behind @ ..] = rest else { return Err(ProxyHeaderError::Length) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (value, next) = behind.split_at_checked(length).ok_or(ProxyHeaderError::Length)?;
        if kind == CRC32C {
            let at = header.len() - behind.len();
            let expected = <[u8; 4]>::try_from(value).map_err(|_| ProxyHeaderError::Length)?;
            // It is computed with zeros in its own place.
            let parts = [&header[..at], &[0; 4], &header[at + 4..]];
            if crc32c(parts.into_iter().flatten()) != u32::from_be_bytes(expected) {
                return Err(ProxyHeaderError::Checksum);
            }
            // One is enough: a header full of them would cost the square of its length.
            return check_lengths(next);
        }
        rest = next;
    }
    Ok(())
}

fn check_lengths(mut rest: &[u8]) -> Result<(), ProxyHeaderError> {
    while !rest.is_empty() {
        let &[kind, high, low, ref behind @ ..] = rest else { return Err(ProxyHeaderError::Length) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind == CRC32C {
            return Err(ProxyHeaderError::Checksum);
        }
        rest = behind.get(length..).ok_or(ProxyHeaderError::Length)?;
    }
    Ok(())
}

/// RFC 4960, appendix B.
fn crc32c<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    const REVERSED_POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |crc: u32| (crc >> 1) ^ (REVERSED_POLYNOMIAL & (crc & 1).wrapping_neg());
    !bytes.fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The origin of a header, or the rule that it breaks, or `more`.
    fn outcome(bytes: &[u8]) -> String {
        match parse(bytes) {
            Ok(None) => "more".to_owned(),
            Err(error) => format!("{error:?}"),
            Ok(Some(ProxyHeader { length, origin })) => match origin {
                ConnectionOrigin::Proxy => format!("{length} proxy"),
                ConnectionOrigin::Unknown => format!("{length} unknown"),
                ConnectionOrigin::Client { source, destination } => {
                    format!("{length} {source} {destination}")
                }
            },
        }
    }

    fn check(bytes: impl AsRef<[u8]>, expected: &str) {
        let bytes = bytes.as_ref();
        assert_eq!(outcome(bytes), expected, "{}", bytes.escape_ascii());
    }

    #[test]
    fn reads_lines_of_version_1() {
        for (line, expected) in [
            ("PROXY TCP4 192.0.2.1 198.51.100.2 4711 80\r\nGET", "43 192.0.2.1:4711 198.51.100.2:80"),
            ("PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n", "44 0.0.0.0:0 255.255.255.255:65535"),
            ("PROXY TCP6 2001:db8::1 ::1 1 2\r\n", "32 [2001:db8::1]:1 [::1]:2"),
            ("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", "37 192.0.2.1:1 [::1]:2"),
            ("PROXY UNKNOWN\r\nGET", "15 unknown"),
            ("PROXY UNKNOWN what ever\u{e9}\r\n", "27 unknown"),
            ("", "more"),
            ("P", "more"),
            ("PROXY TCP4 192.0.2.1 198.51.100.2 4711 80\r", "more"),
            ("GET / HTTP/1.1\r\n", "Missing"),
            ("PROXX", "Missing"),
            ("proxy TCP4 192.0.2.1 198.51.100.2 4711 80\r\n", "Missing"),
            ("PROXY TCP4 192.0.2.1 198.51.100.2 4711 80\n", "Line"),
            ("PROXY TCP4 192.0.2.1 198.51.100.2 4711 80\rx", "Line"),
            ("PROXY TCP4 192.0.2.1  198.51.100.2 4711 80\r\n", "Line"),
            ("PROXY TCP4 192.0.2.1 198.51.100.2 4711 80 \r\n", "Line"),
            ("PROXY TCP4 192.0.2.1 198.51.100.2 4711\r\n", "Line"),
            ("PROXY TCP4 192.0.2.01 198.51.100.2 4711 80\r\n", "Line"),
            ("PROXY TCP4 192.0.2.1 198.51.100.2 04711 80\r\n", "Line"),
            ("PROXY TCP4 192.0.2.1 198.51.100.2 +4711 80\r\n", "Line"),
            ("PROXY TCP4 192.0.2.1 198.51.100.2 65536 80\r\n", "Line"),
            ("PROXY TCP4 ::1 ::1 1 2\r\n", "Line"),
            ("PROXY TCP6 192.0.2.1 198.51.100.2 1 2\r\n", "Line"),
            ("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", "Line"),
            ("PROXY UDP4 192.0.2.1 198.51.100.2 1 2\r\n", "Line"),
            ("PROXY UNKNOWNS\r\n", "Line"),
            ("PROXY \r\n", "Line"),
        ] {
            check(line, expected);
        }
        check(b"PROXY UNKNOWN \xff\r\n", "17 unknown");
        let of_length = |length: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(length - 16));
        check(of_length(107), "107 unknown");
        check(of_length(108), "TooLong");
        check(of_length(5000), "TooLong");
        check(&of_length(200)[..106], "more");
        check(&of_length(200)[..107], "TooLong");
    }

    /// A header of version 2.
    fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        [BEGIN_2, &[command, family], &(rest.len() as u16).to_be_bytes(), rest].concat()
    }

    const V4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x67, 0, 80];

    #[test]
    fn reads_headers_of_version_2() {
        let v4 = |more: &[u8]| version_2(0x21, 0x11, &[&V4, more].concat());
        check([&v4(b"")[..], b"GET"].concat(), "28 192.0.2.1:4711 198.51.100.2:80");
        check(v4(&[0x04, 0, 2, 9, 9]), "33 192.0.2.1:4711 198.51.100.2:80");
        check(v4(&[0x04, 0, 3, 9, 9]), "Length");
        check(v4(&[0x04, 0]), "Length");
        let v6 = |ip: Ipv6Addr| [&ip.octets()[..], &Ipv6Addr::LOCALHOST.octets(), &[0, 1, 0, 2]].concat();
        check(version_2(0x21, 0x21, &v6("2001:db8::1".parse().unwrap())), "52 [2001:db8::1]:1 [::1]:2");
        check(version_2(0x21, 0x21, &v6("::ffff:192.0.2.1".parse().unwrap())), "52 192.0.2.1:1 [::1]:2");
        check(version_2(0x21, 0x31, &[b'/'; 216]), "232 unknown");
        check(version_2(0x21, 0x00, b""), "16 unknown");
        check(version_2(0x20, 0x00, b""), "16 proxy");
        check(version_2(0x20, 0x11, &V4), "28 proxy");
        check(version_2(0x20, 0xff, b"\x01"), "17 proxy");
        for family in [0x01, 0x10, 0x12, 0x22, 0x32, 0x41, 0xff] {
            check(version_2(0x21, family, &[0; 216]), "Kind");
        }
        for command in [0x11, 0x22, 0x2f, 0x31, 0x01] {
            check(version_2(command, 0x11, &V4), "Kind");
        }
        check(version_2(0x21, 0x11, &V4[..11]), "Length");
        check(version_2(0x21, 0x21, &V4), "Length");
        check(version_2(0x21, 0x31, &[0; 215]), "Length");
        check(version_2(0x20, 0x00, &[0; 4096]), "4112 proxy");
        check(version_2(0x20, 0x00, &[0; 4097]), "TooLong");
        check(&version_2(0x20, 0x00, &[0; 4097])[..16], "TooLong");
        check(b"\r\n\r\n\0\r\nQUIX", "Missing");
        check(b"\r\n\r\n\0\r\nQUI", "more");
    }

    #[test]
    fn compares_a_checksum() {
        assert_eq!(crc32c(b"123456789".iter()), 0xe306_9283);
        let with = |sum: u32, more: &[u8]| {
            version_2(0x21, 0x11, &[&V4[..], &[3, 0, 4], &sum.to_be_bytes(), more].concat())
        };
        let right = crc32c(with(0, b"").iter());
        check(with(right, b""), "35 192.0.2.1:4711 198.51.100.2:80");
        check(with(right ^ 1, b""), "Checksum");
        let before_another = crc32c(with(0, &[4, 0, 1, 7]).iter());
        check(with(before_another, &[4, 0, 1, 7]), "39 192.0.2.1:4711 198.51.100.2:80");
        let before_bad = crc32c(with(0, &[4, 0, 2, 7]).iter());
        check(with(before_bad, &[4, 0, 2, 7]), "Length");
        let twice = crc32c(with(0, &[3, 0, 4, 0, 0, 0, 0]).iter());
        check(with(twice, &[3, 0, 4, 0, 0, 0, 0]), "Checksum");
        check(version_2(0x21, 0x11, &[&V4[..], &[3, 0, 3, 0, 0, 0]].concat()), "Length");
    }

    proptest! {
        #[test]
        fn a_header_that_is_cut_is_incomplete(
            rest in prop::collection::vec(any::<u8>(), 0..300), command in 0x20..0x22_u8, family in 0..0x32_u8,
        ) {
            let header = version_2(command, family, &rest);
            let Ok(Some(parsed)) = parse(&header) else { return Ok(()) };
            prop_assert_eq!(parsed.length, header.len());
            for cut in 0..header.len() {
                prop_assert_eq!(parse(&header[..cut]), Ok(None));
            }
            prop_assert_eq!(parse(&[&header[..], b"GET"].concat()), Ok(Some(parsed)));
        }
    }
}
