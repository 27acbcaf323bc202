//! Which users may pass where. A path of uhttpd is the beginning of others, without regard to case and to segments:
//! `/private` is also for `/privately` and for `/Private/x`. For a path, the users of all beginnings count, and of two
//! with one name the one that was added last.

use std::path::Path;

use crate::disk::Disk;
use crate::finding::Findings;
use crate::words;

/// Users of one configuration, and paths that one of them is for.
const MAX_USERS: usize = 500;
const MAX_SPELLINGS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub path: String,
    pub name: String,
    /// A hash, a text, or `$p$` and the name of an account of the system.
    pub password: String,
    pub line: Option<u32>,
}

/// The paths that are protected, the most special ones first, each with the users that may pass.
pub fn protected<'u>(
    users: &'u [User],
    home: &str,
    disk: &dyn Disk,
    findings: &mut Findings,
) -> Vec<(String, Vec<&'u User>)> {
    if let Some(user) = users.get(MAX_USERS) {
        findings.error(user.line, format!("there are more than {MAX_USERS} users"), "remove some");
    }
    let mut paths: Vec<String> = Vec::new();
    for user in users.iter().take(MAX_USERS) {
        if !user.path.starts_with('/') || user.path.contains(['*', '?', '[', '{']) {
            let what = format!("{} is no path, or has a wildcard", user.path.escape_debug());
            findings.error(user.line, what, "write a plain path, such as /private");
            continue;
        }
        let Some(spellings) = spellings(&user.path, home, disk) else {
            let what = format!(
                "{} has more than {MAX_SPELLINGS} spellings on the disk that differ by case",
                user.path.escape_debug()
            );
            findings.error(user.line, what, "name each of them");
            continue;
        };
        for path in spellings {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    sort::by_key(&mut paths, |path| std::cmp::Reverse(path.len()));
    let of = |path: &str| {
        let is_for = |user: &&User| {
            let beginning = path.as_bytes().get(..user.path.len());
            beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(user.path.as_bytes()))
        };
        let mut found: Vec<&User> = Vec::new();
        for user in users.iter().rev().filter(is_for) {
            if !found.iter().any(|other| other.name == user.name) {
                found.push(user);
            }
        }
        found
    };
    paths.iter().map(|path| (path.clone(), of(path))).collect()
}

/// The path as it is written, and the beginnings of paths on the disk that differ from it by case only. `None`: there
/// are too many.
fn spellings(path: &str, home: &str, disk: &dyn Disk) -> Option<Vec<String>> {
    let mut found = vec![path.to_owned()];
    let mut bases = vec![String::new()];
    let mut segments = path.split('/').filter(|segment| !segment.is_empty()).peekable();
    while let Some(segment) = segments.next() {
        // The path may end within a name.
        let is_whole = segments.peek().is_some() || path.ends_with('/');
        let mut next: Vec<String> = Vec::new();
        for base in &bases {
            let folder = format!("{home}{base}");
            let names = match is_whole {
                true => disk.folders(Path::new(&folder)),
                false => disk.names(Path::new(&folder)),
            };
            for name in names.iter().filter(|name| !is_whole || name.len() == segment.len()) {
                let beginning = name.get(..segment.len()).filter(|own| own.eq_ignore_ascii_case(segment));
                let Some(beginning) = beginning else { continue };
                let spelling = format!("{base}/{beginning}");
                if !next.contains(&spelling) {
                    next.push(spelling);
                }
            }
        }
        if next.len() > MAX_SPELLINGS {
            return None;
        }
        bases = next;
    }
    let end = if path.len() > 1 && path.ends_with('/') { "/" } else { "" };
    for spelling in bases.iter().filter(|base| !base.is_empty()).map(|base| format!("{base}{end}")) {
        if !found.contains(&spelling) {
            found.push(spelling);
        }
    }
    Some(found)
}

/// The users of a file in the form of busybox httpd, and its other lines. Those that uhttpd leaves out are reported.
pub fn read_file(bytes: &[u8], findings: &mut Findings) -> (Vec<User>, Vec<(char, String, u32)>) {
    let (mut users, mut others) = (Vec::new(), Vec::new());
    for (number, text) in words::lines(bytes) {
        let line = Some(number);
        if findings.is_full(number) {
            break;
        }
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                findings.not_utf8(&error);
                continue;
            }
        };
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        match name {
            path if path.starts_with('/') => {
                let (name, password) = value.split_once(':').unwrap_or((value, ""));
                let (path, name, password) = (path.to_owned(), name.to_owned(), password.to_owned());
                users.push(User { path, name, password, line });
            }
            "I" if !value.is_empty() => others.push(('I', value.to_owned(), number)),
            "E404" if !value.is_empty() => others.push(('E', value.to_owned(), number)),
            extension if extension.starts_with("*.") && !value.is_empty() => {
                others.push(('i', format!("{}={value}", &extension[1..]), number));
            }
            _ if text.trim().is_empty() || text.trim_start().starts_with('#') => {}
            _ => findings.warn(line, "uhttpd leaves this line out", "correct or remove it"),
        }
    }
    (users, others)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use super::*;

    struct Folders;

    impl Disk for Folders {
        fn absolute(&self, path: &Path) -> PathBuf {
            path.to_owned()
        }

        fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::NotFound.into())
        }

        fn folders(&self, path: &Path) -> Vec<String> {
            let names = match path.to_str() {
                Some("/www") => &["Private", "private", "other"][..],
                Some("/www/Private") => &["A"],
                _ => &[],
            };
            names.iter().map(|name| (*name).to_owned()).collect()
        }

        fn names(&self, path: &Path) -> Vec<String> {
            let mut names = self.folders(path);
            match path.to_str() {
                Some("/www") => names.push("Notes.txt".to_owned()),
                Some("/many") => names.extend((0_u32..21).map(|at| {
                    let upper = |(place, c): (usize, char)| match at >> place & 1 {
                        0 => c,
                        _ => c.to_ascii_uppercase(),
                    };
                    "secret".chars().enumerate().map(upper).collect()
                })),
                _ => {}
            }
            names
        }

        fn is_folder(&self, _: &Path) -> bool {
            false
        }

        fn is_file(&self, _: &Path) -> bool {
            false
        }
    }

    #[test]
    fn a_path_may_end_within_a_name() {
        for (path, expected) in [
            ("/priv", &["/priv", "/Priv"][..]),
            ("/PRIVATE", &["/PRIVATE", "/Private", "/private"]),
            ("/PRIV/", &["/PRIV/"]),
            ("/PRIV/a", &["/PRIV/a"]),
            ("/private/a", &["/private/a", "/Private/A"]),
            ("/none", &["/none"]),
            ("/notes", &["/notes", "/Notes"]),
            ("/notes.txt", &["/notes.txt", "/Notes.txt"]),
            ("/notes/", &["/notes/"]),
        ] {
            assert_eq!(spellings(path, "/www", &Folders).expect("they are few"), expected, "{path}");
        }
        assert_eq!(spellings("/secret", "/many", &Folders), None);
    }

    #[test]
    fn users_of_beginnings_count_and_the_last_of_a_name() {
        let bytes = b"# users\n/:all:1\n/private:ann:2\n/private/a:ann:3\n/private/a:bob:4\nI:x.html\nE404:/e\n*.php:/p\nA:1.\n";
        let mut findings = Findings::default();
        let (users, others) = read_file(bytes, &mut findings);
        let found = protected(&users, "/www", &Folders, &mut findings);
        let shown: Vec<String> = found
            .iter()
            .map(|(path, users)| {
                let users: Vec<String> =
                    users.iter().map(|user| format!("{}:{}", user.name, user.password)).collect();
                format!("{path} {}", users.join(" "))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "/private/a bob:4 ann:3 all:1",
                "/Private/A bob:4 ann:3 all:1",
                "/private ann:2 all:1",
                "/Private ann:2 all:1",
                "/ all:1",
            ]
        );
        let expected =
            [('I', "x.html".to_owned(), 6), ('E', "/e".to_owned(), 7), ('i', ".php=/p".to_owned(), 8)];
        assert_eq!(others, expected);
        let findings = findings.into_sorted();
        assert_eq!((findings.len(), findings[0].line), (1, Some(9)));
    }
}
