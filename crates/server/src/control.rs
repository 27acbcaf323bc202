//! The control socket: `taipan reload`, `taipan stats`, `taipan top`, `taipan purge`, `taipan watch` and others send
//! their requests to a running program through it. Its name is a hash of the path of the configuration, or of the
//! folder, that is served. It is an abstract socket (unix(7)), so that no file is left behind. Both ends accept only a
//! peer that is root or the user that runs the program.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cache::store::purge::{self, Purge};
use dialects::Input;
use rustix::net::sockopt::socket_peercred;
use site::disconnect::Selection;
use site::model::Level;
use site::watch::{self, Filter};

use crate::process::ipc::{Form, Syntax};
use crate::terminal;

/// How long `taipan reload` waits. A reload may have to wait for another one, and for roots on disks that do not
/// respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes of a request.
const MAX_REQUEST: usize = 64 + purge::LONGEST;
const _: () = assert!(watch::LONGEST <= purge::LONGEST);
/// How long `taipan watch` waits before it goes to the process that serves now, and how often without seeing one.
const WATCH_AGAIN: Duration = Duration::from_millis(100);
const WATCH_TRIES: u32 = 50;
/// How long the master waits for a client's request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_CLIENTS: usize = 16;
/// How long no client is accepted after one could not be, as without a free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// The longest time for another level of the error log.
pub const MAX_LEVEL_TIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of the name of a host (RFC 1035 §2.3.4).
const MAX_HOST: usize = 255;
/// Bytes of the name of an application, and of one of its endpoints, that a request may have. A pool knows no longer
/// name of an endpoint, and an upgrade hands off no longer line.
const MAX_APPLICATION: usize = 1024;
const MAX_ENDPOINT: usize = 300;
/// The first line of a response.
const DONE: &str = "done\n";
const FAILED: &str = "failed\n";

/// Where a site comes from: it identifies the running program that serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteSource {
    Folder(PathBuf),
    Config(PathBuf),
    /// The configuration of another server.
    Foreign(Input),
}

impl SiteSource {
    pub fn path(&self) -> Cow<'_, Path> {
        match self {
            SiteSource::Config(path) | SiteSource::Folder(path) => Cow::Borrowed(path),
            SiteSource::Foreign(input) => Cow::Owned(input.path()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Reload,
    Upgrade,
    Stats(Form),
    Purge(Purge),
    Drain(Drain),
    /// The files of logs are opened again.
    Reopen,
    /// The error log has this level for a time.
    Level(Level, Duration),
    Maintenance(MaintenanceAct),
    /// Connections end.
    Disconnect(Selection),
    /// Requests that match are shown until one of both ends.
    Watch(Filter),
}

/// An endpoint of an application that is taken out of service, or put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drain {
    pub application: String,
    pub endpoint: String,
    pub change: DrainChange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainChange {
    Drain,
    Undrain,
}

/// A host is switched to maintenance, or back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceAct {
    pub host: String,
    /// Seconds. `None`: it serves again.
    pub retry_after: Option<u32>,
}

/// The requests of one word or two.
const REQUESTS: [(&str, Request); 8] = [
    ("reopen", Request::Reopen),
    ("reload", Request::Reload),
    ("upgrade", Request::Upgrade),
    ("stats", Request::Stats(Form::Text)),
    ("stats json", Request::Stats(Form::Json)),
    ("stats live", Request::Stats(Form::Live)),
    ("stats openmetrics", Request::Stats(Form::Metrics(Syntax::OpenMetrics))),
    ("stats prometheus", Request::Stats(Form::Metrics(Syntax::Prometheus))),
];

/// The first word of a purge.
const PURGE: &str = "purge ";
/// The first word of a filter.
const WATCH: &str = "watch ";
/// The first words of other requests.
const LEVEL: &str = "level ";
const MAINTENANCE: &str = "maintenance ";
const DISCONNECT: &str = "disconnect ";
/// In place of seconds.
const OFF: &str = "off";

impl Request {
    /// One line.
    pub fn text(&self) -> String {
        match (self, REQUESTS.iter().find(|(_, known)| known == self)) {
            (Request::Purge(purge), _) => format!("{PURGE}{purge}\n"),
            (Request::Drain(Drain { application, endpoint, change }), _) => {
                format!("{} {application}\0{endpoint}\n", change.word())
            }
            (Request::Level(level, time), _) => format!("{LEVEL}{} {}\n", level.name(), time.as_secs()),
            (Request::Maintenance(MaintenanceAct { host, retry_after }), _) => {
                let seconds = retry_after.map_or(OFF.to_owned(), |seconds| seconds.to_string());
                format!("{MAINTENANCE}{seconds} {host}\n")
            }
            (Request::Disconnect(selection), _) => format!("{DISCONNECT}{selection}\n"),
            (Request::Watch(filter), _) => format!("{WATCH}{filter}\n"),
            (_, Some((word, _))) => format!("{word}\n"),
            (_, None) => String::new(),
        }
    }

    /// The reverse of `text`, without the end of the line.
    pub fn parse(line: &[u8]) -> Option<Request> {
        let line = std::str::from_utf8(line).ok()?;
        if let Some(rest) = line.strip_prefix(LEVEL) {
            let (level, seconds) = rest.split_once(' ')?;
            let time =
                seconds.parse().ok().map(Duration::from_secs).filter(|time| *time <= MAX_LEVEL_TIME)?;
            return Some(Request::Level(Level::from_name(level)?, time));
        }
        if let Some(rest) = line.strip_prefix(MAINTENANCE) {
            let (seconds, host) = rest.split_once(' ')?;
            let retry_after = if seconds == OFF { None } else { Some(seconds.parse().ok()?) };
            let is_name = (1..=MAX_HOST).contains(&host.len()) && !host.contains(char::is_control);
            let act = MaintenanceAct { host: host.to_owned(), retry_after };
            return is_name.then_some(Request::Maintenance(act));
        }
        if let Some(selection) = line.strip_prefix(DISCONNECT) {
            return selection.parse().ok().map(Request::Disconnect);
        }
        if let Some(filter) = line.strip_prefix(WATCH) {
            return filter.parse().ok().map(Request::Watch);
        }
        match line.strip_prefix(PURGE) {
            Some(purge) => purge.parse().ok().map(Request::Purge),
            None => {
                let known = REQUESTS.into_iter().find(|(word, _)| *word == line);
                known.map(|(_, request)| request).or_else(|| Drain::parse(line).map(Request::Drain))
            }
        }
    }
}

impl Request {
    /// Whether users of the page may ask for it.
    pub fn is_for_page(&self) -> bool {
        match self {
            Request::Reload | Request::Purge(_) | Request::Drain(_) | Request::Reopen => true,
            Request::Level(..) | Request::Maintenance(_) | Request::Disconnect(_) => true,
            Request::Upgrade | Request::Stats(_) | Request::Watch(_) => false,
        }
    }

    /// What is done, for the error log. `None`: something is only read.
    pub fn act(&self) -> Option<String> {
        Some(match self {
            Request::Stats(_) => return None,
            Request::Drain(Drain { application, endpoint, change }) => {
                format!("{} {endpoint} of application {application}", change.word())
            }
            Request::Watch(filter) => format!("watch {}", filter.to_string().replace('\0', " ")),
            other => other.text().trim_end().to_owned(),
        })
    }
}

impl Drain {
    fn parse(line: &str) -> Option<Drain> {
        let (word, rest) = line.split_once(' ')?;
        let (application, endpoint) = rest.split_once('\0')?;
        if application.len() > MAX_APPLICATION || endpoint.len() > MAX_ENDPOINT {
            return None;
        }
        let change =
            [DrainChange::Drain, DrainChange::Undrain].into_iter().find(|change| change.word() == word)?;
        Some(Drain { application: application.to_owned(), endpoint: endpoint.to_owned(), change })
    }
}

impl DrainChange {
    fn word(self) -> &'static str {
        match self {
            DrainChange::Drain => "drain",
            DrainChange::Undrain => "undrain",
        }
    }
}

/// Sends a request and prints the response. Exits with 0 if the request was done, with 1 if it failed.
pub fn send(source: &SiteSource, request: &Request) -> ExitCode {
    match response(source, request) {
        Ok((true, text)) => {
            terminal::print(&text);
            ExitCode::SUCCESS
        }
        Ok((false, text)) => {
            text.lines().for_each(|line| terminal::err(format_args!("taipan: {line}")));
            ExitCode::FAILURE
        }
        Err(error) => terminal::fail(error, 1),
    }
}

/// Prints what the running program shows of requests, until it ends, or the reader of the output. After a reload or an
/// upgrade, it goes on with the process that serves then.
pub fn watch(source: &SiteSource, filter: &Filter) -> ExitCode {
    let request = Request::Watch(filter.clone());
    let mut has_begun = false;
    let mut tries = 0;
    while tries < WATCH_TRIES {
        match connect(source, &request).and_then(show) {
            Ok(Shown::Moved) => (has_begun, tries) = (true, 0),
            Ok(Shown::Unread) => return ExitCode::SUCCESS,
            Ok(Shown::Refused(lines)) if !has_begun => {
                lines.lines().for_each(|line| terminal::err(format_args!("taipan: {line}")));
                return ExitCode::FAILURE;
            }
            Ok(Shown::Refused(_)) => {}
            Err(error) if has_begun => {
                terminal::err(format_args!("taipan: the program has ended ({error})"));
                return ExitCode::SUCCESS;
            }
            Err(error) => return terminal::fail(error, 1),
        }
        tries += 1;
        std::thread::sleep(WATCH_AGAIN);
    }
    terminal::fail("no process shows requests; see the error log", 1)
}

/// Why there is no more to print.
enum Shown {
    /// The process serves no more.
    Moved,
    /// Nothing reads the output.
    Unread,
    /// With lines that say why.
    Refused(String),
}

fn show(stream: UnixStream) -> io::Result<Shown> {
    stream.set_read_timeout(None)?;
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    if first != DONE {
        let mut lines = String::new();
        reader.read_to_string(&mut lines)?;
        return Ok(Shown::Refused(lines));
    }
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(Shown::Moved);
        }
        let mut out = io::stdout().lock();
        if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
            return Ok(Shown::Unread);
        }
        let read = bytes.len();
        reader.consume(read);
    }
}

/// Whether the running program has done it, and its response. Errors: no program runs, or it belongs to another user.
pub fn response(source: &SiteSource, request: &Request) -> io::Result<(bool, String)> {
    let mut stream = connect(source, request)?;
    let mut response = Vec::new();
    match stream.read_to_end(&mut response) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => return Err(error),
        _ => {}
    }
    let response = String::from_utf8_lossy(&response);
    match response.split_once('\n') {
        None => Err(io::Error::other("the program ended without a response; see its error log")),
        Some((first, rest)) => Ok((first == DONE.trim_end(), rest.to_owned())),
    }
}

/// Reads the response that the master sends to a process of its own. Errors: what has failed.
pub async fn response_from(stream: UnixStream) -> Result<String, String> {
    let mut response = Vec::new();
    let read = async {
        stream.set_nonblocking(true)?;
        let mut stream = tokio::net::UnixStream::from_std(stream)?;
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut response).await
    };
    match tokio::time::timeout(RESPONSE_TIMEOUT, read).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("there was no response in time".to_owned()),
    }
    let response = String::from_utf8_lossy(&response);
    match response.split_once('\n') {
        Some((first, rest)) if first == DONE.trim_end() => Ok(rest.to_owned()),
        Some((_, rest)) => Err(rest.to_owned()),
        None => Err("there was no response; see the error log".to_owned()),
    }
}

/// Sends a request.
fn connect(source: &SiteSource, request: &Request) -> io::Result<UnixStream> {
    let path = source.path();
    let path = path.display();
    let not_running = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => io::Error::other(format!(
            "no taipan serves {path}; name what it was started with: -c FILE, or --root DIR"
        )),
        _ => io::Error::other(format!("{path}: {error}")),
    };
    let mut stream = UnixStream::connect_addr(&address(source)?).map_err(not_running)?;
    if !is_trusted(&stream) {
        return Err(io::Error::other("the running program belongs neither to root nor to you"));
    }
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    let line = request.text();
    if line.len() >= MAX_REQUEST {
        return Err(io::Error::other("that is too long"));
    }
    // The program may have rejected this client and closed the connection; its response can be read all the same.
    _ = stream.write_all(line.as_bytes());
    Ok(stream)
}

/// Does a running program serve this already?
pub fn is_served(source: &SiteSource) -> bool {
    address(source)
        .and_then(|address| UnixStream::connect_addr(&address))
        .is_ok_and(|stream| is_trusted(&stream))
}

/// Every spelling of a path has the same address.
fn address(source: &SiteSource) -> io::Result<SocketAddr> {
    let path = source.path();
    let missing = |e| io::Error::other(format!("{}: {e}", path.display()));
    let hash = twox_hash::XxHash3_128::oneshot(path.canonicalize().map_err(missing)?.as_os_str().as_bytes());
    SocketAddr::from_abstract_name(format!("taipan-{hash:032x}"))
}

fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}

/// The master's end of the control socket.
pub struct Control {
    listener: UnixListener,
    clients: Vec<Client>,
    /// A client could not be accepted, and none is until then.
    pause: Option<Instant>,
    /// Why it could not be accepted.
    failure: Option<io::Error>,
}

pub struct Client {
    stream: UnixStream,
    received: Vec<u8>,
    deadline: Instant,
}

/// What a client has sent so far.
enum ReadRequest {
    Incomplete,
    Request(Request),
    Unknown,
}

impl Control {
    /// Errors: another program serves the same site.
    pub fn open(source: &SiteSource) -> io::Result<Control> {
        Control::with(UnixListener::bind_addr(&address(source)?)?)
    }

    /// Takes the socket that the predecessor hands off.
    pub fn inherit(fd: OwnedFd) -> io::Result<Control> {
        Control::with(UnixListener::from(fd))
    }

    fn with(listener: UnixListener) -> io::Result<Control> {
        listener.set_nonblocking(true)?;
        Ok(Control { listener, clients: Vec::new(), pause: None, failure: None })
    }

    pub fn socket(&self) -> &UnixListener {
        &self.listener
    }

    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// Whether no client is accepted now.
    pub fn is_at_capacity(&self) -> bool {
        self.clients.len() >= MAX_CLIENTS || self.pause.is_some()
    }

    /// Why a client could not be accepted since the last call.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// The earliest deadline of a client that has not sent its request, or the end of a pause.
    pub fn deadline(&self) -> Option<Instant> {
        self.clients.iter().map(|client| client.deadline).chain(self.pause).min()
    }

    /// Accepts clients, reads what they have sent, and returns the next complete request. The other clients stay here,
    /// where a forked child finds and closes them: a client waits until all copies of its socket are closed.
    pub fn receive(&mut self) -> Option<(Client, Request)> {
        self.pause.take_if(|until| *until <= Instant::now());
        while !self.is_at_capacity() {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.failure = Some(error);
                    self.pause = Some(Instant::now() + ACCEPT_PAUSE);
                    break;
                }
            };
            let client = Client { stream, received: Vec::new(), deadline: Instant::now() + REQUEST_TIMEOUT };
            match client.stream.set_nonblocking(true) {
                Ok(()) if is_trusted(&client.stream) => self.clients.push(client),
                _ => client.failed(["only root and the user that runs this program may do this"]),
            }
        }
        let now = Instant::now();
        let mut at = 0;
        while let Some(client) = self.clients.get_mut(at) {
            match client.receive() {
                ReadRequest::Request(request) => return Some((self.clients.remove(at), request)),
                ReadRequest::Incomplete if now < client.deadline => at += 1,
                ReadRequest::Incomplete => drop(self.clients.remove(at)),
                ReadRequest::Unknown => {
                    self.clients.remove(at).failed(["this version does not know that request"])
                }
            }
        }
        None
    }
}

impl Client {
    /// For a request that was not received by the control socket.
    pub fn of(to: OwnedFd) -> Client {
        Client { stream: to.into(), received: Vec::new(), deadline: Instant::now() }
    }

    fn receive(&mut self) -> ReadRequest {
        let mut buffer = [0; MAX_REQUEST];
        let Ok(n) = self.stream.read(&mut buffer) else { return ReadRequest::Incomplete };
        self.received.extend_from_slice(&buffer[..n]);
        match self.received.strip_suffix(b"\n") {
            _ if n == 0 => ReadRequest::Unknown,
            None if self.received.len() < MAX_REQUEST => ReadRequest::Incomplete,
            None => ReadRequest::Unknown,
            Some(line) => Request::parse(line).map_or(ReadRequest::Unknown, ReadRequest::Request),
        }
    }

    /// Who it is, for the error log.
    pub fn name(&self) -> String {
        match socket_peercred(&self.stream) {
            Ok(peer) => format!("uid {}, process {}", peer.uid.as_raw(), peer.pid.as_raw_nonzero()),
            Err(_) => "unknown".to_owned(),
        }
    }

    pub fn done(mut self, text: &str) {
        self.respond(DONE, text);
    }

    pub fn failed<'a>(mut self, lines: impl IntoIterator<Item = &'a str>) {
        let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
        self.respond(FAILED, &text);
    }

    /// Sends the first line; another process writes the rest of the response to the returned socket.
    pub fn into_done_socket(mut self) -> OwnedFd {
        self.respond(DONE, "");
        self.stream.into()
    }

    /// Another process writes the whole response to it: see `response_text`.
    pub fn into_socket(self) -> OwnedFd {
        self.stream.into()
    }

    /// A response is smaller than the socket's buffer.
    fn respond(&mut self, first: &str, text: &str) {
        // The client may have given up waiting.
        _ = self.stream.write_all(format!("{first}{text}").as_bytes());
    }
}

/// What another process writes to a client's socket. Errors: what has failed.
pub fn response_text(result: Result<String, String>) -> String {
    match result {
        Ok(text) => format!("{DONE}{text}\n"),
        Err(text) => format!("{FAILED}{text}\n"),
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_parsed_from_its_line() {
        let purges =
            ["all - -", "path a.example /x?y=z", "tag - news"].map(|text| text.parse().map(Request::Purge));
        let purges = purges.into_iter().map(|purge| purge.expect("it is a purge"));
        let drains = [DrainChange::Drain, DrainChange::Undrain].map(|change| {
            Request::Drain(Drain { application: "my app".into(), endpoint: "10.0.0.1:80".into(), change })
        });
        let watches = ["", "status=5xx", "client=::1\0path=/a b\0slower=2s"];
        let watches = watches.map(|text| Request::Watch(text.parse().expect("it is a filter")));
        let selections = ["connection 1a2b", "client 10.0.0.0/8"];
        let selections = selections.map(|text| Request::Disconnect(text.parse().expect("it is a selection")));
        let acts = [
            Request::Level(Level::Debug, Duration::from_secs(600)),
            Request::Maintenance(MaintenanceAct { host: "a.example".into(), retry_after: Some(300) }),
            Request::Maintenance(MaintenanceAct { host: "*.a.example".into(), retry_after: None }),
        ];
        let requests = REQUESTS.into_iter().map(|(_, request)| request).chain(purges).chain(drains);
        for request in requests.chain(watches).chain(acts).chain(selections) {
            let text = request.text();
            let line = text.strip_suffix('\n').expect("it is a line");
            assert_eq!(Request::parse(line.as_bytes()), Some(request), "{line}");
        }
        // It would be handed off by each upgrade, and none would succeed.
        let drain = |application: usize, endpoint: usize| {
            Request::parse(format!("drain {}\0{}", "a".repeat(application), "e".repeat(endpoint)).as_bytes())
        };
        assert!(drain(MAX_APPLICATION, MAX_ENDPOINT).is_some());
        assert!(drain(1, MAX_ENDPOINT + 1).is_none() && drain(MAX_APPLICATION + 1, 1).is_none());
        for line in [
            "",
            "reload ",
            "Stats",
            "purge",
            "purge ",
            "purge all",
            "drain",
            "drain app",
            "drains a\0b",
            "purge path - x",
            "purge tag - \u{e4}",
            "watch",
            "level debug",
            "level loud 5",
            "level debug 99999999",
            "maintenance 5",
            "maintenance on a",
            "maintenance 5 ",
            "maintenance 5 a\u{1b}",
            "disconnect",
            "disconnect ",
            "disconnect 1a2b",
            "disconnect connection 0",
            "disconnect client a.example",
            "watch x=y",
            "watch status=9xx",
        ] {
            assert_eq!(Request::parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(Request::parse(b"\xff"), None);
    }
}
