//! Upstreams: programs that respond to one request after the other, by FastCGI, SCGI or HTTP. The configuration and
//! the messages call them applications. Plain data, as all of the site.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use script::environment::Additions;

use crate::address::Address;
use crate::balance::{Balance, Hedging};
use crate::endpoint::{EndpointAddress, UNNAMED};
use crate::health::{Breaker, Health};
use crate::model::{Account, NewPrivileges};

/// An application, or another server, that responds to requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    pub name: String,
    pub protocol: Protocol,
    pub endpoints: Endpoints,
    /// `None`: bytes are sent as they are.
    pub tls: Option<Box<UpstreamTls>>,
    /// Whether HTTP/2 is spoken: on plain connections always, and with TLS where the endpoint agrees.
    pub http2: bool,
    pub balance: Balance,
    /// Of each address, at least 1. Empty: they have the same.
    pub weights: Vec<u16>,
    pub health: Health,
    /// `None`: it has requests whether they fail or not.
    pub breaker: Option<Breaker>,
    /// Whether the server is ready only with an endpoint of it.
    pub required: bool,
    /// Further endpoints that a request is sent to when one fails.
    pub retries: usize,
    /// `None`: a request waits for its endpoint alone.
    pub hedging: Option<Hedging>,
    /// Requests at the same time on one FastCGI connection, if the program supports it. At least 1.
    pub multiplex: u16,
    /// Requests that wait while every endpoint is at capacity, over all workers. Further ones get 503.
    pub queue: usize,
    /// How long such a request waits. Then it gets 503.
    pub wait: Duration,
    pub connect: Duration,
    /// From the end of the request to the end of the response head.
    pub first_byte: Duration,
    /// Without output, while the client receives all of it.
    pub idle: Duration,
    /// From the start of the request to the end of the response.
    pub total: Duration,
    /// How long an idle connection stays open. Zero: each request has its own connection.
    pub keep: Duration,
}

/// What an upstream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    FastCgi,
    Scgi,
    Http,
}

/// How connections to endpoints are encrypted. The files are read when the configuration is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// Certificates of the authorities. `None`: those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// The name that certificates are for. `None`: that of the address.
    pub name: Option<String>,
    /// The certificate of this server, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    pub verification: Verification,
}

/// Whether the certificate of an endpoint has to be valid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verification {
    #[default]
    Required,
    /// Every certificate is accepted.
    Off,
}

/// What the connections of an upstream lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoints {
    /// Started by another program.
    External(External),
    /// Started by the server.
    Managed(Box<Managed>),
}

/// Programs that run by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    pub addresses: Vec<EndpointAddress>,
    /// Connections to each address, over all workers.
    pub connections: usize,
}

/// Processes of one program, each with a listening socket of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Managed {
    /// The program, by an absolute path, and its arguments.
    pub command: Vec<String>,
    pub environment: Additions,
    /// `None`: the account of the server.
    pub account: Option<Account>,
    pub new_privileges: NewPrivileges,
    /// The working folder.
    pub folder: PathBuf,
    pub socket: SocketPassing,
    pub min_processes: usize,
    pub max_processes: usize,
    /// Idle processes in addition to busy ones, up to `max_processes`.
    pub spare_processes: usize,
    /// Connections that one process serves at the same time.
    pub concurrent: usize,
    /// After this time a process above `min_processes` ends.
    pub unused: Duration,
    /// After so many requests a process is replaced. `None`: never.
    pub requests: Option<u64>,
    /// Resident bytes (`proc_pid_statm(5)`) above which a process is replaced.
    pub memory: Option<u64>,
    /// How long a process may take to accept its first connection.
    pub start: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
}

/// How a process inherits its listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketPassing {
    /// As descriptor 0 (FastCGI 1.0, section 2.2).
    Stdin,
    /// As descriptor 3, with `LISTEN_FDS` and `LISTEN_PID` (`sd_listen_fds(3)`).
    ListenFds,
}

/// The index of an upstream in the site.
pub type UpstreamId = usize;

impl Upstream {
    /// An upstream with default settings.
    pub fn new(name: String, protocol: Protocol, endpoints: Endpoints) -> Upstream {
        Upstream {
            name,
            protocol,
            endpoints,
            tls: None,
            http2: false,
            balance: Balance::default(),
            weights: Vec::new(),
            health: Health::default(),
            breaker: None,
            required: true,
            retries: 1,
            hedging: None,
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

    /// Whether a route names its addresses, by `proxy`. Then they are its name, which no application can have.
    pub fn is_of_route(&self) -> bool {
        self.name.starts_with("http://") || self.name.starts_with("https://")
    }

    /// What decides which program responds: where its first endpoint is, or how its processes are started. Further
    /// addresses are for the same program. Times and limits change no response.
    pub fn mapping_text(&self) -> String {
        let Upstream { protocol, tls, .. } = self;
        let name = tls.as_ref().map(|tls| &tls.name);
        match &self.endpoints {
            Endpoints::External(External { addresses, .. }) => {
                let first = addresses.first().map(ToString::to_string);
                format!("{protocol:?} {name:?} {first:?}")
            }
            Endpoints::Managed(managed) => {
                let Managed { command, environment, account, folder, .. } = &**managed;
                format!("{protocol:?} {name:?} {command:?} {environment:?} {account:?} {folder:?}")
            }
        }
    }

    /// Host and port of a request that names none: those of its first address.
    pub fn authority(&self) -> String {
        self.addresses().first().map_or_else(|| UNNAMED.to_owned(), EndpointAddress::authority)
    }

    /// Of the URLs of its endpoints.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Whether its endpoints are checked by requests with TLS.
    pub fn checks_by_tls(&self) -> bool {
        self.tls.is_some() && self.health.checks.as_ref().is_some_and(|checks| checks.path.is_some())
    }

    pub fn tls_files(&self) -> impl Iterator<Item = &Path> {
        self.tls.iter().flat_map(|tls| {
            let certificate = tls.certificate.iter().flat_map(|(certificate, key)| [certificate, key]);
            tls.authorities.iter().chain(certificate).map(PathBuf::as_path)
        })
    }

    /// Whether it has endpoints whose names are resolved.
    pub fn has_names(&self) -> bool {
        match &self.endpoints {
            Endpoints::External(external) => external.addresses.iter().any(EndpointAddress::is_name),
            Endpoints::Managed(_) => false,
        }
    }

    /// Its name in front of what it does.
    pub fn label(&self) -> String {
        match self.is_of_route() {
            true => format!("upstream {}", self.name),
            false => format!("application \"{}\"", self.name),
        }
    }

    /// Its address with this index, for messages. `None`: it has only one address, which is no name, or the server
    /// starts its processes.
    pub fn endpoint_name(&self, index: usize) -> Option<String> {
        let Endpoints::External(External { addresses, .. }) = &self.endpoints else { return None };
        let address = addresses.get(index).filter(|_| addresses.len() > 1 || self.has_names())?;
        Some(match self.is_of_route() {
            true => format!("the upstream {}://{address}", self.scheme()),
            false => format!("{self} at {address}"),
        })
    }

    /// None, if the server starts its processes.
    pub fn addresses(&self) -> &[EndpointAddress] {
        match &self.endpoints {
            Endpoints::External(external) => &external.addresses,
            Endpoints::Managed(_) => &[],
        }
    }

    /// Of the address with this index.
    pub fn weight(&self, index: usize) -> u16 {
        self.weights.get(index).copied().unwrap_or(1)
    }

    pub fn managed(&self) -> Option<&Managed> {
        match &self.endpoints {
            Endpoints::Managed(managed) => Some(managed),
            Endpoints::External(_) => None,
        }
    }

    /// Connections at the same time, over all workers.
    pub fn connections(&self) -> usize {
        match &self.endpoints {
            Endpoints::External(External { addresses, connections }) => {
                addresses.len().saturating_mul(*connections)
            }
            Endpoints::Managed(managed) => managed.max_processes.saturating_mul(managed.concurrent),
        }
    }

    /// Requests on connections that several requests share, at the same time, over all workers.
    pub fn multiplexed_requests(&self) -> usize {
        match self.multiplex {
            ..=1 => 0,
            several => self.connections().saturating_mul(usize::from(several)),
        }
    }

    pub(crate) fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        match &mut self.endpoints {
            Endpoints::Managed(managed) => vec![&mut managed.folder],
            Endpoints::External(external) => {
                fn path(address: &mut EndpointAddress) -> Option<&mut PathBuf> {
                    match address {
                        EndpointAddress::Socket(Address::Unix(path)) => Some(path),
                        _ => None,
                    }
                }
                external.addresses.iter_mut().filter_map(path).collect()
            }
        }
    }

    /// The files of TLS, which are read before a chroot.
    pub(crate) fn tls_paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.tls.iter_mut().flat_map(|tls| {
            let UpstreamTls { authorities, certificate, .. } = &mut **tls;
            let certificate = certificate.iter_mut().flat_map(|(certificate, key)| [certificate, key]);
            authorities.iter_mut().chain(certificate)
        })
    }

    /// Changes its paths to those within the chroot `folder`.
    pub(crate) fn enter(&mut self, folder: &Path) {
        if let Endpoints::Managed(managed) = &mut self.endpoints
            && let Some(program) = managed.command.first_mut()
            && let Ok(inside) = Path::new(program.as_str()).strip_prefix(folder)
        {
            *program = Path::new("/").join(inside).display().to_string();
        }
    }
}

/// Its name in messages.
impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {}", self.label())
    }
}

impl Managed {
    pub fn new(command: Vec<String>, environment: Additions, folder: PathBuf) -> Managed {
        Managed {
            command,
            environment,
            account: None,
            new_privileges: NewPrivileges::None,
            folder,
            socket: SocketPassing::Stdin,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_section_names_is_called_an_application() {
        for (name, expected) in [
            ("app", "application \"app\""),
            ("http://127.0.0.1:3000", "upstream http://127.0.0.1:3000"),
            ("https://app.internal", "upstream https://app.internal"),
        ] {
            let external = External { addresses: Vec::new(), connections: 1 };
            let upstream = Upstream::new(name.to_owned(), Protocol::Http, Endpoints::External(external));
            assert_eq!(upstream.label(), expected);
            assert_eq!(upstream.to_string(), format!("the {expected}"));
        }
    }
}
