//! A process of an application. It is started with a listening socket of its own, which only its pool can reach, and is
//! signalled together with the processes that it has started.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, fcntl_setfl, mkdirat, open, unlink};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::pipe::{PipeFlags, pipe_with};
use site::model::Resources;
use site::upstream::{Managed, SocketPassing};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::process::privilege;
use crate::spawner::groups;
use crate::spawner::launch::{Launched, Launcher, Process, kill};
use crate::spawner::{SpawnRequest, Streams};
use crate::{clock, sys};

/// Connections that wait until a process accepts them.
const BACKLOG: i32 = 128;
/// Names that are tried for a folder.
const ATTEMPTS: u64 = 8;

/// Starts processes of one application.
pub struct ProcessStarter {
    launcher: Launcher,
    program: CString,
    folder: CString,
    /// Each string with its NUL.
    arguments: Vec<u8>,
    environment: Vec<u8>,
    /// A listening socket has its name there for a moment.
    spool: PathBuf,
}

pub struct ApplicationProcess {
    pub process: Rc<Process>,
    pub began: Instant,
    listener: OwnedFd,
    /// The file of the listener, which has lost its name: no other program can connect to it.
    socket: OwnedFd,
}

impl ProcessStarter {
    /// Errors: a string of the settings has a NUL.
    pub fn new(managed: &Managed, resources: &Resources, spool: &Path) -> io::Result<ProcessStarter> {
        let string =
            |bytes: &[u8]| CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let program = managed.command.first().map_or("", String::as_str);
        let mut words: Vec<&str> = managed.command.iter().map(String::as_str).collect();
        let mut environment = Vec::new();
        for (name, value) in managed.environment.iter() {
            environment.extend([name.as_bytes(), b"=", value, b"\0"].concat());
        }
        if managed.socket == SocketPassing::ListenFds {
            // LISTEN_PID is not known before the process runs.
            words.splice(0..0, [SHELL, "-c", LISTEN_FDS, SHELL]);
            environment.extend_from_slice(b"LISTEN_FDS=1\0LISTEN_FDNAMES=connection\0");
        }
        let limits = Resources { memory: None, cpu: None, ..*resources };
        Ok(ProcessStarter {
            launcher: Launcher::new(&limits),
            program: string(words.first().map_or(program, |first| first).as_bytes())?,
            folder: string(managed.folder.as_os_str().as_bytes())?,
            arguments: words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect(),
            environment,
            spool: spool.to_owned(),
        })
    }

    /// Returns the process, and the pipe of its standard output and error streams. Errors: why it could not be started.
    pub fn start(&mut self) -> io::Result<(ApplicationProcess, OwnedFd)> {
        let (listener, socket) = self.listen()?;
        let (reads, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        // A new pipe has no other flag that this could clear.
        fcntl_setfl(&reads, OFlags::NONBLOCK)?;
        let ProcessStarter { launcher, program, folder, arguments, environment, .. } = self;
        let request = SpawnRequest { program, folder, account: c"", arguments, environment };
        let streams =
            Streams { stdin: Some(listener.try_clone()?), stdout: writes.try_clone()?, stderr: writes };
        match launcher.launch(&request, &streams, None, None)? {
            Launched::Running(process) => {
                let process = Rc::new(process);
                Ok((ApplicationProcess { process, began: Instant::now(), listener, socket }, reads))
            }
            Launched::Failed(errno) => Err(errno.into()),
        }
    }

    /// A listener, and its file, which is removed from its folder.
    fn listen(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let folder = self.make_folder()?;
        let path = folder.join("socket");
        let made = (|| {
            let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            bind(&listener, &SocketAddrUnix::new(&path)?)?;
            let socket = open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            _ = unlink(&path);
            listen(&listener, BACKLOG)?;
            Ok((listener, socket?))
        })();
        _ = std::fs::remove_dir(&folder);
        made
    }

    /// A folder that only this user can enter.
    fn make_folder(&self) -> io::Result<PathBuf> {
        for attempt in 0..ATTEMPTS {
            let number = clock::micros().wrapping_mul(ATTEMPTS).wrapping_add(attempt);
            let path = self.spool.join(format!("taipan-{}-{number:x}", std::process::id()));
            match mkdirat(CWD, &path, Mode::RWXU) {
                Ok(()) => return Ok(path),
                Err(rustix::io::Errno::EXIST) => {}
                Err(errno) => {
                    let why = format!(
                        "cannot make a folder in {}: {}",
                        privilege::shown(&self.spool),
                        io::Error::from(errno)
                    );
                    return Err(io::Error::new(io::Error::from(errno).kind(), why));
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

const SHELL: &str = "/bin/sh";
/// Moves the listener from descriptor 0 to 3 (`sd_listen_fds(3)`), and executes the program.
const LISTEN_FDS: &str =
    r#"LISTEN_PID=$$; export LISTEN_PID; unset PWD OLDPWD SHLVL _; exec "$@" 3<&0 </dev/null"#;

impl ApplicationProcess {
    /// A connection, which the process has not accepted yet. Errors: `WouldBlock` when too many wait for that.
    pub fn connect(&self) -> io::Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.socket.as_raw_fd());
        connect_unix(Path::new(&path))
    }

    /// Whether there is a connection that the process has not accepted.
    pub fn has_unaccepted(&self) -> bool {
        let mut listener = [PollFd::new(&self.listener, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut listener, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    /// Signals every process of its group.
    pub fn signal(&self, signal: libc::c_int) {
        // Fails only if all of them have ended.
        _ = groups::signal(&self.process, signal);
    }

    /// The process, readable when it has ended, for what reaps it. Errors: its end would not be noticed, so that it has
    /// been killed and reaped.
    pub fn watch(&self) -> io::Result<AsyncFd<Rc<Process>>> {
        sys::watch(self.process.clone(), Interest::READABLE).inspect_err(|_| kill(self.process.pid))
    }

    /// Bytes in memory (resident, `proc_pid_statm(5)`).
    pub fn memory(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.process.pid)).ok()?;
        let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
        Some(pages.saturating_mul(rustix::param::page_size() as u64))
    }
}

/// A connection to a Unix socket.
pub fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&stream, &SocketAddrUnix::new(path)?)?;
    Ok(stream)
}

/// A connection that may still be in progress. One to this machine is not: it is there, or an error.
pub fn connect_tcp(address: std::net::SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = socket_with(family, SocketType::STREAM, flags, None)?;
    _ = rustix::net::sockopt::set_tcp_nodelay(&stream, true);
    match connect(stream.as_fd(), &address) {
        Ok(()) => Ok(stream),
        Err(rustix::io::Errno::INPROGRESS) if address.ip().is_loopback() => {
            rustix::net::sockopt::socket_error(&stream)?.map_err(io::Error::from)?;
            Ok(stream)
        }
        Err(rustix::io::Errno::INPROGRESS) => Ok(stream),
        Err(errno) => Err(errno.into()),
    }
}
