//! The keys of `[security_txt]`.

use super::{Chapter, Key, Kind, Required, Scope, Words};

pub const CHAPTER: Chapter = Chapter {
    title: "`[security_txt]`",
    intro: "Whom to tell about a weakness. Addresses begin with `https://`, `mailto:` or `tel:`.",
    scopes: &[Scope::SecurityTxt],
    keys: &[
        Key {
            name: "contact",
            kind: Kind::Texts,
            default: Required,
            example: "[\"mailto:security@example.org\", \"https://example.org/security\"]",
            text: "Where to report a weakness, the best way first.",
        },
        Key {
            name: "expires",
            kind: Kind::Text,
            default: Required,
            example: "\"2027-06-30T23:00:00Z\"",
            text: "The time after which the text is no longer to be trusted (RFC 3339), in less than a year.",
        },
        Key {
            name: "encryption",
            kind: Kind::Texts,
            default: Words("none"),
            example: "\"https://example.org/pgp-key.txt\"",
            text: "A key for encrypted reports.",
        },
        Key {
            name: "acknowledgments",
            kind: Kind::Texts,
            default: Words("none"),
            example: "\"https://example.org/thanks\"",
            text: "A page with the names of those who have reported something.",
        },
        Key {
            name: "preferred_languages",
            kind: Kind::Text,
            default: Words("none"),
            example: "\"en, de\"",
            text: "The languages of reports.",
        },
        Key {
            name: "canonical",
            kind: Kind::Texts,
            default: Words("none"),
            example: "\"https://example.org/.well-known/security.txt\"",
            text: "The addresses of this text itself.",
        },
        Key {
            name: "policy",
            kind: Kind::Texts,
            default: Words("none"),
            example: "\"https://example.org/disclosure\"",
            text: "A page with the rules for reports.",
        },
        Key {
            name: "hiring",
            kind: Kind::Texts,
            default: Words("none"),
            example: "\"https://example.org/jobs\"",
            text: "A page with jobs in security.",
        },
    ],
};
