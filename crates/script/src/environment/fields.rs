//! The request's fields as `HTTP_*` (RFC 3875 §4.1.18): which of them pass, under which name, and how
//! several lines of one become one value.

use taipan_http::fields::{is_name, trim_ows};
use taipan_http::forwarded;
use taipan_http::head::Field;

use super::{CgiRequest, Claims, Credentials, EnvironmentError, Writer};

/// What becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its lines become one value, with this between them.
    Pass(&'static [u8]),
    /// As `Authorization` does, where it may.
    Credentials,
    Drop,
}

/// Everything that is not simply passed.
const FATES: [(&str, Fate); 17] = [
    // RFC 6265 §5.4 has no comma between cookies.
    ("cookie", Fate::Pass(b"; ")),
    ("authorization", Fate::Credentials),
    // httpoxy: HTTP_PROXY is where programs look for their proxy.
    ("proxy", Fate::Drop),
    // They have variables of their own; that of Host is made from what is asked.
    ("content-length", Fate::Drop),
    ("content-type", Fate::Drop),
    ("host", Fate::Drop),
    // For the next hop and its server, and not for what is behind it (RFC 9110 §7.6.1). What a
    // Connection field names besides passes, for else a client could take away what a proxy in front of
    // us has added.
    ("connection", Fate::Drop),
    ("keep-alive", Fate::Drop),
    ("proxy-connection", Fate::Drop),
    ("te", Fate::Drop),
    ("trailer", Fate::Drop),
    ("transfer-encoding", Fate::Drop),
    ("upgrade", Fate::Drop),
    ("http2-settings", Fate::Drop),
    // The server has answered it, before the script is asked.
    ("expect", Fate::Drop),
    ("proxy-authorization", Fate::Drop),
    ("proxy-authenticate", Fate::Drop),
];

pub(super) fn write(asked: &CgiRequest, writer: &mut Writer) -> Result<(), EnvironmentError> {
    if !asked.host.is_empty() {
        writer.set("HTTP_HOST", asked.host)?;
    }
    for (at, field) in asked.fields.iter().enumerate() {
        let (earlier, rest) = asked.fields.split_at(at);
        match fate(field.name, asked.claims) {
            Fate::Pass(between) if !earlier.iter().any(|other| same(other, field)) => {
                let lines = rest.iter().filter(|other| same(other, field));
                let values = lines.map(|line| trim_ows(line.value)).filter(|value| !value.is_empty());
                writer.make(&variable(field.name), |block| join(values, between, block))?;
            }
            // Not a list: of two, nobody could say which is right.
            Fate::Credentials
                if asked.credentials == Credentials::Passed
                    && asked.fields.iter().filter(|other| same(other, field)).count() == 1 =>
            {
                writer.set("HTTP_AUTHORIZATION", field.value)?;
            }
            Fate::Pass(_) | Fate::Credentials | Fate::Drop => {}
        }
    }
    Ok(())
}

fn fate(name: &[u8], claims: Claims) -> Fate {
    match FATES.iter().find(|(known, _)| is_name(name, known)) {
        Some((_, fate)) => *fate,
        // `X_Name` and `X-Name` would become the same variable, and a proxy in front of us has looked at
        // one of them only. What else may be in a token, no shell can say.
        None if name.is_empty() => Fate::Drop,
        // REMOTE_ADDR, HTTPS and HTTP_HOST have it.
        None if forwarded::is_interpreted(name) => Fate::Drop,
        None if claims == Claims::Withheld && forwarded::is_claim(name) => Fate::Drop,
        None if name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') => Fate::Pass(b", "),
        None => Fate::Drop,
    }
}

fn same(one: &Field, other: &Field) -> bool {
    one.name.eq_ignore_ascii_case(other.name)
}

fn variable(name: &[u8]) -> String {
    let letter = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
    let bytes = b"HTTP_".iter().chain(name).map(letter).collect();
    // Only letters, digits and dashes pass.
    String::from_utf8(bytes).unwrap_or_default()
}

fn join<'a>(values: impl Iterator<Item = &'a [u8]>, between: &[u8], block: &mut Vec<u8>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            block.extend_from_slice(between);
        }
        block.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_dropped_in_any_case() {
        for (name, expected) in FATES {
            assert_eq!(fate(name.to_uppercase().as_bytes(), Claims::Passed), expected, "{name}");
        }
    }
}
