//! The keys of `[accounts]`.

use super::{Chapter, Key, Kind, Scope, Value, Words, count};

pub const CHAPTER: Chapter = Chapter {
    title: "`[accounts]`",
    intro: "The users of `user_folders`. A user has a folder if the account has the number `least_uid` or above, is not \
            `nobody`, and can log in: its shell is not `nologin`, `false` or the like. See \
            [Hosts](hosts.md#user-folders).",
    scopes: &[Scope::Accounts],
    keys: &[
        Key {
            name: "homes",
            kind: Kind::Texts,
            default: Value("[\"/home\"]"),
            example: "[\"/home\", \"/srv/homes\"]",
            text: "The folders that contain homes. A user whose home is elsewhere has no folder. The sandbox lets the \
                   server read beneath them.",
        },
        Key {
            name: "only",
            kind: Kind::Texts,
            default: Words("all users that the other keys allow"),
            example: "[\"ann\", \"bob\"]",
            text: "The users that have folders.",
        },
        Key {
            name: "except",
            kind: Kind::Texts,
            default: Words("none"),
            example: "[\"guest\"]",
            text: "The users that have none.",
        },
        Key {
            name: "least_uid",
            kind: count(1, u32::MAX as u64),
            default: Value("1000"),
            example: "500",
            text: "The least number of an account with a folder. Accounts of the system have smaller ones.",
        },
        Key {
            name: "passwd",
            kind: Kind::Path,
            default: Value("\"/etc/passwd\""),
            example: "\"/etc/taipan/passwd\"",
            text: "The file with the accounts, in the form of passwd(5). With `chroot`, its path in there. For accounts \
                   of a directory service, write them to a file: `getent passwd > FILE`.",
        },
    ],
};
