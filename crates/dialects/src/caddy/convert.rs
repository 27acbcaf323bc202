//! What the sites of a Caddyfile become.

use std::path::Path;

use crate::Conversion;
use crate::disk::Disk;
use crate::draft::Draft;
use crate::tree::unconverted;

use super::by_host::apart;
use super::names;
use super::options::global;
use super::read::Reader;
use super::site::site;

/// Of `file_server`.
pub(super) const INDEXES: [&str; 2] = ["index.html", "index.txt"];

/// Reads the file.
pub fn convert(file: &Path, disk: &dyn Disk) -> Conversion {
    let mut draft = Draft::default();
    let folder = disk.folder_of(file);
    match disk.read(file) {
        Ok(bytes) => {
            let tree = Reader::new(disk, &folder).read(&bytes, &mut draft);
            let tree = apart(names::kept(tree, &mut draft));
            for directive in &tree {
                match (directive.name.as_str(), &directive.block) {
                    ("", Some(_)) => {}
                    (name, Some(_)) if !name.starts_with('@') => {
                        let file = disk.absolute(file);
                        site(directive, &file, &folder, disk, &mut draft);
                    }
                    _ => draft.error(&directive.place, unconverted(directive), "write it in a site"),
                }
            }
            if let Some(options) = tree.iter().find(|directive| directive.name.is_empty()) {
                global(options, &mut draft);
            }
        }
        Err(error) => draft.findings.unreadable(&error),
    }
    draft.top.preset(
        "user",
        "nobody",
        "Caddy serves as the user that starts it. This is for a start by root.",
    );
    draft.top.preset("compress", false, "Caddy compresses nothing without encode.");
    draft.top.preset("precompressed", Vec::<String>::new(), "nor does it look for compressed files.");
    draft.top.preset("index", INDEXES.map(str::to_owned).to_vec(), "as Caddy's file_server.");
    draft.top.preset("symlinks", "follow", "Caddy follows every link. \"beneath\" is safer.");
    draft.top.preset(
        "dotfiles",
        "allow",
        "Caddy sends files whose name begins with a dot. \"deny\" is safer.",
    );
    draft.written(file.to_owned(), "Caddy")
}
