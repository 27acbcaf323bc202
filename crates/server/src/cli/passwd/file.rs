//! Reads a password file, and replaces it whole: a server that reads it meanwhile has the old one or the new one.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use auth::mistake::MAX_FILE;

use super::Failure;
use crate::process::privileged_file::folder_of;

/// The mode of a new file: its group, which is that of the folder, may read it.
const NEW_MODE: u32 = 0o640;

/// A file that no other `taipan passwd` changes meanwhile: the folder is locked.
pub struct Locked<'p> {
    path: &'p Path,
    folder_path: PathBuf,
    folder: File,
}

impl<'p> Locked<'p> {
    pub fn open(path: &'p Path) -> Result<Self, Failure> {
        let folder_path = folder_of(path).to_owned();
        let folder = File::open(&folder_path).map_err(|error| of(&folder_path, &error))?;
        folder.lock().map_err(|error| of(&folder_path, &error))?;
        Ok(Self { path, folder_path, folder })
    }

    /// `None`: there is no such file.
    pub fn read(&self) -> Result<Option<Vec<u8>>, Failure> {
        read(self.path)
    }

    /// Replaces the file, or creates it. Owner, group and mode stay.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let before = regular(self.path)?;
        let name = self
            .path
            .file_name()
            .ok_or_else(|| Failure::File(format!("{} is not the name of a file", self.path.display())))?;
        let mut new = OsString::from(".");
        new.push(name);
        new.push(format!(".{}.new", std::process::id()));
        let new = self.folder_path.join(new);
        let written = self.write_new(&new, before.as_ref(), bytes);
        let replaced =
            written.and_then(|()| fs::rename(&new, self.path)).and_then(|()| self.folder.sync_all());
        replaced.map_err(|error| {
            // The rename may have succeeded.
            _ = fs::remove_file(&new);
            of(self.path, &error)
        })
    }

    fn write_new(&self, new: &Path, before: Option<&Metadata>, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
        let own = file.metadata()?;
        let mode = match before {
            Some(before) => {
                if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
                    fchown(&file, Some(before.uid()), Some(before.gid())).map_err(|error| {
                        io::Error::new(
                            error.kind(),
                            format!("its owner cannot be kept: {error}; run as its owner"),
                        )
                    })?;
                }
                before.mode() & 0o7777
            }
            None => {
                let group = self.folder.metadata()?.gid();
                // Without that group, the mode gives its own group no rights.
                let has_group = own.gid() == group || fchown(&file, None, Some(group)).is_ok();
                if has_group { NEW_MODE } else { 0o600 }
            }
        };
        file.write_all(bytes)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    }
}

/// `None`: there is no such file.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    if regular(path)?.is_none() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| of(path, &error))?;
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes).map_err(|error| of(path, &error))?;
    Ok(Some(bytes))
}

/// A link is not followed: replacing it would leave the file that it leads to as it is.
fn regular(path: &Path) -> Result<Option<Metadata>, Failure> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(found)),
        Ok(found) if found.is_symlink() => {
            let target = fs::canonicalize(path).or_else(|_| fs::read_link(path)).unwrap_or_default();
            let (path, target) = (path.display(), target.display());
            Err(Failure::File(format!("{path} is a link; name the file itself: {target}")))
        }
        Ok(_) => Err(Failure::File(format!("{} is not a regular file", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(of(path, &error)),
    }
}

fn of(path: &Path, error: &io::Error) -> Failure {
    let what_to_do = match error.kind() {
        // Without the file, one is created; without its folder, none can be.
        io::ErrorKind::NotFound => "; create this folder first",
        io::ErrorKind::PermissionDenied => "; run as its owner",
        _ => "",
    };
    Failure::File(format!("{}: {error}{what_to_do}", path.display()))
}
