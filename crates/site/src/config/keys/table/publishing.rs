//! The keys of files that clients may change.

use super::{Chapter, Key, Kind, Scope, Value, Words, size, time};

pub const CHAPTER: Chapter = Chapter {
    title: "Publishing",
    intro: "At the top level, in hosts and in routes. See [Publishing](publishing.md).",
    scopes: &[Scope::Top, Scope::Host, Scope::Route],
    keys: &[
        Key {
            name: "publish",
            kind: Kind::Choice(&["off", "read", "files", "webdav"]),
            default: Value("\"off\""),
            example: "\"webdav\"",
            text: "What clients may do with the files of the route, beside reading them. `webdav`: everything that \
                   RFC 4918 has, as for a folder that is mounted. `files`: upload and delete single files with PUT and \
                   DELETE. `read`: list folders by WebDAV, and change nothing. It is for routes with `root` or `alias`. \
                   Nothing that lies in such a folder is run as a script. `max_body` is the size of the largest file.",
        },
        Key {
            name: "publish_anonymous",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether a route may be published without passwords, tokens, authorizers and rules of access: without \
                   this key, that is an error.",
        },
        Key {
            name: "publish_quota",
            kind: size(0, 1 << 50),
            default: Words("none"),
            example: "\"10GiB\"",
            text: "The bytes of all files and folders beneath the root together, each of which counts at least 4 KiB. What \
                   would exceed them gets 507. The server counts them at the first upload, and now and then again.",
        },
        Key {
            name: "publish_min_free",
            kind: size(0, 1 << 50),
            default: Value("\"16MiB\""),
            example: "\"1GiB\"",
            text: "The bytes of the file system that stay free. An upload that would use them gets 507.",
        },
        Key {
            name: "publish_sync",
            kind: Kind::Flag,
            default: Value("true"),
            example: "false",
            text: "Whether the server waits until the disk has a file before it replaces the old one and responds \
                   (fsync). With `false`, uploads are faster, and a power failure may lose the last of them.",
        },
        Key {
            name: "publish_make_folders",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether PUT makes the folders of the path that are missing. WebDAV demands 409 instead.",
        },
        Key {
            name: "publish_deep_listing",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether PROPFIND may list all that lies beneath a folder, with `Depth: infinity`. At most \
                   `listing_entries` of `[limits]` are listed; with more, the response is 507.",
        },
        Key {
            name: "publish_umask",
            kind: Kind::Text,
            default: Value("\"022\""),
            example: "\"007\"",
            text: "The file mode creation mask of new files and folders, as octal digits in quotation marks. They \
                   belong to the user that serves.",
        },
        Key {
            name: "publish_resumable",
            kind: time(0, dav::upload::LONGEST),
            default: Value("\"1d\""),
            example: "\"0s\"",
            text: "How long an upload that was interrupted can be resumed, if its client speaks \
                   draft-ietf-httpbis-resumable-upload. 0: uploads cannot be resumed.",
        },
        Key {
            name: "publish_lock_time",
            kind: time(1000, dav::locks::LONGEST),
            default: Value("\"1h\""),
            example: "\"10m\"",
            text: "The longest time that a client can lock a file or a folder before it has to renew the lock.",
        },
    ],
};
