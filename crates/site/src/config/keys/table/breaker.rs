//! The keys of `[application.breaker]`.

use super::{Chapter, DAY, Key, Scope, Value, count, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`[application.breaker]`",
    intro: "A circuit breaker: when too many of the requests to an application fail, it has none for a time, and clients \
            get 503 with `Retry-After` at once. A route whose `proxy` has URLs has the same keys in `[route.proxy_breaker]`. See \
            [The circuit breaker](proxy.md#the-circuit-breaker).",
    scopes: &[Scope::Breaker],
    keys: &[
        Key {
            name: "failure_rate",
            kind: count(1, 100),
            default: Value("50"),
            example: "80",
            text: "The breaker opens when so many of 100 requests within the `window` have failed. A request has failed if \
                   no endpoint has responded to it, or one with a status of `failure_status` in `[application.health]`.",
        },
        Key {
            name: "requests",
            kind: count(1, 1_000_000),
            default: Value("20"),
            example: "5",
            text: "With fewer requests to a worker within the `window`, the breaker does not open.",
        },
        Key {
            name: "window",
            kind: time(1000, 3600),
            default: Value("\"10s\""),
            example: "\"1m\"",
            text: "The time in which requests count.",
        },
        Key {
            name: "pause",
            kind: time(100, 3600),
            default: Value("\"5s\""),
            example: "\"2s\"",
            text: "How long the breaker is open, the first time. It is twice as long each time that a request after the \
                   pause fails.",
        },
        Key {
            name: "longest_pause",
            kind: time(100, DAY),
            default: Value("\"1m\""),
            example: "\"10m\"",
            text: "The longest of these times.",
        },
        Key {
            name: "probes",
            kind: count(1, 1000),
            default: Value("1"),
            example: "3",
            text: "After a pause, so many requests at a time are let through to the application. The breaker closes when as \
                   many in a row have succeeded, and opens again when one fails.",
        },
    ],
};
