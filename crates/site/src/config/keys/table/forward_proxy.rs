//! The keys of `[forward_proxy]`.

use super::{Chapter, Key, Kind, Scope, Value, Words, count, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`[forward_proxy]`",
    intro: "Who may open tunnels with CONNECT, or have requests forwarded, and where to. See [Forward proxy](forward-proxy.md).",
    scopes: &[Scope::ForwardProxy],
    keys: &[
        Key {
            name: "clients",
            kind: Kind::Texts,
            default: Words("required"),
            example: "[\"10.0.0.0/8\", \"2001:db8::/32\"]",
            text: "The networks of the clients that may use the proxy, at most 1024. `unix` is every client on a Unix \
                   socket. Others get 403.",
        },
        Key {
            name: "destinations",
            kind: Kind::Texts,
            default: Words("required"),
            example: "[\"*.example.org\", \"10.1.0.0/16\"]",
            text: "Where tunnels may lead, at most 1024 entries. A name, perhaps with the wildcards `*` and `?`, leads \
                   to the public addresses of a host with such a name. A network leads to its addresses, which may be \
                   private.",
        },
        Key {
            name: "ports",
            kind: Kind::Counts { min: 1, max: 65535 },
            default: Value("[80, 443]"),
            example: "[443, 8443]",
            text: "The ports of destinations.",
        },
        Key {
            name: "connect_timeout",
            kind: time(100, 300),
            default: Value("\"10s\""),
            example: "\"3s\"",
            text: "How long it may take until there is a connection: to resolve the name, and to try its addresses. \
                   Then the client gets 504.",
        },
        Key {
            name: "http",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether requests for URLs of other servers (`GET http://www.example.org/`) are forwarded, too. Otherwise \
                   there are only tunnels. See [Plain HTTP](forward-proxy.md#plain-http).",
        },
        Key {
            name: "first_byte",
            kind: time(100, 3600),
            default: Value("\"60s\""),
            example: "\"10s\"",
            text: "How long the other server may take from the end of a request to the head of its response. Then the client \
                   gets 504.",
        },
        Key {
            name: "idle",
            kind: time(100, 3600),
            default: Value("\"60s\""),
            example: "\"10s\"",
            text: "How long the other server may send nothing of a response that has begun, while the client reads it.",
        },
        Key {
            name: "keep",
            kind: time(0, 3600),
            default: Value("\"15s\""),
            example: "\"1m\"",
            text: "How long a connection to another server waits for a further request to it. 0: each request has a \
                   connection of its own.",
        },
        Key {
            name: "idle_connections",
            kind: count(0, 10_000),
            default: Value("64"),
            example: "200",
            text: "The most such connections of a worker. The one that has waited for the longest time is closed for another.",
        },
        Key {
            name: "store_responses",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether responses of other servers are stored, and sent to all clients that may use the proxy, as far as \
                   the responses allow it. See [Stored responses](forward-proxy.md#stored-responses).",
        },
    ],
};
