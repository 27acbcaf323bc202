//! The keys of `[cache_files]`.

use super::{Chapter, Key, Kind, Scope, Value, Words, count, size};

pub const CHAPTER: Chapter = Chapter {
    title: "`[cache_files]`",
    intro: "The files in which stored responses outlive a restart. See [The cache](cache.md#files).",
    scopes: &[Scope::CacheFiles],
    keys: &[
        Key {
            name: "folder",
            kind: Kind::Path,
            default: Words("none: it must be given"),
            example: "\"/var/cache/taipan\"",
            text: "The folder of the files. It must exist and be empty when it is used first, and the server's user must \
                   be able to write to it; no other user should. With `chroot`, it must be beneath it.",
        },
        Key {
            name: "bytes",
            kind: size(1 << 20, 1 << 60),
            default: Value("\"1GiB\""),
            example: "\"20GiB\"",
            text: "Bytes of all files, in blocks of 4 KiB, with those that are being written. What was used longest ago \
                   makes room for what is new.",
        },
        Key {
            name: "entries",
            kind: count(1, 100_000_000),
            default: Value("100000"),
            example: "1000000",
            text: "Stored responses. Each takes about 150 bytes of memory, in the index of the folder.",
        },
        Key {
            name: "largest",
            kind: size(1, 1 << 50),
            default: Value("\"64MiB\""),
            example: "\"1GiB\"",
            text: "Bytes of the largest body in a file.",
        },
        Key {
            name: "min_free",
            kind: size(0, 1 << 60),
            default: Value("\"256MiB\""),
            example: "\"5GiB\"",
            text: "Bytes of the file system that stay free. With less, stored responses are removed, and no more are \
                   stored.",
        },
    ],
};
