//! Folders that a name in a request leads to: one for each name of a host (`/srv/www/$host/htdocs`), and one in the home of
//! each user (`/~name/`). Pure: from names and the text of the passwd file to paths.
//!
//! Knows nothing of which folders exist.

use std::borrow::Cow;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use taipan_http::status::Status;
use taipan_http::target::SafePath;

use crate::host::{MAX_NAME, name_of};

/// A folder for each name of a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostFolder {
    /// The folder that contains all of them.
    pub base: PathBuf,
    /// The segments below it, up to the last one with a variable.
    named: Vec<Vec<Part>>,
    /// What follows them, such as `htdocs`.
    pub tail: SafePath<'static>,
    /// The name in place of one that has no folder.
    pub default: Option<FolderName<'static>>,
    /// The status for a name without a folder.
    pub missing: Status,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    Literal(String),
    /// `$host`
    Name,
    /// `$level1` to `$level3`: a letter of the name.
    Level(usize),
}

/// A name that can be a folder: of letters, digits, `-`, `_` and `.`, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FolderName<'a>(Cow<'a, str>);

/// What is wrong with the text of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderError {
    Variable,
    /// `$level1` without `$host`: several names would share a folder.
    NoName,
    /// There is no folder in front of the first variable.
    NoBase,
    NotUtf8,
    /// A segment that no path has.
    Segment,
}

/// A folder in the home of each user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFolders {
    /// Below a home, such as `public_html`.
    pub folder: SafePath<'static>,
    /// The folders that contain homes. Others have none.
    pub homes: Vec<PathBuf>,
    /// The file with the accounts (passwd(5)).
    pub passwd: PathBuf,
    /// The least number of an account. System accounts have smaller ones.
    pub least_uid: u32,
    /// The users that have folders. Empty: all.
    pub only: Vec<String>,
    /// The users that have none.
    pub except: Vec<String>,
}

/// Where the home of a user is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home<'a> {
    /// One of `homes`.
    pub base: &'a Path,
    pub below: SafePath<'static>,
}

/// The file with the accounts, unless the configuration names another one.
pub const PASSWD: &str = "/etc/passwd";
/// The account that others map unknown users to.
const NOBODY: u32 = 65534;
/// Bytes of a user's name.
const MAX_USER: usize = 32;
/// The programs of accounts that cannot log in.
const NO_SHELLS: [&str; 6] = ["nologin", "false", "true", "sync", "halt", "shutdown"];
const LEVELS: usize = 3;

impl HostFolder {
    /// `None`: the text has no variable, and is a path.
    pub fn parse(text: &str, folder: &Path) -> Option<Result<HostFolder, FolderError>> {
        text.contains('$').then(|| HostFolder::parse_template(text, folder))
    }

    fn parse_template(text: &str, folder: &Path) -> Result<HostFolder, FolderError> {
        let path = folder.join(text);
        let mut base = PathBuf::new();
        let mut segments = Vec::new();
        for component in path.components() {
            let text = component.as_os_str().to_str().ok_or(FolderError::NotUtf8)?;
            match component {
                Component::CurDir => {}
                Component::ParentDir => return Err(FolderError::Segment),
                _ if segments.is_empty() && !text.contains('$') => base.push(component),
                _ => segments.push(parts(text)?),
            }
        }
        let is_named = |segment: &Vec<Part>| segment.iter().any(|part| !matches!(part, Part::Literal(_)));
        let last = segments.iter().rposition(is_named).ok_or(FolderError::Variable)?;
        let tail: String = segments[last + 1..].iter().map(|parts| format!("/{}", literals(parts))).collect();
        segments.truncate(last + 1);
        if !segments.iter().flatten().any(|part| *part == Part::Name) {
            return Err(FolderError::NoName);
        }
        if base.parent().is_none() {
            return Err(FolderError::NoBase);
        }
        let tail = match tail.is_empty() {
            true => SafePath::from_decoded("/"),
            false => SafePath::from_decoded(&tail),
        };
        let tail = tail.map_err(|_| FolderError::Segment)?;
        let folder = HostFolder { base, named: segments, tail, default: None, missing: Status::NOT_FOUND };
        // The segments can be those of a path if they can be with this name.
        match folder.of(&FolderName(Cow::Borrowed("a"))) {
            Some(_) => Ok(folder),
            None => Err(FolderError::Segment),
        }
    }

    /// The folder of a name, with `tail`, that `path` is beneath. `None`: there is none.
    pub fn root_of(&self, path: &Path) -> Option<PathBuf> {
        let mut rest = path.strip_prefix(&self.base).ok()?.components();
        let mut root = self.base.clone();
        for segment in &self.named {
            let component = rest.next()?;
            let is_literal = segment.iter().all(|part| matches!(part, Part::Literal(_)));
            if is_literal && *component.as_os_str() != *literals(segment) {
                return None;
            }
            root.push(component);
        }
        root.push(self.tail.as_str());
        path.starts_with(&root).then_some(root)
    }

    /// The path of a name's own folder beneath `base`, without `tail`.
    pub fn of(&self, name: &FolderName<'_>) -> Option<SafePath<'static>> {
        let mut path = String::new();
        for segment in &self.named {
            path.push('/');
            for part in segment {
                match part {
                    Part::Literal(text) => path.push_str(text),
                    Part::Name => path.push_str(&name.0),
                    Part::Level(at) => path.push(name.letter(*at)),
                }
            }
        }
        SafePath::from_decoded(&path).ok()
    }

    /// The folder of a name, with `tail`.
    pub fn path(&self, name: &FolderName<'_>) -> Option<PathBuf> {
        let own = self.base.join(self.of(name)?.as_str());
        Some(if self.tail.as_str().is_empty() { own } else { own.join(self.tail.as_str()) })
    }

    /// What follows the folder of some name in `path`, by its text. `None`: `path` is elsewhere. No segment of it is `.` or
    /// `..`.
    pub fn below<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        let named = path.strip_prefix(&self.base).ok()?.iter().zip(&self.named);
        let (segment, parts) = named.into_iter().find(|(_, parts)| parts.contains(&Part::Name))?;
        let own = self.path(&name_in(segment.to_str()?, parts)?)?;
        path.strip_prefix(own).ok().filter(|below| !below.as_os_str().is_empty())
    }

    /// The name in a request, if it can be a folder, and then the default.
    pub fn names<'a>(&'a self, authority: &'a [u8]) -> impl Iterator<Item = FolderName<'a>> {
        FolderName::of(authority).into_iter().chain(self.default.as_ref().map(FolderName::borrowed))
    }

    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        std::iter::once(&mut self.base)
    }
}

/// As a configuration writes it.
impl fmt::Display for HostFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.base.display())?;
        for segment in &self.named {
            f.write_str("/")?;
            for part in segment {
                match part {
                    Part::Literal(text) => f.write_str(text)?,
                    Part::Name => f.write_str("$host")?,
                    Part::Level(at) => write!(f, "$level{}", at + 1)?,
                }
            }
        }
        match self.tail.as_str() {
            "" => Ok(()),
            tail => write!(f, "/{tail}"),
        }
    }
}

/// The only name that can make these parts the text of a segment. It need not do so.
fn name_in<'s>(segment: &'s str, parts: &[Part]) -> Option<FolderName<'s>> {
    let length = |part: &Part| match part {
        Part::Literal(text) => text.len(),
        Part::Level(_) => 1,
        Part::Name => 0,
    };
    let names = parts.iter().filter(|part| **part == Part::Name).count();
    let others: usize = parts.iter().map(length).sum();
    let start: usize = parts.iter().take_while(|part| **part != Part::Name).map(length).sum();
    let end = start + segment.len().checked_sub(others)?.checked_div(names)?;
    FolderName::of(segment.get(start..end)?.as_bytes())
}

fn literals(parts: &[Part]) -> &str {
    match parts {
        [Part::Literal(text)] => text,
        _ => "",
    }
}

/// The parts of one segment.
fn parts(segment: &str) -> Result<Vec<Part>, FolderError> {
    let mut parts = Vec::new();
    let mut rest = segment;
    while let Some((before, behind)) = rest.split_once('$') {
        if !before.is_empty() {
            parts.push(Part::Literal(before.to_owned()));
        }
        let levels = (1..=LEVELS).map(|level| (format!("level{level}"), Part::Level(level - 1)));
        let mut known = [("host".to_owned(), Part::Name), ("$".to_owned(), Part::Literal("$".to_owned()))]
            .into_iter()
            .chain(levels);
        let (name, part) = known.find(|(name, _)| behind.starts_with(name)).ok_or(FolderError::Variable)?;
        parts.push(part);
        rest = &behind[name.len()..];
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest.to_owned()));
    }
    Ok(parts)
}

impl<'a> FolderName<'a> {
    /// The name in an authority. `None`: it cannot be a folder.
    pub fn of(authority: &'a [u8]) -> Option<FolderName<'a>> {
        let name = std::str::from_utf8(name_of(authority)).ok()?;
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = (1..=MAX_NAME).contains(&name.len())
            && name.bytes().all(is_of_name)
            && name.split('.').all(|label| !label.is_empty());
        is_name.then(|| match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => FolderName(Cow::Owned(name.to_ascii_lowercase())),
            false => FolderName(Cow::Borrowed(name)),
        })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn borrowed(&self) -> FolderName<'_> {
        FolderName(Cow::Borrowed(&self.0))
    }

    pub fn into_owned(self) -> FolderName<'static> {
        FolderName(Cow::Owned(self.0.into_owned()))
    }

    /// A letter for a level of folders, as thttpd chooses it: without `www.` and dots, and `_` behind the end.
    fn letter(&self, at: usize) -> char {
        let name = self.0.strip_prefix("www.").unwrap_or(&self.0);
        name.chars().filter(|letter| *letter != '.').nth(at).unwrap_or('_')
    }
}

impl UserFolders {
    /// The user in a path `~user/…`. `None`: there is none who may have a folder.
    pub fn user<'p>(&self, path: &'p SafePath<'_>) -> Option<&'p str> {
        let first = path.as_str().split('/').next()?;
        let user = first.strip_prefix('~')?;
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = (1..=MAX_USER).contains(&user.len())
            && user.bytes().all(is_of_name)
            && !user.starts_with(['-', '.']);
        let is_listed = |list: &[String]| list.iter().any(|other| other == user);
        let may = (self.only.is_empty() || is_listed(&self.only)) && !is_listed(&self.except);
        (is_name && may).then_some(user)
    }

    /// The home of a user in the text of the passwd file. `None`: there is no such account, or it is one of the system, or
    /// its home is elsewhere.
    pub fn home(&self, passwd: &[u8], user: &str) -> Option<Home<'_>> {
        let mut lines = passwd.split(|byte| *byte == b'\n');
        let line = lines.find(|line| {
            line.strip_prefix(user.as_bytes()).is_some_and(|rest| rest.first() == Some(&b':'))
        })?;
        let fields: Vec<&str> = std::str::from_utf8(line).ok()?.split(':').collect();
        let [_, _, uid, _, _, home, shell] = fields[..] else { return None };
        let uid: u32 = uid.parse().ok()?;
        let shell = shell.rsplit('/').next().unwrap_or(shell);
        if uid == 0 || uid == NOBODY || uid < self.least_uid || NO_SHELLS.contains(&shell) {
            return None;
        }
        let home = Path::new(home);
        self.homes.iter().find_map(|base| {
            let below = home.strip_prefix(base).ok()?.to_str()?;
            let is_plain =
                home.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
            let below = SafePath::from_decoded(&["/", below].concat()).ok()?;
            (is_plain && !below.as_str().is_empty()).then_some(Home { base, below })
        })
    }

    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.homes.iter_mut().chain([&mut self.passwd])
    }
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FolderError::Variable => {
                "the variables are $host, $level1, $level2 and $level3; a dollar sign is $$"
            }
            FolderError::NoName => "add $host, or several names would share a folder",
            FolderError::NoBase => {
                "begin it with a folder that contains nothing else, such as \"/srv/www/$host\""
            }
            FolderError::NotUtf8 => "write it in UTF-8",
            FolderError::Segment => "leave out \"..\", backslashes and control characters",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(text: &str) -> Result<HostFolder, FolderError> {
        HostFolder::parse(text, Path::new("/etc")).expect("it has a variable")
    }

    #[test]
    fn a_path_is_beneath_the_folder_of_one_name() {
        for (text, path, expected) in [
            ("/v/$host/htdocs", "/v/a.b/htdocs/x/y.cgi", Some("x/y.cgi")),
            ("/v/$host/htdocs", "/v/a.b/htdocs", None),
            ("/v/$host/htdocs", "/v/a.b/private/y.cgi", None),
            ("/v/$host/htdocs", "/v/A.b/htdocs/y.cgi", None),
            ("/v/$host/htdocs", "/v/a:80/htdocs/y.cgi", None),
            ("/v/$host/htdocs", "/v/a./htdocs/y.cgi", None),
            ("/v/$host/htdocs", "/v/ä/htdocs/y.cgi", None),
            ("/v/$host/htdocs", "/w/a/htdocs/y.cgi", None),
            ("/v/$host", "/v/y.cgi", None),
            ("/v/$host", "/v/a/y.cgi", Some("y.cgi")),
            ("/v/$level1/$host", "/v/a/abc/y.cgi", Some("y.cgi")),
            ("/v/$level1/$host", "/v/b/abc/y.cgi", None),
            ("/v/$host/$level2", "/v/abc/b/y.cgi", Some("y.cgi")),
            ("/v/x-$host-$level1.d", "/v/x-abc-a.d/y.cgi", Some("y.cgi")),
            ("/v/x-$host-$level1.d", "/v/x-abc-b.d/y.cgi", None),
            ("/v/x-$host-$level1.d", "/v/x/y.cgi", None),
            ("/v/$host+$host", "/v/ab+ab/y.cgi", Some("y.cgi")),
            ("/v/$host+$host", "/v/ab+ac/y.cgi", None),
        ] {
            assert_eq!(
                folder(text).unwrap().below(Path::new(path)),
                expected.map(Path::new),
                "{text} {path}"
            );
        }
    }

    #[test]
    fn a_name_has_a_folder_of_its_own() {
        for (text, name, expected) in [
            ("/srv/www/$host", "a.example", "/srv/www a.example "),
            ("/srv/www/$host/htdocs", "A.Example:80", "/srv/www a.example htdocs"),
            ("/srv/www/$host/htdocs", "a.example.", "/srv/www a.example htdocs"),
            ("sites/$host", "192.0.2.1:8080", "/etc/sites 192.0.2.1 "),
            ("/v/$level1/$level2/$level3/$host", "www.acme.com", "/v a/c/m/www.acme.com "),
            ("/v/$level1/$level2/$level3/$host", "www.a.b", "/v a/b/_/www.a.b "),
            ("/v/$level1$level2/x-$host/a/b", "q", "/v q_/x-q a/b"),
            ("/v/$$x/$host", "q", "/v $x/q "),
        ] {
            let folder = folder(text).unwrap();
            let name = folder.names(name.as_bytes()).next().unwrap();
            let named = folder.of(&name).unwrap();
            let found = format!("{} {} {}", folder.base.display(), named.as_str(), folder.tail.as_str());
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(HostFolder::parse("/srv/www", Path::new("/")), None);
        assert_eq!(folder("/v/$level2/$host/x").unwrap().to_string(), "/v/$level2/$host/x");
        for (text, error) in [
            ("/srv/$name", FolderError::Variable),
            ("/srv/$", FolderError::Variable),
            ("/srv/$$", FolderError::Variable),
            ("/srv/$level1", FolderError::NoName),
            ("/$host", FolderError::NoBase),
            ("/srv/$host/../x", FolderError::Segment),
            ("/srv/$host\\/x", FolderError::Segment),
        ] {
            assert_eq!(folder(text), Err(error), "{text}");
        }
    }

    #[test]
    fn what_is_no_name_has_the_default_or_nothing() {
        let mut folder = folder("/srv/$host").unwrap();
        let long = "a".repeat(254);
        let bad =
            ["", ".", "..", "a..b", ".a", "a/b", "a\\b", "[::1]", "a b", "a\0", "é.example", "~a", &long];
        for name in bad {
            assert_eq!(folder.names(name.as_bytes()).next(), None, "{name}");
        }
        folder.default = FolderName::of(b"default").map(FolderName::into_owned);
        for name in bad {
            assert_eq!(folder.names(name.as_bytes()).next().unwrap().as_str(), "default", "{name}");
        }
        assert_eq!(folder.names(&long.as_bytes()[..253]).next().unwrap().as_str().len(), 253);
    }

    const ACCOUNTS: &str = "root:x:0:0:root:/root:/bin/bash\n\
        daemon:x:1:1::/home/daemon:/bin/sh\n\
        nobody:x:65534:65534::/home/nobody:/bin/sh\n\
        ann:x:1000:1000:Ann,,,:/home/ann:/bin/bash\n\
        anna:x:1001:1000::/data/homes/anna:\n\
        locked:x:1002:1000::/home/locked:/usr/sbin/nologin\n\
        other:x:1003:1000::/other/place:/bin/sh\n\
        all:x:1004:1000::/home:/bin/sh\n\
        up:x:1005:1000::/home/../etc:/bin/sh\n\
        short:x:1006:1000\n";

    fn users() -> UserFolders {
        UserFolders {
            folder: SafePath::from_decoded("/public_html").unwrap(),
            homes: vec!["/home".into(), "/data/homes".into()],
            passwd: PASSWD.into(),
            least_uid: 1000,
            only: Vec::new(),
            except: Vec::new(),
        }
    }

    #[test]
    fn only_people_have_folders() {
        let users = users();
        for (user, expected) in [
            ("ann", Some("/home ann")),
            ("anna", Some("/data/homes anna")),
            ("root", None),
            ("daemon", None),
            ("nobody", None),
            ("locked", None),
            ("other", None),
            ("all", None),
            ("up", None),
            ("short", None),
            ("an", None),
            ("missing", None),
        ] {
            let home = users.home(ACCOUNTS.as_bytes(), user);
            let home = home.map(|home| format!("{} {}", home.base.display(), home.below.as_str()));
            assert_eq!(home.as_deref(), expected, "{user}");
        }
    }

    #[test]
    fn finds_the_user_of_a_path() {
        let mut users = users();
        let user =
            |users: &UserFolders, path: &str| users.user(&SafePath::parse(path).unwrap()).map(str::to_owned);
        for (path, expected) in [
            ("/~ann", Some("ann")),
            ("/~ann/", Some("ann")),
            ("/~ann/x/y", Some("ann")),
            ("/%7Eann/x", Some("ann")),
            ("/~", None),
            ("/~/x", None),
            ("/ann/", None),
            ("/x/~ann", None),
            ("/~a:b/", None),
            ("/~-x/", None),
            ("/~.x/", None),
            ("/~a%20b/", None),
        ] {
            assert_eq!(user(&users, path).as_deref(), expected, "{path}");
        }
        users.except = vec!["ann".to_owned()];
        assert_eq!((user(&users, "/~ann"), user(&users, "/~bob").as_deref()), (None, Some("bob")));
        users.only = vec!["ann".to_owned(), "carl".to_owned()];
        assert_eq!((user(&users, "/~ann"), user(&users, "/~bob")), (None, None));
        assert_eq!(user(&users, "/~carl").as_deref(), Some("carl"));
    }
}
