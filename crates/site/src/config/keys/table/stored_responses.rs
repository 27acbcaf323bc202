//! The keys of the responses of upstreams that are stored.

use super::{Chapter, DAY, Key, Kind, Scope, Value, Words, count, size, time};

pub const CHAPTER: Chapter = Chapter {
    title: "Stored responses",
    intro: "At the top level, in hosts and in routes. See [The cache](cache.md).",
    scopes: &[Scope::Top, Scope::Host, Scope::Route],
    keys: &[
        Key {
            name: "response_cache",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether the responses of scripts and applications are stored, and sent again without asking \
                   them. What a response says in `Cache-Control` and other fields decides (RFC 9111). See [The \
                   cache](cache.md).",
        },
        Key {
            name: "response_cache_query",
            kind: Kind::Texts,
            default: Words("all parameters"),
            example: "[\"!utm_*\", \"!fbclid\"]",
            text: "The parameters of a query that tell two resources apart. With a `!` in front of each name: \
                   those that do not. `*` at the end stands for any rest. `[]`: no parameter counts.",
        },
        Key {
            name: "response_cache_lifetime",
            kind: time(0, 365 * DAY),
            default: Value("\"0s\""),
            example: "\"10s\"",
            text: "How long a response is fresh that says nothing about it, if its status may be stored without \
                   that: 200, 203, 204, 300, 301, 308, 404, 405, 410, 414 and 501. 0: `response_cache_heuristic` \
                   counts.",
        },
        Key {
            name: "response_cache_heuristic",
            kind: count(0, 100),
            default: Value("10"),
            example: "0",
            text: "For a response that has a `Last-Modified` and says nothing about how long it is fresh: so many \
                   percent of the time since then.",
        },
        Key {
            name: "response_cache_heuristic_max",
            kind: time(0, 365 * DAY),
            default: Value("\"1d\""),
            example: "\"1h\"",
            text: "The longest time that `response_cache_heuristic` leads to.",
        },
        Key {
            name: "response_cache_stale_while_revalidate",
            kind: time(0, 365 * DAY),
            default: Value("\"0s\""),
            example: "\"30s\"",
            text: "How long a stale response is sent at once, while a newer one is requested in the background. A \
                   `stale-while-revalidate` of the response takes precedence, and `must-revalidate`, \
                   `proxy-revalidate`, `s-maxage` and `no-cache` forbid it.",
        },
        Key {
            name: "response_cache_stale_if_error",
            kind: time(0, 365 * DAY),
            default: Value("\"0s\""),
            example: "\"1d\"",
            text: "How long a stale response is sent if the application cannot be reached, does not answer in \
                   time, or answers with 500, 502, 503 or 504. A `stale-if-error` of the response takes \
                   precedence, and the same directives as above forbid it.",
        },
        Key {
            name: "response_cache_cookies",
            kind: Kind::Choice(&["if-public", "ignored"]),
            default: Value("\"if-public\""),
            example: "\"ignored\"",
            text: "With `if-public`, requests with cookies get, and responses that set cookies become, stored \
                   responses only if these say `public` or `s-maxage`. With `ignored`, the cookies of requests do \
                   not count, and `Set-Cookie` is not stored: only for pages that are the same for all users.",
        },
        Key {
            name: "response_cache_reload",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether a request may demand a newer response by `Cache-Control: no-cache`, `max-age` or \
                   `min-fresh`, or by `Pragma: no-cache`. Without it, no client can make the application work for \
                   what is fresh. `no-store`, `max-stale` and `only-if-cached` always count.",
        },
        Key {
            name: "response_cache_targets",
            kind: Kind::Texts,
            default: Value("[\"CDN-Cache-Control\"]"),
            example: "[\"Edge-Cache-Control\", \"CDN-Cache-Control\"]",
            text: "Fields that are for caches like this one (RFC 9213). The first one that a response has counts \
                   in place of `Cache-Control` and `Expires`. `Surrogate-Control` is read, too, if it is listed.",
        },
        Key {
            name: "response_cache_surrogate",
            kind: Kind::Text,
            default: Value("\"\""),
            example: "\"taipan\"",
            text: "The name by which an application can address the cache in `Surrogate-Control`, as in \
                   `max-age=60;taipan`: such a directive counts alone, if `response_cache_targets` lists the \
                   field. Requests that may be stored then have `Surrogate-Capability: taipan=\"Surrogate/1.0\"`.",
        },
        Key {
            name: "response_cache_purge",
            kind: Kind::Texts,
            default: Words("PURGE is forwarded, as other methods are"),
            example: "[\"127.0.0.1\", \"10.0.0.0/8\"]",
            text: "Addresses and networks of the clients that may remove what is stored for a URL, by a request with the \
                   method PURGE; `unix` stands for clients on a Unix socket. Other clients get 403. Such a request \
                   passes the same rules of access, passwords, tokens and authorizers as any other. `[]`: every \
                   client gets 403.",
        },
        Key {
            name: "response_cache_tags",
            kind: Kind::Texts,
            default: Value("[\"Cache-Tag\", \"Surrogate-Key\"]"),
            example: "[\"X-Tags\"]",
            text: "The fields of a response that name its tags, by which it can be purged.",
        },
        Key {
            name: "response_cache_largest",
            kind: size(0, 1 << 40),
            default: Value("\"1MiB\""),
            example: "\"64MiB\"",
            text: "The largest body that is stored. While it is received, as much of it is kept in memory.",
        },
        Key {
            name: "response_cache_waiting",
            kind: count(0, 1_000_000),
            default: Value("1000"),
            example: "100",
            text: "Requests of a worker that wait together for one response which another request has asked for. \
                   Further ones are forwarded. 0: each is forwarded.",
        },
        Key {
            name: "response_cache_wait",
            kind: time(1, 3600),
            default: Value("\"5s\""),
            example: "\"500ms\"",
            text: "How long they wait. Then each is forwarded.",
        },
        Key {
            name: "response_cache_status",
            kind: Kind::Flag,
            default: Value("true"),
            example: "false",
            text: "Whether responses say in `Cache-Status` (RFC 9211) what the cache did.",
        },
    ],
};
