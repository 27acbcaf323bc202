//! The keys of passwords, which a route inherits from its host.

use super::{Chapter, Key, Kind, Scope, Value, Words};

pub const CHAPTER: Chapter = Chapter {
    title: "Passwords",
    intro: "At the top level, in `[[host]]` and in `[[route]]`. A host inherits from the top level, and a route from its \
            host. See [Passwords](passwords.md).",
    scopes: &[Scope::Top, Scope::Host, Scope::Route],
    keys: &[
        Key {
            name: "auth",
            kind: Kind::Choice(&["basic", "digest", "off"]),
            default: Value("\"off\""),
            example: "\"basic\"",
            text: "How clients say who they are. `basic` sends the password with each request, so that it needs HTTPS; \
                   `digest` sends a hash, and needs files of its own.",
        },
        Key {
            name: "realm",
            kind: Kind::Text,
            default: Value("\"Restricted\""),
            example: "\"Members of the club\"",
            text: "The name of what is protected. Browsers show it and remember the password for it, and the hashes of \
                   Digest belong to it.",
        },
        Key {
            name: "user_files",
            kind: Kind::Texts,
            default: Words("none"),
            example: "\"/etc/taipan/users\"",
            text: "Files with users and the hashes of their passwords, as `taipan passwd` and Apache's `htpasswd` write \
                   them, or `htdigest` for Digest. They are read when the server starts, and again within seconds of a \
                   change. Only root needs to be able to read them.",
        },
        Key {
            name: "users",
            kind: Kind::Pairs("a table of `NAME = hash`"),
            default: Words("none"),
            example: "{ ann = \"$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\" }",
            text: "Users in the configuration itself, with the hash that `taipan passwd -n` prints.",
        },
        Key {
            name: "group_files",
            kind: Kind::Texts,
            default: Words("none"),
            example: "\"/etc/taipan/groups\"",
            text: "Files with lines such as `staff: ann bob`.",
        },
        Key {
            name: "groups",
            kind: Kind::Pairs("a table of `NAME = users`"),
            default: Words("none"),
            example: "{ staff = \"ann bob\" }",
            text: "Groups in the configuration itself, with the names of their users.",
        },
        Key {
            name: "require",
            kind: Kind::Texts,
            default: Words("every user"),
            example: "[\"user:ann\", \"group:staff\"]",
            text: "Who may pass: `user` is every user, `user:NAME` one of them, and `group:NAME` those of a group.",
        },
        Key {
            name: "satisfy",
            kind: Kind::Choice(&["all", "any", "rules"]),
            default: Value("\"all\""),
            example: "\"any\"",
            text: "How passwords and rules of access go together. `all`: the rules must allow the request, and a user \
                   must authenticate. `any`: a rule that allows the request is enough, and so is a user. `rules`: a user \
                   must authenticate where a rule has `then = \"authenticate\"`.",
        },
        Key {
            name: "plain_passwords",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether files may have passwords without a hash, as old servers took them. Others can read them there.",
        },
        Key {
            name: "des_passwords",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether files may have hashes of 13 characters, which htpasswd of thttpd and of old systems made \
                   with DES. Any computer finds such a password in a day, and eight characters of it count: set \
                   passwords again with `taipan passwd`, and remove the key.",
        },
        Key {
            name: "folder_passwords",
            kind: Kind::Choice(&["off", "folder", "inherited"]),
            default: Value("\"off\""),
            example: "\"folder\"",
            text: "Whether a file `.htpasswd` protects the folder that it is in. `folder`: that folder alone, as with \
                   thttpd. `inherited`: the folders below it, too, unless they have a file of their own. With `symlinks = \
                   \"beneath\"`, a link to a file of another folder that has such a file is 403, and with `inherited` one to \
                   what is below that, too.",
        },
    ],
};
