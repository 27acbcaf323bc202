//! Another program takes over: the sockets are handed to it, and when it serves, the connections. What
//! the two say to one another has to be understood by every version.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use rustix::io::FdFlags;

use super::sockets::{Origin, Sockets};
use crate::control::{Client, Control};
use crate::ipc::{Channel, Decoder, Encoder, Message, Received};
use crate::sys;

/// Where the new program finds its end of the channel.
const VARIABLE: &str = "TAIPAN_UPGRADE";
/// How long the new program may take to serve, and the old one to hand over its sockets.
const PATIENCE: Duration = Duration::from_secs(60);

/// From the old program to the new one.
enum Handoff {
    /// A listening socket, with the address that it was wanted for.
    Socket { wanted: String, origin: Origin, fd: OwnedFd },
    /// The control socket.
    Control(OwnedFd),
    /// That is all.
    End,
}

/// From the new program to the old one: it serves, and takes connections through this channel.
struct Takeover {
    handoff: OwnedFd,
}

impl Message<'_> for Handoff {
    const MAX_BYTES: usize = 4096;

    fn encode(&self) -> Encoder<'_> {
        match self {
            Handoff::Socket { wanted, origin, fd } => {
                let kind = match origin {
                    Origin::Configured => b'S',
                    Origin::Passed => b'P',
                };
                Encoder::new(kind).bytes(wanted.as_bytes()).fd(fd)
            }
            Handoff::Control(fd) => Encoder::new(b'C').fd(fd),
            Handoff::End => Encoder::new(b'E'),
        }
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<Handoff> {
        let origin = match kind {
            b'S' => Origin::Configured,
            b'P' => Origin::Passed,
            b'C' => return Some(Handoff::Control(fields.fd()?)),
            b'E' => return Some(Handoff::End),
            _ => return None,
        };
        let wanted = String::from_utf8(fields.rest().to_vec()).ok()?;
        Some(Handoff::Socket { wanted, origin, fd: fields.fd()? })
    }
}

impl Message<'_> for Takeover {
    fn encode(&self) -> Encoder<'_> {
        Encoder::new(b'T').fd(&self.handoff)
    }

    fn decode(kind: u8, fields: &mut Decoder<'_>) -> Option<Takeover> {
        (kind == b'T').then_some(())?;
        Some(Takeover { handoff: fields.fd()? })
    }
}

/// The new program, as the old one sees it.
pub struct Successor {
    program: Child,
    pub channel: Channel,
    pub asked_by: Option<Client>,
    pub until: Instant,
}

impl Successor {
    /// Starts `program` with the same arguments, and hands it the sockets.
    pub fn start(
        program: &Path,
        sockets: &Sockets,
        control: Option<&Control>,
        asked_by: Option<Client>,
    ) -> Result<Successor, (String, Option<Client>)> {
        let until = Instant::now() + PATIENCE;
        let attempt = || -> io::Result<(Child, Channel)> {
            let (ours, theirs) = Channel::pair()?;
            rustix::io::fcntl_setfd(&theirs, FdFlags::empty())?;
            let mut command = Command::new(program);
            command.args(std::env::args_os().skip(1)).env(VARIABLE, theirs.as_raw_fd().to_string());
            for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
                command.env_remove(variable);
            }
            let child = command.spawn()?;
            drop(theirs);
            // Fails where it has ended already, or does not listen. What comes of it is heard of as of
            // one that fails later.
            _ = hand_off(&ours, sockets, control, until);
            Ok((child, ours))
        };
        match attempt() {
            Ok((program, channel)) => Ok(Successor { program, channel, asked_by, until }),
            Err(error) => Err((format!("cannot start {}: {error}", program.display()), asked_by)),
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.program.id() as i32)
    }

    /// Has it end, if it has not.
    pub fn end(&mut self) -> io::Result<WaitStatus> {
        // Fails only if it has ended.
        _ = self.program.kill();
        let status = self.program.wait()?;
        Ok(WaitStatus::from_raw(self.pid(), status.into_raw())?)
    }

    /// Where connections go; `None`: it has not said yet. Errors: it has ended.
    pub fn handoff(&self) -> io::Result<Option<OwnedFd>> {
        match self.channel.receive::<Takeover>() {
            Ok(Received::Message(takeover)) => Ok(Some(takeover.handoff)),
            Ok(Received::End) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn hand_off(to: &Channel, sockets: &Sockets, control: Option<&Control>, until: Instant) -> io::Result<()> {
    for bound in sockets.iter() {
        for fd in &bound.fds {
            let wanted = bound.wanted.to_string();
            let fd = fd.try_clone()?;
            to.send_until(&Handoff::Socket { wanted, origin: bound.origin, fd }, until)?;
        }
    }
    if let Some(control) = control {
        to.send_until(&Handoff::Control(control.socket().try_clone()?.into()), until)?;
    }
    to.send_until(&Handoff::End, until)
}

/// The old program, as the new one sees it.
pub struct Predecessor {
    channel: Channel,
}

impl Predecessor {
    /// The one that has started this program, if one has; with what it has left.
    pub fn find() -> io::Result<Option<(Predecessor, Sockets, Option<Control>)>> {
        let Some(number) = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()) else {
            return Ok(None);
        };
        let channel = Channel::from(sys::adopt(number)?);
        let (mut sockets, mut control) = (Sockets::default(), None);
        let until = Instant::now() + PATIENCE;
        loop {
            match channel.receive_until::<Handoff>(until)? {
                Received::Message(Handoff::Socket { wanted, origin, fd }) => {
                    let wanted = site::address::Address::parse(&wanted, Path::new(""));
                    sockets.inherit(wanted.map_err(io::Error::other)?, origin, fd);
                }
                Received::Message(Handoff::Control(fd)) => control = Some(Control::inherit(fd)?),
                Received::Message(Handoff::End) => break,
                Received::End => return Err(io::Error::other("the program before has ended")),
            }
        }
        Ok(Some((Predecessor { channel }, sockets, control)))
    }

    /// This program serves; the connections of the other one are to come to `handoff`.
    pub fn take_over(self, handoff: Channel) -> io::Result<()> {
        self.channel.send(&Takeover { handoff: handoff.into() })
    }
}

/// Sockets that whoever started this program has opened for it (`sd_listen_fds(3)`).
pub fn passed_sockets() -> io::Result<Sockets> {
    passed_descriptors().map(Sockets::passed)
}

/// As `passed_sockets`, whatever they are.
pub fn passed_descriptors() -> io::Result<Vec<OwnedFd>> {
    const FIRST: i32 = 3;
    const MOST: i32 = 1000;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    if number("LISTEN_PID") != Some(std::process::id() as i32) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST);
    (FIRST..FIRST + count).map(sys::adopt).collect()
}
