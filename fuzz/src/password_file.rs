//! Files of users, groups and keys. A line counts or is a mistake; a mistake shows nothing of its line; and changing
//! one user changes no other.

use std::collections::BTreeSet;

use auth::digest_users::DigestUsers;
use auth::edit::{self, Done, Key};
use auth::groups::Groups;
use auth::hash::PlainText;
use auth::keys::Keys;
use auth::mistake::Mistakes;
use auth::users::Users;

const HASH: &str = "{SHA}GpHWL3ymc5liWkNopqtdSjuqYHM=";

const DIGEST: &str = "3d78807defe7de2157e2b0b6573a855f";

/// The file, in any of the formats.
pub fn password_file(data: &[u8]) {
    basic(data, PlainText::Refuse);
    basic(data, PlainText::Accept);
    digest(data);
    if let Ok(groups) = Groups::parse(data) {
        mistakes(data, groups.mistakes());
    }
    if let Err(error) = Keys::parse(data) {
        assert!(!error.to_string().is_empty());
    }
}

/// The names that a line may begin with.
fn names(data: &[u8]) -> BTreeSet<&str> {
    let names = data.split(|&byte| byte == b'\n').map(|line| line.split(|&byte| byte == b':').next());
    names.filter_map(|name| std::str::from_utf8(name?.trim_ascii()).ok()).collect()
}

fn basic(data: &[u8], plain: PlainText) {
    let Ok(users) = Users::parse(data, plain) else { return };
    mistakes(data, users.mistakes());
    assert!(users.len() <= names(data).len() && users.weak() <= users.len() && users.memory() <= 256 << 20);
    let Ok((with, done)) = edit::set(data, Key::User("zz"), &[HASH.to_owned()]) else { return };
    let changed = Users::parse(&with, plain).expect("the file can be read as before");
    // Comparing other hashes would take long.
    assert!(changed.contains("zz") && (changed.weak() < changed.len() || changed.verify("zz", b"pw")));
    for name in names(data).into_iter().filter(|name| *name != "zz") {
        assert_eq!(users.contains(name), changed.contains(name), "{name}");
    }
    let (without, removed) = edit::remove(&with, Key::User("zz")).expect("it can be read");
    assert_eq!(removed, Done::Removed);
    assert!(!Users::parse(&without, plain).expect("it can be read").contains("zz"));
    if done == Done::Added {
        assert!(without.starts_with(data));
    }
}

fn digest(data: &[u8]) {
    let Ok(users) = DigestUsers::parse(data) else { return };
    mistakes(data, users.mistakes());
    let key = Key::Digest { user: "zz", realm: "r" };
    let Ok((with, _)) = edit::set(data, key, &[DIGEST.to_owned()]) else { return };
    let changed = DigestUsers::parse(&with).expect("the file can be read as before");
    assert!(changed.contains("r", "zz"));
    for realm in users.realms() {
        for name in names(data).into_iter().filter(|name| *name != "zz") {
            assert_eq!(users.contains(realm, name), changed.contains(realm, name), "{realm} {name}");
        }
    }
}

fn mistakes(data: &[u8], mistakes: &Mistakes) {
    let lines: Vec<&[u8]> = data.split(|&byte| byte == b'\n').collect();
    assert!(mistakes.listed.len() + mistakes.more <= lines.len());
    for mistake in &mistakes.listed {
        let (line, told) = (lines[mistake.line - 1].trim_ascii(), mistake.to_string());
        // The first part of a line may be a short word of the message.
        let shows =
            |secret: &[u8]| secret.len() > 16 && told.as_bytes().windows(secret.len()).any(|at| at == secret);
        assert!(!told.contains('\n') && !line.split(|&byte| byte == b':').any(shows), "{told}");
    }
}
