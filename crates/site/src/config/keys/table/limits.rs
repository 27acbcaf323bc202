//! The keys of `[limits]`.

use taipan_http::head::MAX_FIELDS;

use super::{Chapter, Key, Scope, Value, Words, byte_rate, count, size};

pub const CHAPTER: Chapter = Chapter {
    title: "`[limits]`",
    intro: "What one process or one client may use.",
    scopes: &[Scope::Limits],
    keys: &[
        Key {
            name: "connections",
            kind: count(1, 1_000_000),
            default: Value("16384"),
            example: "500",
            text: "Connections of one worker. At this limit, a new connection replaces the one that has been idle \
                   longest, or else the one of the slowest client below `min_rate`.",
        },
        Key {
            name: "backlog",
            kind: count(1, 65_535),
            default: Value("4096"),
            example: "50",
            text: "Connections that may wait in the kernel until a worker accepts them, for each worker and address. The \
                   kernel takes `net.core.somaxconn` instead, if that is less.",
        },
        Key {
            name: "connections_per_client",
            kind: count(0, 1_000_000),
            default: Value("0"),
            example: "50",
            text: "Connections of one client address, over all workers. Further ones get 503 and are closed. 0 is no \
                   limit. Of an IPv6 address the first 64 bits count, which one customer usually has. Unix sockets have \
                   no addresses, and no such limit. Connections of `trusted_proxies` do not count, because a proxy has \
                   many clients; let the proxy limit each of them.",
        },
        Key {
            name: "rejections",
            kind: count(1, 100_000),
            default: Value("64"),
            example: "8",
            text: "Connections of one worker above `connections` that are receiving their 503 at the same time. When \
                   all of them are in use, the oldest closes at once for the next.",
        },
        Key {
            name: "requests",
            kind: count(0, u32::MAX as u64),
            default: Value("0"),
            example: "1000",
            text: "Requests on one connection. After the last one the connection is closed. 0 is no limit.",
        },
        Key {
            name: "head",
            kind: size(256, 1 << 20),
            default: Value("\"16KiB\""),
            example: "\"32KiB\"",
            text: "Bytes of a request head. A longer one gets 431; by HTTP/2, one of more than 256 KiB, or of four times \
                   this limit if that is more, ends its connection.",
        },
        Key {
            name: "fields",
            kind: count(1, MAX_FIELDS as u64),
            default: Value("100"),
            example: "50",
            text: "Fields in a request head, where the cookies of a browser are one. More get 431.",
        },
        Key {
            name: "target",
            kind: size(64, 1 << 16),
            default: Value("\"8KiB\""),
            example: "\"2KiB\"",
            text: "Bytes of a request target, its path and query. A longer one gets 414.",
        },
        Key {
            name: "body",
            kind: size(0, 1 << 40),
            default: Value("\"1MiB\""),
            example: "\"64KiB\"",
            text: "The `max_body` of every route that has none of its own.",
        },
        Key {
            name: "min_rate",
            kind: byte_rate(0, 1 << 30),
            default: Value("500"),
            example: "\"1KiB\"",
            text: "Bytes per second that a client must send or receive after the timeout of that phase. 0 is no limit. \
                   At the limit of `connections`, the server disconnects the slowest client below this rate after a \
                   second.",
        },
        Key {
            name: "disk_threads",
            kind: count(1, 256),
            default: Value("8"),
            example: "2",
            text: "Threads of one worker for operations that may wait for a disk. At most half of them wait for one \
                   device, so that a device that hangs leaves threads for the others.",
        },
        Key {
            name: "recent_requests",
            kind: count(0, 100_000),
            default: Words("`1000` with a route of `monitor = \"status\"`, and else `256`"),
            example: "0",
            text: "Requests that the page of `monitor = \"status\"` and `taipan top` can show as the last ones, over all \
                   workers. 0: none. Of a query, only the names are shown.",
        },
        Key {
            name: "disk_queue",
            kind: count(1, 1_000_000),
            default: Value("1024"),
            example: "100",
            text: "Requests of one worker that may wait for a disk. Further ones get 503. At most half of them wait \
                   for one device. A quarter of `connections` stays free for other requests: where `connections` is \
                   small, at most three quarters of it may wait for a disk, but at least 32.",
        },
        Key {
            name: "body_streams",
            kind: count(1, 1_000_000),
            default: Value("64"),
            example: "8",
            text: "Responses of one worker whose body is generated while it is sent. Further ones get 503. Such are \
                   listings of more than an eighth of `bytes` in `[cache]`, and gzip files that are decompressed for a \
                   client that does not accept gzip.",
        },
        Key {
            name: "upgraded",
            kind: count(0, 1_000_000),
            default: Value("1024"),
            example: "10000",
            text: "Connections of one worker whose protocol was switched, as to WebSocket, by a route with `proxy` or an \
                   application that speaks HTTP, and tunnels of the forward proxy. Further requests for that get 503.",
        },
        Key {
            name: "buffered_responses",
            kind: count(0, 1_000_000),
            default: Value("1024"),
            example: "10000",
            text: "Responses of scripts and upstreams of one worker that are read ahead of slow clients, each with 64 KiB \
                   of memory and perhaps a file. Further ones are read as their clients take them.",
        },
        Key {
            name: "compressed_streams",
            kind: count(0, 1_000_000),
            default: Value("64"),
            example: "16",
            text: "Responses of one worker that are compressed while they are sent. Further ones are sent as they are.",
        },
        Key {
            name: "unsent",
            kind: size(0, 1 << 30),
            default: Value("0"),
            example: "\"256KiB\"",
            text: "Bytes of a response that may wait unsent in the kernel for one slow client (TCP_NOTSENT_LOWAT). 0 \
                   is the kernel's default, which is about twice what is in flight to the client. This bounds what many \
                   slow readers of large files cost together. With 256 KiB, sending large files over a fast network \
                   took an eighth more processor time.",
        },
        Key {
            name: "generations",
            kind: count(2, 1000),
            default: Value("16"),
            example: "4",
            text: "Serving processes at the same time: the present one, and earlier ones that finish responses after a \
                   reload. At this limit the server rejects a reload.",
        },
        Key {
            name: "listing_entries",
            kind: count(1, 1_000_000),
            default: Value("10000"),
            example: "1000",
            text: "Entries in a listing. Of a folder with more, the listing has the first ones by name, and says so.",
        },
        Key {
            name: "includes",
            kind: count(0, 100_000),
            default: Value("256"),
            example: "64",
            text: "What one response may include, and ask sizes and times of, in all its [pages](includes.md). In the place \
                   of more stands the error message of the page.",
        },
        Key {
            name: "include_depth",
            kind: count(1, 16),
            default: Value("8"),
            example: "2",
            text: "Pages that are included in pages, in one another. In the place of more stands the error message.",
        },
        Key {
            name: "include_bytes",
            kind: size(1, 1 << 40),
            default: Value("\"16MiB\""),
            example: "\"1MiB\"",
            text: "Bytes that the directives of one response may make or include. The response is cut off behind them, or \
                   gets status 502 if none of it has been sent. To include nothing, set `includes` to 0.",
        },
    ],
};
