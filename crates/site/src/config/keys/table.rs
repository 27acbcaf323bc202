//! Every key of the configuration, in the order of the manual.

use std::time::Duration;

use taipan_http::head::MAX_FIELDS;

use super::KeyDefault::{Required, Value, Words};
use super::{Chapter, Key, Kind, Scope};
use crate::monitor::Monitor;

const DAY: u64 = 86_400;

const fn time(min_ms: u64, max_s: u64) -> Kind {
    Kind::Time { min: Duration::from_millis(min_ms), max: Duration::from_secs(max_s) }
}

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max }
}

const fn size(min: u64, max: u64) -> Kind {
    Kind::Size { min, max }
}

const fn byte_rate(min: u64, max: u64) -> Kind {
    Kind::ByteRate { min, max }
}

const BALANCE: &str = "Which address a request goes to: `least`, that with the fewest requests; `round_robin`, one after \
                       the other; `random`, the less busy one of two; `hash client`, `hash path`, `hash field NAME` or \
                       `hash cookie NAME`, always the same for the same client, path, field or cookie; `sticky` or \
                       `sticky COOKIE`, the one that a cookie says, which the server sets. See [Several \
                       endpoints](proxy.md#several-endpoints).";
const WEIGHTS: &str = "A weight for each address, in their order: one with weight 3 gets three times as many requests as \
                       one with weight 1.";

pub static CHAPTERS: &[Chapter] = &[
    Chapter {
        title: "The server",
        intro: "At the top level, before the first section.",
        scopes: &[Scope::Top],
        keys: &[
            Key {
                name: "listen",
                kind: Kind::Texts,
                default: Required,
                example: "[\"127.0.0.1:8080\", \"[::1]:8080\", \"unix:/run/taipan.sock\"]",
                text: "The addresses on which the server accepts connections. Each is an IP address and a port, or `unix:` \
                       and the path of a socket. Names are not resolved. With port 0 the system chooses a port. The word `tls` \
                       behind an address is for HTTPS, `http2` for clients that begin with HTTP/2 without TLS, and \
                       `proxy` for [proxies that send a PROXY header](http.md#the-proxy-protocol). `[]` is for a program whose sockets are passed to it, as systemd does.",
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
                       folder that another user can write, because signals go to the process that the file names.",
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
    },
    Chapter {
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
                kind: Kind::Pairs(
                    "a table of `pattern = target` or `pattern = { to = target, status = 301 }`",
                ),
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
    },
    Chapter {
        title: "TLS of hosts",
        intro: "At the top level for the default host, and in each `[[host]]`, which inherits them. See [TLS](tls.md).",
        scopes: &[Scope::Top, Scope::Host],
        keys: &[
            Key {
                name: "certificate",
                kind: Kind::Texts,
                default: Words("that of the top level"),
                example: "\"/etc/letsencrypt/live/example.org/fullchain.pem\"",
                text: "The certificate of the host, for addresses that are marked `tls`: a PEM file with the chain, the \
                       certificate of the host first. Several files are several certificates, of which a client gets the \
                       first that it can use, with ECDSA before RSA. A folder is all certificates in it: files with the \
                       ending `.pem` or `.crt`, and folders that have a `fullchain.pem`, as certbot's `live` has. A client \
                       gets one that has the name it asks for.",
            },
            Key {
                name: "certificate_key",
                kind: Kind::Texts,
                default: Words("in the file of the certificate, or beside it"),
                example: "\"/etc/letsencrypt/live/example.org/privkey.pem\"",
                text: "The private key of each `certificate`, in the same order: a PEM file without a password. Without this \
                       key, it is in the same file, or beside it: `privkey.pem`, or the certificate's name with the ending \
                       `.key`. The server reads it before it gives up root.",
            },
            Key {
                name: "acme",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether the server gets a certificate for the `names` of the host by ACME (RFC 8555), by default from \
                       Let's Encrypt, and renews it. Until it has one, it serves a certificate that it has made itself, which \
                       clients do not trust. See [Certificates](certificates.md).",
            },
            Key {
                name: "client_certificates",
                kind: Kind::Choice(&["off", "optional", "required"]),
                default: Value("\"off\""),
                example: "\"optional\"",
                text: "Whether clients have to show a certificate that an authority of `client_ca` has issued. With \
                       `optional`, a client may have none. With `required`, the handshake fails without one, and requests \
                       without TLS are redirected. Scripts have the result in `SSL_CLIENT_*`: see [Certificates of \
                       clients](tls.md#certificates-of-clients).",
            },
            Key {
                name: "client_ca",
                kind: Kind::Texts,
                default: Words("none"),
                example: "\"/etc/ssl/clients.pem\"",
                text: "PEM files with the certificates of the authorities that issue those of clients.",
            },
            Key {
                name: "client_crl",
                kind: Kind::Texts,
                default: Words("none: no certificate is revoked"),
                example: "\"/etc/ssl/clients.crl\"",
                text: "PEM files with the lists of revoked certificates. With this key, each authority needs a list, and one \
                       that has expired rejects all of its certificates.",
            },
            Key {
                name: "https_redirect",
                kind: Kind::Flag,
                default: Words(
                    "true with `hsts`, or if certificates of clients are required; false otherwise",
                ),
                example: "true",
                text: "Whether a request that has come without TLS is redirected to the same URL with `https`: GET and HEAD \
                       with 301, others with 308. Paths beneath `/.well-known/acme-challenge/` are served. A request that a \
                       trusted proxy reports as `https` is not redirected.",
            },
            Key {
                name: "hsts",
                kind: time(0, 100 * 365 * DAY),
                default: Words("none"),
                example: "\"1y\"",
                text: "For how long clients use the host only by TLS: the field `Strict-Transport-Security`. A client that \
                       has seen it rejects the host without TLS, or with a certificate that is not valid, for this time. \
                       Begin with `5m`. `0` makes clients forget it. A host with `https_redirect = false` does not \
                       inherit it.",
            },
            Key {
                name: "hsts_subdomains",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether `hsts` holds for every name below that of the host, also those that other servers have.",
            },
            Key {
                name: "hsts_preload",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether browsers may have the name in their built-in lists, which is hard to undo. It needs \
                       `hsts_subdomains` and `hsts` of a year.",
            },
        ],
    },
    Chapter {
        title: "Further hosts",
        intro: "Only in `[[host]]`.",
        scopes: &[Scope::Host],
        keys: &[
            Key {
                name: "default",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Makes this host the default one, in place of the first host or the top level.",
            },
            Key {
                name: "access_log",
                kind: Kind::Sink,
                default: Words("the `access` of `[log]`"),
                example: "\"/var/log/taipan/example.log\"",
                text: "The host's own access log, in the format of `[log]`.",
            },
        ],
    },
    Chapter {
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
                       of the host alone. With wildcards it is a glob: `*` and `?` match within a segment, \
                       `**` matches across slashes, and `/**/` matches any number of segments, also none. A glob without a \
                       slash, such as `*.css`, matches the last segment at any depth. An exact path precedes a glob, the \
                       first matching glob precedes a prefix, and the longest prefix precedes shorter ones. A glob takes \
                       settings that it does not have from the longest prefix around it: see \
                       [Scripts](scripts.md#patterns-below-a-prefix). Patterns are written decoded: `/a b`, not `/a%20b`. \
                       With `(?i)` in front, a pattern is a glob for which `a` and `A` are the same: `(?i)*.jpg`, \
                       `(?i)/admin/**`. \
                       The path `/` replaces the root of the host.",
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
                       the wildcards of the pattern match, in their order: each as much as it can, and `**/` without its \
                       last slash. `$query` is the query with the `?` or `&` that joins it to what is before it, or empty; in \
                       `?to=$path$query` it belongs to the value. \
                       `$host` is the requested host without port. `$scheme` is `http` or `https`. `$$` is a dollar sign, \
                       and `${rest}x` separates a name from the letters behind it. Values are percent-encoded; behind a \
                       question mark so that none of them ends a parameter.",
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
        ],
    },
    Chapter {
        title: "Rules of access",
        intro: "In each `[[rule]]`. All conditions of a rule must be true; an entry of a list with `!` in front excludes \
                what it matches. The first rule that matches decides. See [Access](access.md).",
        scopes: &[Scope::Rule],
        keys: &[
            Key {
                name: "then",
                kind: Kind::Choice(&["allow", "deny", "redirect", "authenticate", "limit"]),
                default: Required,
                example: "\"deny\"",
                text: "What happens to a request that the rule matches. `redirect` sends the client to another URL, \
                       `authenticate` allows the request to users who identify themselves, and `limit` within the limit \
                       that is named.",
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
                       otherwise; `$host` and `$scheme` for its host and scheme.",
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
                text: "Addresses and networks of the client, and `unix` for clients on a Unix socket. Behind a trusted proxy, \
                       it is the address that the proxy reports.",
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
                text: "Methods, in upper case. They match in any case.",
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
                       `?`, and case does not matter. An empty string stands for none. What rewrites add does not count.",
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
                text: "Values of `User-Agent`, with `*` and `?`. Case does not matter.",
            },
            Key {
                name: "field",
                kind: Kind::Pairs("a table of `NAME = value`"),
                default: Words("none"),
                example: "{ X-Api-Key = \"!secret-*\" }",
                text: "Values of any fields, with `*` and `?`, in any case of letters. A field that is absent has the empty value.",
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
                example: "\"*CN=ann*\"",
                text: "Subjects of a verified client certificate, with `*` and `?`.",
            },
            Key {
                name: "time",
                kind: Kind::Texts,
                default: Words("always"),
                example: "[\"mon-fri 08:00-18:00\", \"sat\"]",
                text: "Days and times, in UTC.",
            },
        ],
    },
    Chapter {
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
                       thttpd. `inherited`: the folders below it, too, unless they have a file of their own.",
            },
        ],
    },
    Chapter {
        title: "Files and responses",
        intro: "At the top level, in `[[host]]` and in `[[route]]`. A host inherits from the top level, and a route \
                from its host. An array or a single value replaces the inherited one. A table is merged with the \
                inherited one; where both have a key, that of the host or route applies.",
        scopes: &[Scope::Top, Scope::Host, Scope::Route],
        keys: &[
            Key {
                name: "env",
                kind: Kind::Pairs("a table of `NAME = value`"),
                default: Words("`PATH = \"/usr/local/bin:/usr/bin:/bin\"`"),
                example: "{ GIT_PROJECT_ROOT = \"/srv/git\", GIT_HTTP_EXPORT_ALL = \"1\" }",
                text: "Environment variables of scripts. They are added to those of the request, or replace them. Scripts \
                       receive nothing of the server's own environment.",
            },
            Key {
                name: "rule",
                kind: Kind::Tables(Scope::Rule),
                default: Words("none"),
                example: "[[rule]]\naddress = \"!10.0.0.0/8\"\npath = \"/admin/\"\nthen = \"deny\"",
                text: "A rule of access. The rules of a route are tried first, then those of its host, then those of the top \
                       level. See [Access](access.md).",
            },
            Key {
                name: "authorizer",
                kind: Kind::TextOrFalse,
                default: Words("none"),
                example: "\"guard\"",
                text: "The name of an `[[application]]` that decides whether a request may proceed. `false` removes an \
                       inherited one. It speaks FastCGI, as an authorizer: with status 200 the request proceeds, and the \
                       application that responds receives the variables that the authorizer sets; any other response goes to \
                       the client. Or it speaks HTTP: it is asked with a request without a body; with a status from 200 to \
                       299 the request proceeds; 401, 403 and redirects go to the client; anything else is an error, and \
                       the response is 502. See [Applications](applications.md#authorizers).",
            },
            Key {
                name: "authorizer_path",
                kind: Kind::Text,
                default: Words("the path of the request"),
                example: "\"/oauth2/auth\"",
                text: "The path at which an authorizer that speaks HTTP is asked, perhaps with a query.",
            },
            Key {
                name: "authorizer_method",
                kind: Kind::Choice(&["get", "original"]),
                default: Value("\"get\""),
                example: "\"original\"",
                text: "The method with which an authorizer that speaks HTTP is asked: GET, or that of the request.",
            },
            Key {
                name: "authorizer_fields",
                kind: Kind::Texts,
                default: Value("[]"),
                example: "[\"Remote-User\", \"Remote-Groups\"]",
                text: "The fields of the answer of an authorizer that speaks HTTP which scripts and applications receive, \
                       as fields of the request, or as `HTTP_REMOTE_USER` and so on. What a client itself sends under these names, in any spelling, is removed from every request of the \
                       site, whether a route has an authorizer or not.",
            },
            Key {
                name: "authorizer_user",
                kind: Kind::Text,
                default: Value("\"Remote-User\""),
                example: "\"X-Auth-Request-Email\"",
                text: "The one of `authorizer_fields` that names the user, for `REMOTE_USER` and the access log.",
            },
            Key {
                name: "authorizer_response_fields",
                kind: Kind::Texts,
                default: Value("[]"),
                example: "\"Set-Cookie\"",
                text: "The fields of the answer of an authorizer that speaks HTTP, when it lets a request pass, which are added \
                       to the response to the client. An answer that has one of them is not remembered.",
            },
            Key {
                name: "authorizer_cache",
                kind: time(0, 3600),
                default: Value("\"0s\""),
                example: "\"10s\"",
                text: "How long an answer of an authorizer that speaks HTTP counts for further requests with the same \
                       `authorizer_cache_key`. Only answers that let a request pass are remembered, each by the worker that \
                       has got it, at most 1024, until the next reload. An answer with `Cache-Control: no-store` or \
                       `no-cache` is not. `0s`: every request is asked for.",
            },
            Key {
                name: "authorizer_cache_key",
                kind: Kind::Texts,
                default: Value(
                    "[\"Cookie\", \"Authorization\", \"method\", \"scheme\", \"host\", \"path\", \"query\", \"client\"]",
                ),
                example: "[\"Cookie\", \"host\"]",
                text: "What two requests must have in common so that the same answer counts for both: `method`, `scheme`, \
                       `host`, `path`, `query`, `client` (its address), and names of fields. Add every field by which the \
                       authorizer decides. Leave out only what it does not look at: without `path`, a client that may see \
                       one page of the route may see all of them.",
            },
            Key {
                name: "index",
                kind: Kind::Texts,
                default: Value("[\"index.html\"]"),
                example: "[\"index.html\", \"index.htm\"]",
                text: "The files that stand for their folder. The first one that exists is served. A file that its own \
                       route makes a script is run, and one whose own route has `return`, `respond`, `proxy` or \
                       `application` is left out.",
            },
            Key {
                name: "try_suffixes",
                kind: Kind::Texts,
                default: Value("[]"),
                example: "[\".html\"]",
                text: "What is tried behind a path without a slash at its end that names no file, in this order: with \
                       `.html`, `/about` has the file `about.html`, also where there is a folder `about`. `/` stands for \
                       the folder, so that `[\"/\", \".html\"]` looks for it first. The file stays at its own path, too, \
                       and a client that may not have it there does not get it here. A script is run: with `.php`, \
                       `/about` runs `about.php` where a route runs that. A file whose own route has `return`, `respond`, \
                       `proxy` or `application` is not looked for. At most 8. See \
                       [Files](files.md#paths-without-an-extension).",
            },
            Key {
                name: "fallback",
                kind: Kind::TextOrFalse,
                default: Words("none"),
                example: "\"/index.php\"",
                text: "A path of the same host that responds where nothing exists for the requested path. `false` removes \
                       an inherited one. It is a file, a script or a path of an application, and responds with its own \
                       status; it is made for front controllers and single-page applications. It also responds for folders \
                       without index file or listing. A script finds the requested path in `REQUEST_URI` and `PATH_INFO`. A \
                       query for the script may follow a question mark, as that of a `rewrite`; the query of the request \
                       follows it. The name of the file is added to `index`, \
                       unless `index` stands beside `fallback`. If the fallback does not exist either, the response is 404. \
                       See [Files](files.md#fallbacks).",
            },
            Key {
                name: "fallback_for",
                kind: Kind::Choice(&["pages", "all"]),
                default: Value("\"pages\""),
                example: "\"all\"",
                text: "Whether the fallback also responds for missing assets: paths with the extension of a script, a \
                       style sheet, an image, a font, sound or video. With `pages` their response is 404, so that a browser \
                       never takes a page for an asset.",
            },
            Key {
                name: "language_fallback",
                kind: Kind::Choices(&["suffix", "folder"]),
                default: Value("[]"),
                example: "[\"suffix\"]",
                text: "The paths with a language for which the path without it responds where nothing exists. With `suffix`, \
                       `/a.html` responds for `/a.de.html`; with `folder`, `/a` responds for `/(de)/a`. A language has two \
                       letters in lower case. `fallback` does not respond for these paths.",
            },
            Key {
                name: "listing",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether the response for a folder without index file lists its entries. Otherwise it is 403.",
            },
            Key {
                name: "listing_program",
                kind: Kind::Path,
                default: Words("none"),
                example: "\"/usr/lib/boa/boa_indexer\"",
                text: "A program that makes listings, as Boa's `DirectoryMaker`. Its arguments are the path of the folder and \
                       the path of the request, and it writes HTML without fields. It sets `listing`, too. A route that sets \
                       only `listing` has no program. See [Files](files.md#programs-that-make-listings).",
            },
            Key {
                name: "dotfiles",
                kind: Kind::Choice(&["deny", "allow"]),
                default: Value("\"deny\""),
                example: "\"allow\"",
                text: "Whether a path with a segment that begins with a dot gets 404. `/.well-known/` is always allowed.",
            },
            Key {
                name: "symlinks",
                kind: Kind::Choice(&["beneath", "owner", "never", "follow"]),
                default: Value("\"beneath\""),
                example: "\"owner\"",
                text: "Which symbolic links the server follows. `beneath`: those whose target is beneath the root. \
                       `owner`: those whose target has the same owner. `never`: none; a path with a link gets 403. \
                       `follow`: all.",
            },
            Key {
                name: "precompressed",
                kind: Kind::Choices(&["br", "zstd", "gzip"]),
                default: Value("[\"br\", \"zstd\", \"gzip\"]"),
                example: "[\"gzip\"]",
                text: "Which precompressed files (`FILE.br`, `FILE.zst`, `FILE.gz` beside `FILE`) are sent to clients that \
                       accept them, in order of preference. `[]` turns this off. A precompressed file must have the content \
                       of its file. One that is older than its file is not sent.",
            },
            Key {
                name: "languages",
                kind: Kind::Texts,
                default: Value("[]"),
                example: "[\"en\", \"de\", \"pt-BR\"]",
                text: "The languages that files have in their names, in order of preference: `FILE.de` or `FILE` with `.de` \
                       before its extension beside `FILE`. The client gets the one that it prefers by `Accept-Language`, or \
                       else the first that exists. A file without a language counts for the first of the list. At most 16. \
                       `[]` turns this off. See [Languages](files.md#languages-and-charsets).",
            },
            Key {
                name: "charsets",
                kind: Kind::Pairs("a table of `SUFFIX = charset`"),
                default: Words("none"),
                example: "{ utf8 = \"utf-8\", latin1 = \"iso-8859-1\" }",
                text: "The charsets that files have at the end of their names, in order of preference: `FILE.latin1`, or \
                       `FILE.de.latin1` with a language. They set the charset in `Content-Type`, and the client chooses by \
                       `Accept-Charset`. A file without a charset precedes those with one. At most 4. `{}` turns this off.",
            },
            Key {
                name: "as_is",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether a file with the extension `asis` is a whole response: a status, fields, an empty line and the \
                       content. See [As-is files](files.md#as-is-files).",
            },
            Key {
                name: "image_maps",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether a file with the extension `map` is an image map, which says where a click on an image leads. \
                       The map of a script in JavaScript has the same extension, so set it for the routes that have image \
                       maps. See [Image maps](files.md#image-maps).",
            },
            Key {
                name: "meta_files",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether a file may have a metafile with further fields of its response, as in CERN's server: \
                       `.web/page.html.meta` for `page.html`. See [Metafiles](files.md#metafiles).",
            },
            Key {
                name: "meta_dir",
                kind: Kind::Text,
                default: Value("\".web\""),
                example: "\".meta\"",
                text: "The name of the folders with metafiles, beside the files that they are for. Nothing in such a folder \
                       is served, in all hosts.",
            },
            Key {
                name: "meta_suffix",
                kind: Kind::Text,
                default: Value("\".meta\""),
                example: "\".fields\"",
                text: "What follows the name of the file in the name of its metafile.",
            },
            Key {
                name: "compress",
                kind: Kind::FlagOrChoices(&["br", "zstd", "gzip"]),
                default: Value("true"),
                example: "[\"zstd\", \"gzip\"]",
                text: "Whether files and listings are compressed for clients that accept it, and in which codings, in \
                       order of preference. A file with a precompressed file beside it is not. `true` stands for all \
                       codings: for files br, zstd, gzip; for what is compressed while it is sent zstd, br, gzip. See \
                       [Compression](compression.md).",
            },
            Key {
                name: "compress_types",
                kind: Kind::Texts,
                default: Words(
                    "`text/*`, `+json`, `+xml`, and other types that gain, such as JavaScript and WebAssembly",
                ),
                example: "[\"text/*\", \"application/json\", \"+xml\"]",
                text: "The media types that are compressed. `text/*` stands for all that begin with `text/`, `+xml` for all \
                       that end with it.",
            },
            Key {
                name: "compress_from",
                kind: size(0, 1 << 30),
                default: Value("\"1KiB\""),
                example: "\"4KiB\"",
                text: "The least size of a response that is compressed, where the size is known.",
            },
            Key {
                name: "compress_kept",
                kind: Kind::Choice(&["strong", "quick", "off"]),
                default: Value("\"strong\""),
                example: "\"quick\"",
                text: "How files are compressed. `strong` and `quick`: once, in the background, with a strong or a quick \
                       level; the cache keeps the result, and until it is made the file is sent as it is. `off`: each \
                       time, while the file is sent. That also holds for files of more than 8 MiB, or an eighth of `bytes` \
                       in `[cache]`.",
            },
            Key {
                name: "compress_scripts",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether the responses of scripts and applications are compressed, too. Read about [BREACH](compression.md#breach) \
                       first: the length of a compressed page over TLS can disclose a secret in it.",
            },
            Key {
                name: "includes",
                kind: Kind::FlagOrChoices(&["ssi", "esi"]),
                default: Value("false"),
                example: "[\"esi\"]",
                text: "The languages of [pages](includes.md) whose directives the server carries out: `ssi` for server-side \
                       includes, `esi` for Edge Side Includes. `true` is `[\"ssi\"]`.",
            },
            Key {
                name: "include_files",
                kind: Kind::Texts,
                default: Value("[\".shtml\"]"),
                example: "[\".shtml\", \".html\"]",
                text: "The ends of the names of files that are pages, with `includes`.",
            },
            Key {
                name: "include_types",
                kind: Kind::Texts,
                default: Value("[\"text/html\"]"),
                example: "[\"text/html\", \"+xml\"]",
                text: "The media types of the responses of scripts and upstreams that are pages, with `includes`. `[]`: only \
                       files are pages.",
            },
            Key {
                name: "dictionary",
                kind: Kind::TextOrFalse,
                default: Words("none"),
                example: "\"/app/*.js\"",
                text: "The URLs for which a browser may use a file of this route as a dictionary (RFC 9842), with `*` for \
                       any text. It then gets only the difference to the version that it has. `false` removes an inherited \
                       one. See [Compression](compression.md#dictionaries).",
            },
            Key {
                name: "gunzip",
                kind: Kind::Flag,
                default: Value("true"),
                example: "false",
                text: "Whether a file that exists only as `.gz` is decompressed for clients that do not accept gzip.",
            },
            Key {
                name: "etag",
                kind: Kind::Choice(&["stat", "content", "off"]),
                default: Value("\"stat\""),
                example: "\"content\"",
                text: "What the entity tag of a file is made of. `stat`: size, modification time and inode. `content`: a \
                       hash of the content, which is the same on every machine, for files of at most 64 KiB. `off`: \
                       no entity tag.",
            },
            Key {
                name: "types",
                kind: Kind::Pairs("a table of `extension = media type`"),
                default: Words("none; the built-in types apply"),
                example: "{ glb = \"model/gltf-binary\", \"user.js\" = \"text/plain\" }",
                text: "Media types by file name extension. They are added to the built-in ones, or replace them.",
            },
            Key {
                name: "default_type",
                kind: Kind::Text,
                default: Value("\"application/octet-stream\""),
                example: "\"text/plain\"",
                text: "The media type of a file without extension, or with an unknown one.",
            },
            Key {
                name: "charset",
                kind: Kind::TextOrFalse,
                default: Value("\"utf-8\""),
                example: "\"iso-8859-1\"",
                text: "The charset that is added to media types that begin with `text/` and have none. `false` adds none. \
                       Other media types have no such parameter or, as JSON, do not need it.",
            },
            Key {
                name: "headers",
                kind: Kind::Pairs("a table of `name = value`, or `name = false`"),
                default: Words("none"),
                example: "{ X-Content-Type-Options = \"nosniff\", ETag = false }",
                text: "Header fields to set in every response, in place of those of the same name. `false` removes a \
                       field. With a `+` before its name, as in `\"+Link\"`, a field is added to the others. Fields that \
                       frame the message, such as `Content-Length`, cannot be changed.",
            },
            Key {
                name: "jwt",
                kind: Kind::SectionOrFalse(Scope::Jwt),
                default: Words("no token is needed"),
                example: "{ keys = \"/etc/taipan/keys.json\", issuer = \"https://login.example.org\" }",
                text: "The signed tokens (JWT) without which no request passes. `false` removes inherited ones; a table takes \
                       what it does not have from the inherited one. See [Access](access.md#tokens).",
            },
            Key {
                name: "security_headers",
                kind: Kind::TextOrFalse,
                default: Value("false"),
                example: "\"basic\"",
                text: "A preset of fields that tell browsers what a page may do: `basic`, which breaks no usual page, or \
                       `strict`, for sites that need nothing of other origins. A field of the same name in `headers`, or \
                       one that a script sends, takes the place of that of the preset. See [Browsers](browsers.md).",
            },
            Key {
                name: "cors_origins",
                kind: Kind::Texts,
                default: Value("[]"),
                example: "[\"https://app.example.org\", \"https://*.example.com\"]",
                text: "The origins whose pages may read responses (CORS): `https://example.org`, with a port if it is not \
                       the usual one; `https://*.example.org` for all names below; or `*` for every origin. The server \
                       responds to preflights itself, before access rules. `[]`: other origins may read nothing, and \
                       preflights are left to scripts and applications. See [Browsers](browsers.md#other-origins).",
            },
            Key {
                name: "cors_methods",
                kind: Kind::Texts,
                default: Value("[\"GET\", \"HEAD\", \"POST\"]"),
                example: "[\"GET\", \"PUT\", \"DELETE\"]",
                text: "The methods that pages of `cors_origins` may send.",
            },
            Key {
                name: "cors_fields",
                kind: Kind::Texts,
                default: Value("[]"),
                example: "[\"Authorization\", \"Content-Type\"]",
                text: "The fields that pages of `cors_origins` may send, beside those that every page may. `*` stands for \
                       all but `Authorization`.",
            },
            Key {
                name: "cors_exposed_fields",
                kind: Kind::Texts,
                default: Value("[]"),
                example: "[\"ETag\", \"Location\"]",
                text: "The fields of responses that pages of `cors_origins` may read, beside those that every page may.",
            },
            Key {
                name: "cors_credentials",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether pages of `cors_origins` may use the cookies and passwords of their readers. Then no key of \
                       CORS can be `*`.",
            },
            Key {
                name: "cors_max_age",
                kind: time(0, DAY),
                default: Value("\"10m\""),
                example: "\"1h\"",
                text: "How long a browser may keep the response to a preflight.",
            },
            Key {
                name: "cache_control",
                kind: Kind::Pairs("a string, or a table of `pattern = value`"),
                default: Words("none"),
                example: "{ \"/assets/\" = \"max-age=31536000, immutable\", \"text/html\" = \"no-cache\" }",
                text: "The field `Cache-Control` of files, by the first pattern that matches. Patterns are those of `path`, \
                       for the path of the request, or types of media, such as `text/html` and `image/*`. Those of a \
                       route precede those of its host.",
            },
            Key {
                name: "error_pages",
                kind: Kind::Pairs("a table of `status = path`"),
                default: Words("the built-in pages"),
                example: "{ 404 = \"/errors/404.html\" }",
                text: "Files, by their path within the host, that are sent as the body of an error response.",
            },
            Key {
                name: "limit",
                kind: Kind::Tables(Scope::Limit),
                default: Words("none"),
                example: "[[limit]]\nby = \"client\"\nrequests = \"20/s\"\nrequests_burst = 50",
                text: "A limit of speed or of requests. Limits of the top level, of the host and of the route all apply: write \
                       `[[limit]]`, `[[host.limit]]`, `[[route.limit]]` or `[[host.route.limit]]`. At most 16 tables apply to \
                       one route, and a site has at most 1000 limits. See [Limits](limits.md).",
            },
            Key {
                name: "max_body",
                kind: size(0, 1 << 40),
                default: Words("the `body` of `[limits]`"),
                example: "0",
                text: "The largest request body. A longer one gets 413. Scripts and applications receive the body. Files \
                       discard it.",
            },
        ],
    },
    Chapter {
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
                kind: time(0, 30 * DAY),
                default: Value("\"1d\""),
                example: "\"0s\"",
                text: "How long an upload that was interrupted can be resumed, if its client speaks \
                       draft-ietf-httpbis-resumable-upload. 0: uploads cannot be resumed.",
            },
            Key {
                name: "publish_lock_time",
                kind: time(1000, 7 * DAY),
                default: Value("\"1h\""),
                example: "\"10m\"",
                text: "The longest time that a client can lock a file or a folder before it has to renew the lock.",
            },
        ],
    },
    Chapter {
        title: "Stored responses",
        intro: "At the top level, in hosts and in routes. See [The cache](cache.md).",
        scopes: &[Scope::Top, Scope::Host, Scope::Route],
        keys: &[
            Key {
                name: "response_cache",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether the responses of scripts and applications are stored, and sent again without asking \
                       them. What a response says in `Cache-Control` and other fields decides (RFC 9111). See [The \
                       cache](cache.md).",
            },
            Key {
                name: "response_cache_query",
                kind: Kind::Texts,
                default: Words("all parameters"),
                example: "[\"!utm_*\", \"!fbclid\"]",
                text: "The parameters of a query that tell two resources apart. With a `!` in front of each name: \
                       those that do not. `*` at the end stands for any rest. `[]`: no parameter counts.",
            },
            Key {
                name: "response_cache_lifetime",
                kind: time(0, 365 * DAY),
                default: Value("\"0s\""),
                example: "\"10s\"",
                text: "How long a response is fresh that says nothing about it, if its status may be stored without \
                       that: 200, 203, 204, 300, 301, 308, 404, 405, 410, 414 and 501. 0: `response_cache_heuristic` \
                       counts.",
            },
            Key {
                name: "response_cache_heuristic",
                kind: count(0, 100),
                default: Value("10"),
                example: "0",
                text: "For a response that has a `Last-Modified` and says nothing about how long it is fresh: so many \
                       percent of the time since then.",
            },
            Key {
                name: "response_cache_heuristic_max",
                kind: time(0, 365 * DAY),
                default: Value("\"1d\""),
                example: "\"1h\"",
                text: "The longest time that `response_cache_heuristic` leads to.",
            },
            Key {
                name: "response_cache_stale_while_revalidate",
                kind: time(0, 365 * DAY),
                default: Value("\"0s\""),
                example: "\"30s\"",
                text: "How long a stale response is sent at once, while a newer one is requested in the background. A \
                       `stale-while-revalidate` of the response takes precedence, and `must-revalidate`, \
                       `proxy-revalidate`, `s-maxage` and `no-cache` forbid it.",
            },
            Key {
                name: "response_cache_stale_if_error",
                kind: time(0, 365 * DAY),
                default: Value("\"0s\""),
                example: "\"1d\"",
                text: "How long a stale response is sent if the application cannot be reached, does not answer in \
                       time, or answers with 500, 502, 503 or 504. A `stale-if-error` of the response takes \
                       precedence, and the same directives as above forbid it.",
            },
            Key {
                name: "response_cache_cookies",
                kind: Kind::Choice(&["if-public", "ignored"]),
                default: Value("\"if-public\""),
                example: "\"ignored\"",
                text: "With `if-public`, requests with cookies get, and responses that set cookies become, stored \
                       responses only if these say `public` or `s-maxage`. With `ignored`, the cookies of requests do \
                       not count, and `Set-Cookie` is not stored: only for pages that are the same for all users.",
            },
            Key {
                name: "response_cache_reload",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether a request may demand a newer response by `Cache-Control: no-cache`, `max-age` or \
                       `min-fresh`, or by `Pragma: no-cache`. Without it, no client can make the application work for \
                       what is fresh. `no-store`, `max-stale` and `only-if-cached` always count.",
            },
            Key {
                name: "response_cache_targets",
                kind: Kind::Texts,
                default: Value("[\"CDN-Cache-Control\"]"),
                example: "[\"Edge-Cache-Control\", \"CDN-Cache-Control\"]",
                text: "Fields that are for caches like this one (RFC 9213). The first one that a response has counts \
                       in place of `Cache-Control` and `Expires`. `Surrogate-Control` is read, too, if it is listed.",
            },
            Key {
                name: "response_cache_surrogate",
                kind: Kind::Text,
                default: Value("\"\""),
                example: "\"taipan\"",
                text: "The name by which an application can address the cache in `Surrogate-Control`, as in \
                       `max-age=60;taipan`: such a directive counts alone, if `response_cache_targets` lists the \
                       field. Requests that may be stored then have `Surrogate-Capability: taipan=\"Surrogate/1.0\"`.",
            },
            Key {
                name: "response_cache_purge",
                kind: Kind::Texts,
                default: Words("PURGE is forwarded, as other methods are"),
                example: "[\"127.0.0.1\", \"10.0.0.0/8\"]",
                text: "Addresses and networks of the clients that may remove what is stored for a URL, by a request with the \
                       method PURGE; `unix` stands for clients on a Unix socket. Other clients get 403. Such a request \
                       passes the same rules of access, passwords, tokens and authorizers as any other. `[]`: every \
                       client gets 403.",
            },
            Key {
                name: "response_cache_tags",
                kind: Kind::Texts,
                default: Value("[\"Cache-Tag\", \"Surrogate-Key\"]"),
                example: "[\"X-Tags\"]",
                text: "The fields of a response that name its tags, by which it can be purged.",
            },
            Key {
                name: "response_cache_largest",
                kind: size(0, 1 << 40),
                default: Value("\"1MiB\""),
                example: "\"64MiB\"",
                text: "The largest body that is stored. While it is received, as much of it is kept in memory.",
            },
            Key {
                name: "response_cache_waiting",
                kind: count(0, 1_000_000),
                default: Value("1000"),
                example: "100",
                text: "Requests of a worker that wait together for one response which another request has asked for. \
                       Further ones are forwarded. 0: each is forwarded.",
            },
            Key {
                name: "response_cache_wait",
                kind: time(1, 3600),
                default: Value("\"5s\""),
                example: "\"500ms\"",
                text: "How long they wait. Then each is forwarded.",
            },
            Key {
                name: "response_cache_status",
                kind: Kind::Flag,
                default: Value("true"),
                example: "false",
                text: "Whether responses say in `Cache-Status` (RFC 9211) what the cache did.",
            },
        ],
    },
    Chapter {
        title: "Speed and requests",
        intro: "In `[[limit]]`, `[[host.limit]]`, `[[route.limit]]` and `[[host.route.limit]]`. Each table has at least one of `download`, `upload`, `requests` and \
                `concurrent`. See [Limits](limits.md).",
        scopes: &[Scope::Limit],
        keys: &[
            Key {
                name: "by",
                kind: Kind::Text,
                default: Value("\"client\""),
                example: "\"field:X-API-Key\"",
                text: "What is counted together: the requests of a `\"connection\"`; of a `\"client\"`, which is an IPv4 address \
                       or the first 64 bits of an IPv6 address; of a `\"route\"`, of a `\"host\"`, or `\"all\"`; or those \
                       with the same value of a field, `\"field:NAME\"`, or of a cookie, `\"cookie:NAME\"`. A request without \
                       the field or the cookie is not limited; those with several of them are counted \
                       together.",
            },
            Key {
                name: "paths",
                kind: Kind::Texts,
                default: Words("all paths"),
                example: "[\"/downloads/\", \"*.iso\"]",
                text: "The paths that the limit is for, as patterns of routes. The path of the request counts, before rewrites.",
            },
            Key {
                name: "download",
                kind: byte_rate(1, 1 << 40),
                default: Words("no limit"),
                example: "\"500kB\"",
                text: "Bytes per second of responses, with their heads. Those that are counted together have equal shares.",
            },
            Key {
                name: "upload",
                kind: byte_rate(1, 1 << 40),
                default: Words("no limit"),
                example: "\"1MB\"",
                text: "Bytes per second of request bodies.",
            },
            Key {
                name: "burst",
                kind: size(0, 1 << 40),
                default: Words("a tenth of a second at the rate"),
                example: "\"2MB\"",
                text: "Bytes that pass at full speed after a pause, for `download` and `upload`. With less than the default, the \
                       default applies.",
            },
            Key {
                name: "min_download",
                kind: byte_rate(1, 1 << 40),
                default: Words("none"),
                example: "\"20kB\"",
                text: "A request gets 503 if one more response would leave each of those that share `download` less than this, \
                       in bytes per second.",
            },
            Key {
                name: "requests",
                kind: Kind::Rate { max: 1_000_000 },
                default: Words("no limit"),
                example: "\"5/m\"",
                text: "How many requests may come: in a second, or in a minute (`m`), an hour (`h`) or a day (`d`). Further ones \
                       get `status`, with `Retry-After`, `RateLimit` and `RateLimit-Policy`.",
            },
            Key {
                name: "requests_burst",
                kind: count(1, 1_000_000),
                default: Words("as many as come in a second, at least 1"),
                example: "10",
                text: "How many requests may come at once after a pause.",
            },
            Key {
                name: "concurrent",
                kind: count(1, 1_000_000),
                default: Words("no limit"),
                example: "8",
                text: "How many requests may be in progress at the same time. A request ends when its response is sent.",
            },
            Key {
                name: "queue",
                kind: count(0, 1_000_000),
                default: Value("0"),
                example: "100",
                text: "How many requests above `concurrent` may wait for their turn. One whose client disconnects is dropped. \
                       Further ones get `status`.",
            },
            Key {
                name: "wait",
                kind: time(1, DAY),
                default: Value("\"10s\""),
                example: "\"2s\"",
                text: "How long a request may wait in the queue. Then it gets `status`.",
            },
            Key {
                name: "status",
                kind: count(400, 599),
                default: Value("429"),
                example: "503",
                text: "The status of a request above `requests` or `concurrent`.",
            },
            Key {
                name: "announce",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Every response to a request that `requests` counts has `RateLimit` and `RateLimit-Policy`, not only a \
                       rejection.",
            },
            Key {
                name: "dry_run",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Nothing is rejected and nothing is slowed. The log tells which requests would have been rejected.",
            },
            Key {
                name: "name",
                kind: Kind::Text,
                default: Words("none"),
                example: "\"login\"",
                text: "A limit with a name applies only to requests for which an access rule says `limit` and the name.",
            },
        ],
    },
    Chapter {
        title: "`[limits]`",
        intro: "What one process or one client may use.",
        scopes: &[Scope::Limits],
        keys: &[
            Key {
                name: "connections",
                kind: count(1, 1_000_000),
                default: Value("16384"),
                example: "500",
                text: "Connections of one worker. At this limit, a new connection replaces the one that has been idle \
                       longest, or else the one of the slowest client below `min_rate`.",
            },
            Key {
                name: "backlog",
                kind: count(1, 65_535),
                default: Value("4096"),
                example: "50",
                text: "Connections that may wait in the kernel until a worker accepts them, for each worker and address. The \
                       kernel takes `net.core.somaxconn` instead, if that is less.",
            },
            Key {
                name: "connections_per_client",
                kind: count(0, 1_000_000),
                default: Value("0"),
                example: "50",
                text: "Connections of one client address, over all workers. Further ones get 503 and are closed. 0 is no \
                       limit. Of an IPv6 address the first 64 bits count, which one customer usually has. Unix sockets have \
                       no addresses, and no such limit. Connections of `trusted_proxies` do not count, because a proxy has \
                       many clients; let the proxy limit each of them.",
            },
            Key {
                name: "rejections",
                kind: count(1, 100_000),
                default: Value("64"),
                example: "8",
                text: "Connections of one worker above `connections` that are receiving their 503 at the same time. When \
                       all of them are in use, the oldest closes at once for the next.",
            },
            Key {
                name: "requests",
                kind: count(0, u32::MAX as u64),
                default: Value("0"),
                example: "1000",
                text: "Requests on one connection. After the last one the connection is closed. 0 is no limit.",
            },
            Key {
                name: "head",
                kind: size(256, 1 << 20),
                default: Value("\"16KiB\""),
                example: "\"32KiB\"",
                text: "Bytes of a request head. A longer one gets 431.",
            },
            Key {
                name: "fields",
                kind: count(1, MAX_FIELDS as u64),
                default: Value("100"),
                example: "50",
                text: "Fields in a request head. More get 431.",
            },
            Key {
                name: "target",
                kind: size(64, 1 << 16),
                default: Value("\"8KiB\""),
                example: "\"2KiB\"",
                text: "Bytes of a request target, its path and query. A longer one gets 414.",
            },
            Key {
                name: "body",
                kind: size(0, 1 << 40),
                default: Value("\"1MiB\""),
                example: "\"64KiB\"",
                text: "The `max_body` of every route that has none of its own.",
            },
            Key {
                name: "min_rate",
                kind: byte_rate(0, 1 << 30),
                default: Value("500"),
                example: "\"1KiB\"",
                text: "Bytes per second that a client must send or receive after the timeout of that phase. 0 is no limit. \
                       At the limit of `connections`, the server disconnects the slowest client below this rate after a \
                       second.",
            },
            Key {
                name: "disk_threads",
                kind: count(1, 256),
                default: Value("8"),
                example: "2",
                text: "Threads of one worker for operations that may wait for a disk. At most half of them wait for one \
                       device, so that a device that hangs leaves threads for the others.",
            },
            Key {
                name: "recent_requests",
                kind: count(0, 100_000),
                default: Value("1000"),
                example: "0",
                text: "Requests that the page of `monitor = \"status\"` can show as the last ones, over all workers. 0: none. \
                       Of a query, only the names are shown.",
            },
            Key {
                name: "disk_queue",
                kind: count(1, 1_000_000),
                default: Value("1024"),
                example: "100",
                text: "Requests of one worker that may wait for a disk. Further ones get 503. At most half of them wait \
                       for one device. A quarter of `connections` stays free for other requests: where `connections` is \
                       small, at most three quarters of it may wait for a disk, but at least 32.",
            },
            Key {
                name: "body_streams",
                kind: count(1, 1_000_000),
                default: Value("64"),
                example: "8",
                text: "Responses of one worker whose body is generated while it is sent. Further ones get 503. Such are \
                       listings of more than an eighth of `bytes` in `[cache]`, and gzip files that are decompressed for a \
                       client that does not accept gzip.",
            },
            Key {
                name: "upgraded",
                kind: count(0, 1_000_000),
                default: Value("1024"),
                example: "10000",
                text: "Connections of one worker whose protocol was switched, as to WebSocket, by a route with `proxy` or an \
                       application that speaks HTTP, and tunnels of the forward proxy. Further requests for that get 503.",
            },
            Key {
                name: "compressed_streams",
                kind: count(0, 1_000_000),
                default: Value("64"),
                example: "16",
                text: "Responses of one worker that are compressed while they are sent. Further ones are sent as they are.",
            },
            Key {
                name: "unsent",
                kind: size(0, 1 << 30),
                default: Value("0"),
                example: "\"256KiB\"",
                text: "Bytes of a response that may wait unsent in the kernel for one slow client (TCP_NOTSENT_LOWAT). 0 \
                       is the kernel's default, which is about twice what is in flight to the client. This bounds what many \
                       slow readers of large files cost together. With 256 KiB, sending large files over a fast network \
                       took an eighth more processor time.",
            },
            Key {
                name: "generations",
                kind: count(2, 1000),
                default: Value("16"),
                example: "4",
                text: "Serving processes at the same time: the present one, and earlier ones that finish responses after a \
                       reload. At this limit the server rejects a reload.",
            },
            Key {
                name: "listing_entries",
                kind: count(1, 1_000_000),
                default: Value("10000"),
                example: "1000",
                text: "Entries in a listing. Of a folder with more, the listing has the first ones by name, and says so.",
            },
            Key {
                name: "includes",
                kind: count(0, 100_000),
                default: Value("256"),
                example: "64",
                text: "What one response may include, and ask sizes and times of, in all its [pages](includes.md). In the place \
                       of more stands the error message of the page.",
            },
            Key {
                name: "include_depth",
                kind: count(1, 16),
                default: Value("8"),
                example: "2",
                text: "Pages that are included in pages, in one another. In the place of more stands the error message.",
            },
            Key {
                name: "include_bytes",
                kind: size(1, 1 << 40),
                default: Value("\"16MiB\""),
                example: "\"1MiB\"",
                text: "Bytes that the directives of one response may make or include. The response is cut off behind them, or \
                       gets status 502 if none of it has been sent. To include nothing, set `includes` to 0.",
            },
        ],
    },
    Chapter {
        title: "`[timeouts]`",
        intro: "How long things may take. The server closes a connection that is too slow.",
        scopes: &[Scope::Timeouts],
        keys: &[
            Key {
                name: "head",
                kind: time(10, DAY),
                default: Value("\"20s\""),
                example: "\"5s\"",
                text: "The time from the first byte of a request head to its last.",
            },
            Key {
                name: "body",
                kind: time(10, DAY),
                default: Value("\"20s\""),
                example: "\"5s\"",
                text: "How long a request body may arrive slower than `min_rate`, also when its response has begun. A body \
                       without a length that passes from HTTP/2 to HTTP/2, as with gRPC, has `upgraded` instead.",
            },
            Key {
                name: "write",
                kind: time(10, DAY),
                default: Value("\"20s\""),
                example: "\"5s\"",
                text: "How long a client may receive a response slower than `min_rate`.",
            },
            Key {
                name: "idle",
                kind: time(10, DAY),
                default: Value("\"1m\""),
                example: "\"15s\"",
                text: "How long a connection without a request stays open.",
            },
            Key {
                name: "linger",
                kind: time(0, 60),
                default: Value("\"5s\""),
                example: "\"1s\"",
                text: "How long the server reads on after the last response of a connection, so that the client receives \
                       the end of it (RFC 9112 §9.6).",
            },
            Key {
                name: "upgraded",
                kind: time(1000, DAY),
                default: Value("\"10m\""),
                example: "\"1h\"",
                text: "How long nothing may pass on a connection whose protocol was switched, as to WebSocket, or in a tunnel \
                       of the forward proxy, or on a stream of gRPC whose client can still send. Then it is closed.",
            },
            Key {
                name: "websocket_ping",
                kind: time(0, DAY),
                default: Value("\"0s\""),
                example: "\"30s\"",
                text: "After how long without a byte in either direction the client of a WebSocket connection gets a ping. \
                       If nothing comes for as long again, the connection is closed; the answer of a client counts for \
                       `upgraded`. 0 turns this off.",
            },
            Key {
                name: "events",
                kind: time(10, DAY),
                default: Value("\"1h\""),
                example: "\"10m\"",
                text: "How long one response with the events of a status page may take. Then it ends, and the browser asks for \
                       another, for which rules and passwords count again.",
            },
            Key {
                name: "disk",
                kind: time(10, DAY),
                default: Value("\"30s\""),
                example: "\"5s\"",
                text: "How long a lookup on a disk may take. Then the response is 503.",
            },
            Key {
                name: "shutdown",
                kind: time(0, DAY),
                default: Value("\"30s\""),
                example: "\"5s\"",
                text: "How long responses may take to finish after SIGTERM.",
            },
            Key {
                name: "reload",
                kind: time(0, DAY),
                default: Value("\"1h\""),
                example: "\"10m\"",
                text: "How long responses may take to finish after a reload or an upgrade.",
            },
            Key {
                name: "accept",
                kind: time(0, DAY),
                default: Value("\"1500ms\""),
                example: "\"5s\"",
                text: "How long a new connection waits in the kernel to be accepted while the worker is at capacity. Then \
                       it gets 503. Connections that arrived after it get 503 with it; the last of them waits for this \
                       time again, but 1.5 s at most.",
            },
            Key {
                name: "defer_accept",
                kind: time(0, 3600),
                default: Value("\"1s\""),
                example: "\"0s\"",
                text: "How long the kernel holds a new connection back until its client has sent something \
                       (TCP_DEFER_ACCEPT), in whole seconds. 0 turns this off. No worker is woken for a client that has \
                       connected and sent nothing. It is accepted after this time, and its other timeouts begin then.",
            },
            Key {
                name: "delay",
                kind: time(0, DAY),
                default: Value("\"100ms\""),
                example: "\"20ms\"",
                text: "How late a worker's loop may be. When it has been later than this for a second, requests that need \
                       a disk get 503. When it has been ten times later, all requests get 503. 0 turns this off.",
            },
        ],
    },
    Chapter {
        title: "`[cache]`",
        intro: "The open-file cache of each worker.",
        scopes: &[Scope::Cache],
        keys: &[
            Key {
                name: "entries",
                kind: count(0, 10_000_000),
                default: Value("4096"),
                example: "0",
                text: "Files, and paths without a file, that a worker remembers. 0 turns the cache off.",
            },
            Key {
                name: "descriptors",
                kind: count(0, 1_000_000),
                default: Value("1024"),
                example: "256",
                text: "Files that a worker keeps open.",
            },
            Key {
                name: "bytes",
                kind: size(0, 1 << 40),
                default: Value("\"32MiB\""),
                example: "\"64MiB\"",
                text: "Bytes of file content that a worker keeps in memory.",
            },
            Key {
                name: "file",
                kind: size(0, 1 << 30),
                default: Value("\"8KiB\""),
                example: "\"64KiB\"",
                text: "The largest file whose content is kept in memory. The kernel sends a larger one straight from the \
                       file, which costs less.",
            },
            Key {
                name: "check",
                kind: time(0, DAY),
                default: Value("\"1s\""),
                example: "\"10s\"",
                text: "How long a cached file is served without comparing it with the file on the disk. A change appears \
                       after this time at the latest.",
            },
            Key {
                name: "missing",
                kind: time(0, DAY),
                default: Value("\"1s\""),
                example: "\"10s\"",
                text: "How long the cache remembers that a file does not exist.",
            },
            Key {
                name: "folders",
                kind: count(1, 1_000_000),
                default: Value("1024"),
                example: "10000",
                text: "The folders of names and of users (`$host` in `root`, and `user_folders`) that a worker has open. \
                       Four times as many names without a folder are remembered for `missing`.",
            },
            Key {
                name: "responses",
                kind: size(0, 1 << 40),
                default: Value("\"32MiB\""),
                example: "\"256MiB\"",
                text: "Bytes of the responses of scripts and applications that a worker stores in memory, where \
                       `response_cache` is on.",
            },
        ],
    },
    Chapter {
        title: "`[cache_files]`",
        intro: "The files in which stored responses outlive a restart. See [The cache](cache.md#files).",
        scopes: &[Scope::CacheFiles],
        keys: &[
            Key {
                name: "folder",
                kind: Kind::Path,
                default: Words("none: it must be given"),
                example: "\"/var/cache/taipan\"",
                text: "The folder of the files. It must exist and be empty when it is used first, and the server's user must \
                       be able to write to it; no other user should. With `chroot`, it must be beneath it.",
            },
            Key {
                name: "bytes",
                kind: size(1 << 20, 1 << 60),
                default: Value("\"1GiB\""),
                example: "\"20GiB\"",
                text: "Bytes of all files, in blocks of 4 KiB, with those that are being written. What was used longest ago \
                       makes room for what is new.",
            },
            Key {
                name: "entries",
                kind: count(1, 100_000_000),
                default: Value("100000"),
                example: "1000000",
                text: "Stored responses. Each takes about 150 bytes of memory, in the index of the folder.",
            },
            Key {
                name: "largest",
                kind: size(1, 1 << 50),
                default: Value("\"64MiB\""),
                example: "\"1GiB\"",
                text: "Bytes of the largest body in a file.",
            },
            Key {
                name: "min_free",
                kind: size(0, 1 << 60),
                default: Value("\"256MiB\""),
                example: "\"5GiB\"",
                text: "Bytes of the file system that stay free. With less, stored responses are removed, and no more are \
                       stored.",
            },
        ],
    },
    Chapter {
        title: "[accounts]",
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
    },
    Chapter {
        title: "`[http2]`",
        intro: "HTTP/2. See [HTTP/2](http.md#http2).",
        scopes: &[Scope::Http2],
        keys: &[
            Key {
                name: "enabled",
                kind: Kind::Flag,
                default: Value("true"),
                example: "false",
                text: "Whether the server offers HTTP/2 to clients that connect with TLS. An address that is marked \
                       `http2` speaks it in any case.",
            },
            Key {
                name: "streams",
                kind: count(1, 10_000),
                default: Value("128"),
                example: "32",
                text: "Requests of one connection at the same time. The server refuses further ones, and clients send \
                       them again when others have ended.",
            },
            Key {
                name: "waiting",
                kind: count(1, 1_000_000),
                default: Value("1024"),
                example: "200",
                text: "Requests per worker that may wait for a script, for a disk or for their clients, beyond the first \
                       of each connection. The server refuses further ones.",
            },
            Key {
                name: "window",
                kind: size(1024, 1 << 30),
                default: Value("\"64KiB\""),
                example: "\"1MiB\"",
                text: "Bytes of a request body that a client may send before a script has read them. On connections with \
                       long delays, a larger window makes uploads faster.",
            },
            Key {
                name: "connection_window",
                kind: size(65_535, 1 << 30),
                default: Value("\"256KiB\""),
                example: "\"4MiB\"",
                text: "As `window`, for all request bodies of a connection together.",
            },
            Key {
                name: "large_windows",
                kind: count(0, 1_000_000),
                default: Value("256"),
                example: "32",
                text: "Connections per worker that may have more than 64 KiB of `connection_window`. Further ones have 64 KiB, so \
                       that many connections cannot take much memory together.",
            },
        ],
    },
    Chapter {
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
    },
    Chapter {
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
                       receives the length before it starts. The files have no names. The server's user must have write \
                       permission, and the file system must support O_TMPFILE, as most do.",
            },
            Key {
                name: "spool_bytes",
                kind: size(0, 1 << 50),
                default: Value("\"256MiB\""),
                example: "\"2GiB\"",
                text: "Bytes of all such bodies together. A request whose body does not fit beside the others gets 503 \
                       with `Retry-After`. A body that alone is longer gets 413, even if `max_body` is larger. A body \
                       counts until its script has ended. After a reload, processes of the old configuration count theirs \
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
    },
    Chapter {
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
                text: BALANCE,
            },
            Key {
                name: "weights",
                kind: Kind::Counts { min: 1, max: 1000 },
                default: Words("1 for each"),
                example: "[3]",
                text: WEIGHTS,
            },
            Key {
                name: "retries",
                kind: count(0, 8),
                default: Value("1"),
                example: "2",
                text: "How often a request is sent to a further endpoint because one has failed before it responded: any \
                       request of which nothing was sent, and otherwise those of methods that may be repeated (GET, HEAD, \
                       OPTIONS, PUT, DELETE, PROPFIND, REPORT) without a body, or with one that is stored.",
            },
            Key {
                name: "hedge_after",
                kind: time(1, 3600),
                default: Words("never: a request waits for its endpoint alone"),
                example: "\"200ms\"",
                text: "How long a request waits for the head of a response before it is sent to a second endpoint, too. The \
                       first whole head counts, and the other connection is closed. Only GET, HEAD, OPTIONS, PROPFIND and \
                       REPORT without a body, and not with `hash` or `sticky`. See [Hedging](proxy.md#hedging).",
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
                text: "Connections to each `address`, over all workers. For php-fpm, use its `pm.max_children`.",
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
                default: Words("10s; 1s with `protocol = \"http\"`"),
                example: "\"0s\"",
                text: "How long an idle connection to the application stays open. 0 opens a connection for each request. \
                       Keep it below the time after which the application closes idle connections: 2 s with gunicorn, 5 s \
                       with uvicorn and Node. Otherwise a request that cannot be repeated may meet a closed connection. \
                       SCGI always has one request per connection.",
            },
        ],
    },
    Chapter {
        title: "`[resolver]`",
        intro: "How names are resolved. See [Names](proxy.md#names) of upstreams, and \
                [those of clients](logs.md#names-of-clients).",
        scopes: &[Scope::Resolver],
        keys: &[
            Key {
                name: "servers",
                kind: Kind::Texts,
                default: Words("those of the system, in `/etc/resolv.conf`"),
                example: "[\"10.0.0.53\", \"[::1]:5353\"]",
                text: "The DNS servers, by their IP addresses. Without a port, it is 53. Then domains to search, too, are not \
                       those of the system. `/etc/hosts` is used in any case.",
            },
            Key {
                name: "family",
                kind: Kind::Choice(&["ipv4_first", "ipv6_first", "ipv4", "ipv6", "both"]),
                default: Value("\"ipv4_first\""),
                example: "\"both\"",
                text: "Which addresses of a name are used. `ipv4_first` uses those of IPv6 only where there are no others. \
                       With `both`, each is an endpoint.",
            },
            Key {
                name: "min_ttl",
                kind: time(1000, DAY),
                default: Value("\"5s\""),
                example: "\"30s\"",
                text: "Addresses are not resolved again before this time, even if they are valid for less. A name that could \
                       not be resolved is tried again after this time, and then after longer ones.",
            },
            Key {
                name: "max_ttl",
                kind: time(1000, DAY),
                default: Value("\"1h\""),
                example: "\"5m\"",
                text: "Addresses are resolved again after this time, even if they are valid for longer.",
            },
            Key {
                name: "timeout",
                kind: time(100, 30),
                default: Value("\"2s\""),
                example: "\"500ms\"",
                text: "How long a DNS server may take to answer, before the question is sent once more.",
            },
            Key {
                name: "client_names",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Looks up the names of clients, for the access log and REMOTE_HOST. Nothing waits for them. See \
                       [Names of clients](logs.md#names-of-clients).",
            },
            Key {
                name: "client_name_entries",
                kind: count(100, 1_000_000),
                default: Value("10000"),
                example: "100000",
                text: "How many addresses of clients each worker remembers, with their names or without. Each takes up to \
                       some 350 bytes.",
            },
        ],
    },
    Chapter {
        title: "`[forward_proxy]`",
        intro: "Who may open tunnels with CONNECT, or have requests forwarded, and where to. See [Forward proxy](forward-proxy.md).",
        scopes: &[Scope::ForwardProxy],
        keys: &[
            Key {
                name: "clients",
                kind: Kind::Texts,
                default: Words("required"),
                example: "[\"10.0.0.0/8\", \"2001:db8::/32\"]",
                text: "The networks of the clients that may use the proxy, at most 1024. `unix` is every client on a Unix \
                       socket. Others get 403.",
            },
            Key {
                name: "destinations",
                kind: Kind::Texts,
                default: Words("required"),
                example: "[\"*.example.org\", \"10.1.0.0/16\"]",
                text: "Where tunnels may lead, at most 1024 entries. A name, perhaps with the wildcards `*` and `?`, leads \
                       to the public addresses of a host with such a name. A network leads to its addresses, which may be \
                       private.",
            },
            Key {
                name: "ports",
                kind: Kind::Counts { min: 1, max: 65535 },
                default: Value("[80, 443]"),
                example: "[443, 8443]",
                text: "The ports of destinations.",
            },
            Key {
                name: "connect_timeout",
                kind: time(100, 300),
                default: Value("\"10s\""),
                example: "\"3s\"",
                text: "How long it may take until there is a connection: to resolve the name, and to try its addresses. \
                       Then the client gets 504.",
            },
            Key {
                name: "http",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether requests for URLs of other servers (`GET http://www.example.org/`) are forwarded, too. Otherwise \
                       there are only tunnels. See [Plain HTTP](forward-proxy.md#plain-http).",
            },
            Key {
                name: "first_byte",
                kind: time(100, 3600),
                default: Value("\"60s\""),
                example: "\"10s\"",
                text: "How long the other server may take from the end of a request to the head of its response. Then the client \
                       gets 504.",
            },
            Key {
                name: "idle",
                kind: time(100, 3600),
                default: Value("\"60s\""),
                example: "\"10s\"",
                text: "How long the other server may send nothing of a response that has begun, while the client reads it.",
            },
            Key {
                name: "keep",
                kind: time(0, 3600),
                default: Value("\"15s\""),
                example: "\"1m\"",
                text: "How long a connection to another server waits for a further request to it. 0: each request has a \
                       connection of its own.",
            },
            Key {
                name: "idle_connections",
                kind: count(0, 10_000),
                default: Value("64"),
                example: "200",
                text: "The most such connections of a worker. The one that has waited for the longest time is closed for another.",
            },
            Key {
                name: "store_responses",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether responses of other servers are stored, and sent to all clients that may use the proxy, as far as \
                       the responses allow it. See [Stored responses](forward-proxy.md#stored-responses).",
            },
        ],
    },
    Chapter {
        title: "`[application.health]`",
        intro: "When an endpoint of an application counts as down. One that is down gets requests only if no other is up. A \
                route whose `proxy` has URLs has the same keys in `[route.proxy_health]`. See [Health](proxy.md#health).",
        scopes: &[Scope::Health],
        keys: &[
            Key {
                name: "failures",
                kind: count(0, 1000),
                default: Value("1"),
                example: "3",
                text: "So many failed requests within `window` take an endpoint out of service for the `pause`. A request has \
                       failed if the endpoint cannot be reached, does not respond in time, breaks off its response, or \
                       responds with a status of `failure_status`. 0: failed requests have no effect.",
            },
            Key {
                name: "window",
                kind: time(1, 3600),
                default: Value("\"10s\""),
                example: "\"1m\"",
                text: "The time in which failures count. An endpoint that fails again so soon after a pause gets the next one \
                       at once.",
            },
            Key {
                name: "pause",
                kind: time(1, 3600),
                default: Value("\"1s\""),
                example: "\"5s\"",
                text: "How long an endpoint is out of service, the first time. Each further time in a row it is twice as long.",
            },
            Key {
                name: "longest_pause",
                kind: time(1, DAY),
                default: Value("\"1m\""),
                example: "\"10m\"",
                text: "The longest of these times.",
            },
            Key {
                name: "failure_status",
                kind: Kind::Texts,
                default: Value("[]"),
                example: "[\"502-504\"]",
                text: "Responses with these statuses count as failures. The client gets them all the same.",
            },
            Key {
                name: "path",
                kind: Kind::Text,
                default: Words("none"),
                example: "\"/health\"",
                text: "Endpoints are checked by a GET of this path, whether there are requests or not, by HTTP/1.1, \
                       HTTP/2 or HTTPS as those. The `Host` is `localhost`, or with HTTPS the name in the certificate.",
            },
            Key {
                name: "status",
                kind: Kind::Texts,
                default: Value("[\"200-399\"]"),
                example: "[\"200\", \"204\"]",
                text: "The statuses of a check that has succeeded.",
            },
            Key {
                name: "interval",
                kind: time(100, 3600),
                default: Words("5s, if there is a `path`; else there are no checks"),
                example: "\"2s\"",
                text: "The time between two checks of an endpoint. Without a `path`, a check succeeds if the endpoint accepts a \
                       connection.",
            },
            Key {
                name: "timeout",
                kind: time(10, 60),
                default: Value("\"2s\""),
                example: "\"500ms\"",
                text: "How long a check may take until the status is there.",
            },
            Key {
                name: "rise",
                kind: count(1, 100),
                default: Value("2"),
                example: "1",
                text: "Checks in a row that must succeed until an endpoint that was down is up. The first check of all decides \
                       alone.",
            },
            Key {
                name: "fall",
                kind: count(1, 100),
                default: Value("3"),
                example: "2",
                text: "Checks in a row that must fail until an endpoint is down.",
            },
        ],
    },
    Chapter {
        title: "`[application.breaker]`",
        intro: "A circuit breaker: when too many of the requests to an application fail, it has none for a time, and clients \
                get 503 with `Retry-After` at once. A route whose `proxy` has URLs has the same keys in `[route.proxy_breaker]`. See \
                [The circuit breaker](proxy.md#the-circuit-breaker).",
        scopes: &[Scope::Breaker],
        keys: &[
            Key {
                name: "failure_rate",
                kind: count(1, 100),
                default: Value("50"),
                example: "80",
                text: "The breaker opens when so many of 100 requests within the `window` have failed. A request has failed if \
                       no endpoint has responded to it, or one with a status of `failure_status` in `[application.health]`.",
            },
            Key {
                name: "requests",
                kind: count(1, 1_000_000),
                default: Value("20"),
                example: "5",
                text: "With fewer requests to a worker within the `window`, the breaker does not open.",
            },
            Key {
                name: "window",
                kind: time(1000, 3600),
                default: Value("\"10s\""),
                example: "\"1m\"",
                text: "The time in which requests count.",
            },
            Key {
                name: "pause",
                kind: time(100, 3600),
                default: Value("\"5s\""),
                example: "\"2s\"",
                text: "How long the breaker is open, the first time. It is twice as long each time that a request after the \
                       pause fails.",
            },
            Key {
                name: "longest_pause",
                kind: time(100, DAY),
                default: Value("\"1m\""),
                example: "\"10m\"",
                text: "The longest of these times.",
            },
            Key {
                name: "probes",
                kind: count(1, 1000),
                default: Value("1"),
                example: "3",
                text: "After a pause, so many requests at a time are let through to the application. The breaker closes when as \
                       many in a row have succeeded, and opens again when one fails.",
            },
        ],
    },
    Chapter {
        title: "`[tls]`",
        intro: "The rules of all TLS handshakes.",
        scopes: &[Scope::Tls],
        keys: &[
            Key {
                name: "versions",
                kind: Kind::Choices(&["1.2", "1.3"]),
                default: Value("[\"1.2\", \"1.3\"]"),
                example: "[\"1.3\"]",
                text: "The versions of TLS. Older ones are not secure, and not supported.",
            },
            Key {
                name: "unknown_name",
                kind: Kind::Choice(&["default", "reject"]),
                default: Value("\"default\""),
                example: "\"reject\"",
                text: "What a client gets that asks for a name which no host and no certificate has, or for none: the \
                       certificate of the default host, or the alert `unrecognized_name`.",
            },
            Key {
                name: "handshake_timeout",
                kind: time(100, 300),
                default: Value("\"10s\""),
                example: "\"5s\"",
                text: "How long a handshake may take. Then the connection is closed.",
            },
            Key {
                name: "handshakes_per_client",
                kind: count(0, 100_000),
                default: Value("0"),
                example: "10",
                text: "Handshakes per second of one client address, over all workers. Further connections are closed before \
                       a handshake. IPv6 addresses count by their first 64 bits. 0 is no limit.",
            },
            Key {
                name: "early_data",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether a client that returns may send a request with its first bytes (0-RTT). An attacker can repeat \
                       such a request, so only safe methods are accepted, and scripts have the field `Early-Data: 1` (RFC \
                       8470).",
            },
            Key {
                name: "watch",
                kind: time(0, DAY),
                default: Words("off; a reload reads certificates"),
                example: "\"1m\"",
                text: "How often the files of certificates and keys are compared with those that are served. When they have \
                       changed, the server reloads. 0 is off.",
            },
            Key {
                name: "export_client_certificate",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether scripts and applications by FastCGI and SCGI have the certificate of a client in the variable \
                       `SSL_CLIENT_CERT`, in PEM.",
            },
            Key {
                name: "ciphers",
                kind: Kind::Choices(&["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"]),
                default: Words("all, in the order of the client"),
                example: "[\"chacha20-poly1305\", \"aes-256-gcm\"]",
                text: "The ciphers, in order of preference. Older ones are not secure, and not supported.",
            },
            Key {
                name: "groups",
                kind: Kind::Choices(&["X25519MLKEM768", "X25519", "P-256", "P-384"]),
                default: Value("[\"X25519MLKEM768\", \"X25519\", \"P-256\", \"P-384\"]"),
                example: "[\"X25519\", \"P-256\"]",
                text: "The groups of the key exchange, of which the client chooses. The first is safe from quantum computers, \
                       and browsers prefer it; a build with ring does not have it.",
            },
            Key {
                name: "tickets",
                kind: Kind::Flag,
                default: Value("true"),
                example: "false",
                text: "Whether a client that returns can resume its session, which saves both sides most of the handshake. \
                       The server keeps nothing for it: the client has the session in a ticket that only the server can \
                       read. See [Session tickets](tls.md#session-tickets).",
            },
            Key {
                name: "ticket_rotation",
                kind: time(1000, 3 * DAY),
                default: Value("\"12h\""),
                example: "\"1h\"",
                text: "How long tickets are encrypted with the same key. A ticket is accepted once to twice as long.",
            },
            Key {
                name: "ticket_key_file",
                kind: Kind::Path,
                default: Words("a random secret, which reloads and upgrades keep"),
                example: "\"/etc/taipan/ticket.key\"",
                text: "A file with 32 to 4096 random bytes, from which the keys of tickets are derived. Servers with the \
                       same file, the same `ticket_rotation` and the right time accept the tickets of one another. Only the \
                       master reads it.",
            },
            Key {
                name: "signer",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether the private keys of certificates are in a process of their own, which signs handshakes for the \
                       processes that serve. A full handshake then costs about an eighth more with an ECDSA key, and a \
                       fifteenth with an RSA key. See [Private keys](tls.md#private-keys).",
            },
            Key {
                name: "kernel",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether the kernel encrypts large files that are sent by HTTP/1.1 over TLS 1.3, so that they are not \
                       copied. A kernel without TLS is named in the error log, and the server encrypts. See [TLS of the \
                       kernel](tls.md#tls-of-the-kernel).",
            },
        ],
    },
    Chapter {
        title: "`[certificates]`",
        intro: "How hosts with `acme` get their certificates. See [Certificates](certificates.md).",
        scopes: &[Scope::Certificates],
        keys: &[
            Key {
                name: "folder",
                kind: Kind::Path,
                default: Words(
                    "`certificates` in the folder of `STATE_DIRECTORY`, as systemd sets it; else `/var/lib/taipan/certificates` \
                     for root, and `~/.local/state/taipan/certificates` for others",
                ),
                example: "\"/srv/shared/certificates\"",
                text: "The folder of certificates, keys and the account. Only the user who starts the server may have access \
                       to it. Several servers can share it: then only one of them orders a certificate, and all have it.",
            },
            Key {
                name: "email",
                kind: Kind::Text,
                default: Words("none"),
                example: "\"admin@example.org\"",
                text: "Where the authority can write to.",
            },
            Key {
                name: "authorities",
                kind: Kind::Texts,
                default: Value("[\"https://acme-v02.api.letsencrypt.org/directory\"]"),
                example: "[\"https://acme-v02.api.letsencrypt.org/directory\", \"https://acme.example.net/directory\"]",
                text: "The directories of authorities, at most 8. If one does not issue a certificate, the next one is \
                       tried. With this key you agree to their terms of service.",
            },
            Key {
                name: "challenges",
                kind: Kind::Choices(&["tls-alpn-01", "http-01", "dns-01", "dns-persist-01"]),
                default: Words("`tls-alpn-01` and `http-01`, and `dns-01` with `dns_command`"),
                example: "[\"dns-persist-01\"]",
                text: "How the server proves that it has the names, in the order in which they are tried. `tls-alpn-01` needs \
                       port 443, `http-01` needs port 80. Wildcards need `dns-01` or `dns-persist-01`.",
            },
            Key {
                name: "dns_command",
                kind: Kind::Texts,
                default: Words("none"),
                example: "[\"/usr/local/bin/dns\", \"--zone\", \"example.org\"]",
                text: "The program that sets and removes a DNS record for `dns-01`, with its arguments. Three more are added: \
                       `set` or `unset`, the name of the TXT record, and its value. It runs as the user who serves.",
            },
            Key {
                name: "dns_timeout",
                kind: time(1000, 3600),
                default: Value("\"60s\""),
                example: "\"5m\"",
                text: "How long `dns_command` may take. Then it is killed.",
            },
            Key {
                name: "dns_wait",
                kind: time(0, 3600),
                default: Value("\"10s\""),
                example: "\"2m\"",
                text: "How long it takes until all name servers of the zone have a new record.",
            },
            Key {
                name: "profile",
                kind: Kind::Text,
                default: Words("that of the authority"),
                example: "\"shortlived\"",
                text: "The kind of certificate, of those that the authority offers.",
            },
            Key {
                name: "key",
                kind: Kind::Choice(&["ecdsa-p256", "ecdsa-p384", "rsa-2048", "rsa-4096"]),
                default: Value("\"ecdsa-p256\""),
                example: "\"rsa-2048\"",
                text: "The type of the private key, which is new for each certificate. RSA makes handshakes several times as \
                       expensive.",
            },
            Key {
                name: "eab_key_id",
                kind: Kind::Text,
                default: Words("none"),
                example: "\"kid-1\"",
                text: "The name of an account that you have at the authority (external account binding).",
            },
            Key {
                name: "eab_key_file",
                kind: Kind::Path,
                default: Words("none"),
                example: "\"/etc/taipan/eab.key\"",
                text: "The file with the key of that account in base64url, as the authority has given it to you.",
            },
            Key {
                name: "ca",
                kind: Kind::Path,
                default: Words("`SSL_CERT_FILE`, or the file of the system"),
                example: "\"/etc/ssl/own-ca.pem\"",
                text: "A PEM file with the certificates that the authority's server is verified by, for a private authority.",
            },
            Key {
                name: "timeout",
                kind: time(1000, 600),
                default: Value("\"30s\""),
                example: "\"10s\"",
                text: "How long an authority may take to respond to a request.",
            },
            Key {
                name: "order_timeout",
                kind: time(1000, DAY),
                default: Value("\"5m\""),
                example: "\"15m\"",
                text: "How long an order may take, from its beginning to the certificate.",
            },
            Key {
                name: "retry",
                kind: time(1000, DAY),
                default: Value("\"5m\""),
                example: "\"1m\"",
                text: "The pause after all authorities and challenges have failed. It doubles with each failure.",
            },
            Key {
                name: "max_retry",
                kind: time(1000, 30 * DAY),
                default: Value("\"1d\""),
                example: "\"6h\"",
                text: "The longest pause between failures.",
            },
        ],
    },
    Chapter {
        title: "`[log]`",
        intro: "What the server logs, and where.",
        scopes: &[Scope::Log],
        keys: &[
            Key {
                name: "access",
                kind: Kind::SinkOrFalse,
                default: Value("false"),
                example: "\"/var/log/taipan/access.log\"",
                text: "Where the server writes one line for each request. A relative path begins in the folder of the \
                       configuration file. `$host` in a path stands for the first name of each host: see \
                       [A file for each host](logs.md#a-file-for-each-host).",
            },
            Key {
                name: "format",
                kind: Kind::Choice(&[
                    "common",
                    "combined",
                    "json",
                    "boa",
                    "boa-host",
                    "boa-address",
                    "thttpd",
                    "thttpd-host",
                ]),
                default: Value("\"combined\""),
                example: "\"json\"",
                text: "The format of the access log. Those of other servers end with the `User-Agent`: see \
                       [Logs](logs.md#formats-of-other-servers).",
            },
            Key {
                name: "fields",
                kind: Kind::Text,
                default: Words("none: `format` says it"),
                example: "\"$remote_addr $host $status $request_time\"",
                text: "A format of your own in place of `format`, with [names](logs.md#fields-by-name) as in nginx's \
                       `log_format`.",
            },
            Key {
                name: "only",
                kind: Kind::Choices(&["errors", "server-errors", "slow"]),
                default: Words("every request"),
                example: "[\"errors\", \"slow\"]",
                text: "The requests that have a line in the access log: those with a status from 400 or from 500 on, or \
                       whose response ended early; and those that take longer than `slow`.",
            },
            Key {
                name: "slow",
                kind: time(1, DAY),
                default: Value("\"1s\""),
                example: "\"300ms\"",
                text: "A request that takes longer is slow, for `only`.",
            },
            Key {
                name: "sample",
                kind: count(1, 1_000_000),
                default: Words("all of them; with `only`, none"),
                example: "100",
                text: "Of the requests that `only` does not name, one in so many has a line; each worker counts for itself.",
            },
            Key {
                name: "scripts",
                kind: Kind::Sink,
                default: Words("`error`"),
                example: "\"/var/log/taipan/scripts.log\"",
                text: "Where the server writes what CGI scripts and FastCGI applications write to standard error.",
            },
            Key {
                name: "error",
                kind: Kind::Sink,
                default: Value("\"stderr\""),
                example: "\"syslog\"",
                text: "Where the server writes its messages.",
            },
            Key {
                name: "level",
                kind: Kind::Choice(&["error", "warn", "info", "debug"]),
                default: Value("\"warn\""),
                example: "\"info\"",
                text: "The lowest level of messages that are written.",
            },
            Key {
                name: "client_errors",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether the error log, too, has a line for each request whose status is from 400 to 499, with the file \
                       that it was for. The line is a warning: see [Logs](logs.md#errors-of-clients).",
            },
            Key {
                name: "script_starts",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether the error log has a line when a script is started, and one when it has ended, with its process \
                       ID. They are written at every `level`.",
            },
            Key {
                name: "error_format",
                kind: Kind::Choice(&["taipan", "boa"]),
                default: Value("\"taipan\""),
                example: "\"boa\"",
                text: "The format of the error log: with the time in UTC and the level, or as Boa's, which has the time as in \
                       its access log: see [Logs](logs.md#formats-of-other-servers).",
            },
            Key {
                name: "timezone",
                kind: Kind::Text,
                default: Value("\"UTC\""),
                example: "\"CET-1CEST,M3.5.0,M10.5.0/3\"",
                text: "The time in access logs that are not JSON, and in an error log as Boa's: a zone by its name in \
                       `/usr/share/zoneinfo`, such as `Europe/Berlin`; or by its rule, such as \
                       `CET-1CEST,M3.5.0,M10.5.0/3`; or `local`, which is that of `TZ`, `/etc/localtime` or `/etc/TZ`. It is \
                       read with the configuration.",
            },
            Key {
                name: "forwarded_for",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Lines of the access log have the field `X-Forwarded-For` of the request in place of the client, and the \
                       address in parentheses if there is none, as with Boa's `LogXFF`. Any client can send this field: \
                       [`trusted_proxies`](#trusted_proxies) is safer. JSON is not changed.",
            },
            Key {
                name: "queue",
                kind: count(1, 1_000_000),
                default: Value("256"),
                example: "64",
                text: "Blocks of lines (32 KiB) that may wait for a slow disk, and for each command or TCP peer. Further \
                       ones are dropped and counted.",
            },
            Key {
                name: "rotate",
                kind: Kind::Section(Scope::Rotate),
                default: Words("none: another program rotates the files"),
                example: "[log.rotate]\nevery = \"day\"\nkeep = 30",
                text: "The server rotates the files of all logs: see [Logs](logs.md#rotation).",
            },
        ],
    },
    Chapter {
        title: "`[log.rotate]`",
        intro: "When the server renames the files of its logs and begins new ones. At least one of `size` and `every` is \
                needed.",
        scopes: &[Scope::Rotate],
        keys: &[
            Key {
                name: "size",
                kind: size(4096, 1 << 40),
                default: Words("any"),
                example: "\"100MiB\"",
                text: "A file is rotated before it gets larger than this.",
            },
            Key {
                name: "every",
                kind: Kind::Choice(&["hour", "day"]),
                default: Words("only by size"),
                example: "\"day\"",
                text: "A file that is not empty is rotated at each full hour, or once a day.",
            },
            Key {
                name: "at",
                kind: Kind::Text,
                default: Value("\"00:00\""),
                example: "\"03:30\"",
                text: "The time of the day for `every = \"day\"`, in UTC.",
            },
            Key {
                name: "keep",
                kind: count(1, 100_000),
                default: Value("14"),
                example: "30",
                text: "Rotated files of each log that are kept. Older ones are removed.",
            },
            Key {
                name: "keep_size",
                kind: size(4096, 1 << 40),
                default: Words("any"),
                example: "\"1GiB\"",
                text: "Bytes of rotated files of each log that are kept.",
            },
            Key {
                name: "compress",
                kind: Kind::Choice(&["none", "gzip", "zstd"]),
                default: Value("\"gzip\""),
                example: "\"zstd\"",
                text: "How rotated files are compressed, by a thread with the lowest priority.",
            },
            Key {
                name: "names",
                kind: Kind::Choice(&["date", "number"]),
                default: Value("\"date\""),
                example: "\"number\"",
                text: "With `date`, `access.log` becomes `access.log-20261122`; with the time, too, where there may be \
                       several in a day. With `number` it becomes `access.log.1`, which becomes `access.log.2`.",
            },
        ],
    },
    Chapter {
        title: "`[trace]`",
        intro: "With this section, each request is part of a trace (W3C Trace Context): see [Traces](watching.md#traces).",
        scopes: &[Scope::Trace],
        keys: &[
            Key {
                name: "context",
                kind: Kind::Choice(&["continue", "restart"]),
                default: Value("\"continue\""),
                example: "\"restart\"",
                text: "Whether a request with a `traceparent` is part of the trace that it names, and sampled if that is; or \
                       begins a trace, because clients are not to choose.",
            },
            Key {
                name: "sample",
                kind: count(1, 1_000_000),
                default: Value("1"),
                example: "100",
                text: "Of the traces that begin here, one in so many is sampled; each worker counts for itself.",
            },
            Key {
                name: "exemplars",
                kind: Kind::Flag,
                default: Value("false"),
                example: "true",
                text: "Whether metrics as OpenMetrics name, for each bucket of the durations, the latest sampled trace that fell into \
                       it. See [Metrics](watching.md#metrics).",
            },
            Key {
                name: "export",
                kind: Kind::Text,
                default: Words("spans are not sent"),
                example: "\"http://127.0.0.1:4318/v1/traces\"",
                text: "The OpenTelemetry collector that gets the spans of sampled requests, by OTLP in JSON: by `http://`, or \
                       by `https://` with a certificate that is verified. The port 4318 and the path `/v1/traces` can be left out. As many as `queue` of `[log]` allows wait for it; \
                       further ones are dropped and counted.",
            },
            Key {
                name: "tls_ca",
                kind: Kind::Path,
                default: Words("the authorities that the system trusts"),
                example: "\"/etc/ssl/internal-ca.pem\"",
                text: "The authorities of the certificate of a collector by `https`, in PEM. No others are trusted then.",
            },
            Key {
                name: "service",
                kind: Kind::Text,
                default: Value("\"taipan\""),
                example: "\"shop\"",
                text: "The `service.name` of the spans.",
            },
        ],
    },
    Chapter {
        title: "`[security_txt]`",
        intro: "Whom to tell about a weakness. Addresses begin with `https://`, `mailto:` or `tel:`.",
        scopes: &[Scope::SecurityTxt],
        keys: &[
            Key {
                name: "contact",
                kind: Kind::Texts,
                default: Required,
                example: "[\"mailto:security@example.org\", \"https://example.org/security\"]",
                text: "Where to report a weakness, the best way first.",
            },
            Key {
                name: "expires",
                kind: Kind::Text,
                default: Required,
                example: "\"2027-06-30T23:00:00Z\"",
                text: "The time after which the text is no longer to be trusted (RFC 3339), in less than a year.",
            },
            Key {
                name: "encryption",
                kind: Kind::Texts,
                default: Words("none"),
                example: "\"https://example.org/pgp-key.txt\"",
                text: "A key for encrypted reports.",
            },
            Key {
                name: "acknowledgments",
                kind: Kind::Texts,
                default: Words("none"),
                example: "\"https://example.org/thanks\"",
                text: "A page with the names of those who have reported something.",
            },
            Key {
                name: "preferred_languages",
                kind: Kind::Text,
                default: Words("none"),
                example: "\"en, de\"",
                text: "The languages of reports.",
            },
            Key {
                name: "canonical",
                kind: Kind::Texts,
                default: Words("none"),
                example: "\"https://example.org/.well-known/security.txt\"",
                text: "The addresses of this text itself.",
            },
            Key {
                name: "policy",
                kind: Kind::Texts,
                default: Words("none"),
                example: "\"https://example.org/disclosure\"",
                text: "A page with the rules for reports.",
            },
            Key {
                name: "hiring",
                kind: Kind::Texts,
                default: Words("none"),
                example: "\"https://example.org/jobs\"",
                text: "A page with jobs in security.",
            },
        ],
    },
    Chapter {
        title: "`jwt`",
        intro: "The tokens that a route asks for. See [Access](access.md#tokens).",
        scopes: &[Scope::Jwt],
        keys: &[
            Key {
                name: "keys",
                kind: Kind::Path,
                default: Required,
                example: "\"/etc/taipan/keys.json\"",
                text: "The public keys of the issuer: a JWK set, or PEM. RSA keys verify RS256, P-256 keys ES256, and Ed25519 \
                       keys EdDSA; no key verifies anything else. The server looks at the file every two seconds.",
            },
            Key {
                name: "issuer",
                kind: Kind::Text,
                default: Words("any"),
                example: "\"https://login.example.org\"",
                text: "What the claim `iss` must be.",
            },
            Key {
                name: "audience",
                kind: Kind::Text,
                default: Words("any"),
                example: "\"files\"",
                text: "What the claim `aud` must have.",
            },
            Key {
                name: "claims",
                kind: Kind::Pairs("a table of `claim = value`, or `claim = [values]`"),
                default: Words("none"),
                example: "{ \"realm_access.roles\" = [\"admin\", \"staff\"], email_verified = \"true\" }",
                text: "Claims of which a token must have each, with one of the values. A claim within another one is named \
                       with a dot. Of `scope`, each word counts. Without them the response is 403.",
            },
            Key {
                name: "fields",
                kind: Kind::Pairs("a table of `field = claim`"),
                default: Words("none"),
                example: "{ X-User = \"sub\", X-Roles = \"realm_access.roles\" }",
                text: "Claims that scripts and applications receive as fields of the request. What a client itself sends \
                       under these names, in any spelling, is removed from every request of the site.",
            },
            Key {
                name: "user",
                kind: Kind::Text,
                default: Value("\"sub\""),
                example: "\"preferred_username\"",
                text: "The claim that names the user, for `REMOTE_USER` and the access log.",
            },
            Key {
                name: "from",
                kind: Kind::Texts,
                default: Value("\"header\""),
                example: "[\"header\", \"cookie:session\"]",
                text: "Where requests have their token: `header` for `Authorization: Bearer TOKEN`, or `cookie:` and the name \
                       of a cookie. Of several places, the first that has one counts.",
            },
            Key {
                name: "leeway",
                kind: time(0, 3600),
                default: Value("\"1m\""),
                example: "\"10s\"",
                text: "By how much the clocks of the issuer and of the server may differ.",
            },
            Key {
                name: "realm",
                kind: Kind::Text,
                default: Value("\"tokens\""),
                example: "\"the archive\"",
                text: "What the server tells clients without a token that they need one for.",
            },
        ],
    },
];
