//! A test's own folder, removed when the test ends.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use crate::tools::{output_of, tool};

/// A new empty folder, removed with all its content when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    #[expect(clippy::new_without_default, reason = "a default that touches the disk would surprise")]
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // A test that was killed may have left the folder of a process with the same number.
        let path = loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("taipan-e2e-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot make {}: {error}", path.display()),
            }
        };
        let path = path.canonicalize().expect("it is there");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates a file of this name, and its parent folders.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.on_the_way(name);
        fs::write(&path, content).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
        path
    }

    /// Creates an executable file of this name. Another process writes it: if this process had it open for
    /// writing while another thread starts a program, the child would inherit the descriptor, and executing
    /// the file would fail (`execve(2)`, ETXTBSY).
    pub fn script(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.on_the_way(name);
        let mut shell = tool("sh");
        shell.args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"]).arg(&path).stdin(Stdio::piped());
        let mut child = shell.spawn().expect("a shell starts");
        let mut stdin = child.stdin.take().expect("it is a pipe");
        let written = stdin.write_all(text.as_ref());
        drop(stdin);
        let status = child.wait().expect("it is our child");
        assert!(written.is_ok() && status.success(), "cannot write {}", path.display());
        path
    }

    /// Creates a folder of this name, and its parents.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap_or_else(|e| panic!("cannot make {}: {e}", path.display()));
        path
    }

    /// Creates a symbolic link of this name.
    pub fn symlink(&self, name: &str, to: impl AsRef<Path>) -> PathBuf {
        let path = self.on_the_way(name);
        symlink(to, &path).unwrap_or_else(|e| panic!("cannot link {}: {e}", path.display()));
        path
    }

    /// Sets the modification time of a file, in seconds since 1970.
    pub fn set_modified(&self, name: &str, seconds: u64) {
        let path = self.0.join(name);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let set = File::open(&path).and_then(|file| file.set_modified(time));
        set.unwrap_or_else(|e| panic!("cannot date {}: {e}", path.display()));
    }

    fn on_the_way(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        let parent = path.parent().expect("it is below the folder");
        fs::create_dir_all(parent).unwrap_or_else(|e| panic!("cannot make {}: {e}", parent.display()));
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.0).is_err() {
            // A disk is still mounted in it. The system cleans up what cannot be removed even then.
            mounts_beneath(&self.0).iter().for_each(|mount| unmount(mount));
            _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// From `proc_pid_mountinfo(5)`.
fn mounts_beneath(folder: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().filter_map(|mount| mount.split(' ').nth(4));
    points.map(PathBuf::from).filter(|point| point.starts_with(folder)).collect()
}

fn unmount(at: &Path) {
    _ = output_of(tool("umount").arg("-l").arg(at));
}

/// A disk of its own on a folder, unmounted when dropped.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one on an empty folder, by `tmpfs(5)` with these options. Where nothing can be mounted, `tests/run` leaves
    /// tests with `mounted` in their names out.
    pub fn mount(at: &Path, options: &str) -> SmallDisk {
        let mut mount = tool("mount");
        let mounted = output_of(mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at));
        assert!(mounted.status.success(), "no disk is mounted: {mounted:?}");
        SmallDisk(at.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}
