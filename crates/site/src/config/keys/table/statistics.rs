//! The keys of `[statistics]`.

use super::{Chapter, Key, Scope, Value, count};

pub const CHAPTER: Chapter = Chapter {
    title: "`[statistics]`",
    intro: "Counts of hosts and of routes. See [Watching it](watching.md#hosts-and-routes).",
    scopes: &[Scope::Statistics],
    keys: &[
        Key {
            name: "hosts",
            kind: count(0, 500),
            default: Value("0"),
            example: "50",
            text: "The most hosts whose requests, statuses, bytes and durations are counted each by itself, by their first \
                   names, in the order of the configuration. All further hosts count together as `(others)`. 0: none.",
        },
        Key {
            name: "routes",
            kind: count(0, 500),
            default: Value("0"),
            example: "50",
            text: "The same for routes, by the name of their host and their pattern. A request counts for the route of the \
                   path that the client has sent, wherever rewrites and fallbacks lead.",
        },
    ],
};
