//! The keys of `[trace]`.

use super::{Chapter, Key, Kind, Scope, Value, Words, count};

pub const CHAPTER: Chapter = Chapter {
    title: "`[trace]`",
    intro: "With this section, each request is part of a trace (W3C Trace Context): see [Traces](watching.md#traces).",
    scopes: &[Scope::Trace],
    keys: &[
        Key {
            name: "context",
            kind: Kind::Choice(&["continue", "restart"]),
            default: Value("\"continue\""),
            example: "\"restart\"",
            text: "Whether a request with a `traceparent` is part of the trace that it names, and sampled if that is; or \
                   begins a trace, because clients are not to choose.",
        },
        Key {
            name: "sample",
            kind: count(1, 1_000_000),
            default: Value("1"),
            example: "100",
            text: "Of the traces that begin here, one in so many is sampled; each worker counts for itself.",
        },
        Key {
            name: "exemplars",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether metrics as OpenMetrics name, for each bucket of the durations, the latest sampled trace that fell into \
                   it. See [Metrics](watching.md#metrics).",
        },
        Key {
            name: "export",
            kind: Kind::Text,
            default: Words("spans are not sent"),
            example: "\"http://127.0.0.1:4318/v1/traces\"",
            text: "The OpenTelemetry collector that gets the spans of sampled requests, by OTLP in JSON: by `http://`, or \
                   by `https://` with a certificate that is verified. The port 4318 and the path `/v1/traces` can be left out. As many as `queue` of `[log]` allows wait for it; \
                   further ones are dropped and counted.",
        },
        Key {
            name: "tls_ca",
            kind: Kind::Path,
            default: Words("the authorities that the system trusts"),
            example: "\"/etc/ssl/internal-ca.pem\"",
            text: "The authorities of the certificate of a collector by `https`, in PEM. No others are trusted then.",
        },
        Key {
            name: "service",
            kind: Kind::Text,
            default: Value("\"taipan\""),
            example: "\"shop\"",
            text: "The `service.name` of the spans.",
        },
    ],
};
