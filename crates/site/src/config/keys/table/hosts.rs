//! The keys of a host, which the top level has for the default host.

use super::{Chapter, Key, Kind, Scope, Value, Words, count};

pub const CHAPTER: Chapter = Chapter {
    title: "Hosts",
    intro: "At the top level for the default host, and in each `[[host]]`.",
    scopes: &[Scope::Top, Scope::Host],
    keys: &[
        Key {
            name: "root",
            kind: Kind::Path,
            default: Words("none; a host without a root needs routes, redirects or rewrites"),
            example: "\"/srv/www\"",
            text: "The folder whose files are served. A relative path begins in the folder of the file that has this \
                   key. The server opens nothing outside of this folder, except through links that `symlinks` allows. \
                   At the top level and in a host, `$host` stands for the name in the request: [each name has a folder \
                   of its own](hosts.md#a-folder-for-each-name). `$ip` stands for the address of the server, in the same \
                   way. Not inherited.",
        },
        Key {
            name: "addresses",
            kind: Kind::Texts,
            default: Words("all addresses that no host names"),
            example: "[\"192.0.2.1\", \"[2001:db8::1]:8080\"]",
            text: "The addresses of the server at which the host responds, with or without a port. Connections to such an \
                   address have only the hosts that name it: by name, or else the one without names, or else the \
                   first. See [Hosts](hosts.md#hosts-by-address). Not inherited.",
        },
        Key {
            name: "canonical",
            kind: Kind::Choice(&["www", "bare", "first"]),
            default: Words("none; all names are equal"),
            example: "\"bare\"",
            text: "The name that the host gives itself. Requests with another one are redirected: `www` adds `www.` and \
                   `bare` removes it, if the host has that name as well; `first` redirects to the first name. Not \
                   inherited.",
        },
        Key {
            name: "default_folder",
            kind: Kind::Text,
            default: Words("none; the status of `missing_folder`"),
            example: "\"default\"",
            text: "With a `root` that has `$host` or `$ip`: the name in place of one that has no folder or cannot have \
                   one. Not inherited.",
        },
        Key {
            name: "missing_folder",
            kind: count(400, 599),
            default: Value("404"),
            example: "421",
            text: "With a `root` that has `$host` or `$ip`: the status for a name or an address without a folder. Not \
                   inherited.",
        },
        Key {
            name: "user_folders",
            kind: Kind::TextOrFalse,
            default: Value("false"),
            example: "\"public_html\"",
            text: "The folder in the home of each user whose files are served below `/~name/`. `[accounts]` says which \
                   users. Nothing there is run. See [Hosts](hosts.md#user-folders). Each host inherits it.",
        },
        Key {
            name: "names",
            kind: Kind::Texts,
            default: Words("none"),
            example: "[\"example.net\", \"*.example.net\"]",
            text: "The names of the host, without port. `*.example.org` stands for every name below `example.org`, but \
                   not for that name itself. A name precedes a wildcard, and a longer wildcard precedes a shorter one. \
                   A request for a name that no host has goes to the default host. Every other host needs names. Not \
                   inherited.",
        },
        Key {
            name: "throttle_file",
            kind: Kind::Path,
            default: Words("none"),
            example: "\"/etc/taipan/throttle\"",
            text: "A throttle file of thttpd(8): in each line a pattern, spaces, and bytes per second as `max` or `min-max`. \
                   The responses that a line matches share its `max`. A request gets 503 if one more response would leave \
                   each of them less than `min`. The first ten lines that match apply. See \
                   [Limits](limits.md#throttle-files).",
        },
        Key {
            name: "redirects",
            kind: Kind::Pairs("a table of `pattern = target` or `pattern = { to = target, status = 301 }`"),
            default: Words("none"),
            example: "{ \"/old\" = \"/new\", \"/blog/\" = { to = \"https://blog.example.org/$rest$query\", status = 301 } }",
            text: "Redirects in short form: see `redirect`. Not inherited.",
        },
        Key {
            name: "rewrites",
            kind: Kind::Pairs("a table of `pattern = path`"),
            default: Words("none"),
            example: "{ \"/favicon.ico\" = \"/images/icon.ico\", \"/wiki/\" = \"/doku.php?id=$rest\" }",
            text: "Rewrites in short form: see `rewrite`. Not inherited.",
        },
        Key {
            name: "route",
            kind: Kind::Tables(Scope::Route),
            default: Words("none"),
            example: "[[route]]\npath = \"/private/\"\nreturn = 403",
            text: "The settings of some paths. In a host, write `[[host.route]]`. A host has at most 1000 routes, \
                   including its redirects and rewrites. `[[route]]` always belongs to the top level, wherever it \
                   stands. Not inherited.",
        },
        Key {
            name: "robots",
            kind: Kind::TextOrFalse,
            default: Words("the file `robots.txt`, if there is one"),
            example: "\"deny\"",
            text: "What the host sends for `/robots.txt`: `deny` for a text that asks all robots to stay away, or the \
                   text itself. It takes the place of a file of that name, but not of a `[[route]]` for that path. \
                   Hosts inherit it; `false` removes an inherited one. See [Browsers](browsers.md#robots-and-researchers).",
        },
        Key {
            name: "security_txt",
            kind: Kind::Section(Scope::SecurityTxt),
            default: Words("the file `.well-known/security.txt`, if there is one"),
            example: "[security_txt]\ncontact = \"mailto:security@example.org\"\nexpires = \"2027-01-01T00:00:00Z\"",
            text: "Whom to tell about a weakness of the host (RFC 9116), sent for `/.well-known/security.txt`. In a host, \
                   write `[host.security_txt]`. It takes the place of a file of that name, but not of a `[[route]]` for \
                   that path. Hosts inherit it. `taipan check` warns when it has expired. See \
                   [Browsers](browsers.md#robots-and-researchers).",
        },
    ],
};
