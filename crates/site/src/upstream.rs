//! Applications: programs that answer one request after the other, and how they are spoken to. Plain data,
//! as all of the site.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use script::environment::Additions;

use crate::address::Address;
use crate::model::Account;

/// Something that answers requests for as long as it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    pub name: String,
    pub protocol: Protocol,
    pub endpoints: Endpoints,
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
pub enum Endpoints {
    /// Started by others, at these addresses.
    External(External),
    /// Started here.
    Managed(Box<Managed>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    pub addresses: Vec<Address>,
    /// Connections to each of them, over all workers.
    pub connections: usize,
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
    pub min_processes: usize,
    pub max_processes: usize,
    /// Idle processes kept ahead of need, within `max_processes`.
    pub spare_processes: usize,
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
pub type UpstreamId = usize;

impl Upstream {
    /// With the default of every setting.
    pub fn new(name: String, protocol: Protocol, endpoints: Endpoints) -> Upstream {
        Upstream {
            name,
            protocol,
            endpoints,
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
        match &self.endpoints {
            Endpoints::Managed(managed) => Some(managed),
            Endpoints::External(_) => None,
        }
    }

    /// Connections at one time, over all workers.
    pub fn connections(&self) -> usize {
        match &self.endpoints {
            Endpoints::External(External { addresses, connections }) => {
                addresses.len().saturating_mul(*connections)
            }
            Endpoints::Managed(managed) => managed.max_processes.saturating_mul(managed.concurrent),
        }
    }

    /// Requests that share a connection with another, at one time, over all workers.
    pub fn multiplexed_requests(&self) -> usize {
        match self.multiplex {
            ..=1 => 0,
            several => self.connections().saturating_mul(usize::from(several)),
        }
    }

    pub(crate) fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        match &mut self.endpoints {
            Endpoints::Managed(managed) => vec![&mut managed.folder],
            Endpoints::External(elsewhere) => {
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
        if let Endpoints::Managed(managed) = &mut self.endpoints
            && let Some(program) = managed.command.first_mut()
            && let Ok(inside) = Path::new(program.as_str()).strip_prefix(folder)
        {
            *program = Path::new("/").join(inside).display().to_string();
        }
    }
}

/// As messages call it.
impl fmt::Display for Upstream {
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
            min_processes: 1,
            max_processes: 4,
            spare_processes: 0,
            concurrent: 1,
            unused: Duration::from_secs(60),
            requests: None,
            memory: None,
            start: Duration::from_secs(10),
            grace: Duration::from_secs(5),
        }
    }
}
