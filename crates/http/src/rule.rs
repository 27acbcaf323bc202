//! The rules that a request can break, each with a token for programs and a sentence for people. The
//! errors of the other modules name theirs. Knows nothing of pages and logs, which show them.

use std::fmt;

/// A rule that a request has broken.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Lower-case words with hyphens between them, such as `host-missing`. It does not change.
    pub token: &'static str,
    /// One sentence, without a quotation mark, and without a full stop at its end.
    pub sentence: &'static str,
}

/// A body is larger than the route it is sent to allows.
pub const BODY_TOO_LARGE: &Rule = &Rule::new("body-too-large", "the body is larger than allowed here");

impl Rule {
    pub(crate) const fn new(token: &'static str, sentence: &'static str) -> Rule {
        Rule { token, sentence }
    }
}

/// As a log has it: `host-missing: an HTTP/1.1 request needs a Host field`.
impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}: {}", self.token, self.sentence)
    }
}

/// One broken rule per line: the function that names it, and its `Display`, which is the sentence alone.
macro_rules! rules {
    ($error:ident { $($variant:pat => $token:literal $sentence:literal,)* } $($nested:pat => $rule:expr,)*) => {
        impl $error {
            /// The rule that is broken.
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
    fn every_rule_has_a_token_of_its_own_and_one_sentence() {
        let tables = [
            HeadError::RULES,
            TargetError::RULES,
            FramingError::RULES,
            PathError::RULES,
            ChunkError::RULES,
            &[(BODY_TOO_LARGE.token, BODY_TOO_LARGE.sentence)],
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
