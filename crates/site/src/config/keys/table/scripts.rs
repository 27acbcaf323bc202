//! The keys of `[scripts]`.

use super::{Chapter, DAY, Key, Kind, Scope, Value, Words, count, size, time};

pub const CHAPTER: Chapter = Chapter {
    title: "`[scripts]`",
    intro: "Settings of all scripts. Routes say which files are scripts. The workers share each number.",
    scopes: &[Scope::Scripts],
    keys: &[
        Key {
            name: "processes",
            kind: count(1, 100_000),
            default: Value("64"),
            example: "16",
            text: "Scripts that run at the same time. The workers share this number, and each may run at least one.",
        },
        Key {
            name: "queue",
            kind: count(0, 1_000_000),
            default: Value("256"),
            example: "50",
            text: "Requests that wait until a script may run. Further ones get 503.",
        },
        Key {
            name: "wait",
            kind: time(0, DAY),
            default: Value("\"10s\""),
            example: "\"3s\"",
            text: "How long such a request waits. Then the response is 503.",
        },
        Key {
            name: "first_byte",
            kind: time(10, 30 * DAY),
            default: Value("\"1m\""),
            example: "\"10s\"",
            text: "How long a script may take until its header is complete. Then the server ends it, and the response \
                   is 504. Time spent waiting for the client's body does not count.",
        },
        Key {
            name: "idle",
            kind: time(10, 30 * DAY),
            default: Value("\"1m\""),
            example: "\"10s\"",
            text: "How long a script may write nothing after its header. Then the server ends it. A script that cannot \
                   write because its client is slow is not idle.",
        },
        Key {
            name: "total",
            kind: time(10, 30 * DAY),
            default: Value("\"1h\""),
            example: "\"5m\"",
            text: "How long a script may run in all. Then the server ends it.",
        },
        Key {
            name: "grace",
            kind: time(0, 3600),
            default: Value("\"5s\""),
            example: "\"1s\"",
            text: "The time between SIGTERM and SIGKILL for a script that the server ends. Both go to all processes of \
                   its process group.",
        },
        Key {
            name: "memory",
            kind: size(1 << 20, 1 << 50),
            default: Words("the limit of the server"),
            example: "\"512MiB\"",
            text: "Address space of each process of a script (RLIMIT_AS). Programs in Go, Java or for Node reserve far \
                   more than they use.",
        },
        Key {
            name: "cpu",
            kind: time(1000, 30 * DAY),
            default: Words("the limit of the server"),
            example: "\"30s\"",
            text: "CPU time of each process of a script, in whole seconds (RLIMIT_CPU).",
        },
        Key {
            name: "files",
            kind: count(8, 1_048_576),
            default: Value("1024"),
            example: "256",
            text: "Descriptors of each process of a script (RLIMIT_NOFILE).",
        },
        Key {
            name: "tasks",
            kind: count(1, 1_000_000),
            default: Words("the limit of the server"),
            example: "200",
            text: "Processes and threads of the user (RLIMIT_NPROC). The kernel counts all processes of that user, \
                   also the server's own threads. Root has no such limit.",
        },
        Key {
            name: "cgroup",
            kind: Kind::TextOrFalse,
            default: Value("false"),
            example: "\"auto\"",
            text: "The control group beneath which each script gets one of its own (cgroups(7), version 2): a folder \
                   beneath `/sys/fs/cgroup` that is delegated to the server, or `\"auto\"` for the server's own group. \
                   When the script ends, all processes in its group are killed. `\"auto\"` needs `Delegate=yes` in a \
                   systemd unit. See [Scripts](scripts.md).",
        },
        Key {
            name: "cgroup_memory",
            kind: size(1 << 20, 1 << 50),
            default: Words("no limit"),
            example: "\"256MiB\"",
            text: "Memory of all processes of a script together (memory.max). When they need more, the kernel kills \
                   all of them. Needs `cgroup`. None of this memory is swapped out.",
        },
        Key {
            name: "cgroup_tasks",
            kind: count(1, 1_000_000),
            default: Words("no limit"),
            example: "50",
            text: "Processes and threads of a script together (pids.max). Needs `cgroup`. Other processes of the same \
                   user do not count.",
        },
        Key {
            name: "umask",
            kind: Kind::Text,
            default: Words("that of the server"),
            example: "\"027\"",
            text: "The file mode creation mask of scripts, as octal digits in quotation marks.",
        },
        Key {
            name: "nice",
            kind: count(0, 19),
            default: Value("0"),
            example: "10",
            text: "How much the priority of scripts is below the server's.",
        },
        Key {
            name: "user",
            kind: Kind::Text,
            default: Words("that of the server"),
            example: "\"scripts\"",
            text: "The account of scripts, by name or number. A route may name its own. It needs a server that root \
                   starts. Give scripts another account than the server's: a script with the same account can end the \
                   server's processes.",
        },
        Key {
            name: "group",
            kind: Kind::Text,
            default: Words("the first group of the `user` beside it"),
            example: "\"scripts\"",
            text: "The group of scripts, with `user`.",
        },
        Key {
            name: "spool",
            kind: Kind::Path,
            default: Value("\"/var/tmp\""),
            example: "\"/srv/spool\"",
            text: "The folder that stores request bodies of unknown length until they are complete, because a script \
                   receives the length before it starts, and what slow clients have not taken of their responses. The \
                   files have no names. The server's user must have write \
                   permission, and the file system must support O_TMPFILE, as most do.",
        },
        Key {
            name: "spool_bytes",
            kind: size(0, 1 << 50),
            default: Value("\"256MiB\""),
            example: "\"2GiB\"",
            text: "Bytes of all such bodies together. A request whose body does not fit beside the others gets 503 \
                   with `Retry-After`. A body that alone is longer gets 413, even if `max_body` is larger. A body \
                   counts until its script has ended. Responses to slow clients may have half of it. After a reload, processes of the old configuration count theirs \
                   separately.",
        },
        Key {
            name: "background_jobs",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether processes that a script leaves behind when it has exited outlive its response, such as \
                   `(sleep 3; reboot) &`, as with Boa, thttpd, BusyBox and most servers. Without it, they get SIGTERM. \
                   A script that takes too long, or whose client disconnects, is ended with all its processes in \
                   either case. Excludes `cgroup`.",
        },
        Key {
            name: "killed_output",
            kind: Kind::Choice(&["incomplete", "whole"]),
            default: Value("\"incomplete\""),
            example: "\"whole\"",
            text: "What the output of a script is that a signal has ended, as by a crash, if it has no `Content-Length`. \
                   `incomplete`: 502, or a response that breaks off. `whole`: the response, as with Boa, thttpd, BusyBox \
                   and uhttpd: a program may crash at its end. The error log has a line in either case.",
        },
        Key {
            name: "new_privileges",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether scripts can gain privileges: by programs such as `sudo`, `su` and `ping`, whose files have \
                   the set-user-ID bit or capabilities, and as root, which has all capabilities then. Scripts of \
                   devices that set up the network or the clock need it. An attacker who takes over a script has \
                   these ways, too. With `sandbox = \"off\"`, they always can.",
        },
        Key {
            name: "query_arguments",
            kind: Kind::Flag,
            default: Value("false"),
            example: "true",
            text: "Whether the words of a query without `=` become arguments of the program (RFC 3875 §4.4). A client \
                   writes part of a command line then. Words that begin with a hyphen are never passed, and an \
                   interpreter receives none.",
        },
        Key {
            name: "local_redirects",
            kind: Kind::Flag,
            default: Value("true"),
            example: "false",
            text: "Whether the server follows a response that has nothing but a `Location` with a path \
                   (RFC 3875 §6.2.2): the client gets what is at the path, under the address of the script. With \
                   `false`, the client is redirected with 302, as by thttpd, lighttpd and nginx. Also for applications \
                   that speak FastCGI or SCGI.",
        },
        Key {
            name: "stderr_lines",
            kind: count(0, 10_000),
            default: Value("10"),
            example: "100",
            text: "Lines per second that one script may write to the error log through its standard error. Further \
                   ones are counted and dropped.",
        },
        Key {
            name: "stderr_line",
            kind: size(64, 1 << 16),
            default: Value("\"1KiB\""),
            example: "\"4KiB\"",
            text: "Bytes of such a line. A longer one is cut.",
        },
        Key {
            name: "sendfile",
            kind: Kind::Texts,
            default: Words("none"),
            example: "[\"/srv/private\"]",
            text: "Folders with files that a script may have sent as its response body, by the field `X-Sendfile` or \
                   `X-Accel-Redirect` with the path of the file.",
        },
    ],
};
