//! Reads the folders that names lead to: `$host` or `$ip` in the root of a host, and `user_folders` with the section
//! `[accounts]`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use taipan_http::status::Status;
use taipan_http::target::SafePath;

use super::keys::Scope;
use super::section::Section;
use crate::folder::{FolderName, HostFolder, UserFolders};

/// Statuses that need a field of their own.
const INCOMPLETE: [u16; 5] = [401, 405, 407, 416, 426];

/// The folders of a root with variables. `None`: the root has none, or after an error.
pub fn host_folder(section: &Section, root: Option<&Path>) -> Option<HostFolder> {
    // A path that begins in the current folder stays relative, as every other path, until the site is anchored.
    let parsed = root.and_then(|root| HostFolder::parse(root.to_str()?, Path::new("")));
    let Some(parsed) = parsed else {
        let what_to_do = "write root = \"/srv/www/$host\", or remove the key";
        section.reject_keys(
            &["default_folder", "missing_folder"],
            "is for a root with $host or $ip",
            what_to_do,
        );
        return None;
    };
    match parsed {
        Ok(folder) => {
            let (default, missing) = (default_folder(section), missing_folder(section));
            let mut folder = folder;
            (folder.default, folder.missing) = (default, missing.unwrap_or(folder.missing));
            Some(folder)
        }
        Err(error) => {
            let what = "the root has a variable that it cannot have";
            section.errors.add(section.place_of("root"), what, error.to_string());
            None
        }
    }
}

fn default_folder(section: &Section) -> Option<FolderName<'static>> {
    let given = section.text("default_folder")?;
    let name = FolderName::of(given.value.as_bytes()).filter(|name| name.as_str() == given.value);
    if name.is_none() {
        section.reject(
            "default_folder",
            given.place,
            "is not the name of a folder, in lower case and without slashes",
        );
    }
    name.map(FolderName::into_owned)
}

fn missing_folder(section: &Section) -> Option<Status> {
    let code: u16 = section.count("missing_folder")?;
    if INCOMPLETE.contains(&code) {
        let what = format!("\"missing_folder\" cannot be {code}, which needs a field of its own");
        section.errors.add(section.place_of("missing_folder"), what, "use 404 or 421");
        return None;
    }
    Status::new(code)
}

/// The settings of all user folders, with an empty folder.
pub fn users(top: &Section) -> UserFolders {
    let nothing = UserFolders::of_people();
    let Some(section) = top.section("accounts", Scope::Accounts) else { return nothing };
    let names = |key| -> Vec<String> {
        section.texts(key).unwrap_or_default().iter().map(|name| name.value.to_owned()).collect()
    };
    let homes = section.paths("homes").unwrap_or(nothing.homes);
    if homes.iter().any(|home| home.parent().is_none()) {
        let what = "the homes cannot be in the folder / itself";
        section.errors.add(
            section.place_of("homes"),
            what,
            "name a folder that has only homes, such as \"/home\"",
        );
    }
    UserFolders {
        homes: homes.iter().map(PathBuf::from).collect(),
        passwd: section.path("passwd").unwrap_or(nothing.passwd),
        least_uid: section.count("least_uid").unwrap_or(nothing.least_uid),
        only: names("only"),
        except: names("except"),
        folder: nothing.folder,
    }
}

/// The user folders of a host. `false` removes the inherited ones.
pub fn user_folders(
    section: &Section,
    inherited: Option<&Arc<UserFolders>>,
    users: &UserFolders,
) -> Option<Arc<UserFolders>> {
    let Some(given) = section.text_or_false("user_folders") else { return inherited.cloned() };
    let text = given.value?;
    let folder = SafePath::from_decoded(&format!("/{text}")).ok();
    let folder = folder.filter(|folder| !folder.as_str().is_empty() && folder.as_str() == text);
    if folder.is_none() {
        section.reject(
            "user_folders",
            given.place,
            "is not the path of a folder in a home, such as \"public_html\"",
        );
    }
    Some(Arc::new(UserFolders { folder: folder?, ..users.clone() }))
}
