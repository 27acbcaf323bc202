//! The `httpd.conf` files of the folders beneath HOME, which busybox reads on the way to a file.

use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::finding::Findings;

const NAME: &str = "httpd.conf";
/// Folders in which a file is looked for, and how deep.
const MAX_FOLDERS: usize = 10_000;
const MAX_DEPTH: usize = 64;

/// What was found, by the paths of the folders.
#[derive(Default)]
pub struct Found {
    pub files: Vec<(String, PathBuf)>,
    /// Links to a folder around them with such files, whose rules would hold at paths without end.
    pub loops: Vec<String>,
    /// Folders of HOME with more folders than are looked through.
    pub too_large: Vec<String>,
}

/// A folder that is still to be read.
struct Folder {
    /// `None`: a name in it is not UTF-8.
    path: Option<String>,
    place: PathBuf,
    /// Where it and those around it really are.
    real: Vec<PathBuf>,
}

/// What is beneath one folder.
#[derive(Default)]
struct Part {
    files: Vec<(Option<String>, PathBuf)>,
    loops: Vec<(String, PathBuf)>,
    /// Where such files really are.
    with_file: Vec<PathBuf>,
    folders: usize,
}

pub fn find(home: &Path, disk: &dyn Disk, findings: &mut Findings) -> Found {
    let own = Folder { path: Some(String::new()), place: home.to_owned(), real: vec![disk.real(home)] };
    let mut all = Part::default();
    let first = all.read(own, disk);
    // The one of HOME counts where a loop leads to it, and is read elsewhere.
    all.files.clear();
    let mut found = Found::default();
    for folder in first {
        // One that is too large, such as a link to a disk, leaves something for the others.
        let most = (MAX_FOLDERS - all.folders.min(MAX_FOLDERS)) / 2;
        let (path, name) = (folder.path.clone(), folder.place.clone());
        match (part(folder, most, disk), path) {
            (Ok(part), _) => all.add(part),
            (Err(folders), Some(path)) => {
                all.folders += folders;
                found.too_large.push(path);
            }
            (Err(_), None) => {
                let what = format!(
                    "{} has too many folders, and its name is not UTF-8",
                    name.to_string_lossy().escape_debug()
                );
                findings.error(None, what, "rename the folder");
            }
        }
    }
    for (path, file) in all.files {
        match path {
            Some(path) => found.files.push((path, file)),
            None => {
                let what = format!(
                    "{} has rules for a folder whose name is not UTF-8",
                    file.to_string_lossy().escape_debug()
                );
                findings.error(None, what, "rename the folder, or write the rules for the one around it");
            }
        }
    }
    let has_file = |real: &PathBuf| all.with_file.iter().any(|folder| folder.starts_with(real));
    found.loops = all.loops.into_iter().filter(|(_, real)| has_file(real)).map(|(path, _)| path).collect();
    found
}

/// What is in a folder and beneath it. Errors: there are more folders than `most`, or they are too deep; how many were
/// read.
fn part(folder: Folder, most: usize, disk: &dyn Disk) -> Result<Part, usize> {
    let mut part = Part::default();
    let mut open = vec![folder];
    while let Some(folder) = open.pop() {
        if part.folders >= most || folder.real.len() > MAX_DEPTH {
            return Err(part.folders);
        }
        open.extend(part.read(folder, disk));
    }
    Ok(part)
}

impl Part {
    /// Returns the folders in it.
    fn read(&mut self, folder: Folder, disk: &dyn Disk) -> Vec<Folder> {
        self.folders += 1;
        let file = folder.place.join(NAME);
        if disk.is_file(&file) {
            self.with_file.extend(folder.real.last().cloned());
            self.files.push((folder.path.clone(), file));
        }
        let mut inner = Vec::new();
        for place in disk.folders_of_any_name(&folder.place) {
            let name = place.file_name().and_then(|name| name.to_str());
            let path = folder.path.as_ref().zip(name).map(|(path, name)| format!("{path}/{name}"));
            let own = disk.real(&place);
            if folder.real.contains(&own) {
                self.loops.extend(path.map(|path| (path, own)));
                continue;
            }
            let mut real = folder.real.clone();
            real.push(own);
            inner.push(Folder { path, place, real });
        }
        inner
    }

    fn add(&mut self, other: Part) {
        self.files.extend(other.files);
        self.loops.extend(other.loops);
        self.with_file.extend(other.with_file);
        self.folders += other.folders;
    }
}
