//! The process of a logger. It ends when the master and all writers have left it and their lines are delivered, or when
//! the time for that is over.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::time::Duration;

use rustix::thread::CapabilitySet;
use site::endpoint::Resolution;
use site::model::{NewPrivileges, Sink};
use site::rotation::Rotation;
use tokio::io::Interest;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout_at};

pub use super::reader::DELIVERY;

use super::collector::{self, Encryption};
use super::files::{Finishing, Names, RotatedFile};
use super::finishing;
use super::lines::WholeLines;
use super::message::LoggerCommand;
use super::reader::Reader;
use crate::process::child::{self, Privileges};
use crate::process::ipc::{Channel, Received};
use crate::process::privilege::Identity;
use crate::process::sandbox;
use crate::process::supervisor::what_to_do;
use crate::resolver::{Resolver, SystemNames};
use crate::tasks::spawn_local;
use crate::{clock, sys};

/// How long the process takes to end at most, when its last writer has ended.
pub const LONGEST_END: Duration = Duration::from_secs(15);
/// Bytes of one read.
const READ: usize = 64 * 1024;
/// For folders of other users, and for the group of new files.
const FILES: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER);

/// What a logger writes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// Files, with the rights of the master.
    Files(Vec<Sink>, Rotation),
    /// Commands and peers, with the account that serves.
    Readers(Vec<Sink>),
}

impl Targets {
    pub fn sinks(&self) -> &[Sink] {
        match self {
            Targets::Files(sinks, _) | Targets::Readers(sinks) => sinks,
        }
    }
}

/// What the process starts with.
pub struct LoggerSetup {
    pub targets: Targets,
    /// Bytes that may wait for a command or a peer.
    pub queue: usize,
    pub resolution: Resolution,
    pub identity: Option<Identity>,
    pub new_privileges: NewPrivileges,
    pub master: Channel,
    /// Its own messages, if one of its targets is the error log.
    pub own: Option<(u32, OwnedFd)>,
    /// Counts the log lines that it drops.
    pub dropped: &'static AtomicU64,
}

/// Runs until its work is done, and returns the exit code. The process must have one thread.
pub fn run(setup: LoggerSetup) -> u8 {
    child::exit_code("logger", serve(setup))
}

fn serve(setup: LoggerSetup) -> Result<(), String> {
    let LoggerSetup { targets, queue, resolution, identity, new_privileges, master, own, dropped } = setup;
    // The account that serves may not be able to read the files.
    let encryptions: Vec<Encryption> = targets.sinks().iter().map(encryption_of).collect();
    let privileges = match &targets {
        Targets::Files(..) => Privileges {
            chroot: None,
            identity: None,
            new_privileges: NewPrivileges::None,
            keeps: FILES & sandbox::held(),
        },
        Targets::Readers(_) => {
            Privileges { chroot: None, identity, new_privileges, keeps: CapabilitySet::empty() }
        }
    };
    privileges.assume()?;
    let (all, finished) = match targets {
        Targets::Files(sinks, rotation) => {
            let (files, finished) = open_files(sinks, &rotation, dropped)?;
            (files, Some(finished))
        }
        Targets::Readers(sinks) => {
            let readers = sinks.into_iter().zip(encryptions);
            let reader =
                |(sink, encryption)| Target::Reader(Reader::new(sink, encryption, queue, dropped).into());
            (readers.map(reader).collect(), None)
        }
    };
    let logger = Rc::new(Logger { targets: all, writers: Cell::new(0), left: Notify::new() });
    // The thread that finishes files ends with their last sender, which is the logger's. What it has not finished is
    // found at the next start.
    let result = child::run_loop(logger.work(master, own, &resolution));
    if let Some(finished) = finished {
        _ = finished.recv_timeout(DELIVERY);
    }
    result
}

fn encryption_of(sink: &Sink) -> Encryption {
    match sink {
        Sink::Collector(collector) => collector::encryption(collector),
        Sink::Stdout | Sink::Stderr | Sink::Syslog | Sink::File(_) | Sink::Command(_) | Sink::Tcp(_) => {
            Ok(None)
        }
    }
}

/// Also returns what is disconnected when all files are finished.
fn open_files(
    sinks: Vec<Sink>,
    rotation: &Rotation,
    dropped: &'static AtomicU64,
) -> Result<(Vec<Target>, mpsc::Receiver<()>), String> {
    let (sender, paths) = mpsc::channel();
    let (done, finished) = mpsc::channel();
    let names = Names::default();
    let finishing = Finishing { paths: sender, names: names.clone() };
    let of_thread = rotation.clone();
    let work = move || {
        finishing::run(&of_thread, &paths, &names);
        drop::<mpsc::Sender<()>>(done);
    };
    std::thread::Builder::new()
        .name("compress".into())
        .spawn(work)
        .map_err(|error| format!("cannot start a thread: {error}{}", what_to_do(&error)))?;
    let paths =
        sinks.into_iter().filter_map(|sink| if let Sink::File(path) = sink { Some(path) } else { None });
    let open = |path: PathBuf| {
        let file = RotatedFile::open(path, rotation.clone(), clock::wall(), finishing.clone(), dropped);
        Target::File(Box::new(RefCell::new(file)))
    };
    Ok((paths.map(open).collect(), finished))
}

struct Logger {
    targets: Vec<Target>,
    /// Pipes whose end has not come, without its own.
    writers: Cell<usize>,
    left: Notify,
}

enum Target {
    File(Box<RefCell<RotatedFile>>),
    Reader(Rc<Reader>),
}

impl Target {
    fn write(&self, lines: &[u8]) {
        match self {
            Target::File(file) => file.borrow_mut().write(lines, clock::wall()),
            Target::Reader(reader) => reader.push(lines),
        }
    }
}

impl Logger {
    async fn work(
        self: Rc<Logger>,
        master: Channel,
        own: Option<(u32, OwnedFd)>,
        resolution: &Resolution,
    ) -> io::Result<()> {
        let master = sys::watch(master, Interest::READABLE)?;
        let feeds = self.feed_readers(resolution);
        if let Some((target, pipe)) = own {
            self.add_writer(target, pipe, Counting::No);
        }
        // Ends with the master, or when the master needs the logger no more.
        loop {
            tokio::select! {
                command = master.async_io(Interest::READABLE, Channel::receive::<LoggerCommand>) => match command {
                    Ok(Received::Message(LoggerCommand::Writer { target, pipe })) => {
                        self.add_writer(target, pipe, Counting::Yes);
                    }
                    Ok(Received::Message(LoggerCommand::Reopen)) => {
                        self.files().for_each(|file| file.borrow_mut().reopen(clock::wall()));
                    }
                    Ok(Received::Message(LoggerCommand::Done(done))) => drop(done),
                    // A process without its pipe would lose its lines: another logger takes the place of this one.
                    Ok(Received::End) | Err(_) => break,
                },
                () = self.next_rotation() => {
                    self.files().for_each(|file| file.borrow_mut().rotate_if_due(clock::wall()));
                }
            }
        }
        while self.writers.get() > 0 {
            self.left.notified().await;
        }
        let until = tokio::time::Instant::now() + LONGEST_END;
        self.readers().for_each(|reader| reader.end());
        for feed in feeds {
            // Its task ends a reader that does not take the last lines.
            _ = timeout_at(until, feed).await;
        }
        Ok(())
    }

    /// Starts a task for each command and peer.
    fn feed_readers(&self, resolution: &Resolution) -> Vec<JoinHandle<()>> {
        let has_names = self.readers().any(|reader| reader.has_name());
        let resolver =
            has_names.then(|| Resolver::new(resolution, SystemNames::read()).ok()).flatten().map(Rc::new);
        let feed = |reader: &Rc<Reader>| {
            let (reader, resolver) = (reader.clone(), resolver.clone());
            spawn_local(async move { reader.feed(resolver.as_deref()).await })
        };
        self.readers().map(feed).collect()
    }

    fn files(&self) -> impl Iterator<Item = &RefCell<RotatedFile>> {
        self.targets.iter().filter_map(|target| match target {
            Target::File(file) => Some(&**file),
            Target::Reader(_) => None,
        })
    }

    fn readers(&self) -> impl Iterator<Item = &Rc<Reader>> {
        self.targets.iter().filter_map(|target| match target {
            Target::Reader(reader) => Some(reader),
            Target::File(_) => None,
        })
    }

    /// Waits until a file may be due: at most a minute, because the clock may be set.
    async fn next_rotation(&self) {
        let due = self.files().filter_map(|file| file.borrow().due()).min();
        let wait = due.map_or(60, |due| (due - clock::wall()).clamp(1, 60));
        sys::release_when_parked();
        sleep(Duration::from_secs(wait as u64)).await;
    }

    fn add_writer(self: &Rc<Logger>, target: u32, pipe: OwnedFd, counting: Counting) {
        if self.targets.len() <= target as usize {
            return;
        }
        let counted = usize::from(counting == Counting::Yes);
        self.writers.update(|count| count + counted);
        let logger = self.clone();
        spawn_local(async move {
            logger.receive(target as usize, pipe).await;
            logger.writers.update(|count| count - counted);
            logger.left.notify_one();
        });
    }

    /// Passes lines on until the writer has closed its end.
    async fn receive(&self, target: usize, pipe: OwnedFd) {
        let target = &self.targets[target];
        let Ok(pipe) = rustix::io::ioctl_fionbio(&pipe, true)
            .map_err(io::Error::from)
            .and_then(|()| sys::watch(pipe, Interest::READABLE))
        else {
            return;
        };
        let mut lines = WholeLines::default();
        let mut bytes = vec![0; READ];
        loop {
            let read =
                pipe.async_io(Interest::READABLE, |pipe| Ok(rustix::io::read(pipe, &mut bytes)?)).await;
            match read {
                Ok(count) if count > 0 => lines.receive(&bytes[..count], |whole| target.write(whole)),
                _ => break,
            }
            // One writer that never stops must not keep the others waiting.
            tokio::task::yield_now().await;
        }
        lines.finish(|whole| target.write(whole));
    }
}

/// Whether the logger stays for this writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counting {
    Yes,
    No,
}
