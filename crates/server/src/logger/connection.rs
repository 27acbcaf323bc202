//! A command that reads lines, or a connection to a peer that does. Knows nothing of queues.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::io::ioctl_fionread;
use rustix::net::sockopt::{set_socket_send_buffer_size, set_tcp_user_timeout};
use rustix::pipe::{PipeFlags, pipe_with};
use site::endpoint::EndpointAddress;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::resolver::{LastAddresses, Resolver};
use crate::sys;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that does not acknowledge for so long, in milliseconds, is given up (tcp(7)).
const USER_TIMEOUT: u32 = 30_000;
/// What the kernel holds for a peer can be lost with it.
const SEND_BUFFER: usize = 64 * 1024;
/// Between SIGTERM and SIGKILL for a command.
const GRACE: Duration = Duration::from_secs(1);
/// Variables of this process that commands get.
const ENVIRONMENT: [&str; 5] = ["PATH", "LANG", "LC_ALL", "TZ", "HOME"];

pub enum Connection {
    Command(RunningCommand),
    Peer(TcpStream),
}

pub struct RunningCommand {
    pid: Pid,
    /// `None`: the command reads the end of its input.
    input: Option<AsyncFd<OwnedFd>>,
    /// The other end of its input, which tells how much the command has yet to read.
    output: OwnedFd,
    /// Readable when the command has ended.
    end: AsyncFd<OwnedFd>,
    /// How it has ended.
    exit: RefCell<Option<String>>,
}

/// Connects to the first address of a peer that takes the connection. Errors: why none does.
pub async fn connect_peer(
    address: &EndpointAddress,
    resolver: Option<&Resolver>,
) -> Result<TcpStream, String> {
    let addresses = match address.socket() {
        Some(site::address::Address::Tcp(address)) => vec![*address],
        Some(site::address::Address::Unix(_)) => Vec::new(),
        None => match resolver {
            Some(resolver) => {
                resolver.resolve(address, &mut LastAddresses::new()).await?.addresses().collect()
            }
            None => return Err("names cannot be resolved".to_owned()),
        },
    };
    let mut why = "it has no address".to_owned();
    for address in addresses {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => why = format!("cannot connect to {address}: {error}"),
            Err(_) => why = format!("cannot connect to {address} in time"),
        }
    }
    Err(why)
}

impl Connection {
    /// Starts a command. Errors: why it cannot be executed.
    pub fn start(words: &[String]) -> Result<Connection, String> {
        let program = words.first().map_or("", String::as_str);
        let failed = |error: io::Error| format!("cannot start it: {error}");
        let (output, input) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let begun = (|| {
            let mut command = Command::new(program);
            command.args(&words[1..]).current_dir("/").stdin(output.try_clone()?).stdout(Stdio::null());
            // What a shell starts gets its signals, too.
            command.env_clear().process_group(0);
            command.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
            rustix::io::ioctl_fionbio(&input, true)?;
            let input = Some(sys::watch(input, Interest::WRITABLE)?);
            let child = command.spawn()?;
            let pid = Pid::from_raw(child.id() as i32);
            let end = sys::watch(sys::end_of_child(pid)?, Interest::READABLE)?;
            Ok(RunningCommand { pid, input, output, end, exit: RefCell::default() })
        })();
        begun.map(Connection::Command).map_err(failed)
    }

    /// Connects to a peer that reads lines.
    pub async fn connect(
        address: &EndpointAddress,
        resolver: Option<&Resolver>,
    ) -> Result<Connection, String> {
        let stream = connect_peer(address, resolver).await?;
        // Without them, more can be lost, and later.
        _ = set_socket_send_buffer_size(&stream, SEND_BUFFER);
        _ = set_tcp_user_timeout(&stream, USER_TIMEOUT);
        Ok(Connection::Peer(stream))
    }

    /// Writes some bytes when there is capacity.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Command(RunningCommand { input: Some(input), .. }) => {
                input.async_io(Interest::WRITABLE, |input| Ok(rustix::io::write(input, bytes)?)).await
            }
            Connection::Command(_) => Err(io::ErrorKind::BrokenPipe.into()),
            Connection::Peer(stream) => stream.async_io(Interest::WRITABLE, || stream.try_write(bytes)).await,
        }
    }

    /// Waits for the end of the reader, and says how it ended. What a peer sends is ignored.
    pub async fn ended(&self) -> String {
        match self {
            Connection::Command(command) => format!("it has ended: {}", command.exit().await),
            Connection::Peer(stream) => {
                let mut ignored = [0; 4096];
                loop {
                    match stream.async_io(Interest::READABLE, || stream.try_read(&mut ignored)).await {
                        Ok(0) => return "it has closed the connection".to_owned(),
                        Ok(_) => {}
                        Err(error) => return format!("the connection has failed: {error}"),
                    }
                }
            }
        }
    }

    /// Bytes that were written, and that the reader has not taken from the kernel.
    pub fn unread(&self) -> usize {
        let unread = match self {
            Connection::Command(command) => ioctl_fionread(&command.output).map_err(io::Error::from),
            Connection::Peer(stream) => sys::unsent(stream.as_fd()),
        };
        unread.map_or(0, |bytes| bytes as usize)
    }

    /// Nothing more is written: waits until the reader has taken everything, and ends.
    pub async fn close(&mut self) {
        match self {
            Connection::Command(command) => command.input = None,
            Connection::Peer(stream) => _ = rustix::net::shutdown(&*stream, rustix::net::Shutdown::Write),
        }
        self.ended().await;
    }

    /// Ends a command that does not end by itself.
    pub async fn end(&mut self) {
        let Connection::Command(command) = self else { return };
        command.input = None;
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            if command.exit.borrow().is_some() {
                return;
            }
            // Its number is not reused before it is reaped.
            _ = killpg(command.pid, signal);
            _ = timeout(GRACE, command.exit()).await;
        }
    }
}

impl RunningCommand {
    /// Waits for the end of the command and reaps it.
    async fn exit(&self) -> String {
        loop {
            if let Some(exit) = &*self.exit.borrow() {
                return exit.clone();
            }
            let ready = self.end.readable().await;
            let exit = match (&ready, waitpid(self.pid, Some(WaitPidFlag::WNOHANG))) {
                (Ok(_), Ok(WaitStatus::StillAlive)) => continue,
                (_, Ok(WaitStatus::Exited(_, code))) => format!("exit code {code}"),
                (_, Ok(WaitStatus::Signaled(_, signal, _))) => format!("killed by {signal}"),
                (_, other) => format!("{other:?}"),
            };
            *self.exit.borrow_mut() = Some(exit);
        }
    }
}
