//! The keys of the top level alone: what is one for the whole server.

use super::{Chapter, Key, Kind, Required, Scope, Value, Words, count};

pub const CHAPTER: Chapter = Chapter {
    title: "The server",
    intro: "At the top level, before the first section.",
    scopes: &[Scope::Top],
    keys: &[
        Key {
            name: "listen",
            kind: Kind::Texts,
            default: Required,
            example: "[\"127.0.0.1:8080\", \"[::1]:8080\", \"unix:/run/taipan/www.sock\"]",
            text: "The addresses on which the server accepts connections. Each is an IP address and a port, or `unix:` \
                   and the path of a socket, to which all users may write who may enter its folder. Names are not resolved. With port 0 the system chooses a port. The word `tls` \
                   behind an address is for HTTPS, `http2` for clients that begin with HTTP/2 without TLS, and \
                   `proxy` for [proxies that send a PROXY header](http.md#the-proxy-protocol). With the word `freebind`, \
                   the machine may get the address later, as by DHCP: clients are served as soon as it has it. `[]` is for a program whose sockets are passed to it, as systemd does.",
        },
        Key {
            name: "trusted_proxies",
            kind: Kind::Texts,
            default: Value("[]"),
            example: "[\"10.0.0.0/8\", \"unix\"]",
            text: "The proxies whose `X-Forwarded-For`, `-Proto` and `-Host`, or `Forwarded`, decide the client's \
                   address, the scheme and the host. Entries are IP addresses, networks, and `unix` for every \
                   connection to a Unix socket. Requests from other peers lose these fields. See [Behind a \
                   proxy](http.md#behind-a-proxy).",
        },
        Key {
            name: "workers",
            kind: count(1, 1024),
            default: Words("one for each core that the process may use"),
            example: "4",
            text: "The number of event loops that share the connections. Each has its own cache and its own limits.",
        },
        Key {
            name: "user",
            kind: Kind::Text,
            default: Words("the user who starts the server; for root, `taipan`, if there is such a user"),
            example: "\"www-data\"",
            text: "The user that the server becomes after it has bound its addresses, when root starts it. Without \
                   this key and without a user `taipan`, the server does not run as root. `user = \"root\"` overrides \
                   that.",
        },
        Key {
            name: "group",
            kind: Kind::Text,
            default: Words("the first group of `user`"),
            example: "\"www-data\"",
            text: "The group that the server becomes with `user`.",
        },
        Key {
            name: "pid_file",
            kind: Kind::Path,
            default: Words("none"),
            example: "\"/run/taipan/taipan.pid\"",
            text: "A file with the process ID of the server while it runs. When root starts the server, it rejects a \
                   folder that another user can write, because signals go to the process that the file names. \
                   It is locked: a second server that names the same file does not start.",
        },
        Key {
            name: "chroot",
            kind: Kind::Path,
            default: Words("none"),
            example: "\"/srv\"",
            text: "A folder that the serving process cannot leave. It needs root at the start, and every root must be \
                   beneath it. The server opens logs, the pid file and sockets before, by their paths outside.",
        },
        Key {
            name: "sandbox",
            kind: Kind::Choice(&["on", "off", "required"]),
            default: Value("\"on\""),
            example: "\"required\"",
            text: "Whether the serving process gives up what it does not need: capabilities, new privileges, files \
                   outside of the roots, and most system calls. With `on`, the server logs once what the kernel lacks, \
                   and does without it. With `required`, it does not start then.",
        },
        Key {
            name: "signals",
            kind: Kind::Choice(&["taipan", "boa", "thttpd", "busybox"]),
            default: Value("\"taipan\""),
            example: "\"thttpd\"",
            text: "What signals mean: as this program has it, or as another one. See \
                   [Running](running.md#signals-of-other-servers).",
        },
        Key {
            name: "server_header",
            kind: Kind::TextOrFalse,
            default: Value("\"taipan\""),
            example: "false",
            text: "The value of the field `Server` in every response. `false` leaves the field out. The names of hosts \
                   are `names`.",
        },
        Key {
            name: "include",
            kind: Kind::Texts,
            default: Words("none"),
            example: "[\"hosts/*.toml\"]",
            text: "Further files, whose keys count as if they stood in this file. Paths are relative to this file's \
                   folder. `*` and `?` match as in a shell, and the files are read in ascending order. Sections of the \
                   same name become one; `[[host]]` and `[[route]]` follow each other. Any other key that stands in two \
                   files is an error. A file has at most 1 MiB, and files include files at most eight levels deep.",
        },
        Key {
            name: "unconverted",
            kind: Kind::Texts,
            default: Value("[]"),
            example: "[\"line 14: satisfy any cannot be converted\"]",
            text: "What `taipan convert` could not convert. Each entry is an error, so that a site does not serve without \
                   what a line of the original has protected. Decide what takes its place, and remove the entry. See \
                   [From nginx, Apache, lighttpd or Caddy](from-nginx.md).",
        },
        Key {
            name: "host",
            kind: Kind::Tables(Scope::Host),
            default: Words("none"),
            example: "[[host]]\nnames = [\"example.org\", \"*.example.org\"]\nroot = \"/srv/example\"",
            text: "A further host, with its own names, root and routes. It inherits other settings from the top level. \
                   If the top level has no root, routes, redirects or rewrites of its own, the first host is the \
                   default host.",
        },
        Key {
            name: "limits",
            kind: Kind::Section(Scope::Limits),
            default: Words("every limit has its own"),
            example: "[limits]\nconnections = 500",
            text: "Counts and sizes.",
        },
        Key {
            name: "timeouts",
            kind: Kind::Section(Scope::Timeouts),
            default: Words("every timeout has its own"),
            example: "[timeouts]\nidle = \"15s\"",
            text: "Durations.",
        },
        Key {
            name: "cache",
            kind: Kind::Section(Scope::Cache),
            default: Words("every key has its own"),
            example: "[cache]\nbytes = \"64MiB\"",
            text: "The open-file cache of each worker.",
        },
        Key {
            name: "cache_files",
            kind: Kind::Section(Scope::CacheFiles),
            default: Words("none: responses are stored in memory only"),
            example: "[cache_files]\nfolder = \"/var/cache/taipan\"",
            text: "The files in which responses of scripts and applications are stored.",
        },
        Key {
            name: "accounts",
            kind: Kind::Section(Scope::Accounts),
            default: Words("people with a home in `/home`, where `user_folders` is set"),
            example: "[accounts]\nexcept = [\"guest\"]",
            text: "The users that have folders.",
        },
        Key {
            name: "http2",
            kind: Kind::Section(Scope::Http2),
            default: Words("every key has its own"),
            example: "[http2]\nstreams = 32",
            text: "Whether clients can use HTTP/2, and its limits.",
        },
        Key {
            name: "statistics",
            kind: Kind::Section(Scope::Statistics),
            default: Words("every key has its own"),
            example: "[statistics]\nhosts = 50",
            text: "What is counted beyond the whole.",
        },
        Key {
            name: "application",
            kind: Kind::Tables(Scope::Application),
            default: Words("none"),
            example: "[[application]]\nname = \"app\"\naddress = \"unix:/run/app.sock\"",
            text: "A program that responds to the requests of the routes that name it. A site has at most 64.",
        },
        Key {
            name: "resolver",
            kind: Kind::Section(Scope::Resolver),
            default: Words("every key has its own"),
            example: "[resolver]\nservers = \"127.0.0.53\"",
            text: "How names are resolved: those of upstreams, and of clients.",
        },
        Key {
            name: "forward_proxy",
            kind: Kind::Section(Scope::ForwardProxy),
            default: Words("the server is no forward proxy"),
            example: "[forward_proxy]\nclients = \"10.0.0.0/8\"\ndestinations = \"*.example.org\"",
            text: "Opens tunnels to other servers for clients that ask with CONNECT.",
        },
        Key {
            name: "tls",
            kind: Kind::Section(Scope::Tls),
            default: Words("every key has its own"),
            example: "[tls]\nversions = [\"1.3\"]",
            text: "The rules of all TLS handshakes. Certificates belong to hosts: see `certificate`.",
        },
        Key {
            name: "certificates",
            kind: Kind::Section(Scope::Certificates),
            default: Words("every key has its own"),
            example: "[certificates]\nemail = \"admin@example.org\"",
            text: "How hosts with `acme` get their certificates.",
        },
        Key {
            name: "scripts",
            kind: Kind::Section(Scope::Scripts),
            default: Words("every key has its own"),
            example: "[scripts]\nprocesses = 16\ntotal = \"5m\"",
            text: "How many scripts run at the same time, for how long, and with which resources.",
        },
        Key {
            name: "log",
            kind: Kind::Section(Scope::Log),
            default: Words("errors and warnings to the standard error stream"),
            example: "[log]\naccess = \"/var/log/taipan/access.log\"",
            text: "The access log and the error log.",
        },
        Key {
            name: "trace",
            kind: Kind::Section(Scope::Trace),
            default: Words("`traceparent` is passed on as any other field"),
            example: "[trace]\nsample = 100\nexport = \"http://127.0.0.1:4318\"",
            text: "Each request is part of a trace: see [Traces](watching.md#traces).",
        },
    ],
};
