//! Where lines go: a file, a standard stream, or the system's log daemon.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use rustix::fs::OFlags;
use site::model::Sink;

use crate::privilege::Identity;

/// Where the log daemon listens (syslog(3)).
const DAEMON: &str = "/dev/log";
/// Facility daemon, severity info (RFC 3164 §4.1.1).
const PRIORITY: u8 = 3 * 8 + 6;

pub struct OpenSink {
    sink: Sink,
    to: To,
    /// Lines that could not be written.
    lost: u64,
    /// The last block was cut off inside a line.
    torn: bool,
}

enum To {
    Stdout,
    Stderr,
    File(File),
    Daemon(Option<UnixDatagram>),
}

impl OpenSink {
    pub fn open(sink: &Sink) -> Result<OpenSink, String> {
        let to = match sink {
            Sink::Stdout => To::Stdout,
            Sink::Stderr => To::Stderr,
            Sink::Syslog => To::Daemon(connect().ok()),
            Sink::File(path) => {
                To::File(open_file(path).map_err(|e| format!("cannot open the log {}: {e}", path.display()))?)
            }
        };
        Ok(OpenSink { sink: sink.clone(), to, lost: 0, torn: false })
    }

    pub fn give_to(&self, owner: &Identity) {
        if let To::File(file) = &self.to {
            // Where this cannot be, the file is written all the same, and only not opened again.
            _ = std::os::unix::fs::fchown(file, Some(owner.user.as_raw()), Some(owner.group.as_raw()));
        }
    }

    /// The old file is kept when the new one cannot be had.
    pub fn reopen(&mut self) {
        match OpenSink::open(&self.sink) {
            Ok(new) => self.to = new.to,
            Err(why) => super::error(format_args!("{why}; the old one is still written")),
        }
    }

    pub fn write(&mut self, lines: &[u8]) {
        let result = match &mut self.to {
            To::Stdout => whole(&mut io::stdout().lock(), lines, self.torn),
            To::Stderr => whole(&mut io::stderr().lock(), lines, self.torn),
            To::File(file) => whole(file, lines, self.torn),
            To::Daemon(socket) => tell(socket, lines),
        };
        self.torn = match result {
            Ok(()) => false,
            Err(_) => {
                self.lost += lines.iter().filter(|&&b| b == b'\n').count() as u64;
                !matches!(self.to, To::Daemon(_))
            }
        };
    }

    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn forgive(&mut self) {
        self.lost = 0;
    }
}

/// To append. A FIFO that nobody reads is refused: waiting for a reader would be waiting for ever.
fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o640).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path)?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

fn whole(to: &mut impl Write, lines: &[u8], torn: bool) -> io::Result<()> {
    if torn {
        to.write_all(b"\n")?;
    }
    to.write_all(lines)?;
    to.flush()
}

fn connect() -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(DAEMON)?;
    Ok(socket)
}

/// One datagram per line; a daemon that was restarted is found again.
fn tell(socket: &mut Option<UnixDatagram>, lines: &[u8]) -> io::Result<()> {
    let process = std::process::id();
    for line in lines.split(|&b| b == b'\n').filter(|l| !l.is_empty()) {
        let datagram = [format!("<{PRIORITY}>taipan[{process}]: ").as_bytes(), line].concat();
        let sent = socket.as_ref().map(|s| s.send(&datagram));
        if !matches!(sent, Some(Ok(_))) {
            let new = connect()?;
            new.send(&datagram)?;
            *socket = Some(new);
        }
    }
    Ok(())
}
