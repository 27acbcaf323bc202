//! The keys of `[resolver]`.

use super::{Chapter, DAY, Key, Kind, Scope, Value, Words, count, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`[resolver]`",
    intro: "How names are resolved. See [Names](proxy.md#names) of upstreams, and \
            [those of clients](logs.md#names-of-clients).",
    scopes: &[Scope::Resolver],
    keys: &[
        Key {
            name: "servers",
            kind: Kind::Texts,
            default: Words("those of the system, in `/etc/resolv.conf`"),
            example: "[\"10.0.0.53\", \"[::1]:5353\"]",
            text: "The DNS servers, by their IP addresses. Without a port, it is 53. Then domains to search, too, are not \
                   those of the system. `/etc/hosts` is used in any case.",
        },
        Key {
            name: "family",
            kind: Kind::Choice(&["ipv4_first", "ipv6_first", "ipv4", "ipv6", "both"]),
            default: Value("\"ipv4_first\""),
            example: "\"both\"",
            text: "Which addresses of a name are used. `ipv4_first` uses those of IPv6 only where there are no others. \
                   With `both`, each is an endpoint.",
        },
        Key {
            name: "min_ttl",
            kind: time(1000, DAY),
            default: Value("\"5s\""),
            example: "\"30s\"",
            text: "Addresses are not resolved again before this time, even if they are valid for less. A name that could \
                   not be resolved is tried again after this time, and then after longer ones.",
        },
        Key {
            name: "max_ttl",
            kind: time(1000, DAY),
            default: Value("\"1h\""),
            example: "\"5m\"",
            text: "Addresses are resolved again after this time, even if they are valid for longer.",
        },
        Key {
            name: "timeout",
            kind: time(100, 30),
            default: Value("\"2s\""),
            example: "\"500ms\"",
            text: "How long a DNS server may take to answer, before the question is sent once more.",
        },
        Key {
            name: "client_names",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Looks up the names of clients, for the access log and REMOTE_HOST. Nothing waits for them. See \
                   [Names of clients](logs.md#names-of-clients).",
        },
        Key {
            name: "client_name_entries",
            kind: count(100, 1_000_000),
            default: Value("10000"),
            example: "100000",
            text: "How many addresses of clients each worker remembers, with their names or without. Each takes up to \
                   some 350 bytes.",
        },
    ],
};
