//! The arguments of an indexed query (RFC 3875 §4.4): `?one+two` becomes two arguments. Through them a client
//! controls the command line, which let it pass options to php-cgi (CVE-2012-1823). So a query with an argument that
//! looks like an option has no arguments.

use taipan_http::digits::hex_byte;

/// A query with more arguments has none.
pub const MAX_ARGUMENTS: usize = 128;

/// The decoded arguments of a raw query. `None` for a query that is empty, is too long, or has a raw `=`, a malformed
/// escape, a NUL, or an argument that begins with a hyphen.
pub fn arguments(query: &str) -> Option<Vec<Vec<u8>>> {
    if query.is_empty() || query.contains('=') || query.split('+').count() > MAX_ARGUMENTS {
        return None;
    }
    query.split('+').map(word).collect()
}

fn word(raw: &str) -> Option<Vec<u8>> {
    let mut pieces = raw.split('%');
    let mut word = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        word.push(hex_byte(piece.as_bytes())?);
        word.extend_from_slice(&piece.as_bytes()[2..]);
    }
    (!word.starts_with(b"-") && !word.contains(&0)).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_and_decodes_a_query() {
        let check = |query: &str, expected: Option<&[&str]>| {
            let expected = expected.map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect());
            assert_eq!(arguments(query), expected, "{query}");
        };
        check("one", Some(&["one"]));
        check("one+two", Some(&["one", "two"]));
        check("a%20b+%2B%3d", Some(&["a b", "+="]));
        check("a++b", Some(&["a", "", "b"]));
        check("a+b-", Some(&["a", "b-"]));
        check("a+-", None);
        check("-s", None);
        check("%2Ds", None);
        check("%2ds+a", None);
        check("a=b", None);
        check("a+b=", None);
        check("", None);
        check("a%", None);
        check("a%2", None);
        check("a%+1", None);
        check("a%g0", None);
        check("a%00", None);
        check(&["a"; MAX_ARGUMENTS].join("+"), Some(&["a"; MAX_ARGUMENTS]));
        check(&["a"; MAX_ARGUMENTS + 1].join("+"), None);
    }
}
