//! The `httpd.conf` files of the folders beneath HOME, which busybox reads on the way to a file.

use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::finding::Findings;

const NAME: &str = "httpd.conf";
/// Folders in which a file is looked for, and how deep.
const MAX_FOLDERS: usize = 10_000;
const MAX_DEPTH: usize = 16;

/// What was found, by the paths of the folders.
#[derive(Default)]
pub struct Found {
    pub files: Vec<(String, PathBuf)>,
    /// Links to a folder around them with such files, whose rules would hold at paths without end.
    pub loops: Vec<String>,
}

/// A folder that is still to be read.
struct Folder {
    /// `None`: a name in it is not UTF-8.
    path: Option<String>,
    place: PathBuf,
    /// Where it and those around it really are.
    real: Vec<PathBuf>,
}

pub fn find(home: &Path, disk: &dyn Disk, findings: &mut Findings) -> Found {
    let mut found = Found::default();
    let mut loops: Vec<(String, PathBuf)> = Vec::new();
    let real = vec![disk.real(home)];
    let mut open = vec![Folder { path: Some(String::new()), place: home.to_owned(), real }];
    // Where such files really are. The one of HOME counts where a loop leads to it.
    let mut with_file = Vec::new();
    let mut seen = 0;
    while let Some(folder) = open.pop() {
        seen += 1;
        if seen > MAX_FOLDERS || folder.real.len() > MAX_DEPTH + 1 {
            let what = format!(
                "{} has more than {MAX_FOLDERS} folders, or more than {MAX_DEPTH} in one another",
                home.display()
            );
            findings.error(None, what, "convert the file, and add the rules of httpd.conf files beneath it");
            return found;
        }
        let file = folder.place.join(NAME);
        if disk.is_file(&file) {
            with_file.extend(folder.real.last().cloned());
            match &folder.path {
                Some(path) if path.is_empty() => {}
                Some(path) => found.files.push((path.clone(), file)),
                None => {
                    let what = format!(
                        "{} has rules for a folder whose name is not UTF-8",
                        file.to_string_lossy().escape_debug()
                    );
                    findings.error(None, what, "rename the folder, or write the rules for the one around it");
                }
            }
        }
        for place in disk.folders_of_any_name(&folder.place) {
            let name = place.file_name().and_then(|name| name.to_str());
            let path = folder.path.as_ref().zip(name).map(|(path, name)| format!("{path}/{name}"));
            let own = disk.real(&place);
            if folder.real.contains(&own) {
                loops.extend(path.map(|path| (path, own)));
                continue;
            }
            let mut real = folder.real.clone();
            real.push(own);
            open.push(Folder { path, place, real });
        }
    }
    loops.retain(|(_, real)| with_file.iter().any(|folder| folder.starts_with(real)));
    found.loops = loops.into_iter().map(|(path, _)| path).collect();
    found
}
