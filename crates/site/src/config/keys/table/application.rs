//! The keys of `[[application]]`.

use super::{Chapter, DAY, Key, Kind, Required, Scope, Value, Words, count, size, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`[[application]]`",
    intro: "An application is an upstream: a program that responds to one request after the other, by FastCGI, \
            SCGI or HTTP. Either another program starts it and it has an `address`, or the server starts it by a \
            `command`. See [Applications](applications.md).",
    scopes: &[Scope::Application],
    keys: &[
        Key {
            name: "name",
            kind: Kind::Text,
            default: Required,
            example: "\"php\"",
            text: "The name of the application in routes and in the log. It has no slash.",
        },
        Key {
            name: "required",
            kind: Kind::Flag,
            default: Value("true"),
            example: "false",
            text: "Whether a route with `monitor = \"ready\"` responds with 503 while none of its endpoints is up. Set it to \
                   `false` for an application that the site can do without.",
        },
        Key {
            name: "protocol",
            kind: Kind::Choice(&["fastcgi", "scgi", "http", "https"]),
            default: Value("\"fastcgi\""),
            example: "\"http\"",
            text: "The protocol of the application. `http` is HTTP/1.1, for gunicorn, uvicorn, Node and the like. With \
                   `http2`, it is HTTP/2. `https` is HTTP with TLS.",
        },
        Key {
            name: "address",
            kind: Kind::Texts,
            default: Words("none: the server starts it by its `command`"),
            example: "[\"127.0.0.1:9000\", \"unix:/run/php/php-fpm.sock\"]",
            text: "The addresses of an application that another program starts. `balance` says \
                   which one a request goes to. A name, such as \
                   `app.internal:3000`, stands for all of its addresses, and `_http._tcp.app.internal` for those of \
                   its SRV records. See [Names](proxy.md#names).",
        },
        Key {
            name: "http2",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether an application by HTTP speaks HTTP/2. With `http`, it must: it is not asked first. With \
                   `https`, it is offered, and an application that does not choose it gets HTTP/1.1. See \
                   [HTTP/2](proxy.md#http2).",
        },
        Key {
            name: "tls_ca",
            kind: Kind::Path,
            default: Words("the authorities that the system trusts"),
            example: "\"/etc/ssl/internal-ca.pem\"",
            text: "The authorities of the certificates of an application by `https`, in PEM. No others are trusted then.",
        },
        Key {
            name: "tls_name",
            kind: Kind::Text,
            default: Words("the name or the IP address in `address`"),
            example: "\"app.internal\"",
            text: "The name that is sent to an application by `https` (SNI), and that its certificate must have.",
        },
        Key {
            name: "tls_certificate",
            kind: Kind::Path,
            default: Words("none"),
            example: "\"/etc/taipan/client.pem\"",
            text: "The certificate, with its chain, by which the server identifies itself to an application by `https`.",
        },
        Key {
            name: "tls_certificate_key",
            kind: Kind::Path,
            default: Words("the file of `tls_certificate`"),
            example: "\"/etc/taipan/client.key\"",
            text: "The private key of `tls_certificate`, in PEM. The serving process reads it, also with `signer`.",
        },
        Key {
            name: "tls_verify",
            kind: Kind::Flag,
            default: Value("true"),
            example: "false",
            text: "Whether the certificate of an application by `https` must be valid. With `false`, anyone on the way to \
                   it can read and change requests and responses: `taipan check` warns.",
        },
        Key {
            name: "balance",
            kind: Kind::Text,
            default: Value("\"least\""),
            example: "\"hash client\"",
            text: "Which address a request goes to: `least`, that with the fewest requests; `round_robin`, one after \
                   the other; `random`, the less busy one of two; `hash client`, `hash path`, `hash field NAME` or \
                   `hash cookie NAME`, always the same for the same client, path, field or cookie; `sticky` or \
                   `sticky COOKIE`, the one that a cookie says, which the server sets. See [Several \
                   endpoints](proxy.md#several-endpoints).",
        },
        Key {
            name: "weights",
            kind: Kind::Counts { min: 1, max: 1000 },
            default: Words("1 for each"),
            example: "[3]",
            text: "A weight for each address, in their order: one with weight 3 gets three times as many requests as \
                   one with weight 1.",
        },
        Key {
            name: "retries",
            kind: count(0, 8),
            default: Value("1"),
            example: "2",
            text: "How often a request is sent to a further endpoint because one has failed before it responded: any \
                   request of which nothing was sent, and otherwise those of methods that may be repeated (GET, HEAD, \
                   OPTIONS, PUT, DELETE, PROPFIND, QUERY, REPORT, SEARCH) without a body, or with one that is \
                   stored, or of which no more than 128 KiB have been sent.",
        },
        Key {
            name: "hedge_after",
            kind: time(1, 3600),
            default: Words("never: a request waits for its endpoint alone"),
            example: "\"200ms\"",
            text: "How long a request waits for the head of a response before it is sent to a second endpoint, too. The \
                   first whole head counts, and the other connection is closed. Only GET, HEAD, OPTIONS, PROPFIND, \
                   QUERY, REPORT and SEARCH without a body, and not with `hash` or `sticky`. See \
                   [Hedging](proxy.md#hedging).",
        },
        Key {
            name: "hedge_budget",
            kind: count(1, 100),
            default: Value("10"),
            example: "20",
            text: "The most requests of a worker that two endpoints have at the same time, per 100 requests that it has sent \
                   to the application. One may always have two.",
        },
        Key {
            name: "slow_start",
            kind: time(0, 3600),
            default: Value("\"0s\""),
            example: "\"30s\"",
            text: "How long an endpoint takes until it gets its whole share of the requests, after it was added or is up \
                   again. It begins with a tenth. Not with `hash`.",
        },
        Key {
            name: "health",
            kind: Kind::Section(Scope::Health),
            default: Words("every key has its own"),
            example: "[application.health]\nfailures = 3",
            text: "When an endpoint counts as down, and how it is checked.",
        },
        Key {
            name: "breaker",
            kind: Kind::Section(Scope::Breaker),
            default: Words("none: the application has requests whether they fail or not"),
            example: "[application.breaker]\nfailure_rate = 50",
            text: "When an application whose requests fail has none for a time.",
        },
        Key {
            name: "connections",
            kind: count(1, 100_000),
            default: Value("64"),
            example: "8",
            text: "Connections to each `address`, over all workers. A response occupies one until its client has taken it. For php-fpm, use its `pm.max_children`.",
        },
        Key {
            name: "multiplex",
            kind: count(1, 1024),
            default: Value("1"),
            example: "16",
            text: "Requests at the same time on one connection, with FastCGI. The server asks the application whether \
                   it supports this (`FCGI_MPXS_CONNS`), and otherwise sends one request at a time. Leave it at 1 for \
                   php-fpm.",
        },
        Key {
            name: "command",
            kind: Kind::Texts,
            default: Words("none: another program starts it, at its `address`"),
            example: "[\"/srv/app/hello.cgi\", \"--quiet\"]",
            text: "The program to start, by its whole path, and its arguments. It inherits a listening socket, and \
                   accepts connections from it.",
        },
        Key {
            name: "socket",
            kind: Kind::Choice(&["stdin", "listen_fds"]),
            default: Value("\"stdin\""),
            example: "\"listen_fds\"",
            text: "How a process inherits its listening socket: as its standard input (FastCGI), or as descriptor 3 \
                   with `LISTEN_FDS` and `LISTEN_PID` (systemd).",
        },
        Key {
            name: "processes",
            kind: count(1, 10_000),
            default: Value("4"),
            example: "16",
            text: "The largest number of processes. The server starts them on demand.",
        },
        Key {
            name: "min_processes",
            kind: count(0, 10_000),
            default: Value("1"),
            example: "0",
            text: "The smallest number of processes. The server starts them at its own start. With 0, the first \
                   request starts one.",
        },
        Key {
            name: "spare_processes",
            kind: count(0, 10_000),
            default: Value("0"),
            example: "2",
            text: "Idle processes that are kept in addition to busy ones, up to `processes`. The next request then \
                   does not wait for a process to start.",
        },
        Key {
            name: "concurrent",
            kind: count(1, 10_000),
            default: Value("1"),
            example: "8",
            text: "Connections that one process serves at the same time. Use more than 1 for programs with threads or \
                   an event loop.",
        },
        Key {
            name: "unused",
            kind: time(100, 30 * DAY),
            default: Value("\"1m\""),
            example: "\"5m\"",
            text: "How long a process may be idle before the server ends it, if there are more than `min_processes`.",
        },
        Key {
            name: "requests",
            kind: count(0, 1_000_000_000),
            default: Value("0"),
            example: "500",
            text: "Requests after which a process is replaced. 0 is no limit. It is for programs that leak memory.",
        },
        Key {
            name: "memory",
            kind: size(1024 * 1024, 1 << 50),
            default: Words("none"),
            example: "\"256MiB\"",
            text: "Resident memory above which a process is replaced, after it has responded to its requests. The \
                   server checks it once a second.",
        },
        Key {
            name: "start",
            kind: time(100, 3600),
            default: Value("\"10s\""),
            example: "\"1m\"",
            text: "How long a process may take to accept its first connection. Then the server kills it.",
        },
        Key {
            name: "grace",
            kind: time(0, 3600),
            default: Value("\"5s\""),
            example: "\"30s\"",
            text: "The time between SIGTERM and SIGKILL for a process that the server ends.",
        },
        Key {
            name: "user",
            kind: Kind::Text,
            default: Words("that of the server"),
            example: "\"app\"",
            text: "The account of its processes. It needs a server that root starts.",
        },
        Key {
            name: "group",
            kind: Kind::Text,
            default: Words("the first group of the `user` beside it"),
            example: "\"app\"",
            text: "The group of its processes, with `user`.",
        },
        Key {
            name: "new_privileges",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether its processes can gain privileges by other programs, such as `sudo`, and as root, as \
                   [scripts](#scripts) can by this key.",
        },
        Key {
            name: "folder",
            kind: Kind::Path,
            default: Words("the folder of the program"),
            example: "\"/srv/app\"",
            text: "The working folder of its processes.",
        },
        Key {
            name: "env",
            kind: Kind::Pairs("a table of `NAME = value`"),
            default: Words("`PATH = \"/usr/local/bin:/usr/bin:/bin\"`"),
            example: "{ PHP_FCGI_MAX_REQUESTS = \"0\" }",
            text: "The whole environment of its processes. The `env` of a route adds to the variables of each request.",
        },
        Key {
            name: "queue",
            kind: count(0, 1_000_000),
            default: Value("256"),
            example: "50",
            text: "Requests that wait while the application is at capacity. Further ones get 503.",
        },
        Key {
            name: "wait",
            kind: time(0, DAY),
            default: Value("\"10s\""),
            example: "\"3s\"",
            text: "How long such a request waits. Then the response is 503.",
        },
        Key {
            name: "connect",
            kind: time(10, 3600),
            default: Value("\"5s\""),
            example: "\"1s\"",
            text: "How long it may take to connect. Then the response is 504.",
        },
        Key {
            name: "first_byte",
            kind: time(10, 30 * DAY),
            default: Value("\"1m\""),
            example: "\"10s\"",
            text: "How long the application may take until its response header is complete. Then the response is 504. \
                   Time spent waiting for the client's body does not count.",
        },
        Key {
            name: "idle",
            kind: time(10, 30 * DAY),
            default: Value("\"1m\""),
            example: "\"10s\"",
            text: "How long the application may write nothing after its response header. Then the response is aborted.",
        },
        Key {
            name: "total",
            kind: time(10, 30 * DAY),
            default: Value("\"1h\""),
            example: "\"5m\"",
            text: "How long one response may take in all.",
        },
        Key {
            name: "keep",
            kind: time(0, DAY),
            default: Words("10s; 1s with the protocols `http` and `https`"),
            example: "\"0s\"",
            text: "How long an idle connection to the application stays open. 0 opens a connection for each request. \
                   Keep it below the time after which the application closes idle connections: 2 s with gunicorn, 5 s \
                   with uvicorn and Node. Otherwise a request that cannot be repeated may meet a closed connection. \
                   SCGI always has one request per connection.",
        },
    ],
};
