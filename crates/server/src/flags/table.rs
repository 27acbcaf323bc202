//! The table of flags: every flag, once.

use std::time::Duration;

use auth::hash::NewHash;
use dialects::Dialect;
use site::watch::Part;

use super::commands::CommandKey;
use super::commands::CommandKey::*;

/// Flags of other programs, and what to write instead.
pub(super) const FOREIGN_FLAGS: &[(&[&str], &str)] = &[
    (&["--port", "-p"], "write --listen 127.0.0.1:PORT, or --listen 0.0.0.0:PORT for all of IPv4"),
    (&["--bind", "-b", "--address", "--addr", "--host"], "write --listen ADDRESS:PORT"),
    (&["--directory", "--dir", "-d"], "name the folder alone: taipan DIR"),
    (&["--test", "-t"], "write taipan check -c FILE"),
    (&["-f", "--file"], "write -c FILE"),
    (&["--signal", "-s"], "write taipan reload -c FILE, or send a signal to the program"),
    (&["-v"], "write -V or --version"),
    (&["--daemon", "-D"], "the program stays in the foreground; have the service manager start it"),
    (
        &["--ssl", "--https", "--cert", "--key"],
        "write --tls NAME for a folder, or certificate in a configuration",
    ),
    (&["--auth", "--password"], "write auth and user_files in a configuration; see Passwords in the manual"),
    (&["--gzip", "--brotli", "--compress"], "files are compressed; see compress in the manual"),
    (&["--cors"], "write cors_origins in a configuration"),
    (&["--index", "--listing"], "write it in a configuration: taipan -c FILE"),
];

/// The flags that begin the command line of another server.
pub(super) const PERSONALITIES: [(&str, Dialect); 4] = [
    ("--boa", Dialect::Boa),
    ("--thttpd", Dialect::Thttpd),
    ("--busybox", Dialect::Busybox),
    ("--uhttpd", Dialect::Uhttpd),
];

/// For how long the error log has another level, and after which time clients may try again, unless a flag says it.
pub(super) const LEVEL_TIME: Duration = Duration::from_secs(600);
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(300);

/// The cost of a new bcrypt: some 50 ms.
pub(super) const BCRYPT_COST: usize = 10;

/// The rounds of a new SHA-crypt: some 50 ms.
pub(super) const SHA_CRYPT_ROUNDS: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Switch(Switch),
    /// With the name of the value.
    Value(Value, &'static str),
}

/// A flag without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    Personality,
    Json,
    Prometheus,
    PurgeAll,
    Off,
    Create,
    Stdin,
    Batch,
    Delete,
    Verify,
    Print,
    Once,
    Confirm,
    Hash(NewHash),
    Bcrypt,
    Sha512,
    Sha256,
    Help,
    Version,
}

/// A flag with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Config,
    Dialect,
    Listen,
    Workers,
    AccessLog,
    User,
    Tls,
    Root,
    PurgeHost,
    PurgePrefix,
    PurgeTag,
    Watch(Part),
    RetryAfter,
    For,
    Client,
    Header,
    From,
    To,
    Timeout,
    Socket,
    Processes,
    Folder,
    Cost,
    Rounds,
    Html,
    Names,
    Split,
    Jobs,
    Dns,
    Digest,
}

pub(super) struct FlagRow {
    pub(super) key: Key,
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    /// The commands that accept it. Empty: all.
    pub(super) commands: &'static [CommandKey],
    /// Begins with a verb and ends with the default.
    pub(super) help: &'static str,
}

impl FlagRow {
    /// The name of its value. `None`: it has none.
    pub(super) fn value(&self) -> Option<&'static str> {
        match self.key {
            Key::Switch(_) => None,
            Key::Value(_, name) => Some(name),
        }
    }
}

/// The commands that read a configuration, or name the running program by its own.
const OF_FILE: &[CommandKey] = &[
    Serve,
    Check,
    Reload,
    Upgrade,
    Stats,
    Top,
    Metrics,
    Purge,
    Drain,
    Undrain,
    Watch,
    Maintenance,
    LogLevel,
    Disconnect,
    Reopen,
    Explain,
    Certificates,
];

/// Those whose configuration may be that of another server. None of the others has certificates by ACME.
const OF_ANY_FILE: &[CommandKey] = match OF_FILE {
    [others @ .., Certificates] => others,
    _ => panic!("certificates are the last"),
};

/// Those that can name a folder in place of a configuration.
const OF_FOLDER: &[CommandKey] = match OF_ANY_FILE {
    [Serve, Check, others @ ..] => others,
    _ => panic!("serving and checking are the first"),
};

pub(super) const FLAGS: &[FlagRow] = &[
    FlagRow {
        key: Key::Value(Value::Config, "FILE"),
        long: "config",
        short: Some('c'),
        commands: OF_FILE,
        help: "The configuration, or that of the program that runs (default: none)",
    },
    FlagRow {
        key: Key::Value(Value::Dialect, "NAME"),
        long: "dialect",
        short: None,
        commands: OF_ANY_FILE,
        help: "Read FILE as the configuration of another server, as for convert --from (default: by the name of FILE, else as \
               one of this program)",
    },
    FlagRow {
        key: Key::Value(Value::Dialect, "NAME"),
        long: "from",
        short: None,
        commands: &[Convert],
        help: "Read FILE as boa, thttpd, busybox, uhttpd, nginx, apache, lighttpd or caddy does (default: by the name of FILE)",
    },
    FlagRow {
        key: Key::Switch(Switch::Personality),
        long: "boa",
        short: None,
        commands: &[Serve],
        help: "Take the arguments behind this one as Boa does: -c SERVERROOT, -d, -f FILE, -r CHROOT, -l LEVEL; so does a \
               program that is called boa, and taipan -f FILE (default: serve)",
    },
    FlagRow {
        key: Key::Switch(Switch::Personality),
        long: "thttpd",
        short: None,
        commands: &[Serve],
        help: "Take the arguments behind this one as thttpd does, such as -C thttpd.conf; so does a program that is called \
               thttpd (default: serve)",
    },
    FlagRow {
        key: Key::Switch(Switch::Personality),
        long: "busybox",
        short: None,
        commands: &[Serve],
        help: "Take the arguments behind this one as busybox httpd does, such as -p 8080 -h DIR; so does a program that is \
               called httpd (default: serve)",
    },
    FlagRow {
        key: Key::Switch(Switch::Personality),
        long: "uhttpd",
        short: None,
        commands: &[Serve],
        help: "Take the arguments behind this one as OpenWrt's uhttpd does, such as -p 80 -h /www; so does a program that is \
               called uhttpd (default: serve)",
    },
    FlagRow {
        key: Key::Value(Value::Listen, "ADDRESS"),
        long: "listen",
        short: Some('l'),
        commands: &[Serve],
        help: "Listen on ADDRESS, such as 127.0.0.1:8080, 0.0.0.0:8080 for all of IPv4, [::]:8080 for all of IPv6, or \
               unix:/path; may be repeated (default: 127.0.0.1:8080, or the configured addresses)",
    },
    FlagRow {
        key: Key::Value(Value::Workers, "N"),
        long: "workers",
        short: Some('w'),
        commands: &[Serve],
        help: "Run N workers (default: one for each core that the process may use)",
    },
    FlagRow {
        key: Key::Value(Value::AccessLog, "WHERE"),
        long: "access-log",
        short: None,
        commands: &[Serve],
        help: "Write one line per request to WHERE: stdout, stderr, syslog, off, or a file \
               (default: as configured; without a configuration, stdout if that is a terminal, else off)",
    },
    FlagRow {
        key: Key::Value(Value::User, "NAME"),
        long: "user",
        short: Some('u'),
        commands: &[Serve],
        help: "Serve as user NAME when started as root; the server runs as root only if NAME is root (default: the \
               configured user, else taipan or nobody)",
    },
    FlagRow {
        key: Key::Value(Value::Tls, "NAME"),
        long: "tls",
        short: None,
        commands: &[Serve],
        help: "Serve by HTTPS and HTTP/2 with a certificate for NAME, which renews itself, on the ports 443 and 80; for \
               localhost by an authority of this machine, on 127.0.0.1:8443; may be repeated (default: without TLS)",
    },
    FlagRow {
        key: Key::Value(Value::Root, "DIR"),
        long: "root",
        short: Some('r'),
        commands: OF_FOLDER,
        help: "In place of a configuration: the folder that is served (default: the current folder)",
    },
    FlagRow {
        key: Key::Switch(Switch::Json),
        long: "json",
        short: None,
        commands: &[Stats],
        help: "Print JSON (default: text)",
    },
    FlagRow {
        key: Key::Switch(Switch::Once),
        long: "once",
        short: None,
        commands: &[Top],
        help: "Print one table of one second (default: live; one table, if there is no terminal)",
    },
    FlagRow {
        key: Key::Switch(Switch::Prometheus),
        long: "prometheus",
        short: None,
        commands: &[Metrics],
        help: "Print the text format of Prometheus, such as for files of its node_exporter (default: OpenMetrics)",
    },
    FlagRow {
        key: Key::Value(Value::PurgeHost, "HOST"),
        long: "host",
        short: None,
        commands: &[Purge],
        help: "Remove only responses of HOST, with its port if it is not to be every port (default: every host)",
    },
    FlagRow {
        key: Key::Value(Value::PurgePrefix, "PATH"),
        long: "prefix",
        short: None,
        commands: &[Purge],
        help: "Remove all responses whose path begins with PATH (default: one PATH, with any query)",
    },
    FlagRow {
        key: Key::Value(Value::PurgeTag, "TAG"),
        long: "tag",
        short: None,
        commands: &[Purge],
        help: "Remove all responses that have TAG in Cache-Tag or Surrogate-Key (default: one PATH)",
    },
    FlagRow {
        key: Key::Switch(Switch::PurgeAll),
        long: "all",
        short: None,
        commands: &[Purge],
        help: "Remove all responses (default: one PATH)",
    },
    FlagRow {
        key: Key::Value(Value::RetryAfter, "TIME"),
        long: "retry-after",
        short: None,
        commands: &[Maintenance],
        help: "Tell clients to try again after TIME, such as 30m (default: 5m)",
    },
    FlagRow {
        key: Key::Switch(Switch::Off),
        long: "off",
        short: None,
        commands: &[Maintenance],
        help: "Serve HOST again (default: 503)",
    },
    FlagRow {
        key: Key::Value(Value::For, "TIME"),
        long: "for",
        short: None,
        commands: &[LogLevel],
        help: "Have the level for TIME, such as 1h, at most a day (default: 10m)",
    },
    FlagRow {
        key: Key::Value(Value::Client, "NETWORK"),
        long: "client",
        short: None,
        commands: &[Disconnect],
        help: "End all connections of the clients in NETWORK, such as 192.0.2.7 or 10.0.0.0/8 (default: one ID)",
    },
    FlagRow {
        key: Key::Value(Value::Watch(Part::Client), "NETWORK"),
        long: "client",
        short: None,
        commands: &[Watch],
        help: "Show requests of clients in NETWORK, such as 192.0.2.7 or 10.0.0.0/8 (default: all)",
    },
    FlagRow {
        key: Key::Value(Value::Watch(Part::Host), "NAME"),
        long: "host",
        short: None,
        commands: &[Watch],
        help: "Show requests for NAME, in which * stands for any text (default: all)",
    },
    FlagRow {
        key: Key::Value(Value::Watch(Part::Path), "PATTERN"),
        long: "path",
        short: None,
        commands: &[Watch],
        help: "Show requests whose path is like PATTERN, such as \"/api/*\" (default: all)",
    },
    FlagRow {
        key: Key::Value(Value::Watch(Part::Status), "STATUS"),
        long: "status",
        short: None,
        commands: &[Watch],
        help: "Show requests with this status, such as 404 or 5xx, when they have ended (default: all)",
    },
    FlagRow {
        key: Key::Value(Value::Watch(Part::Slower), "TIME"),
        long: "slower",
        short: None,
        commands: &[Watch],
        help: "Show requests that take longer than TIME, such as 500ms, when they have ended (default: all)",
    },
    FlagRow {
        key: Key::Value(Value::Watch(Part::Upstream), "ADDRESS"),
        long: "upstream",
        short: None,
        commands: &[Watch],
        help: "Show requests that were sent to ADDRESS, such as \"10.0.0.1:*\", when they have ended (default: all)",
    },
    FlagRow {
        key: Key::Value(Value::Watch(Part::Rate), "N"),
        long: "rate",
        short: None,
        commands: &[Watch],
        help: "Show at most N requests in a second, and how many were left out (default: 100)",
    },
    FlagRow {
        key: Key::Value(Value::Header, "FIELD"),
        long: "header",
        short: Some('H'),
        commands: &[Explain],
        help: "Add a field to the request, such as \"Range: bytes=0-99\"; may be repeated (default: none)",
    },
    FlagRow {
        key: Key::Value(Value::From, "ADDRESS"),
        long: "from",
        short: None,
        commands: &[Explain],
        help: "The address of the client, for rules of access (default: 127.0.0.1)",
    },
    FlagRow {
        key: Key::Value(Value::To, "ADDRESS"),
        long: "to",
        short: None,
        commands: &[Explain],
        help: "The address of the server, with or without its port (default: one that no host names)",
    },
    FlagRow {
        key: Key::Value(Value::Timeout, "SECONDS"),
        long: "timeout",
        short: None,
        commands: &[Healthcheck],
        help: "Wait at most SECONDS for the response (default: 5)",
    },
    FlagRow {
        key: Key::Value(Value::Timeout, "SECONDS"),
        long: "timeout",
        short: None,
        commands: &[Resolve],
        help: "Wait at most SECONDS for the answer to a question (default: 2)",
    },
    FlagRow {
        key: Key::Value(Value::Names, "FILE"),
        long: "names",
        short: None,
        commands: &[Resolve],
        help: "Keep names in FILE for the next run, an hour to a week (default: only for this run)",
    },
    FlagRow {
        key: Key::Value(Value::Split, "DIR"),
        long: "split",
        short: None,
        commands: &[Resolve],
        help: "Append the lines of each host to DIR/HOST.log (default: print all lines)",
    },
    FlagRow {
        key: Key::Switch(Switch::Confirm),
        long: "confirm",
        short: None,
        commands: &[Resolve],
        help: "Use only names that lead back to their address (default: any name)",
    },
    FlagRow {
        key: Key::Value(Value::Jobs, "N"),
        long: "jobs",
        short: None,
        commands: &[Resolve],
        help: "Ask at most N questions at the same time (default: 64)",
    },
    FlagRow {
        key: Key::Value(Value::Dns, "ADDRESS"),
        long: "dns",
        short: None,
        commands: &[Resolve],
        help: "Ask the DNS server at ADDRESS, with a port (default: those of the system)",
    },
    FlagRow {
        key: Key::Value(Value::Html, "FILE"),
        long: "html",
        short: None,
        commands: &[Report],
        help: "Write one page of HTML, which needs nothing else (default: print text)",
    },
    FlagRow {
        key: Key::Value(Value::Socket, "ADDRESS"),
        long: "socket",
        short: Some('s'),
        commands: &[Wrap],
        help: "Accept FastCGI connections on ADDRESS, a path or an address such as 127.0.0.1:9000 (default: the \
               inherited socket)",
    },
    FlagRow {
        key: Key::Value(Value::Processes, "N"),
        long: "processes",
        short: None,
        commands: &[Wrap],
        help: "Serve N connections at a time, each with one script (default: 16)",
    },
    FlagRow {
        key: Key::Value(Value::Folder, "DIR"),
        long: "folder",
        short: None,
        commands: &[Wrap],
        help: "Run the scripts that requests name beneath DIR; may be repeated (default: none)",
    },
    FlagRow {
        key: Key::Switch(Switch::Create),
        long: "create",
        short: Some('c'),
        commands: &[Passwd],
        help: "Create FILE, and replace the one that is there (default: change FILE)",
    },
    FlagRow {
        key: Key::Switch(Switch::Stdin),
        long: "stdin",
        short: Some('i'),
        commands: &[Passwd],
        help: "Read the password from standard input (default: ask twice on the terminal)",
    },
    FlagRow {
        key: Key::Switch(Switch::Batch),
        long: "batch",
        short: Some('b'),
        commands: &[Passwd],
        help: "Take the password as the last argument, which other users of the machine can see (default: ask)",
    },
    FlagRow {
        key: Key::Switch(Switch::Print),
        long: "print",
        short: Some('n'),
        commands: &[Passwd],
        help: "Print the line for USER, without a FILE (default: write it to FILE)",
    },
    FlagRow {
        key: Key::Switch(Switch::Delete),
        long: "delete",
        short: Some('D'),
        commands: &[Passwd],
        help: "Remove USER from FILE (default: set the password)",
    },
    FlagRow {
        key: Key::Switch(Switch::Verify),
        long: "verify",
        short: Some('v'),
        commands: &[Passwd],
        help: "Exit with 0 if the password is the one in FILE, with 3 if not (default: set the password)",
    },
    FlagRow {
        key: Key::Switch(Switch::Hash(NewHash::Argon2id)),
        long: "argon2",
        short: None,
        commands: &[Passwd],
        help: "Hash with argon2id, with 19 MiB of memory (default: this)",
    },
    FlagRow {
        key: Key::Switch(Switch::Hash(NewHash::Yescrypt)),
        long: "yescrypt",
        short: None,
        commands: &[Passwd],
        help: "Hash with yescrypt, as Debian does for its users (default: argon2id)",
    },
    FlagRow {
        key: Key::Switch(Switch::Bcrypt),
        long: "bcrypt",
        short: Some('B'),
        commands: &[Passwd],
        help: "Hash with bcrypt, for a file that Apache or nginx reads, too (default: argon2id)",
    },
    FlagRow {
        key: Key::Value(Value::Cost, "N"),
        long: "cost",
        short: Some('C'),
        commands: &[Passwd],
        help: "The cost of bcrypt, from 4 to 14; one more doubles the time (default: 10)",
    },
    FlagRow {
        key: Key::Switch(Switch::Sha512),
        long: "sha512",
        short: Some('5'),
        commands: &[Passwd],
        help: "Hash with SHA-512-crypt (default: argon2id)",
    },
    FlagRow {
        key: Key::Switch(Switch::Sha256),
        long: "sha256",
        short: Some('2'),
        commands: &[Passwd],
        help: "Hash with SHA-256-crypt (default: argon2id)",
    },
    FlagRow {
        key: Key::Value(Value::Rounds, "N"),
        long: "rounds",
        short: Some('r'),
        commands: &[Passwd],
        help: "The rounds of SHA-crypt, from 1000 to 700000 (default: 100000)",
    },
    FlagRow {
        key: Key::Switch(Switch::Hash(NewHash::Apr1)),
        long: "md5",
        short: Some('m'),
        commands: &[Passwd],
        help: "Hash with Apache's MD5, which is weak; with --digest, write a line for MD5, too (default: argon2id)",
    },
    FlagRow {
        key: Key::Switch(Switch::Hash(NewHash::Sha1)),
        long: "sha1",
        short: Some('s'),
        commands: &[Passwd],
        help: "Hash with SHA-1, which is weak (default: argon2id)",
    },
    FlagRow {
        key: Key::Switch(Switch::Hash(NewHash::Plain)),
        long: "plain",
        short: Some('p'),
        commands: &[Passwd],
        help: "Write the password itself, which is weak (default: argon2id)",
    },
    FlagRow {
        key: Key::Value(Value::Digest, "REALM"),
        long: "digest",
        short: None,
        commands: &[Passwd],
        help: "Write a line for Digest in REALM, with SHA-256 (default: for Basic)",
    },
    FlagRow {
        key: Key::Switch(Switch::Help),
        long: "help",
        short: Some('h'),
        commands: &[],
        help: "Print the flags of the command, and do nothing else (default: off)",
    },
    FlagRow {
        key: Key::Switch(Switch::Version),
        long: "version",
        short: Some('V'),
        commands: &[],
        help: "Print the version, and do nothing else (default: off)",
    },
];
