//! The command line. Every command and every flag is defined once, in the two tables below. The parser, `--help`, the
//! manual page and the shell completions are made from them.

use std::ffi::OsString;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use auth::digest_users::Algorithm;
use auth::hash::{Bounds, NewHash};
use cache::store::purge::{Purge, What};
use dialects::{Dialect, Input, Start};
use site::disconnect::{Clients, Selection};
use site::model::Level;
use site::watch::{Filter, Part};

use crate::control::{Drain, DrainChange, MAX_LEVEL_TIME, MaintenanceAct, Request, SiteSource};
use crate::ipc::{Form, Syntax};
use site::host::HostAddress;

/// The parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Serve(Serve),
    Check {
        source: SiteSource,
    },
    /// Prints the configuration of another server as one of this program.
    Convert {
        input: Input,
    },
    /// What another server would print, and its exit code.
    Print(String, u8),
    Certificates {
        config: PathBuf,
    },
    /// Sends a request to a running program.
    Control {
        source: SiteSource,
        request: Request,
    },
    Watch {
        source: SiteSource,
        filter: Filter,
    },
    /// Shows what a running program does.
    Top {
        source: SiteSource,
        mode: TopMode,
    },
    Explain(Explain),
    Healthcheck {
        url: String,
        timeout: Duration,
    },
    Wrap(Wrap),
    Passwd(Passwd),
    Resolve(Resolve),
    Report(Report),
    Generate(Document),
    Help,
    Version,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TopMode {
    /// Until a key or a signal ends it, if there is a terminal.
    #[default]
    Live,
    /// One table.
    Once,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serve {
    pub source: SiteSource,
    /// Addresses that replace those of the site. Empty: the flag is not given.
    pub listen: Vec<String>,
    pub workers: Option<usize>,
    pub access_log: Option<String>,
    pub user: Option<String>,
    /// Names for which the folder is served by TLS.
    pub tls: Vec<String>,
    pub presence: Presence,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Presence {
    #[default]
    Foreground,
    /// The process that was started ends as soon as another one serves.
    Background,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explain {
    pub source: SiteSource,
    pub method: String,
    pub url: String,
    pub fields: Vec<String>,
    /// The address of the client.
    pub from: IpAddr,
    /// The address of the server. `None`: one that no host names.
    pub to: Option<HostAddress>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrap {
    /// `None`: the socket that the program inherits.
    pub socket: Option<String>,
    pub processes: usize,
    pub scripts: Scripts,
}

/// The scripts that `fcgi-wrap` runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scripts {
    /// One program with its arguments, for every request.
    Program(OsString, Vec<OsString>),
    /// The file that the request names, beneath one of these folders.
    Beneath(Vec<PathBuf>),
}

/// Which names `resolve` writes, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolve {
    /// `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The file that keeps names between runs.
    pub names: Option<PathBuf>,
    /// The folder for a file of each host. `None`: all lines go to standard output.
    pub split: Option<PathBuf>,
    /// Only names that lead back to their address.
    pub confirm: bool,
    /// Questions at the same time.
    pub jobs: usize,
    pub timeout: Duration,
    /// `None`: those of the system.
    pub server: Option<SocketAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// `-` is standard input.
    pub files: Vec<PathBuf>,
    /// `None`: it is printed as text.
    pub html: Option<PathBuf>,
}

/// What `passwd` does, and for which user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passwd {
    pub user: String,
    pub task: PasswdTask,
    pub password: PasswordFrom,
    pub kind: PasswdKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswdTask {
    /// In place of the file that is there, if one is.
    Create(PathBuf),
    Set(PathBuf),
    Delete(PathBuf),
    Verify(PathBuf),
    /// Prints the line.
    Print,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordFrom {
    Terminal,
    Stdin,
    Argument(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswdKind {
    Hash(NewHash),
    /// Lines for Digest.
    Digest(String, &'static [Algorithm]),
}

/// The documents of `taipan generate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    Man,
    Bash,
    Zsh,
    Fish,
}

/// A mistake in the command line: one line, with what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

struct CommandRow {
    /// Empty: the default command.
    name: &'static str,
    arguments: &'static str,
    help: &'static str,
}

const COMMANDS: &[CommandRow] = &[
    CommandRow {
        name: "",
        arguments: "[DIR]",
        help: "Serve the files in DIR, with listings (default: the current folder)",
    },
    CommandRow {
        name: "check",
        arguments: "-c FILE",
        help: "Check a configuration, and show what its limits cost",
    },
    CommandRow {
        name: "certificates",
        arguments: "-c FILE",
        help: "List the certificates of all hosts, with their dates, next renewal and last error",
    },
    CommandRow {
        name: CONVERT,
        arguments: "FILE [--from NAME]",
        help: "Print the configuration of another server as one of this program",
    },
    CommandRow {
        name: "reload",
        arguments: "-c FILE",
        help: "Have the running program read FILE again; exit with 1 if FILE has a mistake",
    },
    CommandRow {
        name: "upgrade",
        arguments: "-c FILE",
        help: "Replace the running program by the installed one, without losing a connection",
    },
    CommandRow {
        name: "stats",
        arguments: "-c FILE [--json]",
        help: "Print the counters of the running program",
    },
    CommandRow {
        name: "top",
        arguments: "-c FILE [--once]",
        help: "Show what the running program does, live in the terminal",
    },
    CommandRow {
        name: "metrics",
        arguments: "-c FILE [--prometheus]",
        help: "Print the metrics of the running program, as OpenMetrics",
    },
    CommandRow {
        name: "purge",
        arguments: "PATH -c FILE",
        help: "Remove PATH from the cache of responses, or more by --prefix, --tag or --all",
    },
    CommandRow {
        name: "drain",
        arguments: "NAME ADDRESS -c FILE",
        help: "Send no more requests to an address of the application NAME",
    },
    CommandRow { name: "undrain", arguments: "NAME ADDRESS -c FILE", help: "Send requests to it again" },
    CommandRow {
        name: "maintenance",
        arguments: "HOST -c FILE",
        help: "Answer requests for HOST with 503, until maintenance HOST --off",
    },
    CommandRow {
        name: "log-level",
        arguments: "LEVEL -c FILE",
        help: "Have another level of the error log for ten minutes: error, warn, info or debug",
    },
    CommandRow {
        name: "disconnect",
        arguments: "ID -c FILE",
        help: "End a connection by its ID of taipan top, or all of a client by --client NETWORK",
    },
    CommandRow { name: "reopen", arguments: "-c FILE", help: "Open the files of the logs again" },
    CommandRow {
        name: "watch",
        arguments: "-c FILE",
        help: "Show requests as they arrive, hop by hop, with their heads",
    },
    CommandRow {
        name: "explain",
        arguments: "METHOD URL",
        help: "Show, step by step, how the server would respond to a request, without a socket",
    },
    CommandRow {
        name: "healthcheck",
        arguments: "URL",
        help: "Request URL once; exit with 0 if the response is 2xx or 3xx",
    },
    CommandRow {
        name: WRAP,
        arguments: "[PROGRAM [ARG]...]",
        help: "Run CGI scripts, or PROGRAM, for a server that speaks FastCGI",
    },
    CommandRow {
        name: PASSWD,
        arguments: "[-ci] FILE USER",
        help: "Set the password of USER in a password file, with the flags of Apache's htpasswd",
    },
    CommandRow {
        name: REPORT,
        arguments: "[FILE]...",
        help: "Print what access logs say: visits, pages, statuses, referers, slowest",
    },
    CommandRow {
        name: RESOLVE,
        arguments: "[FILE]...",
        help: "Print access logs with names in place of the addresses of clients",
    },
    CommandRow {
        name: "generate",
        arguments: "man|bash|zsh|fish",
        help: "Print the manual page, or the completions for a shell",
    },
    CommandRow { name: "help", arguments: "", help: "Print this help" },
    CommandRow { name: "version", arguments: "", help: "Print the version" },
];

/// Commands of other programs, and what to write instead.
const FOREIGN_COMMANDS: &[(&[&str], &str)] = &[
    (&["serve", "run", "start"], "write taipan DIR, or taipan -c FILE"),
    (&["stop", "quit", "shutdown"], "send SIGTERM to the program, or stop its service"),
    (&["restart"], "write taipan reload -c FILE, or taipan upgrade -c FILE"),
    (&["test", "configtest", "validate"], "write taipan check -c FILE"),
    (&["file-server"], "write taipan DIR"),
    (&["htpasswd", "htdigest", "password"], "write taipan passwd FILE USER"),
];

/// Flags of other programs, and what to write instead.
const FOREIGN_FLAGS: &[(&[&str], &str)] = &[
    (&["--port", "-p"], "write --listen 127.0.0.1:PORT, or --listen 0.0.0.0:PORT for all of IPv4"),
    (&["--bind", "-b", "--address", "--addr", "--host"], "write --listen ADDRESS:PORT"),
    (&["--directory", "--dir", "-d"], "name the folder alone: taipan DIR"),
    (&["--test", "-t"], "write taipan check -c FILE"),
    (&["-v"], "write -V or --version"),
    (&["--daemon", "-D"], "the program stays in the foreground; have the service manager start it"),
    (
        &["--ssl", "--https", "--cert", "--key"],
        "write --tls NAME for a folder, or certificate in a configuration",
    ),
    (&["--auth", "--password"], "write auth and user_files in a configuration; see Passwords in the manual"),
    (&["--gzip", "--brotli", "--compress"], "files are compressed; see compress in the manual"),
    (&["--cors"], "set a field by headers in a configuration"),
    (&["--index", "--listing"], "write it in a configuration: taipan -c FILE"),
];

const WRAP: &str = "fcgi-wrap";

const PASSWD: &str = "passwd";

const REPORT: &str = "report";

const RESOLVE: &str = "resolve";

const CONVERT: &str = "convert";

/// The flags that begin the command line of another server.
const PERSONALITIES: [(&str, Dialect); 4] = [
    ("--boa", Dialect::Boa),
    ("--thttpd", Dialect::Thttpd),
    ("--busybox", Dialect::Busybox),
    ("--uhttpd", Dialect::Uhttpd),
];

/// For how long the error log has another level, and after which time clients may try again, unless a flag says it.
const LEVEL_TIME: Duration = Duration::from_secs(600);
const RETRY_AFTER: Duration = Duration::from_secs(300);

/// The cost of a new bcrypt: some 50 ms.
const BCRYPT_COST: usize = 10;

/// The rounds of a new SHA-crypt: some 50 ms.
const SHA_CRYPT_ROUNDS: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Config,
    Dialect,
    Personality,
    Listen,
    Workers,
    AccessLog,
    User,
    Tls,
    Root,
    Json,
    Prometheus,
    PurgeHost,
    PurgePrefix,
    PurgeTag,
    PurgeAll,
    Watch(Part),
    RetryAfter,
    Off,
    For,
    Client,
    Header,
    From,
    To,
    Timeout,
    Socket,
    Processes,
    Folder,
    Create,
    Stdin,
    Batch,
    Delete,
    Verify,
    Print,
    Cost,
    Rounds,
    Html,
    Once,
    Names,
    Split,
    Confirm,
    Jobs,
    Dns,
    Hash(NewHash),
    Bcrypt,
    Sha512,
    Sha256,
    Digest,
    Help,
    Version,
}

struct FlagRow {
    key: Key,
    long: &'static str,
    short: Option<char>,
    value: Option<&'static str>,
    /// The commands that accept it. Empty: all.
    commands: &'static [&'static str],
    /// Begins with a verb and ends with the default.
    help: &'static str,
}

const FLAGS: &[FlagRow] = &[
    FlagRow {
        key: Key::Config,
        long: "config",
        short: Some('c'),
        value: Some("FILE"),
        commands: &[
            "",
            "check",
            "certificates",
            "reload",
            "upgrade",
            "stats",
            "top",
            "metrics",
            "purge",
            "drain",
            "undrain",
            "watch",
            "maintenance",
            "log-level",
            "disconnect",
            "reopen",
            "explain",
        ],
        help: "Read the configuration from FILE, or name the running program by its FILE (default: none)",
    },
    FlagRow {
        key: Key::Dialect,
        long: "dialect",
        short: None,
        value: Some("NAME"),
        commands: &[
            "", "check", "reload", "upgrade", "stats", "top", "metrics", "purge", "drain", "undrain",
            "watch", "explain",
        ],
        help: "Read FILE as the configuration of another server, as for convert --from (default: by the name of FILE, else as \
               one of this program)",
    },
    FlagRow {
        key: Key::Dialect,
        long: "from",
        short: None,
        value: Some("NAME"),
        commands: &[CONVERT],
        help: "boa, thttpd, busybox, uhttpd, nginx, apache, lighttpd or caddy, whose FILE it is (default: by the name of FILE)",
    },
    FlagRow {
        key: Key::Personality,
        long: "boa",
        short: None,
        value: None,
        commands: &[""],
        help: "Take the arguments behind this one as Boa does: -c SERVERROOT, -d, -f FILE, -r CHROOT, -l LEVEL; so does a \
               program that is called boa, and taipan -f FILE (default: serve)",
    },
    FlagRow {
        key: Key::Personality,
        long: "thttpd",
        short: None,
        value: None,
        commands: &[""],
        help: "Take the arguments behind this one as thttpd does, such as -C thttpd.conf; so does a program that is called \
               thttpd (default: serve)",
    },
    FlagRow {
        key: Key::Personality,
        long: "busybox",
        short: None,
        value: None,
        commands: &[""],
        help: "Take the arguments behind this one as busybox httpd does, such as -p 8080 -h DIR; so does a program that is \
               called httpd (default: serve)",
    },
    FlagRow {
        key: Key::Personality,
        long: "uhttpd",
        short: None,
        value: None,
        commands: &[""],
        help: "Take the arguments behind this one as OpenWrt's uhttpd does, such as -p 80 -h /www; so does a program that is \
               called uhttpd (default: serve)",
    },
    FlagRow {
        key: Key::Listen,
        long: "listen",
        short: Some('l'),
        value: Some("ADDRESS"),
        commands: &[""],
        help: "Listen on ADDRESS, such as 127.0.0.1:8080, 0.0.0.0:8080 for all of IPv4, [::]:8080 for all of IPv6, or \
               unix:/path; may be repeated (default: 127.0.0.1:8080, or the configured addresses)",
    },
    FlagRow {
        key: Key::Workers,
        long: "workers",
        short: Some('w'),
        value: Some("N"),
        commands: &[""],
        help: "Run N workers (default: one for each core that the process may use)",
    },
    FlagRow {
        key: Key::AccessLog,
        long: "access-log",
        short: None,
        value: Some("WHERE"),
        commands: &[""],
        help: "Write one line per request to WHERE: stdout, stderr, syslog, off, or a file \
               (default: as configured; without a configuration, stdout if that is a terminal, else off)",
    },
    FlagRow {
        key: Key::User,
        long: "user",
        short: Some('u'),
        value: Some("NAME"),
        commands: &[""],
        help: "Serve as user NAME when started as root; the server runs as root only if NAME is root (default: the \
               configured user, else taipan or nobody)",
    },
    FlagRow {
        key: Key::Tls,
        long: "tls",
        short: None,
        value: Some("NAME"),
        commands: &[""],
        help: "Serve by HTTPS and HTTP/2 with a certificate for NAME, which renews itself, on the ports 443 and 80; for \
               localhost by an authority of this machine, on 127.0.0.1:8443; may be repeated (default: without TLS)",
    },
    FlagRow {
        key: Key::Root,
        long: "root",
        short: Some('r'),
        value: Some("DIR"),
        commands: &[
            "upgrade",
            "stats",
            "top",
            "metrics",
            "purge",
            "drain",
            "undrain",
            "watch",
            "maintenance",
            "log-level",
            "disconnect",
            "reopen",
            "explain",
        ],
        help: "Without a configuration: explain for the folder DIR, or name the running program that serves DIR \
               (default: the current folder)",
    },
    FlagRow {
        key: Key::Json,
        long: "json",
        short: None,
        value: None,
        commands: &["stats"],
        help: "Print JSON (default: text)",
    },
    FlagRow {
        key: Key::Once,
        long: "once",
        short: None,
        value: None,
        commands: &["top"],
        help: "Print one table of one second (default: live; one table, if there is no terminal)",
    },
    FlagRow {
        key: Key::Prometheus,
        long: "prometheus",
        short: None,
        value: None,
        commands: &["metrics"],
        help: "Print the text format of Prometheus, such as for files of its node_exporter (default: OpenMetrics)",
    },
    FlagRow {
        key: Key::PurgeHost,
        long: "host",
        short: None,
        value: Some("HOST"),
        commands: &["purge"],
        help: "Remove only responses of HOST, with its port if it is not to be every port (default: every host)",
    },
    FlagRow {
        key: Key::PurgePrefix,
        long: "prefix",
        short: None,
        value: Some("PATH"),
        commands: &["purge"],
        help: "Remove all responses whose path begins with PATH (default: one PATH, with any query)",
    },
    FlagRow {
        key: Key::PurgeTag,
        long: "tag",
        short: None,
        value: Some("TAG"),
        commands: &["purge"],
        help: "Remove all responses that have TAG in Cache-Tag or Surrogate-Key (default: one PATH)",
    },
    FlagRow {
        key: Key::PurgeAll,
        long: "all",
        short: None,
        value: None,
        commands: &["purge"],
        help: "Remove all responses (default: one PATH)",
    },
    FlagRow {
        key: Key::RetryAfter,
        long: "retry-after",
        short: None,
        value: Some("TIME"),
        commands: &["maintenance"],
        help: "Tell clients to try again after TIME, such as 30m (default: 5m)",
    },
    FlagRow {
        key: Key::Off,
        long: "off",
        short: None,
        value: None,
        commands: &["maintenance"],
        help: "Serve HOST again (default: 503)",
    },
    FlagRow {
        key: Key::For,
        long: "for",
        short: None,
        value: Some("TIME"),
        commands: &["log-level"],
        help: "Have the level for TIME, such as 1h, at most a day (default: 10m)",
    },
    FlagRow {
        key: Key::Client,
        long: "client",
        short: None,
        value: Some("NETWORK"),
        commands: &["disconnect"],
        help: "End all connections of the clients in NETWORK, such as 192.0.2.7 or 10.0.0.0/8 (default: one ID)",
    },
    FlagRow {
        key: Key::Watch(Part::Client),
        long: "client",
        short: None,
        value: Some("NETWORK"),
        commands: &["watch"],
        help: "Show requests of clients in NETWORK, such as 192.0.2.7 or 10.0.0.0/8 (default: all)",
    },
    FlagRow {
        key: Key::Watch(Part::Host),
        long: "host",
        short: None,
        value: Some("NAME"),
        commands: &["watch"],
        help: "Show requests for NAME, in which * stands for any text (default: all)",
    },
    FlagRow {
        key: Key::Watch(Part::Path),
        long: "path",
        short: None,
        value: Some("PATTERN"),
        commands: &["watch"],
        help: "Show requests whose path is like PATTERN, such as \"/api/*\" (default: all)",
    },
    FlagRow {
        key: Key::Watch(Part::Status),
        long: "status",
        short: None,
        value: Some("STATUS"),
        commands: &["watch"],
        help: "Show requests with this status, such as 404 or 5xx, when they have ended (default: all)",
    },
    FlagRow {
        key: Key::Watch(Part::Slower),
        long: "slower",
        short: None,
        value: Some("TIME"),
        commands: &["watch"],
        help: "Show requests that take longer than TIME, such as 500ms, when they have ended (default: all)",
    },
    FlagRow {
        key: Key::Watch(Part::Upstream),
        long: "upstream",
        short: None,
        value: Some("ADDRESS"),
        commands: &["watch"],
        help: "Show requests that were sent to ADDRESS, such as \"10.0.0.1:*\", when they have ended (default: all)",
    },
    FlagRow {
        key: Key::Watch(Part::Rate),
        long: "rate",
        short: None,
        value: Some("N"),
        commands: &["watch"],
        help: "Show at most N requests in a second, and how many were left out (default: 100)",
    },
    FlagRow {
        key: Key::Header,
        long: "header",
        short: Some('H'),
        value: Some("FIELD"),
        commands: &["explain"],
        help: "Add a field to the request, such as \"Range: bytes=0-99\"; may be repeated (default: none)",
    },
    FlagRow {
        key: Key::From,
        long: "from",
        short: None,
        value: Some("ADDRESS"),
        commands: &["explain"],
        help: "The address of the client, for rules of access (default: 127.0.0.1)",
    },
    FlagRow {
        key: Key::To,
        long: "to",
        short: None,
        value: Some("ADDRESS"),
        commands: &["explain"],
        help: "The address of the server, with or without its port (default: one that no host names)",
    },
    FlagRow {
        key: Key::Timeout,
        long: "timeout",
        short: None,
        value: Some("SECONDS"),
        commands: &["healthcheck"],
        help: "Wait at most SECONDS for the response (default: 5)",
    },
    FlagRow {
        key: Key::Timeout,
        long: "timeout",
        short: None,
        value: Some("SECONDS"),
        commands: &[RESOLVE],
        help: "Wait at most SECONDS for the answer to a question (default: 2)",
    },
    FlagRow {
        key: Key::Names,
        long: "names",
        short: None,
        value: Some("FILE"),
        commands: &[RESOLVE],
        help: "Keep names in FILE for the next run, an hour to a week (default: only for this run)",
    },
    FlagRow {
        key: Key::Split,
        long: "split",
        short: None,
        value: Some("DIR"),
        commands: &[RESOLVE],
        help: "Append the lines of each host to DIR/HOST.log (default: print all lines)",
    },
    FlagRow {
        key: Key::Confirm,
        long: "confirm",
        short: None,
        value: None,
        commands: &[RESOLVE],
        help: "Use only names that lead back to their address (default: any name)",
    },
    FlagRow {
        key: Key::Jobs,
        long: "jobs",
        short: None,
        value: Some("N"),
        commands: &[RESOLVE],
        help: "Ask at most N questions at the same time (default: 64)",
    },
    FlagRow {
        key: Key::Dns,
        long: "dns",
        short: None,
        value: Some("ADDRESS"),
        commands: &[RESOLVE],
        help: "Ask the DNS server at ADDRESS, with a port (default: those of the system)",
    },
    FlagRow {
        key: Key::Html,
        long: "html",
        short: None,
        value: Some("FILE"),
        commands: &[REPORT],
        help: "Write one page of HTML, which needs nothing else (default: print text)",
    },
    FlagRow {
        key: Key::Socket,
        long: "socket",
        short: Some('s'),
        value: Some("ADDRESS"),
        commands: &[WRAP],
        help: "Accept FastCGI connections on ADDRESS, a path or an address such as 127.0.0.1:9000 (default: the \
               inherited socket)",
    },
    FlagRow {
        key: Key::Processes,
        long: "processes",
        short: None,
        value: Some("N"),
        commands: &[WRAP],
        help: "Serve N connections at a time, each with one script (default: 16)",
    },
    FlagRow {
        key: Key::Folder,
        long: "folder",
        short: None,
        value: Some("DIR"),
        commands: &[WRAP],
        help: "Run the scripts that requests name beneath DIR; may be repeated (default: none)",
    },
    FlagRow {
        key: Key::Create,
        long: "create",
        short: Some('c'),
        value: None,
        commands: &[PASSWD],
        help: "Create FILE, and replace the one that is there (default: change FILE)",
    },
    FlagRow {
        key: Key::Stdin,
        long: "stdin",
        short: Some('i'),
        value: None,
        commands: &[PASSWD],
        help: "Read the password from standard input (default: ask twice on the terminal)",
    },
    FlagRow {
        key: Key::Batch,
        long: "batch",
        short: Some('b'),
        value: None,
        commands: &[PASSWD],
        help: "Take the password as the last argument, which other users of the machine can see (default: ask)",
    },
    FlagRow {
        key: Key::Print,
        long: "print",
        short: Some('n'),
        value: None,
        commands: &[PASSWD],
        help: "Print the line for USER, without a FILE (default: write it to FILE)",
    },
    FlagRow {
        key: Key::Delete,
        long: "delete",
        short: Some('D'),
        value: None,
        commands: &[PASSWD],
        help: "Remove USER from FILE (default: set the password)",
    },
    FlagRow {
        key: Key::Verify,
        long: "verify",
        short: Some('v'),
        value: None,
        commands: &[PASSWD],
        help: "Exit with 0 if the password is the one in FILE, with 3 if not (default: set the password)",
    },
    FlagRow {
        key: Key::Hash(NewHash::Argon2id),
        long: "argon2",
        short: None,
        value: None,
        commands: &[PASSWD],
        help: "Hash with argon2id, with 19 MiB of memory (default: this)",
    },
    FlagRow {
        key: Key::Hash(NewHash::Yescrypt),
        long: "yescrypt",
        short: None,
        value: None,
        commands: &[PASSWD],
        help: "Hash with yescrypt, as Debian does for its users (default: argon2id)",
    },
    FlagRow {
        key: Key::Bcrypt,
        long: "bcrypt",
        short: Some('B'),
        value: None,
        commands: &[PASSWD],
        help: "Hash with bcrypt, for a file that Apache or nginx reads, too (default: argon2id)",
    },
    FlagRow {
        key: Key::Cost,
        long: "cost",
        short: Some('C'),
        value: Some("N"),
        commands: &[PASSWD],
        help: "The cost of bcrypt, from 4 to 14; one more doubles the time (default: 10)",
    },
    FlagRow {
        key: Key::Sha512,
        long: "sha512",
        short: Some('5'),
        value: None,
        commands: &[PASSWD],
        help: "Hash with SHA-512-crypt (default: argon2id)",
    },
    FlagRow {
        key: Key::Sha256,
        long: "sha256",
        short: Some('2'),
        value: None,
        commands: &[PASSWD],
        help: "Hash with SHA-256-crypt (default: argon2id)",
    },
    FlagRow {
        key: Key::Rounds,
        long: "rounds",
        short: Some('r'),
        value: Some("N"),
        commands: &[PASSWD],
        help: "The rounds of SHA-crypt, from 1000 to 700000 (default: 100000)",
    },
    FlagRow {
        key: Key::Hash(NewHash::Apr1),
        long: "md5",
        short: Some('m'),
        value: None,
        commands: &[PASSWD],
        help: "Hash with Apache's MD5, which is weak; with --digest, write a line for MD5, too (default: argon2id)",
    },
    FlagRow {
        key: Key::Hash(NewHash::Sha1),
        long: "sha1",
        short: Some('s'),
        value: None,
        commands: &[PASSWD],
        help: "Hash with SHA-1, which is weak (default: argon2id)",
    },
    FlagRow {
        key: Key::Hash(NewHash::Plain),
        long: "plain",
        short: Some('p'),
        value: None,
        commands: &[PASSWD],
        help: "Write the password itself, which is weak (default: argon2id)",
    },
    FlagRow {
        key: Key::Digest,
        long: "digest",
        short: None,
        value: Some("REALM"),
        commands: &[PASSWD],
        help: "Write a line for Digest in REALM, with SHA-256 (default: for Basic)",
    },
    FlagRow {
        key: Key::Help,
        long: "help",
        short: Some('h'),
        value: None,
        commands: &[],
        help: "Print this help (default: serve)",
    },
    FlagRow {
        key: Key::Version,
        long: "version",
        short: Some('V'),
        value: None,
        commands: &[],
        help: "Print the version (default: serve)",
    },
];

/// The files that `packaging/install` installs, for the manual page.
const FILES: &[(&str, &str)] = &[
    ("/etc/taipan/site.toml", "The configuration that the unit serves"),
    ("/var/log/taipan/access.log, /var/log/taipan/error.log", "The logs, if the configuration says so"),
    ("/etc/logrotate.d/taipan", "The rotation of the logs"),
    ("/run/taipan/taipan.pid", "The ID of the process that accepts signals, if the configuration says so"),
    ("taipan.service, taipan.socket", "The units for systemd"),
];

/// For the manual page.
const EXAMPLES: &[(&str, &str)] = &[
    ("taipan photos", "Serve the folder photos to this machine, at http://127.0.0.1:8080/"),
    ("taipan photos --listen 0.0.0.0:8080", "The same, to every network that reaches this machine by IPv4"),
    ("taipan photos --tls localhost", "The same to this machine by HTTPS, and say how to trust it"),
    (
        "taipan photos --tls example.org",
        "To everyone, at https://example.org/, with a certificate of Let's Encrypt",
    ),
    ("taipan check -c /etc/taipan/site.toml", "Find mistakes before a start or a reload"),
    ("taipan reload -c /etc/taipan/site.toml", "Serve the changed configuration; no connection is lost"),
    (
        "taipan explain GET http://www.example/a/../b -c /etc/taipan/site.toml",
        "Show which host, route and file a request leads to, and why",
    ),
    ("taipan healthcheck http://127.0.0.1:8080/", "Send one request, for a container or a script"),
];

/// The arguments, before they are checked.
#[derive(Default)]
struct Given {
    command: &'static str,
    arguments: Vec<OsString>,
    config: Option<PathBuf>,
    dialect: Option<Dialect>,
    listen: Vec<String>,
    workers: Option<usize>,
    access_log: Option<String>,
    root: Option<PathBuf>,
    fields: Vec<String>,
    from: Option<IpAddr>,
    to: Option<HostAddress>,
    timeout: Option<u64>,
    user: Option<String>,
    tls: Vec<String>,
    form: Form,
    top: TopMode,
    syntax: Syntax,
    purges: Vec<What>,
    purge_host: Option<String>,
    filter: Filter,
    retry_after: Option<Duration>,
    off: bool,
    time: Option<Duration>,
    client: Option<Clients>,
    socket: Option<String>,
    processes: Option<usize>,
    folders: Vec<PathBuf>,
    html: Option<PathBuf>,
    names: Option<PathBuf>,
    split: Option<PathBuf>,
    confirm: bool,
    jobs: Option<usize>,
    dns: Option<SocketAddr>,
    passwd: GivenPasswd,
}

/// The flags of `passwd`. Those that exclude one another are in a list.
#[derive(Default)]
struct GivenPasswd {
    tasks: Vec<Key>,
    sources: Vec<Key>,
    kinds: Vec<Key>,
    cost: Option<usize>,
    rounds: Option<usize>,
    realm: Option<String>,
}

/// Parses a whole command line. The name of the program may be that of another server.
pub fn parse_line(line: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut line = line.into_iter();
    let program = PathBuf::from(line.next().unwrap_or_default());
    let arguments: Vec<OsString> = line.collect();
    if let Some(dialect) = Dialect::of_program(&program) {
        return personality(dialect, arguments);
    }
    let first = arguments.first().and_then(|first| first.to_str()).unwrap_or_default();
    if let Some((_, dialect)) = PERSONALITIES.iter().find(|(flag, _)| *flag == first) {
        return personality(*dialect, arguments.into_iter().skip(1).collect());
    }
    // No other flag is called -f.
    let is_command = COMMANDS.iter().any(|command| command.name == first);
    if !is_command && arguments.iter().any(|argument| argument == "-f") {
        return personality(Dialect::Boa, arguments);
    }
    parse(arguments)
}

/// The command line of another server.
fn personality(dialect: Dialect, arguments: Vec<OsString>) -> Result<Command, UsageError> {
    Ok(match dialect.start(arguments).map_err(UsageError)? {
        Start::Print(text, code) => Command::Print(text, code),
        Start::Serve { input, background } => Command::Serve(Serve {
            source: SiteSource::Foreign(input),
            listen: Vec::new(),
            workers: None,
            access_log: None,
            user: None,
            tls: Vec::new(),
            presence: if background { Presence::Background } else { Presence::Foreground },
        }),
    })
}

/// Parses the arguments behind the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    use lexopt::Arg;
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut given = Given::default();
    let mut first = true;
    // Each with its spelling.
    let mut used: Vec<(&FlagRow, String)> = Vec::new();
    while let Some(argument) = parser.next().map_err(usage)? {
        let typed = match &argument {
            Arg::Long(name) => format!("--{name}"),
            Arg::Short(c) => format!("-{c}"),
            Arg::Value(_) => String::new(),
        };
        let flag = match argument {
            Arg::Value(value) => {
                let named = COMMANDS.iter().find(|c| !c.name.is_empty() && value == c.name);
                match named {
                    Some(command) if first => given.command = command.name,
                    _ => given.arguments.push(value),
                }
                // The arguments behind the program belong to the program.
                if given.command == WRAP && !given.arguments.is_empty() {
                    given.arguments.extend(parser.raw_args().map_err(usage)?);
                }
                first = false;
                continue;
            }
            Arg::Long(name) => named(given.command, &typed, |flag| flag.long == name)?,
            Arg::Short(c) => named(given.command, &typed, |flag| flag.short == Some(c))?,
        };
        match flag.key {
            Key::Help => return Ok(Command::Help),
            Key::Version => return Ok(Command::Version),
            Key::Json => given.form = Form::Json,
            Key::Once => given.top = TopMode::Once,
            Key::Prometheus => given.syntax = Syntax::Prometheus,
            Key::Confirm => given.confirm = true,
            Key::Personality => return Err(UsageError(format!("{typed} has to be the first argument"))),
            Key::PurgeAll => given.purges.push(What::All),
            Key::Off => given.off = true,
            key if flag.value.is_none() => given.passwd.mark(key),
            key => given.set(key, &typed, parser.value().map_err(usage)?)?,
        }
        used.push((flag, typed));
    }
    if let Some((_, typed)) = used.iter().find(|(flag, _)| !flag.commands.contains(&given.command)) {
        given.unless_misspelt()?;
        let command = match given.command {
            "" => "taipan without a command".to_owned(),
            command => format!("taipan {command}"),
        };
        return Err(UsageError(format!("{typed} is not a flag of {command}; see taipan --help")));
    }
    given.command()
}

/// The flag of this command; else one of another command, whose name is in the error then.
fn named(
    command: &str,
    typed: &str,
    is_named: impl Fn(&FlagRow) -> bool,
) -> Result<&'static FlagRow, UsageError> {
    let of_command = |flag: &&FlagRow| flag.commands.is_empty() || flag.commands.contains(&command);
    let mut all = FLAGS.iter().filter(|flag| is_named(flag));
    let first = all.clone().next();
    if (command, typed) == (PASSWD, "-d") {
        return Err(UsageError("unknown flag -d; DES is too weak: leave it out for argon2id".to_owned()));
    }
    let is_foreign = || FOREIGN_FLAGS.iter().any(|(names, _)| names.contains(&typed));
    match (all.find(of_command), first) {
        (Some(flag), _) => Ok(flag),
        (None, Some(flag)) if !is_foreign() => Ok(flag),
        _ => Err(unknown(typed)),
    }
}

impl GivenPasswd {
    fn mark(&mut self, key: Key) {
        match key {
            Key::Create | Key::Delete | Key::Verify | Key::Print => self.tasks.push(key),
            Key::Stdin | Key::Batch => self.sources.push(key),
            key => self.kinds.push(key),
        }
    }

    fn command(self, arguments: Vec<OsString>) -> Result<Passwd, UsageError> {
        let task = only(&self.tasks, "give one of -c, -D, -n and -v")?;
        let source = only(&self.sources, "give -i or -b, not both")?;
        let mut arguments = arguments.into_iter();
        let mut take = |what| {
            arguments
                .next()
                .ok_or_else(|| UsageError(format!("passwd needs {what}: taipan passwd FILE USER")))
        };
        let task = match task {
            Some(Key::Print) => PasswdTask::Print,
            Some(Key::Create) => PasswdTask::Create(take("a file")?.into()),
            Some(Key::Delete) => PasswdTask::Delete(take("a file")?.into()),
            Some(Key::Verify) => PasswdTask::Verify(take("a file")?.into()),
            _ => PasswdTask::Set(take("a file")?.into()),
        };
        let user = text(take("a user")?)?;
        let password = match source {
            Some(Key::Stdin) => PasswordFrom::Stdin,
            Some(_) => PasswordFrom::Argument(text(take("a password behind the user, because of -b")?)?),
            None => PasswordFrom::Terminal,
        };
        if arguments.next().is_some() {
            let what = "passwd takes a file and a user; a password is the last argument with -b only";
            return Err(UsageError(what.into()));
        }
        Ok(Passwd { user, task, password, kind: self.kind()? })
    }

    fn kind(self) -> Result<PasswdKind, UsageError> {
        let kind = only(&self.kinds, "give one kind of hash")?;
        if self.cost.is_some() && kind != Some(Key::Bcrypt) {
            return Err(UsageError("-C is for bcrypt; add -B".into()));
        }
        if self.rounds.is_some() && !matches!(kind, Some(Key::Sha512 | Key::Sha256)) {
            return Err(UsageError("-r is for SHA-crypt; add -5 or -2".into()));
        }
        let rounds = self.rounds.unwrap_or(SHA_CRYPT_ROUNDS) as u32;
        Ok(match (self.realm, kind) {
            (Some(realm), None) => PasswdKind::Digest(realm, &[Algorithm::Sha256]),
            (Some(realm), Some(Key::Hash(NewHash::Apr1))) => PasswdKind::Digest(realm, &Algorithm::ALL),
            (Some(_), Some(_)) => {
                return Err(UsageError("with --digest, only -m says which hash to write".into()));
            }
            (None, Some(Key::Bcrypt)) => {
                PasswdKind::Hash(NewHash::Bcrypt { cost: self.cost.unwrap_or(BCRYPT_COST) as u32 })
            }
            (None, Some(Key::Sha512)) => PasswdKind::Hash(NewHash::Sha512Crypt { rounds }),
            (None, Some(Key::Sha256)) => PasswdKind::Hash(NewHash::Sha256Crypt { rounds }),
            (None, Some(Key::Hash(kind))) => PasswdKind::Hash(kind),
            (None, _) => PasswdKind::Hash(NewHash::Argon2id),
        })
    }
}

/// Without arguments, standard input.
fn inputs(arguments: Vec<OsString>) -> Vec<PathBuf> {
    match arguments.is_empty() {
        true => vec![PathBuf::from("-")],
        false => arguments.into_iter().map(PathBuf::from).collect(),
    }
}

/// At least a second, and at most a day.
fn time(value: OsString, typed: &str) -> Result<Duration, UsageError> {
    let text = text(value)?;
    let time = site::config::duration(&text)
        .filter(|time| *time >= Duration::from_secs(1) && *time <= MAX_LEVEL_TIME);
    time.ok_or_else(|| UsageError(format!("{typed} needs a time from 1s to 24h, such as 10m, not {text}")))
}

fn socket_address(value: OsString) -> Result<SocketAddr, UsageError> {
    let text = text(value)?;
    text.parse().map_err(|_| UsageError(format!("{text} is no address with a port, such as 127.0.0.1:53")))
}

/// The only one of flags that exclude one another.
fn only(keys: &[Key], otherwise: &str) -> Result<Option<Key>, UsageError> {
    match keys {
        [first, rest @ ..] if rest.iter().any(|key| key != first) => Err(UsageError(otherwise.to_owned())),
        keys => Ok(keys.first().copied()),
    }
}

impl Given {
    fn log_level(self) -> Result<Command, UsageError> {
        self.exactly(1, "log-level takes a level: taipan log-level debug -c FILE")?;
        let name = text(self.arguments.into_iter().next().unwrap_or_default())?;
        let level = Level::from_name(&name)
            .ok_or_else(|| UsageError(format!("{name} is no level; write error, warn, info or debug")))?;
        let request = Request::Level(level, self.time.unwrap_or(LEVEL_TIME));
        Ok(Command::Control { source: source(self.config, self.root, self.dialect)?, request })
    }

    fn disconnect(self) -> Result<Command, UsageError> {
        let selection = match self.client {
            Some(ref clients) => {
                self.exactly(0, "give the ID of a connection, or --client, not both")?;
                Selection::Clients(clients.clone())
            }
            None => {
                self.exactly(1, "disconnect takes the ID of a connection: taipan disconnect 1a2b -c FILE")?;
                let id = text(self.arguments.into_iter().next().unwrap_or_default())?;
                Selection::Connection(id.parse().map_err(UsageError)?)
            }
        };
        let request = Request::Disconnect(selection);
        Ok(Command::Control { source: source(self.config, self.root, self.dialect)?, request })
    }

    fn maintenance(self) -> Result<Command, UsageError> {
        self.exactly(1, "maintenance takes a host: taipan maintenance www.example.org -c FILE")?;
        let host = text(self.arguments.into_iter().next().unwrap_or_default())?;
        if self.off && self.retry_after.is_some() {
            return Err(UsageError("give --off or --retry-after, not both".to_owned()));
        }
        let seconds = self.retry_after.unwrap_or(RETRY_AFTER).as_secs() as u32;
        let act = MaintenanceAct { host, retry_after: (!self.off).then_some(seconds) };
        let request = Request::Maintenance(act);
        Ok(Command::Control { source: source(self.config, self.root, self.dialect)?, request })
    }

    fn set(&mut self, key: Key, typed: &str, value: OsString) -> Result<(), UsageError> {
        match key {
            Key::Config => self.config = Some(value.into()),
            Key::Dialect => self.dialect = Some(dialect(value)?),
            Key::Root => self.root = Some(value.into()),
            Key::Listen => self.listen.push(text(value)?),
            Key::Header => self.fields.push(text(value)?),
            Key::From => self.from = Some(ip_address(value)?),
            Key::To => self.to = Some(server_address(value)?),
            Key::PurgeHost => self.purge_host = Some(text(value)?),
            Key::PurgePrefix => self.purges.push(What::Prefix(url_path(&text(value)?)?)),
            Key::RetryAfter => self.retry_after = Some(time(value, typed)?),
            Key::Client => self.client = Some(Clients::parse(&text(value)?).map_err(UsageError)?),
            Key::For => self.time = Some(time(value, typed)?),
            Key::Watch(part) => self.filter.add(part, &text(value)?).map_err(UsageError)?,
            Key::PurgeTag => self.purges.push(What::Tag(text(value)?)),
            Key::AccessLog => self.access_log = Some(text(value)?),
            Key::Workers => self.workers = Some(number(value, typed, 1..=1024)?),
            Key::Timeout => self.timeout = Some(number(value, typed, 1..=3600)? as u64),
            Key::User => self.user = Some(text(value)?),
            Key::Tls => self.tls.push(host_name(value)?),
            Key::Socket => self.socket = Some(text(value)?),
            Key::Processes => self.processes = Some(number(value, typed, 1..=1024)?),
            Key::Folder => self.folders.push(value.into()),
            Key::Html => self.html = Some(value.into()),
            Key::Names => self.names = Some(value.into()),
            Key::Split => self.split = Some(value.into()),
            Key::Jobs => self.jobs = Some(number(value, typed, 1..=1024)?),
            Key::Dns => self.dns = Some(socket_address(value)?),
            Key::Cost => self.passwd.cost = Some(number(value, typed, Bounds::COST)?),
            Key::Rounds => self.passwd.rounds = Some(number(value, typed, Bounds::ROUNDS)?),
            Key::Digest => self.passwd.realm = Some(text(value)?),
            // They have no value.
            _ => {}
        }
        Ok(())
    }

    fn command(self) -> Result<Command, UsageError> {
        match self.command {
            "check" => {
                self.exactly(0, "check takes no argument but -c FILE")?;
                let config = self
                    .config
                    .ok_or_else(|| UsageError("check needs a configuration: taipan check -c FILE".into()))?;
                Ok(Command::Check { source: configuration(config, self.dialect)? })
            }
            CONVERT => {
                self.exactly(1, "convert takes one file: taipan convert boa.conf")?;
                let file = self.arguments.into_iter().next().map(PathBuf::from).unwrap_or_default();
                match self.dialect.or_else(|| Dialect::of_file(&file)) {
                    Some(dialect) => Ok(Command::Convert { input: dialect.input(file) }),
                    None => Err(UsageError(format!(
                        "the name {} does not tell which server it is for; add --from and one of {}",
                        file.display(),
                        dialects()
                    ))),
                }
            }
            "certificates" => {
                self.exactly(0, "certificates takes no argument but -c FILE")?;
                let config = self.config.ok_or_else(|| {
                    UsageError("certificates needs a configuration: taipan certificates -c FILE".into())
                })?;
                Ok(Command::Certificates { config })
            }
            "reload" => self.control(Request::Reload),
            "upgrade" => self.control(Request::Upgrade),
            "stats" => {
                let form = self.form;
                self.control(Request::Stats(form))
            }
            "top" => {
                self.exactly(0, "top takes no argument but -c FILE")?;
                let source = source(self.config, self.root, self.dialect)?;
                Ok(Command::Top { source, mode: self.top })
            }
            "metrics" => {
                let syntax = self.syntax;
                self.control(Request::Stats(Form::Metrics(syntax)))
            }
            "purge" => self.purge(),
            "reopen" => self.control(Request::Reopen),
            "log-level" => self.log_level(),
            "maintenance" => self.maintenance(),
            "disconnect" => self.disconnect(),
            "watch" => {
                self.exactly(0, "watch takes flags alone, such as --path \"/api/*\" -c FILE")?;
                let source = source(self.config, self.root, self.dialect)?;
                Ok(Command::Watch { source, filter: self.filter })
            }
            command @ ("drain" | "undrain") => {
                self.exactly(
                    2,
                    "name an application and one of its addresses: taipan drain NAME ADDRESS -c FILE",
                )?;
                let mut arguments = self.arguments.into_iter().map(text);
                let mut take = || arguments.next().unwrap_or_else(|| Ok(String::new()));
                let (application, endpoint) = (take()?, take()?);
                let change = if command == "drain" { DrainChange::Drain } else { DrainChange::Undrain };
                let request = Request::Drain(Drain { application, endpoint, change });
                Ok(Command::Control { source: source(self.config, self.root, self.dialect)?, request })
            }
            "explain" => {
                self.exactly(2, "explain takes a method and a URL: taipan explain GET http://localhost/")?;
                let source = source(self.config, self.root, self.dialect)?;
                let mut arguments = self.arguments.into_iter();
                let (method, url) = (
                    text(arguments.next().unwrap_or_default())?,
                    text(arguments.next().unwrap_or_default())?,
                );
                let from = self.from.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
                Ok(Command::Explain(Explain { source, method, url, fields: self.fields, from, to: self.to }))
            }
            "healthcheck" => {
                self.exactly(1, "healthcheck takes one URL: taipan healthcheck http://127.0.0.1:8080/")?;
                let url = text(self.arguments.into_iter().next().unwrap_or_default())?;
                Ok(Command::Healthcheck { url, timeout: Duration::from_secs(self.timeout.unwrap_or(5)) })
            }
            WRAP => {
                let Given { arguments, folders, socket, processes, .. } = self;
                let mut arguments = arguments.into_iter();
                let scripts = match (arguments.next(), folders.is_empty()) {
                    (Some(program), true) => Scripts::Program(program, arguments.collect()),
                    (None, false) => Scripts::Beneath(folders),
                    (Some(_), false) => {
                        return Err(UsageError("give a program or a --folder of scripts, not both".into()));
                    }
                    (None, true) => {
                        return Err(UsageError(
                            "fcgi-wrap needs a folder of scripts or a program: taipan fcgi-wrap --folder DIR"
                                .into(),
                        ));
                    }
                };
                Ok(Command::Wrap(Wrap { socket, processes: processes.unwrap_or(16), scripts }))
            }
            PASSWD => Ok(Command::Passwd(self.passwd.command(self.arguments)?)),
            REPORT => Ok(Command::Report(Report { files: inputs(self.arguments), html: self.html })),
            RESOLVE => Ok(Command::Resolve(Resolve {
                files: inputs(self.arguments),
                names: self.names,
                split: self.split,
                confirm: self.confirm,
                jobs: self.jobs.unwrap_or(64),
                timeout: Duration::from_secs(self.timeout.unwrap_or(2)),
                server: self.dns,
            })),
            "generate" => {
                self.exactly(1, "generate takes one of man, bash, zsh and fish")?;
                match self.arguments[0].to_str() {
                    Some("man") => Ok(Command::Generate(Document::Man)),
                    Some("bash") => Ok(Command::Generate(Document::Bash)),
                    Some("zsh") => Ok(Command::Generate(Document::Zsh)),
                    Some("fish") => Ok(Command::Generate(Document::Fish)),
                    _ => Err(UsageError("generate takes one of man, bash, zsh and fish".into())),
                }
            }
            "help" => Ok(Command::Help),
            "version" => {
                self.exactly(0, "version takes no argument")?;
                Ok(Command::Version)
            }
            _ => {
                if self.arguments.len() > 1 || self.config.is_some() {
                    self.unless_misspelt()?;
                }
                if self.arguments.len() > 1 {
                    return Err(UsageError(
                        "only one folder can be served; write a configuration for more".into(),
                    ));
                }
                let Given { listen, workers, access_log, user, tls, config, dialect, arguments, .. } = self;
                if config.is_some() && !tls.is_empty() {
                    return Err(UsageError(
                        "--tls is for a folder; in a configuration, write acme = true, and tls behind an address".into(),
                    ));
                }
                let source = source(config, arguments.into_iter().next().map(PathBuf::from), dialect)?;
                let presence = Presence::Foreground;
                Ok(Command::Serve(Serve { source, listen, workers, access_log, user, tls, presence }))
            }
        }
    }

    fn purge(mut self) -> Result<Command, UsageError> {
        for argument in std::mem::take(&mut self.arguments) {
            self.purges.push(What::Path(url_path(&text(argument)?)?));
        }
        let usage = "purge takes one of a path, --prefix, --tag and --all: taipan purge -c FILE /news/";
        let (Some(what), None) = (self.purges.pop(), self.purges.pop()) else {
            return Err(UsageError(usage.to_owned()));
        };
        let purge = Purge { host: self.purge_host.take().map(|host| host.to_ascii_lowercase()), what };
        match purge.to_string().parse() {
            Ok(read) if purge == read => self.control(Request::Purge(purge)),
            _ => Err(UsageError(
                "a path begins with a slash, and neither it nor a host or a tag has a space or is longer than 4000 bytes"
                    .to_owned(),
            )),
        }
    }

    fn control(self, request: Request) -> Result<Command, UsageError> {
        self.exactly(0, "name the configuration that the program was started with by -c FILE")?;
        Ok(Command::Control { source: source(self.config, self.root, self.dialect)?, request })
    }

    /// Errors: the first argument is a misspelt command, not a folder.
    fn unless_misspelt(&self) -> Result<(), UsageError> {
        let Some(name) = self.arguments.first().and_then(|first| first.to_str()) else { return Ok(()) };
        match advice(name) {
            Some(advice) if self.command.is_empty() => {
                Err(UsageError(format!("there is no command {name}; {advice}")))
            }
            _ => Ok(()),
        }
    }

    fn exactly(&self, count: usize, otherwise: &str) -> Result<(), UsageError> {
        if self.arguments.len() == count { Ok(()) } else { Err(UsageError(otherwise.to_owned())) }
    }
}

fn source(
    config: Option<PathBuf>,
    folder: Option<PathBuf>,
    dialect: Option<Dialect>,
) -> Result<SiteSource, UsageError> {
    match (config, folder) {
        (Some(_), Some(_)) => Err(UsageError("give a folder or a configuration, not both".into())),
        (None, _) if dialect.is_some() => {
            Err(UsageError("--dialect needs a configuration: add -c FILE".into()))
        }
        (Some(config), None) => configuration(config, dialect),
        (None, folder) => Ok(SiteSource::Folder(folder.unwrap_or_else(|| PathBuf::from(".")))),
    }
}

/// A file, which may be the configuration of another server.
fn configuration(file: PathBuf, dialect: Option<Dialect>) -> Result<SiteSource, UsageError> {
    Ok(match dialect.or_else(|| Dialect::of_file(&file)) {
        Some(dialect) => SiteSource::Foreign(dialect.input(file)),
        None => SiteSource::Config(file),
    })
}

/// The names of the dialects, for a message.
fn dialects() -> String {
    Dialect::ALL.map(Dialect::name).join(", ")
}

fn dialect(value: OsString) -> Result<Dialect, UsageError> {
    let name = text(value)?;
    Dialect::from_name(&name)
        .ok_or_else(|| UsageError(format!("there is no dialect \"{name}\"; there are: {}", dialects())))
}

/// What to write instead of `name`, if `name` resembles a command.
pub fn advice(name: &str) -> Option<String> {
    let foreign = FOREIGN_COMMANDS.iter().find(|(names, _)| names.contains(&name));
    if let Some((_, what_to_do)) = foreign {
        return Some((*what_to_do).to_owned());
    }
    let distance = |command: &str| strsim::damerau_levenshtein(command, name);
    let commands = COMMANDS.iter().map(|command| command.name).filter(|command| !command.is_empty());
    let nearest = commands.min_by_key(|command| distance(command))?;
    (distance(nearest) <= 1 + name.len() / 5).then(|| format!("did you mean taipan {nearest}?"))
}

/// `--help`.
pub fn help() -> String {
    let mut out = String::from("taipan, a small, fast web server\n\nUsage:\n");
    for row in COMMANDS {
        let line = format!("taipan {} {}", row.name, row.arguments).replace("  ", " ");
        _ = writeln!(out, "  {line:<36} {}", row.help);
    }
    let line = "taipan -c FILE";
    _ = writeln!(out, "  {line:<36} Serve what FILE configures");
    out.push_str("\nFlags:\n");
    for flag in FLAGS {
        _ = writeln!(out, "  {}", spelled(flag));
        for line in wrapped(flag.help, 80) {
            _ = writeln!(out, "        {line}");
        }
    }
    out
}

/// The manual page, for man(1).
pub fn man() -> String {
    let mut out = format!(".TH TAIPAN 1 \"\" \"taipan {}\" \"User Commands\"\n", env!("CARGO_PKG_VERSION"));
    out.push_str(".SH NAME\ntaipan \\- a small, fast web server\n.SH SYNOPSIS\n");
    for row in COMMANDS {
        _ = writeln!(out, ".br\n.B {}", roff(format!("taipan {}", row.name).trim()));
        if !row.arguments.is_empty() {
            _ = writeln!(out, "{}", roff(row.arguments));
        }
    }
    out.push_str(
        ".br\n.B taipan\n\\-c FILE\n.SH DESCRIPTION\nServes a folder, or the sites that a configuration describes, \
         over HTTP/1.1 and HTTP/1.0, and runs scripts and applications. It stays in the foreground. Keys of the \
         configuration are in the manual, docs/manual/configuration.md.\n.SH COMMANDS\n",
    );
    for row in COMMANDS {
        let name = format!("{} {}", row.name, row.arguments);
        _ = writeln!(out, ".TP\n.B {}\n{}.", roff(name.trim()), roff(row.help));
    }
    out.push_str(".SH OPTIONS\n");
    for flag in FLAGS {
        _ = writeln!(out, ".TP\n.B {}\n{}.", roff(&spelled(flag)), roff(flag.help));
    }
    out.push_str(
        ".SH SIGNALS\n.TP\n.B SIGTERM\nStop accepting, finish what runs, exit with 0.\n.TP\n.B SIGINT\n\
         Stop now.\n.TP\n.B SIGHUP\nRead the configuration again.\n.TP\n.B SIGUSR1\nOpen the log files \
         again.\n.TP\n.B SIGUSR2\nReplace the program by the installed one.\n.SH EXIT STATUS\n\
         0 after SIGTERM, 130 after SIGINT, 1 if a check or a healthcheck failed, 2 if it could not start.\n\
         .B taipan passwd\nexits with 1 if a file cannot be read or written, 2 if the command line is wrong, 3 if passwords differ, 4 if \
         interrupted, 5 if the password cannot be used, 6 if the user cannot, 7 if FILE is no password file.\n\
         .SH FILES\n",
    );
    for (path, what) in FILES {
        _ = writeln!(out, ".TP\n.I {}\n{}.", roff(path), roff(what));
    }
    out.push_str(".SH EXAMPLES\n");
    for (line, what) in EXAMPLES {
        _ = writeln!(out, ".TP\n.B {}\n{}.", roff(line), roff(what));
    }
    out.push_str(
        ".SH SEE ALSO\n.BR taipan\\-bench (1),\n.BR logrotate (8),\n.BR systemd.service (5),\n\
         .BR systemd.socket (5),\n.BR landlock (7),\n.BR seccomp (2)\n",
    );
    out
}

/// Completions for a shell; for `Document::Man` the manual page.
pub fn document(document: Document) -> String {
    match document {
        Document::Man => man(),
        Document::Bash => bash(),
        Document::Zsh => zsh(),
        Document::Fish => fish(),
    }
}

fn bash() -> String {
    let mut words: Vec<String> =
        COMMANDS.iter().map(|c| c.name.to_owned()).filter(|n| !n.is_empty()).collect();
    for flag in FLAGS {
        words.push(format!("--{}", flag.long));
        words.extend(flag.short.map(|c| format!("-{c}")));
    }
    format!(
        "_taipan() {{\n    COMPREPLY=($(compgen -W '{}' -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n}}\n\
         complete -o default -F _taipan taipan\n",
        words.join(" ")
    )
}

fn zsh() -> String {
    let mut out =
        String::from("#compdef taipan\n_taipan_commands() {\n    local -a commands\n    commands=(\n");
    for row in COMMANDS.iter().filter(|row| !row.name.is_empty()) {
        _ = writeln!(out, "        '{}:{}'", row.name, row.help.replace('\'', "'\\''"));
    }
    out.push_str("    )\n    _describe -t commands command commands\n    _files -/\n}\n_arguments -s \\\n");
    for flag in FLAGS {
        // A colon needs no escape between brackets.
        let help = flag.help.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]");
        let help = help.replace('\'', "'\\''");
        let value = flag.value.map_or(String::new(), |v| format!(":{v}:_files"));
        let names = match flag.short {
            Some(short) => format!("{{-{short},--{}}}", flag.long),
            None => format!("--{}", flag.long),
        };
        _ = writeln!(out, "    '*'{names}'[{help}]{value}' \\");
    }
    out.push_str("    '1:command or folder:_taipan_commands' \\\n    '*:argument:_files'\n");
    out
}

fn fish() -> String {
    let mut out = String::new();
    for row in COMMANDS.iter().filter(|c| !c.name.is_empty()) {
        let help = row.help.replace('\'', "\\'");
        _ = writeln!(out, "complete -c taipan -n __fish_use_subcommand -a {} -d '{help}'", row.name);
    }
    for flag in FLAGS {
        let short = flag.short.map_or(String::new(), |c| format!(" -s {c}"));
        let value = if flag.value.is_some() { " -r" } else { "" };
        _ = writeln!(
            out,
            "complete -c taipan -l {}{short}{value} -d '{}'",
            flag.long,
            flag.help.replace('\'', "\\'")
        );
    }
    out
}

fn spelled(flag: &FlagRow) -> String {
    let short = flag.short.map_or(String::new(), |c| format!("-{c}, "));
    let value = flag.value.map_or(String::new(), |v| format!(" {v}"));
    format!("{short}--{}{value}", flag.long)
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            let space = if lines[last].is_empty() { "" } else { " " };
            _ = write!(lines[last], "{space}{word}");
        }
    }
    lines
}

fn roff(text: &str) -> String {
    text.replace('\\', "\\\\").replace('-', "\\-")
}

fn text(value: OsString) -> Result<String, UsageError> {
    value.into_string().map_err(|v| UsageError(format!("{} is not UTF-8", v.to_string_lossy())))
}

/// A path of a URL in the form in which stored responses have it: normalized, and with what is not ASCII encoded.
fn url_path(given: &str) -> Result<String, UsageError> {
    let mut path = String::new();
    for c in given.chars() {
        match c {
            '!'..='~' => path.push(c),
            ' ' => path.push_str("%20"),
            _ => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| _ = write!(path, "%{byte:02X}")),
        }
    }
    if !path.starts_with('/') {
        return Err(UsageError(format!(
            "\"{}\" is not a path: it does not begin with a slash",
            given.escape_debug()
        )));
    }
    let (name, query) = path.split_once('?').map_or((&*path, None), |(name, query)| (name, Some(query)));
    let name = taipan_http::target::normalized(name);
    Ok(query.map_or_else(|| name.clone().into_owned(), |query| format!("{name}?{query}")))
}

/// The name of a host, without a port.
fn ip_address(value: OsString) -> Result<IpAddr, UsageError> {
    let address = text(value)?;
    let wrong = |_| UsageError(format!("\"{}\" is not an IP address", address.escape_debug()));
    address.parse().map_err(wrong)
}

/// An address, perhaps with a port.
fn server_address(value: OsString) -> Result<HostAddress, UsageError> {
    let address = text(value)?;
    let wrong = || UsageError(format!("\"{}\" is not the address of a server", address.escape_debug()));
    HostAddress::parse(&address).ok_or_else(wrong)
}

fn host_name(value: OsString) -> Result<String, UsageError> {
    let name = text(value)?;
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= 253
        && name.chars().all(is_of_name)
    {
        true => Ok(name),
        false => {
            Err(UsageError(format!("--tls takes the name of a host, such as example.org, not \"{name}\"")))
        }
    }
}

fn number(value: OsString, flag: &str, among: RangeInclusive<usize>) -> Result<usize, UsageError> {
    let value = text(value)?;
    value.parse().ok().filter(|n| among.contains(n)).ok_or_else(|| {
        let (least, most) = (among.start(), among.end());
        UsageError(format!("{flag} takes a number from {least} to {most}, not \"{value}\""))
    })
}

fn unknown(flag: &str) -> UsageError {
    if let Some((_, what_to_do)) = FOREIGN_FLAGS.iter().find(|(names, _)| names.contains(&flag)) {
        return UsageError(format!("unknown flag {flag}; {what_to_do}"));
    }
    let written = flag.trim_start_matches('-');
    let near = |name: &str| strsim::damerau_levenshtein(name, written);
    match FLAGS.iter().map(|f| f.long).min_by_key(|name| near(name)) {
        Some(name) if near(name) <= written.len() / 3 => {
            UsageError(format!("unknown flag {flag}; did you mean --{name}?"))
        }
        _ => UsageError(format!("unknown flag {flag}; see taipan --help")),
    }
}

fn usage(error: lexopt::Error) -> UsageError {
    UsageError(format!("{error}; see taipan --help"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, UsageError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn serve(source: SiteSource) -> Serve {
        Serve {
            source,
            listen: Vec::new(),
            workers: None,
            access_log: None,
            user: None,
            tls: Vec::new(),
            presence: Presence::Foreground,
        }
    }

    /// For the user `ann`.
    fn passwd(task: PasswdTask, password: PasswordFrom, kind: PasswdKind) -> Command {
        Command::Passwd(Passwd { user: "ann".into(), task, password, kind })
    }

    fn argon2() -> PasswdKind {
        PasswdKind::Hash(NewHash::Argon2id)
    }

    #[test]
    fn parses_commands() {
        let folder = |dir: &str| SiteSource::Folder(dir.into());
        let table = [
            ("", Command::Serve(serve(folder(".")))),
            ("/srv", Command::Serve(serve(folder("/srv")))),
            ("./check", Command::Serve(serve(folder("./check")))),
            ("-c a.toml", Command::Serve(serve(SiteSource::Config("a.toml".into())))),
            (
                "x -l :1 --listen=[::1]:2 -w 3 --access-log off -u web",
                Command::Serve(Serve {
                    source: folder("x"),
                    listen: vec![":1".into(), "[::1]:2".into()],
                    workers: Some(3),
                    access_log: Some("off".into()),
                    user: Some("web".into()),
                    tls: Vec::new(),
                    presence: Presence::Foreground,
                }),
            ),
            ("check -c a.toml", Command::Check { source: SiteSource::Config("a.toml".into()) }),
            (
                "--tls a.example --tls b.example x",
                Command::Serve(Serve {
                    tls: vec!["a.example".into(), "b.example".into()],
                    ..serve(folder("x"))
                }),
            ),
            ("certificates -c a.toml", Command::Certificates { config: "a.toml".into() }),
            ("-c a.toml check", Command::Check { source: SiteSource::Config("a.toml".into()) }),
            (
                "reload -c a.toml",
                Command::Control { source: SiteSource::Config("a.toml".into()), request: Request::Reload },
            ),
            ("upgrade --root /srv", Command::Control { source: folder("/srv"), request: Request::Upgrade }),
            (
                "disconnect 1A2B -c a.toml",
                Command::Control {
                    source: SiteSource::Config("a.toml".into()),
                    request: Request::Disconnect("connection 1a2b".parse().expect("it is one")),
                },
            ),
            (
                "disconnect --client 10.0.0.0/8 -c a.toml",
                Command::Control {
                    source: SiteSource::Config("a.toml".into()),
                    request: Request::Disconnect("client 10.0.0.0/8".parse().expect("it is one")),
                },
            ),
            (
                "drain app 10.0.0.1:80 -c a.toml",
                Command::Control {
                    source: SiteSource::Config("a.toml".into()),
                    request: Request::Drain(Drain {
                        application: "app".into(),
                        endpoint: "10.0.0.1:80".into(),
                        change: DrainChange::Drain,
                    }),
                },
            ),
            ("stats", Command::Control { source: folder("."), request: Request::Stats(Form::Text) }),
            ("top", Command::Top { source: folder("."), mode: TopMode::Live }),
            (
                "top --once -c a.toml",
                Command::Top { source: SiteSource::Config("a.toml".into()), mode: TopMode::Once },
            ),
            (
                "purge /a%20b.html --root /srv",
                Command::Control {
                    source: folder("/srv"),
                    request: Request::Purge(Purge { host: None, what: What::Path("/a%20b.html".into()) }),
                },
            ),
            (
                "purge -c a.toml --host A.example --prefix /x/./y",
                Command::Control {
                    source: SiteSource::Config("a.toml".into()),
                    request: Request::Purge(Purge {
                        host: Some("a.example".into()),
                        what: What::Prefix("/x/y".into()),
                    }),
                },
            ),
            (
                "purge --tag news",
                Command::Control {
                    source: folder("."),
                    request: Request::Purge(Purge { host: None, what: What::Tag("news".into()) }),
                },
            ),
            ("purge --all", Command::Control { source: folder("."), request: Request::Purge(Purge::all()) }),
            ("stats --json", Command::Control { source: folder("."), request: Request::Stats(Form::Json) }),
            (
                "explain GET /x -H Range:bytes=0-1 --from 2001:db8::1 --to 192.0.2.1:81 --root /srv",
                Command::Explain(Explain {
                    source: folder("/srv"),
                    method: "GET".into(),
                    url: "/x".into(),
                    fields: vec!["Range:bytes=0-1".into()],
                    from: IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]),
                    to: Some(HostAddress { ip: IpAddr::from([192, 0, 2, 1]), port: Some(81) }),
                }),
            ),
            (
                "healthcheck http://a/ --timeout 2",
                Command::Healthcheck { url: "http://a/".into(), timeout: Duration::from_secs(2) },
            ),
            (
                "fcgi-wrap -s a.sock --folder /x --folder=y",
                Command::Wrap(Wrap {
                    socket: Some("a.sock".into()),
                    processes: 16,
                    scripts: Scripts::Beneath(vec!["/x".into(), "y".into()]),
                }),
            ),
            (
                "fcgi-wrap --processes 3 cat -s --help",
                Command::Wrap(Wrap {
                    socket: None,
                    processes: 3,
                    scripts: Scripts::Program("cat".into(), vec!["-s".into(), "--help".into()]),
                }),
            ),
            ("passwd users ann", passwd(PasswdTask::Set("users".into()), PasswordFrom::Terminal, argon2())),
            (
                "passwd -ci users ann",
                passwd(PasswdTask::Create("users".into()), PasswordFrom::Stdin, argon2()),
            ),
            (
                "passwd -nbB -C 12 ann secret",
                passwd(
                    PasswdTask::Print,
                    PasswordFrom::Argument("secret".into()),
                    PasswdKind::Hash(NewHash::Bcrypt { cost: 12 }),
                ),
            ),
            (
                "passwd -D users ann",
                passwd(PasswdTask::Delete("users".into()), PasswordFrom::Terminal, argon2()),
            ),
            (
                "passwd -5 -r 2000 -v users ann",
                passwd(
                    PasswdTask::Verify("users".into()),
                    PasswordFrom::Terminal,
                    PasswdKind::Hash(NewHash::Sha512Crypt { rounds: 2000 }),
                ),
            ),
            (
                "passwd users -s ann",
                passwd(
                    PasswdTask::Set("users".into()),
                    PasswordFrom::Terminal,
                    PasswdKind::Hash(NewHash::Sha1),
                ),
            ),
            (
                "passwd --digest My_files users ann",
                passwd(
                    PasswdTask::Set("users".into()),
                    PasswordFrom::Terminal,
                    PasswdKind::Digest("My_files".into(), &[Algorithm::Sha256]),
                ),
            ),
            (
                "passwd -m --digest r users ann",
                passwd(
                    PasswdTask::Set("users".into()),
                    PasswordFrom::Terminal,
                    PasswdKind::Digest("r".into(), &Algorithm::ALL),
                ),
            ),
            ("generate fish", Command::Generate(Document::Fish)),
            ("--help", Command::Help),
            ("help", Command::Help),
            ("help check", Command::Help),
            ("version", Command::Version),
            ("./help", Command::Serve(serve(folder("./help")))),
            // The parser does not check that the folder exists.
            ("chek", Command::Serve(serve(folder("chek")))),
            ("check -V", Command::Version),
        ];
        for (line, expected) in table {
            assert_eq!(parsed(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn errors_say_what_to_do() {
        let table = [
            ("--lisen :1", "did you mean --listen?"),
            ("--zzzzzzzz", "see taipan --help"),
            ("a b", "only one folder"),
            ("a -c b", "not both"),
            ("check", "taipan check -c FILE"),
            ("check -c a b", "takes no argument"),
            ("explain GET", "a method and a URL"),
            ("explain GET / --from localhost", "not an IP address"),
            ("explain GET / --to localhost:80", "not the address of a server"),
            ("explain GET / --to 0.0.0.0", "not the address of a server"),
            ("purge", "purge takes one of a path"),
            ("purge /a /b", "purge takes one of a path"),
            ("purge /a --all", "purge takes one of a path"),
            ("purge a", "does not begin with a slash"),
            ("--all", "--all is not a flag of taipan without a command"),
            ("healthcheck", "one URL"),
            ("generate tcsh", "man, bash, zsh and fish"),
            ("--workers many", "takes a number"),
            ("check -c a --listen :1", "--listen is not a flag of taipan check"),
            ("check -c a -l :1", "-l is not a flag of taipan check"),
            ("-s reload", "-s is not a flag of taipan without a command"),
            ("-w many", "-w takes a number from 1 to 1024"),
            ("--port 80", "unknown flag --port; write --listen 127.0.0.1:PORT"),
            ("-p 80", "unknown flag -p; write --listen 127.0.0.1:PORT"),
            ("--tls", "missing argument"),
            ("--tls https://a/", "takes the name of a host, such as example.org"),
            ("--tls *.example.org", "takes the name of a host"),
            ("--tls a.example -c a.toml", "--tls is for a folder; in a configuration, write acme = true"),
            ("--ssl", "write --tls NAME"),
            ("certificates", "taipan certificates -c FILE"),
            ("-v", "write -V or --version"),
            ("chek -c a.toml", "there is no command chek; did you mean taipan check?"),
            ("explian GET /x", "there is no command explian; did you mean taipan explain?"),
            ("stat --json", "there is no command stat; did you mean taipan stats?"),
            ("test -c a.toml", "there is no command test; write taipan check -c FILE"),
            ("serve /srv", "there is no command serve; write taipan DIR"),
            ("version 2", "version takes no argument"),
            ("fcgi-wrap", "taipan fcgi-wrap --folder DIR"),
            ("fcgi-wrap --folder /x cat", "not both"),
            ("fcgi-wrap --processes 0 cat", "takes a number"),
            ("fcgi-wrap -w 1 cat", "-w is not a flag of taipan fcgi-wrap"),
            ("--folder x", "--folder is not a flag of taipan without a command"),
            ("-c", "taipan --help"),
            ("passwd", "passwd needs a file"),
            ("passwd users", "passwd needs a user"),
            ("passwd -n", "passwd needs a user"),
            ("passwd users ann secret", "a password is the last argument with -b only"),
            ("passwd -b users ann", "passwd needs a password"),
            ("passwd -cD users ann", "give one of -c, -D, -n and -v"),
            ("passwd -bi users ann x", "give -i or -b, not both"),
            ("passwd -Bs users ann", "give one kind of hash"),
            ("passwd -C 5 users ann", "-C is for bcrypt; add -B"),
            ("passwd -B -C 15 users ann", "from 4 to 14"),
            ("passwd -B -r 2000 users ann", "-r is for SHA-crypt"),
            ("passwd -5 -r 999 users ann", "from 1000 to 700000"),
            ("passwd -B --digest r users ann", "only -m says which hash"),
            ("passwd -d users ann", "unknown flag -d; DES is too weak"),
            ("passwd -w 1 users ann", "-w is not a flag of taipan passwd"),
            ("htpasswd users ann", "write taipan passwd FILE USER"),
            ("-B", "-B is not a flag of taipan without a command"),
        ];
        for (line, expected) in table {
            let UsageError(text) = parsed(line).unwrap_err();
            assert!(text.contains(expected), "{line}: {text}");
            assert!(!text.contains('\n'), "{line}: {text}");
        }
    }

    #[test]
    fn every_flag_is_in_every_document() {
        for flag in FLAGS {
            let long = format!("--{}", flag.long);
            assert!(help().contains(&long));
            assert!(man().contains(&roff(&long)));
            for shell in [bash(), zsh()] {
                assert!(shell.contains(&long));
            }
            assert!(fish().contains(&format!("-l {}", flag.long)));
            assert!(flag.help.ends_with(')') && flag.help.contains("(default: "), "{long}");
        }
    }
}
