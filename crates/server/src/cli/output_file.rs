//! A file that a command writes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces or creates a file: a reader sees the old one or the new one. A link stays one, and what it leads to is
/// replaced. A device or a FIFO gets the bytes.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => File::options().write(true).open(path)?.write_all(bytes),
        Ok(_) => replace(&fs::canonicalize(path)?, bytes),
        Err(error) if path.is_symlink() => Err(error),
        Err(_) => replace(path, bytes),
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut part = path.file_name().ok_or_else(|| io::Error::other("it is no file"))?.to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(part);
    let written = File::create_new(&part)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // Nothing is left behind.
        _ = fs::remove_file(&part);
    }
    written
}
