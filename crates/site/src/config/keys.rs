//! Every key of the configuration, once: where it may stand, what it takes, its default and what it
//! means. The reader, its suggestions and the manual all come from this table.

use std::fmt::Write;
use std::time::Duration;

use taipan_http::head::MAX_FIELDS;

use super::value::{duration_text, size_text};

/// A table of the configuration that has keys of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Top,
    Host,
    Route,
    Limits,
    Timeouts,
    Cache,
    Scripts,
    Application,
    Log,
}

impl Scope {
    pub const ALL: [Scope; 9] = [
        Scope::Top,
        Scope::Host,
        Scope::Route,
        Scope::Limits,
        Scope::Timeouts,
        Scope::Cache,
        Scope::Scripts,
        Scope::Application,
        Scope::Log,
    ];

    /// As it is called in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Top => "the top level",
            Scope::Host => "[[host]]",
            Scope::Route => "[[route]]",
            Scope::Limits => "[limits]",
            Scope::Timeouts => "[timeouts]",
            Scope::Cache => "[cache]",
            Scope::Scripts => "[scripts]",
            Scope::Application => "[[application]]",
            Scope::Log => "[log]",
        }
    }
}

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    TextOrFalse,
    /// One, or an array of them.
    Texts,
    Path,
    Flag,
    Count {
        min: u64,
        max: u64,
    },
    Size {
        min: u64,
        max: u64,
    },
    Time {
        min: Duration,
        max: Duration,
    },
    Choice(&'static [&'static str]),
    Choices(&'static [&'static str]),
    Sink,
    SinkOrFalse,
    /// A table whose keys are the user's own. The text says what they are.
    Pairs(&'static str),
    /// `[name]`
    Section(Scope),
    /// `[[name]]`
    Tables(Scope),
}

impl Kind {
    /// What to write, behind "expected".
    pub fn expected(self) -> String {
        match self {
            Kind::Text => "a string".to_owned(),
            Kind::TextOrFalse => "a string, or false".to_owned(),
            Kind::Texts => "a string, or an array of strings".to_owned(),
            Kind::Path => "a path as a string".to_owned(),
            Kind::Flag => "true or false".to_owned(),
            Kind::Count { min, max } => format!("an integer from {min} to {max}"),
            Kind::Size { min, max } => {
                let (min, max) = (size_text(min), size_text(max));
                format!("a size such as \"16KiB\", or an integer of bytes, from {min} to {max}")
            }
            Kind::Time { min, max } => {
                let (min, max) = (duration_text(min), duration_text(max));
                format!("a duration such as \"20s\", or an integer of seconds, from {min} to {max}")
            }
            Kind::Choice(words) => format!("one of {}", quoted(words)),
            Kind::Choices(words) => format!("an array of {}", quoted(words)),
            Kind::Sink => "\"stdout\", \"stderr\", \"syslog\" or a path with a slash in it".to_owned(),
            Kind::SinkOrFalse => {
                "\"stdout\", \"stderr\", \"syslog\" or a path with a slash in it, or false".to_owned()
            }
            Kind::Pairs(what) => what.to_owned(),
            Kind::Section(scope) => format!("a section {}", scope.name()),
            Kind::Tables(scope) => format!("a section {} for each", scope.name()),
        }
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

/// What counts where a key is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initial {
    Required,
    /// As it would be written.
    Value(&'static str),
    /// Something that cannot be written as a value.
    Words(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub scopes: &'static [Scope],
    pub kind: Kind,
    pub initial: Initial,
    /// A value that is not the default; for sections, the whole of one.
    pub example: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// Further ones, or nothing.
    pub more: &'static str,
}

/// The key of a name in a scope.
pub fn find(scope: Scope, name: &str) -> Option<&'static Key> {
    of(scope).find(|key| key.name == name)
}

/// The keys of a scope, as the manual has them.
pub fn of(scope: Scope) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.scopes.contains(&scope))
}

/// What to do about a name that is no key of `scope`.
pub fn suggest(scope: Scope, name: &str) -> String {
    let said = ALSO_SAID.iter().find(|(other, at, _)| *other == name && find(scope, at).is_some());
    if let Some((_, key, how)) = said {
        return format!("use \"{key}\"{how}");
    }
    if let Some((_, instead)) = ABSENT.iter().find(|(names, _)| names.contains(&name)) {
        return (*instead).to_owned();
    }
    let elsewhere: Vec<&str> =
        Scope::ALL.into_iter().filter(|scope| find(*scope, name).is_some()).map(Scope::name).collect();
    if !elsewhere.is_empty() {
        let before = match scope {
            Scope::Top => "",
            _ if elsewhere[0] == Scope::Top.name() => ", before the first section",
            _ => "",
        };
        return format!("it belongs to {}{before}", elsewhere.join(" or "));
    }
    let distance = |key: &&Key| strsim::osa_distance(key.name, &name.to_lowercase());
    let nearest = of(scope).min_by_key(distance).filter(|key| distance(key) <= 1 + name.len().min(12) / 4);
    match nearest {
        Some(key) => format!("did you mean \"{}\"?", key.name),
        None => "remove it; the manual lists every key".to_owned(),
    }
}

/// What other servers call it: the name, the key here, and what else to say.
const ALSO_SAID: &[(&str, &str, &str)] = &[
    ("server_name", "names", "; the field `Server` is \"server_header\" at the top level"),
    ("server_tokens", "server_header", " = false to leave out the field `Server`"),
    ("server_names", "names", ""),
    ("hostname", "names", ""),
    ("hosts", "host", ": one [[host]] for each"),
    ("server", "host", ": one [[host]] for each"),
    ("virtual_host", "host", ": one [[host]] for each"),
    ("vhost", "host", ": one [[host]] for each"),
    ("location", "route", ": one [[route]] for each"),
    ("routes", "route", ": one [[route]] for each"),
    ("bind", "listen", ""),
    ("port", "listen", ", with an address: \"127.0.0.1:8080\""),
    ("address", "listen", ""),
    ("document_root", "root", ""),
    ("docroot", "root", ""),
    ("autoindex", "listing", ""),
    ("browse", "listing", ""),
    ("add_header", "headers", ""),
    ("mime_types", "types", ""),
    ("expires", "cache_control", ""),
    ("gzip_static", "precompressed", ""),
    ("threads", "workers", ""),
    ("client_max_body_size", "max_body", ""),
    ("scriptalias", "cgi", " = true, with a path that ends in a slash, and alias"),
    ("script", "cgi", " = true"),
    ("handler", "interpreter", ""),
    ("fastcgi_pass", "application", UPSTREAM_OF_A_ROUTE),
    ("scgi_pass", "application", UPSTREAM_OF_A_ROUTE),
    ("proxy_pass", "application", UPSTREAM_OF_A_ROUTE),
    ("proxy", "application", UPSTREAM_OF_A_ROUTE),
    ("reverse_proxy", "application", UPSTREAM_OF_A_ROUTE),
    ("upstream", "application", ": one [[application]] for each"),
    ("try_files", "fallback", ", the path that answers where there is no such file"),
    ("fallback_resource", "fallback", ""),
    ("return", "answer", " = STATUS, or \"redirect\""),
    ("error_log", "log", ": its error"),
    ("access_log", "log", ": its access"),
    ("log_format", "log", ": its format"),
    ("set_real_ip_from", "trusted_proxies", ""),
    ("real_ip_header", "trusted_proxies", ", whose X-Forwarded-For and Forwarded are read"),
    ("worker_processes", "workers", ""),
    ("worker_connections", "limits", ": its connections"),
    ("keepalive_timeout", "timeouts", ": its idle"),
    ("set_real_ip_from", "trusted_proxies", ""),
    ("real_ip_header", "trusted_proxies", ""),
    ("directory_index", "index", ""),
    ("directoryindex", "index", ""),
    ("environment", "env", ""),
    ("setenv", "env", ""),
    ("fastcgi_param", "env", ""),
    ("cgi_timeout", "scripts", ": its total, idle and first_byte"),
    ("timeout", "total", ", idle or first_byte"),
];

const UPSTREAM_OF_A_ROUTE: &str = ": an [[application]] with an address, and its name in a [[route]]";

/// Names of what does not exist here, and what to do instead.
const ABSENT: &[(&[&str], &str)] = &[
    (
        &["tls", "ssl", "https", "certificate", "cert", "ssl_certificate", "ssl_certificate_key", "acme"],
        "there is no TLS yet; put a proxy with TLS in front, have it pass requests to an address of \"listen\", and name \
         it in \"trusted_proxies\"",
    ),
    (
        &["auth", "auth_basic", "auth_basic_user_file", "basic_auth", "basicauth", "password", "htpasswd"],
        "passwords are not checked here; \"authorizer\" asks a FastCGI application which requests may pass",
    ),
    (
        &["gzip", "brotli", "zstd", "compress", "compression", "deflate", "encode"],
        "answers are not compressed while they are sent; \"precompressed\" sends FILE.gz, FILE.br or FILE.zst that \
         is beside FILE",
    ),
    (
        &["limit_req", "limit_rate", "rate_limit", "throttle", "limit_conn"],
        "there is no throttling; \"connections_per_client\" in [limits] bounds what one client may open",
    ),
    (
        &["allow", "deny"],
        "clients are not told apart by their addresses; use a firewall, or answer = 403 for a path",
    ),
    (&["http2", "http3", "quic", "websocket"], "only HTTP/1.1 and HTTP/1.0 are spoken yet; remove it"),
    (&["daemon", "daemonize"], "the program stays in the foreground; have the service manager start it"),
];

const START: &str = "<!-- keys: generated, do not edit -->\n";
const END: &str = "<!-- end of keys -->\n";

/// The reference of all keys in Markdown, as it stands in `docs/manual/configuration.md`.
pub fn manual() -> String {
    let mut out = String::from(START);
    for (title, intro, scopes) in CHAPTERS {
        let _ = write!(out, "\n## {title}\n\n{intro}\n");
        for key in KEYS.iter().filter(|key| key.scopes == scopes) {
            entry(key, &mut out);
        }
    }
    out.push('\n');
    out.push_str(END);
    out
}

/// `page` with its reference replaced by the one of this table. `None`: it has no place for one.
pub fn renewed(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, &manual(), after].concat())
}

fn entry(key: &Key, out: &mut String) {
    let expected = key.kind.expected();
    let initial = match key.initial {
        Initial::Required => "required".to_owned(),
        Initial::Value(value) => format!("default `{value}`"),
        Initial::Words(words) => format!("default: {words}"),
    };
    let _ = write!(out, "\n### `{}`\n\n*{expected}; {initial}*\n\n{}", key.name, key.meaning);
    if !key.more.is_empty() {
        let _ = write!(out, " {}", key.more);
    }
    let example = match key.kind {
        Kind::Section(_) | Kind::Tables(_) => key.example.to_owned(),
        _ => format!("{} = {}", key.name, key.example),
    };
    let _ = write!(out, "\n\n```toml\n{example}\n```\n");
}

const SITE: &[Scope] = &[Scope::Top];
const SITE_AND_HOST: &[Scope] = &[Scope::Top, Scope::Host];
const HOST: &[Scope] = &[Scope::Host];
const ANYWHERE: &[Scope] = &[Scope::Top, Scope::Host, Scope::Route];
const ROUTE: &[Scope] = &[Scope::Route];
const LIMITS: &[Scope] = &[Scope::Limits];
const TIMEOUTS: &[Scope] = &[Scope::Timeouts];
const CACHE: &[Scope] = &[Scope::Cache];
const SCRIPTS: &[Scope] = &[Scope::Scripts];
const APPLICATION: &[Scope] = &[Scope::Application];
const LOG: &[Scope] = &[Scope::Log];

/// Title, introduction, and the scopes whose keys come there.
const CHAPTERS: [(&str, &str, &[Scope]); 11] = [
    ("The server", "At the top level, before the first section.", SITE),
    ("Hosts", "At the top level for the default host, and in each `[[host]]`.", SITE_AND_HOST),
    ("Further hosts", "In `[[host]]` alone.", HOST),
    ("Routes", "In `[[route]]`, or `[[host.route]]` after the host it belongs to.", ROUTE),
    (
        "Files and answers",
        "At the top level, in `[[host]]` and in `[[route]]`. A host has what the top level says, and a \
         route what its host says, unless it says otherwise. Arrays and single values replace what was \
         inherited; tables are added to it, and where both have the same key, the nearer one counts.",
        ANYWHERE,
    ),
    ("`[limits]`", "What one process or one client may use.", LIMITS),
    ("`[timeouts]`", "How long things may take. A connection that is too slow is closed.", TIMEOUTS),
    ("`[cache]`", "The open-file cache that each worker has.", CACHE),
    (
        "`[scripts]`",
        "What holds for all scripts; which files are scripts, routes say. Each worker has its share of \
         what is counted.",
        SCRIPTS,
    ),
    (
        "`[[application]]`",
        "Programs that answer one request after the other, by FastCGI, SCGI or HTTP: either run elsewhere, at \
         an `address`, or started here by a `command`. See [Applications](applications.md).",
        APPLICATION,
    ),
    ("`[log]`", "What is written down, and where.", LOG),
];

const fn time(min_ms: u64, max_s: u64) -> Kind {
    Kind::Time { min: Duration::from_millis(min_ms), max: Duration::from_secs(max_s) }
}

const DAY: u64 = 86_400;

static KEYS: &[Key] = &[
    Key {
        name: "listen",
        scopes: SITE,
        kind: Kind::Texts,
        initial: Initial::Required,
        example: "[\"127.0.0.1:8080\", \"[::1]:8080\", \"unix:/run/taipan.sock\"]",
        meaning: "The addresses that connections are accepted on.",
        more: "An IP address and a port, or `unix:` and the path of a socket. Names are not looked up. \
               Port 0 lets the system choose one. `[]` is for a program that is started with its sockets open, as by \
               systemd.",
    },
    Key {
        name: "trusted_proxies",
        scopes: SITE,
        kind: Kind::Texts,
        initial: Initial::Value("[]"),
        example: "[\"10.0.0.0/8\", \"unix\"]",
        meaning: "The proxies whose `X-Forwarded-For`, `-Proto` and `-Host`, or `Forwarded`, say who asks, by which \
                  scheme, and which host.",
        more: "IP addresses, networks, and `unix` for all who come by a Unix socket. From everyone else these fields \
               are dropped. [Behind a proxy](http.md#behind-a-proxy) says what follows from them.",
    },
    Key {
        name: "workers",
        scopes: SITE,
        kind: Kind::Count { min: 1, max: 1024 },
        initial: Initial::Words("one for each core that the process may use"),
        example: "4",
        meaning: "Event loops that share the connections; each has its own cache and its own limits.",
        more: "",
    },
    Key {
        name: "user",
        scopes: SITE,
        kind: Kind::Text,
        initial: Initial::Words(
            "the user who started it; where that is root, `taipan`, if there is such a user",
        ),
        example: "\"www-data\"",
        meaning: "The user to become after the addresses are bound, when started as root.",
        more: "Without this key, and without a user `taipan`, root is refused; `user = \"root\"` overrides that.",
    },
    Key {
        name: "group",
        scopes: SITE,
        kind: Kind::Text,
        initial: Initial::Words("the first group of `user`"),
        example: "\"www-data\"",
        meaning: "The group to become with `user`.",
        more: "",
    },
    Key {
        name: "pid_file",
        scopes: SITE,
        kind: Kind::Path,
        initial: Initial::Words("none"),
        example: "\"/run/taipan/taipan.pid\"",
        meaning: "A file that holds the number of the process while it runs.",
        more: "Started as root, the program refuses a folder that another user can write: signals are sent to \
               the number in the file.",
    },
    Key {
        name: "chroot",
        scopes: SITE,
        kind: Kind::Path,
        initial: Initial::Words("none"),
        example: "\"/srv\"",
        meaning: "A folder that the serving process cannot leave.",
        more: "Needs root at the start; every root must be beneath it. Logs, the pid file and sockets are \
               opened before, by their paths outside.",
    },
    Key {
        name: "sandbox",
        scopes: SITE,
        kind: Kind::Choice(&["on", "off", "required"]),
        initial: Initial::Value("\"on\""),
        example: "\"required\"",
        meaning: "Whether the serving process gives up what it does not need: capabilities, new privileges, \
                  files outside of the roots, and most system calls.",
        more: "With \"on\", what the kernel does not have is told once and done without; with \"required\" \
               the program does not start then.",
    },
    Key {
        name: "server_header",
        scopes: SITE,
        kind: Kind::TextOrFalse,
        initial: Initial::Value("\"taipan\""),
        example: "false",
        meaning: "The value of the field `Server` in every answer; `false` leaves it out.",
        more: "It has nothing to do with the names of hosts: those are `names`.",
    },
    Key {
        name: "include",
        scopes: SITE,
        kind: Kind::Texts,
        initial: Initial::Words("none"),
        example: "[\"hosts/*.toml\"]",
        meaning: "Further files, whose keys count as if they stood in this one.",
        more: "Relative to this file's folder; `*` and `?` stand for what they do in a shell, and match in \
               ascending order. Sections of the same name become one, `[[host]]` and `[[route]]` follow \
               each other; any other key that two files have is an error. A file may have at most 1 MiB, \
               and files may include files eight levels deep.",
    },
    Key {
        name: "host",
        scopes: SITE,
        kind: Kind::Tables(Scope::Host),
        initial: Initial::Words("none"),
        example: "[[host]]\nnames = [\"example.org\", \"*.example.org\"]\nroot = \"/srv/example\"",
        meaning: "A further host, with its own names, root and routes.",
        more: "For the rest it has what the top level says, unless it says otherwise. Where the top level \
               has no root, routes, redirects and rewrites of its own, the first host is the default one.",
    },
    Key {
        name: "limits",
        scopes: SITE,
        kind: Kind::Section(Scope::Limits),
        initial: Initial::Words("every limit has its own"),
        example: "[limits]\nconnections = 500",
        meaning: "Counts and bytes.",
        more: "",
    },
    Key {
        name: "timeouts",
        scopes: SITE,
        kind: Kind::Section(Scope::Timeouts),
        initial: Initial::Words("every timeout has its own"),
        example: "[timeouts]\nidle = \"15s\"",
        meaning: "Durations.",
        more: "",
    },
    Key {
        name: "cache",
        scopes: SITE,
        kind: Kind::Section(Scope::Cache),
        initial: Initial::Words("every key has its own"),
        example: "[cache]\nbytes = \"64MiB\"",
        meaning: "The open-file cache of each worker.",
        more: "",
    },
    Key {
        name: "application",
        scopes: SITE,
        kind: Kind::Tables(Scope::Application),
        initial: Initial::Words("none"),
        example: "[[application]]\nname = \"app\"\naddress = \"unix:/run/app.sock\"",
        meaning: "Something that answers requests for routes that name it.",
        more: "At most 64.",
    },
    Key {
        name: "scripts",
        scopes: SITE,
        kind: Kind::Section(Scope::Scripts),
        initial: Initial::Words("every key has its own"),
        example: "[scripts]\nprocesses = 16\ntotal = \"5m\"",
        meaning: "How many scripts run at one time, how long, and with what.",
        more: "",
    },
    Key {
        name: "log",
        scopes: SITE,
        kind: Kind::Section(Scope::Log),
        initial: Initial::Words("errors and warnings to the standard error stream"),
        example: "[log]\naccess = \"/var/log/taipan/access.log\"",
        meaning: "The access log and the error log.",
        more: "",
    },
    Key {
        name: "root",
        scopes: SITE_AND_HOST,
        kind: Kind::Path,
        initial: Initial::Words("none; a host without a root needs routes, redirects or rewrites"),
        example: "\"/srv/www\"",
        meaning: "The folder whose files are served.",
        more: "A relative path begins in the folder of the file that it is written in. Nothing outside of \
               the folder is ever opened, except through the links that `symlinks` allows. Not inherited.",
    },
    Key {
        name: "names",
        scopes: SITE_AND_HOST,
        kind: Kind::Texts,
        initial: Initial::Words("none"),
        example: "[\"example.net\", \"*.example.net\"]",
        meaning: "The names that the host answers for, without port.",
        more: "`*.example.org` stands for every name below `example.org`, but not for that name itself. A \
               name wins over a wildcard, a longer wildcard over a shorter one. What no host has goes to \
               the default host, which is why only that one can do without names. Not inherited.",
    },
    Key {
        name: "redirects",
        scopes: SITE_AND_HOST,
        kind: Kind::Pairs("a table of `pattern = target` or `pattern = { to = target, status = 301 }`"),
        initial: Initial::Words("none"),
        example: "{ \"/old\" = \"/new\", \"/blog/\" = { to = \"https://blog.example.org/$rest$query\", status = 301 } }",
        meaning: "Routes that lead elsewhere, in short: see `redirect`.",
        more: "Not inherited.",
    },
    Key {
        name: "rewrites",
        scopes: SITE_AND_HOST,
        kind: Kind::Pairs("a table of `pattern = path`"),
        initial: Initial::Words("none"),
        example: "{ \"/favicon.ico\" = \"/images/icon.ico\" }",
        meaning: "Routes that answer with another path, in short: see `rewrite`.",
        more: "Not inherited.",
    },
    Key {
        name: "route",
        scopes: SITE_AND_HOST,
        kind: Kind::Tables(Scope::Route),
        initial: Initial::Words("none"),
        example: "[[route]]\npath = \"/private/\"\nanswer = 403",
        meaning: "What is different for some paths; in a host, write `[[host.route]]`.",
        more: "A host may have 1000 of them, redirects and rewrites among them. Not inherited. `[[route]]` is \
               always for the default host at the top level, wherever it stands.",
    },
    Key {
        name: "default",
        scopes: HOST,
        kind: Kind::Flag,
        initial: Initial::Value("false"),
        example: "true",
        meaning: "Makes this the default host, in place of the first one or the one at the top level.",
        more: "",
    },
    Key {
        name: "access_log",
        scopes: HOST,
        kind: Kind::Sink,
        initial: Initial::Words("the `access` of `[log]`"),
        example: "\"/var/log/taipan/example.log\"",
        meaning: "An access log of the host's own, in the format of `[log]`.",
        more: "",
    },
    Key {
        name: "path",
        scopes: ROUTE,
        kind: Kind::Text,
        initial: Initial::Required,
        example: "\"/downloads/\"",
        meaning: "The pattern of the paths that the route is for.",
        more: "`/a/b` is that path alone; `/a/` is the folder and everything below; with wildcards it is a \
               glob: `*` and `?` stay within a segment, `**` crosses slashes, `/**/` is any number of \
               segments, none included, and a glob without a slash, such as `*.css`, is for the last \
               segment at any depth. An exact path wins over the first glob, a glob over the longest \
               prefix; what it does not say, the longest prefix around it says (see \
               [Scripts](scripts.md#patterns-below-a-prefix)). Written as it is after decoding: `/a b`, not \
               `/a%20b`. The path `/` replaces what the host does otherwise.",
    },
    Key {
        name: "root",
        scopes: ROUTE,
        kind: Kind::Path,
        initial: Initial::Words("that of the prefix around a glob or a path; else the root of the host"),
        example: "\"/mnt/other\"",
        meaning: "Another folder to look for the whole path in: `/a/x` is `/mnt/other/a/x`.",
        more: "A route has at most one of `root`, `alias`, `redirect`, `rewrite` and `answer`; with none of \
               them it only changes settings.",
    },
    Key {
        name: "alias",
        scopes: ROUTE,
        kind: Kind::Path,
        initial: Initial::Words("none"),
        example: "\"/mnt/files\"",
        meaning: "A folder to look for the rest of the path in: with `path = \"/a/\"`, `/a/x` is \
                  `/mnt/files/x`.",
        more: "The pattern must be a prefix.",
    },
    Key {
        name: "redirect",
        scopes: ROUTE,
        kind: Kind::Text,
        initial: Initial::Words("none"),
        example: "\"https://example.org$path$query\"",
        meaning: "A URL, or a path, that the client is sent to.",
        more: "`$path` is the whole path with its slash, `$rest` what follows the pattern's prefix without \
               one, `$query` the query with its question mark or nothing, `$host` the name that was asked \
               for without port, `$scheme` is `http` or `https`, and `$$` a dollar sign; `${rest}x` sets a \
               name apart. Values are percent-encoded.",
    },
    Key {
        name: "status",
        scopes: ROUTE,
        kind: Kind::Count { min: 301, max: 308 },
        initial: Initial::Value("302"),
        example: "308",
        meaning: "The status of the redirect: 301, 302, 303, 307 or 308.",
        more: "Browsers keep 301 and 308 for good, so that a mistake cannot be taken back; 307 and 308 keep \
               the method.",
    },
    Key {
        name: "rewrite",
        scopes: ROUTE,
        kind: Kind::Text,
        initial: Initial::Words("none"),
        example: "\"/releases/latest/$rest\"",
        meaning: "A path of the same host that is answered for instead, by the route that it has.",
        more: "Written decoded, with `$path` and `$rest` as in `redirect`. After ten rewrites of one \
               request the answer is 500.",
    },
    Key {
        name: "answer",
        scopes: ROUTE,
        kind: Kind::Count { min: 400, max: 599 },
        initial: Initial::Words("none"),
        example: "410",
        meaning: "A status, with its error page and nothing else.",
        more: "Not 401, 405, 407, 416 or 426, which need more than that.",
    },
    Key {
        name: "cgi",
        scopes: ROUTE,
        kind: Kind::Flag,
        initial: Initial::Words("true with `interpreter`, false without"),
        example: "true",
        meaning: "Whether the files of the route are not sent but run, as CGI/1.1 (RFC 3875) has it.",
        more: "With a prefix as path, all files in that folder are scripts; with a glob such as `*.cgi`, those \
               whose names match. What follows a script in the path is its PATH_INFO. A file must be \
               executable. See [Scripts](scripts.md).",
    },
    Key {
        name: "interpreter",
        scopes: ROUTE,
        kind: Kind::Text,
        initial: Initial::Words("none: the files are programs, or name one in their first line"),
        example: "\"/usr/bin/php-cgi\"",
        meaning: "The program that runs the files of the route, with the path of the file as its only \
                  argument; or the name of an `[[application]]` that does.",
        more: "Such a file need not be executable, but readable.",
    },
    Key {
        name: "application",
        scopes: ROUTE,
        kind: Kind::Text,
        initial: Initial::Words("none"),
        example: "\"app\"",
        meaning: "The name of the `[[application]]` that answers for every path of the route.",
        more: "With a prefix as path, the prefix is its SCRIPT_NAME and what follows is PATH_INFO. To have \
               it run the files of the route, name it as `interpreter`.",
    },
    Key {
        name: "script_processes",
        scopes: ROUTE,
        kind: Kind::Count { min: 1, max: 100_000 },
        initial: Initial::Words("the `processes` of `[scripts]`"),
        example: "4",
        meaning: "Scripts of this route that run at one time.",
        more: "More wait, as they do for `processes`.",
    },
    Key {
        name: "user",
        scopes: ROUTE,
        kind: Kind::Text,
        initial: Initial::Words("the `user` of the prefix around a glob, or else of `[scripts]`"),
        example: "\"blog\"",
        meaning: "The account that the scripts of the route run as, by name or number.",
        more: "For a server that is started as root. A prefix with a `root` or an `alias` may name it for globs that \
               say which of its files are scripts.",
    },
    Key {
        name: "group",
        scopes: ROUTE,
        kind: Kind::Text,
        initial: Initial::Words("the first group of the `user` beside it"),
        example: "\"blog\"",
        meaning: "The group of the scripts of the route, with `user`.",
        more: "",
    },
    Key {
        name: "pass_authorization",
        scopes: ROUTE,
        kind: Kind::Flag,
        initial: Initial::Value("false"),
        example: "true",
        meaning: "Whether scripts are told the field `Authorization`, as `HTTP_AUTHORIZATION`.",
        more: "For those that ask for passwords themselves.",
    },
    Key {
        name: "env",
        scopes: ANYWHERE,
        kind: Kind::Pairs("a table of `NAME = value`"),
        initial: Initial::Words("`PATH = \"/usr/local/bin:/usr/bin:/bin\"`"),
        example: "{ GIT_PROJECT_ROOT = \"/srv/git\", GIT_HTTP_EXPORT_ALL = \"1\" }",
        meaning: "Variables that scripts find in their environment, in addition to those of the request or in \
                  their place.",
        more: "Nothing of the server's own environment is passed on.",
    },
    Key {
        name: "authorizer",
        scopes: ANYWHERE,
        kind: Kind::TextOrFalse,
        initial: Initial::Words("none"),
        example: "\"guard\"",
        meaning: "The name of an `[[application]]` that is asked, as a FastCGI authorizer, whether a request \
                  may pass; `false` for none where one is inherited.",
        more: "With status 200 it passes, and variables that the authorizer sets reach the application that \
               answers; anything else is the answer. See [Applications](applications.md#authorizers).",
    },
    Key {
        name: "index",
        scopes: ANYWHERE,
        kind: Kind::Texts,
        initial: Initial::Value("[\"index.html\"]"),
        example: "[\"index.html\", \"index.htm\"]",
        meaning: "File names that stand for their folder; the first that exists is served.",
        more: "One that is a script by its own route is run.",
    },
    Key {
        name: "fallback",
        scopes: ANYWHERE,
        kind: Kind::TextOrFalse,
        initial: Initial::Words("none"),
        example: "\"/index.php\"",
        meaning: "The path within the host that answers where nothing stands under the path that was asked, with its \
                  own status; `false` for none where one is inherited.",
        more: "A file, a script, or a path that an application has; for a front controller or a single-page \
               application. It also answers for folders without an index or a listing. A script finds the path that \
               was asked in `REQUEST_URI` and `PATH_INFO`. Behind a question mark stands a query for it, with \
               `$path` and `$rest` as in `redirect`, percent-encoded; that of the request follows. The name of the \
               file counts as one of `index`, unless that is said beside it. Where the fallback itself is missing, \
               the answer is 404. See [Files](files.md#fallbacks).",
    },
    Key {
        name: "fallback_for",
        scopes: ANYWHERE,
        kind: Kind::Choice(&["pages", "all"]),
        initial: Initial::Value("\"pages\""),
        example: "\"all\"",
        meaning: "Whether the fallback also answers for missing assets: paths whose extension is that of a script or \
                  style sheet of a page, an image, a font, sound or video.",
        more: "With `pages` the answer to those is 404, so that a page is never taken for one of them.",
    },
    Key {
        name: "listing",
        scopes: ANYWHERE,
        kind: Kind::Flag,
        initial: Initial::Value("false"),
        example: "true",
        meaning: "Whether a folder without index file is answered with a list of its entries.",
        more: "Otherwise the answer is 403.",
    },
    Key {
        name: "dotfiles",
        scopes: ANYWHERE,
        kind: Kind::Choice(&["deny", "allow"]),
        initial: Initial::Value("\"deny\""),
        example: "\"allow\"",
        meaning: "Whether a path with a segment that begins with a dot is answered with 404.",
        more: "`/.well-known/` is never denied.",
    },
    Key {
        name: "symlinks",
        scopes: ANYWHERE,
        kind: Kind::Choice(&["beneath", "owner", "never", "follow"]),
        initial: Initial::Value("\"beneath\""),
        example: "\"owner\"",
        meaning: "What symbolic links are followed.",
        more: "`beneath`: those that stay beneath the root; `owner`: those whose owner is also the target's; \
               `never`: none, a path with one is 403; `follow`: all.",
    },
    Key {
        name: "precompressed",
        scopes: ANYWHERE,
        kind: Kind::Choices(&["br", "zstd", "gzip"]),
        initial: Initial::Value("[\"br\", \"zstd\", \"gzip\"]"),
        example: "[\"gzip\"]",
        meaning: "What compressed neighbours of a file (`.br`, `.zst`, `.gz`) are sent in its place to \
                  those who accept them, the preferred one first.",
        more: "`[]` turns it off. A neighbour must have the same content as its file; one that is older than its file is not sent.",
    },
    Key {
        name: "gunzip",
        scopes: ANYWHERE,
        kind: Kind::Flag,
        initial: Initial::Value("true"),
        example: "false",
        meaning: "Whether a file that exists only as `.gz` is decompressed for those who do not accept gzip.",
        more: "",
    },
    Key {
        name: "etag",
        scopes: ANYWHERE,
        kind: Kind::Choice(&["stat", "content", "off"]),
        initial: Initial::Value("\"stat\""),
        example: "\"content\"",
        meaning: "What the entity tag of a file is made of.",
        more: "`stat`: size, modification time and inode; `content`: a hash of its content, for files that \
               the cache holds, which is the same on every machine; `off`: there is none.",
    },
    Key {
        name: "types",
        scopes: ANYWHERE,
        kind: Kind::Pairs("a table of `extension = media type`"),
        initial: Initial::Words("none besides the built-in ones"),
        example: "{ glb = \"model/gltf-binary\", \"user.js\" = \"text/plain\" }",
        meaning: "Media types by file name extension, in addition to the built-in ones or in their place.",
        more: "",
    },
    Key {
        name: "default_type",
        scopes: ANYWHERE,
        kind: Kind::Text,
        initial: Initial::Value("\"application/octet-stream\""),
        example: "\"text/plain\"",
        meaning: "The media type of a file whose extension is absent or unknown.",
        more: "",
    },
    Key {
        name: "charset",
        scopes: ANYWHERE,
        kind: Kind::TextOrFalse,
        initial: Initial::Value("\"utf-8\""),
        example: "\"iso-8859-1\"",
        meaning: "The charset that is added to media types that begin with `text/`, unless they name one.",
        more: "`false` adds none. Other types have no such parameter, or, as JSON, no need of it.",
    },
    Key {
        name: "headers",
        scopes: ANYWHERE,
        kind: Kind::Pairs("a table of `name = value`, or `name = false`"),
        initial: Initial::Words("none"),
        example: "{ X-Content-Type-Options = \"nosniff\", ETag = false }",
        meaning: "Fields to set in every answer, in place of those of the same name, or to leave out.",
        more: "Those that frame the message, such as `Content-Length`, cannot be changed.",
    },
    Key {
        name: "cache_control",
        scopes: ANYWHERE,
        kind: Kind::Pairs("a string, or a table of `pattern = value`"),
        initial: Initial::Words("none"),
        example: "{ \"/assets/\" = \"max-age=31536000, immutable\", \"*.html\" = \"no-cache\" }",
        meaning: "The field `Cache-Control` of files, by the first pattern that the path has.",
        more: "Patterns are those of `path`; those of a route are tried before those of its host.",
    },
    Key {
        name: "error_pages",
        scopes: ANYWHERE,
        kind: Kind::Pairs("a table of `status = path`"),
        initial: Initial::Words("the built-in pages"),
        example: "{ 404 = \"/errors/404.html\" }",
        meaning: "Files, by their path within the host, that are sent as the page of an error.",
        more: "",
    },
    Key {
        name: "max_body",
        scopes: ANYWHERE,
        kind: Kind::Size { min: 0, max: 1 << 40 },
        initial: Initial::Words("the `body` of `[limits]`"),
        example: "0",
        meaning: "The greatest request body that is read to its end; more is answered with 413.",
        more: "Scripts get it. Files take none, and what is read for them is thrown away.",
    },
    Key {
        name: "connections",
        scopes: LIMITS,
        kind: Kind::Count { min: 1, max: 1_000_000 },
        initial: Initial::Value("16384"),
        example: "500",
        meaning: "Connections of one worker.",
        more: "At this limit, the server closes the connection that has been idle longest for a new one, or ends that of \
               the slowest client below `min_rate`.",
    },
    Key {
        name: "connections_per_client",
        scopes: LIMITS,
        kind: Kind::Count { min: 0, max: 1_000_000 },
        initial: Initial::Value("0"),
        example: "50",
        meaning: "Connections of one client address, over all workers; more are answered with 503 and closed. \
                  0 is no limit.",
        more: "Of an IPv6 address its first 64 bits count, which is what one customer has. Unix sockets have no \
               addresses, and no such limit. Connections of `trusted_proxies` are not counted, for they are those of \
               many clients: let the proxy limit each of them.",
    },
    Key {
        name: "refusals",
        scopes: LIMITS,
        kind: Kind::Count { min: 1, max: 100_000 },
        initial: Initial::Value("64"),
        example: "8",
        meaning: "Connections of one worker that are being told at one time that there is no room for them.",
        more: "They come on top of `connections`. When all of them are in use, the first one closes at once for the next.",
    },
    Key {
        name: "requests",
        scopes: LIMITS,
        kind: Kind::Count { min: 0, max: u32::MAX as u64 },
        initial: Initial::Value("0"),
        example: "1000",
        meaning: "Requests on one connection, which is then closed; 0 is no limit.",
        more: "",
    },
    Key {
        name: "head",
        scopes: LIMITS,
        kind: Kind::Size { min: 256, max: 1 << 20 },
        initial: Initial::Value("\"16KiB\""),
        example: "\"32KiB\"",
        meaning: "Bytes of a request's head; more is answered with 431.",
        more: "",
    },
    Key {
        name: "fields",
        scopes: LIMITS,
        kind: Kind::Count { min: 1, max: MAX_FIELDS as u64 },
        initial: Initial::Value("100"),
        example: "50",
        meaning: "Fields in a request's head; more are answered with 431.",
        more: "",
    },
    Key {
        name: "target",
        scopes: LIMITS,
        kind: Kind::Size { min: 64, max: 1 << 16 },
        initial: Initial::Value("\"8KiB\""),
        example: "\"2KiB\"",
        meaning: "Bytes of a request's target, its path and query; more is answered with 414.",
        more: "",
    },
    Key {
        name: "body",
        scopes: LIMITS,
        kind: Kind::Size { min: 0, max: 1 << 40 },
        initial: Initial::Value("\"1MiB\""),
        example: "\"64KiB\"",
        meaning: "The `max_body` of every route that has none of its own.",
        more: "",
    },
    Key {
        name: "min_rate",
        scopes: LIMITS,
        kind: Kind::Size { min: 0, max: 1 << 30 },
        initial: Initial::Value("500"),
        example: "\"1KiB\"",
        meaning: "Bytes per second that a client must send, or take, once the timeout of that has passed; \
                  0 is no limit.",
        more: "At the limit of `connections`, the server disconnects the slowest client below it after a second.",
    },
    Key {
        name: "disk_threads",
        scopes: LIMITS,
        kind: Kind::Count { min: 1, max: 256 },
        initial: Initial::Value("8"),
        example: "2",
        meaning: "Threads of one worker for everything that may wait for a disk.",
        more: "At most half of them wait for one device, so that one that does not answer leaves room for the \
               others.",
    },
    Key {
        name: "disk_queue",
        scopes: LIMITS,
        kind: Kind::Count { min: 1, max: 1_000_000 },
        initial: Initial::Value("1024"),
        example: "100",
        meaning: "Requests of one worker that may wait for a disk; more are answered with 503.",
        more: "At most half of them wait for one device. A quarter of `connections` stays free for others, so where \
               that is small, fewer may wait: three quarters of it, but at least 32.",
    },
    Key {
        name: "streams",
        scopes: LIMITS,
        kind: Kind::Count { min: 1, max: 1_000_000 },
        initial: Initial::Value("64"),
        example: "8",
        meaning: "Answers per worker that are made while they are sent; more are answered with 503.",
        more: "Those are listings of more than an eighth of `bytes` in [cache], and gzip files that are inflated for a client \
               that does not accept gzip.",
    },
    Key {
        name: "unsent",
        scopes: LIMITS,
        kind: Kind::Size { min: 0, max: 1 << 30 },
        initial: Initial::Value("0"),
        example: "\"256KiB\"",
        meaning: "Bytes of an answer that wait in the kernel for one slow client, beside those that are on their \
                  way; 0 leaves it to the kernel.",
        more: "This is the socket option TCP_NOTSENT_LOWAT. It bounds what many slow readers of large files \
               cost together. Left to itself, the kernel keeps about twice what the line to a client holds; with \
               256 KiB, sending large files over a fast line took an eighth more of the processor.",
    },
    Key {
        name: "generations",
        scopes: LIMITS,
        kind: Kind::Count { min: 2, max: 1000 },
        initial: Initial::Value("16"),
        example: "4",
        meaning: "Serving processes at one time: the present one, and earlier ones that finish answers after a \
                  reload. Beyond that a reload is refused.",
        more: "",
    },
    Key {
        name: "listing_entries",
        scopes: LIMITS,
        kind: Kind::Count { min: 1, max: 1_000_000 },
        initial: Initial::Value("10000"),
        example: "1000",
        meaning: "Entries in a listing. Of a folder with more, the first by name are listed, and the page says so.",
        more: "",
    },
    Key {
        name: "head",
        scopes: TIMEOUTS,
        kind: time(10, DAY),
        initial: Initial::Value("\"20s\""),
        example: "\"5s\"",
        meaning: "From the first byte of a request's head to its last.",
        more: "",
    },
    Key {
        name: "body",
        scopes: TIMEOUTS,
        kind: time(10, DAY),
        initial: Initial::Value("\"20s\""),
        example: "\"5s\"",
        meaning: "How long a request's body may come slower than `min_rate`.",
        more: "",
    },
    Key {
        name: "write",
        scopes: TIMEOUTS,
        kind: time(10, DAY),
        initial: Initial::Value("\"20s\""),
        example: "\"5s\"",
        meaning: "How long a client may take an answer slower than `min_rate`.",
        more: "",
    },
    Key {
        name: "idle",
        scopes: TIMEOUTS,
        kind: time(10, DAY),
        initial: Initial::Value("\"1m\""),
        example: "\"15s\"",
        meaning: "How long a connection is kept without a request.",
        more: "",
    },
    Key {
        name: "linger",
        scopes: TIMEOUTS,
        kind: time(0, 60),
        initial: Initial::Value("\"5s\""),
        example: "\"1s\"",
        meaning: "How long is read on after a last answer, so that its end is not lost (RFC 9112 §9.6).",
        more: "",
    },
    Key {
        name: "disk",
        scopes: TIMEOUTS,
        kind: time(10, DAY),
        initial: Initial::Value("\"30s\""),
        example: "\"5s\"",
        meaning: "How long a look-up on a disk may take; then the answer is 503.",
        more: "",
    },
    Key {
        name: "shutdown",
        scopes: TIMEOUTS,
        kind: time(0, DAY),
        initial: Initial::Value("\"30s\""),
        example: "\"5s\"",
        meaning: "How long answers under way may take after SIGTERM.",
        more: "",
    },
    Key {
        name: "reload",
        scopes: TIMEOUTS,
        kind: time(0, DAY),
        initial: Initial::Value("\"1h\""),
        example: "\"10m\"",
        meaning: "How long answers under way may take after a reload or an upgrade.",
        more: "",
    },
    Key {
        name: "room",
        scopes: TIMEOUTS,
        kind: time(0, DAY),
        initial: Initial::Value("\"1s\""),
        example: "\"5s\"",
        meaning: "How long new connections wait in the kernel when there is no room for them; then they are \
                  answered with 503.",
        more: "Clients that have waited behind the first one get 503 with it; the last of them waits for half a second more.",
    },
    Key {
        name: "delay",
        scopes: TIMEOUTS,
        kind: time(0, DAY),
        initial: Initial::Value("\"100ms\""),
        example: "\"20ms\"",
        meaning: "How late a worker's loop may be. When it has been later for a second, requests that need a \
                  disk are answered with 503, and when it has been ten times later, all are; 0 never.",
        more: "",
    },
    Key {
        name: "entries",
        scopes: CACHE,
        kind: Kind::Count { min: 0, max: 10_000_000 },
        initial: Initial::Value("4096"),
        example: "0",
        meaning: "Files, and paths without a file, that a worker remembers; 0 turns the cache off.",
        more: "",
    },
    Key {
        name: "descriptors",
        scopes: CACHE,
        kind: Kind::Count { min: 0, max: 1_000_000 },
        initial: Initial::Value("1024"),
        example: "256",
        meaning: "Files that a worker keeps open.",
        more: "",
    },
    Key {
        name: "bytes",
        scopes: CACHE,
        kind: Kind::Size { min: 0, max: 1 << 40 },
        initial: Initial::Value("\"32MiB\""),
        example: "\"64MiB\"",
        meaning: "Content that a worker keeps in memory.",
        more: "",
    },
    Key {
        name: "file",
        scopes: CACHE,
        kind: Kind::Size { min: 0, max: 1 << 30 },
        initial: Initial::Value("\"64KiB\""),
        example: "\"16KiB\"",
        meaning: "The greatest file whose content is kept in memory.",
        more: "Greater ones are sent by the kernel straight from the file. Without the cache, 16 KiB at most.",
    },
    Key {
        name: "check",
        scopes: CACHE,
        kind: time(0, DAY),
        initial: Initial::Value("\"1s\""),
        example: "\"10s\"",
        meaning: "How long a remembered file is not compared with the one on the disk.",
        more: "So long may it take until a change is seen.",
    },
    Key {
        name: "missing",
        scopes: CACHE,
        kind: time(0, DAY),
        initial: Initial::Value("\"1s\""),
        example: "\"10s\"",
        meaning: "How long is remembered that a file does not exist.",
        more: "",
    },
    Key {
        name: "processes",
        scopes: SCRIPTS,
        kind: Kind::Count { min: 1, max: 100_000 },
        initial: Initial::Value("64"),
        example: "16",
        meaning: "Scripts that run at one time.",
        more: "Each worker has its share, and at least one.",
    },
    Key {
        name: "queue",
        scopes: SCRIPTS,
        kind: Kind::Count { min: 0, max: 1_000_000 },
        initial: Initial::Value("256"),
        example: "50",
        meaning: "Requests that wait until a script may run; more are answered with 503.",
        more: "",
    },
    Key {
        name: "wait",
        scopes: SCRIPTS,
        kind: time(0, DAY),
        initial: Initial::Value("\"10s\""),
        example: "\"3s\"",
        meaning: "How long they wait; then the answer is 503.",
        more: "",
    },
    Key {
        name: "first_byte",
        scopes: SCRIPTS,
        kind: time(10, 30 * DAY),
        initial: Initial::Value("\"1m\""),
        example: "\"10s\"",
        meaning: "How long a script may take until its header is complete; then it is ended, and the answer \
                  is 504.",
        more: "The time in which it is waited for the client's body does not count.",
    },
    Key {
        name: "idle",
        scopes: SCRIPTS,
        kind: time(10, 30 * DAY),
        initial: Initial::Value("\"1m\""),
        example: "\"10s\"",
        meaning: "How long a script may write nothing, once its header is complete; then it is ended.",
        more: "A script that cannot write because its client is slow is not idle.",
    },
    Key {
        name: "total",
        scopes: SCRIPTS,
        kind: time(10, 30 * DAY),
        initial: Initial::Value("\"1h\""),
        example: "\"5m\"",
        meaning: "How long a script may run in all; then it is ended.",
        more: "",
    },
    Key {
        name: "grace",
        scopes: SCRIPTS,
        kind: time(0, 3600),
        initial: Initial::Value("\"5s\""),
        example: "\"1s\"",
        meaning: "How long a script that is ended has after SIGTERM; then it gets SIGKILL.",
        more: "Both go to all processes of its group.",
    },
    Key {
        name: "memory",
        scopes: SCRIPTS,
        kind: Kind::Size { min: 1 << 20, max: 1 << 50 },
        initial: Initial::Words("as much as the server may"),
        example: "\"512MiB\"",
        meaning: "Address space of each process of a script (RLIMIT_AS).",
        more: "Programs in Go, Java or for node ask for far more than they use.",
    },
    Key {
        name: "cpu",
        scopes: SCRIPTS,
        kind: time(1000, 30 * DAY),
        initial: Initial::Words("as much as the server may"),
        example: "\"30s\"",
        meaning: "CPU time of each process of a script, in whole seconds (RLIMIT_CPU).",
        more: "",
    },
    Key {
        name: "files",
        scopes: SCRIPTS,
        kind: Kind::Count { min: 8, max: 1_048_576 },
        initial: Initial::Value("1024"),
        example: "256",
        meaning: "Descriptors of each process of a script (RLIMIT_NOFILE).",
        more: "",
    },
    Key {
        name: "tasks",
        scopes: SCRIPTS,
        kind: Kind::Count { min: 1, max: 1_000_000 },
        initial: Initial::Words("as many as the server may"),
        example: "200",
        meaning: "Processes and threads of the user (RLIMIT_NPROC).",
        more: "The kernel counts all that the user runs, the server's own threads among them; root has no such \
               limit.",
    },
    Key {
        name: "cgroup",
        scopes: SCRIPTS,
        kind: Kind::TextOrFalse,
        initial: Initial::Value("false"),
        example: "\"auto\"",
        meaning: "Where each script gets a control group of its own (cgroups(7), version 2): a folder beneath \
                  `/sys/fs/cgroup` that is delegated to the server, or `\"auto\"` for the server's own.",
        more: "All that a script has started ends with its group. `\"auto\"` needs `Delegate=yes` in a unit of \
               systemd. See [Scripts](scripts.md).",
    },
    Key {
        name: "cgroup_memory",
        scopes: SCRIPTS,
        kind: Kind::Size { min: 1 << 20, max: 1 << 50 },
        initial: Initial::Words("as much as there is"),
        example: "\"256MiB\"",
        meaning: "Memory that all processes of a script use together (memory.max); when they need more, all are \
                  killed.",
        more: "With `cgroup` alone. None of it is swapped out.",
    },
    Key {
        name: "cgroup_tasks",
        scopes: SCRIPTS,
        kind: Kind::Count { min: 1, max: 1_000_000 },
        initial: Initial::Words("as many as there may be"),
        example: "50",
        meaning: "Processes and threads of a script together (pids.max).",
        more: "With `cgroup` alone. Others of the same user do not count.",
    },
    Key {
        name: "umask",
        scopes: SCRIPTS,
        kind: Kind::Text,
        initial: Initial::Words("that of the server"),
        example: "\"027\"",
        meaning: "The bits that a script's files do not get, as octal digits in quotation marks.",
        more: "",
    },
    Key {
        name: "nice",
        scopes: SCRIPTS,
        kind: Kind::Count { min: 0, max: 19 },
        initial: Initial::Value("0"),
        example: "10",
        meaning: "How much scripts give way to other programs, the server among them.",
        more: "",
    },
    Key {
        name: "user",
        scopes: SCRIPTS,
        kind: Kind::Text,
        initial: Initial::Words("that of the server"),
        example: "\"scripts\"",
        meaning: "The account that scripts run as, by name or number.",
        more: "For a server that is started as root. Give scripts another account than the server: those of \
               the server's own account can end its processes. A route may name its own.",
    },
    Key {
        name: "group",
        scopes: SCRIPTS,
        kind: Kind::Text,
        initial: Initial::Words("the first group of the `user` beside it"),
        example: "\"scripts\"",
        meaning: "The group of scripts, with `user`.",
        more: "",
    },
    Key {
        name: "spool",
        scopes: SCRIPTS,
        kind: Kind::Path,
        initial: Initial::Value("\"/var/tmp\""),
        example: "\"/srv/spool\"",
        meaning: "The folder where a request body of unknown length is kept until it is complete, for scripts \
                  are told its length before they start.",
        more: "The file has no name. The server's user must be allowed to write there, and the file system must \
               know O_TMPFILE, as most do.",
    },
    Key {
        name: "spool_bytes",
        scopes: SCRIPTS,
        kind: Kind::Size { min: 0, max: 1 << 50 },
        initial: Initial::Value("\"256MiB\""),
        example: "\"2GiB\"",
        meaning: "Bytes that all such bodies take together; a request whose body does not fit beside the others is \
                  answered with 503 and `Retry-After`.",
        more: "A body that is longer than this alone is answered with 413, whatever `max_body` says. A body counts \
               until its script has ended. After a reload the processes before count theirs by themselves.",
    },
    Key {
        name: "query_arguments",
        scopes: SCRIPTS,
        kind: Kind::Flag,
        initial: Initial::Value("false"),
        example: "true",
        meaning: "Whether the words of a query without `=` become the arguments of the program (RFC 3875 §4.4).",
        more: "A client writes a command line then; words that begin with a hyphen are never passed, nor \
               anything to an interpreter.",
    },
    Key {
        name: "stderr_lines",
        scopes: SCRIPTS,
        kind: Kind::Count { min: 0, max: 10_000 },
        initial: Initial::Value("10"),
        example: "100",
        meaning: "Lines per second that one script may write to the error log through its error stream; more are \
                  counted and dropped.",
        more: "",
    },
    Key {
        name: "stderr_line",
        scopes: SCRIPTS,
        kind: Kind::Size { min: 64, max: 1 << 16 },
        initial: Initial::Value("\"1KiB\""),
        example: "\"4KiB\"",
        meaning: "Bytes of such a line; what is longer is cut.",
        more: "",
    },
    Key {
        name: "sendfile",
        scopes: SCRIPTS,
        kind: Kind::Texts,
        initial: Initial::Words("none"),
        example: "[\"/srv/private\"]",
        meaning: "Folders whose files a script may have sent in place of its own body, by the field `X-Sendfile` \
                  or `X-Accel-Redirect` with the path of the file.",
        more: "",
    },
    Key {
        name: "name",
        scopes: APPLICATION,
        kind: Kind::Text,
        initial: Initial::Required,
        example: "\"php\"",
        meaning: "What routes and the log call it.",
        more: "Without a slash.",
    },
    Key {
        name: "protocol",
        scopes: APPLICATION,
        kind: Kind::Choice(&["fastcgi", "scgi", "http"]),
        initial: Initial::Value("\"fastcgi\""),
        example: "\"http\"",
        meaning: "How it is spoken to.",
        more: "`http` is HTTP/1.1, as gunicorn, uvicorn, node and the like speak it.",
    },
    Key {
        name: "address",
        scopes: APPLICATION,
        kind: Kind::Texts,
        initial: Initial::Words("none: it is started here, by its `command`"),
        example: "[\"127.0.0.1:9000\", \"unix:/run/php/php-fpm.sock\"]",
        meaning: "Where it listens, if it is run elsewhere.",
        more: "Of several, the one with the fewest requests is asked; one that does not answer is left alone \
               for a second.",
    },
    Key {
        name: "connections",
        scopes: APPLICATION,
        kind: Kind::Count { min: 1, max: 100_000 },
        initial: Initial::Words("64"),
        example: "8",
        meaning: "Connections to each `address`, over all workers.",
        more: "For php-fpm, its `pm.max_children`.",
    },
    Key {
        name: "multiplex",
        scopes: APPLICATION,
        kind: Kind::Count { min: 1, max: 1024 },
        initial: Initial::Value("1"),
        example: "16",
        meaning: "Requests at a time on one connection, with FastCGI.",
        more: "An application is asked whether it can (`FCGI_MPXS_CONNS`), and gets one at a time unless it says \
               so. Leave it at 1 for php-fpm.",
    },
    Key {
        name: "command",
        scopes: APPLICATION,
        kind: Kind::Texts,
        initial: Initial::Words("none: it is run elsewhere, at its `address`"),
        example: "[\"/srv/app/hello.cgi\", \"--quiet\"]",
        meaning: "The program to be started, by its whole path, and its arguments.",
        more: "It is handed a listening socket, and is to accept connections from it.",
    },
    Key {
        name: "socket",
        scopes: APPLICATION,
        kind: Kind::Choice(&["stdin", "listen_fds"]),
        initial: Initial::Words("`\"stdin\"`"),
        example: "\"listen_fds\"",
        meaning: "How a process gets its listening socket: as its standard input, as FastCGI has it, or as \
                  descriptor 3 with `LISTEN_FDS` and `LISTEN_PID`, as systemd does.",
        more: "",
    },
    Key {
        name: "processes",
        scopes: APPLICATION,
        kind: Kind::Count { min: 1, max: 10_000 },
        initial: Initial::Words("4"),
        example: "16",
        meaning: "Processes that run at most; they are started when they are needed.",
        more: "",
    },
    Key {
        name: "min_processes",
        scopes: APPLICATION,
        kind: Kind::Count { min: 0, max: 10_000 },
        initial: Initial::Words("1"),
        example: "0",
        meaning: "Processes that run at least, from the start.",
        more: "With 0, the first request starts one.",
    },
    Key {
        name: "spare_processes",
        scopes: APPLICATION,
        kind: Kind::Count { min: 0, max: 10_000 },
        initial: Initial::Words("0"),
        example: "2",
        meaning: "Processes that wait for work beside those that have some, as far as there may be so many.",
        more: "So the next request need not wait until one has started.",
    },
    Key {
        name: "concurrent",
        scopes: APPLICATION,
        kind: Kind::Count { min: 1, max: 10_000 },
        initial: Initial::Words("1"),
        example: "8",
        meaning: "Connections that one process serves at a time.",
        more: "More than one for programs with threads, or an event loop.",
    },
    Key {
        name: "unused",
        scopes: APPLICATION,
        kind: time(100, 30 * DAY),
        initial: Initial::Words("`\"1m\"`"),
        example: "\"5m\"",
        meaning: "How long a process may be without work before it is ended, if there are more than \
                  `min_processes`.",
        more: "",
    },
    Key {
        name: "requests",
        scopes: APPLICATION,
        kind: Kind::Count { min: 0, max: 1_000_000_000 },
        initial: Initial::Words("0: any number"),
        example: "500",
        meaning: "Requests after which a process is replaced by a new one.",
        more: "For programs that leak memory.",
    },
    Key {
        name: "memory",
        scopes: APPLICATION,
        kind: Kind::Size { min: 1024 * 1024, max: 1 << 50 },
        initial: Initial::Words("none"),
        example: "\"256MiB\"",
        meaning: "Resident memory beyond which a process is replaced, once it has answered what it has.",
        more: "Looked at once a second.",
    },
    Key {
        name: "start",
        scopes: APPLICATION,
        kind: time(100, 3600),
        initial: Initial::Words("`\"10s\"`"),
        example: "\"1m\"",
        meaning: "How long a process may take to accept a connection; then it is killed.",
        more: "",
    },
    Key {
        name: "grace",
        scopes: APPLICATION,
        kind: time(0, 3600),
        initial: Initial::Words("`\"5s\"`"),
        example: "\"30s\"",
        meaning: "How long a process that is told to end (SIGTERM) may take before it is killed.",
        more: "",
    },
    Key {
        name: "user",
        scopes: APPLICATION,
        kind: Kind::Text,
        initial: Initial::Words("that of the server"),
        example: "\"app\"",
        meaning: "The account that its processes run as.",
        more: "For a server that is started as root.",
    },
    Key {
        name: "group",
        scopes: APPLICATION,
        kind: Kind::Text,
        initial: Initial::Words("the first group of the `user` beside it"),
        example: "\"app\"",
        meaning: "The group that its processes run as, with `user`.",
        more: "",
    },
    Key {
        name: "folder",
        scopes: APPLICATION,
        kind: Kind::Path,
        initial: Initial::Words("that of the program"),
        example: "\"/srv/app\"",
        meaning: "Where its processes begin to work.",
        more: "",
    },
    Key {
        name: "env",
        scopes: APPLICATION,
        kind: Kind::Pairs("a table of `NAME = value`"),
        initial: Initial::Words("`PATH = \"/usr/local/bin:/usr/bin:/bin\"`"),
        example: "{ PHP_FCGI_MAX_REQUESTS = \"0\" }",
        meaning: "The environment of its processes.",
        more: "There is nothing else in it. What each request is told, `env` of its route adds to.",
    },
    Key {
        name: "queue",
        scopes: APPLICATION,
        kind: Kind::Count { min: 0, max: 1_000_000 },
        initial: Initial::Value("256"),
        example: "50",
        meaning: "Requests that wait until the application has room; more are answered with 503.",
        more: "",
    },
    Key {
        name: "wait",
        scopes: APPLICATION,
        kind: time(0, DAY),
        initial: Initial::Value("\"10s\""),
        example: "\"3s\"",
        meaning: "How long they wait for it; then the answer is 503.",
        more: "",
    },
    Key {
        name: "connect",
        scopes: APPLICATION,
        kind: time(10, 3600),
        initial: Initial::Value("\"5s\""),
        example: "\"1s\"",
        meaning: "How long a connection to it may take to be made; then the answer is 504.",
        more: "",
    },
    Key {
        name: "first_byte",
        scopes: APPLICATION,
        kind: time(10, 30 * DAY),
        initial: Initial::Value("\"1m\""),
        example: "\"10s\"",
        meaning: "How long an answer may take until its header is complete; then the answer is 504.",
        more: "The time in which it is waited for the client's body does not count.",
    },
    Key {
        name: "idle",
        scopes: APPLICATION,
        kind: time(10, 30 * DAY),
        initial: Initial::Value("\"1m\""),
        example: "\"10s\"",
        meaning: "How long it may write nothing, once its header is complete; then the answer breaks off.",
        more: "",
    },
    Key {
        name: "total",
        scopes: APPLICATION,
        kind: time(10, 30 * DAY),
        initial: Initial::Value("\"1h\""),
        example: "\"5m\"",
        meaning: "How long one answer may take in all.",
        more: "",
    },
    Key {
        name: "keep",
        scopes: APPLICATION,
        kind: time(0, DAY),
        initial: Initial::Words("10s; 1s with `protocol = \"http\"`"),
        example: "\"0s\"",
        meaning: "How long a connection is kept between two requests; zero: each request has its own.",
        more: "Keep it below the time after which the application closes its end, or a request that cannot be \
               repeated may meet a closed connection: 2 s with gunicorn, 5 s with uvicorn and Node. SCGI has one \
               request for a connection, whatever this says.",
    },
    Key {
        name: "access",
        scopes: LOG,
        kind: Kind::SinkOrFalse,
        initial: Initial::Value("false"),
        example: "\"/var/log/taipan/access.log\"",
        meaning: "Where one line for each request goes.",
        more: "A relative path begins in the folder of the configuration file.",
    },
    Key {
        name: "format",
        scopes: LOG,
        kind: Kind::Choice(&["common", "combined", "json"]),
        initial: Initial::Value("\"combined\""),
        example: "\"json\"",
        meaning: "How a line of the access log is written.",
        more: "",
    },
    Key {
        name: "error",
        scopes: LOG,
        kind: Kind::Sink,
        initial: Initial::Value("\"stderr\""),
        example: "\"syslog\"",
        meaning: "Where messages of the server go.",
        more: "",
    },
    Key {
        name: "level",
        scopes: LOG,
        kind: Kind::Choice(&["error", "warn", "info", "debug"]),
        initial: Initial::Value("\"warn\""),
        example: "\"info\"",
        meaning: "The least of those messages that is written.",
        more: "",
    },
    Key {
        name: "queue",
        scopes: LOG,
        kind: Kind::Count { min: 1, max: 1_000_000 },
        initial: Initial::Value("256"),
        example: "64",
        meaning: "Blocks of lines that may wait for a slow disk; more are dropped, and counted.",
        more: "",
    },
];
