//! The keys of `[log]`.

use super::{Chapter, DAY, Key, Kind, Scope, Value, Words, count, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`[log]`",
    intro: "What the server logs, and where.",
    scopes: &[Scope::Log],
    keys: &[
        Key {
            name: "access",
            kind: Kind::SinkOrFalse,
            default: Value("false"),
            example: "\"/var/log/taipan/access.log\"",
            text: "Where the server writes one line for each request. A relative path begins in the folder of the \
                   configuration file. `$host` in a path stands for the first name of each host: see \
                   [A file for each host](logs.md#a-file-for-each-host).",
        },
        Key {
            name: "format",
            kind: Kind::Choice(&[
                "common",
                "combined",
                "json",
                "boa",
                "boa-host",
                "boa-address",
                "thttpd",
                "thttpd-host",
            ]),
            default: Value("\"combined\""),
            example: "\"json\"",
            text: "The format of the access log. Those of other servers end with the `User-Agent`: see \
                   [Logs](logs.md#formats-of-other-servers).",
        },
        Key {
            name: "fields",
            kind: Kind::Text,
            default: Words("none: `format` says it"),
            example: "\"$remote_addr $host $status $request_time\"",
            text: "A format of your own in place of `format`, with [names](logs.md#fields-by-name) as in nginx's \
                   `log_format`.",
        },
        Key {
            name: "only",
            kind: Kind::Choices(&["errors", "server-errors", "slow"]),
            default: Words("every request"),
            example: "[\"errors\", \"slow\"]",
            text: "The requests that have a line in the access log: those with a status from 400 or from 500 on, or \
                   whose response ended early; and those that take longer than `slow`.",
        },
        Key {
            name: "slow",
            kind: time(1, DAY),
            default: Value("\"1s\""),
            example: "\"300ms\"",
            text: "A request that takes longer is slow, for `only`.",
        },
        Key {
            name: "sample",
            kind: count(1, 1_000_000),
            default: Words("all of them; with `only`, none"),
            example: "100",
            text: "Of the requests that `only` does not name, one in so many has a line; each worker counts for itself.",
        },
        Key {
            name: "scripts",
            kind: Kind::Sink,
            default: Words("`error`"),
            example: "\"/var/log/taipan/scripts.log\"",
            text: "Where the server writes what CGI scripts and FastCGI applications write to standard error.",
        },
        Key {
            name: "error",
            kind: Kind::Sink,
            default: Value("\"stderr\""),
            example: "\"syslog\"",
            text: "Where the server writes its messages.",
        },
        Key {
            name: "level",
            kind: Kind::Choice(&["error", "warn", "info", "debug"]),
            default: Value("\"warn\""),
            example: "\"info\"",
            text: "The lowest level of messages that are written.",
        },
        Key {
            name: "client_errors",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether the error log, too, has a line for each request whose status is from 400 to 499, with the file \
                   that it was for. The line is a warning: see [Logs](logs.md#errors-of-clients).",
        },
        Key {
            name: "script_starts",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether the error log has a line when a script is started, and one when it has ended, with its process \
                   ID. They are written at every `level`.",
        },
        Key {
            name: "error_format",
            kind: Kind::Choice(&["taipan", "boa"]),
            default: Value("\"taipan\""),
            example: "\"boa\"",
            text: "The format of the error log: with the time in UTC and the level, or as Boa's, which has the time as in \
                   its access log: see [Logs](logs.md#formats-of-other-servers).",
        },
        Key {
            name: "timezone",
            kind: Kind::Text,
            default: Value("\"UTC\""),
            example: "\"CET-1CEST,M3.5.0,M10.5.0/3\"",
            text: "The time in access logs that are not JSON, and in an error log as Boa's: a zone by its name in \
                   `/usr/share/zoneinfo`, such as `Europe/Berlin`; or by its rule, such as \
                   `CET-1CEST,M3.5.0,M10.5.0/3`; or `local`, which is that of `TZ`, `/etc/localtime` or `/etc/TZ`. It is \
                   read with the configuration.",
        },
        Key {
            name: "forwarded_for",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Lines of the access log have the field `X-Forwarded-For` of the request in place of the client, and the \
                   address in parentheses if there is none, as with Boa's `LogXFF`. Any client can send this field: \
                   [`trusted_proxies`](#trusted_proxies) is safer. JSON is not changed.",
        },
        Key {
            name: "queue",
            kind: count(1, 1_000_000),
            default: Value("256"),
            example: "64",
            text: "Blocks of lines (32 KiB) that may wait for a slow disk, and for each command or TCP peer. Further \
                   ones are dropped and counted.",
        },
        Key {
            name: "rotate",
            kind: Kind::Section(Scope::Rotate),
            default: Words("none: another program rotates the files"),
            example: "[log.rotate]\nevery = \"day\"\nkeep = 30",
            text: "The server rotates the files of all logs: see [Logs](logs.md#rotation).",
        },
    ],
};
