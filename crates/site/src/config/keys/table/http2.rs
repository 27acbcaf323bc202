//! The keys of `[http2]`.

use super::{Chapter, Key, Kind, Scope, Value, count, size};

pub const CHAPTER: Chapter = Chapter {
    title: "`[http2]`",
    intro: "HTTP/2. See [HTTP/2](http.md#http2).",
    scopes: &[Scope::Http2],
    keys: &[
        Key {
            name: "enabled",
            kind: Kind::Flag,
            default: Value("true"),
            example: "false",
            text: "Whether the server offers HTTP/2 to clients that connect with TLS. An address that is marked \
                   `http2` speaks it in any case.",
        },
        Key {
            name: "streams",
            kind: count(1, 10_000),
            default: Value("128"),
            example: "32",
            text: "Requests of one connection at the same time. The server refuses further ones, and clients send \
                   them again when others have ended.",
        },
        Key {
            name: "waiting",
            kind: count(1, 1_000_000),
            default: Value("1024"),
            example: "200",
            text: "Requests per worker that may wait for a script, for a disk or for their clients, beyond the first \
                   of each connection. The server refuses further ones.",
        },
        Key {
            name: "window",
            kind: size(1024, 1 << 30),
            default: Value("\"64KiB\""),
            example: "\"1MiB\"",
            text: "Bytes of a request body that a client may send before a script has read them. On connections with \
                   long delays, a larger window makes uploads faster.",
        },
        Key {
            name: "connection_window",
            kind: size(65_535, 1 << 30),
            default: Value("\"256KiB\""),
            example: "\"4MiB\"",
            text: "As `window`, for all request bodies of a connection together.",
        },
        Key {
            name: "large_windows",
            kind: count(0, 1_000_000),
            default: Value("256"),
            example: "32",
            text: "Connections per worker that may have more than 64 KiB of `connection_window`. Further ones have 64 KiB, so \
                   that many connections cannot take much memory together.",
        },
    ],
};
