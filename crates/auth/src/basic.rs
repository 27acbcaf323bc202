//! The field `Authorization` and its schemes; credentials and challenges of Basic (RFC 7617).

use std::fmt;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::hash::MAX_PASSWORD;
use crate::mistake::MAX_NAME;

/// Characters of `NAME:PASSWORD` in base 64.
const MAX_TOKEN: usize = (MAX_NAME + 1 + MAX_PASSWORD).div_ceil(3) * 4;

/// token68 has padding, but not all clients write it.
const BASE_64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A value of `Authorization` (RFC 9110 §11.4): its scheme, and what is behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorization<'a> {
    Basic(&'a [u8]),
    Digest(&'a [u8]),
    Bearer(&'a [u8]),
    /// Another scheme, or none.
    Other,
}

/// A user's name and password, as the client sent them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basic {
    pub user: String,
    pub password: Password,
}

/// A password of a request. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub Vec<u8>);

/// Why credentials are not valid for Basic. The response is 400 or 401; no password was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BasicError {
    TooLong,
    NotBase64,
    NotUtf8,
    /// RFC 7617 §2: neither part may have one.
    Control,
    NoColon,
}

impl<'a> Authorization<'a> {
    /// Never fails: the value of an unknown form is that of another scheme.
    pub fn parse(value: &'a [u8]) -> Self {
        let end = value.iter().position(|&byte| byte == b' ').unwrap_or(value.len());
        let (scheme, rest) = (&value[..end], value[end..].trim_ascii());
        let is = |name: &[u8]| scheme.eq_ignore_ascii_case(name);
        match () {
            () if is(b"basic") => Self::Basic(rest),
            () if is(b"digest") => Self::Digest(rest),
            () if is(b"bearer") => Self::Bearer(rest),
            () => Self::Other,
        }
    }
}

impl Basic {
    /// Parses what is behind the scheme. The first colon ends the name.
    pub fn parse(token: &[u8]) -> Result<Self, BasicError> {
        if token.len() > MAX_TOKEN {
            return Err(BasicError::TooLong);
        }
        let bytes = BASE_64.decode(token).map_err(|_| BasicError::NotBase64)?;
        let text = String::from_utf8(bytes).map_err(|_| BasicError::NotUtf8)?;
        if text.chars().any(char::is_control) {
            return Err(BasicError::Control);
        }
        let (user, password) = text.split_once(':').ok_or(BasicError::NoColon)?;
        if user.len() > MAX_NAME || password.len() > MAX_PASSWORD {
            return Err(BasicError::TooLong);
        }
        Ok(Self { user: user.to_owned(), password: Password(password.as_bytes().to_owned()) })
    }
}

/// The value of `WWW-Authenticate` that asks for a name and a password in UTF-8.
pub fn challenge(realm: &str) -> String {
    format!("Basic realm={}, charset=\"UTF-8\"", quoted(realm))
}

/// A quoted string (RFC 9110 §5.6.4). Control characters, which it cannot have, are left out.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars().filter(|character| !character.is_control()) {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Password")
    }
}

impl fmt::Display for BasicError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the credentials are too long",
            Self::NotBase64 => "the credentials are not base 64",
            Self::NotUtf8 => "the credentials are not UTF-8",
            Self::Control => "the credentials have a control character",
            Self::NoColon => "the credentials have no colon between name and password",
        })
    }
}

impl std::error::Error for BasicError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &[u8]) -> String {
        BASE_64.encode(text)
    }

    #[test]
    fn names_the_scheme_in_any_case() {
        let table: [(&[u8], Authorization); 7] = [
            (b"Basic QWxhZGRpbjpvcGVu", Authorization::Basic(b"QWxhZGRpbjpvcGVu")),
            (b"bASIC   x ", Authorization::Basic(b"x")),
            (b"Digest a=b", Authorization::Digest(b"a=b")),
            (b"BEARER a.b.c", Authorization::Bearer(b"a.b.c")),
            (b"Basic", Authorization::Basic(b"")),
            (b"Basically x", Authorization::Other),
            (b"", Authorization::Other),
        ];
        for (value, expected) in table {
            assert_eq!(Authorization::parse(value), expected, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn reads_names_and_passwords() {
        // The first two are the examples of RFC 7617 §2 and §2.1.
        let table = [
            ("QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Aladdin", "open sesame"),
            ("dGVzdDoxMjPCow==", "test", "123\u{a3}"),
            ("YTpi", "a", "b"),
            ("YTpiOmM=", "a", "b:c"),
            ("YTpiOmM", "a", "b:c"),
            ("Og==", "", ""),
            ("Ong=", "", "x"),
        ];
        for (token, user, password) in table {
            let expected = Basic { user: user.into(), password: Password(password.into()) };
            assert_eq!(Basic::parse(token.as_bytes()), Ok(expected), "{token}");
        }
    }

    #[test]
    fn rejects_text_without_a_valid_name_and_password() {
        let table = [
            (String::new(), BasicError::NoColon),
            (encoded(b"nocolon"), BasicError::NoColon),
            ("YTpi!".into(), BasicError::NotBase64),
            ("YTpi YTpi".into(), BasicError::NotBase64),
            ("YTpiOm".into(), BasicError::NotBase64),
            ("YTpiOmN=".into(), BasicError::NotBase64),
            (encoded(b"a:\xff"), BasicError::NotUtf8),
            (encoded(b"a:b\n"), BasicError::Control),
            (encoded(b"a\0:b"), BasicError::Control),
            (encoded("a:\u{85}".as_bytes()), BasicError::Control),
            (encoded(format!("{}:b", "a".repeat(MAX_NAME + 1)).as_bytes()), BasicError::TooLong),
            (encoded(format!("a:{}", "b".repeat(MAX_PASSWORD + 1)).as_bytes()), BasicError::TooLong),
            ("A".repeat(MAX_TOKEN + 1), BasicError::TooLong),
        ];
        for (token, expected) in table {
            assert_eq!(Basic::parse(token.as_bytes()), Err(expected), "{token}");
        }
        let longest = format!("{}:{}", "a".repeat(MAX_NAME), "b".repeat(MAX_PASSWORD));
        assert!(Basic::parse(encoded(longest.as_bytes()).as_bytes()).is_ok());
    }

    #[test]
    fn asks_in_utf_8() {
        assert_eq!(challenge("Files"), "Basic realm=\"Files\", charset=\"UTF-8\"");
        assert_eq!(challenge("a \"b\" \\ c\r\n"), r#"Basic realm="a \"b\" \\ c", charset="UTF-8""#);
    }

    #[test]
    fn debug_shows_no_password() {
        let basic = Basic::parse(b"YTpiOmM=").expect("credentials");
        assert_eq!(format!("{basic:?}"), "Basic { user: \"a\", password: Password }");
    }
}
