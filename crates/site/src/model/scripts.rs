//! How scripts run.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The folder for bodies of unknown length, without the key `spool`.
pub const DEFAULT_SPOOL: &str = "/var/tmp";

/// An account of the system. User and group are names or numbers. `None`: the first group of the user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Account {
    pub user: String,
    pub group: Option<String>,
}

/// `user`, or `user:group`.
impl fmt::Display for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.user)?;
        self.group.iter().try_for_each(|group| write!(out, ":{group}"))
    }
}

/// Settings of all scripts.
#[derive(Debug, Clone)]
pub struct Scripts {
    /// Scripts that run at the same time, over all workers.
    pub processes: usize,
    /// Requests that wait until a script may run, over all workers. Further ones get 503.
    pub queue: usize,
    /// How long such a request waits. Then it gets 503.
    pub wait: Duration,
    /// From the start to the end of the head.
    pub first_byte: Duration,
    /// Without output, while the client receives all of it.
    pub idle: Duration,
    /// From the start to the end.
    pub total: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    pub resources: Resources,
    /// `None`: scripts have no control groups of their own.
    pub cgroups: Option<ControlGroups>,
    /// The account of scripts whose route names none. `None`: the server's.
    pub account: Option<Account>,
    /// The folder that stores request bodies of unknown length, in files without names.
    pub spool: PathBuf,
    /// Bytes of all stored bodies together.
    pub spool_bytes: u64,
    /// Whether the words of a query without `=` become arguments (RFC 3875 §4.4).
    pub query_arguments: QueryArguments,
    /// Of scripts, and of applications that speak FastCGI or SCGI.
    pub local_redirects: LocalRedirects,
    pub background_jobs: BackgroundJobs,
    pub killed_output: KilledOutput,
    pub new_privileges: NewPrivileges,
    /// Lines per second of a script's standard error that are logged.
    pub stderr_lines: u32,
    /// Bytes of such a line.
    pub stderr_line: usize,
    /// Folders whose files a script may name in `X-Sendfile` and `X-Accel-Redirect`.
    pub sendfile: Vec<PathBuf>,
}

/// Limits of one process of a script. `None`: the server's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Bytes of address space (RLIMIT_AS).
    pub memory: Option<u64>,
    /// Seconds (RLIMIT_CPU).
    pub cpu: Option<u64>,
    /// Descriptors (RLIMIT_NOFILE).
    pub files: Option<u64>,
    /// Processes and threads of the user, also the server's own (RLIMIT_NPROC).
    pub tasks: Option<u64>,
    /// The file mode creation mask. `None`: the server's.
    pub umask: Option<u32>,
    /// Added to the nice value of the server.
    pub nice: u8,
}

/// A control group for each running script (cgroups(7), version 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroups {
    /// A folder that is delegated to the server. `None`: the server's own group.
    pub folder: Option<PathBuf>,
    /// Bytes of all processes of a script (memory.max).
    pub memory: Option<u64>,
    /// Processes and threads of a script (pids.max).
    pub tasks: Option<u64>,
}

/// Whether scripts get an indexed query as arguments (RFC 3875 §4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryArguments {
    Passed,
    Withheld,
}

/// What becomes of a response that has nothing but a `Location` with a path (RFC 3875 §6.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalRedirects {
    /// The server responds with what is at the path.
    Followed,
    /// The client is redirected.
    Sent,
}

/// What becomes of processes that a script leaves behind when it exits by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundJobs {
    /// They end with the response.
    Ended,
    Kept,
}

/// What the output of a script is that a signal has ended, where nothing says how long it was to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KilledOutput {
    Incomplete,
    /// The script may have crashed at its end, behind all its output.
    Whole,
}

/// The privileges that a program gains when a process executes it (execve(2), capabilities(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewPrivileges {
    /// None by its file, and no capability as root.
    None,
    /// Those of its file (set-user-ID, set-group-ID, capabilities), and all capabilities as root.
    AsUsual,
}

impl Default for Scripts {
    fn default() -> Scripts {
        Scripts {
            processes: 64,
            queue: 256,
            wait: Duration::from_secs(10),
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(3600),
            grace: Duration::from_secs(5),
            resources: Resources::default(),
            cgroups: None,
            account: None,
            spool: DEFAULT_SPOOL.into(),
            spool_bytes: 256 * 1024 * 1024,
            query_arguments: QueryArguments::Withheld,
            local_redirects: LocalRedirects::Followed,
            background_jobs: BackgroundJobs::Ended,
            killed_output: KilledOutput::Incomplete,
            new_privileges: NewPrivileges::None,
            stderr_lines: 10,
            stderr_line: 1024,
            sendfile: Vec::new(),
        }
    }
}

impl Default for Resources {
    fn default() -> Resources {
        Resources {
            // Go, Java and Node reserve far more address space than they use.
            memory: None,
            // Timeouts end scripts that run too long.
            cpu: None,
            // The server may have raised its own limit. Programs that close all descriptors, or use select(2), need a
            // small one.
            files: Some(1024),
            // The kernel counts all processes of the user, not only those of scripts.
            tasks: None,
            umask: None,
            nice: 0,
        }
    }
}
