//! Applications: programs that answer one request after the other, and how they are spoken to. Plain data,
//! as all of the site.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use script::environment::Additions;

use crate::model::Account;

/// Something that answers requests for as long as it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    pub name: String,
    pub protocol: Protocol,
    pub servers: Servers,
    /// Requests at a time on one connection, where the application says that it can; with FastCGI. At
    /// least 1.
    pub multiplex: u16,
    /// Requests that wait until one of its servers has room, over all workers. More are 503.
    pub queue: usize,
    /// How long they wait: 503 then.
    pub wait: Duration,
    /// How long a connection may take to be made.
    pub connect: Duration,
    /// From the end of the request to the end of the head of its answer.
    pub first_byte: Duration,
    /// Without output, while the client takes all there is.
    pub idle: Duration,
    /// From the beginning of a request to the end of its answer.
    pub total: Duration,
    /// How long a connection between two requests is kept; zero: each request has its own.
    pub keep: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    FastCgi,
    Scgi,
    Http,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Servers {
    /// Started by others, at these addresses.
    Elsewhere(Elsewhere),
    /// Started here.
    Managed(Box<Managed>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    pub addresses: Vec<Address>,
    /// Connections to each of them, over all workers.
    pub connections: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Processes of one program, each with a listening socket of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Managed {
    /// The program, by an absolute path, and its arguments.
    pub command: Vec<String>,
    pub environment: Additions,
    /// `None`: that of the server.
    pub account: Option<Account>,
    /// Where it begins to work.
    pub folder: PathBuf,
    pub socket: Socket,
    /// At least, and at most so many run.
    pub processes: (usize, usize),
    /// That run beside those that are busy, as far as there may be.
    pub spare: usize,
    /// Requests that one process takes at a time.
    pub concurrent: usize,
    /// After which one that is not needed ends.
    pub unused: Duration,
    /// After which a process is replaced. `None`: never.
    pub requests: Option<u64>,
    /// Bytes in memory (`proc_pid_statm(5)`, resident) beyond which a process is replaced.
    pub memory: Option<u64>,
    /// How long a process may take until it accepts its first connection.
    pub start: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
}

/// How a process is handed its listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Socket {
    /// As descriptor 0, as FastCGI has it.
    Stdin,
    /// As descriptor 3, with `LISTEN_FDS` and `LISTEN_PID` (`sd_listen_fds(3)`).
    ListenFds,
}

/// Its place in the site.
pub type ApplicationId = usize;

impl Application {
    /// With the default of every setting.
    pub fn new(name: String, protocol: Protocol, servers: Servers) -> Application {
        Application {
            name,
            protocol,
            servers,
            multiplex: 1,
            queue: 256,
            wait: Duration::from_secs(10),
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(3600),
            keep: match protocol {
                // gunicorn closes a connection that has been idle for 2 s, uvicorn and Node after 5 s.
                Protocol::Http => Duration::from_secs(1),
                Protocol::FastCgi | Protocol::Scgi => Duration::from_secs(10),
            },
        }
    }

    pub fn managed(&self) -> Option<&Managed> {
        match &self.servers {
            Servers::Managed(managed) => Some(managed),
            Servers::Elsewhere(_) => None,
        }
    }

    /// Connections at one time, over all workers.
    pub fn connections(&self) -> usize {
        match &self.servers {
            Servers::Elsewhere(Elsewhere { addresses, connections }) => {
                addresses.len().saturating_mul(*connections)
            }
            Servers::Managed(managed) => managed.processes.1.saturating_mul(managed.concurrent),
        }
    }

    /// Requests that share a connection with another, at one time, over all workers.
    pub fn sharers(&self) -> usize {
        match self.multiplex {
            ..=1 => 0,
            several => self.connections().saturating_mul(usize::from(several)),
        }
    }

    pub(crate) fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        match &mut self.servers {
            Servers::Managed(managed) => vec![&mut managed.folder],
            Servers::Elsewhere(elsewhere) => {
                let path = |address| match address {
                    &mut Address::Tcp(_) => None,
                    Address::Unix(path) => Some(path),
                };
                elsewhere.addresses.iter_mut().filter_map(path).collect()
            }
        }
    }

    /// As it is called once `folder` is the top of all paths.
    pub(crate) fn enter(&mut self, folder: &Path) {
        if let Servers::Managed(managed) = &mut self.servers
            && let Some(program) = managed.command.first_mut()
            && let Ok(inside) = Path::new(program.as_str()).strip_prefix(folder)
        {
            *program = Path::new("/").join(inside).display().to_string();
        }
    }
}

/// As messages call it.
impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the application \"{}\"", self.name)
    }
}

impl Managed {
    pub fn new(command: Vec<String>, environment: Additions, folder: PathBuf) -> Managed {
        Managed {
            command,
            environment,
            account: None,
            folder,
            socket: Socket::Stdin,
            processes: (1, 4),
            spare: 0,
            concurrent: 1,
            unused: Duration::from_secs(60),
            requests: None,
            memory: None,
            start: Duration::from_secs(10),
            grace: Duration::from_secs(5),
        }
    }
}
