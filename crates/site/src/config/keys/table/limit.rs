//! The keys of `[[limit]]`.

use super::{Chapter, DAY, Key, Kind, Scope, Value, Words, byte_rate, count, size, time};

pub const CHAPTER: Chapter = Chapter {
    title: "Speed and requests",
    intro: "In `[[limit]]`, `[[host.limit]]`, `[[route.limit]]` and `[[host.route.limit]]`. Each table has at least one of `download`, `upload`, `requests` and \
            `concurrent`. See [Limits](limits.md).",
    scopes: &[Scope::Limit],
    keys: &[
        Key {
            name: "by",
            kind: Kind::Text,
            default: Value("\"client\""),
            example: "\"field:X-API-Key\"",
            text: "What is counted together: the requests of a `\"connection\"`; of a `\"client\"`, which is an IPv4 address \
                   or the first 64 bits of an IPv6 address; of a `\"route\"`, of a `\"host\"`, or `\"all\"`; or those \
                   with the same value of a field, `\"field:NAME\"`, or of a cookie, `\"cookie:NAME\"`. A request without \
                   the field or the cookie is not limited; those with several of them are counted \
                   together.",
        },
        Key {
            name: "paths",
            kind: Kind::Texts,
            default: Words("all paths"),
            example: "[\"/downloads/\", \"*.iso\"]",
            text: "The paths that the limit is for, as patterns of routes. The path of the request counts, before rewrites.",
        },
        Key {
            name: "download",
            kind: byte_rate(1, 1 << 40),
            default: Words("no limit"),
            example: "\"500kB\"",
            text: "Bytes per second of responses, with their heads. Those that are counted together have equal shares.",
        },
        Key {
            name: "upload",
            kind: byte_rate(1, 1 << 40),
            default: Words("no limit"),
            example: "\"1MB\"",
            text: "Bytes per second of request bodies.",
        },
        Key {
            name: "burst",
            kind: size(0, 1 << 40),
            default: Words("a tenth of a second at the rate"),
            example: "\"2MB\"",
            text: "Bytes that pass at full speed after a pause, for `download` and `upload`. With less than the default, the \
                   default applies.",
        },
        Key {
            name: "min_download",
            kind: byte_rate(1, 1 << 40),
            default: Words("none"),
            example: "\"20kB\"",
            text: "A request gets 503 if one more response would leave each of those that share `download` less than this, \
                   in bytes per second.",
        },
        Key {
            name: "requests",
            kind: Kind::Rate { max: 1_000_000 },
            default: Words("no limit"),
            example: "\"5/m\"",
            text: "How many requests may come: in a second, or in a minute (`m`), an hour (`h`) or a day (`d`). Further ones \
                   get `status`, with `Retry-After`, `RateLimit` and `RateLimit-Policy`.",
        },
        Key {
            name: "requests_burst",
            kind: count(1, 1_000_000),
            default: Words("as many as come in a second, at least 1"),
            example: "10",
            text: "How many requests may come at once after a pause.",
        },
        Key {
            name: "concurrent",
            kind: count(1, 1_000_000),
            default: Words("no limit"),
            example: "8",
            text: "How many requests may be in progress at the same time. A request ends when its response is sent.",
        },
        Key {
            name: "queue",
            kind: count(0, 1_000_000),
            default: Value("0"),
            example: "100",
            text: "How many requests above `concurrent` may wait for their turn. One whose client disconnects is dropped. \
                   Further ones get `status`.",
        },
        Key {
            name: "wait",
            kind: time(1, DAY),
            default: Value("\"10s\""),
            example: "\"2s\"",
            text: "How long a request may wait in the queue. Then it gets `status`.",
        },
        Key {
            name: "status",
            kind: count(400, 599),
            default: Value("429"),
            example: "503",
            text: "The status of a request above `requests` or `concurrent`.",
        },
        Key {
            name: "announce",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Every response to a request that `requests` counts has `RateLimit` and `RateLimit-Policy`, not only a \
                   rejection.",
        },
        Key {
            name: "dry_run",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Nothing is rejected and nothing is slowed. The log tells which requests would have been rejected.",
        },
        Key {
            name: "name",
            kind: Kind::Text,
            default: Words("none"),
            example: "\"login\"",
            text: "A limit with a name applies only to requests for which an access rule says `limit` and the name.",
        },
    ],
};
