//! The keys of `[application.health]`.

use super::{Chapter, DAY, Key, Kind, Scope, Value, Words, count, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`[application.health]`",
    intro: "When an endpoint of an application counts as down. One that is down gets requests only if no other is up. A \
            route whose `proxy` has URLs has the same keys in `[route.proxy_health]`. See [Health](proxy.md#health).",
    scopes: &[Scope::Health],
    keys: &[
        Key {
            name: "failures",
            kind: count(0, 1000),
            default: Value("1"),
            example: "3",
            text: "So many failed requests within `window` take an endpoint out of service for the `pause`. A request has \
                   failed if the endpoint cannot be reached, does not respond in time, breaks off its response, or \
                   responds with a status of `failure_status`. 0: failed requests have no effect.",
        },
        Key {
            name: "window",
            kind: time(1, 3600),
            default: Value("\"10s\""),
            example: "\"1m\"",
            text: "The time in which failures count. An endpoint that fails again so soon after a pause gets the next one \
                   at once.",
        },
        Key {
            name: "pause",
            kind: time(1, 3600),
            default: Value("\"1s\""),
            example: "\"5s\"",
            text: "How long an endpoint is out of service, the first time. Each further time in a row it is twice as long.",
        },
        Key {
            name: "longest_pause",
            kind: time(1, DAY),
            default: Value("\"1m\""),
            example: "\"10m\"",
            text: "The longest of these times.",
        },
        Key {
            name: "failure_status",
            kind: Kind::Texts,
            default: Value("[]"),
            example: "[\"502-504\"]",
            text: "Responses with these statuses count as failures. The client gets them all the same.",
        },
        Key {
            name: "path",
            kind: Kind::Text,
            default: Words("none"),
            example: "\"/health\"",
            text: "Endpoints are checked by a GET of this path, whether there are requests or not, by HTTP/1.1, \
                   HTTP/2 or HTTPS as those. The `Host` is `localhost`, or with HTTPS the name in the certificate.",
        },
        Key {
            name: "status",
            kind: Kind::Texts,
            default: Value("[\"200-399\"]"),
            example: "[\"200\", \"204\"]",
            text: "The statuses of a check that has succeeded.",
        },
        Key {
            name: "interval",
            kind: time(100, 3600),
            default: Words("5s, if there is a `path`; else there are no checks"),
            example: "\"2s\"",
            text: "The time between two checks of an endpoint. Without a `path`, a check succeeds if the endpoint accepts a \
                   connection.",
        },
        Key {
            name: "timeout",
            kind: time(10, 60),
            default: Value("\"2s\""),
            example: "\"500ms\"",
            text: "How long a check may take until the status is there.",
        },
        Key {
            name: "rise",
            kind: count(1, 100),
            default: Value("2"),
            example: "1",
            text: "Checks in a row that must succeed until an endpoint that was down is up. The first check of all decides \
                   alone.",
        },
        Key {
            name: "fall",
            kind: count(1, 100),
            default: Value("3"),
            example: "2",
            text: "Checks in a row that must fail until an endpoint is down.",
        },
    ],
};
