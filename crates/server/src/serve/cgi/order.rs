//! What is to be started for a request: the program, its arguments and its environment, as plain data.
//! Starts nothing.

use std::ffi::{CStr, CString};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use http::fields::host_and_port;
use http::framing::Framing;
use http::head::Head;
use http::status::Status;
use script::arguments::arguments;
use script::environment::{Asked, Limits, Scheme, environment};
use site::model::{QueryArguments, Script};
use site::route::RouteId;
use site::walk::{self, Step};

use crate::conn::Peer;
use crate::log;
use crate::runner::Launch;
use crate::worker::Worker;

/// As RFC 3875 §4.1.17 wants it.
const SOFTWARE: &str = concat!("taipan/", env!("CARGO_PKG_VERSION"));
/// Of a request that came over a Unix socket and named none.
const PORT: u16 = 80;

/// A script that a request has led to, and that is there.
pub struct Run {
    pub host: usize,
    pub step: Step,
    /// Bytes of the request's body; more is 413.
    pub max_body: u64,
}

/// Both ends of the connection that a request came by.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    pub peer: Peer,
    pub local: Option<SocketAddr>,
}

/// A program to be started, and who has asked for it.
pub struct Order {
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<u8>,
    folder: CString,
    /// `192.0.2.7 "GET /cgi-bin/a.cgi"`, for the error log.
    pub who: String,
}

impl Run {
    /// Whose turn it has to be.
    pub fn route(&self) -> (usize, RouteId) {
        (self.host, self.step.route)
    }

    /// Scripts of the route that may run at one time, over all workers.
    pub fn processes(&self, worker: &Worker) -> usize {
        let host = worker.site.hosts.at(self.host);
        walk::script(host, &self.step).map_or(1, |(_, script)| script.processes)
    }

    /// What is to be started for `head`, whose body has `body` bytes. Errors: the status of the answer to
    /// a request that cannot be told to a script.
    pub fn order(
        &self,
        worker: &Worker,
        head: &Head<'_>,
        ends: Ends,
        body: Option<u64>,
    ) -> Result<Order, Status> {
        let host = worker.site.hosts.at(self.host);
        let (_, script) = walk::script(host, &self.step).ok_or(Status::NOT_FOUND)?;
        let file = self.step.file();
        let (who, path) = (who(head, ends.peer), head.target.path().unwrap_or("/"));
        let authority = std::str::from_utf8(head.authority).unwrap_or_default();
        let (name, port) = host_and_port(authority);
        let own_name =
            host.names.iter().find(|name| !name.starts_with('*')).map_or("localhost", String::as_str);
        let server_port = ends.local.map(|end| end.port()).or(port).unwrap_or(PORT);
        let translated = walk::translated(host, &self.step.path_info).unwrap_or_default();
        let asked = Asked {
            method: head.token,
            protocol: head.version.as_str(),
            scheme: Scheme::Http,
            path,
            query: head.target.query(),
            host: authority,
            server_name: if name.is_empty() { own_name } else { name },
            server_port,
            software: SOFTWARE,
            server: ends.local,
            remote: match ends.peer {
                Peer::Ip(address) => Some(address),
                Peer::Unix => None,
            },
            remote_host: None,
            user: None,
            script_name: &format!("/{}", self.step.name.as_str()),
            path_info: &self.step.path_info,
            path_translated: translated.as_os_str().as_bytes(),
            script_filename: file.as_os_str().as_bytes(),
            document_root: walk::document_root(host, &self.step).as_os_str().as_bytes(),
            // An empty body is one, too.
            body: body.or((head.framing == Framing::Sized(0)).then_some(0)),
            fields: head.fields,
            credentials: script.credentials,
        };
        let made = environment(&asked, &script.environment, Limits::default());
        let environment = made.map_err(|error| {
            log::warn(format_args!("{who}: {error}"));
            error.status()
        })?;
        let query = match worker.site.scripts.query_arguments {
            QueryArguments::Passed => head.target.query(),
            QueryArguments::Withheld => None,
        };
        Order::new(&file, script, query, environment.block(), who).ok_or(Status::BAD_REQUEST)
    }
}

impl Order {
    /// `None`: with a NUL in a path, which no file has.
    fn new(
        file: &Path,
        script: &Script,
        query: Option<&str>,
        environment: &[u8],
        who: String,
    ) -> Option<Order> {
        let path = c_string(file)?;
        let folder = c_string(file.parent()?)?;
        let (program, arguments) = match &script.interpreter {
            Some(interpreter) => {
                let program = c_string(interpreter)?;
                (program.clone(), vec![program, path])
            }
            None => {
                let words = query.and_then(arguments).unwrap_or_default();
                let words = words.into_iter().filter_map(|word| CString::new(word).ok());
                (path.clone(), [path].into_iter().chain(words).collect())
            }
        };
        Some(Order { program, arguments, environment: environment.to_vec(), folder, who })
    }

    pub fn launch<'a>(&'a self, arguments: &'a [&'a CStr]) -> Launch<'a> {
        let Order { program, environment, folder, .. } = self;
        Launch { program, arguments, environment, folder }
    }

    pub fn arguments(&self) -> Vec<&CStr> {
        self.arguments.iter().map(CString::as_c_str).collect()
    }
}

/// Whom a line of the error log is about.
pub fn who(head: &Head<'_>, peer: Peer) -> String {
    let path = head.target.path().unwrap_or("*");
    match peer.ip() {
        Some(ip) => format!("{ip} \"{} {path}\"", head.token),
        None => format!("unix \"{} {path}\"", head.token),
    }
}

fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}
