//! What a chroot lacks: the interpreters of scripts, the loaders and libraries of programs, and the files that they
//! expect. Every path is resolved as it is in there.
//!
//! Reads files and changes nothing. Knows nothing of how findings are printed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use elf::ElfBytes;
use elf::abi::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, PT_INTERP, PT_LOAD};
use elf::endian::AnyEndian;
use elf::string_table::StringTable;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use site::folder::HostFolder;
use site::model::{Action, Host, Interpreter, NamedRoot, Route, Script, Site};
use taipan_http::target::SafePath;

use crate::cli::first_line;

/// Bounds of what is examined. What is beyond them is not reported.
const DEPTH: usize = 8;
const FILES: usize = 10_000;
const PROGRAMS: usize = 1000;
/// Bytes of a program or a library.
const LARGEST: u64 = 256 * 1024 * 1024;

/// Where the loader looks without its cache (ld.so(8)).
const LIBRARY_FOLDERS: [&str; 5] = ["/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib"];

/// A file that the chroot lacks, as a path within it, and what needs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lack {
    pub path: PathBuf,
    pub needed_by: String,
}

struct Jail {
    folder: PathBuf,
    lacks: BTreeMap<PathBuf, String>,
    /// Programs and libraries to examine, and those that were.
    queue: VecDeque<PathBuf>,
    seen: BTreeSet<PathBuf>,
}

/// What the chroot of the site lacks. Empty: nothing, or there is no chroot.
pub fn lacks(site: &Site) -> Vec<Lack> {
    let Some(folder) = site.chroot.clone().filter(|folder| folder.is_dir()) else { return Vec::new() };
    let mut inside = site.clone();
    inside.enter(&folder);
    let mut jail = Jail::of(folder);
    jail.examine(&inside);
    jail.lacks.into_iter().map(|(path, needed_by)| Lack { path, needed_by }).collect()
}

/// The programs beneath the roots of a site without a chroot that are scripts by themselves, with how each is started.
pub fn scripts(site: &Site) -> Vec<(PathBuf, &Script)> {
    let system = Jail::of(PathBuf::from("/"));
    let mut all = Vec::new();
    for host in site.hosts.iter() {
        for route in host.routes.iter() {
            if let Some(script) = route.script.as_deref() {
                all.extend(system.scripts(host, route).into_iter().map(|path| (path, script)));
            }
        }
    }
    all
}

impl Jail {
    fn of(folder: PathBuf) -> Jail {
        Jail { folder, lacks: BTreeMap::new(), queue: VecDeque::new(), seen: BTreeSet::new() }
    }

    fn examine(&mut self, site: &Site) {
        for host in site.hosts.iter() {
            for route in host.routes.iter() {
                self.examine_route(host, route);
            }
            if let Some(users) = &host.users {
                self.require(&users.passwd, "user_folders");
            }
        }
        let commands = site.upstreams.iter().filter_map(|upstream| upstream.managed()?.command.first());
        for command in commands {
            self.require_program(Path::new(command), "an application");
        }
        let runs = site.program_routes().next().is_some();
        if runs || !self.queue.is_empty() {
            self.require(Path::new("/dev/null"), "programs that write to it or read from it");
        }
        if site.has_scripts() {
            self.require(&site.scripts.spool, "request bodies of unknown length (`spool`)");
        }
        while let Some(program) = self.queue.pop_front() {
            self.examine_program(&program);
        }
    }

    fn examine_route(&mut self, host: &Host, route: &Route) {
        if files_of(host, route).is_none() {
            return;
        }
        if let Some(Interpreter::Program(path)) =
            route.lister.as_ref().and_then(|own| own.interpreter.as_ref())
        {
            self.require_program(path, &format!("listings of the route {}", route.name()));
        }
        match route.script.as_ref().map(|script| &script.interpreter) {
            None | Some(Some(Interpreter::Upstream(_))) => {}
            Some(Some(Interpreter::Program(path))) => self.require_program(path, &scripts_of(route)),
            Some(None) => {
                for file in self.scripts(host, route) {
                    if self.is_executable(&file) {
                        self.add_program(file);
                    }
                }
            }
        }
    }

    /// The files that a route executes as they are, if they are executable.
    fn scripts(&self, host: &Host, route: &Route) -> Vec<PathBuf> {
        let runs = route.script.as_ref().is_some_and(|script| script.interpreter.is_none());
        let Some((root, strip, of_host)) = files_of(host, route).filter(|_| runs) else { return Vec::new() };
        let mut files = Vec::new();
        self.files(root, DEPTH, &mut files);
        files.retain(|file| {
            let below = match of_host {
                Some(folder) => folder.below(file),
                None => file.strip_prefix(root).ok(),
            };
            // An alias is beneath the path of its route.
            let is_script = |below: &Path| {
                strip > 0
                    || SafePath::from_path(below)
                        .is_ok_and(|path| std::ptr::eq(host.routes.get(host.routes.find(&path)), route))
            };
            below.is_some_and(is_script)
        });
        files
    }

    /// The regular files beneath a folder of the chroot.
    fn files(&self, folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(self.outside(folder)) else { return };
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            match entry.file_type() {
                _ if found.len() >= FILES => return,
                Ok(kind) if kind.is_dir() && depth > 0 => self.files(&path, depth - 1, found),
                Ok(kind) if kind.is_file() || kind.is_symlink() => found.push(path),
                _ => {}
            }
        }
    }

    /// A path within, as this process sees it. Only for folders: a link in it may lead elsewhere.
    fn outside(&self, path: &Path) -> PathBuf {
        self.folder.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Opens a file as a process in the chroot would.
    fn open(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let root = openat2(
            CWD,
            &self.folder,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::empty(),
        )?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Ok(openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)?.into())
    }

    fn is_there(&self, path: &Path) -> bool {
        // Without permission, it may be there.
        !self.open(path, OFlags::PATH).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    fn is_executable(&self, path: &Path) -> bool {
        use std::os::unix::fs::PermissionsExt;
        let metadata = self.open(path, OFlags::PATH).and_then(|file| file.metadata());
        metadata.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    }

    fn require(&mut self, path: &Path, needed_by: &str) {
        if !self.is_there(path) {
            self.lacks.entry(path.to_owned()).or_insert_with(|| needed_by.to_owned());
        }
    }

    fn require_program(&mut self, path: &Path, needed_by: &str) {
        self.require(path, needed_by);
        self.add_program(path.to_owned());
    }

    fn add_program(&mut self, path: PathBuf) {
        if self.seen.len() < PROGRAMS && self.seen.insert(path.clone()) {
            self.queue.push_back(path);
        }
    }

    /// Requires what a program or a library needs. One that cannot be read, or is of another kind, needs nothing.
    fn examine_program(&mut self, path: &Path) {
        let Some(bytes) = self.open(path, OFlags::RDONLY).ok().and_then(|file| read(file).ok()) else {
            return;
        };
        let needed_by = path.display().to_string();
        if let Some(line) = bytes.strip_prefix(b"#!") {
            if let Some(interpreter) = first_line::interpreter(line) {
                self.require_program(&interpreter, &needed_by);
            }
            return;
        }
        let Some(needs) = Needs::of(&bytes) else { return };
        if let Some(loader) = &needs.loader {
            self.require_program(loader, &needed_by);
        }
        let origin = path.parent().unwrap_or(Path::new("/"));
        let arch = std::env::consts::ARCH;
        let of_machine = ["gnu", "musl"].map(|libc| format!("{arch}-linux-{libc}"));
        let mut folders = needs.folders(origin);
        for folder in LIBRARY_FOLDERS.map(Path::new) {
            folders.push(folder.to_owned());
            folders.extend(of_machine.iter().map(|name| folder.join(name)));
        }
        for library in &needs.libraries {
            let named = Path::new(library);
            let mut places = folders.iter().map(|folder| folder.join(named));
            match places.find(|place| self.is_there(place)) {
                Some(found) => self.add_program(found),
                None => {
                    // Where it is outside is the likely place.
                    let at = folders.iter().map(|folder| folder.join(named)).find(|place| place.exists());
                    let at = at.unwrap_or_else(|| Path::new(LIBRARY_FOLDERS[0]).join(named));
                    self.lacks.entry(at).or_insert_with(|| needed_by.clone());
                }
            }
        }
    }
}

/// The root of a route's files, how many segments of a path are not beneath it, and the folder of the host's name.
fn files_of<'r>(host: &'r Host, route: &'r Route) -> Option<(&'r Path, usize, Option<&'r HostFolder>)> {
    match (&route.action, &host.folder) {
        (Action::Files { root, strip }, _) => Some((root, *strip, None)),
        (Action::NamedFiles(NamedRoot::OfHost), Some(folder)) => Some((&folder.base, 0, Some(folder))),
        _ => None,
    }
}

fn scripts_of(route: &Route) -> String {
    format!("scripts of the route {}", route.name())
}

fn read(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.take(LARGEST).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// What a program in ELF needs.
struct Needs {
    loader: Option<PathBuf>,
    libraries: Vec<String>,
    /// Separated by colons. They may have `$ORIGIN`.
    paths: Vec<String>,
}

impl Needs {
    /// `None`: it is no ELF file, or a malformed one.
    fn of(bytes: &[u8]) -> Option<Needs> {
        let file = ElfBytes::<AnyEndian>::minimal_parse(bytes).ok()?;
        let segments = file.segments()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
        let loader = segments.iter().find(|segment| segment.p_type == PT_INTERP);
        let loader =
            loader.and_then(|segment| file.segment_data(&segment).ok()).map(|data| text(data).into());
        let (mut libraries, mut paths) = (Vec::new(), Vec::new());
        if let Ok(Some(entries)) = file.dynamic() {
            let value = |tag| entries.iter().find(|entry| entry.d_tag == tag).map(|entry| entry.d_val());
            let (address, size) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
            let loaded = segments.iter().find(|segment| {
                let end = segment.p_vaddr.checked_add(segment.p_filesz);
                segment.p_type == PT_LOAD
                    && segment.p_vaddr <= address
                    && end.is_some_and(|end| address < end)
            })?;
            let start = usize::try_from(loaded.p_offset.checked_add(address - loaded.p_vaddr)?).ok()?;
            let strings = bytes.get(start..start.checked_add(usize::try_from(size).ok()?)?)?;
            let strings = StringTable::new(strings);
            for entry in entries.iter() {
                let list = match entry.d_tag {
                    DT_NEEDED => &mut libraries,
                    DT_RPATH | DT_RUNPATH => &mut paths,
                    _ => continue,
                };
                list.push(text(strings.get_raw(usize::try_from(entry.d_val()).ok()?).ok()?));
            }
        }
        Some(Needs { loader, libraries, paths })
    }

    /// Its own folders for libraries.
    fn folders(&self, origin: &Path) -> Vec<PathBuf> {
        let origin = origin.to_string_lossy();
        let expand = |path: &str| path.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin);
        let paths = self.paths.iter().flat_map(|paths| paths.split(':')).filter(|path| !path.is_empty());
        paths.map(|path| expand(path).into()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_program_needs_and_survives_one_that_is_cut() {
        let bytes = fs::read("/proc/self/exe").unwrap();
        let needs = Needs::of(&bytes).expect("it is a program");
        assert!(needs.loader.is_some() && needs.libraries.iter().any(|name| name.starts_with("libc.")));
        for length in (0..bytes.len().min(100_000)).step_by(97) {
            _ = Needs::of(&bytes[..length]);
        }
        for at in 0..512 {
            let mut bad = bytes[..100_000.min(bytes.len())].to_vec();
            bad[at] ^= 0xff;
            _ = Needs::of(&bad);
        }
        assert!(Needs::of(b"#!/bin/sh").is_none());
    }
}
