//! The site that is served while calls fail: a folder with a file of every kind, and its logs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use site::host::Hosts;
use site::model::{AccessLog, Action, FileRules, Host, Listing, LogFormat, Route, Sink, Site};
use site::route::{Pattern, Routes};
use taipan_http::status::Status;
use taipan_http::target::SafePath;

/// Larger files are not cached in memory.
const CACHED: u64 = 8 * 1024;
/// The modification time of all files.
const MODIFIED: Duration = Duration::from_secs(1_700_000_000);
/// The age up to which cache entries are not checked again: longer than a run, so that runs do not differ.
pub const UNCHANGED: Duration = Duration::from_secs(3600);

pub struct Fixture {
    base: PathBuf,
    files: Vec<(&'static str, Vec<u8>)>,
    /// How far the logs have been read.
    read: RefCell<HashMap<&'static str, u64>>,
}

impl Fixture {
    pub fn new() -> Fixture {
        let base = std::env::temp_dir().join(format!("taipan-faults-{}", std::process::id()));
        _ = fs::remove_dir_all(&base);
        for folder in ["root/folder/sub", "root/pages"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        let notes = text(3000);
        let files = vec![
            ("404.html", b"<p>There is nothing here.</p>\n".to_vec()),
            ("big", text(250_000)),
            ("folder/one", text(1)),
            ("folder/two", text(22)),
            ("notes.txt.gz", gzip(&notes)),
            ("notes.txt", notes),
            ("packed.gz", gzip(&text(150_000))),
            ("pages/index.html", b"<p>Welcome.</p>\n".to_vec()),
            ("small", text(1000)),
            ("target", text(500)),
        ];
        let fixture = Fixture { base, files, read: RefCell::default() };
        let root = fixture.root();
        std::os::unix::fs::symlink("one", root.join("folder/link")).unwrap();
        std::os::unix::fs::symlink(root.join("target"), root.join("absolute")).unwrap();
        fixture.restore();
        fixture.look_for_precompressed_files();
        fixture
    }

    /// From now on the kernel knows those that are absent, and no lookup has to wait.
    fn look_for_precompressed_files(&self) {
        for name in self.files.iter().map(|(name, _)| *name).chain(["folder/link", "absolute"]) {
            for extension in [".br", ".zst", ".gz"] {
                _ = fs::metadata(self.root().join(name.to_owned() + extension));
            }
        }
    }

    /// Restores the original files.
    pub fn restore(&self) {
        for (name, content) in &self.files {
            let mut file = File::create(self.root().join(name)).unwrap();
            file.write_all(content).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + MODIFIED).unwrap();
        }
        for folder in ["folder/sub", "folder"] {
            let folder = File::open(self.root().join(folder)).unwrap();
            folder.set_modified(SystemTime::UNIX_EPOCH + MODIFIED).unwrap();
        }
    }

    pub fn content(&self, name: &str) -> &[u8] {
        let found = self.files.iter().find(|(file, _)| *file == name);
        &found.unwrap_or_else(|| panic!("there is no file {name}")).1
    }

    pub fn root(&self) -> PathBuf {
        self.base.join("root")
    }

    /// The path of a Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.base.join("socket")
    }

    pub fn site(&self) -> Site {
        let action = Action::Files { root: self.root(), strip: 0 };
        let route = Route {
            files: FileRules { listing: Listing::On, ..FileRules::default() }.into(),
            error_pages: vec![(Status::NOT_FOUND, SafePath::parse("/404.html").unwrap().into_owned())],
            ..Route::new(Pattern::EVERYTHING, action)
        };
        let host = Host {
            names: Vec::new(),
            routes: Routes::only(route),
            addresses: Vec::new(),
            canonical: None,
            folder: None,
            users: None,
            access_log: None,
            tls: Default::default(),
        };
        let mut site = Site { hosts: Hosts::only(host), ..Site::folder(self.root(), Vec::new()) };
        site.cache.file = CACHED;
        (site.cache.check, site.cache.missing) = (UNCHANGED, UNCHANGED);
        site.log.access = Some(AccessLog { sink: self.log("access"), format: LogFormat::Json });
        site.log.error = self.log("error");
        site
    }

    /// The lines of a log since the last call.
    pub fn take_lines(&self, name: &'static str) -> Vec<String> {
        let mut read = self.read.borrow_mut();
        let from = read.entry(name).or_default();
        let mut file = File::open(self.base.join(name)).unwrap();
        file.seek(SeekFrom::Start(*from)).unwrap();
        let mut text = String::new();
        *from += file.read_to_string(&mut text).unwrap() as u64;
        text.lines().map(str::to_owned).collect()
    }

    fn log(&self, name: &str) -> Sink {
        Sink::File(self.base.join(name))
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.base);
    }
}

/// The number of descriptors of this process.
pub fn descriptors() -> usize {
    fs::read_dir(Path::new("/proc/self/fd")).unwrap().count()
}

/// Reproducible bytes that neither repeat soon nor compress well.
fn text(length: usize) -> Vec<u8> {
    let mut state = length as u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'0' + (state >> 58) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}
