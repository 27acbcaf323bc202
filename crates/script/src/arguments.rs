//! The command line of an indexed query (RFC 3875 §4.4): `?one+two` becomes two words. Whoever lets a
//! client write a command line should know why: it is what made php-cgi print and run what was sent to
//! it. So a word that a program could take for an option makes the query no command line.

/// Words that are read, at most.
pub const MAX_ARGUMENTS: usize = 128;

/// The decoded words of a raw query; `None` where it is none of this kind: with a raw `=`, empty, too
/// long, with an escape that is none, a NUL, or a word that begins with a hyphen.
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
        let (digits, rest) = piece.as_bytes().split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        word.push(digit(digits[0])? << 4 | digit(digits[1])?);
        word.extend_from_slice(rest);
    }
    (!word.starts_with(b"-") && !word.contains(&0)).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_query() {
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
