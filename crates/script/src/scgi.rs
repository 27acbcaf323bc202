//! SCGI requests: a netstring of all variables, followed by the body. A connection carries one request; its end is
//! the end of the response, whose head `crate::response` parses.

use crate::environment::Environment;

const LENGTH: &[u8] = b"CONTENT_LENGTH";
const VERSION: &[u8] = b"SCGI";

/// Appends the request without its body, which has `body` bytes.
pub fn encode(environment: &Environment, body: u64, out: &mut Vec<u8>) {
    let body = body.to_string();
    let first = [(LENGTH, body.as_bytes()), (VERSION, b"1")];
    // Names must be unique, and the protocol sets these two.
    let rest = environment.iter().filter(|(name, _)| !matches!(*name, LENGTH | VERSION));
    let variables = first.into_iter().chain(rest);
    let len: usize = variables.clone().map(|(name, value)| name.len() + value.len() + 2).sum();
    let digits = len.to_string();
    out.reserve(digits.len() + len + 2);
    out.extend_from_slice(digits.as_bytes());
    out.push(b':');
    for (name, value) in variables {
        for text in [name, value] {
            out.extend_from_slice(text);
            out.push(0);
        }
    }
    out.push(b',');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Limits;

    #[test]
    fn the_length_is_first_and_each_name_is_there_once() {
        // `|` is NUL here.
        let check = |variables: &[(&str, &str)], body, expected: &str| {
            let pairs = variables.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let environment = Environment::received(pairs, Limits::default()).unwrap();
            let mut out = b"before ".to_vec();
            encode(&environment, body, &mut out);
            assert_eq!(String::from_utf8(out).unwrap().replace('\0', "|"), format!("before {expected}"));
        };
        check(&[], 0, "24:CONTENT_LENGTH|0|SCGI|1|,");
        check(&[("A", "b"), ("EMPTY", "")], 5, "35:CONTENT_LENGTH|5|SCGI|1|A|b|EMPTY||,");
        check(
            &[("SCGI", "2"), ("CONTENT_LENGTH", "9")],
            u64::MAX,
            "43:CONTENT_LENGTH|18446744073709551615|SCGI|1|,",
        );
    }
}
