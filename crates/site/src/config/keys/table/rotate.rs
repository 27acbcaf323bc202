//! The keys of `[log.rotate]`.

use super::{Chapter, Key, Kind, Scope, Value, Words, count, size};

pub const CHAPTER: Chapter = Chapter {
    title: "`[log.rotate]`",
    intro: "When the server renames the files of its logs and begins new ones. At least one of `size` and `every` is \
            needed.",
    scopes: &[Scope::Rotate],
    keys: &[
        Key {
            name: "size",
            kind: size(4096, 1 << 40),
            default: Words("any"),
            example: "\"100MiB\"",
            text: "A file is rotated before it gets larger than this.",
        },
        Key {
            name: "every",
            kind: Kind::Choice(&["hour", "day"]),
            default: Words("only by size"),
            example: "\"day\"",
            text: "A file that is not empty is rotated at each full hour, or once a day.",
        },
        Key {
            name: "at",
            kind: Kind::Text,
            default: Value("\"00:00\""),
            example: "\"03:30\"",
            text: "The time of the day for `every = \"day\"`, in UTC.",
        },
        Key {
            name: "keep",
            kind: count(1, 100_000),
            default: Value("14"),
            example: "30",
            text: "Rotated files of each log that are kept. Older ones are removed.",
        },
        Key {
            name: "keep_size",
            kind: size(4096, 1 << 40),
            default: Words("any"),
            example: "\"1GiB\"",
            text: "Bytes of rotated files of each log that are kept.",
        },
        Key {
            name: "compress",
            kind: Kind::Choice(&["none", "gzip", "zstd"]),
            default: Value("\"gzip\""),
            example: "\"zstd\"",
            text: "How rotated files are compressed, by a thread with the lowest priority.",
        },
        Key {
            name: "names",
            kind: Kind::Choice(&["date", "number"]),
            default: Value("\"date\""),
            example: "\"number\"",
            text: "With `date`, `access.log` becomes `access.log-20261122`; with the time, too, where there may be \
                   several in a day. With `number` it becomes `access.log.1`, which becomes `access.log.2`.",
        },
    ],
};
