//! The control socket: how `taipan reload`, `taipan upgrade` and `taipan stats` speak to a running
//! program. Its name is made of the configuration, or the folder, that is served; it stands in no folder
//! (`unix(7)`, abstract), so that nothing is left behind. Only root, and whoever runs the program, are
//! listened to, and believed.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;

use crate::ipc::Form;
use crate::served::What;
use crate::terminal;

/// A reload may have to wait for another one, and for roots on disks that do not answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of a request.
const MAX_REQUEST: usize = 64;
/// How long a client may take to say what it wants.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
/// Clients that may be waiting for an answer.
const MAX_CLIENTS: usize = 16;
/// The first line of an answer.
const DONE: &str = "done\n";
const FAILED: &str = "failed\n";

/// What can be asked of a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Reload,
    Upgrade,
    Stats(Form),
}

const REQUESTS: [(&str, Request); 4] = [
    ("reload", Request::Reload),
    ("upgrade", Request::Upgrade),
    ("stats", Request::Stats(Form::Text)),
    ("stats json", Request::Stats(Form::Json)),
];

/// `taipan reload`, and the like: asks, prints the answer, and exits with 0 if it was done, with 1 if not.
pub fn ask(what: &What, request: Request) -> ExitCode {
    match answer(what, request) {
        Ok((true, text)) => {
            terminal::print(&text);
            ExitCode::SUCCESS
        }
        Ok((false, text)) => {
            text.lines().for_each(|line| terminal::err(format_args!("taipan: {line}")));
            ExitCode::FAILURE
        }
        Err(error) => {
            terminal::err(format_args!("taipan: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn answer(what: &What, request: Request) -> io::Result<(bool, String)> {
    let (What::Config(path) | What::Folder(path)) = what;
    let nobody = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => io::Error::other(format!(
            "no taipan serves {}; name what it was started with: -c FILE, or --root DIR",
            path.display()
        )),
        _ => io::Error::other(format!("{}: {error}", path.display())),
    };
    let mut stream = UnixStream::connect_addr(&address(what)?).map_err(nobody)?;
    if !is_trusted(&stream) {
        return Err(io::Error::other("the program that answers runs neither as root nor as you"));
    }
    stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
    let word = REQUESTS.iter().find(|(_, known)| *known == request).map_or("", |(word, _)| word);
    // Whoever does not want to hear it may have answered and closed already.
    _ = stream.write_all(format!("{word}\n").as_bytes());
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => return Err(error),
        _ => {}
    }
    let said = String::from_utf8_lossy(&said);
    match said.split_once('\n') {
        None => Err(io::Error::other("the program ended without an answer; see its error log")),
        Some((first, rest)) => Ok((first == DONE.trim_end(), rest.to_owned())),
    }
}

/// Does a running program serve this already?
pub fn is_served(what: &What) -> bool {
    address(what)
        .and_then(|address| UnixStream::connect_addr(&address))
        .is_ok_and(|stream| is_trusted(&stream))
}

/// Of the path as it is, however it was written.
fn address(what: &What) -> io::Result<SocketAddr> {
    let (What::Config(path) | What::Folder(path)) = what;
    let missing = |e| io::Error::other(format!("{}: {e}", path.display()));
    let path = path.canonicalize().map_err(missing)?;
    let hash = twox_hash::XxHash3_128::oneshot(path.as_os_str().as_bytes());
    SocketAddr::from_abstract_name(format!("taipan-{hash:032x}"))
}

fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}

/// The master's end.
pub struct Control {
    listener: UnixListener,
    clients: Vec<Client>,
}

/// Somebody who asks.
pub struct Client {
    stream: UnixStream,
    said: Vec<u8>,
    until: Instant,
}

impl Control {
    /// Errors: another program serves the same; one that is being replaced gives up its socket.
    pub fn open(what: &What) -> io::Result<Control> {
        let listener = UnixListener::bind_addr(&address(what)?)?;
        Control::of(listener)
    }

    /// With the socket of the program before.
    pub fn inherit(fd: OwnedFd) -> io::Result<Control> {
        Control::of(UnixListener::from(fd))
    }

    fn of(listener: UnixListener) -> io::Result<Control> {
        listener.set_nonblocking(true)?;
        Ok(Control { listener, clients: Vec::new() })
    }

    pub fn socket(&self) -> &UnixListener {
        &self.listener
    }

    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// May another one be let in?
    pub fn has_room(&self) -> bool {
        self.clients.len() < MAX_CLIENTS
    }

    /// When the next one has taken too long to say what it wants.
    pub fn deadline(&self) -> Option<Instant> {
        self.clients.iter().map(|client| client.until).min()
    }

    /// Lets clients in, hears what they say, and gives out those who have said it.
    pub fn turn(&mut self) -> Vec<(Client, Request)> {
        while self.has_room() {
            let Ok((stream, _)) = self.listener.accept() else { break };
            let client = Client { stream, said: Vec::new(), until: Instant::now() + REQUEST_PATIENCE };
            match client.stream.set_nonblocking(true) {
                Ok(()) if is_trusted(&client.stream) => self.clients.push(client),
                _ => client.failed(["only root and the user that runs this program may do this"]),
            }
        }
        let mut asked = Vec::new();
        let now = Instant::now();
        for mut client in std::mem::take(&mut self.clients) {
            match client.hear() {
                Heard::All(request) => asked.push((client, request)),
                Heard::Part if now < client.until => self.clients.push(client),
                Heard::Part => {}
                Heard::Nonsense => client.failed(["this version does not know that request"]),
            }
        }
        asked
    }
}

enum Heard {
    Part,
    All(Request),
    Nonsense,
}

impl Client {
    fn hear(&mut self) -> Heard {
        let mut buffer = [0; MAX_REQUEST];
        match self.stream.read(&mut buffer) {
            Ok(0) => Heard::Nonsense,
            Ok(n) => {
                self.said.extend_from_slice(&buffer[..n]);
                match self.said.strip_suffix(b"\n") {
                    None if self.said.len() < MAX_REQUEST => Heard::Part,
                    None => Heard::Nonsense,
                    Some(line) => {
                        let known = REQUESTS.iter().find(|(word, _)| word.as_bytes() == line);
                        known.map_or(Heard::Nonsense, |(_, request)| Heard::All(*request))
                    }
                }
            }
            Err(_) => Heard::Part,
        }
    }

    pub fn done(mut self, text: &str) {
        self.answer(DONE, text);
    }

    pub fn failed<'a>(mut self, lines: impl IntoIterator<Item = &'a str>) {
        let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
        self.answer(FAILED, &text);
    }

    /// For somebody else who goes on with the answer.
    pub fn into_answering(mut self) -> OwnedFd {
        self.answer(DONE, "");
        self.stream.into()
    }

    /// An answer is smaller than what a socket takes at once.
    fn answer(&mut self, first: &str, text: &str) {
        // Whoever has stopped waiting need not be told.
        _ = self.stream.write_all(format!("{first}{text}").as_bytes());
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
