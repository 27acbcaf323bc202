//! Opens files that a configuration names. Opening a FIFO would wait until a process writes to it, and the master with
//! it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file for reading. Errors: also if it is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // For regular files, the flag has no effect.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok(file),
        false if metadata.is_dir() => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn opens_regular_files_alone_and_waits_for_none() {
        let folder = std::env::temp_dir().join(format!("taipan-regular-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let [file, fifo] = ["file", "fifo"].map(|name| folder.join(name));
        std::fs::write(&file, "text").expect("a file can be written");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO can be made");
        let mut text = String::new();
        open(&file).and_then(|mut file| file.read_to_string(&mut text)).expect("it can be read");
        assert_eq!(text, "text");
        for (other, expected) in [
            (fifo.as_path(), "it is not a regular file"),
            (folder.as_path(), "it is a folder"),
            (Path::new("/dev/null"), "it is not a regular file"),
        ] {
            assert_eq!(open(other).expect_err("it is none").to_string(), expected);
        }
        assert_eq!(
            open(&folder.join("none")).map(drop).map_err(|error| error.kind()),
            Err(io::ErrorKind::NotFound)
        );
        std::fs::remove_dir_all(folder).expect("it is our folder");
    }
}
