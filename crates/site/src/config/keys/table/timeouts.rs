//! The keys of `[timeouts]`.

use super::{Chapter, DAY, Key, Scope, Value, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`[timeouts]`",
    intro: "How long things may take. The server closes a connection that is too slow.",
    scopes: &[Scope::Timeouts],
    keys: &[
        Key {
            name: "head",
            kind: time(10, DAY),
            default: Value("\"20s\""),
            example: "\"5s\"",
            text: "The time from the first byte of a request head to its last.",
        },
        Key {
            name: "body",
            kind: time(10, DAY),
            default: Value("\"20s\""),
            example: "\"5s\"",
            text: "How long a request body may arrive slower than `min_rate`, also when its response has begun. A body \
                   without a length that passes from HTTP/2 to HTTP/2, as with gRPC, has `upgraded` instead.",
        },
        Key {
            name: "write",
            kind: time(10, DAY),
            default: Value("\"20s\""),
            example: "\"5s\"",
            text: "How long a client may receive a response slower than `min_rate`.",
        },
        Key {
            name: "idle",
            kind: time(10, DAY),
            default: Value("\"1m\""),
            example: "\"15s\"",
            text: "How long a connection without a request stays open.",
        },
        Key {
            name: "linger",
            kind: time(0, 60),
            default: Value("\"5s\""),
            example: "\"1s\"",
            text: "How long the server reads on after the last response of a connection, so that the client receives \
                   the end of it (RFC 9112 §9.6).",
        },
        Key {
            name: "upgraded",
            kind: time(1000, DAY),
            default: Value("\"10m\""),
            example: "\"1h\"",
            text: "How long nothing may pass on a connection whose protocol was switched, as to WebSocket, or in a tunnel \
                   of the forward proxy, or on a stream of gRPC whose client can still send. Then it is closed.",
        },
        Key {
            name: "websocket_ping",
            kind: time(0, DAY),
            default: Value("\"0s\""),
            example: "\"30s\"",
            text: "After how long without a byte in either direction the client of a WebSocket connection gets a ping. \
                   If nothing comes for as long again, the connection is closed; the answer of a client counts for \
                   `upgraded`. 0 turns this off.",
        },
        Key {
            name: "events",
            kind: time(10, DAY),
            default: Value("\"1h\""),
            example: "\"10m\"",
            text: "How long one response with the events of a status page may take. Then it ends, and the browser asks for \
                   another, for which rules and passwords count again.",
        },
        Key {
            name: "disk",
            kind: time(10, DAY),
            default: Value("\"30s\""),
            example: "\"5s\"",
            text: "How long a lookup on a disk may take. Then the response is 503.",
        },
        Key {
            name: "shutdown",
            kind: time(0, DAY),
            default: Value("\"30s\""),
            example: "\"5s\"",
            text: "How long responses may take to finish after SIGTERM.",
        },
        Key {
            name: "reload",
            kind: time(0, DAY),
            default: Value("\"1h\""),
            example: "\"10m\"",
            text: "How long responses may take to finish after a reload or an upgrade.",
        },
        Key {
            name: "accept",
            kind: time(0, DAY),
            default: Value("\"1500ms\""),
            example: "\"5s\"",
            text: "How long a new connection waits in the kernel to be accepted while the worker is at capacity. Then \
                   it gets 503. Connections that arrived after it get 503 with it; the last of them waits for this \
                   time again, but 1.5 s at most.",
        },
        Key {
            name: "defer_accept",
            kind: time(0, 3600),
            default: Value("\"1s\""),
            example: "\"0s\"",
            text: "How long the kernel holds a new connection back until its client has sent something \
                   (TCP_DEFER_ACCEPT), in whole seconds. 0 turns this off. No worker is woken for a client that has \
                   connected and sent nothing. It is accepted after this time, and its other timeouts begin then.",
        },
        Key {
            name: "delay",
            kind: time(0, DAY),
            default: Value("\"100ms\""),
            example: "\"20ms\"",
            text: "How late a worker's loop may be. When it has been later than this for a second, requests that need \
                   a disk get 503. When it has been ten times later, all requests get 503. A worker with at most 64 \
                   requests in progress rejects none for that. 0 turns this off.",
        },
    ],
};
