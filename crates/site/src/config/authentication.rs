//! Reads the keys of authentication, and then the files with users and groups that they name.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::digest_users::DigestUsers;
use auth::groups::Groups;
use auth::hash::PlainText;
use auth::mistake::{FileError, MAX_FILE, Mistakes};
use auth::users::Users;

use super::Source;
use super::access::reject_entry;
use super::error::{Errors, Place, shown};
use super::keys::Scope;
use super::section::{Given, Section, text};
use super::toml::{Entry, Value};
use crate::access::{Action, Rules};
use crate::authentication::{Authentication, FolderPasswords, Require, Satisfy, Scheme};
use crate::model::{Route, Site};
use crate::route::RouteId;
use crate::text::counted;

/// The keys that a route may have of its own.
const KEYS: [&str; 11] = [
    "auth",
    "realm",
    "users",
    "user_files",
    "groups",
    "group_files",
    "require",
    "satisfy",
    "plain_passwords",
    "des_passwords",
    "folder_passwords",
];
const ADD_AUTH: &str = "add auth = \"basic\" or \"digest\"";
const CHECK: &str = "check its path and its permissions";
const MAKE: &str = "check its path, or make it with `taipan passwd -c`";
/// The path of a user file, for the place of an error.
const USER_FILES: &[&str] = &["user_files", "group_files"];

/// The settings of a section, on top of those that it inherits. The files are read later.
pub fn authentication(
    section: &Section,
    inherited: &Arc<Authentication>,
    access: &[Rules],
) -> Arc<Authentication> {
    let own = match has_authentication(section) {
        true => Arc::new(settings(section, inherited)),
        false => inherited.clone(),
    };
    if section.has("rule") || section.has("auth") {
        check_rules(section, &own, access);
    }
    own
}

/// Whether a section has settings of its own.
pub fn has_authentication(section: &Section) -> bool {
    KEYS.iter().any(|key| section.has(key))
}

fn settings(section: &Section, inherited: &Authentication) -> Authentication {
    let scheme = section.choice("auth").map(|word| match word {
        "basic" => Scheme::Basic,
        "digest" => Scheme::Digest,
        _ => Scheme::Off,
    });
    let satisfy = section.choice("satisfy").map(|word| match word {
        "any" => Satisfy::Any,
        "rules" => Satisfy::Rules,
        _ => Satisfy::All,
    });
    let folder = section.choice("folder_passwords").map(|word| match word {
        "folder" => FolderPasswords::Folder,
        "inherited" => FolderPasswords::Inherited,
        _ => FolderPasswords::Off,
    });
    let plain = plain_text(section);
    let mut own = Authentication {
        scheme: scheme.unwrap_or(inherited.scheme),
        realm: realm(section).unwrap_or_else(|| inherited.realm.clone()),
        user_files: section.paths("user_files").unwrap_or_else(|| inherited.user_files.clone()),
        group_files: section.paths("group_files").unwrap_or_else(|| inherited.group_files.clone()),
        users: inherited.users.clone(),
        digest_users: inherited.digest_users.clone(),
        groups: groups(section).unwrap_or_else(|| inherited.groups.clone()),
        require: require(section).unwrap_or_else(|| inherited.require.clone()),
        satisfy: satisfy.unwrap_or(inherited.satisfy),
        plain: plain.unwrap_or(inherited.plain),
        folder: folder.unwrap_or(inherited.folder),
    };
    if section.has("users") {
        own.users = users(section, own.plain);
    }
    check(section, &own);
    if section.scope == Scope::Route && scheme.is_none() && !own.is_on() {
        let key = KEYS.iter().find(|key| section.has(key)).copied().unwrap_or_default();
        let what = format!("\"{key}\" protects nothing, because \"auth\" is off");
        section.errors.warn(section.place_of(key), what, ADD_AUTH);
    }
    own
}

/// `None`: neither key is there.
fn plain_text(section: &Section) -> Option<PlainText> {
    let (plain, des) = (section.flag("plain_passwords"), section.flag("des_passwords"));
    if plain == Some(true) && des == Some(true) {
        let what = "\"plain_passwords\" and \"des_passwords\" cannot both be true";
        section.errors.add(
            section.place_of("des_passwords"),
            what,
            "a hash could be a password; remove one of them",
        );
    }
    match (plain, des) {
        (Some(true), _) => Some(PlainText::Accept),
        (_, Some(true)) => Some(PlainText::Des),
        (None, None) => None,
        _ => Some(PlainText::Refuse),
    }
}

fn check(section: &Section, own: &Authentication) {
    let place = section.place_of("auth");
    if own.scheme == Scheme::Digest && !own.users.is_empty() {
        let what = "users in the configuration are for Basic";
        section.errors.add(
            place,
            what,
            "put the users of Digest in a file, with taipan passwd --digest REALM or htdigest",
        );
    }
    if own.scheme == Scheme::Digest && own.folder != FolderPasswords::Off {
        let what = "password files of folders are for Basic";
        section.errors.add(place, what, "remove \"folder_passwords\", or use auth = \"basic\"");
    }
    // A user who is not valid has a message already.
    let is_empty =
        |entry: &Entry| matches!(&entry.node.value, Value::Table(users) if users.entries.is_empty());
    let has_rejected = section.table.get("users").is_some_and(|users| !is_empty(users));
    if own.is_on() && !own.has_users() && own.folder == FolderPasswords::Off && !has_rejected {
        let what = "there are no users who could authenticate";
        section.errors.add(place, what, "add \"user_files\", \"users\" or \"folder_passwords\"");
    }
}

/// A rule that asks for a user needs users.
fn check_rules(section: &Section, own: &Authentication, access: &[Rules]) {
    // A value that is none has its own message.
    if section.has("auth") && section.choice("auth").is_none() {
        return;
    }
    let mut rules = access.iter().flat_map(|rules| rules.iter());
    if !own.is_on() && rules.any(|rule| rule.action == Action::Authenticate) {
        let what = "a rule asks users to authenticate, and \"auth\" is off";
        section.errors.add(section.place_of("rule"), what, "add auth = \"basic\" and \"user_files\"");
    }
}

fn realm(section: &Section) -> Option<String> {
    let given = section.text("realm")?;
    if given.value.is_empty() || given.value.chars().any(char::is_control) {
        section.reject("realm", given.place, "is empty or has a control character");
    }
    Some(given.value.to_owned())
}

fn users(section: &Section, plain: PlainText) -> Vec<Arc<Users>> {
    let mut users = Users::default();
    for (number, entry) in section.pairs("users").iter().enumerate() {
        let Some(hash) = text(&entry.node) else {
            let what = format!("the user \"{}\" needs the hash of a password", entry.key.escape_debug());
            section.errors.add(&entry.place, what, "write what taipan passwd -n prints behind the colon");
            continue;
        };
        if let Err(fault) = users.insert(number + 1, entry.key.as_bytes(), hash.as_bytes(), plain) {
            let what = format!("the user \"{}\" is not valid", entry.key.escape_debug());
            section.errors.add(&entry.place, what, fault.to_string());
        }
    }
    if users.is_empty() { Vec::new() } else { vec![Arc::new(users)] }
}

fn groups(section: &Section) -> Option<Vec<Arc<Groups>>> {
    if !section.has("groups") {
        return None;
    }
    let mut groups = Groups::default();
    for entry in section.pairs("groups") {
        let Some(names) = text(&entry.node) else {
            let what = format!("the group \"{}\" needs a string", entry.key.escape_debug());
            section.errors.add(&entry.place, what, "write the names of its users, with spaces between them");
            continue;
        };
        if let Err(fault) = groups.insert(&entry.key, names.split_whitespace()) {
            let what = format!("the group \"{}\" is not valid", entry.key.escape_debug());
            section.errors.add(&entry.place, what, fault.to_string());
        }
    }
    Some(vec![Arc::new(groups)])
}

fn require(section: &Section) -> Option<Vec<Require>> {
    let read = |Given { place, value }: Given<&str>| match value.split_once(':') {
        _ if value == "user" => Some(Require::AnyUser),
        Some(("user", name)) if !name.is_empty() => Some(Require::User(name.to_owned())),
        Some(("group", name)) if !name.is_empty() => Some(Require::Group(name.to_owned())),
        _ => {
            let what_to_do = "write \"user\", \"user:NAME\" or \"group:NAME\"".to_owned();
            reject_entry(section, "require", place, value, what_to_do);
            None
        }
    };
    Some(section.texts("require")?.into_iter().filter_map(read).collect())
}

/// Reads the files of all routes, each once.
pub fn read_files(site: &mut Site, source: &dyn Source, errors: &Errors) {
    let mut files = Files::new(source, errors);
    let mut done: HashMap<*const Authentication, Arc<Authentication>> = HashMap::new();
    let uses_none = !site.hosts.iter().any(|host| host.routes.iter().any(Route::asks_for_users));
    for routes in site.hosts.routes_mut() {
        let of_host = &routes.get(RouteId::DEFAULT).authentication;
        if let Some(path) = of_host.user_files.first().filter(|_| uses_none) {
            let what = format!("{} protects nothing, because \"auth\" is off", shown(path));
            errors.warn(&files.place(path), what, ADD_AUTH);
        }
        for own in routes.authentications_mut() {
            if own.user_files.is_empty() && own.group_files.is_empty() {
                continue;
            }
            let read = done.entry(Arc::as_ptr(own)).or_insert_with(|| Arc::new(files.completed(own)));
            *own = read.clone();
        }
    }
}

/// What has been read.
struct Files<'a> {
    source: &'a dyn Source,
    errors: &'a Errors,
    users: HashMap<(PathBuf, PlainText), Arc<Users>>,
    digest_users: HashMap<PathBuf, Arc<DigestUsers>>,
    groups: HashMap<PathBuf, Arc<Groups>>,
}

impl<'a> Files<'a> {
    fn new(source: &'a dyn Source, errors: &'a Errors) -> Files<'a> {
        let (users, digest_users, groups) = (HashMap::new(), HashMap::new(), HashMap::new());
        Files { source, errors, users, digest_users, groups }
    }

    /// With the content of its files.
    fn completed(&mut self, own: &Authentication) -> Authentication {
        let mut own = own.clone();
        for path in &own.user_files {
            match own.scheme {
                Scheme::Off => {}
                Scheme::Basic => own.users.push(self.users(path, own.plain)),
                Scheme::Digest => own.digest_users.push(self.digest_users(path, &own.realm)),
            }
        }
        own.groups.extend(own.group_files.iter().map(|path| self.groups(path)));
        own
    }

    fn users(&mut self, path: &Path, plain: PlainText) -> Arc<Users> {
        let key = (path.to_owned(), plain);
        if let Some(users) = self.users.get(&key) {
            return users.clone();
        }
        let users = self.read(path, MAKE, |bytes| Users::parse(bytes, plain)).unwrap_or_default();
        self.warn(path, users.mistakes());
        if users.is_empty() {
            self.warn_of(path, "has no user");
        } else if users.weak() > 0 {
            let weak = counted(users.weak() as u64, "user");
            self.warn_of(path, &format!("has {weak} whose hash is weak"));
        }
        let users = Arc::new(users);
        self.users.insert(key, users.clone());
        users
    }

    fn digest_users(&mut self, path: &Path, realm: &str) -> Arc<DigestUsers> {
        let users = match self.digest_users.get(path) {
            Some(users) => users.clone(),
            None => {
                let users = Arc::new(self.read(path, MAKE, DigestUsers::parse).unwrap_or_default());
                self.warn(path, users.mistakes());
                self.digest_users.insert(path.to_owned(), users.clone());
                users
            }
        };
        if users.algorithms(realm).is_empty() {
            self.warn_of(path, &format!("has no user of the realm \"{}\"", realm.escape_debug()));
        }
        users
    }

    fn groups(&mut self, path: &Path) -> Arc<Groups> {
        if let Some(groups) = self.groups.get(path) {
            return groups.clone();
        }
        let groups = Arc::new(self.read(path, CHECK, Groups::parse).unwrap_or_default());
        self.warn(path, groups.mistakes());
        self.groups.insert(path.to_owned(), groups.clone());
        groups
    }

    /// `None`: after an error. `absent`: what to do if there is no such file.
    fn read<T>(&self, path: &Path, absent: &str, parse: impl Fn(&[u8]) -> Result<T, FileError>) -> Option<T> {
        let place = self.place(path);
        let bytes = match self.source.read(path, MAX_FILE) {
            Ok(bytes) => bytes,
            Err(error) => {
                let what = format!("{} cannot be read: {error}", shown(path));
                let is_missing = error.kind() == ErrorKind::NotFound;
                self.errors.add(&place, what, if is_missing { absent } else { CHECK });
                return None;
            }
        };
        match parse(&bytes) {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                let what = format!("{} {error}", shown(path));
                self.errors.add(&place, what, "split it, and name the parts");
                None
            }
        }
    }

    fn warn(&self, path: &Path, mistakes: &Mistakes) {
        for mistake in &mistakes.listed {
            let place = Place { file: Arc::from(path), line: u32::try_from(mistake.line).ok() };
            self.errors.warn(&place, "this line does not count", mistake.fault.to_string());
        }
        if mistakes.more > 0 {
            self.warn_of(path, &format!("has {} more lines that do not count", mistakes.more));
        }
    }

    fn warn_of(&self, path: &Path, what: &str) {
        self.errors.warn(&self.place(path), format!("{} {what}", shown(path)), "see taipan passwd --help");
    }

    /// The place of the key that names a file.
    fn place(&self, path: &Path) -> Place {
        let start = Place { file: Arc::from(path), line: None };
        self.errors.place_of(USER_FILES, path).unwrap_or(start)
    }
}
