//! Changes one user's line of a password file, or of a file for Digest. All other lines stay as they are, comments too.

use crate::mistake::{self, FileError, NameError};

/// A user, as a line names it.
#[derive(Debug, Clone, Copy)]
pub enum Key<'a> {
    /// Of `USER:HASH`.
    User(&'a str),
    /// Of `USER:REALM:HASH`.
    Digest { user: &'a str, realm: &'a str },
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Added,
    Changed,
    Removed,
    /// There was no such user to remove.
    Absent,
}

/// Why a file stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditError {
    File(FileError),
    Name(NameError),
    /// The line with this number, from 1, has another form. Perhaps it is another file.
    Form(usize),
}

/// Sets the user's lines: they replace the first that is there, and others of the user are removed, because they would
/// not count. Without any, they are added at the end.
pub fn set(file: &[u8], key: Key, hashes: &[String]) -> Result<(Vec<u8>, Done), EditError> {
    key.check().map_err(EditError::Name)?;
    let new: String = hashes.iter().map(|hash| format!("{}{hash}\n", key.prefix())).collect();
    let (mut lines, first) = without(file, key)?;
    match first {
        Some(at) => {
            lines.splice(at..at, new.bytes());
            Ok((lines, Done::Changed))
        }
        None => {
            if !matches!(lines.last(), None | Some(b'\n')) {
                lines.push(b'\n');
            }
            lines.extend(new.bytes());
            Ok((lines, Done::Added))
        }
    }
}

/// Removes the user's lines.
pub fn remove(file: &[u8], key: Key) -> Result<(Vec<u8>, Done), EditError> {
    let (lines, first) = without(file, key)?;
    Ok((lines, if first.is_some() { Done::Removed } else { Done::Absent }))
}

/// The file without the user's lines, and where the first one was.
fn without(file: &[u8], key: Key) -> Result<(Vec<u8>, Option<usize>), EditError> {
    let prefix = key.prefix();
    for (line, text) in mistake::lines(file).map_err(EditError::File)? {
        let colons = text.iter().filter(|&&byte| byte == b':').count();
        if colons < key.colons() || text.contains(&0) {
            return Err(EditError::Form(line));
        }
    }
    let (mut kept, mut first) = (Vec::with_capacity(file.len() + 256), None);
    for line in file.split_inclusive(|&byte| byte == b'\n') {
        if line.trim_ascii_start().starts_with(prefix.as_bytes()) {
            first.get_or_insert(kept.len());
        } else {
            kept.extend_from_slice(line);
        }
    }
    Ok((kept, first))
}

impl Key<'_> {
    /// Whether a line with these names is read as one with these names.
    pub fn check(self) -> Result<(), NameError> {
        let (user, realm) = match self {
            Self::User(user) => (user, None),
            Self::Digest { user, realm } => (user, Some(realm)),
        };
        mistake::name(user.as_bytes())?;
        realm.map_or(Ok(user), |realm| mistake::name(realm.as_bytes()))?;
        if user.starts_with('#') || user.trim() != user { Err(NameError::Edge) } else { Ok(()) }
    }

    fn prefix(self) -> String {
        match self {
            Self::User(user) => format!("{user}:"),
            Self::Digest { user, realm } => format!("{user}:{realm}:"),
        }
    }

    const fn colons(self) -> usize {
        match self {
            Self::User(_) => 1,
            Self::Digest { .. } => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# who\r\nann:1:Ann\n\n  bob:2\nann:3\n#ann:4\nanna:5";

    fn text((bytes, done): (Vec<u8>, Done)) -> (String, Done) {
        (String::from_utf8(bytes).expect("text"), done)
    }

    #[test]
    fn changes_one_user_and_nothing_else() {
        let table = [
            ("ann", "# who\r\nann:x\n\n  bob:2\n#ann:4\nanna:5", Done::Changed),
            ("bob", "# who\r\nann:1:Ann\n\nbob:x\nann:3\n#ann:4\nanna:5", Done::Changed),
            ("anna", "# who\r\nann:1:Ann\n\n  bob:2\nann:3\n#ann:4\nanna:x\n", Done::Changed),
            ("cy", "# who\r\nann:1:Ann\n\n  bob:2\nann:3\n#ann:4\nanna:5\ncy:x\n", Done::Added),
        ];
        for (user, expected, done) in table {
            let result = set(FILE.as_bytes(), Key::User(user), &["x".into()]).map(text);
            assert_eq!(result, Ok((expected.into(), done)), "{user}");
        }
        assert_eq!(set(b"", Key::User("a"), &["x".into()]).map(text), Ok(("a:x\n".into(), Done::Added)));
    }

    #[test]
    fn removes_a_user() {
        let removed = remove(FILE.as_bytes(), Key::User("ann")).map(text);
        assert_eq!(removed, Ok(("# who\r\n\n  bob:2\n#ann:4\nanna:5".into(), Done::Removed)));
        assert_eq!(remove(FILE.as_bytes(), Key::User("an")).map(text), Ok((FILE.into(), Done::Absent)));
    }

    #[test]
    fn a_user_has_lines_for_each_realm() {
        let key = Key::Digest { user: "ann", realm: "r" };
        let file = b"ann:q:1\nann:r:2\nann:r:3\n";
        let result = set(file, key, &["4".into(), "5".into()]).map(text);
        assert_eq!(result, Ok(("ann:q:1\nann:r:4\nann:r:5\n".into(), Done::Changed)));
        assert_eq!(remove(file, key).map(text), Ok(("ann:q:1\n".into(), Done::Removed)));
    }

    #[test]
    fn refuses_files_of_another_kind_and_names_that_break_lines() {
        let digest = Key::Digest { user: "ann", realm: "r" };
        for (file, key, line) in [("a:b\nPasswords\n", Key::User("a"), 2), ("\na:b\n", digest, 2)] {
            assert_eq!(set(file.as_bytes(), key, &[]), Err(EditError::Form(line)));
            assert_eq!(remove(file.as_bytes(), key), Err(EditError::Form(line)));
        }
        assert_eq!(set(b"a:\0", Key::User("b"), &[]), Err(EditError::Form(1)));
        for (user, expected) in [
            ("a:b", NameError::Colon),
            ("a\nb", NameError::Control),
            ("", NameError::Empty),
            (&"a".repeat(256), NameError::TooLong),
            ("#a", NameError::Edge),
            (" a", NameError::Edge),
            ("a ", NameError::Edge),
        ] {
            assert_eq!(set(b"", Key::User(user), &[]), Err(EditError::Name(expected)));
        }
    }
}
