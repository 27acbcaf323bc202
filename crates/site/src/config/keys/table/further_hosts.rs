//! The keys that only a further `[[host]]` has.

use super::{Chapter, Key, Kind, Scope, Value, Words};

pub const CHAPTER: Chapter = Chapter {
    title: "Further hosts",
    intro: "Only in `[[host]]`.",
    scopes: &[Scope::Host],
    keys: &[
        Key {
            name: "default",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Makes this host the default one, in place of the first host or the top level.",
        },
        Key {
            name: "access_log",
            kind: Kind::Sink,
            default: Words("the `access` of `[log]`"),
            example: "\"/var/log/taipan/example.log\"",
            text: "The host's own access log, in the format of `[log]`.",
        },
    ],
};
