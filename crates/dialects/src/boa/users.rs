//! The folders of `UserDir`: where the files of each account are, for `Allow` and `Deny`, which name files, and what is
//! not sent from there.

use std::path::Path;

use site::folder::{PASSWD, UserFolders};

use super::types::Types;
use crate::disk::Disk;
use crate::document::Keys;

/// The folder of each user, with a slash at its end, and the path that leads there. `path` makes a path absolute.
pub fn folders(name: &str, disk: &dyn Disk, path: &dyn Fn(&str) -> String) -> Vec<(String, String)> {
    let users = UserFolders::of_people();
    // Without accounts there are no folders.
    let passwd = disk.read(Path::new(&path(PASSWD))).unwrap_or_default();
    let homes = users.homes(&passwd);
    let folder = |home: &Path| format!("{}/", path(&home.join(name).to_string_lossy()));
    homes.map(|(user, home)| (folder(&home), format!("/~{user}/"))).collect()
}

/// A rule that denies scripts. Boa ran them in the folders of users, too. Here nothing is run there, and the text of a
/// script may have secrets. `None`: no type is that of scripts.
pub fn denied_scripts(line: Option<u32>, types: &Types) -> Option<Keys> {
    let patterns: Vec<String> = types.scripts().map(|(extension, _)| format!("/~*/**.{extension}")).collect();
    let mut keys = Keys::default();
    if patterns.is_empty() {
        return None;
    }
    keys.explained(line, "path", patterns, "Boa ran scripts in the folders of users.");
    keys.set(line, "then", "deny");
    Some(keys)
}
