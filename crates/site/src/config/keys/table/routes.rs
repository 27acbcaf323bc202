//! The keys that only a `[[route]]` has.

use super::{Chapter, Key, Kind, Required, Scope, Value, Words, count, time};
use crate::monitor::Monitor;

pub const CHAPTER: Chapter = Chapter {
    title: "Routes",
    intro: "In `[[route]]`, or in `[[host.route]]` after the host that it belongs to.",
    scopes: &[Scope::Route],
    keys: &[
        Key {
            name: "path",
            kind: Kind::Text,
            default: Required,
            example: "\"/downloads/\"",
            text: "The pattern of the paths that the route matches. `/a/b` is that path alone. `/a/` is a prefix: the \
                   folder and everything below it. `/a/.` is the folder without what is below it, and `/.` the root \
                   of the host alone. With wildcards it is a glob: `*` and `?` match within a segment, `**` matches \
                   across slashes, and `/**/` matches any number of segments, also none. `[0-9]`, `[abc]` and \
                   `[a-z0-9_-]` match one of these characters, `[^abc]` matches another one that is no slash, and \
                   `[0-9]+` matches one or more. A class of one character is that character: `[[]`, `[*]`, `[?]`, and \
                   `[+]` behind a class. A glob without a slash, such as `*.css`, matches the last segment at any \
                   depth. An exact path precedes a glob, the first matching glob precedes a prefix, and the longest \
                   prefix precedes shorter ones. A glob takes settings that it does not have from the longest prefix \
                   around it: see [Scripts](scripts.md#patterns-below-a-prefix). Patterns are written decoded: \
                   `/a b`, not `/a%20b`. With `(?i)` in front, a pattern is a glob for which `a` and `A` are the \
                   same: `(?i)*.jpg`, `(?i)/admin/**`. The path `/` replaces the root of the host.",
        },
        Key {
            name: "root",
            kind: Kind::Path,
            default: Words("that of the prefix around a glob or a path, or else the root of the host"),
            example: "\"/mnt/other\"",
            text: "Another root for these paths: with `/mnt/other`, `/a/x` is `/mnt/other/a/x`. A route has at most \
                   one of `root`, `alias`, `application`, `proxy`, `redirect`, `rewrite`, `return`, `respond` and `monitor`. With \
                   none of them it only changes settings.",
        },
        Key {
            name: "alias",
            kind: Kind::Path,
            default: Words("none"),
            example: "\"/mnt/files\"",
            text: "A folder for the rest of the path: with `path = \"/a/\"`, `/a/x` is `/mnt/files/x`. The pattern \
                   must be a prefix.",
        },
        Key {
            name: "redirect",
            kind: Kind::Text,
            default: Words("none"),
            example: "\"https://example.org$path$query\"",
            text: "The URL or path to which the client is redirected. `$path` is the whole path with its slash. \
                   `$rest` is the path behind the pattern's prefix, without a slash in front. `$1` to `$9` are what \
                   the wildcards and classes of the pattern match, in their order: each as much as it can, and `**/` \
                   without its last slash. `$query` is the query with the `?` or `&` that joins it to what is before \
                   it, or empty; in `?to=$path$query` both are one value, the URL of the request. `$host` is the \
                   requested host without port, `$hostport` with it. `$scheme` is `http` or `https`. `$$` is a dollar \
                   sign, and `${rest}x` separates a name from the letters behind it. Values are percent-encoded; \
                   behind a question mark so that none of them ends a parameter.",
        },
        Key {
            name: "status",
            kind: count(301, 308),
            default: Value("302"),
            example: "308",
            text: "The status of the redirect: 301, 302, 303, 307 or 308. Browsers remember 301 and 308, so a mistake \
                   there cannot be taken back. 307 and 308 keep the method.",
        },
        Key {
            name: "rewrite",
            kind: Kind::Text,
            default: Words("none"),
            example: "\"/releases/latest/$rest\"",
            text: "Another path of the same host, whose route decides the response. It is written decoded, with \
                   `$path`, `$rest` and `$1` to `$9` as in `redirect`. A query for a script or an application may follow \
                   a question mark: see [Scripts](scripts.md#rewrites). That of the request is added to it, unless it \
                   ends with another `?` or says by `$query` where. After ten rewrites of one request the response is \
                   500.",
        },
        Key {
            name: "return",
            kind: count(400, 599),
            default: Words("none"),
            example: "410",
            text: "Responds with this status and its error page. 401, 405, 407, 416 and 426 are not possible, because \
                   they need fields of their own.",
        },
        Key {
            name: "respond",
            kind: Kind::Text,
            default: Words("none"),
            example: "\"ok\\n\"",
            text: "Responds to GET and HEAD with this text and the status 200. Its type is `text/plain; \
                   charset=utf-8`, or that of a `default_type` of the same route.",
        },
        Key {
            name: "monitor",
            kind: Kind::Choice(Monitor::NAMES),
            default: Words("none"),
            example: "\"healthy\"",
            text: "Responds with how the server does: `\"status\"` with a page for people, `\"metrics\"` for Prometheus and others that read OpenMetrics, \
                   `\"healthy\"` with 200 as long as the process serves, and `\"ready\"` with 200 as long as it should \
                   get requests, and 503 when it is about to end or no endpoint of an application is up. The page and \
                   the metrics need rules of access or credentials. `\"acts\"` is a form that changes the running server, \
                   and needs credentials. See [Watching it](watching.md).",
        },
        Key {
            name: "cgi",
            kind: Kind::Flag,
            default: Words("true with `interpreter`, false without"),
            example: "true",
            text: "Whether the server runs the files of the route by CGI/1.1 (RFC 3875) instead of sending them. With \
                   a prefix as path, all files in that folder are scripts. With a glob such as `*.cgi`, the files that \
                   match are scripts. The part of the path behind a script is its PATH_INFO. A script must be \
                   executable. See [Scripts](scripts.md).",
        },
        Key {
            name: "interpreter",
            kind: Kind::Text,
            default: Words("none: the files are programs, or name an interpreter in their first line"),
            example: "\"/usr/bin/php-cgi\"",
            text: "The program that runs the files of the route, with the path of the file as its only argument; or \
                   the name of an `[[application]]` that runs them. Such a file must be readable, but need not be \
                   executable.",
        },
        Key {
            name: "application",
            kind: Kind::Text,
            default: Words("none"),
            example: "\"app\"",
            text: "The name of the `[[application]]` that responds for every path of the route. With a prefix as path, \
                   the prefix is its SCRIPT_NAME and the rest is PATH_INFO. To have it run the files of the route, name \
                   it as `interpreter`.",
        },
        Key {
            name: "proxy",
            kind: Kind::Texts,
            default: Words("none"),
            example: "[\"http://127.0.0.1:3000\", \"http://127.0.0.1:3001\"]",
            text: "The URL of the web server that responds for every path of the route, or several URLs of which each \
                   request goes to the one with the fewest requests: short for an `[[application]]` that speaks HTTP. \
                   `http://unix:/run/app.sock` is a Unix socket, and `http://app` an `[[application]]` with this name. \
                   Other names are resolved, as in `address`. A path in the URL replaces the path of the route: with `path = \
                   \"/app/\"` and `http://127.0.0.1:3000/`, `/app/x` becomes `/x`. See [Reverse \
                   proxy](proxy.md).",
        },
        Key {
            name: "proxy_path",
            kind: Kind::Choice(&["normalized", "raw"]),
            default: Value("\"normalized\""),
            example: "\"raw\"",
            text: "How an upstream that speaks HTTP gets the path. `normalized`: as rules and routes read it. `raw`: as the \
                   client has sent it, also with encoded slashes (`%2F`), as registries and some APIs need it. Then dot \
                   segments are rejected with 400. See [Reverse proxy](proxy.md#the-path).",
        },
        Key {
            name: "proxy_balance",
            kind: Kind::Text,
            default: Value("\"least\""),
            example: "\"sticky\"",
            text: "Which of several URLs of `proxy` a request goes to, as `balance` of an `[[application]]` says it. See \
                   [Several endpoints](proxy.md#several-endpoints).",
        },
        Key {
            name: "proxy_hedge_after",
            kind: time(1, 3600),
            default: Words("never: a request waits for its endpoint alone"),
            example: "\"200ms\"",
            text: "How long a request waits for the head of a response before it is sent to a second one of the URLs of \
                   `proxy`, too, as `hedge_after` of an `[[application]]` says it. See [Hedging](proxy.md#hedging).",
        },
        Key {
            name: "proxy_hedge_budget",
            kind: count(1, 100),
            default: Value("10"),
            example: "20",
            text: "The most requests of a worker that two of the URLs have at the same time, per 100 requests that it has \
                   sent to them. One may always have two.",
        },
        Key {
            name: "proxy_health",
            kind: Kind::Section(Scope::Health),
            default: Words("every key has its own"),
            example: "[route.proxy_health]\nfailures = 3",
            text: "When one of the URLs of `proxy` counts as down, and how it is checked: the keys of \
                   [`[application.health]`](#applicationhealth).",
        },
        Key {
            name: "proxy_breaker",
            kind: Kind::Section(Scope::Breaker),
            default: Words("none: the URLs have requests whether they fail or not"),
            example: "[route.proxy_breaker]\nfailure_rate = 50",
            text: "When the URLs of `proxy` have no requests for a time, because too many have failed: the keys of \
                   [`[application.breaker]`](#applicationbreaker).",
        },
        Key {
            name: "proxy_host",
            kind: Kind::Text,
            default: Words("the requested host"),
            example: "\"app.internal:3000\"",
            text: "The `Host` of requests to an upstream that speaks HTTP, by `proxy` or `application`. \
                   `X-Forwarded-Host` remains the requested host.",
        },
        Key {
            name: "proxy_headers",
            kind: Kind::Pairs("a table of fields, each with a value or false"),
            default: Words("none"),
            example: "{ \"X-Site\" = \"blue\", \"Cookie\" = false }",
            text: "Fields of requests to an upstream that speaks HTTP: a value replaces what the client or the server \
                   sends, and `false` removes it. With a `+` before its name, a field is added to those of the client. \
                   `headers` does the same for responses.",
        },
        Key {
            name: "proxy_upgrade",
            kind: Kind::Texts,
            default: Value("[\"websocket\"]"),
            example: "[]",
            text: "The protocols that a client may ask for with `Upgrade` in a request to an upstream that speaks HTTP. If \
                   the upstream agrees, bytes are passed in both directions until one side ends. See [Reverse \
                   proxy](proxy.md#websocket).",
        },
        Key {
            name: "proxy_trailers",
            kind: Kind::Choice(&["all", "responses", "none"]),
            default: Value("\"all\""),
            example: "\"responses\"",
            text: "Whose trailer fields are passed, the fields behind a content, to and from an upstream that speaks HTTP: \
                   those of requests and responses, of responses alone, or none. See \
                   [Trailers](proxy.md#trailers).",
        },
        Key {
            name: "request_buffering",
            kind: Kind::Flag,
            default: Words("only for a body without a length, and an upstream that speaks HTTP/1.1"),
            example: "true",
            text: "Whether an upstream that speaks HTTP gets a request only when all of its body is there. The body waits \
                   in a file of `spool`, within `spool_bytes`. With `false`, every body is sent on as it comes. See \
                   [Request bodies](proxy.md#request-bodies).",
        },
        Key {
            name: "response_buffering",
            kind: Kind::Flag,
            default: Value("true"),
            example: "false",
            text: "Whether the response of a script or an upstream is read ahead while its client takes nothing: 64 KiB \
                   into memory, and the rest, if the client stays behind for a second, into a file of `spool`. The files \
                   of responses may have half of `spool_bytes`. See [Slow clients](proxy.md#slow-clients).",
        },
        Key {
            name: "script_processes",
            kind: count(1, 100_000),
            default: Words("the `processes` of `[scripts]`"),
            example: "4",
            text: "How many scripts of this route run at the same time. Further requests wait, as for `processes`.",
        },
        Key {
            name: "user",
            kind: Kind::Text,
            default: Words("the `user` of the prefix around a glob, or else of `[scripts]`"),
            example: "\"blog\"",
            text: "The account of the route's scripts, by name or number. It needs a server that root starts. A prefix \
                   with a `root` or an `alias` can name the account for globs that select its scripts.",
        },
        Key {
            name: "group",
            kind: Kind::Text,
            default: Words("the first group of the `user` beside it"),
            example: "\"blog\"",
            text: "The group of the route's scripts, with `user`.",
        },
        Key {
            name: "pass_authorization",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether scripts receive the field `Authorization`, as `HTTP_AUTHORIZATION`. It is for scripts that \
                   check passwords themselves.",
        },
        Key {
            name: "remote_host",
            kind: Kind::Choice(&["name", "address"]),
            default: Value("\"name\""),
            example: "\"address\"",
            text: "What scripts receive as `REMOTE_HOST`. `name`: the name of the client, where it is looked up and known. \
                   `address`: its address in place of a name that is not known.",
        },
    ],
};
