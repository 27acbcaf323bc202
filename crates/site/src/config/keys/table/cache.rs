//! The keys of `[cache]`.

use super::{Chapter, DAY, Key, Scope, Value, count, size, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`[cache]`",
    intro: "The open-file cache of each worker.",
    scopes: &[Scope::Cache],
    keys: &[
        Key {
            name: "entries",
            kind: count(0, 10_000_000),
            default: Value("4096"),
            example: "0",
            text: "Files, and paths without a file, that a worker remembers. 0 turns the cache off.",
        },
        Key {
            name: "descriptors",
            kind: count(0, 1_000_000),
            default: Value("1024"),
            example: "256",
            text: "Files that a worker keeps open.",
        },
        Key {
            name: "bytes",
            kind: size(0, 1 << 40),
            default: Value("\"32MiB\""),
            example: "\"64MiB\"",
            text: "Bytes of file content that a worker keeps in memory.",
        },
        Key {
            name: "file",
            kind: size(0, 1 << 30),
            default: Value("\"8KiB\""),
            example: "\"64KiB\"",
            text: "The largest file whose content is kept in memory. The kernel sends a larger one straight from the \
                   file, which costs less.",
        },
        Key {
            name: "check",
            kind: time(0, DAY),
            default: Value("\"1s\""),
            example: "\"10s\"",
            text: "How long a cached file is served without comparing it with the file on the disk. A change appears \
                   after this time at the latest.",
        },
        Key {
            name: "missing",
            kind: time(0, DAY),
            default: Value("\"1s\""),
            example: "\"10s\"",
            text: "How long the cache remembers that a file does not exist.",
        },
        Key {
            name: "folders",
            kind: count(1, 1_000_000),
            default: Value("1024"),
            example: "10000",
            text: "The folders of names and of users (`$host` in `root`, and `user_folders`) that a worker has open. \
                   Four times as many names without a folder are remembered for `missing`.",
        },
        Key {
            name: "responses",
            kind: size(0, 1 << 40),
            default: Value("\"32MiB\""),
            example: "\"256MiB\"",
            text: "Bytes of the responses of scripts and applications that a worker stores in memory, where \
                   `response_cache` is on.",
        },
    ],
};
