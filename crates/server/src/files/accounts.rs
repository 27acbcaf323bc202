//! The text of files with accounts (passwd(5)). It is read once, and again when the file has changed, as far as the
//! sandbox lets the process read it. All threads share it.
//!
//! Knows nothing of what is in it.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::mutex::locked;
use crate::process::privilege;
use crate::{log, regular_file};

/// Bytes of a file. What follows is not read.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

static TEXTS: Mutex<Option<HashMap<PathBuf, Text>>> = Mutex::new(None);

#[derive(Clone)]
struct Text {
    stamp: Stamp,
    bytes: Arc<[u8]>,
}

/// Inode, size, and time of change.
type Stamp = (u64, u64, i64, i64);

/// Waits for the disk. Empty: the file cannot be read.
pub fn read(path: &Path) -> Arc<[u8]> {
    let found = path.metadata().map(|metadata| stamp(&metadata));
    let known = locked(&TEXTS).as_ref().and_then(|all| all.get(path).cloned());
    if let (Some(known), Ok(stamp)) = (&known, &found)
        && known.stamp == *stamp
    {
        return known.bytes.clone();
    }
    let text = match read_whole(path) {
        Ok(text) => text,
        Err(error) => {
            let shown = privilege::shown(path);
            let bytes = known.map_or_else(|| Arc::from([]), |known| known.bytes);
            match bytes.is_empty() {
                true => log::error(format_args!(
                    "cannot read the accounts in {shown} ({error}): no user has a folder"
                )),
                // The sandbox allows no new file.
                false => log::info(format_args!("{shown} has changed; `taipan reload` reads it again")),
            }
            // Until the file changes once more.
            let Ok(stamp) = found else { return bytes };
            Text { stamp, bytes }
        }
    };
    let bytes = text.bytes.clone();
    locked(&TEXTS).get_or_insert_default().insert(path.to_owned(), text);
    bytes
}

fn read_whole(path: &Path) -> io::Result<Text> {
    let file = regular_file::open(path)?;
    let stamp = stamp(&file.metadata()?);
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(Text { stamp, bytes: bytes.into() })
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.ino(), metadata.size(), metadata.ctime(), metadata.ctime_nsec())
}
