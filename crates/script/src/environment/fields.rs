//! The request's fields as `HTTP_*` variables (RFC 3875 §4.1.18): which of them pass, their names, and how several
//! lines of a field become one value.

use taipan_http::fields::{is_name, trim_ows};
use taipan_http::forwarded;
use taipan_http::head::Field;

use super::additions::length_bit;
use super::{CgiRequest, Claims, Credentials, EnvironmentError, Writer};
use crate::pairs;

/// What the names of the variables of fields begin with.
const PREFIX: &[u8] = b"HTTP_";

/// How a field is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// Its lines become one value, with this separator.
    Pass(&'static [u8]),
    /// Passes if `CgiRequest::credentials` permits it.
    Credentials,
    Drop,
}

/// The fields that do not pass with a comma as separator.
const TREATMENTS: [(&str, Treatment); 17] = [
    // RFC 6265 §5.4: cookies are separated by semicolons.
    ("cookie", Treatment::Pass(b"; ")),
    ("authorization", Treatment::Credentials),
    // Programs take HTTP_PROXY for the URL of their proxy (httpoxy, CVE-2016-5385).
    ("proxy", Treatment::Drop),
    // These have variables of their own. HTTP_HOST is the authority of the request.
    ("content-length", Treatment::Drop),
    ("content-type", Treatment::Drop),
    ("host", Treatment::Drop),
    // Fields for this hop alone (RFC 9110 §7.6.1). Other fields that Connection names pass: otherwise a client could
    // remove a field that a proxy has added.
    ("connection", Treatment::Drop),
    ("keep-alive", Treatment::Drop),
    ("proxy-connection", Treatment::Drop),
    ("te", Treatment::Drop),
    ("trailer", Treatment::Drop),
    ("transfer-encoding", Treatment::Drop),
    ("upgrade", Treatment::Drop),
    ("http2-settings", Treatment::Drop),
    // The server itself sends `100 Continue`.
    ("expect", Treatment::Drop),
    ("proxy-authorization", Treatment::Drop),
    ("proxy-authenticate", Treatment::Drop),
];

/// A bit for each length of a name in `TREATMENTS`. A name of another length needs no comparison.
const LENGTHS: u64 = {
    let (mut lengths, mut at) = (0, 0);
    while at < TREATMENTS.len() {
        lengths |= length_bit(TREATMENTS[at].0.len());
        at += 1;
    }
    lengths
};

pub(super) fn write(request: &CgiRequest, writer: &mut Writer) -> Result<(), EnvironmentError> {
    if !request.host.is_empty() {
        writer.set("HTTP_HOST", request.host)?;
    }
    for (at, field) in request.fields.iter().enumerate() {
        // HTTP_EARLY_DATA has its content.
        if request.is_early && is_name(field.name, "early-data") {
            continue;
        }
        let (earlier, rest) = request.fields.split_at(at);
        match treatment(field.name, request.claims) {
            Treatment::Pass(separator) if !earlier.iter().any(|other| same(other, field)) => {
                if !rest[1..].iter().any(|other| same(other, field)) {
                    writer.set_field(field.name, trim_ows(field.value))?;
                    continue;
                }
                let lines = rest.iter().filter(|other| same(other, field));
                let values = lines.map(|line| trim_ows(line.value)).filter(|value| !value.is_empty());
                writer.set_field(field.name, &values.collect::<Vec<_>>().join(separator))?;
            }
            // Not a list: with two fields, it is unknown which is right.
            Treatment::Credentials
                if request.credentials == Credentials::Passed
                    && request.fields.iter().filter(|other| same(other, field)).count() == 1 =>
            {
                writer.set("HTTP_AUTHORIZATION", field.value)?;
            }
            Treatment::Pass(_) | Treatment::Credentials | Treatment::Drop => {}
        }
    }
    Ok(())
}

fn treatment(name: &[u8], claims: Claims) -> Treatment {
    let has_length = LENGTHS & length_bit(name.len()) != 0;
    match TREATMENTS.iter().find(|(known, _)| has_length && is_name(name, known)) {
        Some((_, treatment)) => *treatment,
        None if name.is_empty() => Treatment::Drop,
        // REMOTE_ADDR, HTTPS and HTTP_HOST have their content.
        None if forwarded::is_interpreted(name) => Treatment::Drop,
        None if claims == Claims::Withheld && forwarded::is_claim(name) => Treatment::Drop,
        // `X_Name` and `X-Name` would become the same variable, and a proxy may have checked only the latter. Other
        // token characters are not valid in the name of a variable.
        None if name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') => {
            Treatment::Pass(b", ")
        }
        None => Treatment::Drop,
    }
}

fn same(one: &Field, other: &Field) -> bool {
    one.name.eq_ignore_ascii_case(other.name)
}

impl Writer<'_> {
    /// As `set`, for the variable of a field. `name` has only letters, digits and hyphens.
    fn set_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), EnvironmentError> {
        let is_own = |own: &str| {
            let rest = own.as_bytes().strip_prefix(PREFIX).filter(|rest| rest.len() == name.len());
            rest.is_some_and(|rest| rest.iter().copied().eq(name.iter().map(upper)))
        };
        if self.additions.iter().any(|(own, _)| is_own(own)) {
            return Ok(());
        }
        let out = &mut self.environment.pairs;
        let length = PREFIX.len() + name.len();
        pairs::encode_lengths(length, value.len(), out);
        out.extend_from_slice(PREFIX);
        out.extend(name.iter().map(upper));
        out.extend_from_slice(value);
        self.count(length, value)
    }
}

/// A byte of the name of a field, as the variable has it.
fn upper(byte: &u8) -> u8 {
    if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_dropped_in_any_case() {
        for (name, expected) in TREATMENTS {
            assert_eq!(treatment(name.to_uppercase().as_bytes(), Claims::Passed), expected, "{name}");
        }
    }
}
