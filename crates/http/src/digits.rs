//! Writes numbers and IP addresses, and reads hexadecimal digits. Every response and every CGI environment has some, and `std::fmt` is slower.

use std::fmt::Write;
use std::net::IpAddr;

use arrayvec::ArrayString;

/// Appends the number in decimal.
pub fn write_number(mut number: u64, out: &mut Vec<u8>) {
    // 2^64 - 1 has 20 digits.
    let mut digits = [0; 20];
    let mut at = digits.len();
    while at == digits.len() || number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

/// `1,234,567`, for people.
pub fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Appends the number in hexadecimal.
pub fn write_hex(number: u64, out: &mut Vec<u8>) {
    let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
    out.extend((0..digits).rev().map(|digit| b"0123456789abcdef"[(number >> (4 * digit) & 15) as usize]));
}

/// The byte of the two hexadecimal digits that `text` begins with, as behind `%`. `None`: it begins with others.
#[inline]
pub fn hex_byte(text: &[u8]) -> Option<u8> {
    let [high, low] = *text.first_chunk()?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

/// The bytes that a text stands for whose percent-encoded bytes count as themselves (RFC 3986 §2.1).
pub fn percent_decoded(mut text: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let (&first, behind) = text.split_first()?;
        let (byte, behind) = match hex_byte(behind).filter(|_| first == b'%') {
            Some(byte) => (byte, &behind[2..]),
            None => (first, behind),
        };
        text = behind;
        Some(byte)
    })
}

/// The longest text of an address has 39 characters (RFC 5952).
pub type IpText = ArrayString<39>;

/// Appends the address, as [`ip_text`].
pub fn write_ip(address: IpAddr, out: &mut Vec<u8>) {
    out.extend_from_slice(ip_text(address).as_bytes());
}

/// The address without brackets. An IPv4-mapped IPv6 address is written as IPv4 (RFC 4291 §2.5.5.2).
pub fn ip_text(address: IpAddr) -> IpText {
    let mut text = IpText::new();
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (at, octet) in address.octets().into_iter().enumerate() {
                if at > 0 {
                    text.push('.');
                }
                push_octet(octet, &mut text);
            }
        }
        IpAddr::V6(address) => {
            let written = write!(text, "{address}");
            debug_assert!(written.is_ok(), "there is room for every address");
        }
    }
    text
}

#[inline]
fn push_octet(octet: u8, text: &mut IpText) {
    if octet >= 100 {
        text.push(char::from(b'0' + octet / 100));
    }
    if octet >= 10 {
        text.push(char::from(b'0' + octet / 10 % 10));
    }
    text.push(char::from(b'0' + octet % 10));
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_zero_the_maximum_and_mapped_addresses() {
        for number in [0, 9, 10, u64::MAX] {
            assert_eq!(text(|out| write_number(number, out)), number.to_string());
            assert_eq!(text(|out| write_hex(number, out)), format!("{number:x}"));
        }
        assert_eq!(text(|out| write_ip("::ffff:192.0.2.7".parse().unwrap(), out)), "192.0.2.7");
    }

    proptest! {
        #[test]
        fn agrees_with_the_standard_library(number: u64, v4: u32, v6: u128) {
            prop_assert_eq!(text(|out| write_number(number, out)), number.to_string());
            for address in [IpAddr::from(Ipv4Addr::from(v4)), IpAddr::from(Ipv6Addr::from(v6))] {
                prop_assert_eq!(text(|out| write_ip(address, out)), address.to_canonical().to_string());
            }
        }
    }
}
