//! The keys of `[[rule]]`: who may have a response.

use super::{Chapter, Key, Kind, Required, Scope, Words, count};

pub const CHAPTER: Chapter = Chapter {
    title: "Rules of access",
    intro: "In each `[[rule]]`. All conditions of a rule must be true; an entry of a list with `!` in front excludes \
            what it matches. The first rule that matches decides, apart from those with `then = \"limit\"`. See \
            [Access](access.md).",
    scopes: &[Scope::Rule],
    keys: &[
        Key {
            name: "then",
            kind: Kind::Choice(&["allow", "deny", "redirect", "authenticate", "limit"]),
            default: Required,
            example: "\"deny\"",
            text: "What happens to a request that the rule matches. `redirect` sends the client to another URL, \
                   `authenticate` allows the request to users who identify themselves. `limit` counts the request in \
                   the limit that is named, and allows nothing: the next rule that matches decides.",
        },
        Key {
            name: "status",
            kind: count(300, 599),
            default: Words("403, or 302 for `redirect`"),
            example: "404",
            text: "The status of a request that is denied, with its error page; or 301, 302, 303, 307 or 308 for \
                   `then = \"redirect\"`.",
        },
        Key {
            name: "to",
            kind: Kind::Text,
            default: Words("none"),
            example: "\"/archive/hello\"",
            text: "The path or the URL that `then = \"redirect\"` leads to. `$path` and `$rest` stand for the path of \
                   the request, with and without the slash in front; `$query` for its query, which is left out \
                   otherwise; `$host` and `$hostport` for its host, without and with the port; `$scheme` for its scheme.",
        },
        Key {
            name: "limit",
            kind: Kind::Text,
            default: Words("none"),
            example: "\"slow\"",
            text: "The `name` of a `[[limit]]`, for `then = \"limit\"`.",
        },
        Key {
            name: "address",
            kind: Kind::Texts,
            default: Words("every address"),
            example: "[\"10.0.0.0/8\", \"!10.0.0.99\", \"2001:db8::/32\"]",
            text: "Addresses and networks of the client, and `unix` for clients on a Unix socket. A client whose \
                   address a proxy does not tell is none of them. Behind a trusted proxy, it is the address that the \
                   proxy reports.",
        },
        Key {
            name: "server_address",
            kind: Kind::Texts,
            default: Words("every address"),
            example: "[\"!10.0.0.0/8\", \"!192.168.0.0/16\"]",
            text: "Addresses and networks of the server, to which the connection was made. Not true for a Unix socket.",
        },
        Key {
            name: "address_file",
            kind: Kind::Texts,
            default: Words("none"),
            example: "\"blocked.txt\"",
            text: "Files with further entries of `address`, one in each line. `#` begins a comment. They are read with \
                   the configuration.",
        },
        Key {
            name: "method",
            kind: Kind::Texts,
            default: Words("every method"),
            example: "[\"POST\", \"PUT\"]",
            text: "Methods, in upper case. They match in any case. `GET` is for HEAD, too: `\"!GET\"` excludes both.",
        },
        Key {
            name: "host",
            kind: Kind::Texts,
            default: Words("every host"),
            example: "\"*.example.org\"",
            text: "Names that the request is for, without port. `*` stands for any characters, `?` for one.",
        },
        Key {
            name: "path",
            kind: Kind::Texts,
            default: Words("every path"),
            example: "[\"/private/\", \"*.bak\"]",
            text: "Patterns, as in the `path` of a route. A pattern for a file is for its precompressed copies, too.",
        },
        Key {
            name: "query",
            kind: Kind::Texts,
            default: Words("every query"),
            example: "[\"*<script*\", \"debug=*\", \"*&debug=*\"]",
            text: "The query of the request, without its question mark, as it was sent or decoded. It may have `*` and \
                   `?`, and case does not matter, unless `(?-i)` stands in front. An empty string stands for none. What \
                   rewrites add does not count.",
        },
        Key {
            name: "referer",
            kind: Kind::Texts,
            default: Words("every value"),
            example: "[\"\", \"self\", \"*.example.org\"]",
            text: "The page that links to the path, by its host, or with a slash by its whole URL. `self` is the host of \
                   the request, and an empty string stands for no `Referer`.",
        },
        Key {
            name: "user_agent",
            kind: Kind::Texts,
            default: Words("every value"),
            example: "[\"*badbot*\", \"\"]",
            text: "Values of `User-Agent`, with `*` and `?`. Case does not matter, unless `(?-i)` stands in front.",
        },
        Key {
            name: "field",
            kind: Kind::Pairs("a table of `NAME = value`"),
            default: Words("none"),
            example: "{ X-Api-Key = \"!(?-i)Secret-*\" }",
            text: "Values of any fields, with `*` and `?`. Case does not matter, unless `(?-i)` stands in front. A field that \
                   is absent has the empty value.",
        },
        Key {
            name: "tls",
            kind: Kind::Flag,
            default: Words("both"),
            example: "false",
            text: "Whether the request came by HTTPS.",
        },
        Key {
            name: "tls_version",
            kind: Kind::Texts,
            default: Words("every version"),
            example: "\"1.2\"",
            text: "Versions of TLS.",
        },
        Key {
            name: "client_certificate",
            kind: Kind::Texts,
            default: Words("not looked at"),
            example: "[\"CN=ann\", \"CN=ann,*\"]",
            text: "Subjects of a verified client certificate (RFC 4514), with `*` and `?`. `*CN=ann*` would also match \
                   `CN=annette`.",
        },
        Key {
            name: "time",
            kind: Kind::Texts,
            default: Words("always"),
            example: "[\"mon-fri 08:00-18:00\", \"sat\"]",
            text: "Days and times, in UTC.",
        },
    ],
};
