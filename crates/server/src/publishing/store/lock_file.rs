//! The file with the locks of a root, and what this process has read of it last. All of it runs on helper threads.
//!
//! The file is opened each time, and parsed only if another process has replaced it meanwhile.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;

use dav::locks::Locks;
use rustix::io::Errno;
use site::memory::KEPT_LOCKS;

use super::{open_own, read_whole, replace};
use crate::files::beneath::{Root, Wait};
use crate::files::open::{Stamp, Stat, stat};
use crate::mutex::locked;
use crate::publishing::failure::Failure;
use crate::sys::calls;

const LOCKS: &str = "locks";

/// What a file with locks says.
struct Kept {
    /// As long as the file is open, no other one has its inode. The server replaces the file, and never changes it, so
    /// the stamp is that of this content.
    _file: OwnedFd,
    stamp: Stamp,
    locks: Locks,
}

/// One for each published root of the configuration.
static KEPT: Mutex<BTreeMap<PathBuf, Kept>> = Mutex::new(BTreeMap::new());

/// The locks at this time. `state`: the folder of the server's own files in the root.
pub fn read(root: &Root, state: &OwnedFd, now: i64) -> Result<Locks, Failure> {
    let Some((file, stamp)) = open_own(state, LOCKS)? else { return Ok(Locks::default()) };
    if let Some(kept) = locked(&KEPT).get(&*root.path).filter(|kept| kept.stamp == stamp) {
        return Ok(kept.locks.at(now));
    }
    let Some(text) = read_whole(&file, &stamp)? else { return Ok(Locks::default()) };
    let locks = Locks::parse(&text);
    let current = locks.at(now);
    Kept { _file: file, stamp, locks }.keep(root);
    Ok(current)
}

/// Replaces the locks. Only one request does so at a time.
pub fn write(root: &Root, state: &OwnedFd, locks: &Locks) -> Result<(), Failure> {
    if locks.is_empty() {
        return match calls::unlink(state, LOCKS) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        };
    }
    let file = replace(state, state, LOCKS, locks.text().as_bytes())?;
    // After an error, the file is read by the next request.
    if let Ok(Stat { stamp, .. }) = stat(&file, Wait::Allowed) {
        Kept { _file: file, stamp, locks: locks.clone() }.keep(root);
    }
    Ok(())
}

impl Kept {
    /// Keeps this for later requests, unless it is large.
    fn keep(self, root: &Root) {
        if self.stamp.size <= KEPT_LOCKS {
            let replaced = locked(&KEPT).insert(root.path.to_path_buf(), self);
            // Closes the file that was replaced, which may wait for its disk, when others can read their locks.
            drop(replaced);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::publishing::store::Store;

    /// A file with one lock, whose token has one letter.
    fn file_of(letter: char) -> String {
        format!("{letter}\ta\tresource\texclusive\t100\tann\t\n")
    }

    fn token(locks: &Locks) -> Option<String> {
        locks.on("a").next().map(|lock| lock.token.clone())
    }

    #[test]
    fn a_file_is_read_when_it_was_replaced_and_only_then() {
        let folder = std::env::temp_dir().join(format!("taipan-lock-file-{}", std::process::id()));
        let own = folder.join(site::publishing::STATE_FOLDER);
        fs::create_dir_all(&own).unwrap();
        let store = Store { root: Root::open(&folder).unwrap(), settings: Default::default() };
        let (root, state) = (&store.root, store.state().unwrap());
        let read_token = |now| token(&read(root, &state, now).unwrap());
        assert_eq!(read_token(0), None);
        // Another process replaces the file by one of the same size, as fast as it can.
        for letter in ('a'..='z').cycle().take(200) {
            fs::write(own.join("next"), file_of(letter)).unwrap();
            fs::rename(own.join("next"), own.join("locks")).unwrap();
            assert_eq!(read_token(0), Some(letter.into()));
        }
        assert_eq!((read_token(100), read_token(99).is_some()), (None, true), "only for a time");
        write(root, &state, &Locks::parse(&file_of('A'))).unwrap();
        locked(&KEPT).get_mut(&*root.path).unwrap().locks = Locks::parse(&file_of('B'));
        assert_eq!(read_token(0), Some("B".into()), "the file is not read");
        write(root, &state, &Locks::default()).unwrap();
        assert_eq!(read_token(0), None);
        fs::write(own.join("locks"), file_of('C') + &"x".repeat(KEPT_LOCKS as usize)).unwrap();
        assert_eq!(read_token(0), Some("C".into()));
        assert_eq!(token(&locked(&KEPT).get(&*root.path).unwrap().locks), Some("B".into()), "it is long");
        fs::remove_dir_all(&folder).unwrap();
    }
}
