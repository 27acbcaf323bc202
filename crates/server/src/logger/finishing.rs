//! A thread with the lowest priority that compresses rotated files, and removes those that are not kept.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use site::rotation::Rotation;
use taipan_http::negotiate::Coding;

use super::files::Names;
use crate::clock;
use crate::encoder::{self, Effort};
use crate::log;
use crate::mutex::locked;
use crate::process::privileged_file::Location;

/// Of the nice values, the lowest priority.
const NICE: i32 = 19;
/// A rotated file that another process still writes is tried again after so long, and one that could not be compressed
/// at first.
const RETRY: Duration = Duration::from_secs(5);
/// The longest pause after several failures, as on a full disk.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
const READ: usize = 64 * 1024;

/// What became of a rotated file.
enum Finished {
    Done,
    /// Another process still writes to it.
    IsWritten,
}

/// When the rotated files of a log are tried again.
struct Attempt {
    due: Instant,
    /// After the next failure.
    pause: Duration,
}

/// Works on the logs whose paths are sent, until the sender is dropped.
pub fn run(rotation: &Rotation, paths: &Receiver<PathBuf>, names: &Names) {
    // Without it, the thread only competes with the others.
    _ = rustix::process::setpriority_process(None, NICE);
    let mut left: BTreeMap<PathBuf, Attempt> = BTreeMap::new();
    loop {
        let due = left.values().map(|attempt| attempt.due).min();
        let received = match due {
            None => paths.recv().map_err(Into::into),
            Some(due) => paths.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match received {
            Ok(path) => _ = left.insert(path, Attempt { due: Instant::now(), pause: RETRY }),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        left.retain(|path, attempt| {
            if attempt.due > Instant::now() {
                return true;
            }
            let pause = match finish(path.clone(), rotation, names) {
                Ok(Finished::Done) => return false,
                Ok(Finished::IsWritten) => RETRY,
                Err(why) => {
                    let pause = attempt.pause;
                    attempt.pause = (pause * 2).min(LONGEST_PAUSE);
                    log::error(format_args!(
                        "rotated files of {}: {why}; it is tried again in {} s",
                        path.display(),
                        pause.as_secs()
                    ));
                    pause
                }
            };
            attempt.due = Instant::now() + pause;
            true
        });
    }
}

fn finish(path: PathBuf, rotation: &Rotation, names: &Names) -> Result<Finished, String> {
    let location = Location::of(&path).map_err(|why| why.to_string())?;
    let base = location.name().to_string_lossy().into_owned();
    let files = |location: &Location| location.entries().map_err(|errno| errno.to_string());
    let mut finished = Ok(Finished::Done);
    if let Some(coding) = rotation.compress {
        let all = files(&location)?;
        for (name, _) in all.iter().filter(|(name, _)| rotation.is_to_be_compressed(&base, name)) {
            match compress(&location, name, coding, rotation, names) {
                Ok(Finished::Done) => {}
                Ok(Finished::IsWritten) => finished = finished.map(|_| Finished::IsWritten),
                Err(why) => {
                    finished = Err(format!("cannot compress {name}: {why}"));
                    break;
                }
            }
        }
    }
    // Also on a full disk, where it makes room.
    let _held = locked(names);
    for name in rotation.removed(&base, clock::wall(), &files(&location)?) {
        location.remove_entry(OsStr::new(&name)).map_err(|errno| format!("cannot remove {name}: {errno}"))?;
    }
    finished
}

fn compress(
    location: &Location,
    name: &str,
    coding: Coding,
    rotation: &Rotation,
    names: &Names,
) -> Result<Finished, String> {
    let text = |errno: Errno| errno.to_string();
    let mut file = match location.open_entry(OsStr::new(name)) {
        // It was removed, or has another number now.
        Err(Errno::NOENT) => return Ok(Finished::IsWritten),
        other => File::from(other.map_err(text)?),
    };
    // Each process that writes to a log has a shared lock on it.
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(Finished::IsWritten);
    }
    let own = rustix::fs::fstat(&file).map_err(text)?;
    let part = format!(".{}.compressing", location.name().to_string_lossy());
    _ = location.remove_entry(OsStr::new(&part));
    let to = File::from(location.create_entry(OsStr::new(&part)).map_err(|why| why.to_string())?);
    let written = encode(&mut file, to, coding);
    // A rotation may have given it another number.
    let _held = locked(names);
    let renamed = written.and_then(|()| {
        let entries = location.entries().map_err(text)?;
        let is_it = |name: &String| {
            location.inode(OsStr::new(name)).is_ok_and(|found| found == (own.st_dev, own.st_ino))
        };
        let present = entries.into_iter().map(|(name, _)| name).find(is_it).ok_or("it was removed")?;
        location
            .rename_entry(OsStr::new(&part), OsStr::new(&format!("{present}{}", rotation.extension())))
            .map_err(text)?;
        location.remove_entry(OsStr::new(&present)).map_err(text)
    });
    if renamed.is_err() {
        // If it cannot be removed, the next one replaces it.
        _ = location.remove_entry(OsStr::new(&part));
    }
    renamed.map(|()| Finished::Done)
}

fn encode(from: &mut File, mut to: File, coding: Coding) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut encoder = encoder::new(coding, Effort::Quick, None).map_err(text)?;
    let (mut bytes, mut out) = (vec![0; READ], Vec::new());
    loop {
        let count = from.read(&mut bytes).map_err(text)?;
        if count == 0 {
            break;
        }
        encoder.write(&bytes[..count], &mut out).map_err(text)?;
        to.write_all(&out).map_err(text)?;
        out.clear();
    }
    encoder.finish(&mut out).map_err(text)?;
    to.write_all(&out).map_err(text)?;
    // The plain file is removed next.
    to.sync_all().map_err(text)
}
