//! How the value of a variable is written into a page, or read from an attribute.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use taipan_http::digits::hex_byte;
use taipan_http::path_text::{bytes, of_vec, shown};
use taipan_http::target::percent_encode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    None,
    /// For a path in a URL: slashes stay.
    Url,
    /// For a field of a form or a query: a space is `+`.
    UrlEncoded,
    Base64,
    /// For HTML: in text, and in attributes with quotes.
    Entity,
}

/// The characters that HTML gives a meaning.
const ENTITIES: [(char, &str); 5] =
    [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;")];

impl Coding {
    pub fn parse(name: &str) -> Option<Coding> {
        Some(match name {
            "none" => Coding::None,
            "url" => Coding::Url,
            "urlencoded" => Coding::UrlEncoded,
            "base64" => Coding::Base64,
            "entity" => Coding::Entity,
            _ => return None,
        })
    }

    pub fn encode(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        match self {
            Coding::None => out.push_str(&shown(text)),
            Coding::Url => percent_encode(text, |byte| is_unreserved(byte) || byte == b'/', &mut out),
            Coding::UrlEncoded => {
                for (at, word) in text.split(' ').enumerate() {
                    if at > 0 {
                        out.push('+');
                    }
                    percent_encode(word, is_unreserved, &mut out);
                }
            }
            Coding::Base64 => BASE64_STANDARD.encode_string(bytes(text), &mut out),
            Coding::Entity => write_entities(&shown(text), &mut out),
        }
        out
    }

    /// What cannot be decoded stays as it is.
    pub fn decode(self, text: &str) -> String {
        match self {
            Coding::None => text.to_owned(),
            Coding::Url => percent_decode(text),
            Coding::UrlEncoded => percent_decode(&text.replace('+', " ")),
            Coding::Base64 => match BASE64_STANDARD.decode(text.trim()) {
                Ok(bytes) => of_vec(bytes),
                Err(_) => text.to_owned(),
            },
            Coding::Entity => {
                let plain = |text: String, (char, entity): &(char, &str)| {
                    text.replace(entity, char.encode_utf8(&mut [0; 4]))
                };
                // `&amp;` last, or `&amp;lt;` would be decoded twice.
                ENTITIES.iter().rev().fold(text.to_owned(), plain)
            }
        }
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn write_entities(text: &str, out: &mut String) {
    for char in text.chars() {
        match ENTITIES.iter().find(|(own, _)| *own == char) {
            Some((_, entity)) => out.push_str(entity),
            None => out.push(char),
        }
    }
}

/// An escape that is not valid stays as it is.
pub fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        match (first, hex_byte(behind)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    of_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_and_decodes() {
        let check = |coding: &str, plain: &str, expected: &str| {
            let coding = Coding::parse(coding).expect("it is a coding");
            assert_eq!(coding.encode(plain), expected);
            assert_eq!(coding.decode(expected), plain);
        };
        check("none", "<a b=\"&amp;\">", "<a b=\"&amp;\">");
        check("url", "/a b?c=é&d'", "/a%20b%3Fc%3D%C3%A9%26d%27");
        check("urlencoded", "/a b+c", "%2Fa+b%2Bc");
        check("base64", "a?b", "YT9i");
        check("url", "/B\u{10FEFC}cher", "/B%FCcher");
        check("entity", "<a b=\"'&lt;\">", "&lt;a b=&quot;&#39;&amp;lt;&quot;&gt;");
        assert_eq!(Coding::parse("html"), None);
        assert_eq!(Coding::Url.decode("%4%zz%"), "%4%zz%");
        assert_eq!(Coding::Base64.decode("é"), "é");
        assert_eq!(Coding::Entity.encode(&Coding::Url.decode("%ff")), "\u{fffd}");
    }
}
