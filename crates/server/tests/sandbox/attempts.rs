//! The attempts: in the sandbox, each of `MUST_FAIL` fails with the error of the layer that stops it, and
//! each of `MUST_WORK` works. No attempt has lasting effects.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use rustix::process::Pid;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::attempts::Layer::{Filter, Landlock};
use crate::attempts::Needs::{Capability, Nothing, Root};

/// Resources that the process opens before it is confined, as a server does.
pub struct Here {
    /// Holds `www`, which is below the roots, and files that are not.
    pub home: PathBuf,
    pub www: OwnedFd,
    pub listener: TcpListener,
    pub log: File,
    pub capabilities: CapabilitySets,
    /// Another process.
    pub victim: Pid,
    /// The port of a listener outside of the sandbox.
    pub port: u16,
}

/// The layer of the sandbox that stops an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    Landlock,
    Filter,
}

/// What an attempt needs to succeed without the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    Root,
    Capability(CapabilitySet),
}

pub type Attempt = fn(&mut Here) -> io::Result<()>;

impl Layer {
    /// The error of what this layer stops.
    pub fn error(self) -> i32 {
        match self {
            Landlock => libc::EACCES,
            Filter => libc::ENOSYS,
        }
    }
}

pub const MUST_FAIL: &[(&str, Layer, Needs, Attempt)] = &[
    ("read /etc/shadow", Landlock, Root, |_| read("/etc/shadow")),
    ("read a file outside", Landlock, Nothing, |here| read(here.home.join("secret"))),
    ("read a file outside by a link in the root", Landlock, Nothing, |here| {
        read(here.home.join("www/link-to-secret"))
    }),
    ("read a file outside from a folder in the root", Landlock, Nothing, |here| {
        read(here.home.join("www/folder/../../secret"))
    }),
    ("list a folder outside", Landlock, Nothing, |here| fs::read_dir(&here.home).map(drop)),
    ("read one's own memory map", Landlock, Nothing, |_| read("/proc/self/maps")),
    ("write one's own memory by its file", Landlock, Nothing, |_| write("/proc/self/mem")),
    ("write a document", Landlock, Nothing, |here| write(here.home.join("www/document"))),
    ("append to a document", Landlock, Nothing, |here| {
        OpenOptions::new().append(true).open(here.home.join("www/document")).map(drop)
    }),
    ("make a file in the root", Landlock, Nothing, |here| File::create(here.home.join("www/new")).map(drop)),
    ("make a file outside", Landlock, Nothing, |here| File::create(here.home.join("new")).map(drop)),
    ("make a nameless file in the root", Landlock, Nothing, |here| {
        let flags = OFlags::TMPFILE | OFlags::WRONLY;
        Ok(rustix::fs::openat(&here.www, ".", flags, Mode::from_raw_mode(0o600)).map(drop)?)
    }),
    ("remove a file in the root", Filter, Nothing, |here| fs::remove_file(here.home.join("www/to-remove"))),
    ("rename a file in the root", Filter, Nothing, |here| {
        fs::rename(here.home.join("www/to-rename"), here.home.join("www/renamed"))
    }),
    ("make a folder in the root", Filter, Nothing, |here| fs::create_dir(here.home.join("www/made"))),
    ("make a link in the root", Filter, Nothing, |here| symlink("/", here.home.join("www/made-link"))),
    ("make a second name in the root", Filter, Nothing, |here| {
        fs::hard_link(here.home.join("www/document"), here.home.join("www/second"))
    }),
    ("change a mode", Filter, Nothing, |here| {
        fs::set_permissions(here.home.join("www/document"), fs::Permissions::from_mode(0o644))
    }),
    ("change the times of a file", Filter, Nothing, |here| {
        File::open(here.home.join("www/document"))?.set_modified(std::time::SystemTime::now())
    }),
    ("empty a log", Filter, Nothing, |here| here.log.set_len(0)),
    ("run a shell", Filter, Nothing, |_| match Command::new("/bin/sh").args(["-c", "exit 0"]).status()? {
        status if status.success() => Ok(()),
        status => Err(Error::other(status.to_string())),
    }),
    ("connect over TCP", Filter, Nothing, |here| TcpStream::connect(("127.0.0.1", here.port)).map(drop)),
    ("send over UDP", Filter, Nothing, |here| {
        UdpSocket::bind("127.0.0.1:0")?.send_to(b"out", ("127.0.0.1", here.port)).map(drop)
    }),
    ("connect to a Unix socket", Filter, Nothing, |here| {
        UnixStream::connect(here.home.join("socket")).map(drop)
    }),
    ("bind a new port", Filter, Nothing, |_| TcpListener::bind("127.0.0.1:0").map(drop)),
    ("bind a new Unix socket", Filter, Nothing, |here| {
        UnixListener::bind_addr(&abstract_name(&format!("{}-new", here.port))).map(drop)
    }),
    ("signal another process", Filter, Nothing, |here| Ok(rustix::process::test_kill_process(here.victim)?)),
    ("trace another process", Filter, Capability(CapabilitySet::SYS_PTRACE), |here| {
        let victim = nix::unistd::Pid::from_raw(here.victim.as_raw_nonzero().get());
        Ok(nix::sys::ptrace::seize(victim, nix::sys::ptrace::Options::empty())?)
    }),
    ("mount a file system", Filter, Capability(CapabilitySet::SYS_ADMIN), |here| {
        let place = here.home.join("mounted");
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", &place, "tmpfs", flags, None)?;
        Ok(rustix::mount::unmount(&place, rustix::mount::UnmountFlags::empty())?)
    }),
    ("change the root", Filter, Capability(CapabilitySet::SYS_CHROOT), |_| Ok(rustix::process::chroot("/")?)),
    ("get capabilities back", Filter, Nothing, |here| {
        Ok(rustix::thread::set_capabilities(None, here.capabilities)?)
    }),
    ("become root", Filter, Root, |_| Ok(nix::unistd::setuid(nix::unistd::Uid::from_raw(0))?)),
    ("set a limit", Filter, Nothing, |_| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Core);
        Ok(rustix::process::setrlimit(rustix::process::Resource::Core, limit)?)
    }),
];

pub const MUST_WORK: &[(&str, Attempt)] = &[
    ("read a document", |here| expect(&fs::read(here.home.join("www/document"))?, b"a document")),
    ("read a document in a folder", |here| read(here.home.join("www/folder/page"))),
    ("list the root and a folder", |here| {
        let names = |path| Ok::<_, Error>(fs::read_dir(here.home.join(path))?.count());
        expect_that(names("www")? > 3 && names("www/folder")? == 1)
    }),
    ("open beneath an open root", |here| {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = rustix::fs::openat2(&here.www, "folder/page", OFlags::RDONLY, Mode::empty(), resolve)?;
        read_to_end(file)
    }),
    ("open the root again, and a file below it", |here| {
        let path = here.home.join("www");
        expect_that(path.canonicalize()? == path)?;
        let root = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        let folder = rustix::fs::openat(&root, "folder", OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        read_to_end(rustix::fs::openat(&folder, "page", OFlags::RDONLY, Mode::empty())?)
    }),
    ("read the next release", |here| expect(&fs::read(here.home.join("app/current/which"))?, b"next")),
    ("find out where a relative root is", |_| Path::new(".").canonicalize().map(drop)),
    ("find out where a root by way of another folder is", |here| {
        let path = here.home.join("app/../www/folder/..").canonicalize()?;
        expect_that(path == here.home.join("www"))
    }),
    ("read what is in memory without waiting", |here| {
        let file = File::open(here.home.join("www/document"))?;
        let mut bytes = [0; 10];
        let flags = rustix::io::ReadWriteFlags::NOWAIT;
        let read = rustix::io::preadv2(&file, &mut [IoSliceMut::new(&mut bytes)], 0, flags)?;
        expect(&bytes[..read], b"a document")
    }),
    ("make a file of memory", |_| {
        Ok(rustix::fs::memfd_create("compressed", rustix::fs::MemfdFlags::CLOEXEC).map(drop)?)
    }),
    ("accept, receive, and send a file", |here| {
        let (mut client, _) = here.listener.accept()?;
        let mut word = [0; 4];
        client.read_exact(&mut word)?;
        let file = File::open(here.home.join("www/document"))?;
        rustix::fs::sendfile(&client, &file, Some(&mut 2), 8)?;
        _ = server::sys::unsent(client.as_fd())?;
        client.shutdown(Shutdown::Write)
    }),
    ("write the log", |here| here.log.write_all(b"a line\n")),
    ("pass a descriptor on", |here| {
        let (one, other) = UnixStream::pair()?;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut sent = SendAncillaryBuffer::new(&mut space);
        let descriptors = [here.log.as_fd()];
        sent.push(SendAncillaryMessage::ScmRights(&descriptors));
        rustix::net::sendmsg(&one, &[IoSlice::new(b"x")], &mut sent, SendFlags::empty())?;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut received = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let bytes = &mut [IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(&other, bytes, &mut received, RecvFlags::CMSG_CLOEXEC)?;
        let passed = received.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        File::from(passed.ok_or(ErrorKind::NotFound)?).write_all(b"another line\n")
    }),
    ("start threads with names, and use memory", |_| {
        let work = || vec![1u8; 64 << 20].iter().map(|b| u64::from(*b)).sum::<u64>();
        let threads: Vec<_> =
            (0..4).map(|n| thread::Builder::new().name(format!("worker {n}")).spawn(work)).collect();
        for thread in threads {
            expect_that(thread?.join().is_ok_and(|sum| sum == 64 << 20))?;
        }
        Ok(())
    }),
    ("survive a panic", |_| {
        expect_that(thread::spawn(|| std::panic::resume_unwind(Box::new(()))).join().is_err())
    }),
    ("run a loop with timers, signals and threads that read", |here| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default())?;
        let path = here.home.join("www/document");
        runtime.block_on(async {
            let mut signals = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::pipe())?;
            let read = tokio::task::spawn_blocking(move || fs::read(path)).await??;
            expect(&read, b"a document")?;
            tokio::time::sleep(Duration::from_millis(1)).await;
            // The kernel sends SIGPIPE to a writer without a reader.
            let (writer, reader) = UnixStream::pair()?;
            drop(reader);
            let written = File::from(OwnedFd::from(writer)).write(b"x");
            expect_that(written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe))?;
            expect_that(signals.recv().await.is_some())
        })
    }),
    ("read the user and the working folder", |_| {
        expect_that(
            std::process::id() > 1
                && rustix::process::getrlimit(rustix::process::Resource::Nofile).current.is_some(),
        )
    }),
];

pub fn abstract_name(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(name).expect("a short name without NUL")
}

fn read(path: impl Into<PathBuf>) -> io::Result<()> {
    read_to_end(File::open(path.into())?.into())
}

fn read_to_end(file: OwnedFd) -> io::Result<()> {
    let mut bytes = Vec::new();
    File::from(file).read_to_end(&mut bytes)?;
    expect_that(!bytes.is_empty())
}

fn write(path: impl Into<PathBuf>) -> io::Result<()> {
    OpenOptions::new().write(true).open(path.into()).map(drop)
}

fn expect(found: &[u8], expected: &[u8]) -> io::Result<()> {
    if found == expected { Ok(()) } else { Err(Error::other(format!("{found:?}, and not {expected:?}"))) }
}

fn expect_that(it_is: bool) -> io::Result<()> {
    it_is.then_some(()).ok_or_else(|| Error::other("not what was expected"))
}
