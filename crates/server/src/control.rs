//! The control socket: `taipan reload`, `taipan stats`, `taipan top`, `taipan purge`, `taipan watch` and others send
//! their requests to a running program through it. Its name is a hash of the path of the configuration, or of the
//! folder, that is served. It is an abstract socket (unix(7)), so that no file is left behind. Both ends accept only a
//! peer that is root or the user that runs the program.

mod request;

mod command;

mod listener;

use std::borrow::Cow;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cache::store::purge;
use dialects::Input;
use nix::sys::socket::{UnixCredentials, getsockopt, sockopt};

pub use self::command::{response, send, watch};
pub use self::listener::{Client, Control};
pub use self::request::{Drain, DrainChange, MAX_LEVEL_TIME, MaintenanceAct, Request};
use crate::terminal;

/// How long a response may take. A reload may have to wait for another one, and for roots on disks that do not respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
/// The same for what the program does at once. A worker that hangs delays its statistics by some seconds.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a request.
const MAX_REQUEST: usize = 64 + purge::LONGEST;
const _: () = assert!(site::watch::LONGEST <= purge::LONGEST);
/// The first line of a response.
const DONE: &str = "done\n";
const FAILED: &str = "failed\n";

/// Where a site comes from: it identifies the running program that serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteSource {
    Folder(PathBuf),
    Config(ConfigSource),
}

/// Where a configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    Own(PathBuf),
    /// The configuration of another server.
    Foreign(Input),
}

impl SiteSource {
    pub fn path(&self) -> Cow<'_, Path> {
        match self {
            SiteSource::Folder(path) => Cow::Borrowed(path),
            SiteSource::Config(source) => source.path(),
        }
    }
}

impl ConfigSource {
    pub fn path(&self) -> Cow<'_, Path> {
        match self {
            ConfigSource::Own(path) => Cow::Borrowed(path),
            ConfigSource::Foreign(input) => Cow::Owned(input.path()),
        }
    }
}

/// Whether a running program serves this already.
pub fn is_served(source: &SiteSource) -> bool {
    address(source)
        .and_then(|address| UnixStream::connect_addr(&address))
        .is_ok_and(|stream| is_trusted(&stream))
}

/// Every spelling of a path has the same address.
fn address(source: &SiteSource) -> io::Result<SocketAddr> {
    let path = source.path();
    let missing = |e| {
        let path = path.display();
        io::Error::other(format!(
            "{path}: {e}; name what the program was started with: -c FILE, or --root DIR"
        ))
    };
    let hash = twox_hash::XxHash3_128::oneshot(path.canonicalize().map_err(missing)?.as_os_str().as_bytes());
    SocketAddr::from_abstract_name(format!("taipan-{hash:032x}"))
}

fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    peer(stream).is_ok_and(|peer| [0, own].contains(&peer.uid()))
}

/// The process and the user at the other end. The number of a process outside of this PID namespace is 0.
fn peer(stream: &UnixStream) -> nix::Result<UnixCredentials> {
    // That of rustix takes such a process for an error.
    getsockopt(stream, sockopt::PeerCredentials)
}

/// What another process writes to a client's socket. Errors: what has failed.
pub fn response_text(result: Result<String, String>) -> String {
    match result {
        Ok(text) => format!("{DONE}{text}\n"),
        Err(text) => format!("{FAILED}{}\n", terminal::plain(&text)),
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
    parse_response(&response).unwrap_or_else(|| Err("there was no response; see the error log".to_owned()))
}

/// `None`: it has no first line. Errors: what has failed.
fn parse_response(response: &[u8]) -> Option<Result<String, String>> {
    let response = String::from_utf8_lossy(response);
    let (first, rest) = response.split_once('\n')?;
    Some(if first == DONE.trim_end() { Ok(rest.to_owned()) } else { Err(rest.to_owned()) })
}
