//! What is logged, where, and how.

use std::sync::Arc;

use crate::log_fields;
use crate::log_selection::LogSelection;
use crate::rotation::Rotation;
use crate::sink::Sink;
use crate::timezone::TimeZone;

/// The logs of a site.
#[derive(Debug, Clone)]
pub struct Log {
    pub access: Option<AccessLog>,
    pub error: Sink,
    pub level: Level,
    /// Blocks of lines that may wait for the writer. Further ones are dropped and counted.
    pub queue: usize,
    /// `None`: files grow until another program rotates them.
    pub rotation: Option<Rotation>,
    /// Which requests have a line in the access logs.
    pub selection: LogSelection,
    /// What scripts write to standard error. `None`: it is in the error log.
    pub scripts: Option<Sink>,
    pub errors: ErrorLines,
    pub clients: LoggedClients,
    /// How the error log names the host of a request with a status from 400 to 499. `None`: it has no such lines.
    pub client_errors: Option<LoggedHost>,
    /// Whether the error log says when a script was started, and when it has ended.
    pub script_starts: bool,
}

/// What stands in front of the client, in a line as Boa writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedHost {
    Nothing,
    /// The name of the host.
    Name,
    /// The local address.
    Address,
}

/// How lines of the error log are written, and the time in lines that have that of a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorLines {
    pub format: ErrorFormat,
    /// `None`: UTC.
    pub zone: Option<Arc<TimeZone>>,
}

/// How a line of the error log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ErrorFormat {
    #[default]
    Taipan,
    /// As Boa: the time as in its access log, and no level.
    Boa,
}

/// What a line of an access log says that the client is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LoggedClients {
    /// The address, or the name that belongs to it.
    #[default]
    Addresses,
    /// The field `X-Forwarded-For`, which any client can send.
    ForwardedFor,
}

/// Where the lines of requests go, and how they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    pub sink: Sink,
    pub format: LogFormat,
}

/// How a line of an access log is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    Common,
    Combined,
    /// As Boa: no field beyond those of the Combined Log Format.
    Boa,
    /// As Boa with hosts: the name of the host comes first.
    BoaHost,
    /// As Boa with a host for each address: the local address comes first.
    BoaAddress,
    /// As thttpd: an absent field is empty.
    Thttpd,
    /// As thttpd with hosts: the name of the host begins the target.
    ThttpdHost,
    Json,
    Fields(log_fields::Format),
}

/// How serious a message is. A log has the messages of its level and of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    pub const NAMES: [(&str, Level); 4] =
        [("error", Level::Error), ("warn", Level::Warn), ("info", Level::Info), ("debug", Level::Debug)];

    pub fn from_name(name: &str) -> Option<Level> {
        Level::NAMES.iter().find(|(own, _)| *own == name).map(|(_, level)| *level)
    }

    pub fn name(self) -> &'static str {
        Level::NAMES.iter().find(|(_, level)| *level == self).map_or("", |(name, _)| name)
    }
}

/// Stands for the name of a host in the path of an access log.
const HOST: &str = "$host";

impl AccessLog {
    /// Whether each host has a file of its own.
    pub fn is_by_host(&self) -> bool {
        matches!(&self.sink, Sink::File(path) if path.to_string_lossy().contains(HOST))
    }

    /// The file of the host with these names: by its first name, or `default`. Only names of the configuration are
    /// used, never what a client sends.
    pub fn of_host(&self, names: &[String]) -> AccessLog {
        let name = names.first().map_or("default", String::as_str);
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
        let name: String = name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
        let sink = match &self.sink {
            Sink::File(path) => Sink::File(path.to_string_lossy().replace(HOST, &name).into()),
            other => other.clone(),
        };
        AccessLog { sink, format: self.format.clone() }
    }
}

impl Log {
    /// Whether the logger writes there: a process that rotates files, starts commands and connects.
    pub fn has_logger(&self, sink: &Sink) -> bool {
        match sink {
            Sink::File(_) => self.rotation.is_some(),
            Sink::Command(_) | Sink::Tcp(_) | Sink::Collector(_) => true,
            Sink::Stdout | Sink::Stderr | Sink::Syslog => false,
        }
    }
}

impl Default for Log {
    fn default() -> Log {
        Log {
            access: None,
            error: Sink::Stderr,
            level: Level::Warn,
            queue: 256,
            rotation: None,
            selection: LogSelection::default(),
            scripts: None,
            errors: ErrorLines::default(),
            clients: LoggedClients::default(),
            client_errors: None,
            script_starts: false,
        }
    }
}
