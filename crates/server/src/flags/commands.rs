//! The table of commands: every command, once.

use self::CommandKey::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandKey {
    /// The default command, without a name.
    Serve,
    Check,
    Certificates,
    Convert,
    Reload,
    Upgrade,
    Stats,
    Top,
    Metrics,
    Purge,
    Drain,
    Undrain,
    Maintenance,
    LogLevel,
    Disconnect,
    Reopen,
    Watch,
    Explain,
    Healthcheck,
    Wrap,
    Passwd,
    Report,
    Resolve,
    Generate,
    Help,
    Version,
}

impl CommandKey {
    pub(super) fn name(self) -> &'static str {
        COMMANDS.iter().find(|row| row.key == self).map_or("", |row| row.name)
    }
}

pub(super) struct CommandRow {
    pub(super) key: CommandKey,
    /// Empty: the default command.
    pub(super) name: &'static str,
    pub(super) arguments: &'static str,
    pub(super) help: &'static str,
}

pub(super) const COMMANDS: &[CommandRow] = &[
    CommandRow {
        key: Serve,
        name: "",
        arguments: "[DIR]",
        help: "Serve the files in DIR, with listings (default: the current folder)",
    },
    CommandRow {
        key: Check,
        name: "check",
        arguments: "-c FILE",
        help: "Check a configuration, and show what its limits cost",
    },
    CommandRow {
        key: Certificates,
        name: "certificates",
        arguments: "-c FILE",
        help: "List the certificates of all hosts, with their dates, next renewal and last error",
    },
    CommandRow {
        key: Convert,
        name: "convert",
        arguments: "FILE [--from NAME]",
        help: "Print the configuration of another server as one of this program",
    },
    CommandRow {
        key: Reload,
        name: "reload",
        arguments: "-c FILE",
        help: "Have the running program read FILE again; exit with 1 if FILE has a mistake",
    },
    CommandRow {
        key: Upgrade,
        name: "upgrade",
        arguments: "-c FILE",
        help: "Replace the running program by the installed one, without losing a connection",
    },
    CommandRow {
        key: Stats,
        name: "stats",
        arguments: "-c FILE",
        help: "Print the counters of the running program",
    },
    CommandRow {
        key: Top,
        name: "top",
        arguments: "-c FILE",
        help: "Show what the running program does, live in the terminal",
    },
    CommandRow {
        key: Metrics,
        name: "metrics",
        arguments: "-c FILE",
        help: "Print the metrics of the running program, as OpenMetrics",
    },
    CommandRow {
        key: Purge,
        name: "purge",
        arguments: "PATH -c FILE",
        help: "Remove PATH from the cache of responses, or more by --prefix, --tag or --all",
    },
    CommandRow {
        key: Drain,
        name: "drain",
        arguments: "NAME ADDRESS -c FILE",
        help: "Send no more requests to an address of the application NAME",
    },
    CommandRow {
        key: Undrain,
        name: "undrain",
        arguments: "NAME ADDRESS -c FILE",
        help: "Send requests to it again",
    },
    CommandRow {
        key: Maintenance,
        name: "maintenance",
        arguments: "HOST -c FILE",
        help: "Answer requests for HOST with 503, until maintenance HOST --off",
    },
    CommandRow {
        key: LogLevel,
        name: "log-level",
        arguments: "LEVEL -c FILE",
        help: "Have another level of the error log for ten minutes: error, warn, info or debug",
    },
    CommandRow {
        key: Disconnect,
        name: "disconnect",
        arguments: "ID -c FILE",
        help: "End a connection by its ID of taipan top, or all of a client by --client NETWORK",
    },
    CommandRow {
        key: Reopen,
        name: "reopen",
        arguments: "-c FILE",
        help: "Open the files of the logs again",
    },
    CommandRow {
        key: Watch,
        name: "watch",
        arguments: "-c FILE",
        help: "Show requests as they arrive, hop by hop, with their heads",
    },
    CommandRow {
        key: Explain,
        name: "explain",
        arguments: "METHOD URL",
        help: "Show, step by step, how the server would respond to a request, without a socket",
    },
    CommandRow {
        key: Healthcheck,
        name: "healthcheck",
        arguments: "URL",
        help: "Request URL once; exit with 0 if the response is 2xx or 3xx",
    },
    CommandRow {
        key: Wrap,
        name: "fcgi-wrap",
        arguments: "[PROGRAM [ARG]...]",
        help: "Run CGI scripts, or PROGRAM, for a server that speaks FastCGI",
    },
    CommandRow {
        key: Passwd,
        name: "passwd",
        arguments: "[-ci] FILE USER",
        help: "Set the password of USER in a password file, with the flags of Apache's htpasswd",
    },
    CommandRow {
        key: Report,
        name: "report",
        arguments: "[FILE]...",
        help: "Print what access logs say: visits, pages, statuses, referers, slowest",
    },
    CommandRow {
        key: Resolve,
        name: "resolve",
        arguments: "[FILE]...",
        help: "Print access logs with names in place of the addresses of clients",
    },
    CommandRow {
        key: Generate,
        name: "generate",
        arguments: "man|bash|zsh|fish",
        help: "Print the manual page, or the completions for a shell",
    },
    CommandRow {
        key: Help,
        name: "help",
        arguments: "[COMMAND]",
        help: "Print this help, or that of a command",
    },
    CommandRow { key: Version, name: "version", arguments: "", help: "Print the version" },
];

/// Commands of other programs, and what to write instead.
pub(super) const FOREIGN_COMMANDS: &[(&[&str], &str)] = &[
    (&["serve", "run", "start"], "write taipan DIR, or taipan -c FILE"),
    (&["stop", "quit", "shutdown"], "send SIGTERM to the program, or stop its service"),
    (&["restart"], "write taipan reload -c FILE, or taipan upgrade -c FILE"),
    (&["test", "configtest", "validate"], "write taipan check -c FILE"),
    (&["file-server"], "write taipan DIR"),
    (&["htpasswd", "htdigest", "password"], "write taipan passwd FILE USER"),
];
