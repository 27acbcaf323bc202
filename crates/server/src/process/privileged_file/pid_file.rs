//! The pid file. A lock on it says that the process still runs, so that no other one writes the same file: signals
//! would go to the wrong server, and the file would vanish while one of them runs.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat};
use rustix::io::Errno;

use super::{ATTEMPTS, Location, Refusal};

const MODE: Mode = Mode::from_raw_mode(0o644);
/// Bytes of a process ID that is shown in a message.
const SHOWN: u64 = 20;

pub struct PidFile {
    path: PathBuf,
    /// Its lock lasts as long as it is open.
    file: File,
}

/// Who may have the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    None,
    /// This one replaces it.
    Predecessor,
    /// It serves the same, and keeps its file.
    Sibling,
}

impl PidFile {
    /// Writes the ID of this process. `None`: a sibling has the file. Errors: the reason, with what to do.
    pub fn write(path: &Path, holder: Holder) -> Result<Option<PidFile>, String> {
        let write = || -> Result<Option<PidFile>, Refusal> {
            let location = Location::of_root(path)?;
            let Some(mut file) = open(&location, holder)? else { return Ok(None) };
            let text = format!("{}\n", std::process::id());
            // In this order: on a full disk, the block of a file that was truncated may be lost to another program.
            let written = file.write_all(text.as_bytes()).and_then(|()| file.set_len(text.len() as u64));
            if written.is_err() && file.metadata().is_ok_and(|found| found.len() == 0) {
                // It was created in vain.
                _ = location.remove();
            }
            written.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
            Ok(Some(PidFile { path: path.to_owned(), file }))
        };
        write().map_err(|why| super::cannot_write_pid_file(path, &why))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The predecessor has ended, and with it its lock.
    pub fn take_over(&self) {
        _ = flock(&self.file, FlockOperation::NonBlockingLockExclusive);
    }

    /// Removes the file, unless the path leads to another one by now. One that cannot be removed stays, and the next
    /// start replaces it.
    pub fn remove(&self) {
        let Ok(location) = Location::of(&self.path) else { return };
        let own = fstat(&self.file).map(|found| (found.st_dev, found.st_ino));
        if own.is_ok_and(|own| location.inode(location.name()) == Ok(own)) {
            _ = location.remove();
        }
    }
}

/// Opens the file and locks it. `None`: a sibling has it.
fn open(location: &Location, holder: Holder) -> Result<Option<File>, Refusal> {
    for _ in 0..ATTEMPTS {
        let file = File::from(location.open(OFlags::empty(), MODE)?);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if holder == Holder::None => return Err(in_use(location)),
            Err(Errno::WOULDBLOCK) if holder == Holder::Sibling => return Ok(None),
            // Not every file system has locks.
            Err(_) => return Ok(Some(file)),
            // Its process may have removed it in between.
            Ok(()) if fstat(&file)?.st_nlink == 0 => {}
            Ok(()) => return Ok(Some(file)),
        }
    }
    Err(Errno::EXIST.into())
}

fn in_use(location: &Location) -> Refusal {
    let mut text = String::new();
    let read = |file| File::from(file).take(SHOWN).read_to_string(&mut text);
    _ = location.open_entry(location.name()).map(read);
    let pid = text.trim().parse::<u32>().map_or(String::new(), |pid| format!(" {pid}"));
    Refusal::Unsafe(format!(
        "the process{pid} runs with it; name a file of its own in each configuration, or end that process first"
    ))
}
