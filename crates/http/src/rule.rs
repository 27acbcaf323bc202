//! The rules that a request can break, each with a token for programs and a sentence for people. Each error of the
//! other modules has one. Knows nothing of the error pages and logs that print them.

use std::fmt;

/// A rule that a request can break.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Lower-case words with hyphens between them, such as `host-missing`. Tokens are stable between versions.
    pub token: &'static str,
    /// One sentence without quotation marks and without a full stop.
    pub sentence: &'static str,
}

/// The body is larger than its route allows.
pub const BODY_TOO_LARGE: &Rule = &Rule::new("body-too-large", "the body is larger than allowed here");

/// The connection of a client has ended within the body.
pub const BODY_INCOMPLETE: &Rule =
    &Rule::new("body-incomplete", "the client has ended its side of the connection within the body");

/// A client would store a part of a file as the whole (RFC 9110 §14.5).
pub const PART_OF_A_FILE: &Rule =
    &Rule::new("content-range", "the body is a part of a file, which would be stored as the whole");

/// A client would store a file in a coding, which nothing would undo.
pub const CODED_FILE: &Rule =
    &Rule::new("content-encoding", "the body has a Content-Encoding, and is stored as it is");

/// An upstream leads to this server (RFC 9110 §7.6.3).
pub const PROXY_LOOP: &Rule = &Rule::new(
    "proxy-loop",
    "the request has passed this server ten times, because an upstream leads back to it",
);

/// The destination of COPY or MOVE is on another server (RFC 4918 §9.8.5).
pub const DESTINATION_ELSEWHERE: &Rule = &Rule::new(
    "destination-elsewhere",
    "the Destination is on another server, and this one changes its own files alone",
);

/// The destination of COPY or MOVE is the source (RFC 4918 §9.8.5), or contains it, or is in it.
pub const DESTINATION_OVERLAPS: &Rule = &Rule::new(
    "destination-overlaps",
    "the Destination is what is to be copied or moved, or a folder around it or in it",
);

/// COPY or MOVE would replace or remove the folder in which everything is.
pub const DESTINATION_ROOT: &Rule =
    &Rule::new("destination-root", "the root folder is neither moved nor replaced");

/// A client without TLS has connected to a port for TLS.
pub const PLAINTEXT: &Rule =
    &Rule::new("plaintext", "the client speaks plain HTTP, and this port speaks TLS (https)");

impl Rule {
    pub(crate) const fn new(token: &'static str, sentence: &'static str) -> Rule {
        Rule { token, sentence }
    }
}

/// The form of the log: `host-missing: an HTTP/1.1 request needs a Host field`.
impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}: {}", self.token, self.sentence)
    }
}

/// Generates `rule` and `Display` of an error type, with one line per variant. `Display` writes the sentence alone.
macro_rules! rules {
    ($error:ident { $($variant:pat => $token:literal $sentence:literal,)* } $($nested:pat => $rule:expr,)*) => {
        impl $error {
            /// The broken rule.
            pub const fn rule(self) -> &'static $crate::rule::Rule {
                match self {
                    $($variant => {
                        const RULE: &$crate::rule::Rule = &$crate::rule::Rule::new($token, $sentence);
                        RULE
                    })*
                    $($nested => $rule,)*
                }
            }

            #[cfg(test)]
            pub(crate) const RULES: &'static [(&'static str, &'static str)] = &[$(($token, $sentence)),*];
        }

        impl ::std::fmt::Display for $error {
            fn fmt(&self, out: &mut ::std::fmt::Formatter) -> ::std::fmt::Result {
                out.write_str(self.rule().sentence)
            }
        }

        impl ::std::error::Error for $error {}
    };
}

pub(crate) use rules;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunked::ChunkError;
    use crate::framing::FramingError;
    use crate::head::HeadError;
    use crate::target::{PathError, TargetError};

    #[test]
    fn each_rule_has_a_unique_token_and_a_row_in_the_manual() {
        let tables = [
            HeadError::RULES,
            TargetError::RULES,
            FramingError::RULES,
            PathError::RULES,
            ChunkError::RULES,
            &[BODY_TOO_LARGE, BODY_INCOMPLETE, PART_OF_A_FILE, CODED_FILE, PROXY_LOOP, PLAINTEXT]
                .map(|rule| (rule.token, rule.sentence)),
            &[DESTINATION_ELSEWHERE, DESTINATION_OVERLAPS, DESTINATION_ROOT]
                .map(|rule| (rule.token, rule.sentence)),
        ];
        let mut tokens: Vec<_> = tables.concat();
        for (token, sentence) in &tokens {
            assert!(
                token.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            );
            assert!(!sentence.ends_with('.') && sentence.contains(' '), "{sentence}");
            assert!(
                sentence.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\')
            );
        }
        let manual = include_str!("../../../docs/manual/http.md");
        for (token, sentence) in &tokens {
            let starts = format!("| `{token}` | ");
            let row = manual.lines().find(|line| line.starts_with(&starts)).unwrap_or_default();
            assert!(row.ends_with(&format!(" | {sentence} |")), "the manual lacks {token}: {sentence}");
        }
        tokens.sort_unstable();
        assert!(tokens.windows(2).all(|pair| pair[0].0 != pair[1].0), "{tokens:?}");
    }
}
